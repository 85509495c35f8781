use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use tokio::task::block_in_place;

use super::{FetchError, Git, record::repository};
use crate::{
    manifest::{SourceSpec, Sources},
    reconcile::AppliedSource,
};

/// Files of a commit, and their bytes.
pub(super) const MAX_FILES: usize = 20_000;
const MAX_BYTES: u64 = 64 << 20;
/// Where the branch is kept in the repository of a source.
const HEAD: &str = "refs/singularity/head";
/// Stands beside the repository while something is fetched into it.
const MARK: &str = "fetching";
const TREE: &str = "tree";
const INDEX: &str = "index";

/// Fetches one source.
#[derive(Debug, Clone)]
pub(in crate::reconcile) struct Fetcher {
    git: Git,
    spec: SourceSpec,
    folder: PathBuf,
}

/// The newest commit of a branch, read but not in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::reconcile) struct Fetched {
    pub(in crate::reconcile) commit: String,
    pub(in crate::reconcile) signer: Option<String>,
    pub(in crate::reconcile) sources: Vec<AppliedSource>,
    /// What of the commit is set down, as `git` knows it.
    tree: String,
}

impl Fetcher {
    /// A fetcher into the source's folder of the home.
    pub(in crate::reconcile) fn new(program: &Path, env: &BTreeMap<String, String>, spec: SourceSpec, folder: PathBuf) -> Self {
        let git = Git::new(program, env, &repository(&folder));
        Self { git, spec, folder }
    }

    /// Fetches the branch; `None` where it still is at `seen`.
    pub(in crate::reconcile) async fn fetch(&self, seen: Option<&str>) -> Result<Option<Fetched>, FetchError> {
        self.prepare().await?;
        if seen == Some(self.newest().await?.as_str()) {
            return Ok(None);
        }
        let commit = self.bring().await?;
        let signer = self.verify(&commit).await?;
        let tree = self.tree_of(&commit).await?;
        self.check_size(&commit, &tree).await?;
        let sources = self.read(&commit, &tree).await?;
        Ok(Some(Fetched { commit, signer, sources, tree }))
    }

    /// Refuses a commit that does not descend from the one before.
    pub(in crate::reconcile) async fn check_descent(&self, before: &str, commit: &str) -> Result<(), FetchError> {
        let said = self.git.ask(&["merge-base", "--is-ancestor", before, commit]).await?;
        let rewritten = || FetchError::Rewritten { commit: short(commit), before: short(before) };
        if said.code == 0 { Ok(()) } else { Err(rewritten()) }
    }

    /// Sets the files of a commit down: what it has is written where it differs, what only the one before had is removed, and what else
    /// stands among them stays.
    pub(in crate::reconcile) async fn place(&self, fetched: &Fetched) -> Result<(), FetchError> {
        let (tree, index) = (self.folder.join(TREE), self.folder.join(INDEX));
        make(&tree)?;
        // One that was killed left it; the daemon's lock says that nobody else works here.
        let lock = self.folder.join("index.lock");
        gone(&lock, fs::remove_file(&lock))?;
        self.git.with_tree(&tree, &index).run(&["read-tree", "--reset", "-u", &fetched.tree]).await.map(drop)
    }

    /// Makes the repository; one that a fetch was killed in is made anew.
    async fn prepare(&self) -> Result<(), FetchError> {
        let (repository, mark) = (repository(&self.folder), self.folder.join(MARK));
        block_in_place(|| {
            make(&self.folder)?;
            if mark.exists() {
                gone(&repository, fs::remove_dir_all(&repository))?;
                gone(&mark, fs::remove_dir(&mark))?;
            }
            for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
                let is_left = entry.file_name().as_encoded_bytes().starts_with(STAGE.as_bytes());
                if is_left {
                    gone(&entry.path(), fs::remove_dir_all(entry.path()))?;
                }
            }
            Ok::<_, FetchError>(())
        })?;
        if !repository.join("HEAD").exists() {
            make(&mark)?;
            self.git.run(&["init", "--bare", "--quiet", "--template="]).await?;
            gone(&mark, fs::remove_dir(&mark))?;
        }
        Ok(())
    }

    /// Where the branch is.
    async fn newest(&self) -> Result<String, FetchError> {
        let branch = format!("refs/heads/{}", self.spec.branch);
        let said = self.git.run(&["ls-remote", "--", &self.spec.git, &branch]).await?;
        let found = said.lines().find_map(|line| line.split_once('\t').filter(|(_, name)| *name == branch));
        let missing = || FetchError::NoBranch { git: self.spec.git.clone(), branch: self.spec.branch.clone() };
        found.map(|(commit, _)| commit.to_owned()).ok_or_else(missing)
    }

    /// Brings the branch into the repository, and yields its newest commit.
    async fn bring(&self) -> Result<String, FetchError> {
        let mark = self.folder.join(MARK);
        make(&mark)?;
        let branch = format!("+refs/heads/{}:{HEAD}", self.spec.branch);
        let quiet = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head"];
        self.git.run(&[&quiet[..], &["--", &self.spec.git, &branch]].concat()).await?;
        gone(&mark, fs::remove_dir(&mark))?;
        let head = format!("{HEAD}^{{commit}}");
        Ok(self.git.run(&["rev-parse", "--verify", "--quiet", &head]).await?.trim().to_owned())
    }

    /// Who signed a commit, where that is asked for.
    async fn verify(&self, commit: &str) -> Result<Option<String>, FetchError> {
        let Some(signers) = &self.spec.allowed_signers else { return Ok(None) };
        fs::metadata(signers).map_err(|source| FetchError::Unusable { path: signers.clone(), source })?;
        let file = format!("gpg.ssh.allowedSignersFile={}", signers.display());
        let said = self.git.run(&["-c", "gpg.format=ssh", "-c", &file, "log", "-1", "--format=%G?%n%GS", commit]).await?;
        let mut lines = said.lines();
        let (grade, signer) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        let how = match grade {
            "G" if !signer.is_empty() => return Ok(Some(signer.to_owned())),
            "N" => "it has no signature",
            "B" => "its signature is not that of its content, or of nobody who may sign",
            "U" | "G" => "its signature is of somebody else",
            "X" | "Y" => "its signature, or its key, has expired",
            "R" => "its key was revoked",
            _ => "its signature cannot be checked; `ssh-keygen` must be on the PATH of the daemon",
        };
        Err(FetchError::Unsigned { commit: short(commit), signers: signers.clone(), how })
    }

    /// The folder of a commit that the source is about.
    async fn tree_of(&self, commit: &str) -> Result<String, FetchError> {
        let path = self.spec.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let folder = format!("{commit}:{path}");
        let found = self.git.ask(&["rev-parse", "--verify", "--quiet", &folder]).await?.text.trim().to_owned();
        match self.git.ask(&["cat-file", "-t", &found]).await?.text.trim() {
            "tree" => Ok(found),
            _ => Err(FetchError::NoFolder { commit: short(commit), path }),
        }
    }

    async fn check_size(&self, commit: &str, tree: &str) -> Result<(), FetchError> {
        let listed = self.git.run(&["ls-tree", "-r", "-l", "-z", tree]).await?;
        let (mut files, mut bytes) = (0_usize, 0_u64);
        for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
            let size = entry.split('\t').next().and_then(|facts| facts.split_ascii_whitespace().nth(3));
            files += 1;
            bytes = bytes.saturating_add(size.and_then(|size| size.parse().ok()).unwrap_or(0));
        }
        if files > MAX_FILES || bytes > MAX_BYTES {
            let what = format!("commit {} has {files} files with {} MiB", short(commit), bytes >> 20);
            return Err(FetchError::TooLarge { what, most: format!("{MAX_FILES} files with {} MiB", MAX_BYTES >> 20) });
        }
        Ok(())
    }

    /// The manifests of a commit, as they will stand in `tree`.
    async fn read(&self, commit: &str, tree: &str) -> Result<Vec<AppliedSource>, FetchError> {
        let unusable = |source| FetchError::Unusable { path: self.folder.clone(), source };
        let stage = tempfile::Builder::new().prefix(STAGE).tempdir_in(&self.folder).map_err(unusable)?;
        let (staged, placed) = (stage.path().join(TREE), self.folder.join(TREE));
        make(&staged)?;
        self.git.with_tree(&staged, &stage.path().join(INDEX)).run(&["read-tree", "--reset", "-u", tree]).await?;
        let read = block_in_place(|| Sources::load(std::slice::from_ref(&staged)));
        let problems: Vec<String> =
            read.problems().map(|problem| problem.line().replace(&shown(&staged), &shown(&placed))).collect();
        if !problems.is_empty() {
            return Err(FetchError::Unreadable { commit: short(commit), problems: problems.join("; ") });
        }
        let moved = |path: &Path| path.strip_prefix(&staged).map_or_else(|_| path.to_owned(), |inner| placed.join(inner));
        let source = |file: &crate::manifest::Source| AppliedSource {
            path: moved(&file.path),
            folder: moved(&file.folder),
            text: file.text.to_string(),
        };
        let sources = read.files().map(source).collect();
        block_in_place(|| drop(stage));
        Ok(sources)
    }
}

/// Leads the names of folders that commits are read in.
const STAGE: &str = "next-";

/// A commit as people know it.
pub(in crate::reconcile) fn short(commit: &str) -> String {
    commit.chars().take(12).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn make(folder: &Path) -> Result<(), FetchError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| FetchError::Unusable { path: folder.to_owned(), source })
}

fn gone(path: &Path, done: io::Result<()>) -> Result<(), FetchError> {
    match done {
        Err(source) if source.kind() != io::ErrorKind::NotFound => Err(FetchError::Unusable { path: path.to_owned(), source }),
        _ => Ok(()),
    }
}
