// SPDX-License-Identifier: Apache-2.0
//! The nodes: real servers, each in a directory and at an address of its own, and each behind two proxies: one before the port where
//! other nodes come, one before the port where those come that follow it.

use crate::proxy::{Proxy, Way};
use crate::session::{At, Refused, Session};
use crate::{PATIENCE, bounded};
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_coeval");
/// For so long a session that asks something small waits for its answer.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Lines of what a node has said last, which a test shows that fails.
const LINES_SHOWN: usize = 40;

/// How many take part with all their bricks.
const LIVE: &str = "SELECT count(*) FROM coeval_cluster_nodes WHERE state = 'live'";
/// Whether the keeper of views is on the node that is asked.
const HAS_KEEPER: &str = "SELECT count(*) FROM coeval_cluster_nodes WHERE has_keeper AND is_own";
/// What a node says whose keeper of views begins. The number of its term comes next, and a point.
const KEEPER_BEGINS: &str = "the keeper of views is here, of term ";

/// Where a node is, whether it runs or not.
struct Place {
    host: Ipv4Addr,
    clients: u16,
    others: u16,
    /// What stands before the two.
    before_clients: Proxy,
    before_others: Proxy,
    process: Option<Child>,
    /// In all its lives.
    said: Arc<Mutex<String>>,
}

impl Place {
    fn proxies(&self) -> [&Proxy; 2] {
        [&self.before_clients, &self.before_others]
    }
}

/// Nodes, counted from 1. All are served at first.
pub(crate) struct Nodes {
    parent: tempfile::TempDir,
    places: Vec<Place>,
    /// On how many nodes each brick is.
    pub(crate) replicas: usize,
    /// The node that is the primary of row tables, and has the keeper of views.
    pub(crate) primary: usize,
}

/// Addresses of this process alone, where no connection begins: a port that was found free there stays free until a node listens at it.
fn places(count: usize) -> Vec<Place> {
    static NODES: AtomicU8 = AtomicU8::new(160);
    let [.., third, fourth] = std::process::id().to_be_bytes();
    let hosts: Vec<Ipv4Addr> = (0..count)
        .map(|_| Ipv4Addr::new(127, NODES.fetch_add(1, Ordering::Relaxed), third, fourth))
        .collect();
    let listeners: Vec<[TcpListener; 2]> =
        hosts.iter().map(|host| [0, 1].map(|_| TcpListener::bind((*host, 0)).unwrap())).collect();
    hosts
        .iter()
        .zip(&listeners)
        .map(|(host, listeners)| {
            let [clients, others] =
                listeners.each_ref().map(|listener| listener.local_addr().unwrap().port());
            Place {
                host: *host,
                clients,
                others,
                before_clients: Proxy::start(*host, clients),
                before_others: Proxy::start(*host, others),
                process: None,
                said: Arc::default(),
            }
        })
        .collect()
}

impl Nodes {
    /// So many are served, and take part; the first one is the primary. Commits of rows wait for so many others that one machine may
    /// be lost without them.
    pub(crate) fn start(count: usize, replicas: usize) -> Self {
        let parent = tempfile::tempdir().unwrap();
        let mut nodes = Self { parent, places: places(count), replicas, primary: 1 };
        nodes.numbers().for_each(|number| nodes.serve(number));
        nodes.until_live(count);
        let names: Vec<String> = nodes.numbers().map(|number| format!("n{number}")).collect();
        let wanted = format!("ANY {} ({})", replicas - 1, names.join(", "));
        nodes.ask(1, &format!("SET synchronous_standby_names = '{wanted}'")).unwrap();
        nodes
    }

    pub(crate) fn numbers(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.places.len()
    }

    pub(crate) fn served(&self) -> Vec<usize> {
        self.numbers().filter(|number| self.place(*number).process.is_some()).collect()
    }

    /// All but one.
    pub(crate) fn but(&self, number: usize) -> Vec<usize> {
        self.numbers().filter(|other| *other != number).collect()
    }

    fn place(&self, number: usize) -> &Place {
        &self.places[number - 1]
    }

    /// Where clients come to all of them.
    pub(crate) fn addresses(&self) -> Vec<At> {
        self.places.iter().map(|place| (place.host, place.clients)).collect()
    }

    pub(crate) fn at(&self, number: usize) -> At {
        let place = self.place(number);
        (place.host, place.clients)
    }

    pub(crate) fn dir(&self, number: usize) -> PathBuf {
        self.parent.path().join(format!("n{number}"))
    }

    /// Where other nodes reach it.
    fn others_at(&self, number: usize) -> String {
        format!("{}:{}", self.place(number).host, self.place(number).before_others.port)
    }

    /// Where who follows reaches it, in libpq's words.
    fn followed_at(&self, number: usize) -> String {
        let place = self.place(number);
        format!("host={},port={},user=coeval", place.host, place.before_clients.port)
    }

    /// How a node is started: as the primary, or as a replica of that.
    fn command(&self, number: usize) -> Command {
        let (place, others) = (self.place(number), self.but(number));
        let mut command = Command::new(PROGRAM);
        command.arg("serve").arg(self.dir(number)).args(["--stop-seconds", "1"]);
        command.args(["--listen", &format!("{}:{}", place.host, place.clients)]);
        command.args(["--cluster", &format!("{}:{}", place.host, place.others)]);
        command.args(["--cluster-address", &self.others_at(number), "--name", &format!("n{number}")]);
        for other in &others {
            command.args(["--peer", &format!("name=n{other},{}", self.followed_at(*other))]);
        }
        if number == self.primary {
            command.args(["--cluster-replicas", &self.replicas.to_string()]);
        } else {
            // Whoever is a node already asks these as well.
            let joined: Vec<String> = others.iter().map(|other| self.others_at(*other)).collect();
            command.args(["--replica-of", &self.followed_at(self.primary), "--join", &joined.join(",")]);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    }

    /// Starts a node; it listens when this returns.
    pub(crate) fn serve(&mut self, number: usize) {
        let mut process = self.command(number).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let said = Arc::clone(&self.place(number).said);
        let alarm = bounded::Alarm::set(&process, 2 * PATIENCE);
        let listens = lines.by_ref().map(Result::unwrap).any(|line| {
            *said.lock().unwrap() += &format!("{line}\n");
            line.starts_with("Listening on ")
        });
        drop(alarm);
        // It must not wait for somebody to read what it says.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                *said.lock().unwrap() += &format!("{line}\n");
            }
        });
        self.places[number - 1].process = Some(process);
        assert!(listens, "node {number} does not listen");
    }

    pub(crate) fn kill(&mut self, number: usize) {
        let mut process = self.places[number - 1].process.take().unwrap();
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Asks a node to end, and waits.
    pub(crate) fn stop(&mut self, number: usize) {
        self.signal(number, "-TERM");
        let mut process = self.places[number - 1].process.take().unwrap();
        let status = bounded::status(&mut process, &format!("node {number}"));
        assert!(status.success(), "node {number}: {status}");
    }

    pub(crate) fn signal(&self, number: usize, signal: &str) {
        let pid = self.place(number).process.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    /// Has connections to a node go this way, of other nodes and of those that follow it.
    pub(crate) fn set_way(&self, number: usize, way: Way) {
        self.place(number).proxies().iter().for_each(|proxy| proxy.set(way));
    }

    /// Cuts all connections between all nodes.
    pub(crate) fn cut_all(&self) {
        self.places.iter().flat_map(Place::proxies).for_each(Proxy::cut);
    }

    /// How much a node has said so far.
    pub(crate) fn said(&self, number: usize) -> usize {
        self.place(number).said.lock().unwrap().len()
    }

    /// Waits until a node says this, behind what it had said.
    pub(crate) fn until_said(&self, number: usize, behind: usize, what: &str) {
        let begun = Instant::now();
        while !self.place(number).said.lock().unwrap()[behind..].contains(what) {
            assert!(begun.elapsed() < PATIENCE, "node {number} does not say {what:?}");
            std::thread::sleep(PAUSE);
        }
    }

    /// The first value of a statement on a node.
    pub(crate) fn ask(&self, number: usize, sql: &str) -> Result<String, Refused> {
        Session::open(self.at(number), ANSWER)?.value(sql, PATIENCE)
    }

    /// Waits until a statement gives this on a node.
    pub(crate) fn until(&self, number: usize, sql: &str, wanted: &str) {
        let begun = Instant::now();
        loop {
            let found = self.ask(number, sql);
            if found.as_deref() == Ok(wanted) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{sql} gives {found:?} on node {number}, not {wanted}");
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until so many take part with all their bricks, for all that are served.
    pub(crate) fn until_live(&self, count: usize) {
        self.served().into_iter().for_each(|number| self.until(number, LIVE, &count.to_string()));
    }

    /// The same for these.
    pub(crate) fn until_live_for(&self, numbers: &[usize], count: usize) {
        numbers.iter().for_each(|number| self.until(*number, LIVE, &count.to_string()));
    }

    /// Waits until the keeper is beside the primary, for all of these.
    pub(crate) fn until_the_keeper_is_there(&self, numbers: &[usize]) {
        for number in numbers {
            let wanted = if *number == self.primary { "1" } else { "0" };
            self.until(*number, HAS_KEEPER, wanted);
        }
    }

    /// The number of the term of the last keeper on a node, if it has had one.
    pub(crate) fn keeper_term(&self, number: usize) -> Option<u64> {
        let said = self.place(number).said.lock().unwrap();
        let (_, term) = said.rsplit_once(KEEPER_BEGINS)?;
        term.split('.').next()?.parse().ok()
    }

    /// Waits until the keeper on the primary is of a later term than this. Of two keepers of one term neither ends for good: the one that has
    /// given way asks again after a while, wherever it is.
    pub(crate) fn until_the_keeper_is_of_a_term_behind(&self, before: Option<u64>) {
        let begun = Instant::now();
        loop {
            let term = self.keeper_term(self.primary);
            if term > before {
                return;
            }
            assert!(
                begun.elapsed() < PATIENCE,
                "the keeper on node {} is of term {term:?}, and the one before of {before:?}",
                self.primary
            );
            std::thread::sleep(PAUSE);
        }
    }

    fn takes_writes(&self, number: usize) -> bool {
        self.ask(number, "SHOW in_hot_standby").as_deref() == Ok("off")
    }

    /// Has one of these become the primary, whichever has all that the others have.
    pub(crate) fn promote_one_of(&mut self, candidates: &[usize]) {
        let (begun, mut said) = (Instant::now(), Err(Refused::Lost("nobody was asked".to_owned())));
        while begun.elapsed() < PATIENCE {
            for number in candidates {
                // It may have been asked before, and the answer been lost.
                if self.takes_writes(*number) {
                    self.primary = *number;
                    return;
                }
                said = self.ask(*number, "SELECT pg_promote()");
                if said.is_ok() {
                    self.until(*number, "SHOW in_hot_standby", "off");
                    self.primary = *number;
                    return;
                }
            }
            std::thread::sleep(PAUSE);
        }
        panic!("nobody of {candidates:?} is promoted: {said:?}");
    }

    /// What the program does when it is told to, about a node's directory.
    pub(crate) fn run(&self, words: &[&str], number: usize) -> Output {
        bounded::output(Command::new(PROGRAM).args(words).arg(self.dir(number)))
    }
}

/// A test that fails shows what the nodes have said, and leaves no processes.
impl Drop for Nodes {
    fn drop(&mut self) {
        for (place, number) in self.places.iter_mut().zip(1..) {
            if let Some(mut process) = place.process.take() {
                // It may have ended.
                let _ = process.kill();
                let _ = process.wait();
            }
            // A second panic would hide the first one.
            if std::thread::panicking()
                && let Ok(said) = place.said.lock()
            {
                let lines: Vec<&str> = said.lines().collect();
                let shown = &lines[lines.len().saturating_sub(LINES_SHOWN)..];
                eprintln!("node {number} has said last:\n{}", shown.join("\n"));
            }
        }
    }
}
