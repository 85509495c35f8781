use crate::vocab::Name;

/// One model to try: a declared one, and the name that it is asked under if that is not its own.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Route<'a> {
    pub(super) model: &'a Name,
    pub(super) served: Option<&'a str>,
}

/// What a name means to a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Answers under its own name only.
    Plain,
    /// Answers selectors and every name that it lists.
    Brama,
}

/// Orders the models of a chain for a being that thinks with `wanted`.
///
/// A declared name comes first, and then the rest of the chain. Anything else is a selector or a listed name: each Brama of the
/// chain is asked for it, and then come the others.
pub(super) fn routes<'a>(chain: &'a [Name], wanted: &'a str, find: impl Fn(&str) -> Option<(&'a Name, Kind)>) -> Vec<Route<'a>> {
    let plain = |model| Route { model, served: None };
    if let Some((wanted, _)) = find(wanted) {
        let rest = chain.iter().filter(|model| *model != wanted);
        return std::iter::once(wanted).chain(rest).map(plain).collect();
    }
    let is_brama = |model: &Name| find(model.as_str()).is_some_and(|(_, kind)| kind == Kind::Brama);
    let (brama, others): (Vec<&Name>, Vec<&Name>) = chain.iter().partition(|model| is_brama(model));
    let asked = brama.into_iter().map(|model| Route { model, served: Some(wanted) });
    asked.chain(others.into_iter().map(plain)).collect()
}

/// Tells whether a name selects among the models of a gateway (SPEC §6).
pub(super) fn is_selector(model: &str) -> bool {
    matches!(model, "any" | "any-vision-capable" | "best") || model.strip_prefix("task:").is_some_and(|task| !task.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(chain: &[&str], wanted: &str) -> Vec<String> {
        let names: Vec<Name> = chain.iter().map(|name| Name::try_from(*name).unwrap()).collect();
        let declared: Vec<Name> = ["gpt", "smol", "gate", "gate2"].map(|name| Name::try_from(name).unwrap()).to_vec();
        let find = |name: &str| {
            let kind = if name.starts_with("gate") { Kind::Brama } else { Kind::Plain };
            declared.iter().find(|declared| declared.as_str() == name).map(|name| (name, kind))
        };
        let routes = routes(&names, wanted, find);
        routes
            .iter()
            .map(|route| format!("{}{}", route.model, route.served.map(|name| format!(" as {name}")).unwrap_or_default()))
            .collect()
    }

    #[test]
    fn a_declared_model_comes_first_and_then_the_rest_of_the_chain() {
        assert_eq!(order(&["gpt", "smol"], "smol"), ["smol", "gpt"]);
        assert_eq!(order(&["gpt", "smol"], "gate"), ["gate", "gpt", "smol"]);
    }

    #[test]
    fn a_selector_is_asked_of_the_gateways_and_the_others_stay_behind_them() {
        assert_eq!(
            order(&["gpt", "gate", "smol", "gate2"], "task:poem"),
            ["gate as task:poem", "gate2 as task:poem", "gpt", "smol"]
        );
        assert_eq!(order(&["gpt", "smol"], "any"), ["gpt", "smol"]);
    }

    #[test]
    fn selectors_are_those_of_the_spec() {
        for selector in ["any", "any-vision-capable", "best", "task:x"] {
            assert!(is_selector(selector), "{selector}");
        }
        for other in ["", "task:", "anything", "Best"] {
            assert!(!is_selector(other), "{other}");
        }
    }
}
