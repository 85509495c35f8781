use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::{Map, json};
use tempfile::TempDir;

use super::*;
use crate::{
    decision::{
        DecisionRequest, LabelSource, LogError,
        kept::{kept, relabel},
        readout::Decision,
        report::report,
    },
    vocab::{Digest, Timestamp},
};

fn made(id: &str, text: &str, probabilities: [f64; 2]) -> Made {
    let row = json!({
        "id": id, "state": text, "question": "Which?",
        "options": [{ "id": "a", "description": "A" }, { "id": "b", "description": "B" }],
    });
    let decision = Decision {
        id: id.into(),
        option_ids: vec!["a".into(), "b".into()],
        selected: Some(if probabilities[0] >= probabilities[1] { "a" } else { "b" }.into()),
        probabilities: probabilities.to_vec(),
        confidence: 0.0,
        agreement: 1.0,
        allowed_token_mass: 1.0,
        option_logits: Vec::new(),
        temperature: 1.0,
        input_tokens: 9,
        prompt_sha256: Digest::of(""),
        prompt_version: "v",
        model: "m".into(),
        readout: "",
        probability_status: "",
    };
    let (began_at, ended_at) = (Timestamp::UNIX_EPOCH, Timestamp::from_millisecond(20).unwrap());
    Made { phase: "test".into(), request: DecisionRequest::read(&row).unwrap(), decision, began_at, ended_at, extra: Map::new() }
}

/// A log with these rows, closed.
fn logged(folder: &TempDir, bounds: LogBounds, rows: impl IntoIterator<Item = Made>) {
    let log = DecisionLog::open(folder.path(), bounds).unwrap();
    rows.into_iter().for_each(|made| log.record(made));
    assert_eq!(log.lost(), 0);
}

fn ids(folder: &TempDir) -> Vec<String> {
    kept(folder.path()).unwrap().rows.into_iter().map(|row| row.id).collect()
}

#[test]
fn what_was_decided_is_read_back_as_it_was_also_after_another_process_wrote() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(kept(folder.path()).unwrap().rows, []);
    logged(&folder, LogBounds::default(), [made("one", "s", [0.75, 0.25])]);
    logged(&folder, LogBounds::default(), [made("two", "s", [0.5, 0.5])]);
    let rows = kept(folder.path()).unwrap().rows;
    assert_eq!(rows, [Row::from(made("one", "s", [0.75, 0.25])), Row::from(made("two", "s", [0.5, 0.5]))]);
    assert!((rows[0].elapsed_ms - 20.0).abs() < 1e-9);
}

#[test]
fn a_log_stays_within_its_bound_and_the_oldest_rows_go() {
    let folder = tempfile::tempdir().unwrap();
    let bounds = LogBounds { bytes_per_file: 2_000, files: 3, waiting: 8 };
    for number in 0..60 {
        logged(&folder, bounds, [made(&number.to_string(), &"x".repeat(200), [0.5, 0.5])]);
    }
    let left = ids(&folder);
    assert!((10..40).contains(&left.len()), "{left:?}");
    let newest: Vec<String> = (60 - left.len()..60).map(|number| number.to_string()).collect();
    assert_eq!(left, newest, "what is left is the newest, in order");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn a_line_that_a_crash_cut_off_costs_no_other_row() {
    let folder = tempfile::tempdir().unwrap();
    logged(&folder, LogBounds::default(), [made("one", "s", [0.5, 0.5]), made("two", "s", [0.5, 0.5])]);
    let path = folder.path().join(CURRENT);
    let length = std::fs::metadata(&path).unwrap().len();
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 5).unwrap();
    logged(&folder, LogBounds::default(), [made("three", "s", [0.5, 0.5])]);
    assert_eq!(ids(&folder), ["one", "three"]);
    assert_eq!(kept(folder.path()).unwrap().torn, 1);
}

#[test]
fn whoever_decides_never_waits_for_a_disk_that_hangs_and_what_was_lost_is_counted() {
    let folder = tempfile::tempdir().unwrap();
    // What is written into a pipe that nobody reads waits for ever once the pipe is full.
    mkfifoat(CWD, folder.path().join(CURRENT), Mode::RUSR | Mode::WUSR).unwrap();
    let log = DecisionLog::open(folder.path(), LogBounds { waiting: 4, ..LogBounds::default() }).unwrap();
    let large = "x".repeat(200_000);
    for number in 0..20 {
        log.record(made(&number.to_string(), &large, [0.5, 0.5]));
    }
    let lost = log.lost();
    // Its writer waits for ever, so that nothing may wait for it.
    std::mem::forget(log);
    assert!(lost >= 11, "{lost}");
}

#[test]
fn a_folder_that_cannot_be_written_loses_rows_and_no_decision() {
    let folder = tempfile::tempdir().unwrap();
    let log = DecisionLog::open(&folder.path().join("gone"), LogBounds::default()).unwrap();
    let lost = Arc::clone(&log.0.lost);
    log.record(made("one", "s", [0.5, 0.5]));
    drop(log);
    assert_eq!(lost.load(Ordering::Relaxed), 1);
}

#[test]
fn a_persons_label_stands_over_the_row_that_stays_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    logged(&folder, LogBounds::default(), [made("one", "s", [0.75, 0.25]), made("two", "s", [0.2, 0.8])]);
    let before = std::fs::read_to_string(folder.path().join(CURRENT)).unwrap();
    relabel(folder.path(), "one", "a", Timestamp::UNIX_EPOCH).unwrap();
    relabel(folder.path(), "one", "b", Timestamp::UNIX_EPOCH).unwrap();
    assert!(std::fs::read_to_string(folder.path().join(CURRENT)).unwrap().starts_with(&before), "nothing is written anew");
    let rows = kept(folder.path()).unwrap().rows;
    assert_eq!((rows[0].observed_outcome.as_deref(), rows[0].label_source), (Some("b"), LabelSource::Human));
    assert_eq!((rows[1].observed_outcome.as_deref(), rows[1].label_source), (Some("b"), LabelSource::Own));
    assert!(matches!(relabel(folder.path(), "gone", "a", Timestamp::UNIX_EPOCH), Err(LogError::Unknown(_))));
    assert!(matches!(relabel(folder.path(), "one", "c", Timestamp::UNIX_EPOCH), Err(LogError::NoOption { .. })));
}

#[test]
fn a_report_measures_what_the_definitions_say() {
    let mut rows: Vec<Row> = vec![
        made("right", "s", [0.75, 0.25]).into(),
        made("wrong", "s", [0.75, 0.25]).into(),
        made("sure", "s", [0.05, 0.95]).into(),
        made("nothing", "s", [0.5, 0.5]).into(),
    ];
    (rows[1].observed_outcome, rows[1].label_source) = (Some("b".into()), LabelSource::Human);
    (rows[3].selected, rows[3].observed_outcome) = (None, None);
    let measured = report(&rows);
    let near = |number: f64, wanted: f64| assert!((number - wanted).abs() < 1e-9, "{number} is not {wanted}: {measured:#?}");
    let (right, wrong, sure) = (-0.75_f64.ln(), -0.25_f64.ln(), -0.95_f64.ln());
    near(measured.all.nll, (right + wrong + sure) / 3.0);
    near(measured.all.cross_entropy, (right + 3.0 * wrong + sure) / 5.0);
    near(measured.all.accuracy, 2.0 / 3.0);
    // Of the two with 0.75 one is right: a gap of a quarter, weighted by two of three; the third is off by 0.05.
    near(measured.all.ece, 2.0 / 3.0 * 0.25 + 1.0 / 3.0 * 0.05);
    assert_eq!((measured.skipped, measured.all.human, measured.all.human_accuracy), (1, 1, Some(0.0)));
    assert_eq!(measured.worst[0].id, "wrong");
    near(measured.worst[0].cost, 3.0 * wrong);
    assert_eq!(report(&[]).all, Default::default());
}
