# SPDX-License-Identifier: Apache-2.0
"""What somebody who waits sees while a statement takes long: for how long it has been running, how many rows have come, and how
much of what was given is done. It is on the terminal's standard error, or below the cell of a notebook; where there is neither,
or `COEVAL_PROGRESS` is `off`, nothing is shown.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from typing import Any, Callable, Iterable, Iterator, TypeVar

T = TypeVar("T")

# A statement that has taken so long says that it goes on.
_QUIET_SECONDS = 1.0
_TICK_SECONDS = 0.1
_BAR_WIDTH = 30


class Count:
    """How far a call is: so many of so many, if that is known."""

    def __init__(self, what: str, total: int | None = None) -> None:
        self.what, self.total = what, total
        self.done: Callable[[], int] = lambda: 0

    def over(self, items: Iterable[T]) -> Iterator[T]:
        """The items, which are counted as they are taken."""
        done = 0
        self.done = lambda: done
        for item in items:
            yield item
            done += 1


def line(seconds: float, count: Count | None) -> str:
    """What is shown after so many seconds."""
    parts = []
    if count is not None and count.total:
        done = min(count.done(), count.total)
        filled = _BAR_WIDTH * done // count.total
        parts.append(f"[{'=' * filled}{' ' * (_BAR_WIDTH - filled)}] {done:,} of {count.total:,} {count.what}")
    elif count is not None and count.done():
        parts.append(f"{count.done():,} {count.what}")
    return ", ".join([*parts, f"running for {seconds:.0f} s", "Ctrl-C ends it"])


class _Terminal:
    """The last line of a terminal."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def show(self, text: str) -> None:
        # A line that is wrapped could not be taken back.
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{text[:width]}")

    def clear(self) -> None:
        self._write("\r\x1b[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
            self._stream.flush()


class _Cell:
    """A place below a notebook's cell."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        from IPython.display import display

        shown = {"text/plain": text}
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)

    def clear(self) -> None:
        if self._handle is not None:
            self._handle.update({"text/plain": ""}, raw=True)


def _screen() -> _Terminal | _Cell | None:
    """Where it is shown now, if anywhere."""
    if os.environ.get("COEVAL_PROGRESS", "").lower() in ("off", "0", "false", "no"):
        return None
    # IPython is there if somebody has imported it.
    interactive = sys.modules.get("IPython")
    shell = interactive.get_ipython() if interactive is not None else None
    if shell is not None and hasattr(shell, "kernel"):
        return _Cell()
    stream = sys.stderr
    try:
        return _Terminal(stream) if stream is not None and stream.isatty() else None
    except ValueError:  # it is closed
        return None


class _Watch:
    """The thread that shows what is waited for.

    It sleeps while nothing is: a statement that is short costs two assignments. `_lock` is held to draw and to take back, so that
    nothing is drawn behind the end of a call.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._awake = threading.Event()
        self._waited: tuple[float, Count | None, Any] | None = None
        self._is_drawn = False
        threading.Thread(target=self._run, name="coeval progress", daemon=True).start()

    def _run(self) -> None:
        while self._awake.wait():
            time.sleep(_TICK_SECONDS)
            with self._lock:
                if self._waited is None:
                    self._awake.clear()
                    continue
                begun, count, screen = self._waited
                seconds = time.monotonic() - begun
                if seconds >= _QUIET_SECONDS:
                    self._is_drawn = True
                    # What a notebook says of it is no matter of the statement.
                    with contextlib.suppress(Exception):
                        screen.show(line(seconds, count))

    def call(self, screen: Any, count: Count | None, work: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        earlier, self._waited = self._waited, (time.monotonic(), count, screen)
        self._awake.set()
        try:
            return work(*arguments)
        finally:
            with self._lock:
                if self._is_drawn:
                    self._is_drawn = False
                    with contextlib.suppress(Exception):
                        screen.clear()
                self._waited = earlier


_watch: _Watch | None = None


def call(count: Count | None, work: Callable[..., T], arguments: tuple[Any, ...]) -> T:
    """`work(*arguments)`, which is waited for in the main thread."""
    global _watch
    screen = _screen()
    if screen is None:
        return work(*arguments)
    if _watch is None or _watch.pid != os.getpid():
        _watch = _Watch()
    return _watch.call(screen, count, work, arguments)
