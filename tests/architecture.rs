//! Keeps the floors of the house: which room may use which, which rooms are pure, what a `mod.rs` holds, how long a file is.
//!
//! The code is read as tokens, so comments and strings are no uses, and `use` trees, inline paths and the insides of macros are.

use std::{
    collections::BTreeSet,
    error::Error,
    fmt, fs,
    path::{Path, PathBuf},
    str::FromStr,
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// How much of another room a room may use.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    /// All that its door names.
    Whole,
    /// The types of `manifest/spec.rs` alone: resolved specs are plain data, handed down to those who carry them out.
    Specs,
    /// These items alone.
    Only(&'static [&'static str]),
}

use Part::{Only, Specs, Whole};

/// A room: its floor, and what it may use.
#[derive(Debug)]
struct Room {
    name: &'static str,
    floor: u8,
    uses: &'static [(&'static str, Part)],
}

/// The house, as the page of `src/lib.rs` tells it: a room uses what is named, below or beside it, and stands after it.
///
/// Three kinds of arrow are finer than whole rooms. Resolved specs are plain data, so `store`, `model`, `surface` and `tool` may take
/// the types of `manifest/spec.rs`. A spec holds two plain shapes of a being and makes its schedule, and what is observed holds its identity. And `cli` opens doors below `api` for what runs
/// without a daemon: child modes (`las`, `supervise`), `run` and `once`, and fetching a model.
const HOUSE: &[Room] = &[
    Room { name: "vocab", floor: 0, uses: &[] },
    Room { name: "telemetry", floor: 0, uses: &[("vocab", Whole)] },
    Room { name: "being", floor: 1, uses: &[("vocab", Whole)] },
    Room {
        name: "manifest",
        floor: 1,
        uses: &[("vocab", Whole), ("being", Only(&["BadIdentity", "Cadence", "DeclaredIdentity", "Price"]))],
    },
    Room { name: "plan", floor: 1, uses: &[("vocab", Whole), ("manifest", Whole), ("being", Only(&["Identity"]))] },
    Room { name: "store", floor: 2, uses: &[("vocab", Whole), ("being", Whole), ("manifest", Specs)] },
    Room { name: "secret", floor: 2, uses: &[("manifest", Specs)] },
    Room { name: "process", floor: 2, uses: &[("vocab", Whole)] },
    Room { name: "model", floor: 2, uses: &[("vocab", Whole), ("being", Whole), ("secret", Whole), ("manifest", Specs)] },
    Room { name: "decision", floor: 3, uses: &[("vocab", Whole), ("model", Whole)] },
    Room { name: "surface", floor: 3, uses: &[("vocab", Whole), ("process", Whole), ("secret", Whole), ("manifest", Specs)] },
    Room {
        name: "tool",
        floor: 4,
        uses: &[("vocab", Whole), ("being", Whole), ("surface", Whole), ("secret", Whole), ("manifest", Specs)],
    },
    Room { name: "skill", floor: 4, uses: &[("vocab", Whole), ("decision", Whole), ("process", Whole)] },
    Room { name: "capability", floor: 4, uses: &[("vocab", Whole), ("being", Whole), ("tool", Whole), ("decision", Whole)] },
    Room {
        name: "runtime",
        floor: 5,
        uses: &[
            ("vocab", Whole),
            ("telemetry", Whole),
            ("manifest", Whole),
            ("plan", Whole),
            ("being", Whole),
            ("store", Whole),
            ("process", Whole),
            ("secret", Whole),
            ("model", Whole),
            ("decision", Whole),
            ("surface", Whole),
            ("tool", Whole),
            ("skill", Whole),
            ("capability", Whole),
        ],
    },
    Room {
        name: "reconcile",
        floor: 6,
        uses: &[("vocab", Whole), ("manifest", Whole), ("plan", Whole), ("runtime", Whole), ("store", Whole), ("process", Whole)],
    },
    Room {
        name: "api",
        floor: 7,
        uses: &[("vocab", Whole), ("manifest", Whole), ("plan", Whole), ("reconcile", Whole), ("runtime", Whole)],
    },
    Room {
        name: "cli",
        floor: 8,
        uses: &[
            ("vocab", Whole),
            ("telemetry", Whole),
            ("api", Whole),
            ("manifest", Whole),
            ("plan", Whole),
            ("store", Whole),
            ("runtime", Whole),
            ("being", Whole),
            ("model", Whole),
            ("decision", Whole),
            ("skill", Whole),
            ("surface", Only(&["las"])),
            ("process", Whole),
            ("secret", Whole),
        ],
    },
];

/// Rooms that decide: no `async`, no file, no environment, no clock, no luck.
const PURE: &[&str] = &["vocab", "manifest", "plan", "being"];
/// The files of pure rooms that act, because someone must read what is on disk.
const ACTING: &[&str] = &["src/manifest/load.rs"];
/// How long a file gets before it is asked whether it is two.
const LONG: usize = 500;
/// Files that were asked and are one, with the reason.
const ONE_ALL_THE_SAME: &[(&str, &str)] = &[];

/// What is wrong, and where.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Fault {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A path that the code mentions: `use a::{b, c}` is two.
#[derive(Debug)]
struct Mention {
    path: Vec<String>,
    line: usize,
    in_test: bool,
    /// How many inline modules are around it.
    depth: usize,
}

/// Where the reader is.
#[derive(Debug, Clone, Copy)]
struct Place {
    in_test: bool,
    depth: usize,
}

fn is_punct(token: Option<&TokenTree>, wanted: char) -> bool {
    matches!(token, Some(TokenTree::Punct(p)) if p.as_char() == wanted)
}

fn is_word(token: Option<&TokenTree>, wanted: &str) -> bool {
    matches!(token, Some(TokenTree::Ident(word)) if word == wanted)
}

fn line_of(token: Option<&TokenTree>) -> usize {
    token.map_or(1, |token| token.span().start().line)
}

/// Yields where the attribute at `at` ends, and whether it is `cfg(test)`.
fn attribute(tokens: &[TokenTree], at: usize) -> Option<(usize, bool)> {
    let body = at + 1 + usize::from(is_punct(tokens.get(at + 1), '!'));
    match (is_punct(tokens.get(at), '#'), tokens.get(body)) {
        (true, Some(TokenTree::Group(group))) => Some((body + 1, group.stream().to_string().replace(' ', "") == "cfg(test)")),
        _ => None,
    }
}

/// Reads one path or `use` tree that begins at `at`; yields where it ends.
fn path(tokens: &[TokenTree], mut at: usize, prefix: &[String], place: Place, out: &mut Vec<Mention>) -> usize {
    let line = line_of(tokens.get(at));
    let mut path = prefix.to_vec();
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        if word != "self" || path.is_empty() {
            path.push(word.to_string().trim_start_matches("r#").to_owned());
        }
        at += 1;
        if !(is_punct(tokens.get(at), ':') && is_punct(tokens.get(at + 1), ':')) {
            break;
        }
        match tokens.get(at + 2) {
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let tree: Vec<_> = group.stream().into_iter().collect();
                for branch in tree.split(|token| is_punct(Some(token), ',')).filter(|branch| !branch.is_empty()) {
                    self::path(branch, 0, &path, place, out);
                }
                return at + 3;
            }
            Some(TokenTree::Punct(star)) if star.as_char() == '*' => path.push("*".to_owned()),
            Some(TokenTree::Ident(_)) => {}
            _ => break,
        }
        at += 2;
    }
    if path.len() == prefix.len() && is_punct(tokens.get(at), '*') {
        path.push("*".to_owned());
    }
    out.push(Mention { path, line, in_test: place.in_test, depth: place.depth });
    at
}

/// Collects every path that `stream` mentions.
fn mentions(stream: TokenStream, mut place: Place, out: &mut Vec<Mention>) {
    let tokens: Vec<_> = stream.into_iter().collect();
    let outer = place;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        if let Some((end, tests)) = attribute(&tokens, at) {
            place.in_test |= tests;
            at = end;
            continue;
        }
        match token {
            TokenTree::Ident(word) if word == "pub" && matches!(tokens.get(at + 1), Some(TokenTree::Group(_))) => at += 2,
            TokenTree::Ident(_) if at > 0 && is_punct(tokens.get(at - 1), '.') => at += 1,
            TokenTree::Ident(_) => at = path(&tokens, at, &[], place, out).max(at + 1),
            TokenTree::Group(group) => {
                let a_module = at > 1 && is_word(tokens.get(at - 2), "mod") && group.delimiter() == Delimiter::Brace;
                mentions(group.stream(), Place { depth: place.depth + usize::from(a_module), ..place }, out);
                if group.delimiter() == Delimiter::Brace {
                    place = outer;
                }
                at += 1;
            }
            TokenTree::Punct(p) if p.as_char() == ';' => (place, at) = (outer, at + 1),
            _ => at += 1,
        }
    }
}

/// One source file: its path from the crate's root, and its text.
#[derive(Debug)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn modules(&self) -> Vec<&str> {
        let inner = self.file.trim_start_matches("src/").trim_end_matches(".rs");
        inner.split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main")).collect()
    }

    fn room(&self) -> &str {
        self.modules().first().copied().unwrap_or("cli")
    }

    fn fault(&self, line: usize, what: String) -> Fault {
        Fault { file: self.file.to_owned(), line, what }
    }

    /// The path from the crate's root that a mention leads to, if it leaves its own module tree.
    fn target<'m>(&self, mention: &'m Mention) -> Option<&'m [String]> {
        let supers = mention.path.iter().take_while(|part| *part == "super").count();
        let skip = match mention.path.first().map(String::as_str) {
            Some("crate") => 1,
            Some("singularity") if self.file == "src/main.rs" => 1,
            Some("super") if supers == self.modules().len() + mention.depth => supers,
            _ => return None,
        };
        mention.path.get(skip..).filter(|path| !path.is_empty())
    }

    /// Says what is wrong with the uses of this file.
    fn arrows(&self, mentions: &[Mention], specs: &BTreeSet<String>) -> Vec<Fault> {
        let Some(room) = HOUSE.iter().find(|room| room.name == self.room()) else {
            let what = format!("`{}` is no room of the house; give it a floor in tests/architecture.rs", self.room());
            return vec![self.fault(1, what)];
        };
        let opened = |path: &[String]| {
            let item = path.get(1).map_or("", String::as_str);
            self.file == "src/lib.rs"
                || path.first().is_some_and(|to| to == room.name)
                || room.uses.iter().filter(|(to, _)| path.first().is_some_and(|first| first == to)).any(|(_, part)| match part {
                    Whole => true,
                    Specs => specs.contains(item),
                    Only(items) => items.contains(&item),
                })
        };
        let closed = mentions.iter().filter_map(|mention| Some((mention, self.target(mention)?))).filter(|(_, path)| !opened(path));
        closed.map(|(mention, path)| self.fault(mention.line, closed_door(room, path))).collect()
    }

    /// Says where a room that decides also acts.
    fn impurities(&self, mentions: &[Mention]) -> Vec<Fault> {
        if !PURE.contains(&self.room()) || ACTING.contains(&self.file) {
            return Vec::new();
        }
        let acts = mentions.iter().filter(|mention| !mention.in_test).filter(|mention| is_impure(&mention.path));
        let what = |path: &[String]| {
            format!("`{}` in `{}`, which decides and does not act; take it as input", path.join("::"), self.room())
        };
        acts.map(|mention| self.fault(mention.line, what(&mention.path))).collect()
    }

    /// Says what a door (`mod.rs`, `lib.rs`) holds besides docs, `mod` and `use`.
    fn furniture(&self, stream: TokenStream) -> Vec<Fault> {
        if !(self.file.ends_with("/mod.rs") || self.file == "src/lib.rs") {
            return Vec::new();
        }
        let tokens: Vec<_> = stream.into_iter().collect();
        let items = tokens.split(|token| is_punct(Some(token), ';')).map(bare).filter(|item| !item.is_empty());
        let odd = items.filter(|item| !(is_word(item.first(), "use") || is_word(item.first(), "mod") && item.len() == 2));
        odd.map(|item| {
            self.fault(line_of(item.first()), "a door holds docs, `mod` and `use` alone; move this into a file".to_owned())
        })
        .collect()
    }

    fn length(&self, excused: &[(&str, &str)]) -> Option<Fault> {
        let lines = self.text.lines().count();
        let excuse = excused.iter().any(|(file, _)| *file == self.file);
        match (lines > LONG, excuse) {
            (true, false) => Some(self.fault(lines, format!("{lines} lines, more than {LONG}: is this two files?"))),
            (false, true) => Some(self.fault(1, format!("{lines} lines need no exception; remove it"))),
            _ => None,
        }
    }

    fn faults(&self, specs: &BTreeSet<String>) -> Vec<Fault> {
        let Ok(stream) = TokenStream::from_str(self.text) else {
            return vec![self.fault(1, "cannot be read as Rust".to_owned())];
        };
        let mut found = Vec::new();
        mentions(stream.clone(), Place { in_test: false, depth: 0 }, &mut found);
        let mut faults = self.arrows(&found, specs);
        faults.extend(self.impurities(&found));
        faults.extend(self.furniture(stream));
        faults.extend(self.length(ONE_ALL_THE_SAME));
        faults
    }
}

/// The item without its attributes and visibility.
fn bare(item: &[TokenTree]) -> &[TokenTree] {
    let mut at = 0;
    while let Some((end, _)) = attribute(item, at) {
        at = end;
    }
    if is_word(item.get(at), "pub") {
        at += 1 + usize::from(matches!(item.get(at + 1), Some(TokenTree::Group(_))));
    }
    item.get(at..).unwrap_or_default()
}

fn closed_door(room: &Room, path: &[String]) -> String {
    let shown = |(to, part): &(&str, Part)| match part {
        Whole => (*to).to_owned(),
        Specs => format!("{to} (spec types)"),
        Only(items) => format!("{to} ({})", items.join(", ")),
    };
    let open = room.uses.iter().map(shown).collect::<Vec<_>>().join(", ");
    let open = if open.is_empty() { "nothing".to_owned() } else { open };
    format!("`{}` may not use `crate::{}`; it may use {open}", room.name, path.join("::"))
}

fn is_impure(path: &[String]) -> bool {
    let parts: Vec<_> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["async", ..] | ["tokio" | "rand", _, ..] | ["std", "fs" | "env" | "process" | "net" | "thread", ..] => true,
        [_, .., "now" | "new_v4" | "now_v7"] => true,
        parts => parts.contains(&"SystemTime") || parts.contains(&"Instant"),
    }
}

/// The types that `manifest/spec.rs` declares.
fn spec_types(text: &str) -> BTreeSet<String> {
    let tokens: Vec<_> = TokenStream::from_str(text).map(|stream| stream.into_iter().collect()).unwrap_or_default();
    let declared = tokens.windows(3).filter_map(|window| match window {
        [TokenTree::Ident(open), TokenTree::Ident(kind), TokenTree::Ident(name)]
            if open == "pub" && ["struct", "enum"].iter().any(|wanted| kind == wanted) =>
        {
            Some(name.to_string())
        }
        _ => None,
    });
    declared.collect()
}

fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            rust_files(&path, out)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            out.push(path);
        }
    }
    Ok(())
}

#[test]
fn every_arrow_in_the_source_is_in_the_table() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let specs = spec_types(&fs::read_to_string(root.join("src/manifest/spec.rs"))?);
    let mut files = Vec::new();
    rust_files(&root.join("src"), &mut files)?;
    let mut faults = Vec::new();
    for path in &files {
        let text = fs::read_to_string(path)?;
        let file = path.strip_prefix(root)?.to_string_lossy();
        faults.extend(Source { file: &file, text: &text }.faults(&specs));
    }
    faults.sort();
    let told: Vec<_> = faults.iter().map(Fault::to_string).collect();
    assert!(files.len() > 10 && specs.contains("BeingSpec"), "the source was not found under {}", root.display());
    assert!(told.is_empty(), "{} faults\n{}", told.len(), told.join("\n"));
    Ok(())
}

#[test]
fn no_room_looks_up_and_no_two_look_at_each_other() {
    let place = |name: &str| HOUSE.iter().position(|room| room.name == name);
    for (at, room) in HOUSE.iter().enumerate() {
        for (to, _) in room.uses {
            let below = place(to).filter(|below| *below < at && HOUSE[*below].floor <= room.floor);
            assert!(below.is_some(), "`{}` uses `{to}`, which is no room that stands before it in the table", room.name);
        }
    }
}

fn faults_of(file: &str, text: &str) -> Vec<String> {
    let specs = BTreeSet::from(["SurfaceSpec".to_owned()]);
    Source { file, text }.faults(&specs).iter().map(Fault::to_string).collect()
}

#[test]
fn a_use_of_a_higher_floor_is_told_with_its_line_and_what_is_open() {
    let told = ["src/plan/x.rs:2: `plan` may not use `crate::runtime::Clock`; it may use vocab, manifest, being (Identity)"];
    for text in [
        "use crate::vocab::Usd;\nuse crate::runtime::Clock;",
        "use crate::{\n    runtime::{Clock},\n    vocab::Usd,\n};",
        "fn f() {\n    crate::runtime::Clock::<u8>::new()\n}",
        "fn f() { vec![\n    crate::runtime::Clock] }",
        "use super\n    ::super::runtime::Clock;",
        "mod deep {\n    use super::super::super::runtime::Clock;\n}",
        "#[cfg(test)]\nuse crate::runtime::Clock;",
    ] {
        let found = faults_of("src/plan/x.rs", text);
        assert_eq!(found.len(), 1, "{text}: {found:?}");
        assert!(
            found[0].contains("`plan` may not use `crate::runtime::Clock")
                && found[0].ends_with("it may use vocab, manifest, being (Identity)"),
            "{found:?}"
        );
    }
    assert_eq!(faults_of("src/plan/x.rs", "\nuse crate::runtime::Clock;"), told);
}

#[test]
fn what_is_in_the_table_or_in_the_same_room_is_silent() {
    for (file, text) in [
        ("src/plan/x.rs", "use crate::{vocab::Usd, manifest::{Fleet, BeingSpec}, plan::Verdict};\nuse super::diff::Diff;"),
        ("src/plan/x.rs", "// use crate::runtime::Clock;\n/// See [`crate::runtime`].\nconst A: &str = \"crate::runtime::Clock\";"),
        ("src/plan/x.rs", "pub(crate) fn f() {}\n#[cfg(test)]\nmod tests { use super::*; use super::super::Verdict; }"),
        ("src/surface/x.rs", "use crate::manifest::{\n    SurfaceSpec,\n};"),
        ("src/main.rs", "fn main() { singularity::cli::main() }"),
        ("src/lib.rs", "//! The house.\npub mod vocab;\npub use crate::runtime::Clock;"),
    ] {
        assert_eq!(faults_of(file, text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn a_part_of_a_room_opens_no_more_than_that_part() {
    for text in [
        "use crate::manifest::load;",
        "use crate::manifest;",
        "use crate::manifest::*;",
        "use crate::manifest::{*};",
        "use crate::*;",
        "use crate::nowhere::X;",
    ] {
        assert_eq!(faults_of("src/surface/x.rs", text).len(), 1, "{text}");
    }
    assert_eq!(faults_of("src/main.rs", "fn main() { singularity::store::Home }").len(), 0);
    assert_eq!(faults_of("src/main.rs", "fn main() { singularity::tool::call() }").len(), 1);
    assert_eq!(faults_of("src/attic/mod.rs", "").len(), 1, "a room without a floor");
}

#[test]
fn a_room_that_decides_may_not_act_outside_its_tests() {
    for act in [
        "async fn f() {}",
        "fn f() { async move {}; }",
        "use std::{fs, path::Path};",
        "use std::time::{Duration, Instant};",
        "fn f() { std::env::var(\"A\"); }",
        "fn f() { let t = SystemTime::UNIX_EPOCH; }",
        "fn f() { tokio::spawn(g()); }",
        "use rand::Rng;",
        "fn f() { jiff::Timestamp::now(); }",
    ] {
        assert_eq!(faults_of("src/being/x.rs", act).len(), 1, "{act}");
        assert_eq!(faults_of("src/manifest/load.rs", act).len(), 0, "{act}");
        assert_eq!(faults_of("src/runtime/x.rs", act).len(), 0, "{act}");
        let tested = format!("fn g() {{}}\n#[cfg(test)]\nmod tests {{ {act} }}");
        assert_eq!(faults_of("src/being/x.rs", &tested).len(), 0, "{tested}");
        let after = format!("#[cfg(test)]\nuse std::fs;\n{act}");
        assert_eq!(faults_of("src/being/x.rs", &after).len(), 1, "{after}");
    }
}

#[test]
fn a_door_holds_no_code() {
    for code in [
        "pub fn f() {}",
        "pub struct S;",
        "mod a { }",
        "mod a;\nimpl S {}\nuse b::C;",
        "const A: u8 = 1;",
        "macro_rules! m { () => {} }",
    ] {
        assert_eq!(faults_of("src/plan/mod.rs", code).len(), 1, "{code}");
        assert_eq!(faults_of("src/plan/x.rs", code).len(), 0, "{code}");
    }
    let door = "//! Docs.\n\n/// Doc.\npub mod a;\n#[cfg(test)]\nmod b;\npub(crate) use a::{B, C};\nuse a::D as E;";
    assert_eq!(faults_of("src/plan/mod.rs", door), Vec::<String>::new());
}

#[test]
fn a_long_file_needs_a_reason_and_a_reason_needs_a_long_file() {
    let (short, long) = ("\n".repeat(LONG), "\n".repeat(LONG + 1));
    let excuse: &[(&str, &str)] = &[("src/plan/x.rs", "a table")];
    let fault = |text, excused| Source { file: "src/plan/x.rs", text }.length(excused).is_some();
    assert!(!fault(&short, &[]) && fault(&long, &[]));
    assert!(!fault(&long, excuse) && fault(&short, excuse));
}
