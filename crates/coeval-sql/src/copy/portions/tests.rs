// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::copy::options::CopyDirection;
use chrono_tz::Tz;
use coeval_store::{ColumnDef, ColumnType, QualifiedName, SpaceId, TableDef, Value, value_at};
use datafusion::sql::sqlparser::ast::{CopyOption, Ident};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

fn table() -> TableDef {
    let columns = vec![ColumnDef::new("a", ColumnType::Int), ColumnDef::new("b", ColumnType::Text)];
    TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns, vec![0])
}

fn options(format: &str, more: &[CopyOption]) -> CopyOptions {
    let mut all = vec![CopyOption::Format(Ident::new(format))];
    all.extend_from_slice(more);
    CopyOptions::new(CopyDirection::From, &all, &[]).unwrap()
}

/// The rows, or what is wrong and where.
type Outcome = Result<Vec<(Value, Value)>, SqlError>;

fn outcome(read: Result<(), SqlError>, batches: &[RecordBatch]) -> Outcome {
    read?;
    let rows = batches.iter().flat_map(|batch| {
        (0..batch.num_rows()).map(|row| {
            let value = |column: usize| value_at(batch.column(column).as_ref(), row).to_owned();
            (value(0), value(1))
        })
    });
    Ok(rows.collect())
}

/// By one decoder, which gets everything at once.
fn at_once(options: &CopyOptions, input: &[u8]) -> Outcome {
    let mut decoder = Decoder::new(&table(), &[0, 1], options, Tz::UTC).unwrap();
    let mut batches = Vec::new();
    let read = decoder.feed(input, &mut batches).and_then(|()| decoder.finish(&mut batches));
    outcome(read, &batches)
}

/// In pieces and portions of about these many bytes.
fn in_portions(options: &CopyOptions, input: &[u8], piece: usize, portion: usize) -> Outcome {
    let decoder = Decoder::new(&table(), &[0, 1], options, Tz::UTC).unwrap();
    let mut reader = PortionReader::new(decoder, options, portion);
    let mut batches = Vec::new();
    let mut read = || {
        for piece in input.chunks(piece) {
            if reader.gather(piece) == Gathered::Enough {
                reader.read(&mut batches)?;
            }
        }
        reader.finish(&mut batches)
    };
    let read = read();
    outcome(read, &batches)
}

/// Records with everything that cutting could get wrong, some of them malformed.
fn records(rng: &mut StdRng, format: &str) -> Vec<u8> {
    let rare = rng.random_range(0..3) == 0;
    let mut input = Vec::new();
    for _ in 0..rng.random_range(0..60) {
        let line: &[u8] = match (format, rng.random_range(0..if rare { 14 } else { 9 })) {
            ("csv", 0) => b"1,\"x\ny\"\n",
            ("csv", 1) => b"2,\"a\"\"b\n\n\"\n",
            ("csv", 2) => b"3,ab\"c\nd\"e\r\n",
            ("csv", 3) => b",\r\n",
            ("csv", 4) => b"5,\\\n",
            ("csv", 9) => b"6,\"open\n",
            ("csv", 10) => b"7\n",
            ("csv", 11) => b"x,bad\n",
            ("csv", 12) => b"\\.\n",
            ("csv", _) => b"8,plain\n",
            (_, 0) => b"1\tx\\\ny\n",
            (_, 1) => b"2\tx\\\\\n",
            (_, 2) => b"3\t\\\\\\\n\r\n",
            (_, 3) => b"\\N\t\\N\n",
            (_, 4) => b"5\t\\n\\t\\x41\r\n",
            (_, 9) => b"6\n",
            (_, 10) => b"x\tbad\n",
            (_, 11) => b"\\.\n",
            (_, _) => b"8\tplain\n",
        };
        input.extend_from_slice(line);
    }
    if rng.random_range(0..3) == 0 {
        input.pop();
    }
    input
}

#[test]
fn portions_give_what_one_decoder_gives() {
    let mut rng = StdRng::seed_from_u64(1);
    let header = CopyOption::Header(true);
    let other_escape = CopyOption::Escape('\\');
    let kinds = [
        ("text", vec![]),
        ("text", vec![header.clone()]),
        ("csv", vec![]),
        ("csv", vec![header]),
        ("csv", vec![other_escape]),
    ];
    let mut failed = 0;
    for round in 0..2_000 {
        let (format, more) = &kinds[round % kinds.len()];
        let options = options(format, more);
        let input = records(&mut rng, format);
        let expected = at_once(&options, &input);
        failed += usize::from(expected.is_err());
        let (piece, portion) = (rng.random_range(1..40), rng.random_range(1..120));
        let found = in_portions(&options, &input, piece, portion);
        assert_eq!(found, expected, "{format} {more:?}: {:?}", String::from_utf8_lossy(&input));
    }
    assert!((100..1_900).contains(&failed), "some are malformed and some are not: {failed}");
}

#[test]
fn a_portion_ends_with_a_record() {
    let csv = Cut::Csv { quote: b'"' };
    for (cut, bytes, end) in [
        (Cut::Text, &b"a\tb\nc"[..], Some(4)),
        (Cut::Text, b"a\\\nb\n", Some(5)),
        (Cut::Text, b"a\nb\\\n", Some(2)),
        (Cut::Text, b"a\\\n", None),
        (Cut::Text, b"a\\\\\n", Some(4)),
        (csv, b"a,\"b\nc\"\nd,\"\n", Some(8)),
        (csv, b"a,\"b\nc", None),
        (Cut::Unknown, b"a\nb\n", None),
    ] {
        assert_eq!(cut.last_end(bytes), end, "{:?}", String::from_utf8_lossy(bytes));
    }
}
