// SPDX-License-Identifier: Apache-2.0
//! Servers that are nodes of a cluster, each on cores of its own.

use super::messages::{Messages, messages_of};
use crate::directories::removed;
use crate::error::BenchError;
use crate::followed::until;
use crate::machine::process_cpu;
use crate::pinning::Cores;
use crate::served::Served;
use crate::system::Console;
use crate::wire::Server;
use coeval::Durability;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often it is looked whether nodes are at rest.
const REST_LOOK: Duration = Duration::from_millis(250);
/// The processor time that nodes at rest may use between two looks, all together: for signs of life, and what the clock has them do.
const REST_CPU: Duration = Duration::from_millis(50);

const LIVE: &str = "SELECT count(*) FROM coeval_cluster_nodes WHERE state = 'live'";

/// How a cluster is to be.
pub(super) struct Plan<'a> {
    pub(super) program: &'a Path,
    /// The directory for the nodes' own.
    pub(super) place: &'a Path,
    pub(super) name: &'a str,
    pub(super) replicas: usize,
    /// Whether loads wait for the disks of all that have their bricks.
    pub(super) durability: Durability,
    /// Those of each node.
    pub(super) cores: &'a [Cores],
}

/// A node, where clients and who wants to know its figures find it, and the cores that it has.
pub(super) struct Node {
    served: Served,
    server: Server,
    figures: SocketAddr,
    pub(super) cores: Cores,
}

impl Node {
    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}

/// All nodes of a cluster. They end with this.
pub(super) struct Nodes(Vec<Node>);

impl Nodes {
    /// Starts them: the first one makes the cluster. All take part when this returns.
    ///
    /// # Errors
    /// If one does not start, or the others do not hear of it.
    pub(super) fn start(plan: &Plan<'_>) -> Result<Self, BenchError> {
        let addresses = free_addresses(2 * plan.cores.len())?;
        let mut nodes: Vec<Node> = Vec::new();
        let mut primary: Option<String> = None;
        for (cores, own) in plan.cores.iter().zip(addresses.chunks(2)) {
            let (others, figures) = (own[0], own[1]);
            let name = format!("{}-{}", plan.name, nodes.len() + 1);
            let mut arguments: Vec<String> =
                vec!["--cluster".to_owned(), others.to_string(), "--metrics".to_owned(), figures.to_string()];
            match &primary {
                None => arguments.extend(["--cluster-replicas".to_owned(), plan.replicas.to_string()]),
                Some(primary) => {
                    arguments
                        .extend(["--replica-of".to_owned(), format!("{primary},application_name={name}")]);
                    arguments.extend(["--join".to_owned(), addresses[0].to_string()]);
                }
            }
            if plan.durability == Durability::None {
                arguments.push("--without-cluster-sync".to_owned());
            }
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let directory = removed(plan.place, &name)?;
            let served = Served::start_on(cores, plan.program, &directory, &arguments)?;
            primary.get_or_insert_with(|| served.as_primary());
            nodes.push(Node { server: served.server()?, served, figures, cores: cores.clone() });
        }
        let nodes = Self(nodes);
        let count = i64::try_from(nodes.0.len()).unwrap_or(i64::MAX);
        for node in &nodes.0 {
            let mut connection = node.server.connect()?;
            until("a node does not take part in its cluster", || {
                // It may wait for definitions that come by the log.
                Ok(connection.query_number(LIVE).is_ok_and(|live| live == count))
            })?;
        }
        Ok(nodes)
    }

    pub(super) fn all(&self) -> &[Node] {
        &self.0
    }

    /// The one with the keeper, which takes definitions and deletes.
    pub(super) fn first(&self) -> &Server {
        &self.0[0].server
    }

    /// Makes a table; all nodes have it when this returns.
    ///
    /// # Errors
    /// If it is refused, or does not come to a node.
    pub(super) fn create(&self, table: &str, sql: &str) -> Result<(), BenchError> {
        self.first().connect()?.execute(sql)?;
        for node in &self.0 {
            let mut connection = node.server.connect()?;
            let count = format!("SELECT count(*) FROM {table}");
            until("a node does not hear of a table", || Ok(connection.query_number(&count).is_ok()))?;
        }
        Ok(())
    }

    /// How many of so many rows are missing on the node that shows the fewest, or are too many, once all have been told of the last
    /// load.
    ///
    /// # Errors
    /// If a node does not answer.
    pub(super) fn missing(&self, table: &str, rows: u64) -> Result<u64, BenchError> {
        let count = format!("SELECT count(*) FROM {table}");
        let mut missing = 0;
        for node in &self.0 {
            let mut connection = node.server.connect()?;
            let mut of_node = 0;
            let shows_all = until("", || {
                of_node = connection.query_number(&count)?.unsigned_abs().abs_diff(rows);
                Ok(of_node == 0)
            });
            match shows_all {
                // What is missing for so long is told as such.
                Ok(()) | Err(BenchError::Answer(_)) => missing = missing.max(of_node),
                Err(error) => return Err(error),
            }
        }
        Ok(missing)
    }

    /// Waits until the nodes have used next to no processor time for so long. What loads leave behind would be counted to whoever is
    /// measured next: rows that are flushed, and deleted ones that go.
    ///
    /// # Errors
    /// If they do not come to rest.
    pub(super) fn rest(&self, quiet: Duration) -> Result<(), BenchError> {
        let all = || self.cpu().iter().sum::<Duration>();
        let (mut since, mut before) = (Instant::now(), all());
        until("nodes do not come to rest", || {
            std::thread::sleep(REST_LOOK);
            let now = all();
            if now.saturating_sub(before) > REST_CPU {
                since = Instant::now();
            }
            before = now;
            Ok(since.elapsed() >= quiet)
        })
    }

    /// The share of all rows that the node with the most of them has: what no scan by all nodes can be faster than.
    ///
    /// # Errors
    /// If the first node does not answer.
    pub(super) fn largest_share(&self) -> Result<f64, BenchError> {
        let mut connection = self.first().connect()?;
        let mut ask = |what: &str| {
            connection.query_number(&format!("SELECT {what}(rows)::bigint FROM coeval_cluster_nodes"))
        };
        let (most, all) = (ask("max")?, ask("sum")?);
        Ok(super::ratio(most as f64, all as f64))
    }

    /// The processor time that each node has had so far.
    pub(super) fn cpu(&self) -> Vec<Duration> {
        self.0.iter().map(|node| process_cpu(node.served.process())).collect()
    }

    /// How many cores they have together, if each has others.
    pub(super) fn cores(&self) -> usize {
        self.0.iter().map(|node| node.cores.count()).sum()
    }

    /// What all nodes have sent each other so far.
    ///
    /// # Errors
    /// If one does not tell its figures.
    pub(super) fn messages(&self) -> Result<Messages, BenchError> {
        self.0.iter().try_fold(Messages::default(), |sum, node| Ok(sum.with(&messages_of(node.figures)?)))
    }
}

/// So many addresses at which nobody listens at the moment, of this machine alone, and of this process if there are such: no connection
/// begins there, so they stay free until a node comes to listen.
fn free_addresses(count: usize) -> Result<Vec<SocketAddr>, BenchError> {
    let [.., second, third, fourth] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 64 | second, third, fourth);
    let host = TcpListener::bind((own, 0)).map_or(Ipv4Addr::LOCALHOST, |_| own);
    let listeners = (0..count).map(|_| TcpListener::bind((host, 0))).collect::<std::io::Result<Vec<_>>>();
    let addresses = listeners.and_then(|listeners| listeners.iter().map(TcpListener::local_addr).collect());
    addresses.map_err(|error| BenchError::Answer(format!("there is no free port: {error}")))
}
