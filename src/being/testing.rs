use super::{
    chat::{ChatMessage, Role},
    event::{Birth, Event, Record},
    family::{Child, ChildStatus},
    identity::Identity,
    mind::Mind,
    state::AgentState,
};
use crate::vocab::{Timestamp, Usd};

/// An amount, for tests.
pub(crate) fn usd(text: &str) -> Usd {
    Usd::parse(text).unwrap()
}

/// A whole identity, for tests.
pub(crate) fn identity() -> Identity {
    Identity {
        agent_id: "ada".into(),
        name: "ada".into(),
        ticker: "ADA".into(),
        agent_type: "being".into(),
        specialty: "research".into(),
        role: "worker".into(),
        environment: "test".into(),
        host: "here".into(),
        workload_id: "w".into(),
        workload_public_key: "0".repeat(64),
        executable_digest: "1".repeat(64),
        code_digest: "2".repeat(64),
        policy_digest: "3".repeat(64),
        policy_sequence: 1,
    }
}

/// What a being of tests is born with: ten dollars.
pub(crate) fn birth() -> Birth {
    Birth { identity: identity(), mind: Mind::new("Be.".into(), "smol".into()), starting: usd("10") }
}

/// A child with a dollar, for tests.
pub(crate) fn child(n: u128) -> Child {
    let id = uuid::Uuid::from_u128(n);
    Child {
        id,
        name: format!("Child {n}"),
        called: format!("child-{n}"),
        ticker: "CHD".into(),
        specialty: "maps".into(),
        usd: usd("1"),
        state_dir: format!("children/{id}"),
        created_at: Timestamp::UNIX_EPOCH,
        status: ChildStatus::Running,
        call_id: Some("c".into()),
    }
}

/// A newborn, for tests.
pub(crate) fn state() -> AgentState {
    let event = Event::Started { birth: Some(Box::new(birth())) };
    AgentState::born(&Record { seq: 1, at: Timestamp::UNIX_EPOCH, cycle: 0, event }).unwrap()
}

/// Every answer with calls is followed by exactly their results, as chat completions demand.
pub(crate) fn assert_well_formed(messages: &[ChatMessage]) {
    let mut owed: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Tool {
            let id = message.tool_call_id.as_deref().unwrap();
            let at = owed.iter().position(|owed| *owed == id).expect("a result answers a call that was asked for");
            owed.remove(at);
        } else {
            assert!(owed.is_empty(), "calls without results before a {:?} message: {owed:?}", message.role);
            owed = message.tool_calls.iter().map(|call| call.id.as_str()).collect();
        }
    }
    assert!(owed.is_empty(), "calls without results: {owed:?}");
}
