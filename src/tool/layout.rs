use std::{borrow::Cow, path::Path};

use aho_corasick::{AhoCorasick, MatchKind};
use reqwest::Url;

/// The forms in which the path of a being's workspace may occur in a text.
#[derive(Debug, Clone, Default)]
pub struct Layout {
    /// Finds the forms, the longest first, so that the more telling one wins. No searcher where there is nothing to find.
    forms: Option<AhoCorasick>,
}

impl Layout {
    /// Knows a workspace by each of its paths: as it was declared, and with symlinks resolved.
    pub fn of<'a>(workspace: impl IntoIterator<Item = &'a Path>) -> Self {
        let forms: Vec<String> = workspace.into_iter().filter(|path| path.parent().is_some()).flat_map(forms).collect();
        if forms.is_empty() {
            return Self::default();
        }
        #[expect(clippy::expect_used, reason = "a few paths are no more patterns than can be searched for")]
        let built = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(forms).expect("paths are short");
        Self { forms: Some(built) }
    }

    /// Writes each path inside the workspace relative to it, led by `./`, in time linear in the text.
    pub fn relative<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let Some(forms) = &self.forms else { return Cow::Borrowed(text) };
        let (mut written, mut done, mut word) = (String::new(), 0, Word::default());
        for found in forms.find_iter(text) {
            written.push_str(text.get(done..found.start()).unwrap_or_default());
            let is_inside = starts_path(&written) && ends_path(text, found.end(), &mut word);
            written.push_str(if is_inside { "." } else { text.get(found.range()).unwrap_or_default() });
            done = found.end();
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        written.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(written)
    }
}

/// A path as plain text and as a URL, percent signs included.
fn forms(path: &Path) -> Vec<String> {
    let Some(text) = path.to_str().map(|text| text.trim_end_matches('/')).filter(|text| text.starts_with('/')) else {
        return Vec::new();
    };
    let urls = Url::from_file_path(text).ok().map(|url| String::from(url).trim_end_matches('/').to_owned());
    let host = urls.as_deref().and_then(|url| url.strip_prefix("file://")).map(|path| format!("file://localhost{path}"));
    let plain = [text.to_owned(), format!("file://{text}")];
    plain.into_iter().chain(urls).chain(host).collect()
}

/// Tells whether a path may begin after `before`; `\n` counts, for a string of JSON inside a text is still escaped.
fn starts_path(before: &str) -> bool {
    let mut back = before.chars().rev();
    match (back.next(), back.next()) {
        (None, _) | (Some('n' | 't' | 'r'), Some('\\')) => true,
        (Some(last), _) => !last.is_alphanumeric() && !matches!(last, '/' | '_' | '-' | '.' | '~' | '%'),
    }
}

/// Tells whether the workspace's path ends before `after`, or goes on inside: `/srv/ada2` and `/srv/ada/../x` do neither.
fn ends_path(text: &str, end: usize, word: &mut Word) -> bool {
    let after = text.get(end..).unwrap_or_default();
    match after.chars().next() {
        None | Some('"' | '\'' | '`' | '\\') => true,
        Some('/') => word.stays_inside(text, end),
        Some(c) if c.is_whitespace() => true,
        Some(_) => {
            let past = after.trim_start_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`']);
            past.len() < after.len() && past.chars().next().is_none_or(char::is_whitespace)
        }
    }
}

/// One word of a text as steps of a path, read once however many paths begin in it.
#[derive(Default)]
struct Word {
    end: usize,
    /// Where each step starts, the last first, and the lowest depth that is reached from there on.
    steps: Vec<(usize, i64)>,
}

impl Word {
    /// Tells whether the path that goes on at a slash never climbs above where it is.
    fn stays_inside(&mut self, text: &str, slash: usize) -> bool {
        if slash >= self.end {
            *self = Self::at(text, slash + 1);
        }
        let found = self.steps.binary_search_by(|(start, _)| (slash + 1).cmp(start)).ok();
        found.and_then(|at| self.steps.get(at)).is_some_and(|(_, lowest)| *lowest >= 0)
    }

    fn at(text: &str, start: usize) -> Self {
        let rest = text.get(start..).unwrap_or_default();
        let length = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\')).unwrap_or(rest.len());
        let end = start + length;
        let (mut at, mut lowest, mut steps) = (end, 0, Vec::new());
        for step in rest.get(..length).unwrap_or_default().rsplit('/') {
            at = at.saturating_sub(step.len());
            lowest = rise(step).min(rise(step) + lowest);
            steps.push((at, lowest));
            at = at.saturating_sub(1);
        }
        Self { end, steps }
    }
}

/// By how much a step changes the depth; a dot may be written as `%2e`.
fn rise(step: &str) -> i64 {
    let is = |forms: &[&str]| forms.iter().any(|form| step.eq_ignore_ascii_case(form));
    match step {
        "" | "." => 0,
        ".." => -1,
        _ if is(&["%2e"]) => 0,
        _ if is(&["%2e%2e", ".%2e", "%2e."]) => -1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relative(text: &str) -> String {
        Layout::of([Path::new("/srv/ada"), Path::new("/srv/my home")]).relative(text).into_owned()
    }

    #[test]
    fn a_path_inside_the_workspace_is_written_relative_to_it() {
        for (told, shown) in [
            ("/srv/ada/notes.txt", "./notes.txt"),
            ("file:///srv/ada/notes.txt", "./notes.txt"),
            ("file://localhost/srv/ada/a/b", "./a/b"),
            ("/srv/ada", "."),
            ("in /srv/ada.", "in .."),
            ("(/srv/ada), then", "(.), then"),
            (r#"{"a":"/srv/ada","b":"x\n/srv/ada/c"}"#, r#"{"a":".","b":"x\n./c"}"#),
            ("/srv/my home/x", "./x"),
            ("file:///srv/my%20home/x", "./x"),
            ("/srv/ada/a /srv/ada/b", "./a ./b"),
            ("/srv/ada/a/../b", "./a/../b"),
        ] {
            assert_eq!(relative(told), shown, "{told}");
        }
    }

    #[test]
    fn a_neighbour_of_the_workspace_is_not_taken_for_it() {
        for text in [
            "/srv/ada2/x",
            "/srv/ada-old",
            "/srv/ada.bak/x",
            "/srv/ada/../eve",
            "/srv/ada/a/../../eve",
            "/srv/ada/%2e%2e/eve",
            "/mnt/srv/ada/x",
            "./srv/ada/x",
            "/srv",
        ] {
            assert_eq!(relative(text), text);
        }
    }

    #[test]
    fn a_word_of_many_paths_is_read_once() {
        let many = |last: &str| "/srv/ada/:".repeat(20_000) + last;
        assert_eq!(relative(&many("x")), "./:".repeat(20_000) + "x");
        // The last of them climbs out of the workspace, and the one before does not.
        assert!(relative(&many("/../../..")).ends_with("./:/srv/ada/:/../../.."));
    }

    #[test]
    fn the_root_folder_as_workspace_rewrites_nothing() {
        for workspace in ["/", "relative"] {
            assert!(Layout::of([Path::new(workspace)]).forms.is_none(), "{workspace}");
        }
    }
}
