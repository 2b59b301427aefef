# SPDX-License-Identifier: Apache-2.0
"""A database that a server has, with the interface of one in the process: what `_native` is to that, this is to psycopg.

The rows of a statement are all fetched before the first one is given: they are in this process then, and the server waits for
nobody.
"""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any, Iterable, Iterator, Mapping, Sequence

from . import _errors, _native
from ._errors import InterfaceError, NotSupportedError

_STATES = {0: "idle", 1: "active", 2: "active", 3: "failed"}
# Rows of a frame that are sent at a time.
_SENT_ROWS = 65_536


def is_server(text: str) -> bool:
    """Whether this names a server and no directory."""
    return text.startswith(("postgres://", "postgresql://"))


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise NotSupportedError(
            'a server is reached by psycopg, a driver of its protocol: pip install "psycopg[binary]"'
        ) from None
    return psycopg


@contextlib.contextmanager
def _own_errors() -> Iterator[None]:
    """What psycopg raises, as this package does."""
    psycopg = _psycopg()
    try:
        yield
    except psycopg.Error as error:
        said = error.diag
        position = said.statement_position
        raise _errors.of_state(
            error.sqlstate or ("08006" if isinstance(error, psycopg.OperationalError) else "XX000"),
            said.message_primary or str(error).strip(),
            detail=said.message_detail,
            hint=said.message_hint,
            position=int(position) if position else None,
            context=said.context,
            schema=said.schema_name,
            table=said.table_name,
            column=said.column_name,
            constraint=said.constraint_name,
        ) from None


class Database:
    """A server, to which sessions are opened."""

    def __init__(self, url: str) -> None:
        self._url = url
        # Who cannot be reached says so at once.
        self._first: Session | None = Session(url)

    def session(self) -> Session:
        first, self._first = self._first, None
        return first or Session(self._url)

    def checkpoint(self) -> None:
        session = self.session()
        try:
            session.run("CHECKPOINT")
        finally:
            session.close()

    def close(self) -> None:
        if self._first is not None:
            self._first.close()


class Session:
    """One connection to the server."""

    def __init__(self, url: str) -> None:
        psycopg = _psycopg()
        from psycopg.types.json import JsonbDumper

        with _own_errors():
            self._connection = psycopg.connect(url, autocommit=True, cursor_factory=psycopg.RawCursor)
        self._connection.adapters.register_dumper(dict, JsonbDumper)
        self._said: list[tuple[str, str]] = []
        self._connection.add_notice_handler(lambda said: self._said.append((said.severity or "", said.message_primary or "")))

    def run(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] | None = None) -> Rows:
        self._said.clear()
        cursor = self._cursor()
        with _own_errors():
            if parameters is None:
                # Of several statements the rows of the last one count.
                cursor.execute(sql)
                while cursor.nextset():
                    pass
            else:
                cursor.execute(*_bound(sql, parameters))
        return Rows(cursor)

    def run_many(self, sql: str, sets: Iterable[Sequence[Any] | Mapping[str, Any]]) -> int:
        """Runs a statement with each of these; all or none of it remains."""
        count = 0
        with _own_errors(), self._connection.transaction():
            for parameters in sets:
                cursor = self._cursor()
                cursor.execute(*_bound(sql, parameters))
                count += max(cursor.rowcount, 0)
        return count

    def append(self, table: str, columns: Sequence[str], stream: Any) -> int:
        """Sends the rows of an Arrow stream to these columns of a table, both as SQL writes them."""
        import pyarrow

        self._said.clear()
        reader = pyarrow.RecordBatchReader.from_stream(stream)
        cursor, count = self._cursor(), 0
        copy = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT csv)"
        with _own_errors(), cursor.copy(copy) as sent:
            for batch in reader:
                for begin in range(0, batch.num_rows, _SENT_ROWS):
                    sent.write(_csv(batch.slice(begin, _SENT_ROWS)))
                count += batch.num_rows
        return count

    def status(self) -> str:
        return "idle" if self._connection.closed else _STATES.get(int(self._connection.info.transaction_status), "idle")

    def notices(self) -> list[tuple[str, str]]:
        said, self._said = self._said, []
        return said

    def cancel(self) -> None:
        if not self._connection.closed and self._connection.info.transaction_status == 1:
            self._connection.cancel_safe()

    def unknown_relations(self, sql: str, parameters: object = None) -> list[str]:
        """Frames of the program are not sent: `append` puts one into a table, a temporary one for one."""
        return []

    def lend(self, name: str, stream: object, insert: str | None = None) -> None:
        raise NotSupportedError("a server does not see the program's frames: append() puts one into a table")

    def give_back(self, name: str) -> None:
        pass

    def close(self) -> None:
        self._connection.close()

    def _cursor(self) -> Any:
        if self._connection.closed:
            raise _errors.of_state("08003", "the session is closed")
        return self._connection.cursor()


def _bound(sql: str, parameters: Sequence[Any] | Mapping[str, Any]) -> tuple[str, list[Any]]:
    """The statement with `$1`, `$2`, ..., and the values in this order."""
    text, names = _native.numbered(sql, parameters)
    if not isinstance(parameters, Mapping):
        return text, list(parameters)
    for name in names:
        if name not in parameters:
            raise _errors.of_state("07001", f"there is no value for the parameter ${name}")
    return text, [parameters[name] for name in names]


class Rows:
    """The rows that a statement has returned, and what it has done."""

    def __init__(self, cursor: Any) -> None:
        self._cursor = cursor
        described = cursor.description
        self.columns = None if described is None else [(column.name, column.type_display) for column in described]
        self.tag: str | None = cursor.statusmessage
        self.row_count: int | None = cursor.rowcount if cursor.rowcount >= 0 else None

    @property
    def fetched(self) -> int:
        """All rows of a result are there before the first is given."""
        return 0

    def fetch(self, most: int | None = None) -> list[tuple[Any, ...]]:
        self._refuse_closed()
        with _own_errors():
            rows: list[tuple[Any, ...]] = self._cursor.fetchall() if most is None else self._cursor.fetchmany(most)
        return rows

    def raise_failure(self) -> None:
        pass

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return _table(self._cursor, self.fetch()).__arrow_c_stream__(requested_schema)

    def stream_with_durations(self) -> object:
        return _table(self._cursor, self.fetch(), durations=True).__arrow_c_stream__()

    def close(self) -> None:
        self._cursor.close()

    def _refuse_closed(self) -> None:
        if self._cursor.closed:
            raise InterfaceError("the result is closed")


def _table(cursor: Any, rows: list[tuple[Any, ...]], *, durations: bool = False) -> Any:
    """The rows as a table of pyarrow, with the types that an embedded database gives them; intervals as durations if they are wanted
    so."""
    import pyarrow

    names, arrays = [], []
    for place, column in enumerate(cursor.description):
        values = [row[place] for row in rows]
        names.append(column.name)
        known = cursor.connection.adapters.types.get(column.type_code) if durations else None
        if known is not None and known.name == "interval" and known.oid == column.type_code:
            arrays.append(pyarrow.array(values, pyarrow.duration("us")))
        else:
            arrays.append(_array(pyarrow, cursor.connection, column, values))
    return pyarrow.Table.from_arrays(arrays, names=names)


def _numbers(pyarrow: Any, column: Any, values: list[Any]) -> Any:
    """Numbers of type `numeric`. Without digits of its own, the column has as many as its values need, and is one of texts where Arrow's
    decimals have no room for these."""
    if column.precision:
        return pyarrow.array(values, pyarrow.decimal128(column.precision, column.scale))
    there = [value for value in values if value is not None]
    if not there:
        return pyarrow.array(values, pyarrow.decimal128(38, 0))
    if all(value.is_finite() for value in there):
        try:
            return pyarrow.array(values)
        except pyarrow.ArrowInvalid:
            pass
    return pyarrow.array([None if value is None else format(value, "f") for value in values], pyarrow.string())


def _array(pyarrow: Any, connection: Any, column: Any, values: list[Any]) -> Any:
    known = connection.adapters.types.get(column.type_code)
    if known is not None and known.array_oid == column.type_code:
        item = _PLAIN.get(known.name)
        kind = getattr(pyarrow, item[0])(*item[1:]) if item else pyarrow.string()
        return pyarrow.array(values, pyarrow.list_(kind))
    name = known.name if known is not None else "text"
    if name == "numeric":
        return _numbers(pyarrow, column, values)
    if name in ("json", "jsonb"):
        texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
        return pyarrow.ExtensionArray.from_storage(pyarrow.json_(), pyarrow.array(texts, pyarrow.string()))
    if name == "uuid":
        raw = [None if value is None else value.bytes for value in values]
        return pyarrow.ExtensionArray.from_storage(pyarrow.uuid(), pyarrow.array(raw, pyarrow.binary(16)))
    if name == "interval":
        parts = [
            None if value is None else (0, value.days, (value.seconds * 1_000_000 + value.microseconds) * 1000)
            for value in values
        ]
        return pyarrow.array(parts, pyarrow.month_day_nano_interval())
    item = _PLAIN.get(name)
    if item is None:
        values = [None if value is None else str(value) for value in values]
    return pyarrow.array(values, getattr(pyarrow, item[0])(*item[1:]) if item else pyarrow.string())


# Types of PostgreSQL, as pyarrow makes them.
_PLAIN: dict[str, tuple[Any, ...]] = {
    "bool": ("bool_",),
    "int2": ("int16",),
    "int4": ("int32",),
    "int8": ("int64",),
    "float4": ("float32",),
    "float8": ("float64",),
    "text": ("string",),
    "varchar": ("string",),
    "bpchar": ("string",),
    "name": ("string",),
    "bytea": ("binary",),
    "date": ("date32",),
    "time": ("time64", "us"),
    "timestamp": ("timestamp", "us"),
    "timestamptz": ("timestamp", "us", "UTC"),
}


def _csv(batch: Any) -> bytes:
    """Rows as COPY takes them: NULL is nothing, a text stands in quotes."""
    import pyarrow
    from pyarrow import csv

    columns = []
    for column, field in zip(batch.columns, batch.schema):
        kind = field.type
        if isinstance(column, pyarrow.ExtensionArray):
            column, kind = column.storage, column.storage.type
        if pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind) or pyarrow.types.is_binary_view(kind):
            column = pyarrow.array([None if value is None else "\\x" + value.hex() for value in column.to_pylist()])
        elif pyarrow.types.is_fixed_size_binary(kind):
            column = pyarrow.array([None if value is None else value.hex() for value in column.to_pylist()])
        elif pyarrow.types.is_nested(kind):
            raise NotSupportedError(f'the column "{field.name}" of type {kind} cannot be sent to a server by append()')
        elif pyarrow.types.is_dictionary(kind):
            column = column.dictionary_decode()
        elif pyarrow.types.is_string_view(kind):
            column = column.cast(pyarrow.string())
        columns.append(column)
    written = io.BytesIO()
    table = pyarrow.record_batch(columns, names=[str(place) for place in range(len(columns))])
    csv.write_csv(table, written, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return written.getvalue()
