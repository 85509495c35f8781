//! Tokens by OAuth over months of a daemon's life, in seconds: expiry, refusal, refresh tokens that count once, and a daemon that is
//! killed. The authorization server is of this test; it checks every request, and what it gives is then searched for everywhere.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail, and looks at the time"
)]

#[cfg(test)]
mod support;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use support::{
    Home, SOON,
    openai::{Reply, Seen, Server},
    proc, wait_for, wait_until,
};
use url::form_urlencoded;

/// What every secret begins with.
const MARK: &str = "pl4nted-";
const SECRET: &str = "pl4nted-client-secret";
const REGISTERED: &str = "pl4nted-registered-secret";
const CODE: &str = "pl4nted-code";
const REDIRECT: &str = "http://127.0.0.1:8976/callback";

/// What the authorization server and the surface know. Both are one server here.
#[derive(Debug, Default)]
struct Town {
    given: u64,
    /// The token that counts, and until when.
    token: Option<(String, Instant)>,
    /// The one refresh token that counts; each counts once.
    refresh: Option<String>,
    /// How long tokens count, in seconds.
    lifetime: u64,
    /// What the question that was opened said.
    challenge: String,
    faults: Vec<String>,
}

type Shared = Arc<Mutex<Town>>;

fn lock(town: &Shared) -> MutexGuard<'_, Town> {
    town.lock().unwrap()
}

impl Town {
    fn fault(&mut self, what: String) -> Reply {
        let reply = Reply::json(400, &json!({ "error": "invalid_request", "error_description": what }));
        self.faults.push(what);
        reply
    }

    fn give(&mut self, refreshes: bool) -> Reply {
        self.given += 1;
        let access = format!("{MARK}access-{}", self.given);
        self.token = Some((access.clone(), Instant::now() + Duration::from_secs(self.lifetime)));
        let mut body = json!({ "access_token": access, "token_type": "Bearer", "expires_in": self.lifetime, "scope": "read" });
        if refreshes {
            self.refresh = Some(format!("{MARK}refresh-{}", self.given));
            body["refresh_token"] = json!(self.refresh);
        }
        Reply::json(200, &body)
    }

    /// The token endpoint. What it is told in confidence, it says back when it refuses.
    fn exchange(&mut self, seen: &Seen, origin: &str) -> Reply {
        let form: BTreeMap<String, String> = form_urlencoded::parse(&seen.raw).into_owned().collect();
        let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
        let authorization = seen.headers.get("authorization").map(String::as_str).unwrap_or_default();
        let (who, is_asking) = match field("grant_type") {
            "client_credentials" => (("me", SECRET), true),
            _ => (("client-1", REGISTERED), false),
        };
        if authorization != format!("Basic {}", base64(&format!("{}:{}", who.0, who.1))) {
            return self.fault(format!("a client said that it is `{authorization}`"));
        }
        if field("resource") != format!("{origin}/mcp") || (is_asking && field("scope") != "read") {
            return self.fault(format!("a token was asked for something else: {form:?}"));
        }
        match field("grant_type") {
            "client_credentials" => self.give(false),
            "authorization_code" => {
                use sha2::Digest as _;
                let verifier = sha2::Sha256::digest(field("code_verifier"));
                let is_right = field("code") == CODE && field("redirect_uri") == REDIRECT && base64url(&verifier) == self.challenge;
                if is_right { self.give(true) } else { self.fault(format!("a code without its question: {form:?}")) }
            }
            "refresh_token" if self.refresh.as_deref() == Some(field("refresh_token")) => self.give(true),
            "refresh_token" => {
                let said = format!("`{}` counts no more", field("refresh_token"));
                if self.refresh.is_some() {
                    self.faults.push(said.clone());
                }
                Reply::json(400, &json!({ "error": "invalid_grant", "error_description": said }))
            }
            other => self.fault(format!("the grant `{other}`")),
        }
    }

    /// The surface: an MCP server whose tool says back what it was told in confidence.
    fn speak(&self, seen: &Seen, origin: &str) -> Reply {
        let shown = seen.headers.get("authorization").and_then(|shown| shown.strip_prefix("Bearer ")).unwrap_or_default();
        let counts = self.token.as_ref().is_some_and(|(token, until)| token == shown && Instant::now() < *until);
        if !counts {
            let at = format!("{origin}/.well-known/oauth-protected-resource/mcp");
            let challenge = format!("Bearer error=\"invalid_token\", resource_metadata=\"{at}\", scope=\"read\"");
            return Reply::raw(401, format!("no: {shown}").into_bytes()).header("www-authenticate", &challenge);
        }
        speak_mcp(seen, &format!("you showed {shown}"))
    }
}

/// An MCP server of one tool.
fn speak_mcp(seen: &Seen, answer: &str) -> Reply {
    let id = seen.body["id"].clone();
    let result = |result: Value| Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    match seen.body["method"].as_str().unwrap_or_default() {
        "initialize" => result(json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": { "name": "far", "version": "1" },
        })),
        "tools/list" => result(json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] })),
        "tools/call" => result(json!({ "content": [{ "type": "text", "text": answer }] })),
        method if method.starts_with("notifications/") => Reply::raw(202, Vec::new()),
        _ => Reply::json(200, &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } })),
    }
}

fn base64(text: &str) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_STANDARD.encode(text)
}

fn base64url(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(bytes)
}

fn serve(town: &Shared) -> Server {
    let town = Arc::clone(town);
    Server::start(move |seen: &Seen| {
        let origin = format!("http://{}", seen.headers["host"]);
        match (seen.method.as_str(), seen.path.as_str()) {
            ("POST", "/mcp") => lock(&town).speak(seen, &origin),
            (_, "/mcp") => Reply::raw(405, Vec::new()),
            ("GET", "/.well-known/oauth-protected-resource/mcp") => {
                Reply::json(200, &json!({ "resource": format!("{origin}/mcp"), "authorization_servers": [format!("{origin}/as")] }))
            }
            ("GET", "/.well-known/oauth-authorization-server/as") => Reply::json(
                200,
                &json!({
                    "issuer": format!("{origin}/as"),
                    "authorization_endpoint": format!("{origin}/as/authorize"),
                    "token_endpoint": format!("{origin}/as/token"),
                    "registration_endpoint": format!("{origin}/as/register"),
                    "code_challenge_methods_supported": ["S256"],
                    "authorization_response_iss_parameter_supported": true,
                }),
            ),
            ("POST", "/as/register") if seen.body["redirect_uris"] == json!([REDIRECT]) => {
                Reply::json(201, &json!({ "client_id": "client-1", "client_secret": REGISTERED }))
            }
            ("POST", "/as/token") => lock(&town).exchange(seen, &origin),
            (method, path) => lock(&town).fault(format!("{method} {path}")),
        }
    })
}

/// Calls the tool once in every cycle.
fn think(seen: &Seen) -> Reply {
    let last = seen.body["messages"].as_array().and_then(|messages| messages.last());
    match last.is_some_and(|message| message["role"] == "tool") {
        true => Reply::say("well"),
        false => Reply::call("far__echo", json!({})),
    }
}

struct Scene {
    home: Home,
    town: Shared,
    server: Server,
    _model: Server,
    printed: Vec<(String, String)>,
}

const BEINGS: [&str; 2] = ["ada", "bob"];

/// Two beings with one surface, each in a Las of its own, or shared.
fn scene(scope: &str, lifetime: u64, oauth: &str) -> Scene {
    let (home, model) = (Home::new(), Server::start(think));
    let town = Arc::new(Mutex::new(Town { lifetime, ..Town::default() }));
    let server = serve(&town);
    let secret = home.write("secret", SECRET);
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    let being = |name: &str| {
        format!("[being.{name}]\nmodel = \"scripted\"\ncycle = {{ every = \"250ms\" }}\nlas = {{ required = [\"far\"] }}\n")
    };
    let (model_is, origin, [ada, bob]) = (model.model(), server.origin(), BEINGS.map(being));
    home.write(
        "fleet.toml",
        &format!("{model_is}\n[surface.far]\nscope = \"{scope}\"\nurl = \"{origin}/mcp\"\noauth = {oauth}\n{ada}{bob}"),
    );
    Scene { home, town, server, _model: model, printed: Vec::new() }
}

impl Scene {
    fn said(&mut self, args: &[&str]) -> String {
        let output = self.home.run(args);
        let said = [output.stdout, output.stderr].concat();
        self.printed.push((args.join(" "), said.clone()));
        said
    }

    /// How each call of a being ended so far.
    fn calls(&self, being: &str) -> Vec<String> {
        let finished = self.home.events(being, "tool_finished");
        finished.iter().map(|event| event["status"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Waits until each being has made so many more calls.
    #[track_caller]
    fn wait_for_calls(&self, more: usize) {
        let until = BEINGS.map(|being| self.calls(being).len() + more);
        wait_until(SOON, "the beings make calls", || {
            BEINGS.iter().zip(until).all(|(being, until)| self.calls(being).len() >= until)
        });
    }

    /// A call that was under way when the daemon was killed is in doubt; none fails.
    #[track_caller]
    fn check_calls(&self, in_doubt: usize) {
        for being in BEINGS {
            let odd: Vec<String> = self.calls(being).into_iter().filter(|status| status != "success").collect();
            assert!(odd.len() <= in_doubt && odd.iter().all(|status| status == "indeterminate"), "{being}: {odd:?}");
        }
    }

    #[track_caller]
    fn wait_for_tokens(&self, more: u64) {
        let until = lock(&self.town).given + more;
        wait_until(SOON, "tokens are given", || lock(&self.town).given >= until);
    }

    /// Nothing that is secret is anywhere but where it is kept.
    #[track_caller]
    fn search(&mut self) {
        for args in [
            &["get", "all", "-o", "json"][..],
            &["get", "surface/far", "-o", "toml", "--show-origin", "-f", "fleet.toml"],
            &["describe", "surface/far"],
            &["describe", "being/ada"],
            &["questions", "-o", "json"],
            &["logs", "being/ada", "-o", "jsonl"],
            &["plan", "-f", "fleet.toml"],
            &["doctor", "-f", "fleet.toml"],
            &["tools", "-f", "fleet.toml"],
        ] {
            self.said(args);
        }
        for process in proc::mentioning(self.home.around()) {
            for what in ["environ", "cmdline"] {
                let text = fs::read(format!("/proc/{}/{what}", process.pid)).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&text).contains(MARK), "in the {what} of process {}", process.pid);
            }
        }
        for (args, said) in &self.printed {
            assert!(!said.contains(MARK), "`singularity {args}` printed one: {said}");
        }
        let kept = self.home.path().join("oauth");
        for path in files(&self.home.path()).into_iter().filter(|path| !path.starts_with(&kept)) {
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
            assert!(!text.contains(MARK), "{} holds one", path.display());
        }
        for path in files(&kept) {
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(lock(&self.town).faults, [""; 0]);
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let (folders, mut files): (Vec<_>, Vec<_>) = entries.filter(|path| !path.is_symlink()).partition(|path| path.is_dir());
    files.extend(folders.iter().flat_map(|folder| self::files(folder)));
    files.retain(|path| path.is_file());
    files
}

/// A client that asks nobody.
const CLIENT: &str = "{ grant = \"client_credentials\", client_id = \"me\", client_secret = { file = \"secret\" } }";

#[track_caller]
fn costs_no_call(scope: &str) {
    let mut scene = scene(scope, 3_600, CLIENT);
    scene.said(&["apply", "-f", "fleet.toml"]);
    scene.wait_for_calls(1);
    assert_eq!(lock(&scene.town).given, 1, "whoever waits for a token takes the one that another was given");
    lock(&scene.town).token = None;
    scene.wait_for_calls(3);
    assert_eq!(lock(&scene.town).given, 2, "one is enough for all that were refused");
    (lock(&scene.town).token, lock(&scene.town).lifetime) = (None, 2);
    scene.wait_for_tokens(3);
    scene.wait_for_calls(2);
    scene.check_calls(0);
    let results = scene.home.events("ada", "tool_finished");
    assert!(results[0]["result"].as_str().unwrap().contains("you showed [secret]"), "{}", results[0]);
    scene.search();
}

#[test]
fn a_token_that_expires_or_is_refused_costs_no_call() {
    costs_no_call("being");
}

#[test]
fn nor_does_it_where_one_connection_is_for_all() {
    costs_no_call("shared");
}

#[test]
fn a_surface_that_is_declared_no_more_leaves_no_token_and_takes_no_others() {
    let mut scene = scene("being", 3_600, CLIENT);
    scene.said(&["apply", "-f", "fleet.toml"]);
    scene.wait_for_calls(1);
    let (kept, other) = (scene.home.path().join("oauth/far.json"), scene.home.path().join("oauth/else.json"));
    fs::copy(&kept, &other).unwrap();
    let fleet = fs::read_to_string(scene.home.around().join("fleet.toml")).unwrap();
    let prompted = fleet.replace("[being.ada]\n", "[being.ada]\nprompt = \"be brief\"\n");
    scene.home.write("fleet.toml", &prompted);
    scene.said(&["apply", "-f", "fleet.toml"]);
    assert!(kept.exists(), "an edit of something else forgets nothing");
    let (before, rest) = (fleet.find("[surface.far]").unwrap(), fleet.find("[being.ada]").unwrap());
    let without = format!("{}{}", &fleet[..before], &fleet[rest..]).replace("las = { required = [\"far\"] }\n", "");
    scene.home.write("fleet.toml", &without);
    scene.said(&["apply", "-f", "fleet.toml"]);
    assert!(!kept.exists(), "the token of a surface that is gone stays");
    assert!(other.exists(), "what this daemon never declared is not its to remove");
}

#[test]
fn a_refresh_token_outlives_a_daemon_that_is_killed_and_nobody_is_asked_twice() {
    let mut scene = scene("being", 3, "{}");
    scene.said(&["apply", "-f", "fleet.toml", "--detach"]);
    let question = |scene: &Scene| {
        let asked = scene.home.run(&["questions", "-o", "json"]).json();
        asked.as_array().into_iter().flatten().find(|question| question["id"] == "surface/far").cloned()
    };
    let asked = wait_for(SOON, "consent is asked for", || question(&scene));
    let address: url::Url = asked["form"]["url"].as_str().unwrap().parse().unwrap();
    let told: BTreeMap<String, String> = address.query_pairs().into_owned().collect();
    let issuer = format!("{}/as", scene.server.origin());
    assert_eq!((told["client_id"].as_str(), told["redirect_uri"].as_str()), ("client-1", REDIRECT));
    assert!(address.as_str().starts_with(&format!("{issuer}/authorize?")) && told["scope"] == "read");
    lock(&scene.town).challenge.clone_from(&told["code_challenge"]);
    let shown = scene.said(&["questions"]);
    assert!(shown.contains(address.as_str()) && shown.contains("singularity answer surface/far"), "{shown}");
    let shown = scene.said(&["describe", "being/ada"]);
    assert!(shown.contains("waits for your consent"), "{shown}");

    let sent = |state: &str, issuer: &str| {
        let query = form_urlencoded::Serializer::new(String::new())
            .extend_pairs([("code", CODE), ("state", state), ("iss", issuer)])
            .finish();
        format!("code={REDIRECT}?{query}")
    };
    let wrong = [
        (sent("other", &issuer), "`state` is another"),
        (sent(&told["state"], "https://evil.example"), "another authorization server"),
        (format!("code={REDIRECT}?error=access_denied&state={}&iss={issuer}", told["state"]), "access_denied"),
    ];
    for (answer, why) in wrong {
        let refused = scene.home.run(&["answer", "surface/far", "--value", &answer]);
        assert!(refused.code() != 0 && refused.stderr.contains(why), "{}", refused.stderr);
        scene.printed.push(("answer".to_owned(), refused.stderr));
    }
    scene.home.run(&["answer", "surface/far", "--value", &sent(&told["state"], &issuer)]).ok();
    let again = scene.home.run(&["answer", "surface/far", "--value", &sent(&told["state"], &issuer)]);
    assert!(again.stderr.contains("answered already"), "{}", again.stderr);
    scene.wait_for_calls(2);
    scene.wait_for_tokens(2);

    scene.home.daemon().unwrap().kill();
    wait_until(SOON, "nothing of the daemon is left", || proc::mentioning(scene.home.around()).is_empty());
    let expired = lock(&scene.town).token.clone().unwrap().1;
    wait_until(SOON, "the token has expired", || Instant::now() > expired);
    scene.said(&["apply", "-f", "fleet.toml"]);
    scene.wait_for_tokens(2);
    scene.wait_for_calls(2);
    assert!(question(&scene).is_none());
    scene.check_calls(1);
    assert_eq!(scene.server.seen().iter().filter(|seen| seen.path == "/as/register").count(), 1, "the registered client is kept");

    (lock(&scene.town).token, lock(&scene.town).refresh) = (None, None);
    let anew = wait_for(SOON, "consent is asked for anew", || question(&scene));
    assert_ne!(anew["form"]["url"], asked["form"]["url"]);
    let stalled = || scene.home.run(&["get", "surface/far", "-o", "json"]).stdout.contains("ConsentNeeded");
    wait_until(SOON, "the surface says that it waits", stalled);
    scene.search();
}

/// A surface that closes the connection in the midst of a call, and has the rest when it is asked for it.
fn interrupted(seen: &Seen, token: &str) -> Reply {
    let stream = |events: String| Reply::raw(200, events.into_bytes()).header("content-type", "text/event-stream");
    if seen.headers.get("authorization") != Some(&format!("Bearer {token}")) {
        return Reply::raw(401, Vec::new());
    }
    match (seen.method.as_str(), seen.body["method"].as_str().unwrap_or_default()) {
        ("POST", "tools/call") => stream(format!("id: call-{}\nretry: 10\ndata: \n\n", seen.body["id"])),
        ("GET", _) if seen.headers.contains_key("last-event-id") => {
            let id: u64 = seen.headers["last-event-id"].trim_start_matches("call-").parse().unwrap();
            let result = json!({ "jsonrpc": "2.0", "id": id, "result": { "content": [{ "type": "text", "text": "the rest" }] } });
            stream(format!("id: end\ndata: {result}\n\n"))
        }
        ("POST", _) => speak_mcp(seen, ""),
        _ => Reply::raw(405, Vec::new()),
    }
}

#[test]
fn a_call_that_was_cut_off_is_taken_up_again_with_the_bearer() {
    let (home, model) = (Home::new(), Server::start(think));
    let far = Server::start(|seen: &Seen| interrupted(seen, SECRET));
    let secret = home.write("secret", SECRET);
    fs::set_permissions(secret, fs::Permissions::from_mode(0o600)).unwrap();
    let manifest = format!(
        "{}\n[surface.far]\nurl = \"{}/mcp\"\nbearer = {{ file = \"secret\" }}\n[being.ada]\nmodel = \"scripted\"\n",
        model.model(),
        far.origin()
    );
    home.write("ada.toml", &manifest);
    home.run(&["once", "-f", "ada.toml"]).ok();
    let finished = home.events("ada", "tool_finished");
    assert!(
        finished.iter().any(|event| event["result"].as_str().is_some_and(|result| result.contains("the rest"))),
        "{finished:?}"
    );
    let seen = far.seen();
    assert!(seen.iter().any(|seen| seen.method == "GET" && seen.headers.contains_key("last-event-id")), "it was resumed");
    for seen in seen {
        let shown = seen.headers.get("authorization").map(String::as_str);
        assert_eq!(shown, Some(format!("Bearer {SECRET}").as_str()), "{} {}", seen.method, seen.path);
    }
}
