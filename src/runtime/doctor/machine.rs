use std::{io, os::unix::fs::MetadataExt as _, path::Path};

use rustix::{fs::Access, io::Errno};

use super::diagnosis::{Area, Finding};
use crate::{
    process::sandbox_support,
    runtime::{Ground, clock::Stopwatch},
    store::Home,
    vocab::Timestamp,
};

/// No clock of a machine that this program runs on is earlier.
const EARLIEST: Timestamp = Timestamp::constant(1_767_225_600, 0);
/// By how many seconds clocks may differ.
const TOLERANCE: i64 = 5;
/// Below this the next cycles may not find room.
const LITTLE_BYTES: u64 = 32 << 20;
const FEW_BYTES: u64 = 512 << 20;
/// How many entries of the home are looked at.
const MAX_ENTRIES: usize = 4_096;

/// Whether the kernel can keep the sandbox of a surface.
pub(super) fn sandbox() -> Finding {
    let support = sandbox_support();
    match support.is_whole() {
        true => Finding::good("sandbox", Area::State, support.to_string()),
        false => {
            let hint = "use a newer kernel with `landlock` in its `lsm=` list, for surfaces that declare a sandbox";
            Finding::doubtful("sandbox", Area::State, support.to_string(), hint)
        }
    }
}

/// Whether the clock agrees with the files that were written by it, and goes as fast as time does.
pub(super) fn clock(ground: &Ground, began: Timestamp, watch: Stopwatch) -> Finding {
    let now = ground.clock.now();
    let newest = newest(ground.home.path()).max(modified(&ground.program));
    judge_clock(began, now, watch.elapsed().as_duration().as_secs(), newest)
}

fn judge_clock(began: Timestamp, now: Timestamp, waited: u64, newest: Option<i64>) -> Finding {
    let bad = |found: String, hint: &str| Finding::bad("clock", Area::State, found, hint);
    let hint = "set the machine's clock, by NTP; budgets, schedules and signatures go by it";
    if now < EARLIEST {
        return bad(format!("it says {now}, which is long past"), hint);
    }
    let ahead = newest.map_or(0, |newest| newest.saturating_sub(now.as_second()));
    if ahead > TOLERANCE {
        return bad(format!("it says {now}, {ahead} seconds before the newest file of the home was written"), hint);
    }
    let told = now.as_second().saturating_sub(began.as_second());
    let drift = told.saturating_sub(i64::try_from(waited).unwrap_or(i64::MAX));
    if drift.abs() > TOLERANCE {
        let found = format!("it moved by {told} seconds while {waited} passed");
        return Finding::doubtful("clock", Area::State, found, "look who sets it");
    }
    Finding::good("clock", Area::State, format!("it says {now}, and no file of the home is newer"))
}

/// When the newest entry of the home and of its beings was written, in seconds.
fn newest(home: &Path) -> Option<i64> {
    let children = |path: &Path| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let all = children(home).flat_map(|path| std::iter::once(path.clone()).chain(children(&path)).collect::<Vec<_>>());
    let beings = children(&home.join("beings")).flat_map(|being| children(&being).collect::<Vec<_>>());
    all.chain(beings).take(MAX_ENTRIES).filter_map(|path| modified(&path)).max()
}

fn modified(path: &Path) -> Option<i64> {
    std::fs::symlink_metadata(path).ok().map(|facts| facts.mtime())
}

/// Whether the home's disk has room.
pub(super) fn disk(home: &Home) -> Finding {
    match rustix::fs::statvfs(ground_of(home.path())) {
        Ok(facts) => judge_disk(facts.f_bavail.saturating_mul(facts.f_frsize), facts.f_favail, facts.f_files),
        Err(error) => {
            let found = format!("how much room there is cannot be seen: {error}");
            Finding::doubtful("disk", Area::State, found, format!("look at `df {}`", home.path().display()))
        }
    }
}

/// Some file systems count no files: theirs are 0 of 0.
fn judge_disk(bytes: u64, files: u64, all_files: u64) -> Finding {
    let found = format!("{} MiB are free for the home", bytes >> 20);
    let hint = "make room; a being that cannot write its journal stops";
    if bytes < LITTLE_BYTES {
        return Finding::bad("disk", Area::State, found, hint);
    }
    if bytes < FEW_BYTES {
        return Finding::doubtful("disk", Area::State, found, hint);
    }
    if all_files > 0 && files < 1_000 {
        return Finding::doubtful("disk", Area::State, format!("{found}, but only {files} more files fit"), hint);
    }
    Finding::good("disk", Area::State, found)
}

/// Whether the home is its owner's alone.
pub(super) fn home(home: &Home) -> Finding {
    let (path, user) = (home.path().display(), rustix::process::geteuid().as_raw());
    let fault = match std::fs::symlink_metadata(home.path()) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return unmade(home.path()),
        Err(error) => Some(format!("{path} cannot be looked at: {error}")),
        Ok(facts) if !facts.is_dir() => Some(format!("{path} is no folder")),
        Ok(facts) if facts.uid() != user => {
            Some(format!("{path} belongs to user {} and not to user {user}, who runs this", facts.uid()))
        }
        Ok(facts) if facts.mode() & 0o077 != 0 => Some(format!("{path} can be entered by others")),
        Ok(_) => None,
    };
    match fault {
        Some(found) => Finding::bad("home", Area::State, found, format!("chown \"$USER\" {path} && chmod 700 {path}")),
        None => Finding::good("home", Area::State, format!("{path} is its owner's alone")),
    }
}

/// Whether a home that is not there can be made when it is needed.
fn unmade(path: &Path) -> Finding {
    let above = ground_of(path);
    let folder = if above.is_dir() { Ok(above) } else { Err(Errno::NOTDIR) };
    match folder.and_then(|folder| rustix::fs::access(folder, Access::WRITE_OK | Access::EXEC_OK)) {
        Ok(()) => Finding::good("home", Area::State, format!("{} is not there yet, and can be made", path.display())),
        Err(error) => {
            let found = format!("{} is not there, and cannot be made in {}: {error}", path.display(), above.display());
            Finding::bad("home", Area::State, found, "name another with --home, or let this user write there")
        }
    }
}

/// The nearest folder above a path, or the path itself, that is there.
fn ground_of(path: &Path) -> &Path {
    path.ancestors().find(|above| above.exists()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::{super::diagnosis::State, *};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(EARLIEST.as_second() + second).unwrap()
    }

    #[test]
    fn a_clock_that_is_behind_its_own_files_or_jumps_is_told() {
        let newest = |second: i64| Some(EARLIEST.as_second() + second);
        let state = |began, now, waited, newest| judge_clock(at(began), at(now), waited, newest).state;
        assert_eq!(state(100, 103, 3, newest(103)), State::Good);
        assert_eq!(state(100, 103, 3, None), State::Good);
        assert_eq!(state(100, 103, 3, newest(109)), State::Bad);
        assert_eq!(state(100, 160, 3, newest(100)), State::Doubtful);
        assert_eq!(state(100, 40, 3, None), State::Doubtful);
        assert_eq!(judge_clock(Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH, 0, None).state, State::Bad);
    }

    #[test]
    fn a_disk_that_is_nearly_full_is_told_before_it_is() {
        assert_eq!(judge_disk(1 << 30, 0, 0).state, State::Good);
        assert_eq!(judge_disk(1 << 30, 10, 1_000_000).state, State::Doubtful);
        assert_eq!(judge_disk(100 << 20, 5_000, 10_000).state, State::Doubtful);
        assert_eq!(judge_disk(1 << 20, 5_000, 10_000).state, State::Bad);
    }
}
