use std::{
    collections::HashSet,
    sync::{Arc, OnceLock},
};

use jsonschema::Validator;
use serde_json::Value;

use super::{
    builtin::{self, Builtin},
    most::MostTool,
    schema, size,
};
use crate::{being::ToolDefinition, manifest::CapabilitySpec, surface::RemoteTool, vocab::Name};

/// How many tools one being may be shown.
const MAX_TOOLS: usize = 10_000;
/// How long the name of a tool may be, with its surface: models' providers refuse longer ones.
const MAX_NAME: usize = 64;
/// How large the schema of one tool may be.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
/// How large the schemas of all tools may be together.
const MAX_SCHEMAS_BYTES: usize = 32 * 1024 * 1024;
/// How much of what a schema says against an argument is told.
const MAX_TOLD: usize = 240;

/// Why a being cannot be given its tools (SPEC §7).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CatalogueError {
    #[error("tool: invalid tool name: {0}")]
    InvalidName(String),
    #[error("tool: tool name is longer than the {MAX_NAME} characters that models accept: {0}")]
    LongName(String),
    #[error("tool: tool schema is not an object: {0}")]
    SchemaNotObject(String),
    #[error("tool: duplicate tool: {0}")]
    Duplicate(String),
    #[error("mcp: required Las surface unavailable: {0}")]
    RequiredSurface(Name),
    #[error("tool: tool schema cannot be used: {tool}: {problem}; leave its surface out with `las.skip`")]
    UnusableSchema { tool: String, problem: String },
    #[error("tool: {0} tools are more than the {MAX_TOOLS} that a being may have; select fewer surfaces with `las.only`")]
    TooMany(usize),
    #[error("tool: the schemas of all tools are larger than {MAX_SCHEMAS_BYTES} bytes; select fewer surfaces with `las.only`")]
    TooLarge,
}

impl CatalogueError {
    /// The line of the manifest that solves it.
    pub fn hint(&self) -> Option<String> {
        let (Self::InvalidName(name) | Self::LongName(name) | Self::Duplicate(name)) = self else { return None };
        let (surface, own) = name.split_once("__")?;
        if matches!(self, Self::Duplicate(_)) {
            return Some(format!(
                "leave it out, on [surface.{surface}]: deny = [{own:?}]; or give it another name there, by `rename`"
            ));
        }
        let room = MAX_NAME.saturating_sub(surface.len() + 2);
        let plain = own.chars().map(|c| if is_plain(c) { c } else { '_' }).take(room).collect::<String>();
        Some(format!("give it another name, on [surface.{surface}]: rename = {{ {own:?} = {plain:?} }}"))
    }
}

const fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// Who carries a tool out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Builtin(Builtin),
    Most(MostTool),
    Remote,
}

/// One tool of a catalogue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry<'a> {
    pub(super) origin: Origin,
    tool: &'a ToolDefinition,
    check: &'a OnceLock<Option<Validator>>,
}

/// A being's tools, strictly checked: every name plain and unique, every schema one that arguments can be held to.
///
/// A schema that is plainly usable is compiled when its tool is first called; any other is compiled at once, to see whether it can be.
#[derive(Debug)]
pub(super) struct Catalogue {
    /// In the order of the definitions.
    behind: Vec<(Origin, OnceLock<Option<Validator>>)>,
    pub(super) definitions: Arc<[ToolDefinition]>,
}

impl Catalogue {
    pub(super) fn new(remote: Vec<RemoteTool>, capabilities: CapabilitySpec, required: &[Name]) -> Result<Self, CatalogueError> {
        if let Some(missing) =
            required.iter().find(|surface| !remote.iter().any(|tool| surface_of(&tool.name) == Some(surface.as_str())))
        {
            return Err(CatalogueError::RequiredSurface(missing.clone()));
        }
        let remote = remote.into_iter().map(|tool| {
            let RemoteTool { name, description, input_schema } = tool;
            (Origin::Remote, ToolDefinition { name, description, parameters: input_schema })
        });
        let builtin = Builtin::armed(capabilities).map(|tool| (Origin::Builtin(tool), tool.definition()));
        let tools: Vec<(Origin, ToolDefinition)> = remote.chain(builtin).collect();
        if tools.len() > MAX_TOOLS {
            return Err(CatalogueError::TooMany(tools.len()));
        }
        Self::of(tools)
    }

    /// Adds tools that not every being has.
    pub(super) fn adding(self, tools: impl Iterator<Item = (Origin, ToolDefinition)>) -> Result<Self, CatalogueError> {
        let mut tools = tools.peekable();
        if tools.peek().is_none() {
            return Ok(self);
        }
        let origins = self.behind.iter().map(|(origin, _)| *origin);
        Self::of(origins.zip(self.definitions.iter().cloned()).chain(tools).collect())
    }

    fn of(tools: Vec<(Origin, ToolDefinition)>) -> Result<Self, CatalogueError> {
        let mut admission = Admission { seen: HashSet::with_capacity(tools.len()), room: MAX_SCHEMAS_BYTES };
        let checks = tools.iter().map(|(origin, tool)| admission.admit(*origin, tool)).collect::<Result<Vec<_>, _>>()?;
        let mut all: Vec<_> = tools.into_iter().zip(checks).collect();
        all.sort_by(|((_, one), _), ((_, other), _)| one.name.cmp(&other.name));
        let (mut behind, mut definitions) = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
        for ((origin, tool), check) in all {
            behind.push((origin, check));
            definitions.push(tool);
        }
        Ok(Self { behind, definitions: definitions.into() })
    }

    pub(super) fn get(&self, name: &str) -> Option<Entry<'_>> {
        let at = self.definitions.binary_search_by(|tool| tool.name.as_str().cmp(name)).ok()?;
        let ((origin, check), tool) = (self.behind.get(at)?, self.definitions.get(at)?);
        Some(Entry { origin: *origin, tool, check })
    }
}

/// What is asked of each tool before it is shown to a being.
struct Admission<'a> {
    seen: HashSet<&'a str>,
    /// How many more bytes of schemas there may be.
    room: usize,
}

impl<'a> Admission<'a> {
    /// Checks name, schema and uniqueness, in this order; yields the compiled schema where only that tells whether it can be used.
    fn admit(&mut self, origin: Origin, tool: &'a ToolDefinition) -> Result<OnceLock<Option<Validator>>, CatalogueError> {
        let name = &tool.name;
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(CatalogueError::InvalidName(name.chars().take(MAX_TOLD).collect()));
        }
        if name.len() > MAX_NAME {
            return Err(CatalogueError::LongName(name.chars().take(MAX_TOLD).collect()));
        }
        if !tool.parameters.is_object() {
            return Err(CatalogueError::SchemaNotObject(name.clone()));
        }
        let is_ours_by_name = origin == Origin::Remote && name.starts_with(builtin::PREFIX);
        if is_ours_by_name || !self.seen.insert(name) {
            return Err(CatalogueError::Duplicate(name.clone()));
        }
        let unusable = |problem: String| CatalogueError::UnusableSchema { tool: name.clone(), problem };
        let Some(bytes) = size::bytes_within(&tool.parameters, MAX_SCHEMA_BYTES) else {
            return Err(unusable(format!("it is larger than {MAX_SCHEMA_BYTES} bytes")));
        };
        self.room = self.room.checked_sub(bytes).ok_or(CatalogueError::TooLarge)?;
        if schema::is_plainly_usable(&tool.parameters) {
            return Ok(OnceLock::new());
        }
        let compiled = jsonschema::validator_for(&tool.parameters);
        let compiled = compiled.map_err(|error| unusable(error.to_string().chars().take(MAX_TOLD).collect()))?;
        Ok(OnceLock::from(Some(compiled)))
    }
}

/// The surface of a tool that is named `<surface>__<tool>`.
pub(super) fn surface_of(tool: &str) -> Option<&str> {
    tool.split_once("__").map(|(surface, _)| surface)
}

impl Entry<'_> {
    /// Checks arguments against the tool's schema; what is wrong is told by place and rule, in words that pass the boundary.
    pub(super) fn check(&self, arguments: &Value) -> Result<(), String> {
        let check = self.check.get_or_init(|| jsonschema::validator_for(&self.tool.parameters).ok());
        // A call that cannot be checked is not made.
        let Some(check) = check else { return Err("the tool's schema cannot be used".to_owned()) };
        let Some(error) = check.iter_errors(arguments).next() else { return Ok(()) };
        let place: String = error.instance_path().to_string().split('/').skip(1).map(|step| format!(".{step}")).collect();
        let told: String = error.masked().to_string().chars().take(MAX_TOLD).collect();
        Err(format!("arguments{place} breaks the rule `{}` of the tool's schema: {told}", error.kind().keyword()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ALL: CapabilitySpec = CapabilitySpec { memory: true, files: true, children: None };

    fn tool(name: &str, input_schema: Value) -> RemoteTool {
        RemoteTool { name: name.into(), description: String::new(), input_schema }
    }

    fn object() -> Value {
        json!({ "type": "object" })
    }

    fn refusal(tools: Vec<RemoteTool>) -> String {
        Catalogue::new(tools, ALL, &[]).expect_err("refused").to_string()
    }

    #[test]
    fn a_bad_tool_fails_boot_in_the_words_of_the_spec() {
        for name in ["", "a b", "a.b", "ä", "a/b"] {
            assert_eq!(refusal(vec![tool(name, object())]), format!("tool: invalid tool name: {name}"));
        }
        for schema in [json!(null), json!(true), json!([]), json!("object")] {
            assert_eq!(refusal(vec![tool("a__b", schema)]), "tool: tool schema is not an object: a__b");
        }
        assert_eq!(refusal(vec![tool("a__b", object()), tool("a__b", object())]), "tool: duplicate tool: a__b");
        assert_eq!(refusal(vec![tool("singularity_file_read", object())]), "tool: duplicate tool: singularity_file_read");
    }

    #[test]
    fn a_refused_name_comes_with_the_line_that_solves_it() {
        let error = |names: &[&str]| {
            Catalogue::new(names.iter().map(|name| tool(name, object())).collect(), ALL, &[]).expect_err("refused")
        };
        let hint = |names: &[&str]| error(names).hint().unwrap();
        assert!(hint(&["files__a.b/c"]).ends_with(r#"on [surface.files]: rename = { "a.b/c" = "a_b_c" }"#));
        assert!(hint(&["files__x", "files__x"]).contains(r#"on [surface.files]: deny = ["x"]"#));
        let long = format!("files__{}", "x".repeat(58));
        assert!(
            error(&[&long])
                .to_string()
                .starts_with("tool: tool name is longer than the 64 characters that models accept: files__x")
        );
        assert!(hint(&[&long]).ends_with(&format!(r#"= "{}" }}"#, "x".repeat(57))));
        assert!(Catalogue::new(vec![tool(&long[..64], object())], ALL, &[]).is_ok());
    }

    #[test]
    fn name_is_checked_before_schema_and_schema_before_uniqueness() {
        assert_eq!(refusal(vec![tool("a b", json!(1)), tool("a b", json!(1))]), "tool: invalid tool name: a b");
        assert_eq!(refusal(vec![tool("a", object()), tool("a", json!(1))]), "tool: tool schema is not an object: a");
    }

    #[test]
    fn a_surface_cannot_take_the_name_of_a_tool_that_is_disarmed() {
        let disarmed = CapabilitySpec { files: false, ..ALL };
        let error = Catalogue::new(vec![tool("singularity_file_read", object())], disarmed, &[]).expect_err("refused");
        assert_eq!(error, CatalogueError::Duplicate("singularity_file_read".into()));
    }

    #[test]
    fn a_required_surface_without_a_tool_fails_boot() {
        let required = [Name::try_from("files").unwrap()];
        let of = |name: &str| Catalogue::new(vec![tool(name, object())], ALL, &required);
        assert_eq!(of("files2__read").expect_err("refused").to_string(), "mcp: required Las surface unavailable: files");
        assert!(of("files__read").is_ok());
    }

    #[test]
    fn a_schema_that_cannot_be_held_to_fails_boot() {
        for schema in
            [json!({ "type": 5 }), json!({ "$ref": "https://example.com/x.json" }), json!({ "$ref": "file:///etc/x.json" })]
        {
            let told = refusal(vec![tool("a__b", schema)]);
            assert!(told.starts_with("tool: tool schema cannot be used: a__b: "), "{told}");
        }
        assert!(refusal(vec![tool("a__b", json!({ "description": "x".repeat(MAX_SCHEMA_BYTES) }))]).contains("larger"));
        assert!(refusal((0..=MAX_TOOLS).map(|n| tool(&format!("a__{n}"), object())).collect()).contains("more than"));
    }

    #[test]
    fn a_schema_that_must_be_compiled_to_be_known_is_compiled_at_boot_and_a_plain_one_when_it_is_called() {
        let pattern = |pattern: &str| json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": pattern } } });
        assert!(refusal(vec![tool("a__b", pattern("("))]).starts_with("tool: tool schema cannot be used: a__b: "));
        let catalogue = Catalogue::new(vec![tool("a__plain", object()), tool("a__regex", pattern("^x"))], ALL, &[]).unwrap();
        let is_compiled = |name: &str| catalogue.get(name).unwrap().check.get().is_some();
        assert_eq!((is_compiled("a__plain"), is_compiled("a__regex")), (false, true));
        assert_eq!(catalogue.get("a__plain").unwrap().check(&json!({})), Ok(()));
        assert!(is_compiled("a__plain"));
    }

    #[test]
    fn a_tool_that_is_added_is_checked_like_the_others_and_stands_in_the_same_order() {
        let most = || MostTool::ALL.into_iter().map(|tool| (Origin::Most(tool), tool.definition()));
        let catalogue = Catalogue::new(vec![tool("z__z", object())], ALL, &[]).unwrap().adding(most()).unwrap();
        assert_eq!(catalogue.get("most_create_chat").unwrap().origin, Origin::Most(MostTool::CreateChat));
        assert!(catalogue.definitions.iter().map(|tool| &tool.name).is_sorted());
        let taken = Catalogue::new(vec![tool("most_health", object())], ALL, &[]).unwrap().adding(most());
        assert_eq!(taken.expect_err("refused"), CatalogueError::Duplicate("most_health".into()));
    }

    #[test]
    fn definitions_are_in_one_order_however_they_were_listed() {
        let names = |tools| -> Vec<String> {
            let catalogue = Catalogue::new(tools, ALL, &[]).unwrap();
            catalogue.definitions.iter().map(|tool| tool.name.clone()).collect()
        };
        let (one, two) = (tool("z__z", object()), tool("a__a", object()));
        let sorted = names(vec![one.clone(), two.clone()]);
        assert_eq!(sorted, names(vec![two, one]));
        assert!(sorted.is_sorted() && sorted.len() == 10);
    }

    #[test]
    fn a_wrong_argument_is_told_by_place_and_rule() {
        let schema =
            json!({ "type": "object", "properties": { "a": { "type": "array", "items": { "maximum": 3 } } }, "required": ["a"] });
        let catalogue = Catalogue::new(vec![tool("x__y", schema)], ALL, &[]).unwrap();
        let check = |arguments: Value| catalogue.get("x__y").unwrap().check(&arguments);
        assert_eq!(check(json!({ "a": [1] })), Ok(()));
        let told = check(json!({ "a": [1, 9] })).unwrap_err();
        assert!(told.starts_with("arguments.a.1 breaks the rule `maximum` of the tool's schema: "), "{told}");
        let told = check(json!({})).unwrap_err();
        assert!(told.starts_with("arguments breaks the rule `required`") && told.contains("\"a\""), "{told}");
    }
}
