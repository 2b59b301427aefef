// SPDX-License-Identifier: Apache-2.0
//! A cluster of real servers that are killed, stand still and lose their connections, under loads and dashboards through all of them.
//!
//! In each round one thing goes wrong ([`FAULTS`]): with a replica, or with the primary of row tables, which has the keeper of views; and now and
//! then another node is promoted, and the former primary comes back as a replica of that. All the while
//!
//! - every snapshot of a declared session shows whole loads and nothing else, the same when it looks again, no load without the row that was
//!   committed before it, no row without the load that it is one transaction with, and never less than the session has seen before;
//!
//! and behind each round, and while one node is still gone,
//!
//! - all that was acknowledged before is there.
//!
//! At the end all nodes show the same, each load that was acknowledged exactly once and none that was refused, and `coeval cluster check`
//! finds that all replicas of all bricks have the same rows; then one node is killed for good, and nothing is missing.
//!
//! `COEVAL_CLUSTER_KILLS` says how many rounds, half of them with three nodes and half with five; a few with three if it is not given.
//!
//! To break it, and by what it is to be seen:
//!
//! | what is broken | by what |
//! |---|---|
//! | `Incoming::fetch` leaves out the last part of what it gives | snapshots with a part of a load; `coeval cluster check` |
//! | `Engine::once_logged` releases all at once | a load that was acknowledged is gone when all are killed |
//! | `OwnNode::ages` gives nothing | a load without the row from before it |
//! | `rows_of` in `serve/cluster.rs` gives `RowTransactions::default()` | a row without its load, behind a primary that was killed |
//! | `unanswered_max` leaves out `lost` | loads are gone, or a part of one, while a node is |
//! | `run` in `serve/cluster.rs` starts each keeper in term 1 | the term that the keeper says behind a promotion |
//! | `Silence::silent` finds nobody | the others do not go on without a node that is gone |
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;
#[path = "cluster_kills/dashboards.rs"]
mod dashboards;
#[path = "cluster_kills/ledger.rs"]
mod ledger;
#[path = "cluster_kills/loads.rs"]
mod loads;
#[path = "cluster_kills/nodes.rs"]
mod nodes;
#[path = "cluster_kills/proxy.rs"]
mod proxy;
#[path = "cluster_kills/session.rs"]
mod session;

use ledger::Ledger;
use nodes::Nodes;
use proxy::Way;
use std::collections::BTreeSet;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Longest wait for something that has to come.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than the others wait for a node of which they hear nothing.
const AWAY: Duration = Duration::from_millis(4_500);
/// Loads between rounds, and while a node is gone.
const LOADS: usize = 20;
/// Rounds that are run if nothing is said.
const ROUNDS: usize = 5;

/// All numbers of loads that a statement outside blocks shows.
const NUMBERS: &str = "SELECT DISTINCT batch::text FROM hits";
/// All numbers of rows.
const ANNOUNCED: &str = "SELECT batch::text FROM announced";

/// What goes wrong in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// A replica is killed, and comes back when the others have gone on without it.
    ReplicaKilled,
    /// The primary is killed, and another node promoted. The former primary comes back as a replica.
    Promoted,
    /// A replica stands still for longer than the others wait.
    ReplicaStopped,
    /// The primary is killed, and started again.
    PrimaryKilled,
    /// Nobody reaches a replica, which reaches the others.
    ReplicaUnreached,
    /// The primary stands still, and another node is promoted; then it goes on as if nothing had been, and is told.
    PromotedBesideStopped,
    /// All connections between nodes are cut, several times.
    Cut,
    /// All nodes are killed.
    AllKilled,
    /// Nothing comes to the primary any more, and its connections stay.
    PrimaryStalled,
    /// The primary stands still, and goes on as such.
    PrimaryStopped,
}

/// In the order of the rounds.
const FAULTS: [Fault; 10] = [
    Fault::ReplicaKilled,
    Fault::Promoted,
    Fault::ReplicaStopped,
    Fault::PrimaryKilled,
    Fault::ReplicaUnreached,
    Fault::PromotedBesideStopped,
    Fault::Cut,
    Fault::AllKilled,
    Fault::PrimaryStalled,
    Fault::PrimaryStopped,
];

/// Nodes with their clients.
struct Trial {
    nodes: Nodes,
    ledger: Ledger,
    stop_loads: Arc<AtomicBool>,
    stop_dashboards: Arc<AtomicBool>,
    loads: Vec<JoinHandle<()>>,
    dashboards: Vec<JoinHandle<()>>,
}

impl Trial {
    fn start(count: usize, replicas: usize) -> Self {
        let (nodes, ledger) = (Nodes::start(count, replicas), Ledger::default());
        for table in loads::TABLES {
            nodes.ask(1, table).unwrap();
        }
        for number in nodes.numbers() {
            nodes.until(number, "SELECT count(*) FROM hits, announced", "0");
        }
        let (stop_loads, stop_dashboards) = (Arc::default(), Arc::default());
        let at = nodes.addresses();
        let loads = loads::begin(&at, &stop_loads, &ledger);
        let dashboards = dashboards::begin(&at, &stop_dashboards, &ledger);
        Self { nodes, ledger, stop_loads, stop_dashboards, loads, dashboards }
    }

    fn acknowledged(&self) -> BTreeSet<u64> {
        self.ledger.told().acknowledged.clone()
    }

    #[track_caller]
    fn nothing_is_broken(&self) {
        let broken = self.ledger.told().broken.clone();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    /// Waits until some loads more are acknowledged.
    #[track_caller]
    fn until_more(&self) {
        let count = || self.ledger.told().acknowledged.len();
        let (begun, wanted) = (Instant::now(), count() + LOADS);
        while count() < wanted {
            self.nothing_is_broken();
            assert!(begun.elapsed() < PATIENCE, "loads are not acknowledged any more");
            sleep(Duration::from_millis(20));
        }
    }

    /// Waits until these nodes show all of these loads.
    #[track_caller]
    fn all_show(&self, query: &str, numbers: &[usize], wanted: &BTreeSet<u64>) {
        for number in numbers {
            let begun = Instant::now();
            loop {
                let found = dashboards::numbers_of(self.nodes.at(*number), query);
                let lacking = found.map(|found| {
                    let found: BTreeSet<u64> = found.into_iter().collect();
                    wanted.difference(&found).copied().collect::<Vec<_>>()
                });
                if lacking.as_ref().is_ok_and(Vec::is_empty) {
                    break;
                }
                let is_long = begun.elapsed() >= PATIENCE;
                assert!(
                    !is_long,
                    "node {number} does not show by {query} what was acknowledged: {lacking:?}"
                );
                sleep(Duration::from_millis(50));
            }
        }
    }

    /// What holds while one node is gone: the others go on, and have all.
    fn others_have_all(&self, others: &[usize], before: &BTreeSet<u64>) {
        self.nodes.until_live_for(others, others.len());
        self.all_show(NUMBERS, others, before);
        self.until_more();
    }

    /// A replica that is another one from round to round.
    fn replica(&self, round: usize) -> usize {
        let replicas = self.nodes.but(self.nodes.primary);
        replicas[(round + round / FAULTS.len()) % replicas.len()]
    }

    fn go_through(&mut self, round: usize) {
        self.until_more();
        let (fault, begun) = (FAULTS[round % FAULTS.len()], Instant::now());
        let (primary, replica) = (self.nodes.primary, self.replica(round));
        let before = self.acknowledged();
        match fault {
            Fault::ReplicaKilled => {
                self.nodes.kill(replica);
                self.others_have_all(&self.nodes.but(replica), &before);
                self.nodes.serve(replica);
            }
            Fault::ReplicaStopped => {
                self.nodes.signal(replica, "-STOP");
                self.others_have_all(&self.nodes.but(replica), &before);
                self.nodes.signal(replica, "-CONT");
            }
            Fault::PrimaryKilled => {
                self.nodes.kill(primary);
                self.nodes.serve(primary);
            }
            Fault::PrimaryStopped => {
                self.nodes.signal(primary, "-STOP");
                sleep(AWAY);
                self.nodes.signal(primary, "-CONT");
            }
            Fault::ReplicaUnreached => self.lead_wrong(replica, Way::Closed),
            Fault::PrimaryStalled => self.lead_wrong(primary, Way::Stalled),
            Fault::Promoted | Fault::PromotedBesideStopped => self.promote(fault, &before),
            Fault::Cut => (0..3).for_each(|_| {
                self.nodes.cut_all();
                sleep(AWAY / 6);
            }),
            Fault::AllKilled => {
                self.nodes.numbers().for_each(|number| self.nodes.kill(number));
                self.nodes.serve(primary);
                self.nodes.but(primary).into_iter().for_each(|number| self.nodes.serve(number));
            }
        }
        self.all_is_well();
        let (told, seconds) = (self.ledger.told(), begun.elapsed().as_secs_f32());
        println!(
            "round {round}, {fault:?}: {seconds:.1} s; {} loads acknowledged, {} refused, {} looks",
            told.acknowledged.len(),
            told.refused.len(),
            told.looks
        );
    }

    /// Has connections to a node go this way for longer than the others wait.
    fn lead_wrong(&self, number: usize, way: Way) {
        self.nodes.set_way(number, way);
        sleep(AWAY);
        self.nodes.set_way(number, Way::Open);
    }

    /// Another node becomes the primary, and has the keeper of views; the former one comes back as a replica.
    fn promote(&mut self, fault: Fault, before: &BTreeSet<u64>) {
        let former = self.nodes.primary;
        let others = self.nodes.but(former);
        let (said, term) = (self.nodes.said(former), self.nodes.keeper_term(former));
        if fault == Fault::Promoted {
            self.nodes.kill(former);
        } else {
            self.nodes.signal(former, "-STOP");
        }
        self.nodes.promote_one_of(&others);
        self.nodes.until_the_keeper_is_there(&others);
        self.nodes.until_the_keeper_is_of_a_term_behind(term);
        self.others_have_all(&others, before);
        if fault != Fault::Promoted {
            self.nodes.signal(former, "-CONT");
            self.nodes.until_said(former, said, "takes no commits any more");
            self.nodes.stop(former);
        }
        self.nodes.serve(former);
    }

    /// All nodes take part, the keeper is where it belongs, and all that was acknowledged is seen on all nodes, also beside rows.
    fn all_is_well(&self) {
        let numbers: Vec<usize> = self.nodes.numbers().collect();
        self.nodes.until_live(numbers.len());
        self.nodes.until_the_keeper_is_there(&numbers);
        let acknowledged = self.acknowledged();
        self.all_show(NUMBERS, &numbers, &acknowledged);
        self.all_show(&dashboards::declared(&[NUMBERS.to_owned()]), &numbers, &acknowledged);
        self.nothing_is_broken();
    }

    fn end(mut self) {
        self.until_more();
        self.stop_loads.store(true, Ordering::Relaxed);
        self.loads.drain(..).for_each(|client| client.join().unwrap());
        self.all_is_well();
        let shown = self.all_agree();
        self.stop_dashboards.store(true, Ordering::Relaxed);
        self.dashboards.drain(..).for_each(|client| client.join().unwrap());
        self.nothing_is_broken();
        self.told_right(&shown);
        self.replicas_agree(&shown);
        // One node less, for good.
        let gone = self.replica(shown.len());
        self.nodes.kill(gone);
        let others = self.nodes.but(gone);
        self.nodes.until_live_for(&others, others.len());
        self.all_show(NUMBERS, &others, &shown);
        // Where it is not asked for anything any more, it is whole all the same. Whoever stops last would wait for the others.
        self.nodes.serve(gone);
        self.all_is_well();
        let primary = self.nodes.primary;
        self.nodes.stop(primary);
        self.nodes.but(primary).into_iter().for_each(|number| self.nodes.stop(number));
        for number in self.nodes.numbers() {
            succeeds(&self.nodes.run(&["check"], number));
        }
    }

    /// Waits until all nodes show the same loads, in and outside of blocks; these.
    fn all_agree(&self) -> BTreeSet<u64> {
        let declared = dashboards::declared(&[NUMBERS.to_owned()]);
        let begun = Instant::now();
        loop {
            let asked =
                self.nodes.addresses().into_iter().flat_map(|at| [(at, NUMBERS), (at, declared.as_str())]);
            let shown: Vec<_> = asked.map(|(at, query)| dashboards::numbers_of(at, query)).collect();
            let first = shown[0].clone().unwrap_or_default();
            let sorted = |numbers: &[u64]| numbers.iter().copied().collect::<BTreeSet<u64>>();
            let is_same = |other: &Vec<u64>| sorted(other) == sorted(&first);
            if shown.iter().all(|other| other.as_ref().is_ok_and(is_same)) {
                return sorted(&first);
            }
            assert!(begun.elapsed() < PATIENCE, "nodes show different loads: {shown:?}");
            sleep(Duration::from_millis(100));
        }
    }

    /// What is there in the end fits all that clients were told, and is whole on every node.
    fn told_right(&self, shown: &BTreeSet<u64>) {
        let told = self.ledger.told().clone();
        let lost: Vec<_> = told.acknowledged.difference(shown).collect();
        let back: Vec<_> = told.refused.intersection(shown).collect();
        let strange: Vec<_> = shown.difference(&told.asked).collect();
        assert!(lost.is_empty(), "were acknowledged, and are gone: {lost:?}");
        assert!(back.is_empty(), "nothing was to be left of them, and they are there: {back:?}");
        assert!(strange.is_empty(), "nobody has asked for them: {strange:?}");
        let loads = u64::try_from(shown.len()).unwrap();
        assert!(told.looks > 0 && told.most <= loads, "{} of {loads} in {} looks", told.most, told.looks);
        let whole = dashboards::whole(loads);
        for number in self.nodes.numbers() {
            for query in [dashboards::shown(), dashboards::declared(&[dashboards::shown()])] {
                let found = session::Session::open(self.nodes.at(number), PATIENCE).unwrap();
                let found = found.rows(&query, PATIENCE).unwrap();
                assert_eq!(found, [whole.to_vec()], "node {number}");
            }
        }
        let numbers: Vec<usize> = self.nodes.numbers().collect();
        self.all_show(ANNOUNCED, &numbers, &told.rows);
    }

    /// Each row is on as many nodes as it is to be, and all replicas of each brick have the same.
    fn replicas_agree(&self, shown: &BTreeSet<u64>) {
        let rows = u64::try_from(shown.len()).unwrap() * loads::ROWS;
        let replicas = u64::try_from(self.nodes.replicas).unwrap();
        let shares = "SELECT sum(rows)::text || ' ' || sum(bricks_to_come)::text FROM coeval_cluster_nodes WHERE state = 'live'";
        for number in self.nodes.numbers() {
            self.nodes.until(number, shares, &format!("{} 0", rows * replicas));
            let compared = succeeds(&self.nodes.run(&["cluster", "check"], number));
            assert!(compared.contains(&format!(", {rows} rows compared")), "{compared}");
            assert!(!compared.contains("differs"), "{compared}");
        }
    }
}

/// What the program has printed, which has done what it was told to.
#[track_caller]
fn succeeds(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// A test that fails ends its clients, too.
impl Drop for Trial {
    fn drop(&mut self) {
        self.stop_loads.store(true, Ordering::Relaxed);
        self.stop_dashboards.store(true, Ordering::Relaxed);
    }
}

fn rounds_with(nodes: usize, replicas: usize, rounds: usize) {
    let begun = Instant::now();
    let mut trial = Trial::start(nodes, replicas);
    (0..rounds).for_each(|round| trial.go_through(round));
    trial.end();
    println!("{nodes} nodes, {rounds} rounds in {} s", begun.elapsed().as_secs());
}

/// `COEVAL_CLUSTER_KILLS` says how many rounds.
#[test]
fn rounds_of_kills_stalls_and_cuts_lose_nothing_and_show_no_part_of_a_load() {
    match std::env::var("COEVAL_CLUSTER_KILLS").ok().map(|rounds| rounds.parse::<usize>().unwrap()) {
        None => rounds_with(3, 2, ROUNDS),
        Some(rounds) => {
            rounds_with(3, 2, rounds / 2);
            rounds_with(5, 3, rounds - rounds / 2);
        }
    }
}
