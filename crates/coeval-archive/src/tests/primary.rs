// SPDX-License-Identifier: Apache-2.0
//! A small database on a disk in memory, and what it had at each version.

use crate::archive::Archive;
use crate::patience::Patience;
use crate::restore::{RestoreReport, Target, restore_to};
use crate::tests::faulty::Faulty;
use arrow::array::{Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use coeval_store::files::{FileSystem, SimulatedFiles};
use coeval_store::log::Lsn;
use coeval_store::{
    AccessMode, BrickDef, BrickDimension, CatalogChange, CheckpointPolicy, ColumnDef, ColumnState,
    ColumnType, Direction, Durability, IndexDef, Key, KeyRange, KeyWriter, LogTime, QualifiedName, Row,
    RowWriter, SpaceId, Store, StoreOptions, TableDef, Transaction, Uniqueness, Value,
};
use coeval_txn::{Isolation, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const DIR: &str = "/database";

/// The rows of the table `items (id int PRIMARY KEY, value int)`.
pub(super) type Rows = BTreeMap<i32, i32>;

/// What the log had when a version was committed.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) version: Version,
    /// The end of the log behind the commit.
    pub(super) end: Lsn,
    /// The last time in the log before it.
    pub(super) time: LogTime,
    pub(super) rows: Arc<Rows>,
}

/// See the module.
pub(super) struct Primary {
    files: SimulatedFiles,
    pub(super) store: Option<Store>,
    def: Option<TableDef>,
    rows: Rows,
    pub(super) moments: Vec<Moment>,
    pub(super) dice: StdRng,
    loaded: i32,
}

pub(super) fn options() -> StoreOptions {
    // So that a crash of the machine loses something; a feed syncs what it gives.
    StoreOptions {
        checkpoint: CheckpointPolicy::Manual,
        durability: Durability::None,
        ..StoreOptions::default()
    }
}

fn table(id: SpaceId) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("value", ColumnType::Int)];
    TableDef::new(id, QualifiedName::new("public", "items"), columns, vec![0])
}

fn row(def: &TableDef, id: i32, value: i32) -> Row {
    let mut writer = RowWriter::new(def.layout());
    writer.push(Value::Int32(id).borrow()).unwrap();
    writer.push(Value::Int32(value).borrow()).unwrap();
    writer.finish()
}

pub(super) fn key(id: i32) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(Value::Int32(id).borrow());
    writer.finish()
}

fn batch(ids: &[i32]) -> RecordBatch {
    let fields = ["id", "value"].map(|name| Field::new(name, DataType::Int32, true));
    let column = Arc::new(Int32Array::from(ids.to_vec()));
    RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), vec![column.clone(), column]).unwrap()
}

fn open(files: &SimulatedFiles) -> Store {
    Store::open_with(Arc::new(files.clone()), Path::new(DIR), options()).unwrap()
}

/// The rows of a store; none if the table is not there.
pub(super) fn rows_of(store: &Store) -> Rows {
    rows_in(&store.begin(Isolation::Snapshot, AccessMode::ReadOnly))
}

/// The rows that a transaction sees.
pub(super) fn rows_in(transaction: &Transaction) -> Rows {
    let Some(def) = transaction.resolve_table(&QualifiedName::new("public", "items")) else {
        return Rows::new();
    };
    let number = |value: Option<i64>| i32::try_from(value.unwrap()).unwrap();
    let cursor = transaction.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    cursor
        .map(|found| found.unwrap().1)
        .map(|row| (number(row.get(0).as_i64()), number(row.get(1).as_i64())))
        .collect()
}

impl Primary {
    pub(super) fn new(seed: u64) -> Self {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let mut primary = Self {
            files,
            store: Some(store),
            def: None,
            rows: Rows::new(),
            moments: Vec::new(),
            dice: StdRng::seed_from_u64(seed),
            loaded: 1_000_000,
        };
        let def = table(primary.store().new_space_id());
        let mut transaction = primary.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        let version = transaction.commit().unwrap().version;
        primary.def = Some(def);
        primary.note(version);
        primary
    }

    /// Goes on with a directory that was restored to a moment of another one.
    pub(super) fn restored(files: SimulatedFiles, of: &Primary, moment: &Moment, seed: u64) -> Self {
        let store = open(&files);
        let moments =
            of.moments.iter().filter(|earlier| earlier.version <= moment.version).cloned().collect();
        Self {
            files,
            store: Some(store),
            def: of.def.clone(),
            rows: moment.rows.as_ref().clone(),
            moments,
            dice: StdRng::seed_from_u64(seed),
            loaded: of.loaded + 500_000,
        }
    }

    pub(super) fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn note(&mut self, version: Version) {
        let (end, _) = self.store().log_position().unwrap();
        let time = self.store().log_time();
        self.moments.push(Moment { version, end, time, rows: Arc::new(self.rows.clone()) });
    }

    /// One commit of a few rows.
    pub(super) fn commit(&mut self) {
        let def = self.def.clone().unwrap();
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        for _ in 0..self.dice.random_range(1..6) {
            let (id, value) = (self.dice.random_range(0..200), self.dice.random_range(0..1_000));
            if self.dice.random_ratio(1, 5) {
                transaction.delete(def.id, &key(id)).unwrap();
                self.rows.remove(&id);
            } else {
                transaction.put(def.id, row(&def, id, value)).unwrap();
                self.rows.insert(id, value);
            }
        }
        if transaction.has_writes() {
            let version = transaction.commit().unwrap().version;
            self.note(version);
        }
    }

    /// One commit that nobody waits for, and that is in no moment.
    pub(super) fn commit_unacknowledged(&mut self) -> Version {
        let def = self.def.clone().unwrap();
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.put(def.id, row(&def, 100_000, 1)).unwrap();
        transaction.commit_applied().unwrap().version
    }

    /// Two commits at SERIALIZABLE. The later one has read what the earlier one changes, so it comes before that in their order.
    pub(super) fn commit_antidependency(&mut self) {
        let def = self.def.clone().unwrap();
        let store = self.store().clone();
        let [mut reader, mut writer] =
            [(); 2].map(|()| store.begin(Isolation::Serializable, AccessMode::ReadWrite));
        assert!(reader.get(def.id, &key(1)).is_ok());
        for (transaction, id) in [(&mut writer, 1), (&mut reader, 2)] {
            transaction.put(def.id, row(&def, id, 7_000 + id)).unwrap();
        }
        for (transaction, id) in [(writer, 1), (reader, 2)] {
            let version = transaction.commit().unwrap().version;
            self.rows.insert(id, 7_000 + id);
            self.note(version);
        }
    }

    /// A bulk load: the log names its file.
    pub(super) fn load(&mut self) {
        let (def, ids) = (self.def.clone().unwrap(), self.new_ids());
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.bulk_insert(def.id, &[batch(&ids)]).unwrap();
        let version = transaction.commit().unwrap().version;
        self.rows.extend(ids.into_iter().map(|id| (id, id)));
        self.note(version);
    }

    /// Another table, with rows that no test looks at, and a file of its own.
    pub(super) fn add_table(&mut self, number: u32) {
        let (mut def, ids) = (table(self.store().new_space_id()), self.new_ids());
        def.name = QualifiedName::new("public", format!("other_{number}"));
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        transaction.bulk_insert(def.id, &[batch(&ids)]).unwrap();
        let version = transaction.commit().unwrap().version;
        self.note(version);
    }

    /// A table whose rows are spread over a cluster: none of them is here. Returns its number.
    pub(super) fn add_spread_table(&mut self, name: &str) -> u64 {
        let mut hidden = ColumnDef::new("row id", ColumnType::BigInt);
        hidden.state = ColumnState::Hidden;
        let columns = vec![ColumnDef::new("day", ColumnType::BigInt).not_null(), hidden];
        let id = self.store().new_space_id();
        let mut def = TableDef::new(id, QualifiedName::new("public", name), columns, vec![1]);
        let day = BrickDimension { column: 0, cardinality: 40, range_size: 10, origin: 0 };
        def.bricks = Some(BrickDef { dimensions: vec![day], retention: None, replicas: Some(2) });
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
        let version = transaction.commit().unwrap().version;
        self.note(version);
        u64::from(id.get())
    }

    /// A new index: with as many rows as a load has, the log names its file.
    pub(super) fn make_index(&mut self) {
        let mut def = self.def.clone().unwrap();
        def.indexes.push(IndexDef {
            id: self.store().new_space_id(),
            name: "items_value".to_owned(),
            columns: vec![1],
            uniqueness: Uniqueness::Any,
            declared_order: Vec::new(),
        });
        self.put_table(def);
    }

    pub(super) fn drop_index(&mut self) {
        let mut def = self.def.clone().unwrap();
        def.indexes.clear();
        self.put_table(def);
    }

    fn put_table(&mut self, def: TableDef) {
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        let version = transaction.commit().unwrap().version;
        self.def = Some(def);
        self.note(version);
    }

    /// Whether what the index had when it was made lies in a file.
    pub(super) fn has_index_in_file(&self) -> bool {
        let world = self.store().world();
        let table = world.table_named(&QualifiedName::new("public", "items")).unwrap();
        table.indexes()[0].base().iter().all(|(_, chunk)| chunk.place().is_some())
    }

    fn new_ids(&mut self) -> Vec<i32> {
        self.loaded += 5_000;
        (0..4_200).map(|row| self.loaded + row).collect()
    }

    pub(super) fn empty(&mut self) {
        let id = self.def.clone().unwrap().id;
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::Truncate(id)).unwrap();
        let version = transaction.commit().unwrap().version;
        self.rows.clear();
        self.note(version);
    }

    /// Drops the tables that [`add_table`](Self::add_table) made.
    pub(super) fn drop_tables(&mut self) {
        let ours = self.def.clone().unwrap().id;
        let mut transaction = self.store().begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let others: Vec<SpaceId> =
            transaction.world().tables().map(|table| table.id()).filter(|id| *id != ours).collect();
        for id in others {
            transaction.change_catalog(CatalogChange::RemoveTable(id)).unwrap();
        }
        let version = transaction.commit().unwrap().version;
        self.note(version);
    }

    pub(super) fn dice_says_checkpoint(&mut self) -> bool {
        self.dice.random_ratio(1, 10)
    }

    /// Has all that was committed synced.
    pub(super) fn wait_durable(&self) {
        let mut feed = self.store().base_copy().unwrap().into_feed().unwrap();
        while self.store().log_position().unwrap().1 < self.last().end {
            while feed.next_piece().unwrap().is_some() {}
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A step of a random workload.
    pub(super) fn step(&mut self) {
        match self.dice.random_range(0..100) {
            0..90 => self.commit(),
            90..93 => self.load(),
            93..94 => self.empty(),
            94..97 => drop(self.store().checkpoint().unwrap()),
            _ => std::thread::sleep(Duration::from_millis(12)),
        }
    }

    pub(super) fn has_file(&self, name: &str) -> bool {
        self.files.exists(&Path::new(DIR).join(name)).unwrap()
    }

    pub(super) fn reopen(&mut self) {
        self.store = None;
        self.files = self.files.restart();
        self.store = Some(open(&self.files));
    }

    /// The same, and its commits wait until they are durable from now on, and for replicas if those are asked for.
    pub(super) fn reopen_to_wait(&mut self) {
        self.store = None;
        self.files = self.files.restart();
        let options = StoreOptions { durability: Durability::Fsync, ..options() };
        let store = Store::open_with(Arc::new(self.files.clone()), Path::new(DIR), options);
        self.store = Some(store.unwrap());
    }

    /// What its disk has now.
    pub(super) fn disk(&self) -> SimulatedFiles {
        self.files.copy()
    }

    /// Its machine comes back with a disk that has forgotten what it had synced since then.
    pub(super) fn go_back_to(&mut self, disk: SimulatedFiles) {
        self.files = disk;
        self.crash();
    }

    /// The machine stops: what was not durable may be lost, and is as if it had never been. Nothing is closed before: that would make
    /// all of it durable. How many commits were lost.
    pub(super) fn crash(&mut self) -> usize {
        let files = self.files.crash();
        self.store = None;
        self.files = files;
        self.store = Some(open(&self.files));
        let (world, before) = (self.store().world(), self.moments.len());
        self.moments.retain(|moment| moment.version <= world.version());
        self.rows = self.last().rows.as_ref().clone();
        let items = world.table_named(&QualifiedName::new("public", "items"));
        self.def = items.map(|table| table.def().as_ref().clone());
        before - self.moments.len()
    }

    pub(super) fn last(&self) -> &Moment {
        self.moments.last().unwrap()
    }
}

/// An archive that is asked again at once.
pub(super) fn archive_in(storage: &Arc<Faulty>) -> Archive {
    let patience = Patience {
        attempts: 60,
        pause: Duration::from_micros(100),
        pause_max: Duration::from_millis(1),
        attempt_max: Duration::from_secs(5),
    };
    Archive::with_store(storage.clone(), "a faulty storage").unwrap().with_patience(patience)
}

/// Restores, opens what was restored, and gives it to be looked at.
pub(super) fn restored(
    archive: &Archive,
    target: Target,
    history: Option<u64>,
) -> (RestoreReport, SimulatedFiles) {
    let files = SimulatedFiles::new(0);
    let restored = restore_to(archive, Arc::new(files.clone()), Path::new(DIR), target, history);
    (restored.unwrap_or_else(|error| panic!("{target}: {error}")), files)
}

/// Restores, and checks that the result is what the primary had at that moment.
pub(super) fn check_restore(archive: &Archive, target: Target, history: Option<u64>, moment: &Moment) {
    let (report, files) = restored(archive, target, history);
    assert_eq!(report.version, moment.version, "{target}: {report:?}");
    // What the machine may have lost in a crash is not missed.
    let store = open(&files.crash());
    assert_eq!(store.world().version(), moment.version);
    assert!(rows_of(&store) == *moment.rows, "other rows at version {}", moment.version);
    for table in store.world().tables() {
        let lengths: Vec<u64> = table.indexes().iter().map(|index| index.len()).collect();
        assert!(lengths.iter().all(|length| *length == table.row_count()), "{lengths:?} entries");
    }
}
