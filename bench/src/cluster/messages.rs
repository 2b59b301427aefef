// SPDX-License-Identifier: Apache-2.0
//! What nodes of a cluster send each other, as their figures tell it.

use crate::error::BenchError;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest time that a server may take for its figures.
const PATIENCE: Duration = Duration::from_secs(10);

/// What asks for something, what answers, what tells of the decision, and what says that this was heard.
const REQUESTS: [&str; 4] = ["begin", "append", "commit", "cut"];
const ANSWERS: [&str; 5] = ["begun", "appended", "commit_logged", "rows_missing", "cut_logged"];
const DECISIONS: [&str; 2] = ["decided", "ended"];
const HEARD: [&str; 1] = ["heard"];

/// Messages that were sent, by kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Messages(BTreeMap<String, u64>);

/// Those that loads cost, by what they are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ForLoads {
    pub(super) requests: u64,
    pub(super) answers: u64,
    pub(super) decisions: u64,
    pub(super) heard: u64,
}

impl ForLoads {
    /// All of them.
    pub(super) fn sum(self) -> u64 {
        self.requests + self.answers + self.decisions + self.heard
    }
}

impl Messages {
    /// These and those of another node.
    pub(super) fn with(mut self, other: &Self) -> Self {
        for (kind, sent) in &other.0 {
            *self.0.entry(kind.clone()).or_default() += sent;
        }
        self
    }

    /// What loads cost since then.
    pub(super) fn for_loads_since(&self, before: &Self) -> ForLoads {
        let of = |messages: &Self, kind: &str| messages.0.get(kind).copied().unwrap_or(0);
        let sum = |kinds: &[&str]| -> u64 {
            kinds.iter().map(|&kind| of(self, kind).saturating_sub(of(before, kind))).sum()
        };
        ForLoads {
            requests: sum(&REQUESTS),
            answers: sum(&ANSWERS),
            decisions: sum(&DECISIONS),
            heard: sum(&HEARD),
        }
    }

    fn read(figures: &str) -> Self {
        let read = |line: &str| {
            let line = line.strip_prefix("coeval_cluster_messages_total{kind=\"")?;
            let (kind, sent) = line.split_once("\",way=\"sent\"} ")?;
            Some((kind.to_owned(), sent.trim().parse::<u64>().ok()?))
        };
        Self(figures.lines().filter_map(read).collect())
    }
}

/// What a node has sent so far, as its figures at this address tell.
///
/// # Errors
/// If they are not there, or a server answers that is no node.
pub(super) fn messages_of(figures: SocketAddr) -> Result<Messages, BenchError> {
    let text = page(figures).map_err(|error| {
        BenchError::Answer(format!("the figures at {figures} are not to be had: {error}"))
    })?;
    match Messages::read(&text) {
        Messages(kinds) if kinds.is_empty() => {
            Err(BenchError::Answer(format!("the figures at {figures} are not those of a node: {text}")))
        }
        messages => Ok(messages),
    }
}

fn page(at: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&at, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream
        .write_all(format!("GET /metrics HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIGURES: &str = "\
HTTP/1.1 200 OK

# TYPE coeval_cluster_messages_total counter
coeval_cluster_messages_total{kind=\"begin\",way=\"sent\"} 8
coeval_cluster_messages_total{kind=\"begin\",way=\"received\"} 4
coeval_cluster_messages_total{kind=\"begun\",way=\"sent\"} 3
coeval_cluster_messages_total{kind=\"alive\",way=\"sent\"} 100
coeval_cluster_message_bytes_total{kind=\"begin\",way=\"sent\"} 4000
";

    #[test]
    fn what_loads_cost_is_read_from_figures() {
        let before = Messages(BTreeMap::from([("begin".to_owned(), 2)]));
        let of_both = Messages::read(FIGURES).with(&Messages(BTreeMap::from([("heard".to_owned(), 5)])));
        let found = of_both.for_loads_since(&before);
        assert_eq!(found, ForLoads { requests: 6, answers: 3, decisions: 0, heard: 5 });
        assert_eq!(found.sum(), 14);
        assert_eq!(Messages::read("404"), Messages::default());
    }
}
