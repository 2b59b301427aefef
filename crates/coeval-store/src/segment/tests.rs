// SPDX-License-Identifier: Apache-2.0
//! Segments come back as they were written; damage is named.

use super::index::{IndexVersion, decode_index, encode_index};
use super::{KeyForm, Segment, SegmentRef, SegmentWriter, parse_segment_name, segment_path, write_segment};
use crate::chunk::Chunk;
use crate::column::ColumnBuilder;
use crate::disk::{Disk, chunks_of};
use crate::error::StoreError;
use crate::files::{FileSystem, OpenMode, SimulatedFiles};
use crate::key_column::KeyColumnBuilder;
use crate::log::ChecksumPolicy;
use crate::types::{ColumnType, ElementType};
use crate::value::{AnyNumber, IntervalValue, ListEncoder, NumberClass, Value, kept_zoned_time};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::FileReader;
use proptest::prelude::*;
use std::io::Cursor;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

const DIR: &str = "/db";

fn disk(files: &SimulatedFiles) -> Disk {
    let dir = Path::new(DIR);
    files.create_dir_all(&dir.join("segments")).unwrap();
    let lock = files.lock(dir).unwrap();
    Disk::new(Arc::new(files.clone()), dir.to_path_buf(), lock, ChecksumPolicy::Verified, 1)
}

const TYPES: [ColumnType; 18] = [
    ColumnType::SmallInt,
    ColumnType::Int,
    ColumnType::BigInt,
    ColumnType::Real,
    ColumnType::Double,
    ColumnType::Numeric { precision: 20, scale: 3 },
    ColumnType::AnyNumeric,
    ColumnType::Boolean,
    ColumnType::Text,
    ColumnType::Bytea,
    ColumnType::Varbit(None),
    ColumnType::TimeTz,
    ColumnType::TimestampTz,
    ColumnType::Interval,
    ColumnType::Uuid,
    ColumnType::PgLsn,
    ColumnType::Array(ElementType::Text),
    ColumnType::Array(ElementType::Int),
];

fn value(ty: ColumnType, n: u32) -> Value {
    if n % 5 == 3 {
        return Value::Null;
    }
    match ty {
        ColumnType::SmallInt => Value::Int16(n as i16 - 7),
        ColumnType::Int => Value::Int32(-(n as i32)),
        ColumnType::BigInt | ColumnType::TimestampTz | ColumnType::PgLsn => Value::Int64(i64::from(n) << 33),
        ColumnType::Real => Value::Float32(n as f32 / 3.0),
        ColumnType::Double => Value::Float64(f64::from(n) / -7.0),
        ColumnType::Numeric { .. } => Value::Decimal(i128::from(n) << 50),
        ColumnType::AnyNumeric => Value::Number(AnyNumber::finite(
            NumberClass::Negative,
            &[7, n as u8 % 100, 30],
            1,
            4 + n as u16 % 3,
        )),
        ColumnType::Boolean => Value::Boolean(n.is_multiple_of(2)),
        ColumnType::Text => Value::from("long enough to lie outside of the view ".repeat(n as usize % 3)),
        ColumnType::TimeTz => Value::Bytes(kept_zoned_time(i64::from(n), n as i32).into()),
        ColumnType::Bytea | ColumnType::Varbit(_) => Value::Bytes(vec![n as u8; n as usize % 20].into()),
        ColumnType::Interval => Value::Interval(IntervalValue { months: 1, days: n as i32, nanoseconds: -1 }),
        ColumnType::Array(element) => {
            let mut list = ListEncoder::default();
            (0..n % 4).for_each(|member| list.push(value(element.column_type(), n + member).borrow()));
            list.value()
        }
        _ => Value::Uuid([n as u8; 16]),
    }
}

/// Keys of one length, or of many.
#[derive(Clone, Copy)]
enum Keys {
    Fixed,
    Mixed,
}

fn chunk(ids: Range<u32>, form: Keys) -> Arc<Chunk> {
    let mut keys = KeyColumnBuilder::with_capacity(ids.len());
    for id in ids.clone() {
        let mut key = id.to_be_bytes().to_vec();
        if let Keys::Mixed = form {
            key.extend(std::iter::repeat_n(9, id as usize % 4));
        }
        keys.push(&key);
    }
    let columns = TYPES.map(|ty| {
        let mut builder = ColumnBuilder::new(ty, ids.len());
        ids.clone().for_each(|id| builder.push(value(ty, id).borrow()));
        builder.finish()
    });
    Arc::new(Chunk::new(keys.finish(), columns.to_vec()))
}

fn assert_same(read: &Chunk, written: &Chunk) {
    assert_eq!(read.stats(), written.stats());
    assert_eq!((read.first_key(), read.last_key()), (written.first_key(), written.last_key()));
    assert_eq!(read.keys().len(), written.keys().len());
    assert!((0..read.rows()).all(|row| read.keys().get(row) == written.keys().get(row)));
    assert_eq!(read.column_count(), written.column_count());
    for column in 0..read.column_count() {
        assert_eq!(read.column(column), written.column(column), "column {column}");
    }
}

#[test]
fn chunks_of_all_types_come_back_as_they_were_written() {
    for form in [Keys::Fixed, Keys::Mixed] {
        let files = SimulatedFiles::new(1);
        let disk = disk(&files);
        let chunks = [chunk(0..1, form), chunk(10..40, form), chunk(100..101, form)];
        let reference = write_segment(disk.place(), 5, &chunks).unwrap();
        disk.sync_segments().unwrap();
        drop(disk);
        let files = files.crash();
        let disk = self::disk(&files);
        let segment = disk.open_segment(reference).unwrap();
        assert_eq!((segment.number(), segment.chunk_count()), (5, 3));
        for (read, written) in chunks_of(&segment).iter().zip(&chunks) {
            assert_same(read, written);
        }
        assert!((0..3).all(|batch| segment.check_chunk(batch).unwrap().is_none()));
        assert_eq!(files.list(&Path::new(DIR).join("segments")).unwrap(), ["00000000000000000005.arrow"]);
    }
}

/// To break it: read columns for their checksums, and again for what the index says of them.
#[test]
fn a_check_reads_each_part_of_a_chunk_once() {
    let files = SimulatedFiles::new(1);
    let disk = disk(&files);
    let reference = write_segment(disk.place(), 1, &[chunk(0..40, Keys::Fixed)]).unwrap();
    let segment = disk.open_segment(reference).unwrap();
    let calls = |read: &dyn Fn()| {
        let before = files.call_count();
        read();
        files.call_count() - before
    };
    let of_a_column = calls(&|| drop(segment.read_column(0, 0).unwrap()));
    let of_a_check = calls(&|| assert!(segment.check_chunk(0).unwrap().is_none()));
    assert!(of_a_column > 0);
    assert_eq!(of_a_check, of_a_column * (1 + TYPES.len() as u64), "the keys, and each column");
}

#[test]
fn an_arrow_reader_refuses_a_segment() {
    let (bytes, ..) = small_segment();
    // Not as a file without rows.
    assert!(FileReader::try_new(Cursor::new(bytes), None).is_err());
}

#[test]
fn what_a_chunk_takes_in_the_file_and_in_memory_is_known_before_it_is_read() {
    const ROWS: usize = 20_000;
    let texts = ["a text that is longer than a view", "another text"];
    let mut keys = KeyColumnBuilder::with_capacity(ROWS);
    let (mut numbers, mut names) =
        (ColumnBuilder::new(ColumnType::BigInt, ROWS), ColumnBuilder::new(ColumnType::Text, ROWS));
    for row in 0..ROWS {
        keys.push(&(row as u64).to_be_bytes());
        numbers.push(Value::Int64(row as i64 % 100).borrow());
        names.push(Value::from(texts[row % 2]).borrow());
    }
    let written = Arc::new(Chunk::new(keys.finish(), vec![numbers.finish(), names.finish()]));
    let files = SimulatedFiles::new(1);
    let disk = disk(&files);
    let reference = write_segment(disk.place(), 1, &[Arc::clone(&written)]).unwrap();
    let segment = disk.open_segment(reference).unwrap();
    let read = &chunks_of(&segment)[0];
    // As arrays that share nothing, whatever shares what in memory.
    assert_eq!(read.bytes(), written.bytes());
    let shared: usize = texts.iter().map(|text| text.len()).sum();
    assert_eq!(segment.chunk(0).memory_bytes(2), (ROWS * 16 + shared) as u64);
    let in_memory = ROWS * (8 + 8 + 16) + shared;
    assert!(read.stored_bytes() < in_memory / 8, "{} of {in_memory} bytes", read.stored_bytes());
    assert!(read.stored_bytes() as u64 <= files.len(segment.path()).unwrap());
    assert_eq!(segment.memory().bytes(), 0);
    assert_same(read, &written);
    assert_eq!(segment.memory().bytes(), in_memory as u64);
    assert_eq!(read.loaded_bytes(), in_memory as u64);
}

#[test]
fn a_segment_of_keys_of_one_length_takes_no_others() {
    let files = SimulatedFiles::new(1);
    let disk = disk(&files);
    let (fixed, mixed) = (chunk(0..8, Keys::Fixed), chunk(8..16, Keys::Mixed));
    let writer = SegmentWriter::create(disk.place(), 1, &*fixed, KeyForm::OfFirst).unwrap();
    assert!(writer.takes(&*fixed) && !writer.takes(&*mixed));
    let writer = SegmentWriter::create(disk.place(), 2, &*fixed, KeyForm::Variable).unwrap();
    assert!(writer.takes(&*fixed) && writer.takes(&*mixed));
    let reference = write_segment(disk.place(), 3, &[Arc::clone(&fixed), Arc::clone(&mixed)]).unwrap();
    let segment = disk.open_segment(reference).unwrap();
    let read = chunks_of(&segment);
    assert_same(&read[0], &fixed);
    assert_same(&read[1], &mixed);
}

#[test]
fn only_twenty_digits_and_the_suffix_are_a_segment_name() {
    assert_eq!(parse_segment_name("00000000000000000042.arrow"), Some(42));
    assert_eq!(parse_segment_name("00000000000000000042.arrow.tmp"), Some(42));
    for name in
        ["42.arrow", "00000000000000000042", "99999999999999999999.arrow", "0000000000000000004x.arrow", ""]
    {
        assert_eq!(parse_segment_name(name), None, "{name}");
    }
}

/// A small segment's bytes, its reference and its chunks.
fn small_segment() -> (Vec<u8>, SegmentRef, [Arc<Chunk>; 2]) {
    let files = SimulatedFiles::new(1);
    let disk = disk(&files);
    let chunks = [chunk(0..6, Keys::Mixed), chunk(6..13, Keys::Mixed)];
    let reference = write_segment(disk.place(), 1, &chunks).unwrap();
    (files.read(&segment_path(Path::new(DIR), 1)).unwrap(), reference, chunks)
}

/// Reads a segment of these bytes: everything in it, or the error, which must name the file and a place in it.
fn read_anything(bytes: &[u8], reference: SegmentRef) -> Option<Vec<Arc<Chunk>>> {
    let files = SimulatedFiles::new(1);
    let dir = Path::new(DIR);
    files.create_dir_all(&dir.join("segments")).unwrap();
    let path = segment_path(dir, reference.number);
    files.open(&path, OpenMode::Create).unwrap().write_all_at(0, bytes).unwrap();
    let read = || {
        let files: Arc<dyn FileSystem> = Arc::new(files.clone());
        let memory = Arc::default();
        let segment = Arc::new(Segment::open(&files, dir, reference, ChecksumPolicy::Verified, &memory)?);
        (0..segment.chunk_count() as u32).try_for_each(|batch| segment.check_chunk(batch).map(drop))?;
        Ok(chunks_of(&segment))
    };
    match read() {
        Ok(chunks) => Some(chunks),
        Err(StoreError::Corrupt { file, offset, .. }) => {
            assert_eq!(Path::new(&file), path);
            assert!(offset <= bytes.len() as u64, "offset {offset} of {} bytes", bytes.len());
            None
        }
        Err(error) => panic!("another error: {error}"),
    }
}

#[test]
fn every_flipped_byte_is_named_unless_nobody_reads_it() {
    let (bytes, reference, chunks) = small_segment();
    let mut named = 0;
    for place in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x40;
        match read_anything(&damaged, reference) {
            None => named += 1,
            Some(read) => read.iter().zip(&chunks).for_each(|(read, written)| assert_same(read, written)),
        }
    }
    // What nobody reads: the head of the file.
    let head = bytes.len() - named;
    assert!(head < bytes.len() / 4, "{head} of {} bytes are not checked", bytes.len());
}

#[test]
fn a_segment_with_another_footer_than_the_one_referred_to_is_damage() {
    let (bytes, reference, _) = small_segment();
    let other = SegmentRef { footer_checksum: reference.footer_checksum ^ 1, ..reference };
    assert!(read_anything(&bytes, other).is_none());
    assert!(read_anything(&bytes, reference).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_segments_are_an_error_or_what_was_written(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut bytes, reference, chunks) = small_segment();
        for (index, value) in changes {
            let place = index.index(bytes.len());
            bytes[place] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Some(read) = read_anything(&bytes, reference) {
            read.iter().zip(&chunks).for_each(|(read, written)| assert_same(read, written));
        }
    }

    #[test]
    fn the_index_of_a_footer_never_panics(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let files = SimulatedFiles::new(1);
        let disk = disk(&files);
        let reference = write_segment(disk.place(), 1, &[chunk(0..6, Keys::Mixed)]).unwrap();
        let segment = disk.open_segment(reference).unwrap();
        let mut text = encode_index(&[segment.chunk(0).clone()]).into_bytes();
        for (index, value) in changes {
            let place = index.index(text.len());
            text[place] = value;
        }
        let field = |(column, ty): (usize, ColumnType)| Field::new(format!("c{column}"), ty.arrow(), true);
        let key = Field::new("key", DataType::Binary, false);
        let columns = TYPES.into_iter().enumerate().map(field);
        let schema = Schema::new(std::iter::once(key).chain(columns).collect::<Vec<_>>());
        if let Ok(text) = std::str::from_utf8(&text) {
            let _ = decode_index(text, IndexVersion::Encoded, &schema);
            let _ = decode_index(text, IndexVersion::Arrow, &schema);
        }
    }
}
