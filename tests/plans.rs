//! Plans are total, agree with an independent judge, and keep the promises of a birth.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on fails")]

use proptest::prelude::*;
use singularity::{
    being::Identity,
    manifest::{Fleet, Overrides, Sources, read},
    plan::{Born, Effect, Fault, Observed, ObservedBeing, Phase, Verdict, effect_of, judge, plan},
    vocab::{Address, Kind, Name},
};

/// A fleet of up to two beings, two surfaces and two models, each key with one of a few values.
fn fleet() -> impl Strategy<Value = Fleet> {
    let being = prop::option::of((0..3u8, 0..2u8, 0..3u8, 0..2u8, any::<bool>(), 0..2u8));
    (being.clone(), being, prop::option::of(0..2u8), 0..2u8).prop_map(|(ada, bob, surface, model)| {
        let mut text = format!("[model.smol]\nprovider = \"embedded\"\nmax_tokens = {}\n", 100 + u32::from(model));
        text += if model == 0 { "" } else { "[cap.all]\ntotal = \"5\"\n[decision.near]\nengine = \"embedding\"\n" };
        text += &format!("[category.time]\ndescription = \"{model}\"\nskill.now.description = \"Now.\"\n");
        if let Some(surface) = surface {
            text += &format!("[surface.files]\ncommand = [\"server\", \"{surface}\"]\n");
        }
        for (name, being) in [("ada", ada), ("bob", bob)] {
            let Some((money, role, specialty, workspace, paused, prompt)) = being else { continue };
            text += &format!(
                "[being.{name}]\nmodel = \"smol\"\ncategories = [\"time\"]\npaused = {paused}\nworkspace = \"w{workspace}\"\nprompt = \"p{prompt}\"\n"
            );
            text += &format!("budget = {{ starting = \"{money}\" }}\n");
            text += if role == 0 { "" } else { "identity = { role = \"worker\" }\n" };
            text += &["".to_owned(), "specialty = \"a\"\n".into(), "specialty = \"b\"\n".into()][usize::from(specialty)];
        }
        of(&text)
    })
}

fn of(text: &str) -> Fleet {
    read(&Sources::of_text("x.toml", "/fleet", text), &Overrides::default()).unwrap_or_else(|problems| panic!("{problems}")).fleet
}

fn identity(specialty: &str) -> Identity {
    serde_json::from_value(serde_json::json!({
        "agent_id": "a", "name": "n", "ticker": "T", "agent_type": "general", "specialty": specialty, "role": "worker", "environment": "e",
        "host": "h", "workload_id": "w", "workload_public_key": "k", "executable_digest": "d", "code_digest": "d", "policy_digest": "d",
        "policy_sequence": 0
    }))
    .unwrap()
}

fn observed_of(fleet: &Fleet, phase: &Phase, has_spec: bool, is_born: bool) -> Observed {
    let being = |(name, spec): (&Name, &singularity::manifest::BeingSpec)| {
        let born = is_born.then(|| Born {
            identity: identity(spec.identity.specialty.as_deref().unwrap_or("a")),
            starting: spec.budget.starting,
        });
        let seen = ObservedBeing { spec: has_spec.then(|| spec.clone()), generation: 1, phase: phase.clone(), born };
        (Name::clone(name), seen)
    };
    Observed {
        sources: fleet.sources.clone(),
        models: fleet.models.clone(),
        surfaces: fleet.surfaces.clone(),
        caps: fleet.caps.clone(),
        decisions: fleet.decisions.clone(),
        categories: fleet.categories.clone(),
        beings: fleet.beings.iter().map(being).collect(),
    }
}

fn phase() -> impl Strategy<Value = Phase> {
    prop_oneof![
        Just(Phase::Running),
        Just(Phase::Held),
        Just(Phase::Stopped),
        Just(Phase::Stalled { reason: "r".into() }),
        any::<bool>().prop_map(|permanent| Phase::Failed { permanent, reason: "r".into() }),
    ]
}

proptest! {
    #[test]
    fn every_address_gets_one_verdict_and_the_judge_agrees(
        declared in fleet(), before in fleet(), phase in phase(), has_spec: bool, is_born: bool
    ) {
        // What nothing animates has no spec applied, or is stopped.
        let phase = if has_spec { phase } else { Phase::Stopped };
        let observed = observed_of(&before, &phase, has_spec, is_born);
        let plan = plan(&declared, &observed);
        let known: std::collections::BTreeSet<Address> = declared.addresses().chain(observed.addresses()).collect();
        prop_assert_eq!(plan.steps.keys().cloned().collect::<std::collections::BTreeSet<_>>(), known);
        prop_assert_eq!(judge(&plan, &declared, &observed), Vec::<Fault>::new());
        for step in plan.steps.values() {
            let refuses = matches!(step.verdict, Verdict::Refuse { .. });
            prop_assert_eq!(refuses, step.verdict.changes().iter().any(|change| change.effect == Effect::Refuse));
        }
    }

    #[test]
    fn what_was_applied_settles(fleet in fleet()) {
        let observed = observed_of(&fleet, &Phase::Running, true, true);
        let settled = plan(&fleet, &observed);
        let is_refused = fleet.beings.values().any(|being| !being.identity.matches(&identity(being.identity.specialty.as_deref().unwrap_or("a"))));
        prop_assert!(is_refused || settled.is_settled(), "{}", settled);
    }
}

const BEFORE: &str = "[model.smol]\nprovider = \"embedded\"\n[surface.files]\ncommand = [\"server\"]\n\
    [being.ada]\nmodel = \"smol\"\nprompt = \"old\"\n[being.bob]\nmodel = \"smol\"\nlas = { only = [] }\n";

fn planned(after: &str) -> singularity::plan::Plan {
    plan(&of(after), &observed_of(&of(BEFORE), &Phase::Running, true, true))
}

fn verdict(plan: &singularity::plan::Plan, at: &str) -> Verdict {
    plan.steps[&at.parse::<Address>().unwrap()].verdict.clone()
}

#[test]
fn an_edit_of_a_surface_starts_it_anew_only_for_those_who_use_it() {
    let plan = planned(&BEFORE.replace("\"server\"", "\"server\", \"-v\""));
    assert!(matches!(verdict(&plan, "being/ada"), Verdict::Update { changes } if changes[0].effect == Effect::Reload));
    assert_eq!(verdict(&plan, "being/bob"), Verdict::Keep);
}

#[test]
fn a_prompt_is_told_at_birth_and_changes_no_living_being_unless_enforced() {
    let effect =
        |after: &str| verdict(&planned(after), "being/ada").changes().iter().find(|change| change.path == "prompt").unwrap().effect;
    assert_eq!(effect(&BEFORE.replace("\"old\"", "\"new\"")), Effect::Told);
    assert_eq!(effect(&BEFORE.replace("\"old\"", "\"new\"\nprompt_policy = \"enforce\"")), Effect::Hot);
}

#[test]
fn a_starting_balance_and_an_identity_are_never_changed() {
    let after = BEFORE.replace("prompt = \"old\"", "budget = { starting = \"99\" }\nidentity = { host = \"other\" }");
    let plan = planned(&after);
    let refused = verdict(&plan, "being/ada");
    assert!(matches!(refused, Verdict::Refuse { .. }));
    assert_eq!(
        refused.changes().iter().map(|change| change.path.as_str()).collect::<Vec<_>>(),
        ["identity.host", "budget.starting"]
    );
}

#[test]
fn a_being_that_failed_for_good_waits_for_an_edit() {
    let failed = Phase::Failed { permanent: true, reason: "bad key".into() };
    let observed = observed_of(&of(BEFORE), &failed, true, true);
    assert_eq!(verdict(&plan(&of(BEFORE), &observed), "being/ada"), Verdict::Keep);
    let edited = of(&BEFORE.replace("provider = \"embedded\"", "provider = \"embedded\"\nmax_tokens = 5"));
    assert!(matches!(verdict(&plan(&edited, &observed), "being/ada"), Verdict::Restart { .. }), "an edit of its model counts");
}

#[test]
fn a_tampered_plan_is_caught() {
    let (fleet, observed) = (of(BEFORE), observed_of(&of(BEFORE), &Phase::Running, true, true));
    let at: Address = "being/ada".parse().unwrap();
    for verdict in [
        Verdict::Stop,
        Verdict::Create,
        Verdict::Refuse { changes: vec![] },
        Verdict::Restart { changes: vec![] },
        Verdict::Update { changes: vec![] },
    ] {
        let mut plan = plan(&fleet, &observed);
        plan.steps.get_mut(&at).unwrap().verdict = verdict.clone();
        assert_eq!(judge(&plan, &fleet, &observed).len(), 1, "{verdict:?}");
    }
    let mut forgetful = plan(&fleet, &observed);
    forgetful.steps.remove(&at);
    assert_eq!(judge(&forgetful, &fleet, &observed), [Fault::Forgotten(at.clone())]);
    let mut keeping = plan(&fleet, &observed);
    keeping.steps.get_mut(&at).unwrap().verdict = Verdict::Keep;
    let edited = of(&BEFORE.replace("prompt = \"old\"", "paused = true"));
    assert_eq!(judge(&keeping, &edited, &observed), [Fault::KeepsOld(at)]);
}

#[test]
fn each_field_has_the_effect_that_the_spec_names() {
    let effects = [
        ("las.surfaces", Effect::Reload),
        ("cycle.every", Effect::Hot),
        ("capabilities.files", Effect::Hot),
        ("paused", Effect::Hot),
        ("models", Effect::Hot),
        ("budget.starting", Effect::Refuse),
        ("budget.instance_usd_per_hour", Effect::Hot),
        ("budget.per_day", Effect::Hot),
        ("budget.per_cycle", Effect::Hot),
        ("budget.reserve", Effect::Hot),
        ("budget.warn_below", Effect::Hot),
        ("identity.role", Effect::Refuse),
        ("categories", Effect::Hot),
        ("decision", Effect::Hot),
        ("route", Effect::Hot),
        ("workspace", Effect::Restart),
        ("something.new", Effect::Restart),
    ];
    for (path, effect) in effects {
        assert_eq!(effect_of(Kind::Being, path), effect, "{path}");
    }
}

#[test]
fn a_plan_reads_as_a_diff() {
    let after = BEFORE
        .replace("prompt = \"old\"", "workspace = \"w\"")
        .replace("[being.bob]", "[being.eve]")
        .replace("\"server\"", "\"server\", \"-v\"");
    insta::assert_snapshot!(planned(&after).to_string());
}
