// SPDX-License-Identifier: Apache-2.0
//! A client that writes one number behind the other, each in a commit of its own, and remembers which were acknowledged.

use super::stage::{Stage, Writer, has_gone};
use super::terminal::PAUSE;
use crate::error::BenchError;
use crate::system::Console;
use coeval::Value;

/// Where the numbers are.
const CREATE: &str =
    "DROP TABLE IF EXISTS failover_witness; CREATE TABLE failover_witness (number bigint PRIMARY KEY)";

/// Makes the table anew.
///
/// # Errors
/// If the server refuses.
pub(super) fn prepare(console: &mut dyn Console) -> Result<(), BenchError> {
    CREATE.split(';').try_for_each(|statement| console.execute(statement))
}

/// Writes until the run is over.
///
/// # Errors
/// As those of terminals.
pub(super) fn run(stage: &Stage) -> Result<(), BenchError> {
    let mut next = 1;
    while !stage.is_over() {
        let Some(writer) = stage.writer() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        match write(stage, &writer, &mut next) {
            Err(error) if !(has_gone(&error) && stage.is_lost(writer.at.term)) => {
                stage.stop();
                return Err(error);
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn write(stage: &Stage, writer: &Writer<'_>, next: &mut i64) -> Result<(), BenchError> {
    let connection = writer.at.server.connect()?;
    let insert = connection.prepare("INSERT INTO failover_witness VALUES ($1)")?;
    while !stage.is_over() {
        let number = *next;
        *next += 1;
        match connection.run(&insert, &[Value::Int64(number)]) {
            Ok(()) => stage.note_acknowledged(),
            Err(error) => {
                stage.note_unknown(number);
                return Err(error);
            }
        }
        // It is there to see, not to add load.
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// How many numbers are there of those that are not in the list.
///
/// # Errors
/// If the server does not answer.
pub(super) fn known_numbers(console: &mut dyn Console, unknown: &[i64]) -> Result<u64, BenchError> {
    // No number is negative, so that the list is never empty.
    let list: Vec<String> = unknown.iter().chain([&-1]).map(i64::to_string).collect();
    let sql = format!("SELECT count(*) FROM failover_witness WHERE number NOT IN ({})", list.join(", "));
    Ok(console.query_number(&sql)?.unsigned_abs())
}
