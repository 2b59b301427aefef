// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::query::plain_type;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

fn stated(sql: &str, known: &[Option<ColumnType>]) -> Vec<Option<ColumnType>> {
    stated_types(&Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap()[0], known, plain_type)
}

#[test]
fn a_cast_and_a_limit_state_the_type_of_a_parameter() {
    let sql = "SELECT $1::int + 1, CAST(($2) AS date), $3::varchar(3), $4::\"pg_catalog\".\"int8\", $5::regclass \
               FROM t LIMIT $6 OFFSET $7";
    let cast = [ColumnType::Int, ColumnType::Date, ColumnType::Text, ColumnType::BigInt].map(Some);
    let counts = [ColumnType::BigInt; 2].map(Some);
    assert_eq!(stated(sql, &[]), [&cast[..], &[None], &counts].concat());
}

#[test]
fn conditions_and_functions_state_the_types_of_their_parameters() {
    let sql = "SELECT NOT $1, CASE WHEN $2 THEN 1 END, substr(x, $3, $4), substring(x FROM $5 FOR 2), lpad($6, $7), \
               pg_catalog.left(x, $8), power($9, 2), make_date(2026, $10, 1) FROM t WHERE $11 AND ($12 OR a)";
    let [boolean, int, text] = [ColumnType::Boolean, ColumnType::Int, ColumnType::Text].map(Some);
    let wanted =
        [boolean, boolean, int, int, None, text, int, int, Some(ColumnType::Double), int, boolean, boolean];
    assert_eq!(stated(sql, &[]), wanted);
}

#[test]
fn what_the_client_declares_stays() {
    assert_eq!(stated("SELECT $1::int", &[Some(ColumnType::Text)]), [Some(ColumnType::Text)]);
    assert_eq!(stated("SELECT $1::int, $1::text", &[None]), [Some(ColumnType::Int)]);
}

#[test]
fn what_is_rounded_to_digits_is_numeric() {
    assert_eq!(stated("SELECT round($1, $2)", &[]), [Some(ColumnType::AnyNumeric), Some(ColumnType::Int)]);
}
