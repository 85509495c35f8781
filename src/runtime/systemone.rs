use std::time::Duration;

use serde_json::Value;

use super::Deciders;
use crate::{
    decision::{DecisionError, Refusal, Systemone},
    manifest::EngineSpec,
    vocab::Name,
};

/// What is answered to questions over one state.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The id of the request, by which its decisions are found in the log.
    pub id: String,
    /// Who decided, if anybody did.
    pub backend: Option<&'static str>,
    /// 200, or what kind of refusal the body is, as HTTP has it.
    pub status: u16,
    pub body: Value,
}

/// How long all decisions of a request may take together.
const PATIENCE: Duration = Duration::from_secs(300);
/// Names that others give whatever is declared.
const ALIASES: [&str; 2] = ["semif-latest", "jev-latest"];
/// What rows of the log are about.
const PHASE: &str = "systemone";

/// Answers questions over one state, as JSON has them. What is refused is answered too.
pub async fn systemone(deciders: &Deciders, body: &[u8]) -> Answered {
    let id = deciders.id();
    let late = || Refusal {
        status: 503,
        kind: "api_error",
        code: "model_unavailable",
        message: format!("it was not decided within {} seconds", PATIENCE.as_secs()),
        param: None,
    };
    let decided = tokio::time::timeout(PATIENCE, decided(deciders, body, &id)).await;
    match decided.unwrap_or_else(|_| Err(late())) {
        Ok((backend, body)) => Answered { id, backend: Some(backend), status: 200, body },
        Err(refusal) => Answered { id, backend: None, status: refusal.status, body: refusal.body() },
    }
}

async fn decided(deciders: &Deciders, body: &[u8], id: &str) -> Result<(&'static str, Value), Refusal> {
    let no_json = |error: serde_json::Error| Refusal::invalid("invalid_body", None, format!("the body is no JSON: {error}"));
    let asked = Systemone::read(&serde_json::from_slice(body).map_err(no_json)?, id)?;
    let model = asked.model.as_deref().filter(|model| !ALIASES.contains(model));
    let spec = deciders.named(model).map_err(|known| unknown(model, &known))?;
    let failed = |error: DecisionError| Refusal::failed(&error);
    let decider = deciders.decider(&spec).saying("request_id", id);
    let mut decisions = Vec::new();
    for request in asked.requests() {
        decisions.push(decider.decide(PHASE, request).await.map_err(failed)?);
    }
    let backend = match spec.engine {
        EngineSpec::Readout { .. } => "readout",
        EngineSpec::Embedding => "embedding",
    };
    Ok((backend, asked.answered(&decisions, backend)))
}

fn unknown(model: Option<&str>, known: &[Name]) -> Refusal {
    let known = known.iter().map(Name::as_str).collect::<Vec<_>>().join(", ");
    let message = match (model, known.as_str()) {
        (_, "") => "nothing that could decide is declared; declare [decision.NAME]".to_owned(),
        (Some(model), known) => format!("no decision and no model is called `{model}`; there are {known}"),
        (None, known) => format!("`model` must say which is to decide; there are {known}"),
    };
    Refusal::invalid("unknown_model", Some("model".to_owned()), message)
}
