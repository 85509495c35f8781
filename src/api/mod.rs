//! The daemon's door: JSON over HTTP on a unix socket in the home, which only its owner can open.
//!
//! `GET /v1/status[?newer_than=N]` tells everything, at once or when it changed; `GET /v1/events[?after=N]` tells what happened; `POST /v1/fund`, `/v1/apply`, `/v1/delete`, `/v1/pause`, `/v1/resume`, `/v1/freeze`, `/v1/rollback`, `/v1/answer`,
//! `/v1/consent` and `/v1/down` ask for changes. `POST /v1/systemone` decides questions over one
//! state in the form, and with the refusals, of programs that speak that interface. Who asks is who the kernel says is at the other end. A refusal is a 422 with its class and a sentence. Requests are bounded in size, waits in time.

mod client;
mod schema;
mod server;
mod systemone;
mod wire;

pub use crate::reconcile::{
    Answer, AppliedSet, AppliedSource, BeingFacts, Condition, ConditionKind, FormFacts, Handle, HoldFacts, List, Notice,
    ObjectStatus, QuestionFacts, Reconciler, Revision, RevisionHead, Revisions, Settings, SourceFacts, Status, Truth, Whom, Word,
    add_applied,
};
pub use client::{AskError, Client};
pub use schema::schemas;
pub use server::{ListenError, listen, serve};
pub use wire::{
    AnswerRequest, ApplyAnswer, ApplyRequest, ConsentRequest, Daemon, DeleteRequest, Done, EventList, FreezeRequest, FundRequest,
    PauseRequest, Refusal, RefusalClass, ResumeRequest, RollbackRequest, StatusAnswer,
};
