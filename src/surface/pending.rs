use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ProgressToken, ServerResult},
    service::{PeerRequestOptions, RequestHandle},
};
use tokio::runtime::Handle;

/// A call of a tool that was sent. Dropping it before the answer tells the server.
#[derive(Debug)]
pub(super) struct Pending(Option<RequestHandle<RoleClient>>);

impl Pending {
    /// Sends the call.
    pub(super) async fn send(peer: &Peer<RoleClient>, params: CallToolRequestParams) -> Result<Self, ServiceError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        Ok(Self(Some(handle)))
    }

    /// By which token the server tells how far it is.
    pub(super) fn token(&self) -> Option<&ProgressToken> {
        self.0.as_ref().map(|handle| &handle.progress_token)
    }

    /// Waits for the answer.
    pub(super) async fn answer(mut self) -> Result<CallToolResponse, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        match answer.map_err(|_| ServiceError::TransportClosed)?? {
            ServerResult::CallToolResult(result) => Ok(CallToolResponse::Complete(result)),
            ServerResult::InputRequiredResult(result) => Ok(CallToolResponse::InputRequired(result)),
            ServerResult::CreateTaskResult(result) => Ok(CallToolResponse::Task(result)),
            // A result without content has no shape by which it is told from other empty ones.
            ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => {
                Ok(CallToolResponse::Complete(CallToolResult::default()))
            }
            _ => Err(ServiceError::UnexpectedResponse),
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let (Some(handle), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(handle.cancel(Some("the caller gave up".to_owned())));
        }
    }
}
