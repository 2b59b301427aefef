// SPDX-License-Identifier: Apache-2.0
//! Who follows the log, how far each has come, and for which of them commits wait: synchronous replication (DESIGN 8.1).
//!
//! ```text
//! commit --> log, durable here --> sent --> in a replica's log --> durable there --> seen by its readers
//!            local                          remote_write           on                remote_apply
//! ```
//! A commit of level `remote_write` or `on` is *published* (here, and by replicas) once enough replicas have it, in order: a
//! later `local` commit waits for an earlier `on`. So nobody is shown what a failover to one of these replicas could lose.
//! `remote_apply` is published as `on` is, and acknowledged once enough replicas show it to their readers, which they
//! do once they are told that it is published.
//!
//! # Which replicas count
//! Those whose `application_name` is listed, as PostgreSQL's `synchronous_standby_names` says. *Reached* is, for each of the
//! three stages, the place in the log that enough of them have come to. A place that was reached once stays so: what a replica had durably
//! it still has when its connection is lost.
//!
//! # Locking
//! A leaf lock, held for moments. Publications that follow are made outside of it (`following/replica_session.rs`).

use crate::log::Lsn;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The `application_name` of a feed of changes. No commit waits for one, also where any replica will do: nobody could fail over
/// to it.
pub const CHANGE_FEED_NAME: &str = "coeval-feed";

/// What a commit waits for before it is acknowledged: PostgreSQL's `synchronous_commit`. Without synchronous replicas,
/// everything from `Local` on is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum SynchronousCommit {
    /// Nothing: it is durable a little later.
    Off,
    /// Its record is durable here.
    Local,
    /// And handed to the operating system by enough synchronous replicas.
    RemoteWrite,
    /// And durable there.
    #[default]
    On,
    /// And seen by their readers.
    RemoteApply,
}

/// How far one who follows has come. What it has not said yet is the beginning of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Sent to it.
    pub sent: Lsn,
    /// In its log.
    pub written: Lsn,
    /// Durable there.
    pub flushed: Lsn,
    /// Seen by its readers.
    pub applied: Lsn,
    /// When it last said so, in microseconds since 1970; 0 if it has not.
    pub replied_micros: i64,
}

/// Which replicas commits wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynchronousReplicas {
    /// How many of them; at least one.
    pub count: usize,
    /// Which, if more are there.
    pub choice: ReplicaChoice,
    /// Their names, the first ones before the others; `*` is any.
    pub names: Vec<String>,
}

/// See [`SynchronousReplicas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaChoice {
    /// The first ones of the list that are connected.
    First,
    /// Whichever have it first.
    Any,
}

/// What one who follows is to commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicaRole {
    /// Nobody waits for it.
    Asynchronous,
    /// It is waited for as one of the first; its place in the list, from 1.
    Synchronous(usize),
    /// It would be if one of the first went.
    Potential(usize),
    /// It is one of those of whom any will do.
    Quorum,
}

/// One who follows, as others see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaStanding {
    /// How far it has come.
    pub progress: Progress,
    /// What it is to commits.
    pub role: ReplicaRole,
}

/// The stages that commits wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Written,
    Flushed,
    Applied,
}

const STAGES: [Stage; 3] = [Stage::Written, Stage::Flushed, Stage::Applied];

impl Stage {
    fn of(self, progress: &Progress) -> Lsn {
        match self {
            Self::Written => progress.written,
            Self::Flushed => progress.flushed,
            Self::Applied => progress.applied,
        }
    }
}

impl SynchronousReplicas {
    /// Where a name stands in the list, from 0.
    fn rank(&self, name: &str) -> Option<usize> {
        if name == CHANGE_FEED_NAME {
            return None;
        }
        self.names.iter().position(|listed| listed == "*" || listed.eq_ignore_ascii_case(name))
    }

    /// The place that enough of those have come to who are there, for one stage.
    fn reached(&self, there: &BTreeMap<u64, Replica>, stage: Stage) -> Option<Lsn> {
        let mut listed: Vec<_> = there
            .iter()
            .filter_map(|(number, replica)| {
                Some((self.rank(&replica.name)?, *number, stage.of(&replica.progress)))
            })
            .collect();
        match self.choice {
            ReplicaChoice::First => {
                listed.sort_unstable_by_key(|(rank, number, _)| (*rank, *number));
                let first = listed.get(..self.count)?;
                first.iter().map(|(_, _, place)| *place).min()
            }
            ReplicaChoice::Any => {
                listed.sort_unstable_by_key(|(_, _, place)| std::cmp::Reverse(*place));
                listed.get(self.count.checked_sub(1)?).map(|(_, _, place)| *place)
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Replica {
    name: String,
    progress: Progress,
}

#[derive(Debug, Default)]
struct State {
    required: Option<SynchronousReplicas>,
    /// By the order in which they came.
    there: BTreeMap<u64, Replica>,
    next: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    state: Mutex<State>,
    /// Whether commits wait for anybody.
    is_required: AtomicBool,
    /// For each stage; never goes back.
    reached: [AtomicU64; 3],
}

impl Replicas {
    /// Whether commits wait for replicas.
    pub(crate) fn are_required(&self) -> bool {
        self.is_required.load(Ordering::Acquire)
    }

    /// Whether enough replicas have come to this place, or none is asked for.
    pub(crate) fn have_reached(&self, stage: Stage, place: Lsn) -> bool {
        self.reached[stage as usize].load(Ordering::Acquire) >= place.get() || !self.are_required()
    }

    pub(crate) fn require(&self, required: Option<SynchronousReplicas>) {
        let mut state = self.state.lock();
        state.required = required.filter(|required| required.count > 0);
        self.is_required.store(state.required.is_some(), Ordering::Release);
        self.look(&state);
    }

    pub(crate) fn required(&self) -> Option<SynchronousReplicas> {
        self.state.lock().required.clone()
    }

    pub(crate) fn add(&self, name: &str) -> u64 {
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.there.insert(number, Replica { name: name.to_owned(), progress: Progress::default() });
        number
    }

    pub(crate) fn remove(&self, number: u64) {
        self.state.lock().there.remove(&number);
    }

    /// Changes how far one has come. Whether commits may go on that could not before.
    pub(crate) fn note(&self, number: u64, change: impl FnOnce(&mut Progress)) -> bool {
        let mut state = self.state.lock();
        let Some(replica) = state.there.get_mut(&number) else { return false };
        change(&mut replica.progress);
        self.look(&state)
    }

    /// Whether more is reached than was known.
    fn look(&self, state: &State) -> bool {
        let Some(required) = &state.required else { return false };
        let mut has_moved = false;
        for stage in STAGES {
            if let Some(place) = required.reached(&state.there, stage) {
                has_moved |=
                    self.reached[stage as usize].fetch_max(place.get(), Ordering::AcqRel) < place.get();
            }
        }
        has_moved
    }

    pub(crate) fn standing(&self, number: u64) -> Option<ReplicaStanding> {
        let state = self.state.lock();
        let replica = state.there.get(&number)?;
        let role = state.required.as_ref().map_or(ReplicaRole::Asynchronous, |required| {
            let Some(rank) = required.rank(&replica.name) else { return ReplicaRole::Asynchronous };
            if required.choice == ReplicaChoice::Any {
                return ReplicaRole::Quorum;
            }
            let mut listed: Vec<_> = state
                .there
                .iter()
                .filter_map(|(number, replica)| Some((required.rank(&replica.name)?, *number)))
                .collect();
            listed.sort_unstable();
            let place = listed.iter().position(|listed| *listed == (rank, number)).unwrap_or(usize::MAX);
            if place < required.count {
                ReplicaRole::Synchronous(rank + 1)
            } else {
                ReplicaRole::Potential(rank + 1)
            }
        });
        Some(ReplicaStanding { progress: replica.progress, role })
    }
}

#[cfg(test)]
mod tests;
