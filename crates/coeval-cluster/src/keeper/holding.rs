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
                // It is on disk with what is held next. What is lost of it is learned again.
                records.iter().for_each(|record| self.holder.learn(record));
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
mod tests {
    use super::*;
    use coeval_txn::cluster::{HolderBody, HolderSays, KeeperPlace, KeeperTerm, ViewChange, WholeView};
    use std::collections::BTreeMap;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn member(life: u64) -> Member {
        Member { node: NodeId::new(2), incarnation: Incarnation::new(life) }
    }

    /// What a thread on this directory answers to a keeper that asks. Its node's log has begun in this life.
    fn asked(directory: &Path, life: u64, term: u64) -> HolderSays {
        asked_since(directory, (life, life), term)
    }

    /// The same of a node whose log has begun in the second one of these lives.
    fn asked_since(directory: &Path, (life, first): (u64, u64), term: u64) -> HolderSays {
        let (given, taken) = channel();
        let give = Box::new(move |outgoing| given.send(outgoing).unwrap());
        let (node, first) = (member(life), Incarnation::new(first));
        let holding = Holding::start(node, first, directory, KeeperLink::default(), give).unwrap();
        let keeper = KeeperPlace { term: KeeperTerm::new(term, 0), node: NodeId::new(1) };
        holding.put(HoldingInput::Said(KeeperSays::Ask(keeper)));
        let Outgoing::Send(node, frame) = taken.recv_timeout(Duration::from_secs(20)).unwrap() else {
            panic!("nothing is settled newly")
        };
        assert_eq!(node, keeper.node);
        let Frame::Holder(said) = *frame else { panic!("it answers") };
        said
    }

    /// To break it: have `State::take` answer before `write_held`, and lose what is written then; or leave out `Since`.
    #[test]
    fn what_is_promised_stays_so_and_the_log_says_since_when() {
        let directory = tempfile::tempdir().unwrap();
        let first = asked(directory.path(), 5, 3);
        assert_eq!(first.log_since, Incarnation::new(5));
        assert!(matches!(first.body, HolderBody::Has { .. }));
        let second = asked(directory.path(), 6, 2);
        assert_eq!(second.log_since, Incarnation::new(5));
        assert_eq!(second.body, HolderBody::Newer(KeeperTerm::new(3, 0)));
        let lost = tempfile::tempdir().unwrap();
        assert_eq!(asked(lost.path(), 7, 2).log_since, Incarnation::new(7));
    }

    /// To break it: have `ViewHolder::fold` do nothing, or `State::write_held` not look how long the log is.
    #[test]
    fn ten_thousand_views_leave_a_small_log() {
        let directory = tempfile::tempdir().unwrap();
        let keeper = KeeperPlace { term: KeeperTerm::new(1, 0), node: NodeId::new(1) };
        let (_, first) = ViewKeeper::found(&[member(1)], 2);
        let begins = ViewChange::Keeper(keeper);
        let mut records = vec![first.clone(), ViewRecord { number: first.number.next(), change: begins }];
        for view in 0..10_000_u32 {
            let address = Arc::from(format!("db{view:0>200}:7001"));
            let number = records.last().unwrap().number.next();
            let node = NodeId::new(1 + view % 5);
            records.push(ViewRecord { number, change: ViewChange::Known { node, address, start: None } });
        }
        let (given, taken) = channel();
        let give = Box::new(move |outgoing| drop(given.send(outgoing)));
        let (node, first) = (member(1), Incarnation::new(1));
        let holding = Holding::start(node, first, directory.path(), KeeperLink::default(), give).unwrap();
        let mut after = ViewNumber::default();
        for part in records.chunks(16) {
            let settled = part.last().unwrap().number;
            let (records, recoveries) = (part.to_vec(), BTreeMap::new());
            let said = KeeperSays::Hold { keeper, after, recoveries, records, settled };
            // The queue takes so many, and no more than the thread can do.
            holding.inputs.as_ref().unwrap().send(HoldingInput::Said(said)).unwrap();
            after = settled;
        }
        drop(holding);
        let followed = taken.try_iter().filter(|outgoing| matches!(outgoing, Outgoing::Follow(_))).count();
        assert!(followed > 100);
        let bytes = std::fs::metadata(directory.path().join(LOG_NAME)).unwrap().len();
        assert!(bytes < 1 << 20, "{bytes} bytes");
        let said = asked(directory.path(), 8, 2);
        assert_eq!(said.log_since, Incarnation::new(1));
        let HolderBody::Has { settled, records: held, .. } = said.body else { panic!("it answers") };
        assert_eq!(settled, after);
        assert!(held.len() < 5_000, "{}", held.len());
        assert_eq!(WholeView::of(&held), WholeView::of(&records));
    }

    /// To break it: have `start` begin the log in the present life. All nodes of a cluster that is older than this log would seem to have lost
    /// their disks then, and no keeper could have its first record held by enough of them.
    #[test]
    fn a_node_that_is_older_than_this_log_has_lost_nothing() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(asked_since(directory.path(), (8, 3), 2).log_since, Incarnation::new(3));
        assert_eq!(asked_since(directory.path(), (9, 9), 3).log_since, Incarnation::new(3));
    }

    /// To break it: do not look for the former log: the keeper of an older cluster finds none of its records then. Or leave it where it is.
    #[test]
    fn the_log_of_a_former_keeper_is_taken_over() {
        let directory = tempfile::tempdir().unwrap();
        let (_, first) = ViewKeeper::found(&[member(1)], 2);
        let (mut log, _) =
            LogFile::open(&directory.path().join(FORMER_LOG_NAME), Durability::Synced).unwrap();
        let mut batch = Batch::new();
        batch.push(&encode(&first));
        log.write(batch).unwrap();
        drop(log);
        for life in [8, 9] {
            let said = asked(directory.path(), life, life);
            assert_eq!(said.log_since, Incarnation::default());
            let HolderBody::Has { settled, records, .. } = said.body else {
                panic!("it has promised nothing")
            };
            assert_eq!((settled, records), (ViewNumber::new(1), vec![first.clone()]));
        }
        std::fs::remove_file(directory.path().join(LOG_NAME)).unwrap();
        assert_eq!(
            asked(directory.path(), 10, 10).log_since,
            Incarnation::new(10),
            "it is not taken over twice"
        );
    }
}
