// SPDX-License-Identifier: Apache-2.0
//! A replica that followed the former primary beyond the place where the new one's log parts from it.

use super::*;

/// A primary has two replicas, one of which is promoted; the other one goes on with the primary for some steps. What `behind` does
/// with it comes last.
fn parted(seed: u64, gone_on: GoneOn, behind: impl FnOnce(&Store)) -> Parted {
    let [former_files, promoted_files, files] = [0, 1, 2].map(|step| SimulatedFiles::new(seed + step));
    let mut former = open_primary(&former_files);
    let mut workload = Workload::new(seed);
    work(&mut workload, &former, 30);
    former.checkpoint().unwrap();
    copy(&former, &promoted_files);
    copy(&former, &files);
    work(&mut workload, &former, 15);
    let (other, mut candidate) = open_follower(&promoted_files);
    take_all(&mut feed_of(&former, &candidate).unwrap(), &mut candidate);
    candidate.sync().unwrap();
    let common = workload.model.clone();
    drop((other, candidate));
    let (store, mut follower) = open_follower(&files);
    if gone_on == GoneOn::InItsOwn {
        take_all(&mut feed_of(&former, &follower).unwrap(), &mut follower);
        drop(former);
        former = open_primary(&former_files);
    }
    work(&mut workload, &former, 25);
    assert!(workload.model.version > common.version, "seed {seed}: it has gone on");
    take_all(&mut feed_of(&former, &follower).unwrap(), &mut follower);
    follower.sync().unwrap();
    behind(&store);
    drop((store, follower, former));
    let promoted = promoted(&promoted_files);
    let dir = Path::new(COPY);
    Parted { files: files.copy(), dir, common, all: workload.model, promoted, promoted_files }
}

fn open(files: &SimulatedFiles) -> Result<(Store, Follower), StoreError> {
    let files = Arc::new(files.clone());
    Store::open_follower_tuned(files, Path::new(COPY), options(), log_options(), sizes())
}

#[test]
fn a_replica_is_cut_back_and_follows() {
    let mut loads = 0;
    for seed in 0..12 {
        for gone_on in [GoneOn::InTheSame, GoneOn::InItsOwn] {
            let parted = parted(seed * 5, gone_on, |_| {});
            let files = parted.files.copy();
            let rewound = parted.rewind(&files).unwrap();
            let aside = lies_aside(&files, &rewound);
            assert_eq!(aside.0, rewound.transactions);
            assert!(rewound.transactions >= parted.all.version - parted.common.version);
            loads += aside.1;
            let kept = KeptPromise::read(&files, parted.dir).unwrap().unwrap();
            assert_eq!(kept.promise.timeline, parted.promoted.timeline());
            let standing = FollowerStanding::read(&files, parted.dir).unwrap();
            assert_eq!(standing, None, "a boundary belongs to log that is gone");
            let files = files.crash();
            assert_eq!(go_on_rewinding(&files, parted.dir).unwrap(), None);
            parted.check_that_it_follows(&files);
            assert_eq!(lies_aside(&files, &rewound).0, rewound.transactions, "it stays");
        }
    }
    assert!(loads > 0, "no load was cut off");
}

/// Before the mark is there, it is the replica with all that it had; from then on nobody opens it but who goes on.
#[test]
fn a_replica_is_cut_back_whatever_fails_meanwhile() {
    let parted = parted(5, GoneOn::InItsOwn, |_| {});
    let place = parted.place();
    let (mut begun_again, mut gone_on) = (0, 0);
    for calls in 0_u64.. {
        let files = parted.files.copy();
        files.fail_after(calls, Fault::Io);
        let outcome = parted.rewind(&files);
        let files = files.crash();
        assert!(is_replica(&files, parted.dir).unwrap(), "call {calls}: it is one at all times");
        let rewound = if files.exists(&parted.dir.join(REWINDING_FILE)).unwrap() {
            let opened = open(&files.copy());
            assert!(matches!(opened, Err(StoreError::UnfinishedRewinding { .. })), "{opened:?}");
            gone_on += 1;
            go_on_rewinding(&files, parted.dir).unwrap()
        } else if FormerPrimary::look(&files, parted.dir).unwrap().end > place {
            assert!(outcome.is_err(), "call {calls}: nothing was cut");
            let (store, _follower) = open(&files.copy()).unwrap();
            parted.all.check(&store.world()).unwrap();
            begun_again += 1;
            Some(parted.rewind(&files).unwrap())
        } else {
            outcome.as_ref().ok().cloned()
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

/// It is a replica as before then, with all that it had.
#[test]
fn a_replica_whose_checkpoint_is_beyond_the_place_is_not_cut_back() {
    let parted = parted(7, GoneOn::InTheSame, |store| {
        store.checkpoint().unwrap();
    });
    let own = FormerPrimary::look(&parted.files, parted.dir).unwrap();
    let place = match own.way_back(&parted.promoted.terms()) {
        WayBack::CheckpointBeyond(parting) => parting.at,
        other => panic!("{other:?}"),
    };
    assert!(place < own.checkpoint);
    let refused = rewind(&parted.files, parted.dir, place, parted.promoted.timeline());
    assert!(matches!(refused, Err(StoreError::NotRewindable { .. })), "{refused:?}");
    let (store, _follower) = open(&parted.files).unwrap();
    parted.all.check(&store.world()).unwrap();
}

/// To break it: write the promise whatever was promised before.
#[test]
fn a_replica_that_has_promised_a_higher_timeline_has_still_promised_it_behind_the_cut() {
    let higher = Timeline::new(7);
    let parted = parted(9, GoneOn::InTheSame, |store| {
        store.promise(Promise::asked_for(higher)).unwrap();
    });
    let files = parted.files.copy();
    parted.rewind(&files).unwrap();
    let (store, mut follower) = open(&files).unwrap();
    parted.common.check(&store.world()).unwrap();
    assert_eq!(follower.promised().get(), higher.get());
    let refused = follower.begin_following(parted.promoted.timeline());
    assert!(matches!(refused, Err(FollowError::Superseded { .. })), "{refused:?}");
}

/// Nobody has it open while the new primary is asked: a command may promote it meanwhile. To break it: cut back whatever the timelines
/// are.
#[test]
fn a_replica_that_was_promoted_meanwhile_is_not_cut_back() {
    let parted = parted(19, GoneOn::InTheSame, |_| {});
    let (files, place, timeline) = (parted.files.copy(), parted.place(), parted.promoted.timeline());
    let refused = || rewind(&files, parted.dir, place, timeline);
    // Of the two the one that was promoted here is the higher one.
    let own = Promise::of(timeline, u64::MAX);
    promote(&files, parted.dir, own).unwrap();
    for moment in ["before it is opened", "once it is the primary"] {
        let refused = refused();
        let is_refused =
            matches!(refused, Err(StoreError::PromisedAnother { promised, .. }) if promised == own.timeline);
        assert!(is_refused, "{moment}: {refused:?}");
        let opened = Arc::new(files.clone());
        let store = Store::open_tuned(opened, parted.dir, options(), log_options(), sizes()).unwrap();
        parted.all.check(&store.world()).unwrap();
    }
    // One that has come after both may have it back.
    rewind(&files, parted.dir, place, timeline.next()).unwrap();
    parted.common.check(&open(&files).unwrap().0.world()).unwrap();
}

/// An open replica says of itself what is found in its directory once it is closed.
#[test]
fn who_follows_a_replica_that_was_cut_back_is_cut_back_by_the_terms_of_that_one() {
    for gone_on in [GoneOn::InTheSame, GoneOn::InItsOwn] {
        let parted = parted(15, gone_on, |_| {});
        let (files, last_files, timeline) =
            (parted.files.copy(), parted.files.copy(), parted.promoted.timeline());
        let place = parted.rewind(&files).unwrap().place;
        let (store, mut follower) = open(&files).unwrap();
        let (last_store, last) = open(&last_files).unwrap();
        let own = last.as_former_primary();
        let is_before = |store: &Store| {
            let number = TermNumber(store.terms().last().unwrap().number);
            own.comes_before(store.terms().timeline(), number)
        };
        // So far it only has less.
        assert!(!is_before(&store));
        let refused = feed_of(&store, &last).err().unwrap();
        assert!(matches!(refused, StoreError::FollowerIsAhead { .. }), "{refused}");
        follower.begin_following(timeline).unwrap();
        take_all(&mut feed_of(&parted.promoted, &follower).unwrap(), &mut follower);
        follower.sync().unwrap();
        // It does not know a term that it has cut off, so what it says of the log is not enough: its terms are.
        assert!(feed_of(&store, &last).is_err());
        drop((last_store, last));
        assert_eq!(FormerPrimary::look(&last_files, parted.dir).unwrap(), own);
        assert!(is_before(&store));
        let parting = match own.way_back(&store.terms()) {
            WayBack::CutBack(parting) => parting,
            other => panic!("{other:?}"),
        };
        assert_eq!(parting.at, place);
        rewind(&last_files, parted.dir, place, store.terms().timeline()).unwrap();
        let (last_store, mut last) = open(&last_files).unwrap();
        last.begin_following(timeline).unwrap();
        take_all(&mut feed_of(&store, &last).unwrap(), &mut last);
        assert_eq!(last_store.world().version(), parted.promoted.world().version());
        assert_eq!(last_store.terms(), parted.promoted.terms());
    }
}
