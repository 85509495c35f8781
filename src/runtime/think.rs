//! How a driver asks models for its being.

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;

use super::{Command, Driver, Phase, clock::Stopwatch, driver::GRACE};
use crate::{
    being::{ChatRequest, Input, ThinkError, ThinkErrorClass, Thought},
    model::{self, Counted, ModelError, Spent},
    store::StoreError,
    vocab::{Span, Usd},
};

impl Driver {
    /// Asks a model, after a wait in which a stop and a pause are obeyed at once.
    pub(super) async fn thought(
        &mut self,
        request: ChatRequest,
        after: Span,
        worst: Usd,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Result<Input, StoreError> {
        let phase = if after == Span::ZERO { Phase::Thinking } else { Phase::Retrying };
        if let Some(held) = self.hold(commands).await? {
            return Ok(held);
        }
        let paused = Arc::clone(&self.paused);
        let wait = async move {
            tokio::select! { () = tokio::time::sleep(after.as_duration()) => {}, () = paused.notified() => {} }
        };
        if after > Span::ZERO && self.beside(wait, phase.clone(), Duration::ZERO, commands).await?.is_none() {
            return Ok(Input::Abandoned);
        }
        if let Some(held) = self.pass(worst, &phase, commands).await? {
            return Ok(held);
        }
        if let Some(held) = self.hold(commands).await? {
            return Ok(held);
        }
        let (ground, chain) = (Arc::clone(&self.ground), self.assignment.being.models.clone());
        let agent = self.being.state().identity.agent_id.clone();
        let watch = Stopwatch::start();
        let counted = Counted::default();
        let counting = counted.clone();
        let think = async move { ground.models.complete_counting(&agent, &chain, &request, &counting).await };
        let result = self.beside(think, phase, GRACE, commands).await?;
        let result = result.map(|result| result.map(thought).map_err(|error| think_error(&error)));
        let result = result.or_else(|| given_up(counted.take()).map(Err));
        Ok(result.map_or(Input::Abandoned, |result| Input::Thought { result, elapsed: watch.elapsed() }))
    }
}

fn thought(answer: model::Answer) -> Thought {
    let passed_over = answer.passed_over.iter().map(|(model, error)| passed_over(model.as_str(), error)).collect();
    Thought { completion: answer.completion, price: answer.price, passed_over }
}

fn passed_over(model: &str, error: &ModelError) -> ThinkError {
    let error = think_error(error);
    ThinkError { message: format!("model `{model}` did not answer: {}", error.message), ..error }
}

/// What a request that was given up is known to have cost, if anything.
fn given_up(counted: Vec<Spent>) -> Option<ThinkError> {
    let spent: Vec<_> = counted.into_iter().map(|spent| (spent.usage, spent.price)).collect();
    let message = "the request was given up; what models counted that did not answer is paid".to_owned();
    (!spent.is_empty()).then_some(ThinkError { class: ThinkErrorClass::Transient { retry_after: None }, message, spent })
}

fn think_error(error: &ModelError) -> ThinkError {
    let class = match error.class {
        model::Class::Permanent => ThinkErrorClass::Permanent,
        model::Class::TooLong => ThinkErrorClass::TooLong,
        model::Class::Transient { retry_after } => ThinkErrorClass::Transient { retry_after },
    };
    let spent = error.spent.iter().map(|spent| (spent.usage, spent.price)).collect();
    ThinkError { class, message: error.to_string(), spent }
}
