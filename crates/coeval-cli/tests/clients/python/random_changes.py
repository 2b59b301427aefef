# SPDX-License-Identifier: Apache-2.0
"""Random INSERT, UPDATE, DELETE and MERGE on tables with constraints and foreign keys, in transactions with savepoints.

    random_changes.py INITDB [--seed N] [--count N]

After each statement its answer and all tables have to be as PostgreSQL's. What Coeval refuses as unsupported ends a
script, and may do so in few of them.
"""

import re

from psycopg import pq

from checks import ADDRESS
from random_tables import Tables, Table
from two_servers import Connection, Dice, Report, difference, options, postgresql, shortest

# Statements of a script behind those that make its tables.
LENGTH = 40

# Of a hundred scripts.
UNSUPPORTED_MAX = 5

IN_TRANSACTION, FAILED = pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR


class Changes:
    """Makes scripts: each statement with its parameters, or `None` for the simple protocol."""

    def __init__(self, seed):
        self.dice = Dice(seed)
        self.tables = Tables(self.dice)
        self.script = []
        self.is_in_block = False

    def add(self, sql):
        parameters = None
        if self.dice.chance(0.3) and not sql.startswith("CREATE"):
            sql, parameters = self.with_parameters(sql)
        self.script.append((sql, parameters))

    def with_parameters(self, sql):
        """Some of the literals as parameters without types."""
        parameters = []

        def parameter(literal):
            # PostgreSQL takes a parameter in the list of SELECT for text, whatever it is assigned to.
            if self.dice.chance(0.3):
                return literal[0]
            parameters.append(literal[1].strip("'").encode())
            return f"${len(parameters)}"

        changed = re.sub(r"(?<=[=<>] )(-?\d+(?:\.\d+)?|'[^']*')(?=[ ),]|$)", parameter, sql)
        return changed, parameters or None

    def made(self):
        for definition in self.tables.definitions():
            self.add(definition)
        for _ in range(2 * len(self.tables.all)):
            self.insert()
        for _ in range(LENGTH):
            self.dice.by_weight(
                (28, self.insert), (24, self.update), (12, self.delete), (7, self.merge), (4, self.in_parts),
                (10, self.select), (12, self.control), (2, self.path), (1, self.checkpoint),
            )()
        if self.is_in_block:
            self.add("COMMIT")
        return self.script

    def a_table(self):
        return self.dice.one_of(*self.tables.all)

    def returning(self, env):
        dice, tables = self.dice, self.tables
        if dice.chance(0.5):
            return ""
        if dice.chance(0.3):
            return " RETURNING " + ", ".join(f"{alias}.*" for alias in env)
        outputs = [
            dice.one_of(tables.column(env), tables.number(env, 1), tables.text(env)) for _ in range(dice.whole(1, 4))
        ]
        return " RETURNING " + ", ".join(f"{output} AS r{place}" for place, output in enumerate(outputs))

    def insert(self):
        dice, tables = self.dice, self.tables
        table = self.a_table()
        columns = [column for column in table.written() if column in (table.key or ["id"]) or dice.chance(0.85)]
        text = f"INSERT INTO {table.name} AS z ({', '.join(columns)}) "
        if dice.chance(0.7):
            null = lambda column: 0.01 if column in table.key else 0.12
            value = lambda column: tables.literal(table.columns[column], null(column))
            rows = (
                "(" + ", ".join("DEFAULT" if dice.chance(0.04) else value(column) for column in columns) + ")"
                for _ in range(dice.one_of(1, 1, 1, 2, 3, 5, 8))
            )
            text += "VALUES " + ", ".join(rows)
        else:
            source = self.a_table()
            env = {"p": source}
            outputs = ", ".join(tables.expression(table.columns[column], env, 1) for column in columns)
            # Which of two rows that conflict comes first is to be the same on both sides.
            order = ", ".join(f"p.{column}" for column in source.columns)
            text += f"SELECT {outputs} FROM {source.name} p{tables.where(env)} ORDER BY {order}"
        self.add(text + self.on_conflict(table) + self.returning({"z": table}))

    def on_conflict(self, table):
        dice, tables = self.dice, self.tables
        uniques = [columns for columns in table.uniques if not set(columns) & table.generated]
        choice = dice.dice.random()
        if choice < 0.5 or not uniques:
            return ""
        if choice < 0.7:
            return " ON CONFLICT DO NOTHING"
        clause = f" ON CONFLICT ({', '.join(dice.one_of(*uniques))})"
        if dice.chance(0.3):
            return f"{clause} DO NOTHING"
        excluded = Table("excluded")
        excluded.columns = table.columns
        env = {"z": table, "excluded": excluded}
        clause += f" DO UPDATE SET {self.assignments(table, env)}"
        return clause + (f" WHERE {tables.condition(env, 1)}" if dice.chance(0.3) else "")

    def assignments(self, table, env):
        dice, tables = self.dice, self.tables
        made = []
        for column in dice.some_of(table.written(), dice.one_of(1, 1, 2, 3)):
            kind = table.columns[column]
            value = dice.by_weight((1, "DEFAULT"), (3, tables.literal(kind)), (7, tables.expression(kind, env)))
            made.append(f"{column} = {value}")
        return ", ".join(made)

    def by_key_of(self, other, env):
        """A condition that at most one row of `p` meets for each row of `env`; `None` if there is no such."""
        tables, pairs = self.tables, []
        for key in other.key:
            column = tables.column(env, (other.columns[key],))
            pairs.append(f"p.{key} = {column or tables.literal(other.columns[key], 0)}")
        return " AND ".join(pairs) or None

    def update(self):
        dice, tables = self.dice, self.tables
        table, other = self.a_table(), self.a_table()
        env = {"z": table}
        on = self.by_key_of(other, env)
        if on and dice.chance(0.25):
            both = {"z": table, "p": other}
            more = f" AND {tables.condition(both, 1)}" if dice.chance(0.5) else ""
            sets = self.assignments(table, both)
            self.add(f"UPDATE {table.name} z SET {sets} FROM {other.name} p WHERE {on}{more}{self.returning(both)}")
            return
        self.add(f"UPDATE {table.name} z SET {self.assignments(table, env)}{tables.where(env)}{self.returning(env)}")

    def delete(self):
        dice, tables = self.dice, self.tables
        table, other = self.a_table(), self.a_table()
        env, both = {"z": table}, {"z": table, "p": other}
        key = tables.column({"p": other})
        column = tables.column(env, (tables.kind_of(key, both),))
        if column and dice.chance(0.3):
            condition = f"{key} = {column} AND {tables.condition(both, 1)}"
            self.add(f"DELETE FROM {table.name} z USING {other.name} p WHERE {condition}{self.returning(env)}")
            return
        self.add(f"DELETE FROM {table.name} z{tables.where(env)}{self.returning(env)}")

    def merge(self):
        dice, tables = self.dice, self.tables
        table, other = self.a_table(), self.a_table()
        both, source = {"z": table, "p": other}, {"p": other}
        on = self.by_key_of(other, {"z": table})
        if not on:
            return
        text = f"MERGE INTO {table.name} z USING {other.name} p ON {on}"
        if dice.chance(0.7):
            condition = f" AND {tables.condition(both, 2)}" if dice.chance(0.5) else ""
            action = dice.one_of("DELETE", "DO NOTHING", f"UPDATE SET {self.assignments(table, both)}")
            text += f" WHEN MATCHED{condition} THEN {action}"
        if dice.chance(0.5) or "WHEN" not in text:
            columns = table.written()
            values = ", ".join(tables.expression(table.columns[column], source, 1) for column in columns)
            text += f" WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) VALUES ({values})"
        self.add(text)

    def in_parts(self):
        """A change in WITH, and a statement that reads what it returns."""
        dice, tables = self.dice, self.tables
        table, other = self.a_table(), self.a_table()
        if table is other:
            return
        env, part = {"z": table}, {"m": table}
        change = dice.one_of(f"DELETE FROM {table.name} z", f"UPDATE {table.name} z SET {self.assignments(table, env)}")
        columns = other.written()
        values = ", ".join(tables.expression(other.columns[column], part, 1) for column in columns)
        rest = dice.one_of(
            f"SELECT count(*), max({tables.number(part, 2)}) FROM m",
            f"SELECT (SELECT count(*) FROM m), (SELECT count(*) FROM {table.name})",
            f"SELECT * FROM m WHERE {tables.condition(part)}",
            f"INSERT INTO {other.name} ({', '.join(columns)}) SELECT {values} FROM m RETURNING *",
        )
        self.add(f"WITH m AS ({change}{tables.where(env)} RETURNING z.*) {rest}")

    def select(self):
        dice, tables = self.dice, self.tables
        table, other = self.a_table(), self.a_table()
        env, text = {"z": table}, f"{table.name} z"
        key = tables.column({"p": other})
        column = tables.column(env, (other.columns[key.split(".")[1]],))
        if column and dice.chance(0.4):
            env["p"] = other
            text += f" {dice.one_of('JOIN', 'LEFT JOIN', 'FULL JOIN')} {other.name} p ON {key} = {column}"
        group = tables.column(env)
        self.add(dice.by_weight(
            (6, f"SELECT {tables.number(env)}, {tables.text(env)}, {group} FROM {text}{tables.where(env)}"),
            (1, f"SELECT z.* FROM {table.name} z{tables.where({'z': table})} FOR UPDATE"),
            (3, f"SELECT {group}, count(*), sum({tables.number(env, 1)}) FROM {text}{tables.where(env)} GROUP BY {group}"),
        ))

    def control(self):
        dice = self.dice
        if not self.is_in_block:
            level = dice.one_of("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
            self.add(f"BEGIN ISOLATION LEVEL {level}")
            self.is_in_block = True
            return
        name = dice.one_of("s1", "s2")
        sql = dice.by_weight(
            (3, "COMMIT"), (2, "ROLLBACK"), (3, f"SAVEPOINT {name}"), (2, f"ROLLBACK TO {name}"), (1, f"RELEASE {name}"),
        )
        self.is_in_block = sql not in ("COMMIT", "ROLLBACK")
        self.add(sql)

    def path(self):
        self.add(f"SET coeval.point_path = {self.dice.one_of('on', 'off')}")

    def checkpoint(self):
        if not self.is_in_block:
            self.add("CHECKPOINT")


def is_left_open(sql, wanted, found):
    """Whether one of them may refuse what the other does not.

    PostgreSQL checks uniqueness row by row, in an order that is its own, and Coeval when the statement ends; and
    PostgreSQL finds what is wrong with a row that is thrown away later, or does not, by the plan that it makes.
    """
    changes_rows = sql.split()[0] in ("UPDATE", "MERGE", "WITH", "INSERT")
    states = {wanted.state, found.state} - {None}
    return len(states) == 1 and changes_rows and states <= {"23505", "21000"}


class Pair:
    """Both servers, which get the same statements."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs
        self.statements = 0

    def both(self, sql, parameters=None):
        wanted, found = self.theirs.run(sql, parameters), self.ours.run(sql, parameters)
        self.statements += 1
        return wanted, found

    def step(self, sql, parameters, tables):
        """What differs, "" if the script is to end here, or `None`."""
        # A statement that fails does not end the block: so more of them are compared.
        guarded = self.theirs.state == IN_TRANSACTION and sql.split()[0] not in ("COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
        if guarded:
            self.both("SAVEPOINT guard")
        wanted, found = self.both(sql, parameters)
        if found.state == "0A000":
            return ""
        if difference(wanted, found):
            return "" if is_left_open(sql, wanted, found) else f"wanted {wanted}\n  found  {found}"
        if guarded and self.theirs.state == FAILED:
            self.both("ROLLBACK TO guard")
        if self.theirs.state == FAILED:
            return None
        for table in tables:
            wanted, found = self.both(f"SELECT * FROM {table}")
            if difference(wanted, found):
                return f"{table}: wanted {wanted}\n  found  {found}"
        return None

    def play(self, script):
        """The place of the first statement that differs and what differs, or `None`."""
        for server in (self.ours, self.theirs):
            server.in_empty_schema()
        tables = []
        for place, (sql, parameters) in enumerate(script):
            made = re.match(r"CREATE TABLE (\w+)", sql)
            if sql.startswith("SET coeval."):
                self.ours.must(sql) if self.ours.state != FAILED else None
                continue
            what = self.step(sql, parameters, tables)
            if what is not None:
                return place, what
            tables += [made[1]] if made else []
        return None


def main():
    chosen = options(25)
    # As PostgreSQL, which does not run a statement again that lost against nobody.
    address = {("dbname" if key == "database" else key): value for key, value in ADDRESS.items()}
    report, unsupported = Report(), 0
    with postgresql(chosen.initdb) as place:
        theirs = Connection(place, "SET timezone = 'UTC'", "SET client_min_messages = error", "SET statement_timeout = '10s'")
        pair = Pair(Connection(address, "SET timezone = 'UTC'", "SET client_min_messages = error"), theirs)
        for seed in range(chosen.seed, chosen.seed + chosen.count):
            script = Changes(seed).made()
            found = pair.play(script)
            report.scripts += 1
            if found and not found[1]:
                unsupported += 1
            elif found:
                fails = lambda part: bool((pair.play(part) or (0, ""))[1])
                small = shortest(script[:found[0] + 1], fails)
                place, what = pair.play(small) or found
                report.differs(seed, [f"{sql}; -- {parameters}" for sql, parameters in small], what)
        report.statements = pair.statements
    print(f"{unsupported} scripts ended by what is not supported or left open")
    report.end(statements_min=100 * chosen.count)


if __name__ == "__main__":
    main()
