//! Children as beings of the fleet: what each may is what its parent's manifest says now, and never more.

use std::{collections::BTreeMap, sync::Arc};

use uuid::Uuid;

use crate::{
    being::{Child, ChildStatus, DeclaredIdentity},
    manifest::{BeingSpec, BudgetSpec, CapabilitySpec, ChildrenSpec, Fleet, PromptPolicy},
    vocab::Name,
};

/// What became of a being's children that it may not know yet.
pub type Fates = BTreeMap<Uuid, ChildStatus>;

/// Adds to a fleet the children of its beings, and theirs. `children_of` is asked once for each being, a parent before its children.
pub fn with_children(mut fleet: Fleet, mut children_of: impl FnMut(&Name) -> Arc<[Child]>) -> Fleet {
    let mut open: Vec<Name> = fleet.beings.keys().cloned().collect();
    while let Some(parent) = open.pop() {
        for child in children_of(&parent).iter() {
            let (Ok(name), Some(spec)) = (parent.child(&child.called), fleet.beings.get(&parent)) else { continue };
            let spec = spec_of(child, spec);
            fleet.beings.insert(name.clone(), spec);
            open.push(name);
        }
    }
    fleet
}

/// What a child is declared to be: its own name, money and task, and all else as its parent has it. Grants are the parent's alone, a
/// generation less may follow, and a prompt is taken over only where the operator enforces it.
fn spec_of(child: &Child, parent: &BeingSpec) -> BeingSpec {
    let is_enforced = parent.prompt_policy == PromptPolicy::Enforce;
    let children = parent.capabilities.children.filter(|children| children.depth > 1);
    BeingSpec {
        specialty: child.specialty.clone(),
        prompt: parent.prompt.clone().filter(|_| is_enforced),
        stimulus: None,
        grants: BTreeMap::new(),
        budget: BudgetSpec { starting: child.usd, ..parent.budget.clone() },
        capabilities: CapabilitySpec {
            children: children.map(|children| ChildrenSpec { depth: children.depth - 1, ..children }),
            ..parent.capabilities
        },
        identity: DeclaredIdentity {
            agent_id: Some(child.id.to_string()),
            name: Some(child.name.clone()),
            ticker: Some(child.ticker.clone()),
            specialty: Some(child.specialty.clone()),
            ..parent.identity.clone()
        },
        ..parent.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        being::testing,
        manifest::{Overrides, Sources, read},
    };

    fn fleet(capabilities: &str) -> Fleet {
        let text = format!(
            r#"
[model.smol]
provider = "embedded"
[surface.files]
command = ["files"]
[being.ada]
model = "smol"
prompt = "Be Ada."
stimulus = "rain"
budget = {{ starting = "10", per_day = "2" }}
grant = [{{ id = "g", usd = "25" }}]
approve = ["files__*"]
identity = {{ agent_id = "ada-1", role = "worker" }}
labels = {{ team = "x" }}
capabilities = {capabilities}
"#
        );
        let mut sources = Sources::default();
        sources.add_text("ada.toml".as_ref(), "/".as_ref(), &text);
        read(&sources, &Overrides::default()).unwrap().fleet
    }

    /// Ada with a child, who has one too.
    fn family(capabilities: &str) -> Fleet {
        let children = |name: &Name| match name.depth() {
            0 | 1 => [testing::child(1)].into(),
            _ => Arc::default(),
        };
        with_children(fleet(capabilities), children)
    }

    #[test]
    fn a_child_may_what_its_parent_may_and_gets_none_of_its_money_but_what_it_was_given() {
        let fleet = family(r#"{ files = false, children = { max = 2, budget = "1", depth = 2 } }"#);
        let of = |name: &str| fleet.beings[&Name::try_from(name).unwrap()].clone();
        let (ada, child, grandchild) = (of("ada"), of("ada.child-1"), of("ada.child-1.child-1"));
        assert_eq!((child.budget.starting, child.budget.per_day), (testing::usd("1"), ada.budget.per_day));
        assert_eq!((child.grants.len(), child.stimulus, child.prompt), (0, None, None));
        assert_eq!((&child.las, &child.approve, &child.labels, &child.models), (&ada.las, &ada.approve, &ada.labels, &ada.models));
        assert_eq!(
            (child.identity.agent_id, child.identity.role),
            (Some(Uuid::from_u128(1).to_string()), ada.identity.role.clone())
        );
        assert!(!child.capabilities.files);
        let depth = |spec: &BeingSpec| spec.capabilities.children.map(|children| children.depth);
        assert_eq!((depth(&ada), child.capabilities.children.map(|c| c.depth), depth(&grandchild)), (Some(2), Some(1), None));
    }

    #[test]
    fn what_a_parent_loses_its_children_lose() {
        let fleet = family("{ memory = false, children = false }");
        for spec in fleet.beings.values() {
            assert_eq!((spec.capabilities.memory, spec.capabilities.children), (false, None));
        }
        assert_eq!(fleet.beings.len(), 3, "they live on all the same, until an operator deletes them");
    }
}
