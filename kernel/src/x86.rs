//! The kernels for x86-64 with at least AVX2, FMA and F16C; with VNNI the integer products are one instruction.

#![expect(clippy::indexing_slicing, reason = "indices are bounded by constants of the block shapes")]

use std::arch::x86_64::*;

use half::f16;

use super::{BLOCK, Eight, Four, GROUP, Quantised, portable};

/// How a kernel multiplies: `$four` accumulates eight products of nibbles, `$eight` one signed product.
macro_rules! kernels {
    ($features:literal, $four:ident, $four_tile:ident, $eight:ident, $eight_tile:ident, $nibbles:ident, $bytes:ident) => {
        /// # Safety
        /// The processor has the features; `input` has a block per token and block of `blocks`, `out` 32 values per token.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $four(blocks: &[Four], input: &[Quantised], tokens: usize, out: &mut [f32], group: usize) {
            let mut token = 0;
            while token + 4 <= tokens {
                // SAFETY: the caller's promise, and four tokens are left.
                unsafe { $four_tile::<4>(blocks, &input[token..], tokens, &mut out[token * BLOCK + group * GROUP..]) };
                token += 4;
            }
            while token < tokens {
                // SAFETY: the caller's promise, and one token is left.
                unsafe { $four_tile::<1>(blocks, &input[token..], tokens, &mut out[token * BLOCK + group * GROUP..]) };
                token += 1;
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn $four_tile<const N: usize>(blocks: &[Four], input: &[Quantised], stride: usize, out: &mut [f32]) {
            assert!(
                input.len() >= (blocks.len() - 1) * stride + N && out.len() >= (N - 1) * BLOCK + GROUP,
                "a whole tile is there"
            );
            let mask = _mm256_set1_epi8(15);
            let mut sums = [_mm256_setzero_ps(); N];
            for (b, block) in blocks.iter().enumerate() {
                let packed: [__m256i; 4] = std::array::from_fn(|j| load(&block.nibbles[j]));
                let low: [__m256i; 4] = std::array::from_fn(|j| _mm256_and_si256(packed[j], mask));
                let high: [__m256i; 4] = std::array::from_fn(|j| _mm256_and_si256(_mm256_srli_epi16::<4>(packed[j]), mask));
                let (scale, offset) = (halves(&block.scale), halves(&block.offset));
                for (t, sum) in sums.iter_mut().enumerate() {
                    // SAFETY: `b * stride + t` is below the length asserted above.
                    let x = unsafe { input.get_unchecked(b * stride + t) };
                    let dot = _mm256_cvtepi32_ps($nibbles(&low, &high, x));
                    *sum = _mm256_fmadd_ps(dot, _mm256_mul_ps(scale, _mm256_set1_ps(x.scale)), *sum);
                    *sum = _mm256_fmadd_ps(offset, _mm256_set1_ps(x.sum), *sum);
                }
            }
            for (t, sum) in sums.iter().enumerate() {
                store(&mut out[t * BLOCK..], *sum);
            }
        }

        /// # Safety
        /// As for the kernel of four bits.
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $eight(blocks: &[Eight], input: &[Quantised], tokens: usize, out: &mut [f32], group: usize) {
            let mut token = 0;
            while token + 4 <= tokens {
                // SAFETY: the caller's promise, and four tokens are left.
                unsafe { $eight_tile::<4>(blocks, &input[token..], tokens, &mut out[token * BLOCK + group * GROUP..]) };
                token += 4;
            }
            while token < tokens {
                // SAFETY: the caller's promise, and one token is left.
                unsafe { $eight_tile::<1>(blocks, &input[token..], tokens, &mut out[token * BLOCK + group * GROUP..]) };
                token += 1;
            }
        }

        #[target_feature(enable = $features)]
        unsafe fn $eight_tile<const N: usize>(blocks: &[Eight], input: &[Quantised], stride: usize, out: &mut [f32]) {
            assert!(
                input.len() >= (blocks.len() - 1) * stride + N && out.len() >= (N - 1) * BLOCK + GROUP,
                "a whole tile is there"
            );
            let mut sums = [_mm256_setzero_ps(); N];
            for (b, block) in blocks.iter().enumerate() {
                let scale = halves(&block.scale);
                let mut dots = [_mm256_setzero_si256(); N];
                for (j, bytes) in block.bytes.iter().enumerate() {
                    let weight = load(bytes);
                    for (t, dot) in dots.iter_mut().enumerate() {
                        // SAFETY: `b * stride + t` is below the length asserted above.
                        let x = unsafe { input.get_unchecked(b * stride + t) };
                        *dot = $bytes(*dot, weight, spread(x, j));
                    }
                }
                for (t, (sum, dot)) in sums.iter_mut().zip(dots).enumerate() {
                    // SAFETY: as above.
                    let x = unsafe { input.get_unchecked(b * stride + t) };
                    *sum = _mm256_fmadd_ps(_mm256_cvtepi32_ps(dot), _mm256_mul_ps(scale, _mm256_set1_ps(x.scale)), *sum);
                }
            }
            for (t, sum) in sums.iter().enumerate() {
                store(&mut out[t * BLOCK..], *sum);
            }
        }
    };
}

kernels!("avx2,fma,f16c", four_avx2, four_avx2_tile, eight_avx2, eight_avx2_tile, nibbles_avx2, bytes_avx2);
kernels!(
    "avx2,fma,f16c,avxvnni",
    four_avx_vnni,
    four_avx_vnni_tile,
    eight_avx_vnni,
    eight_avx_vnni_tile,
    nibbles_avx_vnni,
    bytes_avx_vnni
);
kernels!(
    "avx2,fma,f16c,avx512vnni,avx512vl",
    four_avx512_vnni,
    four_avx512_vnni_tile,
    eight_avx512_vnni,
    eight_avx512_vnni_tile,
    nibbles_avx512_vnni,
    bytes_avx512_vnni
);

/// Eight products of at most 2 · 15 · 127 fit sixteen bits together, so they are widened once.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn nibbles_avx2(low: &[__m256i; 4], high: &[__m256i; 4], x: &Quantised) -> __m256i {
    let mut sum = _mm256_setzero_si256();
    for (j, weight) in low.iter().chain(high).enumerate() {
        sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(*weight, spread(x, j)));
    }
    _mm256_madd_epi16(sum, _mm256_set1_epi16(1))
}

/// |x| · sign(w, x): neither is −128, so the pairs fit sixteen bits.
#[inline]
#[target_feature(enable = "avx2,fma,f16c")]
fn bytes_avx2(sum: __m256i, weight: __m256i, x: __m256i) -> __m256i {
    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(weight, x));
    _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn nibbles_avx_vnni(low: &[__m256i; 4], high: &[__m256i; 4], x: &Quantised) -> __m256i {
    let mut sum = _mm256_setzero_si256();
    for j in 0..4 {
        sum = _mm256_dpbusd_avx_epi32(sum, low[j], spread(x, j));
        sum = _mm256_dpbusd_avx_epi32(sum, high[j], spread(x, 4 + j));
    }
    sum
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avxvnni")]
fn bytes_avx_vnni(sum: __m256i, weight: __m256i, x: __m256i) -> __m256i {
    _mm256_dpbusd_avx_epi32(sum, _mm256_abs_epi8(x), _mm256_sign_epi8(weight, x))
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
fn nibbles_avx512_vnni(low: &[__m256i; 4], high: &[__m256i; 4], x: &Quantised) -> __m256i {
    let mut sum = _mm256_setzero_si256();
    for j in 0..4 {
        sum = _mm256_dpbusd_epi32(sum, low[j], spread(x, j));
        sum = _mm256_dpbusd_epi32(sum, high[j], spread(x, 4 + j));
    }
    sum
}

#[inline]
#[target_feature(enable = "avx2,fma,f16c,avx512vnni,avx512vl")]
fn bytes_avx512_vnni(sum: __m256i, weight: __m256i, x: __m256i) -> __m256i {
    _mm256_dpbusd_epi32(sum, _mm256_abs_epi8(x), _mm256_sign_epi8(weight, x))
}

/// Four consecutive activations in every lane.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(x: &Quantised, j: usize) -> __m256i {
    _mm256_set1_epi32(i32::from_le_bytes([
        x.bytes[4 * j].cast_unsigned(),
        x.bytes[4 * j + 1].cast_unsigned(),
        x.bytes[4 * j + 2].cast_unsigned(),
        x.bytes[4 * j + 3].cast_unsigned(),
    ]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load<T>(bytes: &[T; 32]) -> __m256i {
    const { assert!(size_of::<T>() == 1, "a vector is thirty-two bytes") };
    // SAFETY: the array is 32 bytes of plain integers; the load needs no alignment.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(bytes).cast()) }
}

#[inline]
#[target_feature(enable = "avx2,f16c")]
fn halves(bits: &[u16; GROUP]) -> __m256 {
    // SAFETY: the array is 16 bytes; the load needs no alignment.
    _mm256_cvtph_ps(unsafe { _mm_loadu_si128(std::ptr::from_ref(bits).cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(out: &mut [f32], values: __m256) {
    let to: &mut [f32] = &mut out[..8];
    // SAFETY: eight values are there.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), values) };
}

/// # Safety
/// The processor has the features; keys and values hold `scores.len()` rows as wide as the query, a multiple of 32.
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) unsafe fn attend(query: &[f32], keys: &[f16], values: &[f16], scores: &mut [f32], out: &mut [f32]) {
    let width = query.len();
    for (n, score) in scores.iter_mut().enumerate() {
        let mut sums = [_mm256_setzero_ps(); 4];
        for i in (0..width).step_by(32) {
            for (s, sum) in sums.iter_mut().enumerate() {
                // SAFETY: `i + 8 * s + 8 <= width`, and row `n` of the keys is there.
                let (q, k) = unsafe {
                    let q = _mm256_loadu_ps(query.as_ptr().add(i + 8 * s));
                    (q, _mm_loadu_si128(keys.as_ptr().add(n * width + i + 8 * s).cast()))
                };
                *sum = _mm256_fmadd_ps(q, _mm256_cvtph_ps(k), *sum);
            }
        }
        *score = total(_mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3])));
    }
    portable::softmax(scores);
    for i in (0..width).step_by(32) {
        let mut sums = [_mm256_setzero_ps(); 4];
        for (n, score) in scores.iter().enumerate() {
            let weight = _mm256_set1_ps(*score);
            for (s, sum) in sums.iter_mut().enumerate() {
                // SAFETY: row `n` of the values is there, and `i + 8 * s + 8 <= width`.
                let v = unsafe { _mm_loadu_si128(values.as_ptr().add(n * width + i + 8 * s).cast()) };
                *sum = _mm256_fmadd_ps(weight, _mm256_cvtph_ps(v), *sum);
            }
        }
        for (s, sum) in sums.iter().enumerate() {
            store(&mut out[i + 8 * s..], *sum);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn total(v: __m256) -> f32 {
    let four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
    let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
}

/// Safe code of `portable`, compiled once more for wide vectors.
macro_rules! widened {
    ($(fn $name:ident($($arg:ident: $type:ty),*);)*) => {$(
        /// # Safety
        /// The processor has AVX2 and FMA.
        #[target_feature(enable = "avx2,fma")]
        pub(crate) unsafe fn $name($($arg: $type),*) {
            portable::$name($($arg),*);
        }
    )*};
}

widened! {
    fn norm_quantise(values: &[f32], weight: &[f32; BLOCK], scales: &[f32], out: &mut [Quantised]);
    fn gate_quantise(gate: &[f32], up: &[f32], out: &mut [Quantised]);
    fn gelu_quantise(values: &[f32], bias: &[f32; BLOCK], out: &mut [Quantised]);
    fn add_bias(panel: &mut [f32], bias: &[f32; BLOCK]);
    fn layer_norm(stream: &mut [f32], change: &[f32], bias: &[f32], gain: &[f32], shift: &[f32], epsilon: f32);
    fn quantise_all(values: &[f32], out: &mut [Quantised]);
    fn squares(panel: &[f32], sums: &mut [f32]);
}
