use super::{chat::Role, state::AgentState};

const OPENING: &str = "Begin autonomous cycle ";
/// What the stimulus of a first cycle begins with (SPEC §4).
pub(super) const STIMULUS: &str = "External observation for this cycle: ";

/// The framing message of SPEC §4, for the cycle after the state's.
pub(super) fn framing(state: &AgentState) -> String {
    let recent: Vec<String> =
        state.recent_actions.iter().rev().take(10).map(|action| format!("{}:{}", action.tool, action.status.as_str())).collect();
    format!(
        "{OPENING}{}. Balance: {} USD. Earned: {} USD. Net profit: {} USD. Current model: {}. Recent actions: {}. \
         Look at what is open to you and take the next useful action. An answer without a tool call ends only this cycle: you live on \
         while your balance is above zero.",
        state.cycle + 1,
        state.budget.remaining,
        state.budget.earned,
        state.budget.net_profit(),
        state.mind.current_model,
        recent.join(", "),
    )
}

/// The cycle that a message frames, if it is a framing message.
pub(super) fn framed_cycle(message: &str) -> Option<u64> {
    message.strip_prefix(OPENING)?.split_once('.')?.0.parse().ok()
}

impl AgentState {
    /// Tells whether the last cycle was left under way: by its framing, or by results that no model was shown. A cycle that ends of
    /// itself ends with a reply, with its last round, or with a message that tells why.
    pub fn was_cut_off(&self, max_tool_rounds: u32) -> bool {
        let since = self.conversation.iter().rposition(|message| message.role == Role::User);
        let Some((at, opening)) = since.and_then(|at| Some((at, self.conversation.get(at)?))) else { return false };
        let is_opening = |text: &str| framed_cycle(text).is_some() || text.starts_with(STIMULUS);
        let answers = self.conversation.iter().skip(at + 1).filter(|message| message.role == Role::Assistant);
        let (rounds, last) = answers.fold((0_u32, None), |(rounds, _), answer| (rounds + 1, Some(answer)));
        match last {
            Some(answer) => !answer.tool_calls.is_empty() && rounds < max_tool_rounds,
            None => opening.content.as_deref().is_some_and(is_opening),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            budget::Budget,
            chat::{ChatMessage, ToolCall},
            outcome::Status,
            state::ActionRecord,
            testing,
        },
        *,
    };
    use crate::vocab::Timestamp;

    #[test]
    fn only_a_cycle_that_a_process_left_under_way_was_cut_off() {
        let called = |id: &str| ChatMessage::assistant(None, vec![ToolCall::new(id, "t", "{}")]);
        let said = || ChatMessage::assistant(Some("done".into()), Vec::new());
        let result = |id: &str| ChatMessage::tool(id, "t", "{}");
        let framed = || ChatMessage::user(framing(&testing::state()));
        let cut = |messages: Vec<ChatMessage>| AgentState { conversation: messages, ..testing::state() }.was_cut_off(2);
        assert!(cut(vec![framed()]) && cut(vec![framed(), ChatMessage::user(format!("{STIMULUS}rain"))]));
        assert!(cut(vec![framed(), called("1"), result("1")]), "a result that no model was shown");
        assert!(!cut(vec![]) && !cut(vec![framed(), said()]));
        assert!(!cut(vec![framed(), called("1"), result("1"), called("2"), result("2")]), "its rounds were used up");
        assert!(!cut(vec![framed(), called("1"), result("1"), ChatMessage::user("the cycle took too long")]), "it was told why");
    }

    #[test]
    fn a_being_is_told_its_cycle_its_money_its_model_and_its_last_ten_actions() {
        let mut state = testing::state();
        (state.cycle, state.mind.current_model) = (6, "gpt".into());
        state.budget = Budget::new(testing::usd("10"));
        state.budget.credit(testing::usd("3"), None);
        for number in 1..=11 {
            let (tool, status) = (format!("t{number}"), if number == 11 { Status::Failed } else { Status::Success });
            state.recent_actions.push_back(ActionRecord { cycle: 6, tool, status, at: Timestamp::UNIX_EPOCH });
        }
        let facts = "Begin autonomous cycle 7. Balance: 13 USD. Earned: 3 USD. Net profit: 3 USD. Current model: gpt. Recent actions: \
                     t11:failed, t10:success, t9:success, t8:success, t7:success, t6:success, t5:success, t4:success, t3:success, \
                     t2:success. ";
        let told = framing(&state);
        assert!(told.starts_with(facts), "{told}");
        assert!(told.contains("ends only this cycle"), "{told}");
        assert_eq!((framed_cycle(&told), framed_cycle("Begin autonomous cycle x.")), (Some(7), None));
    }
}
