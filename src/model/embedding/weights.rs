use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

use candle_core::{Device, Tensor, safetensors};
use half::{f16, slice::HalfFloatSliceExt};

use singularity_kernel::{BLOCK, Matrix, pack_rows};

use super::error::EmbeddingError;

/// Values of a vector, and of what goes through the layers.
pub(super) const WIDTH: usize = 384;
/// Values inside a layer.
pub(super) const HIDDEN: usize = 1_536;
/// Attention heads, each one block wide.
pub(super) const HEADS: usize = WIDTH / BLOCK;
/// Tokens that the model has places for.
pub(super) const PLACES: usize = 512;
const LAYERS: usize = 6;
/// Tokens that the model knows.
pub(super) const WORDS: usize = 30_522;
/// Files beyond this are not the model.
const MAX_FILE: u64 = 200 << 20;

/// A matrix and what is added to its product.
#[derive(Debug)]
pub(super) struct Linear {
    pub(super) weight: Matrix,
    pub(super) bias: Vec<f32>,
}

/// What a token's values are brought to.
#[derive(Debug)]
pub(super) struct Norm {
    pub(super) gain: Vec<f32>,
    pub(super) shift: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct Layer {
    /// Queries, already divided by the root of a head's width, keys and values.
    pub(super) attention: Linear,
    pub(super) mixed: Linear,
    pub(super) mixed_norm: Norm,
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) norm: Norm,
}

/// The model, its weights packed for the kernels.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) words: Vec<f16>,
    /// A row for each place, that of the only kind of token added.
    pub(super) places: Vec<f32>,
    pub(super) norm: Norm,
    pub(super) layers: Vec<Layer>,
}

/// Reads a safetensors file.
pub(super) fn read(path: &Path) -> Result<Weights, EmbeddingError> {
    let unreadable = |source| EmbeddingError::Unreadable { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    File::open(path).map_err(unreadable)?.take(MAX_FILE).read_to_end(&mut bytes).map_err(unreadable)?;
    let tensors = safetensors::load_buffer(&bytes, &Device::Cpu)
        .map_err(|source| EmbeddingError::NotSafetensors { path: path.to_owned(), source })?;
    drop(bytes);
    Source { path: path.to_owned(), tensors }.weights()
}

struct Source {
    path: PathBuf,
    tensors: HashMap<String, Tensor>,
}

impl Source {
    fn weights(mut self) -> Result<Weights, EmbeddingError> {
        let words = self.floats("embeddings.word_embeddings.weight", &[WORDS, WIDTH])?;
        let mut places = self.floats("embeddings.position_embeddings.weight", &[PLACES, WIDTH])?;
        let kinds = self.floats("embeddings.token_type_embeddings.weight", &[2, WIDTH])?;
        for row in places.chunks_exact_mut(WIDTH) {
            row.iter_mut().zip(&kinds).for_each(|(to, kind)| *to += kind);
        }
        let mut small = vec![f16::ZERO; words.len()];
        small.convert_from_f32_slice(&words);
        let norm = self.norm("embeddings.LayerNorm")?;
        let layers = (0..LAYERS).map(|n| self.layer(n)).collect::<Result<_, _>>()?;
        Ok(Weights { words: small, places, norm, layers })
    }

    fn layer(&mut self, n: usize) -> Result<Layer, EmbeddingError> {
        let at = |part: &str| format!("encoder.layer.{n}.{part}");
        let (mut blocks, mut bias) = (Vec::new(), Vec::new());
        for part in ["query", "key", "value"] {
            let name = at(&format!("attention.self.{part}"));
            let mut weights = self.floats(&format!("{name}.weight"), &[WIDTH, WIDTH])?;
            let mut added = self.floats(&format!("{name}.bias"), &[WIDTH])?;
            if part == "query" {
                weights.iter_mut().chain(&mut added).for_each(|value| *value *= SCALE);
            }
            pack_rows(&weights, WIDTH, &mut blocks);
            bias.extend(added);
        }
        Ok(Layer {
            attention: Linear { weight: Matrix::Eight { columns: WIDTH, blocks }, bias },
            mixed: self.linear(&at("attention.output.dense"), WIDTH, WIDTH)?,
            mixed_norm: self.norm(&at("attention.output.LayerNorm"))?,
            up: self.linear(&at("intermediate.dense"), HIDDEN, WIDTH)?,
            down: self.linear(&at("output.dense"), WIDTH, HIDDEN)?,
            norm: self.norm(&at("output.LayerNorm"))?,
        })
    }

    fn linear(&mut self, name: &str, rows: usize, columns: usize) -> Result<Linear, EmbeddingError> {
        let mut blocks = Vec::new();
        pack_rows(&self.floats(&format!("{name}.weight"), &[rows, columns])?, columns, &mut blocks);
        let bias = self.floats(&format!("{name}.bias"), &[rows])?;
        Ok(Linear { weight: Matrix::Eight { columns, blocks }, bias })
    }

    fn norm(&mut self, name: &str) -> Result<Norm, EmbeddingError> {
        let gain = self.floats(&format!("{name}.weight"), &[WIDTH])?;
        Ok(Norm { gain, shift: self.floats(&format!("{name}.bias"), &[WIDTH])? })
    }

    fn floats(&mut self, name: &str, dims: &[usize]) -> Result<Vec<f32>, EmbeddingError> {
        let unfit = |why: String| EmbeddingError::Unfit { path: self.path.clone(), why };
        let tensor = self.tensors.remove(name).ok_or_else(|| unfit(format!("it has no `{name}`")))?;
        if tensor.dims() != dims {
            return Err(unfit(format!("`{name}` has the shape {:?} instead of {dims:?}", tensor.dims())));
        }
        let flat = tensor.flatten_all().and_then(|tensor| tensor.to_vec1::<f32>());
        flat.map_err(|source| EmbeddingError::NotSafetensors { path: self.path.clone(), source })
    }
}

/// One over the root of a head's width, 32.
const SCALE: f32 = 0.176_776_69;
