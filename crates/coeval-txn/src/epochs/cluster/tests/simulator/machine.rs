// SPDX-License-Identifier: Apache-2.0
//! One machine: a process, a disk whose last writes may be lost, and the bricks that its log makes.
//!
//! The process has epochs and dictionaries, and one log for both.

use std::collections::BTreeMap;

use super::texts::{BOUNDS, CODES_MAX, dictionaries};
use super::{Ring, Rows};
use crate::epochs::cluster::rules::Rules;
use crate::epochs::cluster::{
    BrickAddress, ClusterNode, Dictionaries, DictionaryMessage, DictionaryRecord, HolderRecord, Incarnation,
    LogRecord, Member, Message, ToKeeper, ViewHolder, ViewRecord, WholeView,
};
use crate::epochs::{Epoch, Stride};

pub(super) type Node = ClusterNode<Rows, Ring>;
pub(super) type Bricks = BTreeMap<BrickAddress, Vec<(Epoch, u64)>>;

/// What waits for the disk.
#[derive(Debug)]
pub(super) enum Waiting {
    Message(Message<Rows>),
    Text(DictionaryMessage),
    ToKeeper(ToKeeper),
}

/// A record of a machine's log.
#[derive(Debug)]
enum Logged {
    Epochs(LogRecord<Rows>),
    Texts(DictionaryRecord),
}

impl Logged {
    fn of_epochs(&self) -> Option<&LogRecord<Rows>> {
        if let Self::Epochs(record) = self { Some(record) } else { None }
    }

    fn of_texts(&self) -> Option<&DictionaryRecord> {
        if let Self::Texts(record) = self { Some(record) } else { None }
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) member: Member,
    stride: Stride,
    ring: Ring,
    rules: Rules,
    expects_ages: bool,
    pub(super) process: Option<Node>,
    /// What the process has of dictionaries; of no meaning while it does not run.
    pub(super) texts: Dictionaries<Ring>,
    /// What it holds for keepers, and what of that is on disk.
    pub(super) holder: ViewHolder,
    held: Vec<HolderRecord>,
    log: Vec<Logged>,
    /// The first incarnation since the disk was empty.
    pub(super) log_since: Incarnation,
    on_disk: usize,
    pub(super) followed: usize,
    /// So many it has followed in the life in which it followed most, since its disk was empty.
    pub(super) ever_followed: usize,
    /// Each with the length of the log that has to be on disk before.
    waiting: Vec<(usize, Waiting)>,
    pub(super) bricks: Bricks,
}

fn apply(bricks: &mut Bricks, record: &LogRecord<Rows>) {
    match record {
        LogRecord::Append { epoch, brick, rows, .. } => {
            bricks.entry(*brick).or_default().extend(rows.numbers.iter().map(|row| (*epoch, *row)));
        }
        LogRecord::Copied { brick, ended, rows } => {
            let here = bricks.entry(*brick).or_default();
            here.retain(|(label, _)| !ended.contains(*label));
            here.extend(rows.iter().flat_map(|(epoch, rows)| rows.numbers.iter().map(|row| (*epoch, *row))));
        }
        LogRecord::Cut(epoch) => {
            bricks.values_mut().for_each(|rows| rows.retain(|(label, _)| label != epoch))
        }
        _ => {}
    }
}

impl Machine {
    pub(super) fn new(member: Member, count: u32, ring: Ring, rules: Rules) -> Self {
        let stride = Stride::new(member.node.get(), count);
        let mut machine = Self {
            member,
            stride,
            ring,
            rules,
            expects_ages: false,
            process: None,
            texts: Dictionaries::new(member, ring, BOUNDS),
            holder: ViewHolder::new(member.node, member.incarnation),
            held: Vec::new(),
            log: Vec::new(),
            log_since: member.incarnation,
            on_disk: 0,
            followed: 0,
            ever_followed: 0,
            waiting: Vec::new(),
            bricks: Bricks::new(),
        };
        machine.boot();
        machine
    }

    /// Readers come with ages, to this process and to all later ones.
    pub(super) fn expect_ages(&mut self) {
        self.expects_ages = true;
        if let Some(node) = &mut self.process {
            node.expect_ages();
        }
    }

    fn boot(&mut self) {
        let records = self.log.iter().filter_map(Logged::of_epochs);
        let mut node = Node::recover(self.member, self.stride, self.ring, records);
        node.keep_rules(self.rules);
        if self.expects_ages {
            node.expect_ages();
        }
        self.process = Some(node);
        self.texts = self.texts_of(self.log.len());
        self.texts.keep_rules(self.rules);
        dictionaries().for_each(|dictionary| self.texts.declare(dictionary, CODES_MAX));
        self.holder = ViewHolder::recover(self.member.node, self.log_since, &self.held);
        self.holder.keep_rules(self.rules);
        self.followed = 0;
    }

    /// Starts the machine, which has stopped, in its next incarnation.
    pub(super) fn start(&mut self) {
        self.member.incarnation = Incarnation::new(self.member.incarnation.get() + 1);
        self.boot();
    }

    /// Stops the machine; of what is not on disk, the first `kept` records are there nevertheless.
    pub(super) fn stop(&mut self, kept: usize) {
        self.process = None;
        self.waiting.clear();
        self.log.truncate(self.on_disk + kept);
        self.on_disk = self.log.len();
        self.bricks = self.bricks_on_disk();
    }

    /// The disk is replaced by an empty one.
    pub(super) fn lose_disk(&mut self) {
        assert!(self.process.is_none(), "a disk is replaced while the machine is off");
        self.log.clear();
        self.held.clear();
        self.log_since = Incarnation::new(self.member.incarnation.get() + 1);
        self.on_disk = 0;
        self.ever_followed = 0;
        self.bricks.clear();
    }

    pub(super) fn log(&mut self, record: LogRecord<Rows>) {
        apply(&mut self.bricks, &record);
        self.log.push(Logged::Epochs(record));
    }

    pub(super) fn log_texts(&mut self, record: DictionaryRecord) {
        self.log.push(Logged::Texts(record));
    }

    /// Whether a transaction of this number is in the log.
    pub(super) fn has_logged(&self, epoch: Epoch) -> bool {
        let mut records = self.log.iter().filter_map(Logged::of_epochs);
        records.any(|record| matches!(record, LogRecord::Began(other, _) if *other == epoch))
    }

    pub(super) fn not_on_disk(&self) -> usize {
        self.log.len() - self.on_disk
    }

    pub(super) fn wait(&mut self, what: Waiting) {
        self.waiting.push((self.log.len(), what));
    }

    /// What the machine holds for keepers: if it does not run, what it would have if it was started.
    pub(super) fn holder_now(&self) -> ViewHolder {
        match self.process {
            Some(_) => self.holder.clone(),
            None => ViewHolder::recover(self.member.node, self.log_since, &self.held),
        }
    }

    /// What the machine holds for keepers is on its disk.
    pub(super) fn write_held(&mut self) {
        self.held.extend(self.holder.take_records());
    }

    /// Writes `count` more records to disk; gives what waited for that.
    pub(super) fn sync(&mut self, count: usize) -> Vec<Waiting> {
        self.on_disk += count;
        let on_disk = self.on_disk;
        let (ready, waiting) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(length, _)| *length <= on_disk);
        self.waiting = waiting;
        let ready: Vec<(usize, Waiting)> = ready;
        ready.into_iter().map(|(_, what)| what).collect()
    }

    pub(super) fn bricks_on_disk(&self) -> Bricks {
        let mut bricks = Bricks::new();
        let records = self.log[..self.on_disk].iter().filter_map(Logged::of_epochs);
        records.for_each(|record| apply(&mut bricks, record));
        bricks
    }

    /// The dictionaries that so much of the log makes.
    fn texts_of(&self, length: usize) -> Dictionaries<Ring> {
        let records = self.log[..length].iter().filter_map(Logged::of_texts);
        Dictionaries::recover(self.member, self.ring, BOUNDS, records)
    }

    pub(super) fn texts_on_disk(&self) -> Dictionaries<Ring> {
        self.texts_of(self.on_disk)
    }

    /// One record stands for most that the machine holds, and its disk has nothing else of that.
    pub(super) fn fold_held(&mut self) {
        self.holder.fold(2);
        self.held = self.holder.take_all_records();
    }

    /// Follows one record for all of these, as the first one.
    pub(super) fn follow_whole(&mut self, records: &[ViewRecord]) {
        let (Some(node), Some(whole)) = (&mut self.process, WholeView::of(records)) else { return };
        assert_eq!(self.followed, 0, "it stands for the records from the first on");
        self.followed = records.len();
        self.ever_followed = self.ever_followed.max(self.followed);
        node.follow(&whole);
        self.texts.follow(node.view());
        self.holder.learn(&whole);
    }

    /// Follows the keeper's next record, if there is one.
    pub(super) fn follow(&mut self, records: &[ViewRecord]) -> bool {
        let (Some(node), Some(record)) = (&mut self.process, records.get(self.followed)) else {
            return false;
        };
        self.followed += 1;
        self.ever_followed = self.ever_followed.max(self.followed);
        node.follow(record);
        self.texts.follow(node.view());
        self.holder.learn(record);
        true
    }
}
