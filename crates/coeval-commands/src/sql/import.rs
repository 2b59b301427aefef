// SPDX-License-Identifier: Apache-2.0
//! `.import`: a file as a table, or its rows into one that is there.

use super::command::Import;
use coeval::{Error, Session};
use std::path::Path;

/// The statement that imports. A table that is there gets the columns that the file has, by their names; one that is not is made
/// with the file's columns and types.
///
/// # Errors
/// If the file cannot be read as a table.
pub(super) fn statement(session: &mut Session, wanted: &Import) -> Result<String, Error> {
    let file = quoted(&wanted.file, '\'');
    let table = wanted.table.clone().unwrap_or_else(|| quoted(&stem(&wanted.file), '"'));
    let mut asked = session.run(&format!("SELECT to_regclass({}) IS NOT NULL", quoted(&table, '\'')))?;
    let is_there = asked.pop().and_then(|result| result.rows).is_some_and(|rows| {
        let first = rows.batches.first().map(|batch| std::sync::Arc::clone(batch.column(0)));
        first.is_some_and(|column| arrow::array::AsArray::as_boolean(&column).iter().flatten().any(|is| is))
    });
    if !is_there {
        return Ok(format!("CREATE TABLE {table} AS SELECT * FROM {file}"));
    }
    let mut looked = session.run(&format!("SELECT * FROM {file} LIMIT 0"))?;
    let schema = looked.pop().and_then(|result| result.rows).map(|rows| rows.schema);
    let names: Vec<String> = schema
        .iter()
        .flat_map(|schema| schema.fields().iter())
        .map(|field| quoted(field.name(), '"'))
        .collect();
    let names = names.join(", ");
    Ok(format!("INSERT INTO {table} ({names}) SELECT {names} FROM {file}"))
}

/// The name of a file without its folders and ends, as a table's.
fn stem(file: &str) -> String {
    let name =
        Path::new(file).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_lowercase()
}

fn quoted(text: &str, quote: char) -> String {
    format!("{quote}{}{quote}", text.replace(quote, &format!("{quote}{quote}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_called_like_its_file() {
        assert_eq!(stem("data/Trips.2026.csv.gz"), "trips");
        assert_eq!(quoted("it's", '\''), "'it''s'");
    }
}
