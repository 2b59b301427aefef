# SPDX-License-Identifier: Apache-2.0
"""Transactions, threads, and what happens to them."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time

import coeval
import pytest


def total(db):
    return db.sql("SELECT sum(balance) FROM accounts").fetchone()[0]


def test_a_transaction_commits_at_its_end(accounts):
    with accounts.transaction() as tx:
        tx.sql("UPDATE accounts SET balance = balance - 10 WHERE id = 1")
        assert accounts.in_transaction
    assert not accounts.in_transaction
    assert total(accounts) == 190


def test_a_transaction_that_an_exception_leaves_is_rolled_back(accounts):
    with pytest.raises(KeyError):
        with accounts.transaction() as tx:
            tx.sql("DELETE FROM accounts")
            raise KeyError
    assert total(accounts) == 200
    with pytest.raises(coeval.DataError):
        with accounts.transaction() as tx:
            tx.sql("DELETE FROM accounts")
            tx.sql("SELECT 1 / 0").fetchall()
    assert total(accounts) == 200
    with accounts.transaction() as tx:
        tx.sql("DELETE FROM accounts")
        tx.rollback()
    assert total(accounts) == 200


def test_a_statement_that_failed_is_not_committed_over(accounts):
    with accounts.transaction() as tx:
        tx.sql("DELETE FROM accounts")
        with pytest.raises(coeval.NotNullViolation):
            tx.sql("INSERT INTO accounts VALUES (3, NULL)")
        with pytest.raises(coeval.InternalError) as raised:
            tx.sql("SELECT 1")
        assert raised.value.sqlstate == "25P02"
    assert total(accounts) == 200


def test_transactions_that_only_read(accounts):
    with accounts.transaction(read_only=True) as tx:
        assert tx.sql("SHOW transaction_isolation").fetchone() == ("serializable",)
        with pytest.raises(coeval.ReadOnlyError):
            tx.sql("DELETE FROM accounts")
    with accounts.transaction(isolation="read committed") as tx:
        assert tx.sql("SHOW transaction_isolation").fetchone() == ("read committed",)
    with pytest.raises(coeval.ProgrammingError, match="snapshot"):
        accounts.transaction(isolation="snapshot")
    with accounts.transaction():
        with pytest.raises(coeval.ProgrammingError, match="session"):
            with accounts.transaction():
                pass


def test_write_skew_is_refused(accounts):
    """Each of two transactions reads both rows and takes from one: one of them must be refused."""
    first, second = accounts.session(), accounts.session()
    with pytest.raises(coeval.SerializationError) as raised:
        with first.transaction() as one, second.transaction() as two:
            for tx, id in ((one, 1), (two, 2)):
                assert tx.sql("SELECT sum(balance) FROM accounts").fetchone() == (200,)
                tx.sql("UPDATE accounts SET balance = balance - 100 WHERE id = ?", [id])
    assert raised.value.sqlstate == "40001"
    assert total(accounts) == 100


def test_retry_runs_until_it_commits(accounts):
    runs = []

    @accounts.retry
    def add(tx, amount):
        """Adds."""
        runs.append(amount)
        balance = tx.sql("SELECT balance FROM accounts WHERE id = 1").fetchone()[0]
        if len(runs) == 1:
            accounts.session().sql("UPDATE accounts SET balance = balance + 1 WHERE id = 1")
        tx.sql("UPDATE accounts SET balance = ? WHERE id = 1", [balance + amount])
        return balance

    assert add(10) == 101
    assert runs == [10, 10]
    assert total(accounts) == 211
    assert (add.__name__, add.__doc__) == ("add", "Adds.")


def test_retry_passes_other_errors_on(accounts):
    runs = []

    @accounts.retry(isolation="repeatable read")
    def fail(tx):
        runs.append(tx.sql("SHOW transaction_isolation").fetchone())
        tx.sql("SELECT 1 / 0").fetchall()

    with pytest.raises(coeval.DataError):
        fail()
    assert runs == [("repeatable read",)]


def test_threads_have_sessions_of_their_own(accounts):
    @accounts.retry
    def move(tx, source, target):
        tx.sql("UPDATE accounts SET balance = balance - 1 WHERE id = ?", [source])
        tx.sql("UPDATE accounts SET balance = balance + 1 WHERE id = ?", [target])

    sums, failures = set(), []

    def work(number):
        try:
            accounts.sql(f"SET application_name = 'thread {number}'")
            for _ in range(50):
                move(1 + number % 2, 2 - number % 2)
                with accounts.transaction(read_only=True) as tx:
                    sums.add(tx.sql("SELECT sum(balance) FROM accounts").fetchone()[0])
            assert accounts.sql("SHOW application_name").fetchone() == (f"thread {number}",)
        except Exception as error:  # noqa: BLE001 -- told below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert sums == {200}


def test_python_goes_on_while_a_statement_runs(db):
    """The interpreter is not held by a statement: a thread that counts makes progress meanwhile."""
    count, stop = [0], threading.Event()

    def counting():
        while not stop.is_set():
            count[0] += 1

    thread = threading.Thread(target=counting)
    thread.start()
    try:
        for _ in range(20):  # others may have all cores for the time of one
            before = count[0]
            db.sql("SELECT count(*) FROM generate_series(1, 3000000) AS g, generate_series(1, 2) AS h").fetchall()
            if count[0] > before + 100:
                break
        else:
            pytest.fail("the thread stands still while statements run")
    finally:
        stop.set()
        thread.join()


ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000) AS g, generate_series(1, 1000000) AS h"


@contextlib.contextmanager
def cancelling(db):
    """Another thread cancels what the connection runs, again and again: at first it may not have begun."""
    ended = threading.Event()

    def cancel():
        while not ended.wait(0.2):
            db.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_a_statement_is_cancelled_from_another_thread(db):
    began = time.monotonic()
    with cancelling(db), pytest.raises(coeval.QueryCanceled) as raised:
        db.sql(ENDLESS).fetchall()
    assert raised.value.sqlstate == "57014"
    assert time.monotonic() - began < 30
    assert db.sql("SELECT 1").fetchone() == (1,)


READERS = {
    "tuples": "db.sql(endless).fetchall()",
    "rows": "list(db.sql(endless))",
    "arrow": "db.sql(endless).arrow()",
    "statement": "db.sql('CREATE TABLE t AS ' + endless)",
    "parameters": "db.sql(endless + ' WHERE g <> ?', [0]).fetchall()",
    "sleep": "db.sql('SELECT pg_sleep(600)').fetchall()",
}


def interrupted(program):
    """What a program prints behind "ready" when Ctrl-C comes half a second later; it ends well."""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    return out


@pytest.mark.parametrize("reader", READERS)
def test_ctrl_c_ends_a_statement(reader):
    # What `arrow` imports is there before: Python ends by the signal, though the program has caught it, if that came while a text
    # was executed, as imports do.
    program = f"""
import coeval, pyarrow
db = coeval.connect()
endless = {ENDLESS!r}
try:
    print("ready", flush=True)
    {READERS[reader]}
except KeyboardInterrupt:
    print("interrupted", db.sql("SELECT 1").fetchone(), flush=True)
"""
    assert interrupted(program) == "interrupted (1,)\n"


def test_ctrl_c_while_rows_come():
    program = """
import coeval
db = coeval.connect()
rows = 0
try:
    for row in db.sql("SELECT g FROM generate_series(1, 1000000000) AS g"):
        rows += 1
        if rows == 1:
            print("ready", flush=True)
except KeyboardInterrupt:
    print("interrupted", rows > 0, db.sql("SELECT 1").fetchone(), flush=True)
"""
    assert interrupted(program) == "interrupted True (1,)\n"


def test_a_fork_is_refused(tmp_path):
    program = f"""
import os, coeval
db = coeval.connect({str(tmp_path / 'db')!r})
session, cursor = db.session(), db.cursor()
db.sql("CREATE TABLE t (a int)")
if os.fork() == 0:
    told = []
    for use in (lambda: db.sql("SELECT 1"), lambda: session.sql("SELECT 1"), lambda: cursor.execute("SELECT 1"), db.session):
        try:
            use()
        except coeval.InterfaceError as error:
            told.append("forked" in str(error))
    db.close()
    os._exit(0 if told == [True] * 4 else 1)
code = os.waitstatus_to_exitcode(os.wait()[1])
db.sql("INSERT INTO t VALUES (1)")
print(code, db.sql("SELECT * FROM t").fetchall())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "0 [(1,)]\n", done.stderr


def test_directories(tmp_path):
    place = tmp_path / "shop.db"
    with coeval.connect(place) as db:
        db.sql("CREATE TABLE t (a int)")
        # Any number of connections of one process share it.
        with coeval.connect(str(place)) as other:
            other.sql("INSERT INTO t VALUES (1)")
        assert db.sql("SELECT * FROM t").fetchall() == [(1,)]
        program = f"import coeval; coeval.connect({str(place)!r})"
        refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
        assert "another process" in refused.stderr or str(os.getpid()) in refused.stderr, refused.stderr
        db.checkpoint()
    with pytest.raises(coeval.InterfaceError):
        db.sql("SELECT 1")
    with coeval.connect(place, durability="none", query_memory=64 << 20, data_memory=64 << 20) as db:
        assert db.sql("SELECT * FROM t").fetchall() == [(1,)]
    with pytest.raises(coeval.DataError):
        coeval.connect(tmp_path / "new", durability="maybe")


def test_the_working_directory_may_change(tmp_path, monkeypatch):
    """Files were looked for in the new one, and the end of the log was noted in another database there, which was damaged then."""
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        with coeval.connect("shop.db") as db:
            db.sql("CREATE TABLE t (a int PRIMARY KEY)")
    db = coeval.connect("shop.db")
    db.sql("INSERT INTO t SELECT * FROM generate_series(1, 10000)")
    monkeypatch.chdir(tmp_path / "here")
    db.sql("INSERT INTO t SELECT * FROM generate_series(10001, 20000)")
    db.checkpoint()
    db.close()
    for folder, rows in (("here", 0), ("there", 20_000)):
        with coeval.connect(tmp_path / folder / "shop.db") as db:
            assert db.sql("SELECT count(*) FROM t").fetchone() == (rows,)


def test_what_was_committed_survives_a_kill(tmp_path):
    place = str(tmp_path / "db")
    program = f"""
import os, signal, coeval
db = coeval.connect({place!r})
db.sql("CREATE TABLE t (a int)")
db.sql("INSERT INTO t VALUES (1)")
tx = db.transaction().__enter__()
tx.sql("INSERT INTO t VALUES (2)")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == -signal.SIGKILL
    with coeval.connect(place) as db:
        assert db.sql("SELECT a FROM t").fetchall() == [(1,)]


def test_closing_ends_what_is_read(tmp_path):
    place = tmp_path / "db"
    db = coeval.connect(place)
    result = db.sql("SELECT g FROM generate_series(1, 100000000) AS g")
    assert result.fetchone() == (1,)
    db.close()
    result.close()
    # Nobody has it any more.
    with coeval.connect(place) as db:
        assert db.sql("SELECT 1").fetchone() == (1,)


def test_rows_that_end_with_an_error_fail_the_transaction(accounts):
    """An error of the rows is one of the statement, also where some were given before it."""
    late = "SELECT 1 / (50000 - g) FROM generate_series(1, 1000000) AS g"
    for read in (lambda result: result.fetchall(), lambda result: list(result), lambda result: result.arrow()):
        with pytest.raises(coeval.DataError):
            with accounts.transaction() as tx:
                tx.sql("INSERT INTO accounts VALUES (3, 1)")
                result = tx.sql(late)
                assert tx.sql("SELECT count(*) FROM accounts").fetchone() == (3,)
                with pytest.raises(coeval.DataError):
                    read(result)
                with pytest.raises(coeval.DatabaseError) as raised:
                    tx.sql("SELECT 1")
                assert raised.value.sqlstate == "25P02"
                raise coeval.DataError("as it was")
        assert accounts.sql("SELECT count(*) FROM accounts").fetchone() == (2,)
    # What is read outside of a transaction fails none that is begun meanwhile.
    result = accounts.sql(late)
    with accounts.transaction() as tx:
        with pytest.raises(coeval.DataError):
            result.fetchall()
        tx.sql("INSERT INTO accounts VALUES (3, 1)")
    assert accounts.sql("SELECT count(*) FROM accounts").fetchone() == (3,)
