//! The tools of the tests themselves: a process check that finds nothing would let every test of processes pass.

#[cfg(test)]
mod support;

use std::{
    panic::catch_unwind,
    process::{Command, Stdio},
    time::Duration,
};

use support::{Home, SOON, proc, wait_until};

/// A shell whose child sleeps in the folder around the home.
#[expect(clippy::disallowed_methods, clippy::expect_used, reason = "a process to be found")]
fn sleeper(home: &Home) -> std::process::Child {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "sleep 600; true"]).current_dir(home.around()).env_clear().stdout(Stdio::null()).spawn().expect("a shell")
}

#[test]
fn a_grandchild_is_found_and_does_not_outlive_its_home() {
    let home = Home::new();
    let mut shell = sleeper(&home);
    let pid = i32::try_from(shell.id()).expect("a small id");
    wait_until(SOON, "the shell's child", || proc::descendants(pid).iter().any(|process| process.command.starts_with("sleep")));
    let grandchild = proc::descendants(pid).remove(0);
    assert_eq!(grandchild.parent, pid);
    let found = proc::mentioning(home.around());
    assert!(found.contains(&grandchild) && found.iter().any(|process| process.pid == pid), "{found:?}");
    drop(home);
    wait_until(SOON, "both to end", || !grandchild.is_alive() && shell.try_wait().is_ok_and(|ended| ended.is_some()));
}

#[test]
fn a_home_finds_no_process_of_another() {
    let (mine, other) = (Home::new(), Home::new());
    let mut shell = sleeper(&other);
    wait_until(SOON, "the shell", || !proc::mentioning(other.around()).is_empty());
    assert_eq!(proc::mentioning(mine.around()), []);
    drop(other);
    wait_until(SOON, "the shell's end", || shell.try_wait().is_ok_and(|ended| ended.is_some()));
}

#[test]
fn what_does_not_come_true_in_time_fails_with_its_name() {
    let failed =
        catch_unwind(|| wait_until(Duration::from_millis(20), "the impossible", || false)).expect_err("it cannot come true");
    let said = failed.downcast_ref::<String>().expect("a message");
    assert!(said.contains("the impossible"), "{said}");
}

#[test]
fn a_socket_fits_into_the_path_of_a_home() {
    let socket = Home::new().path().join("singularity.sock");
    assert!(socket.as_os_str().len() < 108, "{}", socket.display());
}
