// SPDX-License-Identifier: Apache-2.0
//! The same statements through both paths, on random data: same rows, same errors.

use super::show;
use crate::engine::Engine;
use crate::session::Session;
use crate::types::column_type_of_arrow;
use coeval_store::{ColumnType, Store, StoreOptions};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const TABLES: &str = "CREATE TABLE p (a int, b int, c varchar(8), n numeric(10,2), f double precision, \
                      d date, PRIMARY KEY (a, b), CHECK (n < 900)); \
                      CREATE INDEX p_c ON p (c, a); \
                      CREATE TABLE q (id bigint PRIMARY KEY, a int NOT NULL, u int UNIQUE, t text DEFAULT 'none')";

/// What is read. `$` is a small number, `@` a short text in quotes, `#` a decimal.
const READS: &[&str] = &[
    "SELECT * FROM p WHERE a = $ AND b = $",
    "SELECT b, n * 2, c FROM p WHERE a = $ AND n > #",
    "SELECT a, b FROM p WHERE a = $ AND b BETWEEN $ AND $ ORDER BY b DESC",
    "SELECT a, b FROM p WHERE c = @ ORDER BY a, b",
    "SELECT a, b, n FROM p WHERE a = $ ORDER BY n, b LIMIT 3",
    "SELECT a, b, n FROM p WHERE a = $ ORDER BY n DESC, b OFFSET 1 LIMIT 3",
    "SELECT count(*), count(n), sum(n), min(c), max(f), count(DISTINCT c) FROM p WHERE a = $",
    "SELECT max(b), min(b) FROM p WHERE a = $",
    "SELECT max(b) FROM p WHERE a = $ AND b < $",
    "SELECT c, count(*), sum(b) FROM p WHERE a = $ GROUP BY c ORDER BY c",
    "SELECT avg(n), avg(f) FROM p WHERE a = $",
    "SELECT coalesce(c, 'nothing') || '!' FROM p WHERE a = $",
    "SELECT b FROM p WHERE a IN ($, $, $) AND b = $",
    "SELECT b, CASE WHEN n > # THEN 'high' WHEN n IS NULL THEN 'none' ELSE 'low' END FROM p WHERE a = $",
    "SELECT p.b, q.t FROM p, q WHERE p.a = $ AND q.id = p.b",
    "SELECT q.id, p.n FROM q JOIN p ON p.a = q.a AND p.b = q.id WHERE q.id = $",
    "SELECT b FROM p WHERE a = $ AND c LIKE '%1%'",
    "SELECT b FROM p WHERE a = $ AND d > DATE '2024-01-05'",
    "SELECT id FROM q WHERE u = $",
    "SELECT a + b, a - b, b % 3, -a FROM p WHERE a = $",
    "SELECT a / (b - $) FROM p WHERE a = $",
    "SELECT n / (b + 1), a / (n + 1), n / 3, 1 / 3.0, b / 7 FROM p WHERE a = $",
    "SELECT a + 1, id + 1, -u, abs(u), 2147483647, 2147483648, -2147483648 FROM q WHERE id = $",
    "SELECT u * 1000000000 FROM q WHERE id = $",
    "SELECT n::int, (-n)::int, f::int, (f * 5)::bigint, n::smallint, n::real FROM p WHERE a = $ AND b = $",
    "SELECT avg(a), avg(n), avg(f), sum(a), sum(n), sum(f) FROM p WHERE a = $",
    "SELECT sum(id), avg(id) FROM q WHERE id = $",
    "SELECT a::text, n::text, c::varchar(1), c::char(3), a::numeric, n::numeric FROM p WHERE a = $",
    "SELECT '2.345'::numeric, n::numeric(6,1), round(n), round(n, 1), round(f) FROM p WHERE a = $",
    "SELECT b FROM p WHERE a = $ AND d > '2024-01-05' AND n < '10.5'",
    "SELECT b FROM p WHERE a = $ AND d = 'nonsense'",
    "SELECT a + 0.5, n * 1.5, a % 3, n % 0.7, f + a, f * n FROM p WHERE a = $",
    "SELECT coalesce(n, 0), coalesce(a, 1.5), greatest(a, n), nullif(a, 1) FROM p WHERE a = $ AND b = $",
    "SELECT id FROM q WHERE id = $ LIMIT -1",
    "SELECT id FROM q WHERE id = $ OFFSET -1",
    "SELECT b FROM p WHERE a = $ AND nonsense = 1",
    "SELECT id FROM q ORDER BY id LIMIT 5",
    "SELECT b FROM p WHERE a = $ AND (c = @ OR f > 0.5) AND NOT (n = #)",
    "SELECT (SELECT count(p.b) FROM q WHERE q.id = $) FROM p WHERE a = $",
];

/// Joins and subqueries that begin with a key: all of them take the point path.
const JOINED: &[&str] = &[
    "SELECT p.b, q.t, q.u FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $",
    "SELECT p.b, q.id FROM p LEFT JOIN q ON q.id = p.b AND q.u > $ WHERE p.a = $ AND (q.u IS NULL OR q.u < $)",
    "SELECT p.b, q.id, r.n FROM p LEFT JOIN q ON q.id = p.b LEFT JOIN p r ON r.a = q.a AND r.b = $ WHERE p.a = $",
    "SELECT p.b, q.id, r.n FROM p LEFT JOIN q ON q.id = p.b JOIN p r ON r.a = p.a AND r.b = p.b WHERE p.a = $",
    "SELECT p.b, r.b FROM p LEFT JOIN q ON q.id = p.b JOIN p r ON r.a = q.a AND r.n > # WHERE p.a = $",
    "SELECT q.id, p.n FROM p RIGHT JOIN q ON p.a = q.a AND p.b = q.id WHERE q.id = $",
    "SELECT p.b FROM p LEFT JOIN q ON q.id = p.b AND p.n > # WHERE p.a = $ AND q.id IS NULL",
    "SELECT p.b, q.id FROM p LEFT JOIN q ON q.u = p.b AND $ < 4 WHERE p.a = $",
    "SELECT count(*), count(q.id), sum(p.n), min(q.u), max(q.t) FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $",
    "SELECT q.t, count(*), count(DISTINCT q.a) FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $ GROUP BY q.t ORDER BY q.t",
    "SELECT p.b, q.u FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $ ORDER BY p.b DESC LIMIT 3",
    "SELECT p.b, q.u FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $ ORDER BY q.u DESC, p.b LIMIT 3 OFFSET 1",
    "SELECT p.a, p.b, q.t FROM p LEFT JOIN q ON q.id = p.b ORDER BY p.a, p.b LIMIT 5",
    "SELECT q.id, r.n FROM q LEFT JOIN p r ON r.a = q.a AND r.b = $ WHERE q.id > $ ORDER BY q.id DESC LIMIT 3",
    "SELECT p.a, p.b, q.u FROM p JOIN q ON q.id = p.b WHERE EXISTS (SELECT 1 FROM p r WHERE r.a = q.a) ORDER BY p.a DESC, p.b DESC LIMIT 2 OFFSET 1",
    "SELECT p.a, p.b, q.u FROM p JOIN q ON q.id = p.b WHERE p.a IN ($, $)",
    "SELECT p.a, p.b, q.u FROM p JOIN q ON q.id = p.b WHERE p.a BETWEEN $ AND $ ORDER BY p.a, p.b",
    "SELECT avg(p.n), count(q.u) FROM p, q WHERE p.a > $ AND p.a <= $ AND q.id = p.b",
    "SELECT b FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.id = p.b AND q.u > $)",
    "SELECT b FROM p WHERE a = $ AND NOT EXISTS (SELECT * FROM q WHERE q.id = b AND q.a = p.a)",
    "SELECT b FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.id = $)",
    "SELECT b FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q, p r WHERE q.id = p.b AND r.a = q.a AND r.n > p.n)",
    "SELECT b FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.id = p.b AND EXISTS (SELECT 1 FROM p r WHERE r.a = q.a AND r.b = q.id))",
    "SELECT max(b), count(*) FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.u = p.b)",
    "SELECT max(b) FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.u = p.b)",
    "SELECT b FROM p WHERE a = $ AND b IN (SELECT id FROM q WHERE id > $ AND id < $)",
    "SELECT a, b FROM p WHERE a IN (SELECT a FROM q WHERE q.id = $) ORDER BY a, b",
    "SELECT id FROM q WHERE id IN (SELECT p.b FROM p WHERE p.a = $ AND p.n > #)",
    "SELECT id FROM q WHERE u IN (SELECT p.b FROM p JOIN q r ON r.id = p.b WHERE p.a = $)",
    "SELECT b FROM p WHERE a = $ AND n IN (SELECT u FROM q WHERE q.id = p.b)",
    "SELECT p.b, q.id FROM p LEFT JOIN q ON q.id = p.b WHERE p.a IN (SELECT r.b FROM p r WHERE r.a = $) ORDER BY p.b, q.id",
    "SELECT p.b / (q.u - $) FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $",
    "SELECT a, b, p.n, r.c FROM p JOIN p r USING (a, b) WHERE a = $ AND r.n > #",
    "SELECT b, r.n, s.c FROM p LEFT JOIN p r USING (a, b) LEFT JOIN p s USING (a, b) WHERE a = $ ORDER BY b",
    "SELECT a, count(r.n) FROM p LEFT JOIN p r USING (b, a) WHERE p.a = $ GROUP BY a",
    "SELECT b, (SELECT t FROM q WHERE q.id = p.b) FROM p WHERE a = $",
    "SELECT b, (SELECT u FROM q WHERE q.id = $), n FROM p WHERE a = $",
    "SELECT b, (SELECT count(*) FROM p r WHERE r.a = p.b) AS k, (SELECT max(r.n) + 1 FROM p r WHERE r.a = p.b AND r.b > $) FROM p WHERE a = $ ORDER BY k DESC, b LIMIT 3",
    "SELECT b, (SELECT r.b FROM p r WHERE r.a = p.b) FROM p WHERE a = $",
    "SELECT b, (SELECT q.u FROM q JOIN p r ON r.a = q.a AND r.b = p.b WHERE q.id = p.b) AS u FROM p WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.id = p.b)",
    "SELECT DISTINCT q.t, p.c FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $",
    "SELECT DISTINCT p.c AS word, q.u % 2, 1 FROM p LEFT JOIN q ON q.id = p.b WHERE p.a = $ ORDER BY word DESC, q.u % 2 LIMIT 3",
    "SELECT b FROM p WHERE a = $ AND b IN (SELECT DISTINCT q.a FROM q WHERE q.id = p.b)",
];

/// Changes of rows that other tables decide, by keys.
const DECIDED: &[&str] = &[
    "UPDATE p SET n = n + 1 WHERE a = $ AND EXISTS (SELECT 1 FROM q WHERE q.id = p.b) RETURNING b, n",
    "UPDATE p SET n = 0 WHERE a IN (SELECT a FROM q WHERE q.id = $)",
    "DELETE FROM q WHERE id = $ AND NOT EXISTS (SELECT 1 FROM p WHERE p.a = $ AND p.b = q.id)",
    "DELETE FROM p WHERE a = $ AND b IN (SELECT id FROM q WHERE u = $) RETURNING a, b",
    "UPDATE p SET n = q.u, c = q.t FROM q WHERE p.a = $ AND q.id = p.b RETURNING p.a, p.b, p.n, p.c",
    "UPDATE q SET t = p.c FROM p WHERE q.id = $ AND p.a = q.a AND p.b = q.id RETURNING id, t",
    "UPDATE q SET u = NULL FROM p LEFT JOIN q r ON r.id = p.b + 1 WHERE q.id = $ AND p.a = q.a AND p.b = q.id AND r.id IS NULL",
    "UPDATE q SET a = q.a + 1 FROM p WHERE q.id = $ AND p.a = $ RETURNING q.id, q.a",
    "DELETE FROM p USING q WHERE q.id = $ AND p.a = q.a AND p.b = q.u RETURNING p.a, p.b",
    "DELETE FROM q USING p WHERE q.id = $ AND p.a = $ RETURNING id",
];

/// What is written.
const WRITES: &[&str] = &[
    "INSERT INTO p VALUES ($, $, @, #, 0.25, '2024-01-07')",
    "INSERT INTO p (a, b, n) VALUES ($, $, #), ($, $, #) RETURNING a, b, c",
    "INSERT INTO p (a, b, n) VALUES ($, $, 1000)",
    "INSERT INTO q (id, a, u) VALUES ($, $, $) ON CONFLICT DO NOTHING",
    "INSERT INTO q (id, a, u) VALUES ($, $, $)",
    "INSERT INTO q (id, a) VALUES ($, $) ON CONFLICT (id) DO UPDATE SET a = q.a + excluded.a RETURNING id, a, t",
    "INSERT INTO q (id, a) VALUES ($, NULL)",
    "UPDATE p SET n = n + #, c = @ WHERE a = $ AND b = $ RETURNING n",
    "UPDATE p SET f = f * 2 WHERE a = $",
    "UPDATE p SET b = b + 100 WHERE a = $ AND b = $",
    "UPDATE p SET c = 'far too long' WHERE a = $ AND b = $",
    "UPDATE p SET n = n / (b - $) WHERE a = $ AND b = $",
    "UPDATE q SET u = $ WHERE id = $",
    "DELETE FROM p WHERE a = $ AND b = $ RETURNING *",
    "DELETE FROM q WHERE id = $",
];

fn filled_in(template: &str, random: &mut StdRng) -> String {
    let mut sql = String::new();
    for symbol in template.chars() {
        match symbol {
            '$' => sql.push_str(&random.random_range(0..8).to_string()),
            '@' => sql.push_str(&format!("'t{}'", random.random_range(0..4))),
            '#' => {
                sql.push_str(&format!("{}.{:02}", random.random_range(0..50), random.random_range(0..100)))
            }
            other => sql.push(other),
        }
    }
    sql
}

fn session(point_path: &str) -> Session {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    session.execute(TABLES).unwrap();
    session.execute(&format!("SET coeval.point_path = {point_path}")).unwrap();
    session
}

/// Types, and rows in the order of their text, unless the statement orders them; or the SQLSTATE.
fn outcome(session: &mut Session, sql: &str) -> String {
    match session.execute(sql) {
        Ok(results) => {
            let result = results.last().unwrap();
            let fields = result.rows.iter().flat_map(|rows| rows.schema.fields());
            // The digits of a number show its scale; how many more it could have does not matter.
            let types: Vec<String> = fields
                .map(|field| match column_type_of_arrow(field.data_type()).unwrap() {
                    ColumnType::Numeric { .. } => "numeric".to_owned(),
                    other => other.to_string(),
                })
                .collect();
            let types = types.join(", ");
            let shown = show(result);
            if sql.contains("ORDER BY") {
                return format!("{types}: {shown}");
            }
            let mut rows: Vec<&str> = shown.split(' ').collect();
            rows.sort_unstable();
            format!("{types}: {}", rows.join(" "))
        }
        Err(error) => error.state.code().to_owned(),
    }
}

#[test]
fn both_paths_give_the_same_rows_and_errors() {
    let mut random = StdRng::seed_from_u64(2);
    let (mut point, mut general) = (session("on"), session("off"));
    for step in 0..600 {
        let templates = if step % 3 == 0 { READS } else { WRITES };
        let sql = filled_in(templates[random.random_range(0..templates.len())], &mut random);
        assert_eq!(outcome(&mut point, &sql), outcome(&mut general, &sql), "step {step}: {sql}");
    }
    for template in READS {
        let sql = filled_in(template, &mut random);
        assert_eq!(outcome(&mut point, &sql), outcome(&mut general, &sql), "{sql}");
    }
    for table in ["SELECT * FROM p", "SELECT * FROM q"] {
        assert_eq!(outcome(&mut point, table), outcome(&mut general, table));
    }
}

/// Whether a statement is run by keys.
fn takes_point_path(session: &mut Session, sql: &str) -> bool {
    let lines = session.execute(&format!("EXPLAIN {sql}")).unwrap_or_else(|error| panic!("{sql}: {error}"));
    show(lines.last().unwrap()).starts_with("Point path")
}

#[test]
fn joins_and_subqueries_by_keys_take_the_point_path_and_give_the_same() {
    let mut random = StdRng::seed_from_u64(3);
    let (mut point, mut general) = (session("on"), session("off"));
    for step in 0..400 {
        let templates = [WRITES, WRITES, WRITES, JOINED, DECIDED][step % 5];
        let sql = filled_in(templates[random.random_range(0..templates.len())], &mut random);
        assert_eq!(outcome(&mut point, &sql), outcome(&mut general, &sql), "step {step}: {sql}");
    }
    for template in JOINED.iter().chain(DECIDED) {
        for _ in 0..3 {
            let sql = filled_in(template, &mut random);
            assert!(takes_point_path(&mut point, &sql), "{sql}");
            assert_eq!(outcome(&mut point, &sql), outcome(&mut general, &sql), "{sql}");
        }
    }
}
