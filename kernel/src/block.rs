#![expect(clippy::as_conversions, reason = "bit patterns are cut and joined here; every cast is exact or meant to truncate")]
#![expect(clippy::indexing_slicing, reason = "indices are bounded by constants of the block shapes")]

use half::f16;

/// Values per block.
pub const BLOCK: usize = 32;
/// Rows that are interleaved.
pub const GROUP: usize = 8;

/// Thirty-two columns of eight rows, four bits each, with a scale and an offset per row.
///
/// Byte `4 * row + i` of `nibbles[j]` holds column `4 * j + i` low and column `16 + 4 * j + i` high.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(32))]
pub struct Four {
    pub(crate) nibbles: [[u8; 32]; 4],
    pub(crate) scale: [u16; GROUP],
    pub(crate) offset: [u16; GROUP],
}

/// Thirty-two columns of eight rows, eight bits each, with a scale per row.
///
/// Byte `4 * row + i` of `bytes[j]` holds column `4 * j + i`, never −128.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Eight {
    pub(crate) bytes: [[i8; 32]; 8],
    pub(crate) scale: [u16; GROUP],
}

/// A weight matrix: groups of eight rows, each a run of blocks.
#[derive(Debug)]
pub enum Matrix {
    Four { columns: usize, blocks: Vec<Four> },
    Eight { columns: usize, blocks: Vec<Eight> },
}

/// Thirty-two activations in eight bits, their scale and their scaled sum.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Quantised {
    pub(crate) bytes: [i8; BLOCK],
    pub(crate) scale: f32,
    pub(crate) sum: f32,
}

impl Quantised {
    pub const ZERO: Self = Self { bytes: [0; BLOCK], scale: 0.0, sum: 0.0 };
}

/// Adds this to a float below 2²² and its low mantissa bits are the nearest integer.
const MAGIC: f32 = 12_582_912.0;

/// Quantises one block of activations.
#[inline(always)]
pub fn quantise(values: &[f32; BLOCK]) -> Quantised {
    let mut lanes = [0f32; 8];
    for chunk in values.as_chunks::<8>().0 {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = lane.max(value.abs());
        }
    }
    let peak = lanes.iter().fold(0f32, |a, b| a.max(*b));
    let inverse = if peak > 0.0 { 127.0 / peak } else { 0.0 };
    let mut bytes = [0i8; BLOCK];
    let mut sum = 0i32;
    for (byte, value) in bytes.iter_mut().zip(values) {
        *byte = (value * inverse + MAGIC).to_bits() as u8 as i8;
        sum += i32::from(*byte);
    }
    let scale = peak / 127.0;
    Quantised { bytes, scale, sum: scale * sum as f32 }
}

impl Four {
    /// Packs eight rows of (scale, offset, sixteen bytes as in GGUF: low nibbles first half, high nibbles second half).
    pub fn pack(rows: [(f16, f16, [u8; 16]); GROUP]) -> Self {
        let mut block = Self { nibbles: [[0; 32]; 4], scale: [0; GROUP], offset: [0; GROUP] };
        for (r, (scale, offset, bytes)) in rows.iter().enumerate() {
            block.scale[r] = scale.to_bits();
            block.offset[r] = offset.to_bits();
            for (j, four) in bytes.as_chunks::<4>().0.iter().enumerate() {
                block.nibbles[j][4 * r..4 * r + 4].copy_from_slice(four);
            }
        }
        block
    }

    pub(crate) fn row(&self, r: usize) -> [f32; BLOCK] {
        let (scale, offset) = (f16::from_bits(self.scale[r]).to_f32(), f16::from_bits(self.offset[r]).to_f32());
        std::array::from_fn(|k| {
            let byte = self.nibbles[(k % 16) / 4][4 * r + k % 4];
            let nibble = if k < 16 { byte & 15 } else { byte >> 4 };
            f32::from(nibble) * scale + offset
        })
    }
}

impl Eight {
    /// Quantises eight rows of thirty-two values.
    pub fn pack(rows: [[f32; BLOCK]; GROUP]) -> Self {
        let mut block = Self { bytes: [[0; 32]; 8], scale: [0; GROUP] };
        for (r, values) in rows.iter().enumerate() {
            let packed = quantise(values);
            block.scale[r] = f16::from_f32(packed.scale).to_bits();
            for (j, four) in packed.bytes.as_chunks::<4>().0.iter().enumerate() {
                block.bytes[j][4 * r..4 * r + 4].copy_from_slice(four);
            }
        }
        block
    }

    pub(crate) fn row(&self, r: usize) -> [f32; BLOCK] {
        let scale = f16::from_bits(self.scale[r]).to_f32();
        std::array::from_fn(|k| f32::from(self.bytes[k / 4][4 * r + k % 4]) * scale)
    }
}

/// Quantises rows to eight bits and appends them; a last panel of 32 rows that is not full is filled with zeros.
pub fn pack_rows(values: &[f32], columns: usize, blocks: &mut Vec<Eight>) {
    for panel in values.chunks(columns * BLOCK) {
        for g in 0..BLOCK / GROUP {
            for b in 0..columns / BLOCK {
                blocks.push(Eight::pack(std::array::from_fn(|r| {
                    let start = (g * GROUP + r) * columns + b * BLOCK;
                    panel.get(start..start + BLOCK).and_then(|row| <[f32; BLOCK]>::try_from(row).ok()).unwrap_or([0.0; BLOCK])
                })));
            }
        }
    }
}

impl Matrix {
    pub const fn columns(&self) -> usize {
        match self {
            Self::Four { columns, .. } | Self::Eight { columns, .. } => *columns,
        }
    }

    pub const fn rows(&self) -> usize {
        let per_group = self.columns() / BLOCK;
        let blocks = match self {
            Self::Four { blocks, .. } => blocks.len(),
            Self::Eight { blocks, .. } => blocks.len(),
        };
        blocks / per_group * GROUP
    }

    /// Reads one row back in full precision.
    pub fn row(&self, row: usize, out: &mut [f32]) {
        let per_group = self.columns() / BLOCK;
        let start = row / GROUP * per_group;
        for (b, chunk) in out.as_chunks_mut::<BLOCK>().0.iter_mut().take(per_group).enumerate() {
            *chunk = match self {
                Self::Four { blocks, .. } => blocks[start + b].row(row % GROUP),
                Self::Eight { blocks, .. } => blocks[start + b].row(row % GROUP),
            };
        }
    }
}
