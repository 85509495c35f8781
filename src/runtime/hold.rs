//! How a driver holds a being that is paused in the midst of a cycle.

use tokio::sync::mpsc;

use super::{Command, Driver, Phase, questions::refuse, refit::finished};
use crate::{being::Input, store::StoreError, vocab::Span};

impl Driver {
    /// Holds a paused being before it asks a model, and meanwhile nothing is set aside for its call. The input is what comes instead: once
    /// it is resumed a model is asked anew, with what holds then; on a stop it is given up.
    pub(super) async fn hold(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<Option<Input>, StoreError> {
        if !self.assignment.is_paused() {
            return Ok(None);
        }
        self.pass = None;
        while self.assignment.is_paused() {
            self.show(Phase::Paused);
            let command = tokio::select! {
                result = finished(&mut self.building) => {
                    self.built(result).await?;
                    continue;
                }
                command = commands.recv() => command,
            };
            match command {
                Some(Command::Assign(assignment, reply)) => self.assign(*assignment, reply).await?,
                Some(Command::Answer { number, reply, .. }) => refuse(reply, self.not_asked(number)),
                Some(Command::Stop) | None => {
                    self.tell(Input::Stop).await?;
                    return Ok(Some(Input::Abandoned));
                }
            }
        }
        Ok(Some(Input::Retooled { after: Span::ZERO }))
    }
}
