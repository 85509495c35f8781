//! What a change of a field does is declared for every field, and the page about it is not stale.

#[cfg(test)]
mod support;

use std::{collections::BTreeSet, fs, path::Path};

use singularity::{
    manifest::manifest_schema,
    plan::{Effect, effect_of, field_rows},
    vocab::Kind,
};
use support::Home;

#[test]
fn every_field_of_the_schema_says_what_a_change_of_it_does() {
    let rows = field_rows();
    let unsaid: Vec<String> =
        rows.iter().filter(|row| row.effect.is_none()).map(|row| format!("{}.{}", row.kind, row.path)).collect();
    assert!(unsaid.is_empty(), "no row in src/plan/field.rs says what a change of these does: {unsaid:?}");
    for kind in Kind::ALL {
        let name = kind.as_str().get(..1).unwrap().to_uppercase() + kind.as_str().get(1..).unwrap();
        let keys = manifest_schema().pointer(&format!("/$defs/{name}Document/properties")).expect("a kind has fields");
        let keys: BTreeSet<&str> = keys.as_object().unwrap().keys().map(String::as_str).collect();
        let told: BTreeSet<&str> =
            rows.iter().filter(|row| row.kind == kind).filter_map(|row| row.path.split('.').next()).collect();
        assert_eq!(told, keys, "fields of {kind}");
    }
    assert_eq!(effect_of(Kind::Being, "models"), Effect::Hot);
    assert_eq!(effect_of(Kind::Being, "budget.starting"), Effect::Refuse);
    assert_eq!(effect_of(Kind::Surface, "transport.command"), Effect::Reload);
}

#[test]
fn the_page_of_fields_is_not_stale() {
    let committed = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fields.md")).unwrap_or_default();
    let printed = Home::new().run(&["explain", "--all"]).ok().stdout;
    assert_eq!(committed, printed, "run `singularity explain --all > docs/fields.md`");
}
