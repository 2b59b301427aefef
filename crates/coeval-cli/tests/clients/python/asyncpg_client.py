# SPDX-License-Identifier: Apache-2.0
"""asyncpg: binary formats throughout, statements prepared always, cursors, bulk copies, pools, introspection of types."""

import asyncio
import datetime as dt
import io
import uuid
from decimal import Decimal

import asyncpg

from checks import ADDRESS, expect, raises, run

UTC = dt.timezone.utc


def connected(part):
    """The part with a connection of its own."""

    async def with_connection(_conninfo):
        conn = await asyncpg.connect(**ADDRESS)
        try:
            await part(conn)
        finally:
            await conn.close()

    with_connection.__name__ = part.__name__
    return with_connection


@connected
async def types(conn):
    await conn.execute(
        "CREATE TABLE kinds (id int PRIMARY KEY, small smallint, big bigint, single real, wide float8, yes bool, "
        "name text, short varchar(20), raw bytea, amount numeric(20,4), day date, at time, local timestamp, "
        "stamp timestamptz, span interval, key uuid, doc json)"
    )
    rows = [
        (1, -32768, 2**63 - 1, 1.5, 0.1, True, "Grüße", "short", b"\x00\xff", Decimal("-1234567890.1234"),
         dt.date(2026, 2, 28), dt.time(23, 59, 59, 999999), dt.datetime(1999, 12, 31, 23, 59, 59, 1),
         dt.datetime(2026, 6, 1, 12, 30, tzinfo=UTC), dt.timedelta(days=3, microseconds=5), uuid.UUID(int=77), '{"a": 1}'),
        (2, *[None] * 16),
    ]
    places = ", ".join(f"${number}" for number in range(1, 18))
    await conn.executemany(f"INSERT INTO kinds VALUES ({places})", rows)
    found = await conn.fetch("SELECT * FROM kinds ORDER BY id")
    expect([tuple(row) for row in found], rows)
    by_key = await conn.fetchrow("SELECT * FROM kinds WHERE id = $1", 1)
    expect(tuple(by_key), rows[0])
    expect(list(by_key.keys())[:3], ["id", "small", "big"])
    for column in ("small", "big", "wide", "yes", "name", "raw", "amount", "day", "at", "local", "stamp", "span", "key"):
        expect(await conn.fetchval(f"SELECT id FROM kinds WHERE {column} = $1", by_key[column]), 1)
    row = await conn.fetchrow("SELECT $1::int + 1, $2::text || 'x', $3::timestamptz, $4::numeric * 2", 1, "a", rows[0][13], Decimal("1.5"))
    expect(tuple(row), (2, "ax", rows[0][13], Decimal("3.0")))
    expect(await conn.fetchval("SELECT sum(big) FROM kinds"), Decimal(2**63 - 1))
    expect(await conn.fetchval("SELECT avg(amount) FROM kinds"), Decimal("-1234567890.1234"))


@connected
async def arrays(conn):
    """Their types are looked up in the catalog first, by an array of object ids."""
    await conn.execute("CREATE TABLE listed (id int PRIMARY KEY, big bigint, name text, day date)")
    names = ["a", None, 'c, "quoted" \\ {x}']
    rows = [(n + 1, 10**10 * n, name, dt.date(2026, 1, n + 1)) for n, name in enumerate(names)]
    await conn.execute(
        "INSERT INTO listed SELECT * FROM unnest($1::int[], $2::bigint[], $3::text[], $4::date[])",
        *(list(column) for column in zip(*rows)),
    )
    expect([tuple(row) for row in await conn.fetch("SELECT * FROM listed ORDER BY id")], rows)
    by_key = "SELECT id FROM listed WHERE id = ANY($1) ORDER BY id"
    expect([row["id"] for row in await conn.fetch(by_key, [3, 1, 7])], [1, 3])
    expect(await conn.fetch(by_key, []), [])
    expect(await conn.fetch(by_key, None), [])
    for column, place in (("big", 1), ("name", 2), ("day", 3)):
        found = await conn.fetchval(f"SELECT id FROM listed WHERE {column} = ANY($1::{'bigint text date'.split()[place - 1]}[])", [rows[0][place]])
        expect(found, 1)
    expect(await conn.fetchval("SELECT count(*) FROM listed WHERE id <> ALL($1)", [1, 2]), 1)
    expect(await conn.execute("DELETE FROM listed WHERE id = ANY($1)", [1, 9]), "DELETE 1")
    given = await conn.fetchrow("SELECT array_agg(id ORDER BY id), array_agg(name ORDER BY id), ARRAY[1.5, 2]::float8[] FROM listed")
    expect(tuple(given), ([2, 3], names[1:], [1.5, 2.0]))


@connected
async def array_columns(conn):
    await conn.execute(
        "CREATE TABLE held (id int PRIMARY KEY, names text[] NOT NULL DEFAULT '{}', big bigint[], wide float8[], yes bool[], "
        "amounts numeric(10,2)[], stamps timestamptz[], keys uuid[], short varchar(5)[], days date[], raw bytea[])"
    )
    rows = [
        (1, ["a", None, 'c, "quoted" \\ {x}', ""], [2**40, None], [0.5], [True, False], [Decimal("1.50"), None],
         [dt.datetime(2026, 6, 1, tzinfo=UTC)], [uuid.UUID(int=7)], ["abcde"], [dt.date(2026, 1, 2)], [b"\x00\xff"]),
        (2, [], *[None] * 9),
        (3, ["d"], *[[]] * 9),
    ]
    places = ", ".join(f"${number}" for number in range(1, 12))
    insert = await conn.prepare(f"INSERT INTO held VALUES ({places})")
    expect([kind.name for kind in insert.get_parameters()][:3], ["int4", "text[]", "int8[]"])
    await insert.executemany(rows)
    expect([tuple(row) for row in await conn.fetch("SELECT * FROM held ORDER BY id")], rows)
    expect([tuple(await conn.fetchrow("SELECT * FROM held WHERE id = $1", row[0])) for row in rows], rows)
    expect([row["id"] for row in await conn.fetch("SELECT id FROM held WHERE $1 = ANY(names) ORDER BY id", "a")], [1])
    expect([row["id"] for row in await conn.fetch("SELECT id FROM held WHERE names && $1 ORDER BY id", ["a", "d"])], [1, 3])
    expect(await conn.fetchval("SELECT id FROM held WHERE names @> $1", ["d"]), 3)
    expect(await conn.fetchval("SELECT id FROM held WHERE names = $1", ["d"]), 3)
    updated = await conn.fetchval("UPDATE held SET names = names || $1 WHERE id = $2 RETURNING names", ["e", "f"], 3)
    expect(updated, ["d", "e", "f"])
    expect(await conn.fetchval("UPDATE held SET names = array_append(names, $1::text) WHERE id = $2 RETURNING names", "g", 2), ["g"])
    await conn.execute("UPDATE held SET big = $1 WHERE id = 2", [1, 2])
    expect(await conn.fetchrow("SELECT big, big[2], cardinality(big) FROM held WHERE id = 2"), ([1, 2], 2, 2))
    copied = await conn.copy_records_to_table("held", records=[(10 + n, *row[1:]) for n, row in enumerate(rows)])
    expect(copied, "COPY 3")
    out = io.BytesIO()
    await conn.copy_from_query("SELECT * FROM held WHERE id = 10", output=out, format="binary")
    expect(tuple(await conn.fetchrow("SELECT * FROM held WHERE id = 10"))[1:], rows[0][1:])
    back = io.BytesIO(out.getvalue())
    await conn.execute("DELETE FROM held WHERE id = 10")
    expect(await conn.copy_to_table("held", source=back, format="binary"), "COPY 1")
    expect(tuple(await conn.fetchrow("SELECT * FROM held WHERE id = 10"))[1:], rows[0][1:])
    with raises(asyncpg.StringDataRightTruncationError):
        await conn.execute("UPDATE held SET short = $1", ["too long"])


@connected
async def prepared(conn):
    await conn.execute("CREATE TABLE points (id int PRIMARY KEY, v text)")
    insert = await conn.prepare("INSERT INTO points VALUES ($1, $2) RETURNING id")
    expect([kind.name for kind in insert.get_parameters()], ["int4", "text"])
    expect([(column.name, column.type.name) for column in insert.get_attributes()], [("id", "int4")])
    for number in range(100):
        expect(await insert.fetchval(number, f"v{number}"), number)
    select = await conn.prepare("SELECT v, id * 2.5::float8 AS x FROM points WHERE id = $1")
    expect([(column.name, column.type.name) for column in select.get_attributes()], [("v", "text"), ("x", "float8")])
    expect(tuple(await select.fetchrow(7)), ("v7", 17.5))
    expect((await select.fetch(8), select.get_statusmsg()), ([("v8", 20.0)], "SELECT 1"))
    expect(await conn.execute("UPDATE points SET v = $1 WHERE id > $2", "new", 97), "UPDATE 2")
    expect(await conn.execute("DELETE FROM points WHERE id > 97"), "DELETE 2")
    with raises(asyncpg.DataError):
        await conn.execute("INSERT INTO points VALUES ($1, $2)", "not a number", "x")
    # The plan of a statement is stale when its table changed.
    await conn.execute("ALTER TABLE points ADD COLUMN n int DEFAULT 5")
    expect(await conn.fetchrow("SELECT * FROM points WHERE id = 1"), (1, "v1", 5))


@connected
async def transactions_and_errors(conn):
    await conn.execute("CREATE TABLE parent (id int PRIMARY KEY, n int CHECK (n > 0))")
    async with conn.transaction():
        await conn.execute("INSERT INTO parent VALUES (1, 1)")
        with raises(asyncpg.UniqueViolationError):
            async with conn.transaction():
                await conn.execute("INSERT INTO parent VALUES (2, 1)")
                await conn.execute("INSERT INTO parent VALUES (1, 1)")
        await conn.execute("INSERT INTO parent VALUES (3, 1)")
    expect([row["id"] for row in await conn.fetch("SELECT id FROM parent ORDER BY id")], [1, 3])
    wrong = [
        ("INSERT INTO parent VALUES (5, 0)", asyncpg.CheckViolationError),
        ("SELECT * FROM absent", asyncpg.UndefinedTableError),
        ("SELECT absent FROM parent", asyncpg.UndefinedColumnError),
        ("SELEC", asyncpg.PostgresSyntaxError),
        ("SELECT 1 / (id - id) FROM parent", asyncpg.DivisionByZeroError),
    ]
    for statement, kind in wrong:
        with raises(kind):
            await conn.fetch(statement)
        with raises(kind):
            await conn.execute(statement)
    with raises(asyncpg.ReadOnlySQLTransactionError):
        async with conn.transaction(readonly=True):
            await conn.execute("INSERT INTO parent VALUES (7, 1)")
    async with conn.transaction(isolation="repeatable_read"):
        expect(await conn.fetchval("SHOW transaction_isolation"), "repeatable read")
    # A script of several statements is one transaction.
    with raises(asyncpg.UniqueViolationError):
        await conn.execute("INSERT INTO parent VALUES (8, 1); INSERT INTO parent VALUES (8, 1)")
    expect(await conn.fetchval("SELECT count(*) FROM parent WHERE id = 8"), 0)
    with raises(asyncio.TimeoutError):
        await conn.fetchval("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b", timeout=0.3)
    expect(await conn.fetchval("SELECT 1"), 1)


@connected
async def cursors(conn):
    await conn.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
    await conn.execute("INSERT INTO numbers SELECT * FROM generate_series(1, 1000)")
    async with conn.transaction():
        total = 0
        async for row in conn.cursor("SELECT n FROM numbers WHERE n > $1 ORDER BY n", 10, prefetch=64):
            total += row["n"]
        expect(total, 500_500 - 55)
        cursor = await conn.cursor("SELECT n FROM numbers ORDER BY n")
        expect([row["n"] for row in await cursor.fetch(3)], [1, 2, 3])
        expect(await cursor.forward(10), 10)
        expect((await cursor.fetchrow())["n"], 14)
        # Another statement between two reads of a portal.
        expect(await conn.fetchval("SELECT count(*) FROM numbers"), 1000)
        expect((await cursor.fetchrow())["n"], 15)


@connected
async def copies(conn):
    await conn.execute("CREATE TABLE moved (id int PRIMARY KEY, name text, amount numeric(10,2), day date)")
    records = [(n, None if n % 7 == 0 else f"row\t{n}", Decimal(n) / 4, dt.date(2026, 1, 1)) for n in range(5000)]
    expect(await conn.copy_records_to_table("moved", records=records), "COPY 5000")
    text = io.BytesIO(b'5000,"a, b",1.5,2026-01-01\n5001,,,\n')
    expect(await conn.copy_to_table("moved", source=text, columns=["id", "name", "amount", "day"], format="csv"), "COPY 2")
    out = io.BytesIO()
    expect(await conn.copy_from_query("SELECT * FROM moved WHERE id > $1 ORDER BY id", 4998, output=out, format="csv"), "COPY 3")
    expect(out.getvalue(), b'4999,row\t4999,1249.75,2026-01-01\n5000,"a, b",1.50,2026-01-01\n5001,,,\n')
    out = io.BytesIO()
    expect(await conn.copy_from_table("moved", output=out, format="binary"), "COPY 5002")
    await conn.execute("CREATE TABLE again (id int PRIMARY KEY, name text, amount numeric(10,2), day date)")
    out.seek(0)
    expect(await conn.copy_to_table("again", source=out, format="binary"), "COPY 5002")
    expect(await conn.fetchval("SELECT count(*) FROM (SELECT * FROM moved EXCEPT SELECT * FROM again) d"), 0)
    with raises(asyncpg.UniqueViolationError):
        await conn.copy_records_to_table("moved", records=[(9000, "new", None, None), (1, "old", None, None)])
    expect(await conn.fetchval("SELECT count(*) FROM moved"), 5002)


@connected
async def session(conn):
    expect(conn.get_server_version().major, 15)
    expect(conn.get_settings().server_encoding, "UTF8")
    await conn.execute("SET application_name = 'asyncpg client'")
    expect(await conn.fetchval("SELECT current_setting('application_name')"), "asyncpg client")
    await conn.reset()
    await conn.set_type_codec("json", encoder=str, decoder=len, schema="pg_catalog")
    expect(await conn.fetchval("SELECT '[1, 2]'::json"), 6)
    # Statements of several tasks on one connection are told apart.
    with raises(asyncpg.InterfaceError):
        await asyncio.gather(conn.fetchval("SELECT 1"), conn.fetchval("SELECT 2"))


async def pool(_conninfo):
    async with asyncpg.create_pool(**ADDRESS, min_size=2, max_size=8) as connections:
        await connections.execute("CREATE TABLE counters (id int PRIMARY KEY, n int)")
        await connections.execute("INSERT INTO counters VALUES (1, 0)")

        async def add(_):
            async with connections.acquire() as conn, conn.transaction(isolation="read_committed"):
                await conn.execute("UPDATE counters SET n = n + 1 WHERE id = $1", 1)

        await asyncio.gather(*(add(number) for number in range(100)))
        expect(await connections.fetchval("SELECT n FROM counters"), 100)


run(types, arrays, array_columns, prepared, transactions_and_errors, cursors, copies, session, pool)
