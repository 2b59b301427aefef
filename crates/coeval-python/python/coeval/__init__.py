# SPDX-License-Identifier: Apache-2.0
"""Coeval: transactions and analytics on the same live data, in the process.

    import coeval

    db = coeval.connect("shop.db")
    db.sql("CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric(12,2))")
    with db.transaction() as tx:
        tx.sql("INSERT INTO accounts VALUES (?, ?)", [1, 100])
    db.sql("SELECT sum(balance) FROM accounts").fetchall()
"""

from . import aio
from ._connection import Connection, Session, Transaction, connect
from ._cursor import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Cursor,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)
from ._errors import (
    CheckViolation,
    DatabaseError,
    DataError,
    Error,
    ForeignKeyViolation,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotNullViolation,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    QueryCanceled,
    ReadOnlyError,
    SerializationError,
    UndefinedTable,
    UniqueViolation,
    Warning,  # noqa: A004 -- PEP 249 names it so
)
from ._native import __version__
from ._result import Result

# PEP 249.
apilevel = "2.0"
threadsafety = 2
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "Binary",
    "CheckViolation",
    "Connection",
    "Cursor",
    "DATETIME",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "ForeignKeyViolation",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NUMBER",
    "NotNullViolation",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "QueryCanceled",
    "ROWID",
    "ReadOnlyError",
    "Result",
    "STRING",
    "SerializationError",
    "Session",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Transaction",
    "UndefinedTable",
    "UniqueViolation",
    "Warning",
    "__version__",
    "aio",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
