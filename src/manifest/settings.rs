//! The variables (and flags of the same meaning) that lie over a manifest, as data: what each sets, and where.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{
    Problem,
    problem::quoted,
    shape::{Misfit, misfits},
};
use crate::vocab::Kind;

/// One setting: a variable, the flag of the same meaning, and the key that it sets.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub variable: &'static str,
    /// Without the dashes.
    pub flag: &'static str,
    pub kind: Kind,
    /// The key within the object, dotted.
    pub key: &'static str,
    pub form: SettingForm,
}

/// How the text of a setting becomes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingForm {
    Text,
    /// Trimmed; an empty one counts as unset.
    Trimmed,
    Number,
    Seconds,
    /// Comma-separated; empty items are dropped.
    List,
    /// The path of a file that holds a secret.
    SecretFile,
}

const fn setting(variable: &'static str, flag: &'static str, kind: Kind, key: &'static str, form: SettingForm) -> Setting {
    Setting { variable, flag, kind, key, form }
}

/// Every setting. Those of a model lie over each `brama` model of a fleet; those of a being and of Las only over the one being that is run.
pub const SETTINGS: [Setting; 35] = {
    use Kind::{Being, Model, Surface};
    use SettingForm::{List, Number, Seconds, SecretFile, Text, Trimmed};
    [
        setting("BRAMA_BASE_URL", "brama-url", Model, "base_url", Text),
        setting("BRAMA_MODEL", "brama-model", Model, "model", Text),
        setting("BRAMA_HMAC_SECRET_FILE", "brama-secret-file", Model, "hmac_secret", SecretFile),
        setting("BRAMA_BEARER_TOKEN_FILE", "brama-bearer-file", Model, "bearer", SecretFile),
        setting("BRAMA_MAX_TOKENS", "max-tokens", Model, "max_tokens", Number),
        setting("BRAMA_TEMPERATURE", "temperature", Model, "temperature", Number),
        setting("BRAMA_INPUT_PRICE_USD_PER_MILLION", "input-price", Model, "price.input", Text),
        setting("BRAMA_OUTPUT_PRICE_USD_PER_MILLION", "output-price", Model, "price.output", Text),
        setting("SINGULARITY_HTTP_TIMEOUT_SECS", "http-timeout-secs", Model, "timeout", Seconds),
        setting("SINGULARITY_MCP_TIMEOUT_SECS", "mcp-timeout-secs", Surface, "timeout", Seconds),
        setting("SINGULARITY_AGENT_ID", "agent-id", Being, "identity.agent_id", Text),
        setting("SINGULARITY_AGENT_NAME", "agent-name", Being, "identity.name", Text),
        setting("SINGULARITY_AGENT_TICKER", "agent-ticker", Being, "identity.ticker", Text),
        setting("SINGULARITY_AGENT_TYPE", "agent-type", Being, "identity.agent_type", Text),
        setting("SINGULARITY_SPECIALTY", "specialty", Being, "specialty", Text),
        setting("SINGULARITY_ROLE", "role", Being, "identity.role", Text),
        setting("SINGULARITY_ENVIRONMENT", "environment", Being, "identity.environment", Text),
        setting("SINGULARITY_HOST", "host", Being, "identity.host", Text),
        setting("SINGULARITY_WORKLOAD_ID", "workload-id", Being, "identity.workload_id", Text),
        setting("SINGULARITY_WORKLOAD_PUBLIC_KEY", "workload-public-key", Being, "identity.workload_public_key", Text),
        setting("SINGULARITY_EXECUTABLE_SHA256", "executable-digest", Being, "identity.executable_digest", Text),
        setting("SINGULARITY_CODE_SHA256", "code-digest", Being, "identity.code_digest", Text),
        setting("SINGULARITY_POLICY_SHA256", "policy-digest", Being, "identity.policy_digest", Text),
        setting("SINGULARITY_POLICY_SEQUENCE", "policy-sequence", Being, "identity.policy_sequence", Number),
        setting("SINGULARITY_STARTING_BALANCE_USD", "starting-balance", Being, "budget.starting", Text),
        setting("SINGULARITY_INSTANCE_USD_PER_HOUR", "instance-price", Being, "budget.instance_usd_per_hour", Text),
        setting("SINGULARITY_STIMULUS", "stimulus", Being, "stimulus", Trimmed),
        setting("SINGULARITY_CYCLE_INTERVAL_SECS", "cycle-interval-secs", Being, "cycle.every", Seconds),
        setting("SINGULARITY_MAX_TOOL_ROUNDS", "max-tool-rounds", Being, "cycle.max_tool_rounds", Number),
        setting("SINGULARITY_WORKSPACE", "workspace", Being, "workspace", Text),
        setting("SINGULARITY_REQUIRED_SURFACES", "required-surfaces", Being, "las.required", List),
        setting("LAS_ONLY", "las-only", Being, "las.only", List),
        setting("LAS_SKIP", "las-skip", Being, "las.skip", List),
        setting("MOST_BASE_URL", "most-url", Being, "most.url", Text),
        setting("MOST_SERVICE_TOKEN_FILE", "most-token-file", Being, "most.token", SecretFile),
    ]
};

/// The file with the request secret is unset and this variable holds the secret: the one that a variable holds bare.
pub(crate) const BARE_SECRET: &str = "WISENT_APP_AGENT_AUTH_SECRET";

/// Variables, or flags under the names of their variables.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// The text of a variable, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let pairs = pairs.into_iter().map(|(name, value)| (name.into(), value.into()));
        let is_setting =
            |name: &str| name == BARE_SECRET || name.starts_with("LAS_") || SETTINGS.iter().any(|setting| setting.variable == name);
        Self(pairs.filter(|(name, _)| is_setting(name)).collect())
    }
}

/// The part of a document that the settings of `kind` make up, and what is wrong with them. A wrong one is left out.
pub(crate) fn document_of(kind: Kind, variables: &Variables) -> (Value, Vec<Problem>) {
    let mut document = Value::Object(Map::new());
    for setting in SETTINGS.iter().filter(|setting| setting.kind == kind) {
        let value = variables.get(setting.variable).and_then(|text| value_of(setting, text));
        value.into_iter().for_each(|value| put(&mut document, setting.key, value));
    }
    let whole = serde_json::json!({ kind.as_str(): { "x": document.clone() } });
    let mut problems = Vec::new();
    for misfit in misfits(&whole) {
        let key = misfit.path.get(2..).unwrap_or_default().join(".");
        if let Some(setting) = setting_at(kind, &key) {
            problems.push(problem_of(setting, &misfit));
            take(&mut document, setting.key);
        }
    }
    (document, problems)
}

/// The setting that brings the value at `key`, or the part of it that `key` leads into.
pub(crate) fn setting_at(kind: Kind, key: &str) -> Option<&'static Setting> {
    let leads_to =
        |setting: &&Setting| key == setting.key || key.strip_prefix(setting.key).is_some_and(|rest| rest.starts_with('.'));
    SETTINGS.iter().filter(|setting| setting.kind == kind).find(leads_to)
}

fn problem_of(setting: &Setting, misfit: &Misfit) -> Problem {
    let hint = misfit.hint.clone().filter(|_| !matches!(setting.form, SettingForm::Seconds | SettingForm::Number));
    Problem { hint, ..told_of(setting, &misfit.message) }
}

/// The value that a text stands for; a text that is no number stays a text, so that the schema refuses it.
fn value_of(setting: &Setting, text: &str) -> Option<Value> {
    let number = |text: &str| match text.trim().parse::<u64>() {
        Ok(whole) => Some(Value::from(whole)),
        Err(_) => text.trim().parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from),
    };
    match setting.form {
        SettingForm::Text => Some(text.into()),
        SettingForm::Trimmed => Some(text.trim()).filter(|text| !text.is_empty()).map(Value::from),
        SettingForm::Number => Some(number(text).unwrap_or_else(|| text.into())),
        SettingForm::Seconds => {
            Some(text.trim().parse::<u64>().map_or_else(|_| text.into(), |seconds| format!("{seconds}s").into()))
        }
        SettingForm::SecretFile => Some(serde_json::json!({ "file": text })),
        SettingForm::List if setting.key == "las.only" && text.trim().is_empty() => None,
        SettingForm::List => Some(text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()),
    }
}

fn put(document: &mut Value, key: &str, value: Value) {
    let mut at = document;
    for step in key.split('.') {
        let Value::Object(table) = at else { return };
        at = table.entry(step).or_insert_with(|| Value::Object(Map::new()));
    }
    *at = value;
}

fn take(document: &mut Value, key: &str) {
    let pointer = format!("/{}", key.replace('.', "/"));
    let Some((table, leaf)) = pointer.rsplit_once('/') else { return };
    document.pointer_mut(table).and_then(Value::as_object_mut).map(|table| table.shift_remove(leaf));
}

/// Says that a value which a setting brought is wrong.
pub(crate) fn told_of(setting: &Setting, message: &str) -> Problem {
    let own = format!("`{}`", setting.key);
    let rest = message.strip_prefix(&own).map(|rest| format!("{}{rest}", quoted(setting.variable)));
    Problem::of_setting(rest.unwrap_or_else(|| format!("`{}`: {message}", setting.variable)))
}
