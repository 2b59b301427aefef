// SPDX-License-Identifier: Apache-2.0
//! [`ScanKeys`]: what a scan is told of the keys of a join above it, and what its rows are asked of them.

use super::membership::rows_in;
use super::prune::{SourceColumn, bounds};
use arrow::array::{Array, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use coeval_operators::join_keys::{JoinKeys, KeyBloom, KeySet, Numbers};
use coeval_operators::vector::{BlockTest, narrow};
use coeval_store::{ChunkStats, Value};
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

/// The keys of a join above a scan, and which columns of the scan they are looked for in.
#[derive(Clone, Debug)]
pub(super) struct ScanKeys {
    keys: Arc<JoinKeys>,
    /// One for each key.
    columns: Vec<usize>,
    /// The filter that need not be asked where these keys are, as they are the join's only ones.
    of_filter: Option<u64>,
}

// By hand: keys are equal if they are those of the same join.
impl PartialEq for ScanKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
            && self.columns == other.columns
            && self.of_filter == other.of_filter
    }
}

impl ScanKeys {
    /// These keys, which are looked for in these columns of a scan; `of_filter` need not be asked where they are.
    pub(super) fn new(keys: Arc<JoinKeys>, columns: Vec<usize>, of_filter: Option<u64>) -> Self {
        Self { keys, columns, of_filter }
    }

    /// The only ones of a join's column, which are looked for in this column of a scan.
    pub(super) fn of_column(keys: &Arc<JoinKeys>, column: usize) -> Self {
        Self { keys: Arc::clone(keys), columns: vec![column], of_filter: None }
    }

    /// The columns, in the order of the keys.
    pub(super) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether rows are asked these keys instead of this filter.
    pub(super) fn are_instead_of(&self, filter: &Arc<dyn PhysicalExpr>) -> bool {
        let moving = filter.downcast_ref::<DynamicFilterPhysicalExpr>();
        self.of_filter.is_some() && moving.is_some_and(|moving| moving.expression_id() == self.of_filter)
    }

    /// Whether rows are asked these keys instead of one of these filters.
    pub(super) fn are_instead_of_any(&self, filters: &[Arc<dyn PhysicalExpr>]) -> bool {
        filters.iter().any(|filter| self.are_instead_of(filter))
    }

    /// What a row can be asked of the only key, and the keys; `None` as long as they are not known.
    pub(super) fn only_part(&self) -> Option<(KeyPart, Arc<KeySet>)> {
        let set = self.keys.set()?;
        let place = set.column(0).map(|_| 0);
        Some((KeyPart { of: self.clone(), place }, set))
    }

    /// What rows can be asked: each column by itself, and then all together.
    pub(super) fn parts(&self) -> impl Iterator<Item = KeyPart> {
        let places = (0..self.columns.len()).map(Some).chain([None]);
        places.map(|place| KeyPart { of: self.clone(), place })
    }

    /// Whether a chunk may have a row that is looked for.
    pub(super) fn may_match(&self, stats: &ChunkStats, columns: &[SourceColumn]) -> bool {
        let Some(set) = self.keys.set() else { return true };
        self.columns.iter().enumerate().all(|(place, column)| {
            let in_chunk = columns.get(*column).and_then(|column| bounds(stats, column.index));
            let in_chunk = in_chunk.and_then(|(least, most)| Some((number(least)?, number(most)?)));
            match (set.column(place), in_chunk) {
                (Some(bits), Some((least, most))) => bits.has_between(least, most),
                _ => true,
            }
        })
    }
}

/// A value as the number that a column of its type keeps for it.
fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int16(value) => Some(i64::from(*value)),
        Value::Int32(value) => Some(i64::from(*value)),
        Value::Int64(value) => Some(*value),
        _ => None,
    }
}

/// One of the things that rows are asked of a join's keys.
pub(super) struct KeyPart {
    of: ScanKeys,
    /// Of the key at this place, or of all of them together.
    place: Option<usize>,
}

impl KeyPart {
    /// The keys, once they are known.
    pub(super) fn set(&self) -> Option<Arc<KeySet>> {
        self.of.keys.set()
    }

    /// Whether it is asked of all keys together.
    pub(super) fn is_of_all(&self) -> bool {
        self.place.is_none()
    }

    /// The rows that may be looked for, among those whose bits are set, or of all; `None` if the set has no answer.
    pub(super) fn passing(
        &self,
        set: &KeySet,
        batch: &RecordBatch,
        among: Option<&BooleanBuffer>,
    ) -> Option<BooleanBuffer> {
        match self.place {
            Some(place) => Some(rows_in(batch.column(self.of.columns[place]), among, set.column(place)?)),
            None => self.rows_of(set.together()?, batch, among),
        }
    }

    fn rows_of(
        &self,
        filter: &KeyBloom,
        batch: &RecordBatch,
        among: Option<&BooleanBuffer>,
    ) -> Option<BooleanBuffer> {
        let columns = self.of.columns.iter().map(|column| batch.column(*column));
        let numbers = columns.clone().map(Numbers::of).collect::<Option<Vec<_>>>()?;
        let rows = batch.num_rows();
        let all = || BooleanBuffer::new_set(rows);
        let among = among.cloned().unwrap_or_else(all);
        let mut words: Vec<u64> = among.bit_chunks().iter_padded().collect();
        words.truncate(rows.div_ceil(u64::BITS as usize));
        narrow(&mut words, &Look { filter, columns: &numbers });
        let passing = BooleanBuffer::new(words.into(), 0, rows);
        let known = columns.filter_map(|column| column.nulls().map(NullBuffer::inner));
        Some(known.fold(passing, |passing, known| &passing & known))
    }
}

/// Rows that are looked up by these columns together.
struct Look<'a> {
    filter: &'a KeyBloom,
    columns: &'a [Numbers<'a>],
}

impl BlockTest for Look<'_> {
    #[inline(always)]
    fn passing(&self, first: usize, among: u64) -> u64 {
        self.filter.passing(self.columns, first, among)
    }
}
