# SPDX-License-Identifier: Apache-2.0
"""Coeval, in a process of its own: `coeval sql` on a directory, which is given statements through a pipe and says how long each
took, from its text to all of its result in memory.
"""

import contextlib
import re
import statistics
import subprocess
import threading
import time

from peers.machine import resident_kib

# What the shell prints behind each statement, and behind all that a statement printed.
TIME = re.compile(r"Time: ([\d.]+) ms")
END = "end of statement"


class Refused(Exception):
    """A statement failed; its text is the program's own words."""


class Shell:
    """A session that lives as long as this is entered, or until a statement fails."""

    def __init__(self, binary, directory, seconds_most):
        self.seconds_most = seconds_most
        self.command = [str(binary), "sql", str(directory)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        # Read as it comes, so that the program never waits for who reads it.
        self.said = []
        self.listener = threading.Thread(target=lambda: self.said.extend(self.process.stderr))
        self.listener.start()
        self.send("\\timing on")
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.listener.join()
        self.process.stdout.close()
        self.process.stderr.close()

    @property
    def pid(self):
        return self.process.pid

    def time_ms(self, statement):
        """How long a statement took."""
        return self.send(f"{statement}\n;")[1]

    def run(self, statement):
        """The lines that a statement printed."""
        return self.send(f"{statement}\n;")[0]

    def value(self, query):
        """The one value that a query answers with, as text."""
        # Behind the name of the column and the line under it.
        return self.run(query)[2].strip()

    def send(self, text):
        guard = threading.Timer(self.seconds_most, self.process.kill)
        guard.start()
        started = time.monotonic()
        try:
            self.process.stdin.write(f"{text}\n\\echo {END}\n")
            self.process.stdin.flush()
            lines, took_ms = [], None
            for line in self.process.stdout:
                line = line.rstrip("\n")
                if line == END:
                    return lines, took_ms
                found = TIME.match(line)
                if found:
                    took_ms = float(found[1])
                else:
                    lines.append(line)
        except BrokenPipeError:
            pass
        finally:
            guard.cancel()
        # The output has ended: so has the program, and its last words say why.
        status = self.process.wait()
        self.listener.join()
        words = " ".join("".join(self.said).split())
        raise Refused(words or f"the program ended with {status} after {time.monotonic() - started:.0f} s")


def version(binary):
    return subprocess.run([str(binary), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def load(shell, schema, tables):
    """Creates and fills the tables, and has them written; the seconds that it took, and how the database is set up."""
    started = time.monotonic()
    for statement in schema:
        shell.run(statement)
    for table, files in tables.items():
        for file in files:
            shell.run(f"COPY {table} FROM '{file}' (FORMAT parquet)")
    shell.run("CHECKPOINT")
    return {
        "load_s": time.monotonic() - started,
        "isolation": shell.value("SHOW default_transaction_isolation"),
        "durability": shell.value("SELECT durability FROM coeval_store"),
    }


def measure(shell, queries, runs, answers, failed):
    """Each query once, then for its answer, then `runs` times for the clock.

    A query that fails ends the session. It is added to `failed`, and the exception goes on: whoever gets it begins anew without it,
    so that the first runs of the others stay first runs of one process.
    """
    def asked(name, statement):
        try:
            return shell.time_ms(statement)
        except Refused as refused:
            failed[name] = str(refused)
            raise

    asking = {name: text for name, text in queries.items() if name not in failed}
    first_ms = {name: asked(name, text) for name, text in asking.items()}
    for name, text in asking.items():
        asked(name, f"COPY ({text}) TO '{answers / name}.csv' (FORMAT csv, HEADER, NULL '\\N')")
    times_ms = {name: [] for name in asking}
    for _ in range(runs):
        for name, text in asking.items():
            times_ms[name].append(asked(name, text))
    return {
        "first_ms": first_ms, "warm_ms": {name: statistics.median(times) for name, times in times_ms.items()},
        "resident_kib": resident_kib(shell.pid),
    }


def delta_shares(shell):
    """The share of its rows that each table has in its delta, if any."""
    shares = {}
    for line in shell.run("SELECT table_name, rows, delta_rows FROM coeval_tables WHERE delta_rows > 0")[2:]:
        if "|" in line:
            table, rows, changed = (cell.strip() for cell in line.split("|"))
            shares[table] = int(changed) / int(rows)
    return shares
