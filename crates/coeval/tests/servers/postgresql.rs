// SPDX-License-Identifier: Apache-2.0
//! A PostgreSQL server that is killed while sessions are at work on it.
//!
//! On a server of the test's own, if `COEVAL_TIQUE_POSTGRESQL` names the driver and PostgreSQL 15 is installed.

use crate::cluster::Cluster;
use crate::skipping::needed;
use crate::snapshots::assert_seen_as_of_one_moment;
use crate::{rows, run, session, state};
use coeval::{Database, Session, SqlState};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

/// What clients were told of their transactions, by number.
#[derive(Default)]
struct Told {
    committed: BTreeSet<u64>,
    /// 08007.
    open: BTreeSet<u64>,
    failed: BTreeSet<u64>,
}

#[track_caller]
fn cluster() -> Option<(Cluster, String)> {
    let library = std::env::var("COEVAL_TIQUE_POSTGRESQL").ok();
    needed("postgresql", library.and_then(|library| Some((Cluster::start()?, library))))
}

fn database(cluster: &Cluster, library: &str) -> Database {
    let database = Database::in_memory().unwrap();
    let address = cluster.address("postgres");
    run(
        &mut session(&database),
        &format!(
            "CREATE SERVER pg ENGINE postgresql OPTIONS (library '{library}', address '{address}'); \
             CREATE TABLE counts (k int PRIMARY KEY, n bigint) USING tique SERVER pg; \
             CREATE TABLE there (id bigint PRIMARY KEY) USING tique SERVER pg; \
             CREATE TABLE here (id bigint PRIMARY KEY); \
             INSERT INTO counts VALUES (0, 0), (1, 0), (2, 0), (3, 0)"
        ),
    );
    database
}

/// Counts one up and notes its number there, and here as well if that is odd.
fn attempt(session: &mut Session, client: u64, id: u64) -> Result<(), SqlState> {
    let own = if id % 2 == 1 { format!("INSERT INTO here VALUES ({id})") } else { "SELECT 1".to_owned() };
    let statements = [
        "BEGIN".to_owned(),
        format!("UPDATE counts SET n = n + 1 WHERE k = {client}"),
        format!("INSERT INTO there VALUES ({id})"),
        own,
        "COMMIT".to_owned(),
    ];
    let outcome = statements.iter().try_for_each(|sql| session.run(sql).map(drop));
    outcome.map_err(|error| {
        let _ = session.run("ROLLBACK");
        error.state()
    })
}

fn numbers(session: &mut Session, table: &str) -> BTreeSet<u64> {
    rows(session, &format!("SELECT id FROM {table}")).iter().map(|id| id.parse().unwrap()).collect()
}

#[test]
fn a_plan_is_the_servers() {
    let Some((cluster, library)) = cluster() else { return };
    let database = database(&cluster, &library);
    let mut session = session(&database);
    for sql in ["SELECT n FROM counts WHERE k = 2", "SELECT sum(n) FROM counts"] {
        let plan = rows(&mut session, &format!("EXPLAIN {sql}")).join("\n");
        assert!(plan.starts_with("Server pg: ") && plan.contains("Scan"), "{sql}: {plan}");
    }
}

#[test]
fn a_transaction_sees_the_server_as_it_was_beside_its_snapshot() {
    let Some((cluster, library)) = cluster() else { return };
    let database = database(&cluster, &library);
    run(
        &mut session(&database),
        "CREATE TABLE far (k int PRIMARY KEY, n int) USING tique SERVER pg; CREATE TABLE near (k int PRIMARY KEY, n int); \
         INSERT INTO far VALUES (1, 0); INSERT INTO near VALUES (1, 0)",
    );
    assert_seen_as_of_one_moment(&database);
}

/// What a role that may read one table of the server is refused.
const REFUSED: &[(&str, SqlState)] = &[
    ("SELECT * FROM hr.sal", SqlState::InsufficientPrivilege),
    ("SELECT y.* FROM counts c, hr.sal y", SqlState::InsufficientPrivilege),
    (
        "SELECT y.* FROM counts c, (WITH sal AS (SELECT 1) SELECT * FROM sal) x, hr.sal y",
        SqlState::InsufficientPrivilege,
    ),
    ("SELECT (SELECT max(pay) FROM hr.sal) FROM counts", SqlState::InsufficientPrivilege),
    ("SELECT k FROM counts UNION SELECT pay FROM hr.sal", SqlState::InsufficientPrivilege),
    // As the tables are called there.
    (
        "SELECT y.* FROM counts c, (WITH hr__sal AS (SELECT 1) SELECT * FROM hr__sal) x, hr__sal y",
        SqlState::UndefinedTable,
    ),
    ("SELECT * FROM counts, hr__sal_storage", SqlState::UndefinedTable),
    ("SELECT * FROM counts, public.hr__sal_cache", SqlState::UndefinedTable),
    ("SELECT * FROM counts, tique_commits", SqlState::UndefinedTable),
    // What the server has of its own.
    ("SELECT * FROM counts, pg_catalog.pg_authid", SqlState::InsufficientPrivilege),
    ("SELECT pg_read_file('/etc/passwd') FROM counts", SqlState::UndefinedFunction),
    ("SELECT pg_read_binary_file('/etc/passwd') FROM counts", SqlState::UndefinedFunction),
    ("SELECT pg_stat_file('/etc/passwd') FROM counts", SqlState::UndefinedFunction),
    ("SELECT lo_import('/etc/passwd') FROM counts", SqlState::UndefinedFunction),
    ("SELECT lo_export(1, '/tmp/written') FROM counts", SqlState::UndefinedFunction),
    ("SELECT query_to_xml('SELECT * FROM hr__sal', true, true, '') FROM counts", SqlState::UndefinedFunction),
    ("SELECT table_to_xml('hr__sal', true, true, '') FROM counts", SqlState::UndefinedFunction),
    ("SELECT database_to_xml(true, true, '') FROM counts", SqlState::UndefinedFunction),
    ("SELECT k FROM counts WHERE length(pg_read_file('/etc/passwd')) > 0", SqlState::UndefinedFunction),
    ("SELECT k FROM counts ORDER BY pg_read_file('/etc/passwd')", SqlState::UndefinedFunction),
    (
        "SELECT sum(n) FILTER (WHERE pg_read_file('/etc/passwd') > '') FROM counts",
        SqlState::UndefinedFunction,
    ),
    ("SELECT * FROM counts, pg_ls_dir('/')", SqlState::UndefinedFunction),
    ("UPDATE counts SET n = 1", SqlState::InsufficientPrivilege),
    ("INSERT INTO counts VALUES (9, 9)", SqlState::InsufficientPrivilege),
    ("DELETE FROM counts", SqlState::InsufficientPrivilege),
    ("CREATE TABLE mine.t (a int PRIMARY KEY) USING tique SERVER pg", SqlState::InsufficientPrivilege),
];

/// What it is refused too if it may use the server and change that table.
const REFUSED_TO_WRITERS: &[(&str, SqlState)] = &[
    ("UPDATE counts SET n = (SELECT max(pay) FROM hr.sal)", SqlState::InsufficientPrivilege),
    ("DELETE FROM counts WHERE k IN (SELECT id FROM hr.sal)", SqlState::InsufficientPrivilege),
    (
        "INSERT INTO counts VALUES (9, 9) RETURNING (SELECT max(pay) FROM hr.sal)",
        SqlState::InsufficientPrivilege,
    ),
    (
        "CREATE TABLE mine.t (a int PRIMARY KEY, b text DEFAULT pg_read_file('/etc/passwd')) USING tique SERVER pg",
        SqlState::FeatureNotSupported,
    ),
    (
        "CREATE TABLE mine.t (a int PRIMARY KEY, b int REFERENCES hr.sal (id)) USING tique SERVER pg",
        SqlState::InsufficientPrivilege,
    ),
];

/// We are the server's superuser there. A role that may read one table of it reads no other and no relation of the server's
/// own, and calls nothing that would run with our rights: whatever is not sent is refused here.
#[test]
fn a_role_with_one_table_reaches_nothing_else_of_the_server() {
    let Some((cluster, library)) = cluster() else { return };
    let database = database(&cluster, &library);
    let (mut admin, mut clerk) = (session(&database), session(&database));
    run(
        &mut admin,
        "CREATE SCHEMA hr; CREATE TABLE hr.sal (id int PRIMARY KEY, pay int) USING tique SERVER pg; \
         INSERT INTO hr.sal VALUES (1, 4711); CREATE ROLE clerk LOGIN; GRANT USAGE ON SCHEMA hr TO clerk; \
         GRANT SELECT ON counts TO clerk; CREATE SCHEMA mine AUTHORIZATION clerk",
    );
    run(&mut clerk, "SET SESSION AUTHORIZATION clerk");
    assert_eq!(rows(&mut clerk, "SELECT count(*), sum(n) FROM counts"), ["4|0"]);
    for (sql, expected) in REFUSED {
        assert_eq!(state(&mut clerk, sql), *expected, "{sql}");
    }
    // Who may use the server and change the table gets no further.
    run(&mut admin, "GRANT ALL ON counts TO clerk; GRANT USAGE ON FOREIGN SERVER pg TO clerk");
    for (sql, expected) in REFUSED_TO_WRITERS {
        assert_eq!(state(&mut clerk, sql), *expected, "{sql}");
    }
    for sql in [
        "UPDATE counts SET n = length(pg_read_file('/etc/passwd'))",
        "INSERT INTO counts VALUES (9, lo_import('/etc/passwd'))",
        "DELETE FROM counts WHERE length(query_to_xml('SELECT 1', true, true, '')::text) > 0",
    ] {
        clerk.run(sql).map(drop).expect_err(sql);
    }
    assert_eq!(rows(&mut clerk, "SELECT count(*), sum(n) FROM counts"), ["4|0"]);
}

/// PostgreSQL fills a `char(n)` up with blanks, which are nobody's here.
#[test]
fn blanks_behind_a_char_are_not_met() {
    let Some((cluster, library)) = cluster() else { return };
    let database = database(&cluster, &library);
    let mut session = session(&database);
    run(
        &mut session,
        "CREATE TABLE p (k int PRIMARY KEY, c char(4)) USING tique SERVER pg; CREATE TABLE o (k int PRIMARY KEY, c char(4)); \
         INSERT INTO p VALUES (1, 'x'); INSERT INTO o VALUES (1, 'x'); \
         PREPARE found (char(4)) AS SELECT k FROM p WHERE c = $1; \
         PREPARE changed (char(4)) AS UPDATE p SET c = $1 WHERE c IS DISTINCT FROM $1",
    );
    for (sql, expected) in [
        ("SELECT count(*) FROM o JOIN p ON o.c = p.c", "1"),
        ("SELECT count(*) FROM o JOIN p USING (k) WHERE p.c = 'x'", "1"),
        ("SELECT length(p.c) FROM o JOIN p USING (k)", "1"),
        ("SELECT p.c || '|' FROM o JOIN p USING (k)", "x|"),
        ("EXECUTE found ('x')", "1"),
    ] {
        assert_eq!(rows(&mut session, sql), [expected], "{sql}");
    }
    let tag = session.run("EXECUTE changed ('x')").unwrap().pop().unwrap().tag.to_string();
    assert_eq!(tag, "UPDATE 0");
}

#[test]
fn a_server_that_is_killed_is_opened_again_and_has_what_was_acknowledged() {
    const CLIENTS: u64 = 4;
    let Some((cluster, library)) = cluster() else { return };
    let database = database(&cluster, &library);
    let (next, is_over) = (AtomicU64::new(1), AtomicBool::new(false));
    let (tell, committed) = channel();
    let client = |client: u64| {
        let mut session = session(&database);
        let mut told = Told::default();
        while !is_over.load(Ordering::Relaxed) {
            let id = next.fetch_add(1, Ordering::Relaxed);
            let set = match attempt(&mut session, client, id) {
                Ok(()) => {
                    tell.send(()).unwrap();
                    &mut told.committed
                }
                Err(SqlState::TransactionResolutionUnknown) => &mut told.open,
                Err(
                    SqlState::ConnectionFailure
                    | SqlState::CannotConnectNow
                    // Began before the server was opened again.
                    | SqlState::SerializationFailure,
                ) => &mut told.failed,
                Err(other) => panic!("{other:?}"),
            };
            set.insert(id);
        }
        told
    };
    let mut all = Told::default();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
        for round in 0..8 {
            // Of what was told before the server was there again.
            committed.try_iter().for_each(drop);
            for _ in 0..20 {
                let one = committed.recv_timeout(Duration::from_secs(30));
                one.unwrap_or_else(|_| panic!("nobody commits in round {round}"));
            }
            cluster.kill();
            cluster.start_again();
        }
        is_over.store(true, Ordering::Relaxed);
        for client in clients {
            let told = client.join().unwrap();
            all.committed.extend(told.committed);
            all.open.extend(told.open);
            all.failed.extend(told.failed);
        }
    });
    assert!(!all.failed.is_empty(), "the server was never missed");
    let mut session = session(&database);
    let (here, there) = (numbers(&mut session, "here"), numbers(&mut session, "there"));
    let odd: BTreeSet<_> = there.iter().copied().filter(|id| id % 2 == 1).collect();
    assert_eq!(here, odd, "both or neither");
    let lost: Vec<_> = all.committed.difference(&there).collect();
    assert!(lost.is_empty(), "acknowledged, and not there: {lost:?}");
    let ghosts: Vec<_> = all.failed.intersection(&there).collect();
    assert!(ghosts.is_empty(), "said to have failed, and there: {ghosts:?}");
    assert_eq!(rows(&mut session, "SELECT sum(n) FROM counts"), [there.len().to_string()]);
}

#[test]
fn a_session_is_told_that_its_connection_is_lost_and_goes_on_behind_it() {
    let Some((cluster, library)) = cluster() else { return };
    let database = database(&cluster, &library);
    let mut session = session(&database);
    run(&mut session, "BEGIN; INSERT INTO here VALUES (1); INSERT INTO there VALUES (1); SAVEPOINT s");
    cluster.kill();
    let told = session.run("SELECT * FROM there").map(drop).unwrap_err();
    assert_eq!(told.state(), SqlState::ConnectionFailure, "{told}");
    let told = session.run("ROLLBACK TO s").map(drop).unwrap_err();
    assert_eq!(told.state(), SqlState::ConnectionFailure, "{told}");
    run(&mut session, "ROLLBACK");
    let told = session.run("SELECT * FROM there").map(drop).unwrap_err();
    assert_eq!(told.state(), SqlState::ConnectionFailure, "{told}");
    assert!(rows(&mut session, "SELECT * FROM here").is_empty());
    cluster.start_again();
    assert!(rows(&mut session, "SELECT * FROM there").is_empty());
    run(&mut session, "INSERT INTO there VALUES (2)");
    assert_eq!(rows(&mut session, "SELECT * FROM there"), ["2"]);
}
