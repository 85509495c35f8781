use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    readout::{Decision, DecisionError, highest, softmax},
    request::{Choice, DecisionRequest},
};
use crate::{
    model::{
        Models,
        embedding::{Embedding, EmbeddingError, Encoder},
    },
    vocab::Digest,
};

/// How texts are made of a request and compared; it changes whenever a similarity may.
pub const MEANING_VERSION: &str = "singularity-meanings-v1";

/// How similarities become a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Nearness {
    /// Divides the similarities: above the default it evens the options out, below it parts them.
    pub temperature: f64,
    /// Below this share of probability, against that of none of the options, the decision abstains. Where an option stands for none of
    /// the others nothing abstains.
    pub min_mass: f64,
}

impl Default for Nearness {
    fn default() -> Self {
        Self { temperature: 0.05, min_mass: 0.0 }
    }
}

/// Options that stand for none of the others: of a question of what fits, and of the guards of a walk.
const NEITHER: [&str; 3] = ["none", "outside", "different"];
/// What people say that no tool is for, a line each. What is nearer to one of these than to every option fits no option.
const BACKGROUND: &str = include_str!("background.txt");
/// How much further an option may be than the nearest of these lines.
const LEEWAY: f64 = 0.08;
/// What is nearer to no option than this has nothing to do with any.
const FLOOR: f64 = 0.2;
/// What the first line of a description counts beside the nearest of the others.
const FIRST: f64 = 0.3;

/// Decides by meaning: the option whose description is nearest to the state.
///
/// The first line of a description says what an option is; more lines are more ways to say it, and the nearest of them counts. An option
/// `none`, `outside` or `different` stands for none of the others: it is as near as the nearest thing that is no business of a tool. The
/// question is not read, so that only questions for what fits best are answered well; order changes nothing.
#[derive(Debug, Clone)]
pub struct Likeness {
    models: Models,
    terms: Nearness,
}

impl Likeness {
    /// An engine on the embedding model of some models. Nothing is loaded yet.
    pub const fn new(models: Models, terms: Nearness) -> Self {
        Self { models, terms }
    }

    /// Decides. The model is fetched and loaded when it is first needed; the meanings of options are kept.
    pub async fn decide(&self, request: &DecisionRequest) -> Result<Decision, DecisionError> {
        let failed = |source| DecisionError::Model { id: request.id.clone(), source: Box::new(source) };
        let encoder = self.models.encoder().await.map_err(failed)?;
        let (request, terms) = (request.clone(), self.terms);
        let id = request.id.clone();
        let compared = tokio::task::spawn_blocking(move || compare(&encoder, &request, terms)).await;
        compared.unwrap_or(Err(DecisionError::CutOff { id }))
    }
}

/// Compares. Blocks for some milliseconds.
fn compare(encoder: &Encoder, request: &DecisionRequest, terms: Nearness) -> Result<Decision, DecisionError> {
    let failed = |what: String| {
        let id = request.id.clone();
        move |source| DecisionError::Meaningless { id, what, source: Box::new(source) }
    };
    let state = encoder.meaning(&told(&request.state)).map_err(failed("its state".to_owned()))?;
    let meaning = |line: &str| encoder.meaning(line);
    let background = BACKGROUND.lines().map(meaning).collect::<Result<Vec<_>, _>>();
    let background = background.map_err(failed("what fits no option".to_owned()))?;
    let own = |option: &Choice| match NEITHER.contains(&option.id.as_str()) {
        true => Ok(None),
        false => described(encoder, option).map(Some).map_err(failed(format!("option `{}`", option.id))),
    };
    let options = request.options.iter().map(own).collect::<Result<Vec<_>, _>>()?;
    let none = distance_to_none(&state, &background);
    decided(request, encoder.name(), &state, &nearness(&state, &options, none), (none, terms))
}

/// The meanings of the lines of a description.
fn described(encoder: &Encoder, option: &Choice) -> Result<Vec<Arc<Embedding>>, EmbeddingError> {
    let lines = option.description.lines().filter(|line| !line.trim().is_empty());
    let lines = lines.map(|line| encoder.meaning(line)).collect::<Result<Vec<_>, _>>()?;
    if lines.is_empty() { Err(EmbeddingError::Empty) } else { Ok(lines) }
}

/// The text of a state: its own, or that of all its parts, a line each.
fn told(state: &Value) -> String {
    match state {
        Value::String(text) => text.clone(),
        Value::Object(fields) => fields.values().map(told).collect::<Vec<_>>().join("\n"),
        Value::Array(items) => items.iter().map(told).collect::<Vec<_>>().join("\n"),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// How near an option has to be to be nearer than none of them.
fn distance_to_none(state: &Embedding, background: &[Arc<Embedding>]) -> f64 {
    background.iter().map(|line| state.cosine(line) - LEEWAY).fold(FLOOR, f64::max)
}

/// How near each option is to the state; one that stands for none of the others is as near as is said.
fn nearness(state: &Embedding, options: &[Option<Vec<Arc<Embedding>>>], none: f64) -> Vec<f64> {
    let near = |lines: &Option<Vec<Arc<Embedding>>>| {
        let Some([first, rest @ ..]) = lines.as_deref() else { return none };
        let first = state.cosine(first);
        let nearest = rest.iter().map(|line| state.cosine(line)).reduce(f64::max);
        nearest.map_or(first, |nearest| FIRST * first + (1.0 - FIRST) * nearest)
    };
    options.iter().map(near).collect()
}

const READOUT: &str =
    "cosine of sentence vectors, the first line of each option beside the nearest of its others; no generated tokens";
const STATUS: &str = "share among the similarities of the options; uncalibrated as decision confidence";

fn decided(
    request: &DecisionRequest,
    model: &str,
    state: &Embedding,
    near: &[f64],
    (none, terms): (f64, Nearness),
) -> Result<Decision, DecisionError> {
    let probabilities = softmax(near, terms.temperature).ok_or_else(|| DecisionError::NoScores { id: request.id.clone() })?;
    let best = highest(&probabilities);
    let has_none = request.options.iter().any(|option| NEITHER.contains(&option.id.as_str()));
    let weight = |near: f64| ((near - none) / terms.temperature).exp();
    let held: f64 = near.iter().copied().map(weight).sum();
    let mass = if has_none { 1.0 } else { held / (held + 1.0) };
    let even = f64::from(u32::try_from(near.len()).unwrap_or(u32::MAX));
    let most = probabilities.get(best).copied().unwrap_or_default();
    let shown = json!([MEANING_VERSION, told(&request.state), request.options]);
    Ok(Decision {
        id: request.id.clone(),
        option_ids: request.options.iter().map(|option| option.id.clone()).collect(),
        selected: request.options.get(best).filter(|_| mass >= terms.min_mass).map(|option| option.id.clone()),
        confidence: ((even * most - 1.0) / (even - 1.0)).clamp(0.0, 1.0),
        agreement: 1.0,
        probabilities,
        allowed_token_mass: mass,
        option_logits: near.iter().copied().map(Some).collect(),
        temperature: terms.temperature,
        input_tokens: u64::try_from(state.tokens).unwrap_or(u64::MAX),
        prompt_sha256: Digest::of(shown.to_string()),
        prompt_version: MEANING_VERSION,
        model: model.to_owned(),
        readout: READOUT,
        probability_status: STATUS,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(options: &[(&str, &str)]) -> DecisionRequest {
        let choice = |(id, description): &(&str, &str)| Choice { id: (*id).into(), description: (*description).into() };
        let options = options.iter().map(choice).collect();
        DecisionRequest { id: "r".into(), state: "s".into(), question: "q".into(), options }
    }

    /// A meaning in a plane, at an angle whose cosine to [`state`] is given.
    fn at(cosine: f32) -> Arc<Embedding> {
        Arc::new(Embedding::of(vec![cosine, (1.0 - cosine * cosine).sqrt()]))
    }

    fn state() -> Embedding {
        Embedding::of(vec![1.0, 0.0])
    }

    fn decide(options: &[(&str, Option<Vec<Arc<Embedding>>>)], none: f64, terms: Nearness) -> Decision {
        let names: Vec<(&str, &str)> = options.iter().map(|(id, _)| (*id, "")).collect();
        let lines: Vec<_> = options.iter().map(|(_, lines)| lines.clone()).collect();
        decided(&request(&names), "m", &state(), &nearness(&state(), &lines, none), (none, terms)).unwrap()
    }

    #[test]
    fn one_line_that_says_it_well_outweighs_those_that_do_not() {
        let options = [("plain", Some(vec![at(0.4)])), ("many", Some(vec![at(0.2), at(0.1), at(0.8)]))];
        let decision = decide(&options, 0.0, Nearness::default());
        assert_eq!(decision.selected.as_deref(), Some("many"));
        assert!((decision.option_logits[1].unwrap() - 0.62).abs() < 1e-6, "{decision:?}");
    }

    #[test]
    fn what_is_nearer_to_small_talk_than_to_any_option_is_none_of_them() {
        let options = [("a", Some(vec![at(0.5)])), ("none", None)];
        let near = |talk: f32| distance_to_none(&state(), &[at(0.1), at(talk)]);
        assert_eq!(decide(&options, near(0.5), Nearness::default()).selected.as_deref(), Some("a"), "there is some leeway");
        assert_eq!(decide(&options, near(0.7), Nearness::default()).selected.as_deref(), Some("none"));
        assert!((near(0.1) - FLOOR).abs() < 1e-9, "and a floor");
    }

    #[test]
    fn without_an_option_for_none_a_decision_abstains_where_its_terms_say_so() {
        let options = [("a", Some(vec![at(0.3)])), ("b", Some(vec![at(0.1)]))];
        assert_eq!(decide(&options, 0.5, Nearness::default()).selected.as_deref(), Some("a"));
        let strict = decide(&options, 0.5, Nearness { min_mass: 0.5, ..Nearness::default() });
        assert_eq!(strict.selected, None);
        assert!((strict.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{strict:?}");
    }

    #[test]
    fn all_that_a_state_says_is_compared() {
        assert_eq!(told(&json!({ "message": "Will it rain?", "from": ["ann", 7], "seen": null })), "Will it rain?\nann\n7\n");
    }
}
