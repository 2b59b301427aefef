# SPDX-License-Identifier: Apache-2.0
"""Who asks a standby while terminals work on its primary: streams of CH-benCHmark's queries, each in a transaction of its own, and
a report, one transaction that asks the same query again and again.
"""

import contextlib
import threading
import time

import psycopg

from peers.heartbeats import connect, connect_again, is_retried
from peers.machine import BENCH

QUERIES = [path.read_text() for path in sorted((BENCH / "src" / "chbench" / "queries").glob("q*.sql"))]
# Query 1 reads all of the table that grows fastest.
REPORT_QUERY = QUERIES[0]


class Analyst:
    """A connection to a standby that asks on a thread of its own while it is entered."""

    def __init__(self, server, level):
        self.server, self.level = server, level
        self.cancelled, self.failure = [], None

    def __enter__(self):
        self.connection = connect(self.server, self.level)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.guarded)
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        # What is under way at the end is not counted. It may begin right behind the cancel request.
        while self.thread.is_alive():
            with contextlib.suppress(psycopg.Error):
                self.connection.cancel()
            self.thread.join(timeout=0.5)
        self.connection.close()
        if self.failure:
            raise self.failure

    def guarded(self):
        try:
            while not self.is_over.is_set():
                self.turn()
        except Exception as error:
            # The cancel request at the end may meet any statement.
            if not self.is_over.is_set():
                self.failure = error

    def turn(self):
        """A transaction, which may be cancelled."""
        try:
            self.connection.execute(f"BEGIN ISOLATION LEVEL {self.level.upper()} READ ONLY")
            self.ask()
            self.connection.execute("COMMIT")
        except psycopg.Error as error:
            if not self.is_over.is_set():
                if not is_retried(error, self.connection):
                    raise
                self.cancelled.append((time.monotonic(), str(error).splitlines()[0]))
            self.go_on()

    def go_on(self):
        """Behind an error: the transaction has ended, or the session."""
        try:
            self.connection.execute("ROLLBACK")
        except psycopg.Error:
            # The session may end at this statement, too.
            if not self.connection.closed:
                raise
            self.connection = connect_again(self.server, self.level, self.is_over.is_set)

    def cancelled_between(self, begin, end):
        return [message for moment, message in self.cancelled if begin <= moment < end]


class Stream(Analyst):
    """All queries in turn; the next round goes on where this one ends."""

    def __init__(self, server, level, number):
        super().__init__(server, level)
        # Seven has no divisor in common with 22, so that eight streams begin at eight different queries.
        self.place = 7 * number
        self.answered = []

    def ask(self):
        place = self.place % len(QUERIES)
        started = time.monotonic()
        self.connection.execute(QUERIES[place])
        ended = time.monotonic()
        self.answered.append((ended, place, ended - started))
        self.place += 1

    def answers(self, begin, end):
        """Which queries were answered between two moments, and how long each took."""
        return [(place, took) for moment, place, took in self.answered if begin <= moment < end]


class Report(Analyst):
    """One transaction until the end. If it is cancelled, it begins anew."""

    def __init__(self, server, level):
        super().__init__(server, level)
        self.answered, self.lasted_s_max, self.differing = [], 0.0, 0

    def ask(self):
        first, begun = None, time.monotonic()
        while not self.is_over.is_set():
            rows = self.connection.execute(REPORT_QUERY).fetchall()
            first = first or rows
            self.differing += rows != first
            self.answered.append(time.monotonic())
            self.lasted_s_max = max(self.lasted_s_max, time.monotonic() - begun)
