//! What happened to objects, for people: told of by comparing what was shown with what is shown next, so that it cannot say anything else.

use std::collections::{BTreeMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Condition, ConditionKind, HoldFacts, List, ObjectStatus, Truth};
use crate::vocab::Timestamp;

/// Something that happened to an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Event")]
pub struct Notice {
    /// Counts from 1 since the daemon runs.
    #[schemars(title = "Number")]
    pub number: u64,
    /// When it was seen.
    #[schemars(title = "At")]
    pub at: String,
    /// Kind and name, such as `being/ada`; `fleet` is all of them.
    #[schemars(title = "Object")]
    pub object: String,
    /// One word for programs.
    #[schemars(title = "Reason")]
    pub reason: String,
    /// A sentence for people; may be empty.
    #[schemars(title = "Message")]
    pub message: String,
}

/// What happened since the daemon runs, the last part of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Notices {
    kept: VecDeque<Notice>,
    /// How many there were in all.
    count: u64,
}

/// Events that are kept; with one more the oldest goes.
const MAX_NOTICES: usize = 1_000;

impl Notices {
    /// Those that came after a number; all where the number is of an earlier daemon.
    pub(super) fn after(&self, number: u64) -> Vec<Notice> {
        let number = if number > self.count { 0 } else { number };
        self.kept.iter().filter(|notice| notice.number > number).cloned().collect()
    }

    /// Tells whether there are any that came after a number.
    pub(super) const fn has_after(&self, number: u64) -> bool {
        self.count != number
    }

    pub(super) fn add(&mut self, at: Timestamp, told: impl IntoIterator<Item = Told>) {
        for Told { object, reason, message } in told {
            self.count += 1;
            self.kept.push_back(Notice { number: self.count, at: at.to_string(), object, reason, message });
            if self.kept.len() > MAX_NOTICES {
                self.kept.pop_front();
            }
        }
    }
}

/// An event that is not numbered yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) object: String,
    pub(super) reason: String,
    pub(super) message: String,
}

impl Told {
    pub(super) fn new(object: &str, reason: &str, message: impl Into<String>) -> Self {
        Self { object: object.to_owned(), reason: reason.to_owned(), message: message.into() }
    }
}

/// What happened between two looks.
pub(super) fn happened(before: &List, after: &List) -> Vec<Told> {
    let mut told = of_fleet(before, after);
    let mut old: BTreeMap<&str, &ObjectStatus> = before.items.iter().map(|item| (item.address.as_str(), item)).collect();
    for item in &after.items {
        match old.remove(item.address.as_str()) {
            None => {
                let from = item.source.as_ref().map(|source| format!("by {} at commit {}", source.address, source.commit));
                told.push(Told::new(&item.address, "Declared", from.unwrap_or_default()));
                told.extend(of_object(None, item));
            }
            Some(old) if old == item => {}
            Some(old) => told.extend(of_object(Some(old), item)),
        }
    }
    told.extend(old.keys().map(|gone| Told::new(gone, "Gone", "it is not declared any more")));
    told
}

fn of_fleet(before: &List, after: &List) -> Vec<Told> {
    let mut told = Vec::new();
    if before.problems != after.problems {
        told.push(match after.problems.first() {
            None => Told::new("fleet", "Valid", "the manifests validate again"),
            Some(first) => Told::new("fleet", "Invalid", format!("{} problems; the first: {first}", after.problems.len())),
        });
    }
    match (&before.frozen, &after.frozen) {
        (None, Some(hold)) => told.push(Told::new("fleet", "Frozen", held(hold))),
        (Some(_), None) => told.push(Told::new("fleet", "Thawed", "")),
        _ => {}
    }
    told
}

/// What happened to one object, of which there may have been nothing.
fn of_object(before: Option<&ObjectStatus>, after: &ObjectStatus) -> Vec<Told> {
    let mut told = Vec::new();
    let mut tell = |reason: &str, message: String| told.push(Told::new(&after.address, reason, message));
    if before.is_some_and(|before| before.generation < after.generation) {
        tell("Edited", format!("generation {} is declared", after.generation));
    }
    if before.is_some_and(|before| before.observed_generation < after.observed_generation && before.observed_generation > 0) {
        tell("Updated", format!("generation {} is in force", after.observed_generation));
    }
    for condition in news(before, after) {
        tell(&condition.reason, condition.message.clone());
    }
    let Some(being) = &after.being else { return told };
    let old = before.and_then(|before| before.being.as_ref());
    if let (None, Some(id)) = (old.and_then(|old| old.agent_id.as_ref()), &being.agent_id) {
        tell("Alive", format!("{id} lives, after {} cycles", being.cycle));
    }
    if being.restarts > old.map_or(0, |old| old.restarts) {
        tell("Restarted", format!("{} times since the daemon runs", being.restarts));
    }
    match (old.and_then(|old| old.paused.as_ref()), &being.paused) {
        (None, Some(hold)) => tell("Held", held(hold)),
        (Some(_), None) => tell("Resumed", String::new()),
        _ => {}
    }
    match (old.and_then(|old| old.question.as_ref()), &being.question) {
        (old, Some(question)) if old.map(|old| &old.id) != Some(&question.id) => {
            tell("Asks", format!("{} waits for an answer about {}", question.id, question.tool));
        }
        _ => {}
    }
    told
}

/// The conditions that are news. A stall tells why an object is not ready, and is told once.
fn news<'a>(before: Option<&ObjectStatus>, after: &'a ObjectStatus) -> Vec<&'a Condition> {
    let is_plain = after.being.is_none();
    let is_same = |old: &Condition, new: &Condition| {
        let is_alike = (old.status, &old.reason) == (new.status, &new.reason);
        // What a being has left, or does, changes all the time.
        is_alike && (old.message == new.message || !is_plain && new.kind != ConditionKind::Stalled)
    };
    let is_news = |new: &&Condition| {
        let old = before.and_then(|before| before.condition(new.kind));
        let is_worth = match new.kind {
            ConditionKind::Ready => true,
            ConditionKind::Stalled => new.status == Truth::True,
            ConditionKind::Solvent => old.is_some() || new.status != Truth::True,
            ConditionKind::Progressing => new.status == Truth::True && new.reason == "BackOff",
        };
        is_worth && !old.is_some_and(|old| is_same(old, new))
    };
    let found: Vec<&Condition> = after.conditions.iter().filter(is_news).collect();
    let stalled = found.iter().find(|condition| condition.kind == ConditionKind::Stalled).map(|condition| condition.reason.clone());
    found.into_iter().filter(|new| new.kind != ConditionKind::Ready || Some(&new.reason) != stalled.as_ref()).collect()
}

fn held(HoldFacts { uid, because, .. }: &HoldFacts) -> String {
    let because = because.as_ref().map(|reason| format!(" because {reason}")).unwrap_or_default();
    format!("by uid {uid}{because}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(address: &str, ready: (bool, &str)) -> ObjectStatus {
        ObjectStatus {
            address: address.into(),
            generation: 1,
            observed_generation: 1,
            conditions: vec![Condition::new(ConditionKind::Ready, ready.0, ready.1, "why")],
            source: None,
            being: None,
            question: None,
        }
    }

    fn list(items: Vec<ObjectStatus>) -> List {
        List { items, ..List::default() }
    }

    fn reasons(before: &List, after: &List) -> Vec<String> {
        happened(before, after).into_iter().map(|told| format!("{} {}", told.object, told.reason)).collect()
    }

    #[test]
    fn what_did_not_change_is_not_told_and_what_did_is_told_once() {
        let (nothing, one) = (List::default(), list(vec![object("model/a", (true, "Declared"))]));
        assert_eq!(reasons(&nothing, &one), ["model/a Declared", "model/a Declared"]);
        assert!(reasons(&one, &one).is_empty());
        let mut stalled = object("model/a", (false, "Invalid"));
        stalled.conditions.push(Condition::new(ConditionKind::Stalled, true, "Invalid", "why"));
        assert_eq!(reasons(&one, &list(vec![stalled.clone()])), ["model/a Invalid"]);
        let mut otherwise = stalled.clone();
        otherwise.conditions[1].message = "why else".into();
        assert_eq!(reasons(&list(vec![stalled]), &list(vec![otherwise])), ["model/a Invalid"]);
        assert_eq!(reasons(&one, &nothing), ["model/a Gone"]);
        let edited = ObjectStatus { generation: 2, observed_generation: 2, ..object("model/a", (true, "Declared")) };
        assert_eq!(reasons(&one, &list(vec![edited])), ["model/a Edited", "model/a Updated"]);
    }

    #[test]
    fn events_are_bounded_and_a_number_of_an_earlier_daemon_has_all() {
        let mut notices = Notices::default();
        assert!(!notices.has_after(0));
        for count in 0..MAX_NOTICES + 5 {
            notices.add(Timestamp::UNIX_EPOCH, [Told::new("being/ada", "Alive", count.to_string())]);
        }
        let all = notices.after(0);
        assert_eq!((all.len(), all[0].number), (MAX_NOTICES, 6));
        assert_eq!(notices.after(1_003).iter().map(|notice| notice.number).collect::<Vec<_>>(), [1_004, 1_005]);
        assert_eq!(notices.after(70_000).len(), MAX_NOTICES);
        assert!(notices.has_after(70_000) && !notices.has_after(1_005));
    }
}
