//! `[category.NAME]` and `[category.NAME.skill.LEAF]`: the tree that decisions walk.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    CategorySpec, SecretSource, SkillAction, SkillSpec,
    check::Cx,
    document::SecretDocument,
    problem::quoted,
    resolve::WORKSPACE,
    scalar::{ConfigValue, SizeText, SpanText},
};
use crate::vocab::{Ratio, Size, SkillName, Span};

/// A branch of the tree that decisions walk: skills of one field. What it says of runs holds for each skill that says nothing of it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Category")]
pub(crate) struct CategoryDocument {
    /// What the category covers, in a sentence or two; decisions read it.
    #[schemars(length(min = 1, max = 2000))]
    pub description: Option<String>,
    /// The skills, by name, at most 16.
    #[schemars(extend("x-named" = true))]
    pub skill: BTreeMap<String, SkillDocument>,
    /// What the bodies of its skills are told as `ctx.config`.
    pub config: BTreeMap<String, ConfigValue>,
    /// The same for secrets, by key of `ctx.config`.
    pub secret: BTreeMap<String, SecretDocument>,
    /// How probable it must be that a run did what was asked, in the place of the decision's `tau`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tau: Option<f64>,
    /// How often a run that did not do what was asked is begun anew.
    #[schemars(range(min = 0, max = 100))]
    pub max_reentries: Option<u32>,
    /// How much one run may cost, in runs of ordinary size.
    #[schemars(range(min = 0.001, max = 1_000.0))]
    pub cost_budget: Option<f64>,
    /// Files and folders that bodies may read, relative to the manifest; `{workspace}` is the being's workspace.
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096)))]
    pub read: Option<Vec<String>>,
    /// Folders that bodies may write in.
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096)))]
    pub write: Option<Vec<String>>,
    /// Whether bodies may use the network.
    pub network: Option<bool>,
    /// How long a run may compute.
    pub cpu_time: Option<SpanText>,
    /// How long a run may take.
    pub wall_time: Option<SpanText>,
    /// How much memory a run may have; at least 16 MiB.
    pub memory: Option<SizeText>,
}

/// A leaf of the tree: one thing that can be done. Without `body` and `response` it is a stub, whose body is yet to be written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Skill")]
pub(crate) struct SkillDocument {
    /// What the skill does, in a sentence or two; decisions read it.
    #[schemars(length(min = 1, max = 2000))]
    pub description: Option<String>,
    /// The Python file that does it, relative to the manifest; a folder is one that holds `skill.py`.
    #[schemars(length(min = 1, max = 4096))]
    pub body: Option<String>,
    /// A canned reply, in the place of a body.
    #[schemars(length(min = 1, max = 4096))]
    pub response: Option<String>,
    /// What the skill accepts, in words.
    #[schemars(length(max = 64), inner(length(min = 1, max = 2000)))]
    pub allowed_inputs: Option<Vec<String>>,
    /// What the skill does in particular, in words.
    #[schemars(length(max = 64), inner(length(min = 1, max = 2000)))]
    pub actions: Option<Vec<String>>,
    /// How much one run may cost, in runs of ordinary size.
    #[schemars(range(min = 0.001, max = 1_000.0))]
    pub cost_budget: Option<f64>,
    /// Where the decisions of its runs are told of.
    #[schemars(length(min = 1, max = 4096))]
    pub decision_log_ref: Option<String>,
    /// What the body is told as `ctx.config`, over what the category says.
    pub config: BTreeMap<String, ConfigValue>,
    /// The same for secrets, by key of `ctx.config`.
    pub secret: BTreeMap<String, SecretDocument>,
    /// How probable it must be that a run did what was asked, in the place of the decision's `tau`.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub tau: Option<f64>,
    /// How often a run that did not do what was asked is begun anew.
    #[schemars(range(min = 0, max = 100))]
    pub max_reentries: Option<u32>,
    /// Files and folders that the body may read, relative to the manifest; `{workspace}` is the being's workspace.
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096)))]
    pub read: Option<Vec<String>>,
    /// Folders that the body may write in.
    #[schemars(length(max = 256), inner(length(min = 1, max = 4096)))]
    pub write: Option<Vec<String>>,
    /// Whether the body may use the network.
    pub network: Option<bool>,
    /// How long a run may compute.
    pub cpu_time: Option<SpanText>,
    /// How long a run may take.
    pub wall_time: Option<SpanText>,
    /// How much memory a run may have; at least 16 MiB.
    pub memory: Option<SizeText>,
    /// The request that the skill was made for.
    #[schemars(length(max = 65_536))]
    pub request_text: Option<String>,
    /// What was asked when the skill was made, and what was answered.
    pub requirements: BTreeMap<String, String>,
}

/// Who a message to a being is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Route", inline)]
pub(crate) enum RouteName {
    Model,
    Tree,
}

/// Less memory than this lets no interpreter start.
const MIN_MEMORY: Size = Size::mib(16);

/// Resolves a category with its skills.
pub(crate) fn resolve(document: &CategoryDocument, cx: &mut Cx<'_>) -> Option<CategorySpec> {
    if document.description.as_ref().is_none_or(|text| text.trim().is_empty()) {
        cx.missing(&["description"], "write what it covers in a sentence; decisions read it");
    }
    if document.skill.is_empty() && !cx.was_there(&["skill"]) {
        let (message, name) = (format!("`{}` has no skill", cx.address), cx.address.name.clone());
        cx.fault(&[], message, Some(format!("declare one as [category.{name}.skill.name]")));
    }
    if document.skill.len() > CategorySpec::MAX_SKILLS {
        let (count, most) = (document.skill.len(), CategorySpec::MAX_SKILLS);
        let message = format!("`{}` has {count} skills, but a decision shows at most {most} options", cx.address);
        cx.fault(&["skill"], message, Some("part it into several categories, each with a description of its own".into()));
    }
    let mut skills = BTreeMap::new();
    for (leaf, own) in &document.skill {
        let Ok(name) = SkillName::try_from(leaf.as_str()) else { continue };
        skills.extend(skill(&Pair { leaf, own, category: document }, cx).map(|spec| (name, spec)));
    }
    Some(CategorySpec { description: document.description.clone()?, skills })
}

/// A skill, and the category that speaks where it is silent.
struct Pair<'a> {
    leaf: &'a str,
    own: &'a SkillDocument,
    category: &'a CategoryDocument,
}

impl<'a> Pair<'a> {
    /// Where a key stands: with the skill itself, or with its category.
    fn path<'p>(&self, is_own: bool, key: &[&'p str]) -> Vec<&'p str>
    where
        'a: 'p,
    {
        let within: &[&str] = if is_own { &["skill", self.leaf] } else { &[] };
        [within, key].concat()
    }
}

fn skill(pair: &Pair<'_>, cx: &mut Cx<'_>) -> Option<SkillSpec> {
    let Pair { leaf, own, category } = pair;
    if own.description.as_ref().is_none_or(|text| text.trim().is_empty()) && !cx.was_there(&["skill", leaf, "description"]) {
        let message = format!("skill {} has no `description`", quoted(leaf));
        cx.fault(&["skill", leaf], message, Some("write what it does in a sentence; decisions read it".into()));
    }
    let does = action(pair, cx);
    let memory = memory(pair, cx);
    let (cpu_time, wall_time) = (span(pair, "cpu_time", cx), span(pair, "wall_time", cx));
    let mut secrets = BTreeMap::new();
    for (is_own, table) in [(false, &category.secret), (true, &own.secret)] {
        for (key, secret) in table {
            secrets.extend(secret_of(pair, is_own, key, secret, cx).map(|source| (key.clone(), source)));
        }
    }
    let mut config = category.config.clone();
    config.extend(own.config.clone());
    for key in secrets.keys().filter(|key| config.contains_key(*key)) {
        let path = pair.path(own.secret.contains_key(key), &["secret", key]);
        cx.fault(&path, format!("{} stands in `config` and in `secret`", quoted(key)), Some("keep one of them".into()));
    }
    let ratio = |number: Option<f64>| number.and_then(|number| Ratio::try_from(number).ok());
    Some(SkillSpec {
        description: own.description.clone()?,
        does: does?,
        allowed_inputs: own.allowed_inputs.clone().unwrap_or_default(),
        actions: own.actions.clone().unwrap_or_default(),
        cost_budget: ratio(own.cost_budget.or(category.cost_budget)).unwrap_or(Ratio::ONE),
        decision_log_ref: own.decision_log_ref.clone(),
        config: config.into_iter().map(|(key, value)| (key, value.0)).collect(),
        secrets,
        tau: ratio(own.tau.or(category.tau)),
        max_reentries: own.max_reentries.or(category.max_reentries).unwrap_or_default(),
        read: folders(pair, "read", &own.read, &category.read, cx),
        write: folders(pair, "write", &own.write, &category.write, cx),
        network: own.network.or(category.network).unwrap_or(false),
        cpu_time: cpu_time?,
        wall_time: wall_time?,
        memory: memory?,
        request_text: own.request_text.clone(),
        requirements: own.requirements.clone(),
    })
}

fn action(pair: &Pair<'_>, cx: &mut Cx<'_>) -> Option<SkillAction> {
    let Pair { leaf, own, .. } = pair;
    let is_reply = cx.address.name.as_str() == CategorySpec::REPLIES;
    match (&own.body, &own.response) {
        (Some(_), Some(_)) => {
            let message = format!("skill {} has both `body` and `response`; keep one of them", quoted(leaf));
            cx.fault(&["skill", leaf, "response"], message, None);
            None
        }
        (_, None) if is_reply && !cx.was_there(&["skill", leaf, "response"]) => {
            let message =
                format!("skill {} has no `response`; category `{}` holds canned replies", quoted(leaf), CategorySpec::REPLIES);
            let hint = "write response = the reply, or put the skill into another category";
            cx.fault(&["skill", leaf], message, Some(hint.into()));
            None
        }
        (None, None) => Some(SkillAction::Stub),
        (Some(body), None) => Some(SkillAction::Body(cx.path(&["skill", leaf, "body"], body))),
        (None, Some(response)) => Some(SkillAction::Response(response.clone())),
    }
}

fn secret_of(pair: &Pair<'_>, is_own: bool, key: &str, secret: &SecretDocument, cx: &mut Cx<'_>) -> Option<SecretSource> {
    cx.secret_at(&pair.path(is_own, &["secret", key]), Some(secret))
}

fn span(pair: &Pair<'_>, key: &str, cx: &mut Cx<'_>) -> Option<Span> {
    let (own, category) = match key {
        "cpu_time" => (&pair.own.cpu_time, &pair.category.cpu_time),
        _ => (&pair.own.wall_time, &pair.category.wall_time),
    };
    let text = own.as_ref().or(category.as_ref()).map(|text| text.0.as_str());
    cx.span(&pair.path(own.is_some(), &[key]), text)
}

fn memory(pair: &Pair<'_>, cx: &mut Cx<'_>) -> Option<Size> {
    let said = pair.own.memory.as_ref().or(pair.category.memory.as_ref())?;
    let memory = said.0.parse::<Size>().ok()?;
    if memory < MIN_MEMORY {
        let path = pair.path(pair.own.memory.is_some(), &["memory"]);
        let message = format!("`memory` is less than {MIN_MEMORY}, with which no interpreter starts");
        cx.fault(&path, message, Some("write \"256MiB\"".into()));
    }
    Some(memory)
}

fn folders(pair: &Pair<'_>, key: &str, own: &Option<Vec<String>>, category: &Option<Vec<String>>, cx: &mut Cx<'_>) -> Vec<String> {
    let mut paths = Vec::new();
    for (at, text) in own.as_ref().or(category.as_ref()).into_iter().flatten().enumerate() {
        let position = at.to_string();
        let path = pair.path(own.is_some(), &[key, &position]);
        if !text.contains(WORKSPACE) {
            paths.push(cx.path(&path, text).to_string_lossy().into_owned());
            continue;
        }
        if !text.starts_with(WORKSPACE) {
            let message = "`{workspace}` is a whole path; it can only lead one";
            cx.fault(&path, message, Some("write \"{workspace}/folder\"".into()));
        }
        paths.push(text.clone());
    }
    paths
}
