// SPDX-License-Identifier: Apache-2.0
//! What CREATE TABLE finds in the engine.

use crate::engine::in_memory;
use coeval_tique::{Database, Effort, Options, SqlState};
use std::sync::Arc;

#[test]
fn a_table_of_the_engines_is_not_taken_for_a_physical_one() {
    for physical in ["n_storage", "n_cache"] {
        let engine = in_memory();
        let database = Database::open(Arc::clone(&engine), Options::default()).unwrap();
        let (mut session, mut look) = (database.session().unwrap(), engine.connect().unwrap());
        look.execute(&format!("CREATE TABLE {physical} (x bigint)")).unwrap();
        for rows in 0..2 {
            let refused = session.execute("CREATE TABLE n (k int PRIMARY KEY)").unwrap_err();
            assert_eq!(refused.state, SqlState::DuplicateTable, "{refused}");
            assert!(refused.message.contains(physical), "{refused}");
            let left = look.query(&format!("SELECT x FROM {physical}"), Effort::Point).unwrap();
            assert_eq!(left.count(), rows);
            look.execute(&format!("INSERT INTO {physical} VALUES (1)")).unwrap();
        }
        look.execute(&format!("DROP TABLE {physical}")).unwrap();
        session.execute("CREATE TABLE n (k int PRIMARY KEY); INSERT INTO n VALUES (1)").unwrap();
    }
}
