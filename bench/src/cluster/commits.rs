// SPDX-License-Identifier: Apache-2.0
//! Loads of one row through each of several nodes in turn, one after the other: how long they take, and what nodes send each other for
//! them. Nothing waits for a disk.

use super::messages::ForLoads;
use super::nodes::{Node, Nodes};
use super::{Stage, ratio, tell};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::wire::Connection;
use coeval::{Durability, Value};
use std::time::Instant;
use tokio_postgres::Statement;

/// How many nodes there are.
const NODES: u64 = 5;
const TINY_NODES: u64 = 3;
/// On how many each brick is.
const REPLICAS: usize = 2;
/// Loads of a round, and those before that do not count.
const LOADS: u64 = 2_000;
const TINY_LOADS: u64 = 30;
const WARM_UP: u64 = 200;
const TINY_WARM_UP: u64 = 5;
const TABLE: &str = "ticks";
const CREATE: &str = "CREATE TABLE ticks (slot int, number bigint, value bigint) USING brick \
     PARTITION BY (slot CARDINALITY 64)";
const INSERT: &str = "INSERT INTO ticks VALUES ($1, $2, $3)";
const SLOTS: i32 = 64;

/// What a round has found.
struct Round {
    p50_ms: f64,
    p99_ms: f64,
    loads: u64,
    messages: ForLoads,
}

/// Measures rounds of loads.
///
/// # Errors
/// If a server does not start, or refuses something.
pub(super) fn measure(
    stage: &Stage<'_>,
    progress: &dyn Progress,
    report: &mut Report,
) -> Result<(), BenchError> {
    let count = stage.of_population(NODES, TINY_NODES);
    progress.begin(&format!("start {count} nodes that wait for no disk"), None);
    let nodes = stage.nodes("commit", 0..count as usize, REPLICAS, Durability::None)?;
    nodes.create(TABLE, CREATE)?;
    progress.end();
    let clients: Vec<Client> = nodes.all().iter().map(Client::new).collect::<Result<_, _>>()?;
    let (mut rounds, mut before, mut missing) = (Vec::new(), 0, 0);
    for round in 1..=stage.rounds() {
        progress.begin(&format!("round {round}, loads of one row"), None);
        rounds.push(one_round(stage, &nodes, &clients, &mut before, &mut missing)?);
        progress.end();
        if progress.is_cancelled() {
            break;
        }
    }
    tell_rounds(&rounds, count, report);
    report.check("commit_loads_missing", missing);
    Ok(())
}

/// Who loads through one node.
struct Client {
    connection: Connection,
    insert: Statement,
}

impl Client {
    fn new(node: &Node) -> Result<Self, BenchError> {
        let connection = node.server().connect()?;
        let insert = connection.prepare(INSERT)?;
        Ok(Self { connection, insert })
    }

    /// A load; how long it took, in milliseconds.
    fn load(&self, number: u64) -> Result<f64, BenchError> {
        let number = i64::try_from(number).unwrap_or(i64::MAX);
        let slot = i32::try_from(number % i64::from(SLOTS)).unwrap_or(0);
        let row = [Value::Int32(slot), Value::Int64(number), Value::Int64(7)];
        let started = Instant::now();
        self.connection.run(&self.insert, &row)?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    }
}

/// Loads, one after the other; `before` are those of earlier rounds. Messages are counted when all nodes have heard of all.
fn one_round(
    stage: &Stage<'_>,
    nodes: &Nodes,
    clients: &[Client],
    before: &mut u64,
    missing: &mut u64,
) -> Result<Round, BenchError> {
    let mut load = |count: u64| -> Result<Vec<f64>, BenchError> {
        let numbers = *before..*before + count;
        let times = numbers.zip(clients.iter().cycle()).map(|(number, client)| client.load(number));
        let times = times.collect::<Result<Vec<_>, _>>()?;
        *before += count;
        *missing += nodes.missing(TABLE, *before)?;
        Ok(times)
    };
    load(stage.of_population(WARM_UP, TINY_WARM_UP))?;
    let sent = nodes.messages()?;
    let mut times = load(stage.of_population(LOADS, TINY_LOADS))?;
    let messages = nodes.messages()?.for_loads_since(&sent);
    let p50_ms = median(&mut times);
    // They are in order now.
    let p99_ms = times[(times.len() * 99 / 100).min(times.len() - 1)];
    Ok(Round { p50_ms, p99_ms, loads: times.len() as u64, messages })
}

fn tell_rounds(rounds: &[Round], nodes: u64, report: &mut Report) {
    let of = |value: fn(&Round) -> f64| rounds.iter().map(value).collect::<Vec<_>>();
    let per_load = |count: fn(ForLoads) -> u64| {
        let each = rounds.iter().map(|round| ratio(count(round.messages) as f64, round.loads as f64));
        median(&mut each.collect::<Vec<_>>())
    };
    report.count("commit_nodes", nodes);
    report.note("commit_durability", "none");
    tell("commit_p50_ms", &of(|round| round.p50_ms), report);
    tell("commit_p99_ms", &of(|round| round.p99_ms), report);
    report.figure("messages_per_load", per_load(ForLoads::sum));
    report.figure("requests_per_load", per_load(|messages| messages.requests));
    report.count("requests_per_load_bound", 2 * (nodes - 1));
    report.figure("answers_per_load", per_load(|messages| messages.answers));
    report.figure("decisions_per_load", per_load(|messages| messages.decisions));
    report.figure("heard_per_load", per_load(|messages| messages.heard));
}
