use serde_json::{Map, Value, json};

use super::{
    readout::{Decision, DecisionError},
    request::{BadRequest, Choice, DecisionRequest, OPTIONS},
};

/// Questions over one state, as the `/v1/systemone` interface has them.
#[derive(Debug, Clone, PartialEq)]
pub struct Systemone {
    /// Who is to decide, if that is said.
    pub model: Option<String>,
    questions: Vec<Question>,
}

/// One question, and how its answer is worded.
#[derive(Debug, Clone, PartialEq)]
struct Question {
    name: String,
    form: Form,
    request: DecisionRequest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Yes or no.
    Noul,
    /// One of several.
    Choice,
    /// How far, on a scale from low to high.
    Score,
}

/// Why a request is refused or failed, in the words of the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub kind: &'static str,
    pub code: &'static str,
    pub message: String,
    /// Where in the request it is.
    pub param: Option<String>,
}

/// Questions of one request.
const MAX_QUESTIONS: usize = 64;

impl Systemone {
    /// Reads a request; the ids of its decisions are `id`, a dot and the name of the question.
    pub fn read(body: &Value, id: &str) -> Result<Self, Refusal> {
        let Some(fields) = body.as_object() else { return Err(Refusal::invalid("invalid_body", None, "the body is no object")) };
        if let Some(key) = fields.keys().find(|key| !["model", "state", "questions"].contains(&key.as_str())) {
            return Err(Refusal::invalid("unknown_field", Some(key.clone()), "a request has `model`, `state` and `questions`"));
        }
        let model = match fields.get("model") {
            None | Some(Value::Null) => None,
            Some(Value::String(model)) => Some(model.clone()),
            Some(_) => return Err(Refusal::invalid("invalid_model", Some("model".into()), "`model` must be a text")),
        };
        let state = fields.get("state").cloned().unwrap_or_default();
        let asked = fields.get("questions").and_then(Value::as_object);
        let Some(asked) = asked.filter(|asked| (1..=MAX_QUESTIONS).contains(&asked.len())) else {
            let message = format!("`questions` must be an object of 1 to {MAX_QUESTIONS} questions by name");
            return Err(Refusal::invalid("invalid_questions", Some("questions".into()), message));
        };
        let read = |(name, question): (&String, &Value)| Question::read(name, question, &state, id);
        Ok(Self { model, questions: asked.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// What is to be decided, in order.
    pub fn requests(&self) -> impl Iterator<Item = &DecisionRequest> {
        self.questions.iter().map(|question| &question.request)
    }

    /// The answer to the request, given a decision for each of [`requests`](Self::requests), in order.
    pub fn answered(&self, decisions: &[Decision], engine: &str) -> Value {
        let answers: Map<String, Value> = self
            .questions
            .iter()
            .zip(decisions)
            .map(|(question, decision)| (question.name.clone(), question.answered(decision)))
            .collect();
        let tokens: u64 = decisions.iter().map(|decision| decision.input_tokens).sum();
        json!({
            "answers": answers,
            "usage": { "input_tokens": tokens, "output_tokens": 0 },
            "semif": {
                "mode": if decisions.len() > 1 { "shared" } else { "direct" },
                "backend": engine,
                "model": decisions.first().map(|decision| &decision.model),
                "fallback_from": null,
            },
        })
    }
}

impl Question {
    fn read(name: &str, question: &Value, state: &Value, id: &str) -> Result<Self, Refusal> {
        let place = |key: &str| Some(format!("questions.{name}.{key}"));
        let form = match question.get("type").and_then(Value::as_str) {
            Some("noul") => Form::Noul,
            Some("choice") => Form::Choice,
            Some("score") => Form::Score,
            _ => return Err(Refusal::invalid("unknown_type", place("type"), "`type` must be noul, choice or score")),
        };
        let instructions = match question.get("instructions") {
            Some(Value::String(text)) => text.clone(),
            Some(structured @ (Value::Object(_) | Value::Array(_))) => structured.to_string(),
            _ => {
                return Err(Refusal::invalid(
                    "invalid_instructions",
                    place("instructions"),
                    "`instructions` must say what is asked",
                ));
            }
        };
        let options = options(form, question.get("criteria")).map_err(|message| {
            let code = if message == COUNT { "option_count_unsupported" } else { "invalid_criteria" };
            Refusal::invalid(code, place("criteria"), message)
        })?;
        let request = DecisionRequest { id: format!("{id}.{name}"), state: state.clone(), question: instructions, options };
        // What came so far was read piece by piece; the row as a whole is held to the rules of rows.
        let row = DecisionRequest::read(&json!(request)).map_err(|error| match error {
            BadRequest::State => Refusal::invalid("invalid_state", Some("state".into()), error.to_string()),
            error => Refusal::invalid("invalid_question", Some(format!("questions.{name}")), error.to_string()),
        })?;
        Ok(Self { name: name.to_owned(), form, request: row })
    }

    fn answered(&self, decision: &Decision) -> Value {
        let probabilities = || -> Map<String, Value> {
            decision.option_ids.iter().cloned().zip(decision.probabilities.iter().map(|p| json!(p))).collect()
        };
        let mut answer = match self.form {
            Form::Noul => json!({ "type": "noul", "noul": decision.probabilities.first() }),
            Form::Choice => json!({
                "type": "choice",
                "choice": decision.selected,
                "probabilities": probabilities(),
                "confidence": decision.confidence,
            }),
            Form::Score => {
                let score: f64 = (0_u32..).zip(&decision.probabilities).map(|(level, p)| f64::from(level) * p).sum();
                let legend: Map<String, Value> =
                    self.request.options.iter().map(|option| (option.id.clone(), json!(option.description))).collect();
                json!({
                    "type": "score",
                    "score": score,
                    "legend": legend,
                    "probabilities": probabilities(),
                    "confidence": decision.confidence,
                })
            }
        };
        if let Some(answer) = answer.as_object_mut() {
            answer.insert("semif".to_owned(), read_from(decision));
        }
        answer
    }
}

/// What an answer was read from.
fn read_from(decision: &Decision) -> Value {
    json!({
        "option_ids": decision.option_ids,
        "option_logits": decision.option_logits,
        "prompt_sha256": decision.prompt_sha256,
        "prompt_version": decision.prompt_version,
        "input_tokens": decision.input_tokens,
        "allowed_token_mass": decision.allowed_token_mass,
        "agreement": decision.agreement,
        "temperature": decision.temperature,
        "confidence_formula": "normalized-peak-v1",
        "readout": decision.readout,
        "probability_status": decision.probability_status,
    })
}

const COUNT: &str = "`criteria` must have 2 to 16 entries";

fn options(form: Form, criteria: Option<&Value>) -> Result<Vec<Choice>, &'static str> {
    let options = match (form, criteria.filter(|criteria| !criteria.is_null())) {
        (Form::Noul, criteria) => {
            let said =
                |key: &str| criteria.and_then(|criteria| criteria.get(key)).and_then(Value::as_str).filter(|said| !said.is_empty());
            if criteria.is_some_and(|criteria| !criteria.is_object()) {
                return Err("`criteria` of a noul say what `true` and `false` mean");
            }
            vec![
                Choice::new("true", said("true").unwrap_or("Yes, that is the case.")),
                Choice::new("false", said("false").unwrap_or("No, that is not the case.")),
            ]
        }
        (Form::Choice, Some(Value::Object(criteria))) => {
            let described = |(id, said): (&String, &Value)| match said {
                Value::Null => Ok(Choice::new(id, id)),
                Value::String(said) => Ok(Choice::new(id, if said.is_empty() { id } else { said })),
                _ => Err("each of the `criteria` is described by a text, or by null"),
            };
            criteria.iter().map(described).collect::<Result<_, _>>()?
        }
        (Form::Choice, _) => return Err("`criteria` of a choice are an object: what can be chosen, and what it means"),
        (Form::Score, Some(Value::Array(levels))) => {
            let level = |(at, said): (usize, &Value)| Some(Choice::new(at.to_string(), said.as_str()?));
            levels.iter().enumerate().map(level).collect::<Option<_>>().ok_or("each level of a score is described by a text")?
        }
        (Form::Score, _) => return Err("`criteria` of a score are a list of levels, from low to high"),
    };
    if OPTIONS.contains(&options.len()) { Ok(options) } else { Err(COUNT) }
}

impl Refusal {
    /// A request that cannot be meant so.
    pub fn invalid(code: &'static str, param: Option<String>, message: impl Into<String>) -> Self {
        Self { status: 422, kind: "invalid_request_error", code, message: message.into(), param }
    }

    /// An engine that did not decide.
    pub fn failed(error: &DecisionError) -> Self {
        let message = crate::vocab::chain(error);
        let (status, code) = match error {
            DecisionError::CutOff { .. } => (503, "model_unavailable"),
            DecisionError::Model { .. } | DecisionError::NoScores { .. } | DecisionError::Meaningless { .. } => {
                (500, "backend_failed")
            }
        };
        Self { status, kind: "api_error", code, message, param: None }
    }

    /// The body of the refusal.
    pub fn body(&self) -> Value {
        let mut error = json!({ "type": self.kind, "code": self.code, "message": self.message });
        if let (Some(error), Some(param)) = (error.as_object_mut(), &self.param) {
            error.insert("param".to_owned(), json!(param));
        }
        json!({ "error": error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(questions: &Value) -> Result<Systemone, Refusal> {
        Systemone::read(&json!({ "state": "The roof leaks.", "questions": questions }), "r")
    }

    #[test]
    fn each_form_of_question_has_the_options_that_others_give_it() {
        let asked = read(&json!({
            "urgent": { "type": "noul", "instructions": "Is it urgent?" },
            "desk": { "type": "choice", "instructions": { "ask": "Which desk?" }, "criteria": { "money": "Invoices", "login": null } },
            "harm": { "type": "score", "instructions": "How bad?", "criteria": ["small", "middling", "stopped"] },
        }))
        .unwrap();
        let ids = |request: &DecisionRequest| request.options.iter().map(|option| option.id.clone()).collect::<Vec<_>>();
        let requests: Vec<&DecisionRequest> = asked.requests().collect();
        assert_eq!(
            requests.iter().map(|request| ids(request)).collect::<Vec<_>>(),
            [vec!["true", "false"], vec!["money", "login"], vec!["0", "1", "2"]]
        );
        assert_eq!(requests.iter().map(|request| request.id.as_str()).collect::<Vec<_>>(), ["r.urgent", "r.desk", "r.harm"]);
        assert_eq!(
            (requests[1].options[1].description.as_str(), requests[1].question.as_str()),
            ("login", r#"{"ask":"Which desk?"}"#)
        );
    }

    #[test]
    fn what_cannot_be_answered_is_refused_with_its_place() {
        let refused = |questions: Value| read(&questions).map(|_| ()).unwrap_err();
        let one = |more: Value| {
            let mut question = json!({ "type": "choice", "instructions": "Which?", "criteria": { "a": "A", "b": "B" } });
            question.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "q": question })
        };
        let many: Map<String, Value> = (0..17).map(|at| (at.to_string(), Value::Null)).collect();
        for (question, code, param) in [
            (json!({}), "invalid_questions", "questions"),
            (one(json!({ "type": "essay" })), "unknown_type", "questions.q.type"),
            (one(json!({ "instructions": 1 })), "invalid_instructions", "questions.q.instructions"),
            (one(json!({ "instructions": "" })), "invalid_question", "questions.q"),
            (one(json!({ "criteria": { "a": "A" } })), "option_count_unsupported", "questions.q.criteria"),
            (one(json!({ "criteria": many })), "option_count_unsupported", "questions.q.criteria"),
            (one(json!({ "criteria": { "a": 1, "b": 2 } })), "invalid_criteria", "questions.q.criteria"),
            (one(json!({ "type": "score" })), "invalid_criteria", "questions.q.criteria"),
            (one(json!({ "type": "noul", "criteria": [] })), "invalid_criteria", "questions.q.criteria"),
        ] {
            let refusal = refused(question);
            assert_eq!((refusal.status, refusal.code, refusal.param.as_deref()), (422, code, Some(param)), "{}", refusal.message);
        }
        let stateless = Systemone::read(&json!({ "questions": one(json!({})) }), "r").unwrap_err();
        assert_eq!((stateless.code, stateless.body()["error"]["param"].as_str()), ("invalid_state", Some("state")));
        let strange = Systemone::read(&json!({ "state": "s", "questions": one(json!({})), "stream": true }), "r").unwrap_err();
        assert_eq!(strange.code, "unknown_field");
    }
}
