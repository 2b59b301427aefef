// SPDX-License-Identifier: Apache-2.0
//! Groups by metrics: by codes of strings, by numbers between known bounds, by booleans, and by NULL, also beside dimensions.

use super::{asked, begun, leaf, rows, session_with};
use crate::session::Session;

/// The same rows in bricks and as rows. Numbers lie on both sides of 0; `wide` ones lie far from it and close together, `far` ones
/// far from each other; of `serial` each row has its own.
const TABLES: &str = "
    CREATE TABLE bricks (region text, slot int, name text, kind text NOT NULL, level int, tiny smallint, born date, at timestamp,
                         good boolean, wide bigint, far bigint, serial int, likes int, amount bigint, weight float8,
                         price numeric(10, 2))
        USING brick PARTITION BY (region CARDINALITY 4 RANGE SIZE 2, slot CARDINALITY 1000 RANGE SIZE 100);
    CREATE TABLE plain (region text, slot int, name text, kind text NOT NULL, level int, tiny smallint, born date, at timestamp,
                        good boolean, wide bigint, far bigint, serial int, likes int, amount bigint, weight float8,
                        price numeric(10, 2));
    INSERT INTO plain SELECT CASE g % 3 WHEN 0 THEN 'north' WHEN 1 THEN 'south' ELSE 'west' END, g % 200,
            CASE WHEN g % 9 <> 4 THEN 'name ' || g % 13 || CASE WHEN g % 2 = 0 THEN ', and that is a long one' ELSE '' END END,
            'kind ' || g % 3, nullif(g % 17, 3) - 8, (g % 5 - 2)::smallint, date '1970-01-05' - nullif(g % 11, 7),
            timestamp '2026-01-01' + (g % 4) * interval '1 microsecond', CASE WHEN g % 5 > 0 THEN g % 2 = 0 END,
            9000000000000000 + g % 6, (g % 2) * 9000000000000000, g, nullif(g % 11, 3),
            CASE WHEN g % 13 = 0 THEN NULL ELSE 4611686018427387904 + g END, g % 19, (g % 1000) / 8.0
        FROM generate_series(1, 60000) g;
    INSERT INTO bricks SELECT * FROM plain;";

/// What is asked of groups.
const SUMS: &str = "count(*), count(likes), sum(likes), avg(likes), sum(amount), max(amount), min(weight), sum(weight), min(name), \
                    max(born), bool_or(good)";

const GROUPS: [&str; 14] = [
    "name",
    "kind",
    "level",
    "tiny",
    "born",
    "at",
    "good",
    "wide",
    "name, kind",
    "good, level, kind",
    "wide, tiny, born",
    "slot, kind",
    "good, region, name",
    "region, slot, good",
];

const CONDITIONS: [&str; 7] = [
    "true",
    "likes < 5",
    "name = 'name 3' OR name IS NULL",
    "region = 'north' AND level > 3",
    "slot < 100 AND name <> 'name 5'",
    "good AND weight > 3",
    "kind IN ('kind 1', 'nowhere') AND NOT good",
];

fn by(groups: &str, condition: &str) -> String {
    format!("SELECT {groups}, {SUMS} FROM bricks WHERE {condition} GROUP BY {groups}")
}

/// Asks both tables for groups of each kind, where the leaf is to be.
fn all_begun(session: &mut Session) {
    for groups in GROUPS {
        begun(session, &by(groups, "true"));
    }
}

#[test]
fn groups_are_combinations_of_metrics_and_dimensions() {
    let mut session = session_with(TABLES);
    for condition in CONDITIONS {
        for groups in GROUPS {
            let line = begun(&mut session, &by(groups, condition));
            assert!(line.contains(&format!("groups=[{groups}]")), "{line}");
        }
    }
}

#[test]
fn what_is_above_the_groups_finds_its_columns() {
    let mut session = session_with(TABLES);
    for sql in [
        "SELECT DISTINCT name FROM bricks",
        "SELECT DISTINCT kind, good FROM bricks WHERE slot < 150",
        "SELECT count(*) FROM (SELECT level, name FROM bricks GROUP BY 1, 2)",
        "SELECT sum(likes) + 1, upper(name) FROM bricks GROUP BY name HAVING count(*) > 2000",
        "SELECT n.name, x.s FROM (SELECT name, sum(likes) AS s FROM bricks GROUP BY name) x
            JOIN (VALUES ('name 1'), ('name 3')) n (name) USING (name)",
        "SELECT name FROM (SELECT name, kind FROM bricks WHERE likes > 3) WHERE kind = 'kind 1' GROUP BY name",
    ] {
        begun(&mut session, sql);
    }
    for sql in [
        "SELECT count(DISTINCT name) FROM bricks",
        "SELECT name, level, sum(likes) FROM bricks GROUP BY ROLLUP (name, level)",
        "SELECT kind, max(n) FROM (SELECT kind, level, count(*) AS n FROM bricks GROUP BY kind, level) GROUP BY kind",
    ] {
        asked(&mut session, sql);
    }
}

#[test]
fn where_it_does_not_pay_the_plan_stays_as_it_was() {
    let mut session = session_with(TABLES);
    for sql in [
        // Nearly as many groups as rows.
        "SELECT serial, count(*) FROM bricks GROUP BY serial",
        "SELECT name, kind, level, tiny, wide, count(*) FROM bricks GROUP BY name, kind, level, tiny, wide",
        // There are two numbers, and too many that could be.
        "SELECT far, count(*) FROM bricks GROUP BY far",
        // They have no numbers.
        "SELECT weight, count(*) FROM bricks GROUP BY weight",
        "SELECT price, count(*) FROM bricks GROUP BY price",
        "SELECT level + 1, count(*) FROM bricks GROUP BY 1",
        // Decimals are computed elsewhere.
        "SELECT name, sum(price) FROM bricks GROUP BY name",
    ] {
        assert_eq!(asked(&mut session, sql), None, "{sql}");
    }
    begun(&mut session, "SELECT slot, sum(price) FROM bricks GROUP BY slot");
}

#[test]
fn snapshots_deletes_and_own_rows_count() {
    let mut session = session_with(TABLES);
    let more = |name: &str, level: i32| {
        let columns = format!(
            "region, slot, {name}, 'kind new', {level}, 9, born, at, NULL, wide - 3, far, serial, likes, amount, weight, price"
        );
        let from = "FROM plain WHERE slot < 120";
        format!("INSERT INTO bricks SELECT {columns} {from}; INSERT INTO plain SELECT {columns} {from}")
    };
    for change in [
        "BEGIN".to_owned(),
        more("'its own name'", 20),
        "DELETE FROM bricks WHERE slot < 100; DELETE FROM plain WHERE slot < 100".to_owned(),
        more("name || '!'", -30),
        "ROLLBACK".to_owned(),
        more("NULL", 33),
        "DELETE FROM bricks WHERE slot >= 100; DELETE FROM plain WHERE slot >= 100".to_owned(),
    ] {
        session.execute(&change).unwrap_or_else(|error| panic!("{error}: {change}"));
        all_begun(&mut session);
    }
}

#[test]
fn rows_that_came_without_a_column_are_groups_too() {
    let mut session = session_with(TABLES);
    let column = |table: &str| {
        format!(
            "ALTER TABLE {table} ADD COLUMN tag text DEFAULT 'old'; ALTER TABLE {table} ADD COLUMN grade int NOT NULL DEFAULT 70;
             ALTER TABLE {table} ADD COLUMN note text; ALTER TABLE {table} ADD COLUMN used boolean DEFAULT true"
        )
    };
    session.execute(&[column("bricks"), column("plain")].join(";")).unwrap();
    let new = "region, slot, name, kind, level, tiny, born, at, good, wide, far, serial, likes, amount, weight, price, \
               CASE WHEN slot % 3 > 0 THEN 'new' END, 64 + slot % 5, CASE WHEN slot % 2 = 0 THEN 'noted' END, slot % 7 = 0";
    for with_new_rows in [false, true] {
        if with_new_rows {
            let from = "FROM plain WHERE slot < 60";
            let load =
                format!("INSERT INTO bricks SELECT {new} {from}; INSERT INTO plain SELECT {new} {from}");
            session.execute(&load).unwrap();
        }
        for groups in
            ["tag", "grade", "note", "used", "tag, grade, used, note", "region, tag, note", "kind, grade"]
        {
            begun(&mut session, &by(groups, "true"));
            begun(&mut session, &by(groups, "slot < 30 AND likes > 1"));
        }
    }
}

#[test]
fn what_others_load_meanwhile_is_no_group_of_a_snapshot() {
    let mut session = session_with(TABLES);
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    let sql = by("name, good", "true");
    let before = rows(&mut session, &sql);
    let mut other = session.engine().session();
    other
        .execute(
            "INSERT INTO bricks (region, slot, name, kind, level) VALUES ('east', 500, 'new', 'new', 1000)",
        )
        .unwrap();
    other
        .execute("INSERT INTO bricks (region, slot, name, kind) VALUES ('north', 5, 'newer', 'newer')")
        .unwrap();
    assert_eq!(rows(&mut session, &sql), before);
    assert!(leaf(&mut session, &sql).is_some());
    session.execute("COMMIT").unwrap();
    assert_eq!(rows(&mut session, &sql).len(), before.len() + 2);
}

#[test]
fn errors_of_rows_that_count_are_errors() {
    let mut session = session_with(TABLES);
    let sql = "SELECT name, sum(10 / likes) FROM bricks GROUP BY name";
    assert!(leaf(&mut session, sql).is_some());
    let error = session.execute(sql).unwrap_err();
    assert_eq!(error.state.code(), "22012", "{error}");
    begun(&mut session, "SELECT name, sum(10 / likes) FROM bricks WHERE likes <> 0 GROUP BY name");
}
