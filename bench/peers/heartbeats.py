# SPDX-License-Identifier: Apache-2.0
"""How old what a standby shows is: a row that is written on the primary every 10 ms and read on the standby, by the clock of one
process on one machine, so that the measure is the same for every system.
"""

import random
import threading
import time

import psycopg

from peers.servers import USER

INTERVAL_S = 0.01
# Each so many reads, the standby is also asked how old it says that it is.
OWN_EVERY = 10
# What a transaction is refused or cancelled with and may be tried again.
RETRIED = {"40001", "40P01"}
CATCH_UP_S_MAX = 180


def connect(server, level):
    """A connection without transactions of its own, at this level."""
    escaped = level.replace(" ", "\\ ")
    return psycopg.connect(host="127.0.0.1", port=server.port, user=USER, dbname=server.database, autocommit=True,
                           options=f"-c default_transaction_isolation={escaped}")


def connect_again(server, level, is_over):
    """The same of a standby that has ended the session, and refuses new ones for the same reason for a while."""
    while True:
        try:
            return connect(server, level)
        except psycopg.OperationalError as error:
            if is_over() or "conflict with recovery" not in str(error):
                raise
            time.sleep(INTERVAL_S)


def is_retried(error, connection):
    """Whether a query was cancelled for a conflict, or its session was ended."""
    return error.sqlstate in RETRIED or connection.closed


def place(text):
    """A place in the log, 0/1A2B3C, as a number."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


def percentile(values, share):
    """The value that this share of them lies below; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


class Heartbeats:
    """Writes and reads while it is entered.

    `own_age(connection)` asks the standby how old it says that it is, in seconds.
    """

    def __init__(self, pair, level, own_age):
        self.pair, self.level, self.own_age = pair, level, own_age
        self.written, self.read, self.own, self.failures = [], [], [], []
        self.is_over = threading.Event()
        self.threads = [threading.Thread(target=self.guarded, args=[work]) for work in (self.write, self.look)]

    @staticmethod
    def prepare(primary):
        with connect(primary, "serializable") as connection:
            connection.execute("CREATE TABLE heartbeat (id int PRIMARY KEY, n bigint NOT NULL)")
            connection.execute("INSERT INTO heartbeat VALUES (1, 0)")

    @staticmethod
    def wait_until_caught_up(pair, level):
        """Writes once more and waits until the standby's queries see it."""
        deadline = time.monotonic() + CATCH_UP_S_MAX
        with connect(pair.primary, "serializable") as primary:
            primary.execute("UPDATE heartbeat SET n = -1")
            [end] = primary.execute("SELECT pg_current_wal_flush_lsn()::text").fetchone()
        is_over = lambda: time.monotonic() > deadline
        standby = connect_again(pair.standby, level, is_over)
        while True:
            try:
                shown = standby.execute("SELECT pg_last_wal_replay_lsn()::text").fetchone()[0]
                if place(shown) >= place(end) and standby.execute("SELECT n FROM heartbeat").fetchone() == (-1,):
                    break
            except psycopg.Error as error:
                if not is_retried(error, standby):
                    raise
                standby = connect_again(pair.standby, level, is_over) if standby.closed else standby
            if is_over():
                raise SystemExit(f"{pair.standby.title} does not catch up")
            time.sleep(INTERVAL_S)
        standby.close()

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.is_over.set()
        for thread in self.threads:
            thread.join()

    def guarded(self, work):
        try:
            work()
        except Exception as error:
            if not self.is_over.is_set():
                self.failures.append(error)

    def write(self):
        """Notes when each number was sent and when its commit was acknowledged."""
        with connect(self.pair.primary, "serializable") as connection:
            number = 0
            due = time.monotonic()
            while not self.is_over.is_set():
                sent = time.monotonic()
                try:
                    connection.execute("UPDATE heartbeat SET n = %s WHERE id = 1", [number], prepare=True)
                    self.written.append((sent, time.monotonic()))
                    number += 1
                except psycopg.Error as error:
                    if error.sqlstate not in RETRIED:
                        raise
                due = max(due + INTERVAL_S, time.monotonic())
                time.sleep(max(0.0, due - time.monotonic()))

    def look(self):
        """Notes when it was looked, and the newest number that was seen."""
        rng = random.Random(1)
        connection = connect(self.pair.standby, self.level)
        while not self.is_over.is_set():
            asked = time.monotonic()
            try:
                row = connection.execute("SELECT n FROM heartbeat WHERE id = 1", prepare=True).fetchone()
                self.read.append((asked, row[0]))
                if len(self.read) % OWN_EVERY == 0:
                    self.own.append((asked, self.own_age(connection)))
            except psycopg.Error as error:
                if not is_retried(error, connection):
                    raise
                if connection.closed:
                    connection = connect_again(self.pair.standby, self.level, self.is_over.is_set)
            # At moments that do not follow the writer's.
            time.sleep(INTERVAL_S * rng.uniform(0.5, 1.5))
        connection.close()

    def figures(self, begin, end):
        """Of the looks between two moments, in ms.

        `lag` is for how long something has been missing: since the first number was acknowledged that is not seen, 0 if there is
        none. `age` is the time since the newest number that is seen was sent, so it has the time to the next one in it.
        """
        for failure in self.failures:
            raise failure
        looks = [(asked, number) for asked, number in self.read if begin <= asked < end and number >= 0]
        ages = [(asked - self.written[number][0]) * 1e3 for asked, number in looks if number < len(self.written)]
        lags = [self.missing_for(asked, number) * 1e3 for asked, number in looks]
        own = [age * 1e3 for asked, age in self.own if begin <= asked < end and age is not None]
        found = {"looks": len(looks)}
        for name, values in (("lag", lags), ("age", ages), ("own_age", own)):
            found |= {f"{name}_p50_ms": percentile(values, 0.5), f"{name}_p99_ms": percentile(values, 0.99),
                      f"{name}_max_ms": max(values, default=0.0)}
        return found

    def missing_for(self, asked, number):
        if number + 1 >= len(self.written):
            return 0.0
        return max(0.0, asked - self.written[number + 1][1])
