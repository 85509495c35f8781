//! What a being would lose to one bad server: each is a real process with one fault, beside a good one.
#![expect(clippy::unwrap_used, clippy::panic, clippy::disallowed_methods, reason = "a test may fail, and looks at what runs")]

#[path = "support/las.rs"]
mod las;
#[cfg(test)]
mod support;

use std::{
    fs,
    time::{Duration, Instant},
};

use las::{BINARY, GRACE, Setting, call, command, health, is_up, setting, text};
use serde_json::json;
use singularity::{
    manifest::Scope,
    surface::{
        CallError,
        las::{Las, SharedStart, SharedSurfaces},
    },
    vocab::Span,
};
use support::{SOON, proc, wait_until};

/// What becomes of two calls, one after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    Done,
    Doubt,
    Unavailable,
}
use Outcome::{Done, Doubt, Unavailable};

const ROGUES: [(&str, Outcome); 12] = [
    ("prints rubbish", Done),
    ("never answers", Unavailable),
    ("answers twice", Done),
    ("answers to a wrong id", Done),
    ("answers the wrong id alone", Doubt),
    ("ends in mid-call", Doubt),
    ("floods stdout", Done),
    ("floods stderr", Done),
    ("floods with messages", Done),
    ("exits at once", Unavailable),
    ("closes stdout yet lives", Doubt),
    ("ignores SIGTERM", Done),
];

/// No Las with two surfaces has held more, whatever they sent.
const MAX_MEMORY_KIB: u64 = 128 * 1_024;

async fn ask(las: &Las, surface: &str) -> Outcome {
    match call(las, &format!("{surface}__try"), json!({ "what": "pair" })).await {
        Ok(result) if ["done", "x"].contains(&text(&result)) => Done,
        Err(CallError::Indeterminate { .. }) => Doubt,
        Err(CallError::Failed { code: "surface_unavailable" | "remote_tool", .. }) => Unavailable,
        other => panic!("{other:?}"),
    }
}

/// The most memory that Las has held, in KiB.
fn peak(setting: &Setting) -> u64 {
    let las = setting.fitting(|line| line.ends_with(" las ") && !line.contains("supervise"));
    peak_of(&las.first().unwrap().to_string())
}

fn peak_of(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rogue_harms_itself_alone() {
    for (fault, outcome) in ROGUES {
        let mut rogue = command(&["python3", "-c", include_str!("support/rogue.py"), fault]);
        rogue.timeout = Span::from_secs(3);
        let good = command(&["python3", "-c", include_str!("support/probe.py")]);
        let mut setting = setting([("rogue", rogue), ("good", good)]);
        setting.start.patience = Duration::from_secs(8);
        let las = setting.las().await;
        assert!(is_up(&las, "good"), "{fault}: {:?}", las.health());
        let begun = Instant::now();
        let (of_rogue, of_good) = tokio::join!(ask(&las, "rogue"), ask(&las, "good"));
        assert_eq!((of_rogue, of_good), (outcome, Done), "{fault}: {:?}", health(&las, "rogue"));
        assert_eq!(ask(&las, "good").await, Done, "{fault}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{fault}: {:?}", begun.elapsed());
        assert_eq!((health(&las, "good").restarts, las.restarts()), (0, 0), "{fault}");
        let peak = peak(&setting);
        assert!(peak < MAX_MEMORY_KIB, "{fault}: Las held {peak} KiB");
        las.stop(GRACE).await;
        assert_eq!(setting.processes(), [], "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rogue_that_all_share_harms_itself_alone_too() {
    for (fault, outcome) in ROGUES {
        let mut rogue = command(&["python3", "-c", include_str!("support/rogue.py"), fault]);
        rogue.timeout = Span::from_secs(3);
        let mut good = command(&["python3", "-c", include_str!("support/probe.py")]);
        (rogue.scope, good.scope) = (Scope::Shared, Scope::Shared);
        let mut setting = setting([("rogue", rogue), ("good", good)]);
        let shared = SharedSurfaces::new(SharedStart {
            program: BINARY.into(),
            folders: setting.start.workspace.clone(),
            tokens: setting.start.tokens.clone(),
            env: setting.start.env.clone(),
            patience: Duration::from_secs(8),
            pace: setting.start.pace.clone(),
            linger: Duration::ZERO,
        });
        setting.start.shared = Some(shared.clone());
        let (ada, bob) = tokio::join!(setting.las(), setting.las());
        assert!(is_up(&ada, "good"), "{fault}: {:?}", ada.health());
        let begun = Instant::now();
        let (of_rogue, of_good) = tokio::join!(ask(&ada, "rogue"), ask(&bob, "good"));
        assert_eq!((of_rogue, of_good), (outcome, Done), "{fault}: {:?}", health(&ada, "rogue"));
        assert_eq!((ask(&ada, "good").await, health(&bob, "good").restarts), (Done, 0), "{fault}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{fault}: {:?}", begun.elapsed());
        shared.stop().await;
        // What was just being started is killed, and takes a moment to be gone.
        wait_until(SOON, fault, || proc::mentioning(setting.workspace.path()).is_empty());
    }
    let peak = peak_of("self");
    assert!(peak < MAX_MEMORY_KIB, "this process held {peak} KiB");
}
