use std::{
    collections::BTreeMap,
    io::{self, Cursor, Read},
    path::PathBuf,
    sync::{Arc, Mutex},
};

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::store::{
    AccessError,
    folder::{Folder, JOURNAL},
    segment::Segment,
};

/// A folder of a disk that can lose power, or fail, at every step of every operation. What is not synced may or may not outlive that.
#[derive(Debug, Clone, Default)]
pub(in crate::store) struct Simulation {
    disk: Arc<Mutex<Disk>>,
    /// What the names of its files begin with.
    folder: String,
}

#[derive(Debug, Default)]
struct Disk {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    /// Name tables that may be on disk: the synced one, and each since.
    durable_names: Vec<BTreeMap<String, usize>>,
    step: usize,
    trouble: Option<Trouble>,
    is_down: bool,
}

#[derive(Debug, Default, Clone)]
struct File {
    content: Vec<u8>,
    durable: Vec<u8>,
}

/// What happens at a step.
#[derive(Debug, Clone, Copy)]
pub(super) enum Trouble {
    PowerCut { step: usize },
    Error { step: usize, kind: io::ErrorKind },
}

impl Disk {
    fn step(&mut self) -> io::Result<()> {
        let step = self.step;
        self.step += 1;
        match self.trouble {
            _ if self.is_down => Err(io::Error::other("the power is out")),
            Some(Trouble::PowerCut { step: at }) if at == step => {
                self.is_down = true;
                Err(io::Error::other("the power went out"))
            }
            Some(Trouble::Error { step: at, kind }) if at == step => Err(kind.into()),
            _ => Ok(()),
        }
    }

    fn write(&mut self, file: usize, bytes: &[u8]) -> io::Result<()> {
        let (half, rest) = bytes.split_at(bytes.len() / 2);
        for part in [half, rest] {
            self.step()?;
            self.files[file].content.extend(part);
        }
        self.step()
    }

    fn sync(&mut self, file: usize) -> io::Result<()> {
        self.step()?;
        self.files[file].durable = self.files[file].content.clone();
        self.step()
    }

    fn make(&mut self, name: &str) -> usize {
        self.files.push(File::default());
        self.names.insert(name.into(), self.files.len() - 1);
        self.named();
        self.files.len() - 1
    }

    fn named(&mut self) {
        self.durable_names.push(self.names.clone());
    }
}

impl File {
    /// One of the contents that may be on disk: as synced, or as written since, grown to any size, with any sectors as they were.
    fn after_power_cut(&mut self, luck: &mut StdRng) {
        let kept = self.content.iter().zip(&self.durable).take_while(|(now, then)| now == then).count();
        if luck.random_bool(0.7) {
            let is_grown = self.content.len() != self.durable.len();
            let length = if is_grown { luck.random_range(kept..=self.content.len()) } else { self.content.len() };
            let old = std::mem::replace(&mut self.durable, self.content[..length].to_vec());
            for sector in kept / 512..=length / 512 {
                if luck.random_bool(0.3) {
                    let lost = kept.max(sector * 512).min(length)..length.min((sector + 1) * 512);
                    lost.for_each(|index| self.durable[index] = old.get(index).copied().unwrap_or(0));
                }
            }
        }
        self.content = self.durable.clone();
    }
}

impl Simulation {
    /// Another folder of the same disk.
    pub(super) fn beside(&self, folder: &str) -> Self {
        Self { disk: Arc::clone(&self.disk), folder: format!("{folder}/") }
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.folder)
    }

    /// Arms a trouble and counts steps anew.
    pub(super) fn expect(&self, trouble: Option<Trouble>) {
        let mut disk = self.disk.lock().unwrap();
        (disk.step, disk.trouble) = (0, trouble);
    }

    pub(super) fn steps(&self) -> usize {
        self.disk.lock().unwrap().step
    }

    /// The process ends and the machine goes on: everything that was written is there.
    pub(super) fn restart(&self) {
        let mut disk = self.disk.lock().unwrap();
        disk.is_down = false;
    }

    /// The machine comes up again after a power cut, with luck.
    pub(super) fn power_up(&self, luck: &mut StdRng) {
        let mut disk = self.disk.lock().unwrap();
        disk.is_down = false;
        disk.files.iter_mut().for_each(|file| file.after_power_cut(luck));
        let tables = disk.durable_names.len();
        disk.names = if tables == 0 { BTreeMap::new() } else { disk.durable_names[luck.random_range(0..tables)].clone() };
        disk.durable_names = vec![disk.names.clone()];
    }

    /// The whole journal, out of all of its files.
    pub(super) fn journal(&self) -> Vec<u8> {
        let mut journal = Vec::new();
        for segment in Segment::all(self).unwrap() {
            segment.open(self).unwrap().lines.read_to_end(&mut journal).unwrap();
        }
        journal.extend(self.content(JOURNAL).unwrap_or_default());
        journal
    }

    pub(super) fn content(&self, name: &str) -> Option<Vec<u8>> {
        let disk = self.disk.lock().unwrap();
        disk.names.get(&self.full(name)).map(|file| disk.files[*file].content.clone())
    }
}

pub(super) fn luck(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

impl Folder for Simulation {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/simulated").join(self.full(name))
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let disk = self.disk.lock().unwrap();
        Ok(disk.names.keys().filter_map(|name| name.strip_prefix(&self.folder).map(str::to_owned)).collect())
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, AccessError> {
        let Some(content) = self.content(name) else { return Ok(None) };
        Ok(Some(Box::new(Cursor::new(content))))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.step()?;
        let file = disk.names.get(&self.full(name)).copied();
        let file = file.unwrap_or_else(|| disk.make(&self.full(name)));
        disk.write(file, bytes)
    }

    fn write_at(&mut self, name: &str, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        let file = disk.names[&self.full(name)];
        let offset = usize::try_from(offset).unwrap();
        let half = bytes.len() / 2;
        for part in [0..half, half..bytes.len()] {
            disk.step()?;
            disk.files[file].content[offset + part.start..offset + part.end].copy_from_slice(&bytes[part]);
        }
        disk.step()
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        let file = disk.names[&self.full(name)];
        disk.sync(file)
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.step()?;
        if let Some(file) = disk.names.get(&self.full(name)).copied() {
            disk.files[file].content.truncate(usize::try_from(length).unwrap());
        }
        disk.step()
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        let name = self.full(name);
        disk.step()?;
        assert!(!disk.names.contains_key(&name), "{name} is there already");
        let file = disk.make(&name);
        disk.write(file, bytes)?;
        disk.sync(file)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.step()?;
        let file = disk.names.remove(&self.full(from)).unwrap();
        disk.names.insert(self.full(to), file);
        disk.named();
        disk.step()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.step()?;
        disk.names.remove(&self.full(name)).ok_or(io::ErrorKind::NotFound)?;
        disk.named();
        disk.step()
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let mut disk = self.disk.lock().unwrap();
        disk.step()?;
        disk.durable_names = vec![disk.names.clone()];
        disk.step()
    }

    fn syncer(&self) -> io::Result<Box<dyn FnOnce() -> io::Result<()> + Send>> {
        let disk = Arc::clone(&self.disk);
        Ok(Box::new(move || {
            let mut disk = disk.lock().unwrap();
            (0..disk.files.len()).try_for_each(|file| disk.sync(file))?;
            disk.durable_names = vec![disk.names.clone()];
            disk.step()
        }))
    }
}
