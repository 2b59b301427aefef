// SPDX-License-Identifier: Apache-2.0
//! Wrong passwords take time: the more of them there were, the longer the next proof waits until it is looked at.
//!
//! Failures are counted by address and name together, by address, and by name, so that neither one password after the
//! other, nor one password for many names, nor many addresses for one name goes fast. Guesses of the secrets of sessions, which are of
//! no name, are counted by address alone: all that wish to cancel something would wait for them otherwise.
//!
//! A wait is never longer than [`WAIT_MAX`], so what an address may try in a second is what it may have waiting. Behind some
//! failures ([`FREE_OF_PEER`], [`FREE_OF_BOTH`]) that has a bound, and what comes beyond it is not looked at: so one that is
//! mistyped keeps out nobody who opens a hundred connections. Who has come in from an address lately is not kept out by others who
//! try there: his name waits within a bound of its own. Other addresses wait for none of it.
//!
//! | of an address, at a time | at most |
//! |---|---|
//! | names that have not come in from there | as many as are looked at in [`WAIT_MAX`] |
//! | each name that has, within [`KNOWN_FOR`] | as many for itself |

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

/// Failures of one address and name from which on there is a bound of how many wait.
const FREE_OF_BOTH: u32 = 10;

/// Failures for one name that cost nothing, wherever they come from.
const FREE_OF_NAME: u32 = 50;

/// How long it is remembered that a name has come in from an address.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// Whose failures are remembered at most; those that have failed longest ago are forgotten for others.
const REMEMBERED_MAX: usize = 10_000;

/// What failures are counted by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Origin {
    PeerAndName(Peer, Box<str>),
    Peer(Peer),
    Name(Box<str>),
}

/// Stands for a name where the secret of a session is guessed. No role has it: no name has a zero byte.
pub(crate) const GUESSED_SECRET: &str = "\0cancel";

impl Origin {
    fn all(peer: Peer, name: &str) -> Vec<Self> {
        let mut all = vec![Self::PeerAndName(peer, name.into()), Self::Peer(peer)];
        if name != GUESSED_SECRET {
            all.push(Self::Name(name.into()));
        }
        all
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

/// Proofs of one origin that wait or are looked at.
type Underway = HashMap<Origin, u32>;

#[derive(Debug, Default)]
struct State {
    failures: HashMap<Origin, Failures>,
    underway: Underway,
    /// When a name came in from an address.
    known: HashMap<(Peer, Box<str>), Instant>,
}

impl State {
    fn is_known(&self, peer: Peer, name: &str, now: Instant) -> bool {
        let since = self.known.get(&(peer, name.into()));
        since.is_some_and(|since| now.saturating_duration_since(*since) < KNOWN_FOR)
    }

    /// How often this has failed that is not forgotten.
    fn failed(&self, origin: &Origin, now: Instant) -> u32 {
        match self.failures.get(origin) {
            Some(failures) if now.saturating_duration_since(failures.last) < FORGOTTEN_AFTER => {
                failures.count
            }
            Some(_) | None => 0,
        }
    }

    fn wait(&self, peer: Peer, name: &str, now: Instant) -> Duration {
        let origins = Origin::all(peer, name);
        let waits =
            origins.iter().map(|origin| wait_after(self.failed(origin, now).saturating_sub(origin.free())));
        waits.max().unwrap_or_default()
    }
}

/// See the module.
///
/// # Locking
/// `state` is a leaf, held for a step in its maps.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Proofs of an address that may be under way.
    underway_max: u32,
    state: Mutex<State>,
}

/// A proof that was sent: it is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct Attempt<'t> {
    throttle: &'t Throttle,
    /// What it is counted by.
    origins: Vec<Origin>,
    /// How long it is to wait.
    pub(crate) wait: Duration,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let mut state = self.throttle.state.lock();
        for origin in &self.origins {
            if let Some(count) = state.underway.get_mut(origin) {
                *count -= 1;
                if *count == 0 {
                    state.underway.remove(origin);
                }
            }
        }
    }
}

impl Throttle {
    /// Looks at no more than so many proofs of an address in a second, when many of them are wrong.
    pub(crate) fn new(each_second: u32) -> Self {
        let underway_max = each_second.max(1).saturating_mul(WAIT_MAX.as_secs() as u32);
        Self { underway_max, state: Mutex::default() }
    }

    /// Somebody at this address has sent a proof for this name; `None` if it is not to be looked at, because too many wait.
    pub(crate) fn begin(&self, peer: Peer, name: &str, now: Instant) -> Option<Attempt<'_>> {
        let mut state = self.state.lock();
        let is_known = state.is_known(peer, name, now);
        let wait = state.wait(peer, name, now);
        let of_name = Origin::PeerAndName(peer, name.into());
        let has_failed_much = state.failed(&of_name, now) >= FREE_OF_BOTH
            || (!is_known && state.failed(&Origin::Peer(peer), now) > FREE_OF_PEER);
        let bounded = if is_known { of_name.clone() } else { Origin::Peer(peer) };
        let is_full = state.underway.get(&bounded).is_some_and(|&count| count >= self.underway_max);
        if has_failed_much && is_full {
            return None;
        }
        let mut origins = vec![of_name];
        if !is_known {
            origins.push(Origin::Peer(peer));
        }
        for origin in &origins {
            *state.underway.entry(origin.clone()).or_default() += 1;
        }
        Some(Attempt { throttle: self, origins, wait })
    }

    /// A proof was wrong.
    pub(crate) fn note_failure(&self, peer: Peer, name: &str, now: Instant) {
        let mut state = self.state.lock();
        let failures = &mut state.failures;
        for origin in Origin::all(peer, name) {
            if failures.len() >= REMEMBERED_MAX && !failures.contains_key(&origin) {
                forget_some(failures, now);
            }
            let known = failures.entry(origin).or_insert(Failures { count: 0, last: now });
            if now.saturating_duration_since(known.last) >= FORGOTTEN_AFTER {
                known.count = 0;
            }
            *known = Failures { count: known.count.saturating_add(1), last: now };
        }
    }

    /// A proof was right: what was mistyped before at this address is forgiven, and the name is known there.
    pub(crate) fn note_success(&self, peer: Peer, name: &str, now: Instant) {
        let mut state = self.state.lock();
        state.failures.remove(&Origin::PeerAndName(peer, name.into()));
        if state.known.len() >= REMEMBERED_MAX {
            state.known.retain(|_, since| now.saturating_duration_since(*since) < KNOWN_FOR);
            if state.known.len() >= REMEMBERED_MAX {
                state.known.clear();
            }
        }
        state.known.insert((peer, name.into()), now);
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
mod tests;
