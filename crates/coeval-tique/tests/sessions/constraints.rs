// SPDX-License-Identifier: Apache-2.0
//! Constraints, alone and against concurrent transactions.

use crate::{all_options, database, error, rows, state};
use coeval_tique::{Options, SqlState};

const SCHEMA: &str = "CREATE TABLE p (k int PRIMARY KEY, name varchar(5) UNIQUE, n int NOT NULL CHECK (n > 0)); \
                      CREATE TABLE c (k int PRIMARY KEY, p int REFERENCES p (k), up int REFERENCES c); \
                      INSERT INTO p VALUES (1, 'one', 1), (2, 'two', 2); INSERT INTO c VALUES (10, 1, NULL)";

#[test]
fn each_constraint_has_its_own_error_and_a_statement_that_fails_does_nothing() {
    for options in all_options() {
        let database = database(options);
        let mut session = database.session().unwrap();
        session.execute(SCHEMA).unwrap();
        let cases = [
            ("INSERT INTO p VALUES (3, 'x', 3), (1, 'y', 1)", SqlState::UniqueViolation),
            ("INSERT INTO p VALUES (3, 'x', 3), (3, 'y', 1)", SqlState::UniqueViolation),
            ("INSERT INTO p VALUES (3, 'one', 3)", SqlState::UniqueViolation),
            ("INSERT INTO p VALUES (3, 'x', 3), (4, 'x', 3)", SqlState::UniqueViolation),
            ("UPDATE p SET name = 'same'", SqlState::UniqueViolation),
            ("INSERT INTO p VALUES (NULL, 'x', 3)", SqlState::NotNullViolation),
            ("INSERT INTO p (k) VALUES (3)", SqlState::NotNullViolation),
            ("UPDATE p SET n = n - 1", SqlState::CheckViolation),
            ("INSERT INTO p VALUES (3, 'toolong', 3)", SqlState::StringTooLong),
            ("INSERT INTO c VALUES (11, 3, NULL)", SqlState::ForeignKeyViolation),
            ("INSERT INTO c VALUES (11, 1, 12)", SqlState::ForeignKeyViolation),
            ("DELETE FROM p", SqlState::ForeignKeyViolation),
            ("UPDATE p SET k = k + 10", SqlState::ForeignKeyViolation),
        ];
        for (sql, expected) in cases {
            assert_eq!(state(&mut session, sql), expected, "{sql} with {options:?}");
        }
        assert_eq!(rows(&mut session, "SELECT * FROM p ORDER BY k"), ["1|one|1", "2|two|2"]);
        session.execute("UPDATE p SET name = CASE k WHEN 1 THEN 'two' ELSE 'one' END").unwrap();
        session.execute("INSERT INTO c VALUES (11, NULL, 12), (12, 2, 11), (13, NULL, 13)").unwrap();
        assert_eq!(state(&mut session, "DELETE FROM c WHERE k = 12"), SqlState::ForeignKeyViolation);
        session.execute("DELETE FROM c WHERE k > 10; DELETE FROM p WHERE k = 2").unwrap();
        session
            .execute("BEGIN; DELETE FROM c; DELETE FROM p; INSERT INTO p VALUES (1, 'two', 1); COMMIT")
            .unwrap();
        assert_eq!(rows(&mut session, "SELECT * FROM p"), ["1|two|1"]);
        let conflict = error(&mut session, "INSERT INTO p VALUES (9, 'two', 1)");
        assert_eq!(conflict.detail.unwrap(), "It is (name) = (two).");
    }
}

#[test]
fn a_foreign_key_names_the_primary_key_as_it_is() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE p (a int, b int, code int UNIQUE, PRIMARY KEY (a, b))").unwrap();
    for (key, expected) in [
        ("FOREIGN KEY (x) REFERENCES p (code)", SqlState::InvalidTableDefinition),
        ("FOREIGN KEY (x, y) REFERENCES p (b, a)", SqlState::FeatureNotSupported),
        ("FOREIGN KEY (x, y) REFERENCES p (a, code)", SqlState::FeatureNotSupported),
        ("FOREIGN KEY (x, y) REFERENCES p (a, c)", SqlState::UndefinedColumn),
        ("FOREIGN KEY (x, y) REFERENCES c (x, y)", SqlState::InvalidTableDefinition),
        ("FOREIGN KEY (x) REFERENCES c (y)", SqlState::FeatureNotSupported),
    ] {
        let create = format!("CREATE TABLE c (k int PRIMARY KEY, x int, y int, {key})");
        assert_eq!(state(&mut session, &create), expected, "{key}");
    }
    session
        .execute("CREATE TABLE c (k int PRIMARY KEY, x int, y int, FOREIGN KEY (x, y) REFERENCES p (a, b))")
        .unwrap();
    session.execute("INSERT INTO p VALUES (1, 2, 3)").unwrap();
    assert_eq!(state(&mut session, "INSERT INTO c VALUES (1, 2, 1)"), SqlState::ForeignKeyViolation);
    session.execute("INSERT INTO c VALUES (1, 1, 2)").unwrap();
}

/// Two transactions on the same snapshot; what the second to commit is told.
fn race(first: &str, second: &str) -> Result<(), SqlState> {
    let mut results = Vec::new();
    for options in all_options() {
        let database = database(options);
        let (mut one, mut two) = (database.session().unwrap(), database.session().unwrap());
        one.execute(SCHEMA).unwrap();
        one.execute("BEGIN").unwrap();
        two.execute("BEGIN").unwrap();
        one.execute(first).unwrap_or_else(|error| panic!("{first}: {error}"));
        two.execute(second).unwrap_or_else(|error| panic!("{second}: {error}"));
        one.execute("COMMIT").unwrap();
        results.push(two.execute("COMMIT").map(drop).map_err(|error| error.state));
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    results.remove(0)
}

#[test]
fn of_concurrent_transactions_that_break_a_constraint_together_one_is_refused() {
    let refused = Err(SqlState::SerializationFailure);
    assert_eq!(
        race("UPDATE p SET n = 5 WHERE k = 1", "UPDATE p SET n = 6 WHERE k = 1"),
        refused,
        "lost update"
    );
    assert_eq!(
        race("INSERT INTO p VALUES (5, 'a', 1)", "INSERT INTO p VALUES (5, 'b', 1)"),
        refused,
        "same key"
    );
    assert_eq!(
        race("INSERT INTO p VALUES (5, 'a', 1)", "INSERT INTO p VALUES (6, 'a', 1)"),
        refused,
        "same value"
    );
    assert_eq!(race("UPDATE p SET name = 'a' WHERE k = 1", "UPDATE p SET name = 'a' WHERE k = 2"), refused);
    assert_eq!(
        race("DELETE FROM p WHERE k = 2", "INSERT INTO c VALUES (11, 2, NULL)"),
        refused,
        "parent gone"
    );
    assert_eq!(
        race("INSERT INTO c VALUES (11, 2, NULL)", "DELETE FROM p WHERE k = 2"),
        refused,
        "child came"
    );
    assert_eq!(race("DELETE FROM p WHERE k = 2", "UPDATE p SET n = 9 WHERE k = 2"), refused);
    assert_eq!(race("UPDATE p SET n = 9 WHERE k = 2", "UPDATE p SET k = 9 WHERE k = 2"), refused);
}

#[test]
fn transactions_that_do_not_conflict_all_commit() {
    assert_eq!(
        race("UPDATE p SET n = 5 WHERE k = 1", "UPDATE p SET n = 6 WHERE k = 2"),
        Ok(()),
        "other rows"
    );
    assert_eq!(
        race("UPDATE p SET n = 5 WHERE k = 2", "INSERT INTO c VALUES (11, 2, NULL)"),
        Ok(()),
        "parent stays"
    );
    assert_eq!(race("INSERT INTO c VALUES (11, 2, NULL)", "INSERT INTO c VALUES (12, 2, NULL)"), Ok(()));
    assert_eq!(
        race("INSERT INTO p VALUES (5, NULL, 1)", "INSERT INTO p VALUES (6, NULL, 1)"),
        Ok(()),
        "NULL is nobody's"
    );
}
