// SPDX-License-Identifier: Apache-2.0
//! The time that a transaction has, and that of its statements.

use super::*;
use arrow::array::AsArray;
use coeval_store::StoreOptions;

/// What the only row of a query says.
fn holds(session: &mut Session, query: &str) -> bool {
    let rows = session.execute(query).unwrap().pop().unwrap().rows.unwrap();
    rows.batches[0].column(0).as_boolean().value(0)
}

#[test]
fn a_transaction_has_the_time_of_its_begin_and_each_statement_its_own() {
    let mut session = Engine::new(Store::in_memory(StoreOptions::default())).unwrap().session();
    let is_older =
        "SELECT statement_timestamp() - now() >= interval '30 ms' AND now() = transaction_timestamp()";
    let pause = || std::thread::sleep(Duration::from_millis(30));
    assert!(!holds(&mut session, is_older), "a statement alone begins its transaction");

    session.execute("BEGIN").unwrap();
    pause();
    assert!(holds(&mut session, is_older));
    session.execute("COMMIT AND CHAIN").unwrap();
    pause();
    assert!(holds(&mut session, is_older));
    assert!(holds(&mut session, "SELECT now() > statement_timestamp() - interval '1 min'"));
    session.execute("ROLLBACK").unwrap();

    // Also where it makes a block of statements that are sent together.
    session.execute("SELECT 1; BEGIN").unwrap();
    pause();
    assert!(holds(&mut session, is_older));
    session.execute("ROLLBACK; BEGIN").unwrap();
    pause();
    assert!(holds(&mut session, is_older));
}
