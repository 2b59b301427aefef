// SPDX-License-Identifier: Apache-2.0
mod calls;

use super::TARGETS;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

fn corpus_of(target: &str) -> Vec<PathBuf> {
    let corpus = Path::new("corpus").join(target);
    let entries = std::fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let mut files: Vec<_> = entries.map(|entry| entry.expect("the corpus can be listed").path()).collect();
    files.sort();
    files
}

#[test]
fn every_input_of_the_corpus_is_answered_without_a_panic() {
    let mut failed = Vec::new();
    for target in TARGETS {
        let files = corpus_of(target.name);
        assert!(files.len() >= 3, "{} has {} inputs", target.name, files.len());
        for file in files {
            let input = std::fs::read(&file).expect("the corpus can be read");
            if catch_unwind(|| (target.run)(&input)).is_err() {
                failed.push(file);
            }
        }
    }
    assert!(failed.is_empty(), "these inputs panic: {failed:?}");
}

#[test]
fn the_corpus_stays_small() {
    for target in TARGETS {
        let sizes =
            corpus_of(target.name).into_iter().map(|file| file.metadata().expect("it is there").len());
        let bytes: u64 = sizes.sum();
        assert!(bytes <= 32 << 10, "{} has {bytes} bytes", target.name);
    }
}

#[test]
fn bytes_of_no_sense_are_answered_by_every_target() {
    for target in TARGETS {
        for length in [0, 1, 2, 3, 10, 100, 1_000] {
            for byte in [0, 1, 2, b'%', b'{', 0x7f, 0xff] {
                (target.run)(&vec![byte; length]);
            }
        }
    }
}
