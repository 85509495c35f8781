use std::{
    collections::BTreeMap,
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use sha2::{Digest as _, Sha256};

use super::{Assignment, Clock, Deciders, Ids, Ledger, Weights};
use crate::{
    being::Identity,
    decision::DecisionLog,
    manifest::{Fleet, SurfaceSpec},
    model::Models,
    process::Backoff,
    store::{CommitLog, Home},
    surface::{
        Keyring,
        las::{LasStart, SharedStart, SharedSurfaces},
    },
    vocab::{Digest, Name, chain},
};

/// Forgets the tokens, kept in `folder`, of surfaces that have no use for them any more. Others there may be of a manifest that this
/// process never saw.
pub fn forget_tokens(folder: &Path, before: &Fleet, after: &Fleet) {
    let has_use = |fleet: &Fleet, name: &Name| fleet.surfaces.get(name).is_some_and(Keyring::is_for);
    for name in before.surfaces.keys().filter(|name| has_use(before, name) && !has_use(after, name)) {
        match Keyring::forget(name, folder) {
            Ok(()) => tracing::info!(surface = %name, "it has no use for tokens any more, so they are forgotten"),
            Err(error) => tracing::error!(surface = %name, "it has no use for tokens any more, and they stay: {}", chain(&error)),
        }
    }
}

/// What all beings of one process stand on.
#[derive(Debug)]
pub struct Ground {
    pub home: Home,
    /// Where a look at a being makes folders, when there is no home in which they could stay.
    passing: Option<Home>,
    pub models: Models,
    pub weights: Weights,
    /// What decides.
    pub deciders: Deciders,
    /// What all beings of the home spend.
    pub ledger: Ledger,
    pub clock: Clock,
    pub ids: Ids,
    /// This program's own binary: it is the Las and the supervisor too.
    pub program: PathBuf,
    /// The environment of the process, as it was read at its start.
    pub env: BTreeMap<String, String>,
    /// Where many beings share a sync; one being alone has none.
    pub commit_log: Option<CommitLog>,
    /// Where surfaces of scope `shared` are one for all beings; one being alone has its own.
    pub shared: Option<SharedSurfaces>,
    /// The digest of the program, computed when it is first asked for.
    executable: OnceLock<Digest>,
}

impl Ground {
    /// Puts the ground together.
    pub fn new(
        home: Home,
        (models, weights): (Models, Weights),
        (clock, ids): (Clock, Ids),
        program: PathBuf,
        env: BTreeMap<String, String>,
    ) -> Self {
        let deciders = Deciders::new(models.clone(), clock.clone(), ids.clone());
        Self {
            home,
            passing: None,
            models,
            deciders,
            weights,
            ledger: Ledger::default(),
            clock,
            ids,
            program,
            env,
            commit_log: None,
            shared: None,
            executable: OnceLock::new(),
        }
    }

    /// Lets beings share the syncs of a log.
    #[must_use]
    pub fn with(self, log: CommitLog) -> Self {
        Self { commit_log: Some(log), ..self }
    }

    /// Keeps what is decided in a log.
    #[must_use]
    pub fn deciding_into(self, log: DecisionLog) -> Self {
        Self { deciders: self.deciders.logged(log), ..self }
    }

    /// Keeps the home as it is: what a look at a being makes is made in `folder`, which does not outlive the look.
    #[must_use]
    pub fn passing(self, folder: &Path) -> Self {
        Self { passing: Some(Home::unmade(folder)), ..self }
    }

    fn place(&self) -> &Home {
        self.passing.as_ref().unwrap_or(&self.home)
    }

    /// Where a being works on files, unless its manifest says otherwise.
    pub(super) fn workspace(&self, name: &Name) -> PathBuf {
        self.place().workspace(name)
    }

    /// Where the tokens of surfaces are kept.
    pub(super) fn tokens(&self) -> PathBuf {
        self.place().oauth()
    }

    /// Lets beings share the surfaces of scope `shared`.
    #[must_use]
    pub fn sharing(self) -> Self {
        let start = SharedStart {
            program: self.program.clone(),
            folders: self.home.shared(),
            tokens: self.home.oauth(),
            env: self.env.clone(),
            patience: LasStart::PATIENCE,
            pace: Backoff::default(),
            linger: SharedStart::LINGER,
        };
        Self { shared: Some(SharedSurfaces::new(start)), ..self }
    }

    /// The tokens of a declared surface; `None` where that has no use for any.
    pub fn keyring(&self, name: &Name, spec: &SurfaceSpec) -> Option<Keyring> {
        Keyring::of(name, spec, &self.tokens(), self.env.clone())
    }

    /// The identity of a newborn, where its operator declared nothing else.
    pub fn pinned(&self, assignment: &Assignment) -> Identity {
        let name = assignment.name.to_string();
        let executable = self.executable.get_or_init(|| self.digest_of_program()).to_string();
        let policy = serde_json::to_vec(assignment).unwrap_or_default();
        Identity {
            agent_id: self.ids.next().to_string(),
            ticker: name.chars().filter(char::is_ascii_alphanumeric).take(6).collect::<String>().to_uppercase(),
            agent_type: "general".to_owned(),
            specialty: assignment.being.specialty.clone(),
            role: "being".to_owned(),
            environment: "local".to_owned(),
            host: rustix::system::uname().nodename().to_str().map_or_else(|_| "unknown".to_owned(), plain),
            workload_id: self.ids.next().to_string(),
            workload_public_key: NO_KEY.to_owned(),
            code_digest: executable.clone(),
            executable_digest: executable,
            policy_digest: Digest::of(&policy).to_string(),
            policy_sequence: 0,
            name,
        }
    }

    /// The program may be much larger than what a being takes, so it is read piece by piece.
    fn digest_of_program(&self) -> Digest {
        let digest = File::open(&self.program).and_then(|mut file| {
            let (mut hasher, mut block) = (Sha256::new(), vec![0; 128 << 10]);
            loop {
                match file.read(&mut block)? {
                    0 => return Ok(Digest::finish(hasher)),
                    read => hasher.update(block.get(..read).unwrap_or_default()),
                }
            }
        });
        digest.unwrap_or_else(|_| Digest::of([]))
    }
}

/// The public key of a workload that has none.
const NO_KEY: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A host's name with only the characters of an identifier.
fn plain(host: &str) -> String {
    let plain: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || "-_.:".contains(*c)).take(128).collect();
    if plain.is_empty() { "unknown".to_owned() } else { plain }
}
