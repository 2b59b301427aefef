// SPDX-License-Identifier: Apache-2.0
//! Rows of a table as SQL text: conditions that find them, and lists that a query reads.

use crate::literal::{Row, literal};
use crate::names::quoted;
use crate::schema::Definition;

/// A condition that holds for the rows whose `columns` have the values of one of `rows`. `prefix` qualifies the columns.
///
/// # Panics
/// If there are no rows: no condition says that.
pub(crate) fn one_of(table: &Definition, columns: &[usize], rows: &[&Row], prefix: &str) -> String {
    assert!(!rows.is_empty(), "a look-up looks for something");
    let literal_of = |row: &Row, column: usize| literal(&row[column], &table.columns[column].kind);
    let name = |column: usize| format!("{prefix}{}", quoted(&table.columns[column].name));
    if let [column] = *columns {
        let list: Vec<_> = rows.iter().map(|row| literal_of(row, column)).collect();
        return match list.as_slice() {
            [one] => format!("{} = {one}", name(column)),
            list => format!("{} IN ({})", name(column), list.join(", ")),
        };
    }
    let each = rows.iter().map(|row| {
        let equal: Vec<_> =
            columns.iter().map(|&column| format!("{} = {}", name(column), literal_of(row, column))).collect();
        format!("({})", equal.join(" AND "))
    });
    let each: Vec<_> = each.collect();
    format!("({})", each.join(" OR "))
}

/// The rows as a table in a FROM clause, with the table's column names.
pub(crate) fn as_table(table: &Definition, rows: &[&Row], alias: &str) -> String {
    let row = |row: &&Row| {
        let values: Vec<_> = row
            .iter()
            .zip(&table.columns)
            .map(|(value, column)| format!("CAST({} AS {})", literal(value, &column.kind), column.kind))
            .collect();
        format!("({})", values.join(", "))
    };
    let rows: Vec<_> = rows.iter().map(row).collect();
    format!("(VALUES {}) AS {alias} ({})", rows.join(", "), table.all_names().join(", "))
}
