//! A tool call and its answer, read and written straight from and to their own types. The protocol's union of all messages tries each in
//! turn, on a copy of what it reads; where there is a call in the line, that costs several times what the call itself does.

use std::borrow::Cow;

use rmcp::{
    RoleClient, RoleServer,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorData, InputResponses, JsonObject,
        JsonRpcMessage, JsonRpcVersion2_0, MetaObject, RequestId, RequestMetaObject, ServerResult,
    },
    service::{RxJsonRpcMessage, ServiceRole, TxJsonRpcMessage},
};
use serde::{Deserialize, Serialize};

/// One end of a wire.
pub(super) trait Quick: ServiceRole {
    /// Reads a line. What is no call, and no answer to one, is read as the protocol's library reads it.
    fn read(line: &[u8]) -> serde_json::Result<RxJsonRpcMessage<Self>>;

    /// Writes a message, without the line's end.
    fn write(message: &TxJsonRpcMessage<Self>) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(message)
    }

    /// Tells whether the other end says it unasked, and so as often as it likes.
    fn is_unasked(message: &RxJsonRpcMessage<Self>) -> bool;

    /// What is said to one who sent JSON that is no message.
    fn complaint() -> Option<TxJsonRpcMessage<Self>>;
}

impl Quick for RoleClient {
    fn read(line: &[u8]) -> serde_json::Result<RxJsonRpcMessage<Self>> {
        match serde_json::from_slice(line) {
            Ok(Answer { id, result, .. }) => Ok(JsonRpcMessage::response(ServerResult::CallToolResult(result), id)),
            Err(_) => serde_json::from_slice(line),
        }
    }

    fn write(message: &TxJsonRpcMessage<Self>) -> serde_json::Result<Vec<u8>> {
        match message {
            JsonRpcMessage::Request(asked) => match &asked.request {
                ClientRequest::CallToolRequest(call) if has_one_meta(call) => serde_json::to_vec(&Call::of(&asked.id, call)),
                _ => serde_json::to_vec(message),
            },
            _ => serde_json::to_vec(message),
        }
    }

    fn is_unasked(message: &RxJsonRpcMessage<Self>) -> bool {
        matches!(message, JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_))
    }

    fn complaint() -> Option<TxJsonRpcMessage<Self>> {
        None
    }
}

impl Quick for RoleServer {
    fn read(line: &[u8]) -> serde_json::Result<RxJsonRpcMessage<Self>> {
        match serde_json::from_slice::<Asked>(line) {
            Ok(Asked { id, mut params, .. }) => {
                let meta = params.meta.take();
                let mut call = CallToolRequest::new(params);
                meta.map(|meta| call.extensions.insert(meta));
                Ok(JsonRpcMessage::request(ClientRequest::CallToolRequest(call), id))
            }
            Err(_) => serde_json::from_slice(line),
        }
    }

    /// A client asks for all that it asks for.
    fn is_unasked(_: &RxJsonRpcMessage<Self>) -> bool {
        false
    }

    fn complaint() -> Option<TxJsonRpcMessage<Self>> {
        Some(JsonRpcMessage::error(ErrorData::invalid_request("Invalid request", None), None))
    }
}

/// The answer to a call. An unknown field makes it something else, which the library reads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    result: CallToolResult,
}

/// A call, as it comes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    #[serde(rename = "jsonrpc")]
    _version: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: Method,
    params: CallToolRequestParams,
}

#[derive(Serialize, Deserialize)]
enum Method {
    #[serde(rename = "tools/call")]
    Call,
}

/// A call, as it goes.
#[derive(Serialize)]
struct Call<'a> {
    jsonrpc: JsonRpcVersion2_0,
    id: &'a RequestId,
    method: Method,
    params: Params<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<&'a RequestMetaObject>,
    name: &'a Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: &'a Option<JsonObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_responses: &'a Option<InputResponses>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_state: &'a Option<String>,
}

impl<'a> Call<'a> {
    fn of(id: &'a RequestId, call: &'a CallToolRequest) -> Self {
        let CallToolRequestParams { name, arguments, input_responses, request_state, .. } = &call.params;
        let meta = call.extensions.get();
        Self {
            jsonrpc: JsonRpcVersion2_0,
            id,
            method: Method::Call,
            params: Params { meta, name, arguments, input_responses, request_state },
        }
    }
}

/// Tells whether `_meta` is in the one place where the library keeps it, so that there is nothing to merge.
fn has_one_meta(call: &CallToolRequest) -> bool {
    call.params.meta.is_none() && call.extensions.get::<MetaObject>().is_none()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    /// JSON objects that hold what calls hold, and a little more.
    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f32>().prop_map(|number| json!(number)),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z_]{1,6}", inner, 0..4).prop_map(|map| json!(map)),
            ]
        })
    }

    fn object() -> impl Strategy<Value = Value> {
        proptest::collection::btree_map("[a-z_]{1,6}", json(), 0..4).prop_map(|map| json!(map))
    }

    fn id() -> impl Strategy<Value = Value> {
        prop_oneof![any::<i64>().prop_map(Value::from), "[a-z0-9]{1,8}".prop_map(Value::from)]
    }

    fn same<Role: Quick>(line: &Value) -> Result<(), TestCaseError>
    where
        RxJsonRpcMessage<Role>: Serialize,
    {
        let line = line.to_string();
        let library: RxJsonRpcMessage<Role> =
            serde_json::from_str(&line).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let quick = Role::read(line.as_bytes()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(json!(quick), json!(library));
        Ok(())
    }

    proptest! {
        #[test]
        fn a_call_is_read_as_the_library_reads_it(id in id(), arguments in object(), meta in proptest::option::of(object())) {
            let mut params = json!({ "name": "echo", "arguments": arguments });
            if let (Some(meta), Some(params)) = (meta, params.as_object_mut()) {
                params.insert("_meta".to_owned(), meta);
            }
            same::<RoleServer>(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))?;
        }

        #[test]
        fn an_answer_is_read_as_the_library_reads_it(id in id(), text in "\\PC{0,20}", structured in json(), is_error: bool, meta in object()) {
            for result in [
                json!({ "content": [{ "type": "text", "text": text }] }),
                json!({ "content": [], "structuredContent": structured, "isError": is_error, "_meta": meta }),
                json!({ "structuredContent": structured }),
                json!({ "resultType": "complete", "content": [] }),
                json!({ "content": [{ "type": "resource_link", "uri": "file:///a", "name": text }] }),
                json!({}),
                json!({ "tools": [] }),
                json!({ "resultType": "input_required", "inputRequests": {} }),
                json!({ "messages": [], "description": text }),
            ] {
                same::<RoleClient>(&json!({ "jsonrpc": "2.0", "id": id, "result": result }))?;
            }
        }

        #[test]
        fn a_call_is_written_as_the_library_writes_it(id: i64, arguments in proptest::option::of(object()), meta in proptest::option::of(object())) {
            let mut call = CallToolRequest::new(CallToolRequestParams::new("echo"));
            call.params.arguments = arguments.and_then(|arguments| arguments.as_object().cloned());
            call.params.request_state = Some("state".to_owned());
            if let Some(meta) = meta.and_then(|meta| meta.as_object().cloned()) {
                call.extensions.insert(RequestMetaObject::from(meta));
            }
            let message = JsonRpcMessage::request(ClientRequest::CallToolRequest(call), RequestId::Number(id));
            let quick: Value = serde_json::from_slice(&RoleClient::write(&message)?)?;
            prop_assert_eq!(quick, json!(message));
        }
    }

    #[test]
    fn what_is_no_call_is_no_call_to_it_either() {
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]},"error":{"code":1,"message":"both"}}"#,
            r#"{"jsonrpc":"1.0","id":1,"result":{"content":[]}}"#,
            r#"{"id":1,"result":{"content":[]}}"#,
            r#"{"jsonrpc":"2.0","id":null,"result":{"content":[]}}"#,
        ] {
            let library = serde_json::from_str::<RxJsonRpcMessage<RoleClient>>(line);
            let quick = RoleClient::read(line.as_bytes());
            assert_eq!(json!(quick.ok()), json!(library.ok()), "{line}");
        }
    }
}
