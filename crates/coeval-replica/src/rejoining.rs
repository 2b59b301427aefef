// SPDX-License-Identifier: Apache-2.0
//! The return of a former primary: whether it can follow the new one as it is.

use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::link::Link;
use coeval_store::{Follower, TermNumber};
use std::time::Duration;

/// What a former primary is to the one that is now.
#[derive(Debug)]
pub enum Kinship {
    /// Its log is the beginning of the new one's: it can follow.
    Beginning,
    /// It has records that the new one never had, or the new one has not the log any more that is missing here: it needs a
    /// copy. Why.
    Parted(ReplicaError),
    /// It is not for it to follow: another database, or a primary that has not come after it.
    Stranger(ReplicaError),
}

/// Whether the log is there is found with its first record, which comes at once.
const FIRST_RECORD: Duration = Duration::from_millis(500);

/// Asks the primary what a directory that was a primary's is to it.
///
/// # Errors
/// [`ReplicaError::Connection`] and others of the connection: nothing is known then.
pub fn kinship(from: &PrimaryAddress, follower: &Follower) -> Result<Kinship, ReplicaError> {
    let mut link = Link::open(from)?;
    let (own, found) = (follower.terms(), link.identify_source()?);
    if own.database_id() != found.database {
        let error = ReplicaError::OtherDatabase { own: own.database_id(), found: found.database };
        return Ok(Kinship::Stranger(error));
    }
    let promised = follower.promised();
    if found.timeline < promised {
        let error = ReplicaError::Superseded { found: found.timeline, promised };
        return Ok(Kinship::Stranger(error));
    }
    found.check_not_behind(&own, follower.position(), from)?;
    let last = own.last();
    let began = link.start_replication(None, follower.position(), last.map(|term| term.id));
    let error = match began.and_then(|()| link.set_patience(FIRST_RECORD)).and_then(|()| link.next()) {
        Ok(_) => return Ok(Kinship::Beginning),
        Err(error) if error.is_final() || error.needs_copy() => error,
        Err(error) => return Err(error),
    };
    let (own, found) = (last.map_or(0, |term| term.number), found.standing.term);
    Ok(if found > own {
        Kinship::Parted(error)
    } else {
        Kinship::Stranger(ReplicaError::OlderTerm { own: TermNumber(own), found: TermNumber(found) })
    })
}
