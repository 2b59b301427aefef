// SPDX-License-Identifier: Apache-2.0
mod dictionaries;
mod nodes;
mod paper;
mod rules;
mod scripts;
mod simulator;
mod succession;

use crate::epochs::cluster::{BrickAddress, ClusterNode, NodeId, Placement};

/// Every node has every brick.
#[derive(Clone, Copy)]
struct Everywhere;

impl Placement for Everywhere {
    fn holders(&self, nodes: &[NodeId], _: BrickAddress) -> Vec<NodeId> {
        nodes.to_vec()
    }
}

const BRICK: BrickAddress = BrickAddress { table: 1, brick: 1 };

/// A node whose rows nobody looks at.
type Node = ClusterNode<(), Everywhere>;
