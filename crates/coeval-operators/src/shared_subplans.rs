// SPDX-License-Identifier: Apache-2.0
//! A part of a plan that occurs several times in it, computed once.
//!
//! A query that names a `WITH` query three times is planned with three copies of it. The first copy stays and gets [`SharedExec`] on
//! top; each of the others is replaced by a [`SharedReaderExec`], a leaf that reads the rows of the first.
//!
//! ```text
//! HashJoinExec                         HashJoinExec
//!   AggregateExec                        Shared: 1
//!     rows                                 AggregateExec
//!   AggregateExec              ->            rows
//!     rows                               SharedReader: 1
//! ```
//!
//! The top is a reader like the others. Each partition of the shared rows is a list of batches with a place in it for each reader, and
//! the stream that it grows from:
//!
//! 1. A reader that has batches before it takes the next one.
//! 2. One that has had all of them polls the stream itself, whichever reader it is, and adds what comes to the list.
//! 3. One that finds the stream being polled by another reader waits until that one is through with the poll.
//! 4. A batch that all readers have had is let go. A reader that is dropped has had all.
//!
//! So rows are made at the pace of the fastest reader and no reader ever waits for another one to go on: a join may read one copy to its
//! end before it asks for the first row of the other. No task is started. What ends a query, dropping its streams, ends this too. When
//! the stream waits, it holds a waker that wakes all readers that wait, because whoever polled it last may never poll again.
//!
//! # Memory
//!
//! Batches that are kept are reserved. One for which memory is refused goes to a file of its own, in which each reader finds it; where
//! there are no files, the query fails as a sort would. A single batch per file is what `ONE_BATCH` of the SQL layer is about: nobody
//! waits for more to come in a file.
//!
//! # Limits
//!
//! Filters from above, as those that a join makes of its build side, stop at both operators: they would be another one's rows. A plan
//! is run once: a second run would find the rows gone, and is an error. [`connect`] comes last, when no rule changes the plan any more.
//!
//! ```text
//! part.rs       one partition: the list, the places, the stream
//! waiting.rs    who is to be woken
//! subplan.rs    what the nodes of one shared subplan have in common
//! producer.rs   SharedExec
//! reader.rs     SharedReaderExec
//! ```

mod part;
mod producer;
mod reader;
mod subplan;
#[cfg(test)]
mod tests;
mod waiting;

pub use producer::SharedExec;
pub use reader::SharedReaderExec;

use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use subplan::Subplan;

/// Tells the readers of each shared subplan of a finished plan where its rows come from, and how many readers there are. Without it
/// none of them can run. A plan without shared subplans stays as it is.
///
/// # Errors
///
/// If there are readers of a subplan that is not in the plan, or the plan was connected before: a mistake of whoever made it.
pub fn connect(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let mut found = Vec::new();
    let mut waiting = vec![plan];
    while let Some(node) = waiting.pop() {
        if let Some(shared) = node.downcast_ref::<SharedExec>() {
            let found = found_of(&mut found, shared.subplan());
            found.input = Some(shared.input());
            found.readers.push(node);
        } else if let Some(reader) = node.downcast_ref::<SharedReaderExec>() {
            found_of(&mut found, reader.subplan()).readers.push(node);
        }
        waiting.extend(node.children());
    }
    found.iter().try_for_each(Found::connect)
}

/// What a plan has of a shared subplan.
struct Found<'p> {
    subplan: &'p Arc<Subplan>,
    /// What makes its rows.
    input: Option<&'p Arc<dyn ExecutionPlan>>,
    /// All that read it, the top among them.
    readers: Vec<&'p Arc<dyn ExecutionPlan>>,
}

/// The entry of a shared subplan, a new one if it is met for the first time.
fn found_of<'f, 'p>(found: &'f mut Vec<Found<'p>>, subplan: &'p Arc<Subplan>) -> &'f mut Found<'p> {
    let known = found.iter().position(|known| Arc::ptr_eq(known.subplan, subplan));
    let place = known.unwrap_or_else(|| {
        found.push(Found { subplan, input: None, readers: Vec::new() });
        found.len() - 1
    });
    &mut found[place]
}

impl Found<'_> {
    fn connect(&self) -> Result<()> {
        let number = self.subplan.number();
        let Some(input) = self.input else {
            return internal_err!("shared subplan {number} is read, and its rows are made nowhere");
        };
        let partitions = input.output_partitioning().partition_count();
        let is_divided_so =
            |reader: &&Arc<dyn ExecutionPlan>| reader.output_partitioning().partition_count() == partitions;
        if !self.readers.iter().all(is_divided_so) {
            return internal_err!(
                "shared subplan {number} has {partitions} partitions, and a reader has not"
            );
        }
        self.subplan.connect(input, self.readers.len())
    }
}

/// The value behind a lock. A panic of another thread left nothing half done behind any lock of this module.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
