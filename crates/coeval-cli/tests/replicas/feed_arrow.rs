// SPDX-License-Identifier: Apache-2.0
//! Feeds of changes in columns of Arrow: the same changes as in lines of JSON, and nothing lost or twice when they are killed.

use super::feed::{command, feed};
use super::{Server, Sql, bounded, directories, replica_of};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Decimal128Type, Field, Int64Type, SchemaRef};
use arrow::ipc::reader::StreamReader;
use arrow::util::display::array_value_to_string;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

/// The rows of streams that stand one behind the other, as lines of JSON have them; a token alone is none.
fn lines_of(mut bytes: &[u8]) -> Vec<Value> {
    let mut lines = Vec::new();
    while !bytes.is_empty() {
        let reader = StreamReader::try_new(&mut bytes, None).unwrap();
        let schema = reader.schema();
        for batch in reader {
            let batch = batch.unwrap();
            let rows = 0..batch.num_rows();
            lines.extend(rows.filter_map(|row| line(&schema, &batch, row)));
        }
    }
    lines
}

fn line(schema: &SchemaRef, batch: &RecordBatch, row: usize) -> Option<Value> {
    let value = |name: &str| match (schema.field_with_name(name), batch.column_by_name(name)) {
        (Ok(field), Some(column)) => json_of(column, field, row),
        _ => Value::Null,
    };
    let mark = |name: &str| match schema.metadata().get(name) {
        Some(text) if name != "coeval.table" => serde_json::from_str(text).unwrap(),
        Some(text) => Value::String(text.clone()),
        None => Value::Null,
    };
    let operation = value("operation");
    let (before, after) = match operation.as_str()? {
        "definition" => (mark("coeval.definition_before"), mark("coeval.definition")),
        "drop" => (mark("coeval.definition"), Value::Null),
        _ => (value("before"), value("after")),
    };
    let rest = ["key", "version", "position"].map(|name| (name, value(name)));
    let given =
        [("table", mark("coeval.table")), ("operation", operation), ("before", before), ("after", after)];
    let token = Some(("token", value("token"))).filter(|(_, token)| !token.is_null());
    let fields = given.into_iter().chain(rest).chain(token);
    Some(Value::Object(fields.map(|(name, value)| (name.to_owned(), value)).collect()))
}

/// A value as `to_json` writes it.
fn json_of(column: &ArrayRef, field: &Field, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    let shown = array_value_to_string(column, row).unwrap();
    match column.data_type() {
        DataType::Struct(fields) => {
            let columns = fields.iter().zip(column.as_struct().columns());
            Value::Object(columns.map(|(f, column)| (f.name().clone(), json_of(column, f, row))).collect())
        }
        DataType::List(item) => {
            let elements = column.as_list::<i32>().value(row);
            Value::Array((0..elements.len()).map(|place| json_of(&elements, item, place)).collect())
        }
        DataType::Utf8
            if field.metadata().get("ARROW:extension:name").is_none_or(|name| name != "arrow.json") =>
        {
            Value::String(shown)
        }
        DataType::Timestamp(_, zone) => {
            assert_eq!(zone.as_deref(), Some("UTC"));
            Value::String(format!("{}+00:00", shown.trim_end_matches('Z').trim_end_matches('0')))
        }
        // Numbers and documents.
        _ => serde_json::from_str(&shown).unwrap(),
    }
}

/// What an archive has, in columns, is what these lines say of it.
pub(super) fn in_columns_it_is_the_same(from: &str, lines: &[Value]) {
    let output = feed(from, &["--from", "start", "--to", "now", "--format", "arrow"]);
    assert!(output.status.success(), "{output:?}");
    let found = lines_of(&output.stdout);
    let wanted: Vec<&Value> = lines.iter().filter(|line| line.get("table").is_some()).collect();
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        let mut wanted = wanted.as_object().unwrap().clone();
        wanted.remove("committed_at");
        assert_eq!(*found, Value::Object(wanted));
    }
    // The others are left out.
    let only = feed(from, &["--from", "start", "--to", "now", "--format", "arrow", "--table", "log"]);
    let of_log = lines.iter().filter(|line| line["table"] == "public.log").count();
    assert_eq!(lines_of(&only.stdout).len(), of_log);
}

/// What a consumer has made of a feed of `accounts`: amounts, in hundredths, by ids.
#[derive(Default)]
struct Model {
    amounts: BTreeMap<i64, i128>,
    /// What has come behind the last token.
    pending: Vec<(i64, [Option<i128>; 2])>,
    token: String,
    transactions: usize,
    /// The columns of the streams that there were.
    columns: BTreeSet<Vec<String>>,
}

impl Model {
    /// Takes what a feed writes until it ends, or until there were so many transactions. What has no token then is forgotten.
    fn follow(&mut self, output: impl Read, transactions: usize) {
        let mut output = BufReader::new(output);
        let until = self.transactions.saturating_add(transactions);
        while self.transactions < until {
            let Ok(reader) = StreamReader::try_new(&mut output, None) else { break };
            if let Ok(after) = reader.schema().field_with_name("after") {
                let DataType::Struct(fields) = after.data_type() else { panic!("{after:?}") };
                self.columns.insert(fields.iter().map(|field| field.name().clone()).collect());
            }
            for batch in reader {
                self.batch(&batch.unwrap());
                if self.transactions >= until {
                    break;
                }
            }
        }
        self.pending.clear();
    }

    fn batch(&mut self, batch: &RecordBatch) {
        let text = |name: &str, row: usize| {
            let column = batch.column_by_name(name).unwrap().as_string::<i32>();
            column.is_valid(row).then(|| column.value(row))
        };
        for row in 0..batch.num_rows() {
            if let Some("insert" | "update" | "delete") = text("operation", row) {
                let rows =
                    ["key", "before", "after"].map(|name| batch.column_by_name(name).unwrap().as_struct());
                let ids = rows[0].column_by_name("id").unwrap().as_primitive::<Int64Type>();
                let amount = |rows: &StructArray| {
                    let amounts = rows.column_by_name("amount").unwrap().as_primitive::<Decimal128Type>();
                    rows.is_valid(row).then(|| amounts.value(row))
                };
                self.pending.push((ids.value(row), [amount(rows[1]), amount(rows[2])]));
            }
            if let Some(token) = text("token", row) {
                token.clone_into(&mut self.token);
                self.apply();
            }
        }
    }

    fn apply(&mut self) {
        for (id, [before, after]) in std::mem::take(&mut self.pending) {
            let old = match after {
                Some(amount) => self.amounts.insert(id, amount),
                None => self.amounts.remove(&id),
            };
            assert_eq!(old, before, "the row before of {id}, at {}", self.token);
        }
        self.transactions += 1;
        let sum: i128 = self.amounts.values().sum();
        assert!(sum == 0 || sum == i128::from(ACCOUNTS) * 10_000, "half a transaction at {}", self.token);
    }
}

const ACCOUNTS: i64 = 100;

/// Moves amounts between accounts until it is told to end; columns come and go.
fn work(port: u16, ends: &AtomicBool) {
    let sql = Sql::open(port);
    let mut number: i64 = 1;
    while !ends.load(Ordering::Relaxed) {
        let (from, to) = (number * 7 % ACCOUNTS + 1, number * 13 % ACCOUNTS + 1);
        sql.run(&format!(
            "BEGIN; UPDATE accounts SET amount = amount - 0.25 WHERE id = {from};
             UPDATE accounts SET amount = amount + 0.25, word = 'moved {number}' WHERE id = {to}; COMMIT"
        ))
        .unwrap();
        match number % 40 {
            10 => sql.run("ALTER TABLE accounts ADD COLUMN extra int DEFAULT 5").unwrap(),
            30 => sql.run("ALTER TABLE accounts DROP COLUMN extra").unwrap(),
            _ => {}
        }
        number += 1;
    }
}

#[test]
fn a_feed_in_columns_that_is_killed_goes_on_from_its_token_while_columns_come_and_go() {
    let (parent, primary_dir, _) = directories();
    let state = parent.path().join("state");
    let state = state.to_str().unwrap();
    let primary = Server::start(&primary_dir, 0, &[]);
    let source = replica_of(&primary);
    let sql = Sql::open(primary.port);
    let mut model = Model::default();
    let common = ["--state", state, "--format", "arrow", "--table", "accounts"];
    let options = |rest: &[&'static str]| [&common[..], rest].concat();
    let begun = feed(&source, &options(&["--from", "start", "--to", "now"]));
    model.follow(begun.stdout.as_slice(), usize::MAX);
    assert!(!model.token.is_empty(), "{begun:?}");
    sql.run("CREATE TABLE accounts (id bigint PRIMARY KEY, amount numeric(12, 2) NOT NULL, word text)")
        .unwrap();
    sql.run(&format!("INSERT INTO accounts SELECT g, 100, NULL FROM generate_series(1, {ACCOUNTS}) g"))
        .unwrap();
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let worker = scope.spawn(|| work(primary.port, &ends));
        for _ in 0..5 {
            let token = model.token.clone();
            let mut running = command(&source, &options(&["--from"]));
            let mut running = running.arg(&token).stdout(Stdio::piped()).spawn().unwrap();
            let alarm = bounded::Alarm::set(&running, bounded::END_PATIENCE);
            model.follow(running.stdout.take().unwrap(), 60);
            drop(alarm);
            running.kill().unwrap();
            running.wait().unwrap();
            assert_ne!(model.token, token, "nothing has come");
        }
        ends.store(true, Ordering::Relaxed);
        worker.join().unwrap();
    });
    let mut rest = command(&source, &options(&["--to", "now", "--from"]));
    let rest = bounded::output(rest.arg(&model.token));
    assert!(rest.status.success(), "{rest:?}");
    model.follow(rest.stdout.as_slice(), usize::MAX);
    assert_eq!(model.amounts.len(), 100);
    let sum: i128 = model.amounts.iter().map(|(id, amount)| i128::from(*id) * amount).sum();
    let found = sql.value("SELECT sum(id * (amount * 100)::bigint) FROM accounts").unwrap();
    assert_eq!(found, Some(sum.to_string()));
    let columns = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let wanted = [columns(&["id", "amount", "word"]), columns(&["id", "amount", "word", "extra"])];
    assert_eq!(model.columns, BTreeSet::from(wanted));
}
