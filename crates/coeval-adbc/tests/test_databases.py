# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest
from adbc_driver_manager import AdbcDatabase, NotSupportedError, ProgrammingError, dbapi

from conftest import LIBRARY


def test_a_database_without_a_place_is_in_memory_and_nobody_elses(connect, run):
    first, second = connect(autocommit=True), connect(":memory:", autocommit=True)
    run(first, "CREATE TABLE t (a int)")
    with pytest.raises(ProgrammingError):
        run(second, "SELECT * FROM t")


def test_connections_of_one_database_in_memory_share_it(connect, run):
    first = connect(autocommit=True)
    run(first, "CREATE TABLE t AS SELECT 1 AS a")
    with first.adbc_clone() as second:
        assert run(second, "SELECT a FROM t") == [(1,)]


@pytest.mark.parametrize("place", ["{}", "coeval:{}", "coeval://{}"])
def test_a_directory_is_there_again(connect, run, tmp_path, place):
    place = place.format(tmp_path / "shop.db")
    first = connect(place, autocommit=True)
    run(first, "CREATE TABLE t AS SELECT 7 AS a")
    first.close()
    second = connect(options={"path": str(tmp_path / "shop.db")})
    assert run(second, "SELECT a FROM t") == [(7,)]


def test_one_process_opens_a_directory_as_often_as_it_likes(connect, run, tmp_path):
    first, second = connect(tmp_path / "db", autocommit=True), connect(f"{tmp_path}/./db", autocommit=True)
    run(first, "CREATE TABLE t AS SELECT 1 AS a")
    assert run(second, "SELECT a FROM t") == [(1,)]
    first.close()
    run(second, "INSERT INTO t VALUES (2)")
    third = connect(tmp_path / "db")
    assert run(third, "SELECT sum(a) FROM t") == [(3,)]


def test_another_process_is_refused(connect, tmp_path):
    connect(tmp_path / "db")
    program = (
        "import sys\nfrom adbc_driver_manager import dbapi\n"
        f"dbapi.connect({LIBRARY!r}, db_kwargs={{'uri': {str(tmp_path / 'db')!r}}})"
    )
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert other.returncode != 0
    assert "55006" in other.stderr


def test_rows_keep_their_database_open(connect, tmp_path):
    connection = connect(tmp_path / "db")
    with connection.cursor() as cursor:
        cursor.execute("SELECT g FROM generate_series(1, 100000) AS g")
        reader = cursor.fetch_record_batch()
        assert reader.read_next_batch().num_rows > 0


def test_a_closed_connection_is_rolled_back(connect, run, tmp_path):
    first = connect(tmp_path / "db")
    run(first, "CREATE TABLE t (a int)")
    first.close()
    second = connect(tmp_path / "db")
    with pytest.raises(ProgrammingError):
        run(second, "SELECT * FROM t")


def test_options_are_checked(connect):
    with pytest.raises(NotSupportedError, match="driver for PostgreSQL"):
        connect("postgresql://localhost/db")
    with pytest.raises(NotSupportedError, match="nonsense"):
        connect(options={"nonsense": "1"})
    with pytest.raises(NotSupportedError, match="username"):
        connect(options={"username": "ann"})
    with pytest.raises(ProgrammingError, match="coeval.durability"):
        connect(options={"coeval.durability": "perhaps"})
    with pytest.raises(ProgrammingError, match="different databases"):
        connect("a", options={"path": "b"})
    connect(options={"coeval.durability": "none", "coeval.query_memory": "100000000"})


def test_options_can_be_asked_for(tmp_path):
    with AdbcDatabase(driver=LIBRARY, uri=str(tmp_path / "db")) as database:
        assert database.get_option("uri") == str(tmp_path / "db")
        with pytest.raises(ProgrammingError):
            database.get_option("path")


def test_the_library_has_both_names_of_its_beginning():
    for entrypoint in ("AdbcDriverInit", "AdbcCoevalAdbcInit"):
        dbapi.connect(LIBRARY, entrypoint=entrypoint).close()
