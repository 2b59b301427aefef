// SPDX-License-Identifier: Apache-2.0
//! COPY whose bytes the program gives or gets.

use coeval::{CommandTag, CopyOutcome, Database, Session, SqlState, TransactionStatus};

fn session() -> (Database, Session) {
    let db = Database::in_memory().unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY, word text)").unwrap();
    (db, session)
}

/// All bytes that a COPY TO STDOUT gives, and the number of rows in them.
fn given(session: &mut Session, sql: &str) -> (String, u64) {
    let CopyOutcome::Out(mut copy) = session.start_copy(sql).unwrap() else { panic!("{sql} gives bytes") };
    let mut bytes = Vec::new();
    for piece in copy.by_ref() {
        bytes.extend(piece.unwrap());
    }
    (String::from_utf8(bytes).unwrap(), copy.rows())
}

#[test]
fn rows_go_in_and_come_out_as_the_bytes_of_a_copy() {
    let (_db, mut session) = session();
    let CopyOutcome::In(mut copy) = session.start_copy("COPY t FROM STDIN (FORMAT csv)").unwrap() else {
        panic!("it takes bytes")
    };
    for piece in ["1,o", "ne\n2,\"t,", "wo\"\n"] {
        session.feed_copy(&mut copy, piece.as_bytes()).unwrap();
    }
    assert_eq!(session.finish_copy(copy).unwrap(), 2);
    let (csv, rows) =
        given(&mut session, "COPY (SELECT * FROM t ORDER BY id) TO STDOUT (FORMAT csv, HEADER)");
    assert_eq!((csv.as_str(), rows), ("id,word\n1,one\n2,\"t,wo\"\n", 2));
    let (text, _) = given(&mut session, "COPY t (word) TO STDOUT");
    assert_eq!(text, "one\nt,wo\n");
}

#[test]
fn a_copy_that_fails_or_is_given_up_adds_nothing() {
    let (_db, mut session) = session();
    let CopyOutcome::In(mut copy) = session.start_copy("COPY t FROM STDIN").unwrap() else {
        panic!("it takes bytes")
    };
    session.feed_copy(&mut copy, b"1\tone\nx\ttwo\n").unwrap();
    assert_eq!(session.finish_copy(copy).unwrap_err().state(), SqlState::InvalidTextRepresentation);
    session.execute("BEGIN").unwrap();
    let CopyOutcome::In(mut copy) = session.start_copy("COPY t FROM STDIN").unwrap() else {
        panic!("it takes bytes")
    };
    session.feed_copy(&mut copy, b"1\tone\n").unwrap();
    session.abandon_copy(copy);
    assert_eq!(session.transaction_status(), TransactionStatus::Failed);
    session.execute("ROLLBACK").unwrap();
    assert_eq!(given(&mut session, "COPY t TO STDOUT"), (String::new(), 0));
    let refused = session.start_copy("INSERT INTO t VALUES (1, 'one')").unwrap_err();
    assert_eq!(refused.state(), SqlState::SyntaxError);
    assert_eq!(given(&mut session, "COPY t TO STDOUT"), (String::new(), 0));
}

#[test]
fn a_copy_with_a_file_is_done_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.csv");
    let (_db, mut session) = session();
    session.execute("INSERT INTO t VALUES (1, 'one')").unwrap();
    let done = session.start_copy(&format!("COPY t TO '{}' (FORMAT csv)", file.display())).unwrap();
    assert!(matches!(done, CopyOutcome::Done(CommandTag::Copy(1))), "{done:?}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "1,one\n");
}

/// A superuser could write over the files of the database that was being served.
#[test]
fn no_file_is_written_into_the_directory_of_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("shop");
    let db = Database::open(&place).unwrap();
    let mut session = db.session();
    session.execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").unwrap();
    for name in ["MANIFEST", "segments/rows.csv", "../shop/new.parquet"] {
        for source in ["t", "(SELECT 1 AS a)"] {
            let file = place.join(name);
            let format = if name.ends_with("parquet") { "parquet" } else { "csv" };
            let sql = format!("COPY {source} TO '{}' (FORMAT {format})", file.display());
            let refused = session.execute(&sql).unwrap_err();
            assert_eq!(refused.state(), SqlState::InsufficientPrivilege, "{sql}: {refused}");
        }
    }
    assert!(!place.join("new.parquet").exists());
    let beside = folder.path().join("rows.csv");
    session.execute(&format!("COPY t TO '{}'", beside.display())).unwrap();
    assert_eq!(std::fs::read(beside).unwrap(), b"1\n");
}
