// SPDX-License-Identifier: Apache-2.0
//! A directory that another process holds, and a disk that is full.

use crate::kills::Life;
use coeval::{CheckpointPolicy, Database, Error, Session, SqlState};
use coeval_store::files::{Fault, FileSystem, SimulatedFiles};
use coeval_store::{Store, StoreOptions};
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_directory_in_use_names_the_process_that_holds_it() {
    let dir = tempfile::tempdir().unwrap();
    let holder = Life::begin_and_wait(dir.path());
    let pid = format!("process {} ", holder.pid());
    for refused in [Database::open(dir.path()).err(), Database::check(dir.path()).err()] {
        let refused = refused.expect("one process at a time");
        assert_eq!(refused.state(), SqlState::ObjectInUse);
        assert!(refused.to_string().contains(&pid), "{refused} names {pid}");
    }
    holder.kill();
    Database::open(dir.path()).expect("the dead hold nothing");
}

fn open(files: &SimulatedFiles) -> Database {
    let files: Arc<dyn FileSystem> = Arc::new(files.clone());
    let options = StoreOptions { checkpoint: CheckpointPolicy::Manual, ..StoreOptions::default() };
    Database::with_store(Store::open_with(files, Path::new("/db"), options).unwrap()).unwrap()
}

fn insert(session: &mut Session, id: i64) -> Result<(), Error> {
    session.execute(&format!("INSERT INTO t VALUES ({id}, 'row {id}')")).map(drop)
}

fn count(session: &mut Session) -> i64 {
    let batches = session.query("SELECT count(*) FROM t").unwrap();
    coeval::value_at(batches[0].column(0).as_ref(), 0).as_i64().unwrap()
}

/// There is room for the next commits always: a full disk takes as many as fit there.
#[test]
fn a_full_disk_refuses_commits_that_have_no_room_and_nothing_else() {
    let files = SimulatedFiles::new(11);
    let mut last = 50;
    {
        let db = open(&files);
        let mut session = db.session();
        session.execute("CREATE TABLE t (id bigint PRIMARY KEY, note text)").unwrap();
        (1..=last).for_each(|id| insert(&mut session, id).unwrap());
        files.fail_randomly(1, Fault::DiskFull);
        let large = |id: i64| format!("INSERT INTO t VALUES ({id}, repeat('x', 100000))");
        let refused = loop {
            match session.execute(&large(last + 1)) {
                Ok(_) => last += 1,
                Err(error) => break error,
            }
            assert!(last < 100, "the disk is full");
        };
        assert_eq!(refused.state(), SqlState::DiskFull, "{refused}");
        assert_eq!(count(&mut session), last, "reads go on");
        files.heal();
        last += 1;
        session.execute(&large(last)).expect("with room there are commits again");
        assert_eq!(count(&mut session), last);
    }
    let db = open(&files.restart());
    let mut session = db.session();
    assert_eq!(count(&mut session), last, "what was refused is not there, what was acknowledged is");
}

/// The first of them may be found after a restart; the later ones were never begun.
#[test]
fn a_sync_that_fails_stops_commits_and_the_fate_of_the_one_under_way_is_said_to_be_unknown() {
    let files = SimulatedFiles::new(13);
    {
        let db = open(&files);
        let mut session = db.session();
        session.execute("CREATE TABLE t (id bigint PRIMARY KEY, note text)").unwrap();
        (1..=50).for_each(|id| insert(&mut session, id).unwrap());
        files.fail_randomly(1, Fault::Io);
        let unknown = insert(&mut session, 51).unwrap_err();
        assert_eq!(unknown.state(), SqlState::TransactionResolutionUnknown, "{unknown}");
        assert_eq!(count(&mut session), 50, "reads go on");
        files.heal();
        let later = insert(&mut session, 52).unwrap_err();
        assert_eq!(later.state(), SqlState::IoError, "a failed write is never taken back: {later}");
        assert_eq!(count(&mut session), 50);
    }
    let db = open(&files.restart());
    let mut session = db.session();
    let found = count(&mut session);
    assert!((50..=51).contains(&found), "what was acknowledged is there: {found}");
    insert(&mut session, 60).expect("with room there are commits again");
}

#[test]
fn a_checkpoint_on_a_full_disk_fails_and_commits_go_on() {
    let files = SimulatedFiles::new(12);
    let db = open(&files);
    let mut session = db.session();
    session.execute("CREATE TABLE t (id bigint PRIMARY KEY, note text)").unwrap();
    (1..=50).for_each(|id| insert(&mut session, id).unwrap());
    files.fail_after(1, Fault::DiskFull);
    let failed = session.execute("CHECKPOINT").unwrap_err();
    assert_eq!(failed.state(), SqlState::DiskFull, "{failed}");
    files.heal();
    insert(&mut session, 51).unwrap();
    session.execute("CHECKPOINT").unwrap();
    assert_eq!(count(&mut session), 51);
}
