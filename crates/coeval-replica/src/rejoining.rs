// SPDX-License-Identifier: Apache-2.0
//! The return of a former primary, or of a replica that followed it: whether it can follow the new one as it is, or once its log is
//! cut back. A replica of the new one may be asked in its place, once that has its term; so may the archive, once that has log of it, by a
//! former primary as by a replica.

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::Link;
use coeval_archive::{Archive, ArchiveError, ArchivedLog};
use coeval_store::log::Lsn;
use coeval_store::{FormerPrimary, TermNumber, Timeline, WayBack};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a former primary, or a replica of it, is to the one that is now.
#[derive(Debug)]
pub enum Kinship {
    /// Its log is the beginning of the new one's: it can follow.
    Beginning,
    /// Its log is the beginning of the new one's up to a place that no checkpoint of it has passed, and the new one gives the log
    /// from there on: it can follow once it is [cut back](coeval_store::rewind) to it.
    Rewindable {
        /// Where the two part.
        place: Lsn,
        /// The new one's timeline.
        timeline: Timeline,
    },
    /// It has records that the new one never had and cannot be cut back, or the new one has not the log any more that is missing
    /// here: it needs a copy. Why.
    Parted(ReplicaError),
    /// It is not for it to follow: another database, or a primary that has not come after it.
    Stranger(ReplicaError),
}

/// Whose log a replica's has parted from.
#[derive(Clone, Debug)]
pub enum NewHistory {
    /// A machine's.
    Of(PrimaryAddress),
    /// That of an archive whose newest history is a promoted replica's.
    In(Archive),
}

impl fmt::Display for NewHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Of(address) => address.fmt(f),
            Self::In(archive) => write!(f, "the archive {}", archive.place()),
        }
    }
}

impl NewHistory {
    /// What a directory, that of a replica which has followed a former primary, is to it. Nothing is changed.
    ///
    /// # Errors
    /// Those of the connection, or of the archive: nothing is known then.
    pub fn kinship(&self, former: &FormerPrimary) -> Result<Kinship, ReplicaError> {
        match self {
            Self::Of(address) => kinship(address, former),
            Self::In(archive) => kinship_in(&mut ArchivedLog::new(archive, Arc::default()), former),
        }
    }

    /// What a directory, that of a former primary, is to it. Nothing is changed.
    ///
    /// # Errors
    /// Those of the connection, or of the archive: nothing is known then.
    ///
    /// Cost: a connection; of an archive, some listings of everything.
    pub fn kinship_of_primary(&self, former: &FormerPrimary) -> Result<Kinship, ReplicaError> {
        match self {
            Self::Of(address) => kinship(address, former),
            Self::In(archive) => kinship_of_primary_in(archive, former),
        }
    }
}

/// What a former primary is to the newest history of an archive, where no machine is named that could be asked. That history may be its own, and
/// may lack the end of that: it gives up its log, or takes itself for a replica, only if somebody has come after it. Then the archive is to
/// have the log behind the place where the two part, or a backup for a copy.
fn kinship_of_primary_in(archive: &Archive, former: &FormerPrimary) -> Result<Kinship, ReplicaError> {
    let mut log = ArchivedLog::new(archive, Arc::default());
    let terms = log.newest_terms(&former.terms)?;
    let last = TermNumber(terms.last().map_or(0, |term| term.number));
    if !former.comes_before(terms.timeline(), last) {
        return Ok(Kinship::Stranger(ReplicaError::NotSucceeded { found: last }));
    }
    let found = match kinship_in(&mut log, former) {
        // What comes behind its log is in a backup alone.
        Err(error @ ReplicaError::Archive(ArchiveError::Gap(_))) => Kinship::Parted(error),
        found => found?,
    };
    if matches!(found, Kinship::Parted(_)) {
        log.check_backup(&former.terms)?;
    }
    Ok(found)
}

/// What it is to the newest history of an archive. As to a machine, it gives up its own log only for one of a higher timeline: that of a
/// replica which was promoted, or of a database that was restored on purpose and is archived to the same place.
fn kinship_in(log: &mut ArchivedLog, former: &FormerPrimary) -> Result<Kinship, ReplicaError> {
    let (way_back, found) = log.way_back(former)?;
    if found < former.promised {
        let error = ReplicaError::Superseded { found, promised: former.promised };
        return Ok(Kinship::Stranger(error));
    }
    let is_later = found > former.terms.timeline();
    Ok(match way_back {
        WayBack::AsItIs => Kinship::Beginning,
        WayBack::CutBack(parting) if is_later => Kinship::Rewindable { place: parting.at, timeline: found },
        WayBack::CheckpointBeyond(parting) if is_later => {
            let (parting, checkpoint) = (parting.at, former.checkpoint);
            Kinship::Parted(ReplicaError::CheckpointBeyond { parting, checkpoint })
        }
        WayBack::CutBack(_) | WayBack::CheckpointBeyond(_) | WayBack::Unrelated => {
            Kinship::Parted(ReplicaError::NotPromoted { found })
        }
    })
}

/// Whether the log is there is found with its first record, which comes at once; where there is none behind the place, it is said after
/// a second that nothing is new. Whoever says nothing for so long may be busy, or the network may be: then nothing is known.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Asks the primary what a former primary's directory, or that of a replica of it, is to it. Nothing is changed.
///
/// # Errors
/// [`ReplicaError::Connection`] and others of the connection: nothing is known then.
pub fn kinship(from: &PrimaryAddress, former: &FormerPrimary) -> Result<Kinship, ReplicaError> {
    let mut link = Link::open(from)?;
    let (own, found) = (&former.terms, link.identify_source()?);
    if own.database_id() != found.database {
        let error = ReplicaError::OtherDatabase { own: own.database_id(), found: found.database };
        return Ok(Kinship::Stranger(error));
    }
    if found.timeline < former.promised {
        let error = ReplicaError::Superseded { found: found.timeline, promised: former.promised };
        return Ok(Kinship::Stranger(error));
    }
    found.check_not_behind(own, former.end, from)?;
    let has_come_after = former.comes_before(found.timeline, TermNumber(found.standing.term));
    let way_back = if has_come_after { way_back(&mut link, former)? } else { WayBack::AsItIs };
    let last = own.last();
    let (place, term) = match way_back {
        WayBack::CheckpointBeyond(parting) => {
            let (parting, checkpoint) = (parting.at, former.checkpoint);
            return Ok(Kinship::Parted(ReplicaError::CheckpointBeyond { parting, checkpoint }));
        }
        // Only who was promoted has what was acknowledged by replicas.
        WayBack::CutBack(_) if found.timeline <= own.timeline() => {
            return Ok(Kinship::Parted(ReplicaError::NotPromoted { found: found.timeline }));
        }
        WayBack::CutBack(parting) => (parting.at, Some(parting.term.id)),
        // If it is unrelated, the new one says so.
        WayBack::AsItIs | WayBack::Unrelated => (former.end, last.map(|term| term.id)),
    };
    match begins_at(&mut link, (place, term), FIRST_WORD) {
        Ok(()) if place < former.end => Ok(Kinship::Rewindable { place, timeline: found.timeline }),
        Ok(()) => Ok(Kinship::Beginning),
        Err(error) if !error.is_final() && !error.needs_copy() => Err(error),
        Err(error) if has_come_after => Ok(Kinship::Parted(error)),
        Err(_) => {
            let own = TermNumber(last.map_or(0, |term| term.number));
            let found = TermNumber(found.standing.term);
            Ok(Kinship::Stranger(ReplicaError::OlderTerm { own, found }))
        }
    }
}

/// How it can go on with the log of this one. One that does not say its terms is asked for the log as it is.
fn way_back(link: &mut Link, former: &FormerPrimary) -> Result<WayBack, ReplicaError> {
    let terms = link.term_history()?;
    Ok(terms.map_or(WayBack::AsItIs, |terms| former.way_back(&terms)))
}

/// Whether this one gives the log from a place on, which lies in the term with this id.
///
/// # Errors
/// Why not; [`ReplicaError::Connection`] if it does not say so within the patience.
fn begins_at(
    link: &mut Link,
    (place, term): (Lsn, Option<u64>),
    patience: Duration,
) -> Result<(), ReplicaError> {
    link.start_replication(None, place, term)?;
    link.set_patience(patience)?;
    loop {
        match link.expect()?.kind {
            b'd' => return Ok(()),
            b'N' | b'S' => {}
            other => {
                let kind = char::from(other);
                return Err(ReplicaError::Protocol(format!("message {kind:?} within the log")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::tests::{message, primary_that_sends};

    /// Fails when silence counts as a yes: the checkpoint or the network of the new primary took longer than half a second, and the
    /// former one was cut back for log that was not there any more.
    #[test]
    fn who_says_nothing_has_not_said_that_it_has_the_log() {
        let asked = |behind: &[u8]| {
            let (address, primary) =
                primary_that_sends([message(b'W', &[0, 0, 0]), behind.to_vec()].concat());
            let mut link = Link::open(&address).unwrap();
            let begun = begins_at(&mut link, (Lsn::new(26), Some(11)), Duration::from_millis(300));
            drop(link);
            primary.join().unwrap();
            begun
        };
        let silent = asked(&[]).unwrap_err();
        assert!(matches!(silent, ReplicaError::Connection { .. }) && !silent.is_final(), "{silent}");
        let gone = asked(&message(b'E', b"C58P01\0Mit is gone\0\0")).unwrap_err();
        assert!(gone.needs_copy(), "{gone}");
        let notice = message(b'N', b"C00000\0Mwait\0\0");
        asked(&[notice, message(b'd', b"k")].concat()).unwrap();
    }
}
