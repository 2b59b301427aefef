// SPDX-License-Identifier: Apache-2.0
//! The example programs run to their end.

#[path = "../../examples/ingest.rs"]
mod ingest;
#[path = "../../examples/key_value.rs"]
mod key_value;
#[path = "../../examples/sql.rs"]
mod sql;

#[test]
fn the_ingest_example_counts_each_row_once() {
    ingest::main().unwrap();
}

#[test]
fn the_key_value_example_keeps_the_money() {
    key_value::main().unwrap();
}

#[test]
fn the_sql_example_prints_two_groups() {
    sql::main().unwrap();
}
