// SPDX-License-Identifier: Apache-2.0
//! A kept scan is the one that was planned.

use super::*;
use crate::engine::Engine;
use crate::provider::request::ScanRequest;
use coeval_store::{CheckpointPolicy, Store, StoreOptions, TableView};

/// A table of three chunks, of which the last has as many rows as the others: each was loaded by itself.
fn view() -> TableView {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let engine = Engine::new(Store::in_memory(options)).unwrap();
    let mut session = engine.session();
    for sql in [
        "CREATE TABLE t (id int PRIMARY KEY)",
        "INSERT INTO t SELECT i FROM generate_series(1, 20000) i",
        "INSERT INTO t SELECT i FROM generate_series(20001, 40000) i",
        "INSERT INTO t SELECT i FROM generate_series(40001, 80000) i",
    ] {
        session.execute(sql).unwrap();
    }
    let world = engine.store().world();
    let table = world.tables().find(|table| table.def().name.name == "t").expect("it was made");
    TableView::new(Arc::clone(table))
}

/// One that gives all rows has its share of each range of keys, and one that gives the first of them these alone. To break it: divide the rows
/// of the second one by the number of parts that there came to be, or those of either as those of the other.
#[test]
fn a_table_is_divided_as_before() {
    let view = view();
    assert_eq!((view.partition(4).len(), view.partition(3).len()), (3, 2));
    for (partitions, limit) in [(4, None), (2, None), (4, Some(100_000)), (2, Some(100_000))] {
        let request = ScanRequest {
            def: Arc::clone(view.def()),
            schema: view.schema(),
            columns: vec![0],
            projection: vec![0],
            filters: Vec::new(),
            limit,
            partitions,
        };
        let scan = Scan::try_new(view.clone(), request).unwrap();
        let template = scan.template().expect("it has been told nothing");
        let copy = template.scan(&StatementSnapshot::new([view.clone()])).unwrap();
        let rows = |scan: &Scan| scan.parts.iter().map(|part| part.base_rows()).collect::<Vec<_>>();
        let found = rows(copy.downcast_ref::<Scan>().unwrap());
        assert_eq!(found, rows(&scan), "{partitions} parts, at most {limit:?} rows");
    }
}
