//! Which branches of the tree a being may walk, and how it decides there.

use super::{CategorySpec, Route, category::RouteName, check::Cx, document::BeingDocument, problem::quoted};
use crate::vocab::{Kind, Name};

/// What a being says of the tree.
pub(super) struct Branches {
    pub categories: Vec<Name>,
    pub decision: Option<Name>,
    pub route: Route,
}

/// Resolves what a being says of the tree.
pub(super) fn resolve(document: &BeingDocument, cx: &mut Cx<'_>) -> Branches {
    let categories = categories(document, cx);
    let route = match document.route {
        Some(RouteName::Tree) => Route::Tree,
        _ => Route::Model,
    };
    let says_none = document.categories.as_ref().is_none_or(Vec::is_empty) && !cx.was_there(&["categories"]);
    if route == Route::Tree && says_none {
        let hint = "write categories = the names of declared categories, or route = \"model\"";
        cx.fault(&["route"], "`route` leads into a tree without categories", Some(hint.into()));
    }
    let decision = document.decision.as_ref().and_then(|text| {
        let name = Name::try_from(text.0.as_str()).ok()?;
        if !cx.declared.decisions.contains(&name) {
            cx.dangling(&["decision"], &text.0, Kind::Decision, &cx.declared.decisions);
            return None;
        }
        Some(name)
    });
    Branches { categories, decision, route }
}

fn categories(document: &BeingDocument, cx: &mut Cx<'_>) -> Vec<Name> {
    let mut names: Vec<Name> = Vec::new();
    for (at, text) in document.categories.iter().flatten().enumerate() {
        let position = at.to_string();
        let path: &[&str] = &["categories", &position];
        let Ok(name) = Name::try_from(text.0.as_str()) else { continue };
        if !cx.declared.categories.contains(&name) {
            cx.dangling(path, &text.0, Kind::Category, &cx.declared.categories);
        } else if names.contains(&name) {
            cx.fault(path, format!("category {} is named twice", quoted(&text.0)), Some("keep the first".into()));
        } else {
            names.push(name);
        }
    }
    let siblings = names.iter().filter(|name| name.as_str() != CategorySpec::REPLIES).count();
    if siblings > CategorySpec::MAX_SIBLINGS {
        let message = format!(
            "`categories` names {siblings}, but a decision shows at most {} of them beside `none`",
            CategorySpec::MAX_SIBLINGS
        );
        cx.fault(&["categories"], message, Some("put related skills into one category, up to 16 of them".into()));
    }
    names
}
