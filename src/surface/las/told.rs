//! Clients of the protocol without `initialize` are told what changes on a stream that they ask for.

use std::sync::Arc;

use rmcp::{
    model::{ServerNotification, SubscriptionFilter},
    service::{SubscriptionContext, SubscriptionSendError, SubscriptionSink},
};
use tokio::{
    sync::{broadcast, mpsc},
    task::JoinSet,
};

use super::serve::Aggregator;
use crate::surface::keeper::{Keeper, Phase};

/// Of what a client asks for, what it is told: that lists changed. Single resources are not followed on a stream.
pub(super) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    accepted.resource_subscriptions = None;
    accepted
}

impl Aggregator {
    /// Tells a client what it asked for, until it no longer listens.
    pub(super) async fn tell_on(&self, context: SubscriptionContext) {
        let (changed, mut changes) = mpsc::channel(1);
        let mut watching = JoinSet::new();
        for keeper in self.keepers() {
            watching.spawn(watch(Arc::clone(keeper), changed.clone()));
        }
        let mut said = self.heard_by_all();
        loop {
            let told = tokio::select! {
                () = context.cancelled() => return,
                Some(()) = changes.recv() => context.sink().notify_tool_list_changed().await,
                said = said.recv() => match said {
                    // Told when they are listed as they are now.
                    Ok(ServerNotification::ToolListChangedNotification(_)) => continue,
                    Ok(said) => context.sink().send(said).await,
                    Err(broadcast::error::RecvError::Lagged(_)) => anything(context.sink()).await,
                    Err(broadcast::error::RecvError::Closed) => return,
                },
            };
            match told {
                Ok(())
                | Err(SubscriptionSendError::NotificationNotAccepted(_) | SubscriptionSendError::UnsupportedNotification(_)) => {}
                Err(_) => return,
            }
        }
    }
}

/// Says whenever the tools of a surface may have changed after its first attempt.
async fn watch(keeper: Arc<Keeper>, changed: mpsc::Sender<()>) {
    let mut view = keeper.watch();
    let settled = view.wait_for(|view| !matches!(view.phase, Phase::Starting)).await.is_ok();
    // One that waits already says it for all.
    while settled && view.changed().await.is_ok() && !changed.is_closed() {
        let _ = changed.try_send(());
    }
}

/// Nobody knows what was missed.
async fn anything(sink: &SubscriptionSink) -> Result<(), SubscriptionSendError> {
    let all = [
        ServerNotification::PromptListChangedNotification(Default::default()),
        ServerNotification::ResourceListChangedNotification(Default::default()),
    ];
    for said in all {
        match sink.send(said).await {
            Ok(()) | Err(SubscriptionSendError::NotificationNotAccepted(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
