# SPDX-License-Identifier: Apache-2.0
"""The report on the tree library beside its peers: TPC-H by hand and DuckDB in turn, ordered maps in one process each."""

import datetime
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.machine import BENCH, FOREIGN_CPU_MAX, ROOT, CpuWatch, build_coeval, coeval

PARTS = ["tpch", "ycsb", "find", "batch"]
# What a query may take of DuckDB's time, and how much faster the mean has to be.
SLOWEST = 1.5
FASTER_LEAST = 3.0
# Maps that are written directly and have no snapshots.
CONCURRENT = ["crossbeam SkipMap", "RwLock<BTreeMap>", "scc::TreeIndex"]
# Workload of YCSB, and the least ratio of the tree to the best of them.
YCSB_LEAST = {"C": 1.2, "B": None, "A": 1.5, "insert-only": 1.0}


def add_options(parser):
    options = parser.add_argument_group("the report `ptree`: the tree library, DuckDB, and other ordered maps")
    options.add_argument("--entries", type=int, default=10_000_000, help="entries of the maps")
    options.add_argument("--batch-ms", type=int, default=12, help="how long writes of YCSB wait for others")
    options.add_argument("--examples", type=Path, metavar="DIR",
                         help="the library's examples; built with cargo if not given")


def run(arguments, duckdb_round):
    """Measures the parts that were asked for; `duckdb_round` is the command that loads and queries DuckDB."""
    chosen = (arguments.pieces or ",".join(PARTS)).split(",")
    unknown = [name for name in chosen if name not in PARTS]
    if unknown:
        sys.exit(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    examples = arguments.examples or build_examples()
    sections = []
    watch = CpuWatch()
    if "tpch" in chosen:
        sections += tpch(arguments, examples, duckdb_round)
    if "ycsb" in chosen:
        seconds = max(1, round(arguments.seconds))
        for manner in ([], ["grouped"]):
            sections += ycsb(examples, [arguments.entries, seconds, arguments.batch_ms, *manner])
    for name in ("find", "batch"):
        if name in chosen:
            results = lines(examples / "peers", name, arguments.entries)
            sections += maps(name, [result for result in results if "ns" in result])
    report = conditions(watch) + sections
    results = BENCH / "results"
    results.mkdir(exist_ok=True)
    path = results / f"{arguments.name}.md"
    path.write_text("\n".join(report) + "\n")
    print(path)


def build_examples():
    """Builds the examples and returns where they are."""
    command = ["cargo", "build", "--release", "--package", "coeval-ptree", "--examples"]
    subprocess.run(command, cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "examples"


def lines(program, *arguments):
    """Runs a program and returns its JSON lines."""
    command = [str(program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def conditions(watch):
    foreign = watch.foreign_cores()
    found = [
        "# The tree library beside its peers",
        "",
        f"- command: `{' '.join(['bench/compare', *sys.argv[1:]])}`",
        f"- date: {datetime.date.today().isoformat()}; {os.cpu_count()} cores, {platform.machine()}, "
        f"Python {platform.python_version()}",
        f"- foreign_cpu over all: {foreign:.2f}",
    ]
    if foreign > FOREIGN_CPU_MAX:
        found.append(f"- **foreign_cpu is above {FOREIGN_CPU_MAX}: the figures are orientation, not a measurement**")
    return found


# ---- TPC-H ----


def tpch(arguments, examples, duckdb_round):
    """Rounds of TPC-H by hand and in DuckDB in turn, on the same rows; medians."""
    work = Path(tempfile.mkdtemp(prefix="coeval-ptree-", dir=arguments.work))
    ours, theirs = [], []
    try:
        files = work / "parquet"
        coeval(arguments.coeval or build_coeval(), "tpch", "--scale", arguments.scale, "--write-parquet", files)
        for _ in range(arguments.rounds):
            ours += lines(examples / "tpch", "queries", arguments.scale, arguments.runs)
            directory = Path(tempfile.mkdtemp(prefix="duckdb-", dir=work))
            theirs += lines(*duckdb_round(files, directory))
            shutil.rmtree(directory)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    one, two = (medians([result[name] for result in ours]) for name in ("one_thread_ms", "two_threads_ms"))
    names = [f"q{number:02}_ms" for number in range(1, len(two) + 1)]
    duckdb = medians([[result["figures"][name] for name in names] for result in theirs])
    faster = geometric_mean(duckdb) / geometric_mean(two)
    worst = max(range(len(two)), key=lambda place: two[place] / duckdb[place])
    checked = "the published ones" if all(result["checked"] for result in ours) else "the same on one and two threads"
    report = [
        "", f"## TPC-H scale {arguments.scale:g} by hand, and {theirs[0]['system']} with {arguments.threads} threads", "",
        f"{arguments.rounds} rounds in turn, each query {arguments.runs} times in each; medians, milliseconds. "
        f"Answers: {checked}.", "",
        f"Geometric mean: **{faster:.2f}** x faster on two threads (bar: {FASTER_LEAST:g}), "
        f"{geometric_mean(duckdb) / geometric_mean(one):.2f} x on one. Slowest beside DuckDB: Q{worst + 1:02} at "
        f"{two[worst] / duckdb[worst]:.2f} of its time (bar: {SLOWEST:g}).", "",
        "| query | one thread | two threads | DuckDB | DuckDB / two threads |", "|---|---:|---:|---:|---:|",
    ]
    rows = zip(names, one, two, duckdb)
    report += [f"| {name[:3].upper()} | {a:.1f} | {b:.1f} | {c:.1f} | {c / b:.1f} |" for name, a, b, c in rows]
    means = [geometric_mean(times) for times in (one, two, duckdb)]
    report.append(f"| geometric mean | {means[0]:.2f} | {means[1]:.2f} | {means[2]:.1f} | {faster:.2f} |")
    return report


def medians(rounds):
    """The median of each place over the rounds."""
    return [statistics.median(times) for times in zip(*rounds)]


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values))


# ---- maps ----


def ycsb(examples, arguments):
    """All maps and workloads, with the ratio of each map to the best concurrent one."""
    results = lines(examples / "ycsb", *arguments)
    rates = {(result["map"], result["workload"]): result for result in results}
    report = [
        "", f"## YCSB, {arguments[0]:,} entries, two threads, batches of {arguments[2]} ms, "
        + ("64 operations at once" if "grouped" in arguments else "one by one"), "",
        "Million operations per second; in brackets the 99th percentile of a write, and what it is of the best map "
        "without snapshots.", "",
        "| | " + " | ".join(YCSB_LEAST) + " |", "|---|" + "---:|" * len(YCSB_LEAST),
    ]
    best = {workload: max(rates[name, workload]["ops_per_s"] for name in CONCURRENT) for workload in YCSB_LEAST}
    for name in dict.fromkeys(result["map"] for result in results):
        cells = [cell(rates[name, workload], best[workload]) for workload in YCSB_LEAST]
        report.append(f"| {name} | " + " | ".join(cells) + " |")
    bars = ["" if least is None else f"{least:g} x" for least in YCSB_LEAST.values()]
    report.append("| *bar for the tree* | " + " | ".join(bars) + " |")
    return report


def cell(result, best):
    rate, latency = result["ops_per_s"], result["write_latency_99_ms"]
    waits = f"{latency:.0f} ms, " if latency else ""
    return f"{rate / 1e6:.2f} ({waits}{rate / best:.2f} x)"


def maps(name, results):
    """Figures of single operations, and their ratio to the first map of the list, the standard library's."""
    first = results[0]["ns"]
    head = ["", f"## {name}, {results[0]['entries']:,} entries", "", "| | ns per key | rate, of the first |", "|---|---:|---:|"]
    return head + [f"| {line['what']} | {line['ns']:.0f} | {first / line['ns']:.2f} |" for line in results]
