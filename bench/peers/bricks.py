# SPDX-License-Identifier: Apache-2.0
"""Brick tables beside DuckDB's and PostgreSQL's tables: scans of the same rows, loads of the same CSV file.

Scans: Coeval fills a table at random and writes it as Parquet, from which DuckDB fills its own in random order, a file on the
disk; each asks the same queries, in turn. Loads: Coeval writes a CSV file of 20 columns and reads it by COPY; DuckDB and PostgreSQL read the same file
into tables without keys. All are durable when the time ends.
"""

import datetime
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers.machine import BENCH, FOREIGN_CPU_MAX, CpuWatch, build_coeval, coeval
from peers.servers import Postgres, postgres_binaries

QUERIES = {
    "group_by": "SELECT key, sum(m1) FROM facts GROUP BY key",
    "filtered_sum": "SELECT sum(m1) FROM facts WHERE m2 < 500000",
    "pruned_sum": "SELECT sum(m1) FROM facts WHERE key BETWEEN 300 AND 399 AND m2 < 500000",
}
ROWS = 50_000_000
# What a query may take of DuckDB's time, and a load of the peers' rows per second at least.
BARS = {"group_by": 1.0, "filtered_sum": 1.0, "pruned_sum": 0.3}
COPY_BARS = {"duckdb": 0.7, "postgresql": 5.0}
COLUMNS = ["key bigint"] + [f"m{metric} bigint" for metric in range(1, 20)]


def add_options(parser):
    parser.add_argument("--copy-rows", type=int, default=2_000_000, help="bricks: rows of 20 columns that are loaded")
    parser.add_argument("--duckdb-bricks", nargs=2, metavar=("FILES", "DIRECTORY"), help="one round of DuckDB, as JSON")


def duckdb_round(arguments):
    """Fills a table and asks the queries, then loads the CSV file; what it took as a line of JSON."""
    import duckdb

    files, directory = map(Path, arguments.duckdb_bricks)
    cpu = CpuWatch()
    connection = duckdb.connect(str(directory / "bricks.duckdb"), config={"threads": arguments.threads})
    # Coeval writes brick by brick; the rows are to come in no order, as they came to Coeval.
    source = f"read_parquet('{files / 'facts.parquet'}')"
    connection.execute(f"CREATE TABLE facts AS SELECT * FROM {source} ORDER BY random()")
    connection.execute("CHECKPOINT")
    found = {"system": f"DuckDB {duckdb.__version__}"}
    for name, sql in QUERIES.items():
        times = []
        for _ in range(arguments.runs):
            started = time.monotonic()
            answer = connection.execute(sql).fetchall()
            times.append((time.monotonic() - started) * 1e3)
        found[f"{name}_ms"] = statistics.median(times)
        found[f"{name}_answer"] = int(answer[0][0]) if len(answer) == 1 else len(answer)
    connection.execute(f"CREATE TABLE wide ({', '.join(COLUMNS)})")
    started = time.monotonic()
    connection.execute(f"COPY wide FROM '{files / 'wide.csv'}' (FORMAT csv, HEADER false)")
    connection.execute("CHECKPOINT")
    seconds = time.monotonic() - started
    rows = connection.execute("SELECT count(*) FROM wide").fetchone()[0]
    found |= {"copy_rows": rows, "copy_rows_per_s": rows / seconds, "foreign_cpu": cpu.foreign_cores()}
    print(json.dumps(found))


def postgres_copy(work, csv):
    """Loads the CSV file into a fresh cluster; its figures."""
    directory = Path(tempfile.mkdtemp(prefix="postgresql-", dir=work))
    directory.chmod(0o755)
    binaries = postgres_binaries()
    server = Postgres(binaries, directory)
    try:
        command = [str(binaries / "psql"), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c"]
        ask = lambda sql: subprocess.run([*command, sql], env=server.environment(), check=True)
        ask(f"CREATE TABLE wide ({', '.join(COLUMNS)})")
        cpu = CpuWatch(server.pid)
        started = time.monotonic()
        ask(f"\\copy wide FROM '{csv}' (FORMAT csv)")
        seconds = time.monotonic() - started
        return {"seconds": seconds, "foreign_cpu": cpu.foreign_cores()}
    finally:
        server.stop()
        shutil.rmtree(directory, ignore_errors=True)


def run_round(arguments, binary, work, number):
    ours = ["aosi-scan", "--rows", arguments.rows, "--runs", arguments.runs, "--threads", arguments.threads]
    if number == 1:
        ours += ["--write-parquet", work]
    scan = coeval(binary, *ours)
    database = work / "database"
    ingest = coeval(binary, "aosi-ingest", "--rows", arguments.copy_rows * 20, "--dir", database)
    shutil.move(database / "wide.csv", work / "wide.csv")
    shutil.rmtree(database)
    directory = work / "duckdb"
    directory.mkdir()
    command = [sys.executable, str(BENCH / "compare"), "--report", "bricks", "--duckdb-bricks", str(work), str(directory),
               "--threads", str(arguments.threads), "--runs", str(arguments.runs)]
    duckdb = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
    shutil.rmtree(directory)
    postgres = postgres_copy(work, work / "wide.csv")
    postgres["rows_per_s"] = duckdb["copy_rows"] / postgres["seconds"]
    foreign = [scan["foreign_cpu"], ingest["foreign_cpu"], duckdb["foreign_cpu"], postgres["foreign_cpu"]]
    return {"scan": scan, "ingest": ingest, "duckdb": duckdb, "postgresql": postgres, "foreign_cpu": max(foreign)}


def report(arguments, rounds):
    """The report as Markdown."""
    quiet = [one for one in rounds if one["foreign_cpu"] <= FOREIGN_CPU_MAX]
    used = quiet or rounds
    middle = lambda values: statistics.median(list(values))
    lines = [
        "# Brick tables beside " + used[0]["duckdb"]["system"] + " and PostgreSQL 15", "",
        f"- command: `bench/compare --report bricks --rows {arguments.rows} --copy-rows {arguments.copy_rows} "
        f"--rounds {arguments.rounds}`; {datetime.date.today()}; commit `{used[0]['scan']['commit']}`",
        f"- {len(used)} of {len(rounds)} rounds count (`foreign_cpu` at most {FOREIGN_CPU_MAX}; the highest is "
        f"{max(one['foreign_cpu'] for one in used):.2f}), the systems in turn in each; medians; {arguments.threads} threads", "",
        f"| {arguments.rows:,} rows | Coeval ms | DuckDB ms | ratio | bar |", "|---|---:|---:|---:|---:|",
    ]
    for name, sql in QUERIES.items():
        ours = middle(one["scan"]["figures"][f"{name}_ms"] for one in used)
        theirs = middle(one["duckdb"][f"{name}_ms"] for one in used)
        lines.append(f"| `{sql}` | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} | {BARS[name]} |")
    lines += ["", f"| COPY of {used[0]['duckdb']['copy_rows']:,} rows of 20 columns, CSV | rows/s | Coeval's ratio | bar |",
              "|---|---:|---:|---:|"]
    ours = middle(one["ingest"]["figures"]["copy_rows_per_s"] for one in used)
    peers = {"duckdb": middle(one["duckdb"]["copy_rows_per_s"] for one in used),
             "postgresql": middle(one["postgresql"]["rows_per_s"] for one in used)}
    lines.append(f"| Coeval | {ours:,.0f} | | |")
    for name, theirs in peers.items():
        lines.append(f"| {name} | {theirs:,.0f} | {ours / theirs:.2f} | {COPY_BARS[name]} |")
    differing = [name for name in QUERIES for one in used
                 if one["scan"]["figures"].get(f"{name}_answer") != one["duckdb"][f"{name}_answer"]]
    lines += ["", f"Answers: {'all are equal' if not differing else 'DIFFERENT: ' + ', '.join(sorted(set(differing)))}."]
    return "\n".join(lines) + "\n"


def run(arguments):
    if arguments.duckdb_bricks:
        duckdb_round(arguments)
        return
    arguments.rows = arguments.rows or ROWS
    binary = arguments.coeval or build_coeval()
    work = Path(tempfile.mkdtemp(prefix="coeval-bricks-", dir=arguments.work))
    work.chmod(0o755)
    try:
        rounds = []
        for number in range(1, arguments.rounds + 1):
            rounds.append(run_round(arguments, binary, work, number))
            print(f"round {number}: foreign_cpu {rounds[-1]['foreign_cpu']:.2f}", file=sys.stderr)
        path = BENCH / "results" / f"{arguments.name}.md"
        path.write_text(report(arguments, rounds))
        print(path)
    finally:
        shutil.rmtree(work, ignore_errors=True)
