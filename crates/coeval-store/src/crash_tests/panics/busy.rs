// SPDX-License-Identifier: Apache-2.0
//! A panic at a later passage through each step, while the keeper runs checkpoints by itself, sends heartbeats and lets go of
//! chunks, beside bulk loads, new indexes, definitions, brick tables and sequences.

use super::super::lives::{DIR, SMALL};
use super::{assert_goes_on, assert_has_stopped, assert_says_so, open_again, until};
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::LogOptions;
use crate::model_workload::{End, Outcome, Workload};
use crate::options::{CheckpointPolicy, Sizes, StoreOptions};
use crate::store::Store;
use crate::trap::Step;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn open_busy(files: &SimulatedFiles) -> Store {
    let checkpoint = CheckpointPolicy::Automatic { delta_entries: 20, delta_percent: 1, log_bytes: 3_000 };
    let options = StoreOptions { checkpoint, data_memory: Some(2_000), ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 3_000, extend_bytes: 512, ..LogOptions::default() };
    let often = Duration::from_millis(2);
    let sizes = Sizes { heartbeat: Some(often), expiry: often, ..SMALL };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, log, sizes).unwrap()
}

/// What a session was told when the trap sprang, if it did.
fn work_until_told(store: &Store, workload: &mut Workload, step: Step) -> Option<String> {
    const STEPS: u32 = 250;
    for _ in 0..STEPS {
        match catch_unwind(AssertUnwindSafe(|| workload.step(store))) {
            Ok(Outcome::Unknown(reason)) => return Some(reason),
            Ok(Outcome::Committed | Outcome::Refused) => {}
            // The session's own: nobody else has heard of it.
            Err(_) => {
                assert!(Step::OF_SESSIONS.contains(&step), "{step:?}: a panic reaches a session");
                store.check_running().unwrap();
                return Some("a panic".to_owned());
            }
        }
        if Step::OF_KEEPER.contains(&step) || Step::OF_CHECKPOINTS.contains(&step) {
            // Steps take no time, and the keeper would hardly get its turn.
            let keeper = &store.shared.keeper;
            keeper.poke();
            until("the keeper looks", || !keeper.is_poked() || store.check_running().is_err());
        }
        std::thread::sleep(pause(step));
        if store.check_running().is_err() {
            workload.has_stopped = true;
        }
    }
    None
}

/// What comes by the clock is met some times in a life.
fn pause(step: Step) -> Duration {
    Duration::from_micros(match step {
        // Ten times a second at most.
        Step::Unload => 2_000,
        // A hundred times.
        Step::Time => 500,
        step if Step::OF_KEEPER.contains(&step) || Step::OF_CHECKPOINTS.contains(&step) => 300,
        _ => 0,
    })
}

/// Whether it came to that passage.
fn one_life(step: Step, spared: u32, end: End, seed: u64) -> bool {
    let files = SimulatedFiles::new(seed);
    let store = open_busy(&files);
    let mut workload = Workload::new(seed);
    (0..8).for_each(|_| drop(workload.step(&store)));
    store.shared.trap.arm_behind(step, spared);
    let told = work_until_told(&store, &mut workload, step);
    let has_sprung = !store.shared.trap.is_armed();
    if !has_sprung {
        assert_eq!(told, None, "{step:?}");
    } else if Step::OF_SESSIONS.contains(&step) {
        assert_goes_on(&store, &mut workload, step);
    } else {
        // It may have been the keeper behind the last step.
        until("commits have stopped", || store.check_running().is_err());
        workload.has_stopped = true;
        if let Some(told) = told {
            assert_says_so(&told, step);
        }
        assert_has_stopped(&store, &mut workload, step);
    }
    // Whoever closes the store is not met by it.
    drop(store);
    let store = open_again(&files, &mut workload, step, end);
    assert_goes_on(&store, &mut workload, step);
    has_sprung
}

#[test]
fn after_a_panic_at_any_passage_commits_stop_and_the_next_open_has_what_was_acknowledged() {
    let mut sprung: BTreeMap<(Step, u32), u32> = BTreeMap::new();
    let lists = [&Step::OF_COMMITS[..], &Step::OF_KEEPER, &Step::OF_CHECKPOINTS, &[Step::Load]];
    let steps: Vec<Step> = lists.concat().into_iter().filter(|step| *step != Step::Fill).collect();
    for &step in &steps {
        for (seed, spared) in (0..).zip([0, 1, 2, 3, 7, 20]) {
            let end = if (seed + step as u64).is_multiple_of(2) { End::Machine } else { End::Process };
            let has_sprung = one_life(step, spared, end, 100 * step as u64 + seed);
            *sprung.entry((step, spared)).or_default() += u32::from(has_sprung);
        }
    }
    for step in steps {
        let later = sprung.iter().filter(|((of, spared), count)| *of == step && *spared > 0 && **count > 0);
        assert!(later.count() >= 2, "{step:?} is passed too seldom: {sprung:?}");
    }
}
