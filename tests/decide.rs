//! Decisions from the command line: scores of a real model, rows in and out, and every refusal before a model is asked.
#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use serde_json::{Value, json};
use support::{
    Home, PATIENT,
    openai::{Reply, Seen, Server},
};

const LOGIN: &str = "login=Trouble with signing in or with a password";
const MONEY: &str = "money=Invoices, refunds and payments";

fn row(id: &str, state: &Value, options: &[(&str, &str)]) -> Value {
    let options: Vec<_> = options.iter().map(|(id, description)| json!({ "id": id, "description": description })).collect();
    json!({ "id": id, "state": state, "question": "Which desk handles this?", "options": options })
}

fn decide(home: &Home, more: &[&str]) -> Value {
    let asked =
        ["decide", "--state", "I cannot log in", "--question", "Which desk?", "--option", LOGIN, "--option", MONEY, "-o", "json"];
    home.run_within(PATIENT, &[&asked[..], more].concat()).ok().json()
}

#[test]
fn a_decision_is_a_probability_for_each_option_and_comes_out_the_same_each_time() {
    let home = Home::with_models();
    let decision = decide(&home, &[]);
    let probabilities: Vec<f64> = decision["probabilities"].as_array().expect("numbers").iter().filter_map(Value::as_f64).collect();
    assert_eq!(decision["option_ids"], json!(["login", "money"]));
    assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9 && probabilities.len() == 2, "{decision:#}");
    let best = if probabilities[0] >= probabilities[1] { "login" } else { "money" };
    assert_eq!(decision["selected"], json!(best));
    assert!(decision["prompt_sha256"].as_str().is_some_and(|digest| digest.len() == 64), "{decision:#}");
    assert_eq!(decide(&home, &[]), decision);
    let hot = decide(&home, &["--temperature", "100"]);
    let spread = |decision: &Value| {
        decision["probabilities"].as_array().expect("numbers").iter().filter_map(Value::as_f64).fold(0.0, f64::max)
    };
    assert!(spread(&hot) <= spread(&decision), "a temperature evens out: {hot:#}");
    assert_eq!(decide(&home, &["--min-mass", "1"])["selected"], Value::Null, "what the model would rather not say is not selected");
}

#[test]
fn rows_are_decided_one_by_one_and_the_order_of_options_changes_nothing_when_all_orders_are_shown() {
    let home = Home::with_models();
    let options = [("a", "A question about the weather"), ("b", "A question about money"), ("c", "Anything else")];
    let mut turned = options;
    turned.rotate_left(1);
    let state = json!({ "message": "Will it rain tomorrow?", "from": "ann" });
    let rows = [row("one", &state, &options), row("two", &state, &turned)].map(|row| row.to_string()).join("\n\n");
    let file = home.write("rows.jsonl", &rows);
    let said = home.run_within(PATIENT, &["decide", "--rows", file.to_str().expect("UTF-8"), "--rotations", "3"]).ok();
    let decisions: Vec<Value> = said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(decisions.iter().map(|decision| decision["id"].as_str()).collect::<Vec<_>>(), [Some("one"), Some("two")]);
    assert_eq!(decisions[0]["selected"], decisions[1]["selected"]);
    let of = |decision: &Value, id: &str| {
        let at = decision["option_ids"].as_array().expect("ids").iter().position(|known| known == id).expect("an option");
        decision["probabilities"][at].as_f64().expect("a number")
    };
    for (id, _) in options {
        assert!((of(&decisions[0], id) - of(&decisions[1], id)).abs() < 1e-6, "{id}: {decisions:#?}");
    }
}

#[test]
fn what_is_no_decision_is_refused_before_a_model_is_asked_for() {
    let home = Home::new();
    let refused = |arguments: &[&str], words: &str| {
        let said = home.run(&[&["decide"], arguments].concat());
        assert!(said.code() == 2 && said.stderr.contains(words) && said.stdout.is_empty(), "{arguments:?}: {}", said.stderr);
    };
    let asked = ["--state", "s", "--question", "q"];
    refused(&[&asked[..], &["--option", "a=x"]].concat(), "options must contain 2-16 entries");
    refused(&[&asked[..], &["--option", "a=x", "--option", "a=y"]].concat(), "Option IDs must be unique");
    refused(&[&asked[..], &["--option", "a"]].concat(), "write an id");
    refused(
        &["--state", "", "--question", "q", "--option", "a=x", "--option", "b=y"],
        "state must be a nonempty string, object, or array",
    );
    refused(&["--question", "q", "--option", "a=x", "--option", "b=y"], "--state");
    refused(&["--rows", "gone.jsonl"], "cannot read gone.jsonl");
    home.write("rows.jsonl", "\n{\"id\": \"r\"}\n");
    refused(&["--rows", "rows.jsonl"], "rows.jsonl line 2: Row is missing fields: ['options', 'question', 'state']");
    home.write("rows.jsonl", "{");
    refused(&["--rows", "rows.jsonl"], "rows.jsonl line 1: it is no JSON");
    home.write("rows.jsonl", "");
    refused(&["--rows", "rows.jsonl"], "holds no rows");
    assert!(!home.path().exists(), "nothing was made for what was refused");
    home.write("bad.gguf", "no weights");
    let options = ["--option", "a=x", "--option", "b=y", "--model-file", "bad.gguf"];
    let said = home.run(&[&["decide"], &asked[..], &options].concat());
    assert!(said.code() == 3 && said.stderr.contains("not a sound GGUF file"), "{}", said.stderr);
}

/// A server whose model likes the option that speaks of money, wherever it stands.
fn likes_money(seen: &Seen) -> Reply {
    let asked: Value = serde_json::from_str(seen.said_by("user")[0]).expect("the decision as JSON");
    let options = asked["options"].as_array().expect("options");
    let listed = options.iter().map(|option| {
        let likes = option["description"].as_str().is_some_and(|text| text.contains("refunds"));
        json!({ "token": option["letter"], "logprob": if likes { -0.2 } else { -3.0 } })
    });
    let logprobs = json!({ "content": [{ "token": "A", "logprob": -0.2, "top_logprobs": listed.collect::<Vec<_>>() }] });
    let choice =
        json!({ "index": 0, "message": { "role": "assistant", "content": "A" }, "finish_reason": "length", "logprobs": logprobs });
    Reply::json(200, &json!({ "model": "big", "choices": [choice], "usage": { "prompt_tokens": 90, "completion_tokens": 1 } }))
}

#[test]
fn a_declared_model_behind_a_server_is_read_in_each_order_and_one_that_lists_no_scores_is_an_error() {
    let home = Home::new();
    let server = Server::start(likes_money);
    let file = home.write("models.toml", &server.model());
    let asked = ["decide", "-f", file.to_str().expect("UTF-8"), "--state", "I was charged twice", "--question", "Which desk?"];
    let options = ["--option", LOGIN, "--option", MONEY, "-o", "json"];
    let decision = home.run(&[&asked[..], &options].concat()).ok().json();
    assert_eq!((&decision["selected"], &decision["agreement"], &decision["model"]), (&json!("money"), &json!(1.0), &json!("big")));
    assert_eq!((server.seen().len(), &decision["input_tokens"]), (2, &json!(180)), "each order of two options is shown once");
    assert!(decision["allowed_token_mass"].as_f64().is_some_and(|mass| mass > 0.8 && mass < 1.0), "{decision:#}");
    let body = server.seen()[0].body.clone();
    assert_eq!((&body["max_tokens"], &body["logprobs"]), (&json!(1), &json!(true)));
    assert!(!body.to_string().contains("login"), "ids are never shown to a model: {body}");

    let silent = Server::start(|_| Reply::say("A"));
    home.write("models.toml", &silent.model());
    let said = home.run(&[&asked[..], &options].concat());
    assert!(said.code() == 3 && said.stderr.contains("lists no `top_logprobs`"), "{}", said.stderr);
    assert!(!home.path().exists());
    let unknown = home.run(&[&asked[..], &options, &["--model", "gone"]].concat());
    assert!(
        unknown.code() == 2 && unknown.stderr.contains("model/gone is not declared; the manifests declare scripted"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn meanings_route_what_no_word_of_an_option_says_and_the_order_of_options_changes_nothing() {
    let home = Home::with_meanings();
    let options = [LOGIN, MONEY, "none=Anything else"];
    let decide = |state: &str, options: &[&str]| {
        let mut asked = vec!["decide", "--engine", "embedding", "--state", state, "--question", "Which desk?", "-o", "json"];
        asked.extend(options.iter().flat_map(|option| ["--option", option]));
        home.run_within(PATIENT, &asked).ok().json()
    };
    let lost = decide("I forgot the secret word for my account", &options);
    assert_eq!((&lost["selected"], &lost["model"]), (&json!("login"), &json!("all-MiniLM-L6-v2")), "{lost:#}");
    let turned = decide("I forgot the secret word for my account", &[options[2], options[1], options[0]]);
    assert_eq!(turned["selected"], json!("login"));
    let of = |decision: &Value, at: usize| decision["probabilities"][at].as_f64().expect("a number");
    assert!((0..3).all(|at| (of(&lost, at) - of(&turned, 2 - at)).abs() < 1e-12), "{lost:#} {turned:#}");
    assert_eq!(decide("Can I get my money back?", &options)["selected"], json!("money"));
    assert_eq!(decide("Who wrote Hamlet?", &options)["selected"], json!("none"));
}

#[test]
fn an_embedding_model_that_is_broken_is_an_error_and_never_a_guess() {
    let home = Home::with_meanings();
    home.write("home/models/all-MiniLM-L6-v2/tokenizer.json", "{}");
    // Without a package index what is broken cannot be fetched anew.
    let asked = ["decide", "--engine", "embedding", "--state", "s", "--question", "q", "--option", LOGIN, "--option", MONEY];
    let said = home.command(&asked).env("PIP_NO_INDEX", "1").output().expect("the binary starts");
    let told = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.code() == Some(3) && said.stdout.is_empty() && told.contains("pip could not fetch"), "{told}");
}
