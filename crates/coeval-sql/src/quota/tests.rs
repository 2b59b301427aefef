// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::engine::Engine;
use crate::session::Session;
use coeval_store::{Store, StoreOptions};

#[test]
fn a_session_and_all_of_them_have_a_bound_and_what_is_dropped_can_be_taken_again() {
    let quota = Quota::new("things", "Have fewer.", 3, 5);
    let [mut one, mut two] = [(), ()].map(|()| QuotaShare::of(&quota));
    assert_eq!(one.take(3), Ok(()));
    let refused = one.take(1).unwrap_err();
    assert_eq!(refused.state, SqlState::ProgramLimitExceeded);
    assert_eq!(refused.message, "too many things: a session may have 3");
    assert_eq!(two.take(2), Ok(()));
    let refused = two.take(1).unwrap_err();
    assert_eq!(refused.state, SqlState::OutOfMemory);
    assert_eq!((refused.hint.as_deref(), two.amount(), quota.used()), (Some("Have fewer."), 2, 5));
    one.give_back(1);
    assert_eq!(two.take(1), Ok(()));
    drop(one);
    assert_eq!(quota.used(), 3);
    drop(two);
    assert_eq!(quota.used(), 0);
    assert_eq!(
        QuotaShare::of(&quota).take(usize::MAX).map_err(|e| e.state),
        Err(SqlState::ProgramLimitExceeded)
    );
}

/// Takes all that is left, as other sessions would, and gives it back when it is dropped.
fn taken_by_others(quota: &Arc<Quota>) -> Vec<QuotaShare> {
    let mut shares = Vec::new();
    loop {
        let mut share = QuotaShare::of(quota);
        if share.take(quota.each_max).is_err() {
            break;
        }
        shares.push(share);
    }
    let mut last = QuotaShare::of(quota);
    last.take(quota.all_max - quota.used()).unwrap();
    shares.push(last);
    shares
}

/// A bound: which one, a statement that takes something, and some that take more than a session may have.
struct Bounded {
    quota: fn(&Quotas) -> &Arc<Quota>,
    one: &'static str,
    too_many: Vec<String>,
    each: &'static str,
    all: &'static str,
}

fn bounded() -> [Bounded; 5] {
    let long_cursor =
        |n| format!("DECLARE c{n} CURSOR FOR SELECT 1 WHERE '{}' IS NULL", "x".repeat(22 << 20));
    let declared: Vec<String> = (0..1_001).map(|n| format!("DECLARE c{n} CURSOR FOR SELECT 1")).collect();
    [
        Bounded {
            quota: |quotas| &quotas.advisory_locks,
            one: "SELECT pg_advisory_xact_lock(1)",
            too_many: vec![
                "SELECT count(pg_advisory_xact_lock(i)) FROM generate_series(1, 10001) s(i)".to_owned(),
            ],
            each: "too many advisory locks: a session may have 10000",
            all: "too many advisory locks: all sessions together may have 1000000",
        },
        Bounded {
            quota: |quotas| &quotas.cursors,
            one: "DECLARE c CURSOR FOR SELECT 1",
            too_many: declared,
            each: "too many cursors: a session may have 1000",
            all: "too many cursors: all sessions together may have 100000",
        },
        Bounded {
            quota: |quotas| &quotas.cursor_texts,
            one: "DECLARE c CURSOR FOR SELECT 1",
            too_many: (0..3).map(long_cursor).collect(),
            each: "too many bytes of texts of cursors: a session may have 67108864",
            all: "too many bytes of texts of cursors: all sessions together may have 1073741824",
        },
        Bounded {
            quota: |quotas| &quotas.savepoints,
            one: "SAVEPOINT s",
            too_many: vec![format!("SAVEPOINT s{}", "s".repeat(1 << 20)); 256],
            each: "too many bytes of savepoints: a session may have 268435456",
            all: "too many bytes of savepoints: all sessions together may have 1073741824",
        },
        Bounded {
            quota: |quotas| &quotas.prepared_statements,
            one: "PREPARE p AS SELECT 1",
            too_many: vec![format!("PREPARE p AS SELECT '{}'", "x".repeat(8 << 20))],
            each: "too many bytes of prepared statements: a session may have 67108864",
            all: "too many bytes of prepared statements: all sessions together may have 1073741824",
        },
    ]
}

#[test]
fn each_bound_of_a_session_and_of_all_is_met_by_a_statement_that_names_it_and_the_session_goes_on() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    for Bounded { quota, one, too_many, each, all } in bounded() {
        let quota = quota(engine.quotas());
        let run = |session: &mut Session, statements: &[String]| {
            session.execute("BEGIN").unwrap();
            let refused = statements.iter().try_for_each(|sql| session.execute(sql).map(drop));
            let refused = refused.map_err(|error| (error.state, error.message));
            session.execute("ROLLBACK").unwrap();
            session.execute("DEALLOCATE ALL").unwrap();
            refused
        };
        let refused = run(&mut session, &too_many);
        assert_eq!(refused, Err((SqlState::ProgramLimitExceeded, each.to_owned())));
        assert_eq!(quota.used(), 0, "{each}: what was taken is given back");
        let others = taken_by_others(quota);
        let one = [one.to_owned()];
        let refused = run(&mut session, &one);
        assert_eq!(refused, Err((SqlState::OutOfMemory, all.to_owned())));
        drop(others);
        assert_eq!(run(&mut session, &one), Ok(()));
    }
}

#[test]
fn the_settings_of_a_session_have_a_bound_however_they_are_set_and_savepoints_share_them() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    let long = "x".repeat(600_000);
    let refused = "too many bytes of settings: a session may have 1048576";
    session.execute(&format!("SET mine.a = '{long}'")).unwrap();
    for sql in [
        format!("SET mine.b = '{long}'"),
        format!("SELECT set_config('mine.b', '{long}', true)"),
        "SELECT count(set_config('mine.a' || n, repeat('x', 1000), false)) FROM generate_series(1, 1000) s(n)".to_owned(),
        format!("SET application_name = '{long}'"),
    ] {
        let error = session.execute(&sql).map(drop).unwrap_err();
        assert_eq!((error.state, error.message.as_str()), (SqlState::ProgramLimitExceeded, refused), "{sql:.80}");
    }
    // The same one many times is one, and what was refused has changed nothing.
    let again =
        "SELECT count(set_config('mine.b', repeat('x', 1000), false)) FROM generate_series(1, 10000) s(n)";
    session.execute(again).unwrap();
    session.execute(&format!("SET mine.a = '{}'", "y".repeat(1_000_000))).unwrap();
    // A thousand savepoints would have a gigabyte of copies.
    let before = coeval_store::process_memory().unwrap_or(0);
    session.execute("BEGIN").unwrap();
    for _ in 0..1_000 {
        session.execute("SAVEPOINT s").unwrap();
    }
    let grown = coeval_store::process_memory().unwrap_or(0).saturating_sub(before);
    // Other tests of this process may take half of that meanwhile.
    assert!(grown < 900 << 20, "{grown} bytes");
    session.execute("ROLLBACK").unwrap();
}

/// Each keeps the settings as they were: a copy for itself, where one was changed since the last savepoint.
#[test]
fn settings_that_a_savepoint_does_not_share_with_the_last_one_are_in_the_bound_of_savepoints() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    let long = "x".repeat(600_000);
    let path = vec!["a"; 30_000].join(",");
    for set in [
        format!("SET mine.a = '{long}'"),
        format!("SET LOCAL mine.a = '{long}'"),
        format!("SET LOCAL search_path = {path}"),
    ] {
        session.execute("BEGIN").unwrap();
        session.execute(&set).unwrap();
        let mut count = 0;
        let refused = loop {
            // Whatever was set before, a list of schemas among it, has copies of its own after this.
            let change = if set.contains("path") {
                format!("{set},b{count}")
            } else {
                format!("SET mine.b = {count}")
            };
            session.execute(&change).unwrap();
            if let Err(error) = session.execute("SAVEPOINT s") {
                break error;
            }
            count += 1;
            assert!(count < 1_000, "{set:.40}: they are in no bound");
        };
        assert_eq!(refused.state, SqlState::ProgramLimitExceeded, "{refused}");
        assert_eq!(refused.message, "too many bytes of savepoints: a session may have 268435456");
        session.execute("ROLLBACK").unwrap();
        assert_eq!(engine.quotas().savepoints.used(), 0, "what was taken is given back");
    }
    // What two of them share counts once.
    session.execute(&format!("BEGIN; SET mine.a = '{long}'")).unwrap();
    for _ in 0..1_000 {
        session.execute("SAVEPOINT s").unwrap();
    }
    session.execute("RELEASE s; ROLLBACK").unwrap();
    assert_eq!(engine.quotas().savepoints.used(), 0);
}

#[test]
fn a_statement_says_so_much_and_then_that_there_is_more() {
    let engine = Engine::new(Store::in_memory(StoreOptions::default())).unwrap();
    let mut session = engine.session();
    let names: Vec<String> = (0..1_100).map(|n| format!("t{n}")).collect();
    session.execute(&format!("DROP TABLE IF EXISTS {}", names.join(","))).unwrap();
    let notices = session.take_notices();
    assert_eq!(notices.len(), 1_001);
    assert!(notices[999].message.contains("t999"), "{:?}", notices[999]);
    assert_eq!(notices[1_000].message, "there is more to notice than these 1000, which is left out");
}
