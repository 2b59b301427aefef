// SPDX-License-Identifier: Apache-2.0
//! Three machines, any two of which have what was acknowledged.

use super::{Server, Sql};
use std::net::TcpListener;
use std::path::PathBuf;

pub(super) const NAMES: [&str; 3] = ["north", "south", "west"];

/// Three directories, each of which is served at an address of its own.
pub(super) struct Machines {
    parent: tempfile::TempDir,
    pub(super) ports: [u16; 3],
    pub(super) servers: [Option<Server>; 3],
}

impl Machines {
    /// The first is the primary, the others follow.
    pub(super) fn start() -> Self {
        let free = || TcpListener::bind("127.0.0.1:0").unwrap();
        let ports = [free(), free(), free()].map(|listener| listener.local_addr().unwrap().port());
        let mut machines = Self { parent: tempfile::tempdir().unwrap(), ports, servers: [const { None }; 3] };
        machines.serve(0, &["--synchronous-standby-names", "ANY 1 (north, south, west)"]);
        machines.follow(1, 0);
        machines.follow(2, 0);
        machines
    }

    pub(super) fn dir(&self, machine: usize) -> PathBuf {
        self.parent.path().join(NAMES[machine])
    }

    /// How a machine is reached by the others.
    pub(super) fn address(&self, machine: usize) -> String {
        format!("host=127.0.0.1,port={},user=coeval", self.ports[machine])
    }

    pub(super) fn serve(&mut self, machine: usize, options: &[&str]) {
        let peers = (0..3).filter(|other| *other != machine);
        let peers: Vec<_> =
            peers.map(|other| format!("name={},{}", NAMES[other], self.address(other))).collect();
        let mut all = vec!["--name", NAMES[machine]];
        peers.iter().for_each(|peer| all.extend(["--peer", peer]));
        all.extend(options);
        self.servers[machine] = Some(Server::start(&self.dir(machine), self.ports[machine], &all));
    }

    pub(super) fn follow(&mut self, machine: usize, primary: usize) {
        let address = self.address(primary);
        self.serve(machine, &["--replica-of", &address]);
    }

    pub(super) fn kill(&mut self, machine: usize) {
        self.servers[machine].take().unwrap().kill();
    }

    pub(super) fn server(&self, machine: usize) -> &Server {
        self.servers[machine].as_ref().unwrap()
    }

    pub(super) fn sql(&self, machine: usize) -> Sql {
        Sql::open(self.ports[machine])
    }
}
