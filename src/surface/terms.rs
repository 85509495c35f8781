use std::collections::BTreeMap;

use globset::{Glob, GlobSet, GlobSetBuilder};

use crate::manifest::ToolTerms;

/// Which of a surface's tools are offered, and by what names: what its manifest says, ready to be asked. Without terms: all, by their own.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    allow: Option<GlobSet>,
    deny: GlobSet,
    rename: BTreeMap<String, String>,
}

impl Terms {
    /// Prepares what a manifest says.
    pub fn new(declared: &ToolTerms) -> Self {
        Self { allow: declared.allow.as_deref().map(globs), deny: globs(&declared.deny), rename: declared.rename.clone() }
    }

    /// What the server's tool is called here; `None` when it is not offered.
    pub fn ours<'a>(&'a self, theirs: &'a str) -> Option<&'a str> {
        self.admits(theirs).then(|| self.rename.get(theirs).map_or(theirs, String::as_str))
    }

    /// What the server calls the tool that is called so here; `None` when it is not offered.
    pub fn theirs<'a>(&'a self, ours: &'a str) -> Option<&'a str> {
        let renamed = self.rename.iter().find(|(_, new)| *new == ours).map(|(old, _)| old.as_str());
        let theirs = renamed.or_else(|| (!self.rename.contains_key(ours)).then_some(ours))?;
        self.admits(theirs).then_some(theirs)
    }

    fn admits(&self, theirs: &str) -> bool {
        self.allow.as_ref().is_none_or(|allow| allow.is_match(theirs)) && !self.deny.is_match(theirs)
    }
}

/// The patterns were checked when the manifest was read; what cannot be read now matches nothing.
fn globs(patterns: &[String]) -> GlobSet {
    let mut set = GlobSetBuilder::new();
    for glob in patterns.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
        set.add(glob);
    }
    set.build().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_cannot_be_called_by_any_name() {
        let rename = BTreeMap::from([("old".to_owned(), "new".to_owned()), ("gone".to_owned(), "still".to_owned())]);
        let declared = ToolTerms { rename, allow: Some(vec!["*o*".to_owned()]), deny: vec!["go*".to_owned()], pin: false };
        let terms = Terms::new(&declared);
        assert_eq!((terms.ours("old"), terms.theirs("new"), terms.theirs("old")), (Some("new"), Some("old"), None));
        assert_eq!((terms.ours("gone"), terms.theirs("still"), terms.theirs("gone")), (None, None, None));
        assert_eq!((terms.ours("other"), terms.theirs("other")), (Some("other"), Some("other")));
        assert_eq!((terms.ours("x"), terms.theirs("x")), (None, None));
    }

    #[test]
    fn without_terms_every_tool_keeps_its_name() {
        assert_eq!((Terms::default().ours("a.b"), Terms::default().theirs("a.b")), (Some("a.b"), Some("a.b")));
    }
}
