// SPDX-License-Identifier: Apache-2.0

mod model;

use super::*;
use std::future::{pending, poll_fn};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

thread_local! {
    static TICKS: Cell<u64> = const { Cell::new(0) };
}

/// A clock that goes on by one whenever a thread looks at it: a piece that does not look takes one.
fn ticks() -> u64 {
    TICKS.set(TICKS.get() + 1);
    TICKS.get()
}

/// A runtime whose threads work by these turns.
fn runtime(turns: &Arc<Turns>, threads: usize) -> Runtime {
    let (beginning, sleeping) = (Arc::clone(turns), Arc::clone(turns));
    Builder::new_multi_thread()
        .worker_threads(threads)
        .on_thread_start(move || beginning.serve_on_this_thread())
        .on_thread_park(move || sleeping.begin_round())
        .build()
        .unwrap()
}

/// A part of ten, pieces of five.
fn ticking() -> Arc<Turns> {
    Arc::new(Turns::with_clock(10, 5, ticks))
}

/// On a thread of its own, which works by these turns.
fn on_a_thread_of(turns: &Arc<Turns>, test: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let testing = scope.spawn(|| {
            turns.serve_on_this_thread();
            test();
        });
        testing.join().unwrap();
    });
}

fn poll<T>(task: &mut InTurns<T>) -> Poll<T> {
    Pin::new(task).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_statement_of_one_task_gets_as_much_as_one_of_eight() {
    const PIECES: usize = 100;
    let turns = ticking();
    let runtime = runtime(&turns, 1);
    let log = Arc::new(Mutex::new(Vec::new()));
    let (many, one) = (Arc::new(Account::default()), Arc::new(Account::default()));
    let statements: Vec<_> = std::iter::repeat_n(many, 8).chain([Arc::clone(&one)]).collect();
    let logged = Arc::clone(&log);
    // On the runtime's only thread: nobody works before all are there.
    let all = runtime.spawn(async move {
        let tasks: Vec<_> = statements
            .into_iter()
            .map(|account| {
                let (log, own) = (Arc::clone(&logged), Arc::clone(&account));
                tokio::spawn(in_turns(&account, async move {
                    for _ in 0..PIECES {
                        log.lock().push(Arc::as_ptr(&own) as usize);
                        tokio::task::yield_now().await;
                    }
                }))
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
    });
    runtime.block_on(all).unwrap();
    let log = log.lock();
    assert_eq!(log.len(), 9 * PIECES);
    let end = log.iter().rposition(|statement| *statement == Arc::as_ptr(&one) as usize).unwrap();
    let of_many = end + 1 - PIECES;
    assert!(of_many < 2 * PIECES, "{of_many} pieces of one statement while the other had {PIECES}");
    assert_eq!(turns.figures().statements, 0);
    assert!(turns.figures().waits > 0);
}

#[test]
fn a_statement_alone_never_waits() {
    let turns = ticking();
    let runtime = runtime(&turns, 2);
    let account = Arc::new(Account::default());
    let work = || async {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
            assert!(!is_piece_over());
        }
    };
    let tasks: Vec<_> = (0..4).map(|_| runtime.spawn(in_turns(&account, work()))).collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    assert_eq!(turns.figures(), QueryTurns::default());
}

#[test]
fn nobody_waits_for_a_statement_that_waits_for_something_else() {
    let turns = ticking();
    let runtime = runtime(&turns, 2);
    let (go_on, wait) = oneshot::channel::<()>();
    let (has_begun, begun) = oneshot::channel::<()>();
    let silent = runtime.spawn(in_turns(&Arc::new(Account::default()), async move {
        has_begun.send(()).unwrap();
        wait.await.unwrap();
    }));
    runtime.block_on(begun).unwrap();
    let busy = Arc::new(Account::default());
    let work = || async {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    };
    let tasks: Vec<_> = (0..4).map(|_| runtime.spawn(in_turns(&busy, work()))).collect();
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    assert_eq!(turns.figures().statements, 1);
    go_on.send(()).unwrap();
    runtime.block_on(silent).unwrap();
    assert_eq!(turns.figures().statements, 0);
}

#[test]
fn many_statements_on_some_threads_all_come_to_their_end() {
    let turns = Arc::new(Turns::with_clock(1_000, 500, nanos));
    let runtime = runtime(&turns, 3);
    let accounts = [0; 6].map(|_| Arc::new(Account::default()));
    let mut tasks = Vec::new();
    for (place, account) in accounts.iter().enumerate() {
        account.set_weight([100, 50, 1][place % 3]);
        for _ in 0..4 {
            tasks.push(runtime.spawn(in_turns(account, async {
                for _ in 0..500 {
                    while !is_piece_over() && rand::random_range(0..4) > 0 {}
                    tokio::task::yield_now().await;
                }
            })));
        }
    }
    tasks.into_iter().for_each(|task| runtime.block_on(task).unwrap());
    assert_eq!(turns.figures().statements, 0);
    assert!(turns.queue.lock().waiting.is_empty());
}

#[test]
fn a_task_that_waits_is_in_the_queue_once_and_leaves_it_when_it_is_dropped() {
    let turns = ticking();
    on_a_thread_of(&turns, || {
        let (pieces, other) = (Arc::new(Pieces::default()), Arc::new(Account::default()));
        let account = Arc::new(Account::shown_in(Arc::clone(&pieces)));
        let mut task = in_turns(&account, pending::<()>());
        let mut beside = in_turns(&other, pending::<()>());
        assert!(poll(&mut task).is_pending() && poll(&mut beside).is_pending());
        assert!(!pieces.wait_for_others());
        account.add(1_000);
        for _ in 0..3 {
            assert!(poll(&mut task).is_pending());
            assert_eq!(turns.queue.lock().waiting.len(), 1);
        }
        assert_eq!(turns.figures(), QueryTurns { statements: 2, waits: 1 });
        assert!(pieces.wait_for_others());
        drop(task);
        assert!(turns.queue.lock().waiting.is_empty());
        assert!(!pieces.wait_for_others());
        assert_eq!(turns.figures().statements, 1);
    });
}

#[test]
fn who_comes_back_has_saved_no_time_up() {
    let turns = ticking();
    let (busy, back) = (Arc::new(Account::default()), Arc::new(Account::default()));
    busy.enter(&turns);
    back.enter(&turns);
    busy.add(1_000);
    let mut place = None;
    assert!(!turns.admit(&busy, &mut place, Waker::noop()));
    turns.begin_round();
    assert!(turns.has_part(&busy));
    assert!(turns.has_part(&back));
    assert_eq!(back.time_from(0), 1_000);
}

#[test]
fn a_weight_of_a_tenth_makes_time_count_tenfold() {
    let account = Account::default();
    account.add(5);
    account.set_weight(FULL_WEIGHT / 10);
    account.add(5);
    assert_eq!(account.time_from(0), 55);
}

#[test]
fn a_statement_counts_as_soon_as_it_has_a_task() {
    let turns = ticking();
    let (account, other) = (Arc::new(Account::default()), Arc::new(Account::default()));
    let first = turns.task(&account, pending::<()>());
    assert_eq!(turns.figures().statements, 1);
    let others = [turns.task(&other, pending::<()>()), turns.task(&other, pending::<()>())];
    assert_eq!(turns.figures().statements, 2);
    drop(first);
    assert_eq!(turns.figures().statements, 1);
    drop(others);
    assert_eq!(turns.figures().statements, 0);
}

#[test]
fn a_long_piece_is_told_once_to_end() {
    let turns = ticking();
    on_a_thread_of(&turns, || {
        let told = || poll_fn(|_| Poll::Ready((0..20).filter(|_| is_piece_over()).count()));
        let account = Arc::new(Account::default());
        for _ in 0..2 {
            assert_eq!(poll(&mut in_turns(&account, told())), Poll::Ready(1));
        }
        assert!(!is_piece_over(), "nothing runs here");
    });
}

#[test]
fn what_a_piece_waits_for_beside_does_not_count() {
    let turns = ticking();
    on_a_thread_of(&turns, || {
        let (account, other) = (Arc::new(Account::default()), Arc::new(Account::default()));
        let mut beside = in_turns(&other, pending::<()>());
        let mut kept = in_turns(&account, pending::<()>());
        assert!(poll(&mut beside).is_pending() && poll(&mut kept).is_pending());
        let wait = || {
            for _ in 0..100 {
                ticks();
            }
        };
        assert!(poll(&mut in_turns(&account, async move { uncounted(wait) })).is_ready());
        assert!(account.time_from(0) < 10);
        assert!(poll(&mut in_turns(&account, async move { wait() })).is_ready());
        assert!(account.time_from(0) > 100);
        uncounted(|| assert!(PIECE.get() == Piece::Between, "nothing runs here"));
    });
}

#[test]
fn within_a_piece_nobody_waits() {
    let turns = ticking();
    on_a_thread_of(&turns, || {
        let (account, other) = (Arc::new(Account::default()), Arc::new(Account::default()));
        let mut beside = in_turns(&other, pending::<()>());
        let mut late = in_turns(&account, pending::<()>());
        assert!(poll(&mut beside).is_pending() && poll(&mut late).is_pending());
        account.add(1_000);
        assert!(poll(&mut in_turns(&account, async {})).is_pending());
        let mut inner = in_turns(&account, async { 7 });
        let mut outer = in_turns(&other, poll_fn(move |context| inner.poll_unpin(context)));
        assert_eq!(poll(&mut outer), Poll::Ready(7));
    });
}

#[test]
fn who_is_left_alone_waits_for_nobody() {
    let turns = ticking();
    on_a_thread_of(&turns, || {
        let (account, other) = (Arc::new(Account::default()), Arc::new(Account::default()));
        let mut late = in_turns(&account, pending::<()>());
        let beside = in_turns(&other, pending::<()>());
        account.add(1_000);
        assert!(poll(&mut late).is_pending());
        assert_eq!(turns.queue.lock().waiting.len(), 1);
        drop(beside);
        assert!(turns.queue.lock().waiting.is_empty(), "it was woken");
    });
}

#[test]
fn on_threads_of_another_engine_nobody_waits() {
    let (turns, others) = (ticking(), ticking());
    let (account, other) = (Arc::new(Account::default()), Arc::new(Account::default()));
    let _beside = turns.task(&other, pending::<()>());
    let mut task = turns.task(&account, async { 7 });
    account.add(1_000);
    assert!(!turns.has_part(&account));
    on_a_thread_of(&others, || assert_eq!(poll(&mut task), Poll::Ready(7)));
    assert_eq!(turns.figures(), QueryTurns { statements: 2, waits: 0 });
}
