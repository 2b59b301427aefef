# SPDX-License-Identifier: Apache-2.0
"""DuckDB, in a process of its own: reads a task as JSON from the standard input, prints what it found as a line of JSON.

The time of a query is from giving its text to having all of its result; `complete` runs it to its end, so that no time goes into
Python's objects.
"""

import csv
import json
import statistics
import sys
import threading
import time
from pathlib import Path

import duckdb

# NULL in a file of answers, where an empty text is another thing.
NULL = "\\N"


def statements(task):
    connection = duckdb.connect()
    for statement in task["statements"]:
        connection.execute(statement)
    return {}


def connect(task):
    connection = duckdb.connect(task["database"], config={"threads": task["threads"]})
    # Coeval sorts NULL as PostgreSQL does; the queries say nothing of it.
    connection.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
    return connection


def load(task):
    connection = connect(task)
    started = time.monotonic()
    for statement in task["schema"]:
        connection.execute(statement)
    for table, files in task["tables"].items():
        connection.execute(f"INSERT INTO {table} BY NAME SELECT * FROM read_parquet({files})")
    connection.execute("CHECKPOINT")
    return {"version": f"duckdb {duckdb.__version__}", "load_s": time.monotonic() - started}


def measure(task):
    connection = connect(task)
    queries, failed, first_ms = task["queries"], {}, {}
    for name, text in queries.items():
        try:
            first_ms[name] = time_ms(connection, text, task["seconds_most"])
        except duckdb.Error as error:
            failed[name] = str(error)
    for name in first_ms:
        write_answer(connection, queries[name], Path(task["answers"]) / f"{name}.csv")
    times_ms = {name: [] for name in first_ms}
    for _ in range(task["runs"]):
        for name, times in times_ms.items():
            times.append(time_ms(connection, queries[name], task["seconds_most"]))
    return {
        "failed": failed, "first_ms": first_ms, "warm_ms": {name: statistics.median(times) for name, times in times_ms.items()},
        "resident_kib": resident_kib(),
    }


def time_ms(connection, text, seconds_most):
    guard = threading.Timer(seconds_most, connection.interrupt)
    guard.start()
    try:
        started = time.perf_counter()
        connection.execute(text).complete()
        return (time.perf_counter() - started) * 1e3
    finally:
        guard.cancel()


def write_answer(connection, text, path):
    cursor = connection.execute(text)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([column[0] for column in cursor.description])
        for row in cursor.fetchall():
            writer.writerow([shown(value) for value in row])


def shown(value):
    if value is None:
        return NULL
    if isinstance(value, bool):
        return "t" if value else "f"
    return value


def resident_kib():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps({"statements": statements, "load": load, "measure": measure}[given["task"]](given)))
