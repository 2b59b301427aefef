# SPDX-License-Identifier: Apache-2.0
import os

import pytest
from adbc_driver_manager import dbapi

LIBRARY = os.environ["COEVAL_ADBC_LIBRARY"]


@pytest.fixture
def connect():
    """Opens connections, each to a database of its own in memory unless it is given a place, and closes them at the end."""
    opened = []

    def connect(uri=None, *, autocommit=False, options=None, **settings):
        db_kwargs = {**({"uri": str(uri)} if uri is not None else {}), **(options or {})}
        connection = dbapi.connect(LIBRARY, db_kwargs=db_kwargs, autocommit=autocommit, conn_kwargs=settings)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def db(connect):
    """A connection whose statements are committed one by one."""
    return connect(autocommit=True)


@pytest.fixture
def run():
    """Runs a statement, and gives its rows."""

    def run(connection, sql, parameters=None):
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    return run
