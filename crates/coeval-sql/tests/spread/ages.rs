// SPDX-License-Identifier: Apache-2.0
//! Readers of rows and spread tables go by the age that the rows name, and sessions find what they have loaded or seen.

use crate::fake::Ages;
use crate::{BOTH, LOAD, Nodes, refused_with_hint, rows, try_rows};
use coeval_sql::{Session, SqlState};
use std::time::{Duration, Instant};

/// Break: take `cluster.snapshot()` in any case in `spread_part::snapshot`.
#[test]
fn rows_and_spread_tables_are_of_one_age() {
    let nodes = Nodes::with_ages(Ages::Named);
    let (mut reader, mut loader) = (nodes.session(0), nodes.session(0));
    refused_with_hint(&mut reader, BOTH, SqlState::CannotConnectNow);
    nodes.note_age();
    loader.execute(LOAD).unwrap();
    assert_eq!(rows(&mut reader, BOTH), ["0 0"], "the rows are older than the load");
    assert_eq!(
        rows(&mut reader, "SELECT count(*) FROM facts"),
        ["1"],
        "without rows there is nothing to fit"
    );
    let mut block = nodes.session(0);
    block.execute("BEGIN").unwrap();
    assert_eq!(rows(&mut block, "SELECT count(*) FROM facts"), ["0"], "rows may follow");
    nodes.note_age();
    assert_eq!(rows(&mut block, BOTH), ["0 0"]);
    block.execute("COMMIT").unwrap();
    assert_eq!(rows(&mut block, BOTH), ["1 0"]);
    loader.execute(LOAD).unwrap();
    reader.execute("SET default_transaction_isolation = 'repeatable read'").unwrap();
    assert_eq!(rows(&mut reader, BOTH), ["2 0"], "below SERIALIZABLE each is of its own moment");
    drop((reader, loader, block));
    nodes.assert_nothing_is_open();
}

/// Break: have `spread_part::snapshot` take `cluster.snapshot()` below SERIALIZABLE.
#[test]
fn below_serializable_no_load_is_seen_without_rows_that_were_there_before_it() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    let (mut reader, mut other) = (nodes.session(0), nodes.session(0));
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ").unwrap();
    assert_eq!(rows(&mut reader, "SELECT count(*) FROM done"), ["0"]);
    other.execute("INSERT INTO done VALUES (1)").unwrap();
    other.execute(LOAD).unwrap();
    assert_eq!(rows(&mut reader, BOTH), ["0 0"], "its rows are of before");
    reader.execute("COMMIT").unwrap();
    for level in ["REPEATABLE READ", "READ COMMITTED"] {
        reader.execute(&format!("BEGIN ISOLATION LEVEL {level}")).unwrap();
        assert_eq!(rows(&mut reader, BOTH), ["1 1"], "{level}");
        reader.execute("COMMIT").unwrap();
    }
}

/// A declared reader has older rows while a writer is open. It comes behind another reader, who sees newer rows and fewer loads.
///
/// Break: have `spread_age::of_rows` look at the newest world.
#[test]
fn two_readers_do_not_see_a_commit_of_rows_and_a_load_in_different_orders() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    let (mut writer, mut other) = (nodes.session(0), nodes.session(0));
    writer.execute("BEGIN").unwrap();
    assert_eq!(rows(&mut writer, "SELECT count(*) FROM done"), ["0"]);
    other.execute("INSERT INTO done VALUES (1)").unwrap();
    assert_eq!(rows(&mut nodes.session(0), BOTH), ["0 1"]);
    other.execute(LOAD).unwrap();
    nodes.note_age();
    let mut declared = nodes.session(0);
    declared.execute("BEGIN READ ONLY").unwrap();
    assert_eq!(rows(&mut declared, BOTH), ["0 0"], "who sees the load sees the row");
    declared.execute("COMMIT").unwrap();
    writer.execute("COMMIT").unwrap();
    declared.execute("BEGIN READ ONLY").unwrap();
    assert_eq!(rows(&mut declared, BOTH), ["1 1"]);
}

/// Reads both, now declared and now not, in any order beside commits of rows, loads and a writer who holds safe snapshots back: whether
/// no two of the readers are each ahead of the other.
fn readers_agree(seed: u64, ages: Ages) -> bool {
    let nodes = Nodes::with_ages(ages);
    nodes.note_age();
    let (mut other, mut writer) = (nodes.session(0), nodes.session(0));
    let (mut is_open, mut days, mut seen) = (false, 0, Vec::<(u64, u64)>::new());
    let mut random = seed;
    for _ in 0..60 {
        // Knuth's multiplier; the upper bits are the random ones.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        match (random >> 33) % 7 {
            0 => {
                days += 1;
                other.execute(&format!("INSERT INTO done VALUES ({days})")).unwrap();
            }
            1 => drop(other.execute(LOAD).unwrap()),
            2 => nodes.note_age(),
            3 => {
                let sql = if is_open { "COMMIT" } else { "BEGIN; SELECT count(*) FROM done" };
                writer.execute(sql).unwrap();
                is_open = !is_open;
            }
            4 | 5 => {
                let both = format!("BEGIN READ ONLY; {BOTH}");
                seen.extend(counts(&rows(&mut nodes.session(0), &both)));
            }
            _ => seen.extend(counts(&rows(&mut nodes.session(0), BOTH))),
        }
    }
    seen.sort_unstable();
    seen.windows(2).all(|pair| pair[0].1 <= pair[1].1)
}

/// How many rows a reader has seen, and how many of them are loaded.
fn counts(lines: &[String]) -> Option<(u64, u64)> {
    let (loaded, done) = lines.first()?.split_once(' ')?;
    Some((done.parse().ok()?, loaded.parse().ok()?))
}

#[test]
fn of_two_readers_of_both_one_is_ahead() {
    for seed in 0..8 {
        assert!(readers_agree(seed, Ages::Named), "seed {seed}");
    }
}

#[test]
fn without_ages_two_readers_are_each_ahead_of_the_other() {
    assert!((0..20).any(|seed| !readers_agree(seed, Ages::Ignored)));
}

/// So long a session waits for rows that name a load.
const PATIENCE: Duration = Duration::from_secs(1);

/// Loads, and finds that beside rows, which name it in a moment, with these statements before and behind the query.
fn finds(
    nodes: &Nodes,
    session: &mut Session,
    (before, behind): (&str, &str),
    mut load: impl FnMut(&mut Session) -> u64,
) {
    for _ in 0..5 {
        let loads = load(session);
        let noted = nodes.note_soon();
        let begun = Instant::now();
        session.execute(before).unwrap();
        let seen = try_rows(session, BOTH);
        let took = begun.elapsed();
        noted.join().unwrap();
        let is_found = seen.as_ref().is_ok_and(|seen| *seen == [format!("{loads} 0")]);
        session.execute(if seen.is_ok() { behind } else { "ROLLBACK" }).unwrap();
        if is_found {
            return;
        }
        // On a busy machine whoever has rows name it may come too late, but not each time.
        assert!(took >= PATIENCE, "{before:?}: {seen:?} after {took:?}");
    }
    panic!("{before:?}: it is never found");
}

/// Break: have `SpreadPart::end` forget `floor`.
#[test]
fn a_session_finds_beside_rows_what_it_has_loaded_or_seen() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    let (mut session, mut loads) = (nodes.session(0), 0);
    // It begins again on rows that name the load; or waits for such rows, when it is declared or begins with a query.
    for around in [("", ""), ("BEGIN READ ONLY", "COMMIT"), ("BEGIN", "COMMIT")] {
        finds(&nodes, &mut session, around, |session| {
            session.execute(LOAD).unwrap();
            loads += 1;
            loads
        });
    }
    // It has seen the load of somebody else.
    finds(&nodes, &mut session, ("", ""), |session| {
        nodes.session(0).execute(LOAD).unwrap();
        loads += 1;
        assert_eq!(rows(session, "SELECT count(*) FROM facts"), [loads.to_string()]);
        loads
    });
    session.execute(LOAD).unwrap();
    loads += 1;
    session.execute("BEGIN").unwrap();
    assert_eq!(rows(&mut session, "SELECT count(*) FROM done"), ["0"], "nobody waits for ever");
    nodes.note_age();
    refused_with_hint(&mut session, BOTH, SqlState::SerializationFailure);
    session.execute("ROLLBACK").unwrap();
    assert_eq!(rows(&mut session, BOTH), [format!("{loads} 0")]);
}

/// Break: have `spread_age::until_named` wait as long as it takes.
#[test]
fn nobody_waits_for_long_for_rows_that_name_a_load() {
    let nodes = Nodes::with_ages(Ages::Named);
    nodes.note_age();
    let mut session = nodes.session(0);
    session.execute(LOAD).unwrap();
    let begun = Instant::now();
    assert_eq!(rows(&mut session, BOTH), ["0 0"], "there is no primary that says so");
    assert!(begun.elapsed() < Duration::from_secs(30));
}
