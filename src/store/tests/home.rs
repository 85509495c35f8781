use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use crate::{
    store::{Home, HomeError, LockError},
    vocab::Name,
};

fn name(text: &str) -> Name {
    Name::try_from(text).unwrap()
}

#[test]
fn the_home_is_found_upward_and_else_made_here() {
    let dir = tempfile::tempdir().unwrap();
    let deep = dir.path().join("a/b");
    fs::create_dir_all(&deep).unwrap();
    assert_eq!(Home::find(&deep, ".singularity"), deep.join(".singularity"));
    Home::open(&dir.path().join("a/.singularity")).unwrap();
    assert_eq!(Home::find(&deep, ".singularity"), dir.path().join("a/.singularity"));
}

#[test]
fn to_look_for_a_home_makes_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home");
    assert_eq!(Home::existing(&path).unwrap(), None);
    assert!(!path.exists());
    let home = Home::open(&path).unwrap();
    assert_eq!(Home::existing(&path).unwrap(), Some(home));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn a_home_that_others_may_enter_or_that_is_a_link_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home");
    Home::open(&path).unwrap();
    symlink(&path, dir.path().join("link")).unwrap();
    assert!(matches!(Home::open(&dir.path().join("link")), Err(HomeError::Access(_))));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let error = Home::open(&path).unwrap_err();
    let told = std::error::Error::source(&error).unwrap().to_string();
    assert!(told.ends_with(&format!("close it with `chmod 700 {}`", path.display())), "{told}");
    assert!(matches!(Home::existing(&path), Err(HomeError::Access(_))));
}

#[test]
fn a_home_of_another_format_is_refused_and_an_unfinished_one_is_finished() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("home");
    Home::open(&path).unwrap();
    fs::write(path.join("format"), "singularity-home-v9\n").unwrap();
    assert!(matches!(Home::open(&path), Err(HomeError::OtherFormat { found, .. }) if found == "singularity-home-v9"));
    fs::write(path.join("format"), "").unwrap();
    Home::open(&path).unwrap();
    assert_eq!(fs::read_to_string(path.join("format")).unwrap(), "singularity-home-v1\n");
}

#[test]
fn beings_are_listed_by_name_and_work_outside_their_state() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    assert_eq!(home.beings().unwrap(), []);
    for being in ["eve", "ada", "Not a name"] {
        fs::create_dir_all(home.path().join("beings").join(being)).unwrap();
    }
    assert_eq!(home.beings().unwrap(), [name("ada"), name("eve")]);
    assert!(!home.workspace(&name("ada")).starts_with(home.path().join("beings")));
}

#[test]
fn no_folder_of_the_home_but_work_is_a_beings() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    fs::create_dir(home.path().join("work")).unwrap();
    symlink(home.path(), dir.path().join("alias")).unwrap();
    let alias = Home::unmade(&dir.path().join("alias"));
    for kept in ["beings", "beings/ada", "oauth", "not-thought-of-yet", "workshop"] {
        assert!(home.keeps(&home.path().join(kept)) && alias.keeps(&home.path().join(kept)), "{kept}");
    }
    for free in [
        home.path().join("work/ada"),
        home.path().join("work"),
        home.path().to_owned(),
        dir.path().to_owned(),
        dir.path().join("homestead"),
    ] {
        assert!(!home.keeps(&free) && !alias.keeps(&free), "{}", free.display());
    }
}

#[test]
fn a_second_daemon_is_told_the_first_ones_pid_and_a_dead_ones_lock_is_no_obstacle() {
    let dir = tempfile::tempdir().unwrap();
    let home = Home::open(&dir.path().join("home")).unwrap();
    let lock = home.lock_daemon().unwrap();
    let Err(LockError::Held { pid, .. }) = home.lock_daemon() else { panic!("two daemons") };
    assert_eq!(pid, Some(std::process::id()));
    drop(lock);
    fs::write(home.path().join("daemon.lock"), "4194999\n").unwrap();
    home.lock_daemon().unwrap();
}
