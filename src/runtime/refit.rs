//! Edits of a being that runs: other rules in place, other tools built beside what it does.

use std::{future, sync::Arc};

use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

use super::{
    AnimateError, Assignment, Driver,
    animate::{Tools, prepare},
    driver::GRACE,
};
use crate::{
    being::Input,
    store::{StoreError, blocking},
    vocab::chain,
};

pub(super) type Reply = oneshot::Sender<Result<(), AnimateError>>;

/// An edit that waits for its tools.
#[derive(Debug)]
pub(super) struct Building {
    new: Assignment,
    reply: Reply,
    task: AbortOnDropHandle<Result<Tools, AnimateError>>,
}

/// Waits for tools that are being built; for ever, when there are none. Cancel safe.
pub(super) async fn finished(building: &mut Option<Building>) -> Result<Tools, AnimateError> {
    loop {
        let Some(Building { task, .. }) = building else { future::pending().await };
        match task.await {
            Ok(result) => return result,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!("the tools of an edit could not be built, by a fault of this program: {error}");
                }
                *building = None;
            }
        }
    }
}

impl Driver {
    /// Gives the being, between two cycles or two rounds, the tools that its surfaces list now. Tells whether they are others.
    pub(super) async fn take_stock(&mut self) -> Result<bool, StoreError> {
        let agent = self.being.state().identity.agent_id.clone();
        match self.tools.relist(&self.ground, &self.assignment, &self.dir, &agent) {
            None => Ok(false),
            Some(Ok(())) => {
                self.rules = self.assignment.rules(self.tools.toolbox.definitions(), self.until);
                self.tell_of_tools().await?;
                Ok(true)
            }
            Some(Err(error)) => {
                let told = chain(&error);
                tracing::warn!(being = %self.assignment.name, "its surfaces list other tools, which are refused; it goes on as it was: {told}");
                Ok(false)
            }
        }
    }

    /// Journals what an operator should know about the tools, then remembers what they look like.
    pub(super) async fn tell_of_tools(&mut self) -> Result<(), StoreError> {
        let toolbox = Arc::clone(&self.tools.toolbox);
        for message in toolbox.notices() {
            self.tell(Input::Noticed { message: message.clone() }).await?;
        }
        if let Err(error) = blocking(|| self.tools.remember(&self.ground, &self.assignment.name)) {
            tracing::warn!(being = %self.assignment.name, "{}", chain(&error));
        }
        Ok(())
    }

    /// Takes an edit. Where it needs other tools, they are built beside what the being does.
    pub(super) async fn assign(&mut self, new: Assignment, reply: Reply) -> Result<(), StoreError> {
        self.building = None;
        if !new.needs_other_tools(&self.assignment) {
            return self.enforce(new, reply).await;
        }
        let (ground, dir) = (Arc::clone(&self.ground), self.dir.clone());
        let (wanted, agent) = (new.clone(), self.being.state().identity.agent_id.clone());
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            prepare(&ground, &wanted).await?;
            Tools::build(&ground, &wanted, &dir, &agent).await
        }));
        self.building = Some(Building { new, reply, task });
        Ok(())
    }

    /// Lets the new tools take the place of the old ones; when they could not be built, all stays as it was.
    pub(super) async fn built(&mut self, result: Result<Tools, AnimateError>) -> Result<(), StoreError> {
        let Some(Building { new, reply, .. }) = self.building.take() else { return Ok(()) };
        match result {
            Ok(tools) => {
                let old = std::mem::replace(&mut self.tools, tools);
                self.retiring.spawn(async move { old.las.stop(GRACE).await });
                self.enforce(new, reply).await?;
                self.tell_of_tools().await
            }
            Err(error) => {
                drop(reply.send(Err(error)));
                Ok(())
            }
        }
    }

    /// Puts an edit into force.
    async fn enforce(&mut self, new: Assignment, reply: Reply) -> Result<(), StoreError> {
        self.rules = new.rules(self.tools.toolbox.definitions(), self.until);
        self.cadence = new.cadence();
        let before = std::mem::replace(&mut self.assignment, new);
        if self.assignment.is_paused() {
            self.paused.notify_waiters();
        }
        self.count_in();
        if let Some(in_force) = &self.in_force {
            in_force.send_modify(|view| view.assignment = Arc::new(self.assignment.clone()));
        }
        for edit in self.assignment.edits(Some(&before), self.being.state()) {
            self.tell(edit).await?;
        }
        drop(reply.send(Ok(())));
        Ok(())
    }
}
