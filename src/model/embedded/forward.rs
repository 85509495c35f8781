#![expect(clippy::as_conversions, reason = "positions become angles, token ids become rows")]
#![expect(clippy::indexing_slicing, reason = "buffers are sized from the shape that the weights were checked against")]

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use half::f16;

use singularity_kernel::{BLOCK, Level, Matrix, Quantised, Team};

use super::{
    cache::Cache,
    weights::{Layer, Shape, Weights, frequencies},
};

/// Tokens of a prompt that go through the model together.
pub(super) const TILE: usize = 128;

/// The one who asked has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cancelled;

/// A model that can be run: weights, kernels, threads and the buffers between layers.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) weights: Weights,
    level: Level,
    team: Team,
    turns: Vec<f64>,
    buffers: Buffers,
}

#[derive(Debug, Default)]
struct Buffers {
    stream: Vec<f32>,
    wide: Vec<f32>,
    mixed: Vec<f32>,
    input: Vec<Quantised>,
    scales: Vec<f32>,
    angles: Vec<(f32, f32)>,
    logits: Vec<f32>,
}

impl Engine {
    pub(super) fn new(weights: Weights, level: Level, team: Team) -> Self {
        let turns = frequencies(&weights.shape);
        Self { weights, level, team, turns, buffers: Buffers::default() }
    }

    /// Reads `tokens` after what `cache` already holds and yields the logits behind the last one.
    ///
    /// Looks at `cancel` before each layer; when it is set the cache is as it was before the tile that was under way.
    pub(super) fn read(&mut self, tokens: &[u32], cache: &mut Cache, cancel: &AtomicBool) -> Result<&[f32], Cancelled> {
        for tile in tokens.chunks(TILE) {
            let before = cache.len();
            if self.tile(tile, cache, cancel).is_err() {
                cache.truncate(before);
                return Err(Cancelled);
            }
            cache.extend(tile);
        }
        self.logits(tokens.len().saturating_sub(1) % TILE + 1);
        Ok(&self.buffers.logits[..self.weights.shape.vocabulary])
    }

    fn tile(&mut self, tokens: &[u32], cache: &mut Cache, cancel: &AtomicBool) -> Result<(), Cancelled> {
        let Self { weights, level, team, turns, buffers } = self;
        let shape = &weights.shape;
        let run = Run { shape, level: *level, tokens: tokens.len(), first: cache.len() };
        buffers.prepare(shape, tokens.len());
        run.embed(tokens, &weights.embedding, &mut buffers.stream);
        run.angles(turns, &mut buffers.angles);
        for (n, layer) in weights.layers.iter().enumerate() {
            if cancel.load(Ordering::Relaxed) {
                return Err(Cancelled);
            }
            run.layer(layer, n, cache, buffers, team);
        }
        Ok(())
    }

    /// Turns the last column of the stream, which holds the last tile, into logits.
    fn logits(&mut self, tokens: usize) {
        let Self { weights, level, team, buffers, .. } = self;
        let shape = &weights.shape;
        let column = |block: usize| (block * tokens + tokens - 1) * BLOCK;
        let last: Vec<f32> =
            (0..shape.width / BLOCK).flat_map(|b| buffers.stream[column(b)..column(b) + BLOCK].iter().copied()).collect();
        let run = Run { shape, level: *level, tokens: 1, first: 0 };
        run.norm(&last, &weights.norm, &mut buffers.scales, &mut buffers.input, team);
        buffers.logits.resize(weights.head().rows(), 0.0);
        run.product(weights.head(), &buffers.input, &mut buffers.logits, team);
    }
}

impl Buffers {
    fn prepare(&mut self, shape: &Shape, tokens: usize) {
        let keys = shape.key_heads * shape.head_width;
        self.stream.resize(shape.width * tokens, 0.0);
        self.wide.resize((shape.width + 2 * keys).max(2 * shape.hidden) * tokens, 0.0);
        self.mixed.resize(shape.width * tokens, 0.0);
        self.input.resize(shape.width.max(shape.hidden) / BLOCK * tokens, Quantised::ZERO);
        self.scales.resize(tokens, 0.0);
        self.angles.resize(shape.head_width / 2 * tokens, (0.0, 0.0));
    }
}

/// One pass of some tokens through the layers.
struct Run<'a> {
    shape: &'a Shape,
    level: Level,
    tokens: usize,
    first: usize,
}

impl Run<'_> {
    fn embed(&self, tokens: &[u32], embedding: &Matrix, stream: &mut [f32]) {
        let mut row = vec![0.0; self.shape.width];
        for (t, token) in tokens.iter().enumerate() {
            embedding.row(*token as usize, &mut row);
            for (b, block) in row.chunks_exact(BLOCK).enumerate() {
                let start = (b * self.tokens + t) * BLOCK;
                stream[start..start + BLOCK].copy_from_slice(block);
            }
        }
    }

    fn angles(&self, turns: &[f64], angles: &mut [(f32, f32)]) {
        for (t, chunk) in angles.chunks_exact_mut(turns.len()).enumerate() {
            for (angle, turn) in chunk.iter_mut().zip(turns) {
                let (sin, cos) = ((self.first + t) as f64 * turn).sin_cos();
                *angle = (sin as f32, cos as f32);
            }
        }
    }

    fn layer(&self, layer: &Layer, n: usize, cache: &mut Cache, buffers: &mut Buffers, team: &mut Team) {
        let Buffers { stream, wide, mixed, input, scales, angles, .. } = buffers;
        let attention = &mut wide[..layer.query_key_value.rows() * self.tokens];
        self.norm(stream, &layer.attention_norm, scales, input, team);
        self.product(&layer.query_key_value, input, attention, team);
        self.remember(attention, angles, n, cache);
        self.attend(attention, angles, n, cache, mixed, team);
        self.level.quantise_all(mixed, input);
        self.product(&layer.output, input, mixed, team);
        add(stream, mixed);
        self.norm(stream, &layer.feed_norm, scales, input, team);
        let feed = &mut wide[..2 * self.shape.hidden * self.tokens];
        self.product(&layer.gate_up, input, feed, team);
        self.gate(feed, input, team);
        self.product(&layer.down, input, mixed, team);
        add(stream, mixed);
    }

    fn norm(&self, stream: &[f32], weight: &[f32], scales: &mut [f32], input: &mut [Quantised], team: &mut Team) {
        let scales = &mut scales[..self.tokens];
        scales.fill(0.0);
        for panel in stream.chunks_exact(BLOCK * self.tokens) {
            self.level.squares(panel, scales);
        }
        for scale in scales.iter_mut() {
            *scale = 1.0 / (*scale / self.shape.width as f32 + self.shape.epsilon).sqrt();
        }
        let panels = stream.chunks_exact(BLOCK * self.tokens).zip(weight.as_chunks::<BLOCK>().0).zip(input.chunks_mut(self.tokens));
        let scales = &*scales;
        self.spread(panels, team, |((values, weight), out)| self.level.norm_quantise(values, weight, scales, out));
    }

    fn gate(&self, feed: &[f32], input: &mut [Quantised], team: &mut Team) {
        let (gate, up) = feed.split_at(feed.len() / 2);
        let size = BLOCK * self.tokens;
        let panels = gate.chunks_exact(size).zip(up.chunks_exact(size)).zip(input.chunks_mut(self.tokens));
        self.spread(panels, team, |((gate, up), out)| self.level.gate_quantise(gate, up, out));
    }

    /// Multiplies in pieces: small enough to share fairly, large enough to be worth taking.
    fn product(&self, weight: &Matrix, input: &[Quantised], out: &mut [f32], team: &mut Team) {
        let panels = weight.rows() / BLOCK;
        let each = panels.div_ceil(team.threads() * 6).clamp(1, 16);
        let pieces = out.chunks_mut(BLOCK * self.tokens * each).enumerate();
        share(pieces, team, |(i, piece)| self.level.product(weight, i * each, input, self.tokens, piece));
    }

    /// Appends the keys, turned to their positions, and the values to the cache.
    fn remember(&self, attention: &[f32], angles: &[(f32, f32)], n: usize, cache: &mut Cache) {
        let width = self.shape.head_width;
        let mut row = vec![0.0; width];
        for head in 0..self.shape.key_heads {
            let key = self.shape.heads + head;
            let (keys, values) = cache.rows(n, head);
            for t in 0..self.tokens {
                self.gather(attention, key, t, &mut row);
                turn(&mut row, &angles[t * width / 2..]);
                keys.extend(row.iter().copied().map(f16::from_f32));
                self.gather(attention, key + self.shape.key_heads, t, &mut row);
                values.extend(row.iter().copied().map(f16::from_f32));
            }
        }
    }

    fn attend(&self, attention: &[f32], angles: &[(f32, f32)], n: usize, cache: &Cache, mixed: &mut [f32], team: &mut Team) {
        let width = self.shape.head_width;
        let scale = 1.0 / (width as f32).sqrt();
        let heads = mixed.chunks_mut(width * self.tokens).enumerate();
        share(heads, team, |(head, out)| {
            let (keys, values) = cache.head(n, head * self.shape.key_heads / self.shape.heads);
            let (mut query, mut row) = (vec![0.0; width], vec![0.0; width]);
            let mut scores = vec![0.0; self.first + self.tokens];
            for t in 0..self.tokens {
                self.gather(attention, head, t, &mut query);
                turn(&mut query, &angles[t * width / 2..]);
                query.iter_mut().for_each(|q| *q *= scale);
                self.level.attend(&query, keys, values, &mut scores[..=self.first + t], &mut row);
                for (b, block) in row.chunks_exact(BLOCK).enumerate() {
                    let start = (b * self.tokens + t) * BLOCK;
                    out[start..start + BLOCK].copy_from_slice(block);
                }
            }
        });
    }

    /// Collects one head of one token out of its panels.
    fn gather(&self, panels: &[f32], head: usize, token: usize, row: &mut [f32]) {
        let first = head * self.shape.head_width / BLOCK;
        for (b, block) in row.chunks_exact_mut(BLOCK).enumerate() {
            let start = ((first + b) * self.tokens + token) * BLOCK;
            block.copy_from_slice(&panels[start..start + BLOCK]);
        }
    }

    /// Shares small pieces out when there are many tokens; one token is faster alone.
    fn spread<T: Send>(&self, pieces: impl Iterator<Item = T> + Send, team: &mut Team, work: impl Fn(T) + Sync) {
        if self.tokens < 8 { pieces.for_each(work) } else { share(pieces, team, work) }
    }
}

/// Hands the pieces out to whoever of the team is free.
fn share<T: Send>(pieces: impl Iterator<Item = T> + Send, team: &mut Team, work: impl Fn(T) + Sync) {
    let queue = Mutex::new(pieces);
    team.run(&|| {
        loop {
            let piece = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some(piece) = piece else { break };
            work(piece);
        }
    });
}

fn add(stream: &mut [f32], change: &[f32]) {
    for (to, from) in stream.iter_mut().zip(change) {
        *to += from;
    }
}

/// Turns neighbouring pairs by their angles.
fn turn(row: &mut [f32], angles: &[(f32, f32)]) {
    for (pair, (sin, cos)) in row.as_chunks_mut::<2>().0.iter_mut().zip(angles) {
        let [a, b] = *pair;
        *pair = [a * cos - b * sin, a * sin + b * cos];
    }
}
