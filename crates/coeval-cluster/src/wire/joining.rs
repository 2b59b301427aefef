// SPDX-License-Identifier: Apache-2.0
//! What is asked and answered when a node wants to belong, and what it keeps of that.

use super::writer::{put_list, put_u64};
use super::{Malformed, Reader, Wire};
use crate::membership::Membership;
use crate::node::ClusterId;
use crate::node_address::NodeAddress;
use coeval_txn::cluster::{NodeId, StartId, ViewNumber};
use std::num::NonZeroU64;
use std::sync::Arc;

/// What a node asks that wants to belong, or starts again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JoinRequest {
    /// What it has drawn before it first asked.
    pub(crate) start: StartId,
    /// Its number, if it has one.
    pub(crate) node: Option<NodeId>,
    /// Where it is.
    pub(crate) address: NodeAddress,
}

/// What it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JoinAnswer {
    /// It belongs.
    Belongs(Membership),
    /// It was removed for good.
    Removed(NodeId),
    /// It does not, in words for whoever runs it.
    Refused(Arc<str>),
}

/// What a node keeps on disk of its cluster. The last of each kind counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MembershipRecord {
    /// What it has drawn: on disk before it asks.
    Start(StartId),
    /// What it was told.
    Belongs(Membership),
}

impl Wire for StartId {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.get().get());
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        NonZeroU64::new(from.u64()?).map(Self::new).ok_or(Malformed::Range)
    }
}

/// One that may be missing: 0 stands for that.
pub(super) fn put_start(out: &mut Vec<u8>, start: Option<StartId>) {
    put_u64(out, start.map_or(0, |start| start.get().get()));
}

pub(super) fn get_start(from: &mut Reader) -> Result<Option<StartId>, Malformed> {
    Ok(NonZeroU64::new(from.u64()?).map(StartId::new))
}

impl Wire for NodeAddress {
    fn put(&self, out: &mut Vec<u8>) {
        Arc::<str>::from(self.to_string()).put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let text = <Arc<str>>::take(from)?;
        let address: Self = text.parse().map_err(|_| Malformed::Contradiction("a node has an address"))?;
        // So a value has one form.
        if address.to_string() == *text { Ok(address) } else { Err(Malformed::Range) }
    }
}

/// A node and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Placed(NodeId, NodeAddress);

impl Wire for Placed {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        Ok(Self(NodeId::take(from)?, NodeAddress::take(from)?))
    }
}

impl Wire for JoinRequest {
    fn put(&self, out: &mut Vec<u8>) {
        self.start.put(out);
        put_u64(out, self.node.map_or(0, |node| u64::from(node.get())));
        self.address.put(out);
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let start = StartId::take(from)?;
        let node = match from.u32()? {
            0 => None,
            number => Some(NodeId::new(number)),
        };
        Ok(Self { start, node, address: NodeAddress::take(from)? })
    }
}

impl Wire for JoinAnswer {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Belongs(membership) => {
                out.push(0);
                membership.put(out);
            }
            Self::Removed(node) => {
                out.push(1);
                node.put(out);
            }
            Self::Refused(why) => {
                out.push(2);
                why.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Belongs(Membership::take(from)?)),
            1 => Ok(Self::Removed(NodeId::take(from)?)),
            2 => Ok(Self::Refused(<Arc<str>>::take(from)?)),
            kind => Err(Malformed::Kind { what: "answer to who joins", kind }),
        }
    }
}

impl Wire for MembershipRecord {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Start(start) => {
                out.push(0);
                start.put(out);
            }
            Self::Belongs(membership) => {
                out.push(1);
                membership.put(out);
            }
        }
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        match from.byte()? {
            0 => Ok(Self::Start(StartId::take(from)?)),
            1 => Ok(Self::Belongs(Membership::take(from)?)),
            kind => Err(Malformed::Kind { what: "record of a node's cluster", kind }),
        }
    }
}

impl Wire for Membership {
    fn put(&self, out: &mut Vec<u8>) {
        put_u64(out, self.cluster.get());
        self.node.put(out);
        let nodes: Vec<Placed> =
            self.nodes.iter().map(|(node, address)| Placed(*node, address.clone())).collect();
        put_list(out, &nodes);
        self.as_of.put(out);
        self.keeper.put(out);
        put_u64(out, self.replicas as u64);
        put_u64(out, u64::from(self.stride));
    }

    fn take(from: &mut Reader) -> Result<Self, Malformed> {
        let (cluster, node) = (ClusterId::new(from.u64()?), NodeId::take(from)?);
        let nodes: Vec<Placed> = from.list()?;
        if !nodes.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return Err(Malformed::Contradiction("nodes of a cluster ascend"));
        }
        let nodes = nodes.into_iter().map(|Placed(node, address)| (node, address)).collect();
        let (as_of, keeper) = (ViewNumber::take(from)?, NodeId::take(from)?);
        let replicas = usize::try_from(from.u64()?).map_err(|_| Malformed::Range)?;
        let stride = from.u32()?;
        if replicas == 0 || node.get() > stride {
            return Err(Malformed::Contradiction("each brick is somewhere, and each node has epochs"));
        }
        Ok(Self { cluster, node, nodes, as_of, keeper, replicas, stride })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{decode, encode};
    use super::*;
    use std::fmt::Debug;

    fn membership() -> Membership {
        let node = |number: u32| (NodeId::new(number), format!("n{number}:7001").parse().unwrap());
        Membership {
            cluster: ClusterId::new(u64::MAX),
            node: NodeId::new(3),
            nodes: vec![node(1), node(3), node(4)],
            as_of: ViewNumber::new(9),
            keeper: NodeId::new(1),
            replicas: 2,
            stride: 1_024,
        }
    }

    /// A value comes back, and no part of its bytes is one.
    fn check<T: Wire + PartialEq + Debug>(value: &T) {
        let bytes = encode(value);
        assert_eq!(decode::<T>(bytes.clone().into()).as_ref(), Ok(value));
        for cut in 0..bytes.len() {
            assert!(decode::<T>(bytes[..cut].to_vec().into()).is_err(), "{value:?} cut at {cut}");
        }
    }

    #[test]
    fn what_is_asked_and_answered_comes_back() {
        let start = StartId::new(NonZeroU64::MAX);
        for node in [None, Some(NodeId::new(2))] {
            check(&JoinRequest { start, node, address: "[::1]:7".parse().unwrap() });
        }
        check(&JoinAnswer::Belongs(membership()));
        check(&JoinAnswer::Removed(NodeId::new(2)));
        check(&JoinAnswer::Refused("why".into()));
        check(&MembershipRecord::Start(start));
        check(&MembershipRecord::Belongs(membership()));
    }

    #[test]
    fn what_no_cluster_can_be_is_refused() {
        let refused = |membership: Membership| decode::<Membership>(encode(&membership).into()).is_err();
        let mut twice = membership();
        twice.nodes[1].0 = NodeId::new(1);
        assert!(refused(twice));
        assert!(refused(Membership { replicas: 0, ..membership() }));
        assert!(refused(Membership { stride: 2, ..membership() }));
        assert!(!refused(membership()));
    }
}
