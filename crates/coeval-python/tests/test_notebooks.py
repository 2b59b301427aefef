# SPDX-License-Identifier: Apache-2.0
"""`%sql` in IPython by JupySQL, and Ibis on a server."""

import contextlib
import io

import coeval
import ibis
import pandas
import pytest
from IPython.core.interactiveshell import InteractiveShell
from test_server import url  # noqa: F401 -- a fixture


@pytest.fixture
def shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with coeval.connect("shop.db") as db:
        db.sql("CREATE TABLE orders (id int PRIMARY KEY, customer text, amount numeric(12,2))")
        db.sql("INSERT INTO orders VALUES (1, 'ann', 20), (2, 'bob', 5.5)")
    shell = InteractiveShell()
    for line in ("%load_ext sql", "%config SqlMagic.displaycon = False", "%sql coeval:///shop.db"):
        run(shell, line)
    yield shell
    run(shell, "%sql --close coeval:///shop.db")


def run(shell, cell):
    """What a cell gives."""
    with contextlib.redirect_stdout(io.StringIO()):
        outcome = shell.run_cell(cell)
    outcome.raise_error()
    return outcome.result


def test_cells_are_sql(shell):
    found = run(shell, "%%sql\nSELECT customer, amount FROM orders ORDER BY id")
    assert [(row[0], str(row[1])) for row in found] == [("ann", "20.00"), ("bob", "5.50")]
    run(shell, "%%sql\nINSERT INTO orders VALUES (3, 'cid', 1)")
    assert list(run(shell, "%sql SELECT count(*) FROM orders").DataFrame()["count"]) == [3]
    with coeval.connect("shop.db") as db:
        assert db.sql("SELECT count(*) FROM orders").fetchone() == (3,)


def test_cells_take_variables_frames_and_the_names_of_cells(shell):
    shell.user_ns["more"] = pandas.DataFrame({"id": [7, 8], "word": ["x", "y"]})
    run(shell, "%sql --persist more")
    assert list(run(shell, "%sql SELECT id, word FROM more ORDER BY id")) == [(7, "x"), (8, "y")]
    tables = str(run(shell, "%sqlcmd tables"))
    assert "orders" in tables and "more" in tables
    assert "NUMERIC(12, 2)" in str(run(shell, "%sqlcmd columns -t orders"))
    run(shell, '%config SqlMagic.named_parameters = "enabled"')
    shell.user_ns["customer"] = "ann"
    assert list(run(shell, "%sql SELECT id FROM orders WHERE customer = :customer")) == [(1,)]
    run(shell, "%%sql --save large\nSELECT * FROM orders WHERE amount > 10")
    assert list(run(shell, "%sql --with large SELECT count(*) FROM large")) == [(1,)]


def test_cells_reach_a_server(tmp_path, url):  # noqa: F811
    shell = InteractiveShell()
    served = url.replace("postgres://", "postgresql+psycopg://")
    for line in ("%load_ext sql", "%config SqlMagic.displaycon = False", f"%sql {served}"):
        run(shell, line)
    run(shell, "%%sql\nDROP TABLE IF EXISTS seen; CREATE TABLE seen (id int PRIMARY KEY); INSERT INTO seen VALUES (1), (2)")
    assert run(shell, "%sql SELECT id FROM seen ORDER BY id").DataFrame()["id"].tolist() == [1, 2]
    assert "seen" in str(run(shell, "%sqlcmd tables"))
    run(shell, f"%sql --close {served}")


def test_ibis_reads_and_writes(url):  # noqa: F811
    with coeval.connect(url) as db:
        db.sql("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        db.sql("CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric(12,2))")
        db.sql("INSERT INTO orders SELECT g, 'c' || g % 2, g FROM generate_series(1, 10) AS g")
    con = ibis.connect(url)
    orders = con.table("orders")
    assert orders.columns == ("id", "customer", "amount")
    by_customer = orders.group_by("customer").agg(n=orders.count(), total=orders.amount.sum()).order_by("customer").execute()
    assert [tuple(row) for row in by_customer.itertuples(index=False)] == [("c0", 5, 30), ("c1", 5, 25)]
    con.create_table("rates", pandas.DataFrame({"customer": ["c0", "c1"], "rate": [0.5, 2.0]}))
    rates = con.table("rates")
    joined = orders.join(rates, "customer")
    assert joined.filter(joined.rate > 1).count().execute() == 5
    con.insert("rates", pandas.DataFrame({"customer": ["c2"], "rate": [4.0]}))
    assert con.table("rates").count().execute() == 3
    con.create_view("large", orders.filter(orders.amount > 7))
    assert con.table("large").count().execute() == 3
    assert {"large", "orders", "rates"} <= set(con.list_tables())
    con.drop_view("large")
    con.drop_table("rates")
    con.disconnect()


def test_ibis_takes_sql_windows_and_frames_of_the_program(url):  # noqa: F811
    with coeval.connect(url) as db:
        db.sql("DROP SCHEMA IF EXISTS public CASCADE; CREATE SCHEMA public")
        db.sql("CREATE TABLE orders (id bigint PRIMARY KEY, customer text, amount numeric(12,2))")
        db.sql("INSERT INTO orders SELECT g, 'c' || g % 2, g FROM generate_series(1, 4) AS g")
    con = ibis.connect(url)
    orders = con.table("orders")
    counted = con.sql("SELECT customer, count(*) AS n FROM orders GROUP BY customer").order_by("customer").execute()
    assert counted.values.tolist() == [["c0", 2], ["c1", 2]]
    window = ibis.window(group_by="customer", order_by="id", following=0)
    running = orders.mutate(running=orders.amount.sum().over(window)).order_by("id").execute()["running"]
    assert running.tolist() == [1, 2, 4, 6]
    words = ibis.memtable({"id": [2], "word": ["two"]})
    assert orders.join(words, "id").word.execute().tolist() == ["two"]
    assert orders.to_pyarrow().num_rows == 4
    con.disconnect()
