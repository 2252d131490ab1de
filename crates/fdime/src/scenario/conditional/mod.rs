//! Distributions of triples (x, y, z) whose conditional mutual information I(X; Y | Z) is known.
//!
//! A [`ConditionalScenario`] is a family with its parameters, followed by one-to-one maps of x, of
//! y and of z. They do not change I(X; Y | Z): given z, x and y are mapped one-to-one, and
//! conditioning on the map of z is conditioning on z.

mod additive;
mod channel;
mod gaussian;
mod joint_gaussian;
mod post_nonlinear;
mod suite;

pub(super) use joint_gaussian::JointGaussian;
pub(super) use post_nonlinear::{Curve, Model, PostNonlinear};
pub use suite::{ConditionalTask, conditional_suite};

use super::numbered;
use super::transform::{Map, mapped_dim};
use crate::data::Column;
use crate::error::Result;
use crate::nats::Nats;
use crate::random::Rng;

/// A family of triples with its parameters: sampler, exact conditional mutual information and log
/// ratio. Rows are [x, y, z].
trait Triples: Send + Sync {
    /// Returns the dimensions of x, y and z.
    fn dims(&self) -> [usize; 3];

    /// Draws one triple into a row whose parts have the right dimensions.
    fn draw(&self, rng: &mut Rng, row: &mut [Vec<f64>; 3]);

    /// Returns I(X; Y | Z) in nats.
    fn information(&self) -> f64;

    /// Returns ln p(x, y | z) / (p(x | z) p(y | z)).
    fn log_ratio(&self, row: &[Vec<f64>; 3]) -> f64;
}

/// A distribution of (x, y, z) with known conditional mutual information.
pub struct ConditionalScenario {
    base: Box<dyn Triples>,
    maps: [Vec<Map>; 3],
    dims: [usize; 3],
}

impl ConditionalScenario {
    /// Applies maps to the three parts of a family.
    fn new(base: Box<dyn Triples>, maps: [Vec<Map>; 3]) -> Result<Self> {
        let mut dims = base.dims();
        for (dim, maps) in dims.iter_mut().zip(&maps) {
            *dim = mapped_dim(maps, *dim)?;
        }
        Ok(ConditionalScenario { base, maps, dims })
    }

    /// Returns the exact I(X; Y | Z).
    pub fn conditional_mutual_information(&self) -> Nats {
        Nats(self.base.information())
    }

    /// Returns the dimensions of x, y and z.
    pub fn dims(&self) -> [usize; 3] {
        self.dims
    }

    /// Draws one triple into `row`, which becomes [x, y, z], and returns its exact log ratio
    /// ln p(x, y | z) / (p(x | z) p(y | z)).
    pub fn draw(&self, rng: &mut Rng, row: &mut [Vec<f64>; 3]) -> f64 {
        for (part, dim) in row.iter_mut().zip(self.base.dims()) {
            part.clear();
            part.resize(dim, 0.0);
        }
        self.base.draw(rng, row);
        let log_ratio = self.base.log_ratio(row);
        for (part, maps) in row.iter_mut().zip(&self.maps) {
            maps.iter().for_each(|map| map.apply(part));
        }
        log_ratio
    }

    /// Draws a table: the columns x1, x2, ..., y1, y2, ... and z1, z2, ...
    pub fn table(&self, rng: &mut Rng, rows: usize) -> [Vec<Column>; 3] {
        let mut parts = self.dims.map(|dim| vec![Vec::with_capacity(rows); dim]);
        let mut row = [const { Vec::new() }; 3];
        for _ in 0..rows {
            self.draw(rng, &mut row);
            for (columns, values) in parts.iter_mut().zip(&row) {
                columns.iter_mut().zip(values).for_each(|(column, value)| column.push(*value));
            }
        }
        let [x, y, z] = parts;
        [numbered("x", x), numbered("y", y), numbered("z", z)]
    }
}
