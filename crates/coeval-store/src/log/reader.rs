// SPDX-License-Identifier: Apache-2.0
//! [`LogReader`]: reading the durable part of a log while it is written, for replicas and archives that follow it.

use std::sync::Arc;

use crate::files::ReadFile;
use crate::log::format::{RECORD_HEADER_BYTES, decode_record_header, segment_path};
use crate::log::handle::Shared;
use crate::log::walk::offset_in_segment;
use crate::log::{ChecksumPolicy, Damage, LogError, Lsn};

/// Bytes that are read at once, unless a record is longer.
const READ_BYTES: u64 = 1 << 20;

/// A record of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogRecord {
    /// The place behind it.
    pub end: Lsn,
    /// What it says.
    pub payload: Vec<u8>,
}

impl LogRecord {
    /// Whether it begins at a place at all: an end that somebody else has sent may be too small for the payload.
    #[must_use]
    pub(crate) fn has_room(&self) -> bool {
        self.end.get() >= (RECORD_HEADER_BYTES + self.payload.len()) as u64
    }

    /// The record that begins here with this payload.
    #[must_use]
    pub fn from_payload(start: Lsn, payload: Vec<u8>) -> Self {
        Self { end: start.plus((RECORD_HEADER_BYTES + payload.len()) as u64), payload }
    }

    /// Where it begins.
    #[must_use]
    pub fn start(&self) -> Lsn {
        Lsn::new(self.end.get() - (RECORD_HEADER_BYTES + self.payload.len()) as u64)
    }
}

/// A place in a log that moves from record to record. Gives nothing that is not durable.
pub struct LogReader {
    shared: Arc<Shared>,
    position: Lsn,
    /// The segment that is being read, and where it starts.
    open: Option<(Lsn, Arc<dyn ReadFile>)>,
}

impl LogReader {
    pub(crate) fn new(shared: Arc<Shared>, position: Lsn) -> LogReader {
        LogReader { shared, position, open: None }
    }

    /// The place behind the last record that was given.
    #[must_use]
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Gives the next durable records, of about a mebibyte together; none if there are none.
    ///
    /// # Errors
    /// [`LogError::Gone`] if a checkpoint has removed the segment with the next record; [`LogError::Damaged`];
    /// [`LogError::File`]. Nothing was given, and the position is as it was.
    ///
    /// # Panics
    /// If the position is inside a record.
    ///
    /// Cost: a read and a checksum of these bytes, and a copy.
    pub fn next_records(&mut self) -> Result<Vec<LogRecord>, LogError> {
        let durable = self.shared.durable();
        let mut records = Vec::new();
        if self.position >= durable {
            return Ok(records);
        }
        let (first, end) = self.segment_of(durable)?;
        let file = self.file(first)?;
        let mut wanted = READ_BYTES;
        let mut bytes = Vec::new();
        // A second time only for a record that is longer than the first look.
        while records.is_empty() {
            let count = end.distance_from(self.position).min(wanted);
            bytes.resize(usize::try_from(count).expect("a record fits in memory"), 0);
            file.read_exact_at(offset_in_segment(first, self.position), &mut bytes)?;
            let missing = self.parse(first, &bytes, &mut records)?;
            wanted = missing.unwrap_or(wanted);
        }
        self.position = records.last().map_or(self.position, |last| last.end);
        Ok(records)
    }

    /// The records that these bytes begin with. How many bytes the first one has, if that is more.
    fn parse(&self, first: Lsn, bytes: &[u8], records: &mut Vec<LogRecord>) -> Result<Option<u64>, LogError> {
        let (mut place, mut rest) = (self.position, bytes);
        while let Some(head) = rest.get(..RECORD_HEADER_BYTES) {
            let damaged = || LogError::Damaged {
                path: segment_path(&self.shared.dir, first),
                offset: offset_in_segment(first, place),
                damage: Damage::Record,
            };
            let header = decode_record_header(head, place, ChecksumPolicy::Verified).ok_or_else(damaged)?;
            let Some(payload) = rest.get(RECORD_HEADER_BYTES..RECORD_HEADER_BYTES + header.length) else {
                return Ok(records.is_empty().then(|| header.record_bytes()));
            };
            if !header.fits(payload, ChecksumPolicy::Verified) {
                return Err(damaged());
            }
            place = place.plus(header.record_bytes());
            records.push(LogRecord { end: place, payload: payload.to_vec() });
            rest = &rest[RECORD_HEADER_BYTES + header.length..];
        }
        assert!(!records.is_empty(), "durable bytes behind a record begin with a header");
        Ok(None)
    }

    /// Where the segment with the position starts, and how far it is durable.
    fn segment_of(&self, durable: Lsn) -> Result<(Lsn, Lsn), LogError> {
        let segments = self.shared.segments.lock();
        let behind = segments.partition_point(|first| *first <= self.position);
        let first = *segments[..behind].last().ok_or_else(|| self.gone(&segments))?;
        Ok((first, segments.get(behind).map_or(durable, |next| durable.min(*next))))
    }

    /// Whether the log is still there from the position on.
    pub(crate) fn is_reached(&self) -> bool {
        self.shared.segments.lock().first().is_some_and(|first| *first <= self.position)
    }

    fn gone(&self, segments: &[Lsn]) -> LogError {
        LogError::Gone { wanted: self.position, first: segments.first().copied().unwrap_or(self.position) }
    }

    fn file(&mut self, first: Lsn) -> Result<Arc<dyn ReadFile>, LogError> {
        if let Some((_, file)) = self.open.as_ref().filter(|(open, _)| *open == first) {
            return Ok(Arc::clone(file));
        }
        let path = segment_path(&self.shared.dir, first);
        let file = self.shared.files.open_to_read(&path).map_err(|error| match error.is_not_found() {
            true => self.gone(&self.shared.segments.lock()),
            false => LogError::File(error),
        })?;
        self.open = Some((first, Arc::clone(&file)));
        Ok(file)
    }
}

#[cfg(test)]
mod tests;
