// SPDX-License-Identifier: Apache-2.0
//! COPY FROM STDIN: how long it may take, how much it keeps, how it ends early.
#![allow(clippy::unwrap_used)]

mod support;

use coeval_sql::Registered;
use std::process::Command;
use std::time::Duration;
use support::{Raw, Running, error_code, kinds, message, query, status, sync, unnamed};

fn begin_copy(raw: &mut Raw, sql: &str) {
    raw.send(&query(sql));
    loop {
        match raw.next().unwrap().kind {
            'G' => return,
            'C' => {}
            other => panic!("a message of kind {other} where a COPY begins"),
        }
    }
}

fn data(text: &str) -> Vec<u8> {
    message(b'd', text.as_bytes())
}

fn done() -> Vec<u8> {
    message(b'c', &[])
}

#[test]
fn a_copy_ends_when_its_time_is_over_whatever_its_client_does() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.run("SET statement_timeout = '50ms'");
    begin_copy(&mut raw, "COPY t FROM STDIN");
    raw.send(&data("1\n"));
    let messages = raw.until_ready();
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("57014", 'I'));
    assert_eq!(messages[0].field('M').unwrap(), "canceling statement due to statement timeout");
    // What the client sends before it has read that is passed over.
    raw.run("SET statement_timeout = 0");
    raw.send_all(&[data("2\n"), done(), query("SELECT count(*) FROM t")]);
    assert_eq!(raw.until_ready()[1].texts(), ["0"]);
}

#[test]
fn a_copy_is_cancelled_while_its_client_is_silent() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.run("BEGIN");
    begin_copy(&mut raw, "COPY t FROM STDIN");
    let registry = server.database.engine().registry();
    registry.all()[0].cancel();
    let messages = raw.until_ready();
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("57014", 'E'));
    raw.run("ROLLBACK");
    // In the extended protocol, what follows is passed over up to the Sync.
    raw.send(&unnamed("COPY t FROM STDIN"));
    raw.send(&message(b'H', &[]));
    assert_eq!(['1', '2', 'G'].map(|_| raw.next().unwrap().kind), ['1', '2', 'G']);
    registry.all()[0].cancel();
    assert_eq!(raw.next().unwrap().field('C').unwrap(), "57014");
    raw.send_all(&[data("1\n"), done(), sync()]);
    assert_eq!(kinds(&raw.until_ready()), "Z");
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["0"]);
}

/// Nothing ended these but a process that opens the other end. That clients which go end them too is in `leaving.rs`.
#[test]
fn a_copy_that_waits_for_the_other_end_of_a_pipe_ends_as_any_statement_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.csv");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let pipe = path.display().to_string();
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    let registry = server.database.engine().registry();
    let runs = |session: &Registered, sql: &str| {
        let activity = session.activity();
        activity.state.name() == "active" && activity.statement == sql
    };
    for sql in [format!("COPY t FROM '{pipe}'"), format!("COPY t TO '{pipe}'")] {
        raw.run("SET statement_timeout = '50ms'");
        let messages = raw.run(&sql);
        assert_eq!((error_code(&messages).as_str(), status(&messages)), ("57014", 'I'), "{sql}");
        raw.run("SET statement_timeout = 0");
        let mut ended = server.raw();
        ended.send(&query(&sql));
        let session = loop {
            if let Some(session) = registry.all().into_iter().find(|session| runs(session, &sql)) {
                break session;
            }
            std::thread::yield_now();
        };
        session.terminate();
        assert_eq!(error_code(&ended.until_end()), "57P01", "{sql}");
    }
    // What is opened more than once cannot be a pipe.
    for sql in [format!("SELECT * FROM '{pipe}'"), format!("COPY t FROM '{pipe}' (FORMAT parquet)")] {
        assert_eq!(error_code(&raw.run(&sql)), "42809", "{sql}");
    }
    let writing = std::thread::spawn(move || std::fs::write(path, "1\n2\n").unwrap());
    let messages = raw.run(&format!("COPY t FROM '{pipe}'"));
    writing.join().unwrap();
    assert_eq!(messages[0].tag(), "COPY 2");
}

#[test]
fn each_row_is_a_message_and_what_opens_the_binary_format_comes_with_the_first() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, E'x\\ty'), (2, NULL)");
    let parts = |raw: &mut Raw, options: &str| {
        let messages = raw.run(&format!("COPY t TO STDOUT {options}"));
        let data = messages.iter().filter(|message| message.kind == 'd');
        data.map(|message| message.body.clone()).collect::<Vec<_>>()
    };
    assert_eq!(parts(&mut raw, ""), [&b"1\tx\\ty\n"[..], b"2\t\\N\n"]);
    assert_eq!(parts(&mut raw, "(HEADER)"), [&b"a\tb\n"[..], b"1\tx\\ty\n", b"2\t\\N\n"]);
    let signature = &b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"[..];
    let first = [signature, b"\0\x02\0\0\0\x04\0\0\0\x01\0\0\0\x03x\ty"].concat();
    let second = b"\0\x02\0\0\0\x04\0\0\0\x02\xff\xff\xff\xff";
    assert_eq!(parts(&mut raw, "(FORMAT binary)"), [&first[..], second, b"\xff\xff"]);
    raw.run("TRUNCATE t");
    assert_eq!(parts(&mut raw, "(FORMAT binary)"), [[signature, b"\xff\xff"].concat()]);
}

#[test]
fn a_client_may_be_silent_within_a_copy() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.run("SET idle_in_transaction_session_timeout = '50ms'");
    begin_copy(&mut raw, "BEGIN; COPY t FROM STDIN; COMMIT");
    raw.send(&data("1\n"));
    std::thread::sleep(Duration::from_millis(150));
    raw.send_all(&[data("2\n"), done()]);
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), messages[0].tag(), status(&messages)), ("CCZ", "COPY 2", 'I'));
}

/// 80 MB in rows of a kilobyte, in the order of their numbers; whether the server took all of them. It may say no
/// before it has read all.
fn copy_much(raw: &mut Raw, sql: &str, order: impl Fn(u32) -> u32) -> Vec<support::Message> {
    begin_copy(raw, sql);
    let filling = "x".repeat(1_000);
    for piece in 0..800 {
        let rows: String = (0..100).map(|row| format!("{}\t{filling}\n", order(piece * 100 + row))).collect();
        raw.send(&data(&rows));
    }
    raw.send(&done());
    raw.until_ready()
}

#[test]
fn rows_in_order_go_into_the_table_as_they_come() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    raw.run("SET coeval.copy_memory = '30MB'");
    let messages = copy_much(&mut raw, "COPY t FROM STDIN", |row| row);
    assert_eq!((kinds(&messages).as_str(), messages[0].tag()), ("CZ", "COPY 80000"));
    let seen = server.raw().run("SELECT count(*), sum(a), min(length(b)) FROM t");
    assert_eq!(seen[1].texts(), ["80000", "3199960000", "1000"]);
    let table = server.database.table("t").unwrap();
    assert_eq!(server.database.world().table(table.id()).unwrap().delta_rows(), 0, "they are chunks");
    // One that fails behind rows which are in the table takes them along.
    raw.run("CREATE TABLE u (a int PRIMARY KEY, b text)");
    let messages = copy_much(&mut raw, "COPY u FROM STDIN", |row| if row == 79_999 { 0 } else { row });
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("23505", 'I'));
    assert_eq!(raw.run("SELECT count(*) FROM u")[1].texts(), ["0"]);
}

#[test]
fn rows_that_have_to_be_kept_are_bounded() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE mixed (a int PRIMARY KEY, b text)");
    raw.run("CREATE TABLE indexed (a int PRIMARY KEY, b text)");
    raw.run("CREATE INDEX by_b ON indexed (b)");
    raw.run("SET coeval.copy_memory = '30MB'");
    for (table, distance) in [("mixed", 7), ("indexed", 1)] {
        let copy = format!("COPY {table} FROM STDIN");
        // Seven and 80,000 have no common divisor: every number comes once.
        let messages = copy_much(&mut raw, &copy, |row| row * distance % 80_000);
        assert_eq!((error_code(&messages).as_str(), status(&messages)), ("53200", 'I'), "{table}");
        assert_eq!(raw.run(&format!("SELECT count(*) FROM {table}"))[1].texts(), ["0"]);
    }
    raw.run("RESET coeval.copy_memory");
    let messages = copy_much(&mut raw, "COPY mixed FROM STDIN", |row| row * 7 % 80_000);
    assert_eq!(messages[0].tag(), "COPY 80000");
}

#[test]
fn rows_that_a_brick_table_does_not_take_are_told_with_line_and_reason() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (region text, n int) USING brick PARTITION BY (region CARDINALITY 2)");
    // The region of line 4 ends in line 5, and takes the last place.
    let lines = "a,1\nb,many\nb\n\"a\nb\",2\nb,3\nc,4\n";
    let mut copy = |max: usize| {
        begin_copy(&mut raw, &format!("COPY t FROM STDIN (FORMAT csv, MAX_REJECTED {max})"));
        raw.send_all(&[data(&lines[..9]), data(&lines[9..]), done()]);
        raw.until_ready()
    };
    let refused = copy(3);
    assert_eq!((error_code(&refused).as_str(), status(&refused)), ("22P02", 'I'));
    assert_eq!(refused[0].field('M').unwrap(), "more than 3 rows were rejected");
    assert!(refused[0].field('D').unwrap().starts_with("The first is line 2: "));
    let told = copy(4);
    assert_eq!(kinds(&told), "NNNNNCZ");
    let expected = [
        "COPY t, line 2 was rejected: invalid input syntax for type integer: \"many\"",
        "COPY t, line 3 was rejected: missing data for column \"n\"",
        "COPY t, line 6 was rejected: dimension \"region\": 'b' would be one more than its cardinality of 2",
        "COPY t, line 7 was rejected: dimension \"region\": 'c' would be one more than its cardinality of 2",
        "COPY t: 4 rows were rejected, 2 were loaded",
    ];
    for (message, expected) in told.iter().zip(expected) {
        assert_eq!(message.field('M').unwrap(), expected);
        assert_eq!(message.field('S').unwrap(), "NOTICE");
    }
    assert_eq!(raw.run("SELECT count(*), sum(n) FROM t")[1].texts(), ["2", "3"]);
}

/// How many rows were rejected was left out where as many were told one by one as a statement has to say at most. Fails if `report`
/// says it by `notice`.
#[test]
fn how_many_rows_a_brick_table_does_not_take_is_told_however_many_they_are() {
    const BAD: usize = 1_500;
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (region text, n int) USING brick PARTITION BY (region CARDINALITY 2)");
    begin_copy(&mut raw, &format!("COPY t FROM STDIN (FORMAT csv, MAX_REJECTED {BAD})"));
    raw.send_all(&[data("a,1\n"), data(&"b,many\n".repeat(BAD)), data("a,2\n"), done()]);
    let told = raw.until_ready();
    let notices: Vec<_> = told
        .iter()
        .filter(|message| message.kind == 'N')
        .map(|message| message.field('M').unwrap())
        .collect();
    assert_eq!(notices.len(), 1_001, "the first ones, and how many they are");
    assert!(notices[999].starts_with("COPY t, line 1001 was rejected"), "{}", notices[999]);
    assert_eq!(notices[1_000], "COPY t: 1500 rows were rejected, 2 were loaded");
    assert_eq!((told[1_001].kind, status(&told)), ('C', 'I'));
}

#[test]
fn what_a_change_returns_is_copied_and_a_change_that_returns_nothing_is_not_made() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    let messages = raw.run("COPY (INSERT INTO t VALUES (1, 'x'), (2, NULL) RETURNING b, a) TO STDOUT");
    let data = messages.iter().filter(|message| message.kind == 'd');
    let lines: Vec<_> = data.map(|message| message.body.clone()).collect();
    assert_eq!(lines, [&b"x\t1\n"[..], b"\\N\t2\n"]);
    assert_eq!(error_code(&raw.run("COPY (DELETE FROM t) TO STDOUT")), "0A000");
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["2"]);
}
