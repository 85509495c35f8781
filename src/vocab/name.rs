use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The name of a declared object: 1–63 of `a-z`, `0-9`, `-` and `_`, led by a letter or digit, without `__`.
///
/// `__` is kept free because it parts a surface from its tool in `<surface>__<tool>` (SPEC §1). A child's name is its parent's, a dot, and
/// what it is called there, `ada.scout`; no manifest declares such a name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(String);

/// A text that cannot name an object.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` cannot name an object; use 1 to 63 of a-z, 0-9, `-` and single `_`, led by a letter or digit")]
pub struct BadName(String);

impl Name {
    /// The name of a set that has no name of its own.
    pub fn default_set() -> Self {
        Self("applied".into())
    }

    /// The rule as a regular expression, for schemas.
    pub const PATTERN: &str = "^(?!.*__)[a-z0-9][a-z0-9_-]{0,62}$";

    /// How long the name of a child may be, that of all above it included.
    const MAX_BYTES: usize = 200;

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a child that is called `called` by its parent, which has this name.
    pub fn child(&self, called: &str) -> Result<Self, BadName> {
        let is_one_part = !called.contains('.');
        Self::try_from(format!("{self}.{called}"))
            .and_then(|name| is_one_part.then_some(name).ok_or_else(|| BadName(called.to_owned())))
    }

    /// The parent's name, if it is a child's.
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('.').map(|(parent, _)| Self(parent.to_owned()))
    }

    /// The name of the being that a manifest declares: the first of the family.
    pub fn root(&self) -> Self {
        Self(self.0.split_once('.').map_or(self.0.as_str(), |(root, _)| root).to_owned())
    }

    /// How many are above it in its family.
    pub fn depth(&self) -> usize {
        self.0.matches('.').count()
    }

    /// Tells whether `above` is its parent, or above that.
    pub fn is_under(&self, above: &Self) -> bool {
        self.0.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// 1–63 of `a-z`, `0-9`, `-` and single `_`, led by a letter or digit.
fn is_part(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'))
        && text.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
        && !text.contains("__")
}

impl TryFrom<&str> for Name {
    type Error = BadName;

    fn try_from(text: &str) -> Result<Self, BadName> {
        let fits = text.len() <= Self::MAX_BYTES && text.split('.').all(is_part);
        if fits { Ok(Self(text.to_owned())) } else { Err(BadName(text.to_owned())) }
    }
}

impl TryFrom<String> for Name {
    type Error = BadName;

    fn try_from(text: String) -> Result<Self, BadName> {
        Self::try_from(text.as_str())
    }
}

impl FromStr for Name {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::try_from(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// The kinds of objects that a manifest may declare (SPEC §2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Source,
    Model,
    Surface,
    Cap,
    Decision,
    Category,
    Being,
}

impl Kind {
    /// Every kind, in the order in which they are shown.
    pub const ALL: [Self; 7] = [Self::Source, Self::Model, Self::Surface, Self::Cap, Self::Decision, Self::Category, Self::Being];

    /// The kind as it is written in a manifest.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Model => "model",
            Self::Surface => "surface",
            Self::Cap => "cap",
            Self::Decision => "decision",
            Self::Category => "category",
            Self::Being => "being",
        }
    }

    /// Several of the kind, in words.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Source => "sources",
            Self::Model => "models",
            Self::Surface => "surfaces",
            Self::Cap => "caps",
            Self::Decision => "decisions",
            Self::Category => "categories",
            Self::Being => "beings",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The address of an object, written `kind/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    pub kind: Kind,
    pub name: Name,
}

/// A text that is not `kind/name`.
#[derive(Debug, thiserror::Error)]
pub enum BadAddress {
    #[error("`{0}` is not an address; write kind/name, such as being/ada")]
    NotKindSlashName(String),
    #[error("`{0}` is not a kind; use source, model, surface, cap, decision, category or being")]
    UnknownKind(String),
    #[error(transparent)]
    Name(#[from] BadName),
}

impl Address {
    /// Puts a kind and a name together.
    pub const fn new(kind: Kind, name: Name) -> Self {
        Self { kind, name }
    }
}

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        let (kind, name) = text.split_once('/').ok_or_else(|| BadAddress::NotKindSlashName(text.to_owned()))?;
        let known = Kind::ALL.into_iter().find(|known| kind == known.as_str() || kind == known.plural());
        let kind = known.ok_or_else(|| BadAddress::UnknownKind(kind.to_owned()))?;
        Ok(Self { kind, name: Name::try_from(name)? })
    }
}

impl TryFrom<String> for Address {
    type Error = BadAddress;

    fn try_from(text: String) -> Result<Self, BadAddress> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_could_hide_a_surface_or_leave_a_folder_is_refused() {
        for good in ["a", "ada", "ada-0", "my_files", "9lives", &"a".repeat(63)] {
            assert!(Name::try_from(good).is_ok(), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "Ada", "a__b", "-a", "_a", "ä", "a b", &"a".repeat(64)] {
            assert!(Name::try_from(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_child_is_found_by_its_name_and_no_other_family_is_taken_for_its_own() {
        let name = |text: &str| Name::try_from(text).unwrap();
        let (ada, scout) = (name("ada"), name("ada.scout"));
        assert_eq!(ada.child("scout").unwrap(), scout);
        assert_eq!((scout.parent(), scout.root(), scout.depth()), (Some(ada.clone()), ada.clone(), 1));
        assert_eq!((ada.parent(), name("ada.b.c").root(), name("ada.b.c").depth()), (None, ada.clone(), 2));
        assert!(scout.is_under(&ada) && name("ada.b.c").is_under(&ada) && !ada.is_under(&ada) && !name("adam").is_under(&ada));
        for bad in ["a..b", ".a", "a.", "a.B", "a.-b", &format!("a.{}", "b.".repeat(100) + "b")] {
            assert!(Name::try_from(bad).is_err(), "{bad}");
        }
        assert!(ada.child("b.c").is_err() && ada.child("").is_err());
    }

    #[test]
    fn an_address_reads_back_as_it_was_written() {
        let address: Address = "being/ada".parse().unwrap();
        assert_eq!(address.to_string(), "being/ada");
        assert_eq!("beings/ada".parse::<Address>().unwrap(), address);
        assert_eq!("categories/time".parse::<Address>().unwrap().to_string(), "category/time");
        assert!("ada".parse::<Address>().is_err());
        assert!("robot/ada".parse::<Address>().is_err());
    }
}
