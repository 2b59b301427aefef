// SPDX-License-Identifier: Apache-2.0
//! Tasks that operators start: they work for the query that started them.
//!
//! An exchange, a merge or a join starts tasks of its own, which read its inputs. What they allocate is the query's
//! ([`Holding`](crate::memory::Holding)), what they call is to find its lifeline, and they [take turns](crate::turns) with those of other
//! statements. DataFusion has a place for this, one for the
//! process: in a program that has put something else there, such a task counts only what its inputs do.

use crate::cancel::Lifeline;
use crate::turns::in_turns;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::future::{BoxFuture, FutureExt, poll_fn};
use std::any::Any;
use std::sync::Arc;

struct ForTheQuery;

/// Has the tasks of all queries of this process work for them.
pub(crate) fn tasks_work_for_their_queries() {
    // That it is there already is what is wanted, or the wish of the program.
    let _ = set_join_set_tracer(&ForTheQuery);
}

impl JoinSetTracer for ForTheQuery {
    fn trace_future(
        &self,
        mut task: BoxFuture<'static, Box<dyn Any + Send>>,
    ) -> BoxFuture<'static, Box<dyn Any + Send>> {
        match Lifeline::here() {
            Some(lifeline) => {
                let account = Arc::clone(lifeline.account());
                let work = poll_fn(move |context| lifeline.during(|| task.poll_unpin(context)));
                in_turns(&account, work).boxed()
            }
            None => task,
        }
    }

    fn trace_block(
        &self,
        work: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match Lifeline::here() {
            Some(lifeline) => Box::new(move || lifeline.during(work)),
            None => work,
        }
    }
}
