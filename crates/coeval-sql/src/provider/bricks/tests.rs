// SPDX-License-Identifier: Apache-2.0
//! A scan that is divided, sent as bytes and run somewhere else reads what it would have read where it was planned.

use super::*;
use crate::engine::Engine;
use crate::session::Session;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coeval_store::{AccessMode, StoreOptions, Transaction};
use coeval_txn::Isolation;
use datafusion::physical_plan::collect;

/// One brick of which parts are read apart, and small ones.
const TABLE: &str = "
    CREATE TABLE facts (slot int, name text, amount bigint)
        USING brick PARTITION BY (slot CARDINALITY 1000 RANGE SIZE 100);
    INSERT INTO facts SELECT CASE WHEN g < 300000 THEN g % 70 ELSE g % 500 END, 'n' || g % 7, g
        FROM generate_series(1, 320000) g";

struct Fixture {
    engine: Arc<Engine>,
    session: Session,
    table: coeval_store::SpaceId,
}

impl Fixture {
    fn new() -> Self {
        let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("a store opens");
        let mut session = engine.session();
        session.execute(TABLE).expect("the table is made");
        let world = engine.store().world();
        let table = world.tables().find(|table| table.def().name.name == "facts").expect("it is there");
        let table = table.def().id;
        Self { engine, session, table }
    }

    fn store(&self) -> &Store {
        self.engine.store()
    }

    fn begin(&self) -> Transaction {
        self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite)
    }

    /// A scan of all columns behind the first, as `transaction` sees them.
    fn scan(&self, transaction: &Transaction) -> BrickScan {
        let snapshot = transaction.brick_view(self.table, |all| all).expect("it is a brick table");
        let def = Arc::clone(transaction.table_def(self.table).expect("the table is there"));
        let columns: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
        let fields: Vec<_> = columns.iter().map(|index| field_of_column(&def.columns[*index])).collect();
        let schema = Arc::new(Schema::new(fields));
        let (projection, filters) = ((1..columns.len()).collect(), Vec::new());
        let request = ScanRequest { def, schema, columns, projection, filters, limit: None, partitions: 3 };
        BrickScan::try_new(snapshot, request).expect("all columns are the table's")
    }

    fn ordered(&self, order: &ScanOrder) -> BrickScan {
        let bytes = order.to_bytes();
        let order = ScanOrder::from_bytes(&bytes).expect("these are the bytes of an order");
        BrickScan::ordered(self.store(), &order, 2).expect("everything is there")
    }
}

/// The amounts that scans read, in ascending order, and how many have a name.
fn read(scans: impl IntoIterator<Item = BrickScan>) -> (Vec<i64>, usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let (mut amounts, mut names) = (Vec::new(), 0);
    for scan in scans {
        let batches = runtime.block_on(collect(Arc::new(scan), Arc::default())).expect("bricks can be read");
        for batch in batches {
            names += batch.column(0).len() - batch.column(0).null_count();
            amounts.extend_from_slice(batch.column(1).as_primitive::<Int64Type>().values());
        }
    }
    amounts.sort_unstable();
    (amounts, names)
}

#[test]
fn parts_that_were_sent_read_what_the_scan_reads_whatever_happens_meanwhile() {
    let mut fixture = Fixture::new();
    let transaction = fixture.begin();
    let scan = fixture.scan(&transaction);
    let order = scan.order().expect("the transaction has written nothing");
    let expected = read([scan]);
    assert_eq!(expected.0, (1..=320_000).collect::<Vec<i64>>());
    fixture.session.execute("DELETE FROM facts WHERE slot BETWEEN 0 AND 99").expect("it is a whole brick");
    fixture
        .session
        .execute("INSERT INTO facts SELECT 5, 'new', g FROM generate_series(1, 1000) g")
        .expect("rows");
    fixture.session.execute("ALTER TABLE facts ADD COLUMN more int").expect("a column");
    assert_eq!(read([fixture.ordered(&order)]), expected);
    for count in [1, 2, 3, 100] {
        let parts = order.divided(count);
        assert!(parts.len() <= count);
        assert_eq!(read(parts.iter().map(|part| fixture.ordered(part))), expected, "{count} parts");
    }
    let latest = fixture.scan(&fixture.begin());
    assert_ne!(read([latest]), expected);
}

#[test]
fn what_only_the_transaction_sees_cannot_be_ordered() {
    let fixture = Fixture::new();
    let mut transaction = fixture.begin();
    let batch = {
        let snapshot = transaction.brick_view(fixture.table, |all| all).expect("it is a brick table");
        let schema = Arc::clone(snapshot.schema());
        let columns: Vec<ArrayRef> = vec![
            Arc::new(arrow::array::Int32Array::from(vec![1])),
            Arc::new(arrow::array::StringArray::from(vec!["own"])),
            Arc::new(arrow::array::Int64Array::from(vec![7])),
        ];
        let fields = schema.fields().iter().zip(&columns);
        let fields: Vec<_> = fields
            .map(|(field, column)| {
                arrow::datatypes::Field::new(field.name(), column.data_type().clone(), field.is_nullable())
            })
            .collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a row")
    };
    transaction.append(fixture.table, &batch, 0).expect("the row is of the table");
    assert!(fixture.scan(&transaction).order().is_none());
}

#[test]
fn an_order_that_cannot_be_run_says_why() {
    let mut fixture = Fixture::new();
    let transaction = fixture.begin();
    let order = fixture.scan(&transaction).order().expect("the transaction has written nothing");
    let refused = |fixture: &Fixture, order: &ScanOrder| {
        BrickScan::ordered(fixture.store(), order, 1).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refused(&Fixture::new(), &order).is_empty(), "epochs and numbers are the same there");
    fixture.session.execute("INSERT INTO facts VALUES (1, 'x', 1)").expect("a row");
    let newer = fixture.scan(&fixture.begin()).order().expect("nothing is written");
    assert!(
        refused(&Fixture::new(), &newer).contains("its snapshot is no longer there"),
        "of another database"
    );
    fixture.session.execute("ALTER TABLE facts ADD COLUMN more int").expect("a column");
    let wider = fixture.scan(&fixture.begin()).order().expect("nothing is written");
    assert!(refused(&Fixture::new(), &wider).contains("\"facts\" lacks a column that it reads"));
    fixture.session.execute("DROP TABLE facts").expect("the table");
    assert!(refused(&fixture, &order).contains("no such brick table"));
    let bytes = order.to_bytes();
    for end in 0..bytes.len() {
        assert!(ScanOrder::from_bytes(&bytes[..end]).is_err(), "{end} of {} bytes", bytes.len());
    }
    assert!(ScanOrder::from_bytes(&[bytes.as_slice(), &[0]].concat()).is_err());
}

#[test]
fn nobody_purges_what_an_order_still_reads_and_what_was_purged_is_refused() {
    let mut fixture = Fixture::new();
    let transaction = fixture.begin();
    let order = fixture.scan(&transaction).order().expect("the transaction has written nothing");
    let kept = fixture.ordered(&order);
    drop(transaction);
    fixture.session.execute("DELETE FROM facts").expect("all bricks");
    fixture.store().checkpoint().expect("a checkpoint");
    assert_eq!(read([kept.clone()]).0.len(), 320_000);
    drop(kept);
    while BrickScan::ordered(fixture.store(), &order, 1).is_ok() {
        fixture.store().checkpoint().expect("a checkpoint");
        std::thread::yield_now();
    }
}
