// SPDX-License-Identifier: Apache-2.0
//! A panic in a replica, while it applies, shows, keeps and checkpoints: it stops with the reason, which whoever gives it the log
//! is told as well; what it shows can be read on. Opened again it goes on from what its log has.
//!
//! It used to end the thread that took the log, and nothing else: the store said that all was well, and stood still.

use super::{COPY, copy, feed_of, open_follower, open_primary, small_pair, take, take_all};
use crate::files::SimulatedFiles;
use crate::following::{FollowError, Follower, LogFeed};
use crate::model_workload::{End, Workload};
use crate::store::Store;
use crate::trap::Step;
use crate::verify::verify;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const STEPS: [Step; 14] = [
    Step::Follow,
    Step::FollowInstall,
    Step::FollowSafe,
    Step::Publish,
    Step::Keep,
    Step::Sweep,
    Step::Purge,
    Step::Freeze,
    Step::Merge,
    Step::Flush,
    Step::WriteAside,
    Step::Replace,
    Step::PutInPlace,
    Step::RemoveLog,
];

/// Takes what the primary has by now. The reason, if the replica has stopped.
fn take_some(store: &Store, follower: &mut Follower, feed: &mut LogFeed) -> Option<String> {
    loop {
        match take(feed, follower) {
            Ok(true) => {}
            Ok(false) => return store.check_running().err().map(|error| error.to_string()),
            Err(error) => return Some(error.to_string()),
        }
    }
}

fn follow_until_told(
    primary: &Store,
    workload: &mut Workload,
    store: &Store,
    follower: &mut Follower,
    step: Step,
) -> Option<String> {
    let mut feed = feed_of(primary, follower).unwrap();
    for round in 0..60 {
        workload.step(primary);
        if round % 3 == 0
            && let Err(error) = store.checkpoint()
        {
            return Some(error.to_string());
        }
        if Step::OF_KEEPER.contains(&step) {
            store.shared.keeper.poke();
            let begun = Instant::now();
            while store.shared.keeper.is_poked() && store.check_running().is_ok() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{step:?}: the keeper does not look");
                std::thread::yield_now();
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        if let Some(reason) = take_some(store, follower, &mut feed) {
            return Some(reason);
        }
    }
    None
}

/// Whether it came to that passage.
fn one_life(step: Step, spared: u32, end: End, seed: u64) -> bool {
    let files = SimulatedFiles::new(seed + 1);
    let primary = open_primary(&SimulatedFiles::new(seed));
    let mut workload = Workload::new(seed).keeping_all();
    (0..12).for_each(|_| drop(workload.step(&primary)));
    primary.checkpoint().unwrap();
    copy(&primary, &files);
    let (store, mut follower) = open_follower(&files);
    store.shared.trap.arm_behind(step, spared);
    let told = follow_until_told(&primary, &mut workload, &store, &mut follower, step);
    let has_sprung = !store.shared.trap.is_armed();
    if has_sprung {
        assert_has_stopped(&primary, &store, &mut follower, step);
        told.map_or_else(
            || assert!(Step::OF_KEEPER.contains(&step), "{step:?}"),
            |told| says_so(&told, step),
        );
    } else {
        assert_eq!(told, None);
    }
    workload.all.as_ref().unwrap()[&store.world().version().get()].check(&store.world()).unwrap();
    let files = if end == End::Machine { files.crash() } else { files.restart() };
    drop((store, follower));
    let (store, mut follower) = open_follower(&files);
    workload.all.as_ref().unwrap()[&store.world().version().get()].check(&store.world()).unwrap();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    assert_eq!(store.world().version(), primary.world().version(), "{step:?}");
    workload.model.check(&store.world()).unwrap();
    store.checkpoint().unwrap();
    drop((store, follower));
    assert_eq!(verify(Arc::new(files.clone()), Path::new(COPY), None).unwrap().problems, [], "{step:?}");
    has_sprung
}

fn says_so(reason: &str, step: Step) {
    assert!(reason.contains("panic"), "{step:?}: {reason}");
}

/// It says so, takes nothing, checkpoints nothing.
fn assert_has_stopped(primary: &Store, store: &Store, follower: &mut Follower, step: Step) {
    let begun = Instant::now();
    while store.check_running().is_ok() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{step:?}: it does not say that it has stopped");
        std::thread::yield_now();
    }
    says_so(&store.check_running().unwrap_err().to_string(), step);
    says_so(&store.checkpoint().unwrap_err().to_string(), step);
    let position = follower.position();
    let mut feed = feed_of(primary, follower).unwrap();
    loop {
        match take(&mut feed, follower) {
            Ok(true) => {}
            // It has all that there is.
            Ok(false) => break,
            Err(FollowError::Stopped | FollowError::Store(_)) => break,
            Err(error) => panic!("{step:?}: {error}"),
        }
    }
    assert_eq!(follower.position(), position, "{step:?}: it goes on taking the log");
}

#[test]
fn a_replica_that_panics_anywhere_stops_with_the_reason_and_goes_on_when_it_is_opened_again() {
    for step in STEPS {
        let mut later = 0;
        for (seed, spared) in (0..).zip([0, 1, 2, 4, 9]) {
            let end = if (seed + step as u64).is_multiple_of(2) { End::Machine } else { End::Process };
            let has_sprung = one_life(step, spared, end, 1_000 + 100 * step as u64 + 2 * seed);
            later += u32::from(has_sprung && spared > 0);
            assert!(has_sprung || spared > 0, "nobody comes to {step:?}");
        }
        assert!(later >= 2, "{step:?} is passed too seldom");
    }
}

/// Whoever hears of boundaries alone has a replica that stands still, and says why.
#[test]
fn a_panic_when_a_boundary_comes_stops_the_replica() {
    let (primary, _, store, mut follower) = small_pair();
    take_all(&mut feed_of(&primary, &follower).unwrap(), &mut follower);
    let known = store.shared.serializable.lock_followed().boundary();
    store.shared.trap.arm(Step::FollowSafe);
    follower.note_boundary(known);
    says_so(&store.check_running().unwrap_err().to_string(), Step::FollowSafe);
    // Nothing is made any more of what may be half noted.
    follower.note_boundary(known.next());
    assert_eq!(store.shared.serializable.lock_followed().boundary(), known);
    let version = store.world().version();
    assert_has_stopped(&primary, &store, &mut follower, Step::FollowSafe);
    assert_eq!(store.world().version(), version);
}
