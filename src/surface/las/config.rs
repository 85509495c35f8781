use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use globset::{Glob, GlobSet, GlobSetBuilder};
use rmcp::model::JsonObject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    manifest::{LimitsSpec, OauthSpec, SandboxSpec, SecretSource, SurfaceSpec, TransportSpec, VariableSpec},
    process::{Backoff, Confinement, Limits, Sandbox},
    secret,
    vocab::{Name, Span},
};

/// The experimental capability in which a Las is told what to join.
pub(super) const KEY: &str = "singularity.las/1";
/// Stands for the being's own folder in commands and variables.
const WORKSPACE: &str = "{workspace}";

/// What a Las joins: each surface resolved for one being, free of secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LasConfig {
    pub(super) surfaces: BTreeMap<Name, Joined>,
    pub(super) workspace: PathBuf,
    /// How long a surface may take until its tools are listed.
    pub(super) patience: Span,
    /// How long between two attempts.
    #[serde(default)]
    pub(super) pace: Backoff,
    /// Where the tokens of surfaces are kept.
    pub(super) tokens: PathBuf,
}

/// One surface of a Las.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Joined {
    pub(super) way: Way,
    pub(super) env: BTreeMap<String, VariableSpec>,
    pub(super) timeout: Span,
    #[serde(default)]
    pub(super) confinement: Confinement,
}

/// How a surface is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    Command(Vec<String>),
    Url {
        url: String,
        bearer: Option<Bearer>,
        #[serde(default)]
        oauth: Option<Box<OauthSpec>>,
    },
}

/// Where a bearer is read from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Bearer {
    File(PathBuf),
    Env(String),
    Credential(String),
}

/// A pattern in `LAS_ONLY` or `LAS_SKIP` that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{variable} holds a pattern that cannot be read")]
pub struct BadPattern {
    variable: &'static str,
    #[source]
    source: globset::Error,
}

impl LasConfig {
    /// Resolves the surfaces of one being.
    pub(super) fn new(
        surfaces: &BTreeMap<Name, SurfaceSpec>,
        (workspace, tokens): (&Path, &Path),
        patience: Span,
        pace: Backoff,
    ) -> Self {
        let surfaces = surfaces.iter().map(|(name, spec)| (name.clone(), Joined::new(spec, workspace))).collect();
        Self { surfaces, workspace: workspace.to_owned(), patience, pace, tokens: tokens.to_owned() }
    }

    /// The variables that hold secrets or tell where credentials are, which Las must see.
    pub(super) fn secret_variables(&self) -> BTreeSet<String> {
        let sources = self.surfaces.values().flat_map(Joined::sources);
        sources.filter_map(|source| secret::variable(&source).map(str::to_owned)).collect()
    }

    /// The configuration as the value of the capability.
    pub(super) fn to_capability(&self) -> JsonObject {
        match serde_json::to_value(self) {
            Ok(Value::Object(object)) => object,
            _ => JsonObject::new(),
        }
    }

    /// Reads what [`Self::to_capability`] wrote.
    pub(super) fn from_capability(object: JsonObject) -> Result<Self, serde_json::Error> {
        serde_json::from_value(Value::Object(object))
    }

    /// Keeps what `LAS_ONLY` selects, minus what `LAS_SKIP` does; both are comma-separated globs, and blank is unset.
    pub(super) fn select(&mut self, env: &BTreeMap<String, String>) -> Result<(), BadPattern> {
        let only = patterns("LAS_ONLY", env)?;
        let skip = patterns("LAS_SKIP", env)?;
        self.surfaces.retain(|name, _| {
            let selected = only.as_ref().is_none_or(|only| only.is_match(name.as_str()));
            selected && !skip.as_ref().is_some_and(|skip| skip.is_match(name.as_str()))
        });
        Ok(())
    }
}

impl Joined {
    /// Where the secrets are that it needs.
    fn sources(&self) -> Vec<SecretSource> {
        let given = self.env.values().filter_map(|variable| match variable {
            VariableSpec::Secret(source) => Some(source.clone()),
            VariableSpec::Text(_) => None,
        });
        let shown: Vec<SecretSource> = match &self.way {
            Way::Url { oauth: Some(oauth), .. } => {
                [&oauth.client_secret, &oauth.private_key].into_iter().flatten().cloned().collect()
            }
            Way::Url { bearer, .. } => bearer.iter().cloned().map(SecretSource::from).collect(),
            Way::Command(_) => Vec::new(),
        };
        given.chain(shown).collect()
    }

    /// Tells whether the two are one process or connection; how long a call may take is its caller's own.
    pub(super) fn is_same_server(&self, other: &Self) -> bool {
        let Self { way, env, timeout: _, confinement } = self;
        (way, env, confinement) == (&other.way, &other.env, &other.confinement)
    }

    pub(super) fn new(spec: &SurfaceSpec, workspace: &Path) -> Self {
        let folder = workspace.to_string_lossy();
        let fill = |text: &String| text.replace(WORKSPACE, &folder);
        let way = match &spec.transport {
            TransportSpec::Command(words) => Way::Command(words.iter().map(fill).collect()),
            TransportSpec::Url { url, bearer, oauth } => {
                Way::Url { url: url.clone(), bearer: bearer.clone().map(Bearer::from), oauth: oauth.clone() }
            }
        };
        let variable = |variable: &VariableSpec| match variable {
            VariableSpec::Text(text) => VariableSpec::Text(fill(text)),
            VariableSpec::Secret(source) => VariableSpec::Secret(source.clone()),
        };
        let env = spec.env.iter().map(|(name, value)| (name.clone(), variable(value))).collect();
        let filled = |paths: &[String]| paths.iter().map(|path| PathBuf::from(fill(path))).collect();
        let sandbox = |spec: &SandboxSpec| Sandbox {
            network: spec.network,
            read: filled(&spec.read),
            write: filled(&spec.write),
            alone: false,
            require: spec.require,
        };
        let confinement = Confinement { limits: limits(&spec.limits), sandbox: spec.sandbox.as_ref().map(sandbox) };
        Self { way, env, timeout: spec.timeout, confinement }
    }
}

fn limits(spec: &LimitsSpec) -> Limits {
    let LimitsSpec { memory, cpu, open_files, file_size, processes } = spec.clone();
    Limits { memory, cpu, open_files, file_size, processes }
}

impl From<SecretSource> for Bearer {
    fn from(source: SecretSource) -> Self {
        match source {
            SecretSource::File(path) => Self::File(path),
            SecretSource::Env(name) => Self::Env(name),
            SecretSource::Credential(name) => Self::Credential(name),
        }
    }
}

impl From<Bearer> for SecretSource {
    fn from(bearer: Bearer) -> Self {
        match bearer {
            Bearer::File(path) => Self::File(path),
            Bearer::Env(name) => Self::Env(name),
            Bearer::Credential(name) => Self::Credential(name),
        }
    }
}

fn patterns(variable: &'static str, env: &BTreeMap<String, String>) -> Result<Option<GlobSet>, BadPattern> {
    let text = env.get(variable).map(String::as_str).unwrap_or_default();
    let bad = |source| BadPattern { variable, source };
    let mut set = GlobSetBuilder::new();
    let mut any = false;
    for pattern in text.split(',').map(str::trim).filter(|pattern| !pattern.is_empty()) {
        set.add(Glob::new(pattern).map_err(bad)?);
        any = true;
    }
    if any { set.build().map(Some).map_err(bad) } else { Ok(None) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Boundary, Grant, Scope, ToolTerms};

    fn spec(transport: TransportSpec) -> SurfaceSpec {
        SurfaceSpec {
            transport,
            scope: Scope::Being,
            env: BTreeMap::from([
                ("HERE".to_owned(), VariableSpec::Text("{workspace}/x".to_owned())),
                ("KEY".to_owned(), VariableSpec::Secret(SecretSource::Env("SPARE_KEY".to_owned()))),
            ]),
            timeout: Span::from_secs(120),
            trusted_revenue: false,
            boundary: Boundary::Reject,
            sandbox: Some(SandboxSpec { write: vec!["{workspace}".to_owned()], ..SandboxSpec::default() }),
            limits: LimitsSpec::default(),
            terms: ToolTerms::default(),
        }
    }

    fn config(names: &[&str]) -> LasConfig {
        let command = || spec(TransportSpec::Command(vec!["serve".to_owned(), "{workspace}".to_owned()]));
        let surfaces = names.iter().map(|name| (name.parse().unwrap(), command())).collect();
        LasConfig::new(&surfaces, (Path::new("/w/ada"), Path::new("/h/oauth")), Span::from_secs(30), Backoff::default())
    }

    fn selected(only: &str, skip: &str) -> Vec<String> {
        let mut config = config(&["files", "fetch", "time"]);
        let env = BTreeMap::from([("LAS_ONLY".to_owned(), only.to_owned()), ("LAS_SKIP".to_owned(), skip.to_owned())]);
        config.select(&env).unwrap();
        config.surfaces.into_keys().map(String::from).collect()
    }

    #[test]
    fn a_being_gets_its_own_folder_and_no_other() {
        let config = config(&["files"]);
        let joined = config.surfaces.values().next().unwrap();
        assert_eq!(joined.way, Way::Command(vec!["serve".to_owned(), "/w/ada".to_owned()]));
        assert_eq!(joined.env.get("HERE"), Some(&VariableSpec::Text("/w/ada/x".to_owned())));
        assert_eq!(joined.confinement.sandbox.as_ref().unwrap().write, [PathBuf::from("/w/ada")]);
    }

    #[test]
    fn what_to_join_survives_the_way_to_las() {
        let config = config(&["files", "time"]);
        assert_eq!(LasConfig::from_capability(config.to_capability()).unwrap(), config);
    }

    #[test]
    fn what_is_skipped_is_not_joined() {
        assert_eq!(selected("", ""), ["fetch", "files", "time"]);
        assert_eq!(selected("f*", ""), ["fetch", "files"]);
        assert_eq!(selected(" f*, time", "fi*,,"), ["fetch", "time"]);
        assert_eq!(selected("", "*"), [""; 0]);
    }

    #[test]
    fn only_variables_that_hold_secrets_are_passed_on() {
        let variable = |name: &str| Some(SecretSource::Env(name.to_owned()));
        let url = || "http://127.0.0.1:1/mcp".to_owned();
        let remote = spec(TransportSpec::Url { url: url(), bearer: variable("TOKEN"), oauth: None });
        let oauth = OauthSpec {
            grant: Grant::ClientCredentials,
            client_id: Some("me".to_owned()),
            client_secret: variable("HUSH"),
            private_key: Some(SecretSource::File("/k".into())),
            auth: None,
            client_metadata: None,
            scopes: None,
            resource: None,
            redirect: url(),
        };
        let handed = Some(SecretSource::Credential("key".to_owned()));
        let given = spec(TransportSpec::Url { url: url(), bearer: handed, oauth: None });
        let asking = spec(TransportSpec::Url { url: url(), bearer: None, oauth: Some(Box::new(oauth)) });
        let of = |surfaces: Vec<SurfaceSpec>| {
            let names = ["far", "farther"].map(|name| name.parse().unwrap());
            let surfaces = names.into_iter().zip(surfaces).collect();
            LasConfig::new(&surfaces, (Path::new("/w"), Path::new("/h/oauth")), Span::from_secs(1), Backoff::default())
        };
        let variables = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert_eq!(of(vec![given]).secret_variables(), variables(&["CREDENTIALS_DIRECTORY", "SPARE_KEY"]));
        assert_eq!(of(vec![remote, asking]).secret_variables(), variables(&["HUSH", "SPARE_KEY", "TOKEN"]));
    }
}
