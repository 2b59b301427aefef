# SPDX-License-Identifier: Apache-2.0
import pyarrow
import pytest
from adbc_driver_manager import ProgrammingError


@pytest.fixture
def shop(db, run):
    run(db, """
        CREATE SCHEMA stock;
        CREATE TABLE stock.places (shelf int, box int, PRIMARY KEY (shelf, box));
        CREATE TABLE goods (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            name varchar(20) NOT NULL UNIQUE,
            price numeric(8,2) DEFAULT 1.5 CHECK (price > 0),
            shelf int,
            box int,
            CONSTRAINT lies_at FOREIGN KEY (shelf, box) REFERENCES stock.places (shelf, box)
        );
        CREATE VIEW cheap AS SELECT id, name FROM goods WHERE price < 1;
        COMMENT ON COLUMN goods.name IS 'as on the label';
    """)
    return db


def objects(connection, **wanted):
    return connection.adbc_get_objects(**wanted).read_all().to_pylist()


def names_of(catalogs):
    return {
        schema["db_schema_name"]: {table["table_name"]: table["table_type"] for table in schema["db_schema_tables"]}
        for schema in catalogs[0]["catalog_db_schemas"]
    }


def test_depths(shop):
    assert objects(shop, depth="catalogs") == [{"catalog_name": "coeval", "catalog_db_schemas": None}]
    schemas = objects(shop, depth="db_schemas")[0]["catalog_db_schemas"]
    assert schemas == [{"db_schema_name": name, "db_schema_tables": None} for name in ("public", "stock")]
    assert names_of(objects(shop, depth="tables")) == {
        "public": {"cheap": "view", "goods": "table"},
        "stock": {"places": "table"},
    }
    tables = objects(shop, depth="tables")[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert tables[0]["table_columns"] is None
    assert tables[0]["table_constraints"] is None
    assert objects(shop, depth="all") == objects(shop, depth="columns")


def test_filters_are_patterns(shop):
    assert objects(shop, catalog_filter="other") == []
    assert len(objects(shop, catalog_filter="co_v%", depth="catalogs")) == 1
    assert list(names_of(objects(shop, db_schema_filter="st%"))) == ["stock"]
    assert names_of(objects(shop, table_name_filter="%o%s")) == {"public": {"goods": "table"}, "stock": {}}
    assert names_of(objects(shop, table_types_filter=["view"])) == {"public": {"cheap": "view"}, "stock": {}}
    assert names_of(objects(shop, table_name_filter="o'brien")) == {"public": {}, "stock": {}}
    goods = objects(shop, table_name_filter="goods", column_name_filter="%e%")
    (goods,) = goods[0]["catalog_db_schemas"][0]["db_schema_tables"]
    assert [column["column_name"] for column in goods["table_columns"]] == ["name", "price", "shelf"]
    assert "pg_class" in names_of(objects(shop, db_schema_filter="pg_catalog", depth="tables"))["pg_catalog"]


def test_columns_tell_what_they_are(shop):
    found = objects(shop, table_name_filter="goods")
    (goods,) = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
    columns = {column["column_name"]: column for column in goods["table_columns"]}
    assert [column["ordinal_position"] for column in goods["table_columns"]] == [1, 2, 3, 4, 5]
    assert columns["id"]["xdbc_is_autoincrement"]
    assert columns["id"]["xdbc_type_name"] == "int8"
    assert columns["name"]["remarks"] == "as on the label"
    assert columns["name"]["xdbc_is_nullable"] == "NO"
    assert columns["name"]["xdbc_nullable"] == 0
    assert columns["name"]["xdbc_column_size"] == 20
    assert columns["price"]["xdbc_decimal_digits"] == 2
    assert columns["price"]["xdbc_column_def"].startswith("1.5")
    assert columns["price"]["xdbc_nullable"] == 1


def test_constraints_tell_their_columns(shop):
    found = objects(shop, table_name_filter="goods")
    (goods,) = found[0]["catalog_db_schemas"][0]["db_schema_tables"]
    constraints = {constraint["constraint_name"]: constraint for constraint in goods["table_constraints"]}
    kinds = {name: (kept["constraint_type"], kept["constraint_column_names"]) for name, kept in constraints.items()}
    assert kinds == {
        "goods_pkey": ("PRIMARY KEY", ["id"]),
        "goods_name_key": ("UNIQUE", ["name"]),
        "goods_price_check": ("CHECK", ["price"]),
        "lies_at": ("FOREIGN KEY", ["shelf", "box"]),
    }
    assert constraints["goods_pkey"]["constraint_column_usage"] is None
    assert constraints["lies_at"]["constraint_column_usage"] == [
        {"fk_catalog": "coeval", "fk_db_schema": "stock", "fk_table": "places", "fk_column_name": column}
        for column in ("shelf", "box")
    ]


def test_an_open_transaction_sees_its_own(connect, run):
    db = connect()
    run(db, "CREATE TABLE mine (a int)")
    assert "mine" in names_of(objects(db, depth="tables"))["public"]
    db.rollback()
    assert names_of(objects(db, depth="tables")) == {"public": {}}


def test_the_schema_of_a_table(shop):
    assert shop.adbc_get_table_schema("goods") == pyarrow.schema({
        "id": pyarrow.int64(),
        "name": pyarrow.string_view(),
        "price": pyarrow.decimal128(8, 2),
        "shelf": pyarrow.int32(),
        "box": pyarrow.int32(),
    })
    assert shop.adbc_get_table_schema("places", db_schema_filter="stock").names == ["shelf", "box"]
    assert shop.adbc_get_table_schema("cheap", catalog_filter="coeval").names == ["id", "name"]
    for wanted in ({"table_name": "none"}, {"table_name": "goods", "db_schema_filter": "stock"}):
        with pytest.raises(ProgrammingError) as caught:
            shop.adbc_get_table_schema(**wanted)
        assert caught.value.status_code.name == "NOT_FOUND"
    with pytest.raises(ProgrammingError):
        shop.adbc_get_table_schema("goods", catalog_filter="other")


def test_a_table_that_is_not_there_leaves_the_transaction(connect, run):
    db = connect()
    run(db, "CREATE TABLE t AS SELECT 1 AS a")
    with pytest.raises(ProgrammingError):
        db.adbc_get_table_schema("none")
    assert run(db, "SELECT a FROM t") == [(1,)]
    db.commit()


def test_kinds_of_tables(db):
    assert {"table", "view", "temporary_table"} <= set(db.adbc_get_table_types())


def test_what_it_is(db):
    info = db.adbc_get_info()
    assert info["vendor_name"] == "Coeval"
    assert info["driver_name"] == "ADBC Driver for Coeval"
    assert info["driver_adbc_version"] == 1_001_000
    assert info["vendor_version"] == info["driver_version"]
    assert info["driver_arrow_version"].split(".")[0].isdigit()
    assert pyarrow.table(db.adbc_connection.get_info([0, 12345])).num_rows == 1


def test_catalog_and_schema_are_options(shop, run):
    assert shop.adbc_current_catalog == "coeval"
    shop.adbc_current_catalog = "coeval"
    with pytest.raises(ProgrammingError):
        shop.adbc_current_catalog = "other"
    assert shop.adbc_current_db_schema == "public"
    shop.adbc_current_db_schema = "stock"
    assert shop.adbc_current_db_schema == "stock"
    assert run(shop, "SELECT count(*) FROM places") == [(0,)]
    with pytest.raises(ProgrammingError) as caught:
        shop.adbc_current_db_schema = "nowhere"
    assert caught.value.status_code.name == "NOT_FOUND"
    assert shop.adbc_current_db_schema == "stock"
