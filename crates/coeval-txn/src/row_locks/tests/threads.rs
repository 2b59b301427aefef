// SPDX-License-Identifier: Apache-2.0
//! Threads that lock, wait and give up as they happen to meet.

use crate::row_locks::{LockError, LockStrength, Patience, RowLocks};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

const PATIENT: Patience<'static> =
    Patience::Wait { at_most: None, deadlock_after: Duration::ZERO, interrupt: None };

#[test]
fn a_counter_under_a_lock_loses_nothing_and_nobody_is_forgotten() {
    const THREADS: u64 = 8;
    const ROUNDS: u64 = 5_000;
    let locks = Arc::new(RowLocks::new());
    let counter = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ROUNDS {
                    let mut owner = locks.owner();
                    owner.lock(&1, LockStrength::NoKeyUpdate, PATIENT).unwrap();
                    let seen = counter.load(Ordering::Relaxed);
                    counter.store(seen + 1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(counter.load(Ordering::Relaxed), THREADS * ROUNDS);
    assert_eq!((locks.list().len(), locks.waiting_count()), (0, 0));
}

/// How many hold a key in each strength at this moment, as the threads themselves say.
#[derive(Default)]
struct Holders([AtomicUsize; 4]);

impl Holders {
    fn enter(&self, strength: LockStrength) {
        self.0[strength as usize].fetch_add(1, Ordering::SeqCst);
        for other in LockStrength::ALL.into_iter().filter(|other| strength.conflicts_with(*other)) {
            let allowed = usize::from(other == strength);
            let met = self.0[other as usize].load(Ordering::SeqCst);
            assert!(met <= allowed, "{strength:?} meets {other:?}");
        }
    }

    fn leave(&self, strength: LockStrength) {
        self.0[strength as usize].fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn threads_never_hold_what_conflicts_and_all_of_them_end() {
    const KEYS: usize = 4;
    let locks = Arc::new(RowLocks::new());
    let holders: [Holders; KEYS] = Default::default();
    let deadlocks = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (locks, holders, deadlocks) = (&locks, &holders, &deadlocks);
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(thread);
                // Until some have met in a deadlock, however seldom they run at the same time.
                let has_more = |round: &u32| *round < 2_000 || deadlocks.load(Ordering::Relaxed) == 0;
                for _ in (0..200_000).take_while(has_more) {
                    let mut owner = locks.owner();
                    let mut held: [Option<LockStrength>; KEYS] = [None; KEYS];
                    for _ in 0..3 {
                        let key = random.random_range(0..KEYS);
                        let strength = LockStrength::ALL[random.random_range(0..4)];
                        let at_most = random.random_bool(0.1).then_some(Duration::from_micros(50));
                        let patience = match PATIENT {
                            Patience::Wait { deadlock_after, interrupt, .. } => {
                                Patience::Wait { at_most, deadlock_after, interrupt }
                            }
                            Patience::None => unreachable!(),
                        };
                        match owner.lock(&key, strength, patience) {
                            Ok(_) if held[key] < Some(strength) => {
                                if let Some(before) = held[key].replace(strength) {
                                    holders[key].leave(before);
                                }
                                holders[key].enter(strength);
                                // On few processors they would hardly meet otherwise.
                                std::thread::yield_now();
                            }
                            Ok(_) => std::thread::yield_now(),
                            Err(LockError::Deadlock(_)) => {
                                deadlocks.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                            Err(error) => assert_eq!(error, LockError::Timeout),
                        }
                    }
                    for (key, strength) in held.into_iter().enumerate() {
                        if let Some(strength) = strength {
                            holders[key].leave(strength);
                        }
                    }
                }
            });
        }
    });
    assert!(deadlocks.load(Ordering::Relaxed) > 0, "the threads are to meet in deadlocks");
    assert_eq!((locks.list().len(), locks.waiting_count()), (0, 0));
}
