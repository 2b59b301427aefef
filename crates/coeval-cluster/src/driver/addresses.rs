// SPDX-License-Identifier: Apache-2.0
//! [`KnownAddresses`]: the nodes that a node knows, and where they are.

use crate::node::NodeId;
use crate::node_address::NodeAddress;
use coeval_txn::cluster::{ViewChange, ViewNumber, ViewRecord};
use std::collections::BTreeMap;

/// The nodes that a node knows, and where they are: what it was told when it started, and what the keeper's records say since.
///
/// A node follows all records from the first on, and old ones have addresses of long ago: taken for true, they would cut it off
/// from those who have the others. So records up to the one that the list it was told is of change nothing that is in that list.
///
/// Nodes that were removed for good stay in it: one that speaks up is heard, and told by the record that says so.
#[derive(Clone, Debug)]
pub(super) struct KnownAddresses {
    nodes: BTreeMap<NodeId, NodeAddress>,
    as_of: ViewNumber,
    /// How often a node was new or elsewhere.
    changes: u64,
}

impl KnownAddresses {
    /// What a node is told, as of a record of the keeper.
    pub(super) fn new(nodes: &[(NodeId, NodeAddress)], as_of: ViewNumber) -> Self {
        Self { nodes: nodes.iter().cloned().collect(), as_of, changes: 0 }
    }

    /// Goes on behind a record. Says whether a node is new, or elsewhere.
    pub(super) fn follow(&mut self, record: &ViewRecord) -> bool {
        let is_older = record.number <= self.as_of;
        self.as_of = self.as_of.max(record.number);
        match &record.change {
            ViewChange::Known { node, address, .. } => {
                !(is_older && self.knows(*node)) && self.note(*node, address)
            }
            ViewChange::Whole(whole) => {
                let known = whole.known.iter();
                known.fold(false, |is_change, (node, known)| {
                    let is_new = !(is_older && self.knows(*node)) && self.note(*node, &known.address);
                    is_new || is_change
                })
            }
            _ => false,
        }
    }

    fn knows(&self, node: NodeId) -> bool {
        self.nodes.contains_key(&node)
    }

    /// A node is at this address, as a record says.
    fn note(&mut self, node: NodeId, address: &str) -> bool {
        match address.parse::<NodeAddress>() {
            Ok(address) => {
                let is_change = self.nodes.insert(node, address.clone()) != Some(address);
                self.changes += u64::from(is_change);
                is_change
            }
            Err(error) => {
                tracing::error!("the keeper's records have no address of {node}: {error}");
                false
            }
        }
    }

    /// Where a node is.
    pub(super) fn address(&self, node: NodeId) -> Option<&NodeAddress> {
        self.nodes.get(&node)
    }

    /// All of them, ascending.
    pub(super) fn list(&self) -> Vec<(NodeId, NodeAddress)> {
        self.nodes.iter().map(|(node, address)| (*node, address.clone())).collect()
    }

    /// A number that is another one when a node is new or elsewhere.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Up to which record this is.
    pub(super) fn as_of(&self) -> ViewNumber {
        self.as_of
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const ONE: NodeId = NodeId::new(1);
    const TWO: NodeId = NodeId::new(2);

    fn address(text: &str) -> NodeAddress {
        text.parse().unwrap()
    }

    fn record(number: u64, node: NodeId, address: &str) -> ViewRecord {
        let change = ViewChange::Known { node, address: Arc::from(address), start: None };
        ViewRecord { number: ViewNumber::new(number), change }
    }

    #[test]
    fn nodes_are_where_the_last_record_says() {
        let mut known = KnownAddresses::new(&[(ONE, address("a:1"))], ViewNumber::default());
        assert!(known.follow(&record(1, TWO, "b:1")));
        assert!(!known.follow(&record(2, TWO, "b:1")), "nothing is new");
        assert!(known.follow(&record(3, ONE, "c:1")));
        assert!(!known.follow(&record(4, TWO, "nowhere")), "what is no address changes nothing");
        assert_eq!(known.list(), [(ONE, address("c:1")), (TWO, address("b:1"))]);
    }

    #[test]
    fn records_of_before_the_list_do_not_change_it() {
        let mut known = KnownAddresses::new(&[(ONE, address("new:1"))], ViewNumber::new(3));
        assert!(!known.follow(&record(1, ONE, "old:1")));
        assert!(
            known.follow(&record(2, TWO, "b:1")),
            "who was removed is not in the list, and has to be known"
        );
        assert!(!known.follow(&record(3, ONE, "new:1")));
        assert!(known.follow(&record(4, ONE, "newer:1")));
        assert_eq!(known.address(ONE), Some(&address("newer:1")));
        assert_eq!(known.as_of(), ViewNumber::new(4));
    }
}
