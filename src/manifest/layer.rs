//! Layers of one object, merged by figment; each value keeps the layer that it came from.

use figment::{
    Error, Figment, Metadata, Profile, Provider,
    value::{Dict, Map, Tag, Value as Merge},
};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::origin::{Layer, below};

/// One layer of one object.
#[derive(Debug)]
pub(crate) struct LayerPart {
    pub layer: Layer,
    /// The file, as a position in the list of parsed ones.
    pub file: Option<usize>,
    /// Where the object stands in its file.
    pub prefix: Vec<String>,
    pub value: Value,
}

/// An object with all its layers laid over each other.
#[derive(Debug)]
pub(crate) struct Merged {
    figment: Figment,
    dict: Dict,
    pub parts: Vec<LayerPart>,
}

struct Numbered<'a>(usize, &'a Value);

impl Provider for Numbered<'_> {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.0.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, Error> {
        let dict = Merge::serialize(self.1)?.into_dict().unwrap_or_default();
        Ok(Profile::Default.collect(dict))
    }
}

impl Merged {
    /// Lays `parts` over each other, later wins.
    pub(crate) fn of(parts: Vec<LayerPart>) -> Self {
        let numbered = parts.iter().enumerate().map(|(at, part)| Numbered(at, &part.value));
        let figment = numbered.fold(Figment::new(), Figment::merge);
        let dict = figment.data().ok().and_then(|mut data| data.remove(&Profile::Default)).unwrap_or_default();
        Self { figment, dict, parts }
    }

    /// The document that all layers make.
    pub(crate) fn extract<T: DeserializeOwned>(&self) -> Result<T, Box<Error>> {
        self.figment.extract().map_err(Box::new)
    }

    /// The layer that brought the value at `path`, or the nearest table above it.
    pub(crate) fn part_of(&self, path: &[&str]) -> Option<&LayerPart> {
        let mut found = None;
        let mut table = &self.dict;
        for step in path {
            let Some(value) = table.get(*step) else { break };
            found = self.part(value.tag());
            let Merge::Dict(_, inner) = value else { break };
            table = inner;
        }
        found.or_else(|| self.object_part())
    }

    /// The layer of the object itself.
    pub(crate) fn object_part(&self) -> Option<&LayerPart> {
        self.parts.iter().find(|part| part.layer == Layer::Object).or_else(|| self.parts.last())
    }

    /// Every leaf with its dotted path, its value and its layer; lists count as leaves.
    pub(crate) fn leaves(&self) -> Vec<(String, Value, &LayerPart)> {
        let mut leaves = Vec::new();
        self.walk("", &self.dict, &mut leaves);
        leaves
    }

    fn walk<'a>(&'a self, prefix: &str, table: &'a Dict, leaves: &mut Vec<(String, Value, &'a LayerPart)>) {
        for (key, value) in table {
            let path = below(prefix, key);
            match value {
                Merge::Dict(_, inner) => self.walk(&path, inner, leaves),
                leaf => {
                    leaves.extend(self.part(leaf.tag()).map(|part| (path, serde_json::to_value(leaf).unwrap_or_default(), part)));
                }
            }
        }
    }

    fn part(&self, tag: Tag) -> Option<&LayerPart> {
        let number = self.figment.get_metadata(tag)?.name.parse::<usize>().ok()?;
        self.parts.get(number)
    }
}
