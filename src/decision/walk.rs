use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    readout::Decision,
    request::{Choice, DecisionRequest},
    tree::{Branch, Leaf, Tree},
};

/// What a decision of a walk is about; the names are those that decision logs go by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Phase {
    /// Which branch, or none.
    #[serde(rename = "navigate:category")]
    Category,
    /// Whether the branch covers the request.
    #[serde(rename = "navigate:category_scope")]
    CategoryScope,
    /// Which of the branch's leaves.
    #[serde(rename = "navigate:leaf")]
    Leaf,
    /// Whether the leaf does what is asked.
    #[serde(rename = "navigate:intent")]
    Intent,
    /// Which canned reply.
    #[serde(rename = "navigate:response")]
    Response,
}

impl Phase {
    /// The name in decision logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Category => "navigate:category",
            Self::CategoryScope => "navigate:category_scope",
            Self::Leaf => "navigate:leaf",
            Self::Intent => "navigate:intent",
            Self::Response => "navigate:response",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// From which probability on a guard lets a walk on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guards {
    /// That a branch covers the request.
    pub category: f64,
    /// That a leaf does what is asked.
    pub intent: f64,
}

/// Where a walk ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// At a leaf that does what is asked.
    Skill {
        /// The branch.
        category: String,
        /// The leaf.
        skill: String,
    },
    /// At a canned reply.
    Response {
        /// The reply's name.
        skill: String,
    },
    /// Nowhere: nothing fits.
    NoSkill,
}

/// What a walk wants next.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// To have this decided.
    Ask(Phase, DecisionRequest),
    /// Nothing more.
    End(Outcome),
}

/// A walk down the tree for one request (SPEC §8): which branch, whether it covers the request, which leaf, whether that does what is
/// asked. Where one candidate is left, its guard alone is asked. Where nothing fits, one of the canned replies answers, if there are any.
///
/// A pure machine: [`begin`](Self::begin) and [`take`](Self::take) yield what to decide next, and whoever drives it brings the decision.
/// Each [`Phase`] comes at most once, so that it ends after five decisions at the latest. The state of each decision is the request
/// alone: an engine reads it once for all of them, and one that compares meanings has nothing else to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Walk {
    tree: Tree,
    guards: Guards,
    id: String,
    text: String,
    at: At,
    asked: u8,
}

/// Where a walk is: what was asked last, by places in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    Category,
    Scope { branch: usize },
    Leaf { branch: usize },
    Intent { branch: usize, leaf: usize },
    Response,
    Ended,
}

/// The option that stands for no branch.
const NONE: &str = "none";
/// The options of a guard: that it lets the walk on, and that it does not.
const COVERS: [&str; 2] = ["covers", "outside"];
const SAME: [&str; 2] = ["same", "different"];

impl Walk {
    /// Begins. The ids of the decisions are `id`, a dot and their number, from 1.
    pub fn begin(tree: Tree, guards: Guards, id: impl Into<String>, text: impl Into<String>) -> (Self, Move) {
        let mut walk = Self { tree, guards, id: id.into(), text: text.into(), at: At::Ended, asked: 0 };
        let first = match walk.tree.branches.len() {
            0 => walk.unfit(),
            1 => walk.scope(0),
            _ => walk.category(),
        };
        (walk, first)
    }

    /// Goes on with what was decided. A decision that selects nothing, or nothing of what was asked, is one for none of it.
    pub fn take(&mut self, decision: &Decision) -> Move {
        let selected = decision.selected.as_deref();
        match self.at {
            At::Category => match place(selected, self.tree.branches.iter().map(|branch| branch.name.as_str())) {
                Some(branch) => self.scope(branch),
                None => self.unfit(),
            },
            At::Scope { branch } if holds(decision, COVERS, self.guards.category) => self.leaf(branch),
            At::Leaf { branch } => {
                let leaves = self.tree.branches.get(branch).map(|branch| branch.leaves.as_slice()).unwrap_or_default();
                match place(selected, leaves.iter().map(|leaf| leaf.name.as_str())) {
                    Some(leaf) => self.intent(branch, leaf),
                    None => self.unfit(),
                }
            }
            At::Intent { branch, leaf } if holds(decision, SAME, self.guards.intent) => self.arrive(branch, leaf),
            At::Scope { .. } | At::Intent { .. } => self.unfit(),
            At::Response => match place(selected, self.tree.replies.iter().map(|reply| reply.name.as_str())) {
                Some(reply) => self.reply(reply),
                None => self.end(Outcome::NoSkill),
            },
            At::Ended => Move::End(Outcome::NoSkill),
        }
    }

    fn category(&mut self) -> Move {
        self.at = At::Category;
        let of = |branch: &Branch| Choice::new(&branch.name, branch.said());
        let none = Choice::new(NONE, "None of these: the request is about something else.");
        let options = self.tree.branches.iter().map(of).chain([none]).collect();
        self.ask(Phase::Category, "Which category handles this request?".to_owned(), options)
    }

    fn scope(&mut self, at: usize) -> Move {
        let Some(branch) = self.tree.branches.get(at) else { return self.unfit() };
        let question = format!("Does category `{}` cover this request?", branch.name);
        let options = guard(COVERS, &branch.said());
        self.at = At::Scope { branch: at };
        self.ask(Phase::CategoryScope, question, options)
    }

    fn leaf(&mut self, at: usize) -> Move {
        let Some(branch) = self.tree.branches.get(at) else { return self.unfit() };
        if branch.leaves.len() < 2 {
            return self.intent(at, 0);
        }
        let (question, options) = which_leaf(branch);
        self.at = At::Leaf { branch: at };
        self.ask(Phase::Leaf, question, options)
    }

    fn intent(&mut self, branch: usize, at: usize) -> Move {
        let Some(leaf) = self.tree.branches.get(branch).and_then(|branch| branch.leaves.get(at)) else { return self.unfit() };
        let question = format!("Is what is asked the same as what skill `{}` does?", leaf.name);
        let options = guard(SAME, &leaf.description);
        self.at = At::Intent { branch, leaf: at };
        self.ask(Phase::Intent, question, options)
    }

    fn arrive(&mut self, branch: usize, leaf: usize) -> Move {
        let found = self.tree.branches.get(branch).and_then(|branch| Some((branch, branch.leaves.get(leaf)?)));
        let skill = |(branch, leaf): (&Branch, &Leaf)| Outcome::Skill { category: branch.name.clone(), skill: leaf.name.clone() };
        let outcome = found.map_or(Outcome::NoSkill, skill);
        self.end(outcome)
    }

    /// No branch or leaf fits.
    fn unfit(&mut self) -> Move {
        match self.tree.replies.len() {
            0 => self.end(Outcome::NoSkill),
            1 => self.reply(0),
            _ => {
                self.at = At::Response;
                let options = self.tree.replies.iter().map(|reply| Choice::new(&reply.name, &reply.description)).collect();
                self.ask(Phase::Response, "Which reply fits this request best?".to_owned(), options)
            }
        }
    }

    fn reply(&mut self, at: usize) -> Move {
        let outcome = self.tree.replies.get(at).map(|reply| Outcome::Response { skill: reply.name.clone() });
        self.end(outcome.unwrap_or(Outcome::NoSkill))
    }

    fn end(&mut self, outcome: Outcome) -> Move {
        self.at = At::Ended;
        Move::End(outcome)
    }

    fn ask(&mut self, phase: Phase, question: String, options: Vec<Choice>) -> Move {
        self.asked += 1;
        let id = format!("{}.{}", self.id, self.asked);
        Move::Ask(phase, DecisionRequest { id, state: Value::from(self.text.as_str()), question, options })
    }
}

/// Which of a branch's leaves: the question, and its options.
pub(super) fn which_leaf(branch: &Branch) -> (String, Vec<Choice>) {
    let question = format!("Within category `{}`, which skill does what is asked?", branch.name);
    (question, branch.leaves.iter().map(|leaf| Choice::new(&leaf.name, &leaf.description)).collect())
}

/// The options of a guard over something that is described.
fn guard([yes, no]: [&str; 2], description: &str) -> Vec<Choice> {
    vec![Choice::new(yes, description), Choice::new(no, "Something else than that.")]
}

fn place<'a>(selected: Option<&str>, mut names: impl Iterator<Item = &'a str>) -> Option<usize> {
    let selected = selected?;
    names.position(|name| name == selected)
}

/// Tells whether a guard's first option reaches a threshold.
fn holds(decision: &Decision, [yes, _]: [&str; 2], tau: f64) -> bool {
    let is_sure = |(id, probability): (&String, &f64)| id == yes && *probability >= tau;
    decision.selected.is_some() && decision.option_ids.iter().zip(&decision.probabilities).any(is_sure)
}

#[cfg(test)]
#[path = "walk_tests.rs"]
mod tests;
