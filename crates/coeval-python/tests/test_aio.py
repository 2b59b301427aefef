# SPDX-License-Identifier: Apache-2.0
"""The variant for asyncio."""

import asyncio
import time

import coeval
import pandas
import pytest
from coeval import aio

ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) AS g, generate_series(1, 1000000) AS h"


def run(work):
    return asyncio.run(work)


def test_statements_and_transactions():
    async def work():
        async with await aio.connect() as db:
            await db.sql("CREATE TABLE t (a int PRIMARY KEY)")
            assert await db.append("t", pandas.DataFrame({"a": [1, 2]})) == 2
            # Two transactions of one task.
            async with db.transaction() as one, db.transaction(read_only=True) as two:
                await one.sql("INSERT INTO t VALUES (?)", [3])
                assert await (await two.sql("SELECT count(*) FROM t")).fetchone() == (2,)
            assert [row async for row in await db.sql("SELECT a FROM t ORDER BY a")] == [(1,), (2,), (3,)]
            with pytest.raises(coeval.UniqueViolation):
                async with db.transaction() as tx:
                    await tx.sql("INSERT INTO t VALUES (4)")
                    await tx.sql("INSERT INTO t VALUES (1)")
            frame = await (await db.sql("SELECT count(*) AS n FROM t")).df()
            assert frame["n"].tolist() == [3]
            scope = pandas.DataFrame({"x": [5]})  # noqa: F841
            assert await (await db.sql("SELECT x FROM scope")).fetchall() == [(5,)]

    run(work())


def test_the_loop_goes_on():
    async def work():
        async with await aio.connect() as db:
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.001)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            for _ in range(20):  # others may have all cores for the time of one
                before = ticks
                await (await db.sql("SELECT count(*) FROM generate_series(1, 3000000) AS g")).fetchall()
                if ticks > before + 3:
                    break
            else:
                pytest.fail("the loop stands still while statements run")
            ticking.cancel()

    run(work())


def test_a_cancelled_task_cancels_its_statement():
    async def work():
        async with await aio.connect() as db:
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(db.sql("CREATE TABLE t AS " + ENDLESS), 0.3)
            assert time.monotonic() - began < 30
            assert await (await db.sql("SELECT 1")).fetchone() == (1,)

    run(work())
