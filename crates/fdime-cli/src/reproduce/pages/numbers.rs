//! Every measured number, as CSV.

use super::super::figures::STAIRCASE_STEPS;
use super::super::jobs::LevelMeasure;
use super::super::results::{
    ImageResult, ImageRun, Results, StaircaseResult, StaircaseRun, TimeResult,
};
use super::Page;
use fdime::{Chain, LearnerPlan};

const STAIRCASE_COLUMNS: &str = "scenario,dim,batch,estimator,critic,pairing,hidden,chain,iterations,\
    last,seed,true_mi,mean,bias,variance,mse,device,version";
const IMAGE_COLUMNS: &str = "images,view,rows,estimator,critic,hidden,batch,pairing,chain,iterations,\
    last,seed,mean,variance,device,version";
const TIME_COLUMNS: &str = "estimator,critic,pairing,dim,batch,hidden,threads,steps,median_ms,\
    fastest_ms,staircase_seconds,device,version";

impl Page<'_> {
    /// Returns the numbers of the runs as CSV, one run in each row.
    pub fn csv(&self) -> String {
        let Results { staircases, images, times, .. } = self.results;
        table(STAIRCASE_COLUMNS, staircases.iter().flat_map(staircase_rows))
            + &table(IMAGE_COLUMNS, images.iter().flat_map(image_rows))
            + &table(TIME_COLUMNS, times.iter().map(time_row))
    }
}

/// Returns the rows under a header; an empty text if there are none.
fn table(columns: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    // Writing UTF-8 to memory in rows of equal length cannot fail.
    let _ = writer.write_record(columns.split(','));
    rows.for_each(|row| drop(writer.write_record(row)));
    let bytes = writer.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

fn staircase_rows(staircase: &StaircaseResult) -> Vec<Vec<String>> {
    let (plan, learner) = (staircase.plan, &staircase.plan.training.learner);
    let row = |run: &StaircaseRun, level: &LevelMeasure| {
        let bias = (level.mean - level.true_mi).abs();
        vec![
            plan.scenario.name.to_string(),
            plan.scenario.dim.to_string(),
            plan.training.batch.to_string(),
            learner.estimator_name().to_string(),
            learner.name().to_string(),
            pairing(learner),
            widths(learner.hidden()),
            blocks(staircase.chain),
            plan.schedule.iterations.to_string(),
            staircase.last.to_string(),
            run.seed.to_string(),
            level.true_mi.to_string(),
            level.mean.to_string(),
            bias.to_string(),
            level.variance.to_string(),
            (bias * bias + level.variance).to_string(),
            run.logged.engine.clone(),
            run.logged.version.clone(),
        ]
    };
    let rows = staircase.runs.iter().flat_map(|run| run.levels.iter().map(|l| row(run, l)));
    rows.collect()
}

fn image_rows(result: &ImageResult) -> Vec<Vec<String>> {
    let (plan, learner) = (result.plan, &result.plan.training.learner);
    let runs = result.runs.iter();
    runs.map(|ImageRun { seed, mean, variance, logged, .. }| {
        vec![
            plan.images.clone(),
            plan.view.to_string(),
            plan.rows.to_string(),
            learner.estimator_name().to_string(),
            learner.name().to_string(),
            widths(learner.hidden()),
            plan.training.batch.to_string(),
            pairing(learner),
            blocks(plan.blocks().as_ref()),
            plan.iterations.to_string(),
            result.last.to_string(),
            seed.to_string(),
            mean.to_string(),
            variance.to_string(),
            logged.engine.clone(),
            logged.version.clone(),
        ]
    })
    .collect()
}

fn time_row(time: &TimeResult) -> Vec<String> {
    let (plan, learner) = (time.plan, &time.plan.training.learner);
    vec![
        learner.estimator_name().to_string(),
        learner.name().to_string(),
        pairing(learner),
        plan.scenario.dim.to_string(),
        plan.training.batch.to_string(),
        widths(learner.hidden()),
        time.threads.to_string(),
        time.steps.to_string(),
        time.median_ms.to_string(),
        time.fastest_ms.to_string(),
        (time.median_ms * STAIRCASE_STEPS / 1e3).to_string(),
        time.logged.engine.clone(),
        time.logged.version.clone(),
    ]
}

/// Returns the name of the pairing; empty for NJEE, which has none.
fn pairing(learner: &LearnerPlan) -> String {
    learner.pairing().map(|pairing| pairing.to_string()).unwrap_or_default()
}

/// Returns the number of blocks of y; a direct estimate has one.
fn blocks(chain: Option<&Chain>) -> String {
    chain.map_or(1, Chain::len).to_string()
}

fn widths(hidden: &[usize]) -> String {
    hidden.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_are_quoted() {
        let row = ["f:max(u,1)*ln(u)", "a \"b\"", "1.5"].map(String::from).into();
        let text = table("estimator,device,mean", [row].into_iter());
        assert_eq!(text, "estimator,device,mean\n\"f:max(u,1)*ln(u)\",\"a \"\"b\"\"\",1.5\n");
        assert_eq!(table("mean", std::iter::empty()), "");
    }
}
