// SPDX-License-Identifier: Apache-2.0
//! A database: one engine's tables, opened, with what can be asked of it.

use crate::commit::{Decision, Pipeline};
use crate::counters::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::options::Options;
use crate::recovery;
use crate::session::Session;
use crate::shared::{InUse, Shared};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// A database over an engine. Cheap to clone; clones are the same database. With the last of them and of their sessions the
/// engine is let go of, which waits for a checkpoint that is running.
///
/// One process owns the physical schema of an engine at a time. The default engine sees to that; for others the caller
/// does.
#[derive(Clone)]
pub struct Database {
    pub(crate) shared: Arc<InUse>,
}

impl Database {
    /// Makes the physical schema if it is not there, and recovers: what was acknowledged is there, nothing half.
    ///
    /// # Errors
    /// What the engine says. What was recovered by then stays; opening again goes on.
    pub fn open(engine: Arc<dyn Engine>, options: Options) -> Result<Self> {
        Self::open_decided(engine, options, &[])
    }

    /// As [`open`](Self::open), where these prepared transactions have committed: whoever coordinated them kept that.
    /// They are part of the database when this returns, durably; prepared ones that are not among them have aborted.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_decided(engine: Arc<dyn Engine>, options: Options, decided: &[Decision]) -> Result<Self> {
        let mut connection = engine.connect()?;
        let (catalog, counters) = recovery::recover(&*engine, &mut *connection, options.layout, decided)?;
        let pipeline = Pipeline::new(Arc::clone(&engine), counters, &options);
        let shared = Shared {
            engine,
            options,
            catalog: RwLock::new(Arc::new(catalog)),
            pipeline,
            checkpoint: Mutex::new(()),
            checkpointer: Mutex::new(None),
            definitions: Mutex::new(()),
        };
        Ok(Self { shared: Arc::new(InUse::new(shared)) })
    }

    /// A session with a connection of its own.
    ///
    /// # Errors
    /// 08006: the engine is not there.
    pub fn session(&self) -> Result<Session> {
        Session::new(Arc::clone(&self.shared))
    }

    /// Moves stable versions to the storage. Readers and writers go on; one checkpoint runs at a time. Costs the
    /// versions in the caches, and for the default engine a look at each storage row's key.
    ///
    /// # Errors
    /// What the engine says. Nothing is lost, and the next checkpoint does the rest.
    pub fn checkpoint(&self) -> Result<()> {
        self.shared.run_checkpoint()
    }

    /// What its new transactions see, to be looked at from elsewhere: the place of a snapshot, which sessions can
    /// [begin at](Session::begin_at) later.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.pipeline.counters.clock()
    }

    /// From now on everything is kept that is needed by a transaction which begins at the place that `oldest` returns, or later.
    /// `oldest` returns `None` if nobody will begin before the newest place. Checkpoints and commits call it, and it must not call
    /// this database. Set once.
    pub fn retain(&self, oldest: impl Fn() -> Option<i64> + Send + Sync + 'static) {
        self.shared.pipeline.counters.retain(oldest);
    }

    /// No transaction begins at an earlier place than this.
    #[must_use]
    pub fn passed(&self) -> i64 {
        self.shared.pipeline.counters.passed().0
    }

    /// Whether nothing commits here any more, so that the database has to be opened again: a commit's end is not known, or
    /// the engine went away.
    #[must_use]
    pub fn has_stopped(&self) -> bool {
        self.shared.engine.is_lost() || self.shared.pipeline.counters.stopped().is_some()
    }

    /// Gives the engine's tables up, so that they can be opened again while sessions of this database are still there: those
    /// have failed from then on (08006, 57P03). False if the engine cannot do that; then it is free with the last session.
    #[must_use]
    pub fn retire(&self) -> bool {
        let is_free = self.shared.engine.retire();
        if is_free {
            self.shared.pipeline.counters.stop("the database was opened again".to_owned());
        }
        is_free
    }

    /// The foreign keys that name a table: the tables that have them, and their names.
    #[must_use]
    pub fn foreign_keys_to(&self, table: &str) -> Vec<(String, String)> {
        let catalog = self.shared.catalog();
        let keys =
            catalog.children(table).map(|(child, key)| (child.definition.name.clone(), key.name.clone()));
        keys.collect()
    }

    /// How many versions the caches hold, about.
    #[must_use]
    pub fn cached_versions(&self) -> usize {
        self.shared.cached()
    }
}
