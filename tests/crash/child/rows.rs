// SPDX-License-Identifier: Apache-2.0
//! Transactions of several rows: items with two parts each, and transfers between accounts of all workers.
//!
//! Keys: `item/ID` is `VALUE:LABEL`, and the item's parts add up to the value; `transfer/N` is `FROM:TO:AMOUNT`.

use crate::faults::Fault;
use crate::{Effect, Worker};
use coeval::{Database, Direction, Error, Isolation, Table, Value};
use rand::Rng;
use std::collections::BTreeMap;

/// A worker keeps about so many items.
const ITEMS: usize = 60;

/// How many accounts there are.
const ACCOUNTS: i64 = 10;

/// The items of a worker: their values and labels.
type Items = BTreeMap<i64, (i64, String)>;

/// What the items become.
enum Change {
    Put(i64, (i64, String)),
    Remove(i64),
}

/// What the parts of an item are.
fn parts(value: i64) -> [(i32, i64); 2] {
    [(1, value / 3), (2, value - value / 3)]
}

/// What is there already: items and the number of the next transfer.
fn present(db: &Database, worker: u32) -> Result<(Items, i64), Error> {
    let (items, transfers) = (db.table("items")?, db.table("transfers")?);
    let own = [Value::Int32(worker as i32)];
    db.read(|tx| {
        let mut found = Items::new();
        for row in tx.scan(&items, &items.key_prefix(&own), Direction::Forward)? {
            let (_, row) = row?;
            let number = |column: usize| row.get(column).as_i64().expect("a number");
            let label = row.get(3).as_str().expect("a text").to_owned();
            found.insert(number(1), (number(2), label));
        }
        let last = tx.scan(&transfers, &transfers.key_prefix(&own), Direction::Backward)?.next();
        let last = last.transpose()?.and_then(|(_, row)| row.get(1).as_i64());
        Ok((found, last.map_or(0, |last| last + 1)))
    })
}

/// The next changes of some items.
fn next_changes(worker: &mut Worker, items: &Items) -> Vec<Change> {
    let dice = &mut worker.dice;
    let fresh = |dice: &mut rand::rngs::SmallRng| {
        (dice.random_range(0..1_000), format!("l{}", dice.random_range(0..20)))
    };
    let count = dice.random_range(1..=4);
    let insert = items.len() < ITEMS / 2 || (items.len() < ITEMS && dice.random_ratio(1, 3));
    if insert {
        let first = items.keys().next_back().map_or(0, |last| last + 1);
        return (first..first + count).map(|id| Change::Put(id, fresh(dice))).collect();
    }
    let mut chosen: Vec<i64> =
        (0..count).filter_map(|_| items.keys().nth(dice.random_range(0..items.len())).copied()).collect();
    chosen.sort_unstable();
    chosen.dedup();
    let remove = dice.random_ratio(1, 3);
    chosen
        .into_iter()
        .map(|id| if remove { Change::Remove(id) } else { Change::Put(id, fresh(dice)) })
        .collect()
}

fn effect_of(changes: &[Change]) -> Effect {
    let mut effect = Effect::default();
    for change in changes {
        match change {
            Change::Put(id, (value, label)) => {
                effect.put(format_args!("item/{id}"), format_args!("{value}:{label}"))
            }
            Change::Remove(id) => effect.remove(format_args!("item/{id}")),
        }
    }
    effect
}

fn note(items: &mut Items, changes: Vec<Change>) {
    for change in changes {
        match change {
            Change::Put(id, item) => items.insert(id, item),
            Change::Remove(id) => items.remove(&id),
        };
    }
}

struct Transfer {
    number: i64,
    from: i64,
    to: i64,
    amount: i64,
}

impl Transfer {
    fn next(worker: &mut Worker, number: i64) -> Self {
        let from = worker.dice.random_range(0..ACCOUNTS);
        let to = (from + worker.dice.random_range(1..ACCOUNTS)) % ACCOUNTS;
        Self { number, from, to, amount: worker.dice.random_range(1..50) }
    }

    fn effect(&self) -> Effect {
        let mut effect = Effect::default();
        let Self { number, from, to, amount } = self;
        effect.put(format_args!("transfer/{number}"), format_args!("{from}:{to}:{amount}"));
        effect
    }
}

fn item_statements(worker: u32, items: &Items, changes: &[Change]) -> Vec<String> {
    let mut statements = Vec::new();
    for change in changes {
        match change {
            Change::Put(id, (value, label)) if items.contains_key(id) => {
                statements.push(format!(
                    "UPDATE items SET value = {value}, label = '{label}' WHERE worker = {worker} AND id = {id}"
                ));
                for (part, amount) in parts(*value) {
                    statements.push(format!(
                        "UPDATE parts SET amount = {amount} WHERE worker = {worker} AND id = {id} AND part = {part}"
                    ));
                }
            }
            Change::Put(id, (value, label)) => {
                statements.push(format!(
                    "INSERT INTO items (worker, id, value, label, token) \
                     VALUES ({worker}, {id}, {value}, '{label}', '{worker}-{id}')"
                ));
                let [(one, first), (two, second)] = parts(*value);
                statements.push(format!(
                    "INSERT INTO parts VALUES ({worker}, {id}, {one}, {first}), ({worker}, {id}, {two}, {second})"
                ));
            }
            Change::Remove(id) => {
                statements.push(format!("DELETE FROM items WHERE worker = {worker} AND id = {id}"));
            }
        }
    }
    statements
}

/// Changes rows through SQL.
pub(crate) fn work_in_sql(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let number = worker.number;
    let (mut items, mut next) = present(db, number)?;
    let mut session = db.session();
    loop {
        if worker.dice.random_ratio(1, 3) {
            let transfer = Transfer::next(&mut worker, next);
            let Transfer { from, to, amount, .. } = transfer;
            let block = [
                format!("UPDATE accounts SET balance = balance - {amount} WHERE id = {from}"),
                format!("UPDATE accounts SET balance = balance + {amount} WHERE id = {to}"),
                format!("INSERT INTO transfers VALUES ({number}, {next}, {from}, {to}, {amount})"),
            ];
            worker.run_sql(&mut session, &transfer.effect(), &block)?;
            next += 1;
            continue;
        }
        let changes = next_changes(&mut worker, &items);
        let mut block = item_statements(number, &items, &changes);
        if worker.fault == Fault::SplitsTransactions {
            let again: Vec<_> = std::mem::take(&mut block);
            block = again.into_iter().flat_map(|sql| [sql, "COMMIT; BEGIN".to_owned()]).collect();
        }
        worker.run_sql(&mut session, &effect_of(&changes), &block)?;
        note(&mut items, changes);
    }
}

/// The tables that a worker uses by key.
struct Tables {
    items: Table,
    parts: Table,
    accounts: Table,
    transfers: Table,
}

/// Changes rows through keys.
pub(crate) fn work_by_key(mut worker: Worker, db: &Database) -> Result<(), Error> {
    let number = Value::Int32(worker.number as i32);
    let (mut items, mut next) = present(db, worker.number)?;
    let tables = Tables {
        items: db.table("items")?,
        parts: db.table("parts")?,
        accounts: db.table("accounts")?,
        transfers: db.table("transfers")?,
    };
    loop {
        if worker.dice.random_ratio(1, 3) {
            let transfer = Transfer::next(&mut worker, next);
            worker.run(&transfer.effect(), || move_money(db, &tables, &number, &transfer))?;
            next += 1;
            continue;
        }
        let changes = next_changes(&mut worker, &items);
        worker.run(&effect_of(&changes), || change_items(db, &tables, &number, &changes))?;
        note(&mut items, changes);
    }
}

fn move_money(db: &Database, tables: &Tables, worker: &Value, transfer: &Transfer) -> Result<(), Error> {
    let Transfer { number, from, to, amount } = *transfer;
    db.transaction(Isolation::Snapshot, |tx| {
        for (account, change) in [(from, -amount), (to, amount)] {
            let account = Value::Int64(account);
            let key = tables.accounts.key(std::slice::from_ref(&account));
            let row = tx.get(&tables.accounts, &key)?.expect("accounts stay");
            let balance = row.get(1).as_i64().expect("a number") + change;
            tx.put(&tables.accounts, tables.accounts.row(&[account, Value::Int64(balance)])?)?;
        }
        let numbers = [number, from, to, amount].map(Value::Int64);
        let values: Vec<Value> = std::iter::once(worker.clone()).chain(numbers).collect();
        tx.insert(&tables.transfers, tables.transfers.row(&values)?).map(drop)
    })
}

fn change_items(db: &Database, tables: &Tables, worker: &Value, changes: &[Change]) -> Result<(), Error> {
    db.transaction(Isolation::Snapshot, |tx| {
        for change in changes {
            match change {
                Change::Remove(id) => {
                    tx.delete(&tables.items, &tables.items.key(&[worker.clone(), Value::Int64(*id)]))?;
                }
                Change::Put(id, (value, label)) => {
                    let token = Value::from(format!("{}-{id}", worker.borrow()).as_str());
                    let id = Value::Int64(*id);
                    let item = [
                        worker.clone(),
                        id.clone(),
                        Value::Int64(*value),
                        Value::from(label.as_str()),
                        token,
                    ];
                    tx.put(&tables.items, tables.items.row(&item)?)?;
                    for (part, amount) in parts(*value) {
                        let part = [worker.clone(), id.clone(), Value::Int32(part), Value::Int64(amount)];
                        tx.put(&tables.parts, tables.parts.row(&part)?)?;
                    }
                }
            }
        }
        Ok(())
    })
}
