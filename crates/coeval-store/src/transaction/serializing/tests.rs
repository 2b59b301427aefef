// SPDX-License-Identifier: Apache-2.0
//! Every way to read, with the anomaly that is possible if it forgets to note what it read; safe snapshots; refresh.

use crate::catalog::{
    CatalogChange, Deferral, ForeignKeyDef, IndexDef, ReferentialAction, TableDef, Uniqueness,
};
use crate::conflicts::ConflictError;
use crate::error::StoreError;
use crate::id_value::{key, row, table};
use crate::options::StoreOptions;
use crate::range::{Direction, KeyRange};
use crate::store::Store;
use crate::transaction::{AccessMode, IfLocked, LockedState, RowLock, Transaction};
use coeval_txn::ssi::SessionFloor;
use coeval_txn::{Isolation, LockStrength};
use std::time::Duration;

/// `items (id, value)` with an index and a unique index over `value`, rows 10, 20, 30 with the value of their id;
/// `children (id, item)` with a foreign key and no row; `flags (id, value)` with rows 1 and 2.
struct Fixture {
    store: Store,
    items: TableDef,
    children: TableDef,
    flags: TableDef,
}

impl Fixture {
    fn new() -> Self {
        let store = Store::in_memory(StoreOptions::default());
        let (mut items, mut children, flags) =
            (table(&store, "items"), table(&store, "children"), table(&store, "flags"));
        for (name, uniqueness) in [("by_value", Uniqueness::Any), ("unique_value", Uniqueness::Unique)] {
            let id = store.new_space_id();
            items.indexes.push(IndexDef {
                id,
                name: name.to_owned(),
                columns: vec![1],
                uniqueness,
                declared_order: Vec::new(),
            });
        }
        children.foreign_keys.push(ForeignKeyDef {
            name: "children_item_fkey".to_owned(),
            columns: vec![1],
            parent: items.id,
            parent_columns: vec![0],
            on_delete: ReferentialAction::NoAction,
            on_update: ReferentialAction::NoAction,
            deferral: Deferral::Never,
            validity: Default::default(),
        });
        let fixture = Self { store, items, children, flags };
        fixture.commit(Isolation::Snapshot, |tx| {
            for def in [&fixture.items, &fixture.children, &fixture.flags] {
                tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))?;
            }
            for id in [10, 20, 30] {
                tx.insert(fixture.items.id, row(&fixture.items, id, id))?;
            }
            for id in [1, 2] {
                tx.insert(fixture.flags.id, row(&fixture.flags, id, 0))?;
            }
            Ok(())
        });
        fixture
    }

    fn begin(&self, isolation: Isolation) -> Transaction {
        self.store.begin(isolation, AccessMode::ReadWrite)
    }

    fn commit(&self, isolation: Isolation, run: impl FnOnce(&mut Transaction) -> Result<(), StoreError>) {
        let mut tx = self.begin(isolation);
        run(&mut tx).unwrap();
        tx.commit().unwrap();
    }

    fn set(&self, tx: &mut Transaction, def: &TableDef, id: i32, value: i32) {
        tx.put(def.id, row(def, id, value)).unwrap();
    }

    fn value(&self, tx: &Transaction, def: &TableDef, id: i32) -> Option<i64> {
        tx.get(def.id, &key(id)).unwrap().and_then(|row| row.get(1).as_i64())
    }
}

fn conflict(outcome: Result<crate::Committed, StoreError>) -> Option<ConflictError> {
    match outcome {
        Ok(_) => None,
        Err(StoreError::Conflict(conflict)) => Some(conflict),
        Err(other) => panic!("{other}"),
    }
}

/// A way to read something of `items`, and a write that changes what it finds.
struct Way {
    name: &'static str,
    read: fn(&Fixture, &mut Transaction),
    write: fn(&Fixture, &mut Transaction),
}

const WAYS: &[Way] = &[
    Way {
        name: "a row by key",
        read: |f, tx| assert_eq!(f.value(tx, &f.items, 10), Some(10)),
        write: |f, tx| f.set(tx, &f.items, 10, 11),
    },
    Way {
        name: "a key that is not there",
        read: |f, tx| assert_eq!(f.value(tx, &f.items, 15), None),
        write: |f, tx| f.set(tx, &f.items, 15, 15),
    },
    Way {
        name: "a range of rows",
        read: |f, tx| {
            let range = KeyRange { lower: std::ops::Bound::Included(key(11)), ..KeyRange::all() };
            assert_eq!(tx.scan(f.items.id, &range, Direction::Forward).unwrap().count(), 2);
        },
        write: |f, tx| f.set(tx, &f.items, 25, 25),
    },
    Way {
        name: "the first of a range",
        read: |f, tx| {
            let mut rows = tx.scan(f.items.id, &KeyRange::all(), Direction::Forward).unwrap();
            assert!(rows.next().is_some());
        },
        write: |f, tx| f.set(tx, &f.items, 5, 5),
    },
    Way {
        name: "the last of a range",
        read: |f, tx| {
            let mut rows = tx.scan(f.items.id, &KeyRange::all(), Direction::Backward).unwrap();
            assert!(rows.next().is_some());
        },
        write: |f, tx| f.set(tx, &f.items, 35, 35),
    },
    Way {
        name: "a range of index entries",
        read: |f, tx| {
            let index = f.items.indexes[0].id;
            let entries = tx.scan_index(f.items.id, index, &KeyRange::all(), Direction::Forward).unwrap();
            assert_eq!(entries.count(), 3);
        },
        write: |f, tx| f.set(tx, &f.items, 40, 40),
    },
    Way {
        name: "a view",
        read: |f, tx| assert_eq!(tx.view(f.items.id).unwrap().row_count(), 3),
        write: |f, tx| f.set(tx, &f.items, 40, 40),
    },
    Way {
        name: "a primary key that is refused",
        read: |f, tx| assert!(tx.insert(f.items.id, row(&f.items, 10, 99)).is_err()),
        write: |f, tx| assert!(tx.delete(f.items.id, &key(10)).unwrap()),
    },
    Way {
        name: "a unique key that is refused",
        read: |f, tx| assert!(tx.insert(f.items.id, row(&f.items, 99, 10)).is_err()),
        write: |f, tx| assert!(tx.delete(f.items.id, &key(10)).unwrap()),
    },
    Way {
        name: "a parent that is missing",
        read: |f, tx| {
            let savepoint = tx.savepoint();
            tx.insert(f.children.id, row(&f.children, 1, 15)).unwrap();
            assert!(tx.end_statement().is_err());
            tx.rollback_to(&savepoint);
        },
        write: |f, tx| f.set(tx, &f.items, 15, 15),
    },
    Way {
        name: "a parent that was there before a savepoint was rolled back to",
        read: |f, tx| {
            let savepoint = tx.savepoint();
            tx.insert(f.children.id, row(&f.children, 1, 10)).unwrap();
            tx.end_statement().unwrap();
            tx.rollback_to(&savepoint);
        },
        write: |f, tx| assert!(tx.delete(f.items.id, &key(10)).unwrap()),
    },
    Way {
        name: "a delete that finds nothing",
        read: |f, tx| assert!(!tx.delete(f.items.id, &key(15)).unwrap()),
        write: |f, tx| f.set(tx, &f.items, 15, 15),
    },
    Way {
        name: "an update that finds nothing",
        read: |f, tx| assert!(tx.update(f.items.id, &key(15), row(&f.items, 15, 0)).is_err()),
        write: |f, tx| f.set(tx, &f.items, 15, 15),
    },
    Way {
        name: "a definition",
        read: |f, tx| assert_eq!(f.value(tx, &f.items, 10), Some(10)),
        write: |f, tx| {
            let mut def = f.items.clone();
            def.name.name = "renamed".to_owned();
            tx.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
        },
    },
    Way {
        name: "a table that is emptied",
        read: |f, tx| assert_eq!(f.value(tx, &f.items, 10), Some(10)),
        write: |f, tx| tx.change_catalog(CatalogChange::Truncate(f.items.id)).unwrap(),
    },
];

/// Two transactions, each of which reads what the other writes: one through the way, the other by a flag.
fn crossed(fixture: &Fixture, way: &Way, isolation: Isolation) -> (Transaction, Transaction) {
    let (mut reader, mut writer) = (fixture.begin(isolation), fixture.begin(isolation));
    (way.read)(fixture, &mut reader);
    fixture.set(&mut reader, &fixture.flags, 1, 7);
    assert_eq!(fixture.value(&writer, &fixture.flags, 1), Some(0));
    (way.write)(fixture, &mut writer);
    (reader, writer)
}

#[test]
fn write_skew_through_any_way_to_read_is_refused_whoever_is_first() {
    for way in WAYS {
        let fixture = Fixture::new();
        let (reader, writer) = crossed(&fixture, way, Isolation::Serializable);
        reader.commit().unwrap();
        let refused = conflict(writer.commit());
        assert!(refused.is_some_and(|conflict| conflict.what.starts_with("read/write")), "{}", way.name);

        let fixture = Fixture::new();
        let (reader, writer) = crossed(&fixture, way, Isolation::Serializable);
        writer.commit().unwrap();
        assert!(conflict(reader.commit()).is_some(), "{}, the writer first", way.name);
    }
}

#[test]
fn the_same_commits_on_a_snapshot() {
    for way in WAYS {
        let fixture = Fixture::new();
        let (reader, writer) = crossed(&fixture, way, Isolation::Snapshot);
        reader.commit().unwrap();
        assert_eq!(conflict(writer.commit()), None, "{}", way.name);
    }
}

#[test]
fn a_write_behind_what_a_walk_came_to_is_no_conflict() {
    let fixture = Fixture::new();
    let (mut reader, mut writer) =
        (fixture.begin(Isolation::Serializable), fixture.begin(Isolation::Serializable));
    let mut rows = reader.scan(fixture.items.id, &KeyRange::all(), Direction::Forward).unwrap();
    assert!(rows.next().is_some());
    drop(rows);
    fixture.set(&mut reader, &fixture.flags, 1, 7);
    assert_eq!(fixture.value(&writer, &fixture.flags, 1), Some(0));
    fixture.set(&mut writer, &fixture.items, 20, 21);
    reader.commit().unwrap();
    writer.commit().unwrap();
}

#[test]
fn transactions_without_a_cycle_all_commit() {
    let fixture = Fixture::new();
    let (mut one, mut other) =
        (fixture.begin(Isolation::Serializable), fixture.begin(Isolation::Serializable));
    assert_eq!(fixture.value(&one, &fixture.items, 10), Some(10));
    fixture.set(&mut one, &fixture.flags, 1, 1);
    fixture.set(&mut other, &fixture.items, 10, 11);
    other.commit().unwrap();
    one.commit().unwrap();
}

/// Batch processing after Ports and Grittner, 2.1.2: a receipt goes into the current batch; closing a batch moves to
/// the next; a report of a closed batch must never miss a receipt.
fn close_during_receipt(fixture: &Fixture, isolation: Isolation) -> Transaction {
    let mut receipt = fixture.begin(isolation);
    assert_eq!(fixture.value(&receipt, &fixture.flags, 1), Some(0));
    fixture.set(&mut receipt, &fixture.items, 40, 40);
    fixture.commit(isolation, |tx| {
        let batch = fixture.value(tx, &fixture.flags, 1);
        assert_eq!(batch, Some(0));
        fixture.set(tx, &fixture.flags, 1, 1);
        Ok(())
    });
    receipt
}

#[test]
fn a_report_on_the_current_world_makes_the_receipt_fail_that_it_missed() {
    let fixture = Fixture::new();
    let receipt = close_during_receipt(&fixture, Isolation::Serializable);
    let report = fixture.store.begin(Isolation::Serializable, AccessMode::ReadOnly);
    assert_eq!(fixture.value(&report, &fixture.flags, 1), Some(1));
    assert_eq!(report.view(fixture.items.id).unwrap().row_count(), 3);
    report.commit().unwrap();
    assert!(conflict(receipt.commit()).is_some());
}

#[test]
fn a_report_on_a_safe_snapshot_sees_the_batch_open_and_nobody_fails() {
    let fixture = Fixture::new();
    let receipt = close_during_receipt(&fixture, Isolation::Serializable);
    let report = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
    assert_eq!(
        fixture.value(&report, &fixture.flags, 1),
        Some(0),
        "the receipt may still go into this batch"
    );
    receipt.commit().unwrap();
    assert_eq!(report.view(fixture.items.id).unwrap().row_count(), 3, "a snapshot does not change");
    let later = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
    assert_eq!(fixture.value(&later, &fixture.flags, 1), Some(1));
    assert_eq!(later.view(fixture.items.id).unwrap().row_count(), 4);
}

#[test]
fn a_safe_snapshot_holds_a_commit_behind_the_boundary_that_comes_before_what_is_within() {
    let fixture = Fixture::new();
    // `before` reads the flag that `within` overwrites, so it comes before it, and commits when the boundary is behind
    // `within` already: `idle` holds it there.
    let mut before = fixture.begin(Isolation::Serializable);
    assert_eq!(fixture.value(&before, &fixture.flags, 1), Some(0));
    fixture.commit(Isolation::Serializable, |tx| {
        fixture.set(tx, &fixture.flags, 1, 1);
        Ok(())
    });
    let idle = fixture.begin(Isolation::Serializable);
    fixture.set(&mut before, &fixture.items, 10, 99);
    let committed = before.commit().unwrap();
    let safe = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
    assert_eq!(safe.begin_version(), idle.begin_version());
    assert!(committed.version > safe.begin_version());
    assert_eq!(fixture.value(&safe, &fixture.flags, 1), Some(1));
    assert_eq!(fixture.value(&safe, &fixture.items, 10), Some(99));
    let entries =
        safe.scan_index(fixture.items.id, fixture.items.indexes[0].id, &KeyRange::all(), Direction::Backward);
    assert_eq!(entries.unwrap().next().unwrap().unwrap().primary_key, key(10), "its index entries too");
}

#[test]
fn a_writer_that_holds_the_boundary_where_it_was_at_the_start_or_before_a_checkpoint_stops_nobody() {
    for is_checkpointed in [false, true] {
        let fixture = Fixture::new();
        // A store that begins with contents, as after an open.
        fixture.store.begin_safe(&SessionFloor::default()).unwrap().commit().unwrap();
        if is_checkpointed {
            fixture.store.checkpoint().unwrap();
        }
        let mut writer = fixture.begin(Isolation::Serializable);
        assert_eq!(fixture.value(&writer, &fixture.flags, 1), Some(0));
        fixture.commit(Isolation::Serializable, |tx| {
            fixture.set(tx, &fixture.flags, 1, 1);
            Ok(())
        });
        for _ in 0..2 {
            let safe = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
            assert_eq!(safe.begin_version(), writer.begin_version());
        }
        fixture.set(&mut writer, &fixture.items, 10, 99);
        writer.commit().unwrap();
        let lag = fixture.store.snapshot_lag();
        assert_eq!(lag.boundary, lag.published);
    }
}

#[test]
fn who_takes_a_safe_snapshot_does_not_wait_for_who_makes_the_next_one() {
    let fixture = Fixture::new();
    let set = |value| {
        fixture.commit(Isolation::Snapshot, |tx| {
            fixture.set(tx, &fixture.flags, 1, value);
            Ok(())
        })
    };
    let seen = |floor: &SessionFloor| {
        let safe = fixture.store.begin_safe(floor).unwrap();
        fixture.value(&safe, &fixture.flags, 1)
    };
    let no_floor = SessionFloor::default();
    set(1);
    assert_eq!(seen(&no_floor), Some(1));
    let shared = &fixture.store.shared;
    shared.serializable.while_making(shared.published_slot(), || {
        set(2);
        assert_eq!(seen(&no_floor), Some(2), "it was acknowledged, and no writer is open");
        let holder = fixture.begin(Isolation::Serializable);
        set(3);
        assert_eq!(seen(&no_floor), Some(1), "beside a writer, what lay ready a moment ago");
        holder.rollback();
        assert_eq!(seen(&no_floor), Some(3), "and without it the newest");
    });
    assert_eq!(seen(&no_floor), Some(3), "who made one has looked again");
}

#[test]
fn whoever_ends_leaves_the_newest_safe_snapshot_ready() {
    let ends: [fn(&Fixture, Transaction); 4] = [
        |_, holder| holder.rollback(),
        |_, holder| {
            holder.commit().unwrap();
        },
        |fixture, mut holder| {
            // Refused: what it overwrites was overwritten behind its snapshot.
            fixture.set(&mut holder, &fixture.flags, 1, -1);
            assert!(holder.commit().is_err());
        },
        |fixture, mut holder| {
            fixture.set(&mut holder, &fixture.flags, 2, 1);
            holder.commit().unwrap();
        },
    ];
    for end in ends {
        let fixture = Fixture::new();
        let seen = || {
            let safe = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
            fixture.value(&safe, &fixture.flags, 1)
        };
        let before = seen();
        let holder = fixture.begin(Isolation::Serializable);
        assert_eq!(fixture.value(&holder, &fixture.items, 10), Some(10));
        fixture.commit(Isolation::Serializable, |tx| {
            fixture.set(tx, &fixture.flags, 1, 7);
            Ok(())
        });
        assert_eq!(seen(), before, "the boundary is held");
        end(&fixture, holder);
        assert_eq!(seen(), Some(7));
    }
}

#[test]
fn a_store_that_was_just_opened_has_a_safe_snapshot_beside_a_writer() {
    let store = Store::in_memory(StoreOptions::default());
    let def = table(&store, "t");
    let _writer = store.begin(Isolation::Serializable, AccessMode::ReadWrite);
    let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    tx.commit().unwrap();
    let safe = store.begin_safe(&SessionFloor::default()).unwrap();
    assert!(safe.table(def.id).is_err(), "the table came behind the boundary");
}

#[test]
fn beside_an_old_transaction_the_write_sets_of_others_become_marks_in_time() {
    let fixture = Fixture::new();
    let mut old = fixture.begin(Isolation::Serializable);
    assert_eq!(fixture.value(&old, &fixture.flags, 1), Some(0));
    for value in 1..1_200 {
        fixture.commit(Isolation::Snapshot, |tx| {
            fixture.set(tx, &fixture.flags, 1, value);
            Ok(())
        });
    }
    fixture.set(&mut old, &fixture.flags, 2, 1);
    old.commit().unwrap();
}

#[test]
fn a_safe_snapshot_that_lacks_the_sessions_own_commit_is_not_given_to_it() {
    let fixture = Fixture::new();
    let idle = fixture.begin(Isolation::Serializable);
    let mut tx = fixture.begin(Isolation::Serializable);
    fixture.set(&mut tx, &fixture.flags, 1, 5);
    let committed = tx.commit().unwrap();
    let mut floor = SessionFloor::default();
    floor.note_commit(committed.order.unwrap());
    assert!(fixture.store.begin_safe(&floor).is_none());
    let lag = fixture.store.snapshot_lag();
    assert_eq!(lag.holder.map(|holder| holder.transaction), Some(idle.id()));
    assert_eq!(lag.commits, 1);
    assert!(lag.age > Duration::ZERO);
    idle.rollback();
    let safe = fixture.store.begin_safe(&floor).unwrap();
    assert_eq!(fixture.value(&safe, &fixture.flags, 1), Some(5));
    let lag = fixture.store.snapshot_lag();
    assert_eq!((lag.holder, lag.commits, lag.age), (None, 0, Duration::ZERO));
    let counts = fixture.store.safe_snapshot_counts();
    assert_eq!((counts.taken, counts.behind_floor, counts.while_certifying), (1, 1, 0));
    assert!(counts.made > 0 && counts.making > Duration::ZERO);
}

/// The holder's snapshot is a commit old; what overtook it has an out-edge to what the snapshot lacks as well, so that it
/// belongs to the safe snapshot and is not counted as missing.
#[test]
fn commits_beyond_the_boundary_that_a_safe_snapshot_has_are_not_missing_from_it() {
    let fixture = Fixture::new();
    let mut early = fixture.begin(Isolation::Serializable);
    assert_eq!(fixture.value(&early, &fixture.flags, 1), Some(0));
    fixture.commit(Isolation::Serializable, |tx| {
        fixture.set(tx, &fixture.flags, 1, 1);
        Ok(())
    });
    let holder = fixture.begin(Isolation::Serializable);
    fixture.set(&mut early, &fixture.items, 10, 99);
    early.commit().unwrap();
    let lag = fixture.store.snapshot_lag();
    assert_eq!((lag.boundary, lag.commits), (holder.begin_version(), 0));
    let safe = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
    assert_eq!(fixture.value(&safe, &fixture.items, 10), Some(99));
}

/// `COEVAL_READS` in the environment says how many keys are read.
#[test]
fn however_much_a_transaction_reads_its_reads_take_bounded_memory_and_count_all_the_same() {
    let given = std::env::var("COEVAL_READS").ok().and_then(|count| count.parse().ok());
    let count: i32 = given.unwrap_or(200_000);
    let fixture = Fixture::new();
    let mut reader = fixture.begin(Isolation::Serializable);
    let reading = reader.reading().unwrap();
    let mut most = 0;
    for id in 1_000..1_000 + count {
        // In no order, so that neighbours are not read one after the other.
        let id = 1_000 + (i64::from(id) * 7_919 % i64::from(count)) as i32;
        assert_eq!(fixture.value(&reader, &fixture.items, id), None);
        if id % 1_024 == 0 {
            most = most.max(reading.noted_count());
        }
    }
    println!("{count} keys read, noted as {most} keys and ranges at most");
    assert!(most > 0 && most < 6_000, "{most} keys and ranges");
    // One more who reads everything, by one range.
    let scanner = fixture.begin(Isolation::Serializable);
    let rows = scanner.scan(fixture.items.id, &KeyRange::all(), Direction::Forward).unwrap();
    assert_eq!(rows.count(), 3);
    assert!(scanner.reading().unwrap().noted_count() <= 2);
    let mut other = fixture.begin(Isolation::Serializable);
    assert_eq!(fixture.value(&other, &fixture.flags, 1), Some(0));
    fixture.set(&mut other, &fixture.items, 1_000 + count / 2, 1);
    other.commit().unwrap();
    fixture.set(&mut reader, &fixture.flags, 1, 1);
    assert!(conflict(reader.commit()).is_some(), "what was read was overwritten by who read what is written");
    scanner.rollback();
}

#[test]
fn the_first_commit_that_overwrote_what_was_read_is_told_while_the_reader_is_open() {
    let fixture = Fixture::new();
    let reader = fixture.begin(Isolation::Serializable);
    assert_eq!(fixture.value(&reader, &fixture.flags, 1), Some(0));
    let reading = reader.reading().unwrap();
    assert_eq!(fixture.store.first_out(&reading), None);
    let change = |id, value| {
        let mut tx = fixture.begin(Isolation::Serializable);
        fixture.set(&mut tx, &fixture.flags, id, value);
        tx.commit().unwrap().version
    };
    change(2, 1);
    assert_eq!(fixture.store.first_out(&reading), None);
    let first = change(1, 1);
    change(1, 2);
    assert_eq!(fixture.store.first_out(&reading), Some(first));
    reader.rollback();
    change(1, 3);
    change(1, 4);
    assert_eq!(fixture.store.first_out(&reading), None, "who has ended is no longer looked after");
}

#[test]
fn who_has_read_what_an_open_transaction_wrote_is_told_open_or_committed() {
    let fixture = Fixture::new();
    let mut writer = fixture.begin(Isolation::Serializable);
    fixture.set(&mut writer, &fixture.flags, 1, 1);
    let mut reader = fixture.begin(Isolation::Serializable);
    assert_eq!(fixture.value(&reader, &fixture.flags, 2), Some(0));
    let written = writer.reading().unwrap();
    assert!(!written.is_overwriting(&reader.reading().unwrap()) && !written.is_overwriting(&written));
    assert_eq!(fixture.value(&reader, &fixture.flags, 1), Some(0));
    assert!(written.is_overwriting(&reader.reading().unwrap()));
    assert_eq!(fixture.store.in_edge(&written), None);
    let id = reader.id();
    fixture.set(&mut reader, &fixture.flags, 2, 1);
    reader.commit().unwrap();
    assert_eq!(fixture.store.in_edge(&written), Some(id));
    let elsewhere = fixture.begin(Isolation::Serializable).reading().unwrap();
    assert_eq!(fixture.store.in_edge(&elsewhere), None);
    writer.rollback();
}

#[test]
fn the_safe_world_lies_ready_while_readers_ask_and_is_the_newest_there_can_be() {
    let fixture = Fixture::new();
    let change = |value| {
        fixture.commit(Isolation::Serializable, |tx| {
            fixture.set(tx, &fixture.flags, 1, value);
            Ok(())
        });
    };
    let read = || {
        let safe = fixture.store.begin_safe(&SessionFloor::default()).unwrap();
        fixture.value(&safe, &fixture.flags, 1)
    };
    change(1);
    let made = || fixture.store.safe_snapshot_counts().made;
    let before = made();
    change(2);
    change(3);
    assert_eq!(made(), before, "nobody has asked");
    assert_eq!(read(), Some(3));
    for value in 4..10 {
        change(value);
        let ready = made();
        assert_eq!((read(), made()), (Some(i64::from(value)), ready), "it was made with the publication");
    }
    // Who ends without a commit moves the boundary as well.
    let holder = fixture.begin(Isolation::Serializable);
    change(10);
    assert_eq!(read(), Some(9));
    holder.rollback();
    assert_eq!(read(), Some(10));
    // A while after the last one who asked, nothing is made any more.
    for value in 0..2_000 {
        change(value);
    }
    let idle = made();
    change(2_000);
    assert_eq!((made(), read()), (idle, Some(2_000)));
}

#[test]
fn with_a_bound_on_their_age_safe_snapshots_pass_an_idle_transaction_and_refuse_it_if_it_would_come_before_them()
 {
    let fixture = Fixture::new();
    let change = |value| {
        fixture.commit(Isolation::Serializable, |tx| {
            fixture.set(tx, &fixture.flags, 1, value);
            Ok(())
        });
    };
    for reads in [true, false] {
        fixture.store.set_safe_snapshot_lag_max(None);
        let mut idle = fixture.begin(Isolation::Serializable);
        if reads {
            fixture.value(&idle, &fixture.flags, 1);
        }
        change(3);
        let behind = fixture.store.snapshot_lag();
        assert_eq!(behind.boundary, idle.begin_version());
        fixture.store.set_safe_snapshot_lag_max(Some(Duration::ZERO));
        let passed = fixture.store.snapshot_lag();
        assert_eq!(passed.boundary, passed.published);
        fixture.set(&mut idle, &fixture.items, 10, 12);
        assert_eq!(conflict(idle.commit()).is_some(), reads);
    }
}

#[test]
fn a_reader_beside_nobody_older_is_not_certified_and_one_beside_an_older_writer_is() {
    let fixture = Fixture::new();
    let alone = fixture.store.begin(Isolation::Serializable, AccessMode::Query);
    assert!(alone.serializing.is_none());
    let _older = fixture.begin(Isolation::Serializable);
    fixture.commit(Isolation::Snapshot, |tx| {
        fixture.set(tx, &fixture.flags, 2, 5);
        Ok(())
    });
    let beside = fixture.store.begin(Isolation::Serializable, AccessMode::Query);
    assert!(beside.serializing.is_some());
    assert!(fixture.store.begin(Isolation::Snapshot, AccessMode::ReadOnly).serializing.is_none());
}

fn lock(def: &TableDef, id: i32) -> RowLock {
    RowLock { table: def.id, key: key(id), strength: LockStrength::Update }
}

#[test]
fn a_statement_that_finds_a_newer_row_moves_the_snapshot_if_nothing_read_before_was_changed() {
    for changed in [1, 2] {
        let fixture = Fixture::new();
        let mut tx = fixture.begin(Isolation::Serializable);
        tx.begin_statement().unwrap();
        assert_eq!(fixture.value(&tx, &fixture.flags, 1), Some(0));
        fixture.set(&mut tx, &fixture.items, 20, 21);
        let savepoint = tx.savepoint();
        fixture.commit(Isolation::Serializable, |other| {
            fixture.set(other, &fixture.items, 10, 12);
            if changed == 1 {
                fixture.set(other, &fixture.flags, 1, 9);
            }
            Ok(())
        });
        tx.begin_statement().unwrap();
        assert_eq!(fixture.value(&tx, &fixture.items, 10), Some(10));
        let locked = tx.lock_rows(&[lock(&fixture.items, 10)], IfLocked::Wait);
        if changed == 1 {
            assert!(matches!(locked, Err(StoreError::Conflict(_))), "what it had read was overwritten");
            continue;
        }
        assert_eq!(locked.unwrap().state, LockedState::Changed);
        assert_eq!(fixture.value(&tx, &fixture.items, 10), Some(12), "the statement runs again");
        tx.rollback_to(&savepoint);
        assert_eq!(
            fixture.value(&tx, &fixture.items, 10),
            Some(12),
            "a savepoint does not bring the past back"
        );
        assert_eq!(fixture.value(&tx, &fixture.items, 20), Some(21), "own writes stay");
        fixture.set(&mut tx, &fixture.flags, 2, 1);
        tx.commit().unwrap();
    }
}

mod stress;
