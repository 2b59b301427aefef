// SPDX-License-Identifier: Apache-2.0
//! What is named: dictionaries, codes, and the texts that they stand for.

use std::fmt;
use std::sync::Arc;

use crate::epochs::cluster::view::{BrickAddress, ViewNumber};

/// Which dictionary: that of one column of texts. What the two numbers mean is the caller's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DictionaryId {
    /// The table.
    pub table: u64,
    /// The column in it.
    pub column: u32,
}

impl DictionaryId {
    /// The brick whose holders are the dictionary's holders too. Nothing else connects the two.
    #[must_use]
    pub fn place(self) -> BrickAddress {
        BrickAddress { table: self.table, brick: u64::from(self.column) }
    }
}

impl fmt::Display for DictionaryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the dictionary of column {} of table {}", self.column, self.table)
    }
}

/// What stands for a text in rows: the text's place in its dictionary, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code(u32);

impl Code {
    /// The code with this number.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A code and its text: for good, and for every node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spelling {
    /// The code.
    pub code: Code,
    /// The text.
    pub text: Arc<str>,
}

/// A text in the list of a holder; its place there is its code. It may still be taken back while nobody was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenText {
    /// The text.
    pub text: Arc<str>,
    /// The layout in which its owner gave it. One layout has one owner in one life, which gives each place once; so two
    /// lists that have the same layout at the same place are the same up to there.
    pub layout: ViewNumber,
}

/// How much is asked for and sent at once, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DictionaryBounds {
    /// The most texts of one message, at least 1. Whoever has more asks in parts.
    pub texts_max: usize,
    /// The most bytes of one text.
    pub text_bytes_max: usize,
    /// After so many [resends](super::Dictionaries::resend) without an answer, at least 1, an ask fails.
    pub patience: u32,
}

impl Default for DictionaryBounds {
    fn default() -> Self {
        Self { texts_max: 1024, text_bytes_max: 4096, patience: 100 }
    }
}
