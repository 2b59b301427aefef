# SPDX-License-Identifier: Apache-2.0
"""What is measured over the wire, piece by piece: each prepares both servers once and then runs in rounds, in turn.

A piece answers with figures by name; a figure has its unit last. Every round adds `foreign_cpu`.
"""

import re
import resource
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

from peers.machine import CpuWatch, coeval, resident_kib

IDLE_CONNECTIONS = 2_000
HOT_CLIENTS = 16
PGBENCH_SCALE = 10
READ_COMMITTED = "read committed"


class Context:
    """What pieces share: programs, where files go, how long to measure."""

    def __init__(self, binary, postgres, work, seconds, warehouses, scale):
        self.binary, self.postgres, self.work = binary, postgres, Path(work)
        self.seconds, self.warehouses, self.scale = seconds, warehouses, scale

    def psql(self, server, *statements):
        """Runs statements, each a transaction of its own; what they answer as text."""
        command = [str(self.postgres / "psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        for statement in statements:
            command += ["-c", statement]
        done = subprocess.run(command, env=server.environment(), stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout.strip()

    def pgbench(self, server, *arguments, isolation=None):
        """Runs pgbench; its figures."""
        command = [str(self.postgres / "pgbench"), "-n", "-T", str(round(self.seconds)), *map(str, arguments)]
        cpu = CpuWatch(server.pid)
        done = subprocess.run(command, env=server.environment(isolation), capture_output=True, text=True)
        foreign = cpu.foreign_cores()
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} on {server.title}:\n{done.stdout}\n{done.stderr}")
        number = lambda pattern: float((re.search(pattern, done.stdout) or [0, 0])[1])
        return {
            "transactions_per_s": number(r"tps = ([\d.]+)"),
            "latency_mean_ms": number(r"latency average = ([\d.]+)"),
            "failed": number(r"number of failed transactions: (\d+)"),
            "foreign_cpu": foreign,
        }

    def bench(self, server, workload, *arguments):
        """Runs one of Coeval's workloads against a server; figures and foreign_cpu of its report."""
        report = coeval(self.binary, workload, "--url", server.url, "--server-process", server.pid,
                        "--dir", self.work, "--warehouses", self.warehouses, "--seconds", self.seconds, *arguments)
        wrong = {name: rows for name, rows in report["checks"].items() if rows}
        if wrong:
            sys.exit(f"{server.title} left behind what it must not: {wrong}")
        return {**report["figures"], "foreign_cpu": report["foreign_cpu"],
                "fdatasync_p50_us": report["fdatasync_p50_us"]}


class Tpcc:
    """TPC-C, 8 terminals, REPEATABLE READ."""

    arguments = ["--terminals", 8, "--isolation", "repeatable-read"]

    def prepare(self, context, server):
        # The first run loads; a moment is enough.
        coeval(context.binary, "tpcc", "--url", server.url, "--dir", context.work,
               "--warehouses", context.warehouses, "--seconds", 1, *self.arguments)
        context.psql(server, "CHECKPOINT")

    def run(self, context, server):
        figures = context.bench(server, "tpcc", *self.arguments)
        context.psql(server, "CHECKPOINT")
        return figures


class TpccOneByOne(Tpcc):
    """The same, each statement waiting for the answer of the one before."""

    arguments = [*Tpcc.arguments, "--one-by-one"]


class Chbench(Tpcc):
    """CH-benCHmark: 4 terminals and one stream of analytical queries."""

    arguments = ["--terminals", 4, "--streams", 1, "--isolation", "repeatable-read"]

    def prepare(self, context, server):
        coeval(context.binary, "chbench", "--url", server.url, "--dir", context.work,
               "--warehouses", context.warehouses, "--seconds", 1, *self.arguments)
        context.psql(server, "CHECKPOINT")

    def run(self, context, server):
        figures = context.bench(server, "chbench", *self.arguments)
        context.psql(server, "CHECKPOINT")
        return figures


class Pgbench:
    """One of pgbench's built-in scripts on its own tables."""

    def __init__(self, *arguments, isolation=None):
        self.arguments, self.isolation = arguments, isolation

    def prepare(self, context, server):
        command = [str(context.postgres / "pgbench"), "-i", "-q", "-s", str(PGBENCH_SCALE)]
        subprocess.run(command, env=server.environment(), check=True, capture_output=True)
        context.psql(server, "CHECKPOINT")

    def run(self, context, server):
        return context.pgbench(server, *self.arguments, isolation=self.isolation)


class Beside(Pgbench):
    """Point SELECTs alone, and beside a client that groups all rows again and again."""

    query = "SELECT count(*) FROM (SELECT aid % 1000 AS g, sum(abalance), count(*) FROM pgbench_accounts GROUP BY 1) AS s"

    def run(self, context, server):
        alone = super().run(context, server)
        script = context.work / "analytics.sql"
        script.write_text(self.query + ";\n")
        command = [str(context.postgres / "pgbench"), "-n", "-T", str(round(context.seconds) + 2), "-f", str(script)]
        analytics = subprocess.Popen(command, env=server.environment(), stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL, text=True)
        time.sleep(1)
        beside = super().run(context, server)
        said, _ = analytics.communicate()
        queries = float((re.search(r"tps = ([\d.]+)", said) or [0, 0])[1])
        return {
            "alone_latency_ms": alone["latency_mean_ms"],
            "beside_latency_ms": beside["latency_mean_ms"],
            "transactions_per_s": beside["transactions_per_s"],
            "queries_per_h": queries * 3600,
            "failed": alone["failed"] + beside["failed"],
            "foreign_cpu": max(alone["foreign_cpu"], beside["foreign_cpu"]),
        }


class Hot:
    """Clients that increment one row, at READ COMMITTED."""

    def prepare(self, context, server):
        context.psql(server, "CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL)",
                     "INSERT INTO hot VALUES (1, 0)")
        (context.work / "hot.sql").write_text("UPDATE hot SET n = n + 1 WHERE id = 1;\n")

    def run(self, context, server):
        return context.pgbench(server, "-f", context.work / "hot.sql", "-M", "prepared", "-c", HOT_CLIENTS, "-j", 2,
                               isolation=READ_COMMITTED)


class Copy:
    """COPY FROM STDIN of TPC-H's lineitem into a table with its primary key, through psql."""

    def file(self, context):
        """lineitem as text, made once."""
        path = context.work / "lineitem.txt"
        if path.exists():
            return path
        parquet = context.work / "parquet"
        coeval(context.binary, "tpch", "--scale", context.scale, "--write-parquet", parquet)
        statements = [self.ddl(context), f"COPY lineitem FROM '{parquet}/lineitem.parquet' (FORMAT parquet)",
                      f"COPY lineitem TO '{path}'"]
        command = [str(context.binary), "sql", "--in-memory"]
        for statement in statements:
            command += ["-c", statement]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return path

    def ddl(self, context):
        statements = (context.work / "parquet" / "schema.sql").read_text().split(";")
        return next(statement.strip() for statement in statements if "TABLE lineitem " in statement)

    def prepare(self, context, server):
        self.file(context)

    def run(self, context, server):
        path = self.file(context)
        context.psql(server, "DROP TABLE IF EXISTS lineitem", self.ddl(context), "CHECKPOINT")
        cpu = CpuWatch(server.pid)
        started = time.monotonic()
        context.psql(server, f"\\copy lineitem FROM '{path}'")
        copy_s = time.monotonic() - started
        foreign = cpu.foreign_cores()
        rows = int(context.psql(server, "SELECT count(*) FROM lineitem"))
        lines = sum(piece.count(b"\n") for piece in pieces(path))
        if rows != lines:
            sys.exit(f"{server.title} has {rows} rows of {lines}")
        return {"copy_s": copy_s, "rows_per_s": rows / copy_s, "mb_per_s": path.stat().st_size / copy_s / 1e6,
                "foreign_cpu": foreign}


def pieces(path):
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            yield piece


class Idle(Tpcc):
    """TPC-C alone, and beside idle connections of which each has run a statement."""

    def prepare(self, context, server):
        # Before anything is loaded: the memory that a load leaves behind goes back bit by bit and would be in the figures.
        context.psql(server, "CREATE TABLE idle (id int PRIMARY KEY, n int NOT NULL)", "INSERT INTO idle VALUES (1, 1)")
        with IdleConnections(server) as idle:
            self.connected_kib, self.used_kib = idle.connected_kib, idle.used_kib
        super().prepare(context, server)

    def run(self, context, server):
        alone = super().run(context, server)
        with IdleConnections(server):
            beside = super().run(context, server)
        return {
            "alone_transactions_per_s": alone["transactions_per_s"],
            "beside_transactions_per_s": beside["transactions_per_s"],
            "beside_share": beside["transactions_per_s"] / alone["transactions_per_s"],
            "connected_kib": self.connected_kib,
            "used_kib": self.used_kib,
            "foreign_cpu": max(alone["foreign_cpu"], beside["foreign_cpu"]),
        }


class IdleConnections:
    """Connections that stay open. Says what memory of the server each costs: connected, and after a statement."""

    def __init__(self, server):
        self.server, self.sockets = server, []
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 2 * IDLE_CONNECTIONS + 100), most))

    def __enter__(self):
        before = resident_kib(self.server.pid)
        for _ in range(IDLE_CONNECTIONS):
            self.sockets.append(self.connect())
        self.connected_kib = (resident_kib(self.server.pid) - before) / IDLE_CONNECTIONS
        for connection in self.sockets:
            text = b"SELECT n FROM idle WHERE id = 1\0"
            connection.sendall(b"Q" + struct.pack("!i", 4 + len(text)) + text)
            until_ready(connection)
        self.used_kib = (resident_kib(self.server.pid) - before) / IDLE_CONNECTIONS
        return self

    def __exit__(self, *_):
        for connection in self.sockets:
            connection.sendall(b"X" + struct.pack("!i", 4))
            connection.close()
        # Their going is no part of what comes next.
        time.sleep(1)

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.server.port))
        user = self.server.environment()["PGUSER"].encode()
        body = struct.pack("!i", 196_608) + b"user\0" + user + b"\0database\0" + self.server.database.encode() + b"\0\0"
        connection.sendall(struct.pack("!i", 4 + len(body)) + body)
        until_ready(connection)
        return connection


def until_ready(connection):
    """Reads messages until the server is ready for the next query."""
    stream = connection.makefile("rb", buffering=0)
    while True:
        kind, length = struct.unpack("!ci", exactly(stream, 5))
        body = exactly(stream, length - 4)
        if kind == b"E":
            sys.exit(f"a connection was refused: {body!r}")
        if kind == b"Z":
            return


def exactly(stream, count):
    data = b""
    while len(data) < count:
        piece = stream.read(count - len(data))
        if not piece:
            sys.exit("the server closed a connection")
        data += piece
    return data


PIECES = {
    "tpcc": Tpcc(),
    "tpcc-one-by-one": TpccOneByOne(),
    "select-prepared-1": Pgbench("-S", "-M", "prepared", "-c", 1),
    "select-prepared-8": Pgbench("-S", "-M", "prepared", "-c", 8, "-j", 2),
    "select-simple-1": Pgbench("-S", "-c", 1),
    "select-simple-8": Pgbench("-S", "-c", 8, "-j", 2),
    "tpcb": Pgbench("-M", "prepared", "-c", 8, "-j", 2, "--max-tries=0", isolation=READ_COMMITTED),
    "copy": Copy(),
    "chbench": Chbench(),
    "idle": Idle(),
    "hot": Hot(),
    "beside": Beside("-S", "-M", "prepared", "-c", 2, "-j", 2),
}
# Pieces whose bar speaks of Coeval alone.
COEVAL_ONLY = {"idle"}
