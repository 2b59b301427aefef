# SPDX-License-Identifier: Apache-2.0
"""Data frames and Arrow, both ways."""

import datetime
import decimal
import sys
import uuid

import coeval
import numpy
import pandas
import polars
import pyarrow
import pytest


def typed(db):
    db.sql(
        """
        CREATE TABLE typed (id int PRIMARY KEY, small smallint, real real, double double precision, exact numeric(12,2),
                            flag boolean, name text, bytes bytea, day date, at timestamp, instant timestamptz, key uuid,
                            document jsonb, numbers int[]);
        INSERT INTO typed VALUES
            (1, 2, 0.5, 1e100, 12.34, true, 'ann', '\\x00ff', '2026-11-27', '2026-11-27 12:00', '2026-11-27 12:00+00',
             '12345678-1234-5678-1234-567812345678', '{"a": [1]}', '{1,2}'),
            (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)
        """
    )


def test_results_as_arrow(db):
    typed(db)
    table = db.sql("SELECT * FROM typed ORDER BY id").arrow()
    assert table.num_rows == 2
    first = table.slice(0, 1).to_pylist()[0]
    assert first["exact"] == decimal.Decimal("12.34")
    assert first["instant"] == datetime.datetime(2026, 11, 27, 12, tzinfo=datetime.timezone.utc)
    assert first["key"] == uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert first["numbers"] == [1, 2]
    assert table.schema.field("exact").type == pyarrow.decimal128(12, 2)
    assert table.schema.field("day").type == pyarrow.date32()
    assert [value for value in table.slice(1, 1).to_pylist()[0].values()] == [2] + [None] * 13
    # A statement by key takes another way.
    assert db.sql("SELECT * FROM typed WHERE id = 1").arrow().equals(table.slice(0, 1))


def test_results_as_frames(db):
    typed(db)
    frame = db.sql("SELECT * FROM typed ORDER BY id").df()
    assert list(frame["name"][:1]) == ["ann"]
    assert frame["instant"].dtype == "datetime64[us, UTC]"
    assert str(frame["day"].dtype).startswith("datetime64")
    assert frame["document"][0] == '{"a": [1]}'
    assert frame["key"][0] == uuid.UUID("12345678-1234-5678-1234-567812345678")
    assert frame["double"][0] == 1e100 and pandas.isna(frame["double"][1])
    frame = db.sql("SELECT * FROM typed ORDER BY id").pl()
    assert frame["exact"].to_list() == [decimal.Decimal("12.34"), None]
    assert frame["numbers"].to_list() == [[1, 2], None]
    assert db.sql("SELECT id FROM typed WHERE id > 5").df().shape == (0, 1)
    assert db.sql("SELECT id, name FROM typed WHERE id > 5").pl().shape == (0, 2)


def test_values_of_enums_are_appended(db):
    """They were refused as texts, also those that a result had given."""
    db.sql("CREATE TYPE \"My mood\" AS ENUM ('good', 'bad'); CREATE TABLE m (id int, \"Now\" \"My mood\")")
    assert db.append("m", pandas.DataFrame({"id": [1, 2], "Now": ["bad", None]})) == 2
    assert db.append("m", {"id": [3], "Now": ["good"]}) == 1
    found = db.sql("SELECT * FROM m ORDER BY id")
    assert db.append("m", found.df()) == 3
    assert db.append("public.m", db.sql("SELECT * FROM m WHERE id < 3").arrow()) == 4
    assert db.append("m", db.sql("SELECT id, \"Now\" FROM m WHERE id = 3").pl()) == 2
    counted = db.sql("SELECT \"Now\", count(*) FROM m GROUP BY 1 ORDER BY 1").fetchall()
    assert counted == [("good", 4), ("bad", 4), (None, 4)]
    with pytest.raises(coeval.DataError):
        db.append("m", {"id": [4], "Now": ["so so"]})


def test_texts_are_appended_as_the_columns_have_them(db):
    """They were refused in columns of dates, times, numbers and the like, also those that a result had given."""
    db.sql(
        "CREATE TABLE kept (id int, key uuid, day date, at timestamp, instant timestamptz, exact numeric(9,2), span interval,"
        " document jsonb)"
    )
    columns = {
        "id": [1, 2],
        "key": ["12345678-1234-5678-1234-567812345678", None],
        "day": ["2026-11-27", None],
        "at": ["2026-11-27 12:00", None],
        "instant": ["2026-11-27 12:00+02", None],
        "exact": ["12.345", None],
        "span": ["1 day 02:00", None],
        "document": ['{"a": [1]}', None],
    }
    assert db.append("kept", pandas.DataFrame(columns)) == 2
    assert db.append("public.kept", polars.DataFrame(columns)) == 2
    assert db.sql("SELECT * FROM kept WHERE id = 1").fetchall() == 2 * [
        (
            1,
            uuid.UUID("12345678-1234-5678-1234-567812345678"),
            datetime.date(2026, 11, 27),
            datetime.datetime(2026, 11, 27, 12),
            datetime.datetime(2026, 11, 27, 10, tzinfo=datetime.timezone.utc),
            decimal.Decimal("12.35"),
            datetime.timedelta(days=1, hours=2),
            {"a": [1]},
        )
    ]
    assert db.sql("SELECT count(*) FROM kept WHERE key IS NULL AND day IS NULL").fetchone() == (2,)
    with pytest.raises(coeval.DataError, match='Row 2 of the frame, counted from 1, column "day"'):
        db.append("kept", {"id": [3, 4], "day": ["2026-11-27", "tomorrow or so"]})
    with pytest.raises(coeval.ProgrammingError):
        db.append("kept", {"id": ["5"]})
    assert db.sql("SELECT count(*) FROM kept").fetchone() == (4,)


def test_a_uuid_of_a_frame_of_polars_is_appended(db):
    """It was refused as bytes: polars has no type of its own for it."""
    db.sql("CREATE TABLE keys (key uuid); INSERT INTO keys VALUES ('12345678-1234-5678-1234-567812345678'), (NULL)")
    assert db.append("keys", db.sql("SELECT * FROM keys").pl()) == 2
    assert db.append("keys", polars.DataFrame({"key": [bytes(range(16))]})) == 1
    assert db.sql("SELECT count(DISTINCT key), count(key), count(*) FROM keys").fetchone() == (2, 3, 5)
    with pytest.raises(coeval.DataError, match="3 bytes are no uuid"):
        db.append("keys", polars.DataFrame({"key": [b"abc"]}))


def test_intervals_as_frames_of_polars(db):
    """Polars has no type for them and ended in a panic."""
    frame = db.sql("SELECT i, interval '1 day 02:00' AS span, NULL::interval AS nothing FROM generate_series(1, 2) AS i").pl()
    assert frame.schema["span"] == polars.Duration("us")
    assert frame["span"].to_list() == 2 * [datetime.timedelta(days=1, hours=2)]
    assert frame["nothing"].to_list() == [None, None]
    assert db.sql("SELECT interval '1 hour' AS span WHERE false").pl().schema["span"] == polars.Duration("us")
    db.sql("CREATE TABLE spans (span interval)")
    assert db.append("spans", frame.select("span")) == 2
    counted = db.sql("SELECT interval '1 year 1 month' AS span, ARRAY[interval '1 hour', NULL] AS spans")
    days, hour = datetime.timedelta(days=395), datetime.timedelta(hours=1)
    assert counted.pl().rows() == [(days, [hour, None])], "as in tuples"
    with pytest.raises(coeval.DataError, match="too long"):
        db.sql("SELECT interval '1000000 years' AS span").pl()


def test_lists_of_texts_and_bytes_as_frames(db):
    """Pyarrow refused them: it makes nothing for pandas of lists of views."""
    frame = db.sql("SELECT ARRAY['a', NULL] AS t, ARRAY['\\x00ff'::bytea] AS b, NULL::text[] AS n").df()
    assert [frame["t"][0].tolist(), frame["b"][0].tolist(), frame["n"][0]] == [["a", None], [b"\x00\xff"], None]
    assert db.sql("SELECT ARRAY['a'] AS t WHERE false").df().shape == (0, 1)


def test_a_result_is_a_stream(db):
    reader = db.sql("SELECT g, g::text AS t FROM generate_series(1, 100000) AS g").reader()
    assert reader.schema.names == ["g", "t"]
    assert sum(batch.num_rows for batch in reader) == 100_000
    # Of 80 GB some are read.
    reader = db.sql("SELECT g, repeat('x', 1000) AS t FROM generate_series(1, 80000000) AS g").reader()
    assert reader.read_next_batch().num_rows > 0
    reader.close()
    result = db.sql("SELECT g FROM generate_series(1, 3) AS g ORDER BY g")
    assert result.fetchone() == (1,)
    with pytest.raises(coeval.InterfaceError):
        result.arrow()
    assert result.fetchall() == [(2,), (3,)]


def test_an_error_in_between_is_raised_as_it_is(db):
    text = "SELECT 1 / (50000 - g) AS a FROM generate_series(1, 100000) AS g"
    for read in ("fetchall", "arrow", "df", "pl"):
        with pytest.raises(coeval.DataError) as raised:
            getattr(db.sql(text), read)()
        assert raised.value.sqlstate == "22012"


def test_frames_in_scope_are_tables(db):
    db.sql("CREATE TABLE orders (id int PRIMARY KEY, customer text)")
    db.sql("INSERT INTO orders VALUES (1, 'ann'), (2, 'bob')")
    prices = pandas.DataFrame({"id": [1, 2, 3], "price": [1.5, 2.5, None]})
    arrow = pyarrow.table({"id": [2], "Name": ["two"]})
    Upper = polars.DataFrame({"id": [2, 3]})  # noqa: N806, F841
    assert db.sql("SELECT customer, price FROM prices JOIN orders USING (id) ORDER BY id").fetchall() == [
        ("ann", 1.5),
        ("bob", 2.5),
    ]
    assert db.sql('SELECT "Name" FROM arrow').fetchall() == [("two",)]
    assert db.sql("SELECT count(*) FROM Upper").fetchall() == [(2,)]
    assert db.sql('SELECT count(*) FROM "Upper"').fetchall() == [(2,)]
    assert db.sql("SELECT count(*) FROM prices WHERE price IS NULL AND id > ?", [2]).fetchall() == [(1,)]
    with db.transaction() as tx:
        assert tx.sql("INSERT INTO orders SELECT id + 10, 'new' FROM prices RETURNING id").fetchall() == [(11,), (12,), (13,)]
    # What the database has goes first.
    orders = prices  # noqa: F841
    assert db.sql("SELECT count(*) FROM orders").fetchone() == (5,)
    # Frames are lent for a statement, and read only.
    with pytest.raises(coeval.UndefinedTable):
        db.sql("DELETE FROM prices")
    del prices
    with pytest.raises(coeval.UndefinedTable):
        db.sql("SELECT * FROM prices")


def test_a_result_is_a_frame_too(db):
    small = db.sql("SELECT g FROM generate_series(1, 10) AS g")
    assert db.sql("SELECT sum(g) FROM small").fetchone() == (55,)


def test_frames_of_a_callers_caller_are_not_seen(db):
    hidden = pandas.DataFrame({"a": [1]})

    def inner():
        return db.sql("SELECT * FROM hidden")

    with pytest.raises(coeval.UndefinedTable):
        inner()
    assert len(hidden) == 1


def test_types_of_frames(db):
    frame = pyarrow.table(  # noqa: F841
        {
            "i8": pyarrow.array([1, None], pyarrow.int8()),
            "u32": pyarrow.array([2**32 - 1, None], pyarrow.uint32()),
            "u64": pyarrow.array([2**63 - 1, None], pyarrow.uint64()),
            "f16": pyarrow.array([numpy.float16(1.5), None], pyarrow.float16()),
            "large": pyarrow.array(["a", None], pyarrow.large_string()),
            "dictionary": pyarrow.array(["x", None]).dictionary_encode(),
            "ns": pyarrow.array([1_500, None], pyarrow.timestamp("ns")),
            "zoned": pyarrow.array([0, None], pyarrow.timestamp("s", "Europe/Berlin")),
            "ms": pyarrow.array([1000, None], pyarrow.time32("ms")),
            "bytes": pyarrow.array([b"\x00", None], pyarrow.large_binary()),
            "list": pyarrow.array([["a"], None], pyarrow.large_list(pyarrow.string())),
            "span": pyarrow.array([1_000_000, None], pyarrow.duration("us")),
            "null": pyarrow.nulls(2),
        }
    )
    result = db.sql("SELECT * FROM frame")
    assert result.types == [
        "smallint",
        "bigint",
        "bigint",
        "real",
        "text",
        "text",
        "timestamp without time zone",
        "timestamp with time zone",
        "time without time zone",
        "bytea",
        "text[]",
        "interval",
        "text",
    ]
    rows = result.fetchall()
    assert rows[0][:6] == (1, 2**32 - 1, 2**63 - 1, 1.5, "a", "x")
    assert rows[0][8:12] == (datetime.time(0, 0, 1), b"\x00", ["a"], datetime.timedelta(seconds=1))
    assert rows[1] == (None,) * 13


def test_values_that_do_not_fit_are_refused(db):
    frame = pyarrow.table({"n": pyarrow.array([2**64 - 1], pyarrow.uint64())})  # noqa: F841
    with pytest.raises(coeval.DataError):
        db.sql("SELECT * FROM frame")
    nested = pyarrow.table({"n": pyarrow.array([{"a": 1}])})  # noqa: F841
    with pytest.raises(coeval.NotSupportedError, match='"n"'):
        db.sql("SELECT * FROM nested")


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "dict"])
def test_append(db, kind):
    db.sql(
        "CREATE TABLE hits (id bigint GENERATED ALWAYS AS IDENTITY, page text NOT NULL, seconds double precision DEFAULT 1,"
        " twice double precision GENERATED ALWAYS AS (seconds * 2) STORED)"
    )
    columns = {"seconds": [0.5, 1.5], "page": ["a", "b"]}
    make = {"pandas": pandas.DataFrame, "polars": polars.DataFrame, "pyarrow": pyarrow.table, "dict": dict}[kind]
    assert db.append("hits", make(columns)) == 2
    assert db.append("public.hits", make({"page": ["c"]})) == 1
    assert db.sql("SELECT id, page, seconds, twice FROM hits ORDER BY id").fetchall() == [
        (1, "a", 0.5, 1.0),
        (2, "b", 1.5, 3.0),
        (3, "c", 1.0, 2.0),
    ]
    with pytest.raises(coeval.ProgrammingError, match="nothing"):
        db.append("hits", make({"nothing": [1]}))
    with pytest.raises(coeval.NotNullViolation):
        db.append("hits", make({"page": ["d", None]}))
    with db.transaction() as tx:
        tx.append("hits", make({"page": ["e"]}))
        tx.rollback()
    assert db.sql("SELECT count(*) FROM hits").fetchone() == (3,)


def test_of_several_frames_none_stays_when_one_is_refused(db):
    good = pyarrow.table({"n": [1]})  # noqa: F841
    worse = pyarrow.table({"n": pyarrow.array([{"a": 1}])})
    with pytest.raises(coeval.NotSupportedError):
        db.sql("SELECT * FROM good, worse")
    del good
    with pytest.raises(coeval.UndefinedTable):
        db.sql("SELECT * FROM good")
    assert worse.num_rows == 1


def test_a_dictionary_of_columns_is_appended_without_pyarrow(db, monkeypatch):
    """Fails if only Arrow can be appended: the first example of the package needed another package."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    db.sql("CREATE TABLE accounts (id int PRIMARY KEY, owner text, balance numeric(9,2) CHECK (balance >= 0))")
    assert db.append("accounts", {"id": [1, 2], "owner": ["ann", None], "balance": [100, decimal.Decimal("0.5")]}) == 2
    found = db.sql("SELECT id, owner, balance FROM accounts ORDER BY id").fetchall()
    assert found == [(1, "ann", decimal.Decimal("100.00")), (2, None, decimal.Decimal("0.50"))]
    with pytest.raises(coeval.IntegrityError):
        db.append("accounts", {"id": [3, 4], "balance": [1, -1]})
    with pytest.raises(coeval.InterfaceError, match="several lengths"):
        db.append("accounts", {"id": [3, 4], "balance": [1]})
    assert db.append("accounts", {"id": [], "balance": []}) == 0
    assert db.sql("SELECT count(*) FROM accounts").fetchall() == [(2,)], "all rows or none"


def test_append_to_bricks(db):
    db.sql("CREATE TABLE events (day int, page text, n bigint) USING brick PARTITION BY (day CARDINALITY 100 RANGE SIZE 10)")
    frame = pandas.DataFrame({"day": [1, 50, 99], "page": ["a", "b", None], "n": [1, 2, 3]})
    assert db.append("events", frame) == 3
    assert db.sql("SELECT sum(n) FROM events WHERE day >= 50").fetchone() == (5,)


def test_append_of_many_rows(db):
    db.sql("CREATE TABLE big (id bigint PRIMARY KEY, x double precision, t text)")
    ids = numpy.arange(300_000)
    frame = pandas.DataFrame({"id": ids, "x": ids / 7, "t": [f"row {number}" for number in ids]})
    assert db.append("big", frame) == 300_000
    back = db.sql("SELECT * FROM big ORDER BY id").df()
    assert back["id"].tolist() == frame["id"].tolist()
    assert back["t"].tolist() == frame["t"].tolist()
    assert numpy.allclose(back["x"], frame["x"])
    with pytest.raises(coeval.UniqueViolation):
        db.append("big", frame.tail(1))


def test_what_is_no_frame_is_refused(db):
    db.sql("CREATE TABLE t (a int)")
    for value in (1, "text", [1], None):
        with pytest.raises(coeval.InterfaceError, match="no data frame"):
            db.append("t", value)
