#![expect(clippy::as_conversions, reason = "counts of tokens divide sums, token ids become rows")]
#![expect(clippy::indexing_slicing, reason = "buffers are sized from the constants that the weights were checked against")]

use half::{f16, slice::HalfFloatSliceExt};
use singularity_kernel::{BLOCK, Level, Matrix, Quantised};

use super::weights::{HEADS, HIDDEN, Layer, Linear, Norm, PLACES, WIDTH, Weights};

const EPSILON: f32 = 1e-12;

/// Reads the tokens of one window, control tokens included, and adds up what the model makes of each.
///
/// Values are in panels, as the kernels have them; a head is one block wide, so each head is one panel.
pub(super) fn pooled(weights: &Weights, level: Level, tokens: &[u32]) -> Vec<f32> {
    let tokens = &tokens[..tokens.len().min(PLACES)];
    let mut run = Run::new(level, tokens.len());
    run.embed(weights, tokens);
    for layer in &weights.layers {
        run.layer(layer);
    }
    run.sum()
}

struct Run {
    level: Level,
    tokens: usize,
    stream: Vec<f32>,
    change: Vec<f32>,
    wide: Vec<f32>,
    input: Vec<Quantised>,
}

impl Run {
    fn new(level: Level, tokens: usize) -> Self {
        let values = |width: usize| vec![0.0; width * tokens];
        let input = vec![Quantised::ZERO; HIDDEN / BLOCK * tokens];
        Self { level, tokens, stream: values(WIDTH), change: values(WIDTH), wide: values(HIDDEN), input }
    }

    fn embed(&mut self, weights: &Weights, tokens: &[u32]) {
        let mut word = [0.0; WIDTH];
        for (t, (token, place)) in tokens.iter().zip(weights.places.chunks_exact(WIDTH)).enumerate() {
            let row = *token as usize * WIDTH;
            weights.words[row..row + WIDTH].convert_to_f32_slice(&mut word);
            for b in 0..WIDTH / BLOCK {
                let (from, to) = (b * BLOCK, (b * self.tokens + t) * BLOCK);
                self.stream[to..to + BLOCK].copy_from_slice(&word[from..from + BLOCK]);
                self.change[to..to + BLOCK].copy_from_slice(&place[from..from + BLOCK]);
            }
        }
        self.norm(&[0.0; WIDTH], &weights.norm);
    }

    fn layer(&mut self, layer: &Layer) {
        self.attend(&layer.attention);
        self.level.quantise_all(&self.change, &mut self.input);
        self.product(&layer.mixed.weight);
        self.norm(&layer.mixed.bias, &layer.mixed_norm);
        self.level.quantise_all(&self.stream, &mut self.input);
        self.level.product(&layer.up.weight, 0, &self.input, self.tokens, &mut self.wide);
        let panels = self.wide.chunks_exact(BLOCK * self.tokens).zip(layer.up.bias.as_chunks::<BLOCK>().0);
        for ((panel, bias), out) in panels.zip(self.input.chunks_exact_mut(self.tokens)) {
            self.level.gelu_quantise(panel, bias, out);
        }
        self.product(&layer.down.weight);
        self.norm(&layer.down.bias, &layer.norm);
    }

    /// Multiplies the input into the change.
    fn product(&mut self, weight: &Matrix) {
        self.level.product(weight, 0, &self.input, self.tokens, &mut self.change);
    }

    /// Adds the change and a bias to the stream and norms it.
    fn norm(&mut self, bias: &[f32], norm: &Norm) {
        self.level.layer_norm(&mut self.stream, &self.change, bias, &norm.gain, &norm.shift, EPSILON);
    }

    /// Lets each token look at all others; what it sees becomes the change.
    fn attend(&mut self, attention: &Linear) {
        let panel = BLOCK * self.tokens;
        self.level.quantise_all(&self.stream, &mut self.input);
        let wide = &mut self.wide[..3 * HEADS * panel];
        self.level.product(&attention.weight, 0, &self.input, self.tokens, wide);
        for (values, bias) in wide.chunks_exact_mut(panel).zip(attention.bias.as_chunks::<BLOCK>().0) {
            self.level.add_bias(values, bias);
        }
        let (mut keys, mut values, mut scores) = (vec![f16::ZERO; panel], vec![f16::ZERO; panel], vec![0.0; self.tokens]);
        for head in 0..HEADS {
            let part = |kind: usize| &wide[(kind * HEADS + head) * panel..][..panel];
            keys.convert_from_f32_slice(part(1));
            values.convert_from_f32_slice(part(2));
            let out = &mut self.change[head * panel..][..panel];
            for (query, row) in part(0).chunks_exact(BLOCK).zip(out.chunks_exact_mut(BLOCK)) {
                self.level.attend(query, &keys, &values, &mut scores, row);
            }
        }
    }

    fn sum(&self) -> Vec<f32> {
        let panels = self.stream.chunks_exact(BLOCK * self.tokens);
        let of = |panel: &[f32]| {
            let mut sums = [0.0; BLOCK];
            for row in panel.as_chunks::<BLOCK>().0 {
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
            }
            sums
        };
        panels.flat_map(of).collect()
    }
}
