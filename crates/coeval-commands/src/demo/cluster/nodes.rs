// SPDX-License-Identifier: Apache-2.0
//! The servers of the demo: processes of this program, each with a directory and a log of its own.

use crate::failure::Failure;
use std::fs::OpenOptions;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// All nodes, counted from 0. They end with this.
pub(super) struct Nodes {
    program: PathBuf,
    dir: PathBuf,
    /// Where all of them are.
    host: Ipv4Addr,
    /// Where clients come, and where the other nodes do.
    ports: Vec<(u16, u16)>,
    running: Vec<Option<Child>>,
}

impl Nodes {
    /// None of them is started.
    ///
    /// # Errors
    /// If there are no ports to be had.
    pub(super) fn new(program: PathBuf, dir: &Path, count: usize) -> Result<Self, Failure> {
        let host = own_host();
        let listener = |_| TcpListener::bind((host, 0));
        let listeners: std::io::Result<Vec<TcpListener>> = (0..2 * count).map(listener).collect();
        let ports = listeners.and_then(|listeners| {
            listeners.iter().map(|listener| listener.local_addr().map(|at| at.port())).collect()
        });
        let ports: Vec<u16> = ports.map_err(|error| Failure::work("there are no ports to be had", error))?;
        Ok(Self {
            program,
            dir: dir.to_owned(),
            host,
            ports: ports.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
            running: (0..count).map(|_| None).collect(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.ports.len()
    }

    /// Where clients reach a node, in libpq's words.
    pub(super) fn words(&self, node: usize) -> String {
        format!("host={},port={},user=coeval", self.host, self.ports[node].0)
    }

    /// Starts a node: the first one makes the cluster, the others join it. It may not listen yet when this returns.
    ///
    /// # Errors
    /// If the system does not let it.
    pub(super) fn start(&mut self, node: usize) -> Result<(), Failure> {
        let (clients, others) = self.ports[node];
        let failed =
            |error: std::io::Error| Failure::work(format_args!("cannot start node {}", node + 1), error);
        let log = self.dir.join(format!("node-{}.log", node + 1));
        let log = OpenOptions::new().create(true).append(true).open(log).map_err(failed)?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg(self.dir.join(format!("node-{}", node + 1)));
        let at = |port: u16| format!("{}:{port}", self.host);
        command.args(["--listen", &at(clients), "--cluster", &at(others)]);
        if node > 0 {
            command.args(["--replica-of", &self.words(0), "--join", &at(self.ports[0].1)]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.running[node] = Some(command.spawn().map_err(failed)?);
        Ok(())
    }

    /// Kills a node, as a loss of power would.
    pub(super) fn kill(&mut self, node: usize) {
        if let Some(mut process) = self.running[node].take() {
            // It may have ended by itself.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// An address of this machine alone at which no connection begins, so that a port that was found free there is still free when a node
/// comes to listen, and comes back. Where there is none, the usual one.
fn own_host() -> Ipv4Addr {
    let [.., second, third, fourth] = std::process::id().to_be_bytes();
    let own = Ipv4Addr::new(127, 64 | second, third, fourth);
    TcpListener::bind((own, 0)).map_or(Ipv4Addr::LOCALHOST, |_| own)
}

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..self.count()).rev().for_each(|node| self.kill(node));
    }
}
