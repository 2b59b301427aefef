// SPDX-License-Identifier: Apache-2.0
//! Reading by steps, each of which is short, so that others have a turn between them.
//!
//! Who asks a scan for a batch works on a thread that many share. Where filters leave none of millions of rows, that would go on until the last
//! of them was read: meanwhile no other task could run there, and nobody would see that the statement has been cancelled.

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use futures::stream::{self, Stream};

/// What came of a step.
pub(super) enum Step {
    /// Something was read, or passed over.
    Read,
    /// A batch to give.
    Out(RecordBatch),
    /// There is nothing more.
    Done,
}

/// The batches that come of reading. Others get their turn while there are none.
pub(super) fn batches<R: Send>(
    reading: R,
    step: fn(&mut R) -> Result<Step>,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::try_unfold(reading, move |mut reading| async move {
        loop {
            match step(&mut reading)? {
                Step::Read => tokio::task::consume_budget().await,
                Step::Out(batch) => return Ok::<_, DataFusionError>(Some((batch, reading))),
                Step::Done => return Ok(None),
            }
        }
    })
}
