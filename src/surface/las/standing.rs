use std::{
    collections::BTreeMap,
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use rmcp::model::{ClientCapabilities, ElicitationCapability, SamplingCapability};
use tokio::{net::TcpListener, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    config::{BadPattern, LasConfig},
    http::{Bearer, PATH, router},
    serve::{Aggregator, Clash, ServeError},
};
use crate::{
    manifest::{SecretSource, SurfaceSpec},
    process::Backoff,
    secret::SecretError,
    surface::Terms,
    vocab::{Name, Span},
};

/// How long open requests may take once it was told to stop.
const PARTING: Duration = Duration::from_secs(2);

/// What a Las that stands alone serves.
#[derive(Debug, Clone)]
pub struct Standing {
    pub surfaces: BTreeMap<Name, SurfaceSpec>,
    /// `{workspace}`, and where the surfaces run.
    pub workspace: PathBuf,
    /// Where the tokens of surfaces are kept that are had by OAuth.
    pub tokens: PathBuf,
    /// This process's environment: `PATH` is passed on to the surfaces, `LAS_ONLY` and `LAS_SKIP` select them, and bearers may be in it.
    pub env: BTreeMap<String, String>,
    /// Whether tools are listed as `<surface>__<tool>`.
    pub prefixes: bool,
}

/// Where a Las listens, and what callers must show.
#[derive(Debug, Clone)]
pub struct Door {
    pub address: SocketAddr,
    /// Where the bearer is read from, anew at each request.
    pub bearer: Option<SecretSource>,
}

/// Why a Las cannot stand alone.
#[derive(Debug, thiserror::Error)]
pub enum StandError {
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    #[error("no surface is selected; declared are: {declared}")]
    NothingSelected { declared: String },
    #[error(transparent)]
    Clash(#[from] Clash),
    #[error("{address} can be reached from other machines, so whoever calls must show a bearer; none is given")]
    Unguarded { address: SocketAddr },
    #[error(transparent)]
    Secret(#[from] SecretError),
    #[error("cannot listen on {address}")]
    NotListening {
        address: SocketAddr,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Serve(#[from] ServeError),
}

impl Standing {
    /// Serves one peer on standard input and output until it is gone or `stop` is ready, then ends every surface.
    pub async fn serve(self, stop: impl Future<Output = ()>) -> Result<(), StandError> {
        let las = self.join().await?;
        tokio::select! {
            ended = las.serve(None) => ended?,
            () = stop => las.stop().await,
        }
        Ok(())
    }

    /// Serves whoever comes over streamable HTTP until `stop` is ready, then ends every surface. `opened` is told the URL.
    pub async fn listen(
        self,
        door: Door,
        opened: impl FnOnce(&str),
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), StandError> {
        let Door { address, bearer } = door;
        if !address.ip().is_loopback() && bearer.is_none() {
            return Err(StandError::Unguarded { address });
        }
        let bearer = bearer.map(|source| Bearer::new(source, &self.env));
        // What is no secret is told now rather than to the first who calls.
        bearer.iter().try_for_each(|bearer| bearer.read().map(drop))?;
        let not_listening = |source| StandError::NotListening { address, source };
        let listener = TcpListener::bind(address).await.map_err(not_listening)?;
        let address = listener.local_addr().map_err(not_listening)?;
        let las = self.join().await?;
        let over = CancellationToken::new();
        let router = router(&las, address, bearer, over.clone());
        opened(&format!("http://{address}{PATH}"));
        let ends = {
            let over = over.clone();
            async move {
                stop.await;
                over.cancel();
            }
        };
        let late = async {
            over.cancelled().await;
            sleep(PARTING).await;
        };
        let served = tokio::select! {
            served = axum::serve(listener, router).with_graceful_shutdown(ends).into_future() => served,
            () = late => Ok(()),
        };
        las.stop().await;
        served.map_err(not_listening)
    }

    /// Starts every surface; where names are kept, waits for all of them and refuses two that are the same.
    async fn join(self) -> Result<Aggregator, StandError> {
        let Self { surfaces, workspace, tokens, env, prefixes } = self;
        let config = select(&surfaces, (&workspace, &tokens), &env)?;
        let terms = surfaces.iter().map(|(name, spec)| (name.clone(), Terms::new(&spec.terms))).collect();
        let (las, _) = Aggregator::new(env, prefixes);
        let las = las.alone();
        las.join(config, terms, &wants());
        if !prefixes && let Err(clash) = unambiguous(&las).await {
            las.stop().await;
            return Err(clash.into());
        }
        Ok(las)
    }
}

async fn unambiguous(las: &Aggregator) -> Result<(), Clash> {
    las.tools().await?;
    las.prompts().await?;
    Ok(())
}

/// What surfaces may ask for. Clients come and go; for one that does not take it, it is refused when it is asked.
fn wants() -> ClientCapabilities {
    let mut wants = ClientCapabilities::default();
    wants.elicitation = Some(ElicitationCapability::default());
    wants.sampling = Some(SamplingCapability::default());
    wants
}

fn select(
    surfaces: &BTreeMap<Name, SurfaceSpec>,
    folders: (&Path, &Path),
    env: &BTreeMap<String, String>,
) -> Result<LasConfig, StandError> {
    let mut config = LasConfig::new(surfaces, folders, Span::from(super::LasStart::PATIENCE), Backoff::default());
    config.select(env)?;
    if config.surfaces.is_empty() {
        return Err(StandError::NothingSelected { declared: names(surfaces.keys()) });
    }
    Ok(config)
}

fn names<'a>(names: impl Iterator<Item = &'a Name>) -> String {
    let names: Vec<&str> = names.map(Name::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
