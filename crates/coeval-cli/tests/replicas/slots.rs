// SPDX-License-Identifier: Apache-2.0
//! Replicas that follow by a slot: behind restarts and failovers, and when the slot kept more than it may.

use super::from_archive::{archiving, more_than_a_segment_of_log, until_archived};
use super::*;

/// Waits until somebody follows by this slot.
fn until_active(sql: &Sql, slot: &str) {
    until_it_reads(
        sql,
        &format!("SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{slot}' AND active"),
        "1",
    );
}

/// A replica that was copied without a slot, and a former primary, are started with one on a primary that has none of this name.
/// (They were told that it does not exist, every few seconds.)
#[test]
fn a_slot_is_made_for_who_follows_by_it_behind_a_restart_and_a_failover() {
    let (_parent, north_dir, south_dir) = directories();
    let north = Server::start(&north_dir, 0, &[]);
    let sql = Sql::open(north.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let south = Server::start(&south_dir, 0, &["--replica-of", &replica_of(&north)]);
    wait_for(&Sql::open(south.port), &sql);
    south.stop();
    sql.run("INSERT INTO t VALUES (1)").unwrap();
    let by_slot = format!("{},slot=south", replica_of(&north));
    let south = Server::start(&south_dir, 0, &["--replica-of", &by_slot]);
    until_active(&sql, "south");
    let copy = Sql::open(south.port);
    until_it_reads(&copy, "SELECT count(*) FROM t", "1");
    // The failover: the former primary comes back and follows by a slot of its own.
    drop(sql);
    north.stop();
    copy.value("SELECT pg_promote()").unwrap();
    let sql = until_writable(south.port);
    sql.run("INSERT INTO t VALUES (2)").unwrap();
    let by_slot = format!("{},slot=north", replica_of(&south));
    let north = Server::start(&north_dir, 0, &["--replica-of", &by_slot]);
    until_active(&sql, "north");
    until_it_reads(&Sql::open(north.port), "SELECT count(*) FROM t", "2");
    // It keeps what the replica lacks.
    north.kill();
    sql.run(
        "SET wal_keep_size = 0; INSERT INTO t VALUES (3); CHECKPOINT; INSERT INTO t VALUES (4); CHECKPOINT",
    )
    .unwrap();
    let north = Server::start(&north_dir, 0, &["--replica-of", &by_slot]);
    until_it_reads(&Sql::open(north.port), "SELECT count(*) FROM t", "4");
}

/// A replica whose slot kept more than it may catches up from the archive, and follows by its slot again. (It stopped for good.)
/// Without an archive it says that it needs a copy, and the copy follows by the slot.
#[test]
fn a_lost_slot_is_begun_anew_behind_the_archive_or_a_copy() {
    let (parent, primary_dir, copy_dir) = directories();
    let archive = parent.path().join("archive");
    let archive = archive.to_str().unwrap();
    let bounds = ["--max-slot-wal-keep-size", "1MB", "--wal-keep-size", "0"];
    let primary = Server::start(&primary_dir, 0, &[&archiving(archive)[..], &bounds].concat());
    let sql = Sql::open(primary.port);
    sql.run(
        "CREATE TABLE filling (id int PRIMARY KEY, text text);
         INSERT INTO filling SELECT g, '' FROM generate_series(1, 1000) g",
    )
    .unwrap();
    primary.until_said("a backup was made");
    let by_slot = format!("{},slot=south", replica_of(&primary));
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &by_slot]);
    wait_for(&Sql::open(replica.port), &sql);
    let lose = |replica: Server, row: i32| {
        replica.stop();
        for _ in 0..2 {
            more_than_a_segment_of_log(&sql);
            until_archived(archive, &sql);
        }
        sql.run(&format!("INSERT INTO filling VALUES ({row}, 'behind'); CHECKPOINT")).unwrap();
        until_it_reads(&sql, "SELECT wal_status FROM pg_replication_slots", "lost");
    };
    let last = "SELECT max(id) FROM filling WHERE text = 'behind'";
    lose(replica, 2_000);
    let from_archive = format!("{by_slot},archive={archive}");
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &from_archive, "--replica-poll", "0.1"]);
    until_it_reads(&Sql::open(replica.port), last, "2000");
    until_active(&sql, "south");

    lose(replica, 3_000);
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &by_slot]);
    replica.until_said("make a new copy in an empty directory");
    replica.stop();
    std::fs::remove_dir_all(&copy_dir).unwrap();
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &by_slot]);
    until_it_reads(&Sql::open(replica.port), last, "3000");
    until_active(&sql, "south");
}

/// The views of both sides: how late the replica is, who follows by a slot, and what the primary said last. (They were NULL.)
#[test]
fn the_views_tell_how_late_a_replica_is_and_what_it_has_heard() {
    let (_parent, primary_dir, copy_dir) = directories();
    let primary = Server::start(&primary_dir, 0, &[]);
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let by_slot = format!("{},slot=south", replica_of(&primary));
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &by_slot]);
    let copy = Sql::open(replica.port);
    wait_for(&copy, &sql);
    sql.run("INSERT INTO t VALUES (1)").unwrap();
    until_it_reads(
        &sql,
        "SELECT count(*) FROM pg_stat_replication WHERE write_lag > '0' AND flush_lag >= write_lag
            AND replay_lag > '0' AND replay_lag < '1 minute'",
        "1",
    );
    until_it_reads(
        &sql,
        "SELECT count(*) FROM pg_replication_slots JOIN pg_stat_replication ON active_pid = pid
            WHERE slot_name = 'south'",
        "1",
    );
    until_it_reads(
        &copy,
        "SELECT count(*) FROM pg_stat_wal_receiver WHERE slot_name = 'south' AND latest_end_lsn = flushed_lsn
            AND last_msg_receipt_time BETWEEN now() - interval '1 minute' AND now() + interval '1 minute'
            AND last_msg_send_time >= latest_end_time AND latest_end_time > now() - interval '1 minute'",
        "1",
    );
    replica.stop();
    until_it_reads(&sql, "SELECT count(*) FROM pg_replication_slots WHERE active_pid IS NULL", "1");
    // Who has had everything for a while is not late.
    let replica = Server::start(&copy_dir, 0, &["--replica-of", &by_slot]);
    replica.until_said("the replica follows");
    sql.run("INSERT INTO t VALUES (2)").unwrap();
    for wanted in ["IS NOT NULL", "IS NULL"] {
        let rows = format!("SELECT count(*) FROM pg_stat_replication WHERE replay_lag {wanted}");
        until_it_reads(&sql, &rows, "1");
    }
}
