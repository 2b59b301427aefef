// SPDX-License-Identifier: Apache-2.0
//! `SELECT coeval_json_members('{}')` panicked: a function that only plans of ours were meant to call took what it was
//! given for an array. Users know all names, so every function is called with values of types that it does not expect.

use coeval_sql::fuzzing::function_names;
use coeval_sql::{Engine, STATEMENT_STACK_BYTES};
use coeval_store::{Store, StoreOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

const VALUES: [&str; 13] = [
    "1",
    "'x'",
    "NULL",
    "1.5",
    "true",
    "ARRAY[1, 2]",
    "'{\"a\": [1]}'::jsonb",
    "timestamp '2024-02-29 12:00'",
    "interval '1 day'",
    "'\\xff'::bytea",
    "-9223372036854775807::bigint",
    "ARRAY['a', NULL]",
    "2.5::float8",
];

/// What makes the test wait, on purpose.
const SLOW: [&str; 4] = ["coeval_sleep", "pg_sleep", "pg_advisory_lock", "pg_advisory_lock_shared"];

/// Calls with none to four arguments.
fn calls(name: &str) -> Vec<String> {
    let call = |arguments: &[&str]| format!("SELECT \"{name}\"({})", arguments.join(", "));
    let mut calls = vec![call(&[])];
    for (index, value) in VALUES.iter().enumerate() {
        // Steps without a common divisor with the number of values: places see all types.
        let other = |step: usize| VALUES[(index * step + step) % VALUES.len()];
        calls.push(call(&[value]));
        calls.push(call(&[value, other(3)]));
        calls.push(call(&[value, other(5), other(2)]));
        if index % 3 == 0 {
            calls.push(call(&[value, other(7), other(4), other(6)]));
        }
    }
    calls
}

/// The calls that panic.
fn panicking() -> Vec<String> {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).expect("an empty database opens");
    let names = function_names(&engine);
    assert!(names.len() > 200, "{} functions", names.len());
    let mut panicking = Vec::new();
    for name in names.iter().filter(|name| !SLOW.contains(&name.as_str())) {
        let mut session = engine.session();
        session.configure("statement_timeout", "2s").expect("a setting that there is");
        for sql in calls(name) {
            // Errors are answers.
            if catch_unwind(AssertUnwindSafe(|| session.execute(&sql).map(drop))).is_err() {
                panicking.push(sql);
                session = engine.session();
            }
        }
    }
    panicking
}

#[test]
fn no_function_panics_whatever_it_is_called_with() {
    let thread = std::thread::Builder::new().stack_size(STATEMENT_STACK_BYTES).spawn(panicking);
    let panicking = thread.expect("a thread can be started").join().expect("calls do not end the thread");
    assert!(panicking.is_empty(), "{} calls panic:\n{}", panicking.len(), panicking.join("\n"));
}
