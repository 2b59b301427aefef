// SPDX-License-Identifier: Apache-2.0
//! Memory of queries: a budget that all share, and what each of them may have of it.
//!
//! Sorts, aggregations and joins ask before they take memory. An operator that is refused spills to disk if it can (sorts,
//! aggregations, merge joins); otherwise its statement fails with `53200`, and no other statement does:
//!
//! - a query that has little ([`SMALL_BYTES`]) always gets it, whatever the others have;
//! - and so does each of its operators that has next to nothing ([`EMPTY_OPERATOR_BYTES`]);
//! - one that has more gets what it asks for up to its *share*: the budget, divided among those and one more;
//! - beyond its share it gets what there is, but for the last quarter of the budget, which is left to those that come;
//! - and nobody gets more than little while the process is near the machine's limit, whatever the budget has left
//!   (`process.rs`).
//!
//! Within a query, operators that can spill have equal parts of what it may have (DataFusion's `FairSpillPool`).
//!
//! The changes that a transaction keeps until it commits are counted in the same budget, each transaction as a query of
//! its own; what does not fit fails with `53200` too.
//!
//! What is counted of queries is what operators keep, and the rows that were collected, until whoever has them lets them go:
//! a result that is not sent yet, a cursor, a program in the same process. Batches that are on their way between operators are
//! not asked for; what all queries hold of these has a total of its own, beyond which it is taken of the budget (`beside.rs`). Those that
//! wait for who reads them are counted, from 64 KiB on, as a query of their own.
//! Rows that an operator keeps as the scan gave them, and which are slices of a chunk's array, count with all of it, several times over if it
//! keeps several parts: the count is an upper bound, and an unfiltered build side of a join reaches the limit before its memory
//! does.

mod beside;
mod holding;
mod process;
mod returned;
mod spill;
mod syntax;

use crate::error::{SqlError, out_of_memory};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use coeval_store::{DataMemory, MemoryAccount, MemoryAccounts, machine_memory};
use datafusion::common::DataFusionError;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use process::{NoRoom, Recent, THIS};
use spill::{SPILLED_BYTES_MAX, SpillDirectory};
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) use holding::{Holding, has_much_to_note, note_for_nobody};
pub(crate) use process::Promise;
pub(crate) use returned::ReturnedMemory;
pub(crate) use syntax::{SyntaxMemory, marks_of, run_with, syntax_memory};

/// What each query gets without being asked how much there is: the hash tables and sorts of what runs by the thousand.
const SMALL_BYTES: usize = 1 << 20;

/// What each operator gets without being asked how much there is. An aggregation that has put all aside still keeps its empty
/// tables, and DataFusion takes a refusal of these for an error; it may have been refused all that it had so far.
const EMPTY_OPERATOR_BYTES: usize = 64 << 10;

/// The least budget: a sort that spills needs some room to merge its runs.
pub const QUERY_MEMORY_MIN: usize = 16 << 20;

/// How much memory queries may have, and where they spill.
#[derive(Clone, Debug, Default)]
pub struct QueryMemory {
    /// Bytes for all queries together, at least [`QUERY_MEMORY_MIN`]; [`default_query_memory`] if not given.
    pub bytes: Option<usize>,
    /// The directory for what does not fit, made when it is needed; the system's for temporary files if not given.
    /// It must be the engine's own: it is removed with all that is in it when the engine starts.
    pub spill_directory: Option<PathBuf>,
    /// Makes the allocator give the system back what it keeps for later, if the program's allocator can: called before a query
    /// is refused memory because the process has too much, and behind large queries when it has much.
    pub give_back: Option<fn()>,
}

/// Half of the machine's memory, or of what its control groups leave, of which one query may have three quarters. The other
/// half is for the data, for batches that are on their way, and for what the allocator has not given back: with all of it,
/// a server in a group of 2 GiB was killed by queries that kept to their budget.
#[must_use]
pub fn default_query_memory() -> usize {
    (machine_memory() / 2).max(QUERY_MEMORY_MIN)
}

/// The memory that queries have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueryMemoryStanding {
    /// Bytes that they have, changes of open transactions and kept results included.
    pub(crate) taken: usize,
    /// Bytes that they may have.
    pub(crate) most: usize,
}

/// The memory of an engine's queries.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    size: usize,
    /// What was read of tables' files, which can be read again.
    data: OnceLock<DataMemory>,
    /// What all queries hold beside what they have asked for (`beside.rs`). It guards nothing: who is a moment late sees it at the next
    /// step.
    beside: AtomicIsize,
    /// # Locking
    /// A leaf lock, held for moments.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    /// Queries that have more than [`SMALL_BYTES`].
    large_queries: usize,
    recent: Recent,
}

impl MemoryBudget {
    fn new(size: usize) -> Arc<Self> {
        let (beside, taken) = (AtomicIsize::new(0), Mutex::default());
        Arc::new(Self { size: size.max(QUERY_MEMORY_MIN), data: OnceLock::new(), beside, taken })
    }

    /// What was given a moment ago and may not have been written.
    fn unwritten(&self) -> usize {
        let mut taken = self.taken.lock();
        let given = taken.bytes;
        taken.recent.unwritten(given, THIS.resident())
    }

    /// Asks for data to be let go of: who was refused finds room when he tries again.
    fn ask_for_room(&self) {
        if let Some(data) = self.data.get() {
            data.let_go();
        }
    }

    /// What one query may have at most: the last quarter is for others.
    fn query_max(&self) -> usize {
        self.size / 4 * 3
    }
}

/// What one statement's query has of the budget.
struct QueryPool {
    budget: Arc<MemoryBudget>,
    /// Changes under the budget's lock.
    bytes: AtomicUsize,
    /// What it holds beside, of the budget's number.
    beside: AtomicIsize,
    /// Whether it ever had more than [`SMALL_BYTES`].
    was_large: AtomicBool,
    operators: FairSpillPool,
}

/// Why a query does not get what it asks for.
#[derive(Debug)]
enum Refused {
    /// Others have the rest of the budget, or may come for it.
    Share { has: usize },
    /// The process is near the machine's limit.
    Process(NoRoom),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share { has } => write!(f, "it has {has}, others have the rest"),
            Self::Process(none) => none.fmt(f),
        }
    }
}

impl fmt::Display for NoRoom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident, ceiling } = self;
        write!(f, "the process has {resident} of the {ceiling} that it may have on this machine")
    }
}

/// Whether a query may be refused.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Wanted,
    /// It has taken it already.
    Noted,
}

impl QueryPool {
    fn new(budget: &Arc<MemoryBudget>) -> Self {
        let operators = FairSpillPool::new(budget.query_max());
        let (bytes, beside, was_large) = (AtomicUsize::new(0), AtomicIsize::new(0), AtomicBool::new(false));
        Self { budget: Arc::clone(budget), bytes, beside, was_large, operators }
    }

    /// Takes so much of the budget, if the query may have it.
    fn take(&self, additional: usize, asked: Asked) -> Result<(), Refused> {
        if asked == Asked::Wanted
            && self.bytes.load(Ordering::Relaxed).saturating_add(additional) > SMALL_BYTES
        {
            THIS.room_for(additional, self.budget.unwritten()).map_err(|none| {
                self.budget.ask_for_room();
                Refused::Process(none)
            })?;
        }
        let mut taken = self.budget.taken.lock();
        let before = self.bytes.load(Ordering::Relaxed);
        let (mine, all) = (before + additional, taken.bytes + additional);
        let becomes_large = before <= SMALL_BYTES && mine > SMALL_BYTES;
        let large_queries = taken.large_queries + usize::from(becomes_large);
        // What others hold without having asked for it is there all the same.
        let there = all.saturating_add(self.taken_beside_by_others());
        let is_within_share = mine <= self.budget.size / (large_queries + 1) && there <= self.budget.size;
        let is_left = there <= self.budget.query_max();
        if asked == Asked::Wanted && mine > SMALL_BYTES && !is_within_share && !is_left {
            return Err(Refused::Share { has: before });
        }
        self.bytes.store(mine, Ordering::Relaxed);
        if becomes_large {
            self.was_large.store(true, Ordering::Relaxed);
        }
        (taken.bytes, taken.large_queries) = (all, large_queries);
        Ok(())
    }

    fn give_back(&self, bytes: usize) {
        let mut taken = self.budget.taken.lock();
        let before = self.bytes.load(Ordering::Relaxed);
        assert!(bytes <= before && before <= taken.bytes, "what is given back was taken");
        let stays_large = before <= SMALL_BYTES || before - bytes > SMALL_BYTES;
        taken.bytes -= bytes;
        let left = taken.bytes;
        taken.recent.was_given_back(left);
        taken.large_queries -= usize::from(!stays_large);
        self.bytes.store(before - bytes, Ordering::Relaxed);
    }
}

impl Drop for QueryPool {
    fn drop(&mut self) {
        if self.was_large.load(Ordering::Relaxed) {
            THIS.is_left();
        }
    }
}

impl MemoryPool for QueryPool {
    fn name(&self) -> &str {
        "query"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.operators.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.operators.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.operators.grow(reservation, additional);
        self.take(additional, Asked::Noted).expect("what is noted is not refused");
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.operators.shrink(reservation, shrink);
        self.give_back(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<(), DataFusionError> {
        if additional == 0 {
            // Never refused: an exchange would put aside rows without columns, whose file never ends (`ONE_BATCH`).
            return Ok(());
        }
        if reservation.size() + additional <= EMPTY_OPERATOR_BYTES {
            self.grow(reservation, additional);
            return Ok(());
        }
        self.operators.try_grow(reservation, additional)?;
        self.take(additional, Asked::Wanted).map_err(|refused| {
            self.operators.shrink(reservation, additional);
            let name = reservation.consumer().name();
            DataFusionError::ResourcesExhausted(format!("{additional} bytes more for {name}: {refused}"))
        })
    }

    fn reserved(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.budget.query_max())
    }
}

impl fmt::Display for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes for a query", self.budget.query_max())
    }
}

impl fmt::Debug for QueryPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryPool").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

/// What the queries of an engine run in.
pub(crate) struct QueryEnvironment {
    budget: Arc<MemoryBudget>,
    shared: RuntimeEnv,
}

impl QueryEnvironment {
    /// As `memory` says. What an earlier process left in the spill directory is removed.
    ///
    /// # Errors
    /// If DataFusion cannot set up its temporary files.
    pub(crate) fn new(memory: &QueryMemory) -> Result<Self, SqlError> {
        if let Some(give_back) = memory.give_back {
            THIS.gives_back_by(give_back);
        }
        let budget = MemoryBudget::new(memory.bytes.unwrap_or_else(default_query_memory));
        if let Some(path) = &memory.spill_directory {
            // What cannot be removed takes room and is in nobody's way.
            let _ = std::fs::remove_dir_all(path);
        }
        let files = Arc::new(SpillDirectory::new(memory.spill_directory.clone(), SPILLED_BYTES_MAX));
        let disk_manager = Arc::new(DiskManagerBuilder::default().with_temp_file_factory(files).build()?);
        Ok(Self { budget, shared: RuntimeEnv { disk_manager, ..RuntimeEnv::default() } })
    }

    /// What all queries have and may have.
    pub(crate) fn standing(&self) -> QueryMemoryStanding {
        QueryMemoryStanding { taken: self.budget.taken.lock().bytes, most: self.budget.size }
    }

    /// Bytes that one query may have at most.
    pub(crate) fn query_max(&self) -> usize {
        self.budget.query_max()
    }

    /// What of the data can be let go of where the process has no room.
    pub(crate) fn beside_data(&self, data: DataMemory) {
        self.budget.data.get_or_init(|| data);
    }

    /// Where transactions get memory for their changes.
    pub(crate) fn change_accounts(&self) -> Arc<dyn MemoryAccounts> {
        Arc::new(ChangeAccounts(Arc::clone(&self.budget)))
    }

    /// Keeps so many bytes as long as what it returns lives.
    ///
    /// # Errors
    /// `53200` if there is no memory for it; `what` says for what.
    pub(crate) fn keep(&self, bytes: usize, what: &str) -> Result<Kept, SqlError> {
        let kept = self.keep_nothing();
        kept.grow(bytes, what).map_err(|text| out_of_memory(&text))?;
        Ok(kept)
    }

    /// Keeps nothing yet. Nobody waits for anybody here, as those do who ask.
    pub(crate) fn keep_nothing(&self) -> Kept {
        Kept(QueryPool::new(&self.budget))
    }

    /// Reserves so many bytes for rows that are handed on, as a query of their own.
    ///
    /// # Errors
    /// `53200` if there is no memory for them; `what` says for what.
    pub(crate) fn reserve(&self, bytes: usize, what: &str) -> Result<MemoryReservation, SqlError> {
        let pool: Arc<dyn MemoryPool> = Arc::new(QueryPool::new(&self.budget));
        let reservation = MemoryConsumer::new(what).register(&pool);
        reservation.try_grow(bytes)?;
        Ok(reservation)
    }

    /// What one statement's query runs in.
    pub(crate) fn of_statement(&self) -> Arc<RuntimeEnv> {
        let memory_pool = Arc::new(QueryPool::new(&self.budget));
        Arc::new(RuntimeEnv { memory_pool, ..self.shared.clone() })
    }
}

impl fmt::Debug for QueryEnvironment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueryEnvironment").field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// Where transactions get memory for what they have written and not committed: each is a query of its own.
#[derive(Debug)]
struct ChangeAccounts(Arc<MemoryBudget>);

/// What is kept of the budget outside of queries: by a transaction's changes, a COPY, a statement's syntax, a session's plans. Each
/// is as a query of its own.
#[derive(Debug)]
pub(crate) struct Kept(QueryPool);

impl Kept {
    fn grow(&self, bytes: usize, what: &str) -> Result<(), String> {
        let refused = |refused| format!("{bytes} bytes more for {what}: {refused}");
        self.0.take(bytes, Asked::Wanted).map_err(refused)
    }

    /// Keeps so many bytes more.
    ///
    /// # Errors
    /// `53200` if there is no memory for them; `what` says for what. As many are kept as before then.
    pub(crate) fn keep_more(&self, bytes: usize, what: &str) -> Result<(), SqlError> {
        self.grow(bytes, what).map_err(|text| out_of_memory(&text))
    }

    /// Keeps so many bytes less: they were kept.
    pub(crate) fn keep_less(&self, bytes: usize) {
        self.0.give_back(bytes);
    }
}

/// A part of what is kept, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct KeptPart {
    kept: Arc<Kept>,
    bytes: usize,
}

impl KeptPart {
    /// Keeps so many bytes more for as long as it lives.
    ///
    /// # Errors
    /// As [`Kept::keep_more`].
    pub(crate) fn of(kept: &Arc<Kept>, bytes: usize, what: &str) -> Result<Self, SqlError> {
        kept.keep_more(bytes, what)?;
        Ok(Self { kept: Arc::clone(kept), bytes })
    }
}

impl Drop for KeptPart {
    fn drop(&mut self) {
        self.kept.keep_less(self.bytes);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let left = self.0.bytes.load(Ordering::Relaxed);
        if left > 0 {
            self.0.give_back(left);
        }
    }
}

impl MemoryAccounts for ChangeAccounts {
    fn open(&self) -> Box<dyn MemoryAccount> {
        Box::new(Kept(QueryPool::new(&self.0)))
    }
}

impl MemoryAccount for Kept {
    fn grow(&mut self, bytes: usize) -> Result<(), String> {
        Self::grow(self, bytes, "the changes of a transaction")
    }

    fn shrink(&mut self, bytes: usize) {
        self.0.give_back(bytes);
    }
}

/// A value that no query counts is about to take so much; what this gives is held until it is made.
///
/// # Errors
/// `53200` if the process has no room for it.
pub(crate) fn room_for_a_value(bytes: usize) -> Result<Promise, SqlError> {
    THIS.promise(bytes).map_err(|none| out_of_memory(&format!("{bytes} bytes more for a value: {none}")))
}

/// What the rows of a batch take; of columns that are parts of chunks it is the part.
///
/// # Errors
/// None for the types that there are.
pub(crate) fn bytes_of_rows(batch: &RecordBatch) -> Result<usize, ArrowError> {
    let of_column = |column: &ArrayRef| Ok(column.to_data().get_slice_memory_size()? + texts_beside(column));
    batch.columns().iter().map(of_column).sum()
}

/// The same without what stands beside the columns' slots.
///
/// # Errors
/// As [`bytes_of_rows`].
pub(crate) fn bytes_of_slots(batch: &RecordBatch) -> Result<usize, ArrowError> {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size()).sum()
}

/// Texts that stand beside their views, which Arrow does not count.
pub(crate) fn texts_beside(column: &ArrayRef) -> usize {
    match column.data_type() {
        DataType::Utf8View => column.as_string_view().total_buffer_bytes_used(),
        DataType::BinaryView => column.as_binary_view().total_buffer_bytes_used(),
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            let (first, last) = (lists.value_offsets()[0], lists.value_offsets()[lists.len()]);
            texts_beside(&lists.values().slice(first as usize, (last - first) as usize))
        }
        DataType::Struct(_) => column.as_struct().columns().iter().map(texts_beside).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
