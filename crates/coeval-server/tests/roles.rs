// SPDX-License-Identifier: Apache-2.0
//! Roles of the catalog as those of clients, and what sessions show of each other and do to each other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use coeval_server::{Roles, ServerOptions};
use support::Running;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

fn protected() -> Running {
    Running::with(ServerOptions { roles: Roles::new().with("admin", "geheim"), ..ServerOptions::default() })
}

async fn connect(server: &Running, user: &str, password: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = server.config().user(user).password(password).connect(NoTls).await?;
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(client)
}

fn state(error: &tokio_postgres::Error) -> SqlState {
    error.code().cloned().unwrap_or_else(|| panic!("{error}"))
}

#[test]
fn a_role_of_the_catalog_opens_sessions_with_its_password_and_has_its_own_rights() {
    let server = protected();
    server.runtime.block_on(async {
        let admin = connect(&server, "admin", "geheim").await.unwrap();
        let setup = "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1);
            CREATE ROLE clerk LOGIN PASSWORD 'pencil'; CREATE ROLE mute PASSWORD 'pencil'; CREATE ROLE bare LOGIN";
        admin.batch_execute(setup).await.unwrap();

        let wrong = connect(&server, "clerk", "pen").await.err().unwrap();
        assert_eq!(state(&wrong), SqlState::INVALID_PASSWORD);
        let without = connect(&server, "bare", "").await.err().unwrap();
        assert!(without.code().is_none_or(|code| *code == SqlState::INVALID_PASSWORD), "{without}");
        let mute = connect(&server, "mute", "pencil").await.err().unwrap();
        assert_eq!(state(&mute), SqlState::INVALID_AUTHORIZATION_SPECIFICATION);

        let clerk = connect(&server, "clerk", "pencil").await.unwrap();
        let row = clerk.query_one("SELECT current_user, session_user", &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("clerk", "clerk"));
        let refused = clerk.query("SELECT a FROM t WHERE a = $1", &[&1]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE);

        admin.batch_execute("GRANT SELECT ON t TO clerk").await.unwrap();
        let prepared = clerk.prepare("SELECT a FROM t WHERE a = $1").await.unwrap();
        assert_eq!(clerk.query(&prepared, &[&1]).await.unwrap().len(), 1);
        // What was prepared before the right went is refused as well, and a role that is gone has none.
        admin.batch_execute("REVOKE SELECT ON t FROM clerk").await.unwrap();
        let refused = clerk.query(&prepared, &[&1]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE);
        admin.batch_execute("DROP ROLE clerk").await.unwrap();
        let refused = clerk.query(&prepared, &[&1]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE);
    });
}

#[test]
fn on_a_trusted_loopback_a_name_that_is_no_role_may_do_everything() {
    let server = Running::new();
    server.runtime.block_on(async {
        let admin = server.client().await;
        admin
            .batch_execute("CREATE TABLE t (a int); CREATE ROLE clerk LOGIN; CREATE ROLE mute")
            .await
            .unwrap();
        let clerk = connect(&server, "clerk", "").await.unwrap();
        let refused = clerk.query("SELECT * FROM t", &[]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE);
        let mute = connect(&server, "mute", "").await.err().unwrap();
        assert_eq!(state(&mute), SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
    });
}

#[test]
fn sessions_show_what_they_do_and_hide_it_from_other_roles() {
    let server = Running::new();
    server.runtime.block_on(async {
        let admin = server.client().await;
        admin.batch_execute("CREATE ROLE clerk LOGIN; CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        let clerk = connect(&server, "clerk", "").await.unwrap();
        admin.batch_execute("SET application_name = 'tool'; BEGIN; SELECT 1").await.unwrap();

        let own =
            "SELECT usename, state, query, xact_start IS NOT NULL, client_addr, datname, application_name
            FROM pg_stat_activity WHERE pid = pg_backend_pid()";
        let row = admin.query_one(own, &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("tester", "active"));
        assert!(row.get::<_, &str>(2).starts_with("SELECT usename") && row.get::<_, bool>(3));
        assert_eq!((row.get::<_, &str>(4), row.get::<_, &str>(5)), ("127.0.0.1", "coeval"));
        assert_eq!(row.get::<_, &str>(6), "tool");
        let others =
            "SELECT usename, state, query, client_port FROM pg_stat_activity WHERE pid <> pg_backend_pid()";
        let row = admin.query_one(others, &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, &str>(1)), ("clerk", "idle"));
        assert!(row.get::<_, Option<i32>>(3).is_some());
        let row = clerk.query_one(others, &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, Option<&str>>(1)), ("tester", None));
        assert_eq!(row.get::<_, &str>(2), "<insufficient privilege>");
        admin.batch_execute("COMMIT").await.unwrap();
    });
}

/// The session's number.
async fn pid(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0)
}

#[test]
fn a_session_cancels_and_ends_others_if_it_may() {
    let server = Running::new();
    server.runtime.block_on(async {
        let admin = server.client().await;
        admin
            .batch_execute(
                "CREATE ROLE clerk LOGIN; CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)",
            )
            .await
            .unwrap();
        let own = pid(&admin).await;
        let busy = server.client().await;
        let busy_pid = pid(&busy).await;
        let clerk = connect(&server, "clerk", "").await.unwrap();
        let cancel = format!("SELECT pg_cancel_backend({busy_pid})");
        let refused = clerk.query(&cancel, &[]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE);

        // It waits for a lock, and is seen to.
        admin.batch_execute("BEGIN; SELECT * FROM t WHERE a = 1 FOR UPDATE").await.unwrap();
        let waiting = tokio::spawn(async move {
            let outcome = busy.batch_execute("SELECT * FROM t WHERE a = 1 FOR UPDATE").await;
            (busy, outcome)
        });
        let waits =
            format!("SELECT 1 FROM pg_stat_activity WHERE pid = {busy_pid} AND wait_event_type = 'Lock'");
        while admin.query(&waits, &[]).await.unwrap().is_empty() {}
        assert!(admin.query_one(&cancel, &[]).await.unwrap().get::<_, bool>(0));
        let (busy, outcome) = waiting.await.unwrap();
        assert_eq!(state(&outcome.unwrap_err()), SqlState::QUERY_CANCELED);
        assert_eq!(pid(&busy).await, busy_pid, "the session goes on");

        let terminate = format!("SELECT pg_terminate_backend({busy_pid})");
        assert!(admin.query_one(&terminate, &[]).await.unwrap().get::<_, bool>(0));
        while server.database.engine().registry().find(busy_pid).is_some() {
            tokio::task::yield_now().await;
        }
        assert!(busy.batch_execute("SELECT 1").await.is_err());
        let nobody = admin.query_one(&terminate, &[]).await.unwrap();
        assert!(!nobody.get::<_, bool>(0), "there is nobody of this number");
        assert_eq!(pid(&admin).await, own);
    });
}
