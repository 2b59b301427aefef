// SPDX-License-Identifier: Apache-2.0
//! Rows of a driver of ours, which makes them when it is asked for them, as SQLite's does.

use super::*;
use crate::interrupt::{Abandonment, abandonable};

/// So many batches there are.
const BATCHES_MAX: usize = 10;

/// What the driver's stream counts, and whose statement it is.
struct Source {
    asked: usize,
    /// So many batches are asked for before nobody waits for the statement any more.
    wanted: usize,
    statement: Abandonment,
}

/// A schema that nothing was written into has no columns.
unsafe extern "C" fn schema_without_columns(_: *mut ArrowArrayStream, _: *mut ArrowSchema) -> c_int {
    0
}

unsafe extern "C" fn release(array: *mut ArrowArray) {
    // SAFETY: an array that is there; a producer's function takes itself away.
    unsafe { (*array).release = None };
}

unsafe extern "C" fn next(stream: *mut ArrowArrayStream, array: *mut ArrowArray) -> c_int {
    // SAFETY: a stream that is there, whose test has its source until it has been read.
    let source = unsafe { &mut *(*stream).private_data.cast::<Source>() };
    source.asked += 1;
    if source.asked == source.wanted {
        source.statement.abandon();
    }
    if source.asked <= BATCHES_MAX {
        // SAFETY: an array of the reader's, which is empty.
        let array = unsafe { &mut *array };
        array.length = 5;
        array.release = Some(release);
    }
    0
}

/// What reading comes to if nobody waits for it any more behind so many batches: how many it has, and how many it has asked for.
fn read(wanted: usize) -> (Result<usize, String>, usize) {
    let statement = Abandonment::default();
    let mut source = Source { asked: 0, wanted, statement: statement.clone() };
    let mut stream = ArrowArrayStream::empty();
    stream.get_schema = Some(schema_without_columns);
    stream.get_next = Some(next);
    stream.private_data = (&raw mut source).cast();
    let rows = abandonable(&statement, || read_stream(&mut stream));
    drop(stream);
    (rows.map(|rows| rows.batches.len()).map_err(|failure| failure.message), source.asked)
}

/// To break it: have `read_stream` read all that there is.
#[test]
fn no_batch_is_asked_for_that_nobody_waits_for() {
    assert_eq!(read(3), (Err(NOBODY_WAITS.to_owned()), 3));
    // Somebody waits: the last question has no answer.
    assert_eq!(read(usize::MAX), (Ok(BATCHES_MAX), BATCHES_MAX + 1));
}
