use std::collections::{BTreeMap, VecDeque};

use super::{
    budget::{Budget, Cost},
    chat::ChatMessage,
    event::{Birth, Event, Record},
    family::Child,
    folded::Folded,
    framing::STIMULUS,
    question::Questions,
    state::{ActionRecord, AgentState, BeingStatus, CreatedResources, MAX_RECENT_ACTIONS, SCHEMA_VERSION},
};
use crate::vocab::{Timestamp, day_of};

impl AgentState {
    /// Begins a life from its first record; `None` if that is no birth, and not adopted either.
    pub fn born(first: &Record) -> Option<Self> {
        match &first.event {
            Event::Started { birth: Some(birth) } => Some(Self::newborn(birth, first.at)),
            Event::Adopted { state, .. } => Some(Self::clone(state)),
            _ => None,
        }
    }

    fn newborn(birth: &Birth, at: Timestamp) -> Self {
        Self {
            schema_version: SCHEMA_VERSION.to_owned(),
            identity: birth.identity.clone(),
            mind: birth.mind.clone(),
            status: BeingStatus::Starting,
            cycle: 0,
            slot: None,
            budget: Budget::new(birth.starting),
            folded: Folded::default(),
            conversation: Vec::new(),
            recent_actions: VecDeque::new(),
            created_resources: CreatedResources::default(),
            started_at: at,
            updated_at: at,
            labels: BTreeMap::new(),
            questions: Questions::default(),
        }
    }

    /// Applies one recorded fact, on replay.
    pub fn apply(&mut self, record: &Record) {
        self.absorb(&record.event, record.cycle, record.at);
    }

    /// Applies one fact: the only way in which a state changes, live and on replay alike. A `checkpoint` is about the state's picture and
    /// changes nothing.
    pub fn absorb(&mut self, event: &Event, cycle: u64, at: Timestamp) {
        match event {
            Event::Checkpoint { .. } => return,
            Event::Adopted { state, .. } => return self.clone_from(state),
            _ => self.updated_at = at,
        }
        match event {
            Event::Started { .. } => self.status = BeingStatus::Starting,
            Event::CycleStarted { framing, stimulus, slot } => {
                self.status = BeingStatus::Running;
                self.cycle = cycle;
                self.slot = self.slot.max(*slot);
                self.budget.begin_cycle();
                self.conversation.push(ChatMessage::user(framing));
                let observed = stimulus.iter().map(|text| ChatMessage::user(format!("{STIMULUS}{text}")));
                self.conversation.extend(observed);
            }
            Event::ModelCompleted { content, tool_calls, .. } => {
                self.conversation.push(ChatMessage::assistant(content.clone(), tool_calls.clone()));
            }
            Event::CostDebited { api, instance, tokens, .. } => {
                self.budget.debit(Cost { api: *api, instance: *instance, tokens: *tokens }, day_of(at));
            }
            Event::ToolFinished { .. } => self.finish_call(event, cycle, at),
            Event::RevenueCredited { amount, transaction, .. } => self.budget.credit(*amount, transaction.clone()),
            Event::FundsGranted { id, usd } => self.budget.grant(id.clone(), *usd),
            Event::ChildSpawned { child } => {
                self.budget.give(child.usd);
                self.mind.children.push(Child::clone(child));
            }
            Event::ChildChanged { id, status } => self.mind.hear_of_child(*id, *status),
            Event::MindChanged { change } => self.mind.apply(change.clone()),
            Event::Labelled { labels } => self.labels.clone_from(labels),
            Event::Told { message } => self.conversation.push(ChatMessage::user(message.clone())),
            Event::Folded { messages, summary } => self.fold(*messages, summary),
            Event::Exhausted => self.status = BeingStatus::Exhausted,
            Event::Stopping => self.status = BeingStatus::Stopping,
            Event::Stopped { status } => self.status = *status,
            Event::InputRequested { question } => self.questions.ask(question),
            Event::InputAnswered { number, answer } => self.questions.answer(*number, answer),
            Event::ToolStarted { call_id, .. } => self.questions.settle(call_id),
            Event::Warning { .. } | Event::Checkpoint { .. } | Event::Adopted { .. } => {}
        }
    }

    fn fold(&mut self, messages: u64, summary: &str) {
        let leaving = usize::try_from(messages).unwrap_or(usize::MAX).min(self.conversation.len());
        let gone = self.conversation.drain(..leaving).count();
        self.conversation.shrink_to_fit();
        let messages = self.folded.messages.saturating_add(u64::try_from(gone).unwrap_or(u64::MAX));
        self.folded = Folded { messages, summary: summary.to_owned() };
    }

    fn finish_call(&mut self, event: &Event, cycle: u64, at: Timestamp) {
        let Event::ToolFinished { call_id, tool, status, result, change, chat_id, message_id, .. } = event else { return };
        self.questions.settle(call_id);
        self.mind.answer_spawn(call_id);
        self.conversation.push(ChatMessage::tool(call_id, tool, result));
        self.recent_actions.push_back(ActionRecord { cycle, tool: tool.clone(), status: *status, at });
        let surplus = self.recent_actions.len().saturating_sub(MAX_RECENT_ACTIONS);
        self.recent_actions.drain(..surplus);
        if let Some(change) = change {
            self.mind.apply(change.clone());
        }
        let created = &mut self.created_resources;
        created.chat_ids.extend(chat_id.filter(|id| !created.chat_ids.contains(id)));
        created.message_ids.extend(message_id.filter(|id| !created.message_ids.contains(id)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::being::{Mind, Status, testing};

    fn record(cycle: u64, event: Event) -> Record {
        Record { seq: 1, at: Timestamp::UNIX_EPOCH, cycle, event }
    }

    #[test]
    fn a_life_begins_only_with_a_birth() {
        assert!(AgentState::born(&record(0, Event::Started { birth: None })).is_none());
        let birth =
            Birth { identity: testing::identity(), mind: Mind::new("Be.".into(), "smol".into()), starting: testing::usd("3") };
        let state = AgentState::born(&record(0, Event::Started { birth: Some(Box::new(birth)) })).unwrap();
        assert_eq!((state.status, state.budget.remaining), (BeingStatus::Starting, testing::usd("3")));
    }

    #[test]
    fn what_is_folded_leaves_the_conversation_and_a_state_of_before_has_nothing_folded() {
        let mut state = testing::state();
        let written = serde_json::to_value(&state).unwrap();
        assert!(written.get("folded").is_none(), "a reader of before reads it");
        assert_eq!(serde_json::from_value::<AgentState>(written).unwrap(), state);
        for message in ["a", "b", "c"] {
            state.apply(&record(0, Event::Told { message: message.into() }));
        }
        state.apply(&record(1, Event::Folded { messages: 2, summary: "Cycle 1:".into() }));
        assert_eq!(state.conversation, [ChatMessage::user("c")]);
        state.apply(&record(1, Event::Folded { messages: u64::MAX, summary: "Cycle 2:".into() }));
        assert_eq!((state.conversation.len(), state.folded.messages, state.folded.summary.as_str()), (0, 3, "Cycle 2:"));
    }

    #[test]
    fn only_the_last_hundred_actions_are_remembered_and_every_message_is_kept() {
        let mut state = testing::state();
        for n in 0..150_u64 {
            let event = Event::ToolFinished {
                call_id: n.to_string(),
                tool: "t".into(),
                status: Status::Success,
                error_code: None,
                result: "{}".into(),
                change: None,
                chat_id: Some(uuid::Uuid::nil()),
                message_id: Some(uuid::Uuid::nil()),
                screened: None,
            };
            state.apply(&record(n, event));
        }
        assert_eq!(state.recent_actions.front().map(|a| a.cycle), Some(50));
        let created = &state.created_resources;
        assert_eq!((state.conversation.len(), created.chat_ids.len(), created.message_ids.len()), (150, 1, 1));
    }
}
