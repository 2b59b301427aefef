// SPDX-License-Identifier: Apache-2.0
//! Columns that are not there.

use crate::error::{SqlError, SqlState};

/// The columns of every table of PostgreSQL that say where and when a version of a row was written. There is no such place here.
const OF_VERSIONS: [&str; 5] = ["ctid", "xmin", "xmax", "cmin", "cmax"];

/// The error for a column that a table, if one is named, has not: `42703`, and `0A000` for one that every table has in PostgreSQL.
pub(crate) fn unknown_column(table: Option<&str>, column: &str) -> SqlError {
    if OF_VERSIONS.contains(&column) {
        return SqlError::unsupported(format!("the system column {column}")).with_hint(
            "Tell rows by a primary key: GENERATED ALWAYS AS IDENTITY makes one. Whether INSERT ... ON CONFLICT has inserted a row is \
             what xmax says in its RETURNING.",
        );
    }
    let message = match table {
        Some(table) => format!("column {table}.{column} does not exist"),
        None => format!("column \"{column}\" does not exist"),
    };
    SqlError::new(SqlState::UndefinedColumn, message)
}
