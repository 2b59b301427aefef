// SPDX-License-Identifier: Apache-2.0
//! A database: one engine's tables, with everything that its sessions share.

mod definitions;
pub(crate) use definitions::{Unfinished, describe, discard};

use crate::catalog::Catalog;
use crate::commit::Pipeline;
use crate::counters::Clock;
use crate::engine::Engine;
use crate::error::Result;
use crate::options::Options;
use crate::recovery;
use crate::session::Session;
use crate::spanning::Decision;
use parking_lot::{Mutex, RwLock};
use std::ops::Deref;
use std::sync::Arc;
use std::thread::JoinHandle;

/// What all sessions share.
///
/// # Locking
/// `definitions` is held by one CREATE or DROP TABLE at a time, around its calls of the engine; `catalog` for the copy of
/// a pointer, inside it or alone; `checkpoint` by the one checkpoint that runs; `checkpointer` for moments, inside of nothing.
pub(crate) struct Shared {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) options: Options,
    pub(crate) catalog: RwLock<Arc<Catalog>>,
    pub(crate) pipeline: Pipeline,
    pub(crate) checkpoint: Mutex<()>,
    /// The last checkpoint in the background.
    pub(crate) checkpointer: Mutex<Option<JoinHandle<()>>>,
    definitions: Mutex<()>,
}

/// What the handles of a database hold. The last one that is dropped waits for a checkpoint that runs in the background, so that
/// the engine is free then.
pub(crate) struct InUse {
    shared: Arc<Shared>,
}

impl Deref for InUse {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let checkpointer = self.shared.checkpointer.lock().take();
        // One that died of a panic has shown it.
        drop(checkpointer.map(JoinHandle::join));
    }
}

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
        Ok(Self { shared: Arc::new(InUse { shared: Arc::new(shared) }) })
    }

    /// A session with a connection of its own.
    ///
    /// # Errors
    /// 08006: the engine is not there.
    pub fn session(&self) -> Result<Session> {
        Session::new(Arc::clone(&self.shared))
    }

    /// What its new transactions see, to be looked at from elsewhere: the place of a snapshot, which sessions can
    /// [begin at](Session::begin_at) later.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.shared.pipeline.counters.clock()
    }

    /// From now on nothing goes that a transaction needs which begins at the place that `oldest` gives; none if nobody will begin
    /// at an earlier one than the newest. It is asked by checkpoints and commits, and calls nothing here. Set once.
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

impl Shared {
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read())
    }

    pub(crate) fn cached(&self) -> usize {
        let cached: i64 = self.catalog().tables().map(|table| table.cached()).sum();
        usize::try_from(cached).unwrap_or(0)
    }
}
