// SPDX-License-Identifier: Apache-2.0
//! Wrong passwords take time: the more of them there were, the longer the next proof waits until it is looked at.
//!
//! Failures are counted by address and name together, by address, and by name, so that neither one password after the
//! other, nor one password for many names, nor many addresses for one name goes fast. Nobody is shut out: a wait is
//! never longer than [`WAIT_MAX`], waits do not queue up behind each other, and the right password opens a session
//! whatever others have tried before.

use crate::doorway::Peer;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The wait behind the first failure that counts; each further one doubles it.
const WAIT_FIRST: Duration = Duration::from_millis(50);

/// The longest wait. Connections have to be opened in [seconds](crate::ServerOptions::opening_timeout).
const WAIT_MAX: Duration = Duration::from_secs(2);

/// After which time without another failure those before are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

/// Failures of one address that cost nothing: many people can be behind it.
const FREE_OF_PEER: u32 = 20;

/// Failures for one name that cost nothing, wherever they come from.
const FREE_OF_NAME: u32 = 50;

/// Whose failures are remembered at most; those that have failed longest ago are forgotten for others.
const REMEMBERED_MAX: usize = 10_000;

/// What failures are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Origin {
    PeerAndName(Peer, Box<str>),
    Peer(Peer),
    Name(Box<str>),
}

impl Origin {
    fn all(peer: Peer, name: &str) -> [Self; 3] {
        [Self::PeerAndName(peer, name.into()), Self::Peer(peer), Self::Name(name.into())]
    }

    fn free(&self) -> u32 {
        match self {
            Self::PeerAndName(..) => 0,
            Self::Peer(_) => FREE_OF_PEER,
            Self::Name(_) => FREE_OF_NAME,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last: Instant,
}

/// See the module.
///
/// # Locking
/// `failures` is a leaf, held for a step in the map.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    failures: Mutex<HashMap<Origin, Failures>>,
}

impl Throttle {
    /// How long a proof waits that somebody at this address has sent for this name.
    pub(crate) fn wait(&self, peer: Peer, name: &str, now: Instant) -> Duration {
        let failures = self.failures.lock();
        let waits = Origin::all(peer, name).map(|origin| match failures.get(&origin) {
            Some(failures) if now.saturating_duration_since(failures.last) < FORGOTTEN_AFTER => {
                wait_after(failures.count.saturating_sub(origin.free()))
            }
            Some(_) | None => Duration::ZERO,
        });
        waits.into_iter().max().unwrap_or_default()
    }

    /// A proof was wrong.
    pub(crate) fn note_failure(&self, peer: Peer, name: &str, now: Instant) {
        let mut failures = self.failures.lock();
        for origin in Origin::all(peer, name) {
            if failures.len() >= REMEMBERED_MAX && !failures.contains_key(&origin) {
                forget_some(&mut failures, now);
            }
            let known = failures.entry(origin).or_insert(Failures { count: 0, last: now });
            if now.saturating_duration_since(known.last) >= FORGOTTEN_AFTER {
                known.count = 0;
            }
            *known = Failures { count: known.count.saturating_add(1), last: now };
        }
    }

    /// A proof was right: what was mistyped before at this address is forgiven.
    pub(crate) fn note_success(&self, peer: Peer, name: &str) {
        self.failures.lock().remove(&Origin::PeerAndName(peer, name.into()));
    }
}

/// How long to wait behind so many failures that count.
fn wait_after(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(doublings) => WAIT_FIRST.saturating_mul(2_u32.saturating_pow(doublings)).min(WAIT_MAX),
    }
}

/// Forgets what is over, and if that is nothing, the half that is longest ago: so the search is made seldom.
fn forget_some(failures: &mut HashMap<Origin, Failures>, now: Instant) {
    failures.retain(|_, failures| now.saturating_duration_since(failures.last) < FORGOTTEN_AFTER);
    if failures.len() >= REMEMBERED_MAX {
        let mut moments: Vec<Instant> = failures.values().map(|failures| failures.last).collect();
        let (_, &mut median, _) = moments.select_nth_unstable(REMEMBERED_MAX / 2);
        failures.retain(|_, failures| failures.last > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn peer(number: u8) -> Peer {
        Peer::of(SocketAddr::from(([10, 0, 0, number], 1)))
    }

    #[test]
    fn each_wrong_password_makes_the_next_one_of_its_address_and_name_slower_up_to_a_bound() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        let wait = |peer, name: &str| throttle.wait(peer, name, now);
        assert_eq!(wait(peer(1), "app"), Duration::ZERO);
        let waits = [50, 100, 200, 400, 800, 1600, 2000, 2000].map(Duration::from_millis);
        for expected in waits {
            throttle.note_failure(peer(1), "app", now);
            assert_eq!(wait(peer(1), "app"), expected);
        }
        assert_eq!(wait(peer(1), "other"), Duration::ZERO, "others at the address do not pay for it");
        assert_eq!(wait(peer(2), "app"), Duration::ZERO, "nor does the user at another address");
        assert_eq!(throttle.wait(peer(1), "app", now + FORGOTTEN_AFTER), Duration::ZERO);
        throttle.note_success(peer(1), "app");
        assert_eq!(wait(peer(1), "app"), Duration::ZERO);
    }

    #[test]
    fn many_names_of_one_address_and_many_addresses_for_one_name_become_slow_and_never_wait_for_long() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        (0..=FREE_OF_PEER).for_each(|number| throttle.note_failure(peer(1), &format!("n{number}"), now));
        assert_eq!(throttle.wait(peer(1), "somebody", now), WAIT_FIRST);
        for number in 0..100 {
            throttle.note_failure(peer(number), "app", now);
        }
        assert_eq!(throttle.wait(peer(200), "app", now), WAIT_MAX);
        assert_eq!(throttle.wait(peer(200), "other", now), Duration::ZERO);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for number in 0..REMEMBERED_MAX + 10 {
            let later = now + Duration::from_millis(number as u64);
            throttle.note_failure(peer(1), &format!("n{number}"), later);
        }
        assert!(throttle.failures.lock().len() <= REMEMBERED_MAX);
        let last = now + Duration::from_millis(REMEMBERED_MAX as u64 + 10);
        assert_eq!(throttle.wait(peer(1), "x", last), WAIT_MAX, "the address that goes on failing is known");
    }
}
