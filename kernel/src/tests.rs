#![expect(clippy::as_conversions, reason = "test numbers are small")]

use std::{
    num::NonZeroUsize,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use half::f16;
use proptest::prelude::*;

use super::{portable, *};

/// A small generator, so that cases are the same on every machine.
fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}

fn four(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut next = noise(seed);
    let mut row =
        || (f16::from_f32(next() * 0.01), f16::from_f32(next() * 0.05), std::array::from_fn(|_| (next() * 127.0) as i8 as u8));
    let blocks = (0..rows / GROUP * columns / BLOCK).map(|_| Four::pack(std::array::from_fn(|_| row()))).collect();
    Matrix::Four { columns, blocks }
}

fn eight(rows: usize, columns: usize, seed: u64) -> Matrix {
    let mut next = noise(seed);
    let blocks = (0..rows / GROUP * columns / BLOCK)
        .map(|_| Eight::pack(std::array::from_fn(|_| std::array::from_fn(|_| next()))))
        .collect();
    Matrix::Eight { columns, blocks }
}

/// Activations of some tokens as a panel, and quantised.
fn activations(columns: usize, tokens: usize, seed: u64) -> (Vec<f32>, Vec<Quantised>) {
    let mut next = noise(seed);
    let values: Vec<f32> = (0..columns * tokens).map(|_| next() * 3.0).collect();
    let mut packed = vec![Quantised::ZERO; columns / BLOCK * tokens];
    portable::quantise_all(&values, &mut packed);
    (values, packed)
}

fn close(a: &[f32], b: &[f32], tolerance: f32) {
    let peak = a.iter().fold(1e-6f32, |m, v| m.max(v.abs()));
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance * peak, "{i}: {x} against {y}, peak {peak}");
    }
    assert_eq!(a.len(), b.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_processor_computes_what_the_portable_kernels_compute(seed in any::<u64>(), tokens in 1usize..10, k in 1usize..5, wide in any::<bool>()) {
        let columns = k * BLOCK;
        let weight = if wide { eight(64, columns, seed) } else { four(64, columns, seed) };
        let (_, input) = activations(columns, tokens, seed ^ 7);
        let mut expected = vec![0.0; 64 * tokens];
        Level::Portable.product(&weight, 0, &input, tokens, &mut expected);
        for level in Level::available() {
            let mut out = vec![0.0; 64 * tokens];
            level.product(&weight, 0, &input, tokens, &mut out);
            close(&expected, &out, 1e-5);
        }
    }

    #[test]
    fn a_product_of_packed_values_is_close_to_the_product_in_full_precision(seed in any::<u64>(), tokens in 1usize..6, wide in any::<bool>()) {
        let columns = 96;
        let weight = if wide { eight(32, columns, seed) } else { four(32, columns, seed) };
        let (values, input) = activations(columns, tokens, seed ^ 3);
        let mut out = vec![0.0; 32 * tokens];
        Level::best().product(&weight, 0, &input, tokens, &mut out);
        let mut row = vec![0.0; columns];
        let mut expected = vec![0.0; 32 * tokens];
        for r in 0..32 {
            weight.row(r, &mut row);
            for t in 0..tokens {
                expected[t * BLOCK + r] = (0..columns).map(|k| row[k] * values[(k / BLOCK * tokens + t) * BLOCK + k % BLOCK]).sum();
            }
        }
        close(&expected, &out, 0.03);
    }

    #[test]
    fn attention_weighs_values_by_the_softmax_of_the_scores(seed in any::<u64>(), n in 1usize..40) {
        let width = 64;
        let mut next = noise(seed);
        let query: Vec<f32> = (0..width).map(|_| next()).collect();
        let keys: Vec<f16> = (0..width * n).map(|_| f16::from_f32(next())).collect();
        let values: Vec<f16> = (0..width * n).map(|_| f16::from_f32(next())).collect();
        let dots: Vec<f64> = keys.chunks(width).map(|key| query.iter().zip(key).map(|(q, k)| f64::from(q * k.to_f32())).sum()).collect();
        let total: f64 = dots.iter().map(|d| d.exp()).sum();
        let expected: Vec<f32> = (0..width).map(|i| dots.iter().zip(values.chunks(width)).map(|(d, v)| d.exp() / total * v[i].to_f64()).sum::<f64>() as f32).collect();
        for level in Level::available() {
            let (mut scores, mut out) = (vec![0.0; n], vec![0.0; width]);
            level.attend(&query, &keys, &values, &mut scores, &mut out);
            close(&expected, &out, 1e-4);
        }
    }

    #[test]
    fn the_exponential_is_the_exponential(x in -87.0f32..88.0) {
        let (a, b) = (f64::from(portable::exp(x)), f64::from(x).exp());
        prop_assert!((a / b - 1.0).abs() < 1e-6, "{x}: {a} against {b}");
    }

    #[test]
    fn the_error_function_is_the_error_function(x in -4.0f64..4.0) {
        let step = x / 4_000.0;
        let slope = |k: i32| (-(step * (f64::from(k) + 0.5)).powi(2)).exp();
        let integral = (0..4_000).map(slope).sum::<f64>() * step * std::f64::consts::FRAC_2_SQRT_PI;
        let found = f64::from(portable::erf(x as f32));
        prop_assert!((found - integral).abs() < 1e-6, "{x}: {found} against {integral}");
    }

    #[test]
    fn a_norm_leaves_each_token_with_the_mean_and_spread_it_asks_for(seed in any::<u64>(), tokens in 1usize..9) {
        let columns = 3 * BLOCK;
        let (before, _) = activations(columns, tokens, seed);
        let (change, _) = activations(columns, tokens, seed ^ 1);
        let of = |seed: u64| activations(columns, 1, seed).0;
        let (bias, gain, shift) = (of(seed ^ 2), of(seed ^ 3), of(seed ^ 4));
        let place = |column: usize, token: usize| (column / BLOCK * tokens + token) * BLOCK + column % BLOCK;
        let mut expected = vec![0.0; columns * tokens];
        for token in 0..tokens {
            let row: Vec<f64> = (0..columns).map(|c| f64::from(before[place(c, token)] + change[place(c, token)] + bias[c])).collect();
            let mean = row.iter().sum::<f64>() / columns as f64;
            let spread = (row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64).sqrt();
            for (c, x) in row.iter().enumerate() {
                expected[place(c, token)] = ((x - mean) / spread * f64::from(gain[c]) + f64::from(shift[c])) as f32;
            }
        }
        for level in Level::available() {
            let mut stream = before.clone();
            level.layer_norm(&mut stream, &change, &bias, &gain, &shift, 1e-12);
            close(&expected, &stream, 1e-5);
        }
    }

    #[test]
    fn every_processor_bends_alike(seed in any::<u64>(), tokens in 1usize..9) {
        let (values, _) = activations(BLOCK, tokens, seed);
        let bias: [f32; BLOCK] = std::array::from_fn(|i| i as f32 / 64.0 - 0.2);
        let normal = |x: f32| 0.5 * x * (1.0 + portable::erf(x / 2f32.sqrt()));
        let expected: Vec<f32> = values.iter().zip(bias.iter().cycle()).map(|(x, b)| normal(x + b)).collect();
        for level in Level::available() {
            let mut out = vec![Quantised::ZERO; tokens];
            level.gelu_quantise(&values, &bias, &mut out);
            let bent: Vec<f32> = out.iter().flat_map(|q| q.bytes.map(|b| f32::from(b) * q.scale)).collect();
            close(&expected, &bent, 0.01);
            let mut plain = values.clone();
            level.add_bias(&mut plain, &bias);
            let sums: Vec<f32> = values.iter().zip(bias.iter().cycle()).map(|(x, b)| x + b).collect();
            close(&sums, &plain, 1e-6);
        }
    }

    #[test]
    fn every_processor_norms_and_gates_alike(seed in any::<u64>(), tokens in 1usize..9) {
        let (gate, _) = activations(BLOCK, tokens, seed);
        let (up, _) = activations(BLOCK, tokens, seed ^ 1);
        let weight: [f32; BLOCK] = std::array::from_fn(|i| 0.5 + i as f32 / 64.0);
        let scales = vec![0.7; tokens];
        let run = |level: Level| {
            let (mut a, mut b, mut sums) = (vec![Quantised::ZERO; tokens], vec![Quantised::ZERO; tokens], vec![0.0; tokens]);
            level.norm_quantise(&gate, &weight, &scales, &mut a);
            level.gate_quantise(&gate, &up, &mut b);
            level.squares(&gate, &mut sums);
            let floats = |q: &Quantised| q.bytes.map(|b| f32::from(b) * q.scale).to_vec();
            (a.iter().flat_map(floats).collect::<Vec<_>>(), b.iter().flat_map(floats).collect::<Vec<_>>(), sums)
        };
        let expected = run(Level::Portable);
        for level in Level::available() {
            let got = run(level);
            close(&expected.0, &got.0, 0.01);
            close(&expected.1, &got.1, 0.01);
            close(&expected.2, &got.2, 1e-5);
        }
    }
}

#[test]
fn every_piece_of_work_is_done_once_however_many_help() {
    for threads in 1..5 {
        let mut team = Team::start(NonZeroUsize::new(threads).unwrap()).unwrap();
        for round in 0..2_000 {
            let mut done = vec![0usize; 37];
            let queue = Mutex::new(done.iter_mut());
            team.run(&|| {
                while let Some(slot) = { queue.lock().unwrap().next() } {
                    *slot += round + 1;
                }
            });
            assert_eq!(done, vec![round + 1; 37]);
        }
    }
}

#[test]
fn a_panic_in_a_job_leaves_no_helper_with_a_dangling_job() {
    let mut team = Team::start(NonZeroUsize::new(3).unwrap()).unwrap();
    let runs = AtomicUsize::new(0);
    let caller = std::thread::current().id();
    for _ in 0..50 {
        let broken = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            team.run(&|| {
                runs.fetch_add(1, Ordering::Relaxed);
                if std::thread::current().id() == caller {
                    std::panic::resume_unwind(Box::new("broken"));
                }
            });
        }));
        assert!(broken.is_err());
    }
    team.run(&|| {
        runs.fetch_add(1, Ordering::Relaxed);
    });
    assert!(runs.load(Ordering::Relaxed) >= 51);
}
