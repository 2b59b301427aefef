// SPDX-License-Identifier: Apache-2.0
//! Memory of queries: a budget that all share, and what each of them may have of it.
//!
//! Sorts, aggregations and joins ask before they take memory. Who is refused spills to disk if it can (sorts,
//! aggregations, merge joins), and else its statement fails with `53200`, alone:
//!
//! - a query that has little ([`SMALL_BYTES`]) always gets it, whatever the others have;
//! - and so does each of its operators that has next to nothing ([`EMPTY_OPERATOR_BYTES`]);
//! - one that has more gets what it asks for up to its *share*: the budget, divided among those and one more;
//! - beyond its share it gets what there is, but for the last quarter of the budget, which is left to those that come.
//!
//! Within a query, operators that can spill have equal parts of what it may have (DataFusion's `FairSpillPool`).
//!
//! The changes that a transaction keeps until it commits are counted in the same budget, each transaction as a query of
//! its own; what does not fit fails with `53200` too.
//!
//! What is counted of queries is what operators keep: not the batches that are on their way, nor rows that were collected for a
//! client in the same process. Rows that an operator keeps as the scan gave them count with the chunks they are parts of,
//! several times over if it keeps several parts: the count is an upper bound, and an unfiltered build side of a join
//! reaches the limit before its memory does.

mod spill;

use crate::error::{SqlError, SqlState};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use coeval_store::{MemoryAccount, MemoryAccounts, machine_memory};
use datafusion::common::DataFusionError;
use datafusion::execution::disk_manager::DiskManagerBuilder;
use datafusion::execution::memory_pool::{
    FairSpillPool, MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation,
};
use datafusion::execution::runtime_env::RuntimeEnv;
use parking_lot::Mutex;
use spill::{SPILLED_BYTES_MAX, SpillDirectory};
use std::cell::RefCell;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What each query gets without being asked how much there is: the hash tables and sorts of what runs by the thousand.
const SMALL_BYTES: usize = 1 << 20;

/// What each operator gets without being asked how much there is. An aggregation that has put all aside still keeps its empty
/// tables, and DataFusion takes a refusal of these for an error; it may have been refused all that it had so far.
const EMPTY_OPERATOR_BYTES: usize = 64 << 10;

/// The least budget: a sort that spills needs some room to merge its runs.
pub const QUERY_MEMORY_MIN: usize = 16 << 20;

/// Shorter texts are not counted: a connection has one of them at a time.
const SHORT_TEXT_BYTES: usize = 256 << 10;

/// What tokens, syntax and plan take for each mark between values and words: in a long list there is one for each value.
const MARK_BYTES: usize = 300;

/// What they take for each byte of a text beside that: copies of long literals.
const COPIES: usize = 4;

/// How much memory queries may have, and where they spill.
#[derive(Clone, Debug, Default)]
pub struct QueryMemory {
    /// Bytes for all queries together, at least [`QUERY_MEMORY_MIN`]; [`default_query_memory`] if not given.
    pub bytes: Option<usize>,
    /// The directory for what does not fit, made when it is needed; the system's for temporary files if not given.
    /// It must be the engine's own: it is removed with all that is in it when the engine starts.
    pub spill_directory: Option<PathBuf>,
}

/// Half of the machine's memory, or of what its control groups leave, of which one query may have three quarters. The other
/// half is for the data, for batches that are on their way, and for what the allocator has not given back: with all of it,
/// a server in a group of 2 GiB was killed by queries that kept to their budget.
#[must_use]
pub fn default_query_memory() -> usize {
    (machine_memory() / 2).max(QUERY_MEMORY_MIN)
}

/// The memory of an engine's queries.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    size: usize,
    /// # Locking
    /// A leaf lock, held for moments.
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    /// Queries that have more than [`SMALL_BYTES`].
    large_queries: usize,
}

impl MemoryBudget {
    fn new(size: usize) -> Arc<Self> {
        Arc::new(Self { size: size.max(QUERY_MEMORY_MIN), taken: Mutex::default() })
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
    operators: FairSpillPool,
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
        Self { budget: Arc::clone(budget), bytes: AtomicUsize::new(0), operators }
    }

    /// Takes so much of the budget, if the query may have it.
    fn take(&self, additional: usize, asked: Asked) -> bool {
        let mut taken = self.budget.taken.lock();
        let before = self.bytes.load(Ordering::Relaxed);
        let (mine, all) = (before + additional, taken.bytes + additional);
        let becomes_large = before <= SMALL_BYTES && mine > SMALL_BYTES;
        let large_queries = taken.large_queries + usize::from(becomes_large);
        let is_within_share = mine <= self.budget.size / (large_queries + 1) && all <= self.budget.size;
        let is_left = all <= self.budget.query_max();
        if asked == Asked::Wanted && mine > SMALL_BYTES && !is_within_share && !is_left {
            return false;
        }
        self.bytes.store(mine, Ordering::Relaxed);
        *taken = Taken { bytes: all, large_queries };
        true
    }

    fn give_back(&self, bytes: usize) {
        let mut taken = self.budget.taken.lock();
        let before = self.bytes.load(Ordering::Relaxed);
        assert!(bytes <= before && before <= taken.bytes, "what is given back was taken");
        let stays_large = before <= SMALL_BYTES || before - bytes > SMALL_BYTES;
        taken.bytes -= bytes;
        taken.large_queries -= usize::from(!stays_large);
        self.bytes.store(before - bytes, Ordering::Relaxed);
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
        self.take(additional, Asked::Noted);
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
        if self.take(additional, Asked::Wanted) {
            return Ok(());
        }
        self.operators.shrink(reservation, additional);
        let (name, has) = (reservation.consumer().name(), self.bytes.load(Ordering::Relaxed));
        let text = format!("{additional} bytes more for {name}: the query has {has}, others have the rest");
        Err(DataFusionError::ResourcesExhausted(text))
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
        let budget = MemoryBudget::new(memory.bytes.unwrap_or_else(default_query_memory));
        if let Some(path) = &memory.spill_directory {
            // What cannot be removed takes room and is in nobody's way.
            let _ = std::fs::remove_dir_all(path);
        }
        let files = Arc::new(SpillDirectory::new(memory.spill_directory.clone(), SPILLED_BYTES_MAX));
        let disk_manager = Arc::new(DiskManagerBuilder::default().with_temp_file_factory(files).build()?);
        Ok(Self { budget, shared: RuntimeEnv { disk_manager, ..RuntimeEnv::default() } })
    }

    /// Bytes that one query may have at most.
    pub(crate) fn query_max(&self) -> usize {
        self.budget.query_max()
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
        let kept = Kept(QueryPool::new(&self.budget));
        kept.grow(bytes, what).map_err(|text| out_of_memory(&text))?;
        Ok(kept)
    }

    /// Memory for the syntax and the plan of a text, as long as they live; none for a short one.
    ///
    /// # Errors
    /// `53200`.
    pub(crate) fn keep_syntax(&self, sql: &str) -> Result<Option<Kept>, SqlError> {
        if sql.len() < SHORT_TEXT_BYTES {
            return Ok(None);
        }
        self.keep(syntax_bytes(sql), "the syntax of a statement").map(Some)
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

/// What is kept of the budget outside of queries: by a transaction's changes, a cursor, a statement's syntax. Each is as
/// a query of its own.
#[derive(Debug)]
pub(crate) struct Kept(QueryPool);

impl Kept {
    fn grow(&self, bytes: usize, what: &str) -> Result<(), String> {
        if self.0.take(bytes, Asked::Wanted) {
            return Ok(());
        }
        let has = self.0.bytes.load(Ordering::Relaxed);
        Err(format!("{bytes} bytes more for {what}, which has {has}: others have the rest"))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.0.give_back(self.0.bytes.load(Ordering::Relaxed));
    }
}

thread_local! {
    /// For the syntax of the statement that runs on this thread, if its text is long.
    static SYNTAX: RefCell<Option<Arc<Kept>>> = const { RefCell::new(None) };
}

/// What this thread ran with before.
pub(crate) struct SyntaxBefore(Option<Arc<Kept>>);

impl Drop for SyntaxBefore {
    fn drop(&mut self) {
        SYNTAX.set(self.0.take());
    }
}

/// A statement runs on this thread whose syntax has this memory, as long as what this gives lives.
#[must_use]
pub(crate) fn run_with(syntax: Option<&Arc<Kept>>) -> SyntaxBefore {
    SyntaxBefore(SYNTAX.replace(syntax.cloned()))
}

/// The memory of the syntax of the statement that runs on this thread: to be held as long as something is made of it,
/// also when its session has gone on.
pub(crate) fn syntax_memory() -> Option<Arc<Kept>> {
    SYNTAX.with_borrow(Clone::clone)
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
        _ => 0,
    }
}

/// What the syntax and the plan of a text take, about: much for a list of numbers, little for a long literal.
fn syntax_bytes(sql: &str) -> usize {
    let (mut marks, mut quote) = (0_usize, None);
    for &byte in sql.as_bytes() {
        match quote {
            Some(end) => quote = Some(end).filter(|&end| end != byte),
            None if matches!(byte, b'\'' | b'"') => quote = Some(byte),
            None => marks += usize::from(byte.is_ascii_whitespace() || byte.is_ascii_punctuation()),
        }
    }
    sql.len().saturating_mul(COPIES).saturating_add(marks.saturating_mul(MARK_BYTES))
}

/// The error of a transaction whose changes need more memory than they may have.
pub(crate) fn out_of_memory_for_changes(what: String) -> SqlError {
    SqlError::new(SqlState::OutOfMemory, "out of memory for the changes of a transaction")
        .with_detail(what)
        .with_hint(
            "What a transaction has written is kept in memory until it commits. Commit after fewer rows, or give more \
             memory (coeval serve --query-memory).",
        )
}

/// The error of a statement that needs more memory than it may have; `text` is what DataFusion says of it.
pub(crate) fn out_of_memory(text: &str) -> SqlError {
    let what = text.lines().next().unwrap_or_default();
    SqlError::new(SqlState::OutOfMemory, "out of memory for queries").with_detail(what).with_hint(
        "The statement needs more memory than its share of what all queries may have; other statements go on. \
         Give queries more (coeval serve --query-memory), or let the statement read or group fewer rows.",
    )
}

#[cfg(test)]
mod tests;
