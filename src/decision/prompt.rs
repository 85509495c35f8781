use std::io;

use serde::Serialize;
use serde_json::{Value, json, ser::Formatter};

use super::request::DecisionRequest;
use crate::vocab::Digest;

/// Which wording a decision was asked in; it changes whenever a byte of it does.
pub const PROMPT_VERSION: &str = "singularity-options-v1";
/// What options are called, by their place.
pub(super) const LETTERS: [&str; 16] = ["A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P"];

const SYSTEM: &str = "You decide. Read the evidence, then the criterion, then the options. Answer with the letter of the option that \
                      fits the evidence best, and with nothing else.";

/// A decision as a model reads it: the evidence comes first, so that questions over one state share what was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    pub system: &'static str,
    pub user: String,
}

impl Prompt {
    /// The request with its options turned by `turn` places: the letter at place `i` stands for option `(i + turn) % n`.
    pub fn of(request: &DecisionRequest, turn: usize) -> Self {
        let options = request.options.iter().cycle().skip(turn).zip(LETTERS).take(request.options.len());
        let options: Vec<Value> =
            options.map(|(option, letter)| json!({ "letter": letter, "description": option.description })).collect();
        let payload = json!({ "evidence": request.state, "criterion": request.question, "options": options });
        Self { system: SYSTEM, user: spaced(&payload) }
    }

    /// SHA-256 of all that is shown.
    pub fn digest(&self) -> Digest {
        Digest::of(format!("{}\n{}", self.system, self.user))
    }
}

/// JSON on one line with `", "` and `": "`, and non-ASCII as it is.
fn spaced(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut writer = serde_json::Serializer::with_formatter(&mut bytes, Spaced);
    // Values in memory always serialise into memory.
    drop(value.serialize(&mut writer));
    String::from_utf8_lossy(&bytes).into_owned()
}

struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decision::request::Choice;

    fn request() -> DecisionRequest {
        let choice = |id: &str, description: &str| Choice { id: id.into(), description: description.into() };
        let options = vec![choice("in", "Sign-in trouble."), choice("money", "Rechnungen für alle."), choice("none", "")];
        DecisionRequest { id: "r".into(), state: json!({ "b": [1, 2.5], "a": "x" }), question: "Which desk?".into(), options }
    }

    #[test]
    fn the_evidence_comes_first_and_ids_are_never_shown() {
        let prompt = Prompt::of(&request(), 0);
        let wanted = r#"{"evidence": {"b": [1, 2.5], "a": "x"}, "criterion": "Which desk?", "options": [{"letter": "A", "description": "Sign-in trouble."}, {"letter": "B", "description": "Rechnungen für alle."}, {"letter": "C", "description": ""}]}"#;
        assert_eq!(prompt.user, wanted);
        assert_ne!(prompt.digest(), Prompt::of(&request(), 1).digest());
    }

    #[test]
    fn a_turn_gives_every_letter_another_option() {
        let prompt = Prompt::of(&request(), 2);
        let ends = r#"[{"letter": "A", "description": ""}, {"letter": "B", "description": "Sign-in trouble."}, {"letter": "C", "description": "Rechnungen für alle."}]}"#;
        assert!(prompt.user.ends_with(ends), "{}", prompt.user);
    }
}
