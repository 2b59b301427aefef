// SPDX-License-Identifier: Apache-2.0
//! A primary and its replica that are killed under load.

use super::{PATIENCE, Server, Sql, check, directories, until_it_reads, wait_for};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

/// Kills of primary, replica or both under load: what was acknowledged is on the primary, and in the end on the replica.
/// `COEVAL_REPLICA_KILLS` says how many.
#[test]
fn kills_under_load_lose_nothing() {
    let rounds = std::env::var("COEVAL_REPLICA_KILLS").ok().map_or(6, |rounds| rounds.parse().unwrap());
    let (_parent, primary_dir, copy_dir) = directories();
    let mut primary = Some(Server::start(&primary_dir, 0, &[]));
    let port = primary.as_ref().unwrap().port;
    Sql::open(port)
        .run(
            "CREATE TABLE acknowledged (client int, n bigint, filling text, PRIMARY KEY (client, n));
             CREATE INDEX acknowledged_n ON acknowledged (n);
             CREATE TABLE accounts (id int PRIMARY KEY, balance bigint NOT NULL);
             INSERT INTO accounts SELECT g, 100 FROM generate_series(1, 20) g",
        )
        .unwrap();
    let of = format!("host=127.0.0.1,port={port},user=coeval");
    let mut replica = Some(Server::start(&copy_dir, 0, &["--replica-of", &of]));
    let (stop, counters) = (Arc::new(AtomicBool::new(false)), [const { AtomicI64::new(0) }; 3]);
    let counters = Arc::new(counters);
    let clients: Vec<_> = (0..3)
        .map(|client| {
            let (stop, counters) = (Arc::clone(&stop), Arc::clone(&counters));
            std::thread::spawn(move || write(port, client, &stop, &counters))
        })
        .collect();
    let mut looks = 0;
    for round in 0..rounds {
        until_all_have_written(&counters);
        let begun = Instant::now();
        looks += money_is_all_there(replica.as_ref().unwrap());
        while looks == 0 {
            assert!(begun.elapsed() < PATIENCE, "the replica has nothing to look at");
            looks += money_is_all_there(replica.as_ref().unwrap());
        }
        if round % 3 != 1 {
            primary.take().unwrap().kill();
        }
        if round % 3 != 0 {
            replica.take().unwrap().kill();
        }
        let primary_server = primary.take().unwrap_or_else(|| Server::start(&primary_dir, port, &[]));
        primary = Some(primary_server);
        let replica_server =
            replica.take().unwrap_or_else(|| Server::start(&copy_dir, 0, &["--replica-of", &of]));
        replica = Some(replica_server);
    }
    until_all_have_written(&counters);
    stop.store(true, Ordering::Relaxed);
    clients.into_iter().for_each(|client| client.join().unwrap());
    let (primary, replica) = (primary.unwrap(), replica.unwrap());
    let (sql, copy) = (Sql::open(primary.port), Sql::open(replica.port));
    for client in 0..3 {
        let acknowledged = counters[client].load(Ordering::Relaxed);
        let query =
            format!("SELECT count(*) FROM acknowledged WHERE client = {client} AND n <= {acknowledged}");
        assert_eq!(sql.value(&query).unwrap().unwrap(), acknowledged.to_string(), "client {client}");
    }
    wait_for(&copy, &sql);
    for query in [
        "SELECT count(*) || ' ' || sum(n) || ' ' || sum(length(filling)) FROM acknowledged",
        "SELECT count(*) FROM acknowledged WHERE n = 5",
        "SELECT sum(id * balance) FROM accounts",
    ] {
        until_it_reads(&copy, query, &sql.value(query).unwrap().unwrap());
    }
    drop((sql, copy));
    replica.stop();
    primary.stop();
    check(&copy_dir);
    check(&primary_dir);
}

/// Lets clients write for a while, and for as long as it takes until each has written again.
fn until_all_have_written(counters: &[AtomicI64; 3]) {
    let written = || counters.each_ref().map(|counter| counter.load(Ordering::Relaxed));
    let (before, begun) = (written(), Instant::now());
    std::thread::sleep(Duration::from_millis(400));
    while written().iter().zip(before).any(|(now, before)| *now <= before) {
        assert!(begun.elapsed() < PATIENCE, "clients do not write any more");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Money moves and does not vanish, in every snapshot. In how many there was a look.
fn money_is_all_there(replica: &Server) -> u32 {
    let copy = Sql::open(replica.port);
    let mut looks = 0;
    for level in ["SERIALIZABLE", "REPEATABLE READ"] {
        copy.run(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        match copy.value("SELECT sum(balance) FROM accounts") {
            Ok(sum) => {
                assert_eq!(sum.unwrap(), "2000");
                looks += 1;
            }
            Err(error) => assert_eq!(error.code().unwrap().code(), "57P03", "{error}"),
        }
        copy.run("ROLLBACK").unwrap();
    }
    looks
}

/// Inserts numbers one after the other and moves money, over as many connections as it takes.
fn write(port: u16, client: usize, stop: &AtomicBool, counters: &[AtomicI64; 3]) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(sql) = Sql::open_as(port, "coeval", None) else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        while !stop.load(Ordering::Relaxed) {
            let n = counters[client].load(Ordering::Relaxed) + 1;
            // The one before may be there without having been acknowledged.
            let insert = format!(
                "INSERT INTO acknowledged VALUES ({client}, {n}, repeat('x', {})) ON CONFLICT DO NOTHING",
                n % 300
            );
            if sql.run(&insert).is_err() {
                break;
            }
            counters[client].store(n, Ordering::Relaxed);
            let (from, to) = (n % 20 + 1, (n * 7 + client as i64) % 20 + 1);
            let moved = sql.run(&format!(
                "BEGIN; UPDATE accounts SET balance = balance - 1 WHERE id = {from};
                 UPDATE accounts SET balance = balance + 1 WHERE id = {to}; COMMIT"
            ));
            if moved.is_err() && sql.run("ROLLBACK").is_err() {
                break;
            }
        }
    }
}
