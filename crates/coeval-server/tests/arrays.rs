// SPDX-License-Identifier: Apache-2.0
//! Arrays as parameters and results, and what results say of the columns they come from, as drivers see them.

#![allow(clippy::unwrap_used, reason = "tests")]

mod support;

use support::Running;
use tokio_postgres::types::Type;

#[test]
fn arrays_are_parameters_of_comparisons_and_of_unnest() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        let setup =
            "CREATE TABLE t (id int PRIMARY KEY, big bigint, name text, price numeric(10,2), at timestamptz)";
        client.batch_execute(setup).await.unwrap();

        // The client sends what the description says, in binary form.
        let insert =
            "INSERT INTO t (id, big, name) SELECT * FROM unnest($1::int[], $2::bigint[], $3::text[])";
        let insert = client.prepare(insert).await.unwrap();
        assert_eq!(insert.params(), [Type::INT4_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY]);
        let names = [Some("a"), None, Some("c, \"quoted\" \\ {x}")];
        let count = client.execute(&insert, &[&vec![1, 2, 3], &vec![10_i64, 20, 30], &names.to_vec()]).await;
        assert_eq!(count.unwrap(), 3);

        let by_key = client.prepare("SELECT id, name FROM t WHERE id = ANY($1) ORDER BY id").await.unwrap();
        assert_eq!(by_key.params(), [Type::INT4_ARRAY]);
        let rows = client.query(&by_key, &[&vec![3, 1, 7]]).await.unwrap();
        let found: Vec<(i32, Option<&str>)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(found, [(1, names[0]), (3, names[2])]);
        assert!(client.query(&by_key, &[&Vec::<i32>::new()]).await.unwrap().is_empty());
        assert!(client.query(&by_key, &[&None::<Vec<i32>>]).await.unwrap().is_empty());

        for (condition, ty) in
            [("name", Type::TEXT_ARRAY), ("big", Type::INT8_ARRAY), ("at", Type::TIMESTAMPTZ_ARRAY)]
        {
            let sql = format!("SELECT count(*) FROM t WHERE {condition} = ANY($1)");
            assert_eq!(client.prepare(&sql).await.unwrap().params(), [ty], "{condition}");
        }
        let many = client
            .query_one("SELECT count(*) FROM t WHERE name = ANY($1)", &[&names.to_vec()])
            .await
            .unwrap();
        assert_eq!(many.get::<_, i64>(0), 2);
        let none =
            client.query_one("SELECT count(*) FROM t WHERE id <> ALL($1)", &[&vec![1, 2]]).await.unwrap();
        assert_eq!(none.get::<_, i64>(0), 1);
        assert_eq!(
            client.execute("UPDATE t SET big = 0 WHERE id = ANY($1)", &[&vec![1, 2]]).await.unwrap(),
            2
        );
        assert_eq!(client.execute("DELETE FROM t WHERE id = ANY($1)", &[&vec![1, 9]]).await.unwrap(), 1);

        let cast = client.prepare("SELECT $1::int + 1, $2::text, $3::int[]").await.unwrap();
        assert_eq!(cast.params(), [Type::INT4, Type::TEXT, Type::INT4_ARRAY]);
        let row = client.query_one(&cast, &[&6, &"abc", &vec![1]]).await.unwrap();
        assert_eq!((row.get::<_, i32>(0), row.get::<_, &str>(1)), (7, "abc"));

        // Types that the client declares.
        let declared = client.prepare_typed("SELECT unnest($1), $1", &[Type::INT2_ARRAY]).await.unwrap();
        let rows = client.query(&declared, &[&vec![4_i16, 5]]).await.unwrap();
        assert_eq!(rows[1].get::<_, i16>(0), 5);
        assert_eq!(rows[1].get::<_, Vec<i16>>(1), [4, 5]);
    });
}

#[test]
fn arrays_are_results_in_binary_form() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        let sql = "SELECT ARRAY[1, 2], array_agg(g ORDER BY g), ARRAY['x', NULL]
            FROM generate_series(1::bigint, 3::bigint) AS s(g)";
        let row = client.query_one(sql, &[]).await.unwrap();
        let types: Vec<&Type> = row.columns().iter().map(|column| column.type_()).collect();
        assert_eq!(types, [&Type::INT4_ARRAY, &Type::INT8_ARRAY, &Type::TEXT_ARRAY]);
        assert_eq!(row.get::<_, Vec<i32>>(0), [1, 2]);
        assert_eq!(row.get::<_, Vec<i64>>(1), [1, 2, 3]);
        assert_eq!(row.get::<_, Vec<Option<&str>>>(2), [Some("x"), None]);
    });
}

#[test]
fn results_name_the_columns_of_tables_that_they_are() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        let setup = "CREATE TABLE t (id int PRIMARY KEY, a int, b int); CREATE TABLE u (id int, c int);
            ALTER TABLE t DROP COLUMN a; ALTER TABLE t ADD COLUMN d int";
        client.batch_execute(setup).await.unwrap();
        let oid = |name: &'static str| {
            let sql = format!("SELECT '{name}'::regclass::int");
            let client = &client;
            async move { client.query_one(&sql, &[]).await.unwrap().get::<_, i32>(0) as u32 }
        };
        let (t, u) = (oid("t").await, oid("u").await);
        let origins = |sql: &'static str| {
            let client = &client;
            async move {
                let prepared = client.prepare(sql).await.unwrap();
                let columns = prepared.columns().iter();
                columns.map(|column| column.table_oid().zip(column.column_id())).collect::<Vec<_>>()
            }
        };
        // By key, and through DataFusion.
        let expected = [Some((t, 4)), None, Some((t, 1))];
        assert_eq!(origins("SELECT d AS x, b + 1, id FROM t WHERE id = 1").await, expected);
        let joined = "SELECT s.d, u.c, count(*) OVER () FROM (SELECT * FROM t WHERE b > 1) AS s
            JOIN u ON u.id = s.id ORDER BY 1 LIMIT 3";
        assert_eq!(origins(joined).await, [Some((t, 4)), Some((u, 2)), None]);
        assert_eq!(origins("SELECT b, sum(d) FROM t GROUP BY b").await, [Some((t, 3)), None]);
        assert_eq!(origins("SELECT b FROM t UNION ALL SELECT c FROM u").await, [None]);
        assert_eq!(origins("INSERT INTO t VALUES (1, 2) RETURNING id").await, [Some((t, 1))]);
    });
}

#[test]
fn open_transactions_and_their_snapshots_are_shown() {
    let server = Running::new();
    server.runtime.block_on(async {
        let holder = server.client().await;
        let writer = server.client().await;
        writer.batch_execute("CREATE TABLE t (a int); INSERT INTO t VALUES (1)").await.unwrap();
        holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT * FROM t").await.unwrap();
        writer.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
        let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let transaction = writer
            .query_one(
                "SELECT state, isolation, access, begin_version, since <= now() FROM coeval_transactions WHERE pid = $1",
                &[&pid],
            )
            .await
            .unwrap();
        assert_eq!(transaction.get::<_, &str>(0), "idle in transaction");
        assert_eq!((transaction.get::<_, &str>(1), transaction.get::<_, &str>(2)), ("repeatable read", "read only"));
        assert!(transaction.get::<_, bool>(4));
        let version: i64 = transaction.get(3);
        let held = "SELECT version, versions_behind, holders FROM coeval_snapshots WHERE pid = $1";
        let held = writer.query_one(held, &[&pid]).await.unwrap();
        assert_eq!((held.get::<_, i64>(0), held.get::<_, i64>(1), held.get::<_, i64>(2)), (version, 1, 1));
        holder.batch_execute("COMMIT").await.unwrap();
        let ended = writer.query("SELECT 1 FROM coeval_snapshots WHERE pid = $1", &[&pid]).await.unwrap();
        assert!(ended.is_empty());
    });
}

#[test]
fn who_holds_safe_snapshots_back_is_shown_with_its_first_out_edge() {
    let server = Running::new();
    server.runtime.block_on(async {
        let (holder, writer) = (server.client().await, server.client().await);
        writer.batch_execute("CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)").await.unwrap();
        holder.batch_execute("BEGIN; SELECT * FROM t WHERE a = 2").await.unwrap();
        let pid: i32 = holder.query_one("SELECT pg_backend_pid()", &[]).await.unwrap().get(0);
        let shown =
            "SELECT holds_boundary, begin_version, first_out_version, transaction FROM coeval_transactions
            WHERE pid = $1";
        let before = writer.query_one(shown, &[&pid]).await.unwrap();
        assert!(before.get::<_, bool>(0));
        assert_eq!(before.get::<_, Option<i64>>(2), None);
        writer.batch_execute("INSERT INTO t VALUES (2)").await.unwrap();
        let after = writer.query_one(shown, &[&pid]).await.unwrap();
        assert_eq!(after.get::<_, i64>(2), after.get::<_, i64>(1) + 1);
        let lag: String = writer.query_one("SHOW coeval.snapshot_lag", &[]).await.unwrap().get(0);
        let (transaction, begins) = (after.get::<_, i64>(3), lag.starts_with("1 commits, "));
        assert!(
            begins && lag.ends_with(&format!(" ms, held by transaction {transaction} of process {pid}")),
            "{lag}"
        );
        holder.batch_execute("ROLLBACK").await.unwrap();
    });
}

#[test]
fn columns_of_the_catalog_have_the_types_that_only_it_has() {
    let server = Running::new();
    server.runtime.block_on(async {
        let client = server.client().await;
        client.batch_execute("CREATE TABLE t (id int PRIMARY KEY)").await.unwrap();
        let sql = "SELECT c.oid, c.relname, c.relkind, c.oid::int, c.relname || 'x', (SELECT array_agg(a.attrelid)
            FROM pg_attribute AS a WHERE a.attrelid = c.oid), c.tableoid FROM pg_class AS c WHERE c.relname = $1";
        let statement = client.prepare(sql).await.unwrap();
        let types: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
        let wanted = [&Type::OID, &Type::NAME, &Type::CHAR, &Type::INT4, &Type::TEXT, &Type::OID_ARRAY, &Type::OID];
        assert_eq!(types, wanted);
        let row = client.query_one(&statement, &[&"t"]).await.unwrap();
        let oid: u32 = row.get(0);
        assert_eq!((row.get::<_, &str>(1), row.get::<_, i8>(2)), ("t", b'r' as i8));
        assert_eq!(row.get::<_, Vec<u32>>(5), [oid]);
        assert_eq!(row.get::<_, u32>(6), 1259);

        let sql = "SELECT table_name, table_type, is_insertable_into, table_name || 'x'
            FROM information_schema.tables";
        let standard = client.prepare(sql).await.unwrap();
        let types: Vec<&Type> = standard.columns().iter().map(|column| column.type_()).collect();
        assert_eq!(types, [&Type::NAME, &Type::VARCHAR, &Type::VARCHAR, &Type::TEXT]);

        let sql = "SELECT pg_advisory_lock(1), pg_advisory_unlock_all() AS done, pg_sleep(0)";
        let called = client.prepare(sql).await.unwrap();
        assert!(called.columns().iter().all(|column| *column.type_() == Type::VOID));

        let by_oid = client.prepare("SELECT relname FROM pg_class WHERE oid = ANY($1::oid[])").await.unwrap();
        assert_eq!(by_oid.params(), [Type::OID_ARRAY]);
        let found = client.query_one(&by_oid, &[&vec![oid]]).await.unwrap();
        assert_eq!(found.get::<_, &str>(0), "t");
    });
}
