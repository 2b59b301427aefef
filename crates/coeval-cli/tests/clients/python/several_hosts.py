# SPDX-License-Identifier: Apache-2.0
"""psycopg, given a replica and its primary in both orders (PGHOST, PGPORT): it finds the one that it asks for."""

import psycopg
from psycopg.errors import ReadOnlySqlTransaction

from checks import ADDRESS, expect, raises, run


def connected(conninfo, wanted, **others):
    return psycopg.connect(conninfo, target_session_attrs=wanted, autocommit=True, **others)


def each_finds_what_it_asks_for(conninfo):
    replica, primary = ADDRESS["port"].split(",")
    for ports in [f"{replica},{primary}", f"{primary},{replica}"]:
        for wanted in ["read-write", "primary", "read-only", "standby", "prefer-standby"]:
            with connected(conninfo, wanted, port=ports) as connection:
                is_replica = wanted not in ("read-write", "primary")
                expect(connection.execute("SELECT pg_is_in_recovery()").fetchone()[0], is_replica)


def a_commit_is_read_on_the_replica_by_its_token(conninfo):
    with connected(conninfo, "read-write") as primary, connected(conninfo, "standby") as replica:
        primary.execute("CREATE TABLE t (n int PRIMARY KEY)")
        for n in range(20):
            primary.execute("INSERT INTO t VALUES (%s)", [n])
            token = primary.execute("SELECT coeval_snapshot_token()").fetchone()[0]
            replica.execute("SELECT set_config('coeval.wait_for_token', %s, false)", [token])
            expect(replica.execute("SELECT count(*) FROM t").fetchone()[0], n + 1)
        with raises(ReadOnlySqlTransaction):
            replica.execute("INSERT INTO t VALUES (-1)")


run(each_finds_what_it_asks_for, a_commit_is_read_on_the_replica_by_its_token)
