//! Servers of the protocol without `initialize` tell what changes only on a stream that they were asked for.

use std::{sync::Arc, time::Duration};

use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{ServerPeerInfo, SubscriptionFilter},
    service::Subscription,
};
use tokio::time::{Instant, sleep, timeout};

use super::wire::Faults;
use crate::process::Backoff;

/// How long a server may take to say that it will tell.
const DEADLINE: Duration = Duration::from_secs(5);

/// Asks a server to tell when its tools change; `None` where it tells unasked, or not at all.
pub(super) async fn begin(surface: &str, peer: &Peer<RoleClient>) -> Option<Subscription> {
    if !peer.peer_info().is_some_and(|info| must_be_asked(&info)) {
        return None;
    }
    match ask(peer).await {
        Ok(stream) => Some(stream),
        Err(why) => {
            tracing::warn!(surface, "it says that its tools may change, but not when: {why}");
            None
        }
    }
}

/// Hears the stream, and asks for another when it ends, until the server refuses or the connection is over. What may have been missed in
/// between counts as a change.
pub(super) async fn go_on(surface: String, peer: Peer<RoleClient>, mut stream: Subscription, faults: Arc<Faults>) {
    let mut backoff = Backoff::default();
    loop {
        let began = Instant::now();
        // What it says is counted where it is read.
        while let Ok(Some(_)) = stream.next().await {}
        loop {
            sleep(Backoff::spread(backoff.after(began.elapsed()), rand::random())).await;
            if peer.is_transport_closed() {
                return;
            }
            match ask(&peer).await {
                Ok(again) => {
                    stream = again;
                    break;
                }
                Err(why) if why.is_final => {
                    tracing::warn!(surface, "it tells no longer when its tools change: {why}");
                    return;
                }
                Err(why) => tracing::debug!(surface, "it cannot be heard now: {why}"),
            }
        }
        faults.count_change();
    }
}

fn must_be_asked(info: &ServerPeerInfo) -> bool {
    let may_change = info.capabilities.tools.as_ref().and_then(|tools| tools.list_changed);
    !info.protocol_version.has_initialize() && may_change == Some(true)
}

/// Why there is no stream.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Unheard {
    text: String,
    /// The server said no.
    is_final: bool,
}

async fn ask(peer: &Peer<RoleClient>) -> Result<Subscription, Unheard> {
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    match timeout(DEADLINE, peer.listen(filter)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => {
            Err(Unheard { is_final: matches!(error, ServiceError::McpError(_)), text: super::answer::bounded(&error.to_string()) })
        }
        Err(_) => Err(Unheard { text: format!("no answer within {DEADLINE:?}"), is_final: false }),
    }
}
