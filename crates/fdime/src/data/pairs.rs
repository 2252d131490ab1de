use super::frame::{Categories, Column, Frame, Values};
use super::integers::{ADVICE, ROUNDED, is_rounded, rounded_in_row};
use super::open::{Opened, open};
use super::reading::{ConstantColumns, MissingRows, Reading};
use super::select::{Choice, choose, choose_three, select};
use super::source::Checked;
use super::text::interpret;
use crate::error::{Error, Result, data_error, quote};
use crate::message::{Message, Parameter, counted};
use crate::random::{Purpose, stream};
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// The minimum number of complete rows of an estimate.
const MIN_ROWS: usize = 20;

/// The maximum number of categories of a column.
const MAX_CATEGORIES: usize = 1000;

/// A text column with more categories than this that differ in more than half of the rows is an
/// identifier of the rows.
const MAX_CATEGORIES_OF_IDENTIFIERS: usize = 20;

/// The complete rows of the columns of x and y.
#[derive(Clone, Debug, PartialEq)]
pub struct PairTable {
    /// The columns of x, without missing values.
    pub x: Vec<Column>,
    /// The columns of y, without missing values.
    pub y: Vec<Column>,
    /// The columns that are held fixed, without missing values; none unless they were asked for.
    pub given: Vec<Column>,
    /// The row of the input (from 0) that each row comes from.
    pub kept: Vec<usize>,
    /// The number of rows of the input.
    pub input_rows: usize,
    /// The number of rows that were dropped because a value was missing.
    pub n_dropped: usize,
    /// Remarks on how the table was read, such as columns that were left out.
    pub notes: Vec<Message>,
}

/// Reads the pairs of a table, with selectors for x and y as for [`pair_columns`]. The path "-" is
/// standard input. A table that does not allow an estimate is an error.
///
/// [`pair_columns`]: super::pair_columns
pub fn load_pairs(
    path: &Path,
    x: Option<&str>,
    y: Option<&str>,
    reading: &Reading,
) -> Result<PairTable> {
    load_triples(path, x, y, None, reading)
}

/// As [`load_pairs`], with a selector for columns that are held fixed in a conditional estimate.
pub fn load_triples(
    path: &Path,
    x: Option<&str>,
    y: Option<&str>,
    given: Option<&str>,
    reading: &Reading,
) -> Result<PairTable> {
    let opened = open(path, reading)?;
    let file = opened.file().to_string();
    let fail = |problem: Message| data_error(&file, problem);
    let sides = choose_three(opened.names(), x, y, given).map_err(|error| fail(error.into()))?;
    let (mut wanted, mut notes) = (Vec::new(), Vec::new());
    let mut counts = [0; 3];
    for (count, side) in counts.iter_mut().zip([sides.x, sides.y, sides.given]) {
        let (columns, notes_of_side) = readable(&opened, side);
        *count = columns.len();
        wanted.extend(columns);
        notes.extend(notes_of_side);
    }
    let kinds = Kinds::of(&opened, reading).map_err(fail)?;
    let frame = read_typed(opened, &wanted, notes, &kinds)?;
    complete(frame, counts, &wanted, reading).map_err(fail)
}

/// Returns notes on columns that were chosen by names which could be positions of others.
fn names_like_positions(names: &[String], chosen: &[Choice]) -> Vec<Message> {
    let note = |choice: &Choice| {
        let position: usize = names[choice.index].parse().ok()?;
        let other = choice.named && position != choice.index + 1 && position <= names.len();
        let place = choice.index + 1;
        other.then(|| format!("'{position}' is the name of column {place}, not a position").into())
    };
    chosen.iter().filter_map(note).collect()
}

/// Leaves out columns that were not named and are neither numbers nor text, with notes.
fn readable(opened: &Opened, mut chosen: Vec<Choice>) -> (Vec<Choice>, Vec<Message>) {
    let mut notes = Vec::new();
    chosen.retain(|choice| {
        let kind = opened.unreadable(choice.index).filter(|_| !choice.named);
        notes.extend(kind.iter().map(|kind| {
            let name = quote(&opened.names()[choice.index]);
            Message::from(format!("column {name} holds values of type {kind} and was left out"))
        }));
        kind.is_none()
    });
    (chosen, notes)
}

/// Reads the pairs of two tables with the same rows: x from one and y from the other. Without a
/// selector, all columns of a table are used.
pub fn load_two_files(
    x_path: &Path,
    y_path: &Path,
    x: Option<&str>,
    y: Option<&str>,
    reading: &Reading,
) -> Result<PairTable> {
    let (x_opened, y_opened) = (open(x_path, reading)?, open(y_path, reading)?);
    // Columns of either file are discrete or numeric by the names that the table will have, or by
    // their positions with those of x first.
    let mut names = side_names(x_opened.names(), Parameter::X);
    let x_count = names.len();
    names.extend(side_names(y_opened.names(), Parameter::Y));
    let kinds = Kinds::new(&names, reading.discrete.as_slice(), reading.numeric.as_slice());
    let kinds = kinds.map_err(|error| {
        data_error(&format!("{} and {}", x_opened.file(), y_opened.file()), error)
    })?;
    let kinds = kinds.split_at(x_count);
    let shared = shared_names(x_opened.names(), y_opened.names());
    let sides = [(x_opened, x, Parameter::X, &kinds[0]), (y_opened, y, Parameter::Y, &kinds[1])];
    let sides = sides.map(|(opened, selector, parameter, kinds)| {
        let file = opened.file().to_string();
        let chosen = choose(opened.names(), selector.unwrap_or("*"), parameter)
            .map_err(|error| data_error(&file, error))?;
        let (chosen, notes) = readable(&opened, chosen);
        // Columns that may say which rows belong together are also read if they were not chosen.
        let is_extra = |index: &usize| {
            shared.contains(&opened.names()[*index])
                && opened.unreadable(*index).is_none()
                && chosen.iter().all(|choice| choice.index != *index)
        };
        let extra: Vec<usize> = (0..opened.names().len()).filter(is_extra).collect();
        let mut frame = read_typed_and(opened, &chosen, &extra, notes, kinds)?;
        for column in &mut frame.columns {
            column.name = side_name(&column.name, parameter);
        }
        Ok::<_, Error>((file, chosen, frame))
    });
    let [x, y] = sides;
    let ((x_file, mut chosen, mut frame), (y_file, y_chosen, mut y_frame)) = (x?, y?);
    if frame.rows != y_frame.rows {
        let problem = format!("it has {} rows, but {x_file} has {}", y_frame.rows, frame.rows);
        return Err(data_error(&y_file, problem));
    }
    let mut notes = Vec::new();
    for column in &frame.columns {
        let same_name = y_frame.columns.iter().find(|y| y.name == column.name);
        let Some(agreement) = same_name.map(|y| Agreement::of(column, y)) else { continue };
        let name = quote(&column.name);
        match agreement {
            Agreement::Full => {}
            Agreement::OtherOrder => {
                let problem = format!(
                    "column {name} identifies the rows, and in {x_file} they are in another order, or \
                     not all the same; join or sort the files by it"
                );
                return Err(data_error(&y_file, problem));
            }
            Agreement::OtherValues => {
                let note = format!(
                    "column {name} has other values in {y_file} than in {x_file}; make sure that row k \
                     of one file belongs to row k of the other"
                );
                notes.push(note.into());
            }
        }
    }
    frame.columns.truncate(chosen.len());
    y_frame.columns.truncate(y_chosen.len());
    let counts = [chosen.len(), y_chosen.len(), 0];
    chosen.extend(y_chosen);
    frame.columns.extend(y_frame.columns);
    frame.notes.extend(y_frame.notes);
    frame.notes.extend(notes);
    let names = format!("{x_file} and {y_file}");
    complete(frame, counts, &chosen, reading).map_err(|problem| data_error(&names, problem))
}

/// The most columns of two files that are compared because they have the same name.
const MAX_SHARED: usize = 8;

/// Returns the first names that are in both lists. Positions are no names.
fn shared_names(x: &[String], y: &[String]) -> Vec<String> {
    let in_y: HashSet<&String> = y.iter().collect();
    let is_shared = |name: &&String| in_y.contains(name) && name.parse::<usize>().is_err();
    x.iter().filter(is_shared).take(MAX_SHARED).cloned().collect()
}

/// What a column that is in both of two files says about their rows.
enum Agreement {
    /// Nothing against pairing them in their order.
    Full,
    /// Its values identify the rows, and most are in both files, in another order.
    OtherOrder,
    /// It may identify the rows, but most values are only in one of the files.
    OtherValues,
}

impl Agreement {
    fn of(x: &Column, y: &Column) -> Self {
        if x.values == y.values {
            return Agreement::Full;
        }
        let are_identifiers = [x, y].into_iter().all(|column| {
            let reason = Unusable::of(column, column.len(), false);
            matches!(reason, Some(Unusable::RowNumbers | Unusable::Texts))
        });
        let (of_x, of_y) = (texts(x), texts(y));
        let (in_x, in_y): (HashSet<&String>, HashSet<&String>) =
            (of_x.iter().collect(), of_y.iter().collect());
        let are_the_same = in_x == in_y && in_x.len() == of_x.len() && in_y.len() == of_y.len();
        let shared = of_x.iter().filter(|text| in_y.contains(text)).count();
        match are_identifiers || are_the_same {
            false => Agreement::Full,
            true if 2 * shared > of_x.len() => Agreement::OtherOrder,
            true => Agreement::OtherValues,
        }
    }
}

/// Returns the values of a column as texts.
fn texts(column: &Column) -> Vec<String> {
    match &column.values {
        Values::Continuous(values) => values.iter().map(f64::to_string).collect(),
        Values::Discrete { codes, labels } => {
            codes.iter().filter_map(|code| labels.get(*code as usize)).cloned().collect()
        }
    }
}

/// Returns the name of a column of x or y: one without a name is called by its position, as in x1.
fn side_name(name: &str, side: Parameter) -> String {
    match name.bytes().all(|byte| byte.is_ascii_digit()) {
        true => format!("{}{name}", side.name()),
        false => name.to_string(),
    }
}

fn side_names(names: &[String], side: Parameter) -> Vec<String> {
    names.iter().map(|name| side_name(name, side)).collect()
}

/// A frame that was read from a file.
#[derive(Clone, Debug)]
pub struct LoadedFrame {
    /// The columns that can be used, with remarks on the others.
    pub frame: Frame,
    /// For each selector the columns of the frame that it chose.
    pub chosen: Vec<Vec<usize>>,
}

/// Reads all rows of the columns that the selectors choose, or of all columns if there is no
/// selector. Errors name the parameter that holds the selector.
pub fn load_frame(
    path: &Path,
    selectors: &[(&str, Parameter)],
    reading: &Reading,
) -> Result<LoadedFrame> {
    let opened = open(path, reading)?;
    let file = opened.file().to_string();
    let fail = |problem: Message| data_error(&file, problem);
    let chosen = selectors
        .iter()
        .map(|(selector, parameter)| choose(opened.names(), selector, *parameter))
        .collect::<Result<Vec<Vec<Choice>>>>()
        .map_err(|error| fail(error.into()))?;
    let mut wanted: Vec<Choice> = match selectors {
        [] => (0..opened.names().len()).map(|index| Choice { index, named: false }).collect(),
        _ => chosen.concat(),
    };
    // A column that one selector names is named, even if another one chooses it with many others.
    let named: HashSet<usize> =
        wanted.iter().filter(|choice| choice.named).map(|choice| choice.index).collect();
    let mut seen = HashSet::new();
    wanted.retain(|choice| seen.insert(choice.index));
    wanted.iter_mut().for_each(|choice| choice.named |= named.contains(&choice.index));
    let (readable, notes) = readable(&opened, wanted);
    wanted = readable;
    let kinds = Kinds::of(&opened, reading).map_err(fail)?;
    let mut frame = read_typed(opened, &wanted, notes, &kinds)?;
    if reading.missing == MissingRows::Refuse {
        complete_rows(&frame.columns, frame.rows, reading.missing).map_err(fail)?;
    }
    let usable = leave_out(&mut frame, &wanted, reading).map_err(fail)?;
    wanted = usable.into_iter().map(|place| wanted[place]).collect();
    if let Some(kept) = sampled_rows(&(0..frame.rows).collect::<Vec<_>>(), reading) {
        frame.columns.iter_mut().for_each(|column| keep_rows(column, &kept));
        frame.rows = kept.len();
    }
    let place = |choice: &Choice| wanted.iter().position(|wanted| wanted.index == choice.index);
    let chosen = chosen.iter().map(|choices| choices.iter().filter_map(place).collect()).collect();
    Ok(LoadedFrame { frame, chosen })
}

/// Returns the pairs of two sets of columns of a frame.
pub fn pairs_of(frame: &Frame, x: &[usize], y: &[usize], reading: &Reading) -> Result<PairTable> {
    let columns = x.iter().chain(y).map(|index| frame.columns[*index].clone()).collect();
    let names = |side: &[usize]| {
        side.first().map(|index| frame.columns[*index].name.clone()).unwrap_or_default()
    };
    let frame = Frame { columns, rows: frame.rows, notes: Vec::new() };
    // The rows of the frame have been sampled.
    let reading = Reading { sample_rows: None, ..*reading };
    complete(frame, [x.len(), y.len(), 0], &all_named(x.len() + y.len()), &reading)
        .map_err(|problem| data_error(&format!("{} and {}", names(x), names(y)), problem))
}

fn all_named(count: usize) -> Vec<Choice> {
    (0..count).map(|index| Choice { index, named: true }).collect()
}

/// Reads the columns that critics were trained on by their exact names, each with whether it holds
/// categories. There is no minimum number of rows.
pub fn load_named(
    path: &Path,
    x: &[(String, bool)],
    y: &[(String, bool)],
    reading: &Reading,
) -> Result<PairTable> {
    let opened = open(path, reading)?;
    let file = opened.file().to_string();
    let wanted: Vec<usize> = x
        .iter()
        .chain(y)
        .map(|(name, _)| {
            opened.names().iter().position(|other| other == name).ok_or_else(|| {
                let problem = format!(
                    "there is no column {}, which the saved critics need; name it so, or use \
                     the table they were trained on",
                    quote(name)
                );
                data_error(&file, problem)
            })
        })
        .collect::<Result<_>>()?;
    let notation = opened.notation();
    let mut frame = opened.read(&wanted)?;
    for (column, (_, discrete)) in frame.columns.iter_mut().zip(x.iter().chain(y)) {
        if let Some(notation) = notation.as_ref().filter(|_| !*discrete) {
            interpret(column, notation, &mut frame.notes)
                .map_err(|problem| data_error(&file, problem))?;
        }
    }
    scoring_pairs(frame, x, y, reading.missing, &file)
}

/// Converts the columns that critics were trained on, those of x and then those of y, to numbers or
/// to categories and returns their complete rows. `name` names the table in errors.
pub fn scoring_pairs(
    frame: Frame,
    x: &[(String, bool)],
    y: &[(String, bool)],
    missing: MissingRows,
    name: &str,
) -> Result<PairTable> {
    let Frame { mut columns, rows, notes } = frame;
    for (column, (_, discrete)) in columns.iter_mut().zip(x.iter().chain(y)) {
        let typed = if *discrete { to_categories(column) } else { to_numbers(column) };
        typed.map_err(|problem| data_error(name, problem))?;
    }
    let kept =
        complete_rows(&columns, rows, missing).map_err(|problem| data_error(name, problem))?;
    if kept.is_empty() {
        return Err(data_error(name, "it has no complete row to score"));
    }
    columns.iter_mut().for_each(|column| keep_rows(column, &kept));
    let y = columns.split_off(x.len());
    let n_dropped = rows - kept.len();
    Ok(PairTable { x: columns, y, given: Vec::new(), kept, input_rows: rows, n_dropped, notes })
}

/// Reads columns and converts them to numbers or categories as `reading` specifies. The frame's
/// notes begin with `notes`.
fn read_typed(
    opened: Opened,
    wanted: &[Choice],
    notes: Vec<Message>,
    kinds: &Kinds,
) -> Result<Frame> {
    read_typed_and(opened, wanted, &[], notes, kinds)
}

/// As [`read_typed`], followed by further columns as they are in the file.
fn read_typed_and(
    opened: Opened,
    wanted: &[Choice],
    others: &[usize],
    mut notes: Vec<Message>,
    kinds: &Kinds,
) -> Result<Frame> {
    notes.extend(names_like_positions(opened.names(), wanted));
    let file = opened.file().to_string();
    let fail = |problem: Message| data_error(&file, problem);
    let notation = opened.notation();
    let indices: Vec<usize> = wanted.iter().map(|choice| choice.index).collect();
    let mut frame = opened.read(&[&indices[..], others].concat())?;
    frame.notes.splice(0..0, notes);
    for (column, index) in frame.columns.iter_mut().zip(indices) {
        if let Some(notation) = notation.as_ref().filter(|_| !kinds.discrete.contains(&index)) {
            let interpreted = interpret(column, notation, &mut frame.notes);
            // Text in a column that has to be numbers has an error of its own.
            if !kinds.numeric.contains(&index) {
                interpreted.map_err(fail)?;
            }
        }
        kinds.apply(index, column).map_err(fail)?;
    }
    Ok(frame)
}

/// The columns that have to be numbers, and those that have to be categories.
struct Kinds {
    discrete: HashSet<usize>,
    numeric: HashSet<usize>,
}

impl Kinds {
    /// Returns the kinds of a table's columns.
    fn of(opened: &Opened, reading: &Reading) -> Checked<Self> {
        let names = opened.names();
        Ok(Kinds::new(names, reading.discrete.as_slice(), reading.numeric.as_slice())?)
    }

    /// Returns the kinds of the first `count` columns, and those of the others.
    fn split_at(&self, count: usize) -> [Kinds; 2] {
        let split = |columns: &HashSet<usize>| -> [HashSet<usize>; 2] {
            let (first, rest): (Vec<usize>, Vec<usize>) =
                columns.iter().partition(|column| **column < count);
            [first.into_iter().collect(), rest.into_iter().map(|column| column - count).collect()]
        };
        let ([x_discrete, y_discrete], [x_numeric, y_numeric]) =
            (split(&self.discrete), split(&self.numeric));
        [
            Kinds { discrete: x_discrete, numeric: x_numeric },
            Kinds { discrete: y_discrete, numeric: y_numeric },
        ]
    }

    fn new(names: &[String], discrete: &[&str], numeric: &[&str]) -> Result<Self> {
        let choose = |selectors: &[&str], parameter: Parameter| -> Result<HashSet<usize>> {
            let chosen = selectors.iter().map(|selector| select(names, selector, parameter));
            Ok(chosen.collect::<Result<Vec<_>>>()?.concat().into_iter().collect())
        };
        let discrete = choose(discrete, Parameter::Discrete)?;
        let numeric = choose(numeric, Parameter::Numeric)?;
        match numeric.intersection(&discrete).min() {
            Some(both) => Err(Error::Selection {
                choice: Message::new()
                    .parameter(Parameter::Discrete)
                    .text(" and ")
                    .parameter(Parameter::Numeric),
                problem: format!("column {} is in both; choose one", quote(&names[*both])).into(),
            }),
            None => Ok(Kinds { discrete, numeric }),
        }
    }

    fn apply(&self, index: usize, column: &mut Column) -> Checked<()> {
        if self.numeric.contains(&index) {
            to_numbers(column)?;
        }
        if self.discrete.contains(&index) {
            to_categories(column)?;
        }
        Ok(())
    }
}

impl Frame {
    /// Converts the columns of these selectors to categories or to numbers; `name` names the table
    /// in errors.
    pub fn typed(mut self, discrete: &[&str], numeric: &[&str], name: &str) -> Result<Self> {
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        let kinds =
            Kinds::new(&names, discrete, numeric).map_err(|error| data_error(name, error))?;
        for (index, column) in self.columns.iter_mut().enumerate() {
            kinds.apply(index, column).map_err(|problem| data_error(name, problem))?;
        }
        Ok(self)
    }

    /// Returns an error if a value is missing.
    pub fn check_complete(&self, name: &str) -> Result<()> {
        let rows = complete_rows(&self.columns, self.rows, MissingRows::Refuse);
        rows.map(|_| ()).map_err(|problem| data_error(name, problem))
    }

    /// Returns the complete rows of the first `x` columns as x, of the next `y` as y, and of the others
    /// as those that are held fixed.
    pub fn into_pairs(
        self,
        x: usize,
        y: usize,
        reading: &Reading,
        name: &str,
    ) -> Result<PairTable> {
        let columns = self.columns.len();
        let counts = [x, y, columns.saturating_sub(x + y)];
        let named = all_named(columns);
        complete(self, counts, &named, reading).map_err(|problem| data_error(name, problem))
    }
}

/// Returns the complete rows of the columns: `counts` columns of x, of y and of those held fixed, in
/// this order.
fn complete(
    mut frame: Frame,
    counts: [usize; 3],
    chosen: &[Choice],
    reading: &Reading,
) -> Checked<PairTable> {
    if reading.missing == MissingRows::Refuse {
        complete_rows(&frame.columns, frame.rows, reading.missing)?;
    }
    // Columns without values must not make all rows incomplete.
    let usable = leave_out_with(&mut frame, chosen, |column, rows, named| {
        Unusable::of(column, rows, named).filter(|_| !named)
    });
    let chosen: Vec<Choice> = usable.iter().map(|place| chosen[*place]).collect();
    let wanted = counts.map(|count| count > 0);
    let counts = remaining(counts, &usable);
    let input_rows = frame.rows;
    let mut kept = complete_rows(&frame.columns, input_rows, reading.missing)?;
    enough_rows(&frame.columns, input_rows, kept.len())?;
    let n_dropped = input_rows - kept.len();
    if n_dropped * 50 > input_rows {
        frame.notes.extend(gaps_note(&frame.columns, input_rows));
    }
    frame.notes.extend(frame.columns.iter().filter_map(sentinel));
    if let Some(sample) = sampled_rows(&kept, reading) {
        frame.notes.push(
            format!("{} of {} rows were used, drawn at random", sample.len(), kept.len()).into(),
        );
        kept = sample;
    }
    frame.columns.iter_mut().for_each(|column| keep_rows(column, &kept));
    frame.rows = kept.len();
    let usable = leave_out(&mut frame, &chosen, reading)?;
    let left = remaining(counts, &usable);
    for (place, side) in ["x", "y", "given"].into_iter().enumerate() {
        if wanted[place] && left[place] == 0 {
            let notes: Vec<String> = frame.notes.iter().map(Message::to_string).collect();
            return Err(format!("no column of {side} can be used: {}", notes.join("; ")).into());
        }
    }
    let Frame { mut columns, notes, .. } = frame;
    let mut y = columns.split_off(left[0]);
    let given = y.split_off(left[1]);
    Ok(PairTable { x: columns, y, given, kept, input_rows, n_dropped, notes })
}

/// Returns how many columns of each of three groups are among the places that can be used.
fn remaining(counts: [usize; 3], usable: &[usize]) -> [usize; 3] {
    let (first, second) = (counts[0], counts[0] + counts[1]);
    let before = |end: usize| usable.iter().filter(|place| **place < end).count();
    [before(first), before(second) - before(first), usable.len() - before(second)]
}

/// Returns a random choice of the rows, in their order, if not all of them are wanted.
fn sampled_rows(rows: &[usize], reading: &Reading) -> Option<Vec<usize>> {
    let count = reading.sample_rows.filter(|count| *count < rows.len())?;
    let mut rng = stream(0, Purpose::Rows, u64::MAX, 0);
    let mut chosen = rand::seq::index::sample(&mut rng, rows.len(), count).into_vec();
    chosen.sort_unstable();
    Some(chosen.into_iter().map(|place| rows[place]).collect())
}

/// Why a column tells nothing, in order of appearance in notes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Unusable {
    Empty,
    Constant,
    RowNumbers,
    Texts,
}

impl Unusable {
    fn of(column: &Column, rows: usize, named: bool) -> Option<Self> {
        if (0..rows).all(|row| column.is_missing(row)) {
            return Some(Unusable::Empty);
        }
        if column.is_constant() {
            return Some(Unusable::Constant);
        }
        match &column.values {
            Values::Discrete { labels, .. }
                if labels.len() > MAX_CATEGORIES
                    || (labels.len() > MAX_CATEGORIES_OF_IDENTIFIERS
                        && labels.len() * 2 > rows) =>
            {
                Some(Unusable::Texts)
            }
            Values::Continuous(values) if !named && numbers_rows(&column.name, values) => {
                Some(Unusable::RowNumbers)
            }
            _ => None,
        }
    }

    /// Returns the note on columns that were left out.
    fn note(self, names: &[String]) -> Message {
        const MAX_LISTED: usize = 8;
        let (one, many) = match self {
            Unusable::Empty => ("has no values", "have no values"),
            Unusable::Constant => ("has the same value in every row", "have one value each"),
            Unusable::RowNumbers => ("identifies the rows", "identify the rows"),
            Unusable::Texts => ("has too many different texts", "have too many different texts"),
        };
        match names {
            [name] => format!("column {} {one} and was left out", quote(name)).into(),
            _ => {
                let mut listed: Vec<String> =
                    names.iter().take(MAX_LISTED).map(|name| quote(name)).collect();
                listed.extend((names.len() > MAX_LISTED).then(|| "...".to_string()));
                let (count, listed) = (names.len(), listed.join(", "));
                format!("{count} columns {many} and were left out: {listed}").into()
            }
        }
    }

    /// Returns the error for a column that was named.
    fn refuse(self, column: &Column, rows: usize) -> Message {
        let name = quote(&column.name);
        match (self, &column.values) {
            (Unusable::Texts, Values::Discrete { labels, .. }) => {
                let count = labels.len();
                if let Some(label) = labels.iter().find(|label| would_be_rounded(label)) {
                    let problem = format!("column {name} has {ROUNDED} such as {}; ", quote(label));
                    return Message::from(problem).text(ADVICE);
                }
                let example = labels.first().map_or(String::new(), |label| quote(label));
                let is_number = |label: &String| label.parse::<f64>().is_ok();
                let problem = Message::from(format!(
                    "column {name} has {count} different values in {rows} rows, such as {example}, \
                     too many for categories; "
                ))
                .leave_out(&column.name);
                match labels.iter().all(is_number) {
                    true => problem.text(", or take it out of ").parameter(Parameter::Discrete),
                    false => problem.text(", or write numbers, or dates like 2024-01-31"),
                }
            }
            (Unusable::Empty, _) => {
                Message::from(format!("column {name} has no values; ")).leave_out(&column.name)
            }
            _ => Message::from(format!("column {name} has the same value in every row used; "))
                .leave_out(&column.name)
                .text(", or all such columns with ")
                .setting(Parameter::Constant, "drop"),
        }
    }
}

fn would_be_rounded(text: &str) -> bool {
    text.parse().is_ok_and(|number| is_rounded(text, number))
}

/// Returns a note on a value at one end that is far from all others and frequent, as 999 often
/// stands for a missing value.
fn sentinel(column: &Column) -> Option<Message> {
    const MIN_ROWS_WITH_IT: usize = 5;
    const MAX_LEVELS: usize = 20;
    let Values::Continuous(values) = &column.values else { return None };
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let (first, last) = (*sorted.first()?, *sorted.last()?);
    let from_below = sorted.partition_point(|value| *value <= first);
    let to_above = sorted.partition_point(|value| *value < last);
    let ends = [
        (first, from_below, sorted.get(from_below).copied(), last),
        (last, sorted.len() - to_above, to_above.checked_sub(1).map(|k| sorted[k]), first),
    ];
    ends.into_iter().find_map(|(value, count, neighbour, other)| {
        let neighbour = neighbour?;
        let is_far = (value - neighbour).abs() > 2.0 * (neighbour - other).abs();
        let is_frequent = count >= MIN_ROWS_WITH_IT && count * 2 < sorted.len();
        // One of a few levels that all occur often, such as doses, is a level.
        let levels = sorted.chunk_by(|a, b| a == b).count();
        let is_level = levels <= MAX_LEVELS && 2 * count * levels >= sorted.len();
        // Two values, or one value and its neighbour, have no range to be far from.
        (value.fract() == 0.0 && is_far && is_frequent && !is_level && neighbour != other).then(
            || {
                Message::from(format!(
                "column {}: {value} occurs in {count} rows, far from all other values; if it means \
                 a missing value, set ",
                quote(&column.name)
            ))
            .setting(Parameter::Na, value.to_string())
            },
        )
    })
}

/// Returns whether a column identifies the rows: its values count on, or they are different integers
/// and it is called an index.
fn numbers_rows(name: &str, values: &[f64]) -> bool {
    let counts_on = || values.windows(2).all(|pair| pair[1] - pair[0] == 1.0);
    // "paid" is no identifier, but "id", "user_id" and "userId" are.
    let lower = name.to_lowercase();
    let stem = lower.strip_suffix("id");
    let separates = |stem: &str| {
        !stem.ends_with(char::is_alphabetic) || name.ends_with(['I', 'D']) || name.ends_with("Id")
    };
    let is_index = stem.is_some_and(separates) || lower == "index" || lower.starts_with("unnamed");
    let is_whole = |value: &f64| value.fract() == 0.0;
    let are_different =
        || values.iter().map(|value| value.to_bits()).collect::<HashSet<_>>().len() == values.len();
    values.len() >= MIN_ROWS
        && values.iter().all(is_whole)
        && (counts_on() || (is_index && are_different()))
}

/// Leaves out columns that tell nothing, with notes. It is an error if such a column was named,
/// unless it is constant and `reading` drops those. Returns the places of the columns that stay.
fn leave_out(frame: &mut Frame, chosen: &[Choice], reading: &Reading) -> Checked<Vec<usize>> {
    let mut refused = None;
    let places = leave_out_with(frame, chosen, |column, rows, named| {
        let reason = Unusable::of(column, rows, named)?;
        let drops = reason == Unusable::Constant && reading.constant == ConstantColumns::Drop;
        if named && !drops {
            refused.get_or_insert_with(|| reason.refuse(column, rows));
        }
        Some(reason)
    });
    match refused {
        Some(problem) => Err(problem),
        None => Ok(places),
    }
}

fn leave_out_with(
    frame: &mut Frame,
    chosen: &[Choice],
    mut reason: impl FnMut(&Column, usize, bool) -> Option<Unusable>,
) -> Vec<usize> {
    let mut left_out: BTreeMap<Unusable, Vec<String>> = BTreeMap::new();
    let (mut kept, mut places) = (Vec::new(), Vec::new());
    for (place, column) in std::mem::take(&mut frame.columns).into_iter().enumerate() {
        match reason(&column, frame.rows, chosen[place].named) {
            Some(reason) => left_out.entry(reason).or_default().push(column.name),
            None => {
                kept.push(column);
                places.push(place);
            }
        }
    }
    frame.columns = kept;
    frame.notes.extend(left_out.into_iter().map(|(reason, names)| reason.note(&names)));
    places
}

/// Returns the rows in which every column has a value.
fn complete_rows(columns: &[Column], rows: usize, missing: MissingRows) -> Checked<Vec<usize>> {
    let mut is_complete = vec![true; rows];
    for column in columns {
        for (row, complete) in is_complete.iter_mut().enumerate() {
            *complete &= !column.is_missing(row);
        }
    }
    if missing == MissingRows::Refuse
        && let Some(row) = is_complete.iter().position(|complete| !complete)
        && let Some(column) = columns.iter().find(|column| column.is_missing(row))
    {
        return Err(Message::from(format!("column {} has ", quote(&column.name)))
            .missing_value()
            .text(format!(" in row {}; fill it in, or leave such rows out with ", row + 1))
            .setting(Parameter::Missing, "drop"));
    }
    Ok((0..rows).filter(|row| is_complete[*row]).collect())
}

/// Returns an error if there are too few complete rows. It names the column with the most missing
/// values.
fn enough_rows(columns: &[Column], rows: usize, count: usize) -> Checked<()> {
    if count >= MIN_ROWS {
        return Ok(());
    }
    let counted = |count: usize| if count == 1 { "1 row".into() } else { format!("{count} rows") };
    Err(match incomplete(columns, rows).first() {
        None => format!("it has {}; at least {MIN_ROWS} are needed", counted(count)).into(),
        Some((gaps, column)) => format!(
            "{count} of {} are complete, and at least {MIN_ROWS} are needed; column {} lacks \
             {gaps} of its values and could be left out",
            counted(rows),
            quote(&column.name)
        )
        .into(),
    })
}

/// Returns the columns with missing values and the numbers of these, largest first.
fn incomplete(columns: &[Column], rows: usize) -> Vec<(usize, &Column)> {
    let gaps = |column: &Column| (0..rows).filter(|row| column.is_missing(*row)).count();
    let mut counted: Vec<_> = columns.iter().map(|column| (gaps(column), column)).collect();
    counted.retain(|(gaps, _)| *gaps > 0);
    counted.sort_by_key(|(gaps, _)| std::cmp::Reverse(*gaps));
    counted
}

/// Returns a note on the columns with the most missing values.
fn gaps_note(columns: &[Column], rows: usize) -> Option<Message> {
    const MAX_LISTED: usize = 3;
    let incomplete = incomplete(columns, rows);
    let ((gaps, first), others) = incomplete.split_first()?;
    let mut text = format!("column {} has no value in {gaps} of {rows} rows", quote(&first.name));
    for (gaps, column) in others.iter().take(MAX_LISTED - 1) {
        text += &format!(", column {} in {gaps}", quote(&column.name));
    }
    if incomplete.len() > MAX_LISTED {
        let more = counted(incomplete.len() - MAX_LISTED, "other column");
        text += &format!(", and {more} in no more");
    }
    Some(text.into())
}

/// Keeps the given rows and the categories that occur in them.
fn keep_rows(column: &mut Column, kept: &[usize]) {
    if kept.len() == column.len() {
        column.drop_unused_levels();
        return;
    }
    match &mut column.values {
        Values::Continuous(values) => {
            // Rows only move towards the front, so none is overwritten before it is read.
            for (to, from) in kept.iter().enumerate() {
                values[to] = values[*from];
            }
            values.truncate(kept.len());
        }
        Values::Discrete { .. } => *column = column.at(kept),
    }
}

/// Converts text to numbers. Text that is not a number is an error.
fn to_numbers(column: &mut Column) -> Checked<()> {
    let Values::Discrete { codes, labels } = &column.values else { return Ok(()) };
    let numbers: Vec<Option<f64>> = labels
        .iter()
        .map(|label| label.trim().parse().ok().filter(|number: &f64| number.is_finite()))
        .collect();
    let row_of =
        |label: usize| codes.iter().position(|code| *code as usize == label).map_or(0, |r| r + 1);
    let rounded = |(label, number): (&String, &Option<f64>)| {
        number.is_some_and(|number| is_rounded(label.trim(), number))
    };
    if let Some(bad) = labels.iter().zip(&numbers).position(rounded) {
        return Err(
            format!("column {} {}", quote(&column.name), rounded_in_row(row_of(bad))).into()
        );
    }
    if let Some(bad) = numbers.iter().position(Option::is_none) {
        let row = row_of(bad);
        return Err(format!(
            "column {} has to be numbers, but row {row} is {}; correct it, or leave it empty",
            quote(&column.name),
            quote(&labels[bad])
        )
        .into());
    }
    let value = |code: &u32| numbers.get(*code as usize).copied().flatten().unwrap_or(f64::NAN);
    column.values = Values::Continuous(codes.iter().map(value).collect());
    Ok(())
}

/// Converts numbers to categories. Too many different numbers are an error.
fn to_categories(column: &mut Column) -> Checked<()> {
    let Values::Continuous(values) = &column.values else { return Ok(()) };
    // 0 and -0 are one category.
    let bits = |value: &f64| (value + 0.0).to_bits();
    let distinct =
        values.iter().filter(|value| !value.is_nan()).map(bits).collect::<HashSet<u64>>().len();
    if distinct > MAX_CATEGORIES {
        return Err(Message::from(format!(
            "column {} has {distinct} different numbers, too many for categories (at most \
             {MAX_CATEGORIES}); take it out of ",
            quote(&column.name)
        ))
        .parameter(Parameter::Discrete));
    }
    let mut categories = Categories::default();
    for value in values {
        let label = (!value.is_nan()).then(|| (value + 0.0).to_string());
        categories.push(label.as_deref());
    }
    column.values = categories.finish();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        folder: tempfile::TempDir,
    }

    impl Case {
        fn new(rows: impl IntoIterator<Item = String>) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let rows: Vec<String> = rows.into_iter().collect();
            std::fs::write(folder.path().join("t.csv"), rows.join("\n")).unwrap();
            Self { folder }
        }

        fn load(&self, x: &str, y: &str) -> Result<PairTable> {
            self.load_as(x, y, None, None, MissingRows::Drop)
        }

        fn load_as(
            &self,
            x: &str,
            y: &str,
            discrete: Option<&str>,
            numeric: Option<&str>,
            missing: MissingRows,
        ) -> Result<PairTable> {
            let path = self.folder.path().join("t.csv");
            let constant = ConstantColumns::Refuse;
            let reading = Reading { discrete, numeric, missing, constant, ..Reading::default() };
            load_pairs(&path, Some(x), Some(y), &reading)
        }
    }

    fn refusal(outcome: Result<PairTable>) -> String {
        let error = outcome.unwrap_err();
        assert!(matches!(error, Error::Data { .. }), "{error:?}");
        let text = error.to_string();
        assert!(text.contains("t.csv: ") && text.lines().count() == 1, "{text}");
        text
    }

    fn mixed() -> Case {
        let header = "id,a,b,c,k,w".to_string();
        let rows = (0..300).map(|row| {
            let a = if row == 6 { "NA".into() } else { (row as f64 / 3.0).to_string() };
            let b = if row == 9 { "u9" } else { ["u", "v"][row % 2] };
            let w = if row == 4 { "four".into() } else { (row / 12).to_string() };
            format!("name{row},{a},{b},{},{},{w}", row % 3, 7)
        });
        Case::new(std::iter::once(header).chain(rows))
    }

    #[test]
    fn incomplete_rows_are_dropped_or_refused() {
        let table = mixed().load("a", "b").unwrap();
        assert_eq!((table.input_rows, table.n_dropped, table.kept.len()), (300, 1, 299));
        assert_eq!((table.kept[5], table.kept[6]), (5, 7));
        assert_eq!(table.x[0].len(), 299);
        let Values::Continuous(values) = &table.x[0].values else { panic!() };
        assert_eq!(values[6], 7.0 / 3.0);
        let Values::Discrete { codes, labels } = &table.y[0].values else { panic!() };
        assert_eq!((labels.len(), codes[5], codes[6]), (3, 1, 1));
        let refused = mixed().load_as("b", "a", None, None, MissingRows::Refuse);
        assert!(refusal(refused).contains("column 'a' has no value in row 7"));
    }

    #[test]
    fn numbers_become_categories_on_request() {
        let table = mixed().load_as("c", "b", Some("c"), None, MissingRows::Drop).unwrap();
        let Values::Discrete { labels, .. } = &table.x[0].values else { panic!() };
        assert_eq!(labels, &["0", "1", "2"]);
        let rows = (0..2000).map(|row| format!("{row},{}", row % 7));
        let many = Case::new(rows).load_as("1", "2", Some("1"), None, MissingRows::Drop);
        assert!(refusal(many).contains("2000 different numbers, too many for categories"));
    }

    #[test]
    fn useless_columns_and_tables_are_refused() {
        for (x, y, expected) in [
            ("k", "a", "column 'k' has the same value in every row used; leave it out"),
            ("id", "a", "column 'id' has 299 different values in 299 rows"),
            ("q", "a", "x = q: there is no column 'q'"),
            ("a,b", "b", "column 'b' is in x too"),
        ] {
            let refused = refusal(mixed().load(x, y));
            assert!(refused.contains(expected), "{refused}");
        }
        let few = Case::new((0..19).map(|row| format!("{row},{}", row % 2)));
        assert!(refusal(few.load("1", "2")).contains("it has 19 rows; at least 20 are needed"));
        let gaps =
            Case::new((0..30).map(|row| format!("{row},{}", if row < 15 { "1" } else { "" })));
        let refused = refusal(gaps.load("1", "2"));
        assert!(refused.contains("15 of 30 rows are complete"), "{refused}");
        assert!(refused.contains("column '2' lacks 15 of its values"), "{refused}");
    }

    #[test]
    fn constant_columns_are_dropped_on_request() {
        let case = mixed();
        let path = case.folder.path().join("t.csv");
        let reading = Reading { constant: ConstantColumns::Drop, ..Reading::default() };
        let table = load_pairs(&path, Some("a,k"), Some("b"), &reading).unwrap();
        assert_eq!(table.x.len(), 1);
        let refused = refusal(load_pairs(&path, Some("k"), Some("b"), &reading));
        assert!(
            refused.contains("no column of x can be used: column 'k' has the same"),
            "{refused}"
        );
        let left = "column 'k' has the same value in every row and was left out";
        assert_eq!(table.notes[0].to_string(), left);
    }

    #[test]
    fn text_in_a_numeric_column_is_refused() {
        let refused = mixed().load_as("w", "a", None, Some("w"), MissingRows::Drop);
        assert!(refusal(refused).contains("column 'w' has to be numbers, but row 5 is 'four'"));
        let both = mixed().load_as("w", "a", Some("w"), Some("w"), MissingRows::Drop);
        assert!(refusal(both).contains("discrete and numeric: column"));
        let table = mixed().load_as("a", "c", None, Some("a,c"), MissingRows::Drop).unwrap();
        assert!(matches!(table.y[0].values, Values::Continuous(_)));
    }

    fn notes(table: &PairTable) -> Vec<String> {
        table.notes.iter().map(Message::to_string).collect()
    }

    #[test]
    fn useless_columns_are_left_out_unless_they_were_named() {
        let case = mixed();
        let path = case.folder.path().join("t.csv");
        let table = load_pairs(&path, None, Some("b"), &Reading::default()).unwrap();
        let names: Vec<&str> = table.x.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "w"]);
        let notes = notes(&table);
        assert_eq!(
            notes[0],
            "column 'w' has numbers in 299 of 300 rows, but 'four' from row 5 on; it is treated as \
             categories; if it means a missing value, set na = four"
        );
        assert_eq!(notes[1], "column 'k' has the same value in every row and was left out");
        assert_eq!(notes[2], "column 'id' has too many different texts and was left out");
    }

    #[test]
    fn row_numbers_are_left_out_unless_they_were_named() {
        let rows = (0..40).map(|k| format!("{k},{},{},", k * 7 % 40, k * k % 11));
        let case = Case::new(std::iter::once("row,my_id,y,empty".to_string()).chain(rows));
        let path = case.folder.path().join("t.csv");
        let error = load_pairs(&path, None, Some("y"), &Reading::default()).unwrap_err();
        let expected = "no column of x can be used: column 'empty' has no values and was left out; 2 \
                        columns identify the rows and were left out: 'row', 'my_id'";
        assert!(error.to_string().ends_with(expected), "{error}");
        assert_eq!(case.load("row", "y").unwrap().x.len(), 1);
    }

    #[test]
    fn rows_are_sampled_in_order() {
        let case = mixed();
        let path = case.folder.path().join("t.csv");
        let reading = Reading { sample_rows: Some(50), ..Reading::default() };
        let table = load_pairs(&path, Some("a"), Some("b"), &reading).unwrap();
        assert_eq!((table.kept.len(), table.x[0].len(), table.n_dropped), (50, 50, 1));
        assert!(table.kept.is_sorted() && table.kept[49] > 200);
        assert_eq!(notes(&table), ["50 of 299 rows were used, drawn at random"]);
        let loaded =
            load_frame(&path, &["a", "b"].map(|name| (name, Parameter::Columns)), &reading)
                .unwrap();
        assert_eq!((loaded.frame.rows, loaded.chosen), (50, vec![vec![0], vec![1]]));
    }

    #[test]
    fn two_files_are_put_side_by_side() {
        let folder = tempfile::tempdir().unwrap();
        let (x, y) = (folder.path().join("x.npy"), folder.path().join("y.csv"));
        let values: Vec<f64> = (0..60).map(|k| f64::from(k * k % 17)).collect();
        super::super::write_npy(&x, &values, 2).unwrap();
        let lines: Vec<String> = (0..30).map(|k| (k % 4).to_string()).collect();
        std::fs::write(&y, format!("label\n{}", lines.join("\n"))).unwrap();
        let table = load_two_files(&x, &y, None, None, &Reading::default()).unwrap();
        let names: Vec<&str> = table.x.iter().chain(&table.y).map(|c| c.name.as_str()).collect();
        assert_eq!(names, ["x1", "x2", "label"]);
        // Names are those of the table, positions count the columns of x first.
        for (discrete, expected) in [("label", [false, false, true]), ("x2,3", [false, true, true])]
        {
            let reading = Reading { discrete: Some(discrete), ..Reading::default() };
            let table = load_two_files(&x, &y, None, None, &reading).unwrap();
            let columns = table.x.iter().chain(&table.y);
            let kinds = columns.map(|column| matches!(column.values, Values::Discrete { .. }));
            assert_eq!(kinds.collect::<Vec<bool>>(), expected, "{discrete}");
        }
        let reading = Reading { discrete: Some("lable"), ..Reading::default() };
        let error = load_two_files(&x, &y, None, None, &reading).unwrap_err().to_string();
        assert!(error.contains("x.npy and") && error.contains("'lable'"), "{error}");
        std::fs::write(&y, "label\n1\n2\n").unwrap();
        let error = load_two_files(&x, &y, None, None, &Reading::default()).unwrap_err();
        assert!(error.to_string().contains("y.csv: it has 2 rows, but"), "{error}");
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let rows = (0..30).map(|k| format!("{},{}", k % 3, ["\u{1b}[2J", "b"][k % 2]));
        let case = Case::new(std::iter::once("a\u{7},b".to_string()).chain(rows));
        let table = case.load("1", "b").unwrap();
        assert_eq!(table.x[0].name, "a\\u{7}");
        let Values::Discrete { labels, .. } = &table.y[0].values else { panic!() };
        assert_eq!(labels[0], "\\u{1b}[2J");
    }

    #[test]
    fn words_for_nothing_among_numbers_and_names_like_positions_are_told() {
        let rows = (0..60).map(|k| {
            format!("{},{},{}", if k % 9 == 0 { 999 } else { 20 + k % 50 }, k % 7, k * k % 13)
        });
        let case = Case::new(std::iter::once("age,1,2".to_string()).chain(rows));
        let notes = notes(&case.load("age,1", "2").unwrap());
        let expected =
            "'age': 999 occurs in 7 rows, far from all other values; if it means a missing";
        assert!(notes.iter().any(|note| note.contains(expected)), "{notes:?}");
        assert!(notes.contains(&"'1' is the name of column 2, not a position".into()), "{notes:?}");
    }

    #[test]
    fn identifiers_by_their_names() {
        let values: Vec<f64> = (0..30).map(|k| f64::from(k * 7 % 31)).collect();
        for name in ["id", "user_id", "userId", "ID", "customer id", "index"] {
            assert!(numbers_rows(name, &values), "{name}");
        }
        for name in ["paid", "valid", "bid", "x"] {
            assert!(!numbers_rows(name, &values), "{name}");
        }
    }

    #[test]
    fn two_files_in_different_orders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (x, y) = (folder.path().join("x.csv"), folder.path().join("y.csv"));
        let lines = |step: usize| -> String {
            let ids = (0..40).map(|k| k * step % 40);
            "id,v\n".to_string() + &ids.map(|id| format!("{id},{}\n", id % 5)).collect::<String>()
        };
        std::fs::write(&x, lines(1)).unwrap();
        std::fs::write(&y, lines(7)).unwrap();
        let error = load_two_files(&x, &y, None, None, &Reading::default()).unwrap_err();
        assert!(error.to_string().contains("column 'id' identifies the rows, and in"), "{error}");
        assert!(load_two_files(&x, &x, None, None, &Reading::default()).is_ok());

        // Also if the column is not chosen, and not called an identifier.
        let lines = |step: usize| lines(step).replace("id,v", "who,v");
        std::fs::write(&x, lines(1)).unwrap();
        std::fs::write(&y, lines(7)).unwrap();
        let error = load_two_files(&x, &y, Some("v"), Some("v"), &Reading::default()).unwrap_err();
        assert!(error.to_string().contains("column 'who' identifies the rows"), "{error}");
    }

    #[test]
    fn long_integers_are_never_rounded() {
        let rows = (0..60u64).map(|k| format!("{},{},{}", (1u64 << 62) + k * k, k % 5, k * 7 % 11));
        let case = Case::new(std::iter::once("long,a,b".to_string()).chain(rows));
        let refused = refusal(case.load("long", "b"));
        assert!(refused.contains("column 'long' has an integer above 2^53"), "{refused}");
        let path = case.folder.path().join("t.csv");
        let table = load_pairs(&path, None, Some("b"), &Reading::default()).unwrap();
        assert_eq!((table.x.len(), table.x[0].name.as_str()), (1, "a"));
    }

    #[test]
    fn a_stray_word_among_decimal_commas_is_told() {
        let cell = |k: u32| if k == 7 { "off".into() } else { format!("{},{}", k, k % 10) };
        let rows = (0..60).map(|k| format!("{};{}", cell(k), k % 7));
        let case = Case::new(std::iter::once("a;b".to_string()).chain(rows));
        let refused = refusal(case.load("a", "b"));
        assert!(refused.contains("numbers in 59 of 60 rows, but 'off' from row 8"), "{refused}");
    }
}
