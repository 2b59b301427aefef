# SPDX-License-Identifier: Apache-2.0
"""What is asked. A suite is a directory of files that both systems read, and the bars of its ratios.

The directory holds `schema.sql`, the rows as `TABLE.parquet`, or as `TABLE-00.parquet` and so on for a table in parts, and, where
whoever made the rows has the queries, too, these as `queries/NAME.sql`.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

from peers.analytics import dbbenchmark, tpcds
from peers.machine import coeval


@dataclasses.dataclass(frozen=True)
class Suite:
    title: str
    # Fills a directory: the directory, and what the command line says (with the binary as `binary`).
    make: Callable
    # What Coeval may take of DuckDB's time: in the geometric mean, and for each query.
    mean_most: float
    worst_most: float | None
    # Statements that put a share of the rows of the large tables into the delta without a change of any answer; `{thousandths}` is
    # that share.
    changes: tuple = ()
    # Suites of the same data share a directory.
    data: str | None = None
    coeval_schema: str = "schema.sql"
    # The texts by name, if the directory does not have them.
    queries: dict | None = None
    # What decides how large the data is: an option of the command line.
    size: str = "rows"


class Files:
    """What a suite's directory holds."""

    def __init__(self, directory, coeval_schema="schema.sql", queries=None):
        self.directory, self.coeval_schema, self.texts = Path(directory), coeval_schema, queries

    def statements(self, name):
        """The statements of one of its files."""
        text = (self.directory / name).read_text()
        return [statement.strip() for statement in text.split(";") if statement.strip()]

    def queries(self):
        """The texts by name, in order."""
        if self.texts:
            return self.texts
        found = sorted((self.directory / "queries").glob("*.sql"))
        return {path.stem: path.read_text().strip().rstrip(";") for path in found}

    def tables(self):
        """The files of each table."""
        tables = {}
        for path in sorted(self.directory.glob("*.parquet")):
            tables.setdefault(path.stem.partition("-")[0], []).append(path)
        return tables


def tpch_files(directory, arguments):
    coeval(arguments.binary, "tpch", "--scale", arguments.scale, "--write-parquet", directory)


def spread(key):
    """A condition on so many thousandths of the rows, all over the table: a multiple of the key, squared, both modulo a prime, is
    as good as random."""
    multiple = f"(({key}) * 48271 % 2147483647)"
    return f"{multiple} * {multiple} % 2147483647 % 1000 < {{thousandths}}"


def changed(*columns):
    """Values that differ from those in the chunks, though answers stay those of the files: other values are put into the chunks first,
    and then those of the files into the delta. A scan reads a value that an update has left as it was from its chunk."""
    def updates(sign):
        return tuple(f"UPDATE {table} SET {column} = {column} {sign} 1 WHERE {spread(key)}" for table, column, key in columns)

    return (*updates("+"), "CHECKPOINT", *updates("-"))


X_CHANGES = changed(("x", "v1", "id"))

SUITES = {
    "tpcds": Suite(
        "TPC-DS", tpcds.make, 0.6, 1.5, size="scale",
        changes=changed(*tpcds.CHANGES)),
    "groupby": Suite("db-benchmark's groupby, row table", dbbenchmark.make_groupby, 0.5, 1.0,
                     queries=dbbenchmark.GROUPBY_QUERIES, changes=X_CHANGES),
    # Brick tables have no UPDATE.
    "groupby-bricks": Suite("db-benchmark's groupby, brick table", dbbenchmark.make_groupby, 0.5, 1.0,
                            queries=dbbenchmark.GROUPBY_QUERIES, data="groupby", coeval_schema="schema-bricks.sql"),
    "join": Suite("db-benchmark's join", dbbenchmark.make_join, 0.7, None, queries=dbbenchmark.JOIN_QUERIES, changes=X_CHANGES),
    "tpch": Suite(
        "TPC-H", tpch_files, 0.6, 1.2, size="scale",
        changes=changed(("lineitem", "l_quantity", "l_orderkey * 8 + l_linenumber"), ("orders", "o_totalprice", "o_orderkey"))),
}
