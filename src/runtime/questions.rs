//! How a driver waits for a person's word: about a call, and to a server in the midst of one.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

use super::{Command, Driver, Phase, Until, clock::Stopwatch, refit::finished};
use crate::{
    being::{Answer, Effect, Form, Input, Question, Word},
    store::StoreError,
    surface::Ask,
    tool::filled,
};

/// The longest sleep at a time: the clock may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Why an answer does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    #[error("it was answered already, or its time has passed; `singularity logs` tells which")]
    Over,
    #[error("there is no such question; `singularity questions` lists those that wait")]
    Unknown,
    #[error(
        "the being is paused, and the question waits; `singularity resume` it first, or set `paused = false` where it is declared"
    )]
    Paused,
    #[error("the being is just being started; try again in a moment")]
    Away,
    #[error("it asks for values; give them with `singularity answer`, or say no with `singularity deny`")]
    Form,
    #[error("it asks whether a call may be made; say so with `singularity approve` or `singularity deny`")]
    Approval,
    #[error("{0}; the question still waits")]
    Misfit(String),
}

/// What a server asks in the midst of the call under way.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) number: u64,
    form: Form,
    ask: Ask,
    until: Instant,
}

impl Open {
    /// Waits until nobody may answer any more: the time has passed, or the server has withdrawn. For ever, when nothing is asked. Cancel
    /// safe.
    pub(super) async fn overdue(open: &mut Option<Self>) {
        let Some(Self { ask, until, .. }) = open else { std::future::pending().await };
        tokio::select! {
            () = ask.withdrawn() => {}
            () = tokio::time::sleep_until(*until) => {}
        }
    }
}

/// Tells whoever answered that it does not count; they may have left.
pub(super) fn refuse(reply: oneshot::Sender<Result<(), NotAsked>>, why: NotAsked) {
    let _ = reply.send(Err(why));
}

impl Driver {
    /// Waits for the answer to a question, its deadline, or a stop. In a process that nobody can reach, the being ends and the question
    /// waits in its state.
    pub(super) async fn ask(
        &mut self,
        question: &Question,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Option<Effect>, StoreError> {
        let Question { number, tool, until, .. } = question;
        let phase = Phase::Asking { number: *number, tool: tool.clone(), until: *until };
        if self.until != Until::Stopped {
            self.idle = Some(phase);
            return self.tell(Input::Stop).await;
        }
        tracing::info!(being = %self.assignment.name, tool, number, "a call waits for approval");
        loop {
            let left = Duration::try_from(until.duration_since(self.ground.clock.now())).unwrap_or_default();
            if left.is_zero() {
                return self.tell(Input::Answered { number: *number, answer: Answer::Expired }).await;
            }
            self.show(phase.clone());
            let command = tokio::select! {
                () = tokio::time::sleep_until(Stopwatch::start().after(left.min(LOOK_AGAIN))) => continue,
                result = finished(&mut self.building) => {
                    self.built(result).await?;
                    continue;
                }
                command = commands.recv() => command,
            };
            match command {
                Some(Command::Assign(assignment, reply)) => self.assign(*assignment, reply).await?,
                Some(Command::Answer { number: meant, word: Word { answer: Answer::Given, .. }, reply }) if meant == *number => {
                    refuse(reply, NotAsked::Approval);
                }
                Some(Command::Answer { number: meant, word: Word { answer, .. }, reply }) if meant == *number => {
                    let next = self.tell(Input::Answered { number: meant, answer }).await?;
                    let _ = reply.send(Ok(()));
                    return Ok(next);
                }
                Some(Command::Answer { number, reply, .. }) => refuse(reply, self.not_asked(number)),
                Some(Command::Stop) | None => return self.tell(Input::Stop).await,
            }
        }
    }

    /// Asks a person what a server wants to know; `None` where that may not be shown, or where nobody can be reached.
    pub(super) async fn elicit(&mut self, ask: Ask, phase: &Phase) -> Result<Option<Open>, StoreError> {
        let Phase::Calling { tool } = phase else { return Ok(None) };
        let form = match self.tools.toolbox.form(tool, ask.asked()).await {
            Ok(form) => form,
            Err(rule) => {
                ask.decline();
                let message = format!("what {tool} asks of a person may not be shown, so it is declined: {rule}");
                self.tell(Input::Noticed { message }).await?;
                return Ok(None);
            }
        };
        if self.until != Until::Stopped || self.being.is_stopping() {
            let message = format!("{tool} asks something of a person, and nobody can be reached here: it is told so");
            self.tell(Input::Noticed { message }).await?;
            return Ok(None);
        }
        self.tell(Input::Elicited(Box::new(form.clone()))).await?;
        let Some(Question { number, until, .. }) = self.being.state().questions.waiting().cloned() else { return Ok(None) };
        tracing::info!(being = %self.assignment.name, tool, number, "a server asks something of a person");
        self.show(Phase::Asking { number, tool: tool.clone(), until });
        let left = Duration::try_from(until.duration_since(self.ground.clock.now())).unwrap_or_default();
        Ok(Some(Open { number, form, ask, until: Stopwatch::start().after(left) }))
    }

    /// Takes what a person said to a server; what does not count leaves the question open.
    pub(super) async fn give(
        &mut self,
        open: Open,
        word: Word,
        reply: oneshot::Sender<Result<(), NotAsked>>,
        phase: &Phase,
    ) -> Result<Option<Open>, StoreError> {
        let Word { answer, values } = word;
        let given = match answer {
            Answer::Given => match filled(&open.form, values) {
                Ok(values) => Some(values),
                Err(misfit) => {
                    refuse(reply, NotAsked::Misfit(misfit));
                    return Ok(Some(open));
                }
            },
            Answer::Approved => {
                refuse(reply, NotAsked::Form);
                return Ok(Some(open));
            }
            Answer::Denied { .. } | Answer::Expired => None,
        };
        self.tell(Input::Answered { number: open.number, answer }).await?;
        match given {
            Some(values) => open.ask.accept(values),
            None => open.ask.decline(),
        }
        let _ = reply.send(Ok(()));
        self.show(phase.clone());
        Ok(None)
    }

    /// Lets a question go that nobody answered; the server is told by that.
    pub(super) async fn give_up_asking(&mut self, open: Option<Open>, phase: &Phase) -> Result<(), StoreError> {
        if let Some(Open { number, .. }) = open {
            self.tell(Input::Answered { number, answer: Answer::Expired }).await?;
            self.show(phase.clone());
        }
        Ok(())
    }

    /// Why an answer to a question that does not wait is of no use.
    pub(super) fn not_asked(&self, number: u64) -> NotAsked {
        let questions = &self.being.state().questions;
        if questions.is_waiting(number) {
            return if self.assignment.is_paused() { NotAsked::Paused } else { NotAsked::Away };
        }
        if (1..=questions.asked).contains(&number) { NotAsked::Over } else { NotAsked::Unknown }
    }
}
