use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    AppliedSet,
    git::{Record, Records},
    sets::Sets,
    watch::Served,
};
use crate::{
    manifest::{Fleet, Loaded, Overrides, Problem, Problems, Sources, read, sources_named},
    runtime::forget_tokens,
    store::{Home, KeepError, read_json, write_json},
    vocab::{Address, Digest, Kind, Name, chain},
};

/// What is declared: where it is read from, the last good fleet, and what is wrong now.
#[derive(Debug)]
pub(super) struct Declared {
    /// What is served, where a folder that empties takes nothing away.
    guarded: Vec<PathBuf>,
    /// What was last taken of the served files.
    served: Served,
    pub(super) sets: Sets,
    pub(super) records: Records,
    /// What of Git sources is in force; `None` until it could be read.
    fetched: Option<BTreeMap<Name, Record>>,
    overrides: Overrides,
    history: PathBuf,
    /// Where the tokens of surfaces are kept.
    tokens: PathBuf,
    pub(super) good: Good,
    pub(super) problems: Vec<String>,
    /// Whether the last good fleet changed, or was not looked at, since that was asked.
    is_news: bool,
    read: Option<Digest>,
    /// What is wrong with what was last read.
    invalid: Vec<String>,
    /// Why what was saved since is not read.
    unrest: Option<String>,
    /// The files that each object of the last good reading stands in.
    files: BTreeMap<Address, Vec<PathBuf>>,
    /// Where each of them stands, as people are told.
    places: BTreeMap<Address, String>,
}

/// The last fleet that validated, with how often each of its objects changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Good {
    pub(super) fleet: Fleet,
    pub(super) generations: BTreeMap<Address, Generation>,
}

/// How often an object changed, and the digest of its spec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Generation {
    pub(super) number: u64,
    digest: Digest,
}

/// What is declared right now, whether it validates or not.
pub(super) struct Reading {
    pub(super) digest: Digest,
    pub(super) result: Result<Fleet, Problems>,
    files: BTreeMap<Address, Vec<PathBuf>>,
    places: BTreeMap<Address, String>,
}

impl Declared {
    /// Begins with the last good fleet of an earlier daemon.
    pub(super) fn new(home: &Home, overrides: Overrides, guarded: Vec<PathBuf>) -> Self {
        let history = home.history().join("fleet.json");
        let good = read_json(&history).unwrap_or_else(|error| {
            tracing::warn!("{}; the manifests are read afresh", chain(&error));
            None
        });
        let good = good.unwrap_or_default();
        Self {
            guarded,
            served: Served::default(),
            sets: Sets::new(home.sets()),
            records: Records::of(home),
            fetched: None,
            overrides,
            history,
            tokens: home.oauth(),
            good,
            problems: Vec::new(),
            is_news: true,
            read: None,
            invalid: Vec::new(),
            unrest: None,
            files: BTreeMap::new(),
            places: BTreeMap::new(),
        }
    }

    /// Takes the texts of the served files, unless they lack something that may be about to be written. Yields whether they are others than
    /// before.
    pub(super) fn offer(&mut self, served: Served) -> Result<bool, KeepError> {
        self.unrest.clone_from(&served.unrest);
        let Some(sources) =
            served.sources.as_ref().filter(|_| served.digest != self.served.digest || self.served.sources.is_none())
        else {
            return Ok(false);
        };
        let is_whole = served.is_settled || self.read.is_none() || {
            let sets = self.sets.all()?;
            !self.lacks_anything(&self.parse(&self.texts(sources, &sets)))
        };
        if is_whole {
            self.served = served;
        }
        Ok(is_whole)
    }

    /// Reads what is served and applied, where it is not what was read last.
    pub(super) fn refresh(&mut self) -> Result<(), KeepError> {
        let sets = self.sets.all()?;
        if self.fetched.is_none() {
            self.fetched = Some(self.records.all()?);
        }
        let Some(sources) = &self.served.sources else { return Ok(()) };
        let texts = self.texts(sources, &sets);
        if self.read != Some(texts.digest) {
            self.take(self.parse(&texts))?;
            return self.forget_fetched();
        }
        self.note_problems(self.invalid.clone());
        Ok(())
    }

    /// Why a reading is not taken in which a served folder that declared something declares nothing any more: it may be a disk that is not
    /// mounted. What an earlier daemon read is known without its places, so then all of them have to be empty.
    fn emptied(&self, fleet: &Fleet, places: &BTreeMap<Address, String>) -> Option<String> {
        let there: BTreeSet<Address> = fleet.addresses().collect();
        let lacks = self.good.fleet.addresses().filter(|address| !there.contains(address)).count();
        let is_first = self.places.is_empty();
        let had = |folder: &Path| if is_first { lacks > 0 } else { is_any_below(&self.places, folder) };
        let is_empty = |folder: &Path| !is_any_below(places, folder);
        let all_are = || self.guarded.iter().all(|folder| is_empty(folder));
        let emptied = self.guarded.iter().find(|folder| is_empty(folder) && had(folder) && (!is_first || all_are()))?;
        (lacks > 0).then(|| {
            format!(
                "{} declares nothing any more, so {lacks} objects go on as they were: is it mounted? where it is meant to be empty, `singularity serve --allow-empty` takes them away",
                emptied.display()
            )
        })
    }

    /// Forgets what was fetched for sources that are declared no more.
    fn forget_fetched(&mut self) -> Result<(), KeepError> {
        let Some(fetched) = self.fetched.as_mut().filter(|_| self.invalid.is_empty()) else { return Ok(()) };
        let is_declared = |name: &Name| self.good.fleet.sources.contains_key(name);
        for name in fetched.keys().filter(|name| !is_declared(name)) {
            self.records.forget(name)?;
        }
        fetched.retain(|name, _| is_declared(name));
        Ok(())
    }

    /// What of a source is in force.
    pub(super) fn record(&self, name: &Name) -> Option<&Record> {
        self.fetched.as_ref()?.get(name)
    }

    /// Puts what was fetched into force; the next reading has it.
    pub(super) fn put_record(&mut self, name: &Name, record: Record) -> Result<(), KeepError> {
        self.records.put(name, &record)?;
        self.fetched.get_or_insert_default().insert(name.clone(), record);
        Ok(())
    }

    /// What would be declared with what was fetched for a source.
    pub(super) fn look_at(&self, name: &Name, record: &Record) -> Result<Reading, KeepError> {
        let (sets, nothing) = (self.sets.all()?, Sources::default());
        let mut fetched = self.fetched.clone().unwrap_or_default();
        fetched.insert(name.clone(), record.clone());
        Ok(self.parse(&Texts::of(self.served.sources.as_deref().unwrap_or(&nothing), &sets, &fetched)))
    }

    /// The source that an object came from, and what of it is in force.
    pub(super) fn fetched_from(&self, address: &Address) -> Option<(Name, &Record)> {
        let name = self.records.source_of(Path::new(self.places.get(address)?))?;
        let record = self.record(&name)?;
        Some((name, record))
    }

    /// Tells whether anything of the last good fleet is declared below a folder.
    pub(super) fn has_any_below(&self, folder: &Path) -> bool {
        is_any_below(&self.places, folder)
    }

    fn texts<'a>(&self, served: &Sources, sets: &'a BTreeMap<Name, AppliedSet>) -> Texts<'a> {
        Texts::of(served, sets, self.fetched.as_ref().unwrap_or(&BTreeMap::new()))
    }

    /// What would be declared with these sets in the place of what was applied.
    pub(super) fn look_with(&self, sets: &BTreeMap<Name, AppliedSet>) -> Reading {
        let nothing = Sources::default();
        self.parse(&self.texts(self.served.sources.as_deref().unwrap_or(&nothing), sets))
    }

    fn parse(&self, texts: &Texts<'_>) -> Reading {
        let loaded = read(&texts.sources, &self.overrides).and_then(|loaded| self.check_nested(loaded));
        let files = loaded.as_ref().map(files).unwrap_or_default();
        let places = loaded.as_ref().map(places).unwrap_or_default();
        let stood = |address: &Address| Some(format!("it was declared in {} until now", self.places.get(address)?));
        let result = loaded.map(|Loaded { fleet, .. }| without(fleet, &texts.deleted));
        Reading { digest: texts.digest, result: result.map_err(|problems| problems.with_known(stood)), files, places }
    }

    /// Refuses a source that another one brings: who may add to what runs is said where the operator says it.
    fn check_nested(&self, loaded: Loaded) -> Result<Loaded, Problems> {
        let nested = |name: &Name| {
            let at = Address::new(Kind::Source, name.clone());
            let file = loaded.origins.files(&at).into_iter().find(|file| self.records.source_of(file).is_some())?;
            let outer = self.records.source_of(&file)?;
            let message = format!("{at} stands in source/{outer}; a source within a source is not fetched");
            Some(Problem {
                hint: Some("declare it in a served folder or an applied set".into()),
                ..Problem::of_file(&file, message)
            })
        };
        let problems: Problems = loaded.fleet.sources.keys().filter_map(nested).collect();
        if problems.is_empty() { Ok(loaded) } else { Err(problems) }
    }

    /// Tells whether a reading lacks an object of the last good fleet, or anything at all.
    fn lacks_anything(&self, reading: &Reading) -> bool {
        let Ok(fleet) = &reading.result else { return true };
        let there: BTreeSet<Address> = fleet.addresses().collect();
        self.good.fleet.addresses().any(|address| !there.contains(&address))
    }

    /// Takes a reading: a good one becomes the fleet, of a bad one the problems are kept beside the fleet as it was.
    fn take(&mut self, reading: Reading) -> Result<(), KeepError> {
        let emptied = reading.result.as_ref().ok().and_then(|fleet| self.emptied(fleet, &reading.places));
        match reading.result {
            Err(problems) => self.invalid = problems.lines(),
            Ok(_) if emptied.is_some() => self.invalid = emptied.into_iter().collect(),
            Ok(fleet) => {
                self.invalid = Vec::new();
                self.files = reading.files;
                self.places = reading.places;
                let generations = generations(&fleet, &self.good.generations);
                let good = Good { fleet, generations };
                if good != self.good {
                    forget_tokens(&self.tokens, &self.good.fleet, &good.fleet);
                    write_json(&self.history, &good)?;
                    self.good = good;
                    self.is_news = true;
                }
            }
        }
        self.read = Some(reading.digest);
        self.note_problems(self.invalid.clone());
        Ok(())
    }

    /// What is wrong now, and why what was saved since is not read.
    pub(super) fn told(&self) -> Vec<String> {
        self.problems.iter().chain(&self.unrest).cloned().collect()
    }

    /// Tells whether the last good fleet changed since this was asked; the first time it is news too.
    pub(super) const fn take_news(&mut self) -> bool {
        std::mem::replace(&mut self.is_news, false)
    }

    /// Keeps what is wrong now, and logs it once.
    pub(super) fn note_problems(&mut self, problems: Vec<String>) {
        if self.problems != problems {
            for problem in &problems {
                tracing::error!("{problem}");
            }
            if problems.is_empty() {
                tracing::info!("the manifests validate again");
            }
            self.problems = problems;
        }
    }

    /// The set that declares an object; `None` where a served folder does, or nobody.
    pub(super) fn set_of(&self, address: &Address) -> Result<Option<(Name, AppliedSet)>, KeepError> {
        Ok(self.sets.all()?.into_iter().find(|(_, set)| self.is_declared_in(address, set)))
    }

    /// The objects that a set declares.
    pub(super) fn addresses_of(&self, set: &AppliedSet) -> Vec<Address> {
        self.good.fleet.addresses().filter(|address| self.is_declared_in(address, set)).collect()
    }

    /// The files that an object stands in.
    pub(super) fn files_of(&self, address: &Address) -> &[PathBuf] {
        self.files.get(address).map(Vec::as_slice).unwrap_or_default()
    }

    fn is_declared_in(&self, address: &Address, set: &AppliedSet) -> bool {
        set.sources.iter().any(|source| self.files_of(address).contains(&source.path))
    }
}

/// All that is declared, unread.
struct Texts<'a> {
    sources: Sources,
    deleted: BTreeSet<&'a Address>,
    digest: Digest,
}

impl<'a> Texts<'a> {
    fn of(served: &Sources, sets: &'a BTreeMap<Name, AppliedSet>, fetched: &BTreeMap<Name, Record>) -> Self {
        let mut sources = served.clone();
        for source in sets.values().flat_map(|set| &set.sources) {
            sources.add_text(&source.path, &source.folder, &source.text);
        }
        let deleted: BTreeSet<&Address> = sets.values().flat_map(|set| &set.deleted).collect();
        // While one of the texts cannot be parsed, any source may be declared in it.
        let named = if fetched.is_empty() { None } else { sources_named(&sources) };
        let is_declared = |name: &Name| {
            named.as_ref().is_none_or(|named| named.contains(name)) && !deleted.contains(&Address::new(Kind::Source, name.clone()))
        };
        for source in fetched.iter().filter(|(name, _)| is_declared(name)).flat_map(|(_, record)| &record.sources) {
            sources.add_text(&source.path, &source.folder, &source.text);
        }
        let digest = Digest::of(format!("{} {deleted:?}", sources.digest()));
        Self { sources, deleted, digest }
    }
}

impl Reading {
    /// Tells whether anything is declared below a folder.
    pub(super) fn has_any_below(&self, folder: &Path) -> bool {
        is_any_below(&self.places, folder)
    }

    /// The objects that a set declares.
    pub(super) fn addresses_of(&self, set: &AppliedSet) -> Vec<Address> {
        let is_declared = |files: &Vec<PathBuf>| set.sources.iter().any(|source| files.contains(&source.path));
        self.files.iter().filter(|(_, files)| is_declared(files)).map(|(address, _)| address.clone()).collect()
    }
}

fn is_any_below(places: &BTreeMap<Address, String>, folder: &Path) -> bool {
    let file = |place: &str| PathBuf::from(place.rsplit_once(':').map_or(place, |(file, _)| file));
    places.values().any(|place| file(place).starts_with(folder))
}

fn files(loaded: &Loaded) -> BTreeMap<Address, Vec<PathBuf>> {
    loaded.fleet.addresses().map(|address| (address.clone(), loaded.origins.files(&address))).collect()
}

fn places(loaded: &Loaded) -> BTreeMap<Address, String> {
    loaded.fleet.addresses().filter_map(|address| Some((address.clone(), loaded.origins.place(&address)?))).collect()
}

fn without(mut fleet: Fleet, deleted: &BTreeSet<&Address>) -> Fleet {
    let kept = |kind: Kind, name: &Name| !deleted.contains(&Address::new(kind, name.clone()));
    fleet.sources.retain(|name, _| kept(Kind::Source, name));
    fleet.models.retain(|name, _| kept(Kind::Model, name));
    fleet.surfaces.retain(|name, _| kept(Kind::Surface, name));
    fleet.caps.retain(|name, _| kept(Kind::Cap, name));
    fleet.decisions.retain(|name, _| kept(Kind::Decision, name));
    fleet.categories.retain(|name, _| kept(Kind::Category, name));
    fleet.beings.retain(|name, _| kept(Kind::Being, name));
    fleet
}

/// Counts the changes of each object on.
fn generations(fleet: &Fleet, before: &BTreeMap<Address, Generation>) -> BTreeMap<Address, Generation> {
    let digest = |address: &Address| {
        let json = match address.kind {
            Kind::Source => serde_json::to_vec(&fleet.sources.get(&address.name)),
            Kind::Model => serde_json::to_vec(&fleet.models.get(&address.name)),
            Kind::Surface => serde_json::to_vec(&fleet.surfaces.get(&address.name)),
            Kind::Cap => serde_json::to_vec(&fleet.caps.get(&address.name)),
            Kind::Decision => serde_json::to_vec(&fleet.decisions.get(&address.name)),
            Kind::Category => serde_json::to_vec(&fleet.categories.get(&address.name)),
            Kind::Being => serde_json::to_vec(&fleet.beings.get(&address.name)),
        };
        Digest::of(json.unwrap_or_default())
    };
    let next = |address: Address| {
        let digest = digest(&address);
        let number = match before.get(&address) {
            Some(old) if old.digest == digest => old.number,
            Some(old) => old.number + 1,
            None => 1,
        };
        (address, Generation { number, digest })
    };
    fleet.addresses().map(next).collect()
}
