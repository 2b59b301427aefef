# SPDX-License-Identifier: Apache-2.0
"""The report on SERIALIZABLE over the wire: Coeval and PostgreSQL on TPC-C, alone and beside analytical queries whose
transactions are declared read-only in each way that a system has.

PostgreSQL runs twice on TPC-C alone: tuned, without sequential scans (its best for transactions at SERIALIZABLE), and as it
comes. Beside queries it is tuned and scans as it likes.
"""

import contextlib
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from peers import wire
from peers.machine import FOREIGN_CPU_MAX, coeval
from peers.servers import POSTGRES_SETTINGS, Coeval, Postgres

WITHOUT_SEQSCAN = {"enable_seqscan": "off"}
# How the streams of each system declare their transactions. The first is nobody: terminals alone.
WAYS = {
    "coeval": ["alone", "ssi", "deferrable", "safe"],
    "postgresql": ["alone", "ssi", "deferrable"],
}
WORDS = {
    "alone": "no queries", "ssi": "READ ONLY under SSI", "deferrable": "READ ONLY DEFERRABLE",
    "safe": "READ ONLY on safe snapshots",
}
TERMINALS = {"tpcc": 8, "beside": 4}
BARS = {"postgresql": 1.3, "postgresql-default": 2.0}
TITLES = {"coeval": "Coeval", "postgresql": "PostgreSQL, tuned", "postgresql-default": "PostgreSQL, defaults"}
ROUNDS_LEAST = 5


def add_options(parser):
    options = parser.add_argument_group("the report `rss`: both at SERIALIZABLE, over the wire; --pieces tpcc,beside")
    options.add_argument("--streams", type=int, default=1, help="beside: threads that ask analytical queries")
    options.add_argument("--terminals", type=int, help="threads that run transactions [8 for tpcc, 4 for beside]")
    options.add_argument("--tiny", action="store_true", help="a population for trying it out; the figures mean nothing")


def run(arguments):
    wire.run_pieces(arguments, TERMINALS, lambda name, context: measure(name, context, arguments), conditions, report)


def conditions(context, arguments):
    return wire.conditions(context, arguments) | {"streams": arguments.streams}


class DefaultPostgres(Postgres):
    """PostgreSQL as it comes."""

    name, title, settings = "postgresql-default", "PostgreSQL, defaults", {}


class OltpPostgres(Postgres):
    """PostgreSQL as it is best for transactions at SERIALIZABLE."""

    settings = POSTGRES_SETTINGS | WITHOUT_SEQSCAN


def servers_of(name, context, directory):
    yield Coeval(context.binary, directory)
    yield (OltpPostgres if name == "tpcc" else Postgres)(context.postgres, directory)
    if name == "tpcc":
        yield DefaultPostgres(context.postgres, directory)


def measure(name, context, arguments):
    """All servers in turn, and of each server all ways in turn; the figures of each round by server and way."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=context.work))
    directory.chmod(0o755)
    found = {}
    with contextlib.ExitStack() as stack:
        servers = []
        for server in servers_of(name, context, directory):
            stack.callback(server.stop)
            servers.append(server)
            found[server.name] = {"version": context.psql(server, "SELECT version()"), "ways": {}}
        for server in servers:
            with wire.alone(server, servers):
                load(name, context, server, arguments)
        for number in range(1, arguments.rounds + 1):
            for server in servers:
                ways = WAYS[server.name] if name == "beside" else ["alone"]
                for way in ways:
                    with wire.alone(server, servers):
                        figures = ask(name, context, server, way, arguments)
                        context.psql(server, "CHECKPOINT")
                    found[server.name]["ways"].setdefault(way, []).append(figures)
                    print(f"{name}, round {number}, {server.title}, {way}: {wire.brief(figures)}", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    return found


def settings(name, arguments):
    tiny = ["--tiny"] if arguments.tiny else []
    return ["--terminals", arguments.terminals or TERMINALS[name], "--isolation", "serializable", *tiny]


def load(name, context, server, arguments):
    # The first run loads; a moment is enough.
    workload = "tpcc" if name == "tpcc" else "chbench"
    streams = [] if name == "tpcc" else ["--streams", 0]
    coeval(context.binary, workload, "--url", server.url, "--dir", context.work, "--warehouses", context.warehouses,
           "--seconds", 1, *streams, *settings(name, arguments))
    context.psql(server, "CHECKPOINT")


def ask(name, context, server, way, arguments):
    if name == "tpcc":
        return context.bench(server, "tpcc", *settings(name, arguments))
    streams = ["--streams", 0] if way == "alone" else ["--streams", arguments.streams, "--readers", way]
    return context.bench(server, "chbench", *streams, *settings(name, arguments))


# ---- the report ----


def median(rounds, figure):
    return statistics.median(figures.get(figure, 0) for figures in rounds)


def report(kept):
    measured, where = kept["pieces"], kept["conditions"]
    versions = {system["version"] for piece in measured.values() for system in piece.values()}
    tuned = ", ".join(f"`{name} = {value}`" for name, value in POSTGRES_SETTINGS.items())
    lines = [
        "# SERIALIZABLE over the wire: Coeval and PostgreSQL", "",
        "Both are servers on one machine, asked by `coeval bench --url` over the loopback; both wait for the disk at each "
        "commit. Systems and ways alternate; the servers that are not measured are stopped meanwhile. Medians count. "
        "What was refused was tried again, and is in the share of aborts.", "",
        f"- {where['date']}; commit {where['commit']}; {where['machine']}",
        *(f"- {version}" for version in sorted(versions)),
        f"- PostgreSQL tuned: {tuned}; for TPC-C alone also `enable_seqscan = off`",
        f"- {where['warehouses']} warehouses; {where['seconds']:g} s a round", "",
    ]
    if "tpcc" in measured:
        lines += tpcc_lines(measured["tpcc"])
    if "beside" in measured:
        lines += beside_lines(measured["beside"], where["streams"])
    lines += ["## Rounds", ""]
    for name, piece in measured.items():
        lines += remarks(name, piece)
        for system, found in piece.items():
            for way, rounds in found["ways"].items():
                lines += [f"- {name}, {TITLES[system]}, {way}: {wire.brief(figures)}" for figures in rounds]
    return "\n".join(lines) + "\n"


def tpcc_lines(piece):
    lines = ["## TPC-C, all terminals at SERIALIZABLE", "",
             "| | transactions/s | aborts | Coeval's ratio | bar | |", "|---|---:|---:|---:|---:|---|"]
    ours = median(piece["coeval"]["ways"]["alone"], "transactions_per_s")
    for system, found in piece.items():
        rounds = found["ways"]["alone"]
        theirs, aborts = median(rounds, "transactions_per_s"), median(rounds, "abort_rate")
        line = f"| {TITLES[system]} | {theirs:,.0f} | {aborts:.2%} |"
        if system in BARS:
            ratio = ours / theirs if theirs else float("inf")
            line += f" {ratio:.2f} | {BARS[system]:g} | {wire.verdict(ratio >= BARS[system])} |"
        else:
            line += " | | |"
        lines.append(line)
    return [*lines, ""]


def beside_lines(piece, streams):
    lines = [
        f"## Terminals beside {streams} stream(s) of analytical queries", "",
        "Only the queries' transactions are declared read-only; Order-Status and Stock-Level are like the others.", "",
        "| | queries | transactions/s | of alone | aborts | queries/h | queries refused |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for system, found in piece.items():
        alone = median(found["ways"]["alone"], "transactions_per_s")
        for way, rounds in found["ways"].items():
            transactions = median(rounds, "transactions_per_s")
            share = transactions / alone if alone else 0
            queries = "" if way == "alone" else f"{median(rounds, 'queries_per_h'):,.0f}"
            refused = "" if way == "alone" else f"{sum(figures.get('stream_aborts', 0) for figures in rounds):.0f}"
            lines.append(f"| {TITLES[system]} | {WORDS[way]} | {transactions:,.0f} | {share:.2f} "
                         f"| {median(rounds, 'abort_rate'):.2%} | {queries} | {refused} |")
    lines += ["", "| Coeval on safe snapshots to | transactions | queries |", "|---|---:|---:|"]
    ours = piece["coeval"]["ways"]["safe"]
    for system, found in piece.items():
        for way, rounds in found["ways"].items():
            if way == "alone" or (system, way) == ("coeval", "safe"):
                continue
            ratios = []
            for figure in ("transactions_per_s", "queries_per_h"):
                theirs = median(rounds, figure)
                ratios.append(f"{median(ours, figure) / theirs:.2f}" if theirs else "-")
            lines.append(f"| {TITLES[system]}, {WORDS[way]} | {' | '.join(ratios)} |")
    return [*lines, ""]


def remarks(name, piece):
    lines = []
    rounds = [rounds for found in piece.values() for rounds in found["ways"].values()]
    foreign = max(figures["foreign_cpu"] or 0 for figures in sum(rounds, []))
    if foreign > FOREIGN_CPU_MAX:
        lines.append(f"- **{name}: others used {foreign:.2f} cores in one round, so its figures are orientation, not a "
                     f"measurement**")
    if min(map(len, rounds)) < ROUNDS_LEAST:
        lines.append(f"- {name}: {min(map(len, rounds))} rounds only")
    return lines
