// SPDX-License-Identifier: Apache-2.0
//! Random rows of decimals and integers, and random expressions over them.

use arrow::array::{ArrayRef, Int16Array, Int32Array, Int64Array, PrimitiveArray, RecordBatch};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Decimal128Type, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use rand::Rng;
use rand::rngs::SmallRng;
use std::sync::Arc;

const DECIMALS: [(&str, u8, i8); 5] = [("a", 15, 2), ("b", 15, 4), ("c", 38, 10), ("d", 20, 0), ("e", 7, -2)];

const INTEGERS: [(&str, DataType); 3] =
    [("i", DataType::Int16), ("j", DataType::Int32), ("k", DataType::Int64)];

pub(super) fn schema() -> SchemaRef {
    let decimals = DECIMALS.map(|(name, precision, scale)| (name, DataType::Decimal128(precision, scale)));
    let fields = decimals.into_iter().chain(INTEGERS).map(|(name, ty)| Field::new(name, ty, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Of any number, a part of a larger batch. Each column has its own bits and NULLs, and where it is NULL anything.
pub(super) fn random_batch(random: &mut SmallRng, bits_max: u32) -> RecordBatch {
    const MORE: usize = 9;
    let rows = [0, 1, 7, 64, 300][random.random_range(0..5)];
    let schema = schema();
    let columns =
        schema.fields().iter().map(|field| random_column(random, field.data_type(), rows + MORE, bits_max));
    let columns = columns.collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of one length");
    batch.slice(random.random_range(0..MORE), rows)
}

fn random_column(random: &mut SmallRng, ty: &DataType, rows: usize, bits_max: u32) -> ArrayRef {
    let nulls_share = [0.0, 0.0, 0.2, 1.0][random.random_range(0..4)];
    let there: NullBuffer = (0..rows).map(|_| !random.random_bool(nulls_share)).collect::<Vec<bool>>().into();
    let bits = random.random_range(0..=bits_max);
    let value = |is_there: bool| match random.random_range(0..40) {
        _ if !is_there => i128::MAX,
        0 if bits == 63 => i64::MAX.into(),
        1 if bits == 63 => i64::MIN.into(),
        _ => random.random_range(-(1_i128 << bits)..1 << bits),
    };
    let values: Vec<i128> = there.iter().map(value).collect();
    let nulls = Some(there).filter(|there| there.null_count() > 0);
    match ty {
        DataType::Int16 => {
            let values: Vec<i16> = values.iter().map(|value| *value as i16).collect();
            Arc::new(Int16Array::new(values.into(), nulls))
        }
        DataType::Int32 => {
            let values: Vec<i32> = values.iter().map(|value| *value as i32).collect();
            Arc::new(Int32Array::new(values.into(), nulls))
        }
        DataType::Int64 => {
            let values: Vec<i64> = values.iter().map(|value| *value as i64).collect();
            Arc::new(Int64Array::new(values.into(), nulls))
        }
        _ => {
            let decimals = PrimitiveArray::<Decimal128Type>::new(values.into(), nulls);
            Arc::new(decimals.with_data_type(ty.clone()))
        }
    }
}

/// Of decimals; it may have no type, if there would have to be too many digits.
pub(super) fn random_expression(random: &mut SmallRng, depth: usize) -> Arc<dyn PhysicalExpr> {
    match random.random_range(0..12_usize) {
        kind if depth == 0 || kind == 0 => random_leaf(random),
        1 => {
            let ty = DataType::Decimal128(38, random.random_range(2..12));
            Arc::new(CastExpr::new(random_expression(random, depth - 1), ty, None))
        }
        kind => {
            let operator = [Operator::Plus, Operator::Minus, Operator::Multiply][kind % 3];
            let left = random_expression(random, depth - 1);
            Arc::new(BinaryExpr::new(left, operator, random_expression(random, depth - 1)))
        }
    }
}

fn random_leaf(random: &mut SmallRng) -> Arc<dyn PhysicalExpr> {
    let integer = |place: usize| Arc::new(Column::new(INTEGERS[place].0, DECIMALS.len() + place));
    match random.random_range(0..20) {
        0 => Arc::new(Literal::new(ScalarValue::Decimal128(None, 10, 2))),
        1..4 => Arc::new(Literal::new(ScalarValue::Decimal128(Some(random.random_range(-999..999)), 5, 2))),
        4 => Arc::new(CastExpr::new(
            Arc::new(Literal::new(ScalarValue::Int64(Some(random.random_range(-9..9))))),
            DataType::Decimal128(20, 0),
            None,
        )),
        5..8 => {
            // The second type has room for integers of up to 32 bits only.
            let ty = DataType::Decimal128([22, 12][random.random_range(0..2)], 2);
            Arc::new(CastExpr::new(integer(random.random_range(0..INTEGERS.len())), ty, None))
        }
        _ => {
            let place = random.random_range(0..DECIMALS.len());
            Arc::new(Column::new(DECIMALS[place].0, place))
        }
    }
}
