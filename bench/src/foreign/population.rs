// SPDX-License-Identifier: Apache-2.0
//! Tables of a workload in a foreign engine, and their first rows.
//!
//! Under TiQuE the rows go to the storage tables at once, where a checkpoint would have left them; nobody reads yet.

use crate::error::BenchError;
use crate::table::TableSpec;
use arrow::array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use coeval_tique::Engine;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The column that holds the key's columns as one text (3.2.5), natively.
pub(crate) const KEY_TEXT: &str = "key_text";

/// `CREATE TABLE` under TiQuE, with one text of the key where it has several columns.
pub(super) fn create_tique_table(table: &TableSpec) -> String {
    let sql = table.create_table();
    if table.primary_key.len() < 2 { sql } else { format!("{sql} WITH (key = 'concatenated')") }
}

/// The same natively.
pub(super) fn create_native_table(table: &TableSpec) -> String {
    let sql = table.create_table();
    if table.primary_key.len() < 2 {
        return sql;
    }
    sql.replacen(", PRIMARY KEY (", &format!(", {KEY_TEXT} varchar(60) NOT NULL, PRIMARY KEY ("), 1)
}

/// Where the rows of a population go.
pub(super) struct Destination<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) is_tique: bool,
    /// For files that the engine reads.
    pub(super) directory: &'a Path,
}

impl Destination<'_> {
    /// Adds rows to a table that nobody uses yet.
    ///
    /// # Errors
    /// The engine refuses them, or the file that it is to read cannot be written.
    pub(super) fn load(&self, table: &TableSpec, batch: &RecordBatch) -> Result<(), BenchError> {
        let name = if self.is_tique { format!("{}_storage", table.name) } else { table.name.to_owned() };
        let batch = if table.primary_key.len() > 1 { with_key_text(table, batch)? } else { batch.clone() };
        let mut connection = self.engine.connect()?;
        let file = self.directory.join("population.csv");
        let path = file.display();
        let copy = match self.engine.dialect().name {
            "MonetDB" => {
                format!("COPY INTO \"{name}\" FROM '{path}' USING DELIMITERS ',', E'\\n', '\"' NULL AS ''")
            }
            "DuckDB" => format!("COPY \"{name}\" FROM '{path}' (FORMAT csv, HEADER false, NULLSTR '')"),
            _ => {
                connection.append(&name, &batch)?;
                return Ok(connection.sync()?);
            }
        };
        std::fs::write(&file, csv(&batch)?).map_err(|source| BenchError::file(&file, source))?;
        connection.execute(&copy)?;
        std::fs::remove_file(&file).map_err(|source| BenchError::file(&file, source))
    }
}

/// The batch with one column more: the key's columns, of whole numbers, with points between them.
fn with_key_text(table: &TableSpec, batch: &RecordBatch) -> Result<RecordBatch, BenchError> {
    let options = FormatOptions::default();
    let parts: Result<Vec<_>, _> = table
        .primary_key
        .iter()
        .map(|name| ArrayFormatter::try_new(batch.column(table.column_index(name)), &options))
        .collect();
    let parts = parts?;
    let key = |row: usize| parts.iter().map(|part| part.value(row).to_string()).collect::<Vec<_>>().join(".");
    let keys: StringArray = (0..batch.num_rows()).map(|row| Some(key(row))).collect();
    let mut fields: Vec<Field> = batch.schema().fields().iter().map(|field| (**field).clone()).collect();
    fields.push(Field::new(KEY_TEXT, DataType::Utf8, false));
    let mut columns = batch.columns().to_vec();
    columns.push(Arc::new(keys) as ArrayRef);
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The rows as CSV: texts in quotes, NULL as nothing.
fn csv(batch: &RecordBatch) -> Result<String, BenchError> {
    let options = FormatOptions::default().with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.3f"));
    let columns: Result<Vec<_>, _> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect();
    let columns = columns?;
    let are_texts: Vec<bool> = batch
        .columns()
        .iter()
        .map(|column| matches!(column.data_type(), DataType::Utf8 | DataType::Utf8View))
        .collect();
    let mut text = String::new();
    for row in 0..batch.num_rows() {
        for (place, column) in columns.iter().enumerate() {
            if place > 0 {
                text.push(',');
            }
            if batch.column(place).is_null(row) {
                continue;
            }
            if are_texts[place] {
                write!(text, "\"{}\"", column.value(row).to_string().replace('"', "\"\""))
                    .expect("a string takes it");
            } else {
                write!(text, "{}", column.value(row)).expect("a string takes it");
            }
        }
        text.push('\n');
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::BatchBuilder;
    use crate::tpcc::schema::NEW_ORDER;

    #[test]
    fn rows_are_written_with_the_text_of_their_key() {
        let mut rows = BatchBuilder::new(&NEW_ORDER, 1);
        for number in [7, 3, 1] {
            rows.int(number);
        }
        let batch = with_key_text(&NEW_ORDER, &rows.finish().unwrap()).unwrap();
        assert_eq!(csv(&batch).unwrap(), "7,3,1,\"1.3.7\"\n");
    }
}
