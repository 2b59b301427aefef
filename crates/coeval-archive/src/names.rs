// SPDX-License-Identifier: Apache-2.0
//! The names of objects.
//!
//! ```text
//! coeval-archive                            which database it is of
//! terms/<number, 20 digits>-<id>            a term, and all before it in its history
//! segments/<SHA-256>                        a piece of a file
//! log/<id of the term>/<start>-<end>        a stretch of a term's log; `-files` behind it if it names files
//! backups/<position, 20 digits>-<id>        a backup, in the term with this id; `-<time>` behind it if it has rows of spread
//!                                           tables, of that time
//! unfinished/<time>-<random>                what a backup under way relies on
//! collecting/<time>-<random>                objects are being removed
//! ```
//! Ids are 16 hexadecimal digits, places and times (microseconds since 1970) 20 decimal ones, so names sort as numbers.

use coeval_store::log::Lsn;
use coeval_store::{LogTime, Term};

/// Which database the archive is of.
pub(crate) const ARCHIVE: &str = "coeval-archive";
pub(crate) const TERMS: &str = "terms";
pub(crate) const SEGMENTS: &str = "segments";
pub(crate) const LOG: &str = "log";
pub(crate) const BACKUPS: &str = "backups";
pub(crate) const UNFINISHED: &str = "unfinished";
pub(crate) const COLLECTING: &str = "collecting";

const FILES_SUFFIX: &str = "-files";

pub(crate) fn term(term: Term) -> String {
    format!("{TERMS}/{:020}-{:016x}", term.number, term.id)
}

/// The number and the id.
pub(crate) fn parse_term(name: &str) -> Option<(u64, u64)> {
    number_and_id(name.strip_prefix(TERMS)?.strip_prefix('/')?)
}

pub(crate) fn piece(sha256: &str) -> String {
    format!("{SEGMENTS}/{sha256}")
}

/// The folder of a term's log.
pub(crate) fn log_of(term: u64) -> String {
    format!("{LOG}/{term:016x}")
}

/// A stretch of a term's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChunkName {
    pub(crate) term: u64,
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
    /// Whether it names files.
    pub(crate) has_files: bool,
}

impl ChunkName {
    pub(crate) fn name(&self) -> String {
        let suffix = if self.has_files { FILES_SUFFIX } else { "" };
        format!("{}/{:020}-{:020}{suffix}", log_of(self.term), self.start.get(), self.end.get())
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (term, rest) = name.strip_prefix(LOG)?.strip_prefix('/')?.split_once('/')?;
        let (rest, has_files) = match rest.strip_suffix(FILES_SUFFIX) {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let (start, end) = rest.split_once('-')?;
        let (start, end) = (Lsn::new(number(start)?), Lsn::new(number(end)?));
        (start < end).then_some(Self { term: id(term)?, start, end, has_files })
    }
}

/// A backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct BackupName {
    pub(crate) position: Lsn,
    pub(crate) term: u64,
    /// When it has rows of tables that are spread over a cluster, since when. They change while the log stands still, so that of several
    /// backups at one place each is another one.
    pub(crate) spread: Option<LogTime>,
}

impl BackupName {
    pub(crate) fn name(&self) -> String {
        let name = format!("{BACKUPS}/{:020}-{:016x}", self.position.get(), self.term);
        match self.spread {
            Some(taken) => format!("{name}-{:020}", taken.micros()),
            None => name,
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        let rest = name.strip_prefix(BACKUPS)?.strip_prefix('/')?;
        let (place, spread) = match rest.rsplit_once('-') {
            Some((place, taken)) if place.contains('-') => {
                (place, Some(LogTime::from_micros(number(taken)?)))
            }
            _ => (rest, None),
        };
        let (position, term) = number_and_id(place)?;
        Some(Self { position: Lsn::new(position), term, spread })
    }
}

/// A mark in one of the folders of marks.
pub(crate) fn mark(folder: &str, time: LogTime, random: u64) -> String {
    format!("{folder}/{:020}-{random:016x}", time.micros())
}

/// When a mark was made.
pub(crate) fn time_of_mark(name: &str) -> Option<LogTime> {
    let (micros, _) = number_and_id(name.split_once('/')?.1)?;
    Some(LogTime::from_micros(micros))
}

fn number_and_id(text: &str) -> Option<(u64, u64)> {
    let (digits, hexadecimal) = text.split_once('-')?;
    Some((number(digits)?, id(hexadecimal)?))
}

fn number(digits: &str) -> Option<u64> {
    let well_formed = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    well_formed.then(|| digits.parse().ok()).flatten()
}

fn id(digits: &str) -> Option<u64> {
    let well_formed =
        digits.len() == 16 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    well_formed.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for has_files in [false, true] {
            let chunk = ChunkName { term: 0xab, start: Lsn::new(7), end: Lsn::new(90), has_files };
            assert_eq!(ChunkName::parse(&chunk.name()), Some(chunk));
        }
        let backup = BackupName { position: Lsn::new(7), term: u64::MAX, spread: None };
        assert_eq!(backup.name(), "backups/00000000000000000007-ffffffffffffffff");
        assert_eq!(BackupName::parse(&backup.name()), Some(backup));
        let with_rows = BackupName { spread: Some(LogTime::from_micros(12)), ..backup };
        assert_eq!(with_rows.name(), "backups/00000000000000000007-ffffffffffffffff-00000000000000000012");
        assert_eq!(BackupName::parse(&with_rows.name()), Some(with_rows));
        assert!(backup < with_rows && backup.name() < with_rows.name(), "listings are in the order of names");
        let made = Term { number: 3, id: 4, start: Lsn::new(5) };
        assert_eq!(parse_term(&term(made)), Some((3, 4)));
        let marked = mark(UNFINISHED, LogTime::from_micros(12), 5);
        assert_eq!(time_of_mark(&marked), Some(LogTime::from_micros(12)));
        for other in [
            "",
            "log/x/1-2",
            "backups/1-2",
            "backups/00000000000000000007-ffffffffffffffff-12",
            "log/00000000000000ab/00000000000000000009-00000000000000000009",
        ] {
            assert_eq!(ChunkName::parse(other), None);
            assert_eq!(BackupName::parse(other), None);
        }
    }
}
