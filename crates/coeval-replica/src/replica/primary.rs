// SPDX-License-Identifier: Apache-2.0
//! Taking the log from the primary, over one connection.

use super::progress::Progress;
use super::receiving::{Group, Receiving};
use super::{LOOK_INTERVAL, ReplicaState, Taking};
use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::{Answer, Identity, Link, Role};
use crate::peer::Peer;
use crate::rejoining::{Kinship, NewHistory, kinship};
use crate::wire::Wire;
use coeval_store::{Acknowledgement, FileWriter, Follower, Frame, TermNumber};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// What was taken is made durable at least so often while more comes.
const SYNC_INTERVAL: Duration = Duration::from_millis(20);

/// The primary hears of this replica at least so often.
const STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait for an answer of a machine that might be the primary by now.
const PEER_PATIENCE: Duration = Duration::from_secs(2);

/// Who gives the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upstream {
    /// Whom the replica was told to follow, be that a primary or a replica; if it is one of the peers, as long as it is the primary.
    Configured,
    /// Another machine that might be the primary by now.
    Peer,
}

impl Taking {
    /// Follows over one connection, until it ends or the replica is to stop. A machine that might be the primary by now, or might not be
    /// it any more, is followed only if it is: no commit counts who follows a replica.
    pub(super) fn follow_primary(
        &mut self,
        from: &PrimaryAddress,
        link: Option<Link>,
        standing: Upstream,
    ) -> Result<(), ReplicaError> {
        // Whoever has made a copy has the slot.
        let is_of_copy = link.is_some();
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
        let is_another = match standing {
            Upstream::Configured => found.role == Role::Replica && self.is_a_peer(from),
            Upstream::Peer => found.role != Role::Primary || found.timeline < own.timeline(),
        };
        if is_another {
            return Err(ReplicaError::NoPrimary(from.to_string()));
        }
        found.check_not_behind(&own, self.follower.position(), from)?;
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
        if let Some(slot) = from.slot.as_deref().filter(|_| !is_of_copy) {
            // It may be another machine than last time, or the slot was not asked for then.
            link.make_slot(slot)?;
        }
        let (position, term) = (self.follower.position(), own.last().map(|term| term.id));
        if let Err(error) = link.start_replication(from.slot.as_deref(), position, term) {
            link.say_goodbye();
            return Err(self.of_refusal(error, from, found));
        }
        link.set_patience(LOOK_INTERVAL)?;
        tracing::info!(primary = %from, timeline = %found.timeline, position = %self.follower.position(), "the replica follows");
        self.status.lock().state = ReplicaState::Following;
        let wire = Wire::new(link);
        let outcome = wire.while_heard(|| self.take(&wire, found.role));
        let outcome = outcome.map_err(|error| self.of_source(error, from, found.role));
        // Whatever has ended it: what was taken is durable when the next connection says where it is.
        let synced = self.follower.sync();
        self.note();
        outcome?;
        synced?;
        wire.say_goodbye();
        Ok(())
    }

    /// Whether this is one of the machines of which any may be the primary.
    fn is_a_peer(&self, address: &PrimaryAddress) -> bool {
        let is_it = |peer: &Peer| peer.address.host == address.host && peer.address.port == address.port;
        self.sources.peers.iter().any(is_it)
    }

    /// What a refusal to begin says of the log. Whoever is in a later timeline than the log here may have parted from it before its
    /// end, and is asked where.
    fn of_refusal(&self, error: ReplicaError, from: &PrimaryAddress, found: Identity) -> ReplicaError {
        // A replica that has cut off the term which is the last one here does not know it, and says no more than that.
        let is_of_log = matches!(error, ReplicaError::Refused { .. }) && !error.needs_copy();
        let is_later = found.timeline > self.follower.terms().timeline();
        let asked = (is_of_log && is_later).then(|| kinship(from, &self.follower.as_former_primary()));
        match asked {
            Some(Ok(Kinship::Rewindable { place, .. })) => {
                self.parted_from.send_replace(Some(NewHistory::Of(from.clone())));
                ReplicaError::Rewindable { parting: place }
            }
            Some(Ok(Kinship::Parted(beyond @ ReplicaError::CheckpointBeyond { .. }))) => beyond,
            // Nobody has said that the two part for good: it is asked again.
            Some(Ok(Kinship::Stranger(why)) | Err(why)) => why,
            _ => self.of_source(error, from, found.role),
        }
    }

    /// What a refusal says of the log, given who has refused.
    fn of_source(&self, error: ReplicaError, from: &PrimaryAddress, role: Role) -> ReplicaError {
        // A replica's log begins with its copy, and ends where it has got to: that says nothing of the primary's.
        let is_of_replica = role == Role::Replica && (error.needs_copy() || error.is_too_early());
        if is_of_replica && !self.sources.peers.is_empty() {
            return ReplicaError::ReplicaLacks { address: from.to_string(), reason: error.to_string() };
        }
        error
    }

    /// Takes what comes. While the replica is far behind, a group is applied while the one before is made durable and the next one is
    /// read.
    fn take(&mut self, wire: &Wire, from: Role) -> Result<(), ReplicaError> {
        let (mut file, stopping) = (None, Arc::clone(&self.stopping));
        let questions = self.follower.questions();
        // A replica's answer says how old its word is, or that its program is older and does not say that of anything.
        let first = if from == Role::Replica { Answer::Wanted } else { Answer::Unneeded };
        let (mut told, mut synced) = (self.tell(wire, first)?, Instant::now());
        let mut receiving = Receiving::new(wire, from, self.follower.position(), &stopping);
        let mut group = Group::default();
        while !self.is_stopping() {
            let (has_more, is_far) = (group.has_more, group.is_far);
            let mut applying = Applying { follower: &mut self.follower, file: &mut file };
            let next = if is_far {
                applying.apply_while_reading(group, &mut receiving, &mut self.progress)?
            } else {
                applying.apply(group)?;
                None
            };
            let is_dirty = self.follower.durable() < self.follower.position();
            // Far behind, this group is made durable while the next one is applied.
            let is_synced = is_dirty && (!has_more || !is_far && synced.elapsed() >= SYNC_INTERVAL);
            if is_synced {
                // Commits may wait for no more than that it is written here.
                self.tell(wire, Answer::Unneeded)?;
                self.follower.sync()?;
                synced = Instant::now();
            }
            // Once for all that has come: whoever looks at the status takes its lock. Also on the way from far behind.
            self.note();
            // Commits may wait for what readers see here.
            let is_shown = !has_more && self.follower.shown_position() > self.progress.told;
            // Readers may take less than a primary says by itself that has nothing new.
            let answer = if questions.have_come() { Answer::Wanted } else { Answer::Unneeded };
            let is_asked = answer == Answer::Wanted;
            if is_far || is_synced || is_shown || is_asked || told.elapsed() >= STATUS_INTERVAL {
                told = self.tell(wire, answer)?;
            }
            group = next.map_or_else(|| receiving.next_group(&mut self.progress), Ok)?;
        }
        Ok(())
    }

    /// Tells the primary how far this replica is.
    fn tell(&mut self, wire: &Wire, answer: Answer) -> Result<Instant, ReplicaError> {
        let Acknowledgement { written, flushed, shown } = self.follower.acknowledgement()?;
        wire.send_status([written, flushed, shown], answer)?;
        self.progress.told = shown;
        Ok(Instant::now())
    }
}

/// What groups are applied to.
struct Applying<'a> {
    follower: &'a mut Follower,
    /// A file of which pieces come.
    file: &'a mut Option<FileWriter>,
}

impl Applying<'_> {
    /// Applies a group, while what was taken before is made durable and the next group is read, each by a thread of its own. Nothing
    /// is read if there is no thread for it.
    fn apply_while_reading(
        &mut self,
        group: Group,
        receiving: &mut Receiving<'_>,
        progress: &mut Progress,
    ) -> Result<Option<Group>, ReplicaError> {
        let taken = self.follower.taken();
        std::thread::scope(|scope| {
            let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
            let reading =
                thread("coeval-receive").spawn_scoped(scope, || receiving.next_group(progress)).ok();
            // Without a thread it is made durable with this group.
            let syncing = thread("coeval-sync").spawn_scoped(scope, || taken.sync()).ok();
            let applied = self.apply(group);
            let read = reading.map(outcome);
            let synced = syncing.map(outcome).transpose();
            applied?;
            synced?;
            read.transpose()
        })
    }

    /// Applies what has gathered, and what came behind it.
    fn apply(&mut self, group: Group) -> Result<(), ReplicaError> {
        let Group { records, published, boundary, behind, .. } = group;
        if !records.is_empty() {
            self.follower.take(&records)?;
        }
        if let Some(version) = published {
            self.follower.note_published(version);
        }
        if let Some(boundary) = boundary {
            self.follower.note_boundary(boundary);
        }
        behind.map_or(Ok(()), |piece| self.other(piece.frame()?))
    }

    fn other(&mut self, frame: Frame<'_>) -> Result<(), ReplicaError> {
        let out_of_place = || ReplicaError::Protocol("pieces of a file out of their order".to_owned());
        match frame {
            Frame::File { name, .. } => *self.file = Some(self.follower.receive_file(name)?),
            Frame::Bytes(bytes) => self.file.as_mut().ok_or_else(out_of_place)?.write(bytes)?,
            Frame::FileEnd => self.file.take().ok_or_else(out_of_place)?.finish()?,
            Frame::Published(version) => self.follower.note_published(version),
            Frame::Boundary(boundary) => self.follower.note_boundary(boundary),
            Frame::Records(_) | Frame::Manifest(_) => return Err(out_of_place()),
        }
        Ok(())
    }
}

/// What a thread has returned; if it has panicked, so does this one.
pub(super) fn outcome<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
