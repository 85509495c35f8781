//! GitOps for autonomous agents: manifests declare beings, a reconciler makes what runs equal to what is declared.
//!
//! # The way of the data
//!
//! ```text
//! files ─▶ manifest ─▶ Fleet ─┐
//!                             ├─▶ plan ─▶ Plan ─▶ judge ─▶ reconcile ─▶ runtime ─▶ being (pure step machine)
//! status ◀─ Observed ◀────────┘                                          │  ▲
//!                                                                 Ready  ▼  │ Input
//!                                        store · model · tool · decision · skill · capability
//! cli ─▶ api (unix socket, HTTP) ─▶ reconcile, runtime                surface ◀─ tool
//! ```
//!
//! Everything goes one way. Text becomes a typed, resolved [`manifest::Fleet`]; a pure function compares it with what is observed and
//! yields a plan so exact that nothing is left to choose; a second, independent checker judges it; the reconciler carries it out; each
//! running being is a pure state machine that says what must be durable and what it wants done, and is told the results.
//!
//! # Rooms
//!
//! Each folder of `src/` is a room with a floor. A room may use what is named and below or beside it, never what is above it.
//!
//! | floor | room | what lives there | may use |
//! |--:|---|---|---|
//! | 0 | `vocab` | checked names, addresses, money, digests, spans of time; nothing that acts | — |
//! | 0 | `telemetry` | tracing set-up, metric names, OTLP | vocab |
//! | 1 | `being` | state, mind, budget, events, the step function, shapes of requests and calls | vocab |
//! | 1 | `manifest` | documents as written → layers with origin → checks with spans → `Fleet`; schemas | vocab; two shapes of being |
//! | 1 | `plan` | what is observed, verdicts, the table of hot, restart and refused fields, the judge, diffs | vocab, manifest; a being's identity |
//! | 2 | `store` | the home's layout, lock, journal, commit log, picture, recovery, migrations | vocab, being; spec types |
//! | 2 | `secret` | secrets read from files, variables and credentials, checked, and hidden in what others say | spec types |
//! | 2 | `process` | owned children: group, clean environment, limits, back-off, the supervisor that dies with its parent | vocab |
//! | 2 | `model` | chat completion: OpenAI-shaped, Brama, embedded; fallback chains, limits | vocab, being, secret; spec types |
//! | 3 | `decision` | SemIf requests, engines, tree walk, calibration, decision log | vocab, model |
//! | 3 | `surface` | MCP client, transports, `las` the aggregator | vocab, process, secret; spec types |
//! | 4 | `tool` | catalogue, argument checks, built-ins, approval, output boundary, outcomes | vocab, being, surface, secret; spec types |
//! | 4 | `skill` | Python host and the package it carries, acceptance | vocab, decision, process |
//! | 4 | `capability` | registry, arming, platforms, perception | vocab, being, tool, decision |
//! | 5 | `runtime` | the driver that performs effects, schedules, children, clock and ids, snapshots | floors 0–4 |
//! | 6 | `reconcile` | sources, wake, load → plan → judge → act → status, back-off, history | vocab, manifest, plan, runtime, store, process |
//! | 7 | `api` | unix socket and HTTP, wire types with schemas, events | vocab, manifest, plan, reconcile, runtime |
//! | 8 | `cli`, `main.rs` | one file per verb, rendering, exit codes; no decisions | api; lower doors for what runs without a daemon |
//!
//! The arithmetic of the embedded model is a crate of its own, `kernel/`: it is built fast in every profile, so that the rest need not be.
//!
//! *Spec types* are those of `manifest/spec.rs`: plain data that is handed down. Not every room is built yet; the modules below are those
//! that are.
//!
//! # What keeps it so
//!
//! - `tests/architecture.rs` holds this table as data and fails on any other arrow, on `async`, files, environment, clock or luck in
//!   `vocab`, `being`, `manifest` (its loader aside) and `plan`, on code in a room's `mod.rs`, and on files past 500 lines.
//! - `clippy.toml` bans the clock, the environment, raw file writes, process spawning and unbounded channels, each with its reason; the
//!   one owner of each says `#[expect(…, reason = "…")]`.
//! - `pub(crate)` is the default: a room's door is what its `mod.rs` names.

pub mod api;
pub mod being;
pub mod cli;
pub mod decision;
pub mod manifest;
pub mod model;
pub mod plan;
pub mod process;
pub mod reconcile;
pub mod runtime;
pub mod secret;
pub mod skill;
pub mod store;
pub mod surface;
pub mod telemetry;
pub mod tool;
pub mod vocab;
