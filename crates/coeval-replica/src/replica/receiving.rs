// SPDX-License-Identifier: Apache-2.0
//! Reading what a primary sends: records gather until it is their turn to be applied together.

use super::progress::Progress;
use crate::error::ReplicaError;
use crate::link::{Message, Role};
use crate::wire::Wire;
use coeval_store::Frame;
use coeval_store::log::{LogRecord, Lsn};
use coeval_txn::Version;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A primary that says nothing for so long is not there any more.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// Bytes of records that are applied at once while more lie ready.
const GROUP_BYTES_MAX: usize = 4 << 20;

/// The same while the replica is far behind. Each group makes a world, for which the paths to all keys that it changes are copied:
/// of many scattered changes most of a table's tree, be they four megabytes or sixty. Two groups are in memory, one that is applied and
/// one that is read.
const FAR_GROUP_BYTES_MAX: usize = 64 << 20;

/// A replica that lacks more than this is far behind: it is to catch up before it shows each commit at once.
const FAR_BYTES: u64 = 16 << 20;

/// What has been read, and is applied together.
#[derive(Default)]
pub(super) struct Group {
    pub(super) records: Vec<LogRecord>,
    bytes: usize,
    /// The last that was said between the records. It holds behind more of them as well: what was published stays so, and what a safe
    /// snapshot needs to know lies before.
    pub(super) published: Option<Version>,
    /// See `published`.
    pub(super) boundary: Option<Version>,
    /// What comes behind these, and is no part of a group.
    pub(super) behind: Option<Piece>,
    /// Whether more lies ready, or is on its way.
    pub(super) has_more: bool,
    /// Whether the replica is far behind.
    pub(super) is_far: bool,
}

impl Group {
    fn add(&mut self, records: Vec<LogRecord>) {
        self.bytes += records.iter().map(|record| record.payload.len()).sum::<usize>();
        self.records.extend(records);
    }

    fn is_full(&self) -> bool {
        self.bytes >= if self.is_far { FAR_GROUP_BYTES_MAX } else { GROUP_BYTES_MAX }
    }
}

/// A piece of the stream, which holds a frame.
pub(super) struct Piece(Message);

impl Piece {
    /// What it holds.
    pub(super) fn frame(&self) -> Result<Frame<'_>, ReplicaError> {
        let short = || ReplicaError::Protocol("a piece of the log is cut off".to_owned());
        // Its kind, two places and a time stand before the frame.
        Ok(Frame::decode(self.0.body.get(25..).ok_or_else(short)?)?)
    }

    /// The bytes of where the primary's log ends, and of when this was sent.
    fn word(&self) -> Option<&[u8]> {
        self.0.body.get(9..25)
    }
}

/// Reads one connection.
pub(super) struct Receiving<'a> {
    link: &'a Wire,
    /// Behind the last record that was read.
    position: Lsn,
    /// When the primary was last heard of.
    heard: Instant,
    ages: Ages,
    stopping: &'a AtomicBool,
}

impl<'a> Receiving<'a> {
    pub(super) fn new(link: &'a Wire, from: Role, position: Lsn, stopping: &'a AtomicBool) -> Self {
        Self { link, position, heard: Instant::now(), ages: Ages::new(from), stopping }
    }

    /// Reads until something is to be done: the group is full, nothing more lies ready, or another kind of piece has come. Nothing
    /// may have come at all.
    pub(super) fn next_group(&mut self, progress: &mut Progress) -> Result<Group, ReplicaError> {
        let mut group = Group::default();
        loop {
            let message = self.link.next()?;
            // The next pieces of a log that is far ahead are on their way, also if none lies ready.
            group.is_far = message.is_some() && progress.lacks(self.position) > FAR_BYTES;
            match message {
                None if self.heard.elapsed() > SILENCE_MAX => {
                    return Err(ReplicaError::Protocol("the primary says nothing any more".to_owned()));
                }
                None => {}
                Some(message) if message.kind == b'd' => {
                    self.heard = Instant::now();
                    self.add(&mut group, message, progress)?;
                }
                Some(message) if matches!(message.kind, b'N' | b'S') => {}
                Some(message) => {
                    let kind = char::from(message.kind);
                    return Err(ReplicaError::Protocol(format!("message {kind:?} within the log")));
                }
            }
            group.has_more = group.is_far || self.link.has_message();
            let is_due = !group.has_more || group.is_full() || group.behind.is_some();
            if is_due || self.stopping.load(Ordering::Relaxed) {
                return Ok(group);
            }
        }
    }

    /// Adds a message of replication.
    fn add(
        &mut self,
        group: &mut Group,
        message: Message,
        progress: &mut Progress,
    ) -> Result<(), ReplicaError> {
        match message.body.first() {
            Some(b'w') => {}
            Some(b'k') => {
                progress.note_word(message.body.get(1..17), self.ages.note_keepalive(&message.body));
                return Ok(());
            }
            _ => return Err(ReplicaError::Protocol("a message that is none of replication".to_owned())),
        }
        let piece = Piece(message);
        progress.note_word(piece.word(), self.ages.of_pieces);
        match piece.frame()? {
            Frame::Records(records) => {
                self.position = records.last().map_or(self.position, |record| record.end);
                group.add(records);
            }
            Frame::Published(version) if group.is_far => group.published = Some(version),
            Frame::Boundary(boundary) if group.is_far => group.boundary = Some(boundary),
            _ => group.behind = Some(piece),
        }
        Ok(())
    }
}

/// How old what comes may be as a word of the primary.
struct Ages {
    /// The end of the log that pieces say: nobody knows if a replica sends them, unless its program is older, which did not say so of
    /// anything. Replicas are brought up to date before whom they follow, and each piece was current then.
    of_pieces: Option<Duration>,
}

impl Ages {
    fn new(from: Role) -> Self {
        Self { of_pieces: (from != Role::Replica).then_some(Duration::ZERO) }
    }

    /// The age that a keepalive says, in microseconds behind what PostgreSQL's has; `None` if a replica has never heard the primary. A
    /// program that does not say so is older, and taken for the primary's.
    fn note_keepalive(&mut self, body: &[u8]) -> Option<Duration> {
        let Some(micros) = body.get(18..).and_then(|rest| rest.first_chunk::<8>()) else {
            self.of_pieces = Some(Duration::ZERO);
            return self.of_pieces;
        };
        Some(u64::from_be_bytes(*micros)).filter(|micros| *micros < u64::MAX).map(Duration::from_micros)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keepalive(age: &[u8]) -> Vec<u8> {
        [[0; 18].as_slice(), age].concat()
    }

    #[test]
    fn a_keepalive_says_how_old_it_is_unless_its_program_is_older() {
        let age = |age: &[u8]| Ages::new(Role::Replica).note_keepalive(&keepalive(age));
        assert_eq!(age(&[]), Some(Duration::ZERO));
        assert_eq!(age(&0u64.to_be_bytes()), Some(Duration::ZERO));
        assert_eq!(age(&1_500u64.to_be_bytes()), Some(Duration::from_micros(1_500)));
        assert_eq!(age(&u64::MAX.to_be_bytes()), None);
    }

    /// Under steady load a replica sends hardly anything but pieces.
    #[test]
    fn pieces_of_a_replica_count_if_its_program_is_older() {
        assert_eq!(Ages::new(Role::Primary).of_pieces, Some(Duration::ZERO));
        let mut ages = Ages::new(Role::Replica);
        assert_eq!(ages.of_pieces, None);
        ages.note_keepalive(&keepalive(&7u64.to_be_bytes()));
        assert_eq!(ages.of_pieces, None);
        ages.note_keepalive(&keepalive(&[]));
        assert_eq!(ages.of_pieces, Some(Duration::ZERO));
    }
}
