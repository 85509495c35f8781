//! Any bytes through the output boundary: it never panics, and judges as the slow, obvious one of the tests does.
#![no_main]

#[path = "../../tests/support/screen.rs"]
mod obvious;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use singularity::{
    manifest::Boundary,
    tool::boundary::{Layout, screen},
};

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let parsed = serde_json::from_str::<Value>(&text).ok();
    for value in parsed.into_iter().chain([Value::from(text.as_ref())]) {
        let passed = screen(value.clone(), &Layout::default(), Boundary::Reject);
        assert_eq!(passed.is_ok(), obvious::may_be_seen(&value), "{value}");
        drop(screen(value, &Layout::default(), Boundary::Redact));
    }
});
