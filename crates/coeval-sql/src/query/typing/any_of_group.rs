// SPDX-License-Identifier: Apache-2.0
//! The first value of each group that is not NULL, where all values of a group are equal: what is shown of a group that is told
//! by a key.
//!
//! DataFusion's `first_value` without an order keeps an object for each group. This keeps the values in arrays.

use super::kept_rows::KeptRows;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// Such a value of each group.
pub(in crate::query) fn any_of_group(value: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(AnyOfGroup { signature }))
    });
    FUNCTION.call(vec![value])
}

/// The value of which an expression is such a one, under whatever name; `None` if it is something else.
pub(in crate::query) fn value_of_any(expression: &Expr) -> Option<&Expr> {
    match expression {
        Expr::Alias(alias) => value_of_any(&alias.expr),
        Expr::AggregateFunction(call) => {
            call.func.inner().downcast_ref::<AnyOfGroup>()?;
            call.params.args.first()
        }
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AnyOfGroup {
    signature: Signature,
}

impl AggregateUDFImpl for AnyOfGroup {
    fn name(&self) -> &'static str {
        "coeval_any"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        // A group has a row.
        let field = Field::new(self.name(), fields[0].data_type().clone(), fields[0].is_nullable());
        Ok(Arc::new(field.with_metadata(fields[0].metadata().clone())))
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { value: ScalarValue::try_from(arguments.return_field.data_type())? }))
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        !arguments.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let ty = arguments.return_field.data_type().clone();
        Ok(Box::new(Groups { ty, kept: Vec::new(), rows: 0, places: Vec::new() }))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// The value of a single group.
#[derive(Debug)]
struct One {
    value: ScalarValue,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.value.is_null()
            && let Some(row) = (0..values[0].len()).find(|row| values[0].is_valid(*row))
        {
            self.value = ScalarValue::try_from_array(&values[0], row)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}

/// A value of each group.
#[derive(Debug)]
struct Groups {
    ty: DataType,
    /// The values, in the order in which they came.
    kept: Vec<ArrayRef>,
    /// How many these are.
    rows: u32,
    /// For each group which of them is its value, if it has one.
    places: Vec<Option<u32>>,
}

impl Groups {
    /// The values of the groups that are asked for, which leave it.
    fn taken(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let kept: Vec<&dyn Array> = self.kept.iter().map(AsRef::as_ref).collect();
        let all = if kept.is_empty() { new_empty_array(&self.ty) } else { concat(&kept)? };
        let taken = take(all.as_ref(), &UInt32Array::from(emit_to.take_needed(&mut self.places)), None)?;
        self.kept = vec![all];
        self.forget()?;
        Ok(taken)
    }

    /// Drops values whose groups have left, once they are more than the others.
    fn forget(&mut self) -> Result<()> {
        let left: Vec<u32> = self.places.iter().flatten().copied().collect();
        if left.len() > self.rows as usize / 2 {
            return Ok(());
        }
        let [all] = &self.kept[..] else { return Ok(()) };
        let rows = left.len() as u32;
        self.kept = vec![compact(take(all.as_ref(), &UInt32Array::from(left), None)?)];
        self.rows = rows;
        for (place, row) in self.places.iter_mut().flatten().zip(0..) {
            *place = row;
        }
        Ok(())
    }
}

/// The array without what the one that it was taken from has more.
fn compact(array: ArrayRef) -> ArrayRef {
    match (array.as_string_view_opt(), array.as_binary_view_opt()) {
        (Some(texts), _) => Arc::new(texts.gc()),
        (_, Some(bytes)) => Arc::new(bytes.gc()),
        _ => array,
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.places.resize(total, None);
        let values = &values[0];
        let kept_rows = KeptRows::of(filter);
        let mut rows: Vec<u32> = Vec::new();
        for (row, &group) in groups.iter().enumerate() {
            if self.places[group].is_none() && values.is_valid(row) && kept_rows.has(row) {
                self.places[group] = Some(self.rows + rows.len() as u32);
                rows.push(row as u32);
            }
        }
        if !rows.is_empty() {
            self.rows += rows.len() as u32;
            self.kept.push(compact(take(values.as_ref(), &UInt32Array::from(rows), None)?));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.update_batch(states, groups, None, total)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.taken(emit_to)?])
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.taken(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        match filter {
            None => Ok(vec![Arc::clone(&values[0])]),
            Some(_) => internal_err!("it is called without a FILTER"),
        }
    }

    fn size(&self) -> usize {
        let kept: usize = self.kept.iter().map(|values| values.get_array_memory_size()).sum();
        kept + self.places.capacity() * size_of::<Option<u32>>()
    }
}
