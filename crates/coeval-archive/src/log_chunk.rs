// SPDX-License-Identifier: Apache-2.0
//! A stretch of a term's log as an object: its records, and the files that they name.

use crate::archive::Archive;
use crate::error::ArchiveError;
use crate::names::ChunkName;
use crate::pieces::ArchivedFile;
use crate::sealed::{seal, unseal};
use bytes::Bytes;
use coeval_store::log::{LogRecord, Lsn};
use coeval_store::{LogMark, LogTime, StoreError};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What stands before the records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChunkHead {
    pub(crate) database: u64,
    pub(crate) term: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The last time and the last version that the records have; 0 if they have none.
    pub(crate) time: u64,
    pub(crate) version: u64,
    /// The files that records name, with where the record begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) files: Vec<(u64, ArchivedFile)>,
}

/// A stretch of log that grows.
#[derive(Debug)]
pub(crate) struct ChunkBuilder {
    pub(crate) head: ChunkHead,
    data: Vec<u8>,
}

impl ChunkBuilder {
    pub(crate) fn new(database: u64, term: u64, start: Lsn) -> Self {
        let (start, end) = (start.get(), start.get());
        Self { head: ChunkHead { database, term, start, end, ..ChunkHead::default() }, data: Vec::new() }
    }

    /// Adds the record that comes next.
    ///
    /// # Panics
    /// If it does not follow on: the caller reads the log in order.
    pub(crate) fn push(&mut self, record: &LogRecord) -> Result<(), StoreError> {
        assert_eq!(record.start().get(), self.head.end, "records come in order");
        match LogMark::of(record)? {
            LogMark::Time(time) => self.head.time = self.head.time.max(time.micros()),
            LogMark::Batch(version) => self.head.version = version.get(),
            LogMark::Term(_) | LogMark::Other => {}
        }
        let length = u32::try_from(record.payload.len()).expect("the log bounds its records");
        self.data.extend_from_slice(&length.to_le_bytes());
        self.data.extend_from_slice(&record.payload);
        self.head.end = record.end.get();
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    pub(crate) fn name(&self) -> ChunkName {
        self.head.name()
    }

    pub(crate) fn seal(&self) -> Bytes {
        seal(&self.head, &self.data)
    }
}

impl ChunkHead {
    pub(crate) fn name(&self) -> ChunkName {
        let (start, end) = (Lsn::new(self.start), Lsn::new(self.end));
        ChunkName { term: self.term, start, end, has_files: !self.files.is_empty() }
    }

    pub(crate) fn time(&self) -> LogTime {
        LogTime::from_micros(self.time)
    }
}

/// An archived stretch of log.
#[derive(Debug)]
pub(crate) struct LogChunk {
    pub(crate) head: ChunkHead,
    pub(crate) records: Vec<LogRecord>,
}

impl LogChunk {
    /// # Errors
    /// [`ArchiveError::Damaged`], [`ArchiveError::Missing`], those of the storage.
    pub(crate) fn fetch(archive: &Archive, name: ChunkName) -> Result<Self, ArchiveError> {
        let object = name.name();
        Self::read(name, &archive.fetch(&object)?)
    }

    pub(crate) fn read(name: ChunkName, bytes: &Bytes) -> Result<Self, ArchiveError> {
        let object = name.name();
        let damaged = |what: &str| ArchiveError::Damaged { object: object.clone(), what: what.to_owned() };
        let (head, data) = unseal::<ChunkHead>(&object, bytes)?;
        if head.name() != name {
            return Err(damaged("it is another stretch of the log"));
        }
        let (mut records, mut position, mut rest) = (Vec::new(), name.start, &data[..]);
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (payload, behind) =
                behind.split_at_checked(length).ok_or_else(|| damaged("a record is cut off"))?;
            let record = LogRecord::from_payload(position, payload.to_vec());
            position = record.end;
            records.push(record);
            rest = behind;
        }
        if position != name.end || !rest.is_empty() {
            return Err(damaged("the records do not end where it ends"));
        }
        Ok(Self { head, records })
    }

    /// The records that begin in `range`, each with the files that it names and that have to be there before it.
    pub(crate) fn records_in(
        &self,
        range: Range<Lsn>,
    ) -> impl Iterator<Item = (&LogRecord, Vec<&ArchivedFile>)> {
        let mut files = self.head.files.iter().peekable();
        let records = self.records.iter().map(move |record| {
            let start = record.start();
            let named = std::iter::from_fn(|| files.next_if(|(at, _)| *at <= start.get()));
            (record, named.map(|(_, file)| file).collect())
        });
        // What is before the range was in an earlier stretch, what is behind belongs to another history.
        records.filter(move |(record, _)| range.contains(&record.start()))
    }
}
