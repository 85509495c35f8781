use std::{collections::BTreeMap, sync::Arc};

use globset::{Glob, GlobSetBuilder};
use serde::{Deserialize, Serialize};

use crate::{
    being::{
        AgentState, Approval, Birth, Cadence, ChildTerms, Counter, DeclaredIdentity, Input, Limits, Mind, MindChange, Offer, Price,
        Retry, Rules, ToolDefinition, default_prompt,
    },
    manifest::{
        BeingSpec, Boundary, CapSpec, CapabilitySpec, ChildrenSpec, Fleet, PromptPolicy, ProviderSpec, SurfaceSpec, ToolTerms,
    },
    runtime::{Fates, Until, ground::Ground},
    vocab::{Hold, Name, Usd},
};

/// Everything that a fleet says about one being: its spec, the surfaces that it selected, what its models can take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    pub name: Name,
    pub being: Arc<BeingSpec>,
    pub surfaces: BTreeMap<Name, SurfaceSpec>,
    /// The least context of the being's models, in tokens.
    pub context_tokens: u32,
    /// The longest answer of the being's models, in tokens.
    pub max_tokens: u32,
    /// What each declared model may take: its price, and its longest answer in tokens. A being may switch to any of them.
    pub offers: BTreeMap<Name, (Price, u32)>,
    /// What holds the being together with others.
    pub caps: BTreeMap<Name, CapSpec>,
    /// Whether one of its models is the embedded one that has to be fetched.
    pub needs_weights: bool,
    /// An operator's pause, beside what the manifest declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Hold>,
    /// What operators gave it beside what the manifest grants, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub funded: BTreeMap<String, Usd>,
    /// What became of its children that it may not know yet.
    #[serde(default, skip_serializing_if = "Fates::is_empty")]
    pub fates: Fates,
}

/// How often a model is asked in one round where somebody waits for the one cycle.
const ATTEMPTS_OF_ONE_CYCLE: u32 = 5;
/// Tokens of context where no model says how many.
const DEFAULT_CONTEXT: u32 = 8_192;
/// Tokens of an answer where no model says how many.
const DEFAULT_ANSWER: u32 = 1_024;

impl Assignment {
    /// What `fleet` says about the being `name`, if it declares it.
    pub fn of(fleet: &Fleet, name: &Name) -> Option<Self> {
        let being = Arc::new(fleet.beings.get(name)?.clone());
        let models = || being.models.iter().filter_map(|model| fleet.models.get(model));
        let context_tokens = models().map(|model| model.context_tokens).min().unwrap_or(DEFAULT_CONTEXT);
        let max_tokens = models().map(|model| model.max_tokens).max().unwrap_or(DEFAULT_ANSWER);
        let needs_weights = models().any(|model| matches!(model.provider, ProviderSpec::Embedded { path: None }));
        let selected = being.las.surfaces.iter();
        let surfaces = selected.filter_map(|surface| Some((surface.clone(), fleet.surfaces.get(surface)?.clone()))).collect();
        let held = fleet.caps.iter().filter(|(_, cap)| cap.selects(&being.labels));
        let caps = held.map(|(name, cap)| (name.clone(), cap.clone())).collect();
        let offers = fleet.models.iter().map(|(name, model)| (name.clone(), (model.price, model.max_tokens))).collect();
        Some(Self {
            name: name.clone(),
            being,
            surfaces,
            context_tokens,
            max_tokens,
            offers,
            caps,
            needs_weights,
            paused: None,
            funded: BTreeMap::new(),
            fates: Fates::new(),
        })
    }

    /// Tells whether the being is to ask no model, whoever says so.
    pub fn is_paused(&self) -> bool {
        self.being.paused || self.paused.is_some()
    }

    /// The same without children, for a process that would animate none.
    #[must_use]
    pub fn alone(mut self) -> Self {
        Arc::make_mut(&mut self.being).capabilities.children = None;
        self
    }

    /// The identity that the operator declared; the specialty is a part of it.
    pub fn declared(&self) -> DeclaredIdentity {
        let specialty = self.being.identity.specialty.clone().or_else(|| Some(self.being.specialty.clone()));
        DeclaredIdentity { specialty, ..self.being.identity.clone() }
    }

    /// What the being is born with, where it does not exist yet.
    pub fn birth(&self, ground: &Ground) -> Birth {
        let identity = self.declared().pin(ground.pinned(self));
        let mind = Mind::new(self.prompt(), self.first_model());
        Birth { identity, mind, starting: self.being.budget.starting }
    }

    /// When the being's cycles begin.
    pub fn cadence(&self) -> Cadence {
        self.being.cycle.cadence(&self.name)
    }

    /// The rules of the being's cycles with the catalogue `tools`.
    pub fn rules(&self, tools: Arc<[ToolDefinition]>, until: Until) -> Rules {
        let max_attempts = (until == Until::OneCycle).then_some(ATTEMPTS_OF_ONE_CYCLE);
        Rules {
            max_tool_rounds: self.being.cycle.max_tool_rounds,
            instance_usd_per_hour: self.being.budget.instance_usd_per_hour,
            stimulus: self.being.stimulus.clone(),
            tools,
            context_tokens: self.context_tokens,
            counter: Counter::estimate(),
            max_tokens: self.max_tokens,
            retry: Retry { max_attempts, ..Retry::default() },
            approval: self.approval(),
            limits: self.limits(),
            children: self.being.capabilities.children.map(|ChildrenSpec { max, budget, .. }| ChildTerms { max, budget }),
            offers: self.offers.iter().map(|(name, (price, max_tokens))| self.offer(name, *price, *max_tokens)).collect(),
        }
    }

    /// The patterns were checked when the manifest was read; what cannot be read now matches nothing.
    fn approval(&self) -> Approval {
        let mut tools = GlobSetBuilder::new();
        for glob in self.being.approve.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
            tools.add(glob);
        }
        Approval { tools: tools.build().unwrap_or_default(), within: self.being.approve_within }
    }

    fn limits(&self) -> Limits {
        let budget = &self.being.budget;
        let (per_day, per_cycle, reserve) = (budget.per_day, budget.per_cycle, budget.reserve);
        Limits { per_day, per_cycle, reserve, deadline: self.being.cycle.deadline, warn_below: budget.warn_below.clone() }
    }

    fn offer(&self, name: &Name, price: Price, max_tokens: u32) -> Offer {
        Offer { model: name.to_string(), price, max_tokens, is_of_chain: self.being.models.contains(name) }
    }

    /// Tells whether the being needs another Las, catalogue or download than under `other`.
    pub fn needs_other_tools(&self, other: &Self) -> bool {
        // How many children there may be, the rules say; the tool is the same.
        let capabilities = |of: CapabilitySpec| (of.memory, of.files, of.children.is_some());
        let parts = |of: &Self| (capabilities(of.being.capabilities), of.needs_weights, of.being.most.clone(), of.servers());
        parts(self) != parts(other) || self.being.las != other.being.las
    }

    /// The surfaces as processes and connections know them: which tools of them are offered, and what their words are worth, needs no
    /// other server.
    fn servers(&self) -> BTreeMap<Name, SurfaceSpec> {
        let server = |spec: &SurfaceSpec| SurfaceSpec {
            terms: ToolTerms::default(),
            trusted_revenue: false,
            boundary: Boundary::default(),
            ..spec.clone()
        };
        self.surfaces.iter().map(|(name, spec)| (name.clone(), server(spec))).collect()
    }

    /// What a living being has to be told: grants that it lacks, and edits of what an operator holds.
    pub fn edits(&self, before: Option<&Self>, state: &AgentState) -> Vec<Input> {
        let granted = &state.budget.granted;
        let owed = self.being.grants.iter().chain(&self.funded).filter(|(id, _)| !granted.contains_key(*id));
        let mut inputs: Vec<Input> = owed.map(|(id, usd)| Input::Granted { id: id.clone(), usd: *usd }).collect();
        let changed = self
            .fates
            .iter()
            .filter(|(id, status)| state.mind.children.iter().any(|child| child.id == **id && child.status < **status));
        inputs.extend(changed.map(|(id, status)| Input::ChildChanged { id: *id, status: *status }));
        if self.being.labels != state.labels {
            inputs.push(Input::Labelled(self.being.labels.clone()));
        }
        if self.being.prompt_policy == PromptPolicy::Enforce && state.mind.system_prompt != self.prompt() {
            inputs.push(Input::Edited(MindChange::SetPrompt { prompt: self.prompt() }));
        }
        let follows = before.is_some_and(|before| before.first_model() == state.mind.current_model);
        if follows && state.mind.current_model != self.first_model() {
            inputs.push(Input::Edited(MindChange::SwitchModel { model: self.first_model() }));
        }
        inputs
    }

    fn prompt(&self) -> String {
        let name = self.being.identity.name.as_deref().unwrap_or(self.name.as_str());
        self.being.prompt.clone().unwrap_or_else(|| default_prompt(name, &self.being.specialty))
    }

    fn first_model(&self) -> String {
        self.being.models.first().map(ToString::to_string).unwrap_or_default()
    }
}
