//! The structures that host and device share, field by field as in the kernels' sources.

#![allow(missing_docs)]

/// A buffer that every run has its own piece of: address and, in numbers, the distance from one
/// run's piece to the next.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Buffer {
    pub data: u64,
    pub stride: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pairs {
    pub layout: i32,
    pub n: i32,
    pub block_bits: i32,
    pub tiles: i32,
    pub rows: i32,
    pub magic: u32,
    pub shift: i32,
    pub partner: u64,
    pub partner_stride: u64,
}

impl Pairs {
    /// Sets the number of tiles, and what divides by it.
    pub fn with_tiles(self, tiles: usize) -> Self {
        let magic = ((1u64 << 32) / tiles as u64 + 1) as u32;
        Pairs { tiles: tiles as i32, magic, ..self }
    }
}

/// `Pairs::layout`
pub(super) const ALL_PAIRS: i32 = 0;
pub(super) const PAIRED: i32 = 1;
pub(super) const MATRIX: i32 = 2;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Layer {
    pub input: Buffer,
    pub q: Buffer,
    pub weights: Buffer,
    pub bias: Buffer,
    pub packed: Buffer,
    pub output: Buffer,
    pub score_weights: Buffer,
    pub scores: Buffer,
    pub on: Buffer,
    pub rows: i32,
    pub inputs: i32,
    pub outputs: i32,
    pub ld_input: i32,
    pub ld_output: i32,
    pub activated: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WeightGradient {
    pub input: Buffer,
    pub q: Buffer,
    pub gradient: Buffer,
    pub score_weights: Buffer,
    pub last_outputs: Buffer,
    pub weights: Buffer,
    pub bias: Buffer,
    pub result: Buffer,
    pub bias_result: Buffer,
    pub score_result: Buffer,
    pub rows: i32,
    pub inputs: i32,
    pub outputs: i32,
    pub ld_input: i32,
    pub ld_output: i32,
    pub pieces: i32,
    pub parts: i32,
    pub part_stride: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct InputGradient {
    pub gradient: Buffer,
    pub score_weights: Buffer,
    pub outputs: Buffer,
    pub weights: Buffer,
    pub packed: Buffer,
    pub below: Buffer,
    pub q: Buffer,
    pub result: Buffer,
    pub q_result: Buffer,
    pub rows: i32,
    pub inputs: i32,
    pub columns: i32,
    pub ld_input: i32,
    pub ld_output: i32,
    pub part_stride: u64,
}

/// One or two networks, or halves of a layer, that go the same way.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Task<T> {
    pub roles: i32,
    pub pairs: Pairs,
    pub of: [T; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlainProduct {
    pub a: Buffer,
    pub b: Buffer,
    pub result: Buffer,
    pub rows: i32,
    pub columns: i32,
    pub depth: i32,
    pub ld_a: i32,
    pub ld_b: i32,
    pub ld_result: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlainTask {
    pub roles: i32,
    pub of: [PlainProduct; 2],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PairedEmbeddings {
    pub pairs: Pairs,
    pub g: Buffer,
    pub h: Buffer,
    pub scores: Buffer,
    pub gradient: Buffer,
    pub g_result: Buffer,
    pub h_result: Buffer,
    pub width: i32,
    pub ld: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObjectiveSpec {
    pub cost: i32,
    pub divergence: i32,
    pub link: i32,
    pub readout: i32,
    pub alpha: f32,
    pub tau: f32,
    pub readout_tau: f32,
    pub unused: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ObjectiveTask {
    pub pairs: Pairs,
    pub scores: Buffer,
    pub score_bias: Buffer,
    pub gradient: Buffer,
    pub row_log_sums: Buffer,
    pub specs: u64,
    pub partition: u64,
    pub sums: u64,
    pub average: u64,
    pub broken: u64,
    pub bias_gradient: u64,
    pub trace: u64,
    pub score_parts: i32,
    pub blocks: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Section {
    pub first: u64,
    pub parameters: u64,
    pub gradient: Buffer,
    pub forward: Buffer,
    pub backward: Buffer,
    pub rows: i32,
    pub columns: i32,
    pub ld: i32,
    pub pieces: i32,
    pub piece_stride: u64,
}

pub(super) const MOST_SECTIONS: usize = 36;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct AdamTask {
    pub parameters: Buffer,
    pub moments: Buffer,
    pub count: u64,
    pub sections: i32,
    pub step: u32,
    pub bias_at: u64,
    pub base: u64,
    pub learning_rate: f32,
    pub beta1: f32,
    pub beta2: f32,
    pub ln_beta1: f32,
    pub ln_beta2: f32,
    pub epsilon: f32,
    pub decay: f32,
    pub has_score_bias: i32,
    pub objective: ObjectiveTask,
    pub table: [Section; MOST_SECTIONS],
}

pub(super) const MOST_MAPS: usize = 8;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScenarioSpec {
    pub seed: u64,
    pub base: i32,
    pub dim: i32,
    pub pairs: i32,
    pub x_maps: i32,
    pub y_maps: i32,
    pub x_map: [i32; MOST_MAPS],
    pub y_map: [i32; MOST_MAPS],
    pub unused: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SampleTask {
    pub x: Buffer,
    pub y: Buffer,
    pub specs: u64,
    pub levels: u64,
    pub base: u64,
    pub step: u32,
    pub n: i32,
    pub ld_x: i32,
    pub ld_y: i32,
    pub level_count: i32,
    pub per_level: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PartnerTask {
    pub partner: u64,
    pub specs: u64,
    pub base: u64,
    pub n: i32,
    pub runs: i32,
    pub deranged: i32,
    pub in_shared: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AdvanceTask {
    pub base: u64,
    pub steps: u32,
}
