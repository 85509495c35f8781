use super::state::AgentState;

const OPENING: &str = "Begin autonomous cycle ";

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

#[cfg(test)]
mod tests {
    use super::super::{budget::Budget, outcome::Status, state::ActionRecord, testing};
    use super::*;
    use crate::vocab::Timestamp;

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
