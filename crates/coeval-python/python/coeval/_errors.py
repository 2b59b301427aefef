# SPDX-License-Identifier: Apache-2.0
"""Exceptions: the classes of PEP 249, and below them those that programs catch by name. Each has the SQLSTATE and what else is
known."""

from __future__ import annotations


class Warning(Exception):  # noqa: A001 -- PEP 249 names it so
    """Something to know that is no error."""


class Error(Exception):
    """What the database refuses or cannot do.

    `sqlstate` is its five characters; `detail`, `hint`, `position` (in characters of the statement, from 1), `context`,
    `schema`, `table`, `column` and `constraint` are `None` where nothing is known.
    """

    sqlstate: str = "XX000"
    detail: str | None = None
    hint: str | None = None
    position: int | None = None
    context: str | None = None
    schema: str | None = None
    table: str | None = None
    column: str | None = None
    constraint: str | None = None

    def __str__(self) -> str:
        lines = [super().__str__()]
        if self.detail:
            lines.append(f"DETAIL: {self.detail}")
        if self.hint:
            lines.append(f"HINT: {self.hint}")
        return "\n".join(lines)


class InterfaceError(Error):
    """The package was used in a way that it cannot be."""


class DatabaseError(Error):
    """The database refuses something."""


class DataError(DatabaseError):
    """A value does not fit."""


class OperationalError(DatabaseError):
    """Something beyond the statement: memory, disk, a conflict, a request to stop."""


class IntegrityError(DatabaseError):
    """A constraint refuses a row."""


class InternalError(DatabaseError):
    """A fault of the database, or a transaction block that has failed and takes nothing but ROLLBACK."""


class ProgrammingError(DatabaseError):
    """The statement is wrong, or its role may not run it."""


class NotSupportedError(DatabaseError):
    """The database has no such feature."""


class SerializationError(OperationalError):
    """Another transaction was first (40001, 40P01). Nothing of this one remains; running it again may succeed."""


class QueryCanceled(OperationalError):
    """The statement was asked to stop (57014)."""


class UniqueViolation(IntegrityError):
    """There is a row with this key (23505)."""


class ForeignKeyViolation(IntegrityError):
    """A row is referenced, or references one that is not there (23503)."""


class NotNullViolation(IntegrityError):
    """A column must have a value (23502)."""


class CheckViolation(IntegrityError):
    """A CHECK constraint refuses a row (23514)."""


class UndefinedTable(ProgrammingError):
    """There is no such table (42P01)."""


class ReadOnlyError(InternalError):
    """A transaction that only reads was asked to write (25006)."""


_BY_STATE = {
    "23502": NotNullViolation,
    "23503": ForeignKeyViolation,
    "23505": UniqueViolation,
    "23514": CheckViolation,
    "25006": ReadOnlyError,
    "40001": SerializationError,
    "40P01": SerializationError,
    "42P01": UndefinedTable,
    "57014": QueryCanceled,
}

# By the first two characters, as drivers of PostgreSQL class them.
_BY_CLASS = {
    "02": ProgrammingError,
    "07": ProgrammingError,
    "08": OperationalError,
    "0A": NotSupportedError,
    "20": ProgrammingError,
    "21": ProgrammingError,
    "22": DataError,
    "23": IntegrityError,
    "24": InternalError,
    "25": InternalError,
    "26": ProgrammingError,
    "27": OperationalError,
    "28": OperationalError,
    "2B": InternalError,
    "2D": InternalError,
    "2F": InternalError,
    "34": ProgrammingError,
    "38": ProgrammingError,
    "39": ProgrammingError,
    "3B": ProgrammingError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
    "40": OperationalError,
    "42": ProgrammingError,
    "44": ProgrammingError,
    "53": OperationalError,
    "54": OperationalError,
    "55": OperationalError,
    "57": OperationalError,
    "58": OperationalError,
    "XX": InternalError,
}


def of_state(sqlstate: str, message: str, **more: object) -> Error:
    """The exception for a SQLSTATE."""
    kind = _BY_STATE.get(sqlstate) or _BY_CLASS.get(sqlstate[:2], DatabaseError)
    error = kind(message)
    error.sqlstate = sqlstate
    for name, value in more.items():
        setattr(error, name, value)
    return error
