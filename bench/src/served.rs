// SPDX-License-Identifier: Apache-2.0
//! A server of this program as a process of its own, which is gone when whoever started it is.

use crate::error::BenchError;
use crate::machine::ProcessId;
use crate::pinning::Cores;
use crate::wire::Server;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How lines begin that a server says whenever it listens, and again behind its promotion, or is asked to end.
const ROUTINE: [&str; 3] = ["Stopping;", "Listening on ", "Figures at "];

/// What is done to a process from outside, by the names of signals.
#[derive(Clone, Copy, Debug)]
enum Signal {
    End,
    Halt,
    GoOn,
}

impl Signal {
    const fn name(self) -> &'static str {
        match self {
            Self::End => "-TERM",
            Self::Halt => "-STOP",
            Self::GoOn => "-CONT",
        }
    }
}

/// A server that runs until this is dropped, and is killed then: its database is as durable as that.
pub(crate) struct Served {
    process: Child,
    address: String,
    said: Vec<String>,
}

impl Served {
    /// Starts one on a directory, at a free port of the loopback. It listens when this returns.
    ///
    /// # Errors
    /// If the program cannot be started, or ends instead of listening; the error has what it said.
    pub(crate) fn start(program: &Path, directory: &Path, arguments: &[&str]) -> Result<Self, BenchError> {
        Self::start_at(program, directory, 0, arguments)
    }

    /// The same at this port; 0 is any that is free.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub(crate) fn start_at(
        program: &Path,
        directory: &Path,
        port: u16,
        arguments: &[&str],
    ) -> Result<Self, BenchError> {
        Self::launch(&mut Command::new(program), directory, port, arguments)
    }

    /// As [`start`](Self::start), on these cores alone.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn start_on(
        cores: &Cores,
        program: &Path,
        directory: &Path,
        arguments: &[&str],
    ) -> Result<Self, BenchError> {
        Self::launch(&mut cores.command(program), directory, 0, arguments)
    }

    fn launch(
        command: &mut Command,
        directory: &Path,
        port: u16,
        arguments: &[&str],
    ) -> Result<Self, BenchError> {
        let mut process = command
            .arg("serve")
            .arg(directory)
            .args(["--listen", &format!("127.0.0.1:{port}"), "--while-input-lasts"])
            .args(arguments)
            .env("COEVAL_LOG", "error")
            // It ends with us, whatever becomes of us.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            // Ctrl-C is for the run, which ends the server when it has ended itself.
            .process_group(0)
            .spawn()
            .map_err(|source| BenchError::file(command.get_program(), source))?;
        let lines = process.stderr.take().expect("it is a pipe");
        let mut lines = BufReader::new(lines).lines().map_while(Result::ok);
        let mut said = Vec::new();
        for line in lines.by_ref() {
            if let Some(address) = line.strip_prefix("Listening on ") {
                let address = address.to_owned();
                // What it says later is passed on, but for what belongs to its ends and promotions; it never waits for a reader.
                let is_news = |line: &String| !ROUTINE.iter().any(|begin| line.starts_with(begin));
                std::thread::spawn(move || lines.filter(is_news).for_each(|line| eprintln!("{line}")));
                return Ok(Self { process, address, said });
            }
            said.push(line);
        }
        // It has closed its output without an address, so it ends or has ended.
        let _ = process.kill();
        let _ = process.wait();
        Err(BenchError::Answer(format!("the server did not start: {}", said.join("\n"))))
    }

    /// It, for clients whose transactions read the newest state unless they say otherwise: a replica that knows of no safe
    /// snapshot refuses others.
    ///
    /// # Errors
    /// If it does not answer.
    pub(crate) fn server(&self) -> Result<Server, BenchError> {
        let level = "options=-c%20default_transaction_isolation%3Drepeatable%5C%20read";
        Server::new(&format!("postgres://bench@{}/coeval?{level}", self.address))
    }

    /// Where it listens: a host and a port.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What `--replica-of` calls it, with the name of who follows it.
    pub(crate) fn as_primary_of(&self, follower: &str) -> String {
        format!("{},application_name={follower}", self.as_primary())
    }

    /// The same, whoever follows it.
    pub(crate) fn as_primary(&self) -> String {
        let (host, port) = self.address.rsplit_once(':').expect("it listens on a host and a port");
        format!("host={host},port={port},user=bench")
    }

    /// Its process.
    pub(crate) fn process(&self) -> ProcessId {
        ProcessId(self.process.id())
    }

    /// What it said before it listened, line by line.
    pub(crate) fn said(&self) -> &[String] {
        &self.said
    }

    /// Stops it where it is, as a machine that does not answer, until it [goes on](Self::go_on).
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn halt(&self) -> Result<(), BenchError> {
        self.send(Signal::Halt)
    }

    /// Lets it go on behind [`halt`](Self::halt).
    ///
    /// # Errors
    /// If the system refuses.
    pub(crate) fn go_on(&self) -> Result<(), BenchError> {
        self.send(Signal::GoOn)
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// If it ends with another code than 0.
    pub(crate) fn end(mut self) -> Result<(), BenchError> {
        // Waiting would close it, and the server would end at once.
        let _input = self.process.stdin.take();
        self.send(Signal::End)?;
        let ended = self.process.wait().map_err(BenchError::Client)?;
        if ended.success() {
            return Ok(());
        }
        Err(BenchError::Answer(format!("the server at {} has ended: {ended}", self.address)))
    }

    fn send(&self, signal: Signal) -> Result<(), BenchError> {
        let process = self.process.id().to_string();
        let sent = Command::new("kill").args([signal.name(), &process]).status();
        match sent.map_err(|source| BenchError::file("kill", source))? {
            status if status.success() => Ok(()),
            status => Err(BenchError::Answer(format!("kill {} {process}: {status}", signal.name()))),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // If it has ended by itself, there is nothing to kill.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
