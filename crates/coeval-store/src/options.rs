// SPDX-License-Identifier: Apache-2.0
//! What can be chosen when a store is opened.

use crate::chunk::CHUNK_ROWS;
use crate::log::PAYLOAD_BYTES_MAX;
use crate::machine::machine_memory;
use std::time::Duration;

/// What an acknowledged commit survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// A crash of the process or the machine: a commit is acknowledged when its log record is synced.
    #[default]
    Fsync,
    /// A crash of the process, once the operating system has taken the record; of the machine only up to
    /// the last sync.
    None,
}

/// When the delta is merged into the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointPolicy {
    /// In the background, as soon as the deltas of all tables together have this many entries and are more
    /// than this share (in percent) of the base's rows, or the log has grown by `log_bytes`.
    Automatic {
        /// Entries in all deltas.
        delta_entries: usize,
        /// Percent of the base's rows.
        delta_percent: u32,
        /// Bytes of log since the last checkpoint.
        log_bytes: u64,
    },
    /// Only when asked for.
    Manual,
}

impl Default for CheckpointPolicy {
    /// Two million entries bound the memory of a delta to some hundred MB and a replay to seconds; a fifth of
    /// the base bounds how often a chunk is rewritten.
    fn default() -> Self {
        Self::Automatic { delta_entries: 2_000_000, delta_percent: 20, log_bytes: 1 << 30 }
    }
}

/// What is done about tables that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum DamagedTables {
    /// The database does not open, and the error names what is damaged.
    #[default]
    Refuse,
    /// The database is opened to be read only, without a change of its files: a damaged table is an error for whoever
    /// reads it, and the others are as they were. Damage of the manifest or the log is refused as ever.
    ServeOthersReadOnly,
}

/// Whether the log, and what is sent beside it, says what replicas make safe snapshots of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[doc(hidden)]
pub enum SafeLogging {
    /// It does.
    #[default]
    On,
    /// Neither out-edges of commits nor boundaries are logged or sent, and a replica that is opened so notes none: for
    /// the benchmark that asks what they cost. Such a replica has no safe snapshot, so SERIALIZABLE is refused there.
    /// Nothing wrong is shown if one side is opened so and the other is not, or the same one later on: a boundary that
    /// is logged then lies behind all commits of before.
    Off,
}

/// How a store behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StoreOptions {
    /// What an acknowledged commit survives.
    pub durability: Durability,
    /// When the delta is merged into the base.
    pub checkpoint: CheckpointPolicy,
    /// What is done about tables that cannot be read.
    pub damaged: DamagedTables,
    /// Bytes of columns and keys that were read from files and stay in memory for the next one who reads them; a third of
    /// the machine's memory if not given. Scans read what has no room without keeping it. Transactions that read row by row
    /// keep what they have read until they end, also beyond it.
    pub data_memory: Option<u64>,
    /// So many bytes of log stay behind each checkpoint, whoever is connected; see
    /// [`Store::set_log_keep_bytes`](crate::Store::set_log_keep_bytes), which changes it.
    pub log_keep_bytes: u64,
    /// Whether replicas are told of safe snapshots. Only a benchmark says no.
    #[doc(hidden)]
    pub safe_logging: SafeLogging,
}

impl StoreOptions {
    /// How many bytes of chunks may stay in memory.
    pub(crate) fn data_memory_or_default(&self) -> u64 {
        self.data_memory.unwrap_or_else(|| (machine_memory() / 3) as u64)
    }

    /// Whether nothing may be written.
    pub(crate) fn is_read_only(&self) -> bool {
        self.damaged == DamagedTables::ServeOthersReadOnly
    }
}

/// What a test breaks on purpose, to see that the loss is found. Nothing of it is ever on in a database that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Trials {
    /// At SERIALIZABLE nobody is refused for what it read.
    pub rules_are_off: bool,
    /// Declared readers get the newest world for a safe snapshot.
    pub safe_is_newest: bool,
}

impl Trials {
    /// Nothing is broken.
    pub const NONE: Self = Self { rules_are_off: false, safe_is_newest: false };
}

/// Half a gigabyte of some 120 bytes for each key, and half as much again for long ones: what 100,000 keys a second leave
/// behind in 40 seconds. A writer that takes longer beside such a load may be refused for what others did elsewhere in its
/// tables.
const CERTIFIED_KEYS_MAX: usize = 1 << 22;

/// Sizes that tests make small, so that little data meets many chunks, and what they break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// Rows in a full chunk that a checkpoint writes.
    pub(crate) chunk_rows: usize,
    /// Loads of fewer rows go row by row: a chunk of a few rows would cost every later scan.
    pub(crate) direct_load_rows_min: usize,
    /// Bytes that a commit batch may take in the log, without the few that each of its transactions adds.
    pub(crate) batch_bytes_max: usize,
    /// So many keys that were accessed since the oldest transaction began are remembered one by one.
    pub(crate) certified_keys_max: usize,
    /// The certifier takes a footprint of so many accesses as a whole.
    pub(crate) large_footprint_min: usize,
    /// So many rows a new index takes in under the leader's lock.
    pub(crate) leader_rows_max: usize,
    /// How often the log is told how far safe snapshots may go while nobody commits; never if not given.
    pub(crate) heartbeat: Option<Duration>,
    /// How often rows are looked for that are older than their tables keep them.
    pub(crate) expiry: Duration,
    /// With so many flush rounds of a brick table the next one keeps everything.
    pub(crate) brick_rounds_max: usize,
    /// Whether each opening begins a term in the log.
    pub(crate) begins_terms: bool,
    pub(crate) trials: Trials,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            chunk_rows: CHUNK_ROWS,
            direct_load_rows_min: 4_096,
            batch_bytes_max: PAYLOAD_BYTES_MAX - (1 << 20),
            certified_keys_max: CERTIFIED_KEYS_MAX,
            // Recording so many one by one takes some ten milliseconds.
            large_footprint_min: 65_536,
            // Some ten milliseconds.
            leader_rows_max: 4_096,
            heartbeat: None,
            // Bricks expire as a whole, so their age is given in hours or days rather than seconds.
            expiry: Duration::from_secs(60),
            // Opening reads each round, and void rows take room.
            brick_rounds_max: 32,
            begins_terms: false,
            trials: Trials::NONE,
        }
    }
}
