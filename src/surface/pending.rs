use rmcp::{
    Peer, RoleClient, ServiceError,
    model::{CallToolRequest, CallToolRequestParams, CallToolResponse, CallToolResult, ClientRequest, ProgressToken, ServerResult},
    service::{PeerRequestOptions, RequestHandle, ServiceRole},
};
use tokio::runtime::Handle;

/// A request that was sent. Dropping it before the answer tells the other end.
#[derive(Debug)]
pub(super) struct Pending<R: ServiceRole>(Option<RequestHandle<R>>);

impl<R: ServiceRole> Pending<R> {
    /// Sends a request.
    pub(super) async fn ask(peer: &Peer<R>, request: R::Req) -> Result<Self, ServiceError> {
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        Ok(Self(Some(handle)))
    }

    /// Waits for what is answered.
    pub(super) async fn answered(mut self) -> Result<R::PeerResp, ServiceError> {
        let Some(handle) = &mut self.0 else { return Err(ServiceError::TransportClosed) };
        let answer = (&mut handle.rx).await;
        self.0 = None;
        answer.map_err(|_| ServiceError::TransportClosed)?
    }
}

impl Pending<RoleClient> {
    /// Sends a call of a tool.
    pub(super) async fn send(peer: &Peer<RoleClient>, params: CallToolRequestParams) -> Result<Self, ServiceError> {
        Self::ask(peer, ClientRequest::CallToolRequest(CallToolRequest::new(params))).await
    }

    /// By which token the server tells how far it is.
    pub(super) fn token(&self) -> Option<&ProgressToken> {
        self.0.as_ref().map(|handle| &handle.progress_token)
    }

    /// Waits for the answer.
    pub(super) async fn answer(self) -> Result<CallToolResponse, ServiceError> {
        match self.answered().await? {
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

impl<R: ServiceRole> Drop for Pending<R> {
    fn drop(&mut self) {
        if let (Some(handle), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(handle.cancel(Some("the caller gave up".to_owned())));
        }
    }
}
