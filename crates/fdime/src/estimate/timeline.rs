//! The places of rows in time: recordings, and steps of equal length within each.

use super::conditional::MAX_UNADJUSTED_VALUES;
use super::levels::different_numbers;
use crate::data::{Column, Values};
use crate::error::{Error, Result, quote};
use crate::message::{Message, Parameter};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashMap;

/// A difference of times is a number of steps if it differs from one by less than this share of a
/// step: clocks are not exact, and numbers are rounded.
const TOLERANCE: f64 = 0.01;

/// The maximum number of steps for each row: times with more gaps are hardly a series.
const MAX_STEPS_PER_ROW: usize = 20;

/// The places of the rows of a table in time. Without a column of times every row is a step. Rows
/// without a time or without a recording have no place.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    pub(super) recordings: Vec<Recording>,
    /// The number of rows of the table.
    rows: usize,
}

/// Everything that determines the numbers of many estimates of series. Only the same request continues
/// a journal. `P` is the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeriesHeading<P> {
    /// The names of all columns that are read.
    pub columns: Vec<String>,
    /// The positions of the columns that are held fixed.
    #[serde(default)]
    pub given: Vec<usize>,
    /// The position of the column of times.
    pub time: Option<usize>,
    /// The position of the column of recordings.
    pub group: Option<usize>,
    /// The fingerprint of the columns: see [`Frame::fingerprint`](crate::data::Frame::fingerprint).
    pub data: String,
    /// How each estimate is made.
    pub plan: P,
    /// The version of this library.
    pub version: String,
}

/// An uninterrupted part of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recording {
    /// The value of the column of recordings; `None` if the whole table is one recording.
    pub(super) name: Option<String>,
    /// The row at each step; `None` where no row has that time.
    pub(super) steps: Vec<Option<usize>>,
}

impl Timeline {
    /// Returns the timeline of a table with this many rows. `time` is a column of numbers on a grid
    /// that may have gaps; rows need not be sorted by it. `group` names the recording of each row.
    ///
    /// # Errors
    /// If times are not numbers, repeat within a recording, or are not on a grid.
    pub fn new(rows: usize, time: Option<&Column>, group: Option<&Column>) -> Result<Self> {
        if let Some(column) = time.iter().chain(&group).find(|column| column.len() != rows) {
            let columns = [(column.name.clone(), column.len()), ("x".into(), rows)];
            return Err(Error::UnequalColumns { columns });
        }
        let is_placed =
            |row: &usize| time.iter().chain(&group).all(|column| !column.is_missing(*row));
        let mut members: Vec<(Option<String>, Vec<usize>)> = Vec::new();
        let mut known = HashMap::new();
        for row in (0..rows).filter(is_placed) {
            let label = group.map(|column| label(column, row));
            let place = *known.entry(label).or_insert_with_key(|label| {
                members.push((label.clone(), Vec::new()));
                members.len() - 1
            });
            members[place].1.push(row);
        }
        let recordings = match time {
            None => members.into_iter().map(|(name, rows)| Recording {
                name,
                steps: rows.into_iter().map(Some).collect(),
            }),
            Some(time) => return Ok(Timeline { recordings: on_grid(members, time)?, rows }),
        };
        Ok(Timeline { recordings: recordings.collect(), rows })
    }

    /// Returns the number of rows that have no place.
    pub fn unplaced(&self) -> usize {
        let steps = self.recordings.iter().flat_map(|recording| &recording.steps);
        self.rows - steps.flatten().count()
    }

    /// Returns the number of rows of the table.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns a column as it is compared: with the mean of each recording subtracted, if there are
    /// several. Levels that differ between recordings would otherwise look like dependence. Numbers of
    /// few values stay as they are, because less a mean they would tell the recording.
    pub(super) fn centred<'a>(&self, column: &'a Column) -> Cow<'a, Column> {
        let Values::Continuous(values) = &column.values else { return Cow::Borrowed(column) };
        if self.recordings.len() < 2 || different_numbers(column).len() <= MAX_UNADJUSTED_VALUES {
            return Cow::Borrowed(column);
        }
        let mut centred = values.clone();
        for recording in &self.recordings {
            let rows = || recording.steps.iter().flatten().filter(|row| !values[**row].is_nan());
            let mean = rows().map(|row| values[*row]).sum::<f64>() / rows().count().max(1) as f64;
            rows().for_each(|row| centred[*row] -= mean);
        }
        Cow::Owned(Column { name: column.name.clone(), values: Values::Continuous(centred) })
    }

    /// Returns the shortest recording; `None` if no row has a place.
    pub(super) fn shortest(&self) -> Option<&Recording> {
        self.recordings.iter().min_by_key(|recording| recording.steps.len())
    }
}

/// Returns the value of a row as text.
fn label(column: &Column, row: usize) -> String {
    match &column.values {
        Values::Continuous(values) => values[row].to_string(),
        Values::Discrete { codes, labels } => {
            labels.get(codes[row] as usize).cloned().unwrap_or_default()
        }
    }
}

/// Returns recordings whose rows are at their times.
fn on_grid(
    mut members: Vec<(Option<String>, Vec<usize>)>,
    time: &Column,
) -> Result<Vec<Recording>> {
    let Values::Continuous(times) = &time.values else {
        let problem = format!("column {} holds text; write numbers or dates", quote(&time.name));
        return Err(refused(problem.into()));
    };
    let mut differences = Vec::new();
    for (_, members) in &mut members {
        members.sort_by(|a, b| times[*a].total_cmp(&times[*b]));
        for pair in members.windows(2) {
            if times[pair[0]] == times[pair[1]] {
                return Err(repeated([pair[0], pair[1]]));
            }
            differences.push(times[pair[1]] - times[pair[0]]);
        }
    }
    let step = step(&differences);
    let mut steps = 0_usize;
    let recordings = members.into_iter().map(|(name, rows)| {
        let mut placed = vec![rows.first().copied()];
        for pair in rows.windows(2) {
            let count = (times[pair[1]] - times[pair[0]]) / step;
            if (count - count.round()).abs() > TOLERANCE {
                return Err(off_grid([pair[0], pair[1]], count));
            }
            steps = steps.saturating_add(count.round() as usize);
            if steps > MAX_STEPS_PER_ROW * differences.len() {
                return Err(mostly_gaps(differences.len()));
            }
            placed.resize(placed.len() + count.round() as usize - 1, None);
            placed.push(Some(pair[1]));
        }
        Ok(Recording { name, steps: placed })
    });
    recordings.collect()
}

/// Returns the length of a step: the mean of the differences that are no multiple of another one.
fn step(differences: &[f64]) -> f64 {
    let smallest = differences.iter().copied().fold(f64::INFINITY, f64::min);
    let single = differences.iter().filter(|difference| **difference < 1.5 * smallest);
    let (count, sum) = single.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    sum / count
}

fn refused(problem: Message) -> Error {
    Error::Selection { choice: Message::new().parameter(Parameter::Time), problem }
}

fn repeated([first, second]: [usize; 2]) -> Error {
    let text = format!(
        "rows {} and {} have the same time; if they belong to different recordings, name the column \
         of recordings in ",
        first + 1,
        second + 1,
    );
    refused(Message::from(text).parameter(Parameter::Group))
}

fn off_grid([first, second]: [usize; 2], steps: f64) -> Error {
    let text = format!(
        "the times are not at equal steps: row {} is {steps:.3} steps after row {}, where a step is the \
         shortest time between two rows; resample the series, or leave out ",
        second + 1,
        first + 1,
    );
    refused(Message::from(text).parameter(Parameter::Time).text(" to count lags in rows"))
}

fn mostly_gaps(rows: usize) -> Error {
    let text = format!(
        "the times have more than {MAX_STEPS_PER_ROW} steps for each of {rows} rows, where a step is the \
         shortest time between two rows; name the column of recordings in "
    );
    let message = Message::from(text).parameter(Parameter::Group).text(", or leave out ");
    refused(message.parameter(Parameter::Time).text(" to count lags in rows"))
}

#[cfg(test)]
mod tests {
    use super::super::serial::tests::numbers;
    use super::*;

    fn timeline(times: &[f64], groups: Option<&[f64]>) -> Result<Timeline> {
        let group = groups.map(|groups| numbers("trial", groups.to_vec()));
        Timeline::new(times.len(), Some(&numbers("t", times.to_vec())), group.as_ref())
    }

    fn steps(timeline: &Timeline) -> Vec<Vec<Option<usize>>> {
        timeline.recordings.iter().map(|recording| recording.steps.clone()).collect()
    }

    #[test]
    fn rows_are_placed_at_their_times() {
        let found = timeline(&[0.1, 0.3, 0.2, f64::NAN, 0.6000001], None).unwrap();
        assert_eq!(steps(&found), [[Some(0), Some(2), Some(1), None, None, Some(4)]]);
        assert_eq!(found.unplaced(), 1);
        let found = timeline(&[5.0, 0.0, 6.0, 1.0, 3.0], Some(&[1.0, 2.0, 1.0, 2.0, 2.0])).unwrap();
        assert_eq!(steps(&found)[0], [Some(0), Some(2)]);
        assert_eq!(steps(&found)[1], [Some(1), Some(3), None, Some(4)]);
        assert_eq!(found.recordings[1].name.as_deref(), Some("2"));
    }

    #[test]
    fn levels_of_recordings_are_subtracted() {
        let group = numbers("trial", (0..60).map(|row| f64::from(row % 2)).collect());
        let value = |row: i32| f64::from(row) + if row % 2 == 0 { 100.0 } else { 0.0 };
        let mut values: Vec<f64> = (0..60).map(value).collect();
        values[4] = f64::NAN;
        let found = Timeline::new(60, None, Some(&group)).unwrap();
        let Values::Continuous(centred) = found.centred(&numbers("x", values)).into_owned().values
        else {
            panic!()
        };
        for parity in 0..2 {
            let of_recording = centred.iter().skip(parity).step_by(2).filter(|v| !v.is_nan());
            assert!(of_recording.sum::<f64>().abs() < 1e-9);
        }
        assert!(centred[4].is_nan() && centred[6] - centred[2] == 4.0);
        let spikes = numbers("spikes", (0..60).map(|row| f64::from(row % 3)).collect());
        assert!(matches!(found.centred(&spikes), Cow::Borrowed(_)));
        let one = Timeline::new(60, None, None).unwrap();
        assert!(matches!(one.centred(&group), Cow::Borrowed(_)));
    }

    #[test]
    fn without_times_rows_are_steps_of_their_recording() {
        let group = numbers("trial", vec![1.0, 2.0, f64::NAN, 1.0]);
        let found = Timeline::new(4, None, Some(&group)).unwrap();
        assert_eq!(steps(&found), [vec![Some(0), Some(3)], vec![Some(1)]]);
        assert_eq!(found.unplaced(), 1);
        let found = Timeline::new(2, None, None).unwrap();
        assert_eq!(steps(&found), [[Some(0), Some(1)]]);
    }

    #[test]
    fn times_that_are_not_on_a_grid_are_refused() {
        let refusal = |times: &[f64]| timeline(times, None).unwrap_err().to_string();
        let text = refusal(&[0.0, 1.0, 2.0, 4.5]);
        assert!(
            text.starts_with("time: ") && text.contains("row 4 is 2.500 steps after row 3"),
            "{text}"
        );
        assert!(text.contains("leave out time"), "{text}");
        assert!(refusal(&[0.0, 1.0, 1.0]).contains("rows 2 and 3 have the same time; "));
        assert!(refusal(&[0.0, 1.0, 1e9]).contains("more than 20 steps for each"));
        let texts = Values::Discrete { codes: vec![0], labels: vec!["a".into()] };
        let texts = Column { name: "t".into(), values: texts };
        assert!(Timeline::new(1, Some(&texts), None).unwrap_err().to_string().contains("text"));
    }

    /// Clocks that are off by half a percent of a step do not lose a step in a long gap.
    #[test]
    fn jitter_is_not_counted_as_steps() {
        let jitter = |k: usize| k as f64 + 0.004 * (k as f64).sin();
        let times: Vec<f64> = (0..100).chain(105..200).map(jitter).collect();
        let found = timeline(&times, None).unwrap();
        assert_eq!(found.recordings[0].steps.len(), 200);
        assert_eq!(found.recordings[0].steps[105], Some(100));
    }
}
