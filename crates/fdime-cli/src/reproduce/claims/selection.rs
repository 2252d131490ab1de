use super::Fact;
use crate::reproduce::results::StaircaseResult;

/// The staircases that a claim is about.
pub struct Selection<'a, 'b> {
    pub estimators: Vec<&'b str>,
    pub staircases: Vec<&'a StaircaseResult<'a>>,
}

impl Selection<'_, '_> {
    /// Returns the facts about each staircase, after those that do not hold: for every estimator
    /// without facts, and for every staircase that some run did not finish.
    pub fn facts<I: IntoIterator<Item = Fact>>(
        &self,
        facts: impl Fn(&StaircaseResult) -> I,
    ) -> Vec<Fact> {
        let mut all = self.unfinished();
        all.extend(self.facts_of_unfinished(facts));
        all
    }

    /// Returns the same facts, but accepts staircases that some run did not finish.
    pub fn facts_of_unfinished<I: IntoIterator<Item = Fact>>(
        &self,
        facts: impl Fn(&StaircaseResult) -> I,
    ) -> Vec<Fact> {
        let (mut unmeasured, mut all) = (self.estimators.clone(), Vec::new());
        for staircase in &self.staircases {
            let before = all.len();
            all.extend(facts(staircase));
            if all.len() > before {
                unmeasured.retain(|name| *name != staircase.estimator());
            }
        }
        unmeasured.into_iter().map(Fact::not_measured).chain(all).collect()
    }

    /// Returns a fact that does not hold for every estimator without a staircase, and for every
    /// staircase that some run did not finish.
    pub fn gaps(&self) -> Vec<Fact> {
        let measured = |name: &&&str| self.staircases.iter().any(|s| s.estimator() == **name);
        let unmeasured = self.estimators.iter().filter(|name| !measured(name));
        unmeasured.map(|name| Fact::not_measured(name)).chain(self.unfinished()).collect()
    }

    fn unfinished(&self) -> Vec<Fact> {
        let unfinished = self.staircases.iter().filter(|staircase| !staircase.is_complete());
        unfinished
            .map(|s| {
                let (name, scenario, label) = (s.estimator(), &s.plan.scenario.name, s.label());
                Fact::new(false, format!("{name} {scenario} {label}: finished by every run"))
            })
            .collect()
    }
}
