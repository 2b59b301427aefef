// SPDX-License-Identifier: Apache-2.0
//! [`KeyedRows`]: what an aggregate with ORDER BY keeps, its values beside the keys of their order.
//!
//! DataFusion makes an object of each value and of each key, and compares these. Here both stay in columns, as one column of
//! structs, which is collected as any other; when an array is asked for, its rows are sorted by their keys written as
//! bytes. Rows whose keys are equal stay in the order in which they came.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, UInt32Array};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use std::sync::Arc;

/// How rows are kept and ordered.
#[derive(Clone, Debug)]
pub(super) struct KeyedRows {
    fields: Fields,
    options: Vec<SortOptions>,
    direction: Direction,
    nulls: Nulls,
}

/// Whether values that are NULL are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nulls {
    Kept,
    /// Their rows are NULL, too, and are left out by whoever collects them.
    PassedOver,
}

/// DataFusion may turn an order round; the rows are then given out from the last one to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forwards,
    Backwards,
}

impl KeyedRows {
    /// Those of an aggregate; `None` if it has no order, or keeps different values.
    pub(super) fn of(arguments: &AccumulatorArgs<'_>) -> Result<Option<Self>> {
        if arguments.is_distinct || arguments.order_bys.is_empty() {
            return Ok(None);
        }
        let value = arguments.expr_fields.first().map(|field| field.data_type().clone());
        let keys = arguments.order_bys.iter().map(|key| key.expr.data_type(arguments.schema));
        let types = value.into_iter().map(Ok).chain(keys).collect::<Result<Vec<_>>>()?;
        let direction = if arguments.is_reversed { Direction::Backwards } else { Direction::Forwards };
        let options = arguments.order_bys.iter().map(|key| key.options).collect();
        let nulls = if arguments.ignore_nulls { Nulls::PassedOver } else { Nulls::Kept };
        Ok(Some(Self { fields: fields_of(types), options, direction, nulls }))
    }

    /// The field of such rows among those of a state; `None` if they are kept otherwise.
    pub(super) fn field_of_state(arguments: &StateFieldsArgs<'_>) -> Option<FieldRef> {
        if arguments.is_distinct || arguments.ordering_fields.is_empty() {
            return None;
        }
        let fields = arguments.input_fields.first().into_iter().chain(arguments.ordering_fields);
        let types = fields.map(|field| field.data_type().clone()).collect();
        Some(field(fields_of(types)))
    }

    /// The field of a row.
    pub(super) fn field(&self) -> FieldRef {
        field(self.fields.clone())
    }

    /// A value and its keys in each row.
    pub(super) fn gathered(&self, columns: Vec<ArrayRef>) -> Result<ArrayRef> {
        let nulls = match self.nulls {
            Nulls::Kept => None,
            Nulls::PassedOver => columns.first().and_then(|values| values.logical_nulls()),
        };
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, nulls)?))
    }

    /// The values of each array of rows, in their order.
    pub(super) fn sorted(&self, arrays: &ListArray) -> Result<ListArray> {
        let rows = arrays.values().as_struct();
        let keys = self.fields.iter().skip(1).zip(&self.options);
        let keys = keys.map(|(key, options)| SortField::new_with_options(key.data_type().clone(), *options));
        let keys = RowConverter::new(keys.collect())?.convert_columns(&rows.columns()[1..])?;
        let mut places: Vec<u32> = (0..rows.len() as u32).collect();
        for bounds in arrays.value_offsets().windows(2) {
            // Offsets are not negative, and ascend.
            let array = &mut places[bounds[0] as usize..bounds[1] as usize];
            array.sort_by(|one, other| keys.row(*one as usize).cmp(&keys.row(*other as usize)));
            if self.direction == Direction::Backwards {
                array.reverse();
            }
        }
        let values = take(rows.column(0), &UInt32Array::from(places), None)?;
        let item = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        Ok(ListArray::try_new(item, arrays.offsets().clone(), values, arrays.nulls().cloned())?)
    }
}

/// The value is the first one.
fn fields_of(types: Vec<DataType>) -> Fields {
    types.into_iter().enumerate().map(|(place, ty)| Field::new(format!("c{place}"), ty, true)).collect()
}

fn field(fields: Fields) -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Struct(fields), true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int32Array, StringViewArray};
    use arrow::buffer::{NullBuffer, OffsetBuffer};

    fn rows(options: Vec<SortOptions>, direction: Direction) -> KeyedRows {
        let types = vec![DataType::Utf8View, DataType::Int32, DataType::Int32];
        KeyedRows { fields: fields_of(types), options, direction, nulls: Nulls::Kept }
    }

    fn sorted(rows: &KeyedRows) -> Vec<Option<String>> {
        let values = StringViewArray::from(vec![Some("a"), Some("b"), None, Some("d"), Some("e"), Some("f")]);
        let first = Int32Array::from(vec![Some(2), Some(1), Some(1), None, Some(5), Some(4)]);
        let second = Int32Array::from(vec![0, 7, 8, 0, 0, 0]);
        let all = rows.gathered(vec![Arc::new(values), Arc::new(first), Arc::new(second)]).unwrap();
        let offsets = OffsetBuffer::from_lengths([4, 0, 2]);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let arrays = ListArray::new(rows.field(), offsets, all, Some(nulls));
        let sorted = rows.sorted(&arrays).unwrap();
        assert!(sorted.is_null(1));
        assert_eq!(sorted.value_offsets(), [0, 4, 4, 6]);
        sorted.values().as_string_view().iter().map(|value| value.map(str::to_owned)).collect()
    }

    #[test]
    fn each_array_is_in_the_order_of_its_keys() {
        let texts = |values: [&str; 6]| values.map(|value| (!value.is_empty()).then(|| value.to_owned()));
        let (up, down) = (SortOptions::new(false, false), SortOptions::new(true, true));
        assert_eq!(sorted(&rows(vec![up, up], Direction::Forwards)), texts(["b", "", "a", "d", "f", "e"]));
        assert_eq!(sorted(&rows(vec![up, down], Direction::Forwards)), texts(["", "b", "a", "d", "f", "e"]));
        assert_eq!(sorted(&rows(vec![down, up], Direction::Forwards)), texts(["d", "a", "b", "", "e", "f"]));
        assert_eq!(sorted(&rows(vec![up, up], Direction::Backwards)), texts(["d", "a", "", "b", "e", "f"]));
    }
}
