# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends the statement that the main thread waits for.

Python runs handlers of signals in the main thread, between two instructions of Python. A thread that waits for a statement comes
to none. So while the main thread waits, Python writes the number of each signal that comes into a pipe, a thread reads it, and
cancels the statement on an interrupt. Then the main thread is back, and Python's handler raises KeyboardInterrupt, or does what
the program has set.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from typing import Any, Callable, TypeVar

from . import _backend, _progress

T = TypeVar("T")


class _Watch:
    """The pipe, and the thread at its end.

    What came while a call ran is dealt with before the call returns: else an interrupt of this statement could cancel the next
    one. So `lock` is held from reading a number to having cancelled for it, and whoever returns looks into the pipe itself.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._lock = threading.Lock()
        self._session: _backend.Session | None = None
        self._earlier = -1
        self.pid = os.getpid()
        threading.Thread(target=self._run, name="coeval interrupts", daemon=True).start()

    def _run(self) -> None:
        waiting = select.poll()
        waiting.register(self._reading, select.POLLIN)
        while waiting.poll():
            with self._lock:
                if signal.SIGINT in self._take() and self._session is not None:
                    self._session.cancel()

    def _take(self) -> bytes:
        """The numbers of the signals that came, which whoever watched before is told, too."""
        try:
            numbers = os.read(self._reading, 64)
        except BlockingIOError:
            return b""
        if self._earlier >= 0:
            with contextlib.suppress(OSError):
                os.write(self._earlier, numbers)
        return numbers

    def call(
        self, session: _backend.Session, count: _progress.Count | None, work: Callable[..., T], arguments: tuple[Any, ...]
    ) -> T:
        earlier = -1
        with self._lock:
            # Python may have raised from a handler anywhere, also where the end of the last call was about to do this.
            self._take()
            self._session = session
        try:
            earlier = self._earlier = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
            return _progress.call(count, work, arguments)
        finally:
            signal.set_wakeup_fd(earlier, warn_on_full_buffer=False)
            with self._lock:
                self._take()
                self._session = None


_watch: _Watch | None = None


def call(
    session: _backend.Session, work: Callable[..., T], *arguments: object, count: _progress.Count | None = None
) -> T:
    """`work(*arguments)`, which Ctrl-C ends by cancelling the session's statement, and which is shown to go on if it takes long."""
    global _watch
    if threading.current_thread() is not threading.main_thread():
        return work(*arguments)
    if _watch is None or _watch.pid != os.getpid():
        _watch = _Watch()
    return _watch.call(session, count, work, arguments)
