//! Prints how often the test of independence at 5% rejects for pairs of autoregressive series
//! x_t = phi x_(t-1) + noise, as a table in Markdown.
//!
//! ```sh
//! cargo run --release -p fdime-coverage --example series_calibration -- [PAIRS] [ESTIMATOR] [PHI]
//! ```
//!
//! With PHI, only pairs with that phi. Each pair is treated as exchangeable rows and as a series with an automatic gap. Where x and y
//! are independent (correlation 0), a valid test rejects 5%. The warning is `serial-dependence` for
//! exchangeable rows and `few-independent-rows` for a series.

use fdime::MutualInformation;
use fdime::estimate::{Effort, Estimate, Method, Reliability, RowOrder};
use fdime::random::{Purpose, stream};
use rand::RngExt;
use rand_distr::StandardNormal;

/// phi, rows, correlation of the innovations.
const CASES: [(f64, usize, f64); 8] = [
    (0.0, 1000, 0.0),
    (0.5, 1000, 0.0),
    (0.9, 1000, 0.0),
    (0.99, 1000, 0.0),
    (0.9, 5000, 0.0),
    (0.9, 1000, 0.3),
    (0.99, 1000, 0.3),
    (0.9, 5000, 0.3),
];

/// Returns two stationary autoregressive series whose innovations have this correlation.
fn pair(phi: f64, rows: usize, correlation: f64, seed: u64) -> [Vec<f64>; 2] {
    let mut rng = stream(seed, Purpose::Data, 0, 0);
    let mut series = || -> Vec<f64> {
        let mut value: f64 = rng.sample(StandardNormal);
        let step = |_| {
            let noise: f64 = rng.sample(StandardNormal);
            value = phi * value + (1.0 - phi * phi).sqrt() * noise;
            value
        };
        (0..rows).map(step).collect()
    };
    let (x, other) = (series(), series());
    let rest = (1.0 - correlation * correlation).sqrt();
    let y = x.iter().zip(&other).map(|(x, other)| correlation * x + rest * other).collect();
    [x, y]
}

/// Counts of outcomes over pairs.
#[derive(Default)]
struct Counts {
    pairs: usize,
    rejected: usize,
    rejected_and_good: usize,
    warned: usize,
    gaps: usize,
}

impl Counts {
    fn add(&mut self, result: &Estimate, order: RowOrder) {
        let rejected = result.independence.as_ref().is_some_and(|test| test.p_value <= 0.05);
        let good = result.verdict.reliability == Reliability::Good;
        let warns = |code| matches!(code, "serial-dependence" | "few-independent-rows");
        self.pairs += 1;
        self.rejected += usize::from(rejected);
        self.rejected_and_good += usize::from(rejected && good);
        self.warned += usize::from(result.verdict.reasons.iter().any(|reason| warns(reason.code)));
        self.gaps += if let RowOrder::Series { gap } = order { gap } else { 0 };
    }

    fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.pairs.max(1) as f64
    }
}

fn main() -> fdime::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let pairs = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(200);
    let method: Method = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let only: Option<f64> = arguments.next().and_then(|text| text.parse().ok());
    println!("| phi | rows | correlation | rows are | rejected | and good | warned | mean gap |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for (phi, rows, correlation) in CASES {
        if only.is_some_and(|only| only != phi) {
            continue;
        }
        for series in [true, false] {
            let mut counts = Counts::default();
            for seed in 0..pairs {
                let [x, y] = pair(phi, rows, correlation, seed);
                let request = MutualInformation::between(x, y).method(method.clone());
                let request = request.effort(Effort::Quick).threads(1).seed(seed);
                let request = if series { request.automatic_series() } else { request };
                counts.add(&request.run()?, request.plan().order);
            }
            println!(
                "| {phi} | {rows} | {correlation} | {} | {:.1}% | {:.1}% | {:.1}% | {:.0} |",
                if series { "a series" } else { "exchangeable" },
                counts.percent(counts.rejected),
                counts.percent(counts.rejected_and_good),
                counts.percent(counts.warned),
                counts.gaps as f64 / counts.pairs.max(1) as f64
            );
        }
    }
    Ok(())
}
