// SPDX-License-Identifier: Apache-2.0
//! Random mutations of the golden files: an open names the file, or holds what was written. It never panics,
//! and never allocates for a length that damage made up.

use super::{DIR, assert_golden, files_of, golden_contents, old_golden_dir, stored_contents, try_open};
use crate::error::StoreError;
use crate::log::LogError;
use crate::store::Store;
use crate::verify::verify;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;

/// The version of the golden database.
const VERSION: u64 = 6;

/// Changes bytes, cuts the file off, or adds to it.
fn mutate(dice: &mut StdRng, bytes: &mut Vec<u8>) {
    match dice.random_range(0..5) {
        0 => bytes.truncate(dice.random_range(0..bytes.len())),
        1 => bytes.extend((0..dice.random_range(1..50)).map(|_| dice.random::<u8>())),
        2 => {
            let start = dice.random_range(0..bytes.len());
            let end = bytes.len().min(start + dice.random_range(1..600));
            bytes[start..end].fill(0);
        }
        _ => {
            for _ in 0..dice.random_range(1..4) {
                let place = dice.random_range(0..bytes.len());
                bytes[place] = dice.random();
            }
        }
    }
}

/// The file that an error names.
fn named(error: &StoreError) -> String {
    match error {
        StoreError::Corrupt { file, .. } | StoreError::UnsupportedVersion { file, .. } => file.clone(),
        StoreError::Log(
            LogError::Damaged { path, .. }
            | LogError::MissingSegment { path }
            | LogError::UnsupportedVersion { path, .. },
        ) => path.display().to_string(),
        error => panic!("another error: {error}"),
    }
}

/// Reads every chunk; the first damage.
fn read_everything(store: &Store) -> Result<(), StoreError> {
    let world = store.world();
    let mut spaces = world.tables().flat_map(|table| table.spaces());
    spaces.try_for_each(|(_, space)| space.base().iter().try_for_each(|(_, chunk)| chunk.check_whole()))
}

#[test]
fn mutated_golden_files_are_named_or_hold_what_was_written() {
    // With segments of each version.
    let databases = [golden_contents(), stored_contents(&old_golden_dir())];
    let (mut refused, mut right, mut cut) = (0, 0, 0);
    for seed in 0..6_000 {
        let mut dice = StdRng::seed_from_u64(seed);
        let golden = &databases[seed as usize % databases.len()];
        let names: Vec<_> = golden.keys().cloned().collect();
        let name = &names[dice.random_range(0..names.len())];
        let mut contents = golden.clone();
        mutate(&mut dice, contents.get_mut(name).unwrap());
        let path = Path::new(DIR).join(name).display().to_string();
        let files = files_of(contents);
        let report = verify(Arc::new(files.clone()), Path::new(DIR), None).unwrap();
        assert!(
            report.problems.iter().all(|problem| problem.file.as_ref() == Some(&path)),
            "seed {seed}: {report:?}"
        );
        match try_open(&files) {
            Err(error) => {
                assert_eq!(named(&error), path, "seed {seed}: {error}");
                assert!(!report.is_clean(), "seed {seed}: {error}");
                refused += 1;
            }
            Ok(store) if store.world().version().get() < VERSION => {
                assert!(name.starts_with("log/"), "seed {seed}: {name} is no log");
                cut += 1;
            }
            // What is damaged is not needed any more, or is found when it is read.
            Ok(store) => match read_everything(&store) {
                Ok(()) => {
                    assert_golden(&store);
                    right += 1;
                }
                Err(error) => {
                    assert_eq!(named(&error), path, "seed {seed}: {error}");
                    assert!(!report.is_clean(), "seed {seed}: {error}");
                    refused += 1;
                }
            },
        }
    }
    assert!(refused > 1_000 && right > 100 && cut > 20, "{refused} {right} {cut}");
}
