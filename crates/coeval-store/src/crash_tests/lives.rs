// SPDX-License-Identifier: Apache-2.0
//! The lives of a store on a simulated disk: it is opened, works, checkpoints, fails, ends, and is opened again.

use crate::checkpoint::{self, Checkpoint};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, Lie, SimulatedFiles};
use crate::log::{ChecksumPolicy, LogError, LogOptions};
use crate::manifest::manifest_path;
use crate::model_workload::{End, Model, Outcome, Workload};
use crate::options::{CheckpointPolicy, Durability, Sizes, StoreOptions, Trials};
use crate::store::Store;
use crate::transaction::{AccessMode, Transaction};
use crate::verify::verify;
use coeval_txn::Isolation;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) const DIR: &str = "/db";

/// Small chunks, so that little data meets many; see [`Sizes`].
pub(super) const SMALL: Sizes = Sizes {
    chunk_rows: 16,
    direct_load_rows_min: 8,
    batch_bytes_max: 1 << 20,
    certified_keys_max: 1 << 22,
    large_footprint_min: 4,
    leader_rows_max: 8,
    heartbeat: None,
    brick_rounds_max: 3,
    begins_terms: true,
    trials: Trials::NONE,
    expiry: Duration::from_secs(60),
};

/// What is left out on purpose.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rig {
    /// What the disk lies about, for paths that begin so.
    pub(super) lie: Option<(Lie, &'static str)>,
    pub(super) checksums: ChecksumPolicy,
}

pub(super) const HONEST: Rig = Rig { lie: None, checksums: ChecksumPolicy::Verified };

/// What the seeds have met, to see that they test something.
pub(super) type Met = BTreeMap<&'static str, u64>;

/// A store with its disk and what it must hold.
pub(super) struct Lives {
    pub(super) files: SimulatedFiles,
    pub(super) workload: Workload,
    dice: StdRng,
    rig: Rig,
    options: StoreOptions,
    log: LogOptions,
    pub(super) met: Met,
}

impl Lives {
    pub(super) fn new(seed: u64, rig: Rig) -> Self {
        let mut dice = StdRng::seed_from_u64(seed ^ 0x5eed);
        let files = SimulatedFiles::new(seed);
        if let Some((lie, place)) = rig.lie {
            files.tell_about(lie, Path::new(place));
        }
        let durability = if dice.random_ratio(1, 4) { Durability::None } else { Durability::Fsync };
        let log = LogOptions {
            segment_bytes: [600, 5_000, 50_000][dice.random_range(0..3)],
            extend_bytes: [1, 128, 4_096][dice.random_range(0..3)],
            checksums: rig.checksums,
        };
        Self {
            files,
            workload: match Workload::new(seed).with_durability(durability) {
                workload if seed.is_multiple_of(3) => workload.with_waivers(),
                workload => workload,
            },
            dice,
            rig,
            options: StoreOptions {
                durability,
                checkpoint: CheckpointPolicy::Manual,
                ..StoreOptions::default()
            },
            log,
            met: Met::new(),
        }
    }

    pub(super) fn note(&mut self, kind: &'static str) {
        *self.met.entry(kind).or_default() += 1;
    }

    /// Runs a whole seed: some lives, and a last look.
    pub(super) fn run(&mut self) -> Result<(), String> {
        for _ in 0..self.dice.random_range(2..5) {
            let store = self.open()?;
            self.arm();
            self.work(&store)?;
            self.end(store);
        }
        let store = self.open()?;
        drop(store);
        self.verify()
    }

    /// Opens the store until it works; each open that fails ends its process.
    pub(super) fn open(&mut self) -> Result<Store, String> {
        loop {
            if self.dice.random() {
                self.verify()?;
            }
            if self.dice.random_ratio(1, 4) {
                let fault = if self.dice.random() { Fault::Io } else { Fault::DiskFull };
                self.files.fail_after(self.dice.random_range(0..25), fault);
            }
            let files: Arc<dyn FileSystem> = Arc::new(self.files.clone());
            match Store::open_tuned(files, Path::new(DIR), self.options, self.log, SMALL) {
                Ok(store) => {
                    self.files.heal();
                    self.workload.take_recovered(&store.world())?;
                    return Ok(store);
                }
                Err(StoreError::File(_) | StoreError::Log(LogError::File(_))) => {
                    self.note("failed open");
                    let end = if self.dice.random() { End::Machine } else { End::Process };
                    self.end_process(end);
                }
                Err(error) => return Err(format!("the store does not open: {error}")),
            }
        }
    }

    /// Checks the files as they are, if there is a database.
    fn verify(&mut self) -> Result<(), String> {
        let dir = Path::new(DIR);
        let is_there = self.files.exists(&manifest_path(dir)).map_err(|error| error.to_string())?;
        if self.rig.checksums == ChecksumPolicy::IgnoredOnPurpose || !is_there {
            return Ok(());
        }
        let report = verify(Arc::new(self.files.clone()), dir, None).map_err(|error| error.to_string())?;
        if report.torn_tail_bytes > 0 {
            self.note("torn tail");
        }
        match report.problems.first() {
            None => Ok(()),
            Some(problem) => Err(format!("verify: {problem}")),
        }
    }

    /// Decides which calls fail from now on. Those that read do not: the workload reads what it is going to change.
    fn arm(&mut self) {
        let fault = if self.dice.random() { Fault::Writing } else { Fault::DiskFull };
        match self.dice.random_range(0..6) {
            0 => self.files.fail_after(self.dice.random_range(0..150), fault),
            1 => self.files.fail_from(self.dice.random_range(0..150), fault),
            2 => self.files.fail_randomly(60, fault),
            _ => {}
        }
    }

    fn work(&mut self, store: &Store) -> Result<(), String> {
        let mut reader: Option<(Transaction, Model)> = None;
        for _ in 0..self.dice.random_range(3..40) {
            match self.dice.random_range(0..40) {
                0..=2 => self.checkpoint(store)?,
                3..=5 => self.checkpoint_in_steps(store)?,
                6 => {
                    let tx = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
                    reader = Some((tx, self.workload.model.clone()));
                }
                _ => self.step(store),
            }
            if self.dice.random_ratio(1, 6) {
                self.workload.model.check(&store.world())?;
            }
            if self.workload.has_stopped {
                self.work_stopped(store)?;
                break;
            }
        }
        if let Some((tx, model)) = reader {
            model.check(tx.world()).map_err(|what| format!("a snapshot has changed: {what}"))?;
        }
        self.workload.model.check(&store.world())
    }

    fn step(&mut self, store: &Store) {
        if let Outcome::Unknown(_) = self.workload.step(store) {
            self.note("stopped log");
        }
    }

    /// A log that has stopped takes nothing any more, and reads go on (every step asserts the first).
    fn work_stopped(&mut self, store: &Store) -> Result<(), String> {
        if self.dice.random() {
            self.files.heal();
        }
        for _ in 0..self.dice.random_range(0..4) {
            self.step(store);
        }
        if self.dice.random() {
            self.checkpoint(store)?;
        }
        self.workload.model.check(&store.world())
    }

    fn checkpoint(&mut self, store: &Store) -> Result<(), String> {
        let outcome = checkpoint::run(&store.shared);
        self.note_checkpoint(outcome.map(drop), store)
    }

    fn note_checkpoint(&mut self, outcome: Result<(), StoreError>, store: &Store) -> Result<(), String> {
        match outcome {
            Ok(()) => {
                self.workload.note_durable();
                self.note("checkpoint");
            }
            Err(_) => self.note("failed checkpoint"),
        }
        // It may have been the checkpoint that met the failure that stopped the log.
        self.workload.has_stopped |=
            store.shared.pipeline.log().is_some_and(|log| log.check_running().is_err());
        self.workload.model.check(&store.world()).map_err(|what| format!("after a checkpoint: {what}"))
    }

    /// A checkpoint with other work between its steps, which may be abandoned or meet the end anywhere.
    fn checkpoint_in_steps(&mut self, store: &Store) -> Result<(), String> {
        let mut checkpoint = Checkpoint::freeze(&store.shared);
        self.steps(store, 5);
        let outcome = checkpoint.write();
        let is_durable = outcome.is_ok();
        if is_durable && self.options.durability == Durability::Fsync {
            self.note("checkpoint with work between");
        }
        if self.workload.has_stopped {
            return Ok(());
        }
        self.steps(store, 3);
        let outcome = match outcome {
            Ok(()) if self.dice.random_ratio(1, 5) => {
                drop(checkpoint);
                self.note("abandoned checkpoint");
                return self.workload.model.check(&store.world());
            }
            Ok(()) => checkpoint.install().map(drop),
            Err(error) => Err(error),
        };
        drop(checkpoint);
        match outcome {
            Ok(()) => {
                self.note("checkpoint");
                self.workload.model.check(&store.world())
            }
            error => self.note_checkpoint(error, store),
        }
    }

    fn steps(&mut self, store: &Store, most: usize) {
        for _ in 0..self.dice.random_range(0..=most) {
            if !self.workload.has_stopped {
                self.step(store);
            }
        }
    }

    /// Ends the process, with or without closing the store, with or without the machine.
    pub(super) fn end(&mut self, store: Store) {
        let end = if self.dice.random_ratio(2, 3) { End::Machine } else { End::Process };
        if self.dice.random() {
            self.files.heal();
            let running = store.shared.pipeline.log().is_some_and(|log| log.check_running().is_ok());
            drop(store);
            if running {
                self.workload.note_durable();
            }
            self.end_process(end);
        } else {
            self.end_process(end);
            drop(store);
        }
    }

    fn end_process(&mut self, end: End) {
        self.workload.note_end(end);
        self.files = match end {
            End::Machine => {
                self.note("crash");
                self.files.crash()
            }
            End::Process => self.files.restart(),
        };
    }
}

/// Runs a seed; a panic is a reason like any other.
pub(super) fn run_seed(seed: u64, rig: Rig, met: &mut Met) -> Result<(), String> {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut lives = Lives::new(seed, rig);
        let outcome = lives.run();
        for (kind, count) in lives.met.into_iter().chain(lives.workload.met) {
            *met.entry(kind).or_default() += count;
        }
        outcome
    }));
    outcome.unwrap_or_else(|panic| Err(reason_of(panic.as_ref())))
}

/// What a panic said.
pub(super) fn reason_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without words").to_owned()
}
