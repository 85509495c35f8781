use std::{fmt, sync::Arc, time::Duration};

use uuid::Uuid;

use crate::vocab::{Span, Timestamp};

/// The wall clock: the one source of instants.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// The machine's clock.
    #[expect(clippy::disallowed_methods, reason = "this is the clock that everyone else is handed")]
    pub fn system() -> Self {
        Self(Arc::new(Timestamp::now))
    }

    /// The instant that it is now.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }

    /// The same clock as a function.
    pub fn as_function(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        Arc::clone(&self.0)
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

/// The one source of fresh ids.
#[derive(Clone)]
pub struct Ids(Arc<dyn Fn() -> Uuid + Send + Sync>);

impl Ids {
    /// Random ids.
    #[expect(clippy::disallowed_methods, reason = "this is the source of ids that everyone else is handed")]
    pub fn random() -> Self {
        Self(Arc::new(Uuid::new_v4))
    }

    /// A fresh id.
    pub fn next(&self) -> Uuid {
        (self.0)()
    }
}

impl fmt::Debug for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ids")
    }
}

/// Measures how long something takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stopwatch(tokio::time::Instant);

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(super) fn elapsed(self) -> Span {
        Span::from(self.0.elapsed())
    }

    /// The instant `after` the start; what lies past the end of time is far away.
    pub(super) fn after(self, after: Duration) -> tokio::time::Instant {
        self.0.checked_add(after).unwrap_or_else(|| self.0 + FAR)
    }
}

/// About thirty years.
const FAR: Duration = Duration::from_secs(1_000_000_000);
