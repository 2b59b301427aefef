// SPDX-License-Identifier: Apache-2.0

mod many_rows;
mod paths;

use crate::engine::Engine;
use crate::error::SqlError;
use crate::session::Session;
use crate::types::{column_type_of_arrow, format_value};
use chrono_tz::Tz;
use coeval_store::{
    AccessMode, CatalogChange, CheckDef, ColumnDef, ColumnType, IndexDef, QualifiedName, SequenceDef, Store,
    StoreOptions, TableDef, Uniqueness, Value, value_at,
};
use coeval_txn::Isolation;

/// A database with the table
/// `t(a int, b int, c text, n numeric(12,2), d double, v varchar(5), s char(4), u int unique)`, key (a, b),
/// an index on c, and `seq(id bigint identity, x int default 7, check x > 0)`.
fn session() -> Session {
    let store = Store::in_memory(StoreOptions::default());
    let engine = Engine::new(store.clone()).unwrap();
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let columns = vec![
        ColumnDef::new("a", ColumnType::Int).not_null(),
        ColumnDef::new("b", ColumnType::Int).not_null(),
        ColumnDef::new("c", ColumnType::Text),
        ColumnDef::new("n", ColumnType::Numeric { precision: 12, scale: 2 }),
        ColumnDef::new("d", ColumnType::Double),
        ColumnDef::new("v", ColumnType::Varchar(5)),
        ColumnDef::new("s", ColumnType::Char(4)),
        ColumnDef::new("u", ColumnType::Int),
    ];
    let mut t = TableDef::new(store.new_space_id(), QualifiedName::new("public", "t"), columns, vec![0, 1]);
    let index = |name: &str, column, uniqueness| IndexDef {
        id: store.new_space_id(),
        name: name.to_owned(),
        columns: vec![column],
        uniqueness,
        declared_order: Vec::new(),
    };
    t.indexes.push(index("t_c_idx", 2, Uniqueness::Any));
    t.indexes.push(index("t_u_key", 7, Uniqueness::Constraint));
    transaction.change_catalog(CatalogChange::PutTable(Box::new(t))).unwrap();
    let sequence = SequenceDef {
        id: store.new_sequence_id(),
        name: QualifiedName::new("public", "seq_id_seq"),
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cycle: false,
        ty: Default::default(),
        owned_by: None,
        access: Default::default(),
    };
    let mut id = ColumnDef::new("id", ColumnType::BigInt).not_null();
    id.sequence = Some(sequence.id);
    let mut x = ColumnDef::new("x", ColumnType::Int);
    x.default = Some("3 + 4".to_owned());
    let mut y = ColumnDef::new("y", ColumnType::Text);
    y.default = Some("md5('x')".to_owned());
    let name = QualifiedName::new("public", "seq");
    let mut seq = TableDef::new(store.new_space_id(), name, vec![id, x, y], vec![0]);
    seq.checks.push(CheckDef {
        name: "seq_x_check".to_owned(),
        expression: "x > 0".to_owned(),
        validity: Default::default(),
    });
    transaction.change_catalog(CatalogChange::PutSequence(sequence)).unwrap();
    transaction.change_catalog(CatalogChange::PutTable(Box::new(seq))).unwrap();
    transaction.commit().unwrap();
    engine.session()
}

/// Three rows of a = 1 and one of a = 2.
fn filled() -> Session {
    let mut session = session();
    let sql = "INSERT INTO t (a, b, c, n, d, v, s, u) VALUES \
               (1, 1, 'one', 1.50, 0.5, 'x', 'ab', 10), (1, 2, 'two', 2.25, 1.5, 'y', NULL, 11), \
               (1, 3, 'one', NULL, NULL, NULL, 'cd', NULL), (2, 1, NULL, -3, 2.5, 'z', 'ab', 12)";
    assert_eq!(run(&mut session, sql).unwrap(), "INSERT 0 4");
    session
}

/// The rows as text, or the tag if there are none.
fn show(result: &crate::result::StatementResult) -> String {
    let Some(rows) = &result.rows else { return result.tag.to_string() };
    let mut lines = Vec::new();
    for batch in &rows.batches {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| {
                let ty = column_type_of_arrow(column.data_type()).unwrap();
                let column = arrow::compute::cast(column, &ty.arrow()).unwrap();
                let value = value_at(&column, row);
                if value.is_null() {
                    return "NULL".to_owned();
                }
                let mut text = String::new();
                format_value(value, ty, Tz::UTC, &mut text);
                text
            });
            lines.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    lines.join(" ")
}

fn run(session: &mut Session, sql: &str) -> Result<String, SqlError> {
    session.execute(sql).map(|results| show(results.last().unwrap()))
}

fn code(session: &mut Session, sql: &str) -> &'static str {
    run(session, sql).unwrap_err().state.code()
}

#[track_caller]
fn check(session: &mut Session, sql: &str, expected: &str) {
    assert_eq!(run(session, sql).unwrap_or_else(|error| panic!("{sql}: {error}")), expected, "{sql}");
}

#[test]
fn rows_are_found_by_key_and_by_prefix() {
    let mut session = filled();
    check(&mut session, "SELECT c, n FROM t WHERE a = 1 AND b = 2", "two|2.25");
    check(&mut session, "SELECT b FROM t WHERE a = 1", "1 2 3");
    check(&mut session, "SELECT b FROM t WHERE a = 1 ORDER BY b DESC", "3 2 1");
    check(&mut session, "SELECT b FROM t WHERE a = 1 AND b > 1", "2 3");
    check(&mut session, "SELECT b FROM t WHERE a = 1 AND b BETWEEN 1 AND 2", "1 2");
    check(&mut session, "SELECT b FROM t WHERE a = 1 AND b < 5000000000 AND b >= 2", "2 3");
    check(&mut session, "SELECT a, b FROM t WHERE a IN (2, 1, 2) AND b = 1", "1|1 2|1");
    check(&mut session, "SELECT a FROM t WHERE a = 1 AND b = NULL", "");
    check(&mut session, "SELECT a FROM t WHERE a = 5000000000", "");
    check(&mut session, "SELECT * FROM t WHERE a = 2", "2|1|NULL|-3.00|2.5|z|ab|12");
    check(&mut session, "SELECT x.b FROM t AS x WHERE x.a = 1 AND NOT x.c = 'one'", "2");
    check(&mut session, "SELECT b FROM t WHERE a = 1 ORDER BY b LIMIT 1 OFFSET 1", "2");
    check(&mut session, "SELECT a, b FROM t ORDER BY a DESC, b DESC LIMIT 2", "2|1 1|3");
}

#[test]
fn rows_are_found_through_an_index() {
    let mut session = filled();
    check(&mut session, "SELECT a, b FROM t WHERE c = 'one'", "1|1 1|3");
    check(&mut session, "SELECT a, b FROM t WHERE c = 'one' ORDER BY a DESC, b DESC", "1|3 1|1");
    check(&mut session, "SELECT b FROM t WHERE c >= 'p' ORDER BY c", "2");
    check(&mut session, "SELECT b FROM t WHERE u = 11", "2");
    check(&mut session, "SELECT u FROM t WHERE u > 10 ORDER BY u", "11 12");
    check(&mut session, "SELECT b FROM t WHERE c = 'one' AND b = 3 AND s = 'cd  '", "3");
}

#[test]
fn sorting_and_limits_keep_the_order_of_nulls() {
    let mut session = filled();
    check(&mut session, "SELECT b, n FROM t WHERE a = 1 ORDER BY n", "1|1.50 2|2.25 3|NULL");
    check(&mut session, "SELECT b, n FROM t WHERE a = 1 ORDER BY n DESC", "3|NULL 2|2.25 1|1.50");
    check(&mut session, "SELECT b FROM t WHERE a = 1 ORDER BY n DESC NULLS LAST LIMIT 2", "2 1");
    check(&mut session, "SELECT b AS k FROM t WHERE a = 1 ORDER BY k DESC", "3 2 1");
    assert_eq!(code(&mut session, "SELECT b FROM t WHERE a = 1 LIMIT -1"), "2201W");
}

#[test]
fn aggregates_over_a_range() {
    let mut session = filled();
    check(
        &mut session,
        "SELECT count(*), count(n), sum(n), min(n), max(n) FROM t WHERE a = 1",
        "3|2|3.75|1.50|2.25",
    );
    check(&mut session, "SELECT count(DISTINCT c), sum(b), max(b) + 1 FROM t WHERE a = 1", "2|6|4");
    check(&mut session, "SELECT coalesce(sum(n), 0) FROM t WHERE a = 9", "0.00");
    check(&mut session, "SELECT min(b) FROM t WHERE a = 1 AND b > 1", "2");
    check(&mut session, "SELECT max(b) FROM t WHERE a = 1", "3");
    check(&mut session, "SELECT max(b) FROM t WHERE a = 7", "NULL");
    check(&mut session, "SELECT c, count(*) FROM t WHERE a = 1 GROUP BY c ORDER BY c", "one|2 two|1");
    check(&mut session, "SELECT c FROM t WHERE a = 1 GROUP BY c HAVING count(*) > 1", "one");
    check(&mut session, "SELECT avg(d) FROM t WHERE a = 1", "1");
}

#[test]
fn joins_of_lookups() {
    let mut session = filled();
    check(&mut session, "SELECT x.b, y.b FROM t x, t y WHERE x.a = 1 AND y.a = 2 AND y.b = x.b", "1|1");
    check(&mut session, "SELECT count(*) FROM t x JOIN t y ON y.a = x.a AND y.b = x.b WHERE x.a = 1", "3");
}

#[test]
fn outer_joins_and_subqueries_are_steps_of_a_walk() {
    let mut session = filled();
    let joined = "SELECT x.b, y.c FROM t x LEFT JOIN t y ON y.a = x.a + 1 AND y.b = x.b WHERE x.a = 1";
    check(&mut session, joined, "1|NULL 2|NULL 3|NULL");
    check(&mut session, &joined.replace("y.c", "y.u"), "1|12 2|NULL 3|NULL");
    check(
        &mut session,
        &format!("EXPLAIN {joined}"),
        "Point path: scan t by primary key (a = 1) \
         Point path: left join: get t by primary key (a = x.a + 1, b = x.b)",
    );
    let asked = "SELECT b FROM t WHERE a = 1 AND NOT EXISTS (SELECT 1 FROM t y WHERE y.a = 2 AND y.b = t.b)";
    check(&mut session, asked, "2 3");
    check(
        &mut session,
        &format!("EXPLAIN {asked}"),
        "Point path: scan t by primary key (a = 1)   not exists: get t by primary key (a = 2, b = t.b)",
    );
    // A name is looked for in all queries around.
    let nested = "SELECT b FROM t WHERE a = 1 AND EXISTS (SELECT 1 FROM t y WHERE y.a = t.a AND y.b = 2 \
                  AND EXISTS (SELECT 1 FROM t z WHERE z.a = y.a AND z.b = t.b + 1))";
    check(&mut session, nested, "1 2");
    check(
        &mut session,
        &format!("EXPLAIN {nested}"),
        "Point path: scan t by primary key (a = 1)   exists: get t by primary key (a = t.a, b = 2)     \
         exists: get t by primary key (a = y.a, b = t.b + 1)",
    );
    let found = "SELECT a, b FROM t WHERE u IN (SELECT y.b + 9 FROM t y WHERE y.a = 1)";
    check(&mut session, found, "1|1 1|2 2|1");
    check(
        &mut session,
        &format!("EXPLAIN {found}"),
        "Point path: scan t by index t_u_key (u in (SELECT y.b + 9 FROM t y WHERE y.a = 1))   \
         in: scan t by primary key (a = 1)",
    );
}

#[test]
fn volatile_subqueries_are_not_asked_for_each_row() {
    let mut session = filled();
    let by_key = |what: &str, condition: &str| {
        format!("SELECT b, (SELECT {what} FROM t y WHERE y.a = 2 AND y.b = 1{condition}) FROM t WHERE a = 1")
    };
    for sql in [by_key("random()", ""), by_key("sum(random())", ""), by_key("y.d", " AND random() < 2")] {
        let explained = run(&mut session, &format!("EXPLAIN {sql}")).unwrap();
        assert!(!explained.starts_with("Point path"), "{explained}");
    }
    let explained = run(&mut session, &format!("EXPLAIN {}", by_key("y.d", ""))).unwrap();
    assert!(explained.starts_with("Point path"), "{explained}");
}

#[test]
fn many_keys_in_a_loop_over_rows_are_left_to_the_general_path() {
    let mut session = filled();
    let keys: Vec<String> = (100..4_100).map(|key| key.to_string()).collect();
    let joined = "SELECT x.b FROM t x LEFT JOIN t y ON y.u IN";
    let sql = format!("{joined} ({}) WHERE x.a = 1 ORDER BY x.b", keys.join(", "));
    check(&mut session, &sql, "1 2 3");
    let explained = run(&mut session, &format!("EXPLAIN ANALYZE {sql}")).unwrap();
    assert!(explained.contains("the general path ran"), "{explained}");
}

#[test]
fn updates_by_key() {
    let mut session = filled();
    check(
        &mut session,
        "UPDATE t SET n = n + 1, c = c || '!' WHERE a = 1 AND b = 1 RETURNING n, c",
        "2.50|one!",
    );
    check(&mut session, "UPDATE t SET d = d * 2 WHERE a = 1", "UPDATE 3");
    check(&mut session, "SELECT b, d FROM t WHERE a = 1", "1|1 2|3 3|NULL");
    check(&mut session, "UPDATE t SET b = b + 10 WHERE a = 1", "UPDATE 3");
    check(&mut session, "SELECT b FROM t WHERE a = 1", "11 12 13");
    assert_eq!(code(&mut session, "UPDATE t SET v = 'too long' WHERE a = 2"), "22001");
    assert_eq!(code(&mut session, "UPDATE t SET n = 99999999999 WHERE a = 2"), "22003");
    assert_eq!(code(&mut session, "UPDATE t SET b = b + 2147483647 WHERE a = 2"), "22003");
    assert_eq!(code(&mut session, "UPDATE t SET b = b / (b - 1) WHERE a = 2"), "22012");
    check(&mut session, "SELECT b, n FROM t WHERE a = 2", "1|-3.00");
}

#[test]
fn deletes_by_key() {
    let mut session = filled();
    check(&mut session, "DELETE FROM t WHERE a = 1 AND b = 2 RETURNING c", "two");
    check(&mut session, "DELETE FROM t WHERE a = 1 AND b > 9", "DELETE 0");
    check(&mut session, "DELETE FROM t WHERE c = 'one'", "DELETE 2");
    check(&mut session, "SELECT count(*) FROM t WHERE a = 1", "0");
}

#[test]
fn inserts_with_defaults_sequences_and_checks() {
    let mut session = session();
    check(&mut session, "INSERT INTO seq (x) VALUES (1), (DEFAULT) RETURNING id, x", "1|1 2|7");
    check(&mut session, "SELECT y FROM seq WHERE id = 2", "9dd4e461268c8034f5c8564e155c67a6");
    check(&mut session, "INSERT INTO seq (x) VALUES (NULL) RETURNING id, x", "3|NULL");
    assert_eq!(code(&mut session, "INSERT INTO seq (x) VALUES (-1)"), "23514");
    assert_eq!(code(&mut session, "INSERT INTO seq (id, x) VALUES (1, 1)"), "23505");
    assert_eq!(code(&mut session, "INSERT INTO seq (id) VALUES (NULL)"), "23502");
    assert_eq!(code(&mut session, "INSERT INTO seq (x) VALUES (2147483648)"), "22003");
    check(&mut session, "SELECT count(*) FROM seq WHERE id > 0", "3");
}

#[test]
fn conflicts_are_skipped_or_updated() {
    let mut session = filled();
    check(&mut session, "INSERT INTO t (a, b) VALUES (1, 1), (5, 5) ON CONFLICT DO NOTHING", "INSERT 0 1");
    check(&mut session, "INSERT INTO t (a, b, u) VALUES (8, 8, 10) ON CONFLICT (u) DO NOTHING", "INSERT 0 0");
    let upsert = "INSERT INTO t (a, b, n) VALUES (1, 1, 5) ON CONFLICT (a, b) DO UPDATE SET n = t.n + excluded.n \
                  WHERE t.n < 10 RETURNING n";
    check(&mut session, upsert, "6.50");
    check(&mut session, upsert, "11.50");
    check(&mut session, upsert, "");
    let twice = "INSERT INTO t (a, b) VALUES (6, 6), (6, 6) ON CONFLICT (a, b) DO UPDATE SET n = 1";
    assert_eq!(code(&mut session, twice), "21000");
    check(&mut session, "SELECT count(*) FROM t WHERE a = 6", "0");
}

#[test]
fn prepared_statements_infer_and_cast_their_parameters() {
    let mut session = filled();
    let prepared = session.prepare("SELECT c FROM t WHERE a = $1 AND n >= $2 LIMIT $3").unwrap();
    // A numeric parameter has digits that the column has not.
    let types = [ColumnType::Int, ColumnType::Numeric { precision: 38, scale: 10 }, ColumnType::BigInt];
    assert_eq!(prepared.parameter_types(), types);
    let rows = session.run(&prepared, &[1.into(), Value::Decimal(20_000_000_000), 5_i64.into()]).unwrap();
    assert_eq!(show(&rows), "two");
    let rows = session.run(&prepared, &[1_i64.into(), "1.5".into(), 1.into()]).unwrap();
    assert_eq!(show(&rows), "one");
    let error = session.run(&prepared, &[Value::Int64(1 << 40), Value::Null, Value::Null]).unwrap_err();
    assert_eq!(error.state.code(), "22003");
}

#[test]
fn the_first_place_says_what_a_parameter_is() {
    let mut session = filled();
    let (int, double) = (ColumnType::Int, ColumnType::Double);
    let statements = [
        (
            "SELECT x.b + $1 FROM t x LEFT JOIN t y ON y.a = x.a AND y.b = x.b AND y.d = $1 WHERE x.a = 1",
            double,
        ),
        ("SELECT b + $1 FROM t WHERE a = 1 AND d > $1", int),
        ("SELECT b FROM t WHERE a = 1 AND EXISTS (SELECT y.b + $1 FROM t y WHERE y.a = 1 AND y.d = $1)", int),
        ("SELECT b FROM t WHERE a = 1 AND b IN (SELECT y.b + $1 FROM t y WHERE y.a = 1 AND y.d = $1)", int),
        (
            "SELECT (SELECT y.b + $1 FROM t y WHERE y.a = 2 AND y.b = t.b AND y.d = $1) FROM t WHERE a = 1",
            int,
        ),
        ("UPDATE t SET d = b + $1 WHERE a = 1 AND d > $1", double),
        ("UPDATE t SET d = b + $1 WHERE a = 1 RETURNING d + $1", double),
    ];
    for (sql, ty) in statements {
        assert_eq!(session.prepare(sql).unwrap().parameter_types(), [ty], "{sql}");
    }
}

#[test]
fn a_plan_is_made_anew_when_a_definition_changes() {
    let mut session = filled();
    let prepared = session.prepare("SELECT a, n, c FROM t WHERE a = 2").unwrap();
    let all = session.prepare("SELECT * FROM t WHERE a = 2").unwrap();
    let before = show(&session.run(&prepared, &[]).unwrap());
    assert_eq!(show(&session.run(&all, &[]).unwrap()), "2|1|NULL|-3.00|2.5|z|ab|12");
    let store = session.engine().store().clone();
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    let mut def = (*transaction.resolve_table(&QualifiedName::new("public", "t")).unwrap()).clone();
    def.add_column(ColumnDef::new("w", ColumnType::Int));
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
    transaction.commit().unwrap();
    for _ in 0..2 {
        assert_eq!(show(&session.run(&prepared, &[]).unwrap()), before);
        // Its rows would have a column more than was said when it was prepared.
        assert_eq!(session.run(&all, &[]).unwrap_err().state.code(), "0A000");
    }
    check(&mut session, "SELECT * FROM t WHERE a = 2", "2|1|NULL|-3.00|2.5|z|ab|12|NULL");
}

/// One of few rows does not look.
#[test]
fn a_walk_over_many_rows_ends_when_it_is_asked_to() {
    let mut session = session();
    let rows = "INSERT INTO t (a, b) SELECT 1, n FROM generate_series(1, 1000) s(n)";
    check(&mut session, rows, "INSERT 0 1000");
    for sql in [
        "SELECT sum(b) FROM t WHERE a = 1",
        "UPDATE t SET c = 'x' WHERE a = 1",
        "DELETE FROM t WHERE a = 1 AND b > 1",
    ] {
        // Whoever reads a text looks as well.
        let prepared = session.prepare(sql).unwrap();
        session.cancel_handle().stop();
        let error = session.run(&prepared, &[]).map(|result| show(&result)).unwrap_err();
        assert_eq!(error.state.code(), "57014", "{sql}: {error}");
        session.cancel_handle().go_on();
    }
    check(&mut session, "SELECT count(*), count(c) FROM t WHERE a = 1", "1000|0");
}

#[test]
fn rows_for_update_are_locked() {
    let mut session = filled();
    let mut other = session.engine().session();
    run(&mut other, "SET lock_timeout = '20ms'").unwrap();
    run(&mut session, "BEGIN").unwrap();
    check(&mut session, "SELECT n FROM t WHERE a = 1 AND b = 1 FOR UPDATE", "1.50");
    assert_eq!(code(&mut other, "UPDATE t SET n = 9 WHERE a = 1 AND b = 1"), "55P03");
    check(&mut other, "UPDATE t SET n = 9 WHERE a = 1 AND b = 2", "UPDATE 1");
    run(&mut session, "COMMIT").unwrap();
    check(&mut other, "UPDATE t SET n = 9 WHERE a = 1 AND b = 1", "UPDATE 1");
}
