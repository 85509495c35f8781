use std::{path::Path, sync::Arc};

use serde_json::Value;

use super::diagnosis::{Area, Finding};
use crate::{
    manifest::{ModelSpec, ProviderSpec, SecretSource, SurfaceSpec, TransportSpec, VariableSpec},
    model::pull,
    runtime::{AnimateError, Assignment, Ground, Inspection, SurfaceHealth, inspect},
    tool::check_most,
    vocab::{Name, chain},
};

/// Every secret that the being's models, surfaces and messages need.
pub(super) async fn secrets<'a>(
    ground: &Ground,
    assignment: &Assignment,
    models: impl Iterator<Item = (&'a Name, &'a ModelSpec)>,
) -> Vec<Finding> {
    let mut sources: Vec<(String, SecretSource)> = Vec::new();
    for (name, spec) in models {
        match &spec.provider {
            ProviderSpec::Embedded { .. } => {}
            ProviderSpec::OpenAi { api_key, .. } => {
                sources.extend(api_key.iter().map(|key| (format!("model/{name} api_key"), key.clone())));
            }
            ProviderSpec::Brama { hmac_secret, bearer, .. } => {
                sources.push((format!("model/{name} hmac_secret"), hmac_secret.clone()));
                sources.extend(bearer.iter().map(|bearer| (format!("model/{name} bearer"), bearer.clone())));
            }
        }
    }
    for (name, spec) in &assignment.surfaces {
        for (variable, value) in &spec.env {
            if let VariableSpec::Secret(source) = value {
                sources.push((format!("surface/{name} env.{variable}"), source.clone()));
            }
        }
        let TransportSpec::Url { bearer, oauth, .. } = &spec.transport else { continue };
        sources.extend(bearer.iter().map(|bearer| (format!("surface/{name} bearer"), bearer.clone())));
        let (secret, key) = oauth.as_ref().map_or((None, None), |oauth| (oauth.client_secret.clone(), oauth.private_key.clone()));
        sources.extend(secret.map(|secret| (format!("surface/{name} oauth.client_secret"), secret)));
        sources.extend(key.map(|key| (format!("surface/{name} oauth.private_key"), key)));
    }
    sources.extend(assignment.being.most.iter().map(|most| ("most token".to_owned(), most.token.clone())));
    let mut findings = Vec::new();
    for (subject, source) in sources {
        findings.push(match (ground.models.secrets().read(&source).await, &source) {
            (Ok(_), SecretSource::File(path)) => {
                Finding::good(subject, Area::Configuration, format!("{} is for its owner alone", path.display()))
            }
            (Ok(_), SecretSource::Env(name)) => Finding::good(subject, Area::Configuration, format!("the variable {name} is set")),
            (Ok(_), SecretSource::Credential(name)) => {
                Finding::good(subject, Area::Configuration, format!("the credential {name} was handed over"))
            }
            (Err(error), _) => Finding::bad(subject, Area::Configuration, chain(&error), to_do_about(&source)),
        });
    }
    findings
}

fn to_do_about(source: &SecretSource) -> String {
    match source {
        SecretSource::File(path) => {
            let path = path.display();
            format!("put the secret there, and nothing else: chown \"$USER\" {path} && chmod 600 {path}")
        }
        SecretSource::Env(name) => format!("export {name} where the program is started"),
        SecretSource::Credential(name) => format!("write LoadCredential={name}:FILE into the service's unit, and restart it"),
    }
}

/// Whether a model is there, takes the credentials, and takes as many tokens as is declared.
pub(super) async fn model(ground: &Ground, assignment: &Assignment, name: &Name, spec: &ModelSpec) -> Finding {
    let subject = format!("model/{name}");
    if let ProviderSpec::Embedded { path } = &spec.provider {
        return embedded(ground, subject, path.as_deref());
    }
    let agent = assignment.being.identity.agent_id.as_deref().unwrap_or(assignment.name.as_str());
    let checkup = match ground.models.check(agent, name).await {
        Ok(checkup) => checkup,
        Err(error) => {
            let hint = "see that the server runs, and that `base_url` and the credentials are its own";
            return Finding::bad(subject, Area::Upstream, error.to_string(), hint);
        }
    };
    let at = checkup.at.unwrap_or_default();
    let (served, declared) = (served(spec), spec.context_tokens);
    match (checkup.is_listed, checkup.context_tokens) {
        (Some(false), _) if matches!(spec.provider, ProviderSpec::Brama { .. }) => Finding::bad(
            subject,
            Area::Configuration,
            format!("configured Brama model is unavailable: {served}"),
            "set `model` to one that the gateway lists, or to `any`",
        ),
        (Some(false), _) => {
            let found = format!("{at} answers, but does not list `{served}`");
            Finding::doubtful(subject, Area::Upstream, found, "set `model` to the name that the server knows")
        }
        (_, Some(takes)) if takes < u64::from(declared) => {
            let found = format!("{at} takes {takes} tokens, but {declared} are declared");
            Finding::bad(subject, Area::Configuration, found, format!("set context_tokens = {takes}"))
        }
        (_, Some(takes)) => {
            Finding::good(subject, Area::Upstream, format!("{at} answers; takes {takes} tokens, {declared} are declared"))
        }
        (_, None) => Finding::good(
            subject,
            Area::Upstream,
            format!("{at} answers; {declared} tokens are declared, the server does not say how many it takes"),
        ),
    }
}

fn served(spec: &ModelSpec) -> &str {
    match &spec.provider {
        ProviderSpec::Embedded { .. } => "",
        ProviderSpec::OpenAi { model, .. } | ProviderSpec::Brama { model, .. } => model,
    }
}

fn embedded(ground: &Ground, subject: String, path: Option<&Path>) -> Finding {
    let is_own = path.is_some();
    let path = path.map_or_else(|| pull::LANGUAGE.file(&ground.home.models()), Path::to_owned);
    match (std::fs::metadata(&path), is_own) {
        (Ok(facts), _) if facts.is_file() => {
            Finding::good(subject, Area::Upstream, format!("in this process, from {} ({} bytes)", path.display(), facts.len()))
        }
        (_, true) => {
            let found = format!("there is no model at {}", path.display());
            Finding::bad(subject, Area::Configuration, found, "set `path` to a GGUF file")
        }
        (_, false) => Finding::doubtful(
            subject,
            Area::Upstream,
            "in this process, but not fetched yet",
            "run `singularity model pull`, or let the first start fetch it",
        ),
    }
}

/// What Most says of itself, where one is configured.
pub(super) async fn most(ground: &Ground, assignment: &Assignment) -> (Option<Value>, Option<Finding>) {
    let Some(spec) = &assignment.being.most else { return (None, None) };
    match check_most(spec, ground.models.secrets()).await {
        Ok(health) => {
            let backends = health.get("backends").and_then(Value::as_str).unwrap_or_default().to_owned();
            let found = format!("{} answers; it sends by {backends}", spec.url);
            (Some(health), Some(Finding::good("most", Area::Upstream, found)))
        }
        Err(why) => {
            let hint = "see that the service runs, that `most.url` is its own, and that it has a backend to send by";
            (None, Some(Finding::bad("most", Area::Upstream, why, hint)))
        }
    }
}

/// What was seen of the surfaces, and what tools they and the being have.
pub(super) struct Seen {
    pub(super) findings: Vec<Finding>,
    pub(super) las_tools: usize,
    pub(super) tools: usize,
}

/// Starts every selected surface, lists its tools, and makes the being's catalogue of them.
pub(super) async fn surfaces(ground: &Arc<Ground>, assignment: &Assignment) -> Seen {
    // What is required is judged here, so that one that is missing hides no other.
    let mut lenient = assignment.clone();
    Arc::make_mut(&mut lenient.being).las.required.clear();
    let Inspection { tools, surfaces } = match inspect(ground, &lenient).await {
        Ok(inspection) => inspection,
        Err(error) => return Seen { findings: vec![uninspected(&error)], las_tools: 0, tools: 0 },
    };
    let is_required = |name: &Name| assignment.being.las.required.contains(name);
    let remedy = |name: &Name| remedy(ground, name, assignment.surfaces.get(name));
    let mut findings: Vec<Finding> =
        surfaces.iter().map(|(name, health)| surface(name, health, is_required(name), &remedy(name))).collect();
    let unknown = assignment.being.las.required.iter().filter(|name| !surfaces.contains_key(*name));
    findings.extend(unknown.filter_map(|name| {
        let prefix = format!("{name}__");
        let is_there = tools.iter().any(|tool| tool.name.starts_with(&prefix));
        let found = || format!("required Las surface unavailable: {name}");
        (!is_there).then(|| Finding::bad(format!("surface/{name}"), Area::Upstream, found(), "see that this Las knows it"))
    }));
    findings.push(Finding::good(
        "tools",
        Area::Runtime,
        format!("{} tools, each with a name and a schema that can be used", tools.len()),
    ));
    let remote = tools.iter().filter(|tool| tool.name.contains("__")).count();
    Seen { findings, las_tools: remote, tools: tools.len() }
}

/// What to do about a surface that is down.
fn remedy(ground: &Ground, name: &Name, spec: Option<&SurfaceSpec>) -> String {
    let Some(keyring) = spec.and_then(|spec| ground.keyring(name, spec)) else {
        return "run its command by hand, or leave it out with `las.skip`".to_owned();
    };
    match keyring.wanted() {
        Ok(Some(_)) => format!("start the daemon; `singularity questions` shows what to open, `answer surface/{name}` ends it"),
        _ => format!("see `oauth` of surface/{name}, or leave it out with `las.skip`"),
    }
}

fn surface(name: &Name, health: &SurfaceHealth, is_required: bool, remedy: &str) -> Finding {
    let subject = format!("surface/{name}");
    let required = if is_required { "; it is required" } else { "" };
    match health {
        SurfaceHealth { up: false, reason, .. } => {
            let found = format!("{}{required}", reason.as_deref().unwrap_or("it is down"));
            Finding::bad(subject, Area::Upstream, found, remedy)
        }
        SurfaceHealth { tools: 0, .. } if is_required => {
            let found = format!("required Las surface unavailable: {name}: it is up but lists no tool");
            Finding::bad(subject, Area::Upstream, found, "see that it is given what it needs to offer tools")
        }
        SurfaceHealth { tools: 0, .. } => {
            Finding::doubtful(subject, Area::Upstream, "up, but lists no tool", "see that it is given what it needs to offer tools")
        }
        SurfaceHealth { tools, rubbish_lines, .. } if *rubbish_lines > 0 => {
            let found = format!("up, lists {tools} tools, and wrote {rubbish_lines} lines to stdout that are no messages");
            Finding::doubtful(subject, Area::Upstream, found, "let it write to stderr what is for people")
        }
        SurfaceHealth { tools, .. } => Finding::good(subject, Area::Upstream, format!("up, lists {tools} tools{required}")),
    }
}

fn uninspected(error: &AnimateError) -> Finding {
    let (area, hint) = match error {
        AnimateError::State(_) | AnimateError::Sightings(_) | AnimateError::Workspace { .. } => {
            (Area::State, "see that the folder can be made and entered")
        }
        AnimateError::Kept(_) => (Area::State, "put it into the home's `work` folder, or outside of the home"),
        AnimateError::Surfaces(_) | AnimateError::Model(_) => (Area::Upstream, "see that Las can be started"),
        AnimateError::Catalogue(_) => (Area::Runtime, "leave the surface of that tool out with `las.skip`"),
    };
    let subject = if area == Area::Runtime { "tools" } else { "las" };
    Finding::bad(subject, area, chain(error), error.hint().unwrap_or_else(|| hint.to_owned()))
}
