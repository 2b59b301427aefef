// SPDX-License-Identifier: Apache-2.0
//! A replica that hangs, or a connection that does: it stays, and nothing comes over it.

use super::network::{FORWARDING, STALLED, SUM, behind_a_proxy, insert};
use super::*;

fn signal(server: &Server, name: &str) {
    let pid = server.process.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &pid]).status().unwrap().success());
}

/// Fails without `wal_sender_timeout`: the commit waits for as long as the replica hangs, which is for ever.
#[test]
fn a_replica_that_hangs_is_given_up_and_another_one_takes_its_place() {
    let parent = tempfile::tempdir().unwrap();
    let dir = |name: &str| parent.path().join(name);
    let primary = Server::start(&dir("primary"), 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    let follow = |name: &str| Server::start(&dir(name), 0, &["--replica-of", &replica_named(&primary, name)]);
    let (first, _second) = (follow("first"), follow("second"));
    sql.run("SET synchronous_standby_names = 'FIRST 1 (first, second)'").unwrap();
    let listed = "SELECT string_agg(application_name || ' ' || sync_state, ', ' ORDER BY application_name) \
                  FROM pg_stat_replication";
    until_it_reads(&sql, listed, "first sync, second potential");

    signal(&first, "STOP");
    sql.run("SET wal_sender_timeout = '2s'; SET statement_timeout = '50s'").unwrap();
    sql.run("INSERT INTO t VALUES (1)").unwrap();
    primary.until_said("a replica says nothing any more");
    until_it_reads(&sql, listed, "second sync");

    signal(&first, "CONT");
    until_it_reads(&sql, listed, "first sync, second potential");
    until_it_reads(&Sql::open(first.port), "SELECT count(*) FROM t", "1");
}

const IS_PAUSED: &str = "SELECT pg_is_wal_replay_paused()";

/// Fails if Ctrl-C ends a comparison where it is: the replica stayed paused, and showed nothing new to anybody.
#[test]
fn a_comparison_that_is_stopped_has_the_replica_go_on() {
    let parent = tempfile::tempdir().unwrap();
    let dir = |name: &str| parent.path().join(name);
    let primary = Server::start(&dir("primary"), 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    let replica = Server::start(&dir("copy"), 0, &["--replica-of", &replica_of(&primary)]);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    // Another database, at a version to which the replica does not come.
    let other = Server::start(&dir("other"), 0, &[]);
    let of_other = Sql::open(other.port);
    of_other.run("CREATE TABLE t (id int PRIMARY KEY)").unwrap();
    (0..20).for_each(|id| of_other.run(&format!("INSERT INTO t VALUES ({id})")).unwrap());

    let mut command = Command::new(PROGRAM);
    command.args(["check", "--replica", &replica_of(&replica), "--against", &replica_of(&other)]);
    let comparing = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    until_it_reads(&copy, IS_PAUSED, "t");
    let process = comparing.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &process]).status().unwrap().success());
    let ended = bounded::end_of(comparing, "coeval check --against", PATIENCE);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!ended.status.success() && said.contains("stopped before its end"), "{said}");
    assert_eq!(copy.value(IS_PAUSED).unwrap().unwrap(), "f");
    sql.run("INSERT INTO t VALUES (1)").unwrap();
    until_it_reads(&copy, "SELECT count(*) FROM t", "1");
}

/// Half a minute without a word: the connection is given up, on both sides, and another one is made.
#[test]
fn who_hears_nothing_for_half_a_minute_connects_anew() {
    let (_parent, _primary, sql, proxy, copy_dir) = behind_a_proxy();
    let replica = Server::start(
        &copy_dir,
        0,
        &["--replica-of", &format!("host=127.0.0.1,port={},user=coeval", proxy.port)],
    );
    replica.until_said("the replica follows");
    proxy.set(STALLED);
    insert(&sql, 0..10);
    replica.until_said("says nothing any more");
    proxy.set(FORWARDING);
    until_it_reads(&Sql::open(replica.port), SUM, &sql.value(SUM).unwrap().unwrap());
    // A connection of which one side has gone is not counted for ever.
    until_it_reads(&sql, "SELECT count(*) FROM pg_stat_replication", "1");
}
