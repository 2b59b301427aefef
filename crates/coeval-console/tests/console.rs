// SPDX-License-Identifier: Apache-2.0
//! The console as browsers meet it: who is let in, what runs and what they hear of it. What people see has tests in a browser
//! (`browser/`).

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use coeval_console::{Console, ConsoleError, ConsoleOptions};
use coeval_server::{Roles, Server, ServerOptions};
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use support::{Browser, Running};

/// How often it is looked for what has to come: for most of a minute at least.
const LOOKS: usize = 2_000;

fn protected() -> Running {
    let roles = Roles::new().with("admin", "geheim").unwrap();
    Running::with(ServerOptions { roles, ..ServerOptions::default() }, ConsoleOptions::default())
}

/// The error among the events of a run, and the state of the transaction at its end.
fn error_of(events: &[Value]) -> (&Value, &str) {
    let error = events.iter().find(|event| event["event"] == "error");
    (error.unwrap_or_else(|| panic!("{events:?}")), state_of(events))
}

fn state_of(events: &[Value]) -> &str {
    let last = events.last().unwrap();
    assert_eq!(last["event"], "done", "{events:?}");
    last["transaction"].as_str().unwrap()
}

/// Waits until no session of the console's tabs runs anything, and how many there are.
async fn sessions_at_rest(browser: &Browser, tab: &str) -> u64 {
    let others = "SELECT count(*) FILTER (WHERE state = 'active'), count(*) FROM pg_stat_activity
        WHERE application_name LIKE 'coeval console%' AND pid <> pg_backend_pid()";
    for _ in 0..LOOKS {
        let rows = browser.all(tab, others).await;
        if rows[0][0] == "0" {
            return rows[0][1].as_str().unwrap().parse().unwrap();
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("a statement goes on");
}

#[test]
fn nobody_is_answered_but_the_page_and_the_login() {
    let console = protected();
    console.runtime.block_on(async {
        let browser = console.browser();
        assert_eq!(browser.get("/").await.status, StatusCode::OK);
        assert_eq!(browser.get("/app.js").await.status, StatusCode::OK);
        assert_eq!(browser.get("/nothing").await.status, StatusCode::NOT_FOUND);
        for (method, path) in [
            (Method::GET, "/api/session"),
            (Method::POST, "/api/logout"),
            (Method::POST, "/api/query"),
            (Method::GET, "/api/figures"),
            (Method::POST, "/api/tabs"),
            (Method::GET, "/api/tabs/x"),
            (Method::DELETE, "/api/tabs/x"),
            (Method::POST, "/api/tabs/x/run"),
            (Method::POST, "/api/tabs/x/cancel"),
            (Method::GET, "/api/tabs/x/results/0/rows"),
            (Method::GET, "/api/tabs/x/results/0/csv"),
            (Method::POST, "/api/tabs/x/copy"),
            (Method::GET, "/api/tabs/x/copy"),
        ] {
            let mut stranger = browser.clone();
            for cookie in [None, Some("".to_owned()), Some("x".repeat(43))] {
                let port = console.address.port();
                stranger.cookie = cookie.map(|token| format!("coeval_console_{port}={token}"));
                let answer = stranger.ask(method.clone(), path, None).await;
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{method} {path}");
            }
        }
    });
}

#[test]
fn a_login_is_one_of_the_server_and_ends_with_its_sessions() {
    let console = protected();
    console.runtime.block_on(async {
        let mut browser = console.browser();
        for (user, password, sqlstate) in
            [("admin", "wrong", "28P01"), ("nobody", "", "28P01"), ("ad\0min", "geheim", "22021")]
        {
            let answer = browser.post("/api/login", &json!({"user": user, "password": password})).await;
            assert_eq!(answer.status, StatusCode::UNAUTHORIZED);
            assert_eq!(answer.json()["sqlstate"], sqlstate, "{}", answer.text());
        }
        let answer = browser.post("/api/login", &json!({"user": "admin", "password": "geheim"})).await;
        assert_eq!(answer.status, StatusCode::OK);
        let cookie = answer.headers[header::SET_COOKIE].to_str().unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        let said = answer.json();
        assert_eq!(
            (&said["user"], &said["superuser"], &said["readOnly"]),
            (&json!("admin"), &json!(true), &json!(false))
        );
        let mut again = said.clone();
        assert!(again.as_object_mut().unwrap().remove("csrf").is_some(), "it is told once");
        assert_eq!(browser.get("/api/session").await.json(), again);

        let tab = browser.post("/api/tabs", &json!({})).await.json()["tab"].as_str().unwrap().to_owned();
        browser.run_sql(&tab, "BEGIN").await;
        let (other, others_tab) = console.user("admin", "geheim").await;
        assert_eq!(sessions_at_rest(&other, &others_tab).await, 3, "two that answer the page, and one tab");
        assert_eq!(browser.ask(Method::POST, "/api/logout", None).await.status, StatusCode::NO_CONTENT);
        assert_eq!(browser.get("/api/session").await.status, StatusCode::UNAUTHORIZED);
        for _ in 0..LOOKS {
            if sessions_at_rest(&other, &others_tab).await == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("sessions outlive their login");
    });
}

#[test]
fn what_another_site_makes_a_browser_send_does_nothing() {
    let console = protected();
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        let (other, _) = console.user("admin", "geheim").await;
        let run = format!("/api/tabs/{tab}/run");
        let sql = json!({"sql": "CREATE TABLE harm (a int)"});
        let with = |name: &'static str, value: &'static str| {
            let more = HeaderMap::from_iter([(name.parse().unwrap(), HeaderValue::from_static(value))]);
            Browser { more, ..browser.clone() }
        };
        for stranger in [
            Browser { csrf: None, ..browser.clone() },
            Browser { csrf: other.csrf.clone(), ..browser.clone() },
            Browser { host: "evil.example".to_owned(), ..browser.clone() },
            with("origin", "http://evil.example"),
            with("sec-fetch-site", "cross-site"),
        ] {
            let answer = stranger.ask(Method::POST, &run, Some(&sql)).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{}", answer.text());
        }
        let cookieless = Browser { cookie: None, ..browser.clone() };
        assert_eq!(cookieless.ask(Method::POST, &run, Some(&sql)).await.status, StatusCode::UNAUTHORIZED);
        // Whoever has the cookie alone, as another program of this host may have, reads nothing either.
        let thief = Browser { csrf: None, ..browser.clone() };
        for path in ["/api/session", "/api/figures", &format!("/api/tabs/{tab}")] {
            assert_eq!(thief.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
        }
        // The tab of another login, of the same user even, is none.
        assert_eq!(other.ask(Method::POST, &run, Some(&sql)).await.status, StatusCode::NOT_FOUND);
        assert_eq!(
            browser.all(&tab, "SELECT count(*) FROM pg_class WHERE relname = 'harm'").await,
            json!([["0"]])
        );
        let answer = browser.get("/").await;
        let policy = answer.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap();
        assert!(
            policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
    });
}

#[test]
fn a_text_of_statements_runs_as_one_and_each_has_its_result() {
    let console = protected();
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        let events = browser
            .run_sql(
                &tab,
                "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, NULL), (2, ''), (3, 'x');
                 SELECT * FROM t ORDER BY a; SELECT 1.50::numeric AS n, ARRAY[1, 2] AS l",
            )
            .await;
        let columns = json!([{"name": "a", "type": "int4"}, {"name": "b", "type": "text"}]);
        assert_eq!(events[0], json!({"event": "result", "result": null, "tag": "CREATE TABLE", "rows": 0, "kept": 0, "truncated": false}));
        assert_eq!(events[1], json!({"event": "result", "result": null, "tag": "INSERT 0 3", "rows": 3, "kept": 0, "truncated": false}));
        assert_eq!(events[2], json!({"event": "columns", "result": 0, "columns": columns}));
        assert_eq!(events[3], json!({"event": "result", "result": 0, "tag": "SELECT 3", "rows": 3, "kept": 3, "truncated": false}));
        let columns = json!([{"name": "n", "type": "numeric"}, {"name": "l", "type": "_int4"}]);
        assert_eq!(events[4], json!({"event": "columns", "result": 1, "columns": columns}));
        assert_eq!(state_of(&events), "idle");
        assert_eq!(browser.rows(&tab, &json!(0), "from=1&count=5").await, json!([["2", ""], ["3", "x"]]));
        assert_eq!(browser.rows(&tab, &json!(1), "").await, json!([["1.50", "{1,2}"]]));
        // A download carries no header, but a ticket for one time.
        let ticket = browser.clone().post(&format!("/api/tabs/{tab}/results/0/ticket"), &json!({})).await.json();
        let ticket = format!("ticket={}", ticket["ticket"].as_str().unwrap());
        let plain = Browser { csrf: None, ..browser.clone() };
        let csv = plain.get(&format!("/api/tabs/{tab}/results/0/csv?format=csv&{ticket}")).await;
        assert_eq!(plain.get(&format!("/api/tabs/{tab}/results/0/csv?{ticket}")).await.status, StatusCode::FORBIDDEN);
        assert_eq!(plain.get(&format!("/api/tabs/{tab}?{ticket}")).await.status, StatusCode::FORBIDDEN);
        assert_eq!(csv.text(), "a,b\n1,\n2,\"\"\n3,x\n");
        let lines = browser.get(&format!("/api/tabs/{tab}/results/0/csv?format=json")).await;
        assert_eq!(lines.text().lines().next(), Some("{\"a\":1,\"b\":null}"));

        // An error says where, and what ran before it in the same text is undone, as in any client.
        let events = browser.run_sql(&tab, "INSERT INTO t VALUES (4); SELECT nothing FROM t").await;
        let (error, state) = error_of(&events);
        assert_eq!((&error["sqlstate"], &error["position"], state), (&json!("42703"), &json!(34), "idle"));
        assert_eq!(browser.all(&tab, "SELECT count(*) FROM t").await, json!([["3"]]));
        let answer = browser.get(&format!("/api/tabs/{tab}/results/0/rows")).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "results go with the next run");
    });
}

#[test]
fn values_of_parameters_have_the_types_that_the_statement_wants() {
    let console = protected();
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        let request =
            json!({"sql": "SELECT $1::int + 1, $2::text, $3::date", "parameters": ["41", "'; x", null]});
        let events = browser.run(&tab, &request).await;
        assert_eq!(browser.rows(&tab, &events[0]["result"], "").await, json!([["42", "'; x", null]]));
        let events = browser.run(&tab, &json!({"sql": "SELECT $1::int", "parameters": ["x"]})).await;
        assert_eq!(error_of(&events).0["sqlstate"], "22P02");
        let answer =
            browser.clone().post("/api/query", &json!({"sql": "SELECT $1::int", "parameters": ["7"]})).await;
        assert_eq!(answer.json()["rows"], json!([["7"]]));
    });
}

#[test]
fn the_transaction_of_a_tab_is_its_own_and_in_sight() {
    let console = protected();
    console.runtime.block_on(async {
        let (mut browser, first) = console.user("admin", "geheim").await;
        let second = browser.post("/api/tabs", &json!({})).await.json()["tab"].as_str().unwrap().to_owned();
        browser
            .run_sql(&first, "CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
            .await;
        assert_eq!(state_of(&browser.run_sql(&first, "BEGIN; UPDATE t SET n = 1").await), "block");
        assert_eq!(
            browser.get(&format!("/api/tabs/{first}")).await.json(),
            json!({"running": false, "transaction": "block"})
        );
        assert_eq!(browser.all(&second, "SELECT n FROM t").await, json!([["0"]]));
        assert_eq!(error_of(&browser.run_sql(&first, "SELECT 1/0").await).1, "failed");
        assert_eq!(error_of(&browser.run_sql(&first, "SELECT 1").await).0["sqlstate"], "25P02");
        assert_eq!(state_of(&browser.run_sql(&first, "ROLLBACK").await), "idle");
        // A tab that is closed is rolled back.
        browser.run_sql(&first, "BEGIN; UPDATE t SET n = 2").await;
        let closed = browser.ask(Method::DELETE, &format!("/api/tabs/{first}"), None).await;
        assert_eq!(closed.status, StatusCode::NO_CONTENT);
        assert_eq!(state_of(&browser.run_sql(&second, "UPDATE t SET n = 3").await), "idle");
        assert_eq!(browser.all(&second, "SELECT n FROM t").await, json!([["3"]]));
    });
}

const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b";

#[test]
fn a_statement_ends_that_is_cancelled_or_whose_browser_has_gone() {
    let console = protected();
    console.runtime.block_on(async {
        let (mut browser, tab) = console.user("admin", "geheim").await;
        let other = browser.post("/api/tabs", &json!({})).await.json()["tab"].as_str().unwrap().to_owned();
        let running = tokio::spawn({
            let (browser, tab) = (browser.clone(), tab.clone());
            async move { browser.run_sql(&tab, ENDLESS).await }
        });
        let standing = format!("/api/tabs/{tab}");
        while browser.get(&standing).await.json()["running"] != true {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let busy = browser
            .ask(Method::POST, &format!("/api/tabs/{tab}/run"), Some(&json!({"sql": "SELECT 1"})))
            .await;
        assert_eq!(busy.status, StatusCode::CONFLICT);
        // A request that comes before the statement has begun ends nothing, as in any client.
        while !running.is_finished() {
            browser.ask(Method::POST, &format!("/api/tabs/{tab}/cancel"), None).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert_eq!(error_of(&running.await.unwrap()).0["sqlstate"], "57014");

        drop(browser.begin_run(&tab, &json!({"sql": ENDLESS})).await);
        sessions_at_rest(&browser, &other).await;
        assert_eq!(browser.all(&tab, "SELECT 2").await, json!([["2"]]), "the tab goes on");
    });
}

#[test]
fn what_runs_ends_with_its_tab_and_with_its_login() {
    let console = protected();
    console.runtime.block_on(async {
        let (watcher, watchers_tab) = console.user("admin", "geheim").await;
        for way in ["tab", "login"] {
            let (browser, tab) = console.user("admin", "geheim").await;
            let running = browser.begin_run(&tab, &json!({"sql": ENDLESS})).await;
            assert_eq!(browser.get(&format!("/api/tabs/{tab}")).await.json()["running"], true);
            let (method, path) = match way {
                "tab" => (Method::DELETE, format!("/api/tabs/{tab}")),
                _ => (Method::POST, "/api/logout".to_owned()),
            };
            assert_eq!(browser.ask(method, &path, None).await.status, StatusCode::NO_CONTENT);
            sessions_at_rest(&watcher, &watchers_tab).await;
            // The browser is still there, and hears the end.
            tokio::time::timeout(Duration::from_secs(60), running.collect()).await.unwrap().unwrap();
        }
    });
}

#[test]
fn what_strangers_send_is_bounded() {
    let console = protected();
    console.runtime.block_on(async {
        let mut browser = console.browser();
        let long = json!({"user": "admin", "password": "x".repeat(20_000)});
        assert_eq!(browser.post("/api/login", &long).await.status, StatusCode::BAD_REQUEST);
        let long = json!({"user": "admin", "password": "x".repeat(2_000)});
        let answer = browser.post("/api/login", &long).await;
        assert_eq!((answer.status, &answer.json()["sqlstate"]), (StatusCode::UNAUTHORIZED, &json!("28000")));
    });
}

#[test]
fn a_stranger_has_to_go_and_a_run_may_last() {
    let roles = Roles::new().with("admin", "geheim").unwrap();
    // A login has to come within it, on a busy machine too.
    let options = ConsoleOptions { stranger_time_max: Duration::from_secs(3), ..ConsoleOptions::default() };
    let console = Running::with(ServerOptions { roles, ..ServerOptions::default() }, options);
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        // Its connection carries nothing else meanwhile.
        let events = browser.run_sql(&tab, "SELECT pg_sleep(4); SELECT 2 AS two").await;
        assert_eq!(state_of(&events), "idle", "{events:?}");
        let mut stranger = tokio::net::TcpStream::connect(console.address).await.unwrap();
        let mut byte = [0];
        let closed = tokio::io::AsyncReadExt::read(&mut stranger, &mut byte);
        let closed = tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap();
        assert!(closed.is_err() || matches!(closed, Ok(0)), "{closed:?}");
    });
}

#[test]
fn what_a_question_sets_is_gone_with_it() {
    let console = protected();
    console.runtime.block_on(async {
        let (mut browser, tab) = console.user("admin", "geheim").await;
        browser.run_sql(&tab, "CREATE TABLE t (a int)").await;
        for sql in [
            "SET default_transaction_read_only = off",
            "BEGIN",
            "SELECT set_config('default_transaction_read_only', 'off', false)",
            "COPY t FROM STDIN",
        ] {
            browser.post("/api/query", &json!({ "sql": sql })).await;
            let answer = browser.post("/api/query", &json!({"sql": "INSERT INTO t VALUES (1)"})).await;
            assert_eq!(answer.json()["sqlstate"], "25006", "{sql}");
        }
        let zero = browser.post("/api/query", &json!({"sql": "SELECT '\0'"})).await;
        assert_eq!(zero.json()["sqlstate"], "22021");
        let events = browser.run_sql(&tab, "BEGIN").await;
        assert_eq!(state_of(&events), "block");
        let events = browser.run_sql(&tab, "SELECT '\0'").await;
        assert_eq!(error_of(&events), (&events[0], "block"), "the session goes on");
        let events = browser.run(&tab, &json!({"sql": "COPY t FROM STDIN", "parameters": ["1"]})).await;
        assert_eq!(events.last().unwrap()["event"], "done", "{events:?}");
    });
}

#[test]
fn a_session_that_was_ended_says_so_once() {
    let console = protected();
    console.runtime.block_on(async {
        let (mut browser, tab) = console.user("admin", "geheim").await;
        let pid = browser.all(&tab, "SELECT pg_backend_pid()").await[0][0].clone();
        let end = json!({"sql": "SELECT pg_terminate_backend($1::int)", "parameters": [pid]});
        assert_eq!(browser.post("/api/query", &end).await.json()["rows"], json!([["t"]]));
        let mut said = Value::Null;
        for _ in 0..LOOKS {
            let events = browser.run_sql(&tab, "SELECT 1").await;
            if events[0]["event"] == "error" {
                said = events[0]["sqlstate"].clone();
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(said == "57P01" || said == "08006", "{said}");
        assert_eq!(browser.all(&tab, "SELECT 1").await, json!([["1"]]));
    });
}

#[test]
fn rights_and_rules_are_the_servers() {
    let directory = tempfile::tempdir().unwrap();
    let rules = directory.path().join("pg_hba.conf");
    std::fs::write(&rules, "host all far 10.0.0.0/8 scram-sha-256\nhostssl all secret all scram-sha-256\nhost all admin,clerk all scram-sha-256\n").unwrap();
    let roles = Roles::new().with("admin", "geheim").unwrap();
    let options = ServerOptions { roles, rules_file: Some(rules), ..ServerOptions::default() };
    let console = Running::with(options, ConsoleOptions::default());
    console.runtime.block_on(async {
        let (admin, tab) = console.user("admin", "geheim").await;
        let setup = "CREATE TABLE t (a int); CREATE TYPE mood AS ENUM ('calm', 'wild');
            CREATE ROLE far LOGIN PASSWORD 'p'; CREATE ROLE secret LOGIN PASSWORD 'p'; CREATE ROLE clerk LOGIN PASSWORD 'p'";
        assert_eq!(state_of(&admin.run_sql(&tab, setup).await), "idle");
        // The browser's address and its connection are what the rules are about.
        for user in ["far", "secret"] {
            let login = json!({"user": user, "password": "p", "database": "coeval"});
            let answer = console.browser().post("/api/login", &login).await;
            assert_eq!((answer.status, &answer.json()["sqlstate"]), (StatusCode::UNAUTHORIZED, &json!("28000")));
        }
        let (clerk, tab) = console.user("clerk", "p").await;
        assert_eq!(error_of(&clerk.run_sql(&tab, "SELECT * FROM t").await).0["sqlstate"], "42501");
        let answer = clerk.clone().post("/api/query", &json!({"sql": "SELECT * FROM t"})).await;
        assert_eq!((answer.status, &answer.json()["sqlstate"]), (StatusCode::UNPROCESSABLE_ENTITY, &json!("42501")));
        let events = clerk.run_sql(&tab, "SELECT 'calm'::mood AS m").await;
        assert_eq!(events[0]["columns"], json!([{"name": "m", "type": "mood"}]));
    });
}

#[test]
fn a_read_only_login_begins_read_only() {
    let console = protected();
    console.runtime.block_on(async {
        let mut browser = console.browser();
        let login = json!({"user": "admin", "password": "geheim", "database": "coeval", "readOnly": true});
        assert_eq!(browser.post("/api/login", &login).await.json()["readOnly"], true);
        let tab = browser.post("/api/tabs", &json!({})).await.json()["tab"].as_str().unwrap().to_owned();
        assert_eq!(error_of(&browser.run_sql(&tab, "CREATE TABLE t (a int)").await).0["sqlstate"], "25006");
        // The page's own questions are so in any login.
        let (mut other, _) = console.user("admin", "geheim").await;
        let answer = other.post("/api/query", &json!({"sql": "CREATE TABLE t (a int)"})).await;
        assert_eq!(answer.json()["sqlstate"], "25006");
    });
}

#[test]
fn a_copy_gives_lines_and_takes_none() {
    let console = protected();
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        browser
            .run_sql(&tab, "CREATE TABLE t (a int, b text); INSERT INTO t VALUES (1, 'x'), (2, 'y')")
            .await;
        assert_eq!(browser.all(&tab, "COPY t TO STDOUT (FORMAT csv)").await, json!([["1,x"], ["2,y"]]));
        let events = browser.run_sql(&tab, "COPY t FROM STDIN").await;
        assert_eq!(error_of(&events).0["sqlstate"], "57014", "{events:?}");
        assert_eq!(browser.all(&tab, "SELECT count(*) FROM t").await, json!([["2"]]));
    });
}

#[test]
fn rows_past_the_room_are_counted() {
    let roles = Roles::new().with("admin", "geheim").unwrap();
    let options = ConsoleOptions { result_bytes_max: 1 << 20, ..ConsoleOptions::default() };
    let console = Running::with(ServerOptions { roles, ..ServerOptions::default() }, options);
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        let events =
            browser.run_sql(&tab, "SELECT n, n * 2 FROM generate_series(1, 200000) n ORDER BY n").await;
        let result = &events[1];
        assert_eq!((&result["rows"], &result["truncated"]), (&json!(200_000), &json!(true)));
        assert_eq!(
            browser.rows(&tab, &result["result"], "from=40000&count=1").await,
            json!([["40001", "80002"]])
        );
        assert_eq!(browser.rows(&tab, &result["result"], "from=199999").await, json!([]));
    });
}

#[test]
fn beyond_the_loopback_it_wants_encryption_and_passwords() {
    let runtime = coeval_server::runtime(&ServerOptions::default()).unwrap();
    let database = coeval::Database::in_memory().unwrap();
    let bound = runtime.block_on(async {
        let server = Server::bind(&database, "127.0.0.1:0", ServerOptions::default()).await.unwrap();
        Console::bind(server.entrance(), "0.0.0.0:0", ConsoleOptions::default()).await
    });
    assert!(matches!(bound, Err(ConsoleError::Unencrypted(_))));
    let certificates =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../coeval-server/tests/certificate");
    let directory = tempfile::tempdir().unwrap();
    let key = directory.path().join("server.key");
    std::fs::copy(certificates.join("server.key"), &key).unwrap();
    std::fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let certificate =
        coeval_server::Certificate { chain: certificates.join("server.crt"), key, client_authorities: None };
    let bound = |roles| {
        let options =
            ServerOptions { roles, certificate: Some(certificate.clone()), ..ServerOptions::default() };
        runtime.block_on(async {
            let server = Server::bind(&database, "127.0.0.1:0", options).await.unwrap();
            Console::bind(server.entrance(), "0.0.0.0:0", ConsoleOptions::default()).await
        })
    };
    assert!(matches!(bound(Roles::new()), Err(ConsoleError::Unprotected(_))));
    let console = bound(Roles::new().with("admin", "geheim").unwrap()).unwrap();
    assert!(console.url().starts_with("https://"), "{}", console.url());
}

#[test]
fn figures_of_all_sessions_are_for_who_may_see_them() {
    let console = protected();
    console.runtime.block_on(async {
        let (admin, admins_tab) = console.user("admin", "geheim").await;
        admin.run_sql(&admins_tab, "CREATE ROLE clerk LOGIN PASSWORD 'secret'").await;
        let (clerk, clerks_tab) = console.user("clerk", "secret").await;
        clerk.run_sql(&clerks_tab, "BEGIN").await;
        let own = clerk.get("/api/figures").await;
        // One that answers the page, and one of the tab: those of others are not counted.
        let sessions: Vec<&str> = own.text().lines().filter(|line| line.starts_with("coeval_")).collect();
        assert_eq!(
            sessions,
            [
                "coeval_sessions{state=\"active\"} 0",
                "coeval_sessions{state=\"idle\"} 1",
                "coeval_sessions{state=\"idle in transaction\"} 1",
                "coeval_sessions{state=\"idle in transaction (aborted)\"} 0",
            ]
        );
        let sees_all = async || clerk.get("/api/figures").await.text().contains("coeval_version");
        admin.run_sql(&admins_tab, "GRANT pg_monitor TO clerk").await;
        assert!(sees_all().await);
        admin.run_sql(&admins_tab, "REVOKE pg_monitor FROM clerk").await;
        assert!(!sees_all().await);
        assert!(admin.get("/api/figures").await.text().contains("coeval_version"), "a user who is no role");
    });
}

#[test]
fn a_query_is_downloaded_once_more_and_changes_nothing() {
    let console = protected();
    console.runtime.block_on(async {
        let (mut browser, tab) = console.user("admin", "geheim").await;
        let plain = Browser { csrf: None, ..browser.clone() };
        let copy = format!("/api/tabs/{tab}/copy");
        browser.run_sql(&tab, "CREATE TEMPORARY TABLE t (a int); INSERT INTO t VALUES (1), (2)").await;
        for (format, name, head) in
            [("parquet", "result.parquet", &b"PAR1"[..]), ("arrow", "result.arrows", &[255; 4])]
        {
            let begun = browser.post(&copy, &json!({"sql": "SELECT * FROM t; ", "format": format})).await;
            assert_eq!(begun.status, StatusCode::OK, "{}", begun.text());
            let address = format!("{copy}?ticket={}", begun.json()["ticket"].as_str().unwrap());
            let file = plain.get(&address).await;
            assert_eq!((file.status, file.body.starts_with(head)), (StatusCode::OK, true));
            let disposition = file.headers[header::CONTENT_DISPOSITION].to_str().unwrap();
            assert_eq!(disposition, format!("attachment; filename=\"{name}\""));
            assert_eq!(plain.get(&address).await.status, StatusCode::FORBIDDEN, "it is good for once");
        }
        browser.run_sql(&tab, "CREATE SEQUENCE s").await;
        for (sql, sqlstate) in [
            ("SELECT nothing", "42703"),
            ("DELETE FROM t", "0A000"),
            ("SELECT 1; SELECT 2", "42601"),
            ("SELECT nextval('s')", "25006"),
            ("SELECT 1) TO STDOUT; DROP TABLE t; SELECT (1", "42601"),
        ] {
            let refused = browser.post(&copy, &json!({"sql": sql, "format": "arrow"})).await;
            assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY, "{sql}: {}", refused.text());
            assert_eq!(refused.json()["sqlstate"], sqlstate, "{sql}");
        }
        assert_eq!(browser.all(&tab, "SELECT count(*) FROM t").await, json!([["2"]]));
        // An error would end a transaction that is open.
        browser.run_sql(&tab, "BEGIN").await;
        let refused = browser.post(&copy, &json!({"sql": "SELECT 1", "format": "arrow"})).await;
        assert_eq!(refused.json()["sqlstate"], "25001");
        assert_eq!(state_of(&browser.run_sql(&tab, "SELECT 1").await), "block");
    });
}

#[test]
fn a_download_that_nobody_reads_ends_its_query() {
    let console = protected();
    console.runtime.block_on(async {
        let (mut browser, tab) = console.user("admin", "geheim").await;
        let (other, others_tab) = console.user("admin", "geheim").await;
        let long = "SELECT n, md5(n::text) FROM generate_series(1, 1000000000::bigint) g(n)";
        let copy = format!("/api/tabs/{tab}/copy");
        let begun = browser.post(&copy, &json!({"sql": long, "format": "arrow"})).await;
        assert_eq!(begun.status, StatusCode::OK, "{}", begun.text());
        let busy = browser
            .ask(Method::POST, &format!("/api/tabs/{tab}/run"), Some(&json!({"sql": "SELECT 1"})))
            .await;
        assert_eq!(busy.status, StatusCode::CONFLICT);
        let address = format!("{copy}?ticket={}", begun.json()["ticket"].as_str().unwrap());
        let mut body = browser.begin_download(&address).await;
        assert!(body.frame().await.unwrap().unwrap().into_data().unwrap().starts_with(&[255; 4]));
        drop(body);
        sessions_at_rest(&other, &others_tab).await;
        assert_eq!(browser.all(&tab, "SELECT 1").await, json!([["1"]]), "the tab goes on");
        // And one that is never asked for ends with its tab.
        browser.post(&copy, &json!({"sql": long, "format": "parquet"})).await;
        browser.ask(Method::DELETE, &format!("/api/tabs/{tab}"), None).await;
        sessions_at_rest(&other, &others_tab).await;
    });
}

#[test]
fn a_row_that_is_too_long_is_passed_over_and_the_rest_is_counted() {
    let console = protected();
    console.runtime.block_on(async {
        let (browser, tab) = console.user("admin", "geheim").await;
        let sql = "SELECT n, CASE n WHEN 3 THEN repeat('x', 40000000) END FROM generate_series(1, 5) g(n) ORDER BY n";
        let events = browser.run_sql(&tab, sql).await;
        let notice = events.iter().find(|event| event["event"] == "notice").unwrap();
        assert_eq!(notice["sqlstate"], "54000");
        assert!(notice["message"].as_str().unwrap().starts_with("row 3 has 39 MiB"), "{notice}");
        let end = events.iter().find(|event| event["event"] == "result").unwrap();
        assert_eq!((&end["rows"], &end["kept"], &end["truncated"]), (&json!(5), &json!(2), &json!(true)));
        assert_eq!(browser.rows(&tab, &events[0]["result"], "count=10").await, json!([["1", null], ["2", null]]));
        // One of the page's own questions has what comes before it.
        let answer = browser.ask(Method::POST, "/api/query", Some(&json!({ "sql": sql }))).await.json();
        assert_eq!((answer["rows"].as_array().unwrap().len(), &answer["truncated"]), (2, &json!(true)));
    });
}
