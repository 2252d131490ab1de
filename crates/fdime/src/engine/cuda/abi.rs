//! The structures that host and kernels share, with the names and fields of the kernels' sources.

#![allow(missing_docs)]

use bytemuck::{Pod, Zeroable};
use std::mem::offset_of;

/// Defines the shared structures as plain data without implicit padding (`Pod` checks it), and
/// [`layout_checks`] over all of them. A field called `padding` fills a gap that the C++ compiler
/// leaves by itself.
macro_rules! shared {
    ($($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Pod, Zeroable)]
            pub(super) struct $name { $(pub $field: $type,)* }

            impl Default for $name {
                fn default() -> Self {
                    Zeroable::zeroed()
                }
            }
        )*

        /// Returns C++ assertions that the kernels lay out every structure as the host does.
        pub(super) fn layout_checks() -> String {
            let mut checks = String::new();
            $(
                let size = size_of::<$name>();
                checks += &check(&format!("sizeof({})", stringify!($name)), size);
                $(
                    if stringify!($field) != "padding" {
                        // What `offsetof` stands for in every version of NVRTC.
                        let field = concat!(stringify!($name), "*)0)->", stringify!($field));
                        let offset = offset_of!($name, $field);
                        checks += &check(&format!("__INTADDR__(&((({field}))"), offset);
                    }
                )*
            )*
            checks
        }
    };
}

fn check(expression: &str, value: usize) -> String {
    format!("static_assert({expression} == {value}, \"abi.rs: {expression}\");\n")
}

/// The largest number of parameter blocks: of 8 hidden layers and an embedding, in two networks,
/// each with weights and bias.
pub(super) const MAX_SECTIONS: usize = 4 * (MAX_HIDDEN_LAYERS + 1);
pub(super) const MAX_HIDDEN_LAYERS: usize = 8;
pub(super) const MAX_MAPS: usize = 8;

/// Values of `Pairs::layout`.
pub(super) const ALL_PAIRS: i32 = 0;
pub(super) const PAIRED: i32 = 1;
pub(super) const MATRIX: i32 = 2;

shared! {
    /// An array of numbers for every run: the address of the first run's array, and the distance
    /// from one array to the next, in numbers.
    struct Buffer {
        data: u64,
        stride: u64,
    }

    struct Pairs {
        layout: i32,
        n: i32,
        block_bits: i32,
        tiles: i32,
        rows: i32,
        magic: u32,
        shift: i32,
        padding: u32,
        partner: u64,
        partner_stride: u64,
    }

    struct Dropout {
        specs: u64,
        base: u64,
        step: u32,
        layer: u32,
        dropped: u32,
        scale: f32,
    }

    struct Layer {
        input: Buffer,
        q: Buffer,
        weights: Buffer,
        bias: Buffer,
        packed: Buffer,
        output: Buffer,
        score_weights: Buffer,
        scores: Buffer,
        on: Buffer,
        dropout: Dropout,
        rows: i32,
        inputs: i32,
        outputs: i32,
        ld_input: i32,
        ld_output: i32,
        activated: i32,
    }

    struct WeightGradient {
        input: Buffer,
        q: Buffer,
        gradient: Buffer,
        score_weights: Buffer,
        last_outputs: Buffer,
        weights: Buffer,
        bias: Buffer,
        result: Buffer,
        bias_result: Buffer,
        score_result: Buffer,
        rows: i32,
        inputs: i32,
        outputs: i32,
        ld_input: i32,
        ld_output: i32,
        pieces: i32,
        parts: i32,
        scale: f32,
        part_stride: u64,
    }

    struct InputGradient {
        gradient: Buffer,
        score_weights: Buffer,
        outputs: Buffer,
        weights: Buffer,
        packed: Buffer,
        below: Buffer,
        q: Buffer,
        result: Buffer,
        q_result: Buffer,
        rows: i32,
        inputs: i32,
        columns: i32,
        ld_input: i32,
        ld_output: i32,
        scale: f32,
        part_stride: u64,
    }

    /// The z dimension of a kernel's grid: runs x roles. The roles are one or two networks, or
    /// halves of a layer, that are computed in the same way.
    struct Grid {
        roles: i32,
    }

    struct LayerTask {
        grid: Grid,
        padding: u32,
        pairs: Pairs,
        roles: [Layer; 2],
    }

    struct WeightGradientTask {
        grid: Grid,
        padding: u32,
        pairs: Pairs,
        roles: [WeightGradient; 2],
    }

    struct InputGradientTask {
        grid: Grid,
        padding: u32,
        pairs: Pairs,
        roles: [InputGradient; 2],
    }

    struct PlainProduct {
        a: Buffer,
        b: Buffer,
        result: Buffer,
        rows: i32,
        columns: i32,
        depth: i32,
        ld_a: i32,
        ld_b: i32,
        ld_result: i32,
    }

    struct PlainTask {
        grid: Grid,
        padding: u32,
        roles: [PlainProduct; 2],
    }

    struct PairedEmbeddings {
        pairs: Pairs,
        g: Buffer,
        h: Buffer,
        scores: Buffer,
        gradient: Buffer,
        g_result: Buffer,
        h_result: Buffer,
        width: i32,
        ld: i32,
    }

    struct WindowTask {
        pairs: Pairs,
        x: Buffer,
        y: Buffer,
        windows: Buffer,
        gradient: Buffer,
        side: i32,
        places: i32,
        channels: i32,
        x_channels: i32,
        ld_x: i32,
        ld_y: i32,
        ld_windows: i32,
        padding: u32,
    }

    struct ObjectiveSpec {
        cost: i32,
        divergence: i32,
        link: i32,
        readout: i32,
        alpha: f32,
        tau: f32,
        readout_tau: f32,
        padding: u32,
    }

    struct ObjectiveTask {
        pairs: Pairs,
        scores: Buffer,
        score_bias: Buffer,
        gradient: Buffer,
        row_log_sums: Buffer,
        column_log_sums: Buffer,
        specs: u64,
        partition: u64,
        sums: u64,
        average: u64,
        broken: u64,
        bias_gradient: u64,
        trace: u64,
        score_parts: i32,
        blocks: i32,
        gradient_scale: f32,
        padding: u32,
    }

    struct Section {
        first: u64,
        parameters: u64,
        gradient: Buffer,
        forward: Buffer,
        backward: Buffer,
        rows: i32,
        columns: i32,
        ld: i32,
        pieces: i32,
        piece_stride: u64,
    }

    struct AdamRates {
        learning_rate: f32,
        total_steps: f32,
        warm_up_steps: f32,
        beta1: f32,
        beta2: f32,
        ln_beta1: f32,
        ln_beta2: f32,
        epsilon: f32,
        decay: f32,
        padding: u32,
    }

    struct AdamTask {
        parameters: Buffer,
        moments: Buffer,
        count: u64,
        sections: i32,
        step: u32,
        bias_at: u64,
        base: u64,
        rates: AdamRates,
        has_score_bias: i32,
        padding: u32,
        objective: ObjectiveTask,
        table: [Section; MAX_SECTIONS],
    }

    struct ScenarioSpec {
        seed: u64,
        base: i32,
        dim: i32,
        pairs: i32,
        x_maps: i32,
        y_maps: i32,
        x_map: [i32; MAX_MAPS],
        y_map: [i32; MAX_MAPS],
        padding: u32,
    }

    struct SampleTask {
        x: Buffer,
        y: Buffer,
        specs: u64,
        levels: u64,
        base: u64,
        step: u32,
        n: i32,
        ld_x: i32,
        ld_y: i32,
        level_count: i32,
        per_level: i32,
    }

    struct SelectTask {
        all_x: Buffer,
        all_y: Buffer,
        x: Buffer,
        y: Buffer,
        columns: u64,
        n: i32,
        all_x_dim: i32,
        all_ld_x: i32,
        all_ld_y: i32,
        x_dim: i32,
        y_dim: i32,
        ld_x: i32,
        ld_y: i32,
    }

    struct ImageTask {
        x: Buffer,
        y: Buffer,
        specs: u64,
        base: u64,
        images: u64,
        columns: u64,
        step: u32,
        n: i32,
        count: i32,
        pixels: i32,
        x_dim: i32,
        y_dim: i32,
        ld_x: i32,
        ld_y: i32,
    }

    struct TableSpec {
        train: u32,
        held_out: u32,
        listed: u32,
        padding: u32,
        first_listed: u64,
    }

    struct TableTask {
        pairs: Pairs,
        table: Buffer,
        inputs: Buffer,
        x: Buffer,
        y: Buffer,
        u: Buffer,
        v: Buffer,
        reference: Buffer,
        tables: u64,
        specs: u64,
        base: u64,
        listed: u64,
        step: u32,
        rows: i32,
        first: i32,
        x_dim: i32,
        y_dim: i32,
        width: i32,
        ld_table: i32,
        ld_inputs: i32,
        ld_x: i32,
        ld_y: i32,
        ld_reference: i32,
        padding: u32,
    }

    struct ListedScoresTask {
        table: TableTask,
        parts: Buffer,
        g: Buffer,
        h: Buffer,
        bias: Buffer,
        scores: Buffer,
        part_count: i32,
        part_stride: i32,
        embedding: i32,
        padding: u32,
    }

    struct HeldOutTask {
        table: TableTask,
        g: Buffer,
        h: Buffer,
        values: Buffer,
        embedding: i32,
        padding: u32,
    }

    struct SelectedTask {
        to: Buffer,
        checks: u64,
        selected: u64,
        check_stride: u64,
    }

    struct SmallTask {
        table: TableTask,
        objective: ObjectiveTask,
        dropout: Dropout,
        parameters: Buffer,
        moments: Buffer,
        rates: AdamRates,
        parameters_at: [u64; 8],
        moments_at: [u64; 8],
        bias_at: u64,
        count: u64,
        partner_step: u64,
        steps: i32,
        padding: u32,
    }

    struct ClassifierSpec {
        component: i32,
        sign: f32,
        adds_entropy: i32,
        padding: u32,
    }

    struct ClassifierTask {
        x: Buffer,
        labels: Buffer,
        logits: Buffer,
        specs: u64,
        sums: u64,
        n: i32,
        bins: i32,
        ld_x: i32,
        ld: i32,
    }

    struct PartnerTask {
        partner: u64,
        specs: u64,
        base: u64,
        n: i32,
        runs: i32,
        deranged: i32,
        in_shared: i32,
    }

    struct AdvanceTask {
        base: u64,
        steps: u32,
        padding: u32,
    }
}

impl Pairs {
    /// Sets the number of tiles and the factor that divides by it.
    pub fn with_tiles(self, tiles: usize) -> Self {
        let magic = ((1u64 << 32) / tiles as u64 + 1) as u32;
        Pairs { tiles: tiles as i32, magic, ..self }
    }
}

/// Defines constructors for tasks with one and with two roles.
macro_rules! role_constructors {
    ($($task:ident($role:ident),)*) => {
        $(impl $task {
            pub fn single(pairs: Pairs, role: $role) -> Self {
                let roles = [role, $role::default()];
                $task { grid: Grid { roles: 1 }, pairs, roles, padding: 0 }
            }

            pub fn double(pairs: Pairs, roles: [$role; 2]) -> Self {
                $task { grid: Grid { roles: 2 }, pairs, roles, padding: 0 }
            }
        })*
    };
}

role_constructors! {
    LayerTask(Layer),
    WeightGradientTask(WeightGradient),
    InputGradientTask(InputGradient),
}
