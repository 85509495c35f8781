//! What may come next: a machine over bytes that follows a JSON Schema.
//!
//! A schema becomes a table of nodes; where the machine stands is a set of stacks of frames, because alternatives (`anyOf`, optional
//! properties, the end of a number) are open until a byte decides. Every path is finite: strings, lists, numbers and depth have bounds, and a
//! path is only taken when it can be finished within them. What comes out is a subset of what the schema allows, in one fixed spelling:
//! `", "` and `": "` between things, properties in the order of the schema. Keywords that a byte machine cannot keep (`pattern`, `not`,
//! `multipleOf`, …) are left to the check of the finished value.

mod machine;
mod schema;

pub(super) use machine::{Machine, State};

#[cfg(test)]
mod tests;

/// Characters of a string whose schema sets no bound.
const MAX_TEXT: u32 = 4_096;
/// Items of a list whose schema sets no bound.
const MAX_ITEMS: u32 = 32;
/// Entries of an object with free keys whose schema sets no bound.
const MAX_ENTRIES: u32 = 8;
/// Levels of nesting.
const MAX_DEPTH: u32 = 16;
/// Nodes of one schema; what is beyond is any JSON.
const MAX_NODES: usize = 20_000;
/// Digits before the point.
const MAX_DIGITS: u32 = 15;
/// Digits behind the point.
const PLACES: u32 = 6;

type Id = usize;

/// One piece of a schema.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Nothing fits.
    Never,
    /// One of some literals, sorted and different, each with what follows it.
    Choice(Vec<(Box<[u8]>, Option<Id>)>),
    Text {
        min: u32,
        max: u32,
    },
    /// A number in units of 10^-`places`, between two bounds.
    Number {
        low: i128,
        high: i128,
        places: u32,
    },
    List {
        first: Vec<Id>,
        item: Id,
        min: u32,
        max: u32,
    },
    Object(Vec<Member>),
    Map {
        value: Id,
        min: u32,
        max: u32,
    },
    Any(Vec<Id>),
}

#[derive(Debug, Clone, PartialEq)]
struct Member {
    /// `"key": `, as it is written.
    key: Box<[u8]>,
    value: Id,
    required: bool,
}
