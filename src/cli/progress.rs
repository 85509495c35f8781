use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar for bytes on a terminal; where there is none, nothing moves.
#[derive(Debug)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar that shows nothing yet.
    pub(super) fn new(is_lively: bool) -> Self {
        let target = if is_lively { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        let style = ProgressStyle::with_template("fetching the model {wide_bar} {bytes}/{total_bytes} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self(bar)
    }

    /// Shows how far a download is, in bytes.
    pub(super) fn show(&self, done: u64, total: u64) {
        self.0.set_length(total);
        self.0.set_position(done);
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

/// A line that says what is waited for, in place on a terminal.
#[derive(Debug)]
pub(super) struct Waiting(ProgressBar);

impl Waiting {
    /// A line that says nothing yet.
    pub(super) fn new(is_lively: bool) -> Self {
        let target = if is_lively { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let spinner = ProgressBar::with_draw_target(None, target);
        spinner.enable_steady_tick(std::time::Duration::from_millis(120));
        Self(spinner)
    }

    /// Says what is waited for.
    pub(super) fn say(&self, text: String) {
        self.0.set_message(text);
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
