// SPDX-License-Identifier: Apache-2.0
//! Definitions that change in the transaction that loads or writes the table.

use crate::access_rights::{Grant, ObjectAccess, Privilege, Privileges, RoleDef};
use crate::catalog::{
    CatalogChange, ColumnDef, IndexDef, QualifiedName, TableDef, TypeDef, Uniqueness, ViewColumn, ViewDef,
};
use crate::default_privileges::{DefaultPrivileges, NewObjects};
use crate::enum_type::{EnumDef, EnumType};
use crate::error::{ConstraintError, StoreError};
use crate::files::{FileSystem, SimulatedFiles};
use crate::ids::SpaceId;
use crate::key::Key;
use crate::log::{ChecksumPolicy, LogOptions};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::range::{Direction, KeyRange};
use crate::row::{Row, RowWriter};
use crate::row_lock_error::RowLockError;
use crate::session_defaults::{DefaultSetting, DefaultsReach, SessionDefaults};
use crate::store::Store;
use crate::transaction::{AccessMode, LockWaits, Transaction};
use crate::types::ColumnType;
use crate::value::{KeyWriter, Value};
use crate::verify::verify;
use arrow::array::{Int64Array, RecordBatch};
use coeval_txn::{Interrupt, Isolation};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Instant;

const DIR: &str = "/db";

/// Two rows have the same x if their ids differ by this.
const PERIOD: i64 = 10_000;

fn open(files: &SimulatedFiles) -> Store {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 100_000, extend_bytes: 128, checksums: ChecksumPolicy::Verified };
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, ..Sizes::default() };
    Store::open_tuned(Arc::new(files.clone()), Path::new(DIR), options, log, sizes).unwrap()
}

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

/// `t (id bigint primary key, x bigint)`, with so many indexes on x.
fn table(store: &Store, indexes: usize) -> TableDef {
    let columns = vec![ColumnDef::new("id", ColumnType::BigInt), ColumnDef::new("x", ColumnType::BigInt)];
    let mut def = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0]);
    for number in 0..indexes {
        add_index(store, &mut def, &format!("i{number}"), Uniqueness::Any);
    }
    def
}

fn add_index(store: &Store, def: &mut TableDef, name: &str, uniqueness: Uniqueness) -> SpaceId {
    let id = store.new_space_id();
    def.indexes.push(IndexDef {
        id,
        name: name.into(),
        columns: vec![1],
        uniqueness,
        declared_order: Vec::new(),
    });
    id
}

fn put(tx: &mut Transaction, def: &TableDef) -> Result<(), StoreError> {
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))
}

/// Scatters ids, so that entries of an index are in another order than rows.
fn x(id: i64) -> i64 {
    (id % PERIOD) * 7_919 % 10_007
}

fn load(tx: &mut Transaction, def: &TableDef, ids: std::ops::Range<i64>) {
    let columns = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())) as _,
        Arc::new(Int64Array::from_iter_values(ids.map(x))) as _,
    ];
    let schema = arrow::datatypes::Schema::new(vec![
        arrow::datatypes::Field::new("id", arrow::datatypes::DataType::Int64, true),
        arrow::datatypes::Field::new("x", arrow::datatypes::DataType::Int64, true),
    ]);
    let batch = RecordBatch::try_new(Arc::new(schema), columns).unwrap();
    let loads = tx.loads.len();
    tx.bulk_insert(def.id, &[batch]).unwrap();
    assert_eq!(tx.loads.len(), loads + 1, "the rows went in as chunks");
}

fn row(def: &TableDef, id: i64, x: i64) -> Row {
    let mut writer = RowWriter::new(def.layout());
    for value in [id, x] {
        writer.push(Value::Int64(value).borrow()).unwrap();
    }
    writer.finish()
}

fn key(id: i64) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(Value::Int64(id).borrow());
    writer.finish()
}

/// Rows by id, and what the indexes lead to, the latter checked to be the former in their order.
fn rows(store: &Store, table: SpaceId) -> Vec<(i64, i64)> {
    let tx = begin(store);
    let value = |key: &Key| {
        let row = tx.get(table, key).unwrap().expect("an entry leads to a row");
        (row.get(0).as_i64().unwrap(), row.get(1).as_i64().unwrap())
    };
    let scan = tx.scan(table, &KeyRange::all(), Direction::Forward).unwrap();
    let rows: Vec<_> = scan.map(|row| value(&row.unwrap().0)).collect();
    let mut sorted = rows.clone();
    sorted.sort_by_key(|&(id, x)| (x, id));
    let at = tx.table(table).unwrap();
    assert_eq!(at.row_count(), rows.len() as u64);
    for (index, space) in at.def().indexes.iter().zip(at.indexes()) {
        let entries = tx.scan_index(table, index.id, &KeyRange::all(), Direction::Forward).unwrap();
        let found: Vec<_> = entries.map(|entry| value(&entry.unwrap().primary_key)).collect();
        assert!(found == sorted, "index {} has {} of {} rows", index.name, found.len(), rows.len());
        assert_eq!(space.len(), rows.len() as u64);
    }
    rows
}

/// The rows, which must be the same after a reopening from the log, a checkpoint and another reopening, with
/// nothing that a check of the files complains about.
fn rows_for_good(store: Store, files: &SimulatedFiles, table: SpaceId) -> Vec<(i64, i64)> {
    let before = rows(&store, table);
    drop(store);
    for _ in 0..2 {
        let files = files.restart();
        let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
        assert!(report.problems.is_empty(), "{:?}", report.problems);
    }
    let files = files.restart();
    let store = open(&files);
    assert_eq!(rows(&store, table), before);
    store.checkpoint().unwrap();
    assert_eq!(rows(&store, table), before);
    drop(store);
    let files = files.restart();
    let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!(rows(&open(&files), table), before);
    before
}

fn expected(ids: std::ops::Range<i64>) -> Vec<(i64, i64)> {
    ids.map(|id| (id, x(id))).collect()
}

#[test]
fn an_index_made_behind_a_load_in_one_transaction_has_every_row() {
    for uniqueness in [Uniqueness::Any, Uniqueness::Unique] {
        let files = SimulatedFiles::new(1);
        let store = open(&files);
        let mut def = table(&store, 0);
        let mut tx = begin(&store);
        put(&mut tx, &def).unwrap();
        load(&mut tx, &def, 0..500);
        add_index(&store, &mut def, "late", uniqueness);
        put(&mut tx, &def).unwrap();
        tx.commit().unwrap();
        assert_eq!(rows_for_good(store, &files, def.id), expected(0..500));
    }
}

#[test]
fn an_index_made_behind_two_loads_into_a_table_with_rows_has_every_row_and_those_of_others() {
    let files = SimulatedFiles::new(2);
    let store = open(&files);
    let mut def = table(&store, 0);
    let mut tx = begin(&store);
    put(&mut tx, &def).unwrap();
    load(&mut tx, &def, 0..100);
    tx.commit().unwrap();
    let mut tx = begin(&store);
    load(&mut tx, &def, 200..300);
    load(&mut tx, &def, 100..200);
    // One that the load brought goes again, and one changes.
    assert!(tx.delete(def.id, &key(250)).unwrap());
    tx.update(def.id, &key(251), row(&def, 251, -1)).unwrap();
    let mut other = begin(&store);
    other.insert(def.id, row(&def, 1_000, -5)).unwrap();
    other.commit().unwrap();
    add_index(&store, &mut def, "late", Uniqueness::Any);
    put(&mut tx, &def).unwrap();
    tx.delete(def.id, &key(150)).unwrap();
    tx.commit().unwrap();
    let mut all = expected(0..300);
    all[251].1 = -1;
    all.retain(|(id, _)| *id != 250 && *id != 150);
    all.push((1_000, -5));
    assert_eq!(rows_for_good(store, &files, def.id), all);
}

#[test]
fn a_unique_index_behind_a_load_with_two_owners_of_a_key_is_refused_and_changes_nothing() {
    let files = SimulatedFiles::new(3);
    let store = open(&files);
    let plain = table(&store, 1);
    let mut tx = begin(&store);
    put(&mut tx, &plain).unwrap();
    load(&mut tx, &plain, PERIOD - 50..PERIOD + 50);
    tx.insert(plain.id, row(&plain, 1, 5)).unwrap();
    tx.insert(plain.id, row(&plain, PERIOD + 70, x(PERIOD + 10))).unwrap();
    let mut unique = plain.clone();
    add_index(&store, &mut unique, "late", Uniqueness::Unique);
    let refused = put(&mut tx, &unique);
    assert!(
        matches!(&refused, Err(StoreError::Constraint(ConstraintError::Unique { constraint, .. })) if constraint == "late"),
        "{refused:?}"
    );
    // What is refused is no obstacle to what follows; without the second owner the index can be made.
    tx.delete(plain.id, &key(PERIOD + 10)).unwrap();
    put(&mut tx, &unique).unwrap();
    tx.delete(plain.id, &key(1)).unwrap();
    tx.commit().unwrap();
    let mut all = expected(PERIOD - 50..PERIOD + 50);
    all.retain(|(id, _)| *id != PERIOD + 10);
    all.push((PERIOD + 70, x(PERIOD + 10)));
    assert_eq!(rows_for_good(store, &files, plain.id), all);
}

#[test]
fn two_owners_within_one_load_are_found_by_a_unique_index_made_behind_it() {
    let files = SimulatedFiles::new(4);
    let store = open(&files);
    let plain = table(&store, 0);
    let mut tx = begin(&store);
    put(&mut tx, &plain).unwrap();
    load(&mut tx, &plain, 0..PERIOD + 1);
    let mut unique = plain.clone();
    add_index(&store, &mut unique, "late", Uniqueness::Unique);
    let refused = put(&mut tx, &unique);
    assert!(matches!(&refused, Err(StoreError::Constraint(ConstraintError::Unique { .. }))), "{refused:?}");
    tx.commit().unwrap();
    assert_eq!(rows_for_good(store, &files, plain.id), expected(0..PERIOD + 1));
}

#[test]
fn an_index_dropped_behind_a_load_leaves_the_others_their_entries() {
    for created_before in [false, true] {
        let files = SimulatedFiles::new(5);
        let store = open(&files);
        let mut def = table(&store, 2);
        let mut tx = begin(&store);
        put(&mut tx, &def).unwrap();
        if created_before {
            tx.commit().unwrap();
            tx = begin(&store);
        }
        load(&mut tx, &def, 0..300);
        def.indexes.remove(0);
        put(&mut tx, &def).unwrap();
        tx.commit().unwrap();
        assert_eq!(rows_for_good(store, &files, def.id), expected(0..300));
    }
}

#[test]
fn a_load_behind_the_drop_of_a_filled_index_is_no_conflict_and_the_index_can_come_back() {
    let files = SimulatedFiles::new(6);
    let store = open(&files);
    let mut def = table(&store, 1);
    let mut tx = begin(&store);
    put(&mut tx, &def).unwrap();
    load(&mut tx, &def, 0..100);
    tx.commit().unwrap();
    let mut tx = begin(&store);
    def.indexes.clear();
    put(&mut tx, &def).unwrap();
    load(&mut tx, &def, 100..200);
    add_index(&store, &mut def, "again", Uniqueness::Unique);
    put(&mut tx, &def).unwrap();
    tx.commit().unwrap();
    assert_eq!(rows_for_good(store, &files, def.id), expected(0..200));
}

#[test]
fn loads_that_a_truncate_or_drop_took_away_are_back_after_a_rollback_to_the_savepoint_before_it() {
    for loads in [1, 2] {
        for drops in [false, true] {
            let files = SimulatedFiles::new(7);
            let store = open(&files);
            let mut def = table(&store, 0);
            let mut tx = begin(&store);
            put(&mut tx, &def).unwrap();
            for number in 0..loads {
                load(&mut tx, &def, number * 100..(number + 1) * 100);
            }
            let savepoint = tx.savepoint();
            let change = if drops { CatalogChange::RemoveTable } else { CatalogChange::Truncate };
            tx.change_catalog(change(def.id)).unwrap();
            if !drops {
                load(&mut tx, &def, 500..600);
            }
            tx.rollback_to(&savepoint);
            let savepoint = tx.savepoint();
            add_index(&store, &mut def, "late", Uniqueness::Any);
            put(&mut tx, &def).unwrap();
            tx.rollback_to(&savepoint);
            tx.commit().unwrap();
            assert_eq!(rows_for_good(store, &files, def.id), expected(0..loads * 100));
        }
    }
}

#[test]
fn a_unique_index_behind_a_load_meets_rows_of_others_with_a_conflict() {
    let files = SimulatedFiles::new(8);
    let store = open(&files);
    let mut def = table(&store, 0);
    let mut tx = begin(&store);
    put(&mut tx, &def).unwrap();
    tx.commit().unwrap();
    let mut tx = begin(&store);
    load(&mut tx, &def, 0..100);
    add_index(&store, &mut def, "late", Uniqueness::Unique);
    put(&mut tx, &def).unwrap();
    let mut other = begin(&store);
    other.insert(def.id, row(&def, 1_000, x(5))).unwrap();
    other.commit().unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::Conflict(_))));
    assert_eq!(rows_for_good(store, &files, def.id), [(1_000, x(5))]);
}

/// The table with a grant to a role.
fn granted(def: &TableDef, role: &str) -> TableDef {
    let grant = Grant {
        grantee: Some(role.to_owned()),
        grantor: None,
        privileges: Privileges::of(&[Privilege::Select]),
        grantable: Privileges::NONE,
    };
    let mut def = def.clone();
    def.access.grants.push(grant);
    def
}

/// What the administrator's new tables are granted.
fn defaults(schema: Option<&str>, access: &ObjectAccess) -> DefaultPrivileges {
    let schema = schema.map(str::to_owned);
    DefaultPrivileges { objects: NewObjects::Tables, schema, access: access.clone() }
}

/// What sessions of a role begin with.
fn begin_with(role: Option<&str>, reach: DefaultsReach, values: &[&str]) -> SessionDefaults {
    let setting = |value: &&str| DefaultSetting { name: "work_mem".to_owned(), value: (*value).to_owned() };
    SessionDefaults { role: role.map(str::to_owned), reach, settings: values.iter().map(setting).collect() }
}

#[test]
fn roles_owners_and_grants_are_there_after_a_crash_and_after_a_checkpoint() {
    let files = SimulatedFiles::new(31);
    let store = open(&files);
    let def = granted(&table(&store, 1), "clerk");
    let schema_access = ObjectAccess::owned_by(Some("clerk"));
    let mut tx = begin(&store);
    for name in ["clerk", "gone"] {
        tx.change_catalog(CatalogChange::PutRole(RoleDef::new(name))).unwrap();
    }
    tx.change_catalog(CatalogChange::RemoveRole("gone".to_owned())).unwrap();
    tx.change_catalog(CatalogChange::PutSchemaAccess("public".to_owned(), schema_access.clone())).unwrap();
    let server = CatalogChange::PutServerAccess("warehouse".to_owned(), schema_access.clone());
    tx.change_catalog(server).unwrap();
    tx.change_catalog(CatalogChange::PutSchema("sales".to_owned())).unwrap();
    for schema in [None, Some("public"), Some("sales")] {
        tx.change_catalog(CatalogChange::PutDefaultPrivileges(defaults(schema, &def.access))).unwrap();
    }
    // What was granted in a schema goes with it, and what nobody is granted is not kept.
    tx.change_catalog(CatalogChange::RemoveSchema("sales".to_owned())).unwrap();
    let none = CatalogChange::PutDefaultPrivileges(defaults(Some("public"), &ObjectAccess::default()));
    tx.change_catalog(none).unwrap();
    // The same of settings.
    let kept = begin_with(Some("clerk"), DefaultsReach::Server, &["64MB"]);
    for defaults in [
        begin_with(None, DefaultsReach::Database, &["32MB"]),
        kept.clone(),
        begin_with(None, DefaultsReach::Database, &[]),
    ] {
        tx.change_catalog(CatalogChange::PutSessionDefaults(defaults)).unwrap();
    }
    put(&mut tx, &def).unwrap();
    tx.commit().unwrap();
    let check = |store: &Store, when: &str| {
        let world = store.world();
        let catalog = world.catalog();
        let names: Vec<&str> = catalog.roles().map(|role| role.name.as_str()).collect();
        assert_eq!(names, ["clerk"], "{when}");
        assert_eq!(
            catalog.schema_access("public").map(|access| (**access).clone()),
            Some(schema_access.clone())
        );
        let of_server = catalog.server_access("warehouse").map(|access| (**access).clone());
        assert_eq!(of_server, Some(schema_access.clone()), "{when}");
        let of_new: Vec<_> = catalog.all_default_privileges().map(|of_new| (**of_new).clone()).collect();
        assert_eq!(of_new, [defaults(None, &def.access)], "{when}");
        let found = catalog.default_privileges(None, None, NewObjects::Tables);
        assert_eq!(found.map(|of_new| &**of_new), of_new.first(), "{when}");
        assert_eq!(catalog.default_privileges(None, None, NewObjects::Sequences), None, "{when}");
        let of_sessions: Vec<_> = catalog.all_session_defaults().map(|of| (**of).clone()).collect();
        assert_eq!(of_sessions, std::slice::from_ref(&kept), "{when}");
        assert_eq!(world.table(def.id).unwrap().def().access, def.access, "{when}");
    };
    let files = files.crash();
    drop(store);
    let store = open(&files);
    check(&store, "from the log");
    store.checkpoint().unwrap();
    // The log before the checkpoint is not looked at any more.
    let files = files.crash();
    drop(store);
    check(&open(&files), "from the manifest");
}

#[test]
fn a_grant_disturbs_no_writer_and_meets_other_definitions() {
    let store = open(&SimulatedFiles::new(32));
    let def = table(&store, 1);
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutRole(RoleDef::new("clerk"))).unwrap();
    put(&mut tx, &def).unwrap();
    tx.commit().unwrap();

    let mut writer = begin(&store);
    writer.insert(def.id, row(&def, 1, 1)).unwrap();
    let mut late_writer = begin(&store);
    late_writer.insert(def.id, row(&def, 2, 2)).unwrap();
    let mut other_ddl = begin(&store);
    let mut wider = def.clone();
    wider.add_column(ColumnDef::new("y", ColumnType::BigInt));
    put(&mut other_ddl, &wider).unwrap();
    let mut drop_role = begin(&store);
    drop_role.change_catalog(CatalogChange::RemoveRole("clerk".to_owned())).unwrap();
    let mut grant = begin(&store);
    put(&mut grant, &granted(&def, "clerk")).unwrap();

    writer.commit().unwrap();
    grant.commit().unwrap();
    late_writer.commit().unwrap();
    assert!(
        matches!(other_ddl.commit(), Err(StoreError::Conflict(_))),
        "its definition would undo the grant"
    );
    assert!(matches!(drop_role.commit(), Err(StoreError::Conflict(_))), "a grant names the role");
    let table = Arc::clone(store.world().table(def.id).unwrap());
    assert_eq!((table.row_count(), table.def().access.grants.len()), (2, 1));
}

/// What new objects are granted names roles and schemas, and two transactions that change it for one role meet.
#[test]
fn default_privileges_meet_what_they_rely_on() {
    let store = open(&SimulatedFiles::new(34));
    let def = granted(&table(&store, 1), "clerk");
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutRole(RoleDef::new("clerk"))).unwrap();
    tx.change_catalog(CatalogChange::PutSchema("sales".to_owned())).unwrap();
    tx.commit().unwrap();

    let change = |schema, access: &ObjectAccess| {
        let mut tx = begin(&store);
        tx.change_catalog(CatalogChange::PutDefaultPrivileges(defaults(schema, access))).unwrap();
        tx
    };
    let (everywhere, inside) = (change(None, &def.access), change(Some("sales"), &def.access));
    let nothing = change(None, &ObjectAccess::default());
    let (mut drop_role, mut drop_schema) = (begin(&store), begin(&store));
    drop_role.change_catalog(CatalogChange::RemoveRole("clerk".to_owned())).unwrap();
    drop_schema.change_catalog(CatalogChange::RemoveSchema("sales".to_owned())).unwrap();
    drop_schema.commit().unwrap();
    assert!(matches!(inside.commit(), Err(StoreError::Conflict(_))), "its schema is not there any more");
    everywhere.commit().unwrap();
    assert!(matches!(nothing.commit(), Err(StoreError::Conflict(_))), "another has changed the same");
    assert!(matches!(drop_role.commit(), Err(StoreError::Conflict(_))), "new tables are granted to it");
}

/// What a role's sessions begin with names it, and two transactions that change it for one role meet.
#[test]
fn settings_that_sessions_begin_with_meet_what_they_rely_on() {
    let store = open(&SimulatedFiles::new(36));
    let mut tx = begin(&store);
    for name in ["clerk", "boss"] {
        tx.change_catalog(CatalogChange::PutRole(RoleDef::new(name))).unwrap();
    }
    tx.commit().unwrap();

    let change = |role, values: &[&str]| {
        let mut tx = begin(&store);
        let defaults = begin_with(role, DefaultsReach::Server, values);
        tx.change_catalog(CatalogChange::PutSessionDefaults(defaults)).unwrap();
        tx
    };
    let (first, second) = (change(Some("clerk"), &["64MB"]), change(Some("clerk"), &["32MB"]));
    let (of_boss, of_all) = (change(Some("boss"), &["64MB"]), change(None, &["64MB"]));
    let mut drop_role = begin(&store);
    drop_role.change_catalog(CatalogChange::RemoveRole("clerk".to_owned())).unwrap();
    first.commit().unwrap();
    of_boss.commit().unwrap();
    of_all.commit().unwrap();
    assert!(matches!(second.commit(), Err(StoreError::Conflict(_))), "another has changed the same");
    assert!(matches!(drop_role.commit(), Err(StoreError::Conflict(_))), "its sessions begin with settings");
}

/// An index over a table into which others have loaded rows meanwhile was built anew while everybody waited.
#[test]
fn an_index_of_a_table_that_others_load_into_is_built_once_more_but_not_under_the_leaders_lock() {
    // Whoever has the lock may get no core for a moment on a machine that others use, but not each time.
    let mut held_of = Vec::new();
    for _ in 0..5 {
        let store = open(&SimulatedFiles::new(1));
        let def = table(&store, 0);
        let mut tx = begin(&store);
        put(&mut tx, &def).unwrap();
        load(&mut tx, &def, 0..200_000);
        tx.commit().unwrap();
        let mut indexed = def.clone();
        add_index(&store, &mut indexed, "by_x", Uniqueness::Any);
        let mut maker = begin(&store);
        put(&mut maker, &indexed).unwrap();
        let mut loader = begin(&store);
        load(&mut loader, &def, 300_000..400_000);
        loader.commit().unwrap();
        let mut writer = begin(&store);
        writer.insert(def.id, row(&def, 500_000, x(500_000))).unwrap();
        writer.commit().unwrap();
        let begun = Instant::now();
        maker.commit().unwrap();
        let (took, held) = (begun.elapsed(), store.leader_stays().longest);
        assert_eq!(store.world().table(def.id).unwrap().indexes()[0].len(), 300_001);
        if held * 3 < took {
            return;
        }
        held_of.push((held, took));
    }
    panic!("the lock was held for so long of so long: {held_of:?}");
}

/// A checkpoint makes other parts of the same rows, so a look at the parts does not tell that they are the same.
#[test]
fn an_index_over_own_loaded_rows_and_a_checkpoint_behind_it_make_nobody_wait_either() {
    let files: Arc<dyn FileSystem> = Arc::new(SimulatedFiles::new(2));
    let sizes = Sizes { chunk_rows: 16, direct_load_rows_min: 8, leader_rows_max: 8, ..Sizes::default() };
    let store =
        Store::open_tuned(files, Path::new(DIR), StoreOptions::default(), LogOptions::default(), sizes)
            .unwrap();
    let def = table(&store, 0);
    let mut tx = begin(&store);
    put(&mut tx, &def).unwrap();
    load(&mut tx, &def, 0..500);
    tx.commit().unwrap();
    let mut writer = begin(&store);
    writer.insert(def.id, row(&def, 1_000, x(1_000))).unwrap();
    writer.commit().unwrap();
    let mut maker = begin(&store);
    load(&mut maker, &def, 2_000..2_500);
    let mut indexed = def.clone();
    add_index(&store, &mut indexed, "by_x", Uniqueness::Any);
    put(&mut maker, &indexed).unwrap();
    store.checkpoint().unwrap();
    maker.commit().unwrap();
    assert_eq!(store.world().table(def.id).unwrap().indexes()[0].len(), 1_001);
}

/// Asks after so many looks.
struct AskedAfter(AtomicUsize);

impl Interrupt for AskedAfter {
    fn is_set(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    fn notify(&self, _: Waker) {}
}

#[test]
fn an_index_and_a_load_end_when_they_are_asked_to_and_leave_nothing() {
    let store = open(&SimulatedFiles::new(3));
    let def = table(&store, 0);
    let mut tx = begin(&store);
    put(&mut tx, &def).unwrap();
    load(&mut tx, &def, 0..2_000);
    tx.commit().unwrap();
    let mut indexed = def.clone();
    add_index(&store, &mut indexed, "by_x", Uniqueness::Unique);
    let ids = Int64Array::from_iter_values((3_000..5_000).rev());
    let columns = vec![("id", Arc::new(ids.clone()) as _), ("x", Arc::new(ids) as _)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    // Half of the looks are at the rows, the others at the keys, which are to be unique.
    for looks in [0, 1, 100, 1_999, 2_500, 3_500] {
        let mut tx = begin(&store);
        let interrupt = || Some(Arc::new(AskedAfter(AtomicUsize::new(looks))) as _);
        tx.set_lock_waits(LockWaits { interrupt: interrupt(), ..LockWaits::default() });
        let built = put(&mut tx, &indexed);
        assert!(matches!(built, Err(StoreError::RowLock(RowLockError::Interrupted))), "{looks}: {built:?}");
        if looks < 100 {
            tx.set_lock_waits(LockWaits { interrupt: interrupt(), ..LockWaits::default() });
            let loaded = tx.bulk_insert(def.id, std::slice::from_ref(&batch));
            assert!(
                matches!(loaded, Err(StoreError::RowLock(RowLockError::Interrupted))),
                "{looks}: {loaded:?}"
            );
        }
        tx.set_lock_waits(LockWaits::default());
        tx.commit().unwrap();
        let table = Arc::clone(store.world().table(def.id).unwrap());
        assert_eq!((table.row_count(), table.indexes().len()), (2_000, 0), "{looks}");
    }
}

#[test]
fn a_view_with_a_column_of_a_type_that_another_transaction_changes_is_a_conflict() {
    let store = Store::in_memory(StoreOptions::default());
    let (id, array_id) = (store.new_space_id(), store.new_space_id());
    let named = |name: &str| {
        let def = EnumDef::new(id, array_id, QualifiedName::new("public", name), ["a".to_owned()]);
        TypeDef { ty: EnumType::of(def), domain: None, access: ObjectAccess::default() }
    };
    let mut tx = begin(&store);
    tx.change_catalog(CatalogChange::PutType(named("old"))).unwrap();
    tx.commit().unwrap();
    let mut tx = begin(&store);
    let mut other = begin(&store);
    other.change_catalog(CatalogChange::PutType(named("new"))).unwrap();
    other.commit().unwrap();
    let view = ViewDef {
        name: QualifiedName::new("public", "v"),
        columns: Vec::new(),
        query: "SELECT 'a'::old AS a".into(),
        access: ObjectAccess::default(),
        comment: None,
        output: Some(vec![ViewColumn {
            name: "a".into(),
            ty: ColumnType::Enum(named("old").ty),
            default: None,
        }]),
        check: None,
    };
    tx.change_catalog(CatalogChange::PutView(view)).unwrap();
    assert!(matches!(tx.commit(), Err(StoreError::Conflict(_))));
}
