use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::row::{LabelSource, Row};

/// How good decisions were, measured against what would have been right.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(title = "Decisions report")]
pub struct Report {
    /// All rows that count.
    pub all: Measure,
    /// The same by phase.
    pub phases: BTreeMap<String, Measure>,
    /// Rows that do not count: nothing was selected, or what would have been right was no option.
    pub skipped: usize,
    /// The rows that cost most, at most five.
    pub worst: Vec<Costly>,
}

/// Measures of some rows. A row counts once, or three times where a person labelled it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct Measure {
    /// Rows.
    pub rows: usize,
    /// Rows that a person labelled.
    pub human: usize,
    /// The mean of −ln p of what would have been right, each row once.
    pub nll: f64,
    /// The same mean with each row's weight.
    pub cross_entropy: f64,
    /// The share of rows in which that was selected. It is 1 where nobody labelled any.
    pub accuracy: f64,
    /// That share among the rows that a person labelled.
    pub human_accuracy: Option<f64>,
    /// How far the probability of what was selected is from how often that was right, over 10 bins (expected calibration error).
    pub ece: f64,
}

/// A row that cost much.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Costly {
    /// The row's id.
    pub id: String,
    /// What it was about.
    pub phase: String,
    /// What was selected.
    pub selected: String,
    /// What would have been right.
    pub observed: String,
    /// Its −ln p times its weight.
    pub cost: f64,
}

/// A row that counts.
struct Counted<'a> {
    row: &'a Row,
    selected: &'a str,
    observed: &'a str,
    nll: f64,
    /// The probability of what was selected.
    confidence: f64,
}

const LEAST: f64 = 1e-9;
const WORST: usize = 5;
const BINS: usize = 10;

/// Measures the rows of a log.
pub fn report(rows: &[Row]) -> Report {
    let counted: Vec<Counted<'_>> = rows.iter().filter_map(counted).collect();
    let mut phases: BTreeMap<String, Vec<&Counted<'_>>> = BTreeMap::new();
    for row in &counted {
        phases.entry(row.row.phase.clone()).or_default().push(row);
    }
    let mut worst: Vec<Costly> = counted.iter().map(costly).collect();
    worst.sort_by(|a, b| b.cost.total_cmp(&a.cost));
    worst.truncate(WORST);
    Report {
        all: measured(&counted.iter().collect::<Vec<_>>()),
        phases: phases.into_iter().map(|(phase, rows)| (phase, measured(&rows))).collect(),
        skipped: rows.len() - counted.len(),
        worst,
    }
}

fn counted(row: &Row) -> Option<Counted<'_>> {
    let (selected, observed) = (row.selected.as_deref()?, row.observed_outcome.as_deref()?);
    let probability = |id: &str| row.predicted_probs.get(id).copied();
    Some(Counted { row, selected, observed, nll: -probability(observed)?.max(LEAST).ln(), confidence: probability(selected)? })
}

fn costly(row: &Counted<'_>) -> Costly {
    Costly {
        id: row.row.id.clone(),
        phase: row.row.phase.clone(),
        selected: row.selected.to_owned(),
        observed: row.observed.to_owned(),
        cost: row.nll * row.row.label_source.weight(),
    }
}

fn measured(rows: &[&Counted<'_>]) -> Measure {
    let is_right = |row: &&&Counted<'_>| row.selected == row.observed;
    let is_human = |row: &&&Counted<'_>| row.row.label_source == LabelSource::Human;
    let weight = |row: &&Counted<'_>| row.row.label_source.weight();
    let human = rows.iter().filter(is_human).count();
    Measure {
        rows: rows.len(),
        human,
        nll: share(rows.iter().map(|row| row.nll).sum(), float(rows.len())),
        cross_entropy: share(rows.iter().map(|row| row.nll * weight(row)).sum(), rows.iter().map(weight).sum()),
        accuracy: share(float(rows.iter().filter(is_right).count()), float(rows.len())),
        human_accuracy: (human > 0).then(|| share(float(rows.iter().filter(is_human).filter(is_right).count()), float(human))),
        ece: ece(rows.iter().map(|row| (row.confidence, row.selected == row.observed))),
    }
}

/// The expected calibration error in ten bins of confidence: how far it is from how often it was right.
pub(super) fn ece(decided: impl Iterator<Item = (f64, bool)>) -> f64 {
    let mut bins: [(f64, f64); BINS] = [(0.0, 0.0); BINS];
    let mut rows = 0;
    for (confidence, is_right) in decided {
        rows += 1;
        // The bin that holds the confidence; 1 stands in the last.
        let at = (1..BINS).take_while(|edge| confidence >= float(*edge) / float(BINS)).count();
        if let Some((sure, right)) = bins.get_mut(at) {
            *sure += confidence;
            *right += if is_right { 1.0 } else { 0.0 };
        }
    }
    // Within a bin the gap of the means, times the bin's share of all rows, is the gap of the sums over all rows.
    share(bins.iter().map(|(sure, right)| (sure - right).abs()).sum(), float(rows))
}

/// A share, of nothing 0.
pub(super) fn share(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}

pub(super) fn float(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}
