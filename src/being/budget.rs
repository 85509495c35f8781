use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{chat::Usage, days::Days};
use crate::vocab::{Date, Span, Usd};

/// The money of a being, exact to the last digit (SPEC §5). `remaining = starting + granted + earned − api_spent − instance_spent − given`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    pub starting: Usd,
    pub remaining: Usd,
    pub api_spent: Usd,
    pub instance_spent: Usd,
    pub total_tokens: u64,
    pub earned: Usd,
    /// What children were born with.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub given: Usd,
    /// Grants by id; an id is applied once, ever.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub granted: BTreeMap<String, Usd>,
    /// Transactions that were credited, as `tool:id`; each earns once.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub credited: BTreeSet<String>,
    /// What was spent on each day, in UTC; the newest of them.
    #[serde(default, skip_serializing_if = "Days::is_empty")]
    pub days: Days,
    /// What was spent since the last cycle began.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cycle_spent: Usd,
}

/// What a model costs, per million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub input: Usd,
    pub output: Usd,
}

/// The cost of one model call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    pub api: Usd,
    pub instance: Usd,
    pub tokens: u64,
}

impl Cost {
    /// Prices one call (SPEC §5).
    pub fn of(usage: Usage, price: Price, elapsed: Span, instance_usd_per_hour: Usd) -> Self {
        let api = price.input.for_tokens(usage.prompt_tokens) + price.output.for_tokens(usage.completion_tokens);
        Self { api, instance: instance_usd_per_hour.for_time(elapsed), tokens: usage.total_tokens }
    }

    /// Both parts together.
    pub fn total(self) -> Usd {
        self.api + self.instance
    }
}

impl Budget {
    /// What was spent in the whole life.
    pub fn spent(&self) -> Usd {
        self.api_spent + self.instance_spent
    }

    /// A budget at birth.
    pub const fn new(starting: Usd) -> Self {
        Self {
            starting,
            remaining: starting,
            api_spent: Usd::ZERO,
            instance_spent: Usd::ZERO,
            total_tokens: 0,
            earned: Usd::ZERO,
            given: Usd::ZERO,
            granted: BTreeMap::new(),
            credited: BTreeSet::new(),
            days: Days::new(),
            cycle_spent: Usd::ZERO,
        }
    }

    /// The solvency gate of SPEC §4.
    pub fn is_solvent(&self) -> bool {
        self.remaining.is_positive()
    }

    /// Earned − spent.
    pub fn net_profit(&self) -> Usd {
        self.earned - self.api_spent - self.instance_spent
    }

    /// Takes the cost of a call that was made on `day`; may go below zero once, the gate then holds.
    pub fn debit(&mut self, cost: Cost, day: Date) {
        self.cycle_spent += cost.total();
        self.days.add(day, cost.total());
        self.api_spent += cost.api;
        self.instance_spent += cost.instance;
        self.total_tokens = self.total_tokens.saturating_add(cost.tokens);
        self.remaining -= cost.total();
    }

    /// Begins a cycle, of which nothing is spent.
    pub const fn begin_cycle(&mut self) {
        self.cycle_spent = Usd::ZERO;
    }

    /// Adds earned money; a transaction that was credited before changes nothing.
    pub fn credit(&mut self, amount: Usd, transaction: Option<String>) {
        if transaction.is_some_and(|id| !self.credited.insert(id)) {
            return;
        }
        self.earned += amount;
        self.remaining += amount;
    }

    /// Adds granted money; an id that was granted before changes nothing.
    pub fn grant(&mut self, id: String, amount: Usd) {
        if self.granted.contains_key(&id) {
            return;
        }
        self.granted.insert(id, amount);
        self.remaining += amount;
    }

    /// Takes out what a child is born with. It is no spending: the child spends it.
    pub fn give(&mut self, amount: Usd) {
        self.given += amount;
        self.remaining -= amount;
    }

    /// What the balance has to be, as its parts say.
    pub fn expected(&self) -> Usd {
        let granted: Usd = self.granted.values().copied().sum();
        self.starting + granted + self.earned - self.api_spent - self.instance_spent - self.given
    }

    /// Tells whether the balance is what its parts say.
    pub fn is_balanced(&self) -> bool {
        self.remaining == self.expected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        Usd::parse(text).unwrap()
    }

    #[test]
    fn the_vectors_of_the_seed_hold() {
        let price = Price { input: usd("2"), output: usd("6") };
        let mut budget = Budget::new(usd("10"));
        let cost = Cost::of(Usage::new(250_000, 125_000), price, Span::from_secs(5_400), usd("4"));
        budget.debit(cost, Date::ZERO);
        assert_eq!((cost.total(), budget.remaining, budget.total_tokens), (usd("7.25"), usd("2.75"), 375_000));
        assert_eq!((budget.spent(), budget.net_profit(), budget.is_solvent()), (usd("7.25"), usd("-7.25"), true));
        assert!(budget.is_balanced());
    }

    #[test]
    fn a_call_may_overdraw_once_and_the_gate_then_holds() {
        let mut budget = Budget::new(usd("0.50"));
        budget.debit(Cost { api: usd("1"), instance: usd("2"), tokens: 500_000 }, Date::ZERO);
        assert_eq!(budget.remaining, usd("-2.5"));
        assert!(!budget.is_solvent());
    }

    #[test]
    fn the_smallest_cost_is_exact_beside_the_largest_credit() {
        let mut budget = Budget::new(usd("0.000000000000001"));
        budget.credit(usd("1000000000000"), None);
        for _ in 0..1_000 {
            budget.debit(Cost::of(Usage::new(1, 2), Price::default(), Span::from_secs(1), usd("0.07")), Date::ZERO);
        }
        assert!(budget.is_balanced(), "{budget:?}");
    }

    #[test]
    fn a_state_of_before_there_were_limits_is_read_and_written_as_it_was() {
        let old = "{\"starting\":\"1\",\"remaining\":\"1\",\"api_spent\":\"0\",\"instance_spent\":\"0\",\"total_tokens\":0,\"earned\":\"0\"}";
        let read: Budget = serde_json::from_str(old).unwrap();
        assert_eq!((&read, serde_json::to_string(&read).unwrap().as_str()), (&Budget::new(usd("1")), old));
    }

    #[test]
    fn a_grant_and_a_transaction_count_once() {
        let mut budget = Budget::new(Usd::ZERO);
        for _ in 0..2 {
            budget.grant("2026-12".into(), usd("25"));
            budget.credit(usd("3"), Some("finance__sell:t1".into()));
        }
        assert_eq!((budget.remaining, budget.earned), (usd("28"), usd("3")));
        assert!(budget.is_balanced());
    }
    #[test]
    fn a_new_cycle_may_spend_anew_and_forgets_no_money() {
        let mut budget = Budget::new(usd("10"));
        budget.debit(Cost { api: usd("1"), instance: usd("2"), tokens: 3 }, Date::ZERO);
        let before = budget.clone();
        assert_eq!(before.cycle_spent, usd("3"));
        budget.begin_cycle();
        assert_eq!(budget, Budget { cycle_spent: Usd::ZERO, ..before });
    }
}
