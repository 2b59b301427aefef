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

/// How lines of figures begin that count messages, and their bytes.
const COUNTS: &str = "coeval_cluster_messages_total";
const BYTES: &str = "coeval_cluster_message_bytes_total";

/// Messages that were sent, by kind, and the bytes of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Messages {
    kinds: BTreeMap<String, u64>,
    bytes: u64,
}

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
        for (kind, sent) in &other.kinds {
            *self.kinds.entry(kind.clone()).or_default() += sent;
        }
        self.bytes += other.bytes;
        self
    }

    /// Bytes that were sent since then, of all kinds.
    pub(super) fn bytes_since(&self, before: &Self) -> u64 {
        self.bytes.saturating_sub(before.bytes)
    }

    /// What loads cost since then.
    pub(super) fn for_loads_since(&self, before: &Self) -> ForLoads {
        let of = |messages: &Self, kind: &str| messages.kinds.get(kind).copied().unwrap_or(0);
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
        let bytes = sent_of(figures, BYTES).map(|(_, bytes)| bytes).sum();
        Self { kinds: sent_of(figures, COUNTS).collect(), bytes }
    }
}

/// What figures of this name say of each kind that was sent.
fn sent_of<'a>(figures: &'a str, name: &'a str) -> impl Iterator<Item = (String, u64)> + 'a {
    figures.lines().filter_map(move |line| {
        let line = line.strip_prefix(name)?.strip_prefix("{kind=\"")?;
        let (kind, sent) = line.split_once("\",way=\"sent\"} ")?;
        Some((kind.to_owned(), sent.trim().parse::<u64>().ok()?))
    })
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
        messages if messages.kinds.is_empty() => {
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
        let of = |kind: &str, sent, bytes| {
            let kinds = BTreeMap::from([(kind.to_owned(), sent)]);
            Messages { kinds, bytes }
        };
        let before = of("begin", 2, 1_000);
        let of_both = Messages::read(FIGURES).with(&of("heard", 5, 50));
        let found = of_both.for_loads_since(&before);
        assert_eq!(found, ForLoads { requests: 6, answers: 3, decisions: 0, heard: 5 });
        assert_eq!((found.sum(), of_both.bytes_since(&before)), (14, 3_050));
        assert_eq!(Messages::read("404"), Messages::default());
    }
}
