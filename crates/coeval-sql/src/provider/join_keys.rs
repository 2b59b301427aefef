// SPDX-License-Identifier: Apache-2.0
//! Scans that ask what hash joins above them look for.
//!
//! The filter that a join hands down to a scan goes on ruling out chunks, or bricks, by its bounds. Rows are asked what
//! [`coeval_operators::join_keys`] notes below the join. Of a join on one column that is asked instead of the join's filter: the bits of its
//! values, or their Bloom filter if these are far apart. Of a join on several columns it is asked before: the bits of each column, and then
//! the filter of all of them together; the join's look-up comes behind. Each of these is dropped by itself if it takes away too few rows
//! (`row_filter.rs`).
//!
//! The filter of a join on several columns comes to a scan only if all of them come from there. Where one is computed, as in
//!
//! ```text
//! WHERE price = (SELECT min(o.price) FROM offers o WHERE o.part = parts.part)
//! ```
//! with a join on the part and the least price, the other columns are noted each by itself ([`by_column`]).

mod by_column;
mod told_scan;

use super::membership::rows_in;
use super::prune::{SourceColumn, bounds};
use crate::plan_rule::PlanRule;
use arrow::array::{Array, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Schema};
use coeval_operators::join_keys::{JoinKeys, KeyBloom, KeySet, NotedKeysExec, Numbers};
use coeval_operators::vector::{BlockTest, narrow};
use coeval_store::{ChunkStats, Value};
use datafusion::common::NullEquality;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use std::sync::Arc;
use told_scan::ToldScan;

/// Scans of fewer rows are not told: they take about as long as to plan for it.
const SCANNED_ROWS_MIN: u64 = 65_536;

/// The smaller side counts if the scan has so many rows for each of its rows: to put a row into a set costs more than to look for one.
const SCANNED_ROWS_PER_KEY_MIN: u64 = 2;

/// The smaller side has so many rows at most. The filter of all columns together has 8 MiB for them; with more, a look-up in it is no cheaper than
/// one in the join's table.
const KEYS_MAX: u64 = 1 << 22;

/// The rule. Behind those that take joins and scans to pieces or send them elsewhere.
pub(crate) const JOIN_KEYS: PlanRule = PlanRule::new("coeval_join_keys", |plan, _| with_join_keys(plan))
    .about(|node| node.is::<HashJoinExec>())
    .switched_by("coeval.join_keys");

fn with_join_keys(plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let told = plan.transform_up(|node| {
        let inputs = node.downcast_ref::<HashJoinExec>().map(told_inputs).transpose()?.flatten();
        Ok(match inputs {
            Some(inputs) => Transformed::yes(replace_children_if_necessary(node, inputs)?),
            None => Transformed::no(node),
        })
    })?;
    Ok(told.data)
}

/// The inputs of a join such that its keys are noted, and scans of its larger side ask for them; `None` if there are no such scans.
fn told_inputs(join: &HashJoinExec) -> Result<Option<Vec<Arc<dyn ExecutionPlan>>>> {
    let Some(sought) = Sought::by(join) else { return by_column::told_inputs(join) };
    let mut rows = 0;
    join.right().apply(|node| {
        if let Some(scan) = ToldScan::of(node)
            && sought.columns_in(scan).is_some()
        {
            rows = rows.max(scan.row_count());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    if rows < SCANNED_ROWS_MIN {
        return by_column::told_inputs(join);
    }
    let keys = keys_for(rows);
    let told = Arc::clone(join.right()).transform_up(|node| {
        let scan = ToldScan::of(&node).and_then(|scan| {
            let columns = sought.columns_in(scan)?;
            let of_filter = sought.is_whole().then_some(sought.filter_id);
            Some(scan.with_join_keys(ScanKeys { keys: Arc::clone(&keys), columns, of_filter }))
        });
        Ok(match scan {
            Some(scan) => Transformed::yes(scan),
            None => Transformed::no(node),
        })
    })?;
    let columns = sought.keys.iter().map(|key| key.column);
    let noted = NotedKeysExec::new(Arc::clone(join.left()), columns, Arc::clone(&keys));
    let noted: Arc<dyn ExecutionPlan> = Arc::new(noted);
    Ok(Some(vec![noted, told.data]))
}

/// Room for keys that a scan of so many rows is asked for.
fn keys_for(rows: u64) -> Arc<JoinKeys> {
    Arc::new(JoinKeys::new((rows / SCANNED_ROWS_PER_KEY_MIN).min(KEYS_MAX) as usize))
}

/// Whether a join looks for what is in sets. One that takes NULL for equal to NULL looks for what is in no set, as does one that a single
/// NULL of the larger side decides: `NOT IN`. Of one that is divided among threads no part knows all keys.
fn looks_for_members(join: &HashJoinExec) -> bool {
    join.null_equality() == NullEquality::NullEqualsNothing
        && !join.null_aware
        && *join.partition_mode() == PartitionMode::CollectLeft
}

/// What a join looks for, as far as sets can be made of it.
struct Sought {
    /// By which the join's filter is known wherever it has been handed to.
    filter_id: u64,
    /// How many columns the join is on.
    key_count: usize,
    keys: Vec<Key>,
}

struct Key {
    /// Its place among those of the join.
    place: usize,
    /// Its column in the smaller side.
    column: usize,
    ty: DataType,
}

impl Sought {
    /// `None` if the join is of another kind.
    fn by(join: &HashJoinExec) -> Option<Self> {
        if !looks_for_members(join) {
            return None;
        }
        // Only a join that may lose rows of its larger side has a filter.
        let filter_id = join.dynamic_expressions_produced().first()?.expression_id()?;
        let schema = join.left().schema();
        let keys = join.on().iter().enumerate().filter_map(|(place, (smaller, _))| {
            let column = smaller.downcast_ref::<Column>()?.index();
            let ty = schema.field(column).data_type().clone();
            Numbers::are_of(&ty).then_some(Key { place, column, ty })
        });
        let keys: Vec<Key> = keys.collect();
        (!keys.is_empty()).then_some(Self { filter_id, key_count: join.on().len(), keys })
    }

    /// Whether the set says all that the join's filter does: it is of the join's only key.
    fn is_whole(&self) -> bool {
        self.key_count == 1
    }

    /// The columns of a scan that it is looked for in; `None` if the join's filter has not come there, or not as columns.
    fn columns_in(&self, scan: ToldScan<'_>) -> Option<Vec<usize>> {
        scan.filters().iter().find_map(|filter| self.columns_of(filter, scan.source()))
    }

    fn columns_of(&self, filter: &Arc<dyn PhysicalExpr>, source: &Schema) -> Option<Vec<usize>> {
        let mut found = None;
        let looked_for = filter.apply(|part| {
            let moving = part.downcast_ref::<DynamicFilterPhysicalExpr>();
            Ok(match moving.filter(|moving| moving.expression_id() == Some(self.filter_id)) {
                Some(moving) => {
                    found = self.columns_among(&moving.children(), source);
                    TreeNodeRecursion::Stop
                }
                None => TreeNodeRecursion::Continue,
            })
        });
        looked_for.ok()?;
        found
    }

    /// The columns of the keys among what the join's filter is of.
    fn columns_among(&self, filtered: &[&Arc<dyn PhysicalExpr>], source: &Schema) -> Option<Vec<usize>> {
        let column_of = |key: &Key| {
            let column = filtered.get(key.place)?.downcast_ref::<Column>()?.index();
            (source.fields().get(column)?.data_type() == &key.ty).then_some(column)
        };
        self.keys.iter().map(column_of).collect()
    }
}

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
    /// The only ones of a join's column, which are looked for in this column of a scan.
    fn of_column(keys: &Arc<JoinKeys>, column: usize) -> Self {
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

#[cfg(test)]
mod tests;
