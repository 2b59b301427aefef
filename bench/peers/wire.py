# SPDX-License-Identifier: Apache-2.0
"""The report on Coeval and PostgreSQL over the wire: runs the pieces, writes Markdown with ratios and bars."""

import contextlib
import datetime
import json
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers.machine import BENCH, FOREIGN_CPU_MAX, ROOT, build_coeval
from peers.pieces import COEVAL_ONLY, IDLE_CONNECTIONS, PIECES, Context
from peers.servers import POSTGRES_SETTINGS, Coeval, Postgres, postgres_binaries

# What each line of the report shows: piece, figure, words, unit, and the least ratio of ours to theirs.
LINES = [
    ("tpcc", "transactions_per_s", "TPC-C, 8 terminals, REPEATABLE READ", "/s", 1.3),
    ("tpcc-one-by-one", "transactions_per_s", "the same, each statement waiting for the one before", "/s", 1.3),
    ("select-prepared-1", "transactions_per_s", "point SELECT, prepared, 1 client", "/s", 0.9),
    ("select-prepared-8", "transactions_per_s", "point SELECT, prepared, 8 clients", "/s", 0.9),
    ("select-simple-1", "transactions_per_s", "point SELECT, simple protocol, 1 client", "/s", 0.7),
    ("select-simple-8", "transactions_per_s", "point SELECT, simple protocol, 8 clients", "/s", 0.7),
    ("tpcb", "transactions_per_s", "pgbench's TPC-B, prepared, 8 clients, READ COMMITTED", "/s", 1.0),
    ("copy", "rows_per_s", "COPY FROM STDIN of lineitem into a table with its primary key", " rows/s", 2.0),
    ("chbench", "transactions_per_s", "CH-benCHmark, 4 terminals beside 1 stream: transactions", "/s", 1.3),
    ("chbench", "queries_per_h", "CH-benCHmark, 4 terminals beside 1 stream: queries", "/h", 10.0),
    ("hot", "transactions_per_s", "16 clients increment one row, READ COMMITTED", "/s", 1.0),
    ("beside", "transactions_per_s", "point SELECT, prepared, 2 clients beside 1 that groups all rows", "/s", 0.9),
    ("beside", "queries_per_h", "the queries of the one that groups all rows", "/h", 1.0),
]
BESIDE_LEAST = 0.9
CONNECTION_KIB_MOST = 64
ROUNDS_LEAST = 5


def add_options(parser):
    options = parser.add_argument_group("the report `wire`: Coeval and PostgreSQL, each as a server")
    options.add_argument("--pieces", metavar="A,B,..",
                         help="what to measure: " + ", ".join(PIECES))
    options.add_argument("--seconds", type=float, default=10, help="how long a round measures")
    options.add_argument("--warehouses", type=int, default=4, help="TPC-C's size")
    options.add_argument("--keep", type=Path, metavar="FILE",
                         help="figures are added to this file, and the report is on all that it holds: so pieces can "
                              "be measured one by one")


def run(arguments):
    run_pieces(arguments, PIECES, lambda name, context: measure(name, context, arguments.rounds), conditions, report)


def run_pieces(arguments, pieces, measured, where, text):
    """Measures the pieces that were chosen, keeps their figures, and writes the report.

    `measured(name, context)` gives a piece's figures, `where(context, arguments)` the conditions they were found under,
    `text(kept)` the report on all that is kept.
    """
    binaries = postgres_binaries()
    chosen = (arguments.pieces or ",".join(pieces)).split(",")
    unknown = [name for name in chosen if name not in pieces]
    if unknown:
        sys.exit(f"there is no piece {', '.join(unknown)}; there are {', '.join(pieces)}")
    binary = (arguments.coeval or build_coeval()).resolve()
    kept = load(arguments.keep)
    # Not among temporary files if those live in memory: every commit is to wait for a disk.
    work = Path(tempfile.mkdtemp(prefix="coeval-wire-", dir=arguments.work or disk_directory()))
    work.chmod(0o755)
    try:
        context = Context(binary, binaries, work, arguments.seconds, arguments.warehouses, arguments.scale)
        for name in chosen:
            kept["pieces"][name] = measured(name, context)
            kept["conditions"] = where(context, arguments)
            save(arguments.keep, kept)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    results = BENCH / "results"
    results.mkdir(exist_ok=True)
    path = results / f"{arguments.name}.md"
    path.write_text(text(kept))
    print(path)


def disk_directory():
    """A directory for the data that is not in memory."""
    place = Path(tempfile.gettempdir())
    kind = subprocess.run(["stat", "-f", "-c", "%T", place], stdout=subprocess.PIPE, text=True).stdout.strip()
    return ROOT if kind == "tmpfs" else place


def load(path):
    if path and path.exists():
        return json.loads(path.read_text())
    return {"pieces": {}, "conditions": {}}


def save(path, kept):
    if path:
        path.write_text(json.dumps(kept, indent=1) + "\n")


def measure(name, context, rounds):
    """Both servers, in turn; the figures of each round by system."""
    piece = PIECES[name]
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=context.work))
    directory.chmod(0o755)
    found = {}
    with contextlib.ExitStack() as stack:
        servers = [Coeval(context.binary, directory)]
        stack.callback(servers[0].stop)
        if name not in COEVAL_ONLY:
            servers.append(Postgres(context.postgres, directory))
            stack.callback(servers[1].stop)
        for server in servers:
            found[server.name] = {"version": context.psql(server, "SELECT version()"), "rounds": []}
        for server in servers:
            with alone(server, servers):
                piece.prepare(context, server)
        for number in range(1, rounds + 1):
            for server in servers:
                with alone(server, servers):
                    figures = piece.run(context, server)
                found[server.name]["rounds"].append(figures)
                print(f"{name}, round {number}, {server.title}: {brief(figures)}", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    return found


@contextlib.contextmanager
def alone(server, servers):
    """The other servers do not even clean up meanwhile."""
    for other in servers:
        if other is not server:
            other.pause()
    server.resume()
    # What the last one left for the disk goes there before.
    subprocess.run(["sync"], check=True)
    time.sleep(0.5)
    yield


def brief(figures):
    names = ["transactions_per_s", "queries_per_h", "rows_per_s", "beside_share", "used_kib", "abort_rate", "stream_aborts", "failed",
             "alone_latency_ms", "beside_latency_ms", "latency_p99_ms", "foreign_cpu"]
    return ", ".join(f"{name} {figures[name]:g}" for name in names if name in figures)


def conditions(context, arguments):
    return machine_and_commit() | {"seconds": arguments.seconds, "warehouses": arguments.warehouses, "scale": arguments.scale}


def machine_and_commit():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "")
    cores = sum(line.startswith("processor") for line in lines)
    kib = int(next(line for line in Path("/proc/meminfo").read_text().splitlines() if "MemTotal" in line).split()[1])
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"], cwd=ROOT,
                            stdout=subprocess.PIPE, text=True).stdout.strip()
    return {
        "machine": f"{model}, {cores} cores, {kib / 2**20:.1f} GiB, Linux {platform.release()}",
        "commit": commit, "date": datetime.date.today().isoformat(),
    }


# ---- the report ----


def medians(piece, system, figure):
    return statistics.median(figures[figure] for figures in piece[system]["rounds"])


def foreign(piece):
    return max(figures["foreign_cpu"] for system in piece.values() for figures in system["rounds"])


def report(kept):
    measured, where = kept["pieces"], kept["conditions"]
    versions = {name: system["version"] for piece in measured.values() for name, system in piece.items()}
    lines = [
        "# Over the wire: Coeval and PostgreSQL", "",
        "Both are servers on one machine, asked by the same clients over the loopback: `coeval bench --url` "
        "(tokio-postgres, prepared statements, those that do not depend on each other sent together) for TPC-C and "
        "CH-benCHmark, PostgreSQL's pgbench and psql for the rest. "
        "Both wait for the disk at each commit. Rounds alternate; the one that is not measured is stopped meanwhile. "
        "Medians count.", "",
        f"- {where['date']}; commit {where['commit']}; {where['machine']}",
        *(f"- {version}" for version in versions.values()),
        "- PostgreSQL's settings: " + ", ".join(f"`{name} = {value}`" for name, value in POSTGRES_SETTINGS.items()),
        f"- TPC-C and CH-benCHmark: {where['warehouses']} warehouses; lineitem of scale {where['scale']:g}; "
        f"{where['seconds']:g} s a round",
        "", "| | Coeval | PostgreSQL | ratio | bar | |", "|---|---:|---:|---:|---:|---|",
    ]
    lines += [ratio_line(measured[piece], *rest) for piece, *rest in LINES if piece in measured]
    if "idle" in measured:
        lines += idle_lines(measured["idle"])
    lines += ["", *remarks(measured), "", "## Rounds", ""]
    for name, piece in measured.items():
        for system, found in piece.items():
            for figures in found["rounds"]:
                lines.append(f"- {name}, {system}: {brief(figures)}")
    return "\n".join(lines) + "\n"


def ratio_line(piece, figure, words, unit, least):
    ours, theirs = medians(piece, "coeval", figure), medians(piece, "postgresql", figure)
    ratio = ours / theirs if theirs else float("inf")
    return (f"| {words} | {ours:,.0f}{unit} | {theirs:,.0f}{unit} | {ratio:.2f} | {least:g} "
            f"| {verdict(ratio >= least)} |")


def idle_lines(piece):
    share, kib = medians(piece, "coeval", "beside_share"), medians(piece, "coeval", "used_kib")
    return [
        f"| TPC-C beside {IDLE_CONNECTIONS:,} idle connections, share of TPC-C alone | {share:.2f} | | | "
        f"{BESIDE_LEAST:g} | {verdict(share >= BESIDE_LEAST)} |",
        f"| resident memory of an idle connection that has run a statement | {kib:.1f} KiB | | | "
        f"at most {CONNECTION_KIB_MOST} | {verdict(kib <= CONNECTION_KIB_MOST)} |",
    ]


def verdict(is_kept):
    return "kept" if is_kept else "**missed**"


def remarks(measured):
    lines = []
    for name, piece in measured.items():
        if foreign(piece) > FOREIGN_CPU_MAX:
            lines.append(f"- **{name}: others used {foreign(piece):.2f} cores in one round, so its figures are "
                         f"orientation, not a measurement**")
        rounds = min(len(system["rounds"]) for system in piece.values())
        if rounds < ROUNDS_LEAST:
            lines.append(f"- {name}: {rounds} rounds only")
        for system, found in piece.items():
            aborts = [figures["abort_rate"] for figures in found["rounds"] if "abort_rate" in figures]
            failed = [figures["failed"] for figures in found["rounds"] if "failed" in figures]
            if aborts:
                lines.append(f"- {name}, {system}: {statistics.median(aborts):.1%} of the attempts lost and were "
                             f"tried again")
            if any(failed):
                lines.append(f"- **{name}, {system}: {max(failed):.0f} transactions failed in one round**")
    return lines
