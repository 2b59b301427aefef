// SPDX-License-Identifier: Apache-2.0
//! [`Node`]: a node of a cluster, as callers have it.

use super::addresses::KnownAddresses;
use super::delete::Delete;
use super::engine::{EndReason, LoadCaller, Protocol};
use super::error::{LoadError, ReadError};
use super::life::{Life, OpenStore, OpenedStore};
use super::load::Load;
use super::options::NodeOptions;
use super::shares::NodeShare;
use super::snapshot::Snapshot;
use super::status::NodeStatus;
use crate::keeper::{Founding, Give, Holding, HoldingLink, Keeper, KeeperLink, KeeperOptions};
use crate::log::{Durability, LogError};
use crate::membership::Membership;
use crate::node::NodeId;
use crate::start_error::StartError;
use crate::store::{ColumnStore, SyncedTo};
use coeval_txn::Epoch;
use coeval_txn::cluster::{BrickAddress, NodeError, ViewNumber};
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// Between two looks whether a node serves.
const PAUSE: Duration = Duration::from_millis(5);

/// A node of a cluster that runs: it takes loads, gives snapshots, and holds bricks for others.
///
/// Clones are the same node. It ends with [`Node::stop`], or when the last clone is dropped, as by a crash: what was not on
/// disk is not there at the next start, and that is all right.
#[derive(Clone)]
pub struct Node {
    inner: Arc<NodeInner>,
}

/// # Locking
/// `life` is held to look it up or to put the next one there, and for nothing else. `deleting` is held for as long as a delete
/// takes, by its caller; it is taken before all else.
struct NodeInner {
    options: NodeOptions,
    listener: TcpListener,
    runtime: Handle,
    open_store: OpenStore,
    keeper: KeeperLink,
    holding: HoldingLink,
    life: Arc<RwLock<Arc<Life>>>,
    end: CancellationToken,
    deleting: Arc<Mutex<()>>,
}

impl Node {
    /// Starts a node on what `directory` has: a [`ColumnStore`]. Reads its log, so it waits for the disk.
    ///
    /// It serves once the keeper has it in a view, which is soon if there is a keeper; see [`Node::serves`].
    ///
    /// # Errors
    /// If the log or the connections cannot be used.
    pub fn start(
        mut options: NodeOptions,
        listener: TcpListener,
        runtime: &Handle,
        directory: &Path,
        durability: Durability,
    ) -> Result<Self, StartError> {
        if Membership::is_kept_in(directory) {
            options.remembers_in = Some(directory.to_owned());
        }
        options.holds_in = Some(directory.to_owned());
        let (directory, tables, rounds) = (directory.to_owned(), options.tables.clone(), options.rounds);
        Self::start_with(options, listener, runtime, move |synced| {
            let (store, records) = ColumnStore::open(&directory, durability, tables.clone(), rounds, synced)?;
            Ok((Box::new(store), records))
        })
    }

    /// As [`Node::start`], on another store. It is opened anew for each life of the node, after the one before was dropped.
    ///
    /// # Errors
    /// As [`Node::start`].
    pub fn start_with(
        options: NodeOptions,
        listener: TcpListener,
        runtime: &Handle,
        open_store: impl Fn(SyncedTo) -> Result<OpenedStore, LogError> + Send + Sync + 'static,
    ) -> Result<Self, StartError> {
        let (number, stride) = (options.transport.node.get(), options.stride);
        if number > stride {
            return Err(StartError::Number { number, stride });
        }
        let open_store: OpenStore = Arc::new(open_store);
        let (keeper, holding) = (KeeperLink::default(), HoldingLink::default());
        let own = listener.try_clone().map_err(crate::transport::ConfigurationError::Listener)?;
        let life = Life::begin(&options, own, runtime, &open_store, (&keeper, &holding))?;
        let member = life.member;
        let disk_since = life.look(|engine| engine.protocol.log_since()).unwrap_or(member.incarnation);
        let inner = Arc::new(NodeInner {
            options,
            listener,
            runtime: runtime.clone(),
            open_store,
            keeper,
            holding,
            life: Arc::new(RwLock::new(life)),
            end: CancellationToken::new(),
            deleting: Arc::default(),
        });
        if let Some(directory) = &inner.options.holds_in {
            let (keeper, give) = (inner.keeper.clone(), carry_by(&inner.life));
            inner.holding.set(Some(Holding::start(member, disk_since, directory, keeper, give)?));
            inner.holding.at(ViewNumber::default());
        }
        runtime.spawn(live_on(Arc::downgrade(&inner), inner.end.clone()));
        Ok(Self { inner })
    }

    /// Starts the keeper of the views beside this node, whose server is the primary of the database, in a term of this number: not below
    /// those of any primary before. It asks the nodes what keepers before it have recorded, and begins when enough have answered;
    /// from then on those are refused. The options of this node say how many replicas there are and how long a node may be silent.
    ///
    /// # Errors
    /// If the cluster is to be founded and has been, or the node has ended. The node goes on without a keeper.
    pub async fn start_keeper(&self, founding: Founding, term: u64) -> Result<(), StartError> {
        let NodeOptions { transport, nodes, replicas, stride, timeouts, .. } = &self.inner.options;
        if founding == Founding::Found {
            // A cluster is founded by nodes that have a log.
            let member = self.when(|life| {
                life.look(|engine| engine.synced >= engine.store.logged())
                    .map(|is_there| is_there.then_some(life.member))
            });
            let is_new = self.inner.holding.found(member.await?, *replicas).await;
            if !is_new.map_err(|_| StartError::Ended("it holds no records of keepers".to_owned()))? {
                return Err(StartError::Founded);
            }
        }
        let own = transport.node;
        let mut nodes = nodes.clone();
        nodes.retain(|(node, _)| *node != own);
        nodes.push((own, transport.address.clone()));
        let (replicas, stride, silence) = (*replicas, *stride, timeouts.silence);
        let rows = self.inner.options.rows.clone();
        let options = KeeperOptions { own, term, nodes, stride, replicas, silence, rows };
        let (give, present) = (carry_by(&self.inner.life), Arc::downgrade(&self.inner.life));
        let others = move || -> Vec<NodeId> {
            let life = present.upgrade().map(|present| Arc::clone(&present.read()));
            let known = life.and_then(|life| life.look(|engine| engine.known.list()));
            known.unwrap_or_default().into_iter().map(|(node, _)| node).collect()
        };
        let keeper = Keeper::start(options, self.inner.holding.clone(), give, Box::new(others))?;
        self.inner.keeper.set(Some(keeper));
        Ok(())
    }

    /// Stops the keeper, if it runs here. Views stand still; loads go on in the present one as long as all its members live.
    pub fn stop_keeper(&self) {
        self.inner.keeper.set(None);
    }

    /// Waits until the node serves loads and snapshots.
    ///
    /// # Errors
    /// If it does not in the time that the options give it, or has ended.
    pub async fn serves(&self) -> Result<(), StartError> {
        let serves = self.when(|life| {
            life.step(|engine| {
                let reader = engine.protocol.read_only().map(|(reader, _)| reader);
                reader.map(|reader| engine.protocol.release(reader)).ok()
            })
        });
        serves.await
    }

    /// Waits until something is there in the present life, or a later one.
    ///
    /// By the clock, unlike [`Life::until`]: some looks are steps, each of which would have all others look again.
    async fn when<T>(&self, mut look: impl FnMut(&Arc<Life>) -> Option<Option<T>>) -> Result<T, StartError> {
        let (begun, after) = (Instant::now(), self.inner.options.timeouts.serve);
        loop {
            let life = self.life();
            // A life that has ended may not be buried yet.
            match life.why_ended() {
                _ if !life.end.is_cancelled() => {
                    if let Some(found) = look(&life).flatten() {
                        return Ok(found);
                    }
                }
                EndReason::Left => {}
                EndReason::Removed(node) => return Err(StartError::Removed(node)),
                why @ (EndReason::Failed(_) | EndReason::Stopped) => {
                    return Err(StartError::Ended(why.to_string()));
                }
            }
            if begun.elapsed() >= after {
                return Err(StartError::TimedOut { after });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Begins a load. While the node joins or comes back, it waits for that. May be given up.
    ///
    /// # Errors
    /// If the node does not serve in time, or has ended. No load has begun.
    pub async fn begin(&self) -> Result<Load, LoadError> {
        self.begin_with(Protocol::begin).await
    }

    /// Begins a transaction that deletes what bricks have; here only if the keeper of the views is here. Waits for those before
    /// to be over, and for all members to say what it sees. May be given up.
    ///
    /// # Errors
    /// If deletes are for another node, or as [`Node::begin`]. None has begun, or it is rolled back.
    pub async fn begin_delete(&self) -> Result<Delete, LoadError> {
        self.check_deletes()?;
        let alone = Arc::clone(&self.inner.deleting).lock_owned().await;
        let (begun, after) = (Instant::now(), self.inner.options.timeouts.serve);
        loop {
            let load = self.begin_with(Protocol::begin_delete).await?;
            let seen = load.snapshot().await?;
            let is_alone = load.life().look(|engine| {
                let is_here = engine.keeper_node() == engine.own();
                is_here && !engine.protocol.knows_other_deletes(load.epoch())
            });
            if is_alone == Some(true) {
                return Ok(Delete::new(load, seen, alone));
            }
            // The keeper has just come here, and where it was a delete is about to commit; or it has just gone.
            load.roll_back().await?;
            self.check_deletes()?;
            if begun.elapsed() >= after {
                return Err(LoadError::NotServing { after });
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Whether deletes are for this node.
    fn check_deletes(&self) -> Result<(), LoadError> {
        let own = self.inner.options.transport.node;
        let looked = self.life().look(|engine| {
            let keeper = engine.keeper_node();
            (keeper, engine.known.address(keeper).cloned())
        });
        match looked {
            Some((keeper, address)) if keeper != own => Err(LoadError::NotPrimary { keeper, address }),
            // Between two lives: the next one tells.
            _ => Ok(()),
        }
    }

    async fn begin_with(
        &self,
        begin: fn(&mut Protocol) -> Result<Epoch, NodeError>,
    ) -> Result<Load, LoadError> {
        let begun = self.when(|life| {
            let begun: Option<Result<_, NodeError>> = life.step(|engine| {
                let epoch = begin(&mut engine.protocol)?;
                engine.callers.insert(epoch, LoadCaller::default());
                Ok(epoch)
            });
            begun.map(|begun| begun.ok().map(|epoch| Load::new(Arc::clone(life), epoch)))
        });
        begun.await.map_err(|error| match error {
            StartError::TimedOut { after } => LoadError::NotServing { after },
            error => LoadError::Ended(error.to_string()),
        })
    }

    /// What a reader sees that is declared read-only: serializable, without waiting for any load. While the node joins or
    /// comes back, it waits for that. May be given up.
    ///
    /// # Errors
    /// If the node does not serve in time, or has ended.
    pub async fn snapshot(&self) -> Result<Snapshot, ReadError> {
        let given = self.when(|life| {
            let given = life.step(|engine| engine.protocol.declared_read_only().ok());
            given.map(|given| {
                given.map(|(reader, set)| {
                    let (life, reader) = (Arc::clone(life), Some(reader));
                    Snapshot { life, reader, set }
                })
            })
        });
        given.await.map_err(not_given)
    }

    /// What a reader sees that has to see everything up to `age`, which its rows name, and nothing later: serializable with loads as
    /// [`Node::snapshot`] is. `age` is the newest epoch of some node's snapshot. Until this node has come so far it waits, for messages
    /// of others that are on their way and for no load; also while it joins or comes back. May be given up.
    ///
    /// # Errors
    /// [`ReadError::BelowSafe`] if what tells it from later ones is not kept any more: see [`Node::note_oldest_age`]. If the node does
    /// not serve, or does not come so far, in time; or has ended.
    pub async fn snapshot_at(&self, age: Epoch) -> Result<Snapshot, ReadError> {
        let given = self.when(|life| {
            let given = life.step(|engine| match engine.protocol.read_only_at(age) {
                Ok(given) => Some(Ok(given)),
                Err(NodeError::BelowSafe) => Some(Err(ReadError::BelowSafe)),
                Err(_) => None,
            });
            given.map(|given| {
                given.map(|given| {
                    given.map(|(reader, set)| {
                        let (life, reader) = (Arc::clone(life), Some(reader));
                        Snapshot { life, reader, set }
                    })
                })
            })
        });
        given.await.map_err(not_given)?
    }

    /// Says that nobody comes to this node any more with rows that name an older epoch than this: what tells older ones apart may go. Of
    /// use on a node that was told to [expect ages](NodeOptions::expects_ages). Of several it has been told the newest counts; a later life
    /// has to be told again.
    pub fn note_oldest_age(&self, age: Epoch) {
        self.life().step(|engine| engine.protocol.note_oldest_age(age));
    }

    /// Decides the loads that are one transaction with rows, of which nobody was there to tell what became of these, and whose rows
    /// are there by now. If another node is the primary by then, that one's rows say what has become of them: so this life of the node ends,
    /// and the keeper there asks. To be called now and then.
    pub fn decide_found(&self) {
        let rows = &self.inner.options.rows;
        for epoch in rows.found() {
            self.life().decide(epoch);
            rows.end(epoch);
        }
        let life = self.life();
        let is_elsewhere = life.look(|engine| engine.keeper_node() != engine.own());
        if is_elsewhere == Some(true) && rows.give_up() {
            life.end(EndReason::Left);
        }
    }

    /// Up to which epoch [`Node::snapshot`] sees everything now: LCE, or less beside a delete. Nothing between two lives, and when it
    /// has ended.
    #[must_use]
    pub fn newest_shown(&self) -> Option<Epoch> {
        self.life().newest_shown()
    }

    /// What can be seen of it; nothing between two lives, and when it has ended.
    #[must_use]
    pub fn status(&self) -> Option<NodeStatus> {
        self.life().look(super::engine::Engine::status)
    }

    /// What of the bricks each live node has, as it says itself: this one looks at all its bricks, and so do the others, which are
    /// asked at once; nothing waits for them meanwhile. Who does not answer within `patience` is left out; nobody is there between two
    /// lives, and when it has ended. May be given up.
    pub async fn shares(&self, patience: Duration) -> BTreeMap<NodeId, NodeShare> {
        let life = self.life();
        let end = life.end.clone();
        end.run_until_cancelled(life.shares(patience)).await.unwrap_or_default()
    }

    /// The nodes that have a brick, by the view that this one is at; nothing when it has ended.
    #[must_use]
    pub fn holders(&self, brick: BrickAddress) -> Option<Vec<NodeId>> {
        self.life().look(|engine| engine.holders(brick))
    }

    /// Ends it, as a crash would. What its store has open is closed when this returns.
    pub async fn stop(&self) {
        self.inner.end.cancel();
        let life = self.life();
        life.end(EndReason::Stopped);
        self.inner.keeper.set(None);
        self.inner.holding.set(None);
        // Closing waits for the log's thread. If the runtime ends, so does this.
        let _ = self.inner.runtime.spawn_blocking(move || life.bury()).await;
    }

    /// Whether no further life begins.
    pub(super) fn is_stopped(&self) -> bool {
        self.inner.end.is_cancelled()
    }

    pub(super) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.inner.life.read())
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Node({})", self.life().member)
    }
}

impl Drop for NodeInner {
    fn drop(&mut self) {
        self.end.cancel();
        self.keeper.set(None);
        self.holding.set(None);
        let life = Arc::clone(&self.life.read());
        life.end(EndReason::Stopped);
        self.runtime.spawn_blocking(move || life.bury());
    }
}

/// Why there is no snapshot.
fn not_given(error: StartError) -> ReadError {
    match error {
        StartError::TimedOut { after } => ReadError::NotServing { after },
        error => ReadError::Ended(error.to_string()),
    }
}

/// Has the present life do what the keeper wants done, or who holds its records.
fn carry_by(life: &Arc<RwLock<Arc<Life>>>) -> Give {
    let present = Arc::downgrade(life);
    Box::new(move |outgoing| {
        if let Some(present) = present.upgrade() {
            let life = Arc::clone(&present.read());
            life.carry(outgoing);
        }
    })
}

/// Begins the next life whenever the cluster has gone on without the one before.
async fn live_on(node: Weak<NodeInner>, end: CancellationToken) {
    loop {
        let Some(life) = node.upgrade().map(|inner| Arc::clone(&inner.life.read())) else { return };
        if end.run_until_cancelled(life.end.cancelled()).await.is_none() {
            return;
        }
        let why = life.why_ended();
        tracing::info!("the life of {} ends: {why}", life.member);
        if why != EndReason::Left {
            // What the store has open is closed, so that somebody may look at it.
            let _ = tokio::task::spawn_blocking(move || life.bury()).await;
            return;
        }
        let Some(inner) = node.upgrade() else { return };
        let runtime = inner.runtime.clone();
        let last = Arc::clone(&life);
        let begun = runtime.spawn_blocking(move || {
            let known = life.look(|engine| engine.known.clone());
            life.bury();
            inner.begin_next_life(known)
        });
        let why = match begun.await {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => error.to_string(),
            // It has panicked, which was said, or the runtime ends.
            Err(error) => error.to_string(),
        };
        tracing::error!("the node does not come back: {why}");
        last.has_no_next(why);
        return;
    }
}

impl NodeInner {
    /// The next life goes by where the one before knew the other nodes: the keeper's first records tell of long ago.
    fn begin_next_life(&self, known: Option<KnownAddresses>) -> Result<(), StartError> {
        let listener = self.listener.try_clone().map_err(crate::transport::ConfigurationError::Listener)?;
        let mut options = self.options.clone();
        if let Some(known) = known {
            options.nodes = known.list();
            options.nodes_as_of = known.as_of();
        }
        let links = (&self.keeper, &self.holding);
        let life = Life::begin(&options, listener, &self.runtime, &self.open_store, links)?;
        if self.end.is_cancelled() {
            life.end(EndReason::Stopped);
        }
        *self.life.write() = life;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
