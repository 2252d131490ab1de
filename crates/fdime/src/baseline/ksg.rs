//! The k-nearest-neighbour estimator of Kraskov, Stoegbauer and Grassberger.

use crate::error::Result;
use crate::parallel::{Tick, run_jobs};
use statrs::function::gamma::digamma;

/// Returns the terms of KSG's first estimator with the maximum norm, one for each point:
///
/// I = mean over points of psi(k) + psi(n) - psi(n_x + 1) - psi(n_y + 1)
///
/// with n_x (n_y) the number of other points whose distance in x (in y) is less than the distance
/// of the k-th neighbour in (x, y). `x` and `y` are row-major and have more than k rows. `tick` is
/// called once for each point, and a few times before; its error ends the computation.
pub fn ksg(
    x: &[f32],
    x_dim: usize,
    y: &[f32],
    y_dim: usize,
    k: usize,
    threads: usize,
    tick: Tick,
) -> Result<Vec<f64>> {
    let n = x.len() / x_dim.max(1);
    let joint: Vec<f32> = x
        .chunks_exact(x_dim)
        .zip(y.chunks_exact(y_dim))
        .flat_map(|(x, y)| x.iter().chain(y).copied())
        .collect();
    let both = Tree::new(&joint, x_dim + y_dim, tick)?;
    let (x_tree, y_tree) = (Tree::new(x, x_dim, tick)?, Tree::new(y, y_dim, tick)?);
    let constant = digamma(k as f64) + digamma(n as f64);
    let term = |i: usize| {
        tick()?;
        let radius = both.neighbour_distance(i, k);
        let count = |tree: &Tree| tree.count_within(i, radius) as f64;
        Ok(constant - digamma(count(&x_tree) + 1.0) - digamma(count(&y_tree) + 1.0))
    };
    let blocks = run_jobs(threads, n.div_ceil(BLOCK), |block, _| {
        (block * BLOCK..((block + 1) * BLOCK).min(n)).map(term).collect::<Result<Vec<f64>>>()
    });
    Ok(blocks.into_iter().collect::<Result<Vec<_>>>()?.concat())
}

/// The number of points that a thread processes at a time.
const BLOCK: usize = 256;

/// The number of points from which the construction of a node is preceded by a check.
const MANY_POINTS: usize = 4096;

/// The maximum number of points in a leaf.
const MAX_LEAF_POINTS: usize = 16;

/// A k-d tree for the maximum norm, with the bounding box of every node.
struct Tree<'a> {
    points: &'a [f32],
    dim: usize,
    order: Vec<u32>,
    nodes: Vec<Node>,
}

/// The points `order[start..end]` with their bounding box, and two children unless it is a leaf.
struct Node {
    start: usize,
    end: usize,
    low: Vec<f32>,
    high: Vec<f32>,
    children: Option<(usize, usize)>,
}

impl<'a> Tree<'a> {
    fn new(points: &'a [f32], dim: usize, tick: Tick) -> Result<Self> {
        let n = points.len() / dim;
        let order = (0..n as u32).collect();
        let mut tree = Tree { points, dim, order, nodes: Vec::new() };
        tree.build(0, n, tick)?;
        Ok(tree)
    }

    fn point(&self, i: usize) -> &[f32] {
        &self.points[i * self.dim..(i + 1) * self.dim]
    }

    /// Adds the node of `order[start..end]`, split at the median of the widest side of its box, and
    /// returns its index.
    fn build(&mut self, start: usize, end: usize, tick: Tick) -> Result<usize> {
        if end - start >= MANY_POINTS {
            tick()?;
        }
        let mut low = vec![f32::INFINITY; self.dim];
        let mut high = vec![f32::NEG_INFINITY; self.dim];
        for &i in &self.order[start..end] {
            let point = &self.points[i as usize * self.dim..(i as usize + 1) * self.dim];
            for (c, &value) in point.iter().enumerate() {
                low[c] = low[c].min(value);
                high[c] = high[c].max(value);
            }
        }
        let widest = (0..self.dim)
            .max_by(|&a, &b| (high[a] - low[a]).total_cmp(&(high[b] - low[b])))
            .unwrap_or(0);
        let splits = end - start > MAX_LEAF_POINTS && high[widest] > low[widest];
        let index = self.nodes.len();
        self.nodes.push(Node { start, end, low, high, children: None });
        if splits {
            let middle = (end - start) / 2;
            let (points, dim) = (self.points, self.dim);
            let coordinate = |i: &u32| points[*i as usize * dim + widest];
            self.order[start..end]
                .select_nth_unstable_by(middle, |a, b| coordinate(a).total_cmp(&coordinate(b)));
            let left = self.build(start, start + middle, tick)?;
            let right = self.build(start + middle, end, tick)?;
            self.nodes[index].children = Some((left, right));
        }
        Ok(index)
    }

    /// Returns the distance of two points; if it exceeds `limit`, some number above `limit`.
    fn distance(&self, i: usize, j: usize, limit: f32) -> f32 {
        let mut largest = 0f32;
        for (a, b) in self.point(i).chunks(16).zip(self.point(j).chunks(16)) {
            for (a, b) in a.iter().zip(b) {
                largest = largest.max((a - b).abs());
            }
            if largest > limit {
                break;
            }
        }
        largest
    }

    /// Returns the distances of point i to the nearest and the farthest point of a node's box.
    fn box_distances(&self, i: usize, node: &Node) -> (f32, f32) {
        let (mut nearest, mut farthest) = (0f32, 0f32);
        for (c, &value) in self.point(i).iter().enumerate() {
            let (below, above) = (node.low[c] - value, value - node.high[c]);
            nearest = nearest.max(below).max(above);
            farthest = farthest.max(-below).max(-above);
        }
        (nearest, farthest)
    }

    /// Returns the distance of the k-th neighbour of point i.
    fn neighbour_distance(&self, i: usize, k: usize) -> f32 {
        let mut nearest = vec![f32::INFINITY; k];
        self.search(0, i, &mut nearest);
        nearest[k - 1]
    }

    /// Updates `nearest`, the ascending distances of the nearest neighbours found so far.
    fn search(&self, node: usize, i: usize, nearest: &mut [f32]) {
        let worst = nearest[nearest.len() - 1];
        let node = &self.nodes[node];
        match node.children {
            None => {
                for &j in &self.order[node.start..node.end] {
                    let worst = nearest[nearest.len() - 1];
                    let distance = self.distance(i, j as usize, worst);
                    if j as usize != i && distance < worst {
                        let place = nearest.partition_point(|d| *d <= distance);
                        nearest[place..].rotate_right(1);
                        nearest[place] = distance;
                    }
                }
            }
            Some((left, right)) => {
                let (to_left, _) = self.box_distances(i, &self.nodes[left]);
                let (to_right, _) = self.box_distances(i, &self.nodes[right]);
                let mut order = [(to_left, left), (to_right, right)];
                if to_right < to_left {
                    order.swap(0, 1);
                }
                for (distance, child) in order {
                    if distance < worst.min(nearest[nearest.len() - 1]) {
                        self.search(child, i, nearest);
                    }
                }
            }
        }
    }

    /// Returns the number of other points whose distance to point i is less than `radius`.
    fn count_within(&self, i: usize, radius: f32) -> usize {
        // The count includes point i itself unless the radius is 0.
        self.count(0, i, radius).saturating_sub(1)
    }

    /// Counts the points of a node whose distance to point i is less than `radius`.
    fn count(&self, node: usize, i: usize, radius: f32) -> usize {
        let node = &self.nodes[node];
        let (nearest, farthest) = self.box_distances(i, node);
        if nearest >= radius {
            return 0;
        }
        if farthest < radius {
            return node.end - node.start;
        }
        match node.children {
            Some((left, right)) => self.count(left, i, radius) + self.count(right, i, radius),
            None => self.order[node.start..node.end]
                .iter()
                .filter(|&&j| self.distance(i, j as usize, radius) < radius)
                .count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Purpose, stream};
    use crate::scenario::{Level, PairSource, ScenarioPlan};
    use rand::RngExt;

    #[test]
    fn the_tree_agrees_with_a_linear_search() {
        let mut rng = stream(1, Purpose::Data, 0, 0);
        for dim in [1, 3, 7] {
            let n = 300;
            // Coarse values give ties and boxes of zero width.
            let points: Vec<f32> =
                (0..n * dim).map(|_| (rng.random_range(0.0..1.0f32) * 20.0).round()).collect();
            let tree = Tree::new(&points, dim, &|| Ok(())).unwrap();
            for i in 0..n {
                let mut distances: Vec<f32> = (0..n)
                    .filter(|&j| j != i)
                    .map(|j| tree.distance(i, j, f32::INFINITY))
                    .collect();
                distances.sort_by(f32::total_cmp);
                assert_eq!(tree.neighbour_distance(i, 4), distances[3]);
                for radius in [0.0, 1.0, 3.0] {
                    let expected = distances.iter().filter(|d| **d < radius).count();
                    assert_eq!(tree.count_within(i, radius), expected, "d = {dim}, r = {radius}");
                }
            }
        }
    }

    #[test]
    fn estimates_the_mutual_information_of_a_gaussian() {
        let scenario = ScenarioPlan::new("gaussian", 1).unwrap().at(Level::Mi(0.8)).unwrap();
        let (mut x, mut y) = (vec![0f32; 4000], vec![0f32; 4000]);
        scenario.sample(&mut stream(5, Purpose::Data, 0, 0), &mut x, &mut y);
        let estimate = ksg(&x, 1, &y, 1, 3, 2, &|| Ok(())).unwrap().iter().sum::<f64>() / 4000.0;
        assert!((estimate - 0.8).abs() < 0.06, "{estimate}");
    }
}
