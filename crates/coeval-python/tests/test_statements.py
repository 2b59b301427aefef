# SPDX-License-Identifier: Apache-2.0
"""Statements, parameters and what they return."""

import datetime
import decimal
import uuid
import zoneinfo

import coeval
import pytest

UTC = zoneinfo.ZoneInfo("UTC")

VALUES = [
    ("smallint", -7),
    ("int", 2**31 - 1),
    ("bigint", -(2**63)),
    ("real", 0.5),
    ("double precision", 1e300),
    ("numeric(38,10)", decimal.Decimal("1234567890123456789012345678.0123456789")),
    ("boolean", True),
    ("text", "zażółć 'gęślą' \"jaźń\" \\ \n"),
    ("varchar(3)", "abc"),
    ("bytea", bytes(range(256))),
    ("date", datetime.date(1, 1, 1)),
    ("date", datetime.date(2026, 11, 27)),
    ("time", datetime.time(23, 59, 59, 999_999)),
    ("timestamp", datetime.datetime(1969, 12, 31, 23, 59, 59, 1)),
    ("timestamptz", datetime.datetime(2026, 11, 27, 12, 0, 0, 123_456, UTC)),
    ("interval", datetime.timedelta(days=-3, seconds=5, microseconds=7)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("jsonb", {"a": [1, None, {"b": "c"}], "d": 1.5}),
    ("json", [1, 2]),
    ("int[]", [1, None, 3]),
    ("text[]", ["a", None, 'b"c\\', "NULL", "", "{x,y}"]),
    ("date[]", [datetime.date(2026, 1, 1)]),
]


@pytest.mark.parametrize(("ty", "value"), VALUES, ids=[f"{ty}-{index}" for index, (ty, _) in enumerate(VALUES)])
def test_values_come_back_as_they_were_given(db, ty, value):
    db.sql(f"CREATE TABLE kept (id int PRIMARY KEY, value {ty})")
    db.sql("INSERT INTO kept VALUES (?, ?), (?, ?)", [1, value, 2, None])
    by_key = db.sql("SELECT value FROM kept WHERE id = 1").fetchall()
    scanned = db.sql("SELECT value FROM kept ORDER BY id").fetchall()
    assert by_key == [(value,)]
    assert scanned == [(value,), (None,)]
    assert type(scanned[0][0]) is type(value)
    assert db.sql("SELECT id FROM kept WHERE value::text = (SELECT value::text FROM kept WHERE id = 1)").fetchall() == [(1,)]


def test_enums_are_texts(db):
    db.sql("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
    db.sql("ALTER TYPE mood ADD VALUE 'fine' BEFORE 'happy'")
    db.sql("CREATE TABLE people (id int PRIMARY KEY, feels mood)")
    db.sql("INSERT INTO people VALUES (1, ?), (2, 'fine'), (3, NULL)", ["happy"])
    assert db.sql("SELECT feels FROM people ORDER BY id").fetchall() == [("happy",), ("fine",), (None,)]
    assert db.sql("SELECT feels FROM people WHERE id = 2").fetchall() == [("fine",)]
    assert db.sql("SELECT feels FROM people ORDER BY id").arrow().column(0).to_pylist() == ["happy", "fine", None]
    with pytest.raises(coeval.DataError):
        db.sql("INSERT INTO people VALUES (4, ?)", ["bored"])


def test_instants_are_in_the_zone_of_the_session(db):
    db.sql("SET timezone = 'Europe/Berlin'")
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    both = db.sql("SELECT timestamptz '2026-10-25 00:30+00', timestamptz '2026-10-25 01:30+00'").fetchone()
    assert both == (
        datetime.datetime(2026, 10, 25, 2, 30, tzinfo=berlin),
        datetime.datetime(2026, 10, 25, 2, 30, tzinfo=berlin, fold=1),
    )
    assert [instant.fold for instant in both] == [0, 1]
    assert both[1].astimezone(UTC) == datetime.datetime(2026, 10, 25, 1, 30, tzinfo=UTC)
    # The instant is the same from whatever zone it is given.
    assert db.sql("SELECT ? = timestamptz '2026-10-25 01:30+00'", [both[1]]).fetchone() == (True,)


def test_times_that_python_has_no_value_for_are_refused(db):
    for text in ("date 'infinity'", "timestamp '-infinity'", "timestamptz 'infinity'", "date '0044-03-15 BC'", "time '24:00'"):
        with pytest.raises(coeval.DataError) as raised:
            db.sql(f"SELECT {text}").fetchall()
        assert raised.value.sqlstate == "22008"
        assert "text" in raised.value.hint
    assert db.sql("SELECT date 'infinity'::text").fetchall() == [("infinity",)]


@pytest.mark.parametrize("value", [1, 1.5, True, b"x", datetime.date(2026, 1, 1), decimal.Decimal("1.50"), None, "text"])
def test_a_value_says_its_type_where_the_statement_does_not(db, value):
    assert db.sql("SELECT ?", [value]).fetchone() == (value,)
    with db.transaction() as tx:
        assert tx.sql("SELECT ?, 1", [value]).fetchone() == (value, 1)


def test_a_statement_may_only_ask_whether_a_value_is_null(db):
    assert db.sql("SELECT ? IS NULL, ? IS NOT NULL", [None, 1]).fetchone() == (True, True)
    rows = "SELECT v FROM (VALUES (1), (2)) AS t (v) WHERE ? IS NULL OR v = ? ORDER BY v"
    assert db.sql(rows, [None, 2]).fetchall() == [(1,), (2,)]
    assert db.sql(rows, ["some", 2]).fetchall() == [(2,)]


def test_operators_between_parameters(db):
    assert db.sql("SELECT ? + ?", [1, 2]).fetchone() == (3,)
    with db.transaction() as tx:
        # What cannot be inferred does not fail the transaction.
        assert tx.sql("SELECT ? + ? * 2", [1, 2]).fetchone() == (5,)
        assert tx.sql("SELECT ? || ?", ["a", "b"]).fetchone() == ("ab",)


def test_parameters_in_every_way(db):
    assert db.sql("SELECT ?::int, '?', \"?\".v FROM (SELECT 5 AS v) AS \"?\" -- ?", [1]).fetchone() == (1, "?", 5)
    assert db.sql("SELECT $2::int, $1::int", [1, 2]).fetchone() == (2, 1)
    assert db.sql("SELECT $b::int, $a::int, $b::int, '$a', $$ $a $$, $x$ $b $x$", {"a": 1, "b": 2, "c": 3}).fetchone() == (
        2,
        1,
        2,
        "$a",
        " $a ",
        " $b ",
    )
    assert db.sql("SELECT /* ? /* ? */ ? */ ?::int, E'\\'?', 'it''s ?'", [4]).fetchone() == (4, "'?", "it's ?")
    assert db.sql("SELECT '{\"a\": 1}'::jsonb ?? 'a', ?::int", [7]).fetchone() == (True, 7)


@pytest.mark.parametrize("given", [[1], [1, 2, 3], []])
def test_the_number_of_parameters_must_be_right(db, given):
    with pytest.raises(coeval.ProgrammingError) as raised:
        db.sql("SELECT ?::int, ?::int", given)
    assert raised.value.sqlstate == "07001"


def test_parameters_that_make_no_sense(db):
    with pytest.raises(coeval.ProgrammingError, match=r"\$name"):
        db.sql("SELECT $name::int", {"other": 1})
    with pytest.raises(coeval.ProgrammingError, match="a text is one value"):
        db.sql("SELECT ?", "text")
    with pytest.raises(coeval.ProgrammingError, match="object"):
        db.sql("SELECT ?::int", [object()])
    with pytest.raises(coeval.DataError) as raised:
        db.sql("SELECT ?::smallint", [2**40])
    assert raised.value.sqlstate == "22003"
    with pytest.raises(coeval.DataError):
        db.sql("SELECT ?::uuid", ["no uuid"])


def test_several_statements_give_the_rows_of_the_last(db):
    assert db.sql("CREATE TABLE t (a int); INSERT INTO t VALUES (1), (2); SELECT sum(a) FROM t").fetchone() == (3,)
    # They are one transaction.
    with pytest.raises(coeval.DataError):
        db.sql("INSERT INTO t VALUES (3); SELECT 1 / 0")
    assert db.sql("SELECT count(*) FROM t").fetchone() == (2,)
    assert db.sql("").tag in (None, "")


def test_results(accounts):
    result = accounts.sql("SELECT id, balance AS money FROM accounts ORDER BY id")
    assert result.columns == ["id", "money"]
    assert result.types == ["bigint", "bigint"]
    assert result.fetchone() == (1, 100)
    assert result.fetchmany(5) == [(2, 100)]
    assert result.fetchone() is None
    assert result.fetchall() == []
    changed = accounts.sql("UPDATE accounts SET balance = balance + 1")
    assert (changed.rowcount, changed.tag, changed.columns) == (2, "UPDATE 2", [])
    with pytest.raises(coeval.ProgrammingError, match="UPDATE 2"):
        changed.fetchall()
    assert accounts.sql("INSERT INTO accounts VALUES (3, 5) RETURNING id, balance").fetchall() == [(3, 5)]


def test_rows_are_read_piece_by_piece(db):
    result = db.sql("SELECT g FROM generate_series(1, 10000) AS g ORDER BY g")
    rows = iter(result)
    assert [next(rows) for _ in range(3)] == [(1,), (2,), (3,)]
    rows.close()
    assert result.fetchone() == (4,)
    assert result.fetchmany(2) == [(5,), (6,)]
    assert [row[0] for row in result] == list(range(7, 10001))


def test_rows_are_those_of_the_statements_snapshot(accounts):
    result = accounts.sql("SELECT balance FROM accounts ORDER BY id")
    accounts.sql("DELETE FROM accounts")
    assert result.fetchall() == [(100,), (100,)]


def test_a_result_larger_than_memory_is_not_kept(db):
    # 80 GB, of which some rows are read.
    result = db.sql("SELECT g, repeat('x', 1000) FROM generate_series(1, 80000000) AS g")
    assert len(result.fetchmany(10_000)) == 10_000
    result.close()
    assert result.fetchall() == []


def test_errors(accounts):
    with pytest.raises(coeval.UniqueViolation) as raised:
        accounts.sql("INSERT INTO accounts VALUES (1, 1)")
    error = raised.value
    assert isinstance(error, coeval.IntegrityError)
    assert (error.sqlstate, error.table, error.constraint) == ("23505", "accounts", "accounts_pkey")
    assert error.detail == "Key (id)=(1) already exists."
    assert "DETAIL: Key (id)=(1)" in str(error)
    with pytest.raises(coeval.CheckViolation):
        accounts.sql("UPDATE accounts SET balance = -1")
    with pytest.raises(coeval.NotNullViolation):
        accounts.sql("UPDATE accounts SET balance = NULL")
    with pytest.raises(coeval.UndefinedTable):
        accounts.sql("SELECT * FROM nothing")
    with pytest.raises(coeval.ProgrammingError) as raised:
        accounts.sql("SELECT\n balanse FROM accounts")
    assert (raised.value.sqlstate, raised.value.position) == ("42703", 9)
    with pytest.raises(coeval.DataError) as raised:
        accounts.sql("SELECT 1 / (id - 1) FROM accounts").fetchall()
    assert raised.value.sqlstate == "22012"
    with pytest.raises(coeval.NotSupportedError):
        accounts.sql("COPY accounts FROM STDIN")
    assert accounts.sql("SELECT count(*) FROM accounts").fetchone() == (2,)


def test_notices(db):
    db.sql("DROP TABLE IF EXISTS nothing")
    assert db._session().notices() == ['table "nothing" does not exist, skipping']


UNTYPED = [
    ([1, None, 3], "{1,NULL,3}", "bigint[]"),
    ((2, 1), "{2,1}", "bigint[]"),
    ([1, 2.5], "{1,2.5}", "double precision[]"),
    ([decimal.Decimal("1.50"), 2], "{1.50,2.00}", "numeric[]"),
    ([decimal.Decimal("1.5"), decimal.Decimal("2.25")], "{1.50,2.25}", "numeric[]"),
    (["a", 'b"\\', "NULL", ""], '{a,"b\\"\\\\","NULL",""}', "text[]"),
    ([True, False], "{t,f}", "boolean[]"),
    ([b"\x00\xff"], '{"\\\\x00ff"}', "bytea[]"),
    ([datetime.date(2026, 1, 2)], "{2026-01-02}", "date[]"),
    ([uuid.UUID(int=1)], "{00000000-0000-0000-0000-000000000001}", "uuid[]"),
    ([], "{}", "text[]"),
    ([None], "{NULL}", "text[]"),
]


@pytest.mark.parametrize(("value", "text", "ty"), UNTYPED, ids=[repr(value) for value, _, _ in UNTYPED])
def test_lists_say_of_what_type_they_are(db, value, text, ty):
    assert db.sql("SELECT ?", [value]).fetchall() == [(list(value),)]
    shown, found = db.sql("SELECT v::text, pg_typeof(v)::text FROM (SELECT ? AS v) AS s", [value]).fetchone()
    assert (shown, found) == (text, ty)


def test_lists_of_numpy_and_where_the_statement_says_what_they_are(db):
    numpy = pytest.importorskip("numpy")
    assert db.sql("SELECT ?", [numpy.array([1, 2])]).fetchall() == [([1, 2],)]
    assert db.sql("SELECT unnest(?)", [numpy.array(["a", "b"])]).fetchall() == [("a",), ("b",)]
    assert db.sql("SELECT ?", [numpy.int32(7)]).fetchall() == [(7,)]
    db.sql("CREATE TABLE numbers (n smallint, doc jsonb)")
    db.sql("INSERT INTO numbers VALUES (1, ?), (2, NULL)", [[1, "a", [2]]])
    assert db.sql("SELECT n FROM numbers WHERE n = ANY(?)", [[2, 3]]).fetchall() == [(2,)]
    assert db.sql("SELECT n FROM numbers WHERE n = ANY(?)", [[]]).fetchall() == []
    assert db.sql("SELECT doc FROM numbers WHERE n = 1").fetchall() == [([1, "a", [2]],)]


@pytest.mark.parametrize(
    ("value", "state", "said"),
    [
        ([1, "a"], "42804", "several types, bigint and text"),
        ([True, 1], "42804", "several types, boolean and bigint"),
        ([object()], "42804", "Python's object in a list"),
        ([[1, 2], [3, 4]], "0A000", "several dimensions"),
        ([1, [2]], "0A000", "several dimensions"),
    ],
)
def test_lists_that_are_no_arrays_are_refused(db, value, state, said):
    with pytest.raises(coeval.DatabaseError, match=said) as raised:
        db.sql("SELECT ?", [value])
    assert raised.value.sqlstate == state and raised.value.hint
    with pytest.raises(coeval.DatabaseError):
        db.sql("SELECT ?::int[]", [value])
