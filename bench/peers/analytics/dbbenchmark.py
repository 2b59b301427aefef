# SPDX-License-Identifier: Apache-2.0
"""db-benchmark's groupby and join: their data, made as its `groupby-datagen.R` and `join-datagen.R` make them, and their questions.

Numbers are as random as a hash of the row's number is, so that they are the same at each time. The tables have an `id`
for a primary key, where the original has none. Each question stands in a query that counts its rows and takes the sum or the
greatest value of each of its columns: so all of it is made, and one row goes out.
"""

import json
import subprocess
import sys
from pathlib import Path

# Values of id1, id2, id4 and id5; the others have as many as there are rows for each of these.
K = 100
# What one COPY loads. A transaction's rows are one record of the log in a brick table, of 1 GiB at most.
FILE_ROWS = 2_500_000

GROUPBY_COLUMNS = "id1 text{0}, id2 text, id3 text, id4 int{0}, id5 int, id6 int, v1 int, v2 int, v3 double precision"
# Sixteen bricks, by a text and a number.
BRICKS = "USING brick PARTITION BY (id1 CARDINALITY 128 RANGE SIZE 32, id4 CARDINALITY 128 RANGE SIZE 32)"

GROUPBY_QUESTIONS = {
    "q01": ("SELECT id1, sum(v1) AS v1 FROM x GROUP BY id1", "id1", "v1"),
    "q02": ("SELECT id1, id2, sum(v1) AS v1 FROM x GROUP BY id1, id2", "id1, id2", "v1"),
    "q03": ("SELECT id3, sum(v1) AS v1, avg(v3) AS v3 FROM x GROUP BY id3", "id3", "v1, v3"),
    "q04": ("SELECT id4, avg(v1) AS v1, avg(v2) AS v2, avg(v3) AS v3 FROM x GROUP BY id4", "", "id4, v1, v2, v3"),
    "q05": ("SELECT id6, sum(v1) AS v1, sum(v2) AS v2, sum(v3) AS v3 FROM x GROUP BY id6", "", "id6, v1, v2, v3"),
    "q06": ("SELECT id4, id5, median(v3) AS median_v3, stddev(v3) AS sd_v3 FROM x GROUP BY id4, id5",
            "", "id4, id5, median_v3, sd_v3"),
    "q07": ("SELECT id3, max(v1) - min(v2) AS range_v1_v2 FROM x GROUP BY id3", "id3", "range_v1_v2"),
    "q08": ("SELECT id6, v3 AS largest2_v3 FROM (SELECT id6, v3, row_number() OVER (PARTITION BY id6 ORDER BY v3 DESC) "
            "AS order_v3 FROM x WHERE v3 IS NOT NULL) AS numbered WHERE order_v3 <= 2", "", "id6, largest2_v3"),
    "q09": ("SELECT id2, id4, power(corr(v1, v2), 2) AS r2 FROM x GROUP BY id2, id4", "id2", "id4, r2"),
    "q10": ("SELECT id1, id2, id3, id4, id5, id6, sum(v3) AS v3, count(*) AS count FROM x "
            "GROUP BY id1, id2, id3, id4, id5, id6", "id1, id2, id3", "id4, id5, id6, v3, count"),
}

X = "x.id1, x.id2, x.id3, x.id4, x.id5, x.id6, x.v1"
X_TEXTS, X_NUMBERS = "id4, id5, id6", "id1, id2, id3, v1"
MEDIUM = "medium.id1 AS medium_id1, medium.id4 AS medium_id4"
JOIN_QUESTIONS = {
    "q1": (f"SELECT {X}, small.id4 AS small_id4, small.v2 FROM x JOIN small ON x.id1 = small.id1",
           f"{X_TEXTS}, small_id4", f"{X_NUMBERS}, v2"),
    "q2": (f"SELECT {X}, {MEDIUM}, medium.id5 AS medium_id5, medium.v2 FROM x JOIN medium ON x.id2 = medium.id2",
           f"{X_TEXTS}, medium_id4, medium_id5", f"{X_NUMBERS}, medium_id1, v2"),
    "q3": (f"SELECT {X}, {MEDIUM}, medium.id5 AS medium_id5, medium.v2 FROM x LEFT JOIN medium ON x.id2 = medium.id2",
           f"{X_TEXTS}, medium_id4, medium_id5", f"{X_NUMBERS}, medium_id1, v2"),
    "q4": (f"SELECT {X}, {MEDIUM}, medium.id2 AS medium_id2, medium.v2 FROM x JOIN medium ON x.id5 = medium.id5",
           f"{X_TEXTS}, medium_id4", f"{X_NUMBERS}, medium_id1, medium_id2, v2"),
    "q5": (f"SELECT {X}, big.id1 AS big_id1, big.id2 AS big_id2, big.id4 AS big_id4, big.id5 AS big_id5, "
           "big.id6 AS big_id6, big.v2 FROM x JOIN big ON x.id3 = big.id3",
           f"{X_TEXTS}, big_id4, big_id5, big_id6", f"{X_NUMBERS}, big_id1, big_id2, v2"),
}


def in_one_row(question, texts, numbers):
    """The query that makes a question's result and gives one row of it."""
    names = lambda listed: [name for name in listed.split(", ") if name]
    made = [f"max({name})" for name in names(texts)] + [f"sum({name})" for name in names(numbers)]
    return f"SELECT count(*), {', '.join(made)} FROM ({question}) AS q"


GROUPBY_QUERIES = {name: in_one_row(*question) for name, question in GROUPBY_QUESTIONS.items()}
JOIN_QUERIES = {name: in_one_row(*question) for name, question in JOIN_QUESTIONS.items()}


def make_groupby(directory, arguments):
    groups = max(arguments.rows // K, 1)
    columns = ", ".join([
        "i AS id", f"format('id{{:03d}}', {drawn(1, K)}) AS id1", f"format('id{{:03d}}', {drawn(2, K)}) AS id2",
        f"format('id{{:010d}}', {drawn(3, groups)}) AS id3", f"{drawn(4, K)}::int AS id4", f"{drawn(5, K)}::int AS id5",
        f"{drawn(6, groups)}::int AS id6", f"{drawn(7, 5)}::int AS v1", f"{drawn(8, 15)}::int AS v2", f"{fraction(9)} AS v3",
    ])
    statements = [
        f"COPY (SELECT {columns} FROM range({start}, {end}) AS numbers(i)) TO '{directory}/x-{number:02}.parquet'"
        for number, start, end in parts(arguments.rows)
    ]
    (directory / "schema.sql").write_text(f"CREATE TABLE x (id bigint PRIMARY KEY, {GROUPBY_COLUMNS.format('')});\n")
    (directory / "schema-bricks.sql").write_text(
        f"CREATE TABLE x (id bigint, {GROUPBY_COLUMNS.format(' NOT NULL')}) {BRICKS};\n")
    duckdb_statements(statements)


def make_join(directory, arguments):
    rows = arguments.rows
    sizes = {"small": max(rows // 1_000_000, 10), "medium": max(rows // 1_000, 100), "big": rows}
    statements = []
    for salt, (table, size) in enumerate(sizes.items(), 20):
        # Nine tenths of the keys are on both sides of the join: of these in random order, x has the first `size`, the other
        # table the last.
        statements.append(f"CREATE TABLE {table}_keys AS SELECT i AS place, (row_number() OVER (ORDER BY hash(i, {salt})))::int AS key "
                          f"FROM range({size + size // 10}) AS numbers(i)")
    left = lambda salt, table: f"{drawn(salt, sizes[table])} - 1"
    right = lambda salt, table: f"{drawn(salt, sizes[table])} - 1 + {sizes[table] // 10}"
    each = lambda salt: f"row_number() OVER (ORDER BY hash(i, {salt})) - 1"
    statements += [
        f"CREATE TABLE x_rows AS SELECT i, {left(1, 'small')} AS p1, {left(2, 'medium')} AS p2, {each(3)} AS p3 "
        f"FROM range({rows}) AS numbers(i)",
    ]
    statements += [
        f"COPY ({keyed('x_rows', 'id1, id2, id3', f'{fraction(4)} AS v1', f'i >= {start} AND i < {end}')}) "
        f"TO '{directory}/x-{number:02}.parquet'"
        for number, start, end in parts(rows)
    ]
    beside = {
        "small": ("id1", f"0 AS p2, 0 AS p3, {each(5)} + {sizes['small'] // 10} AS p1"),
        "medium": ("id1, id2", f"{right(6, 'small')} AS p1, {each(7)} + {sizes['medium'] // 10} AS p2, 0 AS p3"),
        "big": ("id1, id2, id3", f"{right(8, 'small')} AS p1, {right(9, 'medium')} AS p2, {each(10)} + {rows // 10} AS p3"),
    }
    for table, (names, places) in beside.items():
        statements += [
            f"CREATE TABLE {table}_rows AS SELECT i, {places} FROM range({sizes[table]}) AS numbers(i)",
            f"COPY ({keyed(f'{table}_rows', names, f'{fraction(11)} AS v2', 'true')}) TO '{directory}/{table}.parquet'",
        ]
    (directory / "schema.sql").write_text(
        "CREATE TABLE x (id bigint PRIMARY KEY, id1 int, id2 int, id3 int, id4 text, id5 text, id6 text, v1 double precision);\n"
        "CREATE TABLE small (id1 int PRIMARY KEY, id4 text, v2 double precision);\n"
        "CREATE TABLE medium (id1 int, id2 int PRIMARY KEY, id4 text, id5 text, v2 double precision);\n"
        "CREATE TABLE big (id1 int, id2 int, id3 int PRIMARY KEY, id4 text, id5 text, id6 text, v2 double precision);\n")
    duckdb_statements(statements)


def keyed(source, names, value, condition):
    """Rows with the keys of their places: as numbers, and as texts of the columns id4 to id6."""
    names = names.split(", ")
    columns = (["r.i AS id"] if source == "x_rows" else [])
    columns += [f"{name}_keys.key AS {name}" for name in names]
    columns += [f"'id' || {name}_keys.key AS id{int(name[2]) + 3}" for name in names]
    tables = {"id1": "small", "id2": "medium", "id3": "big"}
    joins = [f"JOIN {tables[name]}_keys AS {name}_keys ON {name}_keys.place = r.p{name[2]}" for name in names]
    return f"SELECT {', '.join(columns)}, {value} FROM {source} AS r {' '.join(joins)} WHERE {condition} ORDER BY i"


def drawn(salt, count):
    """A random number from 1 on."""
    return f"(hash(i, {salt}) % {count} + 1)::bigint"


def fraction(salt):
    """A random number below 100 with six digits behind the point."""
    return f"(hash(i, {salt}) % 100000000) / 1e6"


def parts(rows):
    starts = range(0, rows, FILE_ROWS)
    return [(number, start, min(start + FILE_ROWS, rows)) for number, start in enumerate(starts)]


def duckdb_statements(statements):
    program = Path(__file__).with_name("duckdb_side.py")
    task = json.dumps({"task": "statements", "statements": statements})
    subprocess.run([sys.executable, str(program)], input=task, text=True, check=True, stdout=subprocess.DEVNULL)
