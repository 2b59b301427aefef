// SPDX-License-Identifier: Apache-2.0
//! The servers of the demo: processes of this program, each with a directory and a log of its own.

use crate::failure::Failure;
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// All nodes, counted from 0. They end with this.
pub(super) struct Nodes {
    program: PathBuf,
    dir: PathBuf,
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
        let listener = |_| TcpListener::bind("127.0.0.1:0");
        let listeners: std::io::Result<Vec<TcpListener>> = (0..2 * count).map(listener).collect();
        let ports = listeners.and_then(|listeners| {
            listeners.iter().map(|listener| listener.local_addr().map(|at| at.port())).collect()
        });
        let ports: Vec<u16> = ports.map_err(|error| Failure::work("there are no ports to be had", error))?;
        Ok(Self {
            program,
            dir: dir.to_owned(),
            ports: ports.chunks(2).map(|pair| (pair[0], pair[1])).collect(),
            running: (0..count).map(|_| None).collect(),
        })
    }

    pub(super) fn count(&self) -> usize {
        self.ports.len()
    }

    /// Where clients reach a node, in libpq's words.
    pub(super) fn words(&self, node: usize) -> String {
        format!("host=127.0.0.1,port={},user=coeval", self.ports[node].0)
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
        command.args(["--listen", &format!("127.0.0.1:{clients}")]);
        command.args(["--cluster", &format!("127.0.0.1:{others}")]);
        if node > 0 {
            command.args([
                "--replica-of",
                &self.words(0),
                "--join",
                &format!("127.0.0.1:{}", self.ports[0].1),
            ]);
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

impl Drop for Nodes {
    fn drop(&mut self) {
        (0..self.count()).rev().for_each(|node| self.kill(node));
    }
}
