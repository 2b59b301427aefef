// SPDX-License-Identifier: Apache-2.0
//! Types of columns that programs and files give. Their bytes are bytes, in whichever form; within the database Arrow's type of large ones is
//! the one of numbers without digits, and that of small ones the one of bit strings.

use super::column_type_of_field;
use arrow::datatypes::{DataType, Field, FieldRef};
use coeval_store::ColumnType;
use std::sync::Arc;

/// The type of a column that comes from outside of the database; `None` if SQL has nothing like it.
#[must_use]
pub fn column_type_of_given(field: &Field) -> Option<ColumnType> {
    column_type_of_field(&field.clone().with_data_type(without_large_bytes(field.data_type())))
}

/// The type of values that come from outside with one form of bytes, that of `bytea`, also of elements.
pub(crate) fn without_large_bytes(ty: &DataType) -> DataType {
    let item_of = |item: &FieldRef| {
        let element = without_large_bytes(item.data_type());
        Arc::new(item.as_ref().clone().with_data_type(element))
    };
    match ty {
        DataType::LargeBinary | DataType::Binary => DataType::BinaryView,
        DataType::List(item) => DataType::List(item_of(item)),
        DataType::LargeList(item) => DataType::LargeList(item_of(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(item_of(item), *size),
        DataType::Dictionary(codes, values) => {
            DataType::Dictionary(codes.clone(), Box::new(without_large_bytes(values)))
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::ElementType;

    #[test]
    fn bytes_are_no_numbers_and_no_bit_strings_wherever_they_are() {
        let bytes = DataType::LargeBinary;
        let item = Arc::new(Field::new_list_field(bytes.clone(), true));
        let given = |ty: &DataType| column_type_of_given(&Field::new("x", ty.clone(), true));
        assert_eq!(given(&bytes), Some(ColumnType::Bytea));
        assert_eq!(given(&DataType::Binary), Some(ColumnType::Bytea));
        let coded = DataType::Dictionary(Box::new(DataType::Int32), Box::new(bytes));
        assert_eq!(given(&coded), Some(ColumnType::Bytea));
        for lists in [
            DataType::List(Arc::clone(&item)),
            DataType::LargeList(Arc::clone(&item)),
            DataType::FixedSizeList(Arc::clone(&item), 2),
        ] {
            assert_eq!(given(&lists), Some(ColumnType::Array(ElementType::Bytea)), "{lists}");
        }
        assert_eq!(given(&DataType::Int32), Some(ColumnType::Int));
    }
}
