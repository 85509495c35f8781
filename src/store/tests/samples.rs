use proptest::{collection::vec, option, prelude::*};
use uuid::Uuid;

use crate::{
    being::{
        AgentState, Answer, BeingStatus, Child, ChildStatus, DeclaredIdentity, Event, Finish, Form, Memory, MindChange, OpenCall,
        Question, Record, Status, ToolCall, Usage,
        testing::{birth, child, state, usd},
    },
    store::{Boot, line},
    vocab::{Digest, Timestamp, Usd},
};

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

pub(super) fn fresh() -> Boot {
    Boot::Fresh { birth: Box::new(birth()) }
}

pub(super) fn resume() -> Boot {
    Boot::Resume { declared: Box::default() }
}

pub(super) fn either() -> Boot {
    Boot::Either { birth: Box::new(birth()), declared: Box::new(DeclaredIdentity::default()) }
}

pub(super) fn told(message: impl Into<String>) -> Event {
    Event::Told { message: message.into() }
}

pub(super) fn tool_started(call_id: &str) -> Event {
    Event::ToolStarted { call_id: call_id.into(), tool: "files__write".into(), arguments: r#"{"a":"\u0000"}"#.into() }
}

pub(super) fn tool_finished(call_id: &str) -> Event {
    Event::ToolFinished {
        call_id: call_id.into(),
        tool: "files__write".into(),
        status: Status::Success,
        error_code: None,
        result: "{\"status\":\"success\"}\n".into(),
        change: Some(MindChange::AddRule { rule: "Save.".into() }),
        chat_id: Some(Uuid::from_u128(7)),
        message_id: None,
        screened: None,
    }
}

pub(super) fn thought(content: &str) -> Event {
    let tool_calls = vec![ToolCall::new("c", "files__write", "{}")];
    let usage = Usage::new(250_000, 125_000);
    Event::ModelCompleted {
        model: "smol".into(),
        usage,
        content: Some(content.into()),
        tool_calls,
        finish: Finish::ToolCalls,
        elapsed_ms: 40,
    }
}

pub(super) fn debited(cents: u32) -> Event {
    let amount = usd(&format!("0.{cents:02}"));
    Event::CostDebited { amount, api: amount, instance: Usd::ZERO, tokens: 12 }
}

pub(super) fn granted(id: &str) -> Event {
    Event::FundsGranted { id: id.into(), usd: usd("2.5") }
}

pub(super) fn credited(transaction: &str) -> Event {
    Event::RevenueCredited { amount: usd("0.75"), source: "finance__sell".into(), transaction: Some(transaction.into()) }
}

/// A life of writes: each inner list is one write, the first is the birth.
pub(super) fn writes() -> Vec<Vec<Event>> {
    vec![
        vec![Event::Started { birth: Some(Box::new(birth())) }],
        vec![Event::CycleStarted { framing: "Begin autonomous cycle 1.".into(), stimulus: Some("röd\n\u{1}".into()), slot: None }],
        vec![thought("Let us write."), debited(25), tool_started("c")],
        vec![tool_finished("c"), credited("t1")],
        vec![granted("2026-12")],
        vec![thought(&"long ".repeat(500)), debited(1), tool_started("d"), told("x".repeat(700)), debited(2)],
    ]
}

/// Numbers the events of `writes`, one instant for each write.
pub(super) fn records(writes: &[Vec<Event>]) -> Vec<Vec<Record>> {
    let mut seqs = 1..;
    let record = |seq, second, event: &Event| Record { seq, at: at(second), cycle: 1, event: event.clone() };
    let numbered =
        (0..).zip(writes).map(|(second, write)| seqs.by_ref().zip(write).map(|(seq, event)| record(seq, second, event)).collect());
    numbered.collect()
}

/// The bytes of each write.
pub(super) fn bytes(writes: &[Vec<Record>]) -> Vec<Vec<u8>> {
    let encode = |write: &Vec<Record>| {
        let mut bytes = Vec::new();
        write.iter().for_each(|record| line::encode(&mut bytes, record, write[0].seq).unwrap());
        bytes
    };
    writes.iter().map(encode).collect()
}

/// What a life is after these records, without the store.
pub(super) fn fold<'a>(records: impl IntoIterator<Item = &'a Record>) -> Option<AgentState> {
    let mut records = records.into_iter();
    let mut state = AgentState::born(records.next()?)?;
    records.for_each(|record| state.apply(record));
    Some(state)
}

/// Every record of a sound journal.
pub(super) fn decode(journal: &[u8]) -> Vec<Record> {
    let lines = journal.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
    lines.map(|line| line::check(line).unwrap().decode().unwrap()).collect()
}

/// Seals any text as a line, without the newline.
pub(super) fn seal(text: &str) -> Vec<u8> {
    format!(r#"{text},"sum":"{:08x}"}}"#, crc32fast::hash(text.as_bytes())).into_bytes()
}

fn money() -> impl Strategy<Value = Usd> {
    (any::<i64>(), 0_usize..12).prop_map(|(digits, scale)| {
        let text = format!("{:0>13}", digits.unsigned_abs());
        let (whole, part) = text.split_at(text.len() - scale);
        usd(&format!("{}{whole}.{part}0", if digits < 0 { "-" } else { "" }))
    })
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0_i64..4_000_000_000, 0_i32..1_000_000_000).prop_map(|(second, nanosecond)| Timestamp::new(second, nanosecond).unwrap())
}

fn id() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

fn status() -> impl Strategy<Value = Status> {
    prop_oneof![Just(Status::Success), Just(Status::Failed), Just(Status::Indeterminate)]
}

fn change() -> impl Strategy<Value = MindChange> {
    prop_oneof![
        (id(), any::<String>(), any::<String>(), instant())
            .prop_map(|(id, kind, text, created_at)| MindChange::Remember { memory: Memory { id, kind, text, created_at } }),
        any::<String>().prop_map(|prompt| MindChange::SetPrompt { prompt }),
        any::<String>().prop_map(|rule| MindChange::AddRule { rule }),
        any::<String>().prop_map(|learning| MindChange::AddLearning { learning }),
        any::<String>().prop_map(|model| MindChange::SwitchModel { model }),
    ]
}

fn completed() -> impl Strategy<Value = Event> {
    let finish = prop_oneof![Just(Finish::Stop), Just(Finish::ToolCalls), Just(Finish::Length), Just(Finish::ContentFilter)];
    let call = any::<(String, String, String)>().prop_map(|(id, tool, arguments)| ToolCall::new(id, tool, arguments));
    let usage = any::<(u64, u64)>().prop_map(|(prompt, completion)| Usage::new(prompt, completion));
    (any::<String>(), usage, option::of(any::<String>()), vec(call, 0..3), finish, any::<u64>()).prop_map(
        |(model, usage, content, tool_calls, finish, elapsed_ms)| Event::ModelCompleted {
            model,
            usage,
            content,
            tool_calls,
            finish,
            elapsed_ms,
        },
    )
}

fn finished() -> impl Strategy<Value = Event> {
    let texts = (any::<(String, String, String)>(), option::of(any::<String>()), option::of(any::<String>()));
    (texts, status(), option::of(change()), option::of(id()), option::of(id())).prop_map(
        |(((call_id, tool, result), error_code, screened), status, change, chat_id, message_id)| Event::ToolFinished {
            call_id,
            tool,
            status,
            error_code,
            result,
            change,
            chat_id,
            message_id,
            screened,
        },
    )
}

fn ended() -> impl Strategy<Value = BeingStatus> {
    prop_oneof![Just(BeingStatus::Stopped), Just(BeingStatus::Exhausted), Just(BeingStatus::Failed), Just(BeingStatus::Running)]
}

fn open_call() -> impl Strategy<Value = OpenCall> {
    any::<(String, String, u64)>().prop_map(|(call_id, tool, cycle)| OpenCall { call_id, tool, cycle })
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Approved),
        option::of(any::<String>()).prop_map(|reason| Answer::Denied { reason }),
        Just(Answer::Expired),
        Just(Answer::Given)
    ]
}

fn form() -> impl Strategy<Value = Form> {
    any::<(String, bool, Option<String>)>().prop_map(|(message, has_schema, url)| Form {
        message,
        schema: has_schema.then(|| serde_json::json!({ "type": "object" })),
        url,
    })
}

fn question() -> impl Strategy<Value = Question> {
    (any::<(u64, String, String, String, u32)>(), instant(), instant(), option::of(answer()), option::of(form())).prop_map(
        |((number, call_id, tool, arguments, rounds), asked_at, until, answer, form)| Question {
            number,
            call_id,
            tool,
            arguments,
            asked_at,
            until,
            rounds,
            answer,
            form,
        },
    )
}

/// Any event at all.
pub(super) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any::<bool>().prop_map(|is_birth| Event::Started { birth: is_birth.then(|| Box::new(birth())) }),
        (any::<(String, Option<String>)>(), option::of(instant())).prop_map(|((framing, stimulus), slot)| Event::CycleStarted {
            framing,
            stimulus,
            slot
        }),
        completed(),
        (money(), money(), money(), any::<u64>()).prop_map(|(amount, api, instance, tokens)| Event::CostDebited {
            amount,
            api,
            instance,
            tokens
        }),
        any::<(String, String, String)>().prop_map(|(call_id, tool, arguments)| Event::ToolStarted { call_id, tool, arguments }),
        finished(),
        question().prop_map(|question| Event::InputRequested { question: Box::new(question) }),
        (any::<u64>(), answer()).prop_map(|(number, answer)| Event::InputAnswered { number, answer }),
        (money(), any::<(String, Option<String>)>()).prop_map(|(amount, (source, transaction))| Event::RevenueCredited {
            amount,
            source,
            transaction
        }),
        (any::<String>(), money()).prop_map(|(id, usd)| Event::FundsGranted { id, usd }),
        (any::<u128>(), option::of(any::<String>()))
            .prop_map(|(n, call_id)| Event::ChildSpawned { child: Box::new(Child { call_id, ..child(n) }) }),
        (id(), prop_oneof![Just(ChildStatus::Exhausted), Just(ChildStatus::Deleted)])
            .prop_map(|(id, status)| Event::ChildChanged { id, status }),
        change().prop_map(|change| Event::MindChanged { change }),
        any::<(String, String)>().prop_map(|label| Event::Labelled { labels: [label].into() }),
        any::<String>().prop_map(|message| Event::Warning { message }),
        any::<String>().prop_map(told),
        any::<(u64, String)>().prop_map(|(messages, summary)| Event::Folded { messages, summary }),
        Just(Event::Exhausted),
        Just(Event::Stopping),
        ended().prop_map(|status| Event::Stopped { status }),
        (any::<[u8; 8]>(), vec(open_call(), 0..2))
            .prop_map(|(bytes, open_calls)| Event::Checkpoint { picture: Digest::of(bytes), open_calls }),
        (any::<String>(), vec(open_call(), 0..2)).prop_map(|(message, open_calls)| {
            let mut state = state();
            state.absorb(&told(message), 1, at(1));
            Event::Adopted { state: Box::new(state), open_calls }
        }),
    ]
}

/// Any record at all, and how many of its write come before it.
pub(super) fn record() -> impl Strategy<Value = (Record, u64)> {
    (1..u64::MAX, instant(), any::<u64>(), event(), 0_u64..4)
        .prop_map(|(seq, at, cycle, event, before)| (Record { seq, at, cycle, event }, seq.saturating_sub(before).max(1)))
}
