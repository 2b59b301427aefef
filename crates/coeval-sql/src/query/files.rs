// SPDX-License-Identifier: Apache-2.0
//! Files in FROM: `SELECT * FROM 'trips/2026-*.parquet'`.
//!
//! A name that nothing of the database has and that ends like a file's is one file, or those that a pattern fits, read where they
//! lie: Parquet by columns and row groups, CSV with the names in its first line, JSON an object a line. They are as they are when
//! they are read: no snapshot has them.

use crate::engine::Engine;
use crate::error::{SqlError, SqlState, cannot_read, not_plain};
use crate::rights::insufficient;
use crate::types::{column_type_of_field, without_large_bytes};
use arrow::datatypes::{Field, Schema};
use coeval_store::ColumnType;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::{Column, TableReference};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::provider_as_source;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use url::Url;

/// Rows of a file of texts that its columns' types are found by.
const INFERRED_ROWS: usize = 100_000;

/// Files that one name may stand for.
const FILES_MAX: usize = 10_000;

/// How a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Parquet,
    Csv { delimiter: u8, is_gzipped: bool },
    Json { is_gzipped: bool },
}

impl Form {
    /// By the end of the name.
    fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let (plain, is_gzipped) = match lower.strip_suffix(".gz") {
            Some(plain) => (plain, true),
            None => (lower.as_str(), false),
        };
        match plain.rsplit_once('.')?.1 {
            "parquet" if !is_gzipped => Some(Self::Parquet),
            "csv" => Some(Self::Csv { delimiter: b',', is_gzipped }),
            "tsv" => Some(Self::Csv { delimiter: b'\t', is_gzipped }),
            "json" | "jsonl" | "ndjson" => Some(Self::Json { is_gzipped }),
            _ => None,
        }
    }

    fn format(self) -> Arc<dyn FileFormat> {
        let compression = |is_gzipped| match is_gzipped {
            true => FileCompressionType::GZIP,
            false => FileCompressionType::UNCOMPRESSED,
        };
        match self {
            Self::Parquet => Arc::new(ParquetFormat::new()),
            Self::Csv { delimiter, is_gzipped } => Arc::new(
                CsvFormat::default()
                    .with_has_header(true)
                    .with_delimiter(delimiter)
                    .with_newlines_in_values(true)
                    .with_schema_infer_max_rec(INFERRED_ROWS)
                    .with_file_compression_type(compression(is_gzipped)),
            ),
            Self::Json { is_gzipped } => Arc::new(
                JsonFormat::default()
                    .with_schema_infer_max_rec(INFERRED_ROWS)
                    .with_file_compression_type(compression(is_gzipped)),
            ),
        }
    }
}

/// Whether a name in FROM that nothing of the database has is one of files: those that end so are read.
#[must_use]
pub fn is_name_of_files(name: &str) -> bool {
    Form::of(name).is_some()
}

/// `42501`: files of the server are for superusers, as for COPY.
pub(super) fn refused() -> SqlError {
    insufficient("must be superuser or have privileges of the pg_read_server_files role to read a file")
        .with_hint("Anyone can COPY from stdin into a table, a temporary one for one.")
}

/// The files of a name as a table, to be read only.
///
/// # Errors
/// `58P01` if there are none, `58030` if one cannot be looked at, `42809` for a directory or a pipe, `42P10` for columns that
/// differ from file to file, `0A000` for a column of a type that SQL has nothing like, `22P04` for a file that is not what its
/// name says, `54000` for too many.
pub(super) fn provider(
    name: &str,
    engine: &Engine,
    state: &SessionState,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let form = Form::of(name).expect("the caller has looked");
    let paths = named(name)?;
    let options = ListingOptions::new(form.format()).with_file_extension("");
    let urls = paths.iter().map(|path| url_of(path)).collect::<Result<Vec<_>, SqlError>>()?;
    let mut schemas = Vec::with_capacity(urls.len());
    for (path, url) in paths.iter().zip(&urls) {
        let inferred = engine.runtime().block_on(options.infer_schema(state, url));
        let schema = inferred.map_err(|error| unreadable(path, error.into()))?;
        schemas.push(Schema::clone(&schema));
    }
    let schema = Schema::try_merge(schemas).map_err(|error| {
        let message = format!("the files of \"{name}\" have columns of one name and of different types");
        SqlError::new(SqlState::InvalidColumnReference, message).with_detail(error.to_string())
    })?;
    let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options);
    let listed = ListingTable::try_new(config.with_schema(Arc::new(schema.clone())))?;
    in_sql(name, &schema, Arc::new(listed))
}

/// The same table with columns of SQL's types; what has its type already is read as it is.
fn in_sql(
    name: &str,
    schema: &Schema,
    listed: Arc<dyn TableProvider>,
) -> Result<Arc<dyn TableProvider>, SqlError> {
    let table = TableReference::bare(name);
    let shown = |field: &Arc<Field>| {
        // Large bytes as elements would be taken for numbers; those of columns are views by now.
        let is_known = |_: &ColumnType| without_large_bytes(field.data_type()) == *field.data_type();
        let ty = column_type_of_field(field).filter(is_known).ok_or_else(|| {
            let (column, ty) = (field.name(), field.data_type());
            SqlError::unsupported(format_args!("the column \"{column}\" of type {ty} in \"{name}\""))
        })?;
        let column = Expr::Column(Column::new(Some(table.clone()), field.name()));
        Ok(match ty.arrow() {
            same if same == *field.data_type() => column,
            other => cast(column, other).alias(field.name()),
        })
    };
    let columns = schema.fields().iter().map(shown).collect::<Result<Vec<_>, SqlError>>()?;
    let plan = LogicalPlanBuilder::scan(table.clone(), provider_as_source(listed), None)?.project(columns)?;
    Ok(Arc::new(ViewTable::new(plan.build()?, None)))
}

/// The files that a name stands for, sorted.
fn named(name: &str) -> Result<Vec<PathBuf>, SqlError> {
    let path = Path::new(name);
    if path.is_file() || !name.contains(['*', '?', '[']) {
        let found = std::fs::metadata(path).map_err(|error| cannot_read(path, &error))?;
        // A pipe can be read once, and a file is opened at least twice: for its columns, and for its rows.
        return match found.is_file() {
            true => Ok(vec![path.to_owned()]),
            false if found.is_dir() => {
                Err(not_plain(path, &found)
                    .with_hint("A pattern names the files in it: 'directory/*.parquet'."))
            }
            false => Err(not_plain(path, &found)),
        };
    }
    let malformed = |error: glob::PatternError| {
        SqlError::new(
            SqlState::InvalidParameterValue,
            format!("the pattern \"{name}\" makes no sense: {error}"),
        )
    };
    let mut paths = Vec::new();
    for found in glob::glob(name).map_err(malformed)? {
        crate::cancel::check()?;
        let path = found.map_err(|error| cannot_read(error.path(), error.error()))?;
        if path.is_file() {
            paths.push(path);
        }
        if paths.len() > FILES_MAX {
            let message = format!("more than {FILES_MAX} files fit \"{name}\"");
            return Err(SqlError::new(SqlState::ProgramLimitExceeded, message));
        }
    }
    if paths.is_empty() {
        return Err(SqlError::new(SqlState::UndefinedFile, format!("no file fits \"{name}\"")));
    }
    Ok(paths)
}

fn url_of(path: &Path) -> Result<ListingTableUrl, SqlError> {
    let absolute = std::fs::canonicalize(path).map_err(|error| cannot_read(path, &error))?;
    let url = Url::from_file_path(&absolute).expect("the path is absolute");
    Ok(ListingTableUrl::try_new(url, None)?)
}

/// A file that is not what its name says. Other errors stay what they are.
fn unreadable(path: &Path, error: SqlError) -> SqlError {
    if error.state != SqlState::InternalError {
        return error;
    }
    let message = format!("could not read file \"{}\"", path.display());
    SqlError::new(SqlState::BadCopyFileFormat, message).with_detail(error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_the_ends_of_their_names() {
        for (name, form) in [
            ("a.parquet", Some(Form::Parquet)),
            ("dir/*.Parquet", Some(Form::Parquet)),
            ("a.csv.gz", Some(Form::Csv { delimiter: b',', is_gzipped: true })),
            ("a.tsv", Some(Form::Csv { delimiter: b'\t', is_gzipped: false })),
            ("a.jsonl", Some(Form::Json { is_gzipped: false })),
            ("a.parquet.gz", None),
            ("csv", None),
            ("orders", None),
            ("", None),
        ] {
            assert_eq!(Form::of(name), form, "{name}");
        }
    }
}
