// SPDX-License-Identifier: Apache-2.0
//! Numbers for values: 1, 2, 3 in the order in which values are first seen.

use datafusion::common::hash_utils::RandomState;
use std::hash::{BuildHasher, Hash};

/// Entries of the smallest table.
const TABLE_MIN: usize = 256;

/// While a table has at most so many entries, few of them are used: most values are found at the first look, which a processor
/// foresees.
const SPARSE_MAX: usize = 1 << 16;

/// Entries for each value, in tables of this many.
const fn room(entries: usize) -> usize {
    if entries <= SPARSE_MAX { 8 } else { 3 }
}

/// The codes of values. Finding one costs a hash and two loads.
pub(super) struct Dictionary<K> {
    /// By hash: a code, or 0 for an entry that is free. A power of two.
    table: Vec<u32>,
    /// The value of code `c` is at `c - 1`.
    values: Vec<K>,
    hashing: RandomState,
}

impl<K: Copy + Eq + Hash> Dictionary<K> {
    pub(super) fn new() -> Self {
        Self { table: vec![0; TABLE_MIN], values: Vec::new(), hashing: RandomState::default() }
    }

    /// The value's code, a new one if it was not seen before.
    #[inline]
    pub(super) fn code(&mut self, value: K) -> u32 {
        let mask = self.table.len() - 1;
        let mut at = self.place(value);
        loop {
            let code = self.table[at];
            if code == 0 {
                return self.add(value, at);
            }
            if self.values[code as usize - 1] == value {
                return code;
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts the code of each value into `codes`, whatever was in there.
    ///
    /// Where a value's code may be is looked up for all values first, and then whether it is the value's: loads of the first kind do not
    /// wait for the outcome of comparisons.
    pub(super) fn codes(&mut self, values: &[K], codes: &mut Vec<u32>) {
        codes.clear();
        codes.extend(values.iter().map(|value| self.table[self.place(*value)]));
        for (value, code) in values.iter().zip(codes) {
            let is_its = *code != 0 && self.values[*code as usize - 1] == *value;
            if !is_its {
                *code = self.code(*value);
            }
        }
    }

    #[inline]
    fn place(&self, value: K) -> usize {
        // The upper bits depend on all of the value.
        (self.hashing.hash_one(value) >> (64 - self.table.len().trailing_zeros())) as usize
    }

    #[cold]
    fn add(&mut self, value: K, at: usize) -> u32 {
        self.values.push(value);
        let code = u32::try_from(self.values.len()).expect("callers stop long before so many values");
        self.table[at] = code;
        if self.values.len() * room(self.table.len()) > self.table.len() {
            self.grow();
        }
        code
    }

    fn grow(&mut self) {
        self.table = vec![0; self.table.len() * 2];
        let mask = self.table.len() - 1;
        for (code, &value) in (1..).zip(&self.values) {
            let mut at = self.place(value);
            while self.table[at] != 0 {
                at = (at + 1) & mask;
            }
            self.table[at] = code;
        }
    }

    /// The values, of code 1 first.
    pub(super) fn values(&self) -> &[K] {
        &self.values
    }

    pub(super) fn bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>() + self.values.capacity() * size_of::<K>()
    }
}
