// SPDX-License-Identifier: Apache-2.0
//! The number of a transaction that writes brick tables, and the numbers that a node may hand out.

use std::fmt;

/// The number of a transaction (or of one of its savepoint levels) that writes brick tables; labels its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// Before the first epoch. No transaction has it.
    pub const ZERO: Self = Self(0);

    /// The largest epoch. One bit is left free, in which an epochs vector marks deletes.
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// The epoch with this number, as read back from a log record or a message.
    ///
    /// # Panics
    ///
    /// If the number is greater than [`Epoch::MAX`].
    #[inline]
    #[must_use]
    pub const fn new(number: u64) -> Self {
        assert!(number <= Self::MAX.0, "an epoch has 63 bits");
        Self(number)
    }

    /// The number, as a log record or a message carries it.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch below this one; [`Epoch::ZERO`] is its own.
    #[inline]
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, formatter)
    }
}

/// The epochs that one node of a cluster hands out: `node`, `node + nodes`, `node + 2 nodes`, ...
///
/// No two nodes ever hand out the same epoch (AOSI III-A). Nodes are counted from 1, so that epoch 0 is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stride {
    node: u64,
    nodes: u64,
}

impl Stride {
    /// All epochs from 1: the stride of a process that is alone.
    pub const ALONE: Self = Self { node: 1, nodes: 1 };

    /// The epochs of the `node`-th of `nodes` nodes.
    ///
    /// # Panics
    ///
    /// If `node` is not one of `1..=nodes`.
    #[must_use]
    pub const fn new(node: u32, nodes: u32) -> Self {
        assert!(node >= 1, "nodes are counted from 1");
        assert!(node <= nodes, "a node is one of the cluster's");
        Self { node: node as u64, nodes: nodes as u64 }
    }

    /// The node that hands out `epoch`.
    #[must_use]
    pub const fn node_of(self, epoch: Epoch) -> u32 {
        let rest = epoch.0 % self.nodes;
        // There are fewer than 2^32 nodes.
        (if rest == 0 { self.nodes } else { rest }) as u32
    }

    /// The first epoch of this node.
    #[must_use]
    pub const fn first(self) -> Epoch {
        Epoch::new(self.node)
    }

    /// The epoch after `epoch`, which is one of this node's.
    ///
    /// # Panics
    ///
    /// After 2^63 epochs.
    #[must_use]
    pub const fn after(self, epoch: Epoch) -> Epoch {
        assert!(epoch.0 % self.nodes == self.node % self.nodes, "the epoch is one of this node's");
        Epoch::new(epoch.0 + self.nodes)
    }

    /// The first epoch of this node that is not less than `clock`: where Lamport's rule moves it to.
    ///
    /// # Panics
    ///
    /// If that needs more than 63 bits.
    #[must_use]
    pub const fn at_or_after(self, clock: Epoch) -> Epoch {
        if clock.0 <= self.node {
            return self.first();
        }
        let steps = (clock.0 - self.node).div_ceil(self.nodes);
        Epoch::new(self.node + steps * self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_hand_out_disjoint_epochs_that_cover_all_numbers() {
        let mut all: Vec<u64> = Vec::new();
        for node in 1..=3 {
            let stride = Stride::new(node, 3);
            let mut epoch = stride.first();
            for _ in 0..100 {
                all.push(epoch.get());
                assert_eq!(Stride::new(1, 3).node_of(epoch), node);
                epoch = stride.after(epoch);
            }
        }
        all.sort_unstable();
        assert_eq!(all, (1..=300).collect::<Vec<_>>());
    }

    #[test]
    fn a_clock_is_moved_to_the_nodes_own_next_number() {
        for nodes in 1..=5 {
            for node in 1..=nodes {
                let stride = Stride::new(node, nodes);
                for clock in 0..40 {
                    let moved = stride.at_or_after(Epoch::new(clock)).get();
                    let expected = (clock.max(1)..).find(|n| n % u64::from(nodes) == u64::from(node % nodes));
                    assert_eq!(Some(moved), expected, "node {node} of {nodes} at clock {clock}");
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "63 bits")]
    fn an_epoch_leaves_one_bit_free() {
        let _ = Epoch::new(1 << 63);
    }
}
