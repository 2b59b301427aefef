// SPDX-License-Identifier: Apache-2.0
//! Rows that are read while their query runs.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use coeval::{CommandTag, Database, Outcome, RowReader, Session, SqlState, TransactionStatus};

fn session() -> (Database, Session) {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id bigint PRIMARY KEY); INSERT INTO t VALUES (1), (2)").unwrap();
    (db, session)
}

fn rows(outcome: Outcome) -> RowReader {
    match outcome {
        Outcome::Rows(rows) => rows,
        other => panic!("rows are wanted, not {other:?}"),
    }
}

fn numbers(reader: RowReader) -> Vec<i64> {
    reader.flat_map(|batch| batch.unwrap().column(0).as_primitive::<Int64Type>().values().to_vec()).collect()
}

#[test]
fn a_result_is_read_as_it_comes_and_given_up_at_any_time() {
    let (_db, mut session) = session();
    let mut reader = rows(session.start("SELECT g FROM generate_series(1, 1000000000000) AS g").unwrap());
    let first = reader.next().unwrap().unwrap();
    assert_eq!(first.column(0).as_primitive::<Int64Type>().value(0), 1);
    assert_eq!(reader.tag(), None);
    drop(reader);
    assert_eq!(session.query("SELECT count(*) FROM t").unwrap()[0].num_rows(), 1);
}

#[test]
fn rows_are_those_of_the_statements_snapshot() {
    let (_db, mut session) = session();
    let reader = rows(session.start("SELECT t.id FROM t, t AS u WHERE u.id > 0 ORDER BY t.id").unwrap());
    session.execute("DELETE FROM t").unwrap();
    assert_eq!(numbers(reader), [1, 1, 2, 2]);
}

#[test]
fn a_statement_by_key_gives_values_and_a_changing_one_its_tag() {
    let (_db, mut session) = session();
    let prepared = session.prepare("SELECT id, id + 1 AS next FROM t WHERE id = $1").unwrap();
    assert_eq!(prepared.parameter_types().len(), 1);
    assert_eq!(prepared.columns().unwrap().field(1).name(), "next");
    let outcome = session.start_prepared(&prepared, &[coeval::Value::Int64(2)]).unwrap();
    let Outcome::Values(tag, schema, found) = outcome else { panic!("{outcome:?}") };
    assert_eq!((tag, found.row(0)), (CommandTag::Select(1), &[2_i64, 3].map(coeval::Value::Int64)[..]));
    let batch = found.to_batch(&schema).unwrap();
    assert_eq!(batch.column(1).as_primitive::<Int64Type>().values(), &[3]);
    let outcome = session.start("DELETE FROM t").unwrap();
    assert!(matches!(outcome, Outcome::Done(CommandTag::Delete(2))), "{outcome:?}");
}

#[test]
fn several_statements_give_the_rows_of_the_last() {
    let (_db, mut session) = session();
    let reader = rows(session.start("INSERT INTO t VALUES (3); SELECT sum(id)::bigint FROM t").unwrap());
    assert_eq!(reader.tag(), Some(&CommandTag::Select(1)));
    assert_eq!(numbers(reader), [6]);
    assert!(matches!(session.start("-- nothing").unwrap(), Outcome::Done(CommandTag::Plain(""))));
}

#[test]
fn an_error_in_between_is_the_last_that_comes() {
    let (_db, mut session) = session();
    let reader = rows(session.start("SELECT 1 / (50000 - g) FROM generate_series(1, 1000000) AS g").unwrap());
    let outcomes: Vec<_> = reader.collect();
    let (last, earlier) = outcomes.split_last().unwrap();
    assert_eq!(last.as_ref().unwrap_err().state(), SqlState::DivisionByZero);
    assert!(earlier.iter().all(Result::is_ok));
}

const FAILS_LATE: &str = "SELECT 1 / (50000 - g) FROM generate_series(1, 1000000) AS g";

#[test]
fn rows_that_end_with_an_error_fail_the_block() {
    let (_db, mut session) = session();
    session.execute("BEGIN; INSERT INTO t VALUES (3)").unwrap();
    let reader = rows(session.start(FAILS_LATE).unwrap());
    assert_eq!(session.transaction_status(), TransactionStatus::Active);
    assert!(reader.last().unwrap().is_err());
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    let text = "SELECT id FROM t WHERE id = 1";
    let failures = [
        session.execute("INSERT INTO t VALUES (4)").err(),
        session.start(text).err(),
        session.prepare(text).err(),
        session.query(text).err(),
    ];
    let states = failures.map(|error| error.unwrap().state());
    assert_eq!(states, [SqlState::InFailedSqlTransaction; 4]);
    session.execute("COMMIT").unwrap();
    assert_eq!(
        numbers(rows(session.start("SELECT t.id FROM t, t AS u WHERE u.id = 1 ORDER BY 1").unwrap())),
        [1, 2]
    );
}

#[test]
fn a_savepoint_is_the_way_back_from_rows_that_failed() {
    let (_db, mut session) = session();
    session.execute("BEGIN; INSERT INTO t VALUES (3); SAVEPOINT s").unwrap();
    assert!(rows(session.start(FAILS_LATE).unwrap()).last().unwrap().is_err());
    session.execute("ROLLBACK TO s; COMMIT").unwrap();
    assert_eq!(session.query("SELECT FROM t").unwrap()[0].num_rows(), 3);
}

#[test]
fn rows_of_an_earlier_block_or_of_none_fail_no_other() {
    let (_db, mut session) = session();
    let of_none = rows(session.start(FAILS_LATE).unwrap());
    session.execute("BEGIN").unwrap();
    let of_earlier = rows(session.start(FAILS_LATE).unwrap());
    session.execute("COMMIT; BEGIN").unwrap();
    assert!(of_none.last().unwrap().is_err() && of_earlier.last().unwrap().is_err());
    assert_eq!(session.transaction_status(), TransactionStatus::Active);
    session.execute("INSERT INTO t VALUES (3); COMMIT").unwrap();
    assert_eq!(session.query("SELECT FROM t").unwrap()[0].num_rows(), 3);
}

#[test]
fn a_reader_is_ended_by_a_request_to_cancel() {
    let (_db, mut session) = session();
    let cancel = session.cancel_handle();
    let mut reader = rows(
        session
            .start("SELECT count(*) FROM generate_series(1, 1000000) AS g, generate_series(1, 1000000) AS h")
            .unwrap(),
    );
    // It runs, since its rows are not there yet.
    cancel.cancel();
    assert_eq!(reader.next().unwrap().unwrap_err().state(), SqlState::QueryCanceled);
    // The next statement does not heed it.
    assert_eq!(numbers(rows(session.start("SELECT t.id FROM t, t AS u ORDER BY 1 LIMIT 1").unwrap())), [1]);
}

#[test]
fn there_is_no_client_to_exchange_copies_with() {
    let (_db, mut session) = session();
    for text in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
        assert_eq!(session.start(text).unwrap_err().state(), SqlState::FeatureNotSupported);
    }
    assert_eq!(session.query("SELECT * FROM t").unwrap()[0].num_rows(), 2);
}

#[test]
fn a_statement_that_is_tried_out_leaves_the_transaction_as_it_was() {
    let (_db, mut session) = session();
    session.execute("BEGIN; INSERT INTO t VALUES (3)").unwrap();
    let error = session.prepare_aside("SELECT nothing FROM t", &[]).err().unwrap();
    assert_eq!((error.state(), error.is_about_parameter_types()), (SqlState::UndefinedColumn, false));
    let prepared = session.prepare_aside("SELECT count(*) FROM t WHERE id > $1", &[]).unwrap();
    let batches = session.query_prepared(&prepared, &[coeval::Value::Int64(0)]).unwrap();
    assert_eq!(batches[0].column(0).as_primitive::<Int64Type>().value(0), 3);
    session.execute("COMMIT").unwrap();
}

/// Longer than anybody waits.
const ENDLESS: &str =
    "SELECT count(*) FROM generate_series(1, 1000000) AS g, generate_series(1, 1000000) AS h WHERE g + h = 0";

#[test]
fn whatever_runs_for_longer_than_statement_timeout_is_ended() {
    let (_db, mut session) = session();
    let prepared = session.prepare(ENDLESS).unwrap();
    session.execute("SET statement_timeout = '50ms'").unwrap();
    let of_reader = rows(session.start(ENDLESS).unwrap()).next().unwrap().unwrap_err();
    let of_text = session.execute(&format!("SELECT 1; {ENDLESS}")).unwrap_err();
    let of_prepared = session.query_prepared(&prepared, &[]).unwrap_err();
    let of_rows = session.query_rows(&prepared, &[]).unwrap_err();
    for error in [of_reader, of_text, of_prepared, of_rows] {
        assert_eq!(error.state(), SqlState::QueryCanceled);
        assert_eq!(error.to_string(), "canceling statement due to statement timeout (57014)");
    }
    // Of several statements each has as long.
    session.execute("SET statement_timeout = '400ms'").unwrap();
    session.execute("SELECT pg_sleep(0.25); SELECT pg_sleep(0.25); SELECT 1").unwrap();
    // What is short, and what was read in time, is not concerned.
    let reader = rows(session.start("SELECT t.id FROM t, t AS u ORDER BY 1").unwrap());
    assert_eq!(numbers(reader), [1, 1, 2, 2]);
    session.execute("RESET statement_timeout").unwrap();
    assert_eq!(session.query("SELECT pg_sleep(0.1)").unwrap()[0].num_rows(), 1);
}
