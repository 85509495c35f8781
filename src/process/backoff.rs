use std::time::Duration;

/// How long to wait before something that ended is started again: doubling up to a cap, and from the start after a quiet time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    quiet: Duration,
    next: Duration,
}

impl Backoff {
    /// Waits `first`, then twice as long each time, never longer than `cap`; a life of `quiet` or longer starts over.
    pub const fn new(first: Duration, cap: Duration, quiet: Duration) -> Self {
        Self { first, cap, quiet, next: first }
    }

    /// Yields the wait that follows a life of `lived`.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= self.quiet {
            self.next = self.first;
        }
        let wait = self.next.min(self.cap);
        self.next = wait.saturating_mul(2).min(self.cap);
        wait
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_child_that_dies_at_once_is_not_started_in_a_busy_loop() {
        let mut backoff = Backoff::new(secs(1), secs(10), secs(60));
        let waits: Vec<u64> = (0..6).map(|_| backoff.after(Duration::ZERO).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_child_that_lived_long_is_started_again_soon() {
        let mut backoff = Backoff::new(secs(1), secs(10), secs(60));
        for _ in 0..5 {
            backoff.after(Duration::ZERO);
        }
        assert_eq!(backoff.after(secs(60)), secs(1));
        assert_eq!(backoff.after(secs(59)), secs(2));
    }

    proptest! {
        #[test]
        fn a_wait_is_never_nothing_and_never_past_the_cap(lives in prop::collection::vec(0_u64..200, 0..50)) {
            let mut backoff = Backoff::new(secs(1), secs(30), secs(60));
            for life in lives {
                let wait = backoff.after(secs(life));
                prop_assert!(wait >= secs(1) && wait <= secs(30));
            }
        }
    }
}
