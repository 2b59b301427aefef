# SPDX-License-Identifier: Apache-2.0
"""psycopg 3: sync and async connections, pipelines, COPY, cursors, statements that it prepares by itself, types."""

import asyncio
import datetime as dt
import enum
import uuid
from decimal import Decimal

import psycopg
from psycopg import errors, sql
from psycopg.rows import class_row, dict_row, namedtuple_row, tuple_row
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json

from checks import expect, raises, run

ALL_TYPES = (
    "id int PRIMARY KEY, small smallint, big bigint, single real, wide double precision, yes boolean, "
    "name text, short varchar(20), raw bytea, amount numeric(20,4), day date, at time, "
    "local timestamp, stamp timestamptz, span interval, key uuid, doc json"
)
UTC = dt.timezone.utc
ROWS = [
    (
        1, -32768, 2**63 - 1, 1.5, 0.1, True, "Grüße, 世界", "O'Neil \\ \"x\"", b"\x00\x01\xff\\",
        Decimal("-1234567890.1234"), dt.date(2026, 2, 28), dt.time(23, 59, 59, 999999),
        dt.datetime(1999, 12, 31, 23, 59, 59, 1), dt.datetime(2026, 6, 1, 12, 30, 0, 500000, UTC),
        dt.timedelta(days=3, hours=4, microseconds=5), uuid.UUID(int=2**127 + 5), {"a": [1, None, "ü"]},
    ),
    (
        2, 32767, -(2**63), -0.0, float("inf"), False, "", "", b"", Decimal("0.0001"), dt.date(1, 1, 1),
        dt.time(0, 0), dt.datetime(1970, 1, 1), dt.datetime(1900, 1, 1, tzinfo=UTC), dt.timedelta(days=-1),
        uuid.UUID(int=0), [],
    ),
    (3, *[None] * 16),
]


def adapted(row):
    return [Json(value) if isinstance(value, (dict, list)) else value for value in row]


def types(conninfo):
    """What is sent comes back, whatever the format of either way."""
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute(f"CREATE TABLE kinds ({ALL_TYPES})")
        marks = {"auto": "%s", "text": "%t", "binary": "%b"}
        for mark in marks.values():
            places = ", ".join([mark] * 17)
            with conn.cursor() as cur:
                cur.executemany(f"INSERT INTO kinds VALUES ({places})", [adapted(row) for row in ROWS])
                expect(cur.rowcount, 3)
            for binary in (False, True):
                found = conn.execute("SELECT * FROM kinds ORDER BY id", binary=binary).fetchall()
                expect(found, ROWS)
            for position, column in enumerate(("small", "big", "wide", "name", "raw", "amount", "day", "stamp", "key")):
                value = dict(zip([c.split()[0] for c in ALL_TYPES.split(", ")], ROWS[0]))[column]
                found = conn.execute(f"SELECT id FROM kinds WHERE {column} = {mark}", [value]).fetchall()
                expect(found, [(1,)])
            conn.execute("DELETE FROM kinds")
        found = conn.execute("SELECT %s::int, %s::text, %s::float8, %s::date", (1, "a", 2.5, dt.date(2026, 1, 2)))
        expect(found.fetchone(), (1, "a", 2.5, dt.date(2026, 1, 2)))
        expect([column.type_code for column in found.description], [23, 25, 701, 1082])
        expect(conn.execute("SELECT NULL, 'x'").fetchone(), (None, "x"))


def arrays(conninfo):
    """Lists are arrays, as parameters and as results."""
    names = ["a", None, 'c, "quoted" \\ {x}']
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute("CREATE TABLE listed (id int PRIMARY KEY, name text, amount numeric(10,2))")
        for mark in ("%s", "%t", "%b"):
            insert = f"INSERT INTO listed SELECT * FROM unnest({mark}::int[], {mark}::text[], {mark}::numeric[])"
            amounts = [Decimal("1.50"), Decimal("-2.00"), None]
            conn.execute(insert, [[1, 2, 3], names, amounts])
            expect(conn.execute("SELECT * FROM listed ORDER BY id").fetchall(), list(zip([1, 2, 3], names, amounts)))
            for column, wanted in (("id", [3, 1, 7]), ("name", [names[2], "a"])):
                found = conn.execute(f"SELECT id FROM listed WHERE {column} = ANY({mark}) ORDER BY id", [wanted])
                expect(found.fetchall(), [(1,), (3,)])
            expect(conn.execute(f"SELECT id FROM listed WHERE id = ANY({mark}::int[])", [[]]).fetchall(), [])
            expect(conn.execute(f"DELETE FROM listed WHERE NOT id = ANY({mark})", [[300]]).rowcount, 3)
        for binary in (False, True):
            given = conn.execute("SELECT ARRAY[1, NULL, 3], ARRAY['x', 'y z'], ARRAY[true], '{}'::int[]", binary=binary)
            expect(given.fetchone(), ([1, None, 3], ["x", "y z"], [True], []))
        conn.execute("CREATE TABLE held (id int PRIMARY KEY, names text[], numbers int[], amounts numeric(10,2)[])")
        row = (1, names, [1, None, 3], [Decimal("1.50")])
        for mark in ("%s", "%t", "%b"):
            conn.execute(f"INSERT INTO held VALUES ({mark}, {mark}, {mark}, {mark})", row)
            for binary in (False, True):
                for where in ("", f" WHERE numbers[3] = 3 AND {mark} = ANY(names)"):
                    wanted = ["a"] if where else []
                    expect(conn.execute(f"SELECT * FROM held{where}", wanted, binary=binary).fetchall(), [row])
            changed = conn.execute(f"UPDATE held SET names = {mark}, numbers = numbers || 4 RETURNING *", [["z"]])
            expect(changed.fetchone(), (1, ["z"], [1, None, 3, 4], row[3]))
            expect(conn.execute(f"DELETE FROM held WHERE names @> {mark}::text[]", [["z"]]).rowcount, 1)


def enums(conninfo):
    class Mood(enum.Enum):
        SAD = "sad"
        OK = "ok"
        HAPPY = "happy"

    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute("CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy')")
        conn.execute("CREATE TABLE person (id int PRIMARY KEY, m mood, all_of mood[])")
        info = EnumInfo.fetch(conn, "mood")
        expect(list(info.labels), ["sad", "ok", "happy"])
        register_enum(info, conn, Mood, mapping={member: member.value for member in Mood})
        for binary in (False, True):
            conn.execute("DELETE FROM person")
            with conn.cursor(binary=binary) as cur:
                form = "%b" if binary else "%t"
                insert = f"INSERT INTO person VALUES ({form}, {form}, {form})"
                for number, mood in enumerate(Mood):
                    cur.execute(insert, (number, mood, [mood, Mood.OK]))
                cur.execute(insert, (9, None, None))
                rows = cur.execute("SELECT m, all_of FROM person ORDER BY m DESC").fetchall()
                expect(rows[:2], [(None, None), (Mood.HAPPY, [Mood.HAPPY, Mood.OK])])
                expect(cur.description[0].type_code, info.oid)
                cur.execute(f"SELECT id FROM person WHERE m = {form}", (Mood.OK,))
                expect(cur.fetchall(), [(1,)])
                cur.execute(f"SELECT id FROM person WHERE m = ANY({form}) ORDER BY id", ([Mood.SAD, Mood.HAPPY],))
                expect(cur.fetchall(), [(0,), (2,)])
        expect(conn.execute("SELECT id FROM person WHERE m > %s::mood", ("ok",)).fetchall(), [(2,)])
        with raises(errors.InvalidTextRepresentation):
            conn.execute("INSERT INTO person VALUES (10, %s)", ("bad",))
        with conn.cursor() as cur:
            with cur.copy("COPY person FROM STDIN") as copy:
                copy.write_row((20, "sad", ["ok"]))
            with cur.copy("COPY (SELECT m, all_of FROM person WHERE id = 20) TO STDOUT") as copy:
                expect(b"".join(copy), b"sad\t{ok}\n")
            with cur.copy("COPY person (id, m) FROM STDIN (FORMAT BINARY)") as copy:
                copy.set_types(["int4", "mood"])
                copy.write_row((21, Mood.HAPPY))
        expect(conn.execute("SELECT m FROM person WHERE id = 21").fetchone(), (Mood.HAPPY,))
        conn.execute("ALTER TYPE mood ADD VALUE 'meh' BEFORE 'ok'")
        expect(list(EnumInfo.fetch(conn, "mood").labels), ["sad", "meh", "ok", "happy"])
        conn.execute("DROP TABLE person")
        conn.execute("DROP TYPE mood")


def rows_of_all_shapes(conninfo):
    with psycopg.connect(conninfo, row_factory=dict_row) as conn:
        conn.execute("CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL, age int)")
        new = conn.execute("INSERT INTO people (name, age) VALUES (%s, %s) RETURNING id", ("Ann", 30)).fetchone()
        expect(new, {"id": 1})
        conn.execute("INSERT INTO people (name, age) VALUES (%(name)s, %(age)s)", {"age": None, "name": "Bob"})
        expect(conn.execute("SELECT * FROM people WHERE age IS NULL").fetchone(), {"id": 2, "name": "Bob", "age": None})
        with conn.cursor(row_factory=namedtuple_row) as cur:
            expect(cur.execute("SELECT name FROM people ORDER BY id").fetchone().name, "Ann")

        class Person:
            def __init__(self, id, name, age):
                self.shown = f"{id} {name} {age}"

        with conn.cursor(row_factory=class_row(Person)) as cur:
            expect([person.shown for person in cur.execute("SELECT * FROM people ORDER BY id")], ["1 Ann 30", "2 Bob None"])
        composed = sql.SQL("SELECT {} FROM {} WHERE {} = {}").format(
            sql.Identifier("name"), sql.Identifier("public", "people"), sql.Identifier("id"), sql.Literal(2)
        )
        expect(conn.execute(composed).fetchall(), [{"name": "Bob"}])
        cur = conn.execute("UPDATE people SET age = 1")
        expect((cur.rowcount, cur.statusmessage), (2, "UPDATE 2"))
        with psycopg.ClientCursor(conn, row_factory=tuple_row) as cur:
            cur.execute("SELECT %s, %s, %s", ("it's", 1, Decimal("1.50")))
            expect(cur.fetchone(), ("it's", 1, Decimal("1.50")))
            cur.execute("SELECT 1 AS a; SELECT 2 AS a, 3 AS b")
            expect(cur.fetchall(), [(1,)])
            expect((cur.nextset(), cur.fetchall(), cur.nextset()), (True, [(2, 3)], None))


def transactions_and_errors(conninfo):
    with psycopg.connect(conninfo) as conn:
        conn.execute("CREATE TABLE parent (id int PRIMARY KEY)")
        conn.execute("CREATE TABLE child (id int PRIMARY KEY, parent int REFERENCES parent, n int CHECK (n > 0), t text NOT NULL)")
        conn.commit()
        conn.execute("INSERT INTO parent VALUES (1)")
        conn.rollback()
        expect(conn.execute("SELECT count(*) FROM parent").fetchone(), (0,))
        conn.commit()
        with conn.transaction():
            conn.execute("INSERT INTO parent VALUES (1)")
            with raises(errors.UniqueViolation):
                with conn.transaction():
                    conn.execute("INSERT INTO parent VALUES (1)")
            with conn.transaction() as inner:
                conn.execute("INSERT INTO parent VALUES (2)")
                raise psycopg.Rollback(inner)
        expect(conn.execute("SELECT id FROM parent").fetchall(), [(1,)])
        wrong = [
            ("INSERT INTO child VALUES (1, 7, 1, 'x')", errors.ForeignKeyViolation),
            ("INSERT INTO child VALUES (1, 1, 0, 'x')", errors.CheckViolation),
            ("INSERT INTO child VALUES (1, 1, 1, NULL)", errors.NotNullViolation),
            ("SELECT * FROM absent", errors.UndefinedTable),
            ("SELECT absent FROM child", errors.UndefinedColumn),
            ("SELECT absent()", errors.UndefinedFunction),
            ("SELEC 1", errors.SyntaxError),
            ("SELECT 1/0", errors.DivisionByZero),
            ("SELECT 'x'::int", errors.InvalidTextRepresentation),
            ("SELECT 2147483647 + 1", errors.NumericValueOutOfRange),
            ("CREATE TABLE child (a int)", errors.DuplicateTable),
            ("SELECT id FROM parent, child", errors.AmbiguousColumn),
            ("SELECT id, count(*) FROM parent", errors.GroupingError),
            ("DROP TABLE parent", errors.DependentObjectsStillExist),
        ]
        for statement, kind in wrong:
            with raises(kind) as caught:
                conn.execute(statement)
            expect(caught.error.diag.sqlstate, kind.sqlstate)
            with raises(errors.InFailedSqlTransaction):
                conn.execute("SELECT 1")
            conn.rollback()
            with raises(kind):
                conn.execute(statement.replace("%", "%%"), prepare=True)
            conn.rollback()
        with raises(errors.UndefinedColumn) as caught:
            conn.execute("SELECT id, wrong FROM parent")
        expect(caught.error.diag.statement_position, "12")
        expect(caught.error.diag.severity, "ERROR")
        conn.rollback()
        conn.read_only = True
        with raises(errors.ReadOnlySqlTransaction):
            conn.execute("INSERT INTO parent VALUES (9)")
        conn.rollback()
        conn.read_only = None
        for level in (psycopg.IsolationLevel.READ_COMMITTED, psycopg.IsolationLevel.REPEATABLE_READ):
            conn.isolation_level = level
            shown = conn.execute("SHOW transaction_isolation").fetchone()[0]
            expect(shown, level.name.lower().replace("_", " "))
            conn.rollback()


def conflict(conninfo):
    """Two writers of one row at REPEATABLE READ: the second one is told to try again."""
    with psycopg.connect(conninfo) as one, psycopg.connect(conninfo) as two:
        one.execute("CREATE TABLE counters (id int PRIMARY KEY, n int)")
        one.execute("INSERT INTO counters VALUES (1, 0)")
        one.commit()
        for conn in (one, two):
            conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            expect(conn.execute("SELECT n FROM counters").fetchone(), (0,))
        one.execute("UPDATE counters SET n = n + 1 WHERE id = 1")
        one.commit()
        with raises(errors.SerializationFailure):
            two.execute("UPDATE counters SET n = n + 1 WHERE id = 1")
            two.commit()
        two.rollback()
        expect(two.execute("SELECT n FROM counters").fetchone(), (1,))


def prepared(conninfo):
    """After five uses a statement is prepared; a change of its table is met by preparing again."""
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute("CREATE TABLE points (id int PRIMARY KEY, x float8, label text)")
        for number in range(20):
            conn.execute("INSERT INTO points VALUES (%s, %s, %s)", (number, number / 4, f"p{number}"))
        for number in range(20):
            found = conn.execute("SELECT x, label FROM points WHERE id = %s", (number,)).fetchone()
            expect(found, (number / 4, f"p{number}"))
        # Another type for the same text is another statement.
        expect(conn.execute("SELECT x FROM points WHERE id = %s", (Decimal(3),)).fetchone(), (0.75,))
        expect(conn.execute("SELECT label FROM points WHERE label = %s", ("p7",), prepare=True).fetchone(), ("p7",))
        conn.prepared_max = 2
        for number in range(30):
            conn.execute(f"SELECT label, {number} FROM points WHERE id = %s", (1,), prepare=True)
        for _ in range(7):
            conn.execute("SELECT count(*) FROM points WHERE x > %s", (1.0,))


def copies(conninfo):
    with psycopg.connect(conninfo) as conn, conn.cursor() as cur:
        cur.execute("CREATE TABLE moved (id int PRIMARY KEY, name text, amount numeric(10,2), day date)")
        with cur.copy("COPY moved FROM STDIN") as copy:
            for number in range(5000):
                copy.write_row((number, None if number % 7 == 0 else f"row\t{number}", Decimal(number) / 4, dt.date(2026, 1, 1)))
        expect(cur.rowcount, 5000)
        with cur.copy("COPY moved FROM STDIN (FORMAT binary)") as copy:
            copy.set_types(["int4", "text", "numeric", "date"])
            for number in range(5000, 6000):
                copy.write_row((number, f"row {number}", Decimal("0.25"), dt.date(1999, 1, 1)))
        with cur.copy("COPY moved FROM STDIN WITH (FORMAT csv)") as copy:
            copy.write('6000,"a, b",1.5,2026-01-01\n6001,,,\n')
        expect(cur.execute("SELECT count(*), count(name), max(day), sum(amount) FROM moved").fetchone(),
               (6002, 5286, dt.date(2026, 1, 1), Decimal("3124626.50")))
        with cur.copy("COPY (SELECT * FROM moved WHERE id < 3 ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "numeric", "date"])
            expect(list(copy.rows())[1], (1, "row\t1", Decimal("0.25"), dt.date(2026, 1, 1)))
        with cur.copy("COPY (SELECT id, name, amount, day FROM moved ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
            bytes_given = b"".join(copy)
        cur.execute("CREATE TABLE moved_again (id int PRIMARY KEY, name text, amount numeric(10,2), day date)")
        with cur.copy("COPY moved_again FROM STDIN (FORMAT binary)") as copy:
            copy.write(bytes_given)
        expect(cur.execute("SELECT count(*) FROM (SELECT * FROM moved EXCEPT SELECT * FROM moved_again) d").fetchone(), (0,))
        conn.commit()
        with raises(errors.UniqueViolation):
            with cur.copy("COPY moved FROM STDIN") as copy:
                copy.write_row((10_000, "new", None, None))
                copy.write_row((1, "old", None, None))
        conn.rollback()
        with raises(ZeroDivisionError):
            with cur.copy("COPY moved FROM STDIN") as copy:
                copy.write_row((10_001, "new", None, None))
                1 / 0
        conn.rollback()
        expect(cur.execute("SELECT count(*) FROM moved").fetchone(), (6002,))


def cursors(conninfo):
    with psycopg.connect(conninfo) as conn:
        conn.execute("CREATE TABLE numbers (n int PRIMARY KEY)")
        conn.execute("INSERT INTO numbers SELECT * FROM generate_series(1, 1000)")
        with conn.cursor(name="walk") as cur:
            cur.itersize = 64
            cur.execute("SELECT n FROM numbers WHERE n > %s ORDER BY n", (10,))
            expect(sum(row[0] for row in cur), 500_500 - 55)
        with conn.cursor(name="jump", scrollable=True) as cur:
            cur.execute("SELECT n FROM numbers ORDER BY n")
            expect(cur.fetchone(), (1,))
            cur.scroll(500)
            expect(cur.fetchmany(2), [(502,), (503,)])
            cur.scroll(0, mode="absolute")
            expect(cur.fetchone(), (1,))
        with conn.cursor(name="held", withhold=True) as cur:
            cur.execute("SELECT n FROM numbers ORDER BY n")
            conn.commit()
            expect(len(cur.fetchall()), 1000)
        with conn.cursor() as cur:
            expect(sum(row[0] for row in cur.stream("SELECT n FROM numbers ORDER BY n")), 500_500)


def pipelines(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute("CREATE TABLE queue (id int PRIMARY KEY, v text)")
        with conn.pipeline() as pipeline:
            found = []
            for number in range(100):
                conn.execute("INSERT INTO queue VALUES (%s, %s)", (number, f"v{number}"))
                found.append(conn.execute("SELECT v FROM queue WHERE id = %s", (number,)))
            pipeline.sync()
            expect([cur.fetchone()[0] for cur in found], [f"v{number}" for number in range(100)])
        # What comes after a failure, up to the sync, is not run.
        with raises(errors.UniqueViolation):
            with conn.pipeline():
                conn.execute("INSERT INTO queue VALUES (1000, 'x')")
                conn.execute("INSERT INTO queue VALUES (1, 'x')")
                conn.execute("INSERT INTO queue VALUES (1001, 'x')")
        expect(conn.execute("SELECT id FROM queue WHERE id >= 1000").fetchall(), [])
        with conn.pipeline(), conn.transaction():
            conn.execute("INSERT INTO queue VALUES (2000, 'in a block')")
            conn.execute("UPDATE queue SET v = 'changed' WHERE id = 2000")
        expect(conn.execute("SELECT v FROM queue WHERE id = 2000").fetchone(), ("changed",))
        with conn.cursor() as cur:
            cur.executemany("INSERT INTO queue VALUES (%s, %s) RETURNING id", [(3000, "a"), (3001, "b")], returning=True)
            expect(cur.fetchone(), (3000,))
            cur.nextset()
            expect(cur.fetchone(), (3001,))


def cancelling(conninfo):
    with psycopg.connect(conninfo, autocommit=True) as conn:
        conn.execute("SET statement_timeout = '200ms'")
        with raises(errors.QueryCanceled):
            conn.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b")
        conn.execute("SET statement_timeout = 0")
        expect(conn.info.parameter_status("server_encoding"), "UTF8")
        expect(conn.info.server_version // 10000, 15)
        expect(conn.info.encoding, "utf-8")


async def asynchronous(conninfo):
    async with await psycopg.AsyncConnection.connect(conninfo) as conn:
        await conn.execute("CREATE TABLE later (id int PRIMARY KEY, v text)")
        async with conn.cursor() as cur:
            await cur.executemany("INSERT INTO later VALUES (%s, %s)", [(n, str(n)) for n in range(50)])
            await cur.execute("SELECT v FROM later WHERE id >= %s ORDER BY id", (45,))
            expect([row async for row in cur], [(str(n),) for n in range(45, 50)])
            async with cur.copy("COPY later FROM STDIN") as copy:
                await copy.write_row((100, "copied"))
        await conn.commit()
        async with conn.pipeline():
            first = await conn.execute("SELECT count(*) FROM later")
            second = await conn.execute("SELECT v FROM later WHERE id = %s", (100,))
            expect((await first.fetchone(), await second.fetchone()), ((51,), ("copied",)))
        with raises(errors.UndefinedTable):
            async with conn.transaction():
                await conn.execute("SELECT * FROM absent")
    async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as conn:
        waiting = asyncio.create_task(
            conn.execute("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 1000000) b")
        )
        await asyncio.sleep(0.2)
        await conn.cancel_safe()
        with raises(errors.QueryCanceled):
            await waiting
        expect(await (await conn.execute("SELECT 1")).fetchone(), (1,))

    async def one_of_many(number):
        async with await psycopg.AsyncConnection.connect(conninfo, autocommit=True) as own:
            await own.execute("UPDATE later SET v = v || '+' WHERE id = 1")
            return (await (await own.execute("SELECT %s::int", (number,))).fetchone())[0]

    expect(sorted(await asyncio.gather(*(one_of_many(number) for number in range(8)))), list(range(8)))
    async with await psycopg.AsyncConnection.connect(conninfo) as conn:
        expect(await (await conn.execute("SELECT v FROM later WHERE id = 1")).fetchone(), ("1" + "+" * 8,))


run(types, arrays, enums, rows_of_all_shapes, transactions_and_errors, conflict, prepared, copies, cursors, pipelines, cancelling, asynchronous)
