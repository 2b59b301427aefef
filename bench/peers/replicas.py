# SPDX-License-Identifier: Apache-2.0
"""The report on replicas: a primary and a streaming standby of Coeval and of PostgreSQL, terminals on the primary, and queries on
the standby at the highest level that it offers.

PostgreSQL's standby runs in two ways: as it comes, where log that removes what queries still read waits for them
(`max_standby_streaming_delay`) and cancels them then, and with `hot_standby_feedback`, where the primary keeps it for them.
"""

import contextlib
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg

from peers import wire
from peers.analysts import QUERIES, Report, Stream
from peers.heartbeats import Heartbeats, connect
from peers.machine import FOREIGN_CPU_MAX, CpuWatch, coeval, command_line
from peers.pieces import Context
from peers.rss import WITHOUT_SEQSCAN
from peers.servers import POSTGRES_SETTINGS, Coeval, CoevalReplica, Pair, Postgres, PostgresStandby

# Rounds in which a pair is stopped are no reason for it to end its connection.
PATIENT_PRIMARY = {"wal_sender_timeout": "0"}
PATIENT_STANDBY = {"wal_receiver_timeout": "0"}
PIECES = {
    "following": "terminals alone, the standby follows",
    "streams": "terminals beside streams of queries on the standby",
    "report": "terminals beside one long transaction on the standby",
}
LEVELS = {"coeval": "serializable", "postgresql": "repeatable read"}
WAYS = {"coeval": ["safe"], "postgresql": ["delay", "feedback"]}
TITLES = {
    ("coeval", "safe"): "Coeval, SERIALIZABLE READ ONLY on safe snapshots",
    ("postgresql", "delay"): "PostgreSQL, REPEATABLE READ",
    ("postgresql", "feedback"): "PostgreSQL, REPEATABLE READ, `hot_standby_feedback = on`",
}
LAG_P50_MS_MOST, LAG_P99_MS_MOST = 10, 50
TERMINALS = 4
ROUNDS_LEAST = 5


def run(arguments):
    arguments.terminals = arguments.terminals or TERMINALS
    wire.run_pieces(arguments, PIECES, lambda name, context: measure(name, context, arguments), conditions, report)


def conditions(context, arguments):
    return wire.conditions(context, arguments) | {
        "streams": arguments.streams, "terminals": arguments.terminals, "report_seconds": arguments.report_seconds,
        "streaming_delay": arguments.streaming_delay, "population": "tiny" if arguments.tiny else "full",
    }


class Primary(Postgres):
    """As PostgreSQL is best for transactions at SERIALIZABLE."""

    settings = POSTGRES_SETTINGS | WITHOUT_SEQSCAN | PATIENT_PRIMARY


class Standby(PostgresStandby):
    settings = POSTGRES_SETTINGS | PATIENT_STANDBY


def measure(name, context, arguments):
    """Both pairs in turn, and of PostgreSQL both ways in turn; the figures of each round by system and way."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=context.work))
    directory.chmod(0o755)
    if name == "report":
        context = Context(context.binary, context.postgres, context.work, arguments.report_seconds, context.warehouses,
                          context.scale)
    found = {}
    with contextlib.ExitStack() as stack:
        pairs = []
        for system in LEVELS:
            for other in pairs:
                other.pause()
            pair = start(system, context, directory, arguments, stack)
            pairs.append(pair)
            found[system] = {"version": context.psql(pair.primary, "SELECT version()"),
                             "serializable": refusal(pair.standby), "ways": {},
                             "command": command_line("bench/compare")}
        streams = {}
        for number in range(1, arguments.rounds + 1):
            for pair in pairs:
                for way in WAYS[pair.name]:
                    # Nobody asks, so nobody is in the way of the log.
                    if name == "following" and way == "feedback":
                        continue
                    analysts = streams.setdefault((pair.name, way), analysts_of(name, pair, arguments))
                    with wire.alone(pair, pairs):
                        figures = ask(name, context, pair, way, arguments, analysts)
                    found[pair.name]["ways"].setdefault(way, []).append(figures)
                    print(f"{name}, round {number}, {pair.title}, {way}: {brief(figures)}", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    return found


def start(system, context, directory, arguments, stack):
    """A loaded primary and a standby that has a copy of it."""
    primary = Coeval(context.binary, directory) if system == "coeval" else Primary(context.postgres, directory)
    stack.callback(primary.stop)
    # The first run loads; a moment is enough.
    coeval(context.binary, "chbench", "--url", primary.url, "--dir", context.work, "--warehouses", context.warehouses,
           "--seconds", 1, "--streams", 0, *settings(arguments))
    Heartbeats.prepare(primary)
    context.psql(primary, "CHECKPOINT")
    if system == "coeval":
        standby = CoevalReplica(context.binary, directory, primary)
    else:
        standby = Standby(context.postgres, directory, primary)
    stack.callback(standby.stop)
    pair = Pair(primary, standby)
    # A stopped process does not end, so whoever is paused goes on before the servers stop.
    stack.callback(pair.resume)
    return pair


def settings(arguments):
    tiny = ["--tiny"] if arguments.tiny else []
    return ["--terminals", arguments.terminals, "--isolation", "serializable", *tiny]


def refusal(standby):
    """What a standby says to who wants SERIALIZABLE; nothing if it has that."""
    try:
        with connect(standby, "read committed") as connection:
            connection.execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")
            connection.execute("SELECT n FROM heartbeat")
            connection.execute("COMMIT")
    except psycopg.Error as error:
        return f"{error.sqlstate}: {error.diag.message_primary}"
    return ""


def analysts_of(name, pair, arguments):
    level = LEVELS[pair.name]
    if name == "streams":
        return [Stream(pair.standby, level, number) for number in range(arguments.streams)]
    return [Report(pair.standby, level)] if name == "report" else []


def ask(name, context, pair, way, arguments, analysts):
    """One phase: terminals, heartbeats and analysts beside each other."""
    level = LEVELS[pair.name]
    if pair.name == "postgresql":
        context.psql(pair.standby, f"ALTER SYSTEM SET hot_standby_feedback = {'on' if way == 'feedback' else 'off'}",
                     f"ALTER SYSTEM SET max_standby_streaming_delay = '{arguments.streaming_delay}'",
                     "SELECT pg_reload_conf()")
    context.psql(pair.primary, "CHECKPOINT")
    Heartbeats.wait_until_caught_up(pair, level)
    cpu = CpuWatch(pair.primary.pid, pair.standby.pid)
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        started = time.monotonic()
        terminals = pool.submit(context.bench, pair.primary, "tpcc", *settings(arguments))
        beats = stack.enter_context(Heartbeats(pair, level, own_age(pair.name)))
        for analyst in analysts:
            stack.enter_context(analyst)
        # The terminals' clock runs from a tenth of the seconds on, and a moment later for their connections.
        begin, end = started + 0.1 * context.seconds + 0.5, started + 1.1 * context.seconds
        # They may end early only by failing.
        while time.monotonic() < end and not terminals.done():
            time.sleep(0.05)
        dead_rows = dead_rows_of(context, pair)
        stack.close()
        figures = terminals.result()
    figures = {name: figures[name] for name in ("transactions_per_s", "abort_rate", "latency_p99_ms", "fdatasync_p50_us")}
    figures |= beats.figures(begin, end) | answers(name, analysts, begin, end) | {"foreign_cpu": cpu.foreign_cores()}
    return figures if dead_rows is None else figures | {"dead_rows": dead_rows}


def own_age(system):
    if system == "postgresql":
        statement = "SELECT extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp())::float8"
        return lambda connection: connection.execute(statement, prepare=True).fetchone()[0]
    # "3 commits, 7 ms"
    said = lambda connection: connection.execute("SHOW coeval.snapshot_lag").fetchone()[0]
    return lambda connection: float(said(connection).split(", ")[1].split()[0]) / 1e3


def dead_rows_of(context, pair):
    """Versions of rows that PostgreSQL's primary has not removed yet, as its statistics have it."""
    if pair.name != "postgresql":
        return None
    return int(context.psql(pair.primary, "SELECT sum(n_dead_tup) FROM pg_stat_user_tables"))


def answers(name, analysts, begin, end):
    """What analysts got between two moments."""
    if not analysts:
        return {}
    cancelled = [message for analyst in analysts for message in analyst.cancelled_between(begin, end)]
    found = {"cancelled": len(cancelled), "messages": sorted(set(cancelled))}
    if name == "report":
        [analyst] = analysts
        answered = sum(begin <= moment < end for moment in analyst.answered)
        found |= {"report_lasted_s": analyst.lasted_s_max, "differing": analyst.differing}
        analyst.lasted_s_max = 0.0
    else:
        times = [answer for analyst in analysts for answer in analyst.answers(begin, end)]
        answered = len(times)
        found["query_s"] = [[took for place, took in times if place == number] for number in range(len(QUERIES))]
    return found | {"queries_per_s": answered / (end - begin)}


def brief(figures):
    names = ["transactions_per_s", "abort_rate", "queries_per_s", "cancelled", "report_lasted_s", "differing", "lag_p50_ms",
             "lag_p99_ms", "lag_max_ms", "age_p50_ms", "age_p99_ms", "own_age_p50_ms", "own_age_p99_ms", "dead_rows",
             "foreign_cpu"]
    return ", ".join(f"{name} {figures[name]:.4g}" for name in names if name in figures)


# ---- the report ----


def median(rounds, figure):
    return statistics.median(figures.get(figure, 0) for figures in rounds)


def report(kept):
    measured, where = kept["pieces"], kept["conditions"]
    systems = [found for piece in measured.values() for found in piece.values()]
    versions, commands = ({found[name] for found in systems} for name in ("version", "command"))
    syncs = [figures["fdatasync_p50_us"] for found in systems for rounds in found["ways"].values() for figures in rounds]
    lines = [
        "# Replicas: Coeval and PostgreSQL", "",
        "Of each system a primary and a standby that streams from it, as servers on one machine. "
        f"TPC-C's {where['terminals']} terminals (`coeval bench tpcc --url`) work on the primary at SERIALIZABLE, on both "
        "systems; every commit waits for the primary's disk, and for no standby. Queries go to the standby: Coeval's in "
        "transactions that are SERIALIZABLE READ ONLY, on safe snapshots; PostgreSQL's at REPEATABLE READ, the highest level that "
        "a standby of it has. The pair that is not measured is stopped meanwhile. Medians of the rounds count.", "",
        *(f"- `{command}`" for command in sorted(commands)),
        f"- {where['date']}; commit {where['commit']}; {where['machine']}; fdatasync p50 {statistics.median(syncs):.0f} us",
        *(f"- {version}" for version in sorted(versions)),
        f"- TPC-C with {where['warehouses']} warehouse(s), {where['population']} population; {where['seconds']:g} s a round, "
        f"{where['report_seconds']:g} s beside the long transaction; {where['streams']} stream(s); on each primary a client more, which writes "
        "a row every 10 ms",
        "- PostgreSQL: " + ", ".join(f"`{name} = {value}`" for name, value in POSTGRES_SETTINGS.items())
        + "; the primary `enable_seqscan = off`, its best at SERIALIZABLE; autovacuum as it comes; the standby "
        f"`max_standby_streaming_delay = {where['streaming_delay']}`; no timeouts of replication, as pairs are stopped",
        *refusals(measured), "",
        "*Lag*: for how long what a query on the standby sees has lacked something, 0 if nothing: a row is written on the primary "
        "every 10 ms and read on the standby about as often; the time since the acknowledgement of the first write that is not "
        "seen. *Age*: the time since the newest write that is seen was sent, so the time to the next one is in it. *Own*: what the "
        "standby says itself: `now() - pg_last_xact_replay_timestamp()`, the age of the last commit that it shows; `SHOW "
        "coeval.snapshot_lag`, for how long the safe snapshot has lacked what has arrived there.", "",
    ]
    for name, piece in measured.items():
        lines += piece_lines(name, piece)
    lines += ["## Rounds", ""]
    for name, piece in measured.items():
        lines += remarks(name, piece)
        for system, found in piece.items():
            for way, rounds in found["ways"].items():
                lines += [f"- {name}, {system}, {way}: {brief(figures)}" for figures in rounds]
    return "\n".join(lines) + "\n"


def refusals(measured):
    said = {found["serializable"] for piece in measured.values() for found in piece.values() if found["serializable"]}
    return [f"- SERIALIZABLE on PostgreSQL's standby: `{message}`" for message in sorted(said)]


def rows_of(piece):
    return [(TITLES[system, way], (system, way), rounds) for system, found in piece.items()
            for way, rounds in found["ways"].items()]


def piece_lines(name, piece):
    """The table of a piece, and ratios of Coeval to each of PostgreSQL's ways."""
    has_queries = name != "following"
    head = ["", "transactions/s", "aborts"] + ["queries/s", "cancelled"] * has_queries + ["longest report (s)"] * (name == "report")
    head += ["lag p50 / p99 / max (ms)", "age p50 / p99 (ms)", "own p50 / p99 (ms)", "dead rows on the primary"]
    lines = [f"## {PIECES[name].capitalize()}", "", f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for title, _, rounds in rows_of(piece):
        cells = [title, f"{median(rounds, 'transactions_per_s'):,.0f}", f"{median(rounds, 'abort_rate'):.2%}"]
        if has_queries:
            cells += [f"{median(rounds, 'queries_per_s'):.2f}", f"{sum(figures['cancelled'] for figures in rounds)}"]
        if name == "report":
            cells.append(f"{median(rounds, 'report_lasted_s'):.1f}")
        numbers = [(["lag_p50_ms", "lag_p99_ms", "lag_max_ms"]), ["age_p50_ms", "age_p99_ms"], ["own_age_p50_ms", "own_age_p99_ms"]]
        cells += [" / ".join(f"{median(rounds, figure):,.1f}" for figure in figures) for figures in numbers]
        cells.append(f"{median(rounds, 'dead_rows'):,.0f}" if "dead_rows" in rounds[0] else "")
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", *ratio_lines(name, piece)]
    if name == "following":
        lines += bar_lines(piece)
    messages = sorted({message for _, _, rounds in rows_of(piece) for figures in rounds for message in figures.get("messages", [])})
    if messages:
        lines += ["What was said to those that were cancelled: " + "; ".join(f"`{message}`" for message in messages) + ".", ""]
    return lines


def ratio_lines(name, piece):
    ours = piece["coeval"]["ways"]["safe"]
    head = ["Coeval to", "transactions"] + ["queries"] * (name != "following")
    head += ["time of all queries that both answered"] * (name == "streams") + ["lag p50", "lag p99"]
    lines = [f"| {' | '.join(head)} |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for title, (system, _), rounds in rows_of(piece):
        if system == "coeval":
            continue
        cells = [title, quotient(ours, rounds, "transactions_per_s")]
        if name != "following":
            cells.append(quotient(ours, rounds, "queries_per_s"))
        if name == "streams":
            cells.append(query_time_ratio(ours, rounds))
        cells += [quotient(ours, rounds, "lag_p50_ms"), quotient(ours, rounds, "lag_p99_ms")]
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def quotient(ours, theirs, figure):
    below = median(theirs, figure)
    return f"{median(ours, figure) / below:.3g}" if below else "-"


def query_time_ratio(ours, theirs):
    """How many queries a stream gets through with depends on which they are, so means of the same ones are added up."""
    added, common = [0.0, 0.0], 0
    for number in range(len(QUERIES)):
        times = [[took for figures in rounds for took in figures["query_s"][number]] for rounds in (ours, theirs)]
        if all(times):
            common += 1
            added = [total + statistics.mean(some) for total, some in zip(added, times)]
    return f"{added[0] / added[1]:.3f} ({common} queries)" if common else "-"


def bar_lines(piece):
    rounds = piece["coeval"]["ways"]["safe"]
    p50, p99 = median(rounds, "lag_p50_ms"), median(rounds, "lag_p99_ms")
    return [f"Bars for Coeval's lag: p50 under {LAG_P50_MS_MOST} ms {wire.verdict(p50 < LAG_P50_MS_MOST)}, "
            f"p99 under {LAG_P99_MS_MOST} ms {wire.verdict(p99 < LAG_P99_MS_MOST)}.", ""]


def remarks(name, piece):
    lines = []
    rounds = [rounds for _, _, rounds in rows_of(piece)]
    foreign = max(figures["foreign_cpu"] for figures in sum(rounds, []))
    if foreign > FOREIGN_CPU_MAX:
        lines.append(f"- **{name}: others used {foreign:.2f} cores in one round, so its figures are orientation, not a "
                     f"measurement**")
    if min(map(len, rounds)) < ROUNDS_LEAST:
        lines.append(f"- {name}: {min(map(len, rounds))} rounds only")
    differing = sum(figures.get("differing", 0) for figures in sum(rounds, []))
    if differing:
        lines.append(f"- **{name}: {differing} answers of a report were not those of its snapshot**")
    return lines
