// SPDX-License-Identifier: Apache-2.0
//! Commands of the shell that ask the catalog, as statements: sizes, rights, databases, roles, types.

use super::command::SizesOf;
use super::describe::NamePattern;

/// What `\du` asks.
pub(super) const ROLES: &str = "SELECT rolname AS \"Role\", concat_ws(', ', \
    CASE WHEN rolsuper THEN 'superuser' END, CASE WHEN rolcreaterole THEN 'create role' END, \
    CASE WHEN rolcreatedb THEN 'create database' END, CASE WHEN rolreplication THEN 'replication' END, \
    CASE WHEN NOT rolcanlogin THEN 'cannot log in' END) AS \"Attributes\" \
    FROM pg_catalog.pg_roles WHERE rolname NOT LIKE 'pg\\_%' ORDER BY rolname";

/// What `\dT` asks.
pub(super) const TYPES: &str = "SELECT n.nspname AS \"Schema\", t.typname AS \"Type\", \
    (SELECT string_agg(e.enumlabel, ', ' ORDER BY e.enumsortorder) FROM pg_catalog.pg_enum e \
     WHERE e.enumtypid = t.oid) AS \"Labels\" \
    FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace \
    WHERE t.typtype = 'e' ORDER BY 1, 2";

/// What `\l` asks.
pub(super) const DATABASES: &str = "SELECT datname AS \"Database\", pg_catalog.pg_get_userbyid(datdba) AS \"Owner\", \
    pg_catalog.pg_encoding_to_char(encoding) AS \"Encoding\" FROM pg_catalog.pg_database ORDER BY 1";

const KIND: &str =
    "CASE c.relkind WHEN 'v' THEN 'view' WHEN 'S' THEN 'sequence' ELSE 'table' END AS \"Type\"";

/// What `\dt+` and `\d+` ask.
pub(super) fn sizes(of: SizesOf, pattern: Option<&str>) -> String {
    let (kinds, kind) = match of {
        SizesOf::Tables => ("'r', 'p', 'f'", String::new()),
        SizesOf::All => ("'r', 'p', 'f', 'v', 'S'", format!("{KIND}, ")),
    };
    let columns = format!(
        "{kind}CASE WHEN c.relkind IN ('r', 'p') THEN c.reltuples::bigint END AS \"Rows\", \
         pg_catalog.pg_size_pretty(pg_catalog.pg_table_size(c.oid)) AS \"Size\", \
         pg_catalog.obj_description(c.oid, 'pg_class') AS \"Comment\""
    );
    relations(&columns, kinds, pattern)
}

/// What `\dp` asks: rights as PostgreSQL writes them, `role=rights/who gave them`, and those on columns.
pub(super) fn rights(pattern: Option<&str>) -> String {
    let columns = format!(
        "{KIND}, pg_catalog.array_to_string(c.relacl, E'\\n') AS \"Rights\", \
         pg_catalog.array_to_string(ARRAY(\
         SELECT a.attname || ': ' || pg_catalog.array_to_string(a.attacl, ' ') FROM pg_catalog.pg_attribute a \
         WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attacl IS NOT NULL), E'\\n') AS \"Columns\""
    );
    relations(&columns, "'r', 'p', 'f', 'v', 'S'", pattern)
}

fn relations(columns: &str, kinds: &str, pattern: Option<&str>) -> String {
    let fits = pattern.map_or_else(String::new, |pattern| {
        format!(" AND {}", NamePattern::parse(pattern).condition("n.nspname", "c.relname"))
    });
    format!(
        "SELECT n.nspname AS \"Schema\", c.relname AS \"Name\", {columns} \
         FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
         WHERE c.relkind IN ({kinds}) AND n.nspname NOT IN ('pg_catalog', 'information_schema'){fits} ORDER BY 1, 2"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_a_condition() {
        let sql = rights(Some("s.order_*"));
        assert!(sql.contains("n.nspname LIKE 's' AND c.relname LIKE 'order\\_%'"), "{sql}");
        assert!(!rights(None).contains("LIKE"));
        assert!(sizes(SizesOf::Tables, Some("a'?")).contains("c.relname LIKE 'a''_'"));
    }
}
