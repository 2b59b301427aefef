// SPDX-License-Identifier: Apache-2.0
//! One snapshot over the database and its servers: what a client commits in one place, and later in another, is seen in
//! that order by everybody.

use super::{database, rows, run, session};
use coeval::{Database, Session, SqlState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The quantity of the first row, which is on the server.
const ON_SERVER: &str = "SELECT quantity FROM stock WHERE w = 1 AND i = 1";

#[test]
fn a_transaction_lacks_the_servers_commit_whose_earlier_commit_here_it_lacks() {
    let (database, mut client) = database();
    let mut reader = session(&database);
    run(&mut reader, "BEGIN");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM items"), ["2"]);
    run(&mut client, "INSERT INTO items VALUES (3, 'three')");
    run(&mut client, "UPDATE stock SET quantity = 99 WHERE w = 1 AND i = 1");
    assert_eq!(rows(&mut reader, ON_SERVER), ["10"], "the server's commit came behind one that is not seen");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM items"), ["2"]);
    run(&mut reader, "COMMIT; BEGIN");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM items"), ["3"]);
    assert_eq!(rows(&mut reader, ON_SERVER), ["99"]);
}

#[test]
fn what_was_acknowledged_on_a_server_before_a_transaction_began_is_seen_by_it() {
    let (database, mut client) = database();
    let mut reader = session(&database);
    run(&mut client, "UPDATE stock SET quantity = 11 WHERE w = 1 AND i = 1");
    run(&mut reader, "BEGIN");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM items"), ["2"]);
    // Nothing has been committed here since, so this is the server's state beside the reader's still.
    run(&mut client, "UPDATE stock SET quantity = 12 WHERE w = 1 AND i = 1");
    let seen = rows(&mut reader, ON_SERVER);
    run(
        &mut client,
        "UPDATE stock SET quantity = 13 WHERE w = 1 AND i = 1; INSERT INTO items VALUES (3, 'three')",
    );
    assert_eq!(rows(&mut reader, ON_SERVER), seen);
    assert!(["11", "12"].contains(&&*seen[0]), "{seen:?}");
}

#[test]
fn a_snapshot_of_one_server_fixes_that_of_the_others() {
    let (database, mut client) = database();
    run(
        &mut client,
        "CREATE SERVER second ENGINE datafusion; \
         CREATE TABLE orders (k int PRIMARY KEY) USING tique SERVER second; INSERT INTO orders VALUES (1)",
    );
    let mut reader = session(&database);
    run(&mut reader, "BEGIN");
    assert_eq!(rows(&mut reader, ON_SERVER), ["10"]);
    run(&mut client, "UPDATE stock SET quantity = 99 WHERE w = 1 AND i = 1; INSERT INTO orders VALUES (2)");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM orders"), ["1"], "stock of before it is seen");
    // Also behind a commit here, which ends the time that the reader's snapshot was the newest.
    run(&mut client, "INSERT INTO items VALUES (3, 'three'); INSERT INTO orders VALUES (3)");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM orders"), ["1"]);
}

#[test]
fn a_checkpoint_of_a_server_keeps_what_an_open_transaction_has_not_looked_at_yet() {
    let database = Database::in_memory().unwrap();
    let (mut reader, mut client) = (session(&database), session(&database));
    run(
        &mut client,
        "CREATE SERVER wh ENGINE datafusion OPTIONS (checkpoint_at '9', certification 'process', writes 'at_once'); \
         CREATE TABLE old (k int PRIMARY KEY) USING tique SERVER wh; \
         CREATE TABLE t (k int PRIMARY KEY, v int) USING tique SERVER wh; CREATE TABLE here (k int PRIMARY KEY); \
         INSERT INTO old VALUES (1); INSERT INTO t VALUES (1, 0), (2, 0)",
    );
    run(&mut reader, "BEGIN");
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM here"), ["0"]);
    run(&mut client, "INSERT INTO here VALUES (1)");
    for round in 1..=9 {
        run(&mut client, &format!("UPDATE t SET v = {round}; INSERT INTO t VALUES (10 + {round}, 0)"));
    }
    // A checkpoint has been there once nothing is cached of what the reader sees as well.
    while rows(&mut client, "EXPLAIN SELECT count(*) FROM old").join("\n").contains("old_cache") {}
    assert_eq!(rows(&mut reader, "SELECT v FROM t ORDER BY k"), ["0", "0"]);
    assert_eq!(rows(&mut reader, "SELECT v FROM t WHERE k = 1"), ["0"]);
    run(&mut reader, "COMMIT");
    assert_eq!(rows(&mut reader, "SELECT count(*), max(v) FROM t"), ["11|9"]);
}

#[test]
fn a_statement_that_has_read_a_server_does_not_move_on_to_newer_rows_here() {
    let (database, mut holder) = database();
    run(&mut holder, "CREATE VIEW low AS SELECT i FROM stock WHERE quantity < 15");
    run(
        &mut holder,
        "BEGIN; SELECT name FROM items WHERE i = 2 FOR UPDATE; UPDATE items SET name = 'held' WHERE i = 2",
    );
    let outcome = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut session = session(&database);
            run(&mut session, "BEGIN");
            // It reads the server, then waits for the row that is locked.
            let sql = "SELECT (SELECT count(*) FROM low), name FROM items WHERE i = 2 FOR UPDATE";
            session.query(sql).map(drop).map_err(|error| error.state())
        });
        let is_waiting = || database.store().row_locks().len() > 1;
        while !is_waiting() && !waiting.is_finished() {
            std::thread::yield_now();
        }
        run(&mut holder, "COMMIT");
        waiting.join().unwrap()
    });
    assert_eq!(outcome, Err(SqlState::SerializationFailure));
}

/// Clients commit a number in one place and then in the other; whoever looks at both meanwhile sees the first place with at
/// least the number of the second, whichever it looks at first.
#[test]
fn whoever_looks_at_both_places_sees_commits_in_the_order_of_their_clients() {
    const ROUNDS: usize = 60;
    let (database, mut setup) = database();
    run(
        &mut setup,
        "CREATE TABLE counters (k int PRIMARY KEY, n int); INSERT INTO counters VALUES (1, 0), (2, 0)",
    );
    run(&mut setup, "UPDATE stock SET quantity = 0");
    let (here, there) = (
        |k: usize, n: usize| format!("UPDATE counters SET n = {n} WHERE k = {k}"),
        |k: usize, n: usize| format!("UPDATE stock SET quantity = {n} WHERE w = 1 AND i = {k}"),
    );
    let (is_over, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (is_over, rounds) = (&is_over, &rounds);
    std::thread::scope(|scope| {
        let database = &database;
        let writer = move |k: usize| {
            let mut session = session(database);
            for n in 1..=ROUNDS {
                // The first counts here first, the second there.
                let (first, second) =
                    if k == 1 { (here(k, n), there(k, n)) } else { (there(k, n), here(k, n)) };
                run(&mut session, &format!("{first}; {second}"));
                rounds.fetch_add(1, Ordering::SeqCst);
            }
        };
        let reader = move |first_is_here: bool| {
            let mut session = session(database);
            let mut looks = 0;
            while !is_over.load(Ordering::SeqCst) {
                run(&mut session, "BEGIN");
                let of = |session: &mut Session, is_here: bool| {
                    let sql = match is_here {
                        true => "SELECT n FROM counters ORDER BY k",
                        false => "SELECT quantity FROM stock WHERE w = 1 ORDER BY i",
                    };
                    rows(session, sql).iter().map(|n| n.parse::<usize>().unwrap()).collect::<Vec<_>>()
                };
                let first = of(&mut session, first_is_here);
                // Commits of both come between the looks.
                let until = rounds.load(Ordering::SeqCst) + 3;
                while rounds.load(Ordering::SeqCst) < until && !is_over.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                let second = of(&mut session, !first_is_here);
                let (here, there) = if first_is_here { (first, second) } else { (second, first) };
                assert!(here[0] >= there[0] && there[1] >= here[1], "here {here:?}, there {there:?}");
                run(&mut session, "COMMIT");
                looks += 1;
            }
            looks
        };
        let writers = [scope.spawn(move || writer(1)), scope.spawn(move || writer(2))];
        let readers = [scope.spawn(move || reader(true)), scope.spawn(move || reader(false))];
        let outcomes = writers.map(|writer| writer.join());
        is_over.store(true, Ordering::SeqCst);
        for reader in readers {
            assert!(reader.join().unwrap() > 3);
        }
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
}
