use std::{collections::BTreeMap, path::PathBuf, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{
    process::{Confinement, Limits, Sandbox},
    vocab::{Size, Span},
};

/// What a body may reach and take. What is not named is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// Where the body works. It must exist; what is in it is neither read nor written for that.
    pub folder: PathBuf,
    /// Files and folders that it may read.
    pub read: Vec<PathBuf>,
    /// Folders in which it may read and write.
    pub write: Vec<PathBuf>,
    /// Hosts that it may connect to; none is no network at all.
    pub network: Vec<Peer>,
    /// Time on a core, rounded up to seconds.
    pub cpu: Span,
    pub memory: Size,
    /// Time on the wall, but for what the engine takes to decide.
    pub wall: Span,
    /// The largest file that it may write.
    pub file_size: Size,
}

/// A host, and a port where only that one is meant. `*` is any host, `loopback` this machine itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Peer {
    pub host: String,
    pub port: Option<u16>,
}

/// A text that is not a host.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a host; write \"calendar.example\", \"127.0.0.1:5232\", \"[::1]:80\", \"loopback\" or \"*\"")]
pub struct BadPeer(String);

/// Files and connections at once.
const MAX_OPEN_FILES: u32 = 128;

impl Grant {
    /// The least: a folder to be in, and bounds that are enough for small work.
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            read: Vec::new(),
            write: Vec::new(),
            network: Vec::new(),
            cpu: Span::from_secs(10),
            memory: Size::mib(256),
            wall: Span::from_secs(60),
            file_size: Size::mib(64),
        }
    }

    /// The same bounds, and nothing to reach.
    pub(super) fn bare(&self) -> Self {
        Self { read: Vec::new(), write: Vec::new(), network: Vec::new(), ..self.clone() }
    }

    pub(super) fn cpu_seconds(&self) -> u64 {
        self.cpu.as_millis().div_ceil(1_000).max(1)
    }

    /// How the process is held. The kernel kills a second after it has warned.
    pub(super) fn confinement(&self) -> Confinement {
        let limits = Limits {
            memory: Some(self.memory),
            cpu: Some(Span::from_secs(self.cpu_seconds() + 1)),
            open_files: Some(MAX_OPEN_FILES),
            file_size: Some(self.file_size),
            processes: None,
        };
        let sandbox = Sandbox {
            network: !self.network.is_empty(),
            read: self.read.clone(),
            write: self.write.clone(),
            alone: true,
            require: true,
        };
        Confinement { limits, sandbox: Some(sandbox) }
    }

    pub(super) fn env(&self, path: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::from([("PATH".to_owned(), path.to_owned()), ("LANG".to_owned(), "C.UTF-8".to_owned())]);
        // Where a body may write at all, its passing files go there too.
        env.extend(self.write.first().map(|folder| ("TMPDIR".to_owned(), folder.display().to_string())));
        env
    }
}

impl FromStr for Peer {
    type Err = BadPeer;

    fn from_str(text: &str) -> Result<Self, BadPeer> {
        let bad = || BadPeer(text.to_owned());
        let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, "")) => (host, None),
            Some((host, port)) => (host, Some(port.strip_prefix(':').ok_or_else(bad)?)),
            None if text.matches(':').count() > 1 => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let is_host = !host.is_empty() && host.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:*".contains(letter));
        let port = port.map(|port| port.parse().ok().filter(|port| *port > 0).ok_or_else(bad)).transpose()?;
        if is_host { Ok(Self { host: host.to_owned(), port }) } else { Err(bad()) }
    }
}

impl TryFrom<String> for Peer {
    type Error = BadPeer;

    fn try_from(text: String) -> Result<Self, BadPeer> {
        text.parse()
    }
}

impl From<Peer> for String {
    fn from(Peer { host, port }: Peer) -> Self {
        match port {
            Some(port) if host.contains(':') => format!("[{host}]:{port}"),
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_read_with_its_port_and_nothing_else_is() {
        let read = |text: &str| text.parse::<Peer>().map(|peer| (peer.host, peer.port)).ok();
        assert_eq!(read("calendar.example"), Some(("calendar.example".into(), None)));
        assert_eq!(read("127.0.0.1:5232"), Some(("127.0.0.1".into(), Some(5232))));
        assert_eq!(read("[::1]:80"), Some(("::1".into(), Some(80))));
        assert_eq!(read("::1"), Some(("::1".into(), None)));
        assert_eq!(read("*"), Some(("*".into(), None)));
        for bad in ["", ":80", "host:", "host:0", "host:70000", "http://host", "a b"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
