// SPDX-License-Identifier: Apache-2.0
//! [`Life`]: the lock around a node's state, and the tasks of one life.

use super::engine::{EndReason, Engine};
use super::incoming::Incoming;
use super::options::NodeOptions;
use super::pace::Pace;
use super::{copying, remembering, ticking};
use crate::brick_change::BrickChange;
use crate::keeper::{HoldingLink, KeeperLink};
use crate::log::LogError;
use crate::node::Incarnation;
use crate::start_error::StartError;
use crate::store::{LogPosition, NodeStore, SyncedTo};
use crate::transport::{Peers, Transport};
use coeval_txn::Epoch;
use coeval_txn::cluster::{LogRecord, Member, ViewNumber};
use parking_lot::Mutex;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// What a store gives when it is opened: itself, and the records that are on disk.
pub(super) type OpenedStore = (Box<dyn NodeStore>, Vec<LogRecord<BrickChange>>);

/// Opens what a node keeps, anew for each of its lives.
pub(super) type OpenStore = Arc<dyn Fn(SyncedTo) -> Result<OpenedStore, LogError> + Send + Sync>;

/// One life of a node.
///
/// # Locking
/// `engine` guards all state. It is held for one step, which sends into queues and writes into buffers and waits for nothing;
/// the locks of queues, of the links to the keeper and to what it has this node hold, and of rings of the placement are taken within it, none of them the other way
/// round. `pace` has a lock of its own, which nothing is locked within. `transport` and `why` are leaves. `burial` is held while
/// the state is dropped, which waits for the log's thread; it is taken before `engine` and never within it.
pub(crate) struct Life {
    pub(super) member: Member,
    engine: Mutex<Option<Engine>>,
    transport: Mutex<Option<Transport>>,
    why: Mutex<Option<EndReason>>,
    burial: Mutex<()>,
    pub(super) peers: Peers,
    pub(super) options: NodeOptions,
    /// Of bricks that come for good.
    pub(super) pace: Pace,
    pub(super) runtime: Handle,
    /// Up to which epoch readers see everything, as of the last step: for who asks with each statement.
    shown: AtomicU64,
    /// Told after each step: whoever waits for something looks whether it is there.
    changed: Notify,
    pub(super) end: CancellationToken,
    itself: Weak<Life>,
}

impl Life {
    /// Begins a life with what is on disk. The log is read here: that waits for the disk.
    pub(super) fn begin(
        options: &NodeOptions,
        listener: TcpListener,
        runtime: &Handle,
        open_store: &OpenStore,
        (keeper, holding): (&KeeperLink, &HoldingLink),
    ) -> Result<Arc<Self>, StartError> {
        let place: Arc<OnceLock<Weak<Self>>> = Arc::default();
        let told = Arc::clone(&place);
        let synced: SyncedTo = Box::new(move |synced| {
            if let Some(life) = told.get().and_then(Weak::upgrade) {
                life.note_synced(synced);
            }
        });
        let (store, records) = open_store(synced)?;
        let member = Member { node: options.transport.node, incarnation: next_incarnation(&records) };
        let mut options = options.clone();
        options.transport.incarnation = member.incarnation;
        let (own, handle) = (options.clone(), runtime.clone());
        let links = (keeper.clone(), holding.clone());
        let mut made = None;
        let routes = tonic::service::Routes::default();
        let transport = Transport::start(options.transport.clone(), listener, routes, runtime, |peers| {
            let life = Arc::new_cyclic(|itself| Self {
                member,
                engine: Mutex::new(Some(Engine::new(
                    member,
                    (store, &records),
                    peers.clone(),
                    links,
                    own.clone(),
                ))),
                transport: Mutex::default(),
                why: Mutex::default(),
                burial: Mutex::default(),
                peers,
                pace: Pace::new(own.copied_bytes_a_second),
                options: own,
                runtime: handle,
                shown: AtomicU64::default(),
                changed: Notify::new(),
                end: CancellationToken::new(),
                itself: itself.clone(),
            });
            made = Some(Arc::clone(&life));
            Arc::new(Incoming(life))
        })?;
        let life = made.expect("a transport that has started has made its handler");
        // It is set once.
        let _ = place.set(Arc::downgrade(&life));
        transport.peers().set_nodes(options.nodes)?;
        *life.transport.lock() = Some(transport);
        // What the start has logged.
        life.step(|engine| engine.begin_life());
        runtime.spawn(ticking::tick_until_end(Arc::clone(&life)));
        if let Some(directory) = life.options.remembers_in.clone() {
            runtime.spawn(remembering::remember_until_end(Arc::clone(&life), directory));
        }
        Ok(life)
    }

    /// Takes the lock, does something, and does what the protocol wants done about it. Nothing if the life is over.
    pub(super) fn step<T>(&self, act: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        let (done, to_copy, end) = {
            let mut guard = self.engine.lock();
            let engine = guard.as_mut()?;
            let done = act(engine);
            engine.pump();
            self.shown.store(engine.protocol.newest_shown().get(), Ordering::Release);
            (done, std::mem::take(&mut engine.to_copy), engine.end.take())
        };
        for (from, view) in to_copy {
            self.copy(from, view);
        }
        if let Some(why) = end {
            self.end(why);
        }
        self.changed.notify_waiters();
        Some(done)
    }

    /// Up to which epoch readers see everything. Nothing if the life is over. Locks nothing.
    pub(super) fn newest_shown(&self) -> Option<Epoch> {
        (!self.end.is_cancelled()).then(|| Epoch::new(self.shown.load(Ordering::Acquire)))
    }

    /// Looks at the state. Nothing if the life is over.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Engine) -> T) -> Option<T> {
        self.engine.lock().as_ref().map(look)
    }

    /// Looks at what the store has. Nothing if the life is over.
    pub(super) fn look_into<T>(&self, look: impl FnOnce(&mut Engine) -> T) -> Option<T> {
        self.engine.lock().as_mut().map(look)
    }

    /// Waits until a look finds something: now, or after some step. Nothing if the life is over first. May be given up.
    pub(super) async fn until<T>(&self, mut look: impl FnMut(&Engine) -> Option<T>) -> Option<T> {
        loop {
            // Before the look, so that no step between that and the wait is missed.
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(found) = self.look(&mut look)? {
                return Some(found);
            }
            self.end.run_until_cancelled(changed).await?;
        }
    }

    fn copy(&self, from: Member, view: ViewNumber) {
        if let Some(life) = self.itself.upgrade() {
            self.runtime.spawn(copying::copy(life, from, view));
        }
    }

    fn note_synced(&self, synced: Result<LogPosition, LogError>) {
        match synced {
            Ok(position) => {
                self.step(|engine| engine.note_synced(position));
            }
            Err(error) => self.end(EndReason::Failed(error.to_string())),
        }
    }

    /// Ends this life, as a crash would. The first reason counts.
    pub(super) fn end(&self, why: EndReason) {
        self.why.lock().get_or_insert(why);
        self.end.cancel();
        self.changed.notify_waiters();
        drop(self.transport.lock().take());
    }

    /// Behind this one, which has ended so that another one begins, none can begin: whoever waits for that hears so.
    pub(super) fn has_no_next(&self, why: String) {
        *self.why.lock() = Some(EndReason::Failed(format!("it does not come back: {why}")));
    }

    /// Drops the state, and with it what the store has open. Waits for the log's thread.
    pub(super) fn bury(&self) {
        assert!(self.end.is_cancelled(), "a life is buried when it has ended");
        // Whoever comes second waits until everything is closed.
        let _burial = self.burial.lock();
        let engine = self.engine.lock().take();
        drop(engine);
        self.changed.notify_waiters();
    }

    /// Why it has ended.
    pub(super) fn why_ended(&self) -> EndReason {
        self.why.lock().clone().unwrap_or(EndReason::Stopped)
    }
}

/// A number above all that this node has had. The clock is taken too, so that a node whose disk was lost is no earlier life.
fn next_incarnation(records: &[LogRecord<BrickChange>]) -> Incarnation {
    let started = records.iter().filter_map(|record| match record {
        LogRecord::Started(incarnation) => Some(incarnation.get()),
        _ => None,
    });
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let by_clock = u64::try_from(since_1970.as_millis()).unwrap_or_default();
    Incarnation::new(by_clock.max(started.max().map_or(0, |last| last + 1)))
}
