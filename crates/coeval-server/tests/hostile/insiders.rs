// SPDX-License-Identifier: Apache-2.0
//! Clients that know a password and want what is not theirs: a role with few rights, and the role of one tenant in the
//! schema of another. Each attempt is refused, and after each somebody else is answered within a bound.

use super::support::{Raw, Running, error_code, kinds};
use coeval_server::{Roles, ServerOptions};
use std::time::{Duration, Instant};

/// How long another session may take, for all that tests wait: it never comes near.
pub(super) const BOUND: Duration = Duration::from_secs(10);

/// What is there: tables that a clerk may read or not, two tenants with a schema each, a role that may make roles, and one that may follow.
const SETUP: &str = "
    CREATE ROLE clerk LOGIN PASSWORD 'pencil'; CREATE ROLE boss CREATEROLE; CREATE ROLE chief SUPERUSER;
    CREATE ROLE keeper LOGIN CREATEROLE PASSWORD 'pencil'; CREATE ROLE copier LOGIN REPLICATION PASSWORD 'pencil';
    CREATE ROLE first LOGIN PASSWORD 'pencil'; CREATE ROLE second LOGIN PASSWORD 'pencil';
    CREATE TABLE open (n int PRIMARY KEY, v text); INSERT INTO open VALUES (1, 'open');
    GRANT SELECT ON open TO clerk;
    CREATE TABLE secret (n int PRIMARY KEY, v text); INSERT INTO secret VALUES (1, 'hidden');
    CREATE VIEW secrets AS SELECT * FROM secret; CREATE SEQUENCE numbers; CREATE TYPE mood AS ENUM ('glad');
    CREATE SCHEMA first AUTHORIZATION first; CREATE SCHEMA second AUTHORIZATION second;
    SET ROLE first;
    CREATE TABLE first.t (n int PRIMARY KEY, v text); INSERT INTO first.t VALUES (1, 'mine');
    CREATE VIEW first.w AS SELECT * FROM first.t; CREATE SEQUENCE first.s;
    CREATE TYPE first.mood AS ENUM ('glad');
    SET ROLE second; CREATE TABLE second.t (n int PRIMARY KEY, v text); RESET ROLE";

/// What a clerk may not do, and nobody's tenant either.
const REFUSED_TO_CLERKS: &[&str] = &[
    "SELECT * FROM secret",
    "SELECT count(*) FROM secrets",
    "TABLE secret",
    "SELECT v FROM secret WHERE n = 1",
    "SELECT * FROM open WHERE n IN (SELECT n FROM secret)",
    "SELECT (SELECT v FROM secret)",
    "WITH s AS (SELECT * FROM secret) SELECT * FROM s",
    "SELECT * FROM open NATURAL JOIN secret",
    "SELECT * FROM open, LATERAL (SELECT v FROM secret) s",
    "SELECT n FROM open UNION SELECT n FROM secret",
    "EXPLAIN SELECT * FROM secret",
    "EXPLAIN ANALYZE SELECT * FROM secret",
    "PREPARE p AS SELECT * FROM secret",
    "COPY secret TO STDOUT",
    "COPY (SELECT * FROM secret) TO STDOUT",
    "COPY open TO '/tmp/written'",
    "COPY (SELECT 1) TO '/tmp/written'",
    "COPY open FROM '/etc/passwd'",
    "COPY open FROM STDIN",
    "INSERT INTO open VALUES (2, 'x')",
    "INSERT INTO open SELECT n + 1, v FROM open",
    "INSERT INTO secret VALUES (2, 'x')",
    "UPDATE open SET v = 'x'",
    "UPDATE open SET v = 'x' WHERE n = 1",
    "DELETE FROM open",
    "DELETE FROM open WHERE n = 1",
    "MERGE INTO open USING open o ON open.n = o.n WHEN MATCHED THEN DELETE",
    "TRUNCATE open",
    "SELECT * FROM open FOR UPDATE",
    "SELECT * FROM open WHERE n = 1 FOR SHARE",
    "WITH d AS (DELETE FROM open RETURNING *) SELECT * FROM d",
    "DROP TABLE open",
    "ALTER TABLE open ADD COLUMN x int",
    "ALTER TABLE open RENAME TO opened",
    "ALTER TABLE open OWNER TO clerk",
    "ALTER TABLE open ADD CHECK (n > 5)",
    "ALTER TABLE open DROP COLUMN v",
    "CREATE INDEX ON open (v)",
    "CREATE TABLE mine (n int REFERENCES secret)",
    "CREATE TABLE public.mine (n int)",
    "CREATE VIEW mine AS SELECT * FROM secret",
    "CREATE OR REPLACE VIEW secrets AS SELECT * FROM open",
    "CREATE SCHEMA mine",
    "CREATE TYPE mine AS ENUM ('a')",
    "ALTER TYPE mood ADD VALUE 'sad'",
    "DROP TYPE mood",
    "CREATE SEQUENCE mine",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 5)",
    "SELECT currval('numbers')",
    "SELECT * FROM numbers",
    "ALTER SEQUENCE numbers RESTART",
    "CREATE ROLE mine",
    "CREATE ROLE mine SUPERUSER LOGIN",
    "CREATE ROLE mine LOGIN REPLICATION PASSWORD 'x'",
    "CREATE ROLE mine BYPASSRLS",
    "ALTER ROLE clerk SUPERUSER",
    "ALTER ROLE clerk CREATEROLE",
    "ALTER ROLE clerk REPLICATION",
    "ALTER ROLE boss PASSWORD 'x'",
    "DROP ROLE boss",
    "GRANT boss TO clerk",
    "GRANT ALL ON secret TO clerk",
    "GRANT SELECT ON open TO PUBLIC",
    "REVOKE SELECT ON open FROM clerk",
    "SET ROLE boss",
    "SET ROLE coeval",
    "SET SESSION AUTHORIZATION coeval",
    "SET SESSION AUTHORIZATION boss",
    "SELECT rolpassword FROM pg_authid",
    "SELECT passwd FROM pg_shadow",
    "SELECT pg_reload_conf()",
    "SELECT coeval_backup('/tmp/written')",
    "CREATE SERVER s ENGINE sqlite OPTIONS (path '/tmp/x')",
    "CREATE SERVER s ENGINE datafusion",
    "DROP SERVER s",
    "CHECKPOINT",
    "COMMENT ON TABLE secret IS 'x'",
    "CREATE TABLE temp_read AS SELECT * FROM secret",
    "CREATE TEMP TABLE mine2 AS SELECT * FROM secret",
];

/// What a tenant may not do in the schema of another.
const REFUSED_TO_TENANTS: &[&str] = &[
    "SELECT * FROM first.t",
    "SELECT count(*) FROM first.w",
    "TABLE first.t",
    "SELECT v FROM first.t WHERE n = 1",
    "SELECT * FROM second.t WHERE n IN (SELECT n FROM first.t)",
    "SELECT (SELECT v FROM first.t)",
    "WITH s AS (SELECT * FROM first.t) SELECT * FROM s",
    "SELECT * FROM second.t NATURAL JOIN first.t",
    "SELECT * FROM second.t, LATERAL (SELECT v FROM first.t) s",
    "SELECT n FROM second.t UNION SELECT n FROM first.t",
    "EXPLAIN SELECT * FROM first.t",
    "EXPLAIN ANALYZE SELECT * FROM first.t",
    "PREPARE p AS SELECT * FROM first.t",
    "COPY first.t TO STDOUT",
    "COPY (SELECT * FROM first.t) TO STDOUT",
    "COPY second.t TO '/tmp/written'",
    "COPY second.t FROM '/etc/passwd'",
    "INSERT INTO first.t VALUES (2, 'x')",
    "CREATE TABLE mine (n int REFERENCES first.t)",
    "CREATE VIEW mine AS SELECT * FROM first.t",
    "CREATE OR REPLACE VIEW first.w AS SELECT * FROM second.t",
    "ALTER TYPE first.mood ADD VALUE 'sad'",
    "DROP TYPE first.mood",
    "SELECT nextval('first.s')",
    "SELECT setval('first.s', 5)",
    "SELECT currval('first.s')",
    "SELECT * FROM first.s",
    "ALTER SEQUENCE first.s RESTART",
    "ALTER ROLE second SUPERUSER",
    "ALTER ROLE second CREATEROLE",
    "GRANT boss TO second",
    "GRANT ALL ON first.t TO second",
    "COMMENT ON TABLE first.t IS 'x'",
    "CREATE TABLE temp_read AS SELECT * FROM first.t",
    "CREATE TEMP TABLE mine2 AS SELECT * FROM first.t",
];

/// What takes much of the server from a role that may do nothing but ask: it ends with one of these, or is answered ("").
fn bombs() -> Vec<(String, &'static [&'static str])> {
    let nested = |open: &str, inner: &str, close: &str, depth: usize| {
        format!("SELECT {}{inner}{}", open.repeat(depth), close.repeat(depth))
    };
    vec![
        (nested("abs(", "1", ")", 60), &[""]),
        (nested("NOT (", "a a", ")", 60), &["42601", "54001"]),
        (nested("CAST(", "1", " AS )", 60), &["42601", "54001"]),
        (nested("ARRAY[", "1 1", "]", 60), &["42601", "54001"]),
        (nested("POSITION(", "a", " IN )", 60), &["42601", "54001"]),
        (nested("(SELECT ", "1", ")", 60), &["54001"]),
        (nested("* FROM ((SELECT ", "1", ") x)", 40), &["54001", "42601"]),
        (nested("(", "1", ")", 100_000), &["54001"]),
        (format!("SELECT 1{}", " + 1".repeat(100_000)), &["54001"]),
        (format!("SELECT 1 WHERE true{}", " OR true".repeat(4_500)), &["", "54001"]),
        ("SELECT repeat('x', 2000000000)".to_owned(), &["54000"]),
        ("SELECT array_fill(1, ARRAY[2000000000])".to_owned(), &["22023", "54000", "53200"]),
        ("SELECT pg_sleep(100)".to_owned(), &["57014"]),
        ("SELECT count(*) FROM generate_series(1, 9000000000000)".to_owned(), &["57014"]),
        (
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) \
             SELECT count(*) FROM r"
                .to_owned(),
            &["57014"],
        ),
    ]
}

pub(super) fn server() -> Running {
    let server = Running::with(ServerOptions {
        roles: Roles::new().with("app", "geheim").unwrap(),
        ..ServerOptions::default()
    });
    server.database.session().run(SETUP).unwrap();
    server
}

/// A session of this role.
pub(super) fn opened(server: &Running, user: &str, password: &str) -> Raw {
    let mut raw = server.unopened();
    let messages = raw.try_password(user, password);
    assert_eq!(messages.last().map(|message| message.kind), Some('Z'), "{user}: {messages:?}");
    raw
}

/// Somebody else's session is answered, and finds all as it was.
pub(super) fn assert_served(other: &mut Raw, behind: &str) {
    let began = Instant::now();
    let found =
        other.run("SELECT (SELECT count(*) FROM secret), (SELECT v FROM first.t), (SELECT v FROM open)");
    assert_eq!(kinds(&found), "TDCZ", "behind {behind}: {found:?}");
    assert_eq!(found[1].texts(), ["1", "mine", "open"], "behind {behind}");
    assert!(began.elapsed() < BOUND, "behind {behind}: {:?}", began.elapsed());
}

pub(super) fn assert_refused(role: &str, attempts: &[&str]) {
    let server = server();
    let (mut insider, mut other) = (opened(&server, role, "pencil"), opened(&server, "app", "geheim"));
    let mut wrong = Vec::new();
    for attempt in attempts {
        // What is not refused is undone.
        let messages = insider.run(&format!("BEGIN; {attempt}"));
        let is_refused = messages
            .iter()
            .any(|message| message.kind == 'E' && message.field('C').as_deref() == Some("42501"));
        if !is_refused {
            wrong.push(format!("{attempt}: {messages:?}"));
        }
        insider.run("ROLLBACK");
        assert_served(&mut other, attempt);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_role_with_few_rights_is_refused_what_is_not_its_own_and_keeps_nobody_out() {
    assert_refused("clerk", REFUSED_TO_CLERKS);
}

#[test]
fn a_tenant_is_refused_what_is_anothers_and_keeps_nobody_out() {
    assert_refused("second", REFUSED_TO_TENANTS);
}

/// A proof may take as long as an opening may: whoever had begun one came in as the role that was made of its name meanwhile.
#[test]
fn a_proof_of_a_role_that_has_gone_opens_no_session_of_the_next_one_of_its_name() {
    let server = server();
    let (mut insider, mut boss) = (server.unopened(), opened(&server, "app", "geheim"));
    let challenge = insider.challenged("clerk");
    let made = boss
        .run("DROP OWNED BY clerk; DROP ROLE clerk; CREATE ROLE clerk LOGIN SUPERUSER PASSWORD 'another'");
    assert!(made.iter().all(|message| message.kind != 'E'), "{made:?}");
    insider.send(&challenge.proof("pencil", "n,,", b""));
    assert_eq!(error_code(&insider.until_end()), "28000");
}

#[test]
fn a_role_that_may_only_ask_keeps_nobody_out_whatever_it_asks() {
    let server = server();
    let mut other = opened(&server, "app", "geheim");
    for (bomb, codes) in bombs() {
        let shown = &bomb[..bomb.len().min(80)];
        let mut insider = opened(&server, "clerk", "pencil");
        if codes == ["57014"] {
            insider.run("SET statement_timeout = 200");
        }
        insider.send(&super::query(&bomb));
        // While it runs, too.
        assert_served(&mut other, shown);
        let began = Instant::now();
        let messages = insider.until_ready();
        let failed = messages.iter().any(|message| message.kind == 'E');
        let code = if failed { error_code(&messages) } else { String::new() };
        assert!(codes.contains(&&*code), "{shown}: {code} {messages:?}");
        assert!(began.elapsed() < BOUND, "{shown}: {:?}", began.elapsed());
        assert_served(&mut other, shown);
    }
}

/// How the statements of insiders end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Timeout,
    Disconnect,
    Termination,
}

/// What never ends by itself, or not before anybody has lost patience: each works in another function or operator.
const ENDLESS: &[&str] = &[
    "SELECT sum(strpos(repeat('a', 40000 + n), repeat('a', 20000) || 'b')) FROM generate_series(1, 100000000) s(n)",
    "SELECT sum(length(btrim(repeat('a', 40000 + n), repeat('b', 20000) || 'a'))) FROM generate_series(1, 100000000) s(n)",
    "SELECT strpos(repeat('a', 100000000), repeat('a', 50000000) || 'b') FROM generate_series(1, 1000)",
    "SELECT count(*) FROM (SELECT array_agg(n) AS a FROM generate_series(1, 300000) s(n)) x, generate_series(1, 10000) g \
     WHERE NOT x.a @> (SELECT array_agg(m + g) FROM generate_series(0, 299999) t(m))",
    "SELECT count(*) FROM generate_series(1, 9000000000000) n WHERE n::text ~ '(1|2)+.*(3|4)+5*$'",
    "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b WHERE md5(a || 'x' || b) = ''",
];

#[test]
fn as_many_as_there_are_threads_for_queries_keep_nobody_out_however_they_end() {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let server = server();
    let (mut other, mut boss) = (opened(&server, "app", "geheim"), opened(&server, "app", "geheim"));
    for (bomb, ending) in
        ENDLESS.iter().zip([Ending::Timeout, Ending::Disconnect, Ending::Termination].iter().cycle())
    {
        let shown = format!("{ending:?} of {bomb}");
        println!("{shown}");
        let mut insiders: Vec<Raw> = (0..2 * threads)
            .map(|_| {
                let mut insider = opened(&server, "clerk", "pencil");
                if *ending == Ending::Timeout {
                    insider.run("SET statement_timeout = 500");
                }
                insider.send(&super::query(bomb));
                insider
            })
            .collect();
        assert_served(&mut other, &shown);
        match ending {
            Ending::Timeout => {
                for insider in &mut insiders {
                    assert_eq!(error_code(&insider.until_ready()), "57014", "{shown}");
                }
            }
            Ending::Disconnect => insiders.clear(),
            Ending::Termination => {
                boss.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'clerk'");
            }
        }
        assert_served(&mut other, &shown);
        drop(insiders);
    }
}
