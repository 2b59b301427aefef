# SPDX-License-Identifier: Apache-2.0
import threading
import time

import pyarrow
import pytest
from adbc_driver_manager import (
    AdbcStatement,
    DataError,
    IntegrityError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)

# Takes many minutes if nobody ends it.
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE (a.a * b.b) % 7 = 3"


def test_the_first_rows_come_before_the_last_are_made(db):
    with db.cursor() as cursor:
        began = time.monotonic()
        # All of them would be ten million million.
        cursor.execute("SELECT a.a, b.b FROM generate_series(1, 10000000) AS a (a), generate_series(1, 1000000) AS b (b)")
        reader = cursor.fetch_record_batch()
        assert reader.read_next_batch().num_rows > 0
        assert reader.read_next_batch().num_rows > 0
        assert time.monotonic() - began < 30


def test_rows_are_those_of_the_statements_snapshot(db, run):
    run(db, "CREATE TABLE t AS SELECT g AS a FROM generate_series(1, 200000) AS g")
    with db.cursor() as cursor:
        cursor.execute("SELECT a FROM t")
        run(db, "DELETE FROM t")
        assert cursor.fetch_arrow_table().num_rows == 200_000


def test_several_statements_are_one_text(connect, run):
    for db in (connect(autocommit=True), connect()):
        assert run(db, "CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT sum(a) FROM t") == [(3,)]
        with db.cursor() as cursor:
            cursor.executescript("INSERT INTO t VALUES (4); INSERT INTO t VALUES (5)")
        assert run(db, "SELECT count(*) FROM t") == [(4,)]


def test_rows_that_are_changed_are_counted(db):
    with AdbcStatement(db.adbc_connection) as statement:
        counts = []
        for sql in (
            "CREATE TABLE t (a int)",
            "INSERT INTO t SELECT g FROM generate_series(1, 10) AS g",
            "UPDATE t SET a = a + 1 WHERE a > 5",
            "DELETE FROM t WHERE a < 3 RETURNING a",
            "SELECT * FROM t",
        ):
            statement.set_sql_query(sql)
            counts.append(statement.execute_update())
    assert counts == [-1, 10, 5, 2, 8]


def test_errors_have_states_and_say_more(db, run):
    run(db, "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL CHECK (v > 0), parent int REFERENCES t)")
    run(db, "INSERT INTO t VALUES (1, 1)")
    for sql, kind, state, status in (
        ("SELEC 1", ProgrammingError, "42601", "INVALID_ARGUMENT"),
        ("SELECT * FROM nowhere", ProgrammingError, "42P01", "NOT_FOUND"),
        ("SELECT nothing FROM t", ProgrammingError, "42703", "INVALID_ARGUMENT"),
        ("CREATE TABLE t (a int)", ProgrammingError, "42P07", "ALREADY_EXISTS"),
        ("INSERT INTO t VALUES (1, 1)", IntegrityError, "23505", "INTEGRITY"),
        ("INSERT INTO t VALUES (2, 0)", IntegrityError, "23514", "INTEGRITY"),
        ("INSERT INTO t VALUES (2, NULL)", IntegrityError, "23502", "INTEGRITY"),
        ("INSERT INTO t VALUES (2, 1, 7)", IntegrityError, "23503", "INTEGRITY"),
        ("SELECT 1 / (v - 1) FROM t", DataError, "22012", "INVALID_DATA"),
        ("SELECT 'x'::int", DataError, "22P02", "INVALID_DATA"),
        ("COPY t TO STDOUT", NotSupportedError, "0A000", "NOT_IMPLEMENTED"),
        ("CREATE TABLE pg_catalog.u (a int)", ProgrammingError, "42501", "UNAUTHORIZED"),
    ):
        with pytest.raises(kind) as caught:
            run(db, sql)
        assert (caught.value.sqlstate, caught.value.status_code.name) == (state, status), sql
    with pytest.raises(IntegrityError, match=r"(?s)duplicate key.*DETAIL: .*\(1\)") as caught:
        run(db, "INSERT INTO t VALUES (1, 1)")
    details = dict(caught.value.details)
    assert details[b"PG_DIAG_TABLE_NAME"] == b"t"
    assert details[b"PG_DIAG_CONSTRAINT_NAME"] == b"t_pkey"


def test_an_error_behind_the_first_rows_ends_the_stream(db):
    with db.cursor() as cursor:
        cursor.execute("SELECT 1 / (900000 - g) FROM generate_series(1, 1000000) AS g")
        with pytest.raises(Exception, match="division by zero"):
            cursor.fetch_arrow_table()
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def cancelled(cancel):
    """Asks to cancel until the end of the test."""
    stopped = threading.Event()

    def ask():
        while not stopped.wait(0.2):
            cancel()

    thread = threading.Thread(target=ask)
    thread.start()

    def stop():
        stopped.set()
        thread.join()

    return stop


@pytest.mark.parametrize("of_connection", [False, True])
def test_a_statement_is_cancelled_by_another_thread(db, run, of_connection):
    with db.cursor() as cursor:
        stop = cancelled(db.adbc_cancel if of_connection else cursor.adbc_cancel)
        try:
            with pytest.raises(OperationalError) as caught:
                cursor.execute(ENDLESS)
        finally:
            stop()
        assert caught.value.sqlstate == "57014"
        assert caught.value.status_code.name == "CANCELLED"
    assert run(db, "SELECT 1") == [(1,)]


def test_rows_that_are_read_are_cancelled(db, run):
    with db.cursor() as cursor:
        cursor.execute("SELECT a.a FROM generate_series(1, 10000000) AS a (a), generate_series(1, 1000000) AS b (b)")
        reader = cursor.fetch_record_batch()
        assert reader.read_next_batch().num_rows > 0
        cursor.adbc_cancel()
        with pytest.raises(Exception, match="57014"):
            for _ in reader:
                pass
    assert run(db, "SELECT 1") == [(1,)]


def test_many_sets_are_cancelled_as_one(db, run):
    run(db, "CREATE TABLE t (a int)")
    with db.cursor() as cursor:
        stop = cancelled(cursor.adbc_cancel)
        try:
            with pytest.raises(OperationalError) as caught:
                cursor.executemany("INSERT INTO t VALUES ($1)", pyarrow.table({"a": list(range(5_000_000))}))
        finally:
            stop()
        assert caught.value.sqlstate == "57014"
    assert run(db, "SELECT count(*) FROM t") == [(0,)]


def test_what_adbc_has_and_this_driver_has_not_is_said(db):
    with db.cursor() as cursor:
        with pytest.raises(NotSupportedError):
            cursor.adbc_execute_partitions("SELECT 1")
        with pytest.raises(NotSupportedError, match="Substrait"):
            cursor.execute(b"plan")


def test_no_call_makes_the_driver_panic(db, run):
    for sql in ("", ";", "-- nothing", "\x00", "SELECT $1", "SELECT $2::int", "((("):
        try:
            run(db, sql)
        except InternalError:
            raise
        except Exception:  # noqa: BLE001 -- any other will do
            pass
    assert run(db, "SELECT 1") == [(1,)]
