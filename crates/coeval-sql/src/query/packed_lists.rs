// SPDX-License-Identifier: Apache-2.0
//! Arrays of rows that an operator repeats.
//!
//! A join repeats the columns of one side for each row of the other. It takes a text along by a reference, but copies an array: of an
//! array of 300,000 numbers and ten thousand rows it makes gigabytes at once, before anybody sees a batch. The same goes for `unnest`
//! beside another array. So before a plan runs, arrays go through such an operator as bytes in one value each, which are taken along by
//! references, and become arrays behind it, so many rows at a time as are some megabytes, counted for as many rows as a batch may
//! have. The condition of a join sees arrays, too,
//! in the same portions. Those that are keys of a join stay what they are: each is there once.

mod bytes;

use crate::cancel;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use bytes::Format;
use coeval_operators::integer_join::IntegerHashJoinExec;
use coeval_operators::join_filter::with_changed_filter;
use coeval_operators::over_one_input;
use datafusion::common::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOnRef};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
};
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// So many bytes of arrays are made of their values at a time; one row may have more.
const PORTION_BYTES: usize = 4 << 20;

/// The node, through which arrays go as values; the node itself if it repeats none. What takes its place among values goes through
/// `made`.
///
/// # Errors
/// If a part of it cannot be made anew.
pub(super) fn with_packed_lists(
    node: Arc<dyn ExecutionPlan>,
    made: impl Fn(Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(kept) = kept_columns(node.as_ref()) else { return Ok(node) };
    let schemas: Vec<SchemaRef> = node.children().into_iter().map(|child| child.schema()).collect();
    let packings: Vec<Packing> = schemas
        .iter()
        .zip(&kept)
        .map(|(schema, kept)| Packing::of(schema, |place| !kept.contains(&place)))
        .collect();
    if packings.iter().all(|packing| packing.formats.is_empty()) {
        return Ok(node);
    }
    let inputs = node.children().into_iter().cloned().zip(&packings).map(|(input, packing)| {
        if packing.formats.is_empty() { input } else { Packed::over(input, packing.clone()) }
    });
    let inputs: Vec<_> = inputs.collect();
    let inner = match (node.downcast_ref::<UnnestExec>(), &inputs[..], &packings[..]) {
        (Some(unnest), [input], [packing]) => packed_unnest(unnest, input, packing)?,
        _ => replace_children_if_necessary(with_condition(Arc::clone(&node), &packings)?, inputs)?,
    };
    let packing = Packing::between(&node.schema(), &inner.schema());
    Ok(Arc::new(Unpacked { node, inner: made(inner)?, packing }))
}

/// The same `unnest`, whose other columns are values.
fn packed_unnest(
    unnest: &UnnestExec,
    input: &Arc<dyn ExecutionPlan>,
    packing: &Packing,
) -> Result<Arc<dyn ExecutionPlan>> {
    // Columns that are not unnested have their names in the output.
    let read = unnest.input().schema();
    let names: HashSet<&str> =
        packing.formats.iter().map(|(place, _)| read.field(*place).name().as_str()).collect();
    let given = unnest.schema();
    let fields = given.fields().iter().map(|field| match names.contains(field.name().as_str()) {
        true => packed_field(field),
        false => Arc::clone(field),
    });
    let schema = Schema::new_with_metadata(fields.collect::<Vec<_>>(), given.metadata().clone());
    Ok(Arc::new(UnnestExec::new(
        Arc::clone(input),
        unnest.list_column_indices().to_vec(),
        unnest.struct_column_indices().to_vec(),
        Arc::new(schema),
        unnest.options().clone(),
    )?))
}

/// Of each input of a node that repeats rows the columns that stay as they are; `None` for other nodes.
fn kept_columns(node: &dyn ExecutionPlan) -> Option<Vec<HashSet<usize>>> {
    let keys = |on: JoinOnRef<'_>| {
        let of = |side: &dyn Fn(usize) -> Arc<dyn PhysicalExpr>| -> HashSet<usize> {
            (0..on.len()).flat_map(|key| collect_columns(&side(key))).map(|column| column.index()).collect()
        };
        vec![of(&|key| Arc::clone(&on[key].0)), of(&|key| Arc::clone(&on[key].1))]
    };
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Some(keys(join.on()));
    }
    if let Some(join) = node.downcast_ref::<IntegerHashJoinExec>() {
        return Some(keys(join.on()));
    }
    // The condition of this one is not ours to make anew.
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        return join.filter().is_none().then(|| keys(join.on()));
    }
    if let Some(unnest) = node.downcast_ref::<UnnestExec>() {
        let lists = unnest.list_column_indices().iter().map(|list| list.index_in_input_schema);
        let read = unnest.input().schema();
        // Those whose name another column has are not found in the output by it.
        let is_named = |schema: &Schema, name: &str| {
            schema.fields().iter().filter(|field| field.name() == name).count() == 1
        };
        let repeated = (0..read.fields().len()).filter(|place| {
            let name = read.field(*place).name();
            !is_named(&read, name) || !is_named(&unnest.schema(), name)
        });
        return Some(vec![
            lists.chain(unnest.struct_column_indices().iter().copied()).chain(repeated).collect(),
        ]);
    }
    let repeats =
        node.downcast_ref::<NestedLoopJoinExec>().is_some() || node.downcast_ref::<CrossJoinExec>().is_some();
    repeats.then(|| vec![HashSet::new(), HashSet::new()])
}

/// The join, with a condition that sees the arrays.
fn with_condition(node: Arc<dyn ExecutionPlan>, packings: &[Packing]) -> Result<Arc<dyn ExecutionPlan>> {
    use datafusion::common::JoinSide;
    let seeing = with_changed_filter(node.as_ref(), |filter| {
        let is_packed = |place: usize| {
            let column = &filter.column_indices()[place];
            let side = match column.side {
                JoinSide::Left => &packings[0],
                JoinSide::Right => &packings[1],
                JoinSide::None => return false,
            };
            side.formats.iter().any(|(packed, _)| *packed == column.index)
        };
        let packing = Packing::of(filter.schema(), is_packed);
        if packing.formats.is_empty() {
            return Ok(None);
        }
        let schema = packing.packed_schema(filter.schema());
        let inner = Arc::clone(filter.expression());
        let sees = Arc::new(Condition { inner, packing, unpacked: Arc::clone(filter.schema()) });
        Ok(Some(JoinFilter::new(sees, filter.column_indices().to_vec(), schema)))
    })?;
    Ok(seeing.unwrap_or(node))
}

/// Which columns are values instead of arrays, and how each is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Packing {
    formats: Vec<(usize, Format)>,
}

impl Packing {
    /// Those of the arrays among the columns that are to be packed, and that can be.
    fn of(schema: &Schema, is_wanted: impl Fn(usize) -> bool) -> Self {
        let fields = schema.fields().iter().enumerate().filter(|(place, _)| is_wanted(*place));
        Self {
            formats: fields
                .filter_map(|(place, field)| Some((place, Format::of(field.data_type())?)))
                .collect(),
        }
    }

    /// Those that are arrays in one of the schemas, and not in the other.
    fn between(unpacked: &Schema, packed: &Schema) -> Self {
        Self::of(unpacked, |place| packed.field(place).data_type() == &DataType::BinaryView)
    }

    fn packed_schema(&self, schema: &Schema) -> SchemaRef {
        let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        for (place, _) in &self.formats {
            fields[*place] = packed_field(&fields[*place]);
        }
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }

    fn packed(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for (place, format) in &self.formats {
            columns[*place] = format.packed(columns[*place].as_list())?;
        }
        with_columns(batch, columns, schema)
    }

    fn unpacked(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for (place, format) in &self.formats {
            columns[*place] = format.unpacked(columns[*place].as_binary_view())?;
        }
        with_columns(batch, columns, schema)
    }

    /// What the arrays of all rows take.
    fn bytes(&self, batch: &RecordBatch) -> usize {
        let columns = self.formats.iter().map(|(place, _)| batch.column(*place).as_binary_view());
        columns.flat_map(|column| column.lengths().map(|length| length as usize)).sum()
    }

    /// The rows from one on whose arrays are a portion.
    fn portion(&self, batch: &RecordBatch, start: usize) -> Range<usize> {
        let columns: Vec<_> =
            self.formats.iter().map(|(place, _)| batch.column(*place).as_binary_view()).collect();
        let mut bytes = 0;
        let mut end = start;
        while end < batch.num_rows() {
            // The low half of a view is the length.
            let row: usize = columns.iter().map(|column| column.views()[end] as u32 as usize).sum();
            if end > start && bytes + row > PORTION_BYTES {
                break;
            }
            bytes += row;
            end += 1;
        }
        start..end
    }
}

fn packed_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), DataType::BinaryView, true))
}

fn with_columns(batch: &RecordBatch, columns: Vec<ArrayRef>, schema: &SchemaRef) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// An input whose arrays become values.
#[derive(Debug)]
struct Packed {
    input: Arc<dyn ExecutionPlan>,
    packing: Packing,
    properties: Arc<PlanProperties>,
}

impl Packed {
    fn over(input: Arc<dyn ExecutionPlan>, packing: Packing) -> Arc<dyn ExecutionPlan> {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(packing.packed_schema(&input.schema())),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Arc::new(Self { input, packing, properties: Arc::new(properties) })
    }
}

impl DisplayAs for Packed {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Packed {
    fn name(&self) -> &'static str {
        "PackedListsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    over_one_input!(input, |old, input| Self::over(input, old.packing.clone()));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, task)?;
        let (schema, packing) = (self.schema(), self.packing.clone());
        let target = Arc::clone(&schema);
        let batches = input.map(move |batch| packing.packed(&batch?, &target));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// What the rows that were given last have in arrays, as many rows as a batch may have: operators above put small batches together, and
/// count nothing.
///
/// # Locking
/// Held by one stream, for a move.
#[derive(Debug)]
struct Window {
    rows_max: usize,
    portions: VecDeque<(usize, usize)>,
    rows: usize,
    bytes: usize,
    reservation: MemoryReservation,
}

impl Window {
    fn of(task: &TaskContext) -> Self {
        Self {
            rows_max: task.session_config().batch_size(),
            portions: VecDeque::new(),
            rows: 0,
            bytes: 0,
            reservation: MemoryConsumer::new("repeated arrays").register(task.memory_pool()),
        }
    }

    /// So many rows more are about to be given.
    ///
    /// # Errors
    /// If there is no memory for them.
    fn note(&mut self, rows: usize, bytes: usize) -> Result<()> {
        self.portions.push_back((rows, bytes));
        (self.rows, self.bytes) = (self.rows + rows, self.bytes + bytes);
        while let Some(&(first_rows, first_bytes)) = self.portions.front()
            && self.rows - first_rows >= self.rows_max
        {
            self.portions.pop_front();
            (self.rows, self.bytes) = (self.rows - first_rows, self.bytes - first_bytes);
        }
        self.reservation.try_resize(self.bytes)
    }
}

/// A node whose values become arrays again.
#[derive(Debug)]
struct Unpacked {
    /// As it was planned, which has the same properties.
    node: Arc<dyn ExecutionPlan>,
    inner: Arc<dyn ExecutionPlan>,
    packing: Packing,
}

impl DisplayAs for Unpacked {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Unpacked {
    fn name(&self) -> &'static str {
        "UnpackedListsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    over_one_input!(inner, |old, inner| Arc::new(Self {
        node: Arc::clone(&old.node),
        inner,
        packing: old.packing.clone(),
    }));

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn execute(&self, partition: usize, task: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let window = Arc::new(Mutex::new(Window::of(&task)));
        let inner = self.inner.execute(partition, task)?;
        let (schema, packing) = (self.schema(), self.packing.clone());
        let target = Arc::clone(&schema);
        let batches = inner.flat_map(move |batch| {
            let (packing, target, window) = (packing.clone(), Arc::clone(&target), Arc::clone(&window));
            let mut rest = Some((batch, 0));
            stream::iter(std::iter::from_fn(move || {
                let (batch, start) = match rest.take()? {
                    (Ok(batch), start) => (batch, start),
                    (Err(error), _) => return Some(Err(error)),
                };
                let rows = packing.portion(&batch, start);
                if rows.is_empty() {
                    return None;
                }
                let portion = batch.slice(rows.start, rows.len());
                rest = Some((Ok(batch), rows.end));
                let counted = window.lock().note(rows.len(), packing.bytes(&portion));
                Some(counted.and_then(|()| packing.unpacked(&portion, &target)))
            }))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The condition of a join, which sees arrays where the join has values.
#[derive(Debug, Eq)]
struct Condition {
    inner: Arc<dyn PhysicalExpr>,
    packing: Packing,
    unpacked: SchemaRef,
}

// By hand: what is compared is the condition.
impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.inner.eq(&other.inner) && self.packing == other.packing
    }
}

impl Hash for Condition {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.hash(state);
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl PhysicalExpr for Condition {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        self.inner.data_type(&self.unpacked)
    }

    fn nullable(&self, _: &Schema) -> Result<bool> {
        self.inner.nullable(&self.unpacked)
    }

    fn return_field(&self, _: &Schema) -> Result<FieldRef> {
        self.inner.return_field(&self.unpacked)
    }

    fn evaluate(&self, rows: &RecordBatch) -> Result<ColumnarValue> {
        let mut answers: Vec<ArrayRef> = Vec::new();
        let mut start = 0;
        while start < rows.num_rows() {
            cancel::check()?;
            let portion = self.packing.portion(rows, start);
            start = portion.end;
            let made = self.packing.unpacked(&rows.slice(portion.start, portion.len()), &self.unpacked)?;
            answers.push(self.inner.evaluate(&made)?.into_array(portion.len())?);
        }
        let answers: Vec<&dyn Array> = answers.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(match answers[..] {
            [] => Arc::new(BooleanArray::from(Vec::<bool>::new())),
            _ => concat(&answers)?,
        }))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        // Its columns are not those of the join: nobody is to look for them.
        Vec::new()
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self)
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_sql(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_operators::integer_join::with_integer_joins;
    use datafusion::common::{JoinType, NullEquality};
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::joins::PartitionMode;

    #[test]
    fn arrays_go_as_values_through_all_joins_by_hashes() {
        let list = DataType::new_list(DataType::Int32, true);
        let fields = vec![Field::new("key", DataType::Int64, true), Field::new("list", list, true)];
        let schema = Arc::new(Schema::new(fields));
        let side = || Arc::new(EmptyExec::new(Arc::clone(&schema)));
        let key = || Arc::new(Column::new("key", 0)) as Arc<dyn PhysicalExpr>;
        let (on, kind) = (vec![(key(), key())], JoinType::Inner);
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let join = HashJoinExec::try_new(side(), side(), on, None, &kind, None, mode, nulls, false).unwrap();
        let hashed: Arc<dyn ExecutionPlan> = Arc::new(join);
        let by_numbers = with_integer_joins(Arc::clone(&hashed)).unwrap();
        assert!(hashed.is::<HashJoinExec>() && by_numbers.is::<IntegerHashJoinExec>());
        for join in [hashed, by_numbers] {
            let around = with_packed_lists(Arc::clone(&join), Ok).unwrap();
            let unpacked = around.downcast_ref::<Unpacked>().expect("arrays are made behind the join");
            assert_eq!(unpacked.inner.name(), join.name());
            assert!(unpacked.inner.children().into_iter().all(|input| input.is::<Packed>()));
            assert_eq!(around.schema(), join.schema());
        }
    }
}
