# SPDX-License-Identifier: Apache-2.0
import datetime
from decimal import Decimal

import pyarrow
import pytest
from adbc_driver_manager import AdbcStatement, DataError, IntegrityError, ProgrammingError


def test_parameters_of_python_go_by_position(db, run):
    given = [1, "two", 3.5, True, b"\x04", Decimal("5.25"), datetime.date(2026, 6, 7), None]
    names = ", ".join(f"${number}" for number in range(1, 9))
    run(db, "CREATE TABLE t (a int, b text, c real, d boolean, e bytea, f numeric(6,2), g date, h text)")
    run(db, f"INSERT INTO t VALUES ({names})", given)
    assert run(db, "SELECT * FROM t") == [tuple(given)]


def test_values_say_what_the_statement_does_not(db, run):
    assert run(db, "SELECT $1, $2", [1, "a"]) == [(1, "a")]
    assert run(db, "SELECT $1 + 1", [41]) == [(42,)]
    assert run(db, "SELECT $1 IS NULL, $2 IS NULL", [None, 1]) == [(True, False)]


def test_a_query_runs_once_for_each_row_of_values(db):
    with db.cursor() as cursor:
        cursor.execute("SELECT $1::int * 2 AS twice", pyarrow.table({"a": [1, 2, 3]}))
        assert cursor.fetchall() == [(2,), (4,), (6,)]
        cursor.execute("SELECT $1::int AS a", pyarrow.table({"a": pyarrow.array([], pyarrow.int32())}))
        assert cursor.fetch_arrow_table().to_pylist() == []


def test_many_rows_are_one_transaction(db, run):
    run(db, "CREATE TABLE t (a int PRIMARY KEY)")
    with db.cursor() as cursor:
        cursor.executemany("INSERT INTO t VALUES ($1)", [[1], [2], [3]])
        assert cursor.rowcount == 3
        with pytest.raises(IntegrityError):
            cursor.executemany("INSERT INTO t VALUES ($1)", [[4], [1]])
        cursor.executemany("INSERT INTO t VALUES ($1)", [])
    assert run(db, "SELECT count(*) FROM t") == [(3,)]


def test_many_rows_come_in_batches(db, run):
    run(db, "CREATE TABLE t (a int)")
    batches = [pyarrow.record_batch({"a": [number, number]}) for number in range(5)]
    reader = pyarrow.RecordBatchReader.from_batches(batches[0].schema, iter(batches))
    with db.cursor() as cursor:
        cursor.executemany("UPDATE t SET a = $1", reader)
        assert cursor.rowcount == 0
        cursor.executemany("INSERT INTO t VALUES ($1)", pyarrow.Table.from_batches(batches))
    assert run(db, "SELECT count(*), sum(a) FROM t") == [(10, 20)]


def test_what_a_type_cannot_hold_is_refused(db, run):
    run(db, "CREATE TABLE t (s smallint, i int, d date)")
    with pytest.raises(DataError) as caught:
        run(db, "INSERT INTO t (s) VALUES ($1)", [100_000])
    assert caught.value.sqlstate.startswith("22")
    with pytest.raises(DataError, match="none of its Int32"):
        run(db, "INSERT INTO t (i) VALUES ($1)", [1.5])
    with pytest.raises(DataError, match="none of its Date32"):
        run(db, "INSERT INTO t (d) VALUES ($1)", [datetime.datetime(2026, 1, 1, 5)])
    with pytest.raises(ProgrammingError, match=r"parameter \$1 is of type integer") as caught:
        run(db, "INSERT INTO t (i) VALUES ($1)", [True])
    assert caught.value.sqlstate == "42804"
    run(db, "INSERT INTO t VALUES ($1, $2, $3)", [1.0, "2", datetime.datetime(2026, 1, 1)])
    assert run(db, "SELECT * FROM t") == [(1, 2, datetime.date(2026, 1, 1))]


def test_another_number_of_values_is_refused(db, run):
    with pytest.raises(ProgrammingError) as caught:
        run(db, "SELECT $1::int, $2::int", [1])
    assert caught.value.sqlstate == "07001"
    with pytest.raises(ProgrammingError) as caught:
        run(db, "SELECT $1::int")
    assert caught.value.sqlstate == "07001"


def test_a_prepared_statement_says_what_it_takes_and_gives(db, run):
    run(db, "CREATE TABLE t (a int, b numeric(5,1))")
    with db.cursor() as cursor:
        parameters = cursor.adbc_prepare("SELECT b, a::text AS c FROM t WHERE a = $1 AND b > $2")
        assert parameters.types == [pyarrow.int32(), pyarrow.decimal128(38, 10)]
        columns = cursor.adbc_execute_schema("SELECT b, a::text AS c FROM t")
        assert columns.names == ["b", "c"]
        assert columns.types == [pyarrow.decimal128(5, 1), pyarrow.string_view()]
    with AdbcStatement(db.adbc_connection) as statement:
        with pytest.raises(ProgrammingError, match="no text"):
            statement.prepare()
        statement.set_sql_query("SELECT 1")
        with pytest.raises(ProgrammingError, match="not prepared"):
            statement.get_parameter_schema()


def test_a_prepared_statement_lives_on_when_its_table_changes(db, run):
    run(db, "CREATE TABLE t (a int)")
    with db.cursor() as cursor:
        cursor.execute("INSERT INTO t VALUES ($1)", [1])
        run(db, "ALTER TABLE t ADD COLUMN b int DEFAULT 7")
        cursor.execute("INSERT INTO t VALUES ($1)", [2])
    assert run(db, "SELECT a, b FROM t ORDER BY a") == [(1, 7), (2, 7)]
