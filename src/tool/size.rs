//! How large a value is as JSON, counted without writing it.

use std::io;

use serde_json::Value;

/// The length of a value as JSON, if it is no longer than `limit`.
pub(super) fn bytes_within(value: &Value, limit: usize) -> Option<usize> {
    let mut left = Left(limit);
    left.take(value)?;
    Some(limit - left.0)
}

/// How many bytes may still come.
struct Left(usize);

impl Left {
    fn take(&mut self, value: &Value) -> Option<()> {
        match value {
            Value::Null | Value::Bool(true) => self.bytes(4),
            Value::Bool(false) => self.bytes(5),
            Value::Number(number) => serde_json::to_writer(self, number).ok(),
            Value::String(text) => self.text(text),
            Value::Array(items) => {
                self.bytes(2 + items.len().saturating_sub(1))?;
                items.iter().try_for_each(|item| self.take(item))
            }
            Value::Object(map) => {
                self.bytes(2 + (2 * map.len()).saturating_sub(1))?;
                map.iter().try_for_each(|(key, value)| self.text(key).and_then(|()| self.take(value)))
            }
        }
    }

    /// A string in its quotes: `\"`, `\\` and `\n` take a byte more than what they stand for, `\u0000` five.
    fn text(&mut self, text: &str) -> Option<()> {
        let escaped = count(text, |byte| byte < 0x20 || matches!(byte, b'"' | b'\\'));
        let long =
            if escaped == 0 { 0 } else { count(text, |byte| byte < 0x20 && !matches!(byte, 8 | b'\t' | b'\n' | 12 | b'\r')) };
        self.bytes(2 + text.len() + escaped + 4 * long)
    }

    fn bytes(&mut self, count: usize) -> Option<()> {
        self.0 = self.0.checked_sub(count)?;
        Some(())
    }
}

impl io::Write for Left {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes(bytes.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Counts bytes of a kind: in pieces whose count fits a byte, for such a sum is made many bytes at once.
fn count(text: &str, is: impl Fn(u8) -> bool) -> usize {
    let few = |bytes: &[u8]| usize::from(bytes.iter().map(|byte| u8::from(is(*byte))).sum::<u8>());
    text.as_bytes().chunks(255).map(few).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_size_is_counted_to_the_byte_and_no_further_than_asked() {
        let every: String = (0..=0x7f_u8).map(char::from).collect();
        for value in
            [json!({ "a": "é\n", "b": [1, 2.5, null, true, false] }), json!([]), json!({}), json!(every), json!({ "\"": -1e300 })]
        {
            let length = value.to_string().len();
            assert_eq!((bytes_within(&value, length), bytes_within(&value, length - 1)), (Some(length), None), "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_text_is_as_long_as_it_is_written(text in prop::collection::vec(any::<char>(), 0..600)) {
            let value = Value::String(text.into_iter().collect());
            prop_assert_eq!(bytes_within(&value, usize::MAX), Some(value.to_string().len()));
        }
    }
}
