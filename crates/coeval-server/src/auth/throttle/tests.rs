// SPDX-License-Identifier: Apache-2.0
//! How fast passwords of one address are looked at.

use super::*;
use std::net::SocketAddr;

fn peer(number: u8) -> Peer {
    Peer::of(SocketAddr::from(([10, 0, 0, number], 1)))
}

fn throttle() -> Throttle {
    Throttle::new(10)
}

/// How long a proof would wait now.
fn wait(throttle: &Throttle, peer: Peer, name: &str, now: Instant) -> Duration {
    throttle.begin(peer, name, now).expect("few are under way").wait
}

#[test]
fn each_wrong_password_makes_the_next_one_of_its_address_and_name_slower_up_to_a_bound() {
    let (throttle, now) = (throttle(), Instant::now());
    let wait_now = |peer, name: &str| wait(&throttle, peer, name, now);
    assert_eq!(wait_now(peer(1), "app"), Duration::ZERO);
    let waits = [50, 100, 200, 400, 800, 1600, 2000, 2000].map(Duration::from_millis);
    for expected in waits {
        throttle.note_failure(peer(1), "app", now);
        assert_eq!(wait_now(peer(1), "app"), expected);
    }
    assert_eq!(wait_now(peer(1), "other"), Duration::ZERO, "others at the address do not pay for it");
    assert_eq!(wait_now(peer(2), "app"), Duration::ZERO, "nor does the user at another address");
    assert_eq!(wait(&throttle, peer(1), "app", now + FORGOTTEN_AFTER), Duration::ZERO);
    throttle.note_success(peer(1), "app", now);
    assert_eq!(wait_now(peer(1), "app"), Duration::ZERO);
}

#[test]
fn many_names_of_one_address_and_many_addresses_for_one_name_become_slow_and_never_wait_for_long() {
    let (throttle, now) = (throttle(), Instant::now());
    (0..=FREE_OF_PEER).for_each(|number| throttle.note_failure(peer(1), &format!("n{number}"), now));
    assert_eq!(wait(&throttle, peer(1), "somebody", now), WAIT_FIRST);
    for number in 0..100 {
        throttle.note_failure(peer(number), "app", now);
    }
    assert_eq!(wait(&throttle, peer(200), "app", now), WAIT_MAX);
    assert_eq!(wait(&throttle, peer(200), "other", now), Duration::ZERO);
}

/// Fifty wrong cancel requests from anywhere made everybody's cancel request wait for two seconds, for as long as that went on.
#[test]
fn guesses_of_secrets_cost_the_address_that_guesses_and_nobody_else() {
    let (throttle, now) = (throttle(), Instant::now());
    for number in 0..100 {
        throttle.note_failure(peer(number), GUESSED_SECRET, now);
        throttle.note_failure(peer(0), GUESSED_SECRET, now);
    }
    assert_eq!(wait(&throttle, peer(200), GUESSED_SECRET, now), Duration::ZERO);
    assert_eq!(wait(&throttle, peer(1), GUESSED_SECRET, now), WAIT_FIRST);
    assert_eq!(wait(&throttle, peer(0), GUESSED_SECRET, now), WAIT_MAX);
}

/// Many connections of an address that all guess at the same time, again and again: whatever names they take, no
/// more is looked at than is said. Time is counted, not waited for.
#[test]
fn guesses_at_the_same_time_are_no_faster_than_is_said() {
    const CONNECTIONS: u32 = 300;
    for names in [1, 1_000] {
        let (throttle, start) = (throttle(), Instant::now());
        let mut underway: Vec<(Instant, Attempt<'_>, String)> = Vec::new();
        let (mut looked_at, step) = (0, Duration::from_millis(10));
        for tick in 0..6_000 {
            let now = start + step * tick;
            let (due, waiting) = underway.into_iter().partition(|(until, ..)| *until <= now);
            underway = waiting;
            for (_, attempt, name) in due {
                throttle.note_failure(peer(1), &name, now);
                looked_at += 1;
                drop(attempt);
            }
            for number in underway.len() as u32..CONNECTIONS {
                let name = format!("n{}", (tick + number) % names);
                match throttle.begin(peer(1), &name, now) {
                    Some(attempt) if attempt.wait > Duration::ZERO => {
                        underway.push((now + attempt.wait, attempt, name));
                    }
                    Some(_) => {
                        throttle.note_failure(peer(1), &name, now);
                        looked_at += 1;
                    }
                    None => {}
                }
            }
        }
        // A minute of ten in a second; those that cost nothing, and all that waited when there were so many.
        let bound = 600 + FREE_OF_PEER + CONNECTIONS;
        assert!((60..=bound).contains(&looked_at), "{names} names: {looked_at}");
        assert!(throttle.begin(peer(2), "n0", start).is_some(), "others are looked at");
    }
}

#[test]
fn who_has_come_in_from_an_address_waits_and_is_looked_at_whatever_others_try_there() {
    let (throttle, now) = (throttle(), Instant::now());
    throttle.note_success(peer(1), "app", now);
    for number in 0..100 {
        throttle.note_failure(peer(1), &format!("n{number}"), now);
    }
    let mut underway = Vec::new();
    while let Some(attempt) = throttle.begin(peer(1), &format!("m{}", underway.len()), now) {
        underway.push(attempt);
    }
    assert_eq!(underway.len(), 20);
    assert!(throttle.begin(peer(1), "stranger", now).is_none());
    assert_eq!(wait(&throttle, peer(1), "app", now), WAIT_MAX);
    drop(underway);
    assert!(throttle.begin(peer(1), "stranger", now).is_some(), "what has ended is under way no more");
    assert!(throttle.state.lock().underway.is_empty());
}

#[test]
fn what_is_remembered_is_bounded() {
    let (throttle, now) = (throttle(), Instant::now());
    for number in 0..REMEMBERED_MAX + 10 {
        let later = now + Duration::from_millis(number as u64);
        throttle.note_failure(peer(1), &format!("n{number}"), later);
        throttle.note_success(peer(2), &format!("n{number}"), later);
    }
    assert!(throttle.state.lock().failures.len() <= REMEMBERED_MAX);
    assert!(throttle.state.lock().known.len() <= REMEMBERED_MAX);
    let last = now + Duration::from_millis(REMEMBERED_MAX as u64 + 10);
    assert_eq!(wait(&throttle, peer(1), "x", last), WAIT_MAX, "the address that goes on failing is known");
}
