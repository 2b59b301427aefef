// SPDX-License-Identifier: Apache-2.0
//! Histories that part, those that go on, and what is missing of them.

use super::*;
use std::sync::Arc;

fn lsn(position: u64) -> Lsn {
    Lsn::new(position)
}

fn term(number: u64, id: u64, start: u64) -> Term {
    Term { number, id, start: lsn(start) }
}

fn chunk(term: u64, start: u64, end: u64) -> ChunkName {
    ChunkName { term, start: lsn(start), end: lsn(end), has_files: false }
}

/// Term 1 wrote up to 200; a restore to 150 went on as term 2; 260 to 300 of it are missing.
fn parted() -> Contents {
    let histories = [vec![term(1, 11, 0)], vec![term(1, 11, 0), term(2, 12, 150)]];
    let histories = histories.map(|terms| (terms.last().unwrap().id, History::new(terms).unwrap()));
    let chunks = [
        (11, vec![chunk(11, 10, 100), chunk(11, 90, 120), chunk(11, 120, 200)]),
        (12, vec![chunk(12, 150, 260), chunk(12, 310, 400)]),
    ];
    let backups = [(10, 11), (180, 11), (300, 12)];
    let backups = backups.map(|(position, term)| BackupName { position: lsn(position), term, spread: None });
    Contents {
        database: 11,
        histories: histories.into(),
        backups: backups.into(),
        chunks: BTreeMap::from(chunks),
    }
}

#[test]
fn a_history_takes_of_a_term_what_lies_before_the_next_one() {
    let contents = parted();
    let (old, new) = (&contents.histories[&11], contents.history(None).unwrap());
    assert_eq!(new.last().id, 12, "the newest that is no beginning of another one");
    let ends = |history: &History| {
        let stretches = contents.stretches(history, lsn(10)).into_iter();
        stretches.map(|stretch| (stretch.chunk.term, stretch.end.get())).collect::<Vec<_>>()
    };
    assert_eq!(ends(old), [(11, 100), (11, 120), (11, 200)]);
    assert_eq!(ends(new), [(11, 100), (11, 120), (11, 150), (12, 260)]);
    let backups = |history| contents.backups_of(history).map(|name| name.position.get()).collect::<Vec<_>>();
    assert_eq!((backups(old), backups(new)), (vec![10, 180], vec![10, 300]));
}

#[test]
fn who_follows_goes_on_in_the_newest_history_that_his_log_begins() {
    let mut contents = parted();
    // A second restore, to 170.
    let second = vec![term(1, 11, 0), term(2, 13, 170)];
    contents.histories.insert(13, History::new(second).unwrap());
    let store = Arc::new(object_store::memory::InMemory::new());
    let archive = Archive::with_store(store, "memory").unwrap();
    let first = term(1, 11, 0);
    let followed = |terms: &[Term], position| {
        let found = contents.history_behind(&archive, &TermHistory::of(terms), lsn(position));
        found.map(|history| history.map(|history| history.last().id))
    };
    assert!(matches!(followed(&[first], 100), Err(ArchiveError::Ambiguous { .. })));
    assert_eq!(followed(&[first], 160).unwrap(), Some(13), "the other one has begun before");
    assert_eq!(followed(&[first, term(2, 12, 150)], 155).unwrap(), Some(12));
    assert_eq!(followed(&[first, term(2, 12, 150), term(3, 14, 500)], 600).unwrap(), None, "it is behind");
    for foreign in [&[first][..], &[first, term(2, 15, 150)]] {
        let refused = followed(foreign, 190);
        assert!(matches!(refused, Err(ArchiveError::Store(StoreError::ForeignHistory(_)))), "{refused:?}");
    }
    assert!(matches!(followed(&[term(1, 99, 0)], 5), Err(ArchiveError::AnotherDatabase { .. })));
}

/// Two were promoted to one number. Fails if the number of the last term alone is compared.
#[test]
fn of_two_that_were_promoted_to_one_number_the_higher_candidate_is_newer() {
    let mut contents = parted();
    let (first, promoted) = (term(1, 11, 0), |id| term((1 << 32) + 1, id, 170));
    let low = vec![first, promoted(19), term((1 << 32) + 2, 99, 180)];
    for terms in [low, vec![first, promoted(21)]] {
        contents.histories.insert(terms.last().unwrap().id, History::new(terms).unwrap());
    }
    assert_eq!(contents.history(None).unwrap().last().id, 21);
}

#[test]
fn gaps_are_named() {
    let contents = parted();
    let gaps = contents.gaps(&contents.histories[&12]);
    let gap = |from, to| Gap { from: lsn(from), to: lsn(to), term: 12 };
    assert_eq!(gaps, [gap(260, 300), gap(300, 310)]);
    assert_eq!(contents.gaps(&contents.histories[&11]), []);
}

/// Seen to fail if only the term before the last one counts as left.
#[test]
fn a_term_that_has_archived_nothing_makes_no_second_history() {
    let mut contents = parted();
    let later = vec![term(1, 11, 0), term(2, 12, 150), term(3, 13, 400), term(4, 14, 400)];
    contents.histories.insert(14, History::new(later).unwrap());
    assert_eq!(contents.history(None).unwrap().last().id, 14);
    let ids = |found: Vec<&History>| found.iter().map(|history| history.last().id).collect::<Vec<_>>();
    assert_eq!(ids(contents.newest_histories()), [14]);
    assert_eq!(ids(contents.branches()), [14, 11], "term 1 has written on behind the parting");
}

/// Seen to fail if the newest is the one whose database was opened most often.
#[test]
fn of_one_timeline_none_is_newer_than_another_one() {
    let mut contents = parted();
    let old = vec![term(1, 11, 0), term(2, 15, 200), term(3, 16, 210)];
    contents.histories.insert(16, History::new(old).unwrap());
    assert!(matches!(contents.history(None), Err(ArchiveError::Ambiguous { .. })));
    let timeline = contents.timeline_of_restore();
    assert_eq!(timeline, Timeline::new(200));
    // The first id of a timeline that is nobody's is even.
    let restored = vec![term(1, 11, 0), term((199 << 32) + 1, 18, 160)];
    contents.histories.insert(18, History::new(restored).unwrap());
    assert_eq!(contents.history(None).unwrap().timeline(), timeline);
    assert_eq!(contents.history(Some(16)).unwrap().last().number, 3);
}
