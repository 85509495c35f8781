use std::{
    fmt::{self, Write as _},
    ops::Range,
    path::{Path, PathBuf},
};

use crate::vocab::Address;

/// Something that is wrong with a manifest, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// The file, or `None` for a variable or a flag, which the message then names.
    pub file: Option<PathBuf>,
    /// The place in the file, or `None` when the file as a whole is meant.
    pub place: Option<Place>,
    pub message: String,
    pub hint: Option<String>,
    /// The object that would have to be declared.
    pub missing: Option<Address>,
}

/// A place in a text, with the line that is shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// How many characters are meant, at least 1, never past the end of the line.
    pub width: usize,
    /// Bytes of the text.
    pub span: (usize, usize),
    /// The line as it is shown, without what must not be shown again.
    pub line_text: String,
    /// How many characters of it stand before the meant part.
    pub before: usize,
}

/// All problems of all files of one run, sorted by place, each told once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

/// Characters of a line that are shown before the meant part, and in all.
const SHOWN_BEFORE: usize = 60;
const SHOWN_IN_ALL: usize = 120;
/// What is shown in the place of what must not be.
const HIDDEN: &str = "\"…\"";
/// How much of a value is quoted in a message.
const QUOTED: usize = 60;

impl Place {
    /// Finds the line and column of `span` in `text`.
    pub(crate) fn of(text: &str, span: &Range<usize>) -> Self {
        Self::among(text, &line_starts(text), span, &[])
    }

    /// Finds the line and column of `span` in `text`, whose lines start at `starts`. What is `hidden`, in the order of the text, is not
    /// shown, also where something else on its line is meant.
    pub(crate) fn among(text: &str, starts: &[usize], span: &Range<usize>, hidden: &[Range<usize>]) -> Self {
        let start = text.floor_char_boundary(span.start.min(text.len()));
        let end = text.floor_char_boundary(span.end.clamp(start, text.len()));
        let line = starts.partition_point(|at| *at <= start);
        let line_start = line.checked_sub(1).and_then(|line| starts.get(line)).copied().unwrap_or(0);
        let line_end = starts.get(line).map_or(text.len(), |next| next - 1);
        let meant_end = end.min(line_end);
        let [before, meant, after] =
            [line_start..start, start..meant_end, meant_end..line_end].map(|range| without(text, range, hidden));
        Self {
            line,
            column: text.get(line_start..start).unwrap_or_default().chars().count() + 1,
            width: meant.chars().count().max(1),
            span: (start, end),
            before: before.chars().count(),
            line_text: [before, meant, after].concat().trim_end_matches('\r').to_owned(),
        }
    }

    /// The part of the line that is shown, and where the meant part starts in it. Control characters cannot reach a terminal.
    fn window(&self) -> (String, usize) {
        let plain = |c: char| {
            if c == '\t' {
                ' '
            } else if c.is_control() {
                '\u{fffd}'
            } else {
                c
            }
        };
        let length = self.line_text.chars().count();
        let from = if length <= SHOWN_IN_ALL { 0 } else { self.before.saturating_sub(SHOWN_BEFORE) };
        let middle = self.line_text.chars().skip(from).take(SHOWN_IN_ALL).map(plain);
        let (lead, tail) = (if from > 0 { "…" } else { "" }, if from + SHOWN_IN_ALL < length { "…" } else { "" });
        (lead.chars().chain(middle).chain(tail.chars()).collect(), self.before - from + lead.chars().count())
    }
}

impl Problem {
    /// A problem of a file as a whole.
    pub(crate) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), place: None, message: message.into(), hint: None, missing: None }
    }

    /// A problem of a variable or a flag, which `message` names.
    pub(crate) fn of_setting(message: impl Into<String>) -> Self {
        Self { file: None, place: None, message: message.into(), hint: None, missing: None }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// A part of a text, without what is hidden in it.
fn without(text: &str, part: Range<usize>, hidden: &[Range<usize>]) -> String {
    let (mut shown, mut at) = (String::new(), part.start);
    for hidden in hidden.iter().filter(|hidden| hidden.start < part.end && part.start < hidden.end) {
        shown.push_str(text.get(at..hidden.start).unwrap_or_default());
        shown.push_str(HIDDEN);
        at = hidden.end.min(part.end);
    }
    shown + text.get(at..part.end).unwrap_or_default()
}

/// The byte at which each line starts.
pub(crate) fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

/// Quotes a value for a message: in backticks, without control characters, cut when it is long.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String =
        text.chars().take(QUOTED).flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
    if text.chars().nth(QUOTED).is_some() {
        shown.push('…');
    }
    format!("`{shown}`")
}

/// The known word nearest to `word`, when one is near enough to have been meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let score = |known: &str| {
        strsim::normalized_damerau_levenshtein(&word.to_lowercase(), known).max(strsim::jaro_winkler(word, known) - 0.15)
    };
    let scored = known.into_iter().map(|known| (score(known), known));
    scored.filter(|(score, _)| *score >= 0.6).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

/// A hint that names the nearest known word.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, known).map(|known| format!("did you mean `{known}`?"))
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}", self.message)?;
        if let Some(file) = &self.file {
            write!(f, "\n  --> {}", file.display())?;
        }
        let gutter = self.place.as_ref().map_or(2, |place| place.line.to_string().len() + 1);
        if let Some(place) = &self.place {
            let (shown, at) = place.window();
            let width = place.width.min(shown.chars().count().saturating_sub(at).max(1));
            write!(f, ":{}:{}", place.line, place.column)?;
            write!(f, "\n{:gutter$} |\n{:>gutter$} | {shown}\n{:gutter$} | {:at$}{}", "", place.line, "", "", "^".repeat(width))?;
        }
        let Some(hint) = &self.hint else { return Ok(()) };
        write!(f, "\n{:gutter$} = hint: {hint}", "")
    }
}

impl Problems {
    /// The problems, sorted by file and place.
    pub fn iter(&self) -> impl Iterator<Item = &Problem> {
        self.0.iter()
    }

    /// Tells whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// The same problems, with what is known of objects that are missing.
    #[must_use]
    pub fn with_known(mut self, known: impl Fn(&Address) -> Option<String>) -> Self {
        for problem in &mut self.0 {
            if let Some(known) = problem.missing.as_ref().and_then(&known) {
                problem.message = format!("{}; {known}", problem.message);
            }
        }
        self
    }

    /// Tells whether any of them stands in this file.
    pub fn concerns(&self, file: &Path) -> bool {
        self.0.iter().any(|problem| problem.file.as_deref() == Some(file))
    }

    /// Each problem on a line of its own, `file:line:column: message`, for logs and status.
    pub fn lines(&self) -> Vec<String> {
        self.0.iter().map(Problem::line).collect()
    }
}

impl Problem {
    /// The problem on one line, `file:line:column: message`.
    pub fn line(&self) -> String {
        let mut line = String::new();
        if let Some(file) = &self.file {
            let _infallible = write!(line, "{}", file.display());
            if let Some(place) = &self.place {
                let _infallible = write!(line, ":{}:{}", place.line, place.column);
            }
            line.push_str(": ");
        }
        line + &self.message
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        let mut problems: Vec<Problem> = problems.into_iter().collect();
        problems.sort();
        problems.dedup();
        Self(problems)
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.0 {
            write!(f, "{problem}\n\n")?;
        }
        let problems = if self.0.len() == 1 { "problem" } else { "problems" };
        write!(f, "{} {problems}; nothing was changed", self.0.len())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_past_the_end_or_inside_a_character_is_still_a_place() {
        let text = "a = \"ä\"\nb";
        for span in [0..0, 5..6, 6..7, 9..200, 400..500] {
            let place = Place::of(text, &span);
            assert!(place.width >= 1 && place.column >= 1);
        }
        let place = Place::of(text, &(4..8));
        assert_eq!((place.line, place.column, place.width), (1, 5, 3));
    }

    #[test]
    fn what_is_hidden_is_shown_nowhere_and_every_other_place_is_where_it_was() {
        let text = "a = { b = 'hush', c = 1, d = 'hush' } # é\ne = 'hush\nhush' # f";
        let hidden: Vec<_> = ["'hush'", "'hush'", "'hush\nhush'"]
            .iter()
            .scan(0, |from, part| {
                let at = *from + text[*from..].find(part)?;
                *from = at + part.len();
                Some(at..*from)
            })
            .collect();
        let starts = line_starts(text);
        for start in 0..text.len() {
            for end in start..=text.len() {
                let (place, plain) = (Place::among(text, &starts, &(start..end), &hidden), Place::of(text, &(start..end)));
                let problem = Problem { place: Some(place.clone()), ..Problem::of_file(Path::new("a"), "bad") };
                assert!(!problem.to_string().contains("hush"), "{start}..{end}: {problem}");
                assert_eq!((place.line, place.column, place.span), (plain.line, plain.column, plain.span));
            }
        }
        let one = Place::among(text, &starts, &(22..23), &hidden);
        assert_eq!((one.line_text.as_str(), one.before, one.width), ("a = { b = \"…\", c = 1, d = \"…\" } # é", 19, 1));
    }

    #[test]
    fn a_line_cannot_send_control_characters_to_a_terminal() {
        let text = format!("{}\u{1b}[2Jx", "y".repeat(300));
        let problem = Problem { place: Some(Place::of(&text, &(300..301))), ..Problem::of_file(Path::new("a"), "bad") };
        assert!(!problem.to_string().contains('\u{1b}'));
        assert!(problem.to_string().lines().all(|line| line.chars().count() < 140));
        assert!(!quoted("a\u{1b}b").contains('\u{1b}'));
    }
}
