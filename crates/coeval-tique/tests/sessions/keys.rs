// SPDX-License-Identifier: Apache-2.0
//! Concatenated keys: as numbers where the engine has wide integers, as texts otherwise and in tables made before.

use super::*;

/// The smallest and largest that every engine stores, of 16, 32 and 64 bits.
const EDGES: [(i64, i64); 3] = [
    (-32_767, 32_767),
    (-2_147_483_647, 2_147_483_647),
    (-9_223_372_036_854_775_807, 9_223_372_036_854_775_807),
];

/// Key columns, and where the range of each stands in `EDGES`.
const KEYS: [(&[&str], &[usize]); 6] = [
    (&["int"], &[1]),
    (&["int", "bigint"], &[1, 2]),
    (&["bigint", "bigint"], &[2, 2]),
    (&["smallint", "bigint", "int"], &[0, 2, 1]),
    (&["int", "int", "int", "int"], &[1, 1, 1, 1]),
    (&["bigint", "bigint", "smallint"], &[2, 2, 0]),
];

/// Keys with edges, zeros and neighbours of both signs.
fn keys(ranges: &[usize]) -> Vec<Vec<i64>> {
    let mut all = vec![Vec::new()];
    for &range in ranges {
        let (least, most) = EDGES[range];
        let values = if ranges.len() > 2 { vec![least, -1, most] } else { vec![least, -1, 0, 1, most] };
        all = all
            .iter()
            .flat_map(|key| values.iter().map(move |value| [&key[..], &[*value]].concat()))
            .collect();
    }
    all
}

fn list(key: &[i64]) -> String {
    key.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn condition(key: &[i64]) -> String {
    let each = key.iter().enumerate().map(|(place, value)| format!("c{place} = {value}"));
    each.collect::<Vec<_>>().join(" AND ")
}

#[test]
fn rows_are_found_and_changed_by_keys_at_the_edges_of_their_types() {
    for (kinds, ranges) in KEYS {
        let database = database(Options { checkpoint_at: 0, ..Options::default() });
        let mut session = database.session().unwrap();
        let columns: Vec<_> =
            kinds.iter().enumerate().map(|(place, kind)| format!("c{place} {kind}")).collect();
        let names: Vec<_> = (0..kinds.len()).map(|place| format!("c{place}")).collect();
        let (columns, names) = (columns.join(", "), names.join(", "));
        let create =
            format!("CREATE TABLE t ({columns}, v int, PRIMARY KEY ({names})) WITH (key = 'concatenated')");
        session.execute(&create).unwrap();
        let keys = keys(ranges);
        let rows_of = |first: usize| {
            let rows =
                keys.iter().enumerate().map(|(place, key)| format!("({}, {})", list(key), first + place));
            rows.collect::<Vec<_>>().join(", ")
        };
        session.execute(&format!("INSERT INTO t VALUES {}", rows_of(0))).unwrap();
        let check = |session: &mut Session, first: usize| {
            for (place, key) in keys.iter().enumerate() {
                let found = rows(session, &format!("SELECT v FROM t WHERE {}", condition(key)));
                assert_eq!(found, [(first + place).to_string()], "{kinds:?}: {key:?}");
            }
            let all = rows(session, &format!("SELECT {names}, v FROM t ORDER BY {names}"));
            let expected: Vec<_> = keys
                .iter()
                .enumerate()
                .map(|(place, key)| format!("{}|{}", list(key).replace(", ", "|"), first + place))
                .collect();
            assert_eq!(all, expected, "{kinds:?}");
        };
        check(&mut session, 0);
        database.checkpoint().unwrap();
        check(&mut session, 0);
        // Versions over stored rows, then these as stored rows.
        session.execute("UPDATE t SET v = v + 1000").unwrap();
        check(&mut session, 1000);
        database.checkpoint().unwrap();
        check(&mut session, 1000);
        for key in keys.iter().step_by(7) {
            assert_eq!(
                state(&mut session, &format!("INSERT INTO t VALUES ({}, 1)", list(key))),
                SqlState::UniqueViolation
            );
            assert_eq!(tag(&mut session, &format!("DELETE FROM t WHERE {}", condition(key))), "DELETE 1");
            assert!(rows(&mut session, &format!("SELECT v FROM t WHERE {}", condition(key))).is_empty());
            session.execute(&format!("INSERT INTO t VALUES ({}, 7)", list(key))).unwrap();
            assert_eq!(rows(&mut session, &format!("SELECT v FROM t WHERE {}", condition(key))), ["7"]);
        }
        assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), [keys.len().to_string()]);
    }
}

#[test]
fn a_number_that_is_no_value_of_its_column_finds_no_neighbour() {
    let database = database(Options { checkpoint_at: 0, ..Options::default() });
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (a int, b int, PRIMARY KEY (a, b)) WITH (key = 'concatenated')").unwrap();
    session.execute("INSERT INTO t VALUES (1, 5), (0, 7)").unwrap();
    for _ in 0..2 {
        // Behind a zero this would be five behind a one.
        assert!(rows(&mut session, "SELECT * FROM t WHERE a = 0 AND b = 4294967301").is_empty());
        assert!(rows(&mut session, "SELECT * FROM t WHERE a = 2 AND b = -4294967291").is_empty());
        assert_eq!(rows(&mut session, "SELECT * FROM t WHERE a = 1 AND b = 5"), ["1|5"]);
        database.checkpoint().unwrap();
    }
}

#[test]
fn the_smallest_integer_is_stored_or_refused_by_the_statement_that_writes_it() {
    let database = database(Options { checkpoint_at: 0, ..Options::default() });
    let mut session = database.session().unwrap();
    session
        .execute(
            "CREATE TABLE t (a int, b bigint, v smallint, PRIMARY KEY (a, b)) WITH (key = 'concatenated')",
        )
        .unwrap();
    session.execute("BEGIN").unwrap();
    session.execute("SAVEPOINT here").unwrap();
    for row in ["-2147483648, 1, 1", "1, -9223372036854775808, 1", "1, 1, -32768"] {
        let outcome = session.execute(&format!("INSERT INTO t VALUES ({row})"));
        if is_monetdb() {
            let refused = outcome.unwrap_err();
            assert_eq!(refused.state, SqlState::OutOfRange, "{refused}");
            session.execute("ROLLBACK TO here").unwrap();
        } else {
            outcome.unwrap();
        }
    }
    session.execute("COMMIT").unwrap();
    // Where the engine computes the row.
    session.execute("CREATE TABLE u (a int PRIMARY KEY, v smallint CHECK (v < 9))").unwrap();
    let outcome = session.execute("INSERT INTO u VALUES (-2147483648, 1)");
    assert_eq!(outcome.err().map(|error| error.state), is_monetdb().then_some(SqlState::OutOfRange));
    for (row, expected) in [("2147483648, 1", SqlState::OutOfRange), ("'one', 1", SqlState::InvalidText)] {
        assert_eq!(state(&mut session, &format!("INSERT INTO u VALUES ({row})")), expected, "{row}");
    }
    let expected = if is_monetdb() { "0" } else { "3" };
    assert_eq!(rows(&mut session, "SELECT count(*) FROM t"), [expected]);
}

/// The tables of `t` as they were made when all concatenated keys were texts.
fn make_with_texts(connection: &mut dyn coeval_tique::Connection, create: &str) {
    for sql in [
        "CREATE TABLE \"t_storage\" (\"a\" INT, \"b\" INT, \"v\" INT, \"tique_key\" TEXT)",
        "CREATE TABLE \"t_cache\" (\"a\" INT, \"b\" INT, \"v\" INT, \"tique_key\" TEXT, \
         tique_deleted BOOLEAN, tique_txid BIGINT, tique_cts BIGINT, tique_seq BIGINT)",
        "INSERT INTO \"t_storage\" VALUES (1, 2, 3, '1.2'), (1, -3, 4, '1.-3')",
        "INSERT INTO \"t_cache\" VALUES (1, 2, 5, '1.2', false, 1, 1, 1), (7, 7, 7, '7.7', false, 1, 1, 2)",
        "INSERT INTO tique_committed VALUES (1, 1)",
    ] {
        connection.execute(sql).unwrap();
    }
    connection
        .execute(&format!("INSERT INTO tique_tables VALUES ('t', '{}')", create.replace('\'', "''")))
        .unwrap();
    connection.sync().unwrap();
}

#[test]
fn tables_whose_keys_are_texts_are_opened_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let create = "CREATE TABLE t (a int, b int, v int, PRIMARY KEY (a, b)) WITH (key = 'concatenated')";
    let options = Options { checkpoint_at: 0, ..Options::default() };
    drop(Database::open(persistent(directory.path()), options).unwrap());
    make_with_texts(&mut *persistent(directory.path()).connect().unwrap(), create);
    for opened in 0..2 {
        let database = Database::open(persistent(directory.path()), options).unwrap();
        let mut session = database.session().unwrap();
        assert_eq!(rows(&mut session, "SELECT v FROM t WHERE a = 1 AND b = 2"), [(5 + opened).to_string()]);
        assert_eq!(rows(&mut session, "SELECT v FROM t WHERE a = 1 AND b = -3"), ["4"]);
        assert_eq!(rows(&mut session, "SELECT v FROM t WHERE a = 7 AND b = 7"), ["7"]);
        session.execute("UPDATE t SET v = v + 1 WHERE a = 1 AND b = 2").unwrap();
        database.checkpoint().unwrap();
        assert_eq!(rows(&mut session, "SELECT count(*), sum(v) FROM t"), [format!("3|{}", 17 + opened)]);
    }
}

#[test]
fn a_key_that_is_kept_otherwise_is_refused_with_what_to_do() {
    if !needs_monetdb() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = Options::default();
    let database = Database::open(persistent(directory.path()), options).unwrap();
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE t (a int, v int, PRIMARY KEY (a)) WITH (key = 'concatenated')").unwrap();
    drop((session, database));
    let engine = persistent(directory.path());
    let mut connection = engine.connect().unwrap();
    connection.execute("DROP TABLE t_cache").unwrap();
    let cache = "CREATE TABLE t_cache (a INT, v INT, tique_key DOUBLE, tique_deleted BOOLEAN, tique_txid BIGINT, \
                 tique_cts BIGINT, tique_seq BIGINT)";
    connection.execute(cache).unwrap();
    drop(connection);
    let refused = Database::open(engine, options).map(drop).unwrap_err();
    assert!(refused.message.contains("the keys of table t are kept as Float64"), "{refused}");
    assert!(refused.hint.unwrap().contains("t_storage"));
}

#[test]
fn blanks_behind_a_char_do_not_tell_keys_apart() {
    for certification in [Certification::InEngine, Certification::InProcess] {
        let options = Options { checkpoint_at: 0, certification, ..Options::default() };
        let database = database(options);
        let (mut one, mut two) = (database.session().unwrap(), database.session().unwrap());
        let create = "CREATE TABLE t (c char(4) PRIMARY KEY, d character(2), o char, v varchar(3), n int)";
        one.execute(create).unwrap();
        one.execute("INSERT INTO t VALUES ('x  ', 'y      ', 'z', 'ab  ', 1)").unwrap();
        let show = "SELECT '<' || c || '>', '<' || d || '>', '<' || o || '>', '<' || v || '>', n FROM t";
        for again in ["INSERT INTO t (c) VALUES ('x')", "INSERT INTO t (c) SELECT 'x' || '   '"] {
            assert_eq!(state(&mut one, again), SqlState::UniqueViolation, "{again}");
        }
        // Rows of the cache, of the storage, and the transaction's own.
        for next in 2..=4 {
            let upsert = format!(
                "INSERT INTO t VALUES ('x ', 'y', 'z ', 'ab    ', 0) ON CONFLICT (c) DO UPDATE SET n = {next}"
            );
            one.execute(&upsert).unwrap();
            assert_eq!(rows(&mut one, show), [format!("<x>|<y>|<z>|<ab >|{next}")], "{options:?}");
            database.checkpoint().unwrap();
        }
        one.execute("BEGIN; INSERT INTO t (c) VALUES ('w ')").unwrap();
        two.execute("BEGIN; INSERT INTO t (c) VALUES ('w')").unwrap();
        one.execute("COMMIT").unwrap();
        assert_eq!(state(&mut two, "COMMIT"), SqlState::SerializationFailure, "{options:?}");
        one.execute("BEGIN; UPDATE t SET n = n + 1 WHERE c = 'x'").unwrap();
        two.execute("BEGIN; DELETE FROM t WHERE c = 'x'; INSERT INTO t (c) VALUES ('x')").unwrap();
        one.execute("COMMIT").unwrap();
        assert_eq!(state(&mut two, "COMMIT"), SqlState::SerializationFailure, "{options:?}");
        one.execute("INSERT INTO t (c) VALUES ('four ')").unwrap();
        for sql in [
            "INSERT INTO t (c) VALUES ('toolong')",
            "UPDATE t SET d = 'y x'",
            "UPDATE t SET o = 'zz'",
            "UPDATE t SET v = 'abcd '",
        ] {
            assert_eq!(state(&mut one, sql), SqlState::StringTooLong, "{sql}");
        }
    }
}

#[test]
fn conditions_are_about_what_is_kept() {
    let database = database(Options::default());
    let mut session = database.session().unwrap();
    let create =
        "CREATE TABLE t (k int PRIMARY KEY, c char(3) CHECK (c <> 'x'), v varchar(3) CHECK (length(v) <= 3))";
    session.execute(create).unwrap();
    for sql in ["INSERT INTO t VALUES (1, 'x ', '')", "INSERT INTO t SELECT 1, 'x' || ' ', ''"] {
        assert_eq!(state(&mut session, sql), SqlState::CheckViolation, "{sql}");
    }
    session.execute("INSERT INTO t VALUES (1, 'y  ', 'ab    '), (2, NULL, 'ab'), (3, 'z', NULL)").unwrap();
    assert_eq!(state(&mut session, "UPDATE t SET c = 'x  ' WHERE k = 3"), SqlState::CheckViolation);
    session.execute("UPDATE t SET v = 'abc      '").unwrap();
    let upsert = "INSERT INTO t VALUES (1, 'y', '') ON CONFLICT (k) DO UPDATE SET c = ";
    assert_eq!(state(&mut session, &format!("{upsert} 'x '")), SqlState::CheckViolation);
    session.execute(&format!("{upsert} 'w '")).unwrap();
    assert_eq!(rows(&mut session, "SELECT k, length(v) FROM t WHERE c = 'w'"), ["1|3"]);
}
