//! What a service manager is told of the daemon: `sd_notify(3)`, where systemd asks for it (`Type=notify`).

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use sd_notify::NotifyState;

use crate::api::{ConditionKind, Handle, List, ObjectStatus, Truth};

/// How long a text about the fleet stands before it is replaced by another.
const PACE: Duration = Duration::from_secs(1);

/// Tells that the daemon is ready once it has converged for the first time, how the fleet is, that it is alive for as long as the
/// reconciler answers, and that it stops. Goes on until it is dropped; where nobody asked, it tells nothing.
pub(super) async fn tell(handle: Handle, env: &BTreeMap<String, String>) -> Infallible {
    if env.contains_key("NOTIFY_SOCKET") {
        let alive = async {
            if let Some(limit) = sd_notify::watchdog_enabled() {
                ping(limit / 2, async || handle.ping().await.is_ok(), || say(&[NotifyState::Watchdog])).await;
            }
        };
        let stopping = async {
            handle.leaving().await;
            say(&[NotifyState::Stopping]);
        };
        tokio::join!(state(&handle), alive, stopping);
    }
    std::future::pending().await
}

async fn state(handle: &Handle) {
    let mut status = handle.status();
    if status.wait_for(|status| status.version > 0).await.is_err() {
        return;
    }
    let mut said = summary(&status.borrow_and_update().list);
    say(&[NotifyState::Ready, NotifyState::Status(&said)]);
    while status.changed().await.is_ok() {
        let now = summary(&status.borrow_and_update().list);
        if now != said {
            say(&[NotifyState::Status(&now)]);
            said = now;
            tokio::time::sleep(PACE).await;
        }
    }
}

/// Tells a sign of life now and after each span, but only after an answer: while none comes, nothing is told.
async fn ping(every: Duration, answers: impl AsyncFn() -> bool, tell: impl Fn()) {
    while answers().await {
        tell();
        tokio::time::sleep(every).await;
    }
}

fn summary(list: &List) -> String {
    let beings = || list.items.iter().filter(|object| object.being.is_some());
    let is = |kind: ConditionKind| beings().filter(|object| has(object, kind)).count();
    let mut text = format!("{} beings, {} ready", beings().count(), is(ConditionKind::Ready));
    let more = [(is(ConditionKind::Stalled), "stalled"), (list.problems.len(), "problems of manifests")];
    text.extend(more.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!(", {count} {what}")));
    text
}

fn has(object: &ObjectStatus, kind: ConditionKind) -> bool {
    object.conditions.iter().any(|condition| condition.kind == kind && condition.status == Truth::True)
}

fn say(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!("the service manager cannot be told {states:?}: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use super::*;

    #[tokio::test]
    async fn a_reconciler_that_does_not_answer_gives_no_sign_of_life() {
        let (asked, told) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let answers = async || match asked.fetch_add(1, Relaxed) {
            0 | 1 => true,
            _ => std::future::pending().await,
        };
        let pinging = ping(Duration::from_millis(1), answers, || {
            told.fetch_add(1, Relaxed);
        });
        assert!(tokio::time::timeout(Duration::from_millis(100), pinging).await.is_err());
        assert_eq!((asked.into_inner(), told.into_inner()), (3, 2));
    }
}
