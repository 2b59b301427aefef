// SPDX-License-Identifier: Apache-2.0
//! The server that a client is run against.

use crate::places::Places;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A server for one client alone; or several, whose hosts and ports are listed with commas.
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: String,
    pub(crate) database: String,
    /// None if it was there before.
    processes: Vec<Child>,
    /// What they have of databases.
    _directories: Option<TempDir>,
}

impl Server {
    /// Starts one, or makes an empty database in the one that `COEVAL_CLIENTS_SERVER` names.
    pub(crate) fn start(client: &str, places: &Places) -> Self {
        let word: String = client.chars().filter(char::is_ascii_alphanumeric).collect();
        let database = format!("clients_{}", word.to_lowercase());
        match env::var("COEVAL_CLIENTS_SERVER") {
            Ok(address) => Self::beside(&address, database, places),
            Err(_) => Self::own(database),
        }
    }

    fn own(database: String) -> Self {
        let (process, host, port) = serve(&["--in-memory"]);
        Self { host, port, database, processes: vec![process], _directories: None }
    }

    /// A replica and its primary; hosts and ports stand in this order. Nothing if another system is asked.
    pub(crate) fn replica_and_primary() -> Option<Self> {
        if env::var_os("COEVAL_CLIENTS_SERVER").is_some() {
            return None;
        }
        let directories = tempfile::tempdir().unwrap();
        let directory = |name| directories.path().join(name).to_str().unwrap().to_owned();
        let (primary, host, port) = serve(&[&directory("primary")]);
        let of = format!("host={host},port={port},user=coeval");
        let (replica, replica_host, replica_port) = serve(&[&directory("replica"), "--replica-of", &of]);
        Some(Self {
            host: format!("{replica_host},{host}"),
            port: format!("{replica_port},{port}"),
            database: "coeval".to_owned(),
            processes: vec![replica, primary],
            _directories: Some(directories),
        })
    }

    fn beside(address: &str, database: String, places: &Places) -> Self {
        let (host, port) = address.split_once(':').unwrap();
        for (program, option) in [("dropdb", Some("--if-exists")), ("createdb", None)] {
            let program = places.of_postgres(program).unwrap();
            let status = Command::new(program)
                .args(["-h", host, "-p", port, "-U", "coeval"])
                .args(option)
                .arg(&database)
                .stderr(Stdio::null())
                .status();
            assert!(status.unwrap().success(), "cannot make the database {database}");
        }
        let (host, port) = (host.to_owned(), port.to_owned());
        Self { host, port, database, processes: Vec::new(), _directories: None }
    }
}

/// Starts a server; it listens when this returns. Its process, host and port.
fn serve(arguments: &[&str]) -> (Child, String, String) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_coeval"))
        .arg("serve")
        .args(arguments)
        .args(["--listen", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
    let listens = said.find_map(|line| line.unwrap().strip_prefix("Listening on ").map(str::to_owned));
    let (host, port) = listens.as_ref().and_then(|address| address.rsplit_once(':')).unwrap();
    let (host, port) = (host.to_owned(), port.to_owned());
    // It must not wait for somebody to read what it says.
    std::thread::spawn(move || said.count());
    (process, host, port)
}

impl Drop for Server {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended by itself, which its client has told.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
