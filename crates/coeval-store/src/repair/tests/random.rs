// SPDX-License-Identifier: Apache-2.0
//! Random databases, of which files are damaged: a repair leaves nothing that a check names, no row that was not there, and
//! everything if it says that nothing is lost.

use super::{DIR, mend, open, problems};
use crate::files::{FileSystem, SimulatedFiles};
use crate::model_workload::{End, Workload};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::path::Path;

fn database(seed: u64) -> (SimulatedFiles, Workload) {
    let files = SimulatedFiles::new(seed);
    let mut workload = Workload::new(seed);
    let store = open(&files);
    for step in 0..40 {
        workload.step(&store);
        if step % 4 == 3 {
            workload.step_bricks(&store);
        }
        if [10, 18, 26].contains(&step) {
            store.checkpoint().unwrap();
        }
    }
    drop(store);
    workload.note_end(End::Process);
    (files.restart(), workload)
}

/// Damages a file of chunks or a flush round, or removes it; sometimes two.
fn damage(files: &SimulatedFiles, dice: &mut StdRng) {
    let dir = Path::new(DIR).join("segments");
    for _ in 0..dice.random_range(1..3) {
        let names = files.list(&dir).unwrap();
        if names.is_empty() {
            return;
        }
        let path = dir.join(&names[dice.random_range(0..names.len())]);
        if dice.random_ratio(1, 5) {
            files.remove(&path).unwrap();
        } else {
            files.damage(
                &path,
                dice.random_range(0..files.len(&path).unwrap()),
                1 << dice.random_range(0..8),
            );
        }
    }
}

#[test]
fn whatever_is_damaged_what_is_left_was_there_and_a_check_finds_nothing() {
    let mut met = BTreeMap::new();
    for seed in 0..300 {
        let (files, workload) = database(seed);
        let mut dice = StdRng::seed_from_u64(seed);
        damage(&files, &mut dice);
        let found = problems(&files);
        let report = mend(&files);
        assert_eq!(report.is_empty(), found.is_empty(), "seed {seed}: {found:?}, but {report:?}");
        assert_eq!(problems(&files), Vec::<String>::new(), "seed {seed}: {report:?}");
        let files = files.crash();
        assert!(mend(&files).is_empty(), "seed {seed}");
        let store = open(&files);
        let world = store.world();
        let left = workload.model.as_far_as_in(&world);
        left.check(&world).unwrap_or_else(|what| panic!("seed {seed}: {what}: {report:?}"));
        let outcome = match (report.is_empty(), report.lost.is_empty()) {
            (true, _) => "harmless",
            (false, true) => "mended",
            (false, false) => "lost",
        };
        *met.entry(outcome).or_insert(0) += 1;
        if report.lost.is_empty() {
            workload.model.check(&world).unwrap_or_else(|what| panic!("seed {seed}: {what}: {report:?}"));
        }
    }
    assert!(["mended", "lost"].iter().all(|outcome| met[outcome] > 10), "{met:?}");
}
