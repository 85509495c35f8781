use std::sync::Arc;

use super::{
    chat::{self, Page},
    error::EmbeddedError,
    token::Vocabulary,
};
use crate::being::{ChatMessage, CountTokens, ToolDefinition};

/// Counts the tokens of what [`chat::render`] makes, to the token.
#[derive(Debug)]
pub(super) struct Count {
    pub(super) words: Arc<Vocabulary>,
    pub(super) context: usize,
}

impl Count {
    /// What can't be written does not fit, so it counts as all that would.
    fn page<'a>(&'a self, write: impl FnOnce(&mut Page<'a>) -> Result<(), EmbeddedError>) -> u64 {
        let mut page = Page::new(&self.words);
        let tokens = write(&mut page).map_or(self.context, |()| page.tokens.len());
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }
}

impl CountTokens for Count {
    fn message(&self, message: &ChatMessage) -> u64 {
        self.page(|page| page.message(message))
    }

    fn head(&self, system: Option<&str>, tools: &Arc<[ToolDefinition]>) -> u64 {
        self.page(|page| {
            page.system(system, &chat::catalogue(tools, self.context, &self.words)?)?;
            page.answer()
        })
    }
}
