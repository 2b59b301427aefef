// SPDX-License-Identifier: Apache-2.0
//! What a replica makes of an archive, with and without a primary that does not answer.

use super::{Replica, ReplicaState, ReplicaStatus, ToldOfPanic};
use crate::address::PrimaryAddress;
use crate::error::ReplicaError;
use crate::rejoining::{Kinship, NewHistory};
use crate::source::{ArchiveSource, Sources};
use coeval_archive::{Archive, Archiver, ArchiverOptions, ArchiverStatus, backup, copy_newest};
use coeval_store::files::DiskFiles;
use coeval_store::log::Lsn;
use coeval_store::{
    AccessMode, Candidacy, CatalogChange, FormerPrimary, LogTime, Store, StoreOptions, promote, rewind,
};
use coeval_txn::Isolation;
use parking_lot::Mutex;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn open(dir: &Path) -> Store {
    Store::open_with(Arc::new(DiskFiles), dir, StoreOptions::default()).unwrap()
}

fn commit(store: &Store, schema: &str) {
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutSchema(schema.to_owned())).unwrap();
    transaction.commit().unwrap();
}

fn archiver(store: &Store, archive: &Archive) -> Archiver {
    let options =
        ArchiverOptions { archive_timeout: Duration::from_millis(20), ..ArchiverOptions::default() };
    let archiver = Archiver::start(store.clone(), archive.clone(), options).unwrap();
    until(|| archiver.status(), |status| status.last_backup.is_some());
    archiver
}

fn until<T: std::fmt::Debug>(look: impl Fn() -> T, wanted: impl Fn(&T) -> bool) -> T {
    let begun = Instant::now();
    loop {
        let found = look();
        if wanted(&found) {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{found:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A primary that is not there.
fn nobody() -> PrimaryAddress {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    PrimaryAddress::parse(&format!("host=127.0.0.1,port={port},user=copy")).unwrap()
}

fn start(dir: &Path, archive: &Archive, primary: Option<PrimaryAddress>) -> (Store, Replica) {
    start_with_clocks(dir, archive, primary, None)
}

fn start_with_clocks(
    dir: &Path,
    archive: &Archive,
    primary: Option<PrimaryAddress>,
    clock_difference: Option<Duration>,
) -> (Store, Replica) {
    let (store, follower) = Store::open_follower(Arc::new(DiskFiles), dir, StoreOptions::default()).unwrap();
    let interval = Duration::from_millis(10);
    let archive = ArchiveSource { archive: archive.clone(), interval, clock_difference };
    let sources = Sources { primary, archive: Some(archive), peers: Vec::new() };
    (store, Replica::start(follower, sources, None).unwrap())
}

/// Seen to fail if a primary that does not answer ends the attempt, as it does without an archive.
#[test]
fn the_archive_is_followed_whether_there_is_a_primary_or_not() {
    let home = tempfile::tempdir().unwrap();
    let archive = Archive::open(home.path().join("archive").to_str().unwrap()).unwrap();
    let primary = open(&home.path().join("primary"));
    commit(&primary, "first");
    let archiver = archiver(&primary, &archive);
    let dir = home.path().join("copy");
    let mut told = 0;
    copy_newest(&archive, &dir, &mut |bytes| told = bytes).unwrap();
    for (round, address) in [None, Some(nobody())].into_iter().enumerate() {
        commit(&primary, &format!("round_{round}"));
        let end = primary.log_position().unwrap().0;
        let has_primary = address.is_some();
        let (store, replica) = start(&dir, &archive, address);
        let status = until(|| replica.status(), |status| status.durable >= end);
        match (&status.state, has_primary) {
            (ReplicaState::FollowingArchive(None), false) => {}
            (ReplicaState::FollowingArchive(Some(why)), true) => assert!(why.contains("connection"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert_eq!((status.applied, status.time), (status.durable, primary.log_time()));
        assert_eq!(store.world().version(), primary.world().version());
    }
    let archived: ArchiverStatus = archiver.stop();
    assert_eq!(archived.failures, 0);
}

#[test]
fn what_cannot_be_followed_is_said_and_a_primary_may_yet_come() {
    let home = tempfile::tempdir().unwrap();
    let place = |name: &str| Archive::open(home.path().join(name).to_str().unwrap()).unwrap();
    let (archive, another, empty) = (place("archive"), place("another"), place("empty"));
    let primary = open(&home.path().join("primary"));
    commit(&primary, "first");
    backup(&primary, &archive, &mut |_| {}).unwrap();
    let stranger = open(&home.path().join("stranger"));
    commit(&stranger, "first");
    backup(&stranger, &another, &mut |_| {}).unwrap();
    let dir = home.path().join("copy");
    copy_newest(&archive, &dir, &mut |_| {}).unwrap();
    let ends_with =
        |archive: &Archive, primary: Option<PrimaryAddress>, wanted: &dyn Fn(&ReplicaStatus) -> bool| {
            let (_store, replica) = start(&dir, archive, primary);
            until(|| replica.status(), wanted);
        };
    let stopped = |status: &ReplicaStatus| matches!(&status.state, ReplicaState::Stopped(why) if why.contains("is the archive of"));
    ends_with(&another, None, &stopped);
    let waits = |what: &'static str| move |status: &ReplicaStatus| matches!(&status.state, ReplicaState::Connecting(Some(why)) if why.contains(what));
    // The primary, once it is there, has the log.
    ends_with(&another, Some(nobody()), &waits("is the archive of"));
    ends_with(&empty, None, &waits("there is no archive"));
    // Log that is between two backups, and in neither.
    commit(&primary, "second");
    backup(&primary, &archive, &mut |_| {}).unwrap();
    ends_with(&archive, None, &waits("is missing"));
}

/// Fails if the times in the log are taken for those of this clock whether or not somebody vouches for that, or never.
#[test]
fn how_old_the_log_of_an_archive_is_says_who_vouches_for_the_clocks() {
    let home = tempfile::tempdir().unwrap();
    let archive = Archive::open(home.path().join("archive").to_str().unwrap()).unwrap();
    let primary = open(&home.path().join("primary"));
    commit(&primary, "first");
    let _archiver = archiver(&primary, &archive);
    let dir = home.path().join("copy");
    copy_newest(&archive, &dir, &mut |_| {}).unwrap();
    let difference = Duration::from_secs(1_000);
    for clocks in [None, Some(difference)] {
        commit(&primary, if clocks.is_none() { "second" } else { "third" });
        let (store, replica) = start_with_clocks(&dir, &archive, None, clocks);
        let end = primary.log_position().unwrap().0;
        until(|| replica.status(), |status| status.durable >= end);
        let Some(difference) = clocks else {
            assert_eq!(store.current_at(), None);
            continue;
        };
        let at = until(|| store.current_at(), Option::is_some).expect("it was waited for");
        let age = at.elapsed();
        assert!(age >= difference && age < difference + Duration::from_secs(120), "{age:?}");
    }
}

fn follow_until(dir: &Path, archive: &Archive, end: Lsn) {
    let (_store, replica) = start(dir, archive, None);
    until(|| replica.status(), |status| status.durable >= end);
}

/// A replica was promoted with less than this one has from the archive. Fails if an archive's history that has parted is all that is
/// said, as it is where nobody was promoted.
#[test]
fn a_replica_of_an_archive_is_to_be_cut_back_to_one_that_was_promoted() {
    let home = tempfile::tempdir().unwrap();
    let archive = Archive::open(home.path().join("archive").to_str().unwrap()).unwrap();
    let primary = open(&home.path().join("primary"));
    commit(&primary, "first");
    let archiving = archiver(&primary, &archive);
    let [late, promoted] = ["late", "promoted"].map(|name| home.path().join(name));
    for dir in [&late, &promoted] {
        copy_newest(&archive, dir, &mut |_| {}).unwrap();
    }
    commit(&primary, "common");
    let common = primary.log_position().unwrap().0;
    follow_until(&promoted, &archive, common);
    commit(&primary, "lost");
    follow_until(&late, &archive, primary.log_position().unwrap().0);
    drop(archiving);
    let promise = {
        let (store, _follower) =
            Store::open_follower(Arc::new(DiskFiles), &promoted, StoreOptions::default()).unwrap();
        Candidacy::begin(&store, "promoted", store.timeline().next()).unwrap().outcome().unwrap()
    };
    promote(&DiskFiles, &promoted, promise).unwrap();
    let new = open(&promoted);
    let archiving = archiver(&new, &archive);
    commit(&new, "new");
    let end = new.log_position().unwrap().0;
    until(|| archiving.status(), |status| status.archived.is_some_and(|archived| archived >= end));

    let found = {
        let (_store, replica) = start(&late, &archive, None);
        let is_parted = |status: &ReplicaStatus| matches!(&status.state, ReplicaState::Stopped(why) if why.contains("cut back"));
        until(|| replica.status(), is_parted);
        let found = replica.parted_from.borrow().clone();
        found.expect("it has stopped for that")
    };
    assert!(found.to_string().starts_with("the archive "), "{found}");
    let own = FormerPrimary::look(&DiskFiles, &late).unwrap();
    match found.kinship(&own).unwrap() {
        Kinship::Rewindable { place, timeline } => {
            rewind(&DiskFiles, &late, place, timeline).unwrap();
        }
        other => panic!("{other:?}"),
    }
    let (store, replica) = start(&late, &archive, None);
    until(|| replica.status(), |status| status.durable >= end);
    assert_eq!((store.terms(), store.world().version()), (new.terms(), new.world().version()));
}

/// Fails if the way back is asked for alone: a primary of which the archive lacked the last term was to be put aside, though nobody had come
/// after it, and one that had archived everything was to be a replica of itself.
#[test]
fn a_former_primary_hears_from_the_archive_alone_who_has_come_after_it() {
    let home = tempfile::tempdir().unwrap();
    let archive = Archive::open(home.path().join("archive").to_str().unwrap()).unwrap();
    let [dir, promoted] = ["primary", "promoted"].map(|name| home.path().join(name));
    let found = || {
        let own = FormerPrimary::look(&DiskFiles, &dir).unwrap();
        NewHistory::In(archive.clone()).kinship_of_primary(&own)
    };
    let primary = open(&dir);
    commit(&primary, "first");
    let archiving = archiver(&primary, &archive);
    let end = primary.log_position().unwrap().0;
    until(|| archiving.status(), |status| status.archived.is_some_and(|archived| archived >= end));
    drop((archiving, primary));
    let is_alone = |found: Result<Kinship, ReplicaError>| {
        matches!(found, Ok(Kinship::Stranger(ReplicaError::NotSucceeded { .. })))
    };
    assert!(is_alone(found()), "all that it has is in the archive");
    copy_newest(&archive, &promoted, &mut |_| {}).unwrap();
    follow_until(&promoted, &archive, end);
    let primary = open(&dir);
    commit(&primary, "lost");
    drop(primary);
    assert!(is_alone(found()), "it has gone on in a term that the archive does not know");

    let promise = {
        let (store, _follower) =
            Store::open_follower(Arc::new(DiskFiles), &promoted, StoreOptions::default()).unwrap();
        Candidacy::begin(&store, "promoted", store.timeline().next()).unwrap().outcome().unwrap()
    };
    promote(&DiskFiles, &promoted, promise).unwrap();
    let new = open(&promoted);
    let archiving = archiver(&new, &archive);
    commit(&new, "new");
    let end = new.log_position().unwrap().0;
    until(|| archiving.status(), |status| status.archived.is_some_and(|archived| archived >= end));
    match found().unwrap() {
        Kinship::Rewindable { place, timeline } => {
            let rewound = rewind(&DiskFiles, &dir, place, timeline).unwrap();
            assert!(rewound.transactions > 0 && rewound.place == place, "{rewound:?}");
        }
        other => panic!("{other:?}"),
    }
    let (store, replica) = start(&dir, &archive, None);
    until(|| replica.status(), |status| status.durable >= end);
    assert_eq!((store.terms(), store.world().version()), (new.terms(), new.world().version()));
}

#[test]
fn a_thread_that_a_bug_has_ended_is_no_follower() {
    for panics in [false, true] {
        let status = Arc::new(Mutex::new(ReplicaStatus {
            state: ReplicaState::Following,
            taken: Lsn::START,
            applied: Lsn::START,
            durable: Lsn::START,
            time: LogTime::default(),
            last_word: None,
        }));
        let told = ToldOfPanic(Arc::clone(&status));
        let thread = std::thread::spawn(move || {
            let _told = told;
            assert!(!panics, "as a test of it");
        });
        assert_eq!(thread.join().is_err(), panics);
        assert_eq!(matches!(status.lock().state, ReplicaState::Stopped(_)), panics);
    }
}
