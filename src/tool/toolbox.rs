use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};

use futures::future::BoxFuture;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::{
    boundary::{self, Layout, Screened, Violation},
    builtin::{self, Ask, Builtin, INVALID_ARGUMENTS},
    catalogue::{Catalogue, CatalogueError, Entry, Origin, surface_of},
    files::{FileError, Workspace},
    most::{Most, MostTool},
    offered::{Offered, Sightings},
    result::{self, Answer, Verdict},
    revenue::{self, RevenueError},
};
use crate::{
    being::{Form, Mind, Outcome, Status, ToolCall, ToolDefinition},
    manifest::{Boundary, CapabilitySpec, MostSpec, SurfaceSpec, TransportSpec, VariableSpec},
    secret::Secrets,
    surface::{Asked, CallError, Keyring, Remote},
    vocab::{Name, Timestamp},
};

/// The surfaces whose word about money is taken without being declared (SPEC §5).
const TRUSTED_SURFACES: [&str; 2] = ["finance", "trading"];
const SCREENED: &str = "sensitive_output_rejected";
const REMOTE_TOOL: &str = "remote_tool";

/// Tells whether a being may think with a model: `Ok(false)` is a definite no, `Err` says why nobody knows.
pub type Knows = Arc<dyn Fn(&str) -> BoxFuture<'static, Result<bool, String>> + Send + Sync>;

/// What a toolbox is made of.
pub struct Parts {
    pub capabilities: CapabilitySpec,
    /// Who lists and carries out the tools of the surfaces.
    pub remote: Option<Arc<dyn Remote>>,
    pub surfaces: BTreeMap<Name, SurfaceSpec>,
    /// Surfaces that must expose at least one tool.
    pub required: Vec<Name>,
    /// An existing folder.
    pub workspace: PathBuf,
    /// Folders that no file tool reaches, wherever they lie.
    pub state_dirs: Vec<PathBuf>,
    pub models: Knows,
    /// What the tools of the surfaces looked like when they were first seen.
    pub seen: Sightings,
    /// Where the tokens of surfaces are kept that are had by OAuth.
    pub tokens: PathBuf,
    /// The messaging service, where the operator named one.
    pub most: Option<MostSpec>,
    /// What this process sends to others, and nobody is shown.
    pub secrets: Secrets,
}

/// The id and the instant that a call is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    pub id: Uuid,
    pub at: Timestamp,
}

/// A being's strict catalogue with what carries calls out.
pub struct Toolbox {
    catalogue: Catalogue,
    remote: Option<Arc<dyn Remote>>,
    surfaces: BTreeMap<Name, SurfaceSpec>,
    /// The servers' own names of tools that were renamed.
    theirs: BTreeMap<String, String>,
    seen: Sightings,
    notices: Vec<String>,
    tokens: PathBuf,
    workspace: Workspace,
    layout: Layout,
    models: Knows,
    most: Option<Most>,
    secrets: Secrets,
}

impl fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Toolbox").field("catalogue", &self.catalogue).field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("capabilities", &self.capabilities)
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

impl Toolbox {
    /// Lists what the parts offer, checks all of it and compiles the schemas.
    pub fn new(parts: Parts) -> Result<Self, CatalogueError> {
        let listed = parts.remote.as_deref().map(Remote::tools).unwrap_or_default();
        let most = parts.most.iter().flat_map(|_| MostTool::ALL).map(|tool| (Origin::Most(tool), tool.definition()));
        let Offered { tools, theirs, seen, notices } = Offered::new(listed, &parts.surfaces, &parts.seen);
        let catalogue = Catalogue::new(tools, parts.capabilities, &parts.required)?.adding(most)?;
        let real = std::fs::canonicalize(&parts.workspace).unwrap_or_else(|_| parts.workspace.clone());
        let layout = Layout::of([parts.workspace.as_path(), real.as_path()]);
        let workspace = Workspace { root: parts.workspace, state_dirs: parts.state_dirs };
        let Parts { remote, surfaces, models, secrets, tokens, .. } = parts;
        let most = parts.most.map(|spec| Most::new(spec, secrets.clone()));
        Ok(Self { catalogue, remote, surfaces, theirs, seen, notices, tokens, workspace, layout, models, most, secrets })
    }

    /// The whole catalogue in one lasting order, as models are shown it.
    pub fn definitions(&self) -> Arc<[ToolDefinition]> {
        Arc::clone(&self.catalogue.definitions)
    }

    /// What the tools look like now, to be remembered: a tool that is kept back stands there as it was.
    pub const fn seen(&self) -> &Sightings {
        &self.seen
    }

    /// What an operator should be told about the tools that were listed.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// Carries one call out. Whatever comes of it has passed the output boundary.
    ///
    /// Cancel safe in the sense of [`Remote::call`]: the effect of a dropped call is unknown.
    pub async fn call(&self, call: &ToolCall, mind: &Mind, stamp: Stamp) -> Outcome {
        let (tool, text) = (call.function.name.as_str(), call.function.arguments.as_str());
        let (entry, arguments) = match self.prepare(tool, text) {
            Ok(ready) => ready,
            Err(refused) => return self.told(tool, *refused, Boundary::Redact),
        };
        match entry.origin {
            Origin::Builtin(builtin) => {
                let outcome = self.builtin(builtin, &arguments, mind, stamp).await;
                self.told(tool, outcome, builtin.boundary())
            }
            Origin::Most(errand) => self.most(tool, errand, &arguments).await,
            Origin::Remote => self.remote(tool, arguments).await,
        }
    }

    /// Everything that can be refused before a tool is reached.
    fn prepare(&self, tool: &str, text: &str) -> Result<(Entry<'_>, Map<String, Value>), Box<Outcome>> {
        let invalid = |message: String| Box::new(Outcome::failed(INVALID_ARGUMENTS, message));
        let entry = self.catalogue.get(tool);
        let entry = entry.ok_or_else(|| Box::new(self.unknown(tool)))?;
        let arguments: Value = serde_json::from_str(text).map_err(|error| invalid(format!("invalid JSON arguments: {error}")))?;
        let not_an_object = || invalid("tool arguments must be a JSON object".into());
        if arguments.is_string() {
            return Err(invalid("tool arguments must be a JSON object, not a string that holds one".into()));
        }
        if !arguments.is_object() {
            return Err(not_an_object());
        }
        entry.check(&arguments).map_err(invalid)?;
        let Value::Object(arguments) = arguments else { return Err(not_an_object()) };
        Ok((entry, arguments))
    }

    /// A tool that is not there; one whose name differs only by case is named.
    fn unknown(&self, tool: &str) -> Outcome {
        let alike = self.catalogue.definitions.iter().find(|known| known.name.eq_ignore_ascii_case(tool));
        let hint = alike.map(|known| format!("; did you mean `{}`?", known.name)).unwrap_or_default();
        Outcome::failed("unknown_tool", format!("tool is not in the current catalog{hint}"))
    }

    async fn builtin(&self, tool: Builtin, arguments: &Map<String, Value>, mind: &Mind, stamp: Stamp) -> Outcome {
        match Ask::read(tool, arguments) {
            Err(bad) => Outcome::failed(INVALID_ARGUMENTS, bad.to_string()),
            Ok(Ask::Remember { kind, text }) => builtin::remember(kind, text, stamp),
            Ok(Ask::Recall { query }) => builtin::recall(mind, &query, &self.layout),
            Ok(Ask::SetPrompt { prompt }) => builtin::set_prompt(prompt),
            Ok(Ask::AddRule { rule }) => builtin::add_rule(rule),
            Ok(Ask::AddLearning { learning }) => builtin::add_learning(learning),
            Ok(Ask::SwitchModel { model }) => self.switch_model(model).await,
            Ok(Ask::ReadFile { path }) => self.read_file(path).await,
            Ok(Ask::SpawnChild { name, ticker, specialty, usd }) => builtin::spawn_child(name, ticker, specialty, usd, stamp),
            Ok(Ask::WriteFile { path, content }) => self.write_file(path, content, stamp).await,
        }
    }

    async fn switch_model(&self, model: String) -> Outcome {
        match (self.models)(&model).await {
            Ok(true) => builtin::switch_model(model),
            Ok(false) => Outcome::failed("model_unavailable", "Brama does not advertise that model"),
            Err(why) => Outcome::failed("model_unavailable", format!("nobody can say whether that model is there: {why}")),
        }
    }

    async fn read_file(&self, path: String) -> Outcome {
        let workspace = self.workspace.clone();
        match blocking(move || workspace.read(&path)).await {
            Ok((path, content)) => Outcome::success(json!({ "path": path, "content": content })),
            Err(error) => refused_file("file_read", &error),
        }
    }

    async fn write_file(&self, path: String, content: String, stamp: Stamp) -> Outcome {
        let (workspace, bytes) = (self.workspace.clone(), content.len());
        match blocking(move || workspace.write(&path, &content, stamp.id)).await {
            Ok(path) => Outcome::success(json!({ "path": path, "bytes": bytes })),
            Err(error) => refused_file("file_write", &error),
        }
    }

    async fn most(&self, tool: &str, errand: MostTool, arguments: &Map<String, Value>) -> Outcome {
        let outcome = match &self.most {
            Some(most) => most.call(errand, arguments).await,
            None => Outcome::failed("most_unavailable", "Most credential is not configured"),
        };
        let mode = if outcome.status == Status::Success { Boundary::Reject } else { Boundary::Redact };
        self.told(tool, outcome, mode)
    }

    /// Learns what the surface of a tool is told in confidence, by Las or in its environment, so that it is hidden where it says it back.
    async fn know_secrets(&self, tool: &str) {
        let Some((name, spec)) = self.surfaces.iter().find(|(name, _)| surface_of(tool) == Some(name.as_str())) else { return };
        // What cannot be read was not sent either.
        match &spec.transport {
            TransportSpec::Url { oauth: Some(_), .. } => {
                let token = Keyring::of(name, spec, &self.tokens, BTreeMap::new()).and_then(|keyring| keyring.secret());
                token.iter().for_each(|token| self.secrets.know(token));
            }
            TransportSpec::Url { bearer: Some(source), .. } => drop(self.secrets.read(source).await),
            TransportSpec::Url { .. } | TransportSpec::Command(_) => {}
        }
        for variable in spec.env.values() {
            if let VariableSpec::Secret(source) = variable {
                drop(self.secrets.read(source).await);
            }
        }
    }

    async fn remote(&self, tool: &str, arguments: Map<String, Value>) -> Outcome {
        let Some(remote) = &self.remote else {
            return Outcome::failed(REMOTE_TOOL, "no surface is connected");
        };
        let (trusted, mode) = self.terms(tool);
        let asked = trusted.then(|| arguments.clone());
        let theirs = self.theirs.get(tool).map_or(tool, String::as_str);
        let answer = remote.call(theirs, arguments).await;
        self.know_secrets(tool).await;
        match answer {
            Ok(raw) => self.answered(tool, result::read(raw), mode, asked.as_ref()),
            Err(CallError::Failed { code, message }) => self.told(tool, Outcome::failed(code, message), Boundary::Redact),
            Err(CallError::Indeterminate { message }) => self.told(tool, Outcome::indeterminate("mcp", message), Boundary::Redact),
        }
    }

    /// Whether a tool's word about money is taken, and what its boundary does.
    fn terms(&self, tool: &str) -> (bool, Boundary) {
        let surface = surface_of(tool).unwrap_or_default();
        let spec = self.surfaces.iter().find(|(name, _)| name.as_str() == surface).map(|(_, spec)| spec);
        let trusted = TRUSTED_SURFACES.contains(&surface) || spec.is_some_and(|spec| spec.trusted_revenue);
        (trusted, spec.map(|spec| spec.boundary).unwrap_or_default())
    }

    /// Screens an answer, then lifts ids and money out of what may be seen. `asked` is given for a trusted tool.
    fn answered(&self, tool: &str, answer: Answer, mode: Boundary, asked: Option<&Map<String, Value>>) -> Outcome {
        let Answer { verdict, content, is_structured } = answer;
        let mut outcome = Outcome::success(content);
        match verdict {
            Verdict::Done => {}
            Verdict::Refused => (outcome.status, outcome.error_code) = (Status::Failed, Some(REMOTE_TOOL.into())),
            Verdict::Malformed => (outcome.status, outcome.error_code) = (Status::Failed, Some("remote_tool_malformed".into())),
        }
        let mut outcome = self.told(tool, outcome, mode);
        if outcome.status != Status::Success || !is_structured {
            return outcome;
        }
        outcome.chat_id = result::lift(&outcome.content, "chat_id");
        outcome.message_id = result::lift(&outcome.content, "message_id");
        match asked.map(|asked| revenue::earned(tool, asked, &outcome.content)) {
            None => {}
            Some(Ok(revenue)) => outcome.revenue = revenue,
            Some(Err(error)) => outcome.warning = Some(not_credited(tool, error)),
        }
        outcome
    }

    /// What a server asks of a person, where it may be shown: it passes the boundary like an answer. The error is the rule that it broke.
    pub async fn form(&self, tool: &str, asked: Asked) -> Result<Form, String> {
        self.know_secrets(tool).await;
        let Asked { message, schema, url } = asked;
        let mut shown = json!({ "message": message, "schema": schema, "url": url });
        self.secrets.hide_in(&mut shown);
        let Screened { value, .. } =
            boundary::screen(shown, &self.layout, Boundary::Reject).map_err(|broken| broken.to_string())?;
        serde_json::from_value(value).map_err(|error| error.to_string())
    }

    /// Passes an outcome through the boundary.
    fn told(&self, tool: &str, mut outcome: Outcome, mode: Boundary) -> Outcome {
        let mut content = std::mem::take(&mut outcome.content);
        self.secrets.hide_in(&mut content);
        match boundary::screen(content, &self.layout, mode) {
            Ok(Screened { value, redacted }) => {
                outcome.content = value;
                outcome.screened = summary(&redacted);
                outcome
            }
            Err(violation) => rejected(tool, outcome.status, &violation),
        }
    }
}

/// What the being sees of a result that may not be seen. A call whose effect is unknown stays so.
fn rejected(tool: &str, status: Status, violation: &Violation) -> Outcome {
    tracing::warn!(tool, rule = violation.rule.as_str(), at = violation.path, "tool output rejected by sensitivity policy");
    let mut outcome = Outcome::failed(SCREENED, "");
    outcome.content = Value::Null;
    outcome.screened = Some(violation.to_string());
    if status == Status::Indeterminate {
        outcome.status = status;
    }
    outcome
}

fn summary(redacted: &[Violation]) -> Option<String> {
    match redacted {
        [] => None,
        [one] => Some(one.to_string()),
        [first, rest @ ..] => Some(format!("{first} and {} more", rest.len())),
    }
}

fn not_credited(tool: &str, error: RevenueError) -> String {
    tracing::warn!(tool, %error, "reported revenue is not credited");
    error.to_string()
}

fn refused_file(code: &'static str, error: &FileError) -> Outcome {
    let code = if matches!(error, FileError::Boundary) { "workspace_boundary" } else { code };
    Outcome::failed(code, error.to_string())
}

/// Runs file work where waiting harms nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, FileError> + Send + 'static) -> Result<T, FileError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(FileError::Io(std::io::Error::other(error))))
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests prepare files as anyone could")]
#[expect(clippy::needless_pass_by_value, reason = "helpers take what `json!` makes")]
#[path = "toolbox_tests.rs"]
mod tests;
