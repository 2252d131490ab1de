use super::njee::Njee;
use crate::critic::CriticPlan;
use crate::error::{Result, invalid};
use crate::message::Parameter;
use crate::nn::AdamPlan;
use crate::objective::Estimator;
use crate::pairing::Pairing;
use crate::scenario::{Level, PairSource, ScenarioPlan};
use serde::{Deserialize, Serialize};

/// Everything about a run, as plain data: written to a file and run again, it gives the same numbers,
/// whatever the number of threads. (Other vector units sum in another order: on another kind of
/// processor, results agree to rounding, which training amplifies. A GPU also draws other random numbers.)
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunPlan {
    /// Where samples come from.
    pub scenario: ScenarioPlan,
    /// Cost, link and readout.
    pub estimator: Estimator,
    /// The network.
    pub critic: CriticPlan,
    /// How marginal pairs are made.
    pub pairing: Pairing,
    /// Joint samples in a step.
    pub batch: usize,
    /// What is sampled when.
    pub schedule: Schedule,
    /// The optimiser.
    pub optimizer: AdamPlan,
    /// The seed of all randomness.
    pub seed: u64,
}

/// A staircase: at every level so many iterations, network and optimiser carried on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// The levels, in order.
    pub levels: Vec<Level>,
    /// Iterations at each level.
    pub iterations: usize,
}

/// More would not fit into a trace.
const MOST_ITERATIONS: usize = 1_000_000_000;

/// Bytes of memory that are free, where the system tells.
fn available_memory() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kilobytes| kilobytes * 1024.0)
}

impl RunPlan {
    /// The paper's settings: batches of 64, 4000 iterations at each of the scenario's levels,
    /// Adam with a learning rate of 5e-4, the critic's own pairing.
    pub fn new(scenario: ScenarioPlan, estimator: Estimator, critic: CriticPlan) -> Self {
        RunPlan {
            pairing: critic.kind.default_pairing(),
            schedule: Schedule { levels: scenario.default_levels(), iterations: 4000 },
            scenario,
            estimator,
            critic,
            batch: 64,
            optimizer: AdamPlan::default(),
            seed: 0,
        }
    }

    /// The total number of iterations.
    pub fn iterations(&self) -> usize {
        self.schedule.levels.len() * self.schedule.iterations
    }

    /// Refuses what cannot be run, naming the parameter.
    pub fn check(&self) -> Result<()> {
        if self.batch < 2 {
            let expected = "at least 2 samples are needed to pair x with another y";
            return Err(invalid(Parameter::Batch, self.batch, expected));
        }
        if self.batch > u32::MAX as usize {
            return Err(invalid(
                Parameter::Batch,
                self.batch,
                "a batch holds at most 2^32 - 1 samples",
            ));
        }
        if self.schedule.levels.is_empty() {
            return Err(invalid(
                Parameter::Levels,
                "[]",
                "at least one level is needed, e.g. 2,4,6,8,10",
            ));
        }
        if self.schedule.iterations == 0 {
            return Err(invalid(Parameter::Iterations, 0, "at least one iteration at each level"));
        }
        if self.schedule.levels.len().saturating_mul(self.schedule.iterations) > MOST_ITERATIONS {
            let expected = "a run has at most 10^9 iterations over all levels";
            return Err(invalid(Parameter::Iterations, self.schedule.iterations, expected));
        }
        self.critic.check()?;
        if self.estimator.has_critic() {
            self.critic.kind.check_pairing(self.pairing)?;
            self.estimator.check_pairing(self.pairing)?;
        }
        self.optimizer.check()?;
        self.schedule.levels.iter().try_for_each(|level| {
            let dims = self.scenario.at(*level)?.dims();
            if self.estimator.has_critic() { self.critic.check_dims(dims) } else { Ok(()) }
        })
    }

    /// Refuses what does not fit into the processor's memory.
    pub fn check_memory(&self) -> Result<()> {
        let Some(&level) = self.schedule.levels.first() else { return Ok(()) };
        let dims = self.scenario.at(level)?.dims();
        let needed = match self.estimator.has_critic() {
            true => self.critic.memory(dims, self.batch, self.pairing),
            false => Njee::memory(&self.critic, dims, self.batch),
        };
        match available_memory() {
            Some(available) if needed > available => Err(invalid(
                Parameter::Batch,
                self.batch,
                format!(
                    "with this critic it takes about {:.1} GB of memory, and {:.1} GB are free; \
                     use a smaller batch, or critic deranged",
                    needed / 1e9,
                    available / 1e9
                ),
            )),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::critic::CriticKind;

    fn plan(critic: CriticKind, estimator: &str) -> RunPlan {
        RunPlan::new(
            ScenarioPlan::new("cubic", 3).unwrap(),
            estimator.parse().unwrap(),
            CriticPlan::new(critic, &[8]),
        )
    }

    #[test]
    fn a_plan_survives_the_way_through_a_file() {
        let mut plan = plan(CriticKind::Separable, "smile-inf");
        plan.schedule.levels = vec![Level::Mi(2.0), Level::Rho(0.5)];
        let json = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<RunPlan>(&json).unwrap(), plan);
        let misspelt = json.replace("\"batch\"", "\"btach\"");
        assert!(serde_json::from_str::<RunPlan>(&misspelt).is_err());
    }

    #[test]
    fn impossible_plans_are_refused_by_name() {
        let refused = |change: &dyn Fn(&mut RunPlan)| {
            let mut plan = plan(CriticKind::Deranged, "kl-dime");
            plan.check().unwrap();
            change(&mut plan);
            plan.check().and_then(|()| plan.check_memory()).unwrap_err().to_string()
        };
        assert!(refused(&|p| p.batch = 1).contains("batch"));
        assert!(refused(&|p| p.schedule.levels.clear()).contains("levels"));
        assert!(refused(&|p| p.schedule.levels = vec![Level::Mi(-1.0)]).contains("levels"));
        assert!(refused(&|p| p.schedule.iterations = 0).contains("iterations"));
        assert!(refused(&|p| p.schedule.iterations = usize::MAX).contains("iterations"));
        assert!(refused(&|p| p.critic.hidden = vec![60_000; 40]).contains("GB"));
        assert!(refused(&|p| p.pairing = Pairing::AllPairs).contains("pairing"));
        assert!(refused(&|p| p.critic.hidden.clear()).contains("hidden"));
        assert!(refused(&|p| p.scenario.dim = 0).contains("dim"));
        assert!(refused(&|p| p.estimator = "cpc".parse().unwrap()).contains("cpc"));
    }
}
