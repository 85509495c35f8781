//! Whole lives: the cycle machine, the store and the recovery together, under a seeded driver whose disk loses power and fails, whose clock jumps,
//! and whose answers are late, lost, or come again.
//!
//! `SEED=N cargo test --lib lives` lives one life again; `LIVES=10000 cargo test --release --lib lives` lives many.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::atomic::{AtomicU64, Ordering},
};

use rand::{RngExt as _, rngs::StdRng};

use super::life::Life;
use super::samples::{at, decode, either, fold};
use super::simulation::{Simulation, Trouble, luck};
use crate::{
    being::{
        Answer, Approval, Being, Completion, Counter, Effect, Ending, Event, Finish, Input, Limits, Outcome, Price, Ready, Record,
        Retry, Rules, Status, ThinkError, ThinkErrorClass, Thought, ToolCall, Usage,
        testing::{assert_well_formed, usd},
    },
    store::StoreError,
    vocab::{Span, Timestamp, Usd},
};

/// How many lives are lived where nobody says otherwise.
const LIVES: u64 = 150;
const PROCESSES: usize = 5;
const STEPS: usize = 40;

/// A life, and what happened outside of it.
struct World {
    luck: StdRng,
    disk: Simulation,
    now: Timestamp,
    /// What the store said to be durable.
    acknowledged: Vec<Record>,
    /// How often each call was carried out.
    made: BTreeMap<String, u32>,
    calls: u32,
    deaths: u32,
}

/// Why a process is no more.
#[derive(Debug)]
enum Died {
    Ended,
    Disk,
}

impl From<StoreError> for Died {
    fn from(_: StoreError) -> Self {
        Self::Disk
    }
}

fn rules() -> Rules {
    Rules {
        max_tool_rounds: 3,
        instance_usd_per_hour: usd("1"),
        stimulus: None,
        tools: Vec::new().into(),
        context_tokens: 700,
        counter: Counter::estimate(),
        max_tokens: 100,
        children: None,
        retry: Retry { max_attempts: Some(4), ..Retry::default() },
        approval: Approval::default(),
        limits: Limits::default(),
        offers: Vec::new().into(),
    }
}

/// A process: the being with the life that it is made durable in.
struct Process {
    being: Being,
    life: Life,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            luck: luck(seed),
            disk: Simulation::default(),
            now: at(0),
            acknowledged: Vec::new(),
            made: BTreeMap::new(),
            calls: 0,
            deaths: 0,
        }
    }

    fn percent(&mut self, chance: u32) -> bool {
        self.luck.random_ratio(chance, 100)
    }

    /// Time passes, or the clock is set to another hour.
    fn tick(&mut self) {
        let seconds = if self.percent(4) { self.luck.random_range(-90_000..90_000) } else { 1 };
        self.now = self.now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    }

    fn journal(&self) -> Vec<Record> {
        decode(&self.disk.journal())
    }

    /// Opens the life as it is found, and answers what an earlier process left open.
    fn open(&mut self) -> Result<Process, Died> {
        self.tick();
        let longest_file = if self.percent(50) { 4_000 } else { u64::MAX };
        let (life, recovered) = Life::in_files_of(longest_file, Box::new(self.disk.clone()), either(), self.now)?;
        self.check_kept();
        assert_eq!(Some(life.state()), fold(&self.journal()).as_ref(), "the journal makes the state");
        let mut process = Process { being: Being::new(life.state().clone()), life };
        let begun: BTreeSet<String> = recovered.open_calls.into_iter().map(|call| call.call_id).collect();
        let ready = process.being.recover(&begun, self.now);
        self.persist(&mut process, ready.facts)?;
        Ok(process)
    }

    fn persist(&mut self, process: &mut Process, facts: Vec<Event>) -> Result<(), Died> {
        let cycle = process.being.state().cycle;
        self.acknowledged.extend(process.life.append(facts, cycle, self.now)?);
        assert_eq!(process.life.state(), process.being.state(), "the live state is what its facts make");
        if process.life.wants_checkpoint() { self.draw(process) } else { Ok(()) }
    }

    fn draw(&mut self, process: &mut Process) -> Result<(), Died> {
        match process.life.checkpoint(self.now) {
            Err(error) if error.is_harmless() => Ok(()),
            drawn => Ok(drawn?),
        }
    }

    fn tell(&mut self, process: &mut Process, input: Input) -> Result<Option<Effect>, Died> {
        self.tick();
        let Ready { facts, then } = process.being.step(&rules(), input, self.now);
        self.persist(process, facts)?;
        Ok(then)
    }

    /// One process, from its start to its end or the disk's.
    fn live(&mut self) -> Result<(), Died> {
        let mut process = self.open()?;
        let mut input = Input::Wake;
        for _ in 0..STEPS {
            let then = self.tell(&mut process, input)?;
            if self.percent(5) {
                let id = self.luck.random_range(0..3).to_string();
                self.tell(&mut process, Input::Granted { id, usd: usd("1") })?;
            }
            input = match then {
                Some(effect) => self.carry_out(&mut process, effect)?,
                None if process.being.is_busy() => Input::Abandoned,
                None => return Err(Died::Ended),
            };
        }
        Ok(())
    }

    fn carry_out(&mut self, process: &mut Process, effect: Effect) -> Result<Input, Died> {
        match effect {
            Effect::Think { request, .. } => {
                assert_well_formed(&request.messages);
                assert!(process.being.state().budget.is_solvent(), "nothing is asked while the gate is closed");
                Ok(if self.percent(3) {
                    Input::Abandoned
                } else {
                    Input::Thought { result: self.think(), elapsed: Span::from_secs(1) }
                })
            }
            Effect::Call(call) => {
                // An answer that comes again, to a question that is no longer asked, changes nothing.
                if self.percent(10) {
                    let stray = Input::Thought { result: self.think(), elapsed: Span::from_secs(1) };
                    assert!(self.tell(process, stray)?.is_none());
                }
                *self.made.entry(call.id).or_default() += 1;
                Ok(match self.luck.random_range(0..4) {
                    0 => Input::Abandoned,
                    1 => Input::Called(Outcome::failed("remote_tool", "no")),
                    _ => Input::Called(Outcome::success(serde_json::json!({ "ok": true }))),
                })
            }
            Effect::Ask(question) => Ok(Input::Answered { number: question.number, answer: Answer::Approved }),
            Effect::Rest(_) => {
                self.draw(process)?;
                Ok(Input::Wake)
            }
            Effect::End(ending) => Ok(Input::Closed { failed: matches!(ending, Ending::Upstream { .. }) }),
        }
    }

    fn think(&mut self) -> Result<Thought, ThinkError> {
        let price = Price { input: usd("1000"), output: usd("2000") };
        let usage = Usage::new(self.luck.random_range(0..400), self.luck.random_range(0..200));
        if self.percent(10) {
            let class = if self.percent(50) { ThinkErrorClass::TooLong } else { ThinkErrorClass::Transient { retry_after: None } };
            let spent = if self.percent(50) { vec![(usage, price)] } else { Vec::new() };
            return Err(ThinkError { class, message: "brama: HTTP 503".into(), spent });
        }
        let tool_calls = (0..self.luck.random_range(0..4))
            .map(|_| {
                self.calls += 1;
                ToolCall::new(format!("call-{}", self.calls), "files__write", "{}")
            })
            .collect();
        let completion = Completion { model: "smol".into(), content: Some("so".into()), tool_calls, finish: Finish::Stop, usage };
        Ok(Thought { completion, price, passed_over: Vec::new() })
    }

    /// What was said to be durable is there.
    fn check_kept(&self) {
        let journal = self.journal();
        for record in &self.acknowledged {
            assert_eq!(journal.get(usize::try_from(record.seq - 1).unwrap()), Some(record), "an acknowledged record is lost");
        }
    }

    /// The laws of a whole life.
    fn check(&self) {
        let journal = self.journal();
        assert!(journal.iter().zip(1..).all(|(record, seq)| record.seq == seq), "numbers rise by one");
        assert!(journal.windows(2).all(|pair| pair[0].cycle <= pair[1].cycle), "cycles only rise");
        let state = fold(&journal).unwrap();
        let sum = |part: fn(&Event) -> Option<Usd>| journal.iter().filter_map(|record| part(&record.event)).sum::<Usd>();
        let spent = sum(|event| if let Event::CostDebited { amount, .. } = event { Some(*amount) } else { None });
        let granted = sum(|event| if let Event::FundsGranted { usd, .. } = event { Some(*usd) } else { None });
        assert_eq!(state.budget.remaining, state.budget.starting + granted - spent, "no debit or grant is lost or counted twice");
        let (mut open, mut ended) = (BTreeSet::new(), BTreeSet::new());
        for event in journal.iter().map(|record| &record.event) {
            match event {
                Event::ToolStarted { call_id, .. } => assert!(open.insert(call_id), "{call_id} starts once"),
                Event::ToolFinished { call_id, status, error_code, .. } => {
                    assert!(ended.insert(call_id), "{call_id} ends once");
                    let never_began = error_code.as_deref() == Some("not_started");
                    assert!(open.contains(call_id) != never_began, "{call_id} is what it says it is");
                    assert!(!never_began || *status == Status::Failed);
                }
                _ => {}
            }
        }
        assert!(open.is_subset(&ended), "every call that began has an end");
        for (call, times) in &self.made {
            assert!(*times == 1 && open.contains(call), "{call} was made once, after its start was durable");
        }
    }
}

/// Lives one life with its troubles; how often it died by the disk.
fn live(seed: u64) -> u32 {
    let mut world = World::new(seed);
    for _ in 0..PROCESSES {
        let step = world.luck.random_range(0..500);
        let trouble = match world.luck.random_range(0..4) {
            0 => None,
            1 => Some(Trouble::Error { step, kind: std::io::ErrorKind::StorageFull }),
            _ => Some(Trouble::PowerCut { step }),
        };
        world.disk.expect(trouble);
        let died = world.live();
        world.deaths += u32::from(matches!(died, Err(Died::Disk)));
        if world.luck.random_bool(0.3) {
            world.disk.restart();
        } else {
            let mut luck = luck(world.luck.random());
            world.disk.power_up(&mut luck);
        }
    }
    world.disk.expect(None);
    drop(world.open().unwrap_or_else(|died| panic!("a sound disk takes a life up again: {died:?}")));
    world.check_kept();
    world.check();
    world.deaths
}

#[test]
#[expect(clippy::disallowed_methods, reason = "which lives are lived is said by whoever looks for a fault")]
fn lives_keep_their_laws_whatever_their_disk_their_clock_and_their_models_do() {
    let said = |name: &str| std::env::var(name).ok().map(|number| number.parse::<u64>().unwrap());
    let seeds = said("SEED").map_or_else(|| 0..said("LIVES").unwrap_or(LIVES), |seed| seed..seed + 1);
    let (lives, next, deaths) = (seeds.end - seeds.start, AtomicU64::new(seeds.start), AtomicU64::new(0));
    let live_on = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match std::panic::catch_unwind(|| live(seed)) {
                Ok(died) => drop(deaths.fetch_add(died.into(), Ordering::Relaxed)),
                Err(cause) => {
                    eprintln!("fails again with: SEED={seed} cargo test --lib lives");
                    std::panic::resume_unwind(cause);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        (0..threads).for_each(|_| drop(scope.spawn(live_on)));
    });
    let deaths = deaths.into_inner();
    assert!(lives == 1 || deaths > lives, "{deaths} deaths in {lives} lives are too few to show anything");
}

/// A process whose calls are made until one of a batch is left under way.
fn dies_in_the_third_of_three_calls() -> World {
    let mut world = World::new(0);
    let mut process = world.open().unwrap_or_else(|_| panic!("a sound disk"));
    let asked = world.tell(&mut process, Input::Wake).unwrap_or_else(|_| panic!("a sound disk"));
    assert!(matches!(asked, Some(Effect::Think { .. })));
    let tool_calls = ["one", "two", "three"].map(|id| ToolCall::new(id, "files__write", "{}")).to_vec();
    let usage = Usage::new(1, 1);
    let completion = Completion { model: "m".into(), content: None, tool_calls, finish: Finish::ToolCalls, usage };
    let thought = Thought { completion, price: Price::default(), passed_over: Vec::new() };
    let mut input = Input::Thought { result: Ok(thought), elapsed: Span::ZERO };
    for _ in 0..2 {
        let then = world.tell(&mut process, input).unwrap_or_else(|_| panic!("a sound disk"));
        assert!(matches!(then, Some(Effect::Call(_))));
        input = Input::Called(Outcome::success(serde_json::json!({})));
    }
    let third = world.tell(&mut process, input).unwrap_or_else(|_| panic!("a sound disk"));
    assert!(matches!(third, Some(Effect::Call(call)) if call.id == "three"));
    world
}

/// How each call of a journal ended.
fn ends(world: &World) -> Vec<(String, Status)> {
    let end = |record: Record| match record.event {
        Event::ToolFinished { call_id, status, .. } => Some((call_id, status)),
        _ => None,
    };
    world.journal().into_iter().filter_map(end).collect()
}

#[test]
fn a_batch_that_a_death_cut_in_two_keeps_its_results_and_repeats_none() {
    let mut world = dies_in_the_third_of_three_calls();
    drop(world.open().unwrap_or_else(|_| panic!("a sound disk")));
    let told = [("one", Status::Success), ("two", Status::Success), ("three", Status::Indeterminate)];
    assert_eq!(ends(&world), told.map(|(id, status)| (id.to_owned(), status)));
}

#[test]
fn an_outcome_that_recovery_wrote_is_not_written_again_by_the_next_recovery() {
    let mut world = dies_in_the_third_of_three_calls();
    for _ in 0..3 {
        drop(world.open().unwrap_or_else(|_| panic!("a sound disk")));
        assert_eq!(ends(&world).len(), 3);
    }
}
