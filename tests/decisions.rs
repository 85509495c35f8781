//! Decisions that are kept: asked of the daemon, measured, labelled by a person, and exported.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
};

use serde_json::{Value, json};
use support::{
    Home, SOON,
    openai::{Reply, Seen, Server},
    wait_for,
};

/// A model that likes the options which speak of money, of `true` and of what is worst, more than others.
fn likes_money(seen: &Seen) -> Reply {
    let asked: Value = serde_json::from_str(seen.said_by("user")[0]).expect("the decision as JSON");
    let listed = asked["options"].as_array().expect("options").iter().map(|option| {
        let likes = option["description"]
            .as_str()
            .is_some_and(|text| ["Invoices", "Yes", "stopped"].iter().any(|word| text.starts_with(word)));
        json!({ "token": option["letter"], "logprob": if likes { -0.1 } else { -3.0 } })
    });
    let logprobs = json!({ "content": [{ "token": "A", "logprob": -0.1, "top_logprobs": listed.collect::<Vec<_>>() }] });
    let message = json!({ "role": "assistant", "content": "A" });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "length", "logprobs": logprobs });
    Reply::json(200, &json!({ "model": "big", "choices": [choice], "usage": { "prompt_tokens": 9, "completion_tokens": 1 } }))
}

/// Asks the daemon of a home.
fn ask(home: &Home, body: &str) -> (u16, Value, Option<String>) {
    let mut socket = UnixStream::connect(home.path().join("daemon.sock")).expect("a daemon listens");
    socket.set_read_timeout(Some(SOON)).expect("a deadline");
    let head = format!("POST /v1/systemone HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    socket.write_all(format!("{head}{body}").as_bytes()).expect("it is read");
    let mut said = String::new();
    socket.read_to_string(&mut said).expect("an answer");
    let (head, body) = said.split_once("\r\n\r\n").expect("a head and a body");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let backend = head.lines().find_map(|line| line.strip_prefix("x-semif-backend: ")).map(str::to_owned);
    (status, serde_json::from_str(body).expect("JSON"), backend)
}

fn questions() -> Value {
    json!({
        "urgent": { "type": "noul", "instructions": "Is it urgent?" },
        "desk": { "type": "choice", "instructions": "Which desk?", "criteria": { "login": "Sign-in trouble", "money": "Invoices" } },
        "harm": { "type": "score", "instructions": "How bad?", "criteria": ["small", "middling", "stopped"] },
    })
}

fn rows(home: &Home, more: &[&str]) -> Vec<Value> {
    let said = home.run(&[&["decisions", "export"], more].concat()).ok();
    said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn what_the_daemon_decides_is_kept_measured_and_corrected_by_a_person() {
    let (home, server) = (Home::new(), Server::start(likes_money));
    let file = home.write("fleet.toml", &format!("{}\n[decision.desk]\nmodel = \"scripted\"\nrotations = 2\n", server.model()));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let (status, answer, backend) = ask(&home, &json!({ "state": "I was charged twice.", "questions": questions() }).to_string());
    assert_eq!((status, backend.as_deref()), (200, Some("readout")), "{answer:#}");
    assert!(answer["answers"]["urgent"]["noul"].as_f64().is_some_and(|p| p > 0.9), "{answer:#}");
    assert_eq!(answer["answers"]["desk"]["choice"], "money");
    assert!(answer["answers"]["harm"]["score"].as_f64().is_some_and(|score| score > 1.7 && score <= 2.0), "{answer:#}");
    assert_eq!(answer["answers"]["harm"]["legend"]["2"], "stopped");
    assert_eq!(answer["usage"], json!({ "input_tokens": 6 * 9, "output_tokens": 0 }), "three questions, each in two orders");

    let kept = wait_for(SOON, "three rows", || Some(rows(&home, &[])).filter(|rows| rows.len() == 3));
    let desk = kept.iter().find(|row| row["question"] == "Which desk?").expect("the row");
    assert_eq!(
        (&desk["state"], &desk["selected"], &desk["observed_outcome"]),
        (&json!("I was charged twice."), &json!("money"), &json!("money"))
    );
    assert_eq!(
        (&desk["label_source"], &desk["weight"], &desk["model"], &desk["phase"]),
        (&json!("self"), &json!(1.0), &json!("big"), &json!("systemone"))
    );
    assert!(desk["elapsed_ms"].as_f64().is_some_and(|elapsed| elapsed > 0.0) && desk["tokens"] == 18, "{desk:#}");
    let report = |home: &Home| home.run(&["decisions", "report", "-o", "json"]).ok().json();
    assert_eq!((&report(&home)["all"]["rows"], &report(&home)["all"]["accuracy"]), (&json!(3), &json!(1.0)));

    let id = desk["id"].as_str().expect("an id");
    home.run(&["decisions", "relabel", id, "login"]).ok();
    let labelled = rows(&home, &["--human"]);
    assert_eq!(labelled.len(), 1);
    assert_eq!(
        (&labelled[0]["id"], &labelled[0]["observed_outcome"], &labelled[0]["weight"]),
        (&json!(id), &json!("login"), &json!(3.0))
    );
    let measured = report(&home);
    assert!(measured["all"]["accuracy"].as_f64().is_some_and(|share| (share - 2.0 / 3.0).abs() < 1e-9), "{measured:#}");
    assert_eq!((&measured["all"]["human_accuracy"], &measured["worst"][0]["id"]), (&json!(0.0), &json!(id)));
    assert!(
        measured["all"]["cross_entropy"].as_f64() > measured["all"]["nll"].as_f64(),
        "a person's label weighs more: {measured:#}"
    );
    let told = home.run(&["decisions", "report"]).ok().stdout;
    assert!(told.contains("COSTLIEST") && told.contains("systemone"), "{told}");

    for (arguments, words) in [(["gone", "login"], "no row with id gone"), ([id, "gone"], "it has login, money")] {
        let refused = home.run(&["decisions", "relabel", arguments[0], arguments[1]]);
        assert!(refused.code() == 2 && refused.stderr.contains(words), "{}", refused.stderr);
    }
    home.run(&["down"]).ok();
    assert_eq!(rows(&home, &[]).len(), 3, "the log outlives the daemon");
}

#[test]
fn a_question_that_cannot_be_answered_is_refused_in_the_words_of_the_interface() {
    let (home, server) = (Home::new(), Server::start(likes_money));
    let decisions = "[decision.desk]\nmodel = \"scripted\"\n[decision.near]\nengine = \"embedding\"\n";
    let file = home.write("fleet.toml", &format!("{}\n{decisions}", server.model()));
    home.run(&["apply", "-f", file.to_str().expect("UTF-8")]).ok();
    let asked = |model: &str| json!({ "model": model, "state": "s", "questions": questions() }).to_string();
    let refused = |body: &str, code: &str, words: &str| {
        let (status, answer, backend) = ask(&home, body);
        assert_eq!((status, &answer["error"]["code"], backend), (422, &json!(code), None), "{answer:#}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.contains(words)), "{answer:#}");
    };
    refused("{", "invalid_body", "no JSON");
    refused(&asked("gone"), "unknown_model", "there are desk, near, scripted");
    refused(&asked("semif-latest"), "unknown_model", "`model` must say which");
    let one = json!({ "model": "desk", "state": "s", "questions": { "q": { "type": "choice", "instructions": "Which?", "criteria": { "a": "A" } } } });
    refused(&one.to_string(), "option_count_unsupported", "2 to 16");
    assert_eq!(ask(&home, &asked("scripted")).0, 200, "a model can be read without a decision");
    assert!(server.seen().len() >= 3);
}
