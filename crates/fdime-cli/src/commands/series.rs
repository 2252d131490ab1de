//! Tables whose rows are steps in time.

use crate::args::Timing;
use crate::console::note;
use crate::failure::Failure;
use crate::flags::FLAGS;
use fdime::data::{Frame, LoadedFrame, Reading, load_frame};
use fdime::estimate::{SeriesHeading, Timeline};
use fdime::{Parameter, counted};
use std::path::Path;

/// A table of series, and the places of its rows in time.
pub struct SeriesTable {
    pub frame: Frame,
    /// The positions of the columns that each selector chose, without those of times and recordings.
    pub chosen: Vec<Vec<usize>>,
    pub timeline: Timeline,
    time: Option<usize>,
    group: Option<usize>,
}

impl SeriesTable {
    pub fn load(
        file: &Path,
        selectors: &[(&str, Parameter)],
        timing: &Timing,
        reading: &Reading,
    ) -> Result<Self, Failure> {
        if reading.sample_rows.is_some() {
            let message = "--sample-rows: rows of a series cannot be drawn at random";
            return Err(Failure::Usage(message.into()));
        }
        let mut all = selectors.to_vec();
        all.extend(timing.time.as_deref().map(|name| (name, Parameter::Time)));
        all.extend(timing.group.as_deref().map(|name| (name, Parameter::Group)));
        let LoadedFrame { frame, mut chosen } = load_frame(file, &all, reading)?;
        for text in &frame.notes {
            note(&format!("note: {}", text.render(&FLAGS)));
        }
        let (mut time, mut group) = (None, None);
        for ((selector, parameter), places) in all.iter().zip(&chosen).skip(selectors.len()) {
            let [place] = places[..] else {
                let flag = parameter.name();
                return Err(Failure::Usage(format!("--{flag} {selector}: choose one column")));
            };
            *(if *parameter == Parameter::Time { &mut time } else { &mut group }) = Some(place);
        }
        chosen.truncate(selectors.len());
        for places in &mut chosen {
            places.retain(|place| ![time, group].contains(&Some(*place)));
        }
        let [times, recordings] =
            [time, group].map(|place| place.map(|place| &frame.columns[place]));
        let timeline = Timeline::new(frame.rows, times, recordings)?;
        if timeline.unplaced() > 0 {
            let rows = counted(timeline.unplaced(), "row");
            note(&format!("note: {rows} without a time or a recording were left out"));
        }
        Ok(SeriesTable { frame, chosen, timeline, time, group })
    }

    /// Returns the heading of the journal of a request.
    pub fn heading<P: Clone>(&self, given: &[usize], plan: &P) -> SeriesHeading<P> {
        SeriesHeading {
            columns: self.frame.columns.iter().map(|column| column.name.clone()).collect(),
            given: given.to_vec(),
            time: self.time,
            group: self.group,
            data: self.frame.fingerprint(),
            plan: plan.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
        }
    }
}
