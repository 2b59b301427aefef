// SPDX-License-Identifier: Apache-2.0
//! The vocabulary of the cases: a step is a session, a statement and what it must give.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use coeval_sql::{Engine, Session, SqlError, StatementResult};
use coeval_store::{Store, StoreOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// What a statement must give.
#[derive(Clone)]
pub(crate) enum Expected {
    /// It succeeds.
    Done,
    /// It succeeds with this command tag: `UPDATE 1`.
    Tag(&'static str),
    /// It gives these rows in this order, values separated by a space.
    Rows(&'static [&'static str]),
    /// It fails with this SQLSTATE.
    Fails(&'static str),
    /// It waits for a row lock, a safe snapshot, or one with priority. What it gives in the end is a later step of its session, [`THEN`].
    Waits,
}

/// The statement of a step that gives what an earlier one, which waited, gives in the end.
pub(crate) const THEN: &str = "";

/// The first committer was another transaction.
pub(crate) const CONFLICT: Expected = Expected::Fails("40001");

/// One step of a script.
pub(crate) type Step = (&'static str, &'static str, Expected);

/// A session that runs on a thread of its own, so that it can wait.
struct Client {
    statements: Sender<String>,
    results: Receiver<Outcome>,
}

type Outcome = Result<Vec<StatementResult>, SqlError>;

/// Nothing takes so long: whoever waits for it waits for ever.
const FOR_EVER: Duration = Duration::from_secs(60);

impl Client {
    fn of(mut session: Session) -> Self {
        let (statements, queue) = channel::<String>();
        let (answers, results) = channel();
        std::thread::spawn(move || {
            for sql in queue {
                if answers.send(session.execute(&sql)).is_err() {
                    break;
                }
            }
        });
        Self { statements, results }
    }

    fn begin(&self, sql: &str) {
        self.statements.send(sql.to_owned()).expect("the session's thread takes statements");
    }

    fn end(&self) -> Outcome {
        self.results.recv_timeout(FOR_EVER).expect("the statement waits for ever, or its thread has panicked")
    }
}

/// Runs `setup` in a fresh in-memory database, then the steps, each in the session it names; sessions are
/// opened when they are first named. Stops at the first step that gives something else, and says which.
pub(crate) fn run(setup: &[&str], steps: &[Step]) {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("threads can be started");
    let mut first = engine.session();
    for sql in setup {
        first.execute(sql).unwrap_or_else(|error| panic!("setup {sql}: {error}"));
    }
    let mut clients: BTreeMap<&str, Client> = BTreeMap::new();
    let mut waiting = BTreeSet::new();
    for (number, (name, sql, expected)) in steps.iter().enumerate() {
        let client = clients.entry(name).or_insert_with(|| Client::of(engine.session()));
        if *sql == THEN {
            assert!(waiting.remove(name), "step {number}: {name} does not wait");
        } else {
            assert!(!waiting.contains(name), "step {number}: {name} still waits");
            client.begin(sql);
        }
        if matches!(expected, Expected::Waits) {
            waiting.insert(name);
            let store = engine.store();
            let waiting_count = || {
                let (locks, snapshots) = (store.waiting_for_locks(), store.waiting_for_safe_snapshots());
                locks + snapshots + store.waiting_for_reservations()
            };
            while waiting_count() < waiting.len() {
                if let Ok(outcome) = client.results.try_recv() {
                    panic!("step {number}, {name}: {sql}\ndid not wait, but gave {outcome:?}");
                }
                std::thread::yield_now();
            }
            continue;
        }
        if let Some(difference) = difference(expected, client.end()) {
            panic!("step {number}, {name}: {sql}\n{difference}");
        }
    }
    assert!(waiting.is_empty(), "what {waiting:?} waited for is not looked at");
}

/// What a statement has given: its rows, or the SQLSTATE that it failed with.
pub(crate) type Observed = Result<Vec<String>, String>;

/// Runs steps in a fresh database, each after those before it have ended or wait, whatever they give; tells what each gave.
/// Statements of a session that waits come after the wait.
pub(crate) fn observe(setup: &[&str], steps: &[(&str, String)]) -> Vec<Observed> {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("threads can be started");
    let mut first = engine.session();
    for sql in setup {
        first.execute(sql).unwrap_or_else(|error| panic!("setup {sql}: {error}"));
    }
    let mut clients: BTreeMap<&str, (Client, Vec<usize>)> = BTreeMap::new();
    let mut observed = vec![Ok(Vec::new()); steps.len()];
    for (number, (name, sql)) in steps.iter().enumerate() {
        let (client, pending) =
            clients.entry(name).or_insert_with(|| (Client::of(engine.session()), Vec::new()));
        client.begin(sql);
        pending.push(number);
        loop {
            for (client, pending) in clients.values_mut() {
                while let Some(outcome) = pending.first().and_then(|_| client.results.try_recv().ok()) {
                    let rows = outcome.map(|results| rows_of(&results));
                    observed[pending.remove(0)] = rows.map_err(|error| error.state.code().to_owned());
                }
            }
            let busy = clients.values().filter(|(_, pending)| !pending.is_empty()).count();
            if engine.store().waiting_for_locks() >= busy {
                break;
            }
            std::thread::yield_now();
        }
    }
    assert!(clients.values().all(|(_, pending)| pending.is_empty()), "nobody waits for ever");
    observed
}

fn difference(expected: &Expected, result: Outcome) -> Option<String> {
    match (expected, result) {
        (Expected::Waits, _) => Some("ended instead of waiting".to_owned()),
        (Expected::Fails(state), Ok(_)) => Some(format!("succeeded, expected SQLSTATE {state}")),
        (Expected::Fails(state), Err(error)) => {
            (error.state.code() != *state).then(|| format!("failed with {error}, expected SQLSTATE {state}"))
        }
        (Expected::Done | Expected::Tag(_) | Expected::Rows(_), Err(error)) => {
            Some(format!("failed with {} {error}", error.state.code()))
        }
        (Expected::Done, Ok(_)) => None,
        (Expected::Tag(tag), Ok(results)) => {
            let tags: Vec<String> = results.iter().map(|result| result.tag.to_string()).collect();
            (tags != [*tag]).then(|| format!("gave {tags:?}, expected {tag}"))
        }
        (Expected::Rows(rows), Ok(results)) => {
            let found = rows_of(&results);
            (found != *rows).then(|| format!("gave {found:?}, expected {rows:?}"))
        }
    }
}

fn rows_of(results: &[StatementResult]) -> Vec<String> {
    let batches = results.iter().filter_map(|result| result.rows.as_ref()).flat_map(|rows| &rows.batches);
    batches.flat_map(lines).collect()
}

fn lines(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let formatters: Vec<ArrayFormatter<'_>> = (batch.columns().iter())
        .map(|column| ArrayFormatter::try_new(column, &options).expect("a type with a text form"))
        .collect();
    let line = |row: usize| {
        let mut line = String::new();
        for (column, formatter) in formatters.iter().enumerate() {
            let separator = if column == 0 { "" } else { " " };
            write!(line, "{separator}{}", formatter.value(row)).expect("writing to a string succeeds");
        }
        line
    };
    (0..batch.num_rows()).map(line).collect()
}
