// SPDX-License-Identifier: Apache-2.0
//! Roles of the catalog as those of clients, and what sessions show of each other and do to each other.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use coeval_server::{Roles, ServerOptions};
use support::{Message, Running, error_code, query};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, NoTls};

fn protected() -> Running {
    let roles = Roles::new().with("admin", "geheim").unwrap();
    Running::with(ServerOptions { roles, ..ServerOptions::default() })
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

/// What a setting is in a session.
async fn setting(client: &Client, name: &str) -> String {
    let sql = format!("SELECT current_setting('{name}')");
    client.query_one(sql.as_str(), &[]).await.unwrap().get(0)
}

#[test]
fn sessions_begin_with_what_alter_role_and_alter_database_have_set() {
    let server = protected();
    server.runtime.block_on(async {
        let admin = connect(&server, "admin", "geheim").await.unwrap();
        let setup = "CREATE ROLE keeper; CREATE ROLE clerk LOGIN PASSWORD 'pencil'; GRANT keeper TO clerk;
            ALTER ROLE ALL SET lock_timeout = '1s'; ALTER DATABASE coeval SET lock_timeout = '2s';
            ALTER DATABASE coeval SET statement_timeout = '2min'; ALTER ROLE clerk SET statement_timeout = '3min';
            ALTER ROLE clerk SET my.own = 'x'; ALTER ROLE clerk IN DATABASE coeval SET my.own = 'y';
            ALTER ROLE clerk SET ROLE keeper";
        admin.batch_execute(setup).await.unwrap();
        assert_eq!(setting(&admin, "lock_timeout").await, "0", "it was open before");

        let clerk = connect(&server, "clerk", "pencil").await.unwrap();
        for (name, value) in [
            ("lock_timeout", "2s"),
            ("statement_timeout", "3min"),
            ("my.own", "y"),
            ("role", "keeper"),
            ("session_authorization", "clerk"),
        ] {
            assert_eq!(setting(&clerk, name).await, value, "{name}");
        }
        clerk.batch_execute("SET statement_timeout = '9min'; RESET statement_timeout").await.unwrap();
        assert_eq!(setting(&clerk, "statement_timeout").await, "3min");

        // The administrator is no role, and what a client asks for counts more than what is kept.
        let mut asking = server.config();
        asking.user("admin").password("geheim").options("-c lock_timeout=4s");
        let (other, connection) = asking.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        assert_eq!(setting(&other, "lock_timeout").await, "4s");
        assert_eq!(setting(&other, "statement_timeout").await, "2min");

        // What a session cannot take any more does not keep its user out.
        admin.batch_execute("REVOKE keeper FROM clerk").await.unwrap();
        let clerk = connect(&server, "clerk", "pencil").await.unwrap();
        assert_eq!(setting(&clerk, "role").await, "none");
        assert_eq!(setting(&clerk, "statement_timeout").await, "3min");
    });
}

#[test]
fn rules_say_who_comes_from_where_and_are_read_again_when_somebody_asks() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pg_hba.conf");
    let write = |rules: &str| std::fs::write(&file, rules).unwrap();
    write(
        "host    open     all    127.0.0.1/32 trust\n\
         host    all      clerk  all          reject\n\
         hostssl encrypted all   all          scram-sha-256\n\
         host    coeval   all    127.0.0.0/8  scram-sha-256\n",
    );
    let options = || ServerOptions {
        roles: Roles::new().with("admin", "geheim").unwrap(),
        rules_file: Some(file.clone()),
        ..ServerOptions::default()
    };
    let server = Running::with(options());
    server.database.session().run("CREATE ROLE clerk LOGIN PASSWORD 'pencil'").unwrap();
    let refused = |user: &str, database: &str| {
        let mut raw = server.unopened();
        raw.send_startup(&[("user", user), ("database", database)]);
        let messages = raw.until_end();
        (error_code(&messages), messages[0].field('M').unwrap())
    };
    let refusal = |message: &str| ("28000".to_owned(), message.to_owned());
    let expected = refusal(
        "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"clerk\", database \"coeval\", no encryption",
    );
    assert_eq!(refused("clerk", "coeval"), expected);
    let expected = refusal(
        "no pg_hba.conf entry for host \"127.0.0.1\", user \"admin\", database \"encrypted\", no encryption",
    );
    assert_eq!(refused("admin", "encrypted"), expected);
    assert_eq!(refused("nobody", "open"), refusal("role \"nobody\" does not exist"));
    server.runtime.block_on(async {
        let admin = connect(&server, "admin", "geheim").await.unwrap();
        let mut trusted = server.config();
        trusted.user("clerk").dbname("open");
        let (clerk, connection) = trusted.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        let refused = clerk.query("SELECT pg_reload_conf()", &[]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE);

        // What is no rule changes nothing.
        write("host all all all reject\nhost all all all ident\n");
        let reload = || async { admin.query_one("SELECT pg_reload_conf()", &[]).await.unwrap() };
        assert!(reload().await.get::<_, bool>(0));
        assert!(connect(&server, "admin", "geheim").await.is_ok());
        write("host all all all trust\n");
        reload().await;
        while connect(&server, "clerk", "").await.is_err() {
            tokio::task::yield_now().await;
        }
        assert!(connect(&server, "nobody", "").await.is_err());
    });
    write("host all all all ident\n");
    let bound = coeval_server::Server::bind(&server.database, "127.0.0.1:0", options());
    let error = server.runtime.block_on(bound).err().unwrap().to_string();
    assert!(error.contains("pg_hba.conf: line 1: there is no method \"ident\""), "{error}");
}

/// Without end if a file that was not there at the start is never looked for again.
#[test]
fn rules_that_come_to_be_under_a_running_server_count_when_they_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pg_hba.conf");
    let server = Running::with(ServerOptions {
        roles: Roles::new().with("admin", "geheim").unwrap(),
        own_rules_file: Some(file.clone()),
        ..ServerOptions::default()
    });
    server.runtime.block_on(async {
        let admin = connect(&server, "admin", "geheim").await.unwrap();
        let reload = || async { admin.query_one("SELECT pg_reload_conf()", &[]).await.unwrap() };
        assert!(reload().await.get::<_, bool>(0));
        assert!(connect(&server, "admin", "geheim").await.is_ok());
        std::fs::write(&file, "hostssl all all all scram-sha-256\n").unwrap();
        reload().await;
        while connect(&server, "admin", "geheim").await.is_ok() {
            tokio::task::yield_now().await;
        }
        // A file that has gone takes no rules away.
        std::fs::remove_file(&file).unwrap();
        reload().await;
        assert!(connect(&server, "admin", "geheim").await.is_err());
    });
}

#[test]
fn a_hash_of_md5_is_no_password_and_a_verifier_is_one() {
    let server = protected();
    server.runtime.block_on(async {
        let admin = connect(&server, "admin", "geheim").await.unwrap();
        let md5 = "CREATE ROLE old LOGIN PASSWORD 'md5a6343a68d964ca596d9752250d54bb8a'";
        let refused = admin.batch_execute(md5).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::FEATURE_NOT_SUPPORTED);
        assert!(refused.as_db_error().unwrap().hint().is_some_and(|hint| hint.contains("SCRAM-SHA-256")));
        let verifier = coeval_sql::Verifier::of_password("pencil").to_text();
        admin.batch_execute(&format!("CREATE ROLE clerk LOGIN PASSWORD '{verifier}'")).await.unwrap();
        assert!(connect(&server, "clerk", "pencil").await.is_ok());
        assert!(connect(&server, "clerk", &verifier).await.is_err(), "the verifier itself is no password");
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
                "CREATE ROLE clerk LOGIN; CREATE ROLE loner LOGIN NOINHERIT IN ROLE clerk;
                CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)",
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
        let loner = connect(&server, "loner", "").await.unwrap();
        let of_clerk = format!("SELECT pg_cancel_backend({})", pid(&clerk).await);
        let refused = loner.query(&of_clerk, &[]).await.unwrap_err();
        assert_eq!(state(&refused), SqlState::INSUFFICIENT_PRIVILEGE, "a member that does not inherit");
        loner.batch_execute("SET ROLE clerk").await.unwrap();
        assert!(loner.query_one(&of_clerk, &[]).await.unwrap().get::<_, bool>(0));

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

/// Fails when REPLICATION is enough: whoever has the password of a feed could stop the primary's commits for good.
#[test]
fn a_promise_is_given_to_members_of_the_failover_role_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::of(coeval::Database::open(directory.path().join("data")).unwrap());
    let mut admin = server.raw();
    admin.run("CREATE ROLE feeder LOGIN REPLICATION; CREATE ROLE maker CREATEROLE");
    let ask = |command: &str| {
        let mut feeder = server.unopened();
        feeder.send_startup(&[("user", "feeder"), ("replication", "true")]);
        feeder.until_ready();
        feeder.send(&query(command));
        feeder.until_ready()
    };
    let is_row = |answer: &[Message]| answer.iter().any(|message| message.kind == 'D');
    assert!(is_row(&ask("IDENTIFY_SYSTEM")));
    assert_eq!(error_code(&ask("PROMISE_TIMELINE 2 'ff'")), "42501");
    let store = server.database.engine().store();
    assert_eq!(store.superseded_by(), None, "nothing was promised");
    // Nobody makes the role for himself.
    admin.run("SET ROLE maker");
    admin.send(&query("CREATE ROLE coeval_failover"));
    assert_eq!(error_code(&admin.until_ready()), "42939");
    admin.run("RESET ROLE; CREATE ROLE coeval_failover; GRANT coeval_failover TO feeder");
    // Nor does whoever may make roles hand it out, or take it away.
    admin.run("CREATE ROLE outsider; SET ROLE maker");
    for refused in [
        "GRANT coeval_failover TO outsider",
        "REVOKE coeval_failover FROM feeder",
        "ALTER ROLE coeval_failover RENAME TO something",
        "DROP ROLE coeval_failover",
    ] {
        admin.send(&query(refused));
        assert_eq!(error_code(&admin.until_ready()), "42501", "{refused}");
    }
    assert!(is_row(&ask("PROMISE_TIMELINE 2 'ff'")));
    assert!(store.superseded_by().is_some());
}
