//! Estimates the mutual information between columns of a file.
//!
//! ```sh
//! cargo run --release --example estimate_file -- examples/pairs.csv
//! ```

use fdime::MutualInformation;
use fdime::estimate::Effort;

fn main() -> fdime::Result<()> {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/pairs.csv");
    let path = std::env::args().nth(1).unwrap_or_else(|| shipped.into());
    let request = MutualInformation::in_file(path, None, None, &Default::default())?;
    let result = request.effort(Effort::Quick).run()?;
    let (low, high) = result.interval;
    println!("I(x; y) = {:.3} nats, 95% interval {:.3} to {:.3}", result.mi.0, low.0, high.0);
    if let Some(test) = &result.independence {
        println!("test of independence: p = {:.3}", test.p_value);
    }
    println!("reliability: {}", result.verdict.reliability);
    for reason in &result.verdict.reasons {
        println!("  - {}", reason.message);
    }
    Ok(())
}
