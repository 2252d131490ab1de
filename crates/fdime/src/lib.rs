//! Mutual information estimation by f-divergences and data derangements (f-DIME).
//!
//! How much does x tell us about y? [`MutualInformation`] estimates it from data, with an interval,
//! a test of independence and a verdict on the reliability:
//!
//! ```
//! use fdime::MutualInformation;
//! use fdime::estimate::Effort;
//!
//! let x: Vec<f64> = (0..300).map(|k| f64::from(k * 37 % 300)).collect();
//! let y: Vec<f64> = x.iter().map(|x| (x / 50.0).sin()).collect();
//! let result = MutualInformation::between(&x, &y).effort(Effort::Quick).run()?;
//! assert!(result.mi.0 > 1.0);
//! assert!(result.independence.is_some_and(|test| test.p_value < 0.05));
//! # Ok::<(), fdime::Error>(())
//! ```
//!
//! [`MutualInformation::in_file`] reads CSV, Parquet, Arrow and NumPy files; [`estimate`] contains
//! the implementation and all settings.
//!
//! Estimators are studied on distributions with known mutual information. A [`RunPlan`] is a
//! training on a staircase of levels, as plain data; an [`Engine`] executes it and returns a [`Trace`]; a
//! [`LevelSummary`] has bias and variance:
//!
//! ```
//! use fdime::{
//!     CpuEngine, CriticKind, CriticPlan, Engine, Estimator, Level, RunPlan, ScenarioPlan, silent,
//! };
//!
//! let mut plan = RunPlan::new(
//!     ScenarioPlan::new("gaussian", 2)?,
//!     "gan-dime".parse::<Estimator>()?,
//!     CriticPlan::new(CriticKind::Deranged, &[32, 32]),
//! );
//! plan.schedule.levels = vec![Level::Mi(1.0)];
//! plan.schedule.iterations = 500;
//! plan.training.optimizer.learning_rate = 5e-3;
//! let trace = CpuEngine::new(2).run(&[plan], &silent).remove(0)?;
//! let level = &trace.summarise(100)[0];
//! assert!((level.mean.0 - 1.0).abs() < 0.3, "{}", level.mean);
//! # Ok::<(), fdime::Error>(())
//! ```
//!
//! Everything works with the log density ratio l = ln p(x,y) / (p(x) p(y)), whose mean over joint
//! samples is the mutual information; the mathematics is in [`divergence`].
//!
//! # Features
//!
//! `parquet`, `arrow` and `npz` read those files, `cuda` trains on NVIDIA GPUs, `custom-f` reads
//! divergences from formulas; all are on by default. `ndarray` takes samples from array views.

// Some internal functions are only called by optional features.
#![cfg_attr(
    not(all(feature = "arrow", feature = "cuda", feature = "npz", feature = "parquet")),
    allow(dead_code)
)]

pub mod baseline;
mod chain;
pub mod channel;
pub mod critic;
pub mod data;
pub mod divergence;
pub mod engine;
mod error;
pub mod estimate;
pub mod journal;
mod link;
mod memory;
mod message;
mod mutual_information;
pub mod names;
mod nats;
pub mod nn;
pub mod numerics;
pub mod objective;
mod pairing;
pub mod parallel;
pub mod random;
pub mod scenario;
pub mod scores;
pub mod train;

pub use chain::{Chain, ColumnSelection, Term};
pub use critic::{CriticKind, CriticPlan};
pub use data::{PairTable, Reading, load_pairs, panic_is_caught};
pub use divergence::{CustomDivergence, Divergence};
pub use engine::{CpuEngine, CudaEngine, Device, DeviceChoice, Engine, Precision, Task};
pub use error::{Error, Result, nearest_name};
pub use link::Link;
pub use message::{Message, Neutral, Parameter, Wording, counted, printable};
pub use mutual_information::{IntoColumns, MutualInformation};
pub use nats::Nats;
pub use nn::{Activation, AdamPlan};
pub use objective::{Estimator, Readout};
pub use pairing::Pairing;
pub use scenario::{
    AnyTask, ConditionalScenario, ConditionalTask, DrawnImages, Level, PairSource, Scenario,
    ScenarioName, ScenarioPlan, SuiteTask, TaskTable, TransferTask, bmi_suite, bmi2_suite,
    conditional_suite, parse_levels, suite_named, tasks_named, transfer_suite,
};
pub use train::{
    AnyEstimator, BatchSource, Ending, LearnerPlan, LevelSummary, Observer, RunPlan, RunsSummary,
    Schedule, StepRecord, Trace, Training, silent, summarise_runs,
};
