//! Documents as written become a typed, resolved [`Fleet`]: layers with origin, checks with spans, schemas.

mod spec;

pub use spec::{
    BeingSpec, Boundary, BudgetSpec, CapabilitySpec, CycleSpec, ExternalLas, Fleet, LasSpec, ModelSpec, PromptPolicy, ProviderSpec,
    Scope, SecretSource, SurfaceSpec, TransportSpec,
};
