# SPDX-License-Identifier: Apache-2.0
"""The report `analytics` as Markdown: the bars, then each suite with all its queries."""

import math
import statistics

from peers.analytics.suites import SUITES
from peers.machine import FOREIGN_CPU_MAX

# What rows in the delta, and the first run after a start, may cost in the geometric mean.
CHANGED_MOST, FIRST_MOST = 1.15, 1.3
ROUNDS_LEAST = 5


class Figures:
    """What the rounds of a suite say together: medians by query, in milliseconds."""

    def __init__(self, name, found):
        self.suite, self.found = SUITES[name], found
        quiet = [figures for figures in found["rounds"] if figures["foreign_cpu"] <= FOREIGN_CPU_MAX]
        self.quiet_count = len(quiet)
        self.rounds = quiet if len(quiet) >= ROUNDS_LEAST else found["rounds"]
        self.ours, self.theirs = self.medians("coeval", "warm_ms"), self.medians("duckdb", "warm_ms")
        self.first, self.their_first = self.medians("coeval", "first_ms"), self.medians("duckdb", "first_ms")
        self.changed = self.medians("coeval", "changed_ms")
        self.failed = found["failed"]
        # In any round: also in those that were not quiet.
        self.differing, self.moved = latest(found["rounds"], "differing")
        self.changed_differing, _ = latest(found["rounds"], "changed_differing")

    def medians(self, system, figure):
        # A query that failed in a later round has figures from earlier ones, and fails all the same.
        failed = self.found["failed"]["changed" if figure == "changed_ms" else system]
        times = {}
        for figures in self.rounds:
            for name, took in figures[system].get(figure, {}).items():
                times.setdefault(name, []).append(took)
        return {name: statistics.median(all_times) for name, all_times in times.items() if name not in failed}

    def median(self, system, figure):
        return statistics.median(figures[system][figure] for figures in self.rounds)

    def ratios(self, above, below):
        """Ratios of the queries that both have, in their order."""
        return {name: above[name] / below[name] for name in self.found["queries"] if name in above and name in below}

    def left_out(self, ratios):
        return [name for name in self.found["queries"] if name not in ratios]


def latest(rounds, figure):
    """The answers that differed in some round, and those whose rows had other places at the most."""
    differing, moved = {}, {}
    for figures in rounds:
        for name, found in sorted(figures[figure].items()):
            (differing if found["rows"] else moved)[name] = found
    return differing, moved


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else math.nan


def brief(figures):
    """A line on a round."""
    ours, theirs = figures["coeval"]["warm_ms"], figures["duckdb"]["warm_ms"]
    both = [name for name in ours if name in theirs]
    means = [geometric_mean(times[name] for name in both) for times in (ours, theirs)]
    differing = sum(found["rows"] > 0 for found in figures["differing"].values())
    return (f"{len(both)} queries, Coeval {means[0]:.1f} ms, DuckDB {means[1]:.1f} ms, {differing} answers differ, "
            f"foreign_cpu {figures['foreign_cpu']:.2f}")


def text(kept):
    """The report on all that was kept."""
    suites = {name: Figures(name, kept["pieces"][name]) for name in SUITES if name in kept["pieces"]}
    where = kept["conditions"]
    first = next(iter(suites.values())).rounds[0]
    lines = [
        "# Analytical suites: Coeval and DuckDB", "",
        "Each round of a suite loads each system into a new directory from the same Parquet files, with primary keys declared, and "
        "makes a checkpoint. Then it starts the system anew, with its files in the file cache, and asks each query once (the first "
        "run), once for its answer, and then for the clock. The systems take turns, each in a process of its own on the same "
        "processors. A time is from giving the text to the statement's end, without a wire and without showing the rows: "
        "`\\timing` of `coeval sql`, and `execute` with `complete` of DuckDB's Python package, whose default order of "
        "NULL is set to PostgreSQL's. Medians; a ratio is of Coeval's time to DuckDB's.", "",
        f"- command: `{where['command']}`",
        f"- {where['date']}; commit {where['commit']}; {where['machine']}",
        f"- {first['coeval']['version']} (isolation {first['coeval']['isolation']}, durability {first['coeval']['durability']}); "
        f"{first['duckdb']['version']} (a database file, CHECKPOINT after the load)",
    ]
    for name, figures in suites.items():
        lines += round_lines(name, figures)
    lines += ["", "## Bars", "", "| suite | what | figure | at most | |", "|---|---|---:|---:|---|"]
    for figures in suites.values():
        lines += bar_lines(figures)
    for name, figures in suites.items():
        lines += suite_lines(name, figures)
    return "\n".join(lines) + "\n"


def round_lines(name, figures):
    found = figures.found
    foreign = ", ".join(f"{one['foreign_cpu']:.2f}" for one in found["rounds"])
    lines = [f"- {name}: {found['size']}, {found['threads']} threads, {len(found['rounds'])} rounds, runs of each query for the clock in each: "
             f"{found['runs']}; foreign_cpu by round: {foreign}"]
    if figures.quiet_count < ROUNDS_LEAST:
        lines.append(f"- **{name}: only {figures.quiet_count} of {len(found['rounds'])} rounds had foreign_cpu <= {FOREIGN_CPU_MAX}: "
                     f"all are used, and the figures are orientation, not a measurement**")
    return lines


def bar_lines(figures):
    """Each bar with its verdict. What fails or differs keeps no bar, whatever its time would be."""
    suite, found = figures.suite, figures.found
    warm = figures.ratios(figures.ours, figures.theirs)
    wrong = bool(figures.left_out(warm) or figures.differing)
    lines = [bar_line(suite.title, "geometric mean of DuckDB's time" + over(figures, warm), geometric_mean(warm.values()),
                      suite.mean_most, wrong)]
    if suite.worst_most is not None:
        lines.append(bar_line(suite.title, f"slowest beside DuckDB{named_worst(warm)}", max(warm.values(), default=math.nan),
                              suite.worst_most, wrong))
    if found["update_fraction"] > 0:
        changed = figures.ratios(figures.changed, figures.ours)
        wrong = bool(figures.left_out(changed) or figures.changed_differing)
        what = f"{found['update_fraction']:.0%} of rows changed since the checkpoint, of its own time" + over(figures, changed)
        lines.append(bar_line(suite.title, what, geometric_mean(changed.values()), CHANGED_MOST, wrong))
    first = figures.ratios(figures.first, figures.ours)
    lines.append(bar_line(suite.title, "first run after a start, of warm" + over(figures, first), geometric_mean(first.values()),
                          FIRST_MOST, bool(figures.left_out(first))))
    return lines


def bar_line(title, what, figure, most, wrong):
    is_kept = not wrong and figure <= most
    verdict = "kept" if is_kept else "**missed**"
    if wrong and figure <= most:
        verdict = "**missed**: answers are wanting"
    return f"| {title} | {what} | {figure:.2f} | {most:g} | {verdict} |"


def over(figures, ratios):
    """Says over how many queries a mean is, if not over all."""
    count = len(figures.found["queries"])
    return "" if len(ratios) == count else f", over {len(ratios)} of {count} queries"


def named_worst(ratios):
    return f": {max(ratios, key=ratios.get).upper()}" if ratios else ""


def suite_lines(name, figures):
    found = figures.found
    warm = figures.ratios(figures.ours, figures.theirs)
    first, their_first = figures.ratios(figures.first, figures.ours), figures.ratios(figures.their_first, figures.theirs)
    changed = figures.ratios(figures.changed, figures.ours)
    lines = ["", f"## {figures.suite.title}, {found['size']}", "", *size_lines(figures), ""]
    if first and their_first:
        slowest = max(first, key=first.get)
        lines.append(f"- first run after a start, of warm: {geometric_mean(first.values()):.2f}, at most {first[slowest]:.2f} "
                     f"({slowest.upper()}); DuckDB's {geometric_mean(their_first.values()):.2f}")
    if changed:
        shares = figures.rounds[0]["coeval"]["delta_shares"]
        named = ", ".join(f"{table} {share:.1%}" for table, share in sorted(shares.items()))
        slowest = max(changed, key=changed.get)
        lines.append(f"- with rows in the delta ({named}), of its own time: {geometric_mean(changed.values()):.2f}, at most "
                     f"{changed[slowest]:.2f} ({slowest.upper()})")
    lines += wanting_lines(figures, warm)
    with_changed = found["update_fraction"] > 0
    head = "| query | Coeval (ms) | DuckDB (ms) | ratio | first run (ms) | of warm |"
    rule = "|---|---:|---:|---:|---:|---:|"
    lines += ["", head + (" changed (ms) | of its own |" if with_changed else ""), rule + ("---:|---:|" if with_changed else "")]
    for query in found["queries"]:
        cells = [
            query.upper(), figures.ours.get(query, "fails"), figures.theirs.get(query, "fails"), warm.get(query, ""),
            figures.first.get(query, ""), first.get(query, ""),
        ]
        if with_changed:
            cells += [figures.changed.get(query, "fails"), changed.get(query, "")]
        ratio_places = (3, 5, 7)
        shown = [shown_cell(cell, 2 if place in ratio_places else 1) for place, cell in enumerate(cells)]
        lines.append(f"| {' | '.join(shown)} |")
    ours, theirs = (geometric_mean(times[query] for query in warm) for times in (figures.ours, figures.theirs))
    lines.append(f"| geometric mean{over(figures, warm)} | {ours:.1f} | {theirs:.1f} | {geometric_mean(warm.values()):.2f} |"
                 + " |" * (4 if with_changed else 2))
    return lines


def shown_cell(cell, digits):
    return f"{cell:.{digits}f}" if isinstance(cell, float) else cell


def size_lines(figures):
    lines = ["| | Coeval | DuckDB | ratio |", "|---|---:|---:|---:|"]
    for what, figure, unit, digits in [
        ("load from Parquet, checkpoint included (s)", "load_s", 1, 1), ("on the disk behind it (MiB)", "disk_bytes", 2**20, 0),
        ("resident behind the queries (MiB)", "resident_kib", 2**10, 0),
    ]:
        ours, theirs = (figures.median(system, figure) / unit for system in ("coeval", "duckdb"))
        lines.append(f"| {what} | {ours:,.{digits}f} | {theirs:,.{digits}f} | {ours / theirs:.2f} |")
    return lines


def wanting_lines(figures, warm):
    """Everything that keeps a query out of the figures, or its answer from being the other's."""
    lines = []
    failed = figures.failed
    of_changed = {name: words for name, words in failed["changed"].items() if name not in failed["coeval"]}
    for system, queries in (("Coeval", failed["coeval"]), ("Coeval with changed rows", of_changed), ("DuckDB", failed["duckdb"])):
        for query, words in sorted(queries.items()):
            lines.append(f"- **{query.upper()} fails on {system}**: {one_line(words)}")
    for what, differing in (("differs", figures.differing), ("with changed rows differs", figures.changed_differing)):
        for query, found in differing.items():
            ours, theirs = found["first"]
            lines.append(f"- **{query.upper()}: the answer {what}** in {found['rows']} rows; the first is {row_words(ours)} on Coeval, "
                         f"{row_words(theirs)} on DuckDB")
    for query, found in figures.moved.items():
        ours, theirs = found["first"]
        lines.append(f"- {query.upper()}: the same rows in another order; the first with another place is {row_words(ours)} on "
                     f"Coeval, {row_words(theirs)} on DuckDB")
    left_out = figures.left_out(warm)
    if left_out:
        lines.append(f"- not in the geometric mean: {', '.join(name.upper() for name in left_out)}")
    if figures.differing:
        lines.append("- the times of queries whose answers differ are in the geometric mean")
    if not (left_out or of_changed or figures.differing or figures.changed_differing):
        lines.append(f"- answers: all {len(figures.found['queries'])} are equal in every round (numbers to a relative 1e-6)")
    return lines


def one_line(words):
    words = " ".join(words.split()).replace("|", "\\|")
    return words if len(words) <= 300 else words[:300] + " ..."


def row_words(row):
    return "no row" if row is None else f"`{one_line(', '.join(row)).replace('`', ' ')}`"
