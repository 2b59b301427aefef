// SPDX-License-Identifier: Apache-2.0
//! Scans of changed rows that give texts as codes, against those that give them as views, in both orders of rows.

use super::super::{Batches, RowOrder, ScanTask};
use super::rows;
use crate::engine::Engine;
use crate::provider::coded_columns::with_codes;
use crate::provider::prune::SourceColumn;
use crate::provider::scan_metrics::ScanMetrics;
use arrow::array::RecordBatch;
use arrow::compute::{cast, concat_batches, sort_to_indices, take_record_batch};
use arrow::datatypes::Schema;
use coeval_store::{
    AccessMode, CheckpointPolicy, ChunkStats, ObjectRef, QualifiedName, Store, StoreOptions, TableView,
};
use coeval_txn::Isolation;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, is_null, lit};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::executor::block_on_stream;
use std::sync::Arc;

/// Two chunks; `g` and `h` have few texts, `k` one for each row.
const TABLE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, g text NOT NULL, h text, k text);
    INSERT INTO t
    SELECT i * 2, i % 11, 'g' || i * 7 % 5, 'longer than a view, ' || nullif(i % 13, 4), 'text ' || i
    FROM generate_series(1, 80000) i;
    CHECKPOINT";

/// What is read, in places of the definition: all but the last go out, or the first alone.
const COLUMNS: [usize; 5] = [0, 2, 3, 4, 1];

/// Those that may be codes, in places of [`COLUMNS`].
const TEXTS: [usize; 3] = [1, 2, 3];

/// Known texts and unknown ones, NULL and rows that are gone, where `k`, which has no codes in its file, is as it was; then new rows among
/// those of the chunks and behind them; then the same with other values in `k`.
const CHANGES: [&str; 3] = [
    "UPDATE t SET g = 'g3', b = b + 1 WHERE id % 79 = 3;
     UPDATE t SET g = 'new in g' || id % 7, h = 'longer than a view, and new ' || id % 3 WHERE id % 73 = 5;
     UPDATE t SET h = NULL WHERE id % 71 = 6; UPDATE t SET g = g, h = h WHERE id % 23 = 4;
     DELETE FROM t WHERE id > 90000 AND id % 60 = 8",
    "INSERT INTO t SELECT i * 30 + 1, i % 4, 'g1', nullif('new ' || i % 50, 'new 3'), 'k' FROM generate_series(1, 3000) i;
     INSERT INTO t SELECT 200000 + i, i % 4, 'behind all', NULL, NULL FROM generate_series(1, 3000) i",
    "UPDATE t SET g = 'g3', h = 'longer than a view, 7', k = 'text 5' WHERE id % 97 = 3;
     UPDATE t SET g = 'new in g' || id % 7, h = 'longer than a view, and new', k = NULL WHERE id % 89 = 5;
     UPDATE t SET h = NULL WHERE id % 83 = 6;
     DELETE FROM t WHERE id % 50 = 8 OR id BETWEEN 30000 AND 50000",
];

fn text(text: &str) -> Arc<dyn PhysicalExpr> {
    lit(ScalarValue::Utf8View(Some(text.to_owned())))
}

/// What is asked of texts, what is compared, what DataFusion evaluates, and several of these: of all rows, many, few and none.
fn filters(schema: &Schema) -> Vec<Vec<Arc<dyn PhysicalExpr>>> {
    let column = |name: &str| col(name, schema).unwrap();
    let with = |left, operator, right| binary(left, operator, right, schema).unwrap();
    let is = |name: &str, value: &str| with(column(name), Operator::Eq, text(value));
    let remainder = |of: i32| with(column("b"), Operator::Modulo, lit(of));
    let is_odd = with(remainder(2), Operator::Eq, lit(1));
    let is_new = with(is("g", "g1"), Operator::Or, is("g", "new in g3"));
    let has_no_h = is_null(column("h")).unwrap();
    let is_behind = with(column("h"), Operator::Gt, text("longer than a view, 2"));
    vec![
        vec![],
        vec![Arc::clone(&is_new)],
        vec![Arc::clone(&has_no_h)],
        vec![Arc::clone(&is_odd)],
        vec![is_behind, Arc::clone(&is_odd)],
        vec![
            with(column("b"), Operator::Lt, lit(2)),
            with(is_new, Operator::Or, is("g", "behind all")),
            is_odd,
        ],
        vec![is("k", "text 5"), has_no_h],
        vec![is("g", "in no row")],
    ]
}

/// What a scan gives of the first so many columns, with texts as views in the end.
fn scanned(
    view: &TableView,
    filters: &[Arc<dyn PhysicalExpr>],
    coded: &[usize],
    width: usize,
    order: RowOrder,
) -> RecordBatch {
    let part = view.partition(1).remove(0);
    let source = Arc::clone(view.scan(part.clone(), &COLUMNS, |_: &ChunkStats| true).schema());
    let output = Arc::new(source.project(&(0..width).collect::<Vec<_>>()).unwrap());
    let columns = COLUMNS.map(|index| SourceColumn { index, ty: view.def().columns[index].ty });
    let task = ScanTask {
        view: view.clone(),
        columns: Arc::new(columns),
        source: with_codes(&source, coded),
        output: with_codes(&output, coded),
        coded: coded.into(),
        narrow: Arc::default(),
        filters: filters.to_vec(),
        join_keys: Vec::new(),
        limit: None,
        order,
    };
    let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let batches = Batches::new(task, part, metrics).unwrap().into_stream();
    let batches = block_on_stream(Box::pin(batches)).map(|batch| {
        let batch = batch.unwrap();
        assert_eq!(batch.schema(), with_codes(&output, coded));
        let columns = batch.columns().iter().zip(output.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()).unwrap()).collect();
        RecordBatch::try_new(Arc::clone(&output), columns).unwrap()
    });
    concat_batches(&output, &batches.collect::<Vec<_>>()).unwrap()
}

fn by_id(rows: &RecordBatch) -> RecordBatch {
    take_record_batch(rows, &sort_to_indices(rows.column(0), None, None).unwrap()).unwrap()
}

/// With codes and without there are the same rows, in the order of keys, too, if it is asked for.
fn check(store: &Store) {
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let table = tx.catalog().resolve(&QualifiedName::new("public", "t"));
    let Some(ObjectRef::Table(table)) = table else { panic!("{table:?} is no table") };
    let view = tx.view(table).unwrap();
    let part = view.partition(1).remove(0);
    let schema = Arc::clone(view.scan(part, &COLUMNS, |_: &ChunkStats| true).schema());
    for filters in filters(&schema) {
        for width in [4, 1] {
            let views = scanned(&view, &filters, &[], width, RowOrder::OfKeys);
            assert_eq!(views, by_id(&views), "{filters:?}");
            for coded in [&TEXTS[..], &TEXTS[..1], &TEXTS[2..]] {
                let scanned = |order| scanned(&view, &filters, coded, width, order);
                assert!(scanned(RowOrder::OfKeys) == views, "{coded:?} {filters:?}");
                assert!(by_id(&scanned(RowOrder::Any)) == views, "in any order: {coded:?} {filters:?}");
            }
        }
    }
}

#[test]
fn texts_as_codes_are_those_as_views_where_rows_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let store = Store::open(folder.path().join("db"), options).unwrap();
    let mut session = Engine::new(store.clone()).unwrap().session();
    session.execute(TABLE).unwrap();
    check(&store);
    for changes in CHANGES {
        session.execute(changes).unwrap();
        check(&store);
    }
    // More texts than codes, before the first row of a chunk; in small parts, which are not loaded as chunks.
    for start in (0..72_000).step_by(4_000) {
        let insert = format!(
            "INSERT INTO t SELECT -{start} - i, i % 11, 'g' || i % 3, 'new ' || {start} + i, 'k' || i
             FROM generate_series(1, 4000) i"
        );
        session.execute(&insert).unwrap();
    }
    let changed = rows(&mut session, "SELECT delta_rows > 72000 FROM coeval_tables WHERE table_name = 't'");
    assert_eq!(changed, ["true"]);
    check(&store);
    session.execute("CHECKPOINT").unwrap();
    check(&store);
}
