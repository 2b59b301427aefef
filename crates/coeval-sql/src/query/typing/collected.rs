// SPDX-License-Identifier: Apache-2.0
//! `array_agg` that counts the texts it keeps.
//!
//! DataFusion's keeps the columns that it is given and counts what their slices take. Of a column of views that is 16 bytes a
//! row: the texts stand beside them in buffers that others may share, and are not counted, so that an array of texts has
//! passed the query's memory long before anybody asks for more. Here their bytes are counted for each value that is kept. A
//! column whose buffers hold much beside its own texts is copied first, so that what is kept is what is counted.
//!
//! For the same reason states have texts without views: what an exchange gives to each of its outputs has only the texts of
//! that one, and what is spilled and read again is as large as DataFusion takes it for.
//!
//! With DISTINCT or ORDER BY DataFusion keeps each value by itself and counts it whole; `json_agg` and its like are made of
//! this function, and `string_agg` writes texts of its own.

use crate::memory::texts_beside;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ByteViewType, DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature,
};
use std::sync::{Arc, LazyLock};

/// A column is copied if its buffers are so many times as long as its texts.
const PINNED_MAX: usize = 2;

/// The function `array_agg`.
pub(super) fn array_agg() -> Arc<AggregateUDF> {
    static ARRAY_AGG: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::new_from_impl(ArrayAgg { plain: array_agg_udaf() })));
    Arc::clone(&ARRAY_AGG)
}

/// DataFusion's function, but for what it counts.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ArrayAgg {
    plain: Arc<AggregateUDF>,
}

/// Whether an aggregate keeps columns.
fn keeps_columns(arguments: &AccumulatorArgs<'_>) -> bool {
    !arguments.is_distinct && arguments.order_bys.is_empty()
}

impl AggregateUDFImpl for ArrayAgg {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.plain.return_type(types)
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let (keeps_columns, state) = (keeps_columns(&arguments), State::of(arguments.expr_fields));
        let plain = self.plain.accumulator(arguments)?;
        Ok(if keeps_columns { Box::new(Counted { plain, state, bytes: 0 }) } else { plain })
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let is_whole = !arguments.is_distinct && arguments.ordering_fields.is_empty();
        let state = State::of(arguments.input_fields);
        let fields = self.plain.state_fields(arguments)?;
        Ok(match state.stored {
            Some(stored) if is_whole => {
                let stored = |field: FieldRef| field.as_ref().clone().with_data_type(stored.clone());
                fields.into_iter().map(|field| Arc::new(stored(field))).collect()
            }
            _ => fields,
        })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        self.plain.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let state = State::of(arguments.expr_fields);
        let plain = self.plain.create_groups_accumulator(arguments)?;
        Ok(Box::new(CountedGroups { plain, state, bytes: 0, of_groups: Vec::new() }))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let plain = Arc::clone(self.plain.inner()).with_beneficial_ordering(beneficial_ordering)?;
        Ok(plain
            .map(|plain| Arc::new(Self { plain: Arc::new(AggregateUDF::new_from_shared_impl(plain)) }) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.plain.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(array_agg())
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.plain.default_value(ty)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.plain.supports_null_handling_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }
}

/// The type of a state that is a list of texts, with views and without.
#[derive(Debug)]
struct State {
    /// None if the members are no views.
    stored: Option<DataType>,
    used: DataType,
}

impl State {
    fn of(inputs: &[FieldRef]) -> Self {
        let list = |member| DataType::List(Arc::new(Field::new_list_field(member, true)));
        let member = inputs.first().map_or(DataType::Null, |field| field.data_type().clone());
        let stored = match member {
            DataType::Utf8View => Some(list(DataType::LargeUtf8)),
            DataType::BinaryView => Some(list(DataType::LargeBinary)),
            _ => None,
        };
        Self { stored, used: list(member) }
    }

    fn to_store(&self, states: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
        let Some(stored) = &self.stored else { return Ok(states) };
        let states = states.iter().map(|state| cast(state, stored));
        Ok(states.collect::<std::result::Result<_, _>>()?)
    }

    fn to_use(&self, states: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        if self.stored.is_none() {
            return Ok(states.iter().map(own).collect());
        }
        let states = states.iter().map(|state| cast(state, &self.used));
        Ok(states.collect::<std::result::Result<_, _>>()?)
    }
}

/// The column, copied if it holds on to much that is not its own.
fn own(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => {
            let views = column.as_string_view();
            if pins_much(views) { Arc::new(views.gc()) } else { Arc::clone(column) }
        }
        DataType::BinaryView => {
            let views = column.as_binary_view();
            if pins_much(views) { Arc::new(views.gc()) } else { Arc::clone(column) }
        }
        DataType::List(field) => own_list(column.as_list(), field).unwrap_or_else(|| Arc::clone(column)),
        _ => Arc::clone(column),
    }
}

/// Lists, if their members held on to much that is not their own: what an exchange gave to one of its outputs has the
/// texts of all.
fn own_list(lists: &ListArray, field: &FieldRef) -> Option<ArrayRef> {
    let (first, last) = (*lists.value_offsets().first()?, *lists.value_offsets().last()?);
    // Offsets are not negative.
    let members = lists.values().slice(first as usize, (last - first) as usize);
    let own = own(&members);
    if Arc::ptr_eq(&own, &members) {
        return None;
    }
    let lengths = lists.value_offsets().windows(2).map(|pair| (pair[1] - pair[0]) as usize);
    let offsets = OffsetBuffer::from_lengths(lengths);
    let lists = ListArray::try_new(Arc::clone(field), offsets, own, lists.nulls().cloned()).ok()?;
    Some(Arc::new(lists))
}

fn pins_much<T: ByteViewType + ?Sized>(views: &arrow::array::GenericByteViewArray<T>) -> bool {
    let held: usize = views.data_buffers().iter().map(arrow::buffer::Buffer::capacity).sum();
    held > views.total_buffer_bytes_used().saturating_mul(PINNED_MAX)
}

/// One array's values.
#[derive(Debug)]
struct Counted {
    plain: Box<dyn Accumulator>,
    state: State,
    /// What the kept texts take.
    bytes: usize,
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let own: Vec<ArrayRef> = values.iter().map(own).collect();
        self.bytes += own.iter().map(texts_beside).sum::<usize>();
        self.plain.update_batch(&own)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let bytes: usize = values.iter().map(texts_beside).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.plain.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.plain.supports_retract_batch()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let own = self.state.to_use(states)?;
        self.bytes += own.iter().map(texts_beside).sum::<usize>();
        self.plain.merge_batch(&own)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.plain.state()?;
        let Some(stored) = &self.state.stored else { return Ok(states) };
        states.iter().map(|state| state.cast_to(stored)).collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.plain.evaluate()
    }

    fn size(&self) -> usize {
        self.plain.size() + size_of::<Self>() + self.bytes
    }
}

/// The arrays of groups.
struct CountedGroups {
    plain: Box<dyn GroupsAccumulator>,
    state: State,
    /// What the kept texts take: all, and of each group.
    bytes: usize,
    of_groups: Vec<usize>,
}

impl CountedGroups {
    /// Counts the texts of a column's rows for their groups.
    fn count(&mut self, column: &ArrayRef, groups: &[usize], total: usize) {
        self.of_groups.resize(total.max(self.of_groups.len()), 0);
        // Most columns have nothing beside them.
        if texts_beside(column) == 0 {
            return;
        }
        for (row, &group) in groups.iter().enumerate() {
            let bytes = text_beside(column, row);
            self.of_groups[group] += bytes;
            self.bytes += bytes;
        }
    }

    fn emitted(&mut self, emitted: EmitTo) {
        let groups = match emitted {
            EmitTo::All => self.of_groups.len(),
            EmitTo::First(groups) => groups.min(self.of_groups.len()),
        };
        self.bytes -= self.of_groups.drain(..groups).sum::<usize>();
    }
}

/// What stands beside one row.
fn text_beside(column: &ArrayRef, row: usize) -> usize {
    const INLINE: usize = 12;
    let beside = |length: usize| if length > INLINE { length } else { 0 };
    match column.data_type() {
        _ if column.is_null(row) => 0,
        DataType::Utf8View => beside(column.as_string_view().value(row).len()),
        DataType::BinaryView => beside(column.as_binary_view().value(row).len()),
        _ => texts_beside(&column.slice(row, 1)),
    }
}

impl GroupsAccumulator for CountedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        let own: Vec<ArrayRef> = values.iter().map(own).collect();
        // Rows that the filter leaves out are kept too.
        own.iter().for_each(|column| self.count(column, groups, total));
        self.plain.update_batch(&own, groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let own = self.state.to_use(states)?;
        own.iter().for_each(|column| self.count(column, groups, total));
        self.plain.merge_batch(&own, groups, total)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        self.emitted(emitted);
        self.plain.evaluate(emitted)
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        self.emitted(emitted);
        self.state.to_store(self.plain.state(emitted)?)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.state.to_store(self.plain.convert_to_state(values, filter)?)
    }

    fn size(&self) -> usize {
        self.plain.size() + self.bytes + self.of_groups.capacity() * size_of::<usize>()
    }
}
