// SPDX-License-Identifier: Apache-2.0
//! Who belongs to the cluster: a numbered list of nodes, their incarnations, and who has which bricks.
//!
//! Views are a sequence of records that one keeper writes and every node follows in order. A view is what
//! the records up to its number make of the one before; so two nodes at the same number know the same members, and the
//! same outcomes of the transactions that dead coordinators left behind.

mod whole;

pub(super) use whole::fold_first;
pub use whole::{WholeView, count_through, fold_records};

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::num::NonZeroU64;
use std::sync::Arc;

use crate::epochs::Epoch;

/// The number of a node, counted from 1 as in its [`Stride`](crate::Stride). A node keeps it for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// The node with this number.
    ///
    /// # Panics
    ///
    /// If the number is 0.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        assert!(number >= 1, "nodes are counted from 1");
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "n{}", self.0)
    }
}

/// One life of a node: from a start to the stop, the crash, or the view that has it no longer.
///
/// The numbers of a node grow with each start. Messages are for one incarnation; the next one does not take them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Incarnation(u64);

impl Incarnation {
    /// The incarnation with this number.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Incarnation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "incarnation {}", self.0)
    }
}

/// A node in one of its lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The node.
    pub node: NodeId,
    /// Which of its lives.
    pub incarnation: Incarnation,
}

impl fmt::Display for Member {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.node, self.incarnation.get())
    }
}

/// What a node has drawn before it first asked to belong: by that the keeper knows it again, whatever became of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StartId(NonZeroU64);

impl StartId {
    /// The one of this number, which nobody else has drawn.
    #[must_use]
    pub const fn new(number: NonZeroU64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> NonZeroU64 {
        self.0
    }
}

/// What the keeper has recorded of a node, whether it is live or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownNode {
    /// Where it is reached. What that means is the caller's business.
    pub address: Arc<str>,
    /// By what it is known again; nothing of a node that has never asked, since it was told its number.
    pub start: Option<StartId>,
}

/// The number of a view: how many records it follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ViewNumber(u64);

impl ViewNumber {
    /// The view of this number, as read back from a record or a message.
    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of the view after this one.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The term of a keeper: later than those of all before it. 0 stands for the one that founds a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeeperTerm {
    number: u64,
    start: u64,
}

impl KeeperTerm {
    /// The term of this number, in the product that of the primary which the keeper is beside; and which of the starts in it, of whichever
    /// node: no two have the same, and later ones have a greater number.
    #[must_use]
    pub const fn new(number: u64, start: u64) -> Self {
        Self { number, start }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.number
    }

    /// Which start in it.
    #[must_use]
    pub const fn start(self) -> u64 {
        self.start
    }
}

impl fmt::Display for KeeperTerm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "term {}.{}", self.number, self.start)
    }
}

/// A keeper: which one, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeeperPlace {
    /// Its term.
    pub term: KeeperTerm,
    /// The node that it is beside.
    pub node: NodeId,
}

/// Which brick of which table. What the two numbers mean is the caller's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrickAddress {
    /// The table.
    pub table: u64,
    /// The brick's id in it.
    pub brick: u64,
}

/// Which of some nodes have a brick: consistent hashing, in the product.
pub trait Placement {
    /// The holders of `brick` among `nodes`, which ascend: as many as the table wants replicas, or all if they are
    /// fewer. A pure function of its arguments, the same on every node.
    fn holders(&self, nodes: &[NodeId], brick: BrickAddress) -> Vec<NodeId>;
}

/// What a transaction does to bricks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EpochKind {
    /// It reads nothing and appends rows.
    Load,
    /// It reads and deletes bricks.
    Delete,
    /// A load that is one transaction with rows elsewhere: it has committed if these have.
    LoadWithRows,
}

/// A transaction that is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedEpoch {
    /// The label of its rows.
    pub epoch: Epoch,
    /// What it does.
    pub kind: EpochKind,
    /// What was pending when it began: LCE moves to it when these have ended.
    pub dependencies: Vec<Epoch>,
}

/// What a record changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ViewChange {
    /// Other nodes, or other incarnations of them, belong to the cluster.
    Members {
        /// Who is live, by node.
        members: BTreeMap<NodeId, Incarnation>,
        /// The nodes that bricks are placed on, each in the life in which it has had all that is decided.
        placed: BTreeMap<NodeId, Incarnation>,
    },
    /// The outcomes of what dead coordinators have left: of the epochs of these incarnations above `latest` those listed
    /// have committed, and all others are rolled back.
    Outcomes {
        /// The nodes that are closed by this, each up to this incarnation.
        nodes: BTreeMap<NodeId, Incarnation>,
        /// An LCE: whatever is not above it has ended, and is committed where its commit is in a holder's log.
        latest: Epoch,
        /// Above all that any live node knows of them; later incarnations begin above it.
        through: Epoch,
        /// Those that have committed, ascending.
        committed: Vec<CommittedEpoch>,
    },
    /// A node has its number, if it had none, and is at this address from now on.
    Known {
        /// Its number.
        node: NodeId,
        /// Where it is.
        address: Arc<str>,
        /// By what it is known again.
        start: Option<StartId>,
    },
    /// No bricks are to be on this node any more. It keeps what it has until the others have it.
    Drained {
        /// The node.
        node: NodeId,
    },
    /// The node is out for good, live or not. Nobody will have its number.
    Removed {
        /// The node.
        node: NodeId,
    },
    /// A keeper begins: this record and those behind it are its own, until the next one begins.
    Keeper(KeeperPlace),
    /// A keeper begins, as by [`ViewChange::Keeper`], without nodes of which somebody has said that they are lost for good. They may
    /// have seen later views than this one, which are given up; and they are out, as by [`ViewChange::Removed`].
    Recovered {
        /// The keeper.
        keeper: KeeperPlace,
        /// The nodes. Some may have been removed before.
        lost: BTreeSet<NodeId>,
    },
    /// All records up to this one, of which it is the last. It is the first one of a list.
    Whole(Box<WholeView>),
}

impl ViewChange {
    /// The keeper that begins with it, if one does.
    #[must_use]
    pub fn keeper(&self) -> Option<KeeperPlace> {
        match self {
            Self::Keeper(keeper) | Self::Recovered { keeper, .. } => Some(*keeper),
            Self::Whole(whole) => whole.keeper,
            _ => None,
        }
    }
}

/// The last of these terms up to a view.
pub(super) fn recovered_through(
    recoveries: &BTreeMap<ViewNumber, KeeperTerm>,
    view: ViewNumber,
) -> KeeperTerm {
    recoveries.range(..=view).next_back().map(|(_, term)| *term).unwrap_or_default()
}

/// A record of the keeper's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewRecord {
    /// The view that it leads to; records follow each other without a gap.
    pub number: ViewNumber,
    /// What is different from the view before.
    pub change: ViewChange,
}

/// What the records so far add up to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    number: ViewNumber,
    layout: ViewNumber,
    members: BTreeMap<NodeId, Incarnation>,
    placed: BTreeMap<NodeId, Incarnation>,
    unclosed: BTreeMap<NodeId, Incarnation>,
    known: BTreeMap<NodeId, KnownNode>,
    drained: BTreeSet<NodeId>,
    removed: BTreeSet<NodeId>,
    keeper: Option<KeeperPlace>,
    recoveries: BTreeMap<ViewNumber, KeeperTerm>,
    given_up: BTreeSet<NodeId>,
}

impl View {
    /// Goes on to the view that `record` leads to.
    ///
    /// # Panics
    ///
    /// If the record is not the one after those followed so far, has a removed node come back or go again, or has a keeper
    /// begin behind a later one.
    pub fn follow(&mut self, record: &ViewRecord) {
        let is_next = match record.change {
            ViewChange::Whole(_) => self.number == ViewNumber::default(),
            _ => record.number == self.number.next(),
        };
        assert!(
            is_next,
            "records are followed in order, each once: {:?} behind {:?}",
            record.number, self.number
        );
        self.number = record.number;
        match &record.change {
            ViewChange::Members { members, placed } => {
                assert!(!placed.is_empty(), "bricks are placed somewhere");
                assert!(!members.keys().any(|node| self.removed.contains(node)), "who was removed stays out");
                let has_gone =
                    |(node, incarnation): &(&NodeId, &Incarnation)| members.get(node) != Some(*incarnation);
                self.unclosed.extend(self.members.iter().filter(has_gone).map(|(node, life)| (*node, *life)));
                self.layout = record.number;
                self.members.clone_from(members);
                self.placed.clone_from(placed);
            }
            ViewChange::Outcomes { nodes, latest, through, .. } => {
                assert!(latest < through, "LCE is below EC");
                assert!(
                    nodes.keys().all(|node| self.unclosed.contains_key(node)),
                    "each life is closed once"
                );
                self.unclosed.retain(|node, _| !nodes.contains_key(node));
            }
            ViewChange::Known { node, address, start } => {
                self.known.insert(*node, KnownNode { address: Arc::clone(address), start: *start });
            }
            ViewChange::Drained { node } => {
                assert!(!self.removed.contains(node), "who was removed has nothing to give");
                self.layout = record.number;
                self.drained.insert(*node);
            }
            ViewChange::Removed { node } => {
                assert!(!self.removed.contains(node), "each node is removed once");
                self.take_out(*node);
            }
            ViewChange::Keeper(keeper) => self.begin_term(*keeper),
            ViewChange::Recovered { keeper, lost } => {
                self.begin_term(*keeper);
                self.recoveries.insert(record.number, keeper.term);
                lost.iter().for_each(|node| self.take_out(*node));
                self.given_up.extend(lost);
            }
            ViewChange::Whole(whole) => *self = whole.view(record.number),
        }
    }

    fn begin_term(&mut self, keeper: KeeperPlace) {
        assert!(keeper.term > self.term(), "terms grow");
        self.keeper = Some(keeper);
    }

    /// A node is out for good, from the view of the present number on.
    fn take_out(&mut self, node: NodeId) {
        if let Some(life) = self.members.remove(&node) {
            self.unclosed.insert(node, life);
            self.layout = self.number;
        }
        self.drained.remove(&node);
        self.removed.insert(node);
    }

    /// The number of records followed.
    #[must_use]
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// The keeper whose record led here; nothing if no keeper has begun since the cluster was founded.
    #[must_use]
    pub fn keeper(&self) -> Option<KeeperPlace> {
        self.keeper
    }

    /// The term of that keeper.
    #[must_use]
    pub fn term(&self) -> KeeperTerm {
        self.keeper.map(|keeper| keeper.term).unwrap_or_default()
    }

    /// The terms of the keepers that have begun without lost nodes, each with the number of its first record. Where these are the
    /// same for two nodes, up to a view, so are all records up to there.
    #[must_use]
    pub fn recoveries(&self) -> &BTreeMap<ViewNumber, KeeperTerm> {
        &self.recoveries
    }

    /// The term of the last one of these up to a view. Who has followed records up to there, and has another one, goes by other records;
    /// those with the greater term are the ones to go by.
    #[must_use]
    pub fn recovered_through(&self, view: ViewNumber) -> KeeperTerm {
        recovered_through(&self.recoveries, view)
    }

    /// That of the present view.
    #[must_use]
    pub fn recovered(&self) -> KeeperTerm {
        self.recovered_through(self.number)
    }

    /// The nodes without which keepers have begun so. They are among the [removed](Self::removed).
    #[must_use]
    pub fn given_up(&self) -> &BTreeSet<NodeId> {
        &self.given_up
    }

    /// The number of the view since which members, places of bricks, and who is drained are these.
    #[must_use]
    pub fn layout(&self) -> ViewNumber {
        self.layout
    }

    /// Whether bricks are on their way: the live nodes that are to have them are not those that they are placed on.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        !self.wanted().eq(self.placed.iter())
    }

    /// The live nodes that bricks are to be placed on, in their lives: all that are not drained. If no other is left, those:
    /// better there than nowhere.
    pub(super) fn wanted(&self) -> impl Iterator<Item = (&NodeId, &Incarnation)> {
        let is_last_resort = self.members.keys().all(|node| self.drained.contains(node));
        self.members.iter().filter(move |(node, _)| is_last_resort || !self.drained.contains(*node))
    }

    /// What was recorded of nodes, also of those that were removed.
    #[must_use]
    pub fn known(&self) -> &BTreeMap<NodeId, KnownNode> {
        &self.known
    }

    /// The nodes that are to have no bricks. One that is in no [`placed`](Self::placed) has none.
    #[must_use]
    pub fn drained(&self) -> &BTreeSet<NodeId> {
        &self.drained
    }

    /// The nodes that are out for good.
    #[must_use]
    pub fn removed(&self) -> &BTreeSet<NodeId> {
        &self.removed
    }

    /// Who is live, ascending by node.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.members.iter().map(|(node, incarnation)| Member { node: *node, incarnation: *incarnation })
    }

    /// The node in the life in which it is live, if it is.
    #[must_use]
    pub fn member(&self, node: NodeId) -> Option<Member> {
        self.members.get(&node).map(|incarnation| Member { node, incarnation: *incarnation })
    }

    /// Whether `member` is live.
    #[must_use]
    pub fn has(&self, member: Member) -> bool {
        self.member(member.node) == Some(member)
    }

    /// Whether `node` is live and has all that is decided of the bricks that are placed on it.
    #[must_use]
    pub fn is_placed(&self, node: NodeId) -> bool {
        self.members.get(&node).is_some_and(|incarnation| self.placed.get(&node) == Some(incarnation))
    }

    /// The nodes that bricks are placed on, live or not, each in the life that had all.
    #[must_use]
    pub fn placed(&self) -> &BTreeMap<NodeId, Incarnation> {
        &self.placed
    }

    /// How many of the nodes that bricks are placed on have left: with each of them one replica of its bricks.
    #[must_use]
    pub fn lost(&self) -> usize {
        self.placed.keys().filter(|node| !self.is_placed(**node)).count()
    }

    /// The nodes that may have left transactions whose outcome is not recorded, each with its newest dead incarnation.
    #[must_use]
    pub fn unclosed(&self) -> &BTreeMap<NodeId, Incarnation> {
        &self.unclosed
    }

    /// The live nodes that have all that is decided of `brick`, in the order of the placement.
    ///
    /// # Panics
    ///
    /// If the placement names a node that it was not given.
    #[must_use]
    pub fn serving(&self, placement: &impl Placement, brick: BrickAddress) -> Vec<NodeId> {
        let nodes: Vec<NodeId> = self.placed.keys().copied().collect();
        let mut holders = placement.holders(&nodes, brick);
        assert!(holders.iter().all(|node| nodes.contains(node)), "a placement chooses among the nodes given");
        holders.retain(|node| self.is_placed(*node));
        holders
    }

    /// The live nodes that `brick` comes to, when bricks are placed on all that are live and not drained.
    ///
    /// # Panics
    ///
    /// If the placement names a node that it was not given.
    #[must_use]
    pub fn receiving(&self, placement: &impl Placement, brick: BrickAddress) -> Vec<NodeId> {
        if !self.is_moving() {
            return Vec::new();
        }
        let nodes: Vec<NodeId> = self.wanted().map(|(node, _)| *node).collect();
        let serving = self.serving(placement, brick);
        let mut holders = placement.holders(&nodes, brick);
        assert!(holders.iter().all(|node| nodes.contains(node)), "a placement chooses among the nodes given");
        holders.retain(|node| !serving.contains(node));
        holders
    }
}
