// SPDX-License-Identifier: Apache-2.0
//! The eight transactions of the RSS paper's Figure 2 (Shioi et al., section 4.2), and which of them a reader on a safe
//! snapshot finds. Each `tN` writes row N.
//!
//! ```text
//! clear      t1          t3 <-rw- t4      t6
//! obscure                         t4      t7
//! undone     t2                   ^rw t5  ^rw t8
//! ```
//!
//! The snapshot has the clear ones and t4, which comes before one of them. It has not t7: nothing says that it comes
//! before anybody who is clear, and t8, which is still active, comes before it.

use crate::script::{CONFLICT, Expected, Step, run};
use Expected::{Done, Rows, Tag};

const SETUP: &[&str] = &[
    "CREATE TABLE item (id int PRIMARY KEY, value int NOT NULL)",
    "INSERT INTO item SELECT id, 0 FROM generate_series(1, 8) AS id",
];

const SERIALIZABLE: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ";
const READ_ONLY: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY";
const WRITTEN: &str = "SELECT string_agg(id::text, '' ORDER BY id) FROM item WHERE value <> 0";

/// Up to where t2, t5 and t8 are active, and t4 and t7 have committed.
fn figure(begin: &'static str) -> Vec<Step> {
    vec![
        ("t4", begin, Done),
        ("t4", "SELECT value FROM item WHERE id = 3", Rows(&["0"])),
        ("t1", begin, Done),
        ("t1", "UPDATE item SET value = 1 WHERE id = 1", Tag("UPDATE 1")),
        ("t1", "COMMIT", Done),
        ("t3", begin, Done),
        ("t3", "UPDATE item SET value = 1 WHERE id = 3", Tag("UPDATE 1")),
        ("t3", "COMMIT", Done),
        ("t6", begin, Done),
        ("t6", "UPDATE item SET value = 1 WHERE id = 6", Tag("UPDATE 1")),
        ("t6", "COMMIT", Done),
        ("t2", begin, Done),
        ("t2", "SELECT value FROM item WHERE id = 1", Rows(&["1"])),
        ("t5", begin, Done),
        ("t5", "SELECT value FROM item WHERE id = 4", Rows(&["0"])),
        ("t7", begin, Done),
        ("t7", "SELECT value FROM item WHERE id = 6", Rows(&["1"])),
        ("t8", begin, Done),
        ("t8", "SELECT value FROM item WHERE id = 7", Rows(&["0"])),
        ("t4", "UPDATE item SET value = 1 WHERE id = 4", Tag("UPDATE 1")),
        ("t4", "COMMIT", Done),
        ("t7", "UPDATE item SET value = 1 WHERE id = 7", Tag("UPDATE 1")),
        ("t7", "COMMIT", Done),
    ]
}

#[test]
fn a_safe_reader_finds_the_clear_ones_and_the_one_before_them_while_three_are_active() {
    let reads: [Step; 13] = [
        ("r", READ_ONLY, Done),
        ("r", WRITTEN, Rows(&["1346"])),
        ("t8", "UPDATE item SET value = 1 WHERE id = 8", Tag("UPDATE 1")),
        ("t8", "COMMIT", Done),
        ("t2", "UPDATE item SET value = 1 WHERE id = 2", Tag("UPDATE 1")),
        ("t2", "COMMIT", Done),
        // t5 comes before t4, and t4 before t3: the structure that must not arise.
        ("t5", "UPDATE item SET value = 1 WHERE id = 5", Tag("UPDATE 1")),
        ("t5", "COMMIT", CONFLICT),
        ("r", WRITTEN, Rows(&["1346"])),
        ("r", "COMMIT", Done),
        ("r", READ_ONLY, Done),
        ("r", WRITTEN, Rows(&["1234678"])),
        ("r", "COMMIT", Done),
    ];
    run(SETUP, &[figure(SERIALIZABLE).as_slice(), &reads].concat());
}

/// "If t7 <-rw- t8 holds, t6 <-rw- t7 should not have been allowed."
#[test]
fn who_stands_between_an_active_one_and_a_clear_one_is_refused() {
    for (begin, last) in [(SERIALIZABLE, CONFLICT), (REPEATABLE_READ, Done)] {
        run(
            SETUP,
            &[
                ("t7", begin, Done),
                ("t7", "SELECT value FROM item WHERE id = 6", Rows(&["0"])),
                ("t6", begin, Done),
                ("t6", "UPDATE item SET value = 1 WHERE id = 6", Tag("UPDATE 1")),
                ("t6", "COMMIT", Done),
                ("t8", begin, Done),
                ("t8", "SELECT value FROM item WHERE id = 7", Rows(&["0"])),
                ("t8", "UPDATE item SET value = 1 WHERE id = 8", Tag("UPDATE 1")),
                ("t8", "COMMIT", Done),
                ("t7", "UPDATE item SET value = 1 WHERE id = 7", Tag("UPDATE 1")),
                ("t7", "COMMIT", last),
            ],
        );
    }
}

#[test]
fn at_repeatable_read_all_eight_commit() {
    let rest: [Step; 6] = [
        ("t8", "UPDATE item SET value = 1 WHERE id = 8", Done),
        ("t8", "COMMIT", Done),
        ("t2", "COMMIT", Done),
        ("t5", "UPDATE item SET value = 1 WHERE id = 5", Tag("UPDATE 1")),
        ("t5", "COMMIT", Done),
        ("t2", WRITTEN, Rows(&["1345678"])),
    ];
    run(SETUP, &[figure(REPEATABLE_READ).as_slice(), &rest].concat());
}
