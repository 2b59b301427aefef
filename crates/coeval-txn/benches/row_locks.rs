// SPDX-License-Identifier: Apache-2.0
//! Prints what row locks cost, in nanoseconds per operation.
//!
//! `cargo bench -p coeval-txn --bench row_locks`. Each figure is the best of several rounds: other work on the
//! machine only ever adds to it. Keys look like the store's: a table and up to 24 bytes kept inline.

use coeval_txn::{LockStrength, Patience, Requested, RowLocks};
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUND_COUNT: usize = 7;
const LOCK_COUNT: u64 = 200_000;

type Key = (u32, [u8; 24]);

fn key(number: u64) -> Key {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    (7, bytes)
}

fn main() {
    for per_transaction in [1, 20, 10_000] {
        let figure = best_of(|| uncontended(per_transaction));
        println!("lock and release, {per_transaction:>6} in a transaction      {figure:>8.1} ns");
    }
    let figure = best_of(handed_over);
    println!("hand over a row between two threads          {figure:>8.1} ns");
    for waiters in [100, 1_000, 10_000] {
        let [queued, ended] = queue(waiters);
        println!("wait for a row, {waiters:>6} do already          {queued:>8.1} ns");
        println!("hand it over to the next of them             {ended:>8.1} ns");
    }
}

fn best_of(measure: impl Fn() -> f64) -> f64 {
    (0..ROUND_COUNT).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn per_operation(spent: Duration, count: u64) -> f64 {
    spent.as_nanos() as f64 / count as f64
}

/// Transactions that each lock so many rows and end, one after the other.
fn uncontended(per_transaction: u64) -> f64 {
    let locks = Arc::new(RowLocks::new());
    let start = Instant::now();
    for transaction in 0..LOCK_COUNT / per_transaction {
        let mut owner = locks.owner();
        for number in 0..per_transaction {
            let key = key(transaction * per_transaction + number);
            black_box(owner.lock(&key, LockStrength::NoKeyUpdate, Patience::None))
                .expect("nobody else locks");
        }
    }
    per_operation(start.elapsed(), LOCK_COUNT)
}

/// Two threads that want the same row again and again.
fn handed_over() -> f64 {
    const TURNS: u64 = 20_000;
    let locks = Arc::new(RowLocks::new());
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..TURNS {
                    let mut owner = locks.owner();
                    let patience =
                        Patience::Wait { at_most: None, deadlock_after: Duration::ZERO, interrupt: None };
                    black_box(owner.lock(&key(1), LockStrength::Update, patience)).expect("it waits");
                }
            });
        }
    });
    per_operation(start.elapsed(), 2 * TURNS)
}

/// So many who hold a row each queue for one and look for deadlocks, then get it one after the other.
fn queue(waiters: u64) -> [f64; 2] {
    let mut best = [f64::INFINITY; 2];
    for _ in 0..ROUND_COUNT {
        let locks = Arc::new(RowLocks::new());
        let hot = key(0);
        let mut owners: Vec<_> = (0..=waiters).map(|_| locks.owner()).collect();
        for (number, owner) in (1..).zip(&mut owners) {
            let own = owner.lock(&key(number), LockStrength::NoKeyUpdate, Patience::None);
            own.expect("nobody else wants it");
        }
        let mut owners = owners.into_iter();
        let mut holder = owners.next().expect("there is one more than waits");
        holder.lock(&hot, LockStrength::NoKeyUpdate, Patience::None).expect("nobody else has it");
        let mut waiting: Vec<_> = owners.collect();
        let start = Instant::now();
        for owner in &mut waiting {
            assert_eq!(owner.request(&hot, LockStrength::NoKeyUpdate), Requested::Queued);
            owner.check_deadlock().expect("the holder does not wait");
        }
        let queued = per_operation(start.elapsed(), waiters);
        let start = Instant::now();
        for mut next in waiting {
            holder.release_after(0);
            assert!(next.poll_wait(std::task::Waker::noop()).is_ready(), "its turn has come");
            holder = next;
        }
        let ended = per_operation(start.elapsed(), waiters);
        best = [best[0].min(queued), best[1].min(ended)];
    }
    best
}
