// SPDX-License-Identifier: Apache-2.0
//! Behind a failover: a replica that lacks some log, of which the promoted one has had checkpoints.

use super::*;
use crate::catalog::TableDef;
use crate::column::ColumnBuilder;
use crate::files::FileSystem;
use crate::kept_log::FILE_NAME;
use crate::segment::SEGMENT_DIR;
use crate::types::ColumnType;
use crate::value::Value;
use arrow::array::RecordBatch;
use std::ops::Range;

const LAST: &str = "/last";

/// More than all log of these tests.
const EVERYTHING: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Crash,
}

/// A primary with one table, `ahead` that has all of it, and `last` that lacks what came behind its copy.
struct Three {
    primary: Store,
    files: SimulatedFiles,
    ahead: (Store, Follower),
    last: (Store, Follower),
    next_row: i32,
}

impl Three {
    fn new() -> Self {
        let (primary, _, files, store, follower) = small_pair_with_files();
        let last_files = SimulatedFiles::new(3);
        copy_to(&primary, &last_files, Path::new(LAST));
        let dir = Path::new(LAST);
        let mut last =
            Store::open_follower_tuned(Arc::new(last_files), dir, options(), log_options(), sizes()).unwrap();
        take_all(&mut feed_of(&primary, &last.1).unwrap(), &mut last.1);
        Self { primary, files, ahead: (store, follower), last, next_row: 100 }
    }

    /// Loads rows, which are in a file of their own, and changes each of them, so that no checkpoint needs that file.
    fn load_and_change(&mut self, count: i32) {
        let def = self.primary.world().tables().next().unwrap().def().clone();
        let ids = self.next_row..self.next_row + count;
        self.next_row = ids.end;
        self.load(&def, ids.clone());
        for id in ids {
            change(&self.primary, id, id + 1);
        }
    }

    fn load(&self, def: &TableDef, ids: Range<i32>) {
        let mut transaction = self.primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        let columns = [1, -1].map(|factor| {
            let mut column = ColumnBuilder::new(ColumnType::Int, 0);
            ids.clone().for_each(|id| column.push(Value::Int32(id * factor).borrow()));
            column.finish()
        });
        let schema = transaction.view(def.id).unwrap().schema();
        let batch = RecordBatch::try_new(schema, columns.to_vec()).unwrap();
        transaction.bulk_insert(def.id, &[batch]).unwrap();
        transaction.commit().unwrap();
    }

    /// Has the one ahead take everything, and make a checkpoint.
    fn checkpoint_ahead(&mut self) {
        let (store, follower) = &mut self.ahead;
        let mut feed = feed_of(&self.primary, follower).unwrap();
        take_all(&mut feed, follower);
        feed.confirm(follower.sync().unwrap());
        store.checkpoint().unwrap();
    }

    /// The primary is lost, and the one ahead is promoted: what it is then, and the last one.
    fn fail_over(self, keep_bytes: u64, end: End) -> (Store, Store, Follower) {
        let Self { primary, files, ahead, last, .. } = self;
        let crash = |files: SimulatedFiles| if end == End::Crash { files.crash() } else { files };
        // A machine that crashes closes nothing before.
        let files = crash(files);
        drop((primary, ahead));
        promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
        let files = crash(files);
        let options = StoreOptions { log_keep_bytes: keep_bytes, ..options() };
        let open = |files: &SimulatedFiles| {
            let dir = Path::new(COPY);
            Store::open_tuned(Arc::new(files.clone()), dir, options, log_options(), sizes()).unwrap()
        };
        let promoted = open(&files);
        change(&promoted, 1, 17);
        promoted.checkpoint().unwrap();
        let files = crash(files);
        drop(promoted);
        let promoted = open(&files);
        change(&promoted, 1, 18);
        promoted.checkpoint().unwrap();
        (promoted, last.0, last.1)
    }
}

fn change(store: &Store, id: i32, value: i32) {
    let def = store.world().tables().next().unwrap().def().clone();
    let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.put(def.id, row(&def, id, value)).unwrap();
    transaction.commit().unwrap();
}

/// How many files the one ahead has of loads, which have the numbers of the primary; those of its own checkpoints are in a stretch
/// far beyond.
fn load_files(files: &SimulatedFiles) -> usize {
    let names = files.list(&Path::new(COPY).join(SEGMENT_DIR)).unwrap();
    names.iter().filter(|name| name.starts_with("0000000000")).count()
}

/// Seen to fail if places are not noted in `kept-log`, if an open removes what belongs to them, and if what is kept for them
/// is log alone.
#[test]
fn it_follows_the_promoted_one_from_where_it_was_if_that_keeps_enough() {
    for (end, keep_bytes) in
        [(End::Close, EVERYTHING), (End::Crash, EVERYTHING), (End::Close, 0), (End::Crash, 0)]
    {
        let mut three = Three::new();
        three.ahead.0.set_log_keep_bytes(keep_bytes);
        assert_eq!(three.ahead.0.log_keep_bytes(), keep_bytes);
        for _ in 0..3 {
            three.load_and_change(60);
            three.checkpoint_ahead();
        }
        let (promoted, store, mut follower) = three.fail_over(keep_bytes, end);
        let before = follower.position();
        let mut feed = feed_of(&promoted, &follower).unwrap();
        if keep_bytes == 0 {
            let refused = feed.next_piece();
            assert!(matches!(refused, Err(StoreError::Log(LogError::Gone { .. }))), "{end:?}: {refused:?}");
            continue;
        }
        take_all(&mut feed, &mut follower);
        assert!(follower.position() > before);
        let (here, there) = (store.world(), promoted.world());
        assert_eq!(here.version(), there.version(), "{end:?}");
        let rows = |store: &Store| {
            let def = store.world().tables().next().unwrap().def().clone();
            let transaction = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
            let value = |id| transaction.get(def.id, &key(id)).unwrap().map(|row| row.get(1).as_i64());
            (0..400).map(value).collect::<Vec<_>>()
        };
        let (here, there) = (rows(&store), rows(&promoted));
        assert_eq!(here, there);
        assert_eq!(here.iter().flatten().count(), 181);
    }
}

#[test]
fn what_is_not_asked_for_any_more_goes_with_the_next_checkpoint() {
    let mut three = Three::new();
    three.ahead.0.set_log_keep_bytes(EVERYTHING);
    for _ in 0..3 {
        three.load_and_change(60);
        three.checkpoint_ahead();
    }
    assert_eq!(load_files(&three.files), 3);
    // Whoever keeps something for an archive lets nothing go of it.
    feed_of(&three.ahead.0, &three.ahead.1).unwrap().keep_over_closes(1);
    change(&three.primary, 1, 2);
    three.checkpoint_ahead();
    assert_eq!(load_files(&three.files), 3);
    assert!(feed_of(&three.ahead.0, &three.last.1).unwrap().next_piece().unwrap().is_some());
    three.ahead.0.set_log_keep_bytes(0);
    change(&three.primary, 1, 3);
    three.checkpoint_ahead();
    assert_eq!(load_files(&three.files), 0);
    assert!(!three.files.exists(&Path::new(COPY).join(FILE_NAME)).unwrap());
    let refused = feed_of(&three.ahead.0, &three.last.1).unwrap().next_piece();
    assert!(matches!(refused, Err(StoreError::Log(LogError::Gone { .. }))), "{refused:?}");
}

/// Seen to fail if files of loads stay as long as the log from before them does.
#[test]
fn a_load_that_is_more_than_is_asked_for_goes_before_the_log_around_it() {
    let mut three = Three::new();
    three.ahead.0.set_log_keep_bytes(40_000);
    let def = table(&three.primary, "large");
    let commit = |change| {
        let mut transaction = three.primary.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(change).unwrap();
        transaction.commit().unwrap();
    };
    commit(CatalogChange::PutTable(Box::new(def.clone())));
    three.load(&def, 0..60_000);
    commit(CatalogChange::RemoveTable(def.id));
    three.checkpoint_ahead();
    assert_eq!(load_files(&three.files), 0);
    // One that came behind it finds what it lacks.
    let files = SimulatedFiles::new(4);
    copy_to(&three.ahead.0, &files, Path::new(LAST));
    let dir = Path::new(LAST);
    three.last = Store::open_follower_tuned(Arc::new(files), dir, options(), log_options(), sizes()).unwrap();
    for value in 0..3 {
        (1..20).for_each(|id| change(&three.primary, id, value));
        three.checkpoint_ahead();
    }
    let (promoted, store, mut follower) = three.fail_over(40_000, End::Crash);
    take_all(&mut feed_of(&promoted, &follower).unwrap(), &mut follower);
    assert_eq!(store.world().version(), promoted.world().version());
}

/// What a feed is going to give: the bytes of log and of files. It takes all of it.
fn bytes_of(feed: &mut LogFeed) -> u64 {
    let (from, mut files) = (feed.position(), 0);
    while let Some(fed) = feed.next_piece().unwrap() {
        if let Fed::File(_, file) = fed {
            files += file.length();
        }
    }
    feed.position().get() - from.get() + files
}

/// Takes what is durable, and waits for nothing.
fn take_what_is_there(from: &Store, follower: &mut Follower) -> Result<(), FollowError> {
    let mut feed = feed_of(from, follower)?;
    while take(&mut feed, follower)? {}
    Ok(())
}

/// Random work, checkpoints, closes and crashes of the one that is promoted in the end, and a last one that is at a random place.
/// Seen to fail if what an open finds noted is not kept, and if one place less is kept.
#[test]
fn whoever_lacks_no_more_than_is_asked_for_follows_the_promoted_one() {
    let (mut covered, mut refused) = (0, 0);
    for (seed, keep_bytes) in (0..40).zip([0, 3_000, 15_000, 30_000, 60_000].into_iter().cycle()) {
        let options = StoreOptions { log_keep_bytes: keep_bytes, ..options() };
        let follow = |files: &SimulatedFiles, dir| {
            let files = Arc::new(files.clone());
            Store::open_follower_tuned(files, Path::new(dir), options, log_options(), sizes()).unwrap()
        };
        let primary = open_primary(&SimulatedFiles::new(seed));
        let (mut files, last_files) = (SimulatedFiles::new(seed + 100), SimulatedFiles::new(seed + 200));
        let mut workload = Workload::new(seed);
        (0..10).for_each(|_| drop(workload.step(&primary)));
        primary.checkpoint().unwrap();
        copy(&primary, &files);
        copy_to(&primary, &last_files, Path::new(LAST));
        let (mut ahead, mut last) = (follow(&files, COPY), follow(&last_files, LAST));
        let stops = workload.dice.random_range(15..30);
        for round in 0..30 {
            (0..3).for_each(|_| drop(workload.step(&primary)));
            take_what_is_there(&primary, &mut ahead.1).unwrap();
            ahead.1.sync().unwrap();
            if round < stops {
                take_what_is_there(&primary, &mut last.1).unwrap();
            }
            match workload.dice.random_range(0..8) {
                0..3 => drop(ahead.0.checkpoint().unwrap()),
                3 => {
                    files = files.crash();
                    drop(ahead);
                    ahead = follow(&files, COPY);
                }
                4 => {
                    drop(ahead);
                    ahead = follow(&files, COPY);
                }
                _ => {}
            }
        }
        let mut lacking = bytes_of(&mut feed_of(&primary, &last.1).unwrap());
        let before = ahead.1.position();
        drop((primary, ahead));
        promote(&files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
        let open = |files: &SimulatedFiles| {
            let files = Arc::new(files.clone());
            Store::open_tuned(files, Path::new(COPY), options, log_options(), sizes()).unwrap()
        };
        let mut promoted = open(&files);
        for name in ["one more", "and another"] {
            let mut transaction = promoted.begin(Isolation::Snapshot, AccessMode::ReadWrite);
            let def = table(&promoted, name);
            transaction.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
            transaction.commit().unwrap();
            promoted.checkpoint().unwrap();
            files = files.crash();
            drop(promoted);
            promoted = open(&files);
        }
        lacking += promoted.log_position().unwrap().0.get() - before.get();
        match take_what_is_there(&promoted, &mut last.1) {
            Ok(()) => assert_eq!(last.0.world().version(), promoted.world().version(), "seed {seed}"),
            Err(FollowError::Store(StoreError::Log(LogError::Gone { .. }))) => {
                assert!(lacking > keep_bytes, "seed {seed}: it lacks {lacking} of {keep_bytes}");
                refused += 1;
            }
            Err(error) => panic!("seed {seed}: {error}"),
        }
        covered += u32::from(keep_bytes > 0 && lacking <= keep_bytes);
    }
    assert!(covered >= 8 && refused >= 8, "{covered} who are to follow, {refused} refused");
}
