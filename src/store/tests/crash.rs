use std::{collections::BTreeSet, io::ErrorKind};

use super::life::Life;
use super::{
    samples::{at, decode, either, fold, fresh, granted, told, writes},
    simulation::{Simulation, Trouble, luck},
};
use crate::{
    being::{Event, Record, testing},
    store::{StoreError, folder::JOURNAL, replay::Replay},
};

enum Step {
    Append(Vec<Event>),
    Checkpoint,
}

/// What a driver does in a short life, with a checkpoint in mid-call.
fn script() -> Vec<Step> {
    let mut steps: Vec<Step> = writes().into_iter().skip(1).map(Step::Append).collect();
    steps.insert(2, Step::Checkpoint);
    steps.insert(5, Step::Checkpoint);
    steps.push(Step::Append(vec![granted("2027-01"), told("again")]));
    steps.push(Step::Append(vec![Event::ChildSpawned { child: Box::new(testing::child(1)) }]));
    steps
}

fn events(script: &[Step]) -> Vec<Event> {
    let events = script.iter().filter_map(|step| if let Step::Append(events) = step { Some(events.clone()) } else { None });
    events.flatten().collect()
}

/// The records that the driver's script brought, in a journal.
fn scripted(journal: &[Record]) -> Vec<Event> {
    let own = |event: &&Event| !matches!(event, Event::Started { .. } | Event::Checkpoint { .. });
    journal.iter().map(|record| &record.event).filter(own).cloned().collect()
}

/// A driver that knows what was acknowledged to it.
struct Driver {
    disk: Simulation,
    script: Vec<Step>,
    acknowledged: Vec<Record>,
    /// When the journal's files are closed.
    longest_file: u64,
}

/// Journals of one file, and of one that is closed at every picture.
const LENGTHS: [u64; 2] = [u64::MAX, 500];

impl Driver {
    fn new(longest_file: u64) -> Self {
        Self { disk: Simulation::default(), script: script(), acknowledged: Vec::new(), longest_file }
    }

    /// Opens the life and goes on with the script from what the journal holds, until done or something fails.
    fn live(&mut self) -> Result<(), StoreError> {
        let (mut life, recovered) = Life::in_files_of(self.longest_file, Box::new(self.disk.clone()), either(), at(0))?;
        let journal = decode(&self.disk.journal());
        self.check(&life, &journal, &recovered.open_calls.iter().map(|call| call.call_id.clone()).collect());
        let mut done = scripted(&journal).len();
        let mut now = 0;
        for step in &self.script {
            match step {
                Step::Checkpoint => life.checkpoint(at(1))?,
                Step::Append(events) => {
                    let skipped = done.min(events.len());
                    done -= skipped;
                    now += 1;
                    self.acknowledged.extend(life.append(events[skipped..].to_vec(), 1, at(now))?);
                }
            }
        }
        life.close(at(9))
    }

    /// Nothing acknowledged is lost, nothing is applied twice, and picture, journal and life agree.
    fn check(&self, life: &Life, journal: &[Record], open_calls: &BTreeSet<String>) {
        for record in &self.acknowledged {
            let kept = journal.get(usize::try_from(record.seq - 1).unwrap());
            assert_eq!(kept, Some(record), "an acknowledged record was lost or changed");
        }
        let own = scripted(journal);
        assert_eq!(own, events(&self.script)[..own.len()], "records that nobody wrote, or in another order");
        assert_eq!(Some(life.state()), fold(journal).as_ref(), "the state is not what its records make");
        assert_eq!(Replay::read(&self.disk).unwrap().state.as_ref(), Some(life.state()), "an observer sees another state");
        let started =
            journal.iter().filter_map(|r| if let Event::ToolStarted { call_id, .. } = &r.event { Some(call_id) } else { None });
        let ended =
            journal.iter().filter_map(|r| if let Event::ToolFinished { call_id, .. } = &r.event { Some(call_id) } else { None });
        let ended: BTreeSet<&String> = ended.collect();
        assert_eq!(
            *open_calls,
            started.filter(|id| !ended.contains(id)).cloned().collect::<BTreeSet<String>>(),
            "a begun call was forgotten or made up"
        );
    }

    /// After all troubles the life is the one that the script tells, once.
    fn finish(&mut self) {
        self.disk.expect(None);
        self.live().unwrap();
        let journal = decode(&self.disk.journal());
        assert_eq!(scripted(&journal), events(&self.script));
        let state = fold(&journal).unwrap();
        assert!(state.budget.is_balanced() && state.budget.granted.len() == 2);
        assert_eq!((state.mind.children.len(), state.budget.given), (1, testing::usd("1")));
    }
}

/// Every step of a quiet life, for each length of its journal's files.
fn steps() -> impl Iterator<Item = (u64, usize)> {
    LENGTHS.into_iter().flat_map(|length| {
        let mut driver = Driver::new(length);
        driver.live().unwrap();
        (0..driver.disk.steps()).map(move |step| (length, step))
    })
}

/// Runs `what` so that a failure tells how to see it again.
fn replayable(seen: &str, what: impl FnOnce() + std::panic::UnwindSafe) {
    if let Err(cause) = std::panic::catch_unwind(what) {
        eprintln!("fails again with: {seen}");
        std::panic::resume_unwind(cause);
    }
}

#[test]
fn a_power_cut_at_any_step_loses_nothing_acknowledged_and_repeats_nothing() {
    for (length, step) in steps() {
        for seed in 0..12 {
            replayable(&format!("files of {length}, step {step}, seed {seed}"), || {
                let mut driver = Driver::new(length);
                let mut luck = luck(seed);
                driver.disk.expect(Some(Trouble::PowerCut { step }));
                assert!(driver.live().is_err());
                driver.disk.power_up(&mut luck);
                driver.disk.expect(Some(Trouble::PowerCut { step: usize::try_from(seed).unwrap() * 2 }));
                if driver.live().is_err() {
                    driver.disk.power_up(&mut luck);
                }
                driver.finish();
            });
        }
    }
}

#[test]
fn a_killed_process_loses_nothing_acknowledged_and_repeats_nothing() {
    for (length, step) in steps() {
        replayable(&format!("files of {length}, step {step}"), || {
            let mut driver = Driver::new(length);
            driver.disk.expect(Some(Trouble::PowerCut { step }));
            assert!(driver.live().is_err());
            driver.disk.restart();
            driver.finish();
        });
    }
}

#[test]
fn an_error_of_the_disk_at_any_step_loses_nothing_acknowledged_and_repeats_nothing() {
    for (length, step) in steps() {
        for (kind, power) in [(ErrorKind::StorageFull, false), (ErrorKind::Other, false), (ErrorKind::Other, true)] {
            replayable(&format!("files of {length}, step {step}, {kind:?}, power cut {power}"), || {
                let mut driver = Driver::new(length);
                driver.disk.expect(Some(Trouble::Error { step, kind }));
                drop(driver.live());
                if power {
                    driver.disk.power_up(&mut luck(7));
                }
                driver.finish();
            });
        }
    }
}

#[test]
fn after_a_failed_write_nothing_more_is_acknowledged() {
    let disk = Simulation::default();
    let (mut life, _) = Life::open_in(Box::new(disk.clone()), fresh(), at(0)).unwrap();
    let before = (life.state().clone(), disk.content(JOURNAL));
    disk.expect(Some(Trouble::Error { step: 4, kind: ErrorKind::Other }));
    let told_first = life.append(vec![told("one")], 0, at(1)).unwrap_err();
    assert!(matches!(told_first, StoreError::Unwritable { .. }), "{told_first}");
    disk.expect(None);
    assert!(matches!(life.append(vec![told("two")], 0, at(2)), Err(StoreError::Poisoned { .. })));
    assert!(matches!(life.checkpoint(at(2)), Err(StoreError::Poisoned { .. })));
    assert_eq!((life.state().clone(), disk.content(JOURNAL)), before, "what was not acknowledged is not applied, and is cut off");
    assert_eq!(disk.steps(), 0, "a failed disk is not written to again");
}

#[test]
fn a_picture_that_cannot_be_drawn_stops_no_life() {
    let disk = Simulation::default();
    let (mut life, _) = Life::open_in(Box::new(disk.clone()), fresh(), at(0)).unwrap();
    disk.expect(Some(Trouble::Error { step: 7, kind: ErrorKind::StorageFull }));
    assert!(matches!(life.checkpoint(at(1)), Err(StoreError::NoPicture { .. })));
    life.append(vec![told("on")], 0, at(2)).unwrap();
    life.close(at(3)).unwrap();
    assert!(Replay::read(&disk).unwrap().state.is_some());
}

#[test]
fn a_being_is_born_and_told_of_it_though_no_picture_can_be_drawn() {
    let disk = Simulation::default();
    disk.expect(Some(Trouble::Error { step: 20, kind: ErrorKind::StorageFull }));
    let (life, recovered) = Life::open_in(Box::new(disk.clone()), fresh(), at(0)).unwrap();
    assert_eq!(
        recovered.warnings,
        ["state: cannot draw /simulated/state.json; the journal has everything and the life goes on without"]
    );
    assert_eq!(Replay::read(&disk).unwrap().state.as_ref(), Some(life.state()));
}

#[test]
fn what_is_acknowledged_in_a_new_file_outlives_a_power_cut_though_no_picture_could_be_drawn() {
    let mut undrawn = 0;
    for (step, seed) in (0..30).flat_map(|step| (0..6).map(move |seed| (step, seed))) {
        let disk = Simulation::default();
        let (mut life, _) = Life::in_files_of(500, Box::new(disk.clone()), fresh(), at(0)).unwrap();
        life.append(vec![told("x".repeat(600))], 0, at(1)).unwrap();
        disk.expect(Some(Trouble::Error { step, kind: ErrorKind::StorageFull }));
        if !matches!(life.checkpoint(at(1)), Err(StoreError::NoPicture { .. })) {
            continue;
        }
        undrawn += 1;
        let kept = life.append(vec![told("kept")], 0, at(2)).unwrap();
        disk.power_up(&mut luck(seed));
        assert_eq!(decode(&disk.journal()).last(), kept.last(), "step {step}, seed {seed}");
    }
    assert!(undrawn > 20, "{undrawn}");
}
