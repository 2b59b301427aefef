// SPDX-License-Identifier: Apache-2.0
//! Orders of joins: whatever FROM says, the answer is the same, and no plan has a cross product that predicates
//! lead round.

use super::JoinOrder;
use crate::engine::Engine;
use crate::result::StatementResult;
use crate::session::Session;
use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};
use datafusion::logical_expr::{LogicalPlanBuilder, col, table_scan};
use datafusion::optimizer::{OptimizerContext, OptimizerRule};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

fn session() -> Session {
    Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session()
}

fn run(session: &mut Session, sql: &str) -> Vec<StatementResult> {
    session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"))
}

fn texts(session: &mut Session, sql: &str) -> Vec<String> {
    let results = run(session, sql);
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    batches
        .flat_map(|batch| {
            let column = batch.column(0);
            (0..batch.num_rows()).map(|row| array_value_to_string(column, row).unwrap()).collect::<Vec<_>>()
        })
        .collect()
}

fn number(session: &mut Session, sql: &str) -> i64 {
    let results = run(session, sql);
    let rows = results[0].rows.as_ref().expect("a query has rows");
    rows.batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Five tables of two columns with few values, some of them NULL.
fn random_tables(session: &mut Session, dice: &mut StdRng) -> Vec<Vec<[Option<i64>; 2]>> {
    (0..5)
        .map(|table| {
            run(session, &format!("CREATE TABLE t{table} (id bigint PRIMARY KEY, x bigint, y bigint)"));
            let count = dice.random_range(1..=7);
            let value = |dice: &mut StdRng| {
                let value = dice.random_range(0..4);
                (value != 3).then_some(value)
            };
            let rows: Vec<[Option<i64>; 2]> = (0..count).map(|_| [value(dice), value(dice)]).collect();
            let shown = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
            for (id, [x, y]) in rows.iter().enumerate() {
                run(session, &format!("INSERT INTO t{table} VALUES ({id}, {}, {})", shown(*x), shown(*y)));
            }
            rows
        })
        .collect()
}

/// `t<a>.<x or y> <op> t<b>.<x or y>`.
#[derive(Clone, Copy, Debug)]
struct Comparison {
    left: (usize, usize),
    right: (usize, usize),
    is_equation: bool,
}

impl Comparison {
    fn random(dice: &mut StdRng) -> Self {
        let mut column = || (dice.random_range(0..5), dice.random_range(0..2));
        let (left, right) = (column(), column());
        Self { left, right, is_equation: dice.random_ratio(4, 5) }
    }

    fn sql(&self) -> String {
        let name = |(table, column): (usize, usize)| format!("t{table}.{}", ["x", "y"][column]);
        format!("{} {} {}", name(self.left), if self.is_equation { "=" } else { "<" }, name(self.right))
    }

    fn holds(&self, rows: &[[Option<i64>; 2]]) -> bool {
        let value = |(table, column): (usize, usize)| rows[table][column];
        match (value(self.left), value(self.right)) {
            (Some(left), Some(right)) if self.is_equation => left == right,
            (Some(left), Some(right)) => left < right,
            _ => false,
        }
    }
}

/// How many combinations of rows, and the sum of `t0.x` over them, by trying all.
fn expected(tables: &[Vec<[Option<i64>; 2]>], comparisons: &[Comparison]) -> (i64, i64) {
    let total: usize = tables.iter().map(Vec::len).product();
    let mut outcome = (0, 0);
    for combination in 0..total {
        let mut rest = combination;
        let rows: Vec<_> = tables
            .iter()
            .map(|table| {
                let row = table[rest % table.len()];
                rest /= table.len();
                row
            })
            .collect();
        if comparisons.iter().all(|comparison| comparison.holds(&rows)) {
            outcome = (outcome.0 + 1, outcome.1 + rows[0][0].unwrap_or(0));
        }
    }
    outcome
}

#[test]
fn whatever_the_order_of_from_the_answer_is_the_same() {
    let mut dice = StdRng::seed_from_u64(11);
    for _ in 0..4 {
        let mut session = session();
        let tables = random_tables(&mut session, &mut dice);
        for _ in 0..40 {
            let count = dice.random_range(2..=7);
            let comparisons: Vec<_> = (0..count).map(|_| Comparison::random(&mut dice)).collect();
            let mut names = ["t0", "t1", "t2", "t3", "t4"];
            names.shuffle(&mut dice);
            let predicates: Vec<String> = comparisons.iter().map(Comparison::sql).collect();
            let from = format!("FROM {} WHERE {}", names.join(", "), predicates.join(" AND "));
            let (rows, sum) = expected(&tables, &comparisons);
            assert_eq!(number(&mut session, &format!("SELECT count(*) {from}")), rows, "{from}");
            let sum_of_x = format!("SELECT coalesce(sum(t0.x), 0)::bigint {from}");
            assert_eq!(number(&mut session, &sum_of_x), sum, "{from}");
        }
    }
}

/// A star: `facts` with dimensions `a` and `b`, all with many rows, and `tags` on `a`.
fn star() -> Session {
    let mut session = session();
    for sql in [
        "CREATE TABLE a (id int PRIMARY KEY, name text, doc jsonb)",
        "CREATE TABLE b (id int PRIMARY KEY, name text)",
        "CREATE TABLE tags (id int PRIMARY KEY, a_id int, tag text)",
        "CREATE TABLE facts (id int PRIMARY KEY, a_id int, b_id int)",
        "INSERT INTO a SELECT n, 'a' || n, '{\"kind\": 1}'::jsonb FROM generate_series(1, 2000) AS s(n)",
        "INSERT INTO b SELECT n, 'b' || n FROM generate_series(1, 2000) AS s(n)",
        "INSERT INTO tags SELECT n, n, 'tag' || (n % 10) FROM generate_series(1, 2000) AS s(n)",
        "INSERT INTO facts SELECT n, n % 2000 + 1, n % 1999 + 1 FROM generate_series(1, 20000) AS s(n)",
    ] {
        run(&mut session, sql);
    }
    session
}

#[test]
fn an_unlucky_from_makes_no_cross_product() {
    let mut session = star();
    let sql = "SELECT count(*) FROM b, tags, a, facts \
               WHERE facts.a_id = a.id AND facts.b_id = b.id AND tags.a_id = a.id AND b.name = 'b7'";
    let plan = texts(&mut session, &format!("EXPLAIN {sql}")).join("\n");
    assert!(!plan.contains("CrossJoin") && !plan.contains("NestedLoopJoin"), "{plan}");
    assert_eq!(number(&mut session, sql), 11);
}

#[test]
fn the_filtered_dimension_is_joined_first() {
    let mut session = star();
    for from in ["a, b, facts", "b, a, facts", "facts, b, a"] {
        for (filter, first, second) in [("a.name = 'a7'", "a", "b"), ("b.name = 'b7'", "b", "a")] {
            let sql = format!(
                "EXPLAIN SELECT min(a.name), min(b.name) FROM {from} \
                 WHERE facts.a_id = a.id AND facts.b_id = b.id AND {filter}"
            );
            let plan = texts(&mut session, &sql);
            assert!(
                depth(&plan, first) > depth(&plan, second),
                "FROM {from} WHERE {filter}:\n{}",
                plan.join("\n")
            );
        }
    }
}

/// How deep in a plan the scan of a table stands.
fn depth(plan: &[String], table: &str) -> usize {
    let scan = format!("CoevalScan: table={table},");
    let line = plan.iter().find(|line| line.contains(&scan)).expect("every table is scanned");
    line.len() - line.trim_start().len()
}

#[test]
fn what_is_in_order_stays_as_it_is() {
    let table = |name: &str| -> LogicalPlanBuilder {
        table_scan(Some(name), &Schema::new(vec![Field::new("x", DataType::Int64, false)]), None).unwrap()
    };
    let of = |name: &str| table(name).build().unwrap();
    let all = table("a").cross_join(of("b")).unwrap().cross_join(of("c")).unwrap();
    let condition = col("a.x").eq(col("b.x")).and(col("b.x").eq(col("c.x")));
    let plan = all.filter(condition).unwrap().build().unwrap();
    let ordered = JoinOrder.rewrite(plan, &OptimizerContext::new()).unwrap();
    assert!(ordered.transformed);
    let again = JoinOrder.rewrite(ordered.data.clone(), &OptimizerContext::new()).unwrap();
    assert!(!again.transformed, "{}", again.data.display_indent());
    assert_eq!(again.data, ordered.data);
}

/// A condition on documents is tried on documents: on their texts, each would be a string, and none would pass.
#[test]
fn a_condition_on_documents_that_all_rows_pass_is_not_taken_for_a_rare_one() {
    let mut session = star();
    let plan = texts(
        &mut session,
        "EXPLAIN SELECT min(a.name), min(b.name) FROM a, b, facts \
         WHERE facts.a_id = a.id AND facts.b_id = b.id AND b.id <= 100 \
         AND to_jsonb(a.doc) @> '{\"kind\": 1}'",
    );
    assert!(depth(&plan, "b") > depth(&plan, "a"), "{plan:#?}");
}

#[test]
fn what_a_join_by_a_whole_key_gives_is_built_and_not_the_larger_table() {
    let mut session = session();
    let columns = "w int, d int";
    run(&mut session, &format!("CREATE TABLE customer ({columns}, c int, name text, PRIMARY KEY (w, d, c))"));
    run(&mut session, &format!("CREATE TABLE orders ({columns}, o int, c int, PRIMARY KEY (w, d, o))"));
    run(&mut session, &format!("CREATE TABLE line ({columns}, o int, n int, PRIMARY KEY (w, d, o, n))"));
    let places = "generate_series(1, 4) w(w), generate_series(1, 5) d(d), generate_series(1, 30) c(c)";
    run(&mut session, &format!("INSERT INTO customer SELECT w, d, c, 'name' FROM {places}"));
    run(&mut session, &format!("INSERT INTO orders SELECT w, d, c, c FROM {places}"));
    run(
        &mut session,
        &format!("INSERT INTO line SELECT w, d, c, n FROM {places}, generate_series(1, 8) n(n)"),
    );
    let plan = texts(
        &mut session,
        "EXPLAIN SELECT name, count(*) FROM customer, orders, line \
         WHERE orders.w = customer.w AND orders.d = customer.d AND orders.c = customer.c \
         AND line.w = orders.w AND line.d = orders.d AND line.o = orders.o GROUP BY name",
    );
    let place = |table: &str| plan.iter().position(|line| line.contains(&format!("table={table},"))).unwrap();
    let (customer, orders, line) = (place("customer"), place("orders"), place("line"));
    // The side that is built is shown first.
    assert!(line > customer.max(orders), "{plan:#?}");
}

/// Whether each join of a plan on these columns has no more than one other below it.
fn is_chain(plan: &[String], on: &str) -> bool {
    let mut above: Vec<usize> = Vec::new();
    let mut joins = 0;
    plan.iter().all(|line| {
        let depth = line.len() - line.trim_start().len();
        above.retain(|join| *join < depth);
        if !line.contains("JoinExec") || !line.contains(on) {
            return true;
        }
        let is_below_all = above.len() == joins;
        above.push(depth);
        joins += 1;
        is_below_all
    })
}

/// Codes are texts that nobody has declared to be unique. Break: have `Relation::distinct` know nothing of what is no table.
#[test]
fn totals_of_clients_are_joined_by_codes_one_after_the_other() {
    let mut session = session();
    for sql in [
        "CREATE TABLE clients (id int PRIMARY KEY, code text, name text, town text)",
        "INSERT INTO clients SELECT n, 'code ' || n, 'name ' || n % 500, 'town ' || n % 90 FROM generate_series(0, 1999) AS s(n)",
        "CREATE TABLE sales (id int PRIMARY KEY, client int, year int, amount int)",
        "INSERT INTO sales SELECT n, n * 7 % 2000, n % 11 % 6, n % 97 FROM generate_series(1, 40000) AS s(n)",
        "CHECKPOINT",
    ] {
        run(&mut session, sql);
    }
    let totals = "WITH totals AS (SELECT c.code, c.name, c.town, s.year, sum(s.amount) AS total FROM clients c, sales s \
                  WHERE c.id = s.client GROUP BY c.code, c.name, c.town, s.year)";
    let years = "a.year = 0 AND b.year = 1 AND c.year = 2 AND d.year = 3 AND e.year = 4 AND f.year = 5";
    let codes =
        "a.code = b.code AND a.code = c.code AND a.code = d.code AND a.code = e.code AND a.code = f.code";
    for from in [
        "totals a, totals b, totals c, totals d, totals e, totals f",
        "totals f, totals d, totals b, totals e, totals c, totals a",
    ] {
        let sql =
            format!("{totals} SELECT a.code, f.total FROM {from} WHERE {codes} AND {years} AND a.total > 0");
        let plan = texts(&mut session, &format!("EXPLAIN {sql}"));
        let joins = plan.iter().filter(|line| line.contains("on=[(code@")).count();
        assert_eq!(joins, 5, "{plan:#?}");
        assert!(is_chain(&plan, "on=[(code@"), "{plan:#?}");
    }
}

/// The join by codes gives a row for each order. Break: have `statistics::of_view` ask no answers.
#[test]
fn what_a_join_by_texts_gives_is_built_and_not_the_larger_table() {
    let mut session = session();
    for sql in [
        "CREATE TABLE clients (id int PRIMARY KEY, code text)",
        "INSERT INTO clients SELECT n, 'code ' || n FROM generate_series(0, 1998) AS s(n)",
        "CREATE TABLE orders (id int PRIMARY KEY, code text, number int)",
        "INSERT INTO orders SELECT n, 'code ' || n * 7 % 1999, n FROM generate_series(0, 19999) AS s(n)",
        "CREATE TABLE lines (id int PRIMARY KEY, number int)",
        "INSERT INTO lines SELECT n, n % 20000 FROM generate_series(0, 49999) AS s(n)",
        "CHECKPOINT",
    ] {
        run(&mut session, sql);
    }
    let plan = texts(
        &mut session,
        "EXPLAIN SELECT l.id FROM clients c, orders o, lines l WHERE c.code = o.code AND o.number = l.number",
    );
    let place = |table: &str| plan.iter().position(|line| line.contains(&format!("table={table},"))).unwrap();
    // The side that is built is shown first.
    assert!(place("lines") > place("clients").max(place("orders")), "{plan:#?}");
}
