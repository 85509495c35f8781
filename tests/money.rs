//! No being spends more than it may: what is held back, what is shown meanwhile, and how it goes on.
#![expect(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test may fail, edits files and measures"
)]

#[cfg(test)]
mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use support::{
    Home, Life, PATIENT, SOON,
    openai::{Reply, Server},
    wait_until,
};

/// What an edit may take from the save to the first request that it lets through.
const AT_ONCE: Duration = Duration::from_secs(1);

/// A being that thinks every 50 ms, at 20 millionths of a dollar a thought.
fn fleet(server: &Server, budget: &str) -> String {
    format!(
        r#"
{}
max_tokens = 1000

[being.ada]
model = "scripted"
cycle = {{ every = "50ms" }}
budget = {budget}
"#,
        server.model()
    )
}

/// A home whose daemon serves one manifest.
struct Served {
    home: Home,
    manifest: PathBuf,
    _daemon: Life,
}

impl Served {
    fn start(text: &str) -> Self {
        let home = Home::new();
        let manifest = home.write("fleet/ada.toml", text);
        let folder = home.around().join("fleet");
        let daemon = home.spawn(&["serve", folder.to_str().expect("UTF-8")]);
        Self { home, manifest, _daemon: daemon }
    }

    fn object(&self, address: &str) -> Value {
        let got = self.home.run(&["get", address, "-o", "json"]);
        if got.code() != 0 { Value::Null } else { got.json()["items"][0].clone() }
    }

    fn condition(&self, address: &str, kind: &str) -> Value {
        let object = self.object(address);
        let conditions = object["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == kind).unwrap_or_default()
    }

    /// Waits until the being is held for a reason, and yields what is said of it.
    fn held(&self, address: &str, reason: &str) -> String {
        let held = support::wait_for(PATIENT, reason, || {
            let solvent = self.condition(address, "Solvent");
            (solvent["status"] == "False" && solvent["reason"] == reason).then_some(solvent)
        });
        held["message"].as_str().unwrap_or_default().to_owned()
    }

    fn edit(&self, text: &str) {
        fs::write(&self.manifest, text).expect("a file can be written");
    }

    /// Makes an edit that changes nothing of the money and waits until the last being of the text took it in: whatever it would have done by itself, it has.
    fn settle(&self, being: &str, text: &str) {
        let seen = || self.object(being)["observed_generation"].as_u64();
        let before = seen();
        self.edit(&format!("{text}stimulus = \"rain\"\n"));
        wait_until(SOON, "an edit in force", || seen() > before);
    }

    fn warnings(&self, being: &str, of: &str) -> usize {
        let told = self.home.events(being, "warning");
        told.iter().filter(|warning| warning["message"].as_str().is_some_and(|message| message.contains(of))).count()
    }
}

/// Lets a manifest be edited, and tells how long it took until the server was asked once more.
fn asked_after(served: &Served, server: &Server, text: &str) -> Duration {
    let (asked, saved_at) = (server.seen().len(), Instant::now());
    served.edit(text);
    server.wait_for(asked + 1, SOON);
    saved_at.elapsed()
}

#[test]
fn a_model_that_counts_more_than_there_is_overdraws_once_and_nothing_more_is_spent() {
    let server = Server::start(|_| Reply::say("well").counting(10_000, 0));
    let text = fleet(&server, "{ starting = \"0.001\" }");
    let served = Served::start(&text);
    wait_until(PATIENT, "the end of the money", || served.object("being/ada")["being"]["status"] == "exhausted");
    assert_eq!(served.held("being/ada", "Exhausted"), "-0.009 USD are left");
    assert_eq!(served.object("being/ada")["being"]["balance_usd"], "-0.009");
    let lines = served.home.journal("ada").len();
    served.settle("being/ada", &text);
    assert_eq!((server.seen().len(), served.home.events("ada", "exhausted").len()), (1, 1));
    assert_eq!(served.home.journal("ada").len(), lines, "a being that waits for money writes nothing");
    let granted = format!("{text}grant = [{{ id = \"a\", usd = \"1\" }}]\n");
    assert!(asked_after(&served, &server, &granted) <= AT_ONCE);
}

#[test]
fn a_call_that_may_cost_more_than_is_left_is_not_made() {
    let server = Server::start(|_| Reply::say("well"));
    let text = fleet(&server, "{ starting = \"0.001\", reserve = true }");
    let served = Served::start(&text);
    let told = served.held("being/ada", "Exhausted");
    assert!(told.starts_with("the next call may cost up to 0.002") && told.ends_with(" USD and 0.001 USD are left"), "{told}");
    served.settle("being/ada", &text);
    assert_eq!((server.seen().len(), served.warnings("ada", "the next call may cost up to")), (0, 1));
    assert!(served.home.run(&["describe", "being/ada"]).ok().stdout.contains("too little money for a call"));
    let took = asked_after(&served, &server, &text.replace("reserve = true", "reserve = false"));
    assert!(took <= AT_ONCE, "{took:?}");
}

#[test]
fn what_a_day_may_cost_makes_the_being_rest_and_an_edit_that_raises_it_lets_it_go_on_at_once() {
    let server = Server::start(|_| Reply::say("well"));
    let text = fleet(&server, "{ starting = \"10\", per_day = \"0.00003\" }");
    let served = Served::start(&text);
    assert_eq!(served.held("being/ada", "DayLimit"), "-0.00001 USD are left of what a day may cost");
    let shown = served.home.run(&["get"]).ok().stdout;
    assert!(shown.contains("DayLimit") && shown.contains("held by a limit until 2") && shown.contains("00:00Z"), "{shown}");
    let lines = served.home.journal("ada").len();
    served.settle("being/ada", &text);
    assert_eq!((server.seen().len(), served.warnings("ada", "what a day may cost")), (2, 1));
    assert_eq!(served.home.journal("ada").len(), lines, "a being that waits for a day writes nothing");
    let took = asked_after(&served, &server, &text.replace("0.00003", "1"));
    assert!(took <= AT_ONCE, "{took:?}");
    assert_eq!(served.home.events("ada", "started").len(), 1, "a limit is changed without a restart");
}

/// A being at 2 thousandths of a dollar a thought.
fn member(name: &str, team: &str, cycle: &str) -> String {
    format!(
        "[being.{name}]\nmodel = \"scripted\"\nlabels = {{ team = \"{team}\" }}\ncycle = {{ {cycle} }}\nbudget = {{ starting = \"10\" }}\n"
    )
}

fn team(server: &Server, cap: &str, members: &str) -> String {
    let model = fleet(server, "{}");
    let model = model.split("[being").next().expect("a model");
    format!("{model}[cap.red]\nlabels = {{ team = \"red\" }}\n{cap}\n{members}")
}

#[test]
fn beings_under_one_cap_spend_no_more_than_it_together_and_others_go_on() {
    let server = Server::start(|_| Reply::say("well").counting(0, 1_000));
    let often = "every = \"50ms\"";
    let members = [member("ada", "red", often), member("bob", "red", often), member("eve", "blue", "every = \"5ms\", limit = 9")];
    let text = team(&server, "per_day = \"0.01\"", &members.concat());
    let served = Served::start(&text);
    for being in ["being/ada", "being/bob"] {
        let told = served.held(being, "CapReached");
        assert!(told.ends_with(" USD and 0.002 USD are left of what cap/red allows"), "{told}");
    }
    wait_until(SOON, "the other's whole life", || served.object("being/eve")["being"]["cycle"] == 9);
    assert_eq!(served.condition("cap/red", "Solvent")["message"], "0.008 of 0.01 USD today");
    let lines = served.home.journal("ada").len() + served.home.journal("bob").len();
    served.settle("being/eve", &text.replace("limit = 9", "limit = 10").replace("0.01\"", "0.0101\""));
    wait_until(SOON, "the other's edit", || served.object("being/eve")["being"]["cycle"] == 10);
    assert_eq!(server.seen().len(), 4 + 10, "four thoughts of the two, ten of the other");
    assert_eq!(served.home.journal("ada").len() + served.home.journal("bob").len(), lines, "who is held writes nothing");
    let took = asked_after(&served, &server, &text.replace("0.01\"", "0.02\""));
    assert!(took <= AT_ONCE, "{took:?}");
}

#[test]
fn what_a_being_spent_that_is_gone_still_counts_under_a_cap_after_a_restart() {
    let server = Server::start(|_| Reply::say("well").counting(0, 1_000));
    let often = "every = \"50ms\"";
    let served = Served::start(&team(&server, "total = \"0.0045\"", &member("ada", "red", often)));
    served.held("being/ada", "CapReached");
    let asked = server.seen().len();
    served.edit(&team(&server, "total = \"0.0045\"", &member("bob", "red", often)));
    served.held("being/bob", "CapReached");
    served.home.run(&["down"]).ok();
    let again = served.home.spawn(&["serve", served.home.around().join("fleet").to_str().expect("UTF-8")]);
    served.held("being/bob", "CapReached");
    assert_eq!(server.seen().len(), asked, "the second being was asked nothing");
    drop(again);
}

fn once(home: &Home, manifest: &Path, more: &[&str]) -> Value {
    let manifest = manifest.to_str().expect("UTF-8");
    home.run_within(PATIENT, &[&["once", "-f", manifest], more].concat()).ok().json()
}

#[test]
fn what_a_cycle_may_cost_ends_it_and_the_next_one_is_free_again() {
    let home = Home::new();
    let server = Server::start(|_| Reply::call("singularity_memory_recall", json!({ "query": "x" })));
    let manifest = home.write("ada.toml", &fleet(&server, "{ starting = \"10\", per_cycle = \"0.00005\" }"));
    for (more, asked) in [(&[][..], 3), (&["--resume"][..], 6)] {
        let report = once(&home, &manifest, more);
        assert_eq!((&report["status"], server.seen().len()), (&json!("cycle_limit"), asked), "{report}");
    }
}

#[test]
fn a_threshold_is_warned_of_once_while_the_balance_falls() {
    let home = Home::new();
    let server = Server::start(|_| Reply::say("well"));
    let text = fleet(&server, "{ starting = \"0.0002\", warn_below = [\"0.00016\", \"0.0001\"] }");
    let manifest = home.write("ada.toml", &text.replace("every = \"50ms\"", "every = \"5ms\", limit = 7"));
    home.run_within(PATIENT, &["run", "-f", manifest.to_str().expect("UTF-8")]).ok();
    let told: Vec<_> = home.events("ada", "warning").iter().map(|warning| warning["message"].clone()).collect();
    assert_eq!(
        told,
        [
            json!("the balance falls to 0.00016 USD, which is not above the declared 0.00016 USD"),
            json!("the balance falls to 0.0001 USD, which is not above the declared 0.0001 USD"),
        ]
    );
}

#[test]
fn an_answer_that_comes_while_the_being_is_stopped_is_charged() {
    let server = Server::start(|_| Reply::say("well").after(Duration::from_millis(300)));
    let served = Served::start(&fleet(&server, "{ starting = \"10\" }"));
    server.wait_for(1, PATIENT);
    served.home.run(&["down"]).ok();
    let state = served.home.state("ada");
    let paid = served.home.events("ada", "cost_debited").len();
    assert_eq!((paid, state["budget"]["remaining"].as_str()), (server.seen().len(), Some("9.99998")));
}

/// A being that asks `again` what `scripted` did not answer.
fn chain(home: &Home, server: &Server) -> PathBuf {
    let text = fleet(server, "{ starting = \"1\" }");
    let again = text.split("[being").next().expect("a model").replace("model.scripted", "model.again");
    let text = text.replace("model = \"scripted\"\ncycle", "model = [\"scripted\", \"again\"]\ncycle");
    home.write("ada.toml", &format!("{again}{text}"))
}

/// An answer that is counted and no use.
fn useless() -> Reply {
    Reply::completion(json!({ "role": "assistant", "content": 7 }), "stop")
}

#[test]
fn what_a_server_counted_before_it_failed_is_charged() {
    let home = Home::new();
    let server = Server::play([useless(), Reply::say("well")]);
    let manifest = chain(&home, &server);
    assert_eq!(once(&home, &manifest, &[])["balance_usd"], "0.99996", "two answers are paid, one of which was refused");
}

#[test]
fn what_a_server_counted_is_charged_also_where_the_rest_of_the_request_is_given_up() {
    let home = Home::new();
    let server = Server::start(|seen| if seen.index == 0 { useless() } else { Reply::hang() });
    let manifest = chain(&home, &server);
    let mut life = home.spawn(&["once", "-f", manifest.to_str().expect("UTF-8")]);
    server.wait_for(2, PATIENT);
    let stop = || {
        let pid = i32::try_from(life.pid()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(pid, Signal::INT).expect("it can be told");
    };
    stop();
    wait_until(SOON, "the first stop", || !home.events("ada", "stopping").is_empty());
    stop();
    life.ended_within(SOON).expect("a second stop ends it");
    assert_eq!(home.state("ada")["budget"]["remaining"], "0.99998");
}
