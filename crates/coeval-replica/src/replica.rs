// SPDX-License-Identifier: Apache-2.0
//! The thread that follows: takes the log, makes it durable, and goes on after whatever fails.
//!
//! # Where the log comes from
//! | the primary | the archive | |
//! |---|---|---|
//! | gives the log | any, or none | it is taken from there |
//! | does not answer | gives log, or has no more yet | what the archive has; the primary is asked again and again |
//! | has not got the log any more | gives log, or has no more yet | what the archive has; behind that, the primary is asked at once |
//! | has not got the log any more, or there is none | has another database or history | it stops |
//! | there is none | has the history of a replica that was promoted, from which the log here parts | it stops: the log is to be [cut back](Replica::parted_from) |
//! | has not got the log any more | none | it stops: a new copy is needed |
//! | was promoted, and the log here parts from its | any, or none | it stops: the log is to be [cut back](Replica::parted_from) |
//! | has another database or history | any, or none | it stops |
//! | anything else | fails, or none | both are tried again |
//!
//! Beside a primary that does not answer, has been superseded, is a replica by now, or is a replica that has not got the log any more or
//! not yet, the peers are asked first whether one of them is the primary. Of a primary among them it says the same as of the one that was named.

mod archive;
mod primary;
mod progress;
mod receiving;

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::Link;
use crate::rejoining::NewHistory;
use crate::source::Sources;
use coeval_archive::ArchivedLog;
use coeval_store::log::Lsn;
use coeval_store::{FollowError, Follower, LastWord, LogTime};
use parking_lot::Mutex;
use primary::Upstream;
use progress::Progress;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long to wait for messages before looking whether to stop, to sync or to say how far this is.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// How long to wait before connecting again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// What a replica is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaState {
    /// Nobody gives the log; why, if that is known.
    Connecting(Option<String>),
    /// It takes the log from the primary.
    Following,
    /// It takes the log from the archive, as it appears there; why not from the primary, if there is one.
    FollowingArchive(Option<String>),
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
    /// The last time that its log has: what the primary committed later, it may not have. An idle primary writes none.
    pub time: LogTime,
    /// What the primary has said last, since this runs.
    pub last_word: Option<LastWord>,
}

/// Follows a primary, or its archive, until it is dropped.
///
/// # Locking
/// `status` is a leaf lock, held for moments.
pub struct Replica {
    status: Arc<Mutex<ReplicaStatus>>,
    parted_from: watch::Receiver<Option<NewHistory>>,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Replica {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Replica({:?})", self.status.lock())
    }
}

impl Replica {
    /// Goes on from where the follower is, over the connection of a copy that was just made if there is one.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(follower: Follower, sources: Sources, link: Option<Link>) -> std::io::Result<Self> {
        let state = ReplicaState::Connecting(None);
        let status = Arc::new(Mutex::new(ReplicaStatus {
            state,
            taken: follower.position(),
            applied: follower.shown_position(),
            durable: follower.durable(),
            time: follower.time(),
            last_word: None,
        }));
        let (parts, parted_from) = watch::channel(None);
        let stopping = Arc::new(AtomicBool::new(false));
        let log =
            sources.archive.as_ref().map(|source| ArchivedLog::new(&source.archive, Arc::clone(&stopping)));
        let thread = std::thread::Builder::new().name("coeval-replica".to_owned()).spawn({
            let (status, stopping) = (Arc::clone(&status), Arc::clone(&stopping));
            let progress = Progress::default();
            let told = ToldOfPanic(Arc::clone(&status));
            move || {
                let _told = told;
                Taking { follower, sources, log, status, parted_from: parts, stopping, progress }.run(link);
            }
        })?;
        Ok(Self { status, parted_from, stopping, thread: Some(thread) })
    }

    /// Waits for a machine, or an archive, that is to be followed now and has parted from the log that is here, at a place to which that [can be cut
    /// back](coeval_store::rewind): once that was found, it does not follow any more. It is asked [again](NewHistory::kinship) when nobody
    /// has the directory open. Never ready where nothing of the kind is found.
    pub async fn parted_from(&self) -> NewHistory {
        let mut found = self.parted_from.clone();
        let from = found.wait_for(Option::is_some).await.ok().and_then(|from| from.clone());
        match from {
            Some(from) => from,
            // It has stopped for another reason.
            None => std::future::pending().await,
        }
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

/// Has the status say that the thread has ended, if that is by a panic, which is a bug.
struct ToldOfPanic(Arc<Mutex<ReplicaStatus>>);

impl Drop for ToldOfPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let what =
                "a bug has ended the thread that follows: start the replica again, and report what it said";
            self.0.lock().state = ReplicaState::Stopped(what.to_owned());
        }
    }
}

/// What the thread has.
struct Taking {
    follower: Follower,
    sources: Sources,
    /// What the archive has, if there is one.
    log: Option<ArchivedLog>,
    status: Arc<Mutex<ReplicaStatus>>,
    /// See [`Replica::parted_from`].
    parted_from: watch::Sender<Option<NewHistory>>,
    stopping: Arc<AtomicBool>,
    progress: Progress,
}

/// What comes behind an attempt.
enum Next {
    /// The next one, after so long.
    Again(Duration),
    /// None, for this reason.
    Stop(String),
}

/// It stops for good, with advice if there is any.
fn stop_for(error: &ReplicaError) -> Next {
    let is_lost = matches!(error, ReplicaError::CheckpointBeyond { .. });
    let advice = if is_lost { "; make a new copy in an empty directory" } else { "" };
    Next::Stop(format!("{error}{advice}"))
}

impl Taking {
    fn run(mut self, mut link: Option<Link>) {
        let mut pause = PAUSE_MIN;
        while !self.is_stopping() {
            let begun = Instant::now();
            let failed = match self.sources.primary.clone() {
                None => None,
                Some(primary) => match self.follow_any(&primary, link.take()) {
                    Ok(()) => return,
                    Err(error) => Some(error),
                },
            };
            if begun.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            match self.without_primary(failed, pause) {
                Next::Stop(_) if self.is_stopping() => return,
                Next::Stop(what) => {
                    self.say_stopped(&what);
                    self.status.lock().state = ReplicaState::Stopped(what);
                    return;
                }
                Next::Again(after) => self.wait(after),
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    fn say_stopped(&self, why: &str) {
        let found = self.parted_from.borrow().clone();
        match found {
            Some(from) => {
                tracing::warn!(primary = %from, why, "the replica has log that the new primary never had: it is to be cut back");
            }
            None => {
                tracing::error!(sources = %self.sources, error = why, "the replica does not follow any more");
            }
        }
    }

    /// Follows the primary that was named, or, if that does not give the log, another machine that is the primary by now. The
    /// error is the first one's, unless the primary says that it has not got the log any more.
    fn follow_any(&mut self, primary: &PrimaryAddress, link: Option<Link>) -> Result<(), ReplicaError> {
        let Err(error) = self.follow_primary(primary, link, Upstream::Configured) else { return Ok(()) };
        let is_lost = matches!(
            error,
            ReplicaError::Connection { .. }
                | ReplicaError::Superseded { .. }
                | ReplicaError::ReplicaLacks { .. }
                | ReplicaError::ReplicaBehind { .. }
                | ReplicaError::NoPrimary(_)
                | ReplicaError::Follow(FollowError::Superseded { .. })
        );
        for peer in self.sources.peers.clone() {
            if !is_lost || self.is_stopping() {
                break;
            }
            match self.follow_primary(&peer.address, None, Upstream::Peer) {
                Ok(()) => return Ok(()),
                // The primary itself lacks it, or has another history than is here.
                Err(other) if other.needs_copy() || other.is_parted() => return Err(other),
                // One that cannot be followed whatever is tried is not the only one.
                Err(other) => tracing::debug!(peer = %peer.name, error = %other, "not followed"),
            }
        }
        Err(error)
    }

    /// What is done while the primary does not give the log, for this reason, or there is none. See the module's table.
    fn without_primary(&mut self, failed: Option<ReplicaError>, pause: Duration) -> Next {
        if let Some(error) = failed.as_ref().filter(|error| error.is_final()) {
            return stop_for(error);
        }
        let needs_copy = failed.as_ref().is_some_and(ReplicaError::needs_copy);
        let interval = self.sources.archive.as_ref().map_or(PAUSE_MAX, |source| source.interval);
        let taken = self.follow_archive(failed.as_ref());
        match (failed, taken) {
            // The primary holds what is not archived yet, so it may have what comes now.
            (Some(_), Some(Ok(true))) if needs_copy => Next::Again(Duration::ZERO),
            (None, Some(Ok(_))) => Next::Again(interval),
            (Some(_), Some(Ok(_))) => Next::Again(interval.min(pause)),
            (None, Some(Err(error))) if error.is_final() => stop_for(&error),
            (Some(_), Some(Err(error))) if error.is_of_store() => Next::Stop(error.to_string()),
            (Some(first), Some(Err(error))) if needs_copy && error.is_final() => {
                Next::Stop(format!("{first}; {error}; make a new copy in an empty directory"))
            }
            (Some(first), None) if needs_copy => {
                Next::Stop(format!("{first}; make a new copy in an empty directory"))
            }
            (Some(first), Some(Err(error))) => self.again(&format!("{first}; {error}"), pause),
            (Some(error), None) | (None, Some(Err(error))) => self.again(&error.to_string(), pause),
            (None, None) => Next::Stop("there is nobody to follow".to_owned()),
        }
    }

    /// Notes why nobody gives the log.
    fn again(&self, why: &str, pause: Duration) -> Next {
        if !self.is_stopping() {
            tracing::warn!(sources = %self.sources, error = why, "the replica does not follow for the moment");
            self.status.lock().state = ReplicaState::Connecting(Some(why.to_owned()));
        }
        Next::Again(pause)
    }

    fn wait(&self, pause: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < pause && !self.is_stopping() {
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn note(&mut self) {
        let follower = &self.follower;
        self.progress.note_shown(follower);
        let mut status = self.status.lock();
        (status.taken, status.durable) = (follower.position(), follower.durable());
        (status.applied, status.time) = (follower.shown_position(), follower.time());
        status.last_word = self.progress.last_word;
    }
}

#[cfg(test)]
mod tests;
