// SPDX-License-Identifier: Apache-2.0
//! How many bytes of chunks that were read from segment files are in memory, and how many may be.
//!
//! What is read stays with its chunk, so that the next one who asks finds it. A scan that finds no room reads without
//! keeping what it read. Whoever reads row by row needs the whole chunk to stay where it is, so it is kept whether there is
//! room or not, and the keeper lets go of others (`unload.rs`).

use crate::keeper_signal::KeeperSignal;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The count, and whom to ask when it is too high.
#[derive(Debug, Default)]
pub(crate) struct ChunkMemory {
    bytes: AtomicU64,
    /// What somebody who needs memory has asked them to come down to, until the next time they were; zero if nobody has.
    asked_for: AtomicU64,
    limit: OnceLock<Limit>,
}

#[derive(Debug)]
struct Limit {
    bytes: u64,
    keeper: Arc<KeeperSignal>,
}

impl ChunkMemory {
    /// From now on there is room for so many bytes, and this keeper lets go of chunks. The first call counts; before it there
    /// is room for everything.
    pub(crate) fn set_limit(&self, bytes: u64, keeper: Arc<KeeperSignal>) {
        self.limit.get_or_init(|| Limit { bytes, keeper });
    }

    /// How many bytes there may be.
    pub(crate) fn bytes_max(&self) -> u64 {
        let limit = self.limit.get().map_or(u64::MAX, |limit| limit.bytes);
        match self.asked_for.load(Ordering::Relaxed) {
            0 => limit,
            asked_for => limit.min(asked_for),
        }
    }

    /// The keeper has looked what it can let go of.
    pub(crate) fn has_been_asked(&self) {
        self.asked_for.store(0, Ordering::Relaxed);
    }

    /// How many bytes there are, those included that only older worlds hold.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether so many more may be kept. If not, the keeper is asked to look for what nobody uses.
    pub(crate) fn has_room(&self, more: u64) -> bool {
        let has_room = self.bytes().saturating_add(more) <= self.bytes_max();
        if !has_room {
            self.ask();
        }
        has_room
    }

    /// Counts bytes that are kept from now on.
    pub(crate) fn add(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.bytes_max() {
            self.ask();
        }
    }

    /// Counts bytes that are kept no more.
    pub(crate) fn subtract(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    #[cold]
    fn ask(&self) {
        if let Some(limit) = self.limit.get() {
            limit.keeper.note_full();
        }
    }
}

/// What was read of tables' files and is in memory, for whoever needs the memory for something else.
#[derive(Clone, Debug)]
pub struct DataMemory(pub(crate) Arc<ChunkMemory>);

impl DataMemory {
    /// Has half of it let go of, in a moment: what is used again is read again. What worlds hold that somebody reads is
    /// free when they are dropped.
    pub fn let_go(&self) {
        self.0.asked_for.store((self.0.bytes() / 2).max(1), Ordering::Relaxed);
        self.0.ask();
    }
}
