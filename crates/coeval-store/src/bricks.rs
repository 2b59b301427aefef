// SPDX-License-Identifier: Apache-2.0
//! Brick tables in the store: what worlds share of them, and what the log keeps of their changes.
//!
//! # Which rows exist
//! The rows of a brick table lie outside of worlds, each run of them labelled with the epoch of its transaction; a
//! world carries the set of epochs whose rows exist in it. A transaction appends its rows at once,
//! under an epoch that nobody else sees, and commits by letting the epoch into the next world's set. So a load is
//! validated, routed and copied beside all other transactions, the pipeline does nothing for its rows, and a
//! transaction reads its own rows as it reads all others.
//!
//! A world holds its set ([`coeval_txn::HeldEpochs`]): purge stays behind the oldest world that anybody has.
//!
//! # In the log
//! ```text
//! change    kind u8
//!   append (1)   strings, load (see `stored.rs` of coeval-brick)
//!   delete (2)   covered: through u64, exceptions u32, each u64; own epochs: count u32, each u64;
//!                bricks: count u32, each u64
//! ```
//! A change keeps the epoch that it had. So a delete covers, when it is replayed, what it covered when it was made,
//! in whatever order transactions have committed. Strings are logged by the ranges of codes that no record in the log
//! is known to have yet; a code so means the same string for ever.

mod bad_rows;
mod order;
mod round;
mod schema;

use crate::catalog::TableDef;
use crate::clock::LogTime;
use crate::ids::SpaceId;
use crate::key::Key;
use crate::range::KeyRange;
pub use bad_rows::bad_rows;
use coeval_brick::{BrickId, BrickMark, BrickTable, Deletion, MalformedLoad, Reader, Selection, Shards};
use coeval_txn::{Epoch, EpochClock, EpochSet, HeldEpochs, Stride, TransactionId};
pub use order::ScanOrder;
use parking_lot::Mutex;
pub(crate) use round::{FlushedTable, RoundError, add_round, flush_round, restore_round, restore_rounds};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Bound, RangeInclusive};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// Messages that wait before a shard's thread; more hold back who loads.
const SHARD_QUEUE_LENGTH: usize = 64;

const KIND_APPEND: u8 = 1;
const KIND_DELETE: u8 = 2;

/// What all brick tables of a store share: the epoch clock, and the threads that write bricks.
pub(crate) struct Bricks {
    clock: EpochClock,
    /// Whose the pending epochs are, for views.
    ///
    /// # Locking
    /// A leaf lock, held for moments.
    writers: Mutex<BTreeMap<Epoch, TransactionId>>,
    /// Started for the first brick table.
    shards: Arc<OnceLock<Arc<Shards>>>,
}

impl fmt::Debug for Bricks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.clock, f)
    }
}

impl Bricks {
    /// Those of a store without epochs.
    pub(crate) fn new() -> Self {
        Self { clock: EpochClock::new(Stride::ALONE), writers: Mutex::default(), shards: Arc::default() }
    }

    /// The same, with all epochs up to `newest` ended.
    pub(crate) fn recovered(&self, newest: Epoch) -> Self {
        let (clock, shards) = (EpochClock::recovered(Stride::ALONE, newest), Arc::clone(&self.shards));
        Self { clock, writers: Mutex::default(), shards }
    }

    pub(crate) fn clock(&self) -> &EpochClock {
        &self.clock
    }

    /// Begins an epoch of this transaction.
    pub(crate) fn begin(&self, transaction: TransactionId) -> Epoch {
        let epoch = self.clock.begin().epoch;
        self.writers.lock().insert(epoch, transaction);
        epoch
    }

    /// Ends epochs as committed; their set is held before LSE can pass it.
    pub(crate) fn commit(&self, epochs: &[Epoch]) -> HeldEpochs {
        self.forget_writers(epochs);
        self.clock.commit_and_hold(epochs)
    }

    /// Ends epochs whose rows have been removed.
    pub(crate) fn roll_back(&self, epochs: &[Epoch]) {
        self.forget_writers(epochs);
        self.clock.roll_back(epochs);
    }

    fn forget_writers(&self, epochs: &[Epoch]) {
        let mut writers = self.writers.lock();
        writers.retain(|epoch, _| !epochs.contains(epoch));
    }

    /// The oldest pending epoch and whose it is.
    pub(crate) fn oldest_writer(&self) -> Option<(Epoch, TransactionId)> {
        self.writers.lock().first_key_value().map(|(epoch, transaction)| (*epoch, *transaction))
    }

    /// Checks the layout of a table, if it is a brick table, and starts the threads that write bricks. To be called
    /// before [`rows_of`](Self::rows_of).
    ///
    /// # Errors
    /// What is wrong with the definition, or why no thread can be started.
    pub(crate) fn prepare(&self, def: &TableDef) -> Result<(), String> {
        let Some(bricks) = &def.bricks else { return Ok(()) };
        bricks.schema(def)?;
        if self.shards.get().is_none() {
            let count = std::thread::available_parallelism().map_or(1, usize::from);
            let shards = Shards::start(count, SHARD_QUEUE_LENGTH);
            let shards =
                shards.map_err(|error| format!("no thread for brick tables can be started: {error}"))?;
            // Whoever was first has started some that are as good.
            let _ = self.shards.set(Arc::new(shards));
        }
        Ok(())
    }

    /// The bricks of a table without rows; none if it is no brick table.
    ///
    /// # Panics
    /// If the table has not been [prepared](Self::prepare).
    pub(crate) fn rows_of(&self, def: &TableDef) -> Option<Arc<BrickRows>> {
        let schema = def.bricks.as_ref()?.schema(def).expect("the layout was checked before");
        let shards = self.shards.get().expect("threads were started for the first brick table");
        Some(Arc::new(BrickRows::new(BrickTable::new(schema, Arc::clone(shards)))))
    }
}

/// The rows of a brick table, of whatever epoch, by the columns of one definition. Those of another definition share all
/// of this but the columns.
pub struct BrickRows {
    table: BrickTable,
    /// For each string column, how many of its strings the log is known to have.
    logged: Vec<Arc<AtomicU32>>,
    /// # Locking
    /// A leaf lock, held for moments; changed by checkpoints alone, which take turns.
    rounds: Arc<Mutex<round::Rounds>>,
}

impl fmt::Debug for BrickRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BrickRows")
    }
}

impl BrickRows {
    fn new(table: BrickTable) -> Self {
        let logged = table.string_counts().iter().map(|_| Arc::default()).collect();
        Self { table, logged, rounds: Arc::default() }
    }

    /// The same rows by the columns of `def`, which has those of before and perhaps more.
    ///
    /// # Panics
    /// If it has not.
    pub(crate) fn redeclared(self: &Arc<Self>, def: &TableDef) -> Arc<Self> {
        let bricks = def.bricks.as_ref().expect("a brick table stays one");
        let schema = bricks.schema(def).expect("the layout was checked before");
        if schema == *self.table.schema() {
            return Arc::clone(self);
        }
        let table = self.table.redeclared(schema);
        let mut logged = self.logged.clone();
        logged.resize_with(table.string_counts().len(), Arc::default);
        Arc::new(Self { table, logged, rounds: Arc::clone(&self.rounds) })
    }

    /// Whether both are the same rows, perhaps by other columns.
    pub(crate) fn are_rows_of(&self, other: &Self) -> bool {
        self.table.shares_rows_with(&other.table)
    }

    pub(crate) fn table(&self) -> &BrickTable {
        &self.table
    }

    /// What a mark of the table's bricks stands for; none if the key is no mark.
    pub(crate) fn describe_mark(&self, key: &Key) -> Option<String> {
        self.table.selection().describe(BrickMark::from_bytes(key.as_slice())?)
    }

    /// How many rows exist under `epochs`.
    #[must_use]
    pub fn count(&self, epochs: &EpochSet) -> u64 {
        self.table.view(&self.table.selection()).count(&Reader::of(epochs.clone())) as u64
    }

    /// How many strings of each string column the log is known to have.
    pub(crate) fn logged_strings(&self) -> Vec<u32> {
        self.logged.iter().map(|count| count.load(Ordering::Acquire)).collect()
    }

    /// The log has so many strings of each string column.
    pub(crate) fn note_logged(&self, counts: &[u32]) {
        for (logged, count) in self.logged.iter().zip(counts) {
            logged.fetch_max(*count, Ordering::AcqRel);
        }
    }

    /// Rows of these bricks were committed at this time; [`LogTime::ZERO`] says that nobody knows when.
    pub(crate) fn note_loaded(&self, bricks: &[BrickId], at: LogTime) {
        if at > LogTime::ZERO {
            self.table.note_loaded(bricks, at.micros());
        }
    }

    /// Does what a log record says that was written at this time, as far as the log has it. The newest epoch that it names.
    pub(crate) fn replay(&self, change: &BrickChange, at: LogTime) -> Result<Epoch, NotReplayed> {
        let bytes = change.bytes.as_slice();
        match bytes.split_first() {
            Some((&KIND_APPEND, rest)) => {
                let misfit = |error: MalformedLoad| NotReplayed::Misfit(error.to_string());
                let rest = self.table.restore_strings(rest).map_err(misfit)?;
                self.note_logged(&self.table.string_counts());
                let (load, rest) = self.table.decode(rest).map_err(misfit)?;
                if !rest.is_empty() {
                    return Err(NotReplayed::other("a load of a brick table is too long"));
                }
                let bricks: Vec<BrickId> = load.bricks().collect();
                let done = self.table.append(change.epoch, load).and_then(|ticket| ticket.wait());
                done.map_err(NotReplayed::other)?;
                self.note_loaded(&bricks, at);
                Ok(change.epoch)
            }
            Some((&KIND_DELETE, rest)) => {
                let malformed = || NotReplayed::other("a delete of bricks is malformed");
                let (deletion, bricks) = decode_delete(change.epoch, rest).ok_or_else(malformed)?;
                let newest = change.epoch.max(deletion.covered.newest());
                let done = self.table.delete(deletion, &bricks).and_then(|ticket| ticket.wait());
                done.map_err(NotReplayed::other)?;
                Ok(newest)
            }
            _ => Err(NotReplayed::other("a change of a brick table of an unknown kind")),
        }
    }
}

/// Why a change of a brick table in the log is not done.
#[derive(Debug)]
pub(crate) enum NotReplayed {
    /// The strings or codes of its rows do not go on where the table's end.
    Misfit(String),
    /// Anything else.
    Other(String),
}

impl NotReplayed {
    fn other(what: impl fmt::Display) -> Self {
        Self::Other(what.to_string())
    }
}

/// One change of a brick table, as the log has it.
#[derive(Clone, Debug)]
pub(crate) struct BrickChange {
    pub(crate) table: SpaceId,
    pub(crate) epoch: Epoch,
    /// Empty in a store without a log.
    pub(crate) bytes: Vec<u8>,
}

impl BrickChange {
    /// Whether it deletes bricks.
    pub(crate) fn is_delete(&self) -> bool {
        self.bytes.first() == Some(&KIND_DELETE)
    }
}

/// What a transaction that wants to commit has done to brick tables.
#[derive(Debug, Default)]
pub(crate) struct BrickChanges {
    /// In their order.
    pub(crate) changes: Vec<BrickChange>,
    /// The bricks that they are of, table by table.
    pub(crate) written: Vec<WrittenBricks>,
    /// Its epochs, each once.
    pub(crate) epochs: Vec<Epoch>,
    /// Set when the epochs have ended as committed: the rows stay from then on.
    pub(crate) is_committed: Arc<AtomicBool>,
}

/// Bricks of a table that a transaction has changed, as others may have read them.
#[derive(Clone, Debug)]
pub(crate) struct WrittenBricks {
    pub(crate) table: SpaceId,
    /// The [marks](coeval_brick::BrickMark) of the bricks; none if they are too many to tell one by one.
    pub(crate) marks: Option<Vec<Key>>,
}

/// A transaction with more bricks of a table than this counts as writing to all of them.
const WRITTEN_BRICKS_MAX: usize = 4_096;

impl WrittenBricks {
    /// Those with these ids, in whatever order and however often.
    pub(crate) fn new(table: SpaceId, rows: &BrickRows, mut bricks: Vec<BrickId>) -> Self {
        bricks.sort_unstable();
        bricks.dedup();
        if bricks.len() > WRITTEN_BRICKS_MAX {
            return Self { table, marks: None };
        }
        let layout = rows.table.schema().layout();
        let mut marks: Vec<BrickMark> = bricks.iter().flat_map(|brick| layout.marks(*brick)).collect();
        marks.sort_unstable();
        marks.dedup();
        Self { table, marks: Some(marks.into_iter().map(mark_key).collect()) }
    }
}

/// A mark as a key of its table's space, where rows have none.
fn mark_key(mark: BrickMark) -> Key {
    Key::from_slice(&mark.to_bytes())
}

/// The ranges of marks that a selection reads, as keys; none if it may read every brick.
pub(crate) fn ranges_of(selection: &Selection) -> Option<Vec<KeyRange>> {
    let range = |range: RangeInclusive<BrickMark>| {
        let (first, last) = range.into_inner();
        KeyRange { lower: Bound::Included(mark_key(first)), upper: Bound::Included(mark_key(last)) }
    };
    Some(selection.mark_ranges()?.into_iter().map(range).collect())
}

impl BrickChanges {
    pub(crate) fn set_committed(&self) {
        self.is_committed.store(true, Ordering::Release);
    }
}

/// The bytes of an append, up to its load.
pub(crate) fn begin_append(out: &mut Vec<u8>) {
    out.push(KIND_APPEND);
}

/// The bytes of a delete.
pub(crate) fn encode_delete(deletion: &Deletion, bricks: &[BrickId]) -> Vec<u8> {
    let mut out = vec![KIND_DELETE];
    out.extend_from_slice(&deletion.covered.newest().get().to_le_bytes());
    put_numbers(deletion.covered.except().iter().map(|epoch| epoch.get()), &mut out);
    put_numbers(deletion.own.iter().map(|epoch| epoch.get()), &mut out);
    put_numbers(bricks.iter().map(|brick| brick.get()), &mut out);
    out
}

fn put_numbers(numbers: impl ExactSizeIterator<Item = u64>, out: &mut Vec<u8>) {
    let count = u32::try_from(numbers.len()).expect("a transaction touches fewer than 2^32 bricks");
    out.extend_from_slice(&count.to_le_bytes());
    numbers.for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn decode_delete(epoch: Epoch, bytes: &[u8]) -> Option<(Deletion, Vec<BrickId>)> {
    let (through, bytes) = take_number(bytes)?;
    let (except, bytes) = take_numbers(bytes)?;
    let (own, bytes) = take_numbers(bytes)?;
    let (bricks, bytes) = take_numbers(bytes)?;
    let is_epoch = |number: &u64| (1..=Epoch::MAX.get()).contains(number);
    let is_sound = bytes.is_empty()
        && through <= Epoch::MAX.get()
        && except.iter().all(is_epoch)
        && own.iter().all(is_epoch)
        && own.contains(&epoch.get());
    if !is_sound {
        return None;
    }
    let own: Vec<Epoch> = own.into_iter().map(Epoch::new).collect();
    let covered = EpochSet::through(Epoch::new(through)).without(except.into_iter().map(Epoch::new));
    if own.iter().any(|own| covered.contains(*own)) {
        return None;
    }
    let bricks = bricks.into_iter().map(BrickId::new).collect();
    Some((Deletion { epoch, covered, own }, bricks))
}

fn take_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*number), rest))
}

fn take_numbers(bytes: &[u8]) -> Option<(Vec<u64>, &[u8])> {
    let (count, mut rest) = bytes.split_first_chunk::<4>()?;
    let mut numbers = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (number, behind) = take_number(rest)?;
        numbers.push(number);
        rest = behind;
    }
    Some((numbers, rest))
}
