use std::{
    io::{self, IsTerminal as _},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use clap::Args;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

use super::{
    context::Context,
    failure::{Class, Failure},
    service,
};
use crate::{
    api::{self, Daemon, Handle, Reconciler, Settings},
    decision::{DecisionLog, LogBounds},
    manifest::Fleet,
    store::CommitLog,
    vocab::{BadSpan, Span},
};

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub(super) struct Serve {
    /// Folders of manifests, or single ones. A change converges at once.
    #[arg(value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Let a folder that declares nothing any more take away what it declared; without it that goes on, for the folder may not be mounted.
    #[arg(long, requires = "folders")]
    pub allow_empty: bool,
    /// Look for changes this often, such as `5s`, and rely on no events; by itself every 2s on network file systems.
    #[arg(long, value_name = "SPAN", requires = "folders", value_parser = poll)]
    pub poll: Option<Span>,
}

/// How often to look for changes: a tenth of a second, or more rarely.
fn poll(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error: BadSpan| error.to_string())?;
    match span.as_millis() {
        ..100 => Err("that is too often; use \"100ms\" or more".to_owned()),
        _ => Ok(span),
    }
}

/// How long open requests may take once everything is stopped.
const PARTING: Duration = Duration::from_secs(1);

/// Runs the daemon until it is told to stop.
pub(super) async fn serve(context: &Context, arguments: Serve) -> Result<(), Failure> {
    let folders = arguments.folders.iter().map(|folder| context.cwd().join(folder)).collect::<Vec<_>>();
    if let Some(missing) = folders.iter().find(|folder| !folder.exists()) {
        return Err(Failure::new(
            Class::Configuration,
            format!("{} does not exist; name a folder of manifests", missing.display()),
        ));
    }
    let home = context.home()?;
    let _lock = home.lock_daemon().map_err(|error| {
        Failure::of(Class::State, &error).hinting("`singularity get` asks the one that runs, `singularity down` stops it")
    })?;
    let listener = api::listen(&home.socket()).map_err(|error| Failure::of(Class::State, &error))?;
    let socket = home.socket();
    let (log, mended) = CommitLog::open(&home).map_err(|error| Failure::of(Class::State, &error))?;
    mended.iter().for_each(|sentence| tracing::warn!("{sentence}"));
    let decisions = DecisionLog::open(home.path(), LogBounds::default()).map_err(|error| Failure::of(Class::State, &error))?;
    let ground = Arc::new(context.ground(home, &Fleet::default()).with(log).deciding_into(decisions).sharing());
    let deciders = ground.deciders.clone();
    let settings = Settings {
        folders: folders.clone(),
        overrides: context.overrides(),
        allow_empty: arguments.allow_empty,
        poll: arguments.poll,
    };
    let (reconciler, handle) = Reconciler::new(ground, settings).map_err(|error| Failure::of(Class::State, &error))?;
    let daemon = Daemon {
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        home: context.home_path().to_owned(),
        folders,
    };
    tracing::info!(home = %context.home_path().display(), pid = daemon.pid, "the daemon listens");
    let twice = stop_on_signals(handle.clone())?;
    look_again_on_hangup(handle.clone())?;
    let (gone, ends) = oneshot::channel::<()>();
    let door = tokio::spawn(api::serve(listener, (handle.clone(), deciders), daemon, async move { drop(ends.await) }));
    let told = service::tell(handle.clone(), context.env());
    tokio::select! {
        () = Box::pin(reconciler.run(handle)) => {}
        never = Box::pin(told) => match never {},
        _ = twice => return Err(Failure::new(Class::Runtime, "left at once; nothing that was acknowledged is lost")),
    }
    drop(gone);
    drop(std::fs::remove_file(socket));
    drop(tokio::time::timeout(PARTING, door).await);
    tracing::info!("the daemon ends; the beings' state stays");
    Ok(())
}

/// SIGHUP reads the served files again. On a terminal it tells that this was closed, and stops.
fn look_again_on_hangup(handle: Handle) -> Result<(), Failure> {
    let mut hangup = signal(SignalKind::hangup()).map_err(|error| Failure::of(Class::Runtime, &error))?;
    let has_terminal = io::stdin().is_terminal() || io::stderr().is_terminal();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            if has_terminal {
                return handle.down();
            }
            match handle.look_again().await {
                Ok(()) => tracing::info!("the served files were read again"),
                Err(error) => tracing::warn!("the served files are not read again: {error}"),
            }
        }
    });
    Ok(())
}

/// SIGINT and SIGTERM stop politely; a second one, which the answer tells of, at once.
fn stop_on_signals(handle: Handle) -> Result<oneshot::Receiver<()>, Failure> {
    let unusable = |error| Failure::of(Class::Runtime, &error);
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt()).map_err(unusable)?, signal(SignalKind::terminate()).map_err(unusable)?);
    let (tell, told) = oneshot::channel();
    tokio::spawn(async move {
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        handle.down();
        tokio::select! { _ = interrupt.recv() => {}, _ = terminate.recv() => {} }
        let _nobody_waits_any_more = tell.send(());
    });
    Ok(told)
}
