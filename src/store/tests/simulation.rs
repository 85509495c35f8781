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

/// A disk that can lose power, or fail, at every step of every operation. What is not synced may or may not outlive that.
#[derive(Debug, Clone, Default)]
pub(super) struct Simulation(Arc<Mutex<Disk>>);

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
    /// One of the contents that may be on disk: as synced, or grown to any size, with any sectors of the growth missing.
    fn after_power_cut(&mut self, luck: &mut StdRng) {
        let kept = self.content.iter().zip(&self.durable).take_while(|(now, then)| now == then).count();
        if luck.random_bool(0.7) {
            let length = luck.random_range(kept..=self.content.len());
            self.durable = self.content[..length].to_vec();
            let lost: Vec<usize> = (kept / 512..=length / 512).filter(|_| luck.random_bool(0.3)).collect();
            lost.iter().for_each(|sector| self.durable[kept.max(sector * 512).min(length)..length.min((sector + 1) * 512)].fill(0));
        }
        self.content = self.durable.clone();
    }
}

impl Simulation {
    /// Arms a trouble and counts steps anew.
    pub(super) fn expect(&self, trouble: Option<Trouble>) {
        let mut disk = self.0.lock().unwrap();
        (disk.step, disk.trouble) = (0, trouble);
    }

    pub(super) fn steps(&self) -> usize {
        self.0.lock().unwrap().step
    }

    /// The process ends and the machine goes on: everything that was written is there.
    pub(super) fn restart(&self) {
        let mut disk = self.0.lock().unwrap();
        disk.is_down = false;
    }

    /// The machine comes up again after a power cut, with luck.
    pub(super) fn power_up(&self, luck: &mut StdRng) {
        let mut disk = self.0.lock().unwrap();
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
        let disk = self.0.lock().unwrap();
        disk.names.get(name).map(|file| disk.files[*file].content.clone())
    }
}

pub(super) fn luck(seed: u64) -> StdRng {
    StdRng::seed_from_u64(seed)
}

impl Folder for Simulation {
    fn path(&self, name: &str) -> PathBuf {
        PathBuf::from("/simulated").join(name)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.0.lock().unwrap().names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn Read + Send>>, AccessError> {
        let Some(content) = self.content(name) else { return Ok(None) };
        Ok(Some(Box::new(Cursor::new(content))))
    }

    fn append(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        let file = disk.names.get(name).copied();
        let file = file.unwrap_or_else(|| disk.make(name));
        disk.write(file, bytes)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        let file = disk.names[name];
        disk.sync(file)
    }

    fn cut(&mut self, name: &str, length: u64) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        if let Some(file) = disk.names.get(name).copied() {
            disk.files[file].content.truncate(usize::try_from(length).unwrap());
        }
        disk.step()
    }

    fn create(&mut self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        assert!(!disk.names.contains_key(name), "{name} is there already");
        let file = disk.make(name);
        disk.write(file, bytes)?;
        disk.sync(file)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        let file = disk.names.remove(from).unwrap();
        disk.names.insert(to.into(), file);
        disk.named();
        disk.step()
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        disk.names.remove(name).ok_or(io::ErrorKind::NotFound)?;
        disk.named();
        disk.step()
    }

    fn sync_names(&mut self) -> io::Result<()> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        disk.durable_names = vec![disk.names.clone()];
        disk.step()
    }
}
