use std::{borrow::Cow, path::Path};

use reqwest::Url;

/// No path is longer, on Linux.
const MAX_PATH_BYTES: usize = 4_096;

/// The forms in which the path of a being's workspace may occur in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Layout {
    /// Longest first, so that the more telling form wins.
    prefixes: Vec<String>,
}

impl Layout {
    /// Knows a workspace by each of its paths: as it was declared, and with symlinks resolved.
    pub fn of<'a>(workspace: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut prefixes: Vec<String> = workspace.into_iter().filter(|path| path.parent().is_some()).flat_map(forms).collect();
        prefixes.sort_by_key(|prefix| std::cmp::Reverse(prefix.len()));
        prefixes.dedup();
        Self { prefixes }
    }

    /// Writes each path inside the workspace relative to it, led by `./`. Each form is looked for once from each place where it was found,
    /// so that the whole takes time linear in the text.
    pub fn relative<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let mut hits: Vec<(&str, Option<usize>)> =
            self.prefixes.iter().map(|prefix| (prefix.as_str(), text.find(prefix.as_str()))).collect();
        let (mut written, mut done) = (String::new(), 0);
        while let Some((at, prefix)) = earliest(&hits) {
            let end = at + prefix.len();
            let (head, tail) = (text.get(done..at).unwrap_or_default(), text.get(end..).unwrap_or_default());
            written.push_str(head);
            let is_inside = starts_path(&written) && ends_path(tail);
            written.push_str(if is_inside { "." } else { prefix });
            done = end;
            let missed = hits.iter_mut().filter(|(_, hit)| hit.is_some_and(|hit| hit < end));
            missed.for_each(|(prefix, hit)| *hit = tail.find(*prefix).map(|at| at + end));
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        written.push_str(text.get(done..).unwrap_or_default());
        Cow::Owned(written)
    }
}

/// The earliest hit, and the longest of those.
fn earliest<'p>(hits: &[(&'p str, Option<usize>)]) -> Option<(usize, &'p str)> {
    let found = hits.iter().filter_map(|(prefix, hit)| hit.map(|at| (at, *prefix)));
    found.min_by_key(|(at, prefix)| (*at, std::cmp::Reverse(prefix.len())))
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
fn ends_path(after: &str) -> bool {
    match after.chars().next() {
        None | Some('"' | '\'' | '`' | '\\') => true,
        Some('/') => stays_inside(after),
        Some(c) if c.is_whitespace() => true,
        Some(_) => {
            let past = after.trim_start_matches(['.', ',', ';', ':', '!', '?', ')', ']', '}', '>', '"', '\'', '`']);
            past.len() < after.len() && past.chars().next().is_none_or(char::is_whitespace)
        }
    }
}

/// Tells whether a path never climbs above where it starts. One that is longer than any path can be does not.
fn stays_inside(path: &str) -> bool {
    let start = path.get(..path.floor_char_boundary(MAX_PATH_BYTES)).unwrap_or(path);
    let end = start.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\'));
    let Some(path) = end.or((start.len() == path.len()).then_some(start.len())).and_then(|end| start.get(..end)) else {
        return false;
    };
    let climbs =
        |step: &str| step.eq_ignore_ascii_case("%2e%2e") || step.eq_ignore_ascii_case(".%2e") || step.eq_ignore_ascii_case("%2e.");
    let stays = |step: &str| matches!(step, "" | ".") || step.eq_ignore_ascii_case("%2e");
    path.split('/')
        .filter(|step| !stays(step))
        .map(|step| if step == ".." || climbs(step) { -1_i64 } else { 1 })
        .scan(0, |depth, step| Some((*depth += step, *depth).1))
        .all(|depth| depth >= 0)
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
    fn a_path_that_no_kernel_would_take_is_not_written_anew() {
        let long = |steps: usize| format!("/srv/ada{}", "/x".repeat(steps));
        assert_eq!(relative(&long(2_000)), long(2_000).replacen("/srv/ada", ".", 1));
        assert_eq!(relative(&long(3_000)), long(3_000));
        let many = "/srv/ada/:".repeat(10_000);
        assert!(relative(&many).starts_with("/srv/ada/:/srv/ada/:"));
    }

    #[test]
    fn the_root_folder_as_workspace_rewrites_nothing() {
        assert_eq!(Layout::of([Path::new("/")]), Layout::default());
        assert_eq!(Layout::of([Path::new("relative")]), Layout::default());
    }
}
