//! Documents as written. Every key is optional here, because `[defaults.*]` and other layers may bring it; what must be there in the end is
//! checked once all layers are merged.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::category::{CategoryDocument, RouteName};
use super::children::ChildrenDocument;
use super::cycle::CycleDocument;
use super::decision::DecisionDocument;
use super::most::MostDocument;
use super::scalar::{Glob, HexDigest, HttpUrl, Identifier, Money, ObjectName, SizeText, SpanText, ToolName};
use super::source::SourceDocument;
use super::variable::VariableDocument;

/// A whole manifest: any number of models, surfaces, caps, decisions, categories and beings, and the defaults that are merged under them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Manifest")]
pub(crate) struct ManifestDocument {
    /// The schema that editors check a JSON manifest with; TOML says it in a comment, `#:schema <path>`.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// Git repositories that hold manifests, by name.
    #[schemars(extend("x-named" = true))]
    pub source: BTreeMap<String, SourceDocument>,
    /// What beings think with, by name.
    #[schemars(extend("x-named" = true))]
    pub model: BTreeMap<String, ModelDocument>,
    /// MCP servers, by name; their tools are called `<surface>__<tool>`.
    #[schemars(extend("x-named" = true))]
    pub surface: BTreeMap<String, SurfaceDocument>,
    /// Limits of what several beings spend together, by name.
    #[schemars(extend("x-named" = true))]
    pub cap: BTreeMap<String, CapDocument>,
    /// How something is decided, by name.
    #[schemars(extend("x-named" = true))]
    pub decision: BTreeMap<String, DecisionDocument>,
    /// The tree of skills that decisions walk, by name of its branches.
    #[schemars(extend("x-named" = true))]
    pub category: BTreeMap<String, CategoryDocument>,
    /// Autonomous agents, by name.
    #[schemars(extend("x-named" = true))]
    pub being: BTreeMap<String, BeingDocument>,
    /// What is merged under every object of a kind, in all files of the fleet.
    pub defaults: Option<DefaultsDocument>,
}

/// What is merged under every object of a kind.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Defaults")]
pub(crate) struct DefaultsDocument {
    /// Merged under every model; keys that a model's provider does not use are left out.
    pub model: Option<ModelDocument>,
    /// Merged under every surface; keys that a surface's transport does not use are left out.
    pub surface: Option<SurfaceDocument>,
    /// Merged under every decision.
    pub decision: Option<DecisionDocument>,
    /// Merged under every category; its `config` is what the bodies of all skills are told.
    pub category: Option<CategoryDocument>,
    /// Merged under every being.
    pub being: Option<BeingDocument>,
}

/// What beings think with: a model in this process, a server that speaks chat completions, or the Brama gateway.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Model")]
pub(crate) struct ModelDocument {
    /// Who answers: `embedded` (in this process), `openai` (any server that speaks `/v1/chat/completions`) or `brama` (the gateway, signed with HMAC).
    pub provider: Option<ProviderName>,
    /// A GGUF file for `embedded`, relative to the manifest; without it the model that `singularity model pull` brings.
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
    /// Where the server is, such as `http://127.0.0.1:8000/v1`; for `brama` the gateway's root, `http://127.0.0.1:8081` unless said otherwise.
    pub base_url: Option<HttpUrl>,
    /// The model's name as its server knows it; for `brama` also a selector (`any`, `any-vision-capable`, `best`, `task:*`), `any` unless said otherwise.
    #[schemars(length(min = 1, max = 256))]
    pub model: Option<String>,
    /// The key that an `openai` server asks for.
    pub api_key: Option<SecretDocument>,
    /// The secret that requests to `brama` are signed with.
    pub hmac_secret: Option<SecretDocument>,
    /// A bearer token for `brama`.
    pub bearer: Option<SecretDocument>,
    /// What tokens cost, in USD per million.
    pub price: Option<PriceDocument>,
    /// How many tokens an answer may have at most.
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// How freely the model chooses, with at most three decimals.
    #[schemars(range(min = 0.0, max = 2.0))]
    pub temperature: Option<f64>,
    /// How long an answer may take.
    pub timeout: Option<SpanText>,
    /// How many requests may be under way at once.
    #[schemars(range(min = 1, max = 1_024))]
    pub concurrency: Option<u16>,
    /// How many tokens fit into one request, its answer included.
    #[schemars(range(min = 512, max = 10_000_000))]
    pub context_tokens: Option<u32>,
}

/// Who answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Provider", inline)]
pub(crate) enum ProviderName {
    Embedded,
    OpenAi,
    Brama,
}

/// What tokens cost, in USD per million, as exact decimals.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Price")]
pub(crate) struct PriceDocument {
    /// The price of a million tokens that the model reads.
    pub input: Option<Money>,
    /// The price of a million tokens that the model writes.
    pub output: Option<Money>,
}

/// Where a secret is read from: a file that only its owner can read, an environment variable, or a credential of the service. The secret itself is never written in a manifest.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Secret", extend("minProperties" = 1, "maxProperties" = 1))]
pub(crate) struct SecretDocument {
    /// A file that holds the secret, readable by its owner alone; relative to the manifest.
    #[schemars(length(min = 1, max = 4096))]
    pub file: Option<String>,
    /// The environment variable that holds the secret.
    #[schemars(length(min = 1, max = 256), regex(pattern = r"^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub env: Option<String>,
    /// The name of a credential that systemd hands to the service: `LoadCredential=name:path` of its unit.
    #[schemars(length(min = 1, max = 255), regex(pattern = r"^[A-Za-z0-9_@-][A-Za-z0-9_.@-]*$"))]
    pub credential: Option<String>,
}

/// An MCP server: a command that speaks MCP on its standard streams, or the URL of one that speaks streamable HTTP.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Surface")]
pub(crate) struct SurfaceDocument {
    /// Program and arguments; `{workspace}` is the being's workspace. A program with a `/` is relative to the manifest.
    #[schemars(length(min = 1, max = 256), inner(length(max = 32_768)))]
    pub command: Option<Vec<String>>,
    /// Where the server listens, instead of `command`.
    pub url: Option<HttpUrl>,
    /// A bearer token for `url`.
    pub bearer: Option<SecretDocument>,
    /// How tokens for `url` are had by OAuth, in the place of `bearer`; `{}` asks you for consent, and finds all else out.
    pub oauth: Option<OauthDocument>,
    /// Whose process it is: `being` starts one for each being, `shared` one for all beings of a daemon, in a folder of its own.
    pub scope: Option<ScopeName>,
    /// Variables for the process, beside a clean environment; `{workspace}` is filled in. A secret is named by its place, such as `{ file = "…" }`, and read at each start.
    pub env: BTreeMap<String, VariableDocument>,
    /// How long one call may take.
    pub timeout: Option<SpanText>,
    /// Whether results of this surface may credit revenue, as those of `finance` and `trading` may.
    pub trusted_revenue: Option<bool>,
    /// What becomes of a result that would leak a secret or a path: `reject` replaces it, `redact` only the offending part.
    pub boundary: Option<BoundaryName>,
    /// Other names for tools, by the server's own names for them: a tool whose name models refuse, or that clashes with another.
    pub rename: BTreeMap<String, ToolName>,
    /// Globs over the server's own names of its tools: those that beings get. All of them when it is left out.
    pub allow: Option<Vec<Glob>>,
    /// Globs over the server's own names of its tools: those that no being gets, also when `allow` names them.
    pub deny: Option<Vec<Glob>>,
    /// Whether a tool whose description or schema is not what it was when it was first seen is kept from the being. Otherwise that is only told.
    pub pin: Option<bool>,
    /// What the process may reach; without it, all that this user may.
    pub sandbox: Option<SandboxDocument>,
    /// What the process may take of the machine.
    pub limits: Option<LimitsDocument>,
}

/// How tokens for a surface are had by OAuth 2.1. They are kept in the home, for its owner alone, and renewed by themselves.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "OAuth")]
pub(crate) struct OauthDocument {
    /// `authorization_code` asks you once, by `singularity questions`; `client_credentials` asks nobody. The first unless said otherwise.
    pub grant: Option<GrantName>,
    /// What the authorization server calls this client; without it, the client introduces itself where the server lets it.
    #[schemars(length(min = 1, max = 2048))]
    pub client_id: Option<String>,
    /// The secret of the client.
    pub client_secret: Option<SecretDocument>,
    /// The private key of the client, RSA or P-256, in PEM (PKCS#8): it signs for the client in the place of a secret.
    pub private_key: Option<SecretDocument>,
    /// How the client says who it is at the token endpoint; what fits the server and what is given here unless said otherwise.
    pub auth: Option<ClientAuthName>,
    /// The https address of a client id metadata document of yours, used as the client id where the server takes one.
    pub client_metadata: Option<HttpUrl>,
    /// What to ask for; unless said otherwise, what the surface says that it needs.
    #[schemars(length(max = 64), inner(length(min = 1, max = 256)))]
    pub scopes: Option<Vec<String>>,
    /// Which resource the tokens are for (RFC 8707); what the surface calls itself unless said otherwise.
    pub resource: Option<HttpUrl>,
    /// Where the browser is sent with the code; `http://127.0.0.1:8976/callback` unless said otherwise. Nothing needs to listen there.
    pub redirect: Option<HttpUrl>,
}

/// How a client gets its tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(title = "Grant", inline)]
pub(crate) enum GrantName {
    AuthorizationCode,
    ClientCredentials,
}

/// How a client says who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(title = "Client authentication", inline)]
pub(crate) enum ClientAuthName {
    ClientSecretBasic,
    ClientSecretPost,
    PrivateKeyJwt,
    None,
}

/// What a process may reach: its program and the system's libraries, and beside them only what is named here.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Sandbox")]
pub(crate) struct SandboxDocument {
    /// Whether it may use the network; `false` unless said.
    pub network: Option<bool>,
    /// Files and folders that it may read and run; `{workspace}` is the being's workspace, other paths are relative to the manifest.
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096)))]
    pub read: Option<Vec<String>>,
    /// Files and folders that it may read, write and run.
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096)))]
    pub write: Option<Vec<String>>,
    /// Whether a kernel that cannot keep the sandbox is an error; otherwise it is warned of, and what can be kept is.
    pub require: Option<bool>,
}

/// What a process may take of the machine. Each holds for every single process of the surface, but `processes`, which counts them.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Limits")]
pub(crate) struct LimitsDocument {
    /// Memory that it can write; at least 16 MiB.
    pub memory: Option<SizeText>,
    /// Time on a core, in all its life; then it is ended, and the surface started anew.
    pub cpu: Option<SpanText>,
    /// Files and connections that it has open at once.
    #[schemars(range(min = 16, max = 1_048_576))]
    pub open_files: Option<u32>,
    /// The largest file that it may write.
    pub file_size: Option<SizeText>,
    /// Processes of the surface together; one with more is ended, and started anew.
    #[schemars(range(min = 1, max = 100_000))]
    pub processes: Option<u32>,
}

/// Whose process a surface is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Scope", inline)]
pub(crate) enum ScopeName {
    Being,
    Shared,
}

/// What becomes of a result that would leak.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Boundary", inline)]
pub(crate) enum BoundaryName {
    Reject,
    Redact,
}

/// One autonomous agent.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Being")]
pub(crate) struct BeingDocument {
    /// What the being is good at; part of its identity, fixed at birth once declared.
    #[schemars(length(min = 1, max = 256))]
    pub specialty: Option<String>,
    /// A declared model, or several: the first that answers is used.
    pub model: Option<ModelList>,
    /// The system prompt that the being is born with; without it one that says who it is and that existing costs money.
    #[schemars(length(min = 1))]
    pub prompt: Option<String>,
    /// What an edit of `prompt` does to a living being: `birth` nothing, `enforce` replaces its prompt.
    pub prompt_policy: Option<PromptPolicyName>,
    /// An observation from outside that the first cycle begins with; at most 65536 bytes, no NUL.
    pub stimulus: Option<String>,
    /// The folder that the being's file tools and surfaces work in, relative to the manifest; without it one of its own in the home.
    #[schemars(length(min = 1, max = 4096))]
    pub workspace: Option<String>,
    /// How many such beings there are; more than one are called `<name>-0`, `<name>-1` and so on.
    #[schemars(range(min = 1, max = 10_000))]
    pub replicas: Option<u32>,
    /// Whether the being exists but does not act.
    pub paused: Option<bool>,
    /// Which surfaces the being gets.
    pub las: Option<LasDocument>,
    /// When the being wakes, and how long a turn may be.
    pub cycle: Option<CycleDocument>,
    /// What the being may spend.
    pub budget: Option<BudgetDocument>,
    /// Money granted after birth; each id is applied exactly once, ever.
    pub grant: Option<Vec<GrantDocument>>,
    /// What the operator armed.
    pub capabilities: Option<CapabilityDocument>,
    /// Globs over names of tools: calls of these wait for `singularity approve` or `deny`.
    pub approve: Option<Vec<Glob>>,
    /// How long such a call waits; without an answer it is not made.
    pub approve_within: Option<SpanText>,
    /// Who the being is; what is not declared is pinned at birth.
    pub identity: Option<IdentityDocument>,
    /// Free labels to select beings by.
    pub labels: BTreeMap<String, String>,
    /// The messaging service behind the `most_*` tools; without it the being has none of them.
    pub most: Option<MostDocument>,
    /// The branches of the tree that the being may walk, by name; at most 15, and `response`.
    #[schemars(length(max = 16))]
    pub categories: Option<Vec<ObjectName>>,
    /// How it decides on its way through them; by the readout of its first model unless said otherwise.
    pub decision: Option<ObjectName>,
    /// Who a message to the being is for: its `model`, which may reach the tree by a tool, or the `tree` itself.
    pub route: Option<RouteName>,
}

/// The name of a model, or a list of names.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub(crate) enum ModelList {
    One(String),
    Many(Vec<String>),
}

impl ModelList {
    pub(crate) fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

impl JsonSchema for ModelList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ModelList".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let name = generator.subschema_for::<ObjectName>();
        schemars::json_schema!({
            "type": ["string", "array"],
            "format": "name",
            "items": name,
            "minItems": 1,
            "maxItems": 16,
        })
    }
}

/// What an edit of `prompt` does to a living being.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Prompt policy", inline)]
pub(crate) enum PromptPolicyName {
    Birth,
    Enforce,
}

/// Which surfaces a being gets: `only` minus `skip`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Las")]
pub(crate) struct LasDocument {
    /// Globs over the declared surfaces; without it all of them, `[]` none.
    #[schemars(length(max = 256))]
    pub only: Option<Vec<Glob>>,
    /// Globs over the declared surfaces that are left out again.
    #[schemars(length(max = 256))]
    pub skip: Option<Vec<Glob>>,
    /// Surfaces that must be selected and expose at least one tool when the being boots.
    #[schemars(length(max = 256))]
    pub required: Option<Vec<ObjectName>>,
    /// Another program in the place of the built-in Las: it is told `only` and `skip` as they are, and knows surfaces of its own.
    #[schemars(length(min = 1, max = 256), inner(length(max = 32_768)))]
    pub command: Option<Vec<String>>,
}

/// What a being may spend.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Budget")]
pub(crate) struct BudgetDocument {
    /// What the being is born with, in USD; fixed at birth, later money comes by `grant`.
    pub starting: Option<Money>,
    /// What an hour of existence costs, in USD.
    pub instance_usd_per_hour: Option<Money>,
    /// What the being may spend in a day, in UTC; then it rests until the next one.
    pub per_day: Option<Money>,
    /// What one cycle may spend; then the cycle ends.
    pub per_cycle: Option<Money>,
    /// Whether a model is asked only when all that its answer may cost is there: the prompt and `max_tokens` at the prices of the models that may be asked.
    pub reserve: Option<bool>,
    /// Balances that are warned of when the balance falls to them, in USD.
    #[schemars(length(max = 16))]
    pub warn_below: Option<Vec<Money>>,
}

/// A limit of what several beings spend together; it needs `per_day`, `total` or both.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Cap")]
pub(crate) struct CapDocument {
    /// Which beings it holds: those that have all of these labels; without any, all beings.
    pub labels: BTreeMap<String, String>,
    /// What they may spend in a day, in UTC; then they rest until the next one.
    pub per_day: Option<Money>,
    /// What they may spend in all their lives; then they wait for an edit.
    pub total: Option<Money>,
}

/// Money granted after birth.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Grant")]
pub(crate) struct GrantDocument {
    /// Names the grant; one id is applied once, ever.
    pub id: Option<Identifier>,
    /// How much, in USD.
    pub usd: Option<Money>,
}

/// What an operator arms or disarms.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Capabilities")]
pub(crate) struct CapabilityDocument {
    /// Whether the being may remember and recall.
    pub memory: Option<bool>,
    /// Whether the being may read and write files of its workspace.
    pub files: Option<bool>,
    /// `false`, or what children the being may spawn: how many, with how much money of its own, and how deep.
    pub children: Option<ChildrenDocument>,
}

/// Who a being is. What is declared must equal what is stored, for good; what is not is pinned at birth.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Identity")]
pub(crate) struct IdentityDocument {
    /// The being's id.
    pub agent_id: Option<Identifier>,
    /// The name that the being calls itself by.
    #[schemars(length(min = 1, max = 128))]
    pub name: Option<String>,
    /// A short sign, such as `ADA`.
    #[schemars(length(min = 1, max = 32))]
    pub ticker: Option<String>,
    /// What sort of agent it is.
    #[schemars(length(min = 1, max = 128))]
    pub agent_type: Option<String>,
    /// What part it plays, such as `worker`.
    pub role: Option<Identifier>,
    /// Where it lives, such as `prod`.
    pub environment: Option<Identifier>,
    /// The machine that it lives on.
    pub host: Option<Identifier>,
    /// The workload that it is part of.
    pub workload_id: Option<Identifier>,
    /// The workload's public key.
    pub workload_public_key: Option<HexDigest>,
    /// SHA-256 of the program.
    pub executable_digest: Option<HexDigest>,
    /// SHA-256 of the code.
    pub code_digest: Option<HexDigest>,
    /// SHA-256 of the policy.
    pub policy_digest: Option<HexDigest>,
    /// The policy's number in its sequence.
    pub policy_sequence: Option<u64>,
}
