// SPDX-License-Identifier: Apache-2.0
//! Queries of bricks against the model, which is the same query of a table of rows with the same contents, and what is left out of bricks.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;

const COLUMNS: &str =
    "id bigint, slot int, region text, day date, item int, far bigint, price float8, note text, good boolean";

/// Looked for in facts. Some of them are in none, and some columns are NULL.
const WANTED: &str = "
    CREATE TABLE wanted (slot int, region text, day date, item int, far bigint, price float8, note text);
    INSERT INTO wanted VALUES (17, 'north', '2026-01-12', 3, 3000000000000, '0', 'note 1'),
        (18, 'south', '2026-01-12', 4, 4000000000000, '-0', 'note 2'), (55, 'north', '2026-02-01', -7, 9, '2.5', NULL),
        (NULL, NULL, NULL, NULL, NULL, NULL, NULL), (17, 'nowhere', '2030-01-01', 3, 5000000000000, 'NaN', 'note 1'),
        (1000, 'west', NULL, 900, -1, '7', 'no note');
    CREATE TABLE unwanted (slot int, item int);
    CREATE TABLE asked (item int NOT NULL);
    INSERT INTO asked VALUES (1), (6000)";

struct Facts {
    engine: Arc<Engine>,
    session: Session,
    random: StdRng,
    rows: u64,
}

impl Facts {
    fn new(seed: u64) -> Self {
        let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("a store opens");
        let mut session = engine.session();
        let tables = format!(
            "CREATE TABLE plain ({COLUMNS});
             CREATE TABLE bricks ({COLUMNS}) USING brick PARTITION BY (slot CARDINALITY 100 RANGE SIZE 10,
                 region CARDINALITY 4 RANGE SIZE 2, day RANGE SIZE '10 days' FROM '2026-01-01');
             {WANTED}"
        );
        session.execute(&tables).expect("the tables are made");
        Self { engine, session, random: StdRng::seed_from_u64(seed), rows: 0 }
    }

    /// Loads so many rows into both tables, whose values follow from random numbers.
    fn load(&mut self, rows: u64) {
        let random = &mut self.random;
        let mut mixed = |values: u64| {
            let (factor, summand) = (random.random_range(1..60_000_u64), random.random_range(0..60_000_u64));
            format!("((g::bigint * {factor} + {summand}) % 60013 % {values})::int")
        };
        let nullable = |value: String, chance: String| format!("CASE WHEN {chance} > 0 THEN {value} END");
        let columns = [
            "g".to_owned(),
            mixed(60),
            format!("(ARRAY['north', 'south', 'west'])[1 + {}]", mixed(3)),
            format!("date '2026-01-01' + {}", mixed(40)),
            nullable(format!("{} - 20", mixed(1_000)), mixed(9)),
            nullable(format!("{}::bigint * 1000000000000", mixed(2_000)), mixed(5)),
            nullable(format!("{} / 2.0::float8", mixed(50)), mixed(7)),
            nullable(format!("'note ' || {}", mixed(40)), mixed(6)),
            nullable(format!("({} = 1)", mixed(2)), mixed(3)),
        ];
        let (first, last) = (self.rows + 1, self.rows + rows);
        self.rows = last;
        let columns = columns.join(", ");
        let sql = format!(
            "BEGIN; INSERT INTO plain SELECT {columns} FROM generate_series({first}, {last}) g;
             INSERT INTO bricks SELECT * FROM plain WHERE id BETWEEN {first} AND {last}; COMMIT"
        );
        self.session.execute(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }

    /// Deletes rows of both tables: those of whole bricks.
    fn delete(&mut self, condition: &str) {
        let sql = format!("DELETE FROM plain WHERE {condition}; DELETE FROM bricks WHERE {condition}");
        self.session.execute(&sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    }
}

/// What a statement gives, each row as one text.
fn rows(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let mut rows = Vec::new();
    for batch in results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches) {
        for row in 0..batch.num_rows() {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            rows.push(values.collect::<Vec<_>>().join("|"));
        }
    }
    rows.sort_unstable();
    rows
}

/// Joins that lose rows of the facts without a partner.
const LOSING: [&str; 14] = [
    "SELECT f.*, w.note FROM facts f JOIN wanted w ON f.slot = w.slot",
    "SELECT f.id, f.note, f.region FROM facts f JOIN wanted w ON f.region = w.region AND f.item = w.item",
    "SELECT f.id, f.price FROM facts f JOIN wanted w ON f.day = w.day",
    "SELECT f.id, f.note FROM facts f JOIN wanted w ON f.item = w.item",
    "SELECT f.id, w.slot FROM facts f JOIN wanted w ON f.far = w.far",
    "SELECT f.id, w.slot FROM facts f JOIN wanted w ON f.price = w.price",
    "SELECT f.id, f.good FROM facts f JOIN wanted w ON f.note = w.note WHERE f.id % 3 = 1",
    "SELECT f.id, f.note, w.item FROM facts f JOIN wanted w ON f.slot = w.slot AND f.item = w.item",
    "SELECT f.id FROM facts f JOIN wanted w ON f.slot = w.slot AND f.id % 500 > w.item",
    "SELECT f.id, f.far FROM facts f JOIN wanted w ON f.item = w.item WHERE f.item <> 0 AND 100 / f.item > 20",
    "SELECT f.id, f.note FROM facts f WHERE EXISTS (SELECT 1 FROM wanted w WHERE w.slot = f.slot AND w.day = f.day)",
    "SELECT f.id, f.note FROM facts f WHERE f.item IN (SELECT item FROM wanted)",
    "SELECT count(*) FROM facts f JOIN wanted w ON f.slot = w.slot",
    "SELECT w.region, count(*), sum(f.item), min(f.note) FROM facts f JOIN wanted w ON f.slot = w.slot GROUP BY w.region",
];

/// Others: rows without a partner come out, NULL finds NULL, a single NULL leaves nothing, groups and the first rows are joined.
const OTHERS: [&str; 22] = [
    "SELECT f.id, w.note FROM facts f LEFT JOIN wanted w ON f.slot = w.slot AND f.item = w.item",
    "SELECT f.id, w.note FROM facts f RIGHT JOIN wanted w ON f.slot = w.slot AND f.item = w.item",
    "SELECT f.id, w.note FROM facts f FULL JOIN wanted w ON f.item = w.item",
    "SELECT f.id FROM facts f WHERE NOT EXISTS (SELECT 1 FROM wanted w WHERE w.item = f.item)",
    "SELECT w.slot FROM wanted w WHERE NOT EXISTS (SELECT 1 FROM facts f WHERE f.slot = w.slot AND f.item = w.item)",
    "SELECT w.item FROM wanted w WHERE w.item NOT IN (SELECT f.item FROM facts f)",
    "SELECT a.item FROM asked a WHERE a.item NOT IN (SELECT f.item FROM facts f)",
    "SELECT a.item FROM asked a WHERE a.item NOT IN (SELECT f.item FROM facts f WHERE f.item IS NOT NULL)",
    "SELECT f.id FROM facts f WHERE f.item NOT IN (SELECT w.item FROM wanted w WHERE w.item > 0)",
    "SELECT f.id, EXISTS (SELECT 1 FROM wanted w WHERE w.slot = f.slot) FROM facts f WHERE f.id % 7 = 0",
    "SELECT slot, item FROM facts INTERSECT SELECT slot, item FROM wanted",
    "SELECT note FROM facts INTERSECT SELECT note FROM wanted",
    "SELECT item FROM wanted EXCEPT SELECT item FROM facts",
    "SELECT f.id FROM facts f JOIN unwanted u ON f.slot = u.slot",
    GROUPS,
    "SELECT w.far FROM wanted w WHERE w.item = (SELECT min(f.item) FROM facts f WHERE f.far = w.far)",
    "SELECT count(*) FROM (SELECT f.item FROM facts f LIMIT 70000) f",
    "SELECT w.item FROM wanted w JOIN (SELECT item FROM facts ORDER BY id LIMIT 900) f ON f.item = w.item",
    "SELECT id, item, note FROM facts ORDER BY item DESC NULLS LAST, id LIMIT 30",
    "SELECT id, note FROM facts WHERE slot > 20 ORDER BY note NULLS FIRST, id DESC LIMIT 30",
    "SELECT min(item), max(far), min(day) FROM facts WHERE good",
    "WITH RECURSIVE walk (item, step) AS (SELECT 1, 0 UNION
         SELECT f.item + 13, w.step + 1 FROM walk w JOIN facts f ON f.item = w.item WHERE w.step < 4)
     SELECT item, step FROM walk",
];

const GROUPS: &str = "SELECT w.slot, s.n FROM wanted w JOIN (SELECT slot, sum(item) AS n FROM facts GROUP BY slot) s ON s.slot = w.slot";

fn of(table: &str, query: &str) -> String {
    query.replace("FROM facts", &format!("FROM {table}")).replace("JOIN facts", &format!("JOIN {table}"))
}

fn check(session: &mut Session, what: &str) {
    for query in LOSING.into_iter().chain(OTHERS) {
        let expected = rows(session, &of("plain", query));
        let found = rows(session, &of("bricks", query));
        assert_eq!(found.len(), expected.len(), "{what}: {query}");
        assert!(found == expected, "{what}: {query}");
    }
}

#[test]
fn bricks_answer_as_rows_do_at_every_snapshot() {
    for seed in 0..2 {
        let mut facts = Facts::new(seed);
        facts.load(50_000);
        facts.load(30_000);
        let mut before = facts.engine.session();
        before.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").expect("a transaction begins");
        rows(&mut before, "SELECT count(*) FROM plain");
        facts.delete("slot BETWEEN 10 AND 19");
        facts.load(20_000);
        facts.delete("day BETWEEN '2026-01-11' AND '2026-01-20'");
        facts.load(5_000);
        check(&mut before, &format!("{seed}, rows of before"));
        let mut now = facts.engine.session();
        if seed == 1 {
            now.execute("SET coeval.join_keys = off").expect("filters without keys");
        }
        check(&mut now, &format!("{seed}, rows of now"));
        let row = "(id, slot, region, day, item) VALUES (-1, 17, 'north', '2026-01-12', 3)";
        let own = format!("BEGIN; INSERT INTO plain {row}; INSERT INTO bricks {row}");
        now.execute(&own).expect("a row that nobody else sees");
        check(&mut now, &format!("{seed}, rows of its own"));
    }
}

fn loaded() -> Facts {
    let mut facts = Facts::new(7);
    facts.load(80_000);
    facts
}

/// The line of EXPLAIN with this in it.
fn line(plan: &[String], with: &str) -> String {
    let text = plan.join("\n");
    let line = text.lines().find(|line| line.contains(with));
    line.unwrap_or_else(|| panic!("no {with} in\n{text}")).to_owned()
}

/// Break: have `BrickScan` take no filters in `handle_child_pushdown_result`, or `ToldScan::of` know no bricks.
#[test]
fn scans_of_bricks_are_told_of_joins_that_lose_rows() {
    let mut session = loaded().engine.session();
    for query in [0, 1, 2, 3, 4, 7, 10, 11].map(|query| LOSING[query]) {
        let plan = rows(&mut session, &format!("EXPLAIN {}", of("bricks", query)));
        let scan = line(&plan, "BrickScan");
        assert!(scan.contains("hints=[DynamicFilter"), "{query}: {scan}");
    }
    for (query, columns) in [(LOSING[0], "slot"), (LOSING[3], "item"), (LOSING[7], "slot, item")] {
        let plan = rows(&mut session, &format!("EXPLAIN {}", of("bricks", query)));
        let scan = line(&plan, "BrickScan");
        assert!(scan.contains(&format!("join_keys=[{columns}]")), "{query}: {scan}");
    }
    for query in [OTHERS[0], OTHERS[2], OTHERS[3]] {
        let plan = rows(&mut session, &format!("EXPLAIN {}", of("bricks", query)));
        let scan = line(&plan, "BrickScan");
        assert!(!scan.contains("hints=") && !scan.contains("join_keys="), "{query}: {scan}");
    }
    let groups = rows(&mut session, &format!("EXPLAIN {}", of("bricks", GROUPS)));
    assert!(line(&groups, "BrickAggregate").contains("hints=[DynamicFilter"), "{groups:?}");
}

/// Break: have `BrickHints::may_match` always say yes, or `HintedRows::push` ask no filters.
#[test]
fn bricks_and_rows_that_no_join_looks_for_are_left_out_and_counted() {
    let mut session = loaded().engine.session();
    let mut scan = |query: &str| {
        let plan = rows(&mut session, &format!("EXPLAIN ANALYZE {}", of("bricks", query)));
        line(&plan, "BrickScan")
    };
    let by_dimension =
        scan("SELECT f.* FROM facts f JOIN wanted w ON f.slot = w.slot WHERE w.item > 2 AND w.slot < 20");
    for counted in ["bricks_passed_over=", "rows_passed_over="] {
        assert!(by_dimension.contains(counted), "{by_dimension}");
        assert!(!by_dimension.contains(&format!("{counted}0")), "{by_dimension}");
    }
    let by_metric = scan(LOSING[3]);
    assert!(by_metric.contains("rows_without_partner="), "{by_metric}");
    assert!(!by_metric.contains("rows_without_partner=0"), "{by_metric}");
}
