// SPDX-License-Identifier: Apache-2.0
//! Where primaries and replicas are in the log, asked over the wire, and waiting until a replica is as far.

use crate::error::BenchError;
use crate::options::Readers;
use crate::system::Console;
use crate::wire::{Connection, Server};
use coeval::Lsn;
use std::time::{Duration, Instant};
use tokio_postgres::error::SqlState;

/// The longest time that a replica may take for what it has not got yet.
const PATIENCE: Duration = Duration::from_secs(120);

/// How often it is looked whether it has; each look takes a part of a millisecond of the same processors.
const LOOK: Duration = Duration::from_millis(5);

/// The durable end of a primary's log.
///
/// # Errors
/// If it does not answer.
pub(crate) fn log_end(primary: &Server) -> Result<Lsn, BenchError> {
    place_of(&primary.connect()?, "SELECT pg_current_wal_flush_lsn()::text")
}

/// Up to where a replica has the log.
///
/// # Errors
/// If it does not answer.
pub(crate) fn received(replica: &Server) -> Result<Lsn, BenchError> {
    place_of(&replica.connect()?, "SELECT pg_last_wal_receive_lsn()::text")
}

/// Waits until a replica shows the log up to there.
///
/// # Errors
/// If it does not come so far, or does not answer.
pub(crate) fn wait_until_shown(replica: &Server, wanted: Lsn) -> Result<(), BenchError> {
    let connection = replica.connect()?;
    until(&format!("the replica does not come to {wanted}"), || {
        Ok(place_of(&connection, "SELECT pg_last_wal_replay_lsn()::text")? >= wanted)
    })
}

/// Waits until a replica's safe snapshot lacks nothing of what has arrived. Nobody commits meanwhile.
///
/// # Errors
/// As [`wait_until_shown`].
pub(crate) fn wait_until_safe_has_all(replica: &Server) -> Result<(), BenchError> {
    let connection = replica.connect()?;
    until("the replica's safe snapshot stays behind", || {
        Ok(connection.query_text("SHOW coeval.snapshot_lag")?.starts_with("0 commits"))
    })
}

/// Waits until a replica has a safe snapshot.
///
/// # Errors
/// As [`wait_until_shown`].
pub(crate) fn wait_until_safe(replica: &Server) -> Result<(), BenchError> {
    let mut connection = replica.connect()?;
    until("the replica has no safe snapshot", || has_safe_snapshot(&mut connection))
}

/// Whether a replica has a safe snapshot.
///
/// # Errors
/// If it does not answer.
pub(crate) fn has_safe_snapshot(connection: &mut Connection) -> Result<bool, BenchError> {
    let begun = connection.execute(Readers::Safe.begin());
    let found = begun.and_then(|()| connection.query_number("SELECT count(*) FROM region"));
    connection.execute("ROLLBACK")?;
    match found {
        Ok(_) => Ok(true),
        Err(error) if is_without_safe_snapshot(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a replica has refused something because it knows of no safe snapshot.
pub(crate) fn is_without_safe_snapshot(error: &BenchError) -> bool {
    matches!(error, BenchError::Server(error) if error.code() == Some(&SqlState::CANNOT_CONNECT_NOW))
}

/// Looks until it is so.
///
/// # Errors
/// Those of a look, and `what` is so if it takes too long.
pub(crate) fn until(
    what: &str,
    mut is_so: impl FnMut() -> Result<bool, BenchError>,
) -> Result<(), BenchError> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            return Err(BenchError::Answer(what.to_owned()));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// A place in the log that a server tells.
fn place_of(connection: &Connection, sql: &str) -> Result<Lsn, BenchError> {
    let text = connection.query_text(sql)?;
    Lsn::from_wal_text(&text).ok_or_else(|| BenchError::Answer(format!("{text} is no place in a log")))
}
