// SPDX-License-Identifier: Apache-2.0
//! `coeval demo` as a process, on a tiny population: it runs, goes on where it was, and survives being killed.
// Helper functions of a test are a test too.
#![allow(clippy::unwrap_used)]

#[path = "../../../tests/bounded.rs"]
mod bounded;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn command(arguments: &[&str], dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coeval"));
    command.args(arguments).arg(dir).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn demo(dir: &Path, more: &[&str]) -> Command {
    let mut demo = command(&["demo", "--tiny", "--threads", "2", "--dir"], dir);
    demo.args(more);
    demo
}

#[track_caller]
fn finish(mut command: Command) -> String {
    let Output { status, stdout, stderr } = bounded::output(&mut command);
    let (shown, said) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert!(status.success(), "{status:?}\n{shown}\n{said}");
    shown
}

#[test]
fn the_demo_loads_runs_checks_and_goes_on_with_its_data() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let shown = finish(demo(&dir, &["--seconds", "3"]));
    for part in ["New database", "Loaded 1 warehouse", "New-Order", "Q22", "all passed", "Look further"] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let shown = finish(demo(&dir, &["--seconds", "1"]));
    assert!(shown.contains("nothing is missing") && shown.contains("going on without loading"), "{shown}");
    assert!(!shown.contains("Loaded"), "{shown}");
    let count = finish({
        let mut sql = command(&["sql"], &dir);
        sql.args(["-c", "SELECT count(*) > 0 AS some FROM orders"]);
        sql
    });
    assert!(count.contains(" t\n"), "{count}");
    finish(command(&["check"], &dir));
}

#[test]
fn a_demo_that_was_killed_is_whole_when_it_is_opened_again() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let mut child = demo(&dir, &["--seconds", "60"]).spawn().unwrap();
    let alarm = bounded::Alarm::set(&child, bounded::END_PATIENCE);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The second line of figures: transactions are running and have been acknowledged for a while.
    let running = lines.by_ref().map(Result::unwrap).filter(|line| line.contains("transactions/s")).nth(1);
    assert!(running.is_some(), "the demo ended by itself");
    drop(alarm);
    child.kill().unwrap();
    child.wait().unwrap();
    finish(command(&["check"], &dir));
    let shown = finish(demo(&dir, &["--seconds", "1"]));
    assert!(shown.contains("nothing is missing") && shown.contains("all passed"), "{shown}");
}

fn firehose(dir: &Path, more: &[&str]) -> Command {
    let mut demo = command(&["demo", "--ingest", "--threads", "2", "--rate", "50000", "--dir"], dir);
    demo.args(more);
    demo
}

#[test]
fn the_firehose_is_checked_and_goes_on_behind_its_offsets_when_it_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let mut child = firehose(&dir, &["--seconds", "60"]).spawn().unwrap();
    let alarm = bounded::Alarm::set(&child, bounded::END_PATIENCE);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = lines.by_ref().map(Result::unwrap).find(|line| line.contains("rows/s, load"));
    let running = running.expect("the demo goes on until it is killed");
    assert!(running.contains("passed"), "{running}");
    drop(alarm);
    child.kill().unwrap();
    child.wait().unwrap();
    finish(command(&["check"], &dir));
    let shown = finish(firehose(&dir, &["--seconds", "1"]));
    for part in ["nothing is missing", "going on behind them", "By region", "all passed", "Look further"] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let output = bounded::output(&mut demo(&dir, &["--seconds", "1"]));
    assert_eq!(output.status.code(), Some(1), "the other demo leaves this one's data alone");
}

#[test]
fn somebody_elses_database_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("mine");
    let mut sql = command(&["sql"], &dir);
    sql.args(["-c", "CREATE TABLE letters (id int PRIMARY KEY)"]);
    finish(sql);
    let output = bounded::output(&mut demo(&dir, &["--seconds", "1"]));
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stderr).unwrap().contains("not a demo's"));
}

/// To break it: have a killed node's loads acknowledged before they are on the others.
#[test]
fn a_cluster_loses_a_node_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let cluster = || demo(&dir, &["--cluster", "3", "--seconds", "9"]);
    let shown = finish(cluster());
    for part in
        ["node 3 is killed", "node 3 takes part again", "dashboards, all add up", "all nodes have all"]
    {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    finish(command(&["check"], &dir.join("node-1")));
    std::fs::remove_file(dir.join("demo.cluster")).unwrap();
    let output = bounded::output(&mut cluster());
    assert_eq!(output.status.code(), Some(1), "what is not a demo's is left alone");
}

fn with_replicas(dir: &Path, more: &[&str]) -> Command {
    let mut demo = demo(dir, &["--replicas", "2"]);
    demo.args(more);
    demo
}

#[test]
fn a_replica_takes_the_place_of_the_primary_that_is_killed_and_the_next_demo_goes_on_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let shown = finish(with_replicas(&dir, &["--seconds", "4"]));
    for part in [
        "New databases",
        "Loaded 1 warehouse",
        "node-3 follows node-1",
        "kill -9 of node-1, the primary",
        "all of them are there",
        "node-1 follows node-",
        "New-Order",
        "Age of the replicas' safe snapshots",
        "^ kill -9 of node-1",
        "of what was acknowledged: all passed",
        "Look further",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let primary = std::fs::read_to_string(dir.join("demo.primary")).unwrap();
    let primary = primary.trim();
    assert_ne!(primary, "node-1");
    finish(command(&["check"], &dir.join(primary)));
    let shown = finish(with_replicas(&dir, &["--seconds", "2"]));
    for part in ["going on without loading", &format!("kill -9 of {primary}"), "all passed"] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let output = bounded::output(&mut demo(&dir, &["--seconds", "1"]));
    assert_eq!(output.status.code(), Some(1), "the other demo leaves this one's data alone");
}

#[test]
fn a_demo_with_replicas_that_was_killed_leaves_no_server_and_whole_databases() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let mut child = with_replicas(&dir, &["--seconds", "120"]).spawn().unwrap();
    let alarm = bounded::Alarm::set(&child, bounded::END_PATIENCE);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let running = lines.by_ref().map(Result::unwrap).filter(|line| line.contains("transactions/s")).nth(1);
    assert!(running.is_some(), "the demo ended by itself");
    drop(alarm);
    child.kill().unwrap();
    child.wait().unwrap();
    // The servers notice that it is gone.
    let begun = Instant::now();
    while !bounded::output(&mut command(&["check"], &dir.join("node-1"))).status.success() {
        assert!(begun.elapsed() < Duration::from_secs(20), "a server is there still");
        std::thread::sleep(Duration::from_millis(50));
    }
    let shown = finish(with_replicas(&dir, &["--seconds", "2"]));
    assert!(shown.contains("going on without loading") && shown.contains("all passed"), "{shown}");
}

#[test]
fn replicas_are_about_commits_that_are_durable() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().join("demo");
    let output = bounded::output(&mut with_replicas(&dir, &["--durability", "none"]));
    assert_eq!(output.status.code(), Some(2));
}
