// SPDX-License-Identifier: Apache-2.0
//! `coeval.max_staleness`: how old what a replica has may be for a session that reads it, and how its primary is asked.

use crate::cancel::CancelHandle;
use crate::error::{SqlError, SqlState};
use crate::hand_over::aside;
use coeval_store::Store;
use coeval_txn::Isolation;
use std::time::{Duration, Instant};

/// A primary answers within a round trip; one whose answer takes longer is not waited for.
const ANSWER_PATIENCE: Duration = Duration::from_secs(2);

/// The primary is asked again so often, and as often it is looked whether the statement is to end. Whoever talks to the primary looks for
/// questions half as often: each look finds one.
const ASK_AGAIN: Duration = Duration::from_millis(10);

/// The source of the log sends something once a second. A source that has been silent for longer would not answer a question
/// either, and a replica that has been behind for longer would not catch up in the time that the session is ready to wait.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Fails on a replica that is further behind than this, for a transaction of this level.
///
/// # Errors
/// `55000` then; that of a statement that was cancelled while the primary was asked.
pub(super) fn check_staleness(
    max: Duration,
    isolation: Isolation,
    store: &Store,
    cancel: &CancelHandle,
) -> Result<(), SqlError> {
    if !store.is_following() {
        return Ok(());
    }
    let begun = Instant::now();
    let heard = heard_since(store, begun);
    let heard = if heard > max && is_on_the_wire(store, begun) {
        aside(|| ask_primary(store, (begun, max), ANSWER_PATIENCE, cancel))?
    } else {
        heard
    };
    let staleness = match isolation {
        Isolation::Serializable => heard.max(store.snapshot_lag().age),
        Isolation::Snapshot | Isolation::ReadCommitted => heard,
    };
    if staleness <= max { Ok(()) } else { Err(too_stale(staleness, max)) }
}

/// Whether a replica has lately had everything that the source of its log had. In a chain of replicas, what the primary said may
/// be older than that: each replica adds up to a second.
fn is_on_the_wire(store: &Store, now: Instant) -> bool {
    store.level_at().is_some_and(|at| now.saturating_duration_since(at) < SILENCE_MAX)
}

/// How old what a replica has may be by its primary's word, for somebody who has asked at this moment.
fn heard_since(store: &Store, asked: Instant) -> Duration {
    match store.current_at() {
        None => Duration::MAX,
        // Whatever was published by then is here.
        Some(at) if at >= asked => Duration::ZERO,
        Some(at) => asked - at,
    }
}

/// Has the primary asked whether it has anything new: without commits it says so once a second, and the session takes less. How old
/// what the replica has may be then, for somebody who has asked at this moment, and waits no longer than the patience.
fn ask_primary(
    store: &Store,
    (asked, max): (Instant, Duration),
    patience: Duration,
    cancel: &CancelHandle,
) -> Result<Duration, SqlError> {
    // What is older than that is not enough.
    let wanted = asked.checked_sub(max).unwrap_or(asked);
    // Each time, as a replica that is asked for it only knows the primary's answer when it is asked again.
    while store.ask_primary() && asked.elapsed() < patience {
        if let Some(reason) = cancel.requested() {
            return Err(reason.error());
        }
        // An answer wakes it. The time is for the next question, for a request to end, and for the patience.
        if store.wait_current(wanted, ASK_AGAIN) {
            break;
        }
    }
    Ok(heard_since(store, asked))
}

fn too_stale(staleness: Duration, max: Duration) -> SqlError {
    let detail = match staleness {
        Duration::MAX => "It has not caught up with its primary since it was started.".to_owned(),
        age => {
            format!("What it has may be {} ms old, and {} ms are allowed.", age.as_millis(), max.as_millis())
        }
    };
    let message = "this replica is further behind than coeval.max_staleness";
    SqlError::new(SqlState::ObjectNotInPrerequisiteState, message)
        .with_detail(detail)
        .with_hint("Ask another replica or the primary, or allow more.")
}

#[cfg(test)]
pub(super) mod tests;
