//! What surfaces have beside tools, passed on: prompts, resources and their templates, completion, the level of logging.
#![expect(deprecated, reason = "clients of today set a level of logging, and subscribe by request")]

use std::time::Duration;

use futures::future::join_all;
use rmcp::{
    ErrorData, Peer, RoleClient, ServiceError,
    model::{
        CompleteRequestParams, CompleteResult, GetPromptRequestParams, GetPromptResponse, PaginatedRequestParams, Prompt,
        ReadResourceRequestParams, ReadResourceResponse, Reference, Resource, ResourceTemplate, ServerCapabilities,
        SetLevelRequestParams, SubscribeRequestParams, UnsubscribeRequestParams,
    },
};
use tokio::time::timeout;

use super::serve::{Aggregator, Clash};
use crate::{
    surface::{
        answer,
        keeper::{Keeper, Phase},
        session::{MAX_ITEMS, MAX_PAGES},
    },
    vocab::Name,
};

/// A surface that is up and can be asked.
#[derive(Debug, Clone)]
pub(super) struct Asked<'a> {
    name: &'a Name,
    peer: Peer<RoleClient>,
    patience: Duration,
}

impl<'a> Asked<'a> {
    /// The surface, when it is up and says that it has what is meant.
    pub(super) fn new(
        name: &'a Name,
        keeper: &Keeper,
        patience: Duration,
        has: impl FnOnce(&ServerCapabilities) -> bool,
    ) -> Option<Self> {
        let Phase::Up(peer) = keeper.view().phase else { return None };
        let able = peer.peer_info().is_some_and(|info| has(&info.capabilities));
        able.then_some(Self { name, peer, patience })
    }

    /// What it answers: its own *no* as it is, and one for silence and for what fails in between.
    async fn answer<T>(&self, answer: impl Future<Output = Result<T, ServiceError>>) -> Result<T, ErrorData> {
        let failed = |why: &str| ErrorData::internal_error(answer::bounded(&format!("surface `{}` {why}", self.name)), None);
        match timeout(self.patience, answer).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ServiceError::McpError(error))) => Err(error),
            Ok(Err(error)) => Err(failed(&format!("failed: {error}"))),
            Err(_) => Err(failed(&format!("did not answer within {:?}", self.patience))),
        }
    }

    /// A whole list of it, page by page, up to the bounds. One that cannot be had is empty, and said in the log.
    async fn list<T, Answer>(&self, page: impl Fn(Option<PaginatedRequestParams>) -> Answer) -> Vec<T>
    where
        Answer: Future<Output = Result<(Vec<T>, Option<String>), ServiceError>>,
    {
        let mut items = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let asked = cursor.take().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
            match self.answer(page(asked)).await {
                Ok((more, next)) => {
                    items.extend(more);
                    items.truncate(MAX_ITEMS);
                    cursor = next;
                }
                Err(error) => tracing::warn!(surface = %self.name, because = %error.message, "a list cannot be had"),
            }
            if cursor.is_none() || items.len() == MAX_ITEMS {
                break;
            }
        }
        items
    }

    async fn prompts(&self) -> Vec<Prompt> {
        self.list(async |page| self.peer.list_prompts(page).await.map(|listed| (listed.prompts, listed.next_cursor))).await
    }

    async fn resources(&self) -> Vec<Resource> {
        self.list(async |page| self.peer.list_resources(page).await.map(|listed| (listed.resources, listed.next_cursor))).await
    }

    async fn templates(&self) -> Vec<ResourceTemplate> {
        let page = async |page| self.peer.list_resource_templates(page).await;
        self.list(async |asked| page(asked).await.map(|listed| (listed.resource_templates, listed.next_cursor))).await
    }

    /// Whether it lists a resource or a template of that very name, or a template that such a resource begins like.
    async fn holds(&self, uri: &str) -> bool {
        let like = |template: &ResourceTemplate| {
            let fixed = template.uri_template.split('{').next().unwrap_or_default();
            template.uri_template == uri || (!fixed.is_empty() && uri.starts_with(fixed))
        };
        self.resources().await.iter().any(|resource| resource.uri == uri) || self.templates().await.iter().any(like)
    }
}

impl Aggregator {
    /// All prompts, named as tools are.
    pub(super) async fn prompts(&self) -> Result<Vec<Prompt>, Clash> {
        Ok(self.listed_prompts().await?.into_iter().map(|(_, _, prompt)| prompt).collect())
    }

    /// All prompts, each with its surface and that one's name for it.
    async fn listed_prompts(&self) -> Result<Vec<(Asked<'_>, String, Prompt)>, Clash> {
        let surfaces = self.asked(|able| able.prompts.is_some()).await;
        let lists = join_all(surfaces.iter().map(Asked::prompts)).await;
        let mut prompts: Vec<(Asked<'_>, String, Prompt)> = Vec::new();
        for (surface, list) in surfaces.into_iter().zip(lists) {
            for mut prompt in list {
                let theirs = std::mem::take(&mut prompt.name);
                prompt.name = self.named(surface.name, &theirs);
                let same = prompts.iter().find(|(first, _, other)| other.name == prompt.name && first.name != surface.name);
                if let Some((first, ..)) = same {
                    return Err(Clash::new("prompts", &prompt.name, first.name, surface.name));
                }
                prompts.push((surface.clone(), theirs, prompt));
            }
        }
        Ok(prompts)
    }

    async fn prompt(&self, ours: &str) -> Result<(Asked<'_>, String), ErrorData> {
        let listed = self.listed_prompts().await.map_err(|clash| ErrorData::invalid_params(clash.to_string(), None))?;
        let found = listed.into_iter().find(|(_, _, prompt)| prompt.name == ours);
        let unknown = || ErrorData::invalid_params(format!("unknown prompt: {}", answer::bounded(ours)), None);
        found.map(|(surface, theirs, _)| (surface, theirs)).ok_or_else(unknown)
    }

    pub(super) async fn fill_prompt(&self, mut request: GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
        let (surface, theirs) = self.prompt(&request.name).await?;
        request.name = theirs;
        surface.answer(surface.peer.get_prompt_once(request)).await
    }

    /// All resources, by the servers' own names for them.
    pub(super) async fn resources(&self) -> Vec<Resource> {
        let surfaces = self.asked(|able| able.resources.is_some()).await;
        join_all(surfaces.iter().map(Asked::resources)).await.concat()
    }

    /// All templates of resources, likewise.
    pub(super) async fn templates(&self) -> Vec<ResourceTemplate> {
        let surfaces = self.asked(|able| able.resources.is_some()).await;
        join_all(surfaces.iter().map(Asked::templates)).await.concat()
    }

    /// The first surface that holds the resource: no other is told its name.
    async fn holder(&self, uri: &str) -> Result<Asked<'_>, ErrorData> {
        for surface in self.asked(|able| able.resources.is_some()).await {
            if surface.holds(uri).await {
                return Ok(surface);
            }
        }
        Err(ErrorData::resource_not_found(format!("no surface has the resource {}", answer::bounded(uri)), None))
    }

    pub(super) async fn read(&self, request: ReadResourceRequestParams) -> Result<ReadResourceResponse, ErrorData> {
        let surface = self.holder(&request.uri).await?;
        surface.answer(surface.peer.read_resource_once(request)).await
    }

    /// How an argument may go on. A surface that completes nothing has nothing to say to that.
    pub(super) async fn completed(&self, mut request: CompleteRequestParams) -> Result<CompleteResult, ErrorData> {
        let surface = match &mut request.r#ref {
            Reference::Resource(template) => self.holder(&template.uri).await?,
            Reference::Prompt(prompt) => {
                let (surface, theirs) = self.prompt(&prompt.name).await?;
                prompt.name = theirs;
                surface
            }
            _ => return Err(ErrorData::invalid_params("only arguments of prompts and of resource templates are completed", None)),
        };
        let able = surface.peer.peer_info().is_some_and(|info| info.capabilities.completions.is_some());
        if !able {
            return Ok(CompleteResult::default());
        }
        surface.answer(surface.peer.complete(request)).await
    }

    /// Has the surface that holds a resource tell when it changes.
    pub(super) async fn follow(&self, request: SubscribeRequestParams) -> Result<(), ErrorData> {
        let surface = self.holder(&request.uri).await?;
        let able = |able: &ServerCapabilities| able.resources.as_ref().is_some_and(|able| able.subscribe == Some(true));
        if !surface.peer.peer_info().is_some_and(|info| able(&info.capabilities)) {
            let what = format!("surface `{}` does not tell when a resource changes", surface.name);
            return Err(ErrorData::invalid_request(what, None));
        }
        surface.answer(surface.peer.subscribe(request)).await
    }

    /// Has it tell no more.
    pub(super) async fn unfollow(&self, request: UnsubscribeRequestParams) -> Result<(), ErrorData> {
        let surface = self.holder(&request.uri).await?;
        surface.answer(surface.peer.unsubscribe(request)).await
    }

    /// Tells every surface that logs the level of whoever listens most closely.
    pub(super) async fn level(&self, request: &SetLevelRequestParams) -> Result<(), ErrorData> {
        let surfaces = self.asked(|able| able.logging.is_some()).await;
        let told = surfaces.iter().map(|surface| surface.answer(surface.peer.set_level(request.clone())));
        join_all(told).await.into_iter().collect()
    }
}
