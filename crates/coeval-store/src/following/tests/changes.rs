// SPDX-License-Identifier: Apache-2.0
//! A feed of changes, applied to a model from any token on, gives exactly what the primary had behind each transaction.

use super::{COPY, copy_to, log_options, open_primary, sizes};
use crate::catalog::TableDef;
use crate::files::SimulatedFiles;
use crate::following::{
    ChangeFeed, ChangeFeedError, ChangeFeedOptions, ChangeSink, ChangeStart, ChangeToken, ChangedRow, Fed,
    FedChange, FedTransaction,
};
use crate::id_value::{row, table};
use crate::ids::SpaceId;
use crate::key::Key;
use crate::log::{LogRecord, Lsn};
use crate::model_workload::{Model, Workload};
use crate::record::{LogMark, decode_places, encode_batch};
use crate::replicas::{ReplicaChoice, SynchronousReplicas};
use crate::store::Store;
use crate::table::missing_values;
use crate::terms::ForeignHistory;
use crate::transaction::AccessMode;
use crate::value::{Value, ValueRef};
use coeval_txn::{Isolation, Version};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// Kind, version, boundary and how many; first out-edge and length of the only one.
const HEAD_OF_ONE: usize = 1 + 8 + 8 + 4 + 8 + 4;

/// The kind of a batch whose only transaction has new indexes in files.
const KIND_WITH_INDEXES: u8 = 7;

/// What a primary had and wrote, its batches put together so that many have several transactions.
struct Source {
    records: Vec<LogRecord>,
    /// The files that records name, by their names, each with the place that it has to be there for.
    files: Vec<(Lsn, String, Vec<u8>)>,
    /// What the primary had behind each transaction.
    models: Vec<Model>,
    /// A copy of before the first one.
    copy: SimulatedFiles,
}

impl Source {
    fn new(seed: u64, steps: usize) -> Self {
        let (primary_files, copy) = (SimulatedFiles::new(seed), SimulatedFiles::new(seed + 1));
        let primary = open_primary(&primary_files);
        let mut workload = Workload::new(seed).keeping_all();
        let held = primary.base_copy().unwrap();
        copy_to(&primary, &copy, Path::new(COPY));
        let mut feed = held.into_feed().unwrap();
        for step in 0..steps {
            if workload.dice.random_ratio(1, 4) {
                workload.step_bricks(&primary);
            } else {
                workload.step(&primary);
            }
            if step % 50 == 49 {
                primary.checkpoint().unwrap();
            }
        }
        let (mut single, mut named) = (Vec::new(), Vec::new());
        while feed.position() < primary.log_position().unwrap().0 {
            match feed.next_piece().unwrap() {
                Some(Fed::File(name, mut file)) => {
                    named.push((single.len(), name, file.read(usize::MAX).unwrap()))
                }
                Some(Fed::Records(records)) => single.extend(records),
                Some(Fed::Published(_) | Fed::Boundary(_)) => {}
                None => std::thread::sleep(std::time::Duration::from_millis(1)),
            }
        }
        let mut dice = StdRng::seed_from_u64(seed);
        let (records, versions) = batched(&single, &mut dice);
        // Before the record of the load, which is alone in its batch in both.
        let files = named.into_iter().map(|(index, name, bytes)| {
            let payload =
                |record: &LogRecord| decode_places(&record.payload).unwrap().map(|(_, places)| places);
            let wanted = single[index..].iter().find_map(payload).expect("a file is named by a record");
            let names_it = |record: &&LogRecord| {
                payload(record).is_some_and(|places| places == wanted && !places.is_empty())
            };
            (records.iter().find(names_it).unwrap().start(), name, bytes)
        });
        let files = files.collect();
        let all = workload.all.unwrap();
        let models = versions.iter().map(|version| all[version].clone()).collect();
        Self { records, files, models, copy }
    }

    /// The records from a place on, at most so many, and before them their files.
    fn give(
        &self,
        feed: &mut ChangeFeed,
        count: usize,
        sink: &mut Consumer<'_>,
    ) -> Result<bool, ChangeFeedError> {
        let position = feed.position();
        let first = self.records.partition_point(|record| record.start() < position);
        let records = &self.records[first..self.records.len().min(first + count)];
        let Some(last) = records.last() else { return Ok(false) };
        for (place, name, bytes) in &self.files {
            if (position..last.end).contains(place) {
                let mut file = feed.receive_file(name)?;
                file.write(bytes).unwrap();
                file.finish().unwrap();
            }
        }
        feed.take(records, sink)?;
        Ok(true)
    }
}

/// The same transactions in fewer batches, and the versions that they had.
fn batched(single: &[LogRecord], dice: &mut StdRng) -> (Vec<LogRecord>, Vec<u64>) {
    let mut records =
        Batched { records: Vec::new(), place: single[0].start(), version: Version::ZERO, bodies: Vec::new() };
    let mut versions = Vec::new();
    for record in single {
        match LogMark::of(record).unwrap() {
            LogMark::Batch(version) => {
                versions.push(version.get());
                if record.payload[0] == KIND_WITH_INDEXES {
                    records.end_batch();
                    records.push_renumbered(record.payload.clone());
                    continue;
                }
                let is_load =
                    decode_places(&record.payload).unwrap().is_some_and(|(_, places)| !places.is_empty());
                if is_load {
                    records.end_batch();
                }
                records.bodies.push(record.payload[HEAD_OF_ONE..].to_vec());
                if is_load || dice.random_ratio(1, 3) {
                    records.end_batch();
                }
            }
            mark => {
                // Versions of boundaries would be others.
                let is_boundary = mark == LogMark::Other && record.payload[0] == 3;
                if !is_boundary {
                    records.end_batch();
                    records.push(record.payload.clone());
                }
            }
        }
    }
    records.end_batch();
    (records.records, versions)
}

struct Batched {
    records: Vec<LogRecord>,
    place: Lsn,
    version: Version,
    bodies: Vec<Vec<u8>>,
}

impl Batched {
    fn end_batch(&mut self) {
        let bodies = std::mem::take(&mut self.bodies);
        if bodies.is_empty() {
            return;
        }
        let mut payload = Vec::new();
        let transactions = bodies.iter().map(|body| (None, body.as_slice()));
        encode_batch(self.version.next(), self.version, transactions, &mut payload);
        self.version = self.version.next();
        self.push(payload);
    }

    /// A batch of its own with the next version, and without an out-edge.
    fn push_renumbered(&mut self, mut payload: Vec<u8>) {
        let version = self.version.next();
        payload[1..9].copy_from_slice(&version.get().to_le_bytes());
        payload[9..17].copy_from_slice(&self.version.get().to_le_bytes());
        let late_bytes = u32::from_le_bytes(*payload[17..].first_chunk().unwrap());
        let first_out = 17 + 4 + late_bytes as usize + 4;
        payload[first_out..first_out + 8].fill(0);
        self.version = version;
        self.push(payload);
    }

    fn push(&mut self, payload: Vec<u8>) {
        let record = LogRecord::from_payload(self.place, payload);
        self.place = record.end;
        self.records.push(record);
    }
}

/// A table of a consumer: its live columns by their indexes.
#[derive(Clone, Debug, PartialEq)]
struct Held {
    def: TableDef,
    rows: BTreeMap<Key, BTreeMap<usize, Value>>,
}

/// Region and day of a row of a brick table, by its id.
type BrickRows = BTreeMap<i64, (String, i64)>;

/// What a consumer has made of the feed.
#[derive(Clone, Debug, Default, PartialEq)]
struct Database {
    tables: BTreeMap<SpaceId, Held>,
    bricks: BTreeMap<SpaceId, BrickRows>,
    transactions: usize,
}

fn values_of(def: &TableDef, row: &ChangedRow<'_>) -> BTreeMap<usize, Value> {
    def.live_columns().map(|(index, _)| (index, row.get(index).to_owned())).collect()
}

fn brick_row(row: &ChangedRow<'_>) -> (i64, (String, i64)) {
    let (ValueRef::Text(region), ValueRef::Int64(day), ValueRef::Int64(id)) =
        (row.get(0), row.get(1), row.get(2))
    else {
        panic!("{:?} {:?} {:?}", row.get(0), row.get(1), row.get(2));
    };
    (id, (region.to_owned(), day))
}

impl Database {
    fn apply(&mut self, change: &FedChange<'_>) {
        match change {
            FedChange::Defined { before, table } => self.define(*before, table),
            FedChange::Emptied { table } | FedChange::Dropped { table } => {
                let is_dropped = matches!(change, FedChange::Dropped { .. });
                if table.bricks.is_some() {
                    self.bricks.get_mut(&table.id).unwrap().clear();
                    if is_dropped {
                        self.bricks.remove(&table.id);
                    }
                    return;
                }
                self.tables.get_mut(&table.id).unwrap().rows.clear();
                if is_dropped {
                    self.tables.remove(&table.id);
                }
            }
            FedChange::Inserted { table, key: None, after } => {
                let (id, row) = brick_row(after);
                assert_eq!(self.bricks.get_mut(&table.id).unwrap().insert(id, row), None, "{id} comes twice");
            }
            FedChange::Deleted { table, key: None, before } => {
                let (id, row) = brick_row(before);
                assert_eq!(self.bricks.get_mut(&table.id).unwrap().remove(&id), Some(row), "{id} goes");
            }
            FedChange::Inserted { table, key: Some(key), after } => {
                let rows = &mut self.tables.get_mut(&table.id).unwrap().rows;
                assert_eq!(rows.insert((*key).clone(), values_of(table, after)), None, "{key:?} is new");
            }
            FedChange::Updated { table, key, before, after } => {
                let rows = &mut self.tables.get_mut(&table.id).unwrap().rows;
                let old = rows.insert((*key).clone(), values_of(table, after));
                assert_eq!(old, Some(values_of(table, before)), "{key:?} before");
            }
            FedChange::Deleted { table, key: Some(key), before } => {
                let rows = &mut self.tables.get_mut(&table.id).unwrap().rows;
                assert_eq!(rows.remove(*key), Some(values_of(table, before)), "{key:?} before");
            }
        }
    }

    fn define(&mut self, before: Option<&TableDef>, table: &TableDef) {
        if table.bricks.is_some() {
            self.bricks.entry(table.id).or_default();
            return;
        }
        let Some(held) = self.tables.get_mut(&table.id) else {
            assert!(before.is_none(), "{} is not known", table.name);
            self.tables.insert(table.id, Held { def: table.clone(), rows: BTreeMap::new() });
            return;
        };
        assert_eq!(before.map(|before| &before.name), Some(&held.def.name));
        held.def = table.clone();
        let missing = missing_values(table);
        for row in held.rows.values_mut() {
            let is_live = |index: &usize| table.columns[*index].is_live();
            row.retain(|index, _| is_live(index));
            for (index, _) in table.live_columns() {
                row.entry(index).or_insert_with(|| missing[index].clone());
            }
        }
    }

    fn check(&self, model: &Model) {
        assert!(self.tables.keys().eq(model.tables.keys()), "{:?}", self.tables.keys());
        for (id, held) in &self.tables {
            let model = &model.tables[id];
            let live: Vec<usize> = model.def.live_columns().map(|(index, _)| index).collect();
            let rows = model.rows.iter().map(|(key, values)| {
                (key.clone(), live.iter().map(|index| (*index, values[*index].clone())).collect())
            });
            let rows: BTreeMap<Key, BTreeMap<usize, Value>> = rows.collect();
            assert_eq!(held.rows, rows, "table {} ({})", model.def.name, held.def.name);
        }
        let bricks: BTreeMap<SpaceId, BrickRows> =
            model.bricks.iter().map(|(id, model)| (*id, model.rows.clone())).collect();
        assert_eq!(self.bricks, bricks);
    }
}

/// Takes a feed into a model.
struct Consumer<'m> {
    models: &'m [Model],
    database: Database,
    /// The tokens that it was given, with what it had there.
    given: Vec<(ChangeToken, Database)>,
    idle: Option<ChangeToken>,
    changes: BTreeMap<&'static str, u64>,
}

impl<'m> Consumer<'m> {
    fn new(models: &'m [Model]) -> Self {
        Self {
            models,
            database: Database::default(),
            given: Vec::new(),
            idle: None,
            changes: BTreeMap::new(),
        }
    }
}

impl ChangeSink for Consumer<'_> {
    fn wants(&self, _: &TableDef) -> bool {
        true
    }

    fn change(&mut self, _: &FedTransaction, change: &FedChange<'_>) -> io::Result<()> {
        let kind = match change {
            FedChange::Inserted { key: None, .. } => "brick insert",
            FedChange::Deleted { key: None, .. } => "brick delete",
            FedChange::Inserted { .. } => "insert",
            FedChange::Updated { .. } => "update",
            FedChange::Deleted { .. } => "delete",
            FedChange::Emptied { .. } => "empty",
            FedChange::Defined { .. } => "define",
            FedChange::Dropped { .. } => "drop",
        };
        *self.changes.entry(kind).or_default() += 1;
        self.database.apply(change);
        Ok(())
    }

    fn end(&mut self, transaction: &FedTransaction) -> io::Result<()> {
        self.database.check(&self.models[self.database.transactions]);
        self.database.transactions += 1;
        if let Some((last, _)) = self.given.last() {
            assert!(last.place() < transaction.token.place(), "{last} {}", transaction.token);
        }
        assert_eq!(transaction.token.to_string().parse(), Ok(transaction.token));
        self.given.push((transaction.token, self.database.clone()));
        Ok(())
    }

    fn idle(&mut self, reached: &ChangeToken) -> io::Result<()> {
        self.idle = Some(*reached);
        Ok(())
    }
}

fn open(files: &SimulatedFiles, start: ChangeStart, kept_bytes: u64) -> Result<ChangeFeed, ChangeFeedError> {
    let options = ChangeFeedOptions { kept_bytes, data_memory: None };
    let files = Arc::new(files.clone());
    ChangeFeed::open_tuned(files, Path::new(COPY), start, options, (log_options(), sizes()))
}

/// A consumer that dies and goes on from a token that it was given, as the feed's process does.
struct Feeding<'s> {
    source: &'s Source,
    files: SimulatedFiles,
    feed: Option<ChangeFeed>,
    consumer: Consumer<'s>,
    begun_with: Option<ChangeToken>,
    kept: u64,
    dice: StdRng,
    resumed: [u64; 3],
}

impl<'s> Feeding<'s> {
    fn new(source: &'s Source, seed: u64, kept: u64) -> Self {
        let files = source.copy.copy();
        let feed = Some(open(&files, ChangeStart::Oldest, kept).unwrap());
        let dice = StdRng::seed_from_u64(seed);
        let consumer = Consumer::new(&source.models);
        Self { source, files, feed, consumer, begun_with: None, kept, dice, resumed: [0; 3] }
    }

    fn run(&mut self) {
        loop {
            let count = self.dice.random_range(1..8);
            let mut feed = self.feed.take().unwrap();
            if !self.source.give(&mut feed, count, &mut self.consumer).unwrap() {
                feed.idle(&mut self.consumer).unwrap();
                break;
            }
            let reached = feed.reached();
            self.feed = Some(feed);
            if self.dice.random_ratio(1, 4) {
                self.resume(reached);
            }
        }
    }

    /// Dies, and goes on from one of the last tokens.
    fn resume(&mut self, reached: ChangeToken) {
        // It is closed first one time in three: that makes durable what was not.
        if self.dice.random_ratio(1, 3) {
            self.feed = None;
        }
        self.files = if self.dice.random() { self.files.crash() } else { self.files.restart() };
        self.feed = None;
        while !self.consumer.given.is_empty() {
            let last = self.consumer.given.len() - 1;
            let index = last - self.dice.random_range(0..12).min(last);
            let (token, database) = self.consumer.given[index].clone();
            match open(&self.files, ChangeStart::Behind(token), self.kept) {
                Ok(mut feed) => {
                    assert!(feed.position() >= token.end, "what was given with {token} is durable here");
                    self.resumed[usize::from(token.transactions.is_some())] += 1;
                    self.consumer.given.truncate(index + 1);
                    self.consumer.database = database;
                    feed.catch_up(&mut self.consumer).unwrap();
                    self.begun_with = Some(token);
                    self.feed = Some(feed);
                    return;
                }
                Err(ChangeFeedError::TooOld { .. }) => {
                    self.resumed[2] += 1;
                    self.may_be_too_old(token, reached);
                }
                Err(error) => panic!("{error}"),
            }
        }
        // It was given nothing yet.
        self.consumer.database = Database::default();
        let mut feed = open(&self.files, ChangeStart::Oldest, self.kept).unwrap();
        feed.catch_up(&mut self.consumer).unwrap();
        self.feed = Some(feed);
    }

    /// What is promised of how far back tokens reach.
    fn may_be_too_old(&self, token: ChangeToken, reached: ChangeToken) {
        let behind = reached.end.get() - token.end.get();
        let is_older = self.begun_with.is_some_and(|begun| token.place() < begun.place());
        assert!(
            is_older || behind >= self.kept / 2,
            "{token} is {behind} bytes before {reached}, of {}",
            self.kept
        );
    }
}

/// Seen to fail if transactions of a batch are given with the batch's token, if what is given begins with the batch of the
/// token, if a row before is looked up in the world of the batch before, and if the base moves to the end of the log.
#[test]
fn a_feed_goes_on_from_any_token_with_nothing_lost_or_twice() {
    let (mut resumed, mut changes) = ([0; 3], BTreeMap::<&str, u64>::new());
    for seed in 0..16 {
        let source = Source::new(seed * 2 + 1_000, 160);
        for kept in [1 << 30, 6_000] {
            let mut feeding = Feeding::new(&source, seed, kept);
            feeding.run();
            assert_eq!(feeding.consumer.database.transactions, source.models.len(), "seed {seed}");
            assert_eq!(
                feeding.consumer.idle.unwrap().place(),
                feeding.consumer.given.last().unwrap().0.place()
            );
            (0..3).for_each(|kind| resumed[kind] += feeding.resumed[kind]);
            feeding
                .consumer
                .changes
                .iter()
                .for_each(|(kind, count)| *changes.entry(kind).or_default() += count);
        }
    }
    // How transactions fall into batches is up to the machine.
    assert!(resumed.iter().all(|count| *count > 5), "behind batches, within them, too old: {resumed:?}");
    let kinds = ["insert", "update", "delete", "brick insert", "brick delete", "empty", "define", "drop"];
    assert!(kinds.iter().all(|kind| changes.get(kind).copied().unwrap_or(0) > 5), "{changes:?}");
}

#[test]
fn a_feed_ends_behind_the_token_that_it_is_to_end_with() {
    let source = Source::new(7, 120);
    let mut all = Consumer::new(&source.models);
    let mut feed = open(&source.copy.copy(), ChangeStart::Oldest, 0).unwrap();
    while source.give(&mut feed, 100, &mut all).unwrap() {}
    let whole = all.given.iter().position(|(token, _)| token.transactions.is_none()).unwrap();
    let part = all.given.iter().position(|(token, _)| token.transactions.is_some()).unwrap();
    for (first, last) in [(whole, all.given.len() - 5), (part, part), (0, part), (part, whole.max(part) + 3)]
    {
        let (from, to) = (all.given[first].0, all.given[last].0);
        let mut consumer = Consumer::new(&source.models);
        consumer.database = all.given[first].1.clone();
        let start = ChangeStart::Behind(from);
        let mut feed = open(&source.copy.copy(), start, 0).unwrap().until(to);
        while !feed.is_done() && source.give(&mut feed, 3, &mut consumer).unwrap() {}
        assert!(feed.is_done(), "{from} to {to}");
        let given: Vec<ChangeToken> = consumer.given.iter().map(|(token, _)| *token).collect();
        let wanted: Vec<ChangeToken> = all.given[first + 1..=last].iter().map(|(token, _)| *token).collect();
        assert_eq!(given, wanted, "{from} to {to}");
    }
}

#[test]
fn a_feed_that_begins_later_gives_nothing_of_before() {
    let source = Source::new(9, 60);
    let mut consumer = Consumer::new(&source.models);
    let mut feed = open(&source.copy.copy(), ChangeStart::Later, 0).unwrap();
    for _ in 0..5 {
        assert!(source.give(&mut feed, 4, &mut consumer).unwrap());
        feed.idle(&mut consumer).unwrap();
    }
    assert_eq!((consumer.given.len(), consumer.idle), (0, None));
    let version = feed.version();
    // What it has taken in silence.
    let records = source.records.iter().filter(|record| record.end <= feed.position());
    let batches = records.filter(|record| matches!(LogMark::of(record).unwrap(), LogMark::Batch(_)));
    let count = |record: &LogRecord| match record.payload[0] {
        KIND_WITH_INDEXES => 1,
        _ => u32::from_le_bytes(record.payload[17..21].try_into().unwrap()) as usize,
    };
    let before: usize = batches.map(count).sum();
    let mut whole = Consumer::new(&source.models);
    let mut other = open(&source.copy.copy(), ChangeStart::Oldest, 0).unwrap();
    while other.version() < version {
        source.give(&mut other, 1, &mut whole).unwrap();
    }
    assert_eq!(whole.database.transactions, before);
    consumer.database = whole.database;
    feed.begin_here();
    while source.give(&mut feed, 4, &mut consumer).unwrap() {}
    assert_eq!(consumer.database.transactions, source.models.len());
    assert_eq!(consumer.given.len(), source.models.len() - before);
}

/// A primary with a checkpoint in the middle of its log, and everything that a feed of it gives.
#[test]
fn a_store_gives_what_its_own_files_have() {
    let (primary_files, copy) = (SimulatedFiles::new(3), SimulatedFiles::new(4));
    let primary = open_primary(&primary_files);
    let mut workload = Workload::new(5).keeping_all();
    let mut log = primary.base_copy().unwrap().into_feed().unwrap();
    copy_to(&primary, &copy, Path::new(COPY));
    let mut steps = |count| {
        for step in 0..count {
            if step % 4 == 0 {
                workload.step_bricks(&primary)
            } else {
                workload.step(&primary)
            };
        }
    };
    steps(60);
    primary.checkpoint().unwrap();
    let checkpoint = primary.world().version();
    steps(60);
    let models: Vec<Model> = workload.all.as_ref().unwrap().values().skip(1).cloned().collect();
    let newest = primary.world().version();
    let mut all = Consumer::new(&models);
    let mut feed = open(&copy, ChangeStart::Oldest, 0).unwrap();
    while feed.version() < newest {
        match log.next_piece().unwrap() {
            Some(Fed::File(name, mut file)) => {
                let mut received = feed.receive_file(&name).unwrap();
                received.write(&file.read(usize::MAX).unwrap()).unwrap();
                received.finish().unwrap();
            }
            Some(Fed::Records(records)) => feed.take(&records, &mut all).unwrap(),
            Some(Fed::Published(_) | Fed::Boundary(_)) => {}
            None => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    }
    let (mut whole, mut old) = (0, 0);
    for (index, (token, database)) in all.given.iter().enumerate().step_by(7) {
        let until = all.given.get(index + 9).map(|(token, _)| *token);
        for until in [None, until] {
            let mut consumer = Consumer::new(&models);
            consumer.database = database.clone();
            match primary.changes(*token, until, newest, &mut consumer) {
                Ok(()) => {
                    let last = until.map_or(all.given.len(), |_| index + 10);
                    let wanted = all.given[index + 1..last].iter().map(|(token, _)| *token);
                    assert!(
                        consumer.given.iter().map(|(token, _)| *token).eq(wanted),
                        "{token} to {until:?}"
                    );
                    whole += 1;
                }
                Err(ChangeFeedError::TooOld { oldest, .. }) => {
                    assert!(token.version < checkpoint && oldest == checkpoint, "{token}");
                    old += 1;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    assert!(whole > 6 && old > 6, "{whole} {old}");
    // It is as it was, and goes on.
    primary.checkpoint().unwrap();
    workload.model.check(&primary.world()).unwrap();
}

/// Commits a row, and takes everything that is there.
fn commit_and_give(
    primary: &Store,
    def: &TableDef,
    value: i32,
    feed: &mut ChangeFeed,
    sink: &mut dyn ChangeSink,
) -> Result<(), ChangeFeedError> {
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.put(def.id, row(def, value, value)).unwrap();
    transaction.commit().unwrap();
    let terms = feed.terms().last().map(|term| term.id);
    let mut log = primary.log_feed(terms, feed.position()).unwrap();
    while let Some(fed) = log.next_piece().unwrap() {
        if let Fed::Records(records) = fed {
            feed.take(&records, sink)?;
        }
    }
    Ok(())
}

/// Takes tokens alone.
#[derive(Default)]
struct Tokens(Vec<ChangeToken>);

impl ChangeSink for Tokens {
    fn wants(&self, _: &TableDef) -> bool {
        true
    }

    fn change(&mut self, _: &FedTransaction, _: &FedChange<'_>) -> io::Result<()> {
        Ok(())
    }

    fn end(&mut self, transaction: &FedTransaction) -> io::Result<()> {
        self.0.push(transaction.token);
        Ok(())
    }

    fn idle(&mut self, _: &ChangeToken) -> io::Result<()> {
        Ok(())
    }
}

/// Waits for what is to come so many times, and no longer.
struct Impatient(u32);

impl ChangeSink for Impatient {
    fn wants(&self, _: &TableDef) -> bool {
        true
    }

    fn change(&mut self, _: &FedTransaction, _: &FedChange<'_>) -> io::Result<()> {
        panic!("a replica may have lost it")
    }

    /// The list of replicas is a transaction, which changes no table.
    fn end(&mut self, _: &FedTransaction) -> io::Result<()> {
        Ok(())
    }

    fn idle(&mut self, _: &ChangeToken) -> io::Result<()> {
        Ok(())
    }

    fn look(&mut self) -> io::Result<()> {
        self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::Interrupted)?;
        Ok(())
    }
}

/// Fails, without an end, if whoever waits is not asked: `coeval_changes()` on a database that was opened while its replica was away could not be
/// cancelled, and a server that was to stop waited for it.
#[test]
fn who_asks_for_changes_that_a_replica_has_to_have_first_may_give_up() {
    let files = SimulatedFiles::new(3);
    let primary = open_primary(&files);
    let def = table(&primary, "items");
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(crate::catalog::CatalogChange::PutTable(Box::new(def))).unwrap();
    transaction.commit().unwrap();
    let any = SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec!["*".to_owned()],
        primary: String::new(),
        before: Vec::new(),
    };
    primary.require_replicas(Some(any)).unwrap();
    drop(primary);

    let primary = open_primary(&files);
    assert!(!primary.has_confirmed(), "nobody has come");
    let newest = primary.world().version();
    assert!(newest > Version::ZERO, "readers here see it");
    let start =
        ChangeToken { number: 0, term: 0, end: Lsn::START, version: Version::ZERO, transactions: None };
    let mut sink = Impatient(3);
    match primary.changes(start, None, newest, &mut sink) {
        Err(ChangeFeedError::Output(why)) => assert_eq!(why.kind(), io::ErrorKind::Interrupted),
        other => panic!("{other:?}"),
    }
    assert_eq!(sink.0, 0, "it was waited for meanwhile");
}

#[test]
fn a_token_of_a_history_that_was_left_is_refused_before_anything_is_given() {
    let (primary_files, copy) = (SimulatedFiles::new(1), SimulatedFiles::new(2));
    let primary = open_primary(&primary_files);
    let def = table(&primary, "items");
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(crate::catalog::CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.commit().unwrap();
    primary.checkpoint().unwrap();
    copy_to(&primary, &copy, Path::new(COPY));
    drop(primary);
    // Two go on from one place, and number their versions alike.
    let (left_files, left_copy) = (primary_files.copy(), copy.copy());
    let (left, right) = (open_primary(&left_files), open_primary(&primary_files));
    let mut tokens = Tokens::default();
    let mut feed = open(&left_copy, ChangeStart::Oldest, 0).unwrap();
    commit_and_give(&left, &def, 1, &mut feed, &mut tokens).unwrap();
    commit_and_give(&left, &def, 2, &mut feed, &mut tokens).unwrap();
    let of_left = tokens.0[1];
    drop(feed);

    let mut given = Tokens::default();
    let mut feed = open(&copy, ChangeStart::Behind(of_left), 0).unwrap();
    commit_and_give(&right, &def, 3, &mut feed, &mut given).unwrap();
    let refused = commit_and_give(&right, &def, 4, &mut feed, &mut given);
    let refused = refused.and_then(|()| commit_and_give(&right, &def, 5, &mut feed, &mut given)).unwrap_err();
    let is_foreign = matches!(
        &refused,
        ChangeFeedError::Foreign { token, history: ForeignHistory::UnknownTerm { .. } } if *token == of_left
    );
    assert!(is_foreign, "{refused}");
    assert!(given.0.is_empty());
    drop(feed);
    // One that is older than the copy is told so.
    let old = ChangeToken { version: Version::ZERO, ..of_left };
    let refused = open(&copy, ChangeStart::Behind(old), 0).unwrap_err();
    assert!(matches!(refused, ChangeFeedError::TooOld { .. }), "{refused}");
}

/// A superuser who was let in behind a crash asked what had changed. Replicas were away, so it was waited for without an end, which no
/// cancel and no timeout reached. Fails by waiting for ever.
#[test]
fn who_waits_for_what_is_not_published_may_end_that() {
    let files = SimulatedFiles::new(1);
    let primary = open_primary(&files);
    let def = table(&primary, "items");
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(crate::catalog::CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    let version = transaction.commit().unwrap().version;
    let (term, (end, _)) = (primary.terms().last().unwrap(), primary.log_position().unwrap());
    let token = ChangeToken { number: term.number, term: term.id, end, version, transactions: None };
    let nobody = SynchronousReplicas {
        count: 1,
        choice: ReplicaChoice::Any,
        names: vec!["nobody".to_owned()],
        primary: String::new(),
        before: Vec::new(),
    };
    primary.require_replicas(Some(nobody)).unwrap();
    let mut transaction = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.put(def.id, row(&def, 1, 1)).unwrap();
    let unpublished = transaction.commit_applied().unwrap().version;
    let mut sink = Impatient(3);
    let outcome = primary.changes(token, None, unpublished, &mut sink);
    assert!(matches!(&outcome, Err(ChangeFeedError::Output(_))), "{outcome:?}");
    assert_eq!(sink.0, 0);
}
