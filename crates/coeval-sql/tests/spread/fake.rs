// SPDX-License-Identifier: Apache-2.0
//! A cluster in memory: what all nodes share, and a node. Loads are seen as a whole by snapshots that begin behind their commit; a
//! delete takes what it sees.
//!
//! Nodes do pieces of each other's queries once they are told each other's engines. Each brick is then on two of them, and a node reads
//! those of others as rows only by asking for them, which is noted; whatever it is sent of pieces is counted.
//!
//! Its tables have a dimension `day`, of integers from 0 on, and perhaps `region`, of texts; other columns are metrics.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use bytes::Bytes;
use coeval_sql::{
    Cluster, ClusterAges, ClusterDelete, ClusterLoad, ClusterNamedLoad, ClusterNodeRoles, ClusterNodeShare,
    ClusterNodeState, ClusterNodeStatus, ClusterSnapshot, CommitMode, Engine, PieceOrder, PlacedBricks,
    SqlError, SqlState, run_piece,
};
use coeval_store::BrickSchema;
use coeval_txn::Epoch;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What becomes of the next commit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NextCommit {
    #[default]
    Decided,
    /// It is rolled back, and may be run again.
    RolledBack,
    /// Nobody hears of it.
    Silent,
}

/// What is wrong with a node that is to do a piece of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Nobody answers.
    Gone,
    /// It goes while its answer is on its way.
    Goes,
    /// It goes behind so many bytes of its answer, and is gone from then on.
    GoesBehind(usize),
}

/// How nodes do pieces of each other's queries: not at all, without engines.
#[derive(Debug, Default)]
struct Pieces {
    /// Of nodes 1, 2, ...
    engines: Vec<Weak<Engine>>,
    troubles: BTreeMap<u32, Trouble>,
    /// Who has been asked.
    asked: Vec<u32>,
    /// What was sent of all pieces.
    bytes: usize,
}

impl Pieces {
    /// The two nodes that have a brick.
    fn holders(&self, brick: u64) -> [u32; 2] {
        let count = self.engines.len() as u64;
        [brick % count, (brick + 1) % count].map(|place| u32::try_from(place).unwrap() + 1)
    }
}

/// What all nodes have.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    pieces: Arc<Mutex<Pieces>>,
    state: Mutex<State>,
    /// Snapshots, loads and deletes that nobody has dropped.
    open: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    rows: Vec<Run>,
    /// How many transactions have been committed.
    commits: u64,
    /// The newest load that rows have named, or may have.
    named: u64,
    /// Loads that rows have named are not decided yet.
    holds_decisions: bool,
    modes: Vec<CommitMode>,
    regions: Vec<String>,
    next: NextCommit,
    reads: Vec<(u64, Vec<usize>)>,
    answers: Answers,
    /// How often nodes were asked what they have.
    share_questions: usize,
}

/// Which nodes say what they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Answers {
    #[default]
    All,
    /// The first one alone.
    First,
    /// Nobody, and it is waited for.
    Never,
}

/// Rows of one load in one brick.
#[derive(Debug)]
struct Run {
    table: u64,
    brick: u64,
    rows: RecordBatch,
    from: u64,
    until: Option<u64>,
}

impl Shared {
    pub(crate) fn set_next(&self, next: NextCommit) {
        self.state.lock().next = next;
    }

    pub(crate) fn set_answers(&self, answers: Answers) {
        self.state.lock().answers = answers;
    }

    /// How often nodes were asked what they have since the last time.
    pub(crate) fn take_share_questions(&self) -> usize {
        std::mem::take(&mut self.state.lock().share_questions)
    }

    /// What commits have waited for, in their order.
    pub(crate) fn modes(&self) -> Vec<CommitMode> {
        self.state.lock().modes.clone()
    }

    /// From now on loads whose rows are there wait.
    pub(crate) fn hold_decisions(&self) {
        self.state.lock().holds_decisions = true;
    }

    /// They go on.
    pub(crate) fn go_on_deciding(&self) {
        self.state.lock().holds_decisions = false;
    }

    /// The age that rows can name now: the number of the last commit.
    pub(crate) fn newest_age(&self) -> Epoch {
        Epoch::new(self.state.lock().commits)
    }

    /// From now on nodes do pieces of each other's queries; of none, not any more.
    pub(crate) fn set_engines(&self, engines: &[Arc<Engine>]) {
        self.pieces.lock().engines = engines.iter().map(Arc::downgrade).collect();
    }

    pub(crate) fn set_troubles(&self, troubles: &[(u32, Trouble)]) {
        self.pieces.lock().troubles = troubles.iter().copied().collect();
    }

    /// The nodes that are gone.
    pub(crate) fn gone(&self) -> Vec<u32> {
        let pieces = self.pieces.lock();
        let gone = pieces.troubles.iter().filter(|(_, trouble)| **trouble == Trouble::Gone);
        gone.map(|(node, _)| *node).collect()
    }

    /// Who was asked for pieces since the last time, and how many bytes were sent of them.
    pub(crate) fn take_pieces(&self) -> (Vec<u32>, usize) {
        let mut pieces = self.pieces.lock();
        (std::mem::take(&mut pieces.asked), std::mem::take(&mut pieces.bytes))
    }

    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// The bricks that were read since the last time, with their columns.
    pub(crate) fn take_reads(&self) -> Vec<(u64, Vec<usize>)> {
        std::mem::take(&mut self.state.lock().reads)
    }

    fn opened(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::SeqCst);
        Open(Arc::clone(self))
    }
}

/// Something that is not over.
#[derive(Debug)]
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The brick of a row, of its dimensions.
type BrickOf = Box<dyn Fn(&[u64]) -> u64 + Send + Sync>;

/// A table as a node knows it.
struct Known {
    types: Vec<DataType>,
    names: Vec<String>,
    brick_of: BrickOf,
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("names", &self.names).finish_non_exhaustive()
    }
}

type Tables = Arc<Mutex<BTreeMap<u64, Arc<Known>>>>;

/// One node. The first has the keeper of views.
#[derive(Debug)]
pub(crate) struct Node {
    shared: Arc<Shared>,
    tables: Tables,
    number: u32,
    ages: Ages,
}

/// What readers of rows see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ages {
    /// Rows name none.
    None,
    /// What their rows name.
    Named,
    /// What there is, whatever their rows name: as if there was no such rule.
    Ignored,
}

impl Node {
    pub(crate) fn first(shared: &Arc<Shared>) -> Arc<Self> {
        Self::numbered(shared, 1)
    }

    /// The first one, whose readers of rows go by ages.
    pub(crate) fn with_ages(shared: &Arc<Shared>, ages: Ages) -> Arc<Self> {
        let first = Self::first(shared);
        Arc::new(Self { ages, ..Arc::into_inner(first).unwrap() })
    }

    pub(crate) fn another(shared: &Arc<Shared>) -> Arc<Self> {
        Self::numbered(shared, 2)
    }

    pub(crate) fn numbered(shared: &Arc<Shared>, number: u32) -> Arc<Self> {
        Arc::new(Self { shared: Arc::clone(shared), tables: Tables::default(), number, ages: Ages::None })
    }

    fn seen_now(&self) -> Snapshot {
        Snapshot::now(&self.shared, &self.tables, self.number)
    }

    /// The columns of the tables that are declared here.
    pub(crate) fn declared(&self) -> Vec<Vec<String>> {
        self.tables.lock().values().map(|known| known.names.clone()).collect()
    }
}

fn known_of(tables: &Tables, table: u64) -> Result<Arc<Known>, SqlError> {
    let known = tables.lock().get(&table).cloned();
    known.ok_or_else(|| SqlError::internal(format!("table {table} is not declared")))
}

impl Cluster for Node {
    fn replicas(&self) -> usize {
        2
    }

    fn declare(&self, table: u64, schema: &BrickSchema) -> Result<(), SqlError> {
        let layout = schema.layout().clone();
        let columns = schema.columns();
        let known = Known {
            types: columns.iter().map(|column| column.data_type().clone()).collect(),
            names: columns.iter().map(|column| column.name().to_owned()).collect(),
            brick_of: Box::new(move |ordinals: &[u64]| layout.brick(ordinals).get()),
        };
        self.tables.lock().insert(table, Arc::new(known));
        Ok(())
    }

    fn snapshot(&self) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>> {
        let taken: Arc<dyn ClusterSnapshot> = Arc::new(self.seen_now());
        async { Ok(taken) }.boxed()
    }

    fn ages(&self) -> Option<&dyn ClusterAges> {
        (self.ages != Ages::None).then_some(self as &dyn ClusterAges)
    }

    fn load(&self) -> BoxFuture<'_, Result<Box<dyn ClusterLoad>, SqlError>> {
        let load: Box<dyn ClusterLoad> =
            Box::new(Load { open: self.shared.opened(), tables: Arc::clone(&self.tables), rows: Vec::new() });
        async { Ok(load) }.boxed()
    }

    fn delete(&self) -> BoxFuture<'_, Result<Box<dyn ClusterDelete>, SqlError>> {
        let begun: Result<Box<dyn ClusterDelete>, SqlError> = if self.number == 1 {
            let seen = Arc::new(self.seen_now());
            Ok(Box::new(Delete { open: self.shared.opened(), seen, bricks: Vec::new() }))
        } else {
            Err(SqlError::unsupported("deleting bricks here").with_hint("Connect to n1.example."))
        };
        async { begun }.boxed()
    }

    fn nodes(&self) -> Vec<ClusterNodeStatus> {
        let is_first = |number: u32| number == 1;
        let status = |number: u32| ClusterNodeStatus {
            node: number,
            address: Some(format!("n{number}.example:7001")),
            roles: ClusterNodeRoles {
                is_own: number < 3 && is_first(number) == (self.number == 1),
                has_keeper: is_first(number),
            },
            state: if number < 3 { ClusterNodeState::Live } else { ClusterNodeState::Away },
            connection: None,
            queued_bytes: 0,
            last_error: None,
            copied_bytes: None,
        };
        (1..=3).map(status).collect()
    }

    /// The first has all, and the second does not know what is to come to it. A third one says nothing.
    fn shares(&self) -> BoxFuture<'_, BTreeMap<u32, ClusterNodeShare>> {
        let mut state = self.shared.state.lock();
        state.share_questions += 1;
        let bricks: BTreeSet<(u64, u64)> = state.rows.iter().map(|run| (run.table, run.brick)).collect();
        let rows: u64 = state.rows.iter().map(|run| run.rows.num_rows() as u64).sum();
        let first = ClusterNodeShare { bricks: bricks.len() as u64, rows, bytes: 8 * rows, to_come: Some(0) };
        let shares = match state.answers {
            Answers::All => BTreeMap::from([(1, first), (2, ClusterNodeShare::default())]),
            Answers::First => BTreeMap::from([(1, first)]),
            Answers::Never => return std::future::pending().boxed(),
        };
        async { shares }.boxed()
    }
}

impl ClusterAges for Node {
    fn newest(&self) -> Option<Epoch> {
        Some(self.shared.newest_age())
    }

    fn newest_with_rows(&self) -> Epoch {
        Epoch::new(self.shared.state.lock().named)
    }

    fn snapshot_at(&self, age: Epoch) -> BoxFuture<'_, Result<Arc<dyn ClusterSnapshot>, SqlError>> {
        let ends = self.shared.newest_age().max(self.newest_with_rows());
        assert!(age <= ends, "rows name what has ended, or is about to");
        async move {
            while self.shared.newest_age() < age {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let now = self.seen_now();
            let commits = if self.ages == Ages::Ignored { now.commits } else { age.get() };
            let taken: Arc<dyn ClusterSnapshot> = Arc::new(Snapshot { commits, ..now });
            Ok(taken)
        }
        .boxed()
    }
}

#[derive(Debug)]
struct Snapshot {
    open: Open,
    tables: Tables,
    commits: u64,
    /// Whose it is.
    node: u32,
}

/// The same on another node that does a piece: what it reads is nothing that travels.
#[derive(Debug)]
struct There(Snapshot);

impl ClusterSnapshot for There {
    fn bricks(&self, table: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>> {
        self.0.bricks(table)
    }

    fn rows(
        &self,
        table: u64,
        brick: u64,
        columns: Vec<usize>,
    ) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        let holders = self.0.open.0.pieces.lock().holders(brick);
        assert!(holders.contains(&self.0.node), "brick {brick} is not on node {}", self.0.node);
        async move { self.0.read(table, brick, &columns) }.boxed()
    }

    fn run(&self, order: PieceOrder) -> BoxStream<'static, Result<Bytes, SqlError>> {
        self.0.run(order)
    }
}

impl Snapshot {
    fn now(shared: &Arc<Shared>, tables: &Tables, node: u32) -> Self {
        let commits = shared.state.lock().commits;
        Self { open: shared.opened(), tables: Arc::clone(tables), commits, node }
    }

    /// What another node sees that does a piece for this one.
    fn there(&self, node: u32) -> There {
        let (open, tables) = (self.open.0.opened(), Arc::clone(&self.tables));
        There(Self { open, tables, commits: self.commits, node })
    }

    fn sees(&self, run: &Run) -> bool {
        run.from <= self.commits && run.until.is_none_or(|until| until > self.commits)
    }

    fn read(&self, table: u64, brick: u64, columns: &[usize]) -> Result<Vec<RecordBatch>, SqlError> {
        let known = known_of(&self.tables, table)?;
        let state = self.open.0.state.lock();
        let runs = state.rows.iter().filter(|run| run.table == table && run.brick == brick && self.sees(run));
        let batches = runs.map(|run| {
            let column = |column: &usize| -> ArrayRef {
                // Rows from before a column was added.
                run.rows
                    .columns()
                    .get(*column)
                    .map_or_else(|| new_null_array(&known.types[*column], run.rows.num_rows()), Arc::clone)
            };
            let arrays: Vec<ArrayRef> = columns.iter().map(column).collect();
            let fields = columns
                .iter()
                .map(|column| Field::new(&known.names[*column], known.types[*column].clone(), true));
            let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
            let options = RecordBatchOptions::new().with_row_count(Some(run.rows.num_rows()));
            Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
        });
        batches.collect()
    }
}

impl ClusterSnapshot for Snapshot {
    fn bricks(&self, table: u64) -> BoxFuture<'_, Result<Vec<u64>, SqlError>> {
        let state = self.open.0.state.lock();
        let runs = state.rows.iter().filter(|run| run.table == table);
        let mut bricks: Vec<u64> = runs.map(|run| run.brick).collect();
        bricks.sort_unstable();
        bricks.dedup();
        async { Ok(bricks) }.boxed()
    }

    fn rows(
        &self,
        table: u64,
        brick: u64,
        columns: Vec<usize>,
    ) -> BoxFuture<'_, Result<Vec<RecordBatch>, SqlError>> {
        self.open.0.state.lock().reads.push((brick, columns.clone()));
        async move { self.read(table, brick, &columns) }.boxed()
    }

    fn place(&self, _: u64, bricks: &[u64], without: &[u32]) -> Vec<PlacedBricks> {
        let pieces = self.open.0.pieces.lock();
        let mut placed: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for brick in bricks.iter().filter(|_| !pieces.engines.is_empty()) {
            let holders = pieces.holders(*brick);
            let own = holders.into_iter().find(|node| *node == self.node);
            let able = own.or_else(|| holders.into_iter().find(|node| !without.contains(node)));
            if let Some(node) = able {
                placed.entry(node).or_default().push(*brick);
            }
        }
        let of = |(node, bricks): (u32, Vec<u64>)| PlacedBricks { node, is_own: node == self.node, bricks };
        placed.into_iter().map(of).collect()
    }

    fn run(&self, order: PieceOrder) -> BoxStream<'static, Result<Bytes, SqlError>> {
        let PieceOrder { node, table, bricks, order } = order;
        let gone = || Err(SqlError::new(SqlState::CannotConnectNow, format!("node {node} is gone")));
        let (engine, trouble) = {
            let mut pieces = self.open.0.pieces.lock();
            pieces.asked.push(node);
            (pieces.engines[node as usize - 1].upgrade().unwrap(), pieces.troubles.get(&node).copied())
        };
        if trouble == Some(Trouble::Gone) {
            return stream::iter([gone()]).boxed();
        }
        let pieces = Arc::clone(&self.open.0.pieces);
        let made = run_piece(&engine, (table, bricks), order, Arc::new(self.there(node)));
        let made = made.inspect_ok(move |part| pieces.lock().bytes += part.len());
        if trouble.is_none() {
            return made.boxed();
        }
        if let Some(Trouble::GoesBehind(bytes)) = trouble {
            return until_gone(made, bytes, (node, gone()), Arc::clone(&self.open.0.pieces));
        }
        let half = made.map_ok(|part| part.slice(..part.len() / 2)).take(1);
        half.chain(stream::iter([gone()])).boxed()
    }
}

/// The answer of a node that goes behind so many bytes of it; a shorter one is whole.
fn until_gone(
    answer: impl futures::Stream<Item = Result<Bytes, SqlError>> + Send + 'static,
    bytes: usize,
    (node, gone): (u32, Result<Bytes, SqlError>),
    pieces: Arc<Mutex<Pieces>>,
) -> BoxStream<'static, Result<Bytes, SqlError>> {
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&sent);
    let begun = answer.take_while(move |part| {
        let length = part.as_ref().map_or(0, Bytes::len);
        std::future::ready(counted.fetch_add(length, Ordering::SeqCst) < bytes)
    });
    let end = stream::iter([gone]).filter(move |_| {
        let is_gone = sent.load(Ordering::SeqCst) >= bytes;
        if is_gone {
            pieces.lock().troubles.insert(node, Trouble::Gone);
        }
        std::future::ready(is_gone)
    });
    begun.chain(end).boxed()
}

#[derive(Debug)]
struct Load {
    open: Open,
    tables: Tables,
    rows: Vec<(u64, u64, RecordBatch)>,
}

impl Load {
    fn add(&mut self, table: u64, rows: &RecordBatch) -> Result<(), SqlError> {
        let known = known_of(&self.tables, table)?;
        let types: Vec<&DataType> = rows.columns().iter().map(|column| column.data_type()).collect();
        if types != known.types.iter().collect::<Vec<_>>() {
            return Err(SqlError::internal(format!("columns of {types:?}, the table has {:?}", known.types)));
        }
        let mut by_brick: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        for row in 0..rows.num_rows() {
            let brick = (known.brick_of)(&self.ordinals(&known, rows, row));
            by_brick.entry(brick).or_default().push(u32::try_from(row).unwrap());
        }
        for (brick, indexes) in by_brick {
            let taken = take_record_batch(rows, &UInt32Array::from(indexes))?;
            self.rows.push((table, brick, taken));
        }
        Ok(())
    }

    fn ordinals(&self, known: &Known, rows: &RecordBatch, row: usize) -> Vec<u64> {
        let mut ordinals = Vec::new();
        for (name, column) in known.names.iter().zip(rows.columns()) {
            if name == "day" {
                ordinals.push(u64::try_from(column.as_primitive::<Int32Type>().value(row)).unwrap());
            } else if name == "region" {
                let regions = &mut self.open.0.state.lock().regions;
                let region = column.as_string::<i32>().value(row);
                let code = regions.iter().position(|known| known == region).unwrap_or_else(|| {
                    regions.push(region.to_owned());
                    regions.len() - 1
                });
                ordinals.push(code as u64);
            }
        }
        ordinals
    }
}

/// What the next commit comes to, once it has waited for what it waits for.
fn outcome(shared: &Arc<Shared>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>> {
    let mut state = shared.state.lock();
    match std::mem::take(&mut state.next) {
        NextCommit::Decided => {
            state.modes.push(mode);
            async { Ok(()) }.boxed()
        }
        NextCommit::RolledBack => {
            let error = SqlError::new(SqlState::SerializationFailure, "a holder of a brick has left");
            async { Err(error) }.boxed()
        }
        NextCommit::Silent => futures::future::pending().boxed(),
    }
}

impl ClusterLoad for Load {
    fn epoch(&self) -> Epoch {
        // Tests have one at a time.
        Epoch::new(self.open.0.newest_age().get() + 1)
    }

    fn append<'a>(&'a mut self, table: u64, rows: &'a RecordBatch) -> BoxFuture<'a, Result<(), SqlError>> {
        async move { self.add(table, rows) }.boxed()
    }

    fn commit(self: Box<Self>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>> {
        let outcome = outcome(&self.open.0, mode);
        async move {
            outcome.await?;
            self.take_effect();
            Ok(())
        }
        .boxed()
    }

    fn prepare(self: Box<Self>) -> BoxFuture<'static, Result<Option<Box<dyn ClusterNamedLoad>>, SqlError>> {
        let outcome = outcome(&self.open.0, CommitMode::Decided);
        async move {
            outcome.await?;
            let age = self.epoch();
            self.open.0.state.lock().named = age.get();
            let named: Box<dyn ClusterNamedLoad> = Box::new(Named { age, load: *self });
            Ok(Some(named))
        }
        .boxed()
    }
}

impl Load {
    /// Snapshots that begin from here on see it.
    fn take_effect(self) {
        let Self { open, rows, .. } = self;
        let mut state = open.0.state.lock();
        state.commits += 1;
        let from = state.commits;
        let runs = rows.into_iter().map(|(table, brick, rows)| Run { table, brick, rows, from, until: None });
        state.rows.extend(runs);
    }
}

/// A load that waits for the rows that it is one transaction with.
#[derive(Debug)]
struct Named {
    age: Epoch,
    load: Load,
}

impl ClusterNamedLoad for Named {
    fn age(&self) -> Epoch {
        self.age
    }

    fn expect_rows(&mut self, _: Arc<AtomicBool>) {}

    fn decide(self: Box<Self>) {
        assert_eq!(self.age, self.load.epoch(), "nothing is named that has not ended");
        while self.load.open.0.state.lock().holds_decisions {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.load.take_effect();
    }

    fn roll_back(self: Box<Self>) {}
}

#[derive(Debug)]
struct Delete {
    open: Open,
    seen: Arc<Snapshot>,
    bricks: Vec<(u64, u64)>,
}

impl ClusterDelete for Delete {
    fn seen(&self) -> Arc<dyn ClusterSnapshot> {
        Arc::clone(&self.seen) as Arc<dyn ClusterSnapshot>
    }

    fn brick(&mut self, table: u64, brick: u64) -> BoxFuture<'_, Result<(), SqlError>> {
        self.bricks.push((table, brick));
        async { Ok(()) }.boxed()
    }

    fn commit(self: Box<Self>, mode: CommitMode) -> BoxFuture<'static, Result<(), SqlError>> {
        let outcome = outcome(&self.open.0, mode);
        async move {
            outcome.await?;
            let mut state = self.open.0.state.lock();
            state.commits += 1;
            let until = state.commits;
            for run in &mut state.rows {
                if self.bricks.contains(&(run.table, run.brick)) && self.seen.sees(run) {
                    run.until = Some(until);
                }
            }
            Ok(())
        }
        .boxed()
    }
}
