use fdime::{BatchSource, Chain, RunPlan};
use serde::Deserialize;
use std::fmt::{Display, Formatter, Result};
use std::num::NonZeroUsize;

/// The blocks of chained estimates for any dimension, as recipes write them: this many blocks, or as
/// many as y has columns if those are fewer. One block is a direct estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct BlockLimit(pub NonZeroUsize);

impl BlockLimit {
    pub const DIRECT: BlockLimit = BlockLimit(NonZeroUsize::MIN);

    /// Returns the chain for the y of this plan; `None` for a direct estimate.
    pub fn chain(self, plan: &RunPlan) -> fdime::Result<Option<Chain>> {
        let blocks = self.0.get().min(plan.staircase()?.dims().1);
        Ok((blocks > 1).then_some(Chain::Equal(blocks)))
    }
}

impl Display for BlockLimit {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self.0.get() {
            1 => write!(f, "direct"),
            blocks => write!(f, "chains of up to {blocks} blocks"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdime::{CriticKind, CriticPlan, Estimator, ScenarioPlan};

    #[test]
    fn blocks_have_at_least_one_column() {
        let chain = |blocks| {
            let critic = CriticPlan::new(CriticKind::Deranged, &[8]);
            let scenario = ScenarioPlan::new("gaussian", 20).unwrap();
            let estimator = "gan-dime".parse::<Estimator>().unwrap();
            let plan = RunPlan::new(scenario, estimator, critic);
            BlockLimit(NonZeroUsize::new(blocks).unwrap()).chain(&plan).unwrap()
        };
        assert_eq!(chain(1), None);
        assert_eq!(chain(16), Some(Chain::Equal(16)));
        assert_eq!(chain(32), Some(Chain::Equal(20)));
    }
}
