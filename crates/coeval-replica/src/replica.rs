// SPDX-License-Identifier: Apache-2.0
//! The thread that follows: takes the log, makes it durable, says so, and connects again.

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::Link;
use coeval_store::log::{LogRecord, Lsn};
use coeval_store::{FileWriter, Follower, Frame};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to wait for messages before looking whether to stop, to sync or to say how far this is.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What was taken is made durable at least so often while more comes.
const SYNC_INTERVAL: Duration = Duration::from_millis(20);

/// The primary hears of this replica at least so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// A primary that says nothing for so long is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes of records that are applied at once while more lie ready.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// How long to wait before connecting again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What a replica is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Not connected; why, if that is known.
    Connecting(Option<String>),
    /// It takes the log.
    Following,
    /// It has stopped following for good, for this reason; what it has can be read.
    Stopped(String),
}

/// Where a replica stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// What it is about.
    pub state: ReplicaState,
    /// The end of its log.
    pub taken: Lsn,
    /// Up to where its readers see it.
    pub applied: Lsn,
    /// Up to where that is durable.
    pub durable: Lsn,
}

/// Follows a primary until it is dropped.
///
/// # Locking
/// `status` is a leaf lock, held for moments.
pub struct Replica {
    status: Arc<Mutex<ReplicaStatus>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replica({:?})", self.status.lock())
    }
}

impl Replica {
    /// Follows the primary from where the follower is, over the connection of a copy that was just made if there is one.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(follower: Follower, from: PrimaryAddress, link: Option<Link>) -> std::io::Result<Self> {
        let state = ReplicaState::Connecting(None);
        let status = Arc::new(Mutex::new(ReplicaStatus {
            state,
            taken: follower.position(),
            applied: follower.shown_position(),
            durable: follower.durable(),
        }));
        let stopping = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("coeval-replica".to_owned()).spawn({
            let (status, stopping) = (Arc::clone(&status), Arc::clone(&stopping));
            move || {
                Taking { follower, from, status, stopping, applied_told: Lsn::START, ends: VecDeque::new() }
                    .run(link)
            }
        })?;
        Ok(Self { status, stopping, thread: Some(thread) })
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        self.status.lock().clone()
    }

    /// What tells where it stands, also once it is dropped.
    #[must_use]
    pub fn watch(&self) -> ReplicaWatch {
        ReplicaWatch(Arc::clone(&self.status))
    }
}

/// Tells where a replica stands.
#[derive(Clone)]
pub struct ReplicaWatch(Arc<Mutex<ReplicaStatus>>);

impl fmt::Debug for ReplicaWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReplicaWatch({:?})", self.status())
    }
}

impl ReplicaWatch {
    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> ReplicaStatus {
        self.0.lock().clone()
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Its own panic has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

/// What the thread has.
struct Taking {
    follower: Follower,
    from: PrimaryAddress,
    status: Arc<Mutex<ReplicaStatus>>,
    stopping: Arc<AtomicBool>,
    /// Up to where the primary knows that readers see the log here.
    applied_told: Lsn,
    /// Where the log ended on the primary, and when that was heard, of what readers do not see yet.
    ends: VecDeque<(Lsn, Instant)>,
}

/// As many of these are kept; of more, the ones in between are forgotten.
const ENDS_MAX: usize = 256;

impl Taking {
    fn run(mut self, mut link: Option<Link>) {
        let mut pause = PAUSE_MIN;
        while !self.is_stopping() {
            let begun = Instant::now();
            let Err(error) = self.follow(link.take()) else { return };
            if error.is_final() || error.needs_copy() {
                let what = match error.needs_copy() {
                    true => format!("{error}; make a new copy in an empty directory"),
                    false => error.to_string(),
                };
                tracing::error!(primary = %self.from, error = %what, "the replica does not follow any more");
                self.status.lock().state = ReplicaState::Stopped(what);
                return;
            }
            if begun.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            tracing::warn!(primary = %self.from, %error, "the replica does not follow for the moment");
            self.status.lock().state = ReplicaState::Connecting(Some(error.to_string()));
            let until = Instant::now() + pause;
            while Instant::now() < until && !self.is_stopping() {
                std::thread::sleep(LOOK_INTERVAL);
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Follows over one connection, until it ends or the replica is to stop.
    fn follow(&mut self, link: Option<Link>) -> Result<(), ReplicaError> {
        let mut link = match link {
            Some(link) => link,
            None => Link::open(&self.from)?,
        };
        let (own, found) = (self.follower.terms(), link.identify()?);
        // A copy that has no record yet has the database's first term in the first one.
        if own.database_id() != 0 && own.database_id() != found.database {
            return Err(ReplicaError::OtherDatabase { own: own.database_id(), found: found.database });
        }
        link.start_replication(self.follower.position(), own.last().map(|term| term.id))?;
        link.set_patience(LOOK_INTERVAL)?;
        tracing::info!(primary = %self.from, term = found.term, position = %self.follower.position(), "the replica follows");
        self.status.lock().state = ReplicaState::Following;
        let outcome = self.take(&mut link);
        // Whatever has ended it: what was taken is durable when the next connection says where it is.
        let synced = self.follower.sync();
        self.note();
        outcome?;
        synced?;
        link.say_goodbye();
        Ok(())
    }

    /// Takes what comes.
    fn take(&mut self, link: &mut Link) -> Result<(), ReplicaError> {
        let mut file: Option<FileWriter> = None;
        let mut group: Vec<LogRecord> = Vec::new();
        let mut group_bytes = 0;
        let (mut heard, mut told, mut synced) = (Instant::now(), self.tell(link)?, Instant::now());
        while !self.is_stopping() {
            match link.next()? {
                None if heard.elapsed() > SILENCE_MAX => {
                    return Err(ReplicaError::Protocol("the primary says nothing any more".to_owned()));
                }
                None => {}
                Some(message) if message.kind == b'd' => {
                    heard = Instant::now();
                    match message.body.split_first() {
                        // Two places and a time stand before each piece.
                        Some((b'w', piece)) => {
                            self.note_end(piece.get(8..16));
                            let short = || ReplicaError::Protocol("a piece of the log is cut off".to_owned());
                            match Frame::decode(piece.get(24..).ok_or_else(short)?)? {
                                Frame::Records(records) => {
                                    group_bytes +=
                                        records.iter().map(|record| record.payload.len()).sum::<usize>();
                                    group.extend(records);
                                }
                                other => {
                                    self.apply(&mut group, &mut group_bytes)?;
                                    self.other(other, &mut file)?;
                                }
                            }
                        }
                        Some((b'k', word)) => self.note_end(word.get(..8)),
                        _ => {
                            return Err(ReplicaError::Protocol(
                                "a message that is none of replication".to_owned(),
                            ));
                        }
                    }
                }
                Some(message) if matches!(message.kind, b'N' | b'S') => {}
                Some(message) => {
                    let kind = char::from(message.kind);
                    return Err(ReplicaError::Protocol(format!("message {kind:?} within the log")));
                }
            }
            let has_more = link.has_message();
            if !has_more {
                self.note();
            }
            if !has_more || group_bytes >= GROUP_BYTES_MAX {
                self.apply(&mut group, &mut group_bytes)?;
            }
            let is_dirty = self.follower.durable() < self.follower.position();
            let is_synced = is_dirty && (!has_more || synced.elapsed() >= SYNC_INTERVAL);
            if is_synced {
                self.follower.sync()?;
                synced = Instant::now();
            }
            // Commits may wait for what readers see here.
            let is_shown = !has_more && self.follower.shown_position() > self.applied_told;
            if is_synced || is_shown || told.elapsed() >= STATUS_INTERVAL {
                told = self.tell(link)?;
            }
        }
        Ok(())
    }

    /// Applies the records that have gathered.
    fn apply(&mut self, group: &mut Vec<LogRecord>, bytes: &mut usize) -> Result<(), ReplicaError> {
        if !group.is_empty() {
            self.follower.take(group)?;
            group.clear();
            *bytes = 0;
            self.note();
        }
        Ok(())
    }

    fn other(&mut self, frame: Frame<'_>, file: &mut Option<FileWriter>) -> Result<(), ReplicaError> {
        let out_of_place = || ReplicaError::Protocol("pieces of a file out of their order".to_owned());
        match frame {
            Frame::File { name, .. } => *file = Some(self.follower.receive_file(name)?),
            Frame::Bytes(bytes) => file.as_mut().ok_or_else(out_of_place)?.write(bytes)?,
            Frame::FileEnd => file.take().ok_or_else(out_of_place)?.finish()?,
            Frame::Published(version) => self.follower.note_published(version),
            Frame::Boundary(boundary) => self.follower.note_boundary(boundary),
            Frame::Records(_) | Frame::Manifest(_) => return Err(out_of_place()),
        }
        Ok(())
    }

    /// Tells the primary how far this replica is.
    fn tell(&mut self, link: &mut Link) -> Result<Instant, ReplicaError> {
        let (taken, durable, applied) = self.note();
        link.send_status(taken, durable, applied)?;
        self.applied_told = applied;
        Ok(Instant::now())
    }

    /// Notes where the log ends on the primary.
    fn note_end(&mut self, bytes: Option<&[u8]>) {
        let Some(bytes) = bytes.and_then(|bytes| bytes.try_into().ok()) else { return };
        let end = Lsn::new(u64::from_be_bytes(bytes));
        if self.ends.back().is_some_and(|(last, _)| *last >= end) || self.ends.len() >= ENDS_MAX {
            self.ends.pop_back();
        }
        self.ends.push_back((end, Instant::now()));
    }

    fn note(&mut self) -> (Lsn, Lsn, Lsn) {
        let follower = &self.follower;
        let shown = follower.shown_position();
        while let Some((_, at)) = self.ends.pop_front_if(|(end, _)| *end <= shown) {
            follower.note_current(at);
        }
        let (taken, durable, applied) = (follower.position(), follower.durable(), follower.shown_position());
        let mut status = self.status.lock();
        (status.taken, status.durable, status.applied) = (taken, durable, applied);
        (taken, durable, applied)
    }
}
