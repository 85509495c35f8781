#![expect(deprecated, reason = "logging and subscriptions are asked for by today's clients")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::future::join_all;
use rmcp::{
    Peer, RoleServer,
    model::{LoggingLevel, ServerNotification},
};
use tokio::{sync::broadcast, time::timeout};

/// From the most to the least talkative.
const LEVELS: [LoggingLevel; 8] = [
    LoggingLevel::Debug,
    LoggingLevel::Info,
    LoggingLevel::Notice,
    LoggingLevel::Warning,
    LoggingLevel::Error,
    LoggingLevel::Critical,
    LoggingLevel::Alert,
    LoggingLevel::Emergency,
];
/// No client follows more resources.
const MAX_URIS: usize = 1_024;
/// How many notifications a client that listens may be behind.
const MAX_BEHIND: usize = 64;
/// A client that does not take what it is told within this time is not told it.
const PATIENCE: Duration = Duration::from_secs(5);

/// The clients that are there, and what each wants to hear.
#[derive(Debug, Default)]
pub(super) struct Guests {
    known: Mutex<BTreeMap<u64, Guest>>,
    next: AtomicU64,
    said: Said,
}

/// What surfaces say to all, for those who listen on a stream. One that falls behind is told that it missed something.
#[derive(Debug)]
struct Said(broadcast::Sender<ServerNotification>);

impl Default for Said {
    fn default() -> Self {
        Self(broadcast::Sender::new(MAX_BEHIND))
    }
}

#[derive(Debug)]
struct Guest {
    peer: Peer<RoleServer>,
    level: Option<LoggingLevel>,
    uris: BTreeSet<String>,
}

impl Guests {
    /// A number for one more client.
    pub(super) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// A client is there.
    pub(super) fn greet(&self, number: u64, peer: &Peer<RoleServer>) {
        self.with(number, peer, |_| ());
    }

    /// A client wants to hear messages of this level and above; yields the level of whoever wants to hear most.
    pub(super) fn set_level(&self, number: u64, peer: &Peer<RoleServer>, level: LoggingLevel) -> LoggingLevel {
        self.with(number, peer, |guest| guest.level = Some(level));
        self.level().unwrap_or(level)
    }

    /// The level of whoever wants to hear most, where somebody said.
    pub(super) fn level(&self) -> Option<LoggingLevel> {
        self.lock().values().filter_map(|guest| guest.level).min_by_key(|level| rank(*level))
    }

    /// A client wants to follow a resource; false when it follows too many.
    pub(super) fn follow(&self, number: u64, peer: &Peer<RoleServer>, uri: &str) -> bool {
        self.with(number, peer, |guest| {
            let fits = guest.uris.contains(uri) || guest.uris.len() < MAX_URIS;
            if fits {
                guest.uris.insert(uri.to_owned());
            }
            fits
        })
    }

    /// A client no longer follows a resource; true when nobody does.
    pub(super) fn unfollow(&self, number: u64, peer: &Peer<RoleServer>, uri: &str) -> bool {
        self.with(number, peer, |guest| guest.uris.remove(uri));
        !self.lock().values().any(|guest| guest.uris.contains(uri))
    }

    /// All resources that somebody follows.
    pub(super) fn followed(&self) -> BTreeSet<String> {
        self.lock().values().flat_map(|guest| guest.uris.iter().cloned()).collect()
    }

    /// Follows what surfaces say to all.
    pub(super) fn listen(&self) -> broadcast::Receiver<ServerNotification> {
        self.said.0.subscribe()
    }

    /// Tells whoever wants to hear it.
    pub(super) async fn tell(&self, said: ServerNotification) {
        let _ = self.said.0.send(said.clone());
        let peers: Vec<Peer<RoleServer>> =
            self.lock().values().filter(|guest| guest.wants(&said)).map(|guest| guest.peer.clone()).collect();
        let told = peers.iter().map(|peer| timeout(PATIENCE, peer.send_notification(said.clone())));
        join_all(told).await;
    }

    fn with<T>(&self, number: u64, peer: &Peer<RoleServer>, change: impl FnOnce(&mut Guest) -> T) -> T {
        let mut known = self.lock();
        known.retain(|_, guest| !guest.peer.is_transport_closed());
        let new = || Guest { peer: peer.clone(), level: None, uris: BTreeSet::new() };
        change(known.entry(number).or_insert_with(new))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Guest>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Guest {
    fn wants(&self, said: &ServerNotification) -> bool {
        match said {
            ServerNotification::LoggingMessageNotification(message) => {
                self.level.is_none_or(|level| rank(message.params.level) >= rank(level))
            }
            // What is below a followed resource is told by its own address.
            ServerNotification::ResourceUpdatedNotification(updated) => {
                self.uris.iter().any(|uri| updated.params.uri.starts_with(uri.as_str()))
            }
            ServerNotification::ResourceListChangedNotification(_) | ServerNotification::PromptListChangedNotification(_) => true,
            _ => false,
        }
    }
}

fn rank(level: LoggingLevel) -> Option<usize> {
    LEVELS.iter().position(|known| *known == level)
}
