//! The manual: what can be typed has a page, and a page says what `--help` says.
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{collections::BTreeSet, fs};

use support::Home;

/// Every command that `--help` shows, with those below it, as words.
fn commands(home: &Home, above: &[&str]) -> Vec<Vec<String>> {
    let said = home.run(&[above, &["--help"]].concat()).ok().stdout;
    let listed = said.split("Commands:\n").nth(1).unwrap_or_default().lines().take_while(|line| line.starts_with("  "));
    let names = listed.filter(|line| line.as_bytes()[2] != b' ').filter_map(|line| line.split_whitespace().next());
    let mut found = vec![above.iter().map(|word| (*word).to_owned()).collect()];
    for name in names.filter(|name| *name != "help") {
        found.extend(commands(home, &[above, &[name]].concat()));
    }
    found
}

#[test]
fn every_command_that_can_be_seen_has_a_page_and_nothing_else_has() {
    let home = Home::new();
    home.run(&["man", "--write", "man"]).ok();
    let written = fs::read_dir(home.around().join("man")).expect("a folder of pages").flatten();
    let written: BTreeSet<String> = written.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    let seen = commands(&home, &[]);
    let expected = seen.iter().map(|words| format!("{}.1", [&["singularity".to_owned()], &words[..]].concat().join("-")));
    assert_eq!(written, expected.collect());
    assert!(written.contains("singularity-state-verify.1"), "{written:?}");
    assert!(!written.contains("singularity-supervise.1"), "it is not for people");
}

#[test]
fn a_page_says_what_help_says() {
    let home = Home::new();
    let page = home.run(&["man", "state", "export"]).ok().stdout;
    for text in [".TH SINGULARITY-STATE-EXPORT 1", "Write a whole life into one file", "\\-\\-damaged", "ssh other singularity"] {
        assert!(page.contains(text), "{text}\n{page}");
    }
    let refused = home.run(&["man", "state", "lose"]);
    assert_eq!(refused.code(), 2);
    assert!(refused.stderr.contains("there is no command `singularity state lose`"), "{}", refused.stderr);
}
