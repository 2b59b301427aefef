// SPDX-License-Identifier: Apache-2.0
//! Replicas that take the log from an archive: alone, when the primary is lost, and when it has not got the log any more.

use super::{
    PATIENCE, PROGRAM, SUM, Server, Sql, bounded, check, directories, place, replica_of, run, until_it_reads,
    until_writable, wait_for,
};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// What archives at once what was committed.
pub(super) fn archiving(archive: &str) -> [&str; 4] {
    ["--archive", archive, "--archive-timeout", "0.2"]
}

/// Follows these sources, and looks often.
fn following(of: &str) -> [&str; 4] {
    ["--replica-of", of, "--replica-poll", "0.1"]
}

/// Waits until the archive has everything that is durable on the primary.
pub(super) fn until_archived(archive: &str, primary: &Sql) {
    let wanted = place(&primary.value("SELECT pg_current_wal_flush_lsn()").unwrap().unwrap());
    let begun = Instant::now();
    while end_of_log(&Path::new(archive).join("log")) < wanted {
        assert!(begun.elapsed() < PATIENCE, "the archive has the log up to {wanted} at last");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Names of stretches end with the place where they end.
fn end_of_log(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let end = |name: &str| name.trim_end_matches("-files").rsplit_once('-')?.1.parse().ok();
    entries
        .filter_map(|entry| match entry.path().is_dir() {
            true => Some(end_of_log(&entry.path())),
            false => end(&entry.file_name().to_string_lossy()),
        })
        .max()
        .unwrap_or(0)
}

fn serve(dir: &Path, options: &[&str]) -> Output {
    let listen = ["--listen", "127.0.0.1:0"];
    bounded::output(Command::new(PROGRAM).arg("serve").arg(dir).args(listen).args(options))
}

fn fill(sql: &Sql) {
    sql.run(
        "CREATE TABLE items (id bigint PRIMARY KEY, amount bigint NOT NULL, word text);
         INSERT INTO items SELECT g, g * 7 % 1000, 'word ' || g FROM generate_series(1, 20000) g;
         CREATE INDEX items_amount ON items (amount);
         CREATE TABLE events (day int, amount bigint, kind text) USING brick PARTITION BY (day CARDINALITY 64 RANGE SIZE 8);
         INSERT INTO events SELECT g % 64, g, 'kind ' || g % 5 FROM generate_series(1, 5000) g",
    )
    .unwrap();
}

#[test]
fn a_replica_of_the_archive_alone_is_read_goes_on_and_is_promoted() {
    let (parent, primary_dir, copy_dir) = directories();
    let archive = parent.path().join("archive");
    let archive = archive.to_str().unwrap();
    let of = format!("archive={archive}");
    let refused = serve(&copy_dir, &["--replica-of", &of]);
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("there is no archive of a database"),
        "{refused:?}"
    );

    let primary = Server::start(&primary_dir, 0, &archiving(archive));
    let sql = Sql::open(primary.port);
    fill(&sql);
    primary.until_said("a backup was made");
    let replica = Server::start(&copy_dir, 0, &following(&of));
    let copy = Sql::open(replica.port);
    replica.until_said("the replica takes the log from the archive");
    // Loads, definitions and rows that come later; safe, which the log says some time after the last commit.
    sql.run(
        "ALTER TABLE items ADD COLUMN note text DEFAULT 'none';
         INSERT INTO items SELECT g, 5, 'late', 'x' FROM generate_series(100000, 130000) g;
         UPDATE items SET amount = amount + 1 WHERE id <= 100;
         INSERT INTO events SELECT g % 64, g, 'new' FROM generate_series(1, 100) g;
         CHECKPOINT",
    )
    .unwrap();
    wait_for(&copy, &sql);
    for query in [
        SUM,
        "SELECT count(*) || ' ' || sum(amount) FROM events",
        "SELECT count(*) FROM items WHERE amount = 5",
    ] {
        let wanted = sql.value(query).unwrap().unwrap();
        until_it_reads(&copy, query, &wanted);
        copy.run("BEGIN ISOLATION LEVEL SERIALIZABLE").unwrap();
        assert_eq!(copy.value(query).unwrap().unwrap(), wanted, "{query}");
        copy.run("COMMIT").unwrap();
    }
    assert_eq!(copy.refused("INSERT INTO items VALUES (0, 0, '', '')"), "25006");
    assert_eq!(sql.value("SELECT count(*) FROM pg_stat_replication").unwrap().unwrap(), "0");

    // Both end and come back; the primary in a new term.
    drop(copy);
    replica.kill();
    sql.run("INSERT INTO items VALUES (-1, 1, 'while it was away', NULL)").unwrap();
    let port = primary.port;
    drop(sql);
    primary.kill();
    let primary = Server::start(&primary_dir, port, &archiving(archive));
    let replica = Server::start(&copy_dir, 0, &following(&of));
    let (copy, sql) = (Sql::open(replica.port), Sql::open(primary.port));
    sql.run("INSERT INTO items VALUES (-2, 1, 'in a new term', NULL)").unwrap();
    until_it_reads(&copy, "SELECT word FROM items WHERE id = -1", "while it was away");
    until_it_reads(&copy, "SELECT word FROM items WHERE id = -2", "in a new term");
    let wanted = sql.value(SUM).unwrap().unwrap();
    until_it_reads(&copy, SUM, &wanted);
    drop((copy, sql));
    replica.stop();
    primary.stop();
    check(&copy_dir);
    run(&["promote", copy_dir.to_str().unwrap()]);
    let promoted = Server::start(&copy_dir, 0, &[]);
    let sql = Sql::open(promoted.port);
    assert_eq!(sql.value(SUM).unwrap().unwrap(), wanted);
    sql.run("INSERT INTO items VALUES (-3, 1, 'promoted', NULL)").unwrap();
}

#[test]
fn a_primary_that_is_lost_leaves_the_rest_in_its_archive() {
    let (parent, primary_dir, copy_dir) = directories();
    let archive = parent.path().join("archive");
    let archive = archive.to_str().unwrap();
    let primary = Server::start(&primary_dir, 0, &archiving(archive));
    let of = format!("{},archive={archive}", replica_of(&primary));
    let sql = Sql::open(primary.port);
    fill(&sql);
    primary.until_said("a backup was made");
    let replica = Server::start(&copy_dir, 0, &following(&of));
    replica.until_said("the replica follows");
    wait_for(&Sql::open(replica.port), &sql);
    replica.stop();
    sql.run("INSERT INTO items VALUES (-1, 1, 'the last words')").unwrap();
    sql.run("INSERT INTO events SELECT g % 64, g, 'late' FROM generate_series(1, 100) g").unwrap();
    let wanted = sql.value(SUM).unwrap().unwrap();
    // An idle moment leaves a record that says how far safe snapshots may go: without it the last commits are seen at
    // REPEATABLE READ alone.
    std::thread::sleep(Duration::from_millis(1_500));
    until_archived(archive, &sql);
    let port = primary.port;
    drop(sql);
    primary.kill();

    let replica = Server::start(&copy_dir, 0, &following(&of));
    let copy = Sql::open(replica.port);
    replica.until_said("the replica takes the log from the archive");
    until_it_reads(&copy, SUM, &wanted);
    until_it_reads(&copy, "SELECT count(*) FROM events WHERE kind = 'late'", "100");
    // One in a new directory finds the archive as well.
    let other = Server::start(&parent.path().join("other"), 0, &following(&of));
    assert!(other.said.lock().unwrap().contains("The primary does not answer"));
    until_it_reads(&Sql::open(other.port), SUM, &wanted);

    // It was not lost after all: the stream is preferred.
    let primary = Server::start(&primary_dir, port, &archiving(archive));
    for server in [&replica, &other] {
        server.until_said("the replica follows");
    }
    let sql = Sql::open(primary.port);
    sql.run("INSERT INTO items VALUES (-2, 1, 'it is back')").unwrap();
    until_it_reads(&copy, "SELECT word FROM items WHERE id = -2", "it is back");
    assert_eq!(sql.value("SELECT count(*) FROM pg_stat_replication").unwrap().unwrap(), "2");
    drop((copy, sql));
    replica.stop();
    check(&copy_dir);
}

/// The replica is started with the archive as well, and promoted when the primary is lost that had archived nothing for a while.
#[test]
fn what_a_lost_primary_had_not_archived_comes_from_its_replica() {
    let (parent, primary_dir, copy_dir) = directories();
    let (archive, restored) = (parent.path().join("archive"), parent.path().join("restored"));
    let (archive, restored) = (archive.to_str().unwrap(), restored.to_str().unwrap());
    let primary = Server::start(&primary_dir, 0, &archiving(archive));
    let sql = Sql::open(primary.port);
    fill(&sql);
    primary.until_said("a backup was made");
    until_archived(archive, &sql);
    let of = replica_of(&primary);
    let mut options = vec!["--replica-of", &of];
    options.extend(archiving(archive));
    let replica = Server::start(&copy_dir, 0, &options);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    let port = primary.port;
    drop(sql);
    primary.stop();
    let primary = Server::start(&primary_dir, port, &["--archive", archive, "--archive-timeout", "3600"]);
    let sql = Sql::open(port);
    sql.run("INSERT INTO items SELECT g, 5, 'not archived' FROM generate_series(100000, 130000) g").unwrap();
    let wanted = sql.value(SUM).unwrap().unwrap();
    let moment = sql.value("SELECT pg_current_wal_flush_lsn()").unwrap().unwrap();
    sql.run("DELETE FROM items").unwrap();
    wait_for(&copy, &sql);
    copy.run("CHECKPOINT").unwrap();
    drop(sql);
    primary.kill();

    copy.run("SELECT pg_promote()").unwrap();
    drop(copy);
    let sql = until_writable(replica.port);
    sql.run("INSERT INTO items VALUES (-1, 1, 'promoted'); CHECKPOINT").unwrap();
    until_archived(archive, &sql);
    drop(sql);
    replica.stop();
    run(&["check", "--archive", archive]);
    run(&["restore", archive, restored, "--to-lsn", &moment]);
    assert!(run(&["sql", restored, "-c", SUM]).contains(&wanted));
}

/// It was asked for a host. Fails so if a former primary's directory is refused where --replica-of names an archive alone.
#[test]
fn a_former_primary_comes_back_by_the_archive_alone() {
    for last in ["SELECT 1", "CHECKPOINT"] {
        let (parent, primary_dir, copy_dir) = directories();
        let archive = parent.path().join("archive");
        let archive = archive.to_str().unwrap();
        let of = format!("archive={archive}");
        let primary = Server::start(&primary_dir, 0, &archiving(archive));
        let sql = Sql::open(primary.port);
        fill(&sql);
        // So that no later start makes one by itself, behind the place where the two part.
        sql.run("CHECKPOINT").unwrap();
        primary.until_said("a backup was made");
        let wanted = sql.value(SUM).unwrap().unwrap();
        until_archived(archive, &sql);
        let replica = Server::start(&copy_dir, 0, &following(&of));
        until_it_reads(&Sql::open(replica.port), SUM, &wanted);
        replica.stop();
        drop(sql);
        primary.stop();
        let refused = serve(&primary_dir, &["--replica-of", &of]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(said.contains("has nothing of a database that has come after this one"), "{said}");
        // It is the primary as before, and nothing of this comes into the archive.
        let primary = Server::start(&primary_dir, 0, &[]);
        let sql = Sql::open(primary.port);
        sql.run("INSERT INTO items VALUES (-1, 1, 'nobody else has this'); CREATE TABLE lost (n int)")
            .unwrap();
        sql.run(last).unwrap();
        drop(sql);
        primary.kill();
        run(&["promote", copy_dir.to_str().unwrap()]);
        let promoted = Server::start(&copy_dir, 0, &archiving(archive));
        let sql = until_writable(promoted.port);
        sql.run("INSERT INTO items VALUES (-1, 5, 'in the new history')").unwrap();
        let wanted = sql.value(SUM).unwrap().unwrap();
        until_archived(archive, &sql);

        let former = Server::start(&primary_dir, 0, &following(&of));
        let copy = Sql::open(former.port);
        until_it_reads(&copy, SUM, &wanted);
        assert_eq!(copy.refused("SELECT * FROM lost"), "42P01");
        let said = former.said.lock().unwrap().clone();
        let (cut, copied) = (said.contains("its log is cut back to LSN "), said.contains("Copying"));
        assert_eq!((cut, copied), (last != "CHECKPOINT", last == "CHECKPOINT"), "{said}");
        assert_eq!(primary_dir.join("rewound").exists(), cut, "what it alone had lies aside");
        let beside = std::fs::read_dir(parent.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let aside = beside.filter(|name| name.to_string_lossy().contains(".term-")).count();
        assert_eq!(aside, usize::from(copied), "{said}");
        drop((copy, sql));
        former.stop();
        promoted.stop();
        check(&primary_dir);
    }
}

/// The log goes in segments of 64 MB.
pub(super) fn more_than_a_segment_of_log(sql: &Sql) {
    for round in 0..8 {
        sql.run(&format!("UPDATE filling SET text = repeat('{round}', 10000)")).unwrap();
    }
    sql.run("CHECKPOINT").unwrap();
}

#[test]
fn a_replica_that_is_far_behind_catches_up_by_the_archive() {
    let (parent, primary_dir, copy_dir) = directories();
    let archive = parent.path().join("archive");
    let archive = archive.to_str().unwrap();
    // What it lacks is not to be there for it.
    let options = [&archiving(archive)[..], &["--wal-keep-size", "0"]].concat();
    let primary = Server::start(&primary_dir, 0, &options);
    let sql = Sql::open(primary.port);
    sql.run(
        "CREATE TABLE filling (id int PRIMARY KEY, text text);
         INSERT INTO filling SELECT g, '' FROM generate_series(1, 1000) g",
    )
    .unwrap();
    primary.until_said("a backup was made");
    let alone = replica_of(&primary);
    let replica = Server::start(&copy_dir, 0, &following(&alone));
    wait_for(&Sql::open(replica.port), &sql);
    replica.stop();
    for _ in 0..2 {
        more_than_a_segment_of_log(&sql);
        until_archived(archive, &sql);
    }
    sql.run("CREATE TABLE behind (a int); INSERT INTO behind VALUES (7); CHECKPOINT").unwrap();
    let query = "SELECT count(*) || ' ' || sum(length(text)) || ' ' || max(text) FROM filling";
    let wanted = sql.value(query).unwrap().unwrap();

    let replica = Server::start(&copy_dir, 0, &following(&alone));
    replica.until_said("does not reach back");
    replica.until_said("the replica does not follow any more");
    replica.stop();
    let of = format!("{alone},archive={archive}");
    let replica = Server::start(&copy_dir, 0, &following(&of));
    replica.until_said("the replica takes the log from the archive");
    replica.until_said("the replica follows");
    let copy = Sql::open(replica.port);
    until_it_reads(&copy, query, &wanted);
    until_it_reads(&copy, "SELECT a FROM behind", "7");
    sql.run("INSERT INTO behind VALUES (8)").unwrap();
    until_it_reads(&copy, "SELECT sum(a) FROM behind", "15");
    drop(copy);
    replica.stop();
    check(&copy_dir);
}

#[test]
fn an_archive_that_cannot_be_followed_is_named() {
    let (parent, _, copy_dir) = directories();
    let place = |name: &str| parent.path().join(name).to_str().unwrap().to_owned();
    let (archive, another) = (place("archive"), place("another"));
    for (dir, archive) in [("primary", &archive), ("stranger", &another)] {
        let dir = place(dir);
        run(&["sql", &dir, "-c", "CREATE TABLE items (id int, amount int, word text)"]);
        run(&["backup", &dir, archive]);
    }
    let of = format!("archive={archive}");
    let refused = serve(&copy_dir, &["--replica-of", &of, "--replica-password-file", "secret"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--replica-of names none"), "{refused:?}");
    let replica = Server::start(&copy_dir, 0, &following(&of));
    until_it_reads(&Sql::open(replica.port), SUM, "0 rows, 0, ");
    replica.stop();
    let replica = Server::start(&copy_dir, 0, &following(&format!("archive={another}")));
    replica.until_said("the replica does not follow any more");
    replica.until_said("is the archive of database");
    // What it has can be read.
    until_it_reads(&Sql::open(replica.port), "SHOW in_hot_standby", "on");
}
