// SPDX-License-Identifier: Apache-2.0
//! [`StoredBrick`] and [`BrickRows`]: what is in a brick, for who reads it and for another node.

use crate::brick_change::{BrickChange, LabelledChanges};
use crate::texts::{NoText, ReadTexts, RowCodes, RowTexts, TextColumns};
use arrow::array::RecordBatch;
use coeval_brick::{BrickView, Reader, TableView};
use coeval_txn::{Epoch, EpochSet};
use std::sync::Arc;

/// Bytes of rows that go to another node as one.
const LOAD_BYTES: usize = 1 << 20;

/// A brick as it was when it was looked up. It stays that, whatever happens to the brick later, and keeps its rows in memory.
#[derive(Clone, Default)]
pub struct StoredBrick {
    /// Of this brick alone; none if the table has no rows here.
    view: Option<(TableView, Arc<TextColumns>)>,
}

impl StoredBrick {
    /// The only brick of a view, or none if it has none, of a table with these columns of texts.
    pub(crate) fn new(view: TableView, texts: Arc<TextColumns>) -> Self {
        assert!(view.bricks().len() <= 1, "it is one brick's view");
        Self { view: Some((view, texts)) }
    }

    fn parts(&self) -> Option<(&TableView, &BrickView)> {
        let (view, _) = self.view.as_ref()?;
        view.bricks().first().map(|brick| (view, brick))
    }

    /// What a snapshot sees of it. Columns of texts have numbers, their codes, until a node has spelled them: those that
    /// [`Snapshot::read`](crate::Snapshot::read) gives have texts.
    #[must_use]
    pub fn rows(self, snapshot: EpochSet) -> BrickRows {
        BrickRows { brick: self, reader: Reader::of(snapshot), texts: None }
    }

    /// The codes that all its rows have in place of texts.
    pub(crate) fn codes(&self) -> Vec<RowCodes> {
        self.codes_seen(&Reader::uncommitted())
    }

    fn codes_seen(&self, reader: &Reader) -> Vec<RowCodes> {
        let Some((view, texts)) = &self.view else { return Vec::new() };
        let codes = view.bricks().first().map(|brick| texts.codes_of(view, brick, reader));
        codes.unwrap_or_default()
    }

    /// All rows and deletes, by label: what a copy gets.
    pub(crate) fn changes(&self) -> LabelledChanges {
        self.parts().map(|(view, brick)| changes_of(view, brick)).unwrap_or_default()
    }

    /// The labels of its rows and deletes.
    pub(crate) fn labels(&self) -> impl Iterator<Item = Epoch> + use<> {
        self.parts().map(|(_, brick)| labels_of(brick)).into_iter().flatten()
    }
}

/// All rows and deletes of a brick of a view, by label.
fn changes_of(view: &TableView, brick: &BrickView) -> LabelledChanges {
    let mut changes = labelled(view, brick, &Reader::uncommitted());
    changes.extend(deletes_of(brick));
    changes
}

/// The rows and deletes of a brick of a view whose labels are above `through`. Cost: a copy of these rows, however many others there are.
pub(crate) fn changes_above(view: &TableView, brick: &BrickView, through: Epoch) -> LabelledChanges {
    let mut changes = of_rows(view.encode_runs_above(brick, through, LOAD_BYTES));
    changes.extend(deletes_of(brick).filter(|(label, _)| *label > through));
    changes
}

fn deletes_of(brick: &BrickView) -> impl Iterator<Item = (Epoch, BrickChange)> {
    brick.deletes().map(|delete| (delete.epoch, BrickChange::Delete(delete.covered.clone())))
}

/// The labels of the rows and deletes of a brick.
pub(crate) fn labels_of(brick: &BrickView) -> impl Iterator<Item = Epoch> + use<> {
    use coeval_brick::EpochsPair::{Delete, Rows};
    brick.epochs().into_iter().map(|pair| match pair {
        Rows { epoch, .. } | Delete { epoch, .. } => epoch,
    })
}

/// The rows of a brick that a snapshot sees. They stay what they are, in memory, for as long as this is kept.
#[derive(Clone)]
pub struct BrickRows {
    brick: StoredBrick,
    reader: Reader,
    /// The texts of the codes that the rows have, once somebody has looked them up.
    texts: Option<Arc<ReadTexts>>,
}

impl BrickRows {
    /// How many there are. Cost: the epochs vector; no column is touched.
    #[must_use]
    pub fn count(&self) -> usize {
        self.brick.parts().map_or(0, |(view, _)| view.count(&self.reader))
    }

    /// The rows, with all columns of the table in their order. Metrics are the brick's own memory wherever all rows of a
    /// batch are seen. Texts are dictionaries with `UInt32` keys, all batches with the same values: those of the rows, by code.
    pub fn batches(&self) -> impl Iterator<Item = RecordBatch> + use<> {
        let batches = self.brick.parts().map(|(view, brick)| {
            let columns: Vec<usize> = (0..view.columns()).collect();
            view.batches(brick, &self.reader, &columns)
        });
        let texts = self.texts.clone();
        batches.into_iter().flatten().map(move |batch| match &texts {
            Some(texts) => texts.spell(&batch),
            None => batch,
        })
    }

    /// The codes that the rows have in place of texts. Cost: a pass over the columns with texts.
    pub(crate) fn codes(&self) -> Vec<RowCodes> {
        self.brick.codes_seen(&self.reader)
    }

    /// The same rows with texts: `codes` are those that they have.
    ///
    /// # Errors
    /// If `texts` does not have the text of one of them.
    pub(crate) fn spelled(mut self, codes: &[RowCodes], texts: &[RowTexts]) -> Result<Self, NoText> {
        if let Some((_, columns)) = self.brick.view.as_ref().filter(|(_, columns)| !columns.is_empty()) {
            self.texts = Some(Arc::new(ReadTexts::new(columns, codes, texts)?));
        }
        Ok(self)
    }

    /// The rows by label: what a reader on another node gets.
    pub(crate) fn labelled(&self) -> LabelledChanges {
        let parts = self.brick.parts();
        parts.map(|(view, brick)| labelled(view, brick, &self.reader)).unwrap_or_default()
    }
}

impl std::fmt::Debug for BrickRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BrickRows({})", self.count())
    }
}

fn labelled(view: &TableView, brick: &BrickView, reader: &Reader) -> LabelledChanges {
    of_rows(view.encode_runs(brick, reader, LOAD_BYTES))
}

fn of_rows(loads: Vec<(Epoch, Vec<u8>)>) -> LabelledChanges {
    loads.into_iter().map(|(epoch, rows)| (epoch, BrickChange::Rows(rows.into()))).collect()
}
