use std::{
    collections::BTreeMap,
    fmt,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::vocab::SkillName;

/// No body is longer, in bytes.
const MAX_BODY: u64 = 256 << 10;
/// The body's file in a folder of its own.
const FILE: &str = "skill.py";
/// The test beside it.
pub(super) const TEST: &str = "skill.test.py";

/// What a skill is called: its category, a dot, and its own name, such as `email.compose`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SkillAddress {
    category: String,
    leaf: String,
}

/// A text that cannot name a skill.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` cannot name a skill; write its category, a dot and its name in a-z, 0-9 and `_`, such as email.compose")]
pub struct BadSkillAddress(String);

impl SkillAddress {
    /// The category.
    pub fn category(&self) -> &str {
        &self.category
    }

    /// The name within the category.
    pub fn leaf(&self) -> &str {
        &self.leaf
    }

    /// A name of parts as they were found on disk, which the gate judges.
    fn found(category: &str, leaf: &str) -> Self {
        let leaf = leaf.strip_prefix(category).and_then(|rest| rest.strip_prefix('.')).unwrap_or(leaf);
        Self { category: category.to_owned(), leaf: leaf.to_owned() }
    }
}

impl FromStr for SkillAddress {
    type Err = BadSkillAddress;

    fn from_str(text: &str) -> Result<Self, BadSkillAddress> {
        match text.split_once('.') {
            Some((category, leaf)) if SkillName::try_from(text).is_ok() => {
                Ok(Self { category: category.into(), leaf: leaf.into() })
            }
            _ => Err(BadSkillAddress(text.to_owned())),
        }
    }
}

impl TryFrom<String> for SkillAddress {
    type Error = BadSkillAddress;

    fn try_from(text: String) -> Result<Self, BadSkillAddress> {
        text.parse()
    }
}

impl From<SkillAddress> for String {
    fn from(name: SkillAddress) -> Self {
        name.to_string()
    }
}

impl fmt::Display for SkillAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.category.is_empty() { f.write_str(&self.leaf) } else { write!(f, "{}.{}", self.category, self.leaf) }
    }
}

/// A skill's body as it is on disk, with what lies beside it.
#[derive(Debug, Clone)]
pub struct Body {
    pub name: SkillAddress,
    pub file: PathBuf,
    pub source: String,
    /// Of the category's `config.json`, and over it of the skill's.
    pub config: Map<String, Value>,
    /// Of the skill's `contract.json`; what the body itself declares comes over it.
    pub contract: BTreeMap<String, String>,
    /// Other bodies in the category's folder that have the same name.
    pub beside: Vec<PathBuf>,
}

/// Why a body was not opened.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    #[error("cannot read the skill's body {}; give the path of its file, or of the folder that holds `skill.py`", path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is longer than the {MAX_BODY} bytes that a skill's body may have", path.display())]
    TooLong { path: PathBuf },
    #[error("{} is not a JSON object", path.display())]
    NoObject { path: PathBuf },
}

impl Body {
    /// Opens a body: a file `<category>/<name>.py`, or a folder `<category>/<name>/` with `skill.py`, or that file. A name that is given
    /// counts more than what the path says.
    pub fn open(path: &Path, name: Option<SkillAddress>) -> Result<Self, BodyError> {
        let unreadable = |source| BodyError::Unreadable { path: path.to_owned(), source };
        let path = std::path::absolute(path).map_err(unreadable)?;
        let file = if path.is_dir() { path.join(FILE) } else { path };
        let source = read(&file)?;
        let has_own = file.file_name().is_some_and(|name| name == FILE);
        let folder = file.parent().unwrap_or(Path::new("/"));
        let (leaf, category) = if has_own { (folder.file_name(), folder.parent()) } else { (file.file_stem(), Some(folder)) };
        let leaf = leaf.unwrap_or_default().to_string_lossy().into_owned();
        let of = category.and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
        let mut config = category.map(|folder| object(&folder.join("config.json"))).transpose()?.unwrap_or_default();
        let mut contract = BTreeMap::new();
        if has_own {
            config.extend(object(&folder.join("config.json"))?);
            let texts = object(&folder.join("contract.json"))?.into_iter();
            contract.extend(texts.filter_map(|(key, text)| Some((key, text.as_str()?.to_owned()))));
        }
        let twin = category.map(|above| if has_own { above.join(format!("{leaf}.py")) } else { above.join(&leaf).join(FILE) });
        let beside = twin.into_iter().filter(|twin| twin.is_file()).collect();
        let name = name.unwrap_or_else(|| SkillAddress::found(&of, &leaf));
        Ok(Self { name, source, config, contract, beside, file })
    }

    /// The folder that the body's file is in.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// The file that tests it.
    pub fn test_file(&self) -> PathBuf {
        self.folder().join(TEST)
    }
}

/// The text of a file, within bounds. Ends of lines are what Python takes them for.
pub(super) fn read(path: &Path) -> Result<String, BodyError> {
    let unreadable = |source| BodyError::Unreadable { path: path.to_owned(), source };
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_BODY + 1).read_to_string(&mut text).map_err(unreadable)?;
    if u64::try_from(text.len()).is_ok_and(|length| length <= MAX_BODY) {
        Ok(text)
    } else {
        Err(BodyError::TooLong { path: path.to_owned() })
    }
}

/// The object in a file of JSON; none where there is no file.
fn object(path: &Path) -> Result<Map<String, Value>, BodyError> {
    match read(path) {
        Ok(text) => serde_json::from_str(&text).map_err(|_| BodyError::NoObject { path: path.to_owned() }),
        Err(BodyError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Map::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "a test writes files")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_skill_is_named_by_its_path_in_either_layout_and_what_lies_beside_it_is_merged() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("email/compose");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("skill.py"), "x = 1").unwrap();
        fs::write(place.path().join("email/config.json"), r#"{"drafts": "a", "contacts": "c"}"#).unwrap();
        fs::write(own.join("config.json"), r#"{"drafts": "b"}"#).unwrap();
        fs::write(own.join("contract.json"), r#"{"server": "where mail is left"}"#).unwrap();
        let body = Body::open(&own, None).unwrap();
        assert_eq!((body.name.to_string().as_str(), body.beside.len()), ("email.compose", 0));
        assert_eq!(Value::Object(body.config), serde_json::json!({ "drafts": "b", "contacts": "c" }));
        assert!(body.contract.contains_key("server"));
        fs::write(place.path().join("email/compose.py"), "x = 1").unwrap();
        let single = Body::open(&place.path().join("email/compose.py"), None).unwrap();
        assert_eq!((single.name.to_string().as_str(), single.beside), ("email.compose", vec![own.join("skill.py")]));
        fs::write(own.join("config.json"), "[]").unwrap();
        assert!(Body::open(&own, None).unwrap_err().to_string().contains("config.json is not a JSON object"));
    }

    #[test]
    fn a_name_says_its_category_once() {
        assert_eq!(SkillAddress::found("email", "email.compose").to_string(), "email.compose");
        for bad in ["compose", "Email.compose", "email.", ".x", "email.com-pose", ""] {
            assert!(bad.parse::<SkillAddress>().is_err(), "{bad}");
        }
    }
}
