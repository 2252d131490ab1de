//! Families of dependence with known mutual information.
//!
//! Every draw comes with its exact log ratio ln p(y|x) / p(y), so the mutual information is the mean
//! log ratio of many draws. Half of the families were used to choose settings of the estimator; the
//! other half is only reported.

use fdime::data::{Column, Values};
use fdime::random::{Purpose, Rng, stream};
use rand::RngExt;
use rand_distr::{Distribution, Poisson, StandardNormal};
use statrs::function::gamma::ln_gamma;
use std::f64::consts::{PI, TAU};

/// The number of draws whose mean log ratio is the truth; its standard error is about .001 nats.
const TRUTH_DRAWS: usize = 1_000_000;

/// Appends a pair to x and y and returns its log ratio.
type Draw = Box<dyn Fn(&mut Rng, &mut Vec<f64>, &mut Vec<f64>) -> f64 + Send + Sync>;

/// A dependence between x and y.
pub struct Family {
    pub name: &'static str,
    /// The kind of dependence.
    pub kind: &'static str,
    /// Whether no setting was chosen by it.
    pub unseen: bool,
    /// Whether y consists of categories, and whether x does.
    categories: (bool, bool),
    draw: Draw,
}

impl Family {
    /// Returns the mutual information and its standard error.
    pub fn truth(&self) -> (f64, f64) {
        let mut rng = stream(0x7275_7468, Purpose::Data, 0, 0);
        let (mut sum, mut squares) = (0.0, 0.0);
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..TRUTH_DRAWS {
            x.clear();
            y.clear();
            let ratio = (self.draw)(&mut rng, &mut x, &mut y);
            sum += ratio;
            squares += ratio * ratio;
        }
        let n = TRUTH_DRAWS as f64;
        let mean = sum / n;
        (mean, ((squares / n - mean * mean).max(0.0) / n).sqrt())
    }

    /// Returns a table of `rows` draws.
    pub fn table(&self, rng: &mut Rng, rows: usize) -> (Vec<Column>, Vec<Column>) {
        let (mut x, mut y) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            (self.draw)(rng, &mut x, &mut y);
        }
        (columns("x", &x, rows, self.categories.0), columns("y", &y, rows, self.categories.1))
    }
}

/// Returns row-major values as columns.
fn columns(side: &str, values: &[f64], rows: usize, categories: bool) -> Vec<Column> {
    let width = values.len() / rows;
    let column = |k: usize| {
        let values: Vec<f64> = values.iter().copied().skip(k).step_by(width).collect();
        let values = match categories {
            true => {
                let codes: Vec<u32> = values.iter().map(|value| *value as u32).collect();
                let levels = codes.iter().max().map_or(0, |code| code + 1);
                Values::Discrete { codes, labels: (0..levels).map(|k| format!("c{k}")).collect() }
            }
            false => Values::Continuous(values),
        };
        Column { name: format!("{side}{}", k + 1), values }
    };
    (0..width).map(column).collect()
}

fn normal(rng: &mut Rng) -> f64 {
    StandardNormal.sample(rng)
}

fn uniform(rng: &mut Rng) -> f64 {
    rng.random_range(0.0..1.0)
}

/// The logarithm of the normal density with mean 0.
fn log_normal_density(value: f64, sd: f64) -> f64 {
    -0.5 * (value / sd).powi(2) - sd.ln() - 0.5 * TAU.ln()
}

/// Returns ln sum exp of the values.
fn log_sum_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let largest = values.clone().fold(f64::NEG_INFINITY, f64::max);
    largest + values.map(|value| (value - largest).exp()).sum::<f64>().ln()
}

/// The log density of y by interpolation on a grid that is even in asinh(y / scale).
struct LogDensity {
    scale: f64,
    limit: f64,
    values: Vec<f64>,
}

impl LogDensity {
    const POINTS: usize = 4001;
    const QUANTILES: usize = 4000;

    /// Averages the conditional log density `given(y, x)` over x = `quantile(u)`, u in (0, 1).
    fn new(
        scale: f64,
        largest: f64,
        quantile: impl Fn(f64) -> f64,
        given: impl Fn(f64, f64) -> f64,
    ) -> Self {
        let x: Vec<f64> = (0..Self::QUANTILES)
            .map(|k| quantile((k as f64 + 0.5) / Self::QUANTILES as f64))
            .collect();
        let limit = (largest / scale).asinh();
        let values = (0..Self::POINTS)
            .map(|k| {
                let y = scale * (limit * (2.0 * k as f64 / (Self::POINTS - 1) as f64 - 1.0)).sinh();
                let sum: f64 = x.iter().map(|x| given(y, *x).exp()).sum();
                (sum / Self::QUANTILES as f64).max(1e-300).ln()
            })
            .collect();
        LogDensity { scale, limit, values }
    }

    fn at(&self, y: f64) -> f64 {
        let last = (self.values.len() - 1) as f64;
        let place = ((y / self.scale).asinh() / self.limit + 1.0) / 2.0 * last;
        let place = place.clamp(0.0, last - 1e-9);
        let (k, share) = (place as usize, place.fract());
        self.values[k] * (1.0 - share) + self.values[k + 1] * share
    }
}

fn normal_quantile(u: f64) -> f64 {
    use statrs::distribution::{ContinuousCDF, Normal};
    Normal::standard().inverse_cdf(u)
}

/// Student's t with two degrees of freedom.
fn t2_quantile(u: f64) -> f64 {
    (2.0 * u - 1.0) / (2.0 * u * (1.0 - u)).sqrt()
}

fn log_t2_density(value: f64, scale: f64) -> f64 {
    -1.5 * (2.0 + (value / scale).powi(2)).ln() - scale.ln()
}

fn log_cauchy_density(value: f64, scale: f64) -> f64 {
    -(PI * scale * (1.0 + (value / scale).powi(2))).ln()
}

fn cauchy(rng: &mut Rng) -> f64 {
    (PI * (uniform(rng) - 0.5)).tan()
}

/// y = f(x) + sd n with x uniform on (0, 1).
fn curve(f: fn(f64) -> f64, sd: f64) -> Draw {
    let log_density =
        LogDensity::new(1.0, 12.0, |u| u, move |y, x| log_normal_density(y - f(x), sd));
    Box::new(move |rng, x, y| {
        let u = uniform(rng);
        let noise = sd * normal(rng);
        x.push(u);
        y.push(f(u) + noise);
        log_normal_density(noise, sd) - log_density.at(f(u) + noise)
    })
}

/// y_k = s(x_k) n_k in `dim` independent columns, with x_k standard normal.
fn scale(s: fn(f64) -> f64, dim: usize) -> Draw {
    let log_density =
        LogDensity::new(0.1, 1e4, normal_quantile, move |y, x| log_normal_density(y, s(x)));
    Box::new(move |rng, x, y| {
        let mut ratio = 0.0;
        for _ in 0..dim {
            let value = normal(rng);
            let result = s(value) * normal(rng);
            ratio += log_normal_density(result, s(value)) - log_density.at(result);
            x.push(value);
            y.push(result);
        }
        ratio
    })
}

/// A label c with equal probabilities and x with independent normal columns of means and standard
/// deviations that depend on c. x holds the numbers, y the label.
fn labelled(means: Vec<Vec<f64>>, sds: Vec<f64>) -> Draw {
    Box::new(move |rng, x, y| {
        let levels = means.len();
        let label = rng.random_range(0..levels);
        let row: Vec<f64> = means[label].iter().map(|m| m + sds[label] * normal(rng)).collect();
        let log_density = |c: usize| -> f64 {
            row.iter().zip(&means[c]).map(|(v, m)| log_normal_density(v - m, sds[c])).sum()
        };
        let ratio =
            log_density(label) + (levels as f64).ln() - log_sum_exp((0..levels).map(log_density));
        x.extend(row);
        y.push(label as f64);
        ratio
    })
}

/// `dim` pairs with these correlations, then `after` applied to every number, then mixed: each
/// column is replaced by its sum with the next one, which is one-to-one for the numbers of one side.
fn gaussian(correlations: Vec<f64>, mix: bool, after: fn(f64) -> f64) -> Draw {
    Box::new(move |rng, x, y| {
        let mut ratio = 0.0;
        let (mut u, mut v) = (Vec::new(), Vec::new());
        for rho in &correlations {
            let a = normal(rng);
            let sd = (1.0 - rho * rho).sqrt();
            let b = rho * a + sd * normal(rng);
            ratio += log_normal_density(b - rho * a, sd) - log_normal_density(b, 1.0);
            u.push(a);
            v.push(b);
        }
        let finish = |side: Vec<f64>, out: &mut Vec<f64>| {
            for k in 0..side.len() {
                let next = side.get(k + 1).copied().unwrap_or(0.0);
                out.push(after(if mix { side[k] + 0.7 * next } else { side[k] }));
            }
        };
        finish(u, x);
        finish(v, y);
        ratio
    })
}

/// One pair from `pair`, and `others` independent normal columns on each side.
fn sparse(pair: Draw, others: usize) -> Draw {
    Box::new(move |rng, x, y| {
        let ratio = pair(rng, x, y);
        x.extend((0..others).map(|_| normal(rng)));
        y.extend((0..others).map(|_| normal(rng)));
        ratio
    })
}

/// Categories with this joint distribution.
fn table<const X: usize, const Y: usize>(cells: [[f64; Y]; X]) -> Draw {
    let rows: Vec<f64> = cells.iter().map(|row| row.iter().sum()).collect();
    let columns: Vec<f64> = (0..Y).map(|j| cells.iter().map(|row| row[j]).sum()).collect();
    Box::new(move |rng, x, y| {
        let mut left = uniform(rng);
        for (i, row) in cells.iter().enumerate() {
            for (j, cell) in row.iter().enumerate() {
                left -= cell;
                if left <= 0.0 || (i, j) == (X - 1, Y - 1) {
                    x.push(i as f64);
                    y.push(j as f64);
                    return (cell / (rows[i] * columns[j])).ln();
                }
            }
        }
        unreachable!("the last cell always returns")
    })
}

/// x is Cauchy, y = x + `scale` times another Cauchy; a sum of Cauchys is Cauchy.
fn cauchy_noise(scale: f64) -> Draw {
    Box::new(move |rng, x, y| {
        let (value, noise) = (cauchy(rng), scale * cauchy(rng));
        x.push(value);
        y.push(value + noise);
        log_cauchy_density(noise, scale) - log_cauchy_density(value + noise, 1.0 + scale)
    })
}

/// x is Student's t with two degrees of freedom, y = x + `scale` times another.
fn student_noise(scale: f64) -> Draw {
    let log_density =
        LogDensity::new(0.5, 1e7, t2_quantile, move |y, x| log_t2_density(y - x, scale));
    Box::new(move |rng, x, y| {
        let (value, noise) = (t2_quantile(uniform(rng)), scale * t2_quantile(uniform(rng)));
        x.push(value);
        y.push(value + noise);
        log_t2_density(noise, scale) - log_density.at(value + noise)
    })
}

/// y = x or -x, at random, plus noise.
fn two_branches(sd: f64) -> Draw {
    Box::new(move |rng, x, y| {
        let value = normal(rng);
        let sign = if rng.random_range(0..2) == 0 { 1.0 } else { -1.0 };
        let result = sign * value + sd * normal(rng);
        x.push(value);
        y.push(result);
        let branches = [result - value, result + value].map(|noise| log_normal_density(noise, sd));
        log_sum_exp(branches.into_iter())
            - 2f64.ln()
            - log_normal_density(result, (1.0 + sd * sd).sqrt())
    })
}

/// A point on the unit circle plus noise; x and y are its coordinates.
fn ring(sd: f64) -> Draw {
    let density = move || {
        LogDensity::new(1.0, 6.0, |u| (TAU * u).cos(), move |x, c| log_normal_density(x - c, sd))
    };
    let (of_x, of_y) = (density(), density());
    // The density of (x, y) depends on the radius alone.
    let of_radius = LogDensity::new(
        1.0,
        6.0,
        |u| TAU * u,
        move |r, angle| {
            log_normal_density(r - angle.cos(), sd) + log_normal_density(angle.sin(), sd)
        },
    );
    Box::new(move |rng, x, y| {
        let angle = TAU * uniform(rng);
        let (a, b) = (angle.cos() + sd * normal(rng), angle.sin() + sd * normal(rng));
        x.push(a);
        y.push(b);
        of_radius.at(a.hypot(b)) - of_x.at(a) - of_y.at(b)
    })
}

/// x uniform on (0, 1), y = x + uniform noise on (-e, e): y's density is a trapezium.
fn uniform_noise(e: f64) -> Draw {
    Box::new(move |rng, x, y| {
        let value = uniform(rng);
        let result = value + e * (2.0 * uniform(rng) - 1.0);
        x.push(value);
        y.push(result);
        -(((result + e).min(1.0) - (result - e).max(0.0)).max(1e-12)).ln()
    })
}

/// x uniform on (0, 1), y = x + Laplace noise.
fn laplace_noise(scale: f64) -> Draw {
    // The density of y is the difference of two values of the Laplace distribution function.
    let cdf = move |v: f64| {
        if v < 0.0 { 0.5 * (v / scale).exp() } else { 1.0 - 0.5 * (-v / scale).exp() }
    };
    Box::new(move |rng, x, y| {
        let (value, u) = (uniform(rng), uniform(rng) - 0.5);
        let noise = -scale * u.signum() * (1.0 - 2.0 * u.abs()).ln();
        x.push(value);
        y.push(value + noise);
        let density = cdf(value + noise) - cdf(value + noise - 1.0);
        -noise.abs() / scale - (2.0 * scale).ln() - density.max(1e-300).ln()
    })
}

/// y is a count with mean exp(.5 + .8 x), x standard normal.
fn poisson() -> Draw {
    let log_probability = |count: f64, x: f64| {
        let log_mean = 0.5 + 0.8 * x;
        count * log_mean - log_mean.exp() - ln_gamma(count + 1.0)
    };
    let of_count: Vec<f64> = (0..400)
        .map(|count| {
            let given = |k: usize| {
                log_probability(f64::from(count), normal_quantile((k as f64 + 0.5) / 4000.0))
            };
            log_sum_exp((0..4000).map(given)) - 4000f64.ln()
        })
        .collect();
    Box::new(move |rng, x, y| {
        let value = normal(rng);
        let count = Poisson::new((0.5 + 0.8 * value).exp()).map_or(0.0, |p| p.sample(rng));
        x.push(value);
        y.push(count);
        log_probability(count, value) - of_count[(count as usize).min(399)]
    })
}

/// y is a category of two levels with log odds 1.5 (x_1 + x_2 - x_3) among five normal columns.
fn logistic() -> Draw {
    Box::new(move |rng, x, y| {
        let row: Vec<f64> = (0..5).map(|_| normal(rng)).collect();
        let probability = 1.0 / (1.0 + (-1.5 * (row[0] + row[1] - row[2])).exp());
        let one = uniform(rng) < probability;
        x.extend(row);
        y.push(f64::from(u8::from(one)));
        // Both levels have probability 1/2 by symmetry.
        (2.0 * if one { probability } else { 1.0 - probability }).ln()
    })
}

/// Three normal columns; y has the sign of their product.
fn parity() -> Draw {
    Box::new(move |rng, x, y| {
        let row: Vec<f64> = (0..3).map(|_| normal(rng)).collect();
        y.push(normal(rng).abs() * row.iter().product::<f64>().signum());
        x.extend(row);
        2f64.ln()
    })
}

/// x and y with `dim` independent columns each.
fn independent(dim: usize, value: fn(&mut Rng) -> f64) -> Draw {
    Box::new(move |rng, x, y| {
        x.extend((0..dim).map(|_| value(rng)));
        y.extend((0..dim).map(|_| value(rng)));
        0.0
    })
}

/// y_1 = x_1^2 + noise.
fn square() -> Draw {
    let log_density =
        LogDensity::new(1.0, 60.0, normal_quantile, |y, x| log_normal_density(y - x * x, 0.5));
    Box::new(move |rng, x, y| {
        let value = normal(rng);
        let noise = 0.5 * normal(rng);
        x.push(value);
        y.push(value * value + noise);
        log_normal_density(noise, 0.5) - log_density.at(value * value + noise)
    })
}

/// Returns all families.
#[rustfmt::skip]
pub fn families() -> Vec<Family> {
    let no = (false, false);
    let label = (false, true);
    let corners = |k: f64| vec![vec![0.0, 0.0], vec![k, 0.0], vec![0.0, k]];
    let shells = vec![vec![0.0; 5]; 4];
    let mut families = Vec::new();
    let mut add = |name, kind, unseen, categories, draw| {
        families.push(Family { name, kind, unseen, categories, draw });
    };
    let (seen, unseen) = (false, true);
    add("cauchy-noise", "heavy tails", seen, no, cauchy_noise(0.5));
    add("student-noise", "heavy tails", unseen, no, student_noise(0.4));
    add("sine", "oscillating", seen, no, curve(|x| (2.0 * TAU * x).sin(), 0.3));
    add("chirp", "oscillating", unseen, no, curve(|x| (14.0 * x * x).cos(), 0.25));
    add("steps", "discontinuous", seen, no, curve(|x| [2.0, -1.0, 1.0, -2.0][(4.0 * x) as usize % 4], 0.5));
    add("sawtooth", "discontinuous", unseen, no, curve(|x| 5.0 * x - (5.0 * x).floor(), 0.1));
    add("two-branches", "multi-modal", seen, no, two_branches(0.3));
    add("ring", "multi-modal", unseen, no, ring(0.15));
    add("scale-1", "scale", seen, no, scale(|x| (0.8 * x).exp(), 1));
    add("scale-4", "scale", seen, no, scale(|x| (0.8 * x).exp(), 4));
    add("volatility-6", "scale", unseen, no, scale(|x| 0.2 + x.abs(), 6));
    add("sparse-linear-50", "sparse", seen, no, sparse(gaussian(vec![0.8], false, |v| v), 49));
    add("sparse-square-30", "sparse", seen, no, sparse(square(), 29));
    add("table-3x4", "discrete", seen, (true, true), table([[0.15, 0.05, 0.05, 0.05], [0.05, 0.20, 0.05, 0.05], [0.05, 0.05, 0.05, 0.20]]));
    add("poisson", "discrete", unseen, no, poisson());
    add("logistic", "mixed", unseen, label, logistic());
    add("label-2", "mixed", seen, label, labelled(corners(3.0), vec![1.0, 1.0, 1.0]));
    add("label-shells-5", "mixed", unseen, label, labelled(shells, vec![0.5, 1.0, 2.0, 4.0]));
    add("gaussian-5", "Gaussian", seen, no, gaussian(vec![0.9, 0.6, 0.4, 0.2, 0.0], true, |v| v));
    add("gaussian-20-cube", "Gaussian", unseen, no, gaussian((0..20).map(|k| 0.9 * (-0.15 * f64::from(k)).exp()).collect(), true, |v| v * v * v));
    add("uniform-noise", "strong", seen, no, uniform_noise(0.02));
    add("laplace-noise", "strong", unseen, no, laplace_noise(0.02));
    add("parity", "interaction", unseen, no, parity());
    add("independent-normal-3", "independent", seen, no, independent(3, normal));
    add("independent-cauchy-5", "independent", unseen, no, independent(5, cauchy));
    families
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tolerance is 5 standard errors (alpha of about 6e-7, fixed seed).
    #[test]
    fn truths_agree_with_closed_forms() {
        let known = [
            ("independent-normal-3", 0.0),
            ("parity", 2f64.ln()),
            ("uniform-noise", 0.02 - 0.04f64.ln()),
            ("sparse-linear-50", -0.5 * (1.0f64 - 0.64).ln()),
            // ln((1 + s) / s)
            ("cauchy-noise", 3f64.ln()),
        ];
        let families = families();
        for (name, expected) in known {
            let family = families.iter().find(|family| family.name == name).unwrap();
            let (truth, error) = family.truth();
            assert!((truth - expected).abs() <= 5.0 * error + 1e-6, "{name}: {truth} {expected}");
        }
    }

    /// ln r must be a log ratio of densities: the mean of 1/r over joint draws is the mass of
    /// p(x) p(y) where p(x, y) > 0, so at most 1.
    #[test]
    fn inverse_ratios_have_mean_at_most_one() {
        for family in families() {
            let mut rng = stream(1, Purpose::Data, 0, 0);
            let (mut x, mut y) = (Vec::new(), Vec::new());
            let inverses: Vec<f64> = (0..20_000)
                .map(|_| {
                    x.clear();
                    y.clear();
                    (-(family.draw)(&mut rng, &mut x, &mut y)).exp()
                })
                .collect();
            let n = inverses.len() as f64;
            let mean = inverses.iter().sum::<f64>() / n;
            let variance = inverses.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
            assert!(mean <= 1.0 + 5.0 * (variance / n).sqrt() + 1e-3, "{}: {mean}", family.name);
        }
    }
}
