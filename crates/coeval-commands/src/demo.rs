// SPDX-License-Identifier: Apache-2.0
//! `coeval demo`: transactions and analytics on the same live data, with every snapshot checked.
//!
//! What happens to a directory:
//!
//! | what is there | what the demo does |
//! |---|---|
//! | nothing, or a database without tables | loads, then runs |
//! | a demo's data | runs on it; loads anew only if asked to |
//! | a demo's data that was not loaded to the end | loads anew |
//! | anything else | leaves it alone and says so |
//!
//! With `--ingest` it is another one: see `ingest.rs`; with `--replicas` a third one: see `replicas.rs`; with
//! `--cluster` a fourth one: see `cluster.rs`.

mod cluster;
mod ingest;
mod live;
mod replicas;
mod state;
mod summary;

use crate::arguments::DemoArguments;
use crate::directory;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::readable::grouped;
use coeval::{Database, Durability};
use coeval_bench::chbench::{populate_all, run_mixed};
use coeval_bench::tpcc::CONDITIONS;
use coeval_bench::{BenchError, Options};
use live::Live;
use state::{Loaded, Size};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;
use summary::{Conditions, Summary};

/// How much is loaded unless said otherwise.
const WAREHOUSES: u32 = 1;

/// Runs the demo.
///
/// # Errors
/// If the directory holds something else, the database refuses something, or a check finds a violation.
pub(crate) fn run(arguments: &DemoArguments, program: io::Result<PathBuf>) -> Result<(), Failure> {
    if arguments.ingest {
        return ingest::run(arguments);
    }
    if let Some(count) = arguments.replicas {
        return replicas::run(arguments, count, program);
    }
    if let Some(count) = arguments.cluster {
        return cluster::run(arguments, count, program);
    }
    let dir = arguments.dir.clone().unwrap_or_else(|| default_directory("coeval-demo"));
    let existed = directory::look(&dir)? == directory::Contents::Database;
    let begun = Instant::now();
    let db = directory::open_with(&dir, directory::options().durability(arguments.durability))?;
    if existed {
        println!("Opened the database in {} in {:.1} s.", dir.display(), begun.elapsed().as_secs_f64());
        verify_acknowledged(&db, &dir)?;
    } else {
        println!("New database in {}.", dir.display());
    }
    let size = load(&db, arguments, &dir)?;
    let options = options(arguments, size);
    let interrupt = Interrupt::watch(STOPPING);
    print_plan(&options, &dir);
    let acknowledged = (arguments.durability == Durability::Fsync).then(|| state::acknowledged_file(&dir));
    let live = Live::new(&db, Some(&interrupt), acknowledged);
    let report = run_mixed(&db, &options, &live).map_err(of_bench)?;
    live.note_acknowledged();
    let conditions = check_conditions(&db)?;
    let summary = Summary::new(&report, &live, conditions);
    summary.print(&mut std::io::stdout().lock())?;
    print_further(&dir);
    if summary.is_clean() { Ok(()) } else { Err(Failure::Work(summary.verdict())) }
}

/// A directory that is easy to find again.
fn default_directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

fn of_bench(error: BenchError) -> Failure {
    Failure::work("the demo stopped", error)
}

/// What the workload is told.
fn options(arguments: &DemoArguments, size: Size) -> Options {
    Options {
        warehouses: size.warehouses,
        threads: arguments.threads,
        streams: arguments.streams,
        seconds: arguments.seconds,
        durability: arguments.durability,
        population: size.population,
        ..Options::default()
    }
}

/// Compares the version that is there with the last one that an earlier run saw acknowledged.
fn verify_acknowledged(db: &Database, dir: &Path) -> Result<(), Failure> {
    let Some(noted) = state::noted_version(dir) else { return Ok(()) };
    let found = db.world().version();
    let (found_text, noted_text) = (grouped(found.get()), grouped(noted.get()));
    if found < noted {
        return Err(Failure::Work(format!(
            "acknowledged commits are missing: version {noted_text} was acknowledged, version {found_text} is there"
        )));
    }
    println!(
        "The last version seen acknowledged was {noted_text}, version {found_text} is there: nothing is missing."
    );
    Ok(())
}

/// Makes sure that the data is there. Ctrl-C ends the program meanwhile, and the next run loads anew.
fn load(db: &Database, arguments: &DemoArguments, dir: &Path) -> Result<Size, Failure> {
    let wanted =
        Size { warehouses: arguments.warehouses.unwrap_or(WAREHOUSES), population: arguments.population() };
    match state::loaded(db)? {
        Loaded::Whole(found) if !arguments.fresh => {
            let differs = arguments.warehouses.is_some_and(|asked| asked != found.warehouses);
            let why = if differs { " (--fresh loads another number)" } else { "" };
            println!("It holds an earlier demo with {}{why}: going on without loading.", found.describe());
            return Ok(found);
        }
        Loaded::Foreign => {
            return Err(Failure::Work(format!(
                "{} holds a database that is not a demo's; choose another directory with --dir",
                dir.display()
            )));
        }
        Loaded::Whole(_) => {
            println!("Removing what the earlier demo left.");
            state::remove_tables(db)?;
        }
        Loaded::Partly => {
            println!("An earlier demo was stopped while it was loading: loading anew.");
            state::remove_tables(db)?;
        }
        Loaded::Not => {}
    }
    let begun = Instant::now();
    state::begin_loading(db)?;
    let options = options(arguments, wanted);
    let live = Live::new(db, None, None);
    populate_all(db, &options, &live).map_err(of_bench)?;
    state::end_loading(db, wanted)?;
    let rows: u64 = db.world().tables().map(|table| table.row_count()).sum();
    println!(
        "Loaded {}: {} rows in {:.1} s.",
        wanted.describe(),
        grouped(rows),
        begun.elapsed().as_secs_f64()
    );
    Ok(wanted)
}

fn print_plan(options: &Options, dir: &Path) {
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let disk = match options.durability {
        Durability::Fsync => "each commit is on disk before it is acknowledged",
        Durability::None => "commits do not wait for the disk",
    };
    println!(
        "\nRunning for {} s: {} of TPC-C transactions, {} of the 22 CH queries, each on one snapshot; {disk}.\n\
         Stop with Ctrl-C, or kill it and open it again: {}\n",
        options.seconds,
        plural(options.threads, "thread"),
        plural(options.streams, "thread"),
        command(&["demo", "--dir"], dir)
    );
}

/// The command that this was started with, with other arguments.
fn command(words: &[&str], dir: &Path) -> String {
    let is_from_cargo = std::env::var_os("CARGO").is_some();
    let program = if is_from_cargo { "cargo run --release --" } else { "coeval" };
    let dir = dir.display().to_string();
    let is_plain = dir.chars().all(|character| character.is_alphanumeric() || "/._-+:\\".contains(character));
    let dir = if is_plain { dir } else { format!("'{}'", dir.replace('\'', "'\\''")) };
    format!("{program} {} {dir}", words.join(" "))
}

fn print_further(dir: &Path) {
    println!("\nLook further:");
    println!("  {}    and there: SELECT * FROM coeval_tables;", command(&["sql"], dir));
    println!("  {}", command(&["check"], dir));
    println!("  {}    goes on with the same data", command(&["demo", "--dir"], dir));
}

/// Checks every condition in one last snapshot.
fn check_conditions(db: &Database) -> Result<Conditions, Failure> {
    let mut session = db.session();
    let mut conditions = Conditions::default();
    let failed = |error: coeval::Error| of_bench(error.into());
    session.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").map_err(failed)?;
    for condition in CONDITIONS {
        let violations = coeval_bench::tpcc::violations(&mut session, &[condition]).map_err(of_bench)?;
        conditions.add(condition.number, violations);
    }
    session.execute("COMMIT").map_err(failed)?;
    Ok(conditions)
}
