// SPDX-License-Identifier: Apache-2.0
//! A former primary that is cut back has what it had at the place, follows the new one from there on, and what it had beyond lies
//! aside, whatever fails meanwhile. So has a replica that followed it ([`replicas`]).

mod replicas;

use super::*;
use crate::disk::{LOG_DIR, REWINDING_FILE};
use crate::files::{Fault, FileSystem};
use crate::following::{
    FollowerStanding, FormerPrimary, Rewound, WayBack, go_on_rewinding, is_replica, rewind,
};
use crate::kept_log::KeptLog;
use crate::log::{Lsn, read};
use crate::promises::KeptPromise;
use crate::record::{decode_count, decode_places};
use crate::recovery::ReplayError;
use crate::segment::segment_path;
use crate::terms::{Term, TermHistory, TermNumber};

/// In which term the former primary went on by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GoneOn {
    /// It never stopped.
    InTheSame,
    /// It was opened again.
    InItsOwn,
}

/// Two histories of one database.
struct Parted {
    /// Those of the former primary, or of a replica of it, which is closed.
    files: SimulatedFiles,
    /// Where it is in them.
    dir: &'static Path,
    /// What it had where they part.
    common: Model,
    /// What it had in the end.
    all: Model,
    promoted: Store,
    promoted_files: SimulatedFiles,
}

fn work(workload: &mut Workload, store: &Store, steps: u32) {
    (0..steps).for_each(|_| drop(workload.step(store)));
}

/// A replica is promoted with all that its primary had, and the primary goes on for some steps.
fn parted(seed: u64, gone_on: GoneOn, behind: impl FnOnce(&Store)) -> Parted {
    let (files, promoted_files) = (SimulatedFiles::new(seed), SimulatedFiles::new(seed + 1));
    let mut former = open_primary(&files);
    let mut workload = Workload::new(seed);
    work(&mut workload, &former, 30);
    former.checkpoint().unwrap();
    copy(&former, &promoted_files);
    let (store, mut follower) = open_follower(&promoted_files);
    work(&mut workload, &former, 15);
    take_all(&mut feed_of(&former, &follower).unwrap(), &mut follower);
    follower.sync().unwrap();
    let common = workload.model.clone();
    drop((store, follower));
    if gone_on == GoneOn::InItsOwn {
        drop(former);
        former = open_primary(&files);
    }
    work(&mut workload, &former, 25);
    assert!(workload.model.version > common.version, "seed {seed}: it has gone on");
    behind(&former);
    drop(former);
    let promoted = promoted(&promoted_files);
    Parted {
        files: files.copy(),
        dir: Path::new(PRIMARY),
        common,
        all: workload.model,
        promoted,
        promoted_files,
    }
}

/// Promotes a replica, which then commits a table that nobody else knows.
fn promoted(files: &SimulatedFiles) -> Store {
    promote(files, Path::new(COPY), Promise::asked_for(Timeline::new(2))).unwrap();
    let files = Arc::new(files.clone());
    let promoted = Store::open_tuned(files, Path::new(COPY), options(), log_options(), sizes()).unwrap();
    let def = table(&promoted, "new");
    let mut transaction = promoted.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.change_catalog(CatalogChange::PutTable(Box::new(def.clone()))).unwrap();
    transaction.commit().unwrap();
    let mut transaction = promoted.begin(Isolation::Snapshot, AccessMode::ReadWrite);
    transaction.put(def.id, row(&def, 1, 1)).unwrap();
    transaction.commit().unwrap();
    promoted
}

impl Parted {
    /// Where it is to be cut.
    fn place(&self) -> Lsn {
        let former = FormerPrimary::look(&self.files, self.dir).unwrap();
        match former.way_back(&self.promoted.terms()) {
            WayBack::CutBack(parting) => parting.at,
            other => panic!("{other:?}"),
        }
    }

    fn rewind(&self, files: &SimulatedFiles) -> Result<Rewound, StoreError> {
        rewind(files, self.dir, self.place(), self.promoted.timeline())
    }

    /// It has what it had where the histories part, and then what the promoted one has.
    fn check_that_it_follows(&self, files: &SimulatedFiles) {
        let dir = self.dir;
        let all = Arc::new(files.clone());
        let (store, mut follower) =
            Store::open_follower_tuned(all.clone(), dir, options(), log_options(), sizes()).unwrap();
        self.common.check(&store.world()).unwrap();
        assert_eq!(follower.position(), self.place());
        follower.begin_following(self.promoted.timeline()).unwrap();
        take_all(&mut feed_of(&self.promoted, &follower).unwrap(), &mut follower);
        assert_eq!(store.world().version(), self.promoted.world().version());
        assert_eq!(store.terms(), self.promoted.terms());
        let def = store.world().table_named(&crate::catalog::QualifiedName::new("public", "new")).cloned();
        let transaction = store.begin(Isolation::Snapshot, AccessMode::ReadOnly);
        assert!(transaction.get(def.unwrap().id(), &key(1)).unwrap().is_some());
        drop(transaction);
        store.checkpoint().unwrap();
        drop((store, follower));
        let report = verify(all, dir, None).unwrap();
        assert!(report.is_clean(), "{:?}", report.problems);
    }
}

/// How many transactions lie aside, and how many files of loads, each of which is there.
fn lies_aside(files: &SimulatedFiles, rewound: &Rewound) -> (u64, usize) {
    let Rewound { aside, place, end, .. } = rewound;
    let (mut transactions, mut loads) = (0, 0);
    let mut take = |_: Lsn, payload: &[u8]| {
        transactions += u64::from(decode_count(payload)?);
        for segment in decode_places(payload)?.map(|(_, segments)| segments).unwrap_or_default() {
            let of_database = segment_path(Path::new(""), segment.number);
            let path = aside.join(of_database.file_name().unwrap());
            assert!(files.len(&path).unwrap() > 0, "{}", path.display());
            loads += 1;
        }
        Ok::<_, ReplayError>(())
    };
    let found = read(files, aside, *place, &mut take).unwrap();
    assert_eq!(found.end, *end);
    (transactions, loads)
}

#[test]
fn a_former_primary_is_cut_back_and_follows() {
    let mut loads = 0;
    for seed in 0..12 {
        for gone_on in [GoneOn::InTheSame, GoneOn::InItsOwn] {
            let parted = parted(seed * 4, gone_on, |_| {});
            let files = parted.files.copy();
            let rewound = parted.rewind(&files).unwrap();
            assert_eq!(rewound.place, parted.place());
            let aside = lies_aside(&files, &rewound);
            assert_eq!(aside.0, rewound.transactions);
            assert!(rewound.transactions >= parted.all.version - parted.common.version);
            loads += aside.1;
            let name = rewound.aside.file_name().unwrap().to_str().unwrap().to_owned();
            let number = if gone_on == GoneOn::InTheSame { "1.1" } else { "1.2" };
            assert!(name.starts_with(&format!("term-{number}-")), "{name}");
            let kept = KeptPromise::read(&files, Path::new(PRIMARY)).unwrap().unwrap();
            assert_eq!(kept.promise.timeline, parted.promoted.timeline());
            assert_eq!(FollowerStanding::read(&files, Path::new(PRIMARY)).unwrap(), None);
            let files = files.crash();
            assert_eq!(go_on_rewinding(&files, Path::new(PRIMARY)).unwrap(), None);
            parted.check_that_it_follows(&files);
            let aside = lies_aside(&files, &rewound);
            assert_eq!(aside.0, rewound.transactions, "it stays");
        }
    }
    assert!(loads > 0, "no load was cut off");
}

/// Before the mark is there, all that it had is; from then on nobody opens it but who goes on.
#[test]
fn it_is_cut_back_whatever_fails_meanwhile() {
    let parted = parted(5, GoneOn::InItsOwn, |_| {});
    let dir = Path::new(PRIMARY);
    let (mut begun_again, mut gone_on) = (0, 0);
    for calls in 0_u64.. {
        let files = parted.files.copy();
        files.fail_after(calls, Fault::Io);
        let outcome = parted.rewind(&files);
        let files = files.crash();
        let rewound = if files.exists(&dir.join(REWINDING_FILE)).unwrap() {
            for opened in [open_as_primary(&files.copy()), open_as_follower(&files.copy())] {
                assert!(matches!(opened, Err(StoreError::UnfinishedRewinding { .. })), "{opened:?}");
            }
            assert!(!verify(Arc::new(files.copy()), dir, None).unwrap().is_clean());
            gone_on += 1;
            go_on_rewinding(&files, dir).unwrap()
        } else if is_replica(&files, dir).unwrap() {
            outcome.as_ref().ok().cloned()
        } else {
            assert!(outcome.is_err(), "call {calls}: it is a replica's");
            let store = open_as_primary(&files.copy()).unwrap();
            parted.all.check(&store.world()).unwrap();
            begun_again += 1;
            Some(parted.rewind(&files).unwrap())
        };
        // The last step alone may have failed behind its effect; what lies aside was said by nobody then.
        if let Some(rewound) = rewound {
            assert_eq!(lies_aside(&files, &rewound).0, rewound.transactions, "call {calls}");
        }
        if calls.is_multiple_of(3) || outcome.is_ok() {
            parted.check_that_it_follows(&files);
        }
        if outcome.is_ok() {
            break;
        }
    }
    assert!(begun_again > 10 && gone_on > 10, "{begun_again} {gone_on}");
}

fn open_as_primary(files: &SimulatedFiles) -> Result<Store, StoreError> {
    let files = Arc::new(files.clone());
    Store::open_tuned(files, Path::new(PRIMARY), options(), log_options(), sizes())
}

fn open_as_follower(files: &SimulatedFiles) -> Result<Store, StoreError> {
    let files = Arc::new(files.clone());
    let opened = Store::open_follower_tuned(files, Path::new(PRIMARY), options(), log_options(), sizes());
    opened.map(|(store, _)| store)
}

/// Its world has rows that the new primary never had: it cannot be what the log says up to the place.
#[test]
fn a_checkpoint_beyond_the_place_is_not_cut_off() {
    let parted = parted(7, GoneOn::InTheSame, |former| {
        former.checkpoint().unwrap();
    });
    let former = FormerPrimary::look(&parted.files, Path::new(PRIMARY)).unwrap();
    let place = match former.way_back(&parted.promoted.terms()) {
        WayBack::CheckpointBeyond(parting) => parting.at,
        other => panic!("{other:?}"),
    };
    assert!(place < former.checkpoint);
    let refused = rewind(&parted.files, Path::new(PRIMARY), place, parted.promoted.timeline());
    assert!(matches!(refused, Err(StoreError::NotRewindable { .. })), "{refused:?}");
    parted.all.check(&open_as_primary(&parted.files).unwrap().world()).unwrap();
}

#[test]
fn what_is_no_border_of_records_is_not_cut() {
    let parted = parted(9, GoneOn::InTheSame, |_| {});
    let inside = Lsn::new(parted.place().get() + 1);
    let refused = rewind(&parted.files, parted.dir, inside, parted.promoted.timeline());
    assert!(matches!(refused, Err(StoreError::NotRewindable { .. })), "{refused:?}");
}

/// The slot's replica and the archive had log that is cut off: they are given what comes from the place on.
#[test]
fn what_is_kept_for_others_is_kept_from_the_place_on() {
    let parted = parted(11, GoneOn::InTheSame, |former| {
        former.create_slot("west").unwrap();
        let mut feed = former.whole_log_feed().unwrap();
        while feed.next_piece().unwrap().is_some() {}
        feed.confirm(feed.position());
        feed.keep_over_closes(1 << 30);
    });
    let (dir, place) = (Path::new(PRIMARY), parted.place());
    let before = KeptLog::read(&parted.files, dir).unwrap().unwrap();
    assert!(before.slots[0].log > place);
    let files = parted.files.copy();
    parted.rewind(&files).unwrap();
    let kept = KeptLog::read(&files, dir).unwrap().unwrap();
    assert_eq!(kept.slots[0].log, place);
    assert!(kept.kept.unwrap().log <= place);
    assert_eq!(kept.slots[0].version.get(), parted.common.version);
    parted.check_that_it_follows(&files);
    let all = Arc::new(files);
    let (store, _follower) = Store::open_follower_tuned(all, dir, options(), log_options(), sizes()).unwrap();
    assert_eq!(store.slots()[0].name, "west");
    assert!(store.whole_log_feed().unwrap().next_piece().is_ok());
}

/// Nobody gives up its own log for one who has not come after it, nor has more to give than the terms say.
#[test]
fn whose_log_counts_is_said_by_the_terms() {
    let term = |number, id, start| Term { number, id, start: Lsn::new(start) };
    let former = |terms: &[Term], end, checkpoint| FormerPrimary {
        terms: TermHistory::of(terms),
        end: Lsn::new(end),
        checkpoint: Lsn::new(checkpoint),
        promised: Timeline::new(0),
    };
    let (first, second) = (term(1, 11, 0), term(2, 12, 100));
    let later = TermHistory::of(&[first, term(1 << 32, 13, 80)]);
    let one = former(&[first, second], 150, 60);
    let before = |timeline, number| one.comes_before(timeline, TermNumber(number));
    assert!(before(later.timeline(), 1 << 32) && !before(Timeline::FIRST, 2));
    // Of two that were promoted to one number the higher candidate counts, however often the other one was opened.
    let (low, high) = ([first, term((1 << 32) + 1, 13, 80), term((1 << 32) + 2, 15, 90)], (1 << 32) + 1);
    let number = Timeline::new(2);
    let comes_before =
        |candidate| former(&low, 150, 60).comes_before(number.of_candidate(candidate), TermNumber(high));
    assert!(comes_before(15) && !comes_before(11) && !comes_before(12) && !comes_before(13));
    assert!(matches!(one.way_back(&later), WayBack::CutBack(parting) if parting.at == Lsn::new(80)));
    assert_eq!(former(&[first], 70, 60).way_back(&later), WayBack::AsItIs);
    let beyond = former(&[first, second], 150, 81).way_back(&later);
    assert!(matches!(beyond, WayBack::CheckpointBeyond(parting) if parting.term == first), "{beyond:?}");
    assert_eq!(former(&[term(1, 99, 0)], 70, 0).way_back(&later), WayBack::Unrelated);
}

/// The log is the beginning of the new primary's, byte for byte but for what headers attest.
#[test]
fn behind_the_cut_both_logs_have_the_same_records() {
    let parted = parted(13, GoneOn::InItsOwn, |_| {});
    let files = parted.files.copy();
    let place = parted.rewind(&files).unwrap().place;
    let records = |files: &SimulatedFiles, dir: &str, from: Lsn| {
        let mut records = Vec::new();
        let mut take = |end: Lsn, payload: &[u8]| {
            if end <= place {
                records.push((end, payload.to_vec()));
            }
            Ok::<_, ReplayError>(())
        };
        read(files, &Path::new(dir).join(LOG_DIR), from, &mut take).unwrap();
        records
    };
    let from = FormerPrimary::look(&parted.promoted_files.copy(), Path::new(COPY)).unwrap().checkpoint;
    let (own, new) = (records(&files, PRIMARY, from), records(&parted.promoted_files, COPY, from));
    assert!(!own.is_empty());
    assert_eq!(own, new);
}
