use std::fmt;

use serde::{Deserialize, Serialize};

use super::{budget::Budget, rules::Limits};
use crate::vocab::{Timestamp, Usd, day_of};

/// What holds a being back from asking a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closed {
    pub limit: Limit,
    /// What is left under the limit; may be below zero.
    pub left: Usd,
    /// What the next call may cost, where something is left, but not enough for it.
    pub worst: Option<Usd>,
}

/// A limit of what is spent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Balance,
    Day,
    Cycle,
    /// What several beings may spend together, by the name of the cap.
    Cap(String),
}

/// Tells whether a model may be asked at `now`, in a cycle of which `cycle_spent` is spent, when that may cost up to `worst`; the
/// error names the limit that holds, the widest first.
pub(super) fn gate(budget: &Budget, limits: &Limits, cycle_spent: Usd, worst: Usd, now: Timestamp) -> Result<(), Closed> {
    let worst = if limits.reserve { worst } else { Usd::ZERO };
    let day = limits.per_day.map(|most| (Limit::Day, most - budget.days.spent_on(day_of(now))));
    let cycle = limits.per_cycle.map(|most| (Limit::Cycle, most - cycle_spent));
    for (limit, left) in [Some((Limit::Balance, budget.remaining)), day, cycle].into_iter().flatten() {
        if !left.is_positive() {
            return Err(Closed { limit, left, worst: None });
        }
        if worst > left {
            return Err(Closed { limit, left, worst: Some(worst) });
        }
    }
    Ok(())
}

/// What to say before `cost` is taken from `remaining`: one warning for each threshold that the balance falls to or below.
pub(super) fn warnings(limits: &Limits, remaining: Usd, cost: Usd) -> impl Iterator<Item = String> {
    let after = remaining - cost;
    let crossed = limits.warn_below.iter().rev().filter(move |threshold| remaining > **threshold && after <= **threshold);
    crossed.map(move |threshold| format!("the balance falls to {after} USD, which is not above the declared {threshold} USD"))
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = match &self.limit {
            Limit::Balance => String::new(),
            Limit::Day => " of what a day may cost".to_owned(),
            Limit::Cycle => " of what a cycle may cost".to_owned(),
            Limit::Cap(name) => format!(" of what cap/{name} allows"),
        };
        match self.worst {
            Some(worst) => write!(f, "the next call may cost up to {worst} USD and {} USD are left{of}", self.left),
            None => write!(f, "{} USD are left{of}", self.left),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        being::{Cost, testing::usd},
        vocab::Date,
    };

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn spent(starting: &str, spent: &str) -> Budget {
        let mut budget = Budget::new(usd(starting));
        budget.debit(Cost { api: usd(spent), instance: Usd::ZERO, tokens: 1 }, day_of(NOW));
        budget
    }

    #[test]
    fn each_limit_closes_the_gate_and_says_what_is_left() {
        let limits = Limits { per_day: Some(usd("2")), per_cycle: Some(usd("0.5")), reserve: true, ..Limits::default() };
        let told = |budget: &Budget, cycle: &str, worst: &str| {
            gate(budget, &limits, usd(cycle), usd(worst), NOW).map_err(|closed| (closed.limit.clone(), closed.to_string()))
        };
        assert_eq!(told(&spent("10", "1"), "0.1", "0.4"), Ok(()), "what is left may be spent to the last digit");
        let cases = [
            ("1", "1", "0", "0", Limit::Balance, "0 USD are left"),
            ("1", "0.9", "0", "0.11", Limit::Balance, "the next call may cost up to 0.11 USD and 0.1 USD are left"),
            ("10", "2.5", "0", "0", Limit::Day, "-0.5 USD are left of what a day may cost"),
            (
                "10",
                "1.9",
                "0",
                "0.2",
                Limit::Day,
                "the next call may cost up to 0.2 USD and 0.1 USD are left of what a day may cost",
            ),
            ("10", "1", "0.5", "0", Limit::Cycle, "0 USD are left of what a cycle may cost"),
            (
                "10",
                "1",
                "0.2",
                "0.4",
                Limit::Cycle,
                "the next call may cost up to 0.4 USD and 0.3 USD are left of what a cycle may cost",
            ),
        ];
        for (starting, of_day, of_cycle, worst, limit, message) in cases {
            assert_eq!(told(&spent(starting, of_day), of_cycle, worst), Err((limit, message.to_owned())));
        }
    }

    #[test]
    fn without_a_reserve_only_what_is_spent_counts() {
        assert_eq!(gate(&spent("1", "0.9"), &Limits::default(), Usd::ZERO, usd("1000"), NOW), Ok(()));
    }

    #[test]
    fn another_day_is_free_again() {
        let limits = Limits { per_day: Some(usd("1")), ..Limits::default() };
        let budget = spent("10", "1");
        assert!(gate(&budget, &limits, Usd::ZERO, Usd::ZERO, NOW).is_err());
        assert_eq!(gate(&budget, &limits, Usd::ZERO, Usd::ZERO, crate::vocab::next_day(NOW)), Ok(()));
    }

    proptest! {
        #[test]
        fn what_is_known_beforehand_takes_no_limit_below_zero(calls in prop::collection::vec((0..400_u32, 0..3_i8, any::<bool>()), 1..60)) {
            let limits = Limits { per_day: Some(usd("0.7")), per_cycle: Some(usd("0.5")), reserve: true, ..Limits::default() };
            let mut budget = Budget::new(usd("1.3"));
            for (mills, day, begins) in calls {
                if begins {
                    budget.begin_cycle();
                }
                let day = Date::new(2026, 12, day + 1).unwrap();
                let now = day.to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
                let cost = Usd::parse(&format!("0.{mills:03}")).unwrap();
                if gate(&budget, &limits, budget.cycle_spent, cost, now).is_ok() {
                    budget.debit(Cost { api: cost, instance: Usd::ZERO, tokens: 1 }, day);
                }
                prop_assert!(!budget.remaining.is_negative() && budget.is_balanced());
                prop_assert!(budget.days.spent_on(day) <= usd("0.7") && budget.cycle_spent <= usd("0.5"));
            }
        }

        #[test]
        fn a_threshold_is_told_each_time_that_the_balance_falls_to_it_and_only_then(moves in prop::collection::vec((0..300_u32, any::<bool>()), 1..80)) {
            let threshold = usd("1");
            let limits = Limits { warn_below: [threshold].into(), ..Limits::default() };
            let (mut balance, mut is_above) = (usd("2"), true);
            for (cents, is_debit) in moves {
                let amount = Usd::parse(&format!("{}.{:02}", cents / 100, cents % 100)).unwrap();
                if !is_debit {
                    balance += amount;
                    is_above |= balance > threshold;
                    continue;
                }
                let told = warnings(&limits, balance, amount).count();
                balance -= amount;
                let falls = is_above && balance <= threshold;
                prop_assert_eq!(told, usize::from(falls));
                is_above &= !falls;
            }
        }
    }
}
