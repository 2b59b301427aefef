// SPDX-License-Identifier: Apache-2.0
//! COPY into a spread table: through two nodes, through one, through two that both have each brick, and into two clusters of one node
//! each at once. The last is what the machine gives: its nodes share all that two nodes of one cluster share, and say nothing to each other.
//!
//! Each node has the same number of clients in all of them. One client would not keep a core busy: while its load waits for logs, and for
//! another node, the core has nothing to do. With as many clients for one node as for two together, that would count against two.
//!
//! What a row costs is told beside how fast rows come: processor time of the nodes and of the clients, bytes between nodes, and which
//! share of their cores all of them kept busy. What is missing there was waited for.

use super::messages::{ForLoads, Messages};
use super::nodes::{Node, Nodes};
use super::{Stage, order, ratio, tell};
use crate::error::BenchError;
use crate::machine::{ProcessId, process_cpu};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::system::Console;
use bytes::Bytes;
use serde_json::json;
use std::time::{Duration, Instant};

const TABLE: &str = "arrivals";
const CREATE: &str = "CREATE TABLE arrivals (slot int, m1 bigint, m2 bigint) USING brick \
     PARTITION BY (slot CARDINALITY 1024 RANGE SIZE 16)";
const COPY: &str = "COPY arrivals FROM STDIN";
/// Clients of each node: as many as keep its core busy while loads wait. Behind its last row a load through two nodes waits for two answers
/// of the other node, on a core that others keep busy, and for both logs; a load through one waits for its own. With few clients the waits
/// would be compared, and not what nodes can do.
const LOADERS: u64 = 8;
const TINY_LOADERS: u64 = 2;
/// Rows of a load.
const LOAD_ROWS: u64 = 16_384;
const TINY_LOAD_ROWS: u64 = 256;
/// For how long the nodes are to have done nothing before others are measured, in milliseconds: longer than a node waits until it flushes
/// what was loaded last, and drops what was deleted.
const QUIET_MS: u64 = 6_000;
const TINY_QUIET_MS: u64 = 250;
/// The warm-up, as a part of what is measured.
const WARM_UP: f64 = 0.1;

/// Measures all of them in turn.
///
/// # Errors
/// If a server does not start, or refuses something.
pub(super) fn measure(
    stage: &Stage<'_>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let durability = stage.options.durability;
    progress.begin("start one node, two, two with two replicas, and one on the other core", None);
    let two = stage.nodes("load-two", 0..2, 1, durability)?;
    let one = stage.nodes("load-one", 0..1, 1, durability)?;
    let replicas = stage.nodes("load-replicas", 0..2, 2, durability)?;
    let other = stage.nodes("load-other", 1..2, 1, durability)?;
    [&two, &one, &replicas, &other].into_iter().try_for_each(|nodes| nodes.create(TABLE, CREATE))?;
    progress.end();
    let ways: [(&str, Vec<&Nodes>); 4] = [
        ("load_two_nodes", vec![&two]),
        ("load_one_node", vec![&one]),
        ("load_two_replicas", vec![&replicas]),
        ("load_two_clusters", vec![&one, &other]),
    ];
    let rows = stage.of_population(LOAD_ROWS, TINY_LOAD_ROWS);
    let loaders = stage.of_population(LOADERS, TINY_LOADERS) as usize;
    let quiet = Duration::from_millis(stage.of_population(QUIET_MS, TINY_QUIET_MS));
    let load = Load { rows, text: text_of(rows), loaders, seconds: stage.options.seconds };
    let (mut phases, mut missing) = (vec![Vec::new(); ways.len()], 0);
    for round in 0..stage.rounds() {
        for place in order(round, ways.len()) {
            let (name, clusters) = &ways[place];
            progress.begin(&format!("round {}, {name}", round + 1), None);
            let (loaded, spent) = load.phase(clusters)?;
            for (nodes, loaded) in clusters.iter().zip(&loaded) {
                missing += nodes.missing(TABLE, loaded.rows)?;
                nodes.first().connect()?.execute(&format!("TRUNCATE {TABLE}"))?;
                missing += nodes.missing(TABLE, 0)?;
            }
            clusters.iter().try_for_each(|nodes| nodes.rest(quiet))?;
            phases[place].push((loaded.into_iter().sum::<Loaded>(), spent));
            progress.end();
        }
        if progress.is_cancelled() {
            break;
        }
    }
    report.count("load_rows", rows);
    report.count("loaders_per_node", loaders as u64);
    let [two_nodes, one_node, two_replicas, two_clusters] =
        [0, 1, 2, 3].map(|place| tell_phases(ways[place].0, &phases[place], report));
    report.figure("load_two_nodes_ratio", ratio(two_nodes, one_node));
    report.figure("load_two_replicas_ratio", ratio(two_replicas, two_nodes));
    report.figure("load_two_clusters_ratio", ratio(two_clusters, one_node));
    report.figure("load_two_nodes_over_clusters_ratio", ratio(two_nodes, two_clusters));
    report.check("load_rows_missing", missing);
    Ok(())
}

/// Tells how fast rows came in the phases of one way, and what they cost. Gives the median of the rows per second.
fn tell_phases(name: &str, phases: &[(Loaded, Spent)], report: &mut Report) -> f64 {
    let rates: Vec<f64> = phases.iter().map(|(loaded, _)| loaded.rows_per_s).collect();
    type Cost = fn(&Spent) -> f64;
    let costs: [(&str, Cost); 5] = [
        ("server_cpu_us_per_row", |spent| spent.us_per_row(spent.servers.iter().sum())),
        ("client_cpu_us_per_row", |spent| spent.us_per_row(spent.clients)),
        ("busy_share", Spent::busy_share),
        ("sent_bytes_per_row", |spent| spent.per_row(spent.sent_bytes as f64)),
        ("messages_per_load", |spent| ratio(spent.messages as f64, spent.loads)),
    ];
    for (cost, of) in costs {
        let middle = median(&mut phases.iter().map(|(_, spent)| of(spent)).collect::<Vec<_>>());
        report.figure(format!("{name}_{cost}"), middle);
    }
    let nodes = phases.first().map_or(0, |(_, spent)| spent.servers.len());
    let by_node = (0..nodes).map(|node| {
        let each = phases.iter().map(|(_, spent)| spent.us_per_row(spent.servers[node]));
        (median(&mut each.collect::<Vec<_>>()) * 1e4).round() / 1e4
    });
    report.note(format!("{name}_server_cpu_us_per_row_by_node"), json!(by_node.collect::<Vec<f64>>()));
    tell(&format!("{name}_rows_per_s"), &rates, report)
}

/// What each client sends again and again.
struct Load {
    rows: u64,
    text: Bytes,
    /// Clients of each node.
    loaders: usize,
    /// For how long it counts.
    seconds: f64,
}

/// What clients have done together.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    /// All of them, those of the warm-up too.
    rows: u64,
    rows_per_s: f64,
}

/// What a phase has cost, with its warm-up.
#[derive(Clone, Debug)]
struct Spent {
    rows: u64,
    loads: f64,
    took: Duration,
    /// Processor time of each node, and of all clients.
    servers: Vec<Duration>,
    clients: Duration,
    /// How many cores nodes and clients have together.
    cores: usize,
    /// What nodes have sent each other: bytes of all kinds, and messages that loads cost.
    sent_bytes: u64,
    messages: u64,
}

impl Spent {
    fn per_row(&self, all: f64) -> f64 {
        ratio(all, self.rows as f64)
    }

    fn us_per_row(&self, time: Duration) -> f64 {
        self.per_row(time.as_secs_f64() * 1e6)
    }

    /// The share of the time of all cores that nodes and clients have used.
    fn busy_share(&self) -> f64 {
        let used = (self.servers.iter().sum::<Duration>() + self.clients).as_secs_f64();
        ratio(used, self.took.as_secs_f64() * self.cores as f64)
    }
}

/// What all nodes of these clusters have sent each other so far.
fn messages(clusters: &[&Nodes]) -> Result<Messages, BenchError> {
    clusters.iter().try_fold(Messages::default(), |sum, nodes| Ok(sum.with(&nodes.messages()?)))
}

/// The processor time of this process, whose threads are the clients.
fn own_cpu() -> Duration {
    process_cpu(ProcessId(std::process::id()))
}

impl Load {
    /// All clients of all these clusters at once; what came to each of these.
    fn phase(&self, clusters: &[&Nodes]) -> Result<(Vec<Loaded>, Spent), BenchError> {
        let cpu = || clusters.iter().flat_map(|nodes| nodes.cpu()).collect::<Vec<Duration>>();
        let (sent, servers, clients) = (messages(clusters)?, cpu(), own_cpu());
        let begun = Instant::now();
        let loaded = self.all_clients(clusters)?;
        let took = begun.elapsed();
        let clients = own_cpu().saturating_sub(clients);
        let servers = cpu().iter().zip(servers).map(|(now, before)| now.saturating_sub(before)).collect();
        let now = messages(clusters)?;
        let rows: u64 = loaded.iter().map(|loaded| loaded.rows).sum();
        let spent = Spent {
            rows,
            loads: ratio(rows as f64, self.rows as f64),
            took,
            servers,
            clients,
            cores: clusters.iter().map(|nodes| nodes.cores()).sum(),
            sent_bytes: now.bytes_since(&sent),
            messages: ForLoads::sum(now.for_loads_since(&sent)),
        };
        Ok((loaded, spent))
    }

    fn all_clients(&self, clusters: &[&Nodes]) -> Result<Vec<Loaded>, BenchError> {
        std::thread::scope(|scope| {
            let mut started = Vec::new();
            for nodes in clusters {
                let nodes = nodes.all().iter().flat_map(|node| std::iter::repeat_n(node, self.loaders));
                let clients: Vec<_> = nodes.map(|node| scope.spawn(move || self.client(node))).collect();
                started.push(clients);
            }
            let of_clusters = started.into_iter().map(|clients| {
                let clients = clients.into_iter();
                let loaded = clients.map(|client| client.join().expect("a client does not panic"));
                loaded.sum::<Result<Loaded, BenchError>>()
            });
            of_clusters.collect()
        })
    }

    /// One client, on the cores of its node.
    fn client(&self, node: &Node) -> Result<Loaded, BenchError> {
        node.cores.keep_this_thread()?;
        let connection = node.server().connect()?;
        let send = |seconds: f64| -> Result<(u64, f64), BenchError> {
            let (begun, mut rows) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_secs_f64(seconds) {
                rows += connection.copy_text(COPY, std::slice::from_ref(&self.text))?;
            }
            Ok((rows, begun.elapsed().as_secs_f64()))
        };
        let (before, _) = send(self.seconds * WARM_UP)?;
        let (rows, seconds) = send(self.seconds)?;
        Ok(Loaded { rows: before + rows, rows_per_s: ratio(rows as f64, seconds) })
    }
}

impl std::iter::Sum for Loaded {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            rows: sum.rows + one.rows,
            rows_per_s: sum.rows_per_s + one.rows_per_s,
        })
    }
}

/// So many rows as COPY reads them, in all bricks.
fn text_of(rows: u64) -> Bytes {
    let row = |row: u64| format!("{}\t{}\t{}\n", row % 1_024, row * 31, row * 7_919 % 1_000_000);
    (0..rows).map(row).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_cost_is_told_by_row_and_by_core() {
        let (took, clients) = (Duration::from_secs(2), Duration::from_secs(1));
        let (sent_bytes, messages) = (8_000_000, 600);
        let servers = vec![Duration::from_millis(1_500), Duration::from_millis(500)];
        let spent =
            Spent { rows: 4_000_000, loads: 200.0, took, servers, clients, cores: 2, sent_bytes, messages };
        assert_eq!(spent.busy_share(), 0.75);
        let mut report =
            Report::new(crate::options::Workload::Cluster, &crate::options::Options::default(), 1);
        let loaded = Loaded { rows: 4_000_000, rows_per_s: 2e6 };
        assert_eq!(tell_phases("load", &[(loaded, spent)], &mut report), 2e6);
        for (name, expected) in [
            ("load_server_cpu_us_per_row", 0.5),
            ("load_client_cpu_us_per_row", 0.25),
            ("load_busy_share", 0.75),
            ("load_sent_bytes_per_row", 2.0),
            ("load_messages_per_load", 3.0),
        ] {
            assert_eq!(report.value(name), Some(expected), "{name}");
        }
        let by_node = report.figures().find(|(name, _)| *name == "load_server_cpu_us_per_row_by_node");
        assert_eq!(*by_node.unwrap().1, json!([0.375, 0.125]));
    }

    #[test]
    fn a_load_has_its_rows_and_clients_add_up() {
        assert_eq!(text_of(2), "0\t0\t0\n1\t31\t7919\n");
        let loaded = [Ok(Loaded { rows: 3, rows_per_s: 1.5 }), Ok(Loaded { rows: 4, rows_per_s: 2.0 })];
        let sum: Result<Loaded, BenchError> = loaded.into_iter().sum();
        let sum = sum.unwrap();
        assert_eq!((sum.rows, sum.rows_per_s), (7, 3.5));
    }
}
