# SPDX-License-Identifier: Apache-2.0
"""PEP 249, by its compliance suite, and what that leaves open."""

import coeval
import dbapi20
import pytest


class TestCompliance(dbapi20.DatabaseAPI20Test):
    driver = coeval
    connect_args = ()
    connect_kw_args: dict = {}

    def setUp(self):
        # The suite opens several connections to one database.
        import tempfile

        self.directory = tempfile.TemporaryDirectory()
        self.connect_args = (self.directory.name + "/db",)

    def tearDown(self):
        super().tearDown()
        self.directory.cleanup()

    def test_nextset(self):
        """Optional, and not there."""

    def test_non_idempotent_close(self):
        """The suite wants an error when a connection is closed twice, and says that one may differ. Here it is harmless."""
        connection = self._connect()
        connection.close()
        connection.close()
        with pytest.raises(coeval.Error):
            connection.commit()

    def test_setoutputsize(self):
        with self._connect() as connection:
            connection.cursor().setoutputsize(1000)
            connection.cursor().setoutputsize(2000, 0)


def test_cursors_of_a_thread_are_in_one_transaction(tmp_path):
    one, two = coeval.connect(tmp_path / "db"), coeval.connect(tmp_path / "db")
    cursor = one.cursor()
    cursor.execute("CREATE TABLE t (a int)")
    one.commit()
    cursor.execute("INSERT INTO t VALUES (?)", [1])
    assert one.cursor().execute("SELECT * FROM t").fetchall() == [(1,)]
    assert two.sql("SELECT * FROM t").fetchall() == []
    one.rollback()
    assert cursor.execute("SELECT * FROM t").fetchall() == []
    one.commit()
    one.close()
    two.close()


def test_autocommit(tmp_path):
    with coeval.connect(tmp_path / "db", autocommit=True) as one, coeval.connect(tmp_path / "db") as two:
        cursor = one.cursor()
        cursor.execute("CREATE TABLE t (a int PRIMARY KEY)")
        cursor.executemany("INSERT INTO t VALUES (?)", [[number] for number in range(10)])
        assert cursor.rowcount == 10
        with pytest.raises(coeval.UniqueViolation):
            cursor.executemany("INSERT INTO t VALUES ($a)", [{"a": 20}, {"a": 1}])
        assert two.sql("SELECT count(*) FROM t").fetchone() == (10,)


def test_description(db):
    cursor = db.cursor()
    cursor.execute("SELECT 1 AS a, 'x' AS b, 1.5 AS c, now() AS d, '\\x00'::bytea AS e")
    names = [column[0] for column in cursor.description]
    kinds = [column[1] for column in cursor.description]
    assert names == ["a", "b", "c", "d", "e"]
    wanted = [coeval.NUMBER, coeval.STRING, coeval.NUMBER, coeval.DATETIME, coeval.BINARY]
    assert all(kind == want for kind, want in zip(kinds, wanted))
    assert kinds[0] != coeval.STRING
