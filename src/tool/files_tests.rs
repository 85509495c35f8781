use std::{
    os::unix::fs::{PermissionsExt, symlink},
    sync::mpsc::sync_channel,
    time::Duration,
};

use proptest::prelude::*;
use rustix::fs::mknodat;
use tempfile::TempDir;

use super::*;

struct Place {
    folder: TempDir,
    workspace: Workspace,
}

/// `<tmp>/ws` with `notes.txt`, `inner/`, and the state directory `inner/state`; `<tmp>/secret` outside.
fn place() -> Place {
    let folder = TempDir::new().unwrap();
    let root = folder.path().join("ws");
    fs::create_dir_all(root.join("inner/state")).unwrap();
    for (name, text) in [("ws/notes.txt", "hello"), ("ws/inner/state/state.json", "ledger"), ("secret", "outside")] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let state_dirs = vec![root.join("inner/state")];
    Place { folder, workspace: Workspace { root, state_dirs } }
}

impl Place {
    fn read(&self, path: &str) -> String {
        match self.workspace.read(path) {
            Ok((path, text)) => format!("{path}: {text}"),
            Err(error) => format!("{error:?}"),
        }
    }

    fn write(&self, path: &str) -> String {
        match self.workspace.write(path, "new", Uuid::from_u128(7)) {
            Ok(path) => path,
            Err(error) => format!("{error:?}"),
        }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Every path below the temporary folder, so that a test can say that nothing else came to be.
    fn everything(&self) -> Vec<String> {
        let mut open = vec![self.folder.path().to_owned()];
        let mut found = Vec::new();
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                found.push(entry.path().strip_prefix(self.folder.path()).unwrap().display().to_string());
                if entry.file_type().unwrap().is_dir() {
                    open.push(entry.path());
                }
            }
        }
        found.sort();
        found
    }
}

#[test]
fn a_file_is_read_and_written_inside_the_workspace() {
    let place = place();
    assert_eq!(place.read("./notes.txt"), "notes.txt: hello");
    assert_eq!(place.write("notes.txt"), "notes.txt");
    assert_eq!(place.write("a/b/./c.txt"), "a/b/c.txt");
    assert_eq!(place.read("a/b/c.txt"), "a/b/c.txt: new");
    assert_eq!(place.read("a/none"), "Absent");
    assert_eq!(place.read("notes.txt/x"), "Absent");
}

#[test]
fn no_path_leads_out_of_the_workspace() {
    let place = place();
    symlink(place.folder.path(), place.at("ws/up")).unwrap();
    symlink("../secret", place.at("ws/link")).unwrap();
    symlink(place.at("secret"), place.at("ws/absolute")).unwrap();
    symlink("/proc/self/root", place.at("ws/magic")).unwrap();
    symlink("../elsewhere", place.at("ws/dangling")).unwrap();
    let before = place.everything();
    let secret = place.at("secret").display().to_string();
    for path in
        ["../secret", "inner/../../secret", &secret, "/", "..", ".", "./.", "up/secret", "link", "absolute", "magic/etc/hostname"]
    {
        assert_eq!(place.read(path), "Boundary", "{path}");
    }
    for path in ["../x", "/tmp/x", "up/x", "up/new/x", "magic/tmp/x", "a/../../x"] {
        assert_eq!(place.write(path), "Boundary", "{path}");
    }
    assert!(place.write("dangling/x").ends_with("Boundary"), "a folder is not made through a link");
    assert_eq!(place.write("link"), "BadDestination");
    assert_eq!(place.everything(), before);
    assert_eq!(fs::read_to_string(place.at("secret")).unwrap(), "outside");
}

#[test]
fn a_link_that_stays_inside_is_followed() {
    let place = place();
    symlink("../notes.txt", place.at("ws/inner/link")).unwrap();
    symlink("inner", place.at("ws/door")).unwrap();
    assert_eq!(place.read("inner/link"), "inner/link: hello");
    assert_eq!(place.write("door/x"), "door/x");
    assert_eq!(fs::read_to_string(place.at("ws/inner/x")).unwrap(), "new");
}

#[test]
fn the_ledger_is_out_of_reach_by_any_name() {
    let place = place();
    symlink("inner/state", place.at("ws/alias")).unwrap();
    symlink("inner/state/state.json", place.at("ws/alias.json")).unwrap();
    let before = place.everything();
    for path in ["inner/state/state.json", "alias/state.json", "alias.json", "inner/./state/state.json"] {
        assert_eq!(place.read(path), "Boundary", "{path}");
    }
    for path in ["inner/state/state.json", "inner/state/new/x", "alias/state.json", "alias/x"] {
        assert_eq!(place.write(path), "Boundary", "{path}");
    }
    assert_eq!(place.everything(), before);
}

#[test]
fn a_workspace_inside_the_state_directory_can_be_used_and_its_ledger_not() {
    let place = place();
    let inside = Workspace { root: place.at("ws/inner/state/desk"), state_dirs: place.workspace.state_dirs.clone() };
    fs::create_dir(&inside.root).unwrap();
    assert!(inside.write("x", "new", Uuid::nil()).is_ok());
    assert!(matches!(inside.read("../state.json"), Err(FileError::Boundary)));
    let same = Workspace { root: place.at("ws/inner/state"), ..inside };
    assert!(matches!(same.read("state.json"), Err(FileError::Boundary)));
}

#[test]
fn what_is_no_regular_file_neither_hangs_nor_is_replaced() {
    let place = place();
    mknodat(CWD, place.at("ws/fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let (workspace, (sender, answer)) = (place.workspace.clone(), sync_channel(1));
    std::thread::spawn(move || sender.send(matches!(workspace.read("fifo"), Err(FileError::NotRegular))));
    assert_eq!(answer.recv_timeout(Duration::from_secs(20)), Ok(true), "a FIFO that nobody writes to is not waited for");
    assert_eq!(place.read("inner"), "NotRegular");
    for path in ["fifo", "inner"] {
        assert_eq!(place.write(path), "BadDestination", "{path}");
    }
    assert_eq!(place.write("notes.txt/x"), "BadDestination");
}

#[test]
fn a_file_that_is_too_large_or_no_text_is_refused() {
    let place = place();
    fs::write(place.at("ws/full"), "x".repeat(MAX_FILE_BYTES)).unwrap();
    fs::write(place.at("ws/over"), "x".repeat(MAX_FILE_BYTES + 1)).unwrap();
    fs::write(place.at("ws/bytes"), [0xff, 0xfe]).unwrap();
    assert!(place.workspace.read("full").is_ok());
    assert_eq!(place.read("over"), "NotRegular");
    assert_eq!(place.read("bytes"), "NotText");
}

#[test]
fn a_replaced_file_keeps_its_mode_and_no_draft_stays() {
    let place = place();
    fs::set_permissions(place.at("ws/notes.txt"), fs::Permissions::from_mode(0o640)).unwrap();
    place.write("notes.txt");
    assert_eq!(fs::metadata(place.at("ws/notes.txt")).unwrap().permissions().mode() & 0o777, 0o640);
    fs::write(place.at("ws/.singularity-00000000-0000-0000-0000-000000000007.tmp"), "left over").unwrap();
    assert!(place.write("notes.txt").contains("Io"), "a draft is never written through what is already there");
    assert!(!place.everything().iter().any(|path| path.ends_with(".tmp")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_the_path_nothing_is_touched_outside(
        steps in prop::collection::vec(prop_oneof![Just(".."), Just("."), Just(""), Just("up"), Just("inner"), Just("state"), Just("new")], 1..6),
        absolute in any::<bool>(),
    ) {
        let place = place();
        symlink("..", place.at("ws/up")).unwrap();
        let path = if absolute { format!("/{}", steps.join("/")) } else { steps.join("/") };
        let _ = place.workspace.write(&path, "new", Uuid::nil());
        for found in place.everything() {
            prop_assert!(found == "secret" || found == "ws" || found.starts_with("ws/"), "{}", found);
        }
        prop_assert_eq!(fs::read_dir(place.at("ws/inner/state")).unwrap().count(), 1);
        if let Ok((_, text)) = place.workspace.read(&path) {
            prop_assert_eq!(text, "new");
        }
    }
}
