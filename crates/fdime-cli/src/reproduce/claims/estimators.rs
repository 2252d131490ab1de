use fdime::Estimator;
use serde::Deserialize;
use std::fmt::{Display, Formatter, Result};

/// The name of an estimator. Names of unknown estimators are refused when a recipe is read, because
/// a claim about one could never fail for the right reason.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct EstimatorName(String);

impl TryFrom<String> for EstimatorName {
    type Error = fdime::Error;

    fn try_from(name: String) -> fdime::Result<Self> {
        name.parse::<Estimator>()?;
        Ok(EstimatorName(name))
    }
}

impl EstimatorName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Display for EstimatorName {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str(&self.0)
    }
}

/// The names of the estimators that a claim is about.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
pub struct EstimatorNames(Vec<EstimatorName>);

impl EstimatorNames {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(EstimatorName::as_str)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|known| known == name)
    }
}

impl Display for EstimatorNames {
    fn fmt(&self, f: &mut Formatter) -> Result {
        f.write_str(&self.iter().collect::<Vec<_>>().join(", "))
    }
}
