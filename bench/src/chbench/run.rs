// SPDX-License-Identifier: Apache-2.0
//! A measured run: TPC-C's terminals and streams of analytical queries on one database.
//!
//! Each query runs in a read-only transaction of its own, so it reads one snapshot. In the same snapshot the
//! stream checks TPC-C's cheap consistency conditions before the query, unless the database is behind a URL: there
//! systems are compared by their queries alone, and the conditions are checked at the end.

use super::population::{SUPPLIER, TABLES, generate};
use super::queries::QUERIES;
use crate::board::{Board, Figures, join};
use crate::engine::query;
use crate::error::BenchError;
use crate::foreign::ForeignSession;
use crate::histogram::Histogram;
use crate::machine::{CpuUsage, measure_sync};
use crate::options::{Options, Readers, Workload};
use crate::progress::{Progress, Sample};
use crate::report::Report;
use crate::system::{Console, EmbeddedConsole, System, with_system};
use crate::tpcc::{
    Kind, SNAPSHOT_CONDITIONS, check_all, load, populate_system, report_terminals, send, terminal_workers,
    violations,
};
use crate::wire::{Connection, Ended};
use coeval::{CheckpointPolicy, Database, Session};
use coeval_tique::Effort;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Makes sure that the database holds TPC-C's population and the three tables beside it.
///
/// # Errors
/// If the directory holds another population or refuses the rows.
pub fn populate_all(db: &Database, options: &Options, progress: &dyn Progress) -> Result<(), BenchError> {
    populate(&mut EmbeddedConsole::new(db), options, progress)
}

pub(crate) fn populate(
    console: &mut dyn Console,
    options: &Options,
    progress: &dyn Progress,
) -> Result<(), BenchError> {
    populate_system(console, options, progress)?;
    if console.has_table(&SUPPLIER)? {
        return Ok(());
    }
    TABLES.iter().try_for_each(|table| console.create(table))?;
    let batches = generate(options.seed)?;
    progress.begin("load regions, nations, suppliers", None);
    load(console, progress, |sender| {
        batches.into_iter().for_each(|batch| send(sender, batch));
        Ok(())
    })?;
    console.settle()?;
    progress.end();
    Ok(())
}

/// What the query streams have done.
///
/// # Locking
/// One lock for all streams: each takes it for a moment around each query, the conductor a few times a second.
#[derive(Default)]
struct StreamBoard {
    figures: Mutex<StreamFigures>,
}

/// What they have done, in figures.
#[derive(Clone, Default)]
pub(crate) struct StreamFigures {
    queries: Vec<Histogram>,
    ages: Histogram,
    /// Of each query, from BEGIN to COMMIT.
    pub(crate) turns: Vec<Turns>,
    /// The same of each stream.
    pub(crate) turns_by_stream: Vec<Vec<Turns>>,
    pub(crate) answered: u64,
    /// Transactions that were refused.
    pub(crate) aborts: u64,
    checks: u64,
    violations: u64,
    last: Option<(usize, Duration)>,
    /// For each stream: when it took the snapshot that it reads.
    taken: Vec<Option<Instant>>,
}

/// How often a query was answered, and how long all of that took.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    pub(crate) count: u32,
    pub(crate) took: Duration,
}

impl Turns {
    fn add(&mut self, took: Duration) {
        self.count += 1;
        self.took += took;
    }
}

impl StreamFigures {
    fn new(streams: usize) -> Self {
        Self {
            queries: vec![Histogram::default(); QUERIES.len()],
            turns: vec![Turns::default(); QUERIES.len()],
            turns_by_stream: vec![vec![Turns::default(); QUERIES.len()]; streams],
            taken: vec![None; streams],
            ..Self::default()
        }
    }

    /// The age of the oldest snapshot that a stream reads now.
    fn oldest_snapshot(&self) -> Duration {
        self.taken.iter().flatten().min().map_or(Duration::ZERO, Instant::elapsed)
    }
}

/// Runs CH-benCHmark as the options say.
///
/// # Errors
/// If the database refuses something; conflicts of transactions are counted and tried again.
pub(crate) fn run(options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    with_system(options, CheckpointPolicy::default(), |system, directory| {
        populate(&mut *system.console()?, options, progress)?;
        let sync = measure_sync(directory)?;
        let (mut report, usage) = mix(system, options, progress)?;
        report.cpu(usage);
        report.environment(usage.foreign, sync);
        progress.begin("check TPC-C's consistency conditions", None);
        check_all(&mut *system.console()?, &mut report)?;
        progress.end();
        Ok(report)
    })
}

/// Runs terminals and streams on a populated database that is already open.
///
/// # Errors
/// As the workload's run.
pub fn run_mixed(db: &Database, options: &Options, progress: &dyn Progress) -> Result<Report, BenchError> {
    mix(System::Embedded(db), options, progress).map(|(report, _)| report)
}

pub(crate) fn mix(
    system: System<'_>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<(Report, CpuUsage), BenchError> {
    let mut report = Report::new(Workload::Chbench, options, options.warehouses);
    report.name_system(system);
    report.name_statements(system, options);
    progress.begin("CH-benCHmark", None);
    let at = Stations { terminals: system, streams: system, watch: &|_| Ok(()) };
    let mixed = mix_at(at, options, progress)?;
    progress.end();
    report_terminals(&mut report, &mixed.terminals, mixed.measured);
    mixed.streams.report(&mut report, options, mixed.measured);
    Ok((report, mixed.usage))
}

/// Who runs where.
#[derive(Clone, Copy)]
pub(crate) struct Stations<'a> {
    pub(crate) terminals: System<'a>,
    pub(crate) streams: System<'a>,
    /// Runs on a thread of its own until the board says stop.
    pub(crate) watch: &'a (dyn Fn(&Board) -> Result<(), BenchError> + Sync),
}

/// What terminals and streams did beside each other.
pub(crate) struct Mixed {
    pub(crate) terminals: Figures,
    pub(crate) streams: StreamFigures,
    /// While the clock ran.
    pub(crate) measured: Duration,
    /// From the first transaction to the last one, with those before the clock.
    pub(crate) lasted: Duration,
    /// As the terminals' system has it.
    pub(crate) usage: CpuUsage,
}

/// Runs terminals and streams, each on a populated database of its own: the same one, or one that follows the other.
pub(crate) fn mix_at(
    at: Stations<'_>,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Mixed, BenchError> {
    let board = Board::new(options.threads, Kind::ALL.len());
    let streams = StreamBoard { figures: Mutex::new(StreamFigures::new(options.streams)) };
    let workers = match (options.threads, options.streams) {
        // Streams alone are a run too.
        (0, 1..) => Vec::new(),
        _ => terminal_workers(at.terminals, options)?,
    };
    let sessions = (0..options.streams).map(|_| Analyst::new(at.streams, options.readers));
    let sessions = sessions.collect::<Result<Vec<_>, BenchError>>()?;
    let (cpu, started) = (at.terminals.watch_cpu(options), Instant::now());
    let measured = std::thread::scope(|scope| {
        let mut threads = board.start(scope, workers);
        for (stream, session) in sessions.into_iter().enumerate() {
            let (board, streams) = (&board, &streams);
            threads.push(scope.spawn(move || answer_queries(session, stream, board, streams)));
        }
        let board = &board;
        threads.push(scope.spawn(move || (at.watch)(board).inspect_err(|_| board.stop())));
        let measured = board.conduct(options, progress, &|sample| streams.enrich(sample));
        join(threads).map(|()| measured)
    })?;
    let (usage, lasted) = (cpu.usage(), started.elapsed());
    let streams = streams.figures.into_inner();
    Ok(Mixed { terminals: board.figures(), streams, measured, lasted, usage })
}

/// One stream: all queries again and again until the board says stop, each stream beginning elsewhere.
fn answer_queries(
    mut session: Analyst,
    stream: usize,
    board: &Board,
    streams: &StreamBoard,
) -> Result<(), BenchError> {
    // Seven has no divisor in common with 22, so that eight streams begin at eight different queries.
    let first = stream * 7;
    for place in (first..).map(|place| place % QUERIES.len()) {
        if board.is_stopped() {
            return Ok(());
        }
        streams.figures.lock().taken[stream] = Some(Instant::now());
        match session.answer(place, board) {
            Ok(Some(answered)) => streams.record(board, stream, place, answered),
            Ok(None) => return Ok(()),
            Err(error) if error.is_conflict() => {
                session.end()?;
                streams.figures.lock().aborts += u64::from(board.is_measuring());
            }
            Err(error) => {
                board.stop();
                return Err(error);
            }
        }
    }
    Ok(())
}

/// What one query took and found.
#[derive(Clone, Copy)]
struct Answered {
    latency: Duration,
    age: Duration,
    /// Conditions that were checked in the same snapshot.
    checks: u64,
    violations: u64,
}

/// Where a stream asks its queries, and how its transactions begin.
struct Analyst {
    at: Asked,
    readers: Readers,
}

enum Asked {
    Embedded(Box<Session>),
    Server(Box<Connection>),
    Foreign(Box<ForeignSession>),
}

impl Analyst {
    fn new(system: System<'_>, readers: Readers) -> Result<Self, BenchError> {
        let at = match system {
            System::Embedded(db) => Asked::Embedded(Box::new(db.session())),
            System::Server(server) => Asked::Server(Box::new(server.connect()?)),
            System::Foreign(foreign) => Asked::Foreign(Box::new(foreign.session()?)),
        };
        let mut analyst = Self { at, readers };
        if !matches!(system, System::Foreign(_)) {
            analyst.execute(readers.setting())?;
        }
        Ok(analyst)
    }

    fn execute(&mut self, sql: &str) -> Result<(), BenchError> {
        match &mut self.at {
            Asked::Embedded(session) => session.execute(sql).map(drop).map_err(BenchError::from),
            Asked::Server(connection) => connection.execute(sql),
            Asked::Foreign(session) if sql.starts_with("BEGIN") => session.begin(),
            Asked::Foreign(session) => session.roll_back(),
        }
    }

    /// Ends what is left of a transaction that was refused.
    fn end(&mut self) -> Result<(), BenchError> {
        self.execute("ROLLBACK")
    }

    /// Runs one query in a snapshot of its own; `None` if the board said stop before it was through.
    fn answer(&mut self, place: usize, board: &Board) -> Result<Option<Answered>, BenchError> {
        let begun = Instant::now();
        self.execute(self.readers.begin())?;
        match &mut self.at {
            Asked::Embedded(session) => {
                let violations = violations(session, SNAPSHOT_CONDITIONS)?;
                let started = Instant::now();
                query(session, QUERIES[place])?;
                let latency = started.elapsed();
                session.execute("COMMIT")?;
                let checks = SNAPSHOT_CONDITIONS.len() as u64;
                Ok(Some(Answered { latency, age: begun.elapsed(), checks, violations }))
            }
            Asked::Server(connection) => {
                let started = Instant::now();
                let ended = connection.query_unless(QUERIES[place], &|| board.is_stopped())?;
                let latency = started.elapsed();
                connection.execute("COMMIT")?;
                let answered = Answered { latency, age: begun.elapsed(), checks: 0, violations: 0 };
                Ok((ended == Ended::Answered).then_some(answered))
            }
            Asked::Foreign(session) => {
                let started = Instant::now();
                session.run(QUERIES[place].trim_end(), Effort::Analytical)?;
                let latency = started.elapsed();
                session.commit()?;
                Ok(Some(Answered { latency, age: begun.elapsed(), checks: 0, violations: 0 }))
            }
        }
    }
}

impl StreamBoard {
    fn record(&self, board: &Board, stream: usize, place: usize, answered: Answered) {
        let mut figures = self.figures.lock();
        figures.taken[stream] = None;
        figures.checks += answered.checks;
        figures.violations += answered.violations;
        figures.last = Some((place + 1, answered.latency));
        if board.is_measuring() {
            figures.answered += 1;
            figures.queries[place].record_duration(answered.latency);
            figures.ages.record_duration(answered.age);
            figures.turns[place].add(answered.age);
            figures.turns_by_stream[stream][place].add(answered.age);
        }
    }

    fn enrich(&self, sample: &mut Sample) {
        let figures = self.figures.lock();
        sample.queries = figures.answered;
        sample.last_query = figures.last;
        sample.snapshot_age = figures.oldest_snapshot();
        sample.checks = figures.checks;
        sample.violations = figures.violations;
    }
}

impl StreamFigures {
    /// Queries in an hour.
    pub(crate) fn answered_per_h(&self, measured: Duration) -> f64 {
        self.answered as f64 / measured.as_secs_f64().max(1e-9) * 3_600.0
    }

    fn report(&self, report: &mut Report, options: &Options, measured: Duration) {
        report.count("streams", options.streams as u64);
        report.figure("queries_per_h", self.answered_per_h(measured));
        report.count("queries", self.answered);
        report.note("readers", options.readers.name());
        report.count("stream_aborts", self.aborts);
        report.figure("snapshot_age_p50_ms", self.ages.percentile_ms(50.0));
        report.figure("snapshot_age_max_ms", self.ages.max() as f64 / 1e6);
        for (number, latency) in (1..).zip(&self.queries) {
            if latency.count() > 0 {
                report.figure(format!("q{number:02}_ms"), latency.percentile_ms(50.0));
                report.count(format!("q{number:02}_runs"), latency.count());
            }
        }
        report.count("snapshot_checks", self.checks);
        report.check("tpcc_conditions_in_snapshots", self.violations);
    }
}
