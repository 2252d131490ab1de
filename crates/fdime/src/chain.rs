//! The chain rule of mutual information over blocks of y's columns,
//!
//! `I(X; Y) = sum_b [ I(X, Y_<b; Y_b) - I(Y_<b; Y_b) ]`,
//!
//! where Y_<b are the blocks before block b. It is exact for any blocks in any order. Every term is
//! a mutual information of its own, in which only Y_b is deranged. If the information is spread over
//! the blocks and they share little, terms are much smaller than the whole, and easier to learn.

use crate::error::{Result, invalid};
use crate::message::{Parameter, counted};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The blocks of y's columns, in the order of the chain. In JSON: a number of blocks, or the list of
/// the columns of each block, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Chain {
    /// This many blocks of neighbouring columns, whose sizes differ by at most 1.
    Equal(usize),
    /// The columns of each block.
    Blocks(Vec<Vec<usize>>),
}

impl Chain {
    /// Returns the number of blocks.
    pub fn len(&self) -> usize {
        match self {
            Chain::Equal(blocks) => *blocks,
            Chain::Blocks(blocks) => blocks.len(),
        }
    }

    /// Returns whether there is no block; no y can be split like this.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the columns of each block for a y with `columns` columns.
    ///
    /// # Errors
    /// If there are fewer columns than blocks, or the blocks do not hold every column exactly once.
    pub fn blocks(&self, columns: usize) -> Result<Vec<Vec<usize>>> {
        let fail = |expected: String| Err(invalid(Parameter::Chain, self, expected));
        if self.is_empty() || self.len() > columns {
            let have = counted(columns, "column");
            let possible = match columns {
                1 => "1".into(),
                _ => format!("between 1 and {columns} blocks"),
            };
            return fail(format!("must be {possible}, because y has {have}"));
        }
        match self {
            Chain::Equal(blocks) => Ok((0..*blocks)
                .map(|b| (columns * b / blocks..columns * (b + 1) / blocks).collect())
                .collect()),
            Chain::Blocks(blocks) => {
                let mut all = blocks.concat();
                all.sort_unstable();
                if blocks.iter().any(Vec::is_empty) || !all.into_iter().eq(0..columns) {
                    return fail(format!(
                        "blocks hold each of the columns 0 to {} once",
                        columns - 1
                    ));
                }
                Ok(blocks.clone())
            }
        }
    }

    /// Returns the terms of the sum. I(Y_<1; Y_1) of the first block is 0 and not among them, so a
    /// chain of B blocks has 2B - 1 terms.
    pub fn terms(&self) -> Vec<Term> {
        let term = |block, with_x| Term { chain: self.clone(), block, with_x };
        let pair = |block| [(block, true), (block, false)];
        let all = (0..self.len()).flat_map(pair).filter(|&(block, with_x)| with_x || block > 0);
        all.map(|(block, with_x)| term(block, with_x)).collect()
    }
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Chain::Equal(blocks) => write!(f, "{blocks}"),
            Chain::Blocks(blocks) => write!(f, "{blocks:?}"),
        }
    }
}

/// A term of a chain: I(X, Y_<b; Y_b), which is added, or I(Y_<b; Y_b), which is subtracted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Term {
    /// The chain.
    pub chain: Chain,
    /// The block b, counted from 0.
    pub block: usize,
    /// Whether X is beside the earlier blocks.
    pub with_x: bool,
}

impl Term {
    /// Returns 1 if the term is added and -1 if it is subtracted.
    pub fn sign(&self) -> f64 {
        if self.with_x { 1.0 } else { -1.0 }
    }

    /// Returns the term as a formula with blocks counted from 1, such as `I(X, Y_<3; Y_3)`, with
    /// these names of the side that is whole and the side that is split.
    pub fn formula(&self, [whole, split]: [&str; 2]) -> String {
        let number = self.block + 1;
        let earlier = match number {
            1 => return format!("I({whole}; {split}_1)"),
            2 => format!("{split}_1"),
            _ => format!("{split}_<{number}"),
        };
        let whole = if self.with_x { format!("{whole}, ") } else { String::new() };
        format!("I({whole}{earlier}; {split}_{number})")
    }

    /// Returns the columns on both sides of the term, for x and y of these dimensions.
    ///
    /// # Errors
    /// If the chain does not fit y, or has no such term.
    pub fn columns(&self, (x_dim, y_dim): (usize, usize)) -> Result<ColumnSelection> {
        let blocks = self.chain.blocks(y_dim)?;
        if self.block >= blocks.len() || (self.block == 0 && !self.with_x) {
            let expected = "the chain has no such term; the first block's is I(X; Y_1) alone";
            return Err(invalid(Parameter::Chain, self, expected));
        }
        let x = if self.with_x { 0..x_dim } else { 0..0 };
        let earlier = blocks[..self.block].iter().flatten().map(|column| x_dim + column);
        Ok(ColumnSelection {
            x: x.chain(earlier).collect(),
            y: blocks[self.block].iter().map(|column| x_dim + column).collect(),
        })
    }

    /// Returns the largest dimensions of any term of the chain, for x and y of these dimensions.
    pub(crate) fn largest_dims(&self, (x_dim, y_dim): (usize, usize)) -> Result<(usize, usize)> {
        let sizes: Vec<usize> = self.chain.blocks(y_dim)?.iter().map(Vec::len).collect();
        let last = sizes.last().copied().unwrap_or(0);
        Ok((x_dim + y_dim - last, sizes.into_iter().max().unwrap_or(0)))
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.formula(["X", "Y"]))
    }
}

/// Columns that become a new x and y, counted through the columns of x and then those of y.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSelection {
    /// The columns of the new x.
    pub x: Vec<usize>,
    /// The columns of the new y.
    pub y: Vec<usize>,
}

impl ColumnSelection {
    /// Returns the dimensions of the new x and y.
    pub fn dims(&self) -> (usize, usize) {
        (self.x.len(), self.y.len())
    }

    /// Returns the selection of the same channels of images, whose pixels have their channels side
    /// by side. `channels` are those of the original x and y.
    pub fn of_images(&self, channels: (usize, usize), pixels: usize) -> Self {
        let place = |pixel: usize, channel: usize| match channel.checked_sub(channels.0) {
            None => pixel * channels.0 + channel,
            Some(channel) => pixels * channels.0 + pixel * channels.1 + channel,
        };
        let expand = |selected: &[usize]| {
            let of_pixel = |pixel| selected.iter().map(move |&channel| place(pixel, channel));
            (0..pixels).flat_map(of_pixel).collect()
        };
        ColumnSelection { x: expand(&self.x), y: expand(&self.y) }
    }

    /// Copies the selected columns of the rows of `x` and `y`, all row-major.
    pub(crate) fn copy(
        &self,
        (x_dim, y_dim): (usize, usize),
        (x, y): (&[f32], &[f32]),
        (new_x, new_y): (&mut [f32], &mut [f32]),
    ) {
        let rows = x.chunks_exact(x_dim).zip(y.chunks_exact(y_dim));
        let (width, height) = self.dims();
        let new_rows = new_x.chunks_exact_mut(width).zip(new_y.chunks_exact_mut(height));
        for ((x, y), (new_x, new_y)) in rows.zip(new_rows) {
            let value = |&column: &usize| match column.checked_sub(x_dim) {
                None => x[column],
                Some(column) => y[column],
            };
            new_x.iter_mut().zip(&self.x).for_each(|(new, column)| *new = value(column));
            new_y.iter_mut().zip(&self.y).for_each(|(new, column)| *new = value(column));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Every column of y is deranged in exactly one added term, and appears before in none.
        #[test]
        fn blocks_hold_every_column_once(blocks in 1usize..20, more in 0usize..50, x_dim in 1usize..4) {
            let y_dim = blocks + more;
            let chain = Chain::Equal(blocks);
            let sizes: Vec<usize> =
                chain.blocks(y_dim).unwrap().iter().map(Vec::len).collect();
            prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
            let terms = chain.terms();
            prop_assert_eq!(terms.len(), 2 * blocks - 1);
            let mut deranged = Vec::new();
            for term in terms.iter().filter(|term| term.with_x) {
                let ColumnSelection { x, y } = term.columns((x_dim, y_dim)).unwrap();
                prop_assert!(x.iter().copied().eq((0..x_dim).chain(deranged.iter().copied())));
                deranged.extend(y);
            }
            prop_assert!(deranged.into_iter().eq(x_dim..x_dim + y_dim));
        }
    }

    #[test]
    fn impossible_chains_are_refused() {
        let refused = |chain: Chain| chain.blocks(4).unwrap_err().to_string();
        assert!(refused(Chain::Equal(0)).contains("between 1 and 4"));
        assert!(refused(Chain::Equal(5)).contains("between 1 and 4"));
        assert!(refused(Chain::Blocks(vec![vec![0, 1], vec![1, 2, 3]])).contains("once"));
        assert!(refused(Chain::Blocks(vec![vec![0, 1, 2, 3], vec![]])).contains("once"));
        let term = Term { chain: Chain::Equal(2), block: 0, with_x: false };
        assert!(term.columns((1, 4)).is_err());
        let term = Term { chain: Chain::Equal(2), block: 2, with_x: true };
        assert!(term.columns((1, 4)).is_err());
    }

    #[test]
    fn a_chain_is_a_number_or_a_list_in_json() {
        for (text, chain) in
            [("4", Chain::Equal(4)), ("[[1],[0,2]]", Chain::Blocks(vec![vec![1], vec![0, 2]]))]
        {
            assert_eq!(serde_json::from_str::<Chain>(text).unwrap(), chain);
            assert_eq!(serde_json::to_string(&chain).unwrap(), text);
        }
    }

    #[test]
    fn terms_are_written_as_formulas() {
        let terms: Vec<String> = Chain::Equal(3).terms().iter().map(Term::to_string).collect();
        let expected =
            ["I(X; Y_1)", "I(X, Y_1; Y_2)", "I(Y_1; Y_2)", "I(X, Y_<3; Y_3)", "I(Y_<3; Y_3)"];
        assert_eq!(terms, expected);
    }

    /// Two pixels; x has the channels a and b, y the channels c and d.
    #[test]
    fn channels_of_images_stay_side_by_side() {
        let (x, y) = ([1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]);
        let term = Term { chain: Chain::Equal(2), block: 1, with_x: true };
        let channels = term.columns((2, 2)).unwrap();
        let selection = channels.of_images((2, 2), 2);
        let (mut new_x, mut new_y) = ([0.0; 6], [0.0; 2]);
        selection.copy((4, 4), (&x, &y), (&mut new_x, &mut new_y));
        assert_eq!((new_x, new_y), ([1.0, 2.0, 5.0, 3.0, 4.0, 7.0], [6.0, 8.0]));
    }
}
