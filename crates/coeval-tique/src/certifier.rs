// SPDX-License-Identifier: Apache-2.0
//! Certification in this process (an option): the write sets that Listing 3 joins, in memory instead of in the engine.
//!
//! The rule is the same as in `commit.rs`: who took a lower timestamp counts as committed unless it has aborted. One
//! process owns a physical schema, and after a restart nobody is concurrent with what was before it, so nothing of this
//! need outlive the process. What remains in the engine is what recovery needs: versions and markers.

use crate::counters::{Timestamp, Txid};
use crate::priority::Reservations;
use crate::read_set::ReadSet;
use crate::write_set::{Access, WriteSet};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::RangeInclusive;

/// Where transactions are certified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certification {
    /// By SQL in the engine, as the paper has it.
    InEngine,
    /// In this process: the engine is spared the write sets and one query for each batch.
    InProcess,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Admitted,
    /// Only a reservation makes its accesses count then.
    Refused,
}

/// An access that later ones may conflict with.
#[derive(Clone, Copy, Debug)]
struct Record {
    txid: Txid,
    cts: Timestamp,
    access: Access,
    verdict: Verdict,
}

#[derive(Default)]
struct State {
    entries: HashMap<i64, Vec<Record>>,
    /// Records, and as many as there were when those that count no more were last removed.
    count: usize,
    count_kept: usize,
}

/// The write sets of transactions that later ones may be concurrent with.
///
/// # Locking
/// One lock, held while a transaction is certified: it makes taking a timestamp and showing the write set one step.
#[derive(Default)]
pub(crate) struct Certifier {
    state: Mutex<State>,
}

/// A transaction to certify.
pub(crate) struct Candidate<'a> {
    pub(crate) txid: Txid,
    pub(crate) sts: Timestamp,
    pub(crate) write_set: &'a WriteSet,
    pub(crate) read_set: &'a ReadSet,
}

impl Candidate<'_> {
    fn accesses(&self) -> impl Iterator<Item = (i64, Access)> + '_ {
        self.write_set.iter().chain(self.read_set.iter())
    }
}

/// Fewer records than this are not worth looking through.
const TRIM_AT: usize = 10_000;

impl Certifier {
    /// Takes timestamps for all candidates by `take` and says who may not commit, and because of whom. The reservations are
    /// those that are there behind `take`: `priority.rs` says why.
    pub(crate) fn certify(
        &self,
        candidates: &[Candidate<'_>],
        take: impl FnOnce(usize) -> RangeInclusive<i64>,
        reservations: &Reservations,
    ) -> (Vec<Timestamp>, HashMap<Txid, i64>) {
        let mut state = self.state.lock();
        let timestamps: Vec<_> = take(candidates.len()).map(Timestamp).collect();
        let reserved = reservations.current();
        let reserves =
            |other: Txid, txid: Txid| reserved.contains(&other).then(|| reservations.holds_back(other, txid));
        let mut refused = HashMap::new();
        for (candidate, &cts) in candidates.iter().zip(&timestamps) {
            let other = state.conflict(candidate, &reserves);
            if let Some(other) = other {
                refused.insert(candidate.txid, other.0);
            }
            let verdict = if other.is_some() { Verdict::Refused } else { Verdict::Admitted };
            state.add(candidate, cts, verdict);
        }
        (timestamps, refused)
    }

    /// These transactions were certified and have aborted all the same: they refuse nobody from now on.
    pub(crate) fn forget(&self, txids: &[Txid]) {
        self.state.lock().retain(|record| !txids.contains(&record.txid));
    }

    /// Whether there is so much that what counts no more is worth a search.
    pub(crate) fn is_worth_trimming(&self) -> bool {
        let state = self.state.lock();
        state.count >= TRIM_AT.max(2 * state.count_kept)
    }

    /// Removes what no running or future transaction is concurrent with.
    pub(crate) fn trim(&self, stable: Timestamp, is_reserved: impl Fn(Txid) -> bool) {
        let mut state = self.state.lock();
        state.retain(|record| record.cts > stable || is_reserved(record.txid));
        state.count_kept = state.count;
    }
}

impl State {
    fn conflict(
        &self,
        candidate: &Candidate<'_>,
        reserves: &impl Fn(Txid, Txid) -> Option<bool>,
    ) -> Option<Txid> {
        for (entry, access) in candidate.accesses() {
            for record in self.entries.get(&entry).into_iter().flatten() {
                if record.txid == candidate.txid {
                    continue;
                }
                let has_committed = record.verdict == Verdict::Admitted && record.cts > candidate.sts;
                let counts = match reserves(record.txid, candidate.txid) {
                    Some(holds_back) => holds_back && access.meets_reserved(record.access),
                    None => has_committed && access.meets_committed(record.access),
                };
                if counts {
                    return Some(record.txid);
                }
            }
        }
        None
    }

    fn add(&mut self, candidate: &Candidate<'_>, cts: Timestamp, verdict: Verdict) {
        for (entry, access) in candidate.accesses() {
            let record = Record { txid: candidate.txid, cts, access, verdict };
            self.entries.entry(entry).or_default().push(record);
            self.count += 1;
        }
    }

    fn retain(&mut self, keep: impl Fn(&Record) -> bool) {
        self.entries.retain(|_, records| {
            records.retain(&keep);
            !records.is_empty()
        });
        self.count = self.entries.values().map(Vec::len).sum();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::LazyLock;

    static NOTHING: LazyLock<ReadSet> = LazyLock::new(ReadSet::default);

    fn candidate(txid: i64, sts: i64, write_set: &WriteSet) -> Candidate<'_> {
        Candidate { txid: Txid(txid), sts: Timestamp(sts), write_set, read_set: &NOTHING }
    }

    fn nobody() -> Reservations {
        Reservations::default()
    }

    /// Certifies transactions that update the entry of their number, in one batch.
    fn certify(
        certifier: &Certifier,
        next: &mut i64,
        list: &[(i64, i64, i64)],
        reservations: &Reservations,
    ) -> Vec<i64> {
        let sets: Vec<_> = list.iter().map(|one| WriteSet::of_update(one.2)).collect();
        let candidates: Vec<_> =
            list.iter().zip(&sets).map(|(one, write_set)| candidate(one.0, one.1, write_set)).collect();
        let take = |count: usize| {
            let first = *next;
            *next += count as i64;
            first..=*next - 1
        };
        let (_, refused) = certifier.certify(&candidates, take, reservations);
        let mut refused: Vec<_> = refused.into_keys().map(|txid| txid.0).collect();
        refused.sort_unstable();
        refused
    }

    #[test]
    fn the_first_committer_of_concurrent_ones_wins() {
        let (certifier, mut next) = (Certifier::default(), 1);
        // (transaction, start timestamp, entry)
        assert_eq!(certify(&certifier, &mut next, &[(1, 0, 7), (2, 0, 7), (3, 0, 8)], &nobody()), [2]);
        // 4 began before 1 committed, 5 behind it; 2 was refused and refuses nobody.
        assert_eq!(certify(&certifier, &mut next, &[(4, 0, 7)], &nobody()), [4]);
        assert_eq!(certify(&certifier, &mut next, &[(5, 1, 7)], &nobody()), [0; 0]);
        certifier.forget(&[Txid(5)]);
        assert_eq!(certify(&certifier, &mut next, &[(6, 1, 7)], &nobody()), [0; 0]);
    }

    #[test]
    fn a_reservation_counts_though_it_was_refused_and_is_old() {
        let (certifier, mut next) = (Certifier::default(), 1);
        assert_eq!(certify(&certifier, &mut next, &[(1, 0, 7), (2, 0, 7)], &nobody()), [2]);
        let of_two = Reservations::default();
        of_two.reserve(Txid(2), None);
        of_two.hold(Txid(2), Txid(9));
        assert_eq!(certify(&certifier, &mut next, &[(3, 2, 7), (9, 2, 7)], &of_two), [3]);
    }

    #[test]
    fn who_takes_a_timestamp_finds_what_was_reserved_before() {
        let (certifier, all) = (Certifier::default(), Reservations::default());
        let set = WriteSet::of_update(7);
        // 3 begins behind 1, which 2 met.
        let sts = |txid| if txid == 3 { 2 } else { 0 };
        let of = |txid| candidate(txid, sts(txid), &set);
        let certify = |txid, take: &dyn Fn() -> RangeInclusive<i64>| {
            certifier.certify(&[of(txid)], |_| take(), &all).1.into_keys().collect::<Vec<_>>()
        };
        assert_eq!(certify(1, &|| 1..=1), []);
        assert_eq!(certify(2, &|| 2..=2), [Txid(2)]);
        // 2 is reserved, and begins again as 4, at the last moment before 3 takes its timestamp.
        let reserve = || {
            all.reserve(Txid(2), None);
            all.hold(Txid(2), Txid(4));
            3..=3
        };
        assert_eq!(certify(3, &reserve), [Txid(3)], "3 would be concurrent with 4 and refuse it once more");
        let second = candidate(4, 2, &set);
        assert!(certifier.certify(&[second], |_| 4..=4, &all).1.is_empty());
    }

    #[test]
    fn what_is_stable_is_removed_and_what_is_reserved_is_kept() {
        let (certifier, mut next) = (Certifier::default(), 1);
        let list: Vec<_> = (0..TRIM_AT as i64).map(|number| (number, 0, number)).collect();
        assert_eq!(certify(&certifier, &mut next, &list, &nobody()), [0; 0]);
        assert!(certifier.is_worth_trimming());
        certifier.trim(Timestamp(next - 2), |txid| txid == Txid(5));
        let state = certifier.state.lock();
        assert_eq!((state.count, state.entries.len(), state.count_kept), (2, 2, 2));
        drop(state);
        assert!(!certifier.is_worth_trimming());
    }
}
