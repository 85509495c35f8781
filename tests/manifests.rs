//! What operators write, good and bad, and what they are told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::{fmt::Write as _, path::PathBuf};

use proptest::prelude::*;
use singularity::manifest::{Loaded, Overrides, Problems, Sources, Variables, from_variables, read, resolved_document};

fn files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn load(paths: &[PathBuf]) -> Result<Loaded, Problems> {
    read(&Sources::load(paths), &Overrides::default())
}

fn variables(pairs: &[(&str, &str)]) -> Overrides {
    Overrides { variables: pairs.iter().copied().collect(), folder: "/fleet".into(), ..Overrides::default() }
}

#[test]
fn every_bad_manifest_is_refused_with_its_place() {
    let mut told = String::new();
    let cases = files("tests/manifests/bad");
    assert!(cases.len() >= 45);
    for case in cases {
        let problems = load(std::slice::from_ref(&case)).err().unwrap_or_else(|| panic!("{} was accepted", case.display()));
        assert!(problems.iter().all(|problem| problem.place.is_some()), "{}", case.display());
        writeln!(told, "{problems}\n").unwrap();
    }
    assert!(!told.contains("sk-very-secret"), "a secret must not be shown");
    insta::assert_snapshot!(told);
}

#[test]
fn every_good_manifest_resolves_to_what_it_says() {
    let here = std::path::absolute(".").unwrap();
    for case in files("tests/manifests/good") {
        let loaded = load(std::slice::from_ref(&case)).unwrap_or_else(|problems| panic!("{problems}"));
        let text = serde_json::to_string_pretty(&loaded.fleet).unwrap().replace(here.to_str().unwrap(), "<here>");
        insta::assert_snapshot!(format!("{}.resolved", case.file_name().unwrap().to_str().unwrap()), text);
    }
}

#[test]
fn the_examples_and_the_fleet_are_valid() {
    for path in files("examples").into_iter().chain([PathBuf::from("manifests")]) {
        if let Err(problems) = load(std::slice::from_ref(&path)) {
            panic!("{problems}");
        }
    }
}

#[test]
fn an_address_that_two_files_declare_names_both_places() {
    let hello = PathBuf::from("examples/hello.toml");
    let problems = load(&["examples/files.toml".into(), hello.clone(), hello]).unwrap_err();
    let lines = problems.lines();
    assert_eq!(lines.len(), 2, "{problems}");
    assert_eq!(lines[1], "examples/hello.toml:8:8: `being/ada` is declared twice; first in examples/files.toml:11:8");
}

#[test]
fn what_cannot_be_read_does_not_hide_what_can() {
    let problems = load(&["no/such/file.toml".into(), "tests/manifests/bad/money-float.toml".into()]).unwrap_err();
    assert_eq!(problems.lines()[0], "no/such/file.toml: cannot be read: no such file or directory");
    assert_eq!(problems.len(), 2);
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test lays out a folder of manifests")]
fn a_folder_is_read_once_in_order_whatever_its_links_say() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("b/.hidden")).unwrap();
    for (name, text) in [("z.toml", "# z"), ("b/a.json", "{}"), ("b/.hidden/x.toml", "["), ("note.txt", "["), ("#.toml~", "[")] {
        std::fs::write(at(name), text).unwrap();
    }
    std::os::unix::fs::symlink(folder.path(), at("b/loop")).unwrap();
    std::os::unix::fs::symlink(at("z.toml"), at("b/z-again.toml")).unwrap();
    std::os::unix::fs::symlink("nowhere", at("gone.toml")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket.toml")).unwrap();
    let sources = Sources::load(&[folder.path().into(), at("z.toml")]);
    let read: Vec<PathBuf> = sources.files().map(|file| file.path.strip_prefix(folder.path()).unwrap().to_owned()).collect();
    assert_eq!(read, [PathBuf::from("b/a.json"), PathBuf::from("b/z-again.toml")]);
    let told: Vec<String> = sources.problems().map(|problem| problem.message.clone()).collect();
    assert_eq!(told, ["cannot be read: no such file or directory", "is neither a file nor a folder"]);
    let before = sources.digest();
    std::fs::write(at("z.toml"), "# changed").unwrap();
    assert_ne!(Sources::load(&[folder.path().into()]).digest(), before);
}

#[test]
fn every_value_tells_where_it_came_from() {
    let overrides = Overrides {
        being: Some("ada".parse().unwrap()),
        flags: [("SINGULARITY_MAX_TOOL_ROUNDS", "3")].into_iter().collect(),
        ..variables(&[("SINGULARITY_CYCLE_INTERVAL_SECS", "7")])
    };
    let loaded = read(&Sources::load(&["tests/manifests/good/layers.toml".into()]), &overrides).unwrap();
    let resolved = resolved_document(&loaded, &"being/ada-1".parse().unwrap()).unwrap();
    insta::assert_snapshot!(resolved.to_toml(true));
    let again = read(&Sources::of_text("x.json", "/", &resolved.to_json().to_string()), &Overrides::default()).unwrap_err();
    assert!(again.iter().all(|problem| problem.message.starts_with("model `")), "only its models are missing: {again}");
}

#[test]
fn variables_alone_make_a_being() {
    let loaded = from_variables(&variables(&[
        ("BRAMA_HMAC_SECRET_FILE", "hmac"),
        ("BRAMA_TEMPERATURE", "0.7"),
        ("SINGULARITY_AGENT_ID", "agent:1"),
        ("SINGULARITY_STARTING_BALANCE_USD", "3"),
        ("LAS_MCP_ENTRYPOINT", "las/mcp.mjs"),
        ("LAS_ONLY", "weles, lem"),
        ("SINGULARITY_REQUIRED_SURFACES", "lem"),
    ]))
    .unwrap_or_else(|problems| panic!("{problems}"));
    insta::assert_json_snapshot!(loaded.fleet);
}

#[test]
fn bad_variables_are_named() {
    let problems = from_variables(&variables(&[
        ("BRAMA_BASE_URL", "ftp://x"),
        ("BRAMA_TEMPERATURE", "hot"),
        ("SINGULARITY_ROLE", "a/b"),
        ("SINGULARITY_CODE_SHA256", "AB"),
        ("SINGULARITY_STARTING_BALANCE_USD", "-1"),
        ("SINGULARITY_MAX_TOOL_ROUNDS", "0"),
        ("SINGULARITY_CYCLE_INTERVAL_SECS", "soon"),
        ("SINGULARITY_STIMULUS", "a\0b"),
    ]))
    .unwrap_err();
    insta::assert_snapshot!(problems.to_string());
}

#[test]
fn a_fleet_does_not_take_the_variables_of_a_being() {
    let sources = Sources::load(&["examples/hello.toml".into()]);
    let plain = read(&sources, &Overrides::default()).unwrap();
    let overrides = variables(&[("SINGULARITY_SPECIALTY", "x"), ("BRAMA_MODEL", "y")]);
    assert_eq!(read(&sources, &overrides).unwrap().fleet, plain.fleet);
    assert_eq!(overrides.variables.get("HOME"), None);
    assert_eq!([("HOME", "x")].into_iter().collect::<Variables>(), Variables::default());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}", name in "x\\.(toml|json)") {
        let _ = read(&Sources::of_text(name, "/", &text), &Overrides::default());
    }

    #[test]
    fn no_manifest_like_text_makes_the_reader_panic(
        lines in prop::collection::vec(
            "(\\[(model|surface|category|decision|being|defaults)(\\.[a-z]{1,2}){0,2}\\]|(provider|model|engine|skill|config|secret|categories|route|las|cycle|budget|grant|env|command|replicas|workspace) = (\"[a-z*\\[{]{0,4}\"|[0-9]{1,3}|-0\\.0|\\[\\]|\\[\"a\", 1\\]|\\{ only = [1-9], starting = \"1\" \\}|true|1979-05-27))",
            0..12,
        )
    ) {
        let text = lines.join("\n");
        if let Err(problems) = read(&Sources::of_text("x.toml", "/", &text), &Overrides::default()) {
            prop_assert!(!problems.is_empty());
            let _ = problems.to_string();
        }
    }
}
