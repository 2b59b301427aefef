// SPDX-License-Identifier: Apache-2.0
//! A replica that has nothing but the archive, with a storage that does what storages do.

use super::archiving::{archived, impatient, options, wait};
use super::faulty::Faulty;
use super::primary::{DIR, Moment, Primary, Rows, archive_in, restored, rows_in, rows_of};
use crate::archive::Archive;
use crate::archiver::{Archiver, ArchiverOptions};
use crate::backup::backup;
use crate::check::check;
use crate::contents::Contents;
use crate::entry::BackupEntry;
use crate::error::ArchiveError;
use crate::following::{ArchivedLog, ArchivedPart, copy_newest_to};
use crate::names::LOG;
use crate::restore::Target;
use coeval_store::files::SimulatedFiles;
use coeval_store::log::Lsn;
use coeval_store::{Candidacy, Fed, Follower, Store, StoreError, Timeline, WayBack, promote, rewind};
use coeval_txn::Version;
use coeval_txn::ssi::SessionFloor;
use object_store::ObjectStoreExt;
use object_store::path::Path as ObjectPath;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A replica, and what it asks the archive with.
pub(super) struct Copy {
    files: SimulatedFiles,
    log: ArchivedLog,
    open: Option<(Store, Follower)>,
    dice: StdRng,
    failures: u32,
    /// Whether it takes stretches that follow on as one.
    is_far: bool,
}

fn open(files: &SimulatedFiles) -> (Store, Follower) {
    Store::open_follower(Arc::new(files.clone()), Path::new(DIR), super::primary::options()).unwrap()
}

impl Copy {
    pub(super) fn of(archive: &Archive, seed: u64) -> Self {
        let files = SimulatedFiles::new(seed);
        let mut told = 0;
        copy_newest_to(archive, Arc::new(files.clone()), Path::new(DIR), &mut |bytes| told = bytes).unwrap();
        let log = ArchivedLog::new(archive, Arc::new(AtomicBool::new(false)));
        let open = Some(open(&files));
        Self { files, log, open, dice: StdRng::seed_from_u64(seed), failures: 0, is_far: false }
    }

    pub(super) fn store(&self) -> &Store {
        &self.open.as_ref().unwrap().0
    }

    fn position(&self) -> Lsn {
        self.open.as_ref().unwrap().1.position()
    }

    /// Takes a stretch, perhaps not all of it. Whether there was one.
    pub(super) fn take(&mut self) -> Result<bool, ArchiveError> {
        let (_, follower) = self.open.as_mut().unwrap();
        let (terms, position) = (follower.terms(), follower.position());
        let next = if self.is_far {
            self.log.next_together(&terms, position)?
        } else {
            self.log.next(&terms, position)?
        };
        let Some(stretch) = next else { return Ok(false) };
        for part in stretch.parts() {
            if self.dice.random_ratio(1, 20) {
                break;
            }
            match part {
                ArchivedPart::File(file) => {
                    file.write_to(follower.receive_file(file.name())?)?;
                }
                ArchivedPart::Records(records) => {
                    follower.take(records).unwrap();
                    follower.note_all_published();
                }
            }
        }
        Ok(true)
    }

    /// Asks the archive, which may not answer. If the log here is not the beginning of the newest history any more, this becomes a new
    /// copy, of a seed that is drawn for it. Whether it has.
    pub(super) fn take_or_copy_anew(&mut self, archive: &Archive, seeds: &mut StdRng) -> bool {
        match self.take() {
            Ok(_) | Err(ArchiveError::Unreachable { .. }) => false,
            Err(ArchiveError::Store(StoreError::ForeignHistory(_))) => {
                *self = Self::of(archive, seeds.random());
                true
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Takes all that a primary has, from that itself.
    pub(super) fn take_from(&mut self, primary: &Primary) {
        let (_, follower) = self.open.as_mut().unwrap();
        let term = follower.terms().last().map(|term| term.id);
        let mut feed = primary.store().log_feed(term, follower.position()).unwrap();
        while follower.position() < primary.last().end {
            match feed.next_piece().unwrap() {
                Some(Fed::File(name, mut file)) => {
                    let mut to = follower.receive_file(&name).unwrap();
                    loop {
                        let part = file.read(1 << 16).unwrap();
                        if part.is_empty() {
                            break;
                        }
                        to.write(&part).unwrap();
                    }
                    to.finish().unwrap();
                }
                Some(Fed::Records(records)) => follower.take(&records).unwrap(),
                Some(Fed::Published(_) | Fed::Boundary(_)) | None => {}
            }
        }
        follower.note_all_published();
    }

    /// How it can go on with the archive's newest history.
    fn way_back(&mut self) -> Result<(WayBack, Timeline), ArchiveError> {
        self.log.way_back(&self.open.as_ref().unwrap().1.as_former_primary())
    }

    /// Cuts its log back to a place at which it has parted from that of this timeline.
    fn cut_back(&mut self, place: Lsn, timeline: Timeline) {
        self.open = None;
        rewind(&self.files, Path::new(DIR), place, timeline).unwrap();
        self.open = Some(open(&self.files));
    }

    /// The same, and the storage may fail.
    fn try_take(&mut self) -> bool {
        match self.take() {
            Ok(took) => took,
            Err(ArchiveError::Unreachable { .. }) => {
                self.failures += 1;
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn take_up_to(&mut self, end: Lsn) {
        let begun = Instant::now();
        while self.position() < end {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", self.open.as_ref().unwrap().1);
            self.try_take();
        }
    }

    pub(super) fn restart(&mut self) {
        // One that is not closed may have less behind it.
        if self.dice.random() {
            self.open = None;
        }
        self.files = if self.dice.random_ratio(1, 2) { self.files.crash() } else { self.files.restart() };
        self.open = None;
        self.open = Some(open(&self.files));
    }

    /// Closes it and makes it a primary, on its own say alone. Its files.
    pub(super) fn promote(mut self) -> SimulatedFiles {
        let store = self.store();
        let timeline = store.timeline().next();
        let promise = Candidacy::begin(store, "copy", timeline).unwrap().outcome().unwrap();
        self.open = None;
        promote(&self.files, Path::new(DIR), promise).unwrap();
        self.files
    }

    /// The newest world and the safe one have what the primary had. The version of the safe one.
    pub(super) fn check(&self, moments: &[Moment]) -> Option<Version> {
        let at = |version| {
            let moment = moments.iter().rfind(|moment| moment.version <= version);
            moment.map_or_else(|| Arc::new(Rows::new()), |moment| Arc::clone(&moment.rows))
        };
        let version = self.store().world().version();
        assert!(rows_of(self.store()) == *at(version), "other rows at version {version}");
        let safe = self.store().begin_safe(&SessionFloor::default())?;
        let version = safe.begin_version();
        assert!(rows_in(&safe) == *at(version), "other rows in the safe snapshot of {version}");
        Some(version)
    }
}

/// Seen to fail if `ArchivedStretch::parts` gives all files behind the records; to break it, too: have `ArchivedLog::fetch` give a
/// stretch from its beginning on.
#[test]
fn a_replica_of_the_archive_alone_has_what_the_primary_had() {
    let (mut failures, mut safe) = (0, 0);
    for seed in 0..6 {
        let storage = Faulty::in_memory(seed, 10);
        let mut primary = Primary::new(seed + 300);
        let start = |primary: &Primary| {
            let options = ArchiverOptions { backup_log_bytes: 20_000, ..options() };
            Archiver::start(primary.store().clone(), impatient(&storage), options).unwrap()
        };
        let mut archiver = start(&primary);
        wait(&archiver, |status| status.last_backup.is_some());
        let mut copy = Copy::of(&archive_in(&storage), seed);
        copy.is_far = seed >= 4;
        for step in 0..150 {
            primary.step();
            if step % 4 == 0 {
                copy.try_take();
                safe += u32::from(copy.check(&primary.moments).is_some());
            }
            if step % 40 == 39 {
                copy.restart();
                drop(archiver);
                primary.reopen();
                archiver = start(&primary);
            }
        }
        wait(&archiver, archived(primary.last().end));
        copy.take_up_to(primary.last().end);
        copy.check(&primary.moments);
        assert!(rows_of(copy.store()) == *primary.last().rows);
        failures += copy.failures;
    }
    assert!(failures > 5 && safe > 20, "{failures} failures, {safe} safe snapshots");
}

/// Each part that is taken makes a world, of which most of a large table is copied: a replica that took one part of each stretch was half
/// as fast as one that had the same log from a primary.
#[test]
fn stretches_that_follow_on_are_taken_together() {
    let storage = Faulty::in_memory(12, 0);
    let mut primary = Primary::new(41);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    let mut copy = Copy::of(&archive_in(&storage), 1);
    (0..200).for_each(|_| primary.commit());
    primary.load();
    (0..200).for_each(|_| primary.commit());
    wait(&archiver, archived(primary.last().end));
    // The first record may begin the term, which the copy does not know before.
    let begun = copy.position();
    while copy.position() == begun {
        copy.take().unwrap();
    }
    let Copy { log, open, .. } = &mut copy;
    let (_, follower) = open.as_mut().unwrap();
    let (terms, position) = (follower.terms(), follower.position());
    let one = log.next(&terms, position).unwrap().unwrap();
    let together = log.next_together(&terms, position).unwrap().unwrap();
    assert!(one.end() < together.end() && together.end() >= primary.last().end, "{one:?}, {together:?}");
    let (mut files, mut groups) = (0, 0);
    for part in together.parts() {
        match part {
            ArchivedPart::File(file) => {
                file.write_to(follower.receive_file(file.name()).unwrap()).unwrap();
                files += 1;
            }
            ArchivedPart::Records(records) => {
                follower.take(records).unwrap();
                follower.note_all_published();
                groups += 1;
            }
        }
    }
    assert!(files > 0 && groups == 2, "{files} files, {groups} groups of records around them");
    assert_eq!(copy.position(), together.end());
    copy.check(&primary.moments);
    assert!(rows_of(copy.store()) == *primary.last().rows);
}

/// The last commit is safe once the log says so, which it does while nobody commits.
#[test]
fn the_last_commit_is_safe_on_a_replica_of_the_archive() {
    let storage = Faulty::in_memory(1, 0);
    let mut primary = Primary::new(31);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    let mut copy = Copy::of(&archive_in(&storage), 1);
    (0..20).for_each(|_| primary.commit());
    let begun = Instant::now();
    while copy.check(&primary.moments).is_none_or(|safe| safe < primary.last().version) {
        let (_, follower) = copy.open.as_ref().unwrap();
        let log = primary.store().log_position();
        assert!(begun.elapsed() < Duration::from_secs(30), "{follower:?}, {log:?}, {:?}", archiver.status());
        copy.take().unwrap();
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Seen to fail if `Contents::history_behind` looks at all histories, and not at the newest alone.
#[test]
fn the_newest_history_is_followed_or_none() {
    let storage = Faulty::in_memory(6, 5);
    let archive = archive_in(&storage);
    let mut old = Primary::new(6);
    let archiver = Archiver::start(old.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, archived(old.last().end));
    let mut early = Copy::of(&archive, 1);
    let mut late = Copy::of(&archive, 2);
    (0..9).for_each(|_| old.commit());
    old.load();
    let parting = old.last().clone();
    (0..9).for_each(|_| old.commit());
    wait(&archiver, archived(old.last().end));
    drop(archiver);
    late.take_up_to(old.last().end);
    late.check(&old.moments);

    let (_, files) = restored(&archive, Target::Lsn(parting.end), None);
    let mut new = Primary::restored(files, &old, &parting, 61);
    new.load();
    (0..20).for_each(|_| new.commit());
    let archiver = Archiver::start(new.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, archived(new.last().end));

    storage.percent.store(0, Ordering::SeqCst);
    early.take_up_to(new.last().end);
    early.check(&new.moments);
    let parted = late.take().unwrap_err();
    assert!(matches!(parted, ArchiveError::Store(StoreError::ForeignHistory(_))), "{parted}");
    late.check(&old.moments);

    // Another database's archive is none of ours.
    let another = archive_in(&Faulty::in_memory(2, 0));
    backup(Primary::new(7).store(), &another, &mut |_| {}).unwrap();
    early.log = ArchivedLog::new(&another, Arc::new(AtomicBool::new(false)));
    let refused = early.take().unwrap_err();
    assert!(matches!(refused, ArchiveError::AnotherDatabase { .. }), "{refused}");
}

/// A replica is promoted with less than another one has taken from the archive of the former primary. To break it: do not look
/// whether the log behind the place is there.
#[test]
fn a_replica_goes_back_to_a_timeline_that_begins_before_its_end() {
    let storage = Faulty::in_memory(8, 0);
    let archive = archive_in(&storage);
    let mut old = Primary::new(13);
    let archiver = Archiver::start(old.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, archived(old.last().end));
    let mut candidate = Copy::of(&archive, 1);
    let mut late = Copy::of(&archive, 2);
    (0..5).for_each(|_| old.commit());
    wait(&archiver, archived(old.last().end));
    candidate.take_up_to(old.last().end);
    let parting = old.last().clone();
    old.load();
    (0..9).for_each(|_| old.commit());
    wait(&archiver, archived(old.last().end));
    drop(archiver);
    late.take_up_to(old.last().end);
    late.check(&old.moments);

    let mut new = Primary::restored(candidate.promote(), &old, &parting, 71);
    assert!(
        matches!(late.way_back().unwrap().0, WayBack::AsItIs),
        "it is archived of the former primary alone"
    );
    let archiver = Archiver::start(new.store().clone(), impatient(&storage), options()).unwrap();
    new.load();
    (0..9).for_each(|_| new.commit());
    wait(&archiver, archived(new.last().end));
    let parted = late.take().unwrap_err();
    assert!(matches!(parted, ArchiveError::Store(StoreError::ForeignHistory(_))), "{parted}");
    let (way_back, timeline) = late.way_back().unwrap();
    let WayBack::CutBack(found) = way_back else { panic!("{way_back:?}") };
    assert_eq!(timeline, new.store().terms().timeline());
    late.cut_back(found.at, timeline);
    late.take_up_to(new.last().end);
    late.check(&new.moments);
    assert!(rows_of(late.store()) == *new.last().rows);
}

/// A replica that has streamed from the primary is ahead of the archive, and in a term that this does not know yet.
#[test]
fn an_archive_that_is_behind_is_waited_for() {
    let storage = Faulty::in_memory(1, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(8);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, archived(primary.last().end));
    drop(archiver);
    let mut copy = Copy::of(&archive, 1);
    copy.take_up_to(primary.last().end);
    primary.reopen();
    let mut feed = {
        let (_, follower) = copy.open.as_ref().unwrap();
        primary.store().log_feed(follower.terms().last().map(|term| term.id), follower.position()).unwrap()
    };
    (0..5).for_each(|_| primary.commit());
    primary.wait_durable();
    let (_, follower) = copy.open.as_mut().unwrap();
    while follower.position() < primary.last().end {
        if let Some(coeval_store::Fed::Records(records)) = feed.next_piece().unwrap() {
            follower.take(&records).unwrap();
            follower.note_all_published();
        }
    }
    assert_eq!(follower.terms().terms().len(), 2);
    assert!(!copy.take().unwrap());
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    primary.commit();
    wait(&archiver, archived(primary.last().end));
    copy.take_up_to(primary.last().end);
    copy.check(&primary.moments);
}

/// An archive of backups that were made by themselves, by a program that did not say so yet, failed every check. Seen to fail if what is not
/// said counts as `false`, and the last line if it counts as nothing to look at.
#[test]
fn of_backups_of_an_older_program_a_check_says_what_it_cannot_know() {
    let archive = archive_in(&Faulty::in_memory(1, 0));
    let mut primary = Primary::new(12);
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    (0..5).for_each(|_| primary.commit());
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let say = |is_alone: Option<bool>| {
        for name in Contents::read(&archive).unwrap().backups {
            let mut entry = BackupEntry::fetch(&archive, name).unwrap();
            entry.is_alone = is_alone;
            let bytes = entry.seal();
            let is_said = bytes.windows(8).any(|word| word == b"is_alone");
            assert_eq!(is_said, is_alone.is_some());
            archive.remove(&name.name()).unwrap();
            archive.put_new(&name.name(), bytes).unwrap();
        }
        check(&archive).unwrap()
    };
    let report = say(None);
    assert_eq!((report.gaps.len(), &report.gaps_of_unknown_kind), (1, &report.gaps));
    assert!(report.gaps_between_backups.is_empty() && report.is_whole());
    let report = say(Some(true));
    assert_eq!((report.gaps.len(), &report.gaps_between_backups), (1, &report.gaps));
    assert!(report.gaps_of_unknown_kind.is_empty() && report.is_whole());
    let report = say(Some(false));
    assert_eq!(report.lost_gaps().collect::<Vec<_>>(), report.gaps.iter().collect::<Vec<_>>());
    assert!(report.gaps.len() == 1 && !report.is_whole());
}

/// Backups that lie beyond the archived log are no log: who follows is told, and does not wait for ever.
#[test]
fn backups_alone_cannot_be_followed() {
    let archive = archive_in(&Faulty::in_memory(1, 0));
    let mut primary = Primary::new(11);
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let mut copy = Copy::of(&archive, 1);
    while copy.take().unwrap() {}
    (0..5).for_each(|_| primary.commit());
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let refused = copy.take().unwrap_err();
    let gap = if let ArchiveError::Gap(gap) = refused { gap } else { panic!("{refused}") };
    copy.check(&primary.moments);
    // Nobody has promised to send it, and a check takes it for no loss. Seen to fail if `backup` does not say that nobody has.
    let report = check(&archive).unwrap();
    assert_eq!((&report.gaps, &report.gaps_between_backups), (&vec![gap], &vec![gap]));
    assert!(report.is_whole());
}

/// Seen to fail if a gap is said without listing everything first.
#[test]
fn a_gap_is_named_and_log_that_comes_out_of_order_is_found() {
    let storage = Faulty::in_memory(1, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(9);
    let archiver = Archiver::start(primary.store().clone(), impatient(&storage), options()).unwrap();
    wait(&archiver, |status| status.last_backup.is_some());
    let mut copy = Copy::of(&archive, 1);
    copy.take_up_to(primary.last().end);
    // A stretch for each round, at least.
    for _ in 0..9 {
        (0..8).for_each(|_| primary.commit());
        wait(&archiver, archived(primary.last().end));
    }
    drop(archiver);
    let position = copy.position();
    let contents = Contents::read(&archive).unwrap();
    let term = contents.history(None).unwrap().last().id;
    let chunks: Vec<_> = contents.chunks_of(term).iter().filter(|chunk| chunk.start > position).collect();
    let (late, lost) = (chunks[chunks.len() / 3], chunks[chunks.len() * 2 / 3]);
    assert!(late.end < lost.start && late.name().starts_with(LOG));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let removed = [late, lost].map(|chunk| {
        let (name, path) = (chunk.name(), ObjectPath::from(chunk.name().as_str()));
        let bytes = archive.fetch(&name).unwrap();
        runtime.block_on(storage.inner.delete(&path)).unwrap();
        (name, bytes)
    });
    let [late_object, lost_object] = removed;
    // What lies behind it is known by the time that it comes.
    while copy.position() < late.start {
        copy.take().unwrap();
    }
    archive.put_new(&late_object.0, late_object.1).unwrap();
    while copy.position() < lost.start {
        copy.take().unwrap();
    }
    let refused = copy.take().unwrap_err();
    let gap = if let ArchiveError::Gap(gap) = refused { gap } else { panic!("{refused}") };
    assert_eq!((gap.from, gap.to), (lost.start, lost.end));
    archive.put_new(&lost_object.0, lost_object.1).unwrap();
    copy.take_up_to(primary.last().end);
    copy.check(&primary.moments);
    assert!(rows_of(copy.store()) == *primary.last().rows);
}

#[test]
fn a_copy_that_did_not_end_is_begun_anew() {
    let storage = Faulty::in_memory(1, 0);
    let archive = archive_in(&storage);
    let mut primary = Primary::new(10);
    (0..3).for_each(|number| primary.add_table(number));
    primary.commit();
    let empty = copy_newest_to(&archive, Arc::new(SimulatedFiles::new(1)), Path::new(DIR), &mut |_| {});
    assert!(matches!(empty, Err(ArchiveError::NoArchive { .. })), "{empty:?}");
    backup(primary.store(), &archive, &mut |_| {}).unwrap();
    let files = SimulatedFiles::new(2);
    let mut tries = 0;
    loop {
        storage.fails_from.store(storage.calls.load(Ordering::SeqCst) + tries, Ordering::SeqCst);
        let brief = archive.once();
        let copied = copy_newest_to(&brief, Arc::new(files.clone()), Path::new(DIR), &mut |_| {});
        if copied.is_ok() {
            break;
        }
        let opened = Store::open_follower(Arc::new(files.clone()), Path::new(DIR), super::primary::options());
        assert!(opened.is_err(), "half a copy is none");
        tries += 1;
    }
    assert!(tries > 5, "{tries}");
    storage.fails_from.store(u64::MAX, Ordering::SeqCst);
    let log = ArchivedLog::new(&archive, Arc::new(AtomicBool::new(false)));
    let (open, dice) = (Some(open(&files)), StdRng::seed_from_u64(1));
    let mut copy = Copy { files, log, open, dice, failures: 0, is_far: false };
    copy.take_up_to(primary.last().end);
    copy.check(&primary.moments);
    assert!(rows_of(copy.store()) == *primary.last().rows);
}
