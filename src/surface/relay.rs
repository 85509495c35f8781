use std::{fmt, sync::Arc};

use futures::future::BoxFuture;
use rmcp::{
    ClientHandler, ErrorData, Peer, RoleClient,
    model::{ClientCapabilities, ClientConfig, ClientResult, ServerNotification, ServerRequest},
    service::{NotificationContext, RequestContext, Service},
};

/// Whoever is in front of a server and passes on what that says and asks of its own accord.
pub(super) trait Relay: fmt::Debug + Send + Sync {
    /// What the server may ask for, as the greeting tells it.
    fn capabilities(&self) -> ClientCapabilities;
    /// The server is there, for the first time or again.
    fn greeted<'a>(&'a self, server: &'a Peer<RoleClient>) -> BoxFuture<'a, ()>;
    /// The server said something.
    fn heard(&self, said: ServerNotification) -> BoxFuture<'_, ()>;
    /// The server asks something. Dropped when the server no longer wants to know.
    fn asked(&self, request: ServerRequest) -> BoxFuture<'_, Result<ClientResult, ErrorData>>;
}

/// An ear that has what it hears passed on, where there is somebody to pass it to.
#[derive(Debug, Clone)]
pub(super) struct Relayed<E> {
    pub(super) ear: E,
    pub(super) relay: Option<Arc<dyn Relay>>,
}

impl<E: ClientHandler> Service<RoleClient> for Relayed<E> {
    async fn handle_request(&self, request: ServerRequest, context: RequestContext<RoleClient>) -> Result<ClientResult, ErrorData> {
        match &self.relay {
            Some(relay) if !matches!(request, ServerRequest::PingRequest(_)) => tokio::select! {
                answer = relay.asked(request) => answer,
                () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
            },
            _ => self.ear.handle_request(request, context).await,
        }
    }

    async fn handle_notification(
        &self,
        notification: ServerNotification,
        context: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        if let Some(relay) = &self.relay {
            relay.heard(notification.clone()).await;
        }
        self.ear.handle_notification(notification, context).await
    }

    fn get_info(&self) -> ClientConfig {
        self.ear.get_info()
    }
}
