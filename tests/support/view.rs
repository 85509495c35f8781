//! How `get -o json` is read: the one place that knows its shape.

use serde_json::Value;

use super::Home;

/// What describes `get beings -o json`.
pub const LIST_SCHEMA: &str = "schemas/list.schema.json";

fn items(home: &Home) -> Vec<Value> {
    let listed = home.run(&["get", "beings", "-o", "json"]).ok().json();
    listed["items"].as_array().cloned().unwrap_or_else(|| panic!("no items in {listed:#}"))
}

fn name(item: &Value) -> String {
    let address = item["address"].as_str().unwrap_or_else(|| panic!("no address in {item:#}"));
    address.trim_start_matches("being/").to_owned()
}

/// The names of the beings that are declared.
pub fn beings(home: &Home) -> Vec<String> {
    items(home).iter().map(name).collect()
}

/// Whether a condition of a being holds.
pub fn is(home: &Home, being: &str, condition: &str) -> bool {
    let of_being = items(home).into_iter().find(|item| name(item) == being);
    let conditions = of_being.map(|item| item["conditions"].as_array().cloned().unwrap_or_default()).unwrap_or_default();
    conditions.iter().any(|found| found["type"] == condition && (found["status"] == true || found["status"] == "True"))
}
