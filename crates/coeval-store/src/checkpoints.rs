// SPDX-License-Identifier: Apache-2.0
//! What is known of the checkpoints of a store beside the one that runs: whose turn it is, where the last one stands, and
//! whether they fail. What a checkpoint does: `checkpoint.rs`.

mod failures;

use crate::error::StoreError;
use crate::log::Lsn;
use coeval_txn::{Epoch, EpochSet};
pub use failures::CheckpointFailures;
use failures::Outcomes;
use parking_lot::{Mutex, MutexGuard};

/// What checkpoints of one store know of each other.
///
/// # Locking
/// `turn` is held for a whole checkpoint, before any other lock; `last` and that of `outcomes` for moments.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    turn: Mutex<()>,
    last: Mutex<LastCheckpoint>,
    outcomes: Outcomes,
}

/// Where the last checkpoint stands.
#[derive(Clone, Debug)]
struct LastCheckpoint {
    /// The log position of the durable manifest.
    log: Lsn,
    /// Which rows of brick tables its flush rounds hold.
    epochs: EpochSet,
}

impl Checkpoints {
    /// Those of a store whose manifest has this log position and holds these rows of brick tables.
    pub(crate) fn after(log: Lsn, epochs: EpochSet) -> Self {
        let last = Mutex::new(LastCheckpoint { log, epochs });
        Self { turn: Mutex::default(), last, outcomes: Outcomes::default() }
    }

    /// The turn to replace chunks, or the manifest; waits for a checkpoint that has it.
    pub(crate) fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// The turn to replace chunks, unless a checkpoint has it.
    pub(crate) fn try_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.try_lock()
    }

    /// Which rows of brick tables the durable flush rounds hold.
    pub(crate) fn flushed_epochs(&self) -> EpochSet {
        self.last.lock().epochs.clone()
    }

    /// These epochs have no rows: they count as flushed if newer ones do.
    pub(crate) fn note_rolled_back(&self, epochs: &[Epoch]) {
        let mut last = self.last.lock();
        let newest = last.epochs.newest();
        let passed: Vec<Epoch> = epochs.iter().copied().filter(|epoch| *epoch <= newest).collect();
        last.epochs = last.epochs.with(&passed);
    }

    /// A manifest is durable that has the log up to here, and whose flush rounds hold these rows of brick tables.
    pub(crate) fn note_durable(&self, log: Lsn, epochs: EpochSet) {
        *self.last.lock() = LastCheckpoint { log, epochs };
    }

    /// A checkpoint has ended.
    pub(crate) fn note_outcome<T>(&self, outcome: &Result<T, StoreError>) {
        self.outcomes.note(outcome);
    }

    /// Those that have failed since the last one that did not.
    pub(crate) fn failures(&self) -> Option<CheckpointFailures> {
        self.outcomes.failures()
    }

    /// The log position of the durable manifest.
    pub(crate) fn last_log(&self) -> Lsn {
        self.last.lock().log
    }
}
