// SPDX-License-Identifier: Apache-2.0
//! `lag(x, n)`, `lead(x, n)` and `nth_value(x, n)` of a column `n`: functions of other names, since DataFusion's take constants.

use super::tables::names_columns;
use super::{plain_arguments, unqualified};
use crate::query::typing::BY_ROW;
use datafusion::sql::sqlparser::ast::{Function, FunctionArguments, Ident, ObjectName, Spanned};

/// Has a call over a window name the function that takes columns, if it needs that.
pub(super) fn take_columns(function: &mut Function) {
    let (Some(_), FunctionArguments::List(list)) = (&function.over, &function.args) else { return };
    let name = unqualified(&function.name);
    let Some((_, by_row)) = BY_ROW.iter().find(|(plain, _)| name.as_deref() == Some(*plain)) else { return };
    if plain_arguments(&list.args).get(1).is_some_and(names_columns) {
        // Errors tell the place of the name.
        let span = function.name.span();
        function.name = ObjectName::from(vec![Ident::with_span(span, *by_row)]);
    }
}
