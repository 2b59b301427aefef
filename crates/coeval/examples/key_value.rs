// SPDX-License-Identifier: Apache-2.0
//! Keys and rows: threads move money between accounts while a reader adds it all up.

use coeval::{Database, Direction, Error, Isolation, KeyRange, Table, Transaction, Value};

const ACCOUNTS: i64 = 100;
const TRANSFERS: i64 = 500;

fn balance(tx: &Transaction, accounts: &Table, id: i64) -> Result<i64, Error> {
    let row = tx.get(accounts, &accounts.key(&[Value::Int64(id)]))?;
    Ok(row.and_then(|row| row.get(1).as_i64()).unwrap_or(0))
}

/// Runs the example.
///
/// # Errors
/// None in an empty database.
///
/// # Panics
/// If money is lost.
pub fn main() -> Result<(), Error> {
    let db = Database::in_memory()?;
    db.session().execute("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)")?;
    let accounts = db.table("accounts")?;
    db.transaction(Isolation::Snapshot, |tx| {
        (0..ACCOUNTS)
            .try_for_each(|id| tx.put(&accounts, accounts.row(&[Value::Int64(id), Value::Int64(1_000)])?))
    })?;

    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (db, accounts) = (&db, &accounts);
            scope.spawn(move || {
                for step in 0..TRANSFERS {
                    let (from, to) = ((step * 7 + thread) % ACCOUNTS, (step * 13 + 5) % ACCOUNTS);
                    if from == to {
                        continue;
                    }
                    // Runs again by itself when the other thread was first.
                    let moved = db.transaction(Isolation::Snapshot, |tx| {
                        let (a, b) = (balance(tx, accounts, from)?, balance(tx, accounts, to)?);
                        tx.put(accounts, accounts.row(&[Value::Int64(from), Value::Int64(a - 1)])?)?;
                        tx.put(accounts, accounts.row(&[Value::Int64(to), Value::Int64(b + 1)])?)
                    });
                    moved.expect("transfers violate no constraint");
                }
            });
        }
    });

    let total: i64 = db.read(|tx| {
        let rows = tx.scan(&accounts, &KeyRange::all(), Direction::Forward)?;
        let mut total = 0;
        for row in rows {
            let (_, row) = row?;
            total += row.get(1).as_i64().expect("balances are never NULL");
        }
        Ok::<_, Error>(total)
    })?;
    println!("{ACCOUNTS} accounts hold {total} in all");
    assert_eq!(total, ACCOUNTS * 1_000);
    Ok(())
}
