// SPDX-License-Identifier: Apache-2.0
//! Clients that have a right of which others fear most, CREATEROLE or REPLICATION, and want more than it gives. Each attempt is
//! refused, and after each somebody else is answered within a bound.

use super::insiders::{BOUND, assert_refused, assert_served, opened, server};
use super::support::{Message, Raw, Running, error_code, message, query, sync, unnamed};
use std::time::Instant;

/// What a role may not do that makes roles: have what only superusers give, for itself or by one that it makes; act for a role
/// that it is no member of; read, change or give away what is another's.
const REFUSED_TO_KEEPERS: &[&str] = &[
    "CREATE ROLE mine SUPERUSER",
    "CREATE ROLE mine LOGIN REPLICATION PASSWORD 'x'",
    "CREATE ROLE mine BYPASSRLS",
    "CREATE ROLE mine IN ROLE chief",
    "CREATE ROLE mine IN ROLE copier",
    "CREATE ROLE mine; ALTER ROLE mine SUPERUSER",
    "CREATE ROLE mine; ALTER ROLE mine REPLICATION",
    "CREATE ROLE mine; GRANT chief TO mine",
    "CREATE ROLE mine; GRANT copier TO mine",
    "ALTER ROLE keeper SUPERUSER",
    "ALTER ROLE keeper REPLICATION",
    "ALTER ROLE keeper BYPASSRLS",
    "ALTER ROLE chief PASSWORD 'x'",
    "ALTER ROLE chief NOSUPERUSER",
    "ALTER ROLE chief NOLOGIN",
    "ALTER ROLE chief VALID UNTIL '2000-01-01'",
    "ALTER ROLE chief RENAME TO mine",
    "DROP ROLE chief",
    "ALTER ROLE copier PASSWORD 'x'",
    "ALTER ROLE copier NOREPLICATION",
    "GRANT chief TO keeper",
    "GRANT chief TO clerk",
    "GRANT copier TO keeper",
    "REVOKE chief FROM keeper",
    "SET ROLE chief",
    "SET ROLE copier",
    "SET ROLE first",
    "SET ROLE coeval",
    "SET SESSION AUTHORIZATION chief",
    "SET SESSION AUTHORIZATION coeval",
    "REASSIGN OWNED BY chief TO keeper",
    "REASSIGN OWNED BY first TO keeper",
    "DROP OWNED BY first",
    "SELECT * FROM secret",
    "SELECT count(*) FROM secrets",
    "SELECT * FROM open",
    "SELECT * FROM first.t",
    "COPY secret TO STDOUT",
    "COPY (SELECT 1) TO '/tmp/written'",
    "INSERT INTO open VALUES (2, 'x')",
    "UPDATE open SET v = 'x'",
    "DELETE FROM open",
    "TRUNCATE open",
    "DROP TABLE open",
    "ALTER TABLE secret OWNER TO keeper",
    "GRANT ALL ON secret TO keeper",
    "GRANT SELECT ON secret TO PUBLIC",
    "REVOKE SELECT ON open FROM clerk",
    "CREATE SCHEMA mine",
    "CREATE TABLE public.mine (n int)",
    "SELECT rolpassword FROM pg_authid",
    "SELECT passwd FROM pg_shadow",
    "SELECT pg_reload_conf()",
    "SELECT pg_promote()",
    "SELECT pg_create_physical_replication_slot('mine')",
    "SELECT coeval_backup('/tmp/written')",
    "SELECT coeval_cluster_drain(1)",
    "SELECT coeval_cluster_remove(1)",
    "SELECT coeval_cluster_recover(1)",
    "SELECT coeval_cluster_check()",
    "CREATE SERVER s ENGINE datafusion",
    "CHECKPOINT",
];

/// What a role may not do by statements that may follow the log, which has everything in it.
const REFUSED_TO_COPIERS: &[&str] = &[
    "SELECT * FROM secret",
    "SELECT count(*) FROM secrets",
    "SELECT * FROM open",
    "SELECT * FROM first.t",
    "COPY secret TO STDOUT",
    "COPY (SELECT 1) TO '/tmp/written'",
    "INSERT INTO open VALUES (2, 'x')",
    "UPDATE open SET v = 'x'",
    "DELETE FROM open",
    "TRUNCATE open",
    "DROP TABLE open",
    "SELECT nextval('numbers')",
    "SELECT setval('numbers', 5)",
    "CREATE SCHEMA mine",
    "CREATE TABLE public.mine (n int)",
    "CREATE ROLE mine",
    "CREATE ROLE mine SUPERUSER",
    "ALTER ROLE copier SUPERUSER",
    "ALTER ROLE copier CREATEROLE",
    "ALTER ROLE copier PASSWORD 'x'",
    "ALTER ROLE clerk PASSWORD 'x'",
    "DROP ROLE clerk",
    "GRANT copier TO clerk",
    "GRANT chief TO copier",
    "GRANT ALL ON secret TO copier",
    "SET ROLE chief",
    "SET ROLE coeval",
    "SET SESSION AUTHORIZATION coeval",
    "REASSIGN OWNED BY first TO copier",
    "DROP OWNED BY first",
    "SELECT rolpassword FROM pg_authid",
    "SELECT passwd FROM pg_shadow",
    "SELECT pg_reload_conf()",
    "SELECT pg_promote()",
    "SELECT pg_wal_replay_pause()",
    "SELECT coeval_backup('/tmp/written')",
    "SELECT coeval_cluster_drain(1)",
    "SELECT coeval_cluster_remove(1)",
    "SELECT coeval_cluster_recover(1)",
    "SELECT coeval_cluster_check()",
    "CREATE SERVER s ENGINE datafusion",
    "CHECKPOINT",
];

#[test]
fn a_role_that_may_make_roles_is_refused_what_only_superusers_give_and_keeps_nobody_out() {
    assert_refused("keeper", REFUSED_TO_KEEPERS);
}

#[test]
fn a_role_that_may_follow_is_refused_all_statements_on_what_is_anothers_and_keeps_nobody_out() {
    assert_refused("copier", REFUSED_TO_COPIERS);
}

/// What comes of asking for a connection of replicas.
fn asked_to_follow(server: &Running, user: &str) -> (Raw, Vec<Message>) {
    let mut raw = server.unopened();
    let messages = raw.try_password_with(&[("user", user), ("replication", "true")], "pencil");
    (raw, messages)
}

/// A connection of replicas of the role that may have one.
fn follower(server: &Running) -> Raw {
    let (raw, messages) = asked_to_follow(server, "copier");
    assert_eq!(messages.last().map(|message| message.kind), Some('Z'), "{messages:?}");
    raw
}

/// What a connection of replicas does not take as a command, and what it refuses to its role.
const REFUSED_COMMANDS: &[(&str, &str)] = &[
    ("PROMISE_TIMELINE 99 'ff'", "42501"),
    ("PROMISE_TIMELINE all 'ff'", "42601"),
    ("SELECT * FROM secret", "42601"),
    ("UPDATE open SET v = 'x'", "42601"),
    ("DROP TABLE open", "42601"),
    ("ALTER ROLE copier SUPERUSER", "42601"),
    ("START_REPLICATION nowhere", "42601"),
    ("START_REPLICATION 0/1 TERM none", "42601"),
    ("CREATE_REPLICATION_SLOT mine LOGICAL pgoutput", "42601"),
    ("DROP_REPLICATION_SLOT", "42601"),
    ("IDENTIFY_SYSTEM; DROP TABLE open", "42601"),
];

/// Statements by the extended protocol, which such a connection takes with the rights of its role.
const REFUSED_STATEMENTS: &[&str] = &[
    "SELECT * FROM secret",
    "UPDATE open SET v = 'x'",
    "COPY secret TO STDOUT",
    "DROP TABLE open",
    "SET ROLE chief",
    "ALTER ROLE copier SUPERUSER",
];

#[test]
fn a_connection_of_replicas_is_for_who_may_follow_and_gives_no_more() {
    let server = server();
    let mut other = opened(&server, "app", "geheim");
    for user in ["clerk", "second", "keeper"] {
        let (_raw, messages) = asked_to_follow(&server, user);
        assert_eq!(error_code(&messages), "42501", "{user}");
        assert_served(&mut other, user);
    }
    let mut copier = follower(&server);
    let commands = REFUSED_COMMANDS.iter().map(|(text, code)| (*text, query(text), *code));
    let statements = REFUSED_STATEMENTS.iter().map(|text| (*text, [unnamed(text), sync()].concat(), "42501"));
    for (text, bytes, code) in commands.chain(statements) {
        let began = Instant::now();
        copier.send(&bytes);
        assert_eq!(error_code(&copier.until_ready()), code, "{text}");
        assert!(began.elapsed() < BOUND, "{text}: {:?}", began.elapsed());
        assert_served(&mut other, text);
    }
}

/// Copies that are being prepared have a bound, as each has a thread that waits for a checkpoint, also when its client has gone. Fails if one
/// that has ended keeps its place: soon nobody gets a copy any more.
#[test]
fn a_copy_that_is_refused_gives_its_place_back() {
    let server = server();
    let mut copier = follower(&server);
    for _ in 0..50 {
        copier.send(&query("BASE_BACKUP"));
        // A database in memory has no files that could be copied.
        let messages = copier.until_ready();
        assert_ne!(error_code(&messages), "53200", "{messages:?}");
    }
}

#[test]
fn many_connections_of_replicas_that_make_no_sense_keep_nobody_out() {
    const FOLLOWERS: usize = 30;
    let server = server();
    let mut other = opened(&server, "app", "geheim");
    let attempts: [(&str, Vec<u8>); 5] = [
        ("copies", query("BASE_BACKUP")),
        ("places that there are not", query("START_REPLICATION FFFFFFFF/FFFFFFFF")),
        ("slots that there are not", query("START_REPLICATION SLOT none 0/1")),
        ("answers to nothing", message(b'd', &[b'r'; 33]).repeat(100)),
        ("half a command", query("START_REPLICATION 0/1")[..9].to_vec()),
    ];
    for (name, bytes) in attempts {
        let mut followers: Vec<Raw> = (0..FOLLOWERS).map(|_| follower(&server)).collect();
        followers.iter_mut().for_each(|raw| raw.send_until_ended(&bytes));
        assert_served(&mut other, name);
        assert_served(&mut opened(&server, "app", "geheim"), name);
    }
}
