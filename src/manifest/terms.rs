//! Which of a surface's tools beings get, and by what names.

use std::collections::BTreeMap;

use super::{ToolTerms, check::Cx, document::SurfaceDocument, problem::quoted, scalar::Glob};

/// Resolves `rename`, `allow`, `deny` and `pin` of a surface.
pub(super) fn terms(document: &SurfaceDocument, cx: &mut Cx<'_>) -> ToolTerms {
    let mut taken: BTreeMap<&str, &str> = BTreeMap::new();
    for (theirs, ours) in &document.rename {
        if let Some(other) = taken.insert(&ours.0, theirs) {
            let message = format!("{} and {} are both renamed to {}", quoted(other), quoted(theirs), quoted(&ours.0));
            cx.fault(&["rename", theirs], message, Some("give each a name of its own".into()));
        }
    }
    let globs = |globs: &[Glob]| globs.iter().map(|glob| glob.0.clone()).collect();
    ToolTerms {
        rename: document.rename.iter().map(|(theirs, ours)| (theirs.clone(), ours.0.clone())).collect(),
        allow: document.allow.as_deref().map(globs),
        deny: document.deny.as_deref().map(globs).unwrap_or_default(),
        pin: document.pin.unwrap_or(false),
    }
}
