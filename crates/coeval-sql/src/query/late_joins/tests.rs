// SPDX-License-Identifier: Apache-2.0
//! Which joins come behind aggregates and which do not, and that the answers are those of joining first.

use crate::engine::Engine;
use crate::session::Session;
use arrow::util::display::array_value_to_string;
use coeval_store::{Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Queries of which some table is joined behind the aggregate.
const LATE: [&str; 28] = [
    // The item follows from the key of the sale.
    "SELECT i.name, s.id, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.name, s.id",
    "SELECT i.id, i.name, sum(s.amount), count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    // The other side of the equation tells the group as well.
    "SELECT s.item, i.name, min(s.amount), max(s.units) FROM sales s JOIN items i ON s.item = i.id GROUP BY s.item, i.name",
    // Chains of tables, and tables beside each other.
    "SELECT i.id, i.name, k.label, count(s.amount) FROM items i, sales s, kinds k WHERE s.item = i.id AND k.id = i.kind \
     GROUP BY i.id, i.name, k.label",
    "SELECT i.id, i.name, p.id, p.name, stddev(s.units) FROM sales s, items i, places p WHERE s.item = i.id AND s.place = p.id \
     GROUP BY i.id, i.name, p.id, p.name",
    // A chain of which the first table does not follow from the groups.
    "SELECT k.id, k.label, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id JOIN kinds k ON k.id = i.kind GROUP BY k.id, k.label",
    // Nothing but that there is a partner.
    "SELECT i.id, s.day, avg(s.units) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, s.day",
    // Keys of several columns.
    "SELECT t.place, t.item, t.note, sum(s.units) FROM stock t JOIN sales s ON t.place = s.place AND t.item = s.item \
     GROUP BY t.place, t.item, t.note",
    // A unique column that is NULL in some rows.
    "SELECT i.code, i.name, sum(s.amount) FROM sales s JOIN items i ON s.code = i.code GROUP BY i.code, i.name",
    // Texts as keys.
    "SELECT p.name, p.note, count(*) FROM sales s JOIN places p ON s.place_name = p.name GROUP BY p.name, p.note",
    "SELECT i.id, i.name, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name HAVING sum(s.amount) > 1000",
    "SELECT i.id, i.name, count(*) FILTER (WHERE s.units > 2), count(DISTINCT s.units) FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY i.id, i.name",
    "SELECT i.id, i.name, sum(s.amount * (1 - s.rate)) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, i.name, sum(CASE WHEN s.day = 1 THEN s.amount ELSE 0 END) FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY i.id, i.name",
    "SELECT i.id, i.name, sum(s.amount / nullif(s.units, 0)) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT DISTINCT i.id, i.name, s.day FROM sales s JOIN items i ON s.item = i.id",
    "SELECT i.name, i.id, s.day > 2, count(*) FROM sales s JOIN items i USING (item_id) GROUP BY i.id, i.name, s.day > 2",
    // What is computed of the table.
    "SELECT i.id, upper(i.name), 10 / (i.kind + 1), count(*) FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY i.id, upper(i.name), 10 / (i.kind + 1)",
    // What is joined before decides nothing about it.
    "SELECT i.id, i.name, d.week, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id JOIN days d ON d.day = s.day \
     WHERE d.week < 2 GROUP BY i.id, i.name, d.week",
    // Conditions on groups that cannot fail, and what might without being a condition.
    "SELECT i.id, i.name, 1000 / count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name \
     HAVING CASE count(s.units) WHEN 0 THEN 0 ELSE 100000 / count(s.units) END > 1",
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name \
     HAVING CASE WHEN 0 < count(s.units) AND i.id > 1 THEN 100000 / count(s.units) END > 1",
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name HAVING 100000 / nullif(count(s.units), 0) > 1",
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name \
     HAVING CASE WHEN sum(s.units) > 0 THEN sum(s.amount) / sum(s.units) END > 1",
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name \
     HAVING CASE WHEN sum(s.units) > 0 THEN sum(CASE WHEN s.day > 2 THEN s.units ELSE 0 END) / sum(s.units) END >= 0",
    "SELECT id, name FROM (SELECT i.id, i.name, stddev(s.units) AS deviation, avg(s.units) AS mean FROM sales s JOIN items i \
     ON s.item = i.id GROUP BY i.id, i.name) g WHERE CASE mean WHEN 0 THEN 0 ELSE deviation / mean END >= 0",
    "SELECT id, name FROM (SELECT i.id, i.name, stddev(s.units) * 1.000 AS deviation FROM sales s JOIN items i \
     ON s.item = i.id GROUP BY i.id, i.name) g WHERE deviation >= 0",
    "SELECT id, name FROM (SELECT i.id, i.name, stddev(s.units) * 1.000 AS deviation, avg(s.units) AS mean FROM sales s JOIN items i \
     ON s.item = i.id GROUP BY i.id, i.name) g WHERE CASE mean WHEN 0 THEN 0 ELSE deviation / mean END >= 0",
];

/// Queries that group by a key and, behind the join, once more by what the groups are, if only for the sake of conditions.
const IN_TWO_STEPS: [&str; 15] = [
    "SELECT i.name, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.name",
    "SELECT i.code, i.name, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.code, i.name",
    "SELECT i.name, s.day, count(*), count(s.units), min(s.amount), max(s.units), sum(s.units), avg(s.amount) FROM sales s \
     JOIN items i ON s.item = i.id GROUP BY i.name, s.day",
    "SELECT i.name, sum((s.amount - 1) * s.rate / 2) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.name HAVING count(*) > 10",
    "SELECT upper(i.name), 10 / (i.kind + 1), count(*) FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY upper(i.name), 10 / (i.kind + 1)",
    // Two tables, of which one comes behind at least.
    "SELECT i.name, p.note, d.week, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id JOIN places p ON p.id = s.place \
     JOIN days d ON d.day = s.day WHERE d.week < 2 GROUP BY i.name, p.note, d.week",
    "SELECT k.label, max(s.amount) FROM sales s JOIN items i ON s.item = i.id JOIN kinds k ON k.id = i.kind GROUP BY k.label",
    // Conditions on groups that might fail are asked behind the join, wherever they stand and wherever a column of theirs is computed.
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name HAVING 100000 / count(*) > 1",
    "SELECT id, name FROM (SELECT i.id, i.name, 100000 / count(*) AS share FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY i.id, i.name) g WHERE share > 1",
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name \
     HAVING CASE WHEN count(s.units) <> 1 THEN 100000 / count(*) END > 1",
    "SELECT share, count(*) FROM (SELECT i.id, i.name, 100000 / count(*) AS share FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY i.id, i.name) g GROUP BY share HAVING share > 1",
    // Several sets, which a key among them does not tell, and of which one has no columns.
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY ROLLUP (i.id, i.name)",
    "SELECT i.name, k.label, s.day, grouping(k.label), sum(s.amount), avg(s.units), min(s.units), count(s.amount) FROM sales s \
     JOIN items i ON s.item = i.id JOIN kinds k ON k.id = i.kind GROUP BY CUBE (i.name, k.label, s.day)",
    "SELECT upper(i.name), s.day, max(s.amount), count(*) FROM sales s JOIN items i ON s.item = i.id \
     GROUP BY GROUPING SETS ((upper(i.name)), (upper(i.name), s.day), (s.day), (s.day)) HAVING count(*) > 10",
    // A sum of 64 bits, which is a decimal.
    "SELECT i.name, sum(s.volume), avg(s.volume) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.name",
];

/// Queries that join first.
const EARLY: [&str; 16] = [
    // No key among the groups, and what cannot be put together of parts.
    "SELECT i.name, count(DISTINCT s.amount) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.name",
    "SELECT i.name, s.day + 1, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.name, s.day + 1",
    // No key that is joined by.
    "SELECT h.item, h.note, sum(s.units) FROM halves h JOIN sales s ON h.item = s.item GROUP BY h.item, h.note",
    "SELECT l.id, l.name, sum(s.amount) FROM sales s JOIN lists l ON s.item = l.id GROUP BY l.id, l.name",
    // Columns of the table are needed.
    "SELECT i.id, i.name, sum(s.amount), max(i.kind) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, i.name, count(*) FILTER (WHERE i.kind > 1) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON s.item = i.id AND s.units > i.kind GROUP BY i.id, i.name",
    "SELECT i.id, i.name || s.day, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name || s.day",
    // Few rows have a partner.
    "SELECT i.id, i.name, sum(s.amount) FROM sales s JOIN items i ON s.item = i.id WHERE i.kind = 1 GROUP BY i.id, i.name",
    // What might fail, or goes by the order of rows.
    "SELECT i.id, i.name, sum(10 / (s.units + 1)) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, i.name, sum(s.units * s.units) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, i.name, string_agg(s.units::text, ',' ORDER BY s.id) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    // Other joins and groups.
    "SELECT i.id, i.name, count(s.id) FROM items i LEFT JOIN sales s ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, s.day + 1, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY ROLLUP (i.id, s.day + 1)",
    // Conditions on groups that might fail, where the groups cannot be put together of parts.
    "SELECT i.id, i.name FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name \
     HAVING 100000 / (1 + count(*) FILTER (WHERE s.units > 2)) > 1",
    "SELECT id, name FROM (SELECT i.id, i.name, 100000 / count(*) AS share, stddev(s.units) AS deviation FROM sales s JOIN items i \
     ON s.item = i.id GROUP BY i.id, i.name) g WHERE share > 1 AND deviation >= 0",
];

/// Queries that join a table twice or by several columns, or have the groups within something else. Which joins come behind is not asked.
const OTHERS: [&str; 14] = [
    "SELECT i.id, i.name, j.id, j.name, count(*) FROM sales s JOIN items i ON i.id = s.item JOIN items j ON j.id = s.code \
     GROUP BY i.id, i.name, j.id, j.name",
    "SELECT a.id, a.name, count(*) FROM items a JOIN items b ON b.kind = a.kind AND b.id < 20 JOIN sales s ON s.item = a.id \
     GROUP BY a.id, a.name",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON i.id = s.item AND i.item_id = s.item GROUP BY i.id, i.name",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON i.id = s.item AND i.code = s.item GROUP BY i.id, i.name",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON i.id = s.item AND i.id = s.code GROUP BY i.id, i.name",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON i.id::bigint = s.item GROUP BY i.id, i.name",
    "SELECT i.id, i.name, k.label, count(*) FROM sales s JOIN items i ON i.id = s.item JOIN kinds k ON k.id = i.kind AND k.label = 'one' \
     GROUP BY i.id, i.name, k.label",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON s.item = i.id WHERE s.item IN (SELECT item FROM halves WHERE half = 1) \
     GROUP BY i.id, i.name HAVING i.name IS NOT NULL",
    "SELECT i.id, i.name, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY GROUPING SETS ((i.id, i.name), ())",
    "SELECT DISTINCT ON (i.id) i.id, i.name, s.day FROM sales s JOIN items i ON s.item = i.id ORDER BY i.id, s.day, s.id",
    "SELECT p.name, g.id, g.name, g.n FROM places p LEFT JOIN (SELECT i.id, i.name, min(s.place) AS place, count(*) AS n FROM sales s \
     JOIN items i ON s.item = i.id GROUP BY i.id, i.name) g ON g.place = p.id",
    "SELECT i.id, i.name, rank() OVER (ORDER BY sum(s.amount), i.id) FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name",
    "SELECT i.id, (SELECT max(s.amount) FROM sales s JOIN places p ON p.id = s.place WHERE s.item = i.id AND s.place = i.kind) FROM items i",
    "SELECT i.id, i.name, 1, count(*) FROM sales s JOIN items i ON s.item = i.id GROUP BY 1, 2, 3",
];

fn session() -> Session {
    Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session()
}

fn lines(session: &mut Session, sql: &str) -> Vec<String> {
    let results = session.execute(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    let of_batch = |batch: &arrow::array::RecordBatch| {
        let of_row = |row| {
            let texts = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap());
            texts.collect::<Vec<_>>().join(" | ")
        };
        (0..batch.num_rows()).map(of_row).collect::<Vec<_>>()
    };
    batches.flat_map(of_batch).collect()
}

/// Whether the uppermost join of a plan is above what finds groups first.
fn joins_groups(session: &mut Session, sql: &str) -> bool {
    groups_around_join(session, sql)[0] == 0
}

/// How many operators find groups above the uppermost join of a plan, and how many below it.
fn groups_around_join(session: &mut Session, sql: &str) -> [usize; 2] {
    let plan = lines(session, &format!("EXPLAIN {sql}"));
    let join = plan.iter().position(|line| line.contains("JoinExec")).expect("the query joins");
    let is_grouping = |line: &&String| {
        ["AggregateExec", "GroupsExec", "GroupingSetsExec"].iter().any(|name| line.contains(name))
    };
    let (above, below) = plan.split_at(join);
    [above, below].map(|lines| lines.iter().filter(is_grouping).count())
}

/// Sales of items at places, with NULLs and numbers that no item has; items that nobody buys; kinds that are missing. The least and the
/// greatest item are there.
fn fill(session: &mut Session, dice: &mut StdRng) {
    let (items, places) = (dice.random_range(100..400), dice.random_range(5..20));
    let (factor, gap) = (dice.random_range(3..50), dice.random_range(11..40));
    let tables = format!(
        "CREATE TABLE items (id int PRIMARY KEY, item_id int UNIQUE, code int UNIQUE, name text, kind int);
         INSERT INTO items SELECT g, g, CASE WHEN g % 9 <> 1 THEN g END, CASE WHEN g % 5 <> 0 THEN 'name ' || g % 50 END, g % 6
            FROM generate_series(0, {items}) g WHERE g % {gap} <> 1;
         CREATE TABLE kinds (id int PRIMARY KEY, label text);
         INSERT INTO kinds VALUES (0, 'zero'), (1, 'one'), (2, NULL), (3, 'one'), (5, 'five');
         CREATE TABLE places (id int PRIMARY KEY, name text UNIQUE, note text);
         INSERT INTO places SELECT g, 'place ' || g, CASE WHEN g % 3 <> 0 THEN 'note' END FROM generate_series(0, {places}) g;
         CREATE TABLE stock (place int, item int, note text, PRIMARY KEY (place, item));
         INSERT INTO stock SELECT p, i, 'note ' || i % 7 FROM generate_series(0, {places}) p, generate_series(0, {items}) i
            WHERE (p + i) % {gap} <> 2;
         CREATE TABLE halves (item int, half int, note text, PRIMARY KEY (item, half));
         INSERT INTO halves SELECT i, h, 'note ' || i % 7 FROM generate_series(0, {items}) i, generate_series(0, 1) h;
         CREATE TABLE days (day int PRIMARY KEY, week int);
         INSERT INTO days SELECT g, g / 2 FROM generate_series(0, 5) g;
         CREATE TABLE lists (id int, name text);
         INSERT INTO lists SELECT g % 40, 'name ' || g FROM generate_series(0, 79) g;
         CREATE TABLE sales (id int PRIMARY KEY, item int, item_id int, code int, place int, place_name text, day int,
                             amount numeric(8, 2), rate numeric(4, 2), units int, volume bigint);
         INSERT INTO sales SELECT g, CASE WHEN g % 29 <> 3 THEN g * {factor} % ({items} + 1) END, g * {factor} % ({items} + 1),
            g * {factor} % ({items} + 1), g % ({places} + 1), 'place ' || g % ({places} + 1), g % 5,
            CASE WHEN g % 7 <> 0 THEN g % 97 END, g % 10 * 0.05, CASE WHEN g % 13 <> 0 THEN g % 4 END,
            CASE WHEN g % 17 <> 0 THEN 9000000000000000000 - g END
            FROM generate_series(1, 24000) g;
         CHECKPOINT;"
    );
    session.execute(&tables).unwrap_or_else(|error| panic!("{error}"));
}

/// The lines of a query in order, with the joins behind the groups and before them.
fn both_ways(session: &mut Session, sql: &str) -> [Vec<String>; 2] {
    ["on", "off"].map(|way| {
        session.execute(&format!("SET coeval.late_joins = {way}")).unwrap();
        let mut lines = lines(session, sql);
        lines.sort_unstable();
        lines
    })
}

#[test]
fn answers_are_those_of_joining_first() {
    for seed in 0..4 {
        let (mut session, mut dice) = (session(), StdRng::seed_from_u64(seed));
        fill(&mut session, &mut dice);
        let mut without_rows = 0;
        for sql in LATE.iter().chain(&IN_TWO_STEPS).chain(&EARLY) {
            let [late, early] = both_ways(&mut session, sql);
            assert_eq!(late, early, "seed {seed}: {sql}");
            without_rows += usize::from(early.is_empty());
        }
        assert!(without_rows < 3, "seed {seed}: {without_rows} queries have no rows");
    }
}

#[test]
fn answers_of_other_queries_are_those_of_joining_first() {
    let (mut session, mut dice) = (session(), StdRng::seed_from_u64(11));
    fill(&mut session, &mut dice);
    for sql in OTHERS {
        let [late, early] = both_ways(&mut session, sql);
        assert_eq!(late, early, "{sql}");
        assert!(!early.is_empty(), "{sql}");
    }
}

#[test]
fn answers_are_the_same_where_nothing_is_there() {
    for table in ["items", "kinds", "places", "stock", "sales"] {
        let (mut session, mut dice) = (session(), StdRng::seed_from_u64(5));
        fill(&mut session, &mut dice);
        session.execute(&format!("DELETE FROM {table}")).unwrap();
        for sql in LATE.iter().chain(&IN_TWO_STEPS) {
            let [late, early] = both_ways(&mut session, sql);
            assert_eq!(late, early, "no {table}: {sql}");
        }
    }
}

#[test]
fn tables_that_are_joined_by_a_key_of_the_groups_come_behind() {
    let (mut session, mut dice) = (session(), StdRng::seed_from_u64(7));
    fill(&mut session, &mut dice);
    for sql in LATE {
        assert!(joins_groups(&mut session, sql), "{sql}");
    }
    for sql in IN_TWO_STEPS {
        let [above, below] = groups_around_join(&mut session, sql);
        assert!(above > 0 && below > 0, "{above} above and {below} below: {sql}");
    }
    for sql in EARLY {
        assert!(!joins_groups(&mut session, sql), "{sql}");
    }
    session.execute("SET coeval.late_joins = off").unwrap();
    for sql in LATE {
        assert!(!joins_groups(&mut session, sql), "{sql}");
    }
}

/// Of the days of two centuries those of one year are few; of those of five years, to which all sales belong, they are a fifth. Clients have
/// their codes in pairs, some sales have no client, and some clients no sales.
#[test]
fn filters_count_by_what_they_leave_of_what_is_looked_up() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE days (id int PRIMARY KEY, year int, month int);
             INSERT INTO days SELECT g, g / 365, g % 365 / 31 FROM generate_series(0, 72999) g;
             CREATE TABLE clients (id int PRIMARY KEY, code text, name text);
             INSERT INTO clients SELECT g, 'code ' || g / 2, 'name ' || g / 2 FROM generate_series(0, 1999) g WHERE g % 20 <> 7;
             CREATE TABLE sales (id int PRIMARY KEY, client int, day int, price numeric(7, 2), cost numeric(7, 2), units int);
             INSERT INTO sales SELECT g, CASE WHEN g % 31 <> 0 THEN g * 7 % 1990 END, 40000 + g * 11 % 1800, g % 97, g % 13, g % 5
                 FROM generate_series(1, 80000) g;
             CHECKPOINT;",
        )
        .unwrap();
    let from = "FROM clients c, sales s, days d WHERE c.id = s.client AND s.day = d.id";
    let in_two_steps = [
        format!(
            "SELECT c.code, c.name, d.year, sum(((s.price - s.cost - s.cost) + s.price) / 2) {from} AND d.year = 110 \
             GROUP BY c.code, c.name, d.year HAVING sum(s.price) > 100"
        ),
        format!(
            "SELECT c.code, c.name, d.year, sum(s.price) {from} AND d.year IN (110, 111) GROUP BY c.code, c.name, d.year"
        ),
    ];
    for sql in &in_two_steps {
        let [above, below] = groups_around_join(&mut session, sql);
        assert!(above > 0 && below > 0, "{above} above and {below} below: {sql}");
    }
    let late = format!(
        "SELECT c.name, c.id, d.month, stddev_samp(s.units), avg(s.units) {from} AND d.year = 110 GROUP BY c.name, c.id, d.month"
    );
    assert!(joins_groups(&mut session, &late), "{late}");
    for sql in in_two_steps.iter().chain([&late]) {
        let [late, early] = both_ways(&mut session, sql);
        assert_eq!(late, early, "{sql}");
        assert!(!early.is_empty(), "{sql}");
        session.execute("SET coeval.late_joins = on").unwrap();
    }
    // Nothing was sold that year.
    let none = late.replace("110", "50");
    assert!(!joins_groups(&mut session, &none), "{none}");
}

/// A shop has one name, one label and one town. Break: multiply the values of all columns in `JoinedTables::combinations_left`.
#[test]
fn columns_that_follow_from_each_other_make_no_more_groups_than_their_table_has_rows() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE items (id int PRIMARY KEY, kind int);
             INSERT INTO items SELECT g, g % 6 FROM generate_series(0, 199) g;
             CREATE TABLE shops (number int, name text, label text, town text);
             INSERT INTO shops SELECT g, 'name ' || g, 'label ' || g, 'town ' || g FROM generate_series(0, 19) g;
             CREATE TABLE sales (id int PRIMARY KEY, item int, shop int, units int);
             INSERT INTO sales SELECT g, g * 7 % 200, g * 11 % 20, g % 4 FROM generate_series(1, 24000) g;
             CHECKPOINT;",
        )
        .unwrap();
    let sql = "SELECT i.id, p.name, p.label, p.town, sum(s.units) FROM sales s JOIN items i ON s.item = i.id \
               JOIN shops p ON s.shop = p.number GROUP BY i.id, p.name, p.label, p.town";
    assert!(joins_groups(&mut session, sql), "{sql}");
    let [late, early] = both_ways(&mut session, sql);
    assert_eq!(late, early);
    assert!(!early.is_empty());
}

/// Keys and years have 64 bits, of which nothing is divided. Quotients are asked of sums of halves in two steps, behind the join, and of
/// deviations and means in one step, before it. Break: have `Condition::may_fail_of` look at all columns of an aggregate.
#[test]
fn quotients_are_asked_of_groups_beside_long_keys() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE clients (id bigint PRIMARY KEY, code text, name text);
             INSERT INTO clients SELECT g, 'code ' || g / 2, 'name ' || g % 50 FROM generate_series(0, 499) g WHERE g % 20 <> 7;
             CREATE TABLE days (id bigint PRIMARY KEY, year bigint, month bigint);
             INSERT INTO days SELECT g, g / 365, g % 365 / 31 FROM generate_series(0, 72999) g;
             CREATE TABLE sales (id bigint PRIMARY KEY, client bigint, day bigint, price numeric(7, 2), cost numeric(7, 2), units int);
             INSERT INTO sales SELECT g, g * 7 % 490, 40000 + g * 11 % 1800, g % 97, g % 13, g % 9 FROM generate_series(1, 80000) g;
             CHECKPOINT;",
        )
        .unwrap();
    let from = "FROM clients c, sales s, days d WHERE c.id = s.client AND s.day = d.id";
    let in_two_steps = format!(
        "WITH totals AS (SELECT c.code, c.name, d.year, sum(((s.price - s.cost - s.cost) + s.price) / 2) AS total {from} \
         GROUP BY c.code, c.name, d.year) SELECT b.code, b.name, b.total FROM totals a, totals b, totals c, totals d \
         WHERE a.code = b.code AND a.code = c.code AND a.code = d.code AND a.year = 110 AND b.year = 111 AND c.year = 112 AND d.year = 113 \
         AND CASE WHEN a.total > 0 THEN b.total / a.total END > CASE WHEN c.total > 0 THEN d.total / c.total END"
    );
    let plan = lines(&mut session, &format!("EXPLAIN {in_two_steps}"));
    let is_by_client = |line: &&String| line.contains("gby=[") && line.contains(" as client");
    assert!(plan.iter().filter(is_by_client).count() >= 4, "{plan:#?}");
    let months = format!(
        "SELECT c.name, c.id, d.month, stddev_samp(s.units) * 1.000 AS deviation, avg(s.units) AS mean, stddev(s.price) AS exact {from} \
         AND d.year = 110 GROUP BY c.name, c.id, d.month"
    );
    let late = [
        "CASE mean WHEN 0 THEN 0 ELSE deviation / mean END > 0.5",
        "CASE WHEN mean <> 0 THEN exact / mean END > 1",
        "CASE WHEN mean > 0 THEN mean / mean END > 0",
    ]
    .map(|condition| format!("SELECT name, id, month, deviation FROM ({months}) g WHERE {condition}"));
    for sql in &late {
        assert!(joins_groups(&mut session, sql), "{sql}");
    }
    for sql in late.iter().chain([&in_two_steps]) {
        let [late, early] = both_ways(&mut session, sql);
        assert_eq!(late, early, "{sql}");
        assert!(!early.is_empty(), "{sql}");
        session.execute("SET coeval.late_joins = on").unwrap();
    }
}

/// Sales of the item that is not there are those by whose units nothing can be divided, whose weights are beyond all floats together, and
/// whose masses are beyond a `numeric` together, or multiplied. There are more items than groups: what the groups are looked up in may tell
/// scans which rows have a partner, and then these alone are read.
#[test]
fn nothing_that_fails_is_computed_of_rows_without_a_partner() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE items (id int PRIMARY KEY, name text);
             INSERT INTO items SELECT g, 'name' FROM generate_series(0, 29999) g WHERE g <> 50;
             CREATE TABLE sales (id int PRIMARY KEY, item int, units int, weight float8, mass numeric(38, 0));
             INSERT INTO sales SELECT g, g % 100, g % 100 - 50, CASE WHEN g % 100 = 50 THEN '1e308'::float8 ELSE 1 END,
                 CASE WHEN g % 100 = 50 THEN 90000000000000000000000000000000000000 ELSE 1 END::numeric(38, 0)
                 FROM generate_series(1, 20000) g;
             CHECKPOINT;",
        )
        .unwrap();
    let sql = "SELECT count(*), sum(value) FROM (SELECT i.id, i.name, sum(100 / s.units) AS value FROM sales s JOIN items i \
               ON s.item = i.id GROUP BY i.id, i.name) groups";
    assert_eq!(lines(&mut session, sql), ["99 | -400"]);
    let sql = "SELECT count(*), sum(value) FROM (SELECT i.id, i.name, 100 / s.units AS value, count(*) FROM sales s JOIN items i \
               ON s.item = i.id GROUP BY i.id, i.name, 100 / s.units) groups";
    assert_eq!(lines(&mut session, sql), ["99 | -2"]);
    for function in ["sum", "avg", "stddev", "var_pop"] {
        let sql = format!(
            "SELECT count(value) FROM (SELECT i.id, i.name, {function}(s.weight) AS value FROM sales s JOIN items i ON s.item = i.id \
             GROUP BY i.id, i.name) groups"
        );
        assert_eq!(lines(&mut session, &sql), ["99"], "{function}");
    }
    let fail = [
        "sum(100 / s.units)",
        "sum(s.mass)",
        "count(s.mass * s.mass)",
        "max(s.mass / 0.1)",
        "var_pop(s.mass)",
    ];
    let counted = |value: &str| {
        format!(
            "SELECT count(value) FROM (SELECT i.id, i.name, {value} AS value FROM sales s JOIN items i ON s.item = i.id \
             GROUP BY i.id, i.name) groups"
        )
    };
    for value in fail {
        assert_eq!(lines(&mut session, &counted(value)), ["99"], "{value}");
    }
    session.execute("INSERT INTO items VALUES (50, 'name')").unwrap();
    for value in fail {
        assert!(session.execute(&counted(value)).is_err(), "{value}: the item is there");
    }
}

/// The group of the item that is not there has a sum of zero. Break: have `Conditions::may_fail_of` find none, or leave out a node in
/// `Conditions::below`.
#[test]
fn conditions_that_fail_are_not_asked_of_groups_without_a_partner() {
    let mut session = session();
    session
        .execute(
            "CREATE TABLE items (id int PRIMARY KEY, name text);
             INSERT INTO items SELECT g, 'name' FROM generate_series(0, 99) g WHERE g <> 50;
             CREATE TABLE sales (id int PRIMARY KEY, item int, units int);
             INSERT INTO sales SELECT g, g % 100, g % 100 - 50 FROM generate_series(1, 20000) g;
             CREATE TABLE bounds (least int);
             INSERT INTO bounds VALUES (1);
             CHECKPOINT;",
        )
        .unwrap();
    let joined = "FROM sales s JOIN items i ON s.item = i.id GROUP BY i.id, i.name";
    let groups = format!("(SELECT i.id, i.name, sum(s.units) AS units {joined}) g");
    let shares = format!("(SELECT i.id, i.name, 20000 / sum(s.units) AS share {joined}) g");
    for (from, has_late) in [
        (format!("(SELECT i.id {joined} HAVING 20000 / sum(s.units) > 1) g"), false),
        (format!("{groups} WHERE 20000 / units > 1"), false),
        (format!("{shares} WHERE share > 1"), false),
        (format!("{groups} JOIN bounds ON 20000 / g.units > bounds.least"), false),
        (format!("{shares} JOIN bounds ON g.share > bounds.least"), false),
        (format!("bounds LEFT JOIN {groups} ON true WHERE 20000 / g.units > 1"), false),
        (format!("(SELECT share, name FROM {shares} UNION ALL SELECT 0, 'none') u WHERE share > 1"), false),
        (
            format!(
                "bounds JOIN LATERAL (SELECT 1 FROM {groups} WHERE 20000 / g.units > bounds.least) l ON true"
            ),
            false,
        ),
        (format!("{groups} WHERE CASE WHEN units <> 0 THEN 20000 / units END > 1"), true),
        (format!("{groups} WHERE CASE units WHEN 0 THEN 0 ELSE 20000 / units END > 1"), true),
        (format!("{groups} WHERE 20000 / nullif(units, 0) > 1"), true),
        (format!("(SELECT * FROM {groups} LIMIT 1000) l WHERE 20000 / units > 1"), true),
    ] {
        let sql = format!("SELECT count(*) FROM {from}");
        assert_eq!(lines(&mut session, &sql), ["49"], "{sql}");
        if has_late {
            let sql = format!("SELECT * FROM {from}");
            assert!(joins_groups(&mut session, &sql), "{sql}");
        }
    }
}
