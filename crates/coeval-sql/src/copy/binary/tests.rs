// SPDX-License-Identifier: Apache-2.0

use super::*;
use coeval_store::{ColumnDef, QualifiedName, SpaceId, value_at};

fn table() -> TableDef {
    let columns = vec![ColumnDef::new("a", ColumnType::Int), ColumnDef::new("b", ColumnType::Text)];
    TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns, vec![0])
}

fn file(rows: &[(Option<i32>, Option<&str>)]) -> Vec<u8> {
    let mut out = Vec::new();
    write_header(&mut out);
    for (a, b) in rows {
        let a = a.map_or(ValueRef::Null, ValueRef::Int32);
        let b = b.map_or(ValueRef::Null, ValueRef::Text);
        write_row([(a, ColumnType::Int), (b, ColumnType::Text)].into_iter(), &mut out).unwrap();
    }
    write_trailer(&mut out);
    out
}

fn decode(input: &[u8], piece: usize) -> Result<Vec<(Value, Value)>, SqlError> {
    let mut decoder = BinaryDecoder::new(&table(), &[0, 1]);
    let mut batches = Vec::new();
    for piece in input.chunks(piece) {
        decoder.feed(piece, &mut batches)?;
    }
    decoder.finish(&mut batches)?;
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| {
            let value = |column: usize| value_at(batch.column(column).as_ref(), row).to_owned();
            (value(0), value(1))
        })
    });
    Ok(rows.collect())
}

#[test]
fn a_file_cut_anywhere_gives_the_rows_that_were_written() {
    let input = file(&[(Some(1), Some("x")), (None, Some("")), (Some(-7), None)]);
    for piece in 1..=input.len() {
        let rows = decode(&input, piece).unwrap();
        assert_eq!(rows.len(), 3, "pieces of {piece}");
        assert_eq!(rows[0], (Value::Int32(1), Value::from("x")));
        assert_eq!(rows[1], (Value::Null, Value::from("")));
        assert_eq!(rows[2], (Value::Int32(-7), Value::Null));
    }
}

#[test]
fn errors_name_line_and_column() {
    let good = file(&[(Some(1), Some("x")), (Some(2), Some("y"))]);
    let second_row = 19 + 2 + 8 + 5;
    let mut wrong_length = good.clone();
    wrong_length[second_row + 5] = 3;
    wrong_length.remove(second_row + 6);
    let mut wrong_count = good.clone();
    wrong_count[second_row + 1] = 9;
    let mut not_utf8 = good.clone();
    let last = good.len() - 3;
    not_utf8[last] = 0xFF;
    let cases = [
        (wrong_length, SqlState::InvalidBinaryRepresentation, "COPY t, line 2, column a"),
        (wrong_count, SqlState::BadCopyFileFormat, "COPY t, line 2"),
        (not_utf8, SqlState::CharacterNotInRepertoire, "COPY t, line 2, column b"),
        (good[..second_row + 4].to_vec(), SqlState::BadCopyFileFormat, "COPY t, line 2"),
        (b"PGCOPX".to_vec(), SqlState::BadCopyFileFormat, "COPY t, line 1"),
        (Vec::new(), SqlState::BadCopyFileFormat, "COPY t, line 1"),
    ];
    for (input, state, place) in cases {
        let error = decode(&input, 5).unwrap_err();
        assert_eq!((error.state, error.context.as_deref()), (state, Some(place)), "{input:?}");
    }
}

#[test]
fn any_bytes_at_all_are_rows_or_an_error() {
    let good = file(&[(Some(1), Some("x")), (Some(2), Some("y")), (None, None)]);
    for at in 0..good.len() {
        for byte in [0, 1, 0x7F, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[at] = byte;
            // Whatever it says, it says the same however the input is cut.
            assert_eq!(decode(&bad, bad.len()), decode(&bad, 1), "byte {at} is {byte}");
        }
    }
}

/// Files with some of their bytes changed: each is read or refused, and the same whatever the pieces.
#[test]
fn any_file_at_all_gives_the_same_wherever_it_is_cut() {
    let good = file(&[(Some(1), Some("x")), (None, Some("")), (Some(-7), None)]);
    let seed = 0xBB67_AE85_84CA_A73B_u64;
    let mut state = seed;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut read = 0;
    for round in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..below(4) {
            let at = below(bytes.len());
            bytes[at] = if below(2) == 0 { below(6) as u8 } else { below(256) as u8 };
        }
        bytes.truncate(bytes.len() - below(4) * below(4));
        let whole = decode(&bytes, bytes.len());
        let piece = 1 + below(bytes.len());
        assert_eq!(decode(&bytes, piece), whole, "seed {seed}, round {round}, pieces of {piece}: {bytes:?}");
        read += usize::from(whole.is_ok());
    }
    assert!(read > 1_000, "the files are not all refused: {read}");
}
