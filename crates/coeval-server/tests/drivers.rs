// SPDX-License-Identifier: Apache-2.0
//! `tokio-postgres` as a client: it prepares and describes everything, uses the binary format and pipelines.
#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt, pin_mut};
use support::{Running, bind, close, describe, error_code, execute, kinds, parse, sync};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

#[test]
fn values_of_every_type_come_back_as_they_were_sent() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client
            .batch_execute(
                "CREATE TABLE t (id int PRIMARY KEY, a smallint, b bigint, c real, d float8, e boolean, \
                 f text, g varchar(10), h bytea)",
            )
            .await
            .unwrap();
        let insert = "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
        let insert = client.prepare(insert).await.unwrap();
        let bytes: &[u8] = &[0, 1, 255];
        let changed = client
            .execute(
                &insert,
                &[&1_i32, &-2_i16, &i64::MIN, &1.5_f32, &0.1_f64, &true, &"Grüße", &"short", &bytes],
            )
            .await
            .unwrap();
        assert_eq!(changed, 1);
        let row = client.query_one("SELECT * FROM t WHERE id = $1", &[&1_i32]).await.unwrap();
        assert_eq!(row.get::<_, i16>("a"), -2);
        assert_eq!(row.get::<_, i64>("b"), i64::MIN);
        assert_eq!(row.get::<_, f32>("c"), 1.5);
        assert_eq!(row.get::<_, f64>("d"), 0.1);
        assert!(row.get::<_, bool>("e"));
        assert_eq!(row.get::<_, &str>("f"), "Grüße");
        assert_eq!(row.get::<_, &str>("g"), "short");
        assert_eq!(row.get::<_, &[u8]>("h"), bytes);
        // The same through the general path.
        let row = client
            .query_one("SELECT max(a), max(b), max(d), max(f), array_agg(id) FROM t", &[])
            .await
            .unwrap();
        assert_eq!(row.get::<_, i16>(0), -2);
        assert_eq!(row.get::<_, Vec<i32>>(4), [1]);
    });
}

#[test]
fn a_transaction_of_the_driver_commits_or_rolls_back() {
    let server = Running::new();
    server.runtime.block_on(async {
        let mut client = server.client().await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY)").await.unwrap();
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO t VALUES (1)", &[]).await.unwrap();
        transaction.rollback().await.unwrap();
        let mut transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO t VALUES (2)", &[]).await.unwrap();
        let nested = transaction.savepoint("here").await.unwrap();
        let error = nested.execute("INSERT INTO t VALUES (2)", &[]).await.unwrap_err();
        assert_eq!(error.code(), Some(&SqlState::UNIQUE_VIOLATION));
        nested.rollback().await.unwrap();
        transaction.commit().await.unwrap();
        let rows = client.query("SELECT a FROM t", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get::<_, i32>(0)).collect::<Vec<_>>(), [2]);
    });
}

#[test]
fn statements_of_several_tasks_are_answered_in_order() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b int)").await.unwrap();
        let insert = client.prepare("INSERT INTO t VALUES ($1, $2)").await.unwrap();
        let select = client.prepare("SELECT b FROM t WHERE a = $1").await.unwrap();
        let inserts = (0..200_i32).map(|a| {
            let (client, insert) = (&client, &insert);
            async move { client.execute(insert, &[&a, &(a * 2)]).await.unwrap() }
        });
        futures::future::join_all(inserts).await;
        let selects = (0..200_i32).map(|a| {
            let (client, select) = (&client, &select);
            async move { client.query_one(select, &[&a]).await.unwrap().get::<_, i32>(0) }
        });
        let found = futures::future::join_all(selects).await;
        assert_eq!(found, (0..200).map(|a| a * 2).collect::<Vec<_>>());
    });
}

#[test]
fn copy_takes_and_gives_text_csv_and_binary() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
        let pieces: [(&str, &[u8]); 2] = [
            ("COPY t FROM STDIN", b"1\tone\n2\t\\N\n"),
            ("COPY t (b, a) FROM STDIN WITH (FORMAT csv)", b"\"x, y\",3\n"),
        ];
        for (statement, bytes) in pieces {
            let sink = client.copy_in(statement).await.unwrap();
            pin_mut!(sink);
            // Cut in the middle of a row.
            let (left, right) = bytes.split_at(5);
            sink.send(Bytes::copy_from_slice(left)).await.unwrap();
            sink.send(Bytes::copy_from_slice(right)).await.unwrap();
            assert!(sink.finish().await.unwrap() > 0);
        }
        let out = |statement: &'static str| {
            let client = &client;
            async move {
                let stream = client.copy_out(statement).await.unwrap();
                let pieces: Vec<Bytes> = stream.try_collect().await.unwrap();
                pieces.concat()
            }
        };
        assert_eq!(out("COPY t TO STDOUT").await, b"1\tone\n2\t\\N\n3\tx, y\n");
        let csv = "COPY (SELECT b, a FROM t WHERE a <> 2 ORDER BY a) TO STDOUT WITH (FORMAT csv, HEADER)";
        assert_eq!(out(csv).await, b"b,a\none,1\n\"x, y\",3\n");
        let binary = out("COPY t TO STDOUT (FORMAT binary)").await;
        client.batch_execute("CREATE TABLE u (a int PRIMARY KEY, b text)").await.unwrap();
        let sink = client.copy_in("COPY u FROM STDIN (FORMAT binary)").await.unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from(binary)).await.unwrap();
        assert_eq!(sink.finish().await.unwrap(), 3);
        assert_eq!(out("COPY u TO STDOUT").await, b"1\tone\n2\t\\N\n3\tx, y\n");
    });
}

#[test]
fn a_copy_that_fails_leaves_nothing_and_the_session_goes_on() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
        let sink = client.copy_in("COPY t FROM STDIN").await.unwrap();
        pin_mut!(sink);
        sink.send(Bytes::from_static(b"1\tone\nx\ttwo\n")).await.unwrap();
        let error = sink.finish().await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code(), &SqlState::INVALID_TEXT_REPRESENTATION);
        assert_eq!(error.where_(), Some("COPY t, line 2, column a: \"x\""));
        // A client that gives up: the driver sends CopyFail when its sink is dropped.
        {
            let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await.unwrap();
            pin_mut!(sink);
            sink.send(Bytes::from_static(b"5\tfive\n")).await.unwrap();
        }
        let count = client.query_one("SELECT count(*) FROM t", &[]).await.unwrap().get::<_, i64>(0);
        assert_eq!(count, 0);
    });
}

#[test]
fn kinds_of_text_keep_their_types_on_both_paths() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        let create = "CREATE TABLE t (id int PRIMARY KEY, j json, v varchar(9), c char(4), t text); \
                      CREATE VIEW w AS SELECT j, v, c, t FROM t";
        client.batch_execute(create).await.unwrap();
        let insert = "INSERT INTO t VALUES (1, '[1]', 'v', 'ab', 't') RETURNING j, v, c, t";
        let told = [Type::JSON, Type::VARCHAR, Type::BPCHAR, Type::TEXT];
        for sql in [
            insert,
            "SELECT j, v, c, t FROM t WHERE id = 1",
            "SELECT j, v, c, t FROM (SELECT * FROM t) s ORDER BY v LIMIT 5",
            "SELECT * FROM w",
        ] {
            let statement = client.prepare(sql).await.unwrap();
            let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
            assert_eq!(types, told, "{sql}");
            let row = client.query_one(&statement, &[]).await.unwrap();
            assert_eq!((row.get::<_, &str>(1), row.get::<_, &str>(2)), ("v", "ab  "), "{sql}");
        }
        let chosen =
            "SELECT CASE WHEN id > 0 THEN j END, CASE WHEN id > 0 THEN v ELSE t END FROM t ORDER BY c";
        let statement = client.prepare(chosen).await.unwrap();
        let types: Vec<_> = statement.columns().iter().map(|column| column.type_().clone()).collect();
        assert_eq!(types, [Type::JSON, Type::TEXT]);
        // What is computed from them is text.
        let statement = client.prepare("SELECT v || 'x', lower(c), j::text FROM t ORDER BY 1").await.unwrap();
        assert!(statement.columns().iter().all(|column| *column.type_() == Type::TEXT));
    });
}

#[test]
fn a_statement_tells_the_types_of_its_parameters() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client.batch_execute("CREATE TABLE t (a int PRIMARY KEY, b text)").await.unwrap();
        for (sql, types) in [
            (
                "SELECT $1::int + 1, $2::timestamptz, $3::text",
                vec![Type::INT4, Type::TIMESTAMPTZ, Type::TEXT],
            ),
            ("SELECT a FROM t WHERE a > $1 LIMIT $2 OFFSET $3", vec![Type::INT4, Type::INT8, Type::INT8]),
            ("INSERT INTO t SELECT $1::int, $2", vec![Type::INT4, Type::TEXT]),
            ("DECLARE c CURSOR FOR SELECT a FROM t WHERE a < $1", vec![Type::INT4]),
            ("UPDATE t SET b = $1 WHERE a = $1", vec![Type::INT4]),
            ("SELECT $1", vec![Type::TEXT]),
        ] {
            assert_eq!(client.prepare(sql).await.unwrap().params(), types, "{sql}");
        }
        for (sql, code) in [
            ("SELECT $2::int", "42P18"),
            ("SELECT $1 IS NULL", "42P18"),
            ("INSERT INTO t VALUES ($1, $1)", "42P08"),
        ] {
            let refused = client.prepare(sql).await.unwrap_err();
            assert_eq!(refused.code().map(SqlState::code), Some(code), "{sql}");
        }
        let row = client.query_one("SELECT $1::int + 1", &[&41_i32]).await.unwrap();
        assert_eq!(row.get::<_, i32>(0), 42);
    });
}

#[test]
fn a_cursor_takes_parameters_and_is_described_as_a_portal() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 9)");
    raw.run("BEGIN");
    let declare = "DECLARE c CURSOR FOR SELECT a FROM t WHERE a > $1 ORDER BY a";
    raw.send_all(&[parse("", declare, &[]), bind("", "", &[Some("5")]), execute("", 0)]);
    raw.send_all(&[describe('P', "c"), sync()]);
    assert_eq!(kinds(&raw.until_ready()), "12CTZ");
    assert_eq!(
        raw.run("FETCH ALL FROM c")[1..5].iter().map(|row| row.texts()[0].clone()).collect::<String>(),
        "6789"
    );
    raw.send_all(&[close('P', "c"), sync()]);
    raw.until_ready();
    assert_eq!(error_code(&raw.run("FETCH c")), "34000");
}

#[test]
fn fetch_and_move_go_on_in_a_portal() {
    let server = Running::new();
    let mut raw = server.raw();
    raw.run("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t SELECT * FROM generate_series(1, 9)");
    raw.run("BEGIN");
    raw.send_all(&[parse("s", "SELECT a FROM t ORDER BY a", &[]), bind("p", "s", &[]), sync()]);
    raw.until_ready();
    let moved = raw.run("MOVE FORWARD 3 IN p");
    assert_eq!((kinds(&moved).as_str(), moved[0].tag()), ("CZ", "MOVE 3"));
    raw.send_all(&[execute("p", 1), sync()]);
    assert_eq!(raw.until_ready()[0].texts(), ["4"]);
    let fetched = raw.run("FETCH 2 FROM p");
    assert_eq!((kinds(&fetched).as_str(), fetched[3].tag()), ("TDDCZ", "FETCH 2"));
    assert_eq!((fetched[1].texts(), fetched[2].texts()), (vec!["5".to_owned()], vec!["6".to_owned()]));
    assert_eq!(raw.run("MOVE ALL IN p")[0].tag(), "MOVE 3");
    assert_eq!(raw.run("FETCH p")[1].tag(), "FETCH 0");
    assert_eq!(error_code(&raw.run("FETCH PRIOR FROM p")), "55000");
    assert_eq!(error_code(&raw.run("FETCH p")), "25P02");
}
