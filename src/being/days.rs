use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::vocab::{Date, Usd};

/// What was spent on each day, in UTC; the newest [`MAX_KEPT_DAYS`] of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Days(BTreeMap<Date, Usd>);

/// How many days are remembered. More than one, so that a clock that was ahead for a while does not hold the days before it back.
const MAX_KEPT_DAYS: usize = 8;

impl Days {
    /// No day yet.
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// What was spent on a day, or more: one that may have been forgotten shares the account of the oldest that is kept, so that no day
    /// gets its allowance twice, however the clock jumps.
    pub fn spent_on(&self, day: Date) -> Usd {
        self.0.get(&self.account_of(day)).copied().unwrap_or_default()
    }

    /// Adds what was spent on a day.
    pub fn add(&mut self, day: Date, spent: Usd) {
        *self.0.entry(self.account_of(day)).or_default() += spent;
        if self.0.len() > MAX_KEPT_DAYS
            && let Some((_, forgotten)) = self.0.pop_first()
            && let Some(mut oldest) = self.0.first_entry()
        {
            // The forgotten days share this account from now on, and none of them may find it emptier than its own.
            let spent = forgotten.max(*oldest.get());
            oldest.insert(spent);
        }
    }

    /// Tells whether nothing was ever spent.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn account_of(&self, day: Date) -> Date {
        let oldest = self.0.keys().next().filter(|_| self.0.len() >= MAX_KEPT_DAYS);
        oldest.map_or(day, |oldest| day.max(*oldest))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::being::testing::usd;

    #[test]
    fn a_clock_that_jumps_gives_no_day_its_allowance_twice_and_takes_none_away() {
        let day = |day: i8, year: i16| Date::new(year, 12, day).unwrap();
        let cent = usd("0.01");
        let mut days = Days::default();
        days.add(day(2, 2026), cent);
        days.add(day(1, 2031), cent);
        assert_eq!(days.spent_on(day(2, 2026)), cent, "the day goes on where it was");
        assert_eq!(days.spent_on(day(3, 2026)), Usd::ZERO, "a day that comes is not held back by one far ahead");
        for date in 3..=30 {
            days.add(day(date, 2026), cent);
        }
        assert_eq!((days.0.len(), days.spent_on(day(30, 2026))), (MAX_KEPT_DAYS, cent));
        days.add(day(2, 2026), cent);
        assert_eq!(days.spent_on(day(2, 2026)), usd("0.02"), "a day that was forgotten does not begin anew");
    }

    proptest! {
        #[test]
        fn no_day_is_said_to_have_spent_less_than_it_did(moves in prop::collection::vec((1..=28_i8, 1..9_u32), 1..60)) {
            let (mut days, mut spent) = (Days::default(), BTreeMap::<Date, Usd>::new());
            for (date, cents) in moves {
                let (day, amount) = (Date::new(2026, 12, date).unwrap(), usd(&format!("0.0{cents}")));
                days.add(day, amount);
                *spent.entry(day).or_default() += amount;
                for (day, spent) in &spent {
                    prop_assert!(days.spent_on(*day) >= *spent, "{day}");
                }
                prop_assert!(days.0.len() <= MAX_KEPT_DAYS);
            }
        }

        #[test]
        fn a_clock_that_only_goes_on_finds_each_day_as_it_was_left(steps in prop::collection::vec((0..3_i8, 1..9_u32), 1..40)) {
            let (mut days, mut day, mut spent) = (Days::default(), Date::new(2026, 12, 1).unwrap(), Usd::ZERO);
            for (on, cents) in steps {
                if on > 0 {
                    (day, spent) = (day.checked_add(jiff::Span::new().days(on)).unwrap(), Usd::ZERO);
                }
                let amount = usd(&format!("0.0{cents}"));
                days.add(day, amount);
                spent += amount;
                prop_assert_eq!(days.spent_on(day), spent);
            }
        }
    }
}
