// SPDX-License-Identifier: Apache-2.0
//! The tables of the kill tests: made once, and read as the keys that the child speaks of.

use crate::model::Contents;
use coeval::{Database, Direction, Error, KeyRange, Value};
use std::collections::BTreeMap;

/// What each account begins with.
const BALANCE: i64 = 1_000;

/// Makes the tables.
pub(crate) fn create(db: &Database) -> Result<(), Error> {
    let mut session = db.session();
    session.execute(
        "CREATE TABLE items (worker int, id bigint, value bigint NOT NULL, label text NOT NULL,
                             token text UNIQUE, PRIMARY KEY (worker, id));
         CREATE INDEX items_by_label ON items (label);
         CREATE TABLE parts (worker int, id bigint, part int, amount bigint NOT NULL,
                             PRIMARY KEY (worker, id, part),
                             FOREIGN KEY (worker, id) REFERENCES items ON DELETE CASCADE);
         CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL);
         CREATE TABLE transfers (worker int, n bigint, source bigint, target bigint, amount bigint,
                                 PRIMARY KEY (worker, n));
         CREATE TABLE loads (id bigint PRIMARY KEY, tag bigint NOT NULL, note text);
         CREATE SEQUENCE numbers;
         CREATE TABLE numbered (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text NOT NULL);
         CREATE TABLE events (worker int, day int, n bigint NOT NULL, note text) USING brick
           PARTITION BY (worker CARDINALITY 16 RANGE SIZE 1, day CARDINALITY 100 RANGE SIZE 10)",
    )?;
    let accounts: Vec<String> = (0..10).map(|id| format!("({id}, {BALANCE})")).collect();
    session.execute(&format!("INSERT INTO accounts VALUES {}", accounts.join(", ")))?;
    Ok(())
}

/// All rows of a table, by key.
fn rows(db: &Database, name: &str) -> Result<Vec<Vec<Value>>, Error> {
    let table = db.table(name)?;
    let width = table.def().columns.len();
    db.read(|tx| {
        let rows = tx.scan(&table, &KeyRange::all(), Direction::Forward)?;
        rows.map(|row| row.map(|(_, row)| (0..width).map(|column| row.get(column).to_owned()).collect()))
            .collect()
    })
}

fn number(value: &Value) -> i64 {
    value.borrow().as_i64().expect("a number")
}

fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        other => panic!("a text, not {other:?}"),
    }
}

/// Reads everything, by key and through SQL.
///
/// # Errors
/// What is half there, or contradicts itself.
pub(crate) fn read(db: &Database) -> Result<Contents, String> {
    let mut contents = Contents::new();
    let failed = |error: Error| error.to_string();
    read_items(db, &mut contents)?;
    read_transfers(db, &mut contents)?;
    let mut session = db.session();
    for batch in session.query("SELECT tag, count(*) FROM loads GROUP BY tag").map_err(failed)? {
        for row in 0..batch.num_rows() {
            let of = |column: usize| coeval::value_at(batch.column(column).as_ref(), row).to_string();
            contents.entry(1).or_default().insert(format!("load/{}", of(0)), of(1));
        }
    }
    read_bricks(db, &mut contents)?;
    let definitions = contents.entry(0).or_default();
    for k in 0..4 {
        let name = format!("d{k}");
        if db.table(&name).is_err() {
            continue;
        }
        let rows = rows(db, &name).map_err(failed)?;
        let plain = [vec![Value::from("plain")], vec![Value::from("altered"), Value::Int32(7)]];
        let kind =
            plain.iter().position(|rest| rows.len() == 3 && rows.iter().all(|row| row[1..] == rest[..]));
        let kind = kind.ok_or_else(|| format!("table {name} is half made: {rows:?}"))?;
        definitions.insert(format!("table/{k}"), ["plain", "altered"][kind].to_owned());
    }
    let items = db.table("items").map_err(failed)?;
    if items.def().index("items_by_value").is_some() {
        definitions.insert("index".to_owned(), "there".to_owned());
    }
    Ok(contents)
}

/// How many rows each load of a brick table has in each brick, and how far its source has come.
fn read_bricks(db: &Database, contents: &mut Contents) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let mut session = db.session();
    let counts = "SELECT worker, n, CAST(day / 10 AS bigint), count(*) FROM events GROUP BY 1, 2, 3";
    for batch in session.query(counts).map_err(failed)? {
        for row in 0..batch.num_rows() {
            let of = |column: usize| coeval::value_at(batch.column(column).as_ref(), row).as_i64();
            let [worker, n, decade, rows] = [0, 1, 2, 3].map(|column| of(column).expect("a number"));
            contents.entry(worker as u32).or_default().insert(format!("rows/{n}/{decade}"), rows.to_string());
        }
    }
    for worker in [5_u32, 6] {
        if let Some(offset) = db.source_offset("events", &format!("w{worker}")).map_err(failed)? {
            contents.entry(worker).or_default().insert("offset".to_owned(), offset.to_string());
        }
    }
    let mut wrong = "(note IS DISTINCT FROM 'n' || CAST(n % 50 AS text))".to_owned();
    for column in 0..db.table("events").map_err(failed)?.def().live_columns().count() - 4 {
        wrong.push_str(&format!(" OR (c{column} IS DISTINCT FROM {column})"));
    }
    let found = session.query(&format!("SELECT count(*) FROM events WHERE {wrong}")).map_err(failed)?;
    match coeval::value_at(found[0].column(0).as_ref(), 0).as_i64() {
        Some(0) => Ok(()),
        rows => Err(format!("{rows:?} rows of bricks are half there")),
    }
}

fn read_items(db: &Database, contents: &mut Contents) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let mut sums: BTreeMap<(i64, i64), (usize, i64)> = BTreeMap::new();
    for part in rows(db, "parts").map_err(failed)? {
        let sum = sums.entry((number(&part[0]), number(&part[1]))).or_default();
        *sum = (sum.0 + 1, sum.1 + number(&part[3]));
    }
    let items = rows(db, "items").map_err(failed)?;
    for item in &items {
        let (worker, id, value) = (number(&item[0]), number(&item[1]), number(&item[2]));
        if sums.remove(&(worker, id)) != Some((2, value)) {
            return Err(format!("item {id} of worker {worker} is half there"));
        }
        let key = format!("item/{id}");
        contents.entry(worker as u32).or_default().insert(key, format!("{value}:{}", text(&item[3])));
    }
    if let Some((item, _)) = sums.first_key_value() {
        return Err(format!("the parts of {item:?} have no item"));
    }
    // The same through the other path, and through an index.
    let mut session = db.session();
    let both = "SELECT (SELECT count(*) FROM items WHERE label >= ''), \
                       (SELECT count(*) FROM items i JOIN parts p ON p.worker = i.worker AND p.id = i.id)";
    let batches = session.query(both).map_err(failed)?;
    let of = |column: usize| coeval::value_at(batches[0].column(column).as_ref(), 0).as_i64();
    let count = items.len() as i64;
    if (of(0), of(1)) == (Some(count), Some(2 * count)) {
        Ok(())
    } else {
        Err(format!("{count} items by key, {:?} and {:?} through SQL", of(0), of(1)))
    }
}

fn read_transfers(db: &Database, contents: &mut Contents) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let accounts = rows(db, "accounts").map_err(failed)?;
    let mut balances: BTreeMap<i64, i64> = accounts.iter().map(|row| (number(&row[0]), BALANCE)).collect();
    for row in rows(db, "transfers").map_err(failed)? {
        let numbers: Vec<i64> = row.iter().map(number).collect();
        let [worker, n, source, target, amount] = numbers[..] else { unreachable!("five columns") };
        *balances.get_mut(&source).expect("accounts stay") -= amount;
        *balances.get_mut(&target).expect("accounts stay") += amount;
        let keys = contents.entry(worker as u32).or_default();
        keys.insert(format!("transfer/{n}"), format!("{source}:{target}:{amount}"));
    }
    let wrong = accounts.iter().find(|row| balances[&number(&row[0])] != number(&row[1]));
    wrong.map_or(Ok(()), |row| Err(format!("the balance of {row:?} is not the sum of its transfers")))
}
