#![expect(clippy::as_conversions, reason = "floats of the file's metadata are narrowed on purpose")]

use std::{
    fs::File,
    io::{Cursor, Read},
    num::NonZeroUsize,
    path::Path,
    thread,
};

use candle_core::{
    Device,
    quantized::{
        GgmlDType, QTensor,
        gguf_file::{Content, Value},
    },
};
use half::f16;

use singularity_kernel::{BLOCK, Four, GROUP, Matrix, pack_rows};

use super::error::EmbeddedError;

/// Files beyond this are not weights for this engine.
const MAX_FILE: u64 = 16 << 30;

/// The numbers that shape a llama model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shape {
    pub(super) layers: usize,
    pub(super) context: usize,
    pub(super) width: usize,
    pub(super) hidden: usize,
    pub(super) heads: usize,
    pub(super) key_heads: usize,
    pub(super) head_width: usize,
    pub(super) vocabulary: usize,
    pub(super) rope_base: f32,
    pub(super) epsilon: f32,
}

/// One transformer layer; weights that read the same input are one matrix.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    pub(super) query_key_value: Matrix,
    pub(super) output: Matrix,
    pub(super) feed_norm: Vec<f32>,
    pub(super) gate_up: Matrix,
    pub(super) down: Matrix,
}

/// A llama model, its weights packed for the kernels.
#[derive(Debug)]
pub(super) struct Weights {
    pub(super) name: String,
    pub(super) shape: Shape,
    pub(super) embedding: Matrix,
    pub(super) layers: Vec<Layer>,
    pub(super) norm: Vec<f32>,
    /// Absent when the embedding serves as the head too.
    pub(super) head: Option<Matrix>,
}

impl Weights {
    pub(super) fn head(&self) -> &Matrix {
        self.head.as_ref().unwrap_or(&self.embedding)
    }
}

/// Reads a GGUF file: its metadata and its weights.
pub(super) fn read(path: &Path, threads: NonZeroUsize) -> Result<(Content, Weights), EmbeddedError> {
    let unreadable = |source| EmbeddedError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    if size > MAX_FILE {
        return Err(EmbeddedError::Unfit { path: path.to_owned(), why: format!("it has {size} bytes, more than {MAX_FILE}") });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    file.take(MAX_FILE).read_to_end(&mut bytes).map_err(unreadable)?;
    let not_gguf = |source| EmbeddedError::NotGguf { path: path.to_owned(), source };
    let content = Content::read(&mut Cursor::new(&bytes)).map_err(not_gguf)?;
    let source = Source { path, content: &content, bytes: &bytes };
    let weights = source.weights(threads)?;
    Ok((content, weights))
}

struct Source<'a> {
    path: &'a Path,
    content: &'a Content,
    bytes: &'a [u8],
}

impl Source<'_> {
    fn unfit(&self, why: impl Into<String>) -> EmbeddedError {
        EmbeddedError::Unfit { path: self.path.to_owned(), why: why.into() }
    }

    fn value(&self, key: &str) -> Result<&Value, EmbeddedError> {
        self.content.metadata.get(key).ok_or_else(|| self.unfit(format!("it does not say `{key}`")))
    }

    fn count(&self, key: &str) -> Result<usize, EmbeddedError> {
        let number = self.value(key)?.to_u32().ok().and_then(|n| usize::try_from(n).ok());
        number.filter(|n| (1..=1 << 24).contains(n)).ok_or_else(|| self.unfit(format!("`{key}` is not a sensible count")))
    }

    fn float(&self, key: &str) -> Result<f32, EmbeddedError> {
        let value = self.value(key)?.to_f32().map_err(|_| self.unfit(format!("`{key}` is not a number")))?;
        if value.is_finite() && value > 0.0 { Ok(value) } else { Err(self.unfit(format!("`{key}` is not positive"))) }
    }

    fn shape(&self) -> Result<Shape, EmbeddedError> {
        let architecture = self.value("general.architecture")?.to_string().cloned().unwrap_or_default();
        if architecture != "llama" {
            return Err(self.unfit(format!("its architecture is `{architecture}`; only `llama` is built in")));
        }
        if self.content.metadata.contains_key("llama.rope.scaling.type")
            || self.content.tensor_infos.contains_key("rope_freqs.weight")
        {
            return Err(self.unfit("it scales its rotary positions, which is not built in"));
        }
        let (width, heads) = (self.count("llama.embedding_length")?, self.count("llama.attention.head_count")?);
        let head_width = width / heads;
        let embedding =
            self.content.tensor_infos.get("token_embd.weight").ok_or_else(|| self.unfit("it has no `token_embd.weight`"))?;
        let shape = Shape {
            layers: self.count("llama.block_count")?,
            context: self.count("llama.context_length")?,
            width,
            hidden: self.count("llama.feed_forward_length")?,
            heads,
            key_heads: self.count("llama.attention.head_count_kv").unwrap_or(heads),
            head_width,
            vocabulary: embedding.shape.dims().first().copied().unwrap_or(0),
            rope_base: self.float("llama.rope.freq_base").unwrap_or(10_000.0),
            epsilon: self.float("llama.attention.layer_norm_rms_epsilon")?,
        };
        let rotated = self.count("llama.rope.dimension_count").unwrap_or(head_width);
        let whole = [width, shape.hidden, head_width].iter().all(|n| n.is_multiple_of(BLOCK));
        if !whole || head_width * heads != width || !heads.is_multiple_of(shape.key_heads) || rotated != head_width {
            return Err(self.unfit("its widths are not multiples of 32, or its heads do not divide them"));
        }
        Ok(shape)
    }

    fn weights(&self, threads: NonZeroUsize) -> Result<Weights, EmbeddedError> {
        let shape = self.shape()?;
        let embedding = self.matrix(&[("token_embd.weight".into(), shape.vocabulary)], shape.width)?;
        let head = match self.content.tensor_infos.contains_key("output.weight") {
            true => Some(self.matrix(&[("output.weight".into(), shape.vocabulary)], shape.width)?),
            false => None,
        };
        let norm = self.vector("output_norm.weight", shape.width)?;
        let layers = self.layers(&shape, threads)?;
        let named = self.content.metadata.get("general.name").and_then(|name| name.to_string().ok()).cloned();
        let stem = || self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Weights { name: named.unwrap_or_else(stem), shape, embedding, layers, norm, head })
    }

    fn layers(&self, shape: &Shape, threads: NonZeroUsize) -> Result<Vec<Layer>, EmbeddedError> {
        let numbers: Vec<usize> = (0..shape.layers).collect();
        let share = numbers.len().div_ceil(threads.get()).max(1);
        let parts: Vec<Result<Vec<Layer>, EmbeddedError>> = thread::scope(|scope| {
            let part = |part: &[usize]| part.iter().map(|n| self.layer(shape, *n)).collect();
            let running: Vec<_> = numbers.chunks(share).map(|chunk| scope.spawn(move || part(chunk))).collect();
            let panicked = || Err(self.unfit("its weights could not be packed"));
            running.into_iter().map(|handle| handle.join().unwrap_or_else(|_| panicked())).collect()
        });
        let mut layers = Vec::with_capacity(shape.layers);
        for part in parts {
            layers.extend(part?);
        }
        Ok(layers)
    }

    fn layer(&self, shape: &Shape, n: usize) -> Result<Layer, EmbeddedError> {
        let name = |part: &str| format!("blk.{n}.{part}.weight");
        let keys = shape.key_heads * shape.head_width;
        let attention = [(name("attn_q"), shape.width), (name("attn_k"), keys), (name("attn_v"), keys)];
        Ok(Layer {
            attention_norm: self.vector(&name("attn_norm"), shape.width)?,
            query_key_value: self.matrix(&attention, shape.width)?,
            output: self.matrix(&[(name("attn_output"), shape.width)], shape.width)?,
            feed_norm: self.vector(&name("ffn_norm"), shape.width)?,
            gate_up: self.matrix(&[(name("ffn_gate"), shape.hidden), (name("ffn_up"), shape.hidden)], shape.width)?,
            down: self.matrix(&[(name("ffn_down"), shape.width)], shape.hidden)?,
        })
    }

    fn tensor(&self, name: &str, dims: &[usize]) -> Result<QTensor, EmbeddedError> {
        let broken = |source| EmbeddedError::NotGguf { path: self.path.to_owned(), source };
        let known = self.content.tensor_infos.get(name).ok_or_else(|| self.unfit(format!("it has no `{name}`")))?;
        if known.shape.dims() != dims {
            return Err(self.unfit(format!("`{name}` has the shape {:?} instead of {dims:?}", known.shape.dims())));
        }
        self.content.tensor(&mut Cursor::new(self.bytes), name, &Device::Cpu).map_err(broken)
    }

    fn floats(&self, tensor: &QTensor) -> Result<Vec<f32>, EmbeddedError> {
        let flat = tensor.dequantize(&Device::Cpu).and_then(|t| t.flatten_all()).and_then(|t| t.to_vec1::<f32>());
        flat.map_err(|source| EmbeddedError::NotGguf { path: self.path.to_owned(), source })
    }

    fn vector(&self, name: &str, length: usize) -> Result<Vec<f32>, EmbeddedError> {
        self.floats(&self.tensor(name, &[length])?)
    }

    /// Stacks tensors of the same width into one matrix: four bits where all are kept in four bits, else eight.
    fn matrix(&self, parts: &[(String, usize)], columns: usize) -> Result<Matrix, EmbeddedError> {
        let load = |(name, rows): &(String, usize)| self.tensor(name, &[*rows, columns]);
        let tensors = parts.iter().map(load).collect::<Result<Vec<_>, _>>()?;
        let four = tensors.iter().all(|tensor| matches!(tensor.dtype(), GgmlDType::Q4_0 | GgmlDType::Q4_1));
        if four && parts.iter().all(|(_, rows)| rows.is_multiple_of(BLOCK)) {
            let mut blocks = Vec::new();
            for tensor in &tensors {
                let data = tensor.data().map_err(|source| EmbeddedError::NotGguf { path: self.path.to_owned(), source })?;
                pack_four(&data, tensor.dtype(), columns, &mut blocks);
            }
            return Ok(Matrix::Four { columns, blocks });
        }
        let mut blocks = Vec::new();
        for tensor in &tensors {
            pack_rows(&self.floats(tensor)?, columns, &mut blocks);
        }
        Ok(Matrix::Eight { columns, blocks })
    }
}

/// Interleaves rows of Q4_0 or Q4_1 blocks; nothing is rounded.
fn pack_four(data: &[u8], kind: GgmlDType, columns: usize, blocks: &mut Vec<Four>) {
    let size = kind.type_size();
    let per_row = columns / BLOCK;
    let half = |bytes: &[u8], at: usize| {
        let pair = bytes.get(at..at + 2).and_then(|pair| <[u8; 2]>::try_from(pair).ok());
        f16::from_le_bytes(pair.unwrap_or_default())
    };
    for group in data.chunks_exact(size * per_row * GROUP) {
        for b in 0..per_row {
            blocks.push(Four::pack(std::array::from_fn(|r| {
                let start = (r * per_row + b) * size;
                let block = group.get(start..start + size).unwrap_or_default();
                let scale = half(block, 0);
                let offset = if kind == GgmlDType::Q4_1 { half(block, 2) } else { f16::from_f32(scale.to_f32() * -8.0) };
                let nibbles = block.last_chunk::<16>().copied().unwrap_or_default();
                (scale, offset, nibbles)
            })));
        }
    }
}

/// The frequencies by which a head's pairs turn per position.
pub(super) fn frequencies(shape: &Shape) -> Vec<f64> {
    let width = shape.head_width as f64;
    (0..shape.head_width / 2).map(|i| f64::from(shape.rope_base).powf(-2.0 * i as f64 / width)).collect()
}
