// SPDX-License-Identifier: Apache-2.0
//! Scans of changed rows that read decimals as 64-bit integers, against those that read them as decimals, in both orders of rows.

use super::super::{Batches, RowOrder, ScanTask};
use crate::engine::Engine;
use crate::provider::narrow_columns::{retain_compared, with_narrow};
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

/// Two chunks; `p` and `e` are of one type, `d` is of another one, and `w` has more digits than 64-bit integers.
const TABLE: &str = "
    CREATE TABLE t (id int PRIMARY KEY, b int NOT NULL, p numeric(12,2), d numeric(4,2) NOT NULL, e numeric(12,2), w numeric(30,2));
    INSERT INTO t
    SELECT i * 2, i % 11, nullif(i % 1000, 13) + 0.25, i % 11 * 0.01, nullif(i % 700, 17) - 300.5, i
    FROM generate_series(1, 80000) i;
    CHECKPOINT";

/// What is read, in places of the definition: all but the last two go out.
const COLUMNS: [usize; 6] = [0, 2, 5, 4, 3, 1];

/// How many of them go out.
const OUTPUT: usize = 4;

/// Those that may be integers, in places of [`COLUMNS`]: `p`, `e` and `d`, which is only for filters.
const DECIMALS: [usize; 3] = [1, 3, 4];

/// Other values, NULL and rows that are gone; then new rows among those of the chunks and behind them, a new column and one that is gone.
const CHANGES: [&str; 3] = [
    "UPDATE t SET p = -9999999999.99, d = 99.99, e = 9999999999.99 WHERE id % 97 = 3;
     UPDATE t SET p = NULL, e = p WHERE id % 83 = 6;
     DELETE FROM t WHERE id % 50 = 8 OR id BETWEEN 30000 AND 50000",
    "INSERT INTO t SELECT i * 30 + 1, i % 4, 0.01, 0.05, nullif(i % 50, 3), 5 FROM generate_series(1, 3000) i;
     INSERT INTO t SELECT 200000 + i, i % 4, NULL, 0.04, NULL, NULL FROM generate_series(1, 3000) i",
    "ALTER TABLE t DROP COLUMN w; ALTER TABLE t ADD COLUMN v numeric(9,3) DEFAULT -7.125;
     UPDATE t SET v = id % 100 WHERE id % 31 = 2",
];

fn decimal(value: i128, digits: u8) -> Arc<dyn PhysicalExpr> {
    lit(ScalarValue::Decimal128(Some(value), digits, 2))
}

/// Comparisons, what DataFusion evaluates, and several of these: of all rows, many, few and none.
fn filters(schema: &Schema) -> Vec<Vec<Arc<dyn PhysicalExpr>>> {
    let column = |name: &str| col(name, schema).unwrap();
    let with = |left, operator, right| binary(left, operator, right, schema).unwrap();
    let remainder = |of: i32| with(column("b"), Operator::Modulo, lit(of));
    let is_odd = with(remainder(2), Operator::Eq, lit(1));
    let is_small = with(column("d"), Operator::Lt, decimal(4, 4));
    let is_behind = with(column("p"), Operator::GtEq, decimal(50_000, 12));
    let is_more = with(column("p"), Operator::Gt, column("e"));
    let has_no_e = is_null(column("e")).unwrap();
    let is_quarter =
        with(with(column("p"), Operator::Modulo, decimal(100, 12)), Operator::Eq, decimal(25, 12));
    vec![
        vec![],
        vec![Arc::clone(&is_small)],
        vec![Arc::clone(&has_no_e)],
        vec![Arc::clone(&is_odd)],
        vec![Arc::clone(&is_more)],
        vec![Arc::clone(&is_behind), Arc::clone(&is_odd)],
        vec![with(is_more, Operator::Or, has_no_e), is_odd, Arc::clone(&is_small)],
        vec![is_quarter, is_small],
        vec![with(column("p"), Operator::Lt, decimal(-1_000_000_000_000, 12)), is_behind],
    ]
}

/// What a scan of these columns gives, with decimals in the end.
fn scanned(
    view: &TableView,
    columns: &[usize],
    filters: &[Arc<dyn PhysicalExpr>],
    narrow: &[usize],
    order: RowOrder,
) -> RecordBatch {
    let part = view.partition(1).remove(0);
    let source = Arc::clone(view.scan(part.clone(), columns, |_: &ChunkStats| true).schema());
    let output = Arc::new(source.project(&(0..OUTPUT).collect::<Vec<_>>()).unwrap());
    let mut narrow = narrow.to_vec();
    retain_compared(&mut narrow, filters, &source);
    let of_column = |&index: &usize| SourceColumn { index, ty: view.def().columns[index].ty };
    let task = ScanTask {
        view: view.clone(),
        columns: columns.iter().map(of_column).collect(),
        source: with_narrow(&source, &narrow),
        output: with_narrow(&output, &narrow),
        coded: Arc::default(),
        narrow: narrow.as_slice().into(),
        filters: filters.to_vec(),
        join_keys: Vec::new(),
        limit: None,
        order,
    };
    let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
    let batches = Batches::new(task, part, metrics).unwrap().into_stream();
    let batches = block_on_stream(Box::pin(batches)).map(|batch| {
        let batch = batch.unwrap();
        assert_eq!(batch.schema(), with_narrow(&output, &narrow));
        let columns = batch.columns().iter().zip(output.fields());
        let columns = columns.map(|(column, field)| cast(column, field.data_type()).unwrap()).collect();
        RecordBatch::try_new(Arc::clone(&output), columns).unwrap()
    });
    concat_batches(&output, &batches.collect::<Vec<_>>()).unwrap()
}

fn by_id(rows: &RecordBatch) -> RecordBatch {
    take_record_batch(rows, &sort_to_indices(rows.column(0), None, None).unwrap()).unwrap()
}

/// With integers and without there are the same rows, in the order of keys, too, if it is asked for.
fn check(store: &Store, columns: &[usize]) {
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let table = tx.catalog().resolve(&QualifiedName::new("public", "t"));
    let Some(ObjectRef::Table(table)) = table else { panic!("{table:?} is no table") };
    let view = tx.view(table).unwrap();
    let part = view.partition(1).remove(0);
    let schema = Arc::clone(view.scan(part, columns, |_: &ChunkStats| true).schema());
    for filters in filters(&schema) {
        let wide = scanned(&view, columns, &filters, &[], RowOrder::OfKeys);
        assert_eq!(wide, by_id(&wide), "{filters:?}");
        for narrow in [&DECIMALS[..], &DECIMALS[..1], &DECIMALS[1..], &[2][..]] {
            let ours = scanned(&view, columns, &filters, narrow, RowOrder::OfKeys);
            assert!(ours == wide, "{narrow:?} {filters:?}");
            let in_any = by_id(&scanned(&view, columns, &filters, narrow, RowOrder::Any));
            assert!(in_any == wide, "in any order: {narrow:?} {filters:?}");
        }
    }
}

/// What a filter asks for more than a comparison, and what it compares with such a column, stays.
#[test]
fn columns_stay_of_which_filters_ask_more_than_comparisons() {
    let store = Store::in_memory(StoreOptions::default());
    let mut session = Engine::new(store.clone()).unwrap().session();
    session.execute(TABLE).unwrap();
    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let table = tx.catalog().resolve(&QualifiedName::new("public", "t"));
    let Some(ObjectRef::Table(table)) = table else { panic!("{table:?} is no table") };
    let view = tx.view(table).unwrap();
    let part = view.partition(1).remove(0);
    let schema = Arc::clone(view.scan(part, &COLUMNS, |_: &ChunkStats| true).schema());
    let filters = filters(&schema);
    let (is_more, is_quarter) = (filters[4][0].clone(), filters[7][0].clone());
    for (filters, expected) in [
        (vec![Arc::clone(&is_more)], &DECIMALS[..]),
        (vec![Arc::clone(&is_quarter)], &DECIMALS[1..]),
        (vec![is_more, is_quarter], &DECIMALS[2..]),
    ] {
        let mut narrow = DECIMALS.to_vec();
        retain_compared(&mut narrow, &filters, &schema);
        assert_eq!(narrow, expected, "{filters:?}");
    }
}

#[test]
fn decimals_as_integers_are_those_as_decimals_where_rows_have_changed() {
    let folder = tempfile::tempdir().unwrap();
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let store = Store::open(folder.path().join("db"), options).unwrap();
    let mut session = Engine::new(store.clone()).unwrap().session();
    session.execute(TABLE).unwrap();
    check(&store, &COLUMNS);
    let mut columns = COLUMNS;
    for (round, changes) in CHANGES.into_iter().enumerate() {
        for statement in changes.split(';') {
            session.execute(statement).unwrap();
        }
        if round == 2 {
            // The column that was added, in the place of the one that is gone.
            columns[2] = 6;
        }
        check(&store, &columns);
    }
    session.execute("CHECKPOINT").unwrap();
    check(&store, &columns);
}
