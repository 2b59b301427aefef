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

/// To break it: divide the rows by the number of parts that there came to be.
#[test]
fn a_table_is_divided_as_before() {
    let view = view();
    assert_eq!((view.partition(4).len(), view.partition(3).len()), (3, 2));
    let request = ScanRequest {
        def: Arc::clone(view.def()),
        schema: view.schema(),
        columns: vec![0],
        projection: vec![0],
        filters: Vec::new(),
        limit: None,
        partitions: 4,
    };
    let scan = Scan::try_new(view.clone(), request).unwrap();
    let template = scan.template().expect("it has been told nothing");
    let copy = template.scan(&StatementSnapshot::new([view])).unwrap();
    let rows = |scan: &Scan| scan.parts.iter().map(|part| part.base_rows()).collect::<Vec<_>>();
    assert_eq!(rows(copy.downcast_ref::<Scan>().unwrap()), rows(&scan));
}
