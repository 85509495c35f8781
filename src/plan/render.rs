use std::fmt;

use serde_json::Value;

use super::planner::{Plan, Step, Verdict};
use crate::vocab::Address;

/// How many of each verdict a plan holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    pub create: usize,
    pub change: usize,
    pub restart: usize,
    pub stop: usize,
    pub refuse: usize,
    pub keep: usize,
}

impl Plan {
    /// Counts the verdicts.
    pub fn summary(&self) -> Summary {
        let mut summary = Summary::default();
        for step in self.steps.values() {
            *match step.verdict {
                Verdict::Create => &mut summary.create,
                Verdict::Update { .. } => &mut summary.change,
                Verdict::Restart { .. } => &mut summary.restart,
                Verdict::Stop => &mut summary.stop,
                Verdict::Refuse { .. } => &mut summary.refuse,
                Verdict::Keep => &mut summary.keep,
            } += 1;
        }
        summary
    }

    /// Tells whether there is nothing to do and nothing to say.
    pub fn is_settled(&self) -> bool {
        self.steps.values().all(|step| step.verdict == Verdict::Keep)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to create, {} to change, {} to stop", self.create, self.change + self.restart, self.stop)?;
        if self.restart > 0 {
            write!(f, " ({} by restart)", self.restart)?;
        }
        if self.refuse > 0 {
            write!(f, ", {} refused", self.refuse)?;
        }
        Ok(())
    }
}

/// The plan as a diff: `+` to create, `~` to change, `-` to stop, `!` refused; what is kept is left out.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_settled() {
            return f.write_str("nothing changes");
        }
        for (at, step) in &self.steps {
            line(f, at, step)?;
        }
        write!(f, "{}", self.summary())
    }
}

fn line(f: &mut fmt::Formatter<'_>, at: &Address, step: &Step) -> fmt::Result {
    let sign = match step.verdict {
        Verdict::Keep => return Ok(()),
        Verdict::Create => '+',
        Verdict::Stop => '-',
        Verdict::Refuse { .. } => '!',
        Verdict::Update { .. } | Verdict::Restart { .. } => '~',
    };
    writeln!(f, "{sign} {at}  {}", step.because)?;
    for change in step.verdict.changes() {
        writeln!(f, "    ~ {}: {} → {}  ({})", change.path, shown(&change.before), shown(&change.after), change.effect)?;
    }
    Ok(())
}

/// A value on one line, cut when it is long.
fn shown(value: &Value) -> String {
    const MOST: usize = 80;
    let text = if value.is_null() { "unset".to_owned() } else { value.to_string() };
    let cut: String = text.chars().take(MOST).collect();
    if cut.len() < text.len() { cut + "…" } else { cut }
}
