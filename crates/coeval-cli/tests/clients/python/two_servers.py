# SPDX-License-Identifier: Apache-2.0
"""What the random tests share: dice, statements that two servers answer, and how their answers are compared.

One server is Coeval's, the other a PostgreSQL of the test's own. A script that they answer differently is cut down to the
statements that it takes, and printed.
"""

import argparse
import contextlib
import decimal
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from psycopg import pq

# Types of numbers, which are compared by their value: how many digits stand behind the point of a quotient is not.
NUMBERS = {20, 21, 23, 700, 701, 1700}

FLOAT4 = 700

# Types of texts: where a length is lost is not compared.
TEXTS = {25, 1043}

# How long a server may take to listen.
STARTS_WITHIN_SECONDS = 60


class Dice:
    """Random choices, the same for the same seed."""

    def __init__(self, seed):
        self.dice = random.Random(seed)

    def one_of(self, *choices):
        return self.dice.choice(choices)

    def chance(self, share):
        return self.dice.random() < share

    def whole(self, low, high):
        return self.dice.randint(low, high)

    def some_of(self, choices, count):
        choices = list(choices)
        return self.dice.sample(choices, min(count, len(choices)))

    def by_weight(self, *pairs):
        """One of the second halves, the more likely the greater its first half is."""
        return self.dice.choices([choice for _, choice in pairs], [weight for weight, _ in pairs])[0]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextlib.contextmanager
def postgresql(initdb):
    """The address of a PostgreSQL of its own, in a folder that goes with it."""
    programs = pathlib.Path(initdb).parent
    folder = pathlib.Path(tempfile.mkdtemp(prefix="coeval-random-"))
    # It refuses to run for root.
    as_other = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if as_other:
        shutil.chown(folder, "postgres")
    port = free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
    control = [*as_other, programs / "pg_ctl", "-D", folder / "data", "-s", "-w"]
    subprocess.run(
        [*as_other, initdb, "-D", folder / "data", "-A", "trust", "-U", "coeval", "-E", "UTF8", "--locale=C"],
        check=True, stdout=subprocess.DEVNULL, cwd="/",
    )
    subprocess.run([*control, "-l", folder / "log", "-o", options, "start"], check=True, cwd="/")
    try:
        yield {"host": "127.0.0.1", "port": port, "user": "coeval", "dbname": "postgres"}
    finally:
        subprocess.run([*control, "-m", "immediate", "stop"], check=False, cwd="/")
        shutil.rmtree(folder, ignore_errors=True)


class Killable:
    """A Coeval over a folder of its own, which can be killed and comes back over the same folder."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="coeval-random-")
        self.address = {"host": "127.0.0.1", "port": free_port(), "user": "coeval", "dbname": "coeval"}
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self):
        listen = f"127.0.0.1:{self.address['port']}"
        self.process = subprocess.Popen(
            [self.program, "serve", "--listen", listen, os.path.join(self.folder, "data")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + STARTS_WITHIN_SECONDS
        while pq.PGconn.ping(conninfo(self.address)) != pq.Ping.OK:
            if self.process.poll() is not None or time.monotonic() > until:
                raise SystemExit("the server does not start")
            time.sleep(0.02)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def killed(self):
        """Kills it and starts it again."""
        self.kill()
        self.start()


def conninfo(address):
    return " ".join(f"{key}={value}" for key, value in address.items()).encode()


class Answer:
    """What a server said to a statement: rows and a tag, or an error."""

    def __init__(self, result):
        self.state, self.message, self.types, self.rows, self.tag = None, "", None, None, None
        if result.status not in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            self.state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"lost").decode()
            self.message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message).decode()
            return
        self.tag = (result.command_status or b"").decode()
        if result.status == pq.ExecStatus.TUPLES_OK:
            columns = range(result.nfields)
            self.types = [result.ftype(column) for column in columns]
            self.rows = [
                tuple(plain_value(result.get_value(row, column), self.types[column]) for column in columns)
                for row in range(result.ntuples)
            ]

    def in_order(self):
        """The rows in an order of their own."""
        return None if self.rows is None else sorted(self.rows, key=repr)

    def __repr__(self):
        return f"{self.state} {self.message}" if self.state else f"{self.tag} {self.rows}"


def plain_value(value, kind):
    """A value as text, numbers with as many digits as sums in any order agree in."""
    if value is None:
        return None
    text = value.decode()
    if kind in NUMBERS and text.lstrip("-")[:1].isdigit():
        digits = decimal.Context(prec=5 if kind == FLOAT4 else 12)
        number = digits.create_decimal(text).normalize()
        return f"{number:f}" if number else "0"
    return text


def difference(wanted, found):
    """In what the answers differ, or `None`. Which of several errors a statement has is not compared."""
    if wanted.state or found.state:
        return None if wanted.state and found.state not in (None, "XX000", "lost") else "error"
    kinds = lambda answer: [25 if kind in TEXTS else kind for kind in answer.types or []]
    if kinds(wanted) != kinds(found):
        return "types"
    if wanted.in_order() != found.in_order():
        return "rows"
    return None if wanted.tag == found.tag else "tag"


class Connection:
    """A session, which `settings` are run in whenever it is opened."""

    def __init__(self, address, *settings):
        self.address, self.settings = address, settings
        self.open()

    def open(self):
        self.session = pq.PGconn.connect(conninfo(self.address))
        if self.session.status != pq.ConnStatus.OK:
            raise SystemExit(self.session.error_message.decode())
        self.session.notice_handler = None
        for setting in self.settings:
            self.must(setting)

    def run(self, sql, parameters=None):
        """The answer; with parameters by the extended protocol, as texts whose types the server has to find."""
        if parameters is None:
            return Answer(self.session.exec_(sql.encode()))
        return Answer(self.session.exec_params(sql.encode(), parameters))

    def must(self, sql):
        answer = self.run(sql)
        if answer.state:
            raise SystemExit(f"{sql}\n  {answer}")

    def in_empty_schema(self, name="fuzz"):
        """Ends what it was doing and stands in a schema without tables."""
        self.run("ROLLBACK")
        self.run(f"DROP SCHEMA IF EXISTS {name} CASCADE")
        self.must(f"CREATE SCHEMA {name}")
        self.must(f"SET search_path = {name}")

    @property
    def state(self):
        return self.session.transaction_status


def shortest(script, fails):
    """The script without what its failure does not need; it still ends with the same statement."""
    *body, last = script
    parts = 2
    while body:
        size = max(1, len(body) // parts)
        for begin in range(0, len(body), size):
            rest = body[:begin] + body[begin + size:]
            if fails([*rest, last]):
                body, parts = rest, max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(len(body), parts * 2)
    return [*body, last]


def options(default_count, *extra):
    """`INITDB [--seed N] [--count N]`, and what else the test needs in front of them."""
    parser = argparse.ArgumentParser()
    for name in ("initdb", *extra):
        parser.add_argument(name)
    parser.add_argument("--seed", type=int, default=1, help="of the first script")
    parser.add_argument("--count", type=int, default=default_count, help="of scripts")
    return parser.parse_args()


class Report:
    """Counts the scripts and prints those that differ."""

    def __init__(self):
        self.scripts = self.statements = self.different = 0

    def differs(self, seed, script, what):
        self.different += 1
        print(f"DIFFERENT, seed {seed}", *script, f"  {what}", sep="\n", flush=True)

    def end(self, statements_min):
        """Fails if anything differed, or if too little was compared for that to mean something."""
        print(f"{self.scripts} scripts, {self.statements} statements compared, {self.different} scripts different")
        if self.different:
            sys.exit("not as PostgreSQL answers")
        if self.statements < statements_min:
            sys.exit(f"fewer than {statements_min} statements were compared")
