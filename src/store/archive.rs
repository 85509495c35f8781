//! A life in one file: a compressed tar archive (`tar -tzf` lists it). Its first member, `manifest.json`, names the format, and each of
//! the others, sorted by path, with its size and its SHA-256. Equal lives make equal archives: no time, no owner, nothing of the machine.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufReader, Read, Write},
    path::Path,
};

use flate2::{Compression, read::GzDecoder, write::GzEncoder};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tar::{Archive, Builder, Entry, EntryType, Header};

use super::{
    error::StoreError,
    folder::{JOURNAL, OsFolder, PICTURE},
    repair::is_empty,
    rescue::{self, Draft, RescueError, aside},
    scan::wide,
    segment::Segment,
    survey::{Survey, survey},
};
use crate::vocab::Digest;

/// What was taken out.
#[derive(Debug)]
pub struct Exported {
    pub found: Survey,
    pub members: usize,
}

/// What an archive says of itself.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    format: String,
    members: BTreeMap<String, Member>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Member {
    bytes: u64,
    sha256: Digest,
}

const FORMAT: &str = "singularity-life-v1";
const MANIFEST: &str = "manifest.json";
const DECISIONS: &str = "decisions.jsonl";
const CHILDREN: &str = "children";
const MAX_MANIFEST: u64 = 16 << 20;
const MAX_MEMBERS: usize = 100_000;
/// Of all members together, unpacked.
const MAX_BYTES: u64 = 64 << 30;
/// What may follow the last member: the end of a tar archive, in blocks of any usual size.
const MAX_END: u64 = 1 << 20;

/// Writes a whole life into one archive; a damaged one only `even_damaged`.
pub fn export(dir: &Path, out: impl Write, even_damaged: bool) -> Result<Exported, RescueError> {
    let no_life = || RescueError::NoLife { dir: dir.to_owned() };
    OsFolder::look(dir)?.ok_or_else(no_life)?;
    let _held = OsFolder::lock(dir)?;
    let found = survey(dir)?.ok_or_else(no_life)?;
    if found.is_damaged() && !even_damaged {
        return Err(RescueError::Damaged { dir: dir.to_owned() });
    }
    let mut members = BTreeMap::new();
    for inner in rescue::tree(dir, &|inner| is_member(inner) || is_child(inner))? {
        let member = RescueError::failed("read", &dir.join(&inner), measure(rescue::open(dir, &inner)?))?;
        members.insert(inner, member);
    }
    let manifest = Manifest { format: FORMAT.to_owned(), members };
    let mut tar = Builder::new(GzEncoder::new(out, Compression::default()));
    let json = serde_json::to_vec_pretty(&manifest).map_err(|error| StoreError::Unencodable(error.into()))?;
    let write = |result| RescueError::failed("write the archive of", dir, result);
    write(add(&mut tar, MANIFEST, wide(json.len()), json.as_slice()))?;
    for (inner, member) in &manifest.members {
        write(add(&mut tar, inner, member.bytes, rescue::open(dir, inner)?))?;
    }
    write(tar.into_inner().and_then(GzEncoder::finish).and_then(|mut out| out.flush()))?;
    Ok(Exported { found, members: manifest.members.len() })
}

/// Tells whether a path is one of a life: of its own files, or those of a child, however deep.
fn is_member(inner: &str) -> bool {
    match inner.rsplit_once('/') {
        Some((above, name)) => is_child(above) && above != CHILDREN && !above.ends_with("/children") && is_member(name),
        None => inner == PICTURE || inner == JOURNAL || inner == DECISIONS || Segment::named(inner).is_some(),
    }
}

/// Tells whether a path is that of a child's folder, or of the folder that children are in.
fn is_child(inner: &str) -> bool {
    let is_id = |part: &str| part.len() == 36 && part.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    inner.split('/').enumerate().all(|(depth, part)| if depth % 2 == 0 { part == CHILDREN } else { is_id(part) })
}

fn measure(file: File) -> io::Result<Member> {
    let mut hashed = Hashed::new(file);
    let bytes = io::copy(&mut hashed, &mut io::sink())?;
    Ok(Member { bytes, sha256: Digest::finish(hashed.hasher) })
}

fn add(tar: &mut Builder<impl Write>, inner: &str, bytes: u64, content: impl Read) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(inner)?;
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o600);
    header.set_size(bytes);
    header.set_cksum();
    tar.append(&header, content.take(bytes))
}

/// Puts the life of an archive where there is none. It is unpacked beside that place and looked at closely before it is there.
pub fn import(archive: impl Read, dir: &Path) -> Result<Survey, RescueError> {
    let is_new = OsFolder::look(dir)?.is_none();
    let place = OsFolder::lock(dir)?;
    if !is_empty(&place)? {
        return Err(RescueError::Exists { dir: dir.to_owned() });
    }
    let imported = import_into(archive, dir);
    if imported.is_err() && is_new {
        drop(std::fs::remove_dir_all(dir));
    }
    imported
}

fn import_into(archive: impl Read, dir: &Path) -> Result<Survey, RescueError> {
    let draft = Draft::new(aside(dir, "import"));
    let _held = OsFolder::lock(draft.path())?;
    unpack(archive, draft.path())?;
    let found = survey(draft.path())?.ok_or_else(|| bad("there is no life in it"))?;
    if let Some(fault) = found.faults().next() {
        return Err(bad(format!("its life is damaged: {fault}")));
    }
    let old = draft.exchange(dir)?;
    RescueError::failed("remove", &old, std::fs::remove_dir_all(&old))?;
    Ok(found)
}

fn bad(why: impl Into<String>) -> RescueError {
    RescueError::BadArchive(why.into())
}

fn unreadable(error: &io::Error) -> RescueError {
    bad(format!("it cannot be read: {error}"))
}

/// Unpacks what the manifest promises, and nothing else.
fn unpack(archive: impl Read, to: &Path) -> Result<(), RescueError> {
    let mut tar = Archive::new(GzDecoder::new(BufReader::new(archive)));
    // Raw: extensions, which may be of any size, are members like others, and so refused.
    let mut entries = tar.entries().map_err(|error| unreadable(&error))?.raw(true);
    let first = entries.next().ok_or_else(|| bad("it is empty"))?.map_err(|error| unreadable(&error))?;
    let mut promised = read_manifest(first)?.members;
    for entry in entries {
        let mut entry = entry.map_err(|error| unreadable(&error))?;
        let inner = path_of(&entry)?;
        let Some(member) = promised.remove(&inner) else {
            return Err(bad(format!("`{inner}` is not in its manifest, or there twice")));
        };
        if entry.size() != member.bytes {
            return Err(bad(format!("`{inner}` has {} bytes, and its manifest promises {}", entry.size(), member.bytes)));
        }
        let mut hashed = Hashed::new(&mut entry);
        let written = rescue::write(to, &inner, &mut hashed);
        if let Some(why) = hashed.failed {
            return Err(bad(format!("it cannot be read: {why}")));
        }
        written?;
        if hashed.bytes != member.bytes || Digest::finish(hashed.hasher) != member.sha256 {
            return Err(bad(format!("`{inner}` is not as its manifest says")));
        }
    }
    if let Some(inner) = promised.keys().next() {
        return Err(bad(format!("`{inner}` is missing, and {} more", promised.len() - 1)));
    }
    let mut end = tar.into_inner().take(MAX_END);
    match io::copy(&mut end, &mut io::sink()).map_err(|error| unreadable(&error))? {
        MAX_END => Err(bad("something follows its end")),
        _ => Ok(()),
    }
}

/// The path of a member that a life may have.
fn path_of(entry: &Entry<'_, impl Read>) -> Result<String, RescueError> {
    let bytes = entry.header().path_bytes();
    let shown = String::from_utf8_lossy(&bytes).into_owned();
    if entry.header().entry_type() != EntryType::Regular {
        return Err(bad(format!("`{shown}` is no plain file")));
    }
    Ok(shown)
}

fn read_manifest(entry: Entry<'_, impl Read>) -> Result<Manifest, RescueError> {
    let size = entry.size();
    if path_of(&entry)? != MANIFEST || size > MAX_MANIFEST {
        return Err(bad(format!("it does not begin with `{MANIFEST}`; is it one of `singularity state export`?")));
    }
    let mut json = Vec::new();
    entry.take(MAX_MANIFEST).read_to_end(&mut json).map_err(|error| unreadable(&error))?;
    let manifest: Manifest =
        serde_json::from_slice(&json).map_err(|error| bad(format!("its manifest is not understood: {error}")))?;
    if manifest.format != FORMAT {
        return Err(bad(format!("it is of format `{}`, and this program knows `{FORMAT}`", manifest.format)));
    }
    let bytes = manifest.members.values().fold(0_u64, |sum, member| sum.saturating_add(member.bytes));
    if manifest.members.len() > MAX_MEMBERS || bytes > MAX_BYTES {
        let most = format!("at most {MAX_MEMBERS} files of {MAX_BYTES} bytes are taken");
        return Err(bad(format!("it promises {} files of {bytes} bytes; {most}", manifest.members.len())));
    }
    if let Some(inner) = manifest.members.keys().find(|inner| !is_member(inner)) {
        return Err(bad(format!("`{inner}` is no file of a life")));
    }
    Ok(manifest)
}

/// A reader that digests what it reads.
struct Hashed<R> {
    from: R,
    hasher: Sha256,
    bytes: u64,
    /// Why it could not be read any further.
    failed: Option<String>,
}

impl<R> Hashed<R> {
    fn new(from: R) -> Self {
        Self { from, hasher: Sha256::new(), bytes: 0, failed: None }
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(into).inspect_err(|error| self.failed = Some(error.to_string()))?;
        self.hasher.update(into.get(..read).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(wide(read));
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::is_member;

    #[test]
    fn only_paths_of_a_life_are_taken() {
        let id = "01234567-89ab-cdef-0123-456789abcdef";
        for inner in
            ["state.json", "activity.jsonl", "decisions.jsonl", "activity-00000000000000000001-00000000000000000009.jsonl.gz"]
        {
            assert!(is_member(inner) && is_member(&format!("children/{id}/children/{id}/{inner}")), "{inner}");
            for above in ["..", "/", ".", "", "children", "children/..", id, "children/x", &format!("children/{id}/children")] {
                assert!(!is_member(&format!("{above}/{inner}")), "{above}/{inner}");
            }
        }
        for inner in ["", "lock", "manifest.json", "activity-1-x.jsonl", "state.json/", "../state.json", "activity-../../x-1.jsonl"]
        {
            assert!(!is_member(inner), "{inner}");
        }
    }
}
