//! What a surface says when it refuses a token: `WWW-Authenticate`.

/// No header is read further.
const MAX_HEADER: usize = 8 * 1024;

/// What a `Bearer` challenge says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the surface tells who gives tokens for it.
    pub(super) resource_metadata: Option<String>,
    pub(super) scopes: Vec<String>,
    pub(super) error: Option<String>,
}

impl Challenge {
    /// Reads the first `Bearer` challenge of a header; anything else says nothing.
    pub(super) fn read(header: &str) -> Self {
        let mut rest = header.get(..header.floor_char_boundary(MAX_HEADER)).unwrap_or_default();
        let (mut challenge, mut is_ours, mut was_ours) = (Self::default(), false, false);
        while let Some((word, value)) = next(&mut rest) {
            match value {
                None => {
                    is_ours = !was_ours && word.eq_ignore_ascii_case("Bearer");
                    was_ours |= is_ours;
                }
                Some(value) if is_ours => challenge.note(word, value),
                Some(_) => {}
            }
        }
        challenge
    }

    /// Tells whether more scopes are what helps.
    pub(super) fn is_about_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn note(&mut self, name: &str, value: String) {
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => self.resource_metadata = Some(value),
            "scope" => self.scopes = value.split_ascii_whitespace().map(str::to_owned).collect(),
            "error" => self.error = Some(value),
            _ => {}
        }
    }
}

/// The next scheme, or the next parameter and its value.
fn next<'t>(rest: &mut &'t str) -> Option<(&'t str, Option<String>)> {
    let text = rest.trim_start_matches([' ', '\t', ',']);
    if text.is_empty() {
        return None;
    }
    let end = text.find(['=', ' ', '\t', ',']).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    let Some(value) = behind.trim_start().strip_prefix('=') else {
        *rest = behind;
        return Some((word, None));
    };
    let value = value.trim_start();
    let Some(quoted) = value.strip_prefix('"') else {
        let end = value.find([' ', '\t', ',']).unwrap_or(value.len());
        let (value, behind) = value.split_at(end);
        *rest = behind;
        return Some((word, Some(value.to_owned())));
    };
    let (mut text, mut chars) = (String::new(), quoted.char_indices());
    *rest = "";
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = quoted.get(at + 1..).unwrap_or_default();
                break;
            }
            '\\' => text.extend(chars.next().map(|(_, c)| c)),
            c => text.push(c),
        }
    }
    Some((word, Some(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str) -> (Option<String>, Vec<String>, Option<String>) {
        let Challenge { resource_metadata, scopes, error } = Challenge::read(header);
        (resource_metadata, scopes, error)
    }

    #[test]
    fn what_a_surface_wants_is_read_wherever_it_stands_in_the_header() {
        let at = || Some("https://a/.well-known/x?a=b,c".to_owned());
        let full = r#"Bearer realm="a \"b\", scope=no", error="insufficient_scope", scope="x  y:z", resource_metadata="https://a/.well-known/x?a=b,c""#;
        assert_eq!(read(full), (at(), vec!["x".to_owned(), "y:z".to_owned()], Some("insufficient_scope".to_owned())));
        let second = r#"Basic realm="x", error="no", bearer resource_metadata = "https://a/.well-known/x?a=b,c" , scope=one"#;
        assert_eq!(read(second), (at(), vec!["one".to_owned()], None));
        assert!(Challenge::read(full).is_about_scope() && !Challenge::read(second).is_about_scope());
    }

    #[test]
    fn a_header_that_says_nothing_of_a_bearer_says_nothing() {
        for header in
            ["", "Bearer", "Basic scope=x", "Digest error=\"insufficient_scope\", scope=\"x\"", ",,=,", "Bearer x=\"", "=\""]
        {
            assert_eq!(Challenge::read(header), Challenge::default(), "{header}");
        }
        let second_of_ours = "Bearer error=one, Bearer error=two";
        assert_eq!(Challenge::read(second_of_ours).error.as_deref(), Some("one"));
        assert_eq!(Challenge::read(&format!("Bearer scope=\"{}", "ä ".repeat(9_000))).scopes.len(), 2_726);
    }
}
