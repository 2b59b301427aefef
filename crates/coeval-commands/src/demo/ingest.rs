// SPDX-License-Identifier: Apache-2.0
//! `coeval demo --ingest`: a firehose into a brick table, and dashboards that read it in safe snapshots meanwhile.
//!
//! Every load adds up to nothing in one column and is spread over all regions, hence over bricks, and names its source
//! and offset. So each dashboard can check, in its own snapshot, that no load is there by half, that its counts agree
//! with each other and with the offsets, and that they are no smaller than the last ones it saw.

mod dashboard;
mod feed;
mod figures;

use super::{command, default_directory, state, verify_acknowledged};
use crate::arguments::DemoArguments;
use crate::directory;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::readable::grouped;
use coeval::{Database, Durability};
use figures::Figures;
use std::path::Path;
use std::time::{Duration, Instant};

/// The table that is fed, and what makes it ours.
const TABLE: &str = "events";
const COLUMNS: [&str; 5] = ["at", "region", "device", "value", "balance"];

/// How often figures are shown at a terminal; lines come less often.
const TICK: Duration = Duration::from_millis(250);

/// Runs the demo.
///
/// # Errors
/// If the directory holds something else, the database refuses something, or a check finds a violation.
pub(super) fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let dir = arguments.dir.clone().unwrap_or_else(|| default_directory("coeval-demo-ingest"));
    let existed = directory::look(&dir)? == directory::Contents::Database;
    let db = directory::open_with(&dir, directory::options().durability(arguments.durability))?;
    if existed {
        println!("Opened the database in {}.", dir.display());
        verify_acknowledged(&db, &dir)?;
    } else {
        println!("New database in {}.", dir.display());
    }
    let before = prepare(&db, arguments, &dir)?;
    print_plan(arguments, &dir);
    let interrupt = Interrupt::watch(STOPPING);
    let acknowledged = (arguments.durability == Durability::Fsync).then(|| state::acknowledged_file(&dir));
    let figures = Figures::new(before, Duration::from_secs_f64(arguments.seconds));
    let note = || {
        if let Some(file) = &acknowledged {
            // A note that cannot be written only makes the comparison at the next open weaker.
            let _ = state::note_version(file, db.world().version());
        }
    };
    let outcome = feed_and_watch(&db, arguments, &figures, || {
        note();
        interrupt.was_asked()
    });
    note();
    outcome?;
    let counted = dashboard::counted(&db)?;
    figures.check_end(counted);
    figures.print_summary(&mut std::io::stdout().lock(), dashboard::epochs(&db)?)?;
    print_further(&dir);
    if figures.is_clean() { Ok(()) } else { Err(Failure::Work(figures.verdict())) }
}

/// Feeds and reads until the time is over, something fails, or `is_asked` to stop.
fn feed_and_watch(
    db: &Database,
    arguments: &DemoArguments,
    figures: &Figures,
    is_asked: impl Fn() -> bool,
) -> Result<(), Failure> {
    let rate = arguments.rate as f64 / arguments.threads as f64;
    std::thread::scope(|scope| {
        let feeders =
            (0..arguments.threads).map(|number| scope.spawn(move || feed::run(db, number, rate, figures)));
        let dashboards = (0..arguments.streams).map(|_| scope.spawn(|| dashboard::run(db, figures)));
        let threads: Vec<_> = feeders.chain(dashboards).collect();
        let screen = figures::Screen::new();
        while figures.is_running() {
            std::thread::sleep(TICK);
            if is_asked() || threads.iter().any(|thread| thread.is_finished()) {
                figures.stop();
            }
            screen.show(figures);
        }
        screen.end();
        figures.stop();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a thread of the demo does not panic"))
    })
}

/// Makes sure that the table is there; how many rows it has.
fn prepare(db: &Database, arguments: &DemoArguments, dir: &Path) -> Result<u64, Failure> {
    let failed = |error: coeval::Error| Failure::work("cannot prepare the demo's table", error);
    let mut session = db.session();
    if let Ok(table) = db.table(TABLE) {
        let names: Vec<&str> = table.def().live_columns().map(|(_, column)| column.name.as_str()).collect();
        if table.def().bricks.is_none() || names != COLUMNS {
            return Err(foreign(dir));
        }
        if !arguments.fresh {
            let rows = dashboard::counted(db)?;
            println!("It holds {} rows of an earlier demo: going on behind them.", grouped(rows));
            return Ok(rows);
        }
        println!("Removing what the earlier demo left.");
        session.execute("DROP TABLE events").map_err(failed)?;
    } else if db.world().tables().next().is_some_and(|_| !arguments.fresh) {
        return Err(foreign(dir));
    }
    let create = "CREATE TABLE events (at timestamp, region text, device int NOT NULL, value double precision NOT NULL, \
                  balance bigint NOT NULL) USING brick \
                  PARTITION BY (at RANGE SIZE '1 minute' FROM '2025-01-01', region CARDINALITY 8 RANGE SIZE 1)";
    session.execute(create).map_err(failed)?;
    Ok(0)
}

fn foreign(dir: &Path) -> Failure {
    Failure::Work(format!(
        "{} holds a database that is not a demo's; choose another directory with --dir",
        dir.display()
    ))
}

fn print_plan(arguments: &DemoArguments, dir: &Path) {
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    let disk = match arguments.durability {
        Durability::Fsync => "each load is on disk before it is acknowledged",
        Durability::None => "loads do not wait for the disk",
    };
    println!(
        "\nRunning for {} s: {} with {} rows/s in all, {}, each in safe snapshots; {disk}.\n\
         Stop with Ctrl-C, or kill it and open it again: {}\n",
        arguments.seconds,
        plural(arguments.threads, "source"),
        grouped(arguments.rate),
        plural(arguments.streams, "dashboard"),
        command(&["demo", "--ingest", "--dir"], dir)
    );
}

fn print_further(dir: &Path) {
    println!("\nLook further:");
    println!("  {}    and there: SELECT * FROM coeval_bricks;", command(&["sql"], dir));
    println!("  {}", command(&["check"], dir));
    println!("  {}    goes on behind the last offsets", command(&["demo", "--ingest", "--dir"], dir));
}

/// The time that is left until `moment`.
fn until(moment: Instant) -> Duration {
    moment.saturating_duration_since(Instant::now())
}
