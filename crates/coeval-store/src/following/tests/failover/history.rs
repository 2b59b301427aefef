// SPDX-License-Identifier: Apache-2.0
//! A history of transactions that append to lists and read them, and what is wrong with it.
//!
//! ```text
//! what the lists have in the end   the order of their versions, and who has committed
//!   ww     who appended a value                    ->  who appended the next
//!   wr     who appended the last value that was read -> the reader
//!   rw     the reader                              ->  who appended the value behind what was read
//!   token  who was acknowledged                    ->  who began with the token of that
//! ```
//! Without a cycle there is a serial order, and tokens hold in it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// The number of a list, and that of a value, which is appended once in a history.
pub(super) type List = i32;
pub(super) type Value = u32;

/// What became of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// None of it may be found: it was rolled back, refused, or its process died before it committed.
    RolledBack,
    /// All of it may be found, or none.
    Unknown,
    Acknowledged,
}

/// A transaction, as its client knows it.
#[derive(Clone)]
pub(super) struct Recorded {
    /// Where it ran, and how.
    pub(super) what: String,
    /// Lists as they were before its own appends.
    pub(super) reads: Vec<(List, Vec<Value>)>,
    pub(super) appends: Vec<(List, Value)>,
    /// It began with a token of this one.
    pub(super) behind: Option<usize>,
    pub(super) ending: Ending,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, reads, appends, behind, ending } = self;
        write!(f, "{what}: reads {reads:?}, appends {appends:?}, behind {behind:?}, {ending:?}")
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct History {
    pub(super) transactions: Vec<Recorded>,
}

impl History {
    /// A transaction begins.
    pub(super) fn begin(&mut self, what: String, behind: Option<usize>) -> usize {
        let (reads, appends) = Default::default();
        self.transactions.push(Recorded { what, reads, appends, behind, ending: Ending::RolledBack });
        self.transactions.len() - 1
    }

    /// What is wrong if these are the lists now.
    pub(super) fn anomaly(&self, lists: &BTreeMap<List, Vec<Value>>) -> Option<String> {
        let empty = Vec::new();
        let list = |list: &List| lists.get(list).unwrap_or(&empty);
        let mut by = HashMap::new();
        for (index, transaction) in self.transactions.iter().enumerate() {
            by.extend(transaction.appends.iter().map(|append| (*append, index)));
        }
        let mut found = vec![0; self.transactions.len()];
        for (list, values) in lists {
            for (place, value) in values.iter().enumerate() {
                let Some(index) = by.get(&(*list, *value)) else {
                    return Some(format!("nobody has appended {value} to list {list}"));
                };
                if values[..place].contains(value) {
                    return Some(format!("{value} is twice in list {list}: {values:?}"));
                }
                found[*index] += 1;
            }
        }
        for (index, transaction) in self.transactions.iter().enumerate() {
            let wrong = match (transaction.ending, found[index]) {
                (Ending::RolledBack, 1..) => "was not committed, and is found",
                (Ending::Acknowledged, found) if found < transaction.appends.len() => {
                    "was acknowledged, and is lost"
                }
                (Ending::Unknown, found) if found > 0 && found < transaction.appends.len() => {
                    "is found in part"
                }
                _ => continue,
            };
            return Some(format!("{index} {wrong}: {transaction:?}"));
        }
        let committed: Vec<usize> = (0..found.len())
            .filter(|index| match self.transactions[*index].ending {
                Ending::RolledBack => false,
                Ending::Unknown => found[*index] > 0,
                Ending::Acknowledged => true,
            })
            .collect();
        for index in &committed {
            for (of, values) in &self.transactions[*index].reads {
                if !list(of).starts_with(values) {
                    let (now, reader) = (list(of), &self.transactions[*index]);
                    return Some(format!(
                        "{index} read {values:?} in list {of}, which is {now:?}: {reader:?}"
                    ));
                }
            }
        }
        self.cycle(&self.edges(&committed, lists, &by))
    }

    /// Who has to come before each transaction.
    fn edges(
        &self,
        committed: &[usize],
        lists: &BTreeMap<List, Vec<Value>>,
        by: &HashMap<(List, Value), usize>,
    ) -> Vec<Vec<usize>> {
        let mut before = vec![Vec::new(); self.transactions.len()];
        for (list, values) in lists {
            for pair in values.windows(2) {
                before[by[&(*list, pair[1])]].push(by[&(*list, pair[0])]);
            }
        }
        for index in committed {
            let transaction = &self.transactions[*index];
            before[*index].extend(transaction.behind);
            for (list, values) in &transaction.reads {
                before[*index].extend(values.last().map(|last| by[&(*list, *last)]));
                if let Some(next) = lists.get(list).and_then(|list| list.get(values.len())) {
                    before[by[&(*list, *next)]].push(*index);
                }
            }
        }
        for (index, before) in before.iter_mut().enumerate() {
            before.sort_unstable();
            before.dedup();
            before.retain(|other| *other != index);
        }
        before
    }

    /// A cycle, if there is one: what is left when whoever waits for nobody is taken away, again and again.
    fn cycle(&self, before: &[Vec<usize>]) -> Option<String> {
        let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
        let mut behind = vec![Vec::new(); before.len()];
        for (index, before) in before.iter().enumerate() {
            before.iter().for_each(|other| behind[*other].push(index));
        }
        let mut ready: Vec<usize> = (0..waits.len()).filter(|index| waits[*index] == 0).collect();
        while let Some(next) = ready.pop() {
            for other in &behind[next] {
                waits[*other] -= 1;
                if waits[*other] == 0 {
                    ready.push(*other);
                }
            }
        }
        let left = |index: &usize| waits[*index] > 0;
        let mut path = vec![(0..waits.len()).find(left)?];
        loop {
            let last = path[path.len() - 1];
            let next =
                *before[last].iter().find(|other| left(other)).expect("one of those left is before it");
            if let Some(place) = path.iter().position(|known| *known == next) {
                let members = path.split_off(place).into_iter().rev();
                let told: Vec<_> =
                    members.map(|index| format!("{index} {:?}", self.transactions[index])).collect();
                return Some(format!("a cycle:\n{}", told.join("\n")));
            }
            path.push(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was read, what was appended, and whose token it began with.
    type Told<'t> = (&'t [(List, &'t [Value])], &'t [(List, Value)], Option<usize>);

    /// Of transactions that were all acknowledged.
    fn history(transactions: &[Told<'_>]) -> History {
        let mut history = History::default();
        for (reads, appends, behind) in transactions {
            let index = history.begin(String::new(), *behind);
            let transaction = &mut history.transactions[index];
            transaction.reads = reads.iter().map(|(list, values)| (*list, values.to_vec())).collect();
            transaction.appends = appends.to_vec();
            transaction.ending = Ending::Acknowledged;
        }
        history
    }

    #[test]
    fn anomalies_are_found_and_nothing_else() {
        let lists = BTreeMap::from([(1, vec![10, 11]), (2, vec![20])]);
        let both: &[(List, &[Value])] = &[(1, &[]), (2, &[])];
        let skew =
            history(&[(both, &[(1, 10)], None), (both, &[(2, 20)], None), (&[(1, &[10])], &[(1, 11)], None)]);
        assert!(skew.anomaly(&lists).unwrap().contains("cycle"));
        let serial: &[(List, &[Value])] = &[(1, &[10]), (2, &[])];
        let mut right = history(&[
            (both, &[(1, 10)], None),
            (serial, &[(2, 20)], None),
            (&[(1, &[10])], &[(1, 11)], None),
            (&[(1, &[10]), (2, &[20])], &[], Some(1)),
        ]);
        assert_eq!(right.anomaly(&lists), None);
        right.transactions[3].behind = Some(2);
        assert!(right.anomaly(&lists).unwrap().contains("cycle"), "the token is of what it has not seen");
        right.transactions[3].behind = None;
        right.transactions[1].ending = Ending::RolledBack;
        assert!(right.anomaly(&lists).unwrap().contains("was not committed"));
        right.transactions[1].ending = Ending::Unknown;
        assert_eq!(right.anomaly(&lists), None);
        let less = BTreeMap::from([(1, vec![10]), (2, vec![20])]);
        assert!(right.anomaly(&less).unwrap().contains("is lost"));
        right.transactions[1].appends.push((1, 12));
        assert!(right.anomaly(&lists).unwrap().contains("in part"));
        let other = BTreeMap::from([(1, vec![11, 10]), (2, vec![20])]);
        right.transactions[1].appends.pop();
        assert!(right.anomaly(&other).unwrap().contains("read"));
    }
}
