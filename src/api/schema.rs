use serde_json::Value;

use crate::{manifest, reconcile::List};

/// Every schema that the program publishes, by file name: manifests, and what `get -o json` prints.
pub fn schemas() -> Vec<(String, Value)> {
    let mut schemas = manifest::schemas();
    schemas.push(manifest::schema_of::<List>("list"));
    schemas
}
