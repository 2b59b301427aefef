// SPDX-License-Identifier: Apache-2.0
//! Rows of tables that are spread over a cluster are in backups, come back, and are never said to be where they are not.

use super::archiving::{impatient, options, wait};
use super::faulty::Faulty;
use super::primary::{Primary, archive_in, check_restore, restored};
use crate::archive::Archive;
use crate::archiver::{Archiver, ArchiverOptions};
use crate::backup::{Base, KnownFiles, backup, backup_with};
use crate::check::check;
use crate::collect::{Keep, collect};
use crate::error::ArchiveError;
use crate::log_sender::LogSender;
use crate::names::{BACKUPS, SEGMENTS, UNFINISHED};
use crate::restore::{RestoreReport, Target, restore};
use crate::restored_rows::RestoredRows;
use crate::spread_rows::{SpreadNext, SpreadPart, SpreadRows, SpreadSnapshot, SpreadSource};
use crate::spread_sender;
use coeval_store::LogTime;
use coeval_txn::Epoch;
use object_store::path::Path;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const ONE: Keep = Keep { count: 1, age: Duration::ZERO };

/// A cluster: the parts of each table, by its number.
///
/// # Locking
/// Leaves.
#[derive(Default)]
struct Nodes {
    tables: Mutex<BTreeMap<u64, (String, Vec<String>)>>,
    /// A snapshot gives so many parts, and then nobody answers.
    fails_behind: Mutex<Option<usize>>,
    /// One that was dropped after a snapshot was taken.
    dropped: Mutex<Option<u64>>,
}

struct Snapshot {
    tables: Vec<(u64, String)>,
    parts: VecDeque<(u64, String)>,
    left: Option<usize>,
    dropped: Option<u64>,
    epoch: u64,
}

impl Nodes {
    fn with(table: u64, name: &str) -> Self {
        let nodes = Self::default();
        nodes.tables.lock().unwrap().insert(table, (name.to_owned(), Vec::new()));
        nodes
    }

    /// One part more, as large as its text.
    fn load(&self, table: u64, part: &str) {
        self.tables.lock().unwrap().get_mut(&table).unwrap().1.push(part.to_owned());
    }

    fn back_up(&self, primary: &Primary, archive: &Archive) -> Result<crate::BackupReport, ArchiveError> {
        backup_with(primary.store(), archive, SpreadRows::Of(self), &mut |_| {})
    }
}

impl SpreadSource for Nodes {
    fn snapshot(&self) -> Result<Box<dyn SpreadSnapshot>, ArchiveError> {
        let tables = self.tables.lock().unwrap();
        let of_table = |(table, (_, parts)): (&u64, &(String, Vec<String>))| {
            parts.iter().map(|part| (*table, part.clone())).collect::<Vec<_>>()
        };
        let parts = tables.iter().flat_map(of_table);
        let parts: VecDeque<_> = parts.collect();
        Ok(Box::new(Snapshot {
            tables: tables.iter().map(|(table, (name, _))| (*table, name.clone())).collect(),
            epoch: parts.len() as u64,
            parts,
            left: *self.fails_behind.lock().unwrap(),
            dropped: *self.dropped.lock().unwrap(),
        }))
    }
}

impl SpreadSnapshot for Snapshot {
    fn epoch(&self) -> Epoch {
        Epoch::new(self.epoch)
    }

    fn tables(&self) -> Vec<(u64, String)> {
        self.tables.clone()
    }

    fn next(&mut self) -> Result<SpreadNext, ArchiveError> {
        match &mut self.left {
            Some(0) => return Err(ArchiveError::Spread("node 3 does not answer".to_owned())),
            Some(left) => *left -= 1,
            None => {}
        }
        let Some((table, part)) = self.parts.pop_front() else { return Ok(SpreadNext::End) };
        if self.dropped == Some(table) {
            self.parts.retain(|(other, _)| *other != table);
            return Ok(SpreadNext::Dropped(table));
        }
        let rows = part.len() as u64;
        Ok(SpreadNext::Part(SpreadPart { table, rows, bytes: part.into_bytes() }))
    }
}

/// Restores into a directory of its own, and reads what waits there: of each table its parts.
fn brought_back(archive: &Archive, target: Target) -> (RestoreReport, Vec<(u64, Vec<String>)>) {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("restored");
    let report = restore(archive, &dir, target, None).unwrap_or_else(|error| panic!("{target}: {error}"));
    let rows = rows_in(&dir);
    assert_eq!(report.spread.is_some(), rows.is_some(), "{report:?}");
    (report, rows.unwrap_or_default())
}

fn rows_in(dir: &std::path::Path) -> Option<Vec<(u64, Vec<String>)>> {
    let rows = RestoredRows::open(dir).unwrap()?;
    let tables = rows.tables().iter().map(|table| {
        let parts = table.parts.iter().map(|part| String::from_utf8(rows.read(part).unwrap()).unwrap());
        (table.table, parts.collect::<Vec<String>>())
    });
    Some(tables.collect())
}

fn texts(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

/// To break it: leave the time out of the names of such backups. The second one is taken for the first then, as the log stands still
/// between them.
#[test]
fn each_backup_has_the_rows_of_its_time_though_the_log_stands_still() {
    let archive = archive_in(&Faulty::in_memory(1, 0));
    let mut primary = Primary::new(1);
    primary.commit();
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    let large = "x".repeat(200_000);
    nodes.load(hits, &large);
    let first = nodes.back_up(&primary, &archive).unwrap();
    assert_eq!((first.spread_tables, first.spread_rows), (1, 200_000));
    assert!(first.bytes_sent > 200_000, "{first:?}");
    std::thread::sleep(Duration::from_millis(12));
    let between = LogTime::now();
    std::thread::sleep(Duration::from_millis(12));
    nodes.load(hits, "more");
    // It is finished later, when there is more log behind it.
    let source = SpreadRows::Of(&nodes);
    let sent = spread_sender::send(primary.store(), &archive, source, &mut || Ok(())).unwrap();
    let base = Base::send(primary.store(), &archive, &mut KnownFiles::new(), &mut |_| Ok(())).unwrap();
    std::thread::sleep(Duration::from_millis(12));
    primary.load();
    primary.wait_durable();
    let (copy, entry) = base.with_spread(sent).into_parts();
    let feed = copy.into_feed().unwrap();
    let mut sender = LogSender::new(archive.clone(), primary.store(), feed, 1 << 20);
    sender.send_to(primary.last().end, &mut |_| Ok(())).unwrap();
    let second = entry.finish(&archive, sender.sent().end, 0).unwrap();
    drop(sender);
    assert_eq!(second.spread_rows, 200_004);
    assert!(second.bytes_sent < 100_000, "what is there is not sent again: {second:?}");
    let (report, rows) = brought_back(&archive, Target::Latest);
    assert_eq!(rows, [(hits, texts(&[&large, "more"]))]);
    let spread = report.spread.unwrap();
    assert_eq!((spread.rows(), spread.epoch), (200_004, Epoch::new(2)));
    assert_eq!(spread.tables, [("hits".to_owned(), 200_004)]);
    let (_, rows) = brought_back(&archive, Target::Time(between));
    assert_eq!(rows, [(hits, texts(&[&large]))], "as they were then");
    check_restore(&archive, Target::Latest, None, primary.last());
}

/// To break it: have `spread_at` take the newest backup whatever its version. Rows of later than the moment come back then.
#[test]
fn a_moment_gets_rows_of_before_it() {
    let archive = archive_in(&Faulty::in_memory(2, 0));
    let mut primary = Primary::new(2);
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    nodes.load(hits, "one");
    nodes.back_up(&primary, &archive).unwrap();
    (0..5).for_each(|_| primary.commit());
    let moment = primary.last().clone();
    // It has the log up to its end, with this moment in it.
    backup_with(primary.store(), &archive, SpreadRows::LeftOut, &mut |_| {}).unwrap();
    (0..5).for_each(|_| primary.commit());
    nodes.load(hits, "two");
    nodes.back_up(&primary, &archive).unwrap();
    let (report, rows) = brought_back(&archive, Target::Version(moment.version));
    assert_eq!((report.version, rows), (moment.version, vec![(hits, texts(&["one"]))]));
    assert_eq!(report.left_out, ["hits"], "the backup that it began with has none");
    let spread = report.spread.unwrap();
    assert!(spread.backup < report.backup && spread.version < moment.version, "{spread:?}");
    let (report, rows) = brought_back(&archive, Target::Latest);
    assert_eq!((report.left_out, rows), (vec![], vec![(hits, texts(&["one", "two"]))]));
}

/// To break it: have a backup go on without rows that are not to be had.
#[test]
fn without_these_rows_there_is_no_backup_unless_that_is_asked_for() {
    let archive = archive_in(&Faulty::in_memory(3, 0));
    let mut primary = Primary::new(3);
    let hits = primary.add_spread_table("hits");
    let refused = backup(primary.store(), &archive, &mut |_| {}).unwrap_err();
    assert!(matches!(&refused, ArchiveError::SpreadElsewhere { tables } if tables == "hits"), "{refused}");
    assert!(refused.to_string().contains("--row-tables-alone"), "{refused}");
    let nodes = Nodes::with(hits, "hits");
    (0..200).for_each(|part| nodes.load(hits, &format!("part {part}")));
    for parts in [0, 1, 150, 200] {
        *nodes.fails_behind.lock().unwrap() = Some(parts);
        let refused = nodes.back_up(&primary, &archive).unwrap_err();
        assert!(matches!(&refused, ArchiveError::Spread(why) if why.contains("node 3")), "{refused}");
        assert_eq!(archive.list(BACKUPS).unwrap(), []);
    }
    let report = backup_with(primary.store(), &archive, SpreadRows::LeftOut, &mut |_| {}).unwrap();
    assert_eq!((report.spread_tables, report.spread_rows), (0, 0));
    let (restored, rows) = brought_back(&archive, Target::Latest);
    assert_eq!((restored.left_out, rows), (vec!["hits".to_owned()], vec![]));
    let found = check(&archive).unwrap();
    assert_eq!((found.left_out, found.spread), (vec![(report.position, "hits".to_owned())], vec![]));
    *nodes.fails_behind.lock().unwrap() = None;
    nodes.back_up(&primary, &archive).unwrap();
    let found = check(&archive).unwrap();
    assert_eq!((found.problems, found.spread.len(), found.spread[0].tables), (vec![], 1, 1));
    let (_, rows) = brought_back(&archive, Target::Latest);
    assert_eq!(rows[0].1.len(), 200);
    assert!(archive.list(UNFINISHED).unwrap().len() <= 4 * 4, "those of the backups that have failed");
}

/// Their rows are nobody's: a restore of any moment from the backup on does not have the table.
#[test]
fn a_table_that_is_dropped_meanwhile_is_left_out() {
    let archive = archive_in(&Faulty::in_memory(4, 0));
    let mut primary = Primary::new(4);
    let (hits, days) = (primary.add_spread_table("hits"), primary.add_spread_table("days"));
    let nodes = Nodes::with(hits, "hits");
    nodes.tables.lock().unwrap().insert(days, ("days".to_owned(), Vec::new()));
    nodes.load(hits, "hit");
    nodes.load(days, "day");
    *nodes.dropped.lock().unwrap() = Some(hits);
    let report = nodes.back_up(&primary, &archive).unwrap();
    assert_eq!(report.spread_tables, 1);
    assert_eq!(brought_back(&archive, Target::Latest).1, [(days, texts(&["day"]))]);
    // Once there is no such table, nothing is asked for, and nothing of before comes back.
    primary.drop_tables();
    *nodes.fails_behind.lock().unwrap() = Some(0);
    nodes.back_up(&primary, &archive).unwrap();
    let (report, rows) = brought_back(&archive, Target::Latest);
    assert_eq!((report.spread, report.left_out, rows), (None, vec![], vec![]));
}

/// To break it: leave the announcements of parts out of `send_group`. A collection beside the backup removes what it is going to name.
#[test]
fn what_an_unfinished_backup_has_sent_stays_and_the_rest_goes_with_its_backup() {
    let archive = archive_in(&Faulty::in_memory(5, 0));
    let mut primary = Primary::new(5);
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    nodes.load(hits, "one");
    nodes.back_up(&primary, &archive).unwrap();
    nodes.tables.lock().unwrap().get_mut(&hits).unwrap().1 = texts(&["two"]);
    let source = SpreadRows::Of(&nodes);
    let sent = spread_sender::send(primary.store(), &archive, source, &mut || Ok(())).unwrap();
    nodes.tables.lock().unwrap().get_mut(&hits).unwrap().1 = texts(&["three"]);
    nodes.back_up(&primary, &archive).unwrap();
    let report = collect(&archive, ONE).unwrap();
    assert_eq!(report.backups_removed, 1, "{report:?}");
    let base = Base::send(primary.store(), &archive, &mut KnownFiles::new(), &mut |_| Ok(())).unwrap();
    let (copy, entry) = base.with_spread(sent).into_parts();
    entry.finish(&archive, copy.position(), 0).unwrap();
    assert_eq!(check(&archive).unwrap().problems, []);
    // The older of the two is the one whose rows were taken first.
    assert_eq!(brought_back(&archive, Target::Latest).1, [(hits, texts(&["three"]))]);
    let before = archive.list(SEGMENTS).unwrap().len();
    collect(&archive, ONE).unwrap();
    let left = check(&archive).unwrap();
    assert_eq!((left.backups.len(), left.unnamed_pieces, left.problems), (1, 0, vec![]));
    assert!(archive.list(SEGMENTS).unwrap().len() < before);
    assert_eq!(archive.list(UNFINISHED).unwrap(), []);
}

/// To break it: have `collect` count backups alone. The last rows go with the backup that has them then.
#[test]
fn the_last_rows_stay_for_backups_that_have_left_them_out() {
    let archive = archive_in(&Faulty::in_memory(6, 0));
    let mut primary = Primary::new(6);
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    for part in ["one", "two"] {
        nodes.load(hits, part);
        nodes.back_up(&primary, &archive).unwrap();
    }
    for _ in 0..2 {
        primary.load();
        backup_with(primary.store(), &archive, SpreadRows::LeftOut, &mut |_| {}).unwrap();
    }
    let report = collect(&archive, ONE).unwrap();
    assert_eq!((report.backups_kept, report.backups_removed), (3, 1), "{report:?}");
    assert_eq!(brought_back(&archive, Target::Latest).1, [(hits, texts(&["one", "two"]))]);
    nodes.back_up(&primary, &archive).unwrap();
    assert_eq!(collect(&archive, ONE).unwrap().backups_kept, 1);
    assert_eq!(brought_back(&archive, Target::Latest).1, [(hits, texts(&["one", "two"]))]);
}

#[test]
fn a_backup_with_rows_that_ends_anywhere_is_none() {
    let storage = Faulty::in_memory(7, 0);
    let archive = archive_in(&storage);
    let impatient = archive.with_patience(archive.patience().once());
    let mut primary = Primary::new(7);
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    nodes.load(hits, "before");
    nodes.back_up(&primary, &archive).unwrap();
    (0..5).for_each(|part| nodes.load(hits, &format!("part {part}")));
    let mut failed = 0;
    for after in 0.. {
        storage.fails_from.store(storage.calls.load(Ordering::SeqCst) + after, Ordering::SeqCst);
        let outcome = nodes.back_up(&primary, &impatient);
        storage.fails_from.store(u64::MAX, Ordering::SeqCst);
        if outcome.is_ok() {
            break;
        }
        failed += 1;
        assert_eq!(check(&archive).unwrap().problems, []);
        if failed % 3 == 0 {
            collect(&archive, ONE).unwrap();
            assert_eq!(brought_back(&archive, Target::Latest).1, [(hits, texts(&["before"]))]);
        }
    }
    assert!(failed > 8, "{failed}");
    assert_eq!(brought_back(&archive, Target::Latest).1[0].1.len(), 6);
}

/// To break it: write the list of a restore before its parts, or leave what an earlier restore has brought.
#[test]
fn a_restore_that_ends_anywhere_is_begun_again() {
    let storage = Faulty::in_memory(8, 0);
    let archive = archive_in(&storage);
    let impatient = archive.with_patience(archive.patience().once());
    let mut primary = Primary::new(8);
    primary.commit();
    let plain = backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    (0..9).for_each(|part| nodes.load(hits, &format!("part {part}")));
    nodes.back_up(&primary, &archive).unwrap();
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("restored");
    let mut failed = 0;
    for after in 0.. {
        storage.fails_from.store(storage.calls.load(Ordering::SeqCst) + after, Ordering::SeqCst);
        let outcome = restore(&impatient, &dir, Target::Latest, None);
        storage.fails_from.store(u64::MAX, Ordering::SeqCst);
        if outcome.is_ok() {
            break;
        }
        failed += 1;
    }
    assert!(failed > 12, "{failed}");
    assert_eq!(rows_in(&dir).unwrap()[0].1.len(), 9);
    // One that has ended behind these rows, and is begun again for a moment without.
    let other = home.path().join("other");
    let [from, to] = [&dir, &other].map(|dir| dir.join("cluster").join("restored"));
    std::fs::create_dir_all(&to).unwrap();
    for name in ["rows", "000001", "000002"] {
        std::fs::copy(from.join(name), to.join(name)).unwrap();
    }
    std::fs::write(other.join("unfinished-copy"), "").unwrap();
    restore(&archive, &other, Target::Lsn(plain.position), None).unwrap();
    assert_eq!(rows_in(&other), None);
    assert_eq!(std::fs::read_dir(&to).unwrap().count(), 0);
}

#[test]
fn damage_of_rows_is_named_and_refused() {
    let storage = Faulty::in_memory(9, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(9);
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    let before = archive.list(SEGMENTS).unwrap();
    nodes.load(hits, "some rows");
    spread_sender::send(primary.store(), &archive, SpreadRows::Of(&nodes), &mut || Ok(())).unwrap();
    let pieces = archive.list(SEGMENTS).unwrap();
    assert_eq!((before.len(), pieces.len()), (0, 1));
    nodes.back_up(&primary, &archive).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(storage.damage(&Path::from(pieces[0].0.as_str()), 3));
    let report = check(&archive).unwrap();
    assert!(report.problems.iter().any(|problem| problem.object.starts_with(&pieces[0].0)), "{report:?}");
    let home = tempfile::tempdir().unwrap();
    let refused = restore(&archive, &home.path().join("restored"), Target::Latest, None).unwrap_err();
    assert!(matches!(&refused, ArchiveError::Damaged { object, .. } if *object == pieces[0].0), "{refused}");
}

/// To break it: have `open` believe the list, or leave parts that nobody needs.
#[test]
fn rows_that_wait_are_checked_and_go_as_a_whole() {
    let archive = archive_in(&Faulty::in_memory(10, 0));
    let mut primary = Primary::new(10);
    let hits = primary.add_spread_table("hits");
    let nodes = Nodes::with(hits, "hits");
    (0..3).for_each(|part| nodes.load(hits, &format!("part {part}")));
    nodes.back_up(&primary, &archive).unwrap();
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("restored");
    restore(&archive, &dir, Target::Latest, None).unwrap();
    let rows = RestoredRows::open(&dir).unwrap().unwrap();
    let folder = rows.folder().to_owned();
    std::fs::write(folder.join("000002"), "part x").unwrap();
    let parts = &rows.tables()[0].parts;
    assert!(rows.read(&parts[0]).is_ok() && rows.read(&parts[2]).is_ok());
    assert!(matches!(rows.read(&parts[1]), Err(ArchiveError::Damaged { .. })));
    // Whoever removes them is killed behind the list.
    std::fs::remove_file(folder.join("rows")).unwrap();
    assert_eq!(RestoredRows::open(&dir).unwrap(), None);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    assert_eq!(RestoredRows::open(&home.path().join("nothing")).unwrap(), None);
}

/// To break it: have the archiver wait for log before it makes a backup, or for a node that does not answer.
#[test]
fn an_archiver_backs_up_rows_and_goes_on_without_them() {
    let storage = Faulty::in_memory(11, 0);
    let mut primary = Primary::new(11);
    let hits = primary.add_spread_table("hits");
    let nodes = Arc::new(Nodes::with(hits, "hits"));
    nodes.load(hits, "one");
    *nodes.fails_behind.lock().unwrap() = Some(0);
    let options = ArchiverOptions { backup_interval: Duration::from_millis(50), ..options() };
    let source: Arc<dyn SpreadSource> = Arc::<Nodes>::clone(&nodes);
    let archiver =
        Archiver::start_with(primary.store().clone(), impatient(&storage), options, Some(source)).unwrap();
    let first = wait(&archiver, |status| status.last_backup.is_some());
    let archive = archive_in(&storage);
    assert!(check(&archive).unwrap().left_out.iter().all(|(_, tables)| tables == "hits"));
    *nodes.fails_behind.lock().unwrap() = None;
    wait(&archiver, |_| check(&archive).unwrap().spread.iter().any(|spread| spread.rows == 3));
    nodes.load(hits, "two");
    wait(&archiver, |_| check(&archive).unwrap().spread.iter().any(|spread| spread.rows == 6));
    assert!(archiver.status().last_backup > first.last_backup);
    drop(archiver);
    let (report, _) = restored(&archive, Target::Latest, None);
    assert_eq!(report.spread.map(|spread| spread.rows()), Some(6));
    assert_eq!(brought_back(&archive, Target::Latest).1, [(hits, texts(&["one", "two"]))]);
}

/// To break it: have `Worker::back_up` go on without rows, whatever the backup is for. While a node is away for an hour, six backups without
/// rows take the places of six others among those that are kept.
#[test]
fn while_rows_are_not_to_be_had_they_are_asked_for_and_no_more_backups_made() {
    let storage = Faulty::in_memory(12, 0);
    let mut primary = Primary::new(12);
    let hits = primary.add_spread_table("hits");
    let nodes = Arc::new(Nodes::with(hits, "hits"));
    nodes.load(hits, "one");
    *nodes.fails_behind.lock().unwrap() = Some(0);
    let options = ArchiverOptions { rows_pause: Duration::from_millis(20), ..options() };
    let source: Arc<dyn SpreadSource> = Arc::<Nodes>::clone(&nodes);
    let archiver =
        Archiver::start_with(primary.store().clone(), impatient(&storage), options, Some(source)).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    let archive = archive_in(&storage);
    std::thread::sleep(Duration::from_millis(500));
    let found = check(&archive).unwrap();
    assert_eq!((found.backups.len(), found.left_out.len()), (1, 1));
    drop(archiver);
    *nodes.fails_behind.lock().unwrap() = None;
    // The next one finds in the archive what is owed.
    let source: Arc<dyn SpreadSource> = Arc::<Nodes>::clone(&nodes);
    let archiver =
        Archiver::start_with(primary.store().clone(), impatient(&storage), options, Some(source)).unwrap();
    wait(&archiver, |_| check(&archive).unwrap().spread.iter().any(|spread| spread.rows == 3));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(check(&archive).unwrap().backups.len(), 2, "nothing is owed any more");
}
