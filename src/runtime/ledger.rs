use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use tokio::sync::watch;

use crate::{
    being::{AgentState, Closed, Days, Limit},
    manifest::CapSpec,
    store::{Home, Lying, lives},
    vocab::{Name, Timestamp, Usd, chain, day_of, next_day},
};

/// What the beings of a home spend together, as their states say, and what their calls under way may still cost. All clones are one.
#[derive(Debug, Clone, Default)]
pub struct Ledger(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    accounts: Mutex<BTreeMap<Name, Account>>,
    /// Whether the states that nothing animates were read.
    filled: OnceLock<()>,
    /// Told when a call is no longer under way.
    freed: watch::Sender<()>,
}

/// What one being spent.
#[derive(Debug, Default)]
struct Account {
    labels: BTreeMap<String, String>,
    days: Days,
    spent: Usd,
    under_way: Usd,
}

/// What a cap's beings used of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// What was spent in the day, and what may be.
    per_day: Option<(Usd, Usd)>,
    /// What was spent in all, and what may be.
    total: Option<(Usd, Usd)>,
}

/// Why a call may not be made now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoPass {
    /// A cap holds it, until an instant if it is one of days.
    Closed(Closed, Option<Timestamp>),
    /// Other calls under way may cost what is left; it is known when they end.
    Busy,
}

/// Lets one call through; what it may cost is kept free until it is dropped, which is after what it did cost was recorded.
#[derive(Debug)]
pub(super) struct Pass {
    ledger: Ledger,
    being: Name,
    worst: Usd,
}

impl Drop for Pass {
    fn drop(&mut self) {
        if let Some(account) = self.ledger.accounts().get_mut(&self.being) {
            account.under_way -= self.worst;
        }
        self.ledger.0.freed.send_replace(());
    }
}

impl Account {
    fn record(&mut self, state: &AgentState) {
        self.labels.clone_from(&state.labels);
        self.days.clone_from(&state.budget.days);
        self.spent = state.budget.spent();
    }
}

impl Ledger {
    /// Takes over what a being's state says, once that is durable.
    pub(super) fn record(&self, being: &Name, state: &AgentState) {
        self.accounts().entry(being.clone()).or_default().record(state);
    }

    /// Reads the states of the home's beings that nothing animates yet, once. It waits for the disk.
    pub fn fill(&self, home: &Home) {
        self.0.filled.get_or_init(|| {
            for Lying { name, state, .. } in lives(home).unwrap_or_default() {
                match state {
                    Ok(Some(state)) => self.accounts().entry(name).or_insert_with(|| {
                        let mut account = Account::default();
                        account.record(&state);
                        account
                    }),
                    Ok(None) => continue,
                    Err(error) => {
                        tracing::warn!(being = %name, "what it spent counts under no cap, for its state can't be read: {}", chain(&error));
                        continue;
                    }
                };
            }
        });
    }

    /// Which cap holds a being back from a call that may cost up to `worst`, calls under way left out.
    pub(super) fn closed(&self, caps: &BTreeMap<Name, CapSpec>, worst: Usd, now: Timestamp) -> Option<(Closed, Option<Timestamp>)> {
        let accounts = self.accounts();
        caps.iter().find_map(|(name, cap)| closed(&accounts, name, cap, worst, now))
    }

    /// Lets a call through that may cost up to `worst`, if no cap holds it: what is spent and all that is under way stay within each.
    pub(super) fn admit(&self, being: &Name, caps: &BTreeMap<Name, CapSpec>, worst: Usd, now: Timestamp) -> Result<Pass, NoPass> {
        let mut accounts = self.accounts();
        for (name, cap) in caps {
            if let Some((closed, until)) = closed(&accounts, name, cap, worst, now) {
                return Err(NoPass::Closed(closed, until));
            }
            let under_way: Usd = selected(&accounts, cap).map(|account| account.under_way).sum();
            let is_foreseen = |left: Usd| under_way.is_zero() || worst + under_way <= left;
            if !used(&accounts, cap, now).left().all(is_foreseen) {
                return Err(NoPass::Busy);
            }
        }
        accounts.entry(being.clone()).or_default().under_way += worst;
        Ok(Pass { ledger: self.clone(), being: being.clone(), worst })
    }

    /// How much of a cap is used.
    pub fn used(&self, cap: &CapSpec, now: Timestamp) -> Used {
        used(&self.accounts(), cap, now)
    }

    /// Tells when a call is no longer under way.
    pub(super) fn freed(&self) -> watch::Receiver<()> {
        self.0.freed.subscribe()
    }

    fn accounts(&self) -> MutexGuard<'_, BTreeMap<Name, Account>> {
        self.0.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn selected<'a>(accounts: &'a BTreeMap<Name, Account>, cap: &'a CapSpec) -> impl Iterator<Item = &'a Account> {
    accounts.values().filter(|account| cap.selects(&account.labels))
}

fn used(accounts: &BTreeMap<Name, Account>, cap: &CapSpec, now: Timestamp) -> Used {
    let of_day = || selected(accounts, cap).map(|account| account.days.spent_on(day_of(now))).sum();
    let of_lives = || selected(accounts, cap).map(|account| account.spent).sum();
    Used { per_day: cap.per_day.map(|most| (of_day(), most)), total: cap.total.map(|most| (of_lives(), most)) }
}

fn closed(
    accounts: &BTreeMap<Name, Account>,
    name: &Name,
    cap: &CapSpec,
    worst: Usd,
    now: Timestamp,
) -> Option<(Closed, Option<Timestamp>)> {
    let used = used(accounts, cap, now);
    let parts = [(used.total, None), (used.per_day, Some(next_day(now)))];
    parts.into_iter().find_map(|(part, until)| {
        let (spent, most) = part?;
        let left = most - spent;
        let holds = |worst| (Closed { limit: Limit::Cap(name.to_string()), left, worst }, until);
        if left.is_positive() { (worst > left).then(|| holds(Some(worst))) } else { Some(holds(None)) }
    })
}

impl Used {
    fn left(&self) -> impl Iterator<Item = Usd> {
        [self.per_day, self.total].into_iter().flatten().map(|(spent, most)| most - spent)
    }

    /// Tells whether anything is left under it.
    pub fn is_left(&self) -> bool {
        self.left().all(Usd::is_positive)
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: Option<(Usd, Usd)>, what| part.map(|(spent, most)| format!("{spent} of {most} USD {what}"));
        let parts = [part(self.per_day, "today"), part(self.total, "in all")];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::being::{Cost, testing};

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn name(text: &str) -> Name {
        Name::try_from(text).unwrap()
    }

    fn caps(per_day: Option<&str>, total: Option<&str>) -> BTreeMap<Name, CapSpec> {
        let labels = [("team".to_owned(), "research".to_owned())].into();
        [(name("research"), CapSpec { labels, per_day: per_day.map(testing::usd), total: total.map(testing::usd) })].into()
    }

    fn spend(ledger: &Ledger, being: &str, team: &str, amount: &str) {
        let mut state = testing::state();
        state.labels = [("team".to_owned(), team.to_owned())].into();
        state.budget.debit(Cost { api: testing::usd(amount), instance: Usd::ZERO, tokens: 1 }, day_of(NOW));
        ledger.record(&name(being), &state);
    }

    #[test]
    fn beings_that_think_at_once_do_not_pass_a_cap_together() {
        let (ledger, caps) = (Ledger::default(), caps(Some("1"), None));
        spend(&ledger, "ada", "research", "0.4");
        spend(&ledger, "bob", "research", "0.2");
        spend(&ledger, "eve", "other", "100");
        let admit = |being: &str| ledger.admit(&name(being), &caps, testing::usd("0.25"), NOW);
        let first = admit("ada").unwrap();
        assert_eq!(admit("bob").unwrap_err(), NoPass::Busy, "0.6 is spent, and two calls may cost 0.5 of the 0.4 that are left");
        let mut freed = ledger.freed();
        spend(&ledger, "ada", "research", "0.5");
        drop(first);
        assert!(freed.has_changed().unwrap(), "who waits is told");
        freed.mark_unchanged();
        drop(admit("bob").unwrap());
        spend(&ledger, "bob", "research", "0.3");
        let NoPass::Closed(closed, until) = admit("ada").unwrap_err() else { panic!("it is known that it is too much") };
        assert_eq!(closed.to_string(), "the next call may cost up to 0.25 USD and 0.2 USD are left of what cap/research allows");
        assert_eq!(until, Some(next_day(NOW)));
        assert!(ledger.admit(&name("ada"), &caps, testing::usd("0.25"), next_day(NOW)).is_ok(), "another day is free again");
    }

    #[test]
    fn a_total_counts_all_lives_and_has_no_other_day() {
        let (ledger, caps) = (Ledger::default(), caps(Some("1"), Some("1")));
        spend(&ledger, "gone", "research", "1");
        let (closed, until) = ledger.closed(&caps, Usd::ZERO, next_day(NOW)).unwrap();
        assert_eq!((closed.worst, closed.left, until), (None, Usd::ZERO, None));
        let used = ledger.used(&caps[&name("research")], NOW);
        assert_eq!((used.to_string().as_str(), used.is_left()), ("1 of 1 USD today, 1 of 1 USD in all", false));
    }

    #[test]
    fn calls_that_cost_nothing_never_wait_for_each_other() {
        let (ledger, caps) = (Ledger::default(), caps(Some("1"), None));
        spend(&ledger, "ada", "research", "0");
        let passes = [ledger.admit(&name("ada"), &caps, Usd::ZERO, NOW), ledger.admit(&name("bob"), &caps, Usd::ZERO, NOW)];
        assert!(passes.iter().all(Result::is_ok));
    }
}
