// SPDX-License-Identifier: Apache-2.0
//! [`Holding`]: the thread that holds the records of keepers, whichever, for this node. It alone waits for the disk that they are on.
//!
//! ```text
//!   held.log:   since which life the log is there | promises, records, how many are settled, as they came
//! ```
//! When much has been written to it since it was written whole, one record is put in the place of most of those that are settled, and the log is
//! written anew: to another file, which is synced and then takes its name. So it stays small, however often views change.
//!
//! A node that is older than this log, and had the keeper, has a log `views.log` of all records: these are taken over. Of one that had
//! not, this log says that it is there since the first life of the node's own log: it has promised nothing before, and lost nothing.
//! If this file alone is taken away later, that is not true, so the folder is kept or put aside as a whole.

use super::link::KeeperLink;
use super::{Give, Outgoing};
use crate::log::{Batch, Durability, LogError, LogFile};
use crate::node::{Incarnation, NodeId};
use crate::start_error::StartError;
use crate::wire::{Frame, HeldRecord, decode, encode};
use bytes::Bytes;
use coeval_txn::cluster::{
    HolderRecord, KeeperSays, Member, ViewHolder, ViewKeeper, ViewNumber, ViewRecord, count_through,
};
use parking_lot::Mutex;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use tokio::sync::oneshot;

/// The name of the log in the node's directory.
const LOG_NAME: &str = "held.log";
/// The keeper's own log, of before nodes held its records.
const FORMER_LOG_NAME: &str = "views.log";
/// Where the log is written anew, before that takes its name.
const NEXT_NAME: &str = "held.log.next";
/// When the log is written anew, so many of the last settled records stay as they are: for nodes that lack these.
const RECORDS_KEPT: usize = 256;
/// The log is written anew when more bytes than this, and than it had then, have been written since.
const WRITTEN_MAX: usize = 256 << 10;
/// What that is called once it was taken over.
const ASIDE_NAME: &str = "views.log.former";
/// What the thread is told and has not looked at yet. More is lost, and said again.
const INPUTS_MAX: usize = 4_096;

/// What the thread is told.
#[derive(Debug)]
enum HoldingInput {
    /// A keeper has said something.
    Said(KeeperSays),
    /// The node has followed these, wherever it had them from.
    Followed(Vec<ViewRecord>),
    /// The node is at this view.
    At(ViewNumber),
    /// The cluster is founded, with so many replicas of each brick. Says whether it was not before.
    Found(Member, usize, oneshot::Sender<bool>),
}

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Holding {
    inputs: Option<SyncSender<HoldingInput>>,
    thread: Option<JoinHandle<()>>,
}

impl Holding {
    /// Starts it on what `directory` has. `member` is the node in its present life, `disk_since` the first life that the node's own log there
    /// has.
    pub(crate) fn start(
        member: Member,
        disk_since: Incarnation,
        directory: &Path,
        keeper: KeeperLink,
        give: Give,
    ) -> Result<Self, StartError> {
        let path = directory.join(LOG_NAME);
        let (log, bytes) = LogFile::open(&path, Durability::Synced)?;
        let written: usize = bytes.iter().map(Bytes::len).sum();
        let records: Result<Vec<HeldRecord>, _> = bytes.into_iter().map(decode).collect();
        let mut records = records.map_err(|_| StartError::KeeperLog)?;
        let is_new = records.is_empty();
        if is_new {
            records = taken_over(directory)?.unwrap_or_else(|| vec![HeldRecord::Since(disk_since)]);
        }
        let mut log_since = member.incarnation;
        let mut held = Vec::new();
        for record in &records {
            match record {
                HeldRecord::Since(life) => log_since = *life,
                HeldRecord::Holder(record) => held.push(record.clone()),
            }
        }
        let holder = ViewHolder::recover(member.node, log_since, &held);
        let told = ViewNumber::default();
        let (own, directory) = (member.node, directory.to_owned());
        let size = WRITTEN_MAX;
        let mut state = State { own, log_since, holder, log, directory, written, size, told, keeper, give };
        if is_new {
            state.write(&records)?;
        }
        state.write_anew_if_long()?;
        put_aside(&state.directory)?;
        let (inputs, taken) = sync_channel(INPUTS_MAX);
        let running = Builder::new().name("cluster-views".to_owned()).spawn(move || state.run(&taken));
        let thread = running.map_err(|error| LogError::File { path, error })?;
        Ok(Self { inputs: Some(inputs), thread: Some(thread) })
    }

    fn put(&self, input: HoldingInput) {
        let _ = self.inputs.as_ref().map(|inputs| inputs.try_send(input));
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        self.inputs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the keeper of before has recorded in its own log, if there is one: all of it was in use.
fn taken_over(directory: &Path) -> Result<Option<Vec<HeldRecord>>, StartError> {
    let path = directory.join(FORMER_LOG_NAME);
    if !path.exists() {
        return Ok(None);
    }
    let (_, bytes) = LogFile::open(&path, Durability::Synced)?;
    let records: Result<Vec<ViewRecord>, _> = bytes.into_iter().map(decode).collect();
    let records = records.map_err(|_| StartError::KeeperLog)?;
    let Some(last) = records.last().map(|record| record.number) else { return Ok(None) };
    Ok(Some(vec![
        HeldRecord::Since(Incarnation::default()),
        HeldRecord::Holder(HolderRecord::Held(records)),
        HeldRecord::Holder(HolderRecord::Settled(last)),
    ]))
}

/// The former log counts no more: if this one is lost, that one is older than what was promised.
fn put_aside(directory: &Path) -> Result<(), LogError> {
    let path = directory.join(FORMER_LOG_NAME);
    if !path.exists() {
        return Ok(());
    }
    let renamed = std::fs::rename(&path, directory.join(ASIDE_NAME));
    renamed.map_err(|error| LogError::File { path, error })
}

/// The state of the thread.
struct State {
    own: NodeId,
    /// The first life since which the log is there.
    log_since: Incarnation,
    holder: ViewHolder,
    log: LogFile,
    directory: PathBuf,
    /// So many bytes were written to the log since it was written whole, or before this start.
    written: usize,
    /// It is written anew behind so many.
    size: usize,
    /// Up to here the node was given what is settled.
    told: ViewNumber,
    keeper: KeeperLink,
    give: Give,
}

impl State {
    fn run(mut self, inputs: &Receiver<HoldingInput>) {
        while let Ok(input) = inputs.recv() {
            if let Err(error) = self.take(input) {
                // Nobody knows whether it is on disk, so nothing is promised any more.
                tracing::error!("this node holds no records of the keeper of views any more: {error}");
                return;
            }
        }
    }

    fn take(&mut self, input: HoldingInput) -> Result<(), LogError> {
        match input {
            HoldingInput::Said(said) => {
                let answer = self.holder.receive(&said);
                if self.holder.has_to_write() {
                    self.write_held()?;
                }
                let to = said.keeper().node;
                if to == self.own {
                    self.keeper.answer(answer);
                } else {
                    (self.give)(Outgoing::Send(to, Box::new(Frame::Holder(answer))));
                }
                self.tell_behind(self.told);
            }
            HoldingInput::Followed(records) => {
                records.iter().for_each(|record| self.holder.learn(record));
                // Nobody waits for it. But those from whom it could be learned again may be lost for good.
                self.write_held()?;
            }
            HoldingInput::At(view) => {
                if view == ViewNumber::default() && self.holder.settled().is_empty() {
                    // A life that begins waits for what is held here, before it goes by what others have.
                    (self.give)(Outgoing::Follow(Vec::new()));
                }
                self.tell_behind(view);
            }
            HoldingInput::Found(member, replicas, answer) => {
                let is_new = self.holder.last() == ViewNumber::default();
                if is_new {
                    let (_, first) = ViewKeeper::found(&[member], replicas);
                    self.holder.learn(&first);
                    self.write_held()?;
                }
                // Whoever has asked is waiting for it.
                let _ = answer.send(is_new);
            }
        }
        Ok(())
    }

    /// Gives the node the settled records behind a view, if there are any.
    fn tell_behind(&mut self, view: ViewNumber) {
        let settled = self.holder.settled();
        let first = count_through(settled, view);
        let records: Vec<ViewRecord> = settled.iter().skip(first).cloned().collect();
        if let Some(last) = records.last() {
            self.told = last.number;
            (self.give)(Outgoing::Follow(records));
        }
    }

    fn write_held(&mut self) -> Result<(), LogError> {
        let records: Vec<HeldRecord> =
            self.holder.take_records().into_iter().map(HeldRecord::Holder).collect();
        self.write(&records)?;
        self.write_anew_if_long()
    }

    fn write(&mut self, records: &[HeldRecord]) -> Result<(), LogError> {
        let (batch, bytes) = batch_of(records);
        self.written += bytes;
        if batch.is_empty() { Ok(()) } else { self.log.write(batch) }
    }

    /// Writes the log anew if that makes it much smaller. When this returns, either file has all; the other one is gone.
    fn write_anew_if_long(&mut self) -> Result<(), LogError> {
        if self.written <= self.size {
            return Ok(());
        }
        self.holder.fold(RECORDS_KEPT);
        let held = self.holder.take_all_records().into_iter().map(HeldRecord::Holder);
        let records: Vec<HeldRecord> =
            std::iter::once(HeldRecord::Since(self.log_since)).chain(held).collect();
        let (batch, bytes) = batch_of(&records);
        let next = self.directory.join(NEXT_NAME);
        match std::fs::remove_file(&next) {
            // A start before has ended while it wrote that.
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(LogError::File { path: next, error }),
        }
        let (mut log, _) = LogFile::open(&next, Durability::Synced)?;
        log.write(batch)?;
        self.log = log.renamed(&self.directory.join(LOG_NAME))?;
        (self.written, self.size) = (0, bytes.max(WRITTEN_MAX));
        Ok(())
    }
}

/// A batch of these, and how many bytes they have.
fn batch_of(records: &[HeldRecord]) -> (Batch, usize) {
    let (mut batch, mut bytes) = (Batch::new(), 0);
    for record in records {
        let record = encode(record);
        bytes += record.len();
        batch.push(&record);
    }
    (batch, bytes)
}

/// The way to the thread, if it runs. What it is told while it does not is lost.
///
/// # Locking
/// Held to put something into the thread's queue, which does not wait, or to exchange the thread. Nothing else is locked
/// meanwhile.
#[derive(Clone, Debug, Default)]
pub(crate) struct HoldingLink {
    holding: Arc<Mutex<Option<Holding>>>,
}

impl HoldingLink {
    /// Puts another thread in the place of the one before, or none; the one before ends.
    pub(crate) fn set(&self, holding: Option<Holding>) {
        let before = std::mem::replace(&mut *self.holding.lock(), holding);
        // Its end waits for the thread, which may be at this node's door.
        drop(before);
    }

    /// A keeper has said something.
    pub(crate) fn said(&self, said: KeeperSays) {
        self.put(HoldingInput::Said(said));
    }

    /// The node has followed these records.
    pub(crate) fn followed(&self, records: Vec<ViewRecord>) {
        self.put(HoldingInput::Followed(records));
    }

    /// The node is at this view: it is given what is settled behind that.
    pub(crate) fn at(&self, view: ViewNumber) {
        self.put(HoldingInput::At(view));
    }

    /// The cluster is founded by this node: says whether it was not before, once that is on disk. Nothing is answered if the thread
    /// does not run.
    pub(crate) fn found(&self, member: Member, replicas: usize) -> oneshot::Receiver<bool> {
        let (answer, answered) = oneshot::channel();
        self.put(HoldingInput::Found(member, replicas, answer));
        answered
    }

    fn put(&self, input: HoldingInput) {
        if let Some(holding) = &*self.holding.lock() {
            holding.put(input);
        }
    }
}

#[cfg(test)]
mod tests;
