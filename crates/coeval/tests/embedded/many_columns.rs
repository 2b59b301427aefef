// SPDX-License-Identifier: Apache-2.0
//! A table has at most as many columns as in PostgreSQL. Those that were dropped have a place in its rows, and count.

use coeval::Database;

fn is_refused(outcome: Result<u64, coeval::Error>) -> bool {
    matches!(outcome, Err(coeval::Error::Sql(error)) if error.state.code() == "54011")
}

/// To break it: let `refuse_too_many` pass.
#[test]
fn a_table_has_at_most_1600_columns_and_dropped_ones_count_until_the_rows_are_written_anew() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    let table = |name: &str, columns: usize| {
        let columns: Vec<_> = (1..=columns).map(|place| format!("c{place} int")).collect();
        format!("CREATE TABLE {name} ({}, PRIMARY KEY (c1))", columns.join(", "))
    };
    assert!(is_refused(session.execute(&table("wider", 1601))));
    session.execute(&table("wide", 1599)).unwrap();
    session.execute("INSERT INTO wide (c1, c1599) VALUES (1, 2)").unwrap();
    session.execute("ALTER TABLE wide ADD COLUMN a int DEFAULT 3; ALTER TABLE wide DROP COLUMN a").unwrap();
    assert!(is_refused(session.execute("ALTER TABLE wide ADD COLUMN b int")));
    session.execute("ALTER TABLE wide ALTER COLUMN c2 TYPE bigint").unwrap();
    session.execute("ALTER TABLE wide ADD COLUMN b int DEFAULT 4").unwrap();
    let rows = session.query("SELECT c1 + c1599 + b AS sum FROM wide").unwrap();
    assert_eq!(coeval::value_at(rows[0].column(0), 0).as_i64(), Some(7));
}
