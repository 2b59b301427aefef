// SPDX-License-Identifier: Apache-2.0
//! TPC-H's tables as Parquet files, one file for each table, for other systems and for `COPY`; beside them the DDL
//! (`schema.sql`) and the queries (`queries/q01.sql` and so on), so that others run the very same texts.

use super::queries::{QUERY_COUNT, query};
use super::tables::{TABLES, generate, part_count, row_estimate};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::table::TableSpec;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Rows in a row group: some dozens for the largest table at scale 1, so that readers can share the work.
const ROW_GROUP_ROWS: usize = 131_072;

/// The file of a table in a directory.
#[must_use]
pub fn parquet_path(directory: &Path, table: &TableSpec) -> PathBuf {
    directory.join(format!("{}.parquet", table.name))
}

/// Writes all eight tables at this scale, the DDL and the queries into a directory, which is made if it is not there.
/// Returns how many bytes the tables' files have. A file appears under its name only when it is complete.
///
/// # Errors
/// If a file cannot be written.
pub fn write_parquet(directory: &Path, scale: f64, progress: &dyn Progress) -> Result<u64, BenchError> {
    fs::create_dir_all(directory).map_err(|source| BenchError::file(directory, source))?;
    let rows = TABLES.iter().map(|table| row_estimate(table, scale)).sum();
    progress.begin("write Parquet files", Some(rows));
    let mut bytes = 0;
    for table in TABLES {
        bytes += write_table(directory, table, scale, progress)?;
    }
    progress.end();
    write_texts(directory, scale)?;
    Ok(bytes)
}

fn write_texts(directory: &Path, scale: f64) -> Result<(), BenchError> {
    let ddl: Vec<String> = TABLES.iter().map(|table| format!("{};\n", table.create_table())).collect();
    write_text(&directory.join("schema.sql"), &ddl.concat())?;
    let queries = directory.join("queries");
    fs::create_dir_all(&queries).map_err(|source| BenchError::file(&queries, source))?;
    (1..=QUERY_COUNT)
        .try_for_each(|number| write_text(&queries.join(format!("q{number:02}.sql")), &query(number, scale)))
}

fn write_text(path: &Path, text: &str) -> Result<(), BenchError> {
    fs::write(path, text).map_err(|source| BenchError::file(path, source))
}

fn write_table(
    directory: &Path,
    table: &'static TableSpec,
    scale: f64,
    progress: &dyn Progress,
) -> Result<u64, BenchError> {
    let path = parquet_path(directory, table);
    let unfinished = path.with_extension("parquet.unfinished");
    let failed = |source| BenchError::file(&unfinished, source);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .build();
    let file = File::create(&unfinished).map_err(failed)?;
    let mut writer = ArrowWriter::try_new(file, table.schema(), Some(properties))?;
    for part in 0..part_count(table, scale) {
        generate::<BenchError>(table, scale, part, &mut |batch| {
            writer.write(&batch)?;
            progress.advance(batch.num_rows() as u64);
            Ok(())
        })?;
    }
    writer.close()?;
    let bytes = fs::metadata(&unfinished).map_err(failed)?.len();
    fs::rename(&unfinished, &path).map_err(failed)?;
    Ok(bytes)
}

/// The batches of a table's file.
///
/// # Errors
/// If the file cannot be read or is no Parquet file.
pub fn read_parquet(directory: &Path, table: &TableSpec) -> Result<ParquetRecordBatchReader, BenchError> {
    let path = parquet_path(directory, table);
    let file = File::open(&path).map_err(|source| BenchError::file(&path, source))?;
    Ok(ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(ROW_GROUP_ROWS).build()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Silent;

    #[test]
    fn tables_come_back_from_their_files() {
        let directory = tempfile::tempdir().unwrap();
        let bytes = write_parquet(directory.path(), 0.001, &Silent).unwrap();
        assert!(bytes > 0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), TABLES.len() + 2);
        assert_eq!(fs::read_dir(directory.path().join("queries")).unwrap().count(), QUERY_COUNT);
        let ddl = fs::read_to_string(directory.path().join("schema.sql")).unwrap();
        assert_eq!(ddl.matches("PRIMARY KEY").count(), TABLES.len());
        for table in TABLES {
            let mut generated = Vec::new();
            generate::<BenchError>(table, 0.001, 0, &mut |batch| {
                generated.push(batch);
                Ok(())
            })
            .unwrap();
            let read: Vec<_> =
                read_parquet(directory.path(), table).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
            assert_eq!(read, generated, "{}", table.name);
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let error = read_parquet(directory.path(), TABLES[0]).err().unwrap();
        assert!(error.to_string().contains("region.parquet"), "{error}");
    }
}
