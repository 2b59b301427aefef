// SPDX-License-Identifier: Apache-2.0
//! What sessions see of each other: who waits for whom, what all do, what indexes are used for.
#![allow(clippy::unwrap_used)]

mod support;

use coeval_server::{Roles, ServerOptions};
use support::{Raw, Running, error_code, query};

fn texts(raw: &mut Raw, sql: &str) -> Vec<Vec<String>> {
    let messages = raw.run(sql);
    messages.iter().filter(|message| message.kind == 'D').map(|row| row.texts()).collect()
}

fn pid(raw: &mut Raw) -> String {
    texts(raw, "SELECT pg_backend_pid()").remove(0).remove(0)
}

/// The waits, once there are as many.
fn waits(raw: &mut Raw, count: usize) -> Vec<Vec<String>> {
    let sql =
        "SELECT pid, blocked_by, kind, coalesce(table_name, '-'), coalesce(key, '-'), wanted, held, granted
        FROM coeval_lock_waits ORDER BY pid, granted DESC";
    for _ in 0..2_000 {
        let found = texts(raw, sql);
        if found.len() == count {
            return found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    panic!("{:?}", texts(raw, sql));
}

fn server() -> Running {
    Running::with(ServerOptions { roles: Roles::new(), ..ServerOptions::default() })
}

#[test]
fn who_waits_for_whom_is_a_row_for_rows_and_advisory_locks() {
    let server = server();
    let (mut watcher, mut one, mut two, mut three) = (server.raw(), server.raw(), server.raw(), server.raw());
    watcher.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int)");
    watcher.run("INSERT INTO accounts VALUES (1, 10), (2, 20)");
    assert!(waits(&mut watcher, 0).is_empty());
    let pids = [pid(&mut one), pid(&mut two), pid(&mut three)];
    one.run("BEGIN; UPDATE accounts SET balance = 0 WHERE id = 1; SELECT pg_advisory_lock(7)");
    two.run("BEGIN");
    two.send(&query("DELETE FROM accounts WHERE id = 1"));
    waits(&mut watcher, 1);
    three.send(&query("SELECT pg_advisory_lock(7)"));
    let found = waits(&mut watcher, 2);
    let row = |waiter: &str, blocker: &str, rest: [&str; 6]| {
        [&[waiter, blocker][..], &rest].concat().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let expected = [
        row(&pids[1], &pids[0], ["row", "accounts", "(id)=(1)", "UPDATE", "NO KEY UPDATE", "t"]),
        row(&pids[2], &pids[0], ["advisory", "-", "7", "EXCLUSIVE", "EXCLUSIVE", "t"]),
    ];
    assert_eq!(found, expected);
    // Who may not read the table is told that somebody waits, and not for which row.
    watcher.run("CREATE ROLE stranger; SET ROLE stranger");
    assert_eq!(waits(&mut watcher, 2)[0][2..5], ["row", "-", "-"]);
    watcher.run("RESET ROLE");
    one.run("ROLLBACK; SELECT pg_advisory_unlock(7)");
    two.until_ready();
    three.until_ready();
    assert!(waits(&mut watcher, 0).is_empty());
    // A second one in the queue waits for the first one, too.
    two.run("ROLLBACK; BEGIN; UPDATE accounts SET balance = 1 WHERE id = 2");
    one.send(&query("UPDATE accounts SET balance = 2 WHERE id = 2"));
    waits(&mut watcher, 1);
    three.send(&query("UPDATE accounts SET balance = 3 WHERE id = 2"));
    let found = waits(&mut watcher, 3);
    let of_three: Vec<_> = found.iter().filter(|row| row[0] == pids[2]).collect();
    assert_eq!((&of_three[0][1], &*of_three[0][7]), (&pids[1], "t"));
    assert_eq!((&of_three[1][1], &*of_three[1][7]), (&pids[0], "f"));
    two.run("ROLLBACK");
    one.until_ready();
    three.until_ready();
}

#[test]
fn pg_blocking_pids_gives_those_who_are_waited_for() {
    let server = server();
    let (mut watcher, mut one, mut two, mut three) = (server.raw(), server.raw(), server.raw(), server.raw());
    watcher.run("CREATE TABLE accounts (id int PRIMARY KEY, balance int)");
    watcher.run("INSERT INTO accounts VALUES (1, 10)");
    let pids = [pid(&mut one), pid(&mut two), pid(&mut three)];
    let blockers = |raw: &mut Raw| {
        pids.each_ref().map(|pid| texts(raw, &format!("SELECT pg_blocking_pids({pid})")).remove(0).remove(0))
    };
    one.run("BEGIN; UPDATE accounts SET balance = 0 WHERE id = 1; SELECT pg_advisory_lock(7)");
    two.send(&query("UPDATE accounts SET balance = 1 WHERE id = 1"));
    waits(&mut watcher, 1);
    three.send(&query("UPDATE accounts SET balance = 2 WHERE id = 1"));
    waits(&mut watcher, 3);
    let of_one = format!("{{{}}}", pids[0]);
    let of_both = format!("{{{},{}}}", pids[0], pids[1]);
    assert_eq!(blockers(&mut watcher), ["{}".to_owned(), of_one.clone(), of_both]);
    let waiting =
        format!("SELECT count(*) FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid))", pids[0]);
    assert_eq!(texts(&mut watcher, &waiting), [["2"]]);
    one.run("ROLLBACK");
    two.until_ready();
    three.until_ready();
    two.send(&query("SELECT pg_advisory_lock(7)"));
    waits(&mut watcher, 1);
    assert_eq!(blockers(&mut watcher), ["{}".to_owned(), of_one, "{}".to_owned()]);
    one.run("SELECT pg_advisory_unlock(7)");
    two.until_ready();
    assert_eq!(blockers(&mut watcher), ["{}"; 3]);
}

#[test]
fn members_of_pg_monitor_see_what_all_do() {
    let server = server();
    let (mut admin, mut other) = (server.raw(), server.raw());
    other.run("SELECT 'secret of another'");
    admin.run("CREATE ROLE clerk CREATEROLE");
    let seen = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%secret of another%' AND pid <> pg_backend_pid()";
    let as_clerk = |admin: &mut Raw| {
        admin.run("SET ROLE clerk");
        let found = texts(admin, seen).remove(0).remove(0);
        admin.run("RESET ROLE");
        found
    };
    assert_eq!(as_clerk(&mut admin), "0");
    // Nobody but a superuser gives it, and nobody makes a role of its kind.
    admin.run("SET ROLE clerk");
    admin.send(&query("GRANT pg_monitor TO clerk"));
    assert_eq!(error_code(&admin.until_ready()), "42501");
    admin.run("RESET ROLE; GRANT pg_monitor TO clerk");
    for name in ["pg_monitor", "pg_other"] {
        admin.send(&query(&format!("CREATE ROLE {name}")));
        assert_eq!(error_code(&admin.until_ready()), "42939");
    }
    assert_eq!(as_clerk(&mut admin), "1");
    let engine = server.database.engine();
    assert_eq!([engine.is_monitor("clerk"), engine.is_monitor("nobody")], [Some(true), None]);
    admin.run("REVOKE pg_monitor FROM clerk");
    assert_eq!(engine.is_monitor("clerk"), Some(false));
}

#[test]
fn walks_of_indexes_are_counted() {
    let server = server();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (id int PRIMARY KEY, a int, b int)");
    raw.run("CREATE INDEX used ON t (a); CREATE INDEX idle ON t (b)");
    raw.run("INSERT INTO t SELECT n, n, n FROM generate_series(1, 1000) g(n)");
    for _ in 0..3 {
        raw.run("SELECT * FROM t WHERE a = 5");
    }
    let counts = "SELECT indexrelname, coalesce(idx_scan::text, '-') FROM pg_stat_user_indexes ORDER BY 1";
    let counts: Vec<String> = texts(&mut raw, counts).iter().map(|row| row.join(" ")).collect();
    assert_eq!(counts, ["idle 0", "t_pkey -", "used 3"]);
}

#[test]
fn brick_tables_say_how_they_are_cut_and_memory_what_it_is_for() {
    let server = server();
    let mut raw = server.raw();
    raw.run(
        "CREATE TABLE events (region text, day date, n int, at timestamptz, likes int) USING brick PARTITION BY
         (region CARDINALITY 64 RANGE SIZE 4, day RANGE SIZE '7 days' FROM '2026-01-01', n CARDINALITY 100 FROM 5,
          at RANGE SIZE '1 day')",
    );
    raw.run("ALTER TABLE events SET RETENTION '400 days' ON day");
    let dimensions = "SELECT column_name, range_size, coalesce(origin, '-'), coalesce(retention::text, '-')
        FROM coeval_dimensions WHERE table_name = 'events'";
    let found: Vec<String> = texts(&mut raw, dimensions).iter().map(|row| row.join(" ")).collect();
    assert_eq!(
        found,
        ["region 4 - -", "day 7 2026-01-01 400 days", "n 1 5 -", "at 86400000000 1970-01-01 00:00:00+00 -"]
    );
    raw.run("INSERT INTO events SELECT 'r', '2026-01-01', 7, '2026-01-01', 1 FROM generate_series(1, 1000)");
    let bytes = "SELECT used_for, bytes > 0 FROM coeval_memory WHERE used_for IN ('bricks', 'the process') ORDER BY 1";
    assert_eq!(texts(&mut raw, bytes), [["bricks", "t"], ["the process", "t"]]);
}
