// SPDX-License-Identifier: Apache-2.0
//! Machines that have nothing in common but an archive: a primary that archives, and replicas that follow from the archive
//! alone, over a storage that fails, hangs, answers late and puts without saying so. Processes and machines die; a replica
//! is promoted and archives into the same place, in a timeline of its own, while the former primary is gone or goes on. Then
//! every moment that the archive has comes back, of each history, and the archive has nothing that its primary has lost.

use super::archiving::{archived, impatient, options, wait};
use super::faulty::{Faulty, HANG};
use super::following::Copy;
use super::primary::{Moment, Primary, archive_in, check_restore, restored, rows_of};
use crate::archive::Archive;
use crate::archiver::{Archiver, ArchiverOptions};
use crate::check::check;
use crate::patience::Patience;
use crate::restore::Target;
use coeval_store::log::Lsn;
use coeval_store::{Store, Term};
use coeval_txn::Version;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What one primary has committed, and how much of it the archive has.
struct History {
    /// The last of its terms that the archive has.
    term: Term,
    moments: Vec<Moment>,
    /// The archive has its log up to here; more, if the storage took what it said that it did not take.
    end: Lsn,
}

impl History {
    /// Of a primary whose log is archived up to here.
    fn of(primary: &Primary, end: Lsn) -> Self {
        let terms = primary.store().terms();
        let term = terms.terms().iter().rfind(|term| term.start < end).copied();
        let term = term.expect("the first term is archived before anything else happens");
        Self { term, moments: primary.moments.clone(), end }
    }

    /// Some moments behind the first backup come back, by each way of naming them. How many.
    fn check(&self, archive: &Archive, from: Version, dice: &mut StdRng) -> usize {
        let is_there = |moment: &&Moment| moment.version > from && moment.end <= self.end;
        let moments: Vec<_> = self.moments.iter().filter(is_there).collect();
        let Some(last) = moments.last() else { return 0 };
        let chosen: Vec<_> = (0..5).map(|_| moments[dice.random_range(0..moments.len())]).collect();
        for moment in chosen.iter().chain([last]) {
            let history = Some(self.term.id);
            check_restore(archive, Target::Version(moment.version), history, moment);
            check_restore(archive, Target::Lsn(moment.end), history, moment);
            if moment.time < last.time {
                let of_time = moments.iter().rfind(|other| other.time == moment.time);
                check_restore(
                    archive,
                    Target::Time(moment.time),
                    history,
                    of_time.expect("it is one itself"),
                );
            }
        }
        chosen.len() + 1
    }
}

/// What the archive has beyond what a primary that has just been opened again knows of, if it has anything. Nobody archives.
fn beyond(archive: &Archive, primary: &Primary, told: Option<Lsn>) -> Option<String> {
    let (end, _) = primary.store().log_position().expect("it has a log");
    if let Some(told) = told.filter(|told| *told > end) {
        return Some(format!("the archive has the log up to {told}, and the primary up to {end}"));
    }
    let term = primary.store().terms().terms().iter().rfind(|term| Some(term.start) < told).copied()?;
    let (report, _) = restored(archive, Target::Latest, Some(term.id));
    let version = primary.store().world().version();
    (report.version > version).then(|| format!("the archive has {}, the primary {version}", report.version))
}

/// What has happened.
#[derive(Debug, Default)]
struct Counts {
    failovers: usize,
    /// Where the former primary went on.
    parted: usize,
    crashes: usize,
    /// Commits that a primary lost in them.
    lost: usize,
    restores: usize,
    /// Replicas that had to be copied anew.
    copies: usize,
    faults: u64,
}

/// See the module.
struct Machines {
    storage: Arc<Faulty>,
    dice: StdRng,
    primary: Primary,
    archiver: Option<Archiver>,
    /// The archive has the primary's log up to here; it may be more.
    told: Option<Lsn>,
    copies: Vec<Copy>,
    past: Vec<History>,
    counts: Counts,
}

/// Archives what a primary has into a storage that hangs.
pub(super) fn start(storage: &Arc<Faulty>, store: &Store) -> Archiver {
    let options = ArchiverOptions { backup_log_bytes: 20_000, ..options() };
    let archive = impatient(storage);
    // So that a call that hangs is given up, and may be carried out nevertheless.
    let patience = Patience { attempt_max: HANG / 3, ..archive.patience() };
    Archiver::start(store.clone(), archive.with_patience(patience), options).unwrap()
}

impl Machines {
    fn new(seed: u64) -> Self {
        let storage = Faulty::in_memory(seed, 8);
        storage.hangs.store(5, Ordering::SeqCst);
        let primary = Primary::new(seed + 700);
        let archiver = start(&storage, primary.store());
        wait(&archiver, |status| status.last_backup.is_some());
        let copies = (0..2).map(|number| Copy::of(&archive_in(&storage), seed * 10 + number)).collect();
        Self {
            storage,
            dice: StdRng::seed_from_u64(seed),
            primary,
            archiver: Some(archiver),
            told: None,
            copies,
            past: Vec::new(),
            counts: Counts::default(),
        }
    }

    fn step(&mut self) {
        match self.dice.random_range(0..100) {
            0..60 => self.primary.step(),
            60..90 => {
                let copy = self.dice.random_range(0..self.copies.len());
                self.take(copy);
            }
            90..95 => {
                let copy = self.dice.random_range(0..self.copies.len());
                self.copies[copy].restart();
                self.look_at(copy);
            }
            95..98 => self.restart(),
            _ => std::thread::sleep(options().poll),
        }
    }

    /// A replica asks the archive. One whose log is not the beginning of the newest history any more is copied anew.
    fn take(&mut self, copy: usize) {
        let archive = archive_in(&self.storage);
        self.counts.copies += usize::from(self.copies[copy].take_or_copy_anew(&archive, &mut self.dice));
        self.look_at(copy);
    }

    /// A replica has what the primary of its timeline had.
    fn look_at(&self, copy: usize) {
        let copy = &self.copies[copy];
        let timeline = copy.store().terms().timeline().get() as usize;
        let moments = self.past.get(timeline - 1).map_or(&self.primary.moments, |past| &past.moments);
        copy.check(moments);
    }

    /// The primary dies, and comes back: its process, or the whole machine.
    fn restart(&mut self) {
        let archiver = self.archiver.take().expect("it runs between steps");
        // One that was stopped before the storage has answered does not know.
        self.told = self.told.max(archiver.stop().archived);
        if self.dice.random_ratio(1, 2) {
            self.primary.reopen();
        } else {
            // Nobody syncs these, as the archiver has ended.
            (0..5).for_each(|_| self.primary.commit());
            self.counts.lost += self.primary.crash();
            self.counts.crashes += 1;
            assert_eq!(beyond(&archive_in(&self.storage), &self.primary, self.told), None);
        }
        self.archiver = Some(start(&self.storage, self.primary.store()));
    }

    /// The primary is lost, or nobody reaches it; a replica takes its place. What it does not have is part of the former
    /// history alone.
    fn fail_over(&mut self) {
        let candidate = self.dice.random_range(0..self.copies.len());
        self.hear_of_timeline(candidate);
        let archiver = self.archiver.take().expect("it runs between steps");
        let is_parted = self.dice.random_ratio(1, 2);
        let former = if is_parted {
            Ok(archiver)
        } else {
            self.storage.is_gone.store(true, Ordering::SeqCst);
            let told = archiver.stop().archived;
            self.storage.is_gone.store(false, Ordering::SeqCst);
            Err(told)
        };
        for _ in 0..self.dice.random_range(0..6) {
            self.take(candidate);
        }
        let copy = self.copies.swap_remove(candidate);
        let version = copy.store().world().version();
        let moment = self.primary.moments.iter().rfind(|moment| moment.version <= version).unwrap().clone();
        let mut files = copy.promote();
        if self.dice.random_ratio(1, 2) {
            files = files.crash();
        }
        let new = Primary::restored(files, &self.primary, &moment, self.dice.random());
        assert!(rows_of(new.store()) == *moment.rows, "a promoted replica has what it had");
        let mut former_primary = std::mem::replace(&mut self.primary, new);
        self.archiver = Some(start(&self.storage, self.primary.store()));
        let told = match former {
            Err(told) => told,
            Ok(archiver) => {
                for _ in 0..20 {
                    former_primary.step();
                    self.primary.step();
                }
                self.counts.parted += 1;
                archiver.stop().archived
            }
        };
        let told = self.told.take().max(told).expect("it was archived before anybody followed it");
        self.past.push(History::of(&former_primary, told));
        // So that the timeline of the new one is in its log, whatever becomes of it.
        self.commit();
        self.primary.wait_durable();
        self.copies.push(Copy::of(&archive_in(&self.storage), self.dice.random()));
        self.counts.failovers += 1;
    }

    fn commit(&mut self) {
        let before = self.primary.moments.len();
        while self.primary.moments.len() == before {
            self.primary.commit();
        }
    }

    /// Whoever promotes a replica by hand takes one that has followed the primary there is: nobody gives promises here, and
    /// one of an older timeline would begin the same one for the second time.
    fn hear_of_timeline(&mut self, copy: usize) {
        let begun = Instant::now();
        while self.copies[copy].store().terms().timeline() < self.primary.store().terms().timeline() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the archive does not hear of a timeline");
            self.take(copy);
            std::thread::sleep(options().poll);
        }
    }

    fn run(&mut self) {
        let from = self.primary.last().version;
        for _ in 0..3 {
            for _ in 0..60 {
                self.step();
            }
            self.fail_over();
        }
        for _ in 0..30 {
            self.step();
        }
        let archiver = self.archiver.take().expect("it runs between steps");
        self.commit();
        let told = wait(&archiver, archived(self.primary.last().end)).archived.expect("just now");
        drop(archiver);
        self.storage.percent.store(0, Ordering::SeqCst);
        self.storage.hangs.store(0, Ordering::SeqCst);
        let archive = archive_in(&self.storage);
        let report = check(&archive).unwrap();
        assert_eq!(report.problems, vec![]);
        let newest = History::of(&self.primary, told);
        for history in self.past.iter().chain([&newest]) {
            self.counts.restores += history.check(&archive, from, &mut self.dice);
        }
        check_restore(&archive, Target::Latest, None, self.primary.last());
        self.counts.faults = self.storage.faults.load(Ordering::SeqCst);
    }
}

/// So many seeds; `COEVAL_ARCHIVE_FAILOVERS` asks for more.
const SEEDS: u64 = 2;

#[test]
fn histories_of_promoted_replicas_come_back_each_as_it_was() {
    let seeds =
        std::env::var("COEVAL_ARCHIVE_FAILOVERS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut all = Counts::default();
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut machines = Machines::new(seed);
        machines.run();
        let counts = machines.counts;
        all.failovers += counts.failovers;
        all.parted += counts.parted;
        all.crashes += counts.crashes;
        all.lost += counts.lost;
        all.restores += counts.restores;
        all.copies += counts.copies;
        all.faults += counts.faults;
    }
    println!("{seeds} seeds: {all:?}");
    let seeds = seeds as usize;
    assert!(seeds < 20 || all.lost > 0, "a crash that loses nothing is none");
    assert!(all.failovers == 3 * seeds && all.restores > 10 * seeds && all.faults > 20 * seeds as u64);
}

/// The rule that only what is durable is archived, switched off from the other side: the disk forgets what was synced.
#[test]
fn an_archive_that_has_what_its_primary_has_lost_is_seen() {
    let storage = Faulty::in_memory(1, 0);
    let mut primary = Primary::new(1);
    let archiver = start(&storage, primary.store());
    wait(&archiver, |status| status.last_backup.is_some());
    let disk = primary.disk();
    (0..20).for_each(|_| primary.commit());
    let told = wait(&archiver, archived(primary.last().end)).archived;
    drop(archiver);
    let archive = archive_in(&storage);
    primary.crash();
    assert_eq!(beyond(&archive, &primary, told), None);
    primary.go_back_to(disk);
    assert!(beyond(&archive, &primary, told).is_some());
}
