// SPDX-License-Identifier: Apache-2.0
//! The servers: one primary, and the others, each of which has a place among its replicas.

use super::{Plan, Watch};
use crate::error::BenchError;
use crate::followed::{received, wait_until_safe};
use crate::served::Served;
use crate::system::Console;
use crate::wire::Server;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A replica that is promoted takes writes within this time: it ends its connections, and opens its directory anew.
const PROMOTING_MAX: Duration = Duration::from_secs(60);

/// How often it is looked whether it does.
const LOOK: Duration = Duration::from_millis(10);

/// See the module. Servers that are there when it is dropped are killed.
pub(super) struct Cluster {
    program: PathBuf,
    nodes: Vec<Node>,
    primary: usize,
    /// The nodes that are replicas, by their places.
    slots: Vec<usize>,
}

struct Node {
    name: String,
    directory: PathBuf,
    /// Where it is served, each time: the others are told.
    port: u16,
    served: Option<Served>,
}

impl Node {
    fn new(directory: &Path, port: u16) -> Self {
        let name = directory.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self { name, directory: directory.to_owned(), port, served: None }
    }

    fn served(&self) -> &Served {
        self.served.as_ref().expect("it was started")
    }
}

impl Cluster {
    /// Starts all of them, the first one as the primary. The replicas have safe snapshots when this returns.
    ///
    /// # Errors
    /// If one does not start.
    pub(super) fn start(plan: &Plan, watch: &dyn Watch) -> Result<Self, BenchError> {
        let ports = free_ports(plan.directories.len())?;
        let nodes: Vec<Node> =
            plan.directories.iter().zip(ports).map(|(directory, port)| Node::new(directory, port)).collect();
        let slots = (1..nodes.len()).collect();
        let mut cluster = Self { program: plan.program.clone(), nodes, primary: 0, slots };
        cluster.nodes[0].served = Some(cluster.serve(0, &[])?);
        for slot in 0..cluster.slots.len() {
            let told = cluster.follow(slot)?;
            watch.tell(&told);
        }
        cluster.primary_server()?.connect()?.execute(&cluster.standbys())?;
        Ok(cluster)
    }

    /// Any one machine beside the primary has to have a commit before it is acknowledged, whichever is the primary.
    fn standbys(&self) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        format!("SET synchronous_standby_names = 'ANY 1 ({})'", names.join(", "))
    }

    /// Starts a node, which knows of the others.
    fn serve(&self, node: usize, arguments: &[&str]) -> Result<Served, BenchError> {
        let Node { name, directory, port, .. } = &self.nodes[node];
        let others = self.nodes.iter().filter(|other| other.name != *name);
        let peers: Vec<String> = others
            .map(|other| format!("name={},host=127.0.0.1,port={},user=bench", other.name, other.port))
            .collect();
        let mut all = [&STOPPING[..], &["--name", name.as_str()]].concat();
        peers.iter().for_each(|peer| all.extend(["--peer", peer]));
        all.extend(arguments);
        Served::start_at(&self.program, directory, *port, &all)
    }

    /// The primary, for clients.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) fn primary_server(&self) -> Result<Server, BenchError> {
        self.nodes[self.primary].served().server()
    }

    pub(super) fn primary_name(&self) -> &str {
        &self.nodes[self.primary].name
    }

    /// The node at this place among the replicas.
    pub(super) fn node_of(&self, slot: usize) -> usize {
        self.slots[slot]
    }

    /// The replica at this place, for clients.
    ///
    /// # Errors
    /// If it does not answer.
    pub(super) fn server_of(&self, slot: usize) -> Result<Server, BenchError> {
        self.nodes[self.slots[slot]].served().server()
    }

    /// All replicas, by their places.
    ///
    /// # Errors
    /// If one does not answer.
    pub(super) fn replica_servers(&self) -> Result<Vec<Server>, BenchError> {
        (0..self.slots.len()).map(|slot| self.server_of(slot)).collect()
    }

    /// The same with their names.
    ///
    /// # Errors
    /// If one does not answer.
    pub(super) fn replicas(&self) -> Result<Vec<(String, Server)>, BenchError> {
        Ok(self.replica_names().into_iter().zip(self.replica_servers()?).collect())
    }

    pub(super) fn replica_names(&self) -> Vec<String> {
        self.slots.iter().map(|node| self.nodes[*node].name.clone()).collect()
    }

    /// Ends the primary as a loss of power would.
    pub(super) fn kill_primary(&mut self) {
        drop(self.nodes[self.primary].served.take());
    }

    /// The place of the replica that has most of the log: everything that any one of them had to have.
    ///
    /// # Errors
    /// If one does not answer.
    pub(super) fn slot_with_the_longest_log(&self) -> Result<usize, BenchError> {
        let mut longest = (None, 0);
        for slot in 0..self.slots.len() {
            longest = longest.max((Some(received(&self.server_of(slot)?)?), slot));
        }
        Ok(longest.1)
    }

    /// Makes the replica at this place the primary. The former primary, which is gone, has that place from then on, as a replica
    /// that does not run yet.
    ///
    /// # Errors
    /// If it refuses, or takes no writes.
    pub(super) fn promote(&mut self, slot: usize) -> Result<(), BenchError> {
        let promoted = self.slots[slot];
        let served = self.nodes[promoted].served();
        served.server()?.connect()?.query_text("SELECT pg_promote()::text")?;
        until_it_takes_writes(served)?;
        self.slots[slot] = self.primary;
        self.primary = promoted;
        Ok(())
    }

    /// Who has to follow the new primary, with the place of the former one last.
    pub(super) fn slots_to_follow(&self, former: usize) -> Vec<usize> {
        (0..self.slots.len()).filter(|slot| *slot != former).chain([former]).collect()
    }

    /// Has the node at this place follow the primary, from its directory as that is, or from a new copy. Returns what there is to
    /// tell about it.
    ///
    /// # Errors
    /// If it does not start, or comes to no safe snapshot.
    pub(super) fn follow(&mut self, slot: usize) -> Result<String, BenchError> {
        let begun = Instant::now();
        let node = self.slots[slot];
        // One that has followed somebody else ends first.
        if let Some(served) = self.nodes[node].served.take() {
            served.end()?;
        }
        let name = self.nodes[node].name.clone();
        let of = self.nodes[self.primary].served().as_primary_of(&name);
        let served = self.serve(node, &["--replica-of", of.as_str()])?;
        wait_until_safe(&served.server()?)?;
        let how = how_it_began(served.said());
        self.nodes[node].served = Some(served);
        let (primary, seconds) = (self.primary_name(), begun.elapsed().as_secs_f64());
        Ok(format!("{name} follows {primary}{how}, ready in {seconds:.1} s"))
    }

    /// Ends all of them in order, replicas first.
    ///
    /// # Errors
    /// If one does not end well.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        let primary = self.primary;
        let order = self.slots.iter().copied().chain([primary]).collect::<Vec<_>>();
        for node in order {
            if let Some(served) = self.nodes[node].served.take() {
                served.end()?;
            }
        }
        Ok(())
    }
}

/// Clients look for the next server by themselves; who is connected when one is to end is hardly waited for.
const STOPPING: [&str; 2] = ["--stop-seconds", "0.1"];

/// So many ports of the loopback that nobody listens on at the moment.
fn free_ports(count: usize) -> Result<Vec<u16>, BenchError> {
    let listeners = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<Vec<_>, _>>();
    let ports = listeners.and_then(|listeners| {
        listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<_>>()
    });
    ports.map_err(|error| BenchError::Answer(format!("there is no free port: {error}")))
}

/// What a server that begins to follow has said about it.
fn how_it_began(said: &[String]) -> &'static str {
    let has_said = |what: &str| said.iter().any(|line| line.contains(what));
    if has_said("cannot go on as a replica") {
        " with a new copy, as it had commits that nobody else has; they are put aside"
    } else if has_said("its log is cut back to") {
        " without a copy: the end of its log, which nobody else has, is put aside"
    } else if has_said("was a primary") {
        " as it is, a former primary with nothing that nobody else has"
    } else if has_said("Copying") {
        " with a copy"
    } else {
        ""
    }
}

/// The server behind this process, once it takes writes.
fn until_it_takes_writes(served: &Served) -> Result<Server, BenchError> {
    let begun = Instant::now();
    loop {
        // It is away for a moment.
        let server = served.server();
        let is_replica =
            server.as_ref().ok().map(|server| server.connect()?.query_text("SHOW in_hot_standby"));
        match (server, is_replica) {
            (Ok(server), Some(Ok(answer))) if answer == "off" => return Ok(server),
            (Err(error), _) if begun.elapsed() > PROMOTING_MAX => return Err(error),
            (Ok(_), _) if begun.elapsed() > PROMOTING_MAX => {
                return Err(BenchError::Answer("the promoted replica takes no writes".to_owned()));
            }
            _ => std::thread::sleep(LOOK),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_former_primary_says_is_understood() {
        let said =
            |lines: &[&str]| how_it_began(&lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>());
        let parted = ["D was a primary, and cannot go on as a replica: parted", "Copying the database of x"];
        assert!(said(&parted).contains("put aside") && said(&parted).contains("with a new copy"));
        let cut = ["D: its log is cut back to LSN 0/7, where it parts from the new primary's"];
        assert!(said(&cut).contains("without a copy"));
        assert!(
            said(&["D was a primary and has nothing that x does not have: it follows"]).contains("as it is")
        );
        assert_eq!(said(&["Copying the database of x"]), " with a copy");
        assert_eq!(said(&[]), "");
    }
}
