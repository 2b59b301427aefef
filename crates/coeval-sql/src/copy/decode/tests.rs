// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::copy::options::CopyDirection;
use coeval_store::{ColumnDef, QualifiedName, SpaceId, Value, value_at};
use datafusion::sql::sqlparser::ast::{CopyOption, Ident};

fn table() -> TableDef {
    let columns = vec![ColumnDef::new("a", ColumnType::Int), ColumnDef::new("b", ColumnType::Text)];
    TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns, vec![0])
}

fn csv(more: &[CopyOption]) -> CopyOptions {
    let mut all = vec![CopyOption::Format(Ident::new("csv"))];
    all.extend_from_slice(more);
    CopyOptions::new(CopyDirection::From, &all, &[]).unwrap()
}

/// All rows of an input that comes in pieces of this many bytes.
fn decode(options: &CopyOptions, input: &[u8], piece: usize) -> Result<Vec<(Value, Value)>, SqlError> {
    decode_by(Decoder::new(&table(), &[0, 1], options, Tz::UTC)?, input, piece)
}

/// The same, record by record.
fn decode_singly(options: &CopyOptions, input: &[u8]) -> Result<Vec<(Value, Value)>, SqlError> {
    let mut decoder = Decoder::new(&table(), &[0, 1], options, Tz::UTC)?;
    decoder.singly = usize::MAX;
    decode_by(decoder, input, input.len())
}

fn decode_by(mut decoder: Decoder, input: &[u8], piece: usize) -> Result<Vec<(Value, Value)>, SqlError> {
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
fn input_cut_anywhere_gives_the_same_rows() {
    let input = "1,\"x, y\"\n2,\"a\"\"b\nc\"\n,\u{e4}\r\n4,".as_bytes();
    let whole = decode(&csv(&[]), input, input.len()).unwrap();
    assert_eq!(whole.len(), 4);
    assert_eq!(whole[1].1, Value::from("a\"b\nc"));
    assert_eq!(whole[2], (Value::Null, Value::from("\u{e4}")));
    assert_eq!(whole[3], (Value::Int32(4), Value::Null));
    for piece in 1..input.len() {
        assert_eq!(decode(&csv(&[]), input, piece).unwrap(), whole, "pieces of {piece}");
    }
}

#[test]
fn errors_name_line_and_column() {
    let cases: [(&str, SqlState, &str); 4] = [
        ("1,a\n2\n", SqlState::BadCopyFileFormat, "COPY t, line 2"),
        ("1,a\n2,b,c\n", SqlState::BadCopyFileFormat, "COPY t, line 2"),
        ("1,\"a\nb\"\nx,c\n", SqlState::InvalidTextRepresentation, "COPY t, line 3, column a: \"x\""),
        ("1,a\n2,\"b\n", SqlState::BadCopyFileFormat, "COPY t, line 2"),
    ];
    for (input, state, place) in cases {
        let error = decode(&csv(&[]), input.as_bytes(), 3).unwrap_err();
        assert_eq!((error.state, error.context.as_deref()), (state, Some(place)), "{input:?}");
    }
    let error = decode(&csv(&[]), b"1,a\n2,\xff\n", 64).unwrap_err();
    assert_eq!(error.state, SqlState::CharacterNotInRepertoire);
    assert!(error.context.unwrap().starts_with("COPY t, line 2, column b"));
}

#[test]
fn header_is_skipped_and_force_options_decide_about_null() {
    let options = csv(&[
        CopyOption::Header(true),
        CopyOption::ForceNotNull(vec![Ident::new("b")]),
        CopyOption::ForceNull(vec![Ident::new("a")]),
    ]);
    let rows = decode(&options, b"a,b\n\"\",\n", 5).unwrap();
    assert_eq!(rows, vec![(Value::Null, Value::from(""))]);
}

/// Inputs with some of their bytes changed: each is read or refused, and the same whatever the pieces, and together as
/// record by record.
#[test]
fn any_input_at_all_gives_the_same_wherever_it_is_cut() {
    let text = CopyOptions::new(CopyDirection::From, &[], &[]).unwrap();
    let good = [
        (csv(&[]), "1,\"x, y\"\n2,\"a\"\"b\nc\"\n,\u{e4}\r\n4,"),
        (csv(&[CopyOption::Escape('\\')]), "1,\"a\\\"b\"\n2,\"\\\\\"\n\\.\n"),
        (csv(&[]), "1,one\n22,two\r\n-333,\n4444,four\n,five\n6,six\n"),
        (text.clone(), "1\tx\\ty\n\\N\t\\x41\\102\r\n3\t\\N\n\\.\n"),
        (text, "1\tone\n22\ttwo\r\n-333\t\n4444\tfour\n5\tfive\n"),
    ];
    let seed = 0x6A09_E667_F3BC_C909_u64;
    let mut state = seed;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let special = b"\n\r\t,\"\\.N1";
    let mut read = 0;
    for round in 0..20_000 {
        let (options, input) = &good[below(good.len())];
        let mut bytes = input.as_bytes().to_vec();
        for _ in 0..below(4) {
            let at = below(bytes.len());
            bytes[at] = if below(3) > 0 { special[below(special.len())] } else { below(256) as u8 };
        }
        let whole = decode(options, &bytes, bytes.len());
        assert_eq!(decode_singly(options, &bytes), whole, "seed {seed}, round {round}: {bytes:?}");
        let piece = 1 + below(bytes.len());
        assert_eq!(
            decode(options, &bytes, piece),
            whole,
            "seed {seed}, round {round}, pieces of {piece}: {bytes:?}"
        );
        read += usize::from(whole.is_ok());
    }
    assert!(read > 2_000, "the inputs are not all refused: {read}");
}

/// A record that comes byte by byte is read a few times, not at every byte.
#[test]
fn a_long_record_in_small_pieces_is_read() {
    let input = format!("1,\"{}\"\n", "x".repeat(300_000));
    let rows = decode(&csv(&[]), input.as_bytes(), 1).unwrap();
    assert_eq!(rows[0].1, Value::from("x".repeat(300_000).as_str()));
}

#[test]
fn long_rows_make_small_batches() {
    let mut decoder = Decoder::new(&table(), &[0, 1], &csv(&[]), Tz::UTC).unwrap();
    let mut batches = Vec::new();
    let row = format!("1,{}\n", "x".repeat(BATCH_BYTES_MAX / 2));
    for _ in 0..4 {
        decoder.feed(row.as_bytes(), &mut batches).unwrap();
    }
    assert_eq!(batches.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [2, 2]);
}
