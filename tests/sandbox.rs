//! What a surface could reach or take if nothing held it: real servers, in a sandbox and out of it.
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may fail, and starts processes")]

#[path = "support/las.rs"]
mod las;

use std::{fs, os::unix::net::UnixListener, time::Duration};

use las::{GRACE, Setting, command, is_up, restarts, setting, wait_until};
use serde_json::json;
use singularity::{
    manifest::{LimitsSpec, SandboxSpec, SurfaceSpec},
    process::{SandboxSupport, sandbox_support},
    surface::las::Las,
    vocab::{Size, Span},
};

const PROBE: &str = include_str!("support/probe.py");

fn probe() -> SurfaceSpec {
    command(&["python3", "-c", PROBE])
}

fn boxed(sandbox: SandboxSpec) -> SurfaceSpec {
    SurfaceSpec { sandbox: Some(SandboxSpec { require: true, ..sandbox }), ..probe() }
}

fn limited(limits: LimitsSpec) -> SurfaceSpec {
    SurfaceSpec { limits, ..probe() }
}

/// What came of an attempt, or of the call.
async fn attempt(las: &Las, surface: &str, what: &str, argument: &str) -> String {
    let called = las::call(las, &format!("{surface}__try"), json!({ "what": what, "argument": argument })).await;
    called.map_or_else(|error| format!("{error:?}"), |result| las::text(&result).to_owned())
}

/// Two servers in one folder: `free` as it comes, `held` in a sandbox with only the workspace.
async fn both() -> (Setting, Las) {
    let held = boxed(SandboxSpec { write: vec!["{workspace}".to_owned()], ..SandboxSpec::default() });
    let setting = setting([("free", probe()), ("held", held)]);
    let las = setting.las().await;
    assert!(is_up(&las, "free") && is_up(&las, "held"), "{:?}", las.health());
    (setting, las)
}

#[test]
fn this_machine_can_show_what_a_sandbox_holds() {
    let support = sandbox_support();
    assert!(support.is_whole(), "{support}");
    let old = SandboxSupport { landlock: Some(2), seccomp: false };
    assert!(!old.is_whole() && old.to_string().contains("Landlock 2") && old.to_string().contains("seccomp"), "{old}");
}

#[tokio::test]
async fn a_sandboxed_surface_reaches_no_file_outside() {
    let (setting, las) = both().await;
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("secret");
    fs::write(&secret, "hush").unwrap();
    let (secret, new) = (secret.to_str().unwrap(), outside.path().join("new"));
    let inside = setting.start.workspace.join("notes");
    let trials = [
        ("read", secret, "hush"),
        ("empty", secret, "emptied"),
        ("write", new.to_str().unwrap(), "written"),
        ("read", "/etc/hostname", ""),
        ("read", &format!("/proc/{}/environ", std::process::id()), ""),
    ];
    for (what, argument, freely) in trials {
        let held = attempt(&las, "held", what, argument).await;
        assert!(held.starts_with("PermissionError"), "{what} {argument}: {held}");
        let free = attempt(&las, "free", what, argument).await;
        assert!(free.contains(freely) && !free.contains("Error"), "{what} {argument}: {free}");
    }
    assert_eq!(attempt(&las, "held", "write", inside.to_str().unwrap()).await, "written");
    assert_eq!(attempt(&las, "held", "read", inside.to_str().unwrap()).await, "x");
    assert_eq!(attempt(&las, "held", "run", "echo from a shell; exec 2>/dev/null").await, "from a shell\n");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_sandboxed_surface_reaches_no_network_and_no_other_process() {
    let (setting, las) = both().await;
    let _listener = UnixListener::bind(setting.start.workspace.join("daemon.sock")).unwrap();
    let me = std::process::id().to_string();
    for (what, argument, freely) in [
        ("socket", "AF_INET", "a socket"),
        ("socket", "AF_INET6", "a socket"),
        ("socket", "AF_UNIX", "a socket"),
        ("socket", "AF_NETLINK", "a socket"),
        ("kill", me.as_str(), "reached"),
    ] {
        let held = attempt(&las, "held", what, argument).await;
        assert!(held.starts_with("PermissionError"), "{what} {argument}: {held}");
        if argument != "AF_NETLINK" {
            assert_eq!(attempt(&las, "free", what, argument).await, freely, "{what} {argument}");
        }
    }
    assert_eq!(attempt(&las, "held", "pair", "").await, "x", "what is connected already is no network");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_sandboxed_surface_makes_no_call_that_no_server_needs() {
    let (_setting, las) = both().await;
    let new_user = libc::CLONE_NEWUSER.to_string();
    let calls = [
        (libc::SYS_ptrace, "0 0 0 0".to_owned()),
        (libc::SYS_bpf, "0 0 0".to_owned()),
        (libc::SYS_io_uring_setup, "1 0".to_owned()),
        (libc::SYS_keyctl, "0 0 0".to_owned()),
        (libc::SYS_userfaultfd, "-1".to_owned()),
        (libc::SYS_perf_event_open, "0 0 0 0 0".to_owned()),
        (libc::SYS_unshare, new_user.clone()),
        (libc::SYS_mount, "0 0 0 0 0".to_owned()),
        (libc::SYS_process_vm_readv, "1 0 0 0 0 0".to_owned()),
        (libc::SYS_clone, format!("{new_user} 0 0 0 0")),
    ];
    for (call, arguments) in calls {
        let held = attempt(&las, "held", "call", &format!("{call} {arguments}")).await;
        assert_eq!(held, format!("-{}", libc::EPERM), "call {call}");
    }
    let unknown = attempt(&las, "held", "call", &format!("{} 0 0", libc::SYS_clone3)).await;
    assert_eq!(unknown, format!("-{}", libc::ENOSYS));
    let free = attempt(&las, "free", "call", &format!("{} 0 0", libc::SYS_clone3)).await;
    assert_ne!(free, format!("-{}", libc::ENOSYS));
    las.stop(GRACE).await;
}

#[tokio::test]
async fn what_a_sandbox_grants_is_there() {
    let granted = tempfile::tempdir().unwrap();
    fs::write(granted.path().join("shared"), "for all").unwrap();
    let path = granted.path().to_str().unwrap().to_owned();
    let sandbox = SandboxSpec { network: true, read: vec![path.clone()], ..SandboxSpec::default() };
    let setting = setting([("held", boxed(sandbox))]);
    let las = setting.las().await;
    assert_eq!(attempt(&las, "held", "read", &format!("{path}/shared")).await, "for all");
    assert!(attempt(&las, "held", "write", &format!("{path}/new")).await.starts_with("PermissionError"));
    assert_eq!(attempt(&las, "held", "socket", "AF_INET").await, "a socket");
    assert!(attempt(&las, "held", "socket", "AF_UNIX").await.starts_with("PermissionError"));
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_sandbox_that_names_what_is_not_there_says_so() {
    let sandbox = SandboxSpec { write: vec!["{workspace}/nowhere".to_owned()], ..SandboxSpec::default() };
    let setting = setting([("held", boxed(sandbox))]);
    let las = setting.las().await;
    let reason = las.health().into_values().next().unwrap().reason.unwrap();
    assert!(reason.contains("/nowhere`, which the sandbox names"), "{reason}");
    las.stop(GRACE).await;
}

/// Runs `work` where the kernel knows no Landlock, as all that descends from this thread sees it.
fn without_landlock(work: impl Future<Output = ()> + Send + 'static) {
    let blind = || {
        let rules = [444, 445, 446].map(|call| (call, Vec::new()));
        let unknown = seccompiler::SeccompAction::Errno(libc::ENOSYS.unsigned_abs());
        let arch = std::env::consts::ARCH.try_into().unwrap();
        let filter = seccompiler::SeccompFilter::new(rules.into(), seccompiler::SeccompAction::Allow, unknown, arch).unwrap();
        let program: seccompiler::BpfProgram = filter.try_into().unwrap();
        seccompiler::apply_filter(&program).unwrap();
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work);
    };
    std::thread::spawn(blind).join().unwrap();
}

#[test]
fn a_required_sandbox_that_the_kernel_cannot_keep_lets_nothing_start() {
    without_landlock(async {
        let setting = setting([("held", boxed(SandboxSpec::default()))]);
        let las = setting.las().await;
        let health = las.health().into_values().next().unwrap();
        let reason = health.reason.unwrap();
        assert!(!health.up && reason.contains("the sandbox is required, but this kernel has no Landlock"), "{reason}");
        las.stop(GRACE).await;
    });
}

#[test]
fn a_sandbox_that_is_not_required_keeps_what_it_can() {
    without_landlock(async {
        let sandbox = Some(SandboxSpec::default());
        let setting = setting([("held", SurfaceSpec { sandbox, ..probe() })]);
        let las = setting.las().await;
        assert!(!attempt(&las, "held", "read", "/etc/hostname").await.contains("Error"));
        assert!(attempt(&las, "held", "socket", "AF_INET").await.starts_with("PermissionError"));
        las.stop(GRACE).await;
    });
}

#[tokio::test]
async fn what_a_process_takes_ends_at_its_limits() {
    let held = limited(LimitsSpec {
        memory: Some(Size::mib(128)),
        open_files: Some(64),
        file_size: Some(Size::bytes(0)),
        ..LimitsSpec::default()
    });
    let setting = setting([("free", probe()), ("held", held)]);
    let las = setting.las().await;
    let file = setting.start.workspace.join("file");
    let much = Size::mib(256).as_bytes().to_string();
    for (what, argument, error) in
        [("hold", much.as_str(), "MemoryError"), ("open", "100", "OSError"), ("write", file.to_str().unwrap(), "OSError")]
    {
        let held = attempt(&las, "held", what, argument).await;
        assert!(held.starts_with(error), "{what}: {held}");
        let free = attempt(&las, "free", what, argument).await;
        assert!(!free.contains("Error"), "{what}: {free}");
    }
    assert_eq!(attempt(&las, "free", "limit", "RLIMIT_CORE").await, "(0, 0)", "a dump of memory holds secrets");
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_process_that_spins_is_ended_and_the_surface_comes_back() {
    let setting = setting([("held", limited(LimitsSpec { cpu: Some(Span::from_secs(1)), ..LimitsSpec::default() }))]);
    let las = setting.las().await;
    let spun = attempt(&las, "held", "spin", "").await;
    assert!(spun.contains("Indeterminate"), "{spun}");
    wait_until("it is back", || is_up(&las, "held")).await;
    las.stop(GRACE).await;
}

#[tokio::test]
async fn a_fork_bomb_ends_with_its_surface_alone() {
    let held = limited(LimitsSpec { processes: Some(8), ..LimitsSpec::default() });
    let setting = setting([("free", probe()), ("held", held)]);
    let las = setting.las().await;
    assert_eq!(attempt(&las, "held", "fork", "3").await, "forked");
    assert_eq!(attempt(&las, "free", "fork", "20").await, "forked");
    attempt(&las, "held", "fork", "200").await;
    wait_until("it was ended", || restarts(&las, "held") == 1 && is_up(&las, "held")).await;
    let sleepers = setting.processes().into_iter().filter(|(_, line)| line.starts_with("sleep")).count();
    assert_eq!((sleepers, restarts(&las, "free")), (20, 0));
    las.stop(GRACE).await;
    tokio::time::timeout(Duration::from_secs(20), async {
        wait_until("all are gone", || setting.processes().is_empty()).await;
    })
    .await
    .unwrap();
}
