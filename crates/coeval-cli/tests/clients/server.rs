// SPDX-License-Identifier: Apache-2.0
//! The server that a client is run against.

use crate::places::Places;
use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server for one client alone.
pub(crate) struct Server {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) database: String,
    /// `None`: it was there before.
    process: Option<Child>,
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
        let mut process = Command::new(env!("CARGO_BIN_EXE_coeval"))
            .args(["serve", "--in-memory", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stderr.take().unwrap()).lines();
        let listens = said.find_map(|line| line.unwrap().strip_prefix("Listening on ").map(str::to_owned));
        let (host, port) = listens.as_ref().and_then(|address| address.rsplit_once(':')).unwrap();
        // It must not wait for somebody to read what it says.
        std::thread::spawn(move || said.count());
        Self { host: host.to_owned(), port: port.parse().unwrap(), database, process: Some(process) }
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
        Self { host: host.to_owned(), port: port.parse().unwrap(), database, process: None }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may have ended by itself, which its client has told.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
