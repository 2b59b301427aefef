// SPDX-License-Identifier: Apache-2.0
//! `coeval backup`, `coeval restore`, and the check of an archive.

mod running;

use crate::arguments::{BackupArguments, RestoreArguments};
use crate::directory::{self, Contents, look};
use crate::failure::Failure;
use crate::readable::grouped;
use chrono::{DateTime, NaiveDateTime};
use coeval::{Database, Error, Follower, LogTime, Lsn, SnapshotToken, Store, StoreError, Version};
use coeval_archive::{
    Archive, ArchiveError, CheckReport, Keep, RestoreReport, SpreadRows, Target, backup_with,
    check as check_archive, collect as remove_others, restore as bring_back, spread_tables,
};
use std::io::{self, Write, stdout};
use std::path::Path;
use std::time::Instant;

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Work(error.to_string())
}

/// Backs a database up, by the server that has it open if there is one, and removes what is not to be kept of the archive.
///
/// # Errors
/// If there is no database, a process has it open that makes no backup, or the archive does not take it. If what is not to be kept
/// cannot be removed: the backup is there.
pub(crate) fn backup(arguments: &BackupArguments) -> Result<(), Failure> {
    let dir = &arguments.dir;
    if look(dir)? != Contents::Database {
        return Err(directory::no_database(dir));
    }
    // The same for the server, which works in another directory.
    let place = absolute(&arguments.archive)?;
    let said = match open_any(dir)? {
        Ok(opened) => back_up_here(&opened.database, &place, rows_of(arguments))?,
        Err(error) => match directory::holder(&error) {
            Some(holder) => running::back_up(arguments, &place, holder)?,
            None => return Err(Failure::work(format_args!("cannot open {}", dir.display()), error)),
        },
    };
    let printed = writeln!(stdout(), "{said}").map_err(Failure::from);
    // Whether or not somebody has read it.
    arguments.keep.keep().map_or(printed, |keep| collect(&place, keep))
}

/// A database that nobody else has open, or a replica of one.
struct Opened {
    /// Follows nobody: it is there so that the directory can be opened.
    _follower: Option<Follower>,
    database: Database,
}

/// Opens what is in a directory, as what it is.
fn open_any(dir: &Path) -> Result<Result<Opened, Error>, Failure> {
    Ok(match directory::try_open(dir, directory::options())? {
        Ok(database) => Ok(Opened { _follower: None, database }),
        Err(Error::Store(StoreError::FollowsAnother { .. })) => {
            let opened = directory::options().open_replica(dir);
            opened.map(|(database, follower)| Opened { _follower: Some(follower), database })
        }
        Err(error) => Err(error),
    })
}

/// The place of an archive, wherever it is looked for from.
fn absolute(place: &str) -> Result<String, Failure> {
    if place.contains("://") {
        return Ok(place.to_owned());
    }
    let failed = |error: &dyn std::fmt::Display| Failure::Usage(format!("\"{place}\" is no place: {error}"));
    let whole = std::path::absolute(Path::new(place)).map_err(|error| failed(&error))?;
    whole.into_os_string().into_string().map_err(|_| failed(&"the path to it is no text"))
}

/// Of a database that is not served, which is no node of a cluster then.
fn rows_of(arguments: &BackupArguments) -> SpreadRows<'static> {
    if arguments.row_tables_alone { SpreadRows::LeftOut } else { SpreadRows::Elsewhere }
}

fn back_up_here(database: &Database, place: &str, rows: SpreadRows<'_>) -> Result<String, Failure> {
    let archive = Archive::create(place).map_err(failed)?;
    send(database.engine().store(), &archive, rows).map_err(failed)
}

/// Sends a backup of an open database; says what it was.
///
/// # Errors
/// If the archive does not take it; what was sent stays for the next one.
pub(crate) fn send(store: &Store, archive: &Archive, rows: SpreadRows<'_>) -> Result<String, ArchiveError> {
    let begun = Instant::now();
    let report = backup_with(store, archive, rows, &mut |_| {})?;
    let tables = spread_tables(store);
    let spread = match rows {
        SpreadRows::LeftOut if !tables.is_empty() => {
            format!("; without the rows of spread tables: {}", tables.join(", "))
        }
        _ if report.spread_tables > 0 => {
            let (rows, tables) = (grouped(report.spread_rows), report.spread_tables);
            format!("; {rows} rows of spread tables, of which there are {tables}")
        }
        _ => String::new(),
    };
    Ok(format!(
        "{} files of {} bytes, {} bytes sent, in {:.1} s; up to {} ({}){spread}",
        report.files,
        grouped(report.bytes),
        grouped(report.bytes_sent),
        begun.elapsed().as_secs_f64(),
        report.log_end,
        report.time,
    ))
}

/// Removes what is not to be kept, and says so.
fn collect(place: &str, keep: Keep) -> Result<(), Failure> {
    let failed = |error: ArchiveError| {
        Failure::Work(format!("the backup is there, and what is not to be kept is not removed: {error}"))
    };
    let report = Archive::open(place).and_then(|archive| remove_others(&archive, keep)).map_err(failed)?;
    writeln!(
        stdout(),
        "{} backups kept; removed: {} backups, {} stretches of log, {} pieces of files of {} bytes",
        report.backups_kept,
        report.backups_removed,
        report.chunks_removed,
        report.pieces_removed,
        grouped(report.bytes_removed)
    )?;
    Ok(())
}

/// Makes a database of what an archive has.
///
/// # Errors
/// If the archive does not have the moment, something of it is damaged, or the directory is not empty.
pub(crate) fn restore(arguments: &RestoreArguments) -> Result<(), Failure> {
    let token = arguments.to_token.as_deref().map(SnapshotToken::parse).transpose();
    let token = token.map_err(|error| Failure::Usage(error.to_string()))?;
    let target = match token {
        Some(token) => Target::Snapshot { version: token.version(), end: token.end() },
        None => target(arguments)?,
    };
    let history = arguments.history.as_deref().map(|text| {
        u64::from_str_radix(text, 16).map_err(|_| Failure::Usage(format!("\"{text}\" is no id of a term")))
    });
    let history = history.transpose()?;
    let archive = Archive::open(&arguments.archive).map_err(failed)?;
    let begun = Instant::now();
    let report = bring_back(&archive, &arguments.dir, target, token.map(|token| token.term()).or(history))
        .map_err(failed)?;
    let mut out = stdout().lock();
    writeln!(
        out,
        "Restored {} bytes in {:.1} s: version {}, {} ({})",
        grouped(report.bytes),
        begun.elapsed().as_secs_f64(),
        report.version,
        report.end,
        report.time,
    )?;
    writeln!(
        out,
        "It is of the history that ends with {}, and goes on in timeline {}",
        report.history, report.timeline
    )?;
    if let Some(required) = &report.synchronous_replicas {
        writeln!(
            out,
            "Its commits wait for replicas, as those of the archived database did: {}. Without them none is acknowledged; a superuser's \
             SET synchronous_standby_names = '' has it wait for nobody",
            required.names.join(", ")
        )?;
    }
    if let Some(gap) = &report.gap {
        writeln!(out, "The archive has more of this history behind a gap: {gap}")?;
    }
    say_of_spread(&mut out, &report)?;
    let node = if report.spread.is_some() { " --cluster HOST:PORT" } else { "" };
    writeln!(out, "coeval serve {}{node}", arguments.dir.display())?;
    Ok(())
}

/// What a restore has of the rows of spread tables, which have a moment of their own.
fn say_of_spread(out: &mut impl Write, report: &RestoreReport) -> io::Result<()> {
    if let Some(spread) = &report.spread {
        let tables = spread.tables.iter().map(|(name, rows)| format!("{name} ({})", grouped(*rows)));
        writeln!(
            out,
            "Rows of spread tables are as of {} (epoch {}, version {}), when a backup took them, and not of {}: {}. They wait in the \
             directory until it is served with --cluster, which loads them",
            spread.taken,
            spread.epoch,
            spread.version,
            report.time,
            tables.collect::<Vec<_>>().join(", ")
        )?;
    }
    if !report.left_out.is_empty() {
        let what = if report.spread.is_some() { "older ones are there" } else { "there are none" };
        writeln!(
            out,
            "The backup that this began with was made without the rows of spread tables ({}): {what}",
            report.left_out.join(", ")
        )?;
    }
    Ok(())
}

/// Checks an archive, and says what it has.
///
/// # Errors
/// If there is none, or something of it is missing or damaged: an object, or log that an archiver was to send. That there is no log
/// between backups which were made by themselves is no error, nor that an older program has not said whether they were.
pub(crate) fn check(place: &str) -> Result<(), Failure> {
    let archive = Archive::open(place).map_err(failed)?;
    let report = check_archive(&archive).map_err(failed)?;
    let printed = print(&report).map_err(Failure::from);
    // Whether or not somebody has read it.
    if report.is_whole() { printed } else { Err(Failure::Said) }
}

fn print(report: &CheckReport) -> io::Result<()> {
    let mut out = stdout().lock();
    for (position, time) in &report.backups {
        writeln!(out, "backup at {position} ({time})")?;
    }
    for spread in &report.spread {
        writeln!(
            out,
            "with backup at {}: {} rows of {} spread tables, as of {}",
            spread.backup,
            grouped(spread.rows),
            spread.tables,
            spread.taken
        )?;
    }
    for (position, tables) in &report.left_out {
        writeln!(out, "backup at {position} is without the rows of spread tables: {tables}")?;
    }
    for history in &report.histories {
        writeln!(out, "{history}")?;
    }
    writeln!(
        out,
        "{} backups, {} stretches of log, {} pieces of files, {} bytes read",
        report.backups.len(),
        report.chunks,
        report.pieces,
        grouped(report.bytes)
    )?;
    for gap in &report.gaps_between_backups {
        writeln!(out, "between two backups: {gap}")?;
    }
    for gap in &report.gaps_of_unknown_kind {
        writeln!(
            out,
            "between two backups, of which an older program did not say whether anybody was to send that log: {gap}"
        )?;
    }
    for gap in report.lost_gaps() {
        writeln!(out, "gap: {gap}")?;
    }
    for problem in &report.problems {
        writeln!(out, "problem: {problem}")?;
    }
    Ok(())
}

fn target(arguments: &RestoreArguments) -> Result<Target, Failure> {
    let wrong = |text: &str, wanted: &str| Failure::Usage(format!("\"{text}\" is no {wanted}"));
    if let Some(text) = &arguments.to {
        let micros = moment(text)
            .ok_or_else(|| wrong(text, "moment, as 2026-11-23 10:00 or 2026-11-23T10:00:00+01:00"))?;
        return Ok(Target::Time(LogTime::from_micros(micros)));
    }
    if let Some(text) = &arguments.to_lsn {
        let place = Lsn::from_wal_text(text).ok_or_else(|| wrong(text, "place in a log, as 0/1A2B3C"))?;
        return Ok(Target::Lsn(place));
    }
    Ok(arguments.to_version.map_or(Target::Latest, |version| Target::Version(Version::new(version))))
}

/// Microseconds since 1970.
fn moment(text: &str) -> Option<u64> {
    let text = text.trim();
    let with_offset = ["%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z"];
    let plain = [
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M",
    ];
    let text = text.strip_suffix(" UTC").unwrap_or(text);
    let given = with_offset.iter().find_map(|form| DateTime::parse_from_str(text, form).ok());
    let micros = match given {
        Some(moment) => moment.timestamp_micros(),
        None => {
            let moment = plain.iter().find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())?;
            moment.and_utc().timestamp_micros()
        }
    };
    u64::try_from(micros).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_utc_unless_they_say_otherwise() {
        let ten = 1_795_428_000_000_000;
        for text in [
            "2026-11-23 10:00",
            "2026-11-23T10:00:00",
            "2026-11-23 10:00:00.000000 UTC",
            "2026-11-23 11:00:00+01:00",
            "2026-11-23T10:00:00Z",
        ] {
            assert_eq!(moment(text), Some(ten), "{text}");
        }
        assert_eq!(moment("2026-11-23 10:00:00.25"), Some(ten + 250_000));
        assert_eq!(moment("yesterday"), None);
        assert_eq!(moment("1969-12-31 23:59"), None);
    }
}
