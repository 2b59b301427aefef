// SPDX-License-Identifier: Apache-2.0
//! What all handles of one store share: the worlds, the registry of snapshots, the pipeline, sequences.

use crate::checks::{CheckCompiler, RowChecks};
use crate::disk::Disk;
use crate::error::StoreError;
use crate::ids::{SequenceId, SpaceId};
use crate::log::Log;
use crate::options::{Durability, StoreOptions};
use crate::pipeline::Pipeline;
use crate::record::encode_body;
use crate::sequence::Sequences;
use crate::submission::Submission;
use crate::table::Table;
use crate::transaction::{AccessMode, Committed, Transaction};
use crate::world::World;
use arc_swap::ArcSwap;
use coeval_txn::{ActiveSnapshots, Isolation, Version};
use parking_lot::RwLock;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The state of an open store.
pub(crate) struct Shared {
    pub(crate) options: StoreOptions,
    /// The newest world that sessions may read.
    published: ArcSwap<World>,
    /// The newest certified world; its log record may not be durable yet.
    applied: ArcSwap<World>,
    snapshots: ActiveSnapshots,
    pub(crate) pipeline: Pipeline,
    pub(crate) sequences: Sequences,
    /// # Locking
    /// Held to read or set the compiler, never while it compiles.
    check_compiler: RwLock<Option<Arc<dyn CheckCompiler>>>,
    next_space: AtomicU32,
    next_sequence: AtomicU32,
    /// The directory, if the store has one.
    pub(crate) disk: Option<Disk>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared(version {})", self.published().version())
    }
}

/// Which world a transaction begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginAt {
    Published,
    Applied,
}

impl Shared {
    pub(crate) fn new(
        options: StoreOptions,
        world: World,
        log: Option<Log>,
        sequences: Sequences,
        disk: Option<Disk>,
    ) -> Self {
        let next_space = 1 + highest_space(&world);
        let next_sequence = 1 + world.catalog().sequences().map(|sequence| sequence.id.get()).max().unwrap_or(0);
        let durability = if log.is_some() { options.durability } else { Durability::None };
        let pipeline = Pipeline::new(log, durability, world.version());
        let world = Arc::new(world);
        Self {
            options,
            published: ArcSwap::new(Arc::clone(&world)),
            applied: ArcSwap::new(world),
            snapshots: ActiveSnapshots::new(),
            pipeline,
            sequences,
            check_compiler: RwLock::new(None),
            next_space: AtomicU32::new(next_space),
            next_sequence: AtomicU32::new(next_sequence),
            disk,
        }
    }

    pub(crate) fn published(&self) -> Arc<World> {
        self.published.load_full()
    }

    pub(crate) fn applied(&self) -> Arc<World> {
        self.applied.load_full()
    }

    pub(crate) fn set_published(&self, world: Arc<World>) {
        self.published.store(world);
    }

    pub(crate) fn set_applied(&self, world: Arc<World>) {
        self.applied.store(world);
    }

    pub(crate) fn oldest_active(&self) -> Version {
        self.snapshots.oldest_or(|| self.published.load().version())
    }

    pub(crate) fn active_snapshots(&self) -> usize {
        self.snapshots.count()
    }

    pub(crate) fn begin(self: &Arc<Self>, isolation: Isolation, mode: AccessMode, at: BeginAt) -> Transaction {
        let mut snapshot = None;
        let guard = self.snapshots.register(|| {
            let world = match at {
                BeginAt::Published => self.published(),
                BeginAt::Applied => self.applied(),
            };
            snapshot.insert(world).version()
        });
        let world = snapshot.expect("the registry asks for the version once");
        Transaction::new(Arc::clone(self), world, guard, isolation, mode)
    }

    /// Commits a transaction that wrote something.
    pub(crate) fn commit(&self, mut submission: Submission) -> Result<Committed, StoreError> {
        if let Some(disk) = &self.disk {
            disk.write_loads(&submission.loads)?;
            let mut body = Vec::with_capacity(512);
            encode_body(&submission, &mut body);
            submission.body = body;
        }
        self.pipeline.commit(self, submission)
    }

    /// Acknowledges a transaction that only read: what it read must be durable first.
    pub(crate) fn acknowledge_read(&self, version: Version) -> Result<Committed, StoreError> {
        if self.published.load().version() < version {
            self.pipeline.wait_published(self, version)?;
        }
        Ok(Committed { version })
    }

    pub(crate) fn set_check_compiler(&self, compiler: Arc<dyn CheckCompiler>) {
        *self.check_compiler.write() = Some(compiler);
    }

    /// The checks of a table, compiled once per definition.
    pub(crate) fn row_checks(&self, table: &Table) -> Result<Arc<dyn RowChecks>, StoreError> {
        let compiled = table.checks().get_or_init(|| {
            let compiler = self.check_compiler.read().clone();
            let compiler = compiler.ok_or_else(|| "no SQL layer is attached".to_owned())?;
            compiler.compile(table.def())
        });
        compiled.clone().map_err(StoreError::CheckText)
    }

    pub(crate) fn new_space_id(&self) -> SpaceId {
        SpaceId::new(self.next_space.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn new_sequence_id(&self) -> SequenceId {
        SequenceId::new(self.next_sequence.fetch_add(1, Ordering::Relaxed))
    }
}

/// The highest number of a table or index. Numbers of dropped ones may be given again after a restart: by
/// then no log record or snapshot knows them.
fn highest_space(world: &World) -> u32 {
    let of_table = |table: &Arc<Table>| table.spaces().map(|(id, _)| id.get()).max().unwrap_or(0);
    world.tables().map(of_table).max().unwrap_or(0)
}
