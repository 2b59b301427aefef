// SPDX-License-Identifier: Apache-2.0
//! The server that is measured: the one behind the URL of the options, or one that is started for the run.
//!
//! It is a process of its own, so that the files and the memory of clients are not taken for the server's.

use crate::engine::Place;
use crate::error::BenchError;
use crate::machine::ProcessId;
use crate::options::Options;
use crate::served::Served;
use crate::wire::Server;
use std::path::Path;

/// Sessions that are needed beside the connections of the run: those that keep order, and those kept for superusers.
const OTHER_SESSIONS: usize = 16;

/// See the module. The order of the fields is the order of the end: the process is gone before its directory.
pub(super) struct Target {
    server: Server,
    started: Option<Served>,
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
        let Some(program) = &options.server_program else {
            let message = "connections measures a server: --url says where one is";
            return Err(BenchError::Options(message.to_owned()));
        };
        let sessions = (options.connections + OTHER_SESSIONS).to_string();
        let started = Served::start(program, place.path(), &["--max-connections", &sessions])?;
        let server = Server::new(&format!("postgres://bench@{}/coeval", started.address()))?;
        let process = Some(started.process());
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
