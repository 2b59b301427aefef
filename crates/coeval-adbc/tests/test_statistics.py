# SPDX-License-Identifier: Apache-2.0
"""What is known of the rows of tables. It is exact, unless it says that it is not."""

import pyarrow
import pytest

NAMES = {1: "distinct", 3: "max", 4: "min", 5: "nulls", 6: "rows"}


@pytest.fixture
def shop(db, run):
    run(db, """
        CREATE SCHEMA stock;
        CREATE TABLE stock.places (shelf int, box int, PRIMARY KEY (shelf, box));
        CREATE TABLE goods (
            id bigint PRIMARY KEY,
            name varchar(20) NOT NULL UNIQUE,
            code smallint UNIQUE,
            price numeric(8,2),
            weight double precision,
            "made on" date,
            sold timestamp,
            note jsonb
        );
        INSERT INTO goods VALUES
            (7, 'bolt', 3, 1.25, 0.5, '1970-01-11', '1970-01-01 00:00:01', '{}'),
            (-2, 'añil', NULL, NULL, 2, '1969-12-31', NULL, NULL),
            (9, 'cog', 5, 20, NULL, NULL, NULL, NULL);
        CREATE VIEW cheap AS SELECT id FROM goods WHERE price < 2;
        CREATE TABLE events (day date, likes int) USING brick PARTITION BY (day RANGE SIZE '1 day' FROM '2026-01-01');
        INSERT INTO events VALUES ('2026-01-05', 4), ('2026-01-01', NULL);
    """)
    return db


# Known without a look at any row.
KNOWN = {
    (None, "rows"): 3,
    ("id", "nulls"): 0,
    ("id", "distinct"): 3,
    ("name", "nulls"): 0,
    ("name", "distinct"): 3,
}
EXACT = {
    **KNOWN,
    ("id", "min"): -2,
    ("id", "max"): 9,
    ("name", "min"): "añil".encode(),
    ("name", "max"): b"cog",
    ("code", "nulls"): 1,
    ("code", "distinct"): 2,
    ("code", "min"): 3,
    ("code", "max"): 5,
    ("price", "nulls"): 1,
    ("price", "min"): 1.25,
    ("price", "max"): 20.0,
    ("weight", "nulls"): 1,
    ("weight", "min"): 0.5,
    ("weight", "max"): 2.0,
    ("made on", "nulls"): 1,
    ("made on", "min"): -1,
    ("made on", "max"): 10,
    ("sold", "nulls"): 2,
    ("sold", "min"): 1_000_000,
    ("sold", "max"): 1_000_000,
    ("note", "nulls"): 2,
}


def statistics(connection, **wanted):
    """By schema and table, and within one by column and name: the value, and whether it is approximate."""
    found = {}
    for catalog in connection.adbc_get_statistics(**wanted).read_all().to_pylist():
        assert catalog["catalog_name"] == "coeval"
        for schema in catalog["catalog_db_schemas"]:
            for one in schema["db_schema_statistics"]:
                of_table = found.setdefault((schema["db_schema_name"], one["table_name"]), {})
                of_what = (one["column_name"], NAMES[one["statistic_key"]])
                assert of_what not in of_table
                of_table[of_what] = (one["statistic_value"], one["statistic_is_approximate"])
    return found


def values(of_table):
    return {of_what: value for of_what, (value, _) in of_table.items()}


def test_what_is_known_costs_no_look_at_rows_and_is_exact(shop):
    found = statistics(shop)
    assert set(found) == {("public", "events"), ("public", "goods"), ("stock", "places")}
    assert values(found["public", "goods"]) == KNOWN
    assert values(found["stock", "places"]) == {(None, "rows"): 0, ("shelf", "nulls"): 0, ("box", "nulls"): 0}
    assert not any(is_approximate for table in found.values() for _, is_approximate in table.values())


def test_exact_ones_are_those_of_the_rows(shop, run):
    goods = statistics(shop, approximate=False)["public", "goods"]
    assert values(goods) == EXACT
    # The float next to a number of type numeric is seldom that number.
    assert {of_what for of_what, (_, is_approximate) in goods.items() if is_approximate} == {
        ("price", "min"),
        ("price", "max"),
    }
    # The database answers from what it knows of chunks then, and from rows again behind the next change.
    run(shop, "CHECKPOINT")
    assert statistics(shop, approximate=False)["public", "goods"] == goods
    run(shop, "DELETE FROM goods WHERE id = 9")
    run(shop, "UPDATE goods SET code = 8 WHERE id = -2")
    changed = values(statistics(shop, approximate=False)["public", "goods"])
    assert changed[None, "rows"] == 2
    assert changed["id", "max"] == 7
    assert (changed["code", "nulls"], changed["code", "distinct"], changed["code", "max"]) == (0, 2, 8)


def test_brick_tables_have_them_too(shop):
    assert values(statistics(shop, approximate=False)["public", "events"]) == {
        (None, "rows"): 2,
        ("day", "nulls"): 0,
        ("day", "min"): 20_454,
        ("day", "max"): 20_458,
        ("likes", "nulls"): 1,
        ("likes", "min"): 4,
        ("likes", "max"): 4,
    }


def test_filters_are_patterns(shop):
    assert statistics(shop, catalog_filter="other") == {}
    assert len(statistics(shop, catalog_filter="co_v%")) == 3
    assert list(statistics(shop, db_schema_filter="st%")) == [("stock", "places")]
    assert list(statistics(shop, table_name_filter="g%s", approximate=False)) == [("public", "goods")]
    assert statistics(shop, table_name_filter="cheap") == {}
    assert statistics(shop, db_schema_filter="pg_catalog") == {}
    assert statistics(shop, table_name_filter="o'brien") == {}


def test_an_open_transaction_sees_its_own_and_stays(connect, run):
    db = connect()
    run(db, "CREATE TABLE mine (a int)")
    run(db, "INSERT INTO mine VALUES (1), (NULL)")
    expected = {(None, "rows"): 2, ("a", "nulls"): 1, ("a", "min"): 1, ("a", "max"): 1}
    assert values(statistics(db, approximate=False)["public", "mine"]) == expected
    run(db, "INSERT INTO mine VALUES (5)")
    assert values(statistics(db)["public", "mine"]) == {(None, "rows"): 3}
    db.rollback()
    assert statistics(db) == {}
    # And none was begun: an option of transactions can be set.
    db.adbc_connection.set_options(**{"adbc.connection.readonly": "true"})


def test_their_schema_is_adbcs(shop):
    value = pyarrow.dense_union([
        pyarrow.field("int64", pyarrow.int64()),
        pyarrow.field("uint64", pyarrow.uint64()),
        pyarrow.field("float64", pyarrow.float64()),
        pyarrow.field("binary", pyarrow.binary()),
    ])
    statistic = pyarrow.struct([
        pyarrow.field("table_name", pyarrow.string(), nullable=False),
        pyarrow.field("column_name", pyarrow.string()),
        pyarrow.field("statistic_key", pyarrow.int16(), nullable=False),
        pyarrow.field("statistic_value", value, nullable=False),
        pyarrow.field("statistic_is_approximate", pyarrow.bool_(), nullable=False),
    ])
    schema = pyarrow.struct([
        pyarrow.field("db_schema_name", pyarrow.string()),
        pyarrow.field("db_schema_statistics", pyarrow.list_(statistic), nullable=False),
    ])
    expected = pyarrow.schema([
        pyarrow.field("catalog_name", pyarrow.string()),
        pyarrow.field("catalog_db_schemas", pyarrow.list_(schema), nullable=False),
    ])
    for wanted in ({}, {"catalog_filter": "other"}, {"approximate": False}):
        table = shop.adbc_get_statistics(**wanted).read_all()
        assert table.schema == expected
        table.validate(full=True)
    # All that it has are ADBC's own.
    names = shop.adbc_get_statistic_names().read_all()
    assert (names.schema.names, names.num_rows) == (["statistic_name", "statistic_key"], 0)
