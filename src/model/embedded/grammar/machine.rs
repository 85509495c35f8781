use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{Id, MAX_DEPTH, MAX_DIGITS, Member, Node, PLACES, schema::Compiler};

/// Stacks that are followed at the same time; alternatives beyond are not offered.
const MAX_STACKS: usize = 256;
/// Characters of a free key.
const MAX_KEY: u32 = 64;
const NEVER: u32 = u32::MAX;

/// A compiled grammar.
#[derive(Debug)]
pub(in super::super) struct Machine {
    nodes: Vec<Node>,
    /// How many levels a node needs at least.
    depths: Vec<u32>,
    root: Id,
}

/// Where a machine stands: all ways in which what was written so far can go on.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct State(Vec<Stack>);

type Stack = Option<Arc<Link>>;

#[derive(Debug, PartialEq)]
struct Link {
    frame: Frame,
    below: Stack,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Frame {
    Value {
        node: Id,
        depth: u32,
    },
    /// The rest of a fixed piece of text.
    Fixed(&'static [u8]),
    Choice {
        node: Id,
        low: usize,
        high: usize,
        offset: usize,
    },
    /// Inside the quotes.
    Text {
        min: u32,
        max: u32,
        within: Within,
    },
    Number {
        node: Id,
        digits: Digits,
    },
    Items {
        node: Id,
        count: u32,
        depth: u32,
    },
    Members {
        node: Id,
        index: usize,
        first: bool,
        depth: u32,
    },
    Key {
        node: Id,
        index: usize,
        offset: usize,
    },
    Entries {
        node: Id,
        count: u32,
        depth: u32,
    },
}

/// Where inside a string the machine is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Within {
    Plain,
    Escape,
    /// So many bytes of a character are left, the next one between two bounds.
    Character {
        left: u8,
        low: u8,
        high: u8,
    },
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Digits {
    negative: bool,
    value: i128,
    whole: u32,
    /// Digits behind the point, once there is one.
    behind: Option<u32>,
}

impl Machine {
    /// Follows one schema.
    #[cfg(test)]
    pub(super) fn of(schema: &Value) -> Self {
        let mut compiler = Compiler::default();
        let root = compiler.compile(schema);
        Self::finish(compiler.nodes, root)
    }

    /// Follows `before name after arguments` for one of several tools; `None` when none can be called.
    pub(in super::super) fn of_calls<'a>(
        tools: impl Iterator<Item = (&'a str, &'a Value)>,
        before: &str,
        after: &str,
    ) -> Option<Self> {
        let mut compiler = Compiler::default();
        let compiled: Vec<(&str, Id)> = tools.map(|(name, schema)| (name, compiler.compile(schema))).collect();
        let depths = depths(&compiler.nodes);
        let callable = compiled.into_iter().filter(|(_, id)| depths.get(*id).is_some_and(|depth| *depth <= MAX_DEPTH));
        let literal = |(name, id): (&str, Id)| (format!("{before}{}{after}", Value::from(name)).into_bytes().into(), Some(id));
        let literals: BTreeMap<Box<[u8]>, Option<Id>> = callable.map(literal).collect();
        if literals.is_empty() {
            return None;
        }
        let root = compiler.push(Node::Choice(literals.into_iter().collect()));
        Some(Self::finish(compiler.nodes, root))
    }

    fn finish(nodes: Vec<Node>, root: Id) -> Self {
        let depths = depths(&nodes);
        Self { nodes, depths, root }
    }

    pub(in super::super) fn start(&self) -> State {
        let mut state = State(Vec::new());
        self.open(push(None, Frame::Value { node: self.root, depth: 0 }), &mut state);
        state
    }

    /// Takes one byte; `None` when nothing can go on with it.
    pub(in super::super) fn step(&self, state: &State, byte: u8) -> Option<State> {
        let mut next = State(Vec::new());
        for link in state.0.iter().flatten() {
            self.take(link, byte, &mut next);
        }
        (!next.0.is_empty()).then_some(next)
    }

    /// Takes several bytes.
    pub(in super::super) fn steps(&self, state: &State, bytes: &[u8]) -> Option<State> {
        let (first, rest) = bytes.split_first()?;
        rest.iter().try_fold(self.step(state, *first)?, |state, byte| self.step(&state, *byte))
    }

    fn node(&self, id: Id) -> &Node {
        self.nodes.get(id).unwrap_or(&Node::Never)
    }

    fn fits(&self, id: Id, depth: u32) -> bool {
        self.depths.get(id).is_some_and(|needed| depth.saturating_add(*needed) <= MAX_DEPTH)
    }

    /// Goes on with what needs no byte, until each stack waits for one or is at its end.
    fn open(&self, stack: Stack, out: &mut State) {
        let Some(link) = &stack else { return out.add(None) };
        let below = || link.below.clone();
        match link.frame {
            Frame::Value { node, depth } => self.enter(node, depth, &below(), out),
            Frame::Fixed(b"") => self.open(below(), out),
            Frame::Choice { node, low, high, offset } => self.choose(node, low, high, offset, &below(), out),
            Frame::Number { node, digits } => {
                if self.is_complete(node, digits) {
                    self.open(below(), out);
                }
                out.add(stack);
            }
            Frame::Items { node, count, depth } => self.items(node, count, depth, &below(), out),
            Frame::Members { node, index, first, depth } => self.members(node, index, first, depth, &below(), out),
            Frame::Entries { node, count, depth } => self.entries(node, count, depth, &below(), out),
            Frame::Fixed(_) | Frame::Text { .. } | Frame::Key { .. } => out.add(stack),
        }
    }

    fn enter(&self, id: Id, depth: u32, below: &Stack, out: &mut State) {
        if !self.fits(id, depth) {
            return;
        }
        let then = |frame| push(below.clone(), frame);
        match self.node(id) {
            Node::Never => {}
            Node::Any(of) => of.iter().for_each(|node| self.enter(*node, depth, below, out)),
            Node::Choice(literals) => self.choose(id, 0, literals.len(), 0, below, out),
            Node::Text { min, max } => {
                let text = then(Frame::Text { min: *min, max: *max, within: Within::Plain });
                out.add(push(text, Frame::Fixed(b"\"")));
            }
            Node::Number { .. } => {
                let digits = Digits { negative: false, value: 0, whole: 0, behind: None };
                out.add(then(Frame::Number { node: id, digits }));
            }
            Node::List { .. } => out.add(push(then(Frame::Items { node: id, count: 0, depth }), Frame::Fixed(b"["))),
            Node::Object(_) => out.add(push(then(Frame::Members { node: id, index: 0, first: true, depth }), Frame::Fixed(b"{"))),
            Node::Map { .. } => out.add(push(then(Frame::Entries { node: id, count: 0, depth }), Frame::Fixed(b"{"))),
        }
    }

    fn choose(&self, node: Id, low: usize, high: usize, offset: usize, below: &Stack, out: &mut State) {
        let Node::Choice(literals) = self.node(node) else { return };
        let mut low = low;
        if let Some((literal, then)) = literals.get(low)
            && literal.len() == offset
        {
            low += 1;
            let value = then.map(|node| Frame::Value { node, depth: 0 });
            self.open(value.map_or_else(|| below.clone(), |value| push(below.clone(), value)), out);
        }
        if low < high {
            out.add(push(below.clone(), Frame::Choice { node, low, high, offset }));
        }
    }

    fn items(&self, node: Id, count: u32, depth: u32, below: &Stack, out: &mut State) {
        let Node::List { first, item, min, max } = self.node(node) else { return };
        if count >= *min {
            out.add(push(below.clone(), Frame::Fixed(b"]")));
        }
        let item = usize::try_from(count).ok().and_then(|i| first.get(i)).unwrap_or(item);
        if count < *max && self.fits(*item, depth + 1) {
            let rest = push(below.clone(), Frame::Items { node, count: count + 1, depth });
            self.comma(push(rest, Frame::Value { node: *item, depth: depth + 1 }), count == 0, out);
        }
    }

    fn members(&self, node: Id, index: usize, first: bool, depth: u32, below: &Stack, out: &mut State) {
        let Node::Object(members) = self.node(node) else { return };
        let Some(Member { value, required, .. }) = members.get(index) else {
            return out.add(push(below.clone(), Frame::Fixed(b"}")));
        };
        if self.fits(*value, depth + 1) {
            let rest = push(below.clone(), Frame::Members { node, index: index + 1, first: false, depth });
            let value = push(rest, Frame::Value { node: *value, depth: depth + 1 });
            self.comma(push(value, Frame::Key { node, index, offset: 0 }), first, out);
        }
        if !required {
            self.members(node, index + 1, first, depth, below, out);
        }
    }

    fn entries(&self, node: Id, count: u32, depth: u32, below: &Stack, out: &mut State) {
        let Node::Map { value, min, max } = self.node(node) else { return };
        if count >= *min {
            out.add(push(below.clone(), Frame::Fixed(b"}")));
        }
        if count < *max && self.fits(*value, depth + 1) {
            let rest = push(below.clone(), Frame::Entries { node, count: count + 1, depth });
            let value = push(push(rest, Frame::Value { node: *value, depth: depth + 1 }), Frame::Fixed(b": "));
            let key = push(value, Frame::Text { min: 1, max: MAX_KEY, within: Within::Plain });
            self.comma(push(key, Frame::Fixed(b"\"")), count == 0, out);
        }
    }

    /// Goes on with `stack`, behind a comma when it is not the first of its kind.
    fn comma(&self, stack: Stack, first: bool, out: &mut State) {
        if first { self.open(stack, out) } else { out.add(push(stack, Frame::Fixed(b", "))) }
    }

    fn take(&self, link: &Link, byte: u8, out: &mut State) {
        let below = &link.below;
        match link.frame {
            Frame::Fixed(text) => {
                if let Some((first, rest)) = text.split_first()
                    && *first == byte
                {
                    self.open(if rest.is_empty() { below.clone() } else { push(below.clone(), Frame::Fixed(rest)) }, out);
                }
            }
            Frame::Key { node, index, offset } => self.key(node, index, offset, byte, below, out),
            Frame::Choice { node, low, high, offset } => self.narrow(node, (low, high), offset, byte, below, out),
            Frame::Text { min, max, within } => match text(min, max, within, byte) {
                Some(Some(frame)) => out.add(push(below.clone(), frame)),
                Some(None) => self.open(below.clone(), out),
                None => {}
            },
            Frame::Number { node, digits } => {
                if let Some(digits) = self.digit(node, digits, byte) {
                    self.open(push(below.clone(), Frame::Number { node, digits }), out);
                }
            }
            // These need no byte and were opened before.
            Frame::Value { .. } | Frame::Items { .. } | Frame::Members { .. } | Frame::Entries { .. } => {}
        }
    }

    fn key(&self, node: Id, index: usize, offset: usize, byte: u8, below: &Stack, out: &mut State) {
        let Node::Object(members) = self.node(node) else { return };
        let Some(member) = members.get(index) else { return };
        if member.key.get(offset) != Some(&byte) {
            return;
        }
        let done = offset + 1 == member.key.len();
        self.open(if done { below.clone() } else { push(below.clone(), Frame::Key { node, index, offset: offset + 1 }) }, out);
    }

    /// The literals are sorted, so those that go on with a byte stand together.
    fn narrow(&self, node: Id, (low, high): (usize, usize), offset: usize, byte: u8, below: &Stack, out: &mut State) {
        let Node::Choice(literals) = self.node(node) else { return };
        let Some(range) = literals.get(low..high) else { return };
        let at = |(literal, _): &(Box<[u8]>, Option<Id>)| literal.get(offset).copied();
        let from = low + range.partition_point(|literal| at(literal) < Some(byte));
        let to = low + range.partition_point(|literal| at(literal) <= Some(byte));
        if from < to {
            self.choose(node, from, to, offset + 1, below, out);
        }
    }

    fn is_complete(&self, node: Id, digits: Digits) -> bool {
        let Node::Number { low, high, places } = self.node(node) else { return false };
        let minus_zero = digits.negative && digits.value == 0 && digits.behind.is_none();
        if digits.whole == 0 || digits.behind == Some(0) || minus_zero {
            return false;
        }
        let value = digits.value * power(places - digits.behind.unwrap_or(0));
        let value = if digits.negative { -value } else { value };
        (*low..=*high).contains(&value)
    }

    fn digit(&self, node: Id, before: Digits, byte: u8) -> Option<Digits> {
        let Node::Number { low, high, places } = self.node(node) else { return None };
        let mut next = before;
        match byte {
            b'-' if !before.negative && before.whole == 0 => next.negative = true,
            b'.' if before.whole > 0 && before.behind.is_none() && *places > 0 => next.behind = Some(0),
            b'0'..=b'9' => {
                let leading_zero = before.whole == 1 && before.value == 0 && before.behind.is_none();
                let full = before.behind.map_or(before.whole >= MAX_DIGITS, |behind| behind >= *places);
                if leading_zero || full {
                    return None;
                }
                next.value = before.value * 10 + i128::from(byte - b'0');
                match &mut next.behind {
                    Some(behind) => *behind += 1,
                    None => next.whole += 1,
                }
            }
            _ => return None,
        }
        next.reaches(*low, *high, *places).then_some(next)
    }
}

impl Digits {
    /// Whether some number that begins like this lies between the bounds.
    fn reaches(self, low: i128, high: i128, places: u32) -> bool {
        let within = |from: i128, to: i128| {
            let (from, to) = if self.negative { (-to, -from) } else { (from, to) };
            from <= high && to >= low
        };
        if let Some(behind) = self.behind {
            let unit = power(places - behind);
            return within(self.value * unit, self.value * unit + unit - 1);
        }
        let unit = power(places);
        if self.whole == 0 {
            let least = if places == 0 { 1 } else { 0 };
            return within(least, power(MAX_DIGITS) * unit - 1);
        }
        if self.value == 0 {
            return (places > 0 || !self.negative) && within(0, unit - 1);
        }
        (0..=MAX_DIGITS - self.whole).any(|more| {
            let from = self.value * power(more) * unit;
            within(from, from + power(more) * unit - 1)
        })
    }
}

const fn power(of_ten: u32) -> i128 {
    10i128.pow(if of_ten > MAX_DIGITS + PLACES { MAX_DIGITS + PLACES } else { of_ten })
}

/// One byte inside a string: the frame behind it, or nothing when it closes the string.
fn text(min: u32, max: u32, within: Within, byte: u8) -> Option<Option<Frame>> {
    let next = |within| Some(Some(Frame::Text { min: min.saturating_sub(1), max: max.checked_sub(1)?, within }));
    let same = |within| Some(Some(Frame::Text { min, max, within }));
    let character = |left, low, high| next(Within::Character { left, low, high });
    match (within, byte) {
        (Within::Plain, b'"') => (min == 0).then_some(None),
        (Within::Plain, b'\\') => next(Within::Escape),
        (Within::Plain, 0x20..=0x7e) => next(Within::Plain),
        (Within::Plain, 0xc2..=0xdf) => character(1, 0x80, 0xbf),
        (Within::Plain, 0xe0) => character(2, 0xa0, 0xbf),
        (Within::Plain, 0xed) => character(2, 0x80, 0x9f),
        (Within::Plain, 0xe1..=0xef) => character(2, 0x80, 0xbf),
        (Within::Plain, 0xf0) => character(3, 0x90, 0xbf),
        (Within::Plain, 0xf1..=0xf3) => character(3, 0x80, 0xbf),
        (Within::Plain, 0xf4) => character(3, 0x80, 0x8f),
        (Within::Escape, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => same(Within::Plain),
        (Within::Character { left, low, high }, byte) if (low..=high).contains(&byte) => match left {
            1 => same(Within::Plain),
            _ => same(Within::Character { left: left - 1, low: 0x80, high: 0xbf }),
        },
        _ => None,
    }
}

impl State {
    fn add(&mut self, stack: Stack) {
        if self.0.len() < MAX_STACKS && !self.0.contains(&stack) {
            self.0.push(stack);
        }
    }

    /// Whether what was written may end here.
    #[cfg(test)]
    pub(super) fn may_end(&self) -> bool {
        self.0.contains(&None)
    }

    /// Whether it must.
    pub(in super::super) fn is_over(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

fn push(below: Stack, frame: Frame) -> Stack {
    Some(Arc::new(Link { frame, below }))
}

/// The least number of levels that each node needs; `NEVER` where nothing fits.
fn depths(nodes: &[Node]) -> Vec<u32> {
    let mut depths = vec![NEVER; nodes.len()];
    for _ in 0..=MAX_DEPTH {
        let before = depths.clone();
        for (depth, node) in depths.iter_mut().zip(nodes) {
            *depth = needs(node, |id| before.get(id).copied().unwrap_or(NEVER));
        }
        if depths == before {
            break;
        }
    }
    depths
}

fn needs(node: &Node, depth: impl Fn(Id) -> u32) -> u32 {
    let inside = |id: Id| depth(id).saturating_add(1);
    match node {
        Node::Never => NEVER,
        Node::Choice(_) => 0,
        Node::Text { min, max } if min <= max => 0,
        Node::Number { low, high, .. } if low <= high => 0,
        Node::Text { .. } | Node::Number { .. } => NEVER,
        Node::List { min, max, .. } | Node::Map { min, max, .. } if min > max => NEVER,
        Node::List { min: 0, .. } | Node::Map { min: 0, .. } => 0,
        Node::List { first, item, min, .. } => {
            let rest = (usize::try_from(*min).unwrap_or(usize::MAX) > first.len()).then_some(item);
            let needed = first.iter().take(usize::try_from(*min).unwrap_or(usize::MAX)).chain(rest);
            needed.map(|id| inside(*id)).max().unwrap_or(0)
        }
        Node::Map { value, .. } => inside(*value),
        Node::Object(members) => {
            members.iter().filter(|member| member.required).map(|member| inside(member.value)).max().unwrap_or(0)
        }
        Node::Any(of) => of.iter().map(|id| depth(*id)).min().unwrap_or(NEVER),
    }
}
