// SPDX-License-Identifier: Apache-2.0
//! TiQuE's experiments (its sections 4.2 and 4.3), beside the engine by itself.

mod certification;
mod clients;
mod curve;
mod engine;
mod long;
mod points;
mod queries;
mod sweeps;

use crate::error::BenchError;
use crate::foreign::{Foreign, Way};
use crate::machine::measure_sync;
use crate::options::{Options, TiquePart, Workload};
use crate::progress::Progress;
use crate::report::Report;
use crate::system::System;
use engine::Place;

/// Runs the experiment that the options name.
///
/// # Errors
/// If the engine is not there or refuses something.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    let mut report = match options.tique_part {
        TiquePart::Points => points::run(options, progress),
        TiquePart::Certification => certification::run(options, progress),
        TiquePart::Long => long::run(options, progress),
        TiquePart::Tpcc => on_system(options, BACKGROUND, |system, report| {
            sweeps::clients(system, options, progress, report)
        }),
        TiquePart::Contention => on_system(options, BACKGROUND, |system, report| {
            sweeps::contention(system, options, progress, report)
        }),
        TiquePart::Queries => {
            on_system(options, 0, |system, report| queries::run(system, options, progress, report))
        }
        TiquePart::Hybrid => {
            on_system(options, BACKGROUND, |system, report| sweeps::hybrid(system, options, progress, report))
        }
    }?;
    report.note("part", options.tique_part.name());
    report.note("certification", format!("{:?}", options.certification));
    Ok(report)
}

/// Versions in the caches that start a checkpoint in the background.
const BACKGROUND: usize = 100_000;

/// Opens the engine as the options say and gives it to `work`.
fn on_system(
    options: &Options,
    checkpoint_at: usize,
    work: impl FnOnce(System<'_>, &mut Report) -> Result<(), BenchError>,
) -> Result<Report, BenchError> {
    if options.way == Way::Native && options.engine == "postgresql" {
        let message = "PostgreSQL's own transactions are measured with its indexes: coeval bench tpcc --url postgresql://...";
        return Err(BenchError::Options(message.to_owned()));
    }
    let place = Place::new(options)?;
    let sync = measure_sync(place.path())?;
    let foreign = Foreign::new(place.engine()?, options, checkpoint_at, place.path())?;
    let system = System::Foreign(&foreign);
    let mut report = Report::new(Workload::Tique, options, options.warehouses);
    report.name_system(system);
    let cpu = crate::machine::CpuWatch::start();
    work(system, &mut report)?;
    report.environment(cpu.foreign_cores(), sync);
    Ok(report)
}
