# SPDX-License-Identifier: Apache-2.0
"""`%sql` in IPython by JupySQL, and Ibis on a server: where these are installed."""

import contextlib
import io

import coeval
import pytest
from test_server import url  # noqa: F401 -- a fixture


@pytest.fixture
def shell(tmp_path, monkeypatch):
    pytest.importorskip("sql", reason="JupySQL is not installed")
    from IPython.core.interactiveshell import InteractiveShell

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


def test_ibis_reads_and_writes(url):  # noqa: F811
    ibis = pytest.importorskip("ibis")
    pandas = pytest.importorskip("pandas")
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
    con.disconnect()
