// SPDX-License-Identifier: Apache-2.0
//! Many connections, few of which are busy: what those cost that are idle, and whether they cost the busy ones anything.
//!
//! ```text
//! once           the active connections are opened | active alone
//! each round     the idle ones are opened, run a statement each | active beside idle | idle ones closed | active alone
//! ```
//!
//! An active connection changes a random row of its own (autocommitted), then reads three by key, and waits for each
//! answer. The ways alternate, and each figure is the median of its rounds; a ratio is to the mean of the times alone
//! before and behind, so that what others do to the machine meanwhile is in both. What an idle connection takes of the server's
//! memory is the difference around their opening in the first round: later ones find what the allocator has kept.

mod client;
mod target;

use crate::board::{Board, KindFigures};
use crate::error::BenchError;
use crate::machine::{CpuWatch, measure_sync, open_files_max, resident_bytes_of, threads_of};
use crate::options::{Options, Workload};
use crate::progress::Progress;
use crate::report::{Report, median};
use crate::system::{Console, System};
use client::{Active, Idle, KINDS, ROWS_EACH, SELECT, SHARDS, TABLE, UPDATE};
use std::sync::Arc;
use std::time::{Duration, Instant};
use target::Target;
use tokio::runtime::{Builder, Runtime};

/// Files that a process has open beside its connections; a server keeps some for its database and for newcomers.
const OTHER_FILES: u64 = 512;

/// How long the server may take to notice that connections have been closed.
const CLOSING_MAX: Duration = Duration::from_secs(60);

/// Runs all rounds.
///
/// # Errors
/// If the options ask for more connections than this process may have, the server does not start or does not let them in,
/// or a statement fails.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    check(options)?;
    let target = Target::new(options)?;
    let sync = measure_sync(target.disk())?;
    let mut report = Report::new(Workload::Connections, options, options.connections as u64);
    report.name_system(System::Server(target.server()));
    report.count("connections", options.connections as u64);
    report.count("active", options.active_connections as u64);
    report.count("rounds", options.runs as u64);
    let mut run = Run::begin(options, &target)?;
    let cpu = CpuWatch::beside(target.process());
    let mut alone = vec![run.measure("active alone", progress)?];
    let mut rounds = Vec::new();
    for _ in 0..options.runs {
        rounds.push(run.round(progress)?);
        alone.push(run.measure("active alone", progress)?);
        if progress.is_cancelled() {
            break;
        }
    }
    tell(&alone, &rounds, &mut report);
    let usage = cpu.usage();
    report.cpu(usage);
    report.check("lost_updates", run.lost_updates()?);
    report.environment(usage.foreign, sync);
    Ok(report)
}

fn check(options: &Options) -> Result<(), BenchError> {
    let (all, active) = (options.connections, options.active_connections);
    if active == 0 || active >= all {
        let message =
            format!("{active} active connections of {all}: at least one is active, and at least one idle");
        return Err(BenchError::Options(message));
    }
    let needed = all as u64 + OTHER_FILES;
    match open_files_max() {
        Some(limit) if limit < needed => Err(BenchError::Options(format!(
            "{all} connections need {needed} open files, and this process may have {limit}: raise the limit (ulimit \
             -Hn), or ask for fewer --connections"
        ))),
        Some(_) | None => Ok(()),
    }
}

/// What a way found.
struct Phase {
    transactions_per_s: f64,
    update: KindFigures,
    select: KindFigures,
    /// What the server used of the processors.
    server_cores: Option<f64>,
}

impl Phase {
    /// Of the server, for each transaction.
    fn server_us(&self) -> f64 {
        let cores = self.server_cores.unwrap_or(0.0);
        if self.transactions_per_s == 0.0 { 0.0 } else { cores * 1e6 / self.transactions_per_s }
    }
}

/// What a round found.
struct Round {
    beside: Phase,
    opened_per_s: f64,
    /// Of the server, before and after the idle connections came.
    resident_bytes: Option<(u64, u64)>,
    idle: usize,
    threads: Option<u64>,
}

/// A run under way: the active connections, and whoever keeps order.
struct Run<'a> {
    options: &'a Options,
    target: &'a Target,
    runtime: Runtime,
    console: Box<dyn Console + 'a>,
    active: Vec<Active>,
    /// Sessions that the server counted with the active ones alone.
    sessions: i64,
}

impl<'a> Run<'a> {
    fn begin(options: &'a Options, target: &'a Target) -> Result<Self, BenchError> {
        let mut console = System::Server(target.server()).console()?;
        let rows = options.active_connections * ROWS_EACH;
        console.execute(&format!("DROP TABLE IF EXISTS {TABLE}"))?;
        console.execute(&format!("CREATE TABLE {TABLE} (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL)"))?;
        console.execute(&format!(
            "INSERT INTO {TABLE} SELECT i, 0 FROM generate_series(0, {}) AS s(i)",
            rows - 1
        ))?;
        console.settle()?;
        let runtime = Builder::new_multi_thread().worker_threads(options.threads).enable_all().build();
        let runtime = runtime.map_err(BenchError::Client)?;
        let config = client::configured(target.server(), options);
        let active = runtime.block_on(client::open_active(&config, options))?;
        let sessions = console.query_number(COUNT_SESSIONS)?;
        Ok(Self { options, target, runtime, console, active, sessions })
    }

    fn round(&mut self, progress: &dyn Progress) -> Result<Round, BenchError> {
        let idle = self.options.connections - self.options.active_connections;
        progress.begin("opening idle connections", Some(idle as u64));
        let resident = self.target.process().map(resident_bytes_of);
        let started = Instant::now();
        let config = client::configured(self.target.server(), self.options);
        let opened = self.runtime.block_on(Idle::open(&config, idle, progress))?;
        let opened_per_s = idle as f64 / started.elapsed().as_secs_f64();
        self.runtime.block_on(opened.run_a_statement_each())?;
        let resident_bytes = resident.zip(self.target.process().map(resident_bytes_of));
        progress.end();
        let beside = self.measure("active beside idle", progress)?;
        let threads = self.target.process().map(threads_of);
        drop(opened);
        self.wait_for_closing()?;
        Ok(Round { beside, opened_per_s, resident_bytes, idle, threads })
    }

    /// Lets the active connections work for as long as the options say.
    fn measure(&mut self, name: &str, progress: &dyn Progress) -> Result<Phase, BenchError> {
        progress.begin(name, None);
        let cpu = CpuWatch::beside(self.target.process());
        let board = Arc::new(Board::new(SHARDS, KINDS));
        let working: Vec<_> = std::mem::take(&mut self.active)
            .into_iter()
            .map(|active| self.runtime.spawn(active.work(Arc::clone(&board))))
            .collect();
        let measured = board.conduct(self.options, progress, &|_| {});
        let server_cores = cpu.usage().server;
        for active in working {
            let ended = self.runtime.block_on(active).expect("a client does not panic");
            self.active.push(ended?);
        }
        let mut kinds = board.figures().kinds;
        let select = kinds.swap_remove(SELECT);
        let update = kinds.swap_remove(UPDATE);
        progress.end();
        let committed = (update.committed + select.committed) as f64;
        let seconds = measured.as_secs_f64();
        let transactions_per_s = if seconds == 0.0 { 0.0 } else { committed / seconds };
        Ok(Phase { transactions_per_s, update, select, server_cores })
    }

    /// Waits until the server has noticed that the idle connections have gone.
    fn wait_for_closing(&mut self) -> Result<(), BenchError> {
        let started = Instant::now();
        while self.console.query_number(COUNT_SESSIONS)? > self.sessions {
            if started.elapsed() > CLOSING_MAX {
                return Err(BenchError::Answer(
                    "the server keeps sessions whose clients have gone".to_owned(),
                ));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Updates that were acknowledged and are not there, or are there and were not.
    fn lost_updates(&mut self) -> Result<u64, BenchError> {
        let acknowledged: i64 = self.active.iter().map(Active::updates).sum();
        let there = self.console.query_number(&format!("SELECT sum(balance) FROM {TABLE}"))?;
        Ok((acknowledged - there).unsigned_abs())
    }
}

/// Those of clients; PostgreSQL counts its own processes, too, which stay as many.
const COUNT_SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity WHERE client_port IS NOT NULL";

/// The middle one of what these found.
fn middle<T>(these: &[T], figure: impl Fn(&T) -> f64) -> f64 {
    median(&mut these.iter().map(figure).collect::<Vec<_>>())
}

const PERCENTILES: [(&str, f64); 3] = [("p50", 50.0), ("p99", 99.0), ("p999", 99.9)];

type FiguresOfKind = fn(&Phase) -> &KindFigures;

/// The kinds of transaction by name.
const NAMED_KINDS: [(&str, FiguresOfKind); KINDS] =
    [("update", |phase| &phase.update), ("select", |phase| &phase.select)];

fn tell(alone: &[Phase], rounds: &[Round], report: &mut Report) {
    report.figure("opened_per_s", middle(rounds, |round| round.opened_per_s));
    if let Some(first) = rounds.first()
        && let Some((before, after)) = first.resident_bytes
    {
        report.count("resident_without_idle_bytes", before);
        report.count("resident_with_idle_bytes", after);
        report.figure(
            "idle_connection_resident_bytes",
            after.saturating_sub(before) as f64 / first.idle as f64,
        );
    }
    if let Some(threads) = rounds.iter().filter_map(|round| round.threads).max() {
        report.count("server_threads", threads);
    }
    let beside: Vec<&Phase> = rounds.iter().map(|round| &round.beside).collect();
    tell_way("alone", &alone.iter().collect::<Vec<_>>(), report);
    tell_way("beside", &beside, report);
    let mut ratio = |name: &str, figure: &dyn Fn(&Phase) -> f64| {
        let to_alone = |(place, beside): (usize, &&Phase)| {
            let alone = f64::midpoint(figure(&alone[place]), figure(&alone[place + 1]));
            if alone == 0.0 { 0.0 } else { figure(beside) / alone }
        };
        let mut ratios: Vec<f64> = beside.iter().enumerate().map(to_alone).collect();
        report.figure(format!("beside_to_alone_{name}_ratio"), median(&mut ratios));
    };
    ratio("transactions", &|phase| phase.transactions_per_s);
    ratio("server_time", &Phase::server_us);
    for (kind, figures) in NAMED_KINDS {
        for (name, percent) in PERCENTILES {
            ratio(&format!("{kind}_{name}"), &|phase| figures(phase).latency.percentile_ms(percent));
        }
    }
}

fn tell_way(way: &str, phases: &[&Phase], report: &mut Report) {
    report.figure(format!("{way}_transactions_per_s"), middle(phases, |phase| phase.transactions_per_s));
    if phases.iter().any(|phase| phase.server_cores.is_some()) {
        report.figure(format!("{way}_server_us_per_transaction"), middle(phases, |phase| phase.server_us()));
    }
    for (kind, figures) in NAMED_KINDS {
        for (name, percent) in PERCENTILES {
            let at = |phase: &&Phase| figures(phase).latency.percentile_ms(percent);
            report.figure(format!("{way}_{kind}_{name}_ms"), middle(phases, at));
        }
    }
    report.count(format!("{way}_conflicts"), phases.iter().map(|phase| phase.update.conflicts).sum());
}
