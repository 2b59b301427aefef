// SPDX-License-Identifier: Apache-2.0
//! Transactions of mixed levels over rows that refer to each other, in every order of their steps.
//!
//! Only READ COMMITTED locks what it writes by itself. The other levels, and every cascade of theirs, may commit a
//! change of a row that somebody at READ COMMITTED has locked; certification has to see that, also if the statement
//! with the lock runs again. A transaction that would have to wait for a lock gives up here, so that one thread can
//! run all of them.

use crate::catalog::{
    CatalogChange, ColumnDef, Deferral, ForeignKeyDef, IndexDef, QualifiedName, ReferentialAction, TableDef,
    Uniqueness,
};
use crate::error::StoreError;
use crate::id_value::{key, row, table};
use crate::options::StoreOptions;
use crate::row::{Row, RowWriter};
use crate::store::Store;
use crate::transaction::{AccessMode, LockWaits, Savepoint, Transaction};
use crate::types::ColumnType;
use crate::value::Value;
use coeval_txn::{Isolation, LockState, LockStrength};
use std::time::Duration;

const LEVELS: [Isolation; 3] = [Isolation::ReadCommitted, Isolation::Snapshot, Isolation::Serializable];
const ACTIONS: [ReferentialAction; 2] = [ReferentialAction::Cascade, ReferentialAction::SetNull];

/// How often a statement runs again before it gives up.
const RUNS_MAX: usize = 4;

/// `parents (id, value)`; `children (id, parent, count)`, whose parent is looked up through an index.
struct Family {
    store: Store,
    parents: TableDef,
    children: TableDef,
}

impl Family {
    fn new(on_delete: ReferentialAction) -> Self {
        let store = Store::in_memory(StoreOptions::default());
        let parents = table(&store, "parents");
        let columns = ["id", "parent", "count"].map(|name| ColumnDef::new(name, ColumnType::Int)).to_vec();
        let name = QualifiedName::new("public", "children");
        let mut children = TableDef::new(store.new_space_id(), name, columns, vec![0]);
        children.indexes.push(IndexDef {
            id: store.new_space_id(),
            name: "children_by_parent".to_owned(),
            columns: vec![1],
            uniqueness: Uniqueness::Any,
            declared_order: Vec::new(),
        });
        children.foreign_keys.push(ForeignKeyDef {
            name: "children_parent_fkey".to_owned(),
            columns: vec![1],
            parent: parents.id,
            parent_columns: vec![0],
            on_delete,
            on_update: ReferentialAction::NoAction,
            deferral: Deferral::Never,
            validity: Default::default(),
        });
        let family = Self { store, parents, children };
        family.set_up(|tx| {
            for def in [&family.parents, &family.children] {
                tx.change_catalog(CatalogChange::PutTable(Box::new(def.clone())))?;
            }
            Ok(())
        });
        family
    }

    fn set_up(&self, run: impl FnOnce(&mut Transaction) -> Result<(), StoreError>) {
        let mut tx = self.store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        run(&mut tx).unwrap();
        tx.commit().unwrap();
    }

    /// Parents 1 and 2, each with the child of its number, under ids that nobody had before.
    fn bear(&self, base: i32) {
        self.set_up(|tx| {
            for id in [base + 1, base + 2] {
                tx.insert(self.parents.id, row(&self.parents, id, 0))?;
                tx.insert(self.children.id, self.child(id, Some(id), 0))?;
            }
            tx.end_statement()
        });
    }

    fn child(&self, id: i32, parent: Option<i32>, count: i32) -> Row {
        let mut writer = RowWriter::new(self.children.layout());
        for value in [Value::Int32(id), parent.map_or(Value::Null, Value::Int32), Value::Int32(count)] {
            writer.push(value.borrow()).unwrap();
        }
        writer.finish()
    }

    /// The parent and the count of a child that is there.
    fn read_child(&self, tx: &Transaction, id: i32) -> Option<(Option<i32>, i32)> {
        let child = tx.get(self.children.id, &key(id)).unwrap()?;
        let number = |column: usize| child.get(column).as_i64().map(|n| i32::try_from(n).unwrap());
        Some((number(1), number(2).expect("a count is never NULL")))
    }

    fn has_parent(&self, tx: &Transaction, id: i32) -> bool {
        tx.get(self.parents.id, &key(id)).unwrap().is_some()
    }
}

/// What a part of a statement does. Children and parents are 1 and 2.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// Adds one to the child's count.
    Count(i32),
    /// Deletes the parent.
    Delete(i32),
}

/// A transaction of one statement.
struct Program {
    level: Isolation,
    parts: &'static [Part],
}

/// Where a transaction is.
struct Run<'f> {
    family: &'f Family,
    base: i32,
    program: &'f Program,
    tx: Option<Transaction>,
    began: Option<Savepoint>,
    /// The child that the next write is made from.
    read: Option<(Option<i32>, i32)>,
    /// The parts that are complete, and whether the next one has read.
    complete: usize,
    has_read: bool,
    runs: usize,
    /// The parts that found their row, if it has committed.
    committed: Option<Vec<Part>>,
    found: Vec<Part>,
    is_over: bool,
}

impl<'f> Run<'f> {
    fn new(family: &'f Family, base: i32, program: &'f Program) -> Self {
        Self {
            family,
            base,
            program,
            tx: None,
            began: None,
            read: None,
            complete: 0,
            has_read: false,
            runs: 1,
            committed: None,
            found: Vec::new(),
            is_over: false,
        }
    }

    /// As many steps as it takes if nobody disturbs it: begin, two for each part, commit.
    fn steps(program: &Program) -> usize {
        2 + 2 * program.parts.len()
    }

    fn step(&mut self) {
        if self.is_over {
            return;
        }
        let Some(tx) = &mut self.tx else { return self.begin() };
        if self.complete == self.program.parts.len() {
            if let Err(error) = tx.end_statement() {
                return self.failed(&error);
            }
            let tx = self.tx.take().expect("it was there");
            self.is_over = true;
            match tx.commit() {
                Ok(_) => self.committed = Some(std::mem::take(&mut self.found)),
                Err(StoreError::Conflict(_)) => {}
                Err(error) => panic!("{error}"),
            }
            return;
        }
        let part = self.program.parts[self.complete];
        if !self.has_read {
            self.read = match part {
                Part::Count(child) => self.family.read_child(tx, self.base + child),
                Part::Delete(parent) => self.family.has_parent(tx, self.base + parent).then_some((None, 0)),
            };
            self.has_read = true;
            return;
        }
        match self.write(part) {
            Ok(()) => {
                self.complete += 1;
                self.has_read = false;
            }
            Err(error) => self.failed(&error),
        }
    }

    fn begin(&mut self) {
        let mut tx = self.family.store.begin(self.program.level, AccessMode::ReadWrite);
        tx.set_lock_waits(LockWaits {
            timeout: Some(Duration::ZERO),
            deadlock_after: Duration::from_secs(60),
            interrupt: None,
        });
        tx.begin_statement().unwrap();
        self.began = Some(tx.savepoint());
        self.tx = Some(tx);
    }

    fn write(&mut self, part: Part) -> Result<(), StoreError> {
        let tx = self.tx.as_mut().expect("it has begun");
        let Some((parent, count)) = self.read else { return Ok(()) };
        match part {
            Part::Count(child) => {
                let id = self.base + child;
                tx.lock_found(self.family.children.id, [&key(id)], LockStrength::NoKeyUpdate)?;
                let child = self.family.child(id, parent, count + 1);
                tx.update(self.family.children.id, &key(id), child)?;
            }
            Part::Delete(parent) => {
                let id = self.base + parent;
                tx.lock_found(self.family.parents.id, [&key(id)], LockStrength::Update)?;
                tx.delete(self.family.parents.id, &key(id))?;
            }
        }
        self.found.push(part);
        tx.require_unmoved_since(self.began.as_ref().expect("it has begun"))
    }

    /// Runs the statement again if that helps, else rolls back.
    fn failed(&mut self, error: &StoreError) {
        let tx = self.tx.as_mut().expect("it has begun");
        assert!(
            matches!(error, StoreError::Conflict(_) | StoreError::RowLock(_) | StoreError::MissingRow),
            "{error}"
        );
        self.found.clear();
        if tx.take_restart() && self.runs < RUNS_MAX {
            tx.undo_writes_since(self.began.as_ref().expect("it has begun"));
            // A statement that runs again is one that begins where the snapshot has moved to.
            self.began = Some(tx.savepoint());
            (self.complete, self.has_read, self.runs) = (0, false, self.runs + 1);
            return;
        }
        self.tx = None;
        self.is_over = true;
    }
}

/// Runs the programs in the order that `schedule` names them in, what is left of each behind it, and checks what is there
/// then.
fn run(family: &Family, base: i32, on_delete: ReferentialAction, programs: &[Program], schedule: &[usize]) {
    family.bear(base);
    let mut runs: Vec<Run<'_>> = programs.iter().map(|program| Run::new(family, base, program)).collect();
    for &number in schedule {
        runs[number].step();
    }
    for run in &mut runs {
        while !run.is_over {
            run.step();
        }
    }
    let committed: Vec<Part> = runs.iter().filter_map(|run| run.committed.clone()).flatten().collect();
    let tx = family.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
    let levels: Vec<_> = programs.iter().map(|program| (program.level, program.parts)).collect();
    for id in [1, 2] {
        let is_deleted = committed.contains(&Part::Delete(id));
        let counted = committed.iter().filter(|&&part| part == Part::Count(id)).count();
        let expected = match (is_deleted, on_delete) {
            (false, _) => Some((Some(base + id), counted)),
            (true, ReferentialAction::SetNull) => Some((None, counted)),
            (true, _) => None,
        };
        let child = family.read_child(&tx, base + id).map(|(parent, count)| (parent, count as usize));
        assert_eq!(child, expected, "child {id} after {committed:?} of {levels:?} in the order {schedule:?}");
        assert_eq!(family.has_parent(&tx, base + id), !is_deleted, "parent {id} after {schedule:?}");
    }
}

/// Every order of `counts[n]` steps of each `n`.
fn orders(counts: &mut [usize], order: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
    if counts.iter().all(|&count| count == 0) {
        visit(order);
    }
    for number in 0..counts.len() {
        if counts[number] > 0 {
            counts[number] -= 1;
            order.push(number);
            orders(counts, order, visit);
            order.pop();
            counts[number] += 1;
        }
    }
}

const COUNT_ONE: &[Part] = &[Part::Count(1)];
const COUNT_TWO: &[Part] = &[Part::Count(2)];
const COUNT_BOTH: &[Part] = &[Part::Count(1), Part::Count(2)];
const DELETE_ONE: &[Part] = &[Part::Delete(1)];
const DELETE_TWO: &[Part] = &[Part::Delete(2)];

#[test]
fn two_transactions_of_any_levels_lose_nothing_in_any_order() {
    for on_delete in ACTIONS {
        let family = Family::new(on_delete);
        let mut base = 0;
        for (first_level, second_level) in
            LEVELS.into_iter().flat_map(|first| LEVELS.map(|second| (first, second)))
        {
            for (first, second) in [
                (COUNT_ONE, COUNT_ONE),
                (COUNT_BOTH, COUNT_BOTH),
                (COUNT_ONE, DELETE_ONE),
                (COUNT_BOTH, DELETE_TWO),
                (DELETE_ONE, DELETE_ONE),
            ] {
                let programs = [
                    Program { level: first_level, parts: first },
                    Program { level: second_level, parts: second },
                ];
                let mut counts = [Run::steps(&programs[0]), Run::steps(&programs[1])];
                orders(&mut counts, &mut Vec::new(), &mut |order| {
                    base += 10;
                    run(&family, base, on_delete, &programs, order);
                });
            }
        }
    }
}

/// The first statement takes the lock of child 1, runs again because child 2 was changed, and has the lock of child 1
/// still: a change of child 1 since then by somebody who took no lock is not to be overwritten.
#[test]
fn a_statement_that_runs_again_with_its_locks_overwrites_nothing() {
    for on_delete in ACTIONS {
        let family = Family::new(on_delete);
        let mut base = 0;
        let levels = || LEVELS.into_iter().flat_map(|second| LEVELS.map(|third| (second, third)));
        for (second_level, third_level) in levels() {
            for (second, third) in [
                (COUNT_TWO, COUNT_ONE),
                (COUNT_TWO, DELETE_ONE),
                (DELETE_TWO, COUNT_ONE),
                (DELETE_TWO, DELETE_ONE),
            ] {
                let programs = [
                    Program { level: Isolation::ReadCommitted, parts: COUNT_BOTH },
                    Program { level: second_level, parts: second },
                    Program { level: third_level, parts: third },
                ];
                // The second commits at one point of the first, the third has three: that makes all orders that matter.
                let mut counts = [Run::steps(&programs[0]), 1, 3];
                orders(&mut counts, &mut Vec::new(), &mut |order| {
                    base += 10;
                    let steps: Vec<usize> = order
                        .iter()
                        .flat_map(|&number| {
                            let times = match number {
                                1 => Run::steps(&programs[1]),
                                2 => 2,
                                _ => 1,
                            };
                            std::iter::repeat_n(number, times)
                        })
                        .collect();
                    run(&family, base, on_delete, &programs, &steps);
                });
            }
        }
    }
}

/// A cascade waits for a child that somebody else gives to another parent, and leaves it alone then.
#[test]
fn a_child_that_went_to_another_parent_while_a_cascade_waited_for_it_stays_there() {
    for on_delete in ACTIONS {
        let family = Family::new(on_delete);
        family.bear(0);
        let mut mover = family.store.begin(Isolation::ReadCommitted, AccessMode::ReadWrite);
        mover.begin_statement().unwrap();
        mover.lock_found(family.children.id, [&key(1)], LockStrength::NoKeyUpdate).unwrap();
        mover.update(family.children.id, &key(1), family.child(1, Some(2), 7)).unwrap();
        mover.end_statement().unwrap();
        std::thread::scope(|scope| {
            let deleting = scope.spawn(|| {
                let mut tx = family.store.begin(Isolation::ReadCommitted, AccessMode::ReadWrite);
                tx.begin_statement().unwrap();
                tx.lock_found(family.parents.id, [&key(1)], LockStrength::Update).unwrap();
                tx.delete(family.parents.id, &key(1)).unwrap();
                tx.end_statement().unwrap();
                tx.commit().unwrap();
            });
            let is_waiting = || family.store.row_locks().iter().any(|lock| lock.state == LockState::Waiting);
            while !is_waiting() && !deleting.is_finished() {
                std::thread::yield_now();
            }
            mover.commit().unwrap();
            deleting.join().unwrap();
        });
        let tx = family.store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        assert!(!family.has_parent(&tx, 1));
        assert_eq!(family.read_child(&tx, 1), Some((Some(2), 7)), "{on_delete:?}");
    }
}

/// Who stays reads nothing newer than what it has read, also behind a savepoint from before that, and what others have
/// committed since it neither overwrites nor leaves without a parent.
#[test]
fn a_transaction_that_stays_reads_nothing_newer_and_loses_nothing() {
    for on_delete in ACTIONS {
        let family = Family::new(on_delete);
        family.bear(0);
        let begin = || family.store.begin(Isolation::ReadCommitted, AccessMode::ReadWrite);
        let count = |tx: &mut Transaction, id: i32, count: i32| {
            tx.begin_statement()?;
            tx.lock_found(family.children.id, [&key(id)], LockStrength::NoKeyUpdate)?;
            tx.update(family.children.id, &key(id), family.child(id, Some(id), count))?;
            tx.end_statement()
        };
        let elsewhere = |number: i32| {
            let mut tx = begin();
            count(&mut tx, 1, number).unwrap();
            tx.commit().unwrap();
        };
        let mut tx = begin();
        tx.begin_statement().unwrap();
        let early = tx.savepoint();
        elsewhere(1);
        tx.begin_statement().unwrap();
        assert_eq!(family.read_child(&tx, 1), Some((Some(1), 1)), "each statement reads the newest");
        tx.stay();
        count(&mut tx, 2, 5).unwrap();
        elsewhere(2);
        let is_refused = |outcome: Result<(), StoreError>| matches!(outcome, Err(StoreError::Conflict(_)));
        for _ in 0..2 {
            tx.begin_statement().unwrap();
            assert_eq!(family.read_child(&tx, 1), Some((Some(1), 1)));
            assert!(is_refused(count(&mut tx, 1, 9)));
            tx.rollback_to(&early);
            assert_eq!(family.read_child(&tx, 1), Some((Some(1), 1)));
            assert_eq!(family.read_child(&tx, 2), Some((Some(2), 0)), "what was written is undone");
        }
        family.set_up(|tx| {
            tx.insert(family.children.id, family.child(3, Some(2), 0))?;
            tx.end_statement()
        });
        tx.begin_statement().unwrap();
        assert!(
            is_refused(tx.delete(family.parents.id, &key(2)).map(drop)),
            "it has a child that is not seen"
        );
        count(&mut tx, 2, 7).unwrap();
        tx.commit().unwrap();
        let tx = begin();
        let children = [1, 2, 3].map(|id| family.read_child(&tx, id));
        assert_eq!(children, [Some((Some(1), 2)), Some((Some(2), 7)), Some((Some(2), 0))]);
    }
}
