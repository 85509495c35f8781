use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::decision::prompt::PROMPT_VERSION;

fn leaf(name: &str) -> Leaf {
    Leaf { name: name.into(), description: format!("Does {name}.") }
}

fn branch(name: &str, leaves: &[&str]) -> Branch {
    Branch { name: name.into(), description: format!("All about {name}."), leaves: leaves.iter().map(|name| leaf(name)).collect() }
}

fn tree(branches: &[(&str, &[&str])], replies: &[&str]) -> Tree {
    let branches = branches.iter().map(|(name, leaves)| branch(name, leaves)).collect();
    Tree { branches, replies: replies.iter().map(|name| leaf(name)).collect() }
}

const GUARDS: Guards = Guards { category: 0.75, intent: 0.6 };

/// A decision with these probabilities, in the order of the request; the first of the highest is selected.
fn decision(request: &DecisionRequest, probabilities: Vec<f64>, abstains: bool) -> Decision {
    let best = probabilities.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let selected = probabilities.iter().position(|p| p.to_bits() == best.to_bits()).filter(|_| !abstains);
    Decision {
        id: request.id.clone(),
        option_ids: request.options.iter().map(|option| option.id.clone()).collect(),
        selected: selected.map(|at| request.options[at].id.clone()),
        probabilities,
        confidence: 0.0,
        agreement: 1.0,
        allowed_token_mass: 1.0,
        option_logits: Vec::new(),
        temperature: 1.0,
        input_tokens: 0,
        prompt_sha256: crate::vocab::Digest::of(""),
        prompt_version: PROMPT_VERSION,
        model: "m".into(),
        readout: "",
        probability_status: "",
    }
}

/// Walks with somebody who likes each option as `liking` says, whatever stands beside it; yields the phases and the end.
fn walk(tree: Tree, liking: impl Fn(&str) -> f64) -> (Vec<Phase>, Outcome) {
    let (mut walk, mut next) = Walk::begin(tree, GUARDS, "w", "message Sam");
    let mut phases = Vec::new();
    loop {
        let (phase, request) = match next {
            Move::End(outcome) => return (phases, outcome),
            Move::Ask(phase, request) => (phase, request),
        };
        phases.push(phase);
        assert_eq!((request.id.clone(), &request.state), (format!("w.{}", phases.len()), &Value::from("message Sam")));
        let request = request.checked().unwrap();
        let weights: Vec<f64> = request.options.iter().map(|option| liking(&option.id)).collect();
        let sum: f64 = weights.iter().sum();
        next = walk.take(&decision(&request, weights.into_iter().map(|weight| weight / sum).collect(), false));
    }
}

/// Likes what is named ten times as much as the rest.
fn likes<'a>(named: &'a [&'a str]) -> impl Fn(&str) -> f64 + 'a {
    move |id| if named.contains(&id) { 10.0 } else { 1.0 }
}

fn skill(category: &str, skill: &str) -> Outcome {
    Outcome::Skill { category: category.into(), skill: skill.into() }
}

use Phase::{Category, CategoryScope, Intent, Leaf as LeafPhase, Response};

const TWO: &[(&str, &[&str])] = &[("time", &["now", "alarm"]), ("email", &["compose"])];

#[test]
fn a_request_is_led_through_both_guards_to_its_skill() {
    let sure = likes(&["time", "covers", "alarm", "same"]);
    assert_eq!(walk(tree(TWO, &[]), sure), (vec![Category, CategoryScope, LeafPhase, Intent], skill("time", "alarm")));
}

#[test]
fn one_candidate_skips_straight_to_its_guard() {
    let sure = likes(&["covers", "same"]);
    assert_eq!(walk(tree(&[("email", &["compose"])], &[]), &sure), (vec![CategoryScope, Intent], skill("email", "compose")));
    let sure = likes(&["email", "covers", "same"]);
    assert_eq!(walk(tree(TWO, &[]), sure), (vec![Category, CategoryScope, Intent], skill("email", "compose")));
}

#[test]
fn a_request_that_nothing_fits_gets_a_reply_or_nothing_and_never_a_skill() {
    let cases: [(&[&str], &[Phase]); 3] = [
        (&["none"], &[Category]),
        (&["time", "outside"], &[Category, CategoryScope]),
        (&["time", "covers", "now", "different"], &[Category, CategoryScope, LeafPhase, Intent]),
    ];
    for (liked, phases) in cases {
        assert_eq!(walk(tree(TWO, &[]), likes(liked)), (phases.to_vec(), Outcome::NoSkill));
        let only = Outcome::Response { skill: "clarify".into() };
        assert_eq!(walk(tree(TWO, &["clarify"]), likes(liked)), (phases.to_vec(), only.clone()));
        let liked = [liked, &["clarify"]].concat();
        assert_eq!(walk(tree(TWO, &["greeting", "clarify"]), likes(&liked)), ([phases, &[Response]].concat(), only));
    }
    assert_eq!(walk(tree(&[], &[]), likes(&[])), (vec![], Outcome::NoSkill));
    assert_eq!(walk(tree(&[("time", &[])], &[]), likes(&["covers"])), (vec![CategoryScope], Outcome::NoSkill));
}

#[test]
fn a_guard_holds_from_its_threshold_on_and_not_below() {
    let with = |covers: f64, same: f64| {
        walk(tree(&[("email", &["compose"])], &[]), move |id| match id {
            "covers" => covers,
            "outside" => 1.0 - covers,
            "same" => same,
            _ => 1.0 - same,
        })
        .1
    };
    assert_eq!(with(0.75, 0.6), skill("email", "compose"));
    assert_eq!(with(0.74, 0.6), Outcome::NoSkill);
    assert_eq!(with(0.75, 0.59), Outcome::NoSkill);
}

#[test]
fn what_abstains_decides_for_nothing() {
    let (mut walk, next) = Walk::begin(tree(&[("email", &["compose"])], &[]), GUARDS, "w", "x");
    let Move::Ask(CategoryScope, request) = next else { panic!("{next:?}") };
    assert_eq!(walk.take(&decision(&request, vec![0.9, 0.1], true)), Move::End(Outcome::NoSkill));
}

proptest! {
    #[test]
    fn any_engine_ends_a_walk_with_no_phase_twice_and_at_something_that_is_there(
        shape in prop::collection::vec(0_usize..5, 0..6),
        replies in 0_usize..4,
        answers in prop::collection::vec((prop::collection::vec(0.01_f64..1.0, 16), any::<bool>()), 5),
    ) {
        let leaves = |branch: usize, count: usize| (0..count).map(move |leaf| format!("l{branch}_{leaf}")).collect::<Vec<_>>();
        let branches = shape.iter().enumerate().map(|(at, count)| (format!("b{at}"), leaves(at, *count))).collect::<Vec<_>>();
        let tree = Tree {
            branches: branches.iter().map(|(name, leaves)| branch(name, &leaves.iter().map(String::as_str).collect::<Vec<_>>())).collect(),
            replies: (0..replies).map(|at| leaf(&format!("r{at}"))).collect(),
        };
        let (mut walk, mut next) = Walk::begin(tree.clone(), GUARDS, "w", "x");
        let mut phases = BTreeSet::new();
        let mut answers = answers.into_iter();
        while let Move::Ask(phase, request) = next {
            prop_assert!(phases.insert(phase), "{phase} came twice");
            let request = request.checked().unwrap();
            let (mut weights, abstains) = answers.next().unwrap();
            weights.truncate(request.options.len());
            let sum: f64 = weights.iter().sum();
            next = walk.take(&decision(&request, weights.iter().map(|weight| weight / sum).collect(), abstains));
        }
        let Move::End(outcome) = next else { unreachable!() };
        let is_there = match &outcome {
            Outcome::Skill { category, skill } => tree.branches.iter().any(|b| b.name == *category && b.leaves.iter().any(|l| l.name == *skill)),
            Outcome::Response { skill } => tree.replies.iter().any(|reply| reply.name == *skill),
            Outcome::NoSkill => replies == 0 || phases.contains(&Response),
        };
        prop_assert!(is_there, "{outcome:?}");
    }

    #[test]
    fn whoever_likes_options_whatever_their_order_reaches_the_same_leaf(
        seed in prop::collection::vec(0.01_f64..1.0, 32),
        order in Just((0..4_usize).collect::<Vec<_>>()).prop_shuffle(),
        leaf_order in Just((0..3_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let shuffled = |branches: &[usize], leaves: &[usize]| Tree {
            branches: branches
                .iter()
                .map(|at| branch(&format!("b{at}"), &leaves.iter().map(|leaf| ["x", "y", "z"][*leaf]).collect::<Vec<_>>()))
                .collect(),
            replies: leaves.iter().map(|at| leaf(["p", "q", "r"][*at])).collect(),
        };
        // Each option has a liking of its own, by its id.
        let liking = |id: &str| seed[id.bytes().fold(7_usize, |hash, byte| hash * 31 + usize::from(byte)) % seed.len()] + f64::from(u32::try_from(id.len()).unwrap()) * 1e-6;
        let plain = walk(shuffled(&[0, 1, 2, 3], &[0, 1, 2]), liking).1;
        prop_assert_eq!(walk(shuffled(&order, &leaf_order), liking).1, plain);
    }
}
