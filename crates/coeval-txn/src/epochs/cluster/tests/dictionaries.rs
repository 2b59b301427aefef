// SPDX-License-Identifier: Apache-2.0
//! Stories of dictionaries, each with its rule and without.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Everywhere;
use super::scripts::needs;
use crate::epochs::Epoch;
use crate::epochs::cluster::rules::{Rule, Rules};
use crate::epochs::cluster::{
    AskOutcome, Asked, ClosedReport, Code, Dictionaries, DictionaryBounds, DictionaryEffect, DictionaryError,
    DictionaryId, DictionaryMessage, DictionaryRecord, Incarnation, Member, NodeId, Purpose, Spelling,
    ToKeeper, View, ViewKeeper, ViewRecord,
};

type Node = Dictionaries<Everywhere>;

const CITY: DictionaryId = DictionaryId { table: 1, column: 2 };
const CODES_MAX: u32 = 4;
const BOUNDS: DictionaryBounds = DictionaryBounds { texts_max: 2, text_bytes_max: 8, patience: 3 };

/// Nodes on a network that delivers what the story wants. Nodes are named by their numbers; each is a holder, and the first
/// live one is the owner.
struct Stage {
    rules: Rules,
    keeper: ViewKeeper,
    records: Vec<ViewRecord>,
    nodes: Vec<Node>,
    members: Vec<Member>,
    log_since: Vec<Incarnation>,
    views: Vec<View>,
    logs: Vec<Vec<DictionaryRecord>>,
    on_disk: Vec<usize>,
    /// Those whose disks do not write.
    slow: BTreeSet<u32>,
    waiting: Vec<Vec<DictionaryMessage>>,
    network: Vec<DictionaryMessage>,
    told: Vec<AskOutcome>,
}

impl Stage {
    fn new(count: u32, rules: Rules) -> Self {
        let member = |node| Member { node: NodeId::new(node), incarnation: Incarnation::new(1) };
        let members: Vec<Member> = (1..=count).map(member).collect();
        let (mut keeper, record) = ViewKeeper::found(&members, members.len());
        keeper.keep_rules(rules);
        let mut stage = Self {
            rules,
            keeper,
            records: vec![record],
            nodes: Vec::new(),
            log_since: vec![Incarnation::new(1); members.len()],
            views: vec![View::default(); members.len()],
            logs: vec![Vec::new(); members.len()],
            on_disk: vec![0; members.len()],
            slow: BTreeSet::new(),
            waiting: vec![Vec::new(); members.len()],
            network: Vec::new(),
            told: Vec::new(),
            members: members.clone(),
        };
        for member in members {
            let node = stage.start(member);
            stage.nodes.push(node);
        }
        (1..=count).for_each(|number| stage.follow(number));
        stage
    }

    fn start(&self, member: Member) -> Node {
        let log = &self.logs[member.node.get() as usize - 1];
        let mut node = Node::recover(member, Everywhere, BOUNDS, log);
        node.keep_rules(self.rules);
        node.declare(CITY, CODES_MAX);
        node
    }

    fn node(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize - 1]
    }

    /// Does what a node wants done.
    fn pump(&mut self, number: u32) {
        let index = number as usize - 1;
        for effect in self.nodes[index].take_effects() {
            match effect {
                DictionaryEffect::Log(record) => self.logs[index].push(record),
                DictionaryEffect::Send(message) => self.network.push(message),
                DictionaryEffect::SendOnceLogged(message) => self.waiting[index].push(message),
                DictionaryEffect::Tell(_, outcome) => self.told.push(outcome),
            }
        }
        if !self.slow.contains(&number) {
            self.on_disk[index] = self.logs[index].len();
            self.network.append(&mut self.waiting[index]);
        }
    }

    /// Delivers these messages, and those that follow from them; the rest stays under way.
    fn deliver_if(&mut self, is_delivered: impl Fn(&DictionaryMessage) -> bool) {
        while let Some(index) = self.network.iter().position(&is_delivered) {
            let message = self.network.remove(index);
            let to = message.to.node.get();
            self.node(to).receive(message);
            self.pump(to);
        }
    }

    /// Delivers what is under way between these nodes.
    fn deliver(&mut self, among: &[u32]) {
        self.deliver_if(|message| {
            among.contains(&message.from.node.get()) && among.contains(&message.to.node.get())
        });
    }

    /// A node follows all records that there are.
    fn follow(&mut self, number: u32) {
        let index = number as usize - 1;
        let followed = usize::try_from(self.views[index].number().get()).unwrap();
        for record in &self.records[followed..] {
            self.views[index].follow(record);
            self.nodes[index].follow(&self.views[index]);
        }
        self.pump(number);
    }

    fn tell_keeper(&mut self, message: &ToKeeper) {
        let record = self.keeper.receive(message);
        self.records.extend(record);
    }

    fn remove(&mut self, number: u32) {
        let record = self.keeper.remove(NodeId::new(number)).unwrap();
        self.records.push(record);
    }

    /// A node stops and comes back with what is on its disk.
    fn restart(&mut self, number: u32) {
        let index = number as usize - 1;
        self.logs[index].truncate(self.on_disk[index]);
        self.waiting[index].clear();
        self.views[index] = View::default();
        let Member { node, incarnation } = self.members[index];
        let member = Member { node, incarnation: Incarnation::new(incarnation.get() + 1) };
        self.members[index] = member;
        self.nodes[index] = self.start(member);
        self.tell_keeper(&ToKeeper::Join { member, log_since: self.log_since[index] });
        self.follow(number);
    }

    /// A node stops and comes back with an empty disk.
    fn lose_disk(&mut self, number: u32) {
        let index = number as usize - 1;
        self.on_disk[index] = 0;
        self.log_since[index] = Incarnation::new(self.members[index].incarnation.get() + 1);
        self.restart(number);
    }

    fn ask(&mut self, number: u32, text: &str) -> Asked {
        let asked = self.node(number).ask(CITY, Purpose::Give, &[Arc::from(text)]).unwrap();
        self.pump(number);
        asked
    }

    /// All follow, and all messages arrive.
    fn settle(&mut self) {
        let count = u32::try_from(self.nodes.len()).unwrap();
        (1..=count).for_each(|number| self.follow(number));
        self.deliver_if(|_| true);
    }

    fn code_of(&self, number: u32, text: &str) -> Option<Code> {
        self.nodes[number as usize - 1].code_of(CITY, text)
    }
}

fn spelling(code: u32, text: &str) -> Spelling {
    Spelling { code: Code::new(code), text: Arc::from(text) }
}

/// n3 asks n1, and both die; n2 had heard of nothing, and gives the code to another text.
#[test]
fn a_code_is_told_when_all_holders_have_it() {
    needs(Rule::CodesOnAllHolders, |rules| {
        let mut stage = Stage::new(3, rules);
        let _ = stage.ask(3, "a");
        stage.deliver(&[1, 3]);
        let told = stage.code_of(3, "a");
        stage.remove(1);
        stage.remove(3);
        stage.follow(2);
        let _ = stage.ask(2, "b");
        stage.deliver(&[2]);
        let other = stage.code_of(2, "b");
        other.is_some() && told != other
    });
}

/// n2 answers before its disk has written, stops, and is the only one left.
#[test]
fn a_holder_answers_when_its_disk_has_written() {
    needs(Rule::LogBeforeAnswer, |rules| {
        let mut stage = Stage::new(2, rules);
        stage.settle();
        stage.slow.insert(2);
        let _ = stage.ask(1, "a");
        stage.deliver(&[1, 2]);
        let told = stage.code_of(1, "a");
        stage.restart(2);
        stage.remove(1);
        stage.slow.clear();
        stage.follow(2);
        let _ = stage.ask(2, "b");
        stage.deliver(&[2]);
        let other = stage.code_of(2, "b");
        other.is_some() && told != other
    });
}

/// Both holders are asked at once.
#[test]
fn one_holder_gives_the_codes() {
    needs(Rule::OneOwner, |rules| {
        let mut stage = Stage::new(2, rules);
        stage.settle();
        let _ = stage.ask(1, "a");
        let _ = stage.ask(2, "b");
        stage.settle();
        let (first, second) = (stage.code_of(1, "a"), stage.code_of(2, "b"));
        first.is_some() && second.is_some() && first != second
    });
}

/// n3 has "x" of n1, which is removed before n2 has it. n2 gives the same place to "y". When n1 comes back, n2 asks whether
/// n3 has one text: so it has, but another one.
#[test]
fn a_holder_has_the_same_texts_and_not_as_many() {
    needs(Rule::SamePast, |rules| {
        let mut stage = Stage::new(3, rules);
        stage.settle();
        let _ = stage.ask(1, "x");
        stage.deliver(&[1, 3]);
        stage.network.clear();
        stage.remove(1);
        stage.follow(2);
        stage.follow(3);
        let _ = stage.ask(2, "y");
        stage.deliver(&[2]);
        stage.network.clear();
        assert_eq!(stage.code_of(2, "y"), None);

        stage.restart(1);
        stage.settle();
        let told = stage.code_of(2, "y");
        stage.remove(2);
        stage.follow(1);
        stage.follow(3);
        let _ = stage.ask(3, "x");
        stage.deliver(&[1, 3]);
        let other = stage.code_of(3, "x");
        told.is_some() && other.is_some() && told != other
    });
}

#[test]
fn a_text_has_one_code_whoever_asks() {
    needs(Rule::OneCodePerText, |rules| {
        let mut stage = Stage::new(2, rules);
        for number in [1, 2] {
            let _ = stage.ask(number, "a");
            stage.settle();
        }
        stage.code_of(1, "a").is_some() && stage.code_of(1, "a") == stage.code_of(2, "a")
    });
}

/// n2 has lost its disk, says too early that it has all, and n1 dies.
#[test]
fn who_serves_has_all_codes() {
    needs(Rule::AllCodesBeforeServing, |rules| {
        let mut stage = Stage::new(2, rules);
        let _ = stage.ask(1, "a");
        stage.settle();
        let told = stage.code_of(1, "a");
        stage.lose_disk(2);
        stage.follow(1);
        let members = stage.members.clone();
        let given = stage.node(1).gives(members[1]);
        assert_eq!(given, [CITY]);
        if !stage.node(2).has_all(&given) {
            stage.settle();
            return stage.node(2).has_all(&given) && stage.keeper.remove(NodeId::new(1)).is_err();
        }
        let view = stage.keeper.view().clone();
        for from in members.clone() {
            stage.tell_keeper(&ToKeeper::Closed(ClosedReport {
                from,
                view: view.number(),
                clock: Epoch::new(1),
                latest_committed: Epoch::ZERO,
                decided: Vec::new(),
                commits: Vec::new(),
            }));
        }
        for from in members {
            stage.tell_keeper(&ToKeeper::Complete { from, layout: view.layout() });
        }
        stage.remove(1);
        stage.follow(2);
        let _ = stage.ask(2, "b");
        stage.deliver(&[2]);
        assert!(told.is_some());
        stage.code_of(2, "b") != told
    });
}

/// n2 answers, loses its disk, and comes back; its answer arrives after that.
#[test]
fn what_was_said_in_another_layout_does_not_count() {
    needs(Rule::SameView, |rules| {
        let mut stage = Stage::new(2, rules);
        stage.settle();
        let _ = stage.ask(1, "a");
        stage.deliver_if(|message| message.from.node == NodeId::new(1));
        assert!(stage.network.iter().all(|message| message.from.node == NodeId::new(2)));
        assert_eq!(stage.network.len(), 1);
        stage.lose_disk(2);
        stage.follow(1);
        stage.deliver_if(|message| message.to.node == NodeId::new(1));
        stage.code_of(1, "a").is_none()
    });
}

#[test]
fn rows_come_with_the_texts_of_their_codes() {
    needs(Rule::TextsWithRows, |rules| {
        let mut stage = Stage::new(2, rules);
        let _ = stage.ask(1, "a");
        stage.settle();
        let code = stage.code_of(1, "a").unwrap();
        let spelled = stage.node(1).spell(CITY, [code]);
        stage.node(2).learn(CITY, &spelled).unwrap();
        stage.code_of(2, "a") == Some(code)
    });
}

#[test]
fn texts_that_come_with_rows_are_known_at_once() {
    needs(Rule::TextsBeforeRows, |rules| {
        let mut stage = Stage::new(1, rules);
        stage.node(1).learn(CITY, &[spelling(0, "a")]).unwrap();
        stage.code_of(1, "a") == Some(Code::new(0))
    });
}

#[test]
fn what_was_learned_is_known_after_a_restart() {
    needs(Rule::TextsStay, |rules| {
        let mut stage = Stage::new(1, rules);
        stage.node(1).learn(CITY, &[spelling(0, "a")]).unwrap();
        stage.pump(1);
        stage.restart(1);
        stage.code_of(1, "a") == Some(Code::new(0))
    });
}

#[test]
fn who_knows_all_texts_asks_nobody() {
    needs(Rule::KnownAsksNobody, |rules| {
        let mut stage = Stage::new(2, rules);
        let _ = stage.ask(2, "a");
        stage.settle();
        let asked = stage.ask(2, "a");
        stage.code_of(2, "a").is_some() && asked == Asked::Nobody && stage.network.is_empty()
    });
}

#[test]
fn a_reader_asks_for_what_it_does_not_know() {
    needs(Rule::UnknownIsAsked, |rules| {
        let mut stage = Stage::new(2, rules);
        let _ = stage.ask(1, "a");
        stage.settle();
        let _ = stage.node(2).ask(CITY, Purpose::Find, &[Arc::from("a"), Arc::from("b")]).unwrap();
        stage.pump(2);
        stage.settle();
        let without = AskOutcome::Answered { without: vec![Arc::from("b")] };
        stage.code_of(2, "a").is_some() && stage.told.last() == Some(&without)
    });
}

#[test]
fn looking_for_a_text_gives_it_no_code() {
    let mut stage = Stage::new(1, Rules::ALL);
    let _ = stage.node(1).ask(CITY, Purpose::Find, &[Arc::from("a")]).unwrap();
    stage.pump(1);
    stage.settle();
    assert_eq!(stage.told, [AskOutcome::Answered { without: vec![Arc::from("a")] }]);
    let _ = stage.ask(1, "b");
    stage.settle();
    assert_eq!(stage.code_of(1, "b"), Some(Code::new(0)));
}

/// n1 dies with an ask of n2 on its way: the ask goes to the next owner by itself.
#[test]
fn an_ask_goes_to_the_next_owner() {
    let mut stage = Stage::new(2, Rules::ALL);
    stage.settle();
    let _ = stage.ask(2, "a");
    stage.network.clear();
    stage.remove(1);
    stage.follow(2);
    stage.deliver(&[2]);
    assert_eq!(stage.code_of(2, "a"), Some(Code::new(0)));
    assert_eq!(stage.told, [AskOutcome::Answered { without: Vec::new() }]);
}

/// n1 gives a code and dies before it can tell; n2 asks again and gets the same.
#[test]
fn what_was_given_and_not_told_is_told_by_the_next_owner() {
    let mut stage = Stage::new(3, Rules::ALL);
    stage.settle();
    let _ = stage.ask(3, "a");
    stage.deliver_if(|message| message.to.node != NodeId::new(3));
    stage.network.clear();
    stage.remove(1);
    stage.follow(2);
    stage.follow(3);
    let _ = stage.ask(2, "b");
    stage.deliver(&[2, 3]);
    assert_eq!([stage.code_of(3, "a"), stage.code_of(2, "b")], [0, 1].map(|code| Some(Code::new(code))));
}

#[test]
fn an_owner_that_does_not_answer_is_named() {
    let mut stage = Stage::new(2, Rules::ALL);
    stage.settle();
    let _ = stage.ask(2, "a");
    for _ in 0..BOUNDS.patience {
        assert_eq!(stage.told, []);
        stage.node(2).resend();
        stage.pump(2);
    }
    let why = DictionaryError::Silent { dictionary: CITY, owner: NodeId::new(1) };
    assert_eq!(stage.told, [AskOutcome::Failed(why.clone())]);
    assert_eq!(
        why.to_string(),
        "n1, which gives the codes of the dictionary of column 2 of table 1, does not answer"
    );
    assert_eq!(stage.node(2).open_asks(), 0);
}

/// n3 answers nothing for long, and n2 gives up one ask after the other. To break it: keep those who ask no more.
#[test]
fn an_owner_forgets_who_has_given_up() {
    let mut stage = Stage::new(3, Rules::ALL);
    stage.settle();
    for _ in 0..5 {
        let _ = stage.ask(2, "a");
        for _ in 0..BOUNDS.patience {
            stage.deliver(&[1, 2]);
            for number in [1, 2] {
                stage.node(number).resend();
                stage.pump(number);
            }
        }
        assert_eq!(stage.node(2).open_asks(), 0, "it has given up");
    }
    assert_eq!(stage.node(1).waiting(CITY), 1, "the last one may be on its way again");
    let _ = stage.ask(2, "a");
    stage.settle();
    assert_eq!((stage.code_of(2, "a"), stage.node(1).waiting(CITY)), (Some(Code::new(0)), 0));
}

#[test]
fn who_is_removed_is_told_so() {
    let mut stage = Stage::new(2, Rules::ALL);
    stage.settle();
    let _ = stage.ask(1, "a");
    stage.remove(1);
    stage.follow(1);
    assert_eq!(stage.told, [AskOutcome::Failed(DictionaryError::OutOfView)]);
    let again = stage.node(1).ask(CITY, Purpose::Give, &[Arc::from("a")]);
    assert_eq!(again, Err(DictionaryError::OutOfView));
}

#[test]
fn what_is_too_much_is_refused() {
    let mut stage = Stage::new(1, Rules::ALL);
    stage.settle();
    let texts: [Arc<str>; 3] = ["a", "b", "c"].map(Arc::from);
    let refused = stage.node(1).ask(CITY, Purpose::Give, &texts);
    assert_eq!(refused, Err(DictionaryError::TooManyTexts { count: 3, max: 2 }));
    let refused = stage.node(1).ask(CITY, Purpose::Give, &[Arc::from("a long text")]);
    assert_eq!(refused, Err(DictionaryError::TextTooLong { bytes: 11, max: 8 }));
    let other = DictionaryId { table: 7, column: 1 };
    let refused = stage.node(1).ask(other, Purpose::Give, &texts[..1]);
    assert_eq!(refused, Err(DictionaryError::NotDeclared(other)));

    for text in ["a", "b", "c", "d", "e"] {
        let _ = stage.ask(1, text);
        stage.settle();
    }
    assert_eq!(stage.code_of(1, "d"), Some(Code::new(3)));
    assert_eq!(stage.told.last(), Some(&AskOutcome::Answered { without: vec![Arc::from("e")] }));
}

/// Lists that are longer than a message come in parts.
#[test]
fn who_comes_back_empty_gets_the_whole_list() {
    let mut stage = Stage::new(2, Rules::ALL);
    for text in ["a", "b", "c"] {
        let _ = stage.ask(1, text);
        stage.settle();
    }
    stage.lose_disk(2);
    stage.settle();
    let listed = (0..4).map(|code| stage.nodes[1].listed(CITY, Code::new(code)));
    let listed: Vec<Option<Arc<str>>> = listed.collect();
    assert_eq!(listed, [Some(Arc::from("a")), Some(Arc::from("b")), Some(Arc::from("c")), None]);
}

#[test]
fn no_code_gets_a_second_meaning() {
    let mut stage = Stage::new(1, Rules::ALL);
    stage.node(1).learn(CITY, &[spelling(0, "a")]).unwrap();
    stage.pump(1);
    for wrong in [[spelling(1, "b"), spelling(0, "c")], [spelling(1, "b"), spelling(2, "a")]] {
        let code = wrong[1].code;
        let refused = stage.node(1).learn(CITY, &wrong);
        assert_eq!(refused, Err(DictionaryError::TwoMeanings { dictionary: CITY, code }));
        assert_eq!((stage.code_of(1, "b"), stage.node(1).take_effects().len()), (None, 0));
    }
}

/// A log that gets shorter tells the same.
#[test]
fn the_records_of_now_say_what_all_records_said() {
    let mut stage = Stage::new(2, Rules::ALL);
    for text in ["a", "b", "c"] {
        let _ = stage.ask(1, text);
        stage.settle();
    }
    let member = stage.members[0];
    let by_all = Node::recover(member, Everywhere, BOUNDS, &stage.logs[0]).records();
    assert_eq!(by_all, stage.node(1).records());
    assert_eq!(by_all, Node::recover(member, Everywhere, BOUNDS, &by_all).records());
    assert_eq!(by_all.len(), 2);
}
