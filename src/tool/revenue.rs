use serde_json::{Map, Value};

use crate::{
    being::Revenue,
    vocab::{Digest, Usd},
};

/// The keys under which a tool reports money, in the order in which they are looked for.
const FIGURES: [&str; 2] = ["revenue_usd", "realized_profit_usd"];
/// A transaction id that is longer is kept by its digest.
const MAX_KEPT_ID: usize = 128;
/// How deep JSON inside the strings of arguments is looked through for echoes.
const MAX_UNWRAPPED: usize = 4;
const TRILLION: &str = "1000000000000";

/// Why a reported figure is not credited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RevenueError {
    #[error("revenue cannot be negative")]
    Negative,
    #[error("revenue above {TRILLION} USD is not believed")]
    Unbelievable,
}

/// Finds what a successful call of a trusted tool earned (SPEC §5). `result` has passed the output boundary.
///
/// What the arguments said is no evidence: a figure that repeats one of theirs, wherever it stands and however it is written, is
/// skipped, and with it every subtree that repeats an argument.
pub(super) fn earned(tool: &str, arguments: &Map<String, Value>, result: &Value) -> Result<Option<Revenue>, RevenueError> {
    if !FIGURES.iter().any(|key| has(result, key)) {
        return Ok(None);
    }
    let echo = Echo::of(&unwrap(Value::Object(arguments.clone()), MAX_UNWRAPPED));
    for key in FIGURES {
        let mut around = Vec::new();
        let Some(amount) = find(result, key, &echo, &mut around) else { continue };
        if amount.is_negative() {
            return Err(RevenueError::Negative);
        }
        if Usd::parse(TRILLION).is_ok_and(|limit| amount > limit) {
            return Err(RevenueError::Unbelievable);
        }
        if amount.is_positive() {
            let transaction = transaction(result, &around).map(|id| format!("{tool}:{id}"));
            return Ok(Some(Revenue { amount, transaction }));
        }
    }
    Ok(None)
}

fn has(value: &Value, key: &str) -> bool {
    match value {
        Value::Object(map) => map.contains_key(key) || map.values().any(|value| has(value, key)),
        Value::Array(items) => items.iter().any(|item| has(item, key)),
        _ => false,
    }
}

/// Finds the first figure that is no echo, depth first. `around` then holds the objects that enclose it, outermost first.
fn find<'v>(value: &'v Value, key: &str, echo: &Echo, around: &mut Vec<&'v Map<String, Value>>) -> Option<Usd> {
    match value {
        Value::Array(items) => items.iter().find_map(|item| find(item, key, echo, around)),
        Value::Object(map) => {
            around.push(map);
            let found = map.iter().find_map(|(name, value)| {
                let own = if name == key { amount(value).filter(|amount| !echo.said(key, *amount)) } else { None };
                own.or_else(|| find(value, key, echo, around))
            });
            if found.is_none() {
                around.pop();
            }
            found
        }
        _ => None,
    }
}

/// An exact amount, written as a decimal string or as a number.
fn amount(value: &Value) -> Option<Usd> {
    match value {
        Value::String(text) => Usd::parse(text.trim()).ok(),
        Value::Number(number) => Usd::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// The id that makes a result one transaction: the nearest around the figure, else the first anywhere.
fn transaction(result: &Value, around: &[&Map<String, Value>]) -> Option<String> {
    ["transaction_id", "id"].into_iter().find_map(|key| {
        let near = around.iter().rev().find_map(|map| map.get(key).and_then(id));
        near.or_else(|| anywhere(result, key))
    })
}

fn anywhere(value: &Value, key: &str) -> Option<String> {
    match value {
        Value::Object(map) => map.get(key).and_then(id).or_else(|| map.values().find_map(|value| anywhere(value, key))),
        Value::Array(items) => items.iter().find_map(|item| anywhere(item, key)),
        _ => None,
    }
}

fn id(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    match text.len() {
        0 => None,
        1..=MAX_KEPT_ID => Some(text),
        _ => Some(Digest::of(text).to_string()),
    }
}

/// The figures that the arguments of a call named. Whatever repeats a subtree of theirs repeats its figures.
struct Echo {
    /// By key; `None` is a figure that could not be read, which spoils its key.
    figures: Vec<(&'static str, Option<Usd>)>,
}

impl Echo {
    fn of(arguments: &Value) -> Self {
        let mut echo = Self { figures: Vec::new() };
        echo.collect(arguments);
        echo
    }

    fn collect(&mut self, value: &Value) {
        match value {
            Value::Object(map) => {
                let figures = FIGURES.into_iter().filter_map(|key| map.get(key).map(|value| (key, amount(value))));
                self.figures.extend(figures);
                map.values().for_each(|value| self.collect(value));
            }
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            _ => {}
        }
    }

    fn said(&self, key: &str, found: Usd) -> bool {
        self.figures.iter().any(|(said, amount)| *said == key && amount.is_none_or(|amount| amount == found))
    }
}

/// Opens JSON that strings hold, so that an echo is known even when the tool unpacked it.
fn unwrap(value: Value, levels: usize) -> Value {
    match value {
        Value::String(text) if levels > 0 && text.trim_start().starts_with(['{', '[']) => match serde_json::from_str(&text) {
            Ok(inner) => unwrap(inner, levels - 1),
            Err(_) => Value::String(text),
        },
        Value::Array(items) => items.into_iter().map(|item| unwrap(item, levels)).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, unwrap(value, levels))).collect(),
        plain => plain,
    }
}

#[cfg(test)]
#[expect(clippy::needless_pass_by_value, reason = "helpers take what `json!` makes")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn credit(arguments: Value, result: Value) -> String {
        let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
        match earned("finance__sell", &arguments, &result) {
            Ok(Some(Revenue { amount, transaction })) => format!("{amount} for {}", transaction.as_deref().unwrap_or("nothing")),
            Ok(None) => "nothing".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn a_figure_is_found_through_objects_and_arrays_as_string_or_number() {
        for (result, credited) in [
            (json!({ "revenue_usd": "2.50" }), "2.5 for nothing"),
            (json!({ "a": [1, { "b": { "revenue_usd": 3 } }] }), "3 for nothing"),
            (json!({ "realized_profit_usd": 0.1 }), "0.1 for nothing"),
            (json!({ "realized_profit_usd": "1", "x": { "revenue_usd": "2" } }), "2 for nothing"),
            (json!({ "revenue_usd": "soon", "x": { "revenue_usd": "2" } }), "2 for nothing"),
            (json!({ "revenue_usd": "0", "realized_profit_usd": "4" }), "4 for nothing"),
            (json!({ "revenue_usd": 0 }), "nothing"),
            (json!({ "revenue": "9" }), "nothing"),
            (json!("{\"revenue_usd\":\"9\"}"), "nothing"),
            (json!({ "revenue_usd": "-1" }), "revenue cannot be negative"),
            (json!({ "realized_profit_usd": -0.5 }), "revenue cannot be negative"),
            (json!({ "revenue_usd": "9e9" }), "nothing"),
            (json!({ "revenue_usd": "1000000000001" }), "revenue above 1000000000000 USD is not believed"),
        ] {
            assert_eq!(credit(json!({}), result.clone()), credited, "{result}");
        }
    }

    #[test]
    fn a_being_cannot_pay_itself_by_what_it_asks() {
        let echoed =
            json!({ "parameters": { "revenue_usd": "100" }, "note": "{\"revenue_usd\": 7}", "list": [{ "revenue_usd": "8.0" }] });
        for result in [
            json!({ "proposal": { "parameters": { "revenue_usd": "100" } } }),
            json!({ "revenue_usd": "100" }),
            json!({ "revenue_usd": 100.0, "more": true }),
            json!({ "parameters": { "revenue_usd": "100.00", "normalised": true } }),
            json!({ "unpacked": { "revenue_usd": 7 } }),
            json!({ "echo": echoed }),
            json!({ "revenue_usd": 8 }),
        ] {
            assert_eq!(credit(echoed.clone(), result.clone()), "nothing", "{result}");
        }
        assert_eq!(credit(echoed, json!({ "parameters": { "revenue_usd": "100" }, "revenue_usd": "12" })), "12 for nothing");
        assert_eq!(credit(json!({ "revenue_usd": "1e2" }), json!({ "revenue_usd": "100" })), "nothing");
    }

    #[test]
    fn a_transaction_is_known_by_the_id_nearest_to_its_figure() {
        for (result, credited) in [
            (json!({ "id": "t1", "revenue_usd": "1" }), "1 for finance__sell:t1"),
            (json!({ "id": 7, "revenue_usd": "1" }), "1 for finance__sell:7"),
            (json!({ "id": "a", "transaction_id": "t", "revenue_usd": "1" }), "1 for finance__sell:t"),
            (json!({ "id": "outer", "deal": { "id": "inner", "revenue_usd": "1" } }), "1 for finance__sell:inner"),
            (json!({ "transaction_id": "outer", "deal": { "id": "inner", "revenue_usd": "1" } }), "1 for finance__sell:outer"),
            (json!({ "deal": { "transaction_id": "t" }, "sum": { "revenue_usd": "1" } }), "1 for finance__sell:t"),
            (json!({ "id": " ", "revenue_usd": "1" }), "1 for nothing"),
        ] {
            assert_eq!(credit(json!({}), result.clone()), credited, "{result}");
        }
        let long = credit(json!({}), json!({ "id": "x".repeat(10_000), "revenue_usd": "1" }));
        assert!(long.len() < 100, "{long}");
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![any::<i32>().prop_map(Value::from), "[a-z0-9.]{0,4}".prop_map(Value::from)];
        let key = prop_oneof![Just("revenue_usd".to_owned()), Just("realized_profit_usd".to_owned()), "[a-c]"];
        leaf.prop_recursive(4, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((key.clone(), inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_result_that_only_repeats_the_arguments_earns_nothing(said in any_json(), packed in any::<bool>()) {
            let argument = if packed { Value::String(said.to_string()) } else { said.clone() };
            let arguments = json!({ "parameters": argument });
            for result in [json!({ "echo": said }), json!([said]), said.clone(), json!({ "parameters": said, "status": "proposed" })] {
                let Value::Object(arguments) = &arguments else { unreachable!() };
                prop_assert_eq!(earned("finance__propose", arguments, &result), Ok(None));
            }
        }
    }
}
