use std::collections::BTreeMap;

use uuid::Uuid;

use super::{
    budget::Price,
    chat::{ChatRequest, Completion, ToolCall, Usage},
    event::Event,
    family::ChildStatus,
    gate::Closed,
    mind::MindChange,
    outcome::Outcome,
    question::{Answer, Form, Question},
    report::Report,
};
use crate::vocab::{Span, Timestamp, Usd};

/// What a being is told.
#[derive(Debug)]
pub enum Input {
    /// It is time for a cycle.
    Wake,
    /// It is time for a cycle that takes this slot of the schedule.
    Due { slot: Timestamp },
    /// A model answered, or could not.
    Thought { result: Result<Thought, ThinkError>, elapsed: Span },
    /// There are other tools than those that the model was to be asked with, `after` a wait: it is asked with these.
    Retooled { after: Span },
    /// The server of the call under way asks something of a person.
    Elicited(Box<Form>),
    /// A tool call ended.
    Called(Outcome),
    /// A question was answered.
    Answered { number: u64, answer: Answer },
    /// What several beings may spend together does not allow the next model call, which is not made.
    Capped(Closed),
    /// The effect under way was given up before it ended.
    Abandoned,
    /// An operator granted money.
    Granted { id: String, usd: Usd },
    /// The labels that an operator gave it.
    Labelled(BTreeMap<String, String>),
    /// Something that an operator should read in the journal.
    Noticed { message: String },
    /// Something became of a child.
    ChildChanged { id: Uuid, status: ChildStatus },
    /// An operator's edit changes the mind.
    Edited(MindChange),
    /// The process wants to leave: no new effect begins.
    Stop,
    /// Everything that belonged to the being is closed.
    Closed { failed: bool },
}

/// An answer, and what it costs per million tokens.
#[derive(Debug, Clone)]
pub struct Thought {
    pub completion: Completion,
    pub price: Price,
    /// Why models before it did not answer; what they spent is paid too.
    pub passed_over: Vec<ThinkError>,
}

/// Why no model answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ThinkError {
    pub class: ThinkErrorClass,
    pub message: String,
    /// What servers had counted before they failed.
    pub spent: Vec<(Usage, Price)>,
}

/// What to do about a model that did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkErrorClass {
    /// Asking again cannot help; an operator must act.
    Permanent,
    /// May pass by itself.
    Transient { retry_after: Option<Span> },
    /// The request does not fit the model's context; fewer messages may.
    TooLong,
}

/// What one step asks of the driver: make `facts` durable, then carry `then` out.
#[derive(Debug, Default)]
pub struct Ready {
    pub facts: Vec<Event>,
    pub then: Option<Effect>,
}

/// What is to be done once the facts are durable. At most one is under way at a time.
#[derive(Debug)]
pub enum Effect {
    /// Ask a model, after a wait; answer with [`Input::Thought`]. It may cost up to `worst`, as far as that can be known.
    Think { request: ChatRequest, after: Span, worst: Usd },
    /// Call a tool; answer with [`Input::Called`].
    Call(ToolCall),
    /// Wait for a person's word about a call; answer with [`Input::Answered`].
    Ask(Box<Question>),
    /// The cycle is over; send [`Input::Wake`] or [`Input::Due`] when it is time for the next.
    Rest(Report),
    /// No more effects will come: close what belongs to the being, then send [`Input::Closed`].
    End(Ending),
}

/// Why a being takes no more steps in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It was asked to stop.
    Stopped,
    /// No model can be asked. A permanent one waits for an operator; after another a later start may help.
    Upstream { permanent: bool, message: String },
}
