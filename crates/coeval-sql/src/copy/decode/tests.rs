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
    let mut decoder = Decoder::new(&table(), &[0, 1], options, Tz::UTC)?;
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
        assert_eq!((error.state, error.detail.as_deref()), (state, Some(place)), "{input:?}");
    }
    let error = decode(&csv(&[]), b"1,a\n2,\xff\n", 64).unwrap_err();
    assert_eq!(error.state, SqlState::CharacterNotInRepertoire);
    assert!(error.detail.unwrap().starts_with("COPY t, line 2, column b"));
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
