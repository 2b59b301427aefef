// SPDX-License-Identifier: Apache-2.0
//! COPY into a spread table, by as many clients through two nodes and through one, and through two that both have each brick.

use super::nodes::{Node, Nodes};
use super::{Stage, order, ratio, tell};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::report::Report;
use crate::system::Console;
use bytes::Bytes;
use std::time::{Duration, Instant};

const TABLE: &str = "arrivals";
const CREATE: &str = "CREATE TABLE arrivals (slot int, m1 bigint, m2 bigint) USING brick \
     PARTITION BY (slot CARDINALITY 1024 RANGE SIZE 16)";
const COPY: &str = "COPY arrivals FROM STDIN";
/// Clients, whoever they come to.
const LOADERS: usize = 2;
/// Rows of a load.
const LOAD_ROWS: u64 = 16_384;
const TINY_LOAD_ROWS: u64 = 256;
/// The warm-up, as a part of what is measured.
const WARM_UP: f64 = 0.1;

/// Measures all three in turn.
///
/// # Errors
/// If a server does not start, or refuses something.
pub(super) fn measure(
    stage: &Stage<'_>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let durability = stage.options.durability;
    progress.begin("start one node, two, and two with two replicas", None);
    let clusters = [
        ("load_two_nodes_rows_per_s", stage.nodes("load-two", 2, 1, durability)?),
        ("load_one_node_rows_per_s", stage.nodes("load-one", 1, 1, durability)?),
        ("load_two_replicas_rows_per_s", stage.nodes("load-replicas", 2, 2, durability)?),
    ];
    clusters.iter().try_for_each(|(_, nodes)| nodes.create(TABLE, CREATE))?;
    progress.end();
    let load_rows = stage.of_population(LOAD_ROWS, TINY_LOAD_ROWS);
    let load = Load { text: text_of(load_rows), seconds: stage.options.seconds };
    let (mut rates, mut missing) = (vec![Vec::new(); clusters.len()], 0);
    for round in 0..stage.rounds() {
        for place in order(round, clusters.len()) {
            let (name, nodes) = &clusters[place];
            progress.begin(&format!("round {}, {name}", round + 1), None);
            let loaded = load.phase(nodes)?;
            missing += nodes.missing(TABLE, loaded.rows)?;
            nodes.first().connect()?.execute(&format!("TRUNCATE {TABLE}"))?;
            missing += nodes.missing(TABLE, 0)?;
            rates[place].push(loaded.rows_per_s);
            progress.end();
        }
        if progress.is_cancelled() {
            break;
        }
    }
    report.count("load_rows", load_rows);
    report.count("loaders", LOADERS as u64);
    let [two_nodes, one_node, two_replicas] =
        [0, 1, 2].map(|place| tell(clusters[place].0, &rates[place], report));
    report.figure("load_two_nodes_ratio", ratio(two_nodes, one_node));
    report.figure("load_two_replicas_ratio", ratio(two_replicas, two_nodes));
    report.check("load_rows_missing", missing);
    Ok(())
}

/// What each client sends again and again.
struct Load {
    text: Bytes,
    /// For how long it counts.
    seconds: f64,
}

/// What clients have done together.
#[derive(Clone, Copy, Debug, Default)]
struct Loaded {
    /// All of them, those of the warm-up too.
    rows: u64,
    rows_per_s: f64,
}

impl Load {
    /// All clients at once, each through the next of the nodes.
    fn phase(&self, nodes: &Nodes) -> Result<Loaded, BenchError> {
        std::thread::scope(|scope| {
            let nodes = nodes.all().iter().cycle().take(LOADERS);
            let clients: Vec<_> = nodes.map(|node| scope.spawn(move || self.client(node))).collect();
            let loaded = clients.into_iter().map(|client| client.join().expect("a client does not panic"));
            loaded.sum::<Result<Loaded, BenchError>>()
        })
    }

    /// One client, on the cores of its node.
    fn client(&self, node: &Node) -> Result<Loaded, BenchError> {
        node.cores.keep_this_thread()?;
        let connection = node.server().connect()?;
        let send = |seconds: f64| -> Result<(u64, f64), BenchError> {
            let (begun, mut rows) = (Instant::now(), 0);
            while begun.elapsed() < Duration::from_secs_f64(seconds) {
                rows += connection.copy_text(COPY, std::slice::from_ref(&self.text))?;
            }
            Ok((rows, begun.elapsed().as_secs_f64()))
        };
        let (before, _) = send(self.seconds * WARM_UP)?;
        let (rows, seconds) = send(self.seconds)?;
        Ok(Loaded { rows: before + rows, rows_per_s: ratio(rows as f64, seconds) })
    }
}

impl std::iter::Sum for Loaded {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            rows: sum.rows + one.rows,
            rows_per_s: sum.rows_per_s + one.rows_per_s,
        })
    }
}

/// So many rows as COPY reads them, in all bricks.
fn text_of(rows: u64) -> Bytes {
    let row = |row: u64| format!("{}\t{}\t{}\n", row % 1_024, row * 31, row * 7_919 % 1_000_000);
    (0..rows).map(row).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_its_rows_and_clients_add_up() {
        assert_eq!(text_of(2), "0\t0\t0\n1\t31\t7919\n");
        let loaded = [Ok(Loaded { rows: 3, rows_per_s: 1.5 }), Ok(Loaded { rows: 4, rows_per_s: 2.0 })];
        let sum: Result<Loaded, BenchError> = loaded.into_iter().sum();
        let sum = sum.unwrap();
        assert_eq!((sum.rows, sum.rows_per_s), (7, 3.5));
    }
}
