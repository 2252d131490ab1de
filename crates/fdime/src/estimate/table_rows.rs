//! Rows of a table as the samples of a training.

use super::inputs::InputMap;
use super::progress::{Progress, check};
use crate::critic::{Batch, Inputs, Reference};
use crate::data::Column;
use crate::error::Result;
use crate::parallel::Workers;
use crate::random::{Purpose, stream};
use crate::train::{BatchSource, Batches, HeldOut, TableSource};
use rand::seq::SliceRandom;

/// The rows that a critic is trained on, and the rows that its parameters are selected on.
pub(super) struct TableRows<'a> {
    pub(super) x: &'a [Column],
    pub(super) y: &'a [Column],
    /// The maps from columns to the critic's inputs.
    pub(super) map: InputMap,
    pub(super) train: Vec<u32>,
    pub(super) validation: Vec<u32>,
    pub(super) progress: &'a dyn Progress,
}

impl BatchSource for TableRows<'_> {
    fn dims(&self) -> (usize, usize) {
        self.map.dims()
    }

    /// Inputs are computed here, so that only the trainings that are running take memory for them.
    fn open(&self) -> Box<dyn Batches + '_> {
        let rows = self.train.len() + self.validation.len();
        let (inputs, validation) = match self.inputs() {
            Ok(inputs) => (inputs, self.train.len() as u32..rows as u32),
            // An interrupted training ends after its first step, whatever its inputs are.
            Err(_) => (zeros(self.dims(), rows), 0..0),
        };
        Box::new(Epochs {
            inputs,
            order: (0..self.train.len() as u32).collect(),
            next: self.train.len(),
            validation,
        })
    }

    fn table(&self) -> Option<&dyn TableSource> {
        Some(self)
    }
}

impl TableSource for TableRows<'_> {
    fn training_rows(&self) -> usize {
        self.train.len()
    }

    fn held_out_rows(&self) -> usize {
        self.validation.len()
    }

    fn inputs(&self) -> Result<Inputs> {
        let rows = [self.train.as_slice(), &self.validation].concat();
        self.map.apply_checked(self.x, self.y, &rows, &|| check(self.progress))
    }
}

fn zeros(dims: (usize, usize), rows: usize) -> Inputs {
    let (x, y) = (vec![0.0; rows * dims.0], vec![0.0; rows * dims.1]);
    Inputs { dims, x, y, reference: Reference::default() }
}

/// Every training row once in an epoch, in random order.
struct Epochs {
    inputs: Inputs,
    order: Vec<u32>,
    /// The position in `order` where the next batch starts.
    next: usize,
    validation: std::ops::Range<u32>,
}

impl Batches for Epochs {
    fn fill(&mut self, seed: u64, step: u64, batch: &mut Batch, _workers: &mut Workers) {
        let n = batch.n;
        if self.next + n > self.order.len() {
            self.order.shuffle(&mut stream(seed, Purpose::Rows, step, 0));
            self.next = 0;
        }
        let rows = &self.order[self.next..self.next + n];
        self.next += n;
        let Inputs { dims, x, y, reference } = &self.inputs;
        gather(x, dims.0, rows, &mut batch.x);
        gather(y, dims.1, rows, &mut batch.y);
        let width = reference.width;
        if width > 0 {
            batch.reference.width = width;
            batch.reference.x.resize(n * width, 0.0);
            batch.reference.y.resize(n * width, 0.0);
            gather(&reference.x, width, rows, &mut batch.reference.x);
            gather(&reference.y, width, rows, &mut batch.reference.y);
        }
    }

    fn held_out(&self) -> Option<HeldOut<'_>> {
        Some(HeldOut { inputs: &self.inputs, rows: self.validation.clone() })
    }
}

/// Copies rows of `width` numbers.
fn gather(from: &[f32], width: usize, rows: &[u32], to: &mut [f32]) {
    for (to, &row) in to.chunks_exact_mut(width).zip(rows) {
        to.copy_from_slice(&from[row as usize * width..][..width]);
    }
}
