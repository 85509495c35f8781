use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// An amount of bytes, written `"512MiB"`, `"1GiB"`, `"10MB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u64);

/// A text that is not an amount of bytes.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not an amount of bytes; write \"512MiB\" or \"1GiB\"")]
pub struct BadSize(String);

const UNITS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

impl Size {
    /// So many bytes.
    pub const fn bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many mebibytes.
    pub const fn mib(mebibytes: u32) -> Self {
        // A `u32` shifted by 20 fits; `u64::from` is not const yet.
        #[expect(clippy::as_conversions, reason = "widening, in a const fn")]
        Self((mebibytes as u64) << 20)
    }

    /// The amount in bytes.
    pub const fn as_bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for Size {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<Self, BadSize> {
        let size: bytesize::ByteSize = text.parse().map_err(|_| BadSize(text.to_owned()))?;
        Ok(Self(size.as_u64()))
    }
}

impl TryFrom<String> for Size {
    type Error = BadSize;

    fn try_from(text: String) -> Result<Self, BadSize> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

impl fmt::Display for Size {
    /// Exact: the largest unit that divides it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match UNITS.iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_amount_reads_back_as_it_was_written() {
        for (text, bytes) in [("1GiB", 1 << 30), ("512MiB", 512 << 20), ("64KiB", 64 << 10), ("1000B", 1_000)] {
            let size: Size = text.parse().unwrap();
            assert_eq!((size, size.to_string().as_str()), (Size::bytes(bytes), text));
        }
        assert_eq!("10MB".parse::<Size>().unwrap(), Size::bytes(10_000_000));
        for text in ["", "much", "-1MiB", "1 XB"] {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
