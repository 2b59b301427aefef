// SPDX-License-Identifier: Apache-2.0
//! Streams of queries at a replica's place, each query in a SERIALIZABLE READ ONLY transaction of its own with the conditions that
//! hold in every snapshot; and a look at how old those snapshots are.

use super::stage::{Stage, has_gone};
use crate::chbench::QUERIES;
use crate::error::BenchError;
use crate::followed::is_without_safe_snapshot;
use crate::options::Readers;
use crate::safe_age::safe_age;
use crate::system::Console;
use crate::tpcc::SNAPSHOT_CONDITIONS;
use crate::wire::{Connection, Ended, Server};
use std::time::Duration;

/// How often it is looked whether there is a replica again, or a safe snapshot.
const PAUSE: Duration = Duration::from_millis(20);

/// How often it is looked how old the safe snapshot is.
const LOOK: Duration = Duration::from_millis(50);

/// Asks until the run is over. A replica that is gone is waited for.
///
/// # Errors
/// If a replica refuses what it must not; the run is over then.
pub(super) fn run(stage: &Stage, slot: usize, stream: usize) -> Result<(), BenchError> {
    // As elsewhere: streams begin at different queries.
    let mut place = (slot + stream) * 7;
    visit(stage, slot, |server| {
        let mut connection = server.connect()?;
        while !stage.is_over() {
            match ask(stage, slot, place % QUERIES.len(), &mut connection) {
                Ok(()) => place += 1,
                Err(error) if is_without_safe_snapshot(&error) => {
                    connection.execute("ROLLBACK")?;
                    std::thread::sleep(PAUSE);
                }
                Err(error) if error.is_conflict() => {
                    connection.execute("ROLLBACK")?;
                    stage.note_refusal();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
}

fn ask(stage: &Stage, slot: usize, query: usize, connection: &mut Connection) -> Result<(), BenchError> {
    connection.execute(Readers::Safe.begin())?;
    let mut violations = 0;
    for condition in SNAPSHOT_CONDITIONS {
        violations += connection.query_number(condition.violations)?.unsigned_abs();
    }
    if connection.query_unless(QUERIES[query], &|| stage.is_over())? == Ended::Cancelled {
        return Ok(());
    }
    connection.execute("COMMIT")?;
    stage.note_query(slot, SNAPSHOT_CONDITIONS.len(), violations);
    Ok(())
}

/// Looks how old the safe snapshot of the replica at this place is until the run is over.
///
/// # Errors
/// As [`run`].
pub(super) fn watch_age(stage: &Stage, slot: usize) -> Result<(), BenchError> {
    visit(stage, slot, |server| {
        let connection = server.connect()?;
        while !stage.is_over() {
            stage.note_age(slot, Some(safe_age(&connection)?));
            std::thread::sleep(LOOK);
        }
        Ok(())
    })
}

/// Goes to the replica that is at this place, and to the next one when that is gone.
fn visit(
    stage: &Stage,
    slot: usize,
    mut stay: impl FnMut(&Server) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    while !stage.is_over() {
        let stayed = stage.replica(slot).map(|server| stay(&server));
        match stayed {
            Some(Ok(())) => return Ok(()),
            Some(Err(error)) if !has_gone(&error) => {
                stage.stop();
                return Err(error);
            }
            // None is there, or it has gone.
            Some(Err(_)) | None => {
                stage.note_age(slot, None);
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}
