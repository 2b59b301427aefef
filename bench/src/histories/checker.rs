// SPDX-License-Identifier: Apache-2.0
//! Finds anomalies in a history of appends and reads, by the names of Adya and of Elle.
//!
//! ```text
//! the longest list read of a key     the order of its versions
//!   ww   who appended an element  ->  who appended the next
//!   wr   who appended the last element that was read  ->  the reader
//!   rw   the reader  ->  who appended the element behind what was read
//! ```
//!
//! Snapshot isolation allows no cycle but those with two rw edges in a row; serializability allows none. It knows
//! nothing of how the database works.

use crate::histories::history::{Ending, History, Operation};
use coeval::Isolation;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What is wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Anomaly {
    /// Two reads of a key cannot both be prefixes of one order, or a value is there twice.
    IncompatibleOrder,
    /// A transaction does not find its own appends, or not at the end.
    Internal,
    /// G1a: a value was read whose transaction was aborted.
    AbortedRead,
    /// G1b: a list was read that a transaction had not finished.
    IntermediateRead,
    /// G0: a cycle of ww.
    WriteCycle,
    /// G1c: a cycle of ww and wr.
    CircularInformationFlow,
    /// G-single: a cycle with one rw, such as a lost update or a fuzzy read.
    SingleAntidependency,
    /// G-nonadjacent: a cycle with several rw, no two in a row.
    NonadjacentAntidependencies,
    /// G2-item: a cycle with two rw in a row, such as write skew.
    WriteSkew,
}

impl Anomaly {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::IncompatibleOrder,
        Self::Internal,
        Self::AbortedRead,
        Self::IntermediateRead,
        Self::WriteCycle,
        Self::CircularInformationFlow,
        Self::SingleAntidependency,
        Self::NonadjacentAntidependencies,
        Self::WriteSkew,
    ];

    /// Its name, as Adya and Elle have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IncompatibleOrder => "incompatible-order",
            Self::Internal => "internal",
            Self::AbortedRead => "G1a",
            Self::IntermediateRead => "G1b",
            Self::WriteCycle => "G0",
            Self::CircularInformationFlow => "G1c",
            Self::SingleAntidependency => "G-single",
            Self::NonadjacentAntidependencies => "G-nonadjacent",
            Self::WriteSkew => "G2-item",
        }
    }

    /// Whether a level allows it.
    #[must_use]
    pub fn is_allowed(self, isolation: Isolation) -> bool {
        match isolation {
            Isolation::Serializable => false,
            Isolation::Snapshot => self.is_allowed_on_snapshots(),
            Isolation::ReadCommitted => matches!(
                self,
                Self::SingleAntidependency | Self::NonadjacentAntidependencies | Self::WriteSkew
            ),
        }
    }

    /// Whether snapshot isolation allows it.
    #[must_use]
    pub fn is_allowed_on_snapshots(self) -> bool {
        self == Self::WriteSkew
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Edge {
    WriteWrite,
    WriteRead,
    ReadWrite,
}

/// Each anomaly that a history has, with an example. Cost: linear in what the history says, but for the description of
/// what it finds.
///
/// # Panics
/// If a value is appended twice to a key, which no history that was recorded or read from a file does.
#[must_use]
pub fn anomalies(history: &History) -> BTreeMap<Anomaly, String> {
    let mut check =
        Check { found: BTreeMap::new(), history, appenders: HashMap::new(), orders: HashMap::new() };
    check.note_appends();
    check.note_orders();
    check.look_at_reads();
    let edges = check.edges();
    check.look_for_cycles(&edges);
    check.found
}

struct Check<'a> {
    found: BTreeMap<Anomaly, String>,
    history: &'a History,
    /// Who appended a value to a key.
    appenders: HashMap<(u64, u64), usize>,
    /// The longest list read of each key.
    orders: HashMap<u64, Vec<u64>>,
}

impl<'a> Check<'a> {
    fn report(&mut self, anomaly: Anomaly, example: impl FnOnce() -> String) {
        self.found.entry(anomaly).or_insert_with(example);
    }

    fn committed(&self) -> impl Iterator<Item = (usize, &'a [Operation])> + use<'a> {
        let all = self.history.transactions.iter().enumerate();
        let committed = all.filter(|(_, transaction)| transaction.ending == Ending::Committed);
        committed.map(|(index, transaction)| (index, transaction.operations.as_slice()))
    }

    fn note_appends(&mut self) {
        for (index, transaction) in self.history.transactions.iter().enumerate() {
            for operation in &transaction.operations {
                if let Operation::Append { key, value } = operation {
                    let before = self.appenders.insert((*key, *value), index);
                    assert!(before.is_none(), "each value is appended once");
                }
            }
        }
    }

    fn note_orders(&mut self) {
        let reads: Vec<_> =
            self.committed().flat_map(|(index, operations)| outer_reads(index, operations)).collect();
        for (_, key, list) in &reads {
            let longest = self.orders.entry(*key).or_default();
            if list.len() > longest.len() {
                longest.clone_from(list);
            }
        }
        for (index, key, list) in &reads {
            if !self.orders[key].starts_with(list) {
                let longest = self.orders[key].clone();
                self.report(Anomaly::IncompatibleOrder, || {
                    format!("transaction {index} read {list:?} of {key}, another {longest:?}")
                });
            }
        }
        for (key, list) in self.orders.clone() {
            let values: HashSet<_> = list.iter().collect();
            if values.len() < list.len() {
                self.report(Anomaly::IncompatibleOrder, || format!("a value is twice in {list:?} of {key}"));
            }
        }
    }

    fn look_at_reads(&mut self) {
        for (index, operations) in self.committed() {
            let mut own: HashMap<u64, Vec<u64>> = HashMap::new();
            for operation in operations {
                match operation {
                    Operation::Append { key, value } => own.entry(*key).or_default().push(*value),
                    Operation::Read { key, list } => {
                        let mine = own.get(key).cloned().unwrap_or_default();
                        if !list.ends_with(&mine) {
                            self.report(Anomaly::Internal, || {
                                format!("transaction {index} appended {mine:?} to {key} and read {list:?}")
                            });
                            continue;
                        }
                        self.look_at_elements(index, *key, &list[..list.len() - mine.len()]);
                    }
                }
            }
        }
    }

    fn look_at_elements(&mut self, reader: usize, key: u64, list: &[u64]) {
        for value in list {
            let appender = self.appenders.get(&(key, *value)).copied();
            let is_aborted =
                appender.is_none_or(|by| self.history.transactions[by].ending == Ending::Aborted);
            if is_aborted {
                self.report(Anomaly::AbortedRead, || {
                    format!("transaction {reader} read {value} of {key}, which {appender:?} never committed")
                });
            }
        }
        let Some(last) = list.last() else { return };
        let Some(&appender) = self.appenders.get(&(key, *last)) else { return };
        let mut appends =
            self.history.transactions[appender].operations.iter().filter_map(|operation| match operation {
                Operation::Append { key: of, value } if *of == key => Some(*value),
                _ => None,
            });
        if appends.next_back() != Some(*last) {
            self.report(Anomaly::IntermediateRead, || {
                format!("transaction {reader} read {list:?} of {key}, which {appender} went on to append to")
            });
        }
    }

    /// What depends on what, without doubles.
    fn edges(&self) -> Vec<Vec<(usize, Edge)>> {
        let mut edges = vec![Vec::new(); self.history.transactions.len()];
        let mut add = |from: usize, to: usize, edge: Edge| {
            if from != to {
                edges[from].push((to, edge));
            }
        };
        for (key, list) in &self.orders {
            let by: Vec<_> = list.iter().filter_map(|value| self.appenders.get(&(*key, *value))).collect();
            for pair in by.windows(2) {
                add(*pair[0], *pair[1], Edge::WriteWrite);
            }
        }
        for (index, operations) in self.committed() {
            for (_, key, list) in outer_reads(index, operations) {
                if let Some(by) = list.last().and_then(|last| self.appenders.get(&(key, *last))) {
                    add(*by, index, Edge::WriteRead);
                }
                let next = self.orders[&key].get(list.len());
                if let Some(by) = next.and_then(|next| self.appenders.get(&(key, *next))) {
                    add(index, *by, Edge::ReadWrite);
                }
            }
        }
        for list in &mut edges {
            list.sort_unstable();
            list.dedup();
        }
        edges
    }

    fn look_for_cycles(&mut self, edges: &[Vec<(usize, Edge)>]) {
        let of = |kinds: &'static [Edge]| -> Vec<Vec<usize>> {
            let chosen = |list: &Vec<(usize, Edge)>| {
                list.iter().filter(|(_, edge)| kinds.contains(edge)).map(|(to, _)| *to).collect()
            };
            edges.iter().map(chosen).collect()
        };
        let describe = |component: &[usize]| {
            let mut text = String::new();
            for &index in component.iter().take(4) {
                text.push_str(&format!("{index}: {:?}\n", self.history.transactions[index].operations));
            }
            text
        };
        let mut found = Vec::new();
        let dependencies = of(&[Edge::WriteWrite, Edge::WriteRead]);
        let searches = [
            (Anomaly::WriteCycle, of(&[Edge::WriteWrite])),
            (Anomaly::CircularInformationFlow, dependencies.clone()),
            (Anomaly::WriteSkew, of(&[Edge::WriteWrite, Edge::WriteRead, Edge::ReadWrite])),
        ];
        for (anomaly, graph) in &searches {
            if let Some(component) = cycle(graph) {
                found.push((*anomaly, describe(&component)));
            }
        }
        // Twice each transaction: come to by an rw edge, which none may follow, or by another.
        let count = edges.len();
        let mut alternating = vec![Vec::new(); 2 * count];
        for (from, list) in edges.iter().enumerate() {
            for &(to, edge) in list {
                if edge == Edge::ReadWrite {
                    alternating[from].push(count + to);
                } else {
                    alternating[from].push(to);
                    alternating[count + from].push(to);
                }
            }
        }
        if let Some(component) = cycle(&alternating) {
            let members: Vec<_> = component.iter().map(|index| index % count).collect();
            let is_single = members.iter().any(|&from| {
                let targets = edges[from].iter().filter(|(_, edge)| *edge == Edge::ReadWrite);
                targets.into_iter().any(|&(to, _)| reaches(&dependencies, to, from))
            });
            let anomaly =
                if is_single { Anomaly::SingleAntidependency } else { Anomaly::NonadjacentAntidependencies };
            found.push((anomaly, describe(&members)));
        }
        self.found.extend(found);
    }
}

/// The reads of a transaction that tell about others: of each key the one before its own appends.
fn outer_reads(index: usize, operations: &[Operation]) -> Vec<(usize, u64, Vec<u64>)> {
    let mut own = HashSet::new();
    let mut reads = Vec::new();
    for operation in operations {
        match operation {
            Operation::Append { key, .. } => {
                own.insert(*key);
            }
            Operation::Read { key, list } if !own.contains(key) => reads.push((index, *key, list.clone())),
            Operation::Read { .. } => {}
        }
    }
    // What is read behind own appends shows what they were appended to.
    for operation in operations {
        if let Operation::Read { key, list } = operation
            && own.contains(key)
        {
            let is_own = |value: &u64| operations.contains(&Operation::Append { key: *key, value: *value });
            let before = list.iter().position(is_own).unwrap_or(list.len());
            reads.push((index, *key, list[..before].to_vec()));
        }
    }
    reads
}

fn reaches(graph: &[Vec<usize>], from: usize, to: usize) -> bool {
    let mut seen = HashSet::from([from]);
    let mut open = vec![from];
    while let Some(node) = open.pop() {
        if node == to {
            return true;
        }
        open.extend(graph[node].iter().copied().filter(|next| seen.insert(*next)));
    }
    false
}

/// A strongly connected component with more than one node, if there is one (Tarjan, without recursion).
fn cycle(graph: &[Vec<usize>]) -> Option<Vec<usize>> {
    const UNSEEN: usize = usize::MAX;
    let mut number = vec![UNSEEN; graph.len()];
    let mut low = vec![0; graph.len()];
    let mut on_stack = vec![false; graph.len()];
    let (mut stack, mut next) = (Vec::new(), 0);
    for root in 0..graph.len() {
        if number[root] != UNSEEN {
            continue;
        }
        let mut path = vec![(root, 0)];
        while let Some((node, edge)) = path.pop() {
            if edge == 0 {
                (number[node], low[node]) = (next, next);
                next += 1;
                stack.push(node);
                on_stack[node] = true;
            }
            if let Some(&to) = graph[node].get(edge) {
                path.push((node, edge + 1));
                if number[to] == UNSEEN {
                    path.push((to, 0));
                } else if on_stack[to] {
                    low[node] = low[node].min(number[to]);
                }
                continue;
            }
            if low[node] == number[node] {
                let at = stack.iter().rposition(|&member| member == node)?;
                let component = stack.split_off(at);
                component.iter().for_each(|&member| on_stack[member] = false);
                if component.len() > 1 {
                    return Some(component);
                }
            }
            if let Some(&(parent, _)) = path.last() {
                low[parent] = low[parent].min(low[node]);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests;
