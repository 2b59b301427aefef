# SPDX-License-Identifier: Apache-2.0
"""Servers under comparison, each with a data directory of its own on the disk: `coeval serve` and PostgreSQL, alone or with a
standby that follows.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from peers.machine import tree

POSTGRES_VERSION = 15
# What Debian's and Red Hat's packages use; PATH is looked at too.
POSTGRES_PLACES = [f"/usr/lib/postgresql/{POSTGRES_VERSION}/bin", f"/usr/pgsql-{POSTGRES_VERSION}/bin"]
# The peer is tuned, as it would be for this machine and these workloads; all else is PostgreSQL's default.
POSTGRES_SETTINGS = {
    "shared_buffers": "4GB",
    "max_wal_size": "8GB",
    "max_pred_locks_per_transaction": "4096",
    "fsync": "on",
    "synchronous_commit": "on",
}
USER = "bench"
START_S_MAX = 60
CONNECTIONS_MAX = 3_000


def postgres_binaries():
    """The directory of PostgreSQL's binaries. Ends the program, saying what to install, if there is none."""
    found = shutil.which("postgres")
    for place in POSTGRES_PLACES + ([str(Path(found).resolve().parent)] if found else []):
        if all((Path(place) / name).exists() for name in ("initdb", "postgres", "psql", "pgbench")):
            return Path(place)
    sys.exit(f"PostgreSQL {POSTGRES_VERSION} is missing: apt-get install postgresql "
             f"(Debian's packages hold initdb, postgres, psql and pgbench)")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server that runs. Between measurements it is stopped in its tracks, so that it does not work then."""

    name = ""
    title = ""

    def __init__(self, command, directory, **options):
        self.port = free_port()
        self.log = open(directory / f"{self.name}.log", "ab")
        command = [str(word) for word in command(self.port)]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, **options)
        self.pid = self.process.pid
        self.is_paused = False
        self.wait_until_up()

    @property
    def url(self):
        return f"postgres://{USER}@127.0.0.1:{self.port}/{self.database}"

    def environment(self, isolation=None):
        """What libpq's programs read: where to connect, and the level of transactions that name none."""
        variables = {**os.environ, "PGHOST": "127.0.0.1", "PGPORT": str(self.port), "PGUSER": USER,
                     "PGDATABASE": self.database}
        if isolation:
            escaped = isolation.replace(" ", "\\ ")
            variables["PGOPTIONS"] = f"-c default_transaction_isolation={escaped}"
        return variables

    def wait_until_up(self):
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            if self.is_up():
                return
            time.sleep(0.1)
        sys.exit(f"{self.title} did not start; see {self.log.name}")

    def is_up(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False

    def signal(self, number):
        for pid in tree(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause(self):
        if not self.is_paused:
            self.signal(signal.SIGSTOP)
            self.is_paused = True

    def resume(self):
        if self.is_paused:
            self.signal(signal.SIGCONT)
            self.is_paused = False

    def stop(self):
        self.resume()
        self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Coeval(Server):
    name, title, database, stop_signal = "coeval", "Coeval", "coeval", signal.SIGTERM

    def __init__(self, binary, directory, *arguments):
        directory = Path(directory)
        super().__init__(
            lambda port: [binary, "serve", directory / self.name, "--listen", f"127.0.0.1:{port}",
                          "--max-connections", CONNECTIONS_MAX, "--stop-seconds", 2, *arguments],
            directory)


class CoevalReplica(Coeval):
    """Follows a Coeval on the wire; the copy is made when it listens."""

    name, title = "coeval-replica", "Coeval's replica"

    def __init__(self, binary, directory, primary):
        super().__init__(binary, directory, "--replica-of", f"host=127.0.0.1,port={primary.port},user={USER}")


class Postgres(Server):
    # SIGINT is PostgreSQL's fast shutdown.
    name, title, database, stop_signal = "postgresql", "PostgreSQL", "postgres", signal.SIGINT
    settings = POSTGRES_SETTINGS

    def __init__(self, binaries, directory):
        self.binaries = binaries
        data = Path(directory) / self.name
        data.mkdir()
        # PostgreSQL refuses to run as root, and to start in a directory that others can read.
        options = {"cwd": data}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(data, owner.pw_uid, owner.pw_gid)
            options |= {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        data.chmod(0o700)
        subprocess.run(self.making(data), check=True, stdout=subprocess.DEVNULL, **options)
        settings = [word for name, value in self.settings.items() for word in ("-c", f"{name}={value}")]
        super().__init__(
            lambda port: [binaries / "postgres", "-D", data, "-p", port, "-c", "unix_socket_directories=",
                          "-c", "listen_addresses=127.0.0.1", *settings],
            Path(directory), **options)

    def making(self, data):
        """The command that fills the directory."""
        return [self.binaries / "initdb", "-D", data, "-U", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]

    def is_up(self):
        command = [self.binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command).returncode == 0


class PostgresStandby(Postgres):
    """Follows a PostgreSQL by streaming replication, with a slot, and answers queries."""

    name, title = "postgresql-standby", "PostgreSQL's standby"

    def __init__(self, binaries, directory, primary):
        self.primary = primary
        super().__init__(binaries, directory)

    def making(self, data):
        return [self.binaries / "pg_basebackup", "-D", data, "-h", "127.0.0.1", "-p", str(self.primary.port), "-U", USER,
                "--checkpoint=fast", "--write-recovery-conf", "--wal-method=stream", "--create-slot", "--slot=standby",
                "--no-sync"]


class Pair:
    """A primary and a standby, which work and are stopped in their tracks together."""

    def __init__(self, primary, standby):
        self.primary, self.standby = primary, standby
        self.name, self.title = primary.name, primary.title

    def pause(self):
        self.primary.pause()
        self.standby.pause()

    def resume(self):
        self.standby.resume()
        self.primary.resume()
