# SPDX-License-Identifier: Apache-2.0
"""What somebody at a terminal, or before a notebook, sees of a statement that takes long."""

import os
import pty
import re
import subprocess
import sys
import types

import coeval
import pytest
from coeval import _progress

SLOW = "SELECT count(*) FROM generate_series(1, 600000) AS g, generate_series(1, 600000) AS h WHERE g + h = 0"


def cancelled_after(seconds):
    """A program whose statement is cancelled after so long."""
    return f"""
import coeval, threading
db = coeval.connect()
ended = threading.Event()
def cancel():
    ended.wait({seconds})
    while not ended.wait(0.1):
        db.cancel()
threading.Thread(target=cancel, daemon=True).start()
try:
    db.sql({SLOW!r}).fetchall()
except coeval.QueryCanceled:
    print("canceled")
ended.set()
print(db.sql("SELECT 1").fetchall())
"""


MANY = """
import coeval, time
db = coeval.connect(autocommit=True)
db.sql("CREATE TABLE t (a int)")
class Sets:
    def __len__(self): return 4
    def __iter__(self):
        for number in range(4):
            yield [number]
            time.sleep(1.5)
print(db.cursor().executemany("INSERT INTO t VALUES (?)", Sets()).rowcount)
"""


def at_terminal(program, **environment):
    """What a program writes to the terminal that it has on its standard error, and what to its standard output."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=theirs,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"COLUMNS": "120"} | environment,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    out, _ = run.communicate(timeout=60)
    assert run.returncode == 0, shown
    return shown.decode(), out.decode()


def test_a_long_statement_says_for_how_long_and_takes_it_back():
    shown, out = at_terminal(cancelled_after(5.5))
    assert out == "canceled\n[(1,)]\n"
    # On a busy machine not every second is shown.
    seconds = {int(found) for found in re.findall(r"running for (\d+) s, Ctrl-C ends it", shown)}
    assert len(seconds) >= 2 and min(seconds) >= 1, shown
    assert shown.endswith("\r\x1b[K")


def test_a_bar_where_the_whole_is_known():
    shown, out = at_terminal(MANY)
    assert out == "4\n"
    assert re.search(r"\[=+ +\] [123] of 4 sets, running for [1-9]\d* s", shown)


@pytest.mark.parametrize("program", ["db.sql('SELECT 1').fetchall()", "db.sql('SELECT pg_sleep(0.3)').fetchall()"])
def test_nothing_is_said_of_what_is_short(program):
    # On a busy machine these take longer than a second, too.
    setting = "from coeval import _progress; _progress._QUIET_SECONDS = 30"
    assert at_terminal(f"import coeval; {setting}; db = coeval.connect(); {program}") == ("", "")


def test_nothing_is_said_where_it_is_off_or_nobody_looks():
    program = cancelled_after(2.5)
    assert at_terminal(program, COEVAL_PROGRESS="off")[0] == ""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (run.stderr, run.returncode) == ("", 0)


def test_lines():
    assert _progress.line(1.4, None) == "running for 1 s, Ctrl-C ends it"
    rows = _progress.Count("rows")
    assert _progress.line(2, rows) == "running for 2 s, Ctrl-C ends it"
    rows.done = lambda: 1_234_567
    assert _progress.line(3, rows) == "1,234,567 rows, running for 3 s, Ctrl-C ends it"
    sets = _progress.Count("sets", 4)
    taken = sets.over(range(4))
    next(taken), next(taken)
    assert _progress.line(61, sets) == f"[{'=' * 7}{' ' * 23}] 1 of 4 sets, running for 61 s, Ctrl-C ends it"
    assert list(taken) == [2, 3]
    assert _progress.line(62, sets).startswith(f"[{'=' * 30}] 4 of 4 sets")


def test_rows_are_counted_as_they_come(db):
    result = db.sql("SELECT g FROM generate_series(1, 5000) AS g")
    result.fetchmany(10)
    assert result._rows.fetched >= 10
    result.fetchall()
    assert result._rows.fetched == 5000


def test_a_notebook_has_it_below_its_cell(db, monkeypatch):
    """The calls that a kernel's shell gets: shown once, changed while it goes on, and empty at the end."""
    told = []

    class Handle:
        def update(self, shown, raw):
            told.append(shown["text/plain"])

    def display(shown, raw, display_id):
        told.append(shown["text/plain"])
        return Handle()

    shell = types.SimpleNamespace(kernel=object())
    interactive = types.ModuleType("IPython")
    interactive.get_ipython = lambda: shell
    interactive.display = types.ModuleType("IPython.display")
    interactive.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", interactive)
    monkeypatch.setitem(sys.modules, "IPython.display", interactive.display)
    monkeypatch.setattr(_progress, "_QUIET_SECONDS", 0.1)
    for seconds in (0.6, 2.4, 9.6):  # a busy machine may show less
        told.clear()
        db.sql(f"SELECT pg_sleep({seconds})").fetchall()
        if len(told) >= 3 and told[0].startswith("running for 0 s"):
            break
    assert len(told) >= 3 and told[-1] == ""
    assert told[0].startswith("running for 0 s")
    told.clear()
    monkeypatch.setenv("COEVAL_PROGRESS", "off")
    db.sql("SELECT pg_sleep(0.4)").fetchall()
    assert told == []
