// SPDX-License-Identifier: Apache-2.0
//! Tests of pruning: what a chunk's bounds rule out, and what they do not.

use super::initials::of_call;
use super::{Pruner, SourceColumn};
use crate::functions::{HAS_MATCH, LIKE_FUNCTION, REGEX_FUNCTION};
use coeval_store::{ChunkStats, ColumnStats, ColumnType, Value};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use datafusion::physical_plan::PhysicalExpr;
use std::sync::Arc;

fn column() -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new("a", 0))
}

fn literal(value: i64) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(ScalarValue::Int64(Some(value))))
}

fn binary(left: Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn chunk(min: i64, max: i64) -> ChunkStats {
    let stats = ColumnStats { min: Some(Value::Int64(min)), max: Some(Value::Int64(max)), null_count: 0 };
    ChunkStats { rows: 10, columns: vec![stats] }
}

fn may_match(predicate: &Arc<dyn PhysicalExpr>, min: i64, max: i64) -> bool {
    let columns = [SourceColumn { index: 0, ty: ColumnType::BigInt }];
    Pruner::of_all([predicate], &columns).may_match(&chunk(min, max))
}

#[test]
fn a_comparison_is_judged_as_every_row_within_the_bounds_would_be() {
    let operators =
        [Operator::Eq, Operator::NotEq, Operator::Lt, Operator::LtEq, Operator::Gt, Operator::GtEq];
    let holds = |op: Operator, a: i64, b: i64| match op {
        Operator::Eq => a == b,
        Operator::NotEq => a != b,
        Operator::Lt => a < b,
        Operator::LtEq => a <= b,
        Operator::Gt => a > b,
        _ => a >= b,
    };
    for op in operators {
        for (min, max) in [(0, 0), (0, 2), (1, 3), (2, 2), (3, 4)] {
            let truth = (min..=max).any(|value| holds(op, value, 2));
            assert_eq!(
                may_match(&binary(column(), op, literal(2)), min, max),
                truth,
                "{op} in {min}..={max}"
            );
            let swapped = (min..=max).any(|value| holds(op, 2, value));
            assert_eq!(
                may_match(&binary(literal(2), op, column()), min, max),
                swapped,
                "2 {op} {min}..={max}"
            );
        }
    }
}

#[test]
fn patterns_rule_out_texts_that_begin_otherwise() {
    let may_match = |function: &str, pattern: &str, min: &str, max: &str| {
        let pattern = ScalarValue::Utf8View(Some(pattern.to_owned()));
        let arguments: [Arc<dyn PhysicalExpr>; 2] = [column(), Arc::new(Literal::new(pattern))];
        let columns = [SourceColumn { index: 0, ty: ColumnType::Text }];
        let bound = |text: &str| Some(Value::Text(text.into()));
        let stats = ColumnStats { min: bound(min), max: bound(max), null_count: 0 };
        let chunk = ChunkStats { rows: 10, columns: vec![stats] };
        of_call(function, &arguments, &columns).may_match(&chunk)
    };
    let patterns = [
        (LIKE_FUNCTION, "ab%"),
        (REGEX_FUNCTION, "^ab[0-9]"),
        (HAS_MATCH, r"^ab\m"),
        (HAS_MATCH, "^ab(?!c)"),
    ];
    for (function, pattern) in patterns {
        for (min, max, expected) in [
            ("a", "aa\u{10FFFF}", false),
            ("a", "ab", true),
            ("abz", "x", true),
            ("ab\u{10FFFF}", "ac", true),
            ("ac", "b", false),
        ] {
            assert_eq!(may_match(function, pattern, min, max), expected, "{function} {pattern} {min} {max}");
        }
    }
    let others = [
        (LIKE_FUNCTION, "%ab"),
        (REGEX_FUNCTION, "ab"),
        (HAS_MATCH, "(?i)^ab"),
        (HAS_MATCH, "("),
        ("lower", "ab"),
    ];
    for (function, pattern) in others {
        assert!(may_match(function, pattern, "x", "z"), "{function} {pattern}");
    }
}

#[test]
fn and_or_and_what_is_not_understood() {
    let low = binary(column(), Operator::Lt, literal(5));
    let high = binary(column(), Operator::Gt, literal(20));
    let odd = binary(binary(column(), Operator::Modulo, literal(2)), Operator::Eq, literal(1));
    assert!(!may_match(&binary(low.clone(), Operator::And, high.clone()), 6, 30));
    assert!(!may_match(&binary(low.clone(), Operator::Or, high.clone()), 6, 20));
    assert!(may_match(&binary(low.clone(), Operator::Or, odd.clone()), 6, 20));
    assert!(!may_match(&binary(low, Operator::And, odd), 6, 20));
    let columns = [SourceColumn { index: 3, ty: ColumnType::BigInt }];
    assert!(Pruner::of_all([&high], &columns).may_match(&chunk(0, 1)), "a column added later has no bounds");
}
