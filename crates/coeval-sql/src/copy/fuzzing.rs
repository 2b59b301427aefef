// SPDX-License-Identifier: Apache-2.0
//! What a fuzzer calls: COPY in all its formats, on any bytes.

use super::binary::BinaryDecoder;
use super::decode::Decoder;
use super::encode::Encoder;
use super::options::{CopyFormat, CopyOptions, Header};
use crate::error::SqlError;
use arrow::array::RecordBatch;
use chrono_tz::Tz;
use coeval_store::{ColumnDef, ColumnType, ElementType, QualifiedName, SpaceId, TableDef, Value, value_at};

/// The columns of the tables that are filled.
const TABLES: [&[ColumnType]; 4] = [
    &[ColumnType::Int, ColumnType::Text],
    &[ColumnType::Numeric { precision: 10, scale: 2 }, ColumnType::Date, ColumnType::Bytea],
    &[ColumnType::Jsonb, ColumnType::TimestampTz, ColumnType::Double, ColumnType::Interval],
    &[ColumnType::Array(ElementType::Text), ColumnType::BigInt, ColumnType::Varchar(4), ColumnType::Boolean],
];

type Rows = Vec<Vec<Value>>;

/// Rows: the first byte says in which format, the second for which table, the third in pieces of how many bytes they come.
///
/// # Panics
/// If it matters in what pieces they come, or if they are others after they were written and read again.
pub fn copy(bytes: &[u8]) {
    let [format, table, piece, input @ ..] = bytes else { return };
    let table = table_of(TABLES[usize::from(*table) % TABLES.len()]);
    let options = options_of(*format);
    let whole = decode(&table, &options, input, input.len().max(1));
    let pieces = decode(&table, &options, input, usize::from(*piece).max(1));
    match (&whole, &pieces) {
        (Ok(whole), Ok(pieces)) => assert_eq!(shown(whole), shown(pieces), "pieces change nothing"),
        (Err(whole), Err(pieces)) => {
            assert_eq!(whole.to_string(), pieces.to_string(), "pieces change nothing");
        }
        (whole, pieces) => panic!("whole {whole:?}, in pieces {pieces:?}"),
    }
    let Ok(batches) = whole else { return };
    let options = CopyOptions { header: Header::Absent, ..options };
    let written = encode(&table, &options, &batches).expect("what was read can be written");
    let again =
        decode(&table, &options, &written, written.len().max(1)).expect("what was written can be read");
    assert_eq!(shown(&again), shown(&batches), "what was written is read as it was");
}

fn table_of(types: &[ColumnType]) -> TableDef {
    let columns = types.iter().enumerate().map(|(index, ty)| ColumnDef::new(format!("c{index}"), *ty));
    TableDef::new(SpaceId::new(1), QualifiedName::new("public", "t"), columns.collect(), vec![0])
}

fn options_of(choice: u8) -> CopyOptions {
    let format = [CopyFormat::Text, CopyFormat::Csv, CopyFormat::Binary][usize::from(choice) % 3];
    let is_csv = format == CopyFormat::Csv;
    CopyOptions {
        format,
        delimiter: match (choice / 3 % 2, is_csv) {
            (0, true) => b',',
            (0, false) => b'\t',
            _ => b'|',
        },
        null: if is_csv { String::new() } else { "\\N".to_owned() },
        header: [Header::Absent, Header::Present][usize::from(choice / 6 % 2)],
        quote: b'"',
        escape: [b'"', b'\\'][usize::from(choice / 12 % 2)],
        force_quote: Vec::new(),
        force_not_null: Vec::new(),
        force_null: Vec::new(),
        rejected_max: None,
    }
}

fn decode(
    table: &TableDef,
    options: &CopyOptions,
    input: &[u8],
    piece: usize,
) -> Result<Vec<RecordBatch>, SqlError> {
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let mut batches = Vec::new();
    if options.format == CopyFormat::Binary {
        let mut decoder = BinaryDecoder::new(table, &columns);
        input.chunks(piece).try_for_each(|piece| decoder.feed(piece, &mut batches))?;
        decoder.finish(&mut batches)?;
    } else {
        let mut decoder = Decoder::new(table, &columns, options, Tz::UTC)?;
        input.chunks(piece).try_for_each(|piece| decoder.feed(piece, &mut batches))?;
        decoder.finish(&mut batches)?;
    }
    Ok(batches)
}

fn encode(table: &TableDef, options: &CopyOptions, batches: &[RecordBatch]) -> Result<Vec<u8>, SqlError> {
    let columns: Vec<_> = table.columns.iter().map(|column| (column.name.clone(), column.ty)).collect();
    let mut encoder = Encoder::new(&columns, options, Tz::UTC)?;
    let mut out = Vec::new();
    encoder.header(&mut out);
    for batch in batches {
        let arrays = encoder.arrays(batch)?;
        (0..batch.num_rows()).try_for_each(|row| encoder.encode_row(&arrays, row, &mut out))?;
    }
    encoder.trailer(&mut out);
    Ok(out)
}

/// As text: not every value is equal to itself.
fn shown(batches: &[RecordBatch]) -> String {
    let rows: Rows = batches
        .iter()
        .flat_map(|batch| {
            let columns = batch.columns();
            (0..batch.num_rows()).map(|row| columns.iter().map(|c| value_at(c, row).to_owned()).collect())
        })
        .collect();
    format!("{rows:?}")
}
