//! How a driver waits for a person's word about a call.

use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use super::{Command, Driver, Phase, Until, clock::Stopwatch, refit::finished};
use crate::{
    being::{Answer, Effect, Input, Question},
    store::StoreError,
};

/// The longest sleep at a time: the clock may be set meanwhile.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Why an answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotAsked {
    #[error("it was answered already, or its time has passed; `singularity logs` tells which")]
    Over,
    #[error("there is no such question; `singularity questions` lists those that wait")]
    Unknown,
    #[error("the being is paused; set `paused = false` first, and the question waits")]
    Paused,
    #[error("the being is just being started; try again in a moment")]
    Away,
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
                Some(Command::Answer { number: meant, answer, reply }) if meant == *number => {
                    let next = self.tell(Input::Answered { number: meant, answer }).await?;
                    let _ = reply.send(Ok(()));
                    return Ok(next);
                }
                Some(Command::Answer { number, reply, .. }) => refuse(reply, self.not_asked(number)),
                Some(Command::Stop) | None => return self.tell(Input::Stop).await,
            }
        }
    }

    /// Why an answer to a question that does not wait is of no use.
    pub(super) fn not_asked(&self, number: u64) -> NotAsked {
        let questions = &self.being.state().questions;
        if questions.is_waiting(number) {
            return if self.assignment.being.paused { NotAsked::Paused } else { NotAsked::Away };
        }
        if (1..=questions.asked).contains(&number) { NotAsked::Over } else { NotAsked::Unknown }
    }
}
