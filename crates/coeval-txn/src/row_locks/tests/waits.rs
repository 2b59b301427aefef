// SPDX-License-Identifier: Apache-2.0
//! Single waits: how they begin and how they end.

use crate::row_locks::{
    Acquired, DeadlockSearches, Interrupt, LockError, LockOwner, LockState, LockStrength, Patience,
    Requested, RowLocks, Withdrawn,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use LockStrength::{KeyShare, NoKeyUpdate, Share, Update};

type Owner = LockOwner<&'static str>;

fn owners<const COUNT: usize>() -> [Owner; COUNT] {
    let locks = Arc::new(RowLocks::new());
    std::array::from_fn(|_| locks.owner())
}

fn now(owner: &mut Owner, key: &'static str, strength: LockStrength) -> bool {
    match owner.lock(&key, strength, Patience::None) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error, LockError::NotAvailable);
            false
        }
    }
}

fn patience(at_most: Option<Duration>) -> Patience<'static> {
    Patience::Wait { at_most, deadlock_after: Duration::ZERO, interrupt: None }
}

struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

fn waker() -> (Arc<Counting>, Waker) {
    let counting = Arc::new(Counting(AtomicUsize::new(0)));
    (Arc::clone(&counting), Waker::from(counting))
}

#[test]
fn a_stronger_lock_covers_the_weaker_ones_of_its_owner() {
    let [mut one] = owners();
    assert_eq!(one.lock(&"a", NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
    for strength in [KeyShare, Share, NoKeyUpdate] {
        assert_eq!(one.lock(&"a", strength, Patience::None), Ok(Acquired::Already));
    }
    assert_eq!(one.granted_count(), 1);
    assert_eq!(one.lock(&"a", Update, Patience::None), Ok(Acquired::AtOnce));
    assert_eq!(one.granted_count(), 2);
}

#[test]
fn going_back_gives_a_lock_its_earlier_strength_and_lets_others_go_on() {
    let [mut one, mut other] = owners();
    assert!(now(&mut one, "a", KeyShare));
    let savepoint = one.granted_count();
    assert!(now(&mut one, "a", Update) && now(&mut one, "b", Update));
    assert_eq!(other.request(&"a", NoKeyUpdate), Requested::Queued);
    one.release_after(savepoint);
    assert_eq!(other.poll_wait(&waker().1), Poll::Ready(()));
    assert!(now(&mut other, "b", Update));
    assert!(!now(&mut other, "a", Update), "the first owner still has KEY SHARE");
}

#[test]
fn a_request_does_not_overtake_one_that_it_conflicts_with() {
    let [mut reader, mut writer, mut second] = owners();
    assert!(now(&mut reader, "a", Share));
    assert_eq!(writer.request(&"a", NoKeyUpdate), Requested::Queued);
    assert!(!now(&mut second, "a", Share), "SHARE would make the writer starve");
    assert!(now(&mut second, "a", KeyShare), "KEY SHARE is in nobody's way");
}

#[test]
fn whoever_wants_more_of_a_key_it_holds_goes_before_those_who_wait() {
    let [mut one, mut other, mut third] = owners();
    assert!(now(&mut one, "a", KeyShare) && now(&mut other, "a", NoKeyUpdate));
    assert_eq!(third.request(&"a", Update), Requested::Queued);
    assert_eq!(one.request(&"a", NoKeyUpdate), Requested::Queued);
    other.release_after(0);
    assert_eq!(one.poll_wait(&waker().1), Poll::Ready(()));
    assert_eq!(third.poll_wait(&waker().1), Poll::Pending);
    one.release_after(0);
    assert_eq!(third.poll_wait(&waker().1), Poll::Ready(()));
}

#[test]
fn a_wait_ends_after_its_time_and_leaves_the_queue() {
    let [mut one, mut other, mut third] = owners();
    assert!(now(&mut one, "a", Share));
    let waited = other.lock(&"a", Update, patience(Some(Duration::from_millis(1))));
    assert_eq!(waited, Err(LockError::Timeout));
    assert!(!other.is_waiting() && now(&mut third, "a", Share));
    assert_eq!(one.locks_listed(), [(LockState::Granted, Share), (LockState::Granted, Share)]);
}

impl Owner {
    fn locks_listed(&self) -> Vec<(LockState, LockStrength)> {
        self.locks.list().into_iter().map(|lock| (lock.state, lock.strength)).collect()
    }
}

#[test]
fn a_wait_that_is_taken_back_lets_those_behind_it_go_on() {
    let [mut one, mut other, mut third] = owners();
    assert!(now(&mut one, "a", Share));
    assert_eq!(other.request(&"a", Update), Requested::Queued);
    assert_eq!(third.request(&"a", Share), Requested::Queued);
    let (count, waker) = waker();
    assert_eq!(third.poll_wait(&waker), Poll::Pending);
    assert_eq!(other.withdraw(), Withdrawn::TakenBack);
    assert_eq!(count.0.load(Ordering::SeqCst), 1);
    assert_eq!(third.poll_wait(&waker), Poll::Ready(()));
}

#[test]
fn a_future_is_ready_when_the_lock_is_granted_and_dropping_it_takes_the_request_back() {
    let [mut one, mut other, mut third] = owners();
    assert!(now(&mut one, "a", Update));
    let (count, waker) = waker();
    let mut context = Context::from_waker(&waker);
    assert_eq!(other.request(&"a", Update), Requested::Queued);
    {
        let mut wait = std::pin::pin!(other.wait());
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Pending);
        one.release_after(0);
        assert_eq!(count.0.load(Ordering::SeqCst), 1);
        assert_eq!(wait.as_mut().poll(&mut context), Poll::Ready(()));
    }
    assert_eq!(other.granted_count(), 1);
    assert_eq!(third.request(&"a", Update), Requested::Queued);
    drop(third.wait());
    assert!(!third.is_waiting());
    assert_eq!(other.locks_listed(), [(LockState::Granted, Update)]);
}

/// Interrupts after it was asked for the second time.
#[derive(Default)]
struct Flag {
    is_set: AtomicBool,
    waker: parking_lot::Mutex<Option<Waker>>,
}

impl Interrupt for Flag {
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    fn notify(&self, waker: Waker) {
        *self.waker.lock() = Some(waker);
    }
}

#[test]
fn a_wait_can_be_interrupted_from_another_thread() {
    let [mut one, mut other] = owners();
    assert!(now(&mut one, "a", Update));
    let flag = Flag::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let waker = loop {
                if let Some(waker) = flag.waker.lock().take() {
                    break waker;
                }
                std::thread::yield_now();
            };
            flag.is_set.store(true, Ordering::SeqCst);
            waker.wake();
        });
        let patience =
            Patience::Wait { at_most: None, deadlock_after: Duration::ZERO, interrupt: Some(&flag) };
        assert_eq!(other.lock(&"a", KeyShare, patience), Err(LockError::Interrupted));
    });
    one.release_after(0);
    assert!(now(&mut other, "a", KeyShare));
}

#[test]
fn the_victim_of_a_deadlock_is_who_closed_it_and_hears_who_waits_for_whom() {
    let [mut one, mut other] = owners();
    assert!(now(&mut one, "a", NoKeyUpdate) && now(&mut other, "b", Update));
    assert_eq!(one.request(&"b", KeyShare), Requested::Queued);
    assert_eq!(one.check_deadlock(), Ok(()));
    let refused = other.lock(&"a", Share, patience(None));
    let Err(LockError::Deadlock(deadlock)) = refused else { panic!("{refused:?}") };
    let (first, second) = (one.id(), other.id());
    assert_eq!(
        deadlock.describe(|key| format!("row {key}")),
        format!(
            "Transaction {second} waits for SHARE of row a; blocked by transaction {first}.\n\
             Transaction {first} waits for KEY SHARE of row b; blocked by transaction {second}."
        )
    );
    drop(other);
    assert_eq!(one.poll_wait(&waker().1), Poll::Ready(()));
}

#[test]
fn two_who_share_a_row_and_both_want_to_change_it_are_a_deadlock() {
    let [mut one, mut other] = owners();
    assert!(now(&mut one, "a", Share) && now(&mut other, "a", Share));
    assert_eq!(one.request(&"a", NoKeyUpdate), Requested::Queued);
    assert_eq!(one.check_deadlock(), Ok(()));
    assert_eq!(other.request(&"a", NoKeyUpdate), Requested::Queued);
    assert!(matches!(other.check_deadlock(), Err(LockError::Deadlock(_))));
}

#[test]
fn a_circle_that_only_the_order_of_a_queue_closes_is_opened_without_a_victim() {
    let [mut one, mut writer, mut third] = owners();
    assert!(now(&mut one, "a", KeyShare) && now(&mut third, "b", Update));
    assert_eq!(writer.request(&"a", Update), Requested::Queued);
    assert_eq!(third.request(&"a", KeyShare), Requested::Queued);
    assert_eq!(third.check_deadlock(), Ok(()));
    assert_eq!(third.poll_wait(&waker().1), Poll::Pending);
    assert_eq!(one.request(&"b", Update), Requested::Queued);
    assert_eq!(one.check_deadlock(), Ok(()));
    assert_eq!(third.poll_wait(&waker().1), Poll::Ready(()), "it passes the writer");
    drop(third);
    assert_eq!(one.poll_wait(&waker().1), Poll::Ready(()));
    assert_eq!(writer.poll_wait(&waker().1), Poll::Pending);
    drop(one);
    assert_eq!(writer.poll_wait(&waker().1), Poll::Ready(()));
}

#[test]
fn an_owner_that_ends_leaves_nothing_behind() {
    let locks = Arc::new(RowLocks::new());
    let (mut one, mut other) = (locks.owner(), locks.owner());
    for key in 0..3_000_u32 {
        one.lock(&key, Update, Patience::None).unwrap();
    }
    assert_eq!(other.request(&7, Share), Requested::Queued);
    assert!(locks.is_in_use());
    assert_eq!((locks.list().len(), locks.waiting_count()), (3_001, 1));
    drop(other);
    assert_eq!((locks.list().len(), locks.waiting_count()), (3_000, 0));
    drop(one);
    assert_eq!(locks.list().len(), 0);
    assert!(!locks.is_in_use());
}

#[test]
fn a_wait_is_looked_at_once_however_long_it_lasts_and_how_many_wait() {
    const WAITERS: u64 = 40;
    let locks = Arc::new(RowLocks::new());
    let mut holder = locks.owner();
    assert_eq!(holder.lock(&0, NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
    std::thread::scope(|scope| {
        for waiter in 1..=WAITERS {
            let locks = Arc::clone(&locks);
            scope.spawn(move || {
                let mut owner = locks.owner();
                // Who holds nothing has no need to look.
                assert_eq!(owner.lock(&waiter, NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
                let waited = owner.lock(&0, NoKeyUpdate, patience(Some(Duration::from_millis(2_500))));
                assert!(matches!(waited, Err(LockError::Timeout)), "{waited:?}");
            });
        }
    });
    assert_eq!(locks.deadlock_searches(), DeadlockSearches { looks: WAITERS, walks: 0 });
}

#[test]
fn who_gives_up_without_a_look_leaves_no_order_of_queues_in_which_others_wait_for_each_other() {
    let [mut one, mut other, mut first, mut second, mut third] = owners();
    // Two who wait for each other, neither of whom has looked yet.
    assert!(now(&mut one, "x", Update) && now(&mut other, "y", Update));
    assert_eq!(one.request(&"y", Update), Requested::Queued);
    assert_eq!(other.request(&"x", Update), Requested::Queued);
    // And three of whom only the order of a queue makes a circle.
    assert!(now(&mut first, "a", KeyShare) && now(&mut third, "b", Update));
    assert_eq!(second.request(&"a", Update), Requested::Queued);
    assert_eq!(third.request(&"a", KeyShare), Requested::Queued);
    assert_eq!(first.request(&"b", Update), Requested::Queued);
    assert_eq!(first.check_deadlock(), Ok(()), "nobody has to give up");
    assert_eq!(third.poll_wait(Waker::noop()), Poll::Pending, "the other circle comes first");
    assert_eq!(one.withdraw(), Withdrawn::TakenBack);
    assert_eq!(third.poll_wait(Waker::noop()), Poll::Ready(()));
    drop(third);
    assert_eq!(first.poll_wait(Waker::noop()), Poll::Ready(()));
}

#[test]
fn a_deadlock_behind_a_long_queue_is_found_by_the_look_of_who_closed_it() {
    let locks = Arc::new(RowLocks::new());
    let [mut holder, mut closing] = [locks.owner(), locks.owner()];
    assert_eq!(holder.lock(&0, NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
    assert_eq!(closing.lock(&1, NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
    let mut waiters: Vec<_> = (2..1_002).map(|key| (key, locks.owner())).collect();
    for (key, waiter) in &mut waiters {
        assert_eq!(waiter.lock(key, NoKeyUpdate, Patience::None), Ok(Acquired::AtOnce));
        assert_eq!(waiter.request(&0, NoKeyUpdate), Requested::Queued);
        assert_eq!(waiter.check_deadlock(), Ok(()));
    }
    assert_eq!(locks.deadlock_searches().walks, 0);
    assert_eq!(closing.request(&0, NoKeyUpdate), Requested::Queued);
    assert_eq!(closing.check_deadlock(), Ok(()));
    assert_eq!(holder.request(&1, NoKeyUpdate), Requested::Queued);
    assert!(matches!(holder.check_deadlock(), Err(LockError::Deadlock(found)) if found.waits.len() == 2));
    assert_eq!(locks.deadlock_searches().walks, 1);
}
