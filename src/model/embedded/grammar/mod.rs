//! What may come next: a machine over bytes that follows a JSON Schema.
//!
//! A schema becomes a table of nodes; where the machine stands is a set of stacks of frames, because alternatives (`anyOf`, optional
//! properties, the end of a number) are open until a byte decides. Every path is finite: strings, lists, numbers and depth have bounds, and a
//! path is only taken when it can be finished within them. What comes out is a subset of what the schema allows, in one fixed spelling:
//! `", "` and `": "` between things, properties in the order of the schema. Keywords that a byte machine cannot keep (`pattern`, `not`,
//! `multipleOf`, …) are left to the check of the finished value.

mod machine;
mod node;
mod schema;

pub(super) use machine::{Machine, State};
use node::{Id, MAX_DEPTH, MAX_DIGITS, MAX_ENTRIES, MAX_ITEMS, MAX_NODES, MAX_TEXT, Member, Node, PLACES};

#[cfg(test)]
mod tests;
