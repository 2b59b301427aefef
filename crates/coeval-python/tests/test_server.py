# SPDX-License-Identifier: Apache-2.0
"""A server's database by the same interface: `coeval.connect("postgres://...")`."""

import datetime
import decimal
import subprocess
import sys
import threading

import coeval
import pandas
import polars
import pyarrow
import pytest
from test_statements import VALUES


@pytest.fixture(scope="module")
def url():
    command = [sys.executable, "-m", "coeval", "serve", "--in-memory", "--listen", "127.0.0.1:0", "--while-input-lasts"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    line = server.stderr.readline()
    assert line.startswith("Listening on "), line
    # What it says later is read, so that it never waits for whoever reads.
    threading.Thread(target=server.stderr.read, daemon=True).start()
    yield f"postgres://tester@{line.split()[-1]}/coeval"
    server.stdin.close()
    server.wait(timeout=20)


@pytest.fixture
def db(url):
    with coeval.connect(url) as db:
        db.sql("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        yield db


@pytest.mark.parametrize(("ty", "value"), VALUES, ids=[f"{ty}-{index}" for index, (ty, _) in enumerate(VALUES)])
def test_values_come_back_as_they_were_given(db, ty, value):
    if ty == "json":
        pytest.skip("a list is an array to the driver, which says so to the server")
    db.sql(f"CREATE TABLE kept (id int PRIMARY KEY, value {ty})")
    db.sql("INSERT INTO kept VALUES (?, ?), (?, ?)", [1, value, 2, None])
    kept = db.sql("SELECT value FROM kept ORDER BY id").fetchall()
    assert kept == [(value,), (None,)]
    assert type(kept[0][0]) is type(value)


def test_parameters_are_written_as_in_the_process(db):
    assert db.sql("SELECT ?::int + 1, '?', $$?$$", [41]).fetchall() == [(42, "?", "?")]
    assert db.sql("SELECT $b::int - $a::int, $a::int", {"a": 1, "b": 3}).fetchall() == [(2, 1)]
    with pytest.raises(coeval.ProgrammingError, match=r"\$missing"):
        db.sql("SELECT $missing::int", {"a": 1})


def test_a_text_of_statements_gives_the_rows_of_the_last(db):
    result = db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a")
    assert result.columns == ["a"]
    assert list(result) == [(1,), (2,)]
    changed = db.sql("UPDATE t SET a = a + 1")
    assert (changed.rowcount, changed.tag) == (2, "UPDATE 2")
    with pytest.raises(coeval.ProgrammingError):
        changed.fetchall()


def test_results_are_arrow_and_frames(db):
    text = """SELECT n AS i, n::text AS t, (n / 4.0)::numeric(6, 2) AS d, n * 1.5 AS any_digits, date '2026-01-01' + n AS day,
        timestamptz '2026-01-01 00:00:00+00' AS at, ARRAY[n] AS l, n > 1 AS b, NULL::numeric AS nothing
        FROM generate_series(1, 3) AS n ORDER BY n"""
    table = db.sql(text).arrow()
    assert [str(field.type) for field in table.schema] == [
        "int32", "string", "decimal128(6, 2)", "decimal128(13, 1)", "date32[day]", "timestamp[us, tz=UTC]",
        "list<item: int32>", "bool", "decimal128(38, 0)",
    ]
    assert table.column("d").to_pylist() == [decimal.Decimal("0.25"), decimal.Decimal("0.50"), decimal.Decimal("0.75")]
    assert table.column("l").to_pylist() == [[1], [2], [3]]
    assert db.sql(text).df()["i"].tolist() == [1, 2, 3]
    assert db.sql(text).pl()["day"].to_list() == [datetime.date(2026, 1, 1 + n) for n in (1, 2, 3)]


def test_numbers_that_no_decimal_of_arrow_has_are_texts(db):
    table = db.sql("SELECT x FROM (VALUES ('1.50'), ('NaN'), (NULL)) v (t), LATERAL (SELECT t::numeric AS x) n").arrow()
    assert table.column("x").to_pylist() == ["1.50", "NaN", None]


def test_frames_are_appended(db):
    db.sql("CREATE TABLE hits (id int PRIMARY KEY, name text, score double precision, at timestamp, raw bytea)")
    frame = pandas.DataFrame({"id": [1, 2], "name": ["a,\"b\"\n", None], "score": [0.5, None]})
    assert db.append("hits", frame) == 2
    more = polars.DataFrame({"id": [3], "name": [""], "at": [datetime.datetime(2026, 1, 2, 3, 4, 5, 6)]})
    assert db.append("public.hits", more) == 1
    assert db.append("hits", pyarrow.table({"id": [4], "raw": [b"\x00\xff"]})) == 1
    assert db.sql("SELECT * FROM hits ORDER BY id").fetchall() == [
        (1, 'a,"b"\n', 0.5, None, None),
        (2, None, None, None, None),
        (3, "", None, datetime.datetime(2026, 1, 2, 3, 4, 5, 6), None),
        (4, None, None, None, b"\x00\xff"),
    ]
    with pytest.raises(coeval.UniqueViolation):
        db.append("hits", {"id": [5, 1]})
    assert db.sql("SELECT count(*) FROM hits").fetchall() == [(4,)]
    with pytest.raises(coeval.NotSupportedError, match="nested|cannot be sent"):
        db.append("hits", pyarrow.table({"id": [6], "name": [["x"]]}))


def test_frames_of_the_program_are_not_seen(db):
    frame = pandas.DataFrame({"a": [1]})
    with pytest.raises(coeval.UndefinedTable):
        db.sql("SELECT * FROM frame")
    del frame


def test_transactions_commit_roll_back_and_run_again(db, url):
    db.sql("CREATE TABLE accounts (id int PRIMARY KEY, balance int CHECK (balance >= 0)); INSERT INTO accounts VALUES (1, 10), (2, 0)")
    with db.transaction() as tx:
        tx.sql("UPDATE accounts SET balance = 9 WHERE id = 1")
    with pytest.raises(coeval.CheckViolation) as raised, db.transaction() as tx:
        tx.sql("UPDATE accounts SET balance = 5 WHERE id = 2")
        tx.sql("UPDATE accounts SET balance = -1 WHERE id = 1")
    assert raised.value.sqlstate == "23514" and raised.value.table == "accounts"
    assert db.sql("SELECT balance FROM accounts ORDER BY id").fetchall() == [(9,), (0,)]
    runs = []

    @db.retry
    def add(tx, amount):
        runs.append(amount)
        (balance,) = tx.sql("SELECT balance FROM accounts WHERE id = 1").fetchone()
        if len(runs) == 1:
            with coeval.connect(url) as other:
                other.sql("UPDATE accounts SET balance = balance + 100 WHERE id = 1")
        tx.sql("UPDATE accounts SET balance = ? WHERE id = 1", [balance + amount])

    add(1)
    assert runs == [1, 1]
    with db.transaction(read_only=True) as tx:
        assert tx.sql("SELECT balance FROM accounts WHERE id = 1").fetchall() == [(110,)]
        with pytest.raises(coeval.ReadOnlyError):
            tx.sql("UPDATE accounts SET balance = 0")


def test_cursors_are_those_of_pep_249(db):
    cursor = db.cursor()
    cursor.execute("CREATE TABLE t (a int, b text)")
    cursor.executemany("INSERT INTO t VALUES (?, ?)", [(1, "x"), (2, "y")])
    assert cursor.rowcount == 2
    db.rollback()
    with pytest.raises(coeval.UndefinedTable):
        cursor.execute("SELECT * FROM t")
    db.rollback()


def test_errors_say_where(db):
    with pytest.raises(coeval.ProgrammingError) as raised:
        db.sql("SELECT nothing FROM pg_class")
    assert (raised.value.sqlstate, raised.value.position) == ("42703", 8)
    with pytest.raises(coeval.OperationalError):
        coeval.connect("postgres://tester@127.0.0.1:1/coeval")


def test_a_statement_is_cancelled(db, url):
    running = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
    ended = threading.Event()

    def cancel():
        with coeval.connect(url) as other:
            while other.sql(running).fetchone() == (0,) and not ended.wait(0.01):
                pass
        # Once is enough, unless it came before the statement had begun in earnest.
        while not ended.is_set():
            db.cancel()
            ended.wait(5)

    cancels = threading.Thread(target=cancel)
    cancels.start()
    try:
        with pytest.raises(coeval.QueryCanceled):
            db.sql("SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b")
    finally:
        ended.set()
        cancels.join()
    assert db.sql("SELECT 1").fetchall() == [(1,)]


def test_threads_have_sessions_of_their_own(db):
    db.sql("SET application_name = 'main'")
    seen = []
    thread = threading.Thread(target=lambda: seen.append(db.sql("SELECT current_setting('application_name')").fetchone()))
    thread.start()
    thread.join()
    assert seen != [("main",)]
    assert db.sql("SELECT current_setting('application_name')").fetchone() == ("main",)


def test_a_closed_connection_says_so(url):
    db = coeval.connect(url)
    db.close()
    with pytest.raises(coeval.Error):
        db.sql("SELECT 1")
