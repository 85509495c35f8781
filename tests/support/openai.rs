//! A scripted server that speaks OpenAI-shaped chat completions on loopback.
//!
//! It runs in a thread of its own, so that plain and `async` tests, and processes that they start, can talk to it alike. The script
//! is a closure over each request ([`Server::start`]) or a list that is played once ([`Server::play`]). Every request is recorded.

use std::{
    collections::{BTreeMap, VecDeque},
    net::SocketAddr,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::{Request, State},
    http::StatusCode,
    response::Response,
};
use serde_json::{Value, json};
use tokio::sync::oneshot;

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Seen {
    /// How many came before it.
    pub index: usize,
    pub method: String,
    pub path: String,
    /// By lowercase name.
    pub headers: BTreeMap<String, String>,
    pub raw: Vec<u8>,
    /// The body as JSON, or null.
    pub body: Value,
}

impl Seen {
    /// The text of the last message.
    pub fn last_message(&self) -> &str {
        let last = self.body["messages"].as_array().and_then(|messages| messages.last());
        last.and_then(|message| message["content"].as_str()).unwrap_or_default()
    }

    /// The messages of one role, oldest first.
    pub fn said_by(&self, role: &str) -> Vec<&str> {
        let messages = self.body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        messages.iter().filter(|message| message["role"] == role).filter_map(|message| message["content"].as_str()).collect()
    }

    /// The names of the offered tools.
    pub fn tools(&self) -> Vec<&str> {
        let tools = self.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        tools.iter().filter_map(|tool| tool["function"]["name"].as_str()).collect()
    }
}

/// What the server does with a request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    after: Duration,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Whole,
    /// Never answers.
    Hang,
    /// Closes the connection without a word.
    Disconnect,
    /// Closes the connection in the midst of the body.
    CutOff,
}

impl Reply {
    /// A plain reply of the model.
    pub fn say(text: &str) -> Self {
        Self::completion(json!({ "role": "assistant", "content": text }), "stop")
    }

    /// A reply that asks for one tool.
    pub fn call(tool: &str, arguments: Value) -> Self {
        Self::calls(&[("call-1", tool, arguments)])
    }

    /// A reply that asks for tools, as `(id, name, arguments)`.
    pub fn calls(calls: &[(&str, &str, Value)]) -> Self {
        let calls: Vec<Value> = calls
            .iter()
            .map(|(id, name, arguments)| {
                json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments.to_string() } })
            })
            .collect();
        Self::completion(json!({ "role": "assistant", "content": null, "tool_calls": calls }), "tool_calls")
    }

    /// A completion with any message and finish reason; it counts 10 and 5 tokens.
    pub fn completion(message: Value, finish_reason: &str) -> Self {
        let mut choice = json!({ "index": 0, "finish_reason": finish_reason });
        choice["message"] = message;
        Self::json(
            200,
            &json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": [choice],
                "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
            }),
        )
    }

    /// An error in the usual envelope.
    pub fn error(status: u16, message: &str) -> Self {
        Self::json(status, &json!({ "error": { "message": message, "type": "scripted", "code": status } }))
    }

    /// Any JSON with any status.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::raw(status, body.to_string().into_bytes()).header("content-type", "application/json")
    }

    /// Any bytes with any status.
    pub fn raw(status: u16, body: Vec<u8>) -> Self {
        Self { status, headers: Vec::new(), body, after: Duration::ZERO, end: End::Whole }
    }

    /// No answer, ever.
    pub fn hang() -> Self {
        Self { end: End::Hang, ..Self::raw(200, Vec::new()) }
    }

    /// A connection that is closed instead of an answer.
    pub fn disconnect() -> Self {
        Self { end: End::Disconnect, ..Self::raw(200, Vec::new()) }
    }

    /// The same reply, lost in the midst of its body.
    #[must_use]
    pub fn cut_off(self) -> Self {
        Self { end: End::CutOff, ..self }
    }

    /// The same reply with a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same reply, later.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { after: delay, ..self }
    }

    /// The same completion with another count of tokens.
    #[must_use]
    pub fn counting(mut self, prompt: u64, completion: u64) -> Self {
        let mut body: Value = serde_json::from_slice(&self.body).expect("a completion");
        body["usage"] = json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion });
        self.body = body.to_string().into_bytes();
        self
    }
}

type Script = Box<dyn Fn(&Seen) -> Reply + Send + Sync>;

struct Shared {
    script: Script,
    seen: Mutex<Vec<Seen>>,
    came: Condvar,
    open: AtomicUsize,
    peak: AtomicUsize,
}

/// The running server; it stops when dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts a server that answers each request as `script` says.
    pub fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port on loopback");
        listener.set_nonblocking(true).expect("a listener for tokio");
        let address = listener.local_addr().expect("a bound port");
        let shared = Arc::new(Shared {
            script: Box::new(script),
            seen: Mutex::default(),
            came: Condvar::new(),
            open: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
        });
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::spawn(move || serve(listener, served, stopped));
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// Starts a server that plays a list of replies once, and answers what comes after them with a 400.
    pub fn play(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies: Mutex<VecDeque<Reply>> = Mutex::new(replies.into_iter().collect());
        Self::start(move |_| {
            replies.lock().expect("no panic").pop_front().unwrap_or_else(|| Reply::error(400, "the script is used up"))
        })
    }

    /// The `base_url` for a manifest, `/v1` included.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// A manifest's table of the model `scripted`, which this server answers for, at 1 and 2 USD per million tokens.
    pub fn model(&self) -> String {
        format!(
            "[model.scripted]\nprovider = \"openai\"\nbase_url = \"{}\"\nmodel = \"scripted\"\nprice = {{ input = \"1\", output = \"2\" }}",
            self.base_url()
        )
    }

    /// The address without a path.
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().expect("no panic").clone()
    }

    /// Waits until so many requests came, and fails the test when they do not come in time.
    #[expect(clippy::disallowed_methods, reason = "a deadline of a test")]
    pub fn wait_for(&self, count: usize, deadline: Duration) -> Vec<Seen> {
        let until = Instant::now() + deadline;
        let mut seen = self.shared.seen.lock().expect("no panic");
        while seen.len() < count {
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} of {count} requests came within {deadline:?}", seen.len());
            seen = self.shared.came.wait_timeout(seen, left).expect("no panic").0;
        }
        seen.clone()
    }

    /// The most requests that were ever open at once.
    pub fn peak(&self) -> usize {
        self.shared.peak.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listener: std::net::TcpListener, shared: Arc<Shared>, stopped: oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        let router = Router::new().fallback(answer).with_state(shared);
        tokio::select! {
            _ = stopped => {}
            ended = async { axum::serve(listener, router).await } => ended.expect("the server runs"),
        }
    });
    runtime.shutdown_background();
}

/// Counts a request as open until it is answered or given up.
struct Open(Arc<Shared>);

impl Open {
    fn new(shared: &Arc<Shared>) -> Self {
        let open = shared.open.fetch_add(1, Ordering::SeqCst) + 1;
        shared.peak.fetch_max(open, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let _open = Open::new(&shared);
    let (head, body) = request.into_parts();
    let raw = axum::body::to_bytes(body, 64 * 1024 * 1024).await.expect("a body").to_vec();
    let headers =
        head.headers.iter().map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()));
    let seen = {
        let mut all = shared.seen.lock().expect("no panic");
        let body = serde_json::from_slice(&raw).unwrap_or_default();
        let (index, method, path) = (all.len(), head.method.to_string(), head.uri.path().to_owned());
        all.push(Seen { index, method, path, headers: headers.collect(), raw, body });
        shared.came.notify_all();
        all.last().cloned().expect("just pushed")
    };
    let reply = (shared.script)(&seen);
    if !reply.after.is_zero() {
        tokio::time::sleep(reply.after).await;
    }
    match reply.end {
        End::Whole => respond(&reply, Body::from(reply.body.clone())),
        End::Hang => std::future::pending().await,
        // Unwinding past the connection closes it; nothing is printed, for no panic hook runs.
        End::Disconnect => std::panic::resume_unwind(Box::new("disconnect")),
        End::CutOff => {
            let half = Bytes::copy_from_slice(&reply.body[..reply.body.len() / 2]);
            let lost = futures::stream::iter([Ok(half), Err(std::io::Error::other("cut off"))]);
            respond(&reply, Body::from_stream(lost))
        }
    }
}

fn respond(reply: &Reply, body: Body) -> Response {
    let mut response = Response::builder().status(StatusCode::from_u16(reply.status).expect("a status"));
    for (name, value) in &reply.headers {
        response = response.header(name, value);
    }
    response.body(body).expect("a reply that can be sent")
}
