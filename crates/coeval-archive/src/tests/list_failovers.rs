// SPDX-License-Identifier: Apache-2.0
//! Clients that append to lists, several at once at SERIALIZABLE, and clients that read them on replicas which follow an archive alone: over
//! failovers, crashes and a storage that fails and hangs, as in `failovers.rs`. Each history that the archive has is serializable, with
//! all that was read on replicas, and so is what a restore brings back of it, at its end and at moments before.
//!
//! A replica of an archive gives nobody's commits a guarantee, so a promoted one may lack the last of them. Then histories part: what
//! the new primary has is looked at with the transactions that it has, what the former one goes on with is looked at in the archive.
//!
//! The history and what is wrong with it are those of the simulation of failovers in `coeval-store`.

#[path = "../../../coeval-store/src/following/tests/failover/history.rs"]
mod history;

use super::archiving::{archived, options, wait};
use super::failovers::start;
use super::faulty::Faulty;
use super::following::Copy;
use super::primary::{DIR, archive_in, key, restored};
use crate::archive::Archive;
use crate::archiver::Archiver;
use crate::check::check;
use crate::restore::Target;
use coeval_store::files::SimulatedFiles;
use coeval_store::log::Lsn;
use coeval_store::{
    AccessMode, CatalogChange, ColumnDef, ColumnType, Direction, KeyRange, QualifiedName, Row, RowWriter,
    SpaceId, Store, StoreError, TableDef, Term, Transaction, ValueRef,
};
use coeval_txn::ssi::SessionFloor;
use coeval_txn::{Isolation, Version};
use history::{Ending, History, List, Recorded, Value};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const LISTS: List = 6;

/// So many transactions are open at a primary.
const SESSIONS: usize = 4;

/// All lists by their numbers.
type Lists = BTreeMap<List, Vec<Value>>;

/// Whether readers of replicas get what they are to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    AllKept,
    /// They get the newest world of the replica, in the place of a safe one.
    NewestWorld,
}

/// How a primary ends that comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    OfProcess,
    OfMachine,
}

fn name() -> QualifiedName {
    QualifiedName::new("public", "lists")
}

fn row(def: &TableDef, list: List, values: &[Value]) -> Row {
    let text: Vec<_> = values.iter().map(Value::to_string).collect();
    let mut writer = RowWriter::new(def.layout());
    writer.push(ValueRef::Int32(list)).unwrap();
    writer.push(ValueRef::Text(&text.join(" "))).unwrap();
    writer.finish()
}

fn values(text: ValueRef<'_>) -> Vec<Value> {
    text.as_str().unwrap().split(' ').map(|value| value.parse().unwrap()).collect()
}

fn lists_in(transaction: &Transaction) -> Lists {
    let Some(def) = transaction.resolve_table(&name()) else { return Lists::new() };
    let rows = transaction.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
    rows.map(|found| found.unwrap().1)
        .map(|row| (List::try_from(row.get(0).as_i64().unwrap()).unwrap(), values(row.get(1))))
        .collect()
}

fn lists_of(store: &Store) -> Lists {
    lists_in(&store.begin(Isolation::Snapshot, AccessMode::ReadOnly))
}

fn open(files: &SimulatedFiles) -> Store {
    Store::open_with(Arc::new(files.clone()), Path::new(DIR), super::primary::options()).unwrap()
}

/// A transaction that has ended, as its client knows it.
#[derive(Clone)]
struct Told {
    recorded: Recorded,
    /// Of its commit; of one that only read there is none.
    version: Option<Version>,
}

/// What the clients of one history of the database know.
#[derive(Clone, Default)]
struct Branch(Vec<Told>);

impl Branch {
    /// What a database has of it that has the commits up to this version and no later ones: these, and who has read nothing else.
    fn up_to(&self, version: Version) -> Self {
        let has = |told: &&Told| told.version.is_some_and(|at| at <= version);
        let writers = self.0.iter().filter(has);
        let values: BTreeSet<_> = writers.flat_map(|told| told.recorded.appends.iter().copied()).collect();
        let is_there = |list: List, read: &[Value]| read.iter().all(|value| values.contains(&(list, *value)));
        let told = self.0.iter().filter(|told| match told.version {
            Some(at) => at <= version,
            None => told.recorded.reads.iter().all(|(list, read)| is_there(*list, read)),
        });
        Self(told.cloned().collect())
    }

    /// What was appended by later commits.
    fn behind(&self, version: Version) -> impl Iterator<Item = (List, Value)> {
        let later = self.0.iter().filter(move |told| told.version.is_some_and(|at| at > version));
        later.flat_map(|told| told.recorded.appends.iter().copied())
    }

    /// What is wrong with the lists of a database that has the commits up to this version.
    fn anomaly(&self, version: Version, lists: &Lists) -> Option<String> {
        let transactions = self.up_to(version).0.into_iter().map(|told| told.recorded).collect();
        History { transactions }.anomaly(lists)
    }
}

/// A transaction that is open.
struct Session {
    transaction: Transaction,
    reads: Vec<(List, Vec<Value>)>,
    appends: Vec<(List, Value)>,
}

impl Session {
    /// Reads a list, and notes what it was before the own appends, which are at its end.
    fn read(&mut self, table: SpaceId, list: List) -> Vec<Value> {
        let row = self.transaction.get(table, &key(list)).unwrap();
        let found = row.map(|row| values(row.get(1))).unwrap_or_default();
        let own = self.appends.iter().filter(|(to, _)| *to == list).count();
        self.reads.push((list, found[..found.len() - own].to_vec()));
        found
    }

    /// Appends a value. False if that is refused: the transaction is to be rolled back.
    fn append(&mut self, def: &TableDef, list: List, value: Value) -> bool {
        let mut found = self.read(def.id, list);
        found.push(value);
        self.appends.push((list, value));
        self.transaction.put(def.id, row(def, list, &found)).is_ok()
    }
}

/// A database that takes commits, with its clients.
struct Side {
    files: SimulatedFiles,
    store: Option<Store>,
    def: TableDef,
    sessions: [Option<Session>; SESSIONS],
    branch: Branch,
}

impl Side {
    fn new(seed: u64) -> Self {
        let files = SimulatedFiles::new(seed);
        let store = open(&files);
        let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("list", ColumnType::Text)];
        let def = TableDef::new(store.new_space_id(), name(), columns, vec![0]);
        let mut transaction = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
        transaction.commit().unwrap();
        Self { files, store: Some(store), def, sessions: Default::default(), branch: Branch::default() }
    }

    /// A replica of another one that was promoted, and has shown its commits up to this version.
    fn promoted(files: SimulatedFiles, of: &Self, shown: Version) -> Self {
        let store = open(&files);
        let version = store.world().version();
        assert!(version >= shown, "a promoted replica has what it had: {version}, and {shown} before");
        let (def, branch) = (of.def.clone(), of.branch.up_to(version));
        Self { files, store: Some(store), def, sessions: Default::default(), branch }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("it is open between steps")
    }

    fn begin(&self) -> Session {
        let transaction = self.store().begin(Isolation::Serializable, AccessMode::ReadWrite);
        Session { transaction, reads: Vec::new(), appends: Vec::new() }
    }

    /// One of the clients goes on.
    fn act(&mut self, dice: &mut StdRng, next: &mut Value) {
        let place = dice.random_range(0..SESSIONS);
        let Some(mut session) = self.sessions[place].take() else {
            self.sessions[place] = Some(self.begin());
            return;
        };
        let list = dice.random_range(0..LISTS);
        let is_open = match dice.random_range(0..10) {
            0..4 => {
                session.read(self.def.id, list);
                true
            }
            4..7 => {
                *next += 1;
                session.append(&self.def, list, *next)
            }
            7..9 => {
                self.commit(session);
                return;
            }
            _ => dice.random_bool(0.7),
        };
        self.sessions[place] = is_open.then_some(session);
    }

    /// Commits, unless that is refused. The version of what was written, if anything was.
    fn commit(&mut self, session: Session) -> Option<Version> {
        let Session { transaction, reads, appends } = session;
        let committed = match transaction.commit() {
            Ok(committed) => committed.version,
            Err(StoreError::Conflict(_)) => return None,
            Err(error) => panic!("{error}"),
        };
        let version = (!appends.is_empty()).then_some(committed);
        self.note(format!("on the primary at {committed}"), reads, appends, version);
        version
    }

    fn note(
        &mut self,
        what: String,
        reads: Vec<(List, Vec<Value>)>,
        appends: Vec<(List, Value)>,
        version: Option<Version>,
    ) {
        let recorded = Recorded { what, reads, appends, behind: None, ending: Ending::Acknowledged };
        self.branch.0.push(Told { recorded, version });
    }

    /// Commits something for certain. The end of the log behind it.
    fn commit_something(&mut self, next: &mut Value) -> Lsn {
        loop {
            let mut session = self.begin();
            *next += 1;
            let is_appended = session.append(&self.def, 0, *next);
            if is_appended && self.commit(session).is_some() {
                let (end, _) = self.store().log_position().expect("it has a log");
                return end;
            }
        }
    }

    /// It ends and comes back. What was appended by commits that are lost with it.
    fn come_back(&mut self, end: End) -> Vec<(List, Value)> {
        // Before the store is closed, which would make all of it durable.
        self.files = match end {
            End::OfProcess => self.files.restart(),
            End::OfMachine => self.files.crash(),
        };
        self.sessions = Default::default();
        self.store = None;
        self.store = Some(open(&self.files));
        let version = self.store().world().version();
        let lost = self.branch.behind(version).collect();
        self.branch = self.branch.up_to(version);
        lost
    }
}

/// A history in which nobody goes on any more.
struct Past {
    branch: Branch,
    /// The last of its terms that the archive has.
    term: Term,
}

/// What has happened.
#[derive(Debug, Default)]
struct Counts {
    failovers: usize,
    crashes: usize,
    commits: usize,
    on_replicas: usize,
    restores: usize,
    faults: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.failovers += other.failovers;
        self.crashes += other.crashes;
        self.commits += other.commits;
        self.on_replicas += other.on_replicas;
        self.restores += other.restores;
        self.faults += other.faults;
    }
}

/// See the module.
struct Machines {
    storage: Arc<Faulty>,
    dice: StdRng,
    rule: Rule,
    primary: Side,
    archiver: Option<Archiver>,
    /// The archive has the primary's log up to here; it may be more.
    told: Option<Lsn>,
    copies: Vec<Copy>,
    past: Vec<Past>,
    next: Value,
    /// What a primary has lost in a crash: the archive, and who follows it, never had it.
    lost: BTreeSet<(List, Value)>,
    anomaly: Option<String>,
    counts: Counts,
}

impl Machines {
    fn new(seed: u64, rule: Rule) -> Self {
        let storage = Faulty::in_memory(seed, 8);
        storage.hangs.store(5, Ordering::SeqCst);
        let primary = Side::new(seed + 900);
        let archiver = start(&storage, primary.store());
        wait(&archiver, |status| status.last_backup.is_some());
        let copies = (0..2).map(|number| Copy::of(&archive_in(&storage), seed * 10 + number)).collect();
        Self {
            storage,
            dice: StdRng::seed_from_u64(seed),
            rule,
            primary,
            archiver: Some(archiver),
            told: None,
            copies,
            past: Vec::new(),
            next: 0,
            lost: BTreeSet::new(),
            anomaly: None,
            counts: Counts::default(),
        }
    }

    fn step(&mut self) {
        match self.dice.random_range(0..100) {
            0..60 => (0..6).for_each(|_| self.primary.act(&mut self.dice, &mut self.next)),
            60..88 => {
                let copy = self.dice.random_range(0..self.copies.len());
                self.take(copy);
            }
            88..92 => {
                let copy = self.dice.random_range(0..self.copies.len());
                self.copies[copy].restart();
                self.read_on(copy);
            }
            92..94 => self.restart(),
            94..96 => drop(self.primary.store().checkpoint().unwrap()),
            _ => std::thread::sleep(options().archive_timeout),
        }
    }

    /// Notes the first thing that is wrong.
    fn complain(&mut self, where_it_is: &str, anomaly: Option<String>) {
        if let Some(anomaly) = anomaly
            && self.anomaly.is_none()
        {
            self.anomaly = Some(format!("{where_it_is}: {anomaly}"));
        }
    }

    /// A replica asks the archive. One whose log is not the beginning of the newest history any more is copied anew.
    fn take(&mut self, copy: usize) {
        self.copies[copy].take_or_copy_anew(&archive_in(&self.storage), &mut self.dice);
        self.read_on(copy);
    }

    /// Somebody reads all lists on a replica, in the history that it follows.
    fn read_on(&mut self, copy: usize) {
        let store = self.copies[copy].store();
        let transaction = match self.rule {
            Rule::AllKept => store.begin_safe(&SessionFloor::default()),
            Rule::NewestWorld => Some(store.begin(Isolation::Snapshot, AccessMode::ReadOnly)),
        };
        let Some(transaction) = transaction else { return };
        let (lists, version) = (lists_in(&transaction), transaction.begin_version());
        let timeline = store.terms().timeline().get() as usize;
        let what = format!("on a replica in timeline {timeline} at {version}");
        drop(transaction);
        self.look_for_lost(&what, &lists);
        let reads = (0..LISTS).map(|list| (list, lists.get(&list).cloned().unwrap_or_default())).collect();
        let recorded =
            Recorded { what, reads, appends: Vec::new(), behind: None, ending: Ending::Acknowledged };
        let past = self.past.get_mut(timeline - 1).map(|past| &mut past.branch);
        past.unwrap_or(&mut self.primary.branch).0.push(Told { recorded, version: None });
        self.counts.on_replicas += 1;
    }

    fn look_for_lost(&mut self, where_it_is: &str, lists: &Lists) {
        let of_list = |(list, values): (&List, &Vec<Value>)| {
            let list = *list;
            values.iter().map(|value| (list, *value)).collect::<Vec<_>>()
        };
        let found = lists.iter().flat_map(of_list).find(|value| self.lost.contains(value));
        let what = found.map(|(list, value)| format!("{value} of list {list}, which its primary has lost"));
        self.complain(where_it_is, what);
    }

    /// The primary dies, and comes back: its process, or the whole machine.
    fn restart(&mut self) {
        let archiver = self.archiver.take().expect("it runs between steps");
        self.told = self.told.max(archiver.stop().archived);
        let end = if self.dice.random_ratio(1, 2) { End::OfProcess } else { End::OfMachine };
        if end == End::OfMachine {
            // Nobody syncs what these commit, as the archiver has ended.
            (0..20).for_each(|_| self.primary.act(&mut self.dice, &mut self.next));
        }
        let lost = self.primary.come_back(end);
        self.counts.crashes += usize::from(end == End::OfMachine);
        self.lost.extend(lost);
        self.archiver = Some(start(&self.storage, self.primary.store()));
        self.look_at_primary("behind a restart");
    }

    fn look_at_primary(&mut self, when: &str) {
        let store = self.primary.store();
        let anomaly = self.primary.branch.anomaly(store.world().version(), &lists_of(store));
        self.complain(when, anomaly);
    }

    /// The primary is lost, or nobody reaches it; a replica takes its place.
    fn fail_over(&mut self) {
        let candidate = self.dice.random_range(0..self.copies.len());
        self.hear_of_timeline(candidate);
        let archiver = self.archiver.take().expect("it runs between steps");
        let former = if self.dice.random_ratio(1, 2) {
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
        let mut files = copy.promote();
        if self.dice.random_ratio(1, 2) {
            files = files.crash();
        }
        let new = Side::promoted(files, &self.primary, version);
        let mut former_primary = std::mem::replace(&mut self.primary, new);
        self.look_at_primary("behind a promotion");
        self.archiver = Some(start(&self.storage, self.primary.store()));
        let told = match former {
            Err(told) => told,
            Ok(archiver) => {
                for _ in 0..200 {
                    former_primary.act(&mut self.dice, &mut self.next);
                    self.primary.act(&mut self.dice, &mut self.next);
                }
                archiver.stop().archived
            }
        };
        let told = self.told.take().max(told).expect("it was archived before anybody followed it");
        let terms = former_primary.store().terms();
        let term = terms.terms().iter().rfind(|term| term.start < told).copied();
        let term = term.expect("the first term is archived before anything else happens");
        self.past.push(Past { branch: former_primary.branch, term });
        // So that the timeline of the new one is in the archive, whatever becomes of it.
        let end = self.primary.commit_something(&mut self.next);
        wait(self.archiver.as_ref().expect("it was just started"), archived(end));
        self.copies.push(Copy::of(&archive_in(&self.storage), self.dice.random()));
        self.counts.failovers += 1;
    }

    /// As in `failovers.rs`: one of an older timeline would begin the same one for the second time.
    fn hear_of_timeline(&mut self, copy: usize) {
        let begun = Instant::now();
        while self.copies[copy].store().terms().timeline() < self.primary.store().terms().timeline() {
            assert!(begun.elapsed() < Duration::from_secs(60), "the archive does not hear of a timeline");
            self.take(copy);
            std::thread::sleep(options().poll);
        }
    }

    fn run(&mut self) {
        for _ in 0..3 {
            (0..150).for_each(|_| self.step());
            self.fail_over();
        }
        (0..80).for_each(|_| self.step());
        let archiver = self.archiver.take().expect("it runs between steps");
        let end = self.primary.commit_something(&mut self.next);
        wait(&archiver, archived(end));
        drop(archiver);
        self.storage.percent.store(0, Ordering::SeqCst);
        self.storage.hangs.store(0, Ordering::SeqCst);
        let archive = archive_in(&self.storage);
        assert_eq!(check(&archive).unwrap().problems, vec![]);
        self.look_at_primary("in the end");
        let term = self.primary.store().terms().last().expect("it has a term");
        let newest = Past { branch: self.primary.branch.clone(), term };
        for past in std::mem::take(&mut self.past).iter().chain([&newest]) {
            self.check_history(&archive, past);
        }
        self.counts.commits = newest.branch.0.iter().filter(|told| told.version.is_some()).count();
        self.counts.faults = self.storage.faults.load(Ordering::SeqCst);
    }

    /// A history comes back, at its end and at some moments before.
    fn check_history(&mut self, archive: &Archive, past: &Past) {
        let end = self.check_restore(archive, past, Target::Latest);
        let versions: Vec<_> = past.branch.0.iter().filter_map(|told| told.version).collect();
        let versions: Vec<_> = versions.into_iter().filter(|version| *version < end).collect();
        for _ in 0..3.min(versions.len()) {
            let version = versions[self.dice.random_range(0..versions.len())];
            let found = self.check_restore(archive, past, Target::Version(version));
            assert_eq!(found, version);
        }
    }

    /// Looks at what a restore brings back. Its version.
    fn check_restore(&mut self, archive: &Archive, past: &Past, target: Target) -> Version {
        let (report, files) = restored(archive, target, Some(past.term.id));
        let lists = lists_of(&open(&files.crash()));
        let what = format!("{target} of the history that ends with {}", past.term);
        self.look_for_lost(&what, &lists);
        self.complain(&what, past.branch.anomaly(report.version, &lists));
        self.counts.restores += 1;
        report.version
    }
}

/// So many seeds; `COEVAL_ARCHIVE_LIST_FAILOVERS` asks for more.
const SEEDS: u64 = 2;

#[test]
fn lists_over_failovers_by_an_archive_are_serializable() {
    let asked = std::env::var("COEVAL_ARCHIVE_LIST_FAILOVERS").ok();
    let seeds = asked.and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let mut all = Counts::default();
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut machines = Machines::new(seed, Rule::AllKept);
        machines.run();
        assert_eq!(machines.anomaly, None, "seed {seed}");
        all += machines.counts;
    }
    println!("{seeds} seeds: {all:?}");
    let seeds = seeds as usize;
    assert!(all.failovers == 3 * seeds && all.restores > 4 * seeds, "too little has happened");
    assert!(all.commits > 20 * seeds && all.on_replicas > 20 * seeds, "too little was written or read");
}

/// The rule that readers of a replica get a safe snapshot, switched off: between a commit and one that has read what that replaced
/// they see the one without the other.
#[test]
fn a_replica_of_an_archive_that_shows_its_newest_world_is_seen() {
    let found = (0..20).find_map(|seed| {
        let mut machines = Machines::new(seed, Rule::NewestWorld);
        machines.run();
        Some((seed, machines.anomaly?))
    });
    println!("{found:?}");
    assert!(found.is_some_and(|(_, anomaly)| anomaly.contains("cycle")), "no anomaly was seen");
}
