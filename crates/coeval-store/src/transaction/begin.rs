// SPDX-License-Identifier: Apache-2.0
//! How transactions begin: on which world, and registered as what.

use super::serializing::Serializing;
use super::{AccessMode, Transaction};
use crate::safe_counts::Refusal;
use crate::serializable::{DeferralError, ReaderDuty, SafeWorld};
use crate::shared::Shared;
use coeval_txn::ssi::{Deferral, SessionFloor};
use coeval_txn::{ActiveSnapshots, Interrupt, Isolation};
use std::sync::Arc;

/// Which world a transaction begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BeginAt {
    Published,
    Applied,
}

impl AccessMode {
    /// Where those are registered that have it.
    #[inline]
    pub(super) fn snapshots(self, shared: &Shared) -> &ActiveSnapshots {
        match self {
            Self::ReadWrite => shared.writing(),
            Self::ReadOnly | Self::Query => shared.reading(),
        }
    }
}

impl Transaction {
    pub(crate) fn begin(shared: &Arc<Shared>, isolation: Isolation, mode: AccessMode, at: BeginAt) -> Self {
        if shared.is_following() {
            return Self::begin_following(shared, isolation);
        }
        let take = || {
            let mut snapshot = None;
            let guard = mode.snapshots(shared).register(|| {
                let world = match at {
                    BeginAt::Published => shared.published(),
                    BeginAt::Applied => shared.applied(),
                };
                snapshot.insert(world).version()
            });
            (guard, snapshot.expect("the registry asks for the version once"))
        };
        let id = shared.serializable.new_transaction();
        let ((guard, world), serializing) = match (isolation, mode) {
            (Isolation::Serializable, AccessMode::ReadWrite) => {
                let mut taken = None;
                let active = shared.serializable.begin(id, || {
                    let (_, world) = taken.insert(take());
                    (world.version(), Arc::clone(world))
                });
                let taken = taken.expect("the registry asks for the snapshot once");
                let serializing = Serializing::writer(active);
                (taken, Some(serializing))
            }
            (Isolation::Serializable, AccessMode::ReadOnly | AccessMode::Query) => {
                let begin = || {
                    let taken = take();
                    (taken.1.version(), taken)
                };
                let (taken, duty) = shared.serializable.begin_reader(begin);
                let serializing = match duty {
                    ReaderDuty::None => None,
                    ReaderDuty::Certified(guard) => Some(Serializing::reader(guard)),
                };
                (taken, serializing)
            }
            (Isolation::ReadCommitted | Isolation::Snapshot, _) => (take(), None),
        };
        Self::new(Arc::clone(shared), world, guard, isolation, mode, id, serializing)
    }

    /// Begins a declared read-only transaction on the newest safe snapshot, if that has what `floor` asks for.
    pub(crate) fn begin_safe(shared: &Arc<Shared>, floor: &SessionFloor) -> Option<Self> {
        let mut safe = shared.serializable.safe(shared.published_slot());
        if safe.as_ref().is_some_and(|safe| !safe.satisfies(floor)) {
            // What lay ready need not have been the newest.
            safe = shared.serializable.current(shared.published_slot());
        }
        let safe = safe.ok_or(Refusal::WhileCertifying);
        let safe =
            safe.and_then(|safe| if safe.satisfies(floor) { Ok(safe) } else { Err(Refusal::BehindFloor) });
        shared.serializable.counters.asked(&safe);
        safe.ok().map(|safe| Self::begin_on(shared, &safe))
    }

    /// As [`begin_safe`](Self::begin_safe), on one that has all of the version of `deferral`; waits for it.
    ///
    /// # Errors
    /// [`DeferralError`].
    pub(crate) fn begin_deferred(
        shared: &Arc<Shared>,
        deferral: Deferral,
        interrupt: Option<&(dyn Interrupt + Send + Sync)>,
    ) -> Result<Self, DeferralError> {
        let check_running = || shared.pipeline.publishing.check_running();
        let deferred =
            || shared.serializable.deferred(shared.published_slot(), deferral, interrupt, check_running);
        let safe = shared.aside(deferred)?;
        Ok(Self::begin_on(shared, &safe))
    }

    /// In a store that follows another one all transactions only read, and one at SERIALIZABLE reads a safe snapshot. While
    /// there is none, it gets the newest world and is no more than REPEATABLE READ.
    fn begin_following(shared: &Arc<Shared>, isolation: Isolation) -> Self {
        if isolation == Isolation::Serializable
            && let Some(safe) = shared.serializable.safe(shared.published_slot())
        {
            return Self::begin_on(shared, &safe);
        }
        let isolation = if isolation == Isolation::Serializable { Isolation::Snapshot } else { isolation };
        let world = shared.published();
        let guard = shared.reading().register(|| world.version());
        let id = shared.serializable.new_transaction();
        Self::new(Arc::clone(shared), world, guard, isolation, AccessMode::ReadOnly, id, None)
    }

    fn begin_on(shared: &Arc<Shared>, safe: &SafeWorld) -> Self {
        let world = Arc::clone(safe.world());
        let (isolation, mode) = (Isolation::Serializable, AccessMode::ReadOnly);
        let guard = mode.snapshots(shared).register(|| world.version());
        let id = shared.serializable.new_transaction();
        Self::new(Arc::clone(shared), world, guard, isolation, mode, id, None)
    }
}
