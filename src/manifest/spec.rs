use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde::{Deserialize, Deserializer, Serialize};
use url::{Host, Url};

use super::tree::{CategorySpec, DecisionSpec, Route};
use crate::{
    being::{Cadence, DeclaredIdentity, Price},
    vocab::{Address, Cron, Hours, Kind, Name, Size, Span, Usd, Zone},
};

/// Everything that one set of manifests declares, resolved: no default is open, no reference dangles (SPEC §2).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<Name, SourceSpec>,
    pub models: BTreeMap<Name, ModelSpec>,
    pub surfaces: BTreeMap<Name, SurfaceSpec>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub caps: BTreeMap<Name, CapSpec>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub decisions: BTreeMap<Name, DecisionSpec>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub categories: BTreeMap<Name, CategorySpec>,
    pub beings: BTreeMap<Name, BeingSpec>,
}

impl Fleet {
    /// Every address of the fleet, in the order of the kinds.
    pub fn addresses(&self) -> impl Iterator<Item = Address> {
        let of = |kind| move |name: &Name| Address::new(kind, name.clone());
        let models = self.sources.keys().map(of(Kind::Source)).chain(self.models.keys().map(of(Kind::Model)));
        let caps = self.caps.keys().map(of(Kind::Cap));
        let trees = self.decisions.keys().map(of(Kind::Decision)).chain(self.categories.keys().map(of(Kind::Category)));
        let bodiless = models.chain(self.surfaces.keys().map(of(Kind::Surface))).chain(caps).chain(trees);
        bodiless.chain(self.beings.keys().map(of(Kind::Being)))
    }
}

/// A branch of a Git repository that holds manifests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceSpec {
    /// A URL without secrets, `user@host:path` or an absolute path, as `git` takes it.
    pub git: String,
    pub branch: String,
    /// The folder within the repository; `None` is all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
    /// How often the branch is looked at.
    pub every: Span,
    /// Who may sign; `None` takes unsigned commits too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_signers: Option<PathBuf>,
    /// Whether a commit is taken that does not descend from the one before.
    #[serde(default)]
    pub follow_rewrites: bool,
    /// Whether a commit is taken that declares nothing.
    #[serde(default)]
    pub allow_empty: bool,
}

/// What beings think with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSpec {
    pub provider: ProviderSpec,
    pub price: Price,
    pub max_tokens: u32,
    /// Thousandths, so that specs can be compared exactly: 0.2 is 200.
    pub temperature_milli: u16,
    pub timeout: Span,
    /// How many requests may be under way at once.
    pub concurrency: u16,
    /// Tokens that fit into one request, answer included.
    pub context_tokens: u32,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "provider", rename_all = "lowercase")]
pub enum ProviderSpec {
    /// A GGUF file in this process; `None` is the model that `singularity model pull` brings.
    Embedded { path: Option<PathBuf> },
    /// Any server that speaks `/v1/chat/completions`.
    OpenAi { base_url: String, model: String, api_key: Option<SecretSource> },
    /// The Brama gateway: chat completions signed with HMAC (`reference/singularity.md` §6.4).
    Brama { base_url: String, model: String, hmac_secret: SecretSource, bearer: Option<SecretSource> },
}

/// Where a secret is read from, each time that it is needed. Never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecretSource {
    File(PathBuf),
    Env(String),
    /// By the name that systemd knows it by (`LoadCredential=`).
    Credential(String),
}

/// A variable of a surface's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum VariableSpec {
    Text(String),
    /// Read whenever the process is started.
    Secret(SecretSource),
}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurfaceSpec {
    pub transport: TransportSpec,
    pub scope: Scope,
    /// Passed to the process beside a clean environment. `{workspace}` is filled in per being.
    pub env: BTreeMap<String, VariableSpec>,
    pub timeout: Span,
    pub trusted_revenue: bool,
    pub boundary: Boundary,
    #[serde(flatten)]
    pub terms: ToolTerms,
    /// What its process may reach; `None` is all that this user may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<SandboxSpec>,
    /// What its process may take of the machine.
    #[serde(default, skip_serializing_if = "LimitsSpec::is_empty")]
    pub limits: LimitsSpec,
}

/// What a process may reach. `{workspace}` is filled in per being; other paths are absolute.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    pub network: bool,
    pub read: Vec<String>,
    pub write: Vec<String>,
    /// Whether a kernel that cannot keep it is an error.
    pub require: bool,
}

/// What a process may take of the machine; what is `None` is not limited.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitsSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Span>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_size: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
}

impl LimitsSpec {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Which of a server's tools beings get, and by what names. Globs and keys are of the server's own names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolTerms {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rename: BTreeMap<String, String>,
    /// `None` is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allow: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<String>,
    /// Whether a tool that changed since it was first seen is kept from the being.
    #[serde(default, skip_serializing_if = "is_false")]
    pub pin: bool,
}

/// Lets what is not said stay unsaid in what is written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// How a surface is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportSpec {
    /// A process that speaks MCP on its standard streams. `{workspace}` is filled in per being.
    Command(Vec<String>),
    /// Streamable HTTP.
    Url {
        url: String,
        bearer: Option<SecretSource>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        oauth: Option<Box<OauthSpec>>,
    },
}

/// How tokens for a surface are had by OAuth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OauthSpec {
    pub grant: Grant,
    pub client_id: Option<String>,
    pub client_secret: Option<SecretSource>,
    /// PKCS#8 in PEM.
    pub private_key: Option<SecretSource>,
    /// `None` is what fits the server and what is given.
    pub auth: Option<ClientAuth>,
    /// The address of a client id metadata document.
    pub client_metadata: Option<String>,
    /// `None` is what the surface says that it needs.
    pub scopes: Option<Vec<String>>,
    /// `None` is what the surface calls itself.
    pub resource: Option<String>,
    /// Where a browser is sent with the code.
    pub redirect: String,
}

impl OauthSpec {
    /// Tells whether tokens and secrets may be sent to an address: by https, or within this machine.
    pub fn may_go_to(at: &Url) -> bool {
        let is_here = match at.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        at.scheme() == "https" || (at.scheme() == "http" && is_here)
    }
}

/// How a client gets its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// An operator consents once.
    AuthorizationCode,
    /// Nobody is asked.
    ClientCredentials,
}

/// How a client says who it is at the token endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
    None,
}

/// Whose process a surface is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// One process per being.
    #[default]
    Being,
    /// One process for all.
    Shared,
}

/// What the output boundary does with an offending result (SPEC §7).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Boundary {
    /// Replaces the whole result.
    #[default]
    Reject,
    /// Replaces only the offending leaf.
    Redact,
}

/// One autonomous agent, as declared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeingSpec {
    pub specialty: String,
    /// Declared models, first that answers.
    pub models: Vec<Name>,
    /// The initial system prompt; `None` is the default of SPEC §6.
    pub prompt: Option<String>,
    pub prompt_policy: PromptPolicy,
    pub stimulus: Option<String>,
    /// Absolute, or `None` for a folder of the being's own in the home.
    pub workspace: Option<PathBuf>,
    pub paused: bool,
    pub las: LasSpec,
    pub cycle: CycleSpec,
    pub budget: BudgetSpec,
    /// Grants by id.
    pub grants: BTreeMap<String, Usd>,
    pub capabilities: CapabilitySpec,
    /// Globs over names of tools: calls that wait for a person.
    #[serde(default)]
    pub approve: Vec<String>,
    #[serde(default)]
    pub approve_within: Span,
    pub identity: DeclaredIdentity,
    pub labels: BTreeMap<String, String>,
    /// The messaging service behind the `most_*` tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most: Option<MostSpec>,
    /// The branches of the tree that it may walk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub categories: Vec<Name>,
    /// How it decides there; `None` is by the readout of its first model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Name>,
    #[serde(default, skip_serializing_if = "Route::is_model")]
    pub route: Route,
}

/// A messaging service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MostSpec {
    pub url: String,
    pub token: SecretSource,
    /// How long a request may take.
    pub timeout: Span,
}

/// What an edit of `prompt` does to a living being (SPEC §11).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PromptPolicy {
    /// `prompt` is what a being is born with.
    #[default]
    Birth,
    /// An edit replaces the prompt of the living being.
    Enforce,
}

/// The surfaces that a being gets, resolved from `only` minus `skip`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LasSpec {
    pub surfaces: Vec<Name>,
    /// Surfaces that must expose at least one tool at boot.
    pub required: Vec<Name>,
    /// Another program in the place of the built-in Las.
    pub external: Option<ExternalLas>,
}

/// A Las of another make: its command, and what `LAS_ONLY` and `LAS_SKIP` tell it (SPEC §7).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalLas {
    pub command: Vec<String>,
    pub only: Option<String>,
    pub skip: Option<String>,
}

/// When a being wakes, and how long a turn may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CycleSpec {
    /// Zero where `cron` says when.
    pub every: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<Cron>,
    /// The hours in which alone a cycle begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active: Option<Hours>,
    /// By whose clocks `cron` and `active` go.
    #[serde(default, skip_serializing_if = "is_utc")]
    pub time_zone: Zone,
    #[serde(default, skip_serializing_if = "Missed::is_once")]
    pub missed: Missed,
    /// Over how long beings with one schedule are spread; `None` is as long as fits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread: Option<Span>,
    /// How long a cycle may take; `None` is as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Span>,
    pub max_tool_rounds: u32,
    /// The being rests for good after this many cycles of its life.
    pub limit: Option<u64>,
}

impl CycleSpec {
    /// Tells whether its cycles begin at instants of the wall clock, and not so long after each other.
    pub fn is_anchored(&self) -> bool {
        self.cron.is_some() || self.every >= Self::ANCHORED_FROM
    }

    /// When the cycles of a being of this name begin.
    pub fn cadence(&self, name: &Name) -> Cadence {
        let cadence = match &self.cron {
            Some(cron) => Cadence::cron(cron.clone(), self.time_zone.clone()),
            None if self.is_anchored() => Cadence::every(self.every),
            None => Cadence::pause(self.every),
        };
        let cadence = if self.missed == Missed::Skip { cadence.skipping_missed() } else { cadence };
        let cadence = self.active.map_or_else(|| cadence.clone(), |hours| cadence.clone().active(hours, self.time_zone.clone()));
        cadence.spread(name.as_str(), self.spread)
    }

    /// The shortest `every` that is anchored to the wall clock.
    pub const ANCHORED_FROM: Span = Span::from_secs(10);
}

fn is_utc(zone: &Zone) -> bool {
    *zone == Zone::default()
}

/// What becomes of cycles whose time passed while the being could not begin them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// One cycle makes up for all of them.
    #[default]
    Once,
    /// They do not take place.
    Skip,
}

impl Missed {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_once(&self) -> bool {
        *self == Self::Once
    }
}

/// What a being may spend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetSpec {
    pub starting: Usd,
    pub instance_usd_per_hour: Usd,
    /// What a day, in UTC, may cost.
    pub per_day: Option<Usd>,
    /// What a cycle may cost.
    pub per_cycle: Option<Usd>,
    /// Whether a call is made only when what it may cost is there.
    pub reserve: bool,
    /// Balances that are warned of when the balance falls to them.
    pub warn_below: BTreeSet<Usd>,
}

/// A limit of what several beings spend together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapSpec {
    pub labels: BTreeMap<String, String>,
    /// What a day, in UTC, may cost.
    pub per_day: Option<Usd>,
    /// What all their lives may cost.
    pub total: Option<Usd>,
}

impl CapSpec {
    /// Tells whether a being with these labels is held by it.
    pub fn selects(&self, labels: &BTreeMap<String, String>) -> bool {
        selects(&self.labels, labels)
    }
}

/// Tells whether something with these labels has all that are wanted.
pub fn selects(wanted: &BTreeMap<String, String>, labels: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// What an operator armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapabilitySpec {
    pub memory: bool,
    pub files: bool,
    /// `None` is no children.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "children")]
    pub children: Option<ChildrenSpec>,
}

/// What children a being may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildrenSpec {
    /// How many may live at a time.
    pub max: u32,
    /// What each may be born with.
    pub budget: Usd,
    /// How many generations there may be below the being.
    pub depth: u32,
}

/// Reads `false` too, as it was kept before there were children.
fn children<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ChildrenSpec>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Kept {
        None(#[expect(dead_code, reason = "no version kept any other than false")] bool),
        Some(ChildrenSpec),
    }
    Ok(Option::<Kept>::deserialize(deserializer)?.and_then(|kept| if let Kept::Some(spec) = kept { Some(spec) } else { None }))
}
