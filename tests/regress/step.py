# SPDX-License-Identifier: Apache-2.0
"""Runs a file on both servers in step: what one of them alone refuses is taken back in the other.

So the statements behind it are still about the same tables. A statement is *set aside* where Coeval refuses it as a whole
(`compare.REFUSED`), or where it is about something that such a statement, or one that differed, should have made.
"""

import collections
import re

import compare
import psql_script
from session import Lost, Session

SAVEPOINT = "in_step"

# Cannot be run within a transaction that is there to be taken back, or is about transactions itself.
OUTSIDE = re.compile(
    r"(begin|start|commit|end|rollback|abort|savepoint|release|prepare\s+transaction|vacuum|checkpoint|listen|notify"
    r"|create\s+(database|tablespace|subscription)|drop\s+(database|tablespace|subscription)|alter\s+(system|database)"
    r"|reindex|cluster|discard|set\s+(local|transaction|session\s+characteristics|constraints)|declare|lock|fetch|move|close"
    r"|create\s+(unique\s+)?index\s+concurrently|drop\s+index\s+concurrently)\b",
    re.I,
)
# Of these, what may stand behind a savepoint in a transaction of the file's.
WITHIN_A_BLOCK = re.compile(r"(set\s+(local|constraints)|declare|lock|fetch|move|close|reindex)\b", re.I)

MADE = (
    re.compile(
        r"\s*create\s+(?:or\s+replace\s+)?(?:(?:global|local)\s+)?(?:temp(?:orary)?\s+|unlogged\s+|unique\s+|recursive\s+)*"
        r"(?:table|view|type|domain|sequence|materialized\s+view|schema|role|user|group|index|foreign\s+table)\s+"
        r"(?:concurrently\s+)?(?:if\s+not\s+exists\s+)?([a-z_0-9.\"]+)",
        re.I,
    ),
    re.compile(r"\s*(?:prepare|declare)\s+([a-z_0-9]+)", re.I),
    re.compile(r"\s*select\b.*?\binto\s+(?:temp\s+|table\s+|temporary\s+|unlogged\s+)*([a-z_0-9]+)", re.I | re.S),
)
MADE_ROUTINE = re.compile(r"\s*create\s+(?:or\s+replace\s+)?(?:function|procedure|aggregate)\s+([a-z_0-9.\"]+)", re.I)


def bare(name):
    return name.lower().strip('"').split(".")[-1]


class Missing:
    """What should be there and is not, as Coeval would not make it."""

    def __init__(self):
        self.names, self.routines = set(), set()

    def concerns(self, sql):
        lower = sql.lower()
        if self.names & set(re.findall(r"[a-z_][a-z_0-9]*", lower)):
            return True
        return any(re.search(rf"\b{re.escape(name)}\s*\(", lower) for name in self.routines)

    def learn(self, sql, found, wanted):
        routine = MADE_ROUTINE.match(sql)
        if routine and found.state:
            self.routines.add(bare(routine[1]))
        made = next((match for match in (pattern.match(sql) for pattern in MADE) if match), None)
        if made and not wanted.state:
            (self.names.add if found.state else self.names.discard)(bare(made[1]))


class Pair:
    """A session of each server, over databases that hold the same."""

    def __init__(self, coeval_port, postgresql_port, database, variables):
        self.coeval, self.postgresql = Session(coeval_port, "regression"), Session(postgresql_port, database)
        self.variables = variables
        self.missing = Missing()
        self.counts, self.differences = collections.Counter(), []

    def close(self):
        self.coeval.close()
        self.postgresql.close()

    def file(self, text):
        """Runs a script, up to its end or to the end of one of the servers."""
        conditions = []
        try:
            for part in psql_script.parts(text):
                if isinstance(part, psql_script.Command):
                    if part.name == "\\q" and all(conditions):
                        return
                    self.command(part, conditions)
                elif all(conditions):
                    self.statement(part)
        except Lost as lost:
            self.counts["crash"] += 1
            self.differences.append(f"crash: the rest of the file was not run: {lost}")

    def command(self, command, conditions):
        rest = psql_script.with_variables(command.rest, self.variables)
        if command.name == "\\if":
            conditions.append(rest.strip().lower() in ("1", "t", "true", "on", "yes"))
        elif command.name == "\\else":
            conditions[-1] = not conditions[-1]
        elif command.name == "\\endif":
            conditions.pop()
        elif not all(conditions):
            return
        elif command.name == "\\getenv":
            name, variable = rest.split()
            self.variables[name] = self.variables.get(variable, "")
        elif command.name == "\\set":
            name, *values = re.findall(r"'(?:[^']|'')*'|\S+", command.rest)
            self.variables[name] = "".join(self.value(word) for word in values)
        elif command.name in ("\\c", "\\connect"):
            self.connect(rest.split()[1:2])

    def value(self, word):
        if word.startswith("'"):
            return word[1:-1].replace("''", "'").replace("\\n", "\n")
        named = re.fullmatch(r":'?(\w+)'?", word)
        return self.variables.get(named[1], "") if named else word

    def connect(self, users):
        user = users[0] if users and users[0] != "-" else self.coeval.user
        for session in (self.coeval, self.postgresql):
            session.close()
            try:
                session.open(user)
            except Lost:
                session.open("postgres")

    def statement(self, statement):
        # The zone of PostgreSQL's own runs is in Coeval's list under its full name.
        sql = psql_script.with_variables(statement.sql, self.variables).replace("PST8PDT", "America/Los_Angeles")
        wanted = self.run(sql, statement.copied, statement.is_several)
        if wanted is None or wanted.state or not wanted.columns:
            return
        end, *words = statement.end.split()
        if end == "\\gset" and len(wanted.rows) == 1:
            for (name, _), value in zip(wanted.columns, wanted.rows[0]):
                self.variables[(words[0] if words else "") + name] = value or ""
        elif end == "\\gexec":
            for value in (value for row in wanted.rows for value in row if value):
                self.run(value)

    def run(self, sql, copied=None, is_several=False):
        """Runs a statement on both and notes how they differ. PostgreSQL's answer, unless it is not run."""
        head = sql.lstrip("( \n")
        if compare.NOT_RUN.match(head):
            self.counts["aside"] += 1
            return None
        coeval, postgresql = self.coeval, self.postgresql
        before = coeval.transaction, postgresql.transaction
        in_block = before == ("open", "open")
        can_be_undone = not is_several and (not OUTSIDE.match(head) or (in_block and WITHIN_A_BLOCK.match(head)))
        if can_be_undone and in_block:
            found, wanted = self.behind_savepoints(sql, copied)
        elif can_be_undone and before[1] == "none":
            # Coeval's statement is a transaction by itself, PostgreSQL's is committed only if that was.
            found = coeval.run(sql, copied)
            postgresql.run("BEGIN")
            wanted = postgresql.run(sql, copied)
            deferred = wanted if wanted.state else postgresql.run("SET CONSTRAINTS ALL IMMEDIATE")
            wanted.state, wanted.message = deferred.state, deferred.message
            postgresql.run("ROLLBACK" if wanted.state or found.state else "COMMIT")
        else:
            found, wanted = coeval.run(sql, copied), postgresql.run(sql, copied)
        if coeval.transaction != postgresql.transaction:
            self.note("step", sql, found, wanted)
            coeval.run("ROLLBACK")
            postgresql.run("ROLLBACK")
        self.judge(sql, found, wanted)
        return wanted

    def behind_savepoints(self, sql, copied):
        both = (self.coeval, self.postgresql)
        for session in both:
            session.run(f"SAVEPOINT {SAVEPOINT}")
        found, wanted = (session.run(sql, copied) for session in both)
        # If both refuse it, the transaction of the file has failed, as it would have.
        if not (found.state and wanted.state):
            for session in both:
                if found.state or wanted.state:
                    session.run(f"ROLLBACK TO {SAVEPOINT}")
                session.run(f"RELEASE {SAVEPOINT}")
        return found, wanted

    def judge(self, sql, found, wanted):
        is_about_missing = self.missing.concerns(sql)
        self.missing.learn(sql, found, wanted)
        kind = compare.difference(found, wanted, sql)
        if is_about_missing and (kind in ("error", "state", "no error") or (kind is None and found.state)):
            self.counts["aside"] += 1
        elif kind in ("error", "state") and compare.is_refused_as_a_whole(sql, found.state):
            self.counts["aside"] += 1
        elif kind is None:
            self.counts["equal"] += 1
        else:
            self.note(kind, sql, found, wanted)

    def note(self, kind, sql, found, wanted):
        self.counts[kind] += 1
        self.differences.append(f"{kind}: {sql}\n    Coeval:     {found}\n    PostgreSQL: {wanted}")
