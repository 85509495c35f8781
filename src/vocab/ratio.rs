use std::fmt;

use serde::{Deserialize, Serialize};

/// A share or a factor, not negative and kept to a millionth, so that two of them compare exactly. Written as a number: `0.75`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Ratio(u64);

/// A number that is no share and no factor.
#[derive(Debug, thiserror::Error)]
#[error("{0} is not a number from 0 to a million")]
pub struct BadRatio(f64);

impl Ratio {
    /// One.
    pub const ONE: Self = Self(1_000_000);

    /// So many millionths.
    pub const fn millionths(millionths: u32) -> Self {
        // Widening; `u64::from` is not const yet.
        #[expect(clippy::as_conversions, reason = "widening, in a const fn")]
        Self(millionths as u64)
    }

    /// The number that is meant.
    pub fn as_f64(self) -> f64 {
        // At most 10¹², which a double holds exactly: the quotient is the double nearest to the number as it is written.
        let parts = u32::try_from(self.0 / 1_000_000).ok().zip(u32::try_from(self.0 % 1_000_000).ok());
        parts.map_or(f64::MAX, |(whole, rest)| (f64::from(whole) * 1e6 + f64::from(rest)) / 1e6)
    }
}

impl TryFrom<f64> for Ratio {
    type Error = BadRatio;

    fn try_from(number: f64) -> Result<Self, BadRatio> {
        let fits = (0.0..=1e6).contains(&number);
        let millionths = format!("{:.0}", number * 1e6).parse().ok().filter(|_| fits);
        millionths.map(Self).ok_or(BadRatio(number))
    }
}

impl From<Ratio> for f64 {
    fn from(ratio: Ratio) -> Self {
        ratio.as_f64()
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.as_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threshold_is_read_back_as_it_was_written_and_compares_exactly() {
        for written in [0.0, 0.6, 0.75, 1.0, 0.035, 100.0, 1e6] {
            let ratio = Ratio::try_from(written).unwrap();
            assert!((ratio.as_f64() - written).abs() < f64::EPSILON, "{written}: {ratio}");
            assert_eq!(Ratio::try_from(ratio.as_f64()).unwrap(), ratio);
        }
        assert_eq!(Ratio::millionths(750_000), Ratio::try_from(0.75).unwrap());
        for bad in [-0.1, f64::NAN, f64::INFINITY, 1e7] {
            assert!(Ratio::try_from(bad).is_err(), "{bad}");
        }
    }
}
