//! What the public conformance suite asks of a client, asked of a being whose one surface is the suite's server.
#![expect(clippy::indexing_slicing, reason = "a test may fail")]

#[cfg(test)]
mod support;

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::{Map, Value, json};
use support::{
    BINARY, Home, conformance,
    openai::{Reply, Seen, Server},
};

/// How many scenarios the suite has for clients.
const SCENARIOS: usize = 26;
/// The scenario that measures how soon a client comes back.
const TIMED: &str = "sse-retry";
/// How long all of them may take.
const DEADLINE: Duration = Duration::from_secs(240);

/// What the suite starts for each scenario, with the URL of its server: a being that calls every tool there is. Where a person is asked,
/// one is there who takes what is proposed, and opens the addresses that are shown. What clients and keys there are, the suite says in a
/// variable; its URL of a metadata document is always the same.
const CLIENT: &str = r#"#!/bin/sh
here=$(mktemp -d "$AROUND/being-XXXXXX")
export SINGULARITY_HOME="$here/home"
cd "$here" || exit 1
umask 077
told() { "$NODE" -p "(JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}'))['$1'] || ''"; }
told client_secret > secret
told private_key_pem > key
case $MCP_CONFORMANCE_SCENARIO in
auth/client-credentials-basic)
    oauth="grant = 'client_credentials', client_id = '$(told client_id)', client_secret = { file = 'secret' }" ;;
auth/client-credentials-jwt)
    oauth="grant = 'client_credentials', client_id = '$(told client_id)', private_key = { file = 'key' }" ;;
auth/pre-registration)
    oauth="client_id = '$(told client_id)', client_secret = { file = 'secret' }" ;;
*) oauth="client_metadata = 'https://conformance-test.local/client-metadata.json'" ;;
esac
case $MCP_CONFORMANCE_SCENARIO in auth/*) oauth="oauth = { $oauth }" every=1s ;; *) oauth="" every=1h ;; esac
cat > ada.toml <<END
$MODEL
[surface.s]
url = "$1"
$oauth
[being.ada]
model = "scripted"
las = { required = ["s"] }
cycle = { every = "$every" }
END
opened='const shown = JSON.parse(require("fs").readFileSync(0)).find((question) => question.id === "surface/s");
if (shown) fetch(shown.form.url, { redirect: "manual" }).then((sent) => console.log(sent.headers.get("location") || ""));'
case $MCP_CONFORMANCE_SCENARIO in
auth/*)
    # It waits for what the answer brings.
    "$BINARY" apply -f ada.toml &
    for _ in $(seq 80); do
        address=$("$BINARY" questions -o json | "$NODE" -e "$opened")
        [ -z "$address" ] || "$BINARY" answer surface/s --value code="$address"
        "$BINARY" logs being/ada 2>/dev/null | grep tool_finished | grep -q success && break
        sleep 0.1
    done
    exec "$BINARY" down ;;
elicitation-*)
    "$BINARY" apply -f ada.toml
    until "$BINARY" questions -o name | grep -q .; do sleep 0.1; done
    "$BINARY" answer "$("$BINARY" questions -o name)"
    until "$BINARY" logs being/ada | grep -q tool_finished; do sleep 0.1; done
    exec "$BINARY" down ;;
*) exec "$BINARY" once -f ada.toml ;;
esac
"#;

#[test]
fn nothing_is_lost_between_a_client_and_its_server() {
    let (Some(node), Some(suite)) = (conformance::node(), conformance::suite()) else { return };
    let (home, model) = (Home::new(), Server::start(|seen: &Seen| next_call(seen)));
    let script = home.write("client.sh", CLIENT);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("a script of our own");
    let around = home.around().to_str().expect("UTF-8").to_owned();
    let node_path = node.to_str().expect("UTF-8");
    let variables = [("AROUND", around.as_str()), ("BINARY", BINARY), ("MODEL", &model.model()), ("NODE", node_path)];
    let command = format!("/usr/bin/env {}", script.display());
    let arguments = ["client", "--command", &command, "--suite", "all"];
    let mut verdicts = conformance::run_with(&node, &suite, &arguments, &variables, DEADLINE);
    // It looks at the clock, which means little while all the others run beside it.
    let alone = ["client", "--command", &command, "--scenario", TIMED];
    verdicts.extend(conformance::run_with(&node, &suite, &alone, &variables, DEADLINE));
    conformance::compare(&verdicts, SCENARIOS, "conformance/client.toml");
}

/// Calls each tool of the surface once, with arguments of the right types.
fn next_call(seen: &Seen) -> Reply {
    let called = seen.said_by("tool").len();
    let offered = seen.body["tools"].as_array().into_iter().flatten().map(|tool| &tool["function"]);
    match offered.filter(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with("s__"))).nth(called) {
        Some(tool) => Reply::call(tool["name"].as_str().unwrap_or_default(), fitting(&tool["parameters"])),
        None => Reply::say("That was all."),
    }
}

fn fitting(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let filled = properties.map(|(name, property)| {
        let is_number = matches!(property["type"].as_str(), Some("number" | "integer"));
        (name.clone(), if is_number { json!(3) } else { json!("x") })
    });
    Value::Object(filled.collect::<Map<_, _>>())
}
