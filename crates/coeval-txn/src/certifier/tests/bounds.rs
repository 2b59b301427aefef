// SPDX-License-Identifier: Apache-2.0
//! What a certifier forgets when it may remember little: exact answers, never a conflict.

use super::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

type Key = (u32, u64);

fn group(key: &Key) -> u32 {
    key.0
}

/// Of some keys more than they may have on average.
fn heap_bytes(key: &Key) -> usize {
    if key.1 % 10 == 9 { 150 } else { 10 }
}

/// Random histories, each transaction certified by an exact certifier and by one that remembers few keys. What both
/// accept commits.
#[test]
fn who_remembers_few_keys_refuses_whomever_an_exact_one_refuses_and_only_old_transactions_beside_them() {
    let (mut coarse_refusals, mut exact_refusals) = (0, 0);
    for seed in 0..2_000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let keys_max = dice.random_range(1..12);
        let (mut exact, mut bounded) = (Certifier::new(), Certifier::bounded(keys_max, group, heap_bytes));
        let mut published = 0;
        // Snapshots that are held; the first is an idle transaction's.
        let mut held = vec![0];
        for number in 1..80 {
            let begin = Version::new(held[dice.random_range(0..held.len())]);
            let accesses: Vec<(Key, Access)> = (0..dice.random_range(1..4))
                .map(|_| {
                    let key = (dice.random_range(0..3), dice.random_range(0..10));
                    (key, Access::ALL[dice.random_range(0..3)])
                })
                .collect();
            let expected = exact.certify(begin, accesses.iter().copied());
            let outcome = bounded.certify(begin, accesses.iter().copied());
            match (&expected, &outcome) {
                (Err(_), Ok(())) => panic!("seed {seed}: {accesses:?} of {begin} missed {expected:?}"),
                (Ok(()), Err(conflict)) => {
                    assert_eq!(conflict.precision, Precision::Group, "seed {seed}");
                    assert!(begin < bounded.coarse.through, "seed {seed}: refused without need");
                    coarse_refusals += 1;
                }
                (Err(_), Err(_)) => exact_refusals += 1,
                (Ok(()), Ok(())) => {
                    published += 1;
                    let (order, transaction) = (at(published, 0), TransactionId::new(number));
                    exact.admit(order, transaction, accesses.iter().copied());
                    if dice.random() {
                        let large = LargeFootprint::new(accesses.iter().copied(), group, heap_bytes);
                        bounded.admit_large(order, transaction, Arc::new(large));
                    } else {
                        bounded.admit(order, transaction, accesses.iter().copied());
                    }
                }
            }
            assert!(bounded.len() <= keys_max && bounded.heap_bytes() <= 64 * keys_max, "seed {seed}");
            held.push(published);
            if held.len() > 6 {
                held.remove(dice.random_range(1..held.len()));
            }
            if dice.random_ratio(1, 20) {
                // The idle one ends, and another one idles.
                held.remove(0);
                held.sort_unstable();
            }
            let oldest = Version::new(held.iter().copied().min().expect("somebody is active"));
            exact.prune(oldest);
            bounded.prune(oldest);
            let complete: Option<Vec<Key>> = bounded.keys_since(oldest).map(|keys| keys.copied().collect());
            if let Some(mut keys) = complete {
                let mut all: Vec<Key> = exact.keys_since(oldest).expect("it is exact").copied().collect();
                keys.sort_unstable();
                all.sort_unstable();
                assert_eq!(keys, all, "seed {seed}");
            }
        }
    }
    assert!(coarse_refusals > 100 && exact_refusals > 100, "{coarse_refusals}, {exact_refusals}");
}

#[test]
fn beside_an_idle_transaction_a_certifier_stays_as_large_as_it_may_be() {
    let mut certifier = Certifier::bounded(1_000, group, heap_bytes);
    for version in 1..=20_000 {
        // As many tables as there are commits.
        let table = u32::try_from(version).expect("it is small");
        let accesses = (0..10).map(|key| ((table, key), Access::Update));
        certifier.admit(at(version, 0), TransactionId::new(version), accesses);
        certifier.prune(Version::ZERO);
    }
    assert_eq!(certifier.len(), 1_000);
    assert!(certifier.coarse.groups.len() <= GROUPS_MAX);
    let begin = Version::new(20_000 - 50);
    assert!(
        certifier.certify(begin, [((1, 1), Access::Update)]).is_ok(),
        "it is not as old as what was given up"
    );
    assert!(certifier.certify(begin, [((20_000, 1), Access::Update)]).is_err());
    let conflict = certifier.certify(Version::ZERO, [((90_000, 1), Access::Update)]).unwrap_err();
    assert_eq!(conflict.precision, Precision::Group);
    certifier.prune(Version::new(20_000));
    assert!(certifier.coarse.everything.is_none(), "and is exact again when nobody is old any more");
}

/// Four million keys were the bound, of whatever length: 34 GB of the longest.
#[test]
fn long_keys_are_given_up_by_their_bytes() {
    const LENGTH: usize = 8_000;
    let key = |number: u64| format!("{number:0>LENGTH$}");
    let mut certifier = Certifier::bounded(1_000, |_: &String| 7, String::len);
    for version in 1..=200 {
        certifier.admit(at(version, 0), TransactionId::new(version), [(key(version), Access::Update)]);
        certifier.admit(
            at(version, 1),
            TransactionId::new(version),
            [("short".to_owned(), Access::Reference)],
        );
        certifier.prune(Version::ZERO);
        assert!(certifier.heap_bytes() <= 64_000, "{}", certifier.heap_bytes());
    }
    assert_eq!(certifier.len(), 8, "seven long keys, and the one that is accessed all the time");
    assert!(certifier.certify(Version::new(193), [(key(9), Access::Update)]).is_ok());
    let conflict = certifier.certify(Version::new(150), [(key(9), Access::Update)]).unwrap_err();
    assert_eq!(conflict.precision, Precision::Group);
    let conflict = certifier.certify(Version::new(150), [(key(200), Access::Update)]).unwrap_err();
    assert_eq!(conflict.precision, Precision::Key);
    certifier.prune(Version::new(200));
    assert_eq!((certifier.len(), certifier.heap_bytes()), (0, 0));

    // One that is longer than all together may be is known by its group at once.
    let mut certifier = Certifier::bounded(1, |_: &String| 7, String::len);
    certifier.admit(at(1, 0), TransactionId::new(1), [(key(1), Access::Update)]);
    assert!(certifier.is_empty());
    assert!(certifier.certify(Version::ZERO, [(key(1), Access::Update)]).is_err());
}

/// Random histories, each transaction certified by a certifier that has all keys one by one and by one that has some as lists.
#[test]
fn a_list_of_keys_certifies_as_its_keys_one_by_one_do() {
    let (mut refusals, mut lists_max) = (0, 0);
    for seed in 0..500 {
        let mut dice = StdRng::seed_from_u64(seed);
        let (mut by_key, mut by_list) = (Certifier::new(), Certifier::new());
        let (mut published, mut oldest) = (0, 0);
        for number in 1..100 {
            let begin = Version::new(dice.random_range(oldest..=published));
            let accesses: Vec<(Key, Access)> = (0..dice.random_range(1..6))
                .map(|_| ((0, dice.random_range(0..60)), Access::ALL[dice.random_range(0..3)]))
                .collect();
            let expected = by_key.certify(begin, accesses.iter().copied());
            let outcome = by_list.certify(begin, accesses.iter().copied());
            assert_eq!(expected.is_err(), outcome.is_err(), "seed {seed}: {expected:?}, {outcome:?}");
            if let Err(conflict) = outcome {
                assert_eq!(conflict.precision, Precision::Key, "seed {seed}");
                refusals += 1;
                continue;
            }
            published += 1;
            let (order, transaction) = (at(published, 0), TransactionId::new(number));
            by_key.admit(order, transaction, accesses.iter().copied());
            let large = LargeFootprint::new(accesses.iter().copied(), group, heap_bytes);
            if dice.random_ratio(3, 4) {
                by_list.admit_large(order, transaction, Arc::new(large));
            } else {
                by_list.admit(order, transaction, accesses.iter().copied());
            }
            lists_max = lists_max.max(by_list.large.count());
            oldest = dice.random_range(oldest..=published.min(oldest + 2));
            by_key.prune(Version::new(oldest));
            by_list.prune(Version::new(oldest));
            let since = Version::new(dice.random_range(oldest..=published));
            let sorted = |certifier: &Certifier<Key>| {
                let mut keys: Vec<Key> = certifier.keys_since(since).expect("it is exact").copied().collect();
                keys.sort_unstable();
                keys
            };
            assert_eq!(sorted(&by_list), sorted(&by_key), "seed {seed}");
        }
        by_list.prune(Version::new(published));
        assert!(by_list.is_empty() && by_list.heap_bytes() == 0, "seed {seed}");
        assert!(!by_list.take_forgotten().is_empty() && by_list.take_forgotten().is_empty(), "seed {seed}");
    }
    assert!(refusals > 1_000, "{refusals}");
    assert_eq!(lists_max, LISTS_MAX, "beyond that keys are recorded one by one");
}
