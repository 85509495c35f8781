//! Lives under a seeded world that crashes, loses and delays: what no order of events may break.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;
use uuid::Uuid;

#[path = "simulation_slots.rs"]
mod slots;

use super::{
    ActionRecord, AgentState, Answer, Approval, Being, ChatRequest, ChildStatus, Closed, Completion, Counter, Effect, Ending,
    Event, Finish, Input, Limit, Limits, Offer, Outcome, Price, Ready, Record, Retry, Revenue, Rules, Spawn, Status, ThinkError,
    ThinkErrorClass, Thought, ToolCall, ToolDefinition, Usage, testing,
};
use crate::vocab::{Span, Timestamp, Usd, day_of};

/// What is on disk, and what happened outside.
pub(super) struct World {
    luck: Luck,
    pub(super) journal: Vec<Record>,
    /// How often each call was carried out.
    made: BTreeMap<String, u32>,
    /// Think effects that were carried out while the durable balance, or what is left of a limit, was not above zero.
    spent_while_closed: u32,
    /// It jumps both ways.
    now: Timestamp,
    /// Whether servers count no more than what can be known before.
    honest: bool,
    /// Calls that took what is left under a limit below zero.
    overdrawn: u32,
    next_call: u32,
    pub(super) crashes: u32,
    /// Transactions that a call reported as earned, by call.
    earned: BTreeMap<String, String>,
    /// Whether calls ask for children.
    pub(super) spawns: bool,
    schedule: slots::Schedule,
}

/// A seeded source of luck (SplitMix64): the same seed is the same life.
struct Luck(u64);

impl Luck {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound).unwrap()).unwrap()
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

pub(super) enum Died {
    Crashed,
    Ended,
}

impl World {
    pub(super) fn new(seed: u64, honest: bool) -> Self {
        let birth = Event::Started { birth: Some(Box::new(testing::birth())) };
        let mut world = Self {
            luck: Luck(seed),
            journal: Vec::new(),
            made: BTreeMap::new(),
            spent_while_closed: 0,
            now: Timestamp::UNIX_EPOCH,
            honest,
            overdrawn: 0,
            next_call: 0,
            crashes: 0,
            earned: BTreeMap::new(),
            spawns: false,
            schedule: slots::Schedule::new(),
        };
        world.write(0, vec![birth]);
        world
    }

    pub(super) fn write(&mut self, cycle: u64, events: Vec<Event>) {
        for event in events {
            let seq = u64::try_from(self.journal.len()).unwrap() + 1;
            self.journal.push(Record { seq, at: self.now, cycle, event });
        }
    }

    pub(super) fn replay(&self) -> AgentState {
        let (first, rest) = self.journal.split_first().unwrap();
        let mut state = AgentState::born(first).unwrap();
        rest.iter().for_each(|record| state.apply(record));
        state
    }

    /// Lets time pass, or sets the clock to another day of the fortnight.
    fn tick(&mut self) {
        let seconds = if self.luck.percent(5) { self.luck.below(14 * 86_400) } else { 0 };
        let past = i64::try_from(seconds).unwrap();
        self.now = if past > 0 { Timestamp::from_second(past).unwrap() } else { self.now + jiff::Span::new().minutes(1) };
    }

    /// What the journal says is left under each limit at `now`, by sums of its own.
    fn left(&self, rules: &Rules) -> Vec<Usd> {
        let spent = |counts: &dyn Fn(&Record) -> bool| -> Usd {
            let debits = self.journal.iter().filter(|record| counts(record));
            debits.filter_map(|record| if let Event::CostDebited { amount, .. } = record.event { Some(amount) } else { None }).sum()
        };
        let began = self.journal.iter().rposition(|record| matches!(record.event, Event::CycleStarted { .. })).unwrap_or(0);
        let began = self.journal[began].seq;
        let day = rules.limits.per_day.map(|most| most - spent(&|record| day_of(record.at) == day_of(self.now)));
        let cycle = rules.limits.per_cycle.map(|most| most - spent(&|record| record.seq > began));
        [Some(self.replay().budget.remaining), day, cycle].into_iter().flatten().collect()
    }

    /// How many messages the journal has.
    fn said(&self) -> u64 {
        let messages = self.journal.iter().map(|record| match &record.event {
            Event::CycleStarted { stimulus, .. } => 1 + u64::from(stimulus.is_some()),
            Event::ModelCompleted { .. } | Event::ToolFinished { .. } | Event::Told { .. } => 1,
            _ => 0,
        });
        messages.sum()
    }

    pub(super) fn open_calls(&self) -> BTreeSet<String> {
        let mut open = BTreeSet::new();
        for record in &self.journal {
            match &record.event {
                Event::ToolStarted { call_id, .. } => drop(open.insert(call_id.clone())),
                Event::ToolFinished { call_id, .. } => drop(open.remove(call_id)),
                _ => {}
            }
        }
        open
    }

    /// Makes the facts durable; a crash may leave only some of them.
    fn persist(&mut self, being: &Being, facts: Vec<Event>) -> Result<(), Died> {
        let whole = facts.len();
        let kept = if self.luck.percent(2) { self.luck.below(whole + 1) } else { whole };
        self.write(being.state().cycle, facts.into_iter().take(kept).collect());
        if kept < whole { self.crash() } else { self.maybe_crash() }
    }

    fn crash(&mut self) -> Result<(), Died> {
        self.crashes += 1;
        Err(Died::Crashed)
    }

    fn maybe_crash(&mut self) -> Result<(), Died> {
        if self.luck.percent(2) { self.crash() } else { Ok(()) }
    }

    /// One process, from start to crash or end.
    pub(super) fn live(&mut self, rules: &Rules, steps: u32) -> Result<(), Died> {
        self.write(self.replay().cycle, vec![Event::Started { birth: None }]);
        let open = self.open_calls();
        let mut being = Being::new(self.replay());
        let ready = being.recover(&open, self.now);
        self.persist(&being, ready.facts)?;
        let mut input = self.wake(rules);
        for _ in 0..steps {
            let Ready { facts, then } = being.step(rules, input, self.now);
            self.persist(&being, facts)?;
            assert_eq!(*being.state(), self.replay(), "the live state is what the journal says");
            input = match then {
                Some(effect) => self.carry_out(rules, effect)?,
                None if being.is_busy() => Input::Abandoned,
                None => return Err(Died::Ended),
            };
            self.maybe_crash()?;
            self.tick();
            if self.luck.percent(5) {
                let id = self.luck.below(3).to_string();
                let granted = being.step(rules, Input::Granted { id, usd: testing::usd("1") }, self.now);
                self.persist(&being, granted.facts)?;
            }
            if self.spawns && self.luck.percent(10) {
                let children = being.state().mind.children.iter().map(|child| child.id).collect::<Vec<_>>();
                let status = if self.luck.percent(50) { ChildStatus::Exhausted } else { ChildStatus::Deleted };
                if let Some(id) = children.get(self.luck.below(children.len() + 1)) {
                    let changed = being.step(rules, Input::ChildChanged { id: *id, status }, self.now);
                    self.persist(&being, changed.facts)?;
                }
            }
            if self.luck.percent(2) {
                let ready = being.step(rules, Input::Stop, self.now);
                self.persist(&being, ready.facts)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, rules: &Rules, effect: Effect) -> Result<Input, Died> {
        match effect {
            Effect::Think { request, worst, .. } => {
                testing::assert_well_formed(&request.messages);
                let tokens = rules.counter.prompt_tokens(&request) + u64::from(rules.max_tokens);
                assert!(tokens <= u64::from(rules.context_tokens), "{tokens} tokens are sent, answer included");
                let left = self.left(rules);
                self.spent_while_closed += u32::from(!left.iter().all(|left| left.is_positive()));
                self.overdrawn += u32::from(left.iter().any(|left| worst > *left));
                if self.luck.percent(3) {
                    let limit = Limit::Cap("all".into());
                    return Ok(Input::Capped(Closed { limit, left: Usd::ZERO, worst: None }));
                }
                Ok(Input::Thought { result: self.think(rules, &request), elapsed: Span::from_secs(1) })
            }
            Effect::Call(call) => {
                self.maybe_crash()?;
                assert!(self.open_calls().contains(&call.id), "a call is made only when its start is durable");
                *self.made.entry(call.id.clone()).or_default() += 1;
                if self.luck.percent(5) {
                    return Ok(Input::Abandoned);
                }
                let outcome = self.outcome();
                let transaction = outcome.revenue.as_ref().and_then(|revenue| revenue.transaction.clone());
                self.earned.extend(transaction.map(|transaction| (call.id, transaction)));
                Ok(Input::Called(outcome))
            }
            Effect::Ask(question) => {
                assert_eq!(
                    self.replay().questions.waiting(),
                    Some(question.as_ref()),
                    "a question is durable before anybody sees it"
                );
                let answer = match self.luck.below(5) {
                    0 | 1 => Answer::Approved,
                    2 => Answer::Denied { reason: None },
                    3 => Answer::Expired,
                    _ => return Ok(Input::Stop),
                };
                let number = question.number - u64::from(self.luck.percent(10));
                Ok(Input::Answered { number, answer })
            }
            Effect::Rest(_) => Ok(self.wake(rules)),
            Effect::End(ending) => Ok(Input::Closed { failed: matches!(ending, Ending::Upstream { .. }) }),
        }
    }

    /// Tells whether a process dies here.
    pub(super) fn dies(&mut self) -> bool {
        self.luck.percent(10)
    }

    fn outcome(&mut self) -> Outcome {
        if self.spawns && self.luck.percent(40) {
            let id = Uuid::from_u128(self.luck.below(usize::MAX).try_into().unwrap());
            let usd = self.luck.percent(60).then(|| testing::usd(["0.3", "0.7", "0.70000001", "0"][self.luck.below(4)]));
            let (name, ticker, specialty) = (self.luck.below(40).to_string(), "T".into(), "maps".into());
            return Outcome::success(json!({})).spawning(Spawn { id, name, ticker, specialty, usd, pid: 1 });
        }
        let mut outcome = match self.luck.below(3) {
            0 => Outcome::failed("remote_tool", "no"),
            1 => Outcome::indeterminate("timeout", "late"),
            _ => Outcome::success(json!({ "ok": true })),
        };
        let transaction = Some(self.luck.below(5).to_string());
        outcome.revenue = self.luck.percent(30).then(|| Revenue { amount: testing::usd("0.5"), transaction });
        outcome
    }

    fn think(&mut self, rules: &Rules, request: &ChatRequest) -> Result<Thought, ThinkError> {
        let price = price();
        let most = (rules.counter.prompt_tokens(request), u64::from(rules.max_tokens));
        let (prompt, answer) = (self.tokens(), self.tokens());
        let usage = if self.honest { Usage::new(prompt.min(most.0), answer.min(most.1)) } else { Usage::new(prompt, answer) };
        if self.luck.percent(10) {
            let class =
                if self.luck.percent(50) { ThinkErrorClass::TooLong } else { ThinkErrorClass::Transient { retry_after: None } };
            return Err(ThinkError {
                class,
                message: "brama: HTTP 503".into(),
                spent: self.luck.percent(50).then_some((usage, price)).into_iter().collect(),
            });
        }
        let calls = (0..self.luck.below(4)).map(|_| self.call()).collect();
        let finish = if self.luck.percent(10) { Finish::Length } else { Finish::Stop };
        let completion = Completion { model: "smol".into(), content: Some("…".into()), tool_calls: calls, finish, usage };
        Ok(Thought { completion, price, passed_over: Vec::new() })
    }

    fn tokens(&mut self) -> u64 {
        u64::try_from(self.luck.below(500)).unwrap()
    }

    fn call(&mut self) -> ToolCall {
        self.next_call += 1;
        ToolCall::new(format!("call-{}", self.next_call), "finance__sell", "{}")
    }
}

fn price() -> Price {
    Price { input: testing::usd("1000"), output: testing::usd("2000") }
}

pub(super) fn rules(context_tokens: u32, limits: Limits) -> Rules {
    Rules {
        max_tool_rounds: 3,
        instance_usd_per_hour: testing::usd(if limits.reserve { "0" } else { "1" }),
        stimulus: Some("rain".into()),
        tools: Vec::new().into(),
        context_tokens,
        counter: Counter::estimate(),
        max_tokens: 100,
        retry: Retry { max_attempts: Some(5), ..Retry::default() },
        approval: Approval::default(),
        limits,
        children: None,
        offers: [Offer { model: "smol".into(), price: price(), max_tokens: 100, is_of_chain: true }].into(),
    }
}

pub(super) fn check(world: &World) {
    let state = world.replay();
    slots::check(&world.journal, &state);
    assert_eq!(state.folded.messages + u64::try_from(state.conversation.len()).unwrap(), world.said(), "no message is lost");
    assert!(state.budget.is_balanced(), "money is what its parts say: {:?}", state.budget);
    assert_eq!(world.spent_while_closed, 0, "nothing is spent while the gate is closed");
    let mut told = None;
    for event in world.journal.iter().map(|record| &record.event) {
        match event {
            Event::Warning { message } if message.contains("left of what a") => {
                let limit = message.rsplit_once("left of what a").map(|(_, limit)| limit);
                assert_ne!(std::mem::replace(&mut told, limit), limit, "a limit that holds is told once, and not at each wake");
            }
            Event::Started { .. } | Event::CostDebited { .. } | Event::Warning { .. } => told = None,
            _ => {}
        }
    }
    let count = |wanted: fn(&Event) -> Option<&String>| {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        world.journal.iter().filter_map(|record| wanted(&record.event)).for_each(|id| *counts.entry(id).or_default() += 1);
        counts
    };
    let started = count(|event| if let Event::ToolStarted { call_id, .. } = event { Some(call_id) } else { None });
    let finished = count(|event| if let Event::ToolFinished { call_id, .. } = event { Some(call_id) } else { None });
    let granted = count(|event| if let Event::FundsGranted { id, .. } = event { Some(id) } else { None });
    for (id, times) in &world.made {
        assert_eq!((*times, started.get(id.as_str())), (1, Some(&1)), "{id} is made once, after its start was durable");
    }
    assert!(finished.values().all(|times| *times == 1), "a call ends once: {finished:?}");
    assert!(started.keys().all(|id| finished.contains_key(id)), "a call that began has an end");
    assert!(granted.values().all(|times| *times == 1), "a grant is recorded once: {granted:?}");
    let is_debit = |record: &Record| matches!(record.event, Event::CostDebited { .. });
    for pair in world.journal.windows(2).filter(|pair| matches!(pair[1].event, Event::ModelCompleted { .. })) {
        assert!(is_debit(&pair[0]), "an answer that is kept is paid, wherever the write was torn: {:?}", pair[0].event);
    }
    for record in &world.journal {
        let Event::ToolFinished { call_id, status: Status::Success, .. } = &record.event else { continue };
        let is_credited = world.earned.get(call_id).is_none_or(|transaction| state.budget.credited.contains(transaction));
        assert!(is_credited, "{call_id} is known to have earned, and the money is not there");
    }
    let recent: Vec<&ActionRecord> = state.recent_actions.iter().collect();
    assert!(recent.len() <= super::MAX_RECENT_ACTIONS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_crash_makes_a_call_twice_or_loses_or_doubles_money(seed in any::<u64>(), context in prop_oneof![Just(600_u32), Just(100_000)]) {
        let mut world = World::new(seed, false);
        let rules = rules(context, Limits::default());
        for _ in 0..8 {
            let _ended = world.live(&rules, 60);
        }
        let mut being = Being::new(world.replay());
        let facts = being.recover(&world.open_calls(), Timestamp::UNIX_EPOCH).facts;
        world.write(being.state().cycle, facts);
        check(&world);
        let lost = world.journal.iter().filter(|record| matches!(&record.event, Event::ToolFinished { status: Status::Indeterminate, error_code, .. } if error_code.as_deref() == Some("interrupted"))).count();
        prop_assert!(lost <= world.made.len() + usize::try_from(world.crashes).unwrap());
    }

    #[test]
    fn no_limit_is_passed_however_the_clock_jumps_and_wherever_a_process_dies(
        seed in any::<u64>(), reserve in any::<bool>(), of_cycle in prop_oneof![Just("0.4"), Just("1"), Just("100")]
    ) {
        let mut world = World::new(seed, reserve);
        let (per_day, per_cycle) = (Some(testing::usd("2")), Some(testing::usd(of_cycle)));
        let rules = rules(600, Limits { per_day, per_cycle, reserve, warn_below: [testing::usd("5")].into(), deadline: None });
        for _ in 0..8 {
            let _ended = world.live(&rules, 60);
        }
        let mut being = Being::new(world.replay());
        let facts = being.recover(&world.open_calls(), world.now).facts;
        world.write(being.state().cycle, facts);
        check(&world);
        if reserve {
            prop_assert_eq!(world.overdrawn, 0, "a call is made only when what it may cost is there");
            prop_assert!(!world.replay().budget.remaining.is_negative());
        }
    }
}

/// Calls that were begun, and what was said about them before.
fn unapproved(world: &World) -> Vec<String> {
    let (mut asked, mut approved, mut found) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
    for record in &world.journal {
        match &record.event {
            Event::InputRequested { question } => {
                assert!(
                    asked.last_key_value().is_none_or(|(last, _)| *last < question.number),
                    "a question has a number of its own"
                );
                asked.insert(question.number, question.call_id.clone());
            }
            Event::InputAnswered { number, answer } => {
                let call = asked.get_mut(number).map(std::mem::take).unwrap();
                assert!(!call.is_empty(), "an answer counts once");
                approved.extend((*answer == Answer::Approved).then_some(call));
            }
            Event::ToolStarted { call_id, .. } if !approved.remove(call_id) => found.push(call_id.clone()),
            _ => {}
        }
    }
    found
}

#[test]
fn no_call_that_needs_a_persons_word_is_made_without_it_wherever_a_process_dies() {
    let (mut asked, mut made, mut crashes, mut again) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut world = World::new(seed, false);
        let tools = globset::GlobSetBuilder::new().add(globset::Glob::new("finance__*").unwrap()).build().unwrap();
        let tool = ToolDefinition { name: "finance__sell".into(), description: String::new(), parameters: json!({}) };
        let approval = Approval { tools, within: Span::from_secs(60) };
        let rules = Rules { approval, tools: [tool].into(), ..rules(2_000, Limits::default()) };
        for _ in 0..12 {
            again += usize::from(world.replay().questions.open.is_some());
            let _ended = world.live(&rules, 60);
        }
        let state = world.replay();
        let facts = Being::new(state).recover(&world.open_calls(), Timestamp::UNIX_EPOCH).facts;
        world.write(world.replay().cycle, facts);
        check(&world);
        assert_eq!(unapproved(&world), [""; 0]);
        asked += world.replay().questions.asked;
        made += world.made.len();
        crashes += world.crashes;
    }
    assert!(
        asked > 500 && made > 100 && crashes > 100 && again > 50,
        "{asked} asked, {made} made, {crashes} crashes, {again} went on"
    );
}

#[test]
fn a_life_in_a_small_window_folds_and_its_journal_makes_the_same_state_after_every_crash() {
    let (mut folds, mut crashes) = (0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed, false);
        for _ in 0..12 {
            let _ended = world.live(&rules(600, Limits::default()), 60);
        }
        let facts = Being::new(world.replay()).recover(&world.open_calls(), Timestamp::UNIX_EPOCH).facts;
        world.write(world.replay().cycle, facts);
        check(&world);
        folds += world.folds();
        crashes += world.crashes;
    }
    assert!(folds > 100 && crashes > 100, "{folds} folds, {crashes} crashes");
}

#[test]
fn a_life_of_three_thousand_cycles_has_no_larger_state_than_one_of_three_hundred() {
    let (rules, mut world) = (rules(2_000, Limits::default()), World::new(7, false));
    let (mut being, mut replayed) = (Being::new(testing::state()), testing::state());
    let mut largest = [0; 2];
    let mut input = Input::Wake;
    while being.state().cycle < 3_000 {
        let Ready { facts, then } = being.step(&rules, input, Timestamp::UNIX_EPOCH);
        facts.iter().for_each(|fact| {
            let cycle = replayed.cycle + u64::from(matches!(fact, Event::CycleStarted { .. }));
            replayed.absorb(fact, cycle, Timestamp::UNIX_EPOCH);
        });
        input = match then.unwrap() {
            Effect::Think { request, .. } => {
                let free = |thought: Thought| Thought { price: Price::default(), ..thought };
                let unpaid = |error: ThinkError| ThinkError { spent: Vec::new(), ..error };
                Input::Thought { result: world.think(&rules, &request).map(free).map_err(unpaid), elapsed: Span::ZERO }
            }
            Effect::Call(_) => Input::Called(world.outcome()),
            Effect::Rest(_) | Effect::Ask(_) => Input::Wake,
            Effect::End(_) => {
                being = Being::new(being.state().clone());
                Input::Wake
            }
        };
        let largest = &mut largest[usize::from(being.state().cycle > 300)];
        *largest = serde_json::to_vec(being.state()).unwrap().len().max(*largest);
    }
    let [young, old] = largest;
    assert!(old < young * 5 / 4 && old < 40_000, "{young} bytes in the first 300 cycles, {old} later");
    assert_eq!(*being.state(), replayed);
}
