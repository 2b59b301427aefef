// SPDX-License-Identifier: Apache-2.0
//! Asking for the promises that a promotion needs (the rules: `coeval-store/src/candidacy.rs`, `promises.rs`).
//!
//! First everybody who answers is asked how long the log is, which changes nothing. Only if that is enough for a promotion are
//! promises asked for: an attempt that fails then leaves the primary that is there alone.

use crate::link::{Compares, Identity, Role};
use crate::peer::{Peer, ask_all};
use coeval_store::{Candidacy, CandidacyError, NotPromoted, Promise, Store, StoreError};

/// What is to become of commits that others may have acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing that was acknowledged with replicas' say may be lost.
    Refused,
    /// What this machine does not have is given up.
    Accepted,
}

/// Why a replica is not promoted. It is a replica as before.
#[derive(Debug, thiserror::Error)]
pub enum PromotionError {
    /// It is not known that it has all that was acknowledged.
    #[error("{reason}{}", answers_text(.answers))]
    Refused {
        /// Why.
        reason: NotPromoted,
        /// What others have answered that could not be counted.
        answers: Vec<String>,
    },
    /// It cannot promise itself.
    #[error(transparent)]
    Store(#[from] StoreError),
}

fn answers_text(answers: &[String]) -> String {
    if answers.is_empty() { String::new() } else { format!(" ({})", answers.join("; ")) }
}

impl From<CandidacyError> for PromotionError {
    fn from(error: CandidacyError) -> Self {
        match error {
            CandidacyError::Refused(reason) => Self::Refused { reason, answers: Vec::new() },
            CandidacyError::Store(error) => Self::Store(error),
        }
    }
}

/// The promise to [promote](coeval_store::promote) the replica in `store` with, which is called `name`. On return, those that
/// were asked acknowledge no lower timeline any more.
///
/// # Errors
/// [`PromotionError`]. If promises had been given before that was found, primaries below them get no acknowledgement any more:
/// promote the machine that the error names, or try again.
///
/// Cost: two rounds of questions to all peers at once, of a few seconds at most.
pub fn promises_for(
    store: &Store,
    name: &str,
    peers: &[Peer],
    loss: Loss,
) -> Result<Promise, PromotionError> {
    let found = ask_all(peers, Peer::identify);
    let own = store.terms().database_id();
    let replica = |found: &Identity| found.database == own && found.role == Role::Replica;
    let highest = found.iter().flatten().filter(|found| found.database == own).map(|found| found.promised);
    let timeline = highest.fold(store.timeline(), Ord::max).next();
    if loss == Loss::Accepted {
        let promise = Promise::asked_for(timeline);
        store.promise(promise)?;
        for (peer, answer) in peers.iter().zip(ask_all(peers, |peer| peer.ask_for(promise))) {
            if let Err(error) = answer {
                warn_of(&format!("{}: {error}", peer.name));
            }
        }
        return Ok(promise);
    }
    let refused = |reason, answers| PromotionError::Refused { reason, answers };
    let considered = Candidacy::considered(store, name, timeline);
    let mut considered = considered.map_err(|reason| refused(reason, Vec::new()))?;
    let mut answers = Vec::new();
    let mut asked = Vec::new();
    for (peer, found) in peers.iter().zip(found) {
        match found {
            Ok(found) if replica(&found) && !counts(considered.promise(), &found) => {
                answers.push(older_program(peer));
            }
            Ok(found) if replica(&found) => {
                considered
                    .note_promise(&peer.name, found.standing)
                    .map_err(|reason| refused(reason, Vec::new()))?;
                asked.push((peer.clone(), found));
            }
            Ok(found) if found.database == own => answers.push(format!("{} is no replica", peer.name)),
            Ok(_) => answers.push(format!("{} has another database", peer.name)),
            Err(error) => answers.push(format!("{}: {error}", peer.name)),
        }
    }
    considered.outcome().map_err(|reason| refused(reason, answers.clone()))?;
    let mut candidacy = Candidacy::begin(store, name, timeline)?;
    // Another list may have come meanwhile, by which few have to promise.
    let (asked, older): (Vec<_>, Vec<_>) =
        asked.into_iter().partition(|(_, found)| counts(candidacy.promise(), found));
    answers.extend(older.iter().map(|(peer, _)| older_program(peer)));
    let asked: Vec<Peer> = asked.into_iter().map(|(peer, _)| peer).collect();
    for (peer, answer) in asked.iter().zip(ask_all(&asked, |peer| peer.ask_for(candidacy.promise()))) {
        match answer {
            Ok(standing) => {
                candidacy
                    .note_promise(&peer.name, standing)
                    .map_err(|reason| refused(reason, answers.clone()))?;
            }
            Err(error) => answers.push(format!("{}: {error}", peer.name)),
        }
    }
    let promise = candidacy.outcome().map_err(|reason| refused(reason, answers.clone()))?;
    answers.iter().for_each(|answer| warn_of(answer));
    Ok(promise)
}

/// Whether the promise of a machine counts. Where a timeline is its candidate's, one that takes all of a number for one timeline may acknowledge
/// the log of a lower one behind its promise (`promises.rs`, A candidate of an older program).
fn counts(promise: Promise, found: &Identity) -> bool {
    promise.timeline.candidate() == 0 || found.compares == Compares::Candidates
}

fn older_program(peer: &Peer) -> String {
    let name = &peer.name;
    format!(
        "{name} has an older program, whose promise does not count where so few have to promise: bring it up to date"
    )
}

/// Of a machine that has not promised, and why not.
fn warn_of(answer: &str) {
    tracing::warn!(answer, "a machine has not promised: it may go on with the former primary");
}

#[cfg(test)]
mod tests {
    use super::*;
    use coeval_store::log::Lsn;
    use coeval_store::{LogStanding, Timeline};

    /// Fails if everybody's promise counts: one that takes two timelines of a number for one acknowledges the lower one's log, too.
    #[test]
    fn the_promise_of_an_older_program_counts_only_where_a_majority_has_to_promise() {
        let found = |compares| Identity {
            database: 7,
            standing: LogStanding::new(1, 0, Lsn::new(100)),
            term_id: Some(7),
            timeline: Timeline::FIRST,
            promised: Timeline::FIRST,
            role: Role::Replica,
            format: 8,
            compares,
        };
        let (of_a_majority, of_few) = (Promise::of(Timeline::new(2), 50), Promise::of(Timeline::new(2), 51));
        assert!(counts(of_a_majority, &found(Compares::Numbers)));
        assert!(!counts(of_few, &found(Compares::Numbers)));
        assert!(counts(of_few, &found(Compares::Candidates)));
    }
}
