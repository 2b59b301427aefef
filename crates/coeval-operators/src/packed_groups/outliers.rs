// SPDX-License-Identifier: Apache-2.0
//! Rows that have no room in a key, by numbers that stand in the key's place.
//!
//! A key of expected values has a bit above all of them. Where it is set, the bits below are the number of a row that is kept here, with
//! the values of all its columns. Equal rows get equal numbers, and numbers are never given back, so that keys that were put aside mean the
//! same when they come back.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bit that tells that a key is a row's number.
pub(super) const OUTLIER: u64 = 1 << (u64::BITS - 1);

/// The values of a row's columns; `None` is NULL.
type Row = Arc<[Option<i64>]>;

/// The rows that the keys of one operator have no room for.
///
/// # Locking
///
/// `rows` is locked while the outliers of a batch are looked up, which is not for batches without any. Nothing else is locked
/// meanwhile.
#[derive(Debug, Default)]
pub(super) struct Outliers {
    rows: Mutex<Rows>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Rows {
    numbers: HashMap<Row, u64>,
    rows: Vec<Row>,
}

// By hand: two operators number their rows each for itself.
impl PartialEq for Outliers {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Outliers {}

impl Outliers {
    pub(super) fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    /// The key of a row.
    pub(super) fn key_of(&mut self, row: &[Option<i64>]) -> u64 {
        if let Some(number) = self.numbers.get(row) {
            return OUTLIER | number;
        }
        let (number, row) = (self.rows.len() as u64, Row::from(row));
        self.rows.push(Arc::clone(&row));
        self.numbers.insert(row, number);
        OUTLIER | number
    }

    /// The row of a key that has the bit set; `None` if no row has it.
    pub(super) fn row_of(&self, key: u64) -> Option<&[Option<i64>]> {
        let number = usize::try_from(key & !OUTLIER).ok()?;
        self.rows.get(number).map(|row| &**row)
    }
}
