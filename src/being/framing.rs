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
