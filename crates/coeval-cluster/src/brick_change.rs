// SPDX-License-Identifier: Apache-2.0
//! [`BrickChange`]: what a transaction does to a brick.

use crate::texts::RowTexts;
use bytes::Bytes;
use coeval_txn::{Epoch, EpochSet};
use std::sync::Arc;

/// What a transaction does to a brick, as nodes send it and log it, labelled with the transaction's epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BrickChange {
    /// Rows come to it. What they mean is known to the store and its users alone.
    Rows(Bytes),
    /// The same, on their way to a node: with the texts of all codes that these rows have. In logs and bricks they are rows as others are,
    /// since what was said of texts has been logged before.
    SpelledRows(Bytes, Arc<[RowTexts]>),
    /// The rows of these epochs, all older, are not seen by who sees this transaction. They stay for all others.
    Delete(EpochSet),
}

/// What transactions did to a brick, each change with its label.
pub(crate) type LabelledChanges = Vec<(Epoch, BrickChange)>;

impl BrickChange {
    /// About as many bytes as it takes in a message.
    pub(crate) fn size(&self) -> usize {
        /// A distance between two exceptions of a set takes no more.
        const EXCEPTION_BYTES: usize = 10;
        match self {
            Self::Rows(rows) => rows.len(),
            Self::SpelledRows(rows, texts) => rows.len() + texts.iter().map(RowTexts::size).sum::<usize>(),
            Self::Delete(seen) => (seen.except().len() + 1) * EXCEPTION_BYTES,
        }
    }

    /// The texts that have come with it.
    pub(crate) fn texts(&self) -> &[RowTexts] {
        match self {
            Self::SpelledRows(_, texts) => &texts[..],
            Self::Rows(_) | Self::Delete(_) => &[],
        }
    }
}
