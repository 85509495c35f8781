use serde_json::Value;

use super::EventList;
use crate::{manifest, reconcile::List, runtime::Diagnosis};

/// Every schema that the program publishes, by file name: manifests, and what `get`, `events` and `doctor` print as JSON.
pub fn schemas() -> Vec<(String, Value)> {
    let mut schemas = manifest::schemas();
    schemas.push(manifest::schema_of::<List>("list"));
    schemas.push(manifest::schema_of::<EventList>("events"));
    schemas.push(manifest::schema_of::<Diagnosis>("diagnosis"));
    schemas
}
