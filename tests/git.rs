//! A branch of a Git repository is what runs: fetched, verified, and kept as it was last good while anything about it is wrong.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test plays the authors of a repository, and may fail"
)]

#[cfg(test)]
mod support;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use support::{
    Home, Life, PATIENT, SOON,
    openai::{Reply, Server},
    wait_for, wait_until,
};

/// A repository that others push to, the clone of one of them, and a daemon that follows it.
struct Fleet {
    home: Home,
    server: Server,
    daemon: Option<Life>,
}

impl Fleet {
    /// A repository with one commit, which declares `ada`; nothing follows it yet.
    fn new() -> Self {
        let fleet = Self { home: Home::new(), server: Server::start(|_| Reply::say("well")), daemon: None };
        fs::create_dir(fleet.origin()).expect("a folder can be made");
        git(&fleet.origin(), &["init", "--quiet", "--bare", "--initial-branch=main"]);
        let origin = fleet.origin();
        git(fleet.home.around(), &["clone", "--quiet", origin.to_str().expect("UTF-8"), "work"]);
        git(&fleet.work(), &["checkout", "--quiet", "-b", "main"]);
        fleet.write("fleet/ada.toml", &fleet.ada("1h"));
        fleet.push("begin");
        fleet
    }

    fn origin(&self) -> PathBuf {
        self.home.around().join("origin.git")
    }

    fn work(&self) -> PathBuf {
        self.home.around().join("work")
    }

    fn write(&self, name: &str, text: &str) {
        self.home.write(&format!("work/{name}"), text);
    }

    fn ada(&self, every: &str) -> String {
        let model = format!("[model.scripted]\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n", self.server.base_url());
        format!("{model}\n[being.ada]\nmodel = \"scripted\"\ncycle = {{ every = \"{every}\" }}\n")
    }

    /// Commits all there is and pushes it; yields the commit.
    fn push(&self, message: &str) -> String {
        self.commit(message, &[]);
        git(&self.work(), &["push", "--quiet", "origin", "main"]);
        self.head()
    }

    fn commit(&self, message: &str, flags: &[&str]) {
        git(&self.work(), &["add", "--all"]);
        git(&self.work(), &[&["commit", "--quiet", "--allow-empty", "-m", message], flags].concat());
    }

    fn head(&self) -> String {
        git(&self.work(), &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// The manifest that names the repository, with more keys.
    fn source(&self, more: &str) -> PathBuf {
        let origin = self.origin();
        let text = format!("[source.fleet]\ngit = \"file://{}\"\npath = \"fleet\"\nevery = \"200ms\"\n{more}", origin.display());
        self.home.write("served/source.toml", &text)
    }

    /// Serves the manifest that names the repository.
    fn serve(&mut self, more: &str) {
        self.source(more);
        self.daemon = Some(self.home.spawn(&["serve", "served"]));
    }

    fn object(&self, address: &str) -> Option<Value> {
        let said = self.home.run(&["get", "-o", "json"]);
        if !said.status.success() {
            return None;
        }
        said.json()["items"].as_array()?.iter().find(|object| object["address"] == address).cloned()
    }

    /// Waits until the source is for a reason not ready, and yields why.
    #[track_caller]
    fn wait_for_reason(&self, reason: &str) -> String {
        let ready = |object: &Value| {
            let conditions = object["conditions"].as_array().cloned().unwrap_or_default();
            conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
        };
        let mut last = Value::Null;
        let told = wait_for(PATIENT, &format!("source/fleet to be {reason}"), || {
            last = ready(&self.object("source/fleet")?);
            (last["reason"] == reason).then(|| last["message"].as_str().unwrap_or_default().to_owned())
        });
        assert!(!told.is_empty());
        told
    }

    /// Waits until a commit is what runs.
    #[track_caller]
    fn wait_for_commit(&self, commit: &str) {
        let told = || self.wait_for_reason("InForce");
        wait_until(PATIENT, &format!("commit {commit} to be in force"), || told().contains(commit));
    }

    /// Fails where `ada` is not as the commit has her, or was ever stopped.
    #[track_caller]
    fn assert_ada_goes_on(&self, commit: &str) {
        let ada = self.object("being/ada").expect("ada is declared");
        assert_eq!(ada["source"]["commit"], commit);
        assert_eq!(self.home.events("ada", "stopped"), Vec::<Value>::new());
        assert_eq!(self.home.events("ada", "started").len(), 1);
    }

    #[track_caller]
    fn wait_for_birth(&self, being: &str) {
        wait_until(PATIENT, &format!("the birth of {being}"), || !self.home.events(being, "started").is_empty());
    }
}

/// Runs `git` as an author who has no settings.
#[track_caller]
fn git(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(args).current_dir(folder).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    for role in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{role}_NAME"), "Ada").env(format!("GIT_{role}_EMAIL"), "ada@example.org");
    }
    let output = command.output().expect("git starts");
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_a_branch_declares_runs_and_says_from_which_commit() {
    let fleet = Fleet::new();
    let (first, manifest) = (fleet.head(), fleet.source(""));
    let manifest = manifest.to_str().expect("UTF-8");
    let planned = fleet.home.run(&["plan", "-f", manifest]).ok();
    assert!(planned.stdout.contains("+ source/fleet"), "{}", planned.stdout);
    assert!(planned.stderr.contains("a plan fetches nothing"), "{}", planned.stderr);
    fleet.home.run_within(PATIENT, &["apply", "-f", manifest]).ok();
    fleet.wait_for_commit(&first);
    fleet.wait_for_birth("ada");
    fleet.assert_ada_goes_on(&first);

    fleet.write("fleet/ada.toml", &fleet.ada("2h"));
    fleet.write("README.toml", "this is outside of the folder, and no manifest");
    let second = fleet.push("rest longer");
    fleet.wait_for_commit(&second);
    fleet.assert_ada_goes_on(&second);
    let described = fleet.home.run(&["describe", "being/ada"]).ok().stdout;
    assert!(described.contains(&format!("source/fleet at commit {second}")), "{described}");
    let wide = fleet.home.run(&["get", "-o", "wide"]).ok().stdout;
    assert!(wide.contains(&format!("source/fleet@{}", &second[..12])), "{wide}");
    let history = fleet.home.run(&["history"]).ok().stdout;
    assert!(history.contains(&format!("commit {second} of source/fleet")), "{history}");
    let refused = fleet.home.run(&["delete", "being/ada"]);
    assert!(refused.stderr.contains("comes from source/fleet; remove it in its repository"), "{}", refused.stderr);

    fleet.home.run_within(PATIENT, &["delete", "source/fleet"]).ok();
    wait_until(SOON, "ada to be gone with her source", || fleet.object("being/ada").is_none());
    assert!(!fleet.home.path().join("sources/fleet/record.json").exists());
}

#[test]
fn a_bad_commit_a_rewritten_history_and_a_branch_that_vanished_leave_what_runs() {
    let mut fleet = Fleet::new();
    let first = fleet.head();
    fleet.serve("");
    fleet.wait_for_birth("ada");

    fleet.write("fleet/ada.toml", "[being.ada]\nmodel = \"nobody\"\n");
    fleet.push("forget the model");
    let told = fleet.wait_for_reason("Invalid");
    assert!(told.contains("`nobody`") && told.contains("ada.toml:2"), "{told}");
    fleet.assert_ada_goes_on(&first);

    fleet.write("fleet/ada.toml", &fleet.ada("2h"));
    let second = fleet.push("repair");
    fleet.wait_for_commit(&second);
    fleet.assert_ada_goes_on(&second);

    fs::remove_file(fleet.work().join("fleet/ada.toml")).expect("it is there");
    fleet.write("fleet/README", "nothing here");
    fleet.push("lose everything");
    assert!(fleet.wait_for_reason("Emptied").contains("allow_empty"));
    fleet.assert_ada_goes_on(&second);

    git(&fleet.work(), &["reset", "--quiet", "--hard", &first]);
    fleet.write("fleet/ada.toml", &fleet.ada("3h"));
    fleet.commit("another past", &["--amend"]);
    git(&fleet.work(), &["push", "--quiet", "--force", "origin", "main"]);
    assert!(fleet.wait_for_reason("HistoryRewritten").contains(&second[..12]));
    fleet.assert_ada_goes_on(&second);

    git(&fleet.origin(), &["update-ref", "-d", "refs/heads/main"]);
    assert!(fleet.wait_for_reason("NoBranch").contains("`main`"));
    fleet.assert_ada_goes_on(&second);

    drop(fleet.daemon.take());
    fs::rename(fleet.origin(), fleet.home.around().join("away.git")).expect("it can be moved");
    fleet.serve("");
    assert!(fleet.wait_for_reason("FetchFailed").contains(&format!("commit {} goes on", &second[..12])));
    wait_until(PATIENT, "ada to live on without the repository", || fleet.home.events("ada", "started").len() == 2);
}

/// Whether keys can be made; where they cannot, that is said, and is a failure when `CI=true`.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn can_make_keys() -> bool {
    let can = Command::new("ssh-keygen").arg("-?").output();
    if let Err(error) = &can {
        let why = format!("ssh-keygen cannot be run ({error}); `apt-get install openssh-client` brings it");
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
        eprintln!("skipped: {why}");
    }
    can.is_ok()
}

#[test]
fn only_what_an_allowed_signer_signed_is_taken() {
    if !can_make_keys() {
        return;
    }
    let mut fleet = Fleet::new();
    let keys = fleet.home.around().join("keys");
    fs::create_dir(&keys).expect("a folder can be made");
    for name in ["ada", "eve"] {
        let path = keys.join(name);
        let args = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path.to_str().expect("UTF-8")];
        assert!(Command::new("ssh-keygen").args(args).status().expect("ssh-keygen starts").success());
    }
    let public = fs::read_to_string(keys.join("ada.pub")).expect("a key was made");
    fleet.home.write("served/signers", &format!("ada@example.org namespaces=\"git\" {public}"));
    let sign = |fleet: &Fleet, who: &str| {
        let key = format!("user.signingkey={}", keys.join(who).display());
        git(&fleet.work(), &["-c", "gpg.format=ssh", "-c", &key, "commit", "--quiet", "--allow-empty", "-S", "-m", who]);
        git(&fleet.work(), &["push", "--quiet", "origin", "main"]);
        fleet.head()
    };
    fleet.serve("verify = \"ssh-allowed-signers\"\nallowed_signers = \"signers\"\n");
    assert!(fleet.wait_for_reason("Unverified").contains("no signature"));
    assert_eq!(fleet.object("being/ada"), None, "an unsigned commit came into force");

    let signed = sign(&fleet, "ada");
    fleet.wait_for_commit(&signed);
    assert!(fleet.wait_for_reason("InForce").contains("signed by ada@example.org"));
    fleet.wait_for_birth("ada");
    sign(&fleet, "eve");
    assert!(fleet.wait_for_reason("Unverified").contains("somebody else"));
    fleet.assert_ada_goes_on(&signed);
}

#[test]
fn a_daemon_that_was_killed_in_the_midst_of_a_fetch_fetches_again_and_leaves_no_git_behind() {
    let mut fleet = Fleet::new();
    let around = fleet.home.around().to_owned();
    let real =
        String::from_utf8(Command::new("sh").args(["-c", "command -v git"]).output().expect("sh starts").stdout).expect("UTF-8");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *\" fetch \"*) if ! [ -e {0}/go ]; then : > {0}/hangs; sleep 600; fi;; esac\nexec {1} \"$@\"\n",
        around.display(),
        real.trim()
    );
    let wrapper = fleet.home.write("bin/git", &script);
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).expect("it is ours");
    fleet.source("");
    let path = format!("{}:{}", around.join("bin").display(), std::env::var("PATH").expect("a PATH"));
    let serve = || fleet.home.command(&["serve", "served"]).env("PATH", &path).spawn().expect("the binary starts");
    let mut daemon = serve();
    wait_until(PATIENT, "a fetch to be under way", || around.join("hangs").exists());
    daemon.kill().expect("it runs");
    daemon.wait().expect("it ends");
    wait_until(SOON, "git to end with the daemon", || support::proc::mentioning(&around).is_empty());
    assert!(fleet.home.path().join("sources/fleet/fetching").exists(), "nothing tells that a fetch was cut off");

    fs::write(around.join("go"), "").expect("a file can be written");
    let mut daemon = serve();
    fleet.wait_for_commit(&fleet.head());
    fleet.wait_for_birth("ada");
    daemon.kill().expect("it runs");
    daemon.wait().expect("it ends");
    fleet.daemon = None;
}

#[test]
fn what_two_claim_and_what_reaches_further_is_refused_with_its_places() {
    let mut fleet = Fleet::new();
    let first = fleet.head();
    fleet.serve("");
    fleet.wait_for_birth("ada");

    let mine = fleet.home.write("mine.toml", "[model.own]\nprovider = \"embedded\"\n[being.ada]\nmodel = \"own\"\n");
    let refused = fleet.home.run_within(PATIENT, &["apply", "-f", mine.to_str().expect("UTF-8")]);
    assert_eq!(refused.code(), 2, "{}", refused.stderr);
    let places = ["mine.toml", "sources/fleet/tree/ada.toml"];
    assert!(places.iter().all(|place| refused.stderr.contains(place)), "{}", refused.stderr);

    fleet.write("fleet/more.toml", "[source.other]\ngit = \"https://example.org/fleet.git\"\n");
    fleet.push("lead elsewhere");
    let told = fleet.wait_for_reason("Invalid");
    assert!(told.contains("a source within a source is not fetched"), "{told}");

    // A link is a file with a path in it, and leads nowhere.
    fleet.home.write("secret.toml", "[being.eve]\nmodel = \"scripted\"\n");
    fs::remove_file(fleet.work().join("fleet/more.toml")).expect("it is there");
    symlink(fleet.home.around().join("secret.toml"), fleet.work().join("fleet/more.toml")).expect("a link can be made");
    fleet.push("lead out");
    let link = fleet.head();
    wait_until(PATIENT, "the link to be no manifest", || fleet.wait_for_reason("Invalid").contains(&link[..12]));
    assert!(fleet.wait_for_reason("Invalid").contains("more.toml"));
    assert_eq!(fleet.object("being/eve"), None, "a link led out of the repository");
    fleet.assert_ada_goes_on(&first);
}
