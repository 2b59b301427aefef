# SPDX-License-Identifier: Apache-2.0
import datetime
import uuid
from decimal import Decimal

import pyarrow
import pytest

UTC = datetime.timezone.utc
ID = uuid.UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
MONTHS = pyarrow.MonthDayNano([14, 3, 4_000_000_000])

TYPES = [
    ("boolean", True, pyarrow.bool_()),
    ("smallint", -7, pyarrow.int16()),
    ("int", 7, pyarrow.int32()),
    ("bigint", 2**62, pyarrow.int64()),
    ("real", 0.5, pyarrow.float32()),
    ("double precision", 0.1, pyarrow.float64()),
    ("numeric(12,2)", Decimal("20.05"), pyarrow.decimal128(12, 2)),
    ("text", "grün", pyarrow.string_view()),
    ("varchar(5)", "abc", pyarrow.string_view()),
    ("bytea", b"\x00\xff", pyarrow.binary_view()),
    ("date", datetime.date(2026, 11, 27), pyarrow.date32()),
    ("time", datetime.time(12, 34, 56, 789), pyarrow.time64("us")),
    ("timestamp", datetime.datetime(2026, 11, 27, 1, 2, 3, 4), pyarrow.timestamp("us")),
    ("timestamptz", datetime.datetime(2026, 11, 27, 1, 2, 3, 4, UTC), pyarrow.timestamp("us", "UTC")),
    ("interval", MONTHS, pyarrow.month_day_nano_interval()),
    ("int[]", [1, None, 3], pyarrow.list_(pyarrow.int32())),
    ("text[]", ['a"b', None, "c\\d"], pyarrow.list_(pyarrow.string_view())),
]


@pytest.mark.parametrize(("name", "value", "ty"), TYPES, ids=[name for name, _, _ in TYPES])
def test_values_go_in_and_come_out(db, name, value, ty):
    with db.cursor() as cursor:
        cursor.execute(f"CREATE TABLE t (v {name})")
        cursor.executemany("INSERT INTO t VALUES ($1)", pyarrow.table({"v": pyarrow.array([value, None], ty)}))
        assert cursor.rowcount == 2
        cursor.execute("SELECT v FROM t ORDER BY v")
        found = cursor.fetch_arrow_table()
    assert found.schema.field("v").type == ty
    assert found["v"].to_pylist() == [value, None]


def test_identifiers_and_documents_have_their_extension_types(db):
    with db.cursor() as cursor:
        cursor.execute("CREATE TABLE t (i uuid, j json, k jsonb)")
        rows = pyarrow.table({"i": [ID.bytes], "j": ['{"b": 1}'], "k": ['{"b": 1, "a": 2}']})
        cursor.executemany("INSERT INTO t VALUES ($1, $2, $3)", rows)
        cursor.execute("SELECT * FROM t")
        found = cursor.fetch_arrow_table()
    assert [field.type.extension_name for field in found.schema] == ["arrow.uuid", "arrow.json", "arrow.json"]
    assert found["i"].to_pylist() == [ID]
    assert found["j"].combine_chunks().storage.to_pylist() == ['{"b": 1}']
    assert found["k"].combine_chunks().storage.to_pylist() == ['{"a": 2, "b": 1}']


def test_identifiers_are_taken_as_texts_and_as_their_own_type(db, run):
    run(db, "CREATE TABLE t (i uuid)")
    with db.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES ($1)", pyarrow.table({"i": [str(ID)]}))
        own = pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), pyarrow.array([ID.bytes], pyarrow.binary(16)))
        cursor.executemany("INSERT INTO t VALUES ($1)", pyarrow.table({"i": own}))
    assert run(db, "SELECT DISTINCT i FROM t") == [(ID,)]


def test_enums_are_dictionaries(db, run):
    run(db, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    run(db, "CREATE TABLE t (m mood, a mood[])")
    with db.cursor() as cursor:
        plain = pyarrow.array(["happy", "sad", None])
        lists = pyarrow.array([["ok", None], [], None], pyarrow.list_(pyarrow.string()))
        cursor.executemany("INSERT INTO t VALUES ($1, $2)", pyarrow.table({"m": plain, "a": lists}))
        cursor.executemany("INSERT INTO t (m) VALUES ($1)", pyarrow.table({"m": plain.dictionary_encode()}))
        cursor.execute("SELECT m FROM t ORDER BY m")
        found = cursor.fetch_arrow_table()
    assert pyarrow.types.is_dictionary(found.schema.field("m").type)
    assert found["m"].to_pylist() == ["sad", "sad", "happy", "happy", None, None]
    assert run(db, "SELECT a::text FROM t WHERE a IS NOT NULL ORDER BY 1") == [("{ok,NULL}",), ("{}",)]
    with db.cursor() as cursor:
        cursor.execute("SELECT a FROM t WHERE a IS NOT NULL ORDER BY a")
        found = cursor.fetch_arrow_table()
    assert pyarrow.types.is_dictionary(found.schema.field("a").type.value_type)
    assert found["a"].to_pylist() == [[], ["ok", None]]


def test_a_program_may_want_no_views(connect):
    db = connect(**{"coeval.arrow.views": "false"})
    with db.cursor() as cursor:
        cursor.execute("SELECT 'a' AS t, '\\x01'::bytea AS b, ARRAY['x'] AS l")
        found = cursor.fetch_arrow_table()
    assert found.schema.types == [pyarrow.string(), pyarrow.binary(), pyarrow.list_(pyarrow.string())]
    assert found.to_pylist() == [{"t": "a", "b": b"\x01", "l": ["x"]}]


def test_a_local_time_is_one_of_the_sessions_zone(db, run):
    run(db, "SET timezone = 'Europe/Berlin'")
    local = pyarrow.array([datetime.datetime(2026, 7, 1, 12)], pyarrow.timestamp("s"))
    instant = pyarrow.array([datetime.datetime(2026, 7, 1, 12, tzinfo=UTC)], pyarrow.timestamp("ms", "UTC"))
    with db.cursor() as cursor:
        cursor.execute("SELECT $1::timestamptz, $2::timestamp", pyarrow.table({"a": local, "b": instant}))
        assert cursor.fetchall() == [
            (datetime.datetime(2026, 7, 1, 10, tzinfo=UTC), datetime.datetime(2026, 7, 1, 14)),
        ]


def test_texts_are_of_one_type(db):
    with db.cursor() as cursor:
        for sql in ("SELECT 'a'", "SELECT NULL", "SHOW timezone", "SELECT 'a' WHERE false", "SELECT relname FROM pg_class"):
            cursor.execute(sql)
            assert cursor.fetch_arrow_table().schema.types == [pyarrow.string_view()], sql
        cursor.execute("SELECT ARRAY[NULL]")
        assert cursor.fetch_arrow_table().column(0).to_pylist() == [[None]]


def test_a_statement_without_rows_has_no_columns(db):
    with db.cursor() as cursor:
        cursor.execute("CREATE TABLE t (a int)")
        assert cursor.fetch_arrow_table().num_columns == 0
        cursor.execute("SELECT * FROM t")
        assert cursor.fetch_arrow_table().schema.names == ["a"]
