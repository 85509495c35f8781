//! From documents to specs: references, bounds that tie two keys together, paths.

use std::collections::BTreeMap;

use globset::{Glob, GlobMatcher};

use super::{
    BeingSpec, Boundary, BudgetSpec, CapSpec, CapabilitySpec, ExternalLas, LasSpec, ModelSpec, PromptPolicy, ProviderSpec, Scope,
    SurfaceSpec, TransportSpec, branches,
    check::Cx,
    children, confine, cycle,
    document::{
        BeingDocument, BoundaryName, BudgetDocument, CapDocument, GrantDocument, IdentityDocument, LasDocument, ModelDocument,
        PromptPolicyName, ProviderName, ScopeName, SurfaceDocument,
    },
    most, oauth,
    problem::quoted,
    scalar::{self, Identifier, Money},
    terms::terms,
    variable,
};
use crate::{
    being::{DeclaredIdentity, Price},
    vocab::{Kind, Name, Usd},
};

/// Bytes of a prompt and of a stimulus (SPEC §4, §6).
const MAX_TEXT_BYTES: usize = 65_536;
pub(super) const WORKSPACE: &str = "{workspace}";
const BRAMA_URL: &str = "http://127.0.0.1:8081";
const BRAMA_MODEL: &str = "any";

/// Resolves a model.
pub(crate) fn model(document: &ModelDocument, cx: &mut Cx<'_>) -> Option<ModelSpec> {
    let provider = provider(document, cx);
    let price = document.price.as_ref();
    let price = Price {
        input: cx
            .usd(&["price", "input"], price.and_then(|price| text(price.input.as_ref().map(|usd| &usd.0))))
            .unwrap_or_default(),
        output: cx
            .usd(&["price", "output"], price.and_then(|price| text(price.output.as_ref().map(|usd| &usd.0))))
            .unwrap_or_default(),
    };
    let timeout = cx.span(&["timeout"], text(document.timeout.as_ref().map(|span| &span.0)));
    let temperature_milli = thousandths(document.temperature.unwrap_or_default());
    if temperature_milli.is_none() {
        let message = "temperature must be finite and between zero and two, with at most three decimals";
        cx.fault(&["temperature"], message, Some("write it as 0.2".into()));
    }
    let (max_tokens, context_tokens) = (document.max_tokens.unwrap_or(1), document.context_tokens.unwrap_or(1));
    if max_tokens >= context_tokens {
        let message = format!(
            "`max_tokens` is {max_tokens}, but `context_tokens` lets only {context_tokens} into a request, answer included"
        );
        cx.fault(&["max_tokens"], message, Some("lower `max_tokens`, or raise `context_tokens` to what the model allows".into()));
    }
    Some(ModelSpec {
        provider: provider?,
        price,
        max_tokens,
        temperature_milli: temperature_milli?,
        timeout: timeout?,
        concurrency: document.concurrency.unwrap_or(1),
        context_tokens,
    })
}

fn text(text: Option<&String>) -> Option<&str> {
    text.map(String::as_str)
}

/// Thousandths, when three decimals are enough. Negative zero is refused.
fn thousandths(number: f64) -> Option<u16> {
    let written = format!("{number:.3}");
    let is_exact = written.parse::<f64>().is_ok_and(|read| read.to_bits() == number.to_bits());
    written.replace('.', "").parse().ok().filter(|_| is_exact)
}

fn provider(document: &ModelDocument, cx: &mut Cx<'_>) -> Option<ProviderSpec> {
    let Some(provider) = document.provider else {
        cx.missing(&["provider"], "write provider = \"embedded\", \"openai\" or \"brama\"");
        return None;
    };
    unused_by(provider, document, cx);
    match provider {
        ProviderName::Embedded => {
            Some(ProviderSpec::Embedded { path: document.path.as_ref().map(|path| cx.path(&["path"], path)) })
        }
        ProviderName::OpenAi => {
            let api_key = cx.secret("api_key", document.api_key.as_ref());
            if document.base_url.is_none() {
                cx.missing(&["base_url"], "write base_url = \"http://127.0.0.1:8000/v1\"");
            }
            if document.model.is_none() {
                cx.missing(&["model"], "write model = the name that the server knows, such as \"qwen3-8b\"");
            }
            Some(ProviderSpec::OpenAi { base_url: document.base_url.clone()?.0, model: document.model.clone()?, api_key })
        }
        ProviderName::Brama => {
            let bearer = cx.secret("bearer", document.bearer.as_ref());
            if document.hmac_secret.is_none() {
                cx.missing(&["hmac_secret"], "write hmac_secret = { file = \"/run/secrets/brama\" }");
            }
            Some(ProviderSpec::Brama {
                base_url: document.base_url.clone().map_or_else(|| BRAMA_URL.to_owned(), |url| url.0),
                model: document.model.clone().unwrap_or_else(|| BRAMA_MODEL.to_owned()),
                hmac_secret: cx.secret("hmac_secret", document.hmac_secret.as_ref())?,
                bearer,
            })
        }
    }
}

/// Keys of other providers: a fault of the object, and left out when they come from `[defaults.model]`.
fn unused_by(provider: ProviderName, document: &ModelDocument, cx: &mut Cx<'_>) {
    use ProviderName::{Brama, Embedded, OpenAi};
    let keys: [(&str, bool, &[ProviderName]); 6] = [
        ("path", document.path.is_some(), &[Embedded]),
        ("base_url", document.base_url.is_some(), &[OpenAi, Brama]),
        ("model", document.model.is_some(), &[OpenAi, Brama]),
        ("api_key", document.api_key.is_some(), &[OpenAi]),
        ("hmac_secret", document.hmac_secret.is_some(), &[Brama]),
        ("bearer", document.bearer.is_some(), &[Brama]),
    ];
    for (key, is_there, users) in keys {
        if is_there && !users.contains(&provider) && cx.is_own(&[key]) {
            let name = format!("{provider:?}").to_lowercase();
            let hint = match (key, provider) {
                ("api_key", Brama) => "brama takes `hmac_secret` and `bearer`",
                ("bearer", OpenAi) => "openai takes `api_key`",
                ("model", Embedded) => "a model of your own is named by `path`, a GGUF file",
                _ => "take it out",
            };
            cx.fault(&[key], format!("`{key}` is not used by provider `{name}`"), Some(hint.into()));
        }
    }
}

/// Resolves a surface.
pub(crate) fn surface(document: &SurfaceDocument, cx: &mut Cx<'_>) -> Option<SurfaceSpec> {
    let transport = transport(document, cx);
    let scope = match document.scope {
        Some(ScopeName::Shared) => Scope::Shared,
        _ => Scope::Being,
    };
    if scope == Scope::Shared {
        workspace_in_shared(document, cx);
    }
    let timeout = cx.span(&["timeout"], text(document.timeout.as_ref().map(|span| &span.0)));
    let boundary = match document.boundary {
        Some(BoundaryName::Redact) => Boundary::Redact,
        _ => Boundary::Reject,
    };
    let env = variable::resolve(document, cx);
    let trusted_revenue = document.trusted_revenue.unwrap_or(false);
    let terms = terms(document, cx);
    let (sandbox, limits) = confine::confinement(document, scope, cx);
    Some(SurfaceSpec { transport: transport?, scope, env, timeout: timeout?, trusted_revenue, boundary, terms, sandbox, limits })
}

fn transport(document: &SurfaceDocument, cx: &mut Cx<'_>) -> Option<TransportSpec> {
    match (&document.command, &document.url) {
        (Some(_), Some(_)) => {
            let message = format!("`{}` has both `command` and `url`; keep one of them", cx.address);
            cx.fault(&["url"], message, None);
            None
        }
        (None, None) => {
            let hint = "write command = [\"program\", \"argument\"] or url = \"http://127.0.0.1:9100/mcp\"";
            if !cx.was_there(&["url"]) {
                cx.missing(&["command"], hint);
            }
            None
        }
        (Some(command), None) => {
            for (key, is_there) in [("bearer", document.bearer.is_some()), ("oauth", document.oauth.is_some())] {
                if is_there && cx.is_own(&[key]) {
                    let message = format!("`{key}` is not used by a surface with `command`");
                    cx.fault(&[key], message, Some("pass it by `env`, or take it out".into()));
                }
            }
            if command.first().is_some_and(|program| program.trim().is_empty()) {
                cx.fault(&["command"], "`command` names no program", Some("write command = [\"program\", \"argument\"]".into()));
            }
            if command.iter().any(|word| word.contains('\0')) {
                cx.fault(&["command"], "`command` contains NUL", None);
            }
            Some(TransportSpec::Command(cx.command(&["command"], command)))
        }
        (None, Some(url)) => {
            if !document.env.is_empty() && cx.is_own(&["env"]) {
                cx.fault(&["env"], "`env` is not used by a surface with `url`", Some("it has no process; take it out".into()));
            }
            let bearer = cx.secret("bearer", document.bearer.as_ref());
            Some(TransportSpec::Url { url: url.0.clone(), bearer, oauth: oauth::resolve(document, cx).map(Box::new) })
        }
    }
}

fn workspace_in_shared(document: &SurfaceDocument, cx: &mut Cx<'_>) {
    let hint = || Some("write scope = \"being\", or name a folder".to_owned());
    let message = "`{workspace}` is each being's own, but this surface is shared by all";
    for (at, word) in document.command.iter().flatten().enumerate() {
        if word.contains(WORKSPACE) {
            cx.fault(&["command", &at.to_string()], message, hint());
        }
    }
    for (name, _) in document.env.iter().filter(|(_, value)| value.text().is_some_and(|text| text.contains(WORKSPACE))) {
        cx.fault(&["env", name], message, hint());
    }
}

/// Resolves a cap.
pub(crate) fn cap(document: &CapDocument, cx: &mut Cx<'_>) -> Option<CapSpec> {
    let per_day = cx.positive_usd(&["per_day"], text(document.per_day.as_ref().map(|usd| &usd.0)));
    let total = cx.positive_usd(&["total"], text(document.total.as_ref().map(|usd| &usd.0)));
    let has_any =
        document.per_day.is_some() || document.total.is_some() || ["per_day", "total"].iter().any(|key| cx.was_there(&[key]));
    if !has_any {
        let message = format!("`{}` has neither `per_day` nor `total`, so it holds nothing", cx.address);
        cx.fault(&[], message, Some("write per_day = \"20\", total = \"100\" or both".into()));
    }
    Some(CapSpec { labels: document.labels.clone(), per_day, total })
}

/// Resolves a being.
pub(crate) fn being(document: &BeingDocument, cx: &mut Cx<'_>) -> Option<BeingSpec> {
    let models = models(document, cx);
    let las = las(document.las.as_ref(), cx);
    let cycle = document.cycle.as_ref().and_then(|document| cycle::resolve(document, cx));
    let budget = budget(document.budget.as_ref(), cx);
    let grants = grants(document.grant.as_deref().unwrap_or_default(), cx);
    let capabilities = capabilities(document, cx);
    let approve_within = cx.span(&["approve_within"], text(document.approve_within.as_ref().map(|span| &span.0)));
    let most = document.most.as_ref().and_then(|document| most::resolve(document, cx));
    let tree = branches::resolve(document, cx);
    texts(document, cx);
    let declares_specialty = cx.is_declared(&["specialty"]);
    let specialty = document.specialty.clone().unwrap_or_default();
    let mut identity = document.identity.as_ref().map(identity).unwrap_or_default();
    identity.specialty = declares_specialty.then(|| specialty.clone());
    if document.replicas.unwrap_or(1) > 1 && identity.agent_id.is_some() {
        cx.fault(
            &["identity", "agent_id"],
            "`identity.agent_id` cannot be one for several replicas",
            Some("take it out; each is given its own at birth".into()),
        );
    }
    Some(BeingSpec {
        specialty,
        models,
        prompt: document.prompt.clone(),
        prompt_policy: match document.prompt_policy {
            Some(PromptPolicyName::Enforce) => PromptPolicy::Enforce,
            _ => PromptPolicy::Birth,
        },
        stimulus: document.stimulus.clone().filter(|text| !text.trim().is_empty()),
        workspace: document.workspace.as_ref().map(|folder| cx.path(&["workspace"], folder)),
        paused: document.paused.unwrap_or(false),
        las,
        cycle: cycle?,
        budget,
        grants,
        capabilities,
        approve: document.approve.iter().flatten().map(|glob| glob.0.clone()).collect(),
        approve_within: approve_within?,
        identity,
        labels: document.labels.clone(),
        most,
        categories: tree.categories,
        decision: tree.decision,
        route: tree.route,
    })
}

fn budget(document: Option<&BudgetDocument>, cx: &mut Cx<'_>) -> BudgetSpec {
    let empty = BudgetDocument::default();
    let document = document.unwrap_or(&empty);
    let mut usd = |key: &str, usd: &Option<Money>| cx.usd(&["budget", key], text(usd.as_ref().map(|usd| &usd.0)));
    let starting = usd("starting", &document.starting).unwrap_or_default();
    let instance_usd_per_hour = usd("instance_usd_per_hour", &document.instance_usd_per_hour).unwrap_or_default();
    let mut most = |key: &str, usd: &Option<Money>| cx.positive_usd(&["budget", key], text(usd.as_ref().map(|usd| &usd.0)));
    let (per_day, per_cycle) = (most("per_day", &document.per_day), most("per_cycle", &document.per_cycle));
    let thresholds = document.warn_below.iter().flatten().enumerate();
    let warn_below =
        thresholds.filter_map(|(at, usd)| cx.positive_usd(&["budget", "warn_below", &at.to_string()], Some(&usd.0))).collect();
    BudgetSpec { starting, instance_usd_per_hour, per_day, per_cycle, reserve: document.reserve.unwrap_or(false), warn_below }
}

fn models(document: &BeingDocument, cx: &mut Cx<'_>) -> Vec<Name> {
    let Some(list) = &document.model else {
        cx.missing(&["model"], "write model = the name of a declared model");
        return Vec::new();
    };
    let mut names: Vec<Name> = Vec::new();
    for (at, text) in list.names().iter().enumerate() {
        let position = at.to_string();
        let path: &[&str] = if list.names().len() > 1 { &["model", &position] } else { &["model"] };
        let Ok(name) = Name::try_from(text.as_str()) else { continue };
        if !cx.declared.models.contains(&name) {
            let known = &cx.declared.models;
            cx.dangling(path, text, Kind::Model, known);
        } else if names.contains(&name) {
            cx.fault(path, format!("model {} is named twice", quoted(text)), Some("keep the first".into()));
        } else {
            names.push(name);
        }
    }
    names
}

fn las(document: Option<&LasDocument>, cx: &mut Cx<'_>) -> LasSpec {
    let empty = LasDocument::default();
    let document = document.unwrap_or(&empty);
    let required: Vec<Name> = document.required.iter().flatten().filter_map(|name| Name::try_from(name.0.as_str()).ok()).collect();
    if let Some(command) = &document.command {
        let list = |globs: &Option<Vec<scalar::Glob>>| {
            globs.as_ref().map(|globs| globs.iter().map(|glob| glob.0.as_str()).collect::<Vec<_>>().join(","))
        };
        let command = cx.command(&["las", "command"], command);
        return LasSpec {
            surfaces: Vec::new(),
            required,
            external: Some(ExternalLas { command, only: list(&document.only), skip: list(&document.skip) }),
        };
    }
    let only = document.only.as_deref().map(|globs| matchers("only", globs, cx));
    let skip = matchers("skip", document.skip.as_deref().unwrap_or_default(), cx);
    let is_selected = |name: &&Name| only.as_ref().is_none_or(|only| hits(only, name)) && !hits(&skip, name);
    let surfaces: Vec<Name> = cx.declared.surfaces.iter().filter(is_selected).cloned().collect();
    for (at, name) in required.iter().enumerate() {
        let position = at.to_string();
        if !cx.declared.surfaces.contains(name) {
            let known = &cx.declared.surfaces;
            cx.dangling(&["las", "required", &position], name.as_str(), Kind::Surface, known);
        } else if !surfaces.contains(name) {
            let message = format!("surface `{name}` is required, but not selected by `only` and `skip`");
            cx.fault(
                &["las", "required", &position],
                message,
                Some(format!("add \"{name}\" to `las.only`, or take it out of `las.skip`")),
            );
        }
    }
    LasSpec { surfaces, required, external: None }
}

fn hits(globs: &[GlobMatcher], name: &Name) -> bool {
    globs.iter().any(|glob| glob.is_match(name.as_str()))
}

fn matchers(key: &str, globs: &[scalar::Glob], cx: &mut Cx<'_>) -> Vec<GlobMatcher> {
    let mut matchers = Vec::new();
    for (at, glob) in globs.iter().enumerate() {
        let Ok(matcher) = Glob::new(&glob.0).map(|glob| glob.compile_matcher()) else { continue };
        if !cx.declared.surfaces.iter().any(|name| matcher.is_match(name.as_str())) {
            let known = &cx.declared.surfaces;
            cx.dangling(&["las", key, &at.to_string()], &glob.0, Kind::Surface, known);
        }
        matchers.push(matcher);
    }
    matchers
}

fn grants(documents: &[GrantDocument], cx: &mut Cx<'_>) -> BTreeMap<String, Usd> {
    let mut grants = BTreeMap::new();
    for (at, grant) in documents.iter().enumerate() {
        let position = at.to_string();
        let (Some(Identifier(id)), Some(usd)) = (&grant.id, &grant.usd) else {
            cx.fault(
                &["grant", &position],
                "a grant needs `id` and `usd`",
                Some("write { id = \"2026-12\", usd = \"25\" }".into()),
            );
            continue;
        };
        let Some(usd) = cx.usd(&["grant", &position, "usd"], Some(&usd.0)) else { continue };
        if !usd.is_positive() {
            cx.fault(&["grant", &position, "usd"], "a grant must be more than zero", None);
        }
        if grants.insert(id.clone(), usd).is_some() {
            cx.fault(
                &["grant", &position, "id"],
                format!("grant {} is named twice; each id is applied once", quoted(id)),
                Some("give it an id of its own".into()),
            );
        }
    }
    grants
}

fn capabilities(document: &BeingDocument, cx: &mut Cx<'_>) -> CapabilitySpec {
    let said = document.capabilities.as_ref();
    CapabilitySpec {
        memory: said.and_then(|said| said.memory).unwrap_or(true),
        files: said.and_then(|said| said.files).unwrap_or(true),
        children: said.and_then(|said| said.children.as_ref()).and_then(|said| children::resolve(said, cx)),
    }
}

fn texts(document: &BeingDocument, cx: &mut Cx<'_>) {
    if document.stimulus.as_ref().is_some_and(|text| text.len() > MAX_TEXT_BYTES || text.contains('\0')) {
        cx.fault(&["stimulus"], "stimulus must be at most 65536 bytes and contain no NUL", None);
    }
    if let Some(prompt) = &document.prompt {
        if prompt.len() > MAX_TEXT_BYTES || prompt.contains('\0') {
            cx.fault(&["prompt"], "prompt must be at most 65536 bytes and contain no NUL", None);
        } else if prompt.trim().is_empty() {
            cx.fault(&["prompt"], "`prompt` is empty", Some("take it out; the being is then born with a prompt of its own".into()));
        }
    }
    if document.specialty.as_ref().is_some_and(|text| text.trim().is_empty()) {
        cx.fault(&["specialty"], "`specialty` is empty", Some("fill it in or take it out".into()));
    }
}

fn identity(document: &IdentityDocument) -> DeclaredIdentity {
    let id = |id: &Option<Identifier>| id.as_ref().map(|id| id.0.clone());
    let hex = |hex: &Option<scalar::HexDigest>| hex.as_ref().map(|hex| hex.0.clone());
    DeclaredIdentity {
        agent_id: id(&document.agent_id),
        name: document.name.clone(),
        ticker: document.ticker.clone(),
        agent_type: document.agent_type.clone(),
        specialty: None,
        role: id(&document.role),
        environment: id(&document.environment),
        host: id(&document.host),
        workload_id: id(&document.workload_id),
        workload_public_key: hex(&document.workload_public_key),
        executable_digest: hex(&document.executable_digest),
        code_digest: hex(&document.code_digest),
        policy_digest: hex(&document.policy_digest),
        policy_sequence: document.policy_sequence,
    }
}
