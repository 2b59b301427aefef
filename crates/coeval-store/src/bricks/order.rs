// SPDX-License-Identifier: Apache-2.0
//! What a scan of a brick table reads, in a form that can be divided and sent.
//!
//! Which rows a snapshot sees is a matter of epochs alone, and epochs mean the same everywhere (AOSI IV). So a scan is a
//! table, some columns, some bricks and an [`EpochSet`]: whoever has the bricks gives the same rows, however much has
//! been loaded, deleted or purged since. Bricks are divided whole: where a row lies in its brick differs by place and time.

use super::{put_numbers, take_number, take_numbers};
use crate::error::StoreError;
use crate::ids::SpaceId;
use coeval_brick::BrickId;
use coeval_txn::{Epoch, EpochSet};

/// The first byte of an order: what the rest is.
const FORMAT: u8 = 1;

/// What a scan of a brick table reads, wherever and whenever it runs.
///
/// Made by [`BrickSnapshot::order`](crate::BrickSnapshot::order), run by [`Store::ordered_scan`](crate::Store::ordered_scan).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanOrder {
    pub(crate) table: SpaceId,
    /// By index in the definition, which no ALTER TABLE changes.
    pub(crate) columns: Vec<usize>,
    /// In ascending order, unless who sent it did otherwise.
    pub(crate) bricks: Vec<BrickId>,
    pub(crate) epochs: EpochSet,
}

impl ScanOrder {
    /// The table that is read.
    #[must_use]
    pub const fn table(&self) -> SpaceId {
        self.table
    }

    /// The columns that are read, by index in the definition.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The bricks that are read.
    #[must_use]
    pub fn bricks(&self) -> &[BrickId] {
        &self.bricks
    }

    /// The epochs whose rows are seen.
    #[must_use]
    pub const fn epochs(&self) -> &EpochSet {
        &self.epochs
    }

    /// Orders that together read what this one does, with about as many bricks each: at most `count`, and at least one.
    #[must_use]
    pub fn divided(&self, count: usize) -> Vec<Self> {
        if self.bricks.is_empty() {
            return vec![self.clone()];
        }
        let size = self.bricks.len().div_ceil(count.max(1));
        self.bricks.chunks(size).map(|bricks| Self { bricks: bricks.to_vec(), ..self.clone() }).collect()
    }

    /// The order as bytes, to be sent. 8 for each brick and column.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&u64::from(self.table.get()).to_le_bytes());
        out.extend_from_slice(&self.epochs.newest().get().to_le_bytes());
        put_numbers(self.epochs.except().iter().map(|epoch| epoch.get()), &mut out);
        put_numbers(self.columns.iter().map(|column| *column as u64), &mut out);
        put_numbers(self.bricks.iter().map(|brick| brick.get()), &mut out);
        out
    }

    /// The order that was sent.
    ///
    /// # Errors
    /// [`StoreError::ScanOrder`] if the bytes are not those of one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StoreError> {
        decode(bytes).ok_or_else(|| StoreError::ScanOrder("these bytes are no order of a scan".to_owned()))
    }
}

fn decode(bytes: &[u8]) -> Option<ScanOrder> {
    let (format, bytes) = bytes.split_first()?;
    let (table, bytes) = take_number(bytes)?;
    let table = SpaceId::new(u32::try_from(table).ok()?);
    let (through, bytes) = take_number(bytes)?;
    let (except, bytes) = take_numbers(bytes)?;
    let (columns, bytes) = take_numbers(bytes)?;
    let (bricks, bytes) = take_numbers(bytes)?;
    let is_epoch = |number: &u64| (1..=Epoch::MAX.get()).contains(number);
    let is_sound =
        *format == FORMAT && bytes.is_empty() && through <= Epoch::MAX.get() && except.iter().all(is_epoch);
    is_sound.then(|| ScanOrder {
        table,
        columns: columns.into_iter().map(|column| column as usize).collect(),
        bricks: bricks.into_iter().map(BrickId::new).collect(),
        epochs: EpochSet::through(Epoch::new(through)).without(except.into_iter().map(Epoch::new)),
    })
}
