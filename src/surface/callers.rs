use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rmcp::ErrorData;

/// The calls of one server that are under way, whose they are, and the way to each caller.
///
/// What a server asks belongs to a call that is under way, and goes to whoever made it. Where calls of two are, nothing says whose it is,
/// and it is refused rather than shown to the wrong one.
#[derive(Debug)]
pub(super) struct Callers<T> {
    calls: Mutex<HashMap<u64, (u64, T)>>,
    next: AtomicU64,
}

impl<T> Default for Callers<T> {
    fn default() -> Self {
        Self { calls: Mutex::default(), next: AtomicU64::new(0) }
    }
}

impl<T: Clone> Callers<T> {
    /// A call of a guest is under way until what this yields is dropped.
    pub(super) fn open(&self, guest: u64, way: T) -> impl Drop + use<'_, T> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, (guest, way));
        Closing { callers: self, number }
    }

    /// The way to the one guest whose calls are under way.
    pub(super) fn only(&self) -> Result<T, ErrorData> {
        let calls = self.lock();
        let mut under_way = calls.values();
        let Some((guest, way)) = under_way.next() else { return Err(refused("no call is under way that this belongs to")) };
        if under_way.any(|(other, _)| other != guest) {
            return Err(refused("calls of several callers are under way, and nothing says to which of them this belongs"));
        }
        Ok(way.clone())
    }
}

impl<T> Callers<T> {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (u64, T)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The *no* to what a server asks.
pub(super) fn refused(because: &str) -> ErrorData {
    ErrorData::invalid_request(because.to_owned(), None)
}

struct Closing<'a, T> {
    callers: &'a Callers<T>,
    number: u64,
}

impl<T> Drop for Closing<'_, T> {
    fn drop(&mut self) {
        self.callers.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_asks_is_never_shown_to_a_caller_to_whom_it_may_not_belong() {
        let callers = Callers::default();
        assert!(callers.only().is_err(), "nobody calls");
        let first = callers.open(1, "first");
        let second = callers.open(1, "first");
        assert_eq!(callers.only().ok(), Some("first"), "both are of one caller");
        let other = callers.open(2, "other");
        assert!(callers.only().is_err(), "it may be of either");
        drop(other);
        assert_eq!(callers.only().ok(), Some("first"));
        drop((first, second));
        assert!(callers.only().is_err());
    }
}
