use std::path::PathBuf;

use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use super::{
    context::{Context, print, say},
    failure::{Class, Failure},
};
use crate::{
    manifest::{SecretSource, SurfaceSpec, TransportSpec},
    surface::las::{self, Door, StandError, Standing},
};

/// Arguments of `las`.
#[derive(Debug, Args)]
pub(super) struct Las {
    /// A manifest, a folder of manifests, or `-` for standard input (with --http). May be given more than once.
    #[arg(short = 'f', long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Listen here for streamable HTTP, at the path /mcp, in the place of speaking on standard input and output. Prints the URL.
    #[arg(long, value_name = "ADDRESS", requires = "files")]
    pub http: Option<std::net::SocketAddr>,
    /// A file that holds the bearer which callers must show; needed where other machines can reach the address.
    #[arg(long, value_name = "FILE", requires = "http")]
    pub bearer_file: Option<PathBuf>,
    /// The variable that holds the bearer, in the place of a file.
    #[arg(long, value_name = "NAME", requires = "http", conflicts_with = "bearer_file")]
    pub bearer_env: Option<String>,
    /// The credential of the service that holds the bearer (`LoadCredential=` of its unit), in the place of a file.
    #[arg(long, value_name = "NAME", requires = "http", conflicts_with_all = ["bearer_file", "bearer_env"])]
    pub bearer_credential: Option<String>,
    /// Keep the names of the servers' tools, without `<surface>__` before them. Two that are the same are an error.
    #[arg(long, requires = "files")]
    pub no_prefix: bool,
    /// Globs over surfaces: join these alone. Over `LAS_ONLY`.
    #[arg(long, value_name = "GLOB", value_delimiter = ',', requires = "files")]
    pub only: Vec<String>,
    /// Globs over surfaces: join all but these. Over `LAS_SKIP`.
    #[arg(long, value_name = "GLOB", value_delimiter = ',', requires = "files")]
    pub skip: Vec<String>,
}

/// Runs as Las: told by a daemon what to join, or standing alone in front of what manifests declare.
pub(super) async fn las(context: &Context, arguments: Las) -> Result<(), Failure> {
    if arguments.files.is_empty() {
        return las::serve(context.env().clone()).await.map_err(|error| {
            Failure::of(Class::Upstream, &error).hinting("`singularity las -f MANIFEST` joins what a manifest declares")
        });
    }
    let (_, loaded) = context.read(&arguments.files, &context.overrides())?;
    let mut env = context.env().clone();
    for (variable, globs) in [("LAS_ONLY", &arguments.only), ("LAS_SKIP", &arguments.skip)] {
        if !globs.is_empty() {
            env.insert(variable.to_owned(), globs.join(","));
        }
    }
    let workspace = context.cwd().to_owned();
    let is_asking = |spec: &SurfaceSpec| matches!(&spec.transport, TransportSpec::Url { oauth: Some(_), .. });
    // Only what is given tokens needs a home to keep them in.
    let tokens = match loaded.fleet.surfaces.values().any(is_asking) {
        true => context.home()?.oauth(),
        false => context.home_path().to_owned(),
    };
    let standing = Standing { surfaces: loaded.fleet.surfaces, workspace, tokens, env, prefixes: !arguments.no_prefix };
    let stop = told_to_stop()?;
    let ended = match arguments.http {
        None => standing.serve(stop).await,
        Some(address) => {
            let file = arguments.bearer_file.map(|file| SecretSource::File(context.cwd().join(file)));
            let variable = arguments.bearer_env.map(SecretSource::Env);
            let bearer = file.or(variable).or(arguments.bearer_credential.map(SecretSource::Credential));
            standing.listen(Door { address, bearer }, announce, stop).await
        }
    };
    ended.map_err(|error| failure(&error))
}

/// Tells where the server is, for people and for scripts that gave port 0.
fn announce(url: &str) {
    if let Err(failure) = print(&format!("{url}\n")) {
        say(&failure.to_string());
    }
}

/// Is ready at SIGINT or SIGTERM.
fn told_to_stop() -> Result<impl Future<Output = ()> + Send + 'static, Failure> {
    let unusable = |error| Failure::of(Class::Runtime, &error);
    let mut interrupt = signal(SignalKind::interrupt()).map_err(unusable)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(unusable)?;
    Ok(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
    })
}

fn failure(error: &StandError) -> Failure {
    let of = |class| Failure::of(class, error);
    match error {
        StandError::Pattern(_) | StandError::Secret(_) => of(Class::Configuration),
        StandError::NothingSelected { .. } => of(Class::Configuration).hinting("`--only` and `--skip` select by globs"),
        StandError::Clash(_) => of(Class::Configuration)
            .hinting("`rename` or `deny` one of them in its manifest, select with `--only`, or leave out `--no-prefix`"),
        StandError::Unguarded { .. } => {
            of(Class::Configuration).hinting("give `--bearer-file FILE`, or listen on a loopback address such as 127.0.0.1:8080")
        }
        StandError::NotListening { .. } => of(Class::State).hinting("choose another address, or port 0 for any that is free"),
        StandError::Serve(_) => of(Class::Upstream),
    }
}
