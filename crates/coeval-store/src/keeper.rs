// SPDX-License-Identifier: Apache-2.0
//! The keeper: a thread that runs checkpoints when they are due, drops what takes long to drop, and lets go of chunks that take
//! more memory than they may.
//!
//! Committing threads only count: [`KeeperSignal::note_commit`] wakes the keeper when a count passes the mark
//! that the keeper set. The keeper then looks at the worlds themselves, and sets the next mark. While the log does not
//! know how far safe snapshots may go, the keeper tells it from time to time (a heartbeat).

use crate::checkpoint;
use crate::keeper_signal::{KeeperSignal, Woken};
use crate::options::{CheckpointPolicy, Durability};
use crate::publishing::contained;
use crate::shared::Shared;
use crate::transaction::expire_bricks;
use crate::trap::Step;
use crate::unload::unload;
use std::fmt;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Rows in chunks without a file (indexes that were just built) that make a checkpoint due: building them again
/// would hold up the next open.
const UNWRITTEN_ROWS_MAX: u64 = 1_000_000;

/// At least so many changes pass between two looks at the worlds.
const CHANGES_BETWEEN_LOOKS_MIN: u64 = 1_000;

/// Behind so many times the interval at which rows are looked for that have expired, it is looked whether files of brick tables have
/// mostly such that are gone: a checkpoint takes them from the disk then, also where nothing else makes one due.
const EXPIRIES_BETWEEN_LOOKS_AT_ROUNDS: u32 = 10;

/// Owns the thread; dropping it closes the store: a running checkpoint ends early, the log is synced and its end attested.
pub(crate) struct Keeper {
    signal: Arc<KeeperSignal>,
    thread: Option<JoinHandle<()>>,
    shared: Weak<Shared>,
}

impl fmt::Debug for Keeper {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Keeper")
    }
}

impl Keeper {
    /// Starts the keeper of this store.
    pub(crate) fn start(shared: &Arc<Shared>) -> Self {
        let signal = Arc::clone(&shared.keeper);
        if shared.options.is_read_only() {
            return Self { signal, thread: None, shared: Arc::downgrade(shared) };
        }
        let thread = std::thread::Builder::new().name("coeval-keeper".to_owned()).spawn({
            let (signal, weak) = (Arc::clone(&signal), Arc::downgrade(shared));
            move || keep(&signal, &weak)
        });
        if let Err(error) = &thread {
            tracing::warn!(%error, "no thread for automatic checkpoints");
        }
        signal.poke();
        Self { signal, thread: thread.ok(), shared: Arc::downgrade(shared) }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.signal.stop();
        if let Some(thread) = self.thread.take() {
            // The thread's own panic has been reported by the panic hook.
            let _ = thread.join();
        }
        if let Some(shared) = self.shared.upgrade() {
            // Commits that waited for durability have it already; nobody is left to hear of the others.
            let attest = || shared.pipeline.attest_log(&shared);
            // A panic here would end a process that is closing the store because of another one.
            let _ = contained(&shared.pipeline.publishing, "while the store was closed", attest);
        }
    }
}

fn keep(signal: &KeeperSignal, shared: &Weak<Shared>) {
    let now = Instant::now();
    let mut last = Last { beat: now, expiry: now, rounds: now };
    while let Some(woken) = signal.wait() {
        let Some(shared) = shared.upgrade() else { return };
        let turn = || keep_once(signal, &shared, woken, &mut last);
        if contained(&shared.pipeline.publishing, "in the keeper", turn).is_err() {
            return;
        }
    }
}

/// When the keeper did what it does at intervals.
struct Last {
    beat: Instant,
    expiry: Instant,
    /// Looked at the rounds of brick tables.
    rounds: Instant,
}

/// Whether a checkpoint is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// If there is much for it.
    Perhaps,
    Certainly,
}

fn keep_once(signal: &KeeperSignal, shared: &Arc<Shared>, woken: Woken, last: &mut Last) {
    shared.trap.pass(Step::Keep);
    let is_poked = woken == Woken::Poke;
    if signal.heartbeat().is_some_and(|interval| last.beat.elapsed() >= interval)
        && signal.take_owed_heartbeat()
    {
        last.beat = Instant::now();
        if !shared.pipeline.log_boundary(shared) {
            signal.keep_owing_heartbeat();
        } else if shared.options.durability == Durability::Fsync {
            // Nobody commits: a sync disturbs nobody, and the end of the log is attested if the machine stops now. A log
            // that failed says so at the next commit.
            let _ = shared.pipeline.attest_log(shared);
        }
    }
    if is_poked || last.expiry.elapsed() >= signal.expiry() {
        last.expiry = Instant::now();
        expire_bricks(shared, now_micros());
    }
    let mut due = Due::Perhaps;
    // By time alone, however often it is poked: a checkpoint is of all tables.
    if last.rounds.elapsed() >= signal.expiry() * EXPIRIES_BETWEEN_LOOKS_AT_ROUNDS {
        last.rounds = Instant::now();
        if shared.has_void_rounds() {
            due = Due::Certainly;
        }
    }
    if is_poked || due == Due::Certainly {
        look(signal, shared, due);
    }
    if woken == Woken::Fullness {
        shared.trap.pass(Step::Unload);
        unload(shared);
    }
    // Before the sweep, so that a world that is buried meanwhile is not forgotten.
    signal.forget_graves();
    shared.trap.pass(Step::Sweep);
    let has_graves = shared.sweep_graves();
    if has_graves {
        signal.note_graves();
    }
    if is_poked || (woken == Woken::Time && !has_graves) {
        shared.trap.pass(Step::Purge);
        // Behind the sweep: worlds in graves hold their epochs.
        shared.purge_bricks();
    }
}

/// Microseconds since 1970; 0 on a machine that is set to a time before.
fn now_micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Runs a checkpoint if one is due certainly, or there is much for it, and sets the marks for the next look.
fn look(signal: &KeeperSignal, shared: &Shared, due: Due) {
    let CheckpointPolicy::Automatic { delta_entries, delta_percent, log_bytes } = shared.options.checkpoint
    else {
        return;
    };
    let mut load = Load::of(shared);
    let mut pause = 0;
    if due == Due::Certainly || load.is_due(delta_entries, delta_percent, log_bytes) {
        match checkpoint::run(shared) {
            Ok(report) => tracing::debug!(?report, "checkpoint"),
            Err(error) => {
                tracing::warn!(%error, "a checkpoint failed; commits go on");
                // Not at once again: the disk may be full.
                pause = 1 + delta_entries as u64 / 10;
            }
        }
        load = Load::of(shared);
    }
    let wanted = (delta_entries as u64).max(load.base_rows.saturating_mul(u64::from(delta_percent)) / 100);
    let missing = wanted.saturating_sub(load.delta_entries).max(CHANGES_BETWEEN_LOOKS_MIN).max(pause);
    let log_mark = if pause == 0 {
        load.log_start.saturating_add(log_bytes)
    } else {
        load.log_end.saturating_add(log_bytes / 10 + 1)
    };
    signal.set_marks(missing, log_mark);
}

/// What speaks for a checkpoint.
struct Load {
    delta_entries: u64,
    base_rows: u64,
    /// Rows of chunks that have no file, in a store with files.
    unwritten_rows: u64,
    /// Where the last checkpoint stands, and the log.
    log_start: u64,
    log_end: u64,
}

impl Load {
    fn of(shared: &Shared) -> Self {
        let world = shared.applied();
        let mut load = Self {
            delta_entries: 0,
            base_rows: 0,
            unwritten_rows: 0,
            log_start: shared.checkpoints.last_log().get(),
            log_end: shared.pipeline.log().map_or(0, |log| log.end_lsn().get()),
        };
        for (_, space) in world.tables().flat_map(|table| table.spaces()) {
            load.delta_entries += space.delta().len() as u64;
            load.base_rows += space.base_rows();
            if shared.disk.is_some() {
                let unwritten = space.base().iter().filter(|(_, chunk)| chunk.place().is_none());
                load.unwritten_rows += unwritten.map(|(_, chunk)| chunk.rows() as u64).sum::<u64>();
            }
        }
        load
    }

    fn is_due(&self, delta_entries: usize, delta_percent: u32, log_bytes: u64) -> bool {
        let delta_is_large = self.delta_entries >= delta_entries as u64
            && self.delta_entries.saturating_mul(100)
                > self.base_rows.saturating_mul(u64::from(delta_percent));
        delta_is_large
            || self.log_end - self.log_start >= log_bytes
            || self.unwritten_rows >= UNWRITTEN_ROWS_MAX
    }
}
