use super::{
    decider::Decider,
    readout::{Decision, DecisionError},
    request::DecisionRequest,
    walk::{Move, Outcome, Phase, Walk},
};

/// One decision of a walk.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    pub phase: Phase,
    pub request: DecisionRequest,
    pub decision: Decision,
}

/// A walk that ended, and all that was decided on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Trail {
    pub steps: Vec<Step>,
    pub outcome: Outcome,
}

/// Walks to the end. Dropped halfway, nothing but its decisions is lost.
pub async fn navigate(decider: &Decider, (mut walk, mut next): (Walk, Move)) -> Result<Trail, DecisionError> {
    let mut steps = Vec::new();
    loop {
        match next {
            Move::End(outcome) => return Ok(Trail { steps, outcome }),
            Move::Ask(phase, request) => {
                let decision = decider.decide(phase.as_str(), &request).await?;
                next = walk.take(&decision);
                steps.push(Step { phase, request, decision });
            }
        }
    }
}
