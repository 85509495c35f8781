/// Characters of a string whose schema sets no bound.
pub(super) const MAX_TEXT: u32 = 4_096;
/// Items of a list whose schema sets no bound.
pub(super) const MAX_ITEMS: u32 = 32;
/// Entries of an object with free keys whose schema sets no bound.
pub(super) const MAX_ENTRIES: u32 = 8;
/// Levels of nesting.
pub(super) const MAX_DEPTH: u32 = 16;
/// Nodes of one schema; what is beyond is any JSON.
pub(super) const MAX_NODES: usize = 20_000;
/// Digits before the point.
pub(super) const MAX_DIGITS: u32 = 15;
/// Digits behind the point.
pub(super) const PLACES: u32 = 6;

pub(super) type Id = usize;

/// One piece of a schema.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
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
pub(super) struct Member {
    /// `"key": `, as it is written.
    pub(super) key: Box<[u8]>,
    pub(super) value: Id,
    pub(super) required: bool,
}
