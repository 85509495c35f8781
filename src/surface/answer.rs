use std::{error::Error, time::Duration};

use rmcp::{
    ServiceError,
    model::{CallToolResponse, CallToolResult, ErrorCode, ErrorData},
    transport::streamable_http_client::StreamableHttpError,
};
use serde_json::{Value, json};

use super::{CallError, wire::SendError};

/// The server refused.
pub(super) const REMOTE_TOOL: &str = "remote_tool";
/// The request never left: the surface is not there.
pub(super) const UNAVAILABLE: &str = "surface_unavailable";

/// No message of an error is longer.
const MAX_TEXT: usize = 2_048;
/// Where a Las of this make says what a failed call came to.
const VERDICT: &str = "singularity";

/// Turns what came of a request into what came of the call (SPEC §7): a definite no is `Failed`, a doubt is `Indeterminate`.
///
/// `relayed`: the peer is a Las of this make, whose verdict on its surface's answer counts.
pub(super) fn judge(
    tool: &str,
    answer: Result<CallToolResponse, ServiceError>,
    relayed: bool,
) -> Result<CallToolResult, CallError> {
    match answer {
        Ok(CallToolResponse::Complete(result)) => Ok(result),
        Ok(CallToolResponse::InputRequired(_)) => {
            Err(failed(REMOTE_TOOL, &format!("`{tool}` asks for input in mid-call, which is not given")))
        }
        Ok(_) => Err(doubt(&format!("`{tool}` put the work off; whether it takes effect is unknown"))),
        Err(ServiceError::McpError(error)) if relayed => Err(relayed_verdict(&error)),
        Err(ServiceError::McpError(error)) => Err(failed(REMOTE_TOOL, &format!("JSON-RPC {}: {}", error.code.0, error.message))),
        Err(ServiceError::TransportSend(error)) => Err(unsent(tool, error.error.as_ref())),
        Err(error) => Err(doubt(&format!("the connection failed while `{tool}` ran: {error}; whether it took effect is unknown"))),
    }
}

/// The deadline passed in mid-call.
pub(super) fn late(tool: &str, deadline: Duration) -> CallError {
    doubt(&format!("`{tool}` did not answer within {deadline:?}; whether it took effect is unknown"))
}

/// The surface is not there.
pub(super) fn unavailable(surface: &str, because: &str) -> CallError {
    failed(UNAVAILABLE, &format!("surface `{surface}` is not available: {because}"))
}

/// The JSON-RPC error by which a Las tells what came of a call.
pub(super) fn verdict(error: &CallError) -> ErrorData {
    let (outcome, code) = match error {
        CallError::Failed { code, .. } => ("failed", Some(*code)),
        CallError::Indeterminate { .. } => ("indeterminate", None),
    };
    ErrorData::new(ErrorCode(-32_000), error.to_string(), Some(json!({ VERDICT: { "outcome": outcome, "code": code } })))
}

fn relayed_verdict(error: &ErrorData) -> CallError {
    let said = error.data.as_ref().and_then(|data| data.get(VERDICT));
    let field = |name: &str| said.and_then(|said| said.get(name)).and_then(Value::as_str);
    match (field("outcome"), field("code")) {
        (Some("indeterminate"), _) => doubt(&error.message),
        (_, Some(UNAVAILABLE)) => failed(UNAVAILABLE, &error.message),
        (Some(_), _) => failed(REMOTE_TOOL, &error.message),
        (None, _) => failed(REMOTE_TOOL, &format!("JSON-RPC {}: {}", error.code.0, error.message)),
    }
}

/// A request that the transport did not take, or that HTTP refused.
fn unsent(tool: &str, error: &(dyn Error + Send + Sync + 'static)) -> CallError {
    if let Some(SendError::Unwritten(error)) = error.downcast_ref::<SendError>() {
        return failed(UNAVAILABLE, &format!("`{tool}` could not be reached: {error}"));
    }
    match error.downcast_ref::<StreamableHttpError<reqwest::Error>>() {
        Some(StreamableHttpError::Client(error)) if error.is_connect() => {
            failed(UNAVAILABLE, &format!("`{tool}` could not be reached: {}", root(error)))
        }
        Some(error) if is_refusal(error) => failed(REMOTE_TOOL, &format!("`{tool}` was refused: {error}")),
        Some(error) => doubt(&format!("the request for `{tool}` failed: {error}; whether it took effect is unknown")),
        None => doubt(&format!("the request for `{tool}` failed: {error}; whether it took effect is unknown")),
    }
}

/// An HTTP 4xx, in whichever of its shapes.
fn is_refusal(error: &StreamableHttpError<reqwest::Error>) -> bool {
    match error {
        StreamableHttpError::AuthRequired(_) | StreamableHttpError::InsufficientScope(_) | StreamableHttpError::SessionExpired => {
            true
        }
        StreamableHttpError::HttpStatus(error) => (400..500).contains(&error.status),
        StreamableHttpError::Client(error) => error.status().is_some_and(|status| status.is_client_error()),
        StreamableHttpError::UnexpectedServerResponse(text) => text.starts_with("HTTP 4"),
        _ => false,
    }
}

/// The innermost cause.
fn root<'a>(error: &'a (dyn Error + 'static)) -> &'a (dyn Error + 'static) {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

fn failed(code: &'static str, message: &str) -> CallError {
    CallError::Failed { code, message: bounded(message) }
}

fn doubt(message: &str) -> CallError {
    CallError::Indeterminate { message: bounded(message) }
}

/// A text from outside, cut to a length that a log line and a model can bear.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    match text.get(..end) {
        Some(start) if end < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &CallError, relayed: bool) -> CallError {
        judge("t", Err(ServiceError::McpError(verdict(error))), relayed).unwrap_err()
    }

    #[test]
    fn what_a_surface_answered_survives_the_way_through_las() {
        let errors = [
            CallError::Failed { code: REMOTE_TOOL, message: "no such file".to_owned() },
            CallError::Failed { code: UNAVAILABLE, message: "surface `x` is not available: gone".to_owned() },
            CallError::Indeterminate { message: "late".to_owned() },
        ];
        for error in errors {
            assert_eq!(told(&error, true), error);
        }
    }

    #[test]
    fn a_stranger_cannot_turn_its_no_into_a_doubt() {
        let doubt = CallError::Indeterminate { message: "x".to_owned() };
        assert_eq!(told(&doubt, false), CallError::Failed { code: REMOTE_TOOL, message: "JSON-RPC -32000: x".to_owned() });
    }

    #[test]
    fn a_lost_connection_is_never_told_as_a_no() {
        for error in [ServiceError::TransportClosed, ServiceError::Timeout { timeout: Duration::from_secs(1) }] {
            assert!(matches!(judge("t", Err(error), false), Err(CallError::Indeterminate { .. })));
        }
    }

    #[test]
    fn a_request_is_unsent_only_while_nobody_can_have_read_it() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(matches!(unsent("t", &SendError::Unwritten(broken())), CallError::Failed { code: UNAVAILABLE, .. }));
        assert!(matches!(unsent("t", &SendError::Unsure(broken())), CallError::Indeterminate { .. }));
    }

    #[test]
    fn a_refusal_by_http_is_definite_and_a_server_fault_is_not() {
        let refused = |text: &'static str| is_refusal(&StreamableHttpError::UnexpectedServerResponse(text.into()));
        assert!(refused("HTTP 400 Bad Request: {}"));
        assert!(!refused("HTTP 500 Internal Server Error: "));
        assert!(is_refusal(&StreamableHttpError::SessionExpired));
        assert!(!is_refusal(&StreamableHttpError::UnexpectedEndOfStream));
    }

    #[test]
    fn a_text_is_cut_between_letters() {
        let text = "ä".repeat(MAX_TEXT);
        assert!(bounded(&text).len() <= MAX_TEXT + '…'.len_utf8());
        assert_eq!(bounded("short"), "short");
    }
}
