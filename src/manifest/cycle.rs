//! `cycle`: when a being wakes, and how long a turn may be.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{CycleSpec, Missed, check::Cx, problem::did_you_mean, scalar::SpanText};
use crate::vocab::{Cron, Hours, Span, Zone};

/// When a being wakes, and how long a turn may be.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Cycle")]
pub(crate) struct CycleDocument {
    /// How far apart cycles are: from `10s` on at multiples of it since 1970 in UTC, so that `2h` is the even hours; a shorter one is a pause.
    pub every: Option<SpanText>,
    /// When cycles begin, as minute, hour, day of month, month and day of week, in the place of `every`; the later layer of the two rules.
    #[schemars(length(min = 1, max = 256), example = "0 9 * * 1-5")]
    pub cron: Option<String>,
    /// The hours in which alone a cycle begins; `22:00-06:00` goes over midnight. What would begin outside of them is not missed.
    #[schemars(length(min = 1, max = 64), example = "07:00-23:00")]
    pub active: Option<String>,
    /// The time zone of `cron` and `active`; `UTC` unless said otherwise.
    #[schemars(length(min = 1, max = 64), example = "Europe/Berlin")]
    pub time_zone: Option<String>,
    /// What becomes of cycles whose time passed while the being could not begin them: `once` makes up for all of them by one, `skip` by none.
    pub missed: Option<MissedName>,
    /// Over how long beings with one schedule are spread, each at its own place; a tenth of `every`, at most `1m`, and `6s` for `cron`, unless said.
    pub spread: Option<SpanText>,
    /// How long a cycle may take: past it, it ends before its next call of a model or a tool. The wait for a person's approval does not count.
    pub deadline: Option<SpanText>,
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
    if document.max_tool_rounds == Some(0) {
        cx.fault(&["cycle", "max_tool_rounds"], "max tool rounds must be positive", None);
    }
    let span = |text: &Option<SpanText>| text.as_ref().and_then(|span| span.0.parse::<Span>().ok());
    let rules_by_cron = rules_by_cron(document, cx);
    let cron = document.cron.as_deref().filter(|_| rules_by_cron).map(|text| cron(text, cx));
    let time_zone = document.time_zone.as_deref().map_or_else(|| Some(Zone::default()), |text| zone(text, cx));
    let active = document.active.as_deref().map(|text| hours(text, cx));
    let deadline = cx.span(&["cycle", "deadline"], document.deadline.as_ref().map(|span| span.0.as_str()));
    let spec = CycleSpec {
        every: if rules_by_cron { Span::ZERO } else { span(&document.every).unwrap_or_default() },
        cron: cron.clone().flatten(),
        active: active.flatten(),
        time_zone: time_zone?,
        missed: if document.missed == Some(MissedName::Skip) { Missed::Skip } else { Missed::Once },
        spread: span(&document.spread),
        deadline,
        max_tool_rounds: document.max_tool_rounds.unwrap_or(1),
        limit: document.limit,
    };
    if cron == Some(None) || active == Some(None) {
        return None;
    }
    of_no_use(document, &spec, cx);
    too_wide(&spec, cx);
    if !spec.cadence(&cx.address.name).has_slots() {
        let message = "no cycle ever begins: no time of the schedule lies in `cycle.active`";
        let hint = "change `active`, or write cron = \"0 9 * * *\" for a time that lies in it";
        cx.fault(&["cycle", "active"], message, Some(hint.into()));
    }
    Some(spec)
}

/// Tells whether `cron` says when cycles begin: it is said later than `every`. Both in one place are a fault.
fn rules_by_cron(document: &CycleDocument, cx: &mut Cx<'_>) -> bool {
    let layer = |key: &str| cx.merged.part_of(&["cycle", key]).map(|part| part.layer);
    match (&document.every, &document.cron) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(_), Some(_)) => {
            let (every, cron) = (layer("every"), layer("cron"));
            if every == cron {
                cx.fault(&["cycle", "cron"], "`cycle` has both `every` and `cron`; keep one of them", None);
            }
            cron > every
        }
    }
}

fn cron(text: &str, cx: &mut Cx<'_>) -> Option<Cron> {
    let cron = text.parse::<Cron>();
    cron.map_err(|bad| {
        let hint = "write minute, hour, day of month, month and day of week, such as \"0 9 * * 1-5\" or \"*/30 8-18 * * *\"";
        cx.fault(&["cycle", "cron"], format!("`cycle.cron`: {bad}"), Some(hint.to_owned()));
    })
    .ok()
}

fn hours(text: &str, cx: &mut Cx<'_>) -> Option<Hours> {
    let hours = text.parse::<Hours>();
    hours.map_err(|bad| cx.fault(&["cycle", "active"], format!("`cycle.active`: {bad}"), None)).ok()
}

fn zone(text: &str, cx: &mut Cx<'_>) -> Option<Zone> {
    let zone = text.parse::<Zone>();
    zone.map_err(|bad| {
        let names = Zone::names();
        // People leave the continent out.
        let city = names.iter().find(|name| name.rsplit('/').next().is_some_and(|city| city.eq_ignore_ascii_case(text)));
        let hint = city.map(|name| format!("did you mean `{name}`?"));
        let hint = hint.or_else(|| did_you_mean(text, names.iter().map(String::as_str)));
        cx.fault(&["cycle", "time_zone"], format!("`cycle.time_zone`: {bad}"), hint);
    })
    .ok()
}

/// Says where something is asked of a schedule that cannot give it.
fn of_no_use(document: &CycleDocument, spec: &CycleSpec, cx: &mut Cx<'_>) {
    let mut fault = |key: &str, message: String, hint: &str| {
        if cx.is_own(&["cycle", key]) {
            cx.fault(&["cycle", key], message, Some(hint.to_owned()));
        }
    };
    let asked = [("missed", spec.missed == Missed::Skip), ("spread", spec.spread.is_some())];
    for (key, _) in asked.iter().filter(|(_, is_asked)| *is_asked && !spec.is_anchored()) {
        let every = spec.every;
        let message = format!("`cycle.{key}` is of no use with `every = \"{every}\"`, which is a pause between two cycles");
        fault(key, message, "write every = \"10s\" or longer, or take it out");
    }
    if document.time_zone.is_some() && spec.cron.is_none() && spec.active.is_none() {
        fault(
            "time_zone",
            "`cycle.time_zone` is of no use without `cron` or `active`".to_owned(),
            "take it out; `every` goes by UTC",
        );
    }
}

/// Says where beings would be spread into the next slot.
fn too_wide(spec: &CycleSpec, cx: &mut Cx<'_>) {
    let every = spec.every;
    if let Some(spread) = spec.spread.filter(|spread| spec.cron.is_none() && spec.is_anchored() && spread.saturating_mul(2) > every)
    {
        let message = format!("`cycle.spread` of {spread} is more than half of `every`, which is {every}");
        cx.fault(&["cycle", "spread"], message, Some("write less, or take it out; a tenth of `every` is then used".into()));
    }
}
