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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::EngineErrorKind;
    use crate::interrupt::{Abandonment, Interrupt, abandonable, interruptible};
    use std::sync::Arc;
    use std::sync::mpsc::{TryRecvError, channel};

    fn named(names: &[&str]) -> Tables {
        Tables::named(names.iter().copied())
    }

    #[test]
    fn the_tables_of_a_statement_are_among_its_words() {
        let sql = r#"INSERT INTO "T_storage" SELECT k, 'in ''a\' text' FROM "o""k" AS x_1 WHERE é = '"no"'"#;
        let Tables::Named(words) = Tables::of(sql) else { panic!("these tables alone") };
        for name in ["t_storage", "o\"k", "x_1", "k", "é"] {
            assert!(words.contains(name), "{name} of {words:?}");
        }
        for text in ["in", "a", "text", "no"] {
            assert!(!words.contains(text), "{text} of {words:?}");
        }
        assert_eq!(Tables::of(" create TABLE t (k int)"), Tables::All);
    }

    #[test]
    fn a_change_waits_for_those_who_read_its_tables_and_for_nobody_else() {
        let exclusion = Exclusion::default();
        let claim = |names: &[&str], how: Use| exclusion.claim(named(names), how).unwrap();
        let report = claim(&["a_storage", "a_cache"], Use::Reads);
        // Neither of these waits.
        drop(claim(&["b_cache", "tique_committed"], Use::Commits));
        drop(claim(&["a_cache"], Use::Reads));
        let (sender, granted) = channel();
        std::thread::scope(|scope| {
            let change = |name: &'static str, how: Use, is_behind: usize| {
                let (sender, exclusion) = (sender.clone(), &exclusion);
                scope.spawn(move || {
                    let claim = exclusion.claim(named(&[name]), how).unwrap();
                    sender.send(is_behind).unwrap();
                    drop(claim);
                });
                while exclusion.state.lock().claims.len() < is_behind + 1 {
                    std::thread::yield_now();
                }
            };
            // A claim behind a change that waits has to wait as well: otherwise the change might never get its turn.
            change("a_cache", Use::Commits, 1);
            change("a_cache", Use::Reads, 2);
            drop(exclusion.claim(named(&["b_cache"]), Use::Reads).unwrap());
            assert_eq!(granted.try_recv(), Err(TryRecvError::Empty));
            drop(report);
            assert_eq!((granted.recv(), granted.recv()), (Ok(1), Ok(2)));
        });
        assert!(exclusion.state.lock().claims.is_empty());
    }

    #[test]
    fn a_definition_runs_alone() {
        let exclusion = Exclusion::default();
        let definition = exclusion.claim(Tables::All, Use::Changes).unwrap();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(exclusion.claim(named(&["a"]), Use::Reads).unwrap()));
            while exclusion.state.lock().claims.len() < 2 {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            drop(definition);
        });
    }

    /// One query held up every commit to its table for as long as it ran, and all later ones, which are seen behind that.
    #[test]
    fn a_commit_waits_for_a_query_so_long_and_not_again_for_the_same_one() {
        let (mut state, began) = (State::default(), Instant::now());
        let after = |time: Duration| began + time;
        let query = state.add(named(&["a_cache"]), Use::Reads, began);
        assert!(state.grant(query, began));
        let first = state.add(named(&["a_cache", "tique_committed"]), Use::Commits, after(LEAST_WAIT));
        let unrefused = [LEAST_WAIT, LEAST_WAIT * 3, QUERY_TIME - LOOK];
        assert!(unrefused.iter().all(|time| !state.is_refused(first, after(*time))));
        assert!(state.is_refused(first, after(QUERY_TIME)), "the query has had its time");
        state.remove(first);
        let later = after(QUERY_TIME * 5);
        let second = state.add(named(&["a_cache"]), Use::Commits, later);
        assert!(!state.is_refused(second, later) && state.is_refused(second, later + LEAST_WAIT));
        // Another query is none that it waited for, so it gets its own time; and a change is waited for in any case.
        state.remove(query);
        assert!(state.grant(second, later));
        let third = state.add(named(&["a_cache"]), Use::Commits, later);
        assert!(!state.grant(third, later + QUERY_TIME) && !state.is_refused(third, later + QUERY_TIME));
        state.remove(second);
        let other = state.add(named(&["b_cache"]), Use::Reads, later);
        assert!(state.grant(other, later) && state.grant(third, later));
    }

    /// A checkpoint that waited for a report on a table's storage kept commits to the table's cache waiting behind it.
    #[test]
    fn who_waits_for_a_long_query_lets_commits_pass_and_gets_its_turn_among_short_ones() {
        let (mut state, began) = (State::default(), Instant::now());
        let report = state.add(named(&["a_storage"]), Use::Reads, began);
        assert!(state.grant(report, began));
        let checkpoint = state.add(named(&["a_storage", "a_cache"]), Use::Changes, began);
        assert!(!state.grant(checkpoint, began));
        for round in 0..3 {
            let now = began + (HOLDING + PASSING) * round;
            let commit = state.add(named(&["a_cache"]), Use::Commits, now);
            assert!(!state.grant(commit, now + HOLDING - LOOK), "it has its turn before others");
            assert!(state.grant(commit, now + HOLDING), "they pass it");
            assert!(!state.grant(checkpoint, now + HOLDING), "what has passed it is waited for");
            state.remove(commit);
            assert!(!state.is_refused(checkpoint, now + QUERY_TIME * 100));
        }
        // Each of these begins before the one before it has ended.
        state.remove(report);
        let one = state.add(named(&["a_storage"]), Use::Reads, began);
        let now = began + HOLDING;
        assert!(state.grant(one, now) && !state.grant(checkpoint, now));
        let now = began + HOLDING + PASSING;
        let next = state.add(named(&["a_storage"]), Use::Reads, now);
        assert!(!state.grant(next, now));
        state.remove(one);
        assert!(state.grant(checkpoint, now));
    }

    #[test]
    fn who_is_not_waited_for_any_more_waits_no_longer_and_holds_nobody_back() {
        let exclusion = Exclusion::default();
        let report = exclusion.claim(named(&["a"]), Use::Reads).unwrap();
        let interrupt: Interrupt = Arc::new(|| true);
        let refused = interruptible(Some(interrupt), || exclusion.claim(Tables::All, Use::Changes).map(drop));
        assert_eq!(refused.unwrap_err().kind, EngineErrorKind::Refused);
        let statement = Abandonment::default();
        statement.abandon();
        let refused =
            abandonable(&statement, || exclusion.claim(named(&["a"]), Use::Commits).map(drop)).unwrap_err();
        assert_eq!(refused.kind, EngineErrorKind::Refused);
        drop(exclusion.claim(named(&["a"]), Use::Reads).unwrap());
        drop(report);
        assert!(exclusion.state.lock().claims.is_empty());
    }
}
