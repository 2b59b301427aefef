// SPDX-License-Identifier: Apache-2.0
//! What fuzzers call (`tests/fuzz`): the readers of each kind of file, on any bytes.
//!
//! Each function returns whatever the bytes are, and panics only if a reader is wrong: a reader answers with contents or
//! with an error, and takes no more memory than some 2,000 times the bytes. Checksums keep most wrong bytes from the
//! readers; so they are made right here, or passed over.

use crate::brick_def::{BrickDef, BrickDimension};
use crate::bricks::{BrickChange, BrickRows, Bricks, restore_round};
use crate::catalog::{ColumnDef, QualifiedName, TableDef};
use crate::clock::LogTime;
use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::ids::SpaceId;
use crate::log::{ChecksumPolicy, Found, Lsn, walk};
use crate::manifest::Manifest;
use crate::record::{self, Record};
use crate::segment::{
    Segment, SegmentRef, decode_coded_column, decode_column, decode_packed_column, encode_column,
    segment_path,
};
use crate::types::{ColumnType, ElementType};
use arrow::array::Array;
use arrow::compute::cast;
use coeval_txn::Epoch;
use crc32c::crc32c;
use std::convert::Infallible;
use std::path::Path;
use std::sync::{Arc, OnceLock};

const DIR: &str = "/db";

/// A disk with one file.
fn disk_with(path: &Path, bytes: &[u8]) -> SimulatedFiles {
    let files = SimulatedFiles::new(1);
    let made = files.create_dir_all(path.parent().unwrap_or(path));
    let written = made.and_then(|()| files.open(path, OpenMode::Create)?.write_all_at(0, bytes));
    written.expect("a simulated disk without faults takes what it is given");
    files
}

/// A log record. What says nothing of rows is written again as it was.
///
/// # Panics
/// If it is not.
pub fn log_record(bytes: &[u8]) {
    let mut again = Vec::new();
    match record::decode(bytes) {
        Ok(Record::Sequence { id, next: Some(next) }) => {
            record::encode_sequence(id, Some(next), &mut again);
            // Any byte but zero says that there is a next number.
            assert_eq!(
                again[..again.len() - 1],
                bytes[..bytes.len() - 1],
                "a record is written as it was read"
            );
        }
        Ok(Record::Boundary(boundary)) => {
            record::encode_boundary(boundary, &mut again);
            assert_eq!(again, bytes, "a record is written as it was read");
        }
        Ok(Record::Ended(epoch)) => {
            record::encode_ended(epoch, &mut again);
            assert_eq!(again, bytes, "a record is written as it was read");
        }
        Ok(Record::Time(time)) => {
            record::encode_time(time, &mut again);
            assert_eq!(again, bytes, "a record is written as it was read");
        }
        Ok(Record::Term(term)) => {
            record::encode_term(term, &mut again);
            assert_eq!(again, bytes, "a record is written as it was read");
        }
        Ok(Record::Batch { .. }) => {
            drop(record::decode_places(bytes).expect("what reads whole reads in part"))
        }
        Ok(Record::Sequence { .. }) | Err(_) => {}
    }
}

/// A file of the log, whatever its checksums say: its records are read as such.
pub fn log_file(bytes: &[u8]) {
    let dir = Path::new(DIR);
    let files = disk_with(&crate::log::segment_path(dir, Lsn::START), bytes);
    let mut replay = |_: Lsn, payload: &[u8]| -> Result<(), Infallible> {
        log_record(payload);
        Ok(())
    };
    let found = Found { segments: vec![Lsn::START], noted: None };
    for checksums in [ChecksumPolicy::Verified, ChecksumPolicy::IgnoredOnPurpose] {
        // Damage is an answer.
        drop(walk(&files, dir, &found, Lsn::START, checksums, &mut replay));
    }
}

/// The body of a manifest, in a file whose header fits it, and the bytes as a whole file. One that can be read is written
/// and read again as it is.
///
/// # Panics
/// If it is another one then.
pub fn manifest(bytes: &[u8]) {
    let path = Path::new(DIR);
    drop(Manifest::decode(bytes, path, ChecksumPolicy::IgnoredOnPurpose));
    if let Ok(manifest) = serde_json::from_slice::<Manifest>(bytes) {
        let written = manifest.encode();
        let again = Manifest::decode(&written, path, ChecksumPolicy::Verified);
        assert_eq!(again.expect("what was written can be read"), manifest, "a manifest stays as it is");
        drop(manifest.flushed_epochs());
    }
}

/// A segment file whose footer fits its checksum. Chunks have to fit theirs: [`column`] is for what they hold.
pub fn segment(bytes: &[u8]) {
    let dir = Path::new(DIR);
    let files = disk_with(&segment_path(dir, 1), bytes);
    let footer = footer_of(bytes).map(crc32c).unwrap_or_default();
    let reference = SegmentRef { number: 1, footer_checksum: footer };
    let files: Arc<dyn FileSystem> = Arc::new(files);
    let opened = Segment::open(&files, dir, reference, ChecksumPolicy::Verified, &Arc::default());
    let Ok(segment) = opened else { return };
    for batch in 0..u32::try_from(segment.chunk_count()).expect("a small file has few chunks") {
        drop(segment.check_chunk(batch));
    }
}

/// From the footer of a segment file to its end.
fn footer_of(bytes: &[u8]) -> Option<&[u8]> {
    let (before, trailer) = bytes.split_at(bytes.len().checked_sub(10)?);
    let length = u32::from_le_bytes(*trailer.first_chunk::<4>()?) as usize;
    bytes.get(before.len().checked_sub(length)?..)
}

/// An encoded column of a chunk: a byte for its type, two for the number of rows, and the column. One that can be read is
/// written and read again as it is.
///
/// # Panics
/// If it is another one then.
pub fn column(bytes: &[u8]) {
    let Some(([ty, low, high], bytes)) = bytes.split_first_chunk::<3>() else { return };
    let types = [
        ColumnType::Int,
        ColumnType::BigInt,
        ColumnType::Numeric { precision: 38, scale: 2 },
        ColumnType::AnyNumeric,
        ColumnType::Double,
        ColumnType::Boolean,
        ColumnType::Text,
        ColumnType::Bytea,
        ColumnType::Interval,
        ColumnType::Uuid,
        ColumnType::Array(ElementType::Text),
        ColumnType::Array(ElementType::SmallInt),
    ];
    let data_type = types[usize::from(*ty) % types.len()].arrow();
    let rows = usize::from(u16::from_le_bytes([*low, *high]));
    let coded = decode_coded_column(&data_type, rows, bytes);
    let packed = decode_packed_column(&data_type, rows, bytes);
    let Ok(array) = decode_column(&data_type, rows, bytes) else { return };
    assert_eq!(array.len(), rows, "a column has as many values as it should");
    let texts = cast(&coded.expect("what has texts has their codes"), &data_type);
    let texts = texts.expect("codes are of texts");
    assert_eq!(texts.to_data(), array.to_data(), "codes are of the same texts");
    let packed = packed.expect("what can be read can be read for scans").array();
    let packed = packed.expect("integers of few bytes, and codes, are an array of the type");
    assert_eq!(packed.to_data(), array.to_data(), "they are of the same values");
    let mut again = Vec::new();
    encode_column(array.as_ref(), &mut again);
    let read = decode_column(&data_type, rows, &again).expect("what was written can be read");
    assert_eq!(read.to_data(), array.to_data(), "a column stays as it is");
}

/// What the log and the flush rounds hold of a brick table: the first byte says which of the two the others are.
pub fn brick_rows(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let rows = empty_brick_table();
    if kind % 2 == 0 {
        let _ = restore_round(&rows, bytes, |_| false);
    } else {
        let change = BrickChange { table: SpaceId::new(1), epoch: Epoch::new(1), bytes: bytes.to_vec() };
        drop(rows.replay(&change, LogTime::ZERO));
    }
}

fn empty_brick_table() -> Arc<BrickRows> {
    static BRICKS: OnceLock<Bricks> = OnceLock::new();
    let columns = [("region", ColumnType::Text), ("day", ColumnType::Int), ("amount", ColumnType::BigInt)];
    let columns = columns.map(|(name, ty)| ColumnDef::new(name, ty)).to_vec();
    let mut def = TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns, vec![0]);
    let dimension = |column, cardinality| BrickDimension { column, cardinality, range_size: 4, origin: 0 };
    def.bricks = Some(BrickDef {
        dimensions: vec![dimension(0, 64), dimension(1, 64)],
        retention: None,
        replicas: None,
    });
    let bricks = BRICKS.get_or_init(Bricks::new);
    bricks.prepare(&def).expect("the table of this file is a brick table");
    bricks.rows_of(&def).expect("the table of this file is a brick table")
}
