// SPDX-License-Identifier: Apache-2.0
//! Transactions on an in-memory store: what they see, what conflicts, what constraints refuse.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

use coeval_store::{
    AccessMode, CatalogChange, ColumnDef, ColumnType, ConstraintError, Direction, ForeignKeyDef, IndexDef,
    Key, KeyRange, KeyWriter, QualifiedName, ReferentialAction, Row, RowWriter, SpaceId, Store, StoreError,
    StoreOptions, TableDef, Transaction, Uniqueness, Value,
};
use coeval_txn::Isolation;

fn begin(store: &Store) -> Transaction {
    store.begin(Isolation::Snapshot, AccessMode::ReadWrite)
}

fn int(value: i32) -> Value {
    Value::Int32(value)
}

fn row(def: &TableDef, values: &[Value]) -> Row {
    let mut writer = RowWriter::new(def.layout());
    for value in values {
        writer.push(value.borrow()).unwrap();
    }
    writer.finish()
}

fn key(value: i32) -> Key {
    let mut writer = KeyWriter::new();
    writer.push(int(value).borrow());
    writer.finish()
}

/// `accounts (id int primary key, owner text, balance int)`, with an index on owner and a unique one on
/// balance where asked.
fn accounts(store: &Store, unique_balance: Uniqueness) -> TableDef {
    let columns = vec![
        ColumnDef::new("id", ColumnType::Int),
        ColumnDef::new("owner", ColumnType::Text),
        ColumnDef::new("balance", ColumnType::Int),
    ];
    let mut def =
        TableDef::new(store.new_space_id(), QualifiedName::new("public", "accounts"), columns, vec![0]);
    let index = |name: &str, column, uniqueness| IndexDef {
        id: store.new_space_id(),
        name: name.into(),
        columns: vec![column],
        uniqueness,
        declared_order: Vec::new(),
    };
    def.indexes.push(index("accounts_owner", 1, Uniqueness::Any));
    def.indexes.push(index("accounts_balance", 2, unique_balance));
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    def
}

fn insert(
    tx: &mut Transaction,
    def: &TableDef,
    id: i32,
    owner: &str,
    balance: i32,
) -> Result<Key, StoreError> {
    tx.insert(def.id, row(def, &[int(id), owner.into(), int(balance)]))
}

fn balances(tx: &Transaction, table: SpaceId) -> Vec<(i64, i64)> {
    tx.scan(table, &KeyRange::all(), Direction::Forward)
        .unwrap()
        .map(|row| row.unwrap().1)
        .map(|row| (row.get(0).as_i64().unwrap(), row.get(2).as_i64().unwrap()))
        .collect()
}

#[test]
fn a_transaction_reads_its_own_writes_and_nobody_elses() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut a = begin(&store);
    let b = begin(&store);
    insert(&mut a, &def, 1, "ann", 10).unwrap();
    insert(&mut a, &def, 2, "bob", 20).unwrap();
    a.update(def.id, &key(1), row(&def, &[int(1), "ann".into(), int(11)])).unwrap();
    assert_eq!(balances(&a, def.id), [(1, 11), (2, 20)]);
    assert_eq!(a.view(def.id).unwrap().row_count(), 2);
    assert_eq!(balances(&b, def.id), []);
    a.commit().unwrap();
    assert_eq!(balances(&b, def.id), []);
    assert_eq!(balances(&begin(&store), def.id), [(1, 11), (2, 20)]);
}

#[test]
fn the_first_committer_wins_and_the_second_changes_nothing() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    insert(&mut tx, &def, 1, "ann", 10).unwrap();
    tx.commit().unwrap();
    let (mut a, mut b) = (begin(&store), begin(&store));
    a.update(def.id, &key(1), row(&def, &[int(1), "ann".into(), int(11)])).unwrap();
    b.update(def.id, &key(1), row(&def, &[int(1), "ann".into(), int(12)])).unwrap();
    a.commit().unwrap();
    assert!(matches!(b.commit(), Err(StoreError::Conflict(_))));
    assert_eq!(balances(&begin(&store), def.id), [(1, 11)]);
}

#[test]
fn two_owners_of_a_unique_key_are_refused_in_one_snapshot_and_across_two() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Unique);
    let mut tx = begin(&store);
    insert(&mut tx, &def, 1, "ann", 10).unwrap();
    let error = insert(&mut tx, &def, 2, "bob", 10).unwrap_err();
    assert!(
        matches!(&error, StoreError::Constraint(ConstraintError::Unique { key, .. }) if key == "(balance)=(10)")
    );
    tx.commit().unwrap();
    let (mut a, mut b) = (begin(&store), begin(&store));
    insert(&mut a, &def, 3, "cas", 30).unwrap();
    insert(&mut b, &def, 4, "dan", 30).unwrap();
    a.commit().unwrap();
    assert!(matches!(b.commit(), Err(StoreError::Conflict(_))));
}

#[test]
fn index_entries_follow_their_rows_through_updates_deletes_and_savepoints() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Unique);
    let owners = |tx: &Transaction| -> Vec<Key> {
        let entries = tx.scan_index(def.id, def.indexes[0].id, &KeyRange::all(), Direction::Forward).unwrap();
        entries.map(|entry| entry.unwrap().primary_key).collect()
    };
    let mut tx = begin(&store);
    insert(&mut tx, &def, 1, "zoe", 10).unwrap();
    insert(&mut tx, &def, 2, "bob", 20).unwrap();
    tx.commit().unwrap();
    let mut tx = begin(&store);
    assert_eq!(owners(&tx), [key(2), key(1)]);
    let savepoint = tx.savepoint();
    tx.update(def.id, &key(1), row(&def, &[int(1), "ann".into(), int(10)])).unwrap();
    assert!(tx.delete(def.id, &key(2)).unwrap());
    assert_eq!(owners(&tx), [key(1)]);
    tx.rollback_to(&savepoint);
    assert_eq!(owners(&tx), [key(2), key(1)]);
    assert!(tx.delete(def.id, &key(2)).unwrap());
    insert(&mut tx, &def, 2, "aaa", 20).unwrap();
    tx.commit().unwrap();
    let tx = begin(&store);
    assert_eq!(owners(&tx), [key(2), key(1)]);
    assert_eq!(tx.table(def.id).unwrap().indexes()[0].len(), 2);
}

fn family(store: &Store, on_delete: ReferentialAction) -> (TableDef, TableDef) {
    let parent = TableDef::new(
        store.new_space_id(),
        QualifiedName::new("public", "parents"),
        vec![ColumnDef::new("id", ColumnType::Int)],
        vec![0],
    );
    let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("parent", ColumnType::Int)];
    let mut child =
        TableDef::new(store.new_space_id(), QualifiedName::new("public", "children"), columns, vec![0]);
    child.foreign_keys.push(ForeignKeyDef {
        name: "children_parent_fkey".into(),
        columns: vec![1],
        parent: parent.id,
        parent_columns: vec![0],
        on_delete,
        on_update: ReferentialAction::NoAction,
        deferral: coeval_store::Deferral::Never,
        validity: coeval_store::Validity::Valid,
    });
    let mut tx = begin(store);
    tx.change_catalog(CatalogChange::PutTable(Box::new(parent.clone()))).unwrap();
    tx.change_catalog(CatalogChange::PutTable(Box::new(child.clone()))).unwrap();
    tx.insert(parent.id, row(&parent, &[int(1)])).unwrap();
    tx.commit().unwrap();
    (parent, child)
}

#[test]
fn a_child_needs_its_parent_by_the_end_of_the_statement() {
    let store = Store::in_memory(StoreOptions::default());
    let (parent, child) = family(&store, ReferentialAction::NoAction);
    let mut tx = begin(&store);
    tx.insert(child.id, row(&child, &[int(1), int(2)])).unwrap();
    assert!(matches!(
        tx.end_statement(),
        Err(StoreError::Constraint(ConstraintError::ForeignKeyMissing { .. }))
    ));
    let mut tx = begin(&store);
    tx.insert(child.id, row(&child, &[int(1), int(2)])).unwrap();
    tx.insert(parent.id, row(&parent, &[int(2)])).unwrap();
    tx.end_statement().unwrap();
    tx.delete(parent.id, &key(2)).unwrap();
    assert!(matches!(
        tx.end_statement(),
        Err(StoreError::Constraint(ConstraintError::ForeignKeyReferenced { .. }))
    ));
}

#[test]
fn deleting_a_parent_cascades_sets_null_or_is_refused() {
    for action in [ReferentialAction::Cascade, ReferentialAction::SetNull, ReferentialAction::Restrict] {
        let store = Store::in_memory(StoreOptions::default());
        let (parent, child) = family(&store, action);
        let mut tx = begin(&store);
        tx.insert(child.id, row(&child, &[int(7), int(1)])).unwrap();
        tx.end_statement().unwrap();
        let deleted = tx.delete(parent.id, &key(1)).and_then(|found| tx.end_statement().map(|()| found));
        let left = tx.get(child.id, &key(7)).unwrap().map(|row| row.get(1).as_i64());
        match action {
            ReferentialAction::Cascade => assert_eq!((deleted.unwrap(), left), (true, None)),
            ReferentialAction::SetNull => assert_eq!((deleted.unwrap(), left), (true, Some(None))),
            _ => assert!(deleted.is_err() && left == Some(Some(1))),
        }
    }
}

#[test]
fn of_a_parent_that_goes_and_a_child_that_comes_only_one_commits() {
    for child_first in [true, false] {
        let store = Store::in_memory(StoreOptions::default());
        let (parent, child) = family(&store, ReferentialAction::NoAction);
        let (mut a, mut b) = (begin(&store), begin(&store));
        a.insert(child.id, row(&child, &[int(1), int(1)])).unwrap();
        b.delete(parent.id, &key(1)).unwrap();
        let (first, second) = if child_first { (a, b) } else { (b, a) };
        first.commit().unwrap();
        assert!(matches!(second.commit(), Err(StoreError::Conflict(_))));
    }
}

#[test]
fn updating_other_columns_of_a_parent_is_no_conflict_for_its_children() {
    let store = Store::in_memory(StoreOptions::default());
    let (parent, child) = family(&store, ReferentialAction::NoAction);
    let (mut a, mut b) = (begin(&store), begin(&store));
    a.insert(child.id, row(&child, &[int(1), int(1)])).unwrap();
    b.update(parent.id, &key(1), row(&parent, &[int(1)])).unwrap();
    a.commit().unwrap();
    b.commit().unwrap();
}

#[test]
fn ddl_beside_dml_fails_writers_of_that_table_and_no_other() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let (parent, _) = family(&store, ReferentialAction::NoAction);
    let (mut same, mut other) = (begin(&store), begin(&store));
    insert(&mut same, &def, 1, "ann", 1).unwrap();
    other.insert(parent.id, row(&parent, &[int(9)])).unwrap();
    let mut ddl = begin(&store);
    let mut wider = def.clone();
    wider.add_column(ColumnDef::new("note", ColumnType::Text));
    ddl.change_catalog(CatalogChange::PutTable(Box::new(wider))).unwrap();
    ddl.commit().unwrap();
    assert!(matches!(same.commit(), Err(StoreError::Conflict(_))));
    other.commit().unwrap();
}

#[test]
fn an_index_takes_in_what_was_committed_while_it_was_built() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut ddl = begin(&store);
    let mut indexed = def.clone();
    let id = store.new_space_id();
    indexed.indexes.push(IndexDef {
        id,
        name: "late".into(),
        columns: vec![2],
        uniqueness: Uniqueness::Unique,
        declared_order: Vec::new(),
    });
    ddl.change_catalog(CatalogChange::PutTable(Box::new(indexed.clone()))).unwrap();
    let mut writer = begin(&store);
    insert(&mut writer, &def, 1, "ann", 1).unwrap();
    writer.commit().unwrap();
    ddl.commit().unwrap();
    let mut tx = begin(&store);
    assert_eq!(tx.scan_index(def.id, id, &KeyRange::all(), Direction::Forward).unwrap().count(), 1);
    assert!(tx.insert(def.id, row(&indexed, &[int(2), "bob".into(), int(1)])).is_err());
}

/// The definition with an index on the balance.
fn with_late_index(store: &Store, def: &TableDef, uniqueness: Uniqueness) -> (TableDef, SpaceId) {
    let id = store.new_space_id();
    let mut indexed = def.clone();
    indexed.indexes.push(IndexDef {
        id,
        name: "late".into(),
        columns: vec![2],
        uniqueness,
        declared_order: Vec::new(),
    });
    (indexed, id)
}

#[test]
fn an_index_follows_inserts_updates_deletes_and_moves_since_its_snapshot_without_being_built_again() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    for id in 0..100 {
        insert(&mut tx, &def, id, "ann", 10 * id).unwrap();
    }
    tx.commit().unwrap();
    let mut ddl = begin(&store);
    let (indexed, id) = with_late_index(&store, &def, Uniqueness::Unique);
    ddl.change_catalog(CatalogChange::PutTable(Box::new(indexed))).unwrap();
    let write = |change: &dyn Fn(&mut Transaction)| {
        let mut tx = begin(&store);
        change(&mut tx);
        tx.commit().unwrap();
    };
    write(&|tx| drop(insert(tx, &def, 200, "new", 5).unwrap()));
    write(&|tx| tx.update(def.id, &key(1), row(&def, &[int(1), "ann".into(), int(7)])).unwrap());
    write(&|tx| tx.update(def.id, &key(2), row(&def, &[int(2), "same balance".into(), int(20)])).unwrap());
    write(&|tx| assert!(tx.delete(def.id, &key(3)).unwrap()));
    write(&|tx| tx.update(def.id, &key(4), row(&def, &[int(400), "moved".into(), int(40)])).unwrap());
    write(&|tx| {
        // Comes and goes: the index never hears of it.
        insert(tx, &def, 300, "short", 1).unwrap();
        tx.delete(def.id, &key(300)).unwrap();
    });
    // What a row gives up another may take.
    write(&|tx| tx.update(def.id, &key(5), row(&def, &[int(5), "ann".into(), int(10)])).unwrap());
    ddl.commit().unwrap();

    let tx = begin(&store);
    let entries = tx.scan_index(def.id, id, &KeyRange::all(), Direction::Forward).unwrap();
    let owners: Vec<Key> = entries.map(|entry| entry.unwrap().primary_key).collect();
    let mut rows = balances(&tx, def.id);
    rows.sort_by_key(|(_, balance)| *balance);
    let expected: Vec<Key> = rows.iter().map(|(id, _)| key(i32::try_from(*id).unwrap())).collect();
    assert_eq!(owners, expected);
    let world = store.world();
    let (_, space) = world.table(def.id).unwrap().index(id).unwrap();
    assert_eq!((space.base_rows(), space.delta().len()), (100, 8), "caught up, not built again");
}

#[test]
fn a_unique_index_is_refused_if_a_row_committed_since_its_snapshot_is_a_second_owner() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    insert(&mut tx, &def, 1, "ann", 10).unwrap();
    insert(&mut tx, &def, 2, "bob", 20).unwrap();
    tx.commit().unwrap();
    let mut ddl = begin(&store);
    let (indexed, id) = with_late_index(&store, &def, Uniqueness::Unique);
    ddl.change_catalog(CatalogChange::PutTable(Box::new(indexed))).unwrap();
    let mut writer = begin(&store);
    writer.update(def.id, &key(2), row(&def, &[int(2), "bob".into(), int(10)])).unwrap();
    writer.commit().unwrap();
    let refused = ddl.commit();
    assert!(
        matches!(
            &refused,
            Err(StoreError::Constraint(ConstraintError::Unique { constraint, .. })) if constraint == "late"
        ),
        "{refused:?}"
    );
    assert!(store.world().table(def.id).unwrap().index(id).is_none());
    let mut tx = begin(&store);
    insert(&mut tx, &def, 3, "cid", 10).unwrap();
    tx.commit().unwrap();
}

/// What a transaction does first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    IndexFirst,
    WritesFirst,
}

/// One transaction makes a unique index and writes, another commits meanwhile; what became of the first.
fn unique_index_beside(
    write: impl Fn(&mut Transaction, &TableDef),
    order: Order,
    other: impl Fn(&mut Transaction, &TableDef),
) -> (Store, TableDef, Result<(), StoreError>) {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    insert(&mut tx, &def, 100, "old", 100).unwrap();
    insert(&mut tx, &def, 101, "old", 101).unwrap();
    tx.commit().unwrap();
    let mut ddl = begin(&store);
    let (indexed, _) = with_late_index(&store, &def, Uniqueness::Unique);
    if order == Order::WritesFirst {
        write(&mut ddl, &def);
    }
    ddl.change_catalog(CatalogChange::PutTable(Box::new(indexed.clone()))).unwrap();
    if order == Order::IndexFirst {
        write(&mut ddl, &indexed);
    }
    let mut second = begin(&store);
    other(&mut second, &def);
    second.commit().unwrap();
    let outcome = ddl.commit().map(drop);
    (store, indexed, outcome)
}

#[test]
fn a_key_of_a_new_unique_index_has_one_owner_though_its_maker_and_another_both_inserted_it() {
    for order in [Order::IndexFirst, Order::WritesFirst] {
        let (store, def, outcome) = unique_index_beside(
            |tx, def| drop(insert(tx, def, 1, "ann", 5).unwrap()),
            order,
            |tx, def| drop(insert(tx, def, 2, "bob", 5).unwrap()),
        );
        assert!(matches!(outcome, Err(StoreError::Conflict(_))), "{outcome:?}");
        assert_eq!(balances(&begin(&store), def.id), [(2, 5), (100, 100), (101, 101)]);
        // Run again, it sees the other row.
        let mut again = begin(&store);
        let (indexed, id) = with_late_index(&store, &accounts_now(&store, &def), Uniqueness::Unique);
        again.change_catalog(CatalogChange::PutTable(Box::new(indexed.clone()))).unwrap();
        assert!(matches!(insert(&mut again, &indexed, 1, "ann", 5), Err(StoreError::Constraint(_))));
        insert(&mut again, &indexed, 1, "ann", 6).unwrap();
        again.commit().unwrap();
        let world = store.world();
        assert_eq!(world.table(def.id).unwrap().index(id).unwrap().1.len(), 4);
    }
}

/// The definition as it is committed.
fn accounts_now(store: &Store, def: &TableDef) -> TableDef {
    TableDef::clone(store.world().table(def.id).unwrap().def())
}

#[test]
fn a_unique_index_is_made_beside_own_writes_where_nobody_else_writes_to_the_table() {
    let (store, def, outcome) = unique_index_beside(
        |tx, def| {
            // The second owner goes in the same transaction.
            insert(tx, def, 1, "ann", 5).unwrap();
            assert!(tx.delete(def.id, &key(100)).unwrap());
        },
        Order::WritesFirst,
        |tx, _| {
            let columns = vec![ColumnDef::new("id", ColumnType::Int)];
            let name = QualifiedName::new("public", "other");
            let other = TableDef::new(SpaceId::new(1_000), name, columns, vec![0]);
            tx.change_catalog(CatalogChange::PutTable(Box::new(other))).unwrap();
        },
    );
    outcome.unwrap();
    assert_eq!(balances(&begin(&store), def.id), [(1, 5), (101, 101)]);
}

#[test]
fn a_unique_index_dropped_and_made_again_in_one_transaction_is_checked_again() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    let (indexed, _) = with_late_index(&store, &def, Uniqueness::Unique);
    tx.change_catalog(CatalogChange::PutTable(Box::new(indexed))).unwrap();
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    insert(&mut tx, &def, 1, "ann", 5).unwrap();
    insert(&mut tx, &def, 2, "bob", 5).unwrap();
    let (indexed, _) = with_late_index(&store, &def, Uniqueness::Unique);
    let refused = tx.change_catalog(CatalogChange::PutTable(Box::new(indexed)));
    assert!(matches!(refused, Err(StoreError::Constraint(_))), "{refused:?}");
}

#[test]
fn what_a_transaction_lost_to_is_published_once_that_was_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), StoreOptions::default()).unwrap();
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    insert(&mut tx, &def, 1, "all", 0).unwrap();
    tx.commit().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    loop {
                        let mut tx = begin(&store);
                        let balance = tx.get(def.id, &key(1)).unwrap().unwrap().get(2).as_i64().unwrap();
                        let next = int(i32::try_from(balance).unwrap() + 1);
                        tx.update(def.id, &key(1), row(&def, &[int(1), "all".into(), next])).unwrap();
                        match tx.commit() {
                            Ok(_) => break,
                            Err(StoreError::Conflict(conflict)) => {
                                store.wait_published(conflict.version).unwrap();
                                assert!(store.world().version() >= conflict.version);
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(balances(&begin(&store), def.id), [(1, 200)]);
}

#[test]
fn threads_that_add_to_one_counter_lose_nothing() {
    let store = Store::in_memory(StoreOptions::default());
    let def = accounts(&store, Uniqueness::Any);
    let mut tx = begin(&store);
    insert(&mut tx, &def, 1, "all", 0).unwrap();
    tx.commit().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    loop {
                        let mut tx = begin(&store);
                        let balance = tx.get(def.id, &key(1)).unwrap().unwrap().get(2).as_i64().unwrap();
                        let next = int(i32::try_from(balance).unwrap() + 1);
                        tx.update(def.id, &key(1), row(&def, &[int(1), "all".into(), next])).unwrap();
                        match tx.commit() {
                            Ok(_) => break,
                            Err(StoreError::Conflict(_)) => {}
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    assert_eq!(balances(&begin(&store), def.id), [(1, 800)]);
}
