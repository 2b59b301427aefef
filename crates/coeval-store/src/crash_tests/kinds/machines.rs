// SPDX-License-Identifier: Apache-2.0
//! Directories with all kinds of files: of a primary that was promoted, has brick tables, keeps log for an archive and a slot, and
//! of one that follows it.

use super::super::lives::SMALL;
use crate::error::StoreError;
use crate::files::{FileSystem, SimulatedFiles};
use crate::following::{CopyWriter, Fed, Follower, LogFeed, promote};
use crate::log::LogOptions;
use crate::model_workload::{Model, Workload};
use crate::options::{CheckpointPolicy, StoreOptions};
use crate::promises::Promise;
use crate::store::Store;
use crate::terms::Timeline;
use std::path::Path;
use std::sync::Arc;

/// Where the database was first.
pub(super) const FORMER: &str = "/former";
/// The one that was promoted.
pub(super) const PRIMARY: &str = "/db";
/// The one that follows it.
pub(super) const REPLICA: &str = "/replica";

pub(super) const SLOT: &str = "west";
/// Of the one that was promoted.
pub(super) const TIMELINE: Timeline = Timeline::new(2);

fn options() -> StoreOptions {
    StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() }
}

fn log_options() -> LogOptions {
    LogOptions { segment_bytes: 3_000, extend_bytes: 512, ..LogOptions::default() }
}

pub(super) fn open_primary(files: &SimulatedFiles, dir: &str) -> Result<Store, StoreError> {
    Store::open_tuned(Arc::new(files.clone()), Path::new(dir), options(), log_options(), SMALL)
}

pub(super) fn open_replica(files: &SimulatedFiles, dir: &str) -> Result<(Store, Follower), StoreError> {
    Store::open_follower_tuned(Arc::new(files.clone()), Path::new(dir), options(), log_options(), SMALL)
}

/// Copies a primary's newest checkpoint, in its timeline.
///
/// # Errors
/// Those of the copy.
pub(super) fn copy_to(primary: &Store, files: &SimulatedFiles, dir: &str) -> Result<(), StoreError> {
    let copy = primary.base_copy()?;
    let writer = CopyWriter::begin(Arc::new(files.clone()), Path::new(dir))?;
    writer.note_timeline(primary.timeline())?;
    for name in copy.files() {
        let mut to = writer.file(name)?;
        to.write(&copy.open(name)?.read(usize::MAX)?)?;
        to.finish()?;
    }
    writer.finish(copy.manifest())
}

pub(super) fn feed_of(primary: &Store, follower: &Follower) -> LogFeed {
    let term = follower.terms().last().map(|term| term.id);
    primary.log_feed(term, follower.position()).unwrap().ahead_of_publication()
}

/// Takes all that the primary has, which commits nothing meanwhile.
pub(super) fn take_all(primary: &Store, follower: &mut Follower) {
    follower.begin_following(primary.timeline()).unwrap();
    let mut feed = feed_of(primary, follower);
    let (end, _) = primary.log_position().unwrap();
    primary.shared.pipeline.log().unwrap().sync(end).unwrap();
    let version = primary.world().version();
    while follower.position() < end {
        match feed.next_piece().unwrap() {
            None => std::thread::yield_now(),
            Some(Fed::File(name, mut file)) => {
                let mut received = follower.receive_file(&name).unwrap();
                received.write(&file.read(usize::MAX).unwrap()).unwrap();
                received.finish().unwrap();
            }
            Some(Fed::Records(records)) => follower.take(&records).unwrap(),
            Some(Fed::Published(version)) => follower.note_published(version),
            Some(Fed::Boundary(boundary)) => follower.note_boundary(boundary),
        }
    }
    follower.note_published(version);
    follower.note_boundary(version);
    feed.confirm(follower.sync().unwrap());
}

/// Closed directories, and what they must hold.
pub(super) struct Machines {
    pub(super) files: SimulatedFiles,
    pub(super) primary: Model,
    pub(super) replica: Model,
}

/// Works on a primary for so many steps.
pub(super) fn work(workload: &mut Workload, store: &Store, steps: u32) {
    for step in 0..steps {
        workload.step(store);
        if step % 4 == 3 {
            workload.step_bricks(store);
        }
    }
}

/// A primary that has just been promoted, and was closed.
pub(super) fn promoted(files: &SimulatedFiles, workload: &mut Workload) {
    let former = open_primary(files, FORMER).unwrap();
    work(workload, &former, 12);
    former.checkpoint().unwrap();
    copy_to(&former, files, PRIMARY).unwrap();
    work(workload, &former, 6);
    let (store, mut follower) = open_replica(files, PRIMARY).unwrap();
    take_all(&former, &mut follower);
    assert_eq!(store.world().version(), former.world().version());
    drop((store, follower, former));
    promote(files, Path::new(PRIMARY), Promise::asked_for(TIMELINE)).unwrap();
}

pub(super) fn machines(seed: u64) -> Machines {
    let files = SimulatedFiles::new(seed);
    let mut workload = Workload::new(seed);
    promoted(&files, &mut workload);
    let primary = open_primary(&files, PRIMARY).unwrap();
    workload.take_recovered(&primary.world()).unwrap();
    primary.create_slot(SLOT).unwrap();
    let mut kept = primary.whole_log_feed().unwrap();
    kept.keep_over_closes(1 << 30);
    work(&mut workload, &primary, 12);
    primary.checkpoint().unwrap();
    copy_to(&primary, &files, REPLICA).unwrap();
    work(&mut workload, &primary, 8);
    let (store, mut follower) = open_replica(&files, REPLICA).unwrap();
    take_all(&primary, &mut follower);
    store.checkpoint().unwrap();
    let replica = workload.model.clone();
    replica.check(&store.world()).unwrap();
    drop((follower, store));
    work(&mut workload, &primary, 8);
    primary.checkpoint().unwrap();
    work(&mut workload, &primary, 6);
    drop((kept, primary));
    for (dir, name) in BESIDE {
        let dir = Path::new(PRIMARY).join(dir);
        files.create_dir_all(&dir).unwrap();
        let file = files.open(&dir.join(name), crate::files::OpenMode::Create).unwrap();
        file.write_all_at(0, b"what lies beside a database").unwrap();
    }
    Machines { files: files.copy(), primary: workload.model, replica }
}

/// What a crash, a server or a repair leaves in a directory, and no workload here makes.
const BESIDE: [(&str, &str); 14] = [
    ("", "LOCK"),
    ("", "mock-secret"),
    ("", "pg_hba.conf"),
    ("", "served"),
    ("", "MANIFEST.tmp"),
    ("", "kept-log.tmp"),
    ("", "promise.tmp"),
    ("", "rewinding.tmp"),
    ("rewound", "1"),
    ("log", "00000000000000999999.log.tmp"),
    ("log", "end.tmp"),
    ("spill", "1"),
    ("segments", "00000000000000999999.arrow.tmp"),
    ("segments", "00000000000000999999.bricks.tmp"),
];
