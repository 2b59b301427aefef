// SPDX-License-Identifier: Apache-2.0
//! Statements share the threads for queries by time, however many tasks they have and however long each task works.
//!
//! A query runs as several tasks on the engine's threads, and a free thread takes the task that has been ready for longest. Without
//! more than that, a statement with many tasks, or with tasks that work for long, gets more of the threads than others. So the time of
//! the threads is given out in rounds, by deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
//!
//! # Terms
//! - A *piece* is what a thread does for a task before it takes the next task. It ends after [`PIECE_MAX`], when the next batch of rows
//!   begins ([`is_piece_over`]). That holds for a statement alone, too, since another one may come at any moment.
//! - The *time* of a statement is the sum of what its pieces took, divided by its weight: with half the weight each millisecond counts
//!   twice. Waits during which another thread has taken over do not count ([`uncounted`]).
//! - The *limit* is one number for all statements. A round lasts from one change of the limit to the next.
//!
//! # Steps
//! 1. Before a piece: if the time of the statement is below the limit, the task goes on. Otherwise the task waits in a queue.
//! 2. After a piece, its length is added to the statement's time. A piece is not interrupted, so the time may pass the limit; such a
//!    statement waits for more rounds.
//! 3. A thread that is about to sleep looks into the queue. It has found no task that may run, so all that is ready waits there, and
//!    the next round begins: the limit becomes the least time of the waiting statements plus one [part](PART), and all tasks of
//!    statements below the limit are woken.
//! 4. A statement that is new, or had no ready task for a while, starts one part below the limit: idle time earns no credit.
//! 5. When all other statements have ended, those tasks of the last one that wait are woken.
//!
//! # Edges
//! A statement alone never waits, and its time is not counted. Nothing is held between two pieces: a query whose client does not read,
//! or that waits for anything else, has no ready task, and no other statement waits for it.
//!
//! A thread that sleeps has looked before. If a task enters the queue later, on a thread that has more to do, then that thread wakes
//! a sleeping one when its next piece ends, as it does for any task that is ready. So a thread may sleep for a piece while a task waits.
//!
//! A process may have several engines, and code of one of them may start tasks on the threads of another one. There such a task
//! does not wait: nobody would look into the queue that it waits in.
//!
//! # Why no task waits for ever
//! A task enters the queue on one of the engine's threads, and each of these threads looks into the queue before it sleeps. A look into
//! a queue that is not empty wakes at least one task. That task runs on some thread, which looks again before it sleeps. If no thread
//! sleeps, all of them work for statements below the limit, which pass it after a part.
//!
//! # Cost
//! For each piece two readings of the clock and some atomic numbers, also of a statement alone; a reading of the clock for each batch
//! of each operator; for each round the waking of its tasks. The lock is taken by a thread that sleeps, a task that waits, and the last
//! task of a statement.

use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use std::cell::{Cell, OnceCell};
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What a statement may use of each thread in a round: long enough that a statement profits from what it has in the processors'
/// caches, short enough that no user sees a query stand still.
const PART: Duration = Duration::from_millis(10);

/// How long a piece may last. A thread may run several pieces before it looks at what other threads have queued, and all of them
/// together are to be shorter than the time after which a thread is asked for (`hand_over.rs`).
const PIECE_MAX: Duration = Duration::from_millis(5);

const _: () =
    assert!(PIECE_MAX.as_nanos() < PART.as_nanos(), "a round gives each statement a piece and more");

/// The weight of a statement of which nothing else was said.
pub(crate) const FULL_WEIGHT: u32 = 100;

/// What the threads for queries have done for how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueryTurns {
    /// Statements whose queries are under way.
    pub statements: u64,
    /// How often a task has had to wait until other statements had had their part.
    pub waits: u64,
}

/// What runs on this thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Piece {
    /// The thread is not one of those for queries.
    Elsewhere,
    /// No piece: the last one has ended, and the next one has not begun.
    Between,
    /// A piece that began at this time.
    Began(u64),
    /// A piece that began at this time, and was told to end.
    Over(u64),
}

thread_local! {
    static TURNS: OnceCell<Arc<Turns>> = const { OnceCell::new() };
    static PIECE: Cell<Piece> = const { Cell::new(Piece::Elsewhere) };
    /// How much of the time of the piece on this thread does not count.
    static UNCOUNTED: Cell<u64> = const { Cell::new(0) };
}

/// The rounds of one engine's threads.
///
/// # Locking
/// `queue` is a leaf, held to change the queue; tasks are woken after it is released. `limit` is changed only under this lock and read
/// without it: a task whose statement is not below the limit checks again under the lock.
#[derive(Debug)]
pub(crate) struct Turns {
    /// What a statement may use in a round, of all threads.
    part: u64,
    piece_max: u64,
    /// Nanoseconds since some moment.
    clock: fn() -> u64,
    limit: AtomicU64,
    /// Statements with tasks.
    statements: AtomicUsize,
    queue: Mutex<Queue>,
    waits: AtomicU64,
}

/// The tasks that wait, in the order in which they came.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    waiting: Vec<Waiting>,
}

/// A task that waits.
#[derive(Debug)]
struct Waiting {
    number: u64,
    account: Arc<Account>,
    waker: Waker,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.account.pieces.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How many tasks of a session's queries run and wait.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    running: AtomicUsize,
    waiting: AtomicUsize,
}

impl Pieces {
    /// Whether some wait for other statements, and none runs.
    pub(crate) fn wait_for_others(&self) -> bool {
        self.running.load(Ordering::Relaxed) == 0 && self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// The time of one statement's query.
#[derive(Debug)]
pub(crate) struct Account {
    time: AtomicU64,
    weight: AtomicU32,
    /// Its tasks that have not ended.
    tasks: AtomicUsize,
    pieces: Arc<Pieces>,
}

impl Default for Account {
    fn default() -> Self {
        Self::shown_in(Arc::default())
    }
}

impl Account {
    /// That of a query whose pieces are counted there.
    pub(crate) fn shown_in(pieces: Arc<Pieces>) -> Self {
        Self {
            time: AtomicU64::new(0),
            weight: AtomicU32::new(FULL_WEIGHT),
            tasks: AtomicUsize::new(0),
            pieces,
        }
    }

    /// From now on a thread's time counts as that of a statement with this weight, which is above 0.
    pub(crate) fn set_weight(&self, weight: u32) {
        self.weight.store(weight.max(1), Ordering::Relaxed);
    }

    /// A piece has taken this time.
    fn add(&self, nanos: u64) {
        let weight = u64::from(self.weight.load(Ordering::Relaxed));
        let weighted = nanos.saturating_mul(u64::from(FULL_WEIGHT)) / weight;
        self.time.fetch_add(weighted, Ordering::Relaxed);
    }

    /// The time, which is this much at least from now on.
    fn time_from(&self, least: u64) -> u64 {
        self.time.fetch_max(least, Ordering::Relaxed).max(least)
    }

    /// The statement has another task.
    fn enter(&self, turns: &Turns) {
        if self.tasks.fetch_add(1, Ordering::AcqRel) == 0 {
            turns.statements.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The task has ended.
    fn leave(&self, turns: &Turns) {
        let is_last = self.tasks.fetch_sub(1, Ordering::AcqRel) == 1;
        if is_last && turns.statements.fetch_sub(1, Ordering::AcqRel) == 2 {
            // The statement that is left has nobody to wait for, and its other tasks might keep all threads from looking.
            turns.begin_round();
        }
    }
}

impl Queue {
    fn enter(&mut self, account: &Arc<Account>, waker: &Waker) -> u64 {
        let number = self.next;
        self.next += 1;
        account.pieces.waiting.fetch_add(1, Ordering::Relaxed);
        self.waiting.push(Waiting { number, account: Arc::clone(account), waker: waker.clone() });
        number
    }

    /// Takes out the task of this number, unless it was woken.
    fn leave(&mut self, number: u64) -> Option<Waiting> {
        let place = self.waiting.iter().position(|waiting| waiting.number == number)?;
        Some(self.waiting.remove(place))
    }
}

impl Turns {
    /// Those of so many threads.
    pub(crate) fn new(threads: usize) -> Self {
        let part = nanos_of(PART).saturating_mul(u64::try_from(threads).unwrap_or(u64::MAX));
        Self::with_clock(part, nanos_of(PIECE_MAX), nanos)
    }

    fn with_clock(part: u64, piece_max: u64, clock: fn() -> u64) -> Self {
        Self {
            part,
            piece_max,
            clock,
            limit: AtomicU64::new(part),
            statements: AtomicUsize::new(0),
            queue: Mutex::default(),
            waits: AtomicU64::new(0),
        }
    }

    /// Has this thread work by these turns. For each of the engine's threads, when it begins.
    pub(crate) fn serve_on_this_thread(self: &Arc<Self>) {
        // A thread has one engine for as long as it lasts.
        TURNS.with(|turns| {
            let _ = turns.set(Arc::clone(self));
        });
        PIECE.set(Piece::Between);
    }

    /// The work as a task of this statement. It counts from now on: other statements that have had their part wait for its first piece.
    pub(crate) fn task<T>(
        self: &Arc<Self>,
        account: &Arc<Account>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> InTurns<T> {
        InTurns::new(account, work, Some(Arc::clone(self)))
    }

    /// If tasks wait, the next round begins. For each of the engine's threads, before it sleeps.
    pub(crate) fn begin_round(&self) {
        let mut queue = self.queue.lock();
        // Each time is read once: it may grow meanwhile, and somebody has to be below the limit.
        let waiting = queue.waiting.drain(..);
        let timed: Vec<_> = waiting.map(|waiting| (waiting.account.time_from(0), waiting)).collect();
        let Some(least) = timed.iter().map(|(time, _)| *time).min() else { return };
        let limit = self.limit.load(Ordering::Relaxed).max(least.saturating_add(self.part));
        self.limit.store(limit, Ordering::Relaxed);
        let (woken, left): (Vec<_>, Vec<_>) = timed.into_iter().partition(|(time, _)| *time < limit);
        queue.waiting.extend(left.into_iter().map(|(_, waiting)| waiting));
        drop(queue);
        woken.iter().for_each(|(_, waiting)| waiting.waker.wake_by_ref());
    }

    /// What there is to say of them.
    pub(crate) fn figures(&self) -> QueryTurns {
        QueryTurns {
            statements: self.statements.load(Ordering::Relaxed) as u64,
            waits: self.waits.load(Ordering::Relaxed),
        }
    }

    /// Whether this thread works by these turns.
    fn are_of_this_thread(self: &Arc<Self>) -> bool {
        TURNS.with(|turns| turns.get().is_some_and(|turns| Arc::ptr_eq(turns, self)))
    }

    /// Whether several statements want the threads.
    fn are_shared(&self) -> bool {
        self.statements.load(Ordering::Relaxed) > 1
    }

    /// Whether a statement may have a piece in this round.
    fn has_part(&self, account: &Account) -> bool {
        if !self.are_shared() {
            return true;
        }
        let limit = self.limit.load(Ordering::Relaxed);
        account.time_from(limit.saturating_sub(self.part)) < limit
    }

    /// Whether a task of this statement may go on. Otherwise it waits in the queue, and `place` has its number there.
    fn admit(&self, account: &Arc<Account>, place: &mut Option<u64>, waker: &Waker) -> bool {
        if place.is_none() && self.has_part(account) {
            return true;
        }
        let mut queue = self.queue.lock();
        match place.take() {
            // A task that waits may be woken by what it works with, too.
            Some(number) => drop(queue.leave(number)),
            None => {
                self.waits.fetch_add(1, Ordering::Relaxed);
            }
        }
        if self.has_part(account) {
            return true;
        }
        *place = Some(queue.enter(account, waker));
        false
    }

    fn begin<'a>(&'a self, account: &'a Account) -> RunningPiece<'a> {
        let began = (self.clock)();
        PIECE.set(Piece::Began(began));
        UNCOUNTED.set(0);
        account.pieces.running.fetch_add(1, Ordering::Relaxed);
        RunningPiece { turns: self, account, began, counts: self.are_shared() }
    }
}

/// A piece that runs on this thread, until this is dropped.
struct RunningPiece<'a> {
    turns: &'a Turns,
    account: &'a Account,
    began: u64,
    /// Whether somebody else wanted the thread when it began.
    counts: bool,
}

impl Drop for RunningPiece<'_> {
    fn drop(&mut self) {
        PIECE.set(Piece::Between);
        self.account.pieces.running.fetch_sub(1, Ordering::Relaxed);
        if self.counts {
            let took = (self.turns.clock)().saturating_sub(self.began);
            self.account.add(took.saturating_sub(UNCOUNTED.get()));
        }
    }
}

/// Whether the piece on this thread has lasted for [`PIECE_MAX`] and is to end. Says so once for each piece: the caller wakes its own
/// task and returns [`Poll::Pending`].
pub(crate) fn is_piece_over() -> bool {
    let Piece::Began(began) = PIECE.get() else { return false };
    let is_over = TURNS.with(|turns| {
        turns.get().is_some_and(|turns| (turns.clock)().saturating_sub(began) >= turns.piece_max)
    });
    if is_over {
        PIECE.set(Piece::Over(began));
    }
    is_over
}

/// For how long the piece on this thread has lasted; `None` if there is none.
pub(crate) fn piece_time() -> Option<Duration> {
    let (Piece::Began(began) | Piece::Over(began)) = PIECE.get() else { return None };
    TURNS.with(|turns| turns.get().map(|turns| Duration::from_nanos((turns.clock)().saturating_sub(began))))
}

/// Does work that takes no thread from other statements, such as a wait during which another thread has taken over: if it is part of
/// a piece, its time does not count.
pub(crate) fn uncounted<T>(work: impl FnOnce() -> T) -> T {
    let clock = match PIECE.get() {
        Piece::Began(_) | Piece::Over(_) => TURNS.with(|turns| turns.get().map(|turns| turns.clock)),
        Piece::Elsewhere | Piece::Between => None,
    };
    let Some(clock) = clock else { return work() };
    let began = clock();
    let outcome = work();
    UNCOUNTED.set(UNCOUNTED.get().saturating_add(clock().saturating_sub(began)));
    outcome
}

/// A task of a statement's query, which runs when the statement has a part of the threads.
///
/// On threads that are not for queries, or are another engine's, and within another piece, it runs at once.
pub(crate) struct InTurns<T> {
    work: BoxFuture<'static, T>,
    account: Arc<Account>,
    /// Those of the threads that it works on, as soon as they are known.
    turns: Option<Arc<Turns>>,
    /// Its number in the queue.
    place: Option<u64>,
}

/// The work as a task of this statement, on the threads of which this one is, or those that it comes to.
pub(crate) fn in_turns<T>(
    account: &Arc<Account>,
    work: impl Future<Output = T> + Send + 'static,
) -> InTurns<T> {
    InTurns::new(account, work, TURNS.with(|turns| turns.get().cloned()))
}

impl<T> InTurns<T> {
    fn new(
        account: &Arc<Account>,
        work: impl Future<Output = T> + Send + 'static,
        turns: Option<Arc<Turns>>,
    ) -> Self {
        if let Some(turns) = &turns {
            account.enter(turns);
        }
        Self { work: work.boxed(), account: Arc::clone(account), turns, place: None }
    }
}

impl<T> Future for InTurns<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let Self { work, account, turns, place } = self.get_mut();
        if PIECE.get() != Piece::Between {
            return work.poll_unpin(context);
        }
        let turns = turns.get_or_insert_with(|| {
            let here = TURNS.with(|turns| turns.get().cloned());
            let here = here.expect("a thread that is between pieces has turns");
            account.enter(&here);
            here
        });
        if !turns.are_of_this_thread() {
            return work.poll_unpin(context);
        }
        if !turns.admit(account, place, context.waker()) {
            return Poll::Pending;
        }
        let _piece = turns.begin(account);
        work.poll_unpin(context)
    }
}

impl<T> Drop for InTurns<T> {
    fn drop(&mut self) {
        let Some(turns) = &self.turns else { return };
        if let Some(number) = self.place.take() {
            let left = turns.queue.lock().leave(number);
            drop(left);
        }
        self.account.leave(turns);
    }
}

fn nanos_of(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds since this was asked first.
fn nanos() -> u64 {
    static BEGAN: OnceLock<Instant> = OnceLock::new();
    nanos_of(BEGAN.get_or_init(Instant::now).elapsed())
}

#[cfg(test)]
mod tests;
