use crate::{
    decision::{Branch, Engine, Guards, Leaf, Likeness, Nearness, Readout, Terms, Tree},
    manifest::{CategorySpec, DecisionSpec, EngineSpec, Fleet, SkillSpec},
    model::Models,
    vocab::{Name, Ratio, SkillName},
};

/// The engine that a decision declares. Where its model cannot be had its decisions fail; no other stands in.
pub fn engine(models: &Models, spec: &DecisionSpec) -> Engine {
    match &spec.engine {
        EngineSpec::Readout { model } => {
            let terms = Terms {
                temperature: spec.temperature.unwrap_or(Ratio::ONE).as_f64(),
                rotations: spec.rotations.into(),
                min_mass: spec.min_mass.as_f64(),
            };
            Engine::Readout(Readout::new(models.clone(), model.clone(), terms))
        }
        EngineSpec::Embedding => {
            let Nearness { temperature, .. } = Nearness::default();
            let temperature = spec.temperature.map_or(temperature, Ratio::as_f64);
            Engine::Embedding(Likeness::new(models.clone(), Nearness { temperature, min_mass: spec.min_mass.as_f64() }))
        }
    }
}

/// From which probability on the guards of a walk let it on.
pub fn guards(spec: &DecisionSpec) -> Guards {
    Guards { category: spec.category_tau.as_f64(), intent: spec.intent_tau.as_f64() }
}

/// The tree of some categories of a fleet, as a walk sees it; the canned replies are beside the branches.
pub fn tree(fleet: &Fleet, categories: &[Name]) -> Tree {
    let leaf = |(name, skill): (&SkillName, &SkillSpec)| Leaf { name: name.to_string(), description: skill.description.clone() };
    let mut tree = Tree::default();
    for (name, spec) in categories.iter().filter_map(|name| Some((name, fleet.categories.get(name)?))) {
        let leaves = spec.skills.iter().map(leaf).collect();
        if name.as_str() == CategorySpec::REPLIES {
            tree.replies = leaves;
        } else {
            tree.branches.push(Branch { name: name.to_string(), description: spec.description.clone(), leaves });
        }
    }
    tree
}
