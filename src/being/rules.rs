use std::sync::Arc;

use super::{chat::ToolDefinition, tokens::Counter};
use crate::vocab::{Span, Usd};

/// What an operator laid down for a being's cycles. An edit replaces it between two steps.
#[derive(Debug, Clone)]
pub struct Rules {
    pub max_tool_rounds: u32,
    pub instance_usd_per_hour: Usd,
    /// Told on the first cycle of a life.
    pub stimulus: Option<String>,
    /// The whole catalogue, as a model is shown it.
    pub tools: Arc<[ToolDefinition]>,
    /// Tokens that fit into one request, answer included: the least of the models that may answer.
    pub context_tokens: u32,
    /// Counts the tokens of a request for the models that may answer.
    pub counter: Counter,
    /// Tokens that an answer may have.
    pub max_tokens: u32,
    pub retry: Retry,
}

/// How often, and after which wait, a model is asked again that could not answer for now.
#[derive(Debug, Clone, Copy)]
pub struct Retry {
    /// Attempts at one round, the first included; `None` is as many as it takes.
    pub max_attempts: Option<u32>,
    pub first_wait: Span,
    pub longest_wait: Span,
}

impl Default for Retry {
    fn default() -> Self {
        Self { max_attempts: None, first_wait: Span::from_secs(1), longest_wait: Span::from_secs(60) }
    }
}

impl Retry {
    /// The wait before attempt `attempt + 1`: doubled each time, never less than what the server asked for, both capped.
    pub fn wait_after(&self, attempt: u32, asked_for: Option<Span>) -> Span {
        let factor = 1_u32.checked_shl(attempt.saturating_sub(1)).unwrap_or(u32::MAX);
        let doubled = self.first_wait.saturating_mul(factor).min(self.longest_wait);
        doubled.max(asked_for.unwrap_or(Span::ZERO).min(MAX_ASKED_WAIT))
    }
}

/// The longest wait that a server's `Retry-After` can bring about.
const MAX_ASKED_WAIT: Span = Span::from_secs(600);
