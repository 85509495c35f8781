//! The loop around a body as a state machine: observe → predict → act → observe → assess. No process, no clock, no engine.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{
    body::SkillAddress,
    fault::{Fault, Wrong},
    frame::{ActionResult, Prediction, Request},
};
use crate::decision::{Choice, DecisionRequest};

/// What a stretch of a body's work costs, in hundredths.
const COST_OF_STEP: u32 = 10;
/// What a decision costs, in hundredths.
const COST_OF_DECISION: u32 = 5;
/// How often a run may ask before it is ended.
const MAX_ASKED: u32 = 16;
/// How much of an action log the engine is shown, in characters.
const MAX_JUDGED: usize = 4_000;
/// Parts of names whose values are shown to nobody.
const SECRET: [&str; 6] = ["pass", "token", "secret", "key", "credential", "auth"];

/// How a run is carried on: what is declared, and may be another when it is taken up again.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// How likely success must be for the run to be complete, and a retry to be made.
    pub tau: f64,
    /// How often a run that failed is run again.
    pub max_reentries: u32,
    /// Relative budget: 1 pays for 10 stretches of a body's work (`predict` or `act`), or 20 decisions.
    pub cost_budget: f64,
    /// What must be known before the body works: variables, and what each means.
    pub contract: BTreeMap<String, String>,
    /// Global, under the category's, under the skill's. Answers come over it.
    pub config: Map<String, Value>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { tau: 0.6, max_reentries: 3, cost_budget: 1.0, contract: BTreeMap::new(), config: Map::new() }
    }
}

/// One run of a skill, from the request to its outcome: a value that can be put down and taken up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub skill: SkillAddress,
    pub request: Request,
    /// Variables that were asked for and answered.
    answers: Map<String, Value>,
    /// Variables that were asked for and left unset.
    skipped: BTreeSet<String>,
    asked: u32,
    /// In hundredths.
    spent: u32,
    stage: Stage,
}

/// How far a run is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "at")]
enum Stage {
    Predict,
    Act {
        prediction: Prediction,
    },
    Assess {
        result: ActionResult,
    },
    Requeue {
        result: ActionResult,
    },
    /// It waits for an answer; with a prediction where the body asked.
    Wait {
        question: Question,
        prediction: Option<Prediction>,
    },
    Ended {
        outcome: Outcome,
    },
}

/// What a run has to know before it goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    pub text: String,
    /// The variable of the contract that is asked for; `None` where the body asks.
    pub variable: Option<String>,
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub is_ok: bool,
    /// One line, the same for the same run.
    pub summary: String,
    pub action_log: String,
    pub new_state: String,
    /// What the body did wrong, if that ended it.
    pub fault: Option<Fault>,
    pub reentries: u32,
    /// Of the cost budget.
    pub cost: f64,
}

/// What a run wants done next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Want {
    /// The body's forecast, for which it may decide so often.
    Predict {
        may_decide: u32,
    },
    Act {
        prediction: Prediction,
        may_decide: u32,
    },
    /// A decision on the run itself: its phase, and the request. What counts is the probability of the first option.
    Judge {
        phase: &'static str,
        request: DecisionRequest,
    },
    Ask(Question),
    Nothing(Outcome),
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Came {
    Predicted { prediction: Prediction, decided: u32 },
    Acted { result: ActionResult, decided: u32 },
    Judged { probability: f64 },
    Failed(Fault),
}

impl Run {
    /// A run that has not begun.
    pub fn new(skill: SkillAddress, request: Request) -> Self {
        Self { skill, request, answers: Map::new(), skipped: BTreeSet::new(), asked: 0, spent: 0, stage: Stage::Predict }
    }

    /// What the body sees as `ctx.config`.
    pub(super) fn config(&self, terms: &Terms) -> Map<String, Value> {
        terms.config.clone().into_iter().chain(self.answers.clone()).collect()
    }

    /// The question that it waits with.
    pub fn question(&self) -> Option<&Question> {
        match &self.stage {
            Stage::Wait { question, .. } => Some(question),
            _ => None,
        }
    }

    /// Takes the answer to its question. False, and nothing is changed, where it has none.
    ///
    /// A variable is left unset by an empty answer or `skip`, and is not asked for again.
    pub fn answer(&mut self, text: &str) -> bool {
        let Stage::Wait { question, prediction } = &self.stage else { return false };
        let (variable, prediction) = (question.variable.clone(), prediction.clone());
        match variable {
            Some(variable) if text.trim().is_empty() || text.trim() == "skip" => drop(self.skipped.insert(variable)),
            Some(variable) => drop(self.answers.insert(variable, Value::from(text))),
            None => self.request.user_input = Some(text.to_owned()),
        }
        self.stage = prediction.map_or(Stage::Predict, |prediction| Stage::Act { prediction });
        true
    }

    /// What to do next. Asking changes nothing but that a missing variable makes the run wait.
    pub(super) fn want(&mut self, terms: &Terms) -> Want {
        if let Stage::Predict = self.stage
            && let Some((variable, means)) = self.missing(terms)
        {
            let text = format!("To run {} I need `{variable}`. {means}", self.skill);
            self.wait(Question { text, variable: Some(variable) }, None, terms);
        }
        let may_decide = self.left(terms).saturating_sub(COST_OF_STEP) / COST_OF_DECISION;
        if matches!(self.stage, Stage::Predict | Stage::Act { .. }) && self.left(terms) < COST_OF_STEP {
            self.fail(terms, super::Phase::Act, Wrong::Budget { budget: terms.cost_budget });
        }
        match &self.stage {
            Stage::Predict => Want::Predict { may_decide },
            Stage::Act { prediction } => Want::Act { prediction: prediction.clone(), may_decide },
            Stage::Assess { result } => Want::Judge { phase: "assess:outcome", request: self.outcome_request(terms, result) },
            Stage::Requeue { result } => Want::Judge { phase: "assess:requeue", request: self.requeue_request(terms, result) },
            Stage::Wait { question, .. } => Want::Ask(question.clone()),
            Stage::Ended { outcome } => Want::Nothing(outcome.clone()),
        }
    }

    /// Goes on with what came. What does not belong to what was wanted is not heard.
    pub(super) fn take(&mut self, terms: &Terms, came: Came) {
        match (self.stage.clone(), came) {
            (Stage::Ended { .. }, _) => {}
            (_, Came::Failed(Fault { phase, line, what })) => {
                self.end(terms, false, &ActionResult::default(), Some(Fault { phase, line, what }));
            }
            (Stage::Predict, Came::Predicted { prediction, decided }) => {
                self.pay(decided);
                self.stage = Stage::Act { prediction };
            }
            (Stage::Act { prediction }, Came::Acted { result, decided }) => {
                self.pay(decided);
                match result.needs_input.clone() {
                    Some(text) => self.wait(Question { text, variable: None }, Some(prediction), terms),
                    None => self.stage = Stage::Assess { result },
                }
            }
            (Stage::Assess { result }, Came::Judged { probability }) => match probability >= terms.tau {
                true => self.end(terms, true, &result, None),
                false if self.request.reentries < terms.max_reentries => self.stage = Stage::Requeue { result },
                false => self.end(terms, false, &result, None),
            },
            (Stage::Requeue { result }, Came::Judged { probability }) => match probability >= terms.tau {
                true => {
                    self.request = self.request.again();
                    self.stage = Stage::Predict;
                }
                false => self.end(terms, false, &result, None),
            },
            _ => {}
        }
    }

    fn missing(&self, terms: &Terms) -> Option<(String, String)> {
        let is_known = |name: &String| {
            let given = self.answers.get(name).or_else(|| terms.config.get(name));
            given.is_some_and(|value| !value.is_null()) || self.skipped.contains(name)
        };
        terms.contract.iter().find(|(name, _)| !is_known(name)).map(|(name, means)| (name.clone(), means.clone()))
    }

    fn wait(&mut self, question: Question, prediction: Option<Prediction>, terms: &Terms) {
        self.asked += 1;
        if self.asked > MAX_ASKED {
            let text = format!("no answer within {MAX_ASKED} questions; the last was: {}", question.text);
            return self.fail(terms, super::Phase::Act, Wrong::Raised { text });
        }
        self.stage = Stage::Wait { question, prediction };
    }

    fn left(&self, terms: &Terms) -> u32 {
        hundredths(terms.cost_budget).saturating_sub(self.spent)
    }

    fn pay(&mut self, decided: u32) {
        self.spent = self.spent.saturating_add(COST_OF_STEP).saturating_add(decided.saturating_mul(COST_OF_DECISION));
    }

    fn fail(&mut self, terms: &Terms, phase: super::Phase, what: Wrong) {
        self.end(terms, false, &ActionResult::default(), Some(Fault { phase, line: None, what }));
    }

    fn end(&mut self, terms: &Terms, is_ok: bool, result: &ActionResult, fault: Option<Fault>) {
        let told = [&result.action_log, &result.new_state].into_iter().find(|text| !text.is_empty());
        let told = fault.as_ref().map_or_else(|| told.cloned().unwrap_or_default(), Fault::to_string);
        let word = if is_ok { "ok" } else { "failed" };
        let outcome = Outcome {
            is_ok,
            summary: format!("{}: {word} — {told}", self.skill),
            action_log: result.action_log.clone(),
            new_state: result.new_state.clone(),
            fault,
            reentries: self.request.reentries,
            cost: f64::from(hundredths(terms.cost_budget).min(self.spent)) / 100.0,
        };
        self.stage = Stage::Ended { outcome };
    }

    fn outcome_request(&self, terms: &Terms, result: &ActionResult) -> DecisionRequest {
        let options = [("success", "The action log shows that the goal was reached."), ("failure", "The goal was not reached.")];
        self.judging("outcome", "Did the skill achieve the user's goal?", self.judged(terms, result), options)
    }

    fn requeue_request(&self, terms: &Terms, result: &ActionResult) -> DecisionRequest {
        let state = format!("{}\noutcome: failed", self.judged(terms, result));
        let options = [("retry", "Running it again may reach the goal."), ("complete", "Running it again would change nothing.")];
        self.judging("requeue", "Is the request complete, or should it run again?", state, options)
    }

    fn judging(&self, what: &str, question: &str, state: String, options: [(&str, &str); 2]) -> DecisionRequest {
        let options = options.map(|(id, description)| Choice::new(id, description));
        let id = format!("{}-{what}-{}", self.request.id, self.request.reentries);
        DecisionRequest { id, state: Value::from(state), question: question.to_owned(), options: options.to_vec() }
    }

    /// What the engine judges by: never a secret.
    fn judged(&self, terms: &Terms, result: &ActionResult) -> String {
        let config = self.config(terms);
        let inputs = terms.contract.keys().map(|name| match config.get(name) {
            None | Some(Value::Null) => format!("  {name} = (unset)\n"),
            Some(_) if is_secret(name) => format!("  {name} = ***\n"),
            Some(Value::String(text)) => format!("  {name} = {text}\n"),
            Some(value) => format!("  {name} = {}\n", json!(value)),
        });
        let inputs: String = inputs.collect();
        let inputs = if inputs.is_empty() { String::new() } else { format!("resolved inputs:\n{inputs}") };
        let log: String = result.action_log.chars().take(MAX_JUDGED).collect();
        format!("skill: {}\ngoal: {}\n{inputs}action log:\n{log}", self.skill, self.request.text)
    }
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|part| name.contains(part))
}

/// No budget is negative, and none is beyond counting.
fn hundredths(budget: f64) -> u32 {
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped, and such casts saturate"
    )]
    let hundredths = (budget * 100.0).round().clamp(0.0, f64::from(u32::MAX)) as u32;
    hundredths
}
