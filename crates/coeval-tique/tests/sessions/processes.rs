// SPDX-License-Identifier: Apache-2.0
//! The process is killed; another opens what it left.

use crate::{bounded, persistent, rows};
use coeval_tique::{Database, Options};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// In the environment of the process that is killed: where its data lies.
const DIRECTORY: &str = "COEVAL_TIQUE_KILLED_IN";
const ROUNDS: usize = 4;

fn open(directory: &Path) -> Database {
    let options = Options { checkpoint_at: 20, ..Options::default() };
    Database::open(persistent(directory), options).unwrap()
}

/// Commits one transaction after the other, and says so, until it is killed. A test in name only.
#[test]
fn who_is_killed_commits_until_then() {
    let Some(directory) = std::env::var_os(DIRECTORY) else { return };
    let database = open(Path::new(&directory));
    let mut session = database.session().unwrap();
    session.execute("CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY, v text)").unwrap();
    session.execute("CREATE TABLE IF NOT EXISTS u (k int PRIMARY KEY, n int)").unwrap();
    session.execute("INSERT INTO u VALUES (0, 0) ON CONFLICT DO NOTHING").unwrap();
    for _ in 0..100_000 {
        let next: i64 = rows(&mut session, "SELECT n + 1 FROM u")[0].parse().unwrap();
        let sql = format!("BEGIN; UPDATE u SET n = n + 1; INSERT INTO t VALUES ({next}, 'it''s \\'); COMMIT");
        session.execute(&sql).unwrap();
        eprintln!("committed {next}");
    }
}

#[test]
fn what_was_acknowledged_outlives_the_process_and_nothing_is_half() {
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::who_is_killed_commits_until_then", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let target = acknowledged + 15 + 9 * round as i64;
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let alarm = bounded::Alarm::set(&child, bounded::END_PATIENCE);
        while let Some(line) = lines.next() {
            let Some(number) = line.strip_prefix("committed ") else {
                panic!("the process says: {line}\n{}", lines.collect::<Vec<_>>().join("\n"));
            };
            acknowledged = number.parse().unwrap();
            if acknowledged == target {
                child.kill().unwrap();
            }
        }
        drop(alarm);
        child.wait().unwrap();
        assert!(acknowledged >= target, "{acknowledged} of {target} commits");
        let database = open(directory.path());
        let mut session = database.session().unwrap();
        let count: i64 = rows(&mut session, "SELECT n FROM u")[0].parse().unwrap();
        assert!((acknowledged..=acknowledged + 1).contains(&count), "{count}, {acknowledged} acknowledged");
        let all = "SELECT count(*), min(k), max(k), count(DISTINCT v), min(v) FROM t";
        assert_eq!(rows(&mut session, all), [format!("{count}|1|{count}|1|it's \\")]);
    }
}
