// SPDX-License-Identifier: Apache-2.0
//! How terms follow one another, where two logs part, and which timelines there are.

use super::*;

fn history(terms: &[(u64, u64, u64)]) -> TermHistory {
    let mut history = TermHistory::default();
    terms.iter().for_each(|term| history.begin(Term::from(*term)).unwrap());
    history
}

#[test]
fn a_follower_may_be_anywhere_before_the_histories_part() {
    let primary = history(&[(1, 11, 0), (2, 12, 100), (3, 13, 250)]);
    let at = Lsn::new;
    assert_eq!(primary.check_follower(None, at(0)), Ok(()));
    assert_eq!(primary.check_follower(Some(11), at(100)), Ok(()));
    assert_eq!(primary.check_follower(Some(13), at(9_000)), Ok(()), "its length is another question");
    let parted = ForeignHistory::Parted { parting: at(250), position: at(251) };
    assert_eq!(primary.check_follower(Some(12), at(251)), Err(parted));
    assert_eq!(primary.check_follower(Some(77), at(5)), Err(ForeignHistory::UnknownTerm { term: 77 }));
    // A term that began at the end of the log before it has no record of that: it may be taken either way.
    assert_eq!(primary.check_follower(Some(12), at(250)), Ok(()));
}

#[test]
fn two_logs_part_where_the_first_of_them_leaves_the_last_term_of_both() {
    let new = history(&[(1, 11, 0), (2, 12, 100), (5, 15, 300)]);
    let parting = |own: &[(u64, u64, u64)], end| {
        let parting = history(own).parting(Lsn::new(end), &new)?;
        Some((parting.at.get(), parting.term.id))
    };
    let both = [(1, 11, 0), (2, 12, 100)];
    assert_eq!(parting(&both, 250), Some((250, 12)), "it is the beginning");
    assert_eq!(parting(&both, 300), Some((300, 12)));
    assert_eq!(parting(&both, 420), Some((300, 12)), "it has more of the last term");
    let gone_on = |start| [both[0], both[1], (3, 13, start)];
    assert_eq!(parting(&gone_on(350), 420), Some((300, 12)));
    assert_eq!(parting(&gone_on(280), 420), Some((280, 12)), "it has left that term before");
    assert_eq!(parting(&[(1, 11, 0), (2, 14, 90)], 420), Some((90, 11)));
    assert_eq!(parting(&[(1, 11, 0)], 420), Some((100, 11)));
    assert_eq!(parting(&[(1, 99, 0)], 420), None, "another database");
    assert_eq!(parting(&[], 0), None);
}

#[test]
fn a_line_of_terms_is_read_as_it_was_written() {
    for terms in [&[][..], &[(1, 255, 0)], &[(1, 11, 0), (1 << 32, u64::MAX, 1 << 40)]] {
        let written = history(terms);
        assert_eq!(TermHistory::from_line(&written.to_line()), Some(written));
    }
    assert_eq!(history(&[(7, 255, 26)]).to_line(), "7:00000000000000ff:0/1A");
    for wrong in ["1", "1:ff", "x:ff:0/0", "1:xy:0/0", "1:ff:0", "1:0:0/0", "2:ff:0/9 1:fe:0/9"] {
        assert_eq!(TermHistory::from_line(wrong), None, "{wrong}");
    }
}

#[test]
fn terms_follow_one_another() {
    let mut known = history(&[(1, 11, 0), (2, 12, 100)]);
    for wrong in [(2, 13, 200), (1, 13, 200), (3, 0, 200), (3, 13, 99)] {
        assert!(known.begin(Term::from(wrong)).is_err(), "{wrong:?}");
    }
    let next = known.next(5, Lsn::new(300), Timeline::FIRST);
    assert_eq!((next.number, known.begin(next)), (3, Ok(())));
    assert_eq!(next.to_string(), "term 1.3 (0000000000000005) from LSN 0/12C");
}

#[test]
fn a_promotion_begins_a_timeline_whose_terms_are_higher_than_all_before() {
    let mut known = history(&[(1, 11, 0), (2, 12, 100)]);
    assert_eq!(known.timeline(), Timeline::FIRST);
    let promoted = known.next(6, Lsn::new(300), Timeline::new(3));
    assert_eq!((promoted.id, TermNumber(promoted.number).to_string()), (6, "3.1".to_owned()));
    known.begin(promoted).unwrap();
    assert_eq!(known.timeline(), Timeline::new(3));
    let opened = known.next(7, Lsn::new(300), Timeline::new(3));
    assert_eq!((opened.id, TermNumber(opened.number).to_string()), (7, "3.2".to_owned()));
    known.begin(opened).unwrap();
    assert_eq!(known.timeline(), Timeline::new(3), "it is opened again in its own");
    for id in [0, 1, 9] {
        assert_eq!(known.next(id, Lsn::new(400), Timeline::new(4)).id % 2, 0, "it is nobody's");
    }
    let many = history(&[(u64::from(u32::MAX), 11, 0)]);
    assert!(many.next(8, Lsn::START, many.timeline().next()).number > many.last().unwrap().number);
}

/// Fails if a restore takes the next number, and, in the second half, if a promotion does not step over a restore's.
#[test]
fn no_promotion_has_the_number_of_a_restore() {
    for archived in (1..=350).map(Timeline::new) {
        let restored = archived.of_restore();
        let mut beside = archived;
        for promotions in 1..=1_000 {
            beside = beside.next();
            assert_ne!(beside.get(), restored.get());
            assert!(beside < restored || promotions >= PROMOTIONS_BESIDE, "{archived}: {promotions}");
        }
        assert!(restored.may_follow(archived) && restored.next() > restored);
    }
    let numbers = [Timeline::FIRST.of_restore(), Timeline::new(99).next(), Timeline::new(200).of_restore()];
    assert_eq!(numbers.map(Timeline::get), [200, 101, 400]);
    let last = Timeline::new(u32::MAX);
    assert_eq!((last.next(), last.of_restore()), (last, last));
}

/// Fails if a timeline is its number alone: two of them would be taken for one.
#[test]
fn timelines_of_one_number_are_ordered_by_who_was_promoted() {
    let known = history(&[(1, 11, 0), (2, 12, 100)]);
    let promoted = |candidate| {
        let mut known = known.clone();
        let timeline = known.timeline().next().of_candidate(candidate);
        let term = known.next(99, Lsn::new(300), timeline);
        known.begin(term).unwrap();
        assert_eq!((known.timeline(), term.id), (timeline, if candidate > 0 { candidate } else { 98 }));
        timeline
    };
    let (nobodys, low, high) = (promoted(0), promoted(21), promoted(23));
    assert!(known.timeline() < nobodys && nobodys < low && low < high && high < high.next());
    assert_eq!((nobodys, low.next()), (Timeline::new(2), high.next()));
    assert_eq!((low.get(), low.to_string()), (2, "2".to_owned()));
    assert_eq!(Timeline::new(2).of_candidate(20), nobodys);
    assert_eq!(Timeline::FIRST.of_candidate(21), Timeline::FIRST, "nobody was promoted into it");
}
