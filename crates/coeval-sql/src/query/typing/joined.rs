// SPDX-License-Identifier: Apache-2.0
//! `string_agg` with ORDER BY, or of `bytea`: its values are collected and ordered as `array_agg` does it, and joined at the end.
//!
//! DataFusion sorts all rows in front of it and makes an object of each text and each key. Of texts without an order, and with DISTINCT,
//! the function is DataFusion's, which has none of bytes.

use super::collected;
use crate::allowance::{VALUE_BYTES_MAX, too_large};
use crate::error::SqlError;
use crate::types::parse_value;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray, LargeStringArray,
    LargeStringBuilder, ListArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef};
use chrono_tz::Tz;
use coeval_store::{ColumnType, Value};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions_aggregate::string_agg::string_agg_udaf;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, TypeSignature,
};
use datafusion::physical_expr::expressions::Literal;
use std::sync::{Arc, LazyLock};

/// The function `string_agg`.
pub(super) fn string_agg() -> Arc<AggregateUDF> {
    static STRING_AGG: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        let (plain, array) = (string_agg_udaf(), collected::array_agg());
        let signature = with_bytes(plain.signature());
        Arc::new(AggregateUDF::new_from_impl(StringAgg { plain, array, signature }))
    });
    Arc::clone(&STRING_AGG)
}

/// DataFusion's function, but with an order, and of bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct StringAgg {
    plain: Arc<AggregateUDF>,
    array: Arc<AggregateUDF>,
    signature: Signature,
}

/// The signature of texts, and behind it those of bytes. A delimiter in quotes is a text in the plan.
fn with_bytes(of_texts: &Signature) -> Signature {
    let delimiters = [DataType::BinaryView, DataType::Null, DataType::Utf8, DataType::Utf8View];
    let of_bytes = delimiters.map(|delimiter| TypeSignature::Exact(vec![DataType::BinaryView, delimiter]));
    let mut signatures = match &of_texts.type_signature {
        TypeSignature::OneOf(signatures) => signatures.clone(),
        only => vec![only.clone()],
    };
    signatures.extend(of_bytes);
    Signature::one_of(signatures, of_texts.volatility)
}

/// Whether the values of these arguments are bytes.
fn is_of_bytes(arguments: &[FieldRef]) -> bool {
    arguments.first().is_some_and(|value| *value.data_type() == DataType::BinaryView)
}

/// What stands between the values.
#[derive(Clone, Debug)]
enum Delimiter {
    Text(String),
    Bytes(Vec<u8>),
}

impl Delimiter {
    /// That of a call; `None` if the values are joined by DataFusion's function.
    ///
    /// # Errors
    /// `0A000` for one of bytes that is no constant, `22P02` for a text that is no bytes.
    fn of(arguments: &AccumulatorArgs<'_>) -> Result<Option<Self>> {
        if !is_of_bytes(arguments.expr_fields) && (arguments.is_distinct || arguments.order_bys.is_empty()) {
            return Ok(None);
        }
        let delimiter = arguments.exprs.get(1).and_then(|given| given.downcast_ref::<Literal>());
        let delimiter = delimiter.map(Literal::value);
        if !is_of_bytes(arguments.expr_fields) {
            let text = delimiter.and_then(|delimiter| match delimiter.is_null() {
                true => Some(""),
                false => delimiter.try_as_str().flatten(),
            });
            return Ok(text.map(|text| Self::Text(text.to_owned())));
        }
        let Some(delimiter) = delimiter else {
            let what = "string_agg of bytea with a delimiter that is no constant";
            return Err(SqlError::unsupported(what).into());
        };
        let bytes = match delimiter {
            ScalarValue::Binary(bytes) | ScalarValue::BinaryView(bytes) => bytes.clone(),
            delimiter => delimiter.try_as_str().flatten().map(bytes_of_text).transpose()?,
        };
        Ok(Some(Self::Bytes(bytes.unwrap_or_default())))
    }

    /// The values of each array as one; NULL of none.
    fn joined(&self, arrays: &ListArray) -> Result<ArrayRef> {
        Ok(match self {
            Self::Text(delimiter) => Arc::new(joined(arrays, delimiter)?),
            Self::Bytes(delimiter) => Arc::new(joined_bytes(arrays, delimiter)?),
        })
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Text(delimiter) => delimiter.capacity(),
            Self::Bytes(delimiter) => delimiter.capacity(),
        }
    }
}

/// What a literal is as bytes.
fn bytes_of_text(text: &str) -> Result<Vec<u8>, SqlError> {
    match parse_value(text, ColumnType::Bytea, Tz::UTC)? {
        Value::Bytes(bytes) => Ok(bytes.into_vec()),
        other => Err(SqlError::internal(format!("{other:?} is no bytes"))),
    }
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

/// The bytes of each array as one; NULL of none.
fn joined_bytes(arrays: &ListArray, delimiter: &[u8]) -> Result<BinaryViewArray> {
    let values = cast(arrays.values(), &DataType::BinaryView)?;
    let values = values.as_binary_view();
    let mut builder = BinaryViewBuilder::new();
    let mut bytes = Vec::new();
    for bounds in arrays.value_offsets().windows(2) {
        bytes.clear();
        let mut is_empty = true;
        // Offsets are not negative.
        for place in bounds[0] as usize..bounds[1] as usize {
            if values.is_null(place) {
                continue;
            }
            if !is_empty {
                bytes.extend_from_slice(delimiter);
            }
            bytes.extend_from_slice(values.value(place));
            is_empty = false;
            if bytes.len() > VALUE_BYTES_MAX {
                return Err(too_large().into());
            }
        }
        builder.append_option((!is_empty).then_some(bytes.as_slice()));
    }
    Ok(builder.finish())
}

impl AggregateUDFImpl for StringAgg {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(DataType::BinaryView) => Ok(DataType::BinaryView),
            _ => self.plain.return_type(types),
        }
    }

    fn accumulator(&self, arguments: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        let Some(delimiter) = Delimiter::of(&arguments)? else { return self.plain.accumulator(arguments) };
        Ok(Box::new(Joined { array: self.array.accumulator(collecting(arguments))?, delimiter }))
    }

    fn state_fields(&self, arguments: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if !is_of_bytes(arguments.input_fields)
            && (arguments.is_distinct || arguments.ordering_fields.is_empty())
        {
            return self.plain.state_fields(arguments);
        }
        let input_fields = &arguments.input_fields[..1];
        self.array.state_fields(StateFieldsArgs { input_fields, ..arguments })
    }

    fn groups_accumulator_supported(&self, arguments: AccumulatorArgs<'_>) -> bool {
        if is_of_bytes(arguments.expr_fields) {
            return self.array.groups_accumulator_supported(collecting(arguments));
        }
        matches!(Delimiter::of(&arguments), Ok(Some(_))) || self.plain.groups_accumulator_supported(arguments)
    }

    fn create_groups_accumulator(
        &self,
        arguments: AccumulatorArgs<'_>,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        let Some(delimiter) = Delimiter::of(&arguments)? else {
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

/// The texts or bytes of a single group.
#[derive(Debug)]
struct Joined {
    array: Box<dyn Accumulator>,
    delimiter: Delimiter,
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
        ScalarValue::try_from_array(&self.delimiter.joined(&array)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.array.size() + self.delimiter.capacity()
    }
}

/// The texts or bytes of groups.
struct JoinedGroups {
    arrays: Box<dyn GroupsAccumulator>,
    delimiter: Delimiter,
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
        self.delimiter.joined(arrays.as_list())
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
