// SPDX-License-Identifier: Apache-2.0
//! Batches that a program lends a session, as tables of its statements.

use arrow::array::{
    Array, AsArray, Int64Array, LargeBinaryArray, LargeListArray, RecordBatch, StringArray, StructArray,
    UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int64Type};
use coeval::{Database, Session, SqlState};
use std::sync::Arc;

fn batch(column: &str, array: impl Array + 'static) -> RecordBatch {
    RecordBatch::try_from_iter([(column, Arc::new(array) as Arc<dyn Array>)]).unwrap()
}

fn lend(session: &mut Session, name: &str, batch: &RecordBatch) -> Result<(), coeval::Error> {
    session.lend(name, &batch.schema(), std::slice::from_ref(batch))
}

fn number(session: &mut Session, sql: &str) -> i64 {
    let batches = session.query(sql).unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

fn state(session: &mut Session, sql: &str) -> SqlState {
    session.query(sql).unwrap_err().state()
}

#[test]
fn statements_read_what_is_lent() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    lend(&mut session, "numbers", &batch("n", Int64Array::from(vec![Some(1), None, Some(3)]))).unwrap();
    lend(&mut session, "Names", &batch("Name", StringArray::from(vec!["ann", "bob"]))).unwrap();
    assert_eq!(number(&mut session, "SELECT sum(n)::bigint FROM numbers"), 4);
    assert_eq!(number(&mut session, "SELECT count(*) FROM numbers AS a JOIN numbers AS b USING (n)"), 2);
    assert_eq!(number(&mut session, "SELECT count(*) FROM \"Names\" WHERE \"Name\" > 'ann'"), 1);
    session.execute("CREATE TABLE kept AS SELECT n FROM numbers").unwrap();
    session.execute("BEGIN; INSERT INTO kept SELECT n + 10 FROM numbers WHERE n > 0").unwrap();
    assert_eq!(number(&mut session, "SELECT count(*) FROM kept WHERE n > 10"), 2);
    session.execute("COMMIT").unwrap();
    // What is lent anew is read anew, by a statement that was prepared before, too.
    let prepared = session.prepare("SELECT sum(n)::bigint FROM numbers WHERE n > $1").unwrap();
    lend(&mut session, "numbers", &batch("n", Int64Array::from(vec![7]))).unwrap();
    let batches = session.query_prepared(&prepared, &[coeval::Value::Int64(0)]).unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 7);
}

#[test]
fn it_is_for_reading_by_this_session_until_it_is_given_back() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    lend(&mut session, "numbers", &batch("n", Int64Array::from(vec![1]))).unwrap();
    for text in [
        "INSERT INTO numbers VALUES (1)",
        "UPDATE numbers SET n = 2",
        "DELETE FROM numbers",
        "SELECT * FROM public.numbers",
        "CREATE VIEW v AS SELECT * FROM numbers",
    ] {
        assert_eq!(state(&mut session, text), SqlState::UndefinedTable, "{text}");
    }
    assert_eq!(state(&mut db.session(), "SELECT * FROM numbers"), SqlState::UndefinedTable);
    session.give_back("numbers");
    assert_eq!(state(&mut session, "SELECT * FROM numbers"), SqlState::UndefinedTable);
}

#[test]
fn what_the_database_has_goes_first() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (n bigint); INSERT INTO t VALUES (5)").unwrap();
    lend(&mut session, "t", &batch("n", Int64Array::from(vec![1]))).unwrap();
    lend(&mut session, "pg_class", &batch("n", Int64Array::from(vec![1]))).unwrap();
    assert_eq!(number(&mut session, "SELECT n FROM t"), 5);
    assert!(number(&mut session, "SELECT count(*) FROM pg_class WHERE relname = 't'") == 1);
    session.execute("DROP TABLE t").unwrap();
    assert_eq!(number(&mut session, "SELECT n FROM t"), 1);
}

#[test]
fn what_sql_cannot_hold_is_refused_and_changes_nothing() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    lend(&mut session, "n", &batch("n", Int64Array::from(vec![1]))).unwrap();
    let large = lend(&mut session, "n", &batch("n", UInt64Array::from(vec![u64::MAX])));
    assert_eq!(large.unwrap_err().state(), SqlState::NumericValueOutOfRange);
    let inner: Arc<dyn Array> = Arc::new(Int64Array::from(vec![1]));
    let nested = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int64, true)), inner)]);
    let refused = lend(&mut session, "n", &batch("n", nested)).unwrap_err();
    assert_eq!(refused.state(), SqlState::FeatureNotSupported);
    assert_eq!(number(&mut session, "SELECT n FROM n"), 1);
    lend(&mut session, "n", &batch("n", UInt64Array::from(vec![7]))).unwrap();
    assert_eq!(number(&mut session, "SELECT n FROM n"), 7);
}

#[test]
fn large_bytes_are_bytes_as_elements_too() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    let bytes = LargeBinaryArray::from_iter_values([b"\x04\x80", b"ab"]);
    lend(&mut session, "n", &batch("n", bytes.clone())).unwrap();
    assert_eq!(number(&mut session, "SELECT count(*) FROM n WHERE n = '\\x6162'::bytea"), 1);
    let item = Arc::new(Field::new_list_field(DataType::LargeBinary, true));
    let lists = LargeListArray::new(item, OffsetBuffer::from_lengths([2]), Arc::new(bytes), None);
    lend(&mut session, "n", &batch("n", lists)).unwrap();
    assert_eq!(number(&mut session, "SELECT count(*) FROM n WHERE n[2] = '\\x6162'::bytea"), 1);
}

#[test]
fn a_program_can_ask_which_names_are_unknown() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE known (n bigint)").unwrap();
    let text = "WITH cte AS (SELECT 1 FROM known) SELECT * FROM known, Frame, \"Frame\", cte \
                WHERE EXISTS (SELECT 1 FROM inner_one) AND n IN (SELECT n FROM public.other); INSERT INTO target SELECT 1";
    assert_eq!(session.unknown_relations(text), ["Frame", "cte", "frame", "inner_one", "target"]);
    assert!(session.unknown_relations("SELEKT * FROM nothing").is_empty());
    session.execute("BEGIN; CREATE TABLE frame (n bigint)").unwrap();
    assert!(session.unknown_relations("SELECT * FROM frame").is_empty());
}

/// They were refused: no statement takes a text for a date, and frames have no uuid.
#[test]
fn texts_and_bytes_for_an_insert_are_read_as_its_columns() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session
        .execute(
            "CREATE TYPE mood AS ENUM ('good', 'bad'); SET TIME ZONE 'Europe/Berlin';
             CREATE TABLE t (id uuid, day date, at timestamptz, price numeric(9,2), doc jsonb, mood mood, n int)",
        )
        .unwrap();
    let names = ["id", "day", "at", "price", "doc", "mood"];
    let id = "12345678-1234-5678-1234-567812345678";
    let texts = [id, "2026-11-27", "2026-11-27 12:00", "1.5", "{\"a\":  1}", "bad"];
    let columns = |texts: &[&str]| {
        let columns = names.iter().zip(texts).map(|(name, text)| {
            (*name, Arc::new(StringArray::from(vec![Some(*text), None])) as Arc<dyn Array>)
        });
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let listed = names.join(", ");
    let insert = format!("INSERT INTO t ({listed}) SELECT {listed} FROM rows");
    let rows = columns(&texts);
    session.lend_to_insert("rows", &insert, &rows.schema(), std::slice::from_ref(&rows)).unwrap();
    session.execute(&insert).unwrap();
    let found = "SELECT count(*) FROM t WHERE id::text = '12345678-1234-5678-1234-567812345678' AND day = '2026-11-27'
        AND at = '2026-11-27 11:00+00' AND price = 1.5 AND doc = '{\"a\": 1}' AND mood = 'bad'";
    assert_eq!(number(&mut session, found), 1);
    assert_eq!(number(&mut session, "SELECT count(*) FROM t WHERE id IS NULL AND mood IS NULL"), 1);
    // The first bad value is named, in rows of the whole frame.
    let mut bad = texts;
    bad[0] = "nobody";
    let both = [columns(&texts), columns(&bad)];
    let refused = session.lend_to_insert("more", &insert, &rows.schema(), &both).unwrap_err();
    assert_eq!(refused.state(), SqlState::InvalidTextRepresentation);
    assert!(refused.to_string().contains("Row 3 of the frame, counted from 1, column \"id\"."), "{refused}");
    // Without an INSERT they are what they are, and a text is no integer.
    lend(&mut session, "plain", &rows).unwrap();
    assert_eq!(number(&mut session, "SELECT count(*) FROM plain WHERE pg_typeof(day)::text = 'text'"), 2);
    let number_text = batch("n", StringArray::from(vec!["1"]));
    let insert = "INSERT INTO t (n) SELECT n FROM rows";
    let batches = std::slice::from_ref(&number_text);
    session.lend_to_insert("rows", insert, &number_text.schema(), batches).unwrap();
    assert_eq!(session.execute(insert).unwrap_err().state(), SqlState::DatatypeMismatch);
}

#[test]
fn sixteen_bytes_for_an_insert_are_a_uuid() {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id uuid)").unwrap();
    let insert = "INSERT INTO t (id) SELECT id FROM rows";
    let mut append = |bytes: &[u8]| {
        let rows = batch("id", LargeBinaryArray::from(vec![bytes]));
        session.lend_to_insert("rows", insert, &rows.schema(), std::slice::from_ref(&rows))?;
        session.execute(insert)?;
        Ok::<i64, coeval::Error>(number(
            &mut session,
            "SELECT count(*) FROM t WHERE id::text LIKE '07070707-%'",
        ))
    };
    assert_eq!(append(&[7; 16]).unwrap(), 1);
    let refused = append(&[7; 3]).unwrap_err();
    assert_eq!(refused.state(), SqlState::InvalidBinaryRepresentation);
    assert!(refused.to_string().contains("Row 1 of the frame, counted from 1, column \"id\"."), "{refused}");
}
