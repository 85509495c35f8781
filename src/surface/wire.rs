use std::{
    io,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use memchr::memchr;
use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, ServerNotification},
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use serde_json::error::Category;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    sync::{Mutex, watch},
    time::Instant,
};

use super::quick::Quick;
use crate::process::{Allowance, Veil};

/// How many messages that answer nothing are heard, at once and in a second: what a server says unasked costs memory until it is handled.
const UNASKED: u32 = 1_000;
/// How much is read at once, at least; and how much memory is kept between messages, at most.
const PIECE: usize = 8 * 1024;
const KEPT: usize = 64 * 1024;
/// How much of a line that is no message is shown in the log.
const MAX_SAMPLE: usize = 120;

/// What was noticed on a wire, told to whoever asks.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rubbish: AtomicU64,
    cut: AtomicBool,
    changes: watch::Sender<u64>,
}

impl Faults {
    /// How many lines were no messages and were skipped.
    pub(super) fn rubbish(&self) -> u64 {
        self.rubbish.load(Ordering::Relaxed)
    }

    /// Tells, once, whether the wire was cut because a line had no end.
    pub(super) fn take_cut(&self) -> bool {
        self.cut.swap(false, Ordering::Relaxed)
    }

    /// How often the tools were said to have changed.
    pub(super) fn told(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Follows how often the tools were said to have changed.
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Counts that the tools have changed, or may have.
    pub(super) fn count_change(&self) {
        self.changes.send_modify(|count| *count += 1);
    }
}

/// Why a message did not leave as it should.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    /// So little of the line was written that nobody reads it as a message.
    #[error(transparent)]
    Unwritten(io::Error),
    /// All of the message was written, and what became of it is unknown.
    #[error(transparent)]
    Unsure(io::Error),
}

/// A transport whose word that the tools changed counts from the moment it is read, so before any answer that follows it.
pub(super) struct Heard<T> {
    pub(super) inner: T,
    pub(super) faults: Arc<Faults>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Heard<T> {
    type Error = T::Error;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.inner.receive().await?;
        if let JsonRpcMessage::Notification(told) = &message
            && matches!(told.notification, ServerNotification::ToolListChangedNotification(_))
        {
            self.faults.count_change();
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}

/// JSON-RPC, one message a line, over a pair of pipes.
///
/// A line that is no message is skipped and counted: a server that prints a greeting to stdout still works. A line longer than the
/// bound ends the connection, for its rest may never come.
pub(super) struct Lines<R, W> {
    name: String,
    read: R,
    /// What was read; so much of it was heard already, and up to there no line ends after that.
    ahead: Vec<u8>,
    heard: usize,
    searched: usize,
    max_line: usize,
    write: Arc<Mutex<Option<W>>>,
    faults: Arc<Faults>,
    /// What is taken out of a line before it is shown in the log.
    veil: Option<Veil>,
    unasked: Allowance,
}

impl<R: AsyncRead + Unpin, W> Lines<R, W> {
    /// Speaks over the two pipes; `name` is for the log.
    pub(super) fn new(name: String, read: R, write: W, max_line: usize, faults: Arc<Faults>) -> Self {
        Self {
            name,
            read,
            ahead: Vec::new(),
            heard: 0,
            searched: 0,
            max_line,
            write: Arc::new(Mutex::new(Some(write))),
            faults,
            veil: None,
            unasked: Allowance::new(UNASKED, UNASKED, Instant::now()),
        }
    }

    /// The same, with what nobody may read taken out of what the log has of it.
    pub(super) fn veiled(self, veil: Option<Veil>) -> Self {
        Self { veil, ..self }
    }

    /// Reads up to the next line end, and tells where in `self.ahead` the line is. `None` at the end of the stream, and when the line is
    /// too long.
    ///
    /// Cancel safe: what was read is kept, and nothing is awaited in between.
    async fn read_line(&mut self) -> Option<Range<usize>> {
        loop {
            let rest = self.ahead.get(self.searched..).unwrap_or_default();
            let end = memchr(b'\n', rest).map(|at| self.searched + at + 1);
            let line = self.heard..end.unwrap_or(self.ahead.len());
            self.searched = line.end;
            if line.len() > self.max_line {
                self.faults.cut.store(true, Ordering::Relaxed);
                tracing::warn!(surface = %self.name, bytes = line.len(), "a message is too long; the connection is cut");
                (self.ahead, self.heard, self.searched) = (Vec::new(), 0, 0);
                return None;
            }
            if end.is_some() {
                self.heard = line.end;
                return Some(line);
            }
            self.ahead.drain(..self.heard);
            self.searched -= self.heard;
            self.heard = 0;
            if self.ahead.is_empty() {
                self.ahead.shrink_to(KEPT);
            }
            self.ahead.reserve(PIECE);
            if !matches!(self.read.read_buf(&mut self.ahead).await, Ok(1..)) {
                return None;
            }
        }
    }

    fn tell_dropped(&self) {
        let count = self.unasked.refused();
        if count.is_power_of_two() {
            tracing::warn!(surface = %self.name, count, "more unasked messages come than are heard; dropped");
        }
    }

    fn skip(&self, line: &[u8]) {
        let count = self.faults.rubbish.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            let plain = self.veil.as_ref().map(|veil| veil.hide(&String::from_utf8_lossy(line)).into_bytes());
            let plain = plain.as_deref().unwrap_or(line);
            let shown = plain.get(..MAX_SAMPLE).unwrap_or(plain).escape_ascii();
            tracing::warn!(surface = %self.name, count, line = %shown, "a line is no message; skipped");
        }
    }
}

impl<Role, R, W> Transport<Role> for Lines<R, W>
where
    Role: Quick,
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = SendError;

    fn send(&mut self, message: TxJsonRpcMessage<Role>) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let write = Arc::clone(&self.write);
        async move {
            let mut line = Role::write(&message).map_err(|error| SendError::Unwritten(error.into()))?;
            line.push(b'\n');
            let mut write = write.lock().await;
            let Some(pipe) = write.as_mut() else { return Err(SendError::Unwritten(io::ErrorKind::NotConnected.into())) };
            write_line(pipe, &line).await
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<Role>> {
        while let Some(line) = self.read_line().await {
            let line = self.ahead.get(line).unwrap_or_default().trim_ascii();
            match Role::read(line) {
                Ok(message) if !Role::is_unasked(&message) || self.unasked.take(Instant::now()) => return Some(message),
                Ok(_) => self.tell_dropped(),
                Err(_) if line.is_empty() => {}
                Err(error) => {
                    self.skip(line);
                    if let (Category::Data, Some(complaint)) = (error.classify(), Role::complaint()) {
                        tokio::spawn(Transport::<Role>::send(self, complaint));
                    }
                }
            }
        }
        None
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.write.lock().await.take();
        Ok(())
    }
}

/// Writes a line. A reader may take a message that lacks only its line end for whole, so from there on a failure is a doubt.
async fn write_line(pipe: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> Result<(), SendError> {
    let mut left = line;
    while !left.is_empty() {
        let written = match pipe.write(left).await {
            Ok(0) => Err(io::ErrorKind::WriteZero.into()),
            written => written,
        };
        match written {
            Ok(count) => left = left.get(count..).unwrap_or_default(),
            Err(error) if left.len() > 1 => return Err(SendError::Unwritten(error)),
            Err(error) => return Err(SendError::Unsure(error)),
        }
    }
    pipe.flush().await.map_err(SendError::Unsure)
}

#[cfg(test)]
mod tests {
    use std::{
        pin::Pin,
        task::{self, Poll},
    };

    use rmcp::RoleServer;

    use super::*;

    /// A pipe that takes so many bytes and then breaks; one that took all breaks at the flush.
    struct Breaking(usize);

    impl AsyncWrite for Breaking {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut task::Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            Poll::Ready(if taken == 0 { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(taken) })
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut task::Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_message_that_was_written_whole_is_never_told_as_unsent() {
        for (taken, may_be_read) in [(0, false), (3, false), (4, true), (5, true)] {
            let error = write_line(&mut Breaking(taken), b"{  }\n").await.unwrap_err();
            assert_eq!(matches!(error, SendError::Unsure(_)), may_be_read, "{taken} bytes were written: {error:?}");
        }
    }

    const ANSWER: &[u8] = br#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

    async fn hear(said: &[u8], max_line: usize) -> (Vec<RxJsonRpcMessage<RoleClient>>, Arc<Faults>) {
        let faults = Arc::<Faults>::default();
        let mut lines = Lines::new("test".to_owned(), said, tokio::io::sink(), max_line, Arc::clone(&faults));
        let mut heard = Vec::new();
        while let Some(message) = Transport::<RoleClient>::receive(&mut lines).await {
            heard.push(message);
        }
        (heard, faults)
    }

    #[tokio::test]
    async fn a_message_between_rubbish_is_not_lost() {
        let said = [b"Server ready!\n\n\xff\xfe\n[1,2]\n".as_slice(), ANSWER, b"\r\n{\"half\":\n"].concat();
        let (heard, faults) = hear(&said, 1_000).await;
        assert!(matches!(heard.as_slice(), [JsonRpcMessage::Response(_)]), "{heard:?}");
        assert_eq!(faults.rubbish(), 4);
        assert!(!faults.take_cut());
    }

    #[tokio::test]
    async fn a_flood_of_unasked_messages_is_not_heard_whole_and_no_answer_is_lost_in_it() {
        let unasked = br#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
        let said = [[unasked.as_slice(), b"\n"].concat().repeat(10_000), ANSWER.to_vec(), b"\n".to_vec()].concat();
        let (heard, _) = hear(&said, 1_000).await;
        assert!(matches!(heard.last(), Some(JsonRpcMessage::Response(_))));
        assert!((1_001..5_000).contains(&heard.len()), "{}", heard.len());
    }

    #[tokio::test]
    async fn a_client_is_heard_whole_however_much_it_asks_and_in_whichever_pieces_it_comes() {
        let call = |id: usize| {
            let text = "x".repeat(if id == 1_500 { 4 * KEPT } else { id % 700 });
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
            )
        };
        let (ours, mut theirs) = tokio::io::duplex(97);
        let said: String = (0..3_000).map(|id| call(id) + "\n").collect();
        let saying = tokio::spawn(async move { theirs.write_all(said.as_bytes()).await });
        let mut lines = Lines::new("test".to_owned(), ours, tokio::io::sink(), 5 * KEPT, Arc::default());
        for id in 0..3_000 {
            let heard = Transport::<RoleServer>::receive(&mut lines).await;
            assert_eq!(serde_json::json!(heard).to_string(), call(id));
        }
        assert!(Transport::<RoleServer>::receive(&mut lines).await.is_none());
        saying.await.unwrap().unwrap();
        assert!(lines.ahead.capacity() <= KEPT, "no more is kept than a connection at rest needs");
    }

    #[tokio::test]
    async fn a_client_that_says_what_is_no_message_is_told_and_goes_on() {
        let asked = br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
        let said = [b"{\"half\":\n[1]\n".as_slice(), asked, b"\n"].concat();
        let (ours, mut theirs) = tokio::io::duplex(4_096);
        let mut lines = Lines::new("test".to_owned(), said.as_slice(), ours, 1_000, Arc::default());
        let heard = Transport::<RoleServer>::receive(&mut lines).await;
        assert!(matches!(heard, Some(JsonRpcMessage::Request(_))));
        assert!(Transport::<RoleServer>::receive(&mut lines).await.is_none());
        drop(lines);
        let mut told = String::new();
        theirs.read_to_string(&mut told).await.unwrap();
        assert_eq!(told.lines().count(), 1, "what is no JSON may be an echo, and is told nothing: {told}");
        assert!(told.contains("-32600"), "{told}");
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_cut_off() {
        let said = [ANSWER, b"\n", &[b'x'; 5_000], b"\n", ANSWER, b"\n"].concat();
        let (heard, faults) = hear(&said, 4_096).await;
        assert_eq!(heard.len(), 1);
        assert!(faults.take_cut());
    }

    #[tokio::test]
    async fn a_line_that_just_fits_is_heard() {
        let said = [ANSWER, b"\n"].concat();
        let (heard, _) = hear(&said, said.len()).await;
        assert_eq!(heard.len(), 1);
        let (heard, faults) = hear(&said, said.len() - 1).await;
        assert!(heard.is_empty() && faults.take_cut());
    }
}
