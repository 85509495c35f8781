//! Manifests as people and programs save them: every way of saving arrives, and none stops a being that is still declared.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test plays editors, which pause between two steps, starts programs, and may fail"
)]

#[cfg(test)]
mod support;

use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::fs::symlink,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread::sleep,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{
    Home, Life, Output, PATIENT, SOON,
    openai::{Reply, Server},
    wait_for, wait_until,
};

/// What a save may take to change what a being does.
const AT_ONCE: Duration = Duration::from_secs(1);
/// The longest that an editor, or a mount, leaves a file away.
const MOMENT: Duration = Duration::from_millis(250);

/// A daemon that serves a folder, and a model that notes what it is asked for.
struct Served {
    home: Home,
    server: Server,
    folder: PathBuf,
    daemon: Life,
}

impl Served {
    /// Serves `folder` of a home that has these files in it.
    fn start(server: Server, files: &[(&str, &str)], folder: &str, flags: &[&str]) -> Self {
        let home = Home::new();
        for (name, text) in files {
            home.write(name, text);
        }
        let folder = home.around().join(folder);
        let daemon = serve(&home, &folder, flags);
        Self { home, server, folder, daemon }
    }

    /// One file with two beings, of which `ada` thinks all the time and `bob` rests; the model goes by the name `first`.
    fn pair(flags: &[&str]) -> Self {
        let server = chatty();
        let text = pair(&server, "first");
        let served = Self::start(server, &[("fleet/pair.toml", &text)], "fleet", flags);
        served.wait_for("first", PATIENT);
        wait_until(SOON, "bob's birth", || served.home.events("bob", "started").len() == 1);
        served
    }

    fn text(&self, model: &str) -> String {
        pair(&self.server, model)
    }

    fn manifest(&self) -> PathBuf {
        self.folder.join("pair.toml")
    }

    /// What the model was last asked for by.
    fn asked(&self) -> Option<String> {
        self.server.seen().last().and_then(|seen| seen.body["model"].as_str().map(str::to_owned))
    }

    #[track_caller]
    fn wait_for(&self, model: &str, deadline: Duration) {
        wait_until(deadline, &format!("the model `{model}` to be asked"), || self.asked().as_deref() == Some(model));
    }

    /// Lets more than a second pass in which `ada` goes on: then the files are looked at for a reason alone.
    fn let_settle(&self) {
        let asked = self.server.seen().len();
        self.server.wait_for(asked + 100, SOON);
    }

    /// Fails where a being was stopped or started again.
    #[track_caller]
    fn assert_nobody_stopped(&self, how: &str) {
        for being in ["ada", "bob"] {
            assert_eq!(self.home.events(being, "stopped"), Vec::<Value>::new(), "{how}: {being} was stopped");
            assert_eq!(self.home.events(being, "started").len(), 1, "{how}: {being} was started again");
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.daemon.pid()).expect("a pid")).expect("a pid");
        kill_process(pid, signal).expect("the daemon runs");
    }
}

fn serve(home: &Home, folder: &Path, flags: &[&str]) -> Life {
    let folder = folder.to_str().expect("UTF-8");
    home.spawn(&[&["serve", folder], flags].concat())
}

fn chatty() -> Server {
    Server::start(|_| Reply::say("well"))
}

fn model(server: &Server, name: &str, model: &str) -> String {
    format!("[model.{name}]\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"{model}\"\n\n", server.base_url())
}

const ADA: &str = "[being.ada]\nmodel = \"scripted\"\ncycle = { every = \"20ms\" }\nbudget = { starting = \"10\" }\n\n";
const BOB: &str = "[being.bob]\nmodel = \"scripted\"\ncycle = { every = \"1h\" }\nbudget = { starting = \"10\" }\n";

fn pair(server: &Server, name: &str) -> String {
    [&model(server, "scripted", name), ADA, BOB].concat()
}

/// A being that never acts.
fn still(name: &str) -> String {
    format!("[being.{name}]\nmodel = \"scripted\"\npaused = true\n\n")
}

type Save = fn(&Path, &str);

fn write(path: &Path, text: &str) {
    fs::write(path, text).expect("a file can be written");
}

fn renamed_over(path: &Path, text: &str) {
    let beside = path.with_extension("toml.swp");
    write(&beside, text);
    fs::rename(beside, path).expect("a file can be renamed");
}

fn deleted_and_created(path: &Path, text: &str) {
    fs::remove_file(path).expect("a file can be removed");
    sleep(MOMENT);
    write(path, text);
}

fn moved_away_and_created(path: &Path, text: &str) {
    fs::rename(path, path.with_extension("toml~")).expect("a file can be renamed");
    sleep(MOMENT);
    write(path, text);
}

fn emptied_and_filled(path: &Path, text: &str) {
    write(path, "");
    sleep(MOMENT);
    write(path, text);
}

fn linked_over(path: &Path, text: &str) {
    let (real, link) = (path.with_file_name(".real.txt"), path.with_extension("link"));
    write(&real, text);
    symlink(&real, &link).expect("a link can be made");
    fs::rename(link, path).expect("a link can be renamed");
}

#[test]
fn every_way_of_saving_a_file_arrives_and_stops_nobody() {
    let served = Served::pair(&[]);
    let ways: [(&str, Save); 7] = [
        ("in place", write),
        ("renamed over", renamed_over),
        ("deleted and created", deleted_and_created),
        ("moved away and created", moved_away_and_created),
        ("emptied and filled", emptied_and_filled),
        ("a link renamed over", linked_over),
        ("through the link", write),
    ];
    for (at, (how, save)) in ways.into_iter().enumerate() {
        let next = format!("next-{at}");
        save(&served.manifest(), &served.text(&next));
        let saved_at = Instant::now();
        served.wait_for(&next, SOON);
        let took = saved_at.elapsed();
        assert!(took <= AT_ONCE, "{how}: it arrived after {took:?}");
        served.assert_nobody_stopped(how);
    }
}

#[test]
fn a_file_that_is_half_written_is_not_applied() {
    let served = Served::pair(&[]);
    let text = served.text("next");
    let half = text.find("[being.bob]").expect("the second being");
    let mut file = File::create(served.manifest()).expect("a file can be written");
    file.write_all(&text.as_bytes()[..half]).expect("the first half");
    file.flush().expect("it is on its way");
    served.let_settle();
    assert_eq!(served.asked().as_deref(), Some("first"), "the first half is a whole manifest by itself");
    file.write_all(&text.as_bytes()[half..]).expect("the second half");
    drop(file);
    served.wait_for("next", SOON);
    served.assert_nobody_stopped("written in halves");
}

#[test]
fn a_file_that_is_deleted_and_created_again_and_again_stops_nobody() {
    let served = Served::pair(&[]);
    for round in 1..=40 {
        let next = format!("round-{round}");
        deleted_and_created(&served.manifest(), &served.text(&next));
        served.wait_for(&next, SOON);
    }
    served.assert_nobody_stopped("forty rounds");
}

#[test]
fn the_hundredth_file_that_is_renamed_over_still_arrives() {
    let served = Served::pair(&[]);
    for round in 1..=100 {
        let next = format!("round-{round}");
        renamed_over(&served.manifest(), &served.text(&next));
        served.wait_for(&next, AT_ONCE * 5);
    }
    served.assert_nobody_stopped("a hundred rounds");
}

/// Puts a revision in place as Kubernetes does: a folder of its own, and a link to it that is renamed over the last one.
fn mount(folder: &Path, revision: &str, files: &[(&str, &str)]) {
    let dated = folder.join(format!("..{revision}"));
    fs::create_dir_all(&dated).expect("a folder can be made");
    for (name, text) in files {
        write(&dated.join(name), text);
    }
    symlink(format!("..{revision}"), folder.join("..data_tmp")).expect("a link can be made");
    let before = fs::read_link(folder.join("..data")).ok();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("a link can be renamed");
    for (name, _) in files {
        let _is_there = symlink(format!("..data/{name}"), folder.join(name));
    }
    if let Some(before) = before {
        fs::remove_dir_all(folder.join(before)).expect("the folder of before can be removed");
    }
}

#[test]
fn a_mounted_config_map_that_is_swapped_arrives_and_stops_nobody() {
    let server = chatty();
    let home = Home::new();
    let folder = home.around().join("mount");
    fs::create_dir_all(&folder).expect("a folder can be made");
    mount(&folder, "2026_01", &[("pair.toml", &pair(&server, "first"))]);
    let daemon = serve(&home, &folder, &[]);
    let served = Served { home, server, folder, daemon };
    served.wait_for("first", PATIENT);
    for revision in 2..=6 {
        let next = format!("next-{revision}");
        mount(&served.folder, &format!("2026_0{revision}"), &[("pair.toml", &served.text(&next))]);
        served.wait_for(&next, AT_ONCE * 2);
    }
    served.assert_nobody_stopped("five swaps");
}

#[test]
fn a_folder_that_is_replaced_is_still_watched_and_stops_nobody() {
    let served = Served::pair(&[]);
    let (folder, beside) = (served.folder.clone(), served.home.around().join("beside"));
    let fill = |folder: &Path, model: &str| {
        fs::create_dir_all(folder).expect("a folder can be made");
        write(&folder.join("pair.toml"), &served.text(model));
    };
    for round in 1..=3 {
        let [moved, edited, removed, again] = ["moved", "edited", "removed", "again"].map(|step| format!("{step}-{round}"));
        fill(&beside, &moved);
        fs::rename(&folder, served.home.around().join(format!("before-{round}"))).expect("a folder can be renamed");
        sleep(MOMENT);
        fs::rename(&beside, &folder).expect("a folder can be renamed");
        served.wait_for(&moved, AT_ONCE * 2);
        write(&served.manifest(), &served.text(&edited));
        served.wait_for(&edited, AT_ONCE);

        fs::remove_dir_all(&folder).expect("a folder can be removed");
        sleep(MOMENT);
        fill(&folder, &removed);
        served.wait_for(&removed, AT_ONCE * 2);
        renamed_over(&served.manifest(), &served.text(&again));
        served.wait_for(&again, AT_ONCE);
    }
    served.assert_nobody_stopped("replaced folders");
}

#[test]
fn a_link_to_a_release_that_leads_to_the_next_one_is_followed() {
    let server = chatty();
    let home = Home::new();
    home.write("releases/1/fleet/pair.toml", &pair(&server, "first"));
    home.write("releases/2/fleet/pair.toml", &pair(&server, "second"));
    let (current, next) = (home.around().join("current"), home.around().join("next"));
    symlink("releases/1", &current).expect("a link can be made");
    let folder = current.join("fleet");
    let daemon = serve(&home, &folder, &[]);
    let served = Served { home, server, folder, daemon };
    served.wait_for("first", PATIENT);
    symlink("releases/2", &next).expect("a link can be made");
    fs::rename(&next, &current).expect("a link can be renamed");
    served.wait_for("second", AT_ONCE * 2);
    write(&served.manifest(), &served.text("third"));
    served.wait_for("third", AT_ONCE);
    served.assert_nobody_stopped("a swapped release");
}

fn git(folder: &Path, args: &[&str]) {
    let mut command = Command::new("git");
    command.current_dir(folder).args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(args);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().expect("git");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_checkout_of_five_hundred_files_arrives_whole_and_stops_nobody() {
    let server = chatty();
    let home = Home::new();
    let folder = home.around().join("fleet");
    let fill = |revision: &str| {
        home.write("fleet/pair.toml", &pair(&server, revision));
        for at in 0..500 {
            home.write(&format!("fleet/models/{at}.toml"), &model(&server, &format!("m{at}"), revision));
        }
        git(&folder, &["add", "-A"]);
        git(&folder, &["commit", "-qm", revision]);
        git(&folder, &["tag", revision]);
    };
    fs::create_dir_all(&folder).expect("a folder can be made");
    git(&folder, &["init", "-q"]);
    fill("second");
    fill("first");
    let daemon = serve(&home, &folder, &[]);
    let served = Served { home, server, folder, daemon };
    served.wait_for("first", PATIENT);
    for revision in ["second", "first", "second"] {
        served.let_settle();
        git(&served.folder, &["checkout", "-q", revision]);
        served.wait_for(revision, AT_ONCE * 10);
    }
    let shown = served.home.run(&["get", "model/m499", "-o", "json"]).ok();
    assert!(shown.stdout.contains("\"Ready\""), "{}", shown.stdout);
    served.assert_nobody_stopped("three checkouts");
}

#[test]
fn files_that_never_rest_are_told_of_and_read_once_they_do() {
    let served = Served::pair(&[]);
    let (log, is_over) = (served.folder.join("log.json"), AtomicBool::new(false));
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut file = File::create(&log).expect("a file can be written");
            while !is_over.load(Ordering::Relaxed) {
                file.write_all(b"{}").expect("a file can be written");
                sleep(Duration::from_millis(2));
            }
        });
        write(&served.manifest(), &served.text("second"));
        let told = catch_unwind(AssertUnwindSafe(|| {
            wait_until(SOON, "the file to be named", || told(&served.home).contains("log.json keeps changing"));
        }));
        is_over.store(true, Ordering::Relaxed);
        told.unwrap_or_else(|why| resume_unwind(why));
    });
    fs::remove_file(&log).expect("a file can be removed");
    served.wait_for("second", SOON);
    wait_until(SOON, "all is well", || !told(&served.home).contains("log.json"));
    served.assert_nobody_stopped("a log beside the manifests");
}

#[test]
fn where_no_event_tells_of_a_save_it_is_looked_for() {
    let served = Served::pair(&["--poll", "200ms"]);
    let ways: [(&str, Save); 3] =
        [("in place", write), ("renamed over", renamed_over), ("deleted and created", deleted_and_created)];
    for (how, save) in ways {
        served.let_settle();
        save(&served.manifest(), &served.text(how));
        served.wait_for(how, AT_ONCE * 5);
        served.assert_nobody_stopped(how);
    }
    let said = served.home.run(&["serve", "--poll", "1ms", "fleet"]);
    assert_eq!(said.code(), 2, "{}", said.stderr);
}

#[test]
fn a_hangup_and_a_request_see_what_was_saved_before_them() {
    let served = Served::pair(&["--poll", "1h"]);
    served.let_settle();
    write(&served.manifest(), &served.text("second"));
    served.signal(Signal::HUP);
    served.wait_for("second", SOON);
    write(&served.manifest(), &(served.text("second") + &still("eve")));
    let eve =
        served.home.write("eve.toml", &(model(&served.server, "other", "other") + &still("eve").replace("scripted", "other")));
    let refused = served.home.run(&["apply", "-f", eve.to_str().expect("UTF-8")]);
    assert!(refused.code() == 2 && refused.stderr.contains("`being/eve` is declared twice"), "{}", refused.stderr);
    served.assert_nobody_stopped("a hangup");
}

#[test]
fn a_folder_that_empties_as_a_disk_that_is_not_mounted_stops_nobody_unless_that_is_allowed() {
    let mut served = Served::pair(&[]);
    let away = served.home.around().join("away");
    fs::rename(served.manifest(), &away).expect("a file can be moved");
    wait_until(SOON, "it to be told", || told(&served.home).contains("declares nothing any more"));
    served.let_settle();
    served.assert_nobody_stopped("an empty folder");
    assert!(served.home.run(&["events", "-o", "jsonl"]).ok().stdout.contains("is it mounted?"));
    fs::rename(&away, served.manifest()).expect("a file can be moved back");
    wait_until(SOON, "the problem to be over", || !told(&served.home).contains("declares nothing any more"));
    served.assert_nobody_stopped("a folder that was mounted again");

    let (folder, name) = (served.folder.clone(), served.manifest());
    served.signal(Signal::KILL);
    served.daemon.ended_within(SOON).expect("it was killed");
    fs::rename(&name, &away).expect("a file can be moved");
    served.daemon = serve(&served.home, &folder, &[]);
    wait_until(SOON, "it to be told at the start too", || told(&served.home).contains("declares nothing any more"));
    wait_until(SOON, "both to live on", || living(&served.home) == ["being/ada", "being/bob"]);
    served.signal(Signal::KILL);
    served.daemon.ended_within(SOON).expect("it was killed");
    served.daemon = serve(&served.home, &folder, &["--allow-empty"]);
    wait_until(PATIENT, "both to be gone", || served.home.run(&["get"]).stderr.contains("nothing is declared"));
}

#[test]
fn what_is_removed_for_good_is_stopped() {
    let served = Served::pair(&[]);
    let text = served.text("first");
    write(&served.manifest(), &text.replace(BOB, ""));
    wait_until(SOON, "bob's end", || served.home.events("bob", "stopped").len() == 1);
    assert_eq!(served.home.events("ada", "stopped").len(), 0);
}

/// All that `get` says.
fn told(home: &Home) -> String {
    let Output { stdout, stderr, .. } = home.run(&["get"]);
    stdout + &stderr
}

#[test]
fn a_valid_edit_that_follows_an_invalid_one_is_applied() {
    let served = Served::pair(&[]);
    let broken = |model: &str| served.text(model).replace("starting", "startign");
    write(&served.manifest(), &broken("broken"));
    wait_until(SOON, "the error", || told(&served.home).contains("startign"));
    write(&served.manifest(), &served.text("second"));
    served.wait_for("second", SOON);
    wait_until(SOON, "the error's end", || !told(&served.home).contains("startign"));
    write(&served.manifest(), &broken("broken"));
    write(&served.manifest(), &served.text("third"));
    served.wait_for("third", SOON);
    assert!(!served.server.seen().iter().any(|seen| seen.body["model"] == "broken"));
    served.assert_nobody_stopped("an invalid edit");
}

#[test]
fn of_one_bad_and_nine_good_objects_none_is_applied_and_the_error_says_where() {
    let served = Served::pair(&[]);
    let nine: String = (1..=9).map(|at| still(&format!("b{at}"))).collect();
    let bad = "[being.bad]\nmodel = \"scripted\"\npaused = \"yes\"\n";
    write(&served.folder.join("ten.toml"), &(nine.clone() + bad));
    wait_until(SOON, "the error", || told(&served.home).contains("ten.toml:39:"));
    write(&served.manifest(), &served.text("second"));
    served.let_settle();
    assert_eq!(served.asked().as_deref(), Some("first"), "a fleet is taken as a whole");
    assert!((1..=9).all(|at| !served.home.being(&format!("b{at}")).exists()), "none of the nine was born");

    let ten = served.home.write("ten.toml", &(nine.replace("being.b", "being.c") + bad));
    let refused = served.home.run(&["apply", "-f", ten.to_str().expect("UTF-8")]);
    assert_eq!(refused.code(), 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("ten.toml:39:") && refused.stderr.contains("nothing was changed"), "{}", refused.stderr);
    assert!((1..=9).all(|at| !served.home.being(&format!("c{at}")).exists()), "none of the nine was born");

    fs::remove_file(served.folder.join("ten.toml")).expect("a file can be removed");
    served.wait_for("second", SOON);
    served.assert_nobody_stopped("a bad object");
}

#[test]
fn a_model_that_a_being_uses_is_not_taken_from_it() {
    let server = chatty();
    let models = model(&server, "spare", "spare") + &model(&server, "scripted", "first");
    let beings = [ADA, BOB].concat();
    let served = Served::start(server, &[("fleet/models.toml", &models), ("fleet/beings.toml", &beings)], "fleet", &[]);
    served.wait_for("first", PATIENT);
    write(&served.folder.join("models.toml"), &model(&served.server, "spare", "spare"));
    let words = ["beings.toml:2:", "model `scripted`", "`being/ada`", "`being/bob`", "models.toml:7"];
    let error = wait_for(SOON, "the error", || {
        let told = told(&served.home);
        words.iter().all(|word| told.contains(word)).then_some(told)
    });
    let asked = served.server.seen().len();
    served.server.wait_for(asked + 3, SOON);
    served.assert_nobody_stopped(&error);

    served.home.run(&["down"]).ok();
    let all = served.home.write("all.toml", &(models + &beings));
    let all = all.to_str().expect("UTF-8");
    served.home.run_within(PATIENT, &["apply", "-f", all]).ok();
    let refused = served.home.run(&["delete", "model/scripted"]);
    assert!(refused.code() != 0 && refused.stderr.contains("being/ada uses model/scripted"), "{}", refused.stderr);
}

/// The beings that are declared and live, by `get`.
fn living(home: &Home) -> Vec<String> {
    let listed = home.run(&["get", "beings", "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap_or_default();
    let is_ready = |item: &&Value| {
        item["conditions"].as_array().is_some_and(|all| all.iter().any(|one| one["type"] == "Ready" && one["status"] == "True"))
    };
    let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter(is_ready).filter_map(|item| item["address"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_daemon_that_dies_in_the_midst_of_an_apply_of_a_hundred_ends_where_the_files_say() {
    let server = chatty();
    let home = Home::new();
    let beings = |range: std::ops::Range<u32>| -> String { range.map(|at| still(&format!("b{at}"))).collect() };
    let all = model(&server, "scripted", "m") + &beings(0..100);
    home.write("fleet/all.toml", &model(&server, "scripted", "m"));
    let folder = home.around().join("fleet");
    let daemon = serve(&home, &folder, &[]);
    wait_until(SOON, "the daemon", || home.run(&["get"]).code() == 0);
    renamed_over(&folder.join("all.toml"), &all);
    let born = || fs::read_dir(home.path().join("beings")).map_or(0, Iterator::count);
    wait_until(SOON, "some births", || born() > 5);
    kill_process(Pid::from_raw(i32::try_from(daemon.pid()).expect("a pid")).expect("a pid"), Signal::KILL).expect("it runs");
    drop(daemon);
    let born_by_then = born();
    renamed_over(&folder.join("all.toml"), &(model(&server, "scripted", "m") + &beings(20..100)));
    let _daemon = serve(&home, &folder, &[]);
    let mut wanted: Vec<String> = (20..100).map(|at| format!("being/b{at}")).collect();
    wanted.sort();
    wait_until(PATIENT, &format!("exactly the eighty; {born_by_then} were born before"), || {
        let mut living = living(&home);
        living.sort();
        living == wanted
    });
    home.run_within(PATIENT, &["down"]).ok();
    for at in 20..100 {
        assert_eq!(home.events(&format!("b{at}"), "started").iter().filter(|event| !event["birth"].is_null()).count(), 1, "b{at}");
    }
}

#[test]
fn two_that_apply_one_set_at_once_are_served_one_after_the_other_and_both_told() {
    let server = chatty();
    let home = Home::new();
    home.write("none.toml", &model(&server, "other", "m"));
    home.run_within(PATIENT, &["apply", "-f", "none.toml"]).ok();
    let with = |limit: u32| model(&server, "scripted", "m") + &ADA.replace("cycle = {", &format!("cycle = {{ limit = {limit},"));
    for (name, limit) in [("one", 100_001), ("two", 100_002)] {
        home.write(&format!("{name}/team.toml"), &with(limit));
    }
    let lives = ["one/team.toml", "two/team.toml"].map(|file| home.spawn(&["apply", "--set", "team", "-f", file]));
    let said = lives.map(|mut life| {
        let ended = life.ended_within(PATIENT).expect("it ends");
        assert!(ended.success(), "{:?}", life.said());
        life.said().0
    });
    let created = said.iter().filter(|said| said.contains("+ being/ada")).count();
    let changed = said.iter().filter(|said| said.contains("being/ada") && said.contains("limit")).count();
    assert_eq!((created, changed), (1, 1), "the second is told what it changes of the first: {said:#?}");
    let last = if said[0].contains("+ being/ada") { "100002" } else { "100001" };
    let shown = home.run(&["get", "being/ada", "-o", "toml"]).ok();
    assert!(shown.stdout.contains(last), "the later one is in force: {}", shown.stdout);
    assert_eq!(home.events("ada", "started").len(), 1);
}
