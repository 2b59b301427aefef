// SPDX-License-Identifier: Apache-2.0
//! COPY TO STDOUT as Parquet and as Arrow: what clients get, read back by the readers of others.
#![allow(clippy::unwrap_used)]

mod support;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, TimeUnit};
use arrow::ipc::reader::StreamReader;
use bytes::Bytes;
use futures::TryStreamExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::io::Cursor;
use std::sync::Arc;
use support::{Running, error_code, kinds, query};
use tokio_postgres::Client;

const TYPES: &str = "CREATE TYPE mood AS ENUM ('sad', 'happy');
    CREATE TABLE every (id int PRIMARY KEY, a smallint, b bigint, c real, d float8, e numeric(20,4), f boolean, g text,
        h varchar(10), i bytea, j date, k time, l timestamp, m timestamptz, n interval, o uuid, p jsonb, q mood, r text[]);
    INSERT INTO every VALUES
        (1, -5, 9223372036854775807, 1.5, -2.5e-7, 12345.6789, true, 'Grüße', 'ten', '\\xdeadbeef', '2024-02-29',
         '23:59:59.999999', '2024-02-29 12:34:56.789', '2024-02-29 12:34:56+02', '1 year 2 mons 3 days 04:05:06',
         '123e4567-e89b-12d3-a456-426614174000', '{\"a\": 1}', 'happy', ARRAY['x', NULL]),
        (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)";

/// The messages of a COPY.
async fn copied(client: &Client, statement: &str) -> Vec<Bytes> {
    client.copy_out(statement).await.unwrap().try_collect().await.unwrap()
}

fn of_arrow(pieces: &[Bytes]) -> Vec<RecordBatch> {
    let reader = StreamReader::try_new(Cursor::new(pieces.concat()), None).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

/// The rows, and how many groups they are in.
fn of_parquet(pieces: &[Bytes]) -> (Vec<RecordBatch>, usize) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(pieces.concat())).unwrap();
    let groups = builder.metadata().num_row_groups();
    (builder.build().unwrap().collect::<Result<_, _>>().unwrap(), groups)
}

/// The same rows with texts and bytes as all readers know them.
fn without_views(batch: &RecordBatch) -> RecordBatch {
    let plain = |ty: &DataType| match ty {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::List(_) => DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))),
        other => other.clone(),
    };
    let schema = batch.schema();
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|field| Field::new(field.name(), plain(field.data_type()), true))
        .collect();
    let arrays =
        batch.columns().iter().zip(&fields).map(|(array, field)| cast(array, field.data_type()).unwrap());
    let arrays = arrays.collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

#[test]
fn both_formats_have_every_type_and_the_same_rows() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client.batch_execute(TYPES).await.unwrap();
        let select = "COPY (SELECT * FROM every ORDER BY id) TO STDOUT";
        let arrow = of_arrow(&copied(&client, &format!("{select} (FORMAT arrow)")).await);
        let arrow = concat_batches(&arrow[0].schema(), &arrow).unwrap();
        let (parquet, _) = of_parquet(&copied(&client, &format!("{select} (FORMAT parquet)")).await);
        let parquet = concat_batches(&parquet[0].schema(), &parquet).unwrap();
        assert_eq!(without_views(&parquet).columns(), arrow.columns());

        let schema = arrow.schema();
        let of = |name: &str| schema.field_with_name(name).unwrap().data_type();
        assert_eq!(of("e"), &DataType::Decimal128(20, 4));
        assert_eq!(of("j"), &DataType::Date32);
        assert_eq!(of("m"), &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())));
        assert_eq!(of("i"), &DataType::Binary);
        assert_eq!(of("o"), &DataType::FixedSizeBinary(16));
        for (name, text) in [("g", "Grüße"), ("n", "1 year 2 mons 3 days 04:05:06"), ("q", "happy")] {
            let column = arrow.column_by_name(name).unwrap().as_string::<i32>();
            assert_eq!((column.value(0), column.is_valid(1)), (text, false), "{name}");
        }
        // A table by its name, and columns of it.
        let some = of_arrow(&copied(&client, "COPY every (b, id) TO STDOUT (FORMAT arrow)").await);
        assert_eq!((some[0].num_columns(), some[0].num_rows()), (2, 2));
        // No rows are a file, too, with its columns.
        let (none, groups) =
            of_parquet(&copied(&client, "COPY (SELECT 1 AS a WHERE false) TO STDOUT (FORMAT parquet)").await);
        assert_eq!((none.len(), groups), (0, 0));
        let none = copied(&client, "COPY (SELECT 1 AS a WHERE false) TO STDOUT (FORMAT arrow)").await;
        let reader = StreamReader::try_new(Cursor::new(none.concat()), None).unwrap();
        assert_eq!((reader.schema().field(0).name().as_str(), reader.count()), ("a", 0));
    });
}

#[test]
fn many_rows_come_in_groups_and_in_messages_of_bounded_length() {
    const ROWS: i64 = 300_000;
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        let select = format!(
            "COPY (SELECT n, md5(n::text) AS t FROM generate_series(1, {ROWS}::bigint) g(n)) TO STDOUT"
        );
        let pieces = copied(&client, &format!("{select} (FORMAT parquet)")).await;
        assert!(pieces.len() > 20 && pieces.iter().all(|piece| piece.len() <= 256 << 10), "{}", pieces.len());
        let (batches, groups) = of_parquet(&pieces);
        let sum = |batches: &[RecordBatch]| -> i64 {
            let numbers = batches.iter().map(|batch| batch.column(0).as_primitive::<Int64Type>().values());
            numbers.flat_map(|numbers| numbers.iter()).sum()
        };
        assert_eq!((sum(&batches), groups), (ROWS * (ROWS + 1) / 2, 3));
        let pieces = copied(&client, &format!("{select} (FORMAT arrow)")).await;
        assert!(pieces.iter().all(|piece| piece.len() <= 256 << 10));
        assert_eq!(sum(&of_arrow(&pieces)), ROWS * (ROWS + 1) / 2);
        // A group of long rows ends by its bytes: it is in memory until then.
        let parts: Vec<String> = (0..40).map(|part| format!("md5((n * 40 + {part})::text)")).collect();
        let long = format!(
            "COPY (SELECT {} AS t FROM generate_series(1, 80000) g(n)) TO STDOUT (FORMAT parquet)",
            parts.join(" || ")
        );
        let (_, groups) = of_parquet(&copied(&client, &long).await);
        assert!(groups > 1, "{groups}");
    });
}

#[test]
fn what_cannot_be_is_refused_and_the_session_goes_on() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    for (statement, code) in [
        ("COPY t FROM STDIN (FORMAT parquet)", "0A000"),
        ("COPY t FROM STDIN (FORMAT arrow)", "0A000"),
        ("COPY t FROM 'x.arrows' (FORMAT arrow)", "0A000"),
        ("COPY t TO STDOUT (FORMAT arrow, HEADER)", "0A000"),
        ("COPY t TO STDOUT (FORMAT parquet, DELIMITER ';')", "0A000"),
        ("COPY t TO STDOUT (FORMAT arrows)", "22023"),
    ] {
        raw.send(&query(statement));
        assert_eq!(error_code(&raw.until_ready()), code, "{statement}");
    }
    // An error in the middle ends the COPY with what has come; the session goes on.
    raw.send(&query(
        "COPY (SELECT 1 / (n - 50000) FROM generate_series(1, 100000) g(n)) TO STDOUT (FORMAT arrow)",
    ));
    let messages = raw.until_ready();
    assert_eq!(error_code(&messages), "22012");
    assert!(!kinds(&messages).contains('c'), "it is not said to be whole");
    assert_eq!(kinds(&raw.run("COPY t TO STDOUT (FORMAT parquet)")), "HdcCZ");
}
