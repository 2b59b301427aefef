// SPDX-License-Identifier: Apache-2.0
//! `coeval check`: verifies a closed database, mends it if asked to, and says what it looked at and what it found.

use crate::arguments::CheckArguments;
use crate::directory::{Contents, look, no_database};
use crate::failure::Failure;
use crate::readable::grouped;
use coeval::{Database, RepairReport, VerifyReport};
use std::io::{Write, stdout};
use std::path::Path;

/// Checks the directory, mended before if that is asked for, and prints the report.
///
/// # Errors
/// If there is no database, it is in use, or something in it is not as it must be; and if something is lost by mending it,
/// whatever the check finds then.
pub(crate) fn run(arguments: &CheckArguments) -> Result<(), Failure> {
    if let Some(archive) = &arguments.archive {
        return crate::archive::check(archive);
    }
    if let Some((replica, primary)) = arguments.replica.as_ref().zip(arguments.against.as_ref()) {
        return crate::compare::run(replica, primary);
    }
    let dir = arguments.dir.as_ref().expect("a directory, an archive or a replica is given");
    if matches!(look(dir)?, Contents::Nothing | Contents::Foreign) {
        return Err(no_database(dir));
    }
    if !arguments.repair {
        return check(dir);
    }
    let report = Database::repair(dir)
        .map_err(|error| Failure::work(format_args!("cannot repair {}", dir.display()), error))?;
    match print_repair(&report).and_then(|()| check(dir)) {
        Ok(()) | Err(Failure::Said | Failure::NobodyReads) if !report.lost.is_empty() => Err(Failure::Lost),
        outcome => outcome,
    }
}

fn check(dir: &Path) -> Result<(), Failure> {
    let report = Database::check(dir)
        .map_err(|error| Failure::work(format_args!("cannot check {}", dir.display()), error))?;
    let printed = print(&report);
    // Whether or not somebody has read it.
    if report.is_clean() { printed } else { Err(Failure::Said) }
}

/// Says what was mended and what was lost.
fn print_repair(report: &RepairReport) -> Result<(), Failure> {
    let mut out = stdout().lock();
    for what in &report.rebuilt {
        writeln!(out, "made anew: {what}")?;
    }
    for what in &report.lost {
        writeln!(out, "lost: {what}")?;
    }
    for file in &report.kept {
        writeln!(out, "kept: {file}")?;
    }
    if !report.lost.is_empty() {
        writeln!(
            out,
            "history: what is left is a database of its own, which no replica of the former one follows, and no archive of that takes. A \
             replica that has all can be promoted in its place"
        )?;
    }
    if report.is_empty() {
        writeln!(out, "nothing to repair")?;
    }
    Ok(())
}

fn print(report: &VerifyReport) -> Result<(), Failure> {
    let mut out = stdout().lock();
    let figures = [
        ("tables", report.tables),
        ("rows", report.rows),
        ("index entries", report.index_entries),
        ("segment files", report.segments),
        ("chunks", report.chunks),
        ("chunk bytes", report.chunk_bytes),
        ("log records", report.log_records),
        ("torn tail bytes", report.torn_tail_bytes),
    ];
    for (name, figure) in figures {
        writeln!(out, "{name:<16}{:>16}", grouped(figure))?;
    }
    for warning in &report.warnings {
        writeln!(out, "warning: {warning}")?;
    }
    for problem in &report.problems {
        writeln!(out, "problem: {problem}")?;
    }
    match report.problem_count {
        0 => writeln!(
            out,
            "clean: checksums, statistics, keys, trees, indexes and constraints are as they must be"
        )?,
        count => writeln!(out, "{count} problems")?,
    }
    Ok(())
}
