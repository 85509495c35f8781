//! What holds the process of a surface: its sandbox and its limits.

use super::{
    LimitsSpec, SandboxSpec, Scope,
    check::Cx,
    document::{LimitsDocument, SandboxDocument, SurfaceDocument},
    resolve::WORKSPACE,
    scalar::{SizeText, SpanText},
};
use crate::vocab::Size;

/// Less memory than this lets no program start.
const MIN_MEMORY: Size = Size::mib(16);

/// Resolves the sandbox and the limits of a surface; one with a URL has no process that they could hold.
pub(crate) fn confinement(document: &SurfaceDocument, scope: Scope, cx: &mut Cx<'_>) -> (Option<SandboxSpec>, LimitsSpec) {
    if document.url.is_some() {
        for (key, is_there) in [("sandbox", document.sandbox.is_some()), ("limits", document.limits.is_some())] {
            if is_there && cx.is_own(&[key]) {
                let message = format!("`{key}` is not used by a surface with `url`");
                cx.fault(&[key], message, Some("it has no process; take it out".into()));
            }
        }
        return (None, LimitsSpec::default());
    }
    let sandbox = document.sandbox.as_ref().map(|document| sandbox(document, scope, cx));
    (sandbox, document.limits.as_ref().map(|document| limits(document, cx)).unwrap_or_default())
}

fn sandbox(document: &SandboxDocument, scope: Scope, cx: &mut Cx<'_>) -> SandboxSpec {
    let mut paths = |key: &str, list: &Option<Vec<String>>| {
        let one = |(at, text): (usize, &String)| {
            let path: &[&str] = &["sandbox", key, &at.to_string()];
            if !text.contains(WORKSPACE) {
                return cx.path(path, text).to_string_lossy().into_owned();
            }
            if scope == Scope::Shared {
                let message = "`{workspace}` is each being's own, but this surface is shared by all";
                cx.fault(path, message, Some("write scope = \"being\", or name a folder".into()));
            } else if !text.starts_with(WORKSPACE) {
                cx.fault(path, "`{workspace}` is a whole path; it can only lead one", Some("write \"{workspace}/folder\"".into()));
            }
            text.clone()
        };
        list.iter().flatten().enumerate().map(one).collect()
    };
    SandboxSpec {
        read: paths("read", &document.read),
        write: paths("write", &document.write),
        network: document.network.unwrap_or(false),
        require: document.require.unwrap_or(false),
    }
}

fn limits(document: &LimitsDocument, cx: &mut Cx<'_>) -> LimitsSpec {
    let size = |text: &Option<SizeText>| text.as_ref().and_then(|text| text.0.parse::<Size>().ok());
    let memory = size(&document.memory);
    if memory.is_some_and(|memory| memory < MIN_MEMORY) {
        let message = format!("`limits.memory` is less than {MIN_MEMORY}, with which no program starts");
        cx.fault(&["limits", "memory"], message, Some("write \"512MiB\"".into()));
    }
    let cpu = document.cpu.as_ref().map(|SpanText(text)| text.as_str());
    LimitsSpec {
        memory,
        cpu: cx.span(&["limits", "cpu"], cpu),
        open_files: document.open_files,
        file_size: size(&document.file_size),
        processes: document.processes,
    }
}
