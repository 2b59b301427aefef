// SPDX-License-Identifier: Apache-2.0
//! `string_agg` with ORDER BY: its texts are collected and ordered as `array_agg` does it, and joined at the end.
//!
//! DataFusion sorts all rows in front of it and makes an object of each text and each key. Without an order, and with DISTINCT, the
//! function is DataFusion's.

use super::collected;
use crate::error::SqlError;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringArray, LargeStringBuilder, ListArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature,
};
use datafusion::physical_expr::expressions::Literal;
use std::sync::{Arc, LazyLock};

/// The function `string_agg`.
pub(super) fn string_agg() -> Arc<AggregateUDF> {
    static STRING_AGG: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let (plain, array) = (string_agg_udaf(), collected::array_agg());
        Arc::new(AggregateUDF::new_from_impl(StringAgg { plain, array }))
    });
    Arc::clone(&STRING_AGG)
}

/// DataFusion's function, but with an order.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StringAgg {
    plain: Arc<AggregateUDF>,
    array: Arc<AggregateUDF>,
}

/// What stands between the texts; `None` if it is no constant, or the texts are joined by DataFusion's function.
fn delimiter_of(arguments: &AccumulatorArgs<'_>) -> Option<String> {
    if arguments.is_distinct || arguments.order_bys.is_empty() {
        return None;
    }
    let delimiter = arguments.exprs.get(1)?.downcast_ref::<Literal>()?.value();
    if delimiter.is_null() {
        return Some(String::new());
    }
    delimiter.try_as_str()?.map(str::to_owned)
}

/// The call of the aggregate that collects the texts.
fn collecting(arguments: AccumulatorArgs<'_>) -> AccumulatorArgs<'_> {
    let (exprs, expr_fields) = (&arguments.exprs[..1], &arguments.expr_fields[..1]);
    AccumulatorArgs { exprs, expr_fields, ..arguments }
}

/// The columns of texts and of keys.
fn without_delimiter(values: &[ArrayRef]) -> Vec<ArrayRef> {
    values.iter().enumerate().filter(|(place, _)| *place != 1).map(|(_, column)| Arc::clone(column)).collect()
}

/// The texts of each array as one; NULL of none.
fn joined(arrays: &ListArray, delimiter: &str) -> Result<LargeStringArray> {
    let texts = cast(arrays.values(), &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    let mut builder = LargeStringBuilder::new();
    let mut text = String::new();
    for bounds in arrays.value_offsets().windows(2) {
        text.clear();
        let mut is_empty = true;
        // Offsets are not negative.
        for place in bounds[0] as usize..bounds[1] as usize {
            if texts.is_null(place) {
                continue;
            }
            if !is_empty {
                text.push_str(delimiter);
            }
            text.push_str(texts.value(place));
            is_empty = false;
        }
        builder.append_option((!is_empty).then_some(text.as_str()));
    }
    Ok(builder.finish())
}

impl AggregateUDFImpl for StringAgg {
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
        let Some(delimiter) = delimiter_of(&arguments) else { return self.plain.accumulator(arguments) };
        Ok(Box::new(Joined { array: self.array.accumulator(collecting(arguments))?, delimiter }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if arguments.is_distinct || arguments.ordering_fields.is_empty() {
            return self.plain.state_fields(arguments);
        }
        let input_fields = &arguments.input_fields[..1];
        self.array.state_fields(StateFieldsArgs { input_fields, ..arguments })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        delimiter_of(&arguments).is_some() || self.plain.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(delimiter) = delimiter_of(&arguments) else {
            return self.plain.create_groups_accumulator(arguments);
        };
        let arrays = self.array.create_groups_accumulator(collecting(arguments))?;
        Ok(Box::new(JoinedGroups { arrays, delimiter }))
    }

    /// The texts are ordered when they are joined: no rows have to be sorted before.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Beneficial
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Reversed(string_agg())
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.plain.documentation()
    }
}

/// The texts of a single group.
#[derive(Debug)]
struct Joined {
    array: Box<dyn Accumulator>,
    delimiter: String,
}

impl Accumulator for Joined {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.array.update_batch(&without_delimiter(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.array.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.array.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let ScalarValue::List(array) = self.array.evaluate()? else {
            return Err(SqlError::internal("collected texts are no array").into());
        };
        ScalarValue::try_from_array(&joined(&array, &self.delimiter)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.array.size() + self.delimiter.capacity()
    }
}

/// The texts of groups.
struct JoinedGroups {
    arrays: Box<dyn GroupsAccumulator>,
    delimiter: String,
}

impl GroupsAccumulator for JoinedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.arrays.update_batch(&without_delimiter(values), groups, filter, total)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.arrays.merge_batch(states, groups, total)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> Result<ArrayRef> {
        let arrays = self.arrays.evaluate(emitted)?;
        Ok(Arc::new(joined(arrays.as_list(), &self.delimiter)?))
    }

    fn state(&mut self, emitted: EmitTo) -> Result<Vec<ArrayRef>> {
        self.arrays.state(emitted)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.arrays.convert_to_state(&without_delimiter(values), filter)
    }

    fn size(&self) -> usize {
        self.arrays.size() + self.delimiter.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::StringViewArray;
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::Field;

    #[test]
    fn nulls_have_no_delimiters_and_nothing_is_null() {
        let texts = [Some("a"), None, Some("b"), None, Some(""), Some("c")];
        let lengths = || OffsetBuffer::from_lengths([3, 1, 0, 2]);
        let nulls = || Some(NullBuffer::from(vec![true, true, false, true]));
        let columns: [ArrayRef; 2] = [
            Arc::new(StringViewArray::from(texts.to_vec())),
            Arc::new(LargeStringArray::from(texts.to_vec())),
        ];
        for values in columns {
            let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            let arrays = ListArray::new(item, lengths(), values, nulls());
            let found = joined(&arrays, ", ").unwrap();
            let found: Vec<Option<&str>> = found.iter().collect();
            assert_eq!(found, [Some("a, b"), None, None, Some(", c")]);
        }
    }
}
