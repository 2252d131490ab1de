//! The paper's claims, as assertions about measured results: one file for each kind of claim.
//!
//! A claim consists of facts, and all of them must hold. A claim without facts fails, and so does a
//! claim about an estimator that was not measured.

mod capped_at_ln_n;
mod estimators;
mod exceeds_ln_n;
mod fails;
mod faster;
mod grades_agree;
mod lowest_variance;
mod near_lemma;
mod near_truth;
mod ratio_between;
mod relative_error_below;
mod rises;
mod scenario;
mod selection;
mod slope;
mod smaller_bias;
mod time_slope;
mod variance_bounded;
mod variance_explodes;
mod variance_slope;
mod within_paper;

pub use near_lemma::lemma_variance;

use super::paper::Cell;
use super::results::{Ratios, Results, StaircaseResult};
use super::summary::Graded;
use estimators::{EstimatorName, EstimatorNames};
use fdime::RunPlan;
use scenario::ScenarioFilter;
use selection::Selection;
use serde::Deserialize;

/// An assertion of a recipe.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub claim: AnyClaim,
    /// Whether quick runs leave it out because they train too little to show it.
    #[serde(default)]
    pub only_full: bool,
}

/// A claim of any kind, as recipes write it: a table with the name of the kind and its fields.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum AnyClaim {
    WithinPaper(within_paper::WithinPaper),
    CappedAtLnN(capped_at_ln_n::CappedAtLnN),
    ExceedsLnN(exceeds_ln_n::ExceedsLnN),
    VarianceExplodes(variance_explodes::VarianceExplodes),
    VarianceBounded(variance_bounded::VarianceBounded),
    LowestVariance(lowest_variance::LowestVariance),
    VarianceSlope(variance_slope::VarianceSlope),
    NearLemma(near_lemma::NearLemma),
    TimeSlope(time_slope::TimeSlope),
    Faster(faster::Faster),
    Rises(rises::Rises),
    RatioBetween(ratio_between::RatioBetween),
    RelativeErrorBelow(relative_error_below::RelativeErrorBelow),
    SmallerBias(smaller_bias::SmallerBias),
    NearTruth(near_truth::NearTruth),
    Fails(fails::Fails),
    GradesAgree(grades_agree::GradesAgree),
}

/// An assertion that can be checked against measured results.
pub trait Claim {
    /// Returns whether the claim holds, with the numbers that decide it.
    fn check(&self, evidence: &Evidence) -> Verdict;
}

impl Claim for AnyClaim {
    fn check(&self, evidence: &Evidence) -> Verdict {
        match self {
            AnyClaim::WithinPaper(claim) => claim.check(evidence),
            AnyClaim::CappedAtLnN(claim) => claim.check(evidence),
            AnyClaim::ExceedsLnN(claim) => claim.check(evidence),
            AnyClaim::VarianceExplodes(claim) => claim.check(evidence),
            AnyClaim::VarianceBounded(claim) => claim.check(evidence),
            AnyClaim::LowestVariance(claim) => claim.check(evidence),
            AnyClaim::VarianceSlope(claim) => claim.check(evidence),
            AnyClaim::NearLemma(claim) => claim.check(evidence),
            AnyClaim::TimeSlope(claim) => claim.check(evidence),
            AnyClaim::Faster(claim) => claim.check(evidence),
            AnyClaim::Rises(claim) => claim.check(evidence),
            AnyClaim::RatioBetween(claim) => claim.check(evidence),
            AnyClaim::RelativeErrorBelow(claim) => claim.check(evidence),
            AnyClaim::SmallerBias(claim) => claim.check(evidence),
            AnyClaim::NearTruth(claim) => claim.check(evidence),
            AnyClaim::Fails(claim) => claim.check(evidence),
            AnyClaim::GradesAgree(claim) => claim.check(evidence),
        }
    }
}

/// The results and values that claims are checked against.
#[derive(Clone, Copy)]
pub struct Evidence<'a> {
    pub results: &'a Results<'a>,
    /// The paper's values.
    pub paper: &'a [Cell],
    pub graded: &'a [Graded],
}

impl<'a> Evidence<'a> {
    /// Selects the staircases of the listed estimators whose plan passes the filter.
    fn select<'b>(
        &self,
        estimators: impl IntoIterator<Item = &'b str>,
        filter: impl Fn(&RunPlan) -> bool,
    ) -> Selection<'a, 'b> {
        let estimators: Vec<&str> = estimators.into_iter().collect();
        let selected = |s: &&StaircaseResult| estimators.contains(&s.estimator()) && filter(s.plan);
        let staircases = self.results.staircases.iter().filter(selected).collect();
        Selection { estimators, staircases }
    }
}

/// Returns a fact for the ratios of each listed estimator, and one that does not hold for every
/// estimator without ratios.
fn facts_of_ratios(
    estimators: &EstimatorNames,
    ratios: &[Ratios],
    fact: impl Fn(&Ratios) -> Fact,
) -> Vec<Fact> {
    let measured = |name: &&str| ratios.iter().any(|ratios| ratios.estimator == **name);
    let unmeasured = estimators.iter().filter(|name| !measured(name)).map(Fact::not_measured);
    let listed = ratios.iter().filter(|ratios| estimators.contains(&ratios.estimator));
    unmeasured.chain(listed.map(fact)).collect()
}

/// The result of checking a claim.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The claim in words.
    pub text: String,
    pub passed: bool,
    /// The numbers that decide it.
    pub detail: String,
}

impl Verdict {
    /// Returns the verdict that a claim holds if there are facts and all of them hold. The detail
    /// lists facts that do not hold first.
    fn all(text: String, facts: Vec<Fact>) -> Self {
        let passed = !facts.is_empty() && facts.iter().all(|fact| fact.holds);
        let (held, failed): (Vec<Fact>, Vec<Fact>) = facts.into_iter().partition(|fact| fact.holds);
        let texts: Vec<String> = failed.into_iter().chain(held).map(|fact| fact.text).collect();
        let detail = match texts.is_empty() {
            true => "nothing was measured".into(),
            false => texts.join("; "),
        };
        Verdict { text, passed, detail }
    }
}

/// One of the facts that a claim consists of.
struct Fact {
    holds: bool,
    text: String,
}

impl Fact {
    fn new(holds: bool, text: String) -> Self {
        Fact { holds, text: if holds { text } else { format!("NOT {text}") } }
    }

    fn not_measured(name: &str) -> Self {
        Fact { holds: false, text: format!("{name} was not measured") }
    }
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::testing::check;
    use super::*;

    #[test]
    fn claims_without_measurements_fail() {
        let claims = [
            "kind = 'within-paper'\nestimators = ['kl-dime']\nstatistics = ['bias']\n\
             relative = 0.25\nabsolute = 0.05\nshare = 0.0",
            "kind = 'capped-at-ln-n'\nestimators = ['kl-dime']\npairing = 'permutation'",
            "kind = 'exceeds-ln-n'\nestimators = ['kl-dime']\npairing = 'permutation'",
            "kind = 'variance-explodes'\nestimators = ['kl-dime']\ntimes = 0",
            "kind = 'variance-bounded'\nestimators = ['kl-dime']\nlimit = 1",
            "kind = 'lowest-variance'\nestimator = 'kl-dime'\namong = ['mine']\nfrom_mi = 2",
            "kind = 'variance-slope'\nestimators = ['kl-dime']\nbetween = [-9, 9]\nup_to_mi = 9",
            "kind = 'near-lemma'\nestimators = ['kl-dime']\nfactor = 9\nup_to_mi = 9",
            "kind = 'time-slope'\ncritic = 'joint'\npairing = 'all-pairs'\nbetween = [1, 3]\n\
             from_batch = 64",
            "kind = 'faster'\ncritic = 'deranged'\npairing = 'shift'\nthan = 'joint'",
            "kind = 'rises'\nestimators = ['kl-dime']\nslack = 0.1",
            "kind = 'ratio-between'\nview = 'pair'\nestimators = ['kl-dime']\nbetween = [-9, 9]\n\
             from_rows = 0",
            "kind = 'relative-error-below'\nestimators = ['kl-dime']\nchain = 4\n\
             limits = [{ scenario = 'gaussian', dim = 20, below = 9 }]",
            "kind = 'smaller-bias'\nestimator = 'kl-dime'\nthan = 'cpc'\nat_mi = 10",
            "kind = 'near-truth'\nestimators = ['kl-dime']\nrelative = 9\nabsolute = 9",
            "kind = 'fails'\nestimators = ['kl-dime']\nshare = 0",
            "kind = 'grades-agree'\nshare = 0.0",
        ];
        for claim in claims {
            let verdict = check(claim, &Results::default());
            assert!(!verdict.passed && verdict.detail.contains("measured"), "{verdict:?}");
        }
    }

    #[test]
    fn misspelt_estimators_and_unknown_fields_are_refused() {
        let error = |claim: &str| toml::from_str::<AnyClaim>(claim).unwrap_err().to_string();
        let claim = "kind = 'rises'\nestimators = ['kl-dmie']\nslack = 0.1";
        assert!(error(claim).contains("kl-dime"));
        assert!(error("kind = 'grades-agree'\nshare = 1.0\nsahre = 1.0").contains("sahre"));
        assert!(error("kind = 'agrees'").contains("agrees"));
    }
}
