// SPDX-License-Identifier: Apache-2.0
//! One partition of a shared subplan: batches that some reader has yet to take, and the stream that more of them come from.

use super::lock;
use super::waiting::Waiting;
use crate::bytes::bytes_of;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{internal_datafusion_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::SpillManager;
use datafusion::physical_plan::metrics::{BaselineMetrics, SpillMetrics};
use futures::{Stream, StreamExt, ready};
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// What its memory is reserved as.
const CONSUMER: &str = "Shared";

/// See the module.
///
/// # Locking
///
/// `state` is locked for a look or a change, and never while the stream is polled or dropped, a file written or a waker called: whoever
/// polls the stream takes it out meanwhile. Of other locks only that of `waiting` is taken within it.
pub(super) struct Part {
    state: Mutex<State>,
    waiting: Arc<Waiting>,
    /// For all batches in memory together: what is small is never refused, and many batches are small.
    reservation: MemoryReservation,
    spills: SpillManager,
}

struct State {
    source: Source,
    /// A reader has come while another one polled the source, and waits.
    was_missed: bool,
    kept: VecDeque<Kept>,
    /// How many batches came before the first that is kept.
    let_go: usize,
    /// How many batches each reader has had; `None` once it has left.
    places: Vec<Option<usize>>,
    /// How many readers have begun.
    begun: usize,
}

/// Where batches come from.
enum Source {
    /// Nobody polls it right now.
    Idle(SendableRecordBatchStream),
    /// This reader polls it.
    Polled(usize),
    /// All batches have come.
    Done,
    /// No more come, because of this.
    Failed(Arc<DataFusionError>),
}

/// A batch that some reader has yet to take.
enum Kept {
    InMemory { batch: RecordBatch, bytes: usize },
    OnDisk(Arc<dyn SpillFile>),
}

/// What a reader gets.
enum Next {
    Batch(RecordBatch),
    /// The batch in this file.
    OnDisk(Arc<dyn SpillFile>),
}

/// What a reader finds.
enum Look {
    /// What it asked for, or the end.
    Found(Option<Result<Next>>),
    /// Another reader polls the source.
    Wait,
    /// It is to poll the source itself.
    Poll(SendableRecordBatchStream),
}

impl State {
    /// Whether any reader but this one is still to come by what is kept.
    fn has_others(&self, reader: usize) -> bool {
        self.places.iter().enumerate().any(|(other, place)| other != reader && place.is_some())
    }

    /// Takes out what all readers have had.
    fn let_go_of_read(&mut self) -> Vec<Kept> {
        let end = self.let_go + self.kept.len();
        let needed = self.places.iter().flatten().copied().min().unwrap_or(end);
        let count = needed - self.let_go;
        self.let_go = needed;
        self.kept.drain(..count).collect()
    }
}

impl Part {
    /// For these rows and so many readers.
    pub(super) fn new(
        rows: SendableRecordBatchStream,
        readers: usize,
        task: &TaskContext,
        spilled: SpillMetrics,
    ) -> Self {
        let spills = SpillManager::new(task.runtime_env(), spilled, rows.schema())
            .with_compression_type(task.session_config().spill_compression());
        let reservation = MemoryConsumer::new(CONSUMER).with_can_spill(true).register(task.memory_pool());
        let state = State {
            source: Source::Idle(rows),
            was_missed: false,
            kept: VecDeque::new(),
            let_go: 0,
            places: vec![Some(0); readers],
            begun: 0,
        };
        Self { state: Mutex::new(state), waiting: Arc::new(Waiting::new(readers)), reservation, spills }
    }

    /// The next reader, at the first row.
    ///
    /// # Errors
    ///
    /// If all readers that it is for have begun: rows may be gone.
    pub(super) fn begin(self: &Arc<Self>, metrics: BaselineMetrics) -> Result<Reading> {
        let mut state = lock(&self.state);
        let reader = state.begun;
        if reader == state.places.len() {
            return internal_err!("a shared subplan is for {reader} readers, and another one has come");
        }
        state.begun += 1;
        drop(state);
        Ok(Reading { part: Arc::clone(self), reader, file: None, metrics })
    }

    fn poll_next(&self, reader: usize, context: &Context<'_>) -> Poll<Option<Result<Next>>> {
        let mut rows = match self.look(reader, context.waker()) {
            Look::Found(next) => return Poll::Ready(next),
            Look::Wait => return Poll::Pending,
            Look::Poll(rows) => rows,
        };
        let waker = Waker::from(Arc::clone(&self.waiting));
        let polled = rows.poll_next_unpin(&mut Context::from_waker(&waker));
        match polled {
            Poll::Pending => {
                self.put_back(reader, rows);
                Poll::Pending
            }
            Poll::Ready(Some(Ok(batch))) => Poll::Ready(Some(match self.kept(reader, &batch) {
                Ok(kept) => {
                    self.add(reader, rows, kept);
                    Ok(Next::Batch(batch))
                }
                Err(error) => Err(self.fail(reader, error)),
            })),
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(self.fail(reader, error)))),
            Poll::Ready(None) => {
                self.end(reader, Source::Done);
                Poll::Ready(None)
            }
        }
    }

    fn look(&self, reader: usize, waker: &Waker) -> Look {
        let mut state = lock(&self.state);
        let Some(place) = state.places[reader] else { return Look::Found(None) };
        if let Some(kept) = state.kept.get(place - state.let_go) {
            let next = match kept {
                Kept::InMemory { batch, .. } => Next::Batch(batch.clone()),
                Kept::OnDisk(file) => Next::OnDisk(Arc::clone(file)),
            };
            state.places[reader] = Some(place + 1);
            let read = state.let_go_of_read();
            drop(state);
            self.release(read);
            return Look::Found(Some(Ok(next)));
        }
        match std::mem::replace(&mut state.source, Source::Polled(reader)) {
            Source::Idle(rows) => {
                self.waiting.wait(reader, waker);
                Look::Poll(rows)
            }
            Source::Polled(other) => {
                state.source = Source::Polled(other);
                state.was_missed = true;
                self.waiting.wait(reader, waker);
                Look::Wait
            }
            Source::Done => {
                state.source = Source::Done;
                Look::Found(None)
            }
            Source::Failed(error) => {
                let told = DataFusionError::from(&error);
                state.source = Source::Failed(error);
                Look::Found(Some(Err(told)))
            }
        }
    }

    /// The batch as it is kept for the other readers; `None` if they have all left.
    fn kept(&self, reader: usize, batch: &RecordBatch) -> Result<Option<Kept>> {
        if !lock(&self.state).has_others(reader) {
            return Ok(None);
        }
        let bytes = bytes_of(batch)?;
        if self.reservation.try_grow(bytes).is_ok() {
            return Ok(Some(Kept::InMemory { batch: batch.clone(), bytes }));
        }
        let file = self.spills.spill_record_batch_and_finish(std::slice::from_ref(batch), CONSUMER)?;
        let file = file.ok_or_else(|| internal_datafusion_err!("a batch that was written is in no file"))?;
        Ok(Some(Kept::OnDisk(file)))
    }

    /// Puts the source back with nothing new. Others that came meanwhile may find that it has more by now.
    fn put_back(&self, reader: usize, rows: SendableRecordBatchStream) {
        let mut state = lock(&self.state);
        state.source = Source::Idle(rows);
        let was_missed = std::mem::take(&mut state.was_missed);
        drop(state);
        if was_missed {
            self.waiting.wake_others(reader);
        }
    }

    /// Puts the source back with a new batch, which this reader has.
    fn add(&self, reader: usize, rows: SendableRecordBatchStream, kept: Option<Kept>) {
        let mut state = lock(&self.state);
        match kept {
            Some(kept) => state.kept.push_back(kept),
            // Without other readers nothing was kept before it either.
            None => state.let_go += 1,
        }
        state.places[reader] = state.places[reader].map(|place| place + 1);
        state.source = Source::Idle(rows);
        state.was_missed = false;
        let read = state.let_go_of_read();
        drop(state);
        self.release(read);
        self.waiting.wake_others(reader);
    }

    /// No more batches come, because of this error; all readers get it behind those that came. This one gets what is given back.
    fn fail(&self, reader: usize, error: DataFusionError) -> DataFusionError {
        let error = Arc::new(error);
        let told = DataFusionError::from(&error);
        self.end(reader, Source::Failed(error));
        told
    }

    fn end(&self, reader: usize, end: Source) {
        lock(&self.state).source = end;
        self.waiting.wake_others(reader);
    }

    /// The reader takes no more. The last one takes the source with it.
    fn leave(&self, reader: usize) {
        let mut state = lock(&self.state);
        state.places[reader] = None;
        let read = state.let_go_of_read();
        let mut source = None;
        let is_left = state.places.iter().all(Option::is_none);
        // It panicked while it polled.
        let is_lost = matches!(state.source, Source::Polled(by) if by == reader);
        if is_left {
            source = Some(std::mem::replace(&mut state.source, Source::Done));
        } else if is_lost {
            let error =
                internal_datafusion_err!("the reader of a shared subplan that made its rows has ended");
            state.source = Source::Failed(Arc::new(error));
        }
        drop(state);
        self.release(read);
        drop(source);
        self.waiting.leave(reader);
        if is_lost {
            self.waiting.wake_others(reader);
        }
    }

    /// Gives back the memory of batches that are let go.
    fn release(&self, batches: Vec<Kept>) {
        let of_batch = |kept: &Kept| match kept {
            Kept::InMemory { bytes, .. } => *bytes,
            Kept::OnDisk(_) => 0,
        };
        let bytes: usize = batches.iter().map(of_batch).sum();
        drop(batches);
        if bytes > 0 {
            self.reservation.shrink(bytes);
        }
    }
}

/// The rows of a partition, as one of its readers gets them.
pub(super) struct Reading {
    part: Arc<Part>,
    reader: usize,
    /// The batch that is being read from disk.
    file: Option<SendableRecordBatchStream>,
    metrics: BaselineMetrics,
}

impl Reading {
    fn poll_batch(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        loop {
            if let Some(file) = &mut self.file {
                match ready!(file.poll_next_unpin(context)) {
                    Some(batch) => return Poll::Ready(Some(batch)),
                    None => self.file = None,
                }
            }
            match ready!(self.part.poll_next(self.reader, context)) {
                Some(Ok(Next::Batch(batch))) => return Poll::Ready(Some(Ok(batch))),
                Some(Ok(Next::OnDisk(file))) => {
                    self.file = Some(self.part.spills.read_spill_as_stream_unbuffered(file, None)?);
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl Stream for Reading {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let polled = this.poll_batch(context);
        this.metrics.record_poll(polled)
    }
}

impl RecordBatchStream for Reading {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.part.spills.schema())
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.part.leave(self.reader);
    }
}
