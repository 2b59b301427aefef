// SPDX-License-Identifier: Apache-2.0
//! The borders of what has room in 38 digits.

use super::*;
use crate::query::typing::quotient;
use arrow::datatypes::{Field, Schema};
use datafusion::logical_expr::{cast, col, lit, when};

/// Columns of `numeric`, which are called by their digits, and of other numbers.
fn schema() -> DFSchema {
    let decimals = [
        (7, 2),
        (10, 0),
        (11, 0),
        (12, 0),
        (14, 2),
        (15, 2),
        (19, 2),
        (20, 2),
        (21, 0),
        (22, 0),
        (27, 2),
        (27, 6),
        (28, 2),
        (28, 7),
        (29, 2),
        (38, 0),
    ];
    let decimal = |(precision, scale): (u8, i8)| {
        Field::new(format!("n{precision}_{scale}"), DataType::Decimal128(precision, scale), true)
    };
    let others = [
        ("small", DataType::Int16),
        ("whole", DataType::Int32),
        ("big", DataType::Int64),
        ("ratio", DataType::Float64),
    ];
    let other = |(name, ty): (&str, DataType)| Field::new(name, ty, true);
    let fields: Vec<Field> = decimals.into_iter().map(decimal).chain(others.into_iter().map(other)).collect();
    DFSchema::try_from(Schema::new(fields)).unwrap()
}

fn constant(value: i128, precision: u8, scale: i8) -> Expr {
    lit(ScalarValue::Decimal128(Some(value), precision, scale))
}

/// `left / right`, as it is planned.
fn divided(left: Expr, right: Expr) -> Expr {
    let schema = schema();
    let (left_type, right_type) = (left.get_type(&schema).unwrap(), right.get_type(&schema).unwrap());
    quotient(left, &left_type, right, &right_type).unwrap()
}

/// What of these has room in this aggregate, and what has not.
fn assert_room(function: &str, short: &[Expr], long: &[Expr]) {
    let schema = schema();
    for expression in short {
        assert!(has_room(function, expression, &schema), "{function}({expression})");
    }
    for expression in long {
        assert!(!has_room(function, expression, &schema), "{function}({expression})");
    }
}

#[test]
fn values_have_as_many_digits_as_what_they_are_computed_of() {
    let schema = schema();
    let price = || col("n7_2");
    let found = |expression: &Expr| digits(expression, &schema).map(|digits| (digits.before, digits.behind));
    assert_eq!(found(&price()), Some((5, 2)));
    assert_eq!(found(&constant(100_000, 38, 4)), Some((2, 4)));
    assert_eq!(found(&constant(9, 5, 1)), Some((0, 1)));
    assert_eq!(found(&(price() - price() - price() + price())), Some((8, 2)));
    assert_eq!(found(&(price() * (constant(10, 2, 1) - price()))), Some((11, 4)));
    assert_eq!(found(&divided(price() - price(), lit(2_i64))), Some((6, 16)));
    assert_eq!(found(&cast(col("small"), DataType::Decimal128(20, 3))), Some((5, 3)));
    assert_eq!(found(&cast(col("whole"), DataType::Decimal128(12, 3))), None, "nine digits before the point");
    let wide = cast(price(), DataType::Decimal128(38, 2));
    let chosen = when(col("small").is_null(), wide).otherwise(constant(0, 1, 0)).unwrap();
    assert_eq!(found(&chosen), Some((5, 2)));
    assert_eq!(found(&col("ratio")), None);
    assert_eq!(found(&col("big")), None);
}

#[test]
fn products_fit_up_to_38_digits() {
    let schema = schema();
    assert!(fits(&(col("n19_2") * col("n19_2")), &schema));
    assert!(!fits(&(col("n20_2") * col("n19_2")), &schema));
    assert!(!fits(&(col("n38_0") + col("n38_0")), &schema));
}

#[test]
fn sums_have_ten_digits_more() {
    let half = || constant(5, 2, 1);
    assert_room(
        "sum",
        &[
            col("n28_2"),
            col("n27_2") + col("n27_2"),
            col("n14_2") * col("n14_2"),
            divided(col("n12_0"), lit(2_i64)),
            divided(col("n11_0"), half()),
            divided(col("n12_0"), constant(-10, 3, 1)),
            divided(col("n7_2"), col("n28_7")),
            col("big"),
            col("ratio"),
        ],
        &[
            col("n29_2"),
            col("n38_0"),
            col("n28_2") + col("n28_2"),
            col("n15_2") * col("n14_2"),
            divided(col("n12_0"), half()),
            divided(col("n10_0"), constant(1, 3, 3)),
            divided(col("n12_0"), col("n7_2")),
            divided(col("n38_0"), col("big")),
        ],
    );
}

#[test]
fn spreads_have_sixteen_digits_behind_the_point() {
    let number = || cast(col("whole"), DataType::Int64);
    assert_room(
        "stddev",
        &[col("n21_0"), col("n27_6"), col("big"), number()],
        &[col("n22_0"), col("n28_7"), col("n38_0")],
    );
    assert_room("var_pop", &[col("n10_0"), col("whole"), number()], &[col("n11_0"), col("big")]);
}

#[test]
fn what_is_counted_and_compared_has_room_itself() {
    let quotient = || divided(col("n21_0"), constant(1, 2, 1));
    assert_room(
        "max",
        &[col("n38_0"), quotient(), col("ratio")],
        &[divided(col("n22_0"), constant(1, 2, 1))],
    );
    assert_room("count", &[quotient()], &[col("n38_0") + col("n38_0"), divided(col("n22_0"), col("n7_2"))]);
}
