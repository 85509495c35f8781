use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    MostSpec,
    check::Cx,
    document::SecretDocument,
    layer::LayerPart,
    origin::Layer,
    scalar::{HttpUrl, SpanText},
};
use crate::vocab::Span;

const URL: &str = "http://127.0.0.1:8080";
const TIMEOUT: Span = Span::from_secs(120);

/// A messaging service that speaks as Most does.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Most")]
pub(crate) struct MostDocument {
    /// Where it listens; `http://127.0.0.1:8080` unless said otherwise.
    pub url: Option<HttpUrl>,
    /// The bearer token that it asks for.
    pub token: Option<SecretDocument>,
    /// How long a request may take; `120s` unless said otherwise.
    pub timeout: Option<SpanText>,
}

/// Resolves what a being says of Most. An address alone, left over in the environment, arms nothing.
pub(crate) fn resolve(document: &MostDocument, cx: &mut Cx<'_>) -> Option<MostSpec> {
    if document.token.is_none() {
        let is_variable = |part: &LayerPart| part.layer >= Layer::Variable;
        if !cx.merged.part_of(&["most", "url"]).is_some_and(is_variable) {
            cx.missing(&["most", "token"], "write most = { token = { file = \"/run/secrets/most\" } }");
        }
        return None;
    }
    let token = cx.secret_at(&["most", "token"], document.token.as_ref());
    let timeout = match &document.timeout {
        Some(timeout) => cx.span(&["most", "timeout"], Some(&timeout.0)),
        None => Some(TIMEOUT),
    };
    let url = document.url.clone().map_or_else(|| URL.to_owned(), |url| url.0);
    Some(MostSpec { url, token: token?, timeout: timeout? })
}
