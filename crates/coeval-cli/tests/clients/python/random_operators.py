# SPDX-License-Identifier: Apache-2.0
"""Random rows of operators without parentheses, which PostgreSQL has to group in the same way: the values tell.

    random_operators.py INITDB [--seed N] [--count N]

All operators come beside each other, those in front of an operand and behind one too. Most expressions mean nothing, since their
types do not fit: only those that PostgreSQL finds a value for are compared. The same seed gives the same expressions.
"""

from checks import ADDRESS
from two_servers import Connection, Dice, Report, difference, options, postgresql

OPERANDS = [
    "2", "3", "5", "4", "2.5::float8", "16::float8", "true", "false", "NULL::bool", "'ab'", "'b%'::text", "'2'::text", "'[1, {\"a\": 2}]'::jsonb",
    "'{\"a\": {\"a\": 3}}'::jsonb", "'a'", "'{a}'::text[]", "ARRAY['a', 'b']", "date '2024-02-29'", "timestamp '2024-02-29 12:00'", "interval '2 days'",
]

BETWEEN = [
    "+", "-", "*", "/", "%", "^", "||", "->", "->>", "#>", "#>>", "@>", "<@", "&&", "~", "!~", "~*", "!~*", "~~", "!~~", "~~*", "<<", ">>", "&", "|", "#", "^@", "?",
    "<", ">", "=", "<=", ">=", "<>", "!=", "AND", "OR", "LIKE", "NOT LIKE", "ILIKE", "SIMILAR TO", "IS DISTINCT FROM", "IS NOT DISTINCT FROM",
    "OPERATOR(pg_catalog.+)", "OPERATOR(pg_catalog.*)", "OPERATOR(pg_catalog.=)", "OPERATOR(pg_catalog.||)",
]

BEFORE = ["-", "+", "NOT", "~", "@", "|/"]

BEHIND = [
    "IS NULL", "IS NOT NULL", "ISNULL", "NOTNULL", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN", "::text", "::int", "::bool", 'COLLATE "C"',
    "AT TIME ZONE 'Asia/Tokyo'", "IN ({}, {})", "NOT IN ({})", "BETWEEN {} AND {}", "NOT BETWEEN {} AND {}", "BETWEEN SYMMETRIC {} AND {}", "= ANY (ARRAY[{}, {}])",
    "LIKE {} ESCAPE '!'",
]


class Expressions(Dice):
    """Makes expressions."""

    def operand(self):
        before = [self.one_of(*BEFORE) for _ in range(self.by_weight((6, 0), (3, 1), (1, 2)))]
        operand = self.one_of(*OPERANDS)
        behind = ""
        if self.chance(0.2):
            form = self.one_of(*BEHIND)
            behind = " " + form.format(*(self.one_of(*OPERANDS) for _ in range(form.count("{}"))))
        return " ".join([*before, operand]) + behind

    def expression(self):
        operands = self.by_weight((1, 1), (6, 2), (8, 3), (8, 4))
        parts = [self.operand()]
        for _ in range(operands - 1):
            parts += [self.one_of(*BETWEEN), self.operand()]
        return " ".join(parts)


def main(initdb, seed, count):
    expressions, report = Expressions(seed), Report()
    ours_address = {("dbname" if key == "database" else key): value for key, value in ADDRESS.items()}
    settings = ["SET statement_timeout = '10s'"]
    ours = Connection(ours_address, *settings)
    with postgresql(initdb) as place:
        theirs = Connection(place, *settings)
        while report.statements < count:
            query = f"SELECT {expressions.expression()}"
            wanted = theirs.run(query)
            if wanted.state:
                continue
            report.scripts += 1
            report.statements += 1
            found = ours.run(query)
            if found.state == "lost":
                ours.open()
            kind = difference(wanted, found)
            if kind:
                report.differs(seed, [f"{query};"], f"{kind}\n  wanted {wanted}\n  found  {found}")
    report.end(count)


if __name__ == "__main__":
    arguments = options(3000)
    main(arguments.initdb, arguments.seed, arguments.count)
