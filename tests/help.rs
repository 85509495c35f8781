//! What `--help` says is what people read first: a change of it is seen in review.
#![expect(clippy::disallowed_methods, reason = "a test drives the binary")]

use std::process::Command;

#[test]
fn the_help_of_every_verb_is_as_it_was_reviewed() {
    let verbs = [
        "",
        "validate",
        "plan",
        "apply",
        "serve",
        "get",
        "describe",
        "logs",
        "delete",
        "pause",
        "resume",
        "wait",
        "freeze",
        "history",
        "diff",
        "rollback",
        "audit",
        "audit verify",
        "down",
        "run",
        "once",
        "tools",
        "doctor",
        "state",
        "state verify",
        "state repair",
        "state export",
        "state import",
        "state adopt",
        "las",
        "tree",
        "decisions",
        "decisions report",
        "decisions relabel",
        "decisions export",
        "skill",
        "skill check",
        "skill new",
        "skill test",
        "skill run",
        "skill import",
        "skill export",
        "schema",
        "explain",
        "model",
        "completion",
        "man",
        "version",
    ];
    let mut help = String::new();
    for verb in verbs {
        let args = verb.split_whitespace().chain(["--help"]);
        let said =
            Command::new(env!("CARGO_BIN_EXE_singularity")).args(args).env("COLUMNS", "100").output().expect("the binary runs");
        assert!(said.status.success(), "{verb}");
        help.push_str(&format!("$ singularity {verb} --help\n{}\n", String::from_utf8_lossy(&said.stdout)));
    }
    insta::assert_snapshot!(help);
}
