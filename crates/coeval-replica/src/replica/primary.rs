// SPDX-License-Identifier: Apache-2.0
//! Taking the log from the primary, over one connection.

use super::{LOOK_INTERVAL, ReplicaState, Taking};
use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::{Link, Role};
use coeval_store::log::LogRecord;
use coeval_store::{Acknowledgement, FileWriter, Frame, TermNumber};
use coeval_txn::Version;
use std::time::{Duration, Instant};

/// What was taken is made durable at least so often while more comes.
const SYNC_INTERVAL: Duration = Duration::from_millis(20);

/// The primary hears of this replica at least so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// A primary that says nothing for so long is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How long to wait for an answer of a machine that might be the primary by now.
const PEER_PATIENCE: Duration = Duration::from_secs(2);

/// Who gives the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upstream {
    /// Whom the replica was told to follow, be that a primary or a replica.
    Configured,
    /// Another machine that might be the primary by now.
    Peer,
}

/// Bytes of records that are applied at once while more lie ready.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// The same while the replica is far behind. Each group makes a world, for which the paths to all keys that it changes are copied:
/// of many scattered changes most of a table's tree, be they four megabytes or thirty.
const FAR_GROUP_BYTES_MAX: usize = 32 << 20;

/// A replica that lacks more than this is far behind: it is to catch up before it shows each commit at once.
const FAR_BYTES: u64 = 16 << 20;

/// What has come and is not applied yet.
#[derive(Default)]
struct Group {
    records: Vec<LogRecord>,
    bytes: usize,
    /// The last that was said between the records. It holds behind more of them as well: what was published stays so, and what a safe
    /// snapshot needs to know lies before.
    published: Option<Version>,
    /// See `published`.
    boundary: Option<Version>,
}

impl Group {
    fn add(&mut self, records: Vec<LogRecord>) {
        self.bytes += records.iter().map(|record| record.payload.len()).sum::<usize>();
        self.records.extend(records);
    }
}

impl Taking {
    /// Follows over one connection, until it ends or the replica is to stop. One that is not `configured`, but another machine
    /// that might be the primary by now, is followed only if it is.
    pub(super) fn follow_primary(
        &mut self,
        from: &PrimaryAddress,
        link: Option<Link>,
        standing: Upstream,
    ) -> Result<(), ReplicaError> {
        let mut link = match (link, standing) {
            (Some(link), _) => link,
            (None, Upstream::Configured) => Link::open(from)?,
            (None, Upstream::Peer) => Link::open_within(from, PEER_PATIENCE)?,
        };
        let (own, found) = (self.follower.terms(), link.identify_source()?);
        // A copy that has no record yet has the database's first term in the first one.
        if own.database_id() != 0 && own.database_id() != found.database {
            return Err(ReplicaError::OtherDatabase { own: own.database_id(), found: found.database });
        }
        if standing == Upstream::Peer && (found.role != Role::Primary || found.timeline < own.timeline()) {
            return Err(ReplicaError::NoPrimary(from.to_string()));
        }
        let promised = self.follower.promised().max(own.timeline());
        if found.timeline < own.timeline() && self.sources.peers.is_empty() {
            // Nobody else is known who might be the right one.
            let number = own.last().map_or(0, |term| term.number);
            let (own, found) = (TermNumber(number), TermNumber(found.standing.term));
            return Err(ReplicaError::OlderTerm { own, found });
        }
        if found.timeline < promised {
            return Err(ReplicaError::Superseded { found: found.timeline, promised });
        }
        self.follower.begin_following(found.timeline)?;
        if standing == Upstream::Peer
            && let Some(slot) = &from.slot
        {
            link.make_slot(slot)?;
        }
        link.start_replication(
            from.slot.as_deref(),
            self.follower.position(),
            own.last().map(|term| term.id),
        )?;
        link.set_patience(LOOK_INTERVAL)?;
        tracing::info!(primary = %from, timeline = %found.timeline, position = %self.follower.position(), "the replica follows");
        self.status.lock().state = ReplicaState::Following;
        let outcome = self.take(&mut link).map_err(|error| match error {
            // Its log begins with its copy: that says nothing of the primary's.
            lacking
                if lacking.needs_copy() && found.role == Role::Replica && !self.sources.peers.is_empty() =>
            {
                ReplicaError::ReplicaLacks { address: from.to_string(), reason: lacking.to_string() }
            }
            other => other,
        });
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
        let mut group = Group::default();
        let (mut heard, mut told, mut synced) = (Instant::now(), self.tell(link)?, Instant::now());
        while !self.is_stopping() {
            let message = link.next()?;
            // The next pieces of a log that is far ahead are on their way, also if none lies ready.
            let lacks = self.progress.lacks(self.follower.position()).saturating_sub(group.bytes as u64);
            let is_far = message.is_some() && lacks > FAR_BYTES;
            match message {
                None if heard.elapsed() > SILENCE_MAX => {
                    return Err(ReplicaError::Protocol("the primary says nothing any more".to_owned()));
                }
                None => {}
                Some(message) if message.kind == b'd' => {
                    heard = Instant::now();
                    match message.body.split_first() {
                        // Two places and a time stand before each piece.
                        Some((b'w', piece)) => {
                            self.progress.note_end(piece.get(8..16));
                            let short = || ReplicaError::Protocol("a piece of the log is cut off".to_owned());
                            match Frame::decode(piece.get(24..).ok_or_else(short)?)? {
                                Frame::Records(records) => group.add(records),
                                Frame::Published(version) if is_far => group.published = Some(version),
                                Frame::Boundary(boundary) if is_far => group.boundary = Some(boundary),
                                other => {
                                    self.apply(&mut group)?;
                                    self.other(other, &mut file)?;
                                }
                            }
                        }
                        Some((b'k', word)) => self.progress.note_end(word.get(..8)),
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
            let has_more = is_far || link.has_message();
            let bytes_max = if is_far { FAR_GROUP_BYTES_MAX } else { GROUP_BYTES_MAX };
            let is_due = !has_more || group.bytes >= bytes_max;
            if is_due {
                self.apply(&mut group)?;
            }
            let is_dirty = self.follower.durable() < self.follower.position();
            let is_synced = is_dirty && (!has_more || synced.elapsed() >= SYNC_INTERVAL);
            if is_synced {
                // Commits may wait for no more than that it is written here.
                self.tell(link)?;
                self.follower.sync()?;
                synced = Instant::now();
            }
            // Once for all that has come: whoever looks at the status takes its lock. Also on the way from far behind.
            if is_due {
                self.note();
            }
            // Commits may wait for what readers see here.
            let is_shown = !has_more && self.follower.shown_position() > self.progress.told;
            if is_synced || is_shown || told.elapsed() >= STATUS_INTERVAL {
                told = self.tell(link)?;
            }
        }
        Ok(())
    }

    /// Applies what has gathered.
    fn apply(&mut self, group: &mut Group) -> Result<(), ReplicaError> {
        let Group { records, published, boundary, .. } = std::mem::take(group);
        if !records.is_empty() {
            self.follower.take(&records)?;
        }
        if let Some(version) = published {
            self.follower.note_published(version);
        }
        if let Some(boundary) = boundary {
            self.follower.note_boundary(boundary);
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
        let Acknowledgement { written, flushed, shown } = self.follower.acknowledgement()?;
        link.send_status(written, flushed, shown)?;
        self.progress.told = shown;
        Ok(Instant::now())
    }
}
