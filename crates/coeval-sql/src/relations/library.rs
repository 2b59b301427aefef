// SPDX-License-Identifier: Apache-2.0
//! The tables of PostgreSQL that `datafusion-pg-catalog` carries, as they are there.

use crate::error::SqlError;
use arrow::array::{AsArray, RecordBatch};
use datafusion_pg_catalog::pg_catalog::{ArrowTable, PgCatalogStaticTables};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

/// The library's tables. They are decoded from memory: that they are well formed is tested.
static TABLES: LazyLock<Result<PgCatalogStaticTables, String>> =
    LazyLock::new(|| PgCatalogStaticTables::try_new().map_err(|error| error.to_string()));

/// The library's table of this name; none if it has none.
///
/// # Errors
/// If the library's tables are not well formed: a bug.
pub(crate) fn library_table(name: &str) -> Result<Option<&'static Arc<ArrowTable>>, SqlError> {
    let tables = TABLES.as_ref().map_err(SqlError::internal)?;
    Ok(Some(match name {
        "pg_aggregate" => &tables.pg_aggregate,
        "pg_am" => &tables.pg_am,
        "pg_amop" => &tables.pg_amop,
        "pg_amproc" => &tables.pg_amproc,
        "pg_cast" => &tables.pg_cast,
        "pg_collation" => &tables.pg_collation,
        "pg_conversion" => &tables.pg_conversion,
        "pg_language" => &tables.pg_language,
        "pg_opclass" => &tables.pg_opclass,
        "pg_operator" => &tables.pg_operator,
        "pg_opfamily" => &tables.pg_opfamily,
        "pg_proc" => &tables.pg_proc,
        "pg_range" => &tables.pg_range,
        "pg_tablespace" => &tables.pg_tablespace,
        "pg_ts_config" => &tables.pg_ts_config,
        "pg_ts_dict" => &tables.pg_ts_dict,
        "pg_ts_parser" => &tables.pg_ts_parser,
        "pg_ts_template" => &tables.pg_ts_template,
        "pg_type" => &tables.pg_type,
        _ => return Ok(None),
    }))
}

/// The words that `pg_get_keywords` lists: word, category, description.
///
/// # Errors
/// If the library's tables are not well formed: a bug.
pub(crate) fn keywords() -> Result<&'static [RecordBatch], SqlError> {
    let tables = TABLES.as_ref().map_err(SqlError::internal)?;
    Ok(tables.pg_get_keywords.data())
}

/// The keywords that are special somewhere.
pub(crate) fn special_keywords() -> HashSet<String> {
    let mut special = HashSet::new();
    for batch in keywords().unwrap_or_default() {
        let (words, categories) = (batch.column(0), batch.column(1));
        let (words, categories) = (words.as_string::<i32>(), categories.as_string::<i32>());
        let both = words.iter().zip(categories.iter());
        special.extend(
            both.filter(|(_, category)| *category != Some("U"))
                .filter_map(|(word, _)| word)
                .map(str::to_owned),
        );
    }
    special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_special_somewhere_are_quoted() {
        let special = special_keywords();
        assert!(special.contains("select") && special.contains("between") && special.contains("left"));
        assert!(!special.contains("abort"));
    }
}
