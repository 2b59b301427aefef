// SPDX-License-Identifier: Apache-2.0
//! [`Keeper`]: the thread that keeps the views. It alone waits for the disk that its records are on.

use super::KeeperOptions;
use super::link::{KeeperInput, NodeChange};
use super::silence::Silence;
use crate::log::{Batch, Durability, LogError, LogFile};
use crate::node::NodeId;
use crate::node_address::NodeAddress;
use crate::start_error::StartError;
use crate::wire::{decode, encode};
use coeval_txn::cluster::{Member, RemoveError, ViewChange, ViewKeeper, ViewRecord};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the log in the keeper's directory.
const LOG_NAME: &str = "views.log";
/// What the keeper is told and has not looked at yet. More is lost, and said again.
const INPUTS_MAX: usize = 4_096;

/// Gives records to a node: another one, or that beside the keeper.
pub(crate) type Publish = Box<dyn Fn(NodeId, &[ViewRecord]) + Send>;

/// The keeper. When it is dropped, its thread ends; a record that is half written is not there then.
#[derive(Debug)]
pub(crate) struct Keeper {
    inputs: Option<SyncSender<KeeperInput>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it: the first of the cluster that `founder` founds, or the one that goes on with the records of its log.
    pub(crate) fn start(
        options: KeeperOptions,
        founder: Option<Member>,
        directory: &Path,
        publish: Publish,
    ) -> Result<Self, StartError> {
        let path = directory.join(LOG_NAME);
        let (log, bytes) = LogFile::open(&path, Durability::Synced)?;
        let records: Result<Vec<ViewRecord>, _> = bytes.into_iter().map(decode).collect();
        let records = records.map_err(|_| StartError::KeeperLog)?;
        let KeeperOptions { own, nodes, stride, replicas, silence } = options;
        let (keeper, first) = match founder {
            Some(_) if !records.is_empty() => return Err(StartError::Founded),
            None if records.is_empty() => return Err(StartError::NotFounded),
            Some(founder) => {
                let (keeper, record) = ViewKeeper::found(&[founder], replicas);
                (keeper, Some(record))
            }
            None => (ViewKeeper::recover(&records, replicas), None),
        };
        let mut keeping =
            Keeping { keeper, records, log, silence: Silence::new(silence), own, stride, publish };
        if let Some(record) = first {
            keeping.write(record)?;
        }
        keeping.know(nodes)?;
        let (inputs, taken) = sync_channel(INPUTS_MAX);
        let period = (silence / 8).max(Duration::from_millis(5));
        let running =
            Builder::new().name("cluster-keeper".to_owned()).spawn(move || keeping.run(&taken, period));
        let thread = running.map_err(|error| LogError::File { path, error })?;
        Ok(Self { inputs: Some(inputs), thread: Some(thread) })
    }

    /// Tells it something, unless it has too much to look at.
    pub(super) fn put(&self, input: KeeperInput) {
        let _ = self.inputs.as_ref().map(|inputs| inputs.try_send(input));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.inputs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Keeping {
    keeper: ViewKeeper,
    records: Vec<ViewRecord>,
    log: LogFile,
    silence: Silence,
    own: NodeId,
    stride: u32,
    publish: Publish,
}

impl Keeping {
    fn run(mut self, inputs: &Receiver<KeeperInput>, period: Duration) {
        self.silence.enter(self.keeper.view(), Instant::now());
        (self.publish)(self.own, &self.records);
        let mut looked = Instant::now();
        loop {
            let kept = match inputs.recv_timeout(period) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let (looks, since) = (looked.elapsed() >= period, looked.elapsed());
            if looks {
                looked = Instant::now();
            }
            if since > 4 * period {
                self.silence.forgive(looked);
            }
            let kept = kept.and_then(|()| if looks { self.remove_silent() } else { Ok(()) });
            if let Err(error) = kept {
                // Nobody knows whether the record is on disk, so this keeper writes none any more.
                tracing::error!("the keeper of the views ends: {error}");
                return;
            }
        }
    }

    fn take(&mut self, input: KeeperInput) -> Result<(), LogError> {
        match input {
            KeeperInput::Told(told) => {
                let record = self.keeper.receive(&told);
                self.write_all(record)
            }
            KeeperInput::Heard(alive) => {
                self.silence.hear(&alive, self.keeper.view(), Instant::now());
                // The node beside the keeper gives its records to the others; it has them from here.
                if alive.member.node == self.own {
                    let first = usize::try_from(alive.followed.get()).unwrap_or(usize::MAX);
                    (self.publish)(self.own, self.records.get(first..).unwrap_or_default());
                }
                Ok(())
            }
            KeeperInput::Add(ask, answer) => {
                let added = match self.keeper.add(&ask, self.stride) {
                    // It is on disk before anybody hears of it.
                    Ok((node, record)) => self.write_all(record).map(|()| Ok(node))?,
                    Err(error) => Err(error),
                };
                // Whoever has given up waiting asks again.
                let _ = answer.send(added);
                Ok(())
            }
            KeeperInput::Change(change, answer) => {
                let changed = match change {
                    NodeChange::Drain(node) => self.keeper.drain(node),
                    NodeChange::Remove(node) => self.keeper.remove_for_good(node),
                };
                let changed = match changed {
                    Ok(record) => self.write_all(record).map(Ok)?,
                    Err(error) => Err(error),
                };
                let _ = answer.send(changed);
                Ok(())
            }
        }
    }

    /// Records where the nodes are that were told their numbers. What has been recorded of others is newer than what this node
    /// was told when it started; of itself it is not.
    fn know(&mut self, nodes: Vec<(NodeId, NodeAddress)>) -> Result<(), LogError> {
        for (node, address) in nodes {
            if node == self.own || !self.keeper.view().known().contains_key(&node) {
                let record = self.keeper.know(node, &Arc::from(address.to_string()));
                self.write_all(record)?;
            }
        }
        Ok(())
    }

    fn write_all(&mut self, record: Option<ViewRecord>) -> Result<(), LogError> {
        record.map_or(Ok(()), |record| self.write(record))
    }

    /// Removes who is gone, as far as enough replicas are left.
    fn remove_silent(&mut self) -> Result<(), LogError> {
        let mut gone = self.silence.silent(Instant::now());
        if gone.is_empty() {
            gone.extend(self.silence.cut_off(self.own));
        }
        for node in gone {
            match self.keeper.remove(node) {
                Ok(record) => {
                    tracing::warn!("{node} does not answer: the view goes on without it");
                    self.write(record)?;
                }
                Err(RemoveError::NotLive) => {}
                Err(RemoveError::LastReplica) => {
                    tracing::debug!("{node} does not answer, and may hold the last replica of some bricks");
                }
            }
        }
        Ok(())
    }

    /// Makes a record durable, then gives it to all.
    fn write(&mut self, record: ViewRecord) -> Result<(), LogError> {
        let mut batch = Batch::new();
        batch.push(&encode(&record));
        self.log.write(batch)?;
        self.silence.enter(self.keeper.view(), Instant::now());
        // The node beside the keeper first: it has to know where a new node is to give it anything.
        (self.publish)(self.own, std::slice::from_ref(&record));
        let view = self.keeper.view();
        let is_told = |node: &NodeId| {
            let is_removed =
                view.removed().contains(node) && record.change != (ViewChange::Removed { node: *node });
            *node != self.own && !is_removed
        };
        for node in view.known().keys().copied().filter(is_told) {
            (self.publish)(node, std::slice::from_ref(&record));
        }
        self.records.push(record);
        Ok(())
    }
}
