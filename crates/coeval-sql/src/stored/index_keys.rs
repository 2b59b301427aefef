// SPDX-License-Identifier: Apache-2.0
//! What an index is declared on: its keys, and the condition of the rows that are in it. Which columns both stand in is said
//! where indexes are made (`ddl/index_keys.rs`).

use super::expressions::parse;
use coeval_store::{ColumnDef, IndexDef, TableDef};
use datafusion::sql::sqlparser::ast::Expr;

/// An expression without parentheses around it.
pub(crate) fn plain(expression: &Expr) -> &Expr {
    match expression {
        Expr::Nested(inner) => plain(inner),
        other => other,
    }
}

/// The condition of a partial index.
pub(crate) fn predicate_of<'d>(def: &'d TableDef, index: &IndexDef) -> Option<&'d str> {
    let columns = index.columns.iter().map(|&column| &def.columns[column]);
    columns.filter(|column| column.is_marker()).find_map(|column| column.name.strip_prefix(ColumnDef::MARKER))
}

/// What an index is declared on: its columns without the one that stands for its condition.
pub(crate) fn keys_of<'d>(def: &'d TableDef, columns: &'d [usize]) -> &'d [usize] {
    match columns.split_last() {
        Some((&last, before)) if def.columns[last].is_marker() => before,
        _ => columns,
    }
}

/// An expression in the form in which definitions keep it; `None` if it is none.
pub(crate) fn normal(text: &str) -> Option<String> {
    let expression = parse(text).ok()?;
    Some(plain(&expression).to_string())
}

/// Whether the condition of a partial index holds for all rows for which that of an ON CONFLICT target holds. They are
/// compared as they are written.
pub(crate) fn implies(wanted: Option<&str>, predicate: Option<&str>) -> bool {
    match (wanted, predicate) {
        (_, None) => true,
        (Some(wanted), Some(predicate)) => normal(wanted).is_some_and(|wanted| wanted == predicate),
        (None, Some(_)) => false,
    }
}
