#![expect(clippy::as_conversions, reason = "random bits become a fraction")]

use std::{cmp::Ordering, collections::BinaryHeap};

use rand::{Rng, SeedableRng, rngs::StdRng};

/// Candidates whose chance is below e⁻²⁰ of the best one's are not drawn.
const TAIL: f32 = 20.0;

/// Draws tokens: the best one at temperature 0, else by chance, the same chances for the same seed.
#[derive(Debug)]
pub(super) struct Sampler {
    temperature: f32,
    random: StdRng,
}

#[derive(Debug, PartialEq)]
struct Candidate {
    score: f32,
    token: u32,
}

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.token.cmp(&self.token))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Sampler {
    pub(super) fn new(temperature_milli: u16, seed: u64) -> Self {
        Self { temperature: f32::from(temperature_milli) / 1_000.0, random: StdRng::seed_from_u64(seed) }
    }

    /// Draws among the tokens that are `possible` at a glance the first that `fits` on inspection, or nothing.
    ///
    /// Adding Gumbel noise to the scores and taking the best is drawing by the softmax of the scores; so only the few tokens at the top are
    /// inspected, and the outcome is as if all others had been masked.
    pub(super) fn draw<T>(
        &mut self,
        logits: &[f32],
        possible: impl Fn(u32) -> bool,
        fits: impl Fn(u32) -> Option<T>,
    ) -> Option<(u32, T)> {
        let mut candidates: Vec<Candidate> = (0..)
            .zip(logits)
            .filter(|(token, _)| possible(*token))
            .map(|(token, score)| Candidate { score: *score, token })
            .collect();
        if self.temperature > 0.0 {
            self.shake(&mut candidates);
        }
        let mut heap = BinaryHeap::from(candidates);
        std::iter::from_fn(|| heap.pop()).find_map(|candidate| Some((candidate.token, fits(candidate.token)?)))
    }

    fn shake(&mut self, candidates: &mut [Candidate]) {
        let peak = candidates.iter().map(|candidate| candidate.score).fold(f32::NEG_INFINITY, f32::max);
        for candidate in candidates {
            let relative = (candidate.score - peak) / self.temperature;
            candidate.score = if relative > -TAIL { relative + self.gumbel() } else { relative - 4.0 * TAIL };
        }
    }

    fn gumbel(&mut self) -> f32 {
        let fraction = ((self.random.next_u64() >> 40) as f32 + 0.5) / (1u64 << 24) as f32;
        -(-fraction.ln()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawing_follows_the_softmax_of_what_is_allowed() {
        let logits = [1.0f32, 9.0, 2.0, 1.0];
        let mut sampler = Sampler::new(1_000, 5);
        let mut counts = [0usize; 4];
        for _ in 0..20_000 {
            let (token, ()) = sampler.draw(&logits, |token| token != 1, |token| (token < 3).then_some(())).unwrap();
            counts[token as usize] += 1;
        }
        let share = counts[2] as f64 / 20_000.0;
        let expected = 2f64.exp() / (1f64.exp() + 2f64.exp());
        assert!(counts[1] == 0 && counts[3] == 0 && (share - expected).abs() < 0.02, "{counts:?} against {expected}");
    }

    #[test]
    fn without_temperature_the_best_that_fits_is_taken() {
        let drawn = Sampler::new(0, 1).draw(&[3.0, 5.0, 4.0], |_| true, |token| (token != 1).then_some(token));
        assert_eq!(drawn, Some((2, 2)));
        assert_eq!(Sampler::new(0, 1).draw(&[3.0], |_| true, |_| None::<()>), None);
    }
}
