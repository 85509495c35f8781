use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The one line of a terminal that says how far something is; where there is no terminal, nothing is drawn.
#[derive(Debug)]
pub(super) struct Progress(ProgressBar);

/// How often the line moves by itself.
const TICK: Duration = Duration::from_millis(120);

impl Progress {
    /// A line that says nothing yet.
    pub(super) fn new(is_lively: bool) -> Self {
        let target = if is_lively { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        Self(ProgressBar::with_draw_target(None, target))
    }

    /// Says how much of the model is fetched, in bytes.
    pub(super) fn fetching(&self, done: u64, total: u64) {
        self.0.disable_steady_tick();
        self.draw_as("fetching the model {wide_bar} {bytes}/{total_bytes} {eta}");
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// Says what is waited for.
    pub(super) fn waiting(&self, text: String) {
        self.draw_as("{spinner} {msg}");
        self.0.set_message(text);
        self.0.enable_steady_tick(TICK);
    }

    fn draw_as(&self, template: &str) {
        self.0.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()));
    }

    /// Says something above the line.
    pub(super) fn above(&self, say: impl FnOnce()) {
        self.0.suspend(say);
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
