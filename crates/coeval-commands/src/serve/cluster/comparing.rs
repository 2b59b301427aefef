// SPDX-License-Identifier: Apache-2.0
//! Whether all replicas of the bricks of spread tables have the same rows: what an operator asks with `coeval cluster check`.
//!
//! All of it is of one snapshot, so it does not matter what is loaded and deleted meanwhile; purge waits as long.

use super::declarations::Declarations;
use super::errors::of_reading;
use coeval::{SqlError, SqlState};
use coeval_cluster::{BrickAddress, BrickSum, Node, NodeId, ReadError};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Compares all; see [`Cluster::compare`](coeval::Cluster::compare).
///
/// # Errors
/// As there.
pub(super) async fn compare(
    node: &Node,
    declarations: &Declarations,
    stop: &AtomicBool,
) -> Result<String, SqlError> {
    let snapshot = node.snapshot().await.map_err(|error| of_reading(&error))?;
    let mut report = Report::default();
    for (table, name) in declarations.spread_tables() {
        // It may have been dropped, or its definition come behind the snapshot.
        let is_gone = |error: &ReadError| {
            matches!(error, ReadError::NoTable(_)) && declarations.columns(table).is_none()
        };
        let bricks = match snapshot.bricks(table).await {
            Err(error) if is_gone(&error) => continue,
            bricks => bricks.map_err(|error| of_reading(&error))?,
        };
        report.tables += 1;
        for brick in bricks {
            if stop.load(Ordering::Relaxed) {
                return Err(SqlError::new(SqlState::QueryCanceled, "the comparison was stopped"));
            }
            match snapshot.replicas(BrickAddress { table, brick }).await {
                Err(error) if is_gone(&error) => break,
                replicas => report.note(&name, brick, &replicas.map_err(|error| of_reading(&error))?),
            }
        }
    }
    Ok(report.text())
}

/// What was found so far.
#[derive(Debug, Default)]
struct Report {
    differences: String,
    tables: usize,
    bricks: usize,
    replicas: usize,
    /// Of one replica of each brick.
    rows: u64,
}

impl Report {
    fn note(&mut self, table: &str, brick: u64, replicas: &BTreeMap<NodeId, BrickSum>) {
        self.bricks += 1;
        self.replicas += replicas.len();
        self.rows += replicas.values().map(|sum| sum.rows).max().unwrap_or_default();
        let mut sums = replicas.values();
        let first = sums.next();
        if sums.all(|other| Some(other) == first) {
            return;
        }
        let said = |(node, BrickSum { rows, sum }): (&NodeId, &BrickSum)| {
            format!("node {} has {rows} rows, whose checksum is {sum:016x}", node.get())
        };
        let said: Vec<String> = replicas.iter().map(said).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(self.differences, "differs: brick {brick} of {table}: {}", said.join("; "));
    }

    fn text(self) -> String {
        let Self { differences, tables, bricks, replicas, rows } = self;
        format!("{differences}{tables} tables, {bricks} bricks, {replicas} replicas, {rows} rows compared")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replicas(said: &[(u32, u64, u64)]) -> BTreeMap<NodeId, BrickSum> {
        said.iter()
            .map(|(node, rows, sum)| (NodeId::new(*node), BrickSum { rows: *rows, sum: *sum }))
            .collect()
    }

    /// To break it: compare counts alone, or the first two replicas.
    #[test]
    fn who_differs_is_named_with_the_brick() {
        let mut report = Report { tables: 1, ..Report::default() };
        report.note("hits", 3, &replicas(&[(1, 10, 7), (2, 10, 7), (5, 10, 7)]));
        report.note("hits", 4, &replicas(&[(2, 5, 1)]));
        assert_eq!(report.differences, "");
        report.note("hits", 7, &replicas(&[(1, 2, 3), (2, 2, 3), (5, 2, 0xab)]));
        report.note("hits", 9, &replicas(&[(1, 1, 6), (5, 0, 0)]));
        let text = report.text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("differs: brick 7 of hits: node 1 has 2 rows, "), "{text}");
        assert!(lines[0].ends_with("; node 5 has 2 rows, whose checksum is 00000000000000ab"), "{text}");
        assert!(lines[1].contains("brick 9 of hits") && lines[1].contains("node 5 has 0 rows"), "{text}");
        assert_eq!(lines[2], "1 tables, 4 bricks, 9 replicas, 18 rows compared");
    }
}
