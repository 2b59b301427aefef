// SPDX-License-Identifier: Apache-2.0
use super::{Exporter, RowColumn, TextForm};
use crate::Database;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field};
use coeval_store::{TableDef, value_at};
use std::sync::Arc;

const STATEMENTS: [&str; 5] = [
    "CREATE TYPE mood AS ENUM ('sad', 'happy')",
    "ALTER TYPE mood ADD VALUE 'fine' AFTER 'sad'",
    "CREATE TABLE kinds (
        id int PRIMARY KEY, small smallint, big bigint NOT NULL, single real, twice double precision,
        exact numeric(20, 4), wide numeric(38, 10), truth boolean, words text, short varchar(5), padded char(3),
        bytes bytea, day date, clock time, here timestamp, moment timestamptz, span interval, name uuid,
        place pg_lsn, raw json, document jsonb, feeling mood, numbers int[], texts text[], feelings mood[],
        places pg_lsn[])",
    "INSERT INTO kinds VALUES
        (1, 2, 3, 1.5, 2.5, 12345.6789, -0.0000000001, true, 'words', 'short', 'a', '\\x00ff', '2026-11-29',
         '10:51:34.5', '2026-11-29 10:51:34', '2026-11-29 10:51:34+02', '1 mon 2 days 3 seconds',
         '00112233-4455-6677-8899-aabbccddeeff', '16/B374D848', '{\"a\" : 1}', '{\"b\": [1, null]}', 'fine',
         '{1,NULL,3}', '{one,NULL}', '{happy,NULL,fine}', '{16/B374D848,NULL}')",
    "INSERT INTO kinds (id, big) VALUES (2, 0)",
];

/// A table with a column of each type, and its two rows as a query gives them.
fn every_type() -> (Arc<TableDef>, RecordBatch) {
    let database = Database::in_memory().unwrap();
    let mut session = database.session();
    for statement in STATEMENTS {
        session.execute(statement).unwrap();
    }
    let batches = session.query("SELECT * FROM kinds ORDER BY id").unwrap();
    let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
    assert_eq!(batch.num_rows(), 2);
    let def = Arc::clone(database.table("kinds").unwrap().def());
    (def, batch)
}

/// The rows of a batch of a table's live columns, and one that is not there.
fn row_by_row(def: &TableDef, batch: &RecordBatch, form: TextForm) -> ArrayRef {
    let live: Vec<usize> = def.live_columns().map(|(index, _)| index).collect();
    let mut column = RowColumn::new(def, &live, form);
    for row in 0..batch.num_rows() {
        let bytes = column.push(|index| {
            let place = live.iter().position(|live| *live == index).unwrap();
            value_at(batch.column(place), row)
        });
        assert!(bytes >= live.len());
    }
    column.push_none();
    let made = column.finish().unwrap();
    assert_eq!(*made.data_type(), column.data_type());
    assert_eq!(column.finish().unwrap().len(), 0, "it is empty again");
    made
}

#[test]
fn rows_one_by_one_are_of_the_types_and_values_of_results_of_queries() {
    let (def, batch) = every_type();
    for form in [TextForm::Views, TextForm::Offsets] {
        let exported = Exporter::new(&batch.schema(), form).batch(&batch).unwrap();
        let made = row_by_row(&def, &batch, form);
        let rows = made.as_struct();
        assert_eq!(rows.fields(), exported.schema().fields());
        for (found, wanted) in rows.columns().iter().zip(exported.columns()) {
            assert_eq!(&found.slice(0, 2), wanted);
        }
        assert!(rows.is_valid(0) && rows.is_valid(1) && rows.is_null(2));
    }
}

#[test]
fn arrays_of_enums_and_places_are_lists_of_what_their_elements_are() {
    let (_, batch) = every_type();
    let exported = Exporter::new(&batch.schema(), TextForm::Offsets).batch(&batch).unwrap();
    let list = |element| DataType::List(Arc::new(Field::new_list_field(element, true)));
    let labels = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let wanted = [
        ("feelings", list(labels), vec![Some("happy"), None, Some("fine")]),
        ("places", list(DataType::Utf8), vec![Some("16/B374D848"), None]),
    ];
    for (name, ty, wanted) in wanted {
        let column = exported.column_by_name(name).unwrap();
        assert_eq!(*column.data_type(), ty);
        let elements = cast(&column.as_list::<i32>().value(0), &DataType::Utf8).unwrap();
        assert_eq!(elements.as_string::<i32>().iter().collect::<Vec<_>>(), wanted);
        assert!(column.is_null(1));
    }
}

#[test]
fn rows_without_columns_have_a_number_all_the_same() {
    let (def, _) = every_type();
    let mut column = RowColumn::new(&def, &[], TextForm::Offsets);
    assert_eq!(column.push(|_| unreachable!("no column is asked for")), 0);
    column.push_none();
    let made = column.finish().unwrap();
    assert_eq!((made.len(), made.null_count()), (2, 1));
}
