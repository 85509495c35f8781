//! `[decision.NAME]`: who decides, and from which probability on an answer counts.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{DecisionSpec, EngineSpec, check::Cx, scalar::ObjectName};
use crate::vocab::{Kind, Name, Ratio};

/// How something is decided: an engine, and from which probability on an answer counts.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Decision")]
pub(crate) struct DecisionDocument {
    /// Who decides: `readout` reads the scores that a declared model gives to the options, `embedding` compares meanings.
    pub engine: Option<EngineName>,
    /// The model that `readout` reads: an embedded one, or one of a server that lists `top_logprobs`.
    pub model: Option<ObjectName>,
    /// Divides the scores: above 1 it evens the options out, below 1 it parts them. What fits the engine unless said otherwise.
    #[schemars(range(min = 0.001, max = 100.0))]
    pub temperature: Option<f64>,
    /// In how many orders `readout` shows the options, at most one for each option; a small model likes some letters more than others.
    #[schemars(range(min = 1, max = 16))]
    pub rotations: Option<u8>,
    /// Nothing is selected when the options hold less than this share of all probability.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_mass: Option<f64>,
    /// How probable it must be that a category covers a request.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub category_tau: Option<f64>,
    /// How probable it must be that a skill does what is asked.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub intent_tau: Option<f64>,
    /// How probable it must be that a run did what was asked.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tau: Option<f64>,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Engine", inline)]
pub(crate) enum EngineName {
    Readout,
    Embedding,
}

/// Resolves a decision.
pub(crate) fn resolve(document: &DecisionDocument, cx: &mut Cx<'_>) -> Option<DecisionSpec> {
    let share = |number: Option<f64>| number.and_then(|number| Ratio::try_from(number).ok());
    let engine = engine(document, cx);
    Some(DecisionSpec {
        engine: engine?,
        temperature: share(document.temperature),
        rotations: document.rotations.unwrap_or(1),
        min_mass: share(document.min_mass).unwrap_or_default(),
        category_tau: share(document.category_tau).unwrap_or_default(),
        intent_tau: share(document.intent_tau).unwrap_or_default(),
        tau: share(document.tau).unwrap_or_default(),
    })
}

fn engine(document: &DecisionDocument, cx: &mut Cx<'_>) -> Option<EngineSpec> {
    if document.engine == Some(EngineName::Embedding) {
        if document.model.is_some() && cx.is_own(&["model"]) {
            let hint = "it brings a model of its own; take it out, or write engine = \"readout\"";
            cx.fault(&["model"], "`model` is not used by engine `embedding`", Some(hint.into()));
        }
        return Some(EngineSpec::Embedding);
    }
    let Some(text) = &document.model else {
        if !cx.was_there(&["engine"]) {
            cx.missing(&["model"], "write model = the name of a declared model, or engine = \"embedding\"");
        }
        return None;
    };
    let model = Name::try_from(text.0.as_str()).ok()?;
    if !cx.declared.models.contains(&model) {
        cx.dangling(&["model"], &text.0, Kind::Model, &cx.declared.models);
        return None;
    }
    Some(EngineSpec::Readout { model })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Overrides, Sources, read};

    #[test]
    fn a_being_that_names_no_decision_decides_by_what_a_decision_has_where_it_says_nothing() {
        let text = "[model.smol]\nprovider = \"embedded\"\n[decision.plain]\nmodel = \"smol\"\n[being.ada]\nmodel = \"smol\"";
        let fleet = read(&Sources::of_text("x.toml", "/", text), &Overrides::default()).unwrap().fleet;
        let plain = Name::try_from("plain").unwrap();
        assert_eq!(fleet.decision_of(fleet.beings.values().next().unwrap()).as_ref(), fleet.decisions.get(&plain));
    }
}
