// SPDX-License-Identifier: Apache-2.0
//! [`RingPlacement`]: bricks on nodes by consistent hashing.
//!
//! Why: when a node comes or goes, few bricks move, and all nodes agree about where a brick is without asking.
//!
//! ```text
//!            n2  n1     n3
//!   0 --------*---*------*-----*---*------> 2^64, and round      each node has many points
//!                    ^                                           a brick belongs to the nodes whose points come
//!                    brick                                       next, each node once: here n3, then ..
//! ```
//! A point is XXH64 of a node's and a point's number; a brick's place, of the numbers of table and brick. That function is
//! specified to the bit, so nodes of all versions and machines agree. (Crates for rings hash by Rust's `Hash`, whose bytes no
//! version owes the next, and count points of one node as several replicas.)
//!
//! Cost: a search among the points; the points of the last few lists of nodes are kept.

use coeval_txn::cluster::{BrickAddress, NodeId, Placement};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use twox_hash::XxHash64;

/// Points of a node on the ring. With 128, a node of five has between four and six fifths of its share, as a rule.
const POINTS: u32 = 128;
/// Lists of nodes that are remembered: those of two views, as bricks move, and of the views before.
const RINGS_KEPT: usize = 4;
/// What tells points from bricks.
const POINT_SEED: u64 = 1;
const BRICK_SEED: u64 = 2;

/// Bricks on nodes by consistent hashing; each on as many as there are to be replicas.
#[derive(Clone, Debug)]
pub struct RingPlacement {
    replicas: usize,
    /// # Locking
    /// Held for a look-up, and while a ring is made. Nothing else is locked meanwhile.
    rings: Arc<Mutex<VecDeque<Arc<Ring>>>>,
}

#[derive(Debug)]
struct Ring {
    nodes: Vec<NodeId>,
    /// Ascending.
    points: Vec<(u64, NodeId)>,
}

impl RingPlacement {
    /// Each brick on `replicas` nodes.
    ///
    /// # Panics
    /// If that is none.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        assert!(replicas >= 1, "each brick is somewhere");
        Self { replicas, rings: Arc::default() }
    }

    fn ring(&self, nodes: &[NodeId]) -> Arc<Ring> {
        let mut rings = self.rings.lock();
        if let Some(ring) = rings.iter().find(|ring| ring.nodes == nodes) {
            return Arc::clone(ring);
        }
        let ring = Arc::new(Ring::new(nodes));
        if rings.len() == RINGS_KEPT {
            rings.pop_front();
        }
        rings.push_back(Arc::clone(&ring));
        ring
    }
}

impl Ring {
    fn new(nodes: &[NodeId]) -> Self {
        let point = |node: NodeId, number: u32| {
            let node_and_number = (u64::from(node.get()) << 32) | u64::from(number);
            (XxHash64::oneshot(POINT_SEED, &node_and_number.to_le_bytes()), node)
        };
        let mut points: Vec<_> =
            nodes.iter().flat_map(|node| (0..POINTS).map(|number| point(*node, number))).collect();
        points.sort_unstable();
        Self { nodes: nodes.to_vec(), points }
    }

    fn holders(&self, brick: BrickAddress, count: usize) -> Vec<NodeId> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&brick.table.to_le_bytes());
        bytes[8..].copy_from_slice(&brick.brick.to_le_bytes());
        let place = XxHash64::oneshot(BRICK_SEED, &bytes);
        let first = self.points.partition_point(|(point, _)| *point < place);
        let mut holders = Vec::with_capacity(count);
        for (_, node) in self.points[first..].iter().chain(&self.points[..first]) {
            if holders.len() == count {
                break;
            }
            if !holders.contains(node) {
                holders.push(*node);
            }
        }
        holders
    }
}

impl Placement for RingPlacement {
    fn holders(&self, nodes: &[NodeId], brick: BrickAddress) -> Vec<NodeId> {
        self.ring(nodes).holders(brick, self.replicas.min(nodes.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn nodes(count: u32) -> Vec<NodeId> {
        (1..=count).map(NodeId::new).collect()
    }

    fn bricks() -> impl Iterator<Item = BrickAddress> {
        (0..10_000).map(|brick| BrickAddress { table: 3, brick })
    }

    #[test]
    fn replicas_are_on_nodes_of_their_own_and_shares_are_alike() {
        let (ring, nodes) = (RingPlacement::new(2), nodes(5));
        let mut shares: BTreeMap<NodeId, usize> = BTreeMap::new();
        for brick in bricks() {
            let holders = ring.holders(&nodes, brick);
            assert_eq!(holders.iter().collect::<BTreeSet<_>>().len(), 2);
            holders.iter().for_each(|node| *shares.entry(*node).or_default() += 1);
        }
        assert!(shares.values().all(|share| (3_000..5_000).contains(share)), "{shares:?}");
        assert_eq!(RingPlacement::new(9).holders(&nodes, BrickAddress { table: 1, brick: 1 }).len(), 5);
    }

    #[test]
    fn a_node_that_comes_takes_its_share_and_nothing_else_moves() {
        let ring = RingPlacement::new(1);
        let (before, after) = (nodes(4), nodes(5));
        let mut moved = 0;
        for brick in bricks() {
            let (old, new) = (ring.holders(&before, brick), ring.holders(&after, brick));
            if old != new {
                assert_eq!(new, [NodeId::new(5)], "{brick:?} was on {old:?}");
                moved += 1;
            }
        }
        assert!((1_500..2_500).contains(&moved), "{moved} of 10000 bricks moved");
    }

    /// Where bricks are is part of what nodes of all versions agree about.
    #[test]
    fn bricks_are_where_they_have_always_been() {
        let (ring, nodes) = (RingPlacement::new(2), nodes(5));
        let on = |table, brick| -> Vec<u32> {
            ring.holders(&nodes, BrickAddress { table, brick }).iter().map(|node| node.get()).collect()
        };
        assert_eq!([on(1, 0), on(1, 1), on(7, u64::MAX)].concat(), PLACES);
    }

    const PLACES: [u32; 6] = [4, 5, 4, 5, 5, 1];
}
