// SPDX-License-Identifier: Apache-2.0
//! What the archive costs: terminals on a server that archives its log to a directory all the while, beside the same server
//! without one.

use super::{copy_of, removed, tell_ratio};
use crate::chbench::{Stations, mix_at};
use crate::directories::directory_bytes;
use crate::error::BenchError;
use crate::interval::Estimate;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::served::Served;
use crate::system::System;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The first backup is made when nothing has been added to the archive for so long.
const STILL: Duration = Duration::from_secs(1);

/// It takes no longer than this.
const BACKUP_MAX: Duration = Duration::from_secs(120);

const LOOK: Duration = Duration::from_millis(100);

/// How the server is started, with the name of its figures.
const WAYS: [&str; 2] = ["plain", "archive"];

/// Measures both ways in turn, round by round, on one directory. The first backup is made before.
///
/// # Errors
/// As the workload's run.
pub(super) fn measure(
    base: &Path,
    place: &Path,
    options: &Options,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let program = options.server_program.as_deref().expect("the options were looked at");
    let (directory, archive) = (copy_of(base, place, "archived")?, removed(place, "archive")?);
    let start = |way: usize| start(program, &directory, (way == 1).then_some(&archive));
    progress.begin("the archive's first backup", None);
    let served = start(1)?;
    wait_until_still(&archive)?;
    served.end()?;
    progress.end();
    let options = Options { streams: 0, ..options.clone() };
    let mut found: [Vec<f64>; 2] = Default::default();
    for round in 0..options.runs {
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for way in order {
            progress.begin(&format!("{} primary", WAYS[way]), None);
            let served = start(way)?;
            let server = served.server()?;
            let system = System::Server(&server);
            let mixed = mix_at(
                Stations { terminals: system, streams: system, watch: &|_| Ok(()) },
                &options,
                progress,
            )?;
            found[way]
                .push(mixed.terminals.total().committed as f64 / mixed.measured.as_secs_f64().max(1e-9));
            served.end()?;
            progress.end();
        }
        if progress.is_cancelled() {
            break;
        }
    }
    let [plain, archiving] = &mut found;
    let pairs = archiving.iter().copied().zip(plain.iter().copied());
    tell_ratio("archive_over_plain", Estimate::of(pairs), report);
    report.figure("archive_transactions_per_s", median(archiving));
    report.figure("plain_transactions_per_s", median(plain));
    report.count("archive_bytes", directory_bytes(&archive)?);
    Ok(())
}

fn start(program: &Path, directory: &Path, archive: Option<&PathBuf>) -> Result<Served, BenchError> {
    match archive {
        None => Served::start(program, directory, &[]),
        Some(archive) => {
            let archive = archive.to_string_lossy();
            Served::start(program, directory, &["--archive", &*archive])
        }
    }
}

/// Waits until something is there, and nothing comes any more.
fn wait_until_still(archive: &Path) -> Result<(), BenchError> {
    let (begun, mut changed, mut bytes) = (Instant::now(), Instant::now(), 0);
    loop {
        // A file that is looked at may be renamed meanwhile: that is a change, too.
        let now = directory_bytes(archive).ok();
        if now != Some(bytes) {
            (changed, bytes) = (Instant::now(), now.unwrap_or(0));
        }
        if bytes > 0 && changed.elapsed() >= STILL {
            return Ok(());
        }
        if begun.elapsed() > BACKUP_MAX {
            return Err(BenchError::Answer("the first backup does not end".to_owned()));
        }
        std::thread::sleep(LOOK);
    }
}
