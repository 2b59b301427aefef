# SPDX-License-Identifier: Apache-2.0
"""Cursors, and what else PEP 249 asks for."""

from __future__ import annotations

import datetime
import time
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

from . import _interrupts
from ._errors import InterfaceError, ProgrammingError
from ._result import Result

if TYPE_CHECKING:
    from ._connection import Connection, Session


class TypeObject:
    """What the type in a cursor's `description` is compared with."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TypeObject):
            return self._names == other._names
        return isinstance(other, str) and other.split("(")[0] in self._names

    def __hash__(self) -> int:
        return hash(self._names)


STRING = TypeObject("text", "character varying", "character", "json", "jsonb", "uuid")
BINARY = TypeObject("bytea")
NUMBER = TypeObject("smallint", "integer", "bigint", "real", "double precision", "numeric", "boolean")
DATETIME = TypeObject(
    "date",
    "time without time zone",
    "timestamp without time zone",
    "timestamp with time zone",
    "interval",
)
ROWID = TypeObject("oid")

Date = datetime.date
Time = datetime.time
Timestamp = datetime.datetime
Binary = bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 -- PEP 249 names it so
    """The local date of a time in seconds since 1970."""
    return Date(*time.localtime(ticks)[:3])


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    """The local time of day of a time in seconds since 1970."""
    return Time(*time.localtime(ticks)[3:6])


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    """The local date and time of a time in seconds since 1970."""
    return Timestamp(*time.localtime(ticks)[:6])


class Cursor:
    """Statements and their rows as PEP 249 has them; `Connection.sql` is shorter."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.arraysize = 1
        self._result: Result | None = None
        self._rowcount = -1
        self._is_closed = False

    @property
    def description(self) -> list[tuple[Any, ...]] | None:
        """For each column its name and type, and five times nothing; `None` if there are no rows."""
        if self._result is None or self._result._rows.columns is None:
            return None
        return [(name, ty, None, None, None, None, None) for name, ty in self._result._rows.columns]

    @property
    def rowcount(self) -> int:
        """How many rows the last statement was about; -1 if that is not known."""
        return self._rowcount if self._result is None else self._result.rowcount

    def execute(self, operation: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Cursor:
        """Runs a statement. Parameters are a sequence for `?`, or a mapping for `$name`."""
        session = self._begun()
        native = session._native
        # Without parameters a text is taken as it is.
        given = parameters if parameters else None
        self._result = Result(native, _interrupts.call(native, native.run, operation, given))
        return self

    def executemany(self, operation: str, seq_of_parameters: Iterable[Sequence[Any] | Mapping[str, Any]]) -> Cursor:
        """Runs a statement for each set of parameters; all are in one transaction."""
        session = self._begun()
        self._result = None
        self._rowcount = session._run_many(operation, seq_of_parameters)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; `None` behind the last one."""
        return self._rows().fetchone()

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """The next rows, `arraysize` of them unless said otherwise."""
        return self._rows().fetchmany(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._rows().fetchall()

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing: parameters have the room that they need."""

    def setoutputsize(self, size: object, column: object = None) -> None:
        """Does nothing: values have the room that they need."""

    def close(self) -> None:
        """The cursor is of no use any more."""
        if self._result is not None:
            self._result.close()
        self._result, self._is_closed = None, True

    def _begun(self) -> Session:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        session = self.connection._session()
        if self._result is not None:
            self._result.close()
            self._result = None
        if not self.connection.autocommit and not session.in_transaction:
            session._native.run("BEGIN", None)
        return session

    def _rows(self) -> Result:
        if self._is_closed:
            raise InterfaceError("the cursor is closed")
        if self._result is None:
            raise ProgrammingError("nothing was executed that returns rows")
        return self._result

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self._rows())

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
