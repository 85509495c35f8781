//! Documents as written become a typed, resolved [`Fleet`]: layers with origin, checks with spans, schemas.
//!
//! # Expected flow
//!
//! [`Sources::load`] reads files and folders; [`read`] turns their texts and what lies over them ([`Overrides`]) into [`Loaded`]: the fleet, and for
//! each value where it came from. One being without any file comes from [`from_variables`].
//!
//! Layers, later wins: built-in defaults, `[defaults.*]`, the object, variables, flags. Which variables there are is data, [`SETTINGS`].
//!
//! # Guarantees
//!
//! - There is a fleet only when there is no problem at all: every default is filled in, every reference leads somewhere, every path is absolute.
//! - All problems of all files are told in one run, each once, sorted by place. The same schema that editors use judges the shape, so the two agree.
//! - A key that this version does not know is refused, also one that a later version will know.
//! - Nothing but `load` touches a file, the environment or a stream. No input makes it panic.
//!
//! # Assumptions and cost
//!
//! A file has at most 32 MiB, a fleet 256 MiB. Reading costs one parse and one pass of the schema for each file and one merge for each object.
//!
//! # Errors
//!
//! [`Problems`]. When any file cannot be parsed, names that lead nowhere are not reported, for they may stand in it.

mod branches;
mod category;
mod check;
mod children;
mod confine;
mod cycle;
mod decision;
mod document;
mod explain;
mod layer;
mod load;
mod most;
mod oauth;
mod origin;
mod problem;
mod read;
mod registry;
mod resolve;
mod scalar;
mod schema;
mod settings;
mod shape;
mod source;
mod spec;
mod terms;
mod text;
mod tree;
mod variable;

pub use explain::{Explanation, UnknownPath, explain};
pub use load::{Form, Source, Sources, Stand, What, walk};
pub use origin::{Field, Layer, Origin, Origins, Resolved, resolved_document};
pub use problem::{Place, Problem, Problems};
pub use read::{Loaded, Overrides, from_variables, read, sources_named};
pub use registry::{Imported, export_categories, import_categories};
pub use schema::{manifest_schema, schema_of, schemas};
pub use settings::{SETTINGS, Setting, SettingForm, Variables};
pub use spec::{
    BeingSpec, Boundary, BudgetSpec, CapSpec, CapabilitySpec, ChildrenSpec, ClientAuth, CycleSpec, ExternalLas, Fleet, Grant,
    LasSpec, LimitsSpec, Missed, ModelSpec, MostSpec, OauthSpec, PromptPolicy, ProviderSpec, SandboxSpec, Scope, SecretSource,
    SourceSpec, SurfaceSpec, ToolTerms, TransportSpec, VariableSpec, selects,
};
pub use tree::{CategorySpec, DecisionSpec, EngineSpec, Route, SkillAction, SkillSpec};
