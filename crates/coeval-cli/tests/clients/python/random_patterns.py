# SPDX-License-Identifier: Apache-2.0
"""Random regular expressions, which PostgreSQL has to find in the same places of random texts, with the same groups.

    random_patterns.py INITDB [--seed N] [--count N]

A pattern is looked for by all functions that take one, in texts of few letters, so that most of them match in several ways. The same
seed gives the same patterns.
"""

from checks import ADDRESS
from two_servers import Connection, Dice, Report, difference, options, postgresql

# What takes one letter.
LETTERS = ["a", "b", "c", "a", "b", ".", "[ab]", "[^a]", r"\w", r"\s", "[[:upper:]]"]

QUANTIFIERS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{2}?", "{1,2}", "{0,2}?", "{2,}", "{1,1}", "{1,1}?", "{0}"]

CONSTRAINTS = ["^", "$", r"\m", r"\M", r"\y", r"\A", r"\Z"]

# What stands ahead or behind.
AROUND = ["(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)"]
AROUND_WHICH = ["a", "b", "ab", "a*b", ".b", "a|bc", "(a)b", "a$", "^a"]

FLAGS = ["", "", "", "i", "n", "p", "w", "x"]

TEXTS_OF_A_PATTERN = 8
TEXT_MAX = 9

# How deep groups stand within each other.
DEPTH = 2

# More groups than these are not referred back to: `\10` may be another letter.
REFERRED_MAX = 9


class Patterns:
    """Random patterns and texts."""

    def __init__(self, seed):
        self.dice = Dice(seed)

    def pattern(self):
        # Where both are, PostgreSQL 15 misses some matches that are empty and at the end of the text.
        self.refers_back = self.dice.chance(0.3)
        self.groups = []
        return self.choice(DEPTH)

    def choice(self, depth):
        branches = self.dice.by_weight((4, 1), (2, 2), (1, 3))
        return "|".join(self.branch(depth) for _ in range(branches))

    def branch(self, depth):
        return "".join(self.piece(depth) for _ in range(self.dice.one_of(0, 1, 1, 2, 2, 3, 3, 4)))

    def piece(self, depth):
        if not self.refers_back and self.dice.chance(0.06):
            return self.dice.one_of(*CONSTRAINTS)
        if not self.refers_back and self.dice.chance(0.06):
            return self.dice.one_of(*AROUND) % self.dice.one_of(*AROUND_WHICH)
        atom = self.atom(depth)
        return atom + self.dice.one_of(*QUANTIFIERS) if self.dice.chance(0.45) else atom

    def atom(self, depth):
        if depth and self.dice.chance(0.35):
            place = len(self.groups)
            self.groups.append(False)
            inside = self.choice(depth - 1)
            self.groups[place] = True
            return f"({inside})"
        if depth and self.dice.chance(0.15):
            return f"(?:{self.choice(depth - 1)})"
        closed = [place + 1 for place, is_closed in enumerate(self.groups[:REFERRED_MAX]) if is_closed]
        if self.refers_back and closed and self.dice.chance(0.25):
            return f"\\{self.dice.one_of(*closed)}"
        return self.dice.one_of(*LETTERS)

    def text(self):
        return "".join(self.dice.one_of(*"aaabbbccA \n") for _ in range(self.dice.whole(0, TEXT_MAX)))

    def query(self):
        pattern, flags = self.pattern(), self.dice.one_of(*FLAGS)
        rows = ", ".join(f"({number}, '{self.text()}')" for number in range(TEXTS_OF_A_PATTERN))
        outputs = [
            f"t ~ '{pattern}'",
            f"t !~* '{pattern}'",
            f"regexp_like(t, '{pattern}', '{flags}')",
            f"regexp_match(t, '{pattern}', '{flags}')",
            f"regexp_substr(t, '{pattern}')",
            f"regexp_instr(t, '{pattern}', 1, 2, 1)",
            f"regexp_count(t, '{pattern}', 1, '{flags}')",
            rf"regexp_replace(t, '{pattern}', '<\1\&>', 'g{flags}')",
            f"regexp_split_to_array(t, '{pattern}')",
            f"ARRAY(SELECT m::text FROM regexp_matches(t, '{pattern}', 'g{flags}') m)",
        ]
        return f"SELECT n, {', '.join(outputs)} FROM (VALUES {rows}) v(n, t)"


def main(initdb, seed, count):
    patterns, report = Patterns(seed), Report()
    ours_address = {("dbname" if key == "database" else key): value for key, value in ADDRESS.items()}
    ours = Connection(ours_address)
    with postgresql(initdb) as place:
        theirs = Connection(place, "SET statement_timeout = '10s'")
        while report.scripts < count:
            query = patterns.query()
            report.scripts += 1
            wanted, found = theirs.run(query), ours.run(query)
            report.statements += not wanted.state
            if found.state == "lost":
                ours.open()
            if wanted.state and wanted.state == found.state:
                continue
            kind = difference(wanted, found)
            if kind:
                report.differs(seed, [f"{query};"], f"{kind}\n  {unequal(wanted, found)}")
    report.end(count // 2)


def unequal(wanted, found):
    """The rows that are not answered in the same way."""
    if wanted.rows is None or found.rows is None:
        return f"wanted {wanted}\n  found  {found}"[:600]
    pairs = zip(sorted(wanted.rows, key=repr), sorted(found.rows, key=repr))
    return "\n  ".join(f"wanted {one}\n  found  {other}" for one, other in pairs if one != other)[:600]


if __name__ == "__main__":
    chosen = options(1_000)
    main(chosen.initdb, chosen.seed, chosen.count)
