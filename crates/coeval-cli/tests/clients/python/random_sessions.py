# SPDX-License-Identifier: Apache-2.0
"""Random transactions of two or three sessions, in a fixed order of their statements.

    random_sessions.py INITDB [--seed N] [--count N]

READ COMMITTED and REPEATABLE READ: every statement answers as PostgreSQL does, the same transactions commit, and the
same rows remain. Scripts in which somebody has to wait for a lock are passed over. SERIALIZABLE needs no PostgreSQL: among
all orders of those that committed there has to be one in which they read and leave the same, one after the other.
"""

import itertools

from checks import ADDRESS
from two_servers import Connection, Dice, Report, difference, options, postgresql

LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")

# A wait is one that takes longer.
LOCK_TIMEOUT = "100ms"

SESSIONS_MAX = 3

# Of a hundred scripts.
REFUSED_MAX = {"READ COMMITTED": 0, "REPEATABLE READ": 10}


class Transactions:
    """Makes the tables, and a script: which session runs which statement, in order."""

    def __init__(self, seed, level):
        self.dice = Dice(f"{seed} {level}")
        self.level = level
        # So few rows that transactions meet: many scripts would have no serial order at REPEATABLE READ.
        self.last_id = 3 if level == "SERIALIZABLE" else 6

    def tables(self):
        dice = self.dice
        yield f"CREATE TABLE t0 (id int PRIMARY KEY, a int{dice.by_weight((7, ''), (3, ' UNIQUE'))}, b int)"
        reference = dice.by_weight(
            (2, ""), (1, " REFERENCES t0 (id)"), (1, " REFERENCES t0 (id) ON DELETE CASCADE"),
            (1, " REFERENCES t0 (id) ON DELETE SET NULL ON UPDATE CASCADE"),
        )
        yield f"CREATE TABLE t1 (id int PRIMARY KEY, a int{reference}, b int DEFAULT 0)"
        if dice.chance(0.4):
            yield "CREATE INDEX ON t0 (b)"
            yield "CREATE INDEX ON t1 (a)"
        for number in range(1, dice.whole(3, 6)):
            yield f"INSERT INTO t0 VALUES ({number}, {number * 10}, {dice.whole(0, 3)})"
        for number in range(1, dice.whole(2, 5)):
            parent = dice.one_of("NULL", 1, 2)
            yield f"INSERT INTO t1 VALUES ({number}, {parent}, {dice.whole(0, 3)})"
        if dice.chance(0.3):
            yield "CHECKPOINT"

    def where(self):
        dice = self.dice
        return dice.by_weight(
            (9, f"id = {dice.whole(1, self.last_id)}"),
            (3, f"id {dice.one_of('<', '>=')} {dice.whole(2, 5)}"),
            (3, f"b = {dice.whole(0, 3)}"),
            (2, f"a {dice.one_of('>', '<')} {dice.whole(1, 40)}"),
            (2, f"b IN (SELECT b FROM {dice.one_of('t0', 't1')} WHERE id = {dice.whole(1, 5)})"),
            (2, f"id IN ({dice.whole(1, 5)}, {dice.whole(1, 5)})"),
        )

    def read(self, table):
        return self.dice.one_of(
            f"SELECT * FROM {table} WHERE {self.where()}",
            f"SELECT count(*), sum(b) FROM {table} WHERE {self.where()}",
            f"SELECT * FROM {table}",
            f"SELECT sum(b) FROM {table}",
            f"SELECT max(b) FROM {table} WHERE {self.where()}",
            f"SELECT * FROM {table} ORDER BY id LIMIT 2",
            f"SELECT b, count(*) FROM {table} GROUP BY b",
            "SELECT t0.id, t1.id FROM t0 JOIN t1 ON t1.a = t0.id",
            "SELECT * FROM t0 WHERE NOT EXISTS (SELECT 1 FROM t1 WHERE t1.a = t0.id)",
        )

    def write(self, table):
        dice = self.dice
        a = dice.whole(1, 50) if table == "t0" else dice.whole(1, 5)
        of_another = f"(SELECT count(*) FROM {dice.one_of('t0', 't1')} WHERE b = {dice.whole(0, 3)})"
        change = dice.by_weight(
            (6, f"b = b + {dice.whole(1, 3)}"), (5, f"b = {dice.whole(0, 3)}"), (5, f"b = {of_another}"), (5, f"a = {a}"),
            (1, f"id = id + {dice.whole(10, 20)}"),
        )
        conflict = dice.one_of("", " ON CONFLICT DO NOTHING", f" ON CONFLICT (id) DO UPDATE SET b = {table}.b + 1")
        lock = dice.one_of("UPDATE", "SHARE", "NO KEY UPDATE")
        return dice.by_weight(
            (5, f"UPDATE {table} SET {change} WHERE {self.where()} RETURNING id, a, b"),
            (3, f"INSERT INTO {table} VALUES ({dice.whole(1, 12)}, {a}, {dice.whole(0, 3)}){conflict} RETURNING id"),
            (2, f"DELETE FROM {table} WHERE {self.where()} RETURNING id"),
            (1, f"SELECT * FROM {table} WHERE {self.where()} FOR {lock}"),
            (1, f"INSERT INTO t1 SELECT id + 20, id, b FROM t0 WHERE {self.where()} ON CONFLICT DO NOTHING"),
        )

    def transaction(self):
        dice = self.dice
        # A declared read-only one reads a safe snapshot at SERIALIZABLE, which may be older than what has committed.
        reads_only = dice.chance(0.15)
        begin = f"BEGIN ISOLATION LEVEL {self.level}" + (" READ ONLY" if reads_only and self.level != "SERIALIZABLE" else "")
        reads = reads_only or self.level == "SERIALIZABLE"
        statements = [self.read(dice.one_of("t0", "t1"))] if reads else []
        for _ in range(dice.whole(1, 3)):
            table = dice.one_of("t0", "t0", "t1")
            statements.append(self.read(table) if reads_only or dice.chance(0.3) else self.write(table))
        return [begin, *statements, dice.by_weight((9, "COMMIT"), (1, "ROLLBACK"))]

    def script(self):
        own = [self.transaction() for _ in range(self.dice.one_of(2, 2, SESSIONS_MAX))]
        order = [session for session, statements in enumerate(own) for _ in statements]
        self.dice.dice.shuffle(order)
        rest = [iter(statements) for statements in own]
        return [(session, next(rest[session])) for session in order]


class Played:
    """What came of a script: the answers in its order (`None`: its transaction had failed before), how each session's
    transaction ended, and the rows that remain. `waited` if somebody had to wait."""

    def __init__(self):
        self.answers, self.ends, self.rows, self.waited = [], {}, None, False

    def committed(self):
        return {session for session, end in self.ends.items() if end == "COMMIT"}


class Server:
    """One server with a connection for each session."""

    def __init__(self, address):
        self.first = Connection(address, "SET client_min_messages = error")
        settings = (f"SET lock_timeout = '{LOCK_TIMEOUT}'", "SET client_min_messages = error")
        self.sessions = [Connection(address, *settings) for _ in range(SESSIONS_MAX)]

    def play(self, tables, script):
        played = Played()
        for session in self.sessions:
            session.run("ROLLBACK")
        self.first.in_empty_schema()
        for sql in tables:
            self.first.must(sql)
        for session in self.sessions:
            session.must("SET search_path = fuzz")
        for session, sql in script:
            if session in played.ends:
                played.answers.append(None)
                continue
            answer = self.sessions[session].run(sql)
            played.answers.append(answer)
            if answer.state == "55P03":
                played.waited = True
                return played
            if answer.state:
                # So its locks go at once, on both servers.
                self.sessions[session].run("ROLLBACK")
            if answer.state or sql in ("COMMIT", "ROLLBACK"):
                played.ends[session] = answer.state or sql
        played.rows = [self.first.run(f"SELECT * FROM {table}").in_order() for table in ("t0", "t1")]
        return played


def compared(script, wanted, found):
    """What differs from PostgreSQL, or `None`.

    Where a conflict (40001) is found is not compared: both may find it at a later statement, or at COMMIT.
    """
    for (session, sql), theirs, ours in zip(script, wanted.answers, found.answers):
        if theirs is None or ours is None or wanted.ends.get(session) != found.ends.get(session):
            continue
        if "40001" in (theirs.state, ours.state):
            continue
        if difference(theirs, ours):
            return f"{sql}\n  wanted {theirs}\n  found  {ours}"
    if wanted.committed() == found.committed() and wanted.rows != found.rows:
        return f"in the end wanted {wanted.rows}\n  found  {found.rows}"
    more = found.committed() - wanted.committed()
    if more:
        return f"{more} committed, which PostgreSQL refuses: {wanted.ends}"
    return None


def not_serial(server, tables, script, found):
    """What is wrong if no order of the committed transactions reads and leaves the same, or `None`."""
    for order in itertools.permutations(found.committed()):
        serial = [(session, sql) for chosen in order for session, sql in script if session == chosen]
        again = server.play(tables, serial)
        if again.rows != found.rows:
            continue
        was = [answer for chosen in order for (session, _), answer in zip(script, found.answers) if session == chosen]
        if all(difference(one, other) is None for one, other in zip(was, again.answers)):
            return None
    return f"no order gives this: {found.ends}, {found.rows}"


class Comparison:
    """Plays scripts on one server or both, and counts what came of them."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs
        self.statements, self.refused = 0, dict.fromkeys(LEVELS, 0)

    def wrong(self, level, tables, script):
        """What is wrong, or `None`."""
        found = self.ours.play(tables, script)
        self.statements += len(found.answers)
        if level == "SERIALIZABLE":
            return None if found.waited else not_serial(self.ours, tables, script, found)
        wanted = self.theirs.play(tables, script)
        if wanted.waited:
            return None
        if found.waited:
            return f"waits at {script[len(found.answers) - 1]}"
        if len(found.committed()) < len(wanted.committed()):
            self.refused[level] += 1
        return compared(script, wanted, found)


def smaller(comparison, level, tables, script):
    """The script without statements that its being wrong does not need; what begins and ends a transaction stays."""
    place = 0
    while place < len(script):
        rest = script[:place] + script[place + 1:]
        if not script[place][1].startswith(("BEGIN", "COMMIT", "ROLLBACK")) and comparison.wrong(level, tables, rest):
            script, place = rest, 0
        else:
            place += 1
    return script


def main():
    chosen = options(45)
    address = {("dbname" if key == "database" else key): value for key, value in ADDRESS.items()}
    report = Report()
    with postgresql(chosen.initdb) as place:
        comparison = Comparison(Server(address), Server(place))
        for seed, level in itertools.product(range(chosen.seed, chosen.seed + chosen.count), LEVELS):
            transactions = Transactions(seed, level)
            tables, script = list(transactions.tables()), transactions.script()
            report.scripts += 1
            if comparison.wrong(level, tables, script):
                small = smaller(comparison, level, tables, script)
                lines = [*tables, *(f"{'    ' * session}{session}: {sql}" for session, sql in small)]
                report.differs(f"{seed} at {level}", lines, comparison.wrong(level, tables, small))
    print(f"refused where PostgreSQL is not: {comparison.refused}")
    for level, most in REFUSED_MAX.items():
        if comparison.refused[level] * 100 > most * chosen.count:
            raise SystemExit(f"more than {most} of a hundred scripts at {level} were refused without need")
    report.statements = comparison.statements
    report.end(statements_min=10 * chosen.count)


if __name__ == "__main__":
    main()
