// SPDX-License-Identifier: Apache-2.0
//! `coeval demo --replicas N`: a primary under TPC-C, replicas that answer queries serializably, and the loss of the primary.
//!
//! What happens to the directory, which has one for each node:
//!
//! | what is there | what the demo does |
//! |---|---|
//! | nothing | loads `node-1`, the first primary |
//! | a demo with replicas | goes on with the node that was the primary last, also if it was only about to be; the others are copied anew |
//! | anything else | leaves it alone and says so |
//!
//! Which node that is stands in a file, which is written before a replica is promoted: what was acknowledged is there, however
//! the demo ends.

mod chart;
mod live;
mod outcome;

use super::{command, default_directory, load, of_bench, options};
use crate::arguments::DemoArguments;
use crate::directory;
use crate::failure::Failure;
use crate::interrupt::{Interrupt, STOPPING};
use crate::promote::promote_accepting_loss;
use coeval::{Database, Durability};
use coeval_bench::Options;
use coeval_bench::failover::{self, Plan};
use live::Live;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The file with the name of the node that is the primary.
const PRIMARY: &str = "demo.primary";

/// How names of nodes begin.
const NODE: &str = "node-";

/// Runs the demo.
///
/// # Errors
/// If the directory holds something else, a server does not do what it must, or a check finds a violation.
pub(super) fn run(
    arguments: &DemoArguments,
    replicas: usize,
    program: io::Result<PathBuf>,
) -> Result<(), Failure> {
    if arguments.durability != Durability::Fsync {
        let message =
            "--replicas is about commits that are durable on two machines: not with --durability none";
        return Err(Failure::Usage(message.to_owned()));
    }
    let program = program.map_err(|error| Failure::work("cannot find the program that this is", error))?;
    let dir = arguments.dir.clone().unwrap_or_else(|| default_directory("coeval-demo-replicas"));
    let directories = nodes(&dir, replicas)?;
    let primary = &directories[0];
    let db = directory::open_with(primary, directory::options())?;
    let size = load(&db, arguments, primary)?;
    let saved = db.checkpoint().map_err(|error| of_bench(error.into()))?;
    drop((saved, db));
    let options = options(arguments, size);
    print_plan(&options, replicas, &dir);
    let interrupt = Interrupt::watch(STOPPING);
    let live = Live::new(&interrupt, &dir, &directories);
    let plan = Plan { program, directories: directories.clone(), options };
    let outcome = failover::run(&plan, &live);
    live.end();
    let outcome = outcome.map_err(of_bench)?;
    outcome::print(&outcome, &mut io::stdout().lock())?;
    let last = dir.join(noted(&dir).unwrap_or_default());
    print_further(&dir, &last, replicas);
    if outcome.violations() == 0 { Ok(()) } else { Err(Failure::Work(outcome::verdict(&outcome))) }
}

/// The directories of all nodes, the primary's first. Those of others are not there.
fn nodes(dir: &Path, replicas: usize) -> Result<Vec<PathBuf>, Failure> {
    let cannot = |error: io::Error| Failure::work(format_args!("cannot use {}", dir.display()), error);
    fs::create_dir_all(dir).map_err(cannot)?;
    let primary = match noted(dir) {
        Some(name) => name,
        None if fs::read_dir(dir).map_err(cannot)?.next().is_none() => {
            let name = format!("{NODE}1");
            note(dir, &name).map_err(cannot)?;
            println!("New databases in {}.", dir.display());
            name
        }
        None => {
            return Err(Failure::Work(format!(
                "{} holds something that is not a demo with replicas; choose another directory with --dir",
                dir.display()
            )));
        }
    };
    let of_primary = dir.join(&primary);
    let failed = |error: coeval::Error| of_bench(error.into());
    if of_primary.exists() && Database::is_replica(&of_primary).map_err(failed)? {
        println!("An earlier demo was stopped while it was promoting {primary}: promoting it.");
        promote_accepting_loss(&of_primary)?;
    }
    remove_others(dir, &primary).map_err(cannot)?;
    let others = (1..).map(|number| format!("{NODE}{number}")).filter(|name| *name != primary);
    Ok(std::iter::once(of_primary.clone()).chain(others.take(replicas).map(|name| dir.join(name))).collect())
}

/// Removes what is no node's but the primary's, and what was put aside.
fn remove_others(dir: &Path, primary: &str) -> io::Result<()> {
    let mut has_removed = false;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_node = name.to_string_lossy().starts_with(NODE);
        if is_node && name != primary && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
            has_removed = true;
        }
    }
    if has_removed {
        println!(
            "{primary} was the primary of an earlier demo: going on with it; the others are copied anew."
        );
    }
    Ok(())
}

/// The name that is noted; only one of a node counts.
fn noted(dir: &Path) -> Option<String> {
    let name = fs::read_to_string(dir.join(PRIMARY)).ok()?;
    let name = name.trim();
    let number = name.strip_prefix(NODE)?;
    number.parse::<u32>().ok().map(|_| name.to_owned())
}

/// Notes who the primary is. By renaming, so that there is always one name.
fn note(dir: &Path, name: &str) -> io::Result<()> {
    let unfinished = dir.join(format!("{PRIMARY}.unfinished"));
    fs::write(&unfinished, format!("{name}\n"))?;
    fs::rename(unfinished, dir.join(PRIMARY))
}

fn print_plan(options: &Options, replicas: usize, dir: &Path) {
    let plural = |count: usize, word: &str| format!("{count} {word}{}", if count == 1 { "" } else { "s" });
    println!(
        "\nRunning for {} s and a failover: {} of TPC-C transactions on the primary; {} with {} of the 22 CH queries each, \
         SERIALIZABLE READ ONLY; each commit is on two disks before it is acknowledged.\n\
         In the middle the primary is killed. Stop with Ctrl-C, or kill all of it and start again: {}\n",
        options.seconds,
        plural(options.threads, "thread"),
        plural(replicas, "replica"),
        plural(options.streams, "stream"),
        command(&["demo", "--replicas", &replicas.to_string(), "--dir"], dir)
    );
}

fn print_further(dir: &Path, primary: &Path, replicas: usize) {
    println!("\nLook further:");
    println!("  {}    and there: SELECT * FROM coeval_tables;", command(&["sql"], primary));
    println!("  {}", command(&["check"], primary));
    let again = command(&["demo", "--replicas", &replicas.to_string(), "--dir"], dir);
    println!("  {again}    goes on with the same data");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noted_primary_comes_first_and_only_it_stays() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("demo");
        let names = |nodes: Vec<PathBuf>| -> Vec<String> {
            nodes.iter().map(|node| node.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        assert_eq!(names(nodes(&dir, 2).unwrap()), ["node-1", "node-2", "node-3"]);
        note(&dir, "node-2").unwrap();
        for name in ["node-1", "node-3", "node-1.term-4"] {
            fs::create_dir(dir.join(name)).unwrap();
        }
        assert_eq!(names(nodes(&dir, 1).unwrap()), ["node-2", "node-1"]);
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "the note alone");
    }

    #[test]
    fn other_directories_and_other_notes_are_left_alone() {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("letters"), "dear").unwrap();
        assert!(nodes(place.path(), 2).is_err());
        fs::write(place.path().join(PRIMARY), "../elsewhere").unwrap();
        assert!(nodes(place.path(), 2).is_err());
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
    }
}
