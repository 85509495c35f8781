use crate::{
    decision::{DecisionError, Engine, Readout, Terms},
    manifest::{DecisionSpec, EngineSpec},
    model::Models,
    vocab::Ratio,
};

/// The engine that a decision declares. One that cannot be had is an error, never another in its place.
pub fn engine(models: &Models, spec: &DecisionSpec) -> Result<Engine, DecisionError> {
    match &spec.engine {
        EngineSpec::Readout { model } => {
            let terms = Terms {
                temperature: spec.temperature.unwrap_or(Ratio::ONE).as_f64(),
                rotations: spec.rotations.into(),
                min_mass: spec.min_mass.as_f64(),
            };
            Ok(Engine::Readout(Readout::new(models.clone(), model.clone(), terms)))
        }
        EngineSpec::Embedding => {
            Err(DecisionError::Unavailable { engine: "embedding", because: "this version does not have it".to_owned() })
        }
    }
}
