// SPDX-License-Identifier: Apache-2.0
//! The vocabulary of the cases: a step is a session, a statement and what it must give.

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use coeval_sql::{Engine, Session, SqlError, StatementResult};
use coeval_store::{Store, StoreOptions};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What a statement must give.
pub(crate) enum Expected {
    /// It succeeds.
    Done,
    /// It succeeds with this command tag: `UPDATE 1`.
    Tag(&'static str),
    /// It gives these rows in this order, values separated by a space.
    Rows(&'static [&'static str]),
    /// It fails with this SQLSTATE.
    Fails(&'static str),
}

/// The first committer was another transaction.
pub(crate) const CONFLICT: Expected = Expected::Fails("40001");

/// One step of a script.
pub(crate) type Step = (&'static str, &'static str, Expected);

/// Runs `setup` in a fresh in-memory database, then the steps, each in the session it names; sessions are
/// opened when they are first named. Stops at the first step that gives something else, and says which.
pub(crate) fn run(setup: &[&str], steps: &[Step]) {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("threads can be started");
    let mut first = engine.session();
    for sql in setup {
        first.execute(sql).unwrap_or_else(|error| panic!("setup {sql}: {error}"));
    }
    let mut sessions: BTreeMap<&str, Session> = BTreeMap::new();
    for (number, (name, sql, expected)) in steps.iter().enumerate() {
        let session = sessions.entry(name).or_insert_with(|| engine.session());
        let result = session.execute(sql);
        if let Some(difference) = difference(expected, result) {
            panic!("step {number}, {name}: {sql}\n{difference}");
        }
    }
}

fn difference(expected: &Expected, result: Result<Vec<StatementResult>, SqlError>) -> Option<String> {
    match (expected, result) {
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
