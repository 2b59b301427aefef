# SPDX-License-Identifier: Apache-2.0
"""Data frames and Arrow tables of a program, as tables of its statements."""

from __future__ import annotations

import contextlib
import functools
import re
from types import FrameType
from typing import Any, Iterator

from . import _backend
from ._errors import InterfaceError

_WORD = re.compile(r"[^\W\d]\w*")


@functools.lru_cache(maxsize=256)
def _words(sql: str) -> frozenset[str]:
    return frozenset(_WORD.findall(sql))


def has_pyarrow() -> bool:
    """Whether pyarrow can be imported."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True


def is_frame(value: object) -> bool:
    """Whether a value is one that statements can read: what gives an Arrow stream, or a frame of pandas."""
    kind = type(value)
    return hasattr(kind, "__arrow_c_stream__") or hasattr(kind, "__arrow_c_array__") or _is_pandas(kind)


def _is_pandas(kind: type) -> bool:
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[0] == "pandas"


def stream_of(value: object) -> object:
    """What gives the rows of a frame as an Arrow stream."""
    kind = type(value)
    if hasattr(kind, "__arrow_c_stream__"):
        return value
    is_columns = _is_pandas(kind) or isinstance(value, dict)
    if is_columns or hasattr(kind, "__arrow_c_array__"):
        if not has_pyarrow():
            what = "a frame of this kind" if is_columns else "an Arrow array"
            raise InterfaceError(f"{what} is read by pyarrow: pip install pyarrow")
        import pyarrow

        frame: Any = value
        if isinstance(value, dict):
            return pyarrow.table(value)
        if is_columns:
            return pyarrow.Table.from_pandas(frame, preserve_index=False)
        return pyarrow.Table.from_batches([pyarrow.record_batch(frame)])
    raise InterfaceError(
        f"a value of type {kind.__name__} is no data frame: give a frame of pandas or polars, an Arrow table, a dictionary of "
        "columns, or anything with __arrow_c_stream__"
    )


def in_scope(sql: str, frame: FrameType | None) -> dict[str, object]:
    """The frames that a text may mean by names which the calling function sees, by their names in SQL."""
    if frame is None:
        return {}
    found = {}
    words = _words(sql)
    for names in (frame.f_globals, frame.f_locals):
        for word in words:
            value = names.get(word)
            if value is not None and is_frame(value):
                found[word.lower()] = value
                found[word] = value
    return found


def columns_of(frame: object) -> list[str]:
    """The names of the columns of a frame."""
    for attribute in ("column_names", "columns"):
        names = getattr(frame, attribute, None)
        if names is not None and all(isinstance(name, str) for name in names):
            return list(names)
    schema = getattr(frame, "schema", None)
    names = getattr(schema, "names", None)
    if names is not None:
        return list(names() if callable(names) else names)
    raise InterfaceError(f"the columns of a {type(frame).__name__} have no names that can be asked for")


@contextlib.contextmanager
def lent(session: _backend.Session, frames: dict[str, object], insert: str | None = None) -> Iterator[None]:
    """The session has these frames, by their names, until the end of the `with`. For an INSERT they have texts and bytes as values
    of the columns of its table."""
    names = []
    try:
        for name, frame in frames.items():
            session.lend(name, stream_of(frame), insert)
            names.append(name)
        yield
    finally:
        for name in names:
            session.give_back(name)
