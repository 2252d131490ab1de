//! Work on tables: trainings on their rows, and scores of pairs of rows. Jobs of equal shape run as
//! one program.

use super::device_error;
use super::launcher::{Launcher, captured_steps, runs_that_fit};
use super::plan::{GpuPlan, RunSpec, initial_parameters};
use super::program::{Needs, SampleShape, Shape};
use super::session::{Replay, Session};
use super::table::{Capacity, HELD_OUT_BLOCK, KnownLists, Lists, PairList, RunTable};
use crate::critic::Inputs;
use crate::engine::Scoring;
use crate::error::Result;
use crate::nats::Nats;
use crate::objective::Estimator;
use crate::parallel::{run_jobs, thread_count};
use crate::train::{Checkpoint, CurvePoint, HeldOutPairs, Validation};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;

/// A training on the rows of a table.
pub(super) struct TrainingJob {
    pub(super) shape: Shape,
    pub(super) spec: RunSpec<'static>,
    pub(super) estimator: Estimator,
    /// The initial parameters.
    pub(super) parameters: Vec<f32>,
    /// The rows for training, then those that are held out.
    pub(super) inputs: Inputs,
    pub(super) train: usize,
    pub(super) held_out: Option<HeldOutPairs>,
    /// The held-out pairs that are scored one by one.
    listed: PairList,
    pub(super) reply: Reply,
}

/// The pairs of rows of a table that a trained critic scores.
pub(super) struct ScoringJob {
    pub(super) shape: Shape,
    pub(super) spec: RunSpec<'static>,
    pub(super) parameters: Vec<f32>,
    pub(super) inputs: Inputs,
    pub(super) pairs: PairList,
    pub(super) reply: Sender<Result<Vec<f32>>>,
}

impl TrainingJob {
    /// Computes the inputs and the initial parameters of a plan on the rows of a table.
    pub(super) fn new(plan: &GpuPlan, known: &KnownLists, reply: Reply) -> Result<Self> {
        let source = plan.table().ok_or_else(|| device_error("the samples are not a table"))?;
        let learner = plan.critic().ok_or_else(|| device_error("njee needs fresh samples"))?;
        let inputs = source.inputs()?;
        let shape = Shape::from_plan(plan)?;
        let held_out = HeldOutPairs::new(learner, source.held_out_rows());
        let listed = held_out.filter(|_| !computes_blocks(&shape)).map(HeldOutPairs::pairs);
        Ok(TrainingJob {
            shape,
            spec: RunSpec::for_table(plan),
            estimator: learner.estimator.clone(),
            parameters: initial_parameters(plan)?.remove(0),
            inputs,
            train: source.training_rows(),
            held_out,
            listed: known.list(&listed.unwrap_or_default()),
            reply,
        })
    }
}

impl ScoringJob {
    pub(super) fn new(
        scoring: &Scoring,
        known: &KnownLists,
        reply: Sender<Result<Vec<f32>>>,
    ) -> Self {
        let Scoring { critic, parameters, inputs, pairs } = *scoring;
        ScoringJob {
            shape: Shape::for_scores(critic, inputs.dims),
            spec: RunSpec::for_scores(inputs.dims),
            parameters: parameters.to_vec(),
            inputs: inputs.clone(),
            pairs: known.list(pairs),
            reply,
        }
    }
}

/// Where a training reports.
pub(super) struct Reply {
    /// The index of the training among those of its sender.
    pub(super) index: usize,
    pub(super) sender: Sender<(usize, Event)>,
    /// Whether the sender no longer wants the training.
    pub(super) is_stopped: Arc<AtomicBool>,
}

/// What a training reports.
pub(super) enum Event {
    /// The objective and the estimate of the next steps.
    Steps(Vec<(f64, Nats)>),
    /// The checks of the held-out rows and the best parameters, at the end.
    Finished(Result<(Vec<CurvePoint>, Option<Checkpoint>)>),
}

impl Reply {
    pub(super) fn send(&self, event: Event) {
        // A sender that has given up does not listen.
        let _ = self.sender.send((self.index, event));
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }
}

/// A job whose table is loaded with those of the others.
trait TableJob {
    fn shape(&self) -> &Shape;
    fn table(&self) -> RunTable<'_>;
    /// Returns the pairs that are scored one by one.
    fn listed(&self) -> &PairList;
}

impl TableJob for TrainingJob {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn table(&self) -> RunTable<'_> {
        RunTable { inputs: &self.inputs, train: self.train }
    }

    fn listed(&self) -> &PairList {
        &self.listed
    }
}

impl TableJob for ScoringJob {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn table(&self) -> RunTable<'_> {
        RunTable { inputs: &self.inputs, train: 0 }
    }

    fn listed(&self) -> &PairList {
        &self.pairs
    }
}

/// Returns whether checks compute the objective on blocks of rows.
fn computes_blocks(shape: &Shape) -> bool {
    matches!(shape.samples, SampleShape::Table(table) if table.blocks)
}

fn lists<J: TableJob>(jobs: &[J]) -> Lists {
    let mut lists = Lists::default();
    jobs.iter().for_each(|job| lists.add(job.listed()));
    lists
}

/// Returns the shape of jobs that run together, with the capacity for their tables.
fn common_shape<J: TableJob>(jobs: &[J], lists: &Lists, checks: usize) -> Shape {
    let mut shape = jobs[0].shape().clone();
    if let SampleShape::Table(table) = &mut shape.samples {
        let largest = |size: &dyn Fn(RunTable) -> usize| {
            jobs.iter().map(|job| size(job.table())).max().unwrap_or(0)
        };
        table.capacity = Capacity {
            reference_width: largest(&|table| table.inputs.reference.width),
            // A run without held-out rows still reads the row after its last.
            rows: largest(&|table| table.inputs.rows().max(table.train + 1)),
            listed: lists.places.iter().map(ExactSizeIterator::len).max().unwrap_or(0),
            all_listed: lists.pairs.len(),
            held_out: largest(&|table| table.inputs.rows() - table.train),
            checks,
        };
    }
    shape
}

/// Returns a session for as many of the jobs, from the first on, as fit into the memory, with their
/// tables. `steps` is the number of steps to capture if possible.
fn session<'a, J: TableJob>(
    launcher: &'a Launcher,
    jobs: &[J],
    needs: Needs,
    steps: usize,
    checks: usize,
) -> Result<(Session<'a>, usize)> {
    let measured = |runs: usize| {
        let lists = lists(&jobs[..runs]);
        let shape = common_shape(&jobs[..runs], &lists, checks);
        let steps = captured_steps(&shape, runs, steps);
        (launcher.bytes(&shape, needs, runs, steps), shape, lists, steps)
    };
    let (free, guard) = launcher.free_memory()?;
    let Some(runs) = runs_that_fit(jobs.len(), free, |runs| measured(runs).0) else {
        return Err(launcher.too_large(measured(1).0, free));
    };
    let (_, shape, lists, steps) = measured(runs);
    let session = launcher.session(&shape, needs, runs, steps)?;
    drop(guard);
    let tables: Vec<RunTable> = jobs[..runs].iter().map(J::table).collect();
    session.load_tables(&tables, &lists)?;
    Ok((session, runs))
}

/// Scores the pairs of all jobs.
pub(super) fn score(launcher: &Launcher, mut jobs: &[ScoringJob]) {
    while !jobs.is_empty() {
        match score_together(launcher, jobs) {
            Ok(done) => jobs = &jobs[done..],
            Err(error) => {
                for job in jobs {
                    let _ = job.reply.send(Err(error.clone()));
                }
                return;
            }
        }
    }
}

/// Scores the pairs of as many jobs as fit into the memory, and returns their number.
fn score_together(launcher: &Launcher, jobs: &[ScoringJob]) -> Result<usize> {
    let (session, runs) = session(launcher, jobs, Needs::default(), 1, 0)?;
    let jobs = &jobs[..runs];
    let specs: Vec<&RunSpec> = jobs.iter().map(|job| &job.spec).collect();
    let parameters: Vec<&[f32]> = jobs.iter().map(|job| &job.parameters[..]).collect();
    session.load_runs(&specs, &parameters)?;
    session.score_listed()?;
    let counts: Vec<usize> = jobs.iter().map(|job| job.pairs.len()).collect();
    for (job, scores) in jobs.iter().zip(session.scores(&counts)?) {
        let _ = job.reply.send(Ok(scores));
    }
    Ok(runs)
}

/// Executes the trainings.
pub(super) fn train(launcher: &Launcher, mut jobs: &[TrainingJob]) {
    while !jobs.is_empty() {
        match train_together(launcher, jobs) {
            Ok(done) => jobs = &jobs[done..],
            Err(error) => {
                for job in jobs {
                    job.reply.send(Event::Finished(Err(error.clone())));
                }
                return;
            }
        }
    }
}

/// Executes as many trainings as fit into the memory, and returns their number.
fn train_together(launcher: &Launcher, jobs: &[TrainingJob]) -> Result<usize> {
    let steps = jobs[0].shape.per_level;
    let validation = Validation::new(steps);
    let checks: Vec<usize> = (0..=steps).filter(|step| validation.is_due(*step)).collect();
    let longest = checks.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(1);
    let needs = Needs::of(jobs.iter().map(|job| &job.estimator));
    let (session, runs) = session(launcher, jobs, needs, longest, checks.len())?;
    let jobs = &jobs[..runs];
    let specs: Vec<&RunSpec> = jobs.iter().map(|job| &job.spec).collect();
    let parameters: Vec<&[f32]> = jobs.iter().map(|job| &job.parameters[..]).collect();
    session.load_runs(&specs, &parameters)?;

    let has_held_out = jobs.iter().any(|job| job.held_out.is_some());
    let first_held_out = jobs.iter().map(|job| job.train).min().unwrap_or(0);
    let mut progress = TrainingProgress { jobs, trace: Vec::new() };
    let mut replay = Replay::new(&session)?;
    let mut graphs = HashMap::new();
    // The numbers of steps of replays that were started, and the number of those that have finished.
    let (mut started, mut finished) = (Vec::new(), 0);
    if has_held_out {
        session.check(0, first_held_out)?;
    }
    for (check, step) in (1..).zip(&checks[1..]) {
        let mut left = step - started.iter().sum::<usize>();
        while left > 0 {
            let count = left.min(session.captured_steps());
            if started.len() > finished + 1 {
                progress.report(replay.finish(finished)?, started[finished]);
                finished += 1;
                if jobs.iter().all(|job| job.reply.is_stopped()) {
                    return Ok(runs);
                }
            }
            if let Entry::Vacant(graph) = graphs.entry(count) {
                graph.insert(session.capture(count)?);
            }
            replay.start(&graphs[&count])?;
            started.push(count);
            left -= count;
        }
        if has_held_out {
            session.check(check, first_held_out)?;
        }
    }
    for (number, steps) in started.iter().enumerate().skip(finished) {
        progress.report(replay.finish(number)?, *steps);
    }
    progress.conclude(&session, &checks, has_held_out)?;
    Ok(runs)
}

/// The trainings of a program while it runs.
struct TrainingProgress<'a> {
    jobs: &'a [TrainingJob],
    /// Steps x runs x 2: objective and estimate.
    trace: Vec<f64>,
}

impl TrainingProgress<'_> {
    /// Reports steps to the jobs.
    fn report(&mut self, trace: &[f64], steps: usize) {
        let runs = self.jobs.len();
        let trace = &trace[..2 * runs * steps];
        for (run, job) in self.jobs.iter().enumerate() {
            let values =
                trace.chunks_exact(2 * runs).map(|step| (step[2 * run], step[2 * run + 1]));
            let values = values.map(|(value, estimate)| (value, Nats(estimate)));
            job.reply.send(Event::Steps(values.collect()));
        }
        self.trace.extend_from_slice(trace);
    }

    /// Chooses the best parameters of each training and reports its end.
    fn conclude(&self, session: &Session, checks: &[usize], has_held_out: bool) -> Result<()> {
        let runs = self.jobs.len();
        let choose = |scores: &[f32]| {
            let per_run = scores.len() / (runs * checks.len());
            run_jobs(thread_count(0), runs, |run, _| {
                let of_check = |check: usize| &scores[(check * runs + run) * per_run..][..per_run];
                self.validated(run, checks, of_check)
            })
        };
        let chosen = match has_held_out {
            true => session.scores_of_checks(choose)?,
            false => choose(&[]),
        };
        let selected: Vec<u32> = chosen.iter().map(|chosen| chosen.selected as u32).collect();
        let dims = self.jobs[0].inputs.dims;
        let parameters = match has_held_out {
            true => session.parameters_of(&selected, dims)?,
            false => vec![Vec::new(); runs],
        };
        for (job, (chosen, parameters)) in self.jobs.iter().zip(chosen.into_iter().zip(parameters))
        {
            let best = chosen.best.map(|best| Checkpoint { parameters, ..best });
            job.reply.send(Event::Finished(Ok((chosen.points, best))));
        }
        Ok(())
    }

    /// Repeats the checks of a training with the scores of its held-out rows.
    fn validated<'a>(
        &self,
        run: usize,
        checks: &[usize],
        scores: impl Fn(usize) -> &'a [f32],
    ) -> Validated {
        let (runs, job) = (self.jobs.len(), &self.jobs[run]);
        let Some(pairs) = job.held_out else { return Validated::default() };
        let mut validation = Validation::new(job.shape.per_level);
        let mut validated = Validated::default();
        let mut step = 0;
        for (check, due) in checks.iter().enumerate() {
            while step < *due {
                let at = 2 * (step * runs + run);
                let (value, estimate) = (self.trace[at], self.trace[at + 1]);
                if !(value.is_finite() && estimate.is_finite()) {
                    validated.best = validation.best();
                    return validated;
                }
                validation.add_step(value);
                step += 1;
            }
            let value = match computes_blocks(&job.shape) {
                true => value_of_blocks(pairs, scores(check)),
                false => pairs.value(&job.estimator, scores(check)[..pairs.count()].to_vec()),
            };
            let (point, is_best) = validation.add_check(step, value);
            validated.points.push(point);
            if is_best {
                validated.selected = check;
            }
        }
        validated.best = validation.best();
        validated
    }
}

/// The checks of a training.
#[derive(Default)]
struct Validated {
    points: Vec<CurvePoint>,
    /// The check with the best objective, and what is known of it without the parameters.
    selected: usize,
    best: Option<Checkpoint>,
}

/// Returns symmetric InfoNCE of held-out rows from the sums over blocks (table.cu).
fn value_of_blocks(pairs: HeldOutPairs, sums: &[f32]) -> f64 {
    debug_assert!(matches!(pairs, HeldOutPairs::Blocks { size: HELD_OUT_BLOCK, .. }));
    let (mut sum, mut rows) = (0.0, 0);
    for (n, value) in pairs.blocks().zip(sums) {
        sum += f64::from(*value) + n as f64 * (n as f64).ln();
        rows += n;
    }
    sum / rows as f64
}
