// SPDX-License-Identifier: Apache-2.0
//! Log records: what a commit batch changed, as bytes (see `docs/formats.md`).
//!
//! ```text
//! record       kind u8, then by kind
//!   batch (1)    version u64, boundary u64, transactions u32, then each: first_out u64, length u32, body
//!   sequence (2) id u32, next value i64, 1 byte: 0 if the sequence is at its end
//!   boundary (3) boundary u64
//!   term (4)     number u64, id u64, start u64 (see `terms.rs`)
//!   time (5)     microseconds since 1970 u64 (see `clock.rs`)
//!   ended (6)    epoch u64: up to it all epochs of brick tables have ended (see below)
//!   batch of a transaction with index files (7)
//!                version u64, boundary u64, late entries, then as a batch (1) of one transaction
//! late entries length u32, count u32, each: index u32, then 1 byte: 1 and changes, or 0: the index is built of the rows
//! body         definitions: count u32, each length u32 + JSON
//!              loads: count u32, each: table u32, segments u32, each: number u64, footer checksum u32
//!                     (the first for the rows, then one for each index)
//!              index files, only in kind 7: count u32, each: index u32, number u64, footer checksum u32,
//!                     1 byte: 1 if it has the entries of the loads, else 0,
//!                     length u32, changes since, one list behind the other
//!              tables: count u32, each: table u32, changes of rows, indexes u32, changes for each
//!              bricks, only if there are any: count u32, each: table u32, epoch u64, length u32, change
//!              (see `bricks.rs`)
//! changes      count u32, each: change u8, key length u32, key, and unless deleted or of an index:
//!              row length u32, row
//! ```
//! Numbers are little-endian. `boundary` is a version whose safe snapshot is final with this record, `first_out` the
//! version of the earliest commit that the transaction has an antidependency to, 0 if none: who reads the log makes the
//! same safe snapshots of it (`coeval_txn::ssi::SafeSnapshots`) as the store that wrote it.
//!
//! An index file has the entries of a new index, of the rows that were there when it was written; the changes beside it, and then
//! those of the late entries, make them those of the rows that are there with this record (`index_file.rs`).
//!
//! `ended` says how far the store that writes the log has purged its bricks. Of the epochs up to there, those that no batch
//! before the record has committed were rolled back; and each delete in a batch behind it covers all of the others. So who
//! follows the log knows which epochs will never come, and purges what no later record tells apart. Nobody else needs it.

mod mark;

pub use mark::LogMark;

use crate::bricks::BrickChange;
use crate::bulk_load::BulkLoad;
use crate::catalog::CatalogChange;
use crate::clock::LogTime;
use crate::delta::{BasePosition, Change, Delta, DeltaEntry};
use crate::ids::{SequenceId, SpaceId};
use crate::index_file::{LateEntries, LateIndex};
use crate::key::Key;
use crate::row::Row;
use crate::segment::SegmentRef;
use crate::submission::{LoadedEntries, Submission};
use crate::table_writes::TableWrites;
use crate::terms::Term;
use crate::world::World;
use crate::write_set::WriteSet;
use coeval_txn::{Epoch, Version};

const KIND_BATCH: u8 = 1;
const KIND_SEQUENCE: u8 = 2;
const KIND_BOUNDARY: u8 = 3;
const KIND_TERM: u8 = 4;
const KIND_TIME: u8 = 5;
const KIND_ENDED: u8 = 6;
const KIND_BATCH_WITH_INDEXES: u8 = 7;

const LOADED_APART: u8 = 0;
const LOADED_MERGED: u8 = 1;

const LATE_OF_ROWS: u8 = 0;
const LATE_CHANGES: u8 = 1;

const CHANGE_INSERTED: u8 = 1;
const CHANGE_REPLACED: u8 = 2;
const CHANGE_DELETED: u8 = 3;

/// Kind, version, boundary and how many transactions; first out and length of one of them.
const BATCH_HEAD_BYTES: usize = 1 + 8 + 8 + 4;
const TRANSACTION_HEAD_BYTES: usize = 8 + 4;

/// Set in the change byte when a row follows.
const HAS_ROW: u8 = 0x80;

/// A record read back.
#[derive(Debug)]
pub(crate) enum Record {
    Batch {
        version: Version,
        boundary: Version,
        transactions: Vec<Replayed>,
    },
    Sequence {
        id: SequenceId,
        next: Option<i64>,
    },
    /// A heartbeat: safe snapshots may be made of this version.
    Boundary(Version),
    /// From here on another opening writes the log.
    Term(Term),
    /// What comes behind was committed at this time or later.
    Time(LogTime),
    /// All epochs up to this one have ended, and no delete that comes tells them apart.
    Ended(Epoch),
}

/// What a transaction changed, read back.
#[derive(Debug)]
pub(crate) struct Replayed {
    /// The version of the earliest commit that it has an antidependency to.
    pub(crate) first_out: Option<Version>,
    pub(crate) catalog_changes: Vec<CatalogChange>,
    pub(crate) loads: Vec<LoadPlaces>,
    pub(crate) indexes: Vec<IndexPlace>,
    pub(crate) writes: Vec<ReplayedWrites>,
    pub(crate) bricks: Vec<BrickChange>,
}

impl Replayed {
    /// What it wrote to rows and index entries, and its epochs: what a safe snapshot takes of it.
    pub(crate) fn write_set(&self, world: &World) -> WriteSet {
        let writes = self.writes.iter().map(|writes| TableWrites {
            table: writes.table,
            rows: Delta::from_sorted(writes.rows.clone()),
            indexes: writes.indexes.iter().map(|changes| Delta::from_sorted(changes.clone())).collect(),
        });
        let mut epochs: Vec<Epoch> = self.bricks.iter().map(|change| change.epoch).collect();
        epochs.dedup();
        WriteSet::replayed(world, writes, epochs)
    }
}

/// A transaction's changes of one table, read back; each list ascends by key.
#[derive(Clone, Debug)]
pub(crate) struct ReplayedWrites {
    pub(crate) table: SpaceId,
    pub(crate) rows: Vec<(Key, DeltaEntry)>,
    pub(crate) indexes: Vec<Vec<(Key, DeltaEntry)>>,
}

/// Where the chunks of a bulk load lie.
#[derive(Debug)]
pub(crate) struct LoadPlaces {
    pub(crate) table: SpaceId,
    /// The rows', then each index's.
    pub(crate) segments: Vec<SegmentRef>,
}

/// Where the entries of a new index lie.
#[derive(Debug)]
pub(crate) struct IndexPlace {
    pub(crate) index: SpaceId,
    pub(crate) segment: SegmentRef,
    /// Where those of rows are that the transaction has loaded.
    pub(crate) loaded: LoadedEntries,
    /// What has changed of them since they were written, in this order; none if the index is to be built of the rows, whatever
    /// the file says.
    pub(crate) changes: Option<Vec<Delta>>,
}

/// The record does not read back: damage that the checksum did not see, or a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a log record is malformed at byte {offset}")]
pub(crate) struct MalformedRecord {
    pub(crate) offset: usize,
}

/// The size of a batch's record, given those of its bodies.
pub(crate) fn batch_bytes(bodies: impl Iterator<Item = usize>) -> usize {
    bodies.map(|body| TRANSACTION_HEAD_BYTES + body).sum::<usize>() + BATCH_HEAD_BYTES
}

/// Encodes what a transaction changed.
pub(crate) fn encode_body(submission: &Submission, out: &mut Vec<u8>) {
    put_u32(out, submission.catalog_changes.len());
    for change in &submission.catalog_changes {
        let json = serde_json::to_vec(change).expect("definitions are plain data");
        put_u32(out, json.len());
        out.extend_from_slice(&json);
    }
    put_u32(out, submission.loads.len());
    for load in &submission.loads {
        encode_load(load, out);
    }
    if submission.has_index_files() {
        encode_index_files(submission, out);
    }
    put_u32(out, submission.writes.len());
    for writes in &submission.writes {
        put_u32(out, writes.table.get() as usize);
        encode_changes(&writes.rows, out);
        put_u32(out, writes.indexes.len());
        for changes in &writes.indexes {
            encode_changes(changes, out);
        }
    }
    let bricks = &submission.bricks.changes;
    if !bricks.is_empty() {
        put_u32(out, bricks.len());
        for change in bricks {
            put_u32(out, change.table.get() as usize);
            out.extend_from_slice(&change.epoch.get().to_le_bytes());
            put_u32(out, change.bytes.len());
            out.extend_from_slice(&change.bytes);
        }
    }
}

fn encode_load(load: &BulkLoad, out: &mut Vec<u8>) {
    assert!(!load.segments().is_empty(), "the chunks of a load are written before it is logged");
    put_u32(out, load.table().get() as usize);
    put_u32(out, load.segments().len());
    load.segments().iter().for_each(|segment| encode_segment(*segment, out));
}

fn encode_segment(segment: SegmentRef, out: &mut Vec<u8>) {
    out.extend_from_slice(&segment.number.to_le_bytes());
    out.extend_from_slice(&segment.footer_checksum.to_le_bytes());
}

fn encode_index_files(submission: &Submission, out: &mut Vec<u8>) {
    put_u32(out, submission.index_files().count());
    for (rebuilt, file) in submission.index_files() {
        put_u32(out, rebuilt.index.get() as usize);
        encode_segment(file.segment, out);
        out.push(match rebuilt.loaded {
            LoadedEntries::Apart => LOADED_APART,
            LoadedEntries::Merged => LOADED_MERGED,
        });
        put_u32(out, file.changes.len());
        out.extend_from_slice(&file.changes);
    }
}

/// The size of what [`encode_changes`] makes of entries of an index. Costs a step for each.
pub(crate) fn changes_bytes(changes: &Delta) -> usize {
    let of_entry = |key: &Key| 1 + size_of::<u32>() + key.as_slice().len();
    size_of::<u32>() + changes.iter().map(|(key, _)| of_entry(key)).sum::<usize>()
}

/// Encodes what became of rows or entries.
pub(crate) fn encode_changes(changes: &Delta, out: &mut Vec<u8>) {
    put_u32(out, changes.len());
    for (key, entry) in changes.iter() {
        let code = match entry.change() {
            Change::Inserted => CHANGE_INSERTED,
            Change::Replaced => CHANGE_REPLACED,
            Change::Deleted => CHANGE_DELETED,
        };
        out.push(code | if entry.row().is_some() { HAS_ROW } else { 0 });
        put_u32(out, key.as_slice().len());
        out.extend_from_slice(key.as_slice());
        if let Some(row) = entry.row() {
            put_u32(out, row.as_bytes().len());
            out.extend_from_slice(row.as_bytes());
        }
    }
}

fn put_u32(out: &mut Vec<u8>, number: usize) {
    let number = u32::try_from(number).expect("lengths in a log record are below 4 GiB");
    out.extend_from_slice(&number.to_le_bytes());
}

/// Encodes a batch of these transactions: the version of the first out-edge of each, and its body.
pub(crate) fn encode_batch<'a>(
    version: Version,
    boundary: Version,
    transactions: impl ExactSizeIterator<Item = (Option<Version>, &'a [u8])>,
    out: &mut Vec<u8>,
) {
    encode_versions(KIND_BATCH, version, boundary, out);
    put_u32(out, transactions.len());
    for (first_out, body) in transactions {
        encode_transaction_head(version, first_out, body.len(), out);
        out.extend_from_slice(body);
    }
}

fn encode_versions(kind: u8, version: Version, boundary: Version, out: &mut Vec<u8>) {
    assert!(boundary < version, "a boundary lies among the versions before");
    out.push(kind);
    out.extend_from_slice(&version.get().to_le_bytes());
    out.extend_from_slice(&boundary.get().to_le_bytes());
}

fn encode_transaction_head(
    version: Version,
    first_out: Option<Version>,
    body_bytes: usize,
    out: &mut Vec<u8>,
) {
    let first_out = first_out.unwrap_or(Version::ZERO);
    assert!(first_out <= version, "an out-edge leads to a commit before");
    out.extend_from_slice(&first_out.get().to_le_bytes());
    put_u32(out, body_bytes);
}

/// Encodes a batch of one transaction but for its body, which comes behind.
pub(crate) fn encode_batch_of_one(
    version: Version,
    boundary: Version,
    first_out: Option<Version>,
    body_bytes: usize,
    out: &mut Vec<u8>,
) {
    encode_versions(KIND_BATCH, version, boundary, out);
    put_u32(out, 1);
    encode_transaction_head(version, first_out, body_bytes, out);
}

/// As [`encode_batch_of_one`], of a transaction whose body names files of new indexes.
pub(crate) fn encode_batch_with_indexes(
    version: Version,
    boundary: Version,
    late: &[LateIndex],
    first_out: Option<Version>,
    body_bytes: usize,
    out: &mut Vec<u8>,
) {
    encode_versions(KIND_BATCH_WITH_INDEXES, version, boundary, out);
    encode_late_entries(late, out);
    put_u32(out, 1);
    encode_transaction_head(version, first_out, body_bytes, out);
}

fn encode_late_entries(late: &[LateIndex], out: &mut Vec<u8>) {
    let length_at = out.len();
    put_u32(out, 0);
    let start = out.len();
    put_u32(out, late.len());
    for LateIndex { index, entries } in late {
        put_u32(out, index.get() as usize);
        match entries {
            LateEntries::OfRows => out.push(LATE_OF_ROWS),
            LateEntries::Changes(changes) => {
                out.push(LATE_CHANGES);
                encode_changes(changes, out);
            }
        }
    }
    let length = u32::try_from(out.len() - start).expect("late entries are bounded");
    out[length_at..start].copy_from_slice(&length.to_le_bytes());
}

/// The bytes of a record that [`encode_boundary`] makes.
pub(crate) const BOUNDARY_BYTES: usize = 1 + size_of::<u64>();
/// The bytes of a record that [`encode_time`] makes.
pub(crate) const TIME_BYTES: usize = 1 + size_of::<u64>();
/// The bytes of a record that [`encode_ended`] makes.
pub(crate) const ENDED_BYTES: usize = 1 + size_of::<u64>();
/// The bytes of a record that [`encode_sequence`] makes.
pub(crate) const SEQUENCE_BYTES: usize = 1 + size_of::<u32>() + size_of::<i64>() + 1;

/// Encodes a heartbeat.
pub(crate) fn encode_boundary(boundary: Version, out: &mut Vec<u8>) {
    out.push(KIND_BOUNDARY);
    out.extend_from_slice(&boundary.get().to_le_bytes());
}

/// Encodes what time it is.
pub(crate) fn encode_time(time: LogTime, out: &mut Vec<u8>) {
    out.push(KIND_TIME);
    out.extend_from_slice(&time.micros().to_le_bytes());
}

/// Encodes up to where epochs have ended.
pub(crate) fn encode_ended(epoch: Epoch, out: &mut Vec<u8>) {
    out.push(KIND_ENDED);
    out.extend_from_slice(&epoch.get().to_le_bytes());
}

/// Encodes the beginning of a term.
pub(crate) fn encode_term(term: Term, out: &mut Vec<u8>) {
    out.push(KIND_TERM);
    for number in [term.number, term.id, term.start.get()] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

/// What a record says of the log as a whole. Reads no row.
///
/// # Errors
/// If the bytes are not a record.
pub(crate) fn decode_mark(bytes: &[u8]) -> Result<LogMark, MalformedRecord> {
    let mut reader = Reader { bytes, at: 0 };
    Ok(match reader.u8()? {
        KIND_BATCH | KIND_BATCH_WITH_INDEXES => LogMark::Batch(Version::new(reader.u64()?)),
        KIND_TERM => LogMark::Term(Term::from((reader.u64()?, reader.u64()?, reader.u64()?))),
        KIND_TIME => LogMark::Time(LogTime::from_micros(reader.u64()?)),
        KIND_SEQUENCE | KIND_BOUNDARY | KIND_ENDED => LogMark::Other,
        _ => return Err(MalformedRecord { offset: 0 }),
    })
}

/// How many transactions a record has. Reads no row.
///
/// # Errors
/// If the bytes are not a record.
pub(crate) fn decode_count(bytes: &[u8]) -> Result<u32, MalformedRecord> {
    let mut reader = Reader { bytes, at: 0 };
    match reader.batch_head()? {
        Some(_) => reader.u32(),
        None => Ok(0),
    }
}

/// The version of a batch, and the segment files that it names; none for another record. Reads no row: a transaction with
/// a bulk load or a new index is alone in its batch.
///
/// # Errors
/// If the bytes are not a record.
pub(crate) fn decode_places(bytes: &[u8]) -> Result<Option<(Version, Vec<SegmentRef>)>, MalformedRecord> {
    let mut reader = Reader { bytes, at: 0 };
    let Some(BatchHead { version, late, .. }) = reader.batch_head()? else { return Ok(None) };
    if reader.u32()? != 1 {
        return Ok(Some((version, Vec::new())));
    }
    let (_, _) = (reader.u64()?, reader.u32()?);
    for _ in 0..reader.u32()? {
        reader.prefixed()?;
    }
    let loads: Vec<LoadPlaces> = (0..reader.u32()?).map(|_| reader.load()).collect::<Result<_, _>>()?;
    let mut segments: Vec<SegmentRef> = loads.into_iter().flat_map(|load| load.segments).collect();
    if late.is_some() {
        for _ in 0..reader.u32()? {
            let (_, segment) = (reader.u32()?, reader.segment()?);
            let (_, _) = (reader.u8()?, reader.prefixed()?);
            segments.push(segment);
        }
    }
    Ok(Some((version, segments)))
}

/// The definitions that a record changes, in order. Reads no row.
///
/// # Errors
/// If the bytes are not a record.
pub(crate) fn decode_definitions(bytes: &[u8]) -> Result<Vec<CatalogChange>, MalformedRecord> {
    let mut reader = Reader { bytes, at: 0 };
    let mut definitions = Vec::new();
    if reader.batch_head()?.is_none() {
        return Ok(definitions);
    }
    for _ in 0..reader.u32()? {
        let _ = reader.u64()?;
        let end = reader.u32()? as usize + reader.at;
        for _ in 0..reader.u32()? {
            definitions.push(reader.definition()?);
        }
        let rest = end.checked_sub(reader.at).ok_or_else(|| reader.malformed())?;
        reader.slice(rest)?;
    }
    Ok(definitions)
}

/// The version of the earliest commit that a transaction of a record has an antidependency to. Reads no row.
///
/// # Errors
/// If the bytes are not a record.
pub(crate) fn decode_earliest_out(bytes: &[u8]) -> Result<Option<Version>, MalformedRecord> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.batch_head()?.is_none() {
        return Ok(None);
    }
    let mut earliest: Option<Version> = None;
    for _ in 0..reader.u32()? {
        let first_out = Version::new(reader.u64()?);
        let length = reader.u32()? as usize;
        reader.slice(length)?;
        if first_out > Version::ZERO {
            earliest = Some(earliest.map_or(first_out, |earliest| earliest.min(first_out)));
        }
    }
    Ok(earliest)
}

/// Encodes how far a sequence may be used up: after a crash it goes on at `next`.
pub(crate) fn encode_sequence(id: SequenceId, next: Option<i64>, out: &mut Vec<u8>) {
    out.push(KIND_SEQUENCE);
    out.extend_from_slice(&id.get().to_le_bytes());
    out.extend_from_slice(&next.unwrap_or_default().to_le_bytes());
    out.push(u8::from(next.is_some()));
}

/// Reads a record back.
///
/// # Errors
/// If the bytes are not a record.
pub(crate) fn decode(bytes: &[u8]) -> Result<Record, MalformedRecord> {
    let mut reader = Reader { bytes, at: 0 };
    if let Some(head) = reader.batch_head()? {
        let record = reader.batch(head)?;
        return if reader.is_at_end() { Ok(record) } else { Err(reader.malformed()) };
    }
    let mut reader = Reader { bytes, at: 0 };
    let record = match reader.u8()? {
        KIND_SEQUENCE => {
            let id = SequenceId::new(reader.u32()?);
            let next = i64::from_le_bytes(reader.array()?);
            let next = (reader.u8()? != 0).then_some(next);
            Record::Sequence { id, next }
        }
        KIND_BOUNDARY => Record::Boundary(Version::new(reader.u64()?)),
        KIND_TIME => Record::Time(LogTime::from_micros(reader.u64()?)),
        KIND_ENDED => Record::Ended(reader.epoch()?),
        KIND_TERM => Record::Term(Term::from((reader.u64()?, reader.u64()?, reader.u64()?))),
        _ => return Err(MalformedRecord { offset: 0 }),
    };
    if reader.is_at_end() { Ok(record) } else { Err(reader.malformed()) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// What comes before the transactions of a batch.
struct BatchHead<'a> {
    version: Version,
    boundary: Version,
    /// The late entries of one with index files.
    late: Option<Reader<'a>>,
}

/// Whether the body of a transaction names files of new indexes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyForm {
    Plain,
    WithIndexFiles,
}

impl<'a> Reader<'a> {
    fn malformed(&self) -> MalformedRecord {
        MalformedRecord { offset: self.at }
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8], MalformedRecord> {
        let end = self.at.checked_add(length).ok_or(MalformedRecord { offset: self.at })?;
        let slice = self.bytes.get(self.at..end).ok_or(MalformedRecord { offset: self.at })?;
        self.at = end;
        Ok(slice)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedRecord> {
        let mut out = [0; N];
        out.copy_from_slice(self.slice(N)?);
        Ok(out)
    }

    fn u8(&mut self) -> Result<u8, MalformedRecord> {
        Ok(self.array::<1>()?[0])
    }

    fn u32(&mut self) -> Result<u32, MalformedRecord> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    fn u64(&mut self) -> Result<u64, MalformedRecord> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn prefixed(&mut self) -> Result<&'a [u8], MalformedRecord> {
        let length = self.u32()?;
        self.slice(length as usize)
    }

    fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// A reader of as many of the next bytes as the length before them says.
    fn part(&mut self) -> Result<Self, MalformedRecord> {
        let length = self.u32()? as usize;
        let (bytes, at) = (self.bytes, self.at);
        self.slice(length)?;
        Ok(Self { bytes: &bytes[..self.at], at })
    }

    /// Of another record none; then the place is not where it was.
    fn batch_head(&mut self) -> Result<Option<BatchHead<'a>>, MalformedRecord> {
        let kind = self.u8()?;
        if !matches!(kind, KIND_BATCH | KIND_BATCH_WITH_INDEXES) {
            return Ok(None);
        }
        let (version, boundary) = (Version::new(self.u64()?), Version::new(self.u64()?));
        let late = if kind == KIND_BATCH { None } else { Some(self.part()?) };
        Ok(Some(BatchHead { version, boundary, late }))
    }

    fn batch(&mut self, head: BatchHead<'_>) -> Result<Record, MalformedRecord> {
        let BatchHead { version, boundary, late } = head;
        if boundary >= version {
            return Err(self.malformed());
        }
        let form = if late.is_none() { BodyForm::Plain } else { BodyForm::WithIndexFiles };
        let count = self.u32()?;
        let transactions = (0..count).map(|_| self.transaction(version, form));
        let mut transactions: Vec<Replayed> = transactions.collect::<Result<_, _>>()?;
        if let Some(late) = late {
            let [transaction] = &mut transactions[..] else { return Err(self.malformed()) };
            late.late_entries(&mut transaction.indexes)?;
        }
        Ok(Record::Batch { version, boundary, transactions })
    }

    /// Puts late entries behind what has changed of these indexes.
    fn late_entries(mut self, indexes: &mut [IndexPlace]) -> Result<(), MalformedRecord> {
        for _ in 0..self.u32()? {
            let malformed = self.malformed();
            let index = SpaceId::new(self.u32()?);
            let place = indexes.iter_mut().find(|place| place.index == index).ok_or(malformed)?;
            match self.u8()? {
                LATE_OF_ROWS => place.changes = None,
                LATE_CHANGES => place.changes.as_mut().ok_or(malformed)?.push(self.entry_changes()?),
                _ => return Err(malformed),
            }
        }
        if self.is_at_end() { Ok(()) } else { Err(self.malformed()) }
    }

    fn transaction(&mut self, version: Version, form: BodyForm) -> Result<Replayed, MalformedRecord> {
        let first_out = match Version::new(self.u64()?) {
            Version::ZERO => None,
            later if later > version => return Err(self.malformed()),
            first_out => Some(first_out),
        };
        let end = self.u32()? as usize + self.at;
        let catalog_changes = (0..self.u32()?).map(|_| self.definition()).collect::<Result<_, _>>()?;
        let loads = (0..self.u32()?).map(|_| self.load()).collect::<Result<_, _>>()?;
        let indexes = match form {
            BodyForm::Plain => Vec::new(),
            BodyForm::WithIndexFiles => {
                (0..self.u32()?).map(|_| self.index_file()).collect::<Result<_, _>>()?
            }
        };
        let writes = (0..self.u32()?).map(|_| self.writes()).collect::<Result<_, _>>()?;
        let bricks = if self.at < end {
            (0..self.u32()?).map(|_| self.brick_change()).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        if self.at != end {
            return Err(self.malformed());
        }
        Ok(Replayed { first_out, catalog_changes, loads, indexes, writes, bricks })
    }

    fn brick_change(&mut self) -> Result<BrickChange, MalformedRecord> {
        let table = SpaceId::new(self.u32()?);
        let epoch = self.epoch()?;
        let bytes = self.prefixed()?.to_vec();
        Ok(BrickChange { table, epoch, bytes })
    }

    fn epoch(&mut self) -> Result<Epoch, MalformedRecord> {
        match self.u64()? {
            number if (1..=Epoch::MAX.get()).contains(&number) => Ok(Epoch::new(number)),
            _ => Err(self.malformed()),
        }
    }

    fn definition(&mut self) -> Result<CatalogChange, MalformedRecord> {
        let offset = self.at;
        serde_json::from_slice(self.prefixed()?).map_err(|_| MalformedRecord { offset })
    }

    fn load(&mut self) -> Result<LoadPlaces, MalformedRecord> {
        let table = SpaceId::new(self.u32()?);
        let segments = (0..self.u32()?).map(|_| self.segment()).collect::<Result<_, _>>()?;
        Ok(LoadPlaces { table, segments })
    }

    fn segment(&mut self) -> Result<SegmentRef, MalformedRecord> {
        Ok(SegmentRef { number: self.u64()?, footer_checksum: self.u32()? })
    }

    fn index_file(&mut self) -> Result<IndexPlace, MalformedRecord> {
        let (index, segment) = (SpaceId::new(self.u32()?), self.segment()?);
        let loaded = match self.u8()? {
            LOADED_APART => LoadedEntries::Apart,
            LOADED_MERGED => LoadedEntries::Merged,
            _ => return Err(self.malformed()),
        };
        let mut lists = self.part()?;
        let mut changes = Vec::new();
        while !lists.is_at_end() {
            changes.push(lists.entry_changes()?);
        }
        Ok(IndexPlace { index, segment, loaded, changes: Some(changes) })
    }

    /// Changes of an index, whose entries have no rows.
    fn entry_changes(&mut self) -> Result<Delta, MalformedRecord> {
        let changes = self.changes()?;
        if changes.iter().any(|(_, entry)| entry.row().is_some()) {
            return Err(self.malformed());
        }
        Ok(Delta::from_sorted(changes))
    }

    fn writes(&mut self) -> Result<ReplayedWrites, MalformedRecord> {
        let table = SpaceId::new(self.u32()?);
        let rows = self.changes()?;
        let indexes = (0..self.u32()?).map(|_| self.changes()).collect::<Result<_, _>>()?;
        Ok(ReplayedWrites { table, rows, indexes })
    }

    fn changes(&mut self) -> Result<Vec<(Key, DeltaEntry)>, MalformedRecord> {
        let count = self.u32()?;
        let mut entries: Vec<(Key, DeltaEntry)> = Vec::new();
        for _ in 0..count {
            let offset = self.at;
            let code = self.u8()?;
            let key = Key::from_slice(self.prefixed()?);
            let row = if code & HAS_ROW == 0 { None } else { Some(Row::from_bytes(self.prefixed()?)) };
            let entry = match (code & !HAS_ROW, row) {
                (CHANGE_INSERTED, row) => DeltaEntry::inserted(row),
                (CHANGE_REPLACED, Some(row)) => DeltaEntry::replaced(row, BasePosition::UNKNOWN),
                (CHANGE_DELETED, None) => DeltaEntry::deleted(BasePosition::UNKNOWN),
                _ => return Err(MalformedRecord { offset }),
            };
            if entries.last().is_some_and(|(last, _)| *last >= key) {
                return Err(MalformedRecord { offset });
            }
            entries.push((key, entry));
        }
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
