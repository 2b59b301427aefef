// SPDX-License-Identifier: Apache-2.0
//! SQL in the same process: a table, a transaction, a prepared statement, an aggregate.

use coeval::{Database, Value};

/// Runs the example.
///
/// # Errors
/// None in an empty database.
///
/// # Panics
/// If a payer is lost.
pub fn main() -> Result<(), coeval::Error> {
    let db = Database::in_memory()?;
    let mut session = db.session();
    session.execute(
        "CREATE TABLE payments (id bigint PRIMARY KEY, payer text NOT NULL, amount numeric(12,2) NOT NULL)",
    )?;

    session.execute("BEGIN")?;
    let insert = session.prepare("INSERT INTO payments VALUES ($1, $2, $3)")?;
    for (id, payer, cents) in [(1, "ann", 1_050_i128), (2, "bob", 2_000), (3, "ann", 425)] {
        session.execute_prepared(&insert, &[Value::Int64(id), payer.into(), Value::Decimal(cents)])?;
    }
    session.execute("COMMIT")?;

    let batches =
        session.query("SELECT payer, count(*), sum(amount) FROM payments GROUP BY payer ORDER BY payer")?;
    let table = arrow::util::pretty::pretty_format_batches(&batches).map_err(coeval::StoreError::from)?;
    println!("{table}");
    assert_eq!(batches.iter().map(|batch| batch.num_rows()).sum::<usize>(), 2);
    Ok(())
}
