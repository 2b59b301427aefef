# SPDX-License-Identifier: Apache-2.0
"""The same for `asyncio`: statements run on threads, and the loop goes on meanwhile.

    async with await coeval.aio.connect("shop.db") as db:
        rows = await (await db.sql("SELECT 1")).fetchall()
        async with db.transaction() as tx:
            await tx.sql("UPDATE ...")

Each transaction has a session of its own, so that any number of tasks may have one open. A task that is cancelled while it waits
for a statement cancels the statement.
"""

from __future__ import annotations

import asyncio
import os
import sys
from types import TracebackType
from typing import Any, AsyncIterator, Callable, TypeVar

from . import _backend, _connection
from ._connection import Parameters
from ._result import Result as _Result

T = TypeVar("T")

__all__ = ["Connection", "Result", "Transaction", "connect"]


async def _aside(native: _backend.Session, work: Callable[..., T], *arguments: Any) -> T:
    """What the work gives, on a thread; it is cancelled with the task."""
    running = asyncio.get_running_loop().run_in_executor(None, work, *arguments)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        native.cancel()
        # Its session must be free again before anybody goes on.
        await asyncio.wait([running])
        running.exception()
        raise


async def connect(database: str | os.PathLike[str] = ":memory:", **options: Any) -> Connection:
    """As `coeval.connect`."""
    return Connection(await asyncio.to_thread(lambda: _connection.connect(database, **options)))


class Connection:
    """A database that is open."""

    def __init__(self, connection: _connection.Connection) -> None:
        self._connection = connection

    async def sql(self, sql: str, parameters: Parameters | None = None) -> Result:
        """Runs a statement, which is committed when this returns; see `coeval.Connection.sql`."""
        session = self._connection.session()
        return Result(await _aside(session._native, session._sql, sql, parameters, sys._getframe(1)))

    async def append(self, table: str, rows: object) -> int:
        """Adds rows of a frame to a table; see `coeval.Connection.append`."""
        session = self._connection.session()
        return await _aside(session._native, session.append, table, rows)

    def transaction(self, *, read_only: bool = False, isolation: str = "serializable") -> Transaction:
        """A transaction, for `async with`; see `coeval.Connection.transaction`."""
        return Transaction(self._connection.session(), read_only, isolation)

    async def close(self) -> None:
        """See `coeval.Connection.close`."""
        await asyncio.to_thread(self._connection.close)

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Transaction:
    """An open transaction."""

    def __init__(self, session: _connection.Session, read_only: bool, isolation: str) -> None:
        self._session = session
        self._transaction = session.transaction(read_only=read_only, isolation=isolation)

    async def sql(self, sql: str, parameters: Parameters | None = None) -> Result:
        """As `Connection.sql`, within the transaction."""
        session = self._session
        return Result(await _aside(session._native, session._sql, sql, parameters, sys._getframe(1)))

    async def append(self, table: str, rows: object) -> int:
        """As `Connection.append`, within the transaction."""
        return await _aside(self._session._native, self._session.append, table, rows)

    async def __aenter__(self) -> Transaction:
        await _aside(self._session._native, self._transaction.__enter__)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        await asyncio.shield(asyncio.to_thread(self._transaction.__exit__, kind, error, where))


class Result:
    """The rows of a statement; see `coeval.Result`."""

    def __init__(self, result: _Result) -> None:
        self._result = result

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._result.columns

    @property
    def rowcount(self) -> int:
        """How many rows the statement is about; -1 if that is not known yet."""
        return self._result.rowcount

    async def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; `None` behind the last one."""
        return await self._aside(self._result.fetchone)

    async def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`."""
        return await self._aside(self._result.fetchmany, size)

    async def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return await self._aside(self._result.fetchall)

    async def arrow(self) -> Any:
        """The rows that are left, as a table of pyarrow."""
        return await self._aside(self._result.arrow)

    async def df(self) -> Any:
        """The rows that are left, as a data frame of pandas."""
        return await self._aside(self._result.df)

    async def pl(self) -> Any:
        """The rows that are left, as a data frame of polars."""
        return await self._aside(self._result.pl)

    async def __aiter__(self) -> AsyncIterator[tuple[Any, ...]]:
        while rows := await self.fetchmany(1024):
            for row in rows:
                yield row

    async def _aside(self, work: Callable[..., T], *arguments: Any) -> T:
        return await _aside(self._result._session, work, *arguments)
