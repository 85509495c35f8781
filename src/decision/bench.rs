use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    engine::Engine,
    readout::{Decision, DecisionError, highest, softmax},
    report::{ece, float, share},
    request::{Choice, DecisionRequest},
    tree::{Branch, Leaf, Tree},
    walk::{Guards, Move, Walk, which_leaf},
};
use crate::vocab::Timestamp;

/// Labelled requests and questions, by which engines are measured. Every second row is what is reported; on the others a temperature is
/// fitted.
#[derive(Debug, Clone)]
pub struct Sets {
    tree: Tree,
    routing: Vec<Routed>,
    yes_no: Vec<Judged>,
}

/// A request and the leaf that does what it asks for.
#[derive(Debug, Clone, Deserialize)]
struct Routed {
    id: String,
    message: String,
    /// `branch.leaf`, or null where nothing in the tree does it.
    skill: Option<String>,
    kind: String,
}

/// A question with a known answer.
#[derive(Debug, Clone, Deserialize)]
struct Judged {
    id: String,
    state: String,
    question: String,
    expected: String,
}

#[derive(Deserialize)]
struct Category {
    description: String,
    skills: Vec<Skill>,
}

#[derive(Deserialize)]
struct Skill {
    name: String,
    description: String,
}

/// How good an engine is on one set, on the rows that nothing was fitted on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Score {
    pub rows: usize,
    /// The share of rows that name a branch, or of questions, that are answered right.
    pub accuracy: f64,
    /// The share of rows that name a leaf, of which branch and leaf are right.
    pub leaf_accuracy: Option<f64>,
    /// The share of rows that nothing in the tree fits, of which no branch is chosen.
    pub rejection: Option<f64>,
    /// The same, all rows together, by kind of row.
    pub by_kind: BTreeMap<String, f64>,
    /// The share of decisions that select something else once the options are reversed.
    pub flips: f64,
    /// The expected calibration error in ten bins: how far confidence is from accuracy.
    pub ece: f64,
    /// The same with the temperature that fits the other half best.
    pub fitted_ece: f64,
    pub fitted_temperature: f64,
    /// First decisions of rows in a second.
    pub per_second: f64,
}

/// One decision beside what would have been right.
#[derive(Debug, Clone)]
struct Trial {
    scores: Vec<f64>,
    temperature: f64,
    wanted: usize,
    selected: Option<usize>,
    has_flipped: bool,
    kind: String,
    leaf: Option<bool>,
    is_none: bool,
}

impl Trial {
    fn is_right(&self) -> bool {
        self.selected == Some(self.wanted) && self.leaf.unwrap_or(true)
    }
}

impl Sets {
    /// The sets that the program carries: 196 requests over 12 branches and 40 leaves, 60 questions.
    pub fn built_in() -> Result<Self, serde_json::Error> {
        let categories: serde_json::Map<String, serde_json::Value> = serde_json::from_str(CATEGORIES)?;
        let branch = |(name, value): (String, serde_json::Value)| {
            let Category { description, skills } = serde_json::from_value(value)?;
            let leaves = skills.into_iter().map(|Skill { name, description }| Leaf { name, description }).collect();
            Ok(Branch { name, description, leaves })
        };
        let branches = categories.into_iter().map(branch).collect::<Result<_, serde_json::Error>>()?;
        let routing = ROUTING.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let yes_no = YES_NO.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        Ok(Self { tree: Tree { branches, replies: Vec::new() }, routing, yes_no })
    }

    /// The first rows of each set alone, for an engine that takes long.
    #[must_use]
    pub fn cut(mut self, rows: usize) -> Self {
        // Rows of all kinds stay: every so many of them is kept, in pairs, so that both halves do.
        let step = |all: usize| (all / rows.max(2)).max(1);
        let (routing, yes_no) = (step(self.routing.len()), step(self.yes_no.len()));
        let keep = |at: usize, step: usize| (at / 2).is_multiple_of(step);
        self.routing = self.routing.into_iter().enumerate().filter(|(at, _)| keep(*at, routing)).map(|(_, row)| row).collect();
        self.yes_no = self.yes_no.into_iter().enumerate().filter(|(at, _)| keep(*at, yes_no)).map(|(_, row)| row).collect();
        self
    }

    /// Routes every request, and measures. `now` tells the time.
    pub async fn routing(&self, engine: &Engine, now: &(dyn Fn() -> Timestamp + Sync)) -> Result<Score, DecisionError> {
        let (mut trials, mut spent) = (Vec::new(), 0.0);
        for row in &self.routing {
            let wanted = row.skill.as_deref().and_then(|skill| skill.split_once('.'));
            let Move::Ask(_, request) = Walk::begin(self.tree.clone(), UNGUARDED, &row.id, &row.message).1 else { continue };
            let label = wanted.map_or("none", |(branch, _)| branch);
            let mut trial = tried(engine, &request, label, (now, &mut spent)).await?;
            trial.kind.clone_from(&row.kind);
            if let Some((branch, leaf)) = wanted {
                trial.leaf = Some(trial.selected == Some(trial.wanted) && self.leaf(engine, row, branch).await? == leaf);
            }
            trial.is_none = wanted.is_none();
            trials.push(trial);
        }
        Ok(score(&trials, spent))
    }

    /// The leaf that is chosen in a branch.
    async fn leaf(&self, engine: &Engine, row: &Routed, branch: &str) -> Result<String, DecisionError> {
        let Some(branch) = self.tree.branches.iter().find(|known| known.name == branch) else { return Ok(String::new()) };
        let (question, options) = which_leaf(branch);
        let request = DecisionRequest { id: row.id.clone(), state: row.message.as_str().into(), question, options };
        Ok(engine.decide(&request).await?.selected.unwrap_or_default())
    }

    /// Answers every question, and measures.
    pub async fn yes_no(&self, engine: &Engine, now: &(dyn Fn() -> Timestamp + Sync)) -> Result<Score, DecisionError> {
        let (mut trials, mut spent) = (Vec::new(), 0.0);
        for Judged { id, state, question, expected } in &self.yes_no {
            let options = vec![Choice::new("yes", "Yes."), Choice::new("no", "No.")];
            let request = DecisionRequest { id: id.clone(), state: state.as_str().into(), question: question.clone(), options };
            trials.push(tried(engine, &request, expected, (now, &mut spent)).await?);
        }
        Ok(score(&trials, spent))
    }
}

/// Whoever measures asks for the choice alone.
const UNGUARDED: Guards = Guards { category: 0.0, intent: 0.0 };
const CATEGORIES: &str = include_str!("../../tests/data/categories.json");
const ROUTING: &str = include_str!("../../tests/data/routing.jsonl");
const YES_NO: &str = include_str!("../../tests/data/yes_no.jsonl");

/// Decides with the options as they are and reversed; only the first counts as time spent.
async fn tried(
    engine: &Engine,
    request: &DecisionRequest,
    wanted: &str,
    (now, spent): (&(dyn Fn() -> Timestamp + Sync), &mut f64),
) -> Result<Trial, DecisionError> {
    let begun = now();
    let decision = engine.decide(request).await?;
    *spent += now().duration_since(begun).as_secs_f64();
    let mut reversed = request.clone();
    reversed.options.reverse();
    let turned = engine.decide(&reversed).await?;
    Ok(trial(&decision, wanted, turned.selected != decision.selected))
}

fn trial(decision: &Decision, wanted: &str, has_flipped: bool) -> Trial {
    let place = |id: &str| decision.option_ids.iter().position(|known| known == id);
    Trial {
        scores: decision.option_logits.iter().map(|logit| logit.unwrap_or(f64::NEG_INFINITY)).collect(),
        temperature: decision.temperature,
        wanted: place(wanted).unwrap_or(usize::MAX),
        selected: decision.selected.as_deref().and_then(place),
        has_flipped,
        kind: String::new(),
        leaf: None,
        is_none: false,
    }
}

/// Fits on every second row, from the first on, and tells of the others.
fn score(trials: &[Trial], spent: f64) -> Score {
    let half = |odd: usize| trials.iter().enumerate().filter(move |(at, _)| at % 2 == odd).map(|(_, trial)| trial);
    let (fit, held): (Vec<&Trial>, Vec<&Trial>) = (half(0).collect(), half(1).collect());
    let temperature = fitted(&fit);
    let right = |of: &dyn Fn(&Trial) -> bool, what: &dyn Fn(&Trial) -> bool| {
        let of: Vec<&&Trial> = held.iter().filter(|trial| of(trial)).collect();
        (!of.is_empty()).then(|| share(float(of.iter().filter(|trial| what(trial)).count()), float(of.len())))
    };
    let is_chosen = |trial: &Trial| trial.selected == Some(trial.wanted);
    let kinds = held.iter().map(|trial| trial.kind.clone()).filter(|kind| !kind.is_empty());
    let of_kind = |kind: String| {
        let found = right(&|trial| trial.kind == kind, &Trial::is_right);
        (kind, found.unwrap_or_default())
    };
    Score {
        rows: held.len(),
        accuracy: right(&|trial| !trial.is_none, &is_chosen).unwrap_or_default(),
        leaf_accuracy: right(&|trial| trial.leaf.is_some(), &Trial::is_right),
        rejection: right(&|trial| trial.is_none, &is_chosen),
        by_kind: kinds.map(of_kind).collect(),
        flips: right(&|_| true, &|trial| trial.has_flipped).unwrap_or_default(),
        ece: error_of(&held, None),
        fitted_ece: error_of(&held, Some(temperature)),
        fitted_temperature: temperature,
        per_second: share(float(trials.len()), spent),
    }
}

/// The temperature under which the right options are likeliest, of 120 from 0.001 to 100.
fn fitted(trials: &[&Trial]) -> f64 {
    let cost = |temperature: f64| -> f64 {
        let of = |trial: &&Trial| softmax(&trial.scores, temperature).and_then(|shares| shares.get(trial.wanted).copied());
        trials.iter().filter_map(of).map(|share| -share.max(1e-12).ln()).sum()
    };
    let steps = (0..120).map(|step| 0.001 * 10f64.powf(f64::from(step) * 5.0 / 119.0));
    steps.map(|temperature| (cost(temperature), temperature)).min_by(|(a, _), (b, _)| a.total_cmp(b)).map_or(1.0, |(_, t)| t)
}

/// How far confidence is from accuracy, with this temperature in the place of each trial's own.
fn error_of(trials: &[&Trial], temperature: Option<f64>) -> f64 {
    let surely = |trial: &&Trial| {
        let shares = softmax(&trial.scores, temperature.unwrap_or(trial.temperature))?;
        let best = highest(&shares);
        Some((shares.get(best).copied()?, best == trial.wanted))
    };
    ece(trials.iter().filter_map(surely))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn trial(scores: [f64; 2], wanted: usize) -> Trial {
        let selected = Some(usize::from(scores[1] > scores[0]));
        let scores = scores.to_vec();
        Trial { scores, temperature: 1.0, wanted, selected, has_flipped: false, kind: String::new(), leaf: None, is_none: false }
    }

    #[test]
    fn the_sets_are_as_large_as_they_have_to_be_and_every_label_is_a_leaf() {
        let sets = Sets::built_in().unwrap();
        let leaves =
            sets.tree.branches.iter().flat_map(|branch| branch.leaves.iter().map(|leaf| format!("{}.{}", branch.name, leaf.name)));
        let leaves: BTreeSet<String> = leaves.collect();
        assert_eq!((sets.tree.branches.len(), leaves.len()), (12, 40));
        assert!(
            sets.routing.len() >= 150
                && sets.routing.iter().all(|row| row.skill.as_ref().is_none_or(|skill| leaves.contains(skill)))
        );
        let messages: BTreeSet<&str> = sets.routing.iter().map(|row| row.message.as_str()).collect();
        assert_eq!(messages.len(), sets.routing.len(), "no request comes twice, so no half knows the other");
        for half in 0..2 {
            let kinds: BTreeSet<&str> = sets.routing.iter().skip(half).step_by(2).map(|row| row.kind.as_str()).collect();
            assert_eq!(kinds.len(), 4, "{kinds:?}");
        }
        assert!(sets.yes_no.iter().all(|row| ["yes", "no"].contains(&row.expected.as_str())));
    }

    #[test]
    fn confidence_that_is_as_large_as_accuracy_is_no_error_and_one_that_is_larger_is() {
        let three_of_four = [trial([1.0, 0.0], 0), trial([1.0, 0.0], 0), trial([1.0, 0.0], 0), trial([1.0, 0.0], 1)];
        let all: Vec<&Trial> = three_of_four.iter().collect();
        // Three to one is what logits that are ln 3 apart say.
        let fits = fitted(&all);
        assert!((1.0 / fits - 3f64.ln()).abs() < 0.1, "{fits}");
        assert!(error_of(&all, Some(1.0 / 3f64.ln())) < 1e-9);
        assert!((error_of(&all, Some(0.001)) - 0.25).abs() < 1e-9);
    }

    #[test]
    fn what_is_reported_was_not_fitted_on() {
        let trials = [trial([1.0, 0.0], 0), trial([1.0, 0.0], 1), trial([1.0, 0.0], 0), trial([0.0, 1.0], 1)];
        let score = score(&trials, 2.0);
        assert_eq!((score.rows, score.accuracy, score.per_second), (2, 0.5, 2.0));
        assert!(score.fitted_temperature < 0.01, "the other half is always right");
    }
}
