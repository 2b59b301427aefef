# SPDX-License-Identifier: Apache-2.0
import datetime
import uuid

import pyarrow
import pytest
from adbc_driver_manager import IntegrityError, OperationalError, ProgrammingError, dbapi

ROWS = pyarrow.table({"id": [1, 2, 3], "name": ["ann", "bob", None]})


def ingest(connection, table, rows, mode="create", **options):
    with connection.cursor() as cursor:
        return cursor.adbc_ingest(table, rows, mode=mode, **options)


def test_create_makes_a_table_that_must_not_be_there(db, run):
    assert ingest(db, "t", ROWS) == 3
    assert run(db, "SELECT * FROM t ORDER BY id") == [(1, "ann"), (2, "bob"), (3, None)]
    with pytest.raises(ProgrammingError) as caught:
        ingest(db, "t", ROWS)
    assert caught.value.sqlstate == "42P07"
    assert caught.value.status_code.name == "ALREADY_EXISTS"
    assert run(db, "SELECT count(*) FROM t") == [(3,)]


def test_append_needs_a_table_that_the_rows_fit(db, run):
    with pytest.raises(ProgrammingError) as caught:
        ingest(db, "t", ROWS, "append")
    assert caught.value.status_code.name == "NOT_FOUND"
    run(db, "CREATE TABLE t (name text, id bigint, made timestamp DEFAULT 'epoch')")
    assert ingest(db, "t", ROWS, "append") == 3
    assert run(db, "SELECT * FROM t WHERE id = 2") == [("bob", 2, datetime.datetime(1970, 1, 1))]
    with pytest.raises(ProgrammingError, match='no column "weight"') as caught:
        ingest(db, "t", ROWS.append_column("weight", [[1.0, 2.0, 3.0]]), "append")
    assert caught.value.status_code.name == "ALREADY_EXISTS"
    assert run(db, "SELECT count(*) FROM t") == [(3,)]


def test_replace_drops_what_was_there(db, run):
    run(db, "CREATE TABLE t (other int)")
    assert ingest(db, "t", ROWS, "replace") == 3
    assert ingest(db, "t", ROWS.slice(0, 1), "replace") == 1
    assert run(db, "SELECT * FROM t") == [(1, "ann")]


def test_create_append_makes_the_table_once(db, run):
    assert ingest(db, "t", ROWS, "create_append") == 3
    assert ingest(db, "t", ROWS, "create_append") == 3
    assert run(db, "SELECT count(*) FROM t") == [(6,)]


def test_all_rows_go_in_or_none(db, run):
    run(db, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    batches = [
        pyarrow.record_batch({"id": list(range(group * 70_000, (group + 1) * 70_000))}) for group in range(3)
    ]
    twice = [*batches, pyarrow.record_batch({"id": [5]})]
    with pytest.raises(IntegrityError) as caught:
        ingest(db, "t", pyarrow.Table.from_batches(twice), "append")
    assert caught.value.sqlstate == "23505"
    assert run(db, "SELECT count(*) FROM t") == [(0,)]
    with pytest.raises(IntegrityError):
        ingest(db, "t", pyarrow.table({"id": [1, None]}), "append")
    assert ingest(db, "t", pyarrow.Table.from_batches(batches), "append") == 210_000
    assert run(db, "SELECT count(*), max(id) FROM t") == [(210_000, 209_999)]


def test_a_failed_ingestion_leaves_the_table_that_it_would_have_replaced(db, run):
    run(db, "CREATE TABLE t AS SELECT 1 AS id")

    def failing():
        yield ROWS.to_batches()[0]
        raise ValueError("no more")

    with pytest.raises(Exception, match="no more"):
        ingest(db, "t", pyarrow.RecordBatchReader.from_batches(ROWS.schema, failing()), "replace")
    assert run(db, "SELECT * FROM t") == [(1,)]


def test_an_ingestion_is_part_of_the_open_transaction(connect, run):
    db = connect()
    run(db, "CREATE TABLE t (id bigint PRIMARY KEY, name text)")
    run(db, "INSERT INTO t VALUES (3, 'cid')")
    with pytest.raises(IntegrityError):
        ingest(db, "t", ROWS, "append")
    run(db, "DELETE FROM t")
    ingest(db, "t", ROWS, "append")
    db.commit()
    ingest(db, "t", ROWS.set_column(0, "id", [[4, 5, 6]]), "append")
    db.rollback()
    assert run(db, "SELECT count(*) FROM t") == [(3,)]


def test_a_stream_is_read_while_it_goes_in(db, run):
    ready = []

    def batches():
        for number in range(40):
            ready.append(number)
            yield pyarrow.record_batch({"id": list(range(number * 10_000, (number + 1) * 10_000))})

    schema = pyarrow.schema({"id": pyarrow.int64()})
    assert ingest(db, "t", pyarrow.RecordBatchReader.from_batches(schema, batches())) == 400_000
    assert len(ready) == 40
    assert run(db, "SELECT count(DISTINCT id) FROM t") == [(400_000,)]


def test_a_table_may_be_in_a_schema_or_temporary(connect, run):
    db = connect(autocommit=True)
    run(db, "CREATE SCHEMA s")
    ingest(db, "t", ROWS, db_schema_name="s", catalog_name="coeval")
    ingest(db, "t", ROWS.slice(0, 2), temporary=True)
    ingest(db, "t", ROWS, "append", temporary=True)
    assert run(db, "SELECT (SELECT count(*) FROM s.t), (SELECT count(*) FROM t)") == [(3, 5)]
    ingest(db, "t", ROWS.slice(0, 1), "replace", temporary=True)
    assert run(db, "SELECT count(*) FROM pg_temp.t") == [(1,)]
    with db.adbc_clone() as other, pytest.raises(ProgrammingError):
        run(other, "SELECT * FROM t")
    with pytest.raises(ProgrammingError):
        ingest(db, "u", ROWS, catalog_name="other")
    with pytest.raises(ProgrammingError):
        ingest(db, "u", ROWS, db_schema_name="nowhere")


def test_types_of_made_columns_are_those_of_arrow(db, run):
    rows = pyarrow.table({
        "a": pyarrow.array([1], pyarrow.int8()),
        "b": pyarrow.array([1], pyarrow.uint32()),
        "c": pyarrow.array([1.5], pyarrow.float32()),
        "d": pyarrow.array(["x"], pyarrow.large_string()),
        "e": pyarrow.array([b"x"], pyarrow.binary()),
        "f": pyarrow.array([datetime.datetime(2026, 1, 2)], pyarrow.timestamp("ns", "UTC")),
        "g": pyarrow.array(["x"]).dictionary_encode(),
        "h": pyarrow.array([datetime.timedelta(seconds=5)]),
        "i": pyarrow.array([[1, 2]]),
        "j": pyarrow.ExtensionArray.from_storage(pyarrow.json_(), pyarrow.array(['{"a":1}'])),
        "k": pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), pyarrow.array([uuid.UUID(int=1).bytes], pyarrow.binary(16))),
        "l": pyarrow.nulls(1),
        "o": pyarrow.array([b"x"], pyarrow.large_binary()),
        "p": pyarrow.array([[b"x"]], pyarrow.large_list(pyarrow.large_binary())),
    })
    ingest(db, "t", rows)
    types = run(db, "SELECT data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY ordinal_position")
    assert [ty for (ty,) in types] == [
        "smallint", "bigint", "real", "text", "bytea", "timestamp with time zone", "text", "interval", "ARRAY", "json",
        "uuid", "text", "bytea", "ARRAY",
    ]
    assert run(db, "SELECT o, p[1] FROM t") == [(b"x", b"x")]
    assert run(db, "SELECT d, g, h::text, i, j->>'a', l FROM t") == [("x", "x", "00:00:05", [1, 2], "1", None)]
    with pytest.raises(dbapi.NotSupportedError, match='column "m"'):
        ingest(db, "u", pyarrow.table({"m": pyarrow.array([{"x": 1}])}))


def test_texts_become_what_the_column_is(db, run):
    run(db, "CREATE TYPE mood AS ENUM ('sad', 'ok')")
    run(db, "CREATE TABLE t (m mood, j jsonb, u uuid, d date, v varchar(3))")
    rows = {"m": ["ok"], "j": ["[1]"], "u": [str(uuid.UUID(int=1))], "d": ["2026-01-02"], "v": ["abc"]}
    ingest(db, "t", pyarrow.table(rows), "append")
    assert run(db, "SELECT m::text, j->>0, d, v FROM t") == [("ok", "1", datetime.date(2026, 1, 2), "abc")]
    with pytest.raises(dbapi.DataError):
        ingest(db, "t", pyarrow.table({"v": ["abcd"]}), "append")


def test_rows_may_not_come_from_the_connection_that_takes_them(db, run):
    run(db, "CREATE TABLE source AS SELECT g AS id FROM generate_series(1, 3) AS g")

    def batches():
        yield pyarrow.record_batch({"id": [row[0] for row in run(db, "SELECT id FROM source")]})

    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema({"id": pyarrow.int64()}), batches())
    with pytest.raises(Exception, match="busy"):
        ingest(db, "t", reader)
    with db.cursor() as cursor:
        # Rows that a query has for whoever reads them do.
        cursor.execute("SELECT id::bigint FROM source")
        assert ingest(db, "t", cursor.fetch_record_batch()) == 3


def test_an_ingestion_can_be_cancelled(db, run):
    cursor = db.cursor()

    def batches():
        for number in range(1000):
            if number == 20:
                cursor.adbc_cancel()
            yield pyarrow.record_batch({"id": list(range(10_000))})

    reader = pyarrow.RecordBatchReader.from_batches(pyarrow.schema({"id": pyarrow.int64()}), batches())
    with pytest.raises(OperationalError) as caught:
        cursor.adbc_ingest("t", reader)
    assert caught.value.sqlstate == "57014"
    cursor.close()
    assert run(db, "SELECT count(*) FROM information_schema.tables WHERE table_name = 't'") == [(0,)]
