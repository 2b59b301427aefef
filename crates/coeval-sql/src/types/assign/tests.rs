// SPDX-License-Identifier: Apache-2.0
//! Tests of assignment casts.

use super::{assign, assign_array};
use crate::SqlState;
use arrow::array::{ArrayRef, Decimal128Array, Int64Array, StringArray};
use chrono_tz::Tz;
use coeval_store::{ColumnType, Value, ValueRef, value_at};
use std::sync::Arc;

const NUMERIC: ColumnType = ColumnType::Numeric { precision: 5, scale: 2 };

fn state(value: Value, from: ColumnType, to: ColumnType) -> SqlState {
    assign(value, from, to, Tz::UTC).unwrap_err().state
}

#[test]
fn numbers_round_into_exact_columns_and_never_wrap() {
    let assign = |value, from, to| assign(value, from, to, Tz::UTC).unwrap();
    assert_eq!(assign(Value::Float64(2.5), ColumnType::Double, ColumnType::Int), Value::Int32(2));
    assert_eq!(assign(Value::Decimal(250), NUMERIC, ColumnType::Int), Value::Int32(3));
    assert_eq!(assign(Value::Float64(1.005), ColumnType::Double, NUMERIC), Value::Decimal(101));
    assert_eq!(assign(Value::Int64(7), ColumnType::BigInt, NUMERIC), Value::Decimal(700));
    let out_of_range = SqlState::NumericValueOutOfRange;
    assert_eq!(state(Value::Int64(1 << 40), ColumnType::BigInt, ColumnType::Int), out_of_range);
    assert_eq!(state(Value::Int64(1000), ColumnType::BigInt, NUMERIC), out_of_range);
    assert_eq!(state(Value::Float64(1e30), ColumnType::Double, ColumnType::BigInt), out_of_range);
    assert_eq!(state(Value::Boolean(true), ColumnType::Boolean, ColumnType::Int), SqlState::DatatypeMismatch);
}

#[test]
fn arrays_are_assigned_like_their_values() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("abc  ")]));
    let assigned = assign_array(&texts, ColumnType::Varchar(3), Tz::UTC).unwrap();
    assert_eq!(value_at(&assigned, 2), ValueRef::Text("abc"));
    assert!(value_at(&assigned, 1).is_null());
    let long: ArrayRef = Arc::new(StringArray::from(vec!["abcd"]));
    let error = assign_array(&long, ColumnType::Varchar(3), Tz::UTC).unwrap_err();
    assert_eq!(error.state, SqlState::StringDataRightTruncation);
    let numbers: ArrayRef = Arc::new(Int64Array::from(vec![70_000]));
    let error = assign_array(&numbers, ColumnType::SmallInt, Tz::UTC).unwrap_err();
    assert_eq!(error.state, SqlState::NumericValueOutOfRange);
    let decimals: ArrayRef =
        Arc::new(Decimal128Array::from(vec![12_345]).with_precision_and_scale(10, 4).unwrap());
    assert_eq!(value_at(&assign_array(&decimals, NUMERIC, Tz::UTC).unwrap(), 0), ValueRef::Decimal(123));
}
