#![expect(clippy::indexing_slicing, reason = "a panel's blocks are counted where the panel is cut")]

#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{BLOCK, GROUP, Matrix, Quantised, portable};
use half::f16;

/// Which kernels this processor runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512Vnni,
}

impl Level {
    /// The levels that this processor can run, slowest first.
    pub fn available() -> Vec<Self> {
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut, reason = "only x86-64 has more than one"))]
        let mut levels = vec![Self::Portable];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            levels.push(Self::Avx2);
            if is_x86_feature_detected!("avxvnni") {
                levels.push(Self::AvxVnni);
            }
            if is_x86_feature_detected!("avx512vnni") && is_x86_feature_detected!("avx512vl") {
                levels.push(Self::Avx512Vnni);
            }
        }
        levels
    }

    /// The fastest level that this processor can run.
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self::Portable)
    }

    /// Multiplies the 32-row panels from `panel` on with the activations of `tokens` tokens into `out`, one panel per `tokens * 32` values.
    pub fn product(self, weight: &Matrix, panel: usize, input: &[Quantised], tokens: usize, out: &mut [f32]) {
        let per_group = weight.columns() / BLOCK;
        assert!(tokens > 0 && input.len() >= per_group * tokens, "the input has one block per token and 32 columns");
        for (i, panel_out) in out.chunks_exact_mut(BLOCK * tokens).enumerate() {
            for g in 0..BLOCK / GROUP {
                let start = ((panel + i) * (BLOCK / GROUP) + g) * per_group;
                match weight {
                    Matrix::Four { blocks, .. } => self.four(&blocks[start..start + per_group], input, tokens, panel_out, g),
                    Matrix::Eight { blocks, .. } => self.eight(&blocks[start..start + per_group], input, tokens, panel_out, g),
                }
            }
        }
    }

    fn four(self, blocks: &[super::Four], input: &[Quantised], tokens: usize, out: &mut [f32], group: usize) {
        match self {
            Self::Portable => portable::four(blocks, input, tokens, out, group),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level exists only where `available` has detected its features; the lengths were checked by `product`.
            Self::Avx2 => unsafe { x86::four_avx2(blocks, input, tokens, out, group) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::AvxVnni => unsafe { x86::four_avx_vnni(blocks, input, tokens, out, group) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Avx512Vnni => unsafe { x86::four_avx512_vnni(blocks, input, tokens, out, group) },
        }
    }

    fn eight(self, blocks: &[super::Eight], input: &[Quantised], tokens: usize, out: &mut [f32], group: usize) {
        match self {
            Self::Portable => portable::eight(blocks, input, tokens, out, group),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: this level exists only where `available` has detected its features; the lengths were checked by `product`.
            Self::Avx2 => unsafe { x86::eight_avx2(blocks, input, tokens, out, group) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::AvxVnni => unsafe { x86::eight_avx_vnni(blocks, input, tokens, out, group) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            Self::Avx512Vnni => unsafe { x86::eight_avx512_vnni(blocks, input, tokens, out, group) },
        }
    }

    /// One query against the first `scores.len()` keys and values of one head; `query` is already scaled.
    pub fn attend(self, query: &[f32], keys: &[f16], values: &[f16], scores: &mut [f32], out: &mut [f32]) {
        let width = query.len();
        assert!(width == out.len() && width.is_multiple_of(BLOCK), "a head is a multiple of 32 wide");
        assert!(keys.len() >= scores.len() * width && values.len() >= scores.len() * width, "every position has a key and a value");
        match self {
            Self::Portable => portable::attend(query, keys, values, scores, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86 level has AVX2, FMA and F16C; the lengths were checked above.
            _ => unsafe { x86::attend(query, keys, values, scores, out) },
        }
    }

    /// Scales each block of `values` by `weight` and its token's `scales` and quantises it, for whole blocks of `tokens` tokens.
    pub fn norm_quantise(self, values: &[f32], weight: &[f32; BLOCK], scales: &[f32], out: &mut [Quantised]) {
        match self {
            Self::Portable => portable::norm_quantise(values, weight, scales, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86 level has AVX2 and FMA; the function is safe code compiled for them.
            _ => unsafe { x86::norm_quantise(values, weight, scales, out) },
        }
    }

    /// Gates `up` by the sigmoid-weighted `gate` and quantises the result.
    pub fn gate_quantise(self, gate: &[f32], up: &[f32], out: &mut [Quantised]) {
        match self {
            Self::Portable => portable::gate_quantise(gate, up, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            _ => unsafe { x86::gate_quantise(gate, up, out) },
        }
    }

    /// Adds a bias to a panel, bends it by the Gaussian error linear unit and quantises the result.
    pub fn gelu_quantise(self, values: &[f32], bias: &[f32; BLOCK], out: &mut [Quantised]) {
        match self {
            Self::Portable => portable::gelu_quantise(values, bias, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86 level has AVX2 and FMA; the function is safe code compiled for them.
            _ => unsafe { x86::gelu_quantise(values, bias, out) },
        }
    }

    /// Adds a bias to each token of a panel.
    pub fn add_bias(self, panel: &mut [f32], bias: &[f32; BLOCK]) {
        match self {
            Self::Portable => portable::add_bias(panel, bias),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            _ => unsafe { x86::add_bias(panel, bias) },
        }
    }

    /// Adds `change` and its bias to the stream, then brings each token to mean 0 and variance 1, times `gain`, plus `shift`. The last
    /// three are as wide as the stream.
    pub fn layer_norm(self, stream: &mut [f32], change: &[f32], bias: &[f32], gain: &[f32], shift: &[f32], epsilon: f32) {
        let width = bias.len();
        assert!(width > 0 && gain.len() == width && shift.len() == width, "bias, gain and shift are as wide as the stream");
        assert!(stream.len() == change.len() && stream.len().is_multiple_of(width), "a change has the size of the stream");
        match self {
            Self::Portable => portable::layer_norm(stream, change, bias, gain, shift, epsilon),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            _ => unsafe { x86::layer_norm(stream, change, bias, gain, shift, epsilon) },
        }
    }

    /// Quantises whole blocks as they are.
    pub fn quantise_all(self, values: &[f32], out: &mut [Quantised]) {
        match self {
            Self::Portable => portable::quantise_all(values, out),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            _ => unsafe { x86::quantise_all(values, out) },
        }
    }

    /// Adds each token's squares of a panel to `sums`.
    pub fn squares(self, panel: &[f32], sums: &mut [f32]) {
        match self {
            Self::Portable => portable::squares(panel, sums),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: as above.
            _ => unsafe { x86::squares(panel, sums) },
        }
    }
}
