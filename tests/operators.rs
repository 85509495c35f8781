//! What an operator does to a fleet that lives: plans that programs can ask, pauses, history, freezes, and the record of who did what.

#[cfg(test)]
mod support;

use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Server},
    wait_until,
};

/// A fleet of one being that thinks all the time.
fn fleet(server: &Server, more: &str) -> String {
    let model = server.model();
    format!(
        r#"{model}
[being.ada]
model = "scripted"
cycle = {{ every = "50ms" }}
labels = {{ team = "lab" }}
{more}
"#
    )
}

fn chatty() -> Server {
    Server::start(|_| Reply::say("well"))
}

#[test]
fn a_program_can_ask_whether_anything_would_change() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, ""));
    let asks = ["plan", "-f", "ada.toml", "--exit-code"];
    assert_eq!(home.run(&asks).code(), 1, "nothing was born yet");
    home.run_within(PATIENT, &["apply", "-f", "ada.toml"]).ok();
    server.wait_for(1, PATIENT);
    let same = home.run(&asks).ok();
    assert_eq!(same.stdout, "nothing changes\n");

    home.write("ada.toml", &fleet(&server, "approve = [\"x__*\"]"));
    let edited = home.run(&asks);
    assert!(edited.code() == 1 && edited.stdout.contains("approve"), "{}\n{}", edited.stdout, edited.stderr);
    assert_eq!(edited.stderr, "", "a difference is no failure");
    assert_eq!(home.run(&["plan", "-f", "ada.toml"]).code(), 0, "who does not ask is not told");
    home.write("ada.toml", &fleet(&server, "specialty = \"another\""));
    let refused = home.run(&asks);
    assert!(refused.code() == 1 && refused.stdout.contains("! being/ada"), "{}", refused.stdout);
    home.write("ada.toml", "[being.ada]\nmodle = \"x\"\n");
    assert_eq!(home.run(&asks).code(), 2, "what does not validate is neither");
}

#[test]
fn an_apply_knows_what_lives_already_also_right_after_the_daemon_started() {
    let (home, server) = (Home::new(), chatty());
    home.write("ada.toml", &fleet(&server, ""));
    let apply = ["apply", "-f", "ada.toml"];
    let first = home.run_within(PATIENT, &apply).ok();
    assert!(first.stdout.contains("+ being/ada  it is declared and not born yet"), "{}", first.stdout);
    assert_eq!(home.run(&apply).ok().stdout, "nothing changes\n");
    for _ in 0..3 {
        home.daemon().expect("a daemon").kill();
        wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
        assert_eq!(home.run(&apply).ok().stdout, "nothing changes\n", "it lives, and a daemon that starts animates it again");
    }

    home.run(&["delete", "being/ada"]).ok();
    home.run(&["down"]).ok();
    let _daemon = home.spawn(&["serve"]);
    wait_until(SOON, "a daemon that knows of no being", || {
        let got = home.run(&["get"]);
        got.stderr.contains("nothing is declared") && !got.stderr.contains("no daemon runs")
    });
    let again = home.run(&["plan", "-f", "ada.toml"]).ok().stdout;
    assert!(again.contains("+ being/ada  its state is there, but nothing animates it"), "{again}");
    home.write("ada.toml", &fleet(&server, "budget = { starting = \"99\" }"));
    let refused = home.run(&["plan", "-f", "ada.toml"]).ok().stdout;
    assert!(refused.contains("! being/ada  `budget.starting` cannot change after birth"), "{refused}");
}
