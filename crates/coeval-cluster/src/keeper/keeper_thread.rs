// SPDX-License-Identifier: Apache-2.0
//! [`Keeper`]: the thread that keeps the views. It waits for nothing: others hold its records.

use super::holding::HoldingLink;
use super::link::{KeeperInput, NodeChange};
use super::silence::Silence;
use super::{Give, KeeperOptions, Others, Outgoing};
use crate::log::LogError;
use crate::node::NodeId;
use crate::row_transactions::RowTransactions;
use crate::start_error::StartError;
use crate::wire::Frame;
use coeval_txn::cluster::{
    AddError, BeginError, ChangeError, HolderSays, KeeperPlace, KeeperTerm, NextKeeper, RecoverError,
    RemoveError, TermKeeper, ViewChange, ViewKeeper, ViewNumber, ViewRecord,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::oneshot;

/// What the keeper is told and has not looked at yet. More is lost, and said again.
const INPUTS_MAX: usize = 4_096;
/// Who waits for something to be recorded. Whoever comes then is not answered, and asks again.
const WAITING_MAX: usize = 1_024;
/// In a start of a keeper the time has the upper bits, in milliseconds, and the node the lower ones.
const NODE_BITS: u32 = 10;
/// A keeper that gives way to one of the same primary's term asks again after so many silences, if it is still there.
const PAUSE_SILENCES: u32 = 10;
/// Looks between two words about a keeper that cannot begin: four silences.
const LOOKS_A_WORD: u32 = 32;

/// The keeper. When it is dropped, its thread ends; a record that is not settled then is up to the next keeper.
#[derive(Debug)]
pub(crate) struct Keeper {
    inputs: Option<SyncSender<KeeperInput>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it: it asks what nodes hold, and begins when enough have answered.
    pub(crate) fn start(
        options: KeeperOptions,
        holding: HoldingLink,
        give: Give,
        others: Others,
    ) -> Result<Self, StartError> {
        let (inputs, taken) = sync_channel(INPUTS_MAX);
        let period = (options.silence / 8).max(Duration::from_millis(5));
        let keeping = Keeping::new(options, holding, give, others);
        let running =
            Builder::new().name("cluster-keeper".to_owned()).spawn(move || keeping.run(&taken, period));
        let failed = |error| LogError::File { path: PathBuf::from("cluster-keeper"), error };
        Ok(Self { inputs: Some(inputs), thread: Some(running.map_err(failed)?) })
    }

    /// Tells it something, unless it has too much to look at.
    pub(super) fn put(&self, input: KeeperInput) {
        let _ = self.inputs.as_ref().map(|inputs| inputs.try_send(input));
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.inputs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// How far a keeper is.
enum Step {
    Asks(NextKeeper),
    Keeps(Box<TermKeeper>),
    /// There is one of a newer primary.
    Ended,
}

/// Who is answered when what was decided is settled.
enum Owed {
    Added(oneshot::Sender<Result<NodeId, AddError>>, Result<NodeId, AddError>),
    Changed(oneshot::Sender<Result<(), ChangeError>>, Result<(), ChangeError>),
    /// With the nodes without which the keeper has begun.
    Recovered(BTreeSet<NodeId>, oneshot::Sender<Result<(), RecoverError>>),
}

impl Owed {
    /// Whoever has given up waiting asks again.
    fn pay(self) {
        match self {
            Self::Added(answer, added) => drop(answer.send(added)),
            Self::Changed(answer, changed) => drop(answer.send(changed)),
            Self::Recovered(_, answer) => drop(answer.send(Ok(()))),
        }
    }
}

/// The state of the thread.
struct Keeping {
    step: Step,
    options: KeeperOptions,
    /// Those of the options that are still to be recorded.
    nodes: VecDeque<NodeId>,
    /// It asks from then on.
    asks_from: Instant,
    /// How often it has looked since it began to ask.
    looks: u32,
    silence: Silence,
    /// The view by which silence goes.
    entered: ViewNumber,
    /// What nobody has looked at, since something is not settled yet.
    waiting: VecDeque<KeeperInput>,
    owed: Option<Owed>,
    /// Up to which record each node was told last, and how many were settled then.
    said: BTreeMap<NodeId, (ViewNumber, ViewNumber)>,
    holding: HoldingLink,
    give: Give,
    others: Others,
}

/// The next keeper of a primary's term at a node, after one of the same number.
fn next_of(options: &KeeperOptions, after: KeeperTerm) -> NextKeeper {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let by_clock = u64::try_from(since_1970.as_millis()).unwrap_or_default();
    let least = if after.number() == options.term { (after.start() >> NODE_BITS) + 1 } else { 0 };
    let node = u64::from(options.own.get()) & ((1 << NODE_BITS) - 1);
    let term = KeeperTerm::new(options.term, (by_clock.max(least) << NODE_BITS) | node);
    NextKeeper::new(KeeperPlace { term, node: options.own }, options.replicas)
}

/// Asks what became of rows with which loads of dead coordinators are one transaction. What is not known yet is asked again, when nodes
/// say again what they have of these.
fn ask_rows(keeper: &mut ViewKeeper, rows: &RowTransactions) -> Option<ViewRecord> {
    let mut record = None;
    for epoch in keeper.asks_rows() {
        if let Some(fate) = rows.fate(epoch) {
            record = keeper.note_rows(epoch, fate);
        }
    }
    record
}

impl Keeping {
    fn new(options: KeeperOptions, holding: HoldingLink, give: Give, others: Others) -> Self {
        Self {
            step: Step::Asks(next_of(&options, KeeperTerm::default())),
            nodes: options.nodes.iter().map(|(node, _)| *node).collect(),
            silence: Silence::new(options.silence),
            options,
            asks_from: Instant::now(),
            looks: 0,
            entered: ViewNumber::default(),
            waiting: VecDeque::new(),
            owed: None,
            said: BTreeMap::new(),
            holding,
            give,
            others,
        }
    }

    fn run(mut self, inputs: &Receiver<KeeperInput>, period: Duration) {
        let mut looked = Instant::now();
        self.ask();
        while !matches!(self.step, Step::Ended) {
            match inputs.recv_timeout(period) {
                Ok(input) => self.take(input),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let since = looked.elapsed();
            if since >= period {
                looked = Instant::now();
                if since > 4 * period {
                    self.silence.forgive(looked);
                }
                self.look();
            }
            self.go_on();
        }
    }

    fn take(&mut self, input: KeeperInput) {
        match input {
            // What comes while something is not settled is said again.
            KeeperInput::Told(told) => {
                if let Step::Keeps(keeper) = &mut self.step {
                    let rows = &self.options.rows;
                    let _ = keeper.decide(|keeper| {
                        let record = keeper.receive(&told);
                        ((), record.or_else(|| ask_rows(keeper, rows)))
                    });
                }
            }
            KeeperInput::Heard(alive) => {
                if let Step::Keeps(keeper) = &self.step {
                    self.silence.hear(&alive, keeper.view(), Instant::now());
                }
            }
            KeeperInput::Held(said) => self.take_held(&said),
            KeeperInput::Recover(lost, answer) => self.recover(lost, answer),
            asked @ (KeeperInput::Add(..) | KeeperInput::Change(..)) => {
                if self.waiting.len() < WAITING_MAX {
                    self.waiting.push_back(asked);
                }
            }
        }
    }

    fn take_held(&mut self, said: &HolderSays) {
        let newer = match &mut self.step {
            Step::Asks(next) => {
                next.receive(said);
                match next.begin() {
                    Ok(keeper) => {
                        self.keep(keeper);
                        None
                    }
                    Err(BeginError::TooFew { .. }) => None,
                    Err(BeginError::Superseded(newer)) => Some(newer),
                }
            }
            Step::Keeps(keeper) => {
                keeper.receive(said);
                keeper.superseded_by()
            }
            Step::Ended => None,
        };
        if let Some(newer) = newer {
            self.give_way(newer);
        }
    }

    /// Begins.
    fn keep(&mut self, keeper: TermKeeper) {
        tracing::info!("the keeper of views is here, of {}", keeper.place().term);
        self.said.clear();
        self.entered = ViewNumber::default();
        self.step = Step::Keeps(Box::new(keeper));
    }

    /// Begins without nodes that are lost for good, as far as those that answer allow. Whoever has said so is answered when that is
    /// settled; who asks again before that, in the place of the first one.
    fn recover(&mut self, lost: BTreeSet<NodeId>, answer: oneshot::Sender<Result<(), RecoverError>>) {
        let begun = match &self.step {
            Step::Asks(next) => next.begin_without(&lost),
            Step::Keeps(keeper) => {
                if let Some(Owed::Recovered(asked, owed)) = &mut self.owed
                    && lost.is_subset(asked)
                {
                    *owed = answer;
                    return;
                }
                let is_so = lost.is_subset(keeper.view().removed());
                return drop(answer.send(if is_so { Ok(()) } else { Err(RecoverError::Begun) }));
            }
            Step::Ended => return,
        };
        match begun {
            Ok(keeper) => {
                let names: Vec<String> = lost.iter().map(ToString::to_string).collect();
                let (names, last) = (names.join(", "), keeper.last().get());
                tracing::warn!(
                    "lost for good, as somebody says: {names}. Views go on without, from {last} on"
                );
                self.keep(keeper);
                self.owed = Some(Owed::Recovered(lost, answer));
            }
            // Whoever has given up waiting asks again.
            Err(error) => drop(answer.send(Err(error))),
        }
    }

    /// There is a newer keeper. One beside a primary of the same number may be gone soon, and then somebody has to be there.
    fn give_way(&mut self, newer: KeeperTerm) {
        tracing::warn!("the keeper of views is elsewhere by now, of {newer}: this one ends");
        self.owed = None;
        self.waiting.clear();
        if newer.number() > self.options.term {
            self.step = Step::Ended;
        } else {
            self.step = Step::Asks(next_of(&self.options, newer));
            self.asks_from = Instant::now() + self.options.silence * PAUSE_SILENCES;
            self.looks = 0;
        }
    }

    /// What it does now and then.
    fn look(&mut self) {
        match &self.step {
            Step::Asks(_) => self.ask(),
            Step::Keeps(keeper) => {
                // Members are told again what they have not answered; who is away is told when something is new.
                let members: BTreeSet<NodeId> = keeper.view().members().map(|member| member.node).collect();
                let own = self.options.own;
                self.said.retain(|node, _| *node != own && !members.contains(node));
                self.remove_silent();
            }
            Step::Ended => {}
        }
    }

    /// Asks all that are known what they hold.
    fn ask(&mut self) {
        let Step::Asks(next) = &self.step else { return };
        if Instant::now() < self.asks_from {
            return;
        }
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS_A_WORD)
            && let Err(error) = next.begin()
        {
            tracing::warn!(
                "no keeper of views yet, so nobody joins or leaves: {error}. Start the others; if some are lost for good, \
                 coeval cluster recover says so"
            );
        }
        let ask = next.ask();
        for node in (self.others)() {
            if node != self.options.own {
                (self.give)(Outgoing::Send(node, Box::new(Frame::Keeper(ask.clone()))));
            }
        }
        self.holding.said(ask);
    }

    /// Removes who is gone, as far as enough replicas are left; one after the other, as each of these records is settled.
    fn remove_silent(&mut self) {
        let Step::Keeps(keeper) = &mut self.step else { return };
        let mut gone = self.silence.silent(Instant::now());
        if gone.is_empty() {
            gone.extend(self.silence.cut_off(self.options.own));
        }
        for node in gone {
            let removed = keeper.decide(|keeper| match keeper.remove(node) {
                Ok(record) => (Ok(()), Some(record)),
                Err(error) => (Err(error), None),
            });
            match removed {
                Some(Ok(())) => tracing::warn!("{node} does not answer: the view goes on without it"),
                Some(Err(RemoveError::NotLive)) => {}
                Some(Err(RemoveError::LastReplica)) => {
                    tracing::debug!("{node} does not answer, and may hold the last replica of some bricks");
                }
                None => return,
            }
        }
    }

    /// Does what can be done by now, and says what there is to say.
    fn go_on(&mut self) {
        loop {
            self.note_settled();
            if !self.decide_next() {
                break;
            }
        }
        self.say();
    }

    /// Goes by the newest settled view, and answers who has waited for it.
    fn note_settled(&mut self) {
        let Step::Keeps(keeper) = &self.step else { return };
        if keeper.view().number() != self.entered {
            self.entered = keeper.view().number();
            self.silence.enter(keeper.view(), Instant::now());
        }
        if keeper.is_settled()
            && let Some(owed) = self.owed.take()
        {
            owed.pay();
        }
    }

    /// Decides the next thing that somebody waits for. Whether there may be more.
    fn decide_next(&mut self) -> bool {
        let Step::Keeps(keeper) = &mut self.step else { return false };
        if !keeper.is_settled() || keeper.superseded_by().is_some() {
            return false;
        }
        let (own, stride) = (self.options.own, self.options.stride);
        if let Some(node) = self.nodes.pop_front() {
            // What has been recorded of others is newer than what this node was told when it started; of itself it is not.
            let address = self.options.nodes.iter().find(|(other, _)| *other == node);
            if let Some((_, address)) = address
                && (node == own || !keeper.view().known().contains_key(&node))
            {
                let address: Arc<str> = Arc::from(address.to_string());
                let _ = keeper.decide(|keeper| ((), keeper.know(node, &address)));
            }
            return true;
        }
        self.owed = match self.waiting.pop_front() {
            Some(KeeperInput::Add(ask, answer)) => {
                let added = keeper.decide(|keeper| match keeper.add(&ask, stride) {
                    Ok((node, record)) => (Ok(node), record),
                    Err(error) => (Err(error), None),
                });
                added.map(|added| Owed::Added(answer, added))
            }
            Some(KeeperInput::Change(change, answer)) => {
                let changed = keeper.decide(|keeper| {
                    let changed = match change {
                        NodeChange::Drain(node) => keeper.drain(node),
                        NodeChange::Remove(node) => keeper.remove_for_good(node),
                    };
                    match changed {
                        Ok(record) => (Ok(()), record),
                        Err(error) => (Err(error), None),
                    }
                });
                changed.map(|changed| Owed::Changed(answer, changed))
            }
            // These do not wait.
            Some(
                KeeperInput::Told(_)
                | KeeperInput::Heard(_)
                | KeeperInput::Held(_)
                | KeeperInput::Recover(..),
            )
            | None => return false,
        };
        true
    }

    /// Tells nodes what they are to hold, and how much of it is settled; each once, until they are to be told again.
    fn say(&mut self) {
        let Step::Keeps(keeper) = &self.step else { return };
        let view = keeper.view();
        let last = keeper.settled().last();
        let is_told = |node: &NodeId| {
            let is_its_end = || match last.map(|last| &last.change) {
                Some(ViewChange::Removed { node: removed }) => removed == node,
                Some(ViewChange::Recovered { lost, .. }) => lost.contains(node),
                _ => false,
            };
            !view.removed().contains(node) || is_its_end()
        };
        let known = view.known().keys().copied().chain(view.members().map(|member| member.node));
        let mut nodes: BTreeSet<NodeId> = known.filter(is_told).collect();
        nodes.insert(self.options.own);
        let now = (keeper.last(), view.number());
        for node in nodes {
            if keeper.knows_all(node) || self.said.get(&node) == Some(&now) {
                continue;
            }
            let Some(said) = keeper.hold(node) else { continue };
            self.said.insert(node, now);
            if node == self.options.own {
                self.holding.said(said);
            } else {
                (self.give)(Outgoing::Send(node, Box::new(Frame::Keeper(said))));
            }
        }
    }
}
