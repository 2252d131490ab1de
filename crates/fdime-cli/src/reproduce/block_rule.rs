use fdime::{BatchSource, Chain, RunPlan};
use serde::Deserialize;
use std::fmt::{Display, Formatter, Result};
use std::num::NonZeroUsize;

/// The blocks of chained estimates for any dimension, as recipes write them: `16` for a chain of 16
/// blocks, `{ columns = 10 }` for blocks of at most 10 columns. One block is a direct estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "a chain is a number of blocks, such as 16, or { columns = 10 }"
)]
pub enum BlockRule {
    Blocks(usize),
    Columns { columns: NonZeroUsize },
}

impl BlockRule {
    pub const DIRECT: BlockRule = BlockRule::Blocks(1);

    /// Returns the chain for the y of this plan; `None` for a direct estimate.
    pub fn chain(self, plan: &RunPlan) -> fdime::Result<Option<Chain>> {
        let blocks = match self {
            BlockRule::Blocks(blocks) => blocks,
            BlockRule::Columns { columns } => plan.staircase()?.dims().1.div_ceil(columns.get()),
        };
        Ok((blocks != 1).then_some(Chain::Equal(blocks)))
    }
}

impl Display for BlockRule {
    fn fmt(&self, f: &mut Formatter) -> Result {
        match self {
            BlockRule::Blocks(1) => write!(f, "direct"),
            BlockRule::Blocks(blocks) => write!(f, "chain of {blocks}"),
            BlockRule::Columns { columns } => write!(f, "chain with blocks of {columns} columns"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fdime::{CriticKind, CriticPlan, Estimator, ScenarioPlan};

    #[derive(Deserialize)]
    struct Written {
        chain: BlockRule,
    }

    #[test]
    fn rules_are_numbers_of_blocks_or_of_columns() {
        let chain = |text: &str| {
            let Written { chain } = toml::from_str(&format!("chain = {text}")).unwrap();
            let critic = CriticPlan::new(CriticKind::Deranged, &[8]);
            let scenario = ScenarioPlan::new("gaussian", 20).unwrap();
            let estimator = "gan-dime".parse::<Estimator>().unwrap();
            chain.chain(&RunPlan::new(scenario, estimator, critic)).unwrap()
        };
        assert_eq!(chain("1"), None);
        assert_eq!(chain("16"), Some(Chain::Equal(16)));
        assert_eq!(chain("{ columns = 20 }"), None);
        assert_eq!(chain("{ columns = 6 }"), Some(Chain::Equal(4)));
        let refused = |text: &str| {
            let error = toml::from_str::<Written>(&format!("chain = {text}")).err().unwrap();
            assert!(error.to_string().contains("{ columns = 10 }"), "{error}");
        };
        ["{ columns = 0 }", "{ columns = 2, rows = 3 }", "-1", "'many'"]
            .into_iter()
            .for_each(refused);
    }
}
