//! What runs becomes what is declared: edits take effect, broken ones do not, and what is shown can be relied on.
#![expect(clippy::disallowed_methods, clippy::expect_used, reason = "a test may fail, edits files and measures")]

#[cfg(test)]
mod support;

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Server},
    view, wait_until,
};

/// What an edit may take from the save to the first thing that it changes.
const AT_ONCE: Duration = Duration::from_secs(1);

fn fleet(server: &Server) -> String {
    format!(
        r#"
[model.scripted]
provider = "openai"
base_url = "{}"
model = "scripted"

[being.ada]
model = ["scripted"]
cycle = {{ every = "50ms" }}
budget = {{ starting = "10" }}
"#,
        server.base_url()
    )
}

fn chatty() -> Server {
    Server::start(|_| Reply::say("well"))
}

type Save = fn(&Path, &str);

fn in_place(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be written");
}

fn renamed_over(path: &Path, text: &str) {
    let beside = path.with_extension("toml.swp");
    fs::write(&beside, text).expect("a file can be written");
    fs::rename(beside, path).expect("a file can be renamed");
}

fn deleted_and_created(path: &Path, text: &str) {
    fs::remove_file(path).expect("a file can be removed");
    fs::write(path, text).expect("a file can be written");
}

#[test]
fn a_saved_edit_changes_the_running_being_within_a_second_however_the_editor_saves() {
    let home = Home::new();
    let mut now = chatty();
    let manifest = home.write("fleet/ada.toml", &fleet(&now));
    let folder = home.around().join("fleet");
    let _daemon = home.spawn(&["serve", folder.to_str().expect("UTF-8")]);
    now.wait_for(1, PATIENT);

    let ways: [(&str, Save); 3] =
        [("in place", in_place), ("renamed over", renamed_over), ("deleted and created", deleted_and_created)];
    for (how, save) in ways {
        let next = chatty();
        let saved_at = Instant::now();
        save(&manifest, &fleet(&next));
        next.wait_for(1, SOON);
        let took = saved_at.elapsed();
        assert!(took <= AT_ONCE, "{how}: the new model was asked after {took:?}");
        now = next;
    }
    assert_eq!(home.events("ada", "started").len(), 1, "a model is swapped without a restart");
    drop(now);
}

#[test]
fn a_broken_edit_stops_nothing_and_is_shown_with_its_place() {
    let home = Home::new();
    let server = chatty();
    let good = fleet(&server);
    let manifest = home.write("fleet/ada.toml", &good);
    let folder = home.around().join("fleet");
    let _daemon = home.spawn(&["serve", folder.to_str().expect("UTF-8")]);
    server.wait_for(1, PATIENT);
    let broken = good.replace("starting = \"10\"", "startign = \"10\"");
    let line = 1 + broken.lines().position(|line| line.contains("startign")).expect("the broken line");

    in_place(&manifest, &broken);
    let place = format!("ada.toml:{line}:");
    wait_until(SOON, "the error with its place", || {
        let got = home.run(&["get"]);
        format!("{}{}", got.stdout, got.stderr).contains(&place)
    });
    let asked = server.seen().len();
    server.wait_for(asked + 3, SOON);

    in_place(&manifest, &good);
    wait_until(SOON, "the error's end", || {
        let got = home.run(&["get"]);
        !format!("{}{}", got.stdout, got.stderr).contains(&place)
    });
    assert_eq!(home.events("ada", "started").len(), 1, "it went on as it was");
}

#[test]
fn what_get_prints_is_what_its_schema_says() {
    let home = Home::new();
    let server = chatty();
    let manifest = home.write("ada.toml", &fleet(&server));
    home.run_within(PATIENT, &["apply", "-f", manifest.to_str().expect("UTF-8")]).ok();
    let shown = home.run(&["get", "beings", "-o", "json"]).ok().json();
    let schema =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(view::LIST_SCHEMA)).expect("the schema is committed");
    let schema = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let faults: Vec<_> = validator.iter_errors(&shown).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}\n{shown:#}");
    assert!(!validator.is_valid(&serde_json::json!({ "anything": true })), "the schema refuses what is no list");
    assert_eq!(view::beings(&home), ["ada"]);
    home.run(&["down"]).ok();
}

#[test]
fn after_down_nothing_runs_and_the_state_stays() {
    let home = Home::new();
    let server = chatty();
    let manifest = home.write("ada.toml", &fleet(&server));
    home.run_within(PATIENT, &["apply", "-f", manifest.to_str().expect("UTF-8")]).ok();
    server.wait_for(1, SOON);
    home.run(&["down"]).ok();
    wait_until(SOON, "the end of every process", || support::proc::mentioning(home.around()).is_empty());
    assert_eq!(home.state("ada")["status"], "stopped");
}
