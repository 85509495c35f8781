//! Skills with a Python body, by the real binary: bodies as people write them run unchanged, and no body gets further than it may.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "a test may fail, and starts processes"
)]

#[cfg(test)]
mod support;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};
use support::{
    Home, Output, PATIENT, SOON,
    openai::{Reply, Seen, Server},
    packages, wait_until,
};

/// A server whose model likes the options whose descriptions hold one of `liked`, wherever they stand.
fn engine(liked: &'static [&'static str]) -> Server {
    Server::start(move |seen: &Seen| {
        let asked: Value = serde_json::from_str(seen.said_by("user")[0]).expect("the decision as JSON");
        let listed = asked["options"].as_array().expect("options").iter().map(|option| {
            let text = option["description"].as_str().expect("a description");
            let logprob = if liked.iter().any(|liked| text.contains(liked)) { -0.2 } else { -4.0 };
            json!({ "token": option["letter"], "logprob": logprob })
        });
        let logprobs = json!({ "content": [{ "token": "A", "logprob": -0.2, "top_logprobs": listed.collect::<Vec<_>>() }] });
        let message = json!({ "role": "assistant", "content": "A" });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "length", "logprobs": logprobs });
        Reply::json(200, &json!({ "model": "m", "choices": [choice], "usage": { "prompt_tokens": 9, "completion_tokens": 1 } }))
    })
}

/// The goal was reached.
const SUCCESS: &str = "The action log shows";

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/skills").join(name).display().to_string()
}

/// Runs a body with this engine.
fn run(home: &Home, engine: &Server, body: &str, more: &[&str]) -> Output {
    let models = home.write("models.toml", &engine.model());
    let asked = ["skill", "run", body, "-f", models.to_str().expect("UTF-8")];
    home.run_within(PATIENT, &[&asked[..], more].concat())
}

/// The notes of a run that was printed as JSON lines.
fn notes(said: &Output) -> Vec<Value> {
    said.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn ended(said: &Output) -> Value {
    let last = notes(said).pop();
    assert!(last.is_some(), "no notes: {}", said.stderr);
    last.expect("a note")["outcome"].take()
}

#[test]
fn the_worked_example_of_the_contract_writes_its_draft() {
    let (home, engine) = (Home::new(), engine(&["roofer", SUCCESS]));
    home.write("data/contacts.json", r#"[{"name":"ann","description":"the roofer"},{"name":"ben","description":"the lawyer"}]"#);
    let said = run(&home, &engine, &example("email/compose.py"), &["--text", "Tell Ann it is done", "-o", "jsonl"]).ok();
    let outcome = ended(&said);
    assert_eq!(outcome["is_ok"], true, "{outcome:#}");
    let drafts = fs::read_dir(home.around().join("data/drafts")).expect("drafts").flatten().collect::<Vec<_>>();
    assert_eq!(drafts.len(), 1);
    assert_eq!(fs::read_to_string(drafts[0].path()).expect("a draft"), "To: ann\nBody: Tell Ann it is done\n");
    let summary = outcome["summary"].as_str().expect("a summary");
    assert!(summary.starts_with("email.compose: ok — email.compose: wrote draft data/drafts/"), "{summary}");
    let decided = notes(&said).into_iter().filter(|note| note["what"] == "decided").map(|note| note["phase"].clone());
    assert_eq!(decided.collect::<Vec<_>>(), [json!("predict"), json!("assess:outcome")]);
}

#[test]
fn a_declared_skill_is_run_by_its_name_with_what_its_manifest_grants_and_no_more() {
    let (home, engine) = (Home::new(), engine(&["roofer", SUCCESS]));
    home.write("data/contacts.json", r#"[{"name":"ann","description":"the roofer"},{"name":"ben","description":"the lawyer"}]"#);
    let declare = |more: &str| {
        let [description, body] = ["description = \"letters\"".to_owned(), format!("body = {:?}", example("email/compose.py"))];
        let skill = format!("[category.mail]\n{description}\n[category.mail.skill.compose]\n{description}\n{body}\n{more}\n");
        home.write("skills.toml", &format!("{}\n{skill}", engine.model()));
        let asked = ["skill", "run", "mail.compose", "-f", "skills.toml", "--text", "It is done", "-o", "jsonl"];
        home.run_within(PATIENT, &asked)
    };
    let said = declare("write = [\"{workspace}/data\"]\nconfig = { drafts = \"data/letters\" }").ok();
    assert_eq!(ended(&said)["is_ok"], true);
    assert_eq!(fs::read_dir(home.around().join("data/letters")).expect("drafts").count(), 1);
    let said = declare("read = [\"{workspace}/data\"]\nconfig = { drafts = \"data/letters\" }");
    assert_eq!((said.code(), &ended(&said)["fault"]["what"]["code"]), (5, &json!("file")), "{}", said.stderr);
    let said = home.run(&["skill", "run", "mail.gone", "-f", "skills.toml", "--text", "x"]);
    assert!(said.code() == 2 && said.stderr.contains("the manifests declare no skill mail.gone"), "{}", said.stderr);
}

#[test]
fn a_declared_secret_is_in_nothing_that_a_body_says() {
    const SECRET: &str = "hüsh-hüsh-0123456789";
    let (home, engine) = (Home::new(), engine(&[SUCCESS]));
    let told = "key = ctx.config[\"key\"]\nprint(key)\nctx.engine.call(question(f\"is {key} one?\"))\n\
                return ActionResult(f\"used {key}\", key, needs_input=None if request.user_input else f\"is {key} right?\")";
    home.write("post.py", &acting(told));
    let key = home.write("key", SECRET);
    fs::set_permissions(key, fs::Permissions::from_mode(0o600)).expect("its owner alone");
    let skill = "[category.mail]\ndescription = \"letters\"\n[category.mail.skill.post]\ndescription = \"posts\"\n\
                 body = \"post.py\"\nsecret = { key = { file = \"key\" } }\n";
    home.write("skills.toml", &format!("{}\n{skill}", engine.model()));
    let asked = ["skill", "run", "mail.post", "-f", "skills.toml", "--text", "post it", "--keep", "run.json", "-o", "jsonl"];
    let waits = home.run_within(PATIENT, &asked);
    assert_eq!(waits.code(), 5, "{}", waits.stderr);
    let kept = fs::read_to_string(home.around().join("run.json")).expect("a run that waits");
    let goes_on = ["skill", "run", "mail.post", "-f", "skills.toml", "--keep", "run.json", "--answer", "yes", "-o", "jsonl"];
    let ended = home.run_within(PATIENT, &goes_on).ok();
    let shown = engine.seen().iter().map(|seen| String::from_utf8_lossy(&seen.raw).into_owned()).collect::<String>();
    for (where_, text) in
        [("kept", &kept), ("asked", &waits.stdout), ("told", &waits.stderr), ("said", &ended.stdout), ("shown", &shown)]
    {
        assert!(text.contains("used ") || where_ != "said", "{text}");
        assert!(!text.contains("hüsh") && !text.contains("h\\u00fcsh"), "{where_}: {text}");
    }
}

#[test]
fn a_run_that_asks_is_put_down_and_goes_on_with_the_same_prediction() {
    let (home, engine) = (Home::new(), engine(&["Multiplying", SUCCESS]));
    let body = example("calculator/calculate.py");
    let said = run(&home, &engine, &body, &["--text", "multiply them", "--keep", "run.json"]);
    assert!(said.code() == 5 && said.stderr.contains("Which two numbers shall I multiply?"), "{}", said.stderr);
    let asked =
        |engine: &Server| engine.seen().iter().filter(|seen| seen.raw.windows(15).any(|at| at == b"Which operation")).count();
    let before = asked(&engine);
    assert!(before > 0);
    let said = run(&home, &engine, &body, &["--keep", "run.json", "--answer", "6 and 7", "-o", "jsonl"]).ok();
    assert_eq!(ended(&said)["new_state"], "42");
    assert_eq!(asked(&engine), before, "nothing is predicted twice");
    assert!(!home.around().join("run.json").exists(), "what has ended is not kept");
}

#[test]
fn a_missing_variable_is_asked_for_before_the_body_works() {
    let (home, engine) = (Home::new(), engine(&[SUCCESS]));
    let body = example("clock/now.py");
    let said = run(&home, &engine, &body, &["--text", "what time is it?"]);
    assert!(said.code() == 5 && said.stdout.starts_with("asks: To run clock.now I need `timezone`."), "{}", said.stdout);
    let said = run(&home, &engine, &body, &["--text", "what time is it?", "--answer", "Asia/Tokyo", "-o", "jsonl"]).ok();
    assert!(ended(&said)["new_state"].as_str().is_some_and(|text| text.ends_with(" JST")), "{}", said.stdout);
    let said = run(&home, &engine, &body, &["--text", "what time is it?", "--answer", "skip", "-o", "jsonl"]).ok();
    assert!(ended(&said)["new_state"].as_str().is_some_and(|text| text.ends_with(" UTC")), "an unset one is not asked for again");
}

#[test]
fn a_health_check_reaches_the_host_that_is_granted_and_no_other() {
    let (home, engine) = (Home::new(), engine(&[SUCCESS]));
    let well = Server::start(|_| Reply::json(204, &json!(null)));
    let (body, url) = (example("health/check.py"), format!("url={}/health", well.origin()));
    let asked = ["--text", "is it well?", "--config", &url, "-o", "jsonl"];
    let host = well.origin().replace("http://", "");
    let said = run(&home, &engine, &body, &[&asked[..], &["--network", &host]].concat()).ok();
    assert_eq!((&ended(&said)["new_state"], well.seen()[0].path.as_str()), (&json!("204"), "/health"));
    for more in [&[][..], &["--network", "127.0.0.1:1"]] {
        let said = run(&home, &engine, &body, &[&asked[..], more].concat());
        let fault = &ended(&said)["fault"];
        assert_eq!((said.code(), &fault["what"]["code"], fault["line"].is_u64()), (5, &json!("network"), true), "{fault:#}");
        assert!(said.stderr.contains(&host), "{}", said.stderr);
    }
    assert_eq!(well.seen().len(), 1);
}

/// A CalDAV server on loopback; it ends when dropped.
struct Radicale(Child, u16);

impl Radicale {
    fn start(home: &Home) -> Option<Self> {
        let script = packages::pypi("radicale", "3.9.0")?.join("radicale");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a free port").port();
        let (hosts, folder) = (format!("--server-hosts=127.0.0.1:{port}"), home.around().join("collections"));
        let mut command = Command::new(script);
        command.args([&hosts, "--auth-type=none", &format!("--storage-filesystem-folder={}", folder.display())]);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("radicale starts");
        let server = Self(child, port);
        wait_until(SOON, "radicale answers", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Some(server)
    }

    fn ask(&self, method: &str, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.1)).expect("radicale listens");
        // Basic, of `ada:hush-hush`.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Basic YWRhOmh1c2gtaHVzaA==\r\nContent-Length: 0\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("a request");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an answer");
        said
    }
}

impl Drop for Radicale {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_calendar_entry_reaches_a_real_caldav_server_and_its_password_nobody_else() {
    let (home, engine) = (Home::new(), engine(&["work", SUCCESS]));
    let Some(server) = Radicale::start(&home) else { return };
    for calendar in ["home", "work"] {
        let made = server.ask("MKCALENDAR", &format!("/ada/{calendar}/"));
        assert!(made.contains(" 201 "), "{made}");
    }
    let (peer, url) = (format!("127.0.0.1:{}", server.1), format!("caldav_url=http://127.0.0.1:{}/ada/", server.1));
    let more = [
        "--text",
        "Review with Ben, at the office",
        "--answer",
        "2026-12-24 18:00",
        "--config",
        &url,
        "--network",
        &peer,
        "--config",
        "calendars={\"home\": \"private things\", \"work\": \"work and meetings\"}",
        "--config",
        "caldav_user=ada",
        "--config",
        "caldav_password=hush-hush",
        "-o",
        "jsonl",
    ];
    let said = run(&home, &engine, &example("calendar/create_event.py"), &more).ok();
    let entry = server.ask("GET", "/ada/work/");
    assert!(entry.contains("SUMMARY:Review with Ben\\, at the office") && entry.contains("DTSTART:20261224T180000"), "{entry}");
    assert!(!server.ask("GET", "/ada/home/").contains("SUMMARY"));
    let shown = engine.seen().iter().map(|seen| String::from_utf8_lossy(&seen.raw).into_owned()).collect::<String>();
    assert!(shown.contains("caldav_password = ***") && !shown.contains("hush-hush") && !said.stdout.contains("hush-hush"));
}

/// A body whose `act` does this, and then all that a body must.
fn acting(lines: &str) -> String {
    let lines = lines.replace('\n', "\n    ");
    format!(
        "import os, sys, time\nfrom semif_agent.decisions import DecisionRequest, Option\nfrom semif_agent.skills import ActionResult, Prediction\n\n\
         def question(text=\"q\"):\n    return DecisionRequest(text, \"Which?\", [Option(\"a\", \"one\"), Option(\"b\", \"two\")])\n\n\
         def predict(ctx, request):\n    assert ctx.engine.loaded\n    return Prediction(\"p\")\n\n\
         def act(ctx, request, prediction):\n    {lines}\n    return ActionResult(\"did it\", \"done\")\n"
    )
}

#[test]
fn what_a_body_may_not_do_ends_its_run_with_a_finding_of_its_own() {
    let (home, engine) = (Home::new(), engine(&[SUCCESS]));
    home.write("outside/secret", "hush");
    let outside = home.around().join("outside/secret").display().to_string();
    let (reads, writes) = (format!("open({outside:?}).read()"), format!("open({outside:?}, \"a\").write(\"x\")"));
    let mocks = "d = question()\nr = ctx.engine.call(d)\nr2 = type(r)(d, [\"a\", \"b\"], [1.0, 0.0])\n\
                 return ActionResult(\"x\", \"y\", decisions=[(d, r2)])";
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("exec(\"import requests\")", "import", "`requests`", &[]),
        (&reads, "file", &outside, &[]),
        (&writes, "file", &outside, &[]),
        ("open(\"note\", \"w\")", "file", "note", &[]),
        ("os.fork()", "process", "os.fork", &[]),
        ("import subprocess\nsubprocess.run([\"true\"])", "process", "subprocess.Popen", &[]),
        ("os.execv(\"/bin/sh\", [\"sh\"])", "process", "os.exec", &[]),
        ("import ctypes", "process", "ctypes", &[]),
        ("import urllib.request as u\nu.urlopen(\"http://127.0.0.1:9/\")", "network", "127.0.0.1:9", &[]),
        ("while time:\n    pass", "cpu", "more than 1s of time on a core", &["--cpu-time", "1s"]),
        ("time.sleep(600)", "wall", "longer than 2s", &["--wall-time", "2s"]),
        ("b = bytearray(1 << 30)", "memory", "more than 128MiB of memory", &["--memory", "128MiB"]),
        ("made = {\"action_log\": \"x\"}\nreturn made", "type", "`act` returned `dict`, not an ActionResult", &[]),
        ("return ActionResult(1, \"x\")", "type", "`ActionResult.action_log` is `int`", &[]),
        ("raise ValueError(\"no\")", "raised", "ValueError: no", &[]),
        ("os._exit(0)", "left", "exit status 0", &[]),
        ("sys.exit(\"bye\")", "left", "SystemExit: bye", &[]),
        ("os.kill(os.getpid(), 11)", "left", "signal 11", &[]),
        (mocks, "mocked", "the engine never made", &[]),
        (
            "for n in range(30):\n    ctx.engine.call(question(f\"q{n}\"))",
            "budget",
            "cost budget of 0.5",
            &["--cost-budget", "0.5"],
        ),
        ("return ActionResult(\"x\" * (2 << 20), \"y\")", "too_long", "1 MiB", &[]),
        (
            "for fd in range(3, 12):\n    try:\n        os.write(fd, b\"rubbish\\n\")\n    except OSError:\n        pass",
            "garbled",
            "rubbish",
            &[],
        ),
        // With the hook out of the way it is the kernel that refuses.
        ("sys.modules[\"__main__\"].watch.on = False\nos.fork()", "raised", "Operation not permitted", &[]),
        ("import socket\nsys.modules[\"__main__\"].watch.on = False\nsocket.socket()", "raised", "Operation not permitted", &[]),
    ];
    for (lines, code, words, more) in cases {
        home.write("rogue/act.py", &acting(lines));
        let said = run(&home, &engine, "rogue/act.py", &[&["--text", "go", "-o", "jsonl"], *more].concat());
        let outcome = ended(&said);
        assert_eq!(
            (said.code(), outcome["fault"]["what"]["code"].as_str()),
            (5, Some(*code)),
            "{lines}: {outcome:#}\n{}",
            said.stderr
        );
        assert!(said.stderr.contains(words) && outcome["is_ok"] == false, "{lines}: {}", said.stderr);
    }
    assert_eq!(fs::read_to_string(&outside).expect("it is there"), "hush");
}

#[test]
fn what_a_body_prints_is_heard_and_is_no_result() {
    let (home, engine) = (Home::new(), engine(&[SUCCESS]));
    let lines = "for n in range(5000):\n    print('{\"is\": \"acted\"}', n)\nos.system";
    home.write("loud/act.py", &acting(lines));
    let said = run(&home, &engine, "loud/act.py", &["--text", "go", "-o", "jsonl"]).ok();
    assert_eq!(ended(&said)["new_state"], "done");
    let printed = notes(&said).into_iter().find(|note| note["what"] == "printed").expect("it is told");
    let lines = printed["lines"].as_array().expect("lines");
    assert!(lines.len() <= 25 && lines.last().is_some_and(|line| line == "{\"is\": \"acted\"} 4999"), "{printed:#}");
}

#[test]
fn a_run_that_failed_is_run_again_within_bounds() {
    let (home, engine) = (Home::new(), engine(&["The goal was not reached", "may reach the goal"]));
    home.write("again/act.py", &acting("pass"));
    let said = run(&home, &engine, "again/act.py", &["--text", "go", "--max-reentries", "2", "-o", "jsonl"]);
    let outcome = ended(&said);
    assert_eq!((said.code(), &outcome["reentries"], &outcome["summary"]), (5, &json!(2), &json!("again.act: failed — did it")));
    assert_eq!(notes(&said).iter().filter(|note| note["what"] == "acted").count(), 3);
}

fn findings(home: &Home, body: &str, source: &str) -> (i32, Vec<String>) {
    home.write(body, source);
    let said = home.run(&["skill", "check", body, "-o", "json"]);
    let told = said.json();
    let of = |finding: &Value| {
        format!(
            "{}:{} {}",
            finding["line"],
            finding["code"].as_str().unwrap_or_default(),
            finding["text"].as_str().unwrap_or_default()
        )
    };
    let errors = told["findings"].as_array().expect("findings").iter().filter(|finding| finding["is_advice"] == false);
    (said.code(), errors.map(of).collect())
}

#[test]
fn each_criterion_of_acceptance_is_a_finding_with_its_line() {
    let home = Home::new();
    let act = "from semif_agent.skills import ActionResult, Prediction\ndef act(ctx, request):\n    return ActionResult(ctx.config['a'], '')\n";
    let cases = [
        ("", "1:empty skill body is empty"),
        ("def act(:\n", "1:syntax skill body is not valid Python: invalid syntax"),
        ("x = 1\n", "1:functions skill body must define a module-level `act` function"),
        (
            "def act(ctx, request, prediction):\n    raise KeyError\n",
            "1:functions skill body must define a module-level `predict` function",
        ),
        ("async def act(ctx, request):\n    raise KeyError\n", "1:functions `act` is async"),
        ("def act(ctx):\n    raise KeyError\n", "1:functions `act` must take (ctx, request, prediction), or (ctx, request)"),
        (
            "import os\nimport requests\n",
            "2:imports imports `requests`, which is neither of the standard library nor the agent package",
        ),
        ("from . import x\n", "1:imports imports a neighbour"),
        ("m = __import__('num' + 'py')\n", "1:imports imports a module whose name is computed"),
        ("from semif_agent.scheduler import Scheduler\n", "1:imports imports `semif_agent.scheduler`"),
        ("from unittest import mock\n", "1:engine imports `unittest.mock`"),
        (
            "def act(ctx, request):\n    return {'action_log': 1}\n",
            "2:returns `act` returns {'action_log': 1}; it must return ActionResult(…)",
        ),
        ("def act(ctx, request):\n    pass\n", "1:returns `act` returns nothing"),
        ("def act(ctx, request):\n    return Result(Path('x'))\n", "2:unbound uses `Path`, which is neither imported nor defined"),
        ("INTEGRATION = []\n", "1:integration INTEGRATION must be a flat dict literal"),
        ("INTEGRATION = {1: 2}\n", "1:integration INTEGRATION keys must be string literals"),
        (
            "INTEGRATION = {'service': 'S', 'transport': 'file'}\n",
            "1:integration INTEGRATION['service'] must be a lowercase snake_case id",
        ),
        (
            "INTEGRATION = {'service': 's', 'transport': 'fax'}\n",
            "1:integration INTEGRATION['transport'] must be one of http, caldav, imap, smtp, pop, subprocess, file, compute",
        ),
        (
            "INTEGRATION = {'service': 's', 'transport': 'imap'}\n",
            "1:integration INTEGRATION declares transport 'imap' but the body shows no imap calls",
        ),
        (
            "INTEGRATION = {'service': 's', 'transport': 'compute', 'config_vars': ['x']}\n",
            "1:integration INTEGRATION.config_vars ['x'] are never read from ctx.config",
        ),
        ("CONTRACT = {'Bad': 'x'}\n", "1:contract contract variable 'Bad' must be lowercase snake_case"),
        ("CONTRACT = {'a': ''}\n", "1:contract contract value for 'a' must be a semantic description string"),
        ("CONTRACT = {\n  'unread': 'x'}\n", "2:contract contract variable 'unread' is never read from ctx.config"),
    ];
    for (source, wanted) in cases {
        let (code, found) = findings(&home, "skills/cat/leaf.py", source);
        assert!(code == 2 && found.iter().any(|finding| finding.starts_with(wanted)), "{source}: {found:#?}");
    }
    assert_eq!(findings(&home, "skills/cat/leaf.py", act), (0, vec![]));
    let (code, found) = findings(&home, "skills/cat/bad-name.py", act);
    assert!(code == 2 && found[0].contains("skill title must be snake_case alnum (dots allowed): bad-name"), "{found:?}");
    let (_, found) = findings(&home, "skills/cat/leaf.py", &format!("{act}raise KeyError('k')\n"));
    assert_eq!(found, ["4:raised skill cat.leaf body failed to import: it raised KeyError: 'k'"]);
    home.write("skills/cat/leaf/skill.py", act);
    let (_, found) = findings(&home, "skills/cat/leaf.py", act);
    assert!(found[0].starts_with("1:duplicate create_skill failed: cat.leaf already exists"), "{found:?}");
}

#[test]
fn a_body_that_is_not_accepted_is_not_run() {
    let (home, engine) = (Home::new(), engine(&[SUCCESS]));
    home.write("bad/act.py", &acting("import requests"));
    let said = run(&home, &engine, "bad/act.py", &["--text", "go"]);
    assert!(said.code() == 2 && said.stderr.contains("act.py:13: imports: imports `requests`"), "{}", said.stderr);
    assert!(engine.seen().is_empty());
}

#[test]
fn a_new_skill_is_accepted_passes_its_test_and_is_not_written_over() {
    let home = Home::new();
    let made = home.run(&["skill", "new", "notes.keep"]).ok();
    let folder = PathBuf::from(made.stdout.trim());
    let path = folder.to_str().expect("UTF-8");
    home.run(&["skill", "check", path]).ok();
    assert_eq!(home.run(&["skill", "test", path]).ok().stdout, "notes.keep: passed\n");
    let again = home.run(&["skill", "new", "notes.keep"]);
    assert!(again.code() == 2 && again.stderr.contains("notes.keep already exists"), "{}", again.stderr);
    fs::write(folder.join("skill.test.py"), "print('before')\nassert 1 == 2, 'one is not two'\n").expect("a file");
    let failed = home.run(&["skill", "test", path]);
    assert!(
        failed.code() == 5 && failed.stderr.contains("line 2, in its test: its test failed: AssertionError: one is not two"),
        "{}",
        failed.stderr
    );
    assert!(failed.stderr.contains("before"), "what it printed is shown: {}", failed.stderr);
}
