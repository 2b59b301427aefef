// SPDX-License-Identifier: Apache-2.0
//! Queries whose physical plan is kept for the versions of their tables: copies give the rows of a plan that is made, of no other version, and keep none.

use super::{Plan, Prepared};
use crate::engine::Engine;
use crate::memory::QueryMemory;
use crate::session::{Execution, Session};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Float64Type;
use coeval_store::{Store, StoreOptions};
use std::sync::Arc;
use std::time::Duration;

/// So many executions come before one that runs a copy: one that optimizes the plan, and one that sees the same versions and makes the template.
const BEFORE_A_COPY: usize = 2;

/// Two tables, of which the second has several rows for some of the first, and NULLs.
fn engine() -> Arc<Engine> {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    for sql in [
        "CREATE TABLE shops (id int PRIMARY KEY, name text, county text)",
        "CREATE TABLE sales (id int PRIMARY KEY, shop int, amount int, price numeric(10,2))",
        "INSERT INTO shops SELECT i, 'shop ' || i, 'county ' || i % 3 FROM generate_series(1, 40) i",
        "INSERT INTO sales SELECT i, nullif(i % 50, 7), i % 9, i % 100 + 0.25 FROM generate_series(1, 30000) i",
        "CREATE TABLE duties (id int PRIMARY KEY, on_duty bool)",
        "INSERT INTO duties VALUES (1, true), (2, true)",
    ] {
        session.execute(sql).unwrap();
    }
    engine
}

/// A session whose queries run through DataFusion.
fn session(engine: &Arc<Engine>) -> Session {
    let mut session = engine.session();
    session.execute("SET coeval.point_path = off").unwrap();
    session
}

fn rows(session: &mut Session, query: &Arc<Prepared>) -> String {
    let rows = session.run(query, &[]).unwrap().rows.expect("it is a query");
    arrow::util::pretty::pretty_format_batches(&rows.batches).unwrap().to_string()
}

/// The rows of a query that is planned for this alone.
fn expected(session: &mut Session, sql: &str) -> String {
    let query = session.prepare(sql).unwrap();
    rows(session, &query)
}

/// Runs it until the next execution runs a copy.
fn prepared(session: &mut Session, sql: &str) -> Arc<Prepared> {
    let query = session.prepare(sql).unwrap();
    for _ in 0..BEFORE_A_COPY {
        rows(session, &query);
    }
    assert!(query.keeps_physical(), "{sql}");
    query
}

/// Waits until the next execution may run a copy: threads of the one before may be about to end.
fn await_free(query: &Prepared) {
    for _ in 0..10_000 {
        if query.may_copy_physical() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("something holds what a statement has lent");
}

const COPIED: [&str; 18] = [
    "SELECT county, sum(price), count(*) FROM sales JOIN shops ON shop = shops.id WHERE amount > 2 GROUP BY county ORDER BY 1",
    "SELECT shops.id, sum(amount) FROM shops LEFT JOIN sales ON shop = shops.id AND amount > 7 GROUP BY shops.id ORDER BY 2, 1",
    "SELECT count(*), count(shops.id), count(sales.id) FROM shops FULL JOIN sales ON shop = shops.id",
    "SELECT id FROM shops WHERE NOT EXISTS (SELECT 1 FROM sales WHERE shop = shops.id) ORDER BY 1",
    "SELECT id FROM shops WHERE id IN (SELECT shop FROM sales WHERE price > 99) ORDER BY 1",
    "SELECT count(*) FROM shops, sales WHERE sales.id < 100 AND shops.id < sales.amount",
    "SELECT count(*) FROM shops a CROSS JOIN shops b",
    "SELECT id, price FROM sales WHERE amount = 3 ORDER BY price DESC, id LIMIT 5",
    "SELECT DISTINCT amount, shop FROM sales ORDER BY 2, 1 LIMIT 12 OFFSET 3",
    "SELECT avg(price) / 3, round(sum(price) / count(*), 3), upper(max(county)) FROM sales JOIN shops ON shop = shops.id GROUP BY county ORDER BY 1, 3",
    "WITH s AS (SELECT shop, sum(price) AS total FROM sales GROUP BY shop)
     SELECT a.shop, a.total - b.total FROM s a JOIN s b ON a.shop = b.shop + 1 ORDER BY 1",
    "SELECT county FROM shops WHERE id < 5 UNION ALL SELECT name FROM shops WHERE id > 37 ORDER BY 1",
    "SELECT count(DISTINCT shop), sum(amount) FILTER (WHERE price < 50) FROM sales",
    "SELECT id, county, sum(id) OVER (PARTITION BY county ORDER BY id), lag(id, 2) OVER (ORDER BY id) FROM shops ORDER BY 1",
    "SELECT id, avg(id) OVER (), count(*) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM shops ORDER BY 1",
    "SELECT shop, id FROM (SELECT shop, id, row_number() OVER (PARTITION BY shop ORDER BY price DESC, id) AS place FROM sales) s
     WHERE place < 3 ORDER BY 1, 2",
    "SELECT county, amount, count(*) FROM sales JOIN shops ON shop = shops.id GROUP BY ROLLUP (county, amount) ORDER BY 1, 2, 3",
    "SELECT min(price), max(amount), max(shop) FILTER (WHERE amount = 4) FROM sales WHERE id > 5",
];

/// Values of subqueries in all places: in filters of scans and of groups, in keys and conditions of joins, in what goes out, is grouped, added up,
/// sorted and framed, in subqueries, and where nobody asks for them.
const WITH_VALUES: [&str; 15] = [
    "SELECT count(*), sum(price) FROM sales WHERE shop = (SELECT max(id) FROM shops WHERE county = 'county 1')",
    "SELECT count(*) FROM sales WHERE price BETWEEN (SELECT avg(price) FROM sales) AND (SELECT avg(price) + 20 FROM sales)",
    "SELECT shop, sum(amount) FROM sales GROUP BY shop
     HAVING sum(amount) > (SELECT avg(total) FROM (SELECT sum(amount) AS total FROM sales GROUP BY shop) s) ORDER BY 1",
    "SELECT id, id - (SELECT avg(amount) FROM sales) FROM shops ORDER BY abs(id - (SELECT avg(shop) FROM sales)), id LIMIT 7",
    "SELECT count(*), count(sales.id) FROM shops LEFT JOIN sales
     ON shop = shops.id AND amount > (SELECT avg(amount) + 2 FROM sales)",
    "SELECT count(*) FROM shops JOIN sales ON shop + (SELECT count(*) FROM duties WHERE on_duty) = shops.id",
    "SELECT count(*) FROM shops, sales
     WHERE sales.id < 100 AND shops.id + (SELECT avg(amount) / 2 FROM sales WHERE price < 30) < sales.amount",
    "SELECT county, sum(id * (SELECT count(*) FROM duties WHERE on_duty)), count(*) FILTER (WHERE id > (SELECT avg(id) FROM shops))
     FROM shops GROUP BY county ORDER BY 1",
    "SELECT part, count(*) FROM (SELECT id / (SELECT count(DISTINCT amount) FROM sales) AS part FROM shops) s GROUP BY part ORDER BY 1",
    "SELECT id, sum(id + (SELECT sum(amount) FROM sales)) OVER (PARTITION BY county ORDER BY id) FROM shops ORDER BY 1",
    "SELECT count(*) FROM sales WHERE amount > (SELECT avg(id) / 10 FROM shops WHERE id > (SELECT 3 * count(*) FROM duties WHERE on_duty))",
    "SELECT id FROM shops WHERE county LIKE (SELECT min(county) || '%' FROM shops WHERE id > 30) ORDER BY 1",
    "SELECT id FROM shops WHERE id IN (3, (SELECT max(shop) - 9 FROM sales WHERE amount = 4)) ORDER BY 1",
    "SELECT (SELECT sum(amount) FROM sales) AS found UNION ALL SELECT (SELECT count(*) FROM shops WHERE id > 5) ORDER BY 1",
    "SELECT count(*) FROM shops WHERE id > 1000 AND id = (SELECT 1 / (count(*) - count(id)) FROM sales WHERE id > 5)",
];

/// To break it: leave out that joins are reset. Then a copy joins the rows that the first one has collected, which the second update shows.
#[test]
fn copies_give_what_plans_give_that_are_made() {
    let engine = engine();
    let mut session = session(&engine);
    for sql in COPIED.into_iter().chain(WITH_VALUES) {
        let first = expected(&mut session, sql);
        let query = prepared(&mut session, sql);
        for execution in 0..3 {
            await_free(&query);
            assert_eq!(rows(&mut session, &query), first, "{sql}, copy {execution}");
        }
        assert!(query.keeps_physical(), "{sql}");
    }
}

/// To break it: compare no versions.
#[test]
fn a_copy_is_of_the_versions_that_its_template_is_of() {
    let engine = engine();
    let mut session = session(&engine);
    for sql in COPIED.into_iter().chain(WITH_VALUES) {
        let query = prepared(&mut session, sql);
        for change in [
            "UPDATE sales SET amount = amount + 1, price = price + 1 WHERE id % 3 = 0",
            "DELETE FROM sales WHERE id % 1000 = 1",
            "UPDATE shops SET county = county || '!' WHERE id % 4 = 0",
            "INSERT INTO shops SELECT max(id) + 1, 'new', 'county 0' FROM shops",
            "UPDATE duties SET on_duty = NOT on_duty WHERE id = 1",
        ] {
            session.execute(change).unwrap();
            let now = expected(&mut session, sql);
            for execution in 0..=BEFORE_A_COPY {
                assert_eq!(rows(&mut session, &query), now, "{sql}, execution {execution} after {change}");
            }
        }
        assert!(query.keeps_physical(), "{sql}");
    }
}

/// Of a query that names neither `amount` nor `note`. A table of the session hides another one of that name.
const BETWEEN_EXECUTIONS: [&str; 13] = [
    "CHECKPOINT",
    "BEGIN; SAVEPOINT one; DELETE FROM sales WHERE id % 7 = 0; SAVEPOINT two; UPDATE sales SET price = 0",
    "ROLLBACK TO two",
    "ROLLBACK TO one",
    "COMMIT",
    "CREATE INDEX sales_of_shops ON sales (shop)",
    "ALTER TABLE sales ADD COLUMN note text DEFAULT 'none'",
    "ALTER TABLE sales DROP COLUMN amount",
    "SET TimeZone = 'Asia/Tokyo'",
    "TRUNCATE shops",
    "DROP TABLE shops; CREATE TABLE shops (id int PRIMARY KEY, name text, county text);
     INSERT INTO shops SELECT i, 'shop', 'county ' || i % 2 FROM generate_series(1, 30) i",
    "CREATE TEMP TABLE shops (id int, name text, county text); INSERT INTO shops VALUES (1, 'own', 'here')",
    "DROP TABLE shops",
];

#[test]
fn a_copy_gives_what_there_is_whatever_became_of_the_tables() {
    let engine = engine();
    let mut session = session(&engine);
    let sql = "SELECT county, sum(price), count(*) FROM sales JOIN shops ON shop = shops.id GROUP BY county ORDER BY 1";
    let query = prepared(&mut session, sql);
    for change in BETWEEN_EXECUTIONS {
        session.execute(change).unwrap();
        for execution in 0..=BEFORE_A_COPY {
            let now = expected(&mut session, sql);
            assert_eq!(rows(&mut session, &query), now, "execution {execution} after {change}");
        }
    }
}

#[test]
fn a_transaction_sees_its_own_rows_and_nobody_else_does() {
    let engine = engine();
    let (mut one, mut other) = (session(&engine), session(&engine));
    let sql = "SELECT count(*), sum(price) FROM sales JOIN shops ON shop = shops.id";
    let (query, of_other) = (prepared(&mut one, sql), prepared(&mut other, sql));
    let before = rows(&mut one, &query);
    one.execute("BEGIN; UPDATE sales SET price = price + 1").unwrap();
    for _ in 0..=BEFORE_A_COPY {
        assert_ne!(rows(&mut one, &query), before);
        assert_eq!(rows(&mut other, &of_other), before);
    }
    one.execute("ROLLBACK").unwrap();
    for _ in 0..=BEFORE_A_COPY {
        assert_eq!(rows(&mut one, &query), before);
    }
}

/// To break it: note no scans of a copy.
#[test]
fn what_a_copy_reads_is_certified() {
    let engine = engine();
    let (mut one, mut other) = (session(&engine), session(&engine));
    // All rows count as read.
    let sql = "SELECT count(*) FROM duties a, duties b WHERE a.on_duty AND b.on_duty";
    for session in [&mut one, &mut other] {
        session.execute("SET default_transaction_isolation = serializable").unwrap();
    }
    let (query, of_other) = (prepared(&mut one, sql), prepared(&mut other, sql));
    for session in [&mut one, &mut other] {
        session.execute("BEGIN").unwrap();
    }
    assert!(rows(&mut one, &query).contains("| 4 "));
    assert!(rows(&mut other, &of_other).contains("| 4 "));
    one.execute("UPDATE duties SET on_duty = false WHERE id = 1").unwrap();
    other.execute("UPDATE duties SET on_duty = false WHERE id = 2").unwrap();
    one.execute("COMMIT").unwrap();
    let refused = other.execute("COMMIT").unwrap_err();
    assert_eq!(refused.state.code(), "40001");
}

/// To break it: keep the scan with its view in the place of a template of it.
#[test]
fn a_template_keeps_no_version() {
    let engine = engine();
    let mut session = session(&engine);
    let query =
        prepared(&mut session, "SELECT avg(price) / 3, count(*) FROM sales JOIN shops ON shop = shops.id");
    rows(&mut session, &query);
    let version = {
        let world = engine.store().world();
        let table = world.tables().find(|table| table.def().name.name == "sales").expect("it was made");
        Arc::downgrade(table)
    };
    session.execute("UPDATE sales SET amount = 0 WHERE id = 1").unwrap();
    assert!(query.keeps_physical());
    // The reader of a safe snapshot, and who publishes worlds, may still be at the one before.
    for _ in 0..1_000 {
        if version.upgrade().is_none() {
            return;
        }
        session.execute("UPDATE shops SET name = name WHERE id = 1").unwrap();
    }
    panic!("a version is there that nobody reads");
}

/// To break it: let functions hold what the statement that made the template ran in.
#[test]
fn a_template_keeps_no_environment_of_a_statement() {
    let engine = engine();
    let mut session = session(&engine);
    let environments = || Arc::strong_count(&engine.query_environment().disk_manager);
    let before = environments();
    let correlated =
        "SELECT upper(name) FROM shops WHERE NOT EXISTS (SELECT 1 FROM sales WHERE shop = shops.id)";
    let query = prepared(&mut session, correlated);
    // Threads may be about to end.
    for _ in 0..10_000 {
        if environments() <= before {
            assert!(query.keeps_physical());
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("something holds what a statement has run in");
}

/// To break it: let functions of a second copy look at what the first statement lends.
#[test]
fn a_query_that_is_open_may_be_run_again() {
    let engine = engine();
    let mut session = session(&engine);
    let sql = "SELECT sales.id, price / 3 FROM sales JOIN shops ON shop = shops.id ORDER BY 1";
    let first = expected(&mut session, sql);
    session.execute(&format!("PREPARE q AS {sql}")).unwrap();
    let run = |session: &mut Session| session.execute("EXECUTE q").unwrap();
    for _ in 0..=BEFORE_A_COPY {
        run(&mut session);
    }
    session.execute(&format!("BEGIN; DECLARE c CURSOR FOR {sql}; FETCH 10 FROM c")).unwrap();
    let query = prepared(&mut session, sql);
    assert_eq!(rows(&mut session, &query), first);
    session.execute("FETCH 10 FROM c; COMMIT").unwrap();
}

/// To break it: count the template of no query.
#[test]
fn the_memory_of_a_template_counts_from_the_beginning() {
    let engine = engine();
    let mut session = session(&engine);
    let mut bytes = |bound: &str| {
        let sql = format!(
            "SELECT county, sum(price) FROM sales JOIN shops ON shop = shops.id WHERE amount > {bound} GROUP BY county"
        );
        match &session.prepare(&sql).unwrap().planned.plan {
            Plan::Query { plan, .. } => plan.bytes(),
            Plan::Point(_) | Plan::General { .. } => panic!("it is a query"),
        }
    };
    // Of a query with parameters no physical plan is kept.
    assert!(bytes("3") * 4 > bytes("$1") * 5);
}

/// To break it: let functions of a copy look at no statement.
#[test]
fn functions_of_a_copy_ask_for_the_memory_of_their_statement() {
    let memory = QueryMemory { bytes: Some(64 << 20), ..QueryMemory::default() };
    let engine = Engine::with_memory(Store::in_memory(StoreOptions::default()), &memory).unwrap();
    let mut session = session(&engine);
    for sql in [
        "CREATE TABLE shops (id int PRIMARY KEY, name text)",
        "INSERT INTO shops SELECT i, 'shop ' || i FROM generate_series(1, 40) i",
    ] {
        session.execute(sql).unwrap();
    }
    // Some 80 MB for the only batch.
    let query = session.prepare("SELECT sum(length(repeat(name, 300000))) FROM shops").unwrap();
    for execution in 0..=BEFORE_A_COPY {
        let refused = session.run(&query, &[]).unwrap_err();
        assert_eq!(refused.state.code(), "53200", "execution {execution}");
    }
    assert!(query.keeps_physical());
}

/// To break it: let two statements run copies at once.
#[test]
fn a_query_may_be_run_again_while_its_rows_are_read() {
    let engine = engine();
    let mut session = session(&engine);
    let query =
        prepared(&mut session, "SELECT sales.id, upper(name) FROM sales JOIN shops ON shop = shops.id");
    let Execution::Stream(mut stream) = session.start_prepared(&query, &[]).unwrap() else {
        panic!("it is a query")
    };
    let count = |batches: &[RecordBatch]| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let mut read = count(&[stream.next_blocking().unwrap().unwrap()]);
    let meanwhile = session.run(&query, &[]).unwrap().rows.expect("it is a query");
    while let Some(batch) = stream.next_blocking() {
        read += count(&[batch.unwrap()]);
    }
    let behind = session.run(&query, &[]).unwrap().rows.expect("it is a query");
    assert_eq!((count(&meanwhile.batches), count(&behind.batches)), (read, read));
}

/// To break it: leave values in their places behind an execution. Then the next copy fails.
#[test]
fn each_copy_asks_its_subqueries_anew() {
    let engine = engine();
    let mut session = session(&engine);
    for sql in [
        "SELECT id, (SELECT random() + count(*) FROM sales WHERE id > 5) FROM duties",
        "SELECT sum(id * (SELECT random() FROM duties WHERE id = 1)) FROM shops",
        "SELECT id FROM shops WHERE id > (SELECT 40 * random() FROM duties WHERE id = 1) ORDER BY 1",
    ] {
        let query = prepared(&mut session, sql);
        let mut found: Vec<String> = Vec::new();
        for _ in 0..8 {
            await_free(&query);
            found.push(rows(&mut session, &query));
        }
        found.sort();
        found.dedup();
        assert!(found.len() > 1, "{sql}: {found:?}");
        assert!(query.keeps_physical(), "{sql}");
    }
}

/// The value that all these rows have.
fn only_value(batches: &[RecordBatch]) -> f64 {
    let columns = batches.iter().map(|batch| batch.column(0).as_primitive::<Float64Type>());
    let mut values = columns.flat_map(|column| column.values().iter().copied());
    let first = values.next().expect("there is a row");
    assert!(values.all(|value| value == first));
    first
}

/// To break it: let who makes rows by values of subqueries hold no loan.
#[test]
fn no_copy_begins_while_values_of_subqueries_are_asked_for() {
    let engine = engine();
    let mut session = session(&engine);
    // 90,000 rows: the query waits for who reads them.
    let sql = "SELECT (SELECT random() + count(*) FROM duties WHERE on_duty) FROM sales CROSS JOIN shops WHERE shops.id < 4";
    let query = prepared(&mut session, sql);
    await_free(&query);
    let Execution::Stream(mut stream) = session.start_prepared(&query, &[]).unwrap() else {
        panic!("it is a query")
    };
    let mut read = vec![stream.next_blocking().unwrap().unwrap()];
    assert!(!query.may_copy_physical());
    let meanwhile = session.run(&query, &[]).unwrap().rows.expect("it is a query");
    while let Some(batch) = stream.next_blocking() {
        read.push(batch.unwrap());
    }
    drop(stream);
    await_free(&query);
    let behind = session.run(&query, &[]).unwrap().rows.expect("it is a query");
    let values = [&read, &meanwhile.batches, &behind.batches].map(|batches| only_value(batches));
    assert!(values[0] != values[1] && values[1] != values[2] && values[0] != values[2], "{values:?}");
}

/// To break it: hold the loan longer than the rows of a query that is given up.
#[test]
fn a_copy_begins_behind_one_that_was_given_up_or_failed() {
    let engine = engine();
    let mut session = session(&engine);
    let sql =
        "SELECT sales.id, (SELECT sum(amount) FROM sales) FROM sales CROSS JOIN shops WHERE shops.id < 4";
    let query = prepared(&mut session, sql);
    for _ in 0..3 {
        await_free(&query);
        let Execution::Stream(mut stream) = session.start_prepared(&query, &[]).unwrap() else {
            panic!("it is a query")
        };
        stream.next_blocking().unwrap().unwrap();
        drop(stream);
    }
    let failing = "SELECT id / (SELECT count(*) - count(id) FROM sales WHERE id > 5) FROM shops";
    let query = session.prepare(failing).unwrap();
    for _ in 0..5 {
        let refused = session.run(&query, &[]).unwrap_err();
        assert_eq!(refused.state.code(), "22012");
        if query.keeps_physical() {
            await_free(&query);
        }
    }
    assert!(query.keeps_physical());
}

/// With exact counts, bounds and sums in the plan, with bricks that are left out, and none that are read.
const OF_BRICKS: [&str; 7] = [
    "SELECT count(*), sum(amount), min(amount), max(name) FROM facts",
    "SELECT name, sum(amount) FROM facts WHERE slot < 250 GROUP BY name ORDER BY 1",
    "SELECT county, count(*), sum(amount) FROM facts JOIN shops ON slot = shops.id GROUP BY county ORDER BY 1",
    "SELECT slot, amount FROM facts WHERE amount > (SELECT avg(amount) FROM facts) ORDER BY amount DESC, slot LIMIT 5",
    "SELECT count(*), min(name) FROM facts WHERE slot BETWEEN 700 AND 799",
    "SELECT a.name, count(*) FROM facts a JOIN facts b ON a.slot = b.slot AND b.amount < 40 GROUP BY a.name ORDER BY 1",
    "SELECT id FROM shops WHERE id IN (SELECT slot FROM facts WHERE amount < 30) ORDER BY 1",
];

/// To break it: know the version of a brick table by its rows alone, or give one to a transaction that has written to it.
#[test]
fn a_copy_reads_bricks_as_its_statement_sees_them() {
    let engine = engine();
    let (mut session, mut other) = (session(&engine), session(&engine));
    for sql in [
        "CREATE TABLE facts (slot int, name text, amount bigint) USING brick PARTITION BY (slot CARDINALITY 1000 RANGE SIZE 100)",
        "INSERT INTO facts SELECT g % 500, 'n' || g % 7, g FROM generate_series(1, 20000) g",
    ] {
        session.execute(sql).unwrap();
    }
    let queries = OF_BRICKS.map(|sql| (sql, prepared(&mut session, sql)));
    let check = |session: &mut Session, change: &str| {
        for (sql, query) in &queries {
            let now = expected(session, sql);
            for execution in 0..=BEFORE_A_COPY {
                assert_eq!(rows(session, query), now, "{sql}, execution {execution} after {change}");
            }
        }
    };
    for change in [
        "INSERT INTO facts SELECT 750, 'new', g FROM generate_series(1, 100) g",
        "DELETE FROM facts WHERE slot BETWEEN 100 AND 199",
        "BEGIN; INSERT INTO facts VALUES (3, 'own', 5)",
        "INSERT INTO facts VALUES (3, 'own', 6)",
        "SAVEPOINT one; DELETE FROM facts WHERE slot BETWEEN 0 AND 99",
        "ROLLBACK TO one",
        "ROLLBACK",
        "CHECKPOINT",
        "UPDATE shops SET county = county || '!' WHERE id % 4 = 0",
        "TRUNCATE facts",
        "INSERT INTO facts SELECT g % 300, 'again', g FROM generate_series(1, 5000) g",
    ] {
        session.execute(change).unwrap();
        check(&mut session, change);
    }
    let load = "INSERT INTO facts SELECT g % 900, 'other', g FROM generate_series(1, 5000) g";
    other.execute(&format!("BEGIN; {load}; SELECT count(*) FROM facts")).unwrap();
    check(&mut session, "what nobody else sees");
    other.execute("COMMIT").unwrap();
    check(&mut session, "a load");
    for (sql, query) in &queries {
        assert!(query.keeps_physical(), "{sql}");
    }
    let change = "ALTER TABLE facts ADD COLUMN more bigint";
    session.execute(change).unwrap();
    check(&mut session, change);
}
