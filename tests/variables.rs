//! Secrets in the environment of a surface's process: what would be lost if they were read only once, and who would see them.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail, and lays out files")]

#[path = "support/las.rs"]
mod las;

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use las::{GRACE, call, command, health, is_up, restarts, setting, text, wait_until};
use serde_json::json;
use singularity::manifest::{SecretSource, VariableSpec};

/// A server that says what is in a variable, and ends when it is told to.
const TELLS: &str = r#"
import json, os, sys
def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, id, params = asked.get("method"), asked.get("id"), asked.get("params", {})
    if method == "initialize":
        able = {"tools": {}}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": {"name": "tells", "version": "1"}})
    elif method == "tools/list":
        send(id=id, result={"tools": [{"name": "tell", "inputSchema": {"type": "object"}}]})
    elif method == "tools/call" and params["arguments"].get("die"):
        sys.exit(3)
    elif method == "tools/call":
        said = " ".join(os.environ.get(name, "-") for name in params["arguments"]["names"])
        send(id=id, result={"content": [{"type": "text", "text": said}]})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "method not found"})
"#;

fn keep(path: &Path, secret: &str, mode: u32) {
    fs::write(path, secret).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn a_secret_that_was_exchanged_is_given_to_the_next_process_and_one_that_others_can_read_to_none() {
    let mut near = command(&["python3", "-c", TELLS]);
    let mut setting = setting([]);
    let token = setting.workspace.path().join("token");
    keep(&token, "f1rst-token\n", 0o600);
    keep(&setting.workspace.path().join("handed"), "h4nded-over\n", 0o440);
    let secret = |source| VariableSpec::Secret(source);
    near.env.insert("TOKEN".to_owned(), secret(SecretSource::File(token.clone())));
    near.env.insert("KEY".to_owned(), secret(SecretSource::Env("SPARE_KEY".to_owned())));
    near.env.insert("HANDED".to_owned(), secret(SecretSource::Credential("handed".to_owned())));
    near.env.insert("PLAIN".to_owned(), VariableSpec::Text("in {workspace}".to_owned()));
    setting.start.surfaces.insert("near".parse().unwrap(), near);
    setting.start.env.insert("SPARE_KEY".to_owned(), "sp4re-key".to_owned());
    setting.start.env.insert("CREDENTIALS_DIRECTORY".to_owned(), setting.workspace.path().to_str().unwrap().to_owned());
    let las = setting.las().await;
    let names = json!({ "names": ["TOKEN", "KEY", "HANDED", "PLAIN", "SPARE_KEY", "CREDENTIALS_DIRECTORY"] });
    let told = call(&las, "near__tell", names.clone()).await.unwrap();
    let plain = format!("in {}", setting.start.workspace.display());
    assert_eq!(text(&told), format!("f1rst-token sp4re-key h4nded-over {plain} - -"));

    keep(&token, "s3cond-token", 0o600);
    call(&las, "near__tell", json!({ "die": true })).await.unwrap_err();
    wait_until("it is lost", || restarts(&las, "near") > 0).await;
    wait_until("it is up again", || is_up(&las, "near")).await;
    let told = call(&las, "near__tell", names.clone()).await.unwrap();
    assert!(text(&told).starts_with("s3cond-token "), "{told}");

    fs::set_permissions(&token, fs::Permissions::from_mode(0o644)).unwrap();
    call(&las, "near__tell", json!({ "die": true })).await.unwrap_err();
    wait_until("it is told why there is none", || health(&las, "near").reason.unwrap_or_default().contains("chmod 600")).await;
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    wait_until("it is up again", || is_up(&las, "near")).await;
    las.stop(GRACE).await;
}
