// SPDX-License-Identifier: Apache-2.0
//! The anomalies by name at each level, prevented or allowed: the table in `docs/sql.md` is what happens here.

use crate::script::{Observed, observe};

const LEVELS: [&str; 3] = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

const SETUP: &[&str] = &[
    "CREATE TABLE account (id int PRIMARY KEY, balance int NOT NULL)",
    "CREATE INDEX account_balance ON account (balance)",
    "INSERT INTO account VALUES (1, 100), (2, 100)",
    "CREATE TABLE doctor (name text PRIMARY KEY, on_call boolean NOT NULL)",
    "INSERT INTO doctor VALUES ('ann', true), ('bob', true)",
    "CREATE TABLE lesson (id int PRIMARY KEY, room int NOT NULL, first int NOT NULL, last int NOT NULL)",
    "CREATE TABLE project (id int PRIMARY KEY, manager text NOT NULL)",
    "INSERT INTO project VALUES (1, 'ann')",
    "CREATE TABLE person (name text PRIMARY KEY, is_active boolean NOT NULL)",
    "INSERT INTO person VALUES ('ann', true), ('bob', true)",
    "CREATE TABLE control (batch int PRIMARY KEY)",
    "INSERT INTO control VALUES (1)",
    "CREATE TABLE receipt (id int PRIMARY KEY, batch int NOT NULL, amount int NOT NULL)",
    "CREATE TABLE item (id int PRIMARY KEY, value int NOT NULL)",
    "INSERT INTO item SELECT id, 0 FROM generate_series(1, 8) AS id",
];

/// What shows that it has happened: the step, counted from 0, and what it gave.
type Sign = (usize, &'static [&'static str]);

struct Anomaly {
    name: &'static str,
    /// `BEGIN` is one at the level.
    steps: &'static [(&'static str, &'static str)],
    signs: &'static [Sign],
    /// At READ COMMITTED, REPEATABLE READ and SERIALIZABLE.
    allowed: [bool; 3],
}

const ANOMALIES: &[Anomaly] = &[
    Anomaly {
        name: "dirty write (G0)",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1"),
            ("b", "UPDATE account SET balance = 2 WHERE id = 1"),
            ("a", "UPDATE account SET balance = 1 WHERE id = 2"),
            ("a", "COMMIT"),
            ("b", "UPDATE account SET balance = 2 WHERE id = 2"),
            ("b", "COMMIT"),
            ("c", "SELECT count(DISTINCT balance) FROM account"),
        ],
        signs: &[(8, &["2"])],
        allowed: [false, false, false],
    },
    Anomaly {
        name: "dirty read (G1a)",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1"),
            ("b", "SELECT balance FROM account WHERE id = 1"),
            ("a", "ROLLBACK"),
            ("b", "COMMIT"),
        ],
        signs: &[(3, &["1"])],
        allowed: [false, false, false],
    },
    Anomaly {
        name: "intermediate read (G1b)",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "UPDATE account SET balance = 1 WHERE id = 1"),
            ("b", "SELECT balance FROM account WHERE id = 1"),
            ("a", "UPDATE account SET balance = 2 WHERE id = 1"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
        ],
        signs: &[(3, &["1"])],
        allowed: [false, false, false],
    },
    Anomaly {
        name: "fuzzy read",
        steps: &[
            ("a", "BEGIN"),
            ("a", "SELECT balance FROM account WHERE id = 1"),
            ("b", "UPDATE account SET balance = 1 WHERE id = 1"),
            ("a", "SELECT balance FROM account WHERE id = 1"),
            ("a", "COMMIT"),
        ],
        signs: &[(1, &["100"]), (3, &["1"]), (4, &[])],
        allowed: [true, false, false],
    },
    Anomaly {
        name: "phantom",
        steps: &[
            ("a", "BEGIN"),
            ("a", "SELECT count(*) FROM account WHERE balance > 50"),
            ("b", "INSERT INTO account VALUES (3, 70)"),
            ("a", "SELECT count(*) FROM account WHERE balance > 50"),
            ("a", "COMMIT"),
        ],
        signs: &[(1, &["2"]), (3, &["3"]), (4, &[])],
        allowed: [true, false, false],
    },
    Anomaly {
        name: "read skew (G-single)",
        steps: &[
            ("a", "BEGIN"),
            ("a", "SELECT balance FROM account WHERE id = 1"),
            ("b", "UPDATE account SET balance = balance + 1"),
            ("a", "SELECT balance FROM account WHERE id = 2"),
            ("a", "COMMIT"),
        ],
        signs: &[(1, &["100"]), (3, &["101"]), (4, &[])],
        allowed: [true, false, false],
    },
    Anomaly {
        name: "lost update",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT balance FROM account WHERE id = 1"),
            ("b", "SELECT balance FROM account WHERE id = 1"),
            ("a", "UPDATE account SET balance = 110 WHERE id = 1"),
            ("a", "COMMIT"),
            ("b", "UPDATE account SET balance = 120 WHERE id = 1"),
            ("b", "COMMIT"),
            ("c", "SELECT balance FROM account WHERE id = 1"),
        ],
        signs: &[(5, &[]), (8, &["120"])],
        allowed: [true, false, false],
    },
    Anomaly {
        name: "write skew: two doctors",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT count(*) FROM doctor WHERE on_call"),
            ("b", "SELECT count(*) FROM doctor WHERE on_call"),
            ("a", "UPDATE doctor SET on_call = false WHERE name = 'ann'"),
            ("b", "UPDATE doctor SET on_call = false WHERE name = 'bob'"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
            ("c", "SELECT count(*) FROM doctor WHERE on_call"),
        ],
        signs: &[(8, &["0"])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "write skew: overdraft",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT sum(balance) FROM account"),
            ("b", "SELECT sum(balance) FROM account"),
            ("a", "UPDATE account SET balance = balance - 150 WHERE id = 1"),
            ("b", "UPDATE account SET balance = balance - 150 WHERE id = 2"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
            ("c", "SELECT sum(balance) FROM account"),
        ],
        signs: &[(8, &["-100"])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "write skew: class scheduling",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT count(*) FROM lesson WHERE room = 1 AND first = 9"),
            ("b", "SELECT count(*) FROM lesson WHERE room = 1 AND first = 9"),
            ("a", "INSERT INTO lesson VALUES (1, 1, 9, 10)"),
            ("b", "INSERT INTO lesson VALUES (2, 1, 9, 10)"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
            ("c", "SELECT count(*) FROM lesson"),
        ],
        signs: &[(8, &["2"])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "write skew: project manager",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT is_active FROM person WHERE name = 'bob'"),
            ("b", "SELECT count(*) FROM project WHERE manager = 'bob'"),
            ("a", "UPDATE project SET manager = 'bob' WHERE id = 1"),
            ("b", "UPDATE person SET is_active = false WHERE name = 'bob'"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
            ("c", "SELECT count(*) FROM project, person WHERE manager = name AND NOT is_active"),
        ],
        signs: &[(8, &["1"])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "write skew: temporal range",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT count(*) FROM lesson WHERE room = 1 AND first < 12 AND last > 9"),
            ("b", "SELECT count(*) FROM lesson WHERE room = 1 AND first < 14 AND last > 11"),
            ("a", "INSERT INTO lesson VALUES (1, 1, 9, 12)"),
            ("b", "INSERT INTO lesson VALUES (2, 1, 11, 14)"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
            ("c", "SELECT count(*) FROM lesson"),
        ],
        signs: &[(8, &["2"])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "write skew: predicate through an index",
        steps: &[
            ("a", "BEGIN"),
            ("b", "BEGIN"),
            ("a", "SELECT count(*) FROM account WHERE balance = 7"),
            ("b", "SELECT count(*) FROM account WHERE balance = 7"),
            ("a", "UPDATE account SET balance = 7 WHERE id = 1"),
            ("b", "UPDATE account SET balance = 7 WHERE id = 2"),
            ("a", "COMMIT"),
            ("b", "COMMIT"),
            ("c", "SELECT count(*) FROM account WHERE balance = 7"),
        ],
        signs: &[(8, &["2"])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "read-only anomaly (Fekete, O'Neil, O'Neil 2004)",
        steps: &[
            ("w", "BEGIN"),
            ("w", "SELECT sum(balance) FROM account"),
            ("d", "BEGIN"),
            ("d", "UPDATE account SET balance = balance + 20 WHERE id = 2"),
            ("d", "COMMIT"),
            ("r", "BEGIN"),
            ("r", "SELECT balance FROM account ORDER BY id"),
            ("r", "COMMIT"),
            ("w", "UPDATE account SET balance = balance - 201 WHERE id = 1"),
            ("w", "COMMIT"),
        ],
        signs: &[(6, &["100", "120"]), (7, &[]), (9, &[])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "batch report (Ports, Grittner 2012)",
        steps: &[
            ("n", "BEGIN"),
            ("n", "SELECT batch FROM control"),
            ("c", "BEGIN"),
            ("c", "UPDATE control SET batch = 2"),
            ("c", "COMMIT"),
            ("r", "BEGIN"),
            ("r", "SELECT batch FROM control"),
            ("r", "SELECT count(*) FROM receipt WHERE batch = 1"),
            ("r", "COMMIT"),
            ("n", "INSERT INTO receipt VALUES (1, 1, 100)"),
            ("n", "COMMIT"),
        ],
        signs: &[(6, &["2"]), (7, &["0"]), (8, &[]), (10, &[])],
        allowed: [true, true, false],
    },
    Anomaly {
        name: "eight transactions (Shioi et al., Figure 2), read between the third and the fourth",
        steps: &[
            ("t4", "BEGIN"),
            ("t4", "SELECT value FROM item WHERE id = 3"),
            ("t1", "UPDATE item SET value = 1 WHERE id = 1"),
            ("t3", "BEGIN"),
            ("t3", "UPDATE item SET value = 1 WHERE id = 3"),
            ("t3", "COMMIT"),
            ("t6", "UPDATE item SET value = 1 WHERE id = 6"),
            ("t2", "BEGIN"),
            ("t2", "SELECT value FROM item WHERE id = 1"),
            ("t5", "BEGIN"),
            ("t5", "SELECT string_agg(id::text, '' ORDER BY id) FROM item WHERE value = 1"),
            ("t7", "BEGIN"),
            ("t7", "SELECT value FROM item WHERE id = 6"),
            ("t8", "BEGIN"),
            ("t8", "SELECT value FROM item WHERE id = 7"),
            ("t4", "UPDATE item SET value = 1 WHERE id = 4"),
            ("t4", "COMMIT"),
            ("t7", "UPDATE item SET value = 1 WHERE id = 7"),
            ("t7", "COMMIT"),
            ("t8", "UPDATE item SET value = 1 WHERE id = 8"),
            ("t8", "COMMIT"),
            ("t5", "UPDATE item SET value = 1 WHERE id = 5"),
            ("t5", "COMMIT"),
            ("t2", "COMMIT"),
        ],
        signs: &[(1, &["0"]), (5, &[]), (10, &["136"]), (16, &[]), (22, &[])],
        allowed: [true, true, false],
    },
];

impl Anomaly {
    fn happens(&self, level: &str) -> bool {
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        let statement = |sql: &str| if sql == "BEGIN" { begin.clone() } else { sql.to_owned() };
        let steps: Vec<_> = self.steps.iter().map(|(name, sql)| (*name, statement(sql))).collect();
        let observed = observe(SETUP, &steps);
        let shows = |(step, given): &Sign| matches!(&observed[*step], Observed::Ok(rows) if rows == given);
        // A COMMIT of what had failed is a ROLLBACK, and succeeds.
        let failed = |name: &str| {
            let of = |((by, _), outcome): (&(&str, String), &Observed)| *by == name && outcome.is_err();
            steps.iter().zip(&observed).any(of)
        };
        let commits_shown = self.signs.iter().filter(|(_, given)| given.is_empty());
        self.signs.iter().all(shows) && !commits_shown.into_iter().any(|(step, _)| failed(steps[*step].0))
    }

    fn row(&self) -> String {
        let words = self.allowed.map(|allowed| if allowed { "allowed" } else { "prevented" });
        format!("| {} | {} |", self.name, words.join(" | "))
    }
}

#[test]
fn each_level_prevents_what_its_column_says_and_allows_the_rest() {
    for anomaly in ANOMALIES {
        let found = LEVELS.map(|level| anomaly.happens(level));
        assert_eq!(found, anomaly.allowed, "{}: allowed at {LEVELS:?}", anomaly.name);
    }
}

#[test]
fn the_table_in_the_docs_is_this_one() {
    let docs = std::fs::read_to_string("../docs/sql.md").unwrap();
    let table: Vec<String> = ANOMALIES.iter().map(Anomaly::row).collect();
    let table = format!("| anomaly | {} |\n|---|---|---|---|\n{}\n", LEVELS.join(" | "), table.join("\n"));
    assert!(docs.contains(&table), "docs/sql.md is to have this table:\n{table}");
}
