use std::time::Duration;

use tokio::time::Instant;

/// A bucket that fills with time: how much of what comes unasked is taken in.
#[derive(Debug)]
pub struct Allowance {
    most: u32,
    per_second: u32,
    left: f64,
    at: Instant,
    refused: u64,
}

impl Allowance {
    /// `most` at once, and as many a second as `per_second`.
    pub fn new(most: u32, per_second: u32, now: Instant) -> Self {
        Self { most, per_second, left: f64::from(most), at: now, refused: 0 }
    }

    /// Takes one; one that is not there is counted.
    pub fn take(&mut self, now: Instant) -> bool {
        self.fill(now);
        let is_there = self.left >= 1.0;
        if is_there {
            self.left -= 1.0;
        } else {
            self.refused += 1;
        }
        is_there
    }

    /// How many were not there, once there is room again.
    pub fn owed(&mut self, now: Instant) -> Option<u64> {
        self.fill(now);
        (self.refused > 0 && self.left >= 1.0).then_some(self.refused)
    }

    /// How many were not there since the last time that they were forgiven.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Counts anew.
    pub const fn forgive(&mut self) {
        self.refused = 0;
    }

    fn fill(&mut self, now: Instant) {
        let gone: Duration = now.saturating_duration_since(self.at);
        self.left = (self.left + gone.as_secs_f64() * f64::from(self.per_second)).min(f64::from(self.most));
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_and_not_taken_in() {
        let start = Instant::now();
        let mut allowance = Allowance::new(50, 10, start);
        assert_eq!((0..1_000).filter(|_| allowance.take(start)).count(), 50);
        assert_eq!(allowance.owed(start), None, "not yet");
        assert_eq!(allowance.owed(start + Duration::from_millis(200)), Some(950));
        let later = start + Duration::from_secs(3_600);
        allowance.forgive();
        assert_eq!((0..1_000).filter(|_| allowance.take(later)).count(), 50, "a long silence saves nothing up");
    }
}
