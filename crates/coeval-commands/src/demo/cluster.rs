// SPDX-License-Identifier: Apache-2.0
//! `coeval demo --cluster N`: a brick table that is spread over N servers, loads and dashboards on all of them, and the loss of one.
//!
//! ```text
//!   sources ---- INSERT, each through its node ----> node 1   node 2   node 3 (killed, and brought back)
//!   dashboards <--- GROUP BY, each on its node ----/
//! ```
//! Each load has one row for each of [`LOAD_ROWS`] slots, which lie in several bricks, and adds up to nothing. It names its source, and
//! its number there. So each dashboard can check in its own snapshot that no load is there by half, and none is missing between others. In
//! the end all nodes have to count all that was acknowledged.
//!
//! What an earlier demo has left in the directory is removed; a directory with anything else is left alone.

mod ask;
mod figures;
mod nodes;

use super::{command, default_directory};
use crate::arguments::DemoArguments;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use ask::{Asked, Refused};
use coeval::Durability;
use figures::Figures;
use nodes::Nodes;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Slots of the table, of which each load has a row.
const LOAD_ROWS: u64 = 64;
/// Says that a directory is a demo's.
const MARK: &str = "demo.cluster";
/// Longest wait for a server, or for all nodes to have the same.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two lines of figures.
const LINE_INTERVAL: Duration = Duration::from_secs(2);

const CREATE: &str = "CREATE TABLE events (slot int, source int, number bigint, balance bigint) USING brick \
     PARTITION BY (slot CARDINALITY 64 RANGE SIZE 8)";
const DASHBOARD: &str = "SELECT source, count(*), max(number), sum(balance) FROM events GROUP BY source";
const LIVE: &str = "SELECT count(*) FROM coeval_cluster_nodes WHERE state = 'live'";

/// Runs the demo.
///
/// # Errors
/// If the directory holds something else, a server does not do what it must, or a check finds a violation.
pub(super) fn run(
    arguments: &DemoArguments,
    count: usize,
    program: io::Result<PathBuf>,
) -> Result<(), Failure> {
    if arguments.durability != Durability::Fsync {
        let message = "--cluster is about loads that are durable on two nodes: not with --durability none";
        return Err(Failure::Usage(message.to_owned()));
    }
    let program = program.map_err(|error| Failure::work("cannot find the program that this is", error))?;
    let dir = arguments.dir.clone().unwrap_or_else(|| default_directory("coeval-demo-cluster"));
    prepare(&dir).map_err(|error| Failure::work(format_args!("cannot use {}", dir.display()), error))??;
    let interrupt = Interrupt::watch(STOPPING);
    let mut nodes = Nodes::new(program, &dir, count)?;
    for node in 0..count {
        nodes.start(node)?;
        until(&nodes.words(node), "SELECT 1", "1")?;
        println!("  node {} listens at {}", node + 1, nodes.words(node));
    }
    for node in 0..count {
        until(&nodes.words(node), LIVE, &count.to_string())?;
    }
    Asked::new(nodes.words(0))?.ask(CREATE).map_err(|refused| refused.failure("cannot make the table"))?;
    for node in 0..count {
        until(&nodes.words(node), "SELECT count(*) FROM events", "0")?;
    }
    println!(
        "\nRunning for {} s: {} sources and {} dashboards on {count} nodes; each row is on the disks of two before it is \
         acknowledged. In the middle node {count} is killed.\nStop with Ctrl-C.\n",
        arguments.seconds,
        arguments.threads,
        arguments.streams.max(count),
    );
    let figures = Figures::default();
    play(arguments, &mut nodes, &figures, &interrupt)?;
    check_end(&nodes, &figures);
    println!("\n{}", figures.summary());
    println!("\nThe nodes end with the demo. Start one of them again to look further:");
    println!("  {}", command(&["check"], &dir.join("node-1")));
    if figures.violations().is_empty() { Ok(()) } else { Err(Failure::Work(figures.summary())) }
}

/// Makes an empty directory of it, if it is a demo's or empty.
fn prepare(dir: &Path) -> io::Result<Result<(), Failure>> {
    fs::create_dir_all(dir)?;
    if !dir.join(MARK).exists() && fs::read_dir(dir)?.next().is_some() {
        return Ok(Err(Failure::Work(format!(
            "{} holds something that is not a demo with a cluster; choose another directory with --dir",
            dir.display()
        ))));
    }
    // The mark first: what is left by half is a demo's still.
    fs::write(dir.join(MARK), "")?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(Ok(()))
}

/// Loads and reads, and has one node killed and brought back meanwhile.
fn play(
    arguments: &DemoArguments,
    nodes: &mut Nodes,
    figures: &Figures,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let (count, part) = (nodes.count(), Duration::from_secs_f64(arguments.seconds / 3.0));
    let words: Vec<String> = (0..count).map(|node| nodes.words(node)).collect();
    let lost = count - 1;
    thread::scope(|scope| {
        for source in 0..arguments.threads {
            let words = &words[source % count];
            scope.spawn(move || feed(words, figures));
        }
        for stream in 0..arguments.streams.max(count) {
            let words = &words[stream % count];
            scope.spawn(move || watch(words, figures));
        }
        let begun = Instant::now();
        pass(part, (begun, figures), interrupt);
        println!("  node {count} is killed (kill -9)");
        nodes.kill(lost);
        pass(part, (begun, figures), interrupt);
        println!("  node {count} is started again");
        // Threads of the scope end in any case.
        let back = nodes.start(lost).and_then(|()| until(&words[lost], LIVE, &count.to_string()));
        if back.is_ok() {
            println!("  node {count} takes part again");
            pass(part, (begun, figures), interrupt);
        }
        figures.stop();
        back
    })
}

/// Lets some time pass, and shows how it goes.
fn pass(part: Duration, (begun, figures): (Instant, &Figures), interrupt: &Interrupt) {
    let (since, mut shown) = (Instant::now(), Instant::now());
    while since.elapsed() < part && !interrupt.was_asked() {
        thread::sleep(PAUSE);
        if shown.elapsed() >= LINE_INTERVAL {
            shown = Instant::now();
            println!("  {:>3.0} s  {}", begun.elapsed().as_secs_f64(), figures.line());
        }
    }
}

/// Waits until a server gives this as the first value of a statement.
fn until(words: &str, sql: &str, wanted: &str) -> Result<(), Failure> {
    let mut asked = Asked::new(words.to_owned())?;
    let begun = Instant::now();
    loop {
        let found = asked.ask(sql);
        if let Ok(rows) = &found
            && rows.first().and_then(|row| row.first()).and_then(Option::as_deref) == Some(wanted)
        {
            return Ok(());
        }
        if begun.elapsed() >= PATIENCE {
            return Err(Failure::Work(format!("{words}: {sql} gives {found:?}, and not {wanted}")));
        }
        thread::sleep(PAUSE);
    }
}

/// Loads through a node. A load of which nobody knows whether it is there is its source's last.
fn feed(words: &str, figures: &Figures) {
    let Ok(mut asked) = Asked::new(words.to_owned()) else { return };
    let mut source = figures.new_source();
    let mut number = 0;
    while figures.goes_on() {
        match asked.ask(&load(source, number)) {
            Ok(_) => {
                number += 1;
                figures.acknowledge(source, number);
            }
            Err(Refused::Nothing(_)) => thread::sleep(PAUSE),
            Err(Refused::Unknown(_)) => {
                figures.note_unknown(source);
                (source, number) = (figures.new_source(), 0);
            }
            Err(Refused::Failed(why)) => {
                figures.violate(format!("a load is refused: {why}"));
                return;
            }
        }
    }
}

/// The statement of a load.
fn load(source: u32, number: u64) -> String {
    let row = |slot: u64| {
        // Twice the slots are as much above all slots as below.
        let balance = i128::from(2 * slot) - i128::from(LOAD_ROWS - 1);
        format!("({slot}, {source}, {number}, {balance})")
    };
    let rows: Vec<String> = (0..LOAD_ROWS).map(row).collect();
    format!("INSERT INTO events VALUES {}", rows.join(", "))
}

/// Reads on a node, and checks that what it sees adds up.
fn watch(words: &str, figures: &Figures) {
    let Ok(mut asked) = Asked::new(words.to_owned()) else { return };
    while figures.goes_on() {
        match asked.ask(DASHBOARD) {
            Ok(rows) => figures.check(&rows),
            Err(Refused::Nothing(_) | Refused::Unknown(_)) => thread::sleep(PAUSE),
            Err(Refused::Failed(why)) => {
                figures.violate(format!("a dashboard is refused: {why}"));
                return;
            }
        }
    }
}

/// All nodes have to have all that was acknowledged, and the same.
fn check_end(nodes: &Nodes, figures: &Figures) {
    let begun = Instant::now();
    loop {
        let found = (0..nodes.count()).map(|node| counted(&nodes.words(node)));
        let wrong = match found.collect::<Result<Vec<_>, Refused>>() {
            Ok(found) => {
                found.iter().for_each(|rows| figures.check(rows));
                let is_same = found.iter().all(|rows| *rows == found[0]);
                let different = (!is_same).then(|| "nodes have different rows".to_owned());
                figures.missing(&found[0]).or(different)
            }
            Err(refused) => Some(format!("a node does not answer: {refused:?}")),
        };
        let Some(wrong) = wrong else { return };
        if begun.elapsed() >= PATIENCE {
            figures.violate(format!("in the end {wrong}"));
            return;
        }
        thread::sleep(PAUSE);
    }
}

/// What a dashboard on a node sees, in order.
fn counted(words: &str) -> Result<Vec<Vec<Option<String>>>, Refused> {
    let asked = Asked::new(words.to_owned());
    let mut rows = asked.map_err(|failure| Refused::Failed(format!("{failure:?}")))?.ask(DASHBOARD)?;
    rows.sort();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_adds_up_to_nothing() {
        let sql = load(3, 7);
        assert!(sql.starts_with("INSERT INTO events VALUES (0, 3, 7, -63), (1, 3, 7, -61)"), "{sql}");
        assert!(sql.ends_with("(63, 3, 7, 63)"), "{sql}");
    }

    #[test]
    fn other_directories_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("letters"), "dear").unwrap();
        assert!(prepare(place.path()).unwrap().is_err());
        let dir = place.path().join("demo");
        prepare(&dir).unwrap().unwrap();
        fs::create_dir(dir.join("node-1")).unwrap();
        prepare(&dir).unwrap().unwrap();
        assert!(!dir.join("node-1").exists());
    }
}
