// SPDX-License-Identifier: Apache-2.0
//! Aggregates begun at the bricks answer as those over a table of rows with the same contents, whoever asks.

mod metrics;
mod model;

use crate::engine::Engine;
use crate::session::Session;
use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};

/// The same rows in bricks and as rows: of some slots nothing, of others only what conditions leave out, NULLs, and one
/// brick of which parts are read apart.
const TABLES: &str = "
    CREATE TABLE bricks (region text, slot int, day date, likes int, amount bigint, price numeric(10, 2), weight float8,
                         note text, is_new boolean)
        USING brick PARTITION BY (region CARDINALITY 4 RANGE SIZE 2, slot CARDINALITY 1000 RANGE SIZE 100,
                                  day RANGE SIZE '10 days' FROM '2026-01-01');
    CREATE TABLE plain (region text, slot int, day date, likes int, amount bigint, price numeric(10, 2), weight float8,
                        note text, is_new boolean);
    INSERT INTO plain SELECT CASE g % 3 WHEN 0 THEN 'north' WHEN 1 THEN 'south' ELSE 'west' END,
            CASE WHEN g < 300000 THEN g % 70 ELSE g % 500 END, date '2026-01-05' + (g % 2)::int, nullif(g % 11, 3),
            CASE WHEN g % 13 = 0 THEN NULL ELSE 4611686018427387904 + g END, (g % 1000) / 8.0, g % 17,
            'note ' || g % 5, g % 7 = 2
        FROM generate_series(1, 340000) g;
    INSERT INTO bricks SELECT * FROM plain;
    CREATE TABLE days (day date PRIMARY KEY, name text);
    INSERT INTO days VALUES ('2026-01-05', 'five'), ('2026-01-06', 'six');";

fn session() -> Session {
    session_with(TABLES)
}

fn session_with(tables: &str) -> Session {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    session.execute(tables).unwrap();
    session
}

fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let of_batch = |batch: &RecordBatch| {
        let cell = |column: &dyn Array, row| match column.is_null(row) {
            true => "NULL".to_owned(),
            false => array_value_to_string(column, row).unwrap(),
        };
        let line =
            |row| batch.columns().iter().map(|column| cell(column, row)).collect::<Vec<_>>().join(" | ");
        (0..batch.num_rows()).map(line).collect::<Vec<_>>()
    };
    let mut rows: Vec<String> = batches.flat_map(of_batch).collect();
    rows.sort();
    rows
}

/// The line of the leaf in the plan.
fn leaf(session: &mut Session, sql: &str) -> Option<String> {
    rows(session, &format!("EXPLAIN {sql}")).into_iter().find(|line| line.contains("BrickAggregate"))
}

/// Asks both tables. The line of the leaf in the plan over bricks.
fn asked(session: &mut Session, sql: &str) -> Option<String> {
    let expected = rows(session, &sql.replace("FROM bricks", "FROM plain"));
    assert_eq!(rows(session, sql), expected, "{sql}");
    leaf(session, sql)
}

/// Asks both tables, where the leaf is to be.
fn begun(session: &mut Session, sql: &str) -> String {
    asked(session, sql).unwrap_or_else(|| panic!("not begun at the bricks: {sql}"))
}

/// All that can be added up of a row.
const SUMS: &str = "count(*), count(likes), sum(likes), avg(likes), sum(amount), avg(amount), max(amount), sum(price), \
                    avg(price), min(weight), sum(weight), min(note), max(day), bool_or(is_new), count(1)";

const CONDITIONS: [&str; 9] = [
    "true",
    "likes < 5",
    "likes < 5 OR likes IS NULL",
    "slot BETWEEN 0 AND 99",
    "slot < 150 AND amount IS NOT NULL AND note <> 'note 3'",
    "region = 'north' AND weight > 3",
    "region IN ('south', 'nowhere') AND slot IN (3, 80, 211)",
    "day = '2026-01-06' AND is_new",
    "likes = 3",
];

#[test]
fn all_rows_are_one_group() {
    let mut session = session();
    for condition in CONDITIONS {
        begun(&mut session, &format!("SELECT {SUMS} FROM bricks WHERE {condition}"));
    }
    begun(
        &mut session,
        "SELECT sum(likes + 1), sum(amount - likes), count(nullif(likes, 2)) FROM bricks WHERE likes > 1",
    );
    begun(&mut session, "SELECT sum(10 / likes) FROM bricks WHERE likes <> 0");
}

#[test]
fn groups_are_combinations_of_dimensions() {
    let mut session = session();
    for condition in CONDITIONS {
        for groups in ["slot", "region", "region, slot", "slot, day, region"] {
            begun(
                &mut session,
                &format!("SELECT {groups}, {SUMS} FROM bricks WHERE {condition} GROUP BY {groups}"),
            );
        }
    }
    asked(
        &mut session,
        "SELECT slot % 7, sum(likes) FROM (SELECT slot, likes FROM bricks GROUP BY slot, likes) GROUP BY 1",
    );
}

#[test]
fn a_condition_that_a_brick_satisfies_as_a_whole_is_not_asked_of_its_rows() {
    let mut session = session();
    let line = begun(&mut session, "SELECT sum(likes) FROM bricks WHERE slot BETWEEN 100 AND 199");
    assert!(line.contains("bricks=2, pruned=8"), "{line}");
}

#[test]
fn what_is_above_the_aggregate_finds_its_columns() {
    let mut session = session();
    for sql in [
        "SELECT sum(likes) + 1, slot FROM bricks GROUP BY slot HAVING count(*) > 4000",
        "SELECT slot FROM bricks GROUP BY slot",
        "SELECT DISTINCT region FROM bricks",
        "SELECT count(*) FROM (SELECT slot, region FROM bricks GROUP BY 1, 2)",
        "SELECT d.name, x.s FROM (SELECT day, sum(amount) AS s FROM bricks GROUP BY day) x JOIN days d USING (day)",
        "SELECT region, sum(likes) FROM bricks GROUP BY region ORDER BY 2, 1 LIMIT 1",
        "SELECT slot, n FROM (SELECT slot, count(*) AS n, max(day) AS last FROM bricks GROUP BY slot) WHERE slot < 3",
    ] {
        begun(&mut session, sql);
    }
}

#[test]
fn what_the_leaf_cannot_do_stays_as_it_was() {
    let mut session = session();
    for sql in [
        "SELECT weight, count(*) FROM bricks GROUP BY weight",
        "SELECT slot, count(DISTINCT weight), sum(likes) FROM bricks GROUP BY slot",
        "SELECT sum(likes) FILTER (WHERE slot < 3) FROM bricks",
        "SELECT slot, region, sum(likes) FROM bricks GROUP BY GROUPING SETS ((slot), (region))",
        "SELECT sum(likes) FROM (SELECT likes FROM bricks ORDER BY amount, slot LIMIT 10)",
    ] {
        assert_eq!(asked(&mut session, sql), None, "{sql}");
    }
    // The finest groups are begun at the bricks.
    let rollup = "SELECT slot, region, sum(likes) FROM bricks GROUP BY ROLLUP (slot, region)";
    assert!(asked(&mut session, rollup).is_some_and(|asked| asked.contains("groups=[slot, region]")));
}

/// Accumulators were told of all groups that a brick can have, and took those for seen of which no row had come: a group whose
/// first rows, all NULL, came behind a batch without NULLs had the sum 0, and a number of the type's for its least.
#[test]
fn a_group_of_nulls_that_comes_late_has_no_sum() {
    let mut session = session_with(
        "CREATE TABLE bricks (slot int, likes int, amount bigint, weight float8)
             USING brick PARTITION BY (slot CARDINALITY 100 RANGE SIZE 100);
         CREATE TABLE plain (slot int, likes int, amount bigint, weight float8);
         INSERT INTO plain SELECT CASE WHEN g > 40000 THEN 60 + g % 3 ELSE g % 50 END,
                 CASE WHEN g <= 40000 THEN g END, CASE WHEN g <= 40000 THEN g END, CASE WHEN g <= 40000 THEN g END
             FROM generate_series(1, 50000) g;
         INSERT INTO bricks SELECT * FROM plain",
    );
    let sql = "SELECT slot, count(likes), sum(likes), avg(likes), min(likes), max(amount), sum(amount), sum(weight), \
                      max(weight) FROM bricks GROUP BY slot";
    begun(&mut session, sql);
}

#[test]
fn snapshots_deletes_and_own_rows_count() {
    let mut session = session();
    let sql = format!("SELECT slot, {SUMS} FROM bricks WHERE likes > 2 GROUP BY slot");
    for change in [
        "BEGIN",
        "INSERT INTO bricks SELECT * FROM plain WHERE slot < 200; INSERT INTO plain SELECT * FROM plain WHERE slot < 200",
        "DELETE FROM bricks WHERE slot BETWEEN 100 AND 299; DELETE FROM plain WHERE slot BETWEEN 100 AND 299",
        "INSERT INTO bricks SELECT * FROM plain WHERE slot = 7; INSERT INTO plain SELECT * FROM plain WHERE slot = 7",
        "ROLLBACK",
        "ALTER TABLE bricks ADD COLUMN more int DEFAULT 3; ALTER TABLE plain ADD COLUMN more int DEFAULT 3",
    ] {
        session.execute(change).unwrap();
        begun(&mut session, &sql);
        begun(&mut session, &format!("SELECT {SUMS} FROM bricks"));
    }
    begun(&mut session, "SELECT sum(more), count(more) FROM bricks WHERE slot < 5 AND likes > 1");
}

#[test]
fn errors_of_rows_that_count_are_errors() {
    let mut session = session();
    let error = session.execute("SELECT slot, sum(10 / likes) FROM bricks GROUP BY slot").unwrap_err();
    assert_eq!(error.state.code(), "22012", "{error}");
}
