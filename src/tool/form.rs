//! What a person gives to a server that asks in the midst of a call.

use serde_json::{Map, Number, Value};

use crate::being::Form;

/// How much of what a schema says against a value is told.
const MAX_TOLD: usize = 240;

/// Makes what a server is given of what a person gave: texts become what the schema wants, defaults fill what is missing, and all of it
/// fits the schema. The error says what does not.
pub fn filled(form: &Form, mut values: Map<String, Value>) -> Result<Map<String, Value>, String> {
    let Some(schema) = &form.schema else {
        return if values.is_empty() { Ok(values) } else { Err("it asks to visit an address, and takes no values".to_owned()) };
    };
    for (name, wanted) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        match (values.get_mut(name), wanted.get("default")) {
            (Some(value), _) => *value = typed(std::mem::take(value), wanted),
            (None, Some(default)) => drop(values.insert(name.clone(), default.clone())),
            (None, None) => {}
        }
    }
    let values = Value::Object(values);
    let check = jsonschema::validator_for(schema).map_err(|_| "the server's schema cannot be used; deny it".to_owned())?;
    if let Some(error) = check.iter_errors(&values).next() {
        let place: String = error.instance_path().to_string().split('/').skip(1).map(|step| format!("{step}: ")).collect();
        return Err(format!("{place}{error}").chars().take(MAX_TOLD).collect());
    }
    let Value::Object(values) = values else { return Err("the values are no object".to_owned()) };
    Ok(values)
}

/// A text as what the schema wants in its place, where it reads as that.
fn typed(value: Value, wanted: &Value) -> Value {
    let (Value::String(text), Some(kind)) = (&value, wanted.get("type").and_then(Value::as_str)) else { return value };
    let read = match kind {
        "boolean" => text.parse().ok().map(Value::Bool),
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => text.parse::<f64>().ok().and_then(Number::from_f64).map(Value::Number),
        "array" => Some(text.split(',').map(|item| Value::from(item.trim())).collect()),
        _ => None,
    };
    read.unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: Option<Value>) -> Form {
        Form { message: "Who?".into(), schema, url: None }
    }

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn a_server_is_given_only_what_fits_its_schema() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "type": "string", "minLength": 2 },
                "age": { "type": "integer", "minimum": 0 },
                "sure": { "type": "boolean", "default": true },
            },
            "required": ["name"],
        });
        let form = form(Some(schema));
        let given = filled(&form, object(&json!({ "name": "ada", "age": "36" }))).unwrap();
        assert_eq!(Value::Object(given), json!({ "name": "ada", "age": 36, "sure": true }));
        for (given, told) in [
            (json!({}), "\"name\" is a required property"),
            (json!({ "name": "a" }), "name: "),
            (json!({ "name": "ada", "age": "old" }), "age: "),
            (json!({ "name": "ada", "sure": "perhaps" }), "sure: "),
        ] {
            let error = filled(&form, object(&given)).unwrap_err();
            assert!(error.starts_with(told), "{error}");
        }
    }

    #[test]
    fn an_address_takes_no_values() {
        assert!(filled(&form(None), Map::new()).is_ok());
        assert!(filled(&form(None), object(&json!({ "a": 1 }))).is_err());
    }
}
