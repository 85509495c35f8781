//! `capabilities.children`: `false`, or how many children a being may have and with how much money.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::{ChildrenSpec, check::Cx, scalar::Money};

/// Generations that a family may have below the being that is declared.
const MAX_DEPTH: u32 = 4;
/// Children that may live at a time.
const MAX_CHILDREN: u32 = 1_000;

/// Whether the being may spawn children, and how many, how rich and how deep.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum ChildrenDocument {
    Is(bool),
    Limits(ChildrenLimits),
}

/// What holds a being's children.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ChildrenLimits {
    max: Option<u32>,
    budget: Option<Money>,
    depth: Option<u32>,
}

impl JsonSchema for ChildrenDocument {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ChildrenDocument".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut budget = generator.subschema_for::<Money>();
        budget.insert("description".into(), "What each child may be born with, in USD, out of its parent's balance.".into());
        json_schema!({
            "type": ["boolean", "object"],
            "properties": {
                "max": { "type": "integer", "minimum": 1, "maximum": MAX_CHILDREN, "description": "How many children may live at a time." },
                "budget": budget,
                "depth": {
                    "type": "integer", "minimum": 1, "maximum": MAX_DEPTH, "default": 1,
                    "description": "How many generations there may be below the being; 1 lets children have none.",
                },
            },
            "additionalProperties": false,
        })
    }
}

/// Resolves what is said of children; what is said without limits is a fault.
pub(super) fn resolve(document: &ChildrenDocument, cx: &mut Cx<'_>) -> Option<ChildrenSpec> {
    let path = ["capabilities", "children"];
    let hint = || Some("write children = { max = 3, budget = \"1\" }".to_owned());
    let limits = match document {
        ChildrenDocument::Is(false) => return None,
        ChildrenDocument::Is(true) => {
            cx.fault(&path, "`capabilities.children` does not say how many children, and with how much money each", hint());
            return None;
        }
        ChildrenDocument::Limits(limits) => limits,
    };
    let key = |key| [path[0], path[1], key];
    for (name, is_there) in [("max", limits.max.is_some()), ("budget", limits.budget.is_some())] {
        if !is_there && !cx.was_there(&key(name)) {
            cx.fault(&path, format!("`capabilities.children` has no `{name}`"), hint());
        }
    }
    let budget = cx.positive_usd(&key("budget"), limits.budget.as_ref().map(|usd| usd.0.as_str()));
    Some(ChildrenSpec { max: limits.max?, budget: budget?, depth: limits.depth.unwrap_or(1) })
}
