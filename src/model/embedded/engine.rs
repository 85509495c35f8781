use std::{
    collections::HashMap,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tokio::sync::oneshot;

use singularity_kernel::{Level, Team};

use super::{
    cache::Slots,
    chat::{self, BEFORE_ARGUMENTS, BEFORE_NAME},
    count::Count,
    error::EmbeddedError,
    forward::Engine,
    grammar::Machine,
    reply::{Bounds, End, Reply, Writer},
    sample::Sampler,
    score,
    token::Vocabulary,
    weights,
};
use crate::{
    being::{ChatMessage, ChatRequest, Completion, CountTokens, Finish, ToolCall, ToolDefinition, Usage},
    model::{ScoreRequest, Scores},
    vocab::Digest,
};

/// Requests that wait; one more is told to come later.
const MAX_WAITING: usize = 64;
/// Catalogues whose grammars are kept.
const MAX_CATALOGUES: usize = 8;
/// Calls that may fail the check of their schema before the reply is text.
const MAX_TRIES: u64 = 3;
/// The chance that a repeated try needs to come out differently.
const RETRY_MILLI: u16 = 800;

/// How a reply is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    pub max_tokens: u32,
    pub temperature_milli: u16,
    pub seed: u64,
}

/// A loaded model. Clones share it; it answers one request at a time, in the order in which they came.
#[derive(Debug, Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    name: String,
    context: usize,
    tokenizer: Arc<dyn CountTokens>,
    queue: Option<SyncSender<Work>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Work {
    task: Task,
    cancel: Arc<AtomicBool>,
}

type Answered<T> = oneshot::Sender<Result<T, EmbeddedError>>;

#[derive(Debug)]
enum Task {
    Complete { request: ChatRequest, sampling: Sampling, answered: Answered<Completion> },
    Score { request: ChatRequest, answers: Vec<&'static str>, answered: Answered<Scores> },
}

/// Tells the model to stop when the one who asked no longer waits.
struct Asking(Arc<AtomicBool>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Embedded {
    /// Reads the weights and starts `threads` threads. Blocks for some tenths of a second.
    pub fn load(path: &Path, threads: NonZeroUsize) -> Result<Self, EmbeddedError> {
        let (content, weights) = weights::read(path, threads)?;
        let words = Arc::new(Vocabulary::read(path, &content)?);
        if weights.shape.vocabulary != words.len() {
            return Err(EmbeddedError::Unfit {
                path: path.to_owned(),
                why: "its vocabulary and its embedding differ in size".into(),
            });
        }
        let (name, context) = (weights.name.clone(), weights.shape.context);
        let tokenizer = Arc::new(Count { words: Arc::clone(&words), context });
        let team = Team::start(threads).map_err(EmbeddedError::NoThreads)?;
        let mut mind =
            Mind { engine: Engine::new(weights, Level::best(), team), words, slots: Slots::default(), catalogues: Vec::new() };
        let (queue, work) = sync_channel(MAX_WAITING);
        let thread =
            thread::Builder::new().name("embedded".into()).spawn(move || mind.serve(&work)).map_err(EmbeddedError::NoThreads)?;
        Ok(Self { inner: Arc::new(Inner { name, context, tokenizer, queue: Some(queue), thread: Some(thread) }) })
    }

    /// The model's own name.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// How many tokens a prompt and its answer may have together.
    pub fn context(&self) -> usize {
        self.inner.context
    }

    /// What counts the tokens of a request as this model reads it.
    pub fn tokenizer(&self) -> Arc<dyn CountTokens> {
        Arc::clone(&self.inner.tokenizer)
    }

    /// Answers a request. Cancel safe: dropping the future ends the work on it within one token, and nothing else is lost.
    pub async fn complete(&self, request: &ChatRequest, sampling: Sampling) -> Result<Completion, EmbeddedError> {
        let request = request.clone();
        self.ask(|answered| Task::Complete { request, sampling, answered }).await
    }

    /// Reads what the model makes of each answer as the next thing to say, in one pass and without writing anything. Prompts that
    /// begin alike share what was read of them. Cancel safe.
    pub async fn score(&self, asked: &ScoreRequest) -> Result<Scores, EmbeddedError> {
        let messages = vec![ChatMessage::system(&asked.system), ChatMessage::user(&asked.user)];
        let request = ChatRequest { model: String::new(), messages, tools: Arc::from([]), prompt_tokens: 0 };
        self.ask(|answered| Task::Score { request, answers: asked.answers.clone(), answered }).await
    }

    async fn ask<T>(&self, task: impl FnOnce(Answered<T>) -> Task) -> Result<T, EmbeddedError> {
        let (answered, answer) = oneshot::channel();
        let asking = Asking(Arc::new(AtomicBool::new(false)));
        let work = Work { task: task(answered), cancel: Arc::clone(&asking.0) };
        let queue = self.inner.queue.as_ref().ok_or(EmbeddedError::Stopped)?;
        queue.try_send(work).map_err(|refused| match refused {
            TrySendError::Full(_) => EmbeddedError::Busy { waiting: MAX_WAITING },
            TrySendError::Disconnected(_) => EmbeddedError::Stopped,
        })?;
        let answer = answer.await.unwrap_or(Err(EmbeddedError::Stopped));
        drop(asking);
        answer
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has told its callers that it stopped.
            let _ = thread.join();
        }
    }
}

/// What the model's thread owns.
#[derive(Debug)]
struct Mind {
    engine: Engine,
    words: Arc<Vocabulary>,
    slots: Slots,
    catalogues: Vec<Arc<Catalogue>>,
}

/// What was made of a set of tools.
#[derive(Debug)]
struct Catalogue {
    tools: Arc<[ToolDefinition]>,
    shown: String,
    machine: Option<Machine>,
    checks: HashMap<String, jsonschema::Validator>,
}

impl Mind {
    fn serve(&mut self, queue: &Receiver<Work>) {
        while let Ok(work) = queue.recv() {
            if work.cancel.load(Ordering::Relaxed) {
                continue;
            }
            // Where nobody waits any more the answer is lost, as it was meant to be.
            match work.task {
                Task::Complete { request, sampling, answered } => {
                    let result = self.answer(&request, sampling, &work.cancel).transpose();
                    result.map(|result| answered.send(result).is_ok())
                }
                Task::Score { request, answers, answered } => {
                    let result = self.score(&request, &answers, &work.cancel).transpose();
                    result.map(|result| answered.send(result).is_ok())
                }
            };
        }
    }

    /// Answers one request; nothing when it was cancelled.
    fn answer(
        &mut self,
        request: &ChatRequest,
        sampling: Sampling,
        cancel: &AtomicBool,
    ) -> Result<Option<Completion>, EmbeddedError> {
        let context = self.engine.weights.shape.context;
        let catalogue = self.catalogue(&request.tools)?;
        let most = usize::try_from(sampling.max_tokens).unwrap_or(usize::MAX).max(1);
        let prompt = chat::render(request, &catalogue.shown, most, context, &self.words)?;
        let shape = self.engine.weights.shape.clone();
        let mut cache = self.slots.take(&prompt, &shape);
        let unread = prompt.get(cache.len()..).unwrap_or_default();
        let read = self.engine.read(unread, &mut cache, cancel).map(<[f32]>::to_vec);
        let written = read.and_then(|logits| {
            let most = most.min(context - prompt.len());
            let mut writer = Writer { engine: &mut self.engine, words: &self.words, cache: &mut cache, cancel, most };
            settle(&mut writer, &logits, &catalogue, prompt.len(), sampling)
        });
        self.slots.put(cache, &shape);
        Ok(written.ok().map(|(reply, call, tokens)| self.completion(&prompt, &reply, call, tokens)))
    }

    /// Reads a prompt and what the model makes of some answers; nothing when it was cancelled.
    fn score(&mut self, request: &ChatRequest, answers: &[&str], cancel: &AtomicBool) -> Result<Option<Scores>, EmbeddedError> {
        let slots = score::slots(answers, &self.words)?;
        let shape = self.engine.weights.shape.clone();
        let prompt = chat::render(request, "", 1, shape.context, &self.words)?;
        let mut cache = self.slots.take(&prompt, &shape);
        let unread = prompt.get(cache.len()..).unwrap_or_default();
        let scores = self.engine.read(unread, &mut cache, cancel).map(|logits| score::weigh(logits, &slots));
        self.slots.put(cache, &shape);
        let usage = Usage::new(u64::try_from(prompt.len()).unwrap_or(u64::MAX), 0);
        let model = &self.engine.weights.name;
        Ok(scores.ok().map(|(logits, mass)| Scores { logits, mass, usage, model: model.clone(), is_partial: false }))
    }

    fn catalogue(&mut self, tools: &Arc<[ToolDefinition]>) -> Result<Arc<Catalogue>, EmbeddedError> {
        if let Some(known) = self.catalogues.iter().find(|known| Arc::ptr_eq(&known.tools, tools) || known.tools == *tools) {
            return Ok(Arc::clone(known));
        }
        let shown = chat::catalogue(tools, self.engine.weights.shape.context, &self.words)?;
        let named = tools.iter().map(|tool| (tool.name.as_str(), &tool.parameters));
        let machine = Machine::of_calls(named, BEFORE_NAME, BEFORE_ARGUMENTS);
        // A schema that is not sound has no check; the grammar alone holds then, and the tool's own check decides.
        let checks =
            tools.iter().filter_map(|tool| Some((tool.name.clone(), jsonschema::validator_for(&tool.parameters).ok()?))).collect();
        let made = Arc::new(Catalogue { tools: Arc::clone(tools), shown, machine, checks });
        if self.catalogues.len() >= MAX_CATALOGUES {
            self.catalogues.remove(0);
        }
        self.catalogues.push(Arc::clone(&made));
        Ok(made)
    }

    fn completion(&self, prompt: &[u32], reply: &Reply, call: Option<(String, String)>, tokens: u64) -> Completion {
        let text = String::from_utf8_lossy(&reply.text).into_owned();
        let usage = Usage::new(u64::try_from(prompt.len()).unwrap_or(u64::MAX), tokens);
        let model = self.engine.weights.name.clone();
        match call {
            Some((tool, arguments)) => {
                let call = ToolCall::new(call_id(prompt, &text), tool, arguments);
                Completion { model, content: None, tool_calls: vec![call], finish: Finish::ToolCalls, usage }
            }
            None => {
                let finish = if reply.end == End::Length { Finish::Length } else { Finish::Stop };
                Completion { model, content: Some(text), tool_calls: Vec::new(), finish, usage }
            }
        }
    }
}

type Settled = (Reply, Option<(String, String)>, u64);

/// Writes until the reply is text or a call that passes its check; after some tries that do not, text it is.
fn settle(
    writer: &mut Writer<'_>,
    logits: &[f32],
    catalogue: &Catalogue,
    prompt: usize,
    sampling: Sampling,
) -> Result<Settled, super::forward::Cancelled> {
    let mut tokens = 0;
    for attempt in 0..=MAX_TRIES {
        writer.cache.truncate(prompt);
        let bounds = match &catalogue.machine {
            Some(machine) if attempt < MAX_TRIES => Bounds::Calls(machine),
            Some(_) => Bounds::NoCall,
            None => Bounds::Free,
        };
        let temperature = if attempt == 0 { sampling.temperature_milli } else { sampling.temperature_milli.max(RETRY_MILLI) };
        let mut sampler = Sampler::new(temperature, sampling.seed.wrapping_add(attempt));
        let reply = writer.write(logits.to_vec(), bounds, &mut sampler)?;
        tokens += reply.tokens;
        if reply.end != End::Call {
            return Ok((reply, None, tokens));
        }
        if let Some(call) = checked(&reply.text, catalogue) {
            return Ok((reply, Some(call), tokens));
        }
    }
    Ok((Reply { text: Vec::new(), tokens, end: End::Text }, None, tokens))
}

/// The tool and the arguments of a call that names a tool and passes its schema.
fn checked(text: &[u8], catalogue: &Catalogue) -> Option<(String, String)> {
    let text = std::str::from_utf8(text).ok()?;
    let called = catalogue.tools.iter().find_map(|tool| {
        let name = Value::from(tool.name.as_str()).to_string();
        let rest = text.strip_prefix(BEFORE_NAME)?.strip_prefix(name.as_str())?.strip_prefix(BEFORE_ARGUMENTS)?;
        Some((tool, rest))
    });
    let (tool, arguments) = called?;
    let value: Value = serde_json::from_str(arguments).ok()?;
    let fits = value.is_object() && catalogue.checks.get(&tool.name).is_none_or(|check| check.is_valid(&value));
    fits.then(|| (tool.name.clone(), arguments.to_owned()))
}

/// An id that the same prompt and reply always get, and no other in one conversation.
fn call_id(prompt: &[u32], text: &str) -> String {
    let mut hasher = Sha256::new();
    for token in prompt {
        hasher.update(token.to_le_bytes());
    }
    hasher.update(text);
    let digest = Digest::finish(hasher).to_string();
    format!("call_{}", digest.get(..16).unwrap_or(&digest))
}
