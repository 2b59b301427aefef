// SPDX-License-Identifier: Apache-2.0
//! An aggregating scan of the same rows on two nodes, on one, and by that one without a cluster; and what a second core gives one
//! process, which two nodes can hardly beat.

use super::nodes::Nodes;
use super::{Stage, order, ratio, tell};
use crate::directories::removed;
use crate::error::BenchError;
use crate::pinning::Cores;
use crate::progress::Progress;
use crate::report::Report;
use crate::served::Served;
use crate::system::Console;
use crate::wire::Server;
use std::time::Instant;

/// The table that is spread, and the one of a database alone.
const SPREAD: &str = "facts";
const OWN: &str = "own_facts";
/// Values of the dimension; the scan groups by them.
const SLOTS: u64 = 1_024;
/// Rows of a load that fills a table.
const PIECE_ROWS: u64 = 1 << 20;

/// 256 bricks, so that two nodes have nearly the same of them.
fn create(table: &str, more: &str) -> String {
    format!(
        "CREATE TABLE {table} (slot int, m1 bigint, m2 bigint) USING brick \
         PARTITION BY (slot CARDINALITY {SLOTS} RANGE SIZE 4){more}"
    )
}

/// What is asked: one line, by which answers are compared.
fn scan(table: &str) -> String {
    format!(
        "SELECT count(*)::text || ' ' || sum(held)::text || ' ' || sum(total)::text || ' ' || max(most)::text FROM \
         (SELECT slot, count(*) AS held, sum(m1) AS total, max(m2) AS most FROM {table} GROUP BY slot) AS sums"
    )
}

/// Whom a scan is asked of, and where the client runs.
struct Target<'a> {
    name: &'static str,
    server: &'a Server,
    table: &'static str,
    cores: Cores,
}

impl Target<'_> {
    /// The answer, and how long it took, in milliseconds.
    fn ask(&self) -> Result<(String, f64), BenchError> {
        let sql = scan(self.table);
        self.cores.run(|| {
            let connection = self.server.connect()?;
            let started = Instant::now();
            let answer = connection.query_text(&sql)?;
            Ok((answer, started.elapsed().as_secs_f64() * 1e3))
        })
    }
}

/// Measures all of it.
///
/// # Errors
/// If a server does not start, or refuses something.
pub(super) fn measure(
    stage: &Stage<'_>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let durability = stage.options.durability;
    progress.begin("start a node of one cluster, and two of another", None);
    let one = stage.nodes("scan-one", 0..1, 1, durability)?;
    let two = stage.nodes("scan-two", 0..2, 1, durability)?;
    progress.end();
    let rows = stage.rows();
    report.count("scan_rows", rows);
    for (nodes, table, more) in [(&two, SPREAD, ""), (&one, SPREAD, ""), (&one, OWN, " WITH (replicas = 0)")]
    {
        nodes.create(table, &create(table, more))?;
        fill(nodes.first(), table, rows, progress)?;
    }
    let missing = two.missing(SPREAD, rows)? + one.missing(SPREAD, rows)? + one.missing(OWN, rows)?;
    report.check("scan_rows_missing", missing);
    report.figure("scan_largest_share", two.largest_share()?);
    let [two_nodes, one_node, own_table] = {
        let both = stage.cores.first(2);
        let targets = [
            Target { name: "scan_two_nodes_ms", server: two.first(), table: SPREAD, cores: both },
            of_one("scan_one_node_ms", &one, SPREAD),
            of_one("scan_own_table_ms", &one, OWN),
        ];
        in_turn(&targets, stage, progress, report)?
    };
    report.figure("scan_two_nodes_ratio", ratio(two_nodes, one_node));
    report.figure("distributed_over_local_ratio", ratio(one_node, own_table));
    // Its rows need no memory any more.
    drop(two);
    measure_ceiling(stage, &one, progress, report)
}

/// A second core for one process, without a cluster.
fn measure_ceiling(
    stage: &Stage<'_>,
    one: &Nodes,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let (both, rows) = (stage.cores.first(2), stage.rows());
    let directory = removed(stage.place, "scan-two-cores")?;
    let served = Served::start_on(&both, stage.program, &directory, &[])?;
    let server = served.server()?;
    server.connect()?.execute(&create(OWN, ""))?;
    fill(&server, OWN, rows, progress)?;
    let targets = [
        Target { name: "scan_two_cores_ms", server: &server, table: OWN, cores: both },
        of_one("scan_one_core_ms", one, OWN),
    ];
    let [two_cores, one_core] = in_turn(&targets, stage, progress, report)?;
    report.figure("scan_two_cores_ratio", ratio(two_cores, one_core));
    Ok(())
}

fn of_one<'a>(name: &'static str, one: &'a Nodes, table: &'static str) -> Target<'a> {
    Target { name, server: one.first(), table, cores: one.all()[0].cores.clone() }
}

/// Adds rows in pieces: the same ones everywhere.
fn fill(server: &Server, table: &str, rows: u64, progress: &dyn Progress) -> Result<(), BenchError> {
    progress.begin(&format!("fill {table}"), Some(rows));
    let mut connection = server.connect()?;
    let mut filled = 0;
    while filled < rows {
        let (first, last) = (filled + 1, rows.min(filled + PIECE_ROWS));
        connection.execute(&format!(
            "INSERT INTO {table} SELECT (i % {SLOTS})::int, i % 1000003, (i * 7919) % 1000000 \
             FROM generate_series({first}::bigint, {last}::bigint) AS g(i)"
        ))?;
        progress.advance(last - filled);
        filled = last;
    }
    progress.end();
    Ok(())
}

/// Asks all of them in each round, after a first time that does not count, and compares their answers. Gives the medians in
/// milliseconds.
fn in_turn<const N: usize>(
    targets: &[Target<'_>; N],
    stage: &Stage<'_>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<[f64; N], BenchError> {
    let (rounds, mut differing, mut times) = (stage.rounds(), 0, vec![Vec::new(); N]);
    progress.begin("scan in turn", Some(rounds as u64));
    let (expected, _) = targets[0].ask()?;
    for target in &targets[1..] {
        differing += u64::from(target.ask()?.0 != expected);
    }
    for round in 0..rounds {
        for place in order(round, N) {
            let (answer, ms) = targets[place].ask()?;
            differing += u64::from(answer != expected);
            times[place].push(ms);
        }
        progress.advance(1);
        if progress.is_cancelled() {
            break;
        }
    }
    progress.end();
    report.check(format!("{}_answers_that_differ", targets[0].name.trim_end_matches("_ms")), differing);
    let mut medians = [0.0; N];
    for ((target, times), median) in targets.iter().zip(&times).zip(&mut medians) {
        *median = tell(target.name, times, report);
    }
    Ok(medians)
}
