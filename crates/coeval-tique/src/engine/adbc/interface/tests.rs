// SPDX-License-Identifier: Apache-2.0
//! Cancelling, with a driver of ours whose statements run until they have been cancelled often enough.

use super::*;
use crate::interrupt::{Abandonment, abandonable};
use std::mem::{offset_of, zeroed};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// So many requests end a statement: one that comes before the engine has begun its work has no effect.
const REQUESTS: usize = 3;
/// When a statement ends at the latest.
const LONG: Duration = Duration::from_secs(20);
/// What a driver answers of a statement that was cancelled.
const CANCELLED: u8 = 11;

/// What the driver's statements count.
#[derive(Default)]
struct Counts {
    begun: AtomicUsize,
    requests: AtomicUsize,
}

unsafe extern "C" fn new(_: *mut Handle, _: *mut AdbcError) -> u8 {
    OK
}

unsafe extern "C" fn connection_init(
    connection: *mut Handle,
    database: *mut Handle,
    _: *mut AdbcError,
) -> u8 {
    // SAFETY: two handles that are there.
    unsafe { (*connection).private_data = (*database).private_data };
    OK
}

unsafe extern "C" fn statement_new(connection: *mut Handle, statement: *mut Handle, _: *mut AdbcError) -> u8 {
    // SAFETY: two handles that are there.
    unsafe { (*statement).private_data = (*connection).private_data };
    OK
}

unsafe extern "C" fn set_sql_query(_: *mut Handle, _: *const c_char, _: *mut AdbcError) -> u8 {
    OK
}

/// What the statements of a handle's driver count.
fn counts(handle: *mut Handle) -> &'static Counts {
    // SAFETY: a handle that is there, which the driver has given what it counts, and that stays for ever.
    unsafe { &*(*handle).private_data.cast::<Counts>() }
}

unsafe extern "C" fn execute(
    statement: *mut Handle,
    _: *mut ArrowArrayStream,
    _: *mut i64,
    _: *mut AdbcError,
) -> u8 {
    let (counts, began) = (counts(statement), Instant::now());
    counts.begun.fetch_add(1, Ordering::SeqCst);
    while counts.requests.load(Ordering::SeqCst) < REQUESTS {
        if began.elapsed() > LONG {
            return OK;
        }
        sleep(Duration::from_millis(1));
    }
    CANCELLED
}

unsafe extern "C" fn cancels(statement: *mut Handle, _: *mut AdbcError) -> u8 {
    counts(statement).requests.fetch_add(1, Ordering::SeqCst);
    OK
}

unsafe extern "C" fn cannot(_: *mut Handle, _: *mut AdbcError) -> u8 {
    NOT_IMPLEMENTED
}

/// A connection of the driver's, which cancels so.
fn link(statement_cancel: Option<OnHandle>) -> (Link, &'static Counts) {
    // SAFETY: all zero is a table whose functions are all missing.
    let mut functions: Box<Functions> = Box::new(unsafe { zeroed() });
    functions.connection_new = Some(new);
    functions.connection_init = Some(connection_init);
    functions.statement_new = Some(statement_new);
    functions.statement_set_sql_query = Some(set_sql_query);
    functions.statement_execute_query = Some(execute);
    functions.statement_cancel = statement_cancel;
    let counts: &'static Counts = Box::leak(Box::default());
    let mut handle = no_handle();
    handle.private_data = std::ptr::from_ref(counts).cast_mut().cast();
    let database = Database { driver: Driver { functions }, handle: Box::into_raw(handle) };
    (Link::connect(Arc::new(database)).unwrap(), counts)
}

/// Runs a statement, and another one behind it, for somebody who abandons the first while it runs; what they answered.
fn abandoned(mut link: Link, counts: &Counts, meanwhile: impl FnOnce()) -> [bool; 2] {
    let statement = Abandonment::default();
    let theirs = statement.clone();
    let working =
        spawn(move || abandonable(&theirs, || [link.run("first").is_ok(), link.change("second").is_ok()]));
    while counts.begun.load(Ordering::SeqCst) == 0 {
        sleep(Duration::from_millis(1));
    }
    statement.abandon();
    meanwhile();
    working.join().unwrap()
}

#[test]
fn the_cancelling_function_stands_where_the_standard_has_it() {
    assert_eq!(offset_of!(Functions, statement_cancel), 49 * size_of::<Unused>());
}

#[test]
fn a_statement_that_nobody_waits_for_any_more_is_cancelled_until_it_ends() {
    let (link, counts) = link(Some(cancels));
    let began = Instant::now();
    assert_eq!(abandoned(link, counts, || ()), [false; 2]);
    assert!(began.elapsed() < LONG / 2, "it was not cancelled");
    assert_eq!(counts.begun.load(Ordering::SeqCst), 1, "no other statement is begun for it");
    let requests = counts.requests.load(Ordering::SeqCst);
    sleep(Duration::from_millis(100));
    assert_eq!(counts.requests.load(Ordering::SeqCst), requests, "what has ended is not cancelled");
}

#[test]
fn where_the_driver_cannot_cancel_a_statement_runs_to_its_end_and_none_behind_it() {
    for cancel in [Some(cannot as OnHandle), None] {
        let (link, counts) = link(cancel);
        let ends = || {
            sleep(Duration::from_millis(100));
            assert_eq!(counts.begun.load(Ordering::SeqCst), 1);
            assert_eq!(counts.requests.swap(REQUESTS, Ordering::SeqCst), 0);
        };
        assert_eq!(abandoned(link, counts, ends), [false; 2]);
        assert_eq!(counts.begun.load(Ordering::SeqCst), 1);
    }
}
