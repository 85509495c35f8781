use crate::{
    being::{Price, Usage},
    vocab::{Name, Span},
};

/// Whether asking again can help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// It cannot, until something is edited.
    Permanent,
    /// It cannot, but a shorter one may be answered.
    TooLong,
    /// It may, after `retry_after` where the server named a time.
    Transient { retry_after: Option<Span> },
}

/// Tokens that a server counted, and what they cost there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    pub usage: Usage,
    pub price: Price,
}

/// Why no model answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("brama: {message}")]
pub struct ModelError {
    pub class: Class,
    /// What is the case, without the leading `brama: `.
    pub message: String,
    /// What has to be paid all the same.
    pub spent: Vec<Spent>,
}

impl ModelError {
    /// An error that lasts until an edit.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self { class: Class::Permanent, message: message.into(), spent: Vec::new() }
    }

    /// A request that does not fit the model's context.
    pub fn too_long(message: impl Into<String>) -> Self {
        Self { class: Class::TooLong, ..Self::permanent(message) }
    }

    /// An error that may be gone at the next try.
    pub fn transient(message: impl Into<String>, retry_after: Option<Span>) -> Self {
        Self { class: Class::Transient { retry_after }, message: message.into(), spent: Vec::new() }
    }

    /// The same error with what it cost.
    #[must_use]
    pub fn charging(mut self, usage: Option<Usage>, price: Price) -> Self {
        self.spent.extend(usage.map(|usage| Spent { usage, price }));
        self
    }

    /// Joins what each model of a chain said. Asking for less helps if it helps with one of them; else asking again does, if it does with
    /// one, at the earliest time that one named.
    pub(super) fn of_chain(mut errors: Vec<(Name, Self)>) -> Self {
        if errors.is_empty() {
            return Self::permanent("the being has no model to think with");
        }
        if errors.len() == 1 {
            return errors.remove(0).1;
        }
        let waits: Vec<Option<Span>> = errors.iter().filter_map(|(_, error)| error.retry_after()).collect();
        let is_too_long = errors.iter().any(|(_, error)| error.class == Class::TooLong);
        let class = match waits.is_empty() {
            _ if is_too_long => Class::TooLong,
            true => Class::Permanent,
            false => Class::Transient { retry_after: waits.into_iter().min().flatten() },
        };
        let said: Vec<String> = errors.iter().map(|(model, error)| format!("{model}: {}", error.message)).collect();
        let spent = errors.into_iter().flat_map(|(_, error)| error.spent).collect();
        Self { class, message: format!("no model answered: {}", said.join("; ")), spent }
    }

    /// `None` if asking again cannot help, else the time that the server named.
    const fn retry_after(&self) -> Option<Option<Span>> {
        match self.class {
            Class::Permanent | Class::TooLong => None,
            Class::Transient { retry_after } => Some(retry_after),
        }
    }
}
