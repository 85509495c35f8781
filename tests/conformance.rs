//! What the public conformance suite asks of a server, asked of Las over HTTP in front of a server that has it all.

#[cfg(test)]
mod support;

use std::time::Duration;

use support::{Home, SOON, conformance, wait_for};

/// How many scenarios the suite has for servers.
const SCENARIOS: usize = 32;
/// How long all of them may take.
const DEADLINE: Duration = Duration::from_secs(120);

#[test]
fn nothing_is_lost_between_a_server_and_its_client() {
    let (Some(node), Some(suite)) = (conformance::node(), conformance::suite()) else { return };
    let home = Home::new();
    let script = home.write("conformance.cjs", include_str!("support/conformance.cjs"));
    let command = [node.as_path(), &script, &suite].map(|word| format!("{word:?}")).join(", ");
    home.write("las.toml", &format!("[surface.all]\ncommand = [{command}]\n"));
    let las = home.spawn(&["las", "-f", "las.toml", "--http", "127.0.0.1:0", "--no-prefix"]);
    let url = wait_for(SOON, "the URL is printed", || {
        let (stdout, stderr) = las.said();
        assert!(!stderr.contains("singularity:"), "{stderr}");
        stdout.strip_suffix('\n').map(str::to_owned)
    });
    let verdicts = conformance::run(&node, &suite, &["server", "--url", &url, "--suite", "all"], DEADLINE);
    conformance::compare(&verdicts, SCENARIOS, "conformance/server.toml");
}
