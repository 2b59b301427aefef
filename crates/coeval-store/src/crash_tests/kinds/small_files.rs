// SPDX-License-Identifier: Apache-2.0
//! The files beside log, segments and manifest, on a disk that loses what was not synced: what was said to be durable is there
//! after a crash, whichever call failed before. The same scenes fail on a disk that ignores the syncs of one of these files.

use super::machines::{
    FORMER, PRIMARY, REPLICA, SLOT, TIMELINE, copy_to, open_primary, open_replica, promoted, take_all, work,
};
use crate::error::StoreError;
use crate::files::{Fault, FileSystem, Lie, OpenMode, SimulatedFiles};
use crate::following::{CopyWriter, Fed, demote, is_replica, promote};
use crate::log::LogError;
use crate::model_workload::Workload;
use crate::promises::Promise;
use crate::repair::repair;
use crate::terms::Timeline;
use std::path::Path;
use std::sync::Arc;

const SEEDS: u64 = 40;

/// A scene on a disk: what is there after a crash that must not be, or is not that must.
type Scene = fn(&SimulatedFiles, u64) -> Result<(), String>;

fn text(error: StoreError) -> String {
    error.to_string()
}

#[track_caller]
fn holds(scene: Scene) {
    for seed in 0..SEEDS {
        scene(&SimulatedFiles::new(seed), seed).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

/// How many seeds see that the disk ignores these syncs.
#[track_caller]
fn is_seen(scene: Scene, lie: Lie, place: &str) {
    let lying = |seed: &u64| {
        let files = SimulatedFiles::new(*seed);
        files.tell_about(lie, Path::new(place));
        scene(&files, *seed).is_err()
    };
    let seen = (0..SEEDS).filter(lying).count() as u64;
    assert!(seen >= SEEDS / 5, "only {seen} of {SEEDS} seeds saw it");
}

/// A promise that was given is kept; one that failed is kept or was never given.
fn promises(files: &SimulatedFiles, seed: u64) -> Result<(), String> {
    let mut given = None;
    let mut files = files.clone();
    for life in 2..6 {
        let store = open_primary(&files, PRIMARY).map_err(text)?;
        if given.is_some_and(|given| store.superseded_by().is_none_or(|found| found < given)) {
            return Err(format!("{given:?} was promised, and {:?} is known", store.superseded_by()));
        }
        if (seed + u64::from(life)).is_multiple_of(2) {
            files.fail_after(seed % 6, Fault::Writing);
        }
        let promise = Promise::asked_for(Timeline::new(life));
        if store.promise(promise).is_ok() {
            given = Some(promise.timeline);
        }
        files = files.crash();
        drop(store);
    }
    Ok(())
}

#[test]
fn a_promise_that_was_given_survives() {
    holds(promises);
    is_seen(promises, Lie::IgnoreSync, "/db/promise");
    is_seen(promises, Lie::IgnoreDirectorySync, "/db");
}

/// A slot that was made, and what it keeps, is there until it is dropped, whatever checkpoints come between.
fn kept_log(files: &SimulatedFiles, seed: u64) -> Result<(), String> {
    let mut workload = Workload::new(seed);
    let mut files = files.clone();
    let mut from = None;
    for life in 0..3 {
        let store = open_primary(&files, PRIMARY).map_err(text)?;
        workload.take_recovered(&store.world())?;
        if let Some(from) = from {
            let slots = store.slots();
            if slots.len() != 1 || slots[0].name != SLOT || slots[0].log != from {
                return Err(format!("a slot that keeps the log from {from} on became {slots:?}"));
            }
            // All of it is there, with the files that it names.
            let mut feed = store.whole_log_feed().map_err(text)?;
            if feed.position() > from {
                return Err(format!("the log is kept from {} on", feed.position()));
            }
            while feed.next_piece().map_err(text)?.is_some() {}
        } else if seed.is_multiple_of(2) || life == 1 {
            from = Some(store.create_slot(SLOT).map_err(text)?);
            store.whole_log_feed().map_err(text)?.keep_over_closes(1 << 30);
        }
        if seed.is_multiple_of(3) {
            files.fail_after(seed % 40, Fault::Writing);
        }
        for _ in 0..6 {
            if !workload.has_stopped {
                workload.step(&store);
            }
        }
        let _ = store.checkpoint();
        workload.has_stopped |= store.check_running().is_err();
        workload.note_end(crate::model_workload::End::Machine);
        files = files.crash();
        drop(store);
    }
    Ok(())
}

#[test]
fn what_is_kept_of_the_log_survives() {
    holds(kept_log);
    is_seen(kept_log, Lie::IgnoreSync, "/db/kept-log");
    is_seen(kept_log, Lie::IgnoreDirectorySync, "/db");
}

/// The end of a log that was closed is known: without its last segment it is refused.
fn end_note(files: &SimulatedFiles, seed: u64) -> Result<(), String> {
    let mut workload = Workload::new(seed);
    let store = open_primary(files, PRIMARY).map_err(text)?;
    work(&mut workload, &store, 15);
    drop(store);
    let files = files.crash();
    drop(open_primary(&files.copy(), PRIMARY).map_err(text)?);
    let log = Path::new(PRIMARY).join("log");
    let names = files.list(&log).map_err(|error| error.to_string())?;
    let last = names.iter().rfind(|name| name.ends_with(".log")).ok_or("there is no log")?;
    files.remove(&log.join(last)).map_err(|error| error.to_string())?;
    match open_primary(&files, PRIMARY) {
        Err(StoreError::Log(LogError::Damaged { .. } | LogError::MissingSegment { .. })) => Ok(()),
        Err(StoreError::IncompleteDatabase { .. }) => Ok(()),
        other => Err(format!("without the last segment: {other:?}")),
    }
}

#[test]
fn the_note_of_the_end_of_the_log_survives() {
    holds(end_note);
    is_seen(end_note, Lie::IgnoreSync, "/db/log/end");
}

/// A replica that was closed knows how far its safe snapshots go, and stays a replica.
fn standing(files: &SimulatedFiles, seed: u64) -> Result<(), String> {
    let mut workload = Workload::new(seed);
    let primary = open_primary(files, PRIMARY).map_err(text)?;
    work(&mut workload, &primary, 4);
    primary.checkpoint().map_err(text)?;
    copy_to(&primary, files, REPLICA).map_err(text)?;
    let (store, mut follower) = open_replica(files, REPLICA).map_err(text)?;
    take_all(&primary, &mut follower);
    let boundary = store.shared.serializable.lock_followed().boundary();
    drop((store, follower));
    let files = files.crash();
    drop(primary);
    let opened = open_primary(&files.copy(), REPLICA);
    if !matches!(opened, Err(StoreError::FollowsAnother { .. })) {
        return Err(format!("a replica was opened as {opened:?}"));
    }
    let (store, _follower) = open_replica(&files, REPLICA).map_err(text)?;
    let found = store.shared.serializable.lock_followed().boundary();
    if found != boundary {
        return Err(format!("safe snapshots went up to {boundary}, and go up to {found}"));
    }
    Ok(())
}

#[test]
fn that_a_directory_follows_and_how_far_survives() {
    holds(standing);
    is_seen(standing, Lie::IgnoreSync, "/replica/follower");
    is_seen(standing, Lie::IgnoreDirectorySync, "/replica");
}

/// A copy that did not end is known by its mark, whatever of it was durable.
fn unfinished_copy(files: &SimulatedFiles, seed: u64) -> Result<(), String> {
    let mut workload = Workload::new(seed);
    let primary = open_primary(files, PRIMARY).map_err(text)?;
    work(&mut workload, &primary, 4);
    primary.checkpoint().map_err(text)?;
    let copy = primary.base_copy().map_err(text)?;
    let writer = CopyWriter::begin(Arc::new(files.clone()), Path::new(REPLICA)).map_err(text)?;
    writer.note_timeline(primary.timeline()).map_err(text)?;
    for name in copy.files().iter().take(usize::try_from(seed % 3).unwrap()) {
        let mut file = writer.file(name).map_err(text)?;
        file.write(b"half of it").map_err(text)?;
        file.finish().map_err(text)?;
    }
    drop(writer);
    match open_primary(&files.crash(), REPLICA) {
        Err(StoreError::UnfinishedCopy { .. }) => Ok(()),
        opened => Err(format!("an unfinished copy was opened as {opened:?}")),
    }
}

#[test]
fn that_a_copy_did_not_end_survives() {
    holds(unfinished_copy);
    is_seen(unfinished_copy, Lie::IgnoreDirectorySync, "/replica");
}

/// Whether a directory is a replica's, or a primary's in the timeline that it was promised; else what it is.
fn is_replica_or_promoted(files: &SimulatedFiles, dir: &str, promised: Timeline) -> Result<bool, String> {
    match open_primary(&files.copy(), dir) {
        Ok(store) if store.timeline() == promised && store.superseded_by().is_none() => Ok(true),
        Ok(store) => Err(format!("it writes the log of timeline {}", store.timeline())),
        Err(StoreError::FollowsAnother { .. }) => open_replica(files, dir).map(|_| false).map_err(text),
        Err(error) => Err(text(error)),
    }
}

/// A replica that is to be promoted, with a promise of its own or none yet.
fn before_promotion(seed: u64) -> SimulatedFiles {
    let files = SimulatedFiles::new(seed);
    let mut workload = Workload::new(seed);
    promoted(&files, &mut workload);
    let primary = open_primary(&files, PRIMARY).unwrap();
    primary.checkpoint().unwrap();
    copy_to(&primary, &files, REPLICA).unwrap();
    let (store, mut follower) = open_replica(&files, REPLICA).unwrap();
    take_all(&primary, &mut follower);
    drop((store, follower, primary));
    files.copy()
}

#[test]
fn a_promotion_that_fails_or_ends_anywhere_leaves_a_replica_or_the_promised_timeline() {
    let (mut promoted_early, mut still_replica) = (0, 0);
    for seed in 0..6 {
        let before = before_promotion(seed);
        let promise = Promise::asked_for(Timeline::new(3));
        for calls in 0.. {
            let files = before.copy();
            files.fail_after(calls, Fault::Io);
            let outcome = promote(&files, Path::new(REPLICA), promise);
            let after = files.crash();
            let is_promoted = is_replica_or_promoted(&after, REPLICA, promise.timeline)
                .unwrap_or_else(|what| panic!("seed {seed}, call {calls}: {what}"));
            if outcome.is_ok() {
                assert!(is_promoted, "seed {seed}: what was durable is gone");
                assert!(calls > 4, "it makes calls");
                break;
            }
            promoted_early += u32::from(is_promoted);
            still_replica += u32::from(!is_promoted);
        }
    }
    assert!(promoted_early > 0 && still_replica > 0, "{promoted_early} {still_replica}");
}

#[test]
fn a_demotion_that_fails_or_ends_anywhere_leaves_a_primary_or_a_replica() {
    let before = before_promotion(1);
    for calls in 0.. {
        let files = before.copy();
        files.fail_after(calls, Fault::Io);
        let outcome = demote(&files, Path::new(PRIMARY));
        let after = files.crash();
        let is_primary = is_replica_or_promoted(&after, PRIMARY, TIMELINE)
            .unwrap_or_else(|what| panic!("call {calls}: {what}"));
        if outcome.is_ok() {
            assert!(!is_primary, "what was durable is gone");
            assert!(calls > 4, "it makes calls");
            break;
        }
    }
}

#[test]
fn a_copy_that_fails_or_ends_anywhere_is_begun_again_or_complete() {
    let (mut begun_again, mut complete) = (0, 0);
    for calls in 0.. {
        let files = SimulatedFiles::new(calls);
        let mut workload = Workload::new(7);
        let primary = open_primary(&files, FORMER).unwrap();
        work(&mut workload, &primary, 4);
        primary.checkpoint().unwrap();
        files.fail_after(calls, Fault::Io);
        let outcome = copy_to(&primary, &files, REPLICA);
        files.heal();
        let after = files.crash();
        drop(primary);
        let opened = open_primary(&after.copy(), REPLICA);
        let is_there = is_replica(&after, Path::new(REPLICA)).unwrap();
        let is_begun = after.exists(&Path::new(REPLICA).join("unfinished-copy")).unwrap();
        match opened {
            Err(StoreError::UnfinishedCopy { .. }) => {
                // What is left of it is removed, but for what was promised.
                drop(CopyWriter::begin(Arc::new(after.clone()), Path::new(REPLICA)).unwrap());
                begun_again += 1;
            }
            Err(StoreError::FollowsAnother { .. }) => {
                drop(open_replica(&after, REPLICA).unwrap());
                complete += 1;
            }
            // Nothing of it was durable yet: a new database.
            Ok(store) if !is_there && !is_begun => assert_eq!(store.world().version().get(), 0),
            other => panic!("call {calls}: {other:?}"),
        }
        if outcome.is_ok() {
            assert!(complete > 0, "what was durable is gone");
            break;
        }
    }
    assert!(begun_again > 10, "{begun_again}");
}

fn refused_without_mark(files: &SimulatedFiles) {
    files.remove(&Path::new(REPLICA).join("follower")).unwrap();
    let refused = open_primary(files, REPLICA).unwrap_err();
    let says = refused.to_string();
    assert!(matches!(refused, StoreError::IncompleteDatabase { missing: "follower", .. }), "{says}");
}

/// It would write the log of a timeline that another machine writes.
#[test]
fn a_replica_that_lost_the_mark_of_one_is_not_opened_to_be_written() {
    let files = before_promotion(3);
    refused_without_mark(&files);
    // As the error says.
    let files = files.restart();
    files.open(&Path::new(REPLICA).join("follower"), OpenMode::Create).unwrap();
    let primary = open_primary(&files, PRIMARY).unwrap();
    let (store, mut follower) = open_replica(&files, REPLICA).unwrap();
    take_all(&primary, &mut follower);
    drop((store, follower, primary));
    promote(&files, Path::new(REPLICA), Promise::asked_for(Timeline::new(3))).unwrap();
    assert_eq!(open_primary(&files, REPLICA).unwrap().timeline().get(), 3);
}

/// A copy from an archive says nothing of a timeline; whoever follows does, also if the log is in it already.
#[test]
fn a_replica_whose_copy_promised_nothing_is_known_once_it_has_followed() {
    let files = before_promotion(4);
    files.remove(&Path::new(REPLICA).join("promise")).unwrap();
    let primary = open_primary(&files, PRIMARY).unwrap();
    let (store, mut follower) = open_replica(&files, REPLICA).unwrap();
    assert_eq!((store.terms().timeline().get(), follower.promised()), (TIMELINE.get(), Timeline::new(0)));
    take_all(&primary, &mut follower);
    let files = files.crash();
    drop((store, follower, primary));
    refused_without_mark(&files);
}

/// It used to write a manifest with nothing kept, and to remove the log that was.
#[test]
fn a_repair_leaves_what_is_kept_of_the_log() {
    let files = SimulatedFiles::new(1);
    let mut workload = Workload::new(1);
    let store = open_primary(&files, PRIMARY).unwrap();
    work(&mut workload, &store, 8);
    let from = store.create_slot(SLOT).unwrap();
    store.whole_log_feed().unwrap().keep_over_closes(1 << 30);
    store.set_log_keep_bytes(1 << 30);
    for _ in 0..2 {
        work(&mut workload, &store, 12);
        store.checkpoint().unwrap();
    }
    let places = store.shared.retention.earlier_places();
    assert!(!places.is_empty());
    drop(store);
    let segments = Path::new(PRIMARY).join("segments");
    let names = files.list(&segments).unwrap();
    for name in names.iter().filter(|name| name.ends_with(".arrow")) {
        for place in (64..files.len(&segments.join(name)).unwrap()).step_by(40) {
            files.damage(&segments.join(name), place, 1);
        }
    }
    let report = repair(Arc::new(files.clone()), Path::new(PRIMARY)).unwrap();
    assert!(!report.is_empty(), "there was something to be mended");
    let store = open_primary(&files.crash(), PRIMARY).unwrap();
    let slots = store.slots();
    assert!(slots.len() == 1 && slots[0].name == SLOT && slots[0].log == from && !slots[0].is_lost);
    let left = store.shared.retention.earlier_places();
    assert!(places.iter().all(|place| left.contains(place)), "of {places:?} {left:?} are left");
    let mut feed = store.whole_log_feed().unwrap();
    assert!(feed.position() <= from);
    let mut groups = 0;
    while let Some(fed) = feed.next_piece().unwrap() {
        groups += u64::from(matches!(fed, Fed::Records(_)));
    }
    assert!(groups > 0, "the log is there");
}
