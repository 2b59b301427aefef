// SPDX-License-Identifier: Apache-2.0
//! Reading a log: the walk over segments and records that both [`Log::open`](crate::log::Log::open) and
//! [`verify`] take. It changes nothing.

use std::convert::Infallible;
use std::path::{Path, PathBuf};

use crate::files::{FileError, FileSystem};
use crate::log::end_note::EndNote;
use crate::log::format::{
    FORMAT_VERSION, RECORD_HEADER_BYTES, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    decode_record_header, decode_segment_header, encode_segment_header, parse_segment_name, segment_path,
};
use crate::log::recovery::{Attested, Checkpoint, Decision, Rest, Stop, Successor, decide};
use crate::log::{Damage, LogError, Lsn, OpenError};

/// Whether checksums are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumPolicy {
    /// Always, outside tests.
    Verified,
    /// Never. For tests that must be seen to fail without checksums.
    IgnoredOnPurpose,
}

/// Takes the records of a log in order, each with the LSN behind it.
pub type Replay<'a, E> = dyn FnMut(Lsn, &[u8]) -> Result<(), E> + 'a;

/// What stands behind the last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// Nothing, or zeros.
    Clean,
    /// The remains of appends that were not durable when the process ended. The next open cuts them off.
    Torn {
        /// Their size, up to the end of the file.
        bytes: u64,
    },
}

/// What a walk over a log found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSummary {
    /// Segments read.
    pub segments: u64,
    /// Valid records behind the checkpoint's LSN.
    pub records: u64,
    /// The sum of their payloads.
    pub payload_bytes: u64,
    /// The LSN behind the last record.
    pub end: Lsn,
    /// What stands behind it.
    pub tail: Tail,
}

/// Checks the log in `dir` from `from` (the checkpoint's LSN) to its end, without changing anything: every
/// header and every payload behind `from`.
///
/// The log must not be open. A torn tail is no error: it is what a crash leaves.
///
/// # Errors
/// The first damage, with file and offset, or an error of the file layer.
///
/// Cost: reads every byte of the segments concerned once.
pub fn verify(files: &dyn FileSystem, dir: &Path, from: Lsn) -> Result<LogSummary, LogError> {
    let mut ignore = |_: Lsn, _: &[u8]| Ok::<(), Infallible>(());
    match read(files, dir, from, &mut ignore) {
        Ok(summary) => Ok(summary),
        Err(OpenError::Log(error)) => Err(error),
        Err(OpenError::Replay { source, .. }) => match source {},
    }
}

/// Gives every record behind `from` to `replay`, as [`Log::open`](crate::log::Log::open) does, without changing
/// anything. Returns what was found up to the end of the log.
///
/// # Errors
/// The first damage, an error of `replay`, or an error of the file layer.
pub(crate) fn read<E>(
    files: &dyn FileSystem,
    dir: &Path,
    from: Lsn,
    replay: &mut Replay<'_, E>,
) -> Result<LogSummary, OpenError<E>> {
    let found = Found::look(files, dir, from, ChecksumPolicy::Verified)?;
    if found.segments.is_empty() && from == Lsn::START {
        return Ok(LogSummary { segments: 0, records: 0, payload_bytes: 0, end: from, tail: Tail::Clean });
    }
    Ok(walk(files, dir, &found, from, ChecksumPolicy::Verified, replay)?.summary)
}

/// What a log consists of before it is read.
pub(crate) struct Found {
    /// The first LSNs of its segments, ascending: of those that are there, and of one that has to be.
    pub(crate) segments: Vec<Lsn>,
    /// Up to where it was durable when it was closed, if that is noted.
    pub(crate) noted: Option<EndNote>,
}

impl Found {
    /// Looks what is there. A note of an end before `from`, the checkpoint's LSN, says nothing that is not known: what it
    /// names may be removed since.
    ///
    /// # Errors
    /// A damaged note, or an error of the file layer.
    pub(crate) fn look(
        files: &dyn FileSystem,
        dir: &Path,
        from: Lsn,
        checksums: ChecksumPolicy,
    ) -> Result<Found, LogError> {
        let mut segments = list_segments(files, dir)?;
        let noted = EndNote::read(files, dir, checksums)?;
        if let Some(note) = noted.filter(|note| note.end > from)
            && let Err(place) = segments.binary_search(&note.segment)
        {
            segments.insert(place, note.segment);
        }
        Ok(Found { segments, noted })
    }
}

/// The first LSNs of the segments in `dir`, ascending. Other files are left alone.
pub(crate) fn list_segments(files: &dyn FileSystem, dir: &Path) -> Result<Vec<Lsn>, LogError> {
    let names = files.list(dir)?;
    let mut segments: Vec<Lsn> = names.iter().filter_map(|name| parse_segment_name(name)).collect();
    segments.sort();
    Ok(segments)
}

/// Whether a directory has a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFiles {
    /// No segment.
    None,
    /// The first segment of all, without a record.
    Blank,
    /// Others.
    Some,
}

/// How closely to look whether a log is blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookAt {
    /// One that may be blank counts as one with records.
    Names,
    /// The first segment is read.
    Contents,
}

/// Whether there are segments in `dir`, which need not be there itself, and the name of the first.
pub(crate) fn find_segments(
    files: &dyn FileSystem,
    dir: &Path,
    look: LookAt,
) -> Result<(LogFiles, Option<String>), FileError> {
    let names = if files.exists(dir)? { files.list(dir)? } else { Vec::new() };
    let mut segments = names.into_iter().filter(|name| parse_segment_name(name).is_some());
    let Some(first) = segments.next() else { return Ok((LogFiles::None, None)) };
    let may_be_blank = segments.next().is_none() && parse_segment_name(&first) == Some(Lsn::START);
    if !may_be_blank || look == LookAt::Names {
        return Ok((LogFiles::Some, Some(first)));
    }
    let file = files.read(&dir.join(&first))?;
    let is_blank = file.strip_prefix(encode_segment_header(Lsn::START).as_slice());
    let is_blank = is_blank.is_some_and(|records| records.iter().all(|byte| *byte == 0));
    Ok((if is_blank { LogFiles::Blank } else { LogFiles::Some }, Some(first)))
}

/// The file of the record that begins at this position, and the offset in it.
///
/// # Errors
/// Those of the file layer; [`LogError::MissingSegment`] if the log does not have the position.
pub(crate) fn place_in_log(
    files: &dyn FileSystem,
    dir: &Path,
    position: Lsn,
) -> Result<(PathBuf, u64), LogError> {
    let segments = list_segments(files, dir)?;
    let first = segments.iter().rfind(|first| **first <= position);
    let first = first.ok_or_else(|| LogError::MissingSegment { path: segment_path(dir, position) })?;
    Ok((segment_path(dir, *first), offset_in_segment(*first, position)))
}

/// The end of a walk: what was found, and what the appender needs to go on.
pub(crate) struct Walked {
    pub(crate) summary: LogSummary,
    /// Where the last segment starts.
    pub(crate) last_segment: Lsn,
    /// The whole contents of the last segment's file.
    pub(crate) last_file: Vec<u8>,
    /// The highest LSN that the log itself proves to have been durable.
    pub(crate) attested: Lsn,
    /// Where the last record behind the checkpoint begins; the end of the log if there is none.
    pub(crate) last_record: Lsn,
}

/// The offset in its segment's file of the byte at `position`.
pub(crate) fn offset_in_segment(first: Lsn, position: Lsn) -> u64 {
    SEGMENT_HEADER_BYTES as u64 + position.distance_from(first)
}

/// Walks from the segment that holds `from` to the end of the log and gives every record behind `from` to
/// `replay`, with the LSN behind it. Records before `from` are walked over by their headers.
pub(crate) fn walk<E>(
    files: &dyn FileSystem,
    dir: &Path,
    found: &Found,
    from: Lsn,
    checksums: ChecksumPolicy,
    replay: &mut Replay<'_, E>,
) -> Result<Walked, OpenError<E>> {
    let Found { segments, noted } = found;
    let missing = || LogError::MissingSegment { path: segment_path(dir, from) };
    let start = segments.partition_point(|first| *first <= from).checked_sub(1).ok_or_else(missing)?;
    let mut summary = LogSummary { segments: 0, records: 0, payload_bytes: 0, end: from, tail: Tail::Clean };
    let mut last_record = None;
    for (index, first) in segments.iter().enumerate().skip(start) {
        let path = segment_path(dir, *first);
        let file = files.read(&path).map_err(|error| match error.is_not_found() {
            true => LogError::MissingSegment { path: path.clone() },
            false => LogError::File(error),
        })?;
        let successor = segments.get(index + 1).copied();
        let mut reader = SegmentReader::new(path, &file, *first, successor, checksums)?;
        reader.replay(from, &mut summary, replay)?;
        last_record = reader.last_record.or(last_record);
        summary.segments += 1;
        let beyond = noted.map(|note| note.end).filter(|end| *end > reader.position);
        match decide(reader.stop(from, beyond)) {
            Decision::Continue => {}
            Decision::End | Decision::TornTail => {
                summary.end = reader.position;
                summary.tail = reader.tail();
                let attested = reader.attested.max(from);
                let last_record = last_record.unwrap_or(reader.position);
                return Ok(Walked { summary, last_segment: *first, last_file: file, attested, last_record });
            }
            Decision::Damaged => {
                let cut_off = beyond.filter(|_| successor.is_none() && reader.tail() == Tail::Clean);
                return Err(reader.damaged(cut_off.map_or(Damage::Record, Damage::EndsBeforeNoted)).into());
            }
            Decision::EndsTooEarly => {
                return Err(reader.damaged(Damage::EndsBeforeCheckpoint(from)).into());
            }
            Decision::MissingSegment => {
                return Err(LogError::MissingSegment { path: segment_path(dir, reader.position) }.into());
            }
        }
    }
    unreachable!("the last segment has no successor, and without one no decision is to continue")
}

/// A place in one segment's file that moves from record to record.
struct SegmentReader<'a> {
    path: PathBuf,
    file: &'a [u8],
    first: Lsn,
    successor: Option<Lsn>,
    checksums: ChecksumPolicy,
    position: Lsn,
    attested: Lsn,
    /// Where the last record that was replayed begins.
    last_record: Option<Lsn>,
}

impl<'a> SegmentReader<'a> {
    fn new(
        path: PathBuf,
        file: &'a [u8],
        first: Lsn,
        successor: Option<Lsn>,
        checksums: ChecksumPolicy,
    ) -> Result<SegmentReader<'a>, LogError> {
        match decode_segment_header(file, checksums) {
            SegmentHeader::Valid(lsn) if lsn == first => {
                // All before a segment was durable before the segment got its name.
                Ok(SegmentReader {
                    path,
                    file,
                    first,
                    successor,
                    checksums,
                    position: first,
                    attested: first,
                    last_record: None,
                })
            }
            SegmentHeader::Valid(_) | SegmentHeader::Invalid => {
                Err(LogError::Damaged { path, offset: 0, damage: Damage::SegmentHeader })
            }
            SegmentHeader::OtherVersion(found) => {
                Err(LogError::UnsupportedVersion { path, found, supported: FORMAT_VERSION })
            }
        }
    }

    /// Moves behind the last valid record that follows on from the start, replaying those behind `from`.
    fn replay<E>(
        &mut self,
        from: Lsn,
        summary: &mut LogSummary,
        replay: &mut Replay<'_, E>,
    ) -> Result<(), OpenError<E>> {
        while self.successor != Some(self.position) {
            let Some((header, payload)) = self.record_here() else { break };
            let end = self.position.plus(header.record_bytes());
            if self.successor.is_some_and(|successor| successor < end) {
                break;
            }
            if end > from {
                if self.position < from {
                    return Err(self.damaged(Damage::CheckpointInsideRecord(from)).into());
                }
                if !header.fits(payload, self.checksums) {
                    break;
                }
                replay(end, payload).map_err(|source| {
                    let offset = offset_in_segment(self.first, self.position);
                    OpenError::Replay { path: self.path.clone(), offset, source }
                })?;
                summary.records += 1;
                summary.payload_bytes += payload.len() as u64;
                self.last_record = Some(self.position);
            }
            self.attested = self.attested.max(header.synced);
            self.position = end;
        }
        Ok(())
    }

    /// The bytes from `position` on; empty behind the end of the file.
    fn bytes_from(&self, position: Lsn) -> &'a [u8] {
        usize::try_from(offset_in_segment(self.first, position))
            .ok()
            .and_then(|offset| self.file.get(offset..))
            .unwrap_or_default()
    }

    /// The record at the present position, its payload not yet checked.
    fn record_here(&self) -> Option<(RecordHeader, &'a [u8])> {
        let bytes = self.bytes_from(self.position);
        let header = decode_record_header(bytes, self.position, self.checksums)?;
        let payload = bytes.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.length)?;
        Some((header, payload))
    }

    /// What is known about the place where the records end. `noted` is a place beyond it up to which the log was durable.
    fn stop(&self, from: Lsn, noted: Option<Lsn>) -> Stop {
        let successor = match self.successor {
            None => Successor::None,
            Some(successor) if successor == self.position => Successor::Here,
            Some(_) => Successor::Elsewhere,
        };
        let rest = match self.tail() {
            Tail::Clean => Rest::Blank,
            Tail::Torn { .. } => Rest::Bytes,
        };
        let checkpoint = if self.position >= from { Checkpoint::Reached } else { Checkpoint::NotReached };
        let attested = match (successor, rest) {
            (Successor::None, _) if noted.is_some() => Attested::Yes,
            (Successor::None, Rest::Bytes) => self.search_attestation(),
            _ => Attested::No,
        };
        Stop { successor, rest, attested, checkpoint }
    }

    fn tail(&self) -> Tail {
        let rest = self.bytes_from(self.position);
        if rest.iter().all(|byte| *byte == 0) { Tail::Clean } else { Tail::Torn { bytes: rest.len() as u64 } }
    }

    /// Looks behind the present position, at every byte, for a valid header that attests more than it. Payloads
    /// of valid headers are skipped: what looks like a header in one is not the log's own.
    fn search_attestation(&self) -> Attested {
        let damage = self.position;
        let mut place = damage;
        loop {
            let bytes = self.bytes_from(place);
            if bytes.len() < RECORD_HEADER_BYTES {
                return Attested::No;
            }
            match decode_record_header(bytes, place, self.checksums) {
                Some(header) if header.synced > damage => return Attested::Yes,
                Some(header) => place = place.plus(header.record_bytes()),
                None => place = place.plus(1),
            }
        }
    }

    fn damaged(&self, damage: Damage) -> LogError {
        let offset = offset_in_segment(self.first, self.position);
        LogError::Damaged { path: self.path.clone(), offset, damage }
    }
}
