// SPDX-License-Identifier: Apache-2.0
//! One directory, opened again and again by a process that is killed at a random moment.
//!
//! The child says before each transaction what it will do, and after its commit that it was acknowledged. After
//! each kill the directory is checked offline; mostly it is then opened here and compared with what was said,
//! sometimes the next child finds it as the last one left it. A kill loses no page cache: what a machine's crash
//! may do is tested in `coeval-store` on a simulated disk.
//!
//! That the harness sees a fault is a test too: the same with a child that does something wrong.

use crate::contents;
use crate::model::Model;
use coeval::{CheckpointPolicy, Database, Error};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How many kills: as many as show each fault. `COEVAL_KILLS` asks for more.
const KILLS: usize = 100;

/// A fault must be seen within so many kills.
const KILLS_WITH_FAULT: usize = 100;

/// A child that takes longer to open a small directory hangs.
const OPEN_TIMEOUT: Duration = Duration::from_secs(60);

/// A child is killed when it has said fewer lines than these, each the begin or the end of a transaction or a number.
const LINES_MAX: usize = 120;

/// Or when it has worked for so long.
const LIFE_MAX: Duration = Duration::from_secs(5);

fn open(dir: &Path) -> Result<Database, Error> {
    Database::options().checkpoint(CheckpointPolicy::Manual).open(dir)
}

/// A child and what it says.
pub(crate) struct Life {
    child: Child,
    lines: Receiver<String>,
    /// What it has for a directory for temporary files: a kill leaves them behind.
    _files: TempDir,
}

impl Life {
    fn begin(dir: &Path, seed: u64, fault: &str) -> Self {
        let files = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_crash_child"))
            .env("TMPDIR", files.path())
            .arg(dir)
            .arg(seed.to_string())
            .arg(fault)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines, _files: files }
    }

    /// A child without faults that has the directory open.
    pub(crate) fn begin_and_wait(dir: &Path) -> Self {
        contents::create(&open(dir).unwrap()).unwrap();
        let life = Self::begin(dir, 1, "nothing");
        assert_eq!(life.lines.recv_timeout(OPEN_TIMEOUT).unwrap(), "open");
        life
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it live for a while and kills it; what it said is told to the model.
    fn live(mut self, dice: &mut SmallRng, model: &mut Model) -> Result<(), String> {
        let mut heard = Vec::new();
        if dice.random_ratio(1, 8) {
            // While it opens.
            std::thread::sleep(Duration::from_micros(dice.random_range(0..30_000)));
        } else {
            // In the middle of its work, however fast the machine is.
            let count = dice.random_range(1..LINES_MAX);
            let ends = Instant::now() + LIFE_MAX;
            heard.extend(self.lines.recv_timeout(OPEN_TIMEOUT).ok());
            while heard.len() < count
                && let Ok(line) = self.lines.recv_timeout(ends.saturating_duration_since(Instant::now()))
            {
                heard.push(line);
            }
            // Right behind what it said last, or a while later.
            if dice.random() {
                std::thread::sleep(Duration::from_micros(dice.random_range(0..20_000)));
            }
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        heard.extend(self.lines.iter());
        let outcome = heard.iter().try_for_each(|line| model.hear(line));
        model.end_of_life();
        outcome
    }
}

fn check(dir: &Path) -> Result<(), String> {
    let report = Database::check(dir).map_err(|error| error.to_string())?;
    if report.is_clean() { Ok(()) } else { Err(format!("the check finds {:?}", report.problems)) }
}

fn compare(dir: &Path, model: &mut Model) -> Result<(), String> {
    let db = open(dir).map_err(|error| error.to_string())?;
    model.compare(&contents::read(&db)?)
}

/// Kills until something is wrong, at most so many times.
fn kill(kills: usize, seed: u64, fault: &str) -> Result<Model, String> {
    let dir = tempfile::tempdir().unwrap();
    contents::create(&open(dir.path()).unwrap()).unwrap();
    let mut dice = SmallRng::seed_from_u64(seed);
    let mut model = Model::default();
    for round in 1..=kills {
        let life = Life::begin(dir.path(), dice.random(), fault);
        let outcome = life.live(&mut dice, &mut model).and_then(|()| check(dir.path())).and_then(|()| {
            let is_compared = round == kills || dice.random_ratio(3, 4);
            if is_compared { compare(dir.path(), &mut model) } else { Ok(()) }
        });
        outcome.map_err(|what| format!("after kill {round}: {what}"))?;
    }
    Ok(model)
}

#[test]
fn after_every_kill_all_that_was_acknowledged_is_there_and_nothing_half() {
    let kills = std::env::var("COEVAL_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(KILLS);
    let model = kill(kills, 20_260_801, "nothing").unwrap();
    let (acknowledged, in_doubt, given) = (model.acknowledged, model.in_doubt, model.given());
    println!("{kills} kills, {acknowledged} acknowledged, {in_doubt} in doubt, {given} numbers");
    assert!(given > kills, "sequences gave numbers: {given}");
    assert!(model.acknowledged > 2 * kills, "there was load: {} acknowledged", model.acknowledged);
    assert!(model.in_doubt > kills, "kills met transactions under way: {}", model.in_doubt);
}

#[test]
fn a_process_that_is_killed_while_it_makes_a_database_leaves_a_directory_that_opens() {
    let mut dice = SmallRng::seed_from_u64(1);
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let mut life = Life::begin(dir.path(), 1, "nothing");
        std::thread::sleep(Duration::from_micros(dice.random_range(0..15_000)));
        life.child.kill().unwrap();
        life.child.wait().unwrap();
        contents::create(&open(dir.path()).unwrap()).unwrap();
        check(dir.path()).unwrap();
    }
}

#[test]
fn a_number_that_is_given_again_after_a_kill_is_seen() {
    let mut model = Model::default();
    for line in ["given ids 1", "given numbers 1", "given ids 2"] {
        model.hear(line).unwrap();
    }
    model.end_of_life();
    assert_eq!(model.hear("given ids 2").unwrap_err(), "sequence ids gives 2 twice");
}

fn assert_is_seen(fault: &str, words: &[&str]) {
    let seen = kill(KILLS_WITH_FAULT, 5, fault).expect_err("the fault must be seen");
    assert!(words.iter().any(|word| seen.contains(word)), "{fault} shows otherwise: {seen}");
}

#[test]
fn an_acknowledgement_before_the_commit_is_seen() {
    assert_is_seen("acknowledges-early", &["None, not Some", "Some", "not None"]);
}

#[test]
fn a_transaction_in_two_halves_is_seen() {
    assert_is_seen("splits-transactions", &["half there", "worker"]);
}

#[test]
fn a_log_that_lies_about_what_is_written_is_seen() {
    // A sequence loses what it had logged ahead: its numbers are given a second time.
    assert_is_seen("holds-log-back", &["worker", "damaged", "damage", "twice"]);
}

#[test]
fn a_bit_that_turned_in_a_segment_is_seen() {
    assert_is_seen("turns-bits", &["checksum"]);
}
