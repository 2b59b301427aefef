// SPDX-License-Identifier: Apache-2.0
//! A replica of a replica.

use super::*;
use std::net::TcpListener;

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A replica followed the primary by `--peer` while the replica that it was told to follow was away. That comes back without the
/// last commits and without the primary: nothing has parted. (It was taken for another history, and the last one stopped for good.)
#[test]
fn a_replica_that_is_ahead_of_its_upstream_waits_for_it() {
    let (parent, primary_dir, middle_dir) = directories();
    let last_dir = parent.path().join("last");
    let primary = Server::start(&primary_dir, 0, &["--name", "north"]);
    let of_primary = replica_of(&primary);
    let peer = format!("name=north,{of_primary}");
    let sql = Sql::open(primary.port);
    sql.run("CREATE TABLE t (n int PRIMARY KEY)").unwrap();
    let follow_primary = ["--name", "south", "--replica-of", &of_primary];
    let middle = Server::start(&middle_dir, 0, &follow_primary);
    let last_options = ["--name", "west", "--replica-of", &replica_of(&middle), "--peer", &peer];
    let last = Server::start(&last_dir, 0, &last_options);
    let west = Sql::open(last.port);
    until_it_reads(&west, "SELECT count(*) FROM t", "0");
    let (middle_port, primary_port) = (middle.port, primary.port);
    middle.stop();
    sql.run("INSERT INTO t VALUES (1)").unwrap();
    until_it_reads(&west, "SELECT count(*) FROM t", "1");
    // The middle one hears of nobody and stays behind: the primary is followed all the same. (Peers were asked only where nobody
    // answered.)
    last.stop();
    let nobody = format!("host=127.0.0.1,port={},user=coeval", free_port());
    let middle = Server::start(&middle_dir, middle_port, &["--name", "south", "--replica-of", &nobody]);
    let last = Server::start(&last_dir, 0, &last_options);
    let west = Sql::open(last.port);
    sql.run("INSERT INTO t VALUES (2)").unwrap();
    until_it_reads(&west, "SELECT count(*) FROM t", "2");
    middle.stop();
    drop(sql);
    primary.kill();
    let middle = Server::start(&middle_dir, middle_port, &follow_primary);
    last.until_said("has the log only up to");
    let state = west.value("SELECT status FROM pg_stat_wal_receiver").unwrap().unwrap();
    assert_eq!(state, "waiting");
    // The primary comes back, in a new term: both go on.
    let primary = Server::start(&primary_dir, primary_port, &["--name", "north"]);
    let sql = Sql::open(primary.port);
    sql.run("INSERT INTO t VALUES (3)").unwrap();
    for replica in [&west, &Sql::open(middle.port)] {
        until_it_reads(replica, "SELECT count(*) FROM t", "3");
    }
    assert!(!last.said.lock().unwrap().contains("does not follow any more"));
}
