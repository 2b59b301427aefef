// SPDX-License-Identifier: Apache-2.0
//! Who follows the log, how far each has come, and for which of them commits wait: synchronous replication.
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
//! Those whose `application_name` is listed, as PostgreSQL's `synchronous_standby_names` says. Each name counts once, with the most that
//! one of its connections has said: one that has broken may be there for minutes beside the next one, and who is promoted
//! counts machines. Where any name will do, connections are counted. *Reached* is, for each of the
//! three stages, the place in the log that enough of them have come to. A place that was reached once stays so: what a replica had durably
//! it still has when its connection is lost.
//!
//! The list is part of the catalog, so it is in the log, and with who follows: a promotion asks as many of them as have to know
//! of whatever was acknowledged (`promises.rs`). While one list follows another, a place is reached once both say so, up to
//! where the change is in the log: who goes by the old list then finds the new one with one of those that it asks. The change says which
//! lists it follows ([`SynchronousReplicas::before`]): whoever has it, opened again or promoted, goes by all of them, until the new list
//! is written down alone, which is done once enough have the change. A list that ends without another one ends all waits at once.
//!
//! # Locking
//! A leaf lock, held for moments. Publications that follow are made outside of it (`following/replica_session.rs`).

use crate::log::Lsn;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SynchronousReplicas {
    /// How many of them; at least one.
    pub count: usize,
    /// Which, if more are there.
    pub choice: ReplicaChoice,
    /// Their names, the first ones before the others; `*` is any.
    pub names: Vec<String>,
    /// The name of the primary that this was said to, which writes it here; empty if it has none. It may stand in the list as
    /// well, and counts for itself then: so one list serves whichever of some machines is the primary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub primary: String,
    /// Lists that this one follows, as long as it is not known that enough of their machines know of it: commits wait for those as
    /// well, and a promotion needs promises by each. What is asked for has none; the store writes them here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<SynchronousReplicas>,
}

/// See [`SynchronousReplicas`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl ReplicaRole {
    /// Those that are waited for come first.
    fn rank(self) -> u8 {
        match self {
            Self::Synchronous(_) => 0,
            Self::Quorum => 1,
            Self::Potential(_) => 2,
            Self::Asynchronous => 3,
        }
    }
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

/// Stands for any name in a list.
const ANY_NAME: &str = "*";

impl SynchronousReplicas {
    /// Where the name of another machine than `own` stands in the list, from 0.
    fn rank(&self, own: &str, name: &str) -> Option<usize> {
        if name == CHANGE_FEED_NAME || (!own.is_empty() && name.eq_ignore_ascii_case(own)) {
            return None;
        }
        self.names.iter().position(|listed| listed == ANY_NAME || listed.eq_ignore_ascii_case(name))
    }

    /// The listed names, in lower case. `None` if any name will do.
    pub(crate) fn members(&self) -> Option<BTreeSet<String>> {
        let members: BTreeSet<_> = self.names.iter().map(|name| name.to_ascii_lowercase()).collect();
        (!members.contains(ANY_NAME)).then_some(members)
    }

    /// What those have in common that are connections of one machine, of one whose name stands at this rank: its name. Where any name
    /// will do, machines may have the same one, and each connection counts.
    fn machine(&self, rank: usize, number: u64) -> (usize, Option<u64>) {
        (rank, (self.names[rank] == ANY_NAME).then_some(number))
    }

    /// This list, and those that it follows and that still count.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.before)
    }

    /// Whether the primary that has written it down is one of the machines, and so counts among those that have what was acknowledged.
    fn counts_primary(&self) -> bool {
        self.has_member(&self.primary)
    }

    /// Whether it asks for the same of the same machines, and whoever goes by the other one alone asks as many of them for their
    /// promises, or more. Then the other one need not be written down beside it.
    fn stands_for(&self, other: &Self) -> bool {
        let is_same = self.count == other.count && self.choice == other.choice && self.names == other.names;
        is_same && (self.counts_primary() || !other.counts_primary())
    }

    /// Whether a machine of this name is listed.
    #[must_use]
    pub fn has_member(&self, name: &str) -> bool {
        self.members().is_some_and(|members| members.contains(&name.to_ascii_lowercase()))
    }

    /// How many others have to have what a primary of this name acknowledges: as many as are asked for, or as are listed if that
    /// is fewer. So the last of them that is left goes on by itself.
    #[must_use]
    pub fn needed(&self, own: &str) -> usize {
        let others = |members: BTreeSet<String>| members.len() - usize::from(self.has_member(own));
        self.members().map_or(self.count, |members| self.count.min(others(members)))
    }

    /// How many of the listed machines have to promise a timeline to one of them who is to be promoted, itself included: so many
    /// that whatever was acknowledged is with one of them. `None` if any name will do: then nobody can say.
    ///
    /// Of M listed machines, n have what was acknowledged, and one more if each primary is one of them: the first is, or is not,
    /// and each later one has to be to be promoted. So M - n, or M - n + 1, include one of those.
    #[must_use]
    pub fn promises_needed(&self) -> Option<usize> {
        let members = self.members()?.len();
        let counts_itself = usize::from(self.counts_primary());
        let others = self.count.min(members - counts_itself);
        Some(members - others + 1 - counts_itself)
    }

    /// Whether two candidates may each find enough that promise a timeline of one number.
    pub(crate) fn is_promised_by_few(&self) -> bool {
        let members = self.members().map_or(0, |members| members.len());
        self.promises_needed().is_some_and(|needed| 2 * needed <= members)
    }

    /// The place that so many of those have come to who are there, for one stage.
    fn reached(&self, needed: usize, own: &str, there: &BTreeMap<u64, Replica>, stage: Stage) -> Option<Lsn> {
        let mut listed: Vec<_> = there
            .iter()
            .filter_map(|(number, replica)| {
                Some((self.rank(own, &replica.name)?, *number, stage.of(&replica.progress)))
            })
            .collect();
        listed.sort_unstable_by_key(|(rank, _, place)| (*rank, std::cmp::Reverse(*place)));
        listed.dedup_by_key(|(rank, number, _)| self.machine(*rank, *number));
        match self.choice {
            ReplicaChoice::First => {
                listed.sort_unstable_by_key(|(rank, number, _)| (*rank, *number));
                let first = listed.get(..needed)?;
                first.iter().map(|(_, _, place)| *place).min()
            }
            ReplicaChoice::Any => {
                listed.sort_unstable_by_key(|(_, _, place)| std::cmp::Reverse(*place));
                listed.get(needed.checked_sub(1)?).map(|(_, _, place)| *place)
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Replica {
    name: String,
    progress: Progress,
}

/// A list that another one follows.
#[derive(Clone, Debug)]
struct Before {
    list: SynchronousReplicas,
    /// Where the change that ended it is in the log; that is not known while it is being written.
    end: Option<Lsn>,
    /// Who has gone by it.
    by: WentBy,
}

/// Who has gone by a list alone before another one followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WentBy {
    /// This primary, since it was opened.
    This,
    /// One that wrote the log before this one was opened.
    Earlier,
}

impl Before {
    /// How many others a primary of this name asks. It may have been promoted by the list that follows and not be listed here, while
    /// whoever goes by this one alone counts a primary, which was listed, among those that have what was acknowledged: then one more
    /// has to.
    fn needed(&self, own: &str) -> usize {
        match self.list.members() {
            Some(members) if self.by == WentBy::Earlier && !self.list.has_member(own) => {
                self.list.count.min(members.len().saturating_sub(1)) + 1
            }
            _ => self.list.needed(own),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    /// The name of this machine.
    own: String,
    /// Those of others, for who asks whom it knows.
    peers: Vec<String>,
    required: Option<SynchronousReplicas>,
    /// Lists that were asked for before, of which it is not known that enough of their machines have the next one.
    before: Vec<Before>,
    /// By the order in which they came.
    there: BTreeMap<u64, Replica>,
    next: u64,
}

impl State {
    /// All lists that commits wait for.
    fn lists(&self) -> impl Iterator<Item = &SynchronousReplicas> {
        self.before.iter().map(|before| &before.list).chain(&self.required)
    }

    /// The lists that ask for other machines, and for how many.
    fn needed(&self) -> impl Iterator<Item = (&SynchronousReplicas, usize)> {
        let newest = self.required.iter().map(move |list| (list, list.needed(&self.own)));
        let before = self.before.iter().map(move |before| (&before.list, before.needed(&self.own)));
        newest.chain(before).filter(|(_, needed)| *needed > 0)
    }

    /// What one of those who are there is by one of the lists, which asks for so many others.
    fn role(&self, list: &SynchronousReplicas, needed: usize, number: u64, replica: &Replica) -> ReplicaRole {
        let Some(rank) = list.rank(&self.own, &replica.name) else { return ReplicaRole::Asynchronous };
        if list.choice == ReplicaChoice::Any {
            return ReplicaRole::Quorum;
        }
        let there = self.there.iter();
        let mut listed: Vec<_> = there
            .filter_map(|(number, replica)| Some((list.rank(&self.own, &replica.name)?, *number)))
            .collect();
        listed.sort_unstable();
        let place = listed.iter().position(|listed| *listed == (rank, number)).unwrap_or(usize::MAX);
        if place < needed { ReplicaRole::Synchronous(rank + 1) } else { ReplicaRole::Potential(rank + 1) }
    }

    /// Whether one of the lists asks for another machine.
    fn asks_for_some(&self) -> bool {
        self.required.is_some() && self.needed().next().is_some()
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Replicas {
    state: Mutex<State>,
    /// Whether commits wait for anybody.
    is_required: AtomicBool,
    /// For each stage; never goes back.
    reached: [AtomicU64; 3],
    /// The end of the log that the store was opened with, behind the record that begins its own term, until enough replicas have
    /// it.
    recovered: AtomicU64,
}

impl Replicas {
    /// Of a store that writes its log, which ends here when it is opened.
    pub(crate) fn new(required: Option<SynchronousReplicas>, recovered: Lsn) -> Self {
        let replicas = Self { recovered: AtomicU64::new(recovered.get()), ..Self::default() };
        let mut state = replicas.state.lock();
        // The change lies before the end of the log, and nobody knows any more how many have it.
        let before = required.iter().flat_map(|required| &required.before);
        let (end, by) = (Some(recovered), WentBy::Earlier);
        state.before = before.map(|list| Before { list: list.clone(), end, by }).collect();
        replicas.set_required(&mut state, required);
        drop(state);
        replicas
    }

    /// Whether enough replicas have all that the log had when it was opened, so that whoever reads it is shown nothing that a
    /// failover loses; or none is asked for.
    pub(crate) fn have_recovered(&self) -> bool {
        let recovered = self.recovered.load(Ordering::Relaxed);
        let has_it = self.have_reached(Stage::Flushed, Lsn::new(recovered));
        if has_it && recovered > 0 {
            self.recovered.store(0, Ordering::Relaxed);
        }
        has_it
    }

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
        state.before.clear();
        self.set_required(&mut state, required);
    }

    /// Asks for these as well as for those that were asked for before, until [`end_before`](Self::end_before) and until both
    /// have the change.
    pub(crate) fn require_both(&self, required: SynchronousReplicas) {
        let mut state = self.state.lock();
        let before = state.required.take().map(|list| Before { list, end: None, by: WentBy::This });
        state.before.extend(before);
        self.set_required(&mut state, Some(required));
    }

    /// The change was not made: the list of before [`require_both`](Self::require_both) holds again, beside those before it.
    pub(crate) fn take_back(&self) {
        let mut state = self.state.lock();
        let before = state.before.pop_if(|before| before.end.is_none()).map(|before| before.list);
        self.set_required(&mut state, before);
    }

    /// The change of the list is in the log up to here.
    pub(crate) fn end_before(&self, change: Lsn) {
        let mut state = self.state.lock();
        state.before.iter_mut().for_each(|before| before.end = before.end.or(Some(change)));
        self.look(&mut state);
    }

    pub(crate) fn own_name(&self) -> String {
        self.state.lock().own.clone()
    }

    /// The other machines that this one asks and tells, as it calls them.
    pub(crate) fn peer_names(&self) -> Vec<String> {
        self.state.lock().peers.clone()
    }

    pub(crate) fn set_peer_names(&self, peers: Vec<String>) {
        self.state.lock().peers = peers;
    }

    /// This machine is called so from now on.
    pub(crate) fn set_own_name(&self, own: &str) {
        let mut state = self.state.lock();
        own.clone_into(&mut state.own);
        let required = state.required.take();
        self.set_required(&mut state, required);
    }

    fn set_required(&self, state: &mut State, required: Option<SynchronousReplicas>) {
        state.required = required;
        self.note_required(state);
        self.look(state);
    }

    /// Notes whether commits wait for anybody, for who looks without the lock.
    fn note_required(&self, state: &State) {
        let is_required = state.asks_for_some();
        self.is_required.store(is_required, Ordering::Release);
        if !is_required {
            self.recovered.store(0, Ordering::Relaxed);
        }
    }

    /// Lists that commits wait for beside one, which says what its primary is called: those that it follows, and that do not know
    /// of it yet.
    pub(crate) fn lists_beside(&self, one: &SynchronousReplicas) -> Vec<SynchronousReplicas> {
        let state = self.state.lock();
        let mut beside: Vec<SynchronousReplicas> = Vec::new();
        for list in state.lists() {
            let is_known = |known: &SynchronousReplicas| known.stands_for(list) && list.stands_for(known);
            if !one.stands_for(list) && !beside.iter().any(is_known) {
                beside.push(SynchronousReplicas { before: Vec::new(), ..list.clone() });
            }
        }
        beside
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
        self.look(&mut state)
    }

    /// Whether more is reached than was known.
    fn look(&self, state: &mut State) -> bool {
        let mut has_moved = false;
        loop {
            if state.required.is_none() {
                return has_moved;
            }
            for stage in STAGES {
                let State { own, there, .. } = &*state;
                let reached = state.needed().map(|(list, needed)| list.reached(needed, own, there, stage));
                let reached = reached.min().flatten();
                if let Some(place) = reached {
                    has_moved |=
                        self.reached[stage as usize].fetch_max(place.get(), Ordering::AcqRel) < place.get();
                }
            }
            // Whoever goes by one of these lists finds the one behind it.
            let count = state.before.len();
            let is_over = |end: Option<Lsn>| end.is_some_and(|end| self.have_reached(Stage::Flushed, end));
            state.before.retain(|before| !is_over(before.end));
            if state.before.len() == count {
                return has_moved;
            }
            self.note_required(state);
            has_moved |= !self.are_required();
        }
    }

    /// How far one has come, and the most that it is to commits by any of the lists that they wait for.
    pub(crate) fn standing(&self, number: u64) -> Option<ReplicaStanding> {
        let state = self.state.lock();
        let replica = state.there.get(&number)?;
        let roles = state.needed().map(|(list, needed)| state.role(list, needed, number, replica));
        let role = roles.min_by_key(|role| role.rank()).unwrap_or(ReplicaRole::Asynchronous);
        Some(ReplicaStanding { progress: replica.progress, role })
    }
}

#[cfg(test)]
mod tests;
