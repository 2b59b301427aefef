// SPDX-License-Identifier: Apache-2.0
//! SAVEPOINT, ROLLBACK TO, RELEASE.

use crate::{all_options, database, error, rows, state, tag};
use coeval_tique::SqlState;

const ALL: &str = "SELECT k, v FROM t ORDER BY k";

#[test]
fn what_was_written_behind_a_savepoint_goes_when_it_is_gone_back_to() {
    for options in all_options() {
        let database = database(options);
        let (mut session, mut other) = (database.session().unwrap(), database.session().unwrap());
        session
            .execute("CREATE TABLE t (k int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a'), (2, 'b')")
            .unwrap();
        session.execute("BEGIN; UPDATE t SET v = 'a1' WHERE k = 1; SAVEPOINT one").unwrap();
        // Read, so that versions from before and behind the savepoint are in the cache.
        session
            .execute(
                "UPDATE t SET v = 'a2' WHERE k = 1; INSERT INTO t VALUES (3, 'c'); DELETE FROM t WHERE k = 2",
            )
            .unwrap();
        assert_eq!(rows(&mut session, ALL), ["1|a2", "3|c"], "{options:?}");
        assert_eq!(tag(&mut session, "SAVEPOINT two"), "SAVEPOINT");
        session.execute("INSERT INTO t VALUES (4, 'd')").unwrap();
        assert_eq!(tag(&mut session, "ROLLBACK TO SAVEPOINT two"), "ROLLBACK");
        assert_eq!(rows(&mut session, ALL), ["1|a2", "3|c"], "{options:?}");
        session.execute("ROLLBACK TO SAVEPOINT one").unwrap();
        assert_eq!(rows(&mut session, ALL), ["1|a1", "2|b"], "{options:?}");
        assert_eq!(state(&mut session, "ROLLBACK TO SAVEPOINT two"), SqlState::InvalidSavepoint);
        // A statement that failed took the block along; the savepoint brings it back.
        session.execute("ROLLBACK TO SAVEPOINT one; INSERT INTO t VALUES (5, 'e')").unwrap();
        assert_eq!(tag(&mut session, "RELEASE SAVEPOINT one"), "RELEASE");
        assert_eq!(rows(&mut other, ALL), ["1|a", "2|b"], "nobody else sees any of it");
        // The row that was deleted and came back is not in the way of others.
        other.execute("UPDATE t SET v = 'other' WHERE k = 2").unwrap();
        session.execute("COMMIT").unwrap();
        assert_eq!(rows(&mut session, ALL), ["1|a1", "2|other", "5|e"], "{options:?}");
        database.checkpoint().unwrap();
        assert_eq!(rows(&mut session, ALL), ["1|a1", "2|other", "5|e"], "{options:?}");
        assert_eq!(database.cached_versions(), 0, "nothing is left behind, {options:?}");
    }
}

#[test]
fn savepoints_are_of_blocks() {
    let database = database(all_options()[0]);
    let mut session = database.session().unwrap();
    assert_eq!(error(&mut session, "SAVEPOINT one").state.code(), "25P01");
    session.execute("BEGIN").unwrap();
    assert_eq!(error(&mut session, "RELEASE SAVEPOINT one").state.code(), "3B001");
}
