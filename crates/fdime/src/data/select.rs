//! Selection of columns.

use super::source::Checked;
use crate::error::{Error, Result, nearest_name, quote};
use crate::message::{Message, Parameter};
use std::collections::{HashMap, HashSet};

/// A chosen column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Its position, from 0.
    pub(super) index: usize,
    /// Whether it was named itself, and not by a pattern, a range or as one of all the others. A
    /// column that cannot be used is an error if it was named, and left out with a note otherwise.
    pub(super) named: bool,
}

/// Returns the positions (from 0) of the columns that a selector names, in its order and each once.
///
/// A selector is a comma-separated list of names, patterns (`sensor_*`, `t?`), positions from 1
/// (`3`), ranges of positions (`2-5`, `4-`) and ranges of names (`a:c`). A leading `!` excludes
/// columns (`*,!id`). An exact name takes precedence over any other meaning. Errors name
/// `parameter`, which holds the selector.
pub fn select(names: &[String], selector: &str, parameter: Parameter) -> Result<Vec<usize>> {
    Ok(choose(names, selector, parameter)?.into_iter().map(|choice| choice.index).collect())
}

/// As [`select`], with whether each column was named.
pub(super) fn choose(
    names: &[String],
    selector: &str,
    parameter: Parameter,
) -> Result<Vec<Choice>> {
    let fail = |problem: Message| selection_error(parameter, selector, problem);
    let positions = positions(names);
    let whole = by_name(&positions, selector.trim()).map_err(fail)?;
    if let Some(index) = whole {
        return Ok(vec![Choice { index, named: true }]);
    }
    let mut included: Vec<Choice> = Vec::new();
    let (mut excluded, mut includes_any) = (HashSet::new(), false);
    for item in selector.split(',').map(str::trim) {
        let exclusion = item.strip_prefix('!').filter(|_| !positions.contains_key(item));
        let (item, exclude) = exclusion.map_or((item, false), |rest| (rest.trim(), true));
        let found = resolve(names, &positions, item).map_err(fail)?;
        if exclude {
            excluded.extend(found);
        } else {
            let named = positions.contains_key(item) || item.parse::<usize>().is_ok();
            included.extend(found.into_iter().map(|index| Choice { index, named }));
            includes_any = true;
        }
    }
    if !includes_any {
        included.extend((0..names.len()).map(|index| Choice { index, named: false }));
    }
    let mut seen = excluded;
    included.retain(|choice| seen.insert(choice.index));
    match included.is_empty() {
        true => Err(fail("this leaves no column".into())),
        false => Ok(included),
    }
}

/// The positions of every name.
type Positions<'a> = HashMap<&'a str, Vec<usize>>;

fn positions(names: &[String]) -> Positions<'_> {
    let mut positions = Positions::new();
    for (index, name) in names.iter().enumerate() {
        positions.entry(name).or_default().push(index);
    }
    positions
}

/// Returns the columns of x and of y. If only one of them is chosen, the other is all the rest. If
/// neither is, the table must have two columns, or columns named `x1`, `x2`, ..., `y1`, ... A
/// pattern on one side does not take columns that the other side names.
pub fn pair_columns(
    names: &[String],
    x: Option<&str>,
    y: Option<&str>,
) -> Result<(Vec<usize>, Vec<usize>)> {
    let (x, y) = choose_sides(names, x, y)?;
    let indices = |side: Vec<Choice>| side.into_iter().map(|choice| choice.index).collect();
    Ok((indices(x), indices(y)))
}

/// As [`pair_columns`], with whether each column was named.
pub(super) fn choose_sides(
    names: &[String],
    x: Option<&str>,
    y: Option<&str>,
) -> Result<(Vec<Choice>, Vec<Choice>)> {
    let unnamed = |indices: Vec<usize>| -> Vec<Choice> {
        indices.into_iter().map(|index| Choice { index, named: false }).collect()
    };
    let others = |chosen: &[Choice], parameter: Parameter, selector: &str, other: Parameter| {
        let taken: HashSet<usize> = chosen.iter().map(|choice| choice.index).collect();
        let rest: Vec<usize> = (0..names.len()).filter(|index| !taken.contains(index)).collect();
        let problem = || Message::from("this is every column, which leaves none for ");
        match rest.is_empty() {
            false => Ok(unnamed(rest)),
            true => Err(selection_error(parameter, selector, problem().parameter(other))),
        }
    };
    match (x, y) {
        (Some(x), Some(y)) => {
            let mut left = choose(names, x, Parameter::X)?;
            let mut right = choose(names, y, Parameter::Y)?;
            leave_to(&right, &mut left, Parameter::X, x)?;
            leave_to(&left, &mut right, Parameter::Y, y)?;
            match right.iter().find(|right| left.iter().any(|left| left.index == right.index)) {
                None => Ok((left, right)),
                Some(shared) => {
                    let problem =
                        Message::from(format!("column {} is in ", quote(&names[shared.index])))
                            .parameter(Parameter::X)
                            .text(" too; it can be on one side only");
                    Err(selection_error(Parameter::Y, y, problem))
                }
            }
        }
        (Some(x), None) => {
            let left = choose(names, x, Parameter::X)?;
            let right = others(&left, Parameter::X, x, Parameter::Y)?;
            Ok((left, right))
        }
        (None, Some(y)) => {
            let right = choose(names, y, Parameter::Y)?;
            Ok((others(&right, Parameter::Y, y, Parameter::X)?, right))
        }
        (None, None) if names.len() == 2 => {
            let named = |index: usize| vec![Choice { index, named: true }];
            Ok((named(0), named(1)))
        }
        (None, None) => {
            let sides = named_sides(names).ok_or_else(|| Error::Selection {
                choice: Message::new()
                    .parameter(Parameter::X)
                    .text(" and ")
                    .parameter(Parameter::Y),
                problem: format!("say which columns are x and which are y; {}", list(names)).into(),
            })?;
            Ok((unnamed(sides.0), unnamed(sides.1)))
        }
    }
}

/// The chosen columns of x, of y and of what is held fixed.
pub(super) struct ThreeSides {
    pub(super) x: Vec<Choice>,
    pub(super) y: Vec<Choice>,
    pub(super) given: Vec<Choice>,
}

/// Returns the columns of x, of y and of what is held fixed. Columns that are held fixed are not among
/// those that x or y takes by default; otherwise as [`choose_sides`].
pub(super) fn choose_three(
    names: &[String],
    x: Option<&str>,
    y: Option<&str>,
    given: Option<&str>,
) -> Result<ThreeSides> {
    let Some(selector) = given else {
        let (x, y) = choose_sides(names, x, y)?;
        return Ok(ThreeSides { x, y, given: Vec::new() });
    };
    let mut given = choose(names, selector, Parameter::Given)?;
    let (mut left, mut right) = match (x, y) {
        // Without selectors there are no positions, so the other columns can be a table of their own.
        (None, None) => {
            let is_given = |index: &usize| given.iter().any(|choice| choice.index == *index);
            let others: Vec<usize> = (0..names.len()).filter(|index| !is_given(index)).collect();
            if others.len() < 2 {
                let problem = Message::from("this leaves too few columns for ")
                    .parameter(Parameter::X)
                    .text(" and ")
                    .parameter(Parameter::Y);
                return Err(selection_error(Parameter::Given, selector, problem));
            }
            let other_names: Vec<String> = others.iter().map(|&at| names[at].clone()).collect();
            let (x, y) = choose_sides(&other_names, None, None)?;
            let in_table = |side: Vec<Choice>| -> Vec<Choice> {
                side.into_iter()
                    .map(|choice| Choice { index: others[choice.index], ..choice })
                    .collect()
            };
            (in_table(x), in_table(y))
        }
        (x, y) => choose_sides(names, x, y)?,
    };
    for (side, own, parameter) in [(&mut left, x, Parameter::X), (&mut right, y, Parameter::Y)] {
        leave_to(side, &mut given, Parameter::Given, selector)?;
        let taken = |choice: &Choice| given.iter().any(|given| given.index == choice.index);
        if let Some(shared) = side.iter().find(|choice| choice.named && taken(choice)) {
            let problem = Message::from(format!("column {} is in ", quote(&names[shared.index])))
                .parameter(parameter)
                .text(" too; it cannot be compared and held fixed");
            return Err(selection_error(Parameter::Given, selector, problem));
        }
        side.retain(|choice| !taken(choice));
        if side.is_empty() {
            let problem = Message::from("this leaves no column for ").parameter(parameter);
            return Err(match own {
                Some(own) => selection_error(parameter, own, "this leaves no column".into()),
                None => selection_error(Parameter::Given, selector, problem),
            });
        }
    }
    Ok(ThreeSides { x: left, y: right, given })
}

/// Removes from `side` the columns that it did not name, but `other` did.
fn leave_to(
    other: &[Choice],
    side: &mut Vec<Choice>,
    parameter: Parameter,
    selector: &str,
) -> Result<()> {
    let theirs: HashSet<usize> =
        other.iter().filter(|choice| choice.named).map(|choice| choice.index).collect();
    side.retain(|choice| choice.named || !theirs.contains(&choice.index));
    match side.is_empty() {
        true => Err(selection_error(parameter, selector, "this leaves no column".into())),
        false => Ok(()),
    }
}

fn selection_error(parameter: Parameter, selector: &str, problem: Message) -> Error {
    let choice = Message::new().setting(parameter, selector);
    Error::Selection { choice, problem: problem.on_one_line() }
}

/// Returns the sides of a table whose columns are all named `x` or `y`, in small letters or
/// capitals, with or without a number; `None` if a column has another name or a side has no column.
fn named_sides(names: &[String]) -> Option<(Vec<usize>, Vec<usize>)> {
    let side = |name: &String, letter: char| {
        name.strip_prefix([letter, letter.to_ascii_uppercase()])
            .is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let columns = |letter: char| -> Vec<usize> {
        (0..names.len()).filter(|index| side(&names[*index], letter)).collect()
    };
    let (x, y) = (columns('x'), columns('y'));
    let all_named = x.len() + y.len() == names.len();
    (all_named && !x.is_empty() && !y.is_empty()).then_some((x, y))
}

/// Returns the columns that one item of a selector names.
fn resolve(names: &[String], positions: &Positions, item: &str) -> Checked<Vec<usize>> {
    if item.is_empty() {
        return Err("there is an empty name between its commas".into());
    }
    if let Some(index) = by_name(positions, item)? {
        return Ok(vec![index]);
    }
    if item.contains(['*', '?']) {
        let matching: Vec<usize> =
            (0..names.len()).filter(|index| glob_matches(item, &names[*index])).collect();
        return match matching.is_empty() {
            true => Err(format!("no column matches {}; {}", quote(item), list(names)).into()),
            false => Ok(matching),
        };
    }
    let numbered = numbered(names, item);
    if numbered.len() > 1 {
        return Ok(numbered);
    }
    if let Some((first, last)) = position_range(item, names.len()) {
        return check_range(first, last, names.len());
    }
    let mut colons = item.match_indices(':');
    let ends = colons.find_map(|(at, _)| {
        let (first, last) = (item[..at].trim(), item[at + 1..].trim());
        let known = |end: &str| positions.contains_key(end);
        (known(first) && known(last)).then_some((first, last))
    });
    if let Some((first, last)) = ends {
        let (first, last) = (by_name(positions, first)?, by_name(positions, last)?);
        let (Some(first), Some(last)) = (first, last) else { return Err(unknown(names, item)) };
        return check_range(first + 1, last + 1, names.len());
    }
    // In a range of names, the error names the end that is not a column.
    let wrong = item.split_once(':').map(|(first, last)| [first.trim(), last.trim()]);
    let wrong = wrong.into_iter().flatten().find(|end| !positions.contains_key(end));
    Err(unknown(names, wrong.unwrap_or(item)))
}

/// Returns the columns whose names are this name and a number, as those of a matrix or an embedding.
fn numbered(names: &[String], item: &str) -> Vec<usize> {
    let is_numbered = |name: &String| {
        let number = name.strip_prefix(item).unwrap_or_default();
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    };
    match item.ends_with(|c: char| c.is_ascii_digit()) {
        true => Vec::new(),
        false => (0..names.len()).filter(|index| is_numbered(&names[*index])).collect(),
    }
}

/// Returns the column with exactly this name, if there is one. Several of them are an error.
fn by_name(positions: &Positions, wanted: &str) -> Checked<Option<usize>> {
    match positions.get(wanted).map_or(&[][..], Vec::as_slice) {
        [] => Ok(None),
        [index] => Ok(Some(*index)),
        found => {
            let positions: Vec<String> =
                found.iter().map(|index| (index + 1).to_string()).collect();
            Err(format!(
                "{} columns are called {}; choose by position: {}",
                found.len(),
                quote(wanted),
                positions.join(", ")
            )
            .into())
        }
    }
}

/// Returns the first and last position that `3`, `2-5` or `4-` stand for.
fn position_range(item: &str, columns: usize) -> Option<(usize, usize)> {
    if let Ok(position) = item.parse() {
        return Some((position, position));
    }
    let (first, last) = item.split_once('-')?;
    let first = first.trim().parse().ok()?;
    match last.trim() {
        "" => Some((first, columns)),
        last => Some((first, last.parse().ok()?)),
    }
}

fn check_range(first: usize, last: usize, columns: usize) -> Checked<Vec<usize>> {
    let beyond = [first, last].into_iter().find(|position| !(1..=columns).contains(position));
    match beyond {
        Some(position) => {
            Err(format!("there is no column {position}: positions go from 1 to {columns}").into())
        }
        None if first > last => {
            Err(format!("the range goes backwards, from column {first} to column {last}").into())
        }
        None => Ok((first - 1..last).collect()),
    }
}

/// Returns whether a pattern with `*` (any characters) and `?` (one character) matches a name.
pub fn glob_matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut p, mut n) = (0, 0);
    // The positions of the last star in the pattern and of the end of its match in the name.
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(wanted) if *wanted == '?' || *wanted == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((at, end)) => {
                    star = Some((at, end + 1));
                    p = at + 1;
                    n = end + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|rest| *rest == '*')
}

fn unknown(names: &[String], wanted: &str) -> Message {
    let suggestion = match nearest_name(wanted, names.iter().map(String::as_str)) {
        Some(name) => format!(", did you mean {}?", quote(name)),
        None => ";".to_string(),
    };
    format!("there is no column {}{suggestion} {}", quote(wanted), list(names)).into()
}

/// Lists the columns, or their number, the first three and the last if there are many.
fn list(names: &[String]) -> String {
    const MAX_LISTED: usize = 12;
    match names.len() {
        count if count > MAX_LISTED => {
            let first: Vec<String> = names.iter().take(3).map(|name| quote(name)).collect();
            let last = names.last().map(|name| quote(name)).unwrap_or_default();
            format!("the table has {count} columns: {}, ..., {last}", first.join(", "))
        }
        _ => {
            let all: Vec<String> = names.iter().map(|name| quote(name)).collect();
            format!("the columns are {}", all.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Vec<String> {
        list.split(' ').map(str::to_string).collect()
    }

    #[test]
    fn items_of_all_kinds() {
        let table = names("id sensor_a sensor_b t1 t2 a-b 9");
        for (selector, expected) in [
            ("t1", vec![3]),
            ("t2, id", vec![4, 0]),
            ("sensor_*", vec![1, 2]),
            ("t?", vec![3, 4]),
            ("*_b", vec![2]),
            ("*e*o*_?", vec![1, 2]),
            ("2", vec![1]),
            ("2-4", vec![1, 2, 3]),
            ("5-", vec![4, 5, 6]),
            ("9", vec![6]),
            ("a-b", vec![5]),
            ("sensor_b:t2", vec![2, 3, 4]),
            ("*,!id", vec![1, 2, 3, 4, 5, 6]),
            ("!3-", vec![0, 1]),
            ("!id,*", vec![1, 2, 3, 4, 5, 6]),
            ("t1,t*,4", vec![3, 4]),
            ("t", vec![3, 4]),
        ] {
            assert_eq!(select(&table, selector, Parameter::X).unwrap(), expected, "{selector}");
        }
        assert_eq!(select(&names("a a,b !c"), "a,b", Parameter::X).unwrap(), [1]);
        assert_eq!(select(&names("a a,b !c"), "!c", Parameter::X).unwrap(), [2]);
    }

    #[test]
    fn errors_name_the_wrong_item() {
        let table = names("price volume price time");
        for (selector, expected) in [
            ("volum", "there is no column 'volum', did you mean 'volume'? the columns are 'price'"),
            ("qqq", "there is no column 'qqq'; the columns are"),
            ("price", "2 columns are called 'price'; choose by position: 1, 3"),
            ("volume:tme", "there is no column 'tme', did you mean 'time'?"),
            ("7", "there is no column 7: positions go from 1 to 4"),
            ("0", "there is no column 0"),
            ("2-9", "there is no column 9"),
            ("3-2", "goes backwards"),
            ("z*", "no column matches 'z*'"),
            ("volume,,time", "empty name"),
            ("", "empty name"),
            ("!*", "leaves no column"),
        ] {
            let error = select(&table, selector, Parameter::X).unwrap_err().to_string();
            assert!(error.starts_with(&format!("x = {selector}: ")), "{error}");
            assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        }
    }

    #[test]
    fn sides_chosen_and_found() {
        let table = names("a b c");
        assert_eq!(pair_columns(&table, Some("a"), Some("c")).unwrap(), (vec![0], vec![2]));
        assert_eq!(pair_columns(&table, Some("b"), None).unwrap(), (vec![1], vec![0, 2]));
        assert_eq!(pair_columns(&table, None, Some("b")).unwrap(), (vec![0, 2], vec![1]));
        assert_eq!(pair_columns(&names("q r"), None, None).unwrap(), (vec![0], vec![1]));
        assert_eq!(pair_columns(&names("y x1 x2"), None, None).unwrap(), (vec![1, 2], vec![0]));
        for (x, y, expected) in [
            (None, None, "say which columns are x and which are y; the columns are 'a', 'b', 'c'"),
            (Some("a,b"), Some("b,c"), "column 'b' is in x too"),
            (Some("*"), Some("*"), "column 'a' is in x too"),
            (Some("a"), Some("a*"), "this leaves no column"),
            (Some("*"), None, "leaves none for y"),
            (None, Some("1-3"), "leaves none for x"),
        ] {
            let error = pair_columns(&table, x, y).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(pair_columns(&names("x1 x2 x3"), None, None).is_err());
        assert_eq!(pair_columns(&names("X1 X2 y"), None, None).unwrap(), (vec![0, 1], vec![2]));
    }

    #[test]
    fn a_pattern_does_not_take_what_the_other_side_names() {
        let table = names("id a b y");
        for (x, y, expected) in [
            ("!id", "y", (vec![1, 2], vec![3])),
            ("*,!id", "y", (vec![1, 2], vec![3])),
            ("1-", "y", (vec![0, 1, 2], vec![3])),
            ("a", "*", (vec![1], vec![0, 2, 3])),
        ] {
            assert_eq!(pair_columns(&table, Some(x), Some(y)).unwrap(), expected, "{x}");
        }
        let (x, y) = choose_sides(&table, Some("a,b*"), None).unwrap();
        let named = |side: Vec<Choice>| side.iter().map(|choice| choice.named).collect::<Vec<_>>();
        assert_eq!((named(x), named(y)), (vec![true, false], vec![false, false]));
    }
}
