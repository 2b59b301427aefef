# SPDX-License-Identifier: Apache-2.0
"""A program that uses the package as its pages show it. It is not run: mypy reads it, and says if a type is not what users are
told.
"""

from __future__ import annotations

import asyncio
from typing import Any, assert_type

import pandas
import polars
import pyarrow
import sqlalchemy

import coeval
import coeval.aio

db = coeval.connect("shop.db")

with db.transaction(read_only=True) as tx:
    result = tx.sql("SELECT id, total FROM orders WHERE id > ?", [1])
    assert_type(result.df(), pandas.DataFrame)
    assert_type(tx.sql("SELECT 1").pl(), polars.DataFrame)
    assert_type(tx.sql("SELECT 1").arrow(), pyarrow.Table)
    assert_type(tx.sql("SELECT 1").fetchall(), list[tuple[Any, ...]])
    assert_type(tx.sql("SELECT 1").fetchone(), tuple[Any, ...] | None)
    for row in tx.sql("SELECT 1"):
        assert_type(row, tuple[Any, ...])

assert_type(db.append("orders", {"id": [1, 2], "total": [1.5, 2.5]}), int)
assert_type(db.append("orders", pandas.DataFrame({"id": [3]})), int)


@db.retry
def transfer(tx: coeval.Transaction, source: int, target: int) -> str:
    tx.sql("UPDATE accounts SET amount = amount - 1 WHERE id = $source", {"source": source})
    tx.sql("UPDATE accounts SET amount = amount + 1 WHERE id = ?", [target])
    return "done"


@db.retry(read_only=True)
def count(tx: coeval.Transaction) -> int:
    row = tx.sql("SELECT count(*) FROM accounts").fetchone()
    return int(row[0]) if row is not None else 0


assert_type(transfer(1, target=2), str)
assert_type(count(), int)

try:
    db.sql("SELECT nonsense")
except coeval.Error as error:
    assert_type(error.sqlstate, str)

cursor = db.cursor()
cursor.executemany("INSERT INTO orders VALUES (?, ?)", [(4, 1.0)])
assert_type(cursor.execute("SELECT 1").fetchall(), list[tuple[Any, ...]])
db.commit()


async def ask() -> list[tuple[Any, ...]]:
    async with await coeval.aio.connect("shop.db") as database, database.transaction() as tx:
        return await (await tx.sql("SELECT 1")).fetchall()


assert_type(asyncio.run(ask()), list[tuple[Any, ...]])
assert_type(sqlalchemy.create_engine("coeval:///shop.db"), sqlalchemy.Engine)
