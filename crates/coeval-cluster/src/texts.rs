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

use coeval_txn::cluster::{DictionaryId, Spelling};

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
