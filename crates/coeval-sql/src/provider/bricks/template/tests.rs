// SPDX-License-Identifier: Apache-2.0
//! A kept scan of bricks reads what the planned one reads, in as many parts.

use super::*;
use crate::engine::Engine;
use crate::provider::field_of_column;
use crate::provider::request::ScanRequest;
use arrow::array::AsArray;
use arrow::datatypes::{Int64Type, Schema};
use coeval_store::{AccessMode, BrickSnapshot, Store, StoreOptions};
use coeval_txn::Isolation;
use datafusion::physical_plan::collect;
use std::collections::HashMap;

/// What a new transaction sees of `facts`.
fn seen(engine: &Engine) -> (Arc<TableDef>, BrickSnapshot) {
    let world = engine.store().world();
    let table = world.tables().find(|table| table.def().name.name == "facts").expect("it was made");
    let def = Arc::clone(table.def());
    let transaction = engine.store().begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let snapshot = transaction.brick_view(def.id, |all| all).unwrap();
    (def, snapshot)
}

/// The scan of all its rows, in eight parts at most.
fn scan(engine: &Engine) -> BrickScan {
    let (def, snapshot) = seen(engine);
    let columns: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
    let fields: Vec<_> = columns.iter().map(|index| field_of_column(&def.columns[*index])).collect();
    let (schema, projection) = (Arc::new(Schema::new(fields)), (0..columns.len()).collect());
    let filters = Vec::new();
    let request = ScanRequest { def, schema, columns, projection, filters, limit: None, partitions: 8 };
    BrickScan::try_new(snapshot, request).unwrap()
}

fn parts(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.downcast_ref::<BrickScan>().expect("it is a scan of bricks").source.parts.len()
}

/// How many rows are read, and the sum of the amounts.
fn read(plan: &Arc<dyn ExecutionPlan>) -> (usize, i64) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let batches = runtime.block_on(collect(Arc::clone(plan), Arc::default())).unwrap();
    let amounts = batches.iter().map(|batch| batch.column(1).as_primitive::<Int64Type>());
    let amounts: Vec<i64> = amounts.flat_map(|column| column.values().iter().copied()).collect();
    (amounts.len(), amounts.iter().sum())
}

/// To break it: take the parts as the bricks come to be divided. Operators above count on those that there were.
#[test]
fn there_are_as_many_parts_whatever_others_append() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let (mut session, mut other) = (engine.session(), engine.session());
    for sql in [
        "CREATE TABLE facts (slot int, amount bigint) USING brick PARTITION BY (slot CARDINALITY 1000 RANGE SIZE 100)",
        "INSERT INTO facts SELECT g % 500, g FROM generate_series(1, 2000) g",
    ] {
        session.execute(sql).unwrap();
    }
    let copy = |template: &BrickScanTemplate| {
        let (def, snapshot) = seen(&engine);
        template.scan(&StatementSnapshot::new([]).with_bricks(HashMap::from([(def.id, snapshot)]))).unwrap()
    };
    let (few, version) = (scan(&engine), seen(&engine).1.version());
    // A brick that is read by several parts, of rows that nobody else sees.
    let load = "INSERT INTO facts SELECT 1, g FROM generate_series(1, 200000) g";
    other.execute(&format!("BEGIN; {load}; SELECT count(*) FROM facts")).unwrap();
    assert_eq!(seen(&engine).1.version(), version);
    let many = scan(&engine);
    let of_few = copy(&few.template().expect("it is kept"));
    let of_many = many.template().expect("it is kept");
    other.execute("ROLLBACK").unwrap();
    let of_many = copy(&of_many);
    let scans: [Arc<dyn ExecutionPlan>; 2] = [Arc::new(few), Arc::new(many)];
    assert!(parts(&scans[0]) < parts(&scans[1]));
    for (copy, scan) in [of_few, of_many].iter().zip(&scans) {
        assert_eq!(parts(copy), parts(scan));
        assert_eq!(read(copy), (2_000, 2_001_000));
        assert_eq!(read(scan), (2_000, 2_001_000));
    }
}

/// To break it: compare the rows alone, or give the version of a transaction that writes.
#[test]
fn a_version_is_of_what_is_seen() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    for sql in [
        "CREATE TABLE facts (slot int, amount bigint) USING brick PARTITION BY (slot CARDINALITY 1000 RANGE SIZE 100)",
        "INSERT INTO facts VALUES (1, 1)",
    ] {
        session.execute(sql).unwrap();
    }
    let version = || seen(&engine).1.version().expect("nothing was written");
    let mut before = version();
    assert_eq!(version(), before);
    for change in
        ["INSERT INTO facts VALUES (1, 2)", "DELETE FROM facts WHERE slot BETWEEN 0 AND 99", "TRUNCATE facts"]
    {
        session.execute(change).unwrap();
        let now = version();
        assert_ne!(now, before, "{change}");
        before = now;
    }
    session.execute("CREATE TABLE rows (id int PRIMARY KEY); INSERT INTO rows VALUES (1)").unwrap();
    assert_eq!(version(), before);
}
