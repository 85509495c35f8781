//! `cycle`: when a being wakes, and how long a turn may be.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{CycleSpec, Missed, check::Cx, scalar::SpanText};
use crate::vocab::Span;

/// When a being wakes, and how long a turn may be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Cycle")]
pub(crate) struct CycleDocument {
    /// How far apart cycles are. From `10s` on they begin at multiples of it since 1970, in UTC, so that `2h` is the even hours; a shorter one is
    /// a pause between two cycles.
    pub every: Option<SpanText>,
    /// What becomes of cycles whose time passed while the being could not begin them: `once` makes up for all of them by one, `skip` by none.
    pub missed: Option<MissedName>,
    /// Over how long beings with one schedule are spread, each at a place of its own; a tenth of `every` and at most `1m` unless said otherwise.
    pub spread: Option<SpanText>,
    /// How often a cycle may ask the model before it ends.
    #[schemars(range(min = 1, max = 10_000))]
    pub max_tool_rounds: Option<u32>,
    /// The being rests for good after this many cycles of its life.
    #[schemars(range(min = 1))]
    pub limit: Option<u64>,
}

/// What becomes of cycles that were missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "Missed", inline)]
pub(crate) enum MissedName {
    Once,
    Skip,
}

/// Resolves what a being says of its cycles.
pub(super) fn resolve(document: &CycleDocument, cx: &mut Cx<'_>) -> Option<CycleSpec> {
    let span = |text: &Option<SpanText>| text.as_ref().and_then(|span| span.0.parse::<Span>().ok());
    let every = span(&document.every).unwrap_or_default();
    if document.max_tool_rounds == Some(0) {
        cx.fault(&["cycle", "max_tool_rounds"], "max tool rounds must be positive", None);
    }
    let missed = match document.missed {
        Some(MissedName::Skip) => Missed::Skip,
        _ => Missed::Once,
    };
    let spec = CycleSpec {
        every,
        missed,
        spread: span(&document.spread),
        max_tool_rounds: document.max_tool_rounds.unwrap_or(1),
        limit: document.limit,
    };
    needs_slots(document, &spec, cx);
    Some(spec)
}

/// Says where something is asked of a schedule that has no slots, or too close ones.
fn needs_slots(document: &CycleDocument, spec: &CycleSpec, cx: &mut Cx<'_>) {
    let every = spec.every;
    if !spec.is_anchored() {
        for (key, is_there) in [("missed", spec.missed == Missed::Skip), ("spread", document.spread.is_some())] {
            if is_there && cx.is_own(&["cycle", key]) {
                let message = format!("`cycle.{key}` is of no use with `every = \"{every}\"`, which is a pause between two cycles");
                cx.fault(&["cycle", key], message, Some("write every = \"10s\" or longer, or take it out".into()));
            }
        }
    } else if let Some(spread) = spec.spread.filter(|spread| spread.saturating_mul(2) > every) {
        let message = format!("`cycle.spread` of {spread} is more than half of `every`, which is {every}");
        cx.fault(&["cycle", "spread"], message, Some("write less, or take it out; a tenth of `every` is then used".into()));
    }
}
