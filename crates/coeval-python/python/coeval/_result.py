# SPDX-License-Identifier: Apache-2.0
"""What a statement returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, TypeVar

from . import _backend, _interrupts
from ._errors import InterfaceError, ProgrammingError
from ._progress import Count

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

T = TypeVar("T")

_ROWS_AT_ONCE = 1024


class Result:
    """The rows of a statement, and what it has done.

    Rows come as they are asked for, from the snapshot that the statement read: they need not fit into memory, and later
    statements do not change them. Each row is given once, whatever asks for it. A result that is not read to its end keeps its
    query waiting until it is closed or forgotten.
    """

    def __init__(self, session: _backend.Session, rows: _backend.Rows) -> None:
        self._session = session
        self._rows = rows
        self._next: list[tuple[Any, ...]] = []

    @property
    def columns(self) -> list[str]:
        """The names of the columns; none of a statement that returns no rows."""
        return [name for name, _ in self._rows.columns or ()]

    @property
    def types(self) -> list[str]:
        """The types of the columns, as SQL spells them."""
        return [ty for _, ty in self._rows.columns or ()]

    @property
    def tag(self) -> str | None:
        """What was done, as `INSERT 0 2`; `None` of a query that runs."""
        return self._rows.tag

    @property
    def rowcount(self) -> int:
        """How many rows the statement is about; -1 if that is not known yet."""
        count = self._rows.row_count
        return -1 if count is None else count

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row; `None` behind the last one."""
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int = 1) -> list[tuple[Any, ...]]:
        """The next rows, at most `size`."""
        self._refuse_no_rows()
        if size < 0:
            raise ProgrammingError("fetchmany takes a number of rows that is not negative")
        if not self._next and size > 1:
            return _interrupts.call(self._session, self._rows.fetch, size)
        if len(self._next) < size:
            self._next += _interrupts.call(self._session, self._rows.fetch, max(size, _ROWS_AT_ONCE))
        taken, self._next = self._next[:size], self._next[size:]
        return taken

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        self._refuse_no_rows()
        kept, self._next = self._next, []
        count = Count("rows")
        count.done = lambda: self._rows.fetched
        rest = _interrupts.call(self._session, self._rows.fetch, None, count=count)
        return kept + rest if kept else rest

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        self._refuse_no_rows()
        while rows := self._next or _interrupts.call(self._session, self._rows.fetch, _ROWS_AT_ONCE):
            self._next = []
            rows.reverse()
            try:
                while rows:
                    yield rows.pop()
            finally:
                # Who stops in between goes on here.
                rows.reverse()
                self._next = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The rows that are left, for anything that reads Arrow streams."""
        self._refuse_fetched()
        return self._rows.__arrow_c_stream__(requested_schema)

    def arrow(self) -> pyarrow.Table:
        """The rows that are left, as a table of pyarrow."""
        import pyarrow

        return self._read(pyarrow.table)

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows that are left, batch by batch, as they come."""
        import pyarrow

        return pyarrow.RecordBatchReader.from_stream(self)

    def df(self) -> pandas.DataFrame:
        """The rows that are left, as a data frame of pandas."""
        import pandas

        from ._pandas import data_frame

        del pandas
        return data_frame(self.arrow())

    def pl(self) -> polars.DataFrame:
        """The rows that are left, as a data frame of polars. It has no months: an interval is a duration there, as in tuples."""
        import polars

        return self._read(lambda result: polars.DataFrame(_WithDurations(result)))

    def close(self) -> None:
        """Ends the query, if it still runs; the rest of its rows is not read."""
        self._next = []
        self._rows.close()

    def _read(self, make: Callable[[Any], T]) -> T:
        """What `make` makes of the stream; what ends the stream is raised as it is."""
        try:
            made = _interrupts.call(self._session, make, self)
        except Exception:
            self._rows.raise_failure()
            raise
        return made

    def _refuse_fetched(self) -> None:
        self._refuse_no_rows()
        if self._next:
            raise InterfaceError("some rows were fetched as tuples and wait to be read: read all as tuples or all as Arrow")

    def _refuse_no_rows(self) -> None:
        if self._rows.columns is None:
            raise ProgrammingError(f"the statement ({self._rows.tag}) returns no rows")

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {ty}" for name, ty in self._rows.columns or ())
        return f"<coeval.Result {self._rows.tag or columns}>"


class _WithDurations:
    """A result as a stream in which intervals are durations, with 30 days to a month and 365 to a year."""

    def __init__(self, result: Result) -> None:
        self._result = result

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        self._result._refuse_fetched()
        return self._result._rows.stream_with_durations()
