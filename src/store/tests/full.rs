use std::{fs, path::Path, process::Command};

use super::life::Life;
use super::samples::{at, decode, either, fold, told};
use crate::store::{StoreError, peek};

/// Where the child finds its full disk.
const PLACE: &str = "SINGULARITY_TEST_SMALL";
/// Whether it is a disk, and not only a limit on files.
const IS_DISK: &str = "SINGULARITY_TEST_IS_DISK";

/// Fills the disk with records until it refuses; returns how many were acknowledged.
fn fill(dir: &Path) -> (u64, Life) {
    let (mut life, _) = Life::open(dir, either(), at(0)).unwrap();
    let mut acknowledged = 2;
    loop {
        match life.append(vec![told("x".repeat(3_000))], 1, at(1)) {
            Ok(records) => acknowledged = records[0].seq,
            Err(StoreError::Full { .. }) => return (acknowledged, life),
            Err(other) => panic!("not told as a full disk: {other}"),
        }
    }
}

fn assert_kept(dir: &Path, acknowledged: u64) {
    let records = decode(&fs::read(dir.join("activity.jsonl")).unwrap());
    assert_eq!(records.len() as u64, acknowledged, "what was acknowledged, and the half line is gone");
    assert_eq!(peek(dir).unwrap(), fold(&records));
}

/// Runs in the child, where files or the disk are small.
#[test]
#[ignore = "is run by the tests below, where the disk is small"]
#[expect(clippy::disallowed_methods, reason = "the parent's way to tell this child what it meets")]
fn on_a_small_disk() {
    let place = std::env::var_os(PLACE).unwrap();
    let (dir, ballast) = (Path::new(&place).join("life"), Path::new(&place).join("ballast"));
    let is_disk = std::env::var_os(IS_DISK).is_some();
    fs::write(&ballast, vec![1; if is_disk { 120_000 } else { 0 }]).unwrap();
    let (acknowledged, mut life) = fill(&dir);
    assert!(matches!(life.append(vec![told("more")], 1, at(2)), Err(StoreError::Poisoned { .. })));
    drop(life);
    assert_kept(&dir, acknowledged);
    if is_disk {
        fs::remove_file(ballast).unwrap();
        let (mut life, recovered) = Life::open(&dir, either(), at(5)).unwrap();
        assert_eq!(recovered.warnings, [""; 0]);
        life.append(vec![told("more")], 1, at(6)).unwrap();
        life.close(at(7)).unwrap();
    }
    println!("acknowledged {acknowledged}");
}

/// Runs the test above under a shell script; `None` where the machine does not let us have a small disk.
fn run_small(script: &str, place: &Path) -> Option<String> {
    let test = "store::tests::full::on_a_small_disk";
    let program = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a child of a test, which ends before the test does")]
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(program).args([test, "--exact", "--ignored", "--nocapture"]).env(PLACE, place);
    let output = shell.output().unwrap();
    if output.status.code() == Some(99) {
        return None;
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("acknowledged "), "{text}");
    Some(text)
}

#[test]
#[expect(clippy::disallowed_methods, reason = "whether a test may be skipped is told by `CI`")]
fn a_full_disk_loses_nothing_acknowledged_and_takes_more_when_there_is_space() {
    let place = tempfile::tempdir().unwrap();
    let script = r#"unshare -Urm true || exit 99
        export SINGULARITY_TEST_IS_DISK=1
        exec unshare -Urm sh -c 'mount -t tmpfs -o size=192k,mode=700 none "$SINGULARITY_TEST_SMALL" || exit 99; exec "$@"' sh "$@""#;
    if run_small(script, place.path()).is_none() {
        assert!(std::env::var_os("CI").is_none(), "this machine lets us mount no small disk");
        eprintln!("skipped: this machine lets us mount no small disk");
    }
}

#[test]
fn a_file_that_may_not_grow_loses_nothing_acknowledged_and_grows_again_later() {
    let place = tempfile::tempdir().unwrap();
    run_small(r#"trap '' XFSZ; ulimit -f 100; exec "$@""#, place.path()).unwrap();
    let dir = place.path().join("life");
    let before = peek(&dir).unwrap().unwrap();
    let (life, recovered) = Life::open(&dir, either(), at(5)).unwrap();
    assert_eq!((recovered.warnings.len(), life.state().conversation.len()), (0, before.conversation.len()));
}
