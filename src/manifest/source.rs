//! `[source.*]`: a branch of a Git repository that holds manifests.

use std::path::{Component, Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    SourceSpec,
    check::Cx,
    problem::quoted,
    scalar::{GitAddress, GitBranch, SpanText},
};
use crate::vocab::Span;

/// A branch of a Git repository that holds manifests: the daemon fetches it, and what runs follows it.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(title = "Source")]
pub(crate) struct SourceDocument {
    /// The repository: `https://…`, `ssh://…`, `git@host:path`, `file://…`, or a path, relative to the manifest. It holds no password: over ssh your keys and your agent are used.
    pub git: Option<GitAddress>,
    /// The branch; without it `main`.
    pub branch: Option<GitBranch>,
    /// The folder in the repository that holds the manifests; without it the whole of it.
    #[schemars(length(min = 1, max = 4096))]
    pub path: Option<String>,
    /// How often the branch is looked at; without it every minute.
    pub every: Option<SpanText>,
    /// Whether only commits are taken that one of the allowed signers signed.
    pub verify: Option<VerifyName>,
    /// Who may sign: a file as `ssh-keygen -Y verify` takes it, relative to the manifest. It cannot stand in the repository itself.
    #[schemars(length(min = 1, max = 4096))]
    pub allowed_signers: Option<String>,
    /// Whether a history that was rewritten (a forced push) is followed; without it the last good commit goes on.
    pub follow_rewrites: Option<bool>,
    /// Whether a commit that declares nothing at all takes away what the source declared; without it the last good commit goes on.
    pub allow_empty: Option<bool>,
}

/// How commits are verified: by ssh signatures, and a file of those who may sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(title = "Verification")]
pub(crate) enum VerifyName {
    #[serde(rename = "ssh-allowed-signers")]
    SshAllowedSigners,
}

const BRANCH: &str = "main";
const EVERY: Span = Span::from_secs(60);
/// The protocols that are spoken.
const PROTOCOLS: [&str; 4] = ["https", "http", "ssh", "file"];
const HOW: &str = "write git = \"https://host/fleet.git\", \"git@host:fleet.git\" or a path";

/// Resolves a source.
pub(crate) fn resolve(document: &SourceDocument, cx: &mut Cx<'_>) -> Option<SourceSpec> {
    if document.git.is_none() {
        cx.missing(&["git"], HOW);
    }
    let git = document.git.as_ref().map(|git| repository(git, cx));
    let path = document.path.as_deref().map(|path| inner(path, cx));
    let every = match &document.every {
        Some(every) => cx.span(&["every"], Some(&every.0)),
        None => Some(EVERY),
    };
    let signers = document.allowed_signers.as_deref().map(|file| cx.path(&["allowed_signers"], file));
    match (document.verify, &signers) {
        (Some(VerifyName::SshAllowedSigners), None) => {
            let hint = "write allowed_signers = \"allowed_signers\"";
            let message = "`verify` needs `allowed_signers`, the file of those who may sign";
            cx.fault(&["verify"], message, Some(hint.into()));
        }
        (None, Some(_)) => {
            let message = "`allowed_signers` is not used without `verify`";
            cx.fault(&["allowed_signers"], message, Some("write verify = \"ssh-allowed-signers\"".into()));
        }
        _ => {}
    }
    Some(SourceSpec {
        git: git?,
        branch: document.branch.as_ref().map_or_else(|| BRANCH.to_owned(), |branch| branch.0.clone()),
        path: path.flatten(),
        every: every?,
        allowed_signers: signers,
        follow_rewrites: document.follow_rewrites.unwrap_or(false),
        allow_empty: document.allow_empty.unwrap_or(false),
    })
}

/// What `git` is told: a URL, `user@host:path`, or an absolute path.
fn repository(address: &GitAddress, cx: &Cx<'_>) -> String {
    let text = address.0.as_str();
    let is_remote = text.contains("://") || text.split_once(':').is_some_and(|(host, _)| !host.contains('/'));
    if is_remote { text.to_owned() } else { cx.path(&["git"], text).to_string_lossy().into_owned() }
}

/// What is wrong with the address of a repository, and what to do; it is not repeated, for it may hold a secret.
pub(super) fn fault_of_address(text: &str) -> Option<(&'static str, &'static str)> {
    if text.is_empty() || text.starts_with('-') || text.contains("::") || text.chars().any(|c| c.is_control() || c.is_whitespace())
    {
        return Some(("is not the address of a repository", HOW));
    }
    let (protocol, rest) = text.split_once("://")?;
    let host = rest.split('/').next().unwrap_or_default();
    let user = host.rsplit_once('@').map(|(user, _)| user);
    if user.is_some_and(|user| protocol != "ssh" || user.contains(':')) || rest.contains(['?', '#']) {
        let hint = "take out what stands before `@` or behind `?`; over ssh (`git@host:path`) your keys and your agent are used";
        return Some(("has room for a secret, and a manifest never holds one", hint));
    }
    (!PROTOCOLS.contains(&protocol)).then_some(("speaks a protocol that is not known; known are https, http, ssh and file", HOW))
}

/// A folder within the repository, written plainly; the repository itself is `None`.
fn inner(text: &str, cx: &mut Cx<'_>) -> Option<PathBuf> {
    let parts = || Path::new(text).components().filter(|part| *part != Component::CurDir);
    let is_inner = parts().all(|part| matches!(part, Component::Normal(_))) && !text.contains([':', '\0']);
    if !is_inner {
        let message = format!("`path` is {}, which is not a folder within the repository", quoted(text));
        cx.fault(&["path"], message, Some("write path = \"fleet\"".into()));
        return None;
    }
    let path: PathBuf = parts().collect();
    (!path.as_os_str().is_empty()).then_some(path)
}
