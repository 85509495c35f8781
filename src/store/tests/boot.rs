use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::life::Life;
use super::samples::{at, debited, either, fresh, granted, resume, told, tool_finished, tool_started, writes};
use crate::{
    being::{AgentState, DeclaredIdentity, OpenCall},
    store::{Boot, Start, StoreError, peek, read_journal},
};

struct Place {
    _temporary: tempfile::TempDir,
    dir: PathBuf,
}

impl Place {
    fn new() -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("above/life");
        Self { _temporary: temporary, dir }
    }

    /// A place where a life was led and closed.
    fn lived() -> Self {
        let place = Self::new();
        place.open(fresh()).close(at(9)).unwrap();
        place
    }

    fn open(&self, boot: Boot) -> Life {
        let (mut life, _) = Life::open(&self.dir, boot, at(0)).unwrap();
        for (second, write) in (1..).zip(writes().into_iter().skip(1)) {
            life.append(write, 1, at(second)).unwrap();
        }
        life
    }

    fn refused(&self, boot: Boot) -> StoreError {
        Life::open(&self.dir, boot, at(20)).unwrap_err()
    }

    fn state(&self) -> AgentState {
        peek(&self.dir).unwrap().unwrap()
    }

    fn picture(&self) -> PathBuf {
        self.dir.join("state.json")
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn a_boot_has_its_four_outcomes() {
    let place = Place::new();
    assert_eq!(place.refused(resume()).to_string(), "state: resume requested but no state exists");
    assert!(!place.dir.exists(), "a refusal makes no directory");
    place.open(fresh()).close(at(9)).unwrap();
    let path = place.dir.display();
    let told = place.refused(fresh()).to_string();
    assert_eq!(told, format!("state: state already exists at {path}/state.json; use --resume or a new directory"));
    let before = place.state();
    let (life, recovered) = Life::open(&place.dir, resume(), at(10)).unwrap();
    assert_eq!((life.state().budget.clone(), recovered.open_calls.len()), (before.budget, 1));
    drop(life);
    assert!(Life::open(&place.dir, either(), at(11)).is_ok());
    assert!(Life::open(&Place::new().dir, either(), at(11)).is_ok());
}

#[test]
fn a_being_is_not_resumed_as_another() {
    let place = Place::lived();
    let other = DeclaredIdentity { name: Some("eve".into()), ticker: Some("ADA".into()), ..Default::default() };
    let error = place.refused(Boot::Resume { declared: Box::new(other) });
    assert_eq!(error.to_string(), "state: resume identity does not match configuration");
    assert!(error.hint().unwrap().contains("now: name;"), "{:?}", error.hint());
}

#[test]
fn another_schema_and_a_broken_picture_are_told_apart() {
    let place = Place::lived();
    let good = fs::read_to_string(place.picture()).unwrap();
    fs::write(place.picture(), good.replace("being-v1", "being-v9")).unwrap();
    assert_eq!(place.refused(resume()).to_string(), "state: unsupported state schema being-v9");
    let offset = good.find("\"status\"").unwrap();
    fs::write(place.picture(), &good[..offset]).unwrap();
    let told = place.refused(resume()).to_string();
    assert!(told.starts_with(&format!("state: {} is not understood at byte ", place.picture().display())), "{told}");
    fs::write(place.picture(), good.replacen("\"mind\": {", "\"mood\": 1, \"mind\": {", 1)).unwrap();
    assert!(chain(&place.refused(resume())).contains("unknown field `mood`"));
}

#[test]
fn an_edited_picture_is_refused_with_both_digests() {
    let place = Place::lived();
    let good = fs::read_to_string(place.picture()).unwrap();
    let edited = good.replace("Be.", "Be rich.");
    fs::write(place.picture(), &edited).unwrap();
    let told = place.refused(resume()).to_string();
    for digest in [crate::vocab::Digest::of(good), crate::vocab::Digest::of(edited)] {
        assert!(told.contains(&digest.to_string()), "{told}");
    }
}

#[test]
fn a_missing_picture_is_drawn_anew_and_a_missing_journal_is_refused() {
    let place = Place::lived();
    let before = place.state();
    fs::remove_file(place.picture()).unwrap();
    assert_eq!(place.state(), before);
    drop(Life::open(&place.dir, resume(), at(10)).unwrap());
    assert!(place.picture().exists());
    fs::remove_file(place.dir.join("activity.jsonl")).unwrap();
    assert!(matches!(place.refused(resume()), StoreError::NoJournal { .. }));
    assert!(matches!(place.refused(either()), StoreError::NoJournal { .. }));
}

#[test]
fn an_older_picture_of_the_same_life_is_brought_up_by_the_journal() {
    let place = Place::new();
    let mut life = place.open(fresh());
    life.checkpoint(at(7)).unwrap();
    let older = fs::read(place.picture()).unwrap();
    life.append(vec![granted("late"), debited(3)], 1, at(8)).unwrap();
    let state = life.state().clone();
    life.close(at(9)).unwrap();
    let newest = place.state();
    fs::write(place.picture(), older).unwrap();
    assert_eq!(place.state(), newest);
    assert_eq!(newest.budget, state.budget);
}

#[test]
fn a_second_process_is_told_who_holds_the_life() {
    let place = Place::new();
    let life = place.open(fresh());
    let told = place.refused(either()).to_string();
    assert!(told.contains(&format!("process {}", std::process::id())), "{told}");
    assert_eq!(place.state(), *life.state(), "an observer needs no lock");
    drop(life);
    assert!(Life::open(&place.dir, resume(), at(10)).is_ok());
}

#[test]
fn everything_is_for_the_owner_alone() {
    let place = Place::lived();
    assert_eq!([mode(&place.dir), mode(place.dir.parent().unwrap())], [0o700; 2]);
    for entry in fs::read_dir(&place.dir).unwrap() {
        assert_eq!(mode(&entry.unwrap().path()), 0o600);
    }
    for (name, opened, wanted) in
        [("", 0o750, "chmod 700"), ("state.json", 0o604, "chmod 600"), ("activity.jsonl", 0o620, "chmod 600")]
    {
        let path = place.dir.join(name);
        let before = mode(&path);
        fs::set_permissions(&path, fs::Permissions::from_mode(opened)).unwrap();
        let told = chain(&place.refused(resume()));
        assert!(told.contains(wanted) && told.contains(&format!("(mode {opened:04o})")), "{told}");
        fs::set_permissions(&path, fs::Permissions::from_mode(before)).unwrap();
    }
}

#[test]
fn symbolic_links_are_not_followed() {
    let place = Place::lived();
    let aside = place.dir.parent().unwrap().join("aside");
    for name in ["state.json", "activity.jsonl", "lock", ""] {
        let path = if name.is_empty() { place.dir.clone() } else { place.dir.join(name) };
        fs::rename(&path, &aside).unwrap();
        symlink(&aside, &path).unwrap();
        let told = chain(&place.refused(resume()));
        assert!(told.contains("is a symbolic link"), "{name}: {told}");
        fs::remove_file(&path).unwrap();
        fs::rename(&aside, &path).unwrap();
    }
    fs::remove_file(place.picture()).unwrap();
    fs::create_dir(place.picture()).unwrap();
    assert!(chain(&place.refused(resume())).contains("is not a file"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_life_of_someone_else_is_refused() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can give a file away");
        return;
    }
    let place = Place::lived();
    std::os::unix::fs::chown(&place.dir, Some(4242), None).unwrap();
    let told = chain(&place.refused(resume()));
    assert!(told.contains("belongs to user 4242") && told.contains("chown -R 0"), "{told}");
}

#[test]
fn a_begun_call_is_known_after_a_checkpoint_in_mid_cycle() {
    let place = Place::new();
    let (mut life, _) = Life::open(&place.dir, fresh(), at(0)).unwrap();
    life.append(vec![tool_started("a"), tool_finished("a"), tool_started("b")], 3, at(1)).unwrap();
    life.checkpoint(at(2)).unwrap();
    life.append(vec![tool_started("a")], 4, at(3)).unwrap();
    drop(life);
    for _ in 0..2 {
        let (_, recovered) = Life::open(&place.dir, resume(), at(4)).unwrap();
        let open = |call_id: &str, cycle| OpenCall { call_id: call_id.into(), tool: "files__write".into(), cycle };
        assert_eq!(recovered.open_calls, [open("b", 3), open("a", 4)], "an id may be used again");
    }
    let (mut life, _) = Life::open(&place.dir, resume(), at(5)).unwrap();
    life.append(vec![tool_finished("b"), tool_finished("a")], 4, at(6)).unwrap();
    drop(life);
    assert_eq!(Life::open(&place.dir, resume(), at(7)).unwrap().1.open_calls, []);
}

#[test]
fn a_torn_tail_is_cut_off_with_one_warning_and_the_life_goes_on() {
    let place = Place::lived();
    let path = place.dir.join("activity.jsonl");
    let before = fs::read(&path).unwrap();
    fs::write(&path, [before.as_slice(), br#"{"seq":99,"at":"20"#].concat()).unwrap();
    fs::write(place.dir.join(".state-99.tmp"), "half").unwrap();
    let (life, recovered) = Life::open(&place.dir, resume(), at(10)).unwrap();
    let told = &recovered.warnings[..];
    assert!(told.len() == 1 && told[0].contains(&format!("18 bytes at byte {} were cut off", before.len())), "{told:?}");
    drop(life);
    assert_eq!(Life::open(&place.dir, resume(), at(11)).unwrap().1.warnings, [""; 0]);
    assert!(!place.dir.join(".state-99.tmp").exists());
}

#[test]
fn a_birth_that_was_torn_never_was() {
    let place = Place::new();
    fs::create_dir_all(&place.dir).unwrap();
    fs::set_permissions(&place.dir, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(place.dir.join("activity.jsonl"), "{\"seq\":1,").unwrap();
    fs::set_permissions(place.dir.join("activity.jsonl"), fs::Permissions::from_mode(0o600)).unwrap();
    assert!(matches!(place.refused(resume()), StoreError::NothingToResume));
    assert_eq!(Life::open(&place.dir, fresh(), at(0)).unwrap().1.warnings.len(), 1);
}

#[test]
fn pictures_cost_no_more_than_the_records_between_them() {
    let place = Place::new();
    let (mut life, _) = Life::open(&place.dir, fresh(), at(0)).unwrap();
    let (mut drawn, mut pictures) = (0, 0);
    for second in 0..2_000 {
        life.append(vec![told("x".repeat(1_000))], 1, at(second)).unwrap();
        if life.wants_checkpoint() {
            life.checkpoint(at(second)).unwrap();
            drawn += fs::metadata(place.picture()).unwrap().len();
            pictures += 1;
        }
    }
    let lines = read_journal(&place.dir, Start::Beginning).unwrap().unwrap();
    let journal: u64 = lines.map(|line| line.unwrap().json.len() as u64 + 1).sum();
    assert!(pictures >= 4, "a journal that grows must be pictured: {pictures}");
    assert!(drawn <= 2 * journal, "{drawn} bytes of pictures for {journal} bytes of records");
}

#[test]
fn too_much_at_once_is_refused_before_anything_is_written() {
    let place = Place::new();
    let mut life = place.open(fresh());
    let length = fs::metadata(place.dir.join("activity.jsonl")).unwrap().len();
    let huge = vec![told("x".repeat(crate::store::line::MAX_LINE))];
    assert!(matches!(life.append(huge, 1, at(9)), Err(StoreError::TooLarge { .. })));
    assert_eq!(fs::metadata(place.dir.join("activity.jsonl")).unwrap().len(), length);
    life.append(vec![told("small")], 1, at(9)).unwrap();
}
