// SPDX-License-Identifier: Apache-2.0
//! The protocol, message by message.
#![allow(clippy::unwrap_used)]

mod support;

use support::{
    Running, bind, bind_as, close, describe, error_code, execute, kinds, message, parse, query, status, sync,
    unnamed,
};

#[test]
fn a_session_begins_with_what_drivers_look_for() {
    let server = Running::new();
    let mut raw = server.unopened();
    raw.send_startup(&[
        ("user", "tester"),
        ("database", "anything"),
        ("application_name", "the test"),
        ("client_encoding", "UTF8"),
        ("DateStyle", "ISO"),
        ("TimeZone", "Europe/Berlin"),
        ("extra_float_digits", "2"),
    ]);
    let messages = raw.until_ready();
    let told: Vec<(String, String)> = messages
        .iter()
        .filter(|message| message.kind == 'S')
        .map(|message| {
            let mut parts = message.body.split(|&byte| byte == 0);
            let mut part = || String::from_utf8(parts.next().unwrap().to_vec()).unwrap();
            (part(), part())
        })
        .collect();
    let value = |name: &str| told.iter().find(|(told, _)| told == name).map(|(_, value)| value.as_str());
    assert_eq!(value("server_version").map(|version| &version[..3]), Some("15."));
    assert_eq!(value("client_encoding"), Some("UTF8"));
    assert_eq!(value("server_encoding"), Some("UTF8"));
    assert_eq!(value("integer_datetimes"), Some("on"));
    assert_eq!(value("standard_conforming_strings"), Some("on"));
    assert_eq!(value("TimeZone"), Some("Europe/Berlin"));
    assert_eq!(value("application_name"), Some("the test"));
    assert_eq!(value("session_authorization"), Some("tester"));
    assert!(value("DateStyle").unwrap().starts_with("ISO"));
    assert_eq!(messages[0].kind, 'R');
    assert_eq!(kinds(&messages[messages.len() - 2..]), "KZ");
    assert_eq!(status(&messages), 'I');
    // A change is told before the client's turn, once.
    let messages = raw.run("SET TimeZone = 'UTC'");
    assert_eq!(kinds(&messages), "CSZ");
    assert_eq!(messages[1].body, b"TimeZone\0UTC\0");
    assert_eq!(kinds(&raw.run("SET extra_float_digits = 3")), "CZ");
}

#[test]
fn several_statements_of_a_text_are_one_transaction() {
    let server = Running::new();
    let mut raw = server.raw();
    let messages = raw
        .run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1), (2); SELECT a FROM t ORDER BY a");
    assert_eq!(kinds(&messages), "CCTDDCZ");
    assert_eq!(messages[5].tag(), "SELECT 2");
    // The second statement fails: the first has no effect, the third does not run.
    let messages = raw.run("INSERT INTO t VALUES (3); INSERT INTO t VALUES (1); INSERT INTO t VALUES (4)");
    assert_eq!(kinds(&messages), "CEZ");
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("23505", 'I'));
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["2"]);
    // BEGIN takes in what came before, and leaves the block open.
    let messages = raw.run("INSERT INTO t VALUES (3); BEGIN; INSERT INTO t VALUES (4)");
    assert_eq!((kinds(&messages).as_str(), status(&messages)), ("CCCZ", 'T'));
    assert_eq!(status(&raw.run("ROLLBACK")), 'I');
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["2"]);
    // COMMIT in the middle keeps what came before it, whatever follows.
    let messages = raw.run("INSERT INTO t VALUES (3); COMMIT; INSERT INTO t VALUES (1)");
    assert_eq!(kinds(&messages), "CNCEZ");
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["3"]);
}

#[test]
fn a_failed_block_refuses_all_but_its_end() {
    let server = Running::new();
    let mut raw = server.raw();
    assert_eq!(status(&raw.run("BEGIN")), 'T');
    let messages = raw.run("SELECT 1 / 0");
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("22012", 'E'));
    let messages = raw.run("SELECT 1");
    assert_eq!((error_code(&messages).as_str(), status(&messages)), ("25P02", 'E'));
    let messages = raw.run("COMMIT");
    assert_eq!((messages[0].tag(), status(&messages)), ("ROLLBACK", 'I'));
}

#[test]
fn a_block_that_is_there_or_not_is_warned_of() {
    let server = Running::new();
    let mut raw = server.raw();
    let messages = raw.run("COMMIT");
    assert_eq!((kinds(&messages).as_str(), messages[0].field('C').as_deref()), ("NCZ", Some("25P01")));
    assert_eq!(messages[0].field('S').as_deref(), Some("WARNING"));
    assert_eq!(kinds(&raw.run("BEGIN")), "CZ");
    let messages = raw.run("BEGIN");
    assert_eq!((kinds(&messages).as_str(), messages[0].field('C').as_deref()), ("NCZ", Some("25001")));
    assert_eq!(kinds(&raw.run("ROLLBACK")), "CZ");
}

#[test]
fn what_is_there_already_or_not_is_noticed() {
    let server = Running::new();
    let mut raw = server.raw();
    let mut notice = |sql: &str| {
        let messages = raw.run(sql);
        assert_eq!(
            (kinds(&messages).as_str(), messages[0].field('S').as_deref()),
            ("NCZ", Some("NOTICE")),
            "{sql}"
        );
        (messages[0].field('C').unwrap(), messages[0].field('M').unwrap())
    };
    let is = |code: &str, message: &str| (code.to_owned(), message.to_owned());
    let missing = is("00000", "table \"t\" does not exist, skipping");
    assert_eq!(notice("DROP TABLE IF EXISTS t"), missing);
    assert_eq!(notice("DROP SCHEMA IF EXISTS s").1, "schema \"s\" does not exist, skipping");
    assert_eq!(
        notice("ALTER TABLE IF EXISTS t ADD COLUMN a int").1,
        "relation \"t\" does not exist, skipping"
    );
    assert_eq!(
        kinds(&server.raw().run("CREATE TABLE t (a int); CREATE INDEX i ON t (a); CREATE SEQUENCE s")),
        "CCCZ"
    );
    let there = |name: &str| is("42P07", &format!("relation \"{name}\" already exists, skipping"));
    assert_eq!(notice("CREATE TABLE IF NOT EXISTS t (a int)"), there("t"));
    assert_eq!(notice("CREATE INDEX IF NOT EXISTS i ON t (a)"), there("i"));
    assert_eq!(notice("CREATE SEQUENCE IF NOT EXISTS s"), there("s"));
    assert_eq!(notice("CREATE SCHEMA IF NOT EXISTS public").0, "42P06");
    let column = notice("ALTER TABLE t ADD COLUMN IF NOT EXISTS a int");
    assert_eq!(column, is("42701", "column \"a\" of relation \"t\" already exists, skipping"));
    let column = notice("ALTER TABLE t DROP COLUMN IF EXISTS b");
    assert_eq!(column, is("00000", "column \"b\" of relation \"t\" does not exist, skipping"));
}

#[test]
fn errors_tell_position_detail_and_hint() {
    let server = Running::new();
    let mut raw = server.raw();
    let messages = raw.run("SELECT 1 +");
    assert_eq!(error_code(&messages), "42601");
    let messages = raw.run("SELECT nothing FROM information_schema.tables");
    assert_eq!((error_code(&messages).as_str(), messages[0].field('P').as_deref()), ("42703", Some("8")));
    assert_eq!(messages[0].field('S').as_deref(), Some("ERROR"));
    raw.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    let messages = raw.run("INSERT INTO t VALUES (1)");
    assert_eq!(messages[0].field('D').as_deref(), Some("Key (a)=(1) already exists."));
    raw.run("CREATE SERVER wh ENGINE datafusion");
    raw.run("CREATE TABLE u (a int PRIMARY KEY) USING tique SERVER wh");
    let statements = [
        "INSERT INTO _ (a, b) VALUES (1, 2)",
        "UPDATE _ SET\nb = 2",
        "INSERT INTO _ VALUES (1) ON CONFLICT (b) DO NOTHING",
    ];
    for (table, statement) in ["t", "u"].into_iter().flat_map(|table| statements.map(|one| (table, one))) {
        let sql = statement.replace('_', table);
        let messages = raw.run(&sql);
        assert_eq!(error_code(&messages), "42703", "{sql}");
        let said = messages[0].field('M').unwrap();
        assert_eq!(said, format!("column \"b\" of relation \"{table}\" does not exist"));
        let place = (sql.find('b').unwrap() + 1).to_string();
        assert_eq!(messages[0].field('P'), Some(place), "{sql}");
    }
}

#[test]
fn mistakes_in_clauses_are_told_with_their_places() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE w (id int PRIMARY KEY, g text, at date)");
    // What is wrong begins behind the bracket, where PostgreSQL 15 has it, too.
    for (code, statement) in [
        ("42P10", "SELECT id FROM w GROUP BY [9"),
        ("42P10", "SELECT id FROM w ORDER BY [5"),
        ("42P10", "SELECT DISTINCT g FROM w ORDER BY [at"),
        ("42P10", "SELECT DISTINCT ON ([g) id FROM w ORDER BY at, g"),
        ("42803", "SELECT sum([count(*)) FROM w"),
        ("42803", "SELECT id FROM w WHERE [count(*) > 1"),
        ("42803", "SELECT 1 FROM w JOIN w v ON [count(*) > 1"),
        ("42803", "SELECT g FROM w GROUP BY [sum(id)"),
        ("42803", "SELECT g, [id, count(*) FROM w GROUP BY g"),
        ("42803", "SELECT g, count(*) FROM w GROUP BY g ORDER BY [at"),
        ("42803", "SELECT [g FROM w HAVING g > ''"),
        ("42803", "SELECT count(*), [w.g FROM w"),
        ("42P20", "SELECT id FROM w WHERE [row_number() OVER (ORDER BY id) = 1"),
        ("42P20", "SELECT g FROM w GROUP BY g HAVING [row_number() OVER () = 1"),
        ("42P20", "SELECT sum([row_number() OVER ()) FROM w"),
        ("42601", "SELECT 1, 2 UNION SELECT [1"),
        ("42601", "SELECT g FROM w EXCEPT SELECT [g, id FROM w"),
        ("42601", "VALUES (1, 2), ([3)"),
        ("42712", "WITH a AS (SELECT 1), [a AS (SELECT 2) SELECT * FROM a"),
        ("42809", "SELECT [rank() FROM w"),
        ("42883", "SELECT upper(g), [nofunction(id) FROM w"),
        ("42883", "SELECT id FROM w WHERE id > 1 AND [nofunction(g) = 1"),
        ("42883", "SELECT [sum(g) FROM w"),
        ("42804", "SELECT NOT [id FROM w"),
        ("42804", "SELECT [id AND true FROM w"),
        ("42804", "SELECT id FROM w WHERE [g"),
        // A table that is not there comes first.
        ("42P01", "SELECT id FROM [nowhere WHERE count(*) > 1"),
    ] {
        let place = (statement.find('[').unwrap() + 1).to_string();
        let sql = statement.replace('[', "");
        let messages = raw.run(&sql);
        assert_eq!(error_code(&messages), code, "{sql}");
        if code != "42P01" {
            assert_eq!(messages[0].field('P'), Some(place), "{sql}");
        }
    }
    // What is found by a table's primary key is no mistake.
    let messages = raw.run("SELECT id, g, count(*) FROM w GROUP BY id");
    assert!(messages.iter().all(|message| message.kind != 'E'), "{messages:?}");
}

#[test]
fn violated_constraints_are_named_in_fields_of_their_own() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE SCHEMA s; CREATE TABLE s.parent (a int PRIMARY KEY)");
    raw.run(
        "CREATE TABLE s.t (a int PRIMARY KEY, b int NOT NULL, c int CONSTRAINT positive CHECK (c > 0), \
         d int CONSTRAINT known REFERENCES s.parent, e int CONSTRAINT once UNIQUE)",
    );
    raw.run("INSERT INTO s.parent VALUES (1); INSERT INTO s.t VALUES (1, 1, 1, 1, 1)");
    let cases = [
        ("INSERT INTO s.t VALUES (1, 1)", "23505", None, Some("t_pkey")),
        ("INSERT INTO s.t VALUES (2, 1, 1, 1, 1)", "23505", None, Some("once")),
        ("INSERT INTO s.t VALUES (2, NULL)", "23502", Some("b"), None),
        ("INSERT INTO s.t VALUES (2, 1, 0)", "23514", None, Some("positive")),
        ("INSERT INTO s.t VALUES (2, 1, 1, 7)", "23503", None, Some("known")),
        ("DELETE FROM s.parent", "23503", None, Some("known")),
        ("ALTER TABLE s.t ALTER COLUMN c SET NOT NULL", "23502", Some("c"), None),
        ("ALTER TABLE s.t ADD COLUMN f int NOT NULL", "23502", Some("f"), None),
        ("ALTER TABLE s.t ADD CONSTRAINT high CHECK (a > 5)", "23514", None, Some("high")),
        (
            "ALTER TABLE s.t ADD CONSTRAINT kept FOREIGN KEY (a) REFERENCES s.parent",
            "23503",
            None,
            Some("kept"),
        ),
    ];
    raw.run("INSERT INTO s.t VALUES (9, 1)");
    for (sql, code, column, constraint) in cases {
        let messages = raw.run(sql);
        assert_eq!(error_code(&messages), code, "{sql}");
        let fields = ['s', 't', 'c', 'n'].map(|field| messages[0].field(field));
        let fields = fields.each_ref().map(Option::as_deref);
        assert_eq!(fields, [Some("s"), Some("t"), column, constraint], "{sql}");
    }
    let messages = raw.run("SELECT 1 / 0");
    assert_eq!(messages.iter().find(|message| message.kind == 'E').unwrap().field('t'), None);
}

#[test]
fn an_empty_statement_has_an_answer_of_its_own() {
    let server = Running::new();
    let mut raw = server.raw();
    assert_eq!(kinds(&raw.run("")), "IZ");
    assert_eq!(kinds(&raw.run(" ; -- nothing\n")), "IZ");
    raw.send_all(&[parse("", "", &[]), bind("", "", &[]), describe('P', ""), execute("", 0), sync()]);
    assert_eq!(kinds(&raw.until_ready()), "12nIZ");
}

#[test]
fn a_statement_is_described_before_it_runs() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY, b numeric(10, 2), c varchar(20), d timestamptz)");
    let types = |sql: &str, raw: &mut support::Raw| {
        raw.send_all(&[parse("", sql, &[]), describe('S', ""), sync()]);
        let messages = raw.until_ready();
        let parameters =
            messages.iter().find(|message| message.kind == 't').unwrap_or_else(|| panic!("{messages:?}"));
        let parameters: Vec<u32> =
            parameters.body[2..].chunks(4).map(|oid| u32::from_be_bytes(oid.try_into().unwrap())).collect();
        let columns = messages.iter().find(|message| message.kind == 'T').map(|message| {
            let mut rest = &message.body[2..];
            let mut columns = Vec::new();
            while !rest.is_empty() {
                let end = rest.iter().position(|&byte| byte == 0).unwrap();
                let name = String::from_utf8(rest[..end].to_vec()).unwrap();
                let oid = u32::from_be_bytes(rest[end + 7..end + 11].try_into().unwrap());
                columns.push((name, oid));
                rest = &rest[end + 19..];
            }
            columns
        });
        (parameters, columns)
    };
    let named = |columns: &[(&str, u32)]| {
        Some(columns.iter().map(|(name, oid)| ((*name).to_owned(), *oid)).collect::<Vec<_>>())
    };
    assert_eq!(types("INSERT INTO t VALUES ($1, $2, $3, $4)", &mut raw), (vec![23, 1700, 25, 1184], None));
    let returned = types("INSERT INTO t VALUES ($1, $2, $3, $4) RETURNING a, b", &mut raw).1;
    assert_eq!(returned, named(&[("a", 23), ("b", 1700)]));
    let selected = types("SELECT a, d FROM t WHERE a = $1", &mut raw);
    assert_eq!(selected, (vec![23], named(&[("a", 23), ("d", 1184)])));
    let analytical = types("SELECT b, count(*) AS n FROM t WHERE d > $1 GROUP BY b", &mut raw);
    assert_eq!(analytical, (vec![1184], named(&[("b", 1700), ("n", 20)])));
    let general =
        types("UPDATE t SET b = $1 FROM (SELECT 1 AS one) AS s WHERE a = one RETURNING a, one", &mut raw);
    assert_eq!(general.1, named(&[("a", 23), ("one", 23)]));
    let locking = types("SELECT a FROM t ORDER BY a FOR UPDATE", &mut raw).1;
    assert_eq!(locking, named(&[("a", 23)]));
    assert_eq!(types("SHOW TimeZone", &mut raw).1, named(&[("TimeZone", 25)]));
    assert_eq!(types("EXPLAIN SELECT 1", &mut raw).1, named(&[("QUERY PLAN", 25)]));
    assert_eq!(types("BEGIN", &mut raw), (vec![], None));
}

#[test]
fn a_portal_gives_its_rows_in_parts() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 5)");
    raw.run("BEGIN");
    let parts = |sql: &str, raw: &mut support::Raw| {
        raw.send_all(&[parse("s", sql, &[]), bind("p", "s", &[]), execute("p", 2), sync()]);
        let first = kinds(&raw.until_ready());
        raw.send_all(&[execute("p", 2), sync()]);
        let second = kinds(&raw.until_ready());
        raw.send_all(&[execute("p", 2), execute("p", 2), close('P', "p"), close('S', "s"), sync()]);
        let last = raw.until_ready();
        (first, second, kinds(&last), last[1].tag().to_owned())
    };
    let expected = ("12DDsZ".to_owned(), "DDsZ".to_owned(), "DCC33Z".to_owned(), "SELECT 1".to_owned());
    assert_eq!(parts("SELECT a FROM t ORDER BY a", &mut raw), expected);
    assert_eq!(parts("SELECT a + 0 FROM t ORDER BY a + 0", &mut raw), expected);
    assert_eq!(parts("SELECT a FROM t WHERE a <= 5 ORDER BY a FOR UPDATE", &mut raw), expected);
    raw.run("COMMIT");
    raw.send_all(&[execute("p", 2), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "34000");
}

#[test]
fn a_row_limit_does_not_suspend_a_statement_without_rows() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    for sql in ["BEGIN", "INSERT INTO t VALUES (1)", "CREATE TABLE u (a int)", "COMMIT"] {
        raw.send_all(&[parse("", sql, &[]), bind("", "", &[]), describe('P', ""), execute("", 1), sync()]);
        assert_eq!(kinds(&raw.until_ready()), "12nCZ", "{sql}");
    }
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["1"]);
}

#[test]
fn messages_before_a_sync_are_one_transaction() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    let insert = |value: &'static str| [bind("", "s", &[Some(value)]), execute("", 0)].concat();
    raw.send_all(&[parse("s", "INSERT INTO t VALUES ($1)", &[]), insert("1"), insert("2"), sync()]);
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), status(&messages)), ("12C2CZ", 'I'));
    // The error takes along what came before it, and everything up to the Sync is passed over.
    raw.send_all(&[insert("3"), insert("1"), insert("4"), sync(), insert("5"), sync()]);
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), error_code(&messages).as_str()), ("2C2EZ", "23505"));
    assert_eq!(kinds(&raw.until_ready()), "2CZ");
    let rows = raw.run("SELECT a FROM t ORDER BY a");
    let rows: Vec<_> =
        rows.iter().filter(|message| message.kind == 'D').flat_map(|row| row.texts()).collect();
    assert_eq!(rows, ["1", "2", "5"]);
}

#[test]
fn begin_in_a_pipeline_opens_a_block_that_stays_open() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY)");
    raw.send_all(&[unnamed("BEGIN"), unnamed("INSERT INTO t VALUES (1)"), sync()]);
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), status(&messages)), ("12C12CZ", 'T'));
    raw.send_all(&[unnamed("ROLLBACK"), sync()]);
    assert_eq!(status(&raw.until_ready()), 'I');
    raw.send_all(&[unnamed("INSERT INTO t VALUES (2)"), unnamed("BEGIN"), sync()]);
    assert_eq!(status(&raw.until_ready()), 'T');
    raw.send_all(&[unnamed("COMMIT"), sync()]);
    assert_eq!(status(&raw.until_ready()), 'I');
    assert_eq!(raw.run("SELECT a FROM t")[1].texts(), ["2"]);
}

#[test]
fn parameters_of_other_number_types_fit_the_columns() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY, b smallint, c decimal(10, 2), d bigint, e real)");
    let (int8, float8, numeric) = (20, 701, 1700);
    let eight = |value: i64| value.to_be_bytes().to_vec();
    let float = |value: f64| value.to_be_bytes().to_vec();
    // 12.345 as PostgreSQL's numeric.
    let decimal: Vec<u8> = [2_u16, 0, 0, 3, 12, 3450].iter().flat_map(|v| v.to_be_bytes()).collect();
    let values = [eight(7), eight(8), decimal, float(9.0), float(1.5)];
    let values: Vec<Option<&[u8]>> = values.iter().map(|value| Some(value.as_slice())).collect();
    raw.send_all(&[
        parse("", "INSERT INTO t VALUES ($1, $2, $3, $4, $5)", &[int8, int8, numeric, float8, float8]),
        bind_as("", "", &values, 1, 0),
        execute("", 0),
        sync(),
    ]);
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "12CZ", "{messages:?}");
    assert_eq!(raw.run("SELECT * FROM t")[1].texts(), ["7", "8", "12.35", "9", "1.5"]);
    // A wider number than the column's is no error in a comparison: it just finds nothing.
    for (value, found) in [(7, 1), (1 << 40, 0)] {
        let value = eight(value);
        raw.send_all(&[
            parse("", "SELECT a FROM t WHERE a = $1", &[int8]),
            bind_as("", "", &[Some(&value)], 1, 1),
            execute("", 0),
            sync(),
        ]);
        let messages = raw.until_ready();
        let rows = messages.iter().filter(|message| message.kind == 'D').count();
        assert_eq!(rows, found, "{messages:?}");
    }
}

#[test]
fn bad_parameters_are_refused_and_the_session_goes_on() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY, b text)");
    let insert = parse("", "INSERT INTO t VALUES ($1, $2)", &[23, 25]);
    let cases: [(Vec<u8>, &str); 5] = [
        (bind_as("", "", &[Some(&[0, 1]), Some(b"x")], 1, 0), "22P03"),
        (bind_as("", "", &[Some(&[0, 0, 0, 1]), Some(b"\xff")], 1, 0), "22021"),
        (bind("", "", &[Some("one"), Some("x")]), "22P02"),
        (bind("", "", &[Some("1")]), "08P01"),
        (bind_as("", "", &[Some(&[0, 0, 0, 1]), Some(b"x")], 7, 0), "22023"),
    ];
    for (bind, code) in cases {
        raw.send_all(&[insert.clone(), bind, execute("", 0), sync()]);
        let messages = raw.until_ready();
        assert_eq!((kinds(&messages).as_str(), error_code(&messages).as_str()), ("1EZ", code));
    }
    assert_eq!(raw.run("SELECT count(*) FROM t")[1].texts(), ["0"]);
}

#[test]
fn names_of_statements_and_portals_are_kept_apart() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send_all(&[parse("s", "SELECT 1", &[]), parse("s", "SELECT 2", &[]), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "42P05");
    raw.send_all(&[bind("", "other", &[]), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "26000");
    raw.send_all(&[describe('P', "p"), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "34000");
    raw.send_all(&[
        close('S', "s"),
        parse("s", "SELECT 2", &[]),
        bind("p", "s", &[]),
        bind("p", "s", &[]),
        sync(),
    ]);
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), error_code(&messages).as_str()), ("312EZ", "42P03"));
    raw.send_all(&[parse("", "SELECT 1; SELECT 2", &[]), sync()]);
    assert_eq!(error_code(&raw.until_ready()), "42601");
}

#[test]
fn flush_brings_answers_before_the_sync() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.send_all(&[parse("", "SELECT 1", &[]), message(b'H', &[])]);
    assert_eq!(raw.next().unwrap().kind, '1');
    raw.send_all(&[bind("", "", &[]), execute("", 0), message(b'H', &[])]);
    assert_eq!(
        [raw.next().unwrap().kind, raw.next().unwrap().kind, raw.next().unwrap().kind],
        ['2', 'D', 'C']
    );
    raw.send(&sync());
    assert_eq!(kinds(&raw.until_ready()), "Z");
    raw.send(&query("SELECT 1"));
    assert_eq!(kinds(&raw.until_ready()), "TDCZ");
}

/// The error of a message list.
fn refusal(messages: &[support::Message]) -> (String, String) {
    let error = messages.iter().find(|message| message.kind == 'E').unwrap();
    (error.field('C').unwrap(), error.field('M').unwrap())
}

#[test]
fn portals_have_a_bound_for_a_session_and_one_for_all() {
    const EACH: usize = 1_000;
    const ALL: usize = 100_000;
    let server = Running::new();
    let opened = |count: usize| {
        let mut raw = server.raw();
        raw.run("BEGIN");
        let binds = (0..count).map(|number| bind(&format!("p{number}"), "s", &[]));
        let messages: Vec<_> =
            [parse("s", "SELECT 1", &[])].into_iter().chain(binds).chain([sync()]).collect();
        raw.send_all(&messages);
        let answers = raw.until_ready();
        (raw, answers)
    };
    let (one, answers) = opened(EACH + 1);
    let expected = "too many portals: a session may have 1000".to_owned();
    assert_eq!(refusal(&answers), ("54000".to_owned(), expected));
    drop(one);
    // The session has ended soon.
    while server.database.engine().registry().count() > 0 {
        std::thread::yield_now();
    }
    let all: Vec<_> = (0..ALL / EACH).map(|_| opened(EACH)).collect();
    assert!(all.iter().all(|(_, answers)| answers.iter().all(|message| message.kind != 'E')));
    let (_raw, answers) = opened(1);
    let expected = "too many portals: all sessions together may have 100000".to_owned();
    assert_eq!(refusal(&answers), ("53200".to_owned(), expected));
    drop(all);
    while server.database.engine().registry().count() > 1 {
        std::thread::yield_now();
    }
    let (_raw, answers) = opened(1);
    assert_eq!(kinds(&answers), "12Z");
}
