// SPDX-License-Identifier: Apache-2.0
//! Commits that wait for a replica, and readers that wait for commits.

use super::{Server, Sql, check, directories, replica_named, until_it_reads, until_writable};

/// Commits that name a level wait for it, are seen as far as it says, and survive the loss of the primary.
#[test]
fn commits_wait_for_replicas_and_a_running_replica_is_promoted() {
    let (_parent, primary_dir, copy_dir) = directories();
    let names = ["--synchronous-standby-names", "ANY 1 (copy)"];
    let primary = Server::start(&primary_dir, 0, &names);
    let sql = Sql::open(primary.port);
    assert_eq!(sql.value("SHOW synchronous_standby_names").unwrap().unwrap(), "ANY 1 (copy)");
    sql.run("SET synchronous_commit = local; CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    nobody_is_there_to_wait_for(&sql, primary.port);

    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_named(&primary, "copy")]);
    let copy = Sql::open(replica.port);
    // What was committed and not seen is, as soon as the replica has it.
    until_it_reads(&sql, "SELECT count(*) FROM t WHERE n < 10", "3");
    until_it_reads(
        &sql,
        "SELECT sync_state || ' ' || sync_priority FROM pg_stat_replication WHERE application_name = 'copy'",
        "quorum 1",
    );
    // What a commit has waited for is there at once.
    sql.run("SET synchronous_commit = remote_apply").unwrap();
    copy.run("SET default_transaction_isolation = 'repeatable read'").unwrap();
    for n in 10..60 {
        sql.run(&format!("INSERT INTO t VALUES ({n})")).unwrap();
        assert_eq!(copy.value(&format!("SELECT count(*) FROM t WHERE n = {n}")).unwrap().unwrap(), "1");
    }
    tokens_find_what_they_were_given_for(&sql, &copy, &replica);

    sql.run("SET synchronous_commit = on; INSERT INTO t VALUES (1000)").unwrap();
    primary.kill();
    let (copy_port, before) = (replica.port, Sql::open(replica.port));
    assert_eq!(before.value("SELECT pg_promote()").unwrap().unwrap(), "t");
    let promoted = until_writable(copy_port);
    assert_eq!(promoted.value("SELECT count(*) FROM t WHERE n = 1000").unwrap().unwrap(), "1");
    promoted.run("INSERT INTO t VALUES (1001)").unwrap();
    assert_eq!(promoted.value("SELECT pg_is_in_recovery()").unwrap().unwrap(), "f");
    assert_eq!(promoted.refused("SELECT pg_promote()"), "55000");
    drop(promoted);
    replica.stop();
    check(&copy_dir);
}

/// What a statement is told whose time is over while its commit waits. On a busy machine it may be over before.
fn cancelled_waiting(sql: &Sql, statement: &str) -> String {
    loop {
        let state = sql.refused(statement);
        if state != "57014" {
            return state;
        }
    }
}

/// Without a replica, a commit that waits for one can be cancelled: it is there, and seen later.
fn nobody_is_there_to_wait_for(sql: &Sql, port: u16) {
    sql.run("SET synchronous_commit = local; INSERT INTO t VALUES (1)").unwrap();
    sql.run("SET synchronous_commit = on; SET statement_timeout = '200ms'").unwrap();
    assert_eq!(cancelled_waiting(sql, "INSERT INTO t VALUES (2)"), "08007");
    while sql.run("SET statement_timeout = 0").is_err() {}
    assert_eq!(Sql::open(port).value("SELECT count(*) FROM t").unwrap().unwrap(), "1");
    // A row behind it that waits for nobody is behind it.
    let other = Sql::open(port);
    other.run("SET statement_timeout = '200ms'; SET synchronous_commit = off").unwrap();
    assert_eq!(cancelled_waiting(&other, "INSERT INTO t VALUES (-1)"), "08007");
    while other.run("SET statement_timeout = 0").is_err() {}
    assert_eq!(other.value("SELECT count(*) FROM t").unwrap().unwrap(), "1");
    assert_eq!(other.refused("SET synchronous_standby_names = 'ANY x (a)'"), "22023");
    sql.run("DELETE FROM t WHERE n = 1234").unwrap();
}

fn tokens_find_what_they_were_given_for(sql: &Sql, copy: &Sql, replica: &Server) {
    sql.run("SET synchronous_commit = local").unwrap();
    let safe = Sql::open(replica.port);
    for n in 100..150 {
        sql.run(&format!("INSERT INTO t VALUES ({n})")).unwrap();
        let token = sql.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
        let query = format!("SELECT count(*) FROM t WHERE n = {n}");
        for session in [&safe, copy] {
            // As a driver does that sends values apart from the text.
            let set = if n % 2 == 0 {
                format!("SET coeval.wait_for_token = '{token}'")
            } else {
                format!("SELECT set_config('coeval.wait_for_token', '{token}', false)")
            };
            session.run(&set).unwrap();
            assert_eq!(session.value(&query).unwrap().unwrap(), "1", "{set}");
        }
    }
    let token = sql.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    assert_eq!(sql.value(&format!("SET coeval.wait_for_token = '{token}'; SELECT 1")).unwrap().unwrap(), "1");
    // One of the future does not come, and is waited for as long as the session says.
    let parts: Vec<&str> = token.split('-').collect();
    let future = format!("{}-{}-{}-{}", parts[0], parts[1], "ffffffffff", "ffffffffff");
    safe.run("SET coeval.wait_for_token_timeout = '100ms'").unwrap();
    assert_eq!(safe.refused(&format!("SET coeval.wait_for_token = '{future}'")), "57014");
    assert_eq!(
        safe.refused(&format!("SELECT set_config('coeval.wait_for_token', '{future}', false)")),
        "57014"
    );
    let at_once = format!("-c coeval.wait_for_token_timeout=100ms -c coeval.wait_for_token={future}");
    assert_eq!(Sql::refused_at_opening(replica.port, &at_once), "57014");
    // One of a history that this one has gone past is refused.
    let lost = format!("1-{}-{}-{}", "00000000000000ff", "ff", "ff");
    for session in [&safe, sql] {
        assert_eq!(session.refused(&format!("SET coeval.wait_for_token = '{lost}'")), "55000");
    }
    assert_eq!(safe.refused("SET coeval.wait_for_token = 'yesterday'"), "22023");
    // What tools compute from it.
    let since = "now() - pg_last_xact_replay_timestamp() BETWEEN interval '0 s' AND interval '1 min'";
    assert_eq!(copy.value(&format!("SELECT {since}")).unwrap().unwrap(), "t");
    let unshown = "pg_wal_lsn_diff(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn())";
    assert_eq!(copy.value(&format!("SELECT {unshown} BETWEEN 0 AND 100000")).unwrap().unwrap(), "t");
}
