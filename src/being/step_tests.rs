use super::*;
use crate::being::{Approval, ChatMessage, Counter, MindChange, Retry, testing};

fn rules() -> Rules {
    Rules {
        max_tool_rounds: 3,
        instance_usd_per_hour: testing::usd("3600"),
        stimulus: None,
        tools: Vec::new().into(),
        context_tokens: 8_192,
        counter: Counter::estimate(),
        max_tokens: 64,
        retry: Retry::default(),
        approval: Approval::default(),
        limits: crate::being::Limits::default(),
        children: None,
        offers: Vec::new().into(),
    }
}

fn awake() -> Being {
    let mut being = Being::new(AgentState { budget: crate::being::Budget::new(testing::usd("100")), ..testing::state() });
    being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH);
    being
}

fn fail(being: &mut Being, spent: Vec<(Usage, Price)>) -> Ready {
    let class = ThinkErrorClass::Transient { retry_after: None };
    let result = Err(ThinkError { class, message: "brama: HTTP 503".into(), spent });
    being.step(&rules(), Input::Thought { result, elapsed: Span::from_secs(2) }, Timestamp::UNIX_EPOCH)
}

#[test]
fn the_time_of_a_failed_call_is_paid_once_however_many_models_counted() {
    for spent in [vec![], vec![(Usage::new(1, 1), Price::default()); 2]] {
        let mut being = awake();
        fail(&mut being, spent);
        assert_eq!(being.state().budget.instance_spent, testing::usd("2"));
    }
}

#[test]
fn tools_that_changed_before_a_model_was_asked_are_what_it_is_asked_with() {
    let mut being = awake();
    let tool = crate::being::ToolDefinition { name: "new".into(), description: String::new(), parameters: serde_json::json!({}) };
    let rules = Rules { tools: vec![tool].into(), ..rules() };
    let ready = being.step(&rules, Input::Retooled { after: Span::from_secs(3) }, Timestamp::UNIX_EPOCH);
    let Some(Effect::Think { request, after, .. }) = ready.then else { panic!("{:?}", ready.then) };
    assert_eq!((request.tools.len(), after, being.state().cycle), (1, Span::from_secs(3), 1));
}

#[test]
fn what_a_server_asked_ends_with_its_call_and_keeps_no_call_open_after_a_crash() {
    let call = ToolCall::new("one", "a__ask", "{}");
    let mut being = awake();
    let completion =
        Completion { model: "m".into(), content: None, tool_calls: vec![call], finish: Finish::Stop, usage: Usage::new(1, 1) };
    let result = Ok(Thought { completion, price: Price::default(), passed_over: Vec::new() });
    being.step(&rules(), Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH);
    let form = crate::being::Form { message: "Who?".into(), schema: None, url: None };
    let asked = being.step(&rules(), Input::Elicited(Box::new(form)), Timestamp::UNIX_EPOCH);
    assert!(asked.then.is_none() && being.state().questions.is_waiting(1), "{asked:?}");
    let mut crashed = Being::new(being.state().clone());
    let given = crate::being::Answer::Given;
    being.step(&rules(), Input::Answered { number: 1, answer: given }, Timestamp::UNIX_EPOCH);
    assert!(being.state().questions.waiting().is_none() && being.is_busy());

    let ready = crashed.recover(&["one".to_owned()].into(), Timestamp::UNIX_EPOCH);
    let [Event::ToolFinished { status: Status::Indeterminate, .. }] = ready.facts.as_slice() else { panic!("{ready:?}") };
    assert!(crashed.state().questions.open.is_none() && !crashed.is_busy());
}

fn too_long(being: &mut Being) -> Ready {
    let result = Err(ThinkError { class: ThinkErrorClass::TooLong, message: "brama: HTTP 413".into(), spent: Vec::new() });
    being.step(&rules(), Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH)
}

fn asked(ready: &Ready) -> Option<u64> {
    match &ready.then {
        Some(Effect::Think { request, .. }) => Some(rules().counter.prompt_tokens(request)),
        _ => None,
    }
}

/// A being of two thousand cycles of which nothing is folded.
fn old() -> Being {
    let mut state = testing::state();
    for cycle in 1..=2_000_u64 {
        let framing = framing(&AgentState { cycle: cycle - 1, ..testing::state() });
        state.absorb(&Event::CycleStarted { framing, stimulus: None, slot: None }, cycle, Timestamp::UNIX_EPOCH);
        state.conversation.push(ChatMessage::assistant(Some(format!("I thought about {cycle}.")), Vec::new()));
    }
    Being::new(state)
}

/// The being answers and rests, and its next cycle begins.
fn next_cycle(being: &mut Being, prompt_tokens: u64) -> Ready {
    next_cycle_by(&rules(), being, prompt_tokens)
}

fn next_cycle_by(rules: &Rules, being: &mut Being, prompt_tokens: u64) -> Ready {
    let usage = Usage::new(prompt_tokens, 1);
    let completion =
        Completion { model: "m".into(), content: Some("Done.".into()), tool_calls: Vec::new(), finish: Finish::Stop, usage };
    let result = Ok(Thought { completion, price: Price::default(), passed_over: Vec::new() });
    being.step(rules, Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH);
    being.step(rules, Input::Wake, Timestamp::UNIX_EPOCH)
}

#[test]
fn what_models_say_of_a_requests_length_holds_for_the_cycles_after_it() {
    let mut being = old();
    let first = asked(&being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH)).unwrap();
    let less = asked(&next_cycle(&mut being, first * 3)).unwrap();
    assert!(less < first * 2 / 3, "a server counts three times as much: {less} after {first}");

    let mut being = old();
    let first = asked(&being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH)).unwrap();
    too_long(&mut being);
    let mut cycles = (0..20).map(|_| asked(&next_cycle(&mut being, 1)).unwrap());
    assert!(cycles.next().unwrap() < first * 5 / 8, "one step back in a cycle");
    assert!(cycles.last().unwrap() > first * 5 / 8, "and all the way in many");
}

#[test]
fn a_being_that_stood_over_its_models_window_starts_folds_and_lives_on() {
    let mut being = old();
    let ready = being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH);
    let [Event::CycleStarted { .. }, Event::Folded { messages, summary }] = ready.facts.as_slice() else {
        panic!("the fold is durable before the request: {:?}", ready.facts)
    };
    assert!(*messages > 3_500, "{messages}");
    assert!(summary.lines().last().is_some_and(|line| line.contains("said: I thought about ")), "{summary}");
    assert!(asked(&ready).is_some_and(|tokens| tokens <= 8_192 - 64));
    assert_eq!(being.state().folded.messages, *messages);
    assert!(fail(&mut being, vec![]).facts.iter().all(|fact| !matches!(fact, Event::Folded { .. })), "it is not folded again");
}

#[test]
fn a_model_that_says_too_long_again_and_again_is_asked_less_until_nothing_is_left_to_leave_out() {
    let mut being = Being::new(testing::state());
    being.step(&rules(), Input::Edited(MindChange::SetPrompt { prompt: "Be. ".repeat(20_000) }), Timestamp::UNIX_EPOCH);
    let mut tokens = asked(&being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH)).unwrap();
    let mut times = 0;
    let ended = loop {
        let ready = too_long(&mut being);
        let Some(less) = asked(&ready) else { break ready.then };
        assert!(less <= tokens / 2 || less < 160, "{less} after {tokens}");
        (tokens, times) = (less, times + 1);
    };
    assert!(times > 3 && tokens < 160, "asked {times} times more, at last with {tokens} tokens");
    assert!(matches!(ended, Some(Effect::End(Ending::Upstream { permanent: true, .. }))), "{ended:?}");
}

#[test]
fn a_cut_off_answer_with_calls_is_told_after_their_results() {
    let mut being = awake();
    let call = ToolCall::new("c", "t", "{\"cut");
    let completion =
        Completion { model: "m".into(), content: None, tool_calls: vec![call], finish: Finish::Length, usage: Usage::new(1, 1) };
    let result = Ok(Thought { completion, price: Price::default(), passed_over: Vec::new() });
    being.step(&rules(), Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH);
    let ready = being.step(&rules(), Input::Called(Outcome::failed("invalid_arguments", "no")), Timestamp::UNIX_EPOCH);
    assert!(matches!(ready.facts.as_slice(), [Event::ToolFinished { .. }, Event::Told { .. }]), "{:?}", ready.facts);
    assert!(matches!(ready.then, Some(Effect::Think { .. })));
}

#[test]
fn a_driver_is_told_whether_a_cycle_is_under_way_and_whether_the_process_leaves() {
    let mut being = Being::new(testing::state());
    assert_eq!((being.is_busy(), being.is_stopping()), (false, false));
    being.step(&rules(), Input::Granted { id: "g".into(), usd: testing::usd("100") }, Timestamp::UNIX_EPOCH);
    being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH);
    assert_eq!((being.is_busy(), being.is_stopping()), (true, false));
    being.step(&rules(), Input::Stop, Timestamp::UNIX_EPOCH);
    assert_eq!((being.is_busy(), being.is_stopping()), (true, true), "what is under way may still end");
    being.step(&rules(), Input::Abandoned, Timestamp::UNIX_EPOCH);
    assert!(!being.is_busy());
}

/// A being without money, for which a call costs.
fn poor() -> (Rules, Being) {
    let price = Price { input: testing::usd("1"), output: testing::usd("1") };
    let offer = crate::being::Offer { model: testing::state().mind.current_model, price, max_tokens: 64, is_of_chain: true };
    let broke = AgentState { budget: crate::being::Budget::new(Usd::ZERO), ..testing::state() };
    (Rules { offers: [offer].into(), ..rules() }, Being::new(broke))
}

#[test]
fn a_being_without_money_begins_no_cycle_and_says_so_once() {
    let (rules, mut being) = poor();
    assert_eq!(being.step(&rules, Input::Wake, Timestamp::UNIX_EPOCH).facts, [Event::Exhausted]);
    assert_eq!((being.state().cycle, being.told()), (0, Some(&Limit::Balance)));
    assert_eq!(being.closed(&rules, Timestamp::UNIX_EPOCH).map(|closed| closed.limit), Some(Limit::Balance));
    assert!(being.foreseen(&rules) > testing::usd("0.000064"), "the prompt costs too");
    let again = being.step(&rules, Input::Wake, Timestamp::UNIX_EPOCH);
    assert!(again.facts.is_empty() && matches!(again.then, Some(Effect::Rest(_))), "{again:?}");
}

#[test]
fn a_grant_that_comes_again_is_recorded_once_and_opens_the_gate() {
    let (rules, mut being) = poor();
    let grant = || Input::Granted { id: "2026-12".into(), usd: testing::usd("25") };
    let granted = Event::FundsGranted { id: "2026-12".into(), usd: testing::usd("25") };
    assert_eq!(being.step(&rules, grant(), Timestamp::UNIX_EPOCH).facts, [granted]);
    assert_eq!(being.step(&rules, grant(), Timestamp::UNIX_EPOCH).facts, []);
    assert_eq!(being.state().budget.remaining, testing::usd("25"));
    let asked = being.step(&rules, Input::Wake, Timestamp::UNIX_EPOCH);
    assert!(matches!(asked.then, Some(Effect::Think { .. })) && being.told().is_none(), "{asked:?}");
}

#[test]
fn labels_are_recorded_when_they_change_and_only_then() {
    let mut being = awake();
    let labels = std::collections::BTreeMap::from([("team".to_owned(), "blue".to_owned())]);
    let labelled = Event::Labelled { labels: labels.clone() };
    assert_eq!(being.step(&rules(), Input::Labelled(labels.clone()), Timestamp::UNIX_EPOCH).facts, [labelled]);
    assert_eq!(being.step(&rules(), Input::Labelled(labels), Timestamp::UNIX_EPOCH).facts, []);
}

#[test]
fn each_cycle_has_the_next_number_and_only_the_first_is_told_the_stimulus() {
    let rules = Rules { stimulus: Some("rain".into()), ..rules() };
    let mut being = Being::new(AgentState { budget: crate::being::Budget::new(testing::usd("100")), ..testing::state() });
    let mut ready = being.step(&rules, Input::Wake, Timestamp::UNIX_EPOCH);
    for number in 1..=3 {
        let begun = ready.facts.iter().find_map(|fact| match fact {
            Event::CycleStarted { stimulus, .. } => Some(stimulus.as_deref()),
            _ => None,
        });
        assert_eq!((being.state().cycle, begun), (number, Some((number == 1).then_some("rain"))));
        ready = next_cycle_by(&rules, &mut being, 1);
    }
}

/// The model asks for a call, which ends so.
fn calls(being: &mut Being, id: &str, outcome: Outcome) -> Ready {
    let tool_calls = vec![ToolCall::new(id, "finance__sell", "{}")];
    let usage = Usage::new(1, 1);
    let completion = Completion { model: "m".into(), content: None, tool_calls, finish: Finish::ToolCalls, usage };
    let result = Ok(Thought { completion, price: Price::default(), passed_over: Vec::new() });
    being.step(&rules(), Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH);
    being.step(&rules(), Input::Called(outcome), Timestamp::UNIX_EPOCH)
}

#[test]
fn a_cycle_ends_when_its_rounds_are_used_up() {
    let mut being = awake();
    let ok = || Outcome::success(serde_json::json!({}));
    for id in ["a", "b"] {
        assert!(matches!(calls(&mut being, id, ok()).then, Some(Effect::Think { .. })));
    }
    let last = calls(&mut being, "c", ok());
    assert!(matches!(last.facts.last(), Some(Event::Warning { message }) if message == "maximum tool rounds reached"));
    let Some(Effect::Rest(report)) = last.then else { panic!("{:?}", last.then) };
    assert_eq!((report.status, report.actions.len()), (CycleStatus::ToolRoundLimit, 3));
}

#[test]
fn a_transaction_that_is_told_again_earns_nothing_more() {
    let mut being = awake();
    let sold = || Outcome {
        revenue: Some(Revenue { amount: testing::usd("3"), transaction: Some("t1".into()) }),
        ..Outcome::success(serde_json::json!({}))
    };
    let credits = |ready: Ready| ready.facts.iter().filter(|fact| matches!(fact, Event::RevenueCredited { .. })).count();
    assert_eq!(["a", "b"].map(|id| credits(calls(&mut being, id, sold()))), [1, 0]);
    assert_eq!(being.state().budget.earned, testing::usd("3"));
}

#[test]
fn a_model_that_cannot_answer_for_now_is_asked_as_often_as_declared_and_no_more() {
    let rules = Rules { retry: Retry { max_attempts: Some(3), ..Retry::default() }, ..rules() };
    let mut being = awake();
    let mut fails = || {
        let class = ThinkErrorClass::Transient { retry_after: None };
        let result = Err(ThinkError { class, message: "brama: HTTP 503".into(), spent: Vec::new() });
        being.step(&rules, Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH).then
    };
    for _ in 0..2 {
        assert!(matches!(fails(), Some(Effect::Think { .. })));
    }
    assert!(matches!(fails(), Some(Effect::End(Ending::Upstream { permanent: false, .. }))));
}

#[test]
fn a_cap_that_holds_is_told_once_and_is_not_poverty() {
    let mut being = Being::new(AgentState { budget: crate::being::Budget::new(testing::usd("1")), ..testing::state() });
    let closed = || Closed { limit: Limit::Cap("all".into()), left: Usd::ZERO, worst: None };
    let told = being.step(&rules(), Input::Capped(closed()), Timestamp::UNIX_EPOCH);
    assert!(matches!(told.facts.as_slice(), [Event::Warning { .. }]), "{:?}", told.facts);
    assert_eq!(being.step(&rules(), Input::Capped(closed()), Timestamp::UNIX_EPOCH).facts, []);
}

#[test]
fn a_being_that_leaves_says_so_once_and_ends_as_what_it_is() {
    for (usd, failed, status) in [
        ("1", false, BeingStatus::Stopped),
        ("0", false, BeingStatus::Exhausted),
        ("1", true, BeingStatus::Failed),
        ("0", true, BeingStatus::Failed),
    ] {
        let budget = crate::being::Budget::new(testing::usd(usd));
        let mut being = Being::new(AgentState { budget, ..testing::state() });
        let mut tell = |input| being.step(&rules(), input, Timestamp::UNIX_EPOCH).facts;
        assert_eq!(tell(Input::Stop), [Event::Stopping]);
        assert_eq!(tell(Input::Stop), []);
        assert_eq!(tell(Input::Closed { failed }), [Event::Stopped { status }]);
    }
}
