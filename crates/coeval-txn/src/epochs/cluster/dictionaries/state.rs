// SPDX-License-Identifier: Apache-2.0
//! What one node has of all dictionaries, and what its user asks of it.

mod asking;
mod receive;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::message::{DictionaryBody, DictionaryMessage, Purpose};
use super::names::{Code, DictionaryBounds, DictionaryId, Spelling};
use super::owner::Owning;
use super::record::{AskId, AskOutcome, DictionaryEffect, DictionaryError, DictionaryRecord};
use super::replica::Replica;
use super::spellings::Spellings;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::view::{Member, NodeId, Placement, View};

/// Texts that were asked for and have no answer yet.
#[derive(Clone, Debug)]
struct Ask {
    dictionary: DictionaryId,
    purpose: Purpose,
    texts: Arc<[Arc<str>]>,
    /// How many more times it is sent.
    patience: u32,
}

/// The dictionaries of a node: it knows codes, asks for others, keeps lists as a holder, and gives codes as an owner.
///
/// Pure state, beside a [`ClusterNode`](crate::cluster::ClusterNode) and as that is: each call says what has happened and
/// leaves effects, which [`take_effects`](Self::take_effects) gives in order. Whatever is done of the two in turn goes
/// through one log, in that order.
///
/// ```
/// use coeval_txn::cluster::{
///     Asked, BrickAddress, Dictionaries, DictionaryBounds, DictionaryEffect, DictionaryId, Incarnation, Member, NodeId,
///     Placement, Purpose, ViewKeeper,
/// };
///
/// struct Everywhere;
///
/// impl Placement for Everywhere {
///     fn holders(&self, nodes: &[NodeId], _: BrickAddress) -> Vec<NodeId> {
///         nodes.to_vec()
///     }
/// }
///
/// let first = Member { node: NodeId::new(1), incarnation: Incarnation::new(1) };
/// let (keeper, _) = ViewKeeper::found(&[first], 1);
/// let city = DictionaryId { table: 1, column: 2 };
/// let mut dictionaries = Dictionaries::new(first, Everywhere, DictionaryBounds::default());
/// dictionaries.declare(city, 1000);
/// dictionaries.follow(keeper.view());
/// let asked = dictionaries.ask(city, Purpose::Give, &["Bonn".into()])?;
/// assert_ne!(asked, Asked::Nobody);
/// // The caller logs, syncs, and carries messages, here those of the node to itself.
/// for _ in 0..6 {
///     for effect in dictionaries.take_effects() {
///         if let DictionaryEffect::Send(message) | DictionaryEffect::SendOnceLogged(message) = effect {
///             dictionaries.receive(message);
///         }
///     }
/// }
/// assert!(dictionaries.code_of(city, "Bonn").is_some());
/// assert_eq!(dictionaries.ask(city, Purpose::Give, &["Bonn".into()])?, Asked::Nobody);
/// # Ok::<(), coeval_txn::cluster::DictionaryError>(())
/// ```
#[derive(Debug)]
pub struct Dictionaries<P> {
    member: Member,
    placement: P,
    bounds: DictionaryBounds,
    rules: Rules,
    view: View,
    /// The dictionaries that may be asked for, each with how many codes it may have.
    declared: BTreeMap<DictionaryId, u32>,
    /// What this node has been told.
    known: BTreeMap<DictionaryId, Spellings>,
    /// The lists that this node has as a holder, or had.
    replicas: BTreeMap<DictionaryId, Replica>,
    /// The dictionaries that this node owns in this layout.
    owned: BTreeMap<DictionaryId, Owning>,
    /// Those of which it has had, in this layout, all that the owner had.
    in_step: BTreeSet<DictionaryId>,
    asks: BTreeMap<AskId, Ask>,
    next_ask: u64,
    effects: Vec<DictionaryEffect>,
}

impl<P: Placement> Dictionaries<P> {
    /// Those of a node with an empty log.
    ///
    /// # Panics
    ///
    /// If a bound is 0 that is at least 1.
    #[must_use]
    pub fn new(member: Member, placement: P, bounds: DictionaryBounds) -> Self {
        Self::recover(member, placement, bounds, [])
    }

    /// Those of a node that starts with the `records` of its log, as far as they are on disk, in a new incarnation. The
    /// caller declares the dictionaries again, and has it follow the keeper's views.
    ///
    /// # Panics
    ///
    /// If a bound is 0 that is at least 1, or the records are not the beginning of what a node has logged.
    #[must_use]
    pub fn recover<'a>(
        member: Member,
        placement: P,
        bounds: DictionaryBounds,
        records: impl IntoIterator<Item = &'a DictionaryRecord>,
    ) -> Self {
        assert!(bounds.texts_max >= 1 && bounds.patience >= 1, "a message has a text, an ask a moment");
        let mut node = Self {
            member,
            placement,
            bounds,
            rules: Rules::ALL,
            view: View::default(),
            declared: BTreeMap::new(),
            known: BTreeMap::new(),
            replicas: BTreeMap::new(),
            owned: BTreeMap::new(),
            in_step: BTreeSet::new(),
            asks: BTreeMap::new(),
            next_ask: 0,
            effects: Vec::new(),
        };
        records.into_iter().for_each(|record| node.replay(record));
        node
    }

    #[cfg(test)]
    pub(in super::super) fn keep_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    fn replay(&mut self, record: &DictionaryRecord) {
        match record {
            DictionaryRecord::Given { dictionary, after, texts } => {
                self.replicas.entry(*dictionary).or_default().put(*after, texts);
            }
            DictionaryRecord::Learned { dictionary, spellings } => {
                let learned = self.known.entry(*dictionary).or_default().learn(spellings);
                assert!(learned.is_ok(), "a log tells of no code two things");
            }
        }
    }

    /// Records that make of an empty log what all records so far have made of it: for a log that gets shorter. They have
    /// about the size of all lists and texts.
    #[must_use]
    pub fn records(&self) -> Vec<DictionaryRecord> {
        let given = self.replicas.iter().map(|(dictionary, replica)| DictionaryRecord::Given {
            dictionary: *dictionary,
            after: 0,
            texts: replica.part(0, usize::MAX),
        });
        let learned = self.known.iter().map(|(dictionary, spellings)| DictionaryRecord::Learned {
            dictionary: *dictionary,
            spellings: spellings.all(),
        });
        given.chain(learned).collect()
    }

    /// What is to be done, in this order; each only once.
    #[must_use]
    pub fn take_effects(&mut self) -> Vec<DictionaryEffect> {
        std::mem::take(&mut self.effects)
    }

    /// Declares a dictionary that may have codes below `codes_max`. Before, this node neither asks for its codes nor gives
    /// any; it keeps its list all the same, and takes in codes that come with rows.
    pub fn declare(&mut self, dictionary: DictionaryId, codes_max: u32) {
        self.declared.insert(dictionary, codes_max);
        self.own(dictionary);
    }

    /// Goes on to the view that this node has come to. Owners and holders are those of its layout; what was asked and not
    /// answered is asked of them.
    ///
    /// # Panics
    ///
    /// If this view comes before the one that it is at.
    pub fn follow(&mut self, view: &View) {
        let (is_new, was_member) = (view.layout() != self.view.layout(), self.view.has(self.member));
        assert!(view.number() >= self.view.number(), "views are followed in order");
        self.view = view.clone();
        if !is_new {
            return;
        }
        self.owned.clear();
        self.in_step.clear();
        if self.view.has(self.member) {
            let all: BTreeSet<DictionaryId> =
                self.declared.keys().chain(self.replicas.keys()).copied().collect();
            all.into_iter().for_each(|dictionary| self.own(dictionary));
            let asks: Vec<AskId> = self.asks.keys().copied().collect();
            asks.into_iter().for_each(|ask| self.send_ask(ask));
        } else if was_member {
            for ask in std::mem::take(&mut self.asks).into_keys() {
                self.tell(ask, AskOutcome::Failed(DictionaryError::OutOfView));
            }
        }
    }

    /// Who gives the codes of a dictionary: the first of those that have all of it; `None` if none of these is live.
    #[must_use]
    pub fn owner(&self, dictionary: DictionaryId) -> Option<NodeId> {
        let serving = self.view.serving(&self.placement, dictionary.place());
        if !self.rules.keep(Rule::OneOwner) && serving.contains(&self.member.node) {
            return Some(self.member.node);
        }
        serving.first().copied()
    }

    /// Takes on a dictionary, if it is this node's. It has every code that anybody was told; it makes sure that all
    /// holders have what it has.
    fn own(&mut self, dictionary: DictionaryId) {
        let is_own = self.view.has(self.member) && self.owner(dictionary) == Some(self.member.node);
        if !is_own || self.owned.contains_key(&dictionary) {
            return;
        }
        let place = dictionary.place();
        let mut holders = self.view.serving(&self.placement, place);
        holders.extend(self.view.receiving(&self.placement, place));
        assert!(holders.contains(&self.member.node), "the owner is a holder");
        let length = self.replicas.entry(dictionary).or_default().length();
        self.owned.insert(dictionary, Owning::new(holders, length));
        self.give(dictionary);
    }

    /// Tells holders what they lack, as far as they have answered what they were told before.
    fn give(&mut self, dictionary: DictionaryId) {
        let count = self.bounds.texts_max;
        let (Some(owning), Some(replica)) = (self.owned.get_mut(&dictionary), self.replicas.get(&dictionary))
        else {
            return;
        };
        let due = owning.take_due(replica.length());
        let gives: Vec<_> = due.into_iter().map(|(node, after)| (node, replica.give(after, count))).collect();
        for (node, body) in gives {
            self.send(node, dictionary, body);
        }
    }

    /// The code of a text, if this node knows it. A reader for whom a text has none [asks](Self::ask) before it takes that
    /// for no rows.
    #[must_use]
    pub fn code_of(&self, dictionary: DictionaryId, text: &str) -> Option<Code> {
        self.known.get(&dictionary)?.code_of(text)
    }

    /// The text of a code, if this node knows it. It knows those of all rows that it has.
    #[must_use]
    pub fn text_of(&self, dictionary: DictionaryId, code: Code) -> Option<&Arc<str>> {
        self.known.get(&dictionary)?.text_of(code)
    }

    /// These codes with their texts, as far as this node knows them: what goes with rows that have the codes.
    #[must_use]
    pub fn spell(&self, dictionary: DictionaryId, codes: impl IntoIterator<Item = Code>) -> Vec<Spelling> {
        let text_of = |code: Code| self.text_of(dictionary, code).map(Arc::clone);
        let spelled = codes.into_iter().filter_map(|code| Some(Spelling { code, text: text_of(code)? }));
        spelled.filter(|_| self.rules.keep(Rule::TextsWithRows)).collect()
    }

    /// Takes in what came with rows: before the rows are taken, appended or copied, and logged before them.
    ///
    /// # Errors
    ///
    /// If a code has another text here, or a text another code. Nothing is taken in, and neither may the rows be.
    pub fn learn(&mut self, dictionary: DictionaryId, spellings: &[Spelling]) -> Result<(), DictionaryError> {
        if self.rules.keep(Rule::TextsBeforeRows) { self.note(dictionary, spellings) } else { Ok(()) }
    }

    fn note(&mut self, dictionary: DictionaryId, spellings: &[Spelling]) -> Result<(), DictionaryError> {
        let known = self.known.entry(dictionary).or_default();
        let spellings =
            known.learn(spellings).map_err(|code| DictionaryError::TwoMeanings { dictionary, code })?;
        if !spellings.is_empty() && self.rules.keep(Rule::TextsStay) {
            let learned = DictionaryRecord::Learned { dictionary, spellings };
            self.effects.push(DictionaryEffect::Log(learned));
        }
        Ok(())
    }

    /// The dictionaries that this node gives to another one, which gets bricks: it owns them, and they come to that node.
    /// Said with the bricks; the other one says that it has its bricks only when it [has](Self::has_all) these.
    #[must_use]
    pub fn gives(&self, to: Member) -> Vec<DictionaryId> {
        let comes = |dictionary: &&DictionaryId| {
            self.view.receiving(&self.placement, dictionary.place()).contains(&to.node)
        };
        self.owned.keys().filter(|_| self.view.has(to)).filter(comes).copied().collect()
    }

    /// Whether this node has all of these dictionaries, as they were when their owner named them in this layout. What is
    /// given later nobody is told before this node has it.
    #[must_use]
    pub fn has_all(&self, dictionaries: &[DictionaryId]) -> bool {
        let is_here = |dictionary: &DictionaryId| self.in_step.contains(dictionary);
        dictionaries.iter().all(is_here) || !self.rules.keep(Rule::AllCodesBeforeServing)
    }

    /// Asks again all that is unanswered; what was asked often enough fails. The caller calls it when it has heard nothing
    /// for a while.
    pub fn resend(&mut self) {
        if !self.view.has(self.member) {
            return;
        }
        let owned: Vec<DictionaryId> = self.owned.keys().copied().collect();
        for dictionary in owned {
            if let Some(owning) = self.owned.get_mut(&dictionary) {
                owning.doubt(self.bounds.patience);
            }
            self.give(dictionary);
        }
        self.ask_again();
    }

    fn tell(&mut self, ask: AskId, outcome: AskOutcome) {
        self.effects.push(DictionaryEffect::Tell(ask, outcome));
    }

    fn send(&mut self, to: NodeId, dictionary: DictionaryId, body: DictionaryBody) {
        if let Some(to) = self.view.member(to) {
            let message = self.envelope(to, dictionary, body);
            self.effects.push(DictionaryEffect::Send(message));
        }
    }

    fn envelope(&self, to: Member, dictionary: DictionaryId, body: DictionaryBody) -> DictionaryMessage {
        DictionaryMessage { from: self.member, to, layout: self.view.layout(), dictionary, body }
    }

    /// The text that has this code in the list that this node has as a holder.
    #[cfg(test)]
    pub(in super::super) fn listed(&self, dictionary: DictionaryId, code: Code) -> Option<Arc<str>> {
        self.replicas.get(&dictionary)?.text_of(code)
    }

    /// How many wait for codes of a dictionary that this node owns.
    #[cfg(test)]
    pub(in super::super) fn waiting(&self, dictionary: DictionaryId) -> usize {
        self.owned.get(&dictionary).map_or(0, Owning::waiting)
    }

    /// How many asks have not ended.
    #[must_use]
    pub fn open_asks(&self) -> usize {
        self.asks.len()
    }
}
