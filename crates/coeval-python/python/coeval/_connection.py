# SPDX-License-Identifier: Apache-2.0
"""Databases that are open, their sessions and transactions."""

from __future__ import annotations

import functools
import os
import random
import sys
import threading
import time
import weakref
from collections.abc import Sized
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Callable, Concatenate, Iterable, Mapping, ParamSpec, Sequence, TypeVar, overload

from . import _backend, _errors, _frames, _interrupts, _native, _server
from ._errors import InterfaceError, ProgrammingError, SerializationError
from ._progress import Count
from ._result import Result

T = TypeVar("T")
P = ParamSpec("P")
Parameters = Sequence[Any] | Mapping[str, Any]

_ISOLATION = ("serializable", "repeatable read", "read committed")
# The name of the frame that `append` reads.
_APPENDED = "coeval append"
_RUNS_MAX = 100
_WAIT_FIRST = 0.001
_WAIT_MAX = 0.1


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def _table_name(name: str) -> str:
    """A table's name, with its schema if it has a point in it, as SQL writes it; what is in quotes already stays."""
    return name if '"' in name else ".".join(quoted(part) for part in name.split("."))


def _refuse_fork(pid: int) -> None:
    """Refuses what was made by another process than this one."""
    if pid != os.getpid():
        raise InterfaceError(
            "this connection was opened before the process forked: its threads and locks are the parent's. "
            "Open the database in one process, and let others ask that one, or serve it"
        )


class _Open:
    """A database that this process has open, shared by the connections to it."""

    def __init__(self, database: _native.Database | _server.Database, key: str | None) -> None:
        self.database = database
        self.key = key
        self.connections = 0
        self.pid = os.getpid()


_lock = threading.Lock()
_open: dict[str, _Open] = {}


def connect(
    database: str | os.PathLike[str] = ":memory:",
    *,
    autocommit: bool = False,
    durability: str = "fsync",
    query_memory: int | None = None,
    data_memory: int | None = None,
) -> Connection:
    """Opens the database in a directory, which is made if it is not there, or a new one in memory (`":memory:"`); or connects
    to a server (`"postgres://user@host/database"`), for which psycopg is to be installed.

    One process has a directory open at a time; within it any number of connections share it, and the options are the first
    one's. `durability="none"` acknowledges commits before they are on disk. `query_memory` and `data_memory` are bytes that
    queries may take, and tables that were read from files; a half and a third of the machine's memory unless said otherwise.
    Of a server they say nothing. `autocommit` is about cursors alone: see `Connection.cursor`.
    """
    text = os.fspath(database)
    if _server.is_server(text):
        shared = _Open(_server.Database(text), None)
        shared.connections = 1
        return Connection(shared, autocommit)
    with _lock:
        if text == ":memory:":
            shared = _Open(_native.Database(None, durability, query_memory, data_memory), None)
        else:
            key = str(Path(text).resolve())
            known = _open.get(key)
            if known is None or known.pid != os.getpid():
                known = _Open(_native.Database(Path(text), durability, query_memory, data_memory), key)
                _open[key] = known
            shared = known
        shared.connections += 1
    return Connection(shared, autocommit)


class Session:
    """One client's statements, one after the other, with settings and temporary tables of its own.

    Any thread may use it; one at a time does.
    """

    def __init__(self, native: _backend.Session) -> None:
        self._native = native
        self._pid = os.getpid()

    def sql(self, sql: str, parameters: Parameters | None = None) -> Result:
        """As `Connection.sql`, in this session."""
        return self._sql(sql, parameters, sys._getframe(1))

    def _sql(self, sql: str, parameters: Parameters | None, frame: FrameType | None) -> Result:
        self._refuse_fork()
        frames = _frames.in_scope(sql, frame)
        if frames:
            unknown = self._native.unknown_relations(sql, parameters)
            frames = {name: frames[name] for name in unknown if name in frames}
        with _frames.lent(self._native, frames):
            return Result(self._native, _interrupts.call(self._native, self._native.run, sql, parameters))

    def append(self, table: str, rows: object) -> int:
        """As `Connection.append`, in this session."""
        self._refuse_fork()
        if isinstance(rows, dict) and not _frames.has_pyarrow():
            return self._append_columns(table, rows)
        stream = _frames.stream_of(rows)
        names = [quoted(name) for name in _frames.columns_of(stream)]
        if isinstance(self._native, _server.Session):
            return _interrupts.call(self._native, self._native.append, _table_name(table), names, stream)
        listed = ", ".join(names)
        text = f"INSERT INTO {_table_name(table)} ({listed}) SELECT {listed} FROM {quoted(_APPENDED)}"
        with _frames.lent(self._native, {_APPENDED: stream}, text):
            return _interrupts.call(self._native, self._native.run, text, None).row_count or 0

    def _append_columns(self, table: str, columns: Mapping[str, Sequence[Any]]) -> int:
        """Adds rows by a statement for each: Arrow, which takes them all at once, is not there."""
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            raise InterfaceError("the columns are of several lengths, or there are none")
        names = ", ".join(quoted(name) for name in columns)
        text = f"INSERT INTO {_table_name(table)} ({names}) VALUES ({', '.join('?' * len(columns))})"
        return self._run_many(text, list(zip(*columns.values())))

    def _run_many(self, sql: str, sets: Iterable[Sequence[Any] | Mapping[str, Any]]) -> int:
        """Runs a statement for each set of parameters; all are in one transaction. How many rows that was about."""
        native, is_own = self._native, not self.in_transaction
        if is_own:
            native.run("BEGIN", None)
        try:
            count = Count("sets", len(sets) if isinstance(sets, Sized) else None)
            row_count = _interrupts.call(native, native.run_many, sql, count.over(sets), count=count)
            if is_own:
                native.run("COMMIT", None)
            return row_count
        except BaseException:
            if is_own and native.status() != "idle":
                native.run("ROLLBACK", None)
            raise

    def transaction(self, *, read_only: bool = False, isolation: str = "serializable") -> Transaction:
        """As `Connection.transaction`, in this session."""
        return Transaction(self, read_only, isolation)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        self._refuse_fork()
        return self._native.status() != "idle"

    def notices(self) -> list[str]:
        """What the last statement had to say without failing."""
        return [text for _, text in self._native.notices()]

    def cancel(self) -> None:
        """Ends the statement that runs, which then raises `QueryCanceled`: for other threads."""
        self._native.cancel()

    def close(self) -> None:
        """Rolls back what is open, and ends what is read."""
        if self._pid == os.getpid():
            self._native.cancel()
            self._native.close()

    def _refuse_fork(self) -> None:
        _refuse_fork(self._pid)


class Transaction:
    """An open transaction of a session."""

    def __init__(self, session: Session, read_only: bool, isolation: str) -> None:
        if isolation not in _ISOLATION:
            raise ProgrammingError(f"there is no isolation level {isolation!r}: it is one of {', '.join(_ISOLATION)}")
        access = "READ ONLY" if read_only else "READ WRITE"
        self._begin = f"BEGIN ISOLATION LEVEL {isolation.upper()} {access}"
        self._session = session

    def sql(self, sql: str, parameters: Parameters | None = None) -> Result:
        """As `Connection.sql`, within the transaction."""
        return self._session._sql(sql, parameters, sys._getframe(1))

    def append(self, table: str, rows: object) -> int:
        """As `Connection.append`, within the transaction."""
        return self._session.append(table, rows)

    def rollback(self) -> None:
        """Rolls back; nothing is to follow within the `with`."""
        self._session._native.run("ROLLBACK", None)

    def __enter__(self) -> Transaction:
        self._session._refuse_fork()
        if self._session.in_transaction:
            raise ProgrammingError(
                "a transaction of this session is open already: use session() for one beside it, SAVEPOINT for one within"
            )
        self._session._native.run(self._begin, None)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        status = self._session._native.status()
        if status == "idle":
            return
        if kind is None and status == "active":
            _interrupts.call(self._session._native, self._session._native.run, "COMMIT", None)
        else:
            self._session._native.run("ROLLBACK", None)


class Connection:
    """A database that is open. Threads are welcome: each has a session of its own behind it, so that settings (`SET`),
    temporary tables and transactions are the thread's, and statements of several threads run at the same time.
    """

    # An extension of PEP 249, for programs that know the connection and not the module.
    Warning = _errors.Warning
    Error = _errors.Error
    InterfaceError = _errors.InterfaceError
    DatabaseError = _errors.DatabaseError
    DataError = _errors.DataError
    OperationalError = _errors.OperationalError
    IntegrityError = _errors.IntegrityError
    InternalError = _errors.InternalError
    ProgrammingError = _errors.ProgrammingError
    NotSupportedError = _errors.NotSupportedError

    def __init__(self, shared: _Open, autocommit: bool) -> None:
        self._shared: _Open | None = shared
        self.autocommit = autocommit
        self._of_thread = threading.local()
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()

    def session(self) -> Session:
        """A further session, for a transaction beside that of the thread."""
        shared = self._shared
        if shared is None:
            raise InterfaceError("the connection is closed")
        _refuse_fork(shared.pid)
        session = Session(shared.database.session())
        self._sessions.add(session)
        return session

    def _again(self) -> _Open:
        """The database, for a connection more."""
        if self._shared is None:
            raise InterfaceError("the connection is closed")
        with _lock:
            self._shared.connections += 1
        return self._shared

    def _session(self) -> Session:
        session = getattr(self._of_thread, "session", None)
        if session is None or self._shared is None or session._pid != os.getpid():
            session = self._of_thread.session = self.session()
        return session

    def sql(self, sql: str, parameters: Parameters | None = None) -> Result:
        """Runs a text of one or several statements, or one statement with parameters; gives the rows of the last one.

        Parameters are a sequence for `?` (or `$1`, `$2`, ...), or a mapping for `$name`. A name of a relation that the database
        does not have may be that of a variable which the caller sees and that holds a data frame or an Arrow table. Outside a
        transaction a statement is committed when this returns.
        """
        return self._session()._sql(sql, parameters, sys._getframe(1))

    def append(self, table: str, rows: object) -> int:
        """Adds the rows of a data frame or anything else with columns to a table, and returns how many they are.

        Columns go by their names; those that the frame does not have get their defaults. All rows or none are added. Texts are
        read as COPY reads them for columns of dates, times, intervals, `numeric`, `uuid`, documents and enums, and sixteen bytes
        for a `uuid`; a `DataError` names the row and column of the first that is none. A dictionary of columns is added as Arrow
        if pyarrow is there, else by a statement for each row.
        """
        return self._session().append(table, rows)

    def transaction(self, *, read_only: bool = False, isolation: str = "serializable") -> Transaction:
        """A transaction of this thread, for `with`: committed at its end, rolled back if an exception leaves it.

        One that is `read_only` and serializable reads a snapshot that is safe, without waiting and without ever being
        refused. Any other may be: see `retry`.
        """
        return self._session().transaction(read_only=read_only, isolation=isolation)

    @overload
    def retry(
        self, run: Callable[Concatenate[Transaction, P], T], *, read_only: bool = False, isolation: str = "serializable"
    ) -> Callable[P, T]: ...

    @overload
    def retry(
        self, run: None = None, *, read_only: bool = False, isolation: str = "serializable"
    ) -> Callable[[Callable[Concatenate[Transaction, P], T]], Callable[P, T]]: ...

    def retry(
        self,
        run: Callable[Concatenate[Transaction, P], T] | None = None,
        *,
        read_only: bool = False,
        isolation: str = "serializable",
    ) -> Any:
        """Makes a function whose first argument is a transaction one that begins it, runs in it, commits it, and runs again
        when another transaction was first (40001, 40P01): at most 100 times, with pauses that grow. What else the function does
        must bear being done again.

            @db.retry
            def transfer(tx, source, target, amount): ...

            transfer(1, 2, 50)
        """

        def of(run: Callable[Concatenate[Transaction, P], T]) -> Callable[P, T]:
            @functools.wraps(run)
            def until_committed(*arguments: P.args, **named: P.kwargs) -> T:
                for runs in range(_RUNS_MAX):
                    try:
                        with self.transaction(read_only=read_only, isolation=isolation) as transaction:
                            return run(transaction, *arguments, **named)
                    except SerializationError:
                        if runs + 1 == _RUNS_MAX:
                            raise
                        time.sleep(random.uniform(0, min(_WAIT_MAX, _WAIT_FIRST * 2**runs)))
                raise AssertionError("the last run returns or raises")

            return until_committed

        return of if run is None else of(run)

    def cursor(self) -> Cursor:
        """A cursor as PEP 249 has them. Its statements are in a transaction that the first one opens and `commit` or
        `rollback` ends, those of all cursors of the thread in the same; with `autocommit` each is its own.
        """
        return Cursor(self)

    def commit(self) -> None:
        """Commits what cursors of this thread have done."""
        self._end("COMMIT")

    def rollback(self) -> None:
        """Rolls back what cursors of this thread have done."""
        self._end("ROLLBACK")

    def _end(self, how: str) -> None:
        session = self._session()
        if session.in_transaction:
            _interrupts.call(session._native, session._native.run, how, None)

    @property
    def in_transaction(self) -> bool:
        """Whether this thread has a transaction open."""
        return self._session().in_transaction

    def checkpoint(self) -> None:
        """Merges all changed rows into the columnar base and makes the log short. Readers and writers go on."""
        shared = self._shared
        if shared is None:
            raise InterfaceError("the connection is closed")
        shared.database.checkpoint()

    def cancel(self) -> None:
        """Ends the statements that run on this connection, in whatever thread."""
        for session in list(self._sessions):
            session.cancel()

    def close(self) -> None:
        """Rolls back what is open, and closes the database if nobody else in the process has it open."""
        shared, self._shared = self._shared, None
        if shared is None:
            return
        for session in list(self._sessions):
            session.close()
        if shared.pid != os.getpid():
            return
        with _lock:
            shared.connections -= 1
            if shared.connections == 0:
                if shared.key is not None:
                    _open.pop(shared.key, None)
                shared.database.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        try:
            self.close()
        except Exception:  # noqa: BLE001 -- the interpreter may be half gone
            pass


from ._cursor import Cursor  # noqa: E402 -- a cursor knows its connection
