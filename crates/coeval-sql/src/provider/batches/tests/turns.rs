// SPDX-License-Identifier: Apache-2.0
//! A scan whose filter leaves no row, on a thread that others wait for.

use super::super::{Batches, RowOrder, ScanTask};
use crate::engine::Engine;
use crate::provider::prune::SourceColumn;
use crate::provider::scan_metrics::ScanMetrics;
use coeval_store::{AccessMode, ChunkStats, ObjectRef, QualifiedName, Store, StoreOptions, TableView};
use coeval_txn::Isolation;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::StreamExt;
use std::sync::Arc;

/// The rows of a table of one column of integers whose remainder by two is two.
fn of_none(view: &TableView) -> Batches {
    let part = view.partition(1).remove(0);
    let source = Arc::clone(view.scan(part.clone(), &[0], |_: &ChunkStats| true).schema());
    let remainder = binary(col("id", &source).unwrap(), Operator::Modulo, lit(2), &source).unwrap();
    let filter = binary(remainder, Operator::Eq, lit(2), &source).unwrap();
    let task = ScanTask {
        view: view.clone(),
        columns: Arc::new([SourceColumn { index: 0, ty: view.def().columns[0].ty }]),
        source: Arc::clone(&source),
        output: source,
        coded: Arc::default(),
        narrow: Arc::default(),
        filters: vec![filter],
        join_keys: Vec::new(),
        limit: None,
        order: RowOrder::OfKeys,
    };
    Batches::new(task, part, ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0)).unwrap()
}

/// To break it: read on until there is a batch.
#[test]
fn others_have_turns_while_a_filter_leaves_nothing() {
    let store = Store::in_memory(StoreOptions::default());
    let mut session = Engine::new(store.clone()).unwrap().session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    session.execute("INSERT INTO t SELECT i FROM generate_series(1, 20000) i").unwrap();
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let table = tx.catalog().resolve(&QualifiedName::new("public", "t"));
    let Some(ObjectRef::Table(table)) = table else { panic!("{table:?} is no table") };
    let batches = of_none(&tx.view(table).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut batches = Box::pin(batches.into_stream());
        // The turn of this task is over with what is read next.
        while tokio::task::coop::has_budget_remaining() {
            tokio::task::consume_budget().await;
        }
        assert!(futures::poll!(batches.next()).is_pending());
        assert!(batches.next().await.is_none());
    });
}
