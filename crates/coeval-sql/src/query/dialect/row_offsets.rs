// SPDX-License-Identifier: Apache-2.0
//! `lag(x, n)`, `lead(x, n)` and `nth_value(x, n)` of a column `n`: functions of other names, since DataFusion's take constants. And
//! `nth_value(x, -1)`, which DataFusion counts from the end, and PostgreSQL refuses.

use super::tables::names_columns;
use super::{plain_arguments, unqualified};
use crate::query::typing::{BY_ROW, NTH_VALUE_BY_ROW};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArguments, Ident, ObjectName, Spanned, Value, ValueWithSpan,
};

/// Has a call over a window name the function that takes columns, if it needs that.
pub(super) fn take_columns(function: &mut Function) {
    let (Some(_), FunctionArguments::List(list)) = (&function.over, &function.args) else { return };
    let name = unqualified(&function.name);
    let Some((_, by_row)) = BY_ROW.iter().find(|(plain, _)| name.as_deref() == Some(*plain)) else { return };
    let may_be_none = |place: &Expr| *by_row == NTH_VALUE_BY_ROW && !is_place(place);
    if plain_arguments(&list.args).get(1).is_some_and(|place| names_columns(place) || may_be_none(place)) {
        // Errors tell the place of the name.
        let span = function.name.span();
        function.name = ObjectName::from(vec![Ident::with_span(span, *by_row)]);
    }
}

/// Whether an argument tells the place of a row, or is a parameter.
fn is_place(argument: &Expr) -> bool {
    match argument {
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_place(inner),
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => {
            digits.parse::<u64>().is_ok_and(|place| place > 0)
        }
        Expr::Value(ValueWithSpan { value, .. }) => matches!(value, Value::Placeholder(_)),
        _ => false,
    }
}
