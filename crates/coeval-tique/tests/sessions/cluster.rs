// SPDX-License-Identifier: Apache-2.0
//! A PostgreSQL server of a test's own, which can be killed and started again.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::TempDir;

const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// A server on the loopback with its data in a directory that goes with it.
pub(crate) struct Cluster {
    directory: TempDir,
    pub(crate) port: u16,
}

impl Cluster {
    /// A server that runs; none where PostgreSQL 15 is not installed.
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(PROGRAMS).join("initdb").exists() {
            return None;
        }
        let directory = tempfile::tempdir().expect("there is room for a directory");
        if is_root() {
            let place = directory.path();
            assert!(
                Command::new("chown")
                    .arg("postgres")
                    .arg(place)
                    .status()
                    .is_ok_and(|status| status.success())
            );
        }
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.expect("there is a free port").port();
        let cluster = Self { directory, port };
        cluster.run("initdb", &["-A", "trust", "-U", "coeval", "-E", "UTF8", "--locale=C", "-N"]);
        // What a server that is killed had written is the system's: the machine goes on.
        let settings = format!(
            "listen_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\nfsync = off\n"
        );
        std::fs::write(cluster.directory.path().join("data/postgresql.auto.conf"), settings)
            .expect("initdb has made the directory");
        cluster.start_again();
        Some(cluster)
    }

    /// Kills the server as a crash does: nobody is told, nothing is written back.
    pub(crate) fn kill(&self) {
        self.run("pg_ctl", &["stop", "-s", "-m", "immediate"]);
    }

    /// Starts it; it has recovered when this returns.
    pub(crate) fn start_again(&self) {
        let log = self.directory.path().join("data/log");
        self.run(
            "pg_ctl",
            &["start", "-s", "-w", "-l", log.to_str().expect("temporary directories have plain names")],
        );
    }

    /// The address of a database.
    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgresql://coeval@127.0.0.1:{}/{database}", self.port)
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        // It refuses to run for root.
        let mut command = Command::new(if is_root() { "runuser" } else { "env" });
        if is_root() {
            command.args(["-u", "postgres", "--"]);
        }
        command.arg(Path::new(PROGRAMS).join(program)).args(arguments);
        command.arg("-D").arg(self.directory.path().join("data"));
        command.current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
        assert!(command.status().is_ok_and(|status| status.success()), "{program} {arguments:?}");
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Not there if the test has killed it.
        if self.directory.path().join("data/postmaster.pid").exists() {
            self.kill();
        }
    }
}
