// SPDX-License-Identifier: Apache-2.0
//! Readers of a replica: what they see stays as long as they read, and their primary does not know of them.

use super::*;

/// What a report reads: rows, bricks, and a table that is dropped meanwhile.
const REPORT: &str =
    "SELECT (SELECT sum(n) FROM t) || ' ' || (SELECT sum(n) FROM b) || ' ' || (SELECT count(*) FROM gone)";
const OF_ROWS: &str = "SELECT (SELECT sum(n) FROM t) || ' ' || (SELECT sum(n) FROM b)";
/// For how many versions somebody holds what is old.
const HELD: &str = "SELECT version - oldest_version FROM coeval_store";

/// PostgreSQL cancels such a report once it is in the way of what is replayed, or keeps dead rows on the primary for it. Fails if a
/// follower lets go of a world that is read, and if it tells its primary what is read.
#[test]
fn a_report_on_a_replica_is_never_cancelled_and_its_primary_holds_nothing_for_it() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int);
         INSERT INTO t SELECT g, 1 FROM generate_series(1, 2000) g;
         CREATE TABLE b (day int, n int) USING brick PARTITION BY (day CARDINALITY 8 RANGE SIZE 1);
         INSERT INTO b SELECT g % 8, 1 FROM generate_series(1, 800) g;
         CREATE TABLE gone (id int);
         INSERT INTO gone VALUES (1);",
    )
    .unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let [report, beside] = [(); 2].map(|()| Sql::open(replica.port));
    wait_for(&beside, &sql);
    until_it_reads(&beside, REPORT, "2000 800 1");

    report.run("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY").unwrap();
    assert_eq!(report.value(REPORT).unwrap().unwrap(), "2000 800 1");
    sql.run("DROP TABLE gone").unwrap();
    for round in 0..4 {
        // Each row is replaced, and a day of bricks goes, so that nothing of before is kept but for readers.
        sql.run(&format!("UPDATE t SET n = n + 1; DELETE FROM b WHERE day = {round}; CHECKPOINT")).unwrap();
        until_it_reads(&beside, OF_ROWS, &format!("{} {}", 2000 * (round + 2), 800 - 100 * (round + 1)));
        assert_eq!(report.value(REPORT).unwrap().unwrap(), "2000 800 1", "behind round {round}");
    }
    // While it is open, the replica holds its versions, and the primary none.
    assert_ne!(beside.value(HELD).unwrap().unwrap(), "0");
    until_it_reads(&sql, HELD, "0");
    // Nor does it end with the connection to the primary, or with the primary.
    primary.kill();
    assert_eq!(report.value(REPORT).unwrap().unwrap(), "2000 800 1");
    report.run("COMMIT").unwrap();
    assert_eq!(report.refused(REPORT), "42P01");
    // So that the question itself reads what is newest.
    beside.run("SET default_transaction_isolation = 'read committed'").unwrap();
    until_it_reads(&beside, HELD, "0");
}

/// A replica reads its own log for it. A token is the same on both.
#[test]
fn what_has_changed_is_asked_of_a_replica_as_of_its_primary() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 10), (2, 20)").unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    let token = |sql: &Sql| sql.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    let from = token(&sql);
    sql.run("UPDATE t SET n = n + 1 WHERE id = 1").unwrap();
    sql.run("DELETE FROM t WHERE id = 2").unwrap();
    sql.run("INSERT INTO t VALUES (3, 30)").unwrap();
    copy.run(&format!("SET coeval.wait_for_token = '{}'", token(&sql))).unwrap();
    let row = "operation || coalesce(' from ' || old_n, '') || coalesce(' to ' || new_n, '')";
    let changes =
        format!("SELECT string_agg({row}, ', ' ORDER BY version) FROM coeval_table_changes('t', '{from}')");
    for session in [&sql, &copy] {
        let found = session.value(&changes).unwrap().unwrap();
        assert_eq!(found, "update from 10 to 11, delete from 20, insert to 30");
    }
}
