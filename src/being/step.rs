use std::{
    borrow::Cow,
    collections::{BTreeSet, VecDeque},
};

use super::{
    asking::unanswered,
    budget::{Cost, Price},
    chat::{Completion, Finish, ToolCall, Usage},
    event::Event,
    exchange::{Effect, Ending, Input, Ready, ThinkError, ThinkErrorClass, Thought},
    framing::framing,
    gate::{Closed, Limit, gate, warnings},
    outcome::{Outcome, Revenue, Status},
    report::{CycleStatus, Report},
    rules::Rules,
    state::{AgentState, BeingStatus},
    window::Window,
};
use crate::vocab::{Span, Timestamp, Usd};

/// A being that is animated: its state, which outlives every process, and its turn, which does not.
#[derive(Debug)]
pub struct Being {
    pub(super) state: AgentState,
    turn: Turn,
    window: Window,
    stopping: bool,
    /// The limit that was last told to hold, until a model is asked again.
    told: Option<Limit>,
}

/// Where a being is in its cycle.
#[derive(Debug)]
pub(super) enum Turn {
    Resting,
    Thinking {
        cycle: Cycle,
        attempt: u32,
    },
    /// The front of `queue` is under way.
    Calling {
        cycle: Cycle,
        queue: VecDeque<ToolCall>,
    },
    /// The front of `queue` waits for a person's word; the state holds the question.
    Asking {
        cycle: Cycle,
        queue: VecDeque<ToolCall>,
    },
    Ended,
}

/// What a cycle did so far.
#[derive(Debug, Default)]
pub(super) struct Cycle {
    pub(super) rounds: u32,
    pub(super) actions: Vec<String>,
    /// When it began, or went on after a person was asked.
    pub(super) began: Option<Timestamp>,
    /// Whether the last answer was cut off and the being does not know yet.
    cut_off: bool,
}

impl Being {
    /// A being at rest, as a process finds it.
    pub const fn new(state: AgentState) -> Self {
        Self { state, turn: Turn::Resting, window: Window::new(), stopping: false, told: None }
    }

    /// The state, with every fact of every step so far applied.
    pub const fn state(&self) -> &AgentState {
        &self.state
    }

    /// Tells whether the process was asked to leave.
    pub const fn is_stopping(&self) -> bool {
        self.stopping
    }

    /// Tells whether a cycle is under way.
    pub const fn is_busy(&self) -> bool {
        matches!(self.turn, Turn::Thinking { .. } | Turn::Calling { .. } | Turn::Asking { .. })
    }

    /// What keeps a being at rest from its next cycle, if anything does; nothing that it would cost to ask a model is left out.
    pub fn closed(&self, rules: &Rules, now: Timestamp) -> Option<Closed> {
        let worst = if rules.limits.reserve { self.foreseen(rules) } else { Usd::ZERO };
        gate(&self.state.budget, &rules.limits, Usd::ZERO, worst, now).err()
    }

    /// What the first call of the next cycle may cost, its framing left out.
    pub fn foreseen(&self, rules: &Rules) -> Usd {
        let mut window = self.window.clone();
        window.widen();
        let mut state = Cow::Borrowed(&self.state);
        if let Some(folded) = window.fold(&state, rules) {
            let (cycle, at) = (state.cycle, state.updated_at);
            state.to_mut().absorb(&folded, cycle, at);
        }
        let request = window.request(&state, rules);
        rules.worst_case(&request.model, window.most_counted())
    }

    /// The limit that the being told to hold it, until it asks a model again.
    pub const fn told(&self) -> Option<&Limit> {
        self.told.as_ref()
    }

    /// Answers the calls that an earlier process left open: one that had begun is `indeterminate` and is never made again
    /// (SPEC §3), one that had not is `failed`. A call that waits for a person goes on waiting, and so do those behind it.
    pub fn recover(&mut self, begun: &BTreeSet<String>, now: Timestamp) -> Ready {
        let mut ready = Ready::default();
        let mut calls = unanswered(&self.state);
        if let Some(question) = &self.state.questions.open
            && question.form.is_none()
            && let Some(at) = calls.iter().position(|call| call.id == question.call_id)
        {
            let cycle = Cycle { rounds: question.rounds, ..Cycle::default() };
            self.turn = Turn::Asking { cycle, queue: calls.split_off(at).into() };
        }
        for call in calls {
            let cut_off = || if begun.contains(&call.id) { lost() } else { not_begun() };
            let outcome = self.spawned_by(&call).unwrap_or_else(cut_off);
            self.finish(&call, outcome, &mut ready, now);
        }
        ready
    }

    /// Advances the being by one step. Same being, rules, input and time, same result, on any machine.
    ///
    /// The facts are already applied to the state when it returns: a driver that cannot make them durable must drop the being.
    pub fn step(&mut self, rules: &Rules, input: Input, now: Timestamp) -> Ready {
        let mut ready = Ready::default();
        let turn = std::mem::replace(&mut self.turn, Turn::Resting);
        self.turn = match (turn, input) {
            (turn, Input::Granted { id, usd }) => {
                if !self.state.budget.granted.contains_key(&id) {
                    self.note(&mut ready, Event::FundsGranted { id, usd }, now);
                }
                turn
            }
            (turn, Input::ChildChanged { id, status }) => {
                self.hear_of_child(id, status, &mut ready, now);
                turn
            }
            (turn, Input::Edited(change)) => {
                self.note(&mut ready, Event::MindChanged { change }, now);
                turn
            }
            (turn, Input::Noticed { message }) => {
                self.note(&mut ready, Event::Warning { message }, now);
                turn
            }
            (turn, Input::Labelled(labels)) => {
                if self.state.labels != labels {
                    self.note(&mut ready, Event::Labelled { labels }, now);
                }
                turn
            }
            (_, Input::Closed { failed }) => self.close(rules, failed, &mut ready, now),
            (Turn::Ended, _) => Turn::Ended,
            (turn, Input::Stop) => self.stop(turn, &mut ready, now),
            (Turn::Resting, Input::Capped(closed)) => self.hold(closed, Vec::new(), &mut ready, now),
            (Turn::Thinking { cycle, .. }, Input::Capped(closed)) => self.hold(closed, cycle.actions, &mut ready, now),
            (Turn::Resting, Input::Wake) => self.begin(rules, None, &mut ready, now),
            (Turn::Resting, Input::Due { slot }) => self.begin(rules, Some(slot), &mut ready, now),
            (Turn::Asking { cycle, queue }, Input::Wake | Input::Due { .. }) => {
                self.ask_again(rules, cycle, queue, &mut ready, now)
            }
            (Turn::Asking { cycle, queue }, Input::Answered { number, answer }) if self.state.questions.is_waiting(number) => {
                self.note(&mut ready, Event::InputAnswered { number, answer }, now);
                self.ask_again(rules, cycle, queue, &mut ready, now)
            }
            (Turn::Thinking { cycle, attempt }, Input::Retooled { after }) => {
                self.think(rules, cycle, (attempt, after), &mut ready, now)
            }
            (Turn::Thinking { cycle, .. }, Input::Thought { result: Ok(thought), elapsed }) => {
                self.thought(rules, cycle, thought, elapsed, &mut ready, now)
            }
            (Turn::Thinking { cycle, attempt }, Input::Thought { result: Err(error), elapsed }) => {
                self.no_thought(rules, cycle, attempt, error, elapsed, &mut ready, now)
            }
            (Turn::Calling { cycle, queue }, Input::Elicited(form)) => {
                self.elicit(rules, (&cycle, &queue), *form, &mut ready, now);
                Turn::Calling { cycle, queue }
            }
            (turn @ Turn::Calling { .. }, Input::Answered { number, answer }) if self.state.questions.is_waiting(number) => {
                self.note(&mut ready, Event::InputAnswered { number, answer }, now);
                turn
            }
            (Turn::Calling { cycle, queue }, Input::Called(outcome)) => self.called(rules, cycle, queue, outcome, &mut ready, now),
            (Turn::Calling { cycle, queue }, Input::Abandoned) => self.called(rules, cycle, queue, lost(), &mut ready, now),
            (Turn::Thinking { .. } | Turn::Asking { .. }, Input::Abandoned) => self.end(Ending::Stopped, &mut ready),
            (
                turn,
                Input::Wake
                | Input::Due { .. }
                | Input::Retooled { .. }
                | Input::Elicited(_)
                | Input::Thought { .. }
                | Input::Called(_)
                | Input::Answered { .. }
                | Input::Capped(_)
                | Input::Abandoned,
            ) => turn,
        };
        ready
    }

    /// Notes a fact: applied now, durable before what follows.
    pub(super) fn note(&mut self, ready: &mut Ready, event: Event, now: Timestamp) {
        let cycle = self.state.cycle + u64::from(matches!(event, Event::CycleStarted { .. }));
        self.state.absorb(&event, cycle, now);
        ready.facts.push(event);
    }

    /// Begins a cycle: gate, framing, first round (SPEC §4). A slot that was taken before is not taken again.
    fn begin(&mut self, rules: &Rules, slot: Option<Timestamp>, ready: &mut Ready, now: Timestamp) -> Turn {
        if let Some(closed) = self.closed(rules, now) {
            return self.hold(closed, Vec::new(), ready, now);
        }
        self.window.widen();
        let stimulus = rules.stimulus.clone().filter(|_| self.state.cycle == 0);
        let slot = slot.filter(|slot| Some(*slot) > self.state.slot);
        self.note(ready, Event::CycleStarted { framing: framing(&self.state), stimulus, slot }, now);
        self.think(rules, Cycle { began: Some(now), ..Cycle::default() }, (1, Span::ZERO), ready, now)
    }

    /// Asks a model, once what does not fit its window is folded, if nothing holds that back.
    fn think(&mut self, rules: &Rules, cycle: Cycle, (attempt, after): (u32, Span), ready: &mut Ready, now: Timestamp) -> Turn {
        let cycle = match self.end_if_overdue(rules, cycle, &VecDeque::new(), ready, now) {
            Ok(cycle) => cycle,
            Err(ended) => return ended,
        };
        if let Some(folded) = self.window.fold(&self.state, rules) {
            self.note(ready, folded, now);
        }
        let request = self.window.request(&self.state, rules);
        let worst = rules.worst_case(&request.model, self.window.most_counted());
        let budget = &self.state.budget;
        if let Err(closed) = gate(budget, &rules.limits, budget.cycle_spent, worst, now) {
            return self.hold(closed, cycle.actions, ready, now);
        }
        self.told = None;
        ready.then = Some(Effect::Think { request, after, worst });
        Turn::Thinking { cycle, attempt }
    }

    /// Pays for a call. What is to be said about it comes first: of a torn write the beginning is kept.
    fn charge(&mut self, rules: &Rules, cost: Cost, ready: &mut Ready, now: Timestamp) {
        for message in warnings(&rules.limits, self.state.budget.remaining, cost.total()) {
            self.note(ready, Event::Warning { message }, now);
        }
        self.note(ready, cost.into(), now);
    }

    fn thought(
        &mut self,
        rules: &Rules,
        mut cycle: Cycle,
        thought: Thought,
        elapsed: Span,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        let Thought { completion, price, passed_over } = thought;
        for error in passed_over {
            self.note_failure(rules, &error, Span::ZERO, ready, now);
        }
        let Completion { model, content, tool_calls, finish, usage } = completion;
        self.window.learn(usage.prompt_tokens);
        let elapsed_ms = elapsed.as_millis();
        let event =
            Event::ModelCompleted { model, usage, content: content.clone(), tool_calls: tool_calls.clone(), finish, elapsed_ms };
        // The money first: of a torn write the beginning is kept, and an answer that is kept must be paid.
        self.charge(rules, Cost::of(usage, price, elapsed, rules.instance_usd_per_hour), ready, now);
        self.note(ready, event, now);
        cycle.cut_off = finish == Finish::Length;
        if tool_calls.is_empty() {
            self.tell_cut_off(&mut cycle, ready, now);
            return self.rest(CycleStatus::Completed, content, cycle.actions, ready);
        }
        cycle.rounds += 1;
        self.call_next(rules, cycle, tool_calls.into(), ready, now)
    }

    /// Tells the model that its answer was cut off; after the results of its calls, which must follow the answer at once.
    pub(super) fn tell_cut_off(&mut self, cycle: &mut Cycle, ready: &mut Ready, now: Timestamp) {
        if std::mem::take(&mut cycle.cut_off) {
            let message = "Your last answer was cut off by its token limit. Answer in less, or go on in parts.".to_owned();
            self.note(ready, Event::Told { message }, now);
        }
    }

    /// Begins the call at the front of the queue, or the next round when none is left.
    pub(super) fn call_next(
        &mut self,
        rules: &Rules,
        cycle: Cycle,
        queue: VecDeque<ToolCall>,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        if self.stopping {
            for call in &queue {
                self.finish(call, not_begun(), ready, now);
            }
            return self.end(Ending::Stopped, ready);
        }
        let cycle = match self.end_if_overdue(rules, cycle, &queue, ready, now) {
            Ok(cycle) => cycle,
            Err(ended) => return ended,
        };
        let Some(call) = queue.front().cloned() else { return self.next_round(rules, cycle, ready, now) };
        if rules.asks_about(&call.function.name) {
            return self.ask(rules, cycle, queue, &call, ready, now);
        }
        self.begin_call(call, cycle, queue, ready, now)
    }

    pub(super) fn begin_call(
        &mut self,
        call: ToolCall,
        cycle: Cycle,
        queue: VecDeque<ToolCall>,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        let arguments = call.function.arguments.clone();
        self.note(ready, Event::ToolStarted { call_id: call.id.clone(), tool: call.function.name.clone(), arguments }, now);
        ready.then = Some(Effect::Call(call));
        Turn::Calling { cycle, queue }
    }

    pub(super) fn called(
        &mut self,
        rules: &Rules,
        mut cycle: Cycle,
        mut queue: VecDeque<ToolCall>,
        outcome: Outcome,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        if let Some(call) = queue.pop_front() {
            cycle.actions.push(call.function.name.clone());
            let outcome = self.spawn(rules, &call, outcome, ready, now);
            self.finish(&call, outcome, ready, now);
        }
        self.call_next(rules, cycle, queue, ready, now)
    }

    /// Records how a call ended, and what it earned.
    pub(super) fn finish(&mut self, call: &ToolCall, outcome: Outcome, ready: &mut Ready, now: Timestamp) {
        let result = outcome.envelope();
        let Outcome { status, error_code, chat_id, message_id, change, revenue, screened, warning, .. } = outcome;
        let (call_id, tool) = (call.id.clone(), call.function.name.clone());
        let finished =
            Event::ToolFinished { call_id, tool: tool.clone(), status, error_code, result, change, chat_id, message_id, screened };
        // The money first: of a torn write the beginning is kept, and a result that is kept must be credited.
        let earned = revenue.filter(|_| status == Status::Success);
        if let Some(revenue) = earned.filter(|revenue| !self.is_credited(revenue.transaction.as_deref())) {
            let Revenue { amount, transaction } = revenue;
            self.note(ready, Event::RevenueCredited { amount, source: tool, transaction }, now);
        }
        self.note(ready, finished, now);
        if let Some(message) = warning {
            self.note(ready, Event::Warning { message }, now);
        }
    }

    fn is_credited(&self, transaction: Option<&str>) -> bool {
        transaction.is_some_and(|id| self.state.budget.credited.contains(id))
    }

    /// Goes on to the next round of a cycle: its bound, the gate, then the model.
    pub(super) fn next_round(&mut self, rules: &Rules, mut cycle: Cycle, ready: &mut Ready, now: Timestamp) -> Turn {
        self.tell_cut_off(&mut cycle, ready, now);
        if cycle.rounds >= rules.max_tool_rounds {
            self.note(ready, Event::Warning { message: "maximum tool rounds reached".to_owned() }, now);
            return self.rest(CycleStatus::ToolRoundLimit, None, cycle.actions, ready);
        }
        self.think(rules, cycle, (1, Span::ZERO), ready, now)
    }

    /// Charges what was counted, then asks again, folds more, or ends.
    #[expect(clippy::too_many_arguments, reason = "the parts of one turn, its error, and the step that they belong to")]
    fn no_thought(
        &mut self,
        rules: &Rules,
        cycle: Cycle,
        attempt: u32,
        error: ThinkError,
        elapsed: Span,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        self.note_failure(rules, &error, elapsed, ready, now);
        if self.stopping {
            return self.end(Ending::Stopped, ready);
        }
        let budget = &self.state.budget;
        if let Err(closed) = gate(budget, &rules.limits, budget.cycle_spent, Usd::ZERO, now) {
            return self.hold(closed, cycle.actions, ready, now);
        }
        let may_go_on = rules.retry.max_attempts.is_none_or(|most| attempt < most);
        match error.class {
            ThinkErrorClass::TooLong if self.window.shrink(rules) => self.think(rules, cycle, (attempt, Span::ZERO), ready, now),
            ThinkErrorClass::Transient { retry_after } if may_go_on => {
                let again = (attempt.saturating_add(1), rules.retry.wait_after(attempt, retry_after));
                self.think(rules, cycle, again, ready, now)
            }
            ThinkErrorClass::Transient { .. } => self.end(Ending::Upstream { permanent: false, message: error.message }, ready),
            ThinkErrorClass::Permanent | ThinkErrorClass::TooLong => {
                self.end(Ending::Upstream { permanent: true, message: error.message }, ready)
            }
        }
    }

    /// Charges what was counted before a failure and, once, the time that it took, and warns of it.
    fn note_failure(&mut self, rules: &Rules, error: &ThinkError, elapsed: Span, ready: &mut Ready, now: Timestamp) {
        let rate = rules.instance_usd_per_hour;
        let mut unpaid = elapsed;
        for (usage, price) in &error.spent {
            self.charge(rules, Cost::of(*usage, *price, std::mem::take(&mut unpaid), rate), ready, now);
        }
        let time = Cost::of(Usage::default(), Price::default(), unpaid, rate);
        if time.total().is_positive() {
            self.charge(rules, time, ready, now);
        }
        self.note(ready, Event::Warning { message: error.message.clone() }, now);
    }

    /// Ends the cycle where nothing more may be spent, and tells why, once. That there is no money, `exhausted` says.
    fn hold(&mut self, closed: Closed, actions: Vec<String>, ready: &mut Ready, now: Timestamp) -> Turn {
        let is_news = self.told.replace(closed.limit.clone()).as_ref() != Some(&closed.limit);
        if is_news && (closed.limit != Limit::Balance || closed.worst.is_some()) {
            self.note(ready, Event::Warning { message: closed.to_string() }, now);
        }
        if closed.limit == Limit::Balance && self.state.status != BeingStatus::Exhausted {
            self.note(ready, Event::Exhausted, now);
        }
        self.rest(closed.limit.into(), None, actions, ready)
    }

    pub(super) fn rest(&self, status: CycleStatus, content: Option<String>, actions: Vec<String>, ready: &mut Ready) -> Turn {
        if self.stopping {
            return self.end(Ending::Stopped, ready);
        }
        ready.then = Some(Effect::Rest(Report::of(&self.state, status, content, actions)));
        Turn::Resting
    }

    /// Begins no new effect; one that is under way may still end, or be abandoned.
    fn stop(&mut self, turn: Turn, ready: &mut Ready, now: Timestamp) -> Turn {
        if !self.stopping {
            self.stopping = true;
            self.note(ready, Event::Stopping, now);
        }
        match turn {
            Turn::Resting | Turn::Asking { .. } => self.end(Ending::Stopped, ready),
            turn => turn,
        }
    }

    fn end(&self, ending: Ending, ready: &mut Ready) -> Turn {
        ready.then = Some(Effect::End(ending));
        Turn::Ended
    }

    fn close(&mut self, rules: &Rules, failed: bool, ready: &mut Ready, now: Timestamp) -> Turn {
        let is_exhausted = self.closed(rules, now).is_some_and(|closed| closed.limit == Limit::Balance);
        let status = match (failed, is_exhausted) {
            (true, _) => BeingStatus::Failed,
            (false, false) => BeingStatus::Stopped,
            (false, true) => BeingStatus::Exhausted,
        };
        self.note(ready, Event::Stopped { status }, now);
        Turn::Ended
    }
}

fn lost() -> Outcome {
    Outcome::indeterminate("interrupted", "the call was cut off; whether it took effect is unknown, and it is not made again")
}

fn not_begun() -> Outcome {
    Outcome::failed("not_started", "the being stopped before this call began")
}

#[cfg(test)]
#[path = "step_tests.rs"]
mod tests;
