// SPDX-License-Identifier: Apache-2.0
//! A primary that is lost under load: TPC-C's terminals go on at the replica that is promoted in its place, queries go on being
//! answered, and everything that was acknowledged is looked for.
//!
//! ```text
//! the first half     terminals and a witness -> primary, each commit waits until any one replica has it durably
//!                    streams of CH-benCHmark's queries, SERIALIZABLE -> each replica, TPC-C's conditions in each snapshot
//! then               kill -9 of the primary; the replica with the longest log is promoted; what was acknowledged is counted
//!                    the others follow it, and so does the former primary, with a new copy if it has what nobody else has
//! the second half    as the first
//! at the end         all conditions on all nodes, the rows of all replicas, and once more what was acknowledged
//! ```
//!
//! The servers are processes of their own on this machine.

mod acknowledged;
mod cluster;
mod reader;
mod stage;
mod terminal;
mod witness;

use crate::board::join;
use crate::error::BenchError;
use crate::followed::{log_end, wait_until_safe_has_all, wait_until_shown};
use crate::options::{Options, Readers};
use crate::system::Console;
use crate::tpcc::{Kind, schema, violations_at};
use acknowledged::{Before, Losses};
use cluster::Cluster;
use coeval::Isolation;
use stage::{Age, Stage};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often those who watch are told.
const TICK: Duration = Duration::from_millis(250);

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program `coeval`.
    pub program: PathBuf,
    /// A directory for each node, which is called as that is. The first one holds CH-benCHmark's population; the others are new.
    pub directories: Vec<PathBuf>,
    /// Terminals (`threads`), streams for each replica, seconds of both halves together, and what the population is.
    pub options: Options,
}

/// Who is told what happens.
pub trait Watch: Sync {
    /// Something happened, in a sentence or less.
    fn tell(&self, event: &str);
    /// The node of this number is about to be promoted, and has everything from then on.
    fn promotes(&self, node: usize);
    /// About four times a second while terminals run.
    fn show(&self, moment: &Moment);
    /// Whether to end early. Asked as often.
    fn is_cancelled(&self) -> bool;
}

/// How things stand.
#[derive(Clone, Debug, Default)]
pub struct Moment {
    /// Since the terminals began.
    pub elapsed: Duration,
    /// How long all takes, as far as that is known.
    pub total: Duration,
    /// Transactions committed per second since the last moment.
    pub transactions_per_s: f64,
    /// All of them.
    pub committed: u64,
    /// Latencies since the last moment.
    pub latency_p50: Duration,
    /// See there.
    pub latency_p99: Duration,
    /// The replicas.
    pub replicas: Vec<ReplicaMoment>,
    /// Conditions that were checked in snapshots.
    pub checks: u64,
    /// Rows that violated one.
    pub violations: u64,
}

/// How a replica stands.
#[derive(Clone, Debug, Default)]
pub struct ReplicaMoment {
    /// The node.
    pub name: String,
    /// Queries that were answered there, or by the one that was the replica before.
    pub queries: u64,
    /// The age of its safe snapshot, if it answers.
    pub age: Option<Duration>,
}

/// What one kind of transaction came to.
#[derive(Clone, Debug)]
pub struct Done {
    /// As in reports.
    pub name: &'static str,
    /// Acknowledged.
    pub committed: u64,
    /// Attempts that were refused and made again.
    pub conflicts: u64,
    /// Milliseconds from the first attempt to the acknowledgement.
    pub latency_p50_ms: f64,
    /// See there.
    pub latency_p99_ms: f64,
}

/// The loss of the primary.
#[derive(Clone, Debug)]
pub struct Loss {
    /// When, since the terminals began.
    pub at: Duration,
    /// The longest time between two commits of the witness around it.
    pub outage: Duration,
    /// The node that was the primary.
    pub lost: String,
    /// The node that is it now.
    pub promoted: String,
    /// Transactions that had been acknowledged by then.
    pub acknowledged: u64,
}

/// All that was done and found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// By kinds of transaction.
    pub done: Vec<Done>,
    /// How long terminals ran.
    pub lasted: Duration,
    /// Queries that replicas answered.
    pub queries: u64,
    /// Conditions that were checked in their snapshots.
    pub snapshot_checks: u64,
    /// The loss; none if the run was ended before.
    pub loss: Option<Loss>,
    /// For each replica: when its safe snapshot was how old; no age while it did not answer.
    pub ages: Vec<Vec<(Duration, Option<Duration>)>>,
    /// Each check with what violates it.
    pub checks: Vec<(String, u64)>,
}

impl Outcome {
    /// Everything that violates a check.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.checks.iter().map(|(_, violations)| violations).sum()
    }
}

/// Runs all of it. The servers have ended when this returns, and the directories hold their databases.
///
/// # Errors
/// If a server does not start, is not promoted, or refuses what it must not. Violations are no error: they are in the outcome.
pub fn run(plan: &Plan, watch: &dyn Watch) -> Result<Outcome, BenchError> {
    let options = Options { isolation: Isolation::Serializable, ..plan.options.clone() };
    let mut cluster = Cluster::start(plan, watch)?;
    let primary = cluster.primary_server()?;
    let before = Before::count(&mut primary.connect()?)?;
    let stage = Stage::new(cluster.replica_servers()?);
    stage.begin(primary)?;
    let mut checks = Vec::new();
    let started = Instant::now();
    let (loss, ages) = std::thread::scope(|scope| {
        let (stage, options) = (&stage, &options);
        let mut threads = Vec::new();
        for thread in 0..options.threads {
            threads.push(scope.spawn(move || terminal::run(stage, options, thread)));
        }
        threads.push(scope.spawn(move || witness::run(stage)));
        for slot in 0..stage.slots() {
            for stream in 0..options.streams {
                threads.push(scope.spawn(move || reader::run(stage, slot, stream)));
            }
            threads.push(scope.spawn(move || reader::watch_age(stage, slot)));
        }
        let conductor = Conductor { stage, watch, before: &before, options, started };
        let loss = conductor.run(&mut cluster, &mut checks);
        stage.stop();
        // If a thread has failed, that is why the conductor could not go on.
        join(threads)?;
        Ok::<_, BenchError>((loss?, stage.take_ages()))
    })?;
    let lasted = started.elapsed();
    watch.tell("checking all nodes");
    checks.push(("tpcc_conditions_in_snapshots".to_owned(), stage.violations()));
    checks.push(("queries_refused".to_owned(), stage.refused()));
    let losses = if loss.is_some() { Losses::One } else { Losses::None };
    let primary = cluster.primary_server()?;
    checks.extend(before.compare(&stage, losses, options.threads, "at_the_end", &primary)?);
    check_nodes(&cluster, &mut checks)?;
    cluster.end()?;
    let done = Kind::ALL.map(|kind| stage.done(kind)).to_vec();
    Ok(Outcome {
        done,
        lasted,
        queries: (0..stage.slots()).map(|slot| stage.queries(slot)).sum(),
        snapshot_checks: stage.checks(),
        loss: loss.map(|loss| Loss { outage: stage.longest_pause(), ..loss }),
        ages: ages
            .into_iter()
            .map(|slot| slot.into_iter().map(|Age { at, age }| (at, age)).collect())
            .collect(),
        checks,
    })
}

/// TPC-C's conditions on all nodes, and whether replicas have as many rows as the primary.
fn check_nodes(cluster: &Cluster, checks: &mut Vec<(String, u64)>) -> Result<(), BenchError> {
    let primary = cluster.primary_server()?;
    let end = log_end(&primary)?;
    let mut console = primary.connect()?;
    checks.push((
        "conditions_on_the_primary".to_owned(),
        violations_at(&mut console, Readers::Snapshot.begin())?,
    ));
    for (name, replica) in cluster.replicas()? {
        wait_until_shown(&replica, end)?;
        wait_until_safe_has_all(&replica)?;
        let mut of_replica = replica.connect()?;
        let violations = violations_at(&mut of_replica, Readers::Safe.begin())?;
        checks.push((format!("conditions_on_{name}"), violations));
        let mut differing = 0;
        for table in &schema::TABLES {
            let count = format!("SELECT count(*) FROM {}", table.name);
            differing += u64::from(console.query_number(&count)? != of_replica.query_number(&count)?);
        }
        checks.push((format!("tables_that_differ_on_{name}"), differing));
    }
    Ok(())
}

/// Whoever lets time pass and the primary die.
struct Conductor<'a> {
    stage: &'a Stage,
    watch: &'a dyn Watch,
    before: &'a Before,
    options: &'a Options,
    started: Instant,
}

impl Conductor<'_> {
    fn run(
        &self,
        cluster: &mut Cluster,
        checks: &mut Vec<(String, u64)>,
    ) -> Result<Option<Loss>, BenchError> {
        let half = Duration::from_secs_f64(self.options.seconds / 2.0);
        let twice = half + half;
        if !self.let_pass(half, twice, cluster) {
            return Ok(None);
        }
        let loss = self.lose_primary(cluster, checks)?;
        let end = self.started.elapsed() + half;
        self.let_pass(end, end, cluster);
        Ok(Some(loss))
    }

    /// Waits until so much time has passed since the start; whether nobody has ended it before.
    fn let_pass(&self, until: Duration, total: Duration, cluster: &Cluster) -> bool {
        let mut last = (self.started.elapsed(), self.stage.committed());
        while self.started.elapsed() < until {
            std::thread::sleep(TICK.min(until.saturating_sub(self.started.elapsed())));
            if self.stage.is_over() || self.watch.is_cancelled() {
                return false;
            }
            let (elapsed, committed) = (self.started.elapsed(), self.stage.committed());
            let seconds = (elapsed - last.0).as_secs_f64().max(1e-6);
            let transactions_per_s = (committed - last.1) as f64 / seconds;
            last = (elapsed, committed);
            let moment = Moment { elapsed, total, transactions_per_s, committed, ..Moment::default() };
            self.watch.show(&self.stage.moment(moment, &cluster.replica_names()));
        }
        true
    }

    /// Kills the primary and has the replica with the longest log take its place; the others follow that.
    fn lose_primary(
        &self,
        cluster: &mut Cluster,
        checks: &mut Vec<(String, u64)>,
    ) -> Result<Loss, BenchError> {
        let (stage, watch) = (self.stage, self.watch);
        let lost = cluster.primary_name().to_owned();
        let at = self.started.elapsed();
        stage.lose_primary();
        cluster.kill_primary();
        stage.wait_until_nobody_writes()?;
        let acknowledged = stage.committed();
        watch.tell(&format!(
            "kill -9 of {lost}, the primary, behind {acknowledged} acknowledged transactions"
        ));
        let slot = cluster.slot_with_the_longest_log()?;
        watch.promotes(cluster.node_of(slot));
        stage.set_replica(slot, None);
        cluster.promote(slot)?;
        let promoted = cluster.primary_name().to_owned();
        let primary = cluster.primary_server()?;
        let found =
            self.before.compare(stage, Losses::One, self.options.threads, "behind_the_loss", &primary)?;
        let is_complete = found.iter().all(|(_, violations)| *violations == 0);
        checks.extend(found);
        let after = (self.started.elapsed() - at).as_secs_f64();
        let verdict = if is_complete { "all of them are there" } else { "SOME OF THEM ARE MISSING" };
        watch.tell(&format!(
            "{promoted} has the longest log and is promoted; {verdict}, {after:.1} s behind the kill"
        ));
        // Commits wait for a replica: one follows before terminals go on. The former primary comes last, as it may need a copy.
        let mut primary = Some(primary);
        for other in cluster.slots_to_follow(slot) {
            stage.set_replica(other, None);
            let told = cluster.follow(other)?;
            stage.set_replica(other, Some(cluster.server_of(other)?));
            watch.tell(&told);
            if let Some(primary) = primary.take() {
                stage.begin(primary)?;
            }
        }
        Ok(Loss { at, outage: Duration::ZERO, lost, promoted, acknowledged })
    }
}
