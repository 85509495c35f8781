use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How many options a decision has at least and at most.
pub const OPTIONS: std::ops::RangeInclusive<usize> = 2..=16;

/// A question over a state, with described options (SPEC §8).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecisionRequest {
    pub id: String,
    /// A text, an object or an array.
    pub state: Value,
    pub question: String,
    pub options: Vec<Choice>,
}

/// One option. Its id is never shown to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    pub id: String,
    pub description: String,
}

impl Choice {
    /// Puts an option together.
    pub fn new(id: impl Into<String>, description: impl Into<String>) -> Self {
        Self { id: id.into(), description: description.into() }
    }
}

/// Why a row is no decision. The texts, and the order in which they are looked for, are those of SemIf's rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error("Row is missing fields: [{}]", .0.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", "))]
    Missing(Vec<&'static str>),
    #[error("id and question must be nonempty strings")]
    Words,
    #[error("state must be a nonempty string, object, or array")]
    State,
    #[error("options must contain 2-16 entries")]
    Options,
    #[error("Each option needs string id and description fields")]
    Option,
    #[error("Option IDs must be unique")]
    Twice,
}

impl DecisionRequest {
    /// Reads a row.
    pub fn read(row: &Value) -> Result<Self, BadRequest> {
        let nothing = Map::new();
        let row = row.as_object().unwrap_or(&nothing);
        let missing: Vec<_> = ["id", "options", "question", "state"].into_iter().filter(|name| !row.contains_key(*name)).collect();
        let (Some(id), Some(options), Some(question), Some(state)) =
            (row.get("id"), row.get("options"), row.get("question"), row.get("state"))
        else {
            return Err(BadRequest::Missing(missing));
        };
        let words = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let (Some(id), Some(question)) = (words(id), words(question)) else { return Err(BadRequest::Words) };
        let is_state = match state {
            Value::String(text) => !text.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => false,
        };
        if !is_state {
            return Err(BadRequest::State);
        }
        let options = options.as_array().filter(|options| OPTIONS.contains(&options.len())).ok_or(BadRequest::Options)?;
        let choice = |option: &Value| Choice::deserialize(option).map_err(|_| BadRequest::Option);
        let options = options.iter().map(choice).collect::<Result<Vec<_>, _>>()?;
        Self { id, state: state.clone(), question, options }.checked()
    }

    /// The request, if its parts are what they must be.
    pub fn checked(self) -> Result<Self, BadRequest> {
        if self.id.is_empty() || self.question.is_empty() {
            return Err(BadRequest::Words);
        }
        if !OPTIONS.contains(&self.options.len()) {
            return Err(BadRequest::Options);
        }
        let ids: BTreeSet<&str> = self.options.iter().map(|option| option.id.as_str()).collect();
        if ids.len() < self.options.len() { Err(BadRequest::Twice) } else { Ok(self) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(row: &Value) -> String {
        DecisionRequest::read(row).unwrap_err().to_string()
    }

    #[test]
    fn a_row_is_refused_for_its_first_fault_in_the_words_that_others_use() {
        let options = |ids: &[&str]| ids.iter().map(|id| json!({ "id": id, "description": "" })).collect::<Vec<_>>();
        let row = json!({ "id": "r", "state": "s", "question": "q", "options": options(&["a", "b"]) });
        let with = |key: &str, value: Value| {
            let mut row = row.clone();
            row[key] = value;
            row
        };
        assert!(DecisionRequest::read(&row).is_ok());
        assert_eq!(refused(&json!([])), "Row is missing fields: ['id', 'options', 'question', 'state']");
        assert_eq!(refused(&json!({ "state": "", "question": 1 })), "Row is missing fields: ['id', 'options']");
        for bad in [with("id", json!("")), with("id", json!(1)), with("question", json!("")), with("question", json!(null))] {
            assert_eq!(refused(&bad), "id and question must be nonempty strings");
        }
        for state in [json!(""), json!({}), json!([]), json!(1), json!(null), json!(true)] {
            assert_eq!(refused(&with("state", state)), "state must be a nonempty string, object, or array");
        }
        let many: Vec<String> = (0..17).map(|i| i.to_string()).collect();
        let many = options(&many.iter().map(String::as_str).collect::<Vec<_>>());
        for bad in [json!("a"), json!(options(&["a"])), json!(many)] {
            assert_eq!(refused(&with("options", bad)), "options must contain 2-16 entries");
        }
        for bad in
            [json!("a"), json!({ "id": 1, "description": "" }), json!({ "id": "a" }), json!({ "id": "a", "description": null })]
        {
            let said = refused(&with("options", json!([bad, { "id": "b", "description": "" }])));
            assert_eq!(said, "Each option needs string id and description fields");
        }
        assert_eq!(refused(&with("options", json!(options(&["a", "b", "a"])))), "Option IDs must be unique");
    }
}
