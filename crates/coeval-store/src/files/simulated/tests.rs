// SPDX-License-Identifier: Apache-2.0
//! The simulated disk does what its header says: each outcome occurs, and no other.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::files::{Fault, File, FileSystem, Lie, OpenMode, SimulatedFiles};

fn path() -> PathBuf {
    PathBuf::from("/d/file")
}

/// A disk with a durable file that holds `contents`.
fn disk_with(seed: u64, contents: &[u8]) -> (SimulatedFiles, Arc<dyn File>) {
    let files = SimulatedFiles::new(seed);
    files.create_dir_all(Path::new("/d")).unwrap();
    let file = files.open(&path(), OpenMode::Create).unwrap();
    file.write_all_at(0, contents).unwrap();
    file.sync_all().unwrap();
    files.sync_dir(Path::new("/d")).unwrap();
    (files, file)
}

#[test]
fn what_was_synced_survives_every_crash() {
    for seed in 0..200 {
        let (files, file) = disk_with(seed, b"synced");
        file.write_all_at(6, b" and not").unwrap();
        let after = files.crash();
        assert_eq!(after.read(&path()).unwrap()[..6], *b"synced");
    }
}

#[test]
fn a_restart_of_the_process_loses_nothing_and_a_later_crash_may() {
    let mut lost = 0;
    for seed in 0..100 {
        let (files, file) = disk_with(seed, b"synced");
        file.write_all_at(6, b" and not").unwrap();
        let files = files.restart();
        assert_eq!(files.read(&path()).unwrap(), b"synced and not");
        lost += u64::from(files.crash().read(&path()).unwrap() != b"synced and not");
    }
    assert!(lost > 20);
}

#[test]
fn unsynced_writes_are_lost_kept_torn_and_reordered() {
    let (mut none, mut both, mut torn, mut second_only) = (0, 0, 0, 0);
    for seed in 0..2000 {
        let (files, file) = disk_with(seed, &[0; 8192]);
        file.write_all_at(0, &[1; 4096]).unwrap();
        file.write_all_at(4096, &[2; 4096]).unwrap();
        let bytes = files.crash().read(&path()).unwrap();
        let count = |half: &[u8], value| half.iter().filter(|byte| **byte == value).count();
        let (first, second) = (count(&bytes[..4096], 1), count(&bytes[4096..], 2));
        assert_eq!(count(&bytes, 0), 8192 - first - second, "no byte comes from nowhere");
        match (first, second) {
            (0, 0) => none += 1,
            (4096, 4096) => both += 1,
            (0, 4096) => second_only += 1,
            _ => torn += 1,
        }
    }
    assert!([none, both, torn, second_only].iter().all(|count| *count > 50));
}

#[test]
fn new_blocks_that_were_not_written_are_missing_or_zeros_or_what_another_file_held() {
    let (mut missing, mut zeros, mut stale) = (0, 0, 0);
    for seed in 0..2000 {
        let (files, file) = disk_with(seed, b"synced");
        let other = files.open(Path::new("/d/other"), OpenMode::Create).unwrap();
        other.write_all_at(0, &[7; 20_000]).unwrap();
        other.sync_all().unwrap();
        file.write_all_at(6, &[1; 20_000]).unwrap();
        let bytes = files.crash().read(&path()).unwrap();
        assert_eq!(bytes[..6], *b"synced", "what is durable stays");
        missing += u64::from(bytes.len() < 20_006);
        zeros += u64::from(bytes[6..].contains(&0));
        stale += u64::from(bytes[6..].contains(&7));
    }
    assert!([missing, zeros, stale].iter().all(|count| *count > 50), "{missing} {zeros} {stale}");
}

#[test]
fn names_need_the_directory_synced_and_a_rename_is_never_half() {
    let mut outcomes = BTreeSet::new();
    for seed in 0..200 {
        let (files, _) = disk_with(seed, b"old");
        let other = files.open(Path::new("/d/new"), OpenMode::Create).unwrap();
        other.write_all_at(0, b"new").unwrap();
        other.sync_all().unwrap();
        files.rename(Path::new("/d/new"), &path()).unwrap();
        let after = files.crash();
        outcomes.insert((after.list(Path::new("/d")).unwrap(), after.read(&path()).unwrap()));
    }
    let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let legal = [
        (names(&["file"]), b"new".to_vec()),
        (names(&["file"]), b"old".to_vec()),
        (names(&["file", "new"]), b"old".to_vec()),
    ];
    assert_eq!(outcomes, BTreeSet::from(legal));
}

#[test]
fn after_a_failed_sync_a_write_is_durable_or_pending_or_forgotten() {
    let (mut durable, mut by_next_sync, mut forgotten) = (0, 0, 0);
    for seed in 0..300 {
        let survives = |sync_again: bool| {
            let (files, file) = disk_with(seed, b"");
            file.write_all_at(0, b"x").unwrap();
            files.fail_after(0, Fault::Io);
            file.sync_data().unwrap_err();
            assert_eq!(files.read(&path()).unwrap(), b"x", "the page cache shows it all the same");
            if sync_again {
                file.sync_data().unwrap();
            }
            files.crash().read(&path()).unwrap() == b"x"
        };
        match (survives(false), survives(true)) {
            (true, _) => durable += 1,
            (false, true) => by_next_sync += 1,
            (false, false) => forgotten += 1,
        }
    }
    assert!(durable > 30 && by_next_sync > 15 && forgotten > 30, "{durable} {by_next_sync} {forgotten}");
}

#[test]
fn faults_hit_the_call_they_were_set_for() {
    let (files, file) = disk_with(1, b"");
    let before = files.call_count();
    files.fail_after(1, Fault::DiskFull);
    file.write_all_at(0, b"a").unwrap();
    files.sync_dir(Path::new("/d")).unwrap();
    let error = file.write_all_at(1, b"bc").unwrap_err();
    assert!(error.is_disk_full());
    assert!(error.to_string().starts_with("cannot write /d/file at offset 1: disk full"), "{error}");
    file.write_all_at(1, b"bc").unwrap();
    assert_eq!(files.call_count() - before, 4);
    files.fail_randomly(1, Fault::Io);
    assert!(files.read(&path()).is_err());
    files.heal();
    assert_eq!(files.read(&path()).unwrap(), b"abc");
}

#[test]
fn the_dead_touch_nothing() {
    let (files, file) = disk_with(1, b"alive");
    let lock = files.lock(Path::new("/d")).unwrap();
    let after = files.restart();
    assert!(file.write_all_at(0, b"dead").is_err());
    assert!(file.sync_data().is_err());
    assert!(files.remove(&path()).is_err());
    let second = after.lock(Path::new("/d")).unwrap();
    drop(lock);
    assert!(after.lock(Path::new("/d")).is_err(), "the lock of the dead is not the lock of the living");
    drop(second);
    assert_eq!(after.read(&path()).unwrap(), b"alive");
}

#[test]
fn a_lying_disk_loses_what_it_said_was_durable() {
    let lost = |lie| {
        (0..100).any(|seed| {
            let files = SimulatedFiles::new(seed);
            files.tell(lie);
            files.create_dir_all(Path::new("/d")).unwrap();
            let file = files.open(&path(), OpenMode::Create).unwrap();
            file.write_all_at(0, b"synced").unwrap();
            file.sync_all().unwrap();
            files.sync_dir(Path::new("/d")).unwrap();
            files.crash().read(&path()).ok().as_deref() != Some(b"synced")
        })
    };
    assert!(lost(Lie::IgnoreSync));
    assert!(lost(Lie::IgnoreDirectorySync));
}

#[test]
fn the_same_seed_decides_the_same() {
    let run = || {
        let (files, file) = disk_with(77, &[0; 5000]);
        file.write_all_at(100, &[3; 4000]).unwrap();
        files.crash().read(&path()).unwrap()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_dead_disk_fails_every_call_from_some_call_on() {
    let (files, file) = disk_with(1, b"");
    files.fail_from(2, Fault::Io);
    file.write_all_at(0, b"a").unwrap();
    file.sync_data().unwrap();
    for _ in 0..3 {
        assert!(file.write_all_at(1, b"b").is_err());
        assert!(files.read(&path()).is_err());
    }
    let files = files.restart();
    assert_eq!(files.read(&path()).unwrap()[0], b'a');
}

#[test]
fn a_lie_about_one_place_is_told_of_no_other() {
    let lost = |told: &str, asked: &str| {
        (0..60).any(|seed| {
            let files = SimulatedFiles::new(seed);
            files.tell_about(Lie::IgnoreSync, Path::new(told));
            files.create_dir_all(Path::new("/d")).unwrap();
            let file = files.open(Path::new(asked), OpenMode::Create).unwrap();
            file.write_all_at(0, b"synced").unwrap();
            file.sync_all().unwrap();
            files.sync_dir(Path::new("/d")).unwrap();
            files.crash().read(Path::new(asked)).unwrap() != b"synced"
        })
    };
    assert!(lost("/d/log", "/d/log.1"));
    assert!(!lost("/d/log", "/d/other"));
}

#[test]
fn a_copy_is_durable_and_a_disk_of_its_own() {
    let (files, file) = disk_with(1, b"synced");
    file.write_all_at(6, b" and not").unwrap();
    let copy = files.copy();
    file.write_all_at(0, b"SYNCED").unwrap();
    assert_eq!(copy.crash().read(&path()).unwrap(), b"synced and not");
}
