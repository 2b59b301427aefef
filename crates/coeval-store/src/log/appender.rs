// SPDX-License-Identifier: Apache-2.0
//! [`Log`]: opening and appending.

use std::path::Path;
use std::sync::Arc;

use crate::files::{File, FileError, FileSystem, OpenMode};
use crate::log::format::{
    PAYLOAD_BYTES_MAX, PayloadTail, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, seal_record, segment_path,
};
use crate::log::handle::{Shared, Written};
use crate::log::segment::{NextSegment, create_segment, remove_unfinished};
use crate::log::unfilled::Unfilled;
use crate::log::walk::{Found, Walked, offset_in_segment, walk};
use crate::log::{ChecksumPolicy, LogError, LogHandle, Lsn, OpenError, Replay, Tail};

/// A buffer that one huge record blew up is not kept.
const BUFFER_BYTES_KEPT: usize = 4 << 20;

/// Of many records so many bytes are written at once.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// Room for more than this is asked of the file system, which makes it without writing it. For less, zeros are written: a
/// sync of blocks that were written before takes half the time.
const ZEROS_BYTES_MAX: u64 = 1 << 20;

/// How a log is laid out. The default is right outside tests.
#[derive(Debug, Clone, Copy)]
pub struct LogOptions {
    /// A segment takes records up to this size (a single larger record has a segment to itself). 64 MiB: large
    /// enough that the change of segment, three syncs, does not count; small enough that old ones go soon.
    pub segment_bytes: u64,
    /// So much room is made ahead with zeros, so that most syncs write data alone and not the file's length: the
    /// fast ones take about half the time of syncs that extend the file. More than 1 MiB, or a segment that was
    /// written before, is no faster; 1 means none.
    pub extend_bytes: u64,
    /// Whether checksums are looked at when the log is opened.
    pub checksums: ChecksumPolicy,
}

impl Default for LogOptions {
    fn default() -> LogOptions {
        LogOptions { segment_bytes: 64 << 20, extend_bytes: 1 << 20, checksums: ChecksumPolicy::Verified }
    }
}

/// The one who appends to a log. Not shared; [`Log::handle`] gives others what they may do meanwhile.
///
/// Dropping it syncs nothing.
pub struct Log {
    shared: Arc<Shared>,
    options: LogOptions,
    /// The last segment: where it starts, its file, and up to which offset that has room already.
    first: Lsn,
    file: Arc<dyn File>,
    room_end: u64,
    /// The LSN behind the last record.
    end: Lsn,
    /// Where the last record begins, and how much of the log its header attests, or one before it.
    last_record: Lsn,
    attested: Lsn,
    /// The end of the log when its last record was one that nobody would miss.
    inert_end: Option<Lsn>,
    /// The payload of a record that goes before the next one.
    preamble: Option<Vec<u8>>,
    buffer: Vec<u8>,
    zeros: Vec<u8>,
}

impl Log {
    /// Opens the log in `dir` with the default options; see [`Log::open_with`].
    ///
    /// # Errors
    /// As [`Log::open_with`].
    pub fn open<E>(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        from: Lsn,
        replay: &mut Replay<'_, E>,
    ) -> Result<Log, OpenError<E>> {
        Log::open_with(files, dir, from, LogOptions::default(), replay)
    }

    /// Gives every record behind `from` to `replay`, in order, each with the LSN behind it, and opens the log for
    /// appending. A log that is not there is made if `from` is [`Lsn::START`].
    ///
    /// On return a torn tail is cut off and everything replayed is durable. The caller holds the lock of the
    /// directory.
    ///
    /// # Errors
    /// Damage before the tail or a missing segment (nothing was changed), an error of `replay` (nothing was
    /// changed), or a failure of the file layer.
    ///
    /// Cost: reads the segments from the one with `from` on; memory for one segment.
    pub fn open_with<E>(
        files: Arc<dyn FileSystem>,
        dir: &Path,
        from: Lsn,
        options: LogOptions,
        replay: &mut Replay<'_, E>,
    ) -> Result<Log, OpenError<E>> {
        files.create_dir_all(dir)?;
        remove_unfinished(&*files, dir)?;
        let mut found = Found::look(&*files, dir, from, options.checksums)?;
        let (first, file, room_end, end, last_record, attested);
        if found.segments.is_empty() && from == Lsn::START {
            file = create_segment(&*files, dir, from)?;
            (first, end, last_record, attested) = (from, from, from, from);
            room_end = SEGMENT_HEADER_BYTES as u64;
            found.segments.push(first);
        } else {
            let walked = walk(&*files, dir, &found, from, options.checksums, replay)?;
            (first, end) = (walked.last_segment, walked.summary.end);
            (last_record, attested) = (walked.last_record, walked.attested);
            (file, room_end) = settle_tail(&*files, &segment_path(dir, first), walked)?;
            // The last process may have ended before the name of the last segment was durable.
            files.sync_dir(dir)?;
        }
        let written = Written::new(first, end, Arc::clone(&file));
        let shared = Arc::new(Shared::new(files, dir.to_path_buf(), found, written));
        let zeros = Vec::new();
        let (inert_end, buffer) = (None, Vec::new());
        Ok(Log {
            shared,
            options,
            first,
            file,
            room_end,
            end,
            last_record,
            attested,
            inert_end,
            preamble: None,
            buffer,
            zeros,
        })
    }

    /// Has a record written before the next one, at what is the end of the log now. If no other record comes, it is not
    /// written either.
    pub(crate) fn set_preamble(&mut self, payload: Vec<u8>) {
        self.preamble = Some(payload);
    }

    /// Makes a log without records in `dir`, durably; or makes one durable that is there already and has none.
    ///
    /// # Errors
    /// Those of the file layer; there is no segment then, or one without records.
    pub(crate) fn create(files: &dyn FileSystem, dir: &Path) -> Result<(), FileError> {
        files.create_dir_all(dir)?;
        if files.exists(&segment_path(dir, Lsn::START))? {
            return files.sync_dir(dir);
        }
        create_segment(files, dir, Lsn::START).map(drop)
    }

    /// Makes a log without records that begins at `first`, durably, in a directory without one.
    pub(crate) fn create_at(files: &dyn FileSystem, dir: &Path, first: Lsn) -> Result<(), FileError> {
        create_segment(files, dir, first).map(drop)
    }

    /// The handle to sync the log and to drop its old segments.
    pub fn handle(&self) -> LogHandle {
        LogHandle::new(Arc::clone(&self.shared))
    }

    /// The LSN behind the last record.
    pub fn end_lsn(&self) -> Lsn {
        self.end
    }

    /// Appends a record and returns the LSN behind it: the record is durable when
    /// [`LogHandle::durable_lsn`] has reached that, which takes a [`LogHandle::sync`].
    ///
    /// # Errors
    /// [`LogError::PayloadSize`] for an empty or too long payload, [`LogError::NoRoom`] on a full disk (nothing was written,
    /// the log goes on); a failed write, which stops the log, and leaves it unknown whether the record is there after a
    /// restart; [`LogError::Stopped`] afterwards. Without a sync the record may be there after a restart, or not.
    pub fn append(&mut self, payload: &[u8]) -> Result<Lsn, LogError> {
        self.append_with(|record| record.extend_from_slice(payload))
    }

    /// Appends records and returns the LSN behind the last one; they are where they would be if each was appended by itself, but
    /// many are written at once.
    ///
    /// # Errors
    /// As [`Log::append`]; some of the first are in the log then, or all.
    pub(crate) fn append_all<'a>(
        &mut self,
        payloads: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Lsn, LogError> {
        self.write_preamble()?;
        let (mut records, mut starts) = (Vec::new(), Vec::new());
        for payload in payloads {
            if payload.is_empty() || payload.len() > PAYLOAD_BYTES_MAX {
                return Err(LogError::PayloadSize { bytes: payload.len() });
            }
            let bytes = records.len() + RECORD_HEADER_BYTES + payload.len();
            let segment_bytes = self.end.distance_from(self.first) + bytes as u64;
            if bytes > WRITE_BYTES_MAX || segment_bytes > self.options.segment_bytes {
                self.write_records(&mut records, &mut starts)?;
            }
            starts.push(records.len());
            records.resize(records.len() + RECORD_HEADER_BYTES, 0);
            records.extend_from_slice(payload);
        }
        self.write_records(&mut records, &mut starts)?;
        Ok(self.end)
    }

    /// Writes the records that begin at these places, each with room for its header, and takes them out.
    fn write_records(&mut self, records: &mut Vec<u8>, starts: &mut Vec<usize>) -> Result<(), LogError> {
        let Some(last) = starts.last().copied() else { return Ok(()) };
        self.make_room(records.len() as u64)?;
        let durable = self.shared.durable();
        let ends = starts.iter().skip(1).copied().chain([records.len()]);
        for (start, end) in starts.iter().copied().zip(ends) {
            seal_record(&mut records[start..end], PayloadTail::NONE, self.end.plus(start as u64), durable);
        }
        let offset = offset_in_segment(self.first, self.end);
        // As for one record: nobody knows what a failed write leaves.
        self.file.write_all_at(offset, records).map_err(|error| self.shared.stop(error))?;
        (self.last_record, self.attested) = (self.end.plus(last as u64), durable);
        self.end = self.end.plus(records.len() as u64);
        self.shared.written.lock().end = self.end;
        records.clear();
        starts.clear();
        Ok(())
    }

    /// As [`Log::append`]; `encode` appends the payload to the buffer that is written, which saves a copy. What
    /// the buffer holds already must stay.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// When `encode` takes away what the buffer held.
    pub fn append_with(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Lsn, LogError> {
        self.append_with_tail(encode, PayloadTail::NONE).map(|(end, _)| end)
    }

    /// As [`Log::append_with`], of a payload that ends with bytes which stand elsewhere: they are not looked at here. The
    /// caller writes them ([`Unfilled::fill`]), while others may append already; nothing from this record on becomes durable
    /// before. None if there are none.
    ///
    /// # Errors
    /// As [`Log::append`].
    ///
    /// # Panics
    /// As [`Log::append_with`].
    pub(crate) fn append_with_tail(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>),
        tail: PayloadTail,
    ) -> Result<(Lsn, Option<Unfilled>), LogError> {
        self.write_preamble()?;
        let mut record = std::mem::take(&mut self.buffer);
        record.clear();
        record.resize(RECORD_HEADER_BYTES, 0);
        encode(&mut record);
        let head = record.len().checked_sub(RECORD_HEADER_BYTES).expect("encode only appends");
        let bytes = head + tail.bytes;
        let outcome = if bytes == 0 || bytes > PAYLOAD_BYTES_MAX {
            Err(LogError::PayloadSize { bytes })
        } else {
            let size = (record.len() + tail.bytes) as u64;
            self.make_room(size).and_then(|()| self.write_record(&mut record, tail))
        };
        if record.capacity() <= BUFFER_BYTES_KEPT {
            self.buffer = record;
        }
        outcome
    }

    /// Writes what goes before the next record, if there is anything; without room for it, it still does.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub(crate) fn write_preamble(&mut self) -> Result<(), LogError> {
        self.shared.check_running()?;
        let Some(payload) = self.preamble.take() else { return Ok(()) };
        let mut record = vec![0; RECORD_HEADER_BYTES];
        record.extend_from_slice(&payload);
        let written = match self.make_room(record.len() as u64) {
            Ok(()) => self.write_record(&mut record, PayloadTail::NONE).map(drop),
            Err(error) => Err(error),
        };
        if written.is_err() {
            self.preamble = Some(payload);
        }
        written
    }

    /// As [`Log::append_with`], for a record that nobody would miss: all that it is there for is its header, which
    /// attests what was durable when it was written.
    ///
    /// # Errors
    /// As [`Log::append`].
    pub(crate) fn append_inert(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<Lsn, LogError> {
        let end = self.append_with(encode)?;
        self.inert_end = Some(end);
        Ok(end)
    }

    /// The last record, if there is one behind the checkpoint, is one that nobody would miss.
    pub(crate) fn note_inert_end(&mut self) {
        self.inert_end = Some(self.end);
    }

    /// Whether damage anywhere in the log would be told from a torn tail, or harm nobody.
    pub(crate) fn is_attested(&self) -> bool {
        self.inert_end == Some(self.end) && self.attested >= self.last_record
    }

    /// Makes room for a record with a payload of at most this size: then a full disk does not keep the next record of that
    /// size from being written, on file systems that overwrite in place. If it needs another segment, that is returned: to
    /// be made, and to be asked again then. Nothing should be appended before; an append would make it first.
    ///
    /// # Errors
    /// [`LogError::NoRoom`], with the log as it was; a failure that stops the log; [`LogError::Stopped`].
    pub(crate) fn reserve(&mut self, payload_bytes: usize) -> Result<Option<NextSegment>, LogError> {
        self.shared.check_running()?;
        let preamble = self.preamble.as_ref().map_or(0, |payload| RECORD_HEADER_BYTES + payload.len());
        self.room_or_next((preamble + RECORD_HEADER_BYTES + payload_bytes.min(PAYLOAD_BYTES_MAX)) as u64)
    }

    /// Writes the record whose payload, but for its tail, is in place behind the room for its header, where room has been
    /// made for all of it.
    fn write_record(
        &mut self,
        record: &mut [u8],
        tail: PayloadTail,
    ) -> Result<(Lsn, Option<Unfilled>), LogError> {
        let size = (record.len() + tail.bytes) as u64;
        let durable = self.shared.durable();
        seal_record(record, tail, self.end, durable);
        let offset = offset_in_segment(self.first, self.end);
        assert!(offset + size <= self.room_end, "room was made for the record");
        // What a failed write leaves may be the whole record: nobody knows whether it will be found.
        self.file.write_all_at(offset, record).map_err(|error| self.shared.stop(error))?;
        (self.last_record, self.attested) = (self.end, durable);
        self.end = self.end.plus(size);
        let mut written = self.shared.written.lock();
        let unfilled = (tail.bytes > 0).then(|| {
            written.unfilled.insert(self.last_record);
            let place = offset + record.len() as u64;
            Unfilled::new(Arc::clone(&self.shared), Arc::clone(&self.file), self.last_record, place, tail)
        });
        written.end = self.end;
        Ok((self.end, unfilled))
    }

    /// Makes room for the next record of `size` bytes, in the next segment if need be.
    fn make_room(&mut self, size: u64) -> Result<(), LogError> {
        while let Some(next) = self.room_or_next(size)? {
            next.make()?;
        }
        Ok(())
    }

    /// Sees to it that the next record of `size` bytes has its place in the last segment, and that the place holds zeros: up
    /// to the next multiple of `extend_bytes`, or just for the record if there is no more. Returns the next segment if its
    /// place is there.
    fn room_or_next(&mut self, size: u64) -> Result<Option<NextSegment>, LogError> {
        if self.is_ending(size) {
            return Ok(Some(NextSegment::new(Arc::clone(&self.shared))));
        }
        let record_end = offset_in_segment(self.first, self.end) + size;
        if record_end <= self.room_end {
            return Ok(None);
        }
        let segment_end = SEGMENT_HEADER_BYTES as u64 + self.options.segment_bytes;
        let wanted = record_end.next_multiple_of(self.options.extend_bytes.max(1));
        let wanted = wanted.min(segment_end).max(record_end);
        let outcome = match self.extend_room(wanted) {
            Err(error) if error.is_disk_full() && wanted > record_end => self.extend_room(record_end),
            outcome => outcome,
        };
        // Zeros behind the last record mean nothing: the log is as it was.
        outcome.map(|()| None).map_err(|error| self.shared.no_room_or_stop(error))
    }

    /// Whether the last segment ends here because the next record of `size` bytes goes to another one. Goes on in that one
    /// if it has been made.
    fn is_ending(&mut self, size: u64) -> bool {
        let mut written = self.shared.written.lock();
        if written.first != self.first {
            (self.first, self.file) = (written.first, Arc::clone(&written.file));
            self.room_end = SEGMENT_HEADER_BYTES as u64;
        }
        let used = self.end.distance_from(self.first);
        written.is_ending |= used > 0 && used + size > self.options.segment_bytes;
        written.is_ending
    }

    /// Makes zeros from where the room ends to `room_end`; if that fails, the room is what it was. What was made of
    /// them goes again: it may have no place on the disk yet, and a later sync is not to fail because of it.
    fn extend_room(&mut self, room_end: u64) -> Result<(), FileError> {
        let before = self.room_end;
        let written = self.make_zeros(room_end);
        if written.is_err() {
            self.room_end = before;
            self.file.set_len(before)?;
        }
        written
    }

    /// Makes zeros from where the room ends to `room_end`.
    fn make_zeros(&mut self, room_end: u64) -> Result<(), FileError> {
        let missing = room_end.saturating_sub(self.room_end);
        if missing > ZEROS_BYTES_MAX {
            self.file.allocate(self.room_end, missing)?;
        } else {
            let count = usize::try_from(missing).expect("at most a megabyte");
            self.zeros.resize(count.max(self.zeros.len()), 0);
            self.file.write_all_at(self.room_end, &self.zeros[..count])?;
        }
        self.room_end = room_end.max(self.room_end);
        Ok(())
    }
}

/// Cuts a torn tail off and makes everything before it durable. Returns the file and the end of its room.
///
/// A sync alone would not do: if the last process ended after a failed sync, the page cache may show bytes that
/// the disk never got and that no sync will write. So what nobody attested is written again. The bytes are those
/// that are there already, so a crash in between does no harm.
fn settle_tail(
    files: &dyn FileSystem,
    path: &Path,
    walked: Walked,
) -> Result<(Arc<dyn File>, u64), FileError> {
    let Walked { summary, last_segment, last_file, attested, last_record: _ } = walked;
    let file = files.open(path, OpenMode::Existing)?;
    let end_offset = offset_in_segment(last_segment, summary.end);
    let room_end = match summary.tail {
        Tail::Clean => last_file.len() as u64,
        Tail::Torn { .. } => {
            file.set_len(end_offset)?;
            end_offset
        }
    };
    let attested_offset = offset_in_segment(last_segment, attested.clamp(last_segment, summary.end));
    let in_file = |offset: u64| usize::try_from(offset).expect("an offset in a file that was read to memory");
    let unproven = &last_file[in_file(attested_offset)..in_file(end_offset)];
    if !unproven.is_empty() {
        file.write_all_at(attested_offset, unproven)?;
    }
    file.sync_all()?;
    Ok((file, room_end))
}
