# SPDX-License-Identifier: Apache-2.0
"""Random statements on a brick table, whose server is killed and started again between them.

    random_bricks.py INITDB COEVAL [--seed N] [--count N]

PostgreSQL has a table with the same columns. After each statement, and after each start, both have the same rows.
"""

from psycopg import pq

from two_servers import Connection, Dice, Killable, Report, difference, options, postgresql, shortest

# Statements of a script behind those that make its tables.
LENGTH = 30

# What stands for the server's being killed.
KILL = "-- killed"

DIMENSIONS = {
    "k": ("int", "k RANGE SIZE {size} CARDINALITY 16"),
    "r": ("text", "r CARDINALITY 16 RANGE SIZE {size}"),
    "d": ("date", "d RANGE SIZE '{size} days' FROM '2024-01-01'"),
    "ts": ("timestamp", "ts RANGE SIZE '6 hours' FROM '2024-01-01'"),
}

METRICS = {
    "v": "int", "n": "numeric(8, 2)", "x": "float8", "f": "boolean", "t": "text", "h": "smallint", "b": "bigint",
    "tz": "timestamptz",
}

IN_TRANSACTION, FAILED = pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR


class Loads:
    """Makes scripts: a statement for PostgreSQL, and the same for Coeval."""

    def __init__(self, seed):
        self.dice = Dice(seed)
        self.is_in_block = False
        self.added = 0
        self.script = []
        chosen = self.dice.one_of(["k", "r"], ["k"], ["d", "r"], ["k", "d"], ["r"], ["ts", "k"])
        self.dimensions = {name: DIMENSIONS[name][0] for name in chosen}
        self.columns = dict(self.dimensions)
        for name in self.dice.some_of(METRICS, self.dice.whole(1, 6)):
            self.columns[name] = METRICS[name]

    def add(self, sql, ours=None):
        self.script.append((sql, ours or sql))

    def made(self):
        parts = [f"{name} {kind}{' NOT NULL' if name in self.dimensions else ''}" for name, kind in self.columns.items()]
        ranges = [DIMENSIONS[name][1].format(size=self.dice.whole(1, 4)) for name in self.dimensions]
        create = f"CREATE TABLE b ({', '.join(parts)})"
        self.add(create, f"{create} USING brick PARTITION BY ({', '.join(ranges)})")
        self.add("CREATE TABLE p (id int PRIMARY KEY, k int, r text, v int)")
        self.add("INSERT INTO p SELECT i, i % 5, 'r' || (i % 4), i FROM generate_series(1, 12) i")
        for _ in range(LENGTH):
            self.dice.by_weight(
                (28, self.insert), (22, self.select), (15, self.delete), (10, self.insert_rows_of_it), (15, self.control),
                (2, self.add_column), (1, self.truncate), (3, self.checkpoint), (3, self.kill),
            )()
        if self.is_in_block:
            self.add("COMMIT")
        self.kill()
        return self.script

    def literal(self, column, null=0.1):
        dice, kind = self.dice, self.columns[column]
        if column not in self.dimensions and dice.chance(null):
            return "NULL"
        if column == "k":
            return str(dice.whole(0, 15))
        if column == "r":
            return "'" + dice.one_of("r0", "r1", "r2", "r3", "", "Ä", "zz") + "'"
        return {
            "numeric(8, 2)": f"{dice.whole(-300, 900) / 100:.2f}",
            "float8": str(dice.whole(-8, 8) / 4),
            "boolean": dice.one_of("true", "false"),
            "text": "'" + dice.one_of("x", "y", "abc", "", "foo bar") + "'",
            "date": f"'2024-0{dice.whole(1, 2)}-{dice.whole(1, 28):02}'",
            "timestamp": f"'2024-01-{dice.whole(1, 9):02} {dice.whole(0, 23):02}:30:00'",
            "timestamptz": f"'2024-01-{dice.whole(1, 9):02} {dice.whole(0, 23):02}:30:00+00'",
        }.get(kind, str(dice.whole(-5, 20)))

    def condition(self, columns, depth=0):
        dice = self.dice
        column = dice.one_of(*columns)
        literal = lambda: self.literal(column, 0)
        choices = [
            (11, f"b.{column} {dice.one_of('=', '<', '>=', '>', '<=', '<>')} {literal()}"),
            (3, f"b.{column} IN ({literal()}, {literal()})"),
            (2, f"b.{column} BETWEEN {literal()} AND {literal()}"),
            (1, f"b.{column} IS {dice.one_of('', 'NOT ')}NULL"),
        ]
        if depth < 2:
            sides = self.condition(columns, depth + 1), self.condition(columns, depth + 1)
            choices.append((3, f"({sides[0]} {dice.one_of('AND', 'OR')} {sides[1]})"))
        return dice.by_weight(*choices)

    def insert(self):
        dice = self.dice
        columns = [column for column in self.columns if column in self.dimensions or dice.chance(0.85)]
        rows = (f"({', '.join(self.literal(column) for column in columns)})" for _ in range(dice.one_of(1, 1, 2, 5, 20)))
        returning = f" RETURNING {dice.one_of('*', *self.columns)}" if dice.chance(0.2) else ""
        self.add(f"INSERT INTO b ({', '.join(columns)}) VALUES {', '.join(rows)}{returning}")

    def insert_rows_of_it(self):
        columns = ", ".join(self.columns)
        self.add(f"INSERT INTO b ({columns}) SELECT {columns} FROM b WHERE {self.condition(self.columns)}")

    def select(self):
        dice = self.dice
        column, other = dice.one_of(*self.columns), dice.one_of(*self.columns)
        where = f" WHERE {self.condition(self.columns)}" if dice.chance(0.75) else ""
        kinds = ("int", "bigint", "smallint", "numeric(8, 2)")
        number = dice.one_of(*[name for name, kind in self.columns.items() if kind in kinds] or ["1"])
        ordered = dice.one_of(*[name for name, kind in self.columns.items() if kind != "boolean"])
        places = ", ".join(str(place + 1) for place in range(len(self.columns)))
        self.add(dice.by_weight(
            (3, f"SELECT * FROM b{where}"),
            (2, f"SELECT count(*), count({column}), sum({number}), min({ordered}), max({ordered}) FROM b{where}"),
            (3, f"SELECT {column}, count(*), sum({number}), count(DISTINCT {other}) FROM b{where} GROUP BY {column}"),
            (1, f"SELECT DISTINCT {column}, {other} FROM b{where}"),
            (2, f"SELECT b.*, p.id FROM b {dice.one_of('', 'LEFT ', 'FULL ')}JOIN p ON p.v = length(b.{column}::text){where}"),
            (2, f"SELECT {', '.join(self.columns)} FROM b{where} ORDER BY {places} LIMIT {dice.whole(1, 6)}"),
        ))

    def delete(self):
        """Coeval refuses one that would cut a brick: then PostgreSQL does not run it."""
        dice = self.dice
        begin = dice.whole(0, 3) * 4
        whole = {
            "k": f"k >= {begin} AND k < {begin + dice.one_of(1, 2, 4, 12)}",
            "d": f"d < '2024-0{dice.whole(1, 2)}-{dice.whole(1, 28):02}'",
            "r": f"r = {self.literal('r') if 'r' in self.dimensions else ''}",
            "ts": f"ts >= '2024-01-{dice.whole(1, 9):02}'",
        }[dice.one_of(*self.dimensions)]
        self.add(f"DELETE FROM b WHERE {whole if dice.chance(0.6) else self.condition(self.dimensions)}")

    def control(self):
        dice = self.dice
        if not self.is_in_block:
            self.add(dice.one_of("BEGIN", "BEGIN ISOLATION LEVEL READ COMMITTED"))
            self.is_in_block = True
            return
        name = dice.one_of("s1", "s2")
        sql = dice.by_weight(
            (4, "COMMIT"), (2, "ROLLBACK"), (2, f"SAVEPOINT {name}"), (2, f"ROLLBACK TO {name}"), (1, f"RELEASE {name}"),
        )
        self.is_in_block = sql not in ("COMMIT", "ROLLBACK")
        self.add(sql)

    def add_column(self):
        name, kind = f"m{self.added}", self.dice.one_of("int", "text", "float8")
        self.added += 1
        self.columns[name] = kind
        default = f" DEFAULT {self.literal(name, 0)}" if self.dice.chance(0.5) else ""
        self.add(f"ALTER TABLE b ADD COLUMN {name} {kind}{default}")

    def truncate(self):
        self.add("TRUNCATE b")

    def checkpoint(self):
        if not self.is_in_block:
            self.add("CHECKPOINT")

    def kill(self):
        """Also in a block, whose statements are gone with it on both sides."""
        self.add(KILL)
        self.is_in_block = False


class Pair:
    def __init__(self, server, ours, theirs):
        self.server, self.ours, self.theirs = server, ours, theirs
        self.statements = 0

    def step(self, sql, our_sql):
        """What differs, or `None`."""
        if sql == KILL:
            self.server.killed()
            self.ours.open()
            self.ours.must("SET search_path = fuzz")
            self.theirs.run("ROLLBACK")
            return self.rows_differ()
        guarded = self.theirs.state == IN_TRANSACTION
        if guarded:
            self.ours.run("SAVEPOINT guard")
            self.theirs.run("SAVEPOINT guard")
        found = self.ours.run(our_sql)
        if found.state == "0A000" and sql.startswith("DELETE"):
            self.ours.run("ROLLBACK TO guard")
            return None
        wanted = self.theirs.run(sql)
        self.statements += 1
        if difference(wanted, found):
            return f"wanted {wanted}\n  found  {found}"
        if self.theirs.state == FAILED:
            self.ours.run("ROLLBACK TO guard")
            self.theirs.run("ROLLBACK TO guard")
        return self.rows_differ()

    def rows_differ(self):
        if self.theirs.run("SELECT to_regclass('fuzz.b') IS NULL").rows == [("t",)]:
            return None
        wanted, found = self.theirs.run("SELECT * FROM b"), self.ours.run("SELECT * FROM b")
        self.statements += 1
        return f"wanted {wanted}\n  found  {found}" if difference(wanted, found) else None

    def play(self, script):
        """The place of the first statement that differs and what differs, or `None`."""
        self.ours.in_empty_schema()
        self.theirs.in_empty_schema()
        for place, (sql, our_sql) in enumerate(script):
            what = self.step(sql, our_sql)
            if what:
                return place, what
        return None


def main():
    chosen = options(25, "coeval")
    report = Report()
    settings = ("SET timezone = 'UTC'", "SET client_min_messages = error")
    repeatable = "SET default_transaction_isolation = 'repeatable read'"
    with postgresql(chosen.initdb) as place, Killable(chosen.coeval) as server:
        pair = Pair(server, Connection(server.address, *settings, repeatable), Connection(place, *settings))
        for seed in range(chosen.seed, chosen.seed + chosen.count):
            script = Loads(seed).made()
            report.scripts += 1
            found = pair.play(script)
            if found:
                small = shortest(script[:found[0] + 1], lambda part: bool(pair.play(part)))
                place, what = pair.play(small) or found
                report.differs(seed, [f"{ours};" for _, ours in small], what)
        report.statements = pair.statements
    report.end(statements_min=30 * chosen.count)


if __name__ == "__main__":
    main()
