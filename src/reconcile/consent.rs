//! The consent of people to tokens for surfaces: asked by whoever needs a token, kept in the home, shown and answered here.

use std::sync::Arc;

use super::{Condition, ConditionKind, FormFacts, QuestionFacts, Reconciler, RequestError, handle::Reply};
use crate::vocab::{Name, chain};

impl Reconciler {
    /// Takes what a person brought, and has whoever waited for it try again. The way to the authorization server is not waited for here.
    pub(super) fn consent(&self, surface: &Name, answer: String, reply: Reply<()>) {
        let refused = |why: String| RequestError::Refused(format!("the answer to surface/{surface} does not count: {why}"));
        let keyring = self.fleet.surfaces.get(surface).and_then(|spec| self.ground.keyring(surface, spec));
        let Some(keyring) = keyring else {
            return drop(reply.send(Err(refused("no surface of that name asks for consent".to_owned()))));
        };
        let waiting: Vec<_> = self.units.values().map(crate::runtime::Unit::again).collect();
        let (bell, surface) = (Arc::clone(&self.bell), surface.clone());
        tokio::spawn(async move {
            let taken = keyring.answer(&answer).await;
            if taken.is_ok() {
                waiting.into_iter().for_each(|again| again());
            }
            bell.notify_one();
            let told = |why: String| RequestError::Refused(format!("the answer to surface/{surface} does not count: {why}"));
            drop(reply.send(taken.map_err(|error| told(chain(&error)))));
        });
    }

    /// What a surface asks of a person, and how it is meanwhile.
    pub(super) fn wanted(&self, surface: &Name) -> (Vec<Condition>, Option<QuestionFacts>) {
        let keyring = self.fleet.surfaces.get(surface).and_then(|spec| self.ground.keyring(surface, spec));
        match keyring.map(|keyring| keyring.wanted()).transpose() {
            Ok(Some(Some(wanted))) => {
                let scopes = if wanted.scopes.is_empty() { String::new() } else { format!(" to {}", wanted.scopes.join(" ")) };
                let message = format!("open the address, consent{scopes}, and answer with the address that you are sent to");
                let question = QuestionFacts {
                    id: format!("surface/{surface}"),
                    tool: format!("surface/{surface}"),
                    arguments: String::new(),
                    asked_at: wanted.asked_at.to_string(),
                    until: String::new(),
                    form: Some(FormFacts { message, schema: None, url: Some(wanted.address) }),
                };
                let rows = vec![
                    Condition::new(ConditionKind::Ready, false, "ConsentNeeded", "a person must consent first"),
                    Condition::new(ConditionKind::Stalled, true, "ConsentNeeded", "see `singularity questions`"),
                ];
                (rows, Some(question))
            }
            Ok(_) => (vec![Condition::new(ConditionKind::Ready, true, "Declared", "it is used when a being needs it")], None),
            Err(error) => (vec![Condition::new(ConditionKind::Ready, false, "TokensUnusable", chain(&error))], None),
        }
    }
}
