// SPDX-License-Identifier: Apache-2.0
//! A damaged byte in any file: it is named, or the contents are right all the same. Without checksums wrong
//! contents go unseen.

use super::lives::{DIR, SMALL};
use crate::files::{FileSystem, SimulatedFiles};
use crate::log::{ChecksumPolicy, LogOptions};
use crate::model_workload::Workload;
use crate::options::{CheckpointPolicy, StoreOptions};
use crate::store::Store;
use crate::verify::verify;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What every message about damage says.
const DAMAGED: &str = " is damaged at offset ";

/// What came of a damaged byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It was named, by an error that says so.
    Named,
    /// Nobody needs the byte.
    Harmless,
    /// It looks like a torn tail: the last record of the log is gone, which no later one attests.
    Tail,
    /// The contents are wrong, and nobody says so.
    Wrong,
}

fn open(files: &SimulatedFiles, checksums: ChecksumPolicy) -> Result<Store, String> {
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    let log = LogOptions { segment_bytes: 20_000, extend_bytes: 512, checksums };
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(DIR), options, log, SMALL).map_err(|error| error.to_string())
}

/// The kinds of files that a database has.
const KINDS: [&str; 4] = ["manifest", "segment", "round", "log"];

/// A closed database with chunks, flush rounds of brick tables that build upon one another, and a log, and what it holds.
fn database(seed: u64) -> (SimulatedFiles, Workload) {
    let files = SimulatedFiles::new(seed);
    let mut workload = Workload::new(seed);
    let store = open(&files, ChecksumPolicy::Verified).unwrap();
    for step in 0..30 {
        workload.step(&store);
        if step % 4 == 3 {
            workload.step_bricks(&store);
        }
        if step == 8 || step == 15 {
            store.checkpoint().unwrap();
        }
    }
    drop(store);
    workload.note_end(crate::model_workload::End::Process);
    (files.restart(), workload)
}

fn random_file(files: &SimulatedFiles, dice: &mut StdRng) -> (&'static str, PathBuf) {
    let kind = KINDS[dice.random_range(0..KINDS.len())];
    let (dir, suffix) = match kind {
        "segment" => ("segments", ".arrow"),
        "round" => ("segments", ".bricks"),
        "log" => ("log", ""),
        _ => ("", "MANIFEST"),
    };
    let dir = Path::new(DIR).join(dir);
    let names = files.list(&dir).unwrap().into_iter().filter(|name| name.ends_with(suffix));
    let names: Vec<String> = names.collect();
    match names.len() {
        0 => ("manifest", Path::new(DIR).join("MANIFEST")),
        count => (kind, dir.join(&names[dice.random_range(0..count)])),
    }
}

/// Opens the damaged database and compares.
fn look(files: &SimulatedFiles, workload: &Workload, checksums: ChecksumPolicy) -> Outcome {
    // A panic is as wrong as a wrong answer.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let Ok(store) = open(files, checksums) else { return Outcome::Named };
        let world = store.world();
        match workload.model.check(&world) {
            Ok(()) => Outcome::Harmless,
            Err(what) if what.contains(DAMAGED) => Outcome::Named,
            Err(_) if world.version().get() + 1 == workload.model.version => Outcome::Tail,
            Err(_) => Outcome::Wrong,
        }
    }));
    outcome.unwrap_or(Outcome::Wrong)
}

fn outcomes(checksums: ChecksumPolicy) -> BTreeMap<(&'static str, Outcome), u64> {
    let mut outcomes = BTreeMap::new();
    for seed in 0..40 {
        let (files, workload) = database(seed);
        let mut dice = StdRng::seed_from_u64(seed);
        for _ in 0..32 {
            let (kind, path) = random_file(&files, &mut dice);
            let offset = dice.random_range(0..files.len(&path).unwrap());
            let mask = 1 << dice.random_range(0..8);
            files.damage(&path, offset, mask);
            let is_clean = checksums == ChecksumPolicy::Verified
                && verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap().is_clean();
            // What an open writes is undone, so that each damage meets the same files.
            let copy = files.copy();
            let outcome = look(&copy, &workload, checksums);
            if is_clean {
                assert!(
                    outcome != Outcome::Named,
                    "seed {seed}: verify overlooks {}, {offset}",
                    path.display()
                );
            }
            // The database was closed: its log attests all but the record that does that.
            let is_legal = outcome != Outcome::Tail || checksums == ChecksumPolicy::IgnoredOnPurpose;
            assert!(is_legal, "seed {seed}: {} at {offset}: {outcome:?}", path.display());
            *outcomes.entry((kind, outcome)).or_default() += 1;
            files.damage(&path, offset, mask);
        }
    }
    outcomes
}

#[test]
fn a_damaged_byte_is_named_or_harms_nobody() {
    let outcomes = outcomes(ChecksumPolicy::Verified);
    for kind in KINDS {
        assert_eq!(outcomes.get(&(kind, Outcome::Wrong)), None, "{outcomes:?}");
        assert!(outcomes[&(kind, Outcome::Named)] > 20, "{outcomes:?}");
    }
}

#[test]
fn without_checksums_damaged_bytes_go_unseen_in_every_kind_of_file() {
    let outcomes = outcomes(ChecksumPolicy::IgnoredOnPurpose);
    for kind in KINDS {
        let wrong = outcomes.get(&(kind, Outcome::Wrong)).copied().unwrap_or(0);
        assert!(wrong > 1, "{kind}: {outcomes:?}");
    }
}
