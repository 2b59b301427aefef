// SPDX-License-Identifier: Apache-2.0
//! Three machines, any two of which have what was acknowledged: promotions with promises, former primaries that run on or come
//! back, and who is let in before it is known that nothing shown can be lost.

use super::machines::Machines;
use super::*;

fn write(sql: &Sql, range: std::ops::Range<i32>) {
    for n in range {
        sql.run(&format!("INSERT INTO t VALUES ({n})")).unwrap();
    }
}

fn count(sql: &Sql) -> String {
    sql.value("SELECT count(*) FROM t").unwrap().unwrap()
}

/// Promotes a replica, as soon as it has all that another one has.
fn promote(replica: &Sql) {
    let begun = Instant::now();
    while let Err(error) = replica.value("SELECT pg_promote()") {
        let error = error.as_db_error().unwrap();
        assert!(error.message().contains("longer log") && begun.elapsed() < PATIENCE, "{error:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Waits until a statement is refused with this SQLSTATE.
fn until_refused(sql: &Sql, statement: &str, state: &str) {
    let begun = Instant::now();
    loop {
        let refused = sql.run(statement).err().and_then(|error| Some(error.code()?.code().to_owned()));
        if refused.as_deref() == Some(state) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "{statement} is not refused with {state}, but {refused:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_replica_is_promoted_with_promises_and_former_primaries_give_way() {
    let mut machines = Machines::start();
    let north = machines.sql(0);
    north
        .run("CREATE TABLE t (n int PRIMARY KEY); CREATE ROLE reader LOGIN; GRANT SELECT ON t TO reader")
        .unwrap();
    write(&north, 0..50);
    let token = north.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    it_is_not_promoted_without_those_that_are_needed(&mut machines);

    // A session of a replica that stays one: it reads what its tokens say, also that of a primary that is lost.
    let pinned = machines.sql(2);
    promote(&machines.sql(1));
    let south = until_writable(machines.ports[1]);
    assert_eq!(count(&south), "50");
    pinned.run(&format!("SET coeval.wait_for_token = '{token}'")).unwrap();
    assert_eq!(count(&pinned), "50");
    // The other one follows it by itself: commits have somebody to wait for.
    write(&south, 50..60);
    let token = south.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    pinned.run(&format!("SET coeval.wait_for_token = '{token}'")).unwrap();
    assert_eq!(count(&pinned), "60", "the same session, and not a row less");

    // The former primary comes back as if nothing had happened.
    machines.serve(0, &[]);
    machines.server(0).until_said("takes no commits any more");
    let north = machines.sql(0);
    assert_eq!(north.value("SHOW in_hot_standby").unwrap().unwrap(), "on");
    assert_eq!(north.value("SELECT pg_is_in_recovery()").unwrap().unwrap(), "t");
    until_refused(&north, "INSERT INTO t VALUES (-1)", "25006");
    assert_eq!(count(&north), "50");
    machines.servers[0].take().unwrap().stop();
    machines.follow(0, 1);
    until_it_reads(&machines.sql(0), "SELECT count(*) FROM t", "60");

    // The primary runs on while another one is promoted, and is told.
    promote(&machines.sql(2));
    let west = until_writable(machines.ports[2]);
    assert_eq!(count(&west), "60");
    until_refused(&south, "INSERT INTO t VALUES (-2)", "25006");
    write(&west, 60..70);
    let text = west.value("SHOW synchronous_standby_names").unwrap().unwrap();
    assert_eq!(text, "ANY 1 (north, south, west)", "the list goes with the database");
    let peers = west.value("SHOW coeval.peers").unwrap().unwrap();
    assert!(peers.starts_with("north, south"), "those that it tells: {peers}");
    machines.servers[1].take().unwrap().stop();
    machines.follow(1, 2);
    until_it_reads(&machines.sql(1), "SELECT count(*) FROM t", "70");
    readers_wait_until_it_is_known_what_may_be_shown(&mut machines);
}

fn it_is_not_promoted_without_those_that_are_needed(machines: &mut Machines) {
    machines.kill(2);
    machines.kill(0);
    let south = machines.sql(1);
    let refused = south.run("SELECT pg_promote()").unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert_eq!(refused.code().code(), "55000");
    assert!(
        refused.message().contains("1 of 2 replicas") && refused.message().contains("west"),
        "{refused:?}"
    );
    machines.follow(2, 0);
    // Behind a crash, and without a primary that says what is safe: it is asked how it is, and could be promoted.
    let west = machines.sql(2);
    assert_eq!(west.refused("SELECT count(*) FROM t"), "57P03");
    assert_eq!(west.value("SELECT pg_is_in_recovery()").unwrap().unwrap(), "t");
    assert_eq!(west.value("SELECT count(*) FROM pg_stat_wal_receiver").unwrap().unwrap(), "1");
    assert_eq!(west.refused("SELECT count(*) FROM pg_stat_wal_receiver, t"), "57P03");
}

/// The primary and a replica die: nobody is shown what the others may not have.
fn readers_wait_until_it_is_known_what_may_be_shown(machines: &mut Machines) {
    machines.kill(0);
    machines.kill(1);
    machines.kill(2);
    machines.serve(2, &[]);
    let refused = Sql::open_as(machines.ports[2], "reader", None).map(drop).unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "57P03");
    let superuser = machines.sql(2);
    assert_eq!(count(&superuser), "70", "a superuser sees to it");
    // What changed is not given before: a failover could lose it. It was waited for, and nobody could end that.
    let token = superuser.value("SELECT coeval_snapshot_token()").unwrap().unwrap();
    let refused = superuser.run(&format!("SELECT * FROM coeval_changes('{token}')")).unwrap_err();
    let refused = refused.as_db_error().unwrap();
    assert_eq!(refused.code().code(), "55000");
    assert!(refused.message().contains("may be shown"), "{refused:?}");
    // Nor does a backup have it.
    let archive = tempfile::tempdir().unwrap();
    let backup = format!("SELECT coeval_backup('{}')", archive.path().display());
    assert_eq!(superuser.refused(&backup), "55000");
    drop(superuser);
    machines.follow(1, 2);
    let begun = Instant::now();
    while let Err(error) = Sql::open_as(machines.ports[2], "reader", None) {
        assert_eq!(error.code().unwrap().code(), "57P03");
        assert!(begun.elapsed() < PATIENCE);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Such a session looked like one that works.
#[test]
fn a_session_whose_commit_waits_for_replicas_is_told_from_one_that_works() {
    let (_parent, primary_dir, _) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    sql.run("SET synchronous_standby_names = 'nobody'").unwrap();
    let writer = Sql::open(primary.port);
    let pid = writer.value("SELECT pg_backend_pid()").unwrap().unwrap();
    let waits = format!(
        "SELECT wait_event_type || ' ' || wait_event FROM pg_stat_activity WHERE pid = {pid} AND state = "
    );
    let writing = std::thread::spawn(move || {
        let written = writer.run("INSERT INTO t VALUES (1)");
        (writer, written)
    });
    until_it_reads(&sql, &format!("{waits} 'active'"), "IPC SyncRep");
    sql.run("SET synchronous_standby_names = ''").unwrap();
    let (_writer, written) = writing.join().unwrap();
    written.unwrap();
    until_it_reads(&sql, &format!("{waits} 'idle'"), "Client ClientRead");
}

#[test]
fn what_may_be_lost_is_given_up_only_if_that_is_said() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &["--synchronous-standby-names", "ANY 1 (copy, other)"]);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_named(&primary, "copy")]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    write(&sql, 0..3);
    primary.kill();
    let copy = Sql::open(replica.port);
    assert_eq!(copy.refused("SELECT pg_promote()"), "55000");
    drop(copy);
    replica.stop();
    let promote = |options: &[&str]| {
        let dir = copy_dir.to_str().unwrap();
        bounded::output(Command::new(PROGRAM).args(["promote", dir, "--name", "copy"]).args(options))
    };
    let refused = promote(&[]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("other") && said.contains("--accept-loss"), "{said}");
    assert!(promote(&["--accept-loss"]).status.success());
    let promoted = Server::start(&copy_dir, 0, &["--name", "copy"]);
    let sql = Sql::open(promoted.port);
    assert_eq!(count(&sql), "3");
    // Nobody else is there: the list says whom commits wait for, until it says something else.
    sql.run("SET synchronous_standby_names = ''; INSERT INTO t VALUES (3)").unwrap();
    drop(sql);
    promoted.stop();
    let again = Server::start(&copy_dir, 0, &[]);
    assert_eq!(Sql::open(again.port).value("SHOW synchronous_standby_names").unwrap().unwrap(), "");
}

/// A replica was told to follow the former primary, which is a replica by now. It followed that for ever, and a commit that waits for two
/// machines had one. To break it: have `Taking::is_a_peer` say that nobody is one.
#[test]
fn a_replica_follows_the_primary_and_not_a_former_one_that_is_a_replica() {
    const FOLLOWERS: &str = "SELECT count(*) FROM pg_stat_replication";
    let mut machines = Machines::start();
    let north = machines.sql(0);
    north.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    write(&north, 0..10);
    drop(north);
    machines.kill(0);
    promote(&machines.sql(1));
    let south = until_writable(machines.ports[1]);
    machines.follow(0, 1);
    until_it_reads(&machines.sql(0), "SELECT count(*) FROM t", "10");
    machines.servers[2].take().unwrap().stop();
    machines.follow(2, 0);
    until_it_reads(&south, FOLLOWERS, "2");
    // The same behind a moment without a primary.
    drop(south);
    machines.kill(1);
    machines.serve(1, &[]);
    let south = until_writable(machines.ports[1]);
    until_it_reads(&south, FOLLOWERS, "2");
    south.run("SET synchronous_standby_names = 'ANY 2 (north, south, west)'").unwrap();
    write(&south, 10..20);
    until_it_reads(&machines.sql(2), "SELECT count(*) FROM t", "20");
}

/// Nothing but the promise by hand was left to remove: `promote` said that it is no replica, and there is nobody to follow.
#[test]
fn a_superseded_primary_whose_successor_is_lost_is_the_primary_again() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    write(&sql, 0..20);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    wait_for(&Sql::open(replica.port), &sql);
    promote(&Sql::open(replica.port));
    // Until it is told it may take some.
    until_refused(&sql, "INSERT INTO t SELECT min(n) - 1 FROM t", "25006");
    replica.kill();
    std::fs::remove_dir_all(&copy_dir).unwrap();

    assert_eq!(sql.refused("SELECT coeval_promote_accepting_loss()"), "55000");
    drop(sql);
    primary.stop();
    let dir = primary_dir.to_str().unwrap();
    let refused = bounded::output(Command::new(PROGRAM).args(["promote", dir]));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("--accept-loss"), "{said}");
    let said = run(&["promote", dir, "--accept-loss"]);
    assert!(said.contains("No --peer was named"), "{said}");
    let primary = Server::start(&primary_dir, 0, &[]);
    assert!(primary.said.lock().unwrap().contains("no other machine is named by --peer"));
    let sql = until_writable(primary.port);
    write(&sql, 20..40);
    // Without the rows that it took before it was told.
    let kept = sql.value("SELECT count(*) FROM t WHERE n >= 0").unwrap().unwrap();
    assert_eq!(kept, "40");
    drop(sql);
    primary.stop();
    // It is a primary like any other now.
    let refused = bounded::output(Command::new(PROGRAM).args(["promote", dir, "--accept-loss"]));
    assert!(!refused.status.success(), "it is no replica");
    check(&primary_dir);
}

/// It said no more than that the directory is in use.
#[test]
fn a_replica_that_is_served_is_promoted_by_its_server_when_the_command_asks() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &replica_of(&primary)]);
    wait_for(&Sql::open(replica.port), &sql);
    let said = run(&["promote", copy_dir.to_str().unwrap()]);
    assert!(said.contains("promotes it") && said.contains("It was started without --peer"), "{said}");
    let promoted = until_writable(replica.port);
    promoted.run("INSERT INTO t VALUES (2)").unwrap();
    let refused = bounded::output(Command::new(PROGRAM).arg("promote").arg(&copy_dir));
    assert!(!refused.status.success(), "it is no replica any more");
}
