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
        state.absorb(&Event::CycleStarted { framing, stimulus: None }, cycle, Timestamp::UNIX_EPOCH);
        state.conversation.push(ChatMessage::assistant(Some(format!("I thought about {cycle}.")), Vec::new()));
    }
    Being::new(state)
}

/// The being answers and rests, and its next cycle begins.
fn next_cycle(being: &mut Being, prompt_tokens: u64) -> Ready {
    let usage = Usage::new(prompt_tokens, 1);
    let completion =
        Completion { model: "m".into(), content: Some("Done.".into()), tool_calls: Vec::new(), finish: Finish::Stop, usage };
    let result = Ok(Thought { completion, price: Price::default(), passed_over: Vec::new() });
    being.step(&rules(), Input::Thought { result, elapsed: Span::ZERO }, Timestamp::UNIX_EPOCH);
    being.step(&rules(), Input::Wake, Timestamp::UNIX_EPOCH)
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
