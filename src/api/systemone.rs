use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderName, HeaderValue, StatusCode},
    response::{IntoResponse as _, Response},
};

use crate::runtime::{self, Answered, Deciders};

/// Bytes of a request.
pub(super) const MAX_BYTES: usize = 4 << 20;

/// Answers questions over one state, in the form that other programs ask them in.
pub(super) async fn systemone(State(deciders): State<Deciders>, body: Bytes) -> Response {
    let Answered { id, backend, status, body } = runtime::systemone(&deciders, &body).await;
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Json(body)).into_response();
    let named = [("x-typesafe-request-id", Some(id.as_str())), ("x-semif-backend", backend)];
    for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, HeaderValue::from_str(value?).ok()?))) {
        response.headers_mut().insert(HeaderName::from_static(name), value);
    }
    response
}
