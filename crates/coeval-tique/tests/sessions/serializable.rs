// SPDX-License-Identifier: Apache-2.0
//! SERIALIZABLE: what a transaction read is certified too.

use crate::{all_options, database, error, rows, state, tag};
use coeval_tique::SqlState;

const BEGIN: &str = "BEGIN ISOLATION LEVEL SERIALIZABLE";
const SETUP: &str = "CREATE TABLE lines (a int, b int, v int, PRIMARY KEY (a, b)); \
    INSERT INTO lines VALUES (1, 1, 10), (1, 2, 10), (2, 1, 10); \
    CREATE TABLE doctors (name text PRIMARY KEY, code int UNIQUE, on_call boolean); \
    INSERT INTO doctors VALUES ('ann', 1, true), ('bob', 2, true); \
    CREATE TABLE parents (k int PRIMARY KEY); INSERT INTO parents VALUES (1); \
    CREATE TABLE children (k int PRIMARY KEY, parent int REFERENCES parents)";

/// What the first transaction reads, what a concurrent one commits meanwhile, and whether the first, which writes
/// something else as well, is refused then.
const RACES: [(&str, &str, bool); 25] = [
    ("SELECT v FROM lines WHERE a = 1 AND b = 1", "UPDATE lines SET v = 0 WHERE a = 1 AND b = 1", true),
    ("SELECT v FROM lines WHERE a = 1 AND b = 1", "DELETE FROM lines WHERE a = 1 AND b = 1", true),
    ("SELECT v FROM lines WHERE a = 1 AND b = 1", "UPDATE lines SET v = 0 WHERE a = 1 AND b = 2", false),
    ("SELECT v FROM lines WHERE a = 1 AND b = 3", "INSERT INTO lines VALUES (1, 3, 0)", true),
    ("SELECT v FROM lines WHERE a = 1 AND b = 3", "INSERT INTO lines VALUES (1, 4, 0)", false),
    // Phantoms, by the first column of the key, by another, and by none.
    ("SELECT sum(v) FROM lines WHERE a = 1", "INSERT INTO lines VALUES (1, 3, 0)", true),
    ("SELECT sum(v) FROM lines WHERE a = 1", "DELETE FROM lines WHERE a = 1 AND b = 2", true),
    ("SELECT sum(v) FROM lines WHERE a = 1", "INSERT INTO lines VALUES (2, 3, 0)", false),
    ("SELECT sum(v) FROM lines WHERE a = 1", "UPDATE lines SET a = 1, b = 9 WHERE a = 2", true),
    ("SELECT sum(v) FROM lines WHERE a = 2", "UPDATE lines SET a = 1, b = 9 WHERE a = 2", true),
    ("SELECT sum(v) FROM lines WHERE b = 1", "INSERT INTO lines VALUES (2, 3, 0)", true),
    ("SELECT count(*) FROM lines", "INSERT INTO lines VALUES (2, 3, 0)", true),
    ("SELECT count(*) FROM lines", "UPDATE doctors SET on_call = false WHERE name = 'bob'", false),
    ("SELECT 1 WHERE EXISTS (SELECT * FROM lines WHERE v > 50)", "UPDATE lines SET v = 60 WHERE a = 2", true),
    // What a change reads.
    ("INSERT INTO lines SELECT 5, 5, count(*) FROM doctors", "DELETE FROM doctors WHERE name = 'bob'", true),
    ("UPDATE lines SET v = 1 WHERE v > 50", "UPDATE lines SET v = 60 WHERE a = 2", true),
    ("DELETE FROM lines WHERE v > 50", "INSERT INTO lines VALUES (7, 7, 70)", true),
    // A row that is the reason to do nothing.
    (
        "INSERT INTO doctors VALUES ('eve', 1, true) ON CONFLICT DO NOTHING",
        "DELETE FROM doctors WHERE code = 1",
        true,
    ),
    ("INSERT INTO doctors VALUES ('eve', 7, true)", "INSERT INTO doctors VALUES ('dan', 8, true)", false),
    (
        "INSERT INTO doctors VALUES ('ann', 1, false) ON CONFLICT (name) DO UPDATE SET on_call = false",
        "INSERT INTO doctors VALUES ('dan', 8, true)",
        false,
    ),
    // What a client has found out by a change that it took back.
    (
        "SAVEPOINT s; INSERT INTO doctors VALUES ('eve', 7, true); ROLLBACK TO s",
        "INSERT INTO doctors VALUES ('dan', 7, true)",
        true,
    ),
    (
        "SAVEPOINT s; INSERT INTO doctors VALUES ('eve', 7, true); ROLLBACK TO s",
        "INSERT INTO doctors VALUES ('dan', 8, true)",
        false,
    ),
    (
        "SAVEPOINT s; DELETE FROM parents WHERE k = 1; ROLLBACK TO s",
        "INSERT INTO children VALUES (1, 1)",
        true,
    ),
    // A look-up behind it says less.
    (
        "SAVEPOINT s; DELETE FROM parents WHERE k = 1; ROLLBACK TO s; SELECT k FROM parents WHERE k = 1",
        "INSERT INTO children VALUES (1, 1)",
        true,
    ),
    (
        "SAVEPOINT s; INSERT INTO doctors VALUES ('eve', 1, true); ROLLBACK TO s",
        "DELETE FROM doctors WHERE code = 1",
        true,
    ),
];

#[test]
fn what_was_read_and_then_written_by_another_is_refused_and_nothing_else() {
    for options in all_options() {
        let database = database(options);
        let (mut one, mut other) = (database.session().unwrap(), database.session().unwrap());
        one.execute(SETUP).unwrap();
        one.execute("CREATE TABLE notes (k int PRIMARY KEY)").unwrap();
        for (number, (reads, writes, is_refused)) in RACES.iter().enumerate() {
            let case = format!("{reads}; meanwhile {writes}; {options:?}");
            one.execute(BEGIN).unwrap();
            for statement in reads.split("; ") {
                // A change that is refused is taken back to its savepoint.
                if let Err(error) = one.execute(statement) {
                    assert_eq!(error.state, SqlState::UniqueViolation, "{case}: {error}");
                }
            }
            one.execute(&format!("INSERT INTO notes VALUES ({number})")).unwrap();
            other.execute(&format!("{BEGIN}; {writes}; COMMIT")).unwrap();
            match is_refused {
                true => assert_eq!(state(&mut one, "COMMIT"), SqlState::SerializationFailure, "{case}"),
                false => assert_eq!(tag(&mut one, "COMMIT"), "COMMIT", "{case}"),
            }
            one.execute("DELETE FROM lines; DELETE FROM doctors; DELETE FROM children; DELETE FROM parents")
                .unwrap();
            one.execute(
                &SETUP.split("; ").filter(|text| text.starts_with("INSERT")).collect::<Vec<_>>().join("; "),
            )
            .unwrap();
        }
    }
}

#[test]
fn of_two_that_read_what_the_other_writes_one_is_refused() {
    for options in all_options() {
        let database = database(options);
        let (mut one, mut other) = (database.session().unwrap(), database.session().unwrap());
        one.execute(SETUP).unwrap();
        // At REPEATABLE READ both commit, and nobody is on call.
        for (begin, on_call) in [(BEGIN, "1"), ("BEGIN ISOLATION LEVEL REPEATABLE READ", "0")] {
            for (session, name) in [(&mut one, "ann"), (&mut other, "bob")] {
                session.execute(begin).unwrap();
                assert_eq!(rows(session, "SELECT count(*) FROM doctors WHERE on_call"), ["2"]);
                session
                    .execute(&format!("UPDATE doctors SET on_call = false WHERE name = '{name}'"))
                    .unwrap();
            }
            one.execute("COMMIT").unwrap();
            if begin == BEGIN {
                let refused = error(&mut other, "COMMIT");
                assert_eq!(refused.state, SqlState::SerializationFailure);
                assert!(refused.message.contains("read"), "{refused}");
            } else {
                other.execute("COMMIT").unwrap();
            }
            assert_eq!(rows(&mut one, "SELECT count(*) FROM doctors WHERE on_call"), [on_call]);
            one.execute("UPDATE doctors SET on_call = true").unwrap();
        }
    }
}

#[test]
fn who_only_reads_is_never_refused_and_refuses_nobody() {
    for options in all_options() {
        let database = database(options);
        let (mut reader, mut writer) = (database.session().unwrap(), database.session().unwrap());
        reader.execute(SETUP).unwrap();
        for begin in [BEGIN.to_owned(), format!("{BEGIN} READ ONLY")] {
            reader.execute(&begin).unwrap();
            let before = rows(&mut reader, "SELECT sum(v) FROM lines");
            writer.execute(&format!("{BEGIN}; UPDATE lines SET v = v + 1; COMMIT")).unwrap();
            assert_eq!(rows(&mut reader, "SELECT sum(v) FROM lines"), before);
            assert_eq!(tag(&mut reader, "COMMIT"), "COMMIT");
        }
        // One that reads what others read, and commits, either.
        reader
            .execute(&format!("{BEGIN}; SELECT sum(v) FROM lines; DELETE FROM doctors WHERE name = 'ann'"))
            .unwrap();
        writer
            .execute(&format!("{BEGIN}; SELECT sum(v) FROM lines; DELETE FROM doctors WHERE name = 'bob'"))
            .unwrap();
        reader.execute("COMMIT").unwrap();
        writer.execute("COMMIT").unwrap();
    }
}

#[test]
fn a_read_survives_its_savepoint_and_priority_keeps_it_for_the_second_run() {
    for options in all_options() {
        let database = database(options);
        let (mut long, mut short) = (database.session().unwrap(), database.session().unwrap());
        long.execute(SETUP).unwrap();
        long.execute("SET tique.priority = high").unwrap();
        let reads =
            "SAVEPOINT s; SELECT sum(v) FROM lines; ROLLBACK TO s; DELETE FROM doctors WHERE name = 'ann'";
        long.execute(&format!("{BEGIN}; {reads}")).unwrap();
        let write = format!("{BEGIN}; UPDATE lines SET v = v + 1 WHERE a = 1 AND b = 1; COMMIT");
        short.execute(&write).unwrap();
        assert_eq!(state(&mut long, "COMMIT"), SqlState::SerializationFailure);
        long.execute(&format!("{BEGIN}; {reads}")).unwrap();
        assert_eq!(state(&mut short, &write), SqlState::SerializationFailure, "what was read is reserved");
        short
            .execute(&format!(
                "{BEGIN}; SELECT sum(v) FROM lines; DELETE FROM doctors WHERE name = 'bob'; COMMIT"
            ))
            .unwrap();
        long.execute("COMMIT").unwrap();
        short.execute(&write).unwrap();
    }
}
