// SPDX-License-Identifier: Apache-2.0
//! Rows that are written out as documents: `row_to_json(row(a, b))`, `json_agg((a, b))`. Their fields are called `f1`, `f2`, ...

use super::{call, rows, text};
use datafusion::sql::sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments};

/// Writes the rows among the arguments of a function that makes JSON as documents; whether there are any.
pub(super) fn write_out(name: &str, function: &mut Function) -> bool {
    let FunctionArguments::List(list) = &mut function.args else { return false };
    let takes_rows = matches!(
        name,
        "row_to_json"
            | "to_json"
            | "to_jsonb"
            | "json_agg"
            | "jsonb_agg"
            | "json_build_object"
            | "jsonb_build_object"
            | "json_build_array"
            | "jsonb_build_array"
            | "json_object_agg"
            | "jsonb_object_agg"
    );
    let mut has_any = false;
    for argument in list.args.iter_mut().filter(|_| takes_rows) {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(row)) = argument
            && let Some(columns) = rows::columns(row)
        {
            *row = document(columns);
            has_any = true;
        }
    }
    has_any
}

fn document(columns: Vec<Expr>) -> Expr {
    let fields = columns.into_iter().enumerate().flat_map(|(place, column)| {
        let value = rows::columns(&column).map_or(column, document);
        [text(&format!("f{}", place + 1)), value]
    });
    call(crate::json::ROW, fields.collect())
}
