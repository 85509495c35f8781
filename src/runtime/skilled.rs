use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::{
    manifest::SkillSpec,
    skill::{Body, Grant, Inspection, Peer, Terms},
    vocab::Ratio,
};

/// What leads a path that is within the workspace.
const WORKSPACE: &str = "{workspace}";

/// What the body of a declared skill may reach and take; it works in the workspace.
pub fn skill_grant(spec: &SkillSpec, workspace: &Path) -> Grant {
    let placed = |paths: &[String]| paths.iter().map(|path| place(path, workspace)).collect::<Vec<_>>();
    Grant {
        read: placed(&spec.read),
        write: placed(&spec.write),
        network: spec.network.then(|| Peer { host: "*".to_owned(), port: None }).into_iter().collect(),
        cpu: spec.cpu_time,
        wall: spec.wall_time,
        memory: spec.memory,
        ..Grant::new(workspace.to_owned())
    }
}

fn place(path: &str, workspace: &Path) -> PathBuf {
    match path.strip_prefix(WORKSPACE) {
        Some(rest) => workspace.join(rest.trim_start_matches('/')),
        None => PathBuf::from(path),
    }
}

/// How runs of a declared skill are carried on. The manifest lies over what is beside the body, and `over` over both.
pub fn skill_terms(spec: &SkillSpec, tau: Ratio, (body, inspection): (&Body, &Inspection), over: Map<String, Value>) -> Terms {
    let declared = spec.config.iter().map(|(key, value)| (key.clone(), value.clone()));
    Terms {
        tau: spec.tau.unwrap_or(tau).as_f64(),
        max_reentries: spec.max_reentries,
        cost_budget: spec.cost_budget.as_f64(),
        contract: inspection.contract.clone(),
        config: body.config.clone().into_iter().chain(declared).chain(over).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_within_the_workspace_is_there_and_no_other_is_moved() {
        let at = |path| place(path, Path::new("/w"));
        assert_eq!(
            [at("{workspace}/drafts"), at("{workspace}"), at("/srv")].map(|path| path.display().to_string()),
            ["/w/drafts", "/w/", "/srv"]
        );
    }
}
