// SPDX-License-Identifier: Apache-2.0
//! The file that the tables come back from: every change of a kept table, in order.
//!
//! ```text
//! file    "TIQUELG1" record*
//! record  length: u32   checksum: u32 (CRC-32C of the body)   body: `length` bytes
//! body    kind: u8   name's length: u16   name   payload
//!   1 create   payload: an Arrow IPC stream without rows
//!   2 append   payload: an Arrow IPC stream
//!   3 delete   payload: row numbers, u64 each
//!   4 drop     no payload
//! ```
//! All integers are little-endian. Row numbers count a table's appended rows from zero, in the order of the file. A
//! record that the file ends within was never acknowledged and is cut off; a wrong checksum before the last record is
//! damage, and the file is not opened. When it holds much more than its tables do, it is written anew and renamed.

use super::Tables;
use super::table::{Kept, TableData};
use crate::engine::EngineError;
use crate::engine::owner::Owner;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const MAGIC: &[u8; 8] = b"TIQUELG1";
/// Below this size the file is not worth writing anew.
const COMPACT_BYTES_MIN: usize = 16 << 20;

/// A change of a table.
pub(super) enum Record<'a> {
    Create { table: &'a str, schema: &'a SchemaRef },
    Append { table: &'a str, rows: &'a RecordBatch },
    Delete { table: &'a str, numbers: &'a [u64] },
    Drop { table: &'a str },
}

/// The open file. Its directory is locked as long as this lives.
pub(super) struct AppendLog {
    directory: PathBuf,
    file: Arc<File>,
    bytes: usize,
    compact_at: usize,
    /// Whether a write or a sync failed, so that nothing more may be written.
    is_broken: bool,
    _owner: Owner,
}

fn failed(what: &str) -> impl Fn(std::io::Error) -> EngineError + '_ {
    move |error| EngineError::gone(format!("{what}: {error}"))
}

fn path_of(directory: &Path) -> PathBuf {
    directory.join("tables.log")
}

impl AppendLog {
    /// Locks the directory and reads the tables back.
    pub(super) fn open(directory: &Path) -> Result<(Self, Tables), EngineError> {
        std::fs::create_dir_all(directory).map_err(failed("the directory of the tables"))?;
        let owner = Owner::lock(&directory.join("lock")).map_err(failed("the lock of the tables"))?;
        let owner = owner.ok_or_else(|| {
            let place = directory.display();
            EngineError::refused(format!("{place} is in use by another process or engine"))
        })?;
        let path = path_of(directory);
        let mut options = OpenOptions::new();
        let mut file = options.read(true).append(true).create(true).open(path).map_err(failed("the log"))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed("the log"))?;
        if bytes.len() < MAGIC.len() {
            file.set_len(0).map_err(failed("the log"))?;
            file.write_all(MAGIC).map_err(failed("the log"))?;
            bytes = MAGIC.to_vec();
        }
        let (tables, length) = replay(&bytes)?;
        file.set_len(length as u64).map_err(failed("the log"))?;
        file.sync_all().map_err(failed("the log"))?;
        let directory = directory.to_owned();
        let mut log = Self {
            directory,
            file: Arc::new(file),
            bytes: length,
            compact_at: COMPACT_BYTES_MIN,
            is_broken: false,
            _owner: owner,
        };
        let tables = log.compact_if_worth(&tables)?.unwrap_or(tables);
        Ok((log, tables))
    }

    pub(super) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Appends a record in one write.
    ///
    /// # Errors
    /// The record is not in the file. If the part of it that was written cannot be cut off, nothing more is written: after such a
    /// part, no record would be found.
    pub(super) fn write(&mut self, record: &Record<'_>) -> Result<(), EngineError> {
        self.require_whole()?;
        let bytes = encode(record)?;
        if let Err(error) = (&*self.file).write_all(&bytes) {
            self.cut_off();
            return Err(failed("the log")(error));
        }
        self.bytes += bytes.len();
        Ok(())
    }

    fn require_whole(&self) -> Result<(), EngineError> {
        match self.is_broken {
            false => Ok(()),
            true => Err(EngineError::gone(
                "a write to the log failed; it is whole again when the database is opened",
            )),
        }
    }

    /// Cuts off what stands behind the last whole record.
    pub(super) fn cut_off(&mut self) {
        self.is_broken = self.file.set_len(self.bytes as u64).is_err();
    }

    /// Notes that the file could not be synced: what it had not on the disk may be lost, whatever a later sync says.
    pub(super) fn note_unsynced(&mut self) {
        self.is_broken = true;
    }

    /// Writes the file anew if it is large and most of it is of rows that are gone. The tables are the same then, but
    /// for their row numbers, which the caller publishes.
    pub(super) fn compact_if_worth(&mut self, tables: &Tables) -> Result<Option<Tables>, EngineError> {
        if self.bytes < self.compact_at {
            return Ok(None);
        }
        // Looked at again when the file has doubled, so that the looks cost little.
        self.compact_at = (self.bytes * 2).max(COMPACT_BYTES_MIN);
        let kept = || tables.iter().filter(|(_, data)| data.kept() == Kept::Yes);
        let live: usize = kept().map(|(_, data)| data.bytes()).sum();
        if live * 2 > self.bytes {
            return Ok(None);
        }
        let mut bytes = MAGIC.to_vec();
        let mut next = tables.clone();
        for (name, data) in kept() {
            let mut numbered = TableData::new(data.schema(), Kept::Yes);
            bytes.extend(encode(&Record::Create { table: name, schema: &data.schema() })?);
            for rows in data.batches() {
                bytes.extend(encode(&Record::Append { table: name, rows })?);
                numbered = numbered.with_rows(rows.clone())?;
            }
            next.insert(name.clone(), Arc::new(numbered));
        }
        self.replace(&bytes)?;
        Ok(Some(next))
    }

    fn replace(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        let path = self.directory.join("tables.next");
        // Every write goes to the end, also behind a part of a record that was cut off.
        let mut file =
            OpenOptions::new().append(true).create(true).open(&path).map_err(failed("the next log"))?;
        file.set_len(0).map_err(failed("the next log"))?;
        file.write_all(bytes).map_err(failed("the next log"))?;
        file.sync_all().map_err(failed("the next log"))?;
        std::fs::rename(&path, path_of(&self.directory)).map_err(failed("the next log"))?;
        // From here on it is the log, whether the directory can be synced or not.
        self.file = Arc::new(file);
        self.bytes = bytes.len();
        self.compact_at = (2 * self.bytes).max(COMPACT_BYTES_MIN);
        let synced = File::open(&self.directory).and_then(|directory| directory.sync_all());
        synced.inspect_err(|_| self.is_broken = true).map_err(failed("the directory of the tables"))
    }
}

fn stream(schema: &SchemaRef, rows: Option<&RecordBatch>) -> Result<Vec<u8>, EngineError> {
    let refused = |error: arrow::error::ArrowError| EngineError::refused(error.to_string());
    let mut writer = StreamWriter::try_new(Vec::new(), schema).map_err(refused)?;
    if let Some(rows) = rows {
        writer.write(rows).map_err(refused)?;
    }
    writer.into_inner().map_err(refused)
}

fn encode(record: &Record<'_>) -> Result<Vec<u8>, EngineError> {
    let (kind, table, payload) = match record {
        Record::Create { table, schema } => (1, table, stream(schema, None)?),
        Record::Append { table, rows } => (2, table, stream(rows.schema_ref(), Some(rows))?),
        Record::Delete { table, numbers } => {
            (3, table, numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
        }
        Record::Drop { table } => (4, table, Vec::new()),
    };
    let too_long = |_| EngineError::refused("a change of more than four gigabytes, or a name too long");
    let name_length = u16::try_from(table.len()).map_err(too_long)?;
    let length = u32::try_from(3 + table.len() + payload.len()).map_err(too_long)?;
    let mut bytes = Vec::with_capacity(8 + length as usize);
    bytes.extend(length.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.push(kind);
    bytes.extend(name_length.to_le_bytes());
    bytes.extend(table.as_bytes());
    bytes.extend(payload);
    let checksum = crc32c::crc32c(&bytes[8..]);
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    Ok(bytes)
}

fn damaged(at: usize, what: &str) -> EngineError {
    EngineError::refused(format!("the tables' log is damaged at byte {at}: {what}"))
}

/// The tables of a log, and where its last whole record ends.
fn replay(bytes: &[u8]) -> Result<(Tables, usize), EngineError> {
    if !bytes.starts_with(MAGIC) {
        return Err(damaged(0, "it is not one of ours, or of another version"));
    }
    let mut tables = Tables::new();
    let mut at = MAGIC.len();
    while let Some((length, checksum)) = header(&bytes[at..]) {
        let (start, end) = (at + 8, at + 8 + length);
        let Some(body) = bytes.get(start..end) else { break };
        if crc32c::crc32c(body) != checksum {
            if end == bytes.len() {
                break;
            }
            return Err(damaged(at, "wrong checksum"));
        }
        apply(&mut tables, body).map_err(|error| damaged(at, &error.message))?;
        at = end;
    }
    Ok((tables, at))
}

fn header(bytes: &[u8]) -> Option<(usize, u32)> {
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    Some((word(0)? as usize, word(4)?))
}

fn apply(tables: &mut Tables, body: &[u8]) -> Result<(), EngineError> {
    let short = || EngineError::refused("a record is too short");
    let kind = *body.first().ok_or_else(short)?;
    let length = body.get(1..3).and_then(|length| length.try_into().ok()).ok_or_else(short)?;
    let end = 3 + usize::from(u16::from_le_bytes(length));
    let name = body.get(3..end).ok_or_else(short)?;
    let name = std::str::from_utf8(name).map_err(|_| EngineError::refused("a name is not text"))?;
    let payload = &body[end..];
    let refused = |error: arrow::error::ArrowError| EngineError::refused(error.to_string());
    let table = |tables: &Tables| {
        let found = tables.get(name).cloned();
        found.ok_or_else(|| EngineError::refused(format!("{name} was not created")))
    };
    match kind {
        1 => {
            let schema = StreamReader::try_new(payload, None).map_err(refused)?.schema();
            tables.insert(name.to_owned(), Arc::new(TableData::new(schema, Kept::Yes)));
        }
        2 => {
            for rows in StreamReader::try_new(payload, None).map_err(refused)? {
                let next = table(tables)?.with_rows(rows.map_err(refused)?)?;
                tables.insert(name.to_owned(), Arc::new(next));
            }
        }
        3 => {
            let words = payload.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes));
            let numbers: Result<Vec<u64>, _> = words.collect();
            let next = table(tables)?.without_rows(&numbers.map_err(|_| short())?)?;
            tables.insert(name.to_owned(), Arc::new(next));
        }
        4 => {
            tables.remove(name);
        }
        other => return Err(EngineError::refused(format!("a record of the unknown kind {other}"))),
    }
    Ok(())
}
