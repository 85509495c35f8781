//! The page of all fields: what each is, and what a change of it does.

use std::fmt::Write as _;

use super::{Effect, field::declared_effects};
use crate::{manifest::explain, vocab::Kind};

/// A field of a manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldRow {
    pub kind: Kind,
    /// Dotted, within the object.
    pub path: String,
    /// What may stand there, in words.
    pub form: String,
    /// What a change of it does; `None` where that was not declared.
    pub effect: Option<Effect>,
    pub about: String,
}

/// Every field of every kind. One is split where what a change does is declared for its parts.
pub fn field_rows() -> Vec<FieldRow> {
    Kind::ALL.into_iter().flat_map(|kind| rows_below(kind, "")).collect()
}

fn rows_below(kind: Kind, path: &str) -> Vec<FieldRow> {
    let effects = declared_effects(kind);
    let full = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    let children = explain(format!("{kind}.{path}").trim_end_matches('.')).map(|told| told.children).unwrap_or_default();
    let mut rows = Vec::new();
    for (key, form, about) in children {
        let path = full(&key);
        let is_split = effects.iter().any(|(other, _)| other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('.')));
        if is_split {
            rows.extend(rows_below(kind, &path));
            continue;
        }
        let effect = effects.iter().find(|(other, _)| *other == path).map(|(_, effect)| *effect);
        rows.push(FieldRow { kind, path, form, effect, about });
    }
    rows
}

const HEAD: &str = "\
# Fields

What each field of a manifest is, and what a change of it does to what runs. `singularity explain --all` prints this page, `singularity explain being.cycle` more of one field, and `singularity plan` what a change of
yours does.

| a change | means |
|---|---|
| in place | it takes effect between two rounds, and nothing stops |
| its surfaces are started anew | the being goes on, and its tools come from new processes and connections |
| restarts | the being is stopped once its call has ended, and goes on from its state |
| refused | it would break a promise; the being is `Stalled` with the reason, and goes on as it was |
| changes no living being | it counts for those that are born later |
";

/// The page of all fields, as Markdown.
pub fn fields_page() -> String {
    let rows = field_rows();
    let mut page = HEAD.to_owned();
    for kind in Kind::ALL {
        let _infallible = write!(page, "\n## {kind}\n\n| field | is | a change | about |\n|---|---|---|---|\n");
        for FieldRow { path, form, effect, about, .. } in rows.iter().filter(|row| row.kind == kind) {
            let effect = effect.map(|effect| effect.to_string()).unwrap_or_default();
            let plain = |text: &str| text.replace('|', "\\|").replace('\n', " ");
            let _infallible = writeln!(page, "| `{path}` | {} | {effect} | {} |", plain(form), plain(about));
        }
    }
    page
}
