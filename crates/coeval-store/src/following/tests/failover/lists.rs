// SPDX-License-Identifier: Apache-2.0
//! Clients that append to lists and read them, on all machines, over failovers: the history is serializable, and strict as to
//! tokens. What was acknowledged stays, and what was not is there as a whole or not at all.
//!
//! - On whoever takes commits: transactions at SERIALIZABLE, several open at once, that read some lists and append to some.
//! - Declared read-only ones: on replicas on their safe snapshots, on primaries on these or on the current world.
//! - Some begin with the token of an acknowledged commit, or of a snapshot that another one has read: what the product's
//!   `coeval.wait_for_token` waits for has come, or they do not begin.
//!
//! A list is a row whose value is a text. The rules are switched off one by one, and an anomaly is seen.

use super::Store;
use super::cluster::{Broken, Clients, Cluster, Counts, Node, is_acknowledged};
use super::history::{Ending, History, List, Value};
use crate::catalog::{CatalogChange, ColumnDef, QualifiedName, TableDef};
use crate::error::StoreError;
use crate::id_value::key;
use crate::key::Key;
use crate::log::Lsn;
use crate::range::{Direction, KeyRange};
use crate::row::{Row, RowWriter};
use crate::terms::Term;
use crate::transaction::{AccessMode, Transaction};
use crate::types::ColumnType;
use crate::value::ValueRef;
use crate::world::World;
use coeval_txn::ssi::SessionFloor;
use coeval_txn::{Isolation, Version};
use rand::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const LISTS: List = 8;

/// So many transactions may be open at one machine.
const SESSIONS: usize = 4;

/// So many tokens are kept for others.
const TOKENS: usize = 6;

/// A rule of readers or writers that is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    AllKept,
    /// A replica answers with the newest world that it shows.
    NewestWorld,
    /// A replica answers with the world of the boundary, without those beyond it that come before somebody within.
    WithoutMembers,
    /// Nobody waits for what a token stands for.
    TokensIgnored,
    /// Whoever writes is not certified for serializability.
    NotCertified,
}

/// Stands for a snapshot, as the product's tokens do.
#[derive(Clone, Copy, Debug)]
struct Token {
    term: Term,
    end: Lsn,
    version: Version,
    /// Whose it is.
    of: usize,
}

impl Token {
    /// Of a snapshot of this version.
    fn of(store: &Store, version: Version, of: usize) -> Option<Self> {
        let (end, term) = store.end_of_snapshot(version)?;
        Some(Self { term, end, version, of })
    }

    /// Whether plain readers see it here. An error of the product, where a failover has lost what it may stand for, is none.
    fn is_shown(&self, store: &Store) -> bool {
        let terms = store.terms();
        let is_known = terms.terms().iter().any(|term| term.id == self.term.id);
        let last = terms.last().map_or(0, |term| term.number);
        if !is_known && last < self.term.number {
            return false;
        }
        terms.check_follower(Some(self.term.id), self.end).is_ok()
            && (!store.is_following() || store.shown_position().is_some_and(|shown| shown >= self.end))
    }
}

/// See the module.
pub(super) struct Lists {
    rule: Rule,
    history: History,
    tokens: VecDeque<Token>,
    next: Value,
    /// What was read on replicas, of it with tokens, and how many tokens had not come.
    on_replicas: usize,
    with_tokens: usize,
    not_yet: usize,
}

/// What is open at one machine.
#[derive(Default)]
pub(super) struct Open {
    sessions: [Option<Session>; SESSIONS],
    waiting: Vec<(Version, usize)>,
    /// The worlds that a replica has shown, for those who break rules.
    worlds: BTreeMap<Version, Arc<World>>,
}

/// A transaction that is open.
struct Session {
    transaction: Transaction,
    /// In the history.
    index: usize,
    own: Vec<(List, Value)>,
}

fn def_of(world: &World) -> Option<TableDef> {
    world.tables().next().map(|table| (**table.def()).clone())
}

fn row(def: &TableDef, list: List, values: &[Value]) -> Row {
    let text: Vec<_> = values.iter().map(Value::to_string).collect();
    let mut writer = RowWriter::new(def.layout());
    writer.push(ValueRef::Int32(list)).unwrap();
    writer.push(ValueRef::Text(&text.join(" "))).unwrap();
    writer.finish()
}

fn values(text: ValueRef<'_>) -> Vec<Value> {
    text.as_str().unwrap().split(' ').map(|value| value.parse().unwrap()).collect()
}

/// All lists of a world.
fn lists_of(world: &World) -> BTreeMap<List, Vec<Value>> {
    let Some(table) = world.tables().next() else { return BTreeMap::new() };
    let found = (0..LISTS).filter_map(|list| {
        let row = table.get(&key(list)).unwrap()?;
        Some((list, values(row.get(1))))
    });
    found.collect()
}

/// How a list is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ByKey,
    /// Among all.
    ByWalk,
}

/// A list as a transaction sees it.
fn read(transaction: &Transaction, def: &TableDef, list: List, way: Way) -> Vec<Value> {
    let wanted: Key = key(list);
    if way == Way::ByWalk {
        let rows = transaction.scan(def.id, &KeyRange::all(), Direction::Forward).unwrap();
        let mut found = rows.map(Result::unwrap).filter(|(key, _)| *key == wanted);
        return found.next().map(|(_, row)| values(row.get(1))).unwrap_or_default();
    }
    transaction.get(def.id, &wanted).unwrap().map(|row| values(row.get(1))).unwrap_or_default()
}

impl Clients for Lists {
    const CALM: u32 = 80;
    const STEPS: usize = 6_000;

    type Open = Open;

    fn prepare(store: &Store) {
        let columns = vec![ColumnDef::new("id", ColumnType::Int), ColumnDef::new("list", ColumnType::Text)];
        let name = QualifiedName::new("public", "lists");
        let def = TableDef::new(store.new_space_id(), name, columns, vec![0]);
        let mut tx = store.begin(Isolation::Snapshot, AccessMode::ReadWrite);
        tx.change_catalog(CatalogChange::PutTable(Box::new(def))).unwrap();
        tx.commit().unwrap();
    }

    fn act(cluster: &mut Cluster<Self>) {
        for _ in 0..cluster.dice.random_range(1..5) {
            let node = cluster.any_node();
            if !cluster.node(node).is_primary() && cluster.dice.random_bool(0.3) {
                cluster.read_on_replica(node);
            } else if let Some(node) = cluster.any_writable() {
                cluster.go_on_at(node);
            }
        }
    }

    fn acknowledge(cluster: &mut Cluster<Self>) {
        let Some(node) = cluster.any_writable() else { return };
        let at = cluster.node_mut(node);
        let store = at.store.clone();
        let (told, waiting): (Vec<_>, _) = std::mem::take(&mut at.open.waiting)
            .into_iter()
            .partition(|(version, _)| is_acknowledged(&store, *version));
        at.open.waiting = waiting;
        for (_, index) in told {
            cluster.clients.history.transactions[index].ending = Ending::Acknowledged;
            cluster.clients.give_token(&store, store.world().version(), index);
        }
    }

    fn look(cluster: &mut Cluster<Self>) {
        if cluster.clients.rule != Rule::WithoutMembers {
            return;
        }
        for node in 0..cluster.node_count() {
            let world = cluster.node(node).store.world();
            cluster.node_mut(node).open.worlds.insert(world.version(), world);
        }
    }

    fn look_for_losses(cluster: &mut Cluster<Self>, behind: &str) {
        let world = cluster.node(cluster.current).store.shared.applied();
        if let Some(anomaly) = cluster.clients.history.anomaly(&lists_of(&world)) {
            cluster.lost = Some(format!("behind {behind}: {anomaly}"));
        }
    }
}

impl Lists {
    pub(super) fn new(rule: Rule) -> Self {
        let (history, tokens) = Default::default();
        Self { rule, history, tokens, next: 0, on_replicas: 0, with_tokens: 0, not_yet: 0 }
    }

    fn give_token(&mut self, store: &Store, version: Version, of: usize) {
        self.tokens.extend(Token::of(store, version, of));
        if self.tokens.len() > TOKENS {
            self.tokens.pop_front();
        }
    }
}

impl Cluster<Lists> {
    /// A token that somebody begins with at this machine, if any. None if what it stands for has not come.
    fn token_at(&mut self, node: usize) -> Option<Option<Token>> {
        if self.clients.tokens.is_empty() || self.dice.random_bool(0.5) {
            return Some(None);
        }
        let token = self.clients.tokens[self.dice.random_range(0..self.clients.tokens.len())];
        if self.clients.rule == Rule::TokensIgnored || token.is_shown(&self.node(node).store) {
            return Some(Some(token));
        }
        self.clients.not_yet += 1;
        None
    }

    /// What a session that begins with a token must find.
    fn floor(&self, token: Option<Token>) -> SessionFloor {
        let mut floor = SessionFloor::default();
        if let Some(token) = token.filter(|_| self.clients.rule != Rule::TokensIgnored) {
            floor.note_snapshot(token.version);
        }
        floor
    }

    fn lets_in(&self, node: usize) -> bool {
        self.node(node).store.has_confirmed() || self.broken == Broken::Unconfirmed
    }

    /// A declared read-only transaction at SERIALIZABLE, which reads some lists.
    fn read_on_replica(&mut self, node: usize) {
        if !self.lets_in(node) {
            return;
        }
        let Some(token) = self.token_at(node) else { return };
        let Node { store, open, .. } = self.node(node);
        let safe = store.begin_safe(&self.floor(token));
        let (world, version) = match (self.clients.rule, safe) {
            (Rule::NewestWorld, _) => (store.world(), store.world().version()),
            (Rule::WithoutMembers, Some(safe)) => match open.worlds.get(&safe.begin_version()) {
                Some(world) => (Arc::clone(world), world.version()),
                None => return,
            },
            (_, Some(safe)) => (Arc::clone(safe.world()), safe.begin_version()),
            (_, None) => {
                self.clients.not_yet += usize::from(token.is_some());
                return;
            }
        };
        self.clients.on_replicas += 1;
        self.clients.with_tokens += usize::from(token.is_some());
        self.note_read(node, token, &world, version);
    }

    /// Notes what a read-only transaction has read of a world.
    fn note_read(&mut self, node: usize, token: Option<Token>, world: &World, version: Version) {
        if def_of(world).is_none() {
            return;
        }
        let (store, current) = (&self.node(node).store, self.current);
        let role = if self.node(node).is_primary() { "primary" } else { "replica" };
        let (shown, timeline) = (store.world().version(), store.terms().timeline());
        let what = format!(
            "{role} {node} in timeline {timeline} at {version}, shows {shown}, while {current} is the primary"
        );
        let index = self.clients.history.begin(what, token.map(|token| token.of));
        let lists = lists_of(world);
        let chosen: Vec<_> = (0..LISTS).filter(|_| self.dice.random_bool(0.7)).collect();
        let transaction = &mut self.clients.history.transactions[index];
        transaction.reads =
            chosen.into_iter().map(|list| (list, lists.get(&list).cloned().unwrap_or_default())).collect();
        transaction.ending = Ending::Acknowledged;
        let store = self.node(node).store.clone();
        self.clients.give_token(&store, version, index);
    }

    /// One of the sessions at a primary begins a transaction, or goes on with it.
    fn go_on_at(&mut self, node: usize) {
        let place = self.dice.random_range(0..SESSIONS);
        let Some(session) = self.node_mut(node).open.sessions[place].take() else {
            self.begin_at(node, place);
            return;
        };
        let session = match self.dice.random_range(0..10) {
            0..4 => Some(self.read_in(session)),
            4..7 => self.append_in(session),
            7..9 => {
                self.commit_at(node, session);
                None
            }
            _ => (self.dice.random_bool(0.7)).then_some(session),
        };
        self.node_mut(node).open.sessions[place] = session;
    }

    fn begin_at(&mut self, node: usize, place: usize) {
        if !self.lets_in(node) {
            return;
        }
        let Some(token) = self.token_at(node) else { return };
        let is_reader = self.dice.random_bool(0.3);
        let store = self.node(node).store.clone();
        if is_reader
            && self.dice.random_bool(0.5)
            && let Some(safe) = store.begin_safe(&self.floor(token))
        {
            self.note_read(node, token, safe.world(), safe.begin_version());
            return;
        }
        let certified = self.clients.rule != Rule::NotCertified;
        let isolation = if certified { Isolation::Serializable } else { Isolation::Snapshot };
        let mode = if is_reader { AccessMode::ReadOnly } else { AccessMode::ReadWrite };
        // Who is given nothing before the end may begin on what is not published yet, and loses less often.
        let mut transaction = if !is_reader && self.dice.random_bool(0.7) {
            store.begin_applied(isolation)
        } else {
            store.begin(isolation, mode)
        };
        if def_of(transaction.world()).is_none() {
            return;
        }
        if !is_reader {
            store.set_synchronous_commit(&mut transaction, self.level);
        }
        let what = format!("{mode:?} on node {node} from {}", transaction.begin_version());
        let index = self.clients.history.begin(what, token.map(|token| token.of));
        self.node_mut(node).open.sessions[place] = Some(Session { transaction, index, own: Vec::new() });
    }

    fn read_in(&mut self, session: Session) -> Session {
        let list = self.dice.random_range(0..LISTS);
        let way = if self.dice.random_ratio(1, 4) { Way::ByWalk } else { Way::ByKey };
        let def = def_of(session.transaction.world()).expect("it was there at the beginning");
        let found = read(&session.transaction, &def, list, way);
        self.note_list(&session, list, found);
        session
    }

    /// Notes what a list was before the transaction's own appends, which are found at its end.
    fn note_list(&mut self, session: &Session, list: List, mut found: Vec<Value>) {
        let own: Vec<_> = session.own.iter().filter(|(to, _)| *to == list).map(|(_, value)| *value).collect();
        assert!(found.ends_with(&own), "{found:?} without {own:?}");
        found.truncate(found.len() - own.len());
        self.clients.history.transactions[session.index].reads.push((list, found));
    }

    /// Appends to a list. None if that is refused: the transaction is rolled back.
    fn append_in(&mut self, mut session: Session) -> Option<Session> {
        if session.transaction.is_read_only() {
            return Some(session);
        }
        let list = self.dice.random_range(0..LISTS);
        let def = def_of(session.transaction.world()).expect("it was there at the beginning");
        let mut found = read(&session.transaction, &def, list, Way::ByKey);
        self.note_list(&session, list, found.clone());
        found.push(self.clients.next);
        session.transaction.put(def.id, row(&def, list, &found)).ok()?;
        session.own.push((list, self.clients.next));
        self.clients.history.transactions[session.index].appends.push((list, self.clients.next));
        self.clients.next += 1;
        Some(session)
    }

    fn commit_at(&mut self, node: usize, session: Session) {
        let Session { transaction, index, .. } = session;
        let ending = match transaction.commit_applied() {
            Ok(committed) => {
                self.node_mut(node).open.waiting.push((committed.version, index));
                Ending::Unknown
            }
            Err(StoreError::Conflict(_)) => Ending::RolledBack,
            Err(_) => Ending::Unknown,
        };
        self.clients.history.transactions[index].ending = ending;
    }
}

/// Runs a seed. What is wrong with its history, and whether the product has stopped by itself.
fn run(seed: u64, broken: Broken, rule: Rule) -> (Cluster<Lists>, bool) {
    let mut cluster = Cluster::new(seed, broken, Lists::new(rule));
    let outcome = catch_unwind(AssertUnwindSafe(|| cluster.run()));
    if outcome.is_ok() && cluster.lost.is_none() {
        Lists::look_for_losses(&mut cluster, "everything");
    }
    (cluster, outcome.is_err())
}

/// So many seeds, from 0 on; `COEVAL_LIST_FAILOVERS` asks for more, `COEVAL_LIST_FAILOVERS_FROM` for others.
const SEEDS: u64 = 40;

fn asked_for(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

#[test]
fn histories_over_failovers_are_serializable_and_strict_with_tokens() {
    let first = asked_for("COEVAL_LIST_FAILOVERS_FROM").unwrap_or(0);
    let seeds = asked_for("COEVAL_LIST_FAILOVERS").unwrap_or(SEEDS);
    let (mut counts, mut acknowledged, mut on_replicas) = (Counts::default(), 0, 0);
    let (mut refused, mut with_tokens, mut not_yet) = (0, 0, 0);
    for seed in first..first.saturating_add(seeds) {
        let (cluster, has_stopped) = run(seed, Broken::Nothing, Rule::AllKept);
        assert!(!has_stopped, "seed {seed}");
        assert_eq!(cluster.lost, None, "seed {seed}");
        assert_eq!(cluster.two_terms, None, "seed {seed}");
        counts += cluster.counts;
        let transactions = &cluster.clients.history.transactions;
        let writers = transactions.iter().filter(|transaction| !transaction.appends.is_empty());
        for writer in writers {
            acknowledged += usize::from(writer.ending == Ending::Acknowledged);
            refused += usize::from(writer.ending == Ending::RolledBack);
        }
        on_replicas += cluster.clients.on_replicas;
        with_tokens += cluster.clients.with_tokens;
        not_yet += cluster.clients.not_yet;
    }
    println!(
        "{seeds} seeds from {first} on: {acknowledged} acknowledged, {refused} rolled back, {on_replicas} read on replicas, {with_tokens} of \
         them with tokens, {not_yet} tokens had not come, {counts:?}"
    );
    if seeds < SEEDS {
        // What follows are averages.
        return;
    }
    let seeds = seeds as usize;
    assert!(counts.failovers > seeds && counts.again > seeds, "too little has happened");
    assert!(acknowledged > 10 * seeds && refused > seeds, "too little was written");
    assert!(on_replicas > 20 * seeds && with_tokens > 5 * seeds && not_yet > seeds, "too little was read");
}

#[test]
fn each_rule_that_is_not_kept_gives_an_anomaly() {
    let rules = [
        (Broken::Nothing, Rule::NewestWorld, 0),
        (Broken::Nothing, Rule::WithoutMembers, 0),
        (Broken::Nothing, Rule::TokensIgnored, 0),
        (Broken::Nothing, Rule::NotCertified, 0),
        (Broken::UnsafeBoundary, Rule::AllKept, 158),
        (Broken::Unconfirmed, Rule::AllKept, 0),
    ];
    // Seeds are tried from the one on that has shown it last: a change of what a store does moves that.
    for (broken, rule, from) in rules {
        // A replica that is told too much may find out by itself, and stops; it is seen in a history as well.
        let found = (from..from + 400).find(|seed| run(*seed, broken, rule).0.lost.is_some());
        println!("{broken:?}, {rule:?}: an anomaly with seed {found:?}");
        assert!(found.is_some(), "{broken:?}, {rule:?}: no anomaly");
    }
}
