// SPDX-License-Identifier: Apache-2.0
//! Bricks that come to a node: because it is new, or was away, or because another holder is gone.
//!
//! ```text
//!   a view with other members                 loads that begin now append to the holders of before and of after
//!     meet all members                        and learn which loads began before
//!     these end
//!     copy each brick from one that serves it
//!     tell the keeper
//!   the keeper's record, when all have told   the holders of after serve; those of before need not keep it
//! ```
//!
//! Another change of the members begins all of it anew. Why nothing copied is lost when this node stops then, though its
//! log has no commits of it: README, "Moves".

use std::collections::BTreeSet;

use super::{ClusterNode, NodeError, Placement};
use crate::epochs::cluster::keeper::ToKeeper;
use crate::epochs::cluster::record::{Effect, LogRecord};
use crate::epochs::cluster::rules::Rule;
use crate::epochs::cluster::view::{BrickAddress, Member, ViewNumber};
use crate::epochs::{Epoch, EpochSet};

/// How far the bricks that come to a node are, in one layout.
#[derive(Clone, Debug)]
pub(super) struct Incoming {
    /// The loads that began in earlier layouts, and were open when their nodes were asked.
    older: BTreeSet<Epoch>,
    /// `None` before anybody is asked.
    asked: Option<Asked>,
}

/// What was asked for.
#[derive(Clone, Debug)]
struct Asked {
    /// Who gives bricks and has not given all.
    sources: BTreeSet<Member>,
    /// What had ended for all that this node knew when it asked first. A copy may be made at any time after that, and
    /// arrive at any time after that: of what ends meanwhile it may have nothing, or half.
    ended: EpochSet,
}

impl<R: Clone, P: Placement> ClusterNode<R, P> {
    /// Begins anew to wait for what comes to this node, at a view whose members are not those that bricks are placed on.
    pub(super) fn expect_bricks(&mut self) {
        assert!(self.view.has(self.member), "bricks come to members");
        let older = self.older_loads().into_iter().collect();
        let incoming = Incoming { older, asked: None };
        self.incoming = self.view.is_moving().then_some(incoming);
    }

    /// The open loads that are coordinated here and began in an earlier layout: they append to other holders.
    pub(super) fn older_loads(&self) -> Vec<Epoch> {
        let older =
            self.loads.values().filter(|load| load.layout() != self.view.layout() && !load.has_outcome());
        older.map(|load| load.epoch()).collect()
    }

    /// Notes loads of an earlier layout that are coordinated elsewhere.
    pub(super) fn wait_for(&mut self, older: &[Epoch]) {
        if let Some(incoming) = &mut self.incoming {
            incoming.older.extend(older);
        }
    }

    /// Copies, if nothing is in the way any more; and tells the keeper when everything is here.
    pub(super) fn go_on_moving(&mut self) {
        let (ledger, rules) = (&self.ledger, self.rules);
        let is_quiet = self.unmet.is_empty() && self.view.unclosed().is_empty();
        let Some(incoming) = &mut self.incoming else { return };
        incoming.older.retain(|epoch| !ledger.has_ended(*epoch));
        let waits = rules.keep(Rule::OlderLoadsEnd) && !incoming.older.is_empty();
        if !is_quiet || waits {
            return;
        }
        let own = self.member;
        let Asked { sources, .. } = incoming.asked.get_or_insert_with(|| {
            let givers =
                self.view.members().filter(|member| self.view.is_placed(member.node) && *member != own);
            let sources = givers.filter(|_| rules.keep(Rule::CopyBeforeServing)).collect();
            Asked { sources, ended: ledger.ended() }
        });
        self.effects
            .extend(sources.iter().map(|from| Effect::Copy { from: *from, view: self.view.number() }));
        if sources.is_empty() {
            let told = ToKeeper::Complete { from: own, layout: self.view.layout() };
            self.effects.push(Effect::TellKeeperOnceLogged(told));
        }
    }

    /// Whether this node gives `brick` to another one, which copies it at the same view.
    #[must_use]
    pub fn gives(&self, brick: BrickAddress, to: Member) -> bool {
        let is_giver = self.view.serving(&self.placement, brick).first() == Some(&self.member.node);
        is_giver && self.view.has(to) && self.view.receiving(&self.placement, brick).contains(&to.node)
    }

    /// Takes a brick that another node [gives](Self::gives), with all rows that it has there, by label, as was asked for
    /// with [`Effect::Copy`] at `view`. What becomes of it is logged: rows of transactions that had ended when it was asked
    /// for are as given; those of others stay as they are here.
    ///
    /// # Errors
    ///
    /// If the view has changed: somebody else may have to give. Nothing has happened; what is needed is asked for again.
    pub fn copied(
        &mut self,
        view: ViewNumber,
        brick: BrickAddress,
        rows: Vec<(Epoch, R)>,
    ) -> Result<(), NodeError> {
        let asked = self.incoming.as_ref().and_then(|incoming| incoming.asked.as_ref());
        let Some(Asked { ended, .. }) = asked.filter(|_| view == self.view.number()) else {
            return Err(NodeError::OtherView);
        };
        let by_now = !self.rules.keep(Rule::CopyWhatHadEnded);
        let ended = if by_now { self.ledger.ended() } else { ended.clone() };
        let rows = rows.into_iter().filter(|(epoch, _)| ended.contains(*epoch)).collect();
        self.effects.push(Effect::Log(LogRecord::Copied { brick, ended, rows }));
        Ok(())
    }

    /// Notes that `from` has given all that it gives at `view`. Without effect if the view has changed.
    pub fn copied_all(&mut self, view: ViewNumber, from: Member) {
        if view != self.view.number() {
            return;
        }
        if let Some(asked) = self.incoming.as_mut().and_then(|incoming| incoming.asked.as_mut()) {
            asked.sources.remove(&from);
        }
        self.go_on_moving();
    }
}
