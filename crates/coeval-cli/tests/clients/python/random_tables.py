# SPDX-License-Identifier: Apache-2.0
"""Random tables with constraints and foreign keys, and expressions over them, for `random_changes`."""

# What columns may be there beside the key.
COLUMNS = {
    "a": "int",
    "b": "bigint",
    "n": "numeric(8, 2)",
    "t": "text",
    "v": "varchar(4)",
    "f": "boolean",
    "d": "date",
    "h": "smallint",
    "x": "float8",
}

WHOLE = ("int", "bigint", "smallint")
NUMBERS = (*WHOLE, "numeric(8, 2)")
TEXTS = ("text", "varchar(4)")


class Table:
    """Its columns by name with their types, and what is unique."""

    def __init__(self, name):
        self.name = name
        self.columns = {}
        self.key = []
        self.uniques = []
        self.generated = set()
        # Columns that a foreign key of its own names.
        self.referring = set()

    def written(self):
        return [column for column in self.columns if column not in self.generated]

    def of_types(self, kinds):
        return [column for column, kind in self.columns.items() if kind in kinds]


class Tables:
    """Makes tables and, over those that go by some aliases in a statement, expressions."""

    def __init__(self, dice):
        self.dice = dice
        self.all = []

    def definitions(self):
        for number in range(self.dice.whole(2, 3)):
            yield from self.definition(Table(f"t{number}"))

    def definition(self, table):
        dice = self.dice
        parts = self.key(table) + self.others(table)
        constraints = [f"PRIMARY KEY ({', '.join(table.key)})"] if table.key else []
        constraints += [f"UNIQUE ({', '.join(columns)})" for columns in table.uniques if columns != table.key]
        numbers = [column for column in table.of_types(NUMBERS) if column not in table.generated]
        if dice.chance(0.3) and numbers:
            constraints.append(f"CHECK ({dice.one_of(*numbers)} {dice.one_of('<', '<>', '>=')} {dice.whole(-2, 10)})")
        for _ in range(dice.one_of(0, 1, 1, 2)):
            parent = dice.one_of(table, *self.all)
            if parent.uniques:
                constraints.append(self.foreign_key(table, parent, parts))
        self.all.append(table)
        yield f"CREATE TABLE {table.name} ({', '.join(parts + constraints)})"
        if dice.chance(0.4):
            yield f"CREATE INDEX ON {table.name} ({dice.one_of(*table.columns)})"
        if dice.chance(0.15):
            condition = self.condition({table.name: table}, 2)
            yield f"CREATE UNIQUE INDEX ON {table.name} ({dice.one_of(*table.columns)}) WHERE {condition}"

    def key(self, table):
        dice = self.dice
        table.columns["id"] = dice.one_of("int", "int", "int", "bigint", "smallint", "text")
        shape = dice.by_weight((6, "one"), (2, "two"), (2, "none"))
        if shape == "two":
            table.columns["k"] = dice.one_of("text", "int", "date")
        if shape != "none":
            table.key = list(table.columns)
            table.uniques.append(table.key)
        return [f"{column} {kind}" for column, kind in table.columns.items()]

    def others(self, table):
        dice, parts = self.dice, []
        for column in dice.some_of(COLUMNS, dice.whole(2, 6)):
            kind = table.columns[column] = COLUMNS[column]
            part = f"{column} {kind}"
            part += " NOT NULL" if dice.chance(0.1) else ""
            part += f" DEFAULT {self.literal(kind, 0)}" if dice.chance(0.2) else ""
            parts.append(part)
            if dice.chance(0.12):
                table.uniques.append([column])
        if "a" in table.columns and dice.chance(0.25):
            table.columns["g"] = "int"
            table.generated.add("g")
            formula = dice.one_of("a * 2", "a + coalesce(a, 1)", "CASE WHEN a > 5 THEN a ELSE -a END", "abs(a) % 4")
            parts.append(f"g int GENERATED ALWAYS AS ({formula}) STORED")
        return parts

    def foreign_key(self, table, parent, parts):
        """The clause; columns that it needs are added."""
        dice, own = self.dice, []
        unique = dice.one_of(*parent.uniques)
        for column in unique:
            kind = parent.columns[column]
            fitting = [
                mine for mine in table.of_types((kind,))
                if mine not in (*own, *table.generated) and (parent is not table or mine != column)
            ]
            if fitting:
                own.append(dice.one_of(*fitting))
            else:
                added = f"c{len(table.columns)}"
                table.columns[added] = kind
                parts.append(f"{added} {kind}")
                own.append(added)
        table.referring.update(own)
        clause = f"FOREIGN KEY ({', '.join(own)}) REFERENCES {parent.name} ({', '.join(unique)})"
        for event, share in (("DELETE", 0.65), ("UPDATE", 0.5)):
            if dice.chance(share):
                action = dice.one_of("CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION")
                clause += f" ON {event} {action}"
        return clause

    # Expressions. `env` has the tables that they may use by their aliases, `depth` says how deep they stand.

    def literal(self, kind, null=0.12):
        dice = self.dice
        if dice.chance(null):
            return "NULL"
        if kind in WHOLE:
            return str(dice.whole(-2, 12))
        if kind.startswith("numeric"):
            return f"{dice.whole(-300, 900) / 100:.2f}"
        if kind == "boolean":
            return dice.one_of("true", "false")
        if kind == "date":
            return f"date '2024-01-{dice.whole(1, 28):02}'"
        if kind == "float8":
            return str(dice.whole(-8, 8) / 4)
        longer = ("foo bar", "yellow") if kind == "text" else ()
        return "'" + dice.one_of("x", "y", "Zed", "abc", "", "b%", "X", "y ", *longer) + "'"

    def column(self, env, kinds=None):
        """One of these types, or `None`."""
        fitting = [
            f"{alias}.{column}" for alias, table in env.items()
            for column, kind in table.columns.items() if kinds is None or kind in kinds
        ]
        return self.dice.one_of(*fitting) if fitting else None

    def kind_of(self, column, env):
        alias, name = column.split(".")
        return env[alias].columns[name]

    def number(self, env, depth=0):
        dice = self.dice
        number = lambda: self.number(env, depth + 1)
        choice = dice.dice.random()
        if depth > 2 or choice < 0.5:
            return self.column(env, NUMBERS) or str(dice.whole(0, 9))
        if choice < 0.65:
            return str(dice.whole(-3, 12))
        if choice < 0.86:
            return f"({number()} {dice.one_of('+', '-', '*')} {number()})"
        if choice < 0.92:
            return f"coalesce({number()}, {dice.whole(0, 5)})"
        if choice < 0.96:
            return f"CASE WHEN {self.condition(env, depth + 1)} THEN {number()} ELSE {number()} END"
        return f"({number()} % {dice.whole(1, 3)})"

    def text(self, env):
        column = self.column(env, TEXTS)
        if not column:
            return "'x'"
        text = self.literal("text", 0.05)
        return self.dice.by_weight(
            (5, column), (1, self.literal("text", 0)), (2, f"({column} || {text})"), (1, f"upper({column})"),
            (1, f"substr({column}, 1, {self.dice.whole(0, 3)})"),
        )

    def expression(self, kind, env, depth=0):
        if kind in NUMBERS:
            return self.number(env, depth)
        if kind in TEXTS:
            return f"substr({self.text(env)}, 1, 4)"
        column = self.column(env, (kind,))
        if kind == "boolean":
            return self.dice.one_of(self.condition(env, 1), self.literal(kind))
        if not column:
            return self.literal(kind)
        changed = f"({column} + {self.dice.whole(-3, 3)})" if kind == "date" else f"({column} * 2)"
        return self.dice.one_of(column, changed, self.literal(kind))

    def condition(self, env, depth=0):
        dice = self.dice
        column = self.column(env)
        kind = self.kind_of(column, env)
        choice = dice.dice.random()
        if choice < 0.35:
            return f"{column} {dice.one_of('=', '=', '<', '>', '<=', '>=', '<>')} {self.literal(kind, 0.02)}"
        if choice < 0.45:
            return f"{self.number(env, depth + 1)} {dice.one_of('=', '<', '>', '<>')} {self.number(env, depth + 1)}"
        if choice < 0.55:
            return f"{column} IS {dice.one_of('', 'NOT ')}NULL"
        if choice < 0.63:
            listed = ", ".join(self.literal(kind, 0.04) for _ in range(dice.whole(1, 4)))
            return f"{column} {dice.one_of('IN', 'IN', 'NOT IN')} ({listed})"
        if choice < 0.7:
            return f"{column} BETWEEN {self.literal(kind, 0)} AND {self.literal(kind, 0)}"
        if choice < 0.85 and depth < 3:
            return f"({self.condition(env, depth + 1)} {dice.one_of('AND', 'OR')} {self.condition(env, depth + 1)})"
        if choice < 0.92 and depth < 3:
            return f"NOT ({self.condition(env, depth + 1)})"
        return f"{self.number(env, depth + 1)} IS {dice.one_of('', 'NOT ')}DISTINCT FROM {self.number(env, depth + 1)}"

    def with_subquery(self, env):
        dice = self.dice
        table = dice.one_of(*self.all)
        inner = {"q": table}
        outer = self.column(env)
        kind = self.kind_of(outer, env)
        key = self.column(inner, NUMBERS if kind in NUMBERS else (kind,))
        condition = self.condition(inner, 2)
        if not key:
            return f"EXISTS (SELECT 1 FROM {table.name} q WHERE {condition})"
        choices = [
            (4, f"{dice.one_of('', 'NOT ')}EXISTS (SELECT 1 FROM {table.name} q WHERE {key} = {outer} AND {condition})"),
            (4, f"{outer} {dice.one_of('IN', 'NOT IN')} (SELECT {key} FROM {table.name} q WHERE {condition})"),
            (1, f"{outer} {dice.one_of('<', '=', '>')} {dice.one_of('ANY', 'ALL')} (SELECT {key} FROM {table.name} q)"),
        ]
        if kind != "boolean":
            best = f"{dice.one_of('max', 'min')}({key})"
            choices.append((2, f"{outer} {dice.one_of('<', '>=', '=')} (SELECT {best} FROM {table.name} q WHERE {condition})"))
        return dice.by_weight(*choices)

    def where(self, env):
        dice = self.dice
        alias, table = next(iter(env.items()))
        keys = table.key or ["id"]
        by_key = " AND ".join(f"{alias}.{key} = {self.literal(table.columns[key], 0)}" for key in keys)
        first = f"{alias}.{keys[0]} {dice.one_of('<', '>', '>=')} {self.literal(table.columns[keys[0]], 0)}"
        condition, subquery = self.condition(env, 1), self.with_subquery(env)
        return dice.by_weight(
            (15, ""), (25, f" WHERE {by_key}"), (10, f" WHERE {first}"), (25, f" WHERE {condition}"),
            (15, f" WHERE {subquery}"), (10, f" WHERE {condition} {dice.one_of('AND', 'OR')} {subquery}"),
        )
