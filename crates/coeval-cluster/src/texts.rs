// SPDX-License-Identifier: Apache-2.0
//! Texts of tables: bricks have codes in their place. Which columns these are, and what goes with rows that have codes.
//!
//! ```text
//!   who loads    texts of a batch --> codes, known or asked for --> rows by brick
//!   messages     rows, and the texts of all codes in them
//!   holders      texts to the dictionaries that are known here, rows to the bricks
//!   who reads    rows, the texts of all codes in them --> texts of batches
//! ```
//! Which code a text has is the business of [`Dictionaries`](coeval_txn::cluster::Dictionaries), and what stands in a brick
//! is a number to `coeval-brick`: a brick has some codes of a dictionary, and not those before.
//!
//! | file | what it is |
//! |---|---|
//! | `batch_texts.rs` | from texts to codes, for who loads |
//! | `read_texts.rs` | from codes to texts, for who reads |

mod batch_texts;
mod read_texts;

pub(crate) use batch_texts::ColumnTexts;
pub(crate) use read_texts::ReadTexts;

use arrow::datatypes::{DataType, SchemaRef};
use coeval_brick::{BrickSchema, BrickView, Column, Reader, RoutedLoad, TableView};
use coeval_txn::cluster::{Code, DictionaryId, Spelling};
use std::sync::Arc;

/// The codes of one dictionary that some rows have, each once, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCodes {
    /// The dictionary.
    pub dictionary: DictionaryId,
    /// The codes.
    pub codes: Vec<Code>,
}

/// Codes of one dictionary with their texts: what goes with rows that have these codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowTexts {
    /// The dictionary.
    pub dictionary: DictionaryId,
    /// The codes and their texts.
    pub spellings: Vec<Spelling>,
}

impl RowTexts {
    /// What a code and the length of its text take in a message, at most.
    pub(crate) const SPELLING_BYTES: usize = 16;

    /// About as many bytes as they take in a message.
    pub(crate) fn size(&self) -> usize {
        /// The dictionary, and how many there are.
        const HEAD_BYTES: usize = 32;
        let texts = self.spellings.iter().map(|spelling| spelling.text.len() + Self::SPELLING_BYTES);
        HEAD_BYTES + texts.sum::<usize>()
    }
}

/// Rows have a code of which nobody has said the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("code {} of {dictionary} has no text here", .code.get())]
pub struct NoText {
    /// The dictionary.
    pub dictionary: DictionaryId,
    /// The code.
    pub code: Code,
}

/// The columns of a table that have texts: none, of most tables.
#[derive(Debug)]
pub(crate) struct TextColumns {
    /// All columns, as readers get them.
    arrow: SchemaRef,
    columns: Vec<TextColumn>,
}

/// A column with texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextColumn {
    /// Where it is among the table's columns.
    place: usize,
    dictionary: DictionaryId,
    /// How many codes there can be.
    codes_max: u32,
    /// Its codes are ordinals, not numbers of a metric.
    is_dimension: bool,
}

impl TextColumn {
    fn of(table: u64, place: usize, column: &Column) -> Option<Self> {
        if *column.data_type() != DataType::Utf8 {
            return None;
        }
        let (codes_max, is_dimension) = match column {
            Column::Dimension(dimension) => (u32::try_from(dimension.cardinality).unwrap_or(u32::MAX), true),
            Column::Metric(_) => (u32::MAX, false),
        };
        let column = u32::try_from(place).expect("a table has fewer than 2^32 columns");
        Some(Self { place, dictionary: DictionaryId { table, column }, codes_max, is_dimension })
    }
}

impl TextColumns {
    /// Those of a table as it is declared.
    pub(crate) fn of(table: u64, schema: &BrickSchema) -> Self {
        let columns = schema.columns().iter().enumerate();
        let columns = columns.filter_map(|(place, column)| TextColumn::of(table, place, column));
        Self { arrow: Arc::clone(schema.arrow()), columns: columns.collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The dictionaries, each with how many codes it can have.
    pub(crate) fn dictionaries(&self) -> impl Iterator<Item = (DictionaryId, u32)> + '_ {
        self.columns.iter().map(|column| (column.dictionary, column.codes_max))
    }

    /// The codes that the rows of a load have, of dictionaries of which they have some; `None` if a number in such a column is
    /// no code.
    pub(crate) fn codes(&self, load: &RoutedLoad) -> Option<Vec<RowCodes>> {
        let of_column = |column: &TextColumn| {
            let codes = load.codes(column.place)?.into_iter().map(Code::new).collect();
            Some(RowCodes { dictionary: column.dictionary, codes })
        };
        let mut codes = self.columns.iter().map(of_column).collect::<Option<Vec<RowCodes>>>()?;
        codes.retain(|codes| !codes.codes.is_empty());
        Some(codes)
    }

    /// The codes in those rows of a brick that a reader sees. Cost: a pass over the columns with texts.
    pub(crate) fn codes_of(&self, view: &TableView, brick: &BrickView, reader: &Reader) -> Vec<RowCodes> {
        read_texts::codes_of(&self.columns, view, brick, reader)
    }
}
