//! The command line: one file per verb, rendering and exit codes. stdout is data, stderr is talk (SPEC §12).
//!
//! What runs without a daemon (`run`, `once`, `tools`, `doctor`) stands on `runtime`; what a daemon does is asked through `api`.

mod apply;
mod args;
mod audit;
mod bench;
mod context;
mod decide;
mod decisions;
mod dispatch;
mod doctor;
mod events;
mod failure;
mod freeze;
mod fund;
mod get;
mod history;
mod las;
mod logs;
mod man;
mod model;
mod offline;
mod operate;
mod pause;
mod progress;
mod questions;
mod serve;
mod service;
mod single;
mod skill;
mod skill_body;
mod skill_run;
mod state;
mod stop;
mod table;
mod tree;
mod wait;

pub use dispatch::main;
