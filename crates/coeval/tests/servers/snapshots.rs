// SPDX-License-Identifier: Apache-2.0
//! One snapshot over the database and its servers: what a client commits in one place, and later in another, is seen in
//! that order by everybody.

use super::{database, persistent, rows, run, session, state};
use coeval::{Database, Session, SqlState};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The quantity of the first row, which is on the server.
const ON_SERVER: &str = "SELECT quantity FROM stock WHERE w = 1 AND i = 1";

/// Those at which a transaction may be here and on a server.
const LEVELS: [&str; 2] = ["read committed", "repeatable read"];

/// A session at a level.
fn at(level: &str, database: &Database) -> Session {
    let mut session = session(database);
    run(&mut session, &format!("SET default_transaction_isolation TO '{level}'"));
    session
}

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

/// Runs `sql` beside a transaction that has locked the second item's row and commits a change of it and of the first row on
/// the server while `sql` waits for the row.
fn beside_a_holder(level: &str, before: &[&str], sql: &str) -> Result<Vec<String>, SqlState> {
    let (database, mut holder) = database();
    run(
        &mut holder,
        "CREATE VIEW low AS SELECT i FROM stock WHERE quantity < 15; \
         BEGIN; SELECT name FROM items WHERE i = 2 FOR UPDATE; UPDATE items SET name = 'held' WHERE i = 2; \
         UPDATE stock SET quantity = 99 WHERE w = 1 AND i = 1",
    );
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut session = at(level, &database);
            before.iter().for_each(|sql| run(&mut session, sql));
            let row = |batches: Vec<arrow::array::RecordBatch>| {
                let cells = batches[0].columns().iter();
                cells.map(|cell| arrow::util::display::array_value_to_string(cell, 0).unwrap()).collect()
            };
            session.query(sql).map(row).map_err(|error| error.state())
        });
        let is_waiting = || database.store().row_locks().len() > 1;
        while !is_waiting() && !waiting.is_finished() {
            std::thread::yield_now();
        }
        run(&mut holder, "COMMIT");
        waiting.join().unwrap()
    })
}

#[test]
fn a_statement_that_has_read_a_server_does_not_move_on_to_newer_rows_here() {
    // It reads the server, then waits for the row that is locked.
    let sql = "SELECT (SELECT count(*) FROM low), name FROM items WHERE i = 2 FOR UPDATE";
    let refused = Err(SqlState::SerializationFailure);
    for level in LEVELS {
        assert_eq!(beside_a_holder(level, &["BEGIN"], sql), refused, "{level}");
        assert_eq!(beside_a_holder(level, &["BEGIN", "SAVEPOINT s", ON_SERVER], sql), refused, "{level}");
        // By itself it runs again, on both sides.
        assert_eq!(beside_a_holder(level, &[], sql).unwrap(), ["0", "held"], "{level}");
    }
    let sql = "UPDATE items SET name = name || (SELECT count(*) FROM low) WHERE i = 2 RETURNING i, name";
    for level in LEVELS {
        assert_eq!(beside_a_holder(level, &[], sql).unwrap(), ["2", "held0"], "{level}");
    }
    let here = "SELECT name FROM items WHERE i = 2 FOR UPDATE";
    assert_eq!(beside_a_holder("read committed", &["BEGIN", ON_SERVER], here), refused);
}

/// A database with the same number in a row here and in one of each of two servers; what counts them all up, in two
/// commits; and a transaction's look at all.
fn three_places() -> (Database, Session) {
    let (database, mut client) = database();
    run(
        &mut client,
        "CREATE TABLE here (k int PRIMARY KEY, q int); INSERT INTO here VALUES (1, 10), (2, 10); \
         CREATE SERVER second ENGINE datafusion; \
         CREATE TABLE far (k int PRIMARY KEY, q int) USING tique SERVER second; INSERT INTO far VALUES (1, 10), (2, 0)",
    );
    (database, client)
}

const COUNT_UP: &str = "BEGIN; UPDATE stock SET quantity = quantity + 1 WHERE w = 1 AND i = 1; \
     UPDATE here SET q = q + 1 WHERE k = 1; COMMIT; \
     BEGIN; UPDATE here SET q = q + 1 WHERE k = 2; UPDATE far SET q = q + 1 WHERE k = 1; COMMIT";

const EVERYWHERE: &str = "SELECT (SELECT q FROM here WHERE k = 1), (SELECT quantity FROM stock WHERE w = 1 AND i = 1), \
     (SELECT q FROM here WHERE k = 2), (SELECT q FROM far WHERE k = 1)";

#[test]
fn whatever_comes_between_the_looks_of_a_transaction_each_sees_one_moment() {
    for level in LEVELS {
        for between in [
            "SELECT count(*) FROM items",
            "INSERT INTO items VALUES (3, 'three')",
            "UPDATE stock SET quantity = 0 WHERE w = 2",
            "UPDATE far SET q = 5 WHERE k = 2",
            "UPDATE stock SET quantity = 0 WHERE w = 2; DELETE FROM items WHERE i = 2",
            "SELECT name FROM items WHERE i = 2 FOR UPDATE",
            "SAVEPOINT s; INSERT INTO items VALUES (3, 'three'); ROLLBACK TO s",
            "CREATE TABLE new (k int PRIMARY KEY)",
            "SAVEPOINT s; CREATE TABLE new (k int PRIMARY KEY); ROLLBACK TO s",
            "DECLARE early CURSOR FOR SELECT q FROM here",
        ] {
            for first in [ON_SERVER, "SELECT q FROM far WHERE k = 1"] {
                let what = format!("{level}, {first}, {between}");
                let (database, mut client) = three_places();
                let mut reader = at(level, &database);
                run(&mut reader, "BEGIN");
                assert_eq!(rows(&mut reader, first), ["10"], "{what}");
                run(&mut client, COUNT_UP);
                run(&mut reader, &format!("DECLARE both CURSOR FOR {EVERYWHERE}"));
                run(&mut client, COUNT_UP);
                run(&mut reader, between);
                run(&mut client, COUNT_UP);
                assert_eq!(rows(&mut reader, EVERYWHERE), ["10|10|10|10"], "{what}");
                assert_eq!(rows(&mut reader, "FETCH both"), ["10|10|10|10"], "{what}");
                run(&mut reader, "COMMIT");
                assert_eq!(rows(&mut reader, EVERYWHERE), ["13|13|13|13"], "{what}");
            }
        }
    }
}

/// SERIALIZABLE is for one place: whichever comes first, and whatever was rolled back in between, nobody commits who has
/// looked at both; what such a transaction sees until then is of one moment all the same.
#[test]
fn at_serializable_nobody_commits_who_has_looked_at_both_places() {
    const HERE: &str = "SELECT q FROM here WHERE k = 1";
    for (first, second) in [(HERE, ON_SERVER), (ON_SERVER, HERE)] {
        for (before, between) in [
            ("", ""),
            ("SAVEPOINT s", "ROLLBACK TO s"),
            ("SAVEPOINT s", "RELEASE SAVEPOINT s"),
            ("", "SELECT count(*) FROM pg_class"),
        ] {
            let what = format!("{first}; {between}; {second}");
            let (database, mut client) = three_places();
            let mut reader = at("serializable", &database);
            run(&mut reader, &format!("BEGIN; {before}"));
            assert_eq!(rows(&mut reader, first), ["10"], "{what}");
            run(&mut client, COUNT_UP);
            run(&mut reader, between);
            let refused = match reader.run(second) {
                Err(error) => error,
                Ok(_) => {
                    assert_eq!(rows(&mut reader, second), ["10"], "{what}");
                    reader.run("COMMIT").map(drop).expect_err(&what)
                }
            };
            assert_eq!(refused.state(), SqlState::FeatureNotSupported, "{what}");
            // Each place by itself is what has been committed since.
            run(&mut reader, "ROLLBACK");
            assert_eq!([first, second].map(|look| rows(&mut reader, look)), [["11"]; 2], "{what}");
        }
    }
}

/// Who looks at a server late sees it as it was beside the own snapshot, whatever has been committed here first and there
/// second: on the default engine, or on the one whose library the environment names. `near` is here, `far` on the server.
pub(crate) fn assert_seen_as_of_one_moment(database: &Database) {
    let mut client = session(database);
    let count_to = |client: &mut Session, n: u32| {
        run(client, &format!("UPDATE near SET n = {n}; UPDATE far SET n = {n}"));
    };
    // READ COMMITTED stays with what it sees at its first look at a server.
    for (level, seen) in [("read committed", "3"), ("repeatable read", "0")] {
        count_to(&mut client, 0);
        let mut reader = at(level, database);
        run(&mut reader, "BEGIN");
        assert_eq!(rows(&mut reader, "SELECT n FROM near"), ["0"], "{level}");
        (1..=3).for_each(|n| count_to(&mut client, n));
        for n in 4..=6 {
            assert_eq!(rows(&mut reader, "SELECT n FROM far"), [seen], "{level}, before {n}");
            assert_eq!(rows(&mut reader, "SELECT n FROM near"), [seen], "{level}, before {n}");
            count_to(&mut client, n);
        }
        assert_eq!(rows(&mut reader, "SELECT near.n, far.n FROM near, far"), [format!("{seen}|{seen}")]);
        run(&mut reader, "COMMIT");
        assert_eq!(rows(&mut reader, "SELECT n FROM far"), ["6"], "{level}");
    }
    // SERIALIZABLE, on the server alone.
    count_to(&mut client, 0);
    let mut reader = at("serializable", database);
    run(&mut reader, "BEGIN");
    let seen = rows(&mut reader, "SELECT n FROM far");
    for n in 1..=3 {
        count_to(&mut client, n);
        assert_eq!(rows(&mut reader, "SELECT n FROM far"), seen, "serializable, behind {n}");
    }
    run(&mut reader, "COMMIT; BEGIN");
    assert_eq!(rows(&mut reader, "SELECT n FROM near"), ["3"]);
    assert_eq!(state(&mut reader, "SELECT n FROM far"), SqlState::FeatureNotSupported);
    run(&mut reader, "ROLLBACK");
}

#[test]
fn each_engine_is_seen_as_it_was_beside_the_snapshot() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path().join("db")).unwrap();
    run(
        &mut session(&database),
        &format!(
            "CREATE SERVER wh ENGINE {}; CREATE TABLE far (k int PRIMARY KEY, n int) USING tique SERVER wh; \
             CREATE TABLE near (k int PRIMARY KEY, n int); INSERT INTO far VALUES (1, 0); INSERT INTO near VALUES (1, 0)",
            persistent(&directory.path().join("wh"))
        ),
    );
    assert_seen_as_of_one_moment(&database);
}

#[test]
fn what_a_transaction_writes_beside_what_it_has_read_of_a_server_goes_with_it_or_is_refused() {
    for level in LEVELS {
        let (database, mut client) = three_places();
        let mut reader = at(level, &database);
        run(&mut reader, &format!("BEGIN; {ON_SERVER}"));
        run(&mut client, COUNT_UP);
        let stale = "UPDATE here SET q = (SELECT quantity FROM stock WHERE w = 1 AND i = 1) WHERE k = 1";
        let outcome = reader.run(stale).map(drop).and_then(|()| reader.run("COMMIT").map(drop));
        assert_eq!(outcome.expect_err(level).state(), SqlState::SerializationFailure, "{level}");
        run(&mut reader, &format!("ROLLBACK; {stale}"));
        assert_eq!(rows(&mut reader, EVERYWHERE), ["11|11|11|11"], "{level}");
    }
}

#[test]
fn savepoints_of_before_the_first_look_at_a_server_bring_no_older_rows_back() {
    for level in LEVELS {
        for before in ["SAVEPOINT s", "SELECT count(*) FROM items; SAVEPOINT s"] {
            for after in [
                "SELECT 1",
                "CREATE TABLE new (k int PRIMARY KEY)",
                "UPDATE items SET name = 'new' WHERE i = 2",
            ] {
                let what = format!("{level}, {before}, {after}");
                let (database, mut client) = three_places();
                let mut reader = at(level, &database);
                run(&mut reader, &format!("BEGIN; {before}"));
                run(&mut client, COUNT_UP);
                let seen = rows(&mut reader, ON_SERVER);
                run(&mut reader, after);
                run(&mut client, COUNT_UP);
                run(&mut reader, "ROLLBACK TO s");
                let look = rows(&mut reader, EVERYWHERE);
                let number = look[0].split('|').next().unwrap();
                assert_eq!(look, [[number; 4].join("|")], "{what}");
                assert!(number >= &*seen[0], "{what}: {look:?} behind {seen:?}");
                run(&mut client, COUNT_UP);
                run(&mut reader, "UPDATE stock SET quantity = 0 WHERE w = 2");
                let again = rows(&mut reader, EVERYWHERE);
                assert!(again == look, "{what}: {again:?} behind {look:?}");
                run(&mut reader, "COMMIT");
                assert_eq!(rows(&mut reader, EVERYWHERE), ["13|13|13|13"], "{what}");
            }
        }
    }
}

#[test]
fn a_first_statement_that_moved_on_is_not_taken_back_by_a_savepoint_before_it() {
    // It waits, runs again on what it waited for, and looks at the server then.
    let lock = "SELECT name FROM items WHERE i = 2 FOR UPDATE";
    let (database, mut holder) = database();
    run(&mut holder, &format!("BEGIN; {lock}; UPDATE items SET name = 'held' WHERE i = 2"));
    run(&mut holder, "UPDATE stock SET quantity = 99 WHERE w = 1 AND i = 1");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut session = session(&database);
            run(&mut session, "BEGIN; SAVEPOINT s");
            assert_eq!(rows(&mut session, lock), ["held"]);
            assert_eq!(rows(&mut session, ON_SERVER), ["99"]);
            run(&mut session, "ROLLBACK TO s");
            let both =
                "SELECT name, (SELECT quantity FROM stock WHERE w = 1 AND i = 1) FROM items WHERE i = 2";
            assert_eq!(rows(&mut session, both), ["held|99"]);
        });
        let is_waiting = || database.store().row_locks().len() > 1;
        while !is_waiting() && !waiting.is_finished() {
            std::thread::yield_now();
        }
        run(&mut holder, "COMMIT");
        waiting.join().unwrap();
    });
}

#[test]
fn blocks_beside_spanning_commits_never_see_half_of_one() {
    const LOOKS: usize = 8;
    let (database, mut client) = three_places();
    let looks = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        // Until there were enough looks beside it, however slow the machine is; the bound is for a reader that panics.
        let writing = scope.spawn(|| {
            let has_more = |count: &usize| *count < 40 || looks.load(Ordering::Relaxed) < LOOKS;
            (0..4_000).take_while(has_more).for_each(|_| run(&mut client, COUNT_UP));
        });
        let mut reader = at("read committed", &database);
        while !writing.is_finished() {
            run(&mut reader, "BEGIN");
            // A first look at each server may be refused, as it may be at every level; those behind it are not.
            match reader.run(ON_SERVER).and_then(|_| reader.run(EVERYWHERE)) {
                Err(error) => assert_eq!(error.state(), SqlState::SerializationFailure),
                Ok(_) => {
                    for _ in 0..3 {
                        let look = rows(&mut reader, EVERYWHERE);
                        let numbers: Vec<i32> = look[0].split('|').map(|n| n.parse().unwrap()).collect();
                        let [first, stock, second, far] = numbers[..] else { panic!("{look:?}") };
                        assert!(first == stock && second == far && first >= second, "{look:?}");
                    }
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            }
            run(&mut reader, "ROLLBACK");
        }
    });
    let looks = looks.into_inner();
    assert!(looks >= LOOKS, "{looks} looks");
}

/// Clients commit a number in one place and then in the other; whoever looks at both meanwhile sees the first place with at
/// least the number of the second, whichever it looks at first.
#[test]
fn whoever_looks_at_both_places_sees_commits_in_the_order_of_their_clients() {
    const LOOKS: usize = 4;
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
    // Of the reader who looks there first, and of the one who looks here first.
    let looks = [const { AtomicUsize::new(0) }; 2];
    let (is_over, rounds, looks) = (&is_over, &rounds, &looks);
    std::thread::scope(|scope| {
        let database = &database;
        let writer = move |k: usize| {
            let mut session = session(database);
            // Until both readers have looked often enough beside it; the bound is for one that panics.
            let has_enough = || looks.iter().all(|looks| looks.load(Ordering::SeqCst) >= LOOKS);
            for n in (1..=6_000).take_while(|n| *n <= 60 || !has_enough()) {
                // The first counts here first, the second there.
                let (first, second) =
                    if k == 1 { (here(k, n), there(k, n)) } else { (there(k, n), here(k, n)) };
                run(&mut session, &format!("{first}; {second}"));
                rounds.fetch_add(1, Ordering::SeqCst);
            }
        };
        let reader = move |first_is_here: bool| {
            let mut session = session(database);
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
                looks[usize::from(first_is_here)].fetch_add(1, Ordering::SeqCst);
            }
        };
        let writers = [scope.spawn(move || writer(1)), scope.spawn(move || writer(2))];
        let readers = [scope.spawn(move || reader(true)), scope.spawn(move || reader(false))];
        let outcomes = writers.map(|writer| writer.join());
        is_over.store(true, Ordering::SeqCst);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
        assert!(looks.iter().all(|looks| looks.load(Ordering::SeqCst) >= LOOKS), "{looks:?}");
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
}
