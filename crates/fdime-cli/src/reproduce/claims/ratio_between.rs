use super::{Claim, EstimatorNames, Evidence, Fact, Verdict, facts_of_ratios};
use crate::reproduce::consistency::View;
use crate::reproduce::results::Ratios;
use serde::Deserialize;

/// The ratio, averaged over the numbers of visible rows from `from_rows` on, is between two
/// numbers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatioBetween {
    view: View,
    estimators: EstimatorNames,
    between: (f64, f64),
    from_rows: usize,
    /// The number of parts of a pair that the critic scores one by one.
    #[serde(default = "one")]
    parts: usize,
    /// Whether the ratios are those of chained estimates.
    #[serde(default)]
    chain: bool,
    /// The sets of images that must have been measured; an empty list means any.
    #[serde(default)]
    images: Vec<String>,
}

fn one() -> usize {
    1
}

impl RatioBetween {
    fn fact(&self, ratios: &Ratios) -> Fact {
        let counted = ratios.by_rows.iter().filter(|(rows, _)| *rows >= self.from_rows);
        let values: Vec<f64> = counted.map(|(_, ratio)| ratio.value).collect();
        // NaN without values, which is not between any numbers.
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let holds = mean >= self.between.0 && mean <= self.between.1;
        Fact::new(holds, format!("{} {}: {mean:.3}", ratios.images, ratios.name()))
    }
}

impl Claim for RatioBetween {
    fn check(&self, evidence: &Evidence) -> Verdict {
        let RatioBetween { view, estimators, between: (low, high), from_rows, .. } = self;
        let mut ratios = evidence.results.ratios(*view);
        ratios.retain(|ratios| ratios.parts == self.parts && ratios.chain.is_some() == self.chain);
        let mut facts = facts_of_ratios(estimators, &ratios, |ratios| self.fact(ratios));
        for images in &self.images {
            let measured =
                |name: &str| ratios.iter().any(|r| r.images == *images && r.estimator == name);
            let unmeasured = estimators.iter().filter(|name| !measured(name));
            facts.extend(unmeasured.map(|name| Fact::not_measured(&format!("{name} on {images}"))));
        }
        let ratio = view.ratio();
        let suffix = match (self.parts, self.chain) {
            (1, false) => "",
            (1, true) => ", chained",
            _ => ", image by image",
        };
        let text = format!(
            "{ratio}, averaged from {from_rows} rows on, is between {low} and {high} \
             for {estimators}{suffix}"
        );
        Verdict::all(text, facts)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, images, images_with};
    use crate::reproduce::consistency::View;

    #[test]
    fn the_average_ratio_decides() {
        let claim = "kind = 'ratio-between'\nview = 'pair'\nestimators = ['kl-dime']\n\
                     between = [1.9, 2.1]\nfrom_rows = 14";
        let estimates = |pair: f64| {
            let single = [7, 14, 28].map(|rows| (View::Single, rows, 1.0));
            let pairs = [(View::Pair, 7, 9.0), (View::Pair, 14, 1.8), (View::Pair, 28, pair)];
            images("kl-dime", &[single, pairs].concat())
        };
        assert!(check(claim, &estimates(2.2)).passed);
        assert!(!check(claim, &estimates(2.6)).passed);
        let later = claim.replace("from_rows = 14", "from_rows = 29");
        assert!(!check(&later, &estimates(2.2)).passed, "no rows are left");
    }

    #[test]
    fn chained_estimates_are_divided_by_direct_ones() {
        let claim = "kind = 'ratio-between'\nview = 'pair'\nestimators = ['kl-dime']\n\
             between = [1.9, 2.1]\nfrom_rows = 14\nimages = ['mnist']";
        let chained_claim = format!("{claim}\nchain = true");
        let estimates = [(View::Single, 14, 1.5), (View::Pair, 14, 3.0)];
        let chained = images_with("kl-dime", true, &estimates);
        let verdict = check(&chained_claim, &chained);
        assert!(verdict.passed && verdict.text.ends_with("for kl-dime, chained"), "{verdict:?}");
        assert_eq!(verdict.detail, "mnist kl-dime, chain of 2: 2.000");
        assert!(!check(claim, &chained).passed, "there is no direct estimate of the pair");
        assert!(!check(&chained_claim, &images("kl-dime", &estimates)).passed);
        let both = chained_claim.replace("['mnist']", "['mnist', 'fashion-mnist']");
        let verdict = check(&both, &chained);
        assert!(
            verdict.detail.contains("kl-dime on fashion-mnist was not measured"),
            "{verdict:?}"
        );
    }
}
