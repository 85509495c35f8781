use std::sync::atomic::{AtomicU64, Ordering};

use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::being::{Approval, CountTokens, Outcome, Retry, ToolCall, testing};
use crate::vocab::{Timestamp, Usd};

fn rules(context_tokens: u32) -> Rules {
    Rules {
        max_tool_rounds: 8,
        instance_usd_per_hour: Usd::ZERO,
        stimulus: None,
        tools: Vec::new().into(),
        context_tokens,
        counter: Counter::estimate(),
        max_tokens: 64,
        retry: Retry::default(),
        approval: Approval::default(),
        limits: crate::being::Limits::default(),
        children: None,
        offers: Vec::new().into(),
    }
}

/// A tokenizer of tests: `price` hundredths of a token for a byte. It tells how many messages it was shown.
#[derive(Debug, Default)]
struct Bytes {
    price: u64,
    shown: AtomicU64,
}

impl CountTokens for Bytes {
    fn message(&self, message: &ChatMessage) -> u64 {
        self.shown.fetch_add(1, Ordering::Relaxed);
        let calls: usize =
            message.tool_calls.iter().map(|call| call.id.len() + call.function.name.len() + call.function.arguments.len()).sum();
        3 + wide(message.content.as_deref().map_or(0, str::len) + calls) * self.price / 100
    }

    fn head(&self, system: Option<&str>, tools: &Arc<[ToolDefinition]>) -> u64 {
        let tools: usize =
            tools.iter().map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len()).sum();
        6 + wide(system.map_or(0, str::len) + tools) * self.price / 100
    }
}

/// Folds as a being does before it asks.
fn ask(window: &mut Window, state: &mut AgentState, rules: &Rules) -> ChatRequest {
    if let Some(event) = window.fold(state, rules) {
        state.absorb(&event, state.cycle, Timestamp::UNIX_EPOCH);
    }
    window.request(state, rules)
}

fn room(rules: &Rules) -> u64 {
    u64::from(rules.context_tokens) - u64::from(rules.max_tokens).min(u64::from(rules.context_tokens) / 2)
}

/// A cycle of a life: framing, calls with their results, a reply.
fn cycle(state: &mut AgentState, calls: usize, text: &str) {
    state.cycle += 1;
    state
        .conversation
        .push(ChatMessage::user(crate::being::framing::framing(&AgentState { cycle: state.cycle - 1, ..state.clone() })));
    let ids: Vec<String> = (0..calls).map(|call| format!("call-{}-{call}", state.cycle)).collect();
    if calls > 0 {
        let asked = ids.iter().map(|id| ToolCall::new(id, "files__read", json!({ "path": text }).to_string())).collect();
        state.conversation.push(ChatMessage::assistant(None, asked));
    }
    let result = Outcome::success(json!(text)).envelope();
    state.conversation.extend(ids.iter().map(|id| ChatMessage::tool(id, "files__read", &result)));
    state.conversation.push(ChatMessage::assistant(Some(text.to_owned()), Vec::new()));
}

fn counters() -> impl Strategy<Value = Counter> {
    prop_oneof![
        Just(Counter::estimate()),
        (10_u64..=100, any::<bool>())
            .prop_map(move |(price, others)| Counter::new(vec![Arc::new(Bytes { price, ..Bytes::default() })], others)),
    ]
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![6 => "[a-zé{ ]{0,40}", 2 => "[a-z0-9 ]{40,900}", 1 => "[x漢]{900,4000}"]
}

fn tools() -> impl Strategy<Value = Arc<[ToolDefinition]>> {
    let tool = (text(), text()).prop_map(|(description, told)| {
        let parameters = json!({ "type": "object", "properties": { "description": { "type": "string", "description": told } } });
        ToolDefinition { name: "files__read".into(), description, parameters }
    });
    vec(tool, 0..6).prop_map(Arc::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_request_fits_and_is_well_formed(
        lives in vec((0_usize..6, text()), 1..30),
        (context_tokens, max_tokens) in (300_u32..5_000, 1_u32..8_000),
        (counter, tools) in (counters(), tools()),
        mind in text(),
        too_long in any::<prop::sample::Index>(),
    ) {
        let mut state = testing::state();
        state.mind.system_prompt = mind;
        let rules = Rules { counter, tools, max_tokens, ..rules(context_tokens) };
        let mut window = Window::new();
        let too_long = too_long.index(lives.len());
        for (at, (calls, text)) in lives.into_iter().enumerate() {
            cycle(&mut state, calls, &text);
            state.conversation.pop();
            let request = ask(&mut window, &mut state, &rules);
            let tokens = rules.counter.prompt_tokens(&request);
            prop_assert!(tokens <= room(&rules), "{tokens} of {}", room(&rules));
            prop_assert_eq!(window.asked, tokens, "what is kept of earlier counts is what counting anew gives");
            testing::assert_well_formed(&request.messages);
            if at == too_long && window.shrink(&rules) {
                let half = rules.counter.prompt_tokens(&ask(&mut window, &mut state, &rules));
                prop_assert!(half <= tokens / 2 || half < 300, "{half} after {tokens}");
            }
            state.conversation.push(ChatMessage::assistant(Some(text), Vec::new()));
        }
    }
}

#[test]
fn a_call_that_no_server_accepts_is_kept_in_the_state_and_shown_as_one_that_is_accepted() {
    let mut state = testing::state();
    let long = json!({ "content": "x".repeat(1 << 20) }).to_string();
    let calls = [("a b", "{}"), ("", "{\"cut"), ("ok", "[1]"), ("ok", long.as_str())];
    let calls: Vec<ToolCall> = calls.into_iter().map(|(name, arguments)| ToolCall::new("c", name, arguments)).collect();
    state.conversation.push(ChatMessage::assistant(None, calls.clone()));
    let shown = ask(&mut Window::new(), &mut state, &rules(8_192)).messages.pop().unwrap().tool_calls;
    let told: Vec<_> = shown.iter().map(|call| (call.function.name.as_str(), call.function.arguments.as_str())).collect();
    assert_eq!(told[..3], [("unknown", "{}"), ("unknown", "{}"), ("ok", "{}")]);
    assert!(told[3].1.len() < 64, "{}", told[3].1);
    assert_eq!(state.conversation[0].tool_calls, calls, "the state keeps what was said");
}

#[test]
fn a_mind_that_outgrew_the_window_can_still_think() {
    let mut state = testing::state();
    state.mind.rules = vec!["Never forget this rule.".repeat(100); 200];
    state.conversation.push(ChatMessage::user("Begin."));
    let rules = rules(2_048);
    let request = ask(&mut Window::new(), &mut state, &rules);
    let tokens = rules.counter.prompt_tokens(&request);
    assert!((room(&rules) / 2..=room(&rules)).contains(&tokens), "as much of the mind as fits: {tokens}");
    assert_eq!(request.messages.last().and_then(|message| message.content.as_deref()), Some("Begin."));
}

#[test]
fn a_catalogue_that_outgrew_the_window_keeps_its_names_longest() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": "string", "description": "words ".repeat(200) } } });
    let tool =
        |n: usize| ToolDefinition { name: format!("tool-{n}"), description: "many words ".repeat(100), parameters: schema.clone() };
    let mut state = testing::state();
    state.conversation.push(ChatMessage::user("Begin."));
    let shown = |count: usize, context| {
        let rules = Rules { tools: (0..count).map(tool).collect(), ..rules(context) };
        ask(&mut Window::new(), &mut state.clone(), &rules).tools
    };
    assert_eq!(shown(10, 100_000)[9], tool(9), "what fits is shown whole");
    let undescribed = &shown(10, 2_048)[9];
    assert_eq!((undescribed.name.as_str(), undescribed.parameters["properties"]["a"]["type"].as_str()), ("tool-9", Some("string")));
    assert_eq!(shown(10, 500).len(), 10);
    assert!((1..1_000).contains(&shown(1_000, 2_048).len()), "only where the names alone are too many, some are not shown");
}

#[test]
fn the_newest_messages_stay_and_older_ones_leave_about_half_the_room_free() {
    let mut state = testing::state();
    let (rules, mut window) = (rules(2_000), Window::new());
    let mut folds = 0;
    for n in 0..200 {
        cycle(&mut state, 2, &format!("what was seen in cycle {n}"));
        state.conversation.pop();
        let before = state.folded.messages;
        let request = ask(&mut window, &mut state, &rules);
        assert_eq!(request.messages.last(), state.conversation.last(), "verbatim");
        if state.folded.messages > before {
            folds += 1;
            assert!(window.counts.total < room(&rules) * 6 / 10, "{}", window.counts.total);
        }
        state.conversation.push(ChatMessage::assistant(Some("done".into()), Vec::new()));
    }
    assert!((5..50).contains(&folds), "big steps, so that the prefix of requests rests: {folds}");
}

#[test]
fn a_message_is_counted_once_however_many_rounds_ask() {
    let bytes = Arc::new(Bytes { price: 30, ..Bytes::default() });
    let rules = Rules { counter: Counter::new(vec![Arc::<Bytes>::clone(&bytes)], false), ..rules(4_000) };
    let (mut state, mut window) = (testing::state(), Window::new());
    let rounds = 1_000;
    for n in 0..rounds {
        cycle(&mut state, 1, &format!("round {n}"));
        ask(&mut window, &mut state, &rules);
    }
    let said = state.folded.messages + wide(state.conversation.len());
    let counted = bytes.shown.load(Ordering::Relaxed);
    assert!(counted < said + 1_000, "{counted} for {said} messages: the rest is the note of what is folded");
}

#[test]
fn what_was_estimated_is_counted_anew_once_the_tokenizer_is_known() {
    let (mut state, mut window) = (testing::state(), Window::new());
    cycle(&mut state, 1, "hello");
    let estimated = rules(4_000);
    ask(&mut window, &mut state, &estimated);
    let known = Arc::new(Bytes { price: 100, ..Bytes::default() });
    let known = Rules { counter: Counter::new(vec![known], false), ..estimated };
    let request = ask(&mut window, &mut state, &known);
    assert_eq!(
        (window.asked, request.prompt_tokens),
        (known.counter.prompt_tokens(&request), known.counter.prompt_tokens(&request))
    );
}

#[test]
fn a_server_that_counts_more_than_is_estimated_is_sent_less_and_one_that_counts_less_is_not_sent_more() {
    let (rules, mut state) = (rules(4_000), testing::state());
    let fill = |state: &mut AgentState| (0..200).for_each(|n| cycle(state, 1, &format!("cycle {n}")));
    fill(&mut state);
    let mut window = Window::new();
    ask(&mut window, &mut state, &rules);
    window.learn(window.asked / 2);
    assert_eq!(window.room(&rules), room(&rules));
    window.learn(window.asked * 2);
    assert_eq!(window.room(&rules), room(&rules) / 2);
    fill(&mut state);
    let request = ask(&mut window, &mut state, &rules);
    assert!(rules.counter.prompt_tokens(&request) <= room(&rules) / 2);
    window.learn(u64::MAX);
    assert_eq!(window.room(&rules), room(&rules) / 4, "beyond belief");
    (0..10).for_each(|_| window.learn(window.asked));
    assert_eq!(window.room(&rules), room(&rules), "a way back");
}

#[test]
fn a_room_that_was_halved_comes_back_step_by_step() {
    let (rules, mut state, mut window) = (rules(8_000), testing::state(), Window::new());
    (0..300).for_each(|n| cycle(&mut state, 1, &format!("cycle {n}")));
    ask(&mut window, &mut state, &rules);
    let asked = window.asked;
    assert!(window.shrink(&rules));
    assert_eq!(window.room(&rules), asked / 2, "half of what was too long, not of what was thought to fit");
    window.widen();
    assert_eq!(window.room(&rules), asked / 2 + asked / 8);
    (0..20).for_each(|_| window.widen());
    assert_eq!(window.room(&rules), room(&rules));
}
