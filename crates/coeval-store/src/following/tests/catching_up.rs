// SPDX-License-Identifier: Apache-2.0
//! How fast a follower that is far behind takes a log of scattered changes, by the size of the groups that it takes, beside a
//! recovery that goes through the same.

use super::*;
use crate::files::DiskFiles;
use crate::options::Durability;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::time::{Duration, Instant};

const COMMITS: usize = 20_000;
const ROWS_OF_EACH: usize = 100;
const ROWS: i32 = 1_000_000;

fn copy_on_disk(primary: &Store, dir: &Path) {
    let writer = CopyWriter::begin(Arc::new(DiskFiles), dir).unwrap();
    let copy = primary.base_copy().unwrap();
    for name in copy.files() {
        let (mut from, mut to) = (copy.open(name).unwrap(), writer.file(name).unwrap());
        to.write(&from.read(usize::MAX).unwrap()).unwrap();
        to.finish().unwrap();
    }
    writer.finish(copy.manifest()).unwrap();
}

fn change_rows(primary: &Store) {
    let def = primary.world().tables().next().unwrap().def().clone();
    let mut dice = SmallRng::seed_from_u64(1);
    for _ in 0..COMMITS {
        let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        for _ in 0..ROWS_OF_EACH {
            let id = dice.random_range(0..ROWS);
            tx.put(def.id, row(&def, id, dice.random())).unwrap();
        }
        tx.commit().unwrap();
    }
}

fn catch_up(primary: &Store, dir: &Path, group_bytes: usize) -> Duration {
    let end = primary.log_position().unwrap().0;
    let (_copy, mut follower) = Store::open_follower(Arc::new(DiskFiles), dir, options()).unwrap();
    let mut feed = feed_of(primary, &follower).unwrap();
    let begun = Instant::now();
    let mut group = Vec::new();
    while follower.position() < end {
        let fed = feed.next_piece().unwrap();
        let is_last = fed.is_none();
        match fed {
            Some(Fed::Records(records)) => group.extend(records),
            Some(Fed::Published(version)) => follower.note_published(version),
            Some(Fed::Boundary(boundary)) => follower.note_boundary(boundary),
            Some(Fed::File(..)) => unreachable!("nothing is loaded"),
            None => {}
        }
        let bytes: usize = group.iter().map(|record| record.payload.len()).sum();
        if is_last || bytes >= group_bytes {
            follower.take(&group).unwrap();
            follower.sync().unwrap();
            group.clear();
        }
    }
    begun.elapsed()
}

#[test]
#[ignore = "measures"]
fn catching_up_beside_recovery() {
    let place = tempfile::tempdir().unwrap();
    let fast = StoreOptions { durability: Durability::None, ..options() };
    let primary = Store::open(place.path().join("primary"), fast).unwrap();
    let mut tx = primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    tx.change_catalog(CatalogChange::PutTable(Box::new(table(&primary, "t")))).unwrap();
    tx.commit().unwrap();
    primary.checkpoint().unwrap();
    let groups = [0, 1, 4, 32].map(|mib| (mib, place.path().join(format!("copy{mib}"))));
    groups.iter().for_each(|(_, dir)| copy_on_disk(&primary, dir));
    change_rows(&primary);
    println!(
        "{} changes, {} MiB of log",
        COMMITS * ROWS_OF_EACH,
        primary.log_position().unwrap().0.get() >> 20
    );
    for (mib, dir) in groups {
        println!("groups of {mib} MiB, or a piece: {:?}", catch_up(&primary, &dir, mib << 20));
    }
    drop(primary);
    let begun = Instant::now();
    drop(Store::open(place.path().join("primary"), options()).unwrap());
    println!("recovery: {:?}", begun.elapsed());
}
