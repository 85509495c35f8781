//! What servers ask of people in the midst of calls.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, InputRequest, InputRequiredResult, InputResponses};
use serde_json::{Map, Value};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{sleep, timeout},
};

/// How many questions of one surface wait at once; those beyond are cancelled.
const MAX_WAITING: usize = 4;
/// How often a server may ask in one call; each question gives the call its whole time again.
pub(super) const MAX_ASKED_IN_A_CALL: usize = 16;
/// How long before a server that only wants to be asked again is.
const AGAIN: Duration = Duration::from_millis(250);

/// A question of a server, until it is answered; dropping it cancels it.
#[derive(Debug)]
pub struct Ask {
    params: ElicitRequestParams,
    reply: oneshot::Sender<ElicitResult>,
}

/// What a server asks of a person.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    pub message: String,
    /// What the values have to fit.
    pub schema: Option<Value>,
    /// Where the person is to go, in the place of giving values here.
    pub url: Option<String>,
}

impl Ask {
    /// What is asked, in the server's words.
    pub fn asked(&self) -> Asked {
        match &self.params {
            ElicitRequestParams::FormElicitationParams { message, requested_schema, .. } => {
                Asked { message: message.clone(), schema: serde_json::to_value(requested_schema).ok(), url: None }
            }
            ElicitRequestParams::UrlElicitationParams { message, url, .. } => {
                Asked { message: message.clone(), schema: None, url: Some(url.clone()) }
            }
            _ => Asked { message: String::new(), schema: None, url: None },
        }
    }

    /// Gives the server what it asked for.
    pub fn accept(self, values: Map<String, Value>) {
        let is_form = matches!(self.params, ElicitRequestParams::FormElicitationParams { .. });
        let accepted = ElicitResult::new(ElicitationAction::Accept);
        self.answer(if is_form { accepted.with_content(Value::Object(values)) } else { accepted });
    }

    /// Tells the server that a person will not.
    pub fn decline(self) {
        self.answer(ElicitResult::new(ElicitationAction::Decline));
    }

    /// Waits until the server no longer waits. Cancel safe.
    pub async fn withdrawn(&mut self) {
        self.reply.closed().await;
    }

    /// Tells whether the server no longer waits.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.reply.is_closed()
    }

    /// What to ask with whoever can be.
    pub(super) const fn params(&self) -> &ElicitRequestParams {
        &self.params
    }

    pub(super) fn answer(self, result: ElicitResult) {
        let _ = self.reply.send(result);
    }
}

/// Where questions come out.
pub(super) type Questions = mpsc::Receiver<Ask>;

/// Where the questions of one server go in, and the clock that stands while it waits for a person.
#[derive(Debug, Clone)]
pub(super) struct Asks {
    sender: mpsc::Sender<Ask>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    calls: watch::Sender<Calls>,
    /// Since the first of the calls under way began.
    asked: AtomicUsize,
    waiting: watch::Sender<usize>,
}

/// The calls of one server.
#[derive(Debug, Default)]
struct Calls {
    under_way: usize,
    /// How often one began while no other was under way.
    begun: u64,
}

/// The way for the questions of several servers.
pub(super) fn questions() -> (mpsc::Sender<Ask>, Questions) {
    mpsc::channel(MAX_WAITING)
}

impl Asks {
    pub(super) fn new(sender: mpsc::Sender<Ask>) -> Self {
        Self { sender, shared: Arc::default() }
    }

    /// The same way, with a clock of its own.
    pub(super) fn apart(&self) -> Self {
        Self::new(self.sender.clone())
    }

    /// Has the clock stand until what this yields is dropped, for a question that takes another way.
    pub(super) fn waiting(&self) -> impl Drop + '_ {
        Waiting::begin(&self.shared.waiting)
    }

    /// Asks for the server; one that asks outside of a call, or too often, is told that nobody answers. A question is over when the calls
    /// are that it came in.
    pub(super) async fn ask(&self, params: ElicitRequestParams) -> ElicitResult {
        let nobody = || ElicitResult::new(ElicitationAction::Cancel);
        let mut calls = self.shared.calls.subscribe();
        let (is_calling, begun) = {
            let calls = calls.borrow();
            (calls.under_way > 0, calls.begun)
        };
        if !is_calling || self.shared.asked.fetch_add(1, Ordering::SeqCst) >= MAX_ASKED_IN_A_CALL {
            return nobody();
        }
        let (reply, answer) = oneshot::channel();
        let _waiting = Waiting::begin(&self.shared.waiting);
        match self.sender.try_send(Ask { params, reply }) {
            Ok(()) => tokio::select! {
                answer = answer => answer.unwrap_or_else(|_| nobody()),
                _ = calls.wait_for(|calls| calls.under_way == 0 || calls.begun != begun) => nobody(),
            },
            Err(_) => nobody(),
        }
    }

    /// Asks all that a server wants to know before it goes on; `None` where it wants something that is not given.
    pub(super) async fn fulfil(&self, wanted: InputRequiredResult) -> Option<(Option<InputResponses>, Option<String>)> {
        let requests = wanted.input_requests.unwrap_or_default();
        if requests.is_empty() {
            wanted.request_state.as_ref()?;
            sleep(AGAIN).await;
        }
        let mut responses = BTreeMap::new();
        for (key, request) in requests {
            let InputRequest::Elicitation(request) = request else { return None };
            responses.insert(key, serde_json::to_value(self.ask(request.params).await).ok()?);
        }
        Some(((!responses.is_empty()).then_some(responses), wanted.request_state))
    }

    /// Waits for the end of a call, `deadline` at most; the time that a person is asked does not count, and after it the whole counts
    /// anew. `None` when it passed.
    pub(super) async fn within<T>(&self, deadline: Duration, call: impl Future<Output = T>) -> Option<T> {
        let _calling = Calling::begin(&self.shared);
        let mut waiting = self.shared.waiting.subscribe();
        let late = async {
            loop {
                let _ = waiting.wait_for(|count| *count == 0).await;
                if timeout(deadline, waiting.wait_for(|count| *count > 0)).await.is_err() {
                    return;
                }
            }
        };
        let (mut call, mut late) = (pin!(call), pin!(late));
        tokio::select! {
            biased;
            done = &mut call => Some(done),
            () = &mut late => None,
        }
    }
}

/// Counts a question while it waits.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(count: &'a watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

/// Counts a call while it is under way.
struct Calling<'a>(&'a Shared);

impl<'a> Calling<'a> {
    fn begin(shared: &'a Shared) -> Self {
        shared.calls.send_modify(|calls| {
            if calls.under_way == 0 {
                shared.asked.store(0, Ordering::SeqCst);
                calls.begun += 1;
            }
            calls.under_way += 1;
        });
        Self(shared)
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.calls.send_modify(|calls| calls.under_way = calls.under_way.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn a_question_is_over_when_the_call_is_that_it_came_in_and_not_the_next() {
        let (sender, mut questions) = questions();
        let asks = Asks::new(sender);
        let form = json!({ "mode": "form", "message": "Who?", "requestedSchema": { "type": "object", "properties": {} } });
        let params = serde_json::from_value(form).unwrap();
        let (begin, begun) = oneshot::channel::<()>();
        let asking = async {
            begun.await.unwrap();
            asks.ask(params).await
        };
        let calling = async {
            let minute = Duration::from_secs(60);
            let call = asks.within(minute, async {
                begin.send(()).unwrap();
                questions.recv().await.unwrap()
            });
            let mut ask = call.await.unwrap();
            // The next one begins before anybody could look.
            asks.within(minute, ask.withdrawn()).await.unwrap();
            ask
        };
        let (answer, ask) = timeout(Duration::from_secs(30), async { tokio::join!(asking, calling) }).await.unwrap();
        assert_eq!(answer.action, ElicitationAction::Cancel);
        assert!(ask.is_withdrawn(), "nobody is asked any more");
    }
}
