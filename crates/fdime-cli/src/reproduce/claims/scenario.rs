use fdime::RunPlan;
use serde::Deserialize;
use std::fmt::{Display, Formatter, Result};

/// The scenario that a claim is restricted to, if any.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub struct ScenarioFilter(Option<String>);

impl ScenarioFilter {
    pub fn accepts(&self, plan: &RunPlan) -> bool {
        self.0.as_ref().is_none_or(|name| *name == plan.scenario.name.to_string())
    }
}

impl Display for ScenarioFilter {
    fn fmt(&self, f: &mut Formatter) -> Result {
        self.0.as_ref().map_or(Ok(()), |name| write!(f, " on {name}"))
    }
}
