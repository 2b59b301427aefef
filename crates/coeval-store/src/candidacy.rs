// SPDX-License-Identifier: Apache-2.0
//! Whether a replica may be promoted: the count of promises, and the comparison of logs (the proof: `promises.rs`).
//! Whoever asks others for promises, over whatever wire, tells it here what they answer.

use crate::promises::{LogStanding, Promise};
use crate::replicas::SynchronousReplicas;
use crate::store::Store;
use crate::terms::Timeline;
use std::collections::BTreeSet;

/// An attempt of a replica to become the primary.
#[derive(Debug)]
pub struct Candidacy {
    promise: Promise,
    own: LogStanding,
    required: Option<SynchronousReplicas>,
    /// The names of those that have promised, in lower case.
    promised: BTreeSet<String>,
}

/// Why a replica is not promoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPromoted {
    /// Commits wait for replicas by their names, and this one is not among them.
    #[error("\"{name}\" is not one of the replicas that commits wait for: {listed}")]
    NotListed {
        /// Its name.
        name: String,
        /// The others'.
        listed: String,
    },
    /// Commits wait for replicas of any name: nobody knows how many there are.
    #[error("commits wait for replicas of any name, so nobody can say which of them have to be asked")]
    AnyName,
    /// One that promised has more.
    #[error("\"{name}\" has a longer log: it has to be promoted")]
    Longer {
        /// Its name.
        name: String,
    },
    /// Too few have promised.
    #[error("{promised} of {needed} replicas that are needed have promised; missing are some of {missing}")]
    TooFew {
        /// How many have.
        promised: usize,
        /// How many have to.
        needed: usize,
        /// The names of the others.
        missing: String,
    },
    /// The candidate's program compares the numbers of timelines alone.
    #[error(
        "the program of the candidate takes two timelines of one number for one, and so few machines have to promise that there may be two: \
         bring the candidate's machine up to date, and promote it then"
    )]
    OlderProgram,
}

impl Store {
    /// As [`promise`](Store::promise), to a candidate whose program compares the numbers of timelines alone (`promises.rs`, A candidate of
    /// an older program).
    ///
    /// # Errors
    /// [`NotPromoted::OlderProgram`] of a replica by whose lists so few have to promise that a number may be begun twice: nothing is
    /// promised. As there.
    pub fn promise_number(&self, number: Timeline, candidate: u64) -> Result<LogStanding, CandidacyError> {
        // What a primary promises counts for nobody, and ends its commits: that is never wrong.
        if self.is_following() && is_promised_by_few(self.recorded_replicas().as_ref()) {
            return Err(NotPromoted::OlderProgram.into());
        }
        Ok(self.promise(Promise::of_number(number, candidate))?)
    }
}

impl Candidacy {
    /// An attempt of the replica in `store`, which is listed under this name, to begin this timeline. Nothing is promised yet: a caller
    /// that only asks the other machines for the lengths of their logs finds out whether the attempt would succeed, and disturbs none.
    ///
    /// # Errors
    /// [`NotPromoted`].
    pub fn considered(store: &Store, name: &str, timeline: Timeline) -> Result<Self, NotPromoted> {
        Self::of(store, name, Promise::asked_for(timeline))
    }

    fn of(store: &Store, name: &str, promise: Promise) -> Result<Self, NotPromoted> {
        let required = required_of(store, name)?;
        let promise = if is_promised_by_few(required.as_ref()) { promise.of_few() } else { promise };
        let promised = BTreeSet::from([name.to_ascii_lowercase()]);
        Ok(Self { promise, own: store.log_standing(), required, promised })
    }

    /// The same, and the replica itself promises the timeline. One that somebody who is asked has promised before is of no use:
    /// it has to be above all that is known of. What is promised is a timeline of that number, or of a higher one if a list comes meanwhile by
    /// which [few](Promise::of) have to promise.
    ///
    /// # Errors
    /// [`CandidacyError`](crate::CandidacyError): nothing was promised, but perhaps by the replica itself.
    pub fn begin(store: &Store, name: &str, timeline: Timeline) -> Result<Self, CandidacyError> {
        Self::considered(store, name, timeline)?.promised_itself(store, name)
    }

    /// The same with a promise that is not asked for at random, so that a simulation goes the same way again.
    #[cfg(test)]
    pub(crate) fn begin_with(store: &Store, name: &str, promise: Promise) -> Result<Self, CandidacyError> {
        Self::of(store, name, promise)?.promised_itself(store, name)
    }

    /// The replica promises it. How long its log is, and who is asked, is looked at behind that: another list may have come with the log
    /// meanwhile, and one that is older than the log does not say whom to ask.
    fn promised_itself(mut self, store: &Store, name: &str) -> Result<Self, CandidacyError> {
        loop {
            self.own = store.promise(self.promise)?;
            // A record is in the log before its change is seen, and both are done under this lock: behind it the list is not older than
            // the log that was just looked at.
            drop(store.shared.pipeline.lock_leader(&store.shared));
            self.required = required_of(store, name)?;
            if self.promise == self.promise.of_few() || !is_promised_by_few(self.required.as_ref()) {
                return Ok(self);
            }
            // With this list others may find enough for the same number, and that was given away just now.
            self.promise = Promise { timeline: self.promise.timeline.next(), ..self.promise }.of_few();
        }
    }

    /// What the others are to promise.
    #[must_use]
    pub fn promise(&self) -> Promise {
        self.promise
    }

    /// Another machine has promised, and this is the length of its log. A running primary is better asked after this machine is
    /// promoted: its log is mostly longer than the others, and asking for a promise stops it.
    ///
    /// # Errors
    /// [`NotPromoted::Longer`].
    pub fn note_promise(&mut self, name: &str, standing: LogStanding) -> Result<(), NotPromoted> {
        if standing > self.own {
            return Err(NotPromoted::Longer { name: name.to_owned() });
        }
        self.promised.insert(name.to_ascii_lowercase());
        Ok(())
    }

    /// Whether enough have promised by the newest list, whatever it follows: for a simulation that sees what this loses.
    #[cfg(test)]
    pub(crate) fn has_enough_by_newest_list(&self) -> bool {
        self.required.as_ref().is_none_or(|newest| match (newest.members(), newest.promises_needed()) {
            (Some(members), Some(needed)) => members.intersection(&self.promised).count() >= needed,
            _ => false,
        })
    }

    /// The promise that the directory is to be [promoted](crate::promote) with, if enough have given it. Without synchronous
    /// replicas that is its own: nobody was promised more.
    ///
    /// # Errors
    /// [`NotPromoted::TooFew`]; [`NotPromoted::AnyName`].
    pub fn outcome(&self) -> Result<Promise, NotPromoted> {
        // While one list follows another, some may go by the one and some by the other: enough have to promise by each.
        for list in self.required.iter().flat_map(SynchronousReplicas::lists) {
            let (Some(members), Some(needed)) = (list.members(), list.promises_needed()) else {
                return Err(NotPromoted::AnyName);
            };
            // Each counts once, however often it is listed.
            let promised = members.intersection(&self.promised).count();
            if promised < needed {
                let missing: Vec<_> = members.difference(&self.promised).cloned().collect();
                return Err(NotPromoted::TooFew { promised, needed, missing: missing.join(", ") });
            }
        }
        Ok(self.promise)
    }
}

/// Whether by one of these lists fewer than a majority have to promise.
fn is_promised_by_few(required: Option<&SynchronousReplicas>) -> bool {
    required.is_some_and(|required| required.lists().any(SynchronousReplicas::is_promised_by_few))
}

/// The replicas that commits wait for, according to the log of a replica, which has to be one of them.
///
/// # Errors
/// [`NotPromoted::AnyName`], [`NotPromoted::NotListed`].
fn required_of(store: &Store, name: &str) -> Result<Option<SynchronousReplicas>, NotPromoted> {
    let required = store.recorded_replicas();
    if let Some(required) = &required {
        if required.lists().any(|list| list.promises_needed().is_none()) {
            return Err(NotPromoted::AnyName);
        }
        if !required.has_member(name) {
            let (name, listed) = (name.to_owned(), required.names.join(", "));
            return Err(NotPromoted::NotListed { name, listed });
        }
    }
    Ok(required)
}

/// Why an attempt did not begin.
#[derive(Debug, thiserror::Error)]
pub enum CandidacyError {
    /// It may not be promoted.
    #[error(transparent)]
    Refused(#[from] NotPromoted),
    /// It cannot promise.
    #[error(transparent)]
    Store(#[from] crate::error::StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::SimulatedFiles;
    use crate::log::Lsn;
    use crate::options::StoreOptions;
    use crate::replicas::ReplicaChoice;
    use std::path::Path;
    use std::sync::Arc;

    /// To break it: go by the list that was there before the promise. Whoever was asked to wait by the newer one is not asked then.
    #[test]
    fn a_list_that_comes_before_the_promise_says_who_is_asked() {
        let files = Arc::new(SimulatedFiles::new(1));
        let store = Store::open_with(files, Path::new("/machine"), StoreOptions::default()).unwrap();
        let considered = Candidacy::considered(&store, "a", Timeline::new(2)).unwrap();
        assert!(considered.outcome().is_ok(), "commits wait for nobody");
        let names = ["a", "b"].map(str::to_owned).to_vec();
        let choice = ReplicaChoice::Any;
        let (primary, before) = (String::new(), Vec::new());
        let list = SynchronousReplicas { count: 1, choice, names, primary, before };
        store.require_replicas(Some(list)).unwrap();
        let begun = considered.promised_itself(&store, "a").unwrap();
        let missing = "b".to_owned();
        assert_eq!(begun.outcome(), Err(NotPromoted::TooFew { promised: 1, needed: 2, missing }));
    }

    /// To break it: go by the list that was there before the promise.
    #[test]
    fn a_timeline_is_the_candidates_own_where_few_have_to_promise() {
        let files = Arc::new(SimulatedFiles::new(2));
        let store = Store::open_with(files, Path::new("/machine"), StoreOptions::default()).unwrap();
        let considered = Candidacy::considered(&store, "a", Timeline::new(2)).unwrap();
        assert_eq!(considered.promise().timeline, Timeline::new(2), "nobody has to promise");
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let (choice, primary, before) = (ReplicaChoice::Any, "a".to_owned(), Vec::new());
        let list = SynchronousReplicas { count: 2, choice, names, primary, before };
        store.set_own_name("a").unwrap();
        store.require_replicas(Some(list)).unwrap();
        let begun = considered.promised_itself(&store, "a").unwrap();
        let promise = begun.promise();
        assert_eq!((promise.timeline.get(), promise.timeline.candidate()), (3, promise.candidate));
        assert_eq!(begun.outcome(), Ok(promise));
    }

    #[test]
    fn one_that_is_listed_twice_promises_once() {
        let names = ["a", "A", "b"].map(str::to_owned).to_vec();
        let choice = ReplicaChoice::Any;
        let (primary, before) = Default::default();
        let required = Some(SynchronousReplicas { count: 1, choice, names, primary, before });
        let own = LogStanding::new(3, 0, Lsn::new(100));
        let promise = Promise::asked_for(Timeline::new(2));
        let mut candidacy = Candidacy { promise, own, required, promised: BTreeSet::from(["a".to_owned()]) };
        let missing = "b".to_owned();
        assert_eq!(candidacy.outcome(), Err(NotPromoted::TooFew { promised: 1, needed: 2, missing }));
        let longer = LogStanding::new(3, 0, Lsn::new(101));
        assert_eq!(candidacy.note_promise("B", longer), Err(NotPromoted::Longer { name: "B".to_owned() }));
        candidacy.note_promise("B", own).unwrap();
        assert_eq!(candidacy.outcome(), Ok(promise));
    }

    /// Fails if the newest list alone is asked.
    #[test]
    fn while_one_list_follows_another_enough_promise_by_each() {
        let list = |names: &[&str], before| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            let (count, choice, primary) = (1, ReplicaChoice::Any, "a".to_owned());
            SynchronousReplicas { count, choice, names, primary, before }
        };
        let required = Some(list(&["a", "c"], vec![list(&["a", "b"], Vec::new())]));
        let own = LogStanding::new(3, 0, Lsn::new(100));
        let promise = Promise::asked_for(Timeline::new(2));
        let mut candidacy = Candidacy { promise, own, required, promised: BTreeSet::from(["c".to_owned()]) };
        let missing = "a, b".to_owned();
        assert_eq!(candidacy.outcome(), Err(NotPromoted::TooFew { promised: 0, needed: 1, missing }));
        candidacy.note_promise("b", own).unwrap();
        assert_eq!(candidacy.outcome(), Ok(promise));
    }
}
