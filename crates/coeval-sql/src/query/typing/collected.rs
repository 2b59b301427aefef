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
//! With ORDER BY the keys are kept beside the values ([`KeyedRows`]). With DISTINCT DataFusion keeps each value by itself and
//! counts it whole. `json_agg` and its like are made of this function, and so is `string_agg` with ORDER BY
//! ([`joined`](super::joined)); without it, it writes texts of its own.

use super::keyed_rows::KeyedRows;
use crate::memory::texts_beside;
use crate::types::{column_type_of_field, marked_field};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ByteViewType, DataType, Field, FieldRef, Fields};
use coeval_store::{ColumnType, ElementType};
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

    /// Arrow does not tell arrays of documents from those of texts.
    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let element = fields.first().and_then(|field| column_type_of_field(field));
        Ok(Arc::new(match element {
            Some(ColumnType::Json) => marked_field(field, ColumnType::Array(ElementType::Json)),
            Some(ColumnType::Jsonb) => marked_field(field, ColumnType::Array(ElementType::Jsonb)),
            _ => field,
        }))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if arguments.is_distinct {
            return self.plain.accumulator(arguments);
        }
        let rows = KeyedRows::of(&arguments)?;
        let fields = kept_fields(&rows, &arguments);
        let plain = self.plain.accumulator(unordered(arguments, &fields))?;
        Ok(Box::new(Counted { plain, state: State::of(&fields), rows, bytes: 0 }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct {
            return self.plain.state_fields(arguments);
        }
        let rows = KeyedRows::field_of_state(&arguments);
        let fields = rows.map_or_else(|| arguments.input_fields.to_vec(), |rows| vec![rows]);
        let State { stored, used } = State::of(&fields);
        let name = format!("{}[array_agg]", arguments.name);
        Ok(vec![Arc::new(Field::new(name, stored.unwrap_or(used), true))])
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let rows = KeyedRows::of(&arguments)?;
        let fields = kept_fields(&rows, &arguments);
        let plain = self.plain.create_groups_accumulator(unordered(arguments, &fields))?;
        let state = State::of(&fields);
        Ok(Box::new(CountedGroups { plain, state, rows, bytes: 0, of_groups: Vec::new() }))
    }

    fn with_beneficial_ordering(
        self: Arc<Self>,
        beneficial_ordering: bool,
    ) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        let plain = Arc::clone(self.plain.inner()).with_beneficial_ordering(beneficial_ordering)?;
        Ok(plain
            .map(|plain| Arc::new(Self { plain: Arc::new(AggregateUDF::new_from_shared_impl(plain)) }) as _))
    }

    /// Arrays are ordered when they are made: of rows that come in order they are as right as of others.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
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

/// What is kept of each row: its value, or the value and its keys.
fn kept_fields(rows: &Option<KeyedRows>, arguments: &AccumulatorArgs<'_>) -> Vec<FieldRef> {
    rows.as_ref().map_or_else(|| arguments.expr_fields.to_vec(), |rows| vec![rows.field()])
}

/// The call of an aggregate that collects these fields as they come.
fn unordered<'a>(arguments: AccumulatorArgs<'a>, fields: &'a [FieldRef]) -> AccumulatorArgs<'a> {
    AccumulatorArgs { expr_fields: fields, order_bys: &[], is_reversed: false, ..arguments }
}

/// What is kept is there once more when it is sorted, for which nobody is asked then.
fn copies(rows: &Option<KeyedRows>) -> usize {
    if rows.is_some() { 2 } else { 1 }
}

/// A column of what is kept: the first one, or all as rows.
fn kept(rows: &Option<KeyedRows>, columns: Vec<ArrayRef>) -> Result<Vec<ArrayRef>> {
    match rows {
        Some(rows) => Ok(vec![rows.gathered(columns)?]),
        None => Ok(columns),
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
        Self { stored: without_views(&member).map(list), used: list(member) }
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

/// The type with its texts as such; `None` if they are no views.
fn without_views(ty: &DataType) -> Option<DataType> {
    match ty {
        DataType::Utf8View => Some(DataType::LargeUtf8),
        DataType::BinaryView => Some(DataType::LargeBinary),
        DataType::Struct(fields) => {
            let types: Vec<Option<DataType>> =
                fields.iter().map(|field| without_views(field.data_type())).collect();
            if types.iter().all(Option::is_none) {
                return None;
            }
            let field = |(field, ty): (&FieldRef, Option<DataType>)| match ty {
                Some(ty) => Arc::new(field.as_ref().clone().with_data_type(ty)),
                None => Arc::clone(field),
            };
            Some(DataType::Struct(fields.iter().zip(types).map(field).collect::<Fields>()))
        }
        _ => None,
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
    /// How the values are ordered, if they are.
    rows: Option<KeyedRows>,
    /// What the kept texts take.
    bytes: usize,
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let own: Vec<ArrayRef> = values.iter().map(own).collect();
        self.bytes += own.iter().map(texts_beside).sum::<usize>();
        self.plain.update_batch(&kept(&self.rows, own)?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let bytes: usize = values.iter().map(texts_beside).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        self.plain.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.rows.is_none() && self.plain.supports_retract_batch()
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
        match (&self.rows, self.plain.evaluate()?) {
            (Some(rows), ScalarValue::List(array)) => Ok(ScalarValue::List(Arc::new(rows.sorted(&array)?))),
            (_, array) => Ok(array),
        }
    }

    fn size(&self) -> usize {
        self.plain.size() * copies(&self.rows) + size_of::<Self>() + self.bytes
    }
}

/// The arrays of groups.
struct CountedGroups {
    plain: Box<dyn GroupsAccumulator>,
    state: State,
    /// How the values are ordered, if they are.
    rows: Option<KeyedRows>,
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
        self.plain.update_batch(&kept(&self.rows, own)?, groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        let own = self.state.to_use(states)?;
        own.iter().for_each(|column| self.count(column, groups, total));
        self.plain.merge_batch(&own, groups, total)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        self.emitted(emitted);
        let arrays = self.plain.evaluate(emitted)?;
        match &self.rows {
            Some(rows) => Ok(Arc::new(rows.sorted(arrays.as_list())?)),
            None => Ok(arrays),
        }
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        self.emitted(emitted);
        self.state.to_store(self.plain.state(emitted)?)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.state.to_store(self.plain.convert_to_state(&kept(&self.rows, values.to_vec())?, filter)?)
    }

    fn size(&self) -> usize {
        self.plain.size() * copies(&self.rows) + self.bytes + self.of_groups.capacity() * size_of::<usize>()
    }
}
