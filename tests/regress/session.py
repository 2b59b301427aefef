# SPDX-License-Identifier: Apache-2.0
"""A session of either server, by libpq and its simple protocol, whose statements end in time."""

import select
import time

import psycopg
from psycopg import pq

# After so many seconds a statement is cancelled, and given up after as many more as the second number.
PATIENCE_SECONDS, PATIENCE_AFTER_CANCEL_SECONDS = 20, 15

# Stands for the SQLSTATE of a statement that had to be cancelled.
TOO_LONG = "TOO LONG"

RUNNING = {pq.TransactionStatus.IDLE: "none", pq.TransactionStatus.INTRANS: "open", pq.TransactionStatus.INERROR: "failed"}


class Lost(Exception):
    """The server ended the session, or does not answer any more."""


class Answer:
    """What a server said: rows as texts, what COPY sent, and a tag; or an error."""

    def __init__(self):
        self.state = self.message = self.columns = self.copied = self.tag = None
        self.rows, self.is_cancelled = [], False

    def add(self, result):
        """The next result of the statement; of several statements the last one counts."""
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            self.tag = (result.command_status or b"").decode()
        if result.status == pq.ExecStatus.TUPLES_OK:
            self.columns = [(result.fname(at).decode("utf-8", "replace"), result.ftype(at)) for at in range(result.nfields)]
            self.rows = [
                tuple(text(result.get_value(row, at)) for at in range(result.nfields)) for row in range(result.ntuples)
            ]
        elif result.status in (pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE):
            self.state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"lost").decode()
            self.message = (result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").decode("utf-8", "replace")

    def __str__(self):
        if self.state:
            return f"{self.state} {self.message}"
        shown = self.copied.decode("utf-8", "replace").splitlines() if self.copied else self.rows
        return f"{self.tag}, columns {self.columns}, {len(shown)} rows, the first: {shown[:6]}"


def text(value):
    return None if value is None else value.decode("utf-8", "replace")


class Session:
    """A connection to one server's database, as some user."""

    def __init__(self, port, database, user="postgres"):
        self.port, self.database = port, database
        self.open(user)

    def open(self, user):
        address = f"host=127.0.0.1 port={self.port} dbname={self.database} user='{user}'"
        self.connection = pq.PGconn.connect(address.encode())
        self.connection.notice_handler = None
        if self.connection.status != pq.ConnStatus.OK:
            raise Lost(self.connection.error_message.decode("utf-8", "replace"))
        self.user = user

    def close(self):
        self.connection.finish()

    @property
    def transaction(self):
        """Whether a transaction is open: none, open or failed."""
        return RUNNING.get(self.connection.transaction_status, "lost")

    def run(self, sql, copied=None):
        """The answer to a statement; `copied` is what it is sent if it is COPY ... FROM STDIN."""
        connection, answer = self.connection, Answer()
        try:
            connection.send_query(sql.encode())
            while result := self.next_result(answer):
                if result.status == pq.ExecStatus.COPY_IN:
                    if copied:
                        connection.put_copy_data(copied.encode())
                    connection.put_copy_end()
                elif result.status == pq.ExecStatus.COPY_OUT:
                    answer.copied = self.copied_out()
                else:
                    answer.add(result)
        except psycopg.Error as error:
            raise Lost(str(error)) from error
        if connection.status != pq.ConnStatus.OK:
            raise Lost(answer.message or "the connection is closed")
        return answer

    def next_result(self, answer):
        """The next result of the statement that runs; it is cancelled if it takes too long."""
        for patience in (PATIENCE_SECONDS, PATIENCE_AFTER_CANCEL_SECONDS):
            until = time.monotonic() + patience
            while True:
                # A result that is there already is taken before more is waited for.
                if not self.connection.is_busy():
                    result = self.connection.get_result()
                    if answer.is_cancelled and answer.state:
                        answer.state = TOO_LONG
                    return result
                ready, _, _ = select.select([self.connection.socket], [], [], max(0, until - time.monotonic()))
                if not ready:
                    break
                self.connection.consume_input()
            if not answer.is_cancelled:
                answer.is_cancelled = True
                self.connection.get_cancel().cancel()
        raise Lost("the server does not answer")

    def copied_out(self):
        lines = []
        while True:
            length, line = self.connection.get_copy_data(0)
            if length < 0:
                return b"".join(lines)
            lines.append(bytes(line))
