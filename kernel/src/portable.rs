#![expect(clippy::as_conversions, reason = "exponents are built from bits, small integers become floats")]
#![expect(clippy::indexing_slicing, reason = "indices are bounded by constants of the block shapes")]

use half::f16;

use super::{BLOCK, Eight, Four, GROUP, Quantised, quantise};

pub(crate) fn four(blocks: &[Four], input: &[Quantised], tokens: usize, out: &mut [f32], group: usize) {
    for token in 0..tokens {
        let mut sums = [0f32; GROUP];
        for (b, block) in blocks.iter().enumerate() {
            let x = &input[b * tokens + token];
            for (r, sum) in sums.iter_mut().enumerate() {
                let (low, high) = x.bytes.split_at(BLOCK / 2);
                let mut dot = 0i32;
                for j in 0..4 {
                    for i in 0..4 {
                        let byte = block.nibbles[j][4 * r + i];
                        dot += i32::from(byte & 15) * i32::from(low[4 * j + i]) + i32::from(byte >> 4) * i32::from(high[4 * j + i]);
                    }
                }
                let (scale, offset) = (f16::from_bits(block.scale[r]).to_f32(), f16::from_bits(block.offset[r]).to_f32());
                *sum += scale * x.scale * dot as f32 + offset * x.sum;
            }
        }
        out[token * BLOCK + group * GROUP..][..GROUP].copy_from_slice(&sums);
    }
}

pub(crate) fn eight(blocks: &[Eight], input: &[Quantised], tokens: usize, out: &mut [f32], group: usize) {
    for token in 0..tokens {
        let mut sums = [0f32; GROUP];
        for (b, block) in blocks.iter().enumerate() {
            let x = &input[b * tokens + token];
            for (r, sum) in sums.iter_mut().enumerate() {
                let mut dot = 0i32;
                for (j, four) in x.bytes.as_chunks::<4>().0.iter().enumerate() {
                    for (i, value) in four.iter().enumerate() {
                        dot += i32::from(block.bytes[j][4 * r + i]) * i32::from(*value);
                    }
                }
                *sum += f16::from_bits(block.scale[r]).to_f32() * x.scale * dot as f32;
            }
        }
        out[token * BLOCK + group * GROUP..][..GROUP].copy_from_slice(&sums);
    }
}

pub(crate) fn attend(query: &[f32], keys: &[f16], values: &[f16], scores: &mut [f32], out: &mut [f32]) {
    let width = query.len();
    for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
        *score = query.iter().zip(key).map(|(q, k)| q * k.to_f32()).sum();
    }
    softmax(scores);
    out.fill(0.0);
    for (score, value) in scores.iter().zip(values.chunks_exact(width)) {
        for (sum, v) in out.iter_mut().zip(value) {
            *sum += score * v.to_f32();
        }
    }
}

/// Turns scores into weights that sum to one.
#[inline(always)]
pub(crate) fn softmax(scores: &mut [f32]) {
    let peak = scores.iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    let (chunks, rest) = scores.as_chunks_mut::<8>();
    let mut lanes = [0f32; 8];
    for chunk in chunks {
        for (lane, score) in lanes.iter_mut().zip(chunk) {
            *score = exp(*score - peak);
            *lane += *score;
        }
    }
    let mut total: f32 = lanes.iter().sum();
    for score in rest {
        *score = exp(*score - peak);
        total += *score;
    }
    let inverse = 1.0 / total;
    for score in scores {
        *score *= inverse;
    }
}

/// The exponential function to about one part in ten million, without a branch so that it vectorises.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + MAGIC;
    let whole = shifted - MAGIC;
    let rest = x - whole * 0.693_359_4 - whole * -2.121_944_4e-4;
    let mut poly = 1.987_569_1e-4;
    for c in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        poly = poly * rest + c;
    }
    let power = f32::from_bits((shifted.to_bits().wrapping_add(127)) << 23);
    (poly * rest * rest + rest + 1.0) * power
}

#[inline(always)]
pub(crate) fn norm_quantise(values: &[f32], weight: &[f32; BLOCK], scales: &[f32], out: &mut [Quantised]) {
    for ((chunk, scale), slot) in values.as_chunks::<BLOCK>().0.iter().zip(scales).zip(out) {
        let mut scaled = [0f32; BLOCK];
        for ((to, from), w) in scaled.iter_mut().zip(chunk).zip(weight) {
            *to = from * scale * w;
        }
        *slot = quantise(&scaled);
    }
}

#[inline(always)]
pub(crate) fn gate_quantise(gate: &[f32], up: &[f32], out: &mut [Quantised]) {
    for ((g, u), slot) in gate.as_chunks::<BLOCK>().0.iter().zip(up.as_chunks::<BLOCK>().0).zip(out) {
        let mut gated = [0f32; BLOCK];
        for ((to, g), u) in gated.iter_mut().zip(g).zip(u) {
            *to = g / (1.0 + exp(-g)) * u;
        }
        *slot = quantise(&gated);
    }
}

/// The Gaussian error function, wrong by at most 1.5e-7 (Abramowitz and Stegun 7.1.26).
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let mut poly = 1.061_405_4;
    for c in [-1.453_152, 1.421_413_7, -0.284_496_74, 0.254_829_6] {
        poly = poly * t + c;
    }
    (1.0 - poly * t * exp(-x * x)).copysign(x)
}

#[inline(always)]
pub(crate) fn gelu_quantise(values: &[f32], bias: &[f32; BLOCK], out: &mut [Quantised]) {
    for (chunk, slot) in values.as_chunks::<BLOCK>().0.iter().zip(out) {
        let mut bent = [0f32; BLOCK];
        for ((to, from), b) in bent.iter_mut().zip(chunk).zip(bias) {
            let x = from + b;
            *to = 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2));
        }
        *slot = quantise(&bent);
    }
}

#[inline(always)]
pub(crate) fn add_bias(panel: &mut [f32], bias: &[f32; BLOCK]) {
    for chunk in panel.as_chunks_mut::<BLOCK>().0 {
        for (to, b) in chunk.iter_mut().zip(bias) {
            *to += b;
        }
    }
}

#[inline(always)]
pub(crate) fn layer_norm(stream: &mut [f32], change: &[f32], bias: &[f32], gain: &[f32], shift: &[f32], epsilon: f32) {
    let (width, tokens) = (bias.len(), stream.len() / bias.len());
    for token in 0..tokens {
        let places = (0..width / BLOCK).map(|b| (b * BLOCK, (b * tokens + token) * BLOCK));
        let (mut sum, mut squares) = ([0f32; BLOCK], [0f32; BLOCK]);
        for (column, at) in places.clone() {
            for i in 0..BLOCK {
                let x = stream[at + i] + change[at + i] + bias[column + i];
                stream[at + i] = x;
                sum[i] += x;
            }
        }
        let mean = sum.iter().sum::<f32>() / width as f32;
        for (_, at) in places.clone() {
            for (x, square) in stream[at..at + BLOCK].iter_mut().zip(&mut squares) {
                *x -= mean;
                *square += *x * *x;
            }
        }
        let scale = 1.0 / (squares.iter().sum::<f32>() / width as f32 + epsilon).sqrt();
        for (column, at) in places {
            for i in 0..BLOCK {
                stream[at + i] = stream[at + i] * scale * gain[column + i] + shift[column + i];
            }
        }
    }
}

#[inline(always)]
pub(crate) fn quantise_all(values: &[f32], out: &mut [Quantised]) {
    for (chunk, slot) in values.as_chunks::<BLOCK>().0.iter().zip(out) {
        *slot = quantise(chunk);
    }
}

#[inline(always)]
pub(crate) fn squares(panel: &[f32], sums: &mut [f32]) {
    for (chunk, sum) in panel.as_chunks::<BLOCK>().0.iter().zip(sums) {
        let mut lanes = [0f32; 8];
        for eight in chunk.as_chunks::<8>().0 {
            for (lane, value) in lanes.iter_mut().zip(eight) {
                *lane += value * value;
            }
        }
        *sum += lanes.iter().sum::<f32>();
    }
}
