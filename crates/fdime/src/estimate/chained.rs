//! Estimates by the chain rule, for dependence that is too strong to measure at once.
//!
//! A critic learns a log ratio from rows that are deranged; if I(X; Y) is large, no deranged row
//! looks like an observed one, and nothing tells a good critic from a better one. The chain rule
//! ([`Chain`]) splits I(X; Y) into terms that are small enough. Each term is estimated like a table
//! of its own, on the same folds.

use super::crossfit::{FoldTables, Table, crossfit};
use super::plan::EstimatePlan;
use super::progress::Progress;
use super::result::{ChainFigures, TermFigures};
use super::terms::{WithoutBegin, sum};
use super::verdict::entropy_bound;
use super::{Fitted, normal_scores};
use crate::chain::{Chain, ColumnSelection};
use crate::data::Column;
use crate::engine::Engine;
use crate::error::{Error, Result, invalid};
use crate::message::Parameter;
use crate::nats::Nats;
use crate::parallel::Tick;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// Whether an estimate uses the chain rule. Its name is `off`, `auto` or the number of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum ChainChoice {
    /// Never.
    Off,
    /// If the direct estimate is so large that it may have missed some of the information.
    #[default]
    Auto,
    /// Always, with this many blocks of columns.
    Blocks(usize),
}

/// A choice in JSON.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "chain: write off, auto, or a number of blocks of at least 2")]
enum Written {
    Number(usize),
    Name(String),
}

impl From<ChainChoice> for Written {
    fn from(choice: ChainChoice) -> Self {
        match choice {
            ChainChoice::Blocks(blocks) => Written::Number(blocks),
            other => Written::Name(other.to_string()),
        }
    }
}

impl TryFrom<Written> for ChainChoice {
    type Error = Error;

    fn try_from(written: Written) -> Result<Self> {
        match written {
            Written::Number(blocks) => blocks.to_string().parse(),
            Written::Name(name) => name.parse(),
        }
    }
}

impl fmt::Display for ChainChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChainChoice::Off => f.write_str("off"),
            ChainChoice::Auto => f.write_str("auto"),
            ChainChoice::Blocks(blocks) => write!(f, "{blocks}"),
        }
    }
}

impl FromStr for ChainChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.parse()) {
            ("off", _) => Ok(ChainChoice::Off),
            ("auto", _) => Ok(ChainChoice::Auto),
            (_, Ok(blocks)) if blocks >= 2 => Ok(ChainChoice::Blocks(blocks)),
            _ => Err(invalid(
                Parameter::Chain,
                text,
                "write off, auto, or a number of blocks of at least 2",
            )),
        }
    }
}

/// The share of ln n above which a direct estimate may have missed some of the information. Below
/// it, direct estimates of tasks with known truth left little for a chain to find, at 2B times the
/// cost.
const DIRECT_SHARE: f64 = 1.0 / 3.0;

/// The number of blocks of an automatic chain: each block costs two more estimates.
const AUTOMATIC_BLOCKS: usize = 4;

/// Limits on the columns and rows that correlations between columns are computed from.
const MAX_CORRELATED_COLUMNS: usize = 1_000;
const MAX_CORRELATED_ROWS: usize = 2_000;

/// Checks that one side has enough columns for the blocks of the plan.
pub(super) fn check(table: Table, plan: &EstimatePlan) -> Result<()> {
    let columns = table.x.len().max(table.y.len());
    match plan.chain {
        ChainChoice::Blocks(blocks) if blocks > columns => {
            let expected = match columns {
                1 => "x and y have one column each, which cannot be split".into(),
                _ => format!(
                    "must be at most {columns} blocks, because neither x nor y has more columns"
                ),
            };
            Err(invalid(Parameter::Chain, blocks, expected))
        }
        _ => Ok(()),
    }
}

/// Returns the number of blocks to use after a direct estimate, or `None` for no chain.
pub(super) fn blocks_for(table: Table, plan: &EstimatePlan, direct: &Fitted) -> Option<usize> {
    match plan.chain {
        ChainChoice::Off => None,
        ChainChoice::Blocks(blocks) => Some(blocks),
        ChainChoice::Auto => {
            let is_large = direct.mi() > DIRECT_SHARE * (table.rows as f64).ln();
            let is_limited = entropy_bound(table.x, table.y).is_some();
            let blocks = table.x.len().max(table.y.len()).min(AUTOMATIC_BLOCKS);
            (is_large && !is_limited && blocks >= 2).then_some(blocks)
        }
    }
}

/// Estimates every term of a chain over `blocks` blocks of y, or of x if y has fewer columns.
/// `direct` is the direct estimate.
pub(super) fn chained(
    table: Table,
    plan: &EstimatePlan,
    blocks: usize,
    direct: &Fitted,
    engine: &dyn Engine,
    progress: &dyn Progress,
) -> Result<Fitted> {
    let over_x = table.y.len() < blocks;
    let (given, split) = if over_x { (table.y, table.x) } else { (table.x, table.y) };
    let tick = || super::progress::check(progress);
    let columns = correlated_blocks(split, table.rows, blocks, &tick)?;
    let terms = Chain::Blocks(columns.clone()).terms();
    progress.begin(terms.len() as u64 * direct.fit.cost);
    let progress = &WithoutBegin(progress);
    let mut fits = Vec::new();
    for term in &terms {
        let selection = term.columns((given.len(), split.len()))?;
        let (x, y) = select(given, split, &selection);
        let table = Table { x: &x, y: &y, ..table };
        let data = FoldTables::same(table, plan.folds);
        let mut fit = crossfit(&data, plan, engine, progress)?;
        // The test is that of the direct estimate; the pairs of all terms would take much memory.
        fit.nulls.clear();
        fits.push(Fitted::direct(fit, plan));
    }
    let figures = terms.iter().zip(&fits).map(|(term, fit)| TermFigures {
        term: term.formula(if over_x { ["Y", "X"] } else { ["X", "Y"] }),
        block: term.block + 1,
        is_added: term.with_x,
        mi_nats: fit.mi(),
        lower_bound_nats: fit.fit.lower_bound,
        gap_nats: fit.gap,
    });
    let names = |block: &Vec<usize>| block.iter().map(|&at| split[at].name.clone()).collect();
    let chain = ChainFigures {
        side: if over_x { "x" } else { "y" }.into(),
        blocks: columns.iter().map(names).collect(),
        terms: figures.collect(),
        direct_nats: Nats(direct.mi().max(0.0)),
    };
    let signs: Vec<f64> = terms.iter().map(crate::chain::Term::sign).collect();
    let mut sum = sum(&signs, &fits, plan.unseen_share(table.rows));
    // What the chain finds and the direct estimate misses tells how much critics miss here.
    sum.gap += 0.5 * (sum.mi() - direct.mi()).max(0.0);
    sum.chain = Some(chain);
    sum.fit.race = direct.fit.race.clone();
    sum.fit.models = direct.fit.models.clone();
    sum.fit.cost = direct.fit.cost;
    Ok(sum)
}

/// Returns the columns of a term's two sides.
fn select(
    given: &[Column],
    split: &[Column],
    selection: &ColumnSelection,
) -> (Vec<Column>, Vec<Column>) {
    let column = |&at: &usize| match at.checked_sub(given.len()) {
        None => given[at].clone(),
        Some(at) => split[at].clone(),
    };
    (selection.x.iter().map(column).collect(), selection.y.iter().map(column).collect())
}

/// Splits columns into blocks of nearly equal size such that correlated columns share a block,
/// because what blocks share is a difference of two estimates. Each block begins with the first
/// column that is left, and takes in turn the one that is most correlated with the block.
fn correlated_blocks(
    columns: &[Column],
    rows: usize,
    blocks: usize,
    tick: Tick,
) -> Result<Vec<Vec<usize>>> {
    let count = columns.len();
    let squares = squared_correlations(columns, rows, tick)?;
    // Correlations that chance explains do not change the order of columns.
    let chance = 8.0 / rows.min(MAX_CORRELATED_ROWS) as f64;
    let mut left: Vec<usize> = (0..count).collect();
    let mut result = Vec::with_capacity(blocks);
    for block in 0..blocks {
        let size = count * (block + 1) / blocks - count * block / blocks;
        let mut chosen = vec![left.remove(0)];
        // The largest squared correlation of each column that is left with the block.
        let mut with_block = vec![0.0f64; count];
        while chosen.len() < size {
            tick()?;
            let newest = chosen[chosen.len() - 1];
            let mut best = (0, chance);
            for (place, &column) in left.iter().enumerate() {
                let value = with_block[column].max(squares(column, newest));
                with_block[column] = value;
                if value > best.1 {
                    best = (place, value);
                }
            }
            chosen.push(left.remove(best.0));
        }
        result.push(chosen);
    }
    Ok(result)
}

/// Returns the squared correlation of normal scores of any two columns; 0 where a column is
/// discrete or there are too many columns.
fn squared_correlations<'a>(
    columns: &'a [Column],
    rows: usize,
    tick: Tick,
) -> Result<impl Fn(usize, usize) -> f64 + 'a> {
    let mut scores: Vec<Option<Vec<f32>>> = vec![None; columns.len()];
    if columns.len() <= MAX_CORRELATED_COLUMNS {
        for (column, scores) in columns.iter().zip(&mut scores) {
            let side = std::slice::from_ref(column);
            let table = Table { x: side, y: side, rows, starts: &[] };
            let [(values, width), _] = normal_scores(table, MAX_CORRELATED_ROWS, tick)?;
            *scores = (width == 1).then(|| standardised(&values));
        }
    }
    Ok(move |a: usize, b: usize| match (&scores[a], &scores[b]) {
        (Some(a), Some(b)) => {
            let product: f64 = a.iter().zip(b).map(|(a, b)| f64::from(a * b)).sum();
            (product / a.len() as f64).powi(2)
        }
        _ => 0.0,
    })
}

/// Returns the values with mean 0 and variance 1; zeros if they are constant.
fn standardised(values: &[f32]) -> Vec<f32> {
    let n = values.len().max(1) as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
    let scale = if squares > 0.0 { (n / squares).sqrt() } else { 0.0 };
    values.iter().map(|value| ((f64::from(*value) - mean) * scale) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Values;
    use crate::random::{Purpose, stream};
    use rand_distr::{Distribution, StandardNormal};

    #[test]
    fn choices_are_written_as_users_write_them() {
        for (text, json, choice) in [
            ("off", "\"off\"", ChainChoice::Off),
            ("auto", "\"auto\"", ChainChoice::Auto),
            ("4", "4", ChainChoice::Blocks(4)),
        ] {
            assert_eq!(text.parse::<ChainChoice>().unwrap(), choice);
            assert_eq!(choice.to_string(), text);
            assert_eq!(serde_json::to_string(&choice).unwrap(), json);
            assert_eq!(serde_json::from_str::<ChainChoice>(json).unwrap(), choice);
        }
        for text in ["1", "0", "-1", "on", ""] {
            assert!(text.parse::<ChainChoice>().unwrap_err().to_string().contains("at least 2"));
        }
    }

    /// Returns columns that are copies of `factors` independent normals with noise, in turn.
    fn columns(count: usize, factors: usize) -> Vec<Column> {
        let mut rng = stream(1, Purpose::Data, 0, 0);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let rows: Vec<Vec<f64>> =
            (0..factors).map(|_| (0..500).map(|_| normal()).collect()).collect();
        let column = |k: usize| {
            let values = rows[k % factors].iter().map(|value| value + 0.5 * normal()).collect();
            Column { name: format!("c{k}"), values: Values::Continuous(values) }
        };
        (0..count).map(column).collect()
    }

    #[test]
    fn correlated_columns_share_a_block() {
        let blocks = correlated_blocks(&columns(6, 2), 500, 2, &|| Ok(())).unwrap();
        let sorted = |block: &Vec<usize>| {
            let mut block = block.clone();
            block.sort_unstable();
            block
        };
        let blocks: Vec<Vec<usize>> = blocks.iter().map(sorted).collect();
        assert_eq!(blocks, [[0, 2, 4], [1, 3, 5]]);
    }

    #[test]
    fn independent_columns_keep_their_order() {
        let blocks = correlated_blocks(&columns(7, 7), 500, 3, &|| Ok(())).unwrap();
        assert_eq!(blocks, [vec![0, 1], vec![2, 3], vec![4, 5, 6]]);
    }
}
