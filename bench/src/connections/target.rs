// SPDX-License-Identifier: Apache-2.0
//! The server that is measured: the one behind the URL of the options, or one that is started for the run.
//!
//! It is a process of its own, so that the files and the memory of clients are not taken for the server's.

use crate::engine::Place;
use crate::error::BenchError;
use crate::machine::ProcessId;
use crate::options::Options;
use crate::wire::Server;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Sessions that are needed beside the connections of the run: those that keep order, and those kept for superusers.
const OTHER_SESSIONS: usize = 16;

/// See the module. The order of the fields is the order of the end: the process is gone before its directory.
pub(super) struct Target {
    server: Server,
    started: Option<Started>,
    process: Option<ProcessId>,
    place: Place,
}

impl Target {
    pub(super) fn new(options: &Options) -> Result<Self, BenchError> {
        let place = Place::new(options)?;
        if let Some(url) = &options.url {
            let server = Server::new(url)?;
            return Ok(Self { server, started: None, process: options.server_process, place });
        }
        let started = Started::new(options, place.path())?;
        let server = Server::new(&format!("postgres://bench@{}/coeval", started.address))?;
        let process = Some(ProcessId(started.process.id()));
        Ok(Self { server, started: Some(started), process, place })
    }

    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// Its first process, if it is known.
    pub(super) fn process(&self) -> Option<ProcessId> {
        debug_assert!(self.started.is_none() || self.process.is_some(), "what was started is known");
        self.process
    }

    /// A directory on the disk of its data.
    pub(super) fn disk(&self) -> &Path {
        self.place.path()
    }
}

/// A server that runs until this is dropped. It is killed then: its database is as durable as that.
struct Started {
    process: Child,
    address: String,
}

impl Started {
    fn new(options: &Options, directory: &Path) -> Result<Self, BenchError> {
        let Some(program) = &options.server_program else {
            let message = "connections measures a server: --url says where one is";
            return Err(BenchError::Options(message.to_owned()));
        };
        let sessions = options.connections + OTHER_SESSIONS;
        let mut process = Command::new(program)
            .arg("serve")
            .arg(directory)
            .args(["--listen", "127.0.0.1:0", "--max-connections", &sessions.to_string()])
            .env("COEVAL_LOG", "error")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the run, which ends the server when it has ended itself.
            .process_group(0)
            .spawn()
            .map_err(|source| BenchError::file(program, source))?;
        let said = process.stderr.take().expect("it is a pipe");
        let mut said = BufReader::new(said).lines().map_while(Result::ok);
        let mut before = Vec::new();
        for line in said.by_ref() {
            if let Some(address) = line.strip_prefix("Listening on ") {
                let address = address.to_owned();
                // What it says later is passed on, and never waits for a reader.
                std::thread::spawn(move || said.for_each(|line| eprintln!("{line}")));
                return Ok(Self { process, address });
            }
            before.push(line);
        }
        // It has closed its output without an address, so it ends or has ended.
        let _ = process.kill();
        let _ = process.wait();
        Err(BenchError::Answer(format!("the server did not start: {}", before.join("\n"))))
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
