# SPDX-License-Identifier: Apache-2.0
"""The windows that a reader has open: a shell, and programs that take statements.

Each is a process with pipes. Behind what is typed comes a mark that it prints, so what lies before the mark is the answer.
"""

import itertools
import queue
import subprocess
import threading

ANSWERS_WITHIN_SECONDS = 60
MARKS = itertools.count(1)


class Ended(Exception):
    """The program of a window has ended; `printed` is what it said before."""

    def __init__(self, printed):
        super().__init__("the program has ended")
        self.printed = printed


class Window:
    """A process that is typed into. `asks_for_mark` gives the line that makes it print a mark."""

    def __init__(self, command, folder, environment, asks_for_mark):
        self.asks_for_mark = asks_for_mark
        self.process = subprocess.Popen(
            command, cwd=folder, env=environment, text=True, errors="replace",
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def type(self, text):
        """What the program prints until it is ready for more."""
        mark = f"book-mark-{next(MARKS)}"
        try:
            self.process.stdin.write(f"{text}\n{self.asks_for_mark(mark)}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass
        printed = []
        while True:
            try:
                line = self.lines.get(timeout=ANSWERS_WITHIN_SECONDS)
            except queue.Empty:
                raise TimeoutError(f"no answer for {ANSWERS_WITHIN_SECONDS} s; so far:\n{''.join(printed)}") from None
            if line is None:
                raise Ended("".join(printed))
            if mark in line:
                self.last = line[line.index(mark) + len(mark):].strip()
                return "".join(printed) + line[:line.index(mark)]
            printed.append(line)


class Shell(Window):
    """The reader's shell. What it runs in the background stays when the block ends, as in any shell."""

    def __init__(self, folder, environment):
        # Job control, so that a page may say `kill %1`.
        command = ["bash", "--noprofile", "--norc", "-m"]
        super().__init__(command, folder, environment, lambda mark: f'echo "{mark} $book_failed"')
        self.folder = folder
        # It complains that it has no terminal.
        self.type("")

    def run(self, text):
        """What a block printed, and the line of it that failed, if one did."""
        script = self.folder / ".block"
        script.write_text(text)
        printed = self.type(f"book_failed=; trap 'book_failed=${{book_failed:-$LINENO}}' ERR; source {script}; trap - ERR")
        return printed, int(self.last) if self.last else None


class Program(Window):
    """A program that takes statements: psql or `coeval sql`, which both know `\\echo`."""

    def __init__(self, command, folder, environment):
        super().__init__(["bash", "-c", f"exec {command}"], folder, environment, lambda mark: f"\\echo {mark}")
