# SPDX-License-Identifier: Apache-2.0
"""Random queries over the same rows, which PostgreSQL has to answer in the same way.

    random_queries.py INITDB [--seed N] [--count N]

All tables have the same column names, as an application's have their `id` and `name`, and a seventh of the values are
NULL. What Coeval says it does not support (0A000) is not compared, but may be no more than a few queries of a hundred.
A difference is printed with its query; the same seed gives the same rows and queries.
"""

import decimal

import psycopg

from checks import ADDRESS
from two_servers import Dice, options, postgresql

# The rows of each table.
TABLES = {"t1": 60, "t2": 25, "t3": 8, "empty": 0, "many": 3000}

COLUMNS = {
    "id": "int PRIMARY KEY",
    "a": "int",
    "b": "bigint",
    "s": "smallint",
    "amount": "numeric(10, 2)",
    "name": "text",
    "day": "date",
    "at": "timestamp",
    "x": "float8",
    "ok": "boolean",
}

WHOLE = ["id", "a", "b", "s"]

# Of a hundred queries that PostgreSQL answers.
UNSUPPORTED_MAX = 5


class Queries(Dice):
    """Makes rows and queries."""

    # Rows.

    def row(self, number):
        values = [
            str(self.whole(0, 9)),
            str(self.whole(-3, 20)),
            str(self.whole(0, 5)),
            f"{self.whole(-500, 2000) / 100:.2f}",
            "'" + self.one_of("x", "y", "Zed", "abc", "", "foo bar", "b%") + "'",
            f"date '2024-01-{self.whole(1, 28):02}'",
            f"timestamp '2024-0{self.whole(1, 9)}-15 {self.whole(0, 23):02}:30:00'",
            str(self.whole(-8, 8) / 4),
            self.one_of("true", "false"),
        ]
        shown = ("NULL" if self.chance(0.15) else value for value in values)
        return f"({number}, {', '.join(shown)})"

    def definitions(self):
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        for table, count in TABLES.items():
            yield f"CREATE TABLE {table} ({columns})"
            for begin in range(0, count, 500):
                rows = (self.row(number + 1) for number in range(begin, min(begin + 500, count)))
                yield f"INSERT INTO {table} VALUES {', '.join(rows)}"
        yield "CREATE INDEX ON t1 (a)"
        yield "CREATE INDEX ON many (a)"

    # Expressions. `tables` are the names that a part of a query may use, `depth` how deep it stands.

    def column(self, tables, kinds=None):
        return f"{self.one_of(*tables)}.{self.one_of(*(kinds or COLUMNS))}"

    def number(self, tables, depth=0):
        number = lambda: self.number(tables, depth + 1)
        choice = self.dice.random()
        if depth > 2 or choice < 0.5:
            return self.column(tables, WHOLE + ["amount"])
        if choice < 0.6:
            return str(self.whole(-5, 12))
        if choice < 0.8:
            return f"({number()} {self.one_of('+', '-', '*')} {number()})"
        if choice < 0.85:
            return f"coalesce({number()}, {self.whole(0, 3)})"
        if choice < 0.9:
            return f"CASE WHEN {self.condition(tables, depth + 1)} THEN {number()} ELSE {number()} END"
        if choice < 0.93:
            return f"abs({number()})"
        if choice < 0.96:
            return f"nullif({number()}, {self.whole(0, 5)})"
        return f"length({self.column(tables, ['name'])})"

    def condition(self, tables, depth=0):
        """One without subqueries."""
        number = lambda: self.number(tables, depth + 1)
        choice = self.dice.random()
        if depth > 2 or choice < 0.35:
            return f"{number()} {self.one_of('=', '<', '>', '<=', '>=', '<>')} {number()}"
        if choice < 0.46:
            return f"{self.column(tables)} IS {self.one_of('', 'NOT ')}NULL"
        if choice < 0.54:
            pattern = self.one_of("%b%", "x", "_", "%", "Z%", "a_c")
            return f"{self.column(tables, ['name'])} {self.one_of('LIKE', 'NOT LIKE', 'ILIKE')} '{pattern}'"
        if choice < 0.61:
            listed = ", ".join(str(self.whole(0, 9)) for _ in range(self.whole(1, 4)))
            return f"{self.column(tables, WHOLE)} {self.one_of('IN', 'NOT IN')} ({listed})"
        if choice < 0.68:
            return f"{self.column(tables, WHOLE)} BETWEEN {self.whole(-2, 4)} AND {self.whole(3, 12)}"
        if choice < 0.78:
            both = (self.condition(tables, depth + 1), self.condition(tables, depth + 1))
            return f"({both[0]} {self.one_of('AND', 'OR')} {both[1]})"
        if choice < 0.83:
            return f"NOT ({self.condition(tables, depth + 1)})"
        if choice < 0.88:
            return f"{self.column(tables, ['ok'])} IS {self.one_of('', 'NOT ')}{self.one_of('TRUE', 'FALSE', 'UNKNOWN')}"
        if choice < 0.92:
            return f"{self.column(tables, ['day'])} {self.one_of('<', '>=')} date '2024-01-{self.whole(1, 28):02}'"
        if choice < 0.96:
            return f"{number()} IS {self.one_of('', 'NOT ')}DISTINCT FROM {number()}"
        return f"{self.column(tables, WHOLE)} = {self.column(tables, WHOLE)}"

    def with_subquery(self, tables):
        inner = f"q{self.whole(0, 99)}"
        table, key = f"{self.one_of(*TABLES)} {inner}", f"{inner}.{self.one_of(*WHOLE)}"
        outer, condition = self.column(tables, WHOLE), self.condition([inner], 2)
        choice = self.dice.random()
        if choice < 0.4:
            return f"{self.one_of('', 'NOT ')}EXISTS (SELECT 1 FROM {table} WHERE {key} = {outer} AND {condition})"
        if choice < 0.7:
            return f"{outer} {self.one_of('IN', 'NOT IN')} (SELECT {key} FROM {table} WHERE {condition})"
        if choice < 0.85:
            best = f"{self.one_of('max', 'min', 'count', 'sum')}({inner}.{self.one_of(*WHOLE)})"
            return f"{self.number(tables, 2)} {self.one_of('<', '>=')} (SELECT {best} FROM {table} WHERE {key} = {outer})"
        return f"{outer} {self.one_of('<', '=', '>')} {self.one_of('ANY', 'ALL')} (SELECT {key} FROM {table} WHERE {condition})"

    def where(self, tables):
        choice = self.dice.random()
        if choice < 0.35:
            return ""
        if choice < 0.8:
            return f" WHERE {self.condition(tables)}"
        if choice < 0.9:
            return f" WHERE {self.with_subquery(tables)}"
        return f" WHERE {self.condition(tables, 1)} AND {self.with_subquery(tables)}"

    # Queries.

    def joined(self, prefix):
        """What stands in FROM, and the names of its tables."""
        text, tables = "", []
        for place in range(self.one_of(1, 2, 2, 3, 3, 4)):
            name = f"{prefix}{place}"
            table = self.one_of("t1", "t1", "t2", "t2", "t3", "many", "empty")
            item = f"{table} {name}"
            if self.chance(0.12):
                distinct, column = self.one_of("", "DISTINCT "), self.one_of(*WHOLE)
                item = f"(SELECT {distinct}* FROM {table} WHERE {column} < {self.whole(2, 9)}) {name}"
            if tables:
                on = f"{name}.{self.one_of('id', 'id', 'a', 's')} = {self.column(tables, ['id', 'id', 'a', 'b', 's'])}"
                if self.chance(0.2):
                    on += f" AND {self.condition([*tables, name], 2)}"
                kind = self.one_of("JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
                text += f" {kind} {item} ON {on}"
            else:
                text = item
            tables.append(name)
        return text, tables

    def plain(self, prefix):
        text, tables = self.joined(prefix)
        outputs = []
        for _ in range(self.whole(1, 5)):
            choice = self.dice.random()
            if choice < 0.6:
                outputs.append(self.column(tables))
            elif choice < 0.9:
                outputs.append(self.number(tables))
            else:
                best = f"{self.one_of('max', 'min', 'count')}(z.{self.one_of(*WHOLE)})"
                key = f"z.{self.one_of(*WHOLE)} = {self.column(tables, WHOLE)}"
                outputs.append(f"(SELECT {best} FROM {self.one_of(*TABLES)} z WHERE {key})")
        listed = ", ".join(f"{output} AS o{place}" for place, output in enumerate(outputs))
        query = f"SELECT {'DISTINCT ' if self.chance(0.2) else ''}{listed} FROM {text}{self.where(tables)}"
        if self.chance(0.35):
            orders = ("", " DESC", " NULLS FIRST", " DESC NULLS LAST")
            keys = ", ".join(f"{place + 1}{self.one_of(*orders)}" for place in range(len(outputs)))
            query += f" ORDER BY {keys} LIMIT {self.whole(1, 12)}"
            query += f" OFFSET {self.whole(0, 5)}" if self.chance(0.3) else ""
        return query

    def aggregate(self, tables):
        if self.chance(0.2):
            call = "count(*)"
        else:
            function = self.one_of("sum", "min", "max", "count", "avg")
            of_numbers = function in ("sum", "avg") or self.chance(0.5)
            others = [name for name in COLUMNS if name != "ok"]
            argument = self.number(tables, self.one_of(1, 3, 3)) if of_numbers else self.column(tables, others)
            call = f"{function}({'DISTINCT ' if self.chance(0.15) else ''}{argument})"
        return call + (f" FILTER (WHERE {self.condition(tables, 2)})" if self.chance(0.12) else "")

    def grouped(self, prefix):
        text, tables = self.joined(prefix)
        groups = [self.column(tables) if self.chance(0.8) else self.number(tables, 2) for _ in range(self.whole(0, 3))]
        calls = [self.aggregate(tables) for _ in range(self.whole(1, 3))]
        outputs = [*groups, *calls]
        listed = ", ".join(f"{output} AS o{place}" for place, output in enumerate(outputs))
        query = f"SELECT {listed} FROM {text}{self.where(tables)}"
        places = lambda count: ", ".join(str(place + 1) for place in range(count))
        query += f" GROUP BY {places(len(groups))}" if groups else ""
        if self.chance(0.25):
            query += f" HAVING {self.one_of(*calls)} {self.one_of('IS NOT NULL', 'IS NULL')}"
        if groups and self.chance(0.25):
            query += f" ORDER BY {places(len(outputs))} LIMIT {self.whole(1, 9)}"
        return query

    def windowed(self):
        text, tables = self.joined("x")
        keys = ", ".join(f"{table}.id" for table in tables)
        call = self.one_of(
            "row_number()", "rank()", "count(*)", f"sum({self.number(tables, 2)})",
            f"lag({self.column(tables)})", f"first_value({self.column(tables)})",
        )
        window = f"PARTITION BY {self.column(tables)} ORDER BY {self.column(tables, WHOLE)}, {keys}"
        return f"SELECT {keys}, {call} OVER ({window}) FROM {text}{self.where(tables)}"

    def combined(self):
        sides = []
        for prefix in "xy":
            text, tables = self.joined(prefix)
            sides.append(f"SELECT {self.column(tables, WHOLE)}, {self.column(tables, ['name'])} FROM {text}{self.where(tables)}")
        return f" {self.one_of('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT')} ".join(sides)

    def query(self):
        choice = self.dice.random()
        if choice < 0.15:
            return f"SELECT count(*), count(w.o0) FROM ({self.one_of(self.plain, self.grouped)('w')}) w"
        if choice < 0.5:
            return self.plain("x")
        if choice < 0.87:
            return self.grouped("x")
        return self.windowed() if choice < 0.94 else self.combined()


def plain_value(value):
    """Numbers by their value: how many digits behind the point a quotient has is not compared."""
    if isinstance(value, (float, decimal.Decimal)) or (isinstance(value, int) and not isinstance(value, bool)):
        return float(f"{float(value):.9g}")
    return value


def answer(connection, query):
    """The rows, in an order of their own, or the error's code and message."""
    try:
        rows = connection.execute(query).fetchall()
    except psycopg.Error as error:
        return (error.sqlstate, str(error).split("\n", maxsplit=1)[0]), None
    return None, sorted((tuple(map(plain_value, row)) for row in rows), key=repr)


def main(initdb, seed, count):
    queries = Queries(seed)
    different = unsupported = compared = 0
    ours = psycopg.connect(**{("dbname" if key == "database" else key): value for key, value in ADDRESS.items()}, autocommit=True)
    with postgresql(initdb) as place, psycopg.connect(**place, autocommit=True) as theirs:
        for statement in queries.definitions():
            ours.execute(statement)
            theirs.execute(statement)
        theirs.execute("SET statement_timeout = '10s'")
        while compared < count:
            query = queries.query()
            error, wanted = answer(theirs, query)
            if error and error[0] == "57014":
                # Some take for ever.
                continue
            compared += 1
            refused, found = answer(ours, query)
            if refused and refused[0] == "0A000" and not error:
                unsupported += 1
            elif bool(error) != bool(refused) or found != wanted:
                different += 1
                missing = [row for row in wanted or [] if row not in (found or [])][:3]
                surplus = [row for row in found or [] if row not in (wanted or [])][:3]
                print(f"DIFFERENT\n{query};\n  wanted {error or missing}\n  found  {refused or surplus}", flush=True)
    print(f"seed {seed}: {compared} queries, {different} different, {unsupported} not supported")
    if different or unsupported * 100 > UNSUPPORTED_MAX * compared:
        raise SystemExit("not as PostgreSQL answers")


if __name__ == "__main__":
    chosen = options(300)
    main(chosen.initdb, chosen.seed, chosen.count)
