// SPDX-License-Identifier: Apache-2.0
//! Who waits for whom, and for how long.

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
