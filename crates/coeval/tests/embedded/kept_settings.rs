// SPDX-License-Identifier: Apache-2.0
//! What a session begins with because ALTER ROLE and ALTER DATABASE have kept it.

use coeval::{Database, Session};

fn shown(session: &mut Session, setting: &str) -> String {
    let batches = session.query(&format!("SHOW {setting}")).unwrap();
    arrow::util::display::array_value_to_string(batches[0].column(0), 0).unwrap()
}

#[test]
fn a_session_begins_with_what_is_kept_for_all_roles_and_for_the_database() {
    let directory = tempfile::tempdir().unwrap();
    let database = Database::open(directory.path()).unwrap();
    let mut first = database.session();
    for statement in [
        "CREATE ROLE clerk",
        "ALTER ROLE clerk SET work_mem = '9MB'",
        "ALTER ROLE ALL SET lock_timeout = '7s'",
        "ALTER ROLE ALL SET statement_timeout = '8s'",
        "ALTER DATABASE coeval SET statement_timeout = '90s'",
    ] {
        first.execute(statement).unwrap();
    }
    let (lock, memory) = (shown(&mut first, "lock_timeout"), shown(&mut first, "work_mem"));
    drop(first);
    drop(database);

    let database = Database::open(directory.path()).unwrap();
    let mut session = database.session();
    assert_ne!(lock, "7s", "it counts for sessions that are opened later");
    assert_eq!(shown(&mut session, "lock_timeout"), "7s");
    assert_eq!(shown(&mut session, "statement_timeout"), "90s", "that of the database counts");
    assert_eq!(shown(&mut session, "work_mem"), memory, "the session is not of the role");
    session.execute("SET lock_timeout = '1s'").unwrap();
    session.execute("RESET lock_timeout").unwrap();
    assert_eq!(shown(&mut session, "lock_timeout"), "7s");
}

/// Who could not open a session could not mend what is kept.
#[test]
fn what_a_session_cannot_be_given_is_left_out_with_a_notice() {
    let database = Database::in_memory().unwrap();
    let statements = "CREATE ROLE gone; ALTER ROLE ALL SET role = gone; DROP ROLE gone";
    database.session().execute(statements).unwrap();
    let mut session = database.session();
    assert_eq!(session.take_notices().len(), 1);
    assert_eq!(shown(&mut session, "role"), "none");
}
