// SPDX-License-Identifier: Apache-2.0
//! Which statements may run at the same time: all, except that nothing that uses the tables of a change runs beside it.
//!
//! A statement claims all its tables at once before it runs, and releases them afterwards; so there are no deadlocks. A claim waits
//! for those that conflict with it and are granted, and for some of the earlier ones that wait:
//!
//! | what waits | who waits behind it | how long it waits |
//! |---|---|---|
//! | a query | later claims | for changes alone, each of which ends by itself |
//! | a commit | later claims | for changes; for queries 10 s at most, for one that has run for as long 0.1 s; then it is refused |
//! | another change: of a checkpoint, a definition | later claims, for a fifth of a second in each 1.2 | until nobody waits for it |
//!
//! **Why a commit is refused** that has waited for so long ([`QUERY_TIME`]). The library has no function that ends a query, so there is no
//! other end to waiting for one. And all later commits wait for a commit to be seen, whatever their tables: so a query that runs for
//! hours would hold up everybody. One query holds up commits for ten seconds in all, and each later commit to its tables holds up others
//! for a tenth of a second.
//! **Why other changes let others pass.** What waits for a long query must not keep commits waiting behind it; but where statements are
//! short and follow each other without a gap, it gets its turn within the fifth of a second in which nobody passes.
//! **What is not bounded by a time** is a change itself: it claims its tables for as long as its own rows take, which is 1.3 seconds for
//! four megabytes.

#[cfg(test)]
mod tests;

use crate::engine::EngineError;
use crate::interrupt::{LOOK, is_abandoned, is_interrupted};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long a commit waits for queries, and how long a query may run while commits wait for it. Of those that read caches most take
/// moments: look-ups of few rows, and what makes copies for statements that read more (`copies.rs`). The others are searches of changes
/// in one table by anything but the key, and what a session reads without copies (`tique.formulation`, or tables that it has written
/// itself).
const QUERY_TIME: Duration = Duration::from_secs(10);
/// How long a commit waits for a query that has run for longer: it may be about to end.
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// For so long others wait behind a change that is no commit,
const HOLDING: Duration = Duration::from_millis(200);
/// and then they pass it for so long; and so on.
const PASSING: Duration = Duration::from_secs(1);

/// What a statement does with its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Reads,
    /// Changes them for a commit, which may be refused.
    Commits,
    /// Changes them when it suits others.
    Changes,
}

/// The tables of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    /// The tables among these words; other words of the statement may be among them, too.
    Named(BTreeSet<String>),
    /// Any.
    All,
}

impl Tables {
    /// Those that a statement names.
    pub(super) fn named_in(sql: &str) -> Self {
        Self::Named(words(sql))
    }

    /// Those of a statement; all tables for a definition, which changes what the engine knows of every table.
    pub(super) fn of(sql: &str) -> Self {
        let is_definition = ["create", "drop", "alter", "truncate"];
        match sql.split_whitespace().next() {
            Some(first) if is_definition.contains(&&*first.to_lowercase()) => Self::All,
            _ => Self::named_in(sql),
        }
    }

    /// Those of these names.
    pub(super) fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        Self::Named(names.into_iter().map(str::to_lowercase).collect())
    }

    fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Named(one), Self::Named(other)) => !one.is_disjoint(other),
            (Self::All, _) | (_, Self::All) => true,
        }
    }
}

/// The words of a statement outside of its texts, in lower case: whatever names a table is one of them.
fn words(sql: &str) -> BTreeSet<String> {
    let (mut words, mut rest) = (BTreeSet::new(), sql.chars().peekable());
    while let Some(letter) = rest.next() {
        match letter {
            '"' => {
                let mut word = String::new();
                while let Some(letter) = rest.next() {
                    // A quote in a name is written twice.
                    if letter == '"' && rest.next_if_eq(&'"').is_none() {
                        break;
                    }
                    word.push(letter);
                }
                words.insert(word.to_lowercase());
            }
            // A quote written twice begins a text of its own here, which holds no word.
            '\'' => {
                while rest.next().is_some_and(|letter| {
                    if letter == '\\' {
                        rest.next();
                    }
                    letter != '\''
                }) {}
            }
            letter if letter.is_alphabetic() || letter == '_' => {
                let mut word = String::from(letter);
                while let Some(letter) = rest.next_if(|letter| letter.is_alphanumeric() || *letter == '_') {
                    word.push(letter);
                }
                words.insert(word.to_lowercase());
            }
            _ => {}
        }
    }
    words
}

struct Claim {
    number: u64,
    tables: Tables,
    how: Use,
    made: Instant,
    /// Since when, if it is.
    granted: Option<Instant>,
}

impl Claim {
    fn goes_with(&self, other: &Self) -> bool {
        (self.how, other.how) == (Use::Reads, Use::Reads) || !self.tables.meets(&other.tables)
    }

    /// Whether later claims wait behind it while it waits.
    fn holds_back(&self, now: Instant) -> bool {
        match self.how {
            Use::Reads | Use::Commits => true,
            Use::Changes => {
                let waited = now.duration_since(self.made).as_millis();
                waited % (HOLDING + PASSING).as_millis() < HOLDING.as_millis()
            }
        }
    }
}

#[derive(Default)]
struct State {
    last: u64,
    /// In the order in which they were made: granted ones, and ones that wait.
    claims: Vec<Claim>,
}

impl State {
    fn add(&mut self, tables: Tables, how: Use, made: Instant) -> u64 {
        self.last += 1;
        self.claims.push(Claim { number: self.last, tables, how, made, granted: None });
        self.last
    }

    fn remove(&mut self, number: u64) {
        self.claims.retain(|claim| claim.number != number);
    }

    fn place(&self, number: u64) -> usize {
        let place = self.claims.partition_point(|claim| claim.number < number);
        assert_eq!(self.claims[place].number, number, "a claim is there until it is dropped");
        place
    }

    /// What a claim waits for.
    fn hindrances(&self, number: u64, now: Instant) -> impl Iterator<Item = &Claim> {
        let mine = &self.claims[self.place(number)];
        let others = self.claims.iter().filter(move |other| other.number != number && !other.goes_with(mine));
        others
            .filter(move |other| other.granted.is_some() || (other.number < number && other.holds_back(now)))
    }

    /// Grants a claim, if there is nothing to wait for.
    fn grant(&mut self, number: u64, now: Instant) -> bool {
        let is_free = self.hindrances(number, now).next().is_none();
        if is_free {
            let place = self.place(number);
            self.claims[place].granted = Some(now);
        }
        is_free
    }

    /// Whether a claim that cannot be granted is a commit's that has waited long enough for queries.
    fn is_refused(&self, number: u64, now: Instant) -> bool {
        let mine = &self.claims[self.place(number)];
        let waited = now.duration_since(mine.made);
        let is_long = |query: &Claim| {
            let runs = query.granted.map(|since| now.duration_since(since));
            runs.is_some_and(|runs| waited >= QUERY_TIME || (waited >= LEAST_WAIT && runs >= QUERY_TIME))
        };
        mine.how == Use::Commits
            && self.hindrances(number, now).any(|other| other.how == Use::Reads && is_long(other))
    }
}

/// The claims of an engine's sessions.
///
/// # Locking
/// `state` is held for moments; who waits for a claim sleeps until another one ends, and looks now and then.
#[derive(Default)]
pub(super) struct Exclusion {
    state: Mutex<State>,
    ended: Condvar,
}

/// A claim that is granted, until it is dropped.
pub(super) struct Granted<'a> {
    exclusion: &'a Exclusion,
    number: u64,
}

impl Exclusion {
    /// Waits until a statement may use these tables.
    ///
    /// # Errors
    /// `Busy`: a commit has waited for queries for as long as it may. `Refused`: nobody waits for the statement any more. It may not be
    /// run.
    pub(super) fn claim(&self, tables: Tables, how: Use) -> Result<Granted<'_>, EngineError> {
        let mut state = self.state.lock();
        let number = state.add(tables, how, Instant::now());
        loop {
            let now = Instant::now();
            if state.grant(number, now) {
                return Ok(Granted { exclusion: self, number });
            }
            if state.is_refused(number, now) {
                return Err(self.withdrawn(state, number, busy()));
            }
            if MutexGuard::unlocked(&mut state, || is_abandoned() || is_interrupted()) {
                let error = EngineError::refused("nobody waits for the statement any more");
                return Err(self.withdrawn(state, number, error));
            }
            // A claim that has ended meanwhile has woken nobody.
            if !state.grant(number, now) {
                self.ended.wait_for(&mut state, LOOK);
            }
        }
    }

    /// The error of a claim that is given up, which holds nobody back any more.
    fn withdrawn(&self, mut state: MutexGuard<'_, State>, number: u64, error: EngineError) -> EngineError {
        state.remove(number);
        self.ended.notify_all();
        error
    }
}

fn busy() -> EngineError {
    EngineError::busy(format!(
        "a query reads the tables that the transaction has written, and has not ended within {} seconds",
        QUERY_TIME.as_secs()
    ))
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        self.exclusion.state.lock().remove(self.number);
        self.exclusion.ended.notify_all();
    }
}
