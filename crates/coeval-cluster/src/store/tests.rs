// SPDX-License-Identifier: Apache-2.0
//! Bricks in columns, on a log that is opened again and again, against the plain model [`MemoryBricks`].
//!
//! Two nodes do what transactions want: appends, deletes, commits, cuts. The second one is away at times, misses all of it, and
//! comes back: then it gets copies of all bricks, while new transactions go to both. LSE moves, and both purge. After each step
//! both show, at each snapshot that is kept, the rows that their models show. Now and then a process ends in the middle of a round.

use super::column_bricks::Rule;
use super::memory_bricks::MemoryBricks;
use super::store_files::FileOrder;
use super::{ColumnStore, CountBricks, NodeStore, RoundOptions};
use crate::brick_change::BrickChange;
use crate::log::Durability;
use crate::tables::{RoutedRows, RowsOf, Tables};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, Int64Type};
use bytes::Bytes;
use coeval_brick::{BrickSchema, Column, Dimension, DimensionValues, Metric, Nulls};
use coeval_txn::cluster::{
    BrickAddress, Code, DictionaryId, DictionaryRecord, GivenText, LogRecord, Spelling, ViewNumber,
};
use coeval_txn::{Epoch, EpochSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const TABLES: [u64; 2] = [1, 5];
const STEPS: usize = 220;

fn tables() -> Tables {
    let dimension = |name: &str, cardinality, range_size| {
        let values = DimensionValues::Ordered { data_type: DataType::Int64, origin: -3 };
        Column::Dimension(Dimension { name: name.into(), values, cardinality, range_size })
    };
    let metric =
        |name: &str, data_type, nulls| Column::Metric(Metric { name: name.into(), data_type, nulls });
    let tables = Tables::start(2).unwrap();
    for table in TABLES {
        let columns = vec![
            dimension("x", 6, 3),
            metric("id", DataType::Int64, Nulls::Refused),
            dimension("y", 4, 4),
            metric("third", DataType::Int32, Nulls::Allowed),
            metric("odd", DataType::Boolean, Nulls::Refused),
        ];
        tables.declare(table, BrickSchema::new(columns).unwrap()).unwrap();
    }
    tables
}

/// The row of an id: all other columns follow from it.
fn x(id: i64) -> i64 {
    id * 7 % 6 - 3
}

fn y(id: i64) -> i64 {
    id * 5 % 4 - 3
}

fn third(id: i64) -> Option<i32> {
    (id % 3 != 0).then_some((id / 3) as i32)
}

fn batch(ids: &[i64]) -> RecordBatch {
    let ids = || ids.iter().copied();
    let columns: [(&str, ArrayRef, bool); 5] = [
        ("x", Arc::new(ids().map(x).collect::<Int64Array>()), false),
        ("id", Arc::new(ids().collect::<Int64Array>()), false),
        ("y", Arc::new(ids().map(y).collect::<Int64Array>()), false),
        ("third", Arc::new(ids().map(third).collect::<Int32Array>()), true),
        ("odd", Arc::new(BooleanArray::from(ids().map(|id| id % 2 == 1).collect::<Vec<_>>())), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// The ids of rows that were read, each row as its id says.
fn ids(batch: &RecordBatch) -> Vec<i64> {
    let whole = |column: usize| batch.column(column).as_primitive::<Int64Type>().values().to_vec();
    let ids = whole(1);
    let (thirds, odds) = (batch.column(3).as_primitive::<Int32Type>(), batch.column(4).as_boolean());
    for (row, id) in ids.iter().enumerate() {
        let read_third = thirds.is_valid(row).then(|| thirds.value(row));
        let read = (whole(0)[row], whole(2)[row], read_third, odds.value(row));
        assert_eq!(read, (x(*id), y(*id), third(*id), id % 2 == 1), "row {id}");
    }
    ids
}

/// The order of rows is nobody's promise: a round keeps those that it flushes together.
fn sorted(ids: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut ids: Vec<i64> = ids.collect();
    ids.sort_unstable();
    ids
}

/// A node: its store, and the model of it.
struct Pair {
    store: Option<ColumnStore>,
    model: MemoryBricks,
    directory: TempDir,
    left_out: Option<Rule>,
}

fn open(directory: &Path, tables: &Tables, left_out: Option<Rule>) -> Result<ColumnStore, String> {
    let rounds = RoundOptions { log_bytes: 0, pause: Duration::ZERO };
    let opened = ColumnStore::open(directory, Durability::Off, tables.clone(), rounds, Box::new(|_| {}));
    let (mut store, _) = opened.map_err(|error| error.to_string())?;
    store.leave_out(left_out);
    Ok(store)
}

impl Pair {
    fn new(tables: &Tables, left_out: Option<Rule>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path(), tables, left_out).unwrap();
        Self { store: Some(store), model: MemoryBricks::default(), directory, left_out }
    }

    fn store(&mut self) -> &mut ColumnStore {
        self.store.as_mut().unwrap()
    }

    /// Rows as they are sent to the store, and as the model has them.
    fn append(&mut self, epoch: Epoch, brick: BrickAddress, rows: &Bytes, ids: &[i64]) {
        self.store().check(brick, rows, RowsOf::OneBrick).unwrap();
        let rows = BrickChange::Rows(rows.clone());
        self.store().log(LogRecord::Append { epoch, number: 0, brick, rows });
        let plain: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        let rows = BrickChange::Rows(plain.into());
        self.model.apply(LogRecord::Append { epoch, number: 0, brick, rows });
    }

    fn log(&mut self, record: LogRecord<BrickChange>) {
        self.store().log(record.clone());
        self.model.apply(record);
    }

    fn restart(&mut self, tables: &Tables) -> Result<(), String> {
        while self.store().has_unsynced() {
            self.store().sync();
            std::thread::yield_now();
        }
        // All that was synced is on disk once this is dropped.
        self.store = None;
        self.store = Some(open(self.directory.path(), tables, self.left_out)?);
        Ok(())
    }

    fn seen(&mut self, brick: BrickAddress, snapshot: &EpochSet) -> Vec<i64> {
        let rows = self.store().brick(brick).unwrap().rows(snapshot.clone());
        sorted(rows.batches().flat_map(|batch| ids(&batch)))
    }

    fn expected(&self, brick: BrickAddress, snapshot: &EpochSet) -> Vec<i64> {
        let rows = self.model.read(brick, snapshot);
        let words = rows.iter().flat_map(|(_, rows)| rows.chunks_exact(8));
        sorted(words.map(|word| i64::from_le_bytes(word.try_into().unwrap())))
    }
}

/// Transactions of a cluster, and what its two nodes have of them.
struct Run {
    random: StdRng,
    tables: Tables,
    nodes: [Pair; 2],
    /// The second node misses what happens.
    is_away: bool,
    next: u64,
    next_id: i64,
    /// What is open, and whether the second node has missed the begin.
    open: BTreeMap<Epoch, bool>,
    /// Deletes that are above LSE, with what they see.
    deletes: BTreeMap<Epoch, EpochSet>,
    safe: Epoch,
    snapshots: Vec<EpochSet>,
    bricks: BTreeSet<BrickAddress>,
}

impl Run {
    fn new(seed: u64, left_out: Option<Rule>) -> Self {
        let tables = tables();
        Self {
            random: StdRng::seed_from_u64(seed),
            nodes: [Pair::new(&tables, left_out), Pair::new(&tables, left_out)],
            tables,
            is_away: false,
            next: 1,
            next_id: 1,
            open: BTreeMap::new(),
            deletes: BTreeMap::new(),
            safe: Epoch::ZERO,
            snapshots: Vec::new(),
            bricks: BTreeSet::new(),
        }
    }

    fn begin(&mut self) -> Epoch {
        let epoch = Epoch::new(self.next);
        self.next += self.random.random_range(1..3);
        self.open.insert(epoch, self.is_away);
        epoch
    }

    /// All that has ended by now.
    fn ended(&self) -> EpochSet {
        EpochSet::through(Epoch::new(self.next)).without(self.open.keys().copied())
    }

    /// What an open transaction does reaches the second node if it is there, and has been since the begin.
    fn reached(&mut self, epoch: Epoch) -> impl Iterator<Item = &mut Pair> {
        let count = if self.is_away || self.open[&epoch] { 1 } else { 2 };
        self.nodes.iter_mut().take(count)
    }

    fn any_open(&mut self) -> Epoch {
        let open: Vec<Epoch> = self.open.keys().copied().filter(|e| !self.deletes.contains_key(e)).collect();
        if open.len() < 3 { self.begin() } else { open[self.random.random_range(0..open.len())] }
    }

    fn append(&mut self) {
        let epoch = self.any_open();
        let count = self.random.random_range(1..12);
        let ids: Vec<i64> = (self.next_id..self.next_id + count).collect();
        self.next_id += count;
        let table = TABLES[self.random.random_range(0..2)];
        let rows = self.tables.rows(table, &batch(&ids)).unwrap();
        for (brick, rows) in rows {
            self.bricks.insert(brick);
            let here = |id: &i64| (((x(*id) + 3) / 3) as u64) == brick.brick;
            let ids: Vec<i64> = ids.iter().copied().filter(here).collect();
            self.reached(epoch).for_each(|node| node.append(epoch, brick, &rows, &ids));
        }
    }

    /// A delete of some bricks sees all that has ended. One is open at a time.
    fn delete(&mut self) {
        if self.deletes.keys().any(|delete| self.open.contains_key(delete)) {
            return;
        }
        let seen = EpochSet::through(Epoch::new(self.next - 1)).without(self.open.keys().copied());
        let epoch = self.begin();
        assert!(seen.newest() < epoch);
        self.deletes.insert(epoch, seen.clone());
        let bricks: Vec<BrickAddress> = self.bricks.iter().copied().collect();
        for brick in bricks {
            if self.random.random_bool(0.7) {
                let rows = BrickChange::Delete(seen.clone());
                let record = LogRecord::Append { epoch, number: 0, brick, rows };
                self.reached(epoch).for_each(|node| node.log(record.clone()));
            }
        }
    }

    fn end_one(&mut self) {
        let open: Vec<Epoch> = self.open.keys().copied().collect();
        if !open.is_empty() {
            let place = self.random.random_range(0..open.len());
            self.end(open[place]);
        }
    }

    fn end(&mut self, epoch: Epoch) {
        if self.random.random_bool(0.4) {
            self.reached(epoch).for_each(|node| node.log(LogRecord::Cut(epoch)));
            self.deletes.remove(&epoch);
        }
        self.open.remove(&epoch);
    }

    /// The second node goes, or comes back: then what it has missed ends, and it gets all bricks. Meanwhile others begin, of
    /// which it gets the rows itself.
    fn go_or_come(&mut self) {
        self.is_away = !self.is_away;
        if self.is_away {
            // What goes on without it is no business of its log.
            let open: Vec<Epoch> = self.open.keys().copied().collect();
            for epoch in open {
                self.nodes[1].log(LogRecord::Cut(epoch));
                self.open.insert(epoch, true);
            }
            return;
        }
        let missed: Vec<Epoch> = self.open.iter().filter(|(_, missed)| **missed).map(|(e, _)| *e).collect();
        missed.into_iter().for_each(|epoch| self.end(epoch));
        let ended = self.ended();
        if self.random.random() {
            // Its disk is lost.
            self.nodes[1] = Pair::new(&self.tables, self.nodes[1].left_out);
        }
        (0..6).for_each(|_| self.append());
        self.delete();
        for brick in self.bricks.clone() {
            let [giver, taker] = &mut self.nodes;
            let is_given = |(label, _): &(Epoch, BrickChange)| ended.contains(*label);
            let rows = giver.store().brick(brick).unwrap().changes().into_iter().filter(is_given).collect();
            taker.store().log(LogRecord::Copied { brick, ended: ended.clone(), rows });
            let rows = giver.model.copy_of(brick).into_iter().filter(is_given).collect();
            taker.model.apply(LogRecord::Copied { brick, ended: ended.clone(), rows });
        }
        if self.random.random() {
            // A restart shows whether what was copied is flushed as a whole.
            self.snapshots.clear();
            while !self.open.is_empty() {
                self.end_one();
            }
            self.purge();
            self.nodes[1].restart(&self.tables.clone()).unwrap();
        }
    }

    /// LSE moves as far as it may, and both purge; a node that is away does not.
    fn purge(&mut self) {
        let open = self.open.keys().next().map(|oldest| oldest.get() - 1);
        let readers = self.snapshots.iter().map(|snapshot| snapshot.horizon().get());
        let deletes = self.deletes.values().map(|seen| seen.horizon().get());
        let safe = open.into_iter().chain(readers).chain(deletes).min().unwrap_or(self.next - 1);
        self.safe = self.safe.max(Epoch::new(safe));
        let safe = self.safe;
        self.deletes.retain(|delete, _| *delete > safe);
        let count = if self.is_away { 1 } else { 2 };
        for node in self.nodes.iter_mut().take(count) {
            node.store().purge(safe);
            node.model.purge(safe);
        }
    }

    fn snapshot(&mut self) {
        let snapshot = EpochSet::through(Epoch::new(self.next - 1)).without(self.open.keys().copied());
        // Nobody is given one that lacks an open delete, and has what that does not see.
        let hides = |seen: &EpochSet| seen.horizon() < snapshot.newest();
        if !self.deletes.iter().any(|(delete, seen)| !snapshot.contains(*delete) && hides(seen)) {
            self.snapshots.push(snapshot);
        }
        // LSE would stand still behind them.
        if self.snapshots.len() > 3 {
            self.snapshots.remove(0);
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..45 => self.append(),
            45..64 => self.end_one(),
            64..69 => self.delete(),
            69..76 => self.snapshot(),
            76..84 if !self.snapshots.is_empty() => {
                let place = self.random.random_range(0..self.snapshots.len());
                self.snapshots.remove(place);
            }
            76..92 => self.purge(),
            92..95 => self.go_or_come(),
            95..97 => {
                // The process ends in the middle of a round, if one is due.
                let steps = self.random.random_range(0..12);
                let node = self.random.random_range(0..if self.is_away { 1 } else { 2 });
                self.nodes[node].store().end_after(steps, FileOrder::NewBeforeOld);
                self.purge();
                self.nodes[node].restart(&self.tables.clone()).unwrap();
            }
            _ => {
                let node = self.random.random_range(0..2);
                self.nodes[node].restart(&self.tables.clone()).unwrap();
            }
        }
    }

    /// Both nodes show what their models show; and the same as each other, if the second one is there.
    fn check(&mut self) -> Result<(), String> {
        let now = self.ended();
        for snapshot in self.snapshots.iter().chain([&now]) {
            for brick in &self.bricks {
                let count = if self.is_away { 1 } else { 2 };
                let mut shown = Vec::new();
                for node in self.nodes.iter_mut().take(count) {
                    let (seen, expected) = (node.seen(*brick, snapshot), node.expected(*brick, snapshot));
                    if seen != expected {
                        return Err(format!("{brick:?} at {snapshot}: {seen:?}, not {expected:?}"));
                    }
                    shown.push(seen);
                }
                if shown.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err(format!("{brick:?} at {snapshot} is not the same on both: {shown:?}"));
                }
            }
        }
        Ok(())
    }
}

fn run(seed: u64, left_out: Option<Rule>) -> Result<(), String> {
    let mut run = Run::new(seed, left_out);
    for step in 0..STEPS {
        run.step();
        run.check().map_err(|wrong| format!("seed {seed}, step {step}: {wrong}"))?;
    }
    Ok(())
}

#[test]
fn bricks_in_columns_show_what_the_plain_model_shows() {
    (0..24).for_each(|seed| run(seed, None).unwrap());
}

/// Rows on both sides of LSE, a delete, a cut, an earlier round; then a process that ends after so many steps of a round, or that
/// has none such left. Whether all is there after a restart, and after another round.
fn end_after(steps: usize, order: FileOrder) -> Result<IsFinished, String> {
    let mut run = Run::new(7, None);
    let append = |run: &mut Run, epochs: Range<usize>| epochs.for_each(|_| run.append());
    append(&mut run, 0..12);
    run.open.clear();
    run.purge();
    run.nodes[0].restart(&run.tables.clone())?;
    append(&mut run, 0..12);
    run.open.clear();
    run.delete();
    let delete = run.any_open();
    run.nodes[0].log(LogRecord::Cut(delete));
    run.open.clear();
    append(&mut run, 0..9);
    run.nodes[0].store().end_after(steps, order);
    run.purge();
    let tables = run.tables.clone();
    run.nodes[0].restart(&tables)?;
    let is_finished = run.nodes[0].store().flushed() == run.safe;
    run.is_away = true;
    run.check()?;
    append(&mut run, 0..3);
    run.open.clear();
    run.purge();
    run.nodes[0].restart(&tables)?;
    run.check()?;
    assert_eq!(run.nodes[0].store().flushed(), run.safe, "the next round is not hindered");
    Ok(if is_finished { IsFinished::Yes } else { IsFinished::No })
}

/// Whether a round got so far that it counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IsFinished {
    Yes,
    No,
}

#[test]
fn a_process_that_ends_within_a_round_has_all_before_it_or_all_after_it() {
    let ends: Vec<IsFinished> =
        (0..16).map(|steps| end_after(steps, FileOrder::NewBeforeOld).unwrap()).collect();
    let first = ends.iter().position(|end| *end == IsFinished::Yes).expect("a round ends at last");
    assert!(first >= 5 && ends[first..].iter().all(|end| *end == IsFinished::Yes));
    let broken = (0..16).any(|steps| end_after(steps, FileOrder::OldFirst).is_err());
    assert!(broken, "what counts is removed when something else does, and not before");
}

/// What a round has finished is there as a whole, or the store says so and is not opened.
#[test]
fn damage_in_what_was_flushed_is_no_torn_end() {
    let mut run = Run::new(9, None);
    (0..12).for_each(|_| run.append());
    run.open.clear();
    run.begin();
    (0..6).for_each(|_| run.append());
    run.purge();
    run.nodes[0].restart(&run.tables.clone()).unwrap();
    let directory = run.nodes[0].directory.path().to_owned();
    run.nodes[0].store = None;
    for name in ["bricks-2.rows", "epochs-2.log"] {
        let path = directory.join(name);
        let whole = std::fs::read(&path).unwrap();
        for at in (0..whole.len()).rev().step_by(whole.len() / 40 + 1) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, damaged).unwrap();
            assert!(open(&directory, &run.tables, None).is_err(), "byte {at} of {name}");
        }
        std::fs::write(&path, whole).unwrap();
    }
    open(&directory, &run.tables, None).unwrap();
    std::fs::remove_file(directory.join("epochs-2.log")).unwrap();
    // However often it is tried: nothing is made in the log's place, and the rows stay.
    for _ in 0..2 {
        assert!(open(&directory, &run.tables, None).is_err(), "rows without a log");
    }
    assert!(directory.join("bricks-2.rows").exists());
}

#[test]
fn a_rule_that_is_left_out_is_noticed() {
    use Rule::{
        CopiesAreFlushedAnew, CopiesLeaveTheRest, CopiesReplace, CutsTake, DeletesComeFirst, PurgeStopsAtSafe,
    };
    for rule in [
        CutsTake,
        CopiesReplace,
        CopiesLeaveTheRest,
        DeletesComeFirst,
        PurgeStopsAtSafe,
        CopiesAreFlushedAnew,
    ] {
        let noticed = (0..60).find_map(|seed| run(seed, Some(rule)).err());
        println!("{rule:?}: {}", noticed.expect("the rule is needed"));
    }
}

/// Records of dictionaries are given again by each log: one that goes on after a round, and one that has had none since.
#[test]
fn dictionaries_are_given_again() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let dictionary = DictionaryId { table: TABLES[0], column: 3 };
    let mut expected = Vec::new();
    for (number, text) in [(0, "a"), (1, "b"), (2, "c"), (3, "d")] {
        let mut store = open(directory.path(), &tables, None).unwrap();
        assert_eq!(store.take_dictionary_records(), expected);
        assert_eq!(store.take_dictionary_records(), []);
        let texts = vec![GivenText { text: Arc::from(text), layout: ViewNumber::new(7) }];
        let spellings = vec![Spelling { code: Code::new(number), text: Arc::from(text) }];
        for record in [
            DictionaryRecord::Given { dictionary, after: number, texts },
            DictionaryRecord::Learned { dictionary, spellings },
        ] {
            store.log_dictionary(record.clone());
            expected.push(record);
        }
        if number % 2 == 0 {
            let safe = Epoch::new(u64::from(number) + 1);
            assert_eq!(store.purge(safe), safe, "a round is due");
        }
        while store.has_unsynced() {
            store.sync();
            std::thread::yield_now();
        }
    }
    let mut store = open(directory.path(), &tables, None).unwrap();
    assert_eq!(store.take_dictionary_records(), expected);
}

/// To break it: have `for_round` keep the tables that are gone. What the round flushes has rows of them then, which have to be declared
/// for ever.
#[test]
fn a_table_that_is_gone_is_in_nobodys_way() {
    let [kept, gone] = TABLES;
    let (both, directory) = (tables(), tempfile::tempdir().unwrap());
    let only = || {
        let only = Tables::start(1).unwrap();
        let x = DimensionValues::Ordered { data_type: DataType::Int64, origin: -3 };
        let dimension = |name: &str, values: DimensionValues, cardinality, range_size| {
            Column::Dimension(Dimension { name: name.into(), values, cardinality, range_size })
        };
        let metric =
            |name: &str, data_type, nulls| Column::Metric(Metric { name: name.into(), data_type, nulls });
        let columns = vec![
            dimension("x", x.clone(), 6, 3),
            metric("id", DataType::Int64, Nulls::Refused),
            dimension("y", x, 4, 4),
            metric("third", DataType::Int32, Nulls::Allowed),
            metric("odd", DataType::Boolean, Nulls::Refused),
        ];
        only.declare(kept, BrickSchema::new(columns).unwrap()).unwrap();
        only
    };
    let log = |store: &mut ColumnStore, epoch: u64| {
        for table in TABLES {
            for (brick, rows) in both.rows(table, &batch(&[1, 2, 3])).unwrap() {
                store.check(brick, &rows, RowsOf::OneBrick).unwrap();
                let (epoch, rows) = (Epoch::new(epoch), BrickChange::Rows(rows));
                store.log(LogRecord::Append { epoch, number: 0, brick, rows });
            }
        }
    };
    let synced = |mut store: ColumnStore| {
        while store.has_unsynced() {
            store.sync();
            std::thread::yield_now();
        }
    };
    let mut store = open(directory.path(), &both, None).unwrap();
    log(&mut store, 1);
    synced(store);
    let refused = open(directory.path(), &only(), None).map(drop).unwrap_err();
    assert!(refused.contains(&format!("table {gone}")), "{refused}");
    let forgetting = only();
    forgetting.forget(gone);
    let mut store = open(directory.path(), &forgetting, None).unwrap();
    // Other nodes may not know yet: what they send is taken, and is nowhere.
    log(&mut store, 2);
    assert!(store.bricks().unwrap().iter().all(|brick| brick.table == kept));
    assert_eq!(store.purge(Epoch::new(2)), Epoch::new(2), "a round is due");
    synced(store);
    // Nothing says any more that there was such a table.
    let mut store = open(directory.path(), &only(), None).unwrap();
    let bricks = store.bricks().unwrap();
    let all = EpochSet::through(Epoch::new(2));
    let rows: usize = bricks.iter().map(|at| store.brick(*at).unwrap().rows(all.clone()).count()).sum();
    assert_eq!(rows, 6);
}

/// To break it: have `held` look at once and give what it has found, or leave out that it waits for what was asked for.
#[test]
fn bricks_are_counted_when_they_are_looked_at_and_without_the_store() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let log = |store: &mut ColumnStore, epoch: u64| {
        for (brick, rows) in tables.rows(TABLES[0], &batch(&[1, 2, 3])).unwrap() {
            store.check(brick, &rows, RowsOf::OneBrick).unwrap();
            let (epoch, rows) = (Epoch::new(epoch), BrickChange::Rows(rows));
            store.log(LogRecord::Append { epoch, number: 0, brick, rows });
        }
    };
    let rows = |count: CountBricks| count().unwrap().iter().map(|held| held.rows).sum::<u64>();
    let mut store = open(directory.path(), &tables, None).unwrap();
    log(&mut store, 1);
    assert_eq!(rows(store.held().unwrap()), 3);
    let early = store.held().unwrap();
    log(&mut store, 2);
    // Whoever looks at bricks waits until the rows are there.
    assert!(!store.bricks().unwrap().is_empty());
    let late = store.held().unwrap();
    drop(store);
    assert_eq!((rows(early), rows(late)), (6, 6));
}

/// To break it: leave out that a cut gives the threads what was gathered before it. It finds nothing to take then, and the rows come behind
/// it.
#[test]
fn rows_that_were_gathered_are_there_for_what_follows_in_the_same_step() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let mut store = open(directory.path(), &tables, None).unwrap();
    let log = |store: &mut ColumnStore, epoch: u64| {
        for (brick, rows) in tables.rows(TABLES[0], &batch(&[1, 2, 3])).unwrap() {
            let (epoch, rows) = (Epoch::new(epoch), BrickChange::Rows(rows));
            store.log(LogRecord::Append { epoch, number: 0, brick, rows });
        }
    };
    log(&mut store, 1);
    log(&mut store, 2);
    store.log(LogRecord::Cut(Epoch::new(2)));
    log(&mut store, 3);
    store.end_step();
    let (bricks, all) = (store.bricks().unwrap(), EpochSet::through(Epoch::new(3)));
    let rows: usize = bricks.iter().map(|at| store.brick(*at).unwrap().rows(all.clone()).count()).sum();
    assert_eq!(rows, 6);
}

/// Rows of a batch by brick.
fn rows_by_brick(tables: &Tables, ids: &[i64]) -> Vec<RoutedRows> {
    let rows = tables.rows_with_texts(TABLES[0], &batch(ids)).unwrap();
    rows.routed(&[]).unwrap().by_brick().collect()
}

/// To break it: have `note_routed` note nothing, or end a step with what was noted.
#[test]
fn rows_that_were_made_here_are_not_made_of_their_bytes_again() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let mut store = open(directory.path(), &tables, None).unwrap();
    let routed = rows_by_brick(&tables, &[1, 2, 3]);
    let bricks: Vec<BrickAddress> = routed.iter().map(|rows| rows.brick).collect();
    // Nothing could be made of these.
    let bytes = Bytes::from_static(b"no rows");
    for RoutedRows { brick, load, .. } in routed {
        store.note_routed(brick, &bytes, load);
        let rows = BrickChange::Rows(bytes.clone());
        store.log(LogRecord::Append { epoch: Epoch::new(1), number: 0, brick, rows });
    }
    let all = EpochSet::through(Epoch::new(1));
    let mut seen = Vec::new();
    for brick in &bricks {
        let rows = store.brick(*brick).unwrap().rows(all.clone());
        seen.extend(rows.batches().flat_map(|batch| ids(&batch)));
    }
    assert_eq!(sorted(seen.into_iter()), [1, 2, 3]);
    for RoutedRows { brick, load, .. } in rows_by_brick(&tables, &[4]) {
        store.note_routed(brick, &bytes, load);
        store.end_step();
        let rows = BrickChange::Rows(bytes.clone());
        store.log(LogRecord::Append { epoch: Epoch::new(2), number: 0, brick, rows });
    }
    assert!(store.failure().is_some(), "a batch is kept for no longer than a step");
}

/// To break it: have `change` note no brick but the one that the record names. The cut leaves the rows of the others.
#[test]
fn rows_of_several_bricks_are_one_record_and_come_and_go_together() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let routed = tables.rows_with_texts(TABLES[0], &batch(&[1, 2, 3, 4])).unwrap().routed(&[]).unwrap();
    assert!(routed.bricks().count() > 1);
    let nodes = vec![Vec::new(); routed.bricks().count()];
    let [rows]: [RoutedRows; 1] = routed.together(&nodes).try_into().unwrap();
    let append = |epoch| {
        let change = BrickChange::Rows(rows.bytes.clone());
        LogRecord::Append { epoch: Epoch::new(epoch), number: 0, brick: rows.brick, rows: change }
    };
    let count = |store: &mut ColumnStore| -> usize {
        let (bricks, all) = (store.bricks().unwrap(), EpochSet::through(Epoch::new(9)));
        bricks.iter().map(|at| store.brick(*at).unwrap().rows(all.clone()).count()).sum()
    };
    let mut store = open(directory.path(), &tables, None).unwrap();
    assert!(store.check(rows.brick, &rows.bytes, RowsOf::OneBrick).is_err());
    assert!(store.check(rows.brick, &rows.bytes, RowsOf::SeveralBricks).is_ok());
    store.log(append(1));
    store.log(append(2));
    store.log(LogRecord::Cut(Epoch::new(2)));
    assert_eq!(count(&mut store), 4);
    while store.has_unsynced() {
        store.sync();
        std::thread::yield_now();
    }
    drop(store);
    let mut store = open(directory.path(), &tables, None).unwrap();
    assert_eq!(count(&mut store), 4, "the same is made of the log");
}

/// Appends rows of an epoch, and begins the round that flushes them once the one before is over.
fn append_and_flush(store: &mut ColumnStore, tables: &Tables, epoch: u64, (table, count): (u64, i64)) {
    let (epoch, ids) = (Epoch::new(epoch), (1..=count).collect::<Vec<i64>>());
    for (brick, rows) in tables.rows(table, &batch(&ids)).unwrap() {
        store.check(brick, &rows, RowsOf::OneBrick).unwrap();
        store.log(LogRecord::Append { epoch, number: 0, brick, rows: BrickChange::Rows(rows) });
    }
    while store.purge(epoch) < epoch {
        std::thread::yield_now();
    }
}

/// How many files with flushed rows there are once the round is over, which a store finishes when it is dropped.
fn row_files(store: ColumnStore, directory: &Path) -> usize {
    drop(store);
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_str().is_some_and(|name| name.ends_with(".rows"))).count()
}

/// To break it: flush all rows again with each sixteenth round, or never. A large table would be written over and over for few rows that
/// come; or a start would read all that there ever was.
#[test]
fn all_rows_are_flushed_again_once_as_many_have_come_since() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let [few, many] = TABLES;
    let rounds = |epochs: Range<u64>, of: (u64, i64)| {
        let mut store = open(directory.path(), &tables, None).unwrap();
        epochs.for_each(|epoch| append_and_flush(&mut store, &tables, epoch, of));
        row_files(store, directory.path())
    };
    assert_eq!(rounds(1..2, (many, 3_000)), 1);
    assert_eq!(rounds(2..31, (few, 1)), 30, "little has come since");
    assert_eq!(rounds(31..32, (many, 3_000)), 31, "the next one sees that much has");
    assert_eq!(rounds(32..33, (few, 1)), 1);
    let mut store = open(directory.path(), &tables, None).unwrap();
    let (bricks, all) = (store.bricks().unwrap(), EpochSet::through(Epoch::new(32)));
    let rows: usize = bricks.iter().map(|at| store.brick(*at).unwrap().rows(all.clone()).count()).sum();
    assert_eq!(rows, 6_030);
}

/// To break it: leave out that a table is gone; where the store is open, or where it starts. The rows would be read by each start until
/// as many have come.
#[test]
fn rows_of_tables_that_are_gone_are_not_kept_in_files() {
    for is_open in [true, false] {
        let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
        let [few, many] = TABLES;
        let mut store = open(directory.path(), &tables, None).unwrap();
        append_and_flush(&mut store, &tables, 1, (many, 3_000));
        (2..21).for_each(|epoch| append_and_flush(&mut store, &tables, epoch, (few, 1)));
        if is_open {
            tables.forget(many);
        } else {
            assert_eq!(row_files(store, directory.path()), 20);
            tables.forget(many);
            store = open(directory.path(), &tables, None).unwrap();
        }
        append_and_flush(&mut store, &tables, 21, (few, 1));
        assert_eq!(row_files(store, directory.path()), 1, "open: {is_open}");
    }
}

/// To break it: gather rows whatever they take, or none. It would take as much memory as there may be appends under way; or wake a
/// thread for each.
#[test]
fn rows_are_gathered_up_to_some_bytes() {
    let (tables, directory) = (tables(), tempfile::tempdir().unwrap());
    let mut store = open(directory.path(), &tables, None).unwrap();
    let ids: Vec<i64> = (1..=200_000).collect();
    let large = tables.rows(TABLES[0], &batch(&ids)).unwrap();
    let small = tables.rows(TABLES[0], &batch(&[1])).unwrap();
    let (large, small) = (large.into_iter().next().unwrap(), small.into_iter().next().unwrap());
    assert!(large.1.len() > 1 << 20, "{} bytes", large.1.len());
    for (epoch, ((brick, rows), gathered)) in (1..).zip([(small.clone(), 1), (small, 2), (large, 0)]) {
        let (epoch, rows) = (Epoch::new(epoch), BrickChange::Rows(rows));
        store.log(LogRecord::Append { epoch, number: 0, brick, rows });
        assert_eq!(store.gathered(), gathered);
    }
}
