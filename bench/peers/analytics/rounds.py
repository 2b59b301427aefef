# SPDX-License-Identifier: Apache-2.0
"""The report `analytics`: makes the data of each suite, runs both systems in turn, and keeps what was found."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers import wire
from peers.analytics import coeval_side, page
from peers.answers import differences, differences_in_any_order, read_rows
from peers.analytics.suites import SUITES, Files
from peers.machine import BENCH, CpuWatch, build_coeval, command_line

ROWS = 10_000_000
# So small that nothing takes long, and so large that each group has several rows.
TINY_ROWS, TINY_SCALE = 200_000, 0.01
# Nobody waits longer for a query; it counts as one that fails.
SECONDS_MOST = 300.0
# Nor for anything else.
WORK_SECONDS_MOST = 7_200.0


def add_options(parser):
    options = parser.add_argument_group(
        "the report `analytics`: suites of queries on DuckDB and Coeval; --scale is that of TPC-DS and TPC-H, --rows "
        f"[{ROWS:,}] those of db-benchmark, --keep FILE adds up suites that were measured one by one; also --runs, --update-fraction, "
        "and --tiny for small sizes")
    options.add_argument("--suites", metavar="A,B,..", help="what to run: " + ", ".join(SUITES))
    options.add_argument("--files", type=Path, metavar="DIR",
                         help="where the suites' data are made, and found again the next time; removed at the end if not given")


def run(arguments):
    chosen = (arguments.suites or ",".join(SUITES)).split(",")
    unknown = [name for name in chosen if name not in SUITES]
    if unknown:
        sys.exit(f"there is no suite {', '.join(unknown)}; there are {', '.join(SUITES)}")
    if arguments.tiny:
        arguments.scale, arguments.rows = TINY_SCALE, TINY_ROWS
    arguments.rows = arguments.rows or ROWS
    confine(arguments.threads)
    arguments.binary = (arguments.coeval or build_coeval()).resolve()
    kept = wire.load(arguments.keep)
    work = Path(tempfile.mkdtemp(prefix="coeval-analytics-", dir=arguments.work or wire.disk_directory()))
    try:
        for name in chosen:
            kept["pieces"][name] = measure(name, SUITES[name], arguments, work)
            kept["conditions"] = wire.machine_and_commit() | {"command": command_line("bench/compare")}
            wire.save(arguments.keep, kept)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    path = BENCH / "results" / f"{arguments.name}.md"
    path.parent.mkdir(exist_ok=True)
    path.write_text(page.text(kept))
    print(path)


def confine(threads):
    """Both systems, which are started from here, get so many processors. Coeval has a thread for each of them."""
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) < threads:
        sys.exit(f"this machine has {len(processors)} processors, not {threads}")
    os.sched_setaffinity(0, processors[:threads])


def data_directory(suite, name, arguments, work):
    """The directory of a suite's data, which is made if it is not there."""
    size = f"{arguments.scale:g}" if suite.size == "scale" else f"{arguments.rows}"
    directory = (arguments.files or work / "files") / f"{suite.data or name}-{size}"
    if not directory.exists():
        # It gets its name when all of it is there.
        unfinished = directory.with_name(f"{directory.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        print(f"{name}: making the data", file=sys.stderr)
        suite.make(unfinished.resolve(), arguments)
        unfinished.rename(directory)
    return directory.resolve()


def measure(name, suite, arguments, work):
    """All rounds of a suite."""
    files = Files(data_directory(suite, name, arguments, work), suite.coeval_schema, suite.queries)
    found = {
        "size": f"scale {arguments.scale:g}" if suite.size == "scale" else f"{arguments.rows:,} rows",
        "threads": arguments.threads, "runs": arguments.runs, "queries": list(files.queries()),
        "update_fraction": arguments.update_fraction if suite.changes else 0.0,
        # Queries that failed, with the system's words. They are not asked again in later rounds.
        "failed": {"coeval": {}, "changed": {}, "duckdb": {}},
        "rounds": [],
    }
    for number in range(1, arguments.rounds + 1):
        directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=work))
        try:
            figures = one_round(suite, files, arguments, directory, found["failed"], number)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
        found["rounds"].append(figures)
        print(f"{name}, round {number}: {page.brief(figures)}", file=sys.stderr)
    return found


def one_round(suite, files, arguments, work, failed, number):
    """Both systems once. Who comes first alternates."""
    sides = [("coeval", lambda: coeval_round(suite, files, arguments, work, failed)),
             ("duckdb", lambda: duckdb_round(files, arguments, work, failed))]
    figures = {}
    for name, side in sides if number % 2 else reversed(sides):
        figures[name] = side()
    figures["differing"] = differing(work / "coeval-answers", work / "duckdb-answers")
    figures["changed_differing"] = differing(work / "changed-answers", work / "duckdb-answers")
    sides = [figures[name] for name in ("coeval", "duckdb")]
    figures["foreign_cpu"] = max(side["foreign_cpu"] for side in sides)
    return figures


def coeval_round(suite, files, arguments, work, failed):
    directory = work / "coeval"
    watch = CpuWatch()
    with coeval_side.Shell(arguments.binary, directory, WORK_SECONDS_MOST) as shell:
        figures = coeval_side.load(shell, files.statements(files.coeval_schema), files.tables())
    figures["version"] = coeval_side.version(arguments.binary)
    foreign = [watch.foreign_cores()]
    figures["disk_bytes"] = bytes_below(directory)
    asked = Asked(arguments, directory, files.queries(), foreign)
    figures |= asked.all(work / "coeval-answers", failed["coeval"])
    if suite.changes and arguments.update_fraction > 0:
        failed["changed"] |= failed["coeval"]
        figures["delta_shares"] = asked.change(suite.changes, round(arguments.update_fraction * 1000))
        figures["changed_ms"] = asked.all(work / "changed-answers", failed["changed"])["warm_ms"]
    return figures | {"foreign_cpu": max(foreign)}


class Asked:
    """Coeval's queries on a loaded directory, in new processes."""

    def __init__(self, arguments, directory, queries, foreign):
        self.arguments, self.directory, self.queries, self.foreign = arguments, directory, queries, foreign

    def change(self, statements, thousandths):
        """Puts so many thousandths of the rows into the delta; the share that each table has there when it is opened again."""
        with self.shell(WORK_SECONDS_MOST) as shell:
            for statement in statements:
                shell.run(statement.format(thousandths=thousandths))
        with self.shell(WORK_SECONDS_MOST) as shell:
            return coeval_side.delta_shares(shell)

    def all(self, answers, failed):
        """One process asks all queries; where one fails, another begins anew without it."""
        while True:
            shutil.rmtree(answers, ignore_errors=True)
            answers.mkdir()
            settle(self.directory)
            known = len(failed)
            try:
                with self.shell(SECONDS_MOST) as shell:
                    watch = CpuWatch(shell.pid)
                    figures = coeval_side.measure(shell, self.queries, self.arguments.runs, answers, failed)
                    self.foreign.append(watch.foreign_cores())
                return figures
            except coeval_side.Refused:
                # Anything else than a query is a failure of the whole run.
                if len(failed) == known:
                    raise

    def shell(self, seconds_most):
        return coeval_side.Shell(self.arguments.binary, self.directory, seconds_most)


def duckdb_round(files, arguments, work, failed):
    directory = work / "duckdb"
    directory.mkdir()
    (work / "duckdb-answers").mkdir()
    common = {"database": str(directory / "suite.duckdb"), "threads": arguments.threads}
    watch = CpuWatch()
    figures = duckdb(common | {
        "task": "load", "schema": files.statements("schema.sql"),
        "tables": {table: [str(path) for path in paths] for table, paths in files.tables().items()},
    })
    foreign = [watch.foreign_cores()]
    figures["disk_bytes"] = bytes_below(directory)
    settle(directory)
    queries = {name: text for name, text in files.queries().items() if name not in failed["duckdb"]}
    watch = CpuWatch()
    found = duckdb(common | {
        "task": "measure", "queries": queries, "runs": arguments.runs, "answers": str(work / "duckdb-answers"),
        "seconds_most": SECONDS_MOST,
    })
    foreign.append(watch.foreign_cores())
    failed["duckdb"] |= found.pop("failed")
    return figures | found | {"foreign_cpu": max(foreign)}


def duckdb(task):
    program = Path(__file__).with_name("duckdb_side.py")
    done = subprocess.run([sys.executable, str(program)], input=json.dumps(task), stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def settle(directory):
    """What was written is on the disk, and what is read from there lies in the file cache."""
    subprocess.run(["sync"], check=True)
    for path in directory.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                while file.read(1 << 24):
                    pass
    time.sleep(0.5)


def bytes_below(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def differing(ours, theirs):
    """Which answers differ, in how many rows, and the first of them; only of queries that both systems answered. Rows that
    are there but elsewhere are `moved`: a query may leave their order open."""
    found = {}
    for path in sorted(ours.glob("*.csv")) if ours.is_dir() else []:
        if (theirs / path.name).exists():
            both = read_rows(path), read_rows(theirs / path.name)
            in_place = differences(*both)
            if in_place:
                rows = differences_in_any_order(*both)
                found[path.stem] = {"rows": len(rows), "moved": len(in_place) - len(rows), "first": (rows or in_place)[0]}
    return found
