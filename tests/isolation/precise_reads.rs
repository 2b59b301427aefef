// SPDX-License-Identifier: Apache-2.0
//! What a query through DataFusion counts as read: of each way to a table's rows, a write that changes what it found,
//! which is refused, and one beside it, which is not.

use crate::script::{CONFLICT, Expected, Step, run};
use Expected::{Done, Tag};

const SETUP: &[&str] = &[
    "CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL, note text)",
    "CREATE INDEX item_price ON item (price)",
    "CREATE UNIQUE INDEX item_name ON item (name)",
    "INSERT INTO item SELECT g, 'n' || g, g * 10, 'x' FROM generate_series(1, 9) AS t(g)",
    "CREATE TABLE part (item int, number int, weight int NOT NULL, PRIMARY KEY (item, number))",
    "INSERT INTO part SELECT i.id, n.id, 5 FROM item i, item n WHERE n.id < 5",
    "CREATE TABLE flag (id int PRIMARY KEY, value int NOT NULL)",
    "INSERT INTO flag VALUES (1, 0), (2, 0)",
    "CREATE TABLE event (region text, day date, likes int) USING brick
         PARTITION BY (region CARDINALITY 8 RANGE SIZE 2, day RANGE SIZE '10 days' FROM '2026-01-01')",
    "INSERT INTO event VALUES ('a', '2026-01-01', 1), ('b', '2026-01-12', 2), ('c', '2026-01-03', 3)",
];

/// A query; a write that changes its answer, or could have; a write that cannot.
struct Case {
    read: &'static str,
    within: &'static [&'static str],
    beside: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        read: "SELECT price FROM item WHERE id = 3",
        within: &[
            "UPDATE item SET price = 1 WHERE id = 3",
            "DELETE FROM item WHERE id = 3",
            "DELETE FROM item",
        ],
        beside: &["UPDATE item SET price = 1 WHERE id = 4", "INSERT INTO item VALUES (30, 'm', 1, NULL)"],
    },
    Case {
        read: "SELECT price FROM item WHERE id = 30",
        within: &["INSERT INTO item VALUES (30, 'm', 1, NULL)", "UPDATE item SET id = 30 WHERE id = 1"],
        beside: &["INSERT INTO item VALUES (31, 'm', 1, NULL)"],
    },
    Case {
        read: "SELECT sum(price) FROM item WHERE id > 2 AND id <= 5",
        within: &["UPDATE item SET price = 1 WHERE id = 3", "UPDATE item SET note = 'y' WHERE id = 5"],
        beside: &["UPDATE item SET price = 1 WHERE id = 2", "UPDATE item SET price = 1 WHERE id = 6"],
    },
    Case {
        read: "SELECT count(*) FROM item WHERE id BETWEEN 20 AND 29",
        within: &["INSERT INTO item VALUES (25, 'm', 1, NULL)"],
        beside: &["INSERT INTO item VALUES (35, 'm', 1, NULL)", "DELETE FROM item WHERE id = 9"],
    },
    Case {
        read: "SELECT name FROM item WHERE id IN (1, 3, 5, 7, 11) OR id > 100",
        within: &["UPDATE item SET price = 1 WHERE id = 7", "INSERT INTO item VALUES (101, 'm', 1, NULL)"],
        beside: &["UPDATE item SET price = 1 WHERE id = 4", "INSERT INTO item VALUES (12, 'm', 1, NULL)"],
    },
    Case {
        read: "SELECT sum(weight) FROM part WHERE item = 3 AND number < 3 AND weight % 2 = 1",
        within: &[
            "UPDATE part SET weight = 1 WHERE item = 3 AND number = 2",
            "INSERT INTO part VALUES (3, 0, 1)",
        ],
        beside: &[
            "UPDATE part SET weight = 1 WHERE item = 3 AND number = 3",
            "INSERT INTO part VALUES (4, 0, 1)",
        ],
    },
    Case {
        read: "SELECT sum(weight) FROM part WHERE item IN (2, 4) AND number = 1",
        within: &["UPDATE part SET weight = 1 WHERE item = 4 AND number = 1"],
        beside: &[
            "UPDATE part SET weight = 1 WHERE item = 3 AND number = 1",
            "INSERT INTO part VALUES (2, 9, 1)",
        ],
    },
    Case {
        read: "SELECT note FROM item WHERE upper(name) = 'N3' AND name = 'n3'",
        within: &["UPDATE item SET note = 'y' WHERE id = 3", "DELETE FROM item WHERE id = 3"],
        beside: &["UPDATE item SET note = 'y' WHERE id = 4", "UPDATE item SET name = 'z' WHERE id = 4"],
    },
    Case {
        read: "SELECT max(id) FROM item WHERE price >= 70",
        within: &[
            "UPDATE item SET price = 700 WHERE id = 1",
            "UPDATE item SET price = 1 WHERE id = 8",
            "INSERT INTO item VALUES (50, 'm', 70, NULL)",
        ],
        beside: &["UPDATE item SET price = 1 WHERE id = 4", "INSERT INTO item VALUES (50, 'm', 69, NULL)"],
    },
    Case {
        read: "SELECT id FROM item LIMIT 2",
        within: &["UPDATE item SET price = 1 WHERE id = 2", "INSERT INTO item VALUES (0, 'm', 1, NULL)"],
        beside: &["UPDATE item SET price = 1 WHERE id = 3", "INSERT INTO item VALUES (50, 'm', 1, NULL)"],
    },
    Case {
        read: "SELECT id FROM item LIMIT 50",
        within: &["INSERT INTO item VALUES (50, 'm', 1, NULL)"],
        beside: &["UPDATE part SET weight = 1 WHERE item = 3 AND number = 1"],
    },
    Case {
        read: "SELECT id FROM item WHERE note = 'y' LIMIT 1",
        within: &["UPDATE item SET note = 'y' WHERE id = 9"],
        beside: &["UPDATE part SET weight = 1 WHERE item = 3 AND number = 1"],
    },
    Case {
        read: "SELECT i.price FROM item i JOIN part p ON p.item = i.id WHERE i.id = 3 AND p.item = 3",
        within: &[
            "UPDATE part SET weight = 1 WHERE item = 3 AND number = 1",
            "DELETE FROM item WHERE id = 3",
        ],
        beside: &[
            "UPDATE part SET weight = 1 WHERE item = 4 AND number = 1",
            "DELETE FROM item WHERE id = 4",
        ],
    },
    Case {
        read: "SELECT a.price + b.price FROM item a, item b WHERE a.id = 1 AND b.id = 5",
        within: &["UPDATE item SET price = 1 WHERE id = 1", "UPDATE item SET price = 1 WHERE id = 5"],
        beside: &["UPDATE item SET price = 1 WHERE id = 3"],
    },
    Case {
        read: "SELECT value FROM flag f WHERE f.id = 2 AND EXISTS (SELECT 1 FROM item i WHERE i.id = 3)",
        within: &["DELETE FROM item WHERE id = 3"],
        beside: &["DELETE FROM item WHERE id = 4"],
    },
    Case {
        read: "SELECT (SELECT price FROM item i WHERE i.id > f.id ORDER BY note LIMIT 1) FROM flag f WHERE f.id = 2",
        within: &["UPDATE item SET price = 1 WHERE id = 9"],
        beside: &["UPDATE part SET weight = 1 WHERE item = 3 AND number = 1"],
    },
    Case {
        read: "WITH c AS (SELECT count(*) AS n FROM item WHERE id < 3) SELECT n FROM c UNION ALL SELECT 1",
        within: &["DELETE FROM item WHERE id = 1"],
        beside: &["DELETE FROM item WHERE id = 4"],
    },
    Case {
        read: "SELECT count(*) FROM item",
        within: &["INSERT INTO item VALUES (50, 'm', 1, NULL)", "DELETE FROM item WHERE id = 1"],
        beside: &["UPDATE part SET weight = 1 WHERE item = 3 AND number = 1"],
    },
    Case {
        read: "SELECT min(id) FROM item",
        within: &["DELETE FROM item WHERE id = 1"],
        beside: &["UPDATE part SET weight = 1 WHERE item = 3 AND number = 1"],
    },
    Case {
        read: "SELECT id FROM item WHERE false",
        within: &["DROP TABLE item"],
        beside: &["INSERT INTO item VALUES (50, 'm', 1, NULL)", "DELETE FROM item WHERE id = 1"],
    },
    Case {
        read: "UPDATE flag SET value = 3 FROM item i WHERE flag.id = 2 AND i.id = 3 AND i.price > 900",
        within: &["UPDATE item SET price = 901 WHERE id = 3"],
        beside: &["UPDATE item SET price = 901 WHERE id = 4"],
    },
    Case {
        read: "UPDATE part SET weight = weight + 1 WHERE item = 3 AND weight > 100",
        within: &["UPDATE part SET weight = 101 WHERE item = 3 AND number = 1"],
        beside: &["UPDATE part SET weight = 101 WHERE item = 4 AND number = 1"],
    },
    Case {
        read: "DECLARE c CURSOR FOR SELECT id FROM item WHERE id < 4",
        within: &["UPDATE item SET price = 1 WHERE id = 3"],
        beside: &["UPDATE item SET price = 1 WHERE id = 4"],
    },
    Case {
        read: "SELECT sum(likes) FROM event WHERE day < '2026-01-11' AND likes > 0",
        within: &[
            "INSERT INTO event VALUES ('a', '2026-01-05', 1)",
            "INSERT INTO event VALUES ('new', '2026-01-10', 1)",
            "DELETE FROM event WHERE day < '2026-01-11'",
        ],
        beside: &[
            "INSERT INTO event VALUES ('a', '2026-01-11', 1)",
            "DELETE FROM event WHERE day >= '2026-01-11'",
        ],
    },
    Case {
        read: "SELECT count(*) FROM event WHERE region IN ('c', 'unknown') AND day BETWEEN '2026-02-10' AND '2026-02-12'",
        within: &[
            "INSERT INTO event VALUES ('c', '2026-02-11', 1)",
            "INSERT INTO event VALUES ('unknown', '2026-02-11', 1)",
        ],
        beside: &[
            "INSERT INTO event VALUES ('a', '2026-02-11', 1)",
            "INSERT INTO event VALUES ('c', '2026-02-20', 1), ('b', '2026-01-01', 1)",
        ],
    },
    Case {
        read: "SELECT i.id FROM item i JOIN event e ON e.likes = i.id WHERE e.day = '2026-01-03'",
        within: &["INSERT INTO event VALUES ('a', '2026-01-03', 1)"],
        beside: &["INSERT INTO event VALUES ('a', '2026-01-13', 1)"],
    },
    Case {
        read: "SELECT count(*) FROM event",
        within: &[
            "INSERT INTO event VALUES ('a', '2026-03-03', 1)",
            "DELETE FROM event WHERE region IN ('a', 'b')",
        ],
        beside: &["DELETE FROM event WHERE day > '2026-04-01'"],
    },
    Case {
        read: "DELETE FROM event WHERE day BETWEEN '2026-03-02' AND '2026-03-11'",
        within: &["INSERT INTO event VALUES ('a', '2026-03-03', 1)"],
        beside: &["INSERT INTO event VALUES ('a', '2026-01-03', 1)"],
    },
];

/// `a` reads and changes what `b` reads; `b` writes: with an anomaly if that changes what `a` has read.
fn skew(read: &'static str, write: &'static str, second: Expected) -> Vec<Step> {
    vec![
        ("a", "SET coeval.point_path = off", Done),
        ("b", "SET coeval.point_path = off", Done),
        ("a", "BEGIN ISOLATION LEVEL SERIALIZABLE", Done),
        ("b", "BEGIN ISOLATION LEVEL SERIALIZABLE", Done),
        ("a", read, Done),
        ("a", "UPDATE flag SET value = 1 WHERE id = 1", Tag("UPDATE 1")),
        ("b", "SELECT value FROM flag WHERE id = 1", Expected::Rows(&["0"])),
        ("b", write, Done),
        ("a", "COMMIT", Done),
        ("b", "COMMIT", second),
    ]
}

#[test]
fn a_write_within_what_a_scan_read_is_refused() {
    for case in CASES {
        for write in case.within {
            println!("{} / {write}", case.read);
            run(SETUP, &skew(case.read, write, CONFLICT));
        }
    }
}

#[test]
fn a_write_beside_what_a_scan_read_is_not() {
    for case in CASES {
        for write in case.beside {
            println!("{} / {write}", case.read);
            run(SETUP, &skew(case.read, write, Done));
        }
    }
}
