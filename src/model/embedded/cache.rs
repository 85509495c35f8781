use half::f16;

use super::weights::Shape;

/// Keys and values of tokens that were read, head by head, and the tokens themselves.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache {
    tokens: Vec<u32>,
    heads: usize,
    width: usize,
    keys: Vec<Vec<f16>>,
    values: Vec<Vec<f16>>,
}

impl Cache {
    pub(super) fn new(shape: &Shape) -> Self {
        let rows = vec![Vec::new(); shape.layers * shape.key_heads];
        Self { tokens: Vec::new(), heads: shape.key_heads, width: shape.head_width, keys: rows.clone(), values: rows }
    }

    /// Tokens whose keys and values are complete.
    pub(super) const fn len(&self) -> usize {
        self.tokens.len()
    }

    pub(super) fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Forgets everything behind the first `length` tokens, also what a cancelled pass left behind.
    pub(super) fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        for rows in self.keys.iter_mut().chain(&mut self.values) {
            rows.truncate(length * self.width);
        }
    }

    /// Says that `tokens` are now complete.
    pub(super) fn extend(&mut self, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
    }

    #[expect(clippy::indexing_slicing, reason = "layers and heads are those of the shape that the cache was made for")]
    pub(super) fn rows(&mut self, layer: usize, head: usize) -> (&mut Vec<f16>, &mut Vec<f16>) {
        let i = layer * self.heads + head;
        (&mut self.keys[i], &mut self.values[i])
    }

    #[expect(clippy::indexing_slicing, reason = "layers and heads are those of the shape that the cache was made for")]
    pub(super) fn head(&self, layer: usize, head: usize) -> (&[f16], &[f16]) {
        let i = layer * self.heads + head;
        (&self.keys[i], &self.values[i])
    }
}

/// Prompts that are kept at the same time.
const MAX_SLOTS: usize = 6;
/// A slot loses at most this many tokens in favour of another prompt; with more at stake the common prefix is copied.
const SPARED: usize = 64;

/// The prompts that were read last, newest last. Holds at most six, and together at most twice the model's context.
#[derive(Debug, Default)]
pub(super) struct Slots {
    slots: Vec<Cache>,
}

impl Slots {
    /// Yields the cache that shares most with `prompt`, cut to what they share, and how much of that was copied or taken over.
    ///
    /// At least the last token is left to read, because its logits are what the caller wants.
    pub(super) fn take(&mut self, prompt: &[u32], shape: &Shape) -> Cache {
        let shared = |cache: &Cache| cache.tokens().iter().zip(prompt).take_while(|(a, b)| a == b).count();
        let best = self.slots.iter().enumerate().map(|(i, cache)| (shared(cache), i)).max();
        let Some((common, i)) = best.filter(|(common, _)| *common > 0) else { return Cache::new(shape) };
        let keep = common.min(prompt.len().saturating_sub(1));
        let new = common < prompt.len().saturating_sub(1);
        let stays = new && self.slots.get(i).is_some_and(|cache| cache.len() > common + SPARED);
        let mut cache = match self.slots.get(i) {
            Some(cache) if stays => cache.prefix(keep),
            _ => self.slots.remove(i),
        };
        cache.truncate(keep);
        cache
    }

    /// Puts a cache back as the newest and lets the oldest go that do not fit.
    pub(super) fn put(&mut self, cache: Cache, shape: &Shape) {
        if cache.len() > 0 {
            self.slots.push(cache);
        }
        while self.slots.len() > MAX_SLOTS || (self.slots.len() > 1 && self.total() > 2 * shape.context) {
            self.slots.remove(0);
        }
    }

    #[cfg(test)]
    pub(super) fn tokens(&self) -> usize {
        self.total()
    }

    fn total(&self) -> usize {
        self.slots.iter().map(Cache::len).sum()
    }
}

impl Cache {
    fn prefix(&self, length: usize) -> Self {
        let cut = |rows: &Vec<Vec<f16>>| rows.iter().map(|row| row.iter().take(length * self.width).copied().collect()).collect();
        let tokens = self.tokens.iter().take(length).copied().collect();
        Self { tokens, heads: self.heads, width: self.width, keys: cut(&self.keys), values: cut(&self.values) }
    }
}
