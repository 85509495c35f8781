use super::{
    likeness::Likeness,
    readout::{Decision, DecisionError, Readout},
    request::DecisionRequest,
};

/// Whoever decides. Each engine takes the same requests and yields the same kind of decision.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Engine {
    /// Reads the scores that a model gives to the letters of the options.
    Readout(Readout),
    /// Compares the meanings of the options with that of the state.
    Embedding(Likeness),
}

impl Engine {
    /// Decides.
    pub async fn decide(&self, request: &DecisionRequest) -> Result<Decision, DecisionError> {
        match self {
            Self::Readout(readout) => readout.decide(request).await,
            Self::Embedding(likeness) => likeness.decide(request).await,
        }
    }
}
