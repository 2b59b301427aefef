// SPDX-License-Identifier: Apache-2.0
//! TPC-C's terminals, which look for the next primary when theirs is lost.

use super::stage::{Stage, Writer, has_gone};
use crate::error::BenchError;
use crate::options::Options;
use crate::system::System;
use crate::tpcc::terminal_worker;
use std::time::{Duration, Instant};

/// How often it is looked whether there is a primary again.
pub(super) const PAUSE: Duration = Duration::from_millis(5);

/// Plays the terminals of a thread until the run is over.
///
/// # Errors
/// If a server refuses what it must not, or a primary is gone that was not to be lost. The run is over then.
pub(super) fn run(stage: &Stage, options: &Options, thread: usize) -> Result<(), BenchError> {
    while !stage.is_over() {
        let Some(writer) = stage.writer() else {
            std::thread::sleep(PAUSE);
            continue;
        };
        match work(stage, &writer, options, thread) {
            Err(error) if !(has_gone(&error) && stage.is_lost(writer.at.term)) => {
                stage.stop();
                return Err(error);
            }
            // The transaction that was under way has taken effect or not: nobody was told.
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

fn work(stage: &Stage, writer: &Writer<'_>, options: &Options, thread: usize) -> Result<(), BenchError> {
    let at = &writer.at;
    let mut worker = terminal_worker(System::Server(&at.server), options, thread, at.largest_history_id)?;
    while !stage.is_over() {
        let begun = Instant::now();
        let step = worker.step()?;
        stage.note_step(step, begun.elapsed());
    }
    Ok(())
}
