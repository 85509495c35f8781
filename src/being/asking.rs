//! What waits for a person's word: calls, and what servers ask in the midst of them.

use std::collections::{BTreeSet, VecDeque};

use super::{
    chat::{Role, ToolCall},
    event::Event,
    exchange::{Effect, Ready},
    outcome::Outcome,
    question::{Answer, Form, Question},
    rules::Rules,
    state::AgentState,
    step::{Being, Cycle, Turn},
};
use crate::vocab::Timestamp;

impl Being {
    /// Asks a person whether a call may be made.
    pub(super) fn ask(
        &mut self,
        rules: &Rules,
        cycle: Cycle,
        queue: VecDeque<ToolCall>,
        call: &ToolCall,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        let question = self.question(rules, cycle.rounds, call, None, now);
        self.note(ready, Event::InputRequested { question: question.clone() }, now);
        ready.then = Some(Effect::Ask(question));
        Turn::Asking { cycle, queue }
    }

    /// Asks what the server of the call at the front of the queue wants to know; the call goes on.
    pub(super) fn elicit(
        &mut self,
        rules: &Rules,
        (cycle, queue): (&Cycle, &VecDeque<ToolCall>),
        form: Form,
        ready: &mut Ready,
        now: Timestamp,
    ) {
        if let Some(call) = queue.front() {
            let question = self.question(rules, cycle.rounds, call, Some(form), now);
            self.note(ready, Event::InputRequested { question }, now);
        }
    }

    fn question(&self, rules: &Rules, rounds: u32, call: &ToolCall, form: Option<Form>, now: Timestamp) -> Box<Question> {
        Box::new(Question {
            number: self.state.questions.asked.saturating_add(1),
            call_id: call.id.clone(),
            tool: call.function.name.clone(),
            arguments: call.function.arguments.clone(),
            asked_at: now,
            until: now.checked_add(rules.approval.within.as_duration()).unwrap_or(Timestamp::MAX),
            rounds,
            answer: None,
            form,
        })
    }

    /// Does what was said about the call at the front of the queue, or goes on waiting where nothing was said yet.
    pub(super) fn ask_again(
        &mut self,
        rules: &Rules,
        mut cycle: Cycle,
        queue: VecDeque<ToolCall>,
        ready: &mut Ready,
        now: Timestamp,
    ) -> Turn {
        cycle.began = Some(now);
        let Some(question) = self.state.questions.open.clone() else { return self.call_next(rules, cycle, queue, ready, now) };
        let refused = match &question.answer {
            None => {
                ready.then = Some(Effect::Ask(Box::new(question)));
                return Turn::Asking { cycle, queue };
            }
            Some(Answer::Approved | Answer::Given) => match queue.front().cloned() {
                Some(call) => return self.begin_call(call, cycle, queue, ready, now),
                None => return self.next_round(rules, cycle, ready, now),
            },
            Some(Answer::Denied { reason }) => {
                let reason = reason.as_deref().unwrap_or("no reason was given");
                Outcome::failed("denied", format!("the operator does not let this call be made: {reason}"))
            }
            Some(Answer::Expired) => {
                Outcome::failed("denied", "this call needs an operator's approval, and nobody answered in time; it was not made")
            }
        };
        self.called(rules, cycle, queue, refused, ready, now)
    }
}

/// The calls of the conversation's last answer that have no result.
pub(super) fn unanswered(state: &AgentState) -> Vec<ToolCall> {
    let Some(asked) = state.conversation.iter().rposition(|message| message.role == Role::Assistant) else { return Vec::new() };
    let mut tail = state.conversation.iter().skip(asked);
    let calls = tail.next().map(|message| message.tool_calls.clone()).unwrap_or_default();
    let answered: BTreeSet<&str> = tail.filter_map(|message| message.tool_call_id.as_deref()).collect();
    calls.into_iter().filter(|call| !answered.contains(call.id.as_str())).collect()
}
