// SPDX-License-Identifier: Apache-2.0
//! Which statements may run at the same time: all, except that nothing that uses the tables of a change runs beside it.
//!
//! A statement claims all its tables at once before it runs, and releases them afterwards. A claim waits for every earlier claim
//! that it conflicts with, whether that is granted or waits itself. So claims that conflict are granted in the order in which
//! they were made, none waits for ever, and there are no deadlocks.

use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;

/// What a statement does with its tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Reads,
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
}

impl Claim {
    fn goes_with(&self, other: &Self) -> bool {
        (self.how, other.how) == (Use::Reads, Use::Reads) || !self.tables.meets(&other.tables)
    }
}

#[derive(Default)]
struct State {
    last: u64,
    /// In the order in which they were made: granted ones, and ones that wait.
    claims: Vec<Claim>,
}

impl State {
    fn is_granted(&self, number: u64) -> bool {
        let at = self.claims.partition_point(|claim| claim.number < number);
        self.claims[..at].iter().all(|before| before.goes_with(&self.claims[at]))
    }
}

/// The claims of an engine's sessions.
///
/// # Locking
/// `state` is held for moments; who waits for a claim sleeps until another one ends.
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
    pub(super) fn claim(&self, tables: Tables, how: Use) -> Granted<'_> {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.claims.push(Claim { number, tables, how });
        while !state.is_granted(number) {
            self.ended.wait(&mut state);
        }
        Granted { exclusion: self, number }
    }
}

impl Drop for Granted<'_> {
    fn drop(&mut self) {
        self.exclusion.state.lock().claims.retain(|claim| claim.number != self.number);
        self.exclusion.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
        let report = exclusion.claim(named(&["a_storage", "a_cache"]), Use::Reads);
        // Neither of these waits.
        drop(exclusion.claim(named(&["b_cache", "tique_committed"]), Use::Changes));
        drop(exclusion.claim(named(&["a_cache"]), Use::Reads));
        let (sender, granted) = channel();
        std::thread::scope(|scope| {
            let change = |name: &'static str, how: Use, is_behind: usize| {
                let (sender, exclusion) = (sender.clone(), &exclusion);
                scope.spawn(move || {
                    let claim = exclusion.claim(named(&[name]), how);
                    sender.send(is_behind).unwrap();
                    drop(claim);
                });
                while exclusion.state.lock().claims.len() < is_behind + 1 {
                    std::thread::yield_now();
                }
            };
            // A claim behind a change that waits has to wait as well: otherwise the change might never get its turn.
            change("a_cache", Use::Changes, 1);
            change("a_cache", Use::Reads, 2);
            drop(exclusion.claim(named(&["b_cache"]), Use::Reads));
            assert_eq!(granted.try_recv(), Err(TryRecvError::Empty));
            drop(report);
            assert_eq!((granted.recv(), granted.recv()), (Ok(1), Ok(2)));
        });
        assert!(exclusion.state.lock().claims.is_empty());
    }

    #[test]
    fn a_definition_runs_alone() {
        let exclusion = Exclusion::default();
        let definition = exclusion.claim(Tables::All, Use::Changes);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(exclusion.claim(named(&["a"]), Use::Reads)));
            while exclusion.state.lock().claims.len() < 2 {
                std::thread::yield_now();
            }
            assert!(!waiting.is_finished());
            drop(definition);
        });
    }
}
