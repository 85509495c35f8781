use serde::{Deserialize, Serialize};

use super::{gate::Limit, state::AgentState};
use crate::vocab::Usd;

/// What came of one cycle; `once` prints it (SPEC §4).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The counter of the being's life, kept across resumes.
    pub cycle: u64,
    pub status: CycleStatus,
    /// The closing reply; only when `completed`.
    pub final_content: Option<String>,
    pub balance_usd: Usd,
    /// Lifetime earnings.
    pub earned_usd: Usd,
    /// Earned − spent, over the lifetime.
    pub net_profit_usd: Usd,
    /// Tokens of the lifetime.
    pub total_tokens: u64,
    /// The tools called in this cycle, in order.
    pub actions: Vec<String>,
}

/// How a cycle ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CycleStatus {
    /// The model answered without asking for a tool.
    Completed,
    /// The rounds of the cycle were used up.
    ToolRoundLimit,
    /// It took longer than it may.
    Deadline,
    /// The solvency gate is closed: nothing is spent until money comes in.
    BudgetExhausted,
    /// What a day may cost is spent: it rests until the next one.
    DayLimit,
    /// What a cycle may cost is spent.
    CycleLimit,
    /// What several beings may spend together is spent.
    CapLimit,
}

impl From<Limit> for CycleStatus {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Balance => Self::BudgetExhausted,
            Limit::Day => Self::DayLimit,
            Limit::Cycle => Self::CycleLimit,
            Limit::Cap(_) => Self::CapLimit,
        }
    }
}

impl Report {
    /// Reports a cycle that just ended.
    pub fn of(state: &AgentState, status: CycleStatus, final_content: Option<String>, actions: Vec<String>) -> Self {
        Self {
            cycle: state.cycle,
            status,
            final_content,
            balance_usd: state.budget.remaining,
            earned_usd: state.budget.earned,
            net_profit_usd: state.budget.net_profit(),
            total_tokens: state.budget.total_tokens,
            actions,
        }
    }
}
