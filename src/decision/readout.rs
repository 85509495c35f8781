use schemars::JsonSchema;
use serde::Serialize;

use super::{
    prompt::{LETTERS, PROMPT_VERSION, Prompt},
    request::DecisionRequest,
};
use crate::{
    model::{ModelError, Models, ScoreRequest, Scores, embedding::EmbeddingError},
    vocab::{Digest, Name},
};

/// How scores become a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Terms {
    /// Divides the logits: above one it evens the options out, below one it parts them.
    pub temperature: f64,
    /// In how many orders the options are shown; each order counts the same.
    pub rotations: usize,
    /// Below this share of probability in the whole vocabulary the decision abstains.
    pub min_mass: f64,
}

impl Default for Terms {
    fn default() -> Self {
        Self { temperature: 1.0, rotations: 1, min_mass: 0.0 }
    }
}

/// Why there is no decision. No engine ever guesses.
#[derive(Debug, thiserror::Error)]
pub enum DecisionError {
    #[error("Row {id}: {}", source.message)]
    Model { id: String, source: Box<ModelError> },
    #[error("Row {id}: Need at least two finite scores")]
    NoScores { id: String },
    #[error("Row {id}: {what} cannot be compared by its meaning")]
    Meaningless {
        id: String,
        /// The state, or one of the options.
        what: String,
        #[source]
        source: Box<EmbeddingError>,
    },
    #[error("Row {id}: the comparison was cut off; ask again")]
    CutOff { id: String },
}

/// What was decided, and all that it was read from.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Decision")]
pub struct Decision {
    /// The id of the request.
    pub id: String,
    /// The options, in the order of the request.
    pub option_ids: Vec<String>,
    /// A probability for each option; they sum to 1.
    pub probabilities: Vec<f64>,
    /// The option with the highest probability, the first of equals; null when the decision abstains.
    pub selected: Option<String>,
    /// How far the highest probability is above an even share, from 0 to 1.
    pub confidence: f64,
    /// The share of the orders, in which the options were shown, that select the same option; 1 where there is one order.
    pub agreement: f64,
    /// The share of probability that the letters of the options hold in the whole vocabulary.
    pub allowed_token_mass: f64,
    /// The logits behind the probabilities, before the temperature; over several orders their mean. Null where the server lists none.
    pub option_logits: Vec<Option<f64>>,
    /// Divides the logits.
    pub temperature: f64,
    /// Tokens that were shown, over all orders.
    pub input_tokens: u64,
    /// SHA-256 of the prompt in the order of the request.
    #[schemars(with = "String")]
    pub prompt_sha256: Digest,
    /// Which wording the prompt has.
    pub prompt_version: &'static str,
    /// The model that was read.
    pub model: String,
    /// How the probabilities were had.
    pub readout: &'static str,
    /// What the probabilities are, and are not.
    pub probability_status: &'static str,
}

const WHOLE: &str = "quantized last-position logits restricted to declared answer slots; no generated tokens";
const PARTIAL: &str = "likeliest next tokens as the server lists them, restricted to declared answer slots";
const STATUS: &str = "conditional option score; uncalibrated as decision confidence";

/// Decides by reading the scores that one declared model gives to the letters of the options: of a model in this process all of them, of
/// a server those among its 20 likeliest tokens.
#[derive(Debug, Clone)]
pub struct Readout {
    models: Models,
    model: Name,
    terms: Terms,
}

impl Readout {
    /// An engine on a declared model.
    pub const fn new(models: Models, model: Name, terms: Terms) -> Self {
        Self { models, model, terms }
    }

    /// Decides. One pass for each order in which options are shown; orders and requests over one state share what was read of it.
    pub async fn decide(&self, request: &DecisionRequest) -> Result<Decision, DecisionError> {
        let turns = turns(request.options.len(), self.terms.rotations);
        let letters = LETTERS.get(..request.options.len()).unwrap_or(&LETTERS);
        let mut readings = Vec::with_capacity(turns.len());
        for turn in turns {
            let Prompt { system, user } = Prompt::of(request, turn);
            let asked = ScoreRequest { system: system.to_owned(), user, answers: letters.to_vec() };
            let scored = self.models.score(AGENT, &self.model, &asked).await;
            let failed = |source| DecisionError::Model { id: request.id.clone(), source: Box::new(source) };
            let (scores, _) = scored.map_err(failed)?;
            readings.push(Reading { turn, scores });
        }
        decided(request, &readings, self.terms)
    }
}

/// Who signs at a gateway.
const AGENT: &str = "decide";

/// Scores of the letters, with the options turned by `turn` places.
#[derive(Debug)]
struct Reading {
    turn: usize,
    scores: Scores,
}

/// By how many places the options are turned: evenly spread, and no order twice.
fn turns(options: usize, rotations: usize) -> Vec<usize> {
    let rotations = rotations.clamp(1, options.max(1));
    (0..rotations).map(|k| k * options / rotations).collect()
}

/// Makes one decision out of the readings.
fn decided(request: &DecisionRequest, readings: &[Reading], terms: Terms) -> Result<Decision, DecisionError> {
    let options = request.options.len();
    let mut probabilities = vec![0.0; options];
    let mut logits = vec![0.0; options];
    let mut selections = Vec::new();
    let share = 1.0 / f64::from(u32::try_from(readings.len()).unwrap_or(u32::MAX));
    for Reading { turn, scores } in readings {
        // The letter at place `i` stood for option `(i + turn) % options`.
        let mut own: Vec<f64> = scores.logits.clone();
        own.rotate_right(turn % options.max(1));
        let of = softmax(&own, terms.temperature).ok_or_else(|| DecisionError::NoScores { id: request.id.clone() })?;
        selections.push(highest(&of));
        for ((sum, mean), (probability, logit)) in probabilities.iter_mut().zip(&mut logits).zip(of.iter().zip(&own)) {
            *sum += probability * share;
            *mean += logit * share;
        }
    }
    let mass = readings.iter().map(|reading| reading.scores.mass).sum::<f64>() * share;
    let best = highest(&probabilities);
    let agreeing = selections.iter().filter(|selected| **selected == best).count();
    let even = f64::from(u32::try_from(options).unwrap_or(u32::MAX));
    let most = probabilities.get(best).copied().unwrap_or_default();
    Ok(Decision {
        id: request.id.clone(),
        option_ids: request.options.iter().map(|option| option.id.clone()).collect(),
        selected: request.options.get(best).filter(|_| mass >= terms.min_mass).map(|option| option.id.clone()),
        confidence: ((even * most - 1.0) / (even - 1.0)).clamp(0.0, 1.0),
        agreement: f64::from(u32::try_from(agreeing).unwrap_or(u32::MAX)) * share,
        probabilities,
        allowed_token_mass: mass,
        option_logits: logits.into_iter().map(|logit| logit.is_finite().then_some(logit)).collect(),
        temperature: terms.temperature,
        input_tokens: readings.iter().map(|reading| reading.scores.usage.prompt_tokens).sum(),
        prompt_sha256: Prompt::of(request, 0).digest(),
        prompt_version: PROMPT_VERSION,
        model: readings.first().map(|reading| reading.scores.model.clone()).unwrap_or_default(),
        readout: if readings.iter().any(|reading| reading.scores.is_partial) { PARTIAL } else { WHOLE },
        probability_status: STATUS,
    })
}

/// Probabilities of logits; `None` where fewer than two of them are finite.
pub(super) fn softmax(logits: &[f64], temperature: f64) -> Option<Vec<f64>> {
    if logits.iter().filter(|logit| logit.is_finite()).count() < 2 {
        return None;
    }
    let most = logits.iter().copied().filter(|logit| logit.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let weight = |logit: &f64| if logit.is_finite() { ((logit - most) / temperature).exp() } else { 0.0 };
    let weights: Vec<f64> = logits.iter().map(weight).collect();
    let sum: f64 = weights.iter().sum();
    Some(weights.into_iter().map(|weight| weight / sum).collect())
}

/// The first of the highest.
pub(super) fn highest(probabilities: &[f64]) -> usize {
    let better = |best: (usize, f64), (at, p): (usize, &f64)| if *p > best.1 { (at, *p) } else { best };
    probabilities.iter().enumerate().fold((0, f64::NEG_INFINITY), better).0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::decision::request::Choice;

    fn request(options: usize) -> DecisionRequest {
        let choice = |at: usize| Choice { id: format!("o{at}"), description: format!("option {at}") };
        let options = (0..options).map(choice).collect();
        DecisionRequest { id: "r".into(), state: "s".into(), question: "q".into(), options }
    }

    fn scores(logits: Vec<f64>) -> Scores {
        Scores { logits, mass: 0.9, usage: Default::default(), model: "m".into(), is_partial: false }
    }

    /// What a model says that likes each letter as `bias`, and each option as `liking`.
    fn reading(liking: &[f64], bias: &[f64], turn: usize) -> Reading {
        let n = liking.len();
        let logits = (0..n).map(|place| liking[(place + turn) % n] + bias[place]).collect();
        Reading { turn, scores: scores(logits) }
    }

    fn decide(liking: &[f64], bias: &[f64], terms: Terms) -> Decision {
        let readings: Vec<_> = turns(liking.len(), terms.rotations).into_iter().map(|turn| reading(liking, bias, turn)).collect();
        decided(&request(liking.len()), &readings, terms).unwrap()
    }

    #[test]
    fn turns_are_spread_and_none_comes_twice() {
        assert_eq!(turns(4, 1), [0]);
        assert_eq!(turns(4, 2), [0, 2]);
        assert_eq!(turns(3, 2), [0, 1]);
        assert_eq!(turns(3, 9), [0, 1, 2]);
    }

    #[test]
    fn a_model_that_loves_a_letter_is_not_believed_once_every_order_was_shown() {
        let (liking, bias) = ([0.0, 0.4, 0.0], [3.0, 0.0, 0.0]);
        assert_eq!(decide(&liking, &bias, Terms::default()).selected.as_deref(), Some("o0"), "the letter decides");
        let turned = decide(&liking, &bias, Terms { rotations: 3, ..Terms::default() });
        assert_eq!(turned.selected.as_deref(), Some("o1"), "{turned:?}");
        assert!((turned.agreement - 1.0 / 3.0).abs() < 1e-9, "{turned:?}");
    }

    #[test]
    fn a_decision_abstains_when_the_model_wants_to_say_something_else() {
        let of = |min_mass| decide(&[1.0, 0.0], &[0.0; 2], Terms { min_mass, ..Terms::default() }).selected;
        assert_eq!((of(0.9).as_deref(), of(0.91)), (Some("o0"), None));
    }

    #[test]
    fn scores_that_are_no_numbers_are_no_decision() {
        let unreadable = Reading { turn: 0, scores: scores(vec![f64::NEG_INFINITY, 1.0]) };
        let refused = decided(&request(2), &[unreadable], Terms::default()).unwrap_err();
        assert_eq!(refused.to_string(), "Row r: Need at least two finite scores");
    }

    proptest! {
        #[test]
        fn probabilities_sum_to_one_and_a_temperature_changes_no_choice(
            (liking, bias) in (2..=16_usize).prop_flat_map(|n| (prop::collection::vec(-30.0..30.0, n), prop::collection::vec(-3.0..3.0, n))),
            temperature in 0.1..10.0_f64, rotations in 1..=16_usize
        ) {
            let plain = decide(&liking, &bias, Terms::default());
            let warm = decide(&liking, &bias, Terms { temperature, ..Terms::default() });
            prop_assert_eq!(&plain.selected, &warm.selected);
            let turned = decide(&liking, &bias, Terms { temperature, rotations, min_mass: 0.0 });
            for decision in [plain, warm, turned] {
                prop_assert!((decision.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                prop_assert!((0.0..=1.0).contains(&decision.confidence) && (0.0..=1.0 + 1e-9).contains(&decision.agreement));
            }
        }

        #[test]
        fn with_every_order_shown_no_order_of_the_request_changes_what_an_option_gets(
            (liking, bias) in (2..=6_usize).prop_flat_map(|n| (prop::collection::vec(-5.0..5.0, n), prop::collection::vec(-3.0..3.0, n)))
        ) {
            let n = liking.len();
            let terms = Terms { rotations: n, ..Terms::default() };
            let (mut moved, plain) = (liking.clone(), decide(&liking, &bias, terms));
            moved.rotate_left(1);
            let moved = decide(&moved, &bias, terms);
            for at in 0..n {
                prop_assert!((plain.probabilities[(at + 1) % n] - moved.probabilities[at]).abs() < 1e-9);
            }
        }
    }
}
