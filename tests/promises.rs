//! The table of `promises.toml`: each promise of SPEC §3–§5 has one test, which is there.

use std::{collections::BTreeSet, error::Error, fs, path::Path};

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    promise: Vec<Promise>,
}

/// A guarantee of the spec, and the test that fails where it is broken.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Promise {
    spec: String,
    says: String,
    file: String,
    test: String,
    /// How it was broken on purpose to see its test fail; missing where nobody has done so yet.
    broken_by: Option<String>,
}

impl Promise {
    /// What is wrong with this row, given the text of its file.
    fn fault(&self, text: &str) -> Option<String> {
        if !["§3", "§4", "§5"].contains(&self.spec.as_str()) {
            return Some(format!("`{}` is of {}, which this table does not cover", self.says, self.spec));
        }
        if self.broken_by.as_deref().is_some_and(|how| how.trim().is_empty()) {
            return Some(format!("`{}` does not say how it was broken; say it or leave `broken_by` out", self.says));
        }
        let missing = format!("{} has no test `{}`, which keeps `{}`; name the one that does", self.file, self.test, self.says);
        (!is_test(text, &self.test)).then_some(missing)
    }
}

/// Whether a text has a test of that name: a function whose attributes, the lines above it, mark it as a test.
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |line: &str| {
        let rest = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ").and_then(|rest| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with('('))
    };
    let marked = |at: usize| {
        let attributes = lines.iter().take(at).rev().take_while(|line| line.starts_with('#') || line.starts_with("//"));
        attributes.into_iter().any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    };
    lines.iter().enumerate().any(|(at, line)| begins(line) && marked(at))
}

#[test]
fn every_promise_names_a_test_that_exists() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table: Table = toml::from_str(&fs::read_to_string(root.join("tests/promises.toml"))?)?;
    let mut said = BTreeSet::new();
    let mut faults = Vec::new();
    for promise in &table.promise {
        let text =
            fs::read_to_string(root.join(&promise.file)).map_err(|error| format!("cannot read {}: {error}", promise.file))?;
        faults.extend(promise.fault(&text));
        if !said.insert(&promise.says) {
            faults.push(format!("`{}` is there twice; keep one", promise.says));
        }
    }
    assert!(faults.is_empty() && !said.is_empty(), "tests/promises.toml:\n{}", faults.join("\n"));
    Ok(())
}

#[test]
fn a_name_alone_is_no_test() {
    let row = |test: &str| Promise { spec: "§3".into(), says: "x".into(), file: "f".into(), test: test.into(), broken_by: None };
    let text = "#[test]\nfn kept() {}\n\nfn helper() {}\n// fn told() {}\n#[tokio::test]\n#[ignore]\nasync fn awaited() {}\n#[test]\nfn kept_too() {}";
    for (test, there) in [("kept", true), ("awaited", true), ("helper", false), ("told", false), ("kep", false), ("gone", false)] {
        assert_eq!(row(test).fault(text).is_none(), there, "{test}");
    }
    assert!(Promise { spec: "§6".into(), ..row("kept") }.fault(text).is_some());
    assert!(Promise { broken_by: Some(" ".into()), ..row("kept") }.fault(text).is_some());
}
