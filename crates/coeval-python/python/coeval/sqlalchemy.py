# SPDX-License-Identifier: Apache-2.0
"""The dialect `coeval://` of SQLAlchemy 2: a database in the process, as PostgreSQL's dialect speaks to a server.

    create_engine("coeval:///shop.db")      a directory, relative to where the process runs
    create_engine("coeval:////data/shop")   an absolute one
    create_engine("coeval://")              in memory; all connections of the engine have the same

What goes by the name `postgresql` in SQLAlchemy, as `postgresql_where` or `dialects.postgresql.insert`, holds here.
"""

from __future__ import annotations

import datetime
import threading
from typing import Any

from sqlalchemy import types, util
from sqlalchemy.dialects.postgresql import ARRAY, INTERVAL, UUID
from sqlalchemy.dialects.postgresql.base import PGCompiler, PGDialect
from sqlalchemy.dialects.postgresql.pg_catalog import INT2VECTOR, OIDVECTOR
from sqlalchemy.engine import URL

import coeval

from . import _native
from ._connection import Connection, Session


class _OneSession(Connection):
    """A connection whose session is the same in every thread: pools hand connections from thread to thread."""

    _own: Session | None = None
    # What reads documents, if it is not `json.loads`.
    _json_loads: Any = None

    def _session(self) -> Session:
        if self._own is None or self._shared is None:
            self._own = self.session()
            native = self._own._native
            if self._json_loads is not None and isinstance(native, _native.Session):
                native.set_json_loads(self._json_loads)
        return self._own


def _cast(kind: type) -> type:
    """A type whose parameters are written with a cast, so that the statement says what they are."""
    return type(f"Coeval{kind.__name__}", (kind,), {"render_bind_cast": True})


class _Numeric(types.Numeric):  # type: ignore[type-arg]
    """Decimals come as `Decimal` from the database."""

    render_bind_cast = True

    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        return None if self.asdecimal else lambda value: None if value is None else float(value)


class _Float(types.Float):  # type: ignore[type-arg]
    """Floats come as `float` from the database, whatever expression they are made by."""

    render_bind_cast = True

    def bind_processor(self, dialect: Any) -> None:
        return None

    def result_processor(self, dialect: Any, coltype: Any) -> Any:
        if self.asdecimal:
            return super().result_processor(dialect, coltype)  # type: ignore[no-untyped-call]
        return lambda value: None if value is None else float(value)


class _Interval(INTERVAL):
    """Spans of time, whose literals are ones for the database, too."""

    render_bind_cast = True

    @classmethod
    def adapt_emulated_to_native(cls, interval: Any, **kw: Any) -> _Interval:  # type: ignore[override]
        return cls(precision=interval.second_precision)

    def literal_processor(self, dialect: Any) -> Any:
        def literal(value: datetime.timedelta) -> str:
            return f"INTERVAL '{value.days} days {value.seconds} seconds {value.microseconds} microseconds'"

        return literal


class _Array(ARRAY):  # type: ignore[type-arg]
    """Arrays go as the text of one, which any place in a statement takes."""

    render_bind_cast = True

    def bind_processor(self, dialect: Any) -> Any:
        item_of: Any = self.item_type.dialect_impl(dialect).bind_processor(dialect) or (lambda item: item)

        def text(value: Any) -> str:
            if value is None:
                return "NULL"
            if isinstance(value, (list, tuple)):
                return "{" + ",".join(map(text, value)) + "}"
            item = item_of(value)
            plain = f"\\x{item.hex()}" if isinstance(item, bytes) else str(item)
            plain = plain.replace("\\", "\\\\").replace('"', '\\"')
            return f'"{plain}"'

        return lambda value: None if value is None else text(value)


def _vector(kind: type) -> type:
    """A type of the catalog whose values are numbers with blanks between."""

    def result_processor(self: Any, dialect: Any, coltype: Any) -> Any:
        return lambda value: None if value is None else [int(number) for number in value.split()]

    return type(f"Coeval{kind.__name__}", (kind,), {"result_processor": result_processor})


class _Compiler(PGCompiler):
    """Offsets of a window's frame are literals for the database, each time they are run."""

    def visit_frame_clause(self, frameclause: Any, **kw: Any) -> str:
        text: str = super().visit_frame_clause(frameclause, **kw | {"literal_execute": True})  # type: ignore[no-untyped-call]
        return text


class CoevalDialect(PGDialect):
    """See the module."""

    driver = "coeval"
    statement_compiler = _Compiler
    supports_statement_cache = True
    default_paramstyle = "numeric_dollar"
    # How many rows a query has is known when they are read.
    supports_sane_rowcount_returning = False
    supports_native_uuid = True
    # Documents come as `json.loads` makes them, or what the engine was given in its place.
    supports_native_json_deserialization = True
    dialect_injects_custom_json_deserializer = True
    use_insertmanyvalues_wo_returning = True

    colspecs = util.update_copy(
        PGDialect.colspecs,
        {
            kind: _cast(kind)
            for kind in (
                types.String,
                types.Time,
                types.Date,
                types.DateTime,
                types.Boolean,
                types.Integer,
                types.SmallInteger,
                types.BigInteger,
                types.LargeBinary,
                UUID,
            )
        },
    )
    colspecs |= {kind: _vector(kind) for kind in (INT2VECTOR, OIDVECTOR)}
    colspecs[types.Interval] = colspecs[INTERVAL] = _Interval
    colspecs[types.Numeric] = _Numeric
    colspecs[types.Float] = _Float
    colspecs[types.ARRAY] = colspecs[ARRAY] = _Array

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._lock = threading.Lock()
        self._in_memory: Connection | None = None

    @classmethod
    def import_dbapi(cls) -> Any:
        return coeval

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        return [url.database or ":memory:"], dict(url.query)

    def connect(self, *arguments: Any, **named: Any) -> Any:
        opened = coeval.connect(*arguments, **named)
        if arguments[0] == ":memory:":
            with self._lock:
                if self._in_memory is None:
                    self._in_memory = opened
                opened = self._in_memory
                connection = _OneSession(opened._again(), False)
        else:
            connection = _OneSession(opened._again(), False)
            opened.close()
        connection._json_loads = self._json_deserializer
        return connection

    def set_isolation_level(self, dbapi_connection: Any, level: str) -> None:
        dbapi_connection.autocommit = level == "AUTOCOMMIT"
        if level != "AUTOCOMMIT":
            super().set_isolation_level(dbapi_connection, level)  # type: ignore[no-untyped-call]

    def get_isolation_level_values(self, dbapi_connection: Any) -> list[Any]:
        return ["AUTOCOMMIT", "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def is_disconnect(self, e: Exception, connection: Any, cursor: Any) -> bool:
        return isinstance(e, coeval.InterfaceError)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        # What the database is like, for what SQLAlchemy asks of PostgreSQL's versions.
        return (15,)
