use std::{io, path::Path, time::Duration};

use reqwest::StatusCode;
use serde::{Serialize, de::DeserializeOwned};

use super::wire::{
    AnswerRequest, ApplyAnswer, ApplyRequest, ConsentRequest, DeleteRequest, Done, EventList, FreezeRequest, FundRequest,
    PauseRequest, Refusal, ResumeRequest, RollbackRequest, StatusAnswer,
};

/// A connection to a home's daemon over its unix socket.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
}

/// Why the daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    #[error("no daemon listens for this home")]
    NoDaemon(#[source] io::Error),
    #[error("the daemon did not answer; look at its log")]
    Lost(#[source] reqwest::Error),
    #[error("the daemon speaks another version of this program; run `singularity down` and try again")]
    OtherVersion(#[source] serde_json::Error),
    #[error("{}", .0.message)]
    Refused(Refusal),
}

/// How long a daemon may think about a request that is not a wait.
const PATIENCE: Duration = Duration::from_secs(60);

impl Client {
    /// Connects; fails at once where no daemon listens, also behind a socket that a dead one left.
    pub fn connect(socket: &Path) -> Result<Self, AskError> {
        drop(std::os::unix::net::UnixStream::connect(socket).map_err(AskError::NoDaemon)?);
        // Needed to build any client, though nothing here speaks TLS; one that is there already is as good.
        drop(rustls::crypto::ring::default_provider().install_default());
        let http = reqwest::Client::builder().unix_socket(socket).no_proxy().timeout(PATIENCE).build().map_err(AskError::Lost)?;
        Ok(Self { http })
    }

    /// What the daemon knows; with `newer_than`, once that is past, or after a while.
    pub async fn status(&self, newer_than: Option<u64>) -> Result<StatusAnswer, AskError> {
        let wait = newer_than.map(|version| format!("?newer_than={version}")).unwrap_or_default();
        self.ask(self.http.get(format!("{BASE}/v1/status{wait}"))).await
    }

    /// Applies a set, or tells what applying it would change.
    pub async fn apply(&self, request: &ApplyRequest) -> Result<ApplyAnswer, AskError> {
        self.post("apply", request).await
    }

    /// Takes an object or a set away.
    pub async fn delete(&self, request: &DeleteRequest) -> Result<Done, AskError> {
        self.post("delete", request).await
    }

    /// What happened; with `after`, what came after that number, at once or after a while, or nothing.
    pub async fn events(&self, after: Option<u64>) -> Result<EventList, AskError> {
        let wait = after.map(|number| format!("?after={number}")).unwrap_or_default();
        self.ask(self.http.get(format!("{BASE}/v1/events{wait}"))).await
    }

    /// Gives a being money; done once it is durable.
    pub async fn fund(&self, request: &FundRequest) -> Result<Done, AskError> {
        self.post("fund", request).await
    }

    /// Pauses beings; done once it is durable.
    pub async fn pause(&self, request: &PauseRequest) -> Result<Done, AskError> {
        self.post("pause", request).await
    }

    /// Resumes beings.
    pub async fn resume(&self, request: &ResumeRequest) -> Result<Done, AskError> {
        self.post("resume", request).await
    }

    /// Freezes the fleet, or lifts that.
    pub async fn freeze(&self, request: &FreezeRequest) -> Result<Done, AskError> {
        self.post("freeze", request).await
    }

    /// Declares what an older revision declared, or tells what that would change.
    pub async fn rollback(&self, request: &RollbackRequest) -> Result<ApplyAnswer, AskError> {
        self.post("rollback", request).await
    }

    /// Answers a question of a being; done once the being has it durably.
    pub async fn answer(&self, request: &AnswerRequest) -> Result<(), AskError> {
        self.post("answer", request).await
    }

    /// Hands over what a person brought from the authorization server of a surface; done once there is a token.
    pub async fn consent(&self, request: &ConsentRequest) -> Result<(), AskError> {
        self.post("consent", request).await
    }

    /// Asks the daemon to stop its beings and end.
    pub async fn down(&self) -> Result<(), AskError> {
        self.post("down", &()).await
    }

    async fn post<T: DeserializeOwned>(&self, verb: &str, body: &impl Serialize) -> Result<T, AskError> {
        self.ask(self.http.post(format!("{BASE}/v1/{verb}")).json(body)).await
    }

    async fn ask<T: DeserializeOwned>(&self, request: reqwest::RequestBuilder) -> Result<T, AskError> {
        let response = request.send().await.map_err(AskError::Lost)?;
        let is_fine = response.status() == StatusCode::OK;
        let body = response.bytes().await.map_err(AskError::Lost)?;
        if is_fine {
            return serde_json::from_slice(&body).map_err(AskError::OtherVersion);
        }
        Err(serde_json::from_slice(&body).map_or_else(AskError::OtherVersion, AskError::Refused))
    }
}

/// The authority is not used: the socket is the address.
const BASE: &str = "http://singularity";
