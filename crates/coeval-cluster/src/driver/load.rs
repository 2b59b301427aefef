// SPDX-License-Identifier: Apache-2.0
//! [`Load`]: rows that become visible together, everywhere.

mod named;

pub use named::NamedLoad;

use super::engine::{Engine, LoadCaller};
use super::error::LoadError;
use super::life::Life;
use super::options::NodeOptions;
use crate::brick_change::BrickChange;
use arrow::array::RecordBatch;
use bytes::Bytes;
use coeval_txn::cluster::{BrickAddress, LoadFate, NodeError};
use coeval_txn::{Epoch, EpochSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Bytes of a message around the rows in it: more than its numbers can take.
const ENVELOPE_BYTES: usize = 256;

/// Appends that are done in one step of the node's, so that others come to theirs: of a megabyte together, as a rule.
const APPENDS_AT_ONCE: usize = 16;

/// Appends that may be unanswered, however small.
const WINDOW_MAX: usize = 4_096;

/// What the commit of a load waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitWait {
    /// For the decision: rows and commit are in the logs of all live replicas of the load's bricks, on disk. After that no
    /// failure of fewer nodes than there are replicas loses it.
    #[default]
    Decided,
    /// For nothing but that this node has taken the wish. If it dies before the holders have logged the commit, the load is
    /// rolled back, as a whole.
    Local,
}

/// Whether the protocol has taken an append.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    Yes,
    /// The load is over.
    No,
}

/// How far a load is whose commit has returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Committed {
    /// It is decided, and lasts.
    Decided,
    /// It is on its way.
    UnderWay,
}

/// A load: it reads nothing, and its rows become visible together or not at all, in every snapshot of every node.
///
/// If it is dropped before it is committed, it is rolled back.
pub struct Load {
    life: Arc<Life>,
    epoch: Epoch,
    is_over: bool,
    /// What was to be appended so far: how often, and bytes.
    appends: usize,
    bytes: usize,
}

impl Load {
    pub(super) fn new(life: Arc<Life>, epoch: Epoch) -> Self {
        Self { life, epoch, is_over: false, appends: 0, bytes: 0 }
    }

    /// The life of the node in which it runs.
    pub(super) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }

    /// The label of its rows.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Sends rows to all replicas of a brick, as [`Tables::rows`](crate::Tables::rows) gives them, or [`Node::rows`](crate::Node::rows)
    /// if the table has texts: then with the texts of the codes in these rows. They are copied to none yet when this returns; the commit waits for all.
    ///
    /// Waits while too many appends of this load are unanswered: so a load is as fast as its slowest holder, and takes no
    /// more memory here than the [window](crate::NodeOptions::append_window). May be given up while it waits: then these rows are not sent.
    ///
    /// # Errors
    /// If these are no rows of the brick, or too many for one append with their texts, in which case the load goes on without them; or if the
    /// load is over.
    pub async fn append(&mut self, brick: BrickAddress, rows: Bytes) -> Result<(), LoadError> {
        self.change(brick, BrickChange::Rows(rows)).await
    }

    /// Appends the rows of a batch, texts among them: first all that are new get their codes, as [`Node::rows`](crate::Node::rows)
    /// says, then the rows are sent, as [`append`](Self::append) says. Those of bricks that are on the same nodes are appended together, and
    /// what goes to one node goes in few frames.
    ///
    /// # Errors
    /// As [`Node::rows`](crate::Node::rows): then nothing of the batch is in the load, which goes on without it. As
    /// [`append`](Self::append): then a part of the batch may be in it, so it had better be rolled back.
    pub async fn append_rows(&mut self, table: u64, batch: &RecordBatch) -> Result<(), LoadError> {
        let (life, epoch) = (Arc::clone(&self.life), self.epoch);
        let routed = life.routed(table, batch).await?;
        let places = life.look(|engine| engine.protocol.places_of(epoch, routed.bricks()));
        let places = places.ok_or_else(|| self.unknown())?.map_err(|_| self.lost())?;
        let mut rows = routed.together(&places).into_iter();
        drop(routed);
        rows.as_slice().iter().for_each(|rows| self.count(rows.bytes.len()));
        while !rows.as_slice().is_empty() {
            // Else a slow holder's answers would have a few go at a time.
            let many = rows.len().min(APPENDS_AT_ONCE).min(self.window() / 2);
            let room = self.room(many).await?.min(APPENDS_AT_ONCE);
            let limit = self.bytes_max();
            // In one step: what goes to the same node goes together, and is answered together.
            let appended: Option<Result<Taken, LoadError>> = life.step(|engine| {
                engine.sends_all = true;
                for rows in rows.by_ref().take(room) {
                    let brick = rows.brick;
                    let change = engine.routed_with_texts(rows).map_err(LoadError::Refused)?;
                    if engine.append(epoch, (brick, change), limit)? == Taken::No {
                        return Ok(Taken::No);
                    }
                    // What was checked of these rows is used before the next ones are checked.
                    engine.carry_out_all();
                }
                Ok(Taken::Yes)
            });
            self.appended(appended)?;
        }
        Ok(())
    }

    /// Sends what it does to a brick.
    pub(super) async fn change(&mut self, brick: BrickAddress, change: BrickChange) -> Result<(), LoadError> {
        let (epoch, limit) = (self.epoch, self.bytes_max());
        if change.size() > limit {
            return Err(LoadError::TooLong { bytes: change.size(), limit });
        }
        self.count(change.size());
        self.room(1).await?;
        let appended = self.life.step(|engine| {
            engine.sends_all = true;
            let change = engine.with_texts(brick, change).map_err(LoadError::Refused)?;
            engine.append(epoch, (brick, change), limit)
        });
        self.appended(appended)
    }

    /// Bytes that the rows of one append may have with their texts.
    fn bytes_max(&self) -> usize {
        self.life.options.transport.bounds.frame_bytes - ENVELOPE_BYTES
    }

    /// Something of so many bytes is to be appended.
    fn count(&mut self, bytes: usize) {
        self.appends += 1;
        self.bytes += bytes;
    }

    /// Appends that may be unanswered: one at least.
    fn window(&self) -> usize {
        let NodeOptions { append_window, append_window_bytes, .. } = &self.life.options;
        let append_bytes = (self.bytes / self.appends.max(1)).max(1);
        (append_window_bytes / append_bytes).min(WINDOW_MAX).max(*append_window).max(1)
    }

    /// Waits until there may be so many further appends, or as many as the window has; how many there may be.
    async fn room(&self, wanted: usize) -> Result<usize, LoadError> {
        let (epoch, window) = (self.epoch, self.window());
        let wanted = wanted.clamp(1, window);
        let room = self.life.until(|engine| {
            let room = window.saturating_sub(engine.protocol.unanswered_appends(epoch));
            (room >= wanted).then_some(room)
        });
        room.await.ok_or_else(|| self.unknown())
    }

    /// What has become of appends in a step of the node's, if it was still there for one.
    fn appended(&self, appended: Option<Result<Taken, LoadError>>) -> Result<(), LoadError> {
        match appended.ok_or_else(|| self.unknown())?? {
            Taken::Yes => Ok(()),
            Taken::No => Err(self.lost()),
        }
    }

    /// What it sees, once all members have answered its begin. May be given up.
    pub(super) async fn snapshot(&self) -> Result<EpochSet, LoadError> {
        /// What the begin has come to.
        enum Begun {
            Sees(EpochSet),
            IsOver,
        }
        let begun = self.life.until(|engine| {
            let caller = engine.callers.get(&self.epoch);
            let is_over = caller.is_none_or(|caller| caller.fate.is_some());
            let seen = engine.protocol.snapshot_of(self.epoch).map(Begun::Sees);
            seen.or(is_over.then_some(Begun::IsOver))
        });
        match begun.await.ok_or_else(|| self.unknown())? {
            Begun::Sees(seen) => Ok(seen),
            Begun::IsOver => Err(self.lost()),
        }
    }

    /// Has the load committed. What is returned says how far it is.
    ///
    /// May be given up while it waits: then it commits all the same.
    ///
    /// # Errors
    /// If it is rolled back, or nobody here can know how it ends; each says what became of the rows.
    pub async fn commit(mut self, wait: CommitWait) -> Result<Committed, LoadError> {
        let decided = self.ask(|engine, epoch| engine.protocol.commit(epoch))?;
        if wait == CommitWait::Local {
            return Ok(Committed::UnderWay);
        }
        match self.fate(decided).await? {
            LoadFate::Committed => Ok(Committed::Decided),
            LoadFate::RolledBack => Err(LoadError::RolledBack(self.epoch)),
            LoadFate::Unknown => Err(self.unknown()),
        }
    }

    /// Takes the load back; returns when its rows are gone from all nodes. May be given up: then they go all the same.
    ///
    /// # Errors
    /// If the node is gone before that is known. The load is seen by nobody in any case.
    pub async fn roll_back(mut self) -> Result<(), LoadError> {
        let ended = match self.ask(|engine, epoch| engine.protocol.roll_back(epoch)) {
            Ok(ended) => ended,
            // It is what the caller wants.
            Err(LoadError::RolledBack(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        match self.fate(ended).await? {
            LoadFate::RolledBack => Ok(()),
            LoadFate::Committed | LoadFate::Unknown => Err(self.unknown()),
        }
    }

    /// Has the protocol end the load; what is given is told how it ends.
    fn ask(
        &mut self,
        wish: impl FnOnce(&mut Engine, Epoch) -> Result<(), NodeError>,
    ) -> Result<oneshot::Receiver<LoadFate>, LoadError> {
        let (told, fate) = oneshot::channel();
        let epoch = self.epoch;
        let asked = self.life.step(|engine| {
            engine.sends_all = true;
            let wished = wish(engine, epoch);
            if wished.is_ok() {
                let caller = engine.callers.entry(epoch).or_default();
                *caller = LoadCaller { fate: None, waits: Some(told), has_gone: true };
            }
            wished
        });
        match asked.ok_or_else(|| self.unknown())? {
            Ok(()) => {
                self.is_over = true;
                Ok(fate)
            }
            Err(_) => Err(self.lost()),
        }
    }

    async fn fate(&self, told: oneshot::Receiver<LoadFate>) -> Result<LoadFate, LoadError> {
        let end = self.life.end.clone();
        tokio::select! {
            biased;
            fate = told => fate.map_err(|_| self.unknown()),
            () = end.cancelled() => Err(self.unknown()),
        }
    }

    /// Why the protocol takes no more of a load that its caller has not ended.
    fn lost(&self) -> LoadError {
        let fate = self.life.look(|engine| engine.callers.get(&self.epoch).and_then(|caller| caller.fate));
        match fate {
            Some(Some(LoadFate::Unknown)) | None => self.unknown(),
            _ => LoadError::RolledBack(self.epoch),
        }
    }

    fn unknown(&self) -> LoadError {
        LoadError::Unknown(self.epoch, self.life.why_ended().to_string())
    }
}

impl Engine {
    /// Has the protocol append to a brick.
    ///
    /// # Errors
    /// If these are more bytes than a message takes.
    fn append(
        &mut self,
        epoch: Epoch,
        (brick, change): (BrickAddress, BrickChange),
        limit: usize,
    ) -> Result<Taken, LoadError> {
        let bytes = change.size();
        if bytes > limit {
            return Err(LoadError::TooLong { bytes, limit });
        }
        let is_taken = self.protocol.append(epoch, brick, change).is_ok();
        Ok(if is_taken { Taken::Yes } else { Taken::No })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let epoch = self.epoch;
        self.life.step(|engine| {
            // It may be over already, for whatever reason; then there is nothing to take back.
            let is_open = engine.protocol.roll_back(epoch).is_ok();
            match engine.callers.get_mut(&epoch) {
                Some(caller) if is_open || caller.fate.is_none() => caller.has_gone = true,
                Some(_) => drop(engine.callers.remove(&epoch)),
                None => {}
            }
        });
    }
}

impl std::fmt::Debug for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Load({} of {})", self.epoch, self.life.member)
    }
}

#[cfg(test)]
mod tests;
