// SPDX-License-Identifier: Apache-2.0
//! How many values a column has, by what a session has put into a table.

use super::*;
use crate::engine::Engine;
use crate::session::Session;
use coeval_store::{AccessMode, CheckpointPolicy, ObjectRef, QualifiedName, Store, StoreOptions};
use coeval_txn::Isolation;

/// Of the table `t`, the values of its second column.
fn values(store: &Store) -> f64 {
    let transaction = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let table = transaction.catalog().resolve(&QualifiedName::new("public", "t"));
    let Some(ObjectRef::Table(table)) = table else { panic!("{table:?} is no table") };
    distinct_in_column(&transaction.view(table).unwrap(), 1).unwrap()
}

/// A table `t` of so many rows, of which so many have texts, every third of them the same. Those of the others are NULL.
fn with_texts(rows: usize, texts: usize) -> (Store, Session) {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let store = Store::in_memory(options);
    let mut session = Engine::new(store.clone()).unwrap().session();
    session
        .execute(&format!(
            "CREATE TABLE t (id int PRIMARY KEY, name text);
             INSERT INTO t SELECT i, CASE WHEN i > {texts} THEN NULL WHEN i % 3 = 0 THEN 'same' ELSE 'text ' || i END
                 FROM generate_series(1, {rows}) i"
        ))
        .unwrap();
    (store, session)
}

/// Few rows are in no chunk before a checkpoint.
#[test]
fn columns_have_their_values_in_chunks_and_before() {
    for rows in [4_000, 30_000] {
        let (store, mut session) = with_texts(rows, rows / 5 * 4);
        let expected = (rows / 5 * 4 * 2 / 3 + 1) as f64;
        for then in ["SELECT 1", "CHECKPOINT"] {
            session.execute(then).unwrap();
            let found = values(&store);
            assert!((0.9..1.1).contains(&(found / expected)), "{found} in the place of {expected}");
        }
    }
}

#[test]
fn new_rows_count_though_the_sample_has_none_of_them() {
    let (store, mut session) = with_texts(10_000, 10_000);
    session.execute("CHECKPOINT").unwrap();
    let before = values(&store);
    session.execute("INSERT INTO t SELECT i, 'new ' || i FROM generate_series(10001, 14000) i").unwrap();
    let more = values(&store) / before;
    assert!((1.3..1.5).contains(&more), "{more} times as many values as before");
}

#[test]
fn equal_values_that_stand_together_are_not_taken_for_different_ones() {
    let (store, mut session) = with_texts(0, 0);
    session.execute("INSERT INTO t SELECT i, 'order ' || i / 10 FROM generate_series(1, 50000) i").unwrap();
    let found = values(&store);
    assert!((4_000.0..6_200.0).contains(&found), "{found} in the place of 5001");
}

#[test]
fn small_tables_have_no_more_values_than_are_there() {
    let (store, mut session) = with_texts(3_000, 0);
    assert_eq!(values(&store), 1.0, "all are NULL");
    session.execute("DELETE FROM t; INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL)").unwrap();
    session.execute("CHECKPOINT").unwrap();
    assert_eq!(values(&store), 2.0);
    session.execute("DELETE FROM t").unwrap();
    session.execute("CHECKPOINT").unwrap();
    assert_eq!(values(&store), 1.0, "there are no rows");
}
