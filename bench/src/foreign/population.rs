// SPDX-License-Identifier: Apache-2.0
//! Tables of a workload in a foreign engine, and their first rows.
//!
//! Under TiQuE the rows go to the storage tables at once, where a checkpoint would have left them; nobody reads yet.

use crate::error::BenchError;
use crate::table::TableSpec;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use coeval::ColumnType;
use coeval_tique::Engine;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// The column that holds the key's columns as one number or text (3.2.5), natively.
pub(crate) const WHOLE_KEY: &str = "whole_key";

/// How whole keys are kept: as [`coeval_tique`] does it on the same engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    Texts,
    /// Of this type of the engine's.
    Numbers(&'static str),
}

impl Keys {
    pub(super) fn of(engine: &dyn Engine) -> Self {
        engine.dialect().integers.wide().map_or(Self::Texts, Self::Numbers)
    }
}

/// The bits of a key's column; all are integers.
pub(super) fn bits(kind: ColumnType) -> u32 {
    match kind {
        ColumnType::Int => 32,
        ColumnType::BigInt => 64,
        other => panic!("no key of the workloads has a column of type {other}"),
    }
}

/// `CREATE TABLE` under TiQuE, with the key in one column too where it has several columns.
pub(super) fn create_tique_table(table: &TableSpec) -> String {
    let sql = table.create_table();
    if table.primary_key.len() < 2 { sql } else { format!("{sql} WITH (key = 'concatenated')") }
}

/// The same natively.
pub(super) fn create_native_table(table: &TableSpec, keys: Keys) -> String {
    let sql = table.create_table();
    if table.primary_key.len() < 2 {
        return sql;
    }
    let kind = match keys {
        Keys::Texts => "varchar(60)",
        Keys::Numbers(kind) => kind,
    };
    let (columns, _) = sql.split_once(", PRIMARY KEY (").expect("each table has a key");
    format!("{columns}, {WHOLE_KEY} {kind}, PRIMARY KEY ({WHOLE_KEY}))")
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
        let keys = Keys::of(self.engine);
        let batch = if table.primary_key.len() > 1 { with_key(table, batch, keys)? } else { batch.clone() };
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

/// The batch with one column more: the key's columns, of whole numbers, as one number or with points between them.
fn with_key(table: &TableSpec, batch: &RecordBatch, keys: Keys) -> Result<RecordBatch, BenchError> {
    let columns = table.primary_key.iter().map(|name| {
        let place = table.column_index(name);
        let numbers = cast(batch.column(place), &DataType::Int64)?;
        Ok((numbers.as_primitive::<Int64Type>().clone(), bits(table.columns[place].ty)))
    });
    let columns = columns.collect::<Result<Vec<_>, BenchError>>()?;
    let key = |row: usize| columns.iter().map(move |(column, bits)| (column.value(row), *bits));
    let whole: ArrayRef = match keys {
        Keys::Texts => {
            let text =
                |row: usize| key(row).map(|(value, _)| value.to_string()).collect::<Vec<_>>().join(".");
            Arc::new((0..batch.num_rows()).map(|row| Some(text(row))).collect::<StringArray>())
        }
        Keys::Numbers(_) => {
            let numbers = (0..batch.num_rows()).map(|row| coeval_tique::pack(key(row)));
            Arc::new(numbers.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?)
        }
    };
    let mut fields: Vec<Field> = batch.schema().fields().iter().map(|field| (**field).clone()).collect();
    fields.push(Field::new(WHOLE_KEY, whole.data_type().clone(), false));
    let mut columns = batch.columns().to_vec();
    columns.push(whole);
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
    fn rows_are_written_with_their_whole_key() {
        let mut rows = BatchBuilder::new(&NEW_ORDER, 1);
        for number in [7, 3, 1] {
            rows.int(number);
        }
        let rows = rows.finish().unwrap();
        let text = |keys| csv(&with_key(&NEW_ORDER, &rows, keys).unwrap()).unwrap();
        assert_eq!(text(Keys::Texts), "7,3,1,\"1.3.7\"\n");
        assert_eq!(text(Keys::Numbers("HUGEINT")), format!("7,3,1,{}\n", (1_i128 << 64) + (3 << 32) + 7));
    }
}
