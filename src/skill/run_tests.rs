use serde_json::{Map, Value, json};

use super::{
    Phase,
    fault::{Fault, Wrong},
    frame::{ActionResult, Prediction, Request},
    run::{Came, Run, Terms, Want},
};

fn run() -> Run {
    Run::new("email.compose".parse().unwrap(), Request::typed("0123456789ab", "write to Ann", 0.0))
}

fn predicted(text: &str) -> Came {
    Came::Predicted { prediction: Prediction { text: text.into(), decisions: vec![] }, decided: 1 }
}

fn acted(needs_input: Option<&str>) -> Came {
    let result = ActionResult {
        action_log: "log".into(),
        new_state: "state".into(),
        needs_input: needs_input.map(Into::into),
        decisions: vec![],
    };
    Came::Acted { result, decided: 0 }
}

fn terms(contract: &[(&str, &str)]) -> Terms {
    Terms { contract: contract.iter().map(|(name, means)| ((*name).into(), (*means).into())).collect(), ..Terms::default() }
}

#[test]
fn an_answer_days_later_meets_the_same_prediction_and_the_input_that_was_asked_for() {
    let (mut run, terms) = (run(), terms(&[]));
    assert!(matches!(run.want(&terms), Want::Predict { may_decide: 18 }));
    run.take(&terms, predicted("recipient is ann"));
    run.take(&terms, acted(Some("Which address?")));
    let kept = serde_json::to_string(&run).unwrap();
    let mut run: Run = serde_json::from_str(&kept).unwrap();
    assert!(matches!(run.want(&terms), Want::Ask(question) if question.text == "Which address?"));
    assert!(run.answer("ann@example.org") && !run.answer("again"), "an answer is taken once");
    let Want::Act { prediction, .. } = run.want(&terms) else { panic!("{run:?}") };
    assert_eq!((prediction.text.as_str(), run.request.user_input.as_deref()), ("recipient is ann", Some("ann@example.org")));
}

#[test]
fn what_comes_out_of_turn_changes_nothing() {
    let (mut run, terms) = (run(), terms(&[]));
    let before = run.clone();
    run.take(&terms, acted(None));
    run.take(&terms, Came::Judged { probability: 1.0 });
    assert_eq!(run, before);
}

#[test]
fn missing_variables_are_asked_for_one_by_one_and_their_answers_lie_over_the_configuration() {
    let mut terms = terms(&[("server", "Where mail is left."), ("user", "Who sends."), ("zone", "Which zone.")]);
    terms.config = Map::from_iter([("zone".to_owned(), json!("UTC")), ("user".to_owned(), Value::Null)]);
    let mut run = run();
    let Want::Ask(question) = run.want(&terms) else { panic!("{run:?}") };
    assert_eq!(question.text, "To run email.compose I need `server`. Where mail is left.");
    run.answer("mail.example");
    let Want::Ask(question) = run.want(&terms) else { panic!("{run:?}") };
    assert_eq!(question.variable.as_deref(), Some("user"));
    run.answer("skip");
    assert!(matches!(run.want(&terms), Want::Predict { .. }), "what is left unset is not asked for again");
    assert_eq!(Value::from(run.config(&terms)), json!({ "zone": "UTC", "user": null, "server": "mail.example" }));
}

#[test]
fn a_run_is_complete_at_tau_and_run_again_only_within_its_bounds() {
    let terms = Terms { max_reentries: 1, ..terms(&[]) };
    let to_judging = |run: &mut Run| {
        run.take(&terms, predicted("p"));
        run.take(&terms, acted(None));
    };
    let mut good = run();
    to_judging(&mut good);
    good.take(&terms, Came::Judged { probability: 0.6 });
    let Want::Nothing(outcome) = good.want(&terms) else { panic!("{good:?}") };
    assert_eq!((outcome.is_ok, outcome.summary.as_str(), outcome.cost), (true, "email.compose: ok — log", 0.25));
    let mut bad = run();
    to_judging(&mut bad);
    bad.take(&terms, Came::Judged { probability: 0.59 });
    assert!(matches!(bad.want(&terms), Want::Judge { phase: "assess:requeue", .. }));
    bad.take(&terms, Came::Judged { probability: 0.9 });
    assert_eq!((bad.request.reentries, bad.request.source.as_str(), bad.request.id.as_str()), (1, "requeue", "0123456789ab"));
    to_judging(&mut bad);
    bad.take(&terms, Came::Judged { probability: 0.1 });
    assert!(matches!(bad.want(&terms), Want::Nothing(outcome) if !outcome.is_ok && outcome.reentries == 1));
}

#[test]
fn a_run_without_means_is_ended_before_its_body_works() {
    let terms = Terms { cost_budget: 0.15, ..terms(&[]) };
    let mut run = run();
    assert!(matches!(run.want(&terms), Want::Predict { may_decide: 1 }));
    run.take(&terms, predicted("p"));
    let Want::Nothing(outcome) = run.want(&terms) else { panic!("{run:?}") };
    assert!(matches!(outcome.fault, Some(Fault { what: Wrong::Budget { .. }, .. })) && outcome.cost <= 0.15, "{outcome:?}");
}

#[test]
fn questions_without_end_end_the_run() {
    let (mut run, terms) = (run(), Terms { cost_budget: 100.0, ..terms(&[]) });
    run.take(&terms, predicted("p"));
    for _ in 0..40 {
        run.take(&terms, acted(Some("and?")));
        if !run.answer("x") {
            break;
        }
    }
    assert!(matches!(run.want(&terms), Want::Nothing(outcome) if outcome.summary.contains("no answer within 16 questions")));
}

#[test]
fn what_the_engine_judges_by_holds_no_secret() {
    let mut terms = terms(&[("api_token", "t"), ("host", "h")]);
    terms.config = Map::from_iter([("api_token".to_owned(), json!("hush")), ("host".to_owned(), json!("mail.example"))]);
    let mut run = run();
    run.take(&terms, predicted("p"));
    run.take(&terms, acted(None));
    let Want::Judge { request, .. } = run.want(&terms) else { panic!("{run:?}") };
    let wanted =
        "skill: email.compose\ngoal: write to Ann\nresolved inputs:\n  api_token = ***\n  host = mail.example\naction log:\nlog";
    assert_eq!(request.state, json!(wanted));
}

#[test]
fn a_fault_ends_the_run_and_says_where() {
    let (mut run, terms) = (run(), terms(&[]));
    let fault = Fault { phase: Phase::Predict, line: Some(7), what: Wrong::Raised { text: "ValueError: no".into() } };
    run.take(&terms, Came::Failed(fault));
    let Want::Nothing(outcome) = run.want(&terms) else { panic!("{run:?}") };
    assert_eq!(outcome.summary, "email.compose: failed — line 7, in `predict`: it raised ValueError: no");
}
