//! Trainings of small networks by one thread block each (small.cu): many of them keep the GPU busy, and
//! their activations never leave the multiprocessor.

use super::abi::{PAIRED, SmallTask};
use super::kernels::Precision;
use super::network::Network;
use super::program::{Launch, Needs, Program};

/// A kernel for networks of these sizes.
struct SmallKernel {
    name: &'static str,
    hidden: &'static [usize],
    max_inputs: usize,
    /// The number of rows that are computed at a time.
    rows: usize,
    warps: usize,
}

/// The kernels, each before those for more inputs.
const KERNELS: [SmallKernel; 6] = [
    SmallKernel { name: "2x96_16", hidden: &[96, 96], max_inputs: 16, rows: 64, warps: 8 },
    SmallKernel { name: "2x96_48", hidden: &[96, 96], max_inputs: 48, rows: 64, warps: 8 },
    SmallKernel { name: "3x96_16", hidden: &[96, 96, 96], max_inputs: 16, rows: 64, warps: 8 },
    SmallKernel { name: "3x96_48", hidden: &[96, 96, 96], max_inputs: 48, rows: 64, warps: 8 },
    SmallKernel { name: "3x128_16", hidden: &[128, 128, 128], max_inputs: 16, rows: 32, warps: 16 },
    SmallKernel { name: "3x128_48", hidden: &[128, 128, 128], max_inputs: 48, rows: 32, warps: 16 },
];

/// The maximum number of rows in a step, and of columns of the reference.
const MAX_ROWS: usize = 1024;
const MAX_REFERENCE: usize = 8;

impl SmallKernel {
    /// Returns the bytes of shared memory for `n` rows in a step, as the kernel lays it out.
    fn shared(&self, n: usize) -> usize {
        let (layers, width) = (self.hidden.len(), self.hidden[0]);
        let weights = (self.max_inputs + (layers - 1) * width) * (width + 4) + (layers + 1) * width;
        let activations = self.rows * (self.max_inputs + 4 + layers * (width + 4));
        let column_groups = self.warps / (self.rows / 16);
        4 * (weights + activations + (column_groups + 2) * self.rows + 4 * n)
    }
}

impl Program {
    /// Returns the kernel that executes the next `steps` steps of all runs, or `None` if the other
    /// kernels are faster or this one does not support the network.
    pub(super) fn train_small(&self, steps: usize) -> Option<Launch> {
        let (shape, tiling, tables) = (&self.shape, &self.tiling, self.tables.as_ref()?);
        let Network::Rows(network) = self.network() else { return None };
        let fits = tiling.precision == Precision::Tf32
            && self.needs == Needs::default()
            && network.layout() == PAIRED
            && shape.n <= MAX_ROWS
            && tables.reference_width() <= MAX_REFERENCE
            && 2 * tiling.runs >= tiling.multiprocessors;
        let inputs = shape.dims.0 + shape.dims.1;
        let is_for = |kernel: &&SmallKernel| {
            kernel.hidden == shape.critic.hidden
                && inputs <= kernel.max_inputs
                && kernel.shared(shape.n) <= tiling.shared_limit
        };
        let kernel = KERNELS.iter().filter(|_| fits).find(is_for)?;
        let (mut parameters_at, mut moments_at, mut first) = ([0; 8], [0; 8], 0);
        for (place, block) in self.blocks().iter().enumerate() {
            (parameters_at[place], moments_at[place]) = (block.at as u64, first);
            first += (block.rows * block.columns) as u64;
        }
        let task = SmallTask {
            table: self.table_task(tables, 0),
            objective: self.objective,
            dropout: self.dropout(0),
            parameters: self.parameters,
            moments: self.moments,
            rates: self.adam_rates(),
            parameters_at,
            moments_at,
            bias_at: self.score_bias()? as u64,
            count: self.parameter_count() as u64,
            partner_step: (2 * shape.n * tiling.runs) as u64,
            steps: steps as i32,
            padding: 0,
        };
        let (threads, shared) = (32 * kernel.warps as u32, kernel.shared(shape.n) as u32);
        let name = format!("train_small_{}", kernel.name);
        Some(Launch::new(name, (tiling.runs, 1, 1), threads, shared, &task))
    }
}
