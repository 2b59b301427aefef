// SPDX-License-Identifier: Apache-2.0
//! Many threads on few rows, at READ COMMITTED, and at SERIALIZABLE where a transaction begins with the row it waits
//! for: nothing is lost, and nobody is refused.

use coeval_sql::{Engine, Session, SqlError, SqlState, StatementResult};
use coeval_store::{Durability, Store, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const THREADS: usize = 8;
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

fn engines() -> Vec<(Arc<Engine>, Option<tempfile::TempDir>)> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let options = StoreOptions { durability: Durability::Fsync, ..StoreOptions::default() };
    let on_disk = Store::open(directory.path(), options).expect("an empty directory");
    let in_memory = Store::in_memory(StoreOptions::default());
    let engine = |store| Engine::new(store).expect("threads can be started");
    vec![(engine(in_memory), None), (engine(on_disk), Some(directory))]
}

fn done(session: &mut Session, sql: &str) -> Vec<StatementResult> {
    session.execute(sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn number(session: &mut Session, sql: &str) -> String {
    let results = done(session, sql);
    let rows = results[0].rows.as_ref().expect("a query");
    let column = rows.batches.iter().find(|batch| batch.num_rows() > 0).expect("a row").column(0).clone();
    arrow::util::display::array_value_to_string(&column, 0).expect("a type with a text form")
}

fn on_threads(engine: &Arc<Engine>, work: impl Fn(usize, &mut Session) + Sync) {
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (engine, work) = (Arc::clone(engine), &work);
            scope.spawn(move || work(thread, &mut engine.session()));
        }
    });
}

#[test]
fn at_serializable_who_begins_with_the_row_that_all_want_is_not_refused() {
    const ROUNDS: usize = 50;
    for (engine, _directory) in engines() {
        let mut session = engine.session();
        done(&mut session, "CREATE TABLE counter (id int PRIMARY KEY, n bigint)");
        done(&mut session, "INSERT INTO counter SELECT g, 0 FROM generate_series(0, 8) AS t(g)");
        on_threads(&engine, |thread, session| {
            for _ in 0..ROUNDS {
                done(session, "BEGIN ISOLATION LEVEL SERIALIZABLE");
                done(session, "UPDATE counter SET n = n + 1 WHERE id = 0");
                done(session, &format!("UPDATE counter SET n = n + 1 WHERE id = {}", thread + 1));
                done(session, "COMMIT");
            }
        });
        let all = (THREADS * ROUNDS).to_string();
        assert_eq!(number(&mut session, "SELECT n FROM counter WHERE id = 0"), all);
        assert_eq!(number(&mut session, "SELECT sum(n) FROM counter WHERE id > 0"), all);
    }
}

#[test]
fn clients_that_count_in_one_row_all_count() {
    const ROUNDS: usize = 100;
    for (engine, _directory) in engines() {
        let mut session = engine.session();
        done(&mut session, "CREATE TABLE counter (id int PRIMARY KEY, n bigint)");
        done(&mut session, "INSERT INTO counter VALUES (1, 0)");
        on_threads(&engine, |thread, session| {
            done(session, "SET default_transaction_isolation = 'read committed'");
            for round in 0..ROUNDS {
                if (thread + round) % 2 == 0 {
                    done(session, "UPDATE counter SET n = n + 1 WHERE id = 1");
                } else {
                    done(session, BEGIN);
                    done(session, "SELECT n FROM counter WHERE id = 1");
                    done(session, "UPDATE counter SET n = n + 1 WHERE id = 1");
                    done(session, "COMMIT");
                }
            }
        });
        assert_eq!(number(&mut session, "SELECT n FROM counter"), (THREADS * ROUNDS).to_string());
        assert_eq!(engine.store().row_locks().len(), 0, "no lock is left");
    }
}

#[test]
fn clients_that_insert_the_same_keys_each_find_them_taken_once() {
    const ROUNDS: usize = 100;
    for (engine, _directory) in engines() {
        let mut session = engine.session();
        done(&mut session, "CREATE TABLE seen (id int PRIMARY KEY, name text UNIQUE, n int)");
        let taken = AtomicUsize::new(0);
        on_threads(&engine, |thread, session| {
            done(session, "SET default_transaction_isolation = 'read committed'");
            for round in 0..ROUNDS {
                let (id, name) =
                    if thread % 2 == 0 { (round, round) } else { (1_000 + thread * 100 + round, round) };
                match session.execute(&format!("INSERT INTO seen VALUES ({id}, 'n{name}', 0)")) {
                    Ok(_) => {}
                    Err(SqlError { state: SqlState::UniqueViolation, .. }) => {
                        taken.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => panic!("{error}"),
                }
                let upsert = "ON CONFLICT (name) DO UPDATE SET n = seen.n + 1";
                done(session, &format!("INSERT INTO seen VALUES ({}, 'n{name}', 0) {upsert}", 10_000 + id));
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), (THREADS - 1) * ROUNDS);
        assert_eq!(number(&mut session, "SELECT count(*) FROM seen"), ROUNDS.to_string());
        assert_eq!(number(&mut session, "SELECT sum(n) FROM seen"), (THREADS * ROUNDS).to_string());
    }
}

#[test]
fn transfers_keep_the_sum_and_deadlocks_are_the_only_failures() {
    const ACCOUNTS: usize = 5;
    const ROUNDS: usize = 100;
    for (engine, _directory) in engines() {
        let mut session = engine.session();
        done(&mut session, "CREATE TABLE account (id int PRIMARY KEY, balance int)");
        for id in 0..ACCOUNTS {
            done(&mut session, &format!("INSERT INTO account VALUES ({id}, 100)"));
        }
        on_threads(&engine, |thread, session| {
            for round in 0..ROUNDS {
                let (from, to) = ((thread * 7 + round) % ACCOUNTS, (thread + round * 3 + 1) % ACCOUNTS);
                let transfer = [
                    format!("UPDATE account SET balance = balance - 1 WHERE id = {from}"),
                    format!("UPDATE account SET balance = balance + 1 WHERE id = {to}"),
                ];
                done(session, BEGIN);
                let failed = transfer.iter().find_map(|sql| session.execute(sql).err());
                match failed {
                    None => drop(done(session, "COMMIT")),
                    Some(SqlError { state: SqlState::DeadlockDetected, detail: Some(detail), .. }) => {
                        assert!(detail.contains("waits for"), "{detail}");
                        done(session, "ROLLBACK");
                    }
                    Some(error) => panic!("{error}"),
                }
            }
        });
        assert_eq!(number(&mut session, "SELECT sum(balance) FROM account"), (ACCOUNTS * 100).to_string());
        assert_eq!(engine.store().row_locks().len(), 0, "no lock is left");
    }
}
