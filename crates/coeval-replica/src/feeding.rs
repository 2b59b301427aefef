// SPDX-License-Identifier: Apache-2.0
//! A feed of changes from a server, from an archive, or from whoever has the log.
//!
//! Nothing is taken before it is published: what a server has durably while it waits for its synchronous replicas stays here,
//! in memory, until it says so. So whatever the feed has given, a failover does not lose.
//!
//! | the server | the archive | |
//! |---|---|---|
//! | gives the log | any, or none | it is taken from there |
//! | does not answer, or has not got the log any more | gives log | that is taken, then the server is asked again |
//! | has not got the log any more | has no more, or none | the feed ends: it would leave something out |
//! | anything else | has no more, fails, or none | again after a while; the feed ends if it is to end some time |
//! | has another database or history | any, or none | the feed ends |

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::{Answer, Link};
use crate::source::Sources;
use crate::wire::Wire;
use coeval_archive::{ArchivedLog, ArchivedPart};
use coeval_store::log::LogRecord;
use coeval_store::{CHANGE_FEED_NAME, ChangeFeed, ChangeSink, FileWriter, Frame, LogMark};
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long to wait for messages before looking whether to stop, and saying that there is nothing.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// The server hears of the feed at least so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// A server that says nothing for so long is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes of records that are taken at once while more lie ready.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// How long to wait before connecting again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// When a feed ends that is not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedEnd {
    /// Never.
    Never,
    /// When it has given what is published as it begins.
    Now,
    /// At the [token](ChangeFeed::until) that the feed has.
    AtToken,
}

/// Feeds changes to a sink, on this thread.
pub struct Feeding {
    feed: ChangeFeed,
    sources: Sources,
    log: Option<ArchivedLog>,
    end: FeedEnd,
    stop: Arc<AtomicBool>,
    /// The version that is published as it begins, once that is known.
    now: Option<u64>,
}

impl fmt::Debug for Feeding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feeding({:?} from {})", self.feed, self.sources)
    }
}

/// What an attempt has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The feed is at its end, or stopped.
    Ended,
    /// The archive has no more at the moment; whether it had something.
    Exhausted(bool),
}

impl Feeding {
    /// Of a feed that was just opened. It ends early once `stop` is set.
    #[must_use]
    pub fn new(feed: ChangeFeed, sources: Sources, end: FeedEnd, stop: Arc<AtomicBool>) -> Self {
        let mut sources = sources;
        if let Some(primary) = &mut sources.primary {
            primary.application_name = CHANGE_FEED_NAME.to_owned();
        }
        let log = sources.archive.as_ref().map(|source| ArchivedLog::new(&source.archive, Arc::clone(&stop)));
        Self { feed, sources, log, end, stop, now: None }
    }

    /// Feeds until the end, over the connection of a copy that was just made if there is one. A feed that gives nothing yet
    /// begins behind what is published.
    ///
    /// # Errors
    /// [`ReplicaError`]: what was given is whole up to the last token. A feed without an end outlasts connections that fail.
    pub fn run(mut self, mut link: Option<Link>, sink: &mut dyn ChangeSink) -> Result<(), ReplicaError> {
        self.feed.catch_up(sink)?;
        let mut pause = PAUSE_MIN;
        while !self.is_ended() {
            let begun = Instant::now();
            let failed = match self.sources.primary.clone() {
                None => None,
                Some(primary) => match self.follow_server(&primary, link.take(), sink) {
                    Ok(()) => return Ok(()),
                    Err(error) if error.is_final() => return Err(error),
                    Err(error) => Some(error),
                },
            };
            if begun.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            let Some(wait) = self.without_server(failed, pause, sink)? else { return Ok(()) };
            self.wait(wait);
            pause = (pause * 2).min(PAUSE_MAX);
        }
        Ok(())
    }

    fn is_ended(&self) -> bool {
        let is_now = self.now.is_some_and(|now| self.feed.version().get() >= now);
        self.stop.load(Ordering::Relaxed) || self.feed.is_done() || (is_now && self.end == FeedEnd::Now)
    }

    /// What is done while the server does not give the log, for this reason, or there is none: how long to wait before the next
    /// attempt, nothing at the end. See the module's table.
    fn without_server(
        &mut self,
        failed: Option<ReplicaError>,
        pause: Duration,
        sink: &mut dyn ChangeSink,
    ) -> Result<Option<Duration>, ReplicaError> {
        let interval = self.sources.archive.as_ref().map_or(pause, |source| source.interval);
        let taken = match self.log.take() {
            None => None,
            Some(mut log) => {
                let taken = self.take_archived(&mut log, sink);
                self.log = Some(log);
                // Nobody else is asked.
                Some(if failed.is_none() { self.all_taken(taken, sink) } else { taken })
            }
        };
        let needs_copy = failed.as_ref().is_some_and(ReplicaError::needs_copy);
        match (failed, taken) {
            (_, Some(Ok(Outcome::Ended))) => Ok(None),
            // The server holds what is not archived yet, so it may have what comes now.
            (Some(_), Some(Ok(Outcome::Exhausted(true)))) => Ok(Some(Duration::ZERO)),
            (Some(error), Some(Ok(Outcome::Exhausted(false))) | None) => {
                if needs_copy || self.end != FeedEnd::Never {
                    return Err(error);
                }
                tracing::warn!(sources = %self.sources, %error, "the feed waits");
                Ok(Some(pause))
            }
            (None, Some(Ok(Outcome::Exhausted(_)))) => Ok(Some(interval)),
            (_, Some(Err(error))) if error.is_final() || self.end != FeedEnd::Never => Err(error),
            (_, Some(Err(error))) => {
                tracing::warn!(sources = %self.sources, %error, "the feed waits");
                Ok(Some(pause))
            }
            (None, None) => Err(ReplicaError::Protocol("there is nobody to follow".to_owned())),
        }
    }

    /// Takes what the archive has.
    fn take_archived(
        &mut self,
        log: &mut ArchivedLog,
        sink: &mut dyn ChangeSink,
    ) -> Result<Outcome, ReplicaError> {
        let mut took = false;
        while !self.is_ended() {
            let Some(stretch) = log.next(&self.feed.terms(), self.feed.position())? else {
                return Ok(Outcome::Exhausted(took));
            };
            took = true;
            for part in stretch.parts() {
                match part {
                    ArchivedPart::File(file) => {
                        file.write_to(self.feed.receive_file(file.name())?)?;
                    }
                    // An archive has nothing that is not published.
                    ArchivedPart::Records(records) => self.feed.take(records, sink)?,
                }
                if self.is_ended() {
                    return Ok(Outcome::Ended);
                }
            }
        }
        Ok(Outcome::Ended)
    }

    /// What is taken of the archive is everything, once that has no more.
    fn all_taken(
        &mut self,
        taken: Result<Outcome, ReplicaError>,
        sink: &mut dyn ChangeSink,
    ) -> Result<Outcome, ReplicaError> {
        let taken = taken?;
        if taken != Outcome::Ended {
            self.has_all(self.feed.version().get());
        }
        self.feed.idle(sink)?;
        Ok(if self.is_ended() { Outcome::Ended } else { taken })
    }

    /// The source has had this version published, and nothing later, since the feed began.
    fn has_all(&mut self, version: u64) {
        let now = *self.now.get_or_insert(version);
        if self.feed.version().get() >= now {
            self.feed.begin_here();
        }
    }

    /// Feeds over one connection until the end.
    fn follow_server(
        &mut self,
        from: &PrimaryAddress,
        link: Option<Link>,
        sink: &mut dyn ChangeSink,
    ) -> Result<(), ReplicaError> {
        let mut link = match link {
            Some(link) => link,
            None => Link::open(from)?,
        };
        let (own, found) = (self.feed.terms(), link.identify_source()?);
        if own.database_id() != 0 && own.database_id() != found.database {
            return Err(ReplicaError::OtherDatabase { own: own.database_id(), found: found.database });
        }
        found.check_not_behind(&own, self.feed.position(), from)?;
        link.start_replication(from.slot.as_deref(), self.feed.position(), own.last().map(|term| term.id))?;
        link.set_patience(LOOK_INTERVAL)?;
        tracing::debug!(server = %from, position = %self.feed.position(), "the feed follows");
        let wire = Wire::new(link);
        // A sink may take what it is given as slowly as it likes.
        wire.while_heard(|| self.take_from(&wire, sink))?;
        wire.say_goodbye();
        Ok(())
    }

    /// Feeds what comes until the end.
    fn take_from(&mut self, wire: &Wire, sink: &mut dyn ChangeSink) -> Result<(), ReplicaError> {
        let mut arriving = Arriving::default();
        let (mut heard, mut told) = (Instant::now(), self.tell(wire)?);
        while !self.is_ended() {
            match wire.next()? {
                None if heard.elapsed() > SILENCE_MAX => {
                    return Err(ReplicaError::Protocol("the server says nothing any more".to_owned()));
                }
                None => self.idle(&arriving, sink)?,
                Some(message) if message.kind == b'd' => {
                    heard = Instant::now();
                    self.piece(&message.body, &mut arriving)?;
                }
                Some(message) if matches!(message.kind, b'N' | b'S') => {}
                Some(message) => {
                    let kind = char::from(message.kind);
                    return Err(ReplicaError::Protocol(format!("message {kind:?} within the log")));
                }
            }
            if !wire.has_message() || arriving.bytes >= GROUP_BYTES_MAX {
                let records = arriving.published()?;
                if !records.is_empty() {
                    self.feed.take(&records, sink)?;
                }
                if let Some(published) = self.now.or(arriving.published_first) {
                    self.has_all(published);
                }
            }
            if told.elapsed() >= STATUS_INTERVAL {
                told = self.tell(wire)?;
            }
        }
        self.idle(&arriving, sink)
    }

    /// There is nothing more at the moment. A copy may begin with what is not published yet: its token is not given before.
    fn idle(&mut self, arriving: &Arriving, sink: &mut dyn ChangeSink) -> Result<(), ReplicaError> {
        if arriving.published >= self.feed.version().get() {
            self.feed.idle(sink)?;
        }
        Ok(())
    }

    /// Takes in a message of the log.
    fn piece(&mut self, body: &[u8], arriving: &mut Arriving) -> Result<(), ReplicaError> {
        let cut_off = || ReplicaError::Protocol("a piece of the log is cut off".to_owned());
        let out_of_place = || ReplicaError::Protocol("pieces of a file out of their order".to_owned());
        match body.split_first() {
            // Two places and a time stand before each piece.
            Some((b'w', piece)) => match Frame::decode(piece.get(24..).ok_or_else(cut_off)?)? {
                Frame::Records(records) => arriving.add(records),
                Frame::File { name, .. } => arriving.file = Some(self.feed.receive_file(name)?),
                Frame::Bytes(bytes) => {
                    arriving.file.as_mut().ok_or_else(out_of_place)?.write(bytes)?;
                }
                Frame::FileEnd => arriving.file.take().ok_or_else(out_of_place)?.finish()?,
                Frame::Published(version) => {
                    arriving.published = version.get();
                    arriving.published_first.get_or_insert(version.get());
                }
                Frame::Boundary(_) => {}
                Frame::Manifest(_) => return Err(out_of_place()),
            },
            Some((b'k', _)) => {
                // A server without a commit has nothing to publish, and says no more than this. Its log may have other records.
                if !arriving.has_batch()? && self.feed.version().get() == 0 {
                    arriving.published_first.get_or_insert(0);
                }
            }
            _ => return Err(ReplicaError::Protocol("a message that is none of replication".to_owned())),
        }
        Ok(())
    }

    /// Tells the server how far the feed is: what lies before that it need not hold any more.
    fn tell(&self, wire: &Wire) -> Result<Instant, ReplicaError> {
        let position = self.feed.position();
        wire.send_status([position; 3], Answer::Unneeded)?;
        Ok(Instant::now())
    }

    fn wait(&self, pause: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < pause && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_INTERVAL.min(pause));
        }
    }
}

/// What has come over a connection and is not taken yet.
#[derive(Default)]
struct Arriving {
    records: VecDeque<LogRecord>,
    bytes: usize,
    /// Up to this version everything is published; the first that was heard of.
    published: u64,
    published_first: Option<u64>,
    file: Option<FileWriter>,
}

impl Arriving {
    fn add(&mut self, records: Vec<LogRecord>) {
        self.bytes += records.iter().map(|record| record.payload.len()).sum::<usize>();
        self.records.extend(records);
    }

    fn has_batch(&self) -> Result<bool, ReplicaError> {
        for record in &self.records {
            if let LogMark::Batch(_) = LogMark::of(record)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes out the records up to the last batch that is published. What stands behind that and is no batch may be gone with a
    /// failover, as the batch may be that follows.
    fn published(&mut self) -> Result<Vec<LogRecord>, ReplicaError> {
        let mut count = 0;
        for (index, record) in self.records.iter().enumerate() {
            if let LogMark::Batch(version) = LogMark::of(record)? {
                if version.get() > self.published {
                    break;
                }
                count = index + 1;
            }
        }
        let records: Vec<LogRecord> = self.records.drain(..count).collect();
        self.bytes -= records.iter().map(|record| record.payload.len()).sum::<usize>();
        Ok(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::log::Lsn;

    /// Records of batches with these versions; of time, if there is none.
    fn records(versions: &[Option<u64>]) -> Vec<LogRecord> {
        let mut place = Lsn::START;
        let record = |version: &Option<u64>| {
            let (kind, number) = version.map_or((5, 1), |version| (1, version));
            let payload = [&[kind][..], &u64::to_le_bytes(number)].concat();
            let record = LogRecord::from_payload(place, payload);
            place = record.end;
            record
        };
        versions.iter().map(record).collect()
    }

    #[test]
    fn nothing_is_taken_before_it_is_published() {
        let all = records(&[None, Some(7), None, Some(8), Some(9), None]);
        let mut arriving = Arriving::default();
        arriving.add(all.clone());
        let mut published = |version| {
            arriving.published = version;
            arriving.published().unwrap()
        };
        assert_eq!(published(6), []);
        assert_eq!(published(7), all[..2], "what stands behind it may go with the batch that follows");
        assert_eq!(published(7), []);
        assert_eq!(published(9), all[2..5]);
        assert_eq!((arriving.records.len(), arriving.bytes), (1, 9));
    }

    /// Fails if any record counts for a commit: a server that had written of its term alone was waited for without end.
    #[test]
    fn a_log_may_have_records_and_no_commit() {
        let mut arriving = Arriving::default();
        assert!(!arriving.has_batch().unwrap());
        arriving.add(records(&[None, None]));
        assert!(!arriving.has_batch().unwrap());
        arriving.add(records(&[None, Some(7)]));
        assert!(arriving.has_batch().unwrap());
    }
}
