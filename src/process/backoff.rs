use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::vocab::Span;

/// How long to wait before something that ended is started again: doubling up to a cap, and from the start after a quiet time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    first: Span,
    cap: Span,
    quiet: Span,
    #[serde(skip)]
    in_a_row: u32,
}

impl Default for Backoff {
    /// A quarter of a second, doubling to half a minute; a life of a minute starts over.
    fn default() -> Self {
        Self::new(Duration::from_millis(250), Duration::from_secs(30), Duration::from_secs(60))
    }
}

impl Backoff {
    /// Waits `first`, then twice as long each time, never longer than `cap`; a life of `quiet` or longer starts over.
    pub fn new(first: Duration, cap: Duration, quiet: Duration) -> Self {
        Self { first: first.into(), cap: cap.into(), quiet: quiet.into(), in_a_row: 0 }
    }

    /// Yields the wait that follows a life of `lived`.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= self.quiet.as_duration() {
            self.in_a_row = 0;
        }
        let doubled = 2_u32.saturating_pow(self.in_a_row);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.first.saturating_mul(doubled).min(self.cap).as_duration()
    }

    /// How many lives in a row were shorter than the quiet time, or ended after it just now.
    pub const fn in_a_row(&self) -> u32 {
        self.in_a_row
    }

    /// The longest wait.
    pub const fn cap(&self) -> Duration {
        self.cap.as_duration()
    }

    /// A wait with full jitter: `luck`, from 0 to 1, of it, and at least a sixteenth, for a loop that does not rest is a busy one.
    pub fn spread(wait: Duration, luck: f64) -> Duration {
        wait.mul_f64(luck.clamp(1.0 / 16.0, 1.0))
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
        assert_eq!(backoff.in_a_row(), 6);
    }

    #[test]
    fn a_child_that_lived_long_is_started_again_soon() {
        let mut backoff = Backoff::new(secs(1), secs(10), secs(60));
        for _ in 0..5 {
            backoff.after(Duration::ZERO);
        }
        assert_eq!((backoff.after(secs(60)), backoff.in_a_row()), (secs(1), 1));
        assert_eq!(backoff.after(secs(59)), secs(2));
    }

    proptest! {
        #[test]
        fn a_wait_is_never_nothing_and_never_past_the_cap(lives in prop::collection::vec((0_u64..200, -1.0..2.0), 0..80)) {
            let mut backoff = Backoff::new(secs(1), secs(30), secs(60));
            for (life, luck) in lives {
                let wait = backoff.after(secs(life));
                prop_assert!(wait >= secs(1) && wait <= secs(30));
                let spread = Backoff::spread(wait, luck);
                prop_assert!(spread >= wait / 20 && spread <= wait);
            }
        }
    }
}
