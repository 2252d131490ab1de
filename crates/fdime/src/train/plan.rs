use super::source::BatchSource;
use super::{AnyEstimator, LearnerPlan, Staircase, Training};
use crate::chain::Term;
use crate::critic::CriticPlan;
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::scenario::{Level, ScenarioPlan};
use serde::{Deserialize, Serialize};

/// A training on a staircase, as plain data. Written to a file and run again, it gives the same
/// numbers with any number of threads. On another kind of processor results agree only to rounding,
/// which training amplifies, because vector units sum in another order; a GPU also draws other
/// random numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// The distribution of the samples.
    pub scenario: ScenarioPlan,
    /// The training.
    #[serde(flatten)]
    pub training: Training,
    /// The levels and the iterations at each.
    pub schedule: Schedule,
    /// The term of a chain that is trained, instead of I(X; Y) itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<Term>,
}

/// The levels of a staircase. Network and optimizer are carried over from level to level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The levels, in order.
    pub levels: Vec<Level>,
    /// The number of iterations at each level.
    pub iterations: usize,
}

/// The maximum number of iterations; the trace of a longer run would not fit into memory.
const MAX_ITERATIONS: usize = 1_000_000_000;

impl Schedule {
    /// Returns the number of iterations over all levels.
    pub fn total(&self) -> usize {
        self.levels.len().saturating_mul(self.iterations)
    }

    /// Checks that there are levels and iterations, and not too many.
    pub fn check(&self) -> Result<()> {
        if self.levels.is_empty() {
            return Err(invalid(
                Parameter::Levels,
                "[]",
                "at least one level is needed, e.g. 2,4,6,8,10",
            ));
        }
        if self.iterations == 0 {
            return Err(invalid(
                Parameter::Iterations,
                0,
                "must be at least one iteration at each level",
            ));
        }
        if self.total() > MAX_ITERATIONS {
            let expected = "a run has at most 10^9 iterations over all levels";
            return Err(invalid(Parameter::Iterations, self.iterations, expected));
        }
        Ok(())
    }
}

impl RunPlan {
    /// Returns a plan with the paper's settings: batches of 64, 4000 iterations at each of the
    /// scenario's levels, Adam with a learning rate of 5e-4, and the critic's default pairing.
    pub fn new(
        scenario: ScenarioPlan,
        estimator: impl Into<AnyEstimator>,
        critic: CriticPlan,
    ) -> Self {
        RunPlan {
            schedule: Schedule { levels: scenario.default_levels(), iterations: 4000 },
            scenario,
            training: Training::new(LearnerPlan::new(&estimator.into(), &critic)),
            term: None,
        }
    }

    /// Returns the source of the samples, or an error if a level or the term does not exist.
    pub fn staircase(&self) -> Result<Staircase> {
        Staircase::new(&self.scenario, &self.schedule)?.with_term(self.term.as_ref())
    }

    /// Checks that the plan can be run.
    ///
    /// # Errors
    /// The first invalid setting.
    pub fn check(&self) -> Result<()> {
        self.training.check()?;
        if let (Some(term), LearnerPlan::Njee(_)) = (&self.term, &self.training.learner) {
            let expected = "njee has no critic that reads a log ratio, so it has no chain";
            return Err(invalid(Parameter::Chain, &term.chain, expected));
        }
        self.training.learner.check_dims(self.staircase()?.dims())
    }

    /// Checks that the plan fits into the memory that is free.
    pub fn check_memory(&self) -> Result<()> {
        self.training.check_memory(self.staircase()?.dims())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critic::CriticKind;
    use crate::pairing::Pairing;
    use crate::train::CriticLearner;

    fn plan(critic: CriticKind, estimator: &str) -> RunPlan {
        RunPlan::new(
            ScenarioPlan::new("cubic", 3).unwrap(),
            estimator.parse::<AnyEstimator>().unwrap(),
            CriticPlan::new(critic, &[8]),
        )
    }

    #[test]
    fn plans_round_trip_through_json_and_unknown_keys_are_refused() {
        for estimator in ["smile-inf", "njee"] {
            let mut plan = plan(CriticKind::Separable, estimator);
            plan.schedule.levels = vec![Level::Mi(2.0), Level::Rho(0.5)];
            let json = serde_json::to_string(&plan).unwrap();
            assert_eq!(serde_json::from_str::<RunPlan>(&json).unwrap(), plan);
            let misspelt = json.replace("\"batch\"", "\"btach\"");
            assert!(serde_json::from_str::<RunPlan>(&misspelt).is_err());
            let unknown = json.replacen('{', "{\"other\":1,", 1);
            assert!(serde_json::from_str::<RunPlan>(&unknown).is_err());
        }
    }

    #[test]
    fn a_plan_without_a_learner_is_refused() {
        let json = serde_json::to_string(&plan(CriticKind::Joint, "gan-dime")).unwrap();
        let without = json.replace("\"pairing\":\"all-pairs\",", "");
        assert_ne!(without, json);
        let error = serde_json::from_str::<RunPlan>(&without).unwrap_err().to_string();
        assert!(error.contains("estimator, critic and pairing"), "{error}");
    }

    #[test]
    fn impossible_plans_are_refused_with_the_parameter() {
        let refused = |change: &dyn Fn(&mut RunPlan)| {
            let mut plan = plan(CriticKind::Deranged, "kl-dime");
            plan.check().unwrap();
            change(&mut plan);
            plan.check().unwrap_err().to_string()
        };
        fn critic(plan: &mut RunPlan) -> &mut CriticLearner {
            plan.training.learner.critic_mut().unwrap()
        }
        assert!(refused(&|p| p.training.batch = 1).contains("batch"));
        assert!(refused(&|p| p.schedule.levels.clear()).contains("levels"));
        assert!(refused(&|p| p.schedule.levels = vec![Level::Mi(-1.0)]).contains("levels"));
        assert!(refused(&|p| p.schedule.iterations = 0).contains("iterations"));
        assert!(refused(&|p| p.schedule.iterations = usize::MAX).contains("iterations"));
        assert!(refused(&|p| critic(p).pairing = Pairing::AllPairs).contains("pairing"));
        assert!(refused(&|p| critic(p).critic.hidden.clear()).contains("hidden"));
        assert!(refused(&|p| p.scenario.dim = 0).contains("dim"));
        assert!(refused(&|p| critic(p).estimator = "cpc".parse().unwrap()).contains("cpc"));
    }

    #[test]
    fn plans_larger_than_the_memory_are_refused_with_the_parameter() {
        let refused = |change: &dyn Fn(&mut RunPlan)| {
            let mut plan = plan(CriticKind::Joint, "kl-dime");
            plan.check_memory().unwrap();
            change(&mut plan);
            plan.check().unwrap();
            plan.check_memory().unwrap_err().to_string()
        };
        let wide = refused(&|p| {
            p.training.learner.critic_mut().unwrap().critic.hidden = vec![60_000; 60];
        });
        assert!(wide.starts_with("hidden = 60000,") && wide.contains("GB"), "{wide}");
        let large = refused(&|p| p.training.batch = 4_000_000_000);
        assert!(large.starts_with("batch = 4000000000: ") && large.contains("GB"), "{large}");
    }
}
