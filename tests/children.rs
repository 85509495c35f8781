//! Children: made once with their parent's money, capped by the operator, alive after a crash, and gone before their parents.
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use serde_json::{Value, json};
use support::{
    Home, PATIENT, SOON,
    openai::{Reply, Seen, Server},
    wait_for, wait_until,
};

const SPAWN: &str = "singularity_spawn_child";

fn child(name: &str, usd: Option<&str>) -> Value {
    let mut arguments = json!({ "name": name, "ticker": "KID", "specialty": "maps" });
    if let Some(usd) = usd {
        arguments["usd"] = json!(usd);
    }
    arguments
}

/// Ada asks for these children at once, and each of them, where it can, for one of its own; all are content then.
fn parent(wanted: Vec<(&'static str, Option<&'static str>)>) -> Server {
    Server::start(move |seen: &Seen| {
        let is_ada = seen.said_by("system").iter().any(|text| text.contains("You are ada,"));
        if !seen.said_by("tool").is_empty() || !seen.tools().contains(&SPAWN) {
            return Reply::say("well");
        }
        if !is_ada {
            return Reply::calls(&[("own", SPAWN, child("Kid", Some("0.1")))]);
        }
        let ids = ["one", "two", "three", "four"];
        let calls: Vec<_> = ids.iter().zip(&wanted).map(|(id, (name, usd))| (*id, SPAWN, child(name, *usd))).collect();
        Reply::calls(&calls)
    })
}

fn manifest(server: &Server, children: &str) -> String {
    let model = server.model();
    format!(
        r#"{model}
[being.ada]
model = "scripted"
cycle = {{ every = "1h" }}
budget = {{ starting = "2" }}
capabilities = {{ children = {children} }}
"#
    )
}

fn beings(home: &Home) -> Vec<Value> {
    let listed = home.run(&["get", "beings", "-o", "json"]).ok().json();
    listed["items"].as_array().cloned().unwrap_or_default()
}

fn facts(home: &Home, address: &str) -> Option<Value> {
    beings(home).into_iter().find(|item| item["address"] == address).map(|item| item["being"].clone())
}

fn lived(home: &Home, address: &str) -> Value {
    wait_for(PATIENT, address, || {
        facts(home, address).filter(|facts| facts["cycle"].as_u64() > Some(0) && facts["activity"].to_string().contains("resting"))
    })
}

/// What ada was told of her calls.
fn told(home: &Home) -> Vec<(String, String)> {
    let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
    let envelope = |event: &Value| serde_json::from_str::<Value>(&text(event, "result")).unwrap_or_default();
    let message = |event: &Value| envelope(event)["content"]["message"].as_str().unwrap_or_default().to_owned();
    home.events("ada", "tool_finished").iter().map(|event| (text(event, "status"), message(event))).collect()
}

#[test]
fn children_are_made_within_what_the_operator_allows_and_shown_as_a_tree() {
    let server = parent(vec![("Scout", Some("0.5")), ("Rich", Some("1.01")), ("Scout", None), ("Twin", None)]);
    let home = Home::new();
    let file = home.write("ada.toml", &manifest(&server, r#"{ max = 2, budget = "1", depth = 2 }"#));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let addresses = ["being/ada.scout", "being/ada.scout.kid", "being/ada.twin", "being/ada.twin.kid"];
    let [scout, kid, ..] = addresses.map(|address| lived(&home, address));
    assert_eq!((&scout["parent"], &kid["parent"]), (&json!("being/ada"), &json!("being/ada.scout")));
    let told = told(&home);
    assert_eq!(told.iter().map(|(status, _)| status.as_str()).collect::<Vec<_>>(), ["success", "failed", "failed", "success"]);
    assert_eq!(told[1].1, "the operator lets a child be born with up to 1 USD, and 1.01 were asked for");
    assert_eq!(told[2].1, "a child called `scout` was made before; choose another name");
    let of_kids = |seen: &Seen| seen.said_by("system").iter().any(|text| text.contains("You are Kid,"));
    let kids = server.seen();
    assert!(
        kids.iter().filter(|seen| of_kids(seen)).all(|seen| !seen.tools().contains(&SPAWN)),
        "the last generation has no such tool"
    );
    assert!(kids.iter().any(of_kids));

    let shown = home.run(&["get", "beings"]).ok().stdout;
    let rows: Vec<&str> = shown.lines().skip(1).filter_map(|row| row.split("  True").next()).map(str::trim_end).collect();
    assert_eq!(rows, ["being/ada", "  being/ada.scout", "    being/ada.scout.kid", "  being/ada.twin", "    being/ada.twin.kid"]);
    let described = home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(described.contains("child       being/ada.scout:"), "{described}");
    assert!(home.run(&["logs", "ada.scout"]).ok().stdout.contains("child_spawned"));
    home.run(&["down"]).ok();
    let budget = home.state("ada")["budget"].clone();
    let spent: f64 = budget["api_spent"].as_str().and_then(|usd| usd.parse().ok()).expect("an amount");
    let left: f64 = budget["remaining"].as_str().and_then(|usd| usd.parse().ok()).expect("an amount");
    assert_eq!(budget["given"], "1.5");
    assert!((left + spent - 0.5).abs() < 1e-9, "{budget}");
    let at_rest = home.run(&["get", "beings", "-o", "name"]).ok().stdout;
    assert_eq!(at_rest.lines().count(), 5, "{at_rest}");
}

#[test]
fn a_child_is_born_once_with_its_money_though_the_daemon_is_killed_right_after_it_was_made() {
    let server = parent(vec![("Scout", Some("0.5"))]);
    let home = Home::new();
    let file = home.write("ada.toml", &manifest(&server, r#"{ max = 1, budget = "1" }"#));
    let file = file.to_str().expect("UTF-8");
    home.run(&["apply", "-f", file, "--detach"]).ok();
    wait_until(PATIENT, "ada made a child", || !home.events("ada", "child_spawned").is_empty());
    home.daemon().expect("a daemon").kill();
    wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
    for _ in 0..2 {
        home.run(&["apply", "-f", file]).ok();
        let scout = lived(&home, "being/ada.scout");
        assert_eq!(scout["spent_usd"].as_str().map(|spent| spent.starts_with("0.0000")), Some(true), "{scout}");
        home.daemon().expect("a daemon").kill();
        wait_until(SOON, "the daemon is gone", || home.daemon().is_none());
    }
    home.run(&["apply", "-f", file]).ok();
    lived(&home, "being/ada.scout");
    home.run(&["down"]).ok();
    let made = home.events("ada", "child_spawned");
    assert_eq!(made.len(), 1);
    let dir = format!("ada/children/{}", made[0]["child"]["id"].as_str().expect("an id"));
    let births = home.events(&dir, "started").into_iter().filter(|event| event.get("birth").is_some()).collect::<Vec<_>>();
    assert_eq!((births.len(), &births[0]["birth"]["starting"]), (1, &json!("0.5")));
    assert_eq!((&home.state("ada")["budget"]["given"], &home.state(&dir)["budget"]["starting"]), (&json!("0.5"), &json!("0.5")));
}

#[test]
fn a_parent_that_is_deleted_stops_after_its_children_and_a_deleted_child_makes_room() {
    let server = parent(vec![("Scout", Some("0.5"))]);
    let home = Home::new();
    let file = home.write("ada.toml", &manifest(&server, r#"{ max = 1, budget = "1" }"#));
    let file = file.to_str().expect("UTF-8").to_owned();
    home.run(&["apply", "-f", &file]).ok();
    let scout = lived(&home, "being/ada.scout");
    let id = scout["agent_id"].as_str().expect("an id").to_owned();
    let dir = format!("ada/children/{id}");
    let said = home.run(&["delete", "being/ada"]).ok().stderr;
    assert!(said.contains("the state of being/ada is kept"), "{said}");
    assert_eq!(beings(&home).len(), 0);
    let stopped = |being: &str| home.events(being, "stopped").last().map(|event| event["at"].to_string()).expect("a stop");
    let stopping = |being: &str| home.events(being, "stopping").last().map(|event| event["at"].to_string()).expect("a stop");
    assert!(stopped(&dir) <= stopping("ada"), "the child is gone before the parent begins to stop");

    home.run(&["apply", "-f", &file]).ok();
    lived(&home, "being/ada.scout");
    let said = home.run(&["delete", "being/ada.scout", "--purge"]).ok().stderr;
    assert!(said.contains("being/ada.scout is deleted") && said.contains("is removed"), "{said}");
    wait_until(SOON, "ada knows", || !home.events("ada", "child_changed").is_empty());
    assert!(facts(&home, "being/ada.scout").is_none() && !home.being(&dir).exists());
    home.run(&["down"]).ok();
    home.run(&["apply", "-f", &file]).ok();
    assert_eq!(beings(&home).len(), 1, "a deleted child is not started again");
    let unknown = home.run(&["delete", "being/ada.nobody"]);
    assert!(unknown.code() == 2 && unknown.stderr.contains("being/ada has no child being/ada.nobody"), "{}", unknown.stderr);
    let said = home.run(&["delete", "being/ada", "--purge"]).ok().stderr;
    assert!(said.contains("is removed") && !home.being("ada").exists(), "{said}");
}

#[test]
fn no_more_children_live_than_the_operator_allows_and_an_edit_of_the_parent_reaches_those_that_do() {
    let server = parent(vec![("Scout", Some("0.5")), ("Twin", Some("0.5"))]);
    let home = Home::new();
    let file = home.write("ada.toml", &manifest(&server, r#"{ max = 1, budget = "1" }"#));
    let file = file.to_str().expect("UTF-8").to_owned();
    home.run(&["apply", "-f", &file]).ok();
    lived(&home, "being/ada.scout");
    wait_until(PATIENT, "ada was told of both", || told(&home).len() == 2);
    let told = told(&home);
    assert_eq!((told[0].0.as_str(), told[1].0.as_str()), ("success", "failed"));
    assert!(told[1].1.contains("1 children live, and the operator allows 1"), "{told:?}");
    assert!(facts(&home, "being/ada.twin").is_none());

    let edited = manifest(&server, r#"{ max = 1, budget = "1" }"#).replace(r#"every = "1h""#, r#"every = "1h", limit = 1"#);
    home.write("ada.toml", &edited);
    home.run(&["apply", "-f", &file]).ok();
    wait_until(SOON, "the child lives by the edit", || {
        facts(&home, "being/ada.scout").is_some_and(|facts| facts["activity"].to_string().contains("finished"))
    });
    home.run(&["down"]).ok();
}

#[test]
fn a_child_that_has_used_up_its_money_rests_and_takes_none_of_its_parents() {
    let server = parent(vec![("Scout", Some("0.000001"))]);
    let home = Home::new();
    let file = home.write("ada.toml", &manifest(&server, r#"{ max = 1, budget = "1" }"#));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let scout = wait_for(PATIENT, "the child is exhausted", || {
        facts(&home, "being/ada.scout").filter(|facts| facts["activity"].to_string().contains("out of money"))
    });
    assert_eq!(scout["parent"], "being/ada");
    let of_scout = |seen: &Seen| seen.said_by("system").iter().any(|text| text.contains("You are Scout,"));
    assert_eq!(server.seen().iter().filter(|seen| of_scout(seen)).count(), 1, "what is spent once is asked for no more");
    home.run(&["down"]).ok();
    assert_eq!(home.state("ada")["budget"]["given"], "0.000001");
}

#[test]
fn down_stops_children_before_their_parents() {
    let server = parent(vec![("Scout", Some("0.5"))]);
    let home = Home::new();
    let file = home.write("ada.toml", &manifest(&server, r#"{ max = 1, budget = "1" }"#));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let scout = lived(&home, "being/ada.scout");
    let dir = format!("ada/children/{}", scout["agent_id"].as_str().expect("an id"));
    home.run(&["down"]).ok();
    let at = |being: &str, kind: &str| home.events(being, kind).last().map(|event| event["at"].to_string()).expect("an end");
    assert!(at(&dir, "stopped") <= at("ada", "stopping"), "the child is gone before its parent begins to stop");
}
