//! A being as a pure state machine: state, mind, budget, events, and what one step asks of its driver.
//! No clock, no file, no `async`: time and ids come in as input.

mod apply;
mod asking;
mod budget;
mod cadence;
mod chat;
mod days;
mod deadline;
mod event;
mod exchange;
mod family;
mod folded;
mod framing;
mod gate;
mod identity;
mod mind;
mod outcome;
mod question;
mod report;
mod rules;
mod shown;
mod state;
mod step;
mod tokens;
mod window;

#[cfg(test)]
mod simulation;
#[cfg(test)]
pub(crate) mod testing;

pub use budget::{Budget, Cost, Price};
pub use cadence::{Cadence, Next, Past};
pub use chat::{ChatMessage, ChatRequest, Completion, Finish, FunctionCall, Role, ToolCall, ToolCallKind, ToolDefinition, Usage};
pub use days::Days;
pub use event::{Birth, Event, OpenCall, Record};
pub use exchange::{Effect, Ending, Input, Ready, ThinkError, ThinkErrorClass, Thought};
pub use family::{Child, ChildStatus, ChildTerms, Spawn};
pub use folded::Folded;
pub use gate::{Closed, Limit};
pub use identity::{BadIdentity, DeclaredIdentity, Identity};
pub use mind::{MAX_KEPT_MEMORIES, Memory, Mind, MindChange, default_prompt};
pub use outcome::{Outcome, Revenue, Status};
pub use question::{Answer, Form, Question, Questions, Word};
pub use report::{CycleStatus, Report};
pub use rules::{Approval, Limits, Offer, Retry, Rules};
pub use state::{ActionRecord, AgentState, BeingStatus, CreatedResources, MAX_RECENT_ACTIONS, SCHEMA_VERSION};
pub use step::Being;
pub use tokens::{CountTokens, Counter};
