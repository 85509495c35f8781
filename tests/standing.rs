//! Las standing alone, as the binary serves it: what a client would lose, and what a stranger would gain.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may fail")]

#[path = "support/las.rs"]
mod joined;
#[cfg(test)]
mod support;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

use reqwest::{Client, RequestBuilder, StatusCode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use singularity::{
    manifest::{SecretSource, TransportSpec},
    surface::{Remote, las::Las},
};
use support::{Home, Life, SOON, proc, wait_for, wait_until};

/// A server that says back what it is told, and adds a tool when asked to; its prompt and its resources tell its first argument.
const ECHO: &str = r#"
import json, sys
tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ["say", "grow", "drop_all"]]
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        info = {"name": "echo", "version": "1"}
        able = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": info})
    elif method == "tools/list":
        send(id=id, result={"tools": tools})
    elif method == "tools/call" and params["name"] == "grow":
        tools.append({"name": "grown", "inputSchema": {"type": "object"}})
        send(method="notifications/tools/list_changed")
        send(id=id, result={"content": []})
    elif method == "tools/call":
        send(id=id, result={"content": [{"type": "text", "text": params["name"] + ": " + json.dumps(params.get("arguments"))}]})
    elif method == "prompts/list":
        send(id=id, result={"prompts": [{"name": "ask"}]})
    elif method == "prompts/get":
        said = {"type": "text", "text": sys.argv[1] + " " + params["name"]}
        send(id=id, result={"messages": [{"role": "user", "content": said}]})
    elif method == "resources/list":
        send(id=id, result={"resources": [{"uri": f"mem://{sys.argv[1]}/x", "name": "x"}]})
    elif method == "resources/templates/list":
        send(id=id, result={"resourceTemplates": [{"uriTemplate": f"row://{sys.argv[1]}/{{id}}", "name": "row"}]})
    elif method == "resources/read":
        send(id=id, result={"contents": [{"uri": params["uri"], "text": sys.argv[1]}]})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "method not found"})
"#;

/// A home with the server and two surfaces of it, the second with terms.
fn home() -> Home {
    let home = Home::new();
    home.write("echo.py", ECHO);
    home.write(
        "las.toml",
        "[surface.echo]\ncommand = [\"python3\", \"{workspace}/echo.py\", \"echo\"]\n\n\
         [surface.safe]\ncommand = [\"python3\", \"{workspace}/echo.py\", \"safe\"]\ndeny = [\"drop_*\"]\nrename = { \"say\" = \"tell\" }\n",
    );
    home
}

/// A Las that listens, and where.
fn listening(home: &Home, more: &[&str]) -> (Life, String) {
    let life = home.spawn(&[&["las", "-f", "las.toml", "--http", "127.0.0.1:0"], more].concat());
    let url = wait_for(SOON, "the URL is printed", || {
        let (stdout, stderr) = life.said();
        assert!(!stderr.contains("singularity:"), "{stderr}");
        stdout.strip_suffix('\n').map(str::to_owned)
    });
    (life, url)
}

fn client() -> Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::builder().timeout(SOON).build().unwrap()
}

fn post(client: &Client, url: &str, message: &Value) -> RequestBuilder {
    client.post(url).header("accept", "application/json, text/event-stream").json(message)
}

fn greeting(capabilities: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "clientInfo": { "name": "test", "version": "0" }, "capabilities": capabilities,
    }})
}

/// The JSON-RPC answer in a body of server-sent events.
fn answer(body: &str) -> Value {
    let data = body.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).find(|data| data.starts_with('{'));
    serde_json::from_str(data.unwrap_or(body)).unwrap_or_else(|error| panic!("{error}: {body}"))
}

/// Greets, and yields a way to ask within the session.
async fn session(client: &Client, url: &str, capabilities: &Value) -> impl AsyncFn(&str, Value) -> Value + use<> {
    let greeted = post(client, url, &greeting(capabilities)).send().await.unwrap();
    assert_eq!(greeted.status(), StatusCode::OK);
    let id = greeted.headers().get("mcp-session-id").expect("a session").clone();
    assert_eq!(answer(&greeted.text().await.unwrap()).pointer("/result/serverInfo/name"), Some(&json!("las")));
    let (client, url) = (client.clone(), url.to_owned());
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    post(&client, &url, &told).header("mcp-session-id", id.clone()).send().await.unwrap();
    async move |method: &str, params: Value| {
        let asked = json!({ "jsonrpc": "2.0", "id": 2, "method": method, "params": params });
        let said = post(&client, &url, &asked).header("mcp-session-id", id.clone()).send().await.unwrap();
        answer(&said.text().await.unwrap())
    }
}

fn names(listed: &Value) -> Vec<&str> {
    let tools = listed.pointer("/result/tools").and_then(Value::as_array).expect("a list of tools");
    tools.iter().filter_map(|tool| tool.get("name")?.as_str()).collect()
}

#[tokio::test]
async fn any_client_finds_the_surfaces_of_a_manifest_and_only_what_their_terms_offer() {
    let home = home();
    let (_life, url) = listening(&home, &[]);
    let ask = session(&client(), &url, &json!({})).await;
    let listed = ask("tools/list", json!({})).await;
    assert_eq!(names(&listed), ["echo__say", "echo__grow", "echo__drop_all", "safe__tell", "safe__grow"]);
    assert_eq!(listed.pointer("/result/_meta"), None, "why a surface is down is for its operator");
    let told = ask("tools/call", json!({ "name": "safe__tell", "arguments": { "a": 1 } })).await;
    assert_eq!(told.pointer("/result/content/0/text"), Some(&json!("say: {\"a\": 1}")), "{told}");
    for denied in ["safe__drop_all", "safe__say", "tell", "nobody__say"] {
        let told = ask("tools/call", json!({ "name": denied })).await;
        assert!(told.get("error").is_some(), "{denied}: {told}");
    }
}

#[tokio::test]
async fn a_prompt_or_a_resource_is_asked_of_the_surface_that_has_it() {
    let home = home();
    let (_life, url) = listening(&home, &[]);
    let ask = session(&client(), &url, &json!({})).await;
    let listed = ask("prompts/list", json!({})).await;
    assert_eq!(listed.pointer("/result/prompts"), Some(&json!([{ "name": "echo__ask" }, { "name": "safe__ask" }])));
    let filled = ask("prompts/get", json!({ "name": "safe__ask" })).await;
    assert_eq!(filled.pointer("/result/messages/0/content/text"), Some(&json!("safe ask")), "{filled}");
    let listed = ask("resources/list", json!({})).await;
    assert_eq!(listed.pointer("/result/resources/1/uri"), Some(&json!("mem://safe/x")), "{listed}");
    for (uri, surface) in [("mem://safe/x", "safe"), ("mem://echo/x", "echo"), ("row://safe/7", "safe")] {
        let read = ask("resources/read", json!({ "uri": uri })).await;
        assert_eq!(read.pointer("/result/contents/0/text"), Some(&json!(surface)), "{uri}: {read}");
    }
    for (method, stray) in [
        ("prompts/get", json!({ "name": "ask" })),
        ("resources/read", json!({ "uri": "mem://echo/y" })),
        ("resources/read", json!({ "uri": "file:///etc/passwd" })),
    ] {
        let told = ask(method, stray).await;
        assert!(told.get("error").is_some(), "{told}");
    }
}

#[tokio::test]
async fn names_are_kept_without_prefix_and_two_that_are_the_same_refused() {
    let home = home();
    let (_life, url) = listening(&home, &["--no-prefix", "--only", "e*"]);
    let ask = session(&client(), &url, &json!({})).await;
    assert_eq!(names(&ask("tools/list", json!({})).await), ["say", "grow", "drop_all"]);
    let told = ask("tools/call", json!({ "name": "say" })).await;
    assert_eq!(told.pointer("/result/content/0/text"), Some(&json!("say: {}")), "{told}");

    let both = home.run(&["las", "-f", "las.toml", "--no-prefix"]);
    assert_eq!(both.code(), 2);
    let told = "two tools are called `grow`: one of surface `echo` and one of surface `safe`";
    assert!(both.stderr.contains(told) && both.stderr.contains("hint:"), "{}", both.stderr);
    let none = home.run(&["las", "-f", "las.toml", "--skip", "*"]);
    assert!(none.code() == 2 && none.stderr.contains("declared are: echo, safe"), "{}", none.stderr);
}

#[tokio::test]
async fn our_own_client_finds_it_too() {
    let home = home();
    let (_life, url) = listening(&home, &["--no-prefix", "--only", "echo"]);
    let las = start(TransportSpec::Url { url, bearer: None, oauth: None }).await;
    let names = || las.tools().into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert_eq!(names(), ["far__say", "far__grow", "far__drop_all"]);
    let said = las.call("far__say", json!({ "x": [1] }).as_object().cloned().unwrap()).await.unwrap();
    assert_eq!(said.pointer("/content/0/text"), Some(&json!("say: {\"x\": [1]}")));
    las.stop(Duration::from_secs(5)).await;
}

async fn start(transport: TransportSpec) -> Las {
    let mut setting = joined::setting([("far", joined::surface(transport))]);
    setting.start.required = vec!["far".parse().unwrap()];
    Las::start(setting.start).await.unwrap()
}

#[tokio::test]
async fn a_greeting_from_outside_starts_no_process() {
    let home = home();
    let (_life, url) = listening(&home, &["--only", "echo"]);
    let trace = home.around().join("pwned");
    let stray = json!({ "way": { "command": ["touch", trace] }, "env": {}, "timeout": "5s" });
    let joins = json!({ "surfaces": { "stray": stray }, "workspace": "/", "patience": "5s", "tokens": "/" });
    let ask = session(&client(), &url, &json!({ "experimental": { "singularity.las/1": joins } })).await;
    assert_eq!(names(&ask("tools/list", json!({})).await), ["echo__say", "echo__grow", "echo__drop_all"]);
    assert!(!trace.exists());
}

#[tokio::test]
async fn a_page_of_another_origin_or_a_rebound_name_reaches_nothing() {
    let home = home();
    let (_life, url) = listening(&home, &[]);
    let (client, message) = (client(), greeting(&json!({})));
    for (header, value) in [("host", "evil.example"), ("origin", "http://evil.example"), ("origin", "http://127.0.0.1:1")] {
        let refused = post(&client, &url, &message).header(header, value).send().await.unwrap();
        assert_eq!(refused.status(), StatusCode::FORBIDDEN, "{header}: {value}");
    }
    let own = url.strip_suffix("/mcp").unwrap();
    let admitted = post(&client, &url, &message).header("origin", own).send().await.unwrap();
    assert_eq!(admitted.status(), StatusCode::OK);
}

fn keep_secret(home: &Home, text: &str, mode: u32) -> PathBuf {
    let path = home.write("bearer", text);
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path
}

#[tokio::test]
async fn whoever_does_not_show_the_bearer_is_not_served_and_a_new_one_is_taken_up() {
    let home = home();
    keep_secret(&home, "hush\n", 0o600);
    let (life, url) = listening(&home, &["--bearer-file", "bearer"]);
    let (client, message) = (client(), greeting(&json!({})));
    let status = async |bearer: &str| post(&client, &url, &message).header("authorization", bearer).send().await.unwrap().status();
    assert_eq!(post(&client, &url, &message).send().await.unwrap().status(), StatusCode::UNAUTHORIZED);
    for wrong in ["Bearer", "Bearer hus", "Bearer hushh", "Basic hush", "hush"] {
        assert_eq!(status(wrong).await, StatusCode::UNAUTHORIZED, "{wrong}");
    }
    assert_eq!(status("Bearer hush").await, StatusCode::OK);
    keep_secret(&home, "new", 0o600);
    assert_eq!((status("Bearer hush").await, status("Bearer new").await), (StatusCode::UNAUTHORIZED, StatusCode::OK));

    let bearer = Some(SecretSource::File(home.around().join("bearer")));
    start(TransportSpec::Url { url, bearer, oauth: None }).await.stop(Duration::from_secs(5)).await;
    let (stdout, stderr) = life.said();
    assert!(!stdout.contains("hush") && !stderr.contains("hush"), "{stdout}{stderr}");
}

#[tokio::test]
async fn a_bearer_may_be_handed_over_by_the_service_manager_or_in_a_variable() {
    use std::process::Stdio;
    let home = home();
    let path = home.write("credentials/door", "hush");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    for more in [["--bearer-credential", "door"], ["--bearer-env", "DOOR"]] {
        let args = [&["las", "-f", "las.toml", "--only", "echo", "--http", "127.0.0.1:0"], &more[..]].concat();
        let mut command = home.command(&args);
        command.env("CREDENTIALS_DIRECTORY", home.around().join("credentials")).env("DOOR", "hush");
        let mut las = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(las.stdout.take().unwrap()), &mut url).unwrap();
        let (client, message) = (client(), greeting(&json!({})));
        let status =
            async |bearer: &str| post(&client, url.trim(), &message).header("authorization", bearer).send().await.unwrap().status();
        assert_eq!(
            (status("Bearer hus").await, status("Bearer hush").await),
            (StatusCode::UNAUTHORIZED, StatusCode::OK),
            "{more:?}"
        );
        las.kill().unwrap();
        las.wait().unwrap();
    }
    let none = home.run(&["las", "-f", "las.toml", "--http", "127.0.0.1:0", "--bearer-credential", "door"]);
    assert!(none.code() == 2 && none.stderr.contains("LoadCredential=door:FILE"), "{}", none.stderr);
}

#[tokio::test]
async fn a_client_that_listens_is_told_that_another_made_the_tools_change() {
    let home = home();
    let (_life, url) = listening(&home, &["--no-prefix", "--only", "echo"]);
    let las = start(TransportSpec::Url { url: url.clone(), bearer: None, oauth: None }).await;
    let knows = |name: &str| las.tools().iter().any(|tool| tool.name == name);
    assert!(knows("far__grow") && !knows("far__grown"));
    session(&client(), &url, &json!({})).await("tools/call", json!({ "name": "grow" })).await;
    joined::wait_until("the new tool is known", || knows("far__grown")).await;
    las.stop(Duration::from_secs(5)).await;
}

#[test]
fn a_client_on_standard_streams_is_told_what_it_listens_for_and_nothing_else() {
    use std::{io::Write as _, process::Stdio};
    let home = home();
    let mut las = home.command(&["las", "-f", "las.toml", "--only", "echo"]);
    let mut las = las.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = las.stdin.take().unwrap();
    let mut say = |id: u32, method: &str, mut params: Value| {
        let prefix = "io.modelcontextprotocol";
        let meta = json!({
            format!("{prefix}/protocolVersion"): "2026-07-28",
            format!("{prefix}/clientInfo"): { "name": "test", "version": "0" },
            format!("{prefix}/clientCapabilities"): {},
        });
        params.as_object_mut().unwrap().insert("_meta".to_owned(), meta);
        writeln!(stdin, "{}", json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).unwrap();
    };
    let lines = std::io::BufRead::lines(std::io::BufReader::new(las.stdout.take().unwrap()));
    let mut heard = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
    say(1, "server/discover", json!({}));
    say(2, "tools/list", json!({}));
    heard.find(|message| message.get("id") == Some(&json!(2))).unwrap();
    let filter = json!({ "toolsListChanged": true, "resourceSubscriptions": ["mem://echo/x"] });
    say(3, "subscriptions/listen", json!({ "notifications": filter }));
    let acknowledged = heard.next().unwrap();
    assert_eq!(acknowledged.pointer("/method"), Some(&json!("notifications/subscriptions/acknowledged")), "{acknowledged}");
    assert_eq!(acknowledged.pointer("/params/notifications"), Some(&json!({ "toolsListChanged": true })), "{acknowledged}");
    say(4, "tools/call", json!({ "name": "echo__grow", "arguments": {} }));
    let of_stream = |message: &Value| message.pointer("/params/_meta/io.modelcontextprotocol~1subscriptionId") == Some(&json!(3));
    let told = heard.find(of_stream).unwrap();
    assert_eq!(told.pointer("/method"), Some(&json!("notifications/tools/list_changed")));
    let _ = las.kill();
    las.wait().unwrap();
}

#[test]
fn other_machines_are_not_let_in_without_a_bearer() {
    let home = home();
    let open = home.run(&["las", "-f", "las.toml", "--http", "0.0.0.0:0"]);
    assert_eq!(open.code(), 2);
    assert!(open.stderr.contains("can be reached from other machines") && open.stderr.contains("--bearer-file"), "{}", open.stderr);
    keep_secret(&home, "hush", 0o644);
    let lax = home.run(&["las", "-f", "las.toml", "--http", "0.0.0.0:0", "--bearer-file", "bearer"]);
    assert_eq!(lax.code(), 2);
    assert!(lax.stderr.contains("must not be group/world accessible"), "{}", lax.stderr);
}

#[tokio::test]
async fn a_las_that_is_told_to_stop_leaves_no_process_even_in_mid_session() {
    let home = home();
    let (mut life, url) = listening(&home, &[]);
    let client = client();
    let ask = session(&client, &url, &json!({})).await;
    ask("tools/list", json!({})).await;
    assert!(proc::mentioning(home.around()).len() >= 5, "Las, two supervisors, two servers");
    kill_process(Pid::from_raw(i32::try_from(life.pid()).unwrap()).unwrap(), Signal::TERM).unwrap();
    let ended = life.ended_within(SOON).expect("it ends");
    assert!(ended.success(), "{ended}: {}", life.said().1);
    wait_until(SOON, "all are gone", || proc::mentioning(home.around()).is_empty());
}

#[test]
fn on_standard_streams_it_serves_until_its_client_is_gone() {
    use std::{io::Write as _, process::Stdio};
    let home = home();
    let mut las = home.command(&["las", "-f", "las.toml", "--only", "safe"]);
    let mut las = las.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut stdin = las.stdin.take().unwrap();
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    let asked = json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" });
    writeln!(stdin, "{}\n{told}\n{asked}", greeting(&json!({}))).unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(las.stdout.take().unwrap()));
    let listed = lines.find(|line| line.as_ref().unwrap().contains("\"tools\":[")).unwrap().unwrap();
    assert_eq!(names(&serde_json::from_str(&listed).unwrap()), ["safe__tell", "safe__grow"]);
    drop(stdin);
    assert!(las.wait().unwrap().success());
    wait_until(SOON, "all are gone", || proc::mentioning(home.around()).is_empty());
}
