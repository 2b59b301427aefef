// SPDX-License-Identifier: Apache-2.0
use super::request::{BrickPart, PART_BYTES};
use super::{
    Alive, BrickAnswer, BrickRequest, BrickShare, Frame, FrameKind, FramedMessage, Gift, HeldRecord,
    Malformed, NodeRecord, PartAssembly, Wire, decode, encode, parts_of, parts_of_texts,
};
use crate::brick_change::BrickChange;
use crate::texts::RowTexts;
use bytes::Bytes;
use coeval_txn::cluster::{
    Body, BrickAddress, ClosedReport, Code, CommitTerms, CommittedEpoch, DictionaryBody, DictionaryId,
    DictionaryMessage, DictionaryRecord, EpochKind, GivenText, HolderBody, HolderRecord, HolderSays,
    Incarnation, KeeperPlace, KeeperSays, KeeperTerm, KnownNode, LogRecord, Member, Message, NodeId, Pending,
    Purpose, Spelling, Standing, StartId, ToKeeper, ViewChange, ViewNumber, ViewRecord, WholeView,
};
use coeval_txn::{Epoch, EpochSet};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Values at random, such as the protocol makes.
struct Values(StdRng);

impl Values {
    fn number(&mut self) -> u64 {
        let bits = self.0.random_range(1..40);
        self.0.random_range(1..1_u64 << bits)
    }

    fn epoch(&mut self) -> Epoch {
        Epoch::new(self.number())
    }

    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.random_range(0..5)).map(|_| one(self)).collect()
    }

    fn node(&mut self) -> NodeId {
        NodeId::new(self.0.random_range(1..=1_024))
    }

    fn member(&mut self) -> Member {
        Member { node: self.node(), incarnation: Incarnation::new(self.number()) }
    }

    fn view(&mut self) -> ViewNumber {
        ViewNumber::new(self.number())
    }

    fn kind(&mut self) -> EpochKind {
        [EpochKind::Load, EpochKind::Delete, EpochKind::LoadWithRows][self.0.random_range(0..3)]
    }

    fn older(&mut self, epoch: Epoch) -> Vec<Epoch> {
        self.list(|values| Epoch::new(values.0.random_range(1..=epoch.get())))
            .into_iter()
            .filter(|older| *older < epoch)
            .collect()
    }

    fn committed(&mut self) -> CommittedEpoch {
        let epoch = self.epoch();
        CommittedEpoch { epoch, kind: self.kind(), dependencies: self.older(epoch) }
    }

    fn terms(&mut self, epoch: Epoch, holder: Member) -> CommitTerms {
        let mut holders = self.list(Self::member);
        holders.push(holder);
        CommitTerms {
            kind: self.kind(),
            appends: self.0.random(),
            dependencies: self.older(epoch).into(),
            holders: holders.into(),
        }
    }

    fn brick(&mut self) -> BrickAddress {
        BrickAddress { table: self.number(), brick: self.0.random() }
    }

    fn rows(&mut self) -> Bytes {
        let length = self.0.random_range(0..40);
        (0..length).map(|_| self.0.random::<u8>()).collect()
    }

    fn change(&mut self, epoch: Epoch) -> BrickChange {
        if self.0.random() {
            return BrickChange::Rows(self.rows());
        }
        let except = self.list(Self::epoch);
        BrickChange::Delete(EpochSet::below(epoch).without(except))
    }

    /// What is appended, perhaps with texts.
    fn appended(&mut self, epoch: Epoch) -> BrickChange {
        if self.0.random() {
            return self.change(epoch);
        }
        BrickChange::SpelledRows(self.rows(), self.list(Self::texts).into())
    }

    fn labelled(&mut self) -> Vec<(Epoch, BrickChange)> {
        self.list(|values| {
            let epoch = values.epoch();
            (epoch, values.change(epoch))
        })
    }

    fn set(&mut self) -> EpochSet {
        let except = self.list(Self::epoch);
        EpochSet::through(self.epoch()).without(except)
    }

    fn standing(&mut self) -> Standing {
        let latest_committed = self.epoch();
        Standing {
            latest_committed,
            committed: self.list(Self::committed),
            rolled_back: self.list(Self::epoch),
            deletes: self.list(|values| {
                let delete = values.epoch();
                (delete, Epoch::new(values.0.random_range(0..delete.get())))
            }),
            latest_safe: Epoch::new(self.0.random_range(0..=latest_committed.get())),
        }
    }

    fn body(&mut self, to: Member) -> Body<BrickChange> {
        let epoch = self.epoch();
        match self.0.random_range(0..16) {
            0 => Body::Begin(epoch, self.kind()),
            1 => {
                let (number, brick) = (self.0.random(), self.brick());
                Body::Append { epoch, number, brick, rows: self.appended(epoch) }
            }
            2 => Body::Commit(epoch, self.terms(epoch, to)),
            3 => Body::Cut(epoch),
            4 => Body::Decided(self.committed()),
            5 => Body::Ended(epoch),
            6 => Body::Meet,
            7 => {
                let (pending, committed) = (self.list(Self::epoch), self.list(Self::epoch));
                Body::Begun(epoch, Pending { pending, latest_committed: self.epoch(), committed })
            }
            8 => Body::Appended(epoch, self.0.random()),
            9 => Body::CommitLogged(epoch),
            10 => Body::RowsMissing(epoch),
            11 => Body::CutLogged(epoch),
            12 => Body::Heard(epoch),
            13 => Body::Met(self.standing(), self.list(Self::epoch)),
            14 => Body::Floor(epoch),
            _ => Body::Newer,
        }
    }

    fn message(&mut self) -> Message<BrickChange> {
        let to = self.member();
        Message { from: self.member(), to, view: self.view(), clock: self.epoch(), body: self.body(to) }
    }

    fn told_to_keeper(&mut self) -> ToKeeper {
        match self.0.random_range(0..3) {
            0 => ToKeeper::Join { member: self.member(), log_since: Incarnation::new(self.number()) },
            1 => {
                let clock = self.epoch();
                ToKeeper::Closed(ClosedReport {
                    from: self.member(),
                    view: self.view(),
                    clock,
                    latest_committed: clock.previous(),
                    decided: self.list(Self::committed),
                    commits: self.list(|values| {
                        let (epoch, holder) = (values.epoch(), values.member());
                        (epoch, values.terms(epoch, holder))
                    }),
                })
            }
            _ => ToKeeper::Complete { from: self.member(), layout: self.view() },
        }
    }

    fn lives(&mut self) -> BTreeMap<NodeId, Incarnation> {
        self.list(Self::member).into_iter().map(|member| (member.node, member.incarnation)).collect()
    }

    fn view_record(&mut self) -> ViewRecord {
        let change = if self.0.random_range(0..4) == 0 {
            self.change_of_nodes()
        } else if self.0.random() {
            let (members, mut placed) = (self.lives(), self.lives());
            placed.insert(self.node(), Incarnation::new(1));
            ViewChange::Members { members, placed }
        } else {
            let through = self.epoch();
            ViewChange::Outcomes {
                nodes: self.lives(),
                latest: through.previous(),
                through,
                committed: self.list(Self::committed),
            }
        };
        ViewRecord { number: self.view(), change }
    }

    fn keeper(&mut self) -> KeeperPlace {
        KeeperPlace { term: self.term(), node: self.node() }
    }

    fn term(&mut self) -> KeeperTerm {
        KeeperTerm::new(self.number(), self.0.random_range(0..9))
    }

    fn change_of_nodes(&mut self) -> ViewChange {
        let node = self.node();
        match self.0.random_range(0..6) {
            0 => ViewChange::Drained { node },
            1 => ViewChange::Removed { node },
            2 => ViewChange::Keeper(self.keeper()),
            3 => {
                let keeper = self.keeper();
                ViewChange::Recovered { keeper, lost: self.list(Self::node).into_iter().collect() }
            }
            _ => {
                let start = NonZeroU64::new(self.0.random_range(0..3)).map(StartId::new);
                ViewChange::Known { node, address: self.text(), start }
            }
        }
    }

    /// One that stands for many.
    fn whole(&mut self) -> ViewRecord {
        let latest = self.epoch();
        let mut committed = self.list(Self::committed);
        committed.retain(|decided| decided.epoch > latest);
        let address = self.text();
        let known = |values: &mut Self| {
            let start = NonZeroU64::new(values.0.random_range(0..3)).map(StartId::new);
            (values.node(), KnownNode { address: Arc::clone(&address), start })
        };
        let known = self.list(known).into_iter().collect();
        let closed = |values: &mut Self| (values.node(), (Incarnation::new(values.number()), values.epoch()));
        let whole = WholeView {
            layout: self.view(),
            members: self.lives(),
            placed: self.lives(),
            unclosed: self.lives(),
            newest: self.lives(),
            known,
            drained: self.list(Self::node).into_iter().collect(),
            removed: self.list(Self::node).into_iter().collect(),
            given_up: self.list(Self::node).into_iter().collect(),
            keeper: if self.0.random() { Some(self.keeper()) } else { None },
            recoveries: self.list(|values| (values.view(), values.term())).into_iter().collect(),
            closed: self.list(closed).into_iter().collect(),
            latest,
            committed: committed.into_iter().map(|decided| (decided.epoch, decided)).collect(),
        };
        ViewRecord { number: self.view(), change: ViewChange::Whole(Box::new(whole)) }
    }

    /// Records that follow each other, behind a view.
    fn records_behind(&mut self, after: ViewNumber) -> Vec<ViewRecord> {
        let mut records = self.list(Self::view_record);
        let mut last = after;
        for record in &mut records {
            record.number = last.next();
            last = record.number;
        }
        records
    }

    fn word_of_keeper(&mut self) -> KeeperSays {
        let keeper = self.keeper();
        if self.0.random() {
            return KeeperSays::Ask(keeper);
        }
        let after = self.view();
        let recoveries = self.list(|values| (values.view(), values.term())).into_iter().collect();
        let records = self.records_behind(after);
        KeeperSays::Hold { keeper, after, recoveries, records, settled: self.view() }
    }

    fn word_to_keeper(&mut self) -> HolderSays {
        let body = match self.0.random_range(0..3) {
            0 => {
                let records = self.records_behind(ViewNumber::default());
                let settled = ViewNumber::new(self.0.random_range(0..=records.len() as u64));
                HolderBody::Has { elsewhere: self.term(), settled, records }
            }
            1 => HolderBody::Holds { through: self.view(), settled: self.view() },
            _ => HolderBody::Newer(self.term()),
        };
        HolderSays { from: self.node(), log_since: Incarnation::new(self.number()), to: self.term(), body }
    }

    fn held_record(&mut self) -> HeldRecord {
        match self.0.random_range(0..4) {
            0 => HeldRecord::Since(Incarnation::new(self.number())),
            1 => HeldRecord::Holder(HolderRecord::Promised(self.keeper())),
            2 => {
                let mut records = vec![self.whole()];
                records.extend(self.list(Self::view_record));
                HeldRecord::Holder(HolderRecord::Held(records))
            }
            _ => HeldRecord::Holder(HolderRecord::Settled(self.view())),
        }
    }

    fn frame(&mut self) -> Frame {
        match self.0.random_range(0..14) {
            13 => Frame::Several(self.list(Self::framed_message)),
            12 => Frame::OtherViews(self.term()),
            10 => Frame::Keeper(self.word_of_keeper()),
            11 => Frame::Holder(self.word_to_keeper()),
            0 => Frame::ToKeeper(self.told_to_keeper()),
            1 => {
                let (member, followed) = (self.member(), self.view());
                let recovered = self.term();
                Frame::Alive(Alive { member, followed, recovered, unheard: self.list(Self::node) })
            }
            2 => Frame::Records(self.list(Self::view_record)),
            3 => Frame::Dictionary(self.dictionary_message()),
            _ => Frame::Protocol(self.message()),
        }
    }

    fn framed_message(&mut self) -> FramedMessage {
        let (message, mut bytes) = (self.message(), Vec::new());
        message.put(&mut bytes);
        FramedMessage { message, bytes: bytes.len() }
    }

    fn record(&mut self) -> LogRecord<BrickChange> {
        let epoch = self.epoch();
        match self.0.random_range(0..9) {
            0 => LogRecord::Started(Incarnation::new(self.number())),
            1 => LogRecord::Began(epoch, Incarnation::new(self.number())),
            2 => LogRecord::Append {
                epoch,
                number: self.0.random(),
                brick: self.brick(),
                rows: self.change(epoch),
            },
            3 => {
                let holder = self.member();
                LogRecord::Commit(epoch, self.terms(epoch, holder))
            }
            4 => LogRecord::Cut(epoch),
            5 => LogRecord::Copied { brick: self.brick(), ended: self.set(), rows: self.labelled() },
            6 => LogRecord::Forgotten,
            7 => LogRecord::Safe(epoch),
            _ => LogRecord::Latest(epoch),
        }
    }

    fn dictionary(&mut self) -> DictionaryId {
        DictionaryId { table: self.number(), column: self.0.random() }
    }

    fn text(&mut self) -> Arc<str> {
        Arc::from(["", "a", "Köln", "New York"][self.0.random_range(0..4)])
    }

    fn given(&mut self) -> GivenText {
        GivenText { text: self.text(), layout: self.view() }
    }

    fn code(&mut self) -> Code {
        Code::new(self.0.random())
    }

    fn spelling(&mut self) -> Spelling {
        Spelling { code: self.code(), text: self.text() }
    }

    fn texts(&mut self) -> RowTexts {
        RowTexts { dictionary: self.dictionary(), spellings: self.list(Self::spelling) }
    }

    fn dictionary_message(&mut self) -> DictionaryMessage {
        let number = self.number();
        let after = self.0.random_range(0..3);
        let body = match self.0.random_range(0..5) {
            0 => {
                let purpose = if self.0.random() { Purpose::Give } else { Purpose::Find };
                DictionaryBody::Ask { number, purpose, texts: self.list(Self::text).into() }
            }
            1 => {
                let codes = self.list(|values| values.0.random::<bool>().then(|| values.code()));
                DictionaryBody::Codes { number, codes }
            }
            2 => {
                let previous = (after > 0).then(|| self.view());
                let texts = self.list(Self::given);
                let length = after + u32::try_from(texts.len()).unwrap() + self.0.random_range(0..300);
                DictionaryBody::Give { after, previous, texts, length }
            }
            3 => DictionaryBody::Logged { through: self.0.random() },
            _ => DictionaryBody::Differs { after, have: self.0.random_range(0..=after) },
        };
        let (from, to, layout) = (self.member(), self.member(), self.view());
        DictionaryMessage { from, to, layout, dictionary: self.dictionary(), body }
    }

    fn dictionary_record(&mut self) -> DictionaryRecord {
        let dictionary = self.dictionary();
        if self.0.random() {
            let after = self.0.random();
            DictionaryRecord::Given { dictionary, after, texts: self.list(Self::given) }
        } else {
            DictionaryRecord::Learned { dictionary, spellings: self.list(Self::spelling) }
        }
    }

    fn request(&mut self) -> BrickRequest {
        match self.0.random_range(0..5) {
            0 => {
                let (to, from) = (self.member(), self.member());
                BrickRequest::Copy { to, from, view: self.view(), has: self.list(Self::brick) }
            }
            1 => BrickRequest::Read { view: self.view(), brick: self.brick(), snapshot: self.set() },
            2 => BrickRequest::Share,
            3 => BrickRequest::List { view: self.view(), table: self.number(), snapshot: self.set() },
            _ => BrickRequest::Run {
                view: self.view(),
                table: self.number(),
                bricks: self.list(Self::number),
                snapshot: self.set(),
                order: self.rows(),
            },
        }
    }

    fn share(&mut self) -> BrickShare {
        BrickShare {
            layout: self.view(),
            bricks: self.number(),
            rows: self.number(),
            bytes: self.number(),
            arrived: self.number(),
            gives: self.list(|values| Gift { to: values.node(), bricks: values.number() }),
        }
    }

    fn answer(&mut self) -> BrickAnswer {
        match self.0.random_range(0..10) {
            0 => BrickAnswer::NotNow,
            1 => BrickAnswer::BelowSafe,
            2 => BrickAnswer::Dictionaries(self.list(Self::dictionary)),
            3 => BrickAnswer::Texts(self.texts()),
            4 => BrickAnswer::Bricks(self.list(Self::brick)),
            5 => BrickAnswer::Share(self.share()),
            6 => BrickAnswer::Made(self.rows()),
            7 => BrickAnswer::Running,
            _ => BrickAnswer::Part(BrickPart {
                brick: self.brick(),
                rows: self.labelled(),
                is_last: self.0.random(),
            }),
        }
    }
}

fn values(seed: u64) -> Values {
    Values(StdRng::seed_from_u64(seed))
}

/// A value comes back; every cut of its bytes is refused; what is changed in them is refused, or is another value whose form
/// is those bytes.
fn check<T: Wire + PartialEq + Debug>(value: &T, random: &mut StdRng) {
    let bytes = encode(value);
    assert_eq!(decode::<T>(bytes.clone().into()).as_ref(), Ok(value));
    for cut in 0..bytes.len() {
        let cut = decode::<T>(bytes[..cut].to_vec().into());
        assert!(cut.is_err(), "{value:?} cut is {cut:?}");
    }
    for _ in 0..20 {
        let mut changed = bytes.clone();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..changed.len());
            match random.random_range(0..4) {
                0 => changed[at] = random.random(),
                1 => changed[at] ^= 1 << random.random_range(0..8),
                2 => changed.insert(at, random.random()),
                _ => changed.truncate(at.max(1)),
            }
        }
        if let Ok(other) = decode::<T>(changed.clone().into()) {
            assert_eq!(encode(&other), changed, "{other:?} has two forms");
        }
    }
}

#[test]
fn what_is_written_is_read_and_nothing_else_is() {
    let (mut values, mut random) = (values(1), StdRng::seed_from_u64(2));
    let mut kinds = BTreeSet::new();
    for _ in 0..2_000 {
        let frame = values.frame();
        kinds.extend(frame.counted(0).into_iter().map(|(kind, _)| kind as usize));
        check(&frame, &mut random);
        check(&values.record(), &mut random);
        check(&values.held_record(), &mut random);
        check(&values.dictionary_message(), &mut random);
        check(&values.dictionary_record(), &mut random);
        let records =
            [NodeRecord::Epochs(values.record()), NodeRecord::Dictionaries(values.dictionary_record())];
        records.iter().for_each(|record| check(record, &mut random));
        if let NodeRecord::Epochs(record) = &records[0] {
            assert_eq!(encode(&records[0]), encode(record), "logs of before are read as they were");
        }
        check(&values.request(), &mut random);
        check(&values.answer(), &mut random);
    }
    assert_eq!(kinds.len(), FrameKind::ALL.len(), "all kinds of frames came");
}

#[test]
fn bytes_at_random_are_refused() {
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..50_000 {
        let mut bytes: Vec<u8> = (0..random.random_range(0..60)).map(|_| random.random()).collect();
        if let Some(version) = bytes.first_mut() {
            *version = 1;
        }
        // Few are a value by chance. What matters is that none panics or takes long.
        let _ = decode::<Frame>(bytes.clone().into());
        let _ = decode::<LogRecord<BrickChange>>(bytes.clone().into());
        let _ = decode::<DictionaryMessage>(bytes.clone().into());
        let _ = decode::<DictionaryRecord>(bytes.clone().into());
        let _ = decode::<BrickRequest>(bytes.clone().into());
        let _ = decode::<BrickAnswer>(bytes.into());
    }
}

#[test]
fn lengths_are_not_believed() {
    // Records of the keeper, 2^63 of them.
    let mut bytes = vec![1, 3];
    bytes.extend([0xff; 8]);
    bytes.push(0x7f);
    assert_eq!(decode::<Frame>(bytes.into()), Err(Malformed::Cut));
}

#[test]
fn what_the_protocol_relies_on_is_asked_of_messages() {
    let mut values = values(4);
    let message = |values: &mut Values, body| Message { body, ..values.message() };
    let terms =
        values.terms(Epoch::new(9), Member { node: NodeId::new(1), incarnation: Incarnation::new(1) });
    let mut asked = message(&mut values, Body::Commit(Epoch::new(9), terms));
    asked.to = Member { node: NodeId::new(1), incarnation: Incarnation::new(2) };
    let refused = decode::<Frame>(encode(&Frame::Protocol(asked)).into());
    assert!(matches!(refused, Err(Malformed::Contradiction(_))), "{refused:?}");

    let younger =
        CommittedEpoch { epoch: Epoch::new(9), kind: EpochKind::Load, dependencies: vec![Epoch::new(9)] };
    let decided = message(&mut values, Body::Decided(younger));
    let refused = decode::<Frame>(encode(&Frame::Protocol(decided)).into());
    assert!(matches!(refused, Err(Malformed::Contradiction(_))), "{refused:?}");

    let (epoch, brick) = (Epoch::new(9), values.brick());
    let rows = BrickChange::Delete(EpochSet::through(epoch));
    let delete = message(&mut values, Body::Append { epoch, number: 0, brick, rows });
    let refused = decode::<Frame>(encode(&Frame::Protocol(delete)).into());
    assert!(matches!(refused, Err(Malformed::Contradiction(_))), "{refused:?}");

    let late = message(&mut values, Body::Floor(Epoch::MAX));
    assert_eq!(decode::<Frame>(encode(&Frame::Protocol(late)).into()), Err(Malformed::Range));
}

#[test]
fn what_dictionaries_rely_on_is_asked_of_messages() {
    let mut values = values(5);
    let short = DictionaryBody::Give { after: 0, previous: None, texts: vec![values.given()], length: 0 };
    let endless = DictionaryBody::Give {
        after: u32::MAX,
        previous: Some(values.view()),
        texts: vec![values.given()],
        length: u32::MAX,
    };
    for body in [short, endless, DictionaryBody::Differs { after: 1, have: 2 }] {
        let message = DictionaryMessage { body, ..values.dictionary_message() };
        let refused = decode::<DictionaryMessage>(encode(&message).into());
        assert!(matches!(refused, Err(Malformed::Contradiction(_))), "{refused:?}");
    }
    let text: Result<Arc<str>, Malformed> = decode(Bytes::from_static(&[1, 1, 0xff]));
    assert_eq!(text, Err(Malformed::Contradiction("a text is UTF-8")));
}

#[test]
fn another_version_is_refused_by_its_number() {
    let mut bytes = encode(&Frame::Records(Vec::new()));
    bytes[0] = 2;
    let refused = decode::<Frame>(bytes.into()).unwrap_err();
    assert_eq!(refused.to_string(), "format 2 is not known here");
}

/// The form of version 1 stays as it is.
#[test]
fn the_form_is_the_one_that_was_agreed_on() {
    let member = |node, life| Member { node: NodeId::new(node), incarnation: Incarnation::new(life) };
    let commit = Frame::Protocol(Message {
        from: member(1, 300),
        to: member(2, 7),
        view: ViewNumber::new(5),
        clock: Epoch::new(1_025),
        body: Body::Commit(
            Epoch::new(1_000),
            CommitTerms {
                kind: EpochKind::Load,
                appends: 3,
                dependencies: [Epoch::new(130)].into(),
                holders: [member(2, 7)].into(),
            },
        ),
    });
    let expected = [1, 0, 1, 0xac, 2, 2, 7, 5, 0x81, 8, 2, 0xe8, 7, 0, 3, 1, 0x82, 1, 1, 2, 7];
    assert_eq!(encode(&commit), expected);
    let Frame::Protocol(message) = commit else { panic!("it is one message") };
    let twice = [message.clone(), message].map(|message| FramedMessage { message, bytes: 19 });
    let expected = [&[1, 8, 1][..], &expected[2..], &[1][..], &expected[2..], &[0][..]].concat();
    assert_eq!(decode::<Frame>(expected.into()), Ok(Frame::Several(twice.into())));
    let copied = LogRecord::Copied {
        brick: BrickAddress { table: 1, brick: 2 },
        ended: EpochSet::through(Epoch::new(300)).without([Epoch::new(4), Epoch::new(200)]),
        rows: vec![(Epoch::new(5), BrickChange::Rows(Bytes::from_static(b"ab")))],
    };
    assert_eq!(encode(&copied), [1, 5, 1, 2, 0xac, 2, 2, 4, 0xc4, 1, 1, 5, 0, 2, b'a', b'b']);
    let given = DictionaryMessage {
        from: member(1, 300),
        to: member(2, 7),
        layout: ViewNumber::new(5),
        dictionary: DictionaryId { table: 1, column: 4 },
        body: DictionaryBody::Give {
            after: 2,
            previous: Some(ViewNumber::new(3)),
            texts: vec![GivenText { text: Arc::from("ab"), layout: ViewNumber::new(5) }],
            length: 3,
        },
    };
    let expected = [1, 1, 0xac, 2, 2, 7, 5, 1, 4, 2, 2, 3, 1, 2, b'a', b'b', 5, 3];
    assert_eq!(encode(&given), expected);
}

/// Texts are beside rows that are sent, and with those that are logged there are none: records of dictionaries have them.
#[test]
fn texts_go_with_what_is_appended_and_not_into_logs() {
    let member = |node, life| Member { node: NodeId::new(node), incarnation: Incarnation::new(life) };
    let (epoch, brick) = (Epoch::new(1_000), BrickAddress { table: 1, brick: 2 });
    let spellings = vec![Spelling { code: Code::new(3), text: Arc::from("cd") }];
    let texts = RowTexts { dictionary: DictionaryId { table: 1, column: 4 }, spellings };
    let rows = Bytes::from_static(b"ab");
    let spelled = BrickChange::SpelledRows(rows.clone(), [texts.clone()].into());
    let appended = Frame::Protocol(Message {
        from: member(1, 300),
        to: member(2, 7),
        view: ViewNumber::new(5),
        clock: Epoch::new(1_025),
        body: Body::Append { epoch, number: 0, brick, rows: spelled.clone() },
    });
    let head = [1, 0, 1, 0xac, 2, 2, 7, 5, 0x81, 8, 1, 0xe8, 7, 0, 1, 2];
    let change = [2, 2, b'a', b'b', 1, 1, 4, 1, 3, 2, b'c', b'd'];
    assert_eq!(encode(&appended), [&head[..], &change[..]].concat());
    assert_eq!(encode(&BrickAnswer::Texts(texts)), [1, 4, 1, 4, 1, 3, 2, b'c', b'd']);

    let logged = |rows| encode(&LogRecord::Append { epoch, number: 0, brick, rows });
    assert_eq!(logged(spelled), logged(BrickChange::Rows(rows)));
}

#[test]
fn what_a_node_has_is_written_as_it_was() {
    let gives = vec![Gift { to: NodeId::new(3), bricks: 4 }];
    let share = BrickShare { layout: ViewNumber::new(5), bricks: 7, rows: 300, bytes: 9, arrived: 2, gives };
    assert_eq!(encode(&BrickRequest::Share), [1, 3]);
    assert_eq!(encode(&BrickAnswer::Share(share)), [1, 6, 5, 7, 0xac, 2, 9, 2, 1, 3, 4]);
}

#[test]
fn texts_in_parts_are_all_of_them() {
    let dictionary = DictionaryId { table: 1, column: 4 };
    let text: Arc<str> = Arc::from("x".repeat(PART_BYTES / 2));
    let spelling = |code| Spelling { code: Code::new(code), text: Arc::clone(&text) };
    let whole = RowTexts { dictionary, spellings: (0..3).map(spelling).collect() };
    let parts = parts_of_texts(whole.clone());
    assert_eq!(parts.len(), 3);
    let together: Vec<Spelling> = parts.into_iter().flat_map(|part| part.spellings).collect();
    assert_eq!(together, whole.spellings);
    assert!(parts_of_texts(RowTexts { dictionary, spellings: Vec::new() }).is_empty());
}

#[test]
fn a_brick_in_parts_is_put_together_again() {
    let brick = BrickAddress { table: 1, brick: 2 };
    let batch = BrickChange::Rows(vec![7; PART_BYTES / 2 + 1].into());
    let rows: Vec<_> = (1..=5).map(|epoch| (Epoch::new(epoch), batch.clone())).collect();
    let parts = parts_of(brick, rows.clone());
    assert_eq!(parts.len(), 5);
    let mut assembly = PartAssembly::default();
    let mut whole: Vec<_> = parts.into_iter().filter_map(|part| assembly.add(part).unwrap()).collect();
    assert_eq!(whole.pop(), Some((brick, rows)));
    assert!(whole.is_empty() && assembly.is_complete());
    assert_eq!(parts_of(brick, Vec::new()).len(), 1, "an empty brick is given too");

    let mut assembly = PartAssembly::default();
    let part = |brick, is_last| BrickPart { brick, rows: Vec::new(), is_last };
    assert_eq!(assembly.add(part(brick, false)), Ok(None));
    assert!(!assembly.is_complete());
    assert!(assembly.add(part(BrickAddress { table: 1, brick: 3 }, true)).is_err());
}
