use std::{collections::BTreeSet, sync::Arc};

use globset::GlobSet;

use super::{budget::Price, chat::ToolDefinition, family::ChildTerms, tokens::Counter};
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
    /// Calls that wait for a person.
    pub approval: Approval,
    pub limits: Limits,
    /// What the operator allows of children, if any.
    pub children: Option<ChildTerms>,
    /// What every declared model may take for an answer.
    pub offers: Arc<[Offer]>,
}

/// What holds a being's cycles, beside its balance.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// What a day, in UTC, may cost.
    pub per_day: Option<Usd>,
    /// What a cycle may cost.
    pub per_cycle: Option<Usd>,
    /// Whether a call is made only when what it may cost is there.
    pub reserve: bool,
    /// How long a cycle may take.
    pub deadline: Option<Span>,
    /// Balances that are told when the balance falls to them.
    pub warn_below: BTreeSet<Usd>,
}

/// Which calls wait for a person's word, and how long.
#[derive(Debug, Clone, Default)]
pub struct Approval {
    /// Over the names of tools.
    pub tools: GlobSet,
    pub within: Span,
}

/// What one declared model may take for an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub model: String,
    pub price: Price,
    pub max_tokens: u32,
    /// Whether it is of the being's chain: asked when others do not answer.
    pub is_of_chain: bool,
}

impl Rules {
    /// Tells whether a call of this tool waits for a person. A tool that is not there can do no harm, so nobody is asked about it.
    pub(super) fn asks_about(&self, tool: &str) -> bool {
        self.approval.tools.is_match(tool) && self.tools.iter().any(|known| known.name == tool)
    }

    /// What a request of at most `prompt_tokens` to `model` may cost: a model that fails may have counted all the same, so each one that
    /// may be asked is paid. Time is not foreseen.
    pub fn worst_case(&self, model: &str, prompt_tokens: u64) -> Usd {
        let asked = self.offers.iter().filter(|offer| offer.is_of_chain || offer.model == model);
        asked
            .map(|offer| offer.price.input.for_tokens(prompt_tokens) + offer.price.output.for_tokens(offer.max_tokens.into()))
            .sum()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::being::{simulation, testing::usd};

    #[test]
    fn a_reserve_pays_for_every_model_that_may_be_asked_and_for_no_other() {
        let offer = |model: &str, input: &str, output: &str, is_of_chain| Offer {
            model: model.into(),
            price: Price { input: usd(input), output: usd(output) },
            max_tokens: 500_000,
            is_of_chain,
        };
        let offers = [offer("first", "1", "2", true), offer("second", "10", "20", true), offer("aside", "100", "200", false)];
        let rules = Rules { offers: offers.into(), ..simulation::rules(2_000, Limits::default()) };
        assert_eq!(rules.worst_case("first", 1_000_000), usd("22"), "its own two, and those that are asked when it fails");
        assert_eq!(rules.worst_case("aside", 1_000_000), usd("222"), "a chosen model is asked before the chain");
        assert_eq!(rules.worst_case("unknown", 0), usd("11"));
    }

    #[test]
    fn waits_double_up_to_their_cap_and_never_fall_below_what_a_server_asked_for() {
        let retry = Retry::default();
        let waits = |asked: Option<Span>| [1, 2, 3, 6, 7, 32, 33, 34, u32::MAX].map(|attempt| retry.wait_after(attempt, asked));
        let seconds = [1, 2, 4, 32, 60, 60, 60, 60, 60].map(Span::from_secs);
        assert_eq!(waits(None), seconds);
        assert_eq!(waits(Some(Span::ZERO)), seconds);
        assert_eq!(retry.wait_after(4, Some(Span::from_secs(5))), Span::from_secs(8));
        assert_eq!(retry.wait_after(1, Some(Span::from_secs(90))), Span::from_secs(90), "also above the longest wait of its own");
        assert_eq!(
            retry.wait_after(1, Some(Span::from_secs(86_400))),
            MAX_ASKED_WAIT,
            "no server sends a being to sleep for a day"
        );
    }
}
