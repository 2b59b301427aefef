// SPDX-License-Identifier: Apache-2.0
//! The rounds, and what has to be true after them.

use crate::child::SILENCE;
use crate::process::{Process, Said};
use coeval_cluster::EpochSet;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Rounds if nobody asks for more.
const ROUNDS: usize = 5;
/// Rounds of one cluster; the next ones have a new one, of three nodes or of five in turn.
const ROUNDS_OF_CLUSTER: usize = 10;

pub(crate) fn run() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let rounds = number("COEVAL_CLUSTER_ROUNDS").map_or(ROUNDS, |rounds| rounds as usize);
    let seed = number("COEVAL_CLUSTER_SEED").unwrap_or(1);
    println!("kills: {rounds} rounds, seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut left = rounds;
    for cluster in 0.. {
        if left == 0 {
            break;
        }
        let of_this = left.min(ROUNDS_OF_CLUSTER);
        let nodes = if cluster % 2 == 0 { 3 } else { 5 };
        Cluster::start(nodes).run(of_this, &mut random);
        left -= of_this;
    }
    println!("kills: ok");
}

struct Cluster {
    processes: BTreeMap<usize, Process>,
    addresses: String,
    directory: TempDir,
    said: Arc<Mutex<Said>>,
    nodes: usize,
}

impl Cluster {
    fn start(nodes: usize) -> Self {
        let free = |number| TcpListener::bind((format!("127.0.0.{number}"), 0)).unwrap();
        let listeners: Vec<TcpListener> = (1..=nodes).map(free).collect();
        let addresses: Vec<String> =
            listeners.iter().map(|listener| listener.local_addr().unwrap().to_string()).collect();
        drop(listeners);
        let mut cluster = Self {
            processes: BTreeMap::new(),
            addresses: addresses.join(","),
            directory: tempfile::tempdir().unwrap(),
            said: Arc::default(),
            nodes,
        };
        (1..=nodes).for_each(|number| cluster.begin(number));
        cluster.wait("all are in the view", nodes, |states| {
            states.iter().all(|(members, ..)| *members == nodes)
        });
        cluster
    }

    fn begin(&mut self, number: usize) {
        let directory: &Path = self.directory.path();
        let keeper = if number == 1 { "keeper" } else { "none" };
        let process = Process::start(number, directory, &self.addresses, keeper, &self.said);
        self.processes.insert(number, process);
    }

    fn run(mut self, rounds: usize, random: &mut StdRng) {
        let begun = Instant::now();
        for round in 0..rounds {
            let what = self.round(random);
            let said = self.said.lock().unwrap();
            println!(
                "kills: {} nodes, round {round}: {what}; {} loads and {} deletes acknowledged, {} reads",
                self.nodes,
                said.acknowledged.len(),
                said.deleted.len(),
                said.reads
            );
            assert_eq!(said.broken, [""; 0]);
        }
        self.check(random);
        println!("kills: {} nodes, {rounds} rounds in {} ms", self.nodes, begun.elapsed().as_millis());
    }

    /// Something breaks, and is mended before or after the others have noticed.
    fn round(&mut self, random: &mut StdRng) -> String {
        sleep(Duration::from_millis(random.random_range(200..500)));
        let away = match random.random_range(0..3) {
            0 => Duration::ZERO,
            1 => SILENCE / 3,
            _ => SILENCE * 3 / 2,
        };
        let victim = random.random_range(1..=self.nodes);
        let what = match random.random_range(0..6) {
            0 => {
                self.processes[&victim].signal("-STOP");
                sleep(away);
                self.processes[&victim].signal("-CONT");
                format!("n{victim} stands still")
            }
            1 => {
                let other = victim % self.nodes + 1;
                self.kill(victim);
                self.kill(other);
                sleep(away);
                self.begin(other);
                self.begin(victim);
                format!("n{victim} and n{other} are killed")
            }
            2 => {
                (1..=self.nodes).for_each(|number| self.kill(number));
                (1..=self.nodes).for_each(|number| self.begin(number));
                "all are killed".to_owned()
            }
            _ => {
                self.kill(victim);
                sleep(away);
                self.begin(victim);
                format!("n{victim} is killed")
            }
        };
        format!("{what} for {} ms", away.as_millis())
    }

    fn kill(&mut self, number: usize) {
        self.processes.remove(&number).unwrap().kill();
    }

    /// Whether something of all that is checked has happened.
    fn has_said_all(&self) -> bool {
        let said = self.said.lock().unwrap();
        !said.acknowledged.is_empty() && !said.deleted.is_empty() && said.reads > 0
    }

    /// What is true once everything has come to an end.
    fn check(&mut self, random: &mut StdRng) {
        let begun = Instant::now();
        while !self.has_said_all() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nodes load, delete or read nothing");
            sleep(Duration::from_millis(20));
        }
        self.processes.values_mut().for_each(|process| process.tell("pause"));
        let nodes = self.nodes;
        self.wait("all is quiet", nodes, |states| is_quiet(states, nodes));
        self.check_seen();
        self.check_replicas();
        let gone = random.random_range(2..=nodes);
        self.kill(gone);
        self.wait("the view goes on without one", nodes - 1, |states| {
            states.iter().all(|(members, ..)| *members == nodes - 1)
        });
        self.check_seen();
        assert_eq!(self.said.lock().unwrap().broken, [""; 0]);
        std::mem::take(&mut self.processes).into_values().for_each(Process::kill);
    }

    /// All nodes show the same loads, and all that were acknowledged and not deleted.
    fn check_seen(&mut self) {
        let mut shown = Vec::new();
        for (number, process) in &mut self.processes {
            let seen = process.ask("seen");
            let seen: BTreeSet<u64> = seen.split_whitespace().map(|load| load.parse().unwrap()).collect();
            let said = self.said.lock().unwrap();
            let is_in = |deletes: &[EpochSet], label| deletes.iter().any(|seen| seen.contains(label));
            let wrong = said.acknowledged.iter().filter(|(load, label)| {
                let may_show = !is_in(&said.deleted, **label);
                let must_show = !is_in(&said.deletes, **label);
                if seen.contains(load) { !may_show } else { must_show }
            });
            let wrong: Vec<_> = wrong.collect();
            assert!(wrong.is_empty(), "n{number} does not show {wrong:?}, or deletes took them");
            shown.push(seen);
        }
        assert!(shown.windows(2).all(|pair| pair[0] == pair[1]), "all nodes show the same");
    }

    /// All replicas of a brick have the same rows, and there are two of each.
    fn check_replicas(&mut self) {
        let mut bricks: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for process in self.processes.values_mut() {
            for brick in process.ask("bricks").split_whitespace() {
                let (number, rows) = brick.split_once(':').unwrap();
                bricks.entry(number.to_owned()).or_default().push(rows.to_owned());
            }
        }
        for (number, replicas) in bricks {
            assert!(replicas.len() == 2 && replicas[0] == replicas[1], "brick {number}: {replicas:?}");
        }
    }

    /// Waits until so many nodes say something of themselves that fits.
    fn wait(&mut self, what: &str, count: usize, is_so: impl Fn(&[(usize, bool, u64)]) -> bool) {
        let begun = Instant::now();
        loop {
            let states: Vec<String> =
                self.processes.values_mut().map(|process| process.ask("state")).collect();
            let read: Vec<_> = states.iter().filter_map(|state| read_state(state)).collect();
            if read.len() == count && is_so(&read) {
                return;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}: {states:?}");
            sleep(Duration::from_millis(20));
        }
    }
}

fn read_state(state: &str) -> Option<(usize, bool, u64)> {
    let mut words = state.split(' ');
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

fn is_quiet(states: &[(usize, bool, u64)], nodes: usize) -> bool {
    states.iter().all(|(members, is_quiet, latest)| *members == nodes && *is_quiet && *latest == states[0].2)
}
