use serde_json::{Map, Value, json};

use super::boundary::{self, Layout};
use crate::{
    being::{Memory, Mind, MindChange, Outcome, Spawn, ToolDefinition},
    manifest::{Boundary, CapabilitySpec},
    tool::Stamp,
    vocab::Usd,
};

/// What a refused or wrong argument is answered with.
pub(super) const INVALID_ARGUMENTS: &str = "invalid_arguments";
/// What no surface may name its tools.
pub(super) const PREFIX: &str = "singularity_";

const MAX_RECALLED_MEMORIES: usize = 50;
/// What a recall returns at most; the envelope around it and the boundary's limit leave that room.
const MAX_RECALLED_BYTES: usize = boundary::MAX_RESULT_BYTES - 1024;
const MAX_PATH_BYTES: usize = 4_096;
const MAX_MODEL_BYTES: usize = 256;
/// How large a file may be that a being reads or writes.
pub(super) const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;

/// The tools that are compiled in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Builtin {
    Remember,
    Recall,
    SetPrompt,
    AddRule,
    AddLearning,
    SwitchModel,
    ReadFile,
    WriteFile,
    SpawnChild,
}

impl Builtin {
    const ALL: [Self; 9] = [
        Self::Remember,
        Self::Recall,
        Self::SetPrompt,
        Self::AddRule,
        Self::AddLearning,
        Self::SwitchModel,
        Self::ReadFile,
        Self::WriteFile,
        Self::SpawnChild,
    ];

    /// What an operator left armed (SPEC §6).
    pub(super) fn armed(capabilities: CapabilitySpec) -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().filter(move |tool| match tool {
            Self::Remember | Self::Recall => capabilities.memory,
            Self::ReadFile | Self::WriteFile => capabilities.files,
            Self::SpawnChild => capabilities.children.is_some(),
            Self::SetPrompt | Self::AddRule | Self::AddLearning | Self::SwitchModel => true,
        })
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Remember => "singularity_memory_remember",
            Self::Recall => "singularity_memory_recall",
            Self::SetPrompt => "singularity_self_set_prompt",
            Self::AddRule => "singularity_self_add_rule",
            Self::AddLearning => "singularity_self_add_learning",
            Self::SwitchModel => "singularity_self_switch_model",
            Self::ReadFile => "singularity_file_read",
            Self::WriteFile => "singularity_file_write",
            Self::SpawnChild => "singularity_spawn_child",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Remember => "Persist a memory owned by this digital being",
            Self::Recall => "Recall persistent memories containing a query",
            Self::SetPrompt => "Replace this being's persistent system prompt",
            Self::AddRule => "Add a persistent self-imposed rule",
            Self::AddLearning => "Record a persistent learning that changes future decisions",
            Self::SwitchModel => "Switch future cognition calls to another available Brama model",
            Self::ReadFile => "Read one UTF-8 file inside the configured workspace",
            Self::WriteFile => "Atomically create or replace one UTF-8 file inside the configured workspace",
            Self::SpawnChild => "Create and start a child digital being with separate state",
        }
    }

    const fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Remember => &["kind", "text"],
            Self::Recall => &["query"],
            Self::SetPrompt => &["prompt"],
            Self::AddRule => &["rule"],
            Self::AddLearning => &["learning"],
            Self::SwitchModel => &["model"],
            Self::ReadFile => &["path"],
            Self::WriteFile => &["path", "content"],
            Self::SpawnChild => &["name", "ticker", "specialty"],
        }
    }

    pub(super) fn definition(self) -> ToolDefinition {
        let mut properties: Map<String, Value> =
            self.arguments().iter().map(|name| ((*name).to_owned(), json!({ "type": "string" }))).collect();
        if self == Self::SpawnChild {
            let usd = "What the child is born with, out of your balance, such as \"0.5\"; without it, all that a child may get";
            properties.insert("usd".into(), json!({ "type": "string", "description": usd }));
        }
        let parameters =
            json!({ "type": "object", "properties": properties, "required": self.arguments(), "additionalProperties": false });
        ToolDefinition { name: self.name().into(), description: self.description().into(), parameters }
    }

    /// A being's own words come back to it with the offending part left out, so that what was done is not told as undone;
    /// what comes from elsewhere is refused whole.
    pub(super) const fn boundary(self) -> Boundary {
        match self {
            Self::Recall | Self::ReadFile => Boundary::Reject,
            _ => Boundary::Redact,
        }
    }
}

/// A built-in call whose arguments hold to SPEC §6.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ask {
    Remember { kind: String, text: String },
    Recall { query: String },
    SetPrompt { prompt: String },
    AddRule { rule: String },
    AddLearning { learning: String },
    SwitchModel { model: String },
    ReadFile { path: String },
    WriteFile { path: String, content: String },
    SpawnChild { name: String, ticker: String, specialty: String, usd: Option<Usd> },
}

/// An argument that breaks a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is invalid")]
pub(super) struct BadArgument(pub(super) &'static str);

/// Whether a text may have lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Lines {
    One,
    Many,
}

impl Ask {
    pub(super) fn read(tool: Builtin, arguments: &Map<String, Value>) -> Result<Self, BadArgument> {
        let text = |key, limit, lines| text(arguments, key, limit, lines);
        Ok(match tool {
            Builtin::Remember => Self::Remember { kind: text("kind", 64, Lines::One)?, text: text("text", 16_384, Lines::Many)? },
            Builtin::Recall => Self::Recall { query: text("query", 1_024, Lines::Many)? },
            Builtin::SetPrompt => Self::SetPrompt { prompt: text("prompt", 65_536, Lines::Many)? },
            Builtin::AddRule => Self::AddRule { rule: text("rule", 4_096, Lines::Many)? },
            Builtin::AddLearning => Self::AddLearning { learning: text("learning", 8_192, Lines::Many)? },
            Builtin::SwitchModel => Self::SwitchModel { model: text("model", MAX_MODEL_BYTES, Lines::One)? },
            Builtin::ReadFile => Self::ReadFile { path: text("path", MAX_PATH_BYTES, Lines::One)? },
            Builtin::WriteFile => Self::WriteFile { path: text("path", MAX_PATH_BYTES, Lines::One)?, content: content(arguments)? },
            Builtin::SpawnChild => Self::SpawnChild {
                name: text("name", 128, Lines::One)?,
                ticker: text("ticker", 32, Lines::One)?,
                specialty: text("specialty", 256, Lines::One)?,
                usd: amount(arguments, "usd")?,
            },
        })
    }
}

/// A text argument, trimmed and within its bound.
pub(super) fn text(arguments: &Map<String, Value>, key: &'static str, limit: usize, lines: Lines) -> Result<String, BadArgument> {
    let text = arguments.get(key).and_then(Value::as_str).map(str::trim).ok_or(BadArgument(key))?;
    let fits = (1..=limit).contains(&text.len()) && !text.chars().any(|c| is_forbidden(c, lines));
    if fits { Ok(text.to_owned()) } else { Err(BadArgument(key)) }
}

/// An exact amount that may be left out.
fn amount(arguments: &Map<String, Value>, key: &'static str) -> Result<Option<Usd>, BadArgument> {
    let text = arguments.get(key).map(|value| value.as_str().ok_or(BadArgument(key))).transpose()?;
    text.map(|text| Usd::parse(text.trim()).map_err(|_| BadArgument(key))).transpose()
}

/// The content of a file is taken as it is: it may be empty, and its ends are not trimmed.
fn content(arguments: &Map<String, Value>) -> Result<String, BadArgument> {
    let content = arguments.get("content").and_then(Value::as_str).ok_or(BadArgument("content"))?;
    let fits = content.len() <= MAX_FILE_BYTES && !content.chars().any(|c| is_forbidden(c, Lines::Many));
    if fits { Ok(content.to_owned()) } else { Err(BadArgument("content")) }
}

fn is_forbidden(c: char, lines: Lines) -> bool {
    c.is_control() && !(matches!(c, '\n' | '\t') && matches!(lines, Lines::Many))
}

/// Carries out what changes or reads only the mind.
pub(super) fn remember(kind: String, text: String, stamp: Stamp) -> Outcome {
    let memory = Memory { id: stamp.id, kind, text, created_at: stamp.at };
    Outcome::success(json!({ "memory_id": stamp.id })).changing(MindChange::Remember { memory })
}

pub(super) fn set_prompt(prompt: String) -> Outcome {
    Outcome::success(json!({ "updated": true })).changing(MindChange::SetPrompt { prompt })
}

pub(super) fn add_rule(rule: String) -> Outcome {
    Outcome::success(json!({ "rule": rule })).changing(MindChange::AddRule { rule })
}

pub(super) fn add_learning(learning: String) -> Outcome {
    Outcome::success(json!({ "learning": learning })).changing(MindChange::AddLearning { learning })
}

pub(super) fn switch_model(model: String) -> Outcome {
    Outcome::success(json!({ "model": model })).changing(MindChange::SwitchModel { model })
}

/// Asks for a child; the being's own rules say whether it is made. It lives in this process, as its parent does.
pub(super) fn spawn_child(name: String, ticker: String, specialty: String, usd: Option<Usd>, stamp: Stamp) -> Outcome {
    let spawn = Spawn { id: stamp.id, name, ticker, specialty, usd, pid: std::process::id() };
    Outcome::success(json!({ "child_id": stamp.id })).spawning(spawn)
}

/// Finds the newest memories that contain `query`, whatever the case.
///
/// A memory that the boundary would refuse is left out by itself, and no more are told than the boundary lets through;
/// `omitted` counts both.
pub(super) fn recall(mind: &Mind, query: &str, layout: &Layout) -> Outcome {
    let query = query.to_lowercase();
    let matches = |memory: &&Memory| memory.kind.to_lowercase().contains(&query) || memory.text.to_lowercase().contains(&query);
    let (mut told, mut room, mut omitted) = (Vec::new(), MAX_RECALLED_BYTES, 0_usize);
    for memory in mind.memories.iter().rev().filter(matches).take(MAX_RECALLED_MEMORIES) {
        let row = json!({ "id": memory.id, "kind": memory.kind, "text": memory.text, "created_at": memory.created_at });
        let row = boundary::screen_at(row, layout, 2).ok();
        match row.map(|row| (row.to_string().len() + 1, row)) {
            Some((size, row)) if size <= room => {
                room -= size;
                told.push(row);
            }
            _ => omitted += 1,
        }
    }
    match omitted {
        0 => Outcome::success(json!({ "memories": told })),
        _ => Outcome::success(json!({ "memories": told, "omitted": omitted })),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::*;
    use crate::{manifest::ChildrenSpec, vocab::Timestamp};

    fn read(tool: Builtin, arguments: Value) -> Result<Ask, String> {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        Ask::read(tool, &arguments).map_err(|error| error.to_string())
    }

    fn mind_of(texts: &[&str]) -> Mind {
        let mut mind = Mind::new("Be.".into(), "smol".into());
        for (n, text) in (0..).zip(texts) {
            let (id, created_at) = (Uuid::from_u128(n), Timestamp::UNIX_EPOCH);
            mind.memories.push(Memory { id, kind: "Note".into(), text: (*text).into(), created_at });
        }
        mind
    }

    fn recalled(mind: &Mind, query: &str) -> Vec<String> {
        let content = recall(mind, query, &Layout::default()).content;
        let rows = content.get("memories").and_then(Value::as_array).unwrap().clone();
        rows.iter().map(|row| row["text"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_bounds_of_spec_6_hold_to_the_byte() {
        let bounds = [
            (Builtin::Remember, "kind", 64),
            (Builtin::Remember, "text", 16_384),
            (Builtin::Recall, "query", 1_024),
            (Builtin::SetPrompt, "prompt", 65_536),
            (Builtin::AddRule, "rule", 4_096),
            (Builtin::AddLearning, "learning", 8_192),
            (Builtin::WriteFile, "content", MAX_FILE_BYTES),
            (Builtin::SpawnChild, "name", 128),
            (Builtin::SpawnChild, "ticker", 32),
            (Builtin::SpawnChild, "specialty", 256),
        ];
        for (tool, key, limit) in bounds {
            let with = |text: String| {
                let mut arguments: Map<String, Value> = tool.arguments().iter().map(|name| ((*name).into(), json!("x"))).collect();
                arguments.insert(key.into(), Value::String(text));
                read(tool, Value::Object(arguments))
            };
            assert!(with("ä".repeat(limit / 2)).is_ok(), "{key}");
            assert_eq!(with("ä".repeat(limit / 2) + "b"), Err(format!("{key} is invalid")));
            for bad in ["\0", "\u{1b}[0m", "a\rb", "\u{85}x"] {
                assert_eq!(with(format!("a{bad}b")), Err(format!("{key} is invalid")), "{bad:?}");
            }
        }
    }

    #[test]
    fn texts_are_trimmed_and_may_have_lines_while_kinds_may_not() {
        assert_eq!(
            read(Builtin::Remember, json!({ "kind": " note ", "text": "\ta\n\tb\n" })),
            Ok(Ask::Remember { kind: "note".into(), text: "a\n\tb".into() })
        );
        assert_eq!(read(Builtin::Remember, json!({ "kind": "a\nb", "text": "x" })), Err("kind is invalid".into()));
        assert_eq!(read(Builtin::AddRule, json!({ "rule": " \n " })), Err("rule is invalid".into()));
        assert_eq!(read(Builtin::AddRule, json!({ "rule": 1 })), Err("rule is invalid".into()));
        assert_eq!(
            read(Builtin::WriteFile, json!({ "path": "a", "content": " x \n" })),
            Ok(Ask::WriteFile { path: "a".into(), content: " x \n".into() })
        );
        assert!(read(Builtin::WriteFile, json!({ "path": "a", "content": "" })).is_ok());
    }

    #[test]
    fn a_childs_money_is_an_exact_amount_or_left_out() {
        let ask =
            |usd: Value| read(Builtin::SpawnChild, json!({ "name": "Scout", "ticker": "S", "specialty": "maps", "usd": usd }));
        let with = |usd| Ask::SpawnChild { name: "Scout".into(), ticker: "S".into(), specialty: "maps".into(), usd };
        assert_eq!(ask(json!(" 0.5 ")), Ok(with(Some(Usd::parse("0.5").unwrap()))));
        assert_eq!(read(Builtin::SpawnChild, json!({ "name": "Scout", "ticker": "S", "specialty": "maps" })), Ok(with(None)));
        for bad in [json!(0.5), json!("half"), json!("1e3"), json!(null)] {
            assert_eq!(ask(bad), Err("usd is invalid".into()));
        }
    }

    #[test]
    fn the_newest_fifty_matches_are_recalled_whatever_the_case() {
        assert_eq!(recalled(&mind_of(&["Rain", "sun", "RAINBOW"]), "rain"), ["RAINBOW", "Rain"]);
        assert_eq!(recalled(&mind_of(&["a", "b"]), "note"), ["b", "a"]);
        let many: Vec<String> = (0..60).map(|n| n.to_string()).collect();
        let many = recalled(&mind_of(&many.iter().map(String::as_str).collect::<Vec<_>>()), "note");
        assert_eq!((many.len(), many.first().map(String::as_str)), (50, Some("59")));
    }

    #[test]
    fn one_memory_that_may_not_be_shown_does_not_hide_the_others() {
        let long = "x".repeat(16_000);
        let mind = mind_of(&[&long, &long, &long, &long, "/etc/passwd", "plain"]);
        let outcome = recall(&mind, "note", &Layout::default());
        assert_eq!(outcome.content["omitted"], 2, "the path, and the oldest long text");
        assert_eq!(recalled(&mind, "note"), ["plain", &long, &long, &long]);
        assert!(boundary::screen(outcome.content, &Layout::default(), Boundary::Reject).is_ok());
    }

    #[test]
    fn what_an_operator_disarmed_is_not_there() {
        let children = |is: bool| is.then(|| ChildrenSpec { max: 1, budget: "1".parse().unwrap(), depth: 1 });
        let with = |memory, files, is| CapabilitySpec { memory, files, children: children(is) };
        let armed = |memory, files| Builtin::armed(with(memory, files, true)).map(Builtin::name).collect::<Vec<_>>();
        assert_eq!(armed(true, true).len(), 9);
        assert!(!Builtin::armed(with(true, true, false)).any(|tool| tool == Builtin::SpawnChild));
        assert!(!armed(false, true).iter().any(|name| name.contains("memory")));
        assert!(!armed(true, false).iter().any(|name| name.contains("file")));
    }

    proptest! {
        #[test]
        fn what_is_read_is_trimmed_bounded_and_free_of_control_characters(rule in any::<String>()) {
            match read(Builtin::AddRule, json!({ "rule": rule })) {
                Ok(Ask::AddRule { rule: kept }) => {
                    prop_assert_eq!(kept.trim(), rule.trim());
                    prop_assert!(!kept.is_empty() && kept.len() <= 4_096);
                    prop_assert!(!kept.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
                }
                Ok(other) => prop_assert!(false, "{:?}", other),
                Err(_) => prop_assert!(rule.trim().is_empty() || rule.len() > 4_096 || rule.trim().chars().any(char::is_control)),
            }
        }
    }
}
