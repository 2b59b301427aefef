// SPDX-License-Identifier: Apache-2.0
//! Fields of rows, and subscripts of arrays and vectors: DataFusion names fields by text, counts from the end below one, and knows no
//! subscript of a text.

use super::{call, casts, nested, number, tables, text};
use crate::names::fold;
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{AccessExpr, BinaryOperator, CaseWhen, Expr, Subscript, Value};

/// What stands in the place of fields and subscripts; `None` if they stay, written otherwise.
pub(super) fn accessed(root: &Expr, accesses: &mut [AccessExpr]) -> Option<Expr> {
    match &*accesses {
        [AccessExpr::Subscript(Subscript::Index { index })] if casts::is_name(root) => {
            return Some(call("substr", vec![root.clone(), one_more(index), number("1")]));
        }
        [AccessExpr::Dot(Expr::Identifier(field))] => {
            if let Some(column) = tables::column_of_set(root, &fold(field)) {
                return Some(column);
            }
        }
        _ => {}
    }
    rewrite_accesses(root, accesses);
    None
}

/// A place behind all elements that an array may have.
const LAST_PLACE: &str = "2147483647";

/// Fields of rows are named by text, and the subscripts of vectors begin at zero.
fn rewrite_accesses(root: &Expr, accesses: &mut [AccessExpr]) {
    // A name in front of a point is a table's.
    let mut is_name = matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let mut is_vector = casts::is_vector(root);
    for access in accesses {
        match access {
            AccessExpr::Dot(field) => {
                is_vector = casts::is_vector(field);
                if let (Expr::Identifier(ident), false) = (&*field, is_name) {
                    *field = text(&fold(ident));
                }
            }
            AccessExpr::Subscript(Subscript::Index { index }) => {
                if is_vector {
                    *index = one_more(index);
                }
                from_the_front(index);
                (is_name, is_vector) = (false, false);
            }
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
                at_least("1", lower_bound.get_or_insert_with(|| number("1")));
                at_least("0", upper_bound.get_or_insert_with(|| number(LAST_PLACE)));
                (is_name, is_vector) = (false, false);
            }
        }
    }
}

/// A subscript below one is of no element: DataFusion counts it from the end. NULL is as good as zero. A parameter is an `int`
/// beside the other one. A text is looked at where it is known what has the subscript.
fn from_the_front(index: &mut Expr) {
    let is_plain = matches!(index, Expr::Value(value)
        if matches!(value.value, Value::Number(..) | Value::SingleQuotedString(_)));
    if !is_plain {
        *index = call("greatest", vec![nested(index), number("0")]);
    }
}

/// A bound of a slice that is not below this: DataFusion counts those below one from the end. NULL stays NULL.
fn at_least(least: &str, bound: &mut Expr) {
    if matches!(bound, Expr::Value(value) if matches!(value.value, Value::Number(..))) {
        return;
    }
    let (left, right) = (Box::new(nested(bound)), Box::new(number(least)));
    let condition = Expr::BinaryOp { left, op: BinaryOperator::Lt, right };
    *bound = Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![CaseWhen { condition, result: number(least) }],
        else_result: Some(Box::new(nested(bound))),
    };
}

fn one_more(index: &Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(Expr::Nested(Box::new(index.clone()))),
        op: BinaryOperator::Plus,
        right: Box::new(number("1")),
    }
}
