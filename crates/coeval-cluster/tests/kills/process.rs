// SPDX-License-Identifier: Apache-2.0
//! Processes that are nodes, as the one that starts them has them.

use crate::child::MARK;
use coeval_cluster::{Epoch, EpochSet};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What all processes have said.
#[derive(Default)]
pub(crate) struct Said {
    /// Loads that were acknowledged, with their labels.
    pub(crate) acknowledged: BTreeMap<u64, Epoch>,
    /// What deletes see that may have been decided.
    pub(crate) deletes: Vec<EpochSet>,
    /// What those see that were acknowledged.
    pub(crate) deleted: Vec<EpochSet>,
    pub(crate) reads: usize,
    pub(crate) broken: Vec<String>,
}

/// A process that is a node.
pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Process {
    /// Starts the node of this number.
    pub(crate) fn start(
        number: usize,
        directory: &Path,
        addresses: &str,
        keeper: &str,
        said: &Arc<Mutex<Said>>,
    ) -> Self {
        let own = directory.join(format!("n{number}"));
        std::fs::create_dir_all(&own).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([MARK, &number.to_string(), own.to_str().unwrap(), addresses, keeper])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (told, answers) = channel();
        let said = Arc::clone(said);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let (what, rest) = line.split_once(' ').unwrap_or((line.as_str(), ""));
                let mut said = said.lock().unwrap();
                match what {
                    "acknowledged" => {
                        let (load, label) = rest.split_once(' ').unwrap();
                        said.acknowledged.insert(load.parse().unwrap(), Epoch::new(label.parse().unwrap()));
                    }
                    "deletes" => said.deletes.push(read_set(rest)),
                    "deleted" => said.deleted.push(read_set(rest)),
                    "read" => said.reads += 1,
                    "broken" => said.broken.push(format!("n{number}: {rest}")),
                    "answer" => drop(told.send(rest.to_owned())),
                    _ => said.broken.push(format!("n{number} says {line}")),
                }
            }
        });
        Self { child, input, answers }
    }

    /// Ends it with SIGKILL.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Has it stand still, or go on.
    pub(crate) fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    pub(crate) fn tell(&mut self, order: &str) {
        writeln!(self.input, "{order}").unwrap();
    }

    /// What it answers to an order.
    pub(crate) fn ask(&mut self, order: &str) -> String {
        self.tell(order);
        self.answers.recv_timeout(Duration::from_secs(60)).expect("a node answers")
    }
}

/// A set of epochs: its newest one, and its exceptions.
fn read_set(text: &str) -> EpochSet {
    let mut numbers = text.split_whitespace().map(|number| Epoch::new(number.parse().unwrap()));
    let newest = numbers.next().unwrap();
    EpochSet::through(newest).without(numbers)
}
