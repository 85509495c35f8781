use std::{fmt, iter::Sum, ops, str::FromStr};

use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::Span;

/// An exact amount of US dollars, or a price per million tokens or per hour. Written as a decimal string, never a float.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Usd(Decimal);

/// A text that is not an exact amount.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an exact amount; write a decimal such as \"0.25\"")]
pub struct BadUsd(String);

const TOKENS_PER_PRICE: Decimal = Decimal::from_parts(1_000_000, 0, 0, false, 0);
/// 3.6×10¹² = 838 × 2³² + 817 405 952.
const NANOSECONDS_PER_HOUR: Decimal = Decimal::from_parts(817_405_952, 838, 0, false, 0);

/// Places after the point. A quotient is rounded to them once, when it comes up; everything after that is exact.
const MAX_DECIMALS: u32 = 15;

impl Usd {
    /// No money.
    pub const ZERO: Self = Self(Decimal::ZERO);

    /// Reads a decimal with at most 15 places, so that sums are exact up to trillions.
    pub fn parse(text: &str) -> Result<Self, BadUsd> {
        let exact = Decimal::from_str_exact(text).ok().filter(|amount| amount.scale() <= MAX_DECIMALS);
        exact.map(Self).ok_or_else(|| BadUsd(text.to_owned()))
    }

    /// The price of `tokens` at this price per million (SPEC §5).
    pub fn for_tokens(self, tokens: u64) -> Self {
        Self((Decimal::from(tokens).saturating_mul(self.0) / TOKENS_PER_PRICE).round_dp(MAX_DECIMALS))
    }

    /// The price of a span of time at this price per hour (SPEC §5).
    pub fn for_time(self, span: Span) -> Self {
        Self((Decimal::from(span.as_nanos()).saturating_mul(self.0) / NANOSECONDS_PER_HOUR).round_dp(MAX_DECIMALS))
    }

    /// Tells whether the amount is above zero.
    pub fn is_positive(self) -> bool {
        self.0 > Decimal::ZERO
    }

    /// Tells whether the amount is zero.
    pub fn is_zero(&self) -> bool {
        self.0.is_zero()
    }

    /// Tells whether the amount is below zero.
    pub fn is_negative(self) -> bool {
        self.0 < Decimal::ZERO
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.normalize())
    }
}

impl FromStr for Usd {
    type Err = BadUsd;

    fn from_str(text: &str) -> Result<Self, BadUsd> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Usd {
    type Error = BadUsd;

    fn try_from(text: String) -> Result<Self, BadUsd> {
        Self::parse(&text)
    }
}

impl From<Usd> for String {
    fn from(usd: Usd) -> Self {
        usd.to_string()
    }
}

impl ops::Add for Usd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl ops::Sub for Usd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl ops::AddAssign for Usd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl ops::SubAssign for Usd {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl Sum for Usd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, ops::Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(text: &str) -> Usd {
        Usd::parse(text).unwrap()
    }

    #[test]
    fn tokens_and_time_cost_what_spec_5_says() {
        assert_eq!(usd("2").for_tokens(250_000) + usd("6").for_tokens(125_000), usd("1.25"));
        assert_eq!(usd("4").for_time(Span::from_secs(5_400)), usd("6"));
    }

    #[test]
    fn absurd_amounts_are_held_at_the_bound_and_end_nothing() {
        let most = usd("79228162514264337593543950335");
        assert_eq!(most.for_tokens(u64::MAX) + most + most, most);
        assert!((Usd::ZERO - most - most).is_negative());
        assert!(most.for_time(Span::from_secs(u64::MAX)).is_positive());
    }

    #[test]
    fn an_amount_is_read_and_written_without_rounding() {
        assert_eq!(usd("0.10").to_string(), "0.1");
        assert_eq!(serde_json::to_string(&usd("10")).unwrap(), "\"10\"");
        assert!(serde_json::from_str::<Usd>("0.1").is_err(), "a float is never money");
        for text in ["", "1e3", "abc", "0.12345678901234567890123456789012", "1,5"] {
            assert!(Usd::parse(text).is_err(), "{text}");
        }
    }
}
