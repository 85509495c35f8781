use std::{fmt, sync::Arc};

use super::tail::{MAX_LINE, printable};

/// No line is longer that something is taken out of: of one that is cut, a secret could be left in half.
pub(super) const MAX_VEILED: usize = 16 * 1_024;

/// Takes out of what a child says what nobody may read. Clones are one.
#[derive(Clone)]
pub struct Veil(Arc<dyn Fn(&str) -> String + Send + Sync>);

impl Veil {
    /// One that passes every text through `hide`.
    pub fn new(hide: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self(Arc::new(hide))
    }

    /// The text as it may be read.
    pub fn hide(&self, text: &str) -> String {
        (self.0)(text)
    }

    /// A line of stderr as it may be read, no longer than any other.
    pub(super) fn line(&self, line: &[u8]) -> String {
        if line.len() >= MAX_VEILED {
            return format!("a line of more than {MAX_VEILED} bytes is not shown, because a secret may be in it");
        }
        let shown = self.hide(&String::from_utf8_lossy(line));
        printable(shown.as_bytes().get(..MAX_LINE).unwrap_or(shown.as_bytes()))
    }
}

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Veil")
    }
}
