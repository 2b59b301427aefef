# SPDX-License-Identifier: Apache-2.0
import threading

import pytest
from adbc_driver_manager import OperationalError, ProgrammingError

SERIALIZABLE = "adbc.connection.transaction.isolation.serializable"
REPEATABLE_READ = "adbc.connection.transaction.isolation.repeatable_read"
LEVEL = "adbc.connection.transaction.isolation_level"


@pytest.fixture
def pair(connect, run):
    """Two connections to a database with a row, both without autocommit."""
    first = connect()
    run(first, "CREATE TABLE t (id int PRIMARY KEY, v int)")
    run(first, "INSERT INTO t VALUES (1, 0), (2, 0)")
    first.commit()
    second = first.adbc_clone()
    second.adbc_connection.set_autocommit(False)
    yield first, second
    second.close()


def test_what_is_committed_is_seen_and_what_is_rolled_back_is_not(pair, run):
    first, second = pair
    run(first, "UPDATE t SET v = 1 WHERE id = 1")
    assert run(second, "SELECT v FROM t WHERE id = 1") == [(0,)]
    second.rollback()
    first.commit()
    assert run(second, "SELECT v FROM t WHERE id = 1") == [(1,)]
    run(second, "UPDATE t SET v = 2 WHERE id = 1")
    second.rollback()
    assert run(second, "SELECT v FROM t WHERE id = 1") == [(1,)]


def test_nothing_is_begun_before_the_first_statement(pair, run):
    first, second = pair
    first.commit()
    first.rollback()
    run(second, "UPDATE t SET v = 5 WHERE id = 1")
    second.commit()
    assert run(first, "SELECT v FROM t WHERE id = 1") == [(5,)]


def test_a_conflict_is_a_40001(pair, run):
    first, second = pair
    for connection, id in ((first, 1), (second, 2)):
        run(connection, "SELECT sum(v) FROM t")
        run(connection, f"UPDATE t SET v = v + 1 WHERE id = {id}")
    first.commit()
    with pytest.raises(OperationalError) as caught:
        second.commit()
    assert caught.value.sqlstate == "40001"
    run(second, "UPDATE t SET v = 9 WHERE id = 2")
    second.commit()
    assert run(first, "SELECT v FROM t ORDER BY id") == [(1,), (9,)]


def test_the_level_is_an_option(pair, run):
    first, second = pair
    for connection in pair:
        connection.adbc_connection.set_options(**{LEVEL: REPEATABLE_READ})
        assert connection.adbc_connection.get_option(LEVEL) == REPEATABLE_READ
    assert run(first, "SHOW transaction_isolation") == [("repeatable read",)]
    first.rollback()
    for connection, id in ((first, 1), (second, 2)):
        run(connection, "SELECT sum(v) FROM t")
        run(connection, f"UPDATE t SET v = v + 1 WHERE id = {id}")
    first.commit()
    second.commit()
    with pytest.raises(Exception, match="linearizable"):
        first.adbc_connection.set_options(**{LEVEL: "adbc.connection.transaction.isolation.linearizable"})
    run(first, "SELECT 1")
    with pytest.raises(ProgrammingError, match="within a transaction"):
        first.adbc_connection.set_options(**{LEVEL: SERIALIZABLE})


def test_a_connection_may_only_read(pair, run):
    first, _ = pair
    first.adbc_connection.set_options(**{"adbc.connection.readonly": "true"})
    assert first.adbc_connection.get_option("adbc.connection.readonly") == "true"
    with pytest.raises(ProgrammingError) as caught:
        run(first, "DELETE FROM t")
    assert caught.value.sqlstate == "25006"
    first.rollback()
    first.adbc_connection.set_options(**{"adbc.connection.readonly": "false"})
    run(first, "DELETE FROM t")


def test_a_failed_transaction_is_not_committed(pair, run):
    first, second = pair
    run(first, "DELETE FROM t")
    with pytest.raises(ProgrammingError):
        run(first, "SELECT * FROM nowhere WHERE 1 = $1", [1])
    # Its error was found before it ran, so it may go on.
    first.commit()
    assert run(second, "SELECT count(*) FROM t") == [(0,)]
    run(first, "INSERT INTO t VALUES (1, 1)")
    with pytest.raises(Exception):
        run(first, "INSERT INTO t SELECT 1, 1 / v FROM (VALUES (0)) AS x (v)")
    with pytest.raises(ProgrammingError) as caught:
        run(first, "SELECT 1")
    assert caught.value.sqlstate == "25P02"
    with pytest.raises(ProgrammingError) as caught:
        first.commit()
    assert caught.value.sqlstate == "25P02"
    assert run(first, "SELECT count(*) FROM t") == [(0,)]


def test_autocommit_can_be_turned_on_and_off(connect, run):
    db = connect()
    connection = db.adbc_connection
    assert connection.get_option("adbc.connection.autocommit") == "false"
    run(db, "CREATE TABLE t AS SELECT 1 AS a")
    connection.set_autocommit(True)
    with db.adbc_clone() as other:
        assert run(other, "SELECT a FROM t") == [(1,)]
    with pytest.raises(ProgrammingError):
        connection.commit()
    with pytest.raises(ProgrammingError):
        connection.rollback()
    run(db, "BEGIN")
    run(db, "DELETE FROM t")
    run(db, "ROLLBACK")
    assert run(db, "SELECT a FROM t") == [(1,)]


def test_threads_of_one_connection_take_turns(db, run):
    run(db, "CREATE TABLE t (thread int, number int)")
    failures = []

    def work(thread):
        try:
            with db.cursor() as cursor:
                for number in range(50):
                    cursor.execute("INSERT INTO t VALUES ($1, $2)", [thread, number])
                    cursor.execute("SELECT count(*) FROM t WHERE thread = $1", [thread])
                    assert cursor.fetchone() == (number + 1,)
        except Exception as error:  # noqa: BLE001 -- it is shown below
            failures.append(error)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert run(db, "SELECT count(*), count(DISTINCT thread) FROM t") == [(400, 8)]


def test_connections_run_at_the_same_time(db, run):
    run(db, "CREATE TABLE t (a int)")
    others = [db.adbc_clone() for _ in range(4)]

    def work(connection, thread):
        connection.adbc_connection.set_autocommit(True)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES ($1)", [[thread]] * 500)

    threads = [threading.Thread(target=work, args=(other, thread)) for thread, other in enumerate(others)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for other in others:
        other.close()
    assert run(db, "SELECT count(*) FROM t") == [(2000,)]
